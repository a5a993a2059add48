//! What ends an operation from the side of Python: an exception of a function that is told of progress, a signal, as Ctrl-C, or a task of
//! asyncio that is called off.
//!
//! Invariants: what was raised is told by the operation during which it was raised, whatever else became of that; signals are heard on the main
//! thread alone, as Python has it.

use crate::error::{Error, Result};
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_env::{Clock, RealClock};
use dolmen_rntuple::stop::{Asked, asked, asking};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use std::sync::{Arc, LazyLock};

/// How often it is looked whether there is a signal: to look takes the interpreter's lock, which others may have for 5 ms.
const LOOK_NS: u64 = 100_000_000;

thread_local! {
    /// What was raised in the operation under way on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// When it was looked last whether there is a signal.
    static LOOKED_NS: Cell<u64> = const { Cell::new(0) };
}

static ASKED: LazyLock<Asked> = LazyLock::new(|| Arc::new(is_ended));

/// Calls off from another thread what runs within it; used by ``dolmen.aio``.
#[pyclass(frozen, module = "dolmen", name = "Stop")]
pub(crate) struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Calls a function, whose operations end as soon as they can once this is set, nothing half made: they raise Canceled then.
    fn run<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let stop = Arc::clone(&self.0);
        asking(Some(Arc::new(move || stop.load(Ordering::Relaxed))), || function.call0())
    }

    /// Calls off what runs, and what will.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Stop>()
}

/// Runs an operation, with the interpreter's lock given up, that ends when something is raised, or it is called off.
pub(crate) fn watched<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    let ask: Asked = match asked() {
        Some(around) => Arc::new(move || around() || is_ended()),
        None => Arc::clone(&ASKED),
    };
    let done = asking(Some(ask), body);
    match RAISED.with(RefCell::take) {
        Some(raised) => Err(Error::Raised(Box::new(raised))),
        None => done,
    }
}

/// Does something other threads run beside, and that ends when something is raised.
pub(crate) fn detached<R: Send>(py: Python<'_>, body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    py.detach(|| watched(body))
}

/// Whether something was raised on this thread, or is by a signal now.
fn is_ended() -> bool {
    if RAISED.with(|raised| raised.borrow().is_some()) {
        return true;
    }
    let now_ns = RealClock.monotonic_ns();
    if now_ns.saturating_sub(LOOKED_NS.get()) < LOOK_NS {
        return false;
    }
    LOOKED_NS.set(now_ns);
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    is_main && Python::attach(|py| py.check_signals().map_err(raise).is_err())
}

fn raise(error: PyErr) -> dolmen_rntuple::Error {
    RAISED.with(|raised| *raised.borrow_mut() = Some(error));
    dolmen_rntuple::Error::Stopped
}

/// Tells a function of Python of progress; what it raises ends what is under way.
pub(crate) fn teller(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
) -> PyResult<impl FnMut(u64) -> dolmen_rntuple::Result<()> + Send + use<>> {
    if progress.as_ref().is_some_and(|progress| !progress.bind(py).is_callable()) {
        let told = "progress is a function that is called with a number of entries, or None";
        return Err(PyTypeError::new_err(told));
    }
    Ok(move |entries| {
        let Some(progress) = &progress else { return Ok(()) };
        Python::attach(|py| progress.call1(py, (entries,)).map(drop).map_err(raise))
    })
}
