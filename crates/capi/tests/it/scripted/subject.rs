//! A pool behind the C interface as one store: every verb is said in calls of a C program.
//!
//! What C has no words for is answered by a panic that says so; the list of exceptions has the cases that ask for it.

use super::why;
use super::words::{self, ARRAY, Handle, Iod, Iom, Iov, KeyDesc, NONE, ObjId, Recx as CRecx, SINGLE, SgList};
use core::ptr::null_mut;
use dolmen_client::{Anchor, Audit, ContName, IoBuf, Key, Label, Pool, Recx};
use dolmen_codec::verb::{
    Change, ChangeKind, ContVerb, Fetch, FetchedIod, Found, List, ListWhat, Listed, ListedExtent, Mutation,
    NewValue, PackedKeys, Prepare, Punch, PunchScope, Query, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Completion, Op, Progress, TargetStore};
use dolmen_env::{Clock, RealClock, SimClock};
use dolmen_sim::Subject;
use dolmen_types::{
    ContNo, Epoch, Error, Head, Invalid, ObjectType, Oid, QueryFlags, Result, TargetNo, TxId,
};

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two operations: epochs of targets and of the pool are in the order of the operations then.
const PAUSE: Duration = Duration::from_micros(40);
/// For so long a case's clock may be ahead: the real one is waited for.
const AHEAD_MAX: Duration = Duration::from_secs(2);
/// Extents of one akey that a fetch is told of.
const MAP_MAX: u32 = 1024;

/// Where a case's pool is served, and how it dies.
pub(super) trait Home: Send {
    fn system(&self) -> CString;

    /// Ends whatever serves it and begins again.
    fn restart(&mut self);

    /// Whether connections outlive that.
    fn keeps_connections(&self) -> bool;

    /// The pool as its operator has it, who asks what C has no words for, if there is one.
    fn operated(&self) -> Option<Pool>;
}

/// Cases whose transactions are decided after they were prepared: what they have prepared stands in a transaction that is open
/// still. In all others a client's commit is prepare and decision in one.
const DECIDED_LATER: &[&str] = &[
    "reads_below_an_undecided_write_are_not_in_doubt",
    "aborted_writes_are_never_seen",
    "aborted_transactions_over_many_objects_leave_nothing",
];

/// Cases that list the objects of a past state, for which C takes a snapshot while it is the present one.
const OF_PAST_OBJECTS: &[&str] = &["enumerations_at_an_epoch_see_that_state"];

/// One of several clients: a connection of its own. The library numbers what it asks for from the same number on in each.
struct Client {
    pool: Handle,
    conts: BTreeMap<ContNo, Handle>,
}

/// A pool behind the C interface, and what cases have opened of it.
pub(super) struct InC {
    // Guards: what serves the pool; taken alone.
    home: Arc<Mutex<dyn Home>>,
    /// Tells the containers of this subject from those of others in the pool.
    number: usize,
    clock: SimClock,
    /// The case.
    name: String,
    clients: BTreeMap<u128, Client>,
    /// How much each of them has asked for.
    asked: BTreeMap<u128, u64>,
    /// Snapshots that were taken after writes.
    states: Vec<(ContNo, u64)>,
    pool: Handle,
    conts: BTreeMap<ContNo, Handle>,
    /// Transactions by their epochs; `true` for those that have committed.
    txs: BTreeMap<Epoch, (Handle, bool)>,
    /// When single values were written: nobody tells that afterwards.
    singles: BTreeMap<(ContNo, Oid, Key, Key), Vec<Epoch>>,
    /// Places of listings, each behind an anchor that names it.
    places: Vec<words::Anchor>,
    done: Vec<Completion>,
}

/// The error of a number.
fn checked(code: i32) -> Result<()> {
    Err(match -code {
        0 => return Ok(()),
        1001 => Error::NoPermission,
        1003 => Error::Invalid(Invalid::Argument),
        1004 => Error::Exists,
        1005 => Error::NotFound,
        1012 => Error::Busy,
        2011 => Error::EpochGone { oldest: Epoch::ZERO },
        2012 => Error::KeyTooBig { needed_bytes: 0 },
        2013 => Error::RecTooBig { needed_bytes: 0 },
        2024 => Error::RecordSize { stored_bytes: 0 },
        2025 => Error::TxRestart { after: Epoch::ZERO },
        1002 | 2050 => Error::NoContainer,
        other => panic!("no case expects error {other}"),
    })
}

fn id(oid: Oid) -> ObjId {
    ObjId { lo: oid.lo, hi: oid.hi }
}

fn recxs(extents: &[Recx]) -> Vec<CRecx> {
    extents.iter().map(|recx| CRecx { idx: recx.index, nr: recx.count }).collect()
}

fn count_of(len: usize) -> u32 {
    u32::try_from(len).unwrap()
}

impl InC {
    pub(super) fn new(home: Arc<Mutex<dyn Home>>, number: usize, name: &str) -> Self {
        let system = home.lock().unwrap().system();
        let pool = words::connect(&system);
        let (conts, txs) = (BTreeMap::new(), BTreeMap::new());
        let clock = SimClock::new(RealClock.now_ns());
        let (singles, places) = (BTreeMap::new(), Vec::new());
        let (name, clients, asked) = (name.to_owned(), BTreeMap::new(), BTreeMap::new());
        let (states, done) = (Vec::new(), Vec::new());
        Self { home, number, clock, name, clients, asked, states, pool, conts, txs, singles, places, done }
    }

    fn label(&self, no: ContNo) -> CString {
        CString::new(format!("case-{}-{}", self.number, no.0)).unwrap()
    }

    /// Whether a container can be worked with: it can be opened, and its handle is one.
    fn check_cont(&self, no: ContNo) -> Result<()> {
        // As long as `daos_cont_info_t`: without it nothing is asked.
        let mut info = [0_u64; 6];
        let opened = match self.conts.get(&no) {
            Some(cont) => words::cont_query(*cont, info.as_mut_ptr().cast(), null_mut(), null_mut()),
            None => words::open_cont(self.pool, &self.label(no)).map_or_else(|code| code, |_opened| 0),
        };
        // What an open does not find is a container.
        checked(opened).map_err(|error| if error == Error::NotFound { Error::NoContainer } else { error })
    }

    fn cont(&self, no: ContNo) -> Handle {
        *self.conts.get(&no).unwrap_or_else(|| panic!("{no:?} was never made: it cannot be opened"))
    }

    /// Opens containers again, in a new connection.
    fn reconnect(&mut self) {
        let system = self.home.lock().unwrap().system();
        self.pool = words::connect(&system);
        let numbers: Vec<ContNo> = self.conts.keys().copied().collect();
        for no in numbers {
            // One that was destroyed keeps its handle, which is none any more.
            if let Ok(cont) = words::open_cont(self.pool, &self.label(no)) {
                self.conts.insert(no, cont);
            }
        }
        self.places.clear();
    }

    fn disconnect(&mut self) {
        for (_, (tx, _)) in core::mem::take(&mut self.txs) {
            assert_eq!(words::tx_close(tx, null_mut()), 0);
        }
        self.leave_clients();
        for cont in self.conts.values() {
            words::cont_close(*cont, null_mut());
        }
        assert_eq!(words::pool_disconnect(self.pool, null_mut()), 0);
    }

    fn leave_clients(&mut self) {
        for client in core::mem::take(&mut self.clients).into_values() {
            for cont in client.conts.values() {
                words::cont_close(*cont, null_mut());
            }
            words::pool_disconnect(client.pool, null_mut());
        }
    }

    /// Carries out what a client asks for that a case numbers, if that is its next: C chooses no numbers.
    fn run_as(&mut self, head: Head, cont: ContNo, verb: Verb<'_>, buf: &mut Option<IoBuf>) -> Result<Reply> {
        if !self.clients.contains_key(&head.id.client) {
            let pool = words::connect(&self.home.lock().unwrap().system());
            let opened = |no: &ContNo| Some((*no, words::open_cont(pool, &self.label(*no)).ok()?));
            let conts = self.conts.keys().filter_map(opened).collect();
            self.clients.insert(head.id.client, Client { pool, conts });
        }
        let asked = self.asked.entry(head.id.client).or_default();
        if head != (Head { id: head.id, ..Head::default() }) || head.id.sequence != *asked + 1 {
            panic!("C chooses no ids and deadlines of requests");
        }
        *asked += 1;
        core::mem::swap(&mut self.clients.get_mut(&head.id.client).unwrap().conts, &mut self.conts);
        let result = self.run(cont, verb, buf);
        core::mem::swap(&mut self.clients.get_mut(&head.id.client).unwrap().conts, &mut self.conts);
        result
    }

    /// Does something with an object, at a state that a case names.
    fn with<T>(
        &mut self,
        cont: ContNo,
        oid: Oid,
        at: ReadAt,
        ask: impl FnOnce(&mut Self, Handle, Handle) -> Result<T>,
    ) -> Result<T> {
        let cont = self.cont(cont);
        let object = words::open_object(cont, id(oid)).map_err(|code| match checked(code).unwrap_err() {
            // All else that an open is given is the same as always.
            Error::Invalid(_) => Invalid::ObjectId.into(),
            other => other,
        })?;
        let (mut tx, mut is_own) = (NONE, false);
        match at {
            ReadAt::Latest => {}
            ReadAt::Epoch(epoch) => {
                assert_eq!(words::tx_open_snap(cont, epoch.0, &mut tx, null_mut()), 0);
                is_own = true;
            }
            ReadAt::Tx(epoch) => tx = self.tx(epoch).0,
        }
        let mut result = ask(self, object, tx);
        if is_own {
            if matches!(result, Err(Error::Invalid(_))) && is_refused(object, tx) && !is_refused(object, NONE)
            {
                // Nothing can be read at this epoch, and everything now.
                result = Err(Invalid::Epoch.into());
            }
            assert_eq!(words::tx_close(tx, null_mut()), 0);
        }
        assert_eq!(words::obj_close(object, null_mut()), 0);
        result
    }

    /// Lets the clock of cases go as far as the real one, or waits for that if it is the other way round.
    fn catch_up(&self) {
        let late = Duration::from_nanos(self.clock.now_ns().saturating_sub(RealClock.now_ns()));
        if !late.is_zero() && late < AHEAD_MAX {
            dolmen_env::wait(late);
        }
        let ahead_ns = RealClock.now_ns().saturating_sub(self.clock.now_ns());
        self.clock.advance(ahead_ns);
    }

    fn tx(&self, epoch: Epoch) -> (Handle, bool) {
        *self.txs.get(&epoch).unwrap_or_else(|| panic!("a client chooses no epoch for a transaction"))
    }

    fn open_tx(&self, cont: ContNo) -> (Handle, Epoch) {
        let (mut tx, mut epoch) = (NONE, 0);
        assert_eq!(words::tx_open(self.cont(cont), &mut tx, 0, null_mut()), 0);
        assert_eq!(words::tx_epoch(tx, &mut epoch), 0);
        (tx, Epoch(epoch))
    }

    /// An epoch behind everything done so far: C is not told when a write was made.
    fn now(&self, cont: ContNo) -> Epoch {
        dolmen_env::wait(PAUSE);
        let (tx, epoch) = self.open_tx(cont);
        assert_eq!(words::tx_close(tx, null_mut()), 0);
        epoch
    }

    fn run(&mut self, cont: ContNo, mut verb: Verb<'_>, buf: &mut Option<IoBuf>) -> Result<Reply> {
        if let Verb::Fetch(fetch) = &mut verb {
            *buf = Some(core::mem::take(&mut fetch.buf));
        }
        if !matches!(verb, Verb::Cont(ContVerb::Create(_) | ContVerb::Destroy)) {
            self.check_cont(cont)?;
        }
        match verb {
            Verb::Update(update) => self.written(cont, &Mutation::Update(update)),
            Verb::Punch(punch) => self.written(cont, &Mutation::Punch(punch)),
            Verb::Fetch(fetch) => {
                let bytes = buf.get_or_insert_default();
                self.with(cont, fetch.oid, fetch.at, |_, object, tx| fetched(object, tx, &fetch, bytes))
            }
            Verb::List(list) => self.list(cont, &list),
            Verb::Query(query) => self.with(cont, query.oid, query.at, |own, object, tx| {
                let refused = queried(object, tx, &query);
                let replaced = |part| own.is_answered(cont, object, tx, &query, part);
                why::parts(refused, replaced, &[Invalid::Flags, Invalid::Query])
            }),
            Verb::Prepare(prepare) => self.prepare(cont, &prepare),
            Verb::Commit(tx) if self.tx(tx.begin).1 => Ok(Reply::Done),
            Verb::Commit(_) => Err(Error::NotFound),
            Verb::Abort(tx) if self.tx(tx.begin).1 => Err(Error::Exists),
            Verb::Abort(tx) => {
                checked(words::tx_abort(self.tx(tx.begin).0, null_mut())).map(|()| Reply::Done)
            }
            Verb::Cont(verb) => self.run_cont(cont, &verb),
            // Every write is as durable as it will be when its call returns, and how it is kept is its operator's business.
            Verb::Flush => Ok(Reply::Done),
            Verb::Checkpoint => {
                let operated = self.home.lock().unwrap().operated();
                operated.map_or(Ok(Reply::Done), |pool| pool.checkpoint().map(|()| Reply::Done))
            }
            Verb::Check => Ok(found(self.operated("an audit").check()?)),
            Verb::Scrub => Ok(found(self.operated("an audit").scrub()?)),
            other => panic!("C has no word for {}", name_of(&other)),
        }
    }

    /// Whether a query is answered with its flags replaced, or of an object whose keys have an order.
    fn is_answered(&self, cont: ContNo, object: Handle, tx: Handle, query: &Query, part: Invalid) -> bool {
        if part == Invalid::Flags {
            let bounds = QueryFlags::MAX.0 | QueryFlags::MIN.0;
            let flags = QueryFlags(query.flags.0 & !bounds | QueryFlags::MAX.0);
            return queried(object, tx, &Query { flags, ..query.clone() }).is_ok();
        }
        let oid = Oid::new(ObjectType::MultiUint64, query.oid.class(), 0, query.oid.lo);
        let other = words::open_object(self.cont(cont), id(oid)).unwrap();
        let right = || Key::from_slice(why::RIGHT);
        let is_answered =
            queried(other, NONE, &Query { dkey: right(), akey: right(), ..query.clone() }).is_ok();
        assert_eq!(words::obj_close(other, null_mut()), 0);
        is_answered
    }

    fn operated(&self, what: &str) -> Pool {
        let operated = self.home.lock().unwrap().operated();
        operated.unwrap_or_else(|| panic!("C has no word for {what}"))
    }

    fn run_cont(&mut self, no: ContNo, verb: &ContVerb) -> Result<Reply> {
        match verb {
            ContVerb::Create(_) => {
                let label = self.label(no);
                checked(words::cont_create(self.pool, label.as_ptr(), null_mut(), null_mut(), null_mut()))?;
                self.conts.insert(no, words::open_cont(self.pool, &label).unwrap());
            }
            ContVerb::Destroy => {
                checked(words::cont_destroy(self.pool, self.label(no).as_ptr(), 1, null_mut()))?;
            }
            ContVerb::RemoveSnapshot(epoch) => {
                let range = words::EpochRange { lo: epoch.0, hi: epoch.0 };
                checked(words::snap_destroy(self.cont(no), range, null_mut()))?;
            }
            ContVerb::Aggregate(epoch) => {
                checked(words::cont_aggregate(self.cont(no), epoch.0, null_mut()))?;
                return Ok(Reply::Aggregated { more: false, freed: 0 });
            }
            ContVerb::Usage => {
                let (pool, label) = (self.operated("usage"), self.label(no));
                let name = ContName::Label(Label::new(label.to_str().unwrap()).unwrap());
                return Ok(Reply::ContUsage(pool.open_container(&name)?.query()?.usage));
            }
            // A snapshot is a floor, at an epoch of its own, which is above all that C was told of before.
            ContVerb::RaiseFloor(floor) if self.txs.contains_key(floor) => {
                let epoch = words::snapshot(self.cont(no));
                assert!(epoch > floor.0);
                checked(words::snap_destroy(
                    self.cont(no),
                    words::EpochRange { lo: epoch, hi: epoch },
                    null_mut(),
                ))?;
            }
            ContVerb::RaiseFloor(_) | ContVerb::AddSnapshot(_) | ContVerb::Rollback { .. } => {
                panic!("a client chooses no epoch for {verb:?}")
            }
        }
        Ok(Reply::Done)
    }

    fn written(&mut self, cont: ContNo, mutation: &Mutation<'_>) -> Result<Reply> {
        self.change(cont, ReadAt::Latest, mutation)?;
        let written = match mutation {
            Mutation::Update(update) => self.with(cont, update.oid, ReadAt::Latest, |_, object, _| {
                Ok(update.iods.iter().filter_map(|iod| newest(object, &update.dkey, &iod.akey)).max())
            })?,
            Mutation::Punch(_) => None,
        };
        if OF_PAST_OBJECTS.contains(&&*self.name) {
            self.states.push((cont, words::snapshot(self.cont(cont))));
        }
        let removes = |iod: &UpdateIod<'_>| matches!(iod.value, NewValue::NoSingle | NewValue::Hole { .. });
        let is_told = matches!(mutation, Mutation::Update(update) if !update.iods.iter().any(removes));
        let epoch = if is_told { written } else { None };
        if let (Mutation::Update(update), Some(epoch)) = (mutation, epoch) {
            let singles = update.iods.iter().filter(|iod| matches!(iod.value, NewValue::Single(_)));
            for iod in singles {
                let place = (cont, update.oid, update.dkey.clone(), iod.akey.clone());
                self.singles.entry(place).or_default().push(epoch);
            }
        }
        Ok(Reply::Written(epoch.unwrap_or_else(|| self.now(cont))))
    }

    fn change(&mut self, cont: ContNo, at: ReadAt, mutation: &Mutation<'_>) -> Result<()> {
        match mutation {
            Mutation::Update(update) => {
                let result = self.with(cont, update.oid, at, |_, object, tx| updated(object, tx, update));
                if result != Err(Invalid::Argument.into()) {
                    return result;
                }
                why::parts(
                    result,
                    |part| self.is_taken(cont, update, part),
                    &[Invalid::Count, Invalid::Extent],
                )
            }
            Mutation::Punch(punch) => {
                self.with(cont, punch.oid, at, |_, object, tx| punched(object, tx, punch))
            }
        }
    }

    /// Whether an update is taken with a part of it replaced, by a transaction that is given up.
    fn is_taken(&self, cont: ContNo, update: &Update<'_>, part: Invalid) -> bool {
        let (object, tx) =
            (words::open_object(self.cont(cont), id(update.oid)).unwrap(), self.open_tx(cont).0);
        let taken = updated(object, tx, &why::replaced(update, part));
        assert_eq!(words::tx_abort(tx, null_mut()), 0);
        assert_eq!(words::tx_close(tx, null_mut()), 0);
        assert_eq!(words::obj_close(object, null_mut()), 0);
        taken.is_ok()
    }

    /// A client's commit is prepare and decision in one, unless the case decides later.
    fn prepare(&mut self, cont: ContNo, prepare: &Prepare<'_>) -> Result<Reply> {
        let (tx, _) = self.tx(prepare.epoch);
        for mutation in &prepare.mutations {
            self.change(cont, ReadAt::Tx(prepare.epoch), mutation)?;
        }
        if prepare.participants.len() > 1 && DECIDED_LATER.contains(&&*self.name) {
            return Ok(Reply::Prepared);
        }
        match checked(words::tx_commit(tx, null_mut())) {
            Err(Error::TxRestart { .. }) => {
                let after = self.newest_of(cont, &prepare.mutations)?;
                return Err(Error::TxRestart { after });
            }
            other => other?,
        }
        self.txs.insert(prepare.epoch, (tx, true));
        Ok(Reply::Prepared)
    }

    /// When the newest of the values was written that updates were to change.
    fn newest_of(&mut self, cont: ContNo, mutations: &[Mutation<'_>]) -> Result<Epoch> {
        let mut newest_of_all = Epoch::ZERO;
        for mutation in mutations {
            let Mutation::Update(update) = mutation else { continue };
            let found = self.with(cont, update.oid, ReadAt::Latest, |_, object, _| {
                Ok(update.iods.iter().filter_map(|iod| newest(object, &update.dkey, &iod.akey)).max())
            })?;
            newest_of_all = newest_of_all.max(found.unwrap_or(Epoch::ZERO));
        }
        Ok(newest_of_all)
    }

    fn list(&mut self, cont: ContNo, list: &List) -> Result<Reply> {
        let mut anchor = match list.anchor.position() {
            _ if list.anchor == Anchor::default() => words::Anchor::START,
            _ if list.anchor.is_eof() => words::Anchor::END,
            place => {
                let index = place
                    .try_into()
                    .ok()
                    .map(u64::from_le_bytes)
                    .and_then(|index| usize::try_from(index).ok())
                    .unwrap_or(usize::MAX);
                self.places.get(index).copied().unwrap_or_else(|| words::Anchor::foreign(place))
            }
        };
        let listed = match &list.what {
            ListWhat::Objects => self.objects(cont, list, &mut anchor)?,
            ListWhat::Changes { from, to } => {
                self.changes(cont, [*from, *to], list.items_max, &mut anchor)?
            }
            ListWhat::Dkeys(oid) | ListWhat::Akeys(oid, _) | ListWhat::Extents(oid, ..) => {
                self.with(cont, *oid, list.at, |_, object, tx| listed(object, tx, list, &mut anchor))?
            }
        };
        if anchor.is_eof() {
            return Ok(Reply::Listed(listed, Anchor::eof()));
        }
        self.places.push(anchor);
        let index = u64::try_from(self.places.len() - 1).unwrap();
        Ok(Reply::Listed(listed, Anchor::after(&index.to_le_bytes()).unwrap()))
    }

    /// What differs between two snapshots, found by reading both: their tables, and what the objects hold.
    fn changes(
        &mut self,
        cont: ContNo,
        [from, to]: [Epoch; 2],
        items_max: u32,
        anchor: &mut words::Anchor,
    ) -> Result<Listed> {
        let (old, new) = (self.state(cont, from)?, self.state(cont, to)?);
        let kind_of = |place: &Value| match (old.get(place), new.get(place)) {
            (None, Some(_)) => Some(ChangeKind::Added),
            (Some(_), None) => Some(ChangeKind::Removed),
            (before, after) => (before != after).then_some(ChangeKind::Modified),
        };
        let places: BTreeSet<&Value> = old.keys().chain(new.keys()).collect();
        let changes: Vec<Change> = places
            .into_iter()
            .filter_map(|place| {
                let (oid, dkey, akey) = place.clone();
                kind_of(place).map(|kind| Change { oid, dkey, akey, kind })
            })
            .collect();
        let first = usize::try_from(anchor.number()).unwrap();
        let end = (first + items_max as usize).min(changes.len());
        let is_over = end == changes.len();
        *anchor =
            if is_over { words::Anchor::END } else { words::Anchor::foreign(&(end as u64).to_le_bytes()) };
        Ok(Listed::Changes(changes[first..end].to_vec()))
    }

    /// All values of a snapshot.
    fn state(&mut self, cont: ContNo, epoch: Epoch) -> Result<BTreeMap<Value, Vec<Piece>>> {
        let mut anchor = words::Anchor::START;
        let (mut oids, mut state) = (Vec::new(), BTreeMap::new());
        let at = ReadAt::Epoch(epoch);
        while !anchor.is_eof() {
            let list = List {
                what: ListWhat::Objects,
                anchor: Anchor::default(),
                items_max: 100,
                bytes_max: u32::MAX,
                at,
            };
            let Listed::Objects(page) = self.objects(cont, &list, &mut anchor)? else { unreachable!() };
            oids.extend(page);
        }
        let written = self.singles.clone();
        for oid in oids {
            self.with(cont, oid, at, |_, object, tx| {
                for dkey in keys(object, tx, ListWhat::Dkeys(oid))? {
                    for akey in keys(object, tx, ListWhat::Akeys(oid, dkey.clone()))? {
                        let place = (cont, oid, dkey.clone(), akey.clone());
                        let known = written.get(&place).map_or(&[][..], Vec::as_slice);
                        let times = known.iter().filter(|at| **at <= epoch).count();
                        let pieces = pieces(object, tx, [&dkey, &akey], times as u64)?;
                        state.insert((oid, dkey.clone(), akey), pieces);
                    }
                }
                Ok(())
            })?;
        }
        Ok(state)
    }

    fn objects(&mut self, no: ContNo, list: &List, anchor: &mut words::Anchor) -> Result<Listed> {
        let cont = self.cont(no);
        let epoch = match list.at {
            ReadAt::Latest => words::snapshot(cont),
            ReadAt::Epoch(epoch) => {
                let behind = self.states.iter().filter(|state| state.0 == no && state.1 >= epoch.0);
                behind.map(|state| state.1).min().unwrap_or(epoch.0)
            }
            ReadAt::Tx(_) => panic!("C lists no objects in a transaction"),
        };
        let (mut table, mut nr) = (NONE, list.items_max);
        checked(words::oit_open(cont, epoch, &mut table, null_mut()))?;
        let mut oids = vec![ObjId::default(); list.items_max as usize];
        let code = words::oit_list(table, oids.as_mut_ptr(), &mut nr, anchor, null_mut());
        assert_eq!(words::oit_close(table, null_mut()), 0);
        checked(code).map_err(|error| match error {
            // Of what it is given only the anchor is not its own.
            Error::Invalid(_) => Invalid::Anchor.into(),
            other => other,
        })?;
        Ok(Listed::Objects(oids[..nr as usize].iter().map(|oid| Oid { hi: oid.hi, lo: oid.lo }).collect()))
    }
}

/// What audits of all targets have found.
fn found(audits: Vec<Audit>) -> Reply {
    let findings = audits.into_iter().flat_map(|audit| audit.findings).collect();
    Reply::Audited(Audit { findings, ..Audit::default() })
}

/// A place of a value.
type Value = (Oid, Key, Key);

/// Records that were written at once: their first, how many, bytes of each, and when.
type Piece = (u64, u64, u64, u64);

/// All keys of a listing.
fn keys(object: Handle, tx: Handle, what: ListWhat) -> Result<Vec<Key>> {
    let (mut place, mut all) = (words::Anchor::START, Vec::new());
    let list =
        List { what, anchor: Anchor::default(), items_max: 1000, bytes_max: u32::MAX, at: ReadAt::Latest };
    while !place.is_eof() {
        let Listed::Keys(keys) = listed(object, tx, &list, &mut place)? else { unreachable!() };
        all.extend(keys.iter().map(Key::from_slice));
    }
    Ok(all)
}

/// What a value consists of, its single value having been written so many times; what follows each other and is as old is one
/// piece.
fn pieces(object: Handle, tx: Handle, at: [&[u8]; 2], times: u64) -> Result<Vec<Piece>> {
    let (mut anchor, mut pieces) = (words::Anchor::START, Vec::<Piece>::new());
    let single = single_size(object, tx, at);
    if single > 0 {
        // Listed are extents alone, and nobody tells how old it is: how often it was written, and what it says, has to do.
        pieces.push((u64::MAX, times, single, digest(&single_value(object, tx, at, single))));
    }
    while !anchor.is_eof() {
        let (recxs, eprs, size) = extents(object, tx, at, 1000, &mut anchor)?;
        for (recx, epr) in recxs.iter().zip(&eprs) {
            match pieces.last_mut() {
                Some((first, count, bytes, epoch))
                    if *first + *count == recx.idx && (*bytes, *epoch) == (size, epr.hi) =>
                {
                    *count += recx.nr;
                }
                _ => pieces.push((recx.idx, recx.nr, size, epr.hi)),
            }
        }
    }
    Ok(pieces)
}

/// Some number that the same bytes have.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(1_099_511_628_211).wrapping_add(byte.into()))
}

fn single_value(object: Handle, tx: Handle, [dkey, akey]: [&[u8]; 2], size: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    let mut iov = Iov::room(&mut bytes);
    let (mut sgl, none) = (SgList::of(&mut iov), core::ptr::null());
    let mut iod = Iod { name: Iov::of(akey), kind: SINGLE, size: 0, flags: 0, nr: 1, recxs: none };
    let dkey = Iov::of(dkey);
    let code = words::obj_fetch(object, tx, 0, &dkey, 1, &mut iod, &mut sgl, null_mut(), null_mut());
    assert_eq!((code, iod.size), (0, size));
    bytes
}

/// Extents of one page of a listing, with their epochs and the bytes of a record.
type Extents = (Vec<CRecx>, Vec<words::EpochRange>, u64);

fn extents(
    object: Handle,
    tx: Handle,
    keys: [&[u8]; 2],
    nr: u32,
    anchor: &mut words::Anchor,
) -> Result<Extents> {
    let room = nr.min(1000) as usize;
    let (mut recxs, mut eprs) = (vec![CRecx::default(); room], vec![words::EpochRange::default(); room]);
    let ([dkey, akey], mut size, mut nr) = (keys.map(Iov::of), 0, count_of(room));
    let (to, when) = (recxs.as_mut_ptr(), eprs.as_mut_ptr());
    let code =
        words::list_recxs(object, tx, &dkey, &akey, &mut size, &mut nr, to, when, anchor, true, null_mut());
    checked(code)?;
    recxs.truncate(nr as usize);
    eprs.truncate(nr as usize);
    Ok((recxs, eprs, size))
}

/// When the newest of an object was written.
fn newest_of_all(object: Handle, tx: Handle) -> Result<u64> {
    let mut epoch = 0;
    checked(words::query_max_epoch(object, tx, &mut epoch, null_mut()))?;
    Ok(epoch)
}

/// When the newest visible part of a value was written; of a single value that is the newest in its object.
fn newest(object: Handle, dkey: &[u8], akey: &[u8]) -> Option<Epoch> {
    let (mut anchor, mut newest) = (words::Anchor::START, 0);
    while !anchor.is_eof() {
        let (_, eprs, _) = extents(object, NONE, [dkey, akey], 1000, &mut anchor).ok()?;
        newest = eprs.iter().fold(newest, |newest, epr| newest.max(epr.hi));
    }
    if single_size(object, NONE, [dkey, akey]) > 0 {
        newest = newest.max(newest_of_all(object, NONE).ok()?);
    }
    (newest > 0).then_some(Epoch(newest))
}

/// Whether not even the dkeys of an object can be listed.
fn is_refused(object: Handle, tx: Handle) -> bool {
    let (mut kds, mut bytes, mut nr) = ([KeyDesc::default(); 8], [0; 4096], 8);
    let (mut iov, mut anchor) = (Iov::room(&mut bytes), words::Anchor::START);
    let mut sgl = SgList::of(&mut iov);
    words::list_dkeys(object, tx, &mut nr, kds.as_mut_ptr(), &mut sgl, &mut anchor, null_mut()) != 0
}

/// The bytes of a record that are stored.
fn size_of(object: Handle, tx: Handle, dkey: &[u8], akey: &[u8]) -> u64 {
    size(object, tx, [dkey, akey], ARRAY)
}

/// The bytes of a single value that are stored.
fn single_size(object: Handle, tx: Handle, keys: [&[u8]; 2]) -> u64 {
    size(object, tx, keys, SINGLE)
}

fn size(object: Handle, tx: Handle, [dkey, akey]: [&[u8]; 2], kind: core::ffi::c_uint) -> u64 {
    let recx = CRecx { idx: 0, nr: 1 };
    let mut iod = Iod { name: Iov::of(akey), kind, size: 0, flags: 0, nr: 1, recxs: &recx };
    let (dkey, mut sgl) = (Iov::of(dkey), SgList::NONE);
    let code = words::obj_fetch(object, tx, 0, &dkey, 1, &mut iod, &mut sgl, null_mut(), null_mut());
    if code == 0 { iod.size } else { 0 }
}

fn name_of(verb: &Verb<'_>) -> String {
    let text = format!("{verb:?}");
    text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn updated(object: Handle, tx: Handle, update: &Update<'_>) -> Result<()> {
    let extents: Vec<Vec<CRecx>> = update
        .iods
        .iter()
        .map(|iod| match &iod.value {
            NewValue::Array { extents, .. } | NewValue::Hole { extents } => recxs(extents),
            NewValue::Single(_) | NewValue::NoSingle => Vec::new(),
        })
        .collect();
    let (mut iods, mut iovs) = (Vec::new(), Vec::new());
    for (iod, extents) in update.iods.iter().zip(&extents) {
        let (kind, size, data) = match &iod.value {
            NewValue::Single(value) => (SINGLE, value.bytes().len() as u64, value.bytes()),
            NewValue::NoSingle => (SINGLE, 0, &[][..]),
            NewValue::Array { record_bytes, data, .. } => (ARRAY, *record_bytes, data.bytes()),
            NewValue::Hole { .. } => (ARRAY, 0, &[][..]),
        };
        let nr = if kind == SINGLE { 1 } else { count_of(extents.len()) };
        let name = Iov::of(&iod.akey);
        iods.push(Iod { name, kind, size, flags: iod.cond.0, nr, recxs: extents.as_ptr() });
        iovs.push(Iov::of(data));
    }
    let mut sgls: Vec<SgList> = iovs.iter_mut().map(SgList::of).collect();
    let dkey = Iov::of(&update.dkey);
    let nr = count_of(iods.len());
    let (iods, sgls) = (iods.as_mut_ptr(), sgls.as_mut_ptr());
    match checked(words::obj_update(object, tx, update.cond.0, &dkey, nr, iods, sgls, null_mut())) {
        Err(Error::RecordSize { .. }) => Err(Error::RecordSize {
            stored_bytes: update.iods.iter().map(|iod| size_of(object, tx, &update.dkey, &iod.akey)).sum(),
        }),
        other => {
            let akeys: Vec<&[u8]> = update.iods.iter().map(|iod| &iod.akey[..]).collect();
            why::keys(object, tx, &update.dkey, &akeys, other)
        }
    }
}

fn punched(object: Handle, tx: Handle, punch: &Punch) -> Result<()> {
    let flags = punch.cond.0;
    match &punch.scope {
        PunchScope::Object => checked(words::obj_punch(object, tx, flags, null_mut())),
        PunchScope::Dkey(dkey) => {
            let code = words::obj_punch_dkeys(object, tx, flags, 1, &Iov::of(dkey), null_mut());
            why::keys(object, tx, dkey, &[why::RIGHT], checked(code))
        }
        PunchScope::Akeys(dkey, akeys) => {
            let iovs: Vec<Iov> = akeys.iter().map(|akey| Iov::of(akey)).collect();
            let (nr, to) = (count_of(iovs.len()), iovs.as_ptr());
            let code = words::obj_punch_akeys(object, tx, flags, &Iov::of(dkey), nr, to, null_mut());
            let akeys: Vec<&[u8]> = akeys.iter().map(|akey| &akey[..]).collect();
            why::keys(object, tx, dkey, &akeys, checked(code))
        }
    }
}

/// What a want takes of the buffer.
fn room_of(want: &Want) -> usize {
    match want {
        Want::Single { room_bytes } => *room_bytes,
        Want::Array { record_bytes, extents } => {
            usize::try_from(extents.iter().map(|recx| recx.count * record_bytes).sum::<u64>()).unwrap()
        }
        Want::Size => 0,
    }
}

fn fetched(object: Handle, tx: Handle, fetch: &Fetch, buf: &mut [u8]) -> Result<Reply> {
    let extents: Vec<Vec<CRecx>> = fetch
        .iods
        .iter()
        .map(|iod| if let Want::Array { extents, .. } = &iod.want { recxs(extents) } else { Vec::new() })
        .collect();
    let mut maps = vec![vec![CRecx::default(); MAP_MAX as usize]; fetch.iods.len()];
    let (mut iods, mut iovs, mut ioms) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = buf;
    for ((iod, extents), map) in fetch.iods.iter().zip(&extents).zip(&mut maps) {
        let (kind, size) = match &iod.want {
            Want::Array { record_bytes, .. } => (ARRAY, *record_bytes),
            Want::Single { .. } | Want::Size => (SINGLE, 0),
        };
        let nr = if kind == SINGLE { 1 } else { count_of(extents.len()) };
        iods.push(Iod { name: Iov::of(&iod.akey), kind, size, flags: 0, nr, recxs: extents.as_ptr() });
        let (own, behind) = {
            let rest = core::mem::take(&mut rest);
            let len = room_of(&iod.want).min(rest.len());
            rest.split_at_mut(len)
        };
        iovs.push(Iov::room(own));
        rest = behind;
        let none = CRecx::default();
        let recxs = map.as_mut_ptr();
        ioms.push(Iom {
            kind,
            nr: MAP_MAX,
            nr_out: 0,
            flags: words::DETAIL,
            size: 0,
            lo: none,
            hi: none,
            recxs,
        });
    }
    let is_size = |index: usize| matches!(fetch.iods[index].want, Want::Size);
    let list = |(index, iov): (usize, _)| if is_size(index) { SgList::NONE } else { SgList::of(iov) };
    let mut sgls: Vec<SgList> = iovs.iter_mut().enumerate().map(list).collect();
    let (dkey, nr, flags) = (Iov::of(&fetch.dkey), count_of(iods.len()), fetch.cond.0);
    let lists = (iods.as_mut_ptr(), sgls.as_mut_ptr(), ioms.as_mut_ptr());
    match checked(words::obj_fetch(object, tx, flags, &dkey, nr, lists.0, lists.1, lists.2, null_mut())) {
        Err(Error::RecTooBig { .. }) => return Err(Error::RecTooBig { needed_bytes: iods[0].size }),
        Err(Error::RecordSize { .. }) => {
            let stored = fetch.iods.iter().map(|iod| size_of(object, tx, &fetch.dkey, &iod.akey));
            return Err(Error::RecordSize { stored_bytes: stored.sum() });
        }
        other => {
            let akeys: Vec<&[u8]> = fetch.iods.iter().map(|iod| &iod.akey[..]).collect();
            why::keys(object, tx, &fetch.dkey, &akeys, other)?;
        }
    }
    // C asks for one kind of value or the other.
    let either = |index: usize, size: u64| {
        let asks_on = is_size(index) && size == 0;
        if asks_on { size_of(object, tx, &fetch.dkey, &fetch.iods[index].akey) } else { size }
    };
    let found = |(index, ((iod, iom), map)): (usize, ((&Iod, &Iom), &Vec<CRecx>))| FetchedIod {
        size_bytes: either(index, iod.size),
        filled: map[..iom.nr_out as usize].iter().map(|recx| Recx::new(recx.idx, recx.nr)).collect(),
        is_end: false,
    };
    Ok(Reply::Fetched(iods.iter().zip(&ioms).zip(&maps).enumerate().map(found).collect()))
}

fn listed(object: Handle, tx: Handle, list: &List, anchor: &mut words::Anchor) -> Result<Listed> {
    let refused = page(object, tx, list, anchor);
    let tried = |list: &List, mut anchor: words::Anchor| page(object, tx, list, &mut anchor).is_ok();
    let key = Key::from_slice(why::RIGHT);
    let replaced = |part| match part {
        Invalid::Count => tried(&List { items_max: 1, ..list.clone() }, *anchor),
        Invalid::Anchor => tried(list, words::Anchor::START),
        _ => {
            let what = match list.what.clone() {
                ListWhat::Akeys(oid, _) => ListWhat::Akeys(oid, key.clone()),
                ListWhat::Extents(oid, ..) => ListWhat::Extents(oid, key.clone(), key.clone()),
                other => other,
            };
            tried(&List { what, ..list.clone() }, *anchor)
        }
    };
    why::parts(refused, replaced, &[Invalid::Count, Invalid::Anchor, Invalid::Key])
}

/// One page of a listing in an object.
fn page(object: Handle, tx: Handle, list: &List, anchor: &mut words::Anchor) -> Result<Listed> {
    let mut nr = list.items_max.min(1000);
    if let ListWhat::Extents(_, dkey, akey) = &list.what {
        let is_start = *anchor == words::Anchor::START;
        let (recxs, eprs, size) = extents(object, tx, [dkey, akey], nr, anchor)?;
        let extent = |(recx, epr): (&CRecx, &words::EpochRange)| ListedExtent {
            recx: Recx::new(recx.idx, recx.nr),
            record_bytes: size,
            epoch: Epoch(epr.hi),
            single: false,
        };
        // C lists extents alone; that there is a single value, too, a fetch tells.
        let record_bytes = if is_start { single_size(object, tx, [dkey, akey]) } else { 0 };
        let mut all = Vec::new();
        if record_bytes > 0 {
            let epoch = Epoch(newest_of_all(object, tx)?);
            all.push(ListedExtent { recx: Recx::new(0, 1), record_bytes, epoch, single: true });
        }
        all.extend(recxs.iter().zip(&eprs).map(extent));
        return Ok(Listed::Extents(all));
    }
    let (mut kds, mut bytes) =
        (vec![KeyDesc::default(); 1000], vec![0; list.bytes_max.min(1 << 20) as usize]);
    let mut iov = Iov::room(&mut bytes);
    let mut sgl = SgList::of(&mut iov);
    let to = kds.as_mut_ptr();
    let code = match &list.what {
        ListWhat::Akeys(_, dkey) => {
            words::list_akeys(object, tx, &Iov::of(dkey), &mut nr, to, &mut sgl, anchor, null_mut())
        }
        _ => words::list_dkeys(object, tx, &mut nr, to, &mut sgl, anchor, null_mut()),
    };
    match checked(code) {
        Err(Error::KeyTooBig { .. }) => return Err(Error::KeyTooBig { needed_bytes: kds[0].len }),
        other => other?,
    }
    let (mut keys, mut at) = (PackedKeys::default(), 0);
    for kd in &kds[..nr as usize] {
        let end = at + usize::try_from(kd.len).unwrap();
        keys.push(&bytes[at..end]);
        at = end;
    }
    Ok(Listed::Keys(keys))
}

fn queried(object: Handle, tx: Handle, query: &Query) -> Result<Reply> {
    let (mut dkey_room, mut akey_room) = ([0; 256], [0; 256]);
    let asked = |level: QueryFlags| query.flags.0 & level.0 != 0;
    let mut given = (Iov::of(&query.dkey), Iov::of(&query.akey));
    if asked(QueryFlags::DKEY) {
        given.0 = Iov::room(&mut dkey_room);
    }
    if asked(QueryFlags::AKEY) {
        given.1 = Iov::room(&mut akey_room);
    }
    let mut recx = CRecx::default();
    let flags = u64::from(query.flags.0);
    match checked(words::query_key(object, tx, flags, &mut given.0, &mut given.1, &mut recx, null_mut())) {
        Err(Error::NotFound) => return Ok(Reply::Found(None)),
        other => other?,
    }
    let key = |is_asked: bool, room: &[u8], iov: &Iov, own: &Key| {
        if is_asked { Key::from_slice(&room[..iov.filled()]) } else { own.clone() }
    };
    let mut found = Found {
        dkey: key(asked(QueryFlags::DKEY), &dkey_room, &given.0, &query.dkey),
        akey: key(asked(QueryFlags::AKEY), &akey_room, &given.1, &query.akey),
        recx: asked(QueryFlags::RECX).then(|| Recx::new(recx.idx, recx.nr)),
        record_bytes: 0,
    };
    if found.recx.is_some() {
        // The query does not tell; a listing does.
        let mut anchor = words::Anchor::START;
        found.record_bytes = extents(object, tx, [&found.dkey, &found.akey], 1, &mut anchor)?.2;
    }
    Ok(Reply::Found(Some(found)))
}

impl TargetStore for InC {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        for op in ops.drain(..) {
            dolmen_env::wait(PAUSE);
            self.catch_up();
            let mut buf = None;
            let result = match op.head == Head::default() {
                true => self.run(op.cont, op.verb, &mut buf),
                false => self.run_as(op.head, op.cont, op.verb, &mut buf),
            };
            self.done.push(Completion { token: op.token, result, buf });
        }
    }

    fn poll(&mut self, _: bool, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }

    fn step(&mut self) -> Progress {
        // What is done in the background is done by others.
        Progress::Idle
    }
}

impl Subject for InC {
    fn store(&mut self) -> &mut dyn TargetStore {
        self
    }

    fn target(&self) -> TargetNo {
        TargetNo(0)
    }

    fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    fn restart(&mut self) {
        if self.home.lock().unwrap().keeps_connections() {
            return self.home.lock().unwrap().restart();
        }
        self.disconnect();
        self.home.lock().unwrap().restart();
        self.reconnect();
    }

    fn crash(&mut self) {
        self.restart();
    }

    fn snapshot(&mut self, cont: ContNo) -> Option<Epoch> {
        Some(Epoch(words::snapshot(self.cont(cont))))
    }

    fn roll_back(&mut self, cont: ContNo, to: Epoch) -> Option<Epoch> {
        assert_eq!(words::cont_rollback(self.cont(cont), to.0, null_mut()), 0);
        let own = self.singles.iter_mut().filter(|((of, ..), _)| *of == cont);
        own.for_each(|(_, epochs)| epochs.retain(|epoch| *epoch <= to));
        Some(self.now(cont))
    }

    fn begin(&mut self, cont: ContNo) -> Option<(TxId, Epoch)> {
        dolmen_env::wait(PAUSE);
        let (tx, epoch) = self.open_tx(cont);
        // What a case takes for now is behind the transaction's begin, however slow the machine.
        self.catch_up();
        self.txs.insert(epoch, (tx, false));
        Some((TxId { client: 1, begin: epoch }, epoch))
    }
}

impl Drop for InC {
    fn drop(&mut self) {
        // After a panic of a case, too: the next one connects anew.
        for (_, (tx, _)) in core::mem::take(&mut self.txs) {
            words::tx_close(tx, null_mut());
        }
        self.leave_clients();
        for cont in self.conts.values() {
            words::cont_close(*cont, null_mut());
        }
        words::pool_disconnect(self.pool, null_mut());
    }
}
