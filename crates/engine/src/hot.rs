//! Hot places: where in the log the newest version of a value was written, by hash.
//!
//! A shortcut beside the index for the most frequent question, the latest value of one key: one look into
//! this table and one into the log instead of a walk down a tree. It may forget anything at any time; what
//! it finds is verified against the record in the log.
//!
//! Invariants: an entry for a key is its newest version: every write of a key removes what may be an older
//! entry of it. The entry of a sole extent is of the newest extent, which is all that is visible since: every write of an
//! extent that it does not hold true for removes it. An entry names a life of a segment, so one that points into a recycled segment finds nothing.

use crate::lines::{self, Line};
use crate::log::LogPlace;
use crate::path::Path;
use std::collections::BTreeMap;

/// Slots of a bucket, which is one line of the cache.
const SLOTS_PER_BUCKET: usize = 8;
/// Index bits of the smallest table: 2^9 buckets of 64 bytes.
const INDEX_BITS_MIN: u32 = 9;
/// An entry is 25 bits of hash behind the first nine, 16 bits of segment life, 23 bits of offset in words.
const TAG_BITS: u32 = 25;
const LIFE_BITS: u32 = 16;
const OFFSET_BITS: u32 = 23;
/// At least these many bits of the tag must be left to tell keys of a bucket apart.
const TAG_BITS_LEFT: u32 = 11;
const WORD_BYTES: u32 = 8;

pub(crate) struct Hot {
    buckets: Vec<Line>,
    index_bits: u32,
    index_bits_max: u32,
    count: usize,
    life_of: BTreeMap<u32, u64>,
    segment_of: Vec<u32>,
    next_life: u64,
    /// The segment that began its life last, where nearly all new places are.
    newest: (u32, u64),
}

const NO_SEGMENT: u32 = u32::MAX;

impl Hot {
    /// A table that grows up to `budget_bytes`.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let mut index_bits_max = INDEX_BITS_MIN;
        while index_bits_max < INDEX_BITS_MIN + TAG_BITS - TAG_BITS_LEFT
            && (2 * size_of::<Line>() as u64) << index_bits_max <= budget_bytes
        {
            index_bits_max += 1;
        }
        Self {
            buckets: lines::zeroed(1 << INDEX_BITS_MIN),
            index_bits: INDEX_BITS_MIN,
            index_bits_max,
            count: 0,
            life_of: BTreeMap::new(),
            segment_of: vec![NO_SEGMENT; 1 << LIFE_BITS],
            next_life: 1,
            newest: (NO_SEGMENT, 0),
        }
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        (size_of_val(&*self.buckets) + self.segment_of.len() * 4) as u64
    }

    /// A segment is written from its start: what pointed into what it held finds nothing any more.
    pub(crate) fn begin_segment(&mut self, segment: u32) {
        self.newest = (segment, self.begin_life(segment));
    }

    fn begin_life(&mut self, segment: u32) -> u64 {
        if let Some(old) = self.life_of.remove(&segment) {
            self.segment_of[life_slot(old)] = NO_SEGMENT;
        }
        if self.next_life >> LIFE_BITS > 0 {
            // Numbers of lives are about to repeat: nothing of the earlier ones may be left.
            self.clear();
            self.segment_of.fill(NO_SEGMENT);
            self.life_of.clear();
            self.newest = (NO_SEGMENT, 0);
            self.next_life = 1;
        }
        let life = self.next_life;
        self.life_of.insert(segment, life);
        self.segment_of[life_slot(life)] = segment;
        self.next_life += 1;
        life
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        usize::try_from(hash >> (64 - self.index_bits)).expect("few bits are left")
    }

    /// The bits of the tag that still tell entries of a bucket apart.
    #[inline]
    fn tag_mask(&self) -> u64 {
        (1 << (TAG_BITS - (self.index_bits - INDEX_BITS_MIN))) - 1
    }

    #[inline]
    fn tag(hash: u64) -> u64 {
        (hash << INDEX_BITS_MIN) >> (64 - TAG_BITS)
    }

    /// Asks for the entries of a hash to be brought near.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        dolmen_env::prefetch_line(&self.buckets[self.bucket(hash)]);
    }

    /// Places where the newest version of the key with this hash may be.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = LogPlace> + '_ {
        let mask = self.tag_mask();
        let tag = Self::tag(hash) & mask;
        let bucket = &self.buckets[self.bucket(hash)].0;
        bucket
            .iter()
            .filter(move |&&entry| entry != 0 && (entry >> (LIFE_BITS + OFFSET_BITS)) & mask == tag)
            .filter_map(|&entry| {
                let life = (entry >> OFFSET_BITS) & ((1 << LIFE_BITS) - 1);
                let segment = self.segment_of[life_slot(life)];
                let words = u32::try_from(entry & ((1 << OFFSET_BITS) - 1)).expect("23 bits");
                (segment != NO_SEGMENT).then_some(LogPlace { segment, offset: words * WORD_BYTES })
            })
    }

    /// A key has a new version; `place` if it can be found again through this table.
    #[inline]
    pub(crate) fn written(&mut self, hash: u64, place: Option<LogPlace>) {
        let mask = self.tag_mask();
        let tag = Self::tag(hash) & mask;
        let index = self.bucket(hash);
        let mut removed = 0;
        let mut vacant = None;
        for (number, entry) in self.buckets[index].0.iter_mut().enumerate() {
            if *entry != 0 && (*entry >> (LIFE_BITS + OFFSET_BITS)) & mask == tag {
                *entry = 0;
                removed += 1;
            }
            if *entry == 0 {
                vacant = Some(number);
            }
        }
        self.count -= removed;
        let Some(entry) = place.and_then(|place| self.entry(hash, place)) else {
            return;
        };
        let victim = usize::try_from(tag & 7).expect("three bits");
        let slot = &mut self.buckets[index].0[vacant.unwrap_or(victim)];
        self.count += usize::from(*slot == 0);
        *slot = entry;
        if self.count * 4 > self.buckets.len() * SLOTS_PER_BUCKET * 3 && self.index_bits < self.index_bits_max
        {
            self.grow();
        }
    }

    /// The newest version of a key that this table did not lead to was found at `place`.
    ///
    /// REQUIRES: no version is on the way to another place, so that all who move or drop it will tell.
    pub(crate) fn found(&mut self, hash: u64, place: LogPlace) {
        if !self.life_of.contains_key(&place.segment) {
            self.begin_life(place.segment);
        }
        self.written(hash, Some(place));
    }

    /// Forgets a key if this place is where it is found.
    pub(crate) fn forget(&mut self, hash: u64, place: LogPlace) {
        let Some(gone) = self.entry(hash, place) else {
            return;
        };
        let mask = self.tag_mask() << (LIFE_BITS + OFFSET_BITS) | ((1 << (LIFE_BITS + OFFSET_BITS)) - 1);
        let index = self.bucket(hash);
        for entry in self.buckets[index].0.iter_mut().filter(|entry| **entry & mask == gone & mask) {
            *entry = 0;
            self.count -= 1;
        }
    }

    /// What a key is found by was copied to another place.
    pub(crate) fn moved(&mut self, hash: u64, from: LogPlace, to: LogPlace) {
        if self.candidates(hash).any(|place| place == from) {
            self.written(hash, Some(to));
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(Line::default());
        self.count = 0;
    }

    fn entry(&self, hash: u64, place: LogPlace) -> Option<u64> {
        let life = match self.newest {
            (segment, life) if segment == place.segment => life,
            _ => *self.life_of.get(&place.segment)?,
        };
        if !place.offset.is_multiple_of(WORD_BYTES) || place.offset / WORD_BYTES >= 1 << OFFSET_BITS {
            return None;
        }
        Some(
            (Self::tag(hash) << (LIFE_BITS + OFFSET_BITS))
                | (life << OFFSET_BITS)
                | u64::from(place.offset / WORD_BYTES),
        )
    }

    /// Doubles the table: the first bit of the tag in use becomes the last bit of the index.
    fn grow(&mut self) {
        let bit = LIFE_BITS + OFFSET_BITS + TAG_BITS - (self.index_bits - INDEX_BITS_MIN) - 1;
        let mut grown = lines::zeroed(self.buckets.len() * 2);
        for (index, bucket) in self.buckets.iter().enumerate() {
            for (slot, &entry) in bucket.0.iter().enumerate().filter(|(_, entry)| **entry != 0) {
                let half = usize::try_from(entry >> bit & 1).expect("one bit");
                grown[index * 2 + half].0[slot] = entry;
            }
        }
        self.buckets = grown;
        self.index_bits += 1;
    }
}

fn life_slot(life: u64) -> usize {
    usize::try_from(life & ((1 << LIFE_BITS) - 1)).expect("16 bits")
}

/// Arrays whose record size was looked at lately.
///
/// Invariants: an array that `find` knows has visible data of that record size, or had when it was noted and
/// nothing of its object has been removed since: a removal begins a new era of all objects that hash like its own,
/// and only what was noted in the present era is found. What is found is not held against the array's keys, so it is
/// found by the hash that nobody can aim at.
pub(crate) struct RecordSizes {
    sets: Box<[RecordSizeSet]>,
    eras: Box<[u32]>,
    is_paused: bool,
    /// Counts what was forgotten for want of a slot, so that it is not always the same one.
    turn: usize,
}

#[derive(Clone, Copy, Default)]
struct RecordSize {
    array: u64,
    record_bytes: u32,
    era: u32,
}

/// The slots that an array may be in: one line of the cache. With two, 4096 arrays left one in forty without a slot, each of
/// which a write looks for in the index.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct RecordSizeSet([RecordSize; RECORD_SIZE_WAYS]);

const RECORD_SIZE_WAYS: usize = 4;
const _: () = assert!(size_of::<RecordSizeSet>() == 64);

/// For so many arrays that one stream of small writes goes back and forth between: a quarter of the slots.
const RECORD_SIZE_SETS: usize = 1 << 13;
/// Objects that are removed from while others are written to: a collision only makes the next write look again.
const RECORD_SIZE_ERAS: usize = 1 << 10;

impl Default for RecordSizes {
    fn default() -> Self {
        Self {
            sets: vec![RecordSizeSet::default(); RECORD_SIZE_SETS].into_boxed_slice(),
            eras: vec![0; RECORD_SIZE_ERAS].into_boxed_slice(),
            is_paused: false,
            turn: 0,
        }
    }
}

impl RecordSizes {
    #[inline]
    fn set(array: u64) -> usize {
        usize::try_from(array >> (64 - RECORD_SIZE_SETS.trailing_zeros())).expect("few bits are left")
    }

    #[inline]
    fn era_slot(object_hash: u64) -> usize {
        usize::try_from(object_hash >> (64 - RECORD_SIZE_ERAS.trailing_zeros())).expect("few bits are left")
    }

    /// The record size of an array, if it is known.
    #[inline]
    pub(crate) fn find(&self, path: &Path) -> Option<u32> {
        let era = self.eras[Self::era_slot(path.object_hash)];
        let array = path.secret_hash();
        let known = self.sets[Self::set(array)].0.iter().find(|known| known.array == array)?;
        (known.record_bytes > 0 && known.era == era && !self.is_paused).then_some(known.record_bytes)
    }

    /// While paused nothing is known: a transaction's own writes count too.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// REQUIRES: `record_bytes` is not 0.
    #[inline]
    pub(crate) fn note(&mut self, path: &Path, record_bytes: u32) {
        let era = self.eras[Self::era_slot(path.object_hash)];
        let array = path.secret_hash();
        let slots = &mut self.sets[Self::set(array)].0;
        let own = slots.iter().position(|known| known.array == array);
        let slot =
            own.or_else(|| slots.iter().position(|known| known.record_bytes == 0)).unwrap_or_else(|| {
                self.turn = self.turn.wrapping_add(1);
                self.turn % RECORD_SIZE_WAYS
            });
        slots[slot] = RecordSize { array, record_bytes, era };
    }

    /// Something of an object was removed.
    #[inline]
    pub(crate) fn removed(&mut self, path: &Path) {
        let era = &mut self.eras[Self::era_slot(path.object_hash)];
        match era.checked_add(1) {
            Some(next) => *era = next,
            None => self.clear(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sets.fill(RecordSizeSet::default());
        self.eras.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::mix;
    use crate::path::Depth;
    use dolmen_codec::order::HashKey;
    use dolmen_types::{ContNo, ObjectClass, ObjectType, Oid};

    #[test]
    fn an_entry_is_found_until_its_key_is_written_again_or_its_segment_recycled() {
        let mut hot = Hot::new(1 << 20);
        hot.begin_segment(3);
        let count = 20_000u32;
        for number in 0..count {
            hot.written(mix(1, u64::from(number)), Some(LogPlace { segment: 3, offset: number * 8 }));
        }
        let finds = |hot: &Hot, number: u32| {
            hot.candidates(mix(1, u64::from(number))).any(|place| place.offset == number * 8)
        };
        let found = (0..count).filter(|&number| finds(&hot, number)).count();
        assert!(found > 19_000, "{found}");
        hot.written(mix(1, 7), None);
        assert!(!finds(&hot, 7));
        hot.begin_segment(3);
        assert!((0..count).all(|number| !finds(&hot, number)));
    }

    #[test]
    fn a_record_size_is_known_until_something_of_the_object_is_removed() {
        let path = |number| {
            let mut path = Path::default();
            let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, number);
            path.object(ContNo(1), HashKey([7; 16]), oid).unwrap();
            path.down(Depth::Akey, b"d", b"a").unwrap();
            path
        };
        let (one, two) = (path(1), path(2));
        assert_ne!(RecordSizes::era_slot(one.object_hash), RecordSizes::era_slot(two.object_hash));
        let mut sizes = RecordSizes::default();
        sizes.note(&one, 8);
        sizes.note(&two, 1);
        assert_eq!((sizes.find(&one), sizes.find(&two)), (Some(8), Some(1)));
        sizes.removed(&one);
        assert_eq!((sizes.find(&one), sizes.find(&two)), (None, Some(1)));
        sizes.note(&one, 4);
        assert_eq!(sizes.find(&one), Some(4));
        sizes.pause(true);
        assert_eq!(sizes.find(&one), None);
        sizes.pause(false);
        sizes.eras[RecordSizes::era_slot(two.object_hash)] = u32::MAX;
        sizes.removed(&two);
        assert_eq!((sizes.find(&one), sizes.find(&two)), (None, None));
    }

    #[test]
    fn of_many_arrays_nearly_all_keep_their_record_size() {
        let oid = Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 1);
        // Whatever their container's secret is.
        for secret in [[0; 16], [5; 16], [7; 16], [0xff; 16], *b"drawn by a clerk"] {
            let mut path = Path::default();
            path.object(ContNo(1), HashKey(secret), oid).unwrap();
            let mut sizes = RecordSizes::default();
            let mut of_all = |each: &mut dyn FnMut(&mut RecordSizes, &Path, u32)| {
                for number in 1..=8192_u32 {
                    path.down(Depth::Akey, &u64::from(number).to_le_bytes(), b"a").unwrap();
                    each(&mut sizes, &path, number);
                }
            };
            of_all(&mut |sizes, path, number| sizes.note(path, number));
            let mut known = 0;
            of_all(&mut |sizes, path, number| {
                let found = sizes.find(path);
                assert!(found.is_none_or(|found| found == number));
                known += usize::from(found.is_some());
            });
            // With a quarter of the slots taken one in 50 shares its set with four others; were they pairs, one in 10 with two.
            assert!(known > 8000, "{known} with {secret:?}");
        }
    }
}
