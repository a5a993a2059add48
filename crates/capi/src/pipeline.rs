//! Filters and aggregations: put together, checked, and run over the dkeys of an object.
//!
//! They are evaluated by the client, on what it reads page by page.

mod like;
mod program;
mod rows;
mod run;
mod value;

use crate::error::{Der, Result, der, silent};
use crate::event::{Ev, go};
use crate::handle;
use crate::io::{CIod, code};
use crate::list::KeyDesc;
use crate::raw::{Out, allocate, release};
use crate::tx::When;
use crate::types::{CAnchor, Handle, Iov, SgList};
use core::ffi::c_int;
pub(crate) use like::is_like;
use program::{PARTS_MAX, Program};
use run::{Run, RunOut, Stats};
use std::sync::Arc;

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

/// The version that pipelines are made with.
const VERSION: u64 = 1;

const EMPTY: Iov = Iov { buf: Out::NULL, buf_len: 0, len: 0 };

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
        if program::is_condition(&filter.get()?)? {
            own.filters = append(own.filters, own.num_filters, filter)?;
            own.num_filters += 1;
        } else {
            own.aggr_filters = append(own.aggr_filters, own.num_aggr_filters, filter)?;
            own.num_aggr_filters += 1;
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

/// Whether a pipeline is one: known nodes and types, and as many operands as each operator takes, of sorts that it takes.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_check(pipeline: Out<Pipeline>) -> c_int {
    der(|| Program::of(pipeline).map(drop))
}

/// Runs a pipeline over an object, or one dkey of it: what meets its conditions comes back, and what it computes of that.
///
/// The program's pipeline is read while it is launched; its lists and buffers are written when it ends.
#[unsafe(no_mangle)]
extern "C" fn daos_pipeline_run(
    coh: Handle,
    oh: Handle,
    pipeline: Out<Pipeline>,
    th: Handle,
    flags: u64,
    dkey: Out<Iov>,
    nr_iods: Out<u32>,
    iods: Out<CIod>,
    anchor: Out<CAnchor>,
    nr_kds: Out<u32>,
    kds: Out<KeyDesc>,
    sgl_keys: Out<SgList>,
    sgl_recx: Out<SgList>,
    recx_size: Out<u64>,
    sgl_agg: Out<SgList>,
    stats: Out<Stats>,
    ev: Ev,
) -> c_int {
    der(|| {
        let cont = handle::cont(coh)?;
        if oh.cookie == 0 {
            // All objects of a container: there is nothing in which their ids could come back.
            return Err(Der::NOSYS);
        }
        let object = handle::object(oh)?;
        if !Arc::ptr_eq(&object.cont, &cont) {
            return Err(Der::INVAL);
        }
        let when = When::of(th, &cont)?.seen_by(&object, ev);
        let program = Program::of(pipeline)?;
        let out =
            RunOut { nr_iods, iods, anchor, nr_kds, kds, sgl_keys, sgl_recx, recx_size, sgl_agg, stats };
        let run = Run::of(object, when, program, flags, dkey, out)?;
        code(go(ev, move |way| run.carry_out(way)))
    })
}
