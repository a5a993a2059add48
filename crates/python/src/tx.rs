//! Transactions, and when operations of other modules happen.

use crate::array::Array;
use crate::error::{Error, Named, Result, Still, Wrong};
use crate::kv::Kv;
use crate::object::Object;
use crate::oid::Oid;
use crate::slot::{Session, Slot};
use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
use core::time::Duration;
use dolmen_client::{At, Container, Epoch, Tx, Uuid};
use dolmen_env::{Clock as _, RealClock};
use pyo3::prelude::{
    Bound, PyAny, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::PyType;
use std::sync::Arc;

/// The container that a handle is of, wherever it was opened.
#[derive(Clone)]
pub(crate) struct Home {
    uuid: Uuid,
    name: Arc<str>,
}

impl Home {
    pub(crate) fn of(py: Python<'_>, cont: &Slot<Container>) -> Result<Self> {
        Ok(Self { uuid: cont.run(py, |cont| Ok(cont.uuid()))?, name: cont.name().into() })
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Became {
    Open,
    Committed,
    Aborted,
}

impl fmt::Display for Became {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "the transaction is open",
            Self::Committed => "the transaction is committed: begin another one",
            Self::Aborted => "the transaction was aborted: begin another one",
        })
    }
}

impl Became {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Open,
            1 => Self::Committed,
            _ => Self::Aborted,
        }
    }
}

/// A transaction that handles work in.
#[derive(Clone)]
pub(crate) struct Within {
    slot: Slot<Tx>,
    became: Arc<AtomicU8>,
}

impl Within {
    fn became(&self) -> Became {
        Became::of(self.became.load(Ordering::Acquire))
    }

    fn has_ended(&self) -> bool {
        self.became() != Became::Open
    }

    /// Refuses what comes after its end.
    fn check(&self) -> Result<()> {
        match self.became() {
            Became::Open => Ok(()),
            ended => Err(Error::Over(ended)),
        }
    }

    fn end(&self, ended: Became) {
        self.became.store(ended as u8, Ordering::Release);
    }
}

/// When the operations of a handle happen.
#[derive(Clone)]
pub(crate) enum When {
    /// At once: what is read is the newest.
    Now,
    /// At the epoch of a view.
    View(u64),
    /// In a transaction.
    Tx(Within),
}

impl When {
    /// Does something then.
    ///
    /// REQUIRES: the interpreter's lock is given up.
    pub(crate) fn at<R>(&self, body: impl FnOnce(At<'_>) -> Result<R>) -> Result<R> {
        match self {
            // The client of a view shows its epoch.
            Self::Now | Self::View(_) => body(At::Latest),
            Self::Tx(within) => within.slot.with(|tx| {
                within.check()?;
                body(At::Tx(tx))
            }),
        }
    }

    /// Changes something then; raises `ReadOnly` where nothing is changed.
    ///
    /// REQUIRES: the interpreter's lock is given up.
    pub(crate) fn change<R>(&self, session: &Session, body: impl FnOnce(At<'_>) -> Result<R>) -> Result<R> {
        match self {
            Self::View(epoch) => Err(Error::Still(Still::View(*epoch))),
            _ if session.read_only => Err(Error::Still(Still::Pool)),
            _ => self.at(body),
        }
    }
}

/// A transaction. Its reads see the container as it was when it began, and its own writes; its writes are seen by others when it is
/// committed, all at once. Made by ``Container.transaction``; best used in a ``with`` block, which commits at its end and aborts if
/// it raises.
///
/// The handles that ``kv``, ``array`` and ``object`` give read and write in it. It may be used by several threads at once.
#[pyclass(frozen, module = "dolmen", name = "Transaction")]
pub(crate) struct Transaction {
    within: Within,
    cont: Slot<Container>,
    home: Home,
}

impl Transaction {
    pub(crate) fn begin(py: Python<'_>, cont: &Slot<Container>) -> Result<Self> {
        let tx = cont.run(py, |cont| Ok(cont.begin()?))?;
        let within = Within { slot: cont.hold(tx)?, became: Arc::default() };
        Ok(Self { within, cont: cont.clone(), home: Home::of(py, cont)? })
    }

    fn when(&self) -> Result<When> {
        self.within.check()?;
        Ok(When::Tx(self.within.clone()))
    }

    /// Refuses a handle of another container, in which an object of the same id is another one, and one of the past.
    fn check_home(&self, home: &Home, when: &When) -> Result<()> {
        if home.uuid != self.home.uuid {
            let (of, own) = (&home.name, &self.home.name);
            let told = format!("the handle is of {of}, and the transaction of {own}");
            return Err(Error::Told(Named(told)));
        }
        let When::View(epoch) = when else { return Ok(()) };
        let told = format!(
            "the handle is of a view of a past state (epoch {epoch}): give its `oid` for what is there now"
        );
        Err(Error::Told(Named(told)))
    }

    fn end(&self, py: Python<'_>) -> Result<Epoch> {
        let epoch = self.within.slot.run(py, |tx| {
            self.within.check()?;
            Ok(tx.commit()?)
        })?;
        self.within.end(Became::Committed);
        Ok(epoch)
    }

    fn give_up(&self, py: Python<'_>) -> Result<()> {
        if self.within.became() == Became::Open {
            self.within.end(Became::Aborted);
        }
        self.within.slot.run(py, |tx| {
            tx.abort();
            Ok(())
        })
    }
}

#[pymethods]
impl Transaction {
    /// The key-value store with this id, or the same as this one, in the transaction.
    fn kv(&self, py: Python<'_>, which: &Bound<'_, PyAny>) -> PyResult<Kv> {
        let oid = match which.cast::<Kv>() {
            Ok(kv) => {
                self.check_home(kv.get().home(), kv.get().when())?;
                kv.get().id()
            }
            Err(_id) => which.extract::<Oid>()?.0,
        };
        Ok(Kv::open(py, &self.cont, oid, self.when()?)?)
    }

    /// The array with this id, or the same as this one, in the transaction.
    #[pyo3(signature = (which, dtype=None))]
    fn array(
        &self,
        py: Python<'_>,
        which: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Array> {
        match which.cast::<Array>() {
            Ok(array) => {
                let array = array.get();
                self.check_home(array.home(), array.when())?;
                Ok(array.within(py, &self.cont, self.when()?)?)
            }
            Err(_id) => Array::open(py, &self.cont, which.extract::<Oid>()?.0, dtype, self.when()?),
        }
    }

    /// The object with this id, or the same as this one, in the transaction.
    fn object(&self, py: Python<'_>, which: &Bound<'_, PyAny>) -> PyResult<Object> {
        let oid = match which.cast::<Object>() {
            Ok(object) => {
                self.check_home(object.get().home(), object.get().when())?;
                object.get().id()
            }
            Err(_id) => which.extract::<Oid>()?.0,
        };
        Ok(Object::open(py, &self.cont, oid, self.when()?)?)
    }

    /// The epoch that its reads have and its writes will get.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.within.slot.run(py, |tx| Ok(tx.epoch().0))?)
    }

    /// Commits, and returns the epoch of its writes, which is that of its begin. Raises Conflict, with nothing written, if others have
    /// since changed what it writes, or have read it in a later transaction: begin anew. What it only read may have been changed: it
    /// comes before that change. InDoubt and Unreachable leave it open whether it is committed: committing once more tells. After any other error
    /// nothing is written and all is still buffered.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.end(py)?.0)
    }

    /// Forgets what was written. Doing so again does nothing.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.give_up(py)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().within.check()?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        _exception: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // Whoever has committed or aborted within the block has had his way.
        if self.within.has_ended() {
            return Ok(());
        }
        match kind {
            None => {
                self.end(py)?;
            }
            Some(_) => self.give_up(py)?,
        }
        Ok(())
    }

    fn __repr__(&self) -> &'static str {
        if self.within.has_ended() { "<dolmen.Transaction, ended>" } else { "<dolmen.Transaction>" }
    }
}

/// Calls `body` with a transaction and commits, again for as long as there is a conflict.
pub(crate) fn transact<'py>(
    py: Python<'py>,
    cont: &Slot<Container>,
    body: &Bound<'py, PyAny>,
    attempts: u32,
) -> PyResult<Bound<'py, PyAny>> {
    if attempts == 0 {
        return Err(Error::Argument(Wrong::Attempts).into());
    }
    let conflict = py.import("dolmen.errors")?.getattr("Conflict")?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let begun_ns = RealClock.monotonic_ns();
        let tx = Bound::new(py, Transaction::begin(py, cont)?)?;
        let result = body.call1((&tx,)).and_then(|result| {
            let own = tx.get();
            // Who has ended it in the body has had his way.
            if !own.within.has_ended() {
                own.end(py).map_err(PyErr::from)?;
            }
            Ok(result)
        });
        match result {
            Err(error) if attempt < attempts && error.is_instance(py, &conflict) => {
                tx.get().give_up(py)?;
                drop(error);
                pause(py, attempt, RealClock.monotonic_ns().saturating_sub(begun_ns))?;
                // A signal that came meanwhile is heard between two attempts.
                py.check_signals()?;
            }
            Err(error) => {
                // An InDoubt commit stays as it is for who asks once more; anything else is given up.
                let in_doubt = py.import("dolmen.errors")?.getattr("InDoubt")?;
                if !error.is_instance(py, &in_doubt) {
                    tx.get().give_up(py)?;
                }
                return Err(error);
            }
            Ok(result) => return Ok(result),
        }
    }
}

/// How long it is waited at least and at most, by chance, before a transaction is attempted again.
const PAUSE_MIN_NS: u64 = 100_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;

/// Waits before the next attempt, longer and longer and by chance, so that those who have met come again one after the other: a while that
/// `took_ns` fits into many times.
fn pause(py: Python<'_>, attempt: u32, took_ns: u64) -> PyResult<()> {
    let longest_ns = (took_ns.clamp(PAUSE_MIN_NS, PAUSE_MAX_NS) << attempt.min(5)).min(PAUSE_MAX_NS);
    let chance: f64 = py.import("random")?.call_method0("random")?.extract()?;
    py.detach(|| dolmen_env::wait(Duration::from_nanos(longest_ns).mul_f64(chance)));
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Transaction>()
}
