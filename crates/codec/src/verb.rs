//! What a target can be asked, and what it answers.
//!
//! Payload of a mutation is either borrowed for the duration of `submit` or an owned buffer; a fetch brings
//! the buffer it wants filled and gets it back with the completion, also when it fails.

use crate::order::HashKey;
use core::ops::Range;
use dolmen_types::limits::CSUM_CHUNK_BYTES;
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, IoBuf, Key, Oid, QueryFlags, Recx, TargetNo, TxId,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// One question to a target.
#[derive(Debug)]
pub enum Verb<'a> {
    /// Writes values under one dkey, atomically. Answer: [`Reply::Written`].
    Update(Update<'a>),
    /// Removes an object, a dkey or akeys, atomically. Answer: [`Reply::Written`].
    Punch(Punch),
    /// Reads values under one dkey into a buffer. Answer: [`Reply::Fetched`].
    Fetch(Fetch),
    /// Lists names or extents from an anchor on. Answer: [`Reply::Listed`].
    List(List),
    /// Finds the largest or smallest integer or lexical key, or extent. Answer: [`Reply::Found`].
    Query(Query),
    /// This target's part of a transaction. Answer: [`Reply::Prepared`].
    Prepare(Prepare<'a>),
    /// Decides a prepared transaction for good; repeating it is harmless. Answer: [`Reply::Done`].
    Commit(TxId),
    /// Every participant has acknowledged the commit of a transaction that this target leads: it need not be kept for
    /// them any more. Repeating it, or an unknown id, is harmless. Answer: [`Reply::Done`]. A target at which a transaction was
    /// only read is told of its end by it: what it may ask for need not be kept, whoever its client is.
    Conclude(TxId),
    /// Forgets a prepared transaction; repeating it, or an unknown id, is harmless. Answer: [`Reply::Done`].
    Abort(TxId),
    /// What this target knows of a transaction. Answer: [`Reply::TxState`].
    TxState(TxId),
    /// Prepared transactions without a decision. Answer: [`Reply::InDoubt`].
    InDoubt,
    /// Transactions that this target leads and has committed, and that are not concluded: a participant may not know.
    /// Answer: [`Reply::InDoubt`].
    Unconcluded,
    /// The newest epoch that this target has used; changes nothing. Answer: [`Reply::Written`].
    Latest,
    /// Container verbs.
    Cont(ContVerb),
    /// Space of the target. Answer: [`Reply::Space`].
    Space,
    /// Makes everything acknowledged so far durable. Answer: [`Reply::Done`].
    Flush,
    /// Writes the delta as a run, now. Answer: [`Reply::Done`].
    Checkpoint,
    /// Reads and verifies everything stored, reporting damage. Answer: [`Reply::Audited`].
    Scrub,
    /// Audits every invariant, read-only. Answer: [`Reply::Audited`].
    Check,
}

/// One mutation.
#[derive(Debug, Clone)]
pub enum Mutation<'a> {
    /// Write.
    Update(Update<'a>),
    /// Remove.
    Punch(Punch),
}

/// What came in one message.
#[derive(Debug, Default)]
pub struct Incoming {
    /// All of it.
    pub bytes: IoBuf,
    /// The crc32c of each [`CSUM_CHUNK_BYTES`] of it, taken while it came and found to be what its sender has summed;
    /// empty where that was not done.
    pub sums: ChunkSums,
}

/// A crc32c of each chunk; of a usual transfer without memory of its own.
pub type ChunkSums = SmallVec<[u32; 32]>;

/// Bytes to be written.
#[derive(Debug, Clone)]
pub enum Payload<'a> {
    /// Borrowed until `submit` returns.
    Ref(&'a [u8]),
    /// Owned by the operation.
    Owned(IoBuf),
    /// A part of a buffer that other values have parts of, too: what came in one message.
    Shared {
        /// All of it.
        buf: Arc<Incoming>,
        /// Where the part begins.
        start: usize,
        /// Its length.
        len: usize,
    },
}

impl Payload<'_> {
    /// The bytes.
    ///
    /// # Panics
    /// If a part does not lie in its buffer: whoever makes one has to see to that.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Ref(bytes) => bytes,
            Self::Owned(buf) => buf,
            Self::Shared { buf, start, len } => &buf.bytes[*start..start + len],
        }
    }

    /// The checksums of chunks of [`CSUM_CHUNK_BYTES`] in `part` of the bytes, if those were taken where they came in.
    #[must_use]
    pub fn sums(&self, part: Range<usize>) -> Option<&[u32]> {
        let Self::Shared { buf, start, .. } = self else { return None };
        let (start, end) = (start + part.start, start + part.end);
        let ends_well = end.is_multiple_of(CSUM_CHUNK_BYTES) || end == buf.bytes.len();
        if !start.is_multiple_of(CSUM_CHUNK_BYTES) || !ends_well {
            return None;
        }
        buf.sums.get(start / CSUM_CHUNK_BYTES..end.div_ceil(CSUM_CHUNK_BYTES))
    }

    /// The same with its own copy of borrowed bytes.
    #[must_use]
    pub fn into_owned(self) -> Payload<'static> {
        match self {
            Self::Ref(bytes) => Payload::Owned(IoBuf::copy_of(bytes)),
            Self::Owned(buf) => Payload::Owned(buf),
            Self::Shared { buf, start, len } => Payload::Shared { buf, start, len },
        }
    }
}

/// Values written under one dkey of one object.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    /// Object.
    pub oid: Oid,
    /// Distribution key.
    pub dkey: Key,
    /// Conditions on dkey and akeys.
    pub cond: Cond,
    /// At least one; an akey appears once. In a transaction none, without dkey and conditions, is a gift: what the target has of
    /// the object is charged to whom it is said to, or stays as it is, if nobody is.
    pub iods: SmallVec<[UpdateIod<'a>; 1]>,
    /// The user to whom it is charged, if he is said and whoever asks may say so; else whoever asks is.
    pub charged: Option<u32>,
}

/// What happens to one akey.
#[derive(Debug, Clone)]
pub struct UpdateIod<'a> {
    /// Attribute key.
    pub akey: Key,
    /// Conditions of this akey; read only if the call says `PER_AKEY`.
    pub cond: Cond,
    /// The new value.
    pub value: NewValue<'a>,
}

/// A new value of one akey.
#[derive(Debug, Clone)]
pub enum NewValue<'a> {
    /// The whole single value; at least one byte.
    Single(Payload<'a>),
    /// Removes the single value.
    NoSingle,
    /// Records of an array value. The payload holds the extents' records one after the other.
    Array {
        /// Bytes a record; the same for the life of the array.
        record_bytes: u64,
        /// Disjoint, each inside one window of `limits::WINDOW_RECORDS`.
        extents: SmallVec<[Recx; 1]>,
        /// `record_bytes` x the sum of the counts.
        data: Payload<'a>,
    },
    /// Removes records: they read as holes.
    Hole {
        /// Disjoint; may be of any length.
        extents: SmallVec<[Recx; 1]>,
    },
}

/// What is removed.
#[derive(Debug, Clone)]
pub struct Punch {
    /// Object.
    pub oid: Oid,
    /// The object, one dkey or some akeys.
    pub scope: PunchScope,
    /// `Cond::PUNCH`: fails with `NotFound` unless everything named exists.
    pub cond: Cond,
}

/// How much a punch removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PunchScope {
    /// The object with everything below it.
    Object,
    /// One dkey with everything below it.
    Dkey(Key),
    /// Some akeys of one dkey.
    Akeys(Key, SmallVec<[Key; 1]>),
}

/// At which epoch to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest committed state.
    Latest,
    /// A past state: a snapshot, or any epoch that aggregation has kept.
    Epoch(Epoch),
    /// Inside a transaction that began at this epoch: as `Epoch`, and remembered, so that a later write below
    /// this epoch is refused.
    Tx(Epoch),
}

/// Values read from under one dkey.
#[derive(Debug)]
pub struct Fetch {
    /// Object.
    pub oid: Oid,
    /// Distribution key.
    pub dkey: Key,
    /// `DKEY_FETCH`, `AKEY_FETCH`, or none: what is missing then reads as empty.
    pub cond: Cond,
    /// When.
    pub at: ReadAt,
    /// At least one.
    pub iods: SmallVec<[FetchIod; 1]>,
    /// Where the bytes go: each iod's part after the one before; moves back with the completion.
    pub buf: IoBuf,
}

/// What is wanted of one akey.
#[derive(Debug, Clone)]
pub struct FetchIod {
    /// Attribute key.
    pub akey: Key,
    /// How much of it.
    pub want: Want,
}

/// How much of an akey is wanted.
#[derive(Debug, Clone)]
pub enum Want {
    /// The single value, in this many bytes of the buffer; a larger one is `RecTooBig`.
    Single {
        /// Room in the buffer.
        room_bytes: usize,
    },
    /// Only the size of the single value, or of the array's records.
    Size,
    /// Records of the array value. They take `record_bytes` x count bytes each, holes included; the bytes of
    /// holes are left as they were.
    Array {
        /// Bytes a record; must be the array's.
        record_bytes: u64,
        /// Any length each; the sum must fit the buffer.
        extents: SmallVec<[Recx; 1]>,
    },
}

/// What was found of one akey.
#[derive(Debug, Clone, Default)]
pub struct FetchedIod {
    /// Length of the single value, or bytes a record of the array; 0 if there is nothing.
    pub size_bytes: u64,
    /// For arrays: the parts of the wanted extents that hold data, ascending, merged where they touch.
    pub filled: SmallVec<[Recx; 1]>,
    /// For arrays of objects whose dkeys are integers: no array of the object has a record behind the last of `filled`,
    /// nor under another dkey, as far as the target that answers has it, and without what a transaction has not
    /// committed. A hint: `false` says nothing, so it makes no two answers different.
    pub is_end: bool,
}

impl PartialEq for FetchedIod {
    fn eq(&self, other: &Self) -> bool {
        (self.size_bytes, &self.filled) == (other.size_bytes, &other.filled)
    }
}

impl Eq for FetchedIod {}

/// An enumeration.
#[derive(Debug, Clone)]
pub struct List {
    /// Of what.
    pub what: ListWhat,
    /// Where to resume.
    pub anchor: Anchor,
    /// Stop after this many items.
    pub items_max: u32,
    /// Stop before the packed keys exceed this many bytes; a first key that alone does is `KeyTooBig`.
    pub bytes_max: u32,
    /// When.
    pub at: ReadAt,
}

/// What is enumerated.
#[derive(Debug, Clone)]
pub enum ListWhat {
    /// Objects of the container, in no particular but a stable order.
    Objects,
    /// Dkeys of an object.
    Dkeys(Oid),
    /// Akeys of a dkey.
    Akeys(Oid, Key),
    /// Visible extents of an array value, ascending by index; or the single value as one item.
    Extents(Oid, Key, Key),
    /// Values that differ between two epochs; `at` is ignored.
    Changes {
        /// The older state.
        from: Epoch,
        /// The newer state.
        to: Epoch,
    },
}

/// Keys one after the other in one buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedKeys {
    /// All keys' bytes.
    pub bytes: Vec<u8>,
    /// End offset of each key in `bytes`.
    pub ends: Vec<u32>,
}

impl PackedKeys {
    /// Appends a key.
    ///
    /// # Panics
    /// If the packed bytes exceed 4 GiB; `List::bytes_max` is far below.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(u32::try_from(self.bytes.len()).expect("bounded by List::bytes_max"));
    }

    /// How many keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A key.
    ///
    /// # Panics
    /// If there is no key `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// Removes all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start as usize..end as usize])
    }
}

/// What an enumeration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// Objects.
    Objects(Vec<Oid>),
    /// Dkeys or akeys.
    Keys(PackedKeys),
    /// Extents.
    Extents(Vec<ListedExtent>),
    /// Changed values.
    Changes(Vec<Change>),
}

/// One visible extent, or one single value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedExtent {
    /// Records; `{0, 1}` for a single value.
    pub recx: Recx,
    /// Bytes a record, or of the single value.
    pub record_bytes: u64,
    /// When it was written.
    pub epoch: Epoch,
    /// Whether it is a single value.
    pub single: bool,
}

/// A value that differs between two states.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Object.
    pub oid: Oid,
    /// Distribution key.
    pub dkey: Key,
    /// Attribute key.
    pub akey: Key,
    /// What happened to the value.
    pub kind: ChangeKind,
}

/// How a value differs between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Present only in the newer state.
    Added,
    /// Present only in the older state.
    Removed,
    /// Present in both, written in between.
    Modified,
}

/// A key query.
#[derive(Debug, Clone)]
pub struct Query {
    /// Object.
    pub oid: Oid,
    /// Largest or smallest, of which levels.
    pub flags: QueryFlags,
    /// The dkey, unless it is asked for.
    pub dkey: Key,
    /// The akey, unless it is asked for.
    pub akey: Key,
    /// When.
    pub at: ReadAt,
}

/// The answer to a key query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The dkey, asked for or given.
    pub dkey: Key,
    /// The akey, asked for or given.
    pub akey: Key,
    /// The extent, if it was asked for: the last (or first) contiguous data.
    pub recx: Option<Recx>,
    /// Bytes a record of the array, with `recx`.
    pub record_bytes: u64,
}

/// This target's part of a transaction.
#[derive(Debug, Clone)]
pub struct Prepare<'a> {
    /// The transaction.
    pub tx: TxId,
    /// The epoch that all its writes get.
    pub epoch: Epoch,
    /// Whose record decides.
    pub leader: TargetNo,
    /// All targets with a part. If this target is the only one, preparing commits.
    pub participants: SmallVec<[TargetNo; 4]>,
    /// In program order: later ones win over earlier ones.
    pub mutations: Vec<Mutation<'a>>,
}

/// What a target knows of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxState {
    /// Never heard of it, aborted, or committed and concluded long ago: on its leader, while a participant is undecided,
    /// it is not committed and can be aborted.
    Unknown,
    /// Prepared, undecided.
    Prepared,
    /// Committed.
    Committed,
}

/// A prepared transaction that waits for its decision, or one that is committed and whose participants may wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    /// The transaction.
    pub tx: TxId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Who decides.
    pub leader: TargetNo,
    /// Who takes part.
    pub participants: SmallVec<[TargetNo; 4]>,
}

/// Container verbs; the container is the operation's.
#[derive(Debug, Clone)]
pub enum ContVerb {
    /// Makes the container known. Answer: [`Reply::Done`]; repeating it is harmless.
    Create(ContSpec),
    /// Forgets the container; its space comes back in the background. Answer: [`Reply::Done`].
    Destroy,
    /// Usage. Answer: [`Reply::ContUsage`].
    Usage,
    /// Refuses later writes at or below this epoch. Answer: [`Reply::Done`].
    RaiseFloor(Epoch),
    /// Keeps the state at this epoch. Answer: [`Reply::Done`].
    AddSnapshot(Epoch),
    /// No longer keeps it. Answer: [`Reply::Done`].
    RemoveSnapshot(Epoch),
    /// Hides what was written after `to` up to and including `at` from reads after `at`.
    /// Answer: [`Reply::Done`].
    Rollback {
        /// The snapshot to return to.
        to: Epoch,
        /// When.
        at: Epoch,
    },
    /// Frees what no reader can see, up to this epoch, one bounded step a call. Answer:
    /// [`Reply::Aggregated`].
    Aggregate(Epoch),
}

/// What a target must know of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContSpec {
    /// Secret of its key hash.
    pub hash_key: HashKey,
    /// What its acknowledged writes survive.
    pub durability: Durability,
}

/// Exact usage of a container on a target. Logical bytes are those of keys and values as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Versions of single values and extents stored, hidden ones included.
    pub versions: u64,
    /// Payload bytes of those versions.
    pub value_bytes: u64,
    /// Bulk space they hold, in bytes (whole units).
    pub bulk_bytes: u64,
    /// Bytes they hold in log segments.
    pub small_bytes: u64,
}

/// Space of a target, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceReport {
    /// What the target may use at most.
    pub total_bytes: u64,
    /// What new data may still take, the reserve subtracted.
    pub free_bytes: u64,
    /// Held by bulk segments and log segments on the device.
    pub allocated_bytes: u64,
    /// Used of bulk segments.
    pub bulk_bytes: u64,
    /// Live in log segments.
    pub log_bytes: u64,
    /// Runs.
    pub run_bytes: u64,
    /// Kept back so that a full target can still punch, destroy, checkpoint and merge.
    pub reserve_bytes: u64,
    /// Verified by the background scrub since the target was opened.
    pub scrubbed_bytes: u64,
    /// Damaged versions and blocks that it has found; [`Verb::Check`] names the versions.
    pub damage_count: u64,
}

/// One finding of an audit or scrub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is damaged or inconsistent.
    pub place: dolmen_types::Place,
    /// Which rule it breaks, as a fixed word to look up in docs/operating.md.
    pub rule: &'static str,
}

/// The result of an audit or scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Version records looked at.
    pub versions: u64,
    /// Payload bytes verified.
    pub verified_bytes: u64,
    /// Everything that is wrong; empty means clean.
    pub findings: Vec<Finding>,
    /// What else is wrong, above `limits::FINDINGS_MAX`.
    pub unlisted: u64,
}

impl Audit {
    /// Lists a finding, or counts it if the list is full.
    pub fn note(&mut self, finding: Finding) {
        if self.findings.len() < dolmen_types::limits::FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.unlisted += 1;
        }
    }
}

/// Answers.
#[derive(Debug)]
pub enum Reply {
    /// Committed at this epoch; or the newest epoch, where only that was asked for.
    Written(Epoch),
    /// By iod, in the order of the question; the bytes are in the completion's buffer.
    Fetched(SmallVec<[FetchedIod; 1]>),
    /// A part of an enumeration, and where to resume.
    Listed(Listed, Anchor),
    /// A key query's answer; `None` if there is no such key.
    Found(Option<Found>),
    /// Prepared; committed if this target was the only participant.
    Prepared,
    /// Done.
    Done,
    /// A transaction's state.
    TxState(TxState),
    /// Undecided transactions.
    InDoubt(Vec<InDoubt>),
    /// A container's usage.
    ContUsage(Usage),
    /// Space.
    Space(SpaceReport),
    /// One aggregation step: whether more is left, and versions freed.
    Aggregated {
        /// More to do.
        more: bool,
        /// Versions freed in this step.
        freed: u64,
    },
    /// An audit's result.
    Audited(Audit),
}

impl ContVerb {
    /// Whether the verb works on a container that the target does not know.
    #[must_use]
    pub fn needs_container(&self) -> bool {
        !matches!(self, Self::Create(_) | Self::Destroy)
    }
}

/// The akey, in the system container, of what the pool's service is about to do, or what it begins with. It is there while that
/// is under way, and what destroys a container or a snapshot begins by writing it: a full target takes it from its reserve.
pub const INTENT_AKEY: &[u8] = b"intent";

/// The container that the pool's own records live in has a fixed, public hash key.
#[must_use]
pub fn system_container() -> (ContNo, ContSpec) {
    (ContNo::SYSTEM, ContSpec { hash_key: HashKey([0; 16]), durability: Durability::Power })
}
