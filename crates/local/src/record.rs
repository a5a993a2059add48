//! The record of a pool: one small file in its directory, replaced in one step.
//!
//! Invariants: it starts with magic and format version and ends with the crc32c of what precedes; a record
//! that does not is never used; unknown feature bits refuse the open.

use crate::error::RecordFault;
use core::ops::Range;
use dolmen_codec::bytes::{Reader, put_len};
use dolmen_types::{Label, Uuid, crc32c, limits};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

const MAGIC: u64 = 0x4c4f_4f50_4d4c_4f44;
const FORMAT: u32 = 1;
/// The pool is spread over several engines.
const SPREAD: u32 = 1;
/// What this reader knows.
const FEATURES: u32 = SPREAD;
const SUM_BYTES: usize = 4;
const VOLATILE: u8 = 1;
const BULK_DIR: u8 = 2;

/// A pool's engines, as each of them has it on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The engine whose record this is.
    pub rank: u32,
    /// All of them, in the order of their targets; the first has the pool's service.
    pub ranks: Vec<u32>,
    /// What only they know.
    pub key: u128,
}

impl Spread {
    /// Which of the engines this is.
    fn place(&self) -> Option<usize> {
        self.ranks.iter().position(|&rank| rank == self.rank)
    }

    /// Whether this engine has the pool's service.
    #[must_use]
    pub fn has_service(&self) -> bool {
        self.place() == Some(0)
    }

    fn is_sound(&self, targets: u16) -> bool {
        let all = self.ranks.len() * usize::from(targets);
        let is_once = |rank: &u32| self.ranks.iter().filter(|other| *other == rank).count() == 1;
        self.place().is_some() && all <= limits::TARGETS_MAX && self.ranks.iter().all(is_once)
    }
}

/// What must be the same each time a pool is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolRecord {
    pub(crate) uuid: Uuid,
    pub(crate) label: Option<Label>,
    /// Of each engine.
    pub(crate) targets: u16,
    /// Of one target.
    pub(crate) capacity_bytes: u64,
    pub(crate) small_value_bytes_max: u32,
    pub(crate) log_segment_bytes: u32,
    pub(crate) bulk_segment_bytes: u32,
    pub(crate) checkpoint_log_bytes: u64,
    pub(crate) memory_budget_bytes: u64,
    pub(crate) volatile: bool,
    pub(crate) bulk_dir: Option<PathBuf>,
    /// Begins anew, one higher, with each opening and closing; the targets' is the same, or one ahead of it.
    pub(crate) life: u64,
    /// The engines, if there are several.
    pub(crate) spread: Option<Spread>,
}

impl PoolRecord {
    /// The numbers of the targets that this record's engine has.
    pub(crate) fn own_targets(&self) -> Range<u16> {
        let place = self.spread.as_ref().and_then(Spread::place).unwrap_or(0);
        let first = u16::try_from(place).map_or(0, |place| place.saturating_mul(self.targets));
        first..first.saturating_add(self.targets)
    }

    /// The rank of each target; `own` opens the pool.
    pub(crate) fn ranks(&self, own: u32) -> Vec<u32> {
        let alone = [own];
        let ranks: &[u32] = self.spread.as_ref().map_or(&alone, |spread| &spread.ranks);
        ranks.iter().flat_map(|&rank| core::iter::repeat_n(rank, usize::from(self.targets))).collect()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&FORMAT.to_le_bytes());
        let features = if self.spread.is_some() { SPREAD } else { 0 };
        out.extend_from_slice(&features.to_le_bytes());
        out.extend_from_slice(self.uuid.as_bytes());
        out.extend_from_slice(&self.targets.to_le_bytes());
        let volatile = if self.volatile { VOLATILE } else { 0 };
        out.push(volatile | if self.bulk_dir.is_some() { BULK_DIR } else { 0 });
        out.extend_from_slice(&self.capacity_bytes.to_le_bytes());
        out.extend_from_slice(&self.small_value_bytes_max.to_le_bytes());
        out.extend_from_slice(&self.log_segment_bytes.to_le_bytes());
        out.extend_from_slice(&self.bulk_segment_bytes.to_le_bytes());
        out.extend_from_slice(&self.checkpoint_log_bytes.to_le_bytes());
        out.extend_from_slice(&self.memory_budget_bytes.to_le_bytes());
        out.extend_from_slice(&self.life.to_le_bytes());
        let label = self.label.as_ref().map_or("", Label::as_str).as_bytes();
        let bulk_dir = self.bulk_dir.as_ref().map_or(&[][..], |dir| dir.as_os_str().as_bytes());
        for text in [label, bulk_dir] {
            put_len(&mut out, text.len());
            out.extend_from_slice(text);
        }
        if let Some(Spread { rank, ranks, key }) = &self.spread {
            out.extend_from_slice(&rank.to_le_bytes());
            out.extend_from_slice(&key.to_le_bytes());
            put_len(&mut out, ranks.len());
            ranks.iter().for_each(|rank| out.extend_from_slice(&rank.to_le_bytes()));
        }
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out
    }

    /// Whether a file is a pool's record, be it damaged or of a newer format.
    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordFault> {
        let damaged = RecordFault::Damaged;
        let body_len = bytes.len().checked_sub(SUM_BYTES).ok_or(damaged)?;
        let (content, sum) = bytes.split_at(body_len);
        let mut r = Reader::new(content);
        if r.u64() != Some(MAGIC) || sum != crc32c(content).to_le_bytes() {
            return Err(damaged);
        }
        let format = r.u32().ok_or(damaged)?;
        let features = r.u32().ok_or(damaged)?;
        if format != FORMAT || features & !FEATURES != 0 {
            return Err(RecordFault::TooNew { format });
        }
        let mut record = decode_body(&mut r).ok_or(damaged)?;
        if features & SPREAD != 0 {
            let spread = decode_spread(&mut r).filter(|spread| spread.is_sound(record.targets));
            record.spread = Some(spread.ok_or(damaged)?);
        }
        let targets_ok = (1..=limits::TARGETS_MAX).contains(&usize::from(record.targets));
        if targets_ok && r.remaining() == 0 { Ok(record) } else { Err(damaged) }
    }
}

fn decode_body(r: &mut Reader<'_>) -> Option<PoolRecord> {
    let (uuid, targets, flags) = (r.uuid()?, r.u16()?, r.u8()?);
    let capacity_bytes = r.u64()?;
    let (small_value_bytes_max, log_segment_bytes, bulk_segment_bytes) = (r.u32()?, r.u32()?, r.u32()?);
    let (checkpoint_log_bytes, memory_budget_bytes) = (r.u64()?, r.u64()?);
    let life = r.u64()?;
    let label_bytes = r.count(1)?;
    let label = core::str::from_utf8(r.take(label_bytes)?).ok()?;
    let label = if label.is_empty() { None } else { Some(Label::new(label).ok()?) };
    let path_bytes = r.count(1)?;
    let path = PathBuf::from(OsString::from_vec(r.take(path_bytes)?.to_vec()));
    if flags & !(VOLATILE | BULK_DIR) != 0 {
        return None;
    }
    Some(PoolRecord {
        uuid,
        label,
        targets,
        capacity_bytes,
        small_value_bytes_max,
        log_segment_bytes,
        bulk_segment_bytes,
        checkpoint_log_bytes,
        memory_budget_bytes,
        volatile: flags & VOLATILE != 0,
        bulk_dir: (flags & BULK_DIR != 0).then_some(path),
        life,
        spread: None,
    })
}

fn decode_spread(r: &mut Reader<'_>) -> Option<Spread> {
    let (rank, key) = (r.u32()?, r.u128()?);
    let count = r.count(4)?;
    let ranks = (0..count).map(|_| r.u32()).collect::<Option<Vec<u32>>>()?;
    Some(Spread { rank, ranks, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PoolRecord {
        PoolRecord {
            uuid: Uuid::from_u128(7),
            label: Some(Label::new("tank").unwrap()),
            targets: 4,
            capacity_bytes: 1 << 40,
            small_value_bytes_max: 4096,
            log_segment_bytes: 1 << 26,
            bulk_segment_bytes: 1 << 26,
            checkpoint_log_bytes: 1 << 28,
            memory_budget_bytes: 1 << 30,
            volatile: true,
            bulk_dir: Some(PathBuf::from("/bulk")),
            life: 9,
            spread: None,
        }
    }

    #[test]
    fn a_record_of_several_engines_says_whose_targets_are_which() {
        let spread = Spread { rank: 7, ranks: vec![5, 7], key: 3 << 100 | 1 };
        let spread = PoolRecord { spread: Some(spread), ..record() };
        assert_eq!(PoolRecord::decode(&spread.encode()).as_ref(), Ok(&spread));
        assert_eq!((spread.own_targets(), spread.ranks(7)), (4..8, vec![5, 5, 5, 5, 7, 7, 7, 7]));
        assert_eq!((record().own_targets(), record().ranks(3)), (0..4, vec![3; 4]));
        for (rank, ranks) in [(1, vec![5, 7]), (5, vec![5, 5]), (0, vec![]), (0, (0..300).collect())] {
            let bad = PoolRecord { spread: Some(Spread { rank, ranks, key: 0 }), ..record() };
            assert_eq!(PoolRecord::decode(&bad.encode()), Err(RecordFault::Damaged));
        }
    }

    #[test]
    fn record_round_trips_and_any_damage_is_seen() {
        let bytes = record().encode();
        assert_eq!(PoolRecord::decode(&bytes), Ok(record()));
        let plain = PoolRecord { label: None, volatile: false, bulk_dir: None, ..record() };
        assert_eq!(PoolRecord::decode(&plain.encode()), Ok(plain));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(PoolRecord::decode(&bad), Err(RecordFault::Damaged), "byte {at}");
            assert_eq!(PoolRecord::decode(&bytes[..at]), Err(RecordFault::Damaged), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_format_says_so() {
        let mut bytes = record().encode();
        bytes.truncate(bytes.len() - SUM_BYTES);
        bytes[8] = 2;
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        assert_eq!(PoolRecord::decode(&bytes), Err(RecordFault::TooNew { format: 2 }));
    }

    #[test]
    fn golden_head_of_a_record() {
        assert_eq!(record().encode()[..16], *b"DOLMPOOL\x01\0\0\0\0\0\0\0");
    }
}
