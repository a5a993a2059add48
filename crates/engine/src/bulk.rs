//! Bulk space: values too large for the log, in units of 4 KiB inside preallocated segments.
//!
//! Invariants: a unit is in use from its allocation until the checkpoint after the one that dropped its
//! last reference; only then can no crash bring the reference back.

use crate::bufs::Bufs;
use crate::config::TargetConfig;
use crate::error::disk_error;
use crate::ready::Ready;
use crate::spares::Spares;
use dolmen_codec::manifest::{BulkSegmentInfo, SEGMENT_NUMBER_MAX};
use dolmen_env::{Disk, FileId, Media, Region};
use dolmen_types::{ContNo, Error, TargetNo, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Segments without anything in use are kept for reuse, one and as many as this part of what is in use, but no more
/// than are used again: on tmpfs a fresh page costs several times what writing it again does, and on ext4 a block that
/// was never written half of the device's rate. More are removed, so that space comes back.
const EMPTY_PARTS_OF_USED: u64 = 8;

/// Where an extent's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct BulkPlace {
    pub(crate) segment: u32,
    pub(crate) unit: u32,
}

pub(crate) struct BulkSegment {
    pub(crate) file: FileId,
    pub(crate) region: Option<Region>,
    bitmap: Vec<u64>,
    free: u32,
    hint: u32,
}

pub(crate) struct Bulk {
    target: TargetNo,
    segments: BTreeMap<u32, BulkSegment>,
    segment_units: u32,
    /// Allocated by operations whose log record does not exist yet.
    inflight: BTreeSet<(BulkPlace, u32)>,
    /// Dropped since the last checkpoint began, and while it was being written.
    dropped: Vec<(BulkPlace, u32)>,
    dropping: Vec<(BulkPlace, u32)>,
    /// Segments written since their last flush.
    pub(crate) dirty: BTreeSet<u32>,
    /// Segments were created whose names are not durable: the next flush covers them, too.
    pub(crate) fresh_names: bool,
    used_units: u64,
    /// Units taken.
    spares: Spares,
    last: u32,
    /// Bytes that frames behind the last checkpoint refer to: a recovery reads them all.
    logged_bytes: u64,
    /// Of direct writes.
    pub(crate) bufs: Bufs,
    pub(crate) ready: Ready,
}

/// Units that `bytes` take.
pub(crate) fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(limits::BULK_UNIT_BYTES)).expect("a value is limited to a few MiB")
}

pub(crate) fn file_name(number: u32) -> String {
    format!("bulk.{number:08x}")
}

impl Bulk {
    pub(crate) fn new(config: &TargetConfig) -> Self {
        let segment_units = units(u64::from(config.bulk_segment_bytes));
        Self {
            target: config.target,
            segments: BTreeMap::new(),
            segment_units,
            inflight: BTreeSet::new(),
            dropped: Vec::new(),
            dropping: Vec::new(),
            dirty: BTreeSet::new(),
            fresh_names: false,
            used_units: 0,
            spares: Spares::default(),
            last: 0,
            logged_bytes: 0,
            bufs: Bufs::new(config.memory_budget_bytes),
            ready: Ready::default(),
        }
    }

    /// Opens the segments that a manifest names.
    pub(crate) fn open(&mut self, disk: &mut dyn Disk, infos: &[BulkSegmentInfo]) -> Result<(), Error> {
        for info in infos {
            let file = disk.open(&file_name(info.number)).map_err(|e| disk_error(self.target, &e))?;
            let mut segment = self.segment(disk, file)?;
            segment.bitmap.clone_from(&info.bitmap);
            // A bitmap that is too long names units that are not there.
            segment.bitmap.resize(self.segment_units as usize / 64, 0);
            let used: u32 = segment.bitmap.iter().map(|word| word.count_ones()).sum();
            segment.free = self.segment_units - used;
            self.used_units += u64::from(used);
            self.segments.insert(info.number, segment);
        }
        Ok(())
    }

    fn segment(&self, disk: &mut dyn Disk, file: FileId) -> Result<BulkSegment, Error> {
        let mapped = disk.media() == Media::Mapped;
        let region =
            if mapped { Some(disk.map(file).map_err(|e| disk_error(self.target, &e))?) } else { None };
        let bitmap = vec![0; self.segment_units as usize / 64];
        Ok(BulkSegment { file, region, bitmap, free: self.segment_units, hint: 0 })
    }

    /// Adds an empty segment.
    pub(crate) fn grow(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        if self.finish_making(disk)? {
            return Ok(());
        }
        let number = self.unused_number(disk)?;
        // A writer waits for it: huge pages are there in a tenth of the time that small ones take.
        let created = disk.create_for_looks(&file_name(number), self.segment_bytes());
        let file = created.map_err(|e| disk_error(self.target, &e))?;
        self.add_segment(disk, number, file)
    }

    /// A number that no segment has, nor a file.
    pub(crate) fn unused_number(&self, disk: &mut dyn Disk) -> Result<u32, Error> {
        let last = self.segments.last_key_value().map(|(&number, _)| number);
        let number = crate::names::unused(last, self.segments.keys().copied());
        let needed_bytes = self.segment_bytes();
        let number = number.ok_or(Error::NoSpace { target: self.target, needed_bytes })?;
        // A crash may have left a segment that no manifest names.
        match disk.remove(&file_name(number)) {
            Err(error) if !error.is_not_found() => Err(disk_error(self.target, &error)),
            _ => Ok(number),
        }
    }

    /// Takes a file of zeros for a segment.
    pub(crate) fn add_segment(
        &mut self,
        disk: &mut dyn Disk,
        number: u32,
        file: FileId,
    ) -> Result<(), Error> {
        self.fresh_names = true;
        let segment = self.segment(disk, file)?;
        self.segments.insert(number, segment);
        Ok(())
    }

    /// Takes `count` contiguous units for an operation under way.
    pub(crate) fn allocate(&mut self, count: u32) -> Option<BulkPlace> {
        let place = self.allocate_in(self.last, count).or_else(|| {
            let number = *self.segments.iter().find(|(_, s)| s.free >= count && s.find(count).is_some())?.0;
            self.allocate_in(number, count)
        })?;
        self.last = place.segment;
        self.inflight.insert((place, count));
        Some(place)
    }

    fn allocate_in(&mut self, number: u32, count: u32) -> Option<BulkPlace> {
        let segment = self.segments.get_mut(&number)?;
        if segment.free < count {
            return None;
        }
        let unit = segment.find(count)?;
        segment.set(unit, count);
        segment.hint = unit + count;
        self.used_units += u64::from(count);
        self.spares.used(u64::from(count));
        Some(BulkPlace { segment: number, unit })
    }

    /// The operation's record is in the log: the units are referred to.
    pub(crate) fn settle(&mut self, place: BulkPlace, count: u32) {
        let was_inflight = self.inflight.remove(&(place, count));
        assert!(was_inflight, "units are settled once, by the operation that took them");
        // A flush that began while the bytes were on their way did not cover them.
        self.dirty.insert(place.segment);
        self.logged_bytes += u64::from(count) * limits::BULK_UNIT_BYTES;
    }

    /// Bytes that frames behind the last checkpoint refer to.
    pub(crate) fn logged_bytes(&self) -> u64 {
        self.logged_bytes
    }

    /// The operation failed: the units are free again.
    pub(crate) fn give_up(&mut self, place: BulkPlace, count: u32) {
        let was_inflight = self.inflight.remove(&(place, count));
        assert!(was_inflight, "units are given up once, by the operation that took them");
        self.release(place, count);
    }

    /// Opens the segment that a log record refers to, at recovery; `false` if there are no such units.
    pub(crate) fn reopen(
        &mut self,
        disk: &mut dyn Disk,
        place: BulkPlace,
        count: u32,
    ) -> Result<bool, Error> {
        if place.segment > SEGMENT_NUMBER_MAX {
            return Ok(false);
        }
        if !self.segments.contains_key(&place.segment) {
            let file = match disk.open(&file_name(place.segment)) {
                Ok(file) => file,
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(disk_error(self.target, &error)),
            };
            let segment = self.segment(disk, file)?;
            self.segments.insert(place.segment, segment);
        }
        Ok(u64::from(place.unit) + u64::from(count) <= u64::from(self.segment_units))
    }

    /// Marks units of a reopened segment as used. Repeating it is harmless.
    pub(crate) fn claim(&mut self, place: BulkPlace, count: u32) {
        let segment = self.segments.get_mut(&place.segment).expect("reopened before");
        self.used_units += u64::from(segment.set(place.unit, count));
        // The dead process may not have flushed it.
        self.dirty.insert(place.segment);
    }

    /// Nothing refers to the units any more, once the next checkpoint is complete.
    pub(crate) fn drop_reference(&mut self, place: BulkPlace, count: u32) {
        self.dropped.push((place, count));
    }

    /// A manifest is about to be written without the references dropped so far.
    pub(crate) fn begin_release(&mut self) {
        self.dropping.append(&mut self.dropped);
        self.logged_bytes = 0;
    }

    /// That manifest is durable.
    pub(crate) fn finish_release(&mut self) {
        for (place, count) in core::mem::take(&mut self.dropping) {
            self.release(place, count);
        }
    }

    /// Frees units that nothing on disk refers to any more.
    pub(crate) fn release(&mut self, place: BulkPlace, count: u32) {
        let segment = self.segments.get_mut(&place.segment).expect("references name open segments");
        segment.clear(place.unit, count);
        self.used_units -= u64::from(count);
    }

    /// Frees the units of a segment whose bits are set.
    pub(crate) fn release_units(&mut self, number: u32, units: &[u64]) {
        let segment = self.segments.get_mut(&number).expect("references name open segments");
        let mut freed = 0;
        for (word, &gone) in segment.bitmap.iter_mut().zip(units) {
            assert!(*word & gone == gone, "a unit is freed once");
            *word &= !gone;
            freed += gone.count_ones();
        }
        segment.free += freed;
        segment.hint = 0;
        self.used_units -= u64::from(freed);
    }

    /// Removes segments in which nothing is used any more, but for those that are worth keeping.
    ///
    /// REQUIRES: no log that may be replayed, and no manifest but an older one, refers to what they held.
    pub(crate) fn remove_empty(&mut self, disk: &mut dyn Disk) {
        let segment_units = u64::from(self.segment_units);
        let kept = 1 + self.used_units / EMPTY_PARTS_OF_USED / segment_units;
        let kept = kept.min(self.spares.wanted().div_ceil(segment_units));
        self.trim(disk, usize::try_from(kept).unwrap_or(usize::MAX).max(self.ready.wanted()));
    }

    /// Removes empty segments that a load as it was between the last aggregations does not use again.
    ///
    /// REQUIRES: as `remove_empty`; an aggregation has ended.
    pub(crate) fn aggregated(&mut self, disk: &mut dyn Disk, cont: ContNo, conts: usize) {
        self.spares.aggregated(cont, conts);
        self.remove_empty(disk);
    }

    /// Gives segments in which nothing is used back to the device, but for `kept` of them.
    ///
    /// REQUIRES: as `remove_empty`.
    pub(crate) fn trim(&mut self, disk: &mut dyn Disk, kept: usize) {
        if kept == 0 {
            self.give_up_making(disk);
        }
        let empty: Vec<u32> = self.empty_segments().skip(kept).collect();
        for number in empty {
            let segment = self.segments.remove(&number).expect("listed above");
            self.dirty.remove(&number);
            drop(segment.region);
            disk.close(segment.file);
            // Ignored: a segment that nothing names is removed by the next open.
            let _removed = disk.remove(&file_name(number));
        }
    }

    fn empty_segments(&self) -> impl Iterator<Item = u32> + '_ {
        let empty = self.segments.iter().filter(|(_, segment)| segment.free == self.segment_units);
        empty.map(|(&number, _)| number)
    }

    /// Segments in which nothing is used.
    pub(crate) fn empty_count(&self) -> usize {
        self.empty_segments().count()
    }

    /// Whether a file of the device is one of the segments, or none of ours at all.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let number = crate::names::number_of(name, file_name, SEGMENT_NUMBER_MAX);
        number.is_none_or(|number| self.segments.contains_key(&number))
    }

    /// What the manifest about to be written must hold: units that are referred to.
    pub(crate) fn to_manifest(&self) -> Vec<BulkSegmentInfo> {
        let mut infos: BTreeMap<u32, Vec<u64>> =
            self.segments.iter().map(|(&number, segment)| (number, segment.bitmap.clone())).collect();
        for &(place, count) in self.inflight.iter().chain(&self.dropping) {
            let bitmap = infos.get_mut(&place.segment).expect("references name open segments");
            for unit in place.unit..place.unit + count {
                bitmap[unit as usize / 64] &= !(1 << (unit % 64));
            }
        }
        infos.into_iter().map(|(number, bitmap)| BulkSegmentInfo { number, bitmap }).collect()
    }

    pub(crate) fn find(&self, segment: u32) -> Option<&BulkSegment> {
        self.segments.get(&segment)
    }

    pub(crate) fn find_mut(&mut self, segment: u32) -> Option<&mut BulkSegment> {
        self.segments.get_mut(&segment)
    }

    /// Whether every unit of the range is in use.
    pub(crate) fn is_used(&self, place: BulkPlace, count: u32) -> bool {
        let Some(segment) = self.segments.get(&place.segment) else {
            return false;
        };
        u64::from(place.unit) + u64::from(count) <= u64::from(self.segment_units)
            && (place.unit..place.unit + count)
                .all(|unit| segment.bitmap[unit as usize / 64] >> (unit % 64) & 1 == 1)
    }

    /// Whether some of these units wait to be free.
    pub(crate) fn is_given_back(&self, place: BulkPlace, count: u32) -> bool {
        self.dropped.iter().chain(&self.dropping).any(|&(other, others)| {
            let (end, other_end) = (place.unit.saturating_add(count), other.unit.saturating_add(others));
            other.segment == place.segment && other.unit < end && place.unit < other_end
        })
    }

    /// Units in use that no manifest will refer to: taken by operations under way, or dropped.
    pub(crate) fn unreferenced(&self) -> impl Iterator<Item = (BulkPlace, u32)> + '_ {
        self.inflight.iter().chain(&self.dropped).chain(&self.dropping).copied()
    }

    /// The segments whose files are shorter than they were made, and how long those are.
    pub(crate) fn cut_short<'a>(&'a self, disk: &'a dyn Disk) -> impl Iterator<Item = (u32, u64)> + 'a {
        let lens = self.segments.iter().filter_map(|(&number, segment)| {
            let len = disk.len(segment.file).ok()?;
            Some((number, len))
        });
        lens.filter(|&(_, len)| len < self.segment_bytes())
    }

    pub(crate) fn target(&self) -> TargetNo {
        self.target
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_units * limits::BULK_UNIT_BYTES
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.segments.len() as u64 * u64::from(self.segment_units) * limits::BULK_UNIT_BYTES
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_units) * limits::BULK_UNIT_BYTES
    }
}

impl BulkSegment {
    /// The first run of `count` free units at or after the hint, else from the start.
    fn find(&self, count: u32) -> Option<u32> {
        self.find_from(self.hint, count).or_else(|| self.find_from(0, count))
    }

    fn find_from(&self, start: u32, count: u32) -> Option<u32> {
        let end = u32::try_from(self.bitmap.len()).expect("a segment has few units") * 64;
        let (mut unit, mut run) = (start, 0);
        while unit < end {
            let word = self.bitmap[unit as usize / 64] >> (unit % 64);
            let left = 64 - unit % 64;
            if word & 1 == 1 {
                unit += word.trailing_ones().min(left);
                run = 0;
                continue;
            }
            let free = word.trailing_zeros().min(left);
            run += free;
            unit += free;
            if run >= count {
                return Some(unit - run);
            }
        }
        None
    }

    /// Returns how many were clear before.
    fn set(&mut self, unit: u32, count: u32) -> u32 {
        let mut fresh = 0;
        for unit in unit..unit + count {
            let word = &mut self.bitmap[unit as usize / 64];
            fresh += u32::from(*word >> (unit % 64) & 1 == 0);
            *word |= 1 << (unit % 64);
        }
        self.free -= fresh;
        fresh
    }

    fn clear(&mut self, unit: u32, count: u32) {
        for unit in unit..unit + count {
            let word = &mut self.bitmap[unit as usize / 64];
            assert!(*word >> (unit % 64) & 1 == 1, "a unit is freed once");
            *word &= !(1 << (unit % 64));
        }
        self.free += count;
        self.hint = self.hint.min(unit);
    }
}
