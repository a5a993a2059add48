//! Read and write marks: the newest epoch at which anything was read or written, by hashed place.
//!
//! Bounded: what was touched longest ago gives its place to what is touched now, and leaves a floor behind that counts for
//! all places whose hash leads there. So a mark may be too new (a transaction restarts needlessly) but never too old (a
//! conflict is never missed). While transactions are open that have read, more is remembered for them, up to a limit.
//!
//! Invariants: every floor starts at the epoch of the open, the low-water mark: what was read before a restart counts as
//! read then. No mark in a bucket is below the bucket's floor.

use crate::path::{Depth, Path};
use dolmen_types::Epoch;

/// 2^11 buckets of two cache lines: 256 KiB stay in the second-level cache, and what was touched by some thousand operations
/// is remembered place by place.
const BUCKET_BITS_MIN: u32 = 11;

/// 16 MiB: some 300,000 places, for open transactions.
const BUCKET_BITS_MAX: u32 = 17;

/// Marks in a bucket.
const WAYS: usize = 8;

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
    buckets: Box<[Bucket]>,
    bits: u32,
    /// Marks above this are needed by a transaction that is open.
    needed: u64,
}

/// The marks of the places whose hashes begin alike.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// The begins of the hashes; where the epoch is 0 there is none.
    tags: [u32; WAYS],
    /// What is not among the marks was touched at this epoch or before.
    floor: u64,
    epochs: [u64; WAYS],
}

impl Bucket {
    fn new(floor: u64) -> Self {
        Self { tags: [0; WAYS], floor, epochs: [0; WAYS] }
    }

    #[inline]
    fn way(&self, tag: u32) -> Option<usize> {
        (0..WAYS).find(|&way| self.tags[way] == tag && self.epochs[way] != 0)
    }

    /// Whether it is done: not if that would cost a mark above `needed`.
    #[inline]
    fn raise(&mut self, tag: u32, epoch: u64, needed: u64) -> bool {
        if epoch <= self.floor {
            return true;
        }
        if let Some(way) = self.way(tag) {
            self.epochs[way] = self.epochs[way].max(epoch);
            return true;
        }
        let oldest = (1..WAYS)
            .fold(0, |oldest, way| if self.epochs[way] < self.epochs[oldest] { way } else { oldest });
        let lost = epoch.min(self.epochs[oldest]);
        if lost > needed {
            return false;
        }
        if epoch > lost {
            (self.epochs[oldest], self.tags[oldest]) = (epoch, tag);
        }
        self.floor = self.floor.max(lost);
        true
    }

    #[inline]
    fn newest(&self, tag: u32) -> u64 {
        self.way(tag).map_or(self.floor, |way| self.epochs[way])
    }

    fn marks(&self) -> impl Iterator<Item = (u32, u64)> {
        self.tags.into_iter().zip(self.epochs).filter(|&(_, epoch)| epoch != 0)
    }
}

/// Spreads a hash; the constant is 2^64 divided by the golden ratio.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 29)
}

impl Marks {
    pub(crate) fn new(low_water: Epoch) -> Self {
        Self {
            buckets: vec![Bucket::new(low_water.0); 1 << BUCKET_BITS_MIN].into_boxed_slice(),
            bits: BUCKET_BITS_MIN,
            needed: u64::MAX,
        }
    }

    /// The bucket, and what tells its places apart: also which half of the bucket is whose when it is split.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the shifts leave fewer bits than there are buckets, and 32"
    )]
    fn at(&self, scope: Scope, place: u64) -> (usize, u32) {
        let hash = mix(place, scope as u64);
        ((hash >> (64 - self.bits)) as usize, (hash >> 32) as u32)
    }

    #[inline]
    pub(crate) fn raise(&mut self, scope: Scope, place: u64, epoch: Epoch) {
        let (at, tag) = self.at(scope, place);
        if !self.buckets[at].raise(tag, epoch.0, self.needed) {
            self.raise_with_room(scope, place, epoch);
        }
    }

    /// As [`Marks::raise`], with as much room as there may be.
    #[cold]
    fn raise_with_room(&mut self, scope: Scope, place: u64, epoch: Epoch) {
        loop {
            let has_all = self.bits == BUCKET_BITS_MAX;
            let needed = if has_all { u64::MAX } else { self.needed };
            let (at, tag) = self.at(scope, place);
            if self.buckets[at].raise(tag, epoch.0, needed) || has_all {
                return;
            }
            self.split();
        }
    }

    #[inline]
    pub(crate) fn newest(&self, scope: Scope, place: u64) -> Epoch {
        let (at, tag) = self.at(scope, place);
        Epoch(self.buckets[at].newest(tag))
    }

    /// From now on marks above this epoch are needed; `Epoch::MAX` if none are.
    #[inline]
    pub(crate) fn need_above(&mut self, epoch: Epoch) {
        self.needed = epoch.0;
    }

    /// Makes two buckets of each.
    fn split(&mut self) {
        let shift = 31 - self.bits;
        let halves = self.buckets.iter().flat_map(|bucket| {
            let mut halves = [Bucket::new(bucket.floor); 2];
            for (tag, epoch) in bucket.marks() {
                halves[usize::from(tag >> shift & 1 != 0)].raise(tag, epoch, u64::MAX);
            }
            halves
        });
        self.buckets = halves.collect();
        self.bits += 1;
    }

    /// Nobody needs more than there is room for at first: what is remembered beyond that goes.
    pub(crate) fn shrink(&mut self) {
        if self.bits == BUCKET_BITS_MIN {
            return;
        }
        let together = self.buckets.chunks(self.buckets.len() >> BUCKET_BITS_MIN).map(|parts| {
            let mut whole = Bucket::new(parts.iter().fold(0, |floor, part| floor.max(part.floor)));
            for (tag, epoch) in parts.iter().flat_map(Bucket::marks) {
                whole.raise(tag, epoch, u64::MAX);
            }
            whole
        });
        self.buckets = together.collect();
        self.bits = BUCKET_BITS_MIN;
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

    /// As [`Marks::need_above`].
    #[inline]
    pub(crate) fn need_above(&mut self, epoch: Epoch) {
        self.marks.need_above(epoch);
    }

    /// As [`Marks::shrink`].
    pub(crate) fn shrink(&mut self) {
        self.marks.shrink();
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
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_mark_never_falls_and_starts_at_the_low_water() {
        let mut marks = Marks::new(Epoch(5));
        assert_eq!(marks.newest(Scope::Akey, 1), Epoch(5));
        marks.raise(Scope::Akey, 1, Epoch(9));
        marks.raise(Scope::Akey, 1, Epoch(7));
        assert_eq!(marks.newest(Scope::Akey, 1), Epoch(9));
        assert_eq!(marks.newest(Scope::DkeyTree, 1), Epoch(5));
    }

    /// Places as they are: hashes.
    fn place(number: u64) -> u64 {
        mix(number, 77)
    }

    #[test]
    fn what_an_open_transaction_needs_is_remembered_place_by_place_up_to_the_limit() {
        const BEGIN: u64 = 1000;
        let mut marks = Marks::new(Epoch(5));
        let false_ones = |marks: &Marks| {
            (0..1000).filter(|&other| marks.newest(Scope::Akey, place(1 << 40 | other)).0 > BEGIN).count()
        };
        let touch = |marks: &mut Marks, count: u64| {
            (0..count).for_each(|number| marks.raise(Scope::Akey, place(number), Epoch(BEGIN + 1 + number)));
        };
        touch(&mut marks, 300_000);
        assert_eq!(marks.bits, BUCKET_BITS_MIN, "nobody needs it");
        assert!(false_ones(&marks) > 900);
        let mut marks = Marks::new(Epoch(5));
        marks.need_above(Epoch(BEGIN));
        touch(&mut marks, 300_000);
        assert!(false_ones(&marks) < 30, "{} of 1000, {} bits", false_ones(&marks), marks.bits);
        touch(&mut marks, 3_000_000);
        assert_eq!(marks.bits, BUCKET_BITS_MAX);
        assert!(false_ones(&marks) > 900, "it does not grow beyond");
        (0..3_000_000)
            .for_each(|number| assert!(marks.newest(Scope::Akey, place(number)).0 > BEGIN + number));
    }

    proptest! {
        #[test]
        fn no_mark_is_older_than_the_newest_touch_however_often_it_grows_and_shrinks(
            steps in prop::collection::vec((0..40_u64, 1..500_u64, 0..60_u8), 1..400),
        ) {
            let (mut marks, mut plain) = (Marks::new(Epoch(3)), BTreeMap::<u64, u64>::new());
            for (number, epoch, what) in steps {
                match what {
                    0 => marks.shrink(),
                    1 | 2 if marks.bits < BUCKET_BITS_MIN + 3 => marks.split(),
                    // All in one bucket of the beginning.
                    _ => {
                        let hash = (7 << 53) | mix(number, 5) >> 11;
                        raise_at(&mut marks, hash, epoch);
                        let newest = plain.entry(hash).or_default();
                        *newest = (*newest).max(epoch);
                    }
                }
                for bucket in &marks.buckets {
                    prop_assert!(bucket.marks().all(|(_, epoch)| epoch >= bucket.floor));
                }
                for (&hash, &newest) in &plain {
                    prop_assert!(newest_at(&marks, hash) >= newest.max(3));
                }
            }
        }
    }

    fn raise_at(marks: &mut Marks, hash: u64, epoch: u64) {
        let at = usize::try_from(hash >> (64 - marks.bits)).unwrap();
        marks.buckets[at].raise(u32::try_from(hash >> 32).unwrap(), epoch, u64::MAX);
    }

    fn newest_at(marks: &Marks, hash: u64) -> u64 {
        let at = usize::try_from(hash >> (64 - marks.bits)).unwrap();
        marks.buckets[at].newest(u32::try_from(hash >> 32).unwrap())
    }
}
