//! Read and write marks: the newest epoch at which anything was read or written, by hashed place.
//!
//! Bounded: a fixed number of slots, shared by all places that hash alike, so a mark may be too new (a
//! transaction restarts needlessly) but never too old (a conflict is never missed).
//!
//! Invariants: every slot starts at the epoch of the open, the low-water mark: what was read before a
//! restart counts as read then.

use crate::path::{Depth, Path};
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

/// Read marks, and what readers must wait for: who has seen a version whose frame is not durable yet is
/// answered when it is, so that no crash takes back what somebody has acted upon.
///
/// Kept like marks: the newest such frame by hashed place, so a reader may wait for a frame it has not seen,
/// never the reverse. A reader of the past waits for nothing newer.
pub(crate) struct Reads {
    marks: Marks,
    /// Sequence numbers of frames by what reads of it see; made when the first write asks for it.
    frames: Option<Marks>,
    /// The frame whose versions are being applied; `None` if nobody needs to wait for it.
    writing: Option<u64>,
    /// The oldest epoch among versions that no flush under way covers, and among those that one does.
    since: Epoch,
    flushing_since: Epoch,
    /// The newest frame that the present operation depends on; 0 for none.
    awaited: u64,
}

impl Reads {
    pub(crate) fn new(low_water: Epoch) -> Self {
        Self {
            marks: Marks::new(low_water),
            frames: None,
            writing: None,
            since: Epoch::MAX,
            flushing_since: Epoch::MAX,
            awaited: 0,
        }
    }

    /// Notes a read, and what it depends on.
    #[inline]
    pub(crate) fn raise(&mut self, scope: Scope, place: u64, epoch: Epoch) {
        self.marks.raise(scope, place, epoch);
        if epoch >= self.since.min(self.flushing_since)
            && let Some(frames) = &self.frames
        {
            self.awaited = self.awaited.max(frames.newest(scope, place).0);
        }
    }

    #[inline]
    pub(crate) fn newest(&self, scope: Scope, place: u64) -> Epoch {
        self.marks.newest(scope, place)
    }

    /// The versions noted from now on are those of a frame.
    #[inline]
    pub(crate) fn begin_write(&mut self, sequence: u64, is_awaited: bool) {
        self.writing = is_awaited.then_some(sequence);
    }

    /// Notes a version, under everything by which a read can come to see it.
    #[inline]
    pub(crate) fn note_write(&mut self, path: &Path, depth: Depth, epoch: Epoch) {
        let Some(sequence) = self.writing else {
            return;
        };
        self.since = self.since.min(epoch);
        let frames = self.frames.get_or_insert_with(|| Marks::new(Epoch::ZERO));
        let mut note = |scope, place| frames.raise(scope, place, Epoch(sequence));
        note(Scope::ObjectList, path.cont_hash);
        note(Scope::ObjectScan, path.object_hash);
        if depth == Depth::Object {
            note(Scope::ObjectTree, path.object_hash);
            return;
        }
        note(Scope::DkeyList, path.object_hash);
        if depth == Depth::Dkey {
            note(Scope::DkeyTree, path.dkey_hash);
            return;
        }
        note(Scope::AkeyList, path.dkey_hash);
        note(Scope::Akey, path.akey_hash);
    }

    /// A flush begins that covers everything noted.
    pub(crate) fn flush_begun(&mut self) {
        self.flushing_since = self.flushing_since.min(self.since);
        self.since = Epoch::MAX;
    }

    /// It is complete.
    pub(crate) fn flush_done(&mut self) {
        self.flushing_since = Epoch::MAX;
    }

    /// The present operation depends on a frame.
    #[inline]
    pub(crate) fn await_frame(&mut self, sequence: u64) {
        self.awaited = self.awaited.max(sequence);
    }

    /// The frame that the operation since the last call depends on; 0 for none.
    #[inline]
    pub(crate) fn take_awaited(&mut self) -> u64 {
        core::mem::take(&mut self.awaited)
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
