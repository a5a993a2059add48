//! Terse words for the scripted cases. Whatever a case did not expect panics where the case stands.

use crate::Subject;
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    Change, ContSpec, ContVerb, Fetch, FetchIod, FetchedIod, Found, InDoubt, List, ListWhat, Listed,
    ListedExtent, Mutation, NewValue, Payload, Prepare, Punch, PunchScope, Query, ReadAt, Reply, TxState,
    Update, UpdateIod, Usage, Verb, Want,
};
use dolmen_codec::{Completion, Op, TargetStore};
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid,
    QueryFlags, Recx, RequestId, TargetNo, TxId,
};
use smallvec::{SmallVec, smallvec};

/// What a buffer holds before a fetch: seen again where there are holes.
const FILL: u8 = b'.';
/// Far enough that no clock of a reopened store is ahead of it.
const REOPEN_NS: u64 = 10_000_000_000;

/// A container of a fresh store, and words to use it.
pub struct Harness<'s> {
    subject: &'s mut dyn Subject,
    cont: ContNo,
    token: u64,
    client: u128,
}

impl core::fmt::Debug for Harness<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Harness")
            .field("cont", &self.cont)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// A place of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a>(pub(crate) Oid, pub(crate) &'a [u8], pub(crate) &'a [u8]);

/// An object id with hashed keys; `number` tells ids apart.
pub(crate) fn oid(number: u64) -> Oid {
    typed(ObjectType::MultiHashed, number)
}

pub(crate) fn typed(object_type: ObjectType, number: u64) -> Oid {
    Oid::new(object_type, ObjectClass::S1, 0, number)
}

pub(crate) fn single(akey: &[u8], bytes: &[u8]) -> UpdateIod<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(bytes)));
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }
}

pub(crate) fn no_single(akey: &[u8]) -> UpdateIod<'static> {
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value: NewValue::NoSingle }
}

pub(crate) fn recxs(extents: &[(u64, u64)]) -> SmallVec<[Recx; 1]> {
    extents.iter().map(|&(index, count)| Recx::new(index, count)).collect()
}

pub(crate) fn records(
    akey: &[u8],
    record_bytes: u64,
    extents: &[(u64, u64)],
    data: &[u8],
) -> UpdateIod<'static> {
    let data = Payload::Owned(IoBuf::copy_of(data));
    let value = NewValue::Array { record_bytes, extents: recxs(extents), data };
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }
}

pub(crate) fn hole(akey: &[u8], extents: &[(u64, u64)]) -> UpdateIod<'static> {
    let value = NewValue::Hole { extents: recxs(extents) };
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }
}

pub(crate) fn update(oid: Oid, dkey: &[u8], cond: Cond, iods: Vec<UpdateIod<'static>>) -> Mutation<'static> {
    Mutation::Update(Update { oid, dkey: Key::from_slice(dkey), cond, iods: iods.into(), charged: None })
}

pub(crate) fn punch(oid: Oid, scope: PunchScope, cond: Cond) -> Mutation<'static> {
    Mutation::Punch(Punch { oid, scope, cond })
}

pub(crate) fn akeys_scope(dkey: &[u8], akeys: &[&[u8]]) -> PunchScope {
    PunchScope::Akeys(Key::from_slice(dkey), akeys.iter().map(|akey| Key::from_slice(akey)).collect())
}

pub(crate) fn want_single(akey: &[u8], room_bytes: usize) -> FetchIod {
    FetchIod { akey: Key::from_slice(akey), want: Want::Single { room_bytes } }
}

pub(crate) fn want_size(akey: &[u8]) -> FetchIod {
    FetchIod { akey: Key::from_slice(akey), want: Want::Size }
}

pub(crate) fn want_records(akey: &[u8], record_bytes: u64, extents: &[(u64, u64)]) -> FetchIod {
    FetchIod { akey: Key::from_slice(akey), want: Want::Array { record_bytes, extents: recxs(extents) } }
}

impl<'s> Harness<'s> {
    /// Makes container 1 on the subject's store.
    ///
    /// # Panics
    /// If the store refuses.
    pub fn new(subject: &'s mut dyn Subject) -> Self {
        let mut harness = Self { subject, cont: ContNo(1), token: 0, client: 0x51ED };
        harness.create(ContNo(1));
        harness
    }

    #[track_caller]
    pub(crate) fn create(&mut self, cont: ContNo) {
        let spec = ContSpec { hash_key: HashKey([7; 16]), durability: Durability::Power };
        self.done_in(cont, Verb::Cont(ContVerb::Create(spec)));
    }

    pub(crate) fn set_cont(&mut self, cont: ContNo) {
        self.cont = cont;
    }

    pub(crate) fn store(&mut self) -> &mut dyn TargetStore {
        self.subject.store()
    }

    pub(crate) fn target(&self) -> TargetNo {
        self.subject.target()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        dolmen_env::Clock::now_ns(&self.subject.clock())
    }

    pub(crate) fn advance(&mut self, ns: u64) {
        self.subject.clock().advance(ns);
    }

    pub(crate) fn step_clock_to(&mut self, wall_ns: u64) {
        self.subject.clock().step_to(wall_ns);
    }

    /// Closes and opens the store, with time in between.
    pub(crate) fn restart(&mut self) {
        self.subject.restart();
        self.advance(REOPEN_NS);
    }

    /// Closes and opens the store in no time.
    pub(crate) fn restart_at_once(&mut self) {
        self.subject.restart();
    }

    /// Crashes and opens the store, with time in between.
    pub(crate) fn crash(&mut self) {
        self.subject.crash();
        self.advance(REOPEN_NS);
    }

    /// Executes one operation to its completion.
    #[track_caller]
    pub(crate) fn complete(&mut self, head: Head, cont: ContNo, verb: Verb<'_>) -> Completion {
        self.token += 1;
        let token = self.token;
        let mut ops = vec![Op { token, head, cont, verb }];
        let store = self.subject.store();
        store.submit(&mut ops);
        assert!(ops.is_empty(), "submit leaves operations behind");
        let mut done = Vec::new();
        store.poll(true, &mut done);
        let completion = done.pop().expect("poll waits for a completion");
        assert!(done.is_empty(), "more completions than operations");
        assert_eq!(completion.token, token, "a completion of something else");
        completion
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, verb: Verb<'_>) -> Result<Reply, Error> {
        self.complete(Head::default(), self.cont, verb).result
    }

    #[track_caller]
    pub(crate) fn done_in(&mut self, cont: ContNo, verb: Verb<'_>) {
        match self.complete(Head::default(), cont, verb).result {
            Ok(Reply::Done) => {}
            other => panic!("expected it to be done, got {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn done(&mut self, verb: Verb<'_>) {
        self.done_in(self.cont, verb);
    }

    #[track_caller]
    pub(crate) fn mutate_as(&mut self, head: Head, mutation: Mutation<'_>) -> Result<Epoch, Error> {
        let verb = match mutation {
            Mutation::Update(update) => Verb::Update(update),
            Mutation::Punch(punch) => Verb::Punch(punch),
        };
        match self.complete(head, self.cont, verb).result {
            Ok(Reply::Written(epoch)) => Ok(epoch),
            Ok(other) => panic!("expected an epoch, got {other:?}"),
            Err(error) => Err(error),
        }
    }

    #[track_caller]
    pub(crate) fn mutate(&mut self, mutation: Mutation<'_>) -> Result<Epoch, Error> {
        self.mutate_as(Head::default(), mutation)
    }

    /// A head with a request id.
    pub(crate) fn request(&self, sequence: u64) -> Head {
        Head { id: RequestId { client: self.client, sequence }, ..Head::default() }
    }

    /// Writes a single value.
    #[track_caller]
    pub(crate) fn put(&mut self, at: At<'_>, bytes: &[u8]) -> Epoch {
        self.mutate(update(at.0, at.1, Cond::NONE, vec![single(at.2, bytes)])).expect("a plain update")
    }

    /// Writes one-byte records.
    #[track_caller]
    pub(crate) fn write(&mut self, at: At<'_>, index: u64, bytes: &[u8]) -> Epoch {
        let extents = [(index, bytes.len() as u64)];
        self.mutate(update(at.0, at.1, Cond::NONE, vec![records(at.2, 1, &extents, bytes)]))
            .expect("a plain update")
    }

    /// Removes records.
    #[track_caller]
    pub(crate) fn dig(&mut self, at: At<'_>, index: u64, count: u64) -> Epoch {
        self.mutate(update(at.0, at.1, Cond::NONE, vec![hole(at.2, &[(index, count)])]))
            .expect("a plain hole")
    }

    #[track_caller]
    pub(crate) fn punch_object(&mut self, oid: Oid) -> Epoch {
        self.mutate(punch(oid, PunchScope::Object, Cond::NONE)).expect("a plain punch")
    }

    #[track_caller]
    pub(crate) fn punch_dkey(&mut self, oid: Oid, dkey: &[u8]) -> Epoch {
        self.mutate(punch(oid, PunchScope::Dkey(Key::from_slice(dkey)), Cond::NONE)).expect("a plain punch")
    }

    #[track_caller]
    pub(crate) fn punch_akey(&mut self, at: At<'_>) -> Epoch {
        self.mutate(punch(at.0, akeys_scope(at.1, &[at.2]), Cond::NONE)).expect("a plain punch")
    }

    /// Fetches into a buffer of `room_bytes` times [`FILL`].
    #[track_caller]
    pub(crate) fn fetch(
        &mut self,
        (oid, dkey): (Oid, &[u8]),
        cond: Cond,
        at: ReadAt,
        iods: Vec<FetchIod>,
        room_bytes: usize,
    ) -> (Result<SmallVec<[FetchedIod; 1]>, Error>, IoBuf) {
        let buf = IoBuf::copy_of(&vec![FILL; room_bytes]);
        let fetch = Fetch { oid, dkey: Key::from_slice(dkey), cond, at, iods: iods.into(), buf };
        let completion = self.complete(Head::default(), self.cont, Verb::Fetch(fetch));
        let buf = completion.buf.expect("a fetch returns its buffer");
        assert_eq!(buf.len(), room_bytes, "a fetch returns its buffer as long as it was");
        let result = completion.result.map(|reply| match reply {
            Reply::Fetched(iods) => iods,
            other => panic!("expected values, got {other:?}"),
        });
        (result, buf)
    }

    /// The single value, if it exists.
    #[track_caller]
    pub(crate) fn try_single(&mut self, place: At<'_>, at: ReadAt) -> Result<Option<Vec<u8>>, Error> {
        const ROOM: usize = 65536;
        let (result, buf) =
            self.fetch((place.0, place.1), Cond::NONE, at, vec![want_single(place.2, ROOM)], ROOM);
        let size = usize::try_from(result?[0].size_bytes).expect("it fits the room");
        assert!(buf[size..].iter().all(|&byte| byte == FILL), "bytes behind the value were touched");
        Ok((size > 0).then(|| buf[..size].to_vec()))
    }

    #[track_caller]
    pub(crate) fn single_at(&mut self, place: At<'_>, at: ReadAt) -> Option<Vec<u8>> {
        self.try_single(place, at).expect("a plain fetch")
    }

    #[track_caller]
    pub(crate) fn single(&mut self, place: At<'_>) -> Option<Vec<u8>> {
        self.single_at(place, ReadAt::Latest)
    }

    /// One-byte records from `index` on as a text, holes as dots.
    #[track_caller]
    pub(crate) fn text_at(&mut self, place: At<'_>, index: u64, count: usize, at: ReadAt) -> String {
        let want = want_records(place.2, 1, &[(index, count as u64)]);
        let (result, buf) = self.fetch((place.0, place.1), Cond::NONE, at, vec![want], count);
        let fetched = result.expect("a plain fetch");
        let mut filled = vec![false; count];
        for recx in &fetched[0].filled {
            for record in recx.index..recx.index + recx.count {
                filled[usize::try_from(record - index).expect("inside what was wanted")] = true;
            }
        }
        for (byte, filled) in buf.iter().zip(filled) {
            assert_eq!(*byte != FILL, filled, "the parts said to hold data are not those with bytes");
        }
        String::from_utf8_lossy(&buf).into_owned()
    }

    #[track_caller]
    pub(crate) fn text(&mut self, place: At<'_>, index: u64, count: usize) -> String {
        self.text_at(place, index, count, ReadAt::Latest)
    }

    /// One page of an enumeration.
    #[track_caller]
    pub(crate) fn page(
        &mut self,
        what: &ListWhat,
        anchor: Anchor,
        items_max: u32,
        at: ReadAt,
    ) -> Result<(Listed, Anchor), Error> {
        let list = List { what: what.clone(), anchor, items_max, bytes_max: 1 << 20, at };
        match self.ask(Verb::List(list))? {
            Reply::Listed(listed, anchor) => Ok((listed, anchor)),
            other => panic!("expected a list, got {other:?}"),
        }
    }

    /// All pages of an enumeration.
    #[track_caller]
    pub(crate) fn pages(&mut self, what: &ListWhat, items_max: u32, at: ReadAt) -> Vec<Listed> {
        let (mut pages, mut anchor) = (Vec::new(), Anchor::default());
        while !anchor.is_eof() {
            let (listed, next) = self.page(what, anchor, items_max, at).expect("a plain enumeration");
            assert!(anchor != next, "an enumeration does not move");
            pages.push(listed);
            anchor = next;
        }
        pages
    }

    /// All keys of an enumeration, in its order.
    #[track_caller]
    pub(crate) fn keys(&mut self, what: &ListWhat, items_max: u32, at: ReadAt) -> Vec<Vec<u8>> {
        let pages = self.pages(what, items_max, at);
        let keys = pages.iter().flat_map(|page| match page {
            Listed::Keys(packed) => packed.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(),
            other => panic!("expected keys, got {other:?}"),
        });
        keys.collect()
    }

    /// The dkeys of an object, sorted as bytes.
    #[track_caller]
    pub(crate) fn dkeys(&mut self, oid: Oid, at: ReadAt) -> Vec<String> {
        self.sorted(&ListWhat::Dkeys(oid), at)
    }

    /// The akeys of a dkey, sorted as bytes.
    #[track_caller]
    pub(crate) fn akeys(&mut self, oid: Oid, dkey: &[u8], at: ReadAt) -> Vec<String> {
        self.sorted(&ListWhat::Akeys(oid, Key::from_slice(dkey)), at)
    }

    #[track_caller]
    fn sorted(&mut self, what: &ListWhat, at: ReadAt) -> Vec<String> {
        let keys = self.keys(what, 100, at);
        let mut keys: Vec<String> =
            keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        keys.sort();
        keys
    }

    /// The objects of the container, sorted.
    #[track_caller]
    pub(crate) fn objects(&mut self, items_max: u32, at: ReadAt) -> Vec<Oid> {
        let pages = self.pages(&ListWhat::Objects, items_max, at);
        let oids = pages.into_iter().flat_map(|page| match page {
            Listed::Objects(oids) => oids,
            other => panic!("expected objects, got {other:?}"),
        });
        let mut oids: Vec<Oid> = oids.collect();
        oids.sort_unstable();
        oids
    }

    /// The visible extents of an akey.
    #[track_caller]
    pub(crate) fn extents(&mut self, place: At<'_>, items_max: u32, at: ReadAt) -> Vec<ListedExtent> {
        let what = ListWhat::Extents(place.0, Key::from_slice(place.1), Key::from_slice(place.2));
        let pages = self.pages(&what, items_max, at);
        let extents = pages.into_iter().flat_map(|page| match page {
            Listed::Extents(extents) => extents,
            other => panic!("expected extents, got {other:?}"),
        });
        extents.collect()
    }

    /// What differs between two epochs, sorted.
    #[track_caller]
    pub(crate) fn changes(&mut self, from: Epoch, to: Epoch, items_max: u32) -> Vec<Change> {
        let pages = self.pages(&ListWhat::Changes { from, to }, items_max, ReadAt::Latest);
        let changes = pages.into_iter().flat_map(|page| match page {
            Listed::Changes(changes) => changes,
            other => panic!("expected changes, got {other:?}"),
        });
        let mut changes: Vec<Change> = changes.collect();
        changes.sort();
        changes
    }

    #[track_caller]
    pub(crate) fn query(
        &mut self,
        oid: Oid,
        flags: &[QueryFlags],
        (dkey, akey): (&[u8], &[u8]),
        at: ReadAt,
    ) -> Result<Option<Found>, Error> {
        let flags = QueryFlags(flags.iter().fold(0, |all, flag| all | flag.0));
        let (dkey, akey) = (Key::from_slice(dkey), Key::from_slice(akey));
        match self.ask(Verb::Query(Query { oid, flags, dkey, akey, at }))? {
            Reply::Found(found) => Ok(found),
            other => panic!("expected an answer to a query, got {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn usage(&mut self) -> Usage {
        match self.ask(Verb::Cont(ContVerb::Usage)) {
            Ok(Reply::ContUsage(usage)) => usage,
            other => panic!("expected usage, got {other:?}"),
        }
    }

    /// An epoch above everything done so far, from the clock, as a pool would hand it out.
    pub(crate) fn now(&mut self) -> Epoch {
        self.advance(1_000_000);
        Epoch::from_unix_ns(self.now_ns())
    }

    /// Snapshots the present as a pool does: the floor first.
    #[track_caller]
    pub(crate) fn snapshot(&mut self) -> Epoch {
        if let Some(epoch) = self.subject.snapshot(self.cont) {
            return epoch;
        }
        let epoch = self.now();
        self.done(Verb::Cont(ContVerb::RaiseFloor(epoch)));
        self.done(Verb::Cont(ContVerb::AddSnapshot(epoch)));
        epoch
    }

    /// Rolls back as a pool does: the floor first.
    #[track_caller]
    pub(crate) fn roll_back(&mut self, to: Epoch) -> Epoch {
        if let Some(at) = self.subject.roll_back(self.cont, to) {
            return at;
        }
        let at = self.now();
        self.done(Verb::Cont(ContVerb::RaiseFloor(at)));
        self.done(Verb::Cont(ContVerb::Rollback { to, at }));
        at
    }

    /// Aggregates up to an epoch, to the end.
    #[track_caller]
    pub(crate) fn aggregate(&mut self, epoch: Epoch) {
        // Far more steps than a store has versions: a device may let many of them wait for it.
        for _ in 0..100_000_000 {
            match self.ask(Verb::Cont(ContVerb::Aggregate(epoch))) {
                Ok(Reply::Aggregated { more: true, .. }) => {}
                Ok(Reply::Aggregated { more: false, .. }) => return,
                other => panic!("expected aggregation, got {other:?}"),
            }
        }
        panic!("aggregation does not end");
    }

    /// A new transaction.
    pub(crate) fn begin(&mut self) -> (TxId, Epoch) {
        if let Some(tx) = self.subject.begin(self.cont) {
            self.advance(1_000_000);
            return tx;
        }
        let epoch = self.now();
        (TxId { client: self.client, begin: epoch }, epoch)
    }

    /// Prepares this target's part of a transaction that has another part elsewhere.
    #[track_caller]
    pub(crate) fn prepare(&mut self, tx: (TxId, Epoch), mutations: Vec<Mutation<'_>>) -> Result<(), Error> {
        let own = self.target();
        let other = TargetNo(own.0 + 1);
        self.prepare_as(
            Head::default(),
            Prepare { tx: tx.0, epoch: tx.1, leader: own, participants: smallvec![own, other], mutations },
        )
    }

    /// Commits a transaction whose only part is here.
    #[track_caller]
    pub(crate) fn commit_alone(
        &mut self,
        tx: (TxId, Epoch),
        mutations: Vec<Mutation<'_>>,
    ) -> Result<(), Error> {
        let own = self.target();
        self.prepare_as(
            Head::default(),
            Prepare { tx: tx.0, epoch: tx.1, leader: own, participants: smallvec![own], mutations },
        )
    }

    #[track_caller]
    pub(crate) fn prepare_as(&mut self, head: Head, prepare: Prepare<'_>) -> Result<(), Error> {
        match self.complete(head, self.cont, Verb::Prepare(prepare)).result {
            Ok(Reply::Prepared) => Ok(()),
            Ok(other) => panic!("expected it to be prepared, got {other:?}"),
            Err(error) => Err(error),
        }
    }

    #[track_caller]
    pub(crate) fn commit(&mut self, tx: (TxId, Epoch)) {
        self.done(Verb::Commit(tx.0));
    }

    #[track_caller]
    pub(crate) fn abort(&mut self, tx: (TxId, Epoch)) {
        self.done(Verb::Abort(tx.0));
    }

    #[track_caller]
    pub(crate) fn tx_state(&mut self, tx: (TxId, Epoch)) -> TxState {
        match self.ask(Verb::TxState(tx.0)) {
            Ok(Reply::TxState(state)) => state,
            other => panic!("expected the state of a transaction, got {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn in_doubt(&mut self) -> Vec<InDoubt> {
        match self.ask(Verb::InDoubt) {
            Ok(Reply::InDoubt(list)) => list,
            other => panic!("expected undecided transactions, got {other:?}"),
        }
    }
}
