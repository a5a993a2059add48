//! Room for what is about to be written: log segments, bulk segments, and the reserve of a full target.
//!
//! Invariants: an operation that adds data never takes the reserve; punches, decisions, container events and
//! checkpoints may, so a full target can still be read, punched and destroyed. The reserve is kept both of the
//! capacity and of what the device has left.

use crate::bulk::BulkPlace;
use crate::runs::Run;
use crate::store::Store;
use crate::target::Target;
use dolmen_codec::log_body::{CRED_BYTES, ClientIntro};
use dolmen_codec::log_frame::LogFrame;
use dolmen_codec::verb::SpaceReport;
use dolmen_types::{ContNo, Epoch, Error, limits};

/// Log segments kept for what frees space, for the frames of a checkpoint and merge, and one that is given up for the run
/// of a checkpoint when others have filled the device.
pub(crate) const RESERVE_LOG_SEGMENTS: u64 = 3;
/// What a manifest takes beside the bitmaps of bulk segments: containers, retained results, segments of the log.
const MANIFEST_BYTES: u64 = 64 << 10;

/// Frames that may have to go before that of an operation, whole: a ceiling of epochs, a client, credentials.
pub(crate) const SIDE_FRAMES_BYTES: usize = CEILING_FRAME_BYTES + CLIENT_FRAME_BYTES + CRED_FRAME_BYTES;
pub(crate) const CEILING_FRAME_BYTES: usize = LogFrame::padded_bytes(size_of::<Epoch>());
pub(crate) const CLIENT_FRAME_BYTES: usize = LogFrame::padded_bytes(ClientIntro::BYTES);
pub(crate) const CRED_FRAME_BYTES: usize = LogFrame::padded_bytes(CRED_BYTES);

/// What stands elsewhere of values in bulk, of 64 KiB and more, takes at most such a part of what they do: an entry of a run and
/// of the one that it is merged into, with a checksum for each 32 KiB, and the maps of their units.
const BESIDE_BULK_PARTS: u64 = 128;

/// What asks for room in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// It adds data: the reserve stays whole.
    Data,
    /// It frees space, or decides or tells what others need: it may use the reserve.
    Removal,
    /// As `Removal`, but a checkpoint has to carry it on: it leaves a segment for that.
    Prepare,
}

impl Target {
    /// Makes sure that a frame with such a body can be appended.
    #[inline]
    pub(crate) fn make_room(&mut self, body_bytes: usize, need: Need) -> Result<(), Error> {
        if !self.lacks_room(body_bytes, need) {
            return Ok(());
        }
        if self.store.log.needs_segment(body_bytes) {
            let left = match need {
                Need::Data => RESERVE_LOG_SEGMENTS,
                Need::Prepare => 1,
                // While there is something to be carried on: else no checkpoint could begin any more.
                Need::Removal => u64::from(!self.txs.prepared.is_empty()),
            };
            self.next_segment(body_bytes, left)
        } else if self.read_only {
            Err(Error::ReadOnly { target: self.config.target })
        } else {
            self.make_reserve_whole()
        }
    }

    /// Makes sure that the frame of an operation can be appended, and before it others of so many bytes: until that is
    /// certain none of them is.
    #[inline]
    pub(crate) fn make_room_behind(
        &mut self,
        side_bytes: usize,
        body_bytes: usize,
        need: Need,
    ) -> Result<(), Error> {
        if body_bytes > self.store.log.body_bytes_max() {
            return Err(Error::RecTooBig { needed_bytes: body_bytes as u64 });
        }
        self.make_room(side_bytes + body_bytes, need)
    }

    /// Whether something has to be done before such a frame can be appended. Data does not go into a segment of the
    /// reserve that something else has begun, either: it would stay there.
    #[inline]
    pub(crate) fn lacks_room(&self, body_bytes: usize, need: Need) -> bool {
        self.store.log.needs_segment(body_bytes) || (need == Need::Data && self.is_reserve_used())
    }

    fn make_reserve_whole(&mut self) -> Result<(), Error> {
        while self.is_reserve_used() {
            self.add_log_segment()?;
        }
        Ok(())
    }

    /// Makes sure that a frame can be appended again: that of a prepared transaction for a checkpoint, or values that are
    /// moved. Segments are given back for it, so it may take the last one.
    pub(crate) fn make_room_to_go_on(&mut self, body_bytes: usize) -> Result<(), Error> {
        if self.store.log.needs_segment(body_bytes) { self.next_segment(body_bytes, 0) } else { Ok(()) }
    }

    /// Goes on in the next segment of the log if so many spare ones are left then.
    fn next_segment(&mut self, body_bytes: usize, left: u64) -> Result<(), Error> {
        if body_bytes > self.store.log.room_bytes_max() {
            return Err(Error::RecTooBig { needed_bytes: body_bytes as u64 });
        }
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        let spare = self.store.log.free_count() as u64;
        if spare <= left {
            for _ in spare..=left {
                self.add_log_segment()?;
            }
        } else if left == RESERVE_LOG_SEGMENTS {
            // A recycled segment takes no room, but what it will hold becomes part of a run.
            self.check_room_beside_spares(0, RESERVE_LOG_SEGMENTS + 1)?;
        }
        let salt = self.next_salt();
        self.store.log.roll(&mut *self.store.disks.meta, salt)?;
        self.store.hot.begin_segment(self.store.log.end().segment);
        Ok(())
    }

    /// Begins a fresh segment whatever room the present one has.
    pub(crate) fn next_segment_now(&mut self) -> Result<(), Error> {
        self.next_segment(0, 0)
    }

    fn add_log_segment(&mut self) -> Result<(), Error> {
        self.check_room_beside_spares(self.store.log.segment_bytes(), RESERVE_LOG_SEGMENTS + 1)?;
        self.store.log.add_spare(&mut *self.store.disks.meta)
    }

    /// As `check_room`; segments that wait to be written again are given back if need be, but for so many of the log.
    fn check_room_beside_spares(&mut self, needed_bytes: u64, log_kept: u64) -> Result<(), Error> {
        if self.check_room(needed_bytes).is_err() {
            self.store.bulk.trim(self.store.disks.bulk(), 0);
        }
        if self.check_room(needed_bytes).is_err() {
            let kept = usize::try_from(log_kept).expect("a few");
            self.store.log.trim(&mut *self.store.disks.meta, kept)?;
        }
        self.check_room(needed_bytes)
    }

    /// Whether operations that free space have taken of the reserve.
    #[inline]
    pub(crate) fn is_reserve_used(&self) -> bool {
        (self.store.log.free_count() as u64) < RESERVE_LOG_SEGMENTS
    }

    /// Makes the segment after the next, so that no update has to wait for it; whether it was missing and made.
    /// A target that is nearly full has none made: what fills the present segment takes room in runs, too.
    pub(crate) fn prepare_segment(&mut self) -> Result<bool, Error> {
        let is_missing = self.store.log.free_count() as u64 <= RESERVE_LOG_SEGMENTS;
        let has_room = is_missing && self.check_room(2 * self.store.log.segment_bytes()).is_ok();
        if has_room {
            self.add_log_segment()?;
        }
        Ok(has_room)
    }

    /// Sees to so many spare segments, whatever they leave to others: for creating and for opening a target.
    pub(crate) fn reserve_segments(&mut self, count: u64) -> Result<(), Error> {
        while (self.store.log.free_count() as u64) < count {
            self.store.log.add_spare(&mut *self.store.disks.meta)?;
        }
        Ok(())
    }

    /// Creates what operations that free space have taken of the reserve, as far as there is room. Nothing that
    /// adds data is written before the reserve is whole again.
    pub(crate) fn refill_reserve(&mut self) -> Result<(), Error> {
        match self.make_reserve_whole() {
            Err(Error::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }

    /// Gives spare segments back that will not be used again soon, now that an aggregation of a container has
    /// ended.
    pub(crate) fn give_back_spares(&mut self, cont: ContNo) {
        let conts = self.conts.iter().count();
        let Store { disks, log, bulk, .. } = &mut self.store;
        bulk.aggregated(disks.bulk(), cont, conts);
        // Ignored: a segment that cannot be removed is in nobody's way, and the next open finds it free.
        let _removed = log.aggregated(&mut *disks.meta, cont, conts);
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

    /// Takes contiguous units, growing the bulk by a segment or reclaiming if need be.
    pub(crate) fn allocate_bulk(&mut self, count: u32) -> Result<BulkPlace, Error> {
        match self.take_units(count) {
            Err(Error::NoSpace { .. }) if self.reclaim() => self.take_units(count),
            other => other,
        }
    }

    fn take_units(&mut self, count: u32) -> Result<BulkPlace, Error> {
        if let Some(place) = self.store.bulk.allocate(count) {
            return Ok(place);
        }
        let needed_bytes = self.store.bulk.segment_bytes();
        if u64::from(count) * limits::BULK_UNIT_BYTES > needed_bytes {
            return Err(Error::RecTooBig { needed_bytes: u64::from(count) * limits::BULK_UNIT_BYTES });
        }
        self.check_room_beside_spares(needed_bytes, RESERVE_LOG_SEGMENTS)?;
        self.store.bulk.grow(self.store.disks.bulk())?;
        self.store.bulk.allocate(count).ok_or(Error::NoSpace { target: self.config.target, needed_bytes })
    }

    /// What files of log, bulk, runs and manifests take.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let log_and_bulk = self.store.log.allocated_bytes() + self.store.bulk.allocated_bytes();
        log_and_bulk + self.run_bytes() + self.manifests_bytes()
    }

    pub(crate) fn run_bytes(&self) -> u64 {
        self.store.index.runs.iter().map(|run| run.info().bytes).sum()
    }

    /// Room for data of so many bytes beside the reserve, of the capacity and on the device of the runs.
    fn check_room(&self, needed_bytes: u64) -> Result<(), Error> {
        // A device that cannot say what it has left says so when it is asked for more.
        if self.room(u64::MAX).is_some_and(|room| room >= needed_bytes) {
            Ok(())
        } else {
            Err(Error::NoSpace { target: self.config.target, needed_bytes })
        }
    }

    /// Whether a bulk segment and what may become of it in the log leave others what they need.
    pub(crate) fn has_room_for_segment(&self) -> bool {
        self.check_room(2 * self.store.bulk.segment_bytes()).is_ok()
    }

    /// What data may still be allocated beside the reserve, which is `None` if the reserve itself is short;
    /// `unknown_left` stands for what a device has left that cannot say it.
    fn room(&self, unknown_left: u64) -> Option<u64> {
        let reserve = self.run_reserve();
        let unallocated =
            self.config.capacity_bytes.saturating_sub(reserve).checked_sub(self.allocated_bytes())?;
        let left = self.store.disks.meta.space().map_or(unknown_left, |space| space.free_bytes);
        Some(unallocated.min(left.checked_sub(reserve)?))
    }

    /// What may still be logged by what frees space.
    pub(crate) fn log_room(&self) -> u64 {
        let segment_bytes = self.store.log.segment_bytes();
        let segments = self.store.log.free_count() as u64 + self.room(0).unwrap_or(0) / segment_bytes;
        segments * segment_bytes
    }

    /// What a checkpoint of the present deltas and then one merge of everything write, and two manifests.
    fn run_reserve(&self) -> u64 {
        let deltas = self.store.index.checkpoint_bytes();
        let merge = deltas + self.store.index.runs.iter().map(Run::merged_bytes_max).sum::<u64>();
        let bitmaps = self.store.bulk.allocated_bytes() / limits::BULK_UNIT_BYTES / 8;
        // What the active log segment can still take has entries, too.
        let manifests = self.manifests_bytes().max(2 * (MANIFEST_BYTES + bitmaps));
        merge + deltas + self.store.log.segment_bytes() + manifests
    }

    pub(crate) fn space_report(&mut self) -> SpaceReport {
        let free_bytes = self.free_bytes();
        let log = &self.store.log;
        let log_bytes = log.segments.values().map(|segment| segment.live_bytes).sum();
        let reserve_bytes = self.run_reserve() + RESERVE_LOG_SEGMENTS * log.segment_bytes();
        SpaceReport {
            total_bytes: self.config.capacity_bytes,
            free_bytes,
            allocated_bytes: self.allocated_bytes(),
            bulk_bytes: self.store.bulk.used_bytes(),
            log_bytes,
            run_bytes: self.run_bytes(),
            reserve_bytes,
            scrubbed_bytes: self.scrub.verified_bytes,
            damage_count: self.scrub.damage_count(),
        }
    }

    /// What large values can take: all that is free in segments of bulk, and as many more of these as there is room for. Small ones
    /// find as much, and in the end a part of a segment more.
    fn free_bytes(&mut self) -> u64 {
        let segment_bytes = self.store.bulk.segment_bytes();
        let in_segments = self.store.bulk.allocated_bytes() - self.store.bulk.used_bytes();
        let log = &self.store.log;
        // Segments of the log beyond the reserve are given back for bulk.
        let spare = (log.free_count() as u64).saturating_sub(RESERVE_LOG_SEGMENTS) * log.segment_bytes();
        let taken = self.run_reserve() + in_segments / BESIDE_BULK_PARTS;
        let unallocated = (self.config.capacity_bytes + spare).saturating_sub(self.allocated_bytes() + taken);
        // The others take what is left beside this one: over all of them it is counted once.
        let sharers = u64::from(self.config.device_sharers.max(1));
        let left = self.store.disks.meta.space().map_or(u64::MAX, |space| space.free_bytes) / sharers;
        let left = left.saturating_add(spare).saturating_sub(taken);
        let beside = segment_bytes / BESIDE_BULK_PARTS;
        let by_device = if self.store.disks.has_bulk_device() {
            let bulk_left = self.store.disks.bulk().space().map_or(u64::MAX, |space| space.free_bytes);
            // A segment takes nothing of the other device but for what stands there of its values; it is made if it would fit.
            let by_entries = left.checked_sub(segment_bytes).map_or(0, |left| 1 + left / beside);
            by_entries.min(bulk_left / sharers / segment_bytes)
        } else {
            left / (segment_bytes + beside)
        };
        let segments = by_device.min(unallocated / (segment_bytes + beside));
        segments * segment_bytes + in_segments
    }
}
