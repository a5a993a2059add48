use super::table::{CONNECTION_MAX, LATE_MAX, LATE_NS};
use super::*;
use dolmen_codec::verb::{Fetch, FetchIod, Update, Want};
use dolmen_env::{Rng, entropy_u64};
use dolmen_types::{Cond, IoBuf, Key, ObjectClass, ObjectType};
use std::collections::{BTreeMap, VecDeque};

const USER: u32 = 1000;
const CONT: ContNo = ContNo(3);
const TERM: u64 = LEASE_TERM_NS;

fn leases() -> Arc<Leases> {
    leases_of(false, Box::new(|| true))
}

fn leases_of(has_died: bool, note: Note) -> Arc<Leases> {
    Arc::new(Leases::new(HashKey([5; 16]), has_died, 0, Vec::new(), note))
}

fn place(mailbox: &Arc<Mailbox>, at: usize) -> Place {
    Place { mailbox: Arc::clone(mailbox), at, serial: 1 }
}

/// A connection, which knows what it is told.
struct Side {
    leases: Arc<Leases>,
    mailbox: Arc<Mailbox>,
    key: u64,
}

impl Side {
    fn new(leases: &Arc<Leases>, uid: u32) -> Self {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let key = leases.enter(uid, place(&mailbox, 0));
        Self { leases: Arc::clone(leases), mailbox, key }
    }

    /// Reads a unit: the number of the lease, and what the answer renews.
    fn read(&self, no: u32, unit: Unit, now_ns: u64) -> (u32, u32) {
        self.leases.take(self.key, no, unit, now_ns).map_or((0, 0), |mut taken| taken.grant(now_ns))
    }

    fn change(&self, change: &Change, now_ns: u64) -> Option<u64> {
        self.leases.clear_change(change, Some(self.key), (place(&self.mailbox, 0), 9), now_ns)
    }

    /// What it was told since the last look: numbers that are void, 0 for all; and how often it was called.
    fn told(&self) -> (Vec<u32>, usize) {
        let (mut void, mut calls) = (Vec::new(), 0);
        for mail in self.mailbox.post().take() {
            match mail {
                Mail::Void(notice) => void.push(notice.what.map_or(0, |(no, _)| no)),
                Mail::Free { .. } => calls += 1,
                Mail::Done(_) | Mail::Came(_) => panic!("nobody sends that here"),
            }
        }
        (void, calls)
    }
}

fn mark(leases: &Arc<Leases>, change: &Change) -> Mark {
    let cell = |unit: &Unit| leases.cell(unit.cont, unit.oid);
    leases.marked(match change {
        Change::Of(unit) => Cells::One(cell(unit)),
        Change::OfAll(units) => Cells::some(units.iter().map(cell)),
        Change::Cont(_) => Cells::All,
    })
}

fn unit(oid: u64, dkey: u128) -> Unit {
    Unit { cont: CONT, oid: Oid { hi: 1, lo: oid }, dkey }
}

#[test]
fn a_change_waits_until_all_others_have_taken_in_that_what_they_have_is_void() {
    let leases = leases();
    let [reader, other, writer] = [1, 2, 3].map(|uid| Side::new(&leases, uid));
    assert_eq!(reader.read(1, unit(1, 7), 0), (1, LEASE_TERM_MS));
    assert_eq!(reader.read(2, unit(1, 7), 0), (1, LEASE_TERM_MS), "it has one already");
    assert_eq!(other.read(5, unit(1, 0), 0), (5, LEASE_TERM_MS), "of the whole object");
    assert_eq!(writer.read(4, unit(1, 7), 0), (4, LEASE_TERM_MS));
    let change = Change::Of(unit(1, 7));
    let marked = mark(&leases, &change);
    assert_eq!(writer.change(&change, 10), Some(10 + TERM));
    assert_eq!((reader.told(), other.told()), ((vec![1], 0), (vec![5], 0)));
    assert_eq!(writer.told(), (vec![], 0), "its own stays, and it does not wait for itself");
    assert_eq!(leases.renews(reader.key, 11), 0, "while it has not taken that in");
    assert_eq!(reader.read(8, unit(2, 7), 11), (8, 0), "also with a lease on something else");
    leases.give(reader.key, &[1], 12);
    assert_eq!(leases.renews(reader.key, 12), LEASE_TERM_MS);
    assert_eq!(writer.told(), (vec![], 0), "one is left");
    assert_eq!(writer.change(&change, 13), Some(10 + TERM));
    leases.give(other.key, &[5, 5, 77], 13);
    assert_eq!(writer.told(), (vec![], 2), "each time that it has asked");
    assert_eq!(writer.change(&change, 14), None);
    for (no, unit, what) in [(11, unit(1, 7), "the dkey"), (12, unit(1, 0), "the object")] {
        assert_eq!(reader.read(no, unit, 14), (0, 0), "{what} while it changes");
    }
    drop(marked);
    assert_eq!(reader.read(13, unit(1, 7), 15), (13, LEASE_TERM_MS));
}

#[test]
fn other_names_of_a_directory_are_left_alone_and_its_listing_is_not() {
    let leases = leases();
    let [reader, writer] = [1, 2].map(|uid| Side::new(&leases, uid));
    for (no, unit) in [(1, unit(1, 7)), (2, unit(1, 8)), (3, unit(1, 0)), (4, unit(2, 7))] {
        assert_eq!(reader.read(no, unit, 0).0, no);
    }
    assert!(writer.change(&Change::Of(unit(1, 7)), 0).is_some());
    let mut void = reader.told().0;
    void.sort_unstable();
    assert_eq!(void, [1, 3]);
    assert!(writer.change(&Change::Of(unit(1, 0)), 0).is_some(), "the object with all its dkeys");
    assert_eq!(reader.told().0, [2]);
    assert!(writer.change(&Change::Cont(ContNo(4)), 0).is_none(), "another container");
    assert!(writer.change(&Change::Cont(CONT), 0).is_some());
    assert_eq!(reader.told().0, [4]);
}

#[test]
fn who_never_acknowledges_holds_nobody_up_for_longer_than_a_term_and_gets_no_more() {
    let leases = leases();
    let [silent, writer] = [1, 2].map(|uid| Side::new(&leases, uid));
    assert_eq!(silent.read(1, unit(1, 7), 0).0, 1);
    assert_eq!(silent.read(2, unit(2, 7), 0).0, 2);
    let change = Change::Of(unit(1, 7));
    assert_eq!(writer.change(&change, 100), Some(100 + TERM));
    assert_eq!(writer.change(&change, 99 + TERM), Some(100 + TERM), "it waits no longer for it");
    assert_eq!(writer.change(&change, 100 + TERM), None);
    assert_eq!(silent.told().0, [1, 0], "all are void");
    assert_eq!(leases.renews(silent.key, 100 + TERM), 0);
    assert_eq!(silent.read(3, unit(3, 7), 100 + TERM), (0, 0));
    assert!(leases.is_empty(), "nothing was renewed meanwhile, so he believes in nothing else, either");
    assert_eq!(writer.change(&Change::Of(unit(2, 7)), 110 + TERM), None);
}

#[test]
fn a_user_whose_connections_do_not_acknowledge_gets_none_for_a_while_and_others_do() {
    let leases = leases();
    let writer = Side::new(&leases, 2);
    let mut now_ns = LATE_NS;
    for _ in 0..LATE_MAX {
        let silent = Side::new(&leases, USER);
        assert_eq!(silent.read(1, unit(1, 7), now_ns).0, 1);
        assert!(writer.change(&Change::Of(unit(1, 7)), now_ns).is_some());
        now_ns += TERM;
        assert!(writer.change(&Change::Of(unit(1, 7)), now_ns).is_none());
    }
    let same = Side::new(&leases, USER);
    assert_eq!(same.read(1, unit(1, 7), now_ns), (0, 0));
    assert_eq!(writer.read(1, unit(1, 7), now_ns).0, 1);
    assert_eq!(same.read(1, unit(1, 7), now_ns + LATE_NS).0, 1);
}

#[test]
fn who_takes_as_many_as_he_can_leaves_room_to_others() {
    let leases = leases();
    let greedy = Side::new(&leases, USER);
    let count = u32::try_from(CONNECTION_MAX).unwrap();
    for no in 1..=count {
        assert_eq!(greedy.read(no, unit(u64::from(no), 7), 0).0, no);
    }
    assert_eq!(greedy.read(count + 1, unit(0, 7), 0), (0, 0));
    let more: Vec<Side> = (0..3).map(|_| Side::new(&leases, USER)).collect();
    let had = |side: &Side| (1..=count).filter(|no| side.read(*no, unit(u64::from(*no), 8), 0).0 > 0).count();
    assert_eq!(more.iter().map(had).collect::<Vec<_>>(), [CONNECTION_MAX, 0, 0], "what a user may have");
    assert_eq!(Side::new(&leases, 2).read(1, unit(1, 7), 0).0, 1);
    leases.leave(greedy.key, true, 0);
    assert_eq!(more[1].read(1, unit(1, 7), 0).0, 1, "what he has left is free");
    leases.leave(more[0].key, false, 0);
    assert!(!leases.is_empty(), "it may not know yet");
    let writer = Side::new(&leases, 3);
    assert!(writer.change(&Change::Cont(CONT), 1).is_some());
    assert!(writer.change(&Change::Cont(CONT), 1 + TERM).is_none());
    assert!(leases.is_empty());
}

#[test]
fn a_connection_that_ends_is_waited_for_unless_its_process_has_ended() {
    for is_dead in [false, true] {
        let leases = leases();
        let [holder, writer] = [1, 2].map(|uid| Side::new(&leases, uid));
        assert_eq!(holder.read(1, unit(1, 7), 0).0, 1);
        let change = Change::Of(unit(1, 7));
        assert_eq!(writer.change(&change, 5), Some(5 + TERM));
        leases.leave(holder.key, is_dead, 6);
        assert_eq!(writer.told().1, usize::from(is_dead));
        assert_eq!(writer.change(&change, 7), (!is_dead).then_some(5 + TERM));
        assert_eq!(writer.change(&change, 5 + TERM), None);
    }
}

#[test]
fn a_read_under_way_gets_no_lease_over_a_change_and_one_that_fails_leaves_none() {
    let leases = leases();
    let [reader, writer] = [1, 2].map(|uid| Side::new(&leases, uid));
    let mut taken = leases.take(reader.key, 1, unit(1, 7), 0).unwrap();
    let change = Change::Of(unit(1, 7));
    let marked = mark(&leases, &change);
    assert_eq!(writer.change(&change, 0), None, "nobody believes in it yet");
    drop(marked);
    assert_eq!(taken.grant(0), (0, 0), "what it has read may be older");
    assert_eq!(reader.told().0, [], "and it knows of none");
    let failed = leases.take(reader.key, 2, unit(1, 7), 0).unwrap();
    let mut second = leases.take(reader.key, 3, unit(1, 7), 0).unwrap();
    assert_eq!(second.no(), 2, "both reads are of one");
    drop(failed);
    assert_eq!(second.grant(0).0, 2);
    drop(second);
    assert!(!leases.is_empty());
    drop(leases.take(reader.key, 4, unit(1, 8), 0));
    leases.give(reader.key, &[2], 0);
    assert!(leases.is_empty());
}

#[test]
fn after_a_start_nothing_changes_before_those_who_had_leases_have_none() {
    let leases = leases_of(true, Box::new(|| true));
    let side = Side::new(&leases, 1);
    let change = Change::Of(unit(1, 7));
    assert_eq!(side.read(1, unit(1, 7), TERM - 1), (0, 0));
    assert_eq!(side.change(&change, 0), Some(TERM));
    assert_eq!(side.change(&change, TERM - 1), Some(TERM));
    assert_eq!(side.change(&change, TERM), None);
    assert_eq!(side.read(1, unit(1, 7), TERM).0, 1);
}

#[test]
fn nobody_has_a_lease_that_is_not_written_down() {
    let has_failed = AtomicBool::new(false);
    let leases = leases_of(false, Box::new(move || has_failed.swap(true, Ordering::Relaxed)));
    let side = Side::new(&leases, 1);
    assert_eq!(side.read(1, unit(1, 7), 0), (0, 0));
    assert!(leases.is_empty());
    assert_eq!(side.read(1, unit(1, 7), 0).0, 1);
}

#[test]
fn a_lease_is_on_what_a_read_of_the_present_looks_at_at_an_own_target() {
    let leases =
        Leases::new(HashKey([5; 16]), false, 0, vec![false, true], Box::new(|| panic!("none is given")));
    let (oid, dkey) = (Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5), Key::from_slice(b"d"));
    let fetch = |target, at| {
        let iod = FetchIod { akey: Key::from_slice(b"a"), want: Want::Size };
        let iods = core::iter::once(iod).collect();
        let fetch = Fetch { oid, dkey: dkey.clone(), cond: Cond::NONE, at, iods, buf: IoBuf::default() };
        Ask::Target(TargetNo(target), CONT, Verb::Fetch(fetch))
    };
    let list = |what, at| {
        let list = List { what, anchor: dolmen_types::Anchor::default(), items_max: 1, bytes_max: 1, at };
        Ask::Target(TargetNo(0), CONT, Verb::List(list))
    };
    let epoch = dolmen_types::Epoch(7);
    let of_dkey = leases.unit_of(&fetch(0, ReadAt::Latest)).unwrap();
    assert_ne!(of_dkey.dkey, 0);
    assert_eq!(leases.unit_of(&fetch(1, ReadAt::Latest)), None, "another engine's");
    for at in [ReadAt::Epoch(epoch), ReadAt::Tx(epoch)] {
        assert_eq!(leases.unit_of(&fetch(0, at)), None);
    }
    let whole = Unit { dkey: 0, ..of_dkey };
    assert_eq!(leases.unit_of(&list(ListWhat::Dkeys(oid), ReadAt::Latest)), Some(whole));
    assert_eq!(leases.unit_of(&list(ListWhat::Dkeys(oid), ReadAt::Epoch(epoch))), None);
    assert_eq!(leases.unit_of(&list(ListWhat::Akeys(oid, dkey.clone()), ReadAt::Latest)), Some(of_dkey));
    assert_eq!(leases.unit_of(&list(ListWhat::Objects, ReadAt::Latest)), None);
    let update = Update {
        oid,
        dkey: dkey.clone(),
        cond: Cond::NONE,
        iods: core::iter::empty().collect(),
        charged: None,
    };
    let changes = |verb| leases.change_of(&Ask::Target(TargetNo(0), CONT, verb));
    assert_eq!(changes(Verb::Update(update)), Some(Change::Of(of_dkey)));
    let punch = |scope| changes(Verb::Punch(Punch { oid, scope, cond: Cond::NONE }));
    assert_eq!(punch(PunchScope::Dkey(dkey.clone())), Some(Change::Of(of_dkey)));
    assert_eq!(punch(PunchScope::Object), Some(Change::Of(whole)));
    assert_eq!(changes(Verb::Cont(ContVerb::Destroy)), Some(Change::Cont(CONT)));
    assert_eq!(changes(Verb::Flush), None);
    let leases = Arc::new(leases);
    let destroy = Ask::Target(TargetNo(0), CONT, Verb::Cont(ContVerb::Destroy));
    assert!(leases.mark(&destroy).is_some() && leases.mark(&fetch(0, ReadAt::Latest)).is_none());
    assert_eq!(leases.change_of(&fetch(0, ReadAt::Latest)), None);
}

/// What a client sends, and when it did.
enum Asks {
    Read(Unit, u64),
    Renew(u64),
    Acks(Vec<Option<u32>>),
}

/// What it is sent.
enum Hears {
    Lease { no: u32, unit: Unit, sent_ns: u64, term_ms: u32 },
    Renewed { sent_ns: u64, term_ms: u32 },
    Void(Option<u32>),
}

/// A client, and what is on its way to and from it.
struct Client {
    key: u64,
    last_no: u32,
    /// It takes in nothing, and says nothing.
    stands: bool,
    /// The engine has seen the end of its connection.
    is_gone: bool,
    asks: VecDeque<Asks>,
    reads: Vec<(Taken, Unit, u64)>,
    hears: VecDeque<Hears>,
    believes: BTreeMap<u32, Unit>,
    until_ns: u64,
    owes: Vec<Option<u32>>,
}

impl Client {
    fn believes_in(&self, change: &Change, now_ns: u64) -> bool {
        let meets = |unit: &Unit, changed: &Unit| {
            unit.oid == changed.oid && (unit.dkey == changed.dkey || unit.dkey == 0 || changed.dkey == 0)
        };
        let is_of = |unit: &&Unit| match change {
            Change::Of(changed) => meets(unit, changed),
            Change::OfAll(all) => all.iter().any(|changed| meets(unit, changed)),
            Change::Cont(_) => true,
        };
        now_ns < self.until_ns && self.believes.values().any(|unit| is_of(&unit))
    }

    fn hear(&mut self) {
        match self.hears.pop_front() {
            Some(Hears::Lease { no, unit, sent_ns, term_ms }) => {
                self.believes.insert(no, unit);
                self.renew(sent_ns, term_ms);
            }
            Some(Hears::Renewed { sent_ns, term_ms }) => self.renew(sent_ns, term_ms),
            Some(Hears::Void(no)) => {
                match no {
                    Some(no) => {
                        self.believes.remove(&no);
                    }
                    None => self.believes.clear(),
                }
                self.owes.push(no);
            }
            None => {}
        }
    }

    fn renew(&mut self, sent_ns: u64, term_ms: u32) {
        if term_ms > 0 {
            self.until_ns = self.until_ns.max(sent_ns + u64::from(term_ms) * 1_000_000);
        }
    }
}

/// A change, and until when it waits.
struct Changing {
    by: usize,
    what: Change,
    mark: Mark,
    until_ns: Option<u64>,
    begun_ns: u64,
    wait: u64,
    is_called: bool,
}

struct World {
    rng: Rng,
    leases: Arc<Leases>,
    mailbox: Arc<Mailbox>,
    now_ns: u64,
    clients: Vec<Client>,
    changes: Vec<Changing>,
    last_wait: u64,
    /// How often something happened that the test is about.
    waited: usize,
    granted: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let (rng, leases) = (Rng::from_seed(seed), leases());
        let mut world = Self {
            rng,
            leases,
            mailbox,
            now_ns: 1,
            clients: Vec::new(),
            changes: Vec::new(),
            last_wait: 0,
            waited: 0,
            granted: 0,
        };
        (0..4).for_each(|_| world.come());
        world
    }

    fn come(&mut self) {
        let uid = u32::try_from(self.rng.below(2)).unwrap();
        let key = self.leases.enter(uid, place(&self.mailbox, self.clients.len()));
        self.clients.push(Client {
            key,
            last_no: 0,
            stands: false,
            is_gone: false,
            asks: VecDeque::new(),
            reads: Vec::new(),
            hears: VecDeque::new(),
            believes: BTreeMap::new(),
            until_ns: 0,
            owes: Vec::new(),
        });
    }

    fn unit(&mut self) -> Unit {
        unit(self.rng.below(3), u128::from(self.rng.below(3)))
    }

    /// One thing happens.
    fn step(&mut self) {
        let at = self.rng.index(self.clients.len());
        let unit = self.unit();
        match self.rng.below(40) {
            0..6 => self.say(at, Asks::Read(unit, self.now_ns)),
            6..8 => self.say(at, Asks::Renew(self.now_ns)),
            8..16 => self.take(at),
            16..20 => self.answer(at),
            20..26 if !self.clients[at].stands => self.clients[at].hear(),
            26..29 => {
                let owes = core::mem::take(&mut self.clients[at].owes);
                if self.clients[at].stands {
                    self.clients[at].owes = owes;
                } else {
                    self.say(at, Asks::Acks(owes));
                }
            }
            29 => self.begin(at, unit),
            30..33 => self.go_on(),
            33..36 => self.end_one(),
            36..38 => self.deliver(),
            38 => self.now_ns += self.rng.below(TERM / 4),
            39 if self.rng.one_in(8) => self.disturb(at),
            _ => {}
        }
        self.check();
    }

    fn say(&mut self, at: usize, asks: Asks) {
        let client = &mut self.clients[at];
        if !client.stands && !client.is_gone {
            client.asks.push_back(asks);
        }
    }

    /// The engine takes what has come.
    fn take(&mut self, at: usize) {
        let (client, now_ns) = (&mut self.clients[at], self.now_ns);
        if client.is_gone {
            return;
        }
        match client.asks.pop_front() {
            Some(Asks::Read(unit, sent_ns)) => {
                let taken = self.leases.take(client.key, client.last_no + 1, unit, now_ns);
                client.last_no += 1;
                client.reads.extend(taken.map(|taken| (taken, unit, sent_ns)));
            }
            Some(Asks::Renew(sent_ns)) => {
                let term_ms = self.leases.renews(client.key, now_ns);
                client.hears.push_back(Hears::Renewed { sent_ns, term_ms });
            }
            Some(Asks::Acks(all)) => {
                for no in all {
                    match no {
                        Some(no) => self.leases.give(client.key, &[no], now_ns),
                        None => self.leases.give_all(client.key, now_ns),
                    }
                }
            }
            None => {}
        }
    }

    /// The engine answers a read.
    fn answer(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if client.reads.is_empty() || client.is_gone {
            return;
        }
        let (mut taken, unit, sent_ns) = client.reads.swap_remove(self.rng.index(client.reads.len()));
        if self.rng.one_in(8) {
            return;
        }
        let (no, term_ms) = taken.grant(self.now_ns);
        if no > 0 {
            self.granted += 1;
            client.hears.push_back(Hears::Lease { no, unit, sent_ns, term_ms });
        }
    }

    fn begin(&mut self, by: usize, unit: Unit) {
        if self.changes.len() > 2 {
            return;
        }
        let what = match self.rng.below(16) {
            0 => Change::OfAll(vec![unit, self.unit()]),
            1 => Change::Cont(CONT),
            _ => Change::Of(unit),
        };
        let marked = mark(&self.leases, &what);
        let begun_ns = self.now_ns;
        self.changes.push(Changing {
            by,
            what,
            mark: marked,
            until_ns: Some(0),
            begun_ns,
            wait: 0,
            is_called: true,
        });
        self.ask(self.changes.len() - 1);
    }

    fn ask(&mut self, at: usize) {
        self.last_wait += 1;
        let (wait, now_ns) = (self.last_wait, self.now_ns);
        let changing = &mut self.changes[at];
        let own = self.clients[changing.by].key;
        let asker = (place(&self.mailbox, changing.by), wait);
        changing.until_ns = self.leases.clear_change(&changing.what, Some(own), asker, now_ns);
        (changing.wait, changing.is_called) = (wait, false);
        self.waited += usize::from(changing.until_ns.is_some());
        assert!(changing.until_ns.is_none_or(|until_ns| until_ns <= now_ns + TERM));
        assert!(now_ns < changing.begun_ns + TERM || changing.until_ns.is_none(), "it waits for too long");
    }

    /// Changes that are called, or have waited long enough, ask again.
    fn go_on(&mut self) {
        for at in 0..self.changes.len() {
            let Changing { until_ns, is_called, .. } = &self.changes[at];
            if until_ns.is_some_and(|until_ns| *is_called || until_ns <= self.now_ns) {
                self.ask(at);
            }
        }
    }

    /// The first change that was begun is answered.
    fn end_one(&mut self) {
        if let Some(at) = self.changes.iter().position(|changing| changing.until_ns.is_none()) {
            drop(self.changes.remove(at).mark);
        }
    }

    fn deliver(&mut self) {
        for mail in self.mailbox.post().take() {
            match mail {
                Mail::Void(notice) => {
                    let client = &mut self.clients[notice.place.at];
                    if !client.is_gone {
                        client.hears.push_back(Hears::Void(notice.what.map(|(no, _)| no)));
                    }
                }
                Mail::Free { wait, .. } => {
                    let called = self.changes.iter_mut().find(|changing| changing.wait == wait);
                    called.into_iter().for_each(|changing| changing.is_called = true);
                }
                Mail::Done(_) | Mail::Came(_) => panic!("nobody sends that here"),
            }
        }
    }

    fn disturb(&mut self, at: usize) {
        let (is_dead, has_room) = (self.rng.one_in(2), self.clients.len() < 40);
        let client = &mut self.clients[at];
        match self.rng.below(3) {
            0 => client.stands = !client.stands,
            _ if client.is_gone => {}
            1 if has_room => {
                self.leases.leave(client.key, is_dead, self.now_ns);
                client.is_gone = true;
                client.reads.clear();
                if is_dead {
                    (client.stands, client.until_ns) = (true, 0);
                    client.hears.clear();
                }
                self.come();
            }
            _ => {}
        }
    }

    /// Nobody but who has begun it believes in what a change changes that goes on.
    fn check(&self) {
        for changing in self.changes.iter().filter(|changing| changing.until_ns.is_none()) {
            for (at, client) in self.clients.iter().enumerate().filter(|(at, _)| *at != changing.by) {
                assert!(
                    !client.believes_in(&changing.what, self.now_ns),
                    "client {at} believes in {:?} at {}, which changes: {:?}",
                    client.believes,
                    self.now_ns,
                    changing.what
                );
            }
        }
    }
}

#[test]
fn whenever_a_change_goes_on_nobody_believes_in_what_it_changes() {
    let seed = entropy_u64().unwrap();
    println!("seed {seed:#x}");
    let (mut waited, mut granted) = (0, 0);
    for round in 0..40 {
        let mut world = World::new(seed.wrapping_add(round));
        (0..5000).for_each(|_| world.step());
        waited += world.waited;
        granted += world.granted;
        // However many have left nothing is left.
        world.now_ns += 4 * TERM;
        world.changes.clear();
        for client in &mut world.clients {
            client.reads.clear();
            world.leases.leave(client.key, true, world.now_ns);
        }
        assert!(world.leases.is_empty());
    }
    assert!(waited > 100 && granted > 300, "{waited} and {granted}");
}
