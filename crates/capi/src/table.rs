//! What numbers of a C program lead to: its cookies, and the opaque pointers of libdfs.
//!
//! A number is: the kind in its low 4 bits, the place in the table in the next 28, the age of that place in the upper 32.
//! Nobody follows it, so one that was never given out, or whose thing was given up, leads nowhere, also after its place was
//! given to something else.
//!
//! Invariants: 0 is never given out; what a number leads to is of the kind that the number says; the locks here are held for a
//! look or a change, never while something is closed.

use crate::life;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Threads that use different things seldom meet in one of so many parts.
const SHARDS: usize = 16;
/// Places of one part: 28 bits for all parts together.
const PLACES_MAX: usize = 1 << 24;
/// The bits of the kind.
const TAG_BITS: u64 = 15;

/// Anything that is kept in a table.
pub(crate) trait Kept: Clone {
    /// The kind: the low 4 bits of its numbers; not 0.
    fn tag(&self) -> u64;
}

pub(crate) struct Table<K> {
    // Guards: one part of the table each; taken alone.
    parts: [RwLock<Part<K>>; SHARDS],
}

pub(crate) struct Part<K> {
    places: Vec<Place<K>>,
    free: Vec<u32>,
}

struct Place<K> {
    age: u32,
    kept: Option<K>,
}

/// The locks of all parts.
pub(crate) type Locked<K> = [RwLockWriteGuard<'static, Part<K>>; SHARDS];

/// Where a number leads, if it is one: part, place and age.
fn locate(number: u64) -> (usize, usize, u32) {
    let [_, _, _, _, a, b, c, d] = number.to_le_bytes();
    let place = usize::try_from((number >> 4) & 0x0fff_ffff).unwrap_or(usize::MAX);
    (place % SHARDS, place / SHARDS, u32::from_le_bytes([a, b, c, d]))
}

fn number(tag: u64, shard: usize, index: usize, age: u32) -> u64 {
    u64::from(age) << 32 | ((index * SHARDS + shard) as u64) << 4 | tag
}

impl<K: Kept> Table<K> {
    pub(crate) const fn new() -> Self {
        Self { parts: [const { RwLock::new(Part { places: Vec::new(), free: Vec::new() }) }; SHARDS] }
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Part<K>> {
        self.parts[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Part<K>> {
        self.parts[shard].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives something a number; `None` if all places are taken.
    pub(crate) fn insert(&self, kept: K) -> Option<u64> {
        let (tag, shard) = (kept.tag(), life::spread() % SHARDS);
        assert!(tag & TAG_BITS == tag && tag > 0, "a kind has four bits");
        let mut part = self.write(shard);
        let index = match part.free.pop() {
            Some(index) => index as usize,
            None if part.places.len() >= PLACES_MAX => return None,
            None => {
                part.places.push(Place { age: 1, kept: None });
                part.places.len() - 1
            }
        };
        let place = &mut part.places[index];
        place.kept = Some(kept);
        Some(number(tag, shard, index, place.age))
    }

    /// What a number leads to.
    pub(crate) fn find(&self, number: u64) -> Option<K> {
        let (shard, index, age) = locate(number);
        let part = self.read(shard);
        let kept = part.places.get(index).filter(|place| place.age == age)?.kept.as_ref()?;
        (kept.tag() == number & TAG_BITS).then(|| kept.clone())
    }

    /// Takes a number back if `is_right` says that it may be, and returns what it led to.
    pub(crate) fn remove(&self, number: u64, is_right: impl FnOnce(&K) -> bool) -> Option<K> {
        let (shard, index, age) = locate(number);
        let mut part = self.write(shard);
        let place = part.places.get_mut(index).filter(|place| place.age == age)?;
        let kept = place.kept.take_if(|kept| kept.tag() == number & TAG_BITS && is_right(kept))?;
        part.give_back(index);
        Some(kept)
    }

    /// What `of` says of those that are there, and of their numbers.
    pub(crate) fn each<T>(&self, of: impl Fn(u64, &K) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        for shard in 0..SHARDS {
            let part = self.read(shard);
            let kept = part.places.iter().enumerate().filter_map(|(index, place)| {
                let kept = place.kept.as_ref()?;
                of(number(kept.tag(), shard, index, place.age), kept)
            });
            found.extend(kept);
        }
        found
    }

    /// Takes back the numbers of all that `is_meant`, and returns what they led to.
    pub(crate) fn take_those(&self, is_meant: impl Fn(&K) -> bool) -> Vec<K> {
        let mut all = Vec::new();
        for shard in 0..SHARDS {
            let mut part = self.write(shard);
            for index in 0..part.places.len() {
                if let Some(kept) = part.places[index].kept.take_if(|kept| is_meant(kept)) {
                    part.give_back(index);
                    all.push(kept);
                }
            }
        }
        all
    }

    /// Puts something else, or nothing, into the place of everything, in this order. What was there is neither closed nor freed.
    pub(crate) fn replace_all<O: Ord>(
        &self,
        order: impl Fn(&K) -> O,
        mut other: impl FnMut(&K) -> Option<K>,
    ) {
        let mut all = Vec::new();
        for shard in 0..SHARDS {
            let mut part = self.write(shard);
            let taken =
                part.places.iter_mut().enumerate().filter_map(|(at, place)| Some((at, place.kept.take()?)));
            all.extend(taken.map(|(index, kept)| (shard, index, kept)));
        }
        all.sort_by_key(|(.., kept)| order(kept));
        for (shard, index, kept) in all {
            let made = other(&kept);
            core::mem::forget(kept);
            let mut part = self.write(shard);
            if made.is_none() {
                part.give_back(index);
            }
            part.places[index].kept = made;
        }
    }

    /// Takes all locks for a fork, so that the child finds the table whole.
    pub(crate) fn hold(&'static self) -> Locked<K> {
        self.parts.each_ref().map(|part| part.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K> Part<K> {
    /// A place is free again, and of another age.
    fn give_back(&mut self, index: usize) {
        let place = &mut self.places[index];
        place.age = place.age.wrapping_add(1).max(1);
        self.free.extend(u32::try_from(index).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Thing(u64, &'static str);

    impl Kept for Thing {
        fn tag(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_number_leads_to_its_own_thing_and_to_no_later_one() {
        let table = Table::new();
        let first = table.insert(Thing(3, "first")).unwrap();
        let other_kind = first & !TAG_BITS | 5;
        assert_eq!(table.find(first), Some(Thing(3, "first")));
        assert_eq!((table.find(other_kind), table.find(0)), (None, None));
        assert_eq!((table.remove(other_kind, |_| true), table.remove(first, |_| false)), (None, None));
        assert_eq!(table.remove(first, |_| true), Some(Thing(3, "first")));
        let second = table.insert(Thing(3, "second")).unwrap();
        assert_eq!((table.find(first), table.remove(first, |_| true)), (None, None));
        assert_eq!(table.each(|number, thing| Some((number, thing.1))), [(second, "second")]);
    }

    #[test]
    fn what_is_replaced_keeps_its_number_and_what_is_not_gives_its_place_back() {
        let table = Table::new();
        let numbers = [1, 2, 1, 3].map(|tag| table.insert(Thing(tag, "old")).unwrap());
        let mut seen = Vec::new();
        table.replace_all(Thing::tag, |thing| {
            seen.push(thing.0);
            (thing.0 != 2).then_some(Thing(thing.0, "new"))
        });
        assert_eq!(seen, [1, 1, 2, 3]);
        assert_eq!(
            numbers.map(|number| table.find(number).map(|thing| thing.1)),
            [Some("new"), None, Some("new"), Some("new")]
        );
        assert_ne!(table.insert(Thing(2, "later")), Some(numbers[1]));
        assert_eq!(table.take_those(|thing| thing.0 == 1).len(), 2);
        assert_eq!(table.each(|_, thing| Some(thing.1)).len(), 2);
    }
}
