//! Locks on ranges of objects, as programs that share files ask for them: what is asked, and the ranges that an owner has.
//!
//! Invariants of [`Ranges`]: in order, none empty, none overlapping, and neighbours that touch are of different kinds.

use dolmen_types::{Oid, Uuid};

/// How long a holder may be silent before others get what it has locked, nanoseconds.
pub const TERM_NS: u64 = 5_000_000_000;
/// How often a holder says that it is there.
pub const RENEW_NS: u64 = 1_000_000_000;
/// How long an engine that was started again waits for those who had locks before it gives out others.
pub const RECOVER_NS: u64 = TERM_NS + RENEW_NS;

/// What a lock is on: each family knows nothing of the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockFamily {
    /// Of ranges, by process (`fcntl`).
    Range,
    /// Of whole files, by open file (`flock`).
    Whole,
    /// Of files, by who has them open: programs see nothing of these. They hold for as long as the connection by which they were
    /// asked for, and for [`TERM_NS`] after it.
    Open,
}

/// Who else may have a lock at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockKind {
    /// Everybody: there is none.
    Free,
    /// Other readers.
    Read,
    /// Nobody.
    Write,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockAction {
    /// Set or free a range, if nobody's stands against it.
    Set,
    /// Set what the holder had before the engine was started again.
    Again,
    /// Say what stands against it.
    Test,
    /// Say that the holder is there.
    Renew,
    /// Free all that the holder has in the pool.
    Leave,
}

/// A question about locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockAsk {
    /// Whoever keeps locks for its owners, a mount: a random number that nobody else knows.
    pub holder: Uuid,
    /// What is to be done.
    pub action: LockAction,
    /// Whether the holder believes that it has locks in this pool already.
    pub has_locks: bool,
    /// The object. It and all that follows count for setting and testing.
    pub oid: Oid,
    /// The family.
    pub family: LockFamily,
    /// Who of the holder's.
    pub owner: u64,
    /// The owner's process, to be told to others of the same holder.
    pub pid: u32,
    /// The range.
    pub range: LockRange,
}

/// A range of bytes, and who else may have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRange {
    /// First byte.
    pub first: u64,
    /// Last byte, not before the first.
    pub last: u64,
    /// The kind.
    pub kind: LockKind,
}

/// What is told of locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockReply {
    /// It is done; of a test, that nothing stands against it.
    Done,
    /// Somebody's lock stands against it; nothing is changed.
    Held {
        /// His range.
        range: LockRange,
        /// His process, if he is of the same holder; else 0.
        pid: u32,
    },
    /// The engine was started again a moment ago, and waits for those who had locks; of a test, that it knows of none so far. Ask again.
    Recovering,
    /// The engine knows nothing of the locks that the holder believes to have: nothing is changed. They are to be set again.
    Unknown,
}

impl LockRange {
    /// All of an object.
    #[must_use]
    pub const fn whole(kind: LockKind) -> Self {
        Self { first: 0, last: u64::MAX, kind }
    }

    /// Whether two owners cannot have both.
    #[must_use]
    pub fn stands_against(&self, other: &Self) -> bool {
        let is_shared = self.first <= other.last && other.first <= self.last;
        let (least, most) = (self.kind.min(other.kind), self.kind.max(other.kind));
        is_shared && least != LockKind::Free && most == LockKind::Write
    }
}

/// What one owner has locked of one object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<LockRange>);

impl Ranges {
    /// In order.
    #[must_use]
    pub fn as_slice(&self) -> &[LockRange] {
        &self.0
    }

    /// Whether nothing is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets or frees a range, whatever was there. A range that ends before it begins changes nothing.
    pub fn set(&mut self, range: LockRange) {
        if range.last < range.first {
            return;
        }
        let mut all: Vec<LockRange> = Vec::with_capacity(self.0.len() + 2);
        let before = |old: &LockRange| old.first < range.first;
        let after = |old: &LockRange| old.last > range.last;
        // The parts of the old ones that stand before it, then it, then those behind.
        for old in self.0.iter().filter(|old| before(old)) {
            all.push(LockRange { last: old.last.min(range.first.saturating_sub(1)), ..*old });
        }
        if range.kind != LockKind::Free {
            all.push(range);
        }
        for old in self.0.iter().filter(|old| after(old)) {
            all.push(LockRange { first: old.first.max(range.last.saturating_add(1)), ..*old });
        }
        self.0.clear();
        for next in all {
            match self.0.last_mut() {
                Some(last) if last.kind == next.kind && last.last.checked_add(1) == Some(next.first) => {
                    last.last = next.last;
                }
                _ => self.0.push(next),
            }
        }
    }

    /// The first that stands against somebody else's wish.
    #[must_use]
    pub fn against(&self, wanted: &LockRange) -> Option<LockRange> {
        self.0.iter().find(|own| own.stands_against(wanted)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of the model, at the end of all numbers, where sums overflow.
    const COUNT: usize = 24;
    const BYTES: u64 = COUNT as u64;
    const BASES: [u64; 2] = [0, u64::MAX - BYTES + 1];

    fn kind(number: u8) -> LockKind {
        [LockKind::Free, LockKind::Read, LockKind::Write][usize::from(number % 3)]
    }

    proptest! {
        #[test]
        fn ranges_are_as_if_each_byte_were_kept_by_itself(
            sets in prop::collection::vec((0..BYTES, 0..BYTES, any::<u8>()), 0..40),
            wanted in (0..BYTES, 0..BYTES, any::<u8>()),
            base in prop::sample::select(BASES.to_vec()),
        ) {
            let mut ranges = Ranges::default();
            let mut bytes = [LockKind::Free; COUNT];
            let range = |(a, b, number): (u64, u64, u8)| LockRange {
                first: base + a.min(b),
                last: base + a.max(b),
                kind: kind(number),
            };
            for set in sets {
                let set = range(set);
                ranges.set(set);
                let own = usize::try_from(set.first - base).unwrap()..=usize::try_from(set.last - base).unwrap();
                bytes[own].fill(set.kind);
            }
            for (at, &expected) in bytes.iter().enumerate() {
                let at = base + at as u64;
                let found = ranges.as_slice().iter().find(|own| (own.first..=own.last).contains(&at));
                prop_assert_eq!(found.map_or(LockKind::Free, |own| own.kind), expected);
            }
            for two in ranges.as_slice().windows(2) {
                prop_assert!(two[0].last < two[1].first, "in order, and none overlaps");
                prop_assert!(two[0].last + 1 < two[1].first || two[0].kind != two[1].kind, "as few as can be");
            }
            let wanted = range(wanted);
            let of_model = (wanted.first..=wanted.last).any(|at| {
                let own = bytes[usize::try_from(at - base).unwrap()];
                own != LockKind::Free && wanted.kind != LockKind::Free
                    && (own == LockKind::Write || wanted.kind == LockKind::Write)
            });
            prop_assert_eq!(ranges.against(&wanted).is_some(), of_model);
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_changes_nothing() {
        let mut ranges = Ranges::default();
        ranges.set(LockRange { first: 5, last: 9, kind: LockKind::Read });
        ranges.set(LockRange { first: 9, last: 5, kind: LockKind::Write });
        assert_eq!(ranges.as_slice(), [LockRange { first: 5, last: 9, kind: LockKind::Read }]);
    }
}
