//! Room for what is about to be written: log segments, bulk segments, and the reserve of a full target.
//!
//! Invariants: an operation that adds data never takes the reserve; punches, decisions, container events and
//! checkpoints may, so a full target can still be read, punched and destroyed.

use crate::bulk::BulkPlace;
use crate::target::Target;
use dolmen_codec::verb::SpaceReport;
use dolmen_types::Error;

/// Log segments kept for what frees space, and for the frames of a checkpoint and merge.
const RESERVE_LOG_SEGMENTS: u64 = 2;

impl Target {
    /// Makes sure that a frame with such a body can be appended. `may_use_reserve` for what frees space.
    #[inline]
    pub(crate) fn make_room(&mut self, body_bytes: usize, may_use_reserve: bool) -> Result<(), Error> {
        if !self.store.log.needs_segment(body_bytes) {
            return Ok(());
        }
        self.next_segment(body_bytes, may_use_reserve)
    }

    fn next_segment(&mut self, body_bytes: usize, may_use_reserve: bool) -> Result<(), Error> {
        if body_bytes > self.store.log.body_bytes_max() {
            return Err(Error::RecTooBig { needed_bytes: body_bytes as u64 });
        }
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        let spare = self.store.log.free_count() as u64;
        let wanted = if may_use_reserve { 1 } else { RESERVE_LOG_SEGMENTS + 1 };
        if spare < wanted {
            self.add_log_segment(may_use_reserve)?;
        }
        let salt = self.next_salt();
        self.store.log.roll(&mut *self.store.disks.meta, salt)?;
        self.store.hot.begin_segment(self.store.log.end().segment);
        Ok(())
    }

    /// Begins a fresh segment whatever room the present one has.
    pub(crate) fn next_segment_now(&mut self) -> Result<(), Error> {
        self.next_segment(0, true)
    }

    fn add_log_segment(&mut self, may_use_reserve: bool) -> Result<(), Error> {
        let needed_bytes = self.store.log.segment_bytes();
        let spare = self.store.log.free_count() as u64;
        let full = self.allocated_bytes() + needed_bytes > self.data_limit();
        let added = if full {
            Err(Error::NoSpace { target: self.config.target, needed_bytes })
        } else {
            self.store.log.add_spare(&mut *self.store.disks.meta)
        };
        match added {
            Err(Error::NoSpace { .. }) if may_use_reserve && spare > 0 => Ok(()),
            other => other,
        }
    }

    /// Creates the reserve; part of creating a target.
    pub(crate) fn fill_reserve(&mut self) -> Result<(), Error> {
        while (self.store.log.free_count() as u64) < RESERVE_LOG_SEGMENTS {
            self.store.log.add_spare(&mut *self.store.disks.meta)?;
        }
        Ok(())
    }

    /// A new salt, different for each life of a segment: the sequence grows within one life of the target, and
    /// a recovery, after which it may repeat what was discarded, begins another.
    fn next_salt(&self) -> u32 {
        let id = self.target_id.to_le_bytes();
        let seed = u64::from_le_bytes(id[..8].try_into().expect("eight of sixteen bytes"));
        let life = crate::marks::mix(seed, self.checkpoint.life());
        let mixed = crate::marks::mix(life, self.store.log.next_sequence()).to_le_bytes();
        u32::from_le_bytes(mixed[..4].try_into().expect("four of eight bytes")) | 1
    }

    /// Takes contiguous units, growing the bulk by a segment if need be.
    pub(crate) fn allocate_bulk(&mut self, count: u32) -> Result<BulkPlace, Error> {
        if let Some(place) = self.store.bulk.allocate(count) {
            return Ok(place);
        }
        let needed_bytes = self.store.bulk.segment_bytes();
        if u64::from(count) * dolmen_types::limits::BULK_UNIT_BYTES > needed_bytes {
            return Err(Error::RecTooBig {
                needed_bytes: u64::from(count) * dolmen_types::limits::BULK_UNIT_BYTES,
            });
        }
        if self.allocated_bytes() + needed_bytes > self.data_limit() {
            return Err(Error::NoSpace { target: self.config.target, needed_bytes });
        }
        self.store.bulk.grow(self.store.disks.bulk())?;
        self.store.bulk.allocate(count).ok_or(Error::NoSpace { target: self.config.target, needed_bytes })
    }

    /// What files of log, bulk and runs take.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.store.log.allocated_bytes() + self.store.bulk.allocated_bytes() + self.run_bytes()
    }

    pub(crate) fn run_bytes(&self) -> u64 {
        self.store.index.runs.iter().map(|run| run.info().bytes).sum()
    }

    /// Beyond this only the reserve is left: one merge of all runs and of the delta.
    fn data_limit(&self) -> u64 {
        self.config.capacity_bytes.saturating_sub(self.merge_reserve())
    }

    fn merge_reserve(&self) -> u64 {
        self.run_bytes() + self.store.index.resident_bytes()
    }

    pub(crate) fn space_report(&self) -> SpaceReport {
        let allocated = self.allocated_bytes();
        let log = &self.store.log;
        let log_bytes = log.segments.values().map(|segment| segment.live_bytes).sum();
        let reserve_bytes = self.merge_reserve() + RESERVE_LOG_SEGMENTS * log.segment_bytes();
        let bulk_free = self.store.bulk.allocated_bytes() - self.store.bulk.used_bytes();
        let log_free = (log.free_count() as u64).saturating_sub(RESERVE_LOG_SEGMENTS) * log.segment_bytes();
        let device = self.store.disks.meta.space().map_or(u64::MAX, |space| space.free_bytes);
        let unallocated = self.data_limit().saturating_sub(allocated).min(device);
        SpaceReport {
            total_bytes: self.config.capacity_bytes,
            free_bytes: unallocated + bulk_free + log_free,
            allocated_bytes: allocated,
            bulk_bytes: self.store.bulk.used_bytes(),
            log_bytes,
            run_bytes: self.run_bytes(),
            reserve_bytes,
        }
    }
}
