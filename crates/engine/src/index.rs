//! The index: a resident delta, a frozen one while it is being checkpointed, and immutable runs.
//!
//! Invariants: versions of one flat prefix (same key, kind and offset) enter in order of their stamps, so the
//! newest source that has a visible one has the newest; entries of the delta refer to frames that are still
//! part of the mapped log.

use crate::conts::View;
use crate::cursor::{PlaceRef, RunHashes};
use crate::error::corrupt;
use crate::log::{Log, LogPlace};
use crate::marks::mix;
use crate::prefixes::Prefixes;
use crate::runs::{BlockSource, Run, RunCursor};
use crate::tree::key::{FlatKey, OBJECT_PREFIX_BYTES, STAMP_BYTES, split_tail};
use crate::tree::{Cursor, Delta, Pos};
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::WriteHead;
use dolmen_codec::version::{ValuePlace, Version, VersionKind};
use dolmen_types::{Epoch, Error, Stamp, TargetNo};

/// Where an entry's version record is.
#[derive(Clone, Debug)]
pub(crate) enum EntryPlace {
    /// In the log.
    Log(LogPlace),
    /// A copy of a run's entry.
    Run(Box<[u8]>),
}

impl EntryPlace {
    #[inline]
    pub(crate) fn as_ref(&self) -> PlaceRef<'_> {
        match self {
            Self::Log(at) => PlaceRef::Log(*at),
            Self::Run(payload) => PlaceRef::Run(payload),
        }
    }
}

/// An entry that a lookup found.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) stamp: Stamp,
    pub(crate) place: EntryPlace,
}

pub(crate) struct Index {
    pub(crate) target: TargetNo,
    pub(crate) delta: Delta,
    pub(crate) frozen: Option<Delta>,
    /// A delta that has become a run and is given back bit by bit.
    retired: Option<Delta>,
    /// Newest first.
    pub(crate) runs: Vec<Run>,
    /// Hashes of the prefixes that have a punch in the delta or the frozen delta.
    punched: Prefixes,
    frozen_punched: Prefixes,
    /// Which kinds delta and frozen delta have, one bit each.
    kinds: u8,
    frozen_kinds: u8,
    /// Bytes of keys and records in delta and frozen delta.
    entry_bytes: u64,
    frozen_entry_bytes: u64,
    /// Extents below objects with integer dkeys, of which filters know the object, too.
    object_extents: u64,
    frozen_object_extents: u64,
    /// Checkpoints begun since the open.
    freezes: u64,
}

/// Hash of a key prefix together with the kind of the entries below it: what runs' filters are asked.
#[inline]
pub(crate) fn prefix_hash(prefix: &[u8], kind: VersionKind) -> u64 {
    let mut hash = kind as u64;
    let mut words = prefix.chunks_exact(8);
    for word in &mut words {
        hash = mix(hash, u64::from_le_bytes(word.try_into().expect("chunks of eight")));
    }
    for &byte in words.remainder() {
        hash = mix(hash, u64::from(byte));
    }
    hash
}

/// What runs' filters are asked about removed values and holes, of an akey or of a whole object; no kind has
/// this number.
#[inline]
pub(crate) fn removal_hash(prefix: &[u8]) -> u64 {
    mix(prefix_hash(prefix, VersionKind::LongHole), 0x484f_4c45)
}

/// What runs' filters are asked about extents anywhere below an object whose dkeys are integers.
#[inline]
pub(crate) fn extents_hash(object_prefix: &[u8]) -> u64 {
    prefix_hash(object_prefix, VersionKind::Array1)
}

#[expect(clippy::cast_possible_truncation, reason = "48")]
const HEAD_BYTES_MAX: u32 = WriteHead::BYTES_MAX as u32;

fn position(place: LogPlace) -> Pos {
    Pos((u64::from(place.segment) << 32) | u64::from(place.offset))
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of a position")]
pub(crate) fn log_place(pos: Pos) -> LogPlace {
    LogPlace { segment: (pos.0 >> 32) as u32, offset: pos.0 as u32 }
}

impl Index {
    /// An empty index; the prefixes with punches and holes take at most `prefixes_bytes`, twice.
    pub(crate) fn new(target: TargetNo, prefixes_bytes: u64) -> Self {
        Self {
            target,
            delta: Delta::default(),
            frozen: None,
            retired: None,
            runs: Vec::new(),
            punched: Prefixes::new(prefixes_bytes),
            frozen_punched: Prefixes::default(),
            kinds: 0,
            frozen_kinds: 0,
            entry_bytes: 0,
            frozen_entry_bytes: 0,
            object_extents: 0,
            frozen_object_extents: 0,
            freezes: 0,
        }
    }

    /// How many checkpoints have begun since the open.
    pub(crate) fn freezes(&self) -> u64 {
        self.freezes
    }

    /// Adds a gift of an object, or says that it is there already.
    #[must_use]
    pub(crate) fn insert_gift(&mut self, key: &FlatKey, place: LogPlace) -> bool {
        let kind = VersionKind::Single;
        self.punched.insert(prefix_hash(&key.as_bytes()[..OBJECT_PREFIX_BYTES], kind));
        self.insert(key, OBJECT_PREFIX_BYTES, kind, place)
    }

    /// Whether there may be gifts of an object.
    #[inline]
    pub(crate) fn may_have_gift(&self, object_prefix: &[u8]) -> bool {
        let kind = VersionKind::Single;
        let are_resident = !(self.punched.is_empty() && self.frozen_punched.is_empty());
        if !are_resident && !self.runs.iter().any(|run| run.holds(kind)) {
            return false;
        }
        let hash = prefix_hash(object_prefix, kind);
        self.punched.may_contain(hash)
            || self.frozen_punched.may_contain(hash)
            || self.runs.iter().any(|run| run.may_hold(kind, hash))
    }

    /// The newest gift of an object that runs have, the frozen delta, and the delta. `key` is the object; it is left as it was.
    pub(crate) fn gifts(
        &self,
        key: &mut FlatKey,
        scratch: &mut Cursor,
        blocks: &mut dyn BlockSource,
    ) -> Result<[Option<Entry>; 3], Error> {
        let mark = key.mark();
        let hash = prefix_hash(key.as_bytes(), VersionKind::Single);
        key.tail(VersionKind::Single, 0, Stamp { epoch: Epoch::MAX, minor: u16::MAX });
        let seek = key.as_bytes();
        let mut newest = |delta: &Delta| {
            delta.seek(scratch, seek);
            let (key, pos) =
                scratch.entry().filter(|(key, _)| key.starts_with(&seek[..seek.len() - STAMP_BYTES]))?;
            let (_, _, stamp) = split_tail(key)?;
            Some(Entry { stamp, place: EntryPlace::Log(log_place(pos)) })
        };
        let (resident, frozen) = (newest(&self.delta), self.frozen.as_ref().and_then(newest));
        let stored = self.newest_in_runs(seek, hash, &|_| true, blocks);
        key.rewind(mark);
        Ok([stored?, frozen, resident])
    }
    /// Adds a version, or says that it is there already. `key` is whole; `prefix_bytes` of it name the object, dkey or akey.
    #[inline]
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        key: &FlatKey,
        prefix_bytes: usize,
        kind: VersionKind,
        place: LogPlace,
    ) -> bool {
        if kind == VersionKind::Punch {
            self.punched.insert(prefix_hash(&key.as_bytes()[..prefix_bytes], kind));
        }
        self.kinds |= 1 << kind as u8;
        self.delta.insert(key.as_bytes(), position(place)).is_none()
    }

    /// Counts what the run of the delta will have of an entry: its key and raw keys have so many bytes.
    #[inline]
    pub(crate) fn note_entry(&mut self, keys_len: usize, value_bytes: u32) {
        /// The rest of a record, a checksum, the entry's place in its block, and its share of the filter.
        const REST_BYTES: usize = 44 + 4 + 12 + 4;
        // Four bytes of checksum for 32 KiB.
        self.entry_bytes += (keys_len + REST_BYTES) as u64 + u64::from(value_bytes >> 13);
    }

    /// Counts an extent below an object whose dkeys are integers.
    #[inline]
    pub(crate) fn note_object_extent(&mut self) {
        self.object_extents += 1;
    }

    /// How many hashes the filter of the frozen delta's run will have, at most, removals aside.
    pub(crate) fn frozen_hashes(&self) -> u64 {
        self.frozen.as_ref().map_or(0, Delta::len) as u64 + self.frozen_object_extents
    }

    /// Notes that a value or records of an akey were removed.
    pub(crate) fn note_removal(&mut self, akey_prefix: &[u8]) {
        self.punched.insert(removal_hash(akey_prefix));
        self.punched.insert(removal_hash(&akey_prefix[..OBJECT_PREFIX_BYTES]));
    }

    /// Whether values or records of an akey, or anywhere below an object, may have been removed; punches do not
    /// count.
    #[inline]
    pub(crate) fn may_have_removal(&self, prefix: &[u8]) -> bool {
        if self.punched.is_empty() && self.frozen_punched.is_empty() && self.runs.is_empty() {
            return false;
        }
        let hash = removal_hash(prefix);
        self.punched.may_contain(hash)
            || self.frozen_punched.may_contain(hash)
            || self.runs.iter().any(|run| run.may_hold_removal(hash))
    }

    /// What confines a cursor to the runs that have entries of some kinds of an akey.
    pub(crate) fn hashes_of(&self, akey_prefix: &[u8], kinds: &[VersionKind]) -> RunHashes {
        let hash = |&kind: &VersionKind| (kind, prefix_hash(akey_prefix, kind));
        if self.runs.is_empty() { RunHashes::new() } else { kinds.iter().map(hash).collect() }
    }

    /// As `hashes_of`, of every kind that some run has.
    pub(crate) fn hashes_of_all(&self, akey_prefix: &[u8]) -> RunHashes {
        let kinds = [VersionKind::Punch, VersionKind::Single].into_iter().chain(VersionKind::ARRAYS);
        let held = kinds.filter(|&kind| self.runs.iter().any(|run| run.holds(kind)));
        held.map(|kind| (kind, prefix_hash(akey_prefix, kind))).collect()
    }

    /// Brings near what filters say of the kinds that an insert asks for, of all runs at once.
    pub(crate) fn prefetch_filters(&self, akey_prefix: &[u8]) {
        let hashes = self.hashes_of_all(akey_prefix);
        for run in &self.runs {
            let held = hashes.iter().filter(|(kind, _)| run.holds(*kind));
            held.for_each(|&(_, hash)| run.prefetch(hash));
        }
    }

    /// Begins a checkpoint: what is in the delta becomes the frozen one.
    pub(crate) fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.freezes += 1;
        self.frozen = Some(core::mem::take(&mut self.delta));
        self.frozen_punched = self.punched.take();
        self.frozen_kinds = core::mem::take(&mut self.kinds);
        self.frozen_entry_bytes = core::mem::take(&mut self.entry_bytes);
        self.frozen_object_extents = core::mem::take(&mut self.object_extents);
    }

    /// Ends a checkpoint: the frozen delta is a run now.
    pub(crate) fn thaw(&mut self, run: Run) {
        self.retired = self.frozen.take();
        self.end_frozen();
        self.runs.insert(0, run);
    }

    /// Gives back a part of the memory of a delta that has become a run; `true` if there was any.
    pub(crate) fn free_retired(&mut self, nodes: usize) -> bool {
        let Some(retired) = &mut self.retired else {
            return false;
        };
        if retired.dismantle(nodes) {
            self.retired = None;
        }
        true
    }

    /// Ends a checkpoint that had nothing to write.
    pub(crate) fn thaw_empty(&mut self) {
        let frozen = self.frozen.take();
        assert!(frozen.is_none_or(|frozen| frozen.is_empty()), "only an empty delta becomes no run");
        self.end_frozen();
    }

    fn end_frozen(&mut self) {
        self.frozen_punched = Prefixes::default();
        self.frozen_kinds = 0;
        self.frozen_entry_bytes = 0;
        self.frozen_object_extents = 0;
    }

    /// At most so many bytes will the runs of delta and frozen delta have.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        /// Header, fence, filter and footer of a run with little in it.
        const LEAST_BYTES: u64 = 4 * 4096;
        (self.entry_bytes + self.frozen_entry_bytes) / 4 * 5 + 2 * LEAST_BYTES
    }

    /// Memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let deltas = core::iter::once(&self.delta).chain(&self.frozen).chain(&self.retired);
        let deltas: usize = deltas.map(Delta::resident_bytes).sum();
        let prefixes = self.punched.resident_bytes() + self.frozen_punched.resident_bytes();
        (deltas + prefixes) as u64 + self.runs_resident_bytes()
    }

    /// Memory of fences and filters, in bytes.
    pub(crate) fn runs_resident_bytes(&self) -> u64 {
        self.runs.iter().map(Run::resident_bytes).sum::<usize>() as u64
    }

    /// Whether any source may have entries of `kind` below `prefix`.
    #[inline]
    pub(crate) fn may_have(&self, prefix: &[u8], kind: VersionKind) -> bool {
        if kind != VersionKind::Punch && (self.kinds | self.frozen_kinds) >> (kind as u8) & 1 == 1 {
            return true;
        }
        let has_punches =
            kind == VersionKind::Punch && !(self.punched.is_empty() && self.frozen_punched.is_empty());
        if !has_punches && !self.runs.iter().any(|run| run.holds(kind)) {
            return false;
        }
        let hash = prefix_hash(prefix, kind);
        has_punches && (self.punched.may_contain(hash) || self.frozen_punched.may_contain(hash))
            || self.runs.iter().any(|run| run.may_hold(kind, hash))
    }

    /// Whether there may be extents of any age below an object whose dkeys are integers.
    pub(crate) fn may_have_extents(&self, object_prefix: &[u8], scratch: &mut Cursor) -> bool {
        let mut is_resident = |delta: &Delta| {
            delta.seek(scratch, object_prefix);
            scratch.entry().is_some_and(|(key, _)| key.starts_with(object_prefix))
        };
        if core::iter::once(&self.delta).chain(&self.frozen).any(&mut is_resident) {
            return true;
        }
        let hash = extents_hash(object_prefix);
        self.runs.iter().any(|run| run.may_contain(hash))
    }

    /// The newest visible entry of a flat prefix. `key` is the object, dkey or akey; it is left as it was.
    #[inline]
    pub(crate) fn newest(
        &self,
        key: &mut FlatKey,
        kind: VersionKind,
        view: &View,
        scratch: &mut Cursor,
        blocks: &mut dyn BlockSource,
    ) -> Result<Option<Entry>, Error> {
        let mark = key.mark();
        let hash = if self.runs.is_empty() { 0 } else { prefix_hash(key.as_bytes(), kind) };
        key.tail(kind, 0, Stamp { epoch: view.at, minor: u16::MAX });
        let found = self.newest_at(key.as_bytes(), hash, view, scratch, blocks);
        key.rewind(mark);
        found
    }

    fn newest_at(
        &self,
        seek: &[u8],
        hash: u64,
        view: &View,
        scratch: &mut Cursor,
        blocks: &mut dyn BlockSource,
    ) -> Result<Option<Entry>, Error> {
        let prefix = &seek[..seek.len() - STAMP_BYTES];
        for delta in core::iter::once(&self.delta).chain(&self.frozen) {
            delta.seek(scratch, seek);
            while let Some((key, pos)) = scratch.entry() {
                if !key.starts_with(prefix) {
                    break;
                }
                let (_, _, stamp) = split_tail(key).expect("the delta holds whole keys");
                if view.sees(stamp.epoch) {
                    return Ok(Some(Entry { stamp, place: EntryPlace::Log(log_place(pos)) }));
                }
                delta.advance(scratch);
            }
        }
        self.newest_in_runs(seek, hash, &|epoch| view.sees(epoch), blocks)
    }

    #[inline]
    fn newest_in_runs(
        &self,
        seek: &[u8],
        hash: u64,
        sees: &impl Fn(Epoch) -> bool,
        blocks: &mut dyn BlockSource,
    ) -> Result<Option<Entry>, Error> {
        let prefix = &seek[..seek.len() - STAMP_BYTES];
        for run in &self.runs {
            if !run.may_contain(hash) {
                continue;
            }
            let mut cursor = RunCursor::default();
            cursor.seek(run, seek, blocks)?;
            while let Some((key, payload)) = cursor.entry() {
                if !key.starts_with(prefix) {
                    break;
                }
                let (_, _, stamp) = split_tail(key).ok_or_else(|| run.corrupt(self.target))?;
                if sees(stamp.epoch) {
                    return Ok(Some(Entry { stamp, place: EntryPlace::Run(payload.into()) }));
                }
                cursor.advance(run, blocks)?;
            }
        }
        Ok(None)
    }

    /// Decodes an entry's version and says where an inline value begins.
    #[inline]
    pub(crate) fn version<'a>(
        &self,
        log: &'a Log,
        place: PlaceRef<'a>,
    ) -> Result<(Version<'a>, ValuePlace), Error> {
        match place {
            PlaceRef::Log(at) => version_in_log(log, at)
                .ok_or_else(|| corrupt(self.target, "log", u64::from(at.segment), u64::from(at.offset))),
            PlaceRef::Run(payload) => {
                let version = Version::decode(&mut Reader::new(payload))
                    .ok_or_else(|| corrupt(self.target, "run", 0, 0))?;
                Ok((version, version.place))
            }
        }
    }
}

/// The version at a place of the mapped log, and where its value is; `None` if it is not what was written.
#[inline]
pub(crate) fn version_in_log(log: &Log, at: LogPlace) -> Option<(Version<'_>, ValuePlace)> {
    record_in_log(log, at).map(|(version, place, _)| (version, place))
}

/// The same, with the head of the record if it is its first version, or no bytes.
#[inline]
pub(crate) fn record_in_log(log: &Log, at: LogPlace) -> Option<(Version<'_>, ValuePlace, &[u8])> {
    let before = at.offset.min(HEAD_BYTES_MAX);
    let mut reader = Reader::new(log.mapped(LogPlace { offset: at.offset - before, ..at })?);
    reader.take(before as usize)?;
    let (version, head) = Version::decode_with_head(&mut reader)?;
    let place = match version.place {
        ValuePlace::Inline => {
            let behind = u32::try_from(reader.position()).ok()?;
            ValuePlace::Log { segment: at.segment, offset: (at.offset - before).checked_add(behind)? }
        }
        place => place,
    };
    Some((version, place, head))
}
