//! A transport on which a test acts just before a request is carried out, or just after it, or that carries none out for a while.

use dolmen_client::Transport;
use dolmen_codec::{Ask, Outcome, QueueId, Request};
use dolmen_types::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Which request.
pub(crate) type IsIt = fn(&Ask<'_>) -> bool;

type Act = Box<dyn FnOnce() -> Result<()> + Send>;

struct Trap {
    is_it: IsIt,
    is_before: bool,
    act: Act,
}

pub(crate) struct Watched {
    inner: Arc<dyn Transport>,
    requests: AtomicU64,
    /// Guards what waits for its request; not held while it acts.
    trap: Mutex<Option<Trap>>,
    /// Why nothing is carried out at present, if nothing is.
    refuses: Box<dyn Fn() -> Option<Error> + Send + Sync>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Transport>) -> Self {
        Self::refusing(inner, || None)
    }

    /// One that carries nothing out while `refuses` says why.
    pub(crate) fn refusing(
        inner: Arc<dyn Transport>,
        refuses: impl Fn() -> Option<Error> + Send + Sync + 'static,
    ) -> Self {
        Self { inner, requests: AtomicU64::new(0), trap: Mutex::new(None), refuses: Box::new(refuses) }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Before the next such request; with an error it is not carried out.
    pub(crate) fn before(&self, is_it: IsIt, act: impl FnOnce() -> Result<()> + Send + 'static) {
        *self.trap.lock().unwrap() = Some(Trap { is_it, is_before: true, act: Box::new(act) });
    }

    /// When the next such request is answered, and the caller does not know yet.
    pub(crate) fn after(&self, is_it: IsIt, act: impl FnOnce() + Send + 'static) {
        let act = Box::new(|| {
            act();
            Ok(())
        });
        *self.trap.lock().unwrap() = Some(Trap { is_it, is_before: false, act });
    }

    /// Whether everything has acted.
    pub(crate) fn is_done(&self) -> bool {
        self.trap.lock().unwrap().is_none()
    }
}

impl Transport for Watched {
    fn call(&self, request: Request<'_>) -> Outcome {
        if let Some(error) = (self.refuses)() {
            return request.refused(error);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let trap = self.trap.lock().unwrap().take_if(|trap| (trap.is_it)(&request.ask));
        let Some(trap) = trap else { return self.inner.call(request) };
        if !trap.is_before {
            let outcome = self.inner.call(request);
            (trap.act)().unwrap();
            return outcome;
        }
        match (trap.act)() {
            Ok(()) => self.inner.call(request),
            Err(error) => request.refused(error),
        }
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.inner.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.inner.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.inner.submit(queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.inner.poll(queue, wait, out);
    }
}
