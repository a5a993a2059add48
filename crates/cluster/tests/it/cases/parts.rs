//! A pool on two engines in one process: the way between them fails at every single message, and the engine with the
//! part is started anew.

use super::common::{START_NS, fetch, label, update};
use super::{Inner, inner};
use dolmen_cluster::{Absent, Elsewhere, Hlc, Part, PartDoor, Pool, PoolIdentity, Service, Targets};
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb, TxCommit, Whose};
use dolmen_codec::quota::{Account, Charge};
use dolmen_codec::verb::{ContVerb, Mutation, Prepare, ReadAt, Reply, Verb};
use dolmen_codec::{
    Answer, Ask, Completion, Op, Outcome, Progress, QueueId, Request, TargetStore, Transport,
};
use dolmen_env::{Clock, Rng, Secrets, SimClock, scope};
use dolmen_types::{
    Cond, ContNo, Epoch, Error, Head, PoolMap, Props, RequestId, TargetInfo, TargetNo, TargetState, TxId,
    Uuid,
};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Targets of each engine.
pub(super) const TARGETS: u16 = 2;

/// How long an engine does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// More messages than any change takes.
const MESSAGES_MAX: u64 = 100;

pub(super) enum Store {
    Here(Box<Inner>),
    Elsewhere(Elsewhere),
    Absent(Absent),
}

impl Store {
    fn any(&mut self) -> &mut dyn TargetStore {
        match self {
            Self::Here(store) => &mut **store,
            Self::Elsewhere(store) => store,
            Self::Absent(store) => store,
        }
    }
}

impl TargetStore for Store {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        self.any().submit(ops);
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.any().poll(wait, out);
    }

    fn step(&mut self) -> Progress {
        self.any().step()
    }

    fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        self.any().keep_account(cont, account)
    }

    fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        self.any().charges(cont)
    }
}

/// The way to the other engine.
#[derive(Default)]
pub(super) struct Wire {
    /// Guards everything below.
    state: Mutex<WireState>,
}

#[derive(Default)]
struct WireState {
    to: Option<Arc<dyn Transport>>,
    /// Messages that still arrive; then none does.
    left: Option<u64>,
    /// Messages that arrive before one that does not; the next ones do.
    before_lost: Option<u64>,
    /// Where the first message of a kind says that it is on its way, and waits until it may arrive.
    stop: Option<(IsStopped, SyncSender<()>, Receiver<()>)>,
    /// Whether it might in time.
    has_gone_on: bool,
    queues: BTreeMap<u32, Vec<Outcome>>,
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, WireState> {
        self.state.lock().unwrap()
    }

    pub(super) fn fail_after(&self, messages: Option<u64>) {
        let mut state = self.state();
        state.left = messages;
        if messages.is_none() {
            state.before_lost = None;
        }
    }

    pub(super) fn lose_one_after(&self, messages: u64) {
        self.state().before_lost = Some(messages);
    }

    fn lead_to(&self, part: &Arc<Pool<Store>>) {
        self.state().to = Some(Arc::new(PartDoor::new(Arc::clone(part))));
    }
}

impl Transport for Wire {
    fn call(&self, request: Request<'_>) -> Outcome {
        let stop = self.state().stop.take_if(|(is_stopped, ..)| is_stopped(&request.ask));
        if let Some((_, begun, may_go_on)) = stop {
            begun.send(()).unwrap();
            let has_gone_on = may_go_on.recv_timeout(PATIENCE).is_ok();
            self.state().has_gone_on = has_gone_on;
        }
        let to = {
            let mut state = self.state();
            let arrives = state.left != Some(0) && state.before_lost != Some(0);
            state.before_lost = state.before_lost.and_then(|before| before.checked_sub(1));
            state.left = state.left.map(|left| left.saturating_sub(1));
            state.to.clone().filter(|_| arrives)
        };
        match to {
            Some(to) => to.call(request),
            None => Outcome { token: request.token, result: Err(Error::Unreachable { rank: 1 }), buf: None },
        }
    }

    fn open_queue(&self) -> Result<QueueId, Error> {
        let mut state = self.state();
        let id = u32::try_from(state.queues.len()).unwrap();
        state.queues.insert(id, Vec::new());
        Ok(QueueId(id))
    }

    fn close_queue(&self, _queue: QueueId) {}

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        let outcome = self.call(request);
        self.state().queues.get_mut(&queue.0).unwrap().push(outcome);
    }

    fn poll(&self, queue: QueueId, _wait: bool, out: &mut Vec<Outcome>) {
        out.append(self.state().queues.get_mut(&queue.0).unwrap());
    }
}

/// Whether a message is of the kind that is stopped.
type IsStopped = fn(&Ask<'_>) -> bool;

/// Two engines and the way between them.
pub(super) struct System {
    pub(super) clock: SimClock,
    pub(super) wire: Arc<Wire>,
    pub(super) home: Pool<Store>,
    pub(super) part: Option<Arc<Pool<Store>>>,
}

fn identity() -> PoolIdentity {
    let info = |rank| TargetInfo { rank, state: TargetState::UpIn };
    let targets = [0, 0, 1, 1].map(info).to_vec();
    PoolIdentity { map: PoolMap { version: 1, pool: Uuid::from_u128(5), targets }, label: None }
}

fn absent() -> impl Iterator<Item = Store> {
    (0..TARGETS).map(|_| Store::Absent(Absent::new(0)))
}

fn part_of(clock: &SimClock, stores: Vec<Store>) -> Arc<Pool<Store>> {
    let stores = absent().chain(stores).collect();
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    Arc::new(Pool::part(Targets::of_part(stores).unwrap(), identity(), Hlc::new(clock)))
}

impl System {
    pub(super) fn new() -> Self {
        let clock = SimClock::new(START_NS);
        let fresh = |from: u16| -> Vec<Store> {
            let stores = (from..from + TARGETS).map(|no| Store::Here(Box::new(inner(no, &clock)))).collect();
            let targets = Targets::new(stores).unwrap();
            Service::create(&targets).unwrap();
            targets.into_stores()
        };
        let (own, theirs) = (fresh(0), fresh(TARGETS));
        let (wire, part) = (Arc::new(Wire::default()), part_of(&clock, theirs));
        wire.lead_to(&part);
        let home = open(&clock, &wire, own).unwrap();
        Self { clock, wire, home, part: Some(part) }
    }

    pub(super) fn part(&self) -> &Pool<Store> {
        self.part.as_ref().unwrap()
    }

    /// The engine with the part dies, and starts anew.
    pub(super) fn restart_part(&mut self) {
        // It takes a while.
        self.clock.advance(1_000_000);
        self.wire.state().to = None;
        let part = Arc::into_inner(self.part.take().unwrap()).unwrap();
        let part = part_of(&self.clock, part.into_stores().split_off(usize::from(TARGETS)));
        self.wire.lead_to(&part);
        self.part = Some(part);
        self.wire.fail_after(None);
    }

    /// The engine with the service dies, and starts anew.
    pub(super) fn restart_home(self) -> Self {
        self.restart_home_on(|_| {}).expect("all engines are there")
    }

    /// The same, with something done to the way before; `None` if the pool could not be opened.
    fn restart_home_on(self, before: impl FnOnce(&Wire)) -> Option<Self> {
        let Self { clock, wire, home, part } = self;
        clock.advance(1_000_000);
        wire.fail_after(Some(0));
        let mut stores = home.into_stores();
        stores.truncate(usize::from(TARGETS));
        wire.fail_after(None);
        before(&wire);
        let home = open(&clock, &wire, stores).ok()?;
        Some(Self { clock, wire, home, part })
    }

    /// That no client sees a container before a rollback on one engine and after it on another.
    fn assert_rolled_back_alike(&self, cont: ContNo, messages: u64) {
        let (home, part) = (self.get(0, cont), self.get(TARGETS, cont));
        if let (Ok(home), Ok(part)) = (home, part) {
            assert_eq!(home, part, "after {messages} messages");
        }
    }

    pub(super) fn ask(&self, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
        self.ask_as(0, verb)
    }

    /// The same under a number, by which it is known when it is asked again.
    fn ask_as(&self, sequence: u64, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
        let head = Head { id: RequestId { client: 7, sequence }, ..Head::default() };
        match self.home.call(Request { token: 1, head, ask: Ask::Pool(verb) }).result? {
            Answer::Pool(reply) => Ok(reply),
            Answer::Target(other) => panic!("{other:?}"),
        }
    }

    /// As a client does: the engine that has the target.
    fn ask_target(&self, target: u16, cont: ContNo, verb: Verb<'_>) -> Outcome {
        let engine = if target < TARGETS { &self.home } else { self.part() };
        let head = Head { id: RequestId::default(), ..Head::default() };
        engine.call(Request { token: 2, head, ask: Ask::Target(TargetNo(target), cont, verb) })
    }

    fn put(&self, cont: ContNo, value: &[u8]) {
        for target in 0..2 * TARGETS {
            let outcome = self.ask_target(target, cont, Verb::Update(update(1, value, Cond::NONE)));
            assert!(matches!(outcome.result, Ok(Answer::Target(Reply::Written(_)))), "{outcome:?}");
        }
    }

    fn get(&self, target: u16, cont: ContNo) -> Result<Vec<u8>, Error> {
        let outcome = self.ask_target(target, cont, fetch(1, ReadAt::Latest));
        match outcome.result? {
            Answer::Target(Reply::Fetched(found)) => {
                let len = usize::try_from(found.first().map_or(0, |iod| iod.size_bytes)).unwrap();
                Ok(outcome.buf.unwrap()[..len].to_vec())
            }
            other => panic!("{other:?}"),
        }
    }

    /// What all targets have, which is the same.
    fn agreed(&self, cont: ContNo) -> Vec<u8> {
        let all: Vec<Vec<u8>> = (0..2 * TARGETS).map(|target| self.get(target, cont).unwrap()).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        all[0].clone()
    }

    /// Writes one value on all targets in one transaction.
    fn transact(&self, cont: ContNo, client: u128, value: &[u8]) -> Result<Epoch, Error> {
        let Ok(PoolReply::Epoch(epoch)) = self.ask(PoolVerb::TxBegin) else { panic!("it always begins") };
        let mutation = || vec![Mutation::Update(update(1, value, Cond::NONE))];
        let parts = (0..2 * TARGETS).map(|target| (TargetNo(target), mutation())).collect();
        let commit = TxCommit {
            cont,
            tx: TxId { client, begin: epoch },
            epoch,
            parts,
            read: smallvec::SmallVec::new(),
        };
        match self.ask(PoolVerb::TxCommit(commit))? {
            PoolReply::Epoch(epoch) => Ok(epoch),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn make(&self, text: &str) -> Result<ContNo, Error> {
        self.make_as(0, text)
    }

    fn make_as(&self, sequence: u64, text: &str) -> Result<ContNo, Error> {
        let uuid = Uuid::from_u128(text.len() as u128);
        let verb = PoolVerb::ContCreate { uuid, label: Some(label(text)), props: Props::new() };
        match self.ask_as(sequence, verb)? {
            PoolReply::Cont(handle) => Ok(handle.no),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn assert_clean(&self) {
        match self.ask(PoolVerb::Check).unwrap() {
            PoolReply::Audits(audits) => assert!(audits.iter().all(|a| a.findings.is_empty()), "{audits:?}"),
            other => panic!("{other:?}"),
        }
    }
}

fn open(clock: &SimClock, wire: &Arc<Wire>, own: Vec<Store>) -> Result<Pool<Store>, Error> {
    let part = Part::new(1, TARGETS..2 * TARGETS, Arc::clone(wire) as _);
    let stores = own.into_iter().chain(part.stores()?.into_iter().map(Store::Elsewhere)).collect();
    let targets = Targets::with_parts(stores, vec![part])?;
    let arc_clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let service =
        Service::open(&targets, Hlc::new(arc_clock), identity(), Secrets::Repeatable(Rng::from_seed(1)))?;
    Ok(Pool::new(targets, service))
}

#[test]
fn a_part_lets_clients_in_when_the_service_says_so() {
    let mut system = System::new();
    assert!(system.part().wait_admitted(Duration::ZERO));
    system.restart_part();
    assert!(!system.part().wait_admitted(Duration::ZERO));
    system.home.look_after_parts();
    assert!(system.part().wait_admitted(Duration::ZERO));
}

#[test]
fn what_a_part_is_told_late_is_passed_over() {
    let system = System::new();
    let cont = system.make("c").unwrap();
    system.put(cont, b"value");
    let door = PartDoor::new(Arc::clone(system.part.as_ref().unwrap()));
    let admit = |closed: Vec<ContNo>, now| {
        let ask = Ask::Pool(PoolVerb::Admit { closed, now, limited: Vec::new() });
        door.call(Request { token: 1, head: Head::default(), ask }).result.unwrap();
    };
    let later = Epoch::from_unix_ns(START_NS).next();
    admit(vec![cont], Epoch(later.0 + (1 << 40)));
    // On its way since before the other one.
    admit(Vec::new(), later);
    assert!(matches!(system.get(TARGETS, cont), Err(Error::InDoubt { .. })));
    admit(Vec::new(), Epoch(later.0 + (1 << 40) + 1));
    assert_eq!(system.get(TARGETS, cont).unwrap(), b"value");
}

#[test]
fn clients_take_no_step_of_a_transaction_and_no_record_of_the_service() {
    let system = System::new();
    let cont = system.make("c").unwrap();
    let tx = TxId { client: 1, begin: Epoch(5) };
    let prepare = || {
        let participants = [TargetNo(0), TargetNo(999)].into_iter().collect();
        let mutations = vec![Mutation::Update(update(1, b"x", Cond::NONE))];
        Verb::Prepare(Prepare { tx, epoch: Epoch(5), leader: TargetNo(999), participants, mutations })
    };
    for target in [0, TARGETS] {
        let verbs = [
            prepare(),
            Verb::Commit(tx),
            Verb::Abort(tx),
            Verb::Conclude(tx),
            Verb::TxState(tx),
            Verb::InDoubt,
            Verb::Unconcluded,
        ];
        for verb in verbs {
            let asked = format!("{verb:?}");
            let refused = system.ask_target(target, cont, verb).result;
            assert!(matches!(refused, Err(Error::NoPermission)), "{asked}: {refused:?}");
        }
    }
    let mutations = vec![Mutation::Update(update(1, b"x", Cond::NONE))];
    let parts = vec![(TargetNo(0), mutations)];
    let own = TxCommit { cont: ContNo::SYSTEM, tx, epoch: Epoch(5), parts, read: smallvec::SmallVec::new() };
    assert_eq!(system.ask(PoolVerb::TxCommit(own)).err(), Some(Error::NoPermission));
    system.assert_clean();
}

#[test]
fn a_transaction_is_everywhere_or_nowhere_wherever_the_way_breaks() {
    for restarts_home in [false, true] {
        for messages in 0..MESSAGES_MAX {
            let mut system = System::new();
            let cont = system.make("c").unwrap();
            system.put(cont, b"old");
            system.wire.fail_after(Some(messages));
            let answer = system.transact(cont, 7, b"new");
            if restarts_home {
                system = system.restart_home();
            } else {
                system.restart_part();
            }
            // What stays undecided for a while is settled.
            (0..12).for_each(|_| system.home.look_after_parts());
            let found = system.agreed(cont);
            match &answer {
                Ok(_) => assert_eq!(found, b"new", "acknowledged after {messages} messages"),
                Err(_) => assert!(found == b"old" || found == b"new", "{messages}: {found:?}"),
            }
            system.transact(cont, 8, b"next").unwrap();
            assert_eq!(system.agreed(cont), b"next");
            system.assert_clean();
            if answer.is_ok() && messages > 20 {
                break;
            }
        }
    }
}

#[test]
fn a_rollback_is_everywhere_or_nowhere_wherever_the_way_breaks() {
    for messages in 0..MESSAGES_MAX {
        let (mut system, cont, is_done) = broken_rollback(messages);
        system.restart_part();
        system.home.look_after_parts();
        // The next change of the container finishes what was begun.
        system.ask(PoolVerb::SnapCreate(cont, None)).unwrap();
        let found = system.agreed(cont);
        assert!(found == b"old" || found == b"new" && !is_done, "{messages}: {found:?}");
        system.put(cont, b"next");
        system.assert_clean();
        if is_done {
            assert!(messages > 3, "the part has to be asked");
            return;
        }
    }
    panic!("the rollback never succeeds");
}

/// A rollback from `new` to `old` that the way breaks off.
fn broken_rollback(messages: u64) -> (System, ContNo, bool) {
    let system = System::new();
    let cont = system.make("c").unwrap();
    system.put(cont, b"old");
    let Ok(PoolReply::Epoch(then)) = system.ask(PoolVerb::SnapCreate(cont, None)) else {
        panic!("a snapshot is made")
    };
    system.put(cont, b"new");
    system.wire.fail_after(Some(messages));
    let is_done = system.ask(PoolVerb::Rollback(cont, then)).is_ok();
    (system, cont, is_done)
}

/// Those who are kept out wait for a second: the cases run side by side.
fn side_by_side(case: impl Fn(u64) + Sync) {
    let case = &case;
    scope(|threads| (0..24).for_each(|number| drop(threads.spawn(move || case(number)))));
}

#[test]
fn a_container_stays_closed_at_an_engine_that_has_missed_its_rollback() {
    side_by_side(|messages| {
        let (mut system, cont, _) = broken_rollback(messages);
        system.restart_part();
        system.home.look_after_parts();
        system.assert_rolled_back_alike(cont, messages);
    });
}

#[test]
fn a_container_stays_closed_while_the_service_of_its_rollback_starts_anew() {
    // The first case in which the engine with the service has rolled back, and the other one has not.
    let is_halved = |messages: &u64| {
        let (broken, cont, is_done) = broken_rollback(*messages);
        assert!(!is_done, "no way breaks between the two");
        broken.get(0, cont).is_ok_and(|value| value == b"old")
    };
    let messages = (0..).find(is_halved).expect("found, or the assertion fails");
    side_by_side(|lost| {
        let (broken, cont, _) = broken_rollback(messages);
        if let Some(system) = broken.restart_home_on(|wire| wire.lose_one_after(lost)) {
            // Clients have seen the state after the rollback on the one engine: there is no way back on the other.
            let part = system.get(TARGETS, cont);
            assert!(part.as_ref().is_ok_and(|value| value == b"old") || part.is_err(), "{lost}: {part:?}");
        }
    });
}

#[test]
fn a_container_is_everywhere_or_nowhere_wherever_the_way_breaks() {
    for messages in 0..MESSAGES_MAX {
        let mut system = System::new();
        system.wire.fail_after(Some(messages));
        let answer = system.make("c");
        system.restart_part();
        let mut system = system.restart_home();
        match &answer {
            Ok(cont) => system.put(*cont, b"value"),
            // What nobody was told of may be there as a whole, or not at all.
            Err(_) => assert!(matches!(system.make("c"), Ok(_) | Err(Error::Exists))),
        }
        system.assert_clean();
        if let Ok(cont) = answer {
            system.restart_part();
            system.home.look_after_parts();
            assert_eq!(system.agreed(cont), b"value");
            return;
        }
    }
    panic!("the container is never made");
}

impl System {
    /// The engine with the part is back, or the way to it, or the one with the service starts anew, too.
    fn back(mut self, how: u64) -> Self {
        match how % 3 {
            0 => self.wire.fail_after(None),
            1 => self.restart_part(),
            _ => {
                self.restart_part();
                self = self.restart_home();
            }
        }
        self.home.look_after_parts();
        self
    }

    /// Of each target: whether it knows a container.
    fn knows(&self, cont: ContNo) -> Vec<bool> {
        let door = PartDoor::new(Arc::clone(self.part.as_ref().unwrap()));
        let usage = |target: u16| {
            let ask = Ask::Target(TargetNo(target), cont, Verb::Cont(ContVerb::Usage));
            let request = Request { token: 1, head: Head::default(), ask };
            let result = if target < TARGETS { self.home.call(request) } else { door.call(request) }.result;
            assert!(matches!(result, Ok(_) | Err(Error::NoContainer)), "{result:?}");
            result.is_ok()
        };
        (0..2 * TARGETS).map(usage).collect()
    }

    fn snapshots(&self, cont: ContNo) -> usize {
        match self.ask(PoolVerb::SnapList(cont)) {
            Ok(PoolReply::Snapshots(all)) => all.len(),
            other => panic!("{other:?}"),
        }
    }

    /// Whether every target has let go of an epoch.
    fn has_let_go(&self, cont: ContNo, epoch: Epoch) -> bool {
        let read = |target| self.ask_target(target, cont, fetch(1, ReadAt::Epoch(epoch))).result;
        (0..2 * TARGETS).all(|target| matches!(read(target), Err(Error::EpochGone { .. })))
    }
}

#[test]
fn a_container_destroyed_while_an_engine_is_gone_is_gone_and_so_it_is_there_when_that_is_back() {
    for messages in 0..MESSAGES_MAX {
        let system = System::new();
        let (cont, other) = (system.make("c").unwrap(), system.make("other").unwrap());
        system.put(cont, b"value");
        system.put(other, b"other");
        system.wire.fail_after(Some(messages));
        let destroy = || PoolVerb::ContDestroy(ContName::Label(label("c")), false);
        assert!(matches!(system.ask(destroy()), Ok(PoolReply::Done)), "after {messages} messages");
        let is_everywhere = system.knows(cont) == [false; 4];
        assert!(matches!(system.ask(destroy()), Err(Error::NotFound)));
        let system = system.back(messages);
        assert_eq!(system.knows(cont), [false; 4], "after {messages} messages");
        let again = system.make("c").unwrap();
        assert_ne!(again, cont, "no number is used twice");
        system.put(again, b"again");
        assert_eq!((system.agreed(again), system.agreed(other)), (b"again".to_vec(), b"other".to_vec()));
        system.assert_clean();
        if is_everywhere {
            assert!(messages > 1, "the part has to be asked");
            return;
        }
    }
    panic!("it is never destroyed at once");
}

#[test]
fn a_container_that_could_not_be_made_leaves_its_name_and_nothing_else() {
    for (messages, how) in (0..MESSAGES_MAX).flat_map(|messages| (0..3).map(move |how| (messages, how))) {
        let system = System::new();
        system.wire.fail_after(Some(messages));
        let answer = system.make_as(1, "c");
        if answer.is_ok() {
            assert!(messages > 1, "the part has to be asked");
            return;
        }
        for _ in 0..2 {
            assert_eq!(system.make("c"), Err(Error::Unreachable { rank: 1 }), "after {messages} messages");
        }
        let system = system.back(how);
        let cont = system.make_as(1, "c").unwrap_or_else(|error| panic!("{messages}, {how}: {error:?}"));
        assert_eq!(system.make("c"), Err(Error::Exists), "it is there");
        assert_eq!(system.knows(cont), [true; 4]);
        assert_eq!(system.knows(ContNo(cont.0 - 1)), [false; 4], "the first is undone");
        system.assert_clean();
    }
    panic!("it is never made");
}

#[test]
fn any_number_of_snapshots_is_destroyed_while_an_engine_is_gone() {
    for messages in 0..MESSAGES_MAX {
        let system = System::new();
        let cont = system.make("c").unwrap();
        let snapshot = |value: &[u8]| {
            system.put(cont, value);
            match system.ask(PoolVerb::SnapCreate(cont, None)) {
                Ok(PoolReply::Epoch(epoch)) => epoch,
                other => panic!("{other:?}"),
            }
        };
        let all = [b"1", b"2", b"3"].map(|value| snapshot(value));
        system.put(cont, b"4");
        system.wire.fail_after(Some(messages));
        for epoch in &all[..2] {
            let destroyed = system.ask(PoolVerb::SnapDestroy(cont, *epoch));
            assert!(matches!(destroyed, Ok(PoolReply::Done)), "after {messages} messages: {destroyed:?}");
        }
        let is_whole = system.wire.state().left != Some(0);
        assert_eq!(system.snapshots(cont), 1);
        let system = system.back(messages);
        system.ask(PoolVerb::Aggregate(cont, Epoch::ZERO)).unwrap();
        assert!(all[..2].iter().all(|&epoch| system.has_let_go(cont, epoch)), "after {messages} messages");
        assert!(!system.has_let_go(cont, all[2]));
        assert_eq!((system.snapshots(cont), system.agreed(cont)), (1, b"4".to_vec()));
        system.assert_clean();
        if is_whole {
            assert!(messages > 3, "the part has to be asked");
            return;
        }
    }
    panic!("they are never destroyed at once");
}

#[test]
fn a_snapshot_that_could_not_be_made_is_nowhere_and_the_next_can_be() {
    for messages in 0..MESSAGES_MAX {
        let system = System::new();
        let cont = system.make("c").unwrap();
        system.put(cont, b"value");
        system.wire.fail_after(Some(messages));
        let made = system.ask(PoolVerb::SnapCreate(cont, Some("s".to_owned())));
        if let Ok(PoolReply::Epoch(_)) = made {
            assert!(messages > 3, "the part has to be asked");
            return;
        }
        assert!(matches!(made, Err(Error::Unreachable { rank: 1 })), "{messages}: {made:?}");
        let system = system.back(messages);
        assert_eq!(system.snapshots(cont), 0);
        let made = system.ask(PoolVerb::SnapCreate(cont, Some("s".to_owned())));
        assert!(matches!(made, Ok(PoolReply::Epoch(_))), "{messages}: {made:?}");
        system.assert_clean();
    }
    panic!("it is never made");
}

#[test]
fn a_rollback_that_meets_a_dead_engine_is_made_once_for_who_asks_again() {
    for messages in 0..MESSAGES_MAX {
        let system = System::new();
        let cont = system.make("c").unwrap();
        system.put(cont, b"old");
        let Ok(PoolReply::Epoch(snap)) = system.ask(PoolVerb::SnapCreate(cont, None)) else {
            panic!("no snapshot")
        };
        system.put(cont, b"new");
        system.wire.fail_after(Some(messages));
        let roll_back = |system: &System| match system.ask_as(5, PoolVerb::Rollback(cont, snap)) {
            Ok(PoolReply::Epoch(at)) => Ok(at),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        let first = roll_back(&system);
        let system = system.back(messages);
        let again = roll_back(&system).unwrap();
        assert!(first.is_err() || first == Ok(again), "after {messages} messages: {first:?}, then {again:?}");
        assert_eq!(system.agreed(cont), b"old");
        system.put(cont, b"other");
        let system = system.restart_home();
        assert_eq!(roll_back(&system), Ok(again), "after {messages} messages");
        assert_eq!(system.agreed(cont), b"other", "after {messages} messages");
        system.assert_clean();
        if first.is_ok() {
            assert!(messages > 1, "the part has to be asked");
            return;
        }
    }
    panic!("it is never made");
}

#[test]
fn who_has_handles_taken_waits_for_an_engine_that_does_not_answer_and_nobody_else_does() {
    let system = System::new();
    let cont = system.make("c").unwrap();
    let ((begun, has_begun), (go_on, may_go_on)) = (sync_channel(1), sync_channel(1));
    let is_eviction = |ask: &Ask<'_>| matches!(ask, Ask::Pool(PoolVerb::Evicted { .. }));
    system.wire.state().stop = Some((is_eviction, begun, may_go_on));
    scope(|threads| {
        let evicts = threads.spawn(|| system.ask(PoolVerb::ContEvict(cont, Whose::All)).map(drop));
        has_begun.recv().unwrap();
        assert!(matches!(system.ask(PoolVerb::ContList), Ok(PoolReply::Conts(all)) if all.len() == 1));
        assert!(system.make("other").is_ok());
        assert!(!evicts.is_finished(), "it is answered when the other engine knows");
        // It does not hear if the other has given it up.
        let _told = go_on.send(());
        assert_eq!(evicts.join().unwrap(), Ok(()));
    });
    assert!(system.wire.state().has_gone_on, "others were answered meanwhile");
    system.assert_clean();
}

#[test]
fn who_changes_containers_waits_for_an_engine_that_does_not_answer_and_who_opens_them_does_not() {
    let made = |uuid: u128| {
        let (uuid, props) = (Uuid::from_u128(uuid), Props::new());
        PoolVerb::ContCreate { uuid, label: Some(label("third")), props }
    };
    for change in ["make", "destroy", "snapshot", "roll back"] {
        let system = System::new();
        let (cont, other) = (system.make("c").unwrap(), system.make("other").unwrap());
        system.put(cont, b"old");
        let Ok(PoolReply::Epoch(snap)) = system.ask(PoolVerb::SnapCreate(cont, None)) else {
            panic!("no snapshot")
        };
        let verb = match change {
            "make" => made(33),
            "destroy" => PoolVerb::ContDestroy(ContName::Label(label("c")), true),
            "snapshot" => PoolVerb::SnapCreate(cont, Some("second".to_owned())),
            _ => PoolVerb::Rollback(cont, snap),
        };
        let ((begun, has_begun), (go_on, may_go_on)) = (sync_channel(1), sync_channel(1));
        let is_of_container = |ask: &Ask<'_>| matches!(ask, Ask::Target(_, _, Verb::Cont(_)));
        system.wire.state().stop = Some((is_of_container, begun, may_go_on));
        scope(|threads| {
            let changes = threads.spawn(|| system.ask(verb).map(drop));
            has_begun.recv().unwrap();
            let name = ContName::Label(label("other"));
            assert!(matches!(system.ask(PoolVerb::ContOpen(name, OpenFor::Any)), Ok(PoolReply::Cont(_))));
            assert!(matches!(system.ask(PoolVerb::ContClose(other)), Ok(PoolReply::Done)), "{change}");
            assert!(matches!(system.ask(PoolVerb::SnapList(other)), Ok(PoolReply::Snapshots(_))));
            match system.ask(PoolVerb::ContList) {
                Ok(PoolReply::Conts(all)) => {
                    assert_eq!(all.len(), if change == "destroy" { 1 } else { 2 }, "{change}");
                }
                other => panic!("{other:?}"),
            }
            // So do those who change records of the service alone, and who takes handles; who asks again has the first answer.
            let attrs = || vec![("name".to_owned(), b"value".to_vec())];
            for _ in 0..2 {
                let set = system.ask_as(1, PoolVerb::SetAttrs(Some(other), attrs()));
                assert!(matches!(set, Ok(PoolReply::Done)), "{change}: {set:?}");
                let numbers = system.ask_as(2, PoolVerb::AllocOids(other, 8));
                assert!(matches!(numbers, Ok(PoolReply::Oids(1))), "{change}: {numbers:?}");
            }
            assert!(matches!(system.ask(PoolVerb::ContEvict(other, Whose::All)), Ok(PoolReply::Cont(_))));
            // A change that asks all targets waits until its turn comes, and is carried out then.
            let next = threads.spawn(|| system.ask(PoolVerb::SnapCreate(other, None)));
            assert!(!changes.is_finished(), "{change}: it is answered when the other engine knows");
            // It does not hear if the other has given it up.
            let _told = go_on.send(());
            assert_eq!(changes.join().unwrap(), Ok(()), "{change}");
            assert!(matches!(next.join().unwrap(), Ok(PoolReply::Epoch(_))), "{change}");
        });
        assert!(system.wire.state().has_gone_on, "{change}: others were answered meanwhile");
        system.assert_clean();
    }
}
