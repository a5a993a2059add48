//! Operations that reach a target while another thread owns it, and where their answers go.
//!
//! Invariants: an inbox holds at most `INBOX_OPS_MAX` operations; every operation put in is delivered
//! exactly once; who sleeps is woken by its answer, or called when the target is let go or when another
//! thread has taken the answers; who does not wait any more is not listed as a waiter.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use core::time::Duration;
use dolmen_codec::{Completion, Op};
use dolmen_types::{Epoch, TargetNo};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// Operations that may wait for one target: several full event queues, a few MiB of descriptors.
pub(crate) const INBOX_OPS_MAX: usize = 4096;

/// Locks `mutex`. A panic of a store is caught before it can poison a lock, so what it guards is whole.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `mutex` unless somebody has it.
pub(crate) fn try_locked<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A finished operation. One that met an undecided transaction comes back whole, to be repeated.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) completion: Completion,
    pub(crate) again: Option<Op<'a>>,
}

/// What threads wait for. They sleep here, not at the target: an answer wakes whom it is for and nobody else.
#[derive(Debug, Default)]
struct Awaited<S> {
    /// Guards what is waited for; taken alone or after a target's owner lock, never before it.
    state: Mutex<AwaitedState<S>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AwaitedState<S> {
    held: S,
    sleepers: u32,
    /// How often somebody was called to drive a target, or to look again.
    calls: u64,
}

impl<S> Awaited<S> {
    fn holding(held: S) -> Self {
        let state = AwaitedState { held, sleepers: 0, calls: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Looks at what is held, or changes it, without waking anybody.
    fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        work(&mut locked(&self.state).held)
    }

    /// Changes what is held, and wakes who waits for that.
    fn put(&self, work: impl FnOnce(&mut S)) {
        let mut state = locked(&self.state);
        work(&mut state.held);
        self.wake(state);
    }

    /// Changes what is held, and calls who waits for that.
    fn call_after(&self, work: impl FnOnce(&mut S)) {
        let mut state = locked(&self.state);
        work(&mut state.held);
        state.calls += 1;
        self.wake(state);
    }

    fn call(&self) {
        self.call_after(|_| {});
    }

    fn calls(&self) -> u64 {
        locked(&self.state).calls
    }

    /// Sleeps until it `is_ready`, or somebody was called since `calls` were counted.
    fn sleep(&self, calls: u64, is_ready: impl Fn() -> bool) {
        let mut state = locked(&self.state);
        while state.calls == calls && !is_ready() {
            state.sleepers += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleepers -= 1;
        }
    }

    fn wake(&self, state: MutexGuard<'_, AwaitedState<S>>) {
        let sleeping = state.sleepers > 0;
        drop(state);
        if sleeping {
            self.changed.notify_all();
        }
    }
}

/// Where an operation goes when it is finished, and who waits for it.
#[derive(Clone, Debug)]
pub(crate) enum Dest {
    /// To a thread that waits for this one operation.
    Ticket(Arc<Ticket>),
    /// To a completion queue.
    Queue(Arc<Outbox>),
}

impl Dest {
    pub(crate) fn deliver(self, from: TargetNo, finished: Finished<'static>) {
        match self {
            Self::Ticket(ticket) => ticket.fill(finished),
            Self::Queue(outbox) => outbox.put(from, finished),
        }
    }

    /// Whether there is an answer.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Ticket(ticket) => ticket.is_filled(),
            Self::Queue(outbox) => outbox.has_ready(),
        }
    }

    /// Whether nothing is to be taken, and something is to come from `target`.
    pub(crate) fn awaits(&self, target: TargetNo) -> bool {
        match self {
            Self::Ticket(ticket) => !ticket.is_filled(),
            Self::Queue(outbox) => !outbox.has_ready() && outbox.is_under_way(target),
        }
    }

    /// How often those who wait here were called; for `sleep`.
    pub(crate) fn calls(&self) -> u64 {
        match self {
            Self::Ticket(ticket) => ticket.answer.calls(),
            Self::Queue(outbox) => outbox.inner.calls(),
        }
    }

    /// Sleeps until there is an answer, or there were calls since `calls`.
    pub(crate) fn sleep(&self, calls: u64) {
        match self {
            Self::Ticket(ticket) => ticket.answer.sleep(calls, || ticket.is_filled()),
            Self::Queue(outbox) => outbox.inner.sleep(calls, || outbox.has_ready()),
        }
    }

    fn call(&self) {
        match self {
            Self::Ticket(ticket) => ticket.answer.call(),
            Self::Queue(outbox) => outbox.inner.call(),
        }
    }
}

/// Room for the answer to one operation.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    filled: AtomicBool,
    answer: Awaited<Option<Finished<'static>>>,
}

impl Ticket {
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Option<Finished<'static>> {
        if self.is_filled() { self.answer.with(Option::take) } else { None }
    }

    fn fill(&self, finished: Finished<'static>) {
        self.answer.put(|answer| {
            *answer = Some(finished);
            self.filled.store(true, Ordering::Release);
        });
    }
}

/// The answers of one completion queue.
#[derive(Debug)]
pub(crate) struct Outbox {
    inner: Awaited<OutboxInner>,
    ready: AtomicUsize,
}

#[derive(Debug)]
struct OutboxInner {
    finished: VecDeque<(TargetNo, Finished<'static>)>,
    under_way: Vec<u32>,
}

impl Outbox {
    pub(crate) fn new(target_count: usize) -> Self {
        let inner = OutboxInner { finished: VecDeque::new(), under_way: vec![0; target_count] };
        Self { inner: Awaited::holding(inner), ready: AtomicUsize::new(0) }
    }

    /// Counts an operation as under way on `target`.
    pub(crate) fn begin(&self, target: TargetNo) {
        self.inner.with(|inner| inner.under_way[target.index()] += 1);
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) > 0
    }

    /// Appends everything that is finished. Other threads that sleep here look again: what woke them may be gone,
    /// and a target that was let go meanwhile has called none of them, since there were answers.
    pub(crate) fn take(&self, out: &mut Vec<(TargetNo, Finished<'static>)>) {
        self.inner.call_after(|inner| {
            out.extend(inner.finished.drain(..));
            self.ready.store(0, Ordering::Release);
        });
    }

    fn is_under_way(&self, target: TargetNo) -> bool {
        self.inner.with(|inner| inner.under_way[target.index()] > 0)
    }

    /// Appends the targets that have operations of this queue.
    pub(crate) fn targets_under_way(&self, out: &mut Vec<TargetNo>) {
        self.inner.with(|inner| {
            let busy = inner.under_way.iter().zip(0..).filter(|(count, _)| **count > 0);
            out.extend(busy.map(|(_, no)| TargetNo(no)));
        });
    }

    fn put(&self, from: TargetNo, finished: Finished<'static>) {
        self.inner.put(|inner| {
            let count = &mut inner.under_way[from.index()];
            assert!(*count > 0, "an operation is delivered once");
            *count -= 1;
            inner.finished.push_back((from, finished));
            self.ready.store(inner.finished.len(), Ordering::Release);
        });
    }
}

/// An operation that waits for its target.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) op: Op<'a>,
    pub(crate) dest: Dest,
}

/// One entry among those who wait for a target; threads that wait for the same queue have one each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaiterId(u64);

#[derive(Debug, Default)]
struct Waiters {
    listed: VecDeque<(WaiterId, Dest)>,
    added: u64,
}

/// What is reached of a target without owning it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Guards the jobs; taken alone or after the owner lock, never before it.
    jobs: Mutex<VecDeque<Job<'static>>>,
    job_count: AtomicUsize,
    /// Guards those who wait while another thread has the target; taken alone.
    waiters: Mutex<Waiters>,
    waiter_count: AtomicUsize,
    newest: AtomicU64,
    /// Guards the number of decisions; held only to add one or to wait for the next.
    decisions: Mutex<u64>,
    decided: Condvar,
}

impl Shared {
    #[inline]
    pub(crate) fn has_jobs(&self) -> bool {
        self.job_count.load(Ordering::Acquire) > 0
    }

    /// Puts a job in; gives it back if the inbox is full.
    #[expect(clippy::result_large_err, reason = "the job goes back to whoever must keep it")]
    pub(crate) fn enqueue(&self, job: Job<'static>) -> core::result::Result<(), Job<'static>> {
        let mut jobs = locked(&self.jobs);
        if jobs.len() >= INBOX_OPS_MAX {
            return Err(job);
        }
        jobs.push_back(job);
        self.job_count.store(jobs.len(), Ordering::Release);
        Ok(())
    }

    /// Moves up to `count_max` jobs to `out`, oldest first.
    pub(crate) fn dequeue(&self, count_max: usize, out: &mut Vec<Job<'static>>) {
        let mut jobs = locked(&self.jobs);
        let count = jobs.len().min(count_max);
        out.extend(jobs.drain(..count));
        self.job_count.store(jobs.len(), Ordering::Release);
    }

    /// Lists one who waits: it is called when the target is let go, unless it has its answer by then. An attempt
    /// to take the target has to follow, since it may have been let go before.
    pub(crate) fn add_waiter(&self, dest: Dest) -> WaiterId {
        let mut waiters = locked(&self.waiters);
        let id = WaiterId(waiters.added);
        waiters.added += 1;
        waiters.listed.push_back((id, dest));
        self.waiter_count.store(waiters.listed.len(), Ordering::Relaxed);
        drop(waiters);
        // Pairs with that of `hand_over`: either its owner sees the waiter, or the waiter sees a free target.
        fence(Ordering::SeqCst);
        id
    }

    /// Forgets one who waits no more; false if it is not listed, because the target was let go and may have
    /// called it. REQUIRES: the caller has added it.
    pub(crate) fn remove_waiter(&self, id: WaiterId) -> bool {
        // Whoever has added one reads zero only from after it was taken off the list.
        if self.waiter_count() == 0 {
            return false;
        }
        let mut waiters = locked(&self.waiters);
        let at = waiters.listed.iter().position(|(listed, _)| *listed == id);
        let removed = at.and_then(|at| waiters.listed.remove(at)).is_some();
        self.waiter_count.store(waiters.listed.len(), Ordering::Relaxed);
        removed
    }

    /// How many wait while another thread has the target.
    #[inline]
    pub(crate) fn waiter_count(&self) -> usize {
        self.waiter_count.load(Ordering::Relaxed)
    }

    /// Calls the first who still waits to drive the target, which was let go.
    #[inline]
    pub(crate) fn hand_over(&self) {
        fence(Ordering::SeqCst);
        if self.waiter_count() > 0 {
            self.call_first_waiter();
        }
    }

    #[cold]
    fn call_first_waiter(&self) {
        let mut waiters = locked(&self.waiters);
        let mut first = waiters.listed.pop_front();
        while first.as_ref().is_some_and(|(_, dest)| dest.is_ready()) {
            first = waiters.listed.pop_front();
        }
        self.waiter_count.store(waiters.listed.len(), Ordering::Relaxed);
        drop(waiters);
        if let Some((_, dest)) = first {
            dest.call();
        }
    }

    /// Notes an epoch that the target has answered. REQUIRES: the caller owns the target.
    #[inline]
    pub(crate) fn saw(&self, epoch: Epoch) {
        if epoch.0 > self.newest.load(Ordering::Relaxed) {
            self.newest.store(epoch.0, Ordering::Release);
        }
    }

    /// The newest epoch that the target has answered.
    pub(crate) fn newest(&self) -> Epoch {
        Epoch(self.newest.load(Ordering::Acquire))
    }

    /// How many transactions were decided here so far.
    pub(crate) fn decisions(&self) -> u64 {
        *locked(&self.decisions)
    }

    pub(crate) fn count_decision(&self) {
        *locked(&self.decisions) += 1;
        self.decided.notify_all();
    }

    /// Waits until more than `seen` transactions were decided, at most for `limit`; whether they were.
    pub(crate) fn wait_for_decision(&self, seen: u64, limit: Duration) -> bool {
        let decisions = locked(&self.decisions);
        let outcome = self.decided.wait_timeout_while(decisions, limit, |count| *count <= seen);
        *outcome.unwrap_or_else(PoisonError::into_inner).0 > seen
    }
}

#[cfg(test)]
mod tests;
