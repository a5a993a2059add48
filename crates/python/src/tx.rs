//! Transactions, and when operations of other modules happen.

use crate::array::Array;
use crate::error::{Error, Result, Wrong};
use crate::kv::Kv;
use crate::object::Object;
use crate::oid::Oid;
use crate::slot::Slot;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_client::{At, Container, Epoch, Tx};
use pyo3::prelude::{
    Bound, PyAny, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::PyType;

/// When the operations of a handle happen.
#[derive(Clone)]
pub(crate) enum When {
    /// At once: what is read is the newest, or what the view of the container shows.
    Now,
    /// In a transaction.
    Tx(Slot<Tx>),
}

impl When {
    /// Does something then.
    ///
    /// REQUIRES: the interpreter's lock is given up.
    pub(crate) fn at<R>(&self, body: impl FnOnce(At<'_>) -> Result<R>) -> Result<R> {
        match self {
            Self::Now => body(At::Latest),
            Self::Tx(slot) => slot.with(|tx| body(At::Tx(tx))),
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
    slot: Slot<Tx>,
    cont: Slot<Container>,
    has_ended: AtomicBool,
}

impl Transaction {
    pub(crate) fn begin(py: Python<'_>, cont: &Slot<Container>) -> Result<Self> {
        let tx = cont.run(py, |cont| Ok(cont.begin()?))?;
        let slot = cont.hold(tx)?;
        Ok(Self { slot, cont: cont.clone(), has_ended: AtomicBool::new(false) })
    }

    fn when(&self) -> When {
        When::Tx(self.slot.clone())
    }

    fn end(&self, py: Python<'_>) -> Result<Epoch> {
        let epoch = self.slot.run(py, |tx| Ok(tx.commit()?))?;
        self.has_ended.store(true, Ordering::Release);
        Ok(epoch)
    }

    fn give_up(&self, py: Python<'_>) -> Result<()> {
        self.has_ended.store(true, Ordering::Release);
        self.slot.run(py, |tx| {
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
            Ok(kv) => kv.get().id(),
            Err(_id) => which.extract::<Oid>()?.0,
        };
        Ok(Kv::open(py, &self.cont, oid, self.when())?)
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
            Ok(array) => Ok(array.get().within(py, self.when())),
            Err(_id) => Array::open(py, &self.cont, which.extract::<Oid>()?.0, dtype, self.when()),
        }
    }

    /// The object with this id, or the same as this one, in the transaction.
    fn object(&self, py: Python<'_>, which: &Bound<'_, PyAny>) -> PyResult<Object> {
        let oid = match which.cast::<Object>() {
            Ok(object) => object.get().id(),
            Err(_id) => which.extract::<Oid>()?.0,
        };
        Ok(Object::open(py, &self.cont, oid, self.when())?)
    }

    /// The epoch that its reads have and its writes will get.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.run(py, |tx| Ok(tx.epoch().0))?)
    }

    /// Commits, and returns the epoch of its writes. Raises Conflict if what it read was changed, with nothing written: begin
    /// anew. InDoubt and Unreachable leave it open whether it is committed: committing once more tells. After any other error
    /// nothing is written and all is still buffered.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.end(py)?.0)
    }

    /// Forgets what was written. Doing so again does nothing.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.give_up(py)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        _exception: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // Whoever has committed or aborted within the block has had his way.
        if self.has_ended.load(Ordering::Acquire) {
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
        if self.has_ended.load(Ordering::Acquire) {
            "<dolmen.Transaction, ended>"
        } else {
            "<dolmen.Transaction>"
        }
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
        let tx = Bound::new(py, Transaction::begin(py, cont)?)?;
        let result = body.call1((&tx,)).and_then(|result| {
            let own = tx.get();
            // Who has ended it in the body has had his way.
            if !own.has_ended.load(Ordering::Acquire) {
                own.end(py).map_err(PyErr::from)?;
            }
            Ok(result)
        });
        match result {
            Err(error) if attempt < attempts && error.is_instance(py, &conflict) => {
                tx.get().give_up(py)?;
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

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Transaction>()
}
