//! Read and write marks: the newest epoch at which anything was read or written, by hashed place.
//!
//! Bounded: a fixed number of slots, shared by all places that hash alike, so a mark may be too new (a
//! transaction restarts needlessly) but never too old (a conflict is never missed).
//!
//! Invariants: every slot starts at the epoch of the open, the low-water mark: what was read before a
//! restart counts as read then.

use dolmen_types::Epoch;

/// 2^15 slots of 8 bytes: 256 KiB stay in the second-level cache, and a false conflict needs two of a few
/// thousand concurrently used places to collide.
const SLOTS: usize = 1 << 15;

/// What was read or written, as far as conflicts go.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// The values of an akey.
    Akey = 1,
    /// Which akeys a dkey has.
    AkeyList = 2,
    /// Anything below a dkey.
    DkeyTree = 3,
    /// Which dkeys an object has.
    DkeyList = 4,
    /// Anything below an object.
    ObjectTree = 5,
    /// Which objects a container has.
    ObjectList = 6,
    /// Any key or record of an object, in a search over it.
    ObjectScan = 7,
}

pub(crate) struct Marks {
    slots: Box<[u64]>,
}

/// Spreads a hash; the constant is 2^64 divided by the golden ratio.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 29)
}

impl Marks {
    pub(crate) fn new(low_water: Epoch) -> Self {
        Self { slots: vec![low_water.0; SLOTS].into_boxed_slice() }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the shift leaves fewer bits than SLOTS has")]
    fn slot(scope: Scope, place: u64) -> usize {
        (mix(place, scope as u64) >> (64 - SLOTS.trailing_zeros())) as usize
    }

    #[inline]
    pub(crate) fn raise(&mut self, scope: Scope, place: u64, epoch: Epoch) {
        let slot = &mut self.slots[Self::slot(scope, place)];
        *slot = (*slot).max(epoch.0);
    }

    #[inline]
    pub(crate) fn newest(&self, scope: Scope, place: u64) -> Epoch {
        Epoch(self.slots[Self::slot(scope, place)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_never_falls_and_starts_at_the_low_water() {
        let mut marks = Marks::new(Epoch(5));
        assert_eq!(marks.newest(Scope::Akey, 1), Epoch(5));
        marks.raise(Scope::Akey, 1, Epoch(9));
        marks.raise(Scope::Akey, 1, Epoch(7));
        assert_eq!(marks.newest(Scope::Akey, 1), Epoch(9));
        assert_eq!(marks.newest(Scope::DkeyTree, 1), Epoch(5));
    }
}
