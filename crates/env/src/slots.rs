//! A table of open files whose ids do not come back soon, so that a stale one is refused.
//!
//! Invariants: an id is index (20 bits) and generation (12 bits); a slot's generation changes when it is
//! emptied.

use crate::disk::FileId;
use crate::error::{Error, Result};

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, value: T) -> FileId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        assert!(index <= INDEX_MASK, "more than a million open files");
        let (generation, slot) = &mut self.slots[at(index)];
        *slot = Some(value);
        FileId(index | *generation << INDEX_BITS)
    }

    pub(crate) fn remove(&mut self, id: FileId) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(at(id.0 & INDEX_MASK))?;
        if *generation != id.0 >> INDEX_BITS {
            return None;
        }
        let value = slot.take()?;
        *generation = (*generation + 1) & (u32::MAX >> INDEX_BITS);
        self.free.push(id.0 & INDEX_MASK);
        Some(value)
    }

    #[inline]
    pub(crate) fn at(&self, id: FileId) -> Result<&T> {
        match self.slots.get(at(id.0 & INDEX_MASK)) {
            Some((generation, Some(value))) if *generation == id.0 >> INDEX_BITS => Ok(value),
            _ => Err(Error::NotOpen { file: id.0 }),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, slot)| slot.as_ref())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> {
        let taken = self.slots.iter().zip(0..).filter(|((_, slot), _)| slot.is_some());
        taken.map(|((generation, _), index): (_, u32)| FileId(index | *generation << INDEX_BITS))
    }

    pub(crate) fn at_mut(&mut self, id: FileId) -> Result<&mut T> {
        match self.slots.get_mut(at(id.0 & INDEX_MASK)) {
            Some((generation, Some(value))) if *generation == id.0 >> INDEX_BITS => Ok(value),
            _ => Err(Error::NotOpen { file: id.0 }),
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, slot)| slot.as_mut())
    }
}

fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_is_refused_after_its_slot_is_reused() {
        let mut slots = Slots::default();
        let old = slots.insert('a');
        assert_eq!(slots.remove(old), Some('a'));
        let new = slots.insert('b');
        assert_eq!(slots.at(old), Err(Error::NotOpen { file: old.0 }));
        assert_eq!(slots.at(new), Ok(&'b'));
        assert_eq!(slots.remove(old), None);
    }
}
