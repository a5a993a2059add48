//! Objects with two levels of keys.

use crate::buffer::{Buffer, Lent, key, keys, shown, spelt};
use crate::error::{Error, Result, Wrong};
use crate::kv::Value;
use crate::oid::Oid;
use crate::slot::Slot;
use crate::tx::{Home, When};
use dolmen_client::{
    Anchor, At, Cond, Container, IoBuf, Key, NewValue, Object as Client, Oid as Id, Page, Payload, Recx,
    UpdateIod,
};
use pyo3::prelude::{Bound, Py, PyAny, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyBytes, PyDict, PyDictMethods};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Extents of one answer to a listing.
const EXTENTS_MAX: u32 = 1024;

/// An object with two levels of keys: a dkey says where something lies, an akey below it names a value or a sparse array of records.
/// Made by ``Container.create_object`` and ``Container.object``; that of ``Transaction.object`` reads and writes in the transaction.
///
/// Keys are as those of a Kv. Whatever is written under one dkey in one call is written atomically. May be used by any number of
/// threads at once.
#[pyclass(frozen, module = "dolmen", name = "Object")]
pub(crate) struct Object {
    slot: Slot<Client>,
    when: When,
    oid: Id,
    home: Home,
}

impl Object {
    pub(crate) fn open(py: Python<'_>, cont: &Slot<Container>, oid: Id, when: When) -> Result<Self> {
        let object = cont.run(py, |cont| Ok(cont.object(oid)?))?;
        Ok(Self { slot: cont.hold(object)?, when, oid, home: Home::of(py, cont)? })
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
        self.slot.run(py, |object| self.when.at(|at| body(object, at)))
    }

    /// The same, of what changes something.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Client, At<'_>) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |object| self.when.change(self.slot.session(), |at| body(object, at)))
    }

    fn listed(&self, py: Python<'_>, what: What) -> Result<Names> {
        self.slot.run(py, |_| Ok(()))?;
        Ok(Names { slot: self.slot.clone(), when: self.when.clone(), what, state: Mutex::default() })
    }
}

#[pymethods]
impl Object {
    /// The id, with which ``Container.object`` opens it again.
    #[getter]
    fn oid(&self) -> Oid {
        Oid(self.oid)
    }

    /// Stores a value under two keys.
    ///
    /// exists
    ///     True: only if there is one, else NotFound is raised. False: only if there is none, else Exists. None: in any case.
    #[pyo3(signature = (dkey, akey, value, *, exists=None))]
    fn put(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
        value: &Bound<'_, PyAny>,
        exists: Option<bool>,
    ) -> PyResult<()> {
        let lent = Value::of(value, || keyed(&dkey, &akey))?;
        let cond = match exists {
            None => Cond::NONE,
            Some(true) => Cond::AKEY_UPDATE,
            Some(false) => Cond::AKEY_INSERT,
        };
        let value = NewValue::Single(Payload::Ref(lent.bytes()));
        let iod = UpdateIod { akey: Key::from_slice(&akey), cond: Cond::NONE, value };
        let put = self.change(py, |object, at| Ok(object.update(at, &dkey, cond, &[iod])?));
        put.map_err(|error| {
            error
                .missing(|| format!("{}, as exists=True demands", none(&dkey, &akey)))
                .taken(|| {
                    format!(
                        "there is a value of keys {} already, as exists=False forbids",
                        keyed(&dkey, &akey)
                    )
                })
                .too_long(dkey.len().max(akey.len()), lent.bytes().len(), || keyed(&dkey, &akey))
        })?;
        Ok(())
    }

    /// Stores values of several akeys under one dkey, all of them at once.
    fn put_all(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        values: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let lent = values
            .iter()
            .map(|(akey, value)| {
                let akey = key(&akey)?;
                let value = Value::of(&value, || keyed(&dkey, &akey))?;
                Ok((akey, value))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let iods: Vec<UpdateIod<'_>> = lent
            .iter()
            .map(|(akey, value)| UpdateIod {
                akey: Key::from_slice(akey),
                cond: Cond::NONE,
                value: NewValue::Single(Payload::Ref(value.bytes())),
            })
            .collect();
        self.change(py, |object, at| Ok(object.update(at, &dkey, Cond::NONE, &iods)?))?;
        Ok(())
    }

    /// The value under two keys as bytes; None if there is none.
    fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.run(py, |object, at| {
            let mut bytes = IoBuf::default();
            Ok(object.get(at, &dkey, &akey, &mut bytes)?.map(|len| (bytes, len)))
        })?;
        Ok(found.map(|(bytes, len)| PyBytes::new(py, &bytes[..len])))
    }

    /// The value under two keys as a Buffer, which is not copied on its way to Python; raises NotFound if there is none.
    fn view(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
    ) -> PyResult<Py<Buffer>> {
        let (bytes, len) = self.run(py, |object, at| {
            let mut bytes = IoBuf::default();
            let len = object.get(at, &dkey, &akey, &mut bytes)?;
            let len =
                len.ok_or_else(|| Error::Store(dolmen_types::Error::NotFound).about(none(&dkey, &akey)))?;
            Ok((bytes, len))
        })?;
        shown(py, bytes, len)
    }

    /// Bytes of the value under two keys, or of one record of the array; 0 if there is nothing.
    fn size(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
    ) -> PyResult<u64> {
        Ok(self.run(py, |object, at| Ok(object.size(at, &dkey, &akey)?))?)
    }

    /// Writes records of an array under two keys, from ``start`` on, as many as the data have; atomic.
    ///
    /// record_bytes
    ///     Bytes of one, the same for the life of the array; else Invalid is raised.
    #[pyo3(signature = (dkey, akey, start, data, *, record_bytes=1))]
    fn write(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
        start: u64,
        data: &Bound<'_, PyAny>,
        record_bytes: u64,
    ) -> PyResult<()> {
        let lent = Lent::to_read(data)?;
        let bytes = lent.bytes();
        if record_bytes == 0 || !(bytes.len() as u64).is_multiple_of(record_bytes) {
            return Err(Error::Argument(Wrong::Records).into());
        }
        let recx = Recx { index: start, count: bytes.len() as u64 / record_bytes };
        self.change(py, |object, at| Ok(object.write(at, &dkey, &akey, record_bytes, recx, bytes)?))?;
        Ok(())
    }

    /// Reads records of an array under two keys into a Buffer; what was never written is zeros.
    #[pyo3(signature = (dkey, akey, start, count, *, record_bytes=1))]
    fn read(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
        start: u64,
        count: u64,
        record_bytes: u64,
    ) -> PyResult<Py<Buffer>> {
        let len = count.checked_mul(record_bytes).and_then(|len| isize::try_from(len).ok());
        let len = len.ok_or(Error::Argument(Wrong::Length))?.unsigned_abs();
        let bytes = self.run(py, |object, at| {
            let mut bytes = IoBuf::try_zeroed(len).ok_or(Error::Argument(Wrong::Memory))?;
            if len > 0 {
                object.read(at, &dkey, &akey, record_bytes, Recx { index: start, count }, &mut bytes)?;
            }
            Ok(bytes)
        })?;
        shown(py, bytes, len)
    }

    /// The extents of an array under two keys that hold data, as pairs of start and count, ascending.
    fn extents(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = key)] akey: Vec<u8>,
    ) -> PyResult<Vec<(u64, u64)>> {
        Ok(self.run(py, |object, at| {
            let (mut anchor, mut all) = (Anchor::default(), Vec::new());
            while !anchor.is_eof() {
                let found = object.list_extents(at, &dkey, &akey, &mut anchor, EXTENTS_MAX)?;
                all.extend(found.iter().map(|extent| (extent.recx.index, extent.recx.count)));
            }
            Ok(all)
        })?)
    }

    /// Removes the values of some akeys of a dkey, there or not.
    fn remove(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = key)] dkey: Vec<u8>,
        #[pyo3(from_py_with = keys)] akeys: Vec<Vec<u8>>,
    ) -> PyResult<()> {
        let akeys: Vec<&[u8]> = akeys.iter().map(Vec::as_slice).collect();
        self.change(py, |object, at| Ok(object.punch_akeys(at, &dkey, &akeys, Cond::NONE)?))?;
        Ok(())
    }

    /// Removes a dkey with everything below it.
    fn remove_dkey(&self, py: Python<'_>, #[pyo3(from_py_with = key)] dkey: Vec<u8>) -> PyResult<()> {
        self.change(py, |object, at| Ok(object.punch_dkey(at, &dkey, Cond::NONE)?))?;
        Ok(())
    }

    /// Removes everything of the object.
    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, |object, at| Ok(object.punch(at, Cond::NONE)?))?;
        Ok(())
    }

    /// The dkeys, as bytes. What comes and goes meanwhile may be among them or not; what stays is, once.
    fn dkeys(&self, py: Python<'_>) -> PyResult<Names> {
        Ok(self.listed(py, What::Dkeys)?)
    }

    /// The akeys below a dkey, in the same way.
    fn akeys(&self, py: Python<'_>, #[pyo3(from_py_with = key)] dkey: Vec<u8>) -> PyResult<Names> {
        Ok(self.listed(py, What::Akeys(dkey))?)
    }

    fn __repr__(&self) -> String {
        format!("<dolmen.Object {}>", self.oid)
    }
}

fn keyed(dkey: &[u8], akey: &[u8]) -> String {
    format!("{}, {}", spelt(dkey), spelt(akey))
}

fn none(dkey: &[u8], akey: &[u8]) -> String {
    format!("there is no value of keys {}", keyed(dkey, akey))
}

/// What is listed.
enum What {
    Dkeys,
    Akeys(Vec<u8>),
}

/// The keys of an object, one after the other.
#[pyclass(frozen, module = "dolmen", name = "Names")]
pub(crate) struct Names {
    slot: Slot<Client>,
    when: When,
    what: What,
    // Guards: where the listing stands; taken with the interpreter's lock given up.
    state: Mutex<(Anchor, VecDeque<Vec<u8>>)>,
}

#[pymethods]
impl Names {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let next = self.slot.run(py, |object| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (anchor, found) = &mut *state;
            while found.is_empty() && !anchor.is_eof() {
                let page = self.when.at(|at| {
                    Ok(match &self.what {
                        What::Dkeys => object.list_dkeys(at, anchor, Page::default())?,
                        What::Akeys(dkey) => object.list_akeys(at, dkey, anchor, Page::default())?,
                    })
                })?;
                found.extend(page.iter().map(<[u8]>::to_vec));
            }
            Ok(found.pop_front())
        })?;
        Ok(next.map(|key| PyBytes::new(py, &key)))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Object>()?;
    module.add_class::<Names>()
}
