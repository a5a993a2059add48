//! Targets and who owns them: an operation is carried out by the thread that brings it.
//!
//! The caller takes a target with one atomic, runs its operation by reference, delivers what others have
//! left in the inbox meanwhile, and lets go. If another thread owns the target, the operation is put into
//! the inbox (with its own copy of the payload) and the caller sleeps until it is answered, or is called because
//! the target is free. So concurrent operations of one target share a submit, and a flush, without a thread of
//! their own; who has an answer goes on at once, whoever owns the target by then.
//!
//! Invariants: a thread owns at most one target at a time, so work on one never waits for another;
//! an operation that waits for a target is answered even if no other thread ever comes back to it: whoever lets
//! the target go calls the next that waits, and who was called and needs the target no more calls on.

use crate::accounts::Accounts;
use crate::copy;
use crate::fence::{Fence, Undecided};
use crate::inbox::{Dest, Finished, Job, Outbox, Shared, Ticket, locked};
use crate::owned::Owned;
use crate::parts::{Part, Parts};
use crate::resolve;
use crate::tell::{self, Tellings};
use crate::turns::Turns;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use dolmen_codec::verb::{Reply, Verb};
use dolmen_codec::{Completion, Op, Progress, TargetStore};
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, Result, TargetNo, limits};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Attempts to take a busy target before its caller queues: about as long as one small operation takes, which
/// is cheaper than a copy and a wake-up.
const SPINS: u32 = 200;

/// Operations between two bounded pieces of background work when callers do it.
const STEP_EVERY_OPS: u32 = 64;

/// A target on its own cache lines.
#[repr(align(128))]
struct Slot<T> {
    /// Guards the store; its holder is the target's owner. Taken before `shared`'s locks, never two at once.
    owner: Mutex<Owned<T>>,
    shared: Shared,
    ops_since_step: AtomicU32,
}

/// A target in the hands of this thread; letting it go calls the next that waits for it.
struct Turn<'s, T> {
    // Dropped in this order: who is called must find the target free.
    owned: MutexGuard<'s, Owned<T>>,
    _next: Next<'s>,
}

struct Next<'s>(&'s Shared);

impl Drop for Next<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.hand_over();
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = Owned<T>;

    #[inline]
    fn deref(&self) -> &Owned<T> {
        &self.owned
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Owned<T> {
        &mut self.owned
    }
}

/// All targets of a pool in this process.
pub struct Targets<T> {
    slots: Box<[Slot<T>]>,
    next_step: AtomicUsize,
    callers_step: AtomicBool,
    tellings: Tellings,
    turns: Arc<Turns>,
    parts: Parts,
    /// Some of them are at other engines.
    is_spread: bool,
    accounts: Accounts,
}

impl<T: TargetStore> Targets<T> {
    /// Takes the stores, by target number, and settles every transaction that a crash left undecided.
    ///
    /// # Errors
    /// `Invalid::Count` if there is none or more than `limits::TARGETS_MAX`; what a store answers.
    pub fn new(stores: Vec<T>) -> Result<Self> {
        Self::with_parts(stores, Vec::new())
    }

    /// The same, where some of the stores are at other engines, which have parts of the pool.
    ///
    /// # Errors
    /// As `new`; `Unreachable` if an engine cannot be asked.
    pub fn with_parts(stores: Vec<T>, parts: Vec<Part>) -> Result<Self> {
        let is_spread = !parts.is_empty();
        let targets = Self::of_stores(stores, Parts::new(parts), is_spread)?;
        resolve::settle_all(&targets)?;
        tell::tell_again(&targets)?;
        Ok(targets)
    }

    /// The targets of a part of a pool: who has the pool's service settles what is undecided in it.
    ///
    /// # Errors
    /// As `new`.
    pub fn of_part(stores: Vec<T>) -> Result<Self> {
        Self::of_stores(stores, Parts::default(), true)
    }

    fn of_stores(mut stores: Vec<T>, parts: Parts, is_spread: bool) -> Result<Self> {
        if stores.is_empty() || stores.len() > limits::TARGETS_MAX {
            return Err(Invalid::Count.into());
        }
        let lead = Arc::default();
        stores.iter_mut().for_each(|store| store.go_with(&lead));
        let slot = |(store, no)| Slot {
            owner: Mutex::new(Owned::new(TargetNo(no), store)),
            shared: Shared::default(),
            ops_since_step: AtomicU32::new(0),
        };
        let slots = stores.into_iter().zip(0..).map(slot).collect();
        let targets = Self {
            slots,
            next_step: AtomicUsize::new(0),
            callers_step: AtomicBool::new(true),
            tellings: Tellings::default(),
            turns: Arc::default(),
            parts,
            is_spread,
            accounts: Accounts::default(),
        };
        for target in targets.numbers() {
            let listed = match targets.call(target, plain(ContNo::SYSTEM, Verb::InDoubt)).result? {
                Reply::InDoubt(listed) => listed,
                other => unreachable!("a store answers InDoubt with a list, not {other:?}"),
            };
            targets.slots[target.index()].owned().set_fence(Fence::with_undecided(&listed));
        }
        Ok(targets)
    }

    /// How many targets there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// All target numbers in order.
    ///
    /// # Panics
    /// Never: `new` limits the number of targets.
    pub fn numbers(&self) -> impl Iterator<Item = TargetNo> + use<T> {
        (0..u16::try_from(self.slots.len()).expect("limited by TARGETS_MAX")).map(TargetNo)
    }

    /// Makes all targets refuse transactions over several targets that were begun at or below `epoch`: a message
    /// from before the targets were opened must not revive a transaction that was given up since.
    pub fn refuse_older(&self, epoch: Epoch) {
        for slot in &self.slots {
            slot.owned().refuse_older(epoch);
        }
    }

    /// Carries out one operation and returns its completion.
    ///
    /// Payload is used by reference if the target is free. An operation that meets an undecided transaction
    /// waits for the decision, within a limit; only then it fails with `InDoubt`.
    #[inline]
    pub fn call(&self, target: TargetNo, op: Op<'_>) -> Completion {
        let Some(slot) = self.slots.get(target.index()) else {
            return refused(op, Invalid::Argument.into());
        };
        if let Some(mut owned) = slot.try_owned() {
            // Before the look at the fence, which learns from the jobs of others; their store may also panic over them.
            owned.take_in(&slot.shared);
            if owned.is_quiet() {
                let completion = owned.run(&slot.shared, op);
                self.leave(slot, owned);
                return completion;
            }
        }
        self.call_patiently(target, op)
    }

    /// Carries out several operations of one target in one submit. Completions are appended to `out` in the
    /// order of `ops`, which is left empty.
    pub fn call_many(&self, target: TargetNo, ops: &mut Vec<Op<'_>>, out: &mut Vec<Completion>) {
        let Some(slot) = self.slots.get(target.index()) else {
            out.extend(ops.drain(..).map(|op| refused(op, Invalid::Argument.into())));
            return;
        };
        let mut owned = slot.owned();
        if owned.is_quiet() {
            owned.run_many(&slot.shared, ops, out);
            self.leave(slot, owned);
            return;
        }
        drop(owned);
        out.extend(ops.drain(..).map(|op| self.call_patiently(target, op)));
    }

    /// Asks all targets the same, side by side; the answers come by target number.
    pub fn call_all(&self, op: impl Fn(TargetNo) -> Op<'static>) -> Vec<Completion> {
        let asked: Vec<_> = self.numbers().map(|target| (target, self.start(target, op(target)))).collect();
        asked.into_iter().map(|(target, ticket)| self.wait_for(target, &ticket).completion).collect()
    }

    /// As `call_all`; the first error, or all replies.
    ///
    /// # Errors
    /// The first target's that fails. The others may have carried it out.
    pub fn ask_all(&self, op: impl Fn(TargetNo) -> Op<'static>) -> Result<Vec<Reply>> {
        self.call_all(op).into_iter().map(|completion| completion.result).collect()
    }

    /// The newest epoch that any target has answered with.
    #[must_use]
    pub fn newest_epoch(&self) -> Epoch {
        self.slots.iter().map(|slot| slot.shared.newest()).max().unwrap_or(Epoch::ZERO)
    }

    /// One bounded piece of background work, on the next target that is free and has some.
    pub fn step(&self) -> Progress {
        tell::tell_on(self);
        let mut waiting = Progress::Idle;
        for _ in 0..self.slots.len() {
            let index = self.next_step.fetch_add(1, Ordering::Relaxed) % self.slots.len();
            let slot = &self.slots[index];
            let Some(mut owned) = slot.try_owned() else { continue };
            let progress = owned.step();
            self.leave(slot, owned);
            match progress {
                Progress::More => return Progress::More,
                Progress::Waiting => waiting = Progress::Waiting,
                Progress::Idle => {}
            }
        }
        waiting
    }

    /// Whether callers do the background work as they go (the default), or a thread calls `step`.
    pub fn set_callers_step(&self, on: bool) {
        self.callers_step.store(on, Ordering::Relaxed);
    }

    /// Finishes what is under way and gives the stores back, by target number.
    ///
    /// # Panics
    /// Never: who waits for a target borrows `self`.
    #[must_use]
    pub fn into_stores(self) -> Vec<T> {
        tell::tell_all(&self);
        let finish = |slot: Slot<T>| {
            assert_eq!(slot.shared.waiter_count(), 0, "who waits no more is not listed");
            let mut owned = slot.owner.into_inner().unwrap_or_else(PoisonError::into_inner);
            owned.take_in(&slot.shared);
            while owned.has_pending() || slot.shared.has_jobs() {
                owned.poll(&slot.shared, true);
                owned.take_in(&slot.shared);
            }
            owned.into_store()
        };
        self.slots.into_iter().map(finish).collect()
    }

    /// Starts an operation whose answer is fetched with `wait_for`; borrowed payload is consumed here.
    pub(crate) fn start(&self, target: TargetNo, op: Op<'_>) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let dest = Dest::Ticket(Arc::clone(&ticket));
        let slot = &self.slots[target.index()];
        let mut owned = match slot.try_owned() {
            Some(owned) => owned,
            None => match slot.shared.enqueue(Job { op: copy::into_owned(op), dest }) {
                Ok(()) => return ticket,
                Err(job) => {
                    // The inbox is full: wait for the target instead of for room in the inbox.
                    let mut owned = slot.owned();
                    owned.take_job(job);
                    self.leave(slot, owned);
                    return ticket;
                }
            },
        };
        owned.take_turn(&slot.shared, Job { op, dest });
        self.leave(slot, owned);
        ticket
    }

    /// Starts an operation whose answer goes to a completion queue. A full inbox answers `Busy`.
    pub(crate) fn start_queued(&self, target: TargetNo, op: Op<'static>, outbox: &Arc<Outbox>) {
        outbox.begin(target);
        if let Err(job) = self.send(target, Job { op, dest: Dest::Queue(Arc::clone(outbox)) }) {
            let completion = refused(job.op, Error::Busy);
            job.dest.deliver(target, Finished { completion, again: None });
        }
    }

    /// Has a target do something of which nobody hears; one whose inbox is full does not.
    pub(crate) fn tell(&self, target: TargetNo, op: Op<'static>) {
        // Ignored: see above.
        let _left_out = self.send(target, Job { op, dest: Dest::Ticket(Arc::default()) });
    }

    /// Waits for an operation that was started.
    pub(crate) fn wait_for(&self, target: TargetNo, ticket: &Arc<Ticket>) -> Finished<'static> {
        loop {
            if let Some(finished) = ticket.take() {
                return finished;
            }
            self.drive_for(target, &Dest::Ticket(Arc::clone(ticket)));
        }
    }

    /// Polls a target that is free, taking in what waits for it.
    pub(crate) fn drive(&self, target: TargetNo) {
        let slot = &self.slots[target.index()];
        let Some(mut owned) = slot.try_owned() else { return };
        owned.take_in(&slot.shared);
        owned.poll(&slot.shared, false);
        self.leave(slot, owned);
    }

    /// Drives a target, or lets its owner do so, until there is an answer for `dest` or none is to come from there.
    pub(crate) fn drive_for(&self, target: TargetNo, dest: &Dest) {
        let slot = &self.slots[target.index()];
        let Some(mut owned) = slot.owned_while_awaited(target, dest) else { return };
        loop {
            owned.take_in(&slot.shared);
            // Another thread of the same queue may have taken its answer; what others wait for is theirs to drive.
            if !dest.awaits(target) || !owned.has_pending() {
                break;
            }
            owned.poll(&slot.shared, true);
        }
        self.leave(slot, owned);
    }

    /// Makes operations in a container wait on all targets, and ends those that are under way there. Other containers and
    /// decisions of transactions go on. An error if an engine with a part does not answer; open it again then.
    pub(crate) fn close_cont(&self, cont: ContNo) -> Result<()> {
        self.close_here(cont);
        self.parts.close_cont(cont)
    }

    /// The same, of this engine's targets.
    pub(crate) fn close_here(&self, cont: ContNo) {
        for slot in &self.slots {
            let mut owned = slot.owned();
            owned.close_cont(&slot.shared, cont);
            self.leave(slot, owned);
        }
    }

    /// Lets operations in a container through on `target`; in a part once all of its targets may.
    pub(crate) fn open_cont(&self, target: TargetNo, cont: ContNo) {
        self.parts.open_cont(target, cont);
        let slot = &self.slots[target.index()];
        let mut owned = slot.owned();
        owned.open_cont(&slot.shared, cont);
        self.leave(slot, owned);
    }

    /// Who leads a transaction that is undecided on `target`; `None` if it is decided by now.
    pub(crate) fn leader_of(&self, target: TargetNo, tx: dolmen_types::TxId) -> Option<TargetNo> {
        self.slots[target.index()].owned().fence().leader_of(tx)
    }

    /// Transactions that are undecided on `target`.
    pub(crate) fn undecided(&self, target: TargetNo) -> Vec<Undecided> {
        self.slots[target.index()].owned().fence().undecided().to_vec()
    }

    /// Other engines with targets of the pool.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Accounts of containers that have limits.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Does something with each target, one after the other, until one fails.
    pub(crate) fn each_owned(&self, mut act: impl FnMut(&mut Owned<T>) -> Result<()>) -> Result<()> {
        self.slots.iter().try_for_each(|slot| {
            let mut owned = slot.owned();
            let done = act(&mut owned);
            self.leave(slot, owned);
            done
        })
    }

    /// Whether some of them are at other engines.
    pub(crate) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// Transactions whose participants are being told of their decision.
    pub(crate) fn tellings(&self) -> &Tellings {
        &self.tellings
    }

    /// Transactions that are being committed.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    pub(crate) fn shared(&self, target: TargetNo) -> &Shared {
        &self.slots[target.index()].shared
    }

    /// The way of an operation whose target is busy, or has undecided transactions.
    #[cold]
    fn call_patiently(&self, target: TargetNo, op: Op<'_>) -> Completion {
        let slot = &self.slots[target.index()];
        let mut op = op;
        let mut attempt = 0;
        loop {
            let seen = slot.shared.decisions();
            let Finished { completion, again } = match slot.spun_owned(|| false) {
                Some(mut owned) => {
                    let finished = owned.run_keeping(&slot.shared, op);
                    self.leave(slot, owned);
                    finished
                }
                None => {
                    let Finished { completion, again } = self.wait_for(target, &self.start(target, op));
                    Finished { completion, again: again.map(copy::into_owned) }
                }
            };
            match (&completion.result, again) {
                (Err(Error::InDoubt { tx }), Some(mut again)) if attempt < resolve::ATTEMPTS_MAX => {
                    resolve::settle_or_wait(self, target, *tx, seen, attempt);
                    copy::give_back(&mut again, completion.buf);
                    op = again;
                    attempt += 1;
                }
                _ => return completion,
            }
        }
    }

    /// Hands a job to the store if the target is free, else to its inbox; gives it back if that is full.
    #[expect(clippy::result_large_err, reason = "the job goes back to whoever must keep it")]
    fn send(&self, target: TargetNo, job: Job<'static>) -> core::result::Result<(), Job<'static>> {
        let slot = &self.slots[target.index()];
        match slot.try_owned() {
            Some(mut owned) => {
                owned.take_turn(&slot.shared, job);
                self.leave(slot, owned);
                Ok(())
            }
            None => slot.shared.enqueue(job),
        }
    }

    /// Serves the inbox once, does its share of background work, and lets go.
    #[inline]
    fn leave(&self, slot: &Slot<T>, mut owned: Turn<'_, T>) {
        if slot.shared.has_jobs() {
            owned.take_in(&slot.shared);
            owned.poll(&slot.shared, false);
        }
        if self.callers_step.load(Ordering::Relaxed) {
            // Only the owner writes the count, so that two plain accesses are enough.
            let count = slot.ops_since_step.load(Ordering::Relaxed) + 1;
            let due = count >= STEP_EVERY_OPS;
            slot.ops_since_step.store(if due { 0 } else { count }, Ordering::Relaxed);
            if due {
                owned.step();
            }
        }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn turn<'s>(&'s self, owned: MutexGuard<'s, Owned<T>>) -> Turn<'s, T> {
        Turn { owned, _next: Next(&self.shared) }
    }

    #[inline]
    fn try_owned(&self) -> Option<Turn<'_, T>> {
        match self.owner.try_lock() {
            Ok(owned) => Some(self.turn(owned)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.turn(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the target if it becomes free within a few attempts, or until `finished`.
    fn spun_owned(&self, finished: impl Fn() -> bool) -> Option<Turn<'_, T>> {
        for _ in 0..SPINS {
            if let Some(owned) = self.try_owned() {
                return Some(owned);
            }
            if finished() {
                return None;
            }
            core::hint::spin_loop();
        }
        None
    }

    /// Takes the target, waiting for its owner to let go.
    fn owned(&self) -> Turn<'_, T> {
        self.spun_owned(|| false).unwrap_or_else(|| self.turn(locked(&self.owner)))
    }

    /// Takes the target when it is free; `None` as soon as there is an answer for `dest`, or none to come from
    /// this target, which is `no`.
    fn owned_while_awaited(&self, no: TargetNo, dest: &Dest) -> Option<Turn<'_, T>> {
        let mut called = false;
        loop {
            // Counted before the look: if an answer is taken by another thread after it, that was a call.
            let calls = dest.calls();
            if !dest.awaits(no) {
                break;
            }
            if let Some(owned) = self.spun_owned(|| dest.is_ready()) {
                return Some(owned);
            }
            let waiter = self.shared.add_waiter(dest.clone());
            let owned = self.try_owned();
            if owned.is_none() {
                dest.sleep(calls);
            }
            // At once, lest a call goes to an entry at which nobody sleeps any more.
            called |= !self.shared.remove_waiter(waiter);
            if owned.is_some() {
                return owned;
            }
        }
        if called {
            // The call may have been for this one, and what others wait for is still to be done.
            self.shared.hand_over();
        }
        None
    }
}

/// An operation of the cluster's own, on nobody's behalf.
pub(crate) fn plain(cont: ContNo, verb: Verb<'_>) -> Op<'_> {
    Op { token: 0, head: Head::default(), cont, verb }
}

fn refused(op: Op<'_>, error: Error) -> Completion {
    Completion { token: op.token, result: Err(error), buf: copy::buffer_of(op.verb) }
}

#[cfg(test)]
mod tests;
