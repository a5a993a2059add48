use super::*;
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, List, ListWhat, Mutation, NewValue, Payload, Prepare, ReadAt, Update, UpdateIod,
};
use dolmen_env::{scope, yield_now};
use dolmen_types::{Anchor, Cond, Durability, Key, ObjectClass, ObjectType, Oid, TxId};
use smallvec::smallvec;
use std::collections::VecDeque;

const TARGET: TargetNo = TargetNo(0);

/// So often a watchdog looks before it says that a thread sleeps for ever.
const LOOKS_MAX: u32 = 10_000_000;

/// A store that finishes the oldest operation at each poll that waits, and panics when it is given a check.
#[derive(Default)]
struct OneByOne {
    taken: VecDeque<u64>,
    polls_waited: u32,
    panicked: bool,
    calls_after_panic: u32,
    /// It was given a scrub, and answers what nobody has asked at the next poll.
    confused: bool,
    /// Its operations are answered, and the answers taken, by others while it waits.
    overtaken: Option<Arc<Outbox>>,
}

impl TargetStore for OneByOne {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        self.calls_after_panic += u32::from(self.panicked);
        self.panicked |= ops.iter().any(|op| matches!(op.verb, Verb::Check));
        self.confused |= ops.iter().any(|op| matches!(op.verb, Verb::Scrub));
        self.taken.extend(ops.drain(..).map(|op| op.token));
        assert!(!self.panicked, "staged panic: expected by the test");
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.calls_after_panic += u32::from(self.panicked);
        self.polls_waited += u32::from(wait);
        if let Some(outbox) = self.overtaken.take_if(|_| wait) {
            Dest::Queue(Arc::clone(&outbox)).deliver(TARGET, answer());
            outbox.take(&mut Vec::new());
        }
        if core::mem::take(&mut self.confused) {
            self.panicked = true;
            out.push(Completion { token: 77, ..answer().completion });
        }
        let oldest = if wait { self.taken.pop_front() } else { None };
        out.extend(oldest.map(|token| Completion { token, ..answer().completion }));
    }

    fn step(&mut self) -> Progress {
        Progress::Idle
    }
}

fn targets() -> Targets<OneByOne> {
    Targets::new(vec![OneByOne::default()]).unwrap()
}

fn store(targets: Targets<OneByOne>) -> OneByOne {
    targets.into_stores().remove(0)
}

fn answer() -> Finished<'static> {
    let completion = Completion { token: 1, result: Ok(Reply::InDoubt(Vec::new())), buf: None };
    Finished { completion, again: None }
}

fn latest() -> Op<'static> {
    plain(ContNo::SYSTEM, Verb::Latest)
}

/// A queue with so many operations under way, as a destination.
fn queue(under_way: u32) -> (Arc<Outbox>, Dest) {
    let outbox = Arc::new(Outbox::new(1));
    (0..under_way).for_each(|_| outbox.begin(TARGET));
    (Arc::clone(&outbox), Dest::Queue(outbox))
}

/// Puts an operation into the inbox of a target that is free, as if it had come when its owner had just looked.
fn leave_in_inbox(targets: &Targets<OneByOne>, verb: Verb<'static>) -> Arc<Ticket> {
    let ticket = Arc::new(Ticket::default());
    let job = Job { op: plain(ContNo::SYSTEM, verb), dest: Dest::Ticket(Arc::clone(&ticket)) };
    assert!(targets.shared(TARGET).enqueue(job).is_ok());
    ticket
}

fn is_broken(completion: &Completion) -> bool {
    matches!(completion.result, Err(Error::Io { target: TARGET, errno: 5 }))
}

/// Looks until it is so; false if it never is.
fn becomes(is_so: impl Fn() -> bool) -> bool {
    (0..LOOKS_MAX).any(|_| {
        yield_now();
        is_so()
    })
}

fn wait_for_waiters(targets: &Targets<OneByOne>, count: usize) {
    assert!(becomes(|| targets.shared(TARGET).waiter_count() == count));
}

#[test]
fn a_store_that_panics_over_the_inbox_is_not_given_the_callers_operation() {
    let targets = targets();
    let ticket = leave_in_inbox(&targets, Verb::Check);
    assert!(is_broken(&targets.call(TARGET, latest())));
    assert!(is_broken(&targets.wait_for(TARGET, &ticket).completion));
    assert_eq!(store(targets).calls_after_panic, 0);
}

#[test]
fn a_store_that_panics_while_the_caller_waits_is_not_polled_again() {
    let targets = targets();
    // The check is in the second intake of the inbox, which follows the first poll.
    let tickets: Vec<_> = (0..256).map(|_| leave_in_inbox(&targets, Verb::Latest)).collect();
    let last = leave_in_inbox(&targets, Verb::Check);
    assert!(is_broken(&targets.call(TARGET, latest())));
    let answers: Vec<_> = tickets.iter().map(|ticket| targets.wait_for(TARGET, ticket).completion).collect();
    assert!(answers[0].result.is_ok());
    assert!(answers[1..].iter().all(is_broken));
    assert!(is_broken(&targets.wait_for(TARGET, &last).completion));
    assert_eq!(store(targets).calls_after_panic, 0);
}

#[test]
fn a_store_that_panicked_is_given_no_batch() {
    let targets = targets();
    assert!(is_broken(&targets.call(TARGET, plain(ContNo::SYSTEM, Verb::Check))));
    let mut done = Vec::new();
    targets.call_many(TARGET, &mut vec![latest(), latest()], &mut done);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(is_broken));
    assert_eq!(store(targets).calls_after_panic, 0);
}

#[test]
fn a_store_that_answers_what_nobody_asked_stops_its_target_alone() {
    for batch in [false, true] {
        let targets = Targets::new(vec![OneByOne::default(), OneByOne::default()]).unwrap();
        let ticket = leave_in_inbox(&targets, Verb::Scrub);
        if batch {
            let mut done = Vec::new();
            targets.call_many(TARGET, &mut vec![plain(ContNo::SYSTEM, Verb::Scrub)], &mut done);
            assert!(done[0].result.is_ok(), "its own answer came along");
        } else {
            assert!(is_broken(&targets.call(TARGET, latest())));
        }
        assert!(is_broken(&targets.wait_for(TARGET, &ticket).completion));
        assert!(is_broken(&targets.call(TARGET, latest())));
        assert!(targets.call(TargetNo(1), latest()).result.is_ok());
        assert_eq!(store(targets).calls_after_panic, 0);
    }
}

#[test]
fn who_meets_a_transaction_that_was_in_the_inbox_waits_for_its_decision() {
    const CONT: ContNo = ContNo(1);
    let clock = Arc::new(dolmen_env::SimClock::new(1_790_000_000_000_000_000));
    let targets = Targets::new(vec![dolmen_sim::Model::new(TARGET, clock)]).unwrap();
    let spec = ContSpec { hash_key: HashKey([1; 16]), durability: Durability::Power };
    targets.call(TARGET, plain(CONT, Verb::Cont(ContVerb::Create(spec)))).result.unwrap();
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 1);
    let iod = || UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value: NewValue::NoSingle };
    let update = || Update {
        oid,
        dkey: Key::from_slice(b"d"),
        cond: Cond::NONE,
        iods: smallvec![iod()],
        charged: None,
    };
    let epoch = Epoch::from_unix_ns(1_790_000_000_000_000_000);
    let prepare = Prepare {
        tx: TxId { client: 1, begin: epoch },
        epoch,
        leader: TARGET,
        participants: smallvec![TARGET, TargetNo(1)],
        mutations: vec![Mutation::Update(update())],
    };
    let ticket = Arc::new(Ticket::default());
    let job = Job { op: plain(CONT, Verb::Prepare(prepare)), dest: Dest::Ticket(Arc::clone(&ticket)) };
    assert!(targets.shared(TARGET).enqueue(job).is_ok());
    let completion = targets.call(TARGET, plain(CONT, Verb::Update(update())));
    assert!(matches!(completion.result, Ok(Reply::Written(_))), "{completion:?}");
    assert!(targets.wait_for(TARGET, &ticket).completion.result.is_ok());
}

/// A model that looks at what a list meets only when it is waited for, as a store does that asks a device first.
struct LooksLate {
    model: dolmen_sim::Model,
    asking: Vec<Op<'static>>,
}

impl TargetStore for LooksLate {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        let (late, mut now): (Vec<_>, Vec<_>) =
            ops.drain(..).partition(|op| matches!(op.verb, Verb::List(_)));
        self.asking.extend(late.into_iter().map(copy::into_owned));
        self.model.submit(&mut now);
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.model.poll(false, out);
        if wait && out.is_empty() {
            self.model.submit(&mut self.asking.drain(..1).collect());
            self.model.poll(true, out);
        }
    }

    fn step(&mut self) -> Progress {
        Progress::Idle
    }
}

#[test]
fn a_prepare_overtakes_nothing_that_would_meet_it_and_could_not_be_repeated() {
    const CONT: ContNo = ContNo(7);
    let begun_ns = 1_790_000_000_000_000_000;
    let clock = Arc::new(dolmen_env::SimClock::new(begun_ns));
    let model = dolmen_sim::Model::new(TARGET, Arc::clone(&clock) as _);
    let targets = Targets::new(vec![LooksLate { model, asking: Vec::new() }]).unwrap();
    let spec = ContSpec { hash_key: HashKey([1; 16]), durability: Durability::Power };
    targets.call(TARGET, plain(CONT, Verb::Cont(ContVerb::Create(spec)))).result.unwrap();
    let oid = |number| Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, number);
    let update = |number| Update {
        oid: oid(number),
        dkey: Key::from_slice(b"d"),
        cond: Cond::NONE,
        iods: smallvec![UpdateIod {
            akey: Key::from_slice(b"a"),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(b"v"))
        }],
        charged: None,
    };
    let list = || {
        let (what, anchor) = (ListWhat::Dkeys(oid(1)), Anchor::default());
        plain(CONT, Verb::List(List { what, anchor, items_max: 9, bytes_max: 99, at: ReadAt::Latest }))
    };
    let later = |ms: u64| Epoch::from_unix_ns(begun_ns + ms * 1_000_000);
    let prepare = |client, number, epoch| {
        let prepare = Prepare {
            tx: TxId { client, begin: epoch },
            epoch,
            leader: TARGET,
            participants: smallvec![TARGET, TargetNo(1)],
            mutations: vec![Mutation::Update(update(number))],
        };
        plain(CONT, Verb::Prepare(prepare))
    };
    let first = targets.start(TARGET, list());
    let beside = targets.start(TARGET, prepare(2, 2, later(1)));
    assert!(beside.is_filled(), "another object is another matter");
    targets.call(TARGET, plain(CONT, Verb::Abort(TxId { client: 2, begin: later(1) }))).result.unwrap();
    let behind = targets.start(TARGET, prepare(1, 1, later(2)));
    assert!(!behind.is_filled());
    // What comes now is kept, and may meet it.
    let last = targets.start(TARGET, list());
    let done = |ticket| targets.wait_for(TARGET, ticket).completion.result;
    let listed = done(&first);
    assert!(matches!(listed, Ok(Reply::Listed(..))), "{listed:?}");
    let prepared = done(&behind);
    assert!(prepared.is_ok(), "{prepared:?}");
    clock.advance(10_000_000);
    let Finished { completion, again } = targets.wait_for(TARGET, &last);
    assert!(matches!(completion.result, Err(Error::InDoubt { .. })) && again.is_some(), "{completion:?}");
}

#[test]
fn who_awaits_nothing_does_not_drive_for_others() {
    let targets = targets();
    let ticket = targets.start(TARGET, latest());
    let (_outbox, dest) = queue(0);
    let before = targets.slots[0].owned().has_pending();
    targets.drive_for(TARGET, &dest);
    assert!(before);
    assert!(targets.slots[0].owned().has_pending(), "it is for the other one to wait");
    assert!(targets.wait_for(TARGET, &ticket).completion.result.is_ok());
}

#[test]
fn who_loses_its_answer_while_it_drives_leaves_the_rest_to_others() {
    let (outbox, dest) = queue(1);
    let store = OneByOne { overtaken: Some(outbox), ..OneByOne::default() };
    // Not by `new`, which asks the store and would be overtaken itself.
    let slot = Slot {
        owner: Mutex::new(Owned::new(TARGET, store)),
        shared: Shared::default(),
        ops_since_step: AtomicU32::new(0),
    };
    let (next_step, callers_step) = (AtomicUsize::new(0), AtomicBool::new(true));
    let targets = Targets {
        is_spread: false,
        slots: Box::new([slot]),
        next_step,
        callers_step,
        tellings: Tellings::default(),
        turns: Arc::default(),
        parts: Parts::default(),
        accounts: Accounts::default(),
    };
    let tickets = [(); 3].map(|()| targets.start(TARGET, latest()));
    targets.drive_for(TARGET, &dest);
    assert_eq!(tickets.iter().filter(|ticket| ticket.is_filled()).count(), 1);
    assert_eq!(targets.into_stores()[0].polls_waited, 3, "one for the queue, two at the end");
}

#[test]
fn who_leaves_with_its_answer_is_not_listed_any_more() {
    let targets = targets();
    let (_outbox, dest) = queue(1);
    let first = Dest::Ticket(Arc::default());
    let owner = targets.slots[0].owned();
    targets.shared(TARGET).add_waiter(first.clone());
    scope(|scope| {
        let waiting = scope.spawn(|| targets.drive_for(TARGET, &dest));
        wait_for_waiters(&targets, 2);
        dest.clone().deliver(TARGET, answer());
        waiting.join().unwrap();
    });
    assert_eq!(first.calls(), 0, "the target is not free");
    drop(owner);
    assert_eq!(first.calls(), 1);
    assert_eq!(targets.shared(TARGET).waiter_count(), 0);
}

#[test]
fn a_thread_that_waits_in_a_queue_is_not_passed_over_for_one_that_has_gone() {
    const ROUNDS: u32 = 200;
    const PAUSE_LOOKS: u32 = 50;
    let targets = targets();
    for round in 0..ROUNDS {
        let (outbox, dest) = queue(1);
        let owner = targets.slots[0].owned();
        let ticket = targets.start(TARGET, latest());
        scope(|scope| {
            let waits = scope.spawn(|| targets.wait_for(TARGET, &ticket));
            wait_for_waiters(&targets, 1);
            let leaves = scope.spawn(|| targets.drive_for(TARGET, &dest));
            wait_for_waiters(&targets, 2);
            dest.clone().deliver(TARGET, answer());
            leaves.join().unwrap();
            outbox.take(&mut Vec::new());
            // Were the first called by who leaves, it would find the target taken and go to the end of the list.
            (0..PAUSE_LOOKS).for_each(|_| yield_now());
            drop(owner);
            let woke = becomes(|| waits.is_finished());
            // One that sleeps for ever is let out, so that the test ends.
            targets.drive(TARGET);
            targets.call(TARGET, latest());
            assert!(woke, "asleep in round {round}");
            assert!(waits.join().unwrap().completion.result.is_ok());
        });
        assert_eq!(targets.shared(TARGET).waiter_count(), 0);
    }
    assert!(store(targets).taken.is_empty());
}

#[test]
fn who_finds_the_answers_of_its_queue_taken_goes_on() {
    const ROUNDS: u32 = 200;
    let targets = targets();
    for round in 0..ROUNDS {
        let (outbox, dest) = queue(2);
        let owner = targets.slots[0].owned();
        scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| targets.drive_for(TARGET, &dest)));
            wait_for_waiters(&targets, 2);
            dest.clone().deliver(TARGET, answer());
            dest.clone().deliver(TARGET, answer());
            drop(owner);
            outbox.take(&mut Vec::new());
            let woke = becomes(|| waiting.iter().all(|thread| thread.is_finished()));
            // One that sleeps for ever is let out, so that the test ends.
            outbox.begin(TARGET);
            dest.clone().deliver(TARGET, answer());
            assert!(woke, "asleep in round {round}");
        });
        assert_eq!(targets.shared(TARGET).waiter_count(), 0);
    }
}
