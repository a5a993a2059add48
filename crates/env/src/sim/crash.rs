//! What survives a crash, and how a write tears.

use crate::disk::byte_count;
use crate::rng::Rng;
use core::ops::Range;

/// Devices write whole sectors: a power cut leaves each old or new.
const SECTOR_BYTES: u64 = 512;

/// Which of the operations that were not synced at the crash are on the device afterwards.
///
/// Indices count [`crate::sim::SimDrive::unsynced`]. Operations that survive are applied in their order.
/// Name operations do not tear: a torn one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPlan {
    /// The process died, the system lives: all that was written is there; operations in flight are done or
    /// not, as the seed says.
    Process,
    /// Power loss: nothing that was not synced.
    None,
    /// Power loss: everything happened to be written.
    All,
    /// Everything but one.
    AllBut(usize),
    /// Everything, but one torn between sectors; one that lies in a single sector is lost.
    Torn(usize),
    /// Everything, but one torn between two bytes, as memory-like media do.
    TornByte(usize),
    /// Each for itself survives, is lost, or (one in four) is torn between sectors: also a later one may be
    /// there without an earlier one.
    Subset(u64),
}

/// What becomes of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Whole,
    Lost,
    /// This part of the write is there.
    Part(Range<usize>),
}

/// Decides for the operations of one crash in turn.
pub(crate) struct Fates {
    plan: CrashPlan,
    rng: Rng,
    index: usize,
}

impl Fates {
    pub(crate) fn new(plan: CrashPlan, seed: u64) -> Self {
        let salt = match plan {
            CrashPlan::Process => 1,
            CrashPlan::None | CrashPlan::All | CrashPlan::AllBut(_) => 2,
            CrashPlan::Torn(index) | CrashPlan::TornByte(index) => byte_count(index).rotate_left(16) | 3,
            CrashPlan::Subset(subset) => subset.rotate_left(32) ^ 4,
        };
        Self { plan, rng: Rng::from_seed(seed ^ salt), index: 0 }
    }

    /// The fate of the next operation: a write of `len` bytes at `offset`, or a name (length 0).
    pub(crate) fn next(&mut self, offset: u64, len: usize) -> Fate {
        let index = self.index;
        self.index += 1;
        match self.plan {
            CrashPlan::None => Fate::Lost,
            CrashPlan::All => Fate::Whole,
            CrashPlan::AllBut(lost) if lost == index => Fate::Lost,
            CrashPlan::Torn(torn) if torn == index => self.torn_between_sectors(offset, len),
            CrashPlan::TornByte(torn) if torn == index => self.torn_at(len, 1..byte_count(len).max(1), 1, 0),
            CrashPlan::AllBut(_) | CrashPlan::Torn(_) | CrashPlan::TornByte(_) => Fate::Whole,
            CrashPlan::Process => self.coin(),
            CrashPlan::Subset(_) if self.rng.one_in(4) => self.torn_between_sectors(offset, len),
            CrashPlan::Subset(_) => self.coin(),
        }
    }

    fn coin(&mut self) -> Fate {
        if self.rng.one_in(2) { Fate::Whole } else { Fate::Lost }
    }

    fn torn_between_sectors(&mut self, offset: u64, len: usize) -> Fate {
        let first = offset / SECTOR_BYTES + 1;
        let end = (offset + byte_count(len)).div_ceil(SECTOR_BYTES);
        self.torn_at(len, first..end, SECTOR_BYTES, offset)
    }

    /// Tears at one of the `cuts` (multiples of `unit`, counted in the file, minus `offset`).
    fn torn_at(&mut self, len: usize, cuts: Range<u64>, unit: u64, offset: u64) -> Fate {
        if cuts.is_empty() {
            return Fate::Lost;
        }
        let cut = (cuts.start + self.rng.below(cuts.end - cuts.start)) * unit - offset;
        let cut = usize::try_from(cut).expect("inside a write in memory");
        if self.rng.one_in(2) { Fate::Part(0..cut) } else { Fate::Part(cut..len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tear_leaves_whole_sectors_of_the_file() {
        for seed in 0..200 {
            let fate = Fates::new(CrashPlan::Torn(0), seed).next(100, 2000);
            let Fate::Part(part) = fate else { panic!("seed {seed}: {fate:?}") };
            assert!(part.start == 0 || (100 + part.start).is_multiple_of(512), "seed {seed}: {part:?}");
            assert!(part.end == 2000 || (100 + part.end).is_multiple_of(512), "seed {seed}: {part:?}");
            assert!(!part.is_empty() && part.len() < 2000, "seed {seed}: {part:?}");
        }
        assert_eq!(Fates::new(CrashPlan::Torn(0), 1).next(100, 50), Fate::Lost);
        assert_eq!(Fates::new(CrashPlan::Torn(0), 1).next(0, 0), Fate::Lost);
        assert_eq!(Fates::new(CrashPlan::TornByte(0), 1).next(0, 1), Fate::Lost);
    }

    #[test]
    fn a_byte_tear_reaches_every_cut() {
        let mut cuts = std::collections::BTreeSet::new();
        for seed in 0..200 {
            if let Fate::Part(part) = Fates::new(CrashPlan::TornByte(0), seed).next(7, 5) {
                cuts.insert((part.start, part.end));
            }
        }
        assert_eq!(cuts.len(), 8);
    }
}
