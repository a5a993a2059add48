//! An open pool as connections have it: it can be taken from all of them.
//!
//! Invariants: nothing begins once the end was announced; the pool is taken when nothing is under way any more, so each
//! request that was let through is answered.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use dolmen_codec::verb::Verb;
use dolmen_codec::{Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_local::LocalPool;
use dolmen_types::{Epoch, Error, IoBuf, PoolMap, Result};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// How long what is under way may take to end when a pool is taken: longer than a device or another engine needs, less than
/// whoever asks for it waits.
const END_NS: u64 = 10_000_000_000;

/// Between two looks whether it has ended.
const REST: Duration = Duration::from_millis(1);

/// An open pool.
pub(crate) struct Lease {
    map: PoolMap,
    /// Whether other engines have parts of it.
    is_spread: bool,
    has_ended: AtomicBool,
    /// Requests of queues whose outcomes nobody has taken yet.
    under_way: AtomicUsize,
    /// Guards whether there is a pool; held to read for as long as something is asked.
    pool: RwLock<Option<LocalPool>>,
    /// How many outcomes `late` has.
    late_count: AtomicUsize,
    /// Guards outcomes of requests that came after the end; taken alone.
    late: Mutex<Vec<(QueueId, Outcome)>>,
}

impl Lease {
    pub(crate) fn new(pool: LocalPool) -> Self {
        Self {
            map: pool.map().clone(),
            is_spread: pool.spread().is_some(),
            has_ended: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            pool: RwLock::new(Some(pool)),
            late_count: AtomicUsize::new(0),
            late: Mutex::default(),
        }
    }

    pub(crate) fn map(&self) -> &PoolMap {
        &self.map
    }

    pub(crate) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// What the engine with the pool's service uses; `None` after the end.
    pub(crate) fn part_door(&self) -> Option<Arc<dyn Transport>> {
        self.pool().as_ref().map(LocalPool::part_door)
    }

    /// Whether it was taken, or is about to be.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.pool().as_ref().is_some_and(|pool| pool.wait_admitted(Duration::ZERO))
    }

    /// The pool, when nobody else has the lease.
    pub(crate) fn into_pool(self) -> Option<LocalPool> {
        self.pool.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pool from all who have it, and closes it.
    ///
    /// # Errors
    /// `Busy` if what is under way does not end; then all is as it was.
    pub(crate) fn end(&self) -> Result<()> {
        self.has_ended.store(true, Ordering::SeqCst);
        let end_ns = RealClock.monotonic_ns() + END_NS;
        loop {
            // Who waits in line for the lock would hold up those whose work the others wait for.
            if self.under_way.load(Ordering::SeqCst) == 0 {
                match self.pool.try_write() {
                    Ok(mut pool) => break drop(pool.take()),
                    Err(TryLockError::Poisoned(pool)) => break drop(pool.into_inner().take()),
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            if RealClock.monotonic_ns() >= end_ns {
                self.has_ended.store(false, Ordering::SeqCst);
                return Err(Error::Busy);
            }
            dolmen_env::wait(REST);
        }
        Ok(())
    }

    fn pool(&self) -> RwLockReadGuard<'_, Option<LocalPool>> {
        self.pool.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the pool, or gives back what cannot be done any more.
    fn with<I, T>(&self, input: I, body: impl FnOnce(&LocalPool, I) -> T) -> core::result::Result<T, I> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Err(input);
        }
        match &*self.pool() {
            Some(pool) => Ok(body(pool, input)),
            None => Err(input),
        }
    }
}

impl Lease {
    fn take_late(&self, queue: QueueId, out: &mut Vec<Outcome>) {
        if self.late_count.load(Ordering::SeqCst) > 0 {
            let before = out.len();
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            out.extend(late.extract_if(.., |(of, _)| *of == queue).map(|(_, outcome)| outcome));
            self.late_count.fetch_sub(out.len() - before, Ordering::SeqCst);
        }
    }
}

/// What a request is told after the end.
fn refusal(request: Request<'_>) -> Outcome {
    let buf: Option<IoBuf> = match request.ask {
        Ask::Target(_, _, Verb::Fetch(fetch)) => Some(fetch.buf),
        _ => None,
    };
    Outcome { token: request.token, result: Err(Error::NoPermission), buf }
}

impl Transport for Lease {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.with(request, |pool, request| pool.call(request)).unwrap_or_else(refusal)
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.with((), |pool, ()| pool.open_queue()).unwrap_or(Err(Error::NoPermission))
    }

    fn saw(&self, epoch: Epoch) {
        // Ignored: of a pool that is gone nobody begins a transaction.
        let _seen = self.with((), |pool, ()| pool.saw(epoch));
    }

    fn close_queue(&self, queue: QueueId) {
        if let Some(pool) = &*self.pool() {
            pool.close_queue(queue);
        }
        self.take_late(queue, &mut Vec::new());
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        // Before it is known whether it may begin: who ends the lease first says so, then counts.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if let Err(request) = self.with(request, |pool, request| pool.submit(queue, request)) {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.push((queue, refusal(request)));
            self.late_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let before = out.len();
        if let Some(pool) = &*self.pool() {
            pool.poll(queue, wait, out);
            self.under_way.fetch_sub(out.len() - before, Ordering::SeqCst);
        }
        self.take_late(queue, out);
    }
}

impl core::fmt::Debug for Lease {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lease").field("pool", &self.map.pool).finish_non_exhaustive()
    }
}
