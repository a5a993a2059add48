//! Replaying the log behind the last checkpoint.

use crate::error::corrupt;
use crate::index::EntryPlace;
use crate::log::{LogPlace, body_of, header_bytes};
use crate::open::Recovery;
use crate::path::Depth;
use crate::target::Target;
use crate::tx::{Prepared, PreparedVersion};
use crate::update::offset_place;
use dolmen_codec::bytes::Reader;
use dolmen_codec::digest::WriteDigest;
use dolmen_codec::log_body::{
    ClientIntro, ContEvent, PrepareHead, WriteHead, decode_cred, decode_tx, decode_version,
};
use dolmen_codec::log_frame::{LOG_FRAME_ALIGN, LOG_FRAME_HEADER_BYTES, LogFrame, LogKind};
use dolmen_codec::log_segment::LOG_SEGMENT_HEADER_BYTES;
use dolmen_codec::manifest::{LogStart, Manifest, ResultInfo, SEGMENT_NUMBER_MAX};
use dolmen_codec::quota::ByUser;
use dolmen_codec::version::{Version, VersionKind};
use dolmen_types::{Epoch, Error, Stamp};
use std::collections::BTreeSet;

/// One frame found in the log.
struct Frame {
    header: LogFrame,
    body: LogPlace,
    bytes: Vec<u8>,
}

/// What the bulk that a frame refers to must be for the frame to count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BulkRule {
    /// Whole: else the write was interrupted.
    MustBeWhole,
    /// Only in place: the frame was durable, and its bulk with it.
    MayBeDamaged,
}

/// What may be missing behind the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The target was closed: nothing follows.
    Closed,
    /// The process died and the machine runs on: whatever was written is there, but for a frame that was being written.
    Process,
    /// The machine stopped: what was not flushed may be missing or torn, in any order.
    Power,
}

/// What follows the last good frame.
#[derive(Default)]
struct Tail {
    /// From there to the end of what was begun, in all segments.
    bytes: u64,
    /// Whether there are valid frames.
    has_frames: bool,
    /// Whether one of them says that the frame which is missing was durable.
    was_durable: bool,
    /// Whether a frame was written to its end at the place where the log ends, or a segment was begun behind one that
    /// is missing.
    was_written: bool,
}

impl Tail {
    /// Whether something that was acknowledged is missing or damaged, rather than an interrupted write.
    fn is_damage(&self, stop: Stop) -> bool {
        match stop {
            Stop::Closed => self.has_frames,
            Stop::Process => self.has_frames || self.was_written,
            Stop::Power => self.was_durable,
        }
    }

    /// Looks through a segment from the place of a frame on, for frames from `sequence` on.
    fn scan(&mut self, bytes: &[u8], salt: u32, sequence: u64) {
        let mut end = LogFrame::begun_bytes(bytes, salt, sequence);
        let mut offset = 0;
        while offset + LOG_FRAME_HEADER_BYTES <= bytes.len() {
            if let Some((header, body)) = LogFrame::open(&bytes[offset..], salt)
                && header.sequence >= sequence
            {
                self.has_frames = true;
                let durable_below = header.sequence - u64::from(header.unflushed).min(header.sequence);
                self.was_durable |= durable_below > sequence;
                end = end.max(offset + LogFrame::padded_bytes(body.len()));
            }
            offset += LOG_FRAME_ALIGN;
        }
        self.bytes += end as u64;
    }

    /// As `scan`, in a segment whose header is damaged: its first frame has the salt, too.
    fn scan_headless(&mut self, bytes: &[u8], sequence: u64) {
        let Some(salt) = LogFrame::salt_of(bytes) else {
            return;
        };
        if LogFrame::open(bytes, salt).is_none_or(|(header, _)| header.sequence >= sequence) {
            self.bytes += LOG_SEGMENT_HEADER_BYTES as u64;
            self.scan(bytes, salt, sequence);
        }
    }
}

impl Target {
    /// Opens the log's segments, replays its frames, and leaves the log ready to be continued.
    pub(crate) fn replay(&mut self, manifest: &Manifest, stop: Stop) -> Result<Recovery, Error> {
        let headless = self.open_log(manifest)?;
        // The recovery that made a splice has flushed everything before it.
        let durable_below = manifest.splices.last().map_or(0, |splice| splice.0);
        let mut recovery = Recovery::default();
        let mut at = manifest.log_start;
        loop {
            if let Some(segment) = splice_at(manifest, at) {
                at = LogStart { segment, offset: header_bytes(), sequence: at.sequence };
            }
            self.map_log(at.segment)?;
            if let Some(frame) = self.frame_at(at) {
                let is_whole = self.replay_frame(&frame, BulkRule::MustBeWhole)?;
                if !is_whole {
                    // Bulk that was written before its frame and is damaged now is found by whoever reads it.
                    let was_whole = stop != Stop::Power || at.sequence < durable_below;
                    if !was_whole && !self.judge_tail(at, &headless)?.was_durable {
                        break;
                    }
                    if !self.replay_frame(&frame, BulkRule::MayBeDamaged)? {
                        return Err(self.log_damage(at));
                    }
                }
                recovery.frames += 1;
                let step =
                    u32::try_from(LogFrame::padded_bytes(frame.bytes.len())).expect("fits its segment");
                at = LogStart { offset: at.offset + step, sequence: at.sequence + 1, ..at };
            } else if let Some(segment) = self.next_segment_of(manifest, at)? {
                at = LogStart { segment, offset: header_bytes(), sequence: at.sequence };
            } else {
                break;
            }
        }
        let tail = self.judge_tail(at, &headless)?;
        if tail.is_damage(stop) || at.sequence < durable_below {
            return Err(self.log_damage(at));
        }
        // Behind the log of a closed target there is nothing but free space.
        recovery.discarded_bytes = if stop == Stop::Closed { 0 } else { tail.bytes };
        self.finish_replay(manifest, at, stop, &headless)?;
        Ok(recovery)
    }

    fn log_damage(&self, at: LogStart) -> Error {
        corrupt(self.config.target, "log", u64::from(at.segment), u64::from(at.offset))
    }

    /// Opens all segments; returns those that the log may go on in but whose header is damaged.
    fn open_log(&mut self, manifest: &Manifest) -> Result<BTreeSet<u32>, Error> {
        let io = |e: dolmen_env::Error| crate::error::disk_error(self.config.target, &e);
        let names = self.store.disks.meta.list().map_err(io)?;
        let number_of = |name| crate::names::number_of(name, crate::log::file_name, SEGMENT_NUMBER_MAX);
        let numbers = names.iter().filter_map(|name| number_of(name));
        let mut headless = BTreeSet::new();
        for number in numbers {
            if !self.store.log.open_segment(&mut *self.store.disks.meta, number)? {
                headless.insert(number);
            }
        }
        for &info in &manifest.log_segments {
            if !self.store.log.adopt(&mut *self.store.disks.meta, info)? {
                return Err(corrupt(self.config.target, "log", u64::from(info.number), 0));
            }
            headless.remove(&info.number);
        }
        Ok(headless)
    }

    /// Makes a segment readable that the manifest or the log before it names.
    fn map_log(&mut self, number: u32) -> Result<(), Error> {
        if !self.store.log.segments.contains_key(&number) {
            return Err(corrupt(self.config.target, "log", u64::from(number), 0));
        }
        self.store.log.map(&mut *self.store.disks.meta, number)
    }

    /// The valid frame with the expected sequence number at a place, if there is one.
    fn frame_at(&self, at: LogStart) -> Option<Frame> {
        let place = LogPlace { segment: at.segment, offset: at.offset };
        let found = self.store.log.frame_at(place).filter(|(header, _)| header.sequence == at.sequence);
        found.map(|(header, body)| Frame { header, body: body_of(place), bytes: body.to_vec() })
    }

    /// The segment in which the log goes on when this one has no more frames: one that begins with the next
    /// frame. At a splice the manifest alone says where, so no other segment that claims the same sequence
    /// number is looked at.
    fn next_segment_of(&mut self, manifest: &Manifest, at: LogStart) -> Result<Option<u32>, Error> {
        if manifest.splices.iter().any(|splice| splice.0 == at.sequence) {
            return Ok(None);
        }
        let begins: Vec<u32> = self.store.log.beginning_at(at.sequence, at.segment).collect();
        for segment in begins {
            self.map_log(segment)?;
            if self.frame_at(LogStart { segment, offset: header_bytes(), ..at }).is_some() {
                return Ok(Some(segment));
            }
        }
        Ok(None)
    }

    /// Replays one frame; `false` if it was not complete when the machine stopped: bulk that it refers to is
    /// missing and nobody was told of it.
    fn replay_frame(&mut self, frame: &Frame, rule: BulkRule) -> Result<bool, Error> {
        let damaged = || {
            corrupt(self.config.target, "log", u64::from(frame.body.segment), u64::from(frame.body.offset))
        };
        let mut r = Reader::new(&frame.bytes);
        match frame.header.kind {
            LogKind::Write => {
                let head = WriteHead::decode(&mut r).ok_or_else(damaged)?;
                let (versions, digest) = write_versions(&head, &mut r).ok_or_else(damaged)?;
                if !self.claim_bulk(frame, &versions, rule)? {
                    return Ok(false);
                }
                self.replay_write(frame, &head, &versions, digest)?;
            }
            LogKind::Prepare => {
                let head = PrepareHead::decode(&mut r).ok_or_else(damaged)?;
                let versions = prepare_versions(&head, &mut r).ok_or_else(damaged)?;
                if !self.claim_bulk(frame, &versions, rule)? {
                    return Ok(false);
                }
                self.epochs.replay(head.epoch);
                let tx = head.tx;
                let (body, body_bytes, expected) = (frame.body, frame.bytes.len(), ByUser::default());
                let prepared = Prepared { head, body, body_bytes, versions, expected };
                if prepared.head.committed {
                    self.apply_prepared(&prepared)?;
                    self.txs.remember_commit(&prepared.head, self.config.target);
                } else if !self.txs.is_decided(tx) {
                    self.txs.prepared.insert(tx, prepared);
                }
            }
            LogKind::Commit => {
                let tx = decode_tx(&mut r).ok_or_else(damaged)?;
                let prepared = self.txs.prepared.remove(&tx).ok_or_else(damaged)?;
                self.apply_prepared(&prepared)?;
                self.txs.remember_commit(&prepared.head, self.config.target);
            }
            LogKind::Conclude => self.txs.conclude(decode_tx(&mut r).ok_or_else(damaged)?),
            LogKind::Abort => {
                let tx = decode_tx(&mut r).ok_or_else(damaged)?;
                if let Some(prepared) = self.txs.prepared.remove(&tx) {
                    if self.has_dropped(&prepared) {
                        return Err(damaged());
                    }
                    self.drop_prepared(&prepared);
                }
            }
            LogKind::Cont => {
                let (cont, event) = ContEvent::decode(&mut r).ok_or_else(damaged)?;
                self.replay_event(event);
                self.apply_event(cont, event);
            }
            LogKind::Ceiling => self.epochs.replay(Epoch(r.u64().ok_or_else(damaged)?)),
            LogKind::Client => {
                let intro = ClientIntro::decode(&mut r).ok_or_else(damaged)?;
                self.repeats.add(&intro);
            }
            LogKind::Cred => {
                let (number, cred) = decode_cred(&mut r).ok_or_else(damaged)?;
                self.creds.insert(cred, number);
            }
            LogKind::Moved => {}
        }
        Ok(true)
    }

    fn replay_event(&mut self, event: ContEvent) {
        match event {
            ContEvent::Floor(epoch)
            | ContEvent::SnapshotAdded(epoch)
            | ContEvent::RolledBack { at: epoch, .. } => {
                self.epochs.replay(epoch.next());
            }
            ContEvent::Created(_) | ContEvent::Destroyed | ContEvent::SnapshotRemoved(_) => {}
        }
    }

    fn replay_write(
        &mut self,
        frame: &Frame,
        head: &WriteHead,
        versions: &[PreparedVersion],
        digest: u32,
    ) -> Result<(), Error> {
        self.epochs.replay(head.epoch);
        let Some(known) = self.conts.any(head.cont) else {
            return Ok(());
        };
        let secret = known.state.spec.hash_key;
        let mut path = self.store.take_path();
        path.object(head.cont, secret, head.oid)?;
        for version in versions {
            let stamp = Stamp { epoch: head.epoch, minor: version.minor };
            let place = offset_place(frame.body, version.offset);
            self.index_version(&mut path, version.depth, &version.dkey, &version.akey, stamp, place)?;
        }
        self.store.put_path(path);
        let result = ResultInfo { sequence: head.sequence, epoch: head.epoch, digest };
        self.repeats.retain(head.client, result);
        Ok(())
    }

    /// Marks the bulk units that a frame refers to as used, after verifying what was written to them; all of
    /// them or none.
    fn claim_bulk(
        &mut self,
        frame: &Frame,
        versions: &[PreparedVersion],
        rule: BulkRule,
    ) -> Result<bool, Error> {
        let mut claims = Vec::new();
        for version in versions {
            let place = EntryPlace::Log(offset_place(frame.body, version.offset));
            let stored = self.store.stored(&place)?;
            let Some((bulk, count)) = stored.bulk() else {
                continue;
            };
            if !self.store.bulk.reopen(self.store.disks.bulk(), bulk, count)? {
                return Ok(false);
            }
            match self.store.verify_value(&stored) {
                Err(Error::Corrupt { .. }) if rule == BulkRule::MustBeWhole => return Ok(false),
                Ok(()) | Err(Error::Corrupt { .. }) => claims.push((bulk, count)),
                Err(error) => return Err(error),
            }
        }
        for (bulk, count) in claims {
            self.store.bulk.claim(bulk, count);
        }
        Ok(true)
    }

    /// Whether something has given bulk back already that a transaction holds: no two that we wrote hold the same.
    fn has_dropped(&self, prepared: &Prepared) -> bool {
        self.held_bulk(prepared).any(|(bulk, count)| self.store.bulk.is_given_back(bulk, count))
    }

    /// Looks at what follows the last good frame: an interrupted write, or damage. A later valid frame that
    /// says the one at `at` was durable tells them apart.
    fn judge_tail(&mut self, at: LogStart, headless: &BTreeSet<u32>) -> Result<Tail, Error> {
        if headless.contains(&at.segment) {
            // Named by the manifest, so its header was durable.
            return Err(corrupt(self.config.target, "log", u64::from(at.segment), 0));
        }
        let mut tail = Tail::default();
        let segments = &self.store.log.segments;
        let here = (at.segment, at.offset, segments[&at.segment].salt);
        tail.was_written =
            segments.iter().any(|(_, segment)| segment.salt != 0 && segment.first_sequence > at.sequence);
        let later = segments.iter().filter(|(number, segment)| {
            **number != at.segment && segment.salt != 0 && segment.first_sequence >= at.sequence
        });
        let places: Vec<(u32, u32, u32)> = core::iter::once(here)
            .chain(later.map(|(&number, segment)| (number, header_bytes(), segment.salt)))
            .collect();
        for (segment, offset, salt) in places {
            self.map_log(segment)?;
            if let Some(bytes) = self.store.log.mapped(LogPlace { segment, offset }) {
                tail.was_written |= LogFrame::is_sealed(bytes);
                tail.scan(bytes, salt, at.sequence);
            }
        }
        for &segment in headless {
            self.map_log(segment)?;
            if let Some(bytes) = self.store.log.mapped(LogPlace { segment, offset: header_bytes() }) {
                tail.scan_headless(bytes, at.sequence);
            }
        }
        Ok(tail)
    }

    /// Leaves the log ready to be continued behind the last frame, in a segment of its own.
    ///
    /// After an unclean stop the frames that were discarded must stay outside the log for ever: segments of
    /// theirs lose their headers, and the manifest says where the log goes on.
    fn finish_replay(
        &mut self,
        manifest: &Manifest,
        at: LogStart,
        stop: Stop,
        headless: &BTreeSet<u32>,
    ) -> Result<(), Error> {
        // Joined extents are replayed behind what came after their parts.
        self.store.record_sizes.clear();
        self.store.log.resume(at);
        self.conts.replayed(at.sequence);
        self.epochs.replay(self.epochs.latest());
        self.checkpoint.newest_write = self.epochs.latest();
        self.reads = crate::marks::Reads::new(self.epochs.latest());
        self.writes = crate::marks::Marks::new(self.epochs.latest());
        let named: BTreeSet<u32> = manifest.log_segments.iter().map(|info| info.number).collect();
        let mut free = Vec::new();
        for (&number, segment) in self.store.log.segments.iter() {
            let in_log =
                number == at.segment || number == manifest.log_start.segment || is_log(manifest, segment, at);
            if !in_log && segment.live_bytes == 0 && !named.contains(&number) {
                free.push(number);
            }
        }
        self.store.log.erase_headers(&mut *self.store.disks.meta, &free, headless, at.sequence)?;
        self.store.log.set_free(free);
        if stop != Stop::Closed {
            // On a full device the new manifest takes their place.
            self.remove_stray_runs()?;
            self.store.log.doubt_replayed(manifest.log_start, at);
            self.splice_log(at.sequence)?;
        }
        self.refill_reserve()
    }
}

/// Where the log goes on at a sequence number, if a recovery has said so and it is not there yet.
fn splice_at(manifest: &Manifest, at: LogStart) -> Option<u32> {
    let splice = manifest.splices.iter().rev().find(|splice| splice.0 == at.sequence)?;
    (splice.1 != at.segment).then_some(splice.1)
}

fn is_log(manifest: &Manifest, segment: &crate::log::Segment, end: LogStart) -> bool {
    segment.salt != 0
        && segment.first_sequence >= manifest.log_start.sequence
        && segment.first_sequence < end.sequence
}

fn depth_of(version: &Version<'_>) -> Depth {
    match (version.kind, version.dkey.is_empty(), version.akey.is_empty()) {
        (VersionKind::Punch, true, _) => Depth::Object,
        (VersionKind::Punch, false, true) => Depth::Dkey,
        _ if version.is_gift() => Depth::Object,
        _ => Depth::Akey,
    }
}

fn found(offset: usize, oid: dolmen_types::Oid, version: &Version<'_>) -> PreparedVersion {
    PreparedVersion {
        oid,
        depth: depth_of(version),
        dkey: version.dkey.into(),
        akey: version.akey.into(),
        minor: version.minor,
        offset,
        is_gift: version.is_gift(),
    }
}

/// The versions of a write, and the digest of what was asked.
fn write_versions(head: &WriteHead, r: &mut Reader<'_>) -> Option<(Vec<PreparedVersion>, u32)> {
    let mut versions = Vec::new();
    let mut digest = None;
    while r.remaining() > 0 {
        let (offset, version, _) = decode_version(r)?;
        let of_all = digest.get_or_insert_with(|| WriteDigest::of(head.cont, head.oid, version.dkey));
        let Version { kind, akey, recx, record_bytes, value_bytes, sums, .. } = version;
        of_all.version(kind, akey, recx, record_bytes, value_bytes, sums);
        versions.push(found(offset, head.oid, &version));
    }
    Some((versions, digest.map_or(0, WriteDigest::value)))
}

fn prepare_versions(head: &PrepareHead, r: &mut Reader<'_>) -> Option<Vec<PreparedVersion>> {
    let mut versions = Vec::new();
    for _ in 0..head.groups {
        let oid = r.oid()?;
        for _ in 0..r.count(Version::LOGGED_BYTES_MIN)? {
            let (offset, version, _) = decode_version(r)?;
            versions.push(found(offset, oid, &version));
        }
    }
    Some(versions)
}
