//! A target in the hands of its owner: submits, polls, and delivers what others had left in the inbox.
//!
//! Invariants: `ops` and `done` are empty between turns; every token given to the store is `OWN` or above
//! for the owner's operations, or the index of an entry in `pending`; after a panic of the store it is
//! never called again; a prepare is given to the store after all that is under way there, may meet it and is not kept.

use crate::copy;
use crate::fence::{CHANGE, Fence, Note};
use crate::inbox::{Dest, Finished, Job, Shared};
use crate::reach::Reach;
use dolmen_codec::quota::{Account, Charge};
use dolmen_codec::verb::{Reply, Verb};
use dolmen_codec::{Completion, Op, Progress, TargetStore};
use dolmen_types::{ContNo, Epoch, Error, TargetNo};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Tokens of the owner's own operations start here.
const OWN: u64 = 1 << 63;

/// The token of a completion that the store still owes.
const UNFINISHED: u64 = u64::MAX;

/// Jobs that an owner takes in at a time, so that its own operation does not wait for a full inbox.
const INTAKE_MAX: usize = 256;

/// The system's number for an input/output error: what a stopped target answers.
pub(crate) const EIO: i32 = 5;

/// A job that the store has taken.
#[derive(Debug)]
struct Pending {
    token: u64,
    note: Note,
    dest: Dest,
    again: Option<Op<'static>>,
    /// What it reads or writes, if it is not kept.
    reach: Option<Reach>,
}

/// A store with what its owner needs; scratch space is reused, so that a turn allocates nothing.
pub(crate) struct Owned<T> {
    store: T,
    no: TargetNo,
    fence: Fence,
    stopped: bool,
    /// Containers with limits: what these refuse is kept, for one more attempt.
    limited: Vec<ContNo>,
    ops: Vec<Op<'static>>,
    done: Vec<Completion>,
    jobs: Vec<Job<'static>>,
    own: Vec<(u64, Note)>,
    pending: Vec<Option<Pending>>,
    vacant: Vec<usize>,
    /// How many of those that are pending have a reach.
    unkept: usize,
    /// What the owner's own operations read or write that are under way.
    own_reach: Vec<Reach>,
    /// Prepares that would overtake some of these.
    held: Vec<Job<'static>>,
}

impl<T: TargetStore> Owned<T> {
    pub(crate) fn new(no: TargetNo, store: T) -> Self {
        Self {
            store,
            no,
            fence: Fence::default(),
            stopped: false,
            limited: Vec::new(),
            ops: Vec::new(),
            done: Vec::new(),
            jobs: Vec::new(),
            own: Vec::new(),
            pending: Vec::new(),
            vacant: Vec::new(),
            unkept: 0,
            own_reach: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whether no operation can meet an undecided transaction or a closed container.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.fence.is_quiet() && self.held.is_empty()
    }

    pub(crate) fn refuse_older(&mut self, epoch: Epoch) {
        self.fence.refuse_older(epoch);
    }

    pub(crate) fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Makes operations in a container wait from now on, and ends those that are under way.
    pub(crate) fn close_cont(&mut self, shared: &Shared, cont: ContNo) {
        self.fence.close(cont);
        while self.has_pending() {
            self.poll(shared, true);
        }
    }

    /// Lets operations in a container through again.
    pub(crate) fn open_cont(&mut self, shared: &Shared, cont: ContNo) {
        self.fence.open(cont);
        shared.count_decision();
    }

    /// Has the store count in the account of a container.
    pub(crate) fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        if !self.limited.contains(&cont) {
            self.limited.push(cont);
        }
        self.store.keep_account(cont, account)
    }

    /// What a container counts in the store, by user.
    pub(crate) fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        self.store.charges(cont)
    }

    pub(crate) fn into_store(self) -> T {
        self.store
    }

    /// Runs one operation to its end, by reference. What others wait for is delivered on the way.
    ///
    /// REQUIRES: `take_in` has been called, so that the fence knows what the operation may meet.
    #[inline]
    pub(crate) fn run(&mut self, shared: &Shared, mut op: Op<'_>) -> Completion {
        let token = op.token;
        if let Some(refusal) = self.refusal(&mut op) {
            return refusal;
        }
        let note = Note::of(&op.verb);
        while note != Note::Plain && self.would_overtake(&op) {
            self.poll(shared, true);
        }
        self.fence.before(note);
        op.token = OWN;
        self.own_reach.extend(Reach::of(&op));
        let mut ops = recycled(core::mem::take(&mut self.ops));
        ops.push(op);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.store.submit(&mut ops);
            self.store.poll(true, &mut self.done);
        }));
        self.ops = recycled(ops);
        if ran.is_err() {
            self.stop();
        }
        let alone = self.done.len() == 1 && self.done[0].token == OWN;
        let own = if alone { self.done.pop() } else { self.poll_for_own(shared) };
        self.own_reach.clear();
        self.let_go();
        let Some(mut completion) = own else {
            return Completion { token, result: Err(self.broken()), buf: None };
        };
        completion.token = token;
        self.note(shared, note, &completion.result);
        completion
    }

    /// Runs one operation, and keeps it if it may meet an undecided transaction.
    pub(crate) fn run_keeping<'a>(&mut self, shared: &Shared, mut op: Op<'a>) -> Finished<'a> {
        self.take_in(shared);
        if self.is_quiet() {
            return Finished { completion: self.run(shared, op), again: None };
        }
        let completion = self.run(shared, copy::borrowed(&mut op));
        Finished { completion, again: Some(op) }
    }

    /// Runs several operations in one submit; completions are appended in the order of the operations.
    pub(crate) fn run_many(&mut self, shared: &Shared, ops: &mut Vec<Op<'_>>, out: &mut Vec<Completion>) {
        let first = out.len();
        let mut batch = recycled(core::mem::take(&mut self.ops));
        for (token, mut op) in (OWN..).zip(ops.drain(..)) {
            let refusal = self.refusal(&mut op);
            let note = if refusal.is_some() { Note::Plain } else { Note::of(&op.verb) };
            self.fence.before(note);
            self.own.push((op.token, note));
            op.token = token;
            self.own_reach.extend(Reach::of(&op));
            match refusal {
                Some(refusal) => out.push(refusal),
                None => {
                    out.push(Completion { token: UNFINISHED, result: Err(Error::Busy), buf: None });
                    batch.push(op);
                }
            }
        }
        let left = batch.len();
        let collect = || {
            self.store.submit(&mut batch);
            self.collect_own(shared, left, &mut out[first..]);
        };
        // Nothing is left if the target has stopped.
        let ran = left == 0 || catch_unwind(AssertUnwindSafe(collect)).is_ok();
        self.ops = recycled(batch);
        if !ran {
            self.stop();
        }
        self.own_reach.clear();
        self.let_go();
        let own = core::mem::take(&mut self.own);
        for (completion, (token, note)) in out[first..].iter_mut().zip(&own) {
            if completion.token == UNFINISHED {
                completion.result = Err(self.broken());
            } else {
                self.note(shared, *note, &completion.result);
            }
            completion.token = *token;
        }
        self.own = own;
        self.own.clear();
    }

    /// Whether the store has jobs of others under way.
    pub(crate) fn has_pending(&self) -> bool {
        self.vacant.len() < self.pending.len()
    }

    /// Submits what waits in the inbox, a bounded number of jobs.
    pub(crate) fn take_in(&mut self, shared: &Shared) {
        if !shared.has_jobs() {
            return;
        }
        let mut jobs = core::mem::take(&mut self.jobs);
        let mut ops = recycled(core::mem::take(&mut self.ops));
        shared.dequeue(INTAKE_MAX, &mut jobs);
        ops.extend(jobs.drain(..).filter_map(|job| self.admitted(job)));
        self.jobs = jobs;
        self.submit_admitted(ops);
    }

    /// Submits what waits, then one job, and delivers what is finished by then.
    pub(crate) fn take_turn(&mut self, shared: &Shared, job: Job<'_>) {
        self.take_in(shared);
        self.take_job(job);
        self.poll(shared, false);
    }

    /// Submits one job.
    pub(crate) fn take_job(&mut self, job: Job<'_>) {
        let mut ops = recycled(core::mem::take(&mut self.ops));
        ops.extend(self.admitted(job));
        self.submit_admitted(ops);
    }

    /// Delivers what is finished; with `wait`, blocks until something is, unless nothing is under way.
    pub(crate) fn poll(&mut self, shared: &Shared, wait: bool) {
        if !self.has_pending() {
            return;
        }
        let polled = catch_unwind(AssertUnwindSafe(|| {
            self.store.poll(wait, &mut self.done);
            assert!(!wait || !self.done.is_empty(), "a store that has operations under way finishes one");
        }));
        match polled {
            Ok(()) => self.deliver_done(shared),
            Err(_) => self.stop(),
        }
    }

    /// One bounded piece of background work.
    pub(crate) fn step(&mut self) -> Progress {
        if self.stopped {
            return Progress::Idle;
        }
        catch_unwind(AssertUnwindSafe(|| self.store.step())).unwrap_or_else(|_| {
            self.stop();
            Progress::Idle
        })
    }

    #[inline]
    fn refusal(&self, op: &mut Op<'_>) -> Option<Completion> {
        let keeps_out = self.fence.keeps_out(op.cont, &op.verb);
        if self.stopped || keeps_out {
            let buf = match &mut op.verb {
                Verb::Fetch(fetch) => Some(core::mem::take(&mut fetch.buf)),
                _ => None,
            };
            let error = if self.stopped { self.broken() } else { Error::InDoubt { tx: CHANGE } };
            return Some(Completion { token: op.token, result: Err(error), buf });
        }
        match &op.verb {
            Verb::Prepare(prepare) => {
                let result = self.fence.answer(prepare)?;
                Some(Completion { token: op.token, result, buf: None })
            }
            _ => None,
        }
    }

    /// Delivers what is finished and polls on until the owner's operation is; `None` once the target has stopped.
    #[cold]
    fn poll_for_own(&mut self, shared: &Shared) -> Option<Completion> {
        while !self.stopped {
            if let Some(at) = self.done.iter().position(|completion| completion.token == OWN) {
                let own = self.done.swap_remove(at);
                self.deliver_done(shared);
                return Some(own);
            }
            self.deliver_done(shared);
            self.take_in(shared);
            if self.stopped {
                break;
            }
            let polled = catch_unwind(AssertUnwindSafe(|| {
                self.store.poll(true, &mut self.done);
                assert!(!self.done.is_empty(), "a store that has operations under way finishes one");
            }));
            if polled.is_err() {
                self.stop();
            }
        }
        None
    }

    fn collect_own(&mut self, shared: &Shared, mut left: usize, out: &mut [Completion]) {
        while left > 0 && !self.stopped {
            self.store.poll(true, &mut self.done);
            assert!(!self.done.is_empty(), "a store that has operations under way finishes one");
            let mut at = 0;
            while at < self.done.len() {
                if self.done[at].token < OWN {
                    at += 1;
                    continue;
                }
                let own = self.done.swap_remove(at);
                let index =
                    usize::try_from(own.token - OWN).expect("tokens count the operations of one call");
                out[index] = own;
                left -= 1;
            }
            self.deliver_done(shared);
        }
    }

    /// The job's operation, ready to be submitted; `None` if it was answered at once.
    fn admitted<'a>(&mut self, mut job: Job<'a>) -> Option<Op<'a>> {
        if let Some(completion) = self.refusal(&mut job.op) {
            let waits = matches!(completion.result, Err(Error::InDoubt { .. }));
            let again = waits.then(|| copy::into_owned(job.op));
            job.dest.deliver(self.no, Finished { completion, again });
            return None;
        }
        let note = Note::of(&job.op.verb);
        if note != Note::Plain && self.would_overtake(&job.op) {
            self.held.push(Job { op: copy::into_owned(job.op), dest: job.dest });
            return None;
        }
        let again = if self.keeps(&job.op) { Some(copy::spare(&mut job.op)) } else { None };
        let reach = if again.is_none() { Reach::of(&job.op) } else { None };
        self.unkept += usize::from(reach.is_some());
        self.fence.before(note);
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[index] = Some(Pending { token: job.op.token, note, dest: job.dest, again, reach });
        Some(Op { token: index as u64, ..job.op })
    }

    /// Whether an operation may have to be repeated.
    fn keeps(&self, op: &Op<'_>) -> bool {
        let is_limited = || matches!(op.verb, Verb::Update(_)) && self.limited.contains(&op.cont);
        !self.is_quiet() || (!self.limited.is_empty() && is_limited())
    }

    /// Whether it would have the store meet it in what is under way and could not be repeated.
    #[cold]
    fn would_overtake(&self, op: &Op<'_>) -> bool {
        let Verb::Prepare(prepare) = &op.verb else { return false };
        if self.stopped || Note::of(&op.verb) == Note::Plain {
            return false;
        }
        let is_met = |reach: &Reach| reach.meets(op.cont, prepare);
        let pending = || self.pending.iter().flatten().filter_map(|pending| pending.reach.as_ref());
        self.own_reach.iter().any(is_met) || (self.unkept > 0 && pending().any(is_met))
    }

    /// Submits the prepares that overtake nothing any more.
    #[inline]
    fn let_go(&mut self) {
        if !self.held.is_empty() {
            let held = core::mem::take(&mut self.held);
            let mut ops = recycled(core::mem::take(&mut self.ops));
            ops.extend(held.into_iter().filter_map(|job| self.admitted(job)));
            self.submit_admitted(ops);
        }
    }

    fn submit_admitted(&mut self, mut ops: Vec<Op<'_>>) {
        let ran = ops.is_empty() || catch_unwind(AssertUnwindSafe(|| self.store.submit(&mut ops))).is_ok();
        self.ops = recycled(ops);
        if !ran {
            self.stop();
        }
    }

    /// Delivers answers to who asked; an answer to nobody stops the target, since its store has lost count.
    fn deliver_done(&mut self, shared: &Shared) {
        let mut done = core::mem::take(&mut self.done);
        for mut completion in done.drain(..) {
            let index = usize::try_from(completion.token).unwrap_or(usize::MAX);
            let pending = self.pending.get_mut(index).and_then(Option::take);
            let Some(Pending { token, note, dest, again, reach }) = pending else {
                self.stop();
                break;
            };
            self.unkept -= usize::from(reach.is_some());
            self.vacant.push(index);
            completion.token = token;
            self.note(shared, note, &completion.result);
            let may_go = matches!(completion.result, Err(Error::InDoubt { .. } | Error::QuotaLimit));
            let again = again.filter(|_| may_go);
            dest.deliver(self.no, Finished { completion, again });
        }
        self.done = done;
        self.let_go();
    }

    #[inline]
    fn note(&mut self, shared: &Shared, note: Note, result: &Result<Reply, Error>) {
        match result {
            Ok(Reply::Written(epoch)) => shared.saw(*epoch),
            _ if note != Note::Plain && self.fence.after(note, result) => shared.count_decision(),
            _ => {}
        }
    }

    fn broken(&self) -> Error {
        Error::Io { target: self.no, errno: EIO }
    }

    /// The store broke one of its own rules and is left alone from now on; everybody else goes on.
    fn stop(&mut self) {
        self.stopped = true;
        self.ops.clear();
        self.done.clear();
        let broken = self.broken();
        self.unkept = 0;
        for Job { op, dest } in core::mem::take(&mut self.held) {
            let completion = Completion { token: op.token, result: Err(broken.clone()), buf: None };
            dest.deliver(self.no, Finished { completion, again: None });
        }
        for (index, slot) in self.pending.iter_mut().enumerate() {
            if let Some(Pending { token, dest, .. }) = slot.take() {
                self.vacant.push(index);
                let completion = Completion { token, result: Err(broken.clone()), buf: None };
                dest.deliver(self.no, Finished { completion, again: None });
            }
        }
    }
}

/// The allocation of a list of operations, for a list of others.
#[inline]
fn recycled<'b>(mut ops: Vec<Op<'_>>) -> Vec<Op<'b>> {
    ops.clear();
    // An empty list is collected in place: this changes the lifetime and keeps the allocation.
    ops.into_iter().map_while(|_| None).collect()
}
