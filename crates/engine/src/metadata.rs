//! Verifying, on the device, the records that were read when the target was opened: superblock, manifest, what of runs
//! is resident, and the log behind the checkpoint. The target does not need them any more; its next open does.
//!
//! Superblock and manifest are in memory as they should be: the scrub writes them again. A merge does the same for
//! runs, a checkpoint for the log, but for records of versions: none carries on what is damaged.

use crate::error::{disk_error, is_unreadable};
use crate::log::{LogPlace, header_bytes};
use crate::open::{SLOTS, SUPERBLOCK_FILE, read_manifest};
use crate::target::Target;
use dolmen_codec::log_frame::LogFrame;
use dolmen_codec::log_segment::{LOG_SEGMENT_HEADER_BYTES, LogSegmentHeader};
use dolmen_codec::manifest::LogStart;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::verb::Finding;
use dolmen_types::{Error, Place};

/// Bytes after which a step ends, but for the record that it ends with: a manifest, a frame.
const STEP_BYTES: u64 = 256 << 10;

/// Which record is verified next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RecordAt {
    /// Superblock and manifest.
    #[default]
    Heads,
    /// Of the first run with this number or a higher one, what begins at this page or behind it.
    Run { number: u32, page: u32 },
    /// The frame here.
    Frame(LogStart),
    /// None.
    End,
}

impl RecordAt {
    /// Behind what cannot be verified here.
    pub(crate) fn following(self) -> Self {
        match self {
            Self::Heads => Self::Run { number: 0, page: 0 },
            Self::Run { number, .. } => Self::Run { number: number.saturating_add(1), page: 0 },
            Self::Frame(_) | Self::End => Self::End,
        }
    }
}

impl Target {
    /// Verifies some records from `at` on. Where it goes on, and the bytes read.
    ///
    /// # Errors
    /// The device's. Damage, and what the device does not give, is no error, but noted.
    pub(crate) fn verify_records(
        &mut self,
        at: RecordAt,
        damaged: &mut Vec<Finding>,
    ) -> Result<(RecordAt, u64), Error> {
        match at {
            RecordAt::Heads => {
                let read_bytes = self.verify_heads(damaged)?;
                Ok((RecordAt::Run { number: 0, page: 0 }, read_bytes))
            }
            RecordAt::Run { number, page } => self.verify_run(number, page, damaged),
            RecordAt::Frame(at) => Ok(self.verify_frames(at, damaged)),
            RecordAt::End => Ok((RecordAt::End, 0)),
        }
    }

    fn verify_heads(&mut self, damaged: &mut Vec<Finding>) -> Result<u64, Error> {
        let target = self.config.target;
        let file = self.superblock_file()?;
        let current = *self.checkpoint.superblock();
        let disk = &mut *self.store.disks.meta;
        let mut slot = vec![0; SUPERBLOCK_SLOT_BYTES];
        for number in 0..SLOTS {
            let offset = number * SUPERBLOCK_SLOT_BYTES as u64;
            let is_intact = match disk.read_at(file, offset, &mut slot).map_err(|e| disk_error(target, &e)) {
                Ok(()) if number == current.sequence % SLOTS => slot == current.encode(),
                Ok(()) => is_earlier(&slot, &current),
                Err(error) if is_unreadable(&error) => false,
                Err(error) => return Err(error),
            };
            if !is_intact {
                let place = Place::Record { file: SUPERBLOCK_FILE, number: 0, offset };
                damaged.push(Finding { place, rule: "superblock" });
            }
        }
        match read_manifest(disk, target, &current) {
            Ok(_) => {}
            Err(error) if is_unreadable(&error) => {
                let place =
                    Place::Record { file: "manifest", number: u64::from(current.manifest), offset: 0 };
                damaged.push(Finding { place, rule: "manifest" });
            }
            Err(error) => damaged.push(finding_of(error, "manifest")?),
        }
        Ok(SLOTS * SUPERBLOCK_SLOT_BYTES as u64 + u64::from(current.manifest_bytes))
    }

    fn verify_run(
        &mut self,
        number: u32,
        page: u32,
        damaged: &mut Vec<Finding>,
    ) -> Result<(RecordAt, u64), Error> {
        let behind = self.store.index.runs.iter().filter(|run| run.number() >= number);
        let Some(run) = behind.min_by_key(|run| run.number()) else {
            return Ok((RecordAt::Frame(self.checkpoint.base.log_start), 0));
        };
        let mut page = if run.number() == number { page } else { 0 }.max(run.footer().entry_pages);
        let mut read_bytes = 0;
        while let Some(pages) = run.part_pages(page) {
            if read_bytes >= STEP_BYTES {
                return Ok((RecordAt::Run { number: run.number(), page }, read_bytes));
            }
            match run.verify_part(&mut *self.store.disks.meta, page, pages) {
                Ok(bytes) => read_bytes += bytes,
                Err(error) => damaged.push(finding_of(error, "run-index")?),
            }
            page += pages;
        }
        Ok((RecordAt::Run { number: run.number() + 1, page: 0 }, read_bytes))
    }

    fn verify_frames(&self, mut at: LogStart, damaged: &mut Vec<Finding>) -> (RecordAt, u64) {
        let start = self.checkpoint.base.log_start;
        if at.sequence < start.sequence {
            // A checkpoint has come meanwhile.
            at = start;
        }
        let mut read_bytes = 0;
        while at.sequence < self.store.log.next_sequence() {
            if read_bytes >= STEP_BYTES {
                return (RecordAt::Frame(at), read_bytes);
            }
            let splice = self.checkpoint.base.splices.iter().rev().find(|splice| splice.0 == at.sequence);
            if let Some(&(_, segment)) = splice.filter(|splice| splice.1 != at.segment) {
                at = LogStart { segment, offset: header_bytes(), ..at };
            }
            if at.offset == header_bytes() && !self.has_header(at.segment) {
                damaged.push(frame_finding(LogStart { offset: 0, ..at }));
            }
            let next = self.frame_end(at).or_else(|| {
                let segment = self.store.log.beginning_at(at.sequence, at.segment).next()?;
                self.frame_end(LogStart { segment, offset: header_bytes(), ..at })
            });
            at = match next {
                Some(next) => {
                    read_bytes += u64::from(next.offset.saturating_sub(at.offset));
                    next
                }
                None => {
                    damaged.push(frame_finding(at));
                    // How long it is nobody knows: what follows it in its segment is out of reach.
                    match self.segment_behind(at.sequence) {
                        Some(next) => next,
                        None => break,
                    }
                }
            };
        }
        (RecordAt::End, read_bytes)
    }

    fn has_header(&self, number: u32) -> bool {
        let Some(segment) = self.store.log.segments.get(&number) else {
            return false;
        };
        let bytes = self.store.log.mapped(LogPlace { segment: number, offset: 0 });
        let header = bytes.and_then(|bytes| LogSegmentHeader::decode(&bytes[..LOG_SEGMENT_HEADER_BYTES]));
        header.is_some_and(|header| {
            header.number == number
                && (header.salt, header.first_sequence) == (segment.salt, segment.first_sequence)
                && header.target_id == self.target_id
        })
    }

    /// The place behind the frame here, if it is whole.
    fn frame_end(&self, at: LogStart) -> Option<LogStart> {
        let place = LogPlace { segment: at.segment, offset: at.offset };
        let (frame, body) = self.store.log.frame_at(place)?;
        let offset = at.offset + u32::try_from(LogFrame::padded_bytes(body.len())).ok()?;
        (frame.sequence == at.sequence).then_some(LogStart { offset, sequence: at.sequence + 1, ..at })
    }

    /// Where the log goes on in the first segment that begins behind a frame.
    fn segment_behind(&self, sequence: u64) -> Option<LogStart> {
        let segments = self.store.log.segments.iter();
        let behind = segments.filter(|(_, segment)| segment.salt != 0 && segment.first_sequence > sequence);
        let (&number, segment) = behind.min_by_key(|(_, segment)| segment.first_sequence)?;
        Some(LogStart { segment: number, offset: header_bytes(), sequence: segment.first_sequence })
    }

    /// Writes superblock and manifest again where they are damaged; what was found says so from then on.
    pub(crate) fn repair_records(&mut self, damaged: &mut [Finding]) {
        for finding in damaged {
            let (repaired, rule) = match (finding.rule, &finding.place) {
                _ if self.read_only => continue,
                ("superblock", Place::Record { offset, .. }) => {
                    (self.rewrite_superblock(*offset), "superblock-repaired")
                }
                ("manifest", _) => (self.rewrite_manifest(), "manifest-repaired"),
                _ => continue,
            };
            if repaired.is_ok() {
                finding.rule = rule;
            }
        }
    }
}

/// Whether a slot holds a superblock of this target that is not the current one: the first leaves the other slot blank.
fn is_earlier(slot: &[u8], current: &Superblock) -> bool {
    match Superblock::decode(slot) {
        Some(found) => found.target_id == current.target_id && found.sequence != current.sequence,
        None => current.sequence <= 1 && slot.iter().all(|&byte| byte == 0),
    }
}

/// What an error says is damaged; any other error is one.
fn finding_of(error: Error, rule: &'static str) -> Result<Finding, Error> {
    match error {
        Error::Corrupt { place, .. } => Ok(Finding { place: *place, rule }),
        other => Err(other),
    }
}

fn frame_finding(at: LogStart) -> Finding {
    let place = Place::Record { file: "log", number: u64::from(at.segment), offset: u64::from(at.offset) };
    Finding { place, rule: "log-frame" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Devices, TargetConfig};
    use dolmen_codec::log_body::ContEvent;
    use dolmen_codec::log_frame::LogKind;
    use dolmen_codec::verb::system_container;
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::ContNo;

    fn target() -> Target {
        let drive = SimDrive::new(SimConfig::default());
        let devices = Devices { meta: Box::new(SimDisk::new(&drive)), bulk: None };
        let clock = std::sync::Arc::new(dolmen_env::SimClock::new(1_800_000_000_000_000_000));
        Target::create(devices, clock, 7, &TargetConfig::default()).expect("room")
    }

    fn found(target: &mut Target) -> Vec<u64> {
        let (mut at, mut damaged) = (RecordAt::default(), Vec::new());
        while at != RecordAt::End {
            at = target.verify_records(at, &mut damaged).expect("the device works").0;
        }
        let offset = |finding: Finding| match (finding.rule, finding.place) {
            ("log-frame", Place::Record { file: "log", offset, .. }) => offset,
            other => panic!("{other:?}"),
        };
        damaged.into_iter().map(offset).collect()
    }

    fn flip(target: &mut Target, segment: u32, at: u32) {
        let byte = target.store.log.mapped(LogPlace { segment, offset: at }).expect("it is mapped")[0];
        let segment = target.store.log.segments.get_mut(&segment).expect("it is open");
        segment.region.as_mut().expect("it is mapped").write(u64::from(at), &[byte ^ 4]);
    }

    #[test]
    fn a_flipped_bit_of_the_log_behind_the_checkpoint_is_named_by_its_frame() {
        let mut target = target();
        let segment = target.store.log.end().segment;
        let mut frames = Vec::new();
        for number in 10..14 {
            let start = target.store.log.end().offset;
            let event = ContEvent::Created(system_container().1);
            target.store.log.append(LogKind::Cont, |out| event.encode(ContNo(number), out));
            let place = LogPlace { segment, offset: start };
            let (frame, _) = target.store.log.frame_at(place).expect("just written");
            frames.push((start, crate::log::body_of(place).offset - start + frame.body_bytes));
        }
        assert_eq!(found(&mut target), []);
        for (start, frame_bytes) in frames {
            for at in start..start + frame_bytes {
                flip(&mut target, segment, at);
                assert_eq!(found(&mut target), [u64::from(start)], "byte {at}");
                flip(&mut target, segment, at);
            }
        }
        // The header counts where the log behind the checkpoint begins with its segment.
        let sequence = target.store.log.segments[&segment].first_sequence;
        target.checkpoint.base.log_start = LogStart { segment, offset: header_bytes(), sequence };
        assert_eq!(found(&mut target), []);
        flip(&mut target, segment, 20);
        assert_eq!(found(&mut target), [0]);
    }
}
