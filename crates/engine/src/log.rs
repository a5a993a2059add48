//! The log: preallocated segments of checksummed frames, which also hold the small values.
//!
//! A segment lives three times: as part of the log until a checkpoint has put its frames into a run, as the
//! home of small values that runs refer to, and, when nothing refers to it, as a spare to be written anew.
//!
//! Invariants: frames have consecutive sequence numbers across segments; a segment is written only while it
//! is the active one; a segment in the free list is referred to by no manifest on disk.

use crate::config::TargetConfig;
use crate::error::{corrupt, disk_error};
use crate::numbered::Numbered;
use crate::space::{RESERVE_LOG_SEGMENTS, SIDE_FRAMES_BYTES};
use crate::spares::Spares;
use crate::tree::{Cursor, Delta};
use dolmen_codec::log_frame::{LOG_FRAME_HEADER_BYTES, LOG_FRAME_SEAL_BYTES, LogFrame, LogKind};
use dolmen_codec::log_segment::{LOG_SEGMENT_HEADER_BYTES, LogSegmentHeader};
use dolmen_codec::manifest::{LogSegmentInfo, LogStart};
use dolmen_env::{Disk, FileId, Media, Region};
use dolmen_types::{ContNo, Error, TargetNo};
use std::collections::BTreeSet;

/// Where something stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct LogPlace {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

/// A frame just appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    /// Start of the body.
    pub(crate) body: LogPlace,
    pub(crate) sequence: u64,
}

pub(crate) struct Segment {
    pub(crate) file: FileId,
    /// Mapped while it is part of the log, and for good on mapped media.
    pub(crate) region: Option<Region>,
    pub(crate) salt: u32,
    pub(crate) first_sequence: u64,
    /// Bytes of small values that versions refer to.
    pub(crate) live_bytes: u64,
    /// Huge pages were asked for: once, since a file keeps those that it got.
    is_huge: bool,
}

impl Segment {
    fn new(file: FileId, salt: u32, first_sequence: u64, is_huge: bool) -> Self {
        Self { file, region: None, salt, first_sequence, live_bytes: 0, is_huge }
    }
}

pub(crate) struct Log {
    target: TargetNo,
    target_id: u128,
    segment_bytes: u32,
    pub(crate) segments: Numbered<Segment>,
    /// Segments that nothing refers to, ready to be written anew.
    free: BTreeSet<u32>,
    active: u32,
    offset: u32,
    next_sequence: u64,
    /// Frames below this sequence are durable.
    durable_sequence: u64,
    pub(crate) dirty: BTreeSet<u32>,
    /// Segments were created whose names are not durable: the next flush covers them, too.
    pub(crate) fresh_names: bool,
    scratch: Vec<u8>,
    /// Records of a transaction whose conditions are being checked; see `TENTATIVE_SEGMENT`.
    tentative: Vec<u8>,
    keep_mapped: bool,
    /// Whether the last complete segment has small frames: so will the next, most likely.
    has_small_frames: bool,
    /// Free segments kept for reuse at most. More are removed.
    free_max: u64,
    /// Segments begun.
    spares: Spares,
}

/// What stands where the next header will be.
const BLANK: [u8; LOG_FRAME_HEADER_BYTES] = [0; LOG_FRAME_HEADER_BYTES];

/// Of so many bytes the device is told before they are read from a mapping.
const READ_AHEAD_BYTES: usize = 32 << 10;

/// Not a file: the place of records that exist only while a transaction is being checked.
pub(crate) const TENTATIVE_SEGMENT: u32 = u32::MAX;

#[expect(clippy::cast_possible_truncation, reason = "24")]
const FRAME_HEADER_BYTES: u32 = LOG_FRAME_HEADER_BYTES as u32;

/// Where the first frame of a segment begins.
pub(crate) fn header_bytes() -> u32 {
    u32::try_from(LOG_SEGMENT_HEADER_BYTES).expect("64")
}

/// Where the body of the frame that begins at a place begins.
pub(crate) fn body_of(frame: LogPlace) -> LogPlace {
    LogPlace { offset: frame.offset + FRAME_HEADER_BYTES, ..frame }
}

pub(crate) fn file_name(number: u32) -> String {
    format!("log.{number:08x}")
}

/// Free segments kept at least: the reserve and the next one, which would be made anew at once.
const FREE_SEGMENTS_MIN: u64 = RESERVE_LOG_SEGMENTS + 1;
/// And as many as are this part of all.
const FREE_PARTS_OF_ALL: u64 = 20;
/// And at most as many as fill this part of the target, unless bulk needs the room.
const FREE_PARTS_OF_CAPACITY: u64 = 16;

impl Log {
    /// A log that continues at `start`, which lies in none of its segments yet.
    pub(crate) fn new(config: &TargetConfig, target_id: u128, media: Media) -> Self {
        let segment_bytes = config.log_segment_bytes;
        let free_bytes = config.capacity_bytes / FREE_PARTS_OF_CAPACITY;
        let free_max = free_bytes.div_ceil(u64::from(segment_bytes)).max(FREE_SEGMENTS_MIN);
        Self {
            target: config.target,
            target_id,
            segment_bytes,
            segments: Numbered::default(),
            free_max,
            spares: Spares::default(),
            free: BTreeSet::new(),
            active: 0,
            offset: segment_bytes,
            next_sequence: 1,
            durable_sequence: 1,
            dirty: BTreeSet::new(),
            fresh_names: false,
            scratch: Vec::new(),
            tentative: Vec::new(),
            keep_mapped: media == Media::Mapped,
            has_small_frames: false,
        }
    }

    /// The largest body that has room in a segment of its own.
    pub(crate) fn room_bytes_max(&self) -> usize {
        self.segment_bytes as usize - LOG_SEGMENT_HEADER_BYTES - LOG_FRAME_HEADER_BYTES
    }

    /// The largest body that the frame of an operation can have here, whatever has to go before it.
    pub(crate) fn body_bytes_max(&self) -> usize {
        (self.room_bytes_max() - SIDE_FRAMES_BYTES).min(LogFrame::BODY_BYTES_MAX)
    }

    /// Where the next frame goes.
    pub(crate) fn end(&self) -> LogStart {
        LogStart { segment: self.active, offset: self.offset, sequence: self.next_sequence }
    }

    /// Bytes of log since a place, as far as whole segments and the present one tell.
    pub(crate) fn bytes_since(&self, start: LogStart) -> u64 {
        if start.segment == self.active {
            return u64::from(self.offset.saturating_sub(start.offset));
        }
        let between = self.segments.values().filter(|s| s.first_sequence > start.sequence).count() as u64;
        u64::from(self.segment_bytes.saturating_sub(start.offset))
            + between.saturating_sub(1) * u64::from(self.segment_bytes)
            + u64::from(self.offset)
    }

    /// Of the frame with which the present segment begins.
    pub(crate) fn segment_sequence(&self) -> u64 {
        self.segments.get(&self.active).map_or(0, |segment| segment.first_sequence)
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Of the newest frame; 0 if there is none.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable_sequence
    }

    /// Frames below `sequence` are durable.
    pub(crate) fn set_durable(&mut self, sequence: u64) {
        self.durable_sequence = self.durable_sequence.max(sequence);
    }

    /// Whether a frame with such a body needs another segment.
    pub(crate) fn needs_segment(&self, body_bytes: usize) -> bool {
        self.offset as usize + LogFrame::padded_bytes(body_bytes) > self.segment_bytes as usize
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_bytes)
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.segments.len() as u64 * u64::from(self.segment_bytes)
    }

    /// Adds a spare segment.
    pub(crate) fn add_spare(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let last = self.segments.last_key_value().map(|(&number, _)| number);
        let number = crate::names::unused(last, self.segments.iter().map(|(&number, _)| number));
        let needed_bytes = u64::from(self.segment_bytes);
        let number = number.ok_or(Error::NoSpace { target: self.target, needed_bytes })?;
        let io = |e: dolmen_env::Error| disk_error(self.target, &e);
        // A crash may have left a segment that nothing refers to.
        if let Err(error) = disk.remove(&file_name(number))
            && !error.is_not_found()
        {
            return Err(io(error));
        }
        let is_huge = self.keep_mapped && self.has_small_frames;
        let (name, len) = (file_name(number), u64::from(self.segment_bytes));
        let file = if is_huge { disk.create_for_looks(&name, len) } else { disk.create(&name, len) };
        let file = file.map_err(io)?;
        self.fresh_names = true;
        self.segments.insert(number, Segment::new(file, 0, 0, is_huge));
        self.free.insert(number);
        Ok(())
    }

    /// Begins the next segment: a spare one, whose header binds it to this place in the log.
    ///
    /// REQUIRES: there is a spare segment.
    pub(crate) fn roll(&mut self, disk: &mut dyn Disk, salt: u32) -> Result<(), Error> {
        let number = self.free.pop_first().expect("the caller has made sure of a spare segment");
        self.expect_random_reads();
        let segment = self.segments.get_mut(&number).expect("free segments are open");
        if segment.region.is_none() {
            segment.region = Some(disk.map(segment.file).map_err(|e| disk_error(self.target, &e))?);
        }
        segment.salt = salt;
        segment.first_sequence = self.next_sequence;
        segment.live_bytes = 0;
        let header =
            LogSegmentHeader { target_id: self.target_id, number, salt, first_sequence: self.next_sequence };
        let region = segment.region.as_mut().expect("mapped above");
        // In this order: under a new header nothing old passes for a frame.
        region.write(LOG_SEGMENT_HEADER_BYTES as u64, &BLANK);
        region.write(0, &header.encode());
        self.dirty.insert(number);
        self.active = number;
        self.offset = header_bytes();
        self.spares.used(1);
        Ok(())
    }

    /// Segments but this one that say that they begin with the frame of this number.
    pub(crate) fn beginning_at(&self, sequence: u64, but: u32) -> impl Iterator<Item = u32> {
        let begins = self.segments.iter().filter(move |(number, segment)| {
            **number != but && segment.salt != 0 && segment.first_sequence == sequence
        });
        begins.map(|(&number, _)| number)
    }

    /// The active segment is complete: from now on it is read only, in no order.
    fn expect_random_reads(&mut self) {
        /// Of larger frames the misses of the address translation are a small part, and huge pages have to be made.
        const SMALL_FRAME_BYTES: u64 = 1024;
        let Some(segment) = self.segments.get_mut(&self.active) else {
            return;
        };
        let Some(region) = &segment.region else {
            return;
        };
        region.expect_random();
        let frames = self.next_sequence.saturating_sub(segment.first_sequence);
        self.has_small_frames = frames.saturating_mul(SMALL_FRAME_BYTES) >= u64::from(self.segment_bytes);
        if self.keep_mapped && self.has_small_frames && !segment.is_huge {
            region.prefer_huge_pages();
            segment.is_huge = true;
        }
    }

    /// Appends a frame whose body `build` writes behind what the vector holds already.
    ///
    /// REQUIRES: the body fits the active segment (`needs_segment`).
    #[inline]
    pub(crate) fn append(&mut self, kind: LogKind, build: impl FnOnce(&mut Vec<u8>)) -> Appended {
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.resize(LOG_FRAME_HEADER_BYTES, 0);
        build(&mut scratch);
        let appended = self.append_frame(kind, &mut scratch);
        self.scratch = scratch;
        appended
    }

    /// Appends a frame that has room for its header in front. The place of the next header is left blank, so
    /// that what a recycled segment had there never passes for a frame that was begun; its first word comes last, so
    /// that a frame that the process died in is told from one that it had written.
    ///
    /// REQUIRES: as `append`.
    #[inline]
    pub(crate) fn append_frame(&mut self, kind: LogKind, frame: &mut Vec<u8>) -> Appended {
        let body_bytes = frame.len() - LOG_FRAME_HEADER_BYTES;
        assert!(!self.needs_segment(body_bytes), "the caller has made room");
        let segment = self.segments.get_mut(&self.active).expect("the active segment is open");
        let header = LogFrame {
            kind,
            body_bytes: u32::try_from(body_bytes).expect("limited by the segment"),
            sequence: self.next_sequence,
            salt: segment.salt,
            unflushed: u32::try_from(self.next_sequence - self.durable_sequence).unwrap_or(u32::MAX),
        };
        header.seal(frame);
        let room = (self.segment_bytes - self.offset) as usize;
        frame.resize((LogFrame::padded_bytes(body_bytes) + BLANK.len()).min(room), 0);
        let region = segment.region.as_mut().expect("the active segment is mapped");
        let (seal, rest) = frame.split_first_chunk::<LOG_FRAME_SEAL_BYTES>().expect("a header is longer");
        region.write(u64::from(self.offset) + LOG_FRAME_SEAL_BYTES as u64, rest);
        region.seal(u64::from(self.offset), *seal);
        let appended = Appended {
            body: body_of(LogPlace { segment: self.active, offset: self.offset }),
            sequence: self.next_sequence,
        };
        self.offset += u32::try_from(LogFrame::padded_bytes(body_bytes)).expect("limited by the segment");
        self.next_sequence += 1;
        if self.dirty.last() != Some(&self.active) {
            self.dirty.insert(self.active);
        }
        appended
    }

    /// The bytes from a place to the end of its segment, while the segment is mapped.
    #[inline]
    pub(crate) fn mapped(&self, place: LogPlace) -> Option<&[u8]> {
        if place.segment == TENTATIVE_SEGMENT {
            return self.tentative.get(place.offset as usize..);
        }
        let region = self.segments.get(&place.segment)?.region.as_ref()?;
        region.try_bytes(u64::from(place.offset)..u64::from(self.segment_bytes))
    }

    /// The frame that begins at a place, if it is what was written.
    pub(crate) fn frame_at(&self, at: LogPlace) -> Option<(LogFrame, &[u8])> {
        LogFrame::open(self.mapped(at)?, self.segments.get(&at.segment)?.salt)
    }

    /// The body that begins at a place, if its frame is what was written.
    pub(crate) fn body_at(&self, body: LogPlace) -> Option<&[u8]> {
        let offset = body.offset.checked_sub(FRAME_HEADER_BYTES)?;
        self.frame_at(LogPlace { offset, ..body }).map(|(_, body)| body)
    }

    /// Brings the record of an entry near and goes on to the next entry.
    pub(crate) fn prefetch_next(&self, delta: &Delta, cursor: &mut Cursor) {
        /// The head of a record and its keys, as a rule.
        const LINES: usize = 2;
        if let Some((_, pos)) = cursor.entry()
            && let Some(record) = self.mapped(crate::index::log_place(pos))
        {
            dolmen_env::prefetch(record, LINES);
        }
        delta.advance(cursor);
    }

    /// Puts a record where it can be read like one of the log until `clear_tentative`.
    pub(crate) fn put_tentative(&mut self, build: impl FnOnce(&mut Vec<u8>)) -> LogPlace {
        let offset = u32::try_from(self.tentative.len()).expect("a transaction is limited to a log record");
        build(&mut self.tentative);
        LogPlace { segment: TENTATIVE_SEGMENT, offset }
    }

    pub(crate) fn clear_tentative(&mut self) {
        self.tentative.clear();
    }

    /// Reads bytes of a value; the caller verifies them.
    pub(crate) fn read(&self, disk: &mut dyn Disk, place: LogPlace, out: &mut [u8]) -> Result<(), Error> {
        let damaged = || corrupt(self.target, "log", u64::from(place.segment), u64::from(place.offset));
        let segment = self.segments.get(&place.segment).ok_or_else(damaged)?;
        let offset = u64::from(place.offset);
        let end = offset + out.len() as u64;
        if end > u64::from(self.segment_bytes) {
            return Err(damaged());
        }
        match &segment.region {
            Some(region) => {
                if out.len() >= READ_AHEAD_BYTES {
                    region.will_need(offset..end);
                }
                out.copy_from_slice(region.bytes(offset..end));
            }
            None => disk.read_at(segment.file, offset, out).map_err(|e| disk_error(self.target, &e))?,
        }
        Ok(())
    }

    /// Counts a small value as referred to.
    #[inline]
    pub(crate) fn add_live(&mut self, segment: u32, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.live_bytes += bytes;
        }
    }

    /// Small values are referred to no longer.
    pub(crate) fn remove_live(&mut self, segment: u32, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            assert!(segment.live_bytes >= bytes, "a value is dropped once");
            segment.live_bytes -= bytes;
        }
    }

    /// What a manifest says of segments.
    pub(crate) fn to_manifest(&self) -> Vec<LogSegmentInfo> {
        let used = self.segments.iter().filter(|(number, _)| !self.free.contains(number));
        used.map(|(&number, segment)| LogSegmentInfo { number, live_bytes: segment.live_bytes }).collect()
    }

    /// After a checkpoint whose log starts at `start`: unmaps what is no longer log, frees what nothing refers to.
    pub(crate) fn release_before(&mut self, disk: &mut dyn Disk, start: LogStart) -> Result<(), Error> {
        let mut unused = Vec::new();
        for (&number, segment) in self.segments.iter_mut() {
            let is_log =
                segment.first_sequence >= start.sequence || number == start.segment || number == self.active;
            if is_log || self.free.contains(&number) || self.dirty.contains(&number) {
                continue;
            }
            if !self.keep_mapped {
                segment.region = None;
            }
            if segment.live_bytes == 0 {
                unused.push(number);
            }
        }
        self.free.extend(unused);
        self.trim_unwanted(disk)
    }

    /// Gives free segments back that a load as it was between the last aggregations does not use again.
    ///
    /// REQUIRES: an aggregation has ended.
    pub(crate) fn aggregated(
        &mut self,
        disk: &mut dyn Disk,
        cont: ContNo,
        conts: usize,
    ) -> Result<(), Error> {
        self.spares.aggregated(cont, conts);
        self.trim_unwanted(disk)
    }

    fn trim_unwanted(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let few = FREE_SEGMENTS_MIN.max(self.segments.len() as u64 / FREE_PARTS_OF_ALL);
        let kept = self.spares.wanted().max(few).min(self.free_max);
        self.trim(disk, usize::try_from(kept).unwrap_or(usize::MAX))
    }

    /// Gives free segments beyond `kept` back to the device.
    pub(crate) fn trim(&mut self, disk: &mut dyn Disk, kept: usize) -> Result<(), Error> {
        while self.free.len() > kept
            && let Some(number) = self.free.pop_last()
        {
            let segment = self.segments.remove(&number).expect("free segments are open");
            drop(segment.region);
            disk.close(segment.file);
            disk.remove(&file_name(number)).map_err(|e| disk_error(self.target, &e))?;
        }
        Ok(())
    }

    /// Opens a segment at recovery and reads its header; `false` if it has one that is damaged.
    pub(crate) fn open_segment(&mut self, disk: &mut dyn Disk, number: u32) -> Result<bool, Error> {
        let io = |e: dolmen_env::Error| disk_error(self.target, &e);
        let file = disk.open(&file_name(number)).map_err(io)?;
        if disk.len(file).map_err(io)? != u64::from(self.segment_bytes) {
            disk.close(file);
            return Ok(true);
        }
        let mut bytes = [0; LOG_SEGMENT_HEADER_BYTES];
        disk.read_at(file, 0, &mut bytes).map_err(io)?;
        let header = LogSegmentHeader::decode(&bytes)
            .filter(|header| header.target_id == self.target_id && header.number == number);
        let (salt, first_sequence) = header.map_or((0, 0), |h| (h.salt, h.first_sequence));
        self.segments.insert(number, Segment::new(file, salt, first_sequence, false));
        Ok(header.is_some() || bytes.iter().all(|&byte| byte == 0))
    }

    /// Notes at recovery that values of a segment are referred to; `false` if there is no such segment.
    pub(crate) fn adopt(&mut self, disk: &mut dyn Disk, info: LogSegmentInfo) -> Result<bool, Error> {
        let Some(segment) = self.segments.get_mut(&info.number) else {
            return Ok(false);
        };
        segment.live_bytes = info.live_bytes;
        if self.keep_mapped {
            self.map(disk, info.number)?;
        }
        Ok(true)
    }

    /// Maps a segment for replay.
    pub(crate) fn map(&mut self, disk: &mut dyn Disk, number: u32) -> Result<(), Error> {
        let segment = self.segments.get_mut(&number).expect("opened before");
        if segment.region.is_none() {
            segment.region = Some(disk.map(segment.file).map_err(|e| disk_error(self.target, &e))?);
        }
        Ok(())
    }

    /// What was replayed may be in memory only, if it was the process that died: it is flushed with the manifest
    /// that ends the recovery, because later frames will say of it that it is durable.
    pub(crate) fn doubt_replayed(&mut self, from: LogStart, end: LogStart) {
        let is_log = |segment: &Segment| {
            segment.salt != 0 && (from.sequence..end.sequence).contains(&segment.first_sequence)
        };
        let log = self.segments.iter().filter(|(_, segment)| is_log(segment)).map(|(&number, _)| number);
        self.dirty.extend(log.chain([from.segment]).filter(|number| self.segments.contains_key(number)));
    }

    /// Continues behind the last valid frame, found by recovery. Everything so far counts as durable.
    pub(crate) fn resume(&mut self, end: LogStart) {
        self.active = end.segment;
        self.offset = end.offset;
        self.next_sequence = end.sequence;
        self.durable_sequence = end.sequence;
    }

    /// Makes sure that segments outside the log never pass for a part of it: those that claim frames from
    /// `sequence` on lose their headers, and so do those whose header is damaged, which may claim any.
    pub(crate) fn erase_headers(
        &mut self,
        disk: &mut dyn Disk,
        numbers: &[u32],
        headless: &BTreeSet<u32>,
        sequence: u64,
    ) -> Result<(), Error> {
        for number in numbers {
            let segment = self.segments.get_mut(number).expect("listed by the caller");
            let claims = segment.salt != 0 && segment.first_sequence >= sequence;
            if !claims && !headless.contains(number) {
                continue;
            }
            let io = |e: dolmen_env::Error| disk_error(self.target, &e);
            match &mut segment.region {
                Some(region) => region.zero(0..LOG_SEGMENT_HEADER_BYTES as u64),
                None => disk.write_at(segment.file, 0, &[0; LOG_SEGMENT_HEADER_BYTES]).map_err(io)?,
            }
            disk.flush(segment.file).map_err(io)?;
            segment.salt = 0;
        }
        Ok(())
    }

    pub(crate) fn active_file(&self) -> FileId {
        self.segments[&self.active].file
    }

    /// The segments written since they were last taken to be flushed.
    pub(crate) fn take_dirty(&mut self) -> impl Iterator<Item = FileId> + '_ {
        core::mem::take(&mut self.dirty).into_iter().map(|number| self.segments[&number].file)
    }

    /// Declares segments free at recovery.
    pub(crate) fn set_free(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.free.extend(numbers);
    }
}
