//! What a target has stored: devices, log, bulk, index, and the lookups over them.

use crate::bulk::Bulk;
use crate::conts::View;
use crate::cursor::{IndexCursor, RunHashes};
use crate::error::disk_error;
use crate::index::{Entry, EntryPlace, Index, extents_hash, record_in_log};
use crate::log::{Log, LogPlace, TENTATIVE_SEGMENT};
use crate::open::{SLOTS, SUPERBLOCK_FILE};
use crate::path::{Depth, Path};
use crate::runs::{Blocks, IntactBlocks};
use crate::tree::Cursor;
use crate::tree::key::TAIL_BYTES;
use crate::value::Stored;
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::WriteHead;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::version::{ValuePlace, Version, VersionKind};
use dolmen_env::Disk;
use dolmen_types::{Error, Recx, Stamp, TargetNo};
use std::collections::{BTreeMap, BTreeSet};

/// The devices; bulk may share that of the metadata.
pub(crate) struct Disks {
    pub(crate) meta: Box<dyn Disk>,
    bulk: Option<Box<dyn Disk>>,
}

impl Disks {
    pub(crate) fn new(meta: Box<dyn Disk>, bulk: Option<Box<dyn Disk>>) -> Self {
        Self { meta, bulk }
    }

    pub(crate) fn bulk(&mut self) -> &mut dyn Disk {
        match &mut self.bulk {
            Some(bulk) => &mut **bulk,
            None => &mut *self.meta,
        }
    }

    pub(crate) fn has_bulk_device(&self) -> bool {
        self.bulk.is_some()
    }

    /// Makes the superblock of a device of its own for bulk, which says whose it is and nothing else.
    pub(crate) fn create_bulk(&mut self, target: TargetNo, target_id: u128) -> Result<(), Error> {
        if let Some(disk) = &mut self.bulk {
            let size = SLOTS * SUPERBLOCK_SLOT_BYTES as u64;
            let file = disk.create(SUPERBLOCK_FILE, size).map_err(|e| disk_error(target, &e))?;
            disk.close(file);
        }
        self.mark_bulk(target, target_id, 0)
    }

    /// Writes it for a life of the pool, into the slot that does not hold the life before.
    pub(crate) fn mark_bulk(&mut self, target: TargetNo, target_id: u128, life: u64) -> Result<(), Error> {
        let Some(disk) = &mut self.bulk else {
            return Ok(());
        };
        let io = |e: dolmen_env::Error| disk_error(target, &e);
        let superblock = Superblock { target_id, sequence: life, life, ..Superblock::default() };
        let file = disk.open(SUPERBLOCK_FILE).map_err(io)?;
        let written = disk.write_at(file, life % SLOTS * SUPERBLOCK_SLOT_BYTES as u64, &superblock.encode());
        let flushed = written.and_then(|()| disk.flush(file));
        disk.close(file);
        flushed.map_err(io)
    }
}

pub(crate) struct Store {
    pub(crate) target: TargetNo,
    pub(crate) disks: Disks,
    pub(crate) log: Log,
    pub(crate) bulk: Bulk,
    pub(crate) index: Index,
    pub(crate) blocks: Blocks,
    pub(crate) hot: crate::hot::Hot,
    pub(crate) record_sizes: crate::hot::RecordSizes,
    pub(crate) scratch: Cursor,
    pub(crate) fetch_scratch: crate::fetch::FetchScratch,
    spare: Option<Box<Path>>,
    spare_cursor: Option<IndexCursor>,
    pub(crate) spare_walk: Option<crate::walk::KeyWalk>,
}

/// What the short way found: a key's newest version.
pub(crate) struct HotHit {
    pub(crate) stamp: Stamp,
    /// `None` for a removal or hole.
    pub(crate) stored: Option<Stored>,
    pub(crate) record_bytes: u32,
    pub(crate) recx: Recx,
}

/// Bytes between the start of a `Write` body and its first version, as a rule and at least.
#[expect(clippy::cast_possible_truncation, reason = "24")]
pub(crate) const HEAD_BYTES_MIN: u32 = WriteHead::BYTES_MIN as u32;

/// A version that takes part in an array at some epoch.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) recx: Recx,
    pub(crate) stamp: Stamp,
    /// 0 for a hole.
    pub(crate) record_bytes: u32,
    pub(crate) place: EntryPlace,
}

/// A visible part of an extent: records `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Index into the extents that were resolved.
    pub(crate) extent: usize,
}

impl Store {
    pub(crate) fn new(
        target: TargetNo,
        disks: Disks,
        log: Log,
        bulk: Bulk,
        index: Index,
        blocks: Blocks,
        hot: crate::hot::Hot,
    ) -> Self {
        Self {
            target,
            disks,
            log,
            bulk,
            index,
            blocks,
            hot,
            record_sizes: crate::hot::RecordSizes::default(),
            scratch: Cursor::default(),
            fetch_scratch: crate::fetch::FetchScratch::default(),
            spare: None,
            spare_cursor: None,
            spare_walk: None,
        }
    }

    /// Memory of index, caches and short ways, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let caches = self.blocks.resident_bytes() as u64 + self.bulk.bufs.resident_bytes();
        self.index.resident_bytes() + self.hot.resident_bytes() + caches
    }

    /// A path to build a key in; give it back with `put_path` so that it is not allocated anew.
    #[inline]
    pub(crate) fn take_path(&mut self) -> Box<Path> {
        self.spare.take().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn put_path(&mut self, path: Box<Path>) {
        self.spare = Some(path);
    }

    /// A cursor over everything; give it back with `put_cursor` so that it is not allocated anew.
    #[inline]
    pub(crate) fn take_cursor(&mut self) -> IndexCursor {
        let mut cursor = self.spare_cursor.take().unwrap_or_default();
        cursor.within(RunHashes::new());
        cursor.during(None);
        cursor
    }

    #[inline]
    pub(crate) fn put_cursor(&mut self, cursor: IndexCursor) {
        self.spare_cursor = Some(cursor);
    }

    /// The newest visible entry of a kind at the path's present level.
    #[inline]
    pub(crate) fn newest(
        &mut self,
        path: &mut Path,
        kind: VersionKind,
        view: &View,
    ) -> Result<Option<Entry>, Error> {
        let blocks = &mut self.blocks.source(&mut *self.disks.meta);
        self.index.newest(&mut path.key, kind, view, &mut self.scratch, blocks)
    }

    /// The newest visible punch that covers the path down to `depth`; the path is left there.
    #[inline]
    pub(crate) fn cover(&mut self, path: &mut Path, depth: Depth, view: &View) -> Result<Stamp, Error> {
        let mut cover = Stamp::default();
        for level in [Depth::Object, Depth::Dkey, Depth::Akey] {
            if level > depth {
                break;
            }
            let prefix = path.up_len(level);
            if self.index.may_have(&path.key.as_bytes()[..prefix], VersionKind::Punch) {
                let mut above = path.clone();
                above.up(level);
                if let Some(punch) = self.newest(&mut above, VersionKind::Punch, view)? {
                    path.refuse_collision(level, &self.version(&punch.place)?)?;
                    cover = cover.max(punch.stamp);
                }
            }
        }
        Ok(cover)
    }

    /// The visible single value of an akey.
    ///
    /// REQUIRES: the path is at the akey.
    #[inline]
    pub(crate) fn single(
        &mut self,
        path: &mut Path,
        view: &View,
        cover: Stamp,
    ) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.newest(path, VersionKind::Single, view)? else {
            return Ok(None);
        };
        if entry.stamp <= cover {
            return Ok(None);
        }
        let version = self.version(&entry.place)?;
        path.refuse_collision(Depth::Akey, &version)?;
        let is_data = version.is_data();
        Ok(is_data.then_some(entry))
    }

    /// The visible single value of an akey, ready to be read; by the short way if there is one. If not, and
    /// `may_note`, there is one from now on.
    ///
    /// REQUIRES: the path is at the akey; what the view sees is the newest of all and no merge is under way, if
    /// `may_note`.
    #[inline]
    pub(crate) fn single_stored(
        &mut self,
        path: &mut Path,
        view: &View,
        cover: Stamp,
        may_note: bool,
    ) -> Result<Option<Stored>, Error> {
        if view.is_plain()
            && let Some(hit) = self.hot_version(path, VersionKind::Single, 0)
            && hit.stamp.epoch <= view.at
        {
            return Ok(if hit.stamp > cover { hit.stored } else { None });
        }
        let Some(entry) = self.single(path, view, cover)? else {
            return Ok(None);
        };
        let stored = self.stored(&entry.place)?;
        if may_note && view.is_plain() {
            self.note_found(path, &entry, &stored)?;
        }
        Ok(Some(stored))
    }

    /// The newest version of a key, if the short way leads to it.
    #[inline]
    pub(crate) fn hot_version(&self, path: &Path, kind: VersionKind, index: u64) -> Option<HotHit> {
        let is_it = version_of(path, kind, index)?;
        self.hot_record(path, path.hot_hash(kind, index), is_it).map(|(_, hit)| hit)
    }

    /// The extent that is all that is visible of an array since it was written, if the short way leads to one.
    ///
    /// REQUIRES: the path is at the akey.
    #[inline]
    pub(crate) fn sole_extent(&self, path: &Path) -> Option<HotHit> {
        let (dkey, akey) = path.raw()?;
        let is_it = |version: &Version<'_>| {
            path.may_be_sole(version.kind) && version.dkey == dkey && version.akey == akey
        };
        self.hot_record(path, path.sole_hash(), is_it).map(|(_, hit)| hit)
    }

    /// The extent that is all that is visible of all arrays of an object since it was written, if it is one of
    /// `akey` and the short way leads to it; with its dkey.
    ///
    /// REQUIRES: the path is at an object whose dkeys are integers.
    pub(crate) fn sole_of_object(&self, path: &Path, akey: &[u8]) -> Option<(&[u8], HotHit)> {
        let is_it = |version: &Version<'_>| path.may_be_sole(version.kind) && version.akey == akey;
        self.hot_record(path, path.sole_hash(), is_it)
    }

    /// Brings near what tells the end of the path's object: the bucket of its sole extent, and the filters that know of
    /// any.
    ///
    /// REQUIRES: its dkeys are integers.
    #[inline]
    pub(crate) fn prefetch_sole(&self, path: &Path) {
        self.hot.prefetch(path.sole_hash());
        let hash = extents_hash(&path.key.as_bytes()[..path.up_len(Depth::Object)]);
        self.index.runs.iter().for_each(|run| run.prefetch(hash));
    }

    /// Whether there may be extents of any age anywhere below the path's object.
    ///
    /// REQUIRES: its dkeys are integers.
    #[inline]
    pub(crate) fn may_have_extents(&mut self, path: &Path) -> bool {
        self.index.may_have_extents(&path.key.as_bytes()[..path.up_len(Depth::Object)], &mut self.scratch)
    }

    /// A version of the path's object that the hot table leads to, with its dkey.
    #[inline]
    fn hot_record(
        &self,
        path: &Path,
        hash: u64,
        is_it: impl Fn(&Version<'_>) -> bool,
    ) -> Option<(&[u8], HotHit)> {
        self.hot.candidates(hash).find_map(|place| self.record_at(place, path, &is_it))
    }

    /// The version of the path's object whose record, with its head before it, is at this place of the log, with its
    /// dkey; if there is one.
    #[inline]
    fn record_at(
        &self,
        place: LogPlace,
        path: &Path,
        is_it: impl Fn(&Version<'_>) -> bool,
    ) -> Option<(&[u8], HotHit)> {
        let (version, value, head) = record_in_log(&self.log, place)?;
        let head = WriteHead::decode(&mut Reader::new(head))?;
        if head.oid != path.oid || head.cont != path.cont || !is_it(&version) {
            return None;
        }
        let stamp = Stamp { epoch: head.epoch, minor: version.minor };
        let stored = version.is_data().then(|| crate::value::stored(&version, value));
        let (record_bytes, recx) = (version.record_bytes, version.recx);
        Some((version.dkey, HotHit { stamp, stored, record_bytes, recx }))
    }

    /// The short way is to lead to the newest version of a single value, found the long way.
    fn note_found(&mut self, path: &Path, found: &Entry, stored: &Stored) -> Result<(), Error> {
        let place = match &found.place {
            EntryPlace::Log(at) => Some(*at),
            EntryPlace::Run(_) => record_of(&self.version(&found.place)?),
        };
        let (Some(place), Some(is_it)) = (place, version_of(path, VersionKind::Single, 0)) else {
            return Ok(());
        };
        // Behind the first version of a record there is no head before the next one; and what has been damaged since
        // the entry was written must not be believed instead of it.
        let is_same = |hit: HotHit| hit.stamp == found.stamp && hit.stored.as_ref() == Some(stored);
        if place.segment != TENTATIVE_SEGMENT
            && self.record_at(place, path, is_it).is_some_and(|(_, hit)| is_same(hit))
        {
            self.hot.found(path.hot_hash(VersionKind::Single, 0), place);
        }
        Ok(())
    }

    /// An entry's version.
    #[inline]
    pub(crate) fn version<'a>(&'a self, place: &'a EntryPlace) -> Result<Version<'a>, Error> {
        Ok(self.index.version(&self.log, place.as_ref())?.0)
    }

    /// All versions of an array that take part in `start..end`, whatever hides them of each other.
    ///
    /// REQUIRES: the path is at the akey.
    pub(crate) fn extents(
        &mut self,
        path: &mut Path,
        range: (u64, u64),
        view: &View,
        cover: Stamp,
        out: &mut Vec<Extent>,
    ) -> Result<(), Error> {
        out.clear();
        let akey = path.key.mark();
        for kind in VersionKind::ARRAYS {
            if self.index.may_have(path.key.as_bytes(), kind) {
                let found = self.extents_of_kind(path, kind, range, view, cover, out);
                path.key.rewind(akey);
                found?;
            }
        }
        Ok(())
    }

    fn extents_of_kind(
        &mut self,
        path: &mut Path,
        kind: VersionKind,
        (start, end): (u64, u64),
        view: &View,
        cover: Stamp,
        out: &mut Vec<Extent>,
    ) -> Result<(), Error> {
        let reach = kind.records_max().expect("an array kind") - 1;
        let newest = Stamp { epoch: dolmen_types::Epoch::MAX, minor: u16::MAX };
        let from = start.saturating_sub(reach);
        let mut cursor = self.take_cursor();
        cursor.within(self.index.hashes_of(path.key.as_bytes(), &[kind]));
        path.key.tail(kind, from, newest);
        let whole = path.key.as_bytes();
        let prefix = &whole[..whole.len() - TAIL_BYTES + 1];
        self.reseek(&mut cursor, whole)?;
        while let Some(key) = cursor.key() {
            if !key.starts_with(prefix) {
                break;
            }
            let (_, offset, stamp) = split_tail(self.target, key, prefix.len() - 1)?;
            if offset >= end {
                break;
            }
            if view.sees(stamp.epoch) && stamp > cover {
                let (version, _) = self.index.version(&self.log, cursor.place())?;
                path.refuse_collision(Depth::Akey, &version)?;
                let (recx, record_bytes) = (version.recx, version.record_bytes);
                if recx.index.saturating_add(recx.count) > start {
                    let place = cursor.place().to_place();
                    out.push(Extent { recx, stamp, record_bytes, place });
                }
            }
            self.advance(&mut cursor)?;
        }
        self.put_cursor(cursor);
        Ok(())
    }

    /// Moves a cursor to the first entry at or above `key`.
    #[inline]
    pub(crate) fn reseek(&mut self, cursor: &mut IndexCursor, key: &[u8]) -> Result<(), Error> {
        cursor.seek(&self.index, key, &mut self.blocks.source(&mut *self.disks.meta))
    }

    /// As `reseek`, over what is left of damaged runs on the device: `damaged` gets the blocks that are passed over, as
    /// number of the run and offset. How many bytes of blocks were read.
    ///
    /// REQUIRES: the cursor is new: one that was used may hold blocks that were read at another time.
    pub(crate) fn reseek_intact(
        &mut self,
        cursor: &mut IndexCursor,
        key: &[u8],
        damaged: &mut BTreeSet<(u64, u64)>,
    ) -> Result<u64, Error> {
        let mut blocks = IntactBlocks::new(&mut *self.disks.meta, damaged);
        cursor.seek(&self.index, key, &mut blocks)?;
        Ok(blocks.read_bytes)
    }

    /// As `advance`, in the same way.
    pub(crate) fn advance_intact(
        &mut self,
        cursor: &mut IndexCursor,
        damaged: &mut BTreeSet<(u64, u64)>,
    ) -> Result<u64, Error> {
        let mut blocks = IntactBlocks::new(&mut *self.disks.meta, damaged);
        cursor.advance(&self.index, &mut blocks)?;
        Ok(blocks.read_bytes)
    }

    /// Moves a cursor to the last entry below `key`; from there it goes downwards.
    #[inline]
    pub(crate) fn seek_below(&mut self, cursor: &mut IndexCursor, key: &[u8]) -> Result<(), Error> {
        cursor.seek_below(&self.index, key, &mut self.blocks.source(&mut *self.disks.meta))
    }

    /// Moves a cursor to the next entry of its way.
    #[inline]
    pub(crate) fn advance(&mut self, cursor: &mut IndexCursor) -> Result<(), Error> {
        cursor.advance(&self.index, &mut self.blocks.source(&mut *self.disks.meta))
    }
}

/// Kind, offset and stamp of an entry's key, which are all that stands behind its first `level` bytes.
///
/// Only a forged run has a longer key there. Its end says nothing of where in the order it stands, so that a walk that
/// trusts it may come by it for ever.
#[inline]
pub(crate) fn split_tail(
    target: TargetNo,
    key: &[u8],
    level: usize,
) -> Result<(VersionKind, u64, Stamp), Error> {
    let tail = key.get(level..).filter(|tail| tail.len() == TAIL_BYTES);
    tail.and_then(crate::tree::key::split_tail).ok_or_else(|| crate::error::corrupt(target, "run", 0, 0))
}

/// Decides which parts of the extents are visible in `start..end`: the newest wins, holes hide without
/// being visible. Pieces come out in ascending order; the extents end up newest first.
pub(crate) fn resolve(extents: &mut [Extent], (start, end): (u64, u64), pieces: &mut Vec<Piece>) {
    pieces.clear();
    // A joined extent has the stamp of the last of its parts, and hides it.
    extents.sort_unstable_by_key(|extent| core::cmp::Reverse((extent.stamp, extent.recx.count)));
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    if let Some(first) = extents.first() {
        // Nearly every lookup ends here: the newest version covers all that is wanted.
        if first.recx.index <= start && first.recx.index.saturating_add(first.recx.count) >= end {
            if first.record_bytes > 0 {
                pieces.push(Piece { start, end, extent: 0 });
            }
            return;
        }
        open.insert(start, end);
    }
    for (number, extent) in extents.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let (from, upto) = (extent.recx.index, extent.recx.index.saturating_add(extent.recx.count));
        take_range(&mut open, from, upto, |start, end| {
            if extent.record_bytes > 0 {
                pieces.push(Piece { start, end, extent: number });
            }
        });
    }
    pieces.sort_unstable_by_key(|piece| piece.start);
}

/// Cuts `from..upto` out of the open intervals and reports each part cut out.
fn take_range(open: &mut BTreeMap<u64, u64>, from: u64, upto: u64, mut taken: impl FnMut(u64, u64)) {
    let first = open.range(..=from).next_back().map_or(from, |(&start, _)| start);
    let touched: Vec<(u64, u64)> =
        open.range(first..upto).map(|(&s, &e)| (s, e)).filter(|&(_, end)| end > from).collect();
    for (start, end) in touched {
        open.remove(&start);
        if start < from {
            open.insert(start, from);
        }
        if end > upto {
            open.insert(upto, end);
        }
        taken(start.max(from), end.min(upto));
    }
}

/// Whether a version is one of the path's akey, of this kind and from this record on; `None` if keys are not known.
#[inline]
fn version_of(path: &Path, kind: VersionKind, index: u64) -> Option<impl Fn(&Version<'_>) -> bool> {
    let (dkey, akey) = path.raw()?;
    Some(move |version: &Version<'_>| {
        version.kind == kind && version.recx.index == index && version.dkey == dkey && version.akey == akey
    })
}

/// Where in the log the record of a small value is. A short way leads there or not at all.
pub(crate) fn record_of(version: &Version<'_>) -> Option<LogPlace> {
    let ValuePlace::Log { segment, offset } = version.place else {
        return None;
    };
    let head_bytes = u32::try_from(version.logged_head_bytes()).ok()?;
    Some(LogPlace { segment, offset: offset.checked_sub(head_bytes)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogPlace;
    use dolmen_types::Epoch;
    use proptest::prelude::*;

    fn extent(index: u64, count: u64, epoch: u64, hole: bool) -> Extent {
        Extent {
            recx: Recx::new(index, count),
            stamp: Stamp { epoch: Epoch(epoch), minor: 0 },
            record_bytes: u32::from(!hole),
            place: EntryPlace::Log(LogPlace { segment: 0, offset: 0 }),
        }
    }

    proptest! {
        #[test]
        fn resolved_pieces_are_those_of_a_record_by_record_walk(
            spec in prop::collection::vec((0u64..30, 1u64..12, any::<bool>()), 0..12), start in 0u64..20, len in 1u64..25)
        {
            let mut extents: Vec<_> =
                spec.iter().zip(1..).map(|(&(i, n, hole), epoch)| extent(i, n, epoch, hole)).collect();
            let mut pieces = Vec::new();
            resolve(&mut extents, (start, start + len), &mut pieces);
            let mut seen = vec![0; 64];
            for piece in &pieces {
                for record in piece.start..piece.end {
                    seen[usize::try_from(record).unwrap()] = extents[piece.extent].stamp.epoch.0;
                }
            }
            for record in 0..64u64 {
                let inside = record >= start && record < start + len;
                let newest = extents.iter().filter(|e| record >= e.recx.index && record < e.recx.index + e.recx.count)
                    .max_by_key(|e| e.stamp).filter(|e| inside && e.record_bytes > 0);
                prop_assert_eq!(seen[usize::try_from(record).unwrap()], newest.map_or(0, |e| e.stamp.epoch.0));
            }
            prop_assert!(pieces.windows(2).all(|w| w[0].end <= w[1].start));
        }
    }
}
