//! Object ids.

use crate::error::{Error, Result, Wrong};
use dolmen_types::{ObjectClass, ObjectType, Oid as Id};
use pyo3::prelude::{Bound, PyAnyMethods, PyModule, PyModuleMethods, PyResult, pyclass, pymethods};
use pyo3::types::PyType;

/// The id of an object: 128 bits, of which the high half carries type, class and number of groups. Made by
/// ``Container.create_kv`` and its like, or from two numbers or a text.
///
/// Ids are equal, ordered and hashed by their value; ``str(oid)`` is what ``Oid.parse`` reads, ``HI.LO`` in decimal.
#[pyclass(frozen, eq, ord, hash, module = "dolmen", name = "Oid", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Oid(pub(crate) Id);

#[pymethods]
impl Oid {
    #[new]
    fn new(hi: u64, lo: u64) -> Self {
        Self(Id { hi, lo })
    }

    /// The id that ``str(oid)`` has written; raises Invalid for any other text.
    #[staticmethod]
    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('.').and_then(|(hi, lo)| Some((hi.parse().ok()?, lo.parse().ok()?)));
        let (hi, lo) = parts.ok_or(Error::Argument(Wrong::OidText))?;
        Ok(Self(Id { hi, lo }))
    }

    /// The high 64 bits.
    #[getter]
    fn hi(&self) -> u64 {
        self.0.hi
    }

    /// The low 64 bits.
    #[getter]
    fn lo(&self) -> u64 {
        self.0.lo
    }

    /// The name of the object's class, such as ``S1`` or ``SX``.
    #[getter]
    fn object_class(&self) -> String {
        self.0.class().to_string()
    }

    /// What kind of object it names: ``kv``, ``array`` or ``object``.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.object_type() {
            Some(kind) if kind.is_kv() => "kv",
            Some(kind) if kind.is_array() => "array",
            _ => "object",
        }
    }

    /// For pickle and copy.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (u64, u64)) {
        let own = slf.get().0;
        (slf.get_type(), (own.hi, own.lo))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Oid({}, {})", self.0.hi, self.0.lo)
    }
}

/// What is told of an id that is of another kind than what is opened.
pub(crate) fn wrong_kind(oid: Id) -> Error {
    let words = match Oid(oid).kind() {
        "kv" => format!("{oid} is the id of a key-value store: `kv` opens it"),
        "array" => format!("{oid} is the id of an array: `array` opens it"),
        _ if oid.object_type().is_some() => {
            format!("{oid} is the id of an object with two levels of keys: `object` opens it")
        }
        _ => format!(
            "{oid} is the id of nothing: ids are made by `create_kv`, `create_array` and `create_object`"
        ),
    };
    Error::from(dolmen_types::Invalid::ObjectId).about(words)
}

/// The class with this name; without one, what the container gives.
pub(crate) fn class_of(name: Option<&str>) -> Result<ObjectClass> {
    match name {
        None => Ok(ObjectClass::UNKNOWN),
        Some(name) => ObjectClass::from_name(name).ok_or(Error::Argument(Wrong::ObjectClass)),
    }
}

/// The type of a key-value store whose keys are ordered like this.
pub(crate) fn kv_type(keys: &str) -> Result<ObjectType> {
    match keys {
        "hashed" => Ok(ObjectType::KvHashed),
        "lexical" => Ok(ObjectType::KvLexical),
        "integer" => Ok(ObjectType::KvUint64),
        _ => Err(Error::Argument(Wrong::Keys)),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Oid>()
}
