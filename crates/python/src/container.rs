//! Containers: their objects, snapshots, attributes and transactions.

use crate::array::Array;
use crate::error::{Error, Result, Still, Wrong, of_type};
use crate::files::Files;
use crate::kv::{Kv, Value};
use crate::object::Object;
use crate::oid::{Oid, class_of, kv_type};
use crate::slot::{Session, Slot};
use crate::tx::{self, Transaction, When};
use dolmen_client::{Container as Client, Durability, Epoch, ObjectType, PropId, PropValue, Props};
use dolmen_dfs::{Dfs, FormatOptions, LAYOUT_POSIX, MountOptions};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyDictMethods, PyModule, PyModuleMethods, PyResult, Python, pyclass,
    pymethods,
};
use pyo3::types::{PyBytes, PyDict, PyString, PyStringMethods};
use std::sync::{Arc, Mutex};

/// An open container, or a view of a past state of one. Made by ``Pool.container``, ``Pool.create_container`` and
/// ``Container.at``; closed by ``close``, at the end of a ``with`` block, or with its pool. May be used by any number of threads at
/// once.
#[pyclass(frozen, module = "dolmen", name = "Container")]
pub(crate) struct Container {
    slot: Slot<Client>,
    /// Kept for who asks after it was closed.
    label: Option<String>,
    uuid: String,
    epoch: Option<u64>,
}

/// Bits of the caller's in the ids of objects beside files, which no file has: whoever looks for files without a name takes them for
/// none.
const USER_HI_BESIDE: u32 = 0x4f42_4a53;

/// The properties of a new container.
pub(crate) fn props(files: bool, durability: &str) -> Result<Props> {
    let durability = match durability {
        "power" => Durability::Power,
        "process" => Durability::Process,
        _ => return Err(Error::Argument(Wrong::Durability)),
    };
    let mut props = if files { Dfs::container_props() } else { Props::new() };
    props.insert(PropId::CO_DURABILITY, PropValue::Number(durability as u64));
    Ok(props)
}

/// Makes the file system of a new container.
pub(crate) fn format(cont: &Client) -> Result<()> {
    let head = crate::address::head()?;
    let options = FormatOptions { uid: head.cred.uid, gid: head.cred.gid, ..FormatOptions::default() };
    Ok(Dfs::format(cont, &options)?)
}

impl Container {
    pub(crate) fn new(session: &Arc<Session>, cont: Client) -> Result<Self> {
        Self::of(&cont, |cont| session.hold(cont))
    }

    fn of(cont: &Client, hold: impl FnOnce(Client) -> Result<Slot<Client>>) -> Result<Self> {
        let label = cont.label().map(|label| label.as_str().to_owned());
        let (uuid, epoch) = (cont.uuid().to_string(), cont.view_epoch().map(|epoch| epoch.0));
        let name = label.as_deref().unwrap_or(&uuid);
        let slot = hold(cont.clone())?.called(&match epoch {
            None => format!("the container {name}"),
            Some(epoch) => format!("the view of the container {name} at epoch {epoch}"),
        });
        Ok(Self { slot: slot.of_view(epoch), label, uuid, epoch })
    }

    /// Its handle.
    pub(crate) fn slot(&self) -> &Slot<Client> {
        &self.slot
    }

    fn made(&self, py: Python<'_>, kind: ObjectType, class: Option<&str>) -> Result<dolmen_client::Oid> {
        let class = class_of(class)?;
        self.change(py, |cont| match cont.opened_props().get(&PropId::CO_LAYOUT_TYPE) {
            Some(&PropValue::Number(LAYOUT_POSIX)) => {
                Ok(cont.oid(kind, class, USER_HI_BESIDE, cont.alloc_oids(1)?)?)
            }
            _ => Ok(cont.alloc_oid(kind, class)?),
        })
    }

    /// Does something that changes the container, if it is one and not a view.
    fn change<R: Send>(&self, py: Python<'_>, body: impl FnOnce(&Client) -> Result<R> + Send) -> Result<R> {
        self.slot.run(py, |cont| match self.when() {
            When::View(epoch) => Err(Error::Still(Still::View(epoch))),
            _ if self.slot.session().read_only => Err(Error::Still(Still::Pool)),
            _ => body(cont),
        })
    }

    /// When what is opened from it reads and writes.
    fn when(&self) -> When {
        self.epoch.map_or(When::Now, When::View)
    }

    /// Refuses what would be a transaction of a view.
    fn check_no_view(&self) -> Result<()> {
        self.epoch.map_or(Ok(()), |epoch| Err(Error::Still(Still::View(epoch))))
    }

    /// The epoch that is told, or that of the snapshot whose name is.
    fn epoch_of(&self, py: Python<'_>, which: &Bound<'_, PyAny>) -> PyResult<u64> {
        let Ok(name) = which.cast::<PyString>() else {
            return which.extract::<u64>().map_err(|error| {
                match error.is_instance_of::<PyOverflowError>(py) {
                    true => Error::from(dolmen_types::Invalid::Epoch).into(),
                    false => of_type("a snapshot is told by its name or its epoch"),
                }
            });
        };
        let name = name.to_str()?;
        let all = self.slot.run(py, |cont| Ok(cont.snapshots()?))?;
        let found = all.iter().find(|snapshot| snapshot.name.as_deref() == Some(name));
        let found = found
            .ok_or_else(|| Error::Store(dolmen_types::Error::NotFound).about(no_snapshot_named(name)))?;
        Ok(found.epoch.0)
    }
}

#[pymethods]
impl Container {
    /// Closes the container and everything that was opened through it, when the operations under way have ended. Closing again does
    /// nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.check_idle()?;
        if let Some(cont) = self.slot.take_all(py) {
            // A view has no handle of its own.
            if self.epoch.is_none() {
                py.detach(|| cont.close()).map_err(Error::from)?;
            } else {
                py.detach(|| drop(cont));
            }
        }
        Ok(())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.slot.is_closed(py)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// The label that it was opened with; None if it has none.
    #[getter]
    fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Its UUID.
    #[getter]
    fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The epoch that a view shows; None for the container itself.
    #[getter]
    fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Makes the id of a new key-value store and opens it. The store exists as soon as something is put into it.
    ///
    /// keys
    ///     ``hashed``; ``lexical``, of at most 80 bytes; ``integer``, whose keys are numbers below 2**64. The latter two are listed in
    ///     their order where all are in one shard (``object_class="S1"``).
    /// object_class
    ///     Over how many targets it is spread: ``S1``, ``S2``, ``SX`` (all), …; None leaves it to the container.
    #[pyo3(signature = (*, keys="hashed", object_class=None))]
    fn create_kv(&self, py: Python<'_>, keys: &str, object_class: Option<&str>) -> PyResult<Kv> {
        let oid = self.made(py, kv_type(keys)?, object_class)?;
        self.kv(py, Oid(oid))
    }

    /// Opens the key-value store with this id, there or not; raises Invalid for the id of something else.
    fn kv(&self, py: Python<'_>, oid: Oid) -> PyResult<Kv> {
        Ok(Kv::open(py, &self.slot, oid.0, self.when())?)
    }

    /// Makes an array of records.
    ///
    /// dtype
    ///     What numpy takes a record for, None for bytes; its size is stored with the array, the rest is for the caller to remember.
    /// chunk
    ///     Records that lie together; None for about a MiB. Each chunk is written atomically.
    /// object_class
    ///     As for ``create_kv``.
    #[pyo3(signature = (dtype=None, *, chunk=None, object_class=None))]
    fn create_array(
        &self,
        py: Python<'_>,
        dtype: Option<&Bound<'_, PyAny>>,
        chunk: Option<u64>,
        object_class: Option<&str>,
    ) -> PyResult<Array> {
        let oid = self.made(py, ObjectType::Array, object_class)?;
        let bytes = pyo3::types::PyString::new(py, "u1").into_any();
        Array::create(py, &self.slot, oid, dtype.unwrap_or(&bytes), chunk)
    }

    /// Opens the array with this id.
    ///
    /// dtype
    ///     What numpy is to take its records for; None for ``u1``, or ``V`` with the stored size. Raises Invalid if it has another
    ///     size than the stored one.
    ///
    /// Raises NotFound if it was not created.
    #[pyo3(signature = (oid, dtype=None))]
    fn array(&self, py: Python<'_>, oid: Oid, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Array> {
        Array::open(py, &self.slot, oid.0, dtype, self.when())
    }

    /// Makes the id of a new object with two levels of keys and opens it. It exists as soon as something is written to it.
    ///
    /// keys
    ///     As for ``create_kv``, for keys of both levels.
    #[pyo3(signature = (*, keys="hashed", object_class=None))]
    fn create_object(&self, py: Python<'_>, keys: &str, object_class: Option<&str>) -> PyResult<Object> {
        let kind = match keys {
            "hashed" => ObjectType::MultiHashed,
            "lexical" => ObjectType::MultiLexical,
            "integer" => ObjectType::MultiUint64,
            _ => return Err(Error::Argument(Wrong::Keys).into()),
        };
        let oid = self.made(py, kind, object_class)?;
        self.object(py, Oid(oid))
    }

    /// Opens the object with this id, there or not.
    fn object(&self, py: Python<'_>, oid: Oid) -> PyResult<Object> {
        Ok(Object::open(py, &self.slot, oid.0, self.when())?)
    }

    /// The files of a container that was made with ``files=True``; raises NotFound for any other.
    ///
    /// shared
    ///     Whether others change the same files meanwhile, in this process or elsewhere. Without, paths are cached and changes are
    ///     cheaper, and nobody else may change anything.
    /// read_only
    ///     Nothing may be changed; the files of a view of a past state are so anyway.
    #[pyo3(signature = (*, shared=true, read_only=false))]
    fn files(&self, py: Python<'_>, shared: bool, read_only: bool) -> PyResult<Files> {
        let read_only = read_only || self.epoch.is_some() || self.slot.session().read_only;
        let mounted = self.slot.run(py, |cont| {
            let head = crate::address::head()?;
            let (uid, gid) = (head.cred.uid, head.cred.gid);
            let options = MountOptions { read_only, shared, uid, gid, ..MountOptions::default() };
            match Dfs::mount(cont, &options) {
                Err(error @ dolmen_dfs::Error::NotFormatted) => {
                    let words =
                        "the container has no files: `create_container(..., files=True)` makes one that can";
                    Err(Error::from(error).about(words))
                }
                other => Ok(other?),
            }
        })?;
        Ok(Files::new(self.slot.hold(mounted)?))
    }

    /// Begins a transaction. As a context manager it commits at the end of its block, and aborts if the block raises::
    ///
    ///     with cont.transaction() as tx:
    ///         tx.kv(kv)[b"a"] = b"1"
    ///
    /// Transactions have the effect of running one after the other, in the order in which they were begun. A commit that others
    /// have made impossible meanwhile raises Conflict, with nothing written; ``transact`` begins anew then.
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        self.check_no_view()?;
        Ok(Transaction::begin(py, &self.slot)?)
    }

    /// Calls ``body(tx)`` and commits; at a conflict all of it once more, with a new transaction. What ``body`` has returned is
    /// returned; what it raises, other than Conflict, is raised and nothing is written.
    ///
    /// attempts
    ///     How often at most; the Conflict of the last is raised.
    #[pyo3(signature = (body, *, attempts=64))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        attempts: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_no_view()?;
        tx::transact(py, &self.slot, body, attempts)
    }

    /// Makes a snapshot and returns its epoch, for ``at``. It keeps what is there now until it is destroyed.
    #[pyo3(signature = (name=None))]
    fn create_snapshot(&self, py: Python<'_>, name: Option<&str>) -> PyResult<u64> {
        let made = self.change(py, |cont| Ok(cont.create_snapshot(name)?.0));
        Ok(made.map_err(|error| {
            let name = name.unwrap_or("without a name");
            error.taken(|| format!("there is a snapshot {name:?} already: `destroy_snapshot` gives it up"))
        })?)
    }

    /// The snapshots, oldest first, as pairs of epoch and name (None for one without).
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<(u64, Option<String>)>> {
        let all = self.slot.run(py, |cont| Ok(cont.snapshots()?))?;
        Ok(all.into_iter().map(|snapshot| (snapshot.epoch.0, snapshot.name)).collect())
    }

    /// Gives the snapshot of an epoch or a name up; what it alone kept can be freed. Raises NotFound.
    fn destroy_snapshot(&self, py: Python<'_>, epoch: &Bound<'_, PyAny>) -> PyResult<()> {
        let epoch = self.epoch_of(py, epoch)?;
        let done = self.change(py, |cont| Ok(cont.destroy_snapshot(Epoch(epoch))?));
        Ok(done.map_err(|error| error.missing(|| no_snapshot(epoch)))?)
    }

    /// Makes the state of a snapshot the newest one, in one step, and returns the epoch at which it was done. Raises NotFound if
    /// there is no snapshot of this epoch or name.
    fn rollback(&self, py: Python<'_>, epoch: &Bound<'_, PyAny>) -> PyResult<u64> {
        let epoch = self.epoch_of(py, epoch)?;
        let done = self.change(py, |cont| Ok(cont.rollback(Epoch(epoch))?.0));
        Ok(done.map_err(|error| error.missing(|| no_snapshot(epoch)))?)
    }

    /// A view of the container as it was at an epoch, or at the snapshot of a name: nothing can be changed in it. Reads of what no
    /// snapshot keeps any more raise Stale.
    fn at(&self, py: Python<'_>, epoch: &Bound<'_, PyAny>) -> PyResult<Self> {
        let epoch = self.epoch_of(py, epoch)?;
        let view = self.slot.run(py, |cont| Ok(cont.at(Epoch(epoch))))?;
        Ok(Self::of(&view, |view| self.slot.hold(view))?)
    }

    /// Every object that has something visible, each once, in no order.
    fn objects(&self, py: Python<'_>) -> PyResult<Objects> {
        let walk = self.slot.run(py, |cont| Ok(cont.objects(None)))?;
        let state = Mutex::new((walk, Vec::new()));
        Ok(Objects { slot: self.slot.hold(state)? })
    }

    /// The value of a user attribute of the container; raises NotFound if it is not set.
    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.slot.run(py, |cont| Ok(cont.attr(name)?));
        let value = value.map_err(|error| error.missing(|| not_set(&[name.to_owned()])))?;
        Ok(PyBytes::new(py, &value))
    }

    /// The names of the user attributes, sorted.
    fn attributes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.slot.run(py, |cont| Ok(cont.attr_names()?))?)
    }

    /// Sets user attributes, all of them at once: names, and text (as UTF-8) or bytes, which may be empty.
    fn set_attributes(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut all = Vec::with_capacity(values.len());
        for (name, value) in values.iter() {
            let Ok(name) = name.extract::<String>() else {
                return Err(of_type("the name of an attribute is text"));
            };
            all.push((name, Value::or_empty(&value)?.bytes().to_vec()));
        }
        Ok(self.change(py, |cont| Ok(cont.set_attrs(&all)?))?)
    }

    /// Removes user attributes; raises NotFound if one is not set.
    fn remove_attributes(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        let removed = self.change(py, |cont| Ok(cont.remove_attrs(&names)?));
        Ok(removed.map_err(|error| error.missing(|| not_set(&names)))?)
    }

    /// What is stored: a dict with ``versions``, ``value_bytes`` (both with what snapshots keep), ``snapshots`` and ``handles``.
    fn query<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.slot.run(py, |cont| Ok(cont.query()?))?;
        let told = PyDict::new(py);
        told.set_item("versions", info.usage.versions)?;
        told.set_item("value_bytes", info.usage.value_bytes)?;
        told.set_item("snapshots", info.snapshots)?;
        told.set_item("handles", info.handles)?;
        Ok(told)
    }

    /// Makes everything acknowledged durable against a loss of power, in a container with ``durability="process"``, too.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.slot.run(py, |cont| Ok(cont.flush()?))?)
    }

    fn __repr__(&self) -> String {
        let name = self.label.as_deref().unwrap_or(&self.uuid);
        match self.epoch {
            Some(epoch) => format!("<dolmen.Container {name} at {epoch}>"),
            None => format!("<dolmen.Container {name}>"),
        }
    }
}

fn no_snapshot(epoch: u64) -> String {
    format!("there is no snapshot of epoch {epoch}: `snapshots` tells which there are")
}

fn no_snapshot_named(name: &str) -> String {
    format!("there is no snapshot {name:?}: `snapshots` tells which there are")
}

fn not_set(names: &[String]) -> String {
    match names {
        [name] => format!("the attribute {name:?} is not set: `attributes` tells which are"),
        names => format!("one of the attributes {names:?} is not set: `attributes` tells which are"),
    }
}

type Walk = (dolmen_client::ObjectWalk, Vec<dolmen_client::Oid>);

/// The ids of a container's objects, one after the other.
#[pyclass(frozen, module = "dolmen", name = "Objects")]
pub(crate) struct Objects {
    // Guards: where the walk stands; taken with the interpreter's lock given up.
    slot: Slot<Mutex<Walk>>,
}

#[pymethods]
impl Objects {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Oid>> {
        let next = self.slot.run(py, |state| {
            let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (walk, found) = &mut *state;
            if found.is_empty() {
                *found = walk.next_page()?;
            }
            Ok(found.pop())
        })?;
        Ok(next.map(Oid))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Container>()?;
    module.add_class::<Objects>()
}
