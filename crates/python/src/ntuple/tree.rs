//! Arrays as Python has them: tuples, whose first word says what they are, with memory at the leaves.
//!
//! ``("values", dtype, memory)``, ``("lists", of, offsets, content)``, ``("repeated", count, length, content)``,
//! ``("record", length, [(name, content), …])``, ``("variant", tags, index, [content, …])``. A dtype is one of numpy without the order
//! of bytes; ``of`` is ``items``, ``text`` or ``streamed``; offsets and indices are of 64 bits, tags of 8.

use crate::buffer::{Buffer, Lent};
use crate::error::{Error, of_type};
use dolmen_rntuple::format::schema::InMemory;
use dolmen_rntuple::write::{Flat, Given};
use dolmen_rntuple::{Array, Lists, Values};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::{
    Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyErr, PyListMethods, PyResult, PyTupleMethods, Python,
};
use pyo3::types::{PyList, PyTuple};

/// Trees within each other that are taken apart: as many as fields of a schema may be.
const DEPTH_MAX: usize = 64;

/// The tree of an array, whose memory it gets.
pub(super) fn shown(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyTuple>> {
    match array {
        Array::Values(values) => {
            let dtype = dtype(&values);
            ("values", dtype, memory(py, values)?).into_pyobject(py)
        }
        Array::Lists { of, offsets, content } => {
            let of = match of {
                Lists::Items => "items",
                Lists::Text => "text",
                Lists::Streamed => "streamed",
            };
            ("lists", of, memory(py, Values::I64(offsets))?, shown(py, *content)?).into_pyobject(py)
        }
        Array::Repeated { count, len, content } => {
            ("repeated", count, len, shown(py, *content)?).into_pyobject(py)
        }
        Array::Record { len, fields } => {
            let shown = fields.into_iter().map(|(name, field)| Ok((name.into_string(), shown(py, field)?)));
            ("record", len, shown.collect::<PyResult<Vec<_>>>()?).into_pyobject(py)
        }
        Array::Variant { tags, index, contents } => {
            let contents =
                contents.into_iter().map(|content| shown(py, content)).collect::<PyResult<Vec<_>>>()?;
            ("variant", memory(py, Values::I8(tags))?, memory(py, Values::I64(index))?, contents)
                .into_pyobject(py)
        }
    }
}

fn memory(py: Python<'_>, values: Values) -> PyResult<Py<Buffer>> {
    Py::new(py, Buffer::of_values(values))
}

fn dtype(values: &Values) -> &'static str {
    match values {
        Values::Bool(_) => "?",
        Values::I8(_) => "i1",
        Values::U8(_) => "u1",
        Values::I16(_) => "i2",
        Values::U16(_) => "u2",
        Values::I32(_) => "i4",
        Values::U32(_) => "u4",
        Values::I64(_) => "i8",
        Values::U64(_) => "u8",
        Values::F32(_) => "f4",
        Values::F64(_) => "f8",
    }
}

/// The array of a tree, whose memory is copied.
pub(super) fn taken(tree: &Bound<'_, PyAny>) -> PyResult<Array> {
    taken_at(tree, 0)
}

/// A field that is written: what is flat stays where it is.
pub(super) enum Lending {
    Array(Array),
    Flat(InMemory, Lent),
}

impl Lending {
    /// Of a tree, of which memory that is not flat is copied.
    pub(super) fn of(tree: &Bound<'_, PyAny>) -> PyResult<Self> {
        let flat = tree.extract::<(String, String, Bound<'_, PyAny>)>();
        let Some((_, dtype, memory)) = flat.ok().filter(|(what, dtype, _)| what == "values" && dtype != "?")
        else {
            return taken(tree).map(Self::Array);
        };
        let (kind, lent) = (kind(&dtype)?, Lent::to_read(&memory)?);
        Flat::new(kind, lent.bytes()).ok_or_else(part)?;
        Ok(Self::Flat(kind, lent))
    }

    pub(super) fn given(&self) -> Given<'_> {
        match self {
            Self::Array(array) => array.into(),
            Self::Flat(kind, lent) => Flat::new(*kind, lent.bytes()).expect("it was looked at").into(),
        }
    }
}

fn part() -> PyErr {
    PyValueError::new_err("memory has a part of a number at its end")
}

fn taken_at(tree: &Bound<'_, PyAny>, depth: usize) -> PyResult<Array> {
    let tuple = tree.cast::<PyTuple>().map_err(|_other| of_type("an array is a tuple"))?;
    let at = |place| tuple.get_item(place);
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err("there are too many arrays within each other"));
    }
    let content = |place| Ok::<_, PyErr>(Box::new(taken_at(&at(place)?, depth + 1)?));
    match &*at(0)?.extract::<String>()? {
        "values" => Ok(Array::Values(values(&at(1)?.extract::<String>()?, &at(2)?)?)),
        "lists" => {
            let of = match &*at(1)?.extract::<String>()? {
                "text" => Lists::Text,
                "streamed" => Lists::Streamed,
                _ => Lists::Items,
            };
            let Values::I64(offsets) = values("i8", &at(2)?)? else { unreachable!("that is what i8 is") };
            Ok(Array::Lists { of, offsets, content: content(3)? })
        }
        "repeated" => {
            Ok(Array::Repeated { count: at(1)?.extract()?, len: at(2)?.extract()?, content: content(3)? })
        }
        "record" => {
            let mut fields = Vec::new();
            for field in at(2)?.cast::<PyList>()?.iter() {
                let (name, content) = field.extract::<(String, Bound<'_, PyAny>)>()?;
                fields.push((name.into(), taken_at(&content, depth + 1)?));
            }
            Ok(Array::Record { len: at(1)?.extract()?, fields })
        }
        "variant" => {
            let Values::I8(tags) = values("i1", &at(1)?)? else { unreachable!("that is what i1 is") };
            let Values::I64(index) = values("i8", &at(2)?)? else { unreachable!("that is what i8 is") };
            let contents = at(3)?;
            let contents = contents.cast::<PyList>()?.iter();
            let contents = contents.map(|content| taken_at(&content, depth + 1)).collect::<PyResult<_>>()?;
            Ok(Array::Variant { tags, index, contents })
        }
        _ => Err(of_type("there is no such array")),
    }
}

fn kind(dtype: &str) -> PyResult<InMemory> {
    Ok(match dtype {
        "?" => InMemory::Bool,
        "i1" => InMemory::I8,
        "u1" => InMemory::U8,
        "i2" => InMemory::I16,
        "u2" => InMemory::U16,
        "i4" => InMemory::I32,
        "u4" => InMemory::U32,
        "i8" => InMemory::I64,
        "u8" => InMemory::U64,
        "f4" => InMemory::F32,
        "f8" => InMemory::F64,
        _ => return Err(of_type("there is no field of such values")),
    })
}

fn values(dtype: &str, memory: &Bound<'_, PyAny>) -> PyResult<Values> {
    let kind = kind(dtype)?;
    let lent = Lent::to_read(memory)?;
    let bytes = lent.bytes();
    let values = memory.py().detach(|| Values::of_bytes(kind, bytes)).map_err(Error::from)?;
    values.ok_or_else(part)
}
