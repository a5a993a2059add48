//! Clients that run transactions over a bad network, each a state machine around the coordinator of `cluster`,
//! and the history of what they saw and wrote.

use dolmen_cluster::commit::{Command, Coordinator, Event, Message};
use dolmen_cluster::resolve::{Knowledge, Next, Question, Resolution};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, InDoubt, List, ListWhat, Listed, Mutation, NewValue, Payload,
    Prepare, Punch, PunchScope, ReadAt, Reply, TxState, Update, UpdateIod, Verb, Want,
};
use dolmen_env::{Clock, Rng, SimClock};
use dolmen_sim::Subject;
use dolmen_sim::net::{Body, Delivery, Faults, Moment, Net, Reach, Tally};
use dolmen_sim::serial::{Committed, Item, Read, Write, check};
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid,
    RequestId, TargetNo, TxId,
};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TARGETS: u16 = 4;
pub(crate) const CLIENTS: usize = 6;
const CONT: ContNo = ContNo(1);
/// Waits for another coordinator before an undecided transaction is ended for it.
const PATIENT_WAITS: u32 = 4;
const WAIT_NS: u64 = 2_000_000;
/// Length of the larger values.
const ROOM_BYTES: usize = 300;
/// Repetitions of a read or plain write before the client gives up its transaction.
const REPEATS_MAX: u32 = 40;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) committed: usize,
    pub(crate) restarted: usize,
    pub(crate) refused: usize,
    pub(crate) unknown: usize,
    pub(crate) settled: usize,
    /// Messages that reached a target, and events of coordinators.
    pub(crate) messages: u64,
    pub(crate) events: u64,
    pub(crate) net: Tally,
    pub(crate) digest: u64,
}

/// What a message was sent for.
enum Purpose {
    Read(usize),
    Plain(usize),
    Coordinate(u64, TargetNo, Message),
    Settle(u64, TargetNo, Question),
}

/// Why an undecided transaction is settled.
#[derive(Clone, Copy)]
enum Then {
    Coordinator(u64, TargetNo),
    Client(usize),
}

struct Settling {
    resolution: Resolution,
    at: TargetNo,
    tx: TxId,
    waits: u32,
    then: Then,
}

/// One thing that a transaction asks before it writes: which targets, and what to make of the answers.
#[derive(Clone)]
enum Wanted {
    Value(Item),
    Akeys(Oid, Key),
    Dkeys(Oid),
    Objects,
}

impl Wanted {
    /// The only target that knows; `None` if all must be asked.
    fn home(&self) -> Option<TargetNo> {
        match self {
            Self::Value(Item { oid, dkey, .. }) | Self::Akeys(oid, dkey) => Some(target_of(*oid, dkey)),
            Self::Dkeys(_) | Self::Objects => None,
        }
    }
}

/// What one transaction has listed so far of what it wants.
#[derive(Default)]
struct Listing {
    /// The target that is asked next, where several are.
    asked: u16,
    anchor: Anchor,
    keys: BTreeSet<Key>,
    oids: BTreeSet<Oid>,
}

#[derive(Default)]
struct Client {
    running: Option<Running>,
    left: u32,
}

struct Running {
    record: Committed,
    tx: TxId,
    wanted: Vec<Wanted>,
    listing: Listing,
    writes: Vec<(Write, Option<bool>)>,
    repeats: u32,
    is_plain: bool,
}

struct Coordination {
    coordinator: Coordinator,
    client: usize,
    tx: TxId,
    epoch: Epoch,
    parts: BTreeMap<TargetNo, Vec<(Write, Option<bool>)>>,
    record: Committed,
    /// Its process dies after so many events.
    dies_in: Option<u32>,
}

/// The one crash of a run without chance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Planned {
    /// At so many messages to targets.
    Message(u64, Moment, Reach),
    /// The process of a coordinator, at so many events of all coordinators.
    Coordinator(u64),
}

pub(crate) struct World<S> {
    net: Net<S>,
    rng: Rng,
    clock: SimClock,
    clients: Vec<Client>,
    purposes: BTreeMap<u64, Purpose>,
    alarms: BTreeMap<u64, Alarm>,
    next_token: u64,
    next_write: u64,
    last_epoch: Epoch,
    coordinations: BTreeMap<u64, Coordination>,
    settlings: BTreeMap<u64, Settling>,
    participants: BTreeMap<TxId, Vec<TargetNo>>,
    history: Vec<Committed>,
    /// Records of transactions whose outcome their client never learned.
    unknown: Vec<(TxId, Committed)>,
    /// Transactions that their client knows to be committed.
    known: Vec<TxId>,
    summary: Summary,
    /// Events of coordinators so far, and the one that kills its coordinator.
    events: u64,
    fatal_event: Option<u64>,
    coordinators_die: bool,
}

enum Alarm {
    Begin(usize),
    Retry(u64),
}

fn item(object: u64, dkey: u64, akey: u64) -> Item {
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::SX, 0, object);
    let key = |name: char, number: u64| Key::from_slice(format!("{name}{number}").as_bytes());
    Item { oid, dkey: key('d', dkey), akey: key('a', akey) }
}

/// What is stored for a write: its id, and for every third one so much more that it is no small value.
fn value(id: u64) -> Vec<u8> {
    let mut value = vec![id.to_le_bytes()[0]; if id.is_multiple_of(3) { ROOM_BYTES } else { 8 }];
    value[..8].copy_from_slice(&id.to_le_bytes());
    value
}

/// The write that left a value of so many bytes.
fn id_in(size_bytes: u64, buf: &[u8]) -> Option<u64> {
    let found = &buf[..usize::try_from(size_bytes).unwrap()];
    let id = u64::from_le_bytes(found.get(..8)?.try_into().unwrap());
    assert_eq!(found, value(id), "a value in parts");
    Some(id)
}

fn target_of(oid: Oid, dkey: &Key) -> TargetNo {
    let sum = oid.lo + dkey.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    TargetNo(u16::try_from(sum % u64::from(TARGETS)).unwrap())
}

fn targets_of(write: &Write) -> Vec<TargetNo> {
    match write {
        Write::Put(item, _) | Write::Remove(item) => vec![target_of(item.oid, &item.dkey)],
        Write::RemoveDkey(oid, dkey) => vec![target_of(*oid, dkey)],
        Write::RemoveObject(_) => (0..TARGETS).map(TargetNo).collect(),
    }
}

fn mutation((write, must_exist): &(Write, Option<bool>)) -> Mutation<'static> {
    let punch = |oid: Oid, scope, cond| Mutation::Punch(Punch { oid, scope, cond });
    match write {
        Write::Put(item, id) => {
            let cond = must_exist
                .map_or(Cond::NONE, |exists| if exists { Cond::AKEY_UPDATE } else { Cond::AKEY_INSERT });
            let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(&value(*id))));
            let iods = smallvec![UpdateIod { akey: item.akey.clone(), cond: Cond::NONE, value }];
            Mutation::Update(Update { oid: item.oid, dkey: item.dkey.clone(), cond, iods, charged: None })
        }
        Write::Remove(item) => {
            let cond = if must_exist.is_some() { Cond::PUNCH } else { Cond::NONE };
            punch(item.oid, PunchScope::Akeys(item.dkey.clone(), smallvec![item.akey.clone()]), cond)
        }
        Write::RemoveDkey(oid, dkey) => punch(*oid, PunchScope::Dkey(dkey.clone()), Cond::NONE),
        Write::RemoveObject(oid) => punch(*oid, PunchScope::Object, Cond::NONE),
    }
}

fn read_verb(wanted: &Wanted, anchor: Anchor, epoch: Epoch) -> Verb<'static> {
    let at = ReadAt::Tx(epoch);
    // One item a page, so that others write between the pages.
    let list = |what| Verb::List(List { what, anchor, items_max: 1, bytes_max: 1 << 16, at });
    match wanted {
        Wanted::Value(item) => {
            let iods = smallvec![FetchIod {
                akey: item.akey.clone(),
                want: Want::Single { room_bytes: ROOM_BYTES }
            }];
            let buf = IoBuf::zeroed(ROOM_BYTES);
            Verb::Fetch(Fetch { oid: item.oid, dkey: item.dkey.clone(), cond: Cond::NONE, at, iods, buf })
        }
        Wanted::Akeys(oid, dkey) => list(ListWhat::Akeys(*oid, dkey.clone())),
        Wanted::Dkeys(oid) => list(ListWhat::Dkeys(*oid)),
        Wanted::Objects => list(ListWhat::Objects),
    }
}

impl Running {
    /// The first thing wanted is listed completely.
    fn finish_listing(&mut self, wanted: Wanted) {
        let Listing { keys, oids, .. } = std::mem::take(&mut self.listing);
        self.record.reads.push(match wanted {
            Wanted::Dkeys(oid) => Read::Dkeys(oid, keys),
            Wanted::Akeys(oid, dkey) => Read::Akeys(oid, dkey, keys),
            Wanted::Objects => Read::Objects(oids),
            Wanted::Value(_) => unreachable!("a value is not listed"),
        });
        self.wanted.remove(0);
    }
}

impl<S: Subject> World<S> {
    pub(crate) fn new(seed: u64, faults: Faults, targets: Vec<S>) -> Self {
        Self::with_durability(Durability::Power, seed, faults, targets)
    }

    /// A world whose container has that durability.
    pub(crate) fn with_durability(
        durability: Durability,
        seed: u64,
        faults: Faults,
        targets: Vec<S>,
    ) -> Self {
        assert_eq!(targets.len(), usize::from(TARGETS));
        let clock = targets[0].clock();
        let mut net = Net::new(seed, faults, targets);
        let spec = ContSpec { hash_key: HashKey([1; 16]), durability };
        for target in 0..TARGETS {
            net.execute_now(TargetNo(target), CONT, Verb::Cont(ContVerb::Create(spec))).0.unwrap();
        }
        Self {
            net,
            rng: Rng::from_seed(seed ^ 0xC0DE),
            clock,
            clients: Vec::new(),
            purposes: BTreeMap::new(),
            alarms: BTreeMap::new(),
            next_token: 1,
            next_write: 1,
            last_epoch: Epoch::ZERO,
            coordinations: BTreeMap::new(),
            settlings: BTreeMap::new(),
            participants: BTreeMap::new(),
            history: Vec::new(),
            unknown: Vec::new(),
            known: Vec::new(),
            summary: Summary::default(),
            events: 0,
            fatal_event: None,
            coordinators_die: true,
        }
    }

    /// A world in which nothing fails but what is planned.
    pub(crate) fn planned(durability: Durability, seed: u64, planned: Planned, targets: Vec<S>) -> Self {
        let mut world = Self::with_durability(durability, seed, Faults::NONE, targets);
        world.coordinators_die = false;
        match planned {
            Planned::Message(message, moment, reach) => world.net.crash_at(message, moment, reach),
            Planned::Coordinator(event) => world.fatal_event = Some(event),
        }
        world
    }

    /// Lets every client run `transactions` transactions, then heals the network, settles what is left, and
    /// checks that all of it is atomic and serialisable.
    pub(crate) fn run(mut self, clients: usize, transactions: u32) -> Summary {
        for client in 0..clients {
            self.clients.push(Client { running: None, left: transactions });
            self.alarm(Alarm::Begin(client));
        }
        while let Some(delivery) = self.net.deliver() {
            self.deliver(delivery);
            if self.clients.iter().all(|client| client.left == 0 && client.running.is_none()) {
                self.net.heal();
            }
        }
        assert!(self.clients.iter().all(|client| client.running.is_none()), "a client waits for ever");
        self.settle_the_rest();
        self.check_outcomes();
        self.read_everything();
        if let Err(anomaly) = check(&self.history) {
            for (number, tx) in self.history.iter().enumerate() {
                println!("{number}: {tx:?}");
            }
            panic!("{anomaly:?}");
        }
        let messages = self.net.trace().len() as u64;
        Summary {
            net: self.net.tally(),
            digest: self.net.digest(),
            messages,
            events: self.events,
            ..self.summary
        }
    }

    /// A commit on targets 0 and 1 that hangs after `reached` of its messages, while targets 2 and 3 are used:
    /// by reads, plain writes and transactions of their own. Returns how many messages those took.
    pub(crate) fn run_beside_a_hanging_commit(mut self, reached: usize) -> usize {
        const OTHERS: usize = 8;
        self.coordinators_die = false;
        self.clients = vec![Client::default(), Client::default()];
        self.start(0, Vec::new(), &[item(0, 0, 0), item(0, 1, 0)]);
        while self.net.trace().len() < reached {
            let delivery = self.net.deliver().expect("the commit is under way");
            self.deliver(delivery);
        }
        assert_eq!(self.summary.committed, 0, "the commit is not over");
        self.net.hold(TargetNo(0));
        self.net.hold(TargetNo(1));
        let before = self.net.trace().len();
        for number in 1..=OTHERS as u64 {
            let (here, there) = (item(0, 2, number % 2), item(0, 3, number % 3));
            let wanted = vec![Wanted::Value(here.clone()), Wanted::Akeys(there.oid, there.dkey.clone())];
            let places = [here, there];
            self.start(1, wanted, if number % 2 == 0 { &places[..1] } else { &places });
            while self.clients[1].running.is_some() || self.client_commits(1) {
                let delivery = self.net.deliver().expect("the others are not held up");
                self.deliver(delivery);
            }
        }
        assert_eq!(self.summary.committed, OTHERS, "all but the hanging one");
        let beside = self.net.trace()[before..].to_vec();
        assert!(beside.iter().all(|(to, _)| to.0 >= 2), "{beside:?}");
        self.net.release();
        self.run(0, 0);
        beside.len()
    }

    fn client_commits(&self, client: usize) -> bool {
        self.coordinations.values().any(|coordination| coordination.client == client)
    }

    /// Begins a transaction that puts a value in each place.
    fn start(&mut self, client: usize, wanted: Vec<Wanted>, places: &[Item]) {
        let epoch = self.begin_epoch();
        let put = |world: &mut Self, item: &Item| {
            world.next_write += 1;
            (Write::Put(item.clone(), world.next_write), None)
        };
        let writes = places.iter().map(|item| put(self, item)).collect();
        self.begin_with(client, epoch, wanted, writes, false);
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn alarm(&mut self, alarm: Alarm) {
        let token = self.token();
        let wait = WAIT_NS / 4 + self.rng.below(WAIT_NS);
        self.alarms.insert(token, alarm);
        self.net.alarm(token, wait);
    }

    fn send(&mut self, purpose: Purpose, to: TargetNo, head: Head, body: Body) {
        let token = self.token();
        self.purposes.insert(token, purpose);
        self.net.send(token, to, CONT, head, body);
    }

    /// An epoch of its own for every transaction.
    fn begin_epoch(&mut self) -> Epoch {
        let wall = Epoch::from_unix_ns(self.clock.now_ns());
        self.last_epoch = Epoch((wall.0 | 1 << 17).max(self.last_epoch.0 + 4097));
        self.last_epoch
    }

    /// A pool's clock is never behind an epoch that it has heard of.
    fn merge(&mut self, epoch: Epoch) {
        self.last_epoch = self.last_epoch.max(epoch);
    }

    fn deliver(&mut self, delivery: Delivery) {
        let (token, answer) = match delivery {
            Delivery::Alarm { token } => {
                match self.alarms.remove(&token).unwrap() {
                    Alarm::Begin(client) => self.begin(client),
                    Alarm::Retry(settling) => self.begin_settling(settling),
                }
                return;
            }
            Delivery::Outage => return self.outage(),
            Delivery::Answer { token, result, buf } => (token, Some((result, buf))),
            Delivery::Silence { token } => (token, None),
        };
        // An answer after silence, or a second one: whoever asked has asked again.
        let Some(purpose) = self.purposes.remove(&token) else { return };
        match purpose {
            Purpose::Read(client) => self.on_read(client, answer),
            Purpose::Plain(client) => self.on_plain(client, answer),
            Purpose::Coordinate(number, from, to) => {
                let event = match answer {
                    Some((result, _)) => Event::Answer { from, to, result: result.map(|_| ()) },
                    None => Event::Silence { from, to },
                };
                self.coordinate(number, event);
            }
            Purpose::Settle(number, from, question) => {
                self.on_settle(number, from, question, answer.map(|a| a.0))
            }
        }
    }

    /// The process that held all targets and coordinators has died: what is undecided is settled before anything
    /// else, and the clients begin anew.
    fn outage(&mut self) {
        self.purposes.clear();
        self.alarms.clear();
        self.settlings.clear();
        for (_, dead) in std::mem::take(&mut self.coordinations) {
            self.bury(dead);
        }
        self.settle_the_rest();
        for client in 0..self.clients.len() {
            match &self.clients[client].running {
                // Nobody knows whether its write was done: it is sent again under its number.
                Some(running) if running.is_plain => self.go_on(client),
                _ => self.end(client),
            }
        }
    }

    /// A coordinator is gone; what became of its transaction is to be seen. True if its client was not told.
    fn bury(&mut self, dead: Coordination) -> bool {
        let untold = dead.client != usize::MAX;
        if untold {
            self.unknown.push((dead.tx, dead.record));
        }
        untold
    }

    fn begin(&mut self, client: usize) {
        if self.clients[client].left == 0 {
            return;
        }
        self.clients[client].left -= 1;
        let epoch = self.begin_epoch();
        let is_plain = self.rng.one_in(8);
        let (wanted, writes) =
            if is_plain { (Vec::new(), vec![(self.put(), None)]) } else { (self.wants(), self.writes()) };
        self.begin_with(client, epoch, wanted, writes, is_plain);
    }

    fn begin_with(
        &mut self,
        client: usize,
        epoch: Epoch,
        wanted: Vec<Wanted>,
        writes: Vec<(Write, Option<bool>)>,
        is_plain: bool,
    ) {
        let record =
            Committed { epoch, begin_ns: self.net.now_ns(), end_ns: u64::MAX, ..Committed::default() };
        let tx = TxId { client: client as u128, begin: epoch };
        let running =
            Running { record, tx, wanted, listing: Listing::default(), writes, repeats: 0, is_plain };
        self.clients[client].running = Some(running);
        self.go_on(client);
    }

    fn item(&mut self) -> Item {
        item(self.rng.below(2), self.rng.below(4), self.rng.below(2))
    }

    fn put(&mut self) -> Write {
        self.next_write += 1;
        Write::Put(self.item(), self.next_write)
    }

    fn wants(&mut self) -> Vec<Wanted> {
        let count = self.rng.below(4);
        let one = |world: &mut Self| {
            let Item { oid, dkey, akey } = world.item();
            match world.rng.below(12) {
                0 | 1 => Wanted::Dkeys(oid),
                2 | 3 => Wanted::Akeys(oid, dkey),
                4 => Wanted::Objects,
                _ => Wanted::Value(Item { oid, dkey, akey }),
            }
        };
        (0..count).map(|_| one(self)).collect()
    }

    /// Writes to different items; whole dkeys and objects last, so that every condition is about what was
    /// there before the transaction.
    fn writes(&mut self) -> Vec<(Write, Option<bool>)> {
        let (mut items, mut writes) = (BTreeSet::new(), Vec::new());
        for _ in 0..self.rng.below(4) {
            let put = self.put();
            let Write::Put(item, _) = &put else { unreachable!() };
            if items.insert(item.clone()) {
                let must_exist = self.rng.one_in(4).then(|| self.rng.one_in(2));
                let remove = self.rng.one_in(5);
                let write = if remove { Write::Remove(item.clone()) } else { put };
                writes.push((write, if remove { must_exist.map(|_| true) } else { must_exist }));
            }
        }
        let Item { oid, dkey, .. } = self.item();
        match self.rng.below(20) {
            0 => writes.push((Write::RemoveObject(oid), None)),
            1 | 2 => writes.push((Write::RemoveDkey(oid, dkey), None)),
            _ => {}
        }
        writes
    }

    /// Takes the client's next step.
    fn go_on(&mut self, client: usize) {
        let Some(running) = &self.clients[client].running else { return };
        let epoch = running.record.epoch;
        if running.is_plain {
            let write = running.writes[0].clone();
            let to = targets_of(&write.0)[0];
            let head =
                Head { id: RequestId { client: client as u128, sequence: epoch.0 }, ..Head::default() };
            let body: Body = Arc::new(move || match mutation(&write) {
                Mutation::Update(update) => Verb::Update(update),
                Mutation::Punch(punch) => Verb::Punch(punch),
            });
            return self.send(Purpose::Plain(client), to, head, body);
        }
        match running.wanted.first().cloned() {
            Some(wanted) => {
                let to = wanted.home().unwrap_or(TargetNo(running.listing.asked));
                let anchor = running.listing.anchor;
                let body: Body = Arc::new(move || read_verb(&wanted, anchor, epoch));
                self.send(Purpose::Read(client), to, Head::default(), body);
            }
            None => self.commit(client),
        }
    }

    fn on_read(&mut self, client: usize, answer: Option<(Result<Reply, Error>, Option<IoBuf>)>) {
        let Some(running) = &mut self.clients[client].running else { return };
        let wanted = running.wanted[0].clone();
        match answer {
            None => return self.repeat(client),
            Some((Ok(Reply::Fetched(iods)), buf)) => {
                let Wanted::Value(item) = wanted else { unreachable!() };
                running.record.reads.push(Read::Value(item, id_in(iods[0].size_bytes, &buf.unwrap())));
                running.wanted.remove(0);
            }
            Some((Ok(Reply::Listed(listed, anchor)), _)) => {
                running.listing.anchor = anchor;
                match listed {
                    Listed::Keys(keys) => running.listing.keys.extend(keys.iter().map(Key::from_slice)),
                    Listed::Objects(oids) => running.listing.oids.extend(oids),
                    other => panic!("{other:?}"),
                }
                if anchor.is_eof() {
                    running.listing.anchor = Anchor::default();
                    running.listing.asked += 1;
                    if wanted.home().is_some() || running.listing.asked == TARGETS {
                        running.finish_listing(wanted);
                    }
                }
            }
            Some((Err(Error::InDoubt { tx }), _)) => {
                let at = wanted.home().unwrap_or(TargetNo(running.listing.asked));
                return self.settle(at, tx, Then::Client(client));
            }
            Some((Err(Error::TxRestart { after }), _)) => {
                self.merge(after);
                self.summary.restarted += 1;
                return self.end(client);
            }
            Some(other) => panic!("a read answered by {other:?}"),
        }
        self.go_on(client);
    }

    fn on_plain(&mut self, client: usize, answer: Option<(Result<Reply, Error>, Option<IoBuf>)>) {
        let Some(running) = &mut self.clients[client].running else { return };
        match answer {
            // The write may have been done, so the client must not give up.
            None => self.go_on(client),
            Some((Ok(Reply::Written(epoch)), _)) => {
                self.last_epoch = self.last_epoch.max(epoch);
                running.record.epoch = epoch;
                // Its epoch is from its target's clock alone, which may be a second from another's: only
                // transactions are promised the order of real time.
                (running.record.begin_ns, running.record.end_ns) = (0, u64::MAX);
                running.record.writes = running.writes.iter().map(|write| write.0.clone()).collect();
                self.history.push(running.record.clone());
                self.summary.committed += 1;
                self.end(client);
            }
            Some((Err(Error::InDoubt { tx }), _)) => {
                let at = targets_of(&running.writes[0].0)[0];
                self.settle(at, tx, Then::Client(client));
            }
            Some(other) => panic!("a write answered by {other:?}"),
        }
    }

    fn repeat(&mut self, client: usize) {
        let Some(running) = &mut self.clients[client].running else { return };
        running.repeats += 1;
        if running.repeats > REPEATS_MAX { self.end(client) } else { self.go_on(client) }
    }

    fn end(&mut self, client: usize) {
        self.clients[client].running = None;
        self.alarm(Alarm::Begin(client));
    }

    fn commit(&mut self, client: usize) {
        let Some(running) = self.clients[client].running.take() else { return };
        let Running { mut record, tx, writes, .. } = running;
        if writes.is_empty() {
            record.end_ns = self.net.now_ns();
            self.history.push(record);
            self.summary.committed += 1;
            return self.end(client);
        }
        let mut parts: BTreeMap<TargetNo, Vec<(Write, Option<bool>)>> = BTreeMap::new();
        for write in &writes {
            for target in targets_of(&write.0) {
                parts.entry(target).or_default().push(write.clone());
            }
            if let (Write::Put(item, _) | Write::Remove(item), Some(exists)) = write {
                record.reads.push(Read::Exists(item.clone(), *exists));
            }
        }
        record.writes = writes.into_iter().map(|write| write.0).collect();
        let participants: Vec<TargetNo> = parts.keys().copied().collect();
        self.participants.insert(tx, participants.clone());
        let number = self.token();
        let mut commands = Vec::new();
        let epoch = record.epoch;
        let coordinator = Coordinator::begin(tx, epoch, &participants, &mut commands);
        let dies_in =
            (self.coordinators_die && self.rng.one_in(12)).then(|| u32::try_from(self.rng.below(6)).unwrap());
        self.coordinations
            .insert(number, Coordination { coordinator, client, tx, epoch, parts, record, dies_in });
        self.carry_out(number, commands);
    }

    fn coordinate(&mut self, number: u64, event: Event) {
        let Some(coordination) = self.coordinations.get_mut(&number) else { return };
        let fatal = self.fatal_event == Some(self.events) || coordination.dies_in == Some(0);
        self.events += 1;
        if fatal {
            let dead = self.coordinations.remove(&number).unwrap();
            let client = dead.client;
            if self.bury(dead) {
                self.end(client);
            }
            return;
        }
        coordination.dies_in = coordination.dies_in.map(|left| left - 1);
        let mut commands = Vec::new();
        coordination.coordinator.on(event, &mut commands);
        self.carry_out(number, commands);
        if self.coordinations.get(&number).is_some_and(|coordination| coordination.coordinator.is_closed()) {
            self.coordinations.remove(&number);
        }
    }

    fn carry_out(&mut self, number: u64, commands: Vec<Command>) {
        for command in commands {
            let Some(coordination) = self.coordinations.get_mut(&number) else { return };
            match command {
                Command::Send { to, message } => {
                    let (tx, epoch) = (coordination.tx, coordination.epoch);
                    let leader = coordination.coordinator.leader();
                    let participants: SmallVec<[TargetNo; 4]> = coordination.parts.keys().copied().collect();
                    let part = coordination.parts[&to].clone();
                    let sequence = if participants.len() == 1 { epoch.0 } else { 0 };
                    let head = Head { id: RequestId { client: tx.client, sequence }, ..Head::default() };
                    let body: Body = Arc::new(move || match message {
                        Message::Prepare => {
                            let mutations = part.iter().map(mutation).collect();
                            Verb::Prepare(Prepare {
                                tx,
                                epoch,
                                leader,
                                participants: participants.clone(),
                                mutations,
                            })
                        }
                        Message::Commit => Verb::Commit(tx),
                        Message::Abort => Verb::Abort(tx),
                        Message::Conclude => Verb::Conclude(tx),
                    });
                    self.send(Purpose::Coordinate(number, to, message), to, head, body);
                }
                Command::Settle { at, tx } => self.settle(at, tx, Then::Coordinator(number, at)),
                Command::Finish(result) => {
                    let client = std::mem::replace(&mut coordination.client, usize::MAX);
                    let (tx, mut record) = (coordination.tx, coordination.record.clone());
                    match result {
                        Ok(_) => {
                            record.end_ns = self.net.now_ns();
                            self.history.push(record);
                            self.known.push(tx);
                            self.summary.committed += 1;
                        }
                        Err(Error::TxRestart { after }) => {
                            self.merge(after);
                            self.summary.restarted += 1;
                        }
                        Err(Error::Exists | Error::NotFound) => self.summary.refused += 1,
                        Err(Error::InDoubt { .. }) => self.unknown.push((tx, record)),
                        Err(error) => panic!("a transaction ends with {error:?}"),
                    }
                    self.end(client);
                }
            }
        }
    }

    fn settle(&mut self, at: TargetNo, tx: TxId, then: Then) {
        let number = self.token();
        let leader = self.participants[&tx][0];
        let (resolution, _) = Resolution::begin(at, leader, true);
        self.settlings.insert(number, Settling { resolution, at, tx, waits: 0, then });
        self.begin_settling(number);
    }

    fn begin_settling(&mut self, number: u64) {
        let Some(settling) = self.settlings.get_mut(&number) else { return };
        let leader = self.participants[&settling.tx][0];
        let (resolution, next) = Resolution::begin(settling.at, leader, settling.waits < PATIENT_WAITS);
        settling.resolution = resolution;
        self.follow(number, next);
    }

    fn follow(&mut self, number: u64, next: Next) {
        let settling = self.settlings.get_mut(&number).unwrap();
        match next {
            Next::Ask(to, question) => {
                let tx = settling.tx;
                let body: Body = Arc::new(move || question_verb(question, tx));
                self.send(Purpose::Settle(number, to, question), to, Head::default(), body);
            }
            Next::Wait => {
                settling.waits += 1;
                self.alarm(Alarm::Retry(number));
            }
            Next::Settled => {
                self.summary.settled += 1;
                let then = self.settlings.remove(&number).unwrap().then;
                match then {
                    Then::Coordinator(coordination, at) => {
                        self.coordinate(coordination, Event::Settled { at })
                    }
                    Then::Client(client) => self.go_on(client),
                }
            }
        }
    }

    fn on_settle(
        &mut self,
        number: u64,
        from: TargetNo,
        question: Question,
        answer: Option<Result<Reply, Error>>,
    ) {
        let Some(settling) = self.settlings.get(&number) else { return };
        let next = match answer {
            None => Next::Ask(from, question),
            Some(result) => settling.resolution.on(from, question, &knowledge(result)),
        };
        self.follow(number, next);
    }

    /// Ends what nobody is left to decide.
    fn settle_the_rest(&mut self) {
        for target in (0..TARGETS).map(TargetNo) {
            let Reply::InDoubt(list) = self.net.execute_now(target, CONT, Verb::InDoubt).0.unwrap() else {
                panic!()
            };
            for doubt in list {
                assert_eq!(doubt.leader, self.participants[&doubt.tx][0]);
                let (resolution, mut next) = Resolution::begin(target, doubt.leader, false);
                while let Next::Ask(to, question) = next {
                    let (result, _) = self.net.execute_now(to, CONT, question_verb(question, doubt.tx));
                    next = resolution.on(to, question, &knowledge(result));
                }
            }
        }
        for leader in (0..TARGETS).map(TargetNo) {
            for kept in self.unconcluded(leader) {
                self.conclude(&kept);
            }
            assert!(self.unconcluded(leader).is_empty(), "everybody knows");
        }
    }

    fn unconcluded(&mut self, leader: TargetNo) -> Vec<InDoubt> {
        match self.net.execute_now(leader, CONT, Verb::Unconcluded).0 {
            Ok(Reply::InDoubt(list)) => list,
            other => panic!("{other:?}"),
        }
    }

    /// Tells the participants of a transaction that its leader keeps, then the leader.
    fn conclude(&mut self, kept: &InDoubt) {
        assert_eq!(kept.participants[..], self.participants[&kept.tx][..]);
        let mut commands = Vec::new();
        let mut coordinator = Coordinator::tell_again(kept.tx, kept.epoch, &kept.participants, &mut commands);
        while let Some(command) = commands.pop() {
            let Command::Send { to, message } = command else { panic!("{command:?}") };
            let verb = match message {
                Message::Commit => Verb::Commit(kept.tx),
                Message::Conclude => Verb::Conclude(kept.tx),
                other => panic!("{other:?}"),
            };
            let result = self.net.execute_now(to, CONT, verb).0.map(|_| ());
            coordinator.on(Event::Answer { from: to, to: message, result }, &mut commands);
        }
        assert!(coordinator.is_closed());
        assert!(!coordinator.is_owed());
    }

    /// All targets of a transaction agree about it, and with what its client was told.
    fn check_outcomes(&mut self) {
        let unknown = std::mem::take(&mut self.unknown);
        let known: BTreeSet<TxId> = self.known.iter().copied().collect();
        let mut committed = BTreeSet::new();
        for (tx, participants) in self.participants.clone() {
            let states: Vec<TxState> = participants
                .iter()
                .map(|&target| match self.net.execute_now(target, CONT, Verb::TxState(tx)).0 {
                    Ok(Reply::TxState(state)) => state,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(states.iter().all(|&state| state == states[0]), "{tx:?} is {states:?}");
            assert_ne!(states[0], TxState::Prepared);
            if states[0] == TxState::Committed {
                committed.insert(tx);
            }
        }
        assert!(known.is_subset(&committed), "a client was told of a commit that is not one");
        let maybe: BTreeSet<TxId> = unknown.iter().map(|(tx, _)| *tx).collect();
        assert!(
            committed.difference(&known).all(|tx| maybe.contains(tx)),
            "a client was told of a failure that is none"
        );
        self.summary.unknown = unknown.len();
        self.history
            .extend(unknown.into_iter().filter(|(tx, _)| committed.contains(tx)).map(|(_, record)| record));
    }

    /// One more transaction that reads all there is.
    fn read_everything(&mut self) {
        let epoch = self.begin_epoch();
        let mut reads = Vec::new();
        for number in 0..16 {
            let item = item(number / 8, number / 2 % 4, number % 2);
            let to = target_of(item.oid, &item.dkey);
            let (result, buf) = self.net.execute_now(
                to,
                CONT,
                read_verb(&Wanted::Value(item.clone()), Anchor::default(), epoch),
            );
            let Reply::Fetched(iods) = result.unwrap() else { panic!() };
            reads.push(Read::Value(item, id_in(iods[0].size_bytes, &buf.unwrap())));
        }
        let now = self.net.now_ns();
        self.history.push(Committed { epoch, begin_ns: now, end_ns: u64::MAX, reads, writes: Vec::new() });
    }
}

fn question_verb(question: Question, tx: TxId) -> Verb<'static> {
    match question {
        Question::State => Verb::TxState(tx),
        Question::Commit => Verb::Commit(tx),
        Question::Abort => Verb::Abort(tx),
    }
}

fn knowledge(result: Result<Reply, Error>) -> Knowledge {
    match result {
        Ok(Reply::TxState(state)) => Knowledge::State(state),
        Ok(_) => Knowledge::Done(Ok(())),
        Err(error) => Knowledge::Done(Err(error)),
    }
}
