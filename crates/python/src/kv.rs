//! Key-value stores.

use crate::buffer::{Buffer, Lent, copy_out, key, keys, shown, spelt};
use crate::error::{Error, Named, Result, of_type};
use crate::oid::{Oid, wrong_kind};
use crate::slot::Slot;
use crate::tx::{Home, When};
use dolmen_client::{
    Anchor, At, Container, IoBuf, Kv as Client, ObjectType, Oid as Id, Page, PutCond, Way, side_by_side,
};
use dolmen_types::KeyKind;
use dolmen_types::limits::{KEY_BYTES_MAX, LEXICAL_KEY_BYTES_MAX, SINGLE_BYTES_MAX};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::{PyBytes, PyDict, PyDictMethods};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The akey of all values, as `dolmen_client::Kv` has it.
const AKEY: &[u8] = b"0";

/// A key-value store, which is used as a dict of bytes: ``kv[key]``, ``kv[key] = value``, ``del kv[key]``, ``key in kv``,
/// ``for key in kv``. Made by ``Container.create_kv`` and ``Container.kv``; that of ``Transaction.kv`` reads and writes in the
/// transaction.
///
/// A key is bytes, text (as UTF-8), or a number from 0 to 2**64 - 1, which is 8 bytes, little-endian (``keys="integer"`` has such keys
/// alone); it has 1 to 2048 bytes, for ``keys="lexical"`` 80 at most. A value is text or anything contiguous with the buffer protocol,
/// of one byte to 32 MiB: arrays and files take more. Each operation is atomic. May be used by any number of threads at once.
#[pyclass(frozen, mapping, module = "dolmen", name = "Kv")]
pub(crate) struct Kv {
    slot: Slot<Client>,
    when: When,
    oid: Id,
    home: Home,
}

impl Kv {
    pub(crate) fn open(py: Python<'_>, cont: &Slot<Container>, oid: Id, when: When) -> Result<Self> {
        if !oid.object_type().is_some_and(ObjectType::is_kv) {
            return Err(wrong_kind(oid));
        }
        let kv = cont.run(py, |cont| Ok(Client::open(cont, oid)?))?;
        Ok(Self { slot: cont.hold(kv)?, when, oid, home: Home::of(py, cont)? })
    }

    pub(crate) fn id(&self) -> Id {
        self.oid
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn when(&self) -> &When {
        &self.when
    }

    fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Client, At<'_>) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |kv| self.when.at(|at| body(kv, at)))
    }

    /// The same, of what changes something.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Client, At<'_>) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |kv| self.when.change(self.slot.session(), |at| body(kv, at)))
    }

    /// A key as errors show it.
    fn spelt(&self, key: &[u8]) -> String {
        match <[u8; 8]>::try_from(key) {
            Ok(bytes) if self.oid.object_type() == Some(ObjectType::KvUint64) => {
                u64::from_le_bytes(bytes).to_string()
            }
            _ => spelt(key),
        }
    }

    /// Refuses what can be no key of this store.
    fn check_key(&self, key: &[u8]) -> Result<()> {
        let Some(kind) = self.oid.object_type() else { return Ok(()) };
        dolmen_codec::order::check_key(kind.dkey_kind(), key).map_err(|error| {
            let (spelt, len) = (spelt(key), key.len());
            Error::from(error).about(match kind.dkey_kind() {
                KeyKind::Hashed => format!("the key {spelt} has {len} bytes, and {KEY_BYTES_MAX} at most"),
                KeyKind::Lexical => {
                    format!("the key {spelt} has {len} bytes, and {LEXICAL_KEY_BYTES_MAX} at most where keys are lexical")
                }
                KeyKind::Uint64 => format!("the key {spelt} is no number, and the store has such keys alone"),
            })
        })
    }

    fn none(&self, key: &[u8]) -> String {
        format!("there is no key {}", self.spelt(key))
    }

    /// The value of a key that has to be there, and its length.
    fn there(&self, py: Python<'_>, key: &[u8]) -> Result<(IoBuf, usize)> {
        let none = || Error::Store(dolmen_types::Error::NotFound).about(self.none(key));
        self.value(py, key)?.ok_or_else(none)
    }

    /// The value of a key, and its length.
    fn value(&self, py: Python<'_>, key: &[u8]) -> Result<Option<(IoBuf, usize)>> {
        self.run(py, |kv, at| {
            let mut bytes = IoBuf::default();
            Ok(kv.get(at, key, &mut bytes)?.map(|len| (bytes, len)))
        })
    }
}

#[pymethods]
impl Kv {
    /// The id, with which ``Container.kv`` opens it again.
    #[getter]
    fn oid(&self) -> Oid {
        Oid(self.oid)
    }

    /// The value of a key as bytes; ``default`` if there is none.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = self::key)] key: Vec<u8>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.value(py, &key)? {
            Some((bytes, len)) => Ok(Some(PyBytes::new(py, &bytes[..len]).into_any())),
            None => Ok(default),
        }
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = self::key)] key: Vec<u8>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (bytes, len) = self.there(py, &key)?;
        Ok(PyBytes::new(py, &bytes[..len]))
    }

    /// The value of a key as a Buffer, which is not copied on its way to Python; raises NotFound if there is none.
    fn view(&self, py: Python<'_>, #[pyo3(from_py_with = self::key)] key: Vec<u8>) -> PyResult<Py<Buffer>> {
        let (bytes, len) = self.there(py, &key)?;
        shown(py, bytes, len)
    }

    /// Reads the value of a key into the beginning of a writable buffer and returns its length. Raises NotFound; Invalid if the
    /// buffer is shorter, which is not changed then.
    fn read_into(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = self::key)] key: Vec<u8>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut lent = Lent::to_fill(buffer)?;
        let place = lent.bytes_mut();
        let (bytes, len) = self.there(py, &key)?;
        Ok(copy_out(&bytes[..len], place)?)
    }

    /// The values of several keys, as bytes, in their order; None for a key without one. From a daemon they are asked for
    /// together, in about one round trip; outside of a transaction each is of its own moment.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = self::keys)] keys: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let is_here = self.slot.session().is_here();
        let found = self.run(py, |kv, at| {
            let object = kv.object();
            if is_here {
                // Nothing is on the way, so that asking for one after the other costs least.
                let mut bytes = IoBuf::default();
                let one = |key: &Vec<u8>| {
                    Ok::<_, Error>(object.get(at, key, AKEY, &mut bytes)?.map(|len| bytes[..len].to_vec()))
                };
                return keys.iter().map(one).collect::<Result<Vec<_>>>();
            }
            let one = async |key: &Vec<u8>| {
                let mut bytes = IoBuf::default();
                let len = object.get_by(Way::Later, at, key, AKEY, &mut bytes).await?;
                Ok::<_, Error>(len.map(|len| bytes[..len].to_vec()))
            };
            let all = object.container().together(side_by_side(keys.iter().map(one)));
            all.into_iter().collect::<Result<Vec<_>>>()
        })?;
        Ok(found.into_iter().map(|found| found.map(|bytes| PyBytes::new(py, &bytes))).collect())
    }

    /// Stores a value.
    ///
    /// exists
    ///     True: only if the key has one, else NotFound is raised. False: only if it has none, else Exists. None: in any case.
    #[pyo3(signature = (key, value, *, exists=None))]
    fn put(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = self::key)] key: Vec<u8>,
        value: &Bound<'_, PyAny>,
        exists: Option<bool>,
    ) -> PyResult<()> {
        self.check_key(&key)?;
        let lent = Value::of(value, || self.spelt(&key))?;
        let cond = match exists {
            None => PutCond::None,
            Some(true) => PutCond::Update,
            Some(false) => PutCond::Insert,
        };
        let bytes = lent.bytes();
        let put = self.change(py, |kv, at| Ok(kv.put(at, &key, bytes, cond)?));
        put.map_err(|error| {
            error
                .missing(|| format!("{}, as exists=True demands", self.none(&key)))
                .taken(|| {
                    format!("there is a value of key {} already, as exists=False forbids", self.spelt(&key))
                })
                .too_long(key.len(), bytes.len(), || self.spelt(&key))
        })?;
        Ok(())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = self::key)] key: Vec<u8>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    /// Stores several values, one after the other, if none of the keys and values is refused; those of a transaction are seen together.
    fn put_many(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let lent = values
            .iter()
            .map(|(of, value)| {
                let key = key(&of)?;
                self.check_key(&key)?;
                let value = Value::of(&value, || self.spelt(&key))?;
                Ok((key, value))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let all: Vec<(&[u8], &[u8])> = lent.iter().map(|(key, value)| (&key[..], value.bytes())).collect();
        Ok(self.change(py, |kv, at| {
            for (key, value) in all {
                let put = kv.put(at, key, value, PutCond::None).map_err(Error::from);
                put.map_err(|error| error.too_long(key.len(), value.len(), || self.spelt(key)))?;
            }
            Ok(())
        })?)
    }

    fn __delitem__(&self, py: Python<'_>, #[pyo3(from_py_with = self::key)] key: Vec<u8>) -> PyResult<()> {
        let removed = self.change(py, |kv, at| Ok(kv.remove(at, &key, true)?));
        removed.map_err(|error| error.missing(|| self.none(&key)))?;
        Ok(())
    }

    /// Removes a key, there or not.
    fn discard(&self, py: Python<'_>, #[pyo3(from_py_with = self::key)] key: Vec<u8>) -> PyResult<()> {
        self.change(py, |kv, at| Ok(kv.remove(at, &key, false)?))?;
        Ok(())
    }

    fn __contains__(&self, py: Python<'_>, #[pyo3(from_py_with = self::key)] key: Vec<u8>) -> PyResult<bool> {
        Ok(self.run(py, |kv, at| Ok(kv.size(at, &key)?.is_some()))?)
    }

    /// The length of the value of a key in bytes; None if there is none. The value is not read.
    fn size(&self, py: Python<'_>, #[pyo3(from_py_with = self::key)] key: Vec<u8>) -> PyResult<Option<u64>> {
        Ok(self.run(py, |kv, at| Ok(kv.size(at, &key)?))?)
    }

    /// The keys, as bytes, in no order, or in order of the keys for ``lexical`` and ``integer`` ones of one shard. What is put or
    /// removed meanwhile may be among them or not; what stays is, once.
    fn keys(&self, py: Python<'_>) -> PyResult<Keys> {
        self.slot.run(py, |_| Ok(()))?;
        Ok(Keys::new(self.slot.clone(), self.when.clone()))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Keys> {
        self.keys(py)
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, |kv, at| Ok(kv.destroy(at)?))?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<dolmen.Kv {}>", self.oid)
    }
}

/// A value that is to be stored.
pub(crate) enum Value {
    Text(Vec<u8>),
    Lent(Lent),
}

impl Value {
    /// A value of a key, which has a byte at least.
    pub(crate) fn of(object: &Bound<'_, PyAny>, key: impl FnOnce() -> String) -> PyResult<Self> {
        let value = Self::or_empty(object)?;
        let told = match value.bytes().len() {
            0 => format!("the value of key {} is empty, and has to have a byte at least", key()),
            1..=SINGLE_BYTES_MAX => return Ok(value),
            len => format!(
                "the value of key {} has {len} bytes, and {SINGLE_BYTES_MAX} at most: an array or a file takes more",
                key()
            ),
        };
        Err(Error::Told(Named(told)).into())
    }

    /// The same of what may be empty.
    pub(crate) fn or_empty(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<pyo3::types::PyString>() {
            return Ok(Self::Text(object.extract::<String>()?.into_bytes()));
        }
        if object.is_instance_of::<pyo3::types::PyInt>() {
            return Err(of_type("a value is bytes, text or something else with the buffer protocol"));
        }
        Ok(Self::Lent(Lent::to_read(object)?))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Lent(lent) => lent.bytes(),
        }
    }
}

impl Error {
    /// The same, in words that name the key, where a key or its value does not fit.
    pub(crate) fn too_long(self, key_len: usize, len: usize, key: impl FnOnce() -> String) -> Self {
        let words = match &self {
            Self::Store(dolmen_types::Error::KeyTooBig { .. }) => format!(
                "the key {} has {key_len} bytes, and {KEY_BYTES_MAX} at most, {LEXICAL_KEY_BYTES_MAX} where keys are lexical",
                key()
            ),
            Self::Store(dolmen_types::Error::RecTooBig { .. }) => format!(
                "the value of key {} has {len} bytes, and targets of this pool are too small for one of that: an array or a file takes it in parts",
                key()
            ),
            _ => return self,
        };
        self.about(words)
    }
}

/// The keys of a store, one after the other.
#[pyclass(frozen, module = "dolmen", name = "Keys")]
pub(crate) struct Keys {
    slot: Slot<Client>,
    when: When,
    // Guards: where the listing stands; taken with the interpreter's lock given up.
    state: Mutex<(Anchor, VecDeque<Vec<u8>>)>,
}

impl Keys {
    fn new(slot: Slot<Client>, when: When) -> Self {
        Self { slot, when, state: Mutex::default() }
    }
}

#[pymethods]
impl Keys {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let next = self.slot.run(py, |kv| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (anchor, found) = &mut *state;
            while found.is_empty() && !anchor.is_eof() {
                let page = self.when.at(|at| Ok(kv.list(at, anchor, Page::default())?))?;
                found.extend(page.iter().map(<[u8]>::to_vec));
            }
            Ok(found.pop_front())
        })?;
        Ok(next.map(|key| PyBytes::new(py, &key)))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Kv>()?;
    module.add_class::<Keys>()
}
