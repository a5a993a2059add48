//! A store on a stage: what reaches it is written down, and it can be held, failed or made to panic.

use dolmen_codec::quota::{Account, Charge};
use dolmen_codec::verb::{ContVerb, Reply, Verb};
use dolmen_codec::{Completion, Lead, Op, Progress, TargetStore};
use dolmen_types::{ContNo, Epoch, Error, Head, TargetNo};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

/// What a test sees and steers of all stores of a pool.
#[derive(Default)]
pub(crate) struct Director {
    /// Guards everything below.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    trace: Vec<(TargetNo, &'static str)>,
    /// Operations in each submit.
    batches: Vec<(TargetNo, usize)>,
    held: BTreeSet<TargetNo>,
    /// Targets whose owner waits for being let go.
    waiting: BTreeSet<TargetNo>,
    panicking: BTreeSet<TargetNo>,
    /// Operations that are still carried out; then all fail, as when the process has died.
    left: Option<u64>,
    /// Threads that write, each one operation at a time.
    writers: u64,
    begun: u64,
    answered: u64,
    /// How often other threads may run while a store waits for a device.
    yields: u32,
    /// Snapshots whose state a store frees before it is asked to keep them, and of which target.
    late_snapshots: (TargetNo, u32),
    /// The epoch of the last of them.
    late_epoch: Epoch,
    /// What updates are answered that write nothing but answers of the service.
    no_answers: Option<Error>,
}

impl Director {
    /// From now on an owner of `target` that waits for a completion is held.
    pub(crate) fn hold(&self, target: u16) {
        self.state.lock().unwrap().held.insert(TargetNo(target));
    }

    /// Lets all targets go.
    pub(crate) fn release(&self) {
        self.state.lock().unwrap().held.clear();
        self.changed.notify_all();
    }

    /// Returns when the owner of `target` is held.
    pub(crate) fn wait_until_held(&self, target: u16) {
        let mut state = self.state.lock().unwrap();
        while !state.waiting.contains(&TargetNo(target)) {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// From now on a store that waits for a device does so until each of `writers` threads has begun an operation
    /// that is not answered: a device so slow that nobody comes too late for the next flush.
    pub(crate) fn gather(&self, writers: u64) {
        let mut state = self.state.lock().unwrap();
        (state.writers, state.begun, state.answered) = (writers, 0, 0);
    }

    /// One of the writers begins an operation.
    pub(crate) fn begin(&self) {
        self.state.lock().unwrap().begun += 1;
        self.changed.notify_all();
    }

    /// One of the writers has no more to write.
    pub(crate) fn retire(&self) {
        self.state.lock().unwrap().writers -= 1;
        self.changed.notify_all();
    }

    /// From now on other threads may run so often whenever a store waits for a device.
    pub(crate) fn slow_down(&self, yields: u32) {
        self.state.lock().unwrap().yields = yields;
    }

    /// Before it is asked to keep any of the next `count` snapshots, a target frees what nobody keeps yet.
    pub(crate) fn free_before_snapshots(&self, target: u16, count: u32) {
        self.state.lock().unwrap().late_snapshots = (TargetNo(target), count);
    }

    /// The epoch of the last snapshot that came too late so.
    pub(crate) fn late_epoch(&self) -> Epoch {
        self.state.lock().unwrap().late_epoch
    }

    /// From now on updates that write nothing but answers of the pool's service fail so.
    pub(crate) fn refuse_answers(&self, error: Option<Error>) {
        self.state.lock().unwrap().no_answers = error;
    }

    pub(crate) fn panic_on(&self, target: u16) {
        self.state.lock().unwrap().panicking.insert(TargetNo(target));
    }

    /// Only `count` more operations are carried out; `None` lifts the limit.
    pub(crate) fn fail_after(&self, count: Option<u64>) {
        self.state.lock().unwrap().left = count;
    }

    /// What has reached the stores since the last call.
    pub(crate) fn take_trace(&self) -> Vec<(TargetNo, &'static str)> {
        core::mem::take(&mut self.state.lock().unwrap().trace)
    }

    /// Targets and sizes of the submits since the last call.
    pub(crate) fn take_batches(&self) -> Vec<(TargetNo, usize)> {
        core::mem::take(&mut self.state.lock().unwrap().batches)
    }
}

pub(crate) struct Staged<T> {
    store: T,
    no: TargetNo,
    director: Arc<Director>,
    failed: Vec<Completion>,
}

impl<T> Staged<T> {
    pub(crate) fn new(no: u16, store: T, director: &Arc<Director>) -> Self {
        Self { store, no: TargetNo(no), director: Arc::clone(director), failed: Vec::new() }
    }

    pub(crate) fn into_inner(self) -> T {
        self.store
    }
}

impl<T: TargetStore> TargetStore for Staged<T> {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        let mut state = self.director.state.lock().unwrap();
        let panics = state.panicking.contains(&self.no);
        state.batches.push((self.no, ops.len()));
        let mut kept = Vec::new();
        for op in ops.drain(..) {
            if let Verb::Cont(ContVerb::AddSnapshot(epoch)) = op.verb
                && state.late_snapshots.0 == self.no
                && state.late_snapshots.1 > 0
            {
                state.late_snapshots.1 -= 1;
                state.late_epoch = epoch;
                let mut ask = |verb| {
                    let asked = Op { token: 0, head: Head::default(), cont: op.cont, verb: Verb::Cont(verb) };
                    self.store.submit(&mut vec![asked]);
                    let mut done = Vec::new();
                    self.store.poll(true, &mut done);
                    done.remove(0).result.unwrap()
                };
                ask(ContVerb::RaiseFloor(epoch.next()));
                while let Reply::Aggregated { more: true, .. } = ask(ContVerb::Aggregate(Epoch::MAX)) {}
            }
            if let (Verb::Update(update), Some(error)) = (&op.verb, &state.no_answers)
                && update.iods.iter().all(|iod| iod.akey.starts_with(b"intent-done:"))
            {
                self.failed.push(Completion { token: op.token, result: Err(error.clone()), buf: None });
                continue;
            }
            match &mut state.left {
                Some(0) => {
                    let result = Err(Error::Io { target: self.no, errno: 5 });
                    self.failed.push(Completion { token: op.token, result, buf: None });
                    continue;
                }
                Some(left) => *left -= 1,
                None => {}
            }
            state.trace.push((self.no, name(&op.verb)));
            kept.push(op);
        }
        drop(state);
        assert!(!panics, "staged panic: expected by the test");
        self.store.submit(&mut kept);
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        let mut state = self.director.state.lock().unwrap();
        while wait && state.held.contains(&self.no) {
            state.waiting.insert(self.no);
            self.director.changed.notify_all();
            state = self.director.changed.wait(state).unwrap();
        }
        while wait && state.begun - state.answered < state.writers {
            state = self.director.changed.wait(state).unwrap();
        }
        state.waiting.remove(&self.no);
        if state.held.contains(&self.no) {
            return;
        }
        let yields = if wait { state.yields } else { 0 };
        drop(state);
        (0..yields).for_each(|_| dolmen_env::yield_now());
        let before = out.len();
        out.append(&mut self.failed);
        self.store.poll(wait && out.is_empty(), out);
        let mut state = self.director.state.lock().unwrap();
        if state.writers > 0 {
            state.answered += u64::try_from(out.len() - before).unwrap();
        }
    }

    fn step(&mut self) -> Progress {
        self.store.step()
    }

    fn go_with(&mut self, lead: &Arc<Lead>) {
        self.store.go_with(lead);
    }

    fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        self.store.keep_account(cont, account)
    }

    fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        self.store.charges(cont)
    }
}

fn name(verb: &Verb<'_>) -> &'static str {
    match verb {
        Verb::Update(_) => "update",
        Verb::Punch(_) => "punch",
        Verb::Fetch(_) => "fetch",
        Verb::List(_) => "list",
        Verb::Query(_) => "query",
        Verb::Prepare(_) => "prepare",
        Verb::Commit(_) => "commit",
        Verb::Abort(_) => "abort",
        Verb::TxState(_) => "tx-state",
        Verb::InDoubt => "in-doubt",
        Verb::Unconcluded => "unconcluded",
        Verb::Conclude(_) => "conclude",
        Verb::Latest => "latest",
        Verb::Cont(ContVerb::RaiseFloor(_)) => "floor",
        Verb::Cont(ContVerb::AddSnapshot(_)) => "add-snapshot",
        Verb::Cont(_) => "cont",
        Verb::Space | Verb::Flush | Verb::Checkpoint | Verb::Scrub | Verb::Check => "whole-target",
    }
}
