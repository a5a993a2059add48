//! Filters and aggregations: put together and checked. Running them beside the data does not exist yet.

use crate::error::{Der, Result, der, silent};
use crate::event::{Ev, run};
use crate::handle;
use crate::raw::{Out, allocate, release};
use crate::types::{Handle, Iov};
use core::ffi::c_int;

/// A node of an expression.
//= daos:src/include/daos_pipeline.h daos_filter_part_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Part {
    part_type: Iov,
    data_type: Iov,
    num_operands: u32,
    akey: Iov,
    num_constants: usize,
    constant: Out<Iov>,
    data_offset: usize,
    data_len: usize,
}

/// An expression: operators before their operands.
//= daos:src/include/daos_pipeline.h daos_filter_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Filter {
    filter_type: Iov,
    num_parts: u32,
    parts: Out<Out<Part>>,
}

/// Conditions, and what is computed of the values that meet them.
//= daos:src/include/daos_pipeline.h daos_pipeline_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Pipeline {
    version: u64,
    num_filters: u32,
    filters: Out<Out<Filter>>,
    num_aggr_filters: u32,
    aggr_filters: Out<Out<Filter>>,
}

const _: () = assert!(size_of::<Part>() == 112);
const _: () = assert!(size_of::<Filter>() == 40);
const _: () = assert!(size_of::<Pipeline>() == 40);

const VERSION: u64 = 1;
const CONDITION: &[u8] = b"DAOS_FILTER_CONDITION";
const AGGREGATION: &[u8] = b"DAOS_FILTER_AGGREGATION";
/// Expressions have a few dozen nodes.
const PARTS_MAX: u32 = 4096;

const EMPTY: Iov = Iov { buf: Out::NULL, buf_len: 0, len: 0 };

/// Operators with the least and the most operands that they take, then what has none.
const OPERATORS: [(&[u8], u32, u32); 19] = [
    (b"DAOS_FILTER_FUNC_EQ", 2, 2),
    (b"DAOS_FILTER_FUNC_NE", 2, 2),
    (b"DAOS_FILTER_FUNC_LT", 2, 2),
    (b"DAOS_FILTER_FUNC_LE", 2, 2),
    (b"DAOS_FILTER_FUNC_GE", 2, 2),
    (b"DAOS_FILTER_FUNC_GT", 2, 2),
    (b"DAOS_FILTER_FUNC_IN", 2, u32::MAX),
    (b"DAOS_FILTER_FUNC_LIKE", 2, 2),
    (b"DAOS_FILTER_FUNC_ISNULL", 1, 1),
    (b"DAOS_FILTER_FUNC_ISNOTNULL", 1, 1),
    (b"DAOS_FILTER_FUNC_NOT", 1, 1),
    (b"DAOS_FILTER_FUNC_AND", 2, u32::MAX),
    (b"DAOS_FILTER_FUNC_OR", 2, u32::MAX),
    (b"DAOS_FILTER_FUNC_BITAND", 2, 2),
    (b"DAOS_FILTER_FUNC_SUM", 1, 1),
    (b"DAOS_FILTER_FUNC_MIN", 1, 1),
    (b"DAOS_FILTER_FUNC_MAX", 1, 1),
    (b"DAOS_FILTER_FUNC_AVG", 1, 1),
    (b"DAOS_FILTER_FUNC_COUNT", 1, 1),
];
const LEAVES: [&[u8]; 4] =
    [b"DAOS_FILTER_OID", b"DAOS_FILTER_DKEY", b"DAOS_FILTER_AKEY", b"DAOS_FILTER_CONST"];

/// The text of a buffer, which may count its zero.
fn word<'a>(iov: Iov) -> Result<&'a [u8]> {
    let bytes = iov.bytes()?;
    Ok(bytes.strip_suffix(b"\0").unwrap_or(bytes))
}

/// Appends an address to a list of a C program, which is made anew.
fn append<T: Copy>(list: Out<Out<T>>, count: u32, item: Out<T>) -> Result<Out<Out<T>>> {
    if count >= PARTS_MAX {
        return Err(Der::OVERFLOW);
    }
    let old = list.list(count as usize)?;
    let grown: Out<Out<T>> = Out::of(allocate((old.len() + 1) * size_of::<Out<T>>())?.cast());
    grown.copy_from(old)?;
    grown.at(old.len()).set(item)?;
    release(list.as_ptr());
    Ok(grown)
}

/// An empty pipeline.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_init(pipeline: Out<Pipeline>) {
    let empty = Pipeline {
        version: VERSION,
        num_filters: 0,
        filters: Out::NULL,
        num_aggr_filters: 0,
        aggr_filters: Out::NULL,
    };
    silent((), || pipeline.set_if_wanted(empty));
}

/// An empty filter.
#[unsafe(no_mangle)]
extern "C" fn daos_filter_init(filter: Out<Filter>) {
    let empty = Filter { filter_type: EMPTY, num_parts: 0, parts: Out::NULL };
    silent((), || filter.set_if_wanted(empty));
}

/// Appends a node to a filter; the filter keeps its address.
#[unsafe(no_mangle)]
extern "C" fn daos_filter_add(filter: Out<Filter>, part: Out<Part>) -> c_int {
    der(|| {
        let (mut own, part) = (filter.get()?, part.check()?);
        own.parts = append(own.parts, own.num_parts, part)?;
        own.num_parts += 1;
        filter.set(own)
    })
}

/// Appends a filter to a pipeline, by its type; the pipeline keeps its address.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_add(pipeline: Out<Pipeline>, filter: Out<Filter>) -> c_int {
    der(|| {
        let mut own = pipeline.get()?;
        match word(filter.get()?.filter_type)? {
            CONDITION => {
                own.filters = append(own.filters, own.num_filters, filter)?;
                own.num_filters += 1;
            }
            AGGREGATION => {
                own.aggr_filters = append(own.aggr_filters, own.num_aggr_filters, filter)?;
                own.num_aggr_filters += 1;
            }
            _ => return Err(Der::INVAL),
        }
        pipeline.set(own)
    })
}

/// Frees what was allocated to put a pipeline together; filters and nodes are the program's.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_free(pipeline: Out<Pipeline>) -> c_int {
    let freed = der(|| {
        let own = pipeline.get()?;
        for (list, count) in [(own.filters, own.num_filters), (own.aggr_filters, own.num_aggr_filters)] {
            for filter in list.list(count as usize)? {
                let inner = filter.get()?;
                release(inner.parts.as_ptr());
                filter.set(Filter { num_parts: 0, parts: Out::NULL, ..inner })?;
            }
            release(list.as_ptr());
        }
        Ok(())
    });
    if freed == 0 {
        daos_pipeline_init(pipeline);
    }
    freed
}

/// Whether a pipeline is one: known types, and as many operands as each operator takes.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_check(pipeline: Out<Pipeline>) -> c_int {
    der(|| check(pipeline))
}

fn check(pipeline: Out<Pipeline>) -> Result<()> {
    let own = pipeline.get()?;
    if own.version != VERSION || own.num_filters > PARTS_MAX || own.num_aggr_filters > PARTS_MAX {
        return Err(Der::INVAL);
    }
    let lists =
        [(own.filters, own.num_filters, CONDITION), (own.aggr_filters, own.num_aggr_filters, AGGREGATION)];
    for (list, count, kind) in lists {
        for filter in list.list(count as usize)? {
            let filter = filter.get()?;
            if word(filter.filter_type)? != kind || filter.num_parts > PARTS_MAX {
                return Err(Der::INVAL);
            }
            check_parts(filter.parts.list(filter.num_parts as usize)?)?;
        }
    }
    Ok(())
}

/// Follows the nodes: each operator is owed its operands, and the last node pays the last of them.
fn check_parts(parts: &[Out<Part>]) -> Result<()> {
    let mut owed = 1_u64;
    for part in parts {
        owed = owed.checked_sub(1).ok_or(Der::INVAL)?;
        let part = part.get()?;
        let name = word(part.part_type)?;
        if LEAVES.contains(&name) {
            if name == b"DAOS_FILTER_CONST" && (part.num_constants == 0 || part.constant.is_null()) {
                return Err(Der::INVAL);
            }
            continue;
        }
        let (_, least, most) = OPERATORS.iter().find(|row| row.0 == name).ok_or(Der::NOSYS)?;
        if !(least..=most).contains(&&part.num_operands) {
            return Err(Der::INVAL);
        }
        owed += u64::from(part.num_operands);
    }
    if owed == 0 { Ok(()) } else { Err(Der::INVAL) }
}

/// Runs a pipeline beside the data: does not exist yet; what is no pipeline is refused all the same.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_run(
    coh: Handle,
    oh: Handle,
    pipeline: Out<Pipeline>,
    _th: Handle,
    _flags: u64,
    _dkey: Out<Iov>,
    _nr_iods: Out<u32>,
    _iods: Out<u8>,
    _anchor: Out<u8>,
    _nr_kds: Out<u32>,
    _kds: Out<u8>,
    _sgl_keys: Out<u8>,
    _sgl_recx: Out<u8>,
    _recx_size: Out<u64>,
    _sgl_agg: Out<u8>,
    _stats: Out<u8>,
    ev: Ev,
) -> c_int {
    run(ev, || {
        handle::cont(coh)?;
        handle::object(oh)?;
        check(pipeline)?;
        Err(Der::NOSYS)
    })
}
