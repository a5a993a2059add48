//! Random operations over a small space of keys, so that they meet.
//!
//! A step names snapshots, transactions and past writes by number, modulo how many there are, so that any
//! part of a list of steps is again one: a failing list can be cut down.

use crate::chance::Chance;
use crate::conformance::harness::{akeys_scope, hole, no_single, punch, records, single, typed, update};
use dolmen_codec::quota::Limits;
use dolmen_codec::verb::{FetchIod, Mutation, PunchScope, Update, UpdateIod, Want};
use dolmen_types::{Cond, Key, KeyKind, ObjectType, Oid, QueryFlags, Recx, limits};

/// Objects, one of each kind of keys; dkeys of an object; akeys of a dkey.
const OBJECTS: [ObjectType; 3] = [ObjectType::MultiHashed, ObjectType::MultiUint64, ObjectType::MultiLexical];
const DKEYS: usize = 3;
const AKEYS: usize = 4;
/// Transactions and enumerations open at once.
pub(crate) const SLOTS: usize = 3;

/// At which state a step reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Latest,
    /// The n-th snapshot.
    Snapshot(usize),
    /// The n-th newest write.
    Past(usize),
    /// The transaction in a slot.
    Tx(usize),
}

/// What a step lists.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    Objects,
    Dkeys(Oid),
    Akeys(Oid, Key),
    Extents(Oid, Key, Key),
}

/// One step of a random run.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Mutate(Spec),
    /// The n-th newest mutation once more, with its request id.
    Repeat(usize),
    Fetch(Oid, Key, Cond, Vec<FetchIod>, When),
    List(Listing, u32, When),
    /// Opens an enumeration of dkeys in a slot.
    Open(usize, Oid, u32),
    /// Takes a page of it.
    Page(usize),
    Query(Oid, QueryFlags, Key, Key, When),
    Snapshot,
    RemoveSnapshot(usize),
    RollBack(usize),
    /// Aggregates up to the n-th snapshot or, without one, to the present.
    Aggregate(Option<usize>),
    Changes(usize, usize, u32),
    Begin(usize),
    Prepare(usize, Vec<Spec>),
    Commit(usize),
    Abort(usize),
    /// Commits a transaction of this target alone at the epoch of a slot.
    Alone(usize, Vec<Spec>),
    InDoubt,
    Usage,
    Restart,
    Crash,
    Checkpoint,
    Background,
    Check,
    /// A step for which this user and group ask.
    As(u32, u32, Box<Self>),
    /// Sets limits of a user, or of all together.
    Limit(Option<u32>, Limits),
    /// Frees what nobody sees and reports.
    Report,
}

/// A mutation that can be made again and again.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Update(Oid, Key, Cond, Vec<Item>),
    Punch(Oid, PunchScope, Cond),
    /// One that is charged to a user.
    For(u32, Box<Self>),
    /// What there is of an object is charged to a user.
    Give(Oid, u32),
}

/// What an update does to an akey.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) akey: Key,
    cond: Cond,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Single(u8, usize),
    NoSingle,
    Records(u64, Recx, u8),
    Hole(Recx),
}

impl Spec {
    /// The mutation.
    pub(crate) fn mutation(&self) -> Mutation<'static> {
        match self {
            Self::Punch(oid, scope, cond) => punch(*oid, scope.clone(), *cond),
            Self::For(uid, spec) => match spec.mutation() {
                Mutation::Update(update) => Mutation::Update(Update { charged: Some(*uid), ..update }),
                punch @ Mutation::Punch(_) => punch,
            },
            Self::Give(oid, uid) => match update(*oid, &Key::new(), Cond::NONE, Vec::new()) {
                Mutation::Update(gift) => Mutation::Update(Update { charged: Some(*uid), ..gift }),
                punch @ Mutation::Punch(_) => punch,
            },
            Self::Update(oid, dkey, cond, items) => {
                update(*oid, dkey, *cond, items.iter().map(Item::iod).collect())
            }
        }
    }

    /// Whether it writes records of a size unusual for their akey, which others may refuse or doubt.
    pub(crate) fn is_odd(&self) -> bool {
        let items = match self {
            Self::Update(_, _, _, items) => items,
            Self::For(_, spec) => return spec.is_odd(),
            Self::Punch(..) | Self::Give(..) => return false,
        };
        items.iter().any(
            |item| matches!(item.value, Value::Records(size, ..) if size != usual_record_bytes(&item.akey)),
        )
    }
}

impl Item {
    fn iod(&self) -> UpdateIod<'static> {
        let mut iod = match &self.value {
            Value::Single(seed, len) => single(&self.akey, &bytes(*seed, *len)),
            Value::NoSingle => no_single(&self.akey),
            Value::Hole(recx) => hole(&self.akey, &[(recx.index, recx.count)]),
            Value::Records(record_bytes, recx, seed) => {
                let len = usize::try_from(record_bytes * recx.count).expect("small extents");
                records(&self.akey, *record_bytes, &[(recx.index, recx.count)], &bytes(*seed, len))
            }
        };
        iod.cond = self.cond;
        iod
    }
}

/// Bytes that differ along a value and between seeds.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add(u8::try_from(i % 61).expect("below 256"))).collect()
}

fn key(kind: KeyKind, number: usize) -> Key {
    match kind {
        KeyKind::Hashed => Key::from_slice(format!("k{number}").as_bytes()),
        KeyKind::Lexical => Key::from_slice(&b"aaaaaaaa"[..=number]),
        KeyKind::Uint64 => Key::from_slice(&(number as u64 * 300).to_le_bytes()),
    }
}

fn kinds(oid: Oid) -> (KeyKind, KeyKind) {
    let object_type = oid.object_type().expect("one of ours");
    (object_type.dkey_kind(), object_type.akey_kind())
}

/// Some akeys have records of eight bytes, the others of one.
fn usual_record_bytes(akey: &[u8]) -> u64 {
    let sum = akey.iter().map(|&byte| u64::from(byte)).sum::<u64>() + akey.len() as u64;
    if sum.is_multiple_of(3) { 8 } else { 1 }
}

/// Every place that steps write to, with the size of its records.
pub(crate) fn places(space: Space) -> impl Iterator<Item = (Oid, Key, Key, u64)> {
    let oids = OBJECTS.iter().map(|&object_type| typed(object_type, 1));
    let dkeys = oids.flat_map(|oid| (0..DKEYS).map(move |dkey| (oid, dkey)));
    let akeys = dkeys.flat_map(|(oid, dkey)| (0..AKEYS).map(move |akey| (oid, dkey, akey)));
    akeys.map(move |(oid, dkey, akey)| {
        let (dkey, akey) = (dkey_in(space, oid, dkey), akey_in(space, oid, akey));
        let record_bytes = usual_record_bytes(&akey);
        (oid, dkey, akey, record_bytes)
    })
}

/// Over what steps are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Objects of each kind, keys enough to be listed, values of all sizes.
    Wide,
    /// One dkey and one akey in each of two objects, extents within one another, no transactions, and every fourth step one of snapshots,
    /// rollbacks, aggregations and restarts: what one version hides of another, and who has forgotten it.
    Narrow,
    /// Limits that are set, changed and lifted, writes of several users, names of a file system among the keys, and much that is removed
    /// and freed.
    Limited,
}

/// Users of [`Space::Limited`], some of whom have limits, and these.
const USERS: [u32; 3] = [0, 7, 8];
const LIMITS_BYTES: [u64; 6] = [0, 300, 3000, 20_000, 60_000, 150_000];
const LIMITS_FILES: [u64; 5] = [0, 0, 1, 2, 4];

/// The keys of a file system's records take the place of some others.
fn dkey_in(space: Space, oid: Oid, number: usize) -> Key {
    match kinds(oid).0 {
        KeyKind::Hashed if space == Space::Limited && number == 2 => Key::from_slice(b"DLM_COMPANION"),
        kind => key(kind, number),
    }
}

fn akey_in(space: Space, oid: Oid, number: usize) -> Key {
    match (kinds(oid).1, number) {
        (KeyKind::Hashed, 1) if space == Space::Limited => Key::from_slice(b"DFS_INODE"),
        (KeyKind::Hashed, 2) if space == Space::Limited => Key::from_slice(b"DLM_ATIME"),
        (kind, number) => key(kind, number),
    }
}

/// Objects of [`Space::Narrow`].
const NARROW_OBJECTS: usize = 2;
/// Where extents of [`Space::Narrow`] begin, and how long they are.
const NESTED_STARTS: [u64; 3] = [0, 4, 16];
const NESTED_COUNTS: [u64; 4] = [1, 8, 16, 32];

/// Reads all of the extents that the narrow space has in an object.
fn look(object_type: ObjectType) -> Step {
    let oid = typed(object_type, 1);
    let (dkey, akey) = (key(kinds(oid).0, 0), key(kinds(oid).1, 0));
    let record_bytes = usual_record_bytes(&akey);
    let extents = [Recx::new(0, 48)].into_iter().collect();
    let iods = vec![FetchIod { akey, want: Want::Array { record_bytes, extents } }];
    Step::Fetch(oid, dkey, Cond::NONE, iods, When::Latest)
}

/// Draws steps.
#[derive(Debug)]
pub(crate) struct Source<'a>(pub(crate) Chance<'a>, pub(crate) Space);

impl Source<'_> {
    /// A list of at most `count` steps, until the chances are spent.
    pub(crate) fn steps(&mut self, count: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while steps.len() < count && !self.0.is_spent() {
            if self.1 == Space::Limited {
                steps.push(self.limited());
            } else if self.is_narrow() && self.0.one_in(4) {
                steps.push(self.turn());
                steps.extend(OBJECTS.iter().take(NARROW_OBJECTS).map(|&object_type| look(object_type)));
            } else {
                steps.push(self.step());
            }
        }
        steps
    }

    fn step(&mut self) -> Step {
        let slot = self.0.index(SLOTS);
        if self.is_narrow() && self.0.one_in(2) {
            return Step::Mutate(self.nested_spec());
        }
        // A transaction that nobody decides would hold up what is to be aggregated.
        match self.0.below(if self.is_narrow() { 71 } else { 100 }) {
            0..33 => Step::Mutate(self.spec()),
            33..36 => Step::Repeat(self.0.index(6)),
            36..50 => self.fetch(),
            50..58 => self.list(),
            58..60 => Step::Open(slot, self.oid(), 1 + self.small_u32(2)),
            60..65 => Step::Page(slot),
            65..69 => self.query(),
            69..71 => Step::Snapshot,
            71 => match self.0.below(3) {
                0 => Step::RemoveSnapshot(self.0.index(8)),
                1 => Step::RollBack(self.0.index(8)),
                _ => Step::Aggregate((!self.0.one_in(3)).then(|| self.0.index(8))),
            },
            72..74 => Step::Changes(self.0.index(8), self.0.index(8), 1 + self.small_u32(20)),
            74..78 => Step::Begin(slot),
            78..82 => Step::Prepare(slot, self.specs()),
            82..87 => Step::Commit(slot),
            87 => Step::Abort(slot),
            88..92 => Step::Alone(slot, self.specs()),
            92 => Step::InDoubt,
            93 => Step::Usage,
            94 => {
                if self.0.one_in(3) {
                    Step::Restart
                } else {
                    Step::Check
                }
            }
            95 => {
                if self.0.one_in(2) {
                    Step::Crash
                } else {
                    Step::InDoubt
                }
            }
            96 => Step::Checkpoint,
            _ => Step::Background,
        }
    }

    /// A step beside limits.
    fn limited(&mut self) -> Step {
        match self.0.below(64) {
            0..2 => self.limit(),
            2..5 => Step::Report,
            5 => Step::Snapshot,
            6 => Step::RemoveSnapshot(self.0.index(8)),
            7 if self.0.one_in(3) => Step::RollBack(self.0.index(8)),
            8 if self.0.one_in(2) => Step::Crash,
            9..11 => Step::Background,
            11..14 => Step::Commit(self.0.index(SLOTS)),
            14 => Step::Abort(self.0.index(SLOTS)),
            15..48 => self.asked(|source| Step::Mutate(source.paid())),
            48..51 => {
                let slot = self.0.index(SLOTS);
                self.asked(|source| Step::Prepare(slot, source.paid_specs()))
            }
            51..55 => {
                let slot = self.0.index(SLOTS);
                self.asked(|source| Step::Alone(slot, source.paid_specs()))
            }
            _ => self.step(),
        }
    }

    fn limit(&mut self) -> Step {
        let uid = (!self.0.one_in(2)).then(|| self.user());
        let (bytes, files) = (self.0.index(LIMITS_BYTES.len()), self.0.index(LIMITS_FILES.len()));
        Step::Limit(uid, Limits { bytes: LIMITS_BYTES[bytes], files: LIMITS_FILES[files] })
    }

    fn user(&mut self) -> u32 {
        USERS[self.0.index(USERS.len())]
    }

    fn asked(&mut self, step: impl FnOnce(&mut Self) -> Step) -> Step {
        let (uid, gid) = (self.user(), self.small_u32(2));
        Step::As(uid, gid, Box::new(step(self)))
    }

    fn paid_specs(&mut self) -> Vec<Spec> {
        let count = 1 + self.0.index(3);
        (0..count).map(|_| if self.0.one_in(3) { self.gift() } else { self.paid() }).collect()
    }

    fn gift(&mut self) -> Spec {
        Spec::Give(self.oid(), self.user())
    }

    /// A mutation that may be charged to somebody: often a name's record, or one that writes over all of another.
    fn paid(&mut self) -> Spec {
        let spec = match self.0.below(8) {
            0..2 => self.name_spec(),
            2 => {
                let (oid, dkey, _) = self.place();
                Spec::Punch(oid, PunchScope::Dkey(dkey), Cond::NONE)
            }
            3..5 => {
                let (oid, dkey, akey) = self.place();
                let (seed, recx) = (self.0.byte(), Recx::new(0, 40 + 40 * self.0.below(2)));
                let value = Value::Records(usual_record_bytes(&akey), recx, seed);
                Spec::Update(oid, dkey, Cond::NONE, vec![Item { akey, cond: Cond::NONE, value }])
            }
            _ => self.spec(),
        };
        if self.0.one_in(3) { Spec::For(self.user(), Box::new(spec)) } else { spec }
    }

    /// A record of a name: small as a rule, with a long target now and then.
    fn name_spec(&mut self) -> Spec {
        let oid = typed(ObjectType::MultiHashed, 1);
        let (dkey, akey) = (dkey_in(self.1, oid, self.0.index(DKEYS)), akey_in(self.1, oid, 1));
        let record_bytes = usual_record_bytes(&akey);
        let count = if self.0.one_in(8) { 2000 } else { 88 };
        let value = Value::Records(record_bytes, Recx::new(0, count / record_bytes), self.0.byte());
        Spec::Update(oid, dkey, Cond::NONE, vec![Item { akey, cond: Cond::NONE, value }])
    }

    fn is_narrow(&self) -> bool {
        self.1 == Space::Narrow
    }

    /// A step that changes what is seen or kept of everything.
    fn turn(&mut self) -> Step {
        match self.0.below(16) {
            0 | 1 => Step::Snapshot,
            // Of many, some would keep what a rollback to another has hidden.
            2..6 => Step::RemoveSnapshot(self.0.index(8)),
            6..11 => Step::RollBack(self.0.index(8)),
            11 | 12 => Step::Aggregate(None),
            13 => Step::Background,
            14 => Step::Check,
            // Rarely: a target that was opened has short ways only once a segment of its log is full.
            _ if self.0.one_in(8) => Step::Crash,
            _ => Step::Checkpoint,
        }
    }

    fn small_u32(&mut self, bound: u64) -> u32 {
        u32::try_from(self.0.below(bound)).expect("small")
    }

    fn oid(&mut self) -> Oid {
        let number = self.0.index(if self.is_narrow() { NARROW_OBJECTS } else { OBJECTS.len() });
        typed(OBJECTS[number], 1)
    }

    fn place(&mut self) -> (Oid, Key, Key) {
        let oid = self.oid();
        let (dkeys, akeys) = if self.is_narrow() { (1, 1) } else { (DKEYS, AKEYS) };
        let (dkey, akey) = (self.0.index(dkeys), self.0.index(akeys));
        (oid, dkey_in(self.1, oid, dkey), akey_in(self.1, oid, akey))
    }

    fn when(&mut self) -> When {
        match self.0.below(10) {
            0..6 => When::Latest,
            6 => When::Snapshot(self.0.index(8)),
            7 => When::Past(self.0.index(12)),
            _ => When::Tx(self.0.index(SLOTS)),
        }
    }

    fn specs(&mut self) -> Vec<Spec> {
        let count = 1 + self.0.index(3);
        (0..count).map(|_| self.spec()).collect()
    }

    fn spec(&mut self) -> Spec {
        let (oid, dkey, akey) = self.place();
        if self.0.one_in(7) {
            let cond = if self.0.one_in(4) { Cond::PUNCH } else { Cond::NONE };
            let scope = match self.0.below(6) {
                0 => PunchScope::Object,
                1 | 2 => PunchScope::Dkey(dkey),
                _ => akeys_scope(&dkey, &[&akey]),
            };
            return Spec::Punch(oid, scope, cond);
        }
        let mut items = vec![self.item(akey)];
        if self.0.one_in(4) {
            let other = akey_in(self.1, oid, self.0.index(AKEYS));
            if other != items[0].akey {
                items.push(self.item(other));
            }
        }
        let cond = match self.0.below(20) {
            0 => Cond::DKEY_INSERT,
            1 => Cond::DKEY_UPDATE,
            2 => Cond::AKEY_INSERT,
            3 => Cond::AKEY_UPDATE,
            4 => Cond::PER_AKEY,
            _ => Cond::NONE,
        };
        Spec::Update(oid, dkey, cond, items)
    }

    /// A mutation that is not refused.
    fn nested_spec(&mut self) -> Spec {
        let (oid, dkey, akey) = self.place();
        let (seed, record_bytes) = (self.0.byte(), usual_record_bytes(&akey));
        let value = match self.0.below(12) {
            0 => return Spec::Punch(oid, PunchScope::Object, Cond::NONE),
            1 => return Spec::Punch(oid, PunchScope::Dkey(dkey), Cond::NONE),
            2 => Value::Hole(self.data_recx()),
            _ => Value::Records(record_bytes, self.data_recx(), seed),
        };
        Spec::Update(oid, dkey, Cond::NONE, vec![Item { akey, cond: Cond::NONE, value }])
    }

    fn item(&mut self, akey: Key) -> Item {
        let cond = match self.0.below(6) {
            0 => Cond::AKEY_INSERT,
            1 => Cond::AKEY_UPDATE,
            _ => Cond::NONE,
        };
        let seed = self.0.byte();
        // A single value would hide the extents from each other.
        let kind = if self.is_narrow() { 8 + self.0.below(12) } else { self.0.below(20) };
        let value = match kind {
            0..7 => Value::Single(seed, self.single_bytes()),
            7 => Value::NoSingle,
            8..17 => {
                let odd = self.0.one_in(25);
                let record_bytes = if odd { 3 } else { usual_record_bytes(&akey) };
                Value::Records(record_bytes, self.data_recx(), seed)
            }
            _ => Value::Hole(self.recx()),
        };
        Item { akey, cond, value }
    }

    fn single_bytes(&mut self) -> usize {
        match self.0.below(12) {
            0 => 4097 + self.0.index(3000),
            1 => 33_000 + self.0.index(20_000),
            2 => 4090 + self.0.index(10),
            _ => 1 + self.0.index(40),
        }
    }

    /// Around the start, around the edge of the first window, and far away.
    fn index(&mut self) -> u64 {
        let base = [0, 0, 0, limits::WINDOW_RECORDS - 20, limits::WINDOW_RECORDS, 1 << 40][self.0.index(6)];
        base + self.0.below(16)
    }

    fn data_recx(&mut self) -> Recx {
        if self.is_narrow() {
            let start = NESTED_STARTS[self.0.index(NESTED_STARTS.len())];
            return Recx::new(start, NESTED_COUNTS[self.0.index(NESTED_COUNTS.len())]);
        }
        let index = self.index();
        let room = limits::WINDOW_RECORDS - index % limits::WINDOW_RECORDS;
        let count = if self.0.one_in(12) { 5000 + self.0.below(40_000) } else { 1 + self.0.below(12) };
        Recx::new(index, count.min(room))
    }

    fn recx(&mut self) -> Recx {
        let count = if self.0.one_in(6) { 1 + self.0.below(3 << 20) } else { 1 + self.0.below(12) };
        Recx::new(self.index(), count)
    }

    fn fetch(&mut self) -> Step {
        let (oid, dkey, akey) = self.place();
        let cond = match self.0.below(12) {
            0 => Cond::DKEY_FETCH,
            1 => Cond::AKEY_FETCH,
            _ => Cond::NONE,
        };
        let mut iods = Vec::new();
        for _ in 0..=self.0.index(2) {
            let akey = if iods.is_empty() { akey.clone() } else { key(kinds(oid).1, self.0.index(AKEYS)) };
            let want = match self.0.below(10) {
                0 => Want::Size,
                1 => Want::Single { room_bytes: 20 },
                2..5 => Want::Single { room_bytes: 60_000 },
                _ => {
                    let record_bytes = if self.0.one_in(20) { 5 } else { usual_record_bytes(&akey) };
                    let extents = (0..=self.0.index(2))
                        .map(|_| Recx::new(self.index(), 1 + self.0.below(40)))
                        .collect();
                    Want::Array { record_bytes, extents }
                }
            };
            iods.push(FetchIod { akey, want });
        }
        Step::Fetch(oid, dkey, cond, iods, self.when())
    }

    fn list(&mut self) -> Step {
        let (oid, dkey, akey) = self.place();
        let listing = match self.0.below(4) {
            0 => Listing::Objects,
            1 => Listing::Dkeys(oid),
            2 => Listing::Akeys(oid, dkey),
            _ => Listing::Extents(oid, dkey, akey),
        };
        Step::List(listing, 1 + self.small_u32(6), self.when())
    }

    fn query(&mut self) -> Step {
        let (_, dkey_number) = (0, self.0.index(DKEYS));
        let oid = typed(if self.0.one_in(2) { ObjectType::MultiUint64 } else { ObjectType::MultiLexical }, 1);
        let (dkey_kind, akey_kind) = kinds(oid);
        let end = if self.0.one_in(2) { QueryFlags::MAX } else { QueryFlags::MIN };
        let levels = 1 + self.small_u32(7);
        let mut flags = end.0;
        for (bit, flag) in [QueryFlags::DKEY, QueryFlags::AKEY, QueryFlags::RECX].into_iter().enumerate() {
            if levels >> bit & 1 == 1 {
                flags |= flag.0;
            }
        }
        let (dkey, akey) = (key(dkey_kind, dkey_number), key(akey_kind, self.0.index(AKEYS)));
        Step::Query(oid, QueryFlags(flags), dkey, akey, self.when())
    }
}
