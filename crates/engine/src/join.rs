//! Joining: extents of an array that were written one after another and lie side by side become one.
//!
//! A merge that resolves an array finds them. The joined extent is logged with the newest stamp of what it joins:
//! whoever sees it saw all of that. From then on it hides its parts, and the next merge drops them.
//!
//! Invariants: no kept epoch lies between the stamps of what is joined; without the frame the parts say the same,
//! so nobody waits for it; a merge that may drop parts is named in a manifest after the frame is durable.

use crate::gifts::Gifts;
use crate::index::EntryPlace;
use crate::path::Depth;
use crate::space::Need;
use crate::store::{Extent, Piece, Store};
use crate::target::Target;
use crate::update::offset_place;
use dolmen_codec::log_body::WriteHead;
use dolmen_codec::log_frame::LogKind;
use dolmen_codec::quota::charge_of;
use dolmen_codec::version::{ValuePlace, Version, VersionKind, chunk_bytes};
use dolmen_types::{ContNo, Epoch, Error, Key, Oid, Recx, crc32c, limits};
use smallvec::SmallVec;

/// When extents are joined.
#[derive(Clone, Copy)]
pub(crate) struct JoinRule {
    /// So many extents at least.
    pub(crate) extents_min: usize,
    /// Bytes of a joined extent at most.
    pub(crate) bytes_max: u64,
}

impl JoinRule {
    /// For log segments of so many bytes.
    pub(crate) fn new(extents_min: u32, log_segment_bytes: u32) -> Self {
        let chunk = limits::CSUM_CHUNK_BYTES as u64;
        Self { extents_min: extents_min as usize, bytes_max: chunk.min(u64::from(log_segment_bytes) / 4) }
    }

    /// Whether it pays: extents that were joined before are copied only to become twice as large.
    fn pays(&self, parts: &[Extent]) -> bool {
        let largest = parts.iter().map(value_bytes).max().unwrap_or(0);
        parts.len() >= self.extents_min && parts.iter().map(value_bytes).sum::<u64>() >= 2 * largest
    }
}

fn value_bytes(extent: &Extent) -> u64 {
    extent.recx.count.saturating_mul(u64::from(extent.record_bytes))
}

/// Extents that the newest view sees whole, each next to and newer than the one before, no kept epoch between.
fn side_by_side(extents: &[Extent], pieces: &[Piece], kept: &[Epoch], rule: JoinRule) -> Vec<Vec<Extent>> {
    let seen_by = |extent: &Extent| kept.partition_point(|&epoch| epoch < extent.stamp.epoch);
    let (mut found, mut run, mut run_bytes) = (Vec::new(), Vec::<Extent>::new(), 0);
    for piece in pieces {
        let extent = &extents[piece.extent];
        let is_whole = piece.start == extent.recx.index && piece.end - piece.start == extent.recx.count;
        let bytes = value_bytes(extent);
        let follows = run.last().is_some_and(|last| {
            last.recx.end() == Some(extent.recx.index)
                && last.record_bytes == extent.record_bytes
                && last.stamp < extent.stamp
                && seen_by(last) == seen_by(extent)
                && run_bytes + bytes <= rule.bytes_max
        });
        if !follows && !run.is_empty() {
            found.push(core::mem::take(&mut run));
            run_bytes = 0;
        }
        if is_whole && bytes <= rule.bytes_max / 2 {
            run.push(extent.clone());
            run_bytes += bytes;
        }
    }
    found.push(run);
    found.retain(|run| rule.pays(run));
    found
}

impl Store {
    /// What can be joined of an array: small values in the log, those that one is charged for together.
    pub(crate) fn joinable(
        &self,
        gifts: &Gifts,
        extents: &[Extent],
        pieces: &[Piece],
        kept: &[Epoch],
        rule: JoinRule,
    ) -> Result<Vec<Vec<Extent>>, Error> {
        let mut joinable = Vec::new();
        for run in side_by_side(extents, pieces, kept, rule) {
            let writers = run.iter().map(|part| {
                let writer = self.small_writer(&part.place)?;
                Ok(writer.map(|cred| gifts.payer(part.stamp, cred)))
            });
            let writers = writers.collect::<Result<Vec<Option<u32>>, Error>>()?;
            let parts: Vec<_> = run.into_iter().zip(writers).collect();
            let alike = parts.chunk_by(|one, other| one.1 == other.1).filter(|parts| parts[0].1.is_some());
            let alike = alike.map(|parts| parts.iter().map(|(part, _)| part.clone()).collect::<Vec<_>>());
            joinable.extend(alike.filter(|parts| rule.pays(parts)));
        }
        Ok(joinable)
    }

    /// Whose version it is, if its value is in the log.
    fn small_writer(&self, place: &EntryPlace) -> Result<Option<u32>, Error> {
        let (version, value) = self.index.version(&self.log, place.as_ref())?;
        Ok(matches!(value, ValuePlace::Log { .. }).then_some(version.cred))
    }
}

impl Target {
    /// Whether there is room for what joining adds until the next merge drops what it hides.
    pub(crate) fn may_join(&self) -> bool {
        !self.checkpoint.is_reclaiming
            && (self.store.index.delta.resident_bytes() as u64) < self.delta_share()
    }

    /// Joins extents of one array. Those for which there is no room, or of which one is damaged, stay as they are.
    ///
    /// REQUIRES: no value is on its way into a `Moved` frame.
    pub(crate) fn join(&mut self, cont: ContNo, oid: Oid, joinable: &[Vec<Extent>]) -> Result<(), Error> {
        for parts in joinable {
            match self.join_parts(cont, oid, parts) {
                Ok(()) | Err(Error::NoSpace { .. } | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn join_parts(&mut self, cont: ContNo, oid: Oid, parts: &[Extent]) -> Result<(), Error> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Ok(());
        };
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut value = Vec::new();
        for part in parts {
            let stored = self.store.stored(&part.place)?;
            let from = value.len();
            value.resize(from + stored.len(), 0);
            self.store.read_value(&stored, 0, &mut value[from..])?;
        }
        let chunks = value.chunks(chunk_bytes(first.record_bytes, 0));
        let sums: SmallVec<[u8; 8]> = chunks.flat_map(|chunk| crc32c(chunk).to_le_bytes()).collect();
        let known = self.store.version(&first.place)?;
        let (dkey, akey, cred) = (Key::from_slice(known.dkey), Key::from_slice(known.akey), known.cred);
        // Who is charged for all of them is on record of it: a gift that says so may be dropped with them.
        let cred = self.store.gifts(cont, oid)?.payer(first.stamp, cred);
        let recx = Recx::new(first.recx.index, parts.iter().map(|part| part.recx.count).sum());
        let joined = Version {
            kind: VersionKind::of_extent(recx.count),
            minor: last.stamp.minor,
            cred,
            dkey: &dkey,
            akey: &akey,
            recx,
            record_bytes: first.record_bytes,
            value_bytes: u32::try_from(value.len()).expect("at most a chunk"),
            place: ValuePlace::Inline,
            sums: &sums,
        };
        let charge = charge_of(&dkey, &akey, recx.index, joined.value_bytes);
        let head = WriteHead::of_nobody(last.stamp.epoch, cont, oid);
        self.make_room(head.encoded_bytes() + joined.logged_head_bytes() + value.len(), Need::Data)?;
        let appended = self.store.log.append(LogKind::Write, |out| {
            head.encode(out);
            joined.encode_logged(out, head.encoded_bytes());
            out.extend_from_slice(&value);
        });
        self.reads.begin_write(appended.sequence, false);
        let mut path = self.store.take_path();
        path.object(cont, secret, oid)?;
        let place = offset_place(appended.body, head.encoded_bytes());
        self.index_version(&mut path, Depth::Akey, &dkey, &akey, last.stamp, place)?;
        self.count_joined(cont, cred, charge);
        // It is older than it looks: a punch may have come since, and an array of another record size.
        self.store.record_sizes.removed(&path);
        self.store.put_path(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogPlace;
    use crate::store::resolve;
    use dolmen_types::Stamp;

    const RULE: JoinRule = JoinRule { extents_min: 3, bytes_max: 64 };

    /// Index, count and epoch of each extent; what is joined, as index and count.
    fn joined(spec: &[(u64, u64, u64)], kept: &[u64]) -> Vec<(u64, u64)> {
        let place = EntryPlace::Log(LogPlace { segment: 0, offset: 0 });
        let extent = |&(index, count, epoch): &(u64, u64, u64)| Extent {
            recx: Recx::new(index, count),
            stamp: Stamp { epoch: Epoch(epoch), minor: 0 },
            record_bytes: 1,
            place: place.clone(),
        };
        let mut extents: Vec<Extent> = spec.iter().map(extent).collect();
        let mut pieces = Vec::new();
        resolve(&mut extents, (0, u64::MAX), &mut pieces);
        let kept: Vec<Epoch> = kept.iter().copied().map(Epoch).collect();
        let runs = side_by_side(&extents, &pieces, &kept, RULE);
        let whole = |run: &Vec<Extent>| (run[0].recx.index, run.iter().map(|part| part.recx.count).sum());
        runs.iter().map(whole).collect()
    }

    #[test]
    fn what_was_appended_is_joined_up_to_the_limit() {
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2), (10, 5, 3)], &[9]), [(0, 15)]);
        let many: Vec<(u64, u64, u64)> = (0..20).map(|n| (n * 8, 8, n + 1)).collect();
        assert_eq!(joined(&many, &[99]), [(0, 64), (64, 64), (128, 32)].map(|(at, n)| (at, n)));
    }

    #[test]
    fn few_extents_gaps_and_any_other_order_are_left_alone() {
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2)], &[9]), []);
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2), (11, 5, 3)], &[9]), []);
        assert_eq!(joined(&[(0, 5, 3), (5, 5, 2), (10, 5, 1)], &[9]), []);
    }

    #[test]
    fn nothing_is_joined_over_a_kept_epoch() {
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2), (10, 5, 3)], &[2, 9]), []);
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2), (10, 5, 3), (15, 5, 4)], &[3, 9]), [(0, 15)]);
    }

    #[test]
    fn an_extent_seen_in_part_is_no_part_of_another() {
        assert_eq!(joined(&[(0, 5, 1), (5, 5, 2), (10, 5, 3), (12, 1, 4)], &[9]), []);
    }

    #[test]
    fn what_was_joined_before_is_copied_only_to_double() {
        assert_eq!(joined(&[(0, 30, 1), (30, 1, 2), (31, 1, 3)], &[9]), []);
        assert_eq!(joined(&[(0, 30, 1), (30, 15, 2), (45, 15, 3)], &[9]), [(0, 60)]);
    }
}
