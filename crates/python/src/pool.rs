//! Pools: made, opened, listed, destroyed; what is asked of one as a whole.

use crate::address::{self, How, Place};
use crate::container::{self, Container};
use crate::error::{Error, Named, Result, Still, Wrong};
use crate::slot::PoolSlot;
use core::time::Duration;
use dolmen_client::{ContName, Label, OpenFor, Uuid};
use dolmen_local::PoolOptions;
use dolmen_net::client::reach;
use pyo3::prelude::{
    Bound, PyAny, PyDictMethods, PyModule, PyModuleMethods, PyResult, Python, pyclass, pyfunction, pymethods,
    wrap_pyfunction,
};
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Targets of a pool at most.
const TARGETS_MAX: i64 = 1024;

/// An open pool. Made by ``dolmen.open``; closed by ``close``, at the end of a ``with`` block, or with the last handle on anything
/// of it. May be used by any number of threads at once.
#[pyclass(frozen, module = "dolmen", name = "Pool")]
pub(crate) struct Pool {
    slot: PoolSlot,
}

/// Opens a pool.
///
/// address
///     ``file:DIRECTORY`` or ``file:SYSTEM/LABEL`` opens a directory in this process, which has it alone: a second process
///     gets Busy, which names the first. Nothing is created: see ``create_pool``. ``unix:SOCKET/LABEL`` and
///     ``tcp://HOST:PORT[,HOST:PORT...]/LABEL`` reach the daemon that serves a pool. A UUID will do for a label.
/// read_only
///     Nothing in the pool may be changed.
/// patience
///     Seconds for which an engine that does not answer is waited for before Unreachable is raised.
/// timeout
///     Seconds that a request may wait before it is begun, else Timeout is raised; None for as long as it takes.
/// certs
///     Directory with the certificates of this user for connections over a network; None for the one that DOLMEN_CERTS or the
///     user's settings name, if they name one: without certificates a connection is made in the clear.
/// memory
///     Bytes of memory for metadata of a pool in this process, from 4 MiB; None for what the pool says.
/// upkeep
///     Whether a thread of a pool in this process does checkpoints and merges; if not, calls do a part of it each.
///
/// Opening a directory that this process has open already gives another handle on the same pool. A process that was forked from
/// this one gets Forked from every handle that it inherits, and opens the pool anew.
#[expect(clippy::too_many_arguments, reason = "each is one by name in Python")]
#[pyfunction]
#[pyo3(signature = (address, *, read_only=false, patience=None, timeout=None, certs=None, memory=None, upkeep=false))]
fn open(
    py: Python<'_>,
    address: &str,
    read_only: bool,
    patience: Option<f64>,
    timeout: Option<f64>,
    certs: Option<PathBuf>,
    memory: Option<u64>,
    upkeep: bool,
) -> PyResult<Pool> {
    let how = How {
        read_only,
        patience: seconds("patience", patience)?,
        timeout: seconds("timeout", timeout)?,
        certs,
        memory_bytes: memory,
        upkeep,
    };
    let slot = py.detach(|| {
        let (pool, session) = address::open(address, &how).map_err(by_name)?;
        session.hold(pool)
    })?;
    Ok(Pool { slot })
}

fn seconds(name: &str, given: Option<f64>) -> Result<Option<Duration>> {
    let told = |seconds: f64| {
        Error::Told(Named(format!("{name} is a number of seconds from 0 on, and not {seconds}")))
    };
    given
        .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| told(seconds)))
        .transpose()
}

/// A label, or what is wrong with it.
fn label_of(text: &str) -> Result<Label> {
    Label::new(text).map_err(|error| {
        let why = if Uuid::try_parse(text).is_ok() {
            "it reads as a UUID, by which something else may be found"
        } else {
            "one has 1 to 127 letters, digits and `.`, `_`, `:`, `-`"
        };
        Error::from(error).about(format!("{text:?} cannot be a label: {why}"))
    })
}

/// An error of an option, by the name that Python has for it.
fn by_name(error: Error) -> Error {
    match error {
        Error::Local(dolmen_local::Error::Option { name, value, low, high }) => {
            let told = match name {
                "capacity_bytes" => "size",
                "memory_budget_bytes" => "memory",
                other => other,
            };
            let words = format!("{told} is {value}, and has to be from {low} to {high}");
            Error::Local(dolmen_local::Error::Option { name, value, low, high }).about(words)
        }
        other => other,
    }
}

/// Makes a pool in a directory, which must not exist or be empty, and leaves it closed; returns nothing.
///
/// path
///     The directory; the one above it must exist.
/// label
///     A name by which others find it; 1 to 127 letters, digits and ``._:-``.
/// size
///     Bytes that it may take; None for what the file system has. It takes room as it is filled.
/// targets
///     How many threads it can keep busy, from 1 to 1024; None for one a processor.
/// memory
///     Bytes of memory for its metadata when it is open; None for 1 GiB.
/// volatile
///     Required on a file system in memory: the pool is lost with the power.
///
/// Raises Exists if it is a pool already or another beside it has the label; NoSpace; NotFound if there is no directory above.
#[pyfunction]
#[pyo3(signature = (path, *, label=None, size=None, targets=None, memory=None, volatile=false))]
fn create_pool(
    py: Python<'_>,
    path: PathBuf,
    label: Option<&str>,
    size: Option<u64>,
    targets: Option<i64>,
    memory: Option<u64>,
    volatile: bool,
) -> PyResult<()> {
    if targets.is_some_and(|targets| !(1..=TARGETS_MAX).contains(&targets)) {
        return Err(Error::Argument(Wrong::Targets).into());
    }
    let usual = PoolOptions::default();
    let options = PoolOptions {
        label: label.map(label_of).transpose()?,
        capacity_bytes: size.unwrap_or(usual.capacity_bytes),
        targets: targets.and_then(|targets| u16::try_from(targets).ok()).unwrap_or(usual.targets),
        memory_budget_bytes: memory.unwrap_or(usual.memory_budget_bytes),
        volatile,
        ..usual
    };
    let dir = without_scheme(path);
    Ok(py.detach(|| dolmen_local::create(&dir, &options)).map_err(|error| by_name(error.into()))?)
}

/// Removes the pool in a directory with everything in it, which must not be open anywhere.
///
/// Raises NotFound if it is no pool, Busy if a process has it, NotEmpty if something else lies in it.
#[pyfunction]
fn destroy_pool(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let dir = without_scheme(path);
    Ok(py.detach(|| dolmen_local::destroy(&dir)).map_err(Error::from)?)
}

/// The pools of a system, as pairs of label (None for one without) and UUID: ``file:DIRECTORY`` lists those in a directory,
/// ``unix:SOCKET`` and ``tcp://HOST:PORT`` those that a daemon serves to this user.
#[pyfunction]
fn list_pools(py: Python<'_>, system: &str) -> PyResult<Vec<(Option<String>, String)>> {
    let found = py.detach(|| -> Result<_> {
        if let Some(dir) = system.strip_prefix("file:") {
            let all = dolmen_local::list(&PathBuf::from(dir))?;
            return Ok(all.into_iter().map(|pool| (pool.label.map(text), pool.uuid.to_string())).collect());
        }
        let link = reach::system(&address::engines(system)?, &address::link_options(None, None)?)?;
        let all = dolmen_codec::now(reach::pools_by(dolmen_codec::Way::Now, &link, &address::head()?))?;
        Ok(all.into_iter().map(|pool| (pool.label.map(text), pool.uuid.to_string())).collect())
    })?;
    Ok(found)
}

fn text(label: Label) -> String {
    label.as_str().to_owned()
}

fn without_scheme(path: PathBuf) -> PathBuf {
    match path.to_str().map(address::parse) {
        Some(Ok(Place::Dir(dir))) => dir,
        _ => path,
    }
}

/// A container by its label or UUID.
pub(crate) fn cont_name(name: &str) -> Result<ContName> {
    match Uuid::try_parse(name) {
        Ok(uuid) => Ok(ContName::Uuid(uuid)),
        Err(_label) => Ok(ContName::Label(label_of(name)?)),
    }
}

impl Pool {
    /// Does something that changes the pool, if that was not opened to read.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&dolmen_client::Pool) -> Result<R> + Send,
    ) -> Result<R> {
        match self.slot.session().read_only {
            true => self.slot.run(py, |_| Err(Error::Still(Still::Pool))),
            false => self.slot.run(py, body),
        }
    }

    fn no_container(&self, name: &str) -> String {
        let address = &self.slot.session().address;
        format!(
            "there is no container {name:?} in the pool {address}: `containers` tells which there are, `create_container` makes one"
        )
    }
}

#[pymethods]
impl Pool {
    /// Closes the pool and everything that was opened through it, when the operations under way have ended. Closing again does
    /// nothing; any other use of a closed handle raises Closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.slot.session();
        if session.check_process().is_err() {
            // A forked child leaves to its parent what that has opened.
            return Ok(());
        }
        Ok(py.detach(|| session.close())?)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.slot.session().is_closed()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// The address that it was opened by.
    #[getter]
    fn address(&self) -> &str {
        &self.slot.session().address
    }

    /// What the pool is and how full: a dict with ``uuid``, ``label``, ``targets``, ``containers``, and in bytes ``total`` and
    /// ``free``.
    fn query<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.slot.run(py, |pool| Ok(pool.query()?))?;
        let told = PyDict::new(py);
        told.set_item("uuid", info.map.pool.to_string())?;
        told.set_item("label", info.label.map(text))?;
        told.set_item("targets", info.map.targets.len())?;
        told.set_item("containers", info.cont_count)?;
        told.set_item("total", info.space.iter().map(|space| space.total_bytes).sum::<u64>())?;
        told.set_item("free", info.space.iter().map(|space| space.free_bytes).sum::<u64>())?;
        Ok(told)
    }

    /// The containers, as pairs of label (None for one without) and UUID.
    fn containers(&self, py: Python<'_>) -> PyResult<Vec<(Option<String>, String)>> {
        let all = self.slot.run(py, |pool| Ok(pool.containers()?))?;
        Ok(all.into_iter().map(|cont| (cont.label.map(text), cont.uuid.to_string())).collect())
    }

    /// Makes a container and opens it.
    ///
    /// label
    ///     Its name; without one it has its UUID alone.
    /// files
    ///     Whether it holds files (``Container.files``); one with files can hold ntuples and objects beside them.
    /// durability
    ///     ``power``: what was acknowledged survives a loss of power. ``process``: it survives the death of the process, which
    ///     makes small writes many times faster.
    ///
    /// Raises Exists if the label is taken.
    #[pyo3(signature = (label=None, *, files=false, durability="power"))]
    fn create_container(
        &self,
        py: Python<'_>,
        label: Option<&str>,
        files: bool,
        durability: &str,
    ) -> PyResult<Container> {
        let name = label.unwrap_or("without a label");
        let label = label.map(label_of).transpose()?;
        let props = container::props(files, durability)?;
        let made = self.change(py, |pool| {
            let handle = pool.create_container(label, props)?;
            let cont = pool.open_container(&ContName::Uuid(handle.uuid))?;
            if files {
                container::format(&cont)?;
            }
            Ok(cont)
        });
        let made = made.map_err(|error| {
            error.taken(|| format!("there is a container {name:?} already: `container` opens it"))
        })?;
        Ok(Container::new(self.slot.session(), made)?)
    }

    /// Opens the container of a label or UUID; raises NotFound if there is none.
    fn container(&self, py: Python<'_>, name: &str) -> PyResult<Container> {
        let (called, name) = (name, cont_name(name)?);
        let wanted = if self.slot.session().read_only { OpenFor::Any } else { OpenFor::Change };
        let opened = self.slot.run(py, |pool| {
            match pool.open_container_for(&name, wanted) {
                // Who may read alone finds out when he writes.
                Err(dolmen_types::Error::NoPermission) => Ok(pool.open_container(&name)?),
                other => Ok(other?),
            }
        });
        let opened = opened.map_err(|error| error.missing(|| self.no_container(called)))?;
        Ok(Container::new(self.slot.session(), opened)?)
    }

    /// Removes a container with everything in it. Raises NotFound; Busy if it is open somewhere, unless ``force`` is set.
    #[pyo3(signature = (name, *, force=false))]
    fn destroy_container(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        let (called, name) = (name, cont_name(name)?);
        let done = self.change(py, |pool| Ok(pool.destroy_container(&name, force)?));
        Ok(done.map_err(|error| match error {
            Error::Store(dolmen_types::Error::Busy) if !force => error.about(format!(
                "the container {called:?} is open, here or elsewhere: close it first, or give force=True"
            )),
            other => other.missing(|| self.no_container(called)),
        })?)
    }

    /// Makes everything acknowledged durable, also what containers with ``durability="process"`` hold, and short logs of it.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.change(py, |pool| Ok(pool.checkpoint()?))?)
    }

    /// Reads and verifies every stored byte. The damage found, as text, empty if all is well.
    fn scrub(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let audits = self.slot.run(py, |pool| Ok(pool.scrub()?))?;
        let findings = audits.iter().flat_map(|audit| &audit.findings);
        Ok(findings.map(|finding| format!("{}: {}", finding.rule, finding.place)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<dolmen.Pool {}>", self.slot.session().address)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(open, module)?)?;
    module.add_function(wrap_pyfunction!(create_pool, module)?)?;
    module.add_function(wrap_pyfunction!(destroy_pool, module)?)?;
    module.add_function(wrap_pyfunction!(list_pools, module)?)?;
    module.add_class::<Pool>()
}
