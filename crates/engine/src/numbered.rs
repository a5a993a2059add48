//! A map for segments, whose numbers follow each other with few gaps: looked into several times an operation.
//!
//! Invariants: ascending by number, each number once; what has no gap below it is found without a search.

use core::ops::Index;

pub(crate) struct Numbered<T> {
    slots: Vec<(u32, T)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T> Numbered<T> {
    #[inline]
    fn slot(&self, number: u32) -> Result<usize, usize> {
        let first = self.slots.first().map_or(0, |slot| slot.0);
        let likely = number.wrapping_sub(first) as usize;
        if self.slots.get(likely).is_some_and(|slot| slot.0 == number) {
            return Ok(likely);
        }
        self.slots.binary_search_by_key(&number, |slot| slot.0)
    }

    #[inline]
    pub(crate) fn get(&self, number: &u32) -> Option<&T> {
        Some(&self.slots[self.slot(*number).ok()?].1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: &u32) -> Option<&mut T> {
        let slot = self.slot(*number).ok()?;
        Some(&mut self.slots[slot].1)
    }

    pub(crate) fn contains_key(&self, number: &u32) -> bool {
        self.slot(*number).is_ok()
    }

    /// Adds a value, in the place of one that has this number.
    pub(crate) fn insert(&mut self, number: u32, value: T) {
        match self.slot(number) {
            Ok(slot) => self.slots[slot].1 = value,
            Err(slot) => self.slots.insert(slot, (number, value)),
        }
    }

    pub(crate) fn remove(&mut self, number: &u32) -> Option<T> {
        let slot = self.slot(*number).ok()?;
        Some(self.slots.remove(slot).1)
    }

    pub(crate) fn last_key_value(&self) -> Option<(&u32, &T)> {
        self.slots.last().map(|(number, value)| (number, value))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All values with their numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u32, &T)> {
        self.slots.iter().map(|(number, value)| (number, value))
    }

    /// As `iter`, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&u32, &mut T)> {
        self.slots.iter_mut().map(|(number, value)| (&*number, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &slot.1)
    }
}

impl<T: Default> Numbered<T> {
    /// The value of a number, put there if it is not.
    pub(crate) fn entry(&mut self, number: u32) -> &mut T {
        let slot = match self.slot(number) {
            Ok(slot) => slot,
            Err(slot) => {
                self.slots.insert(slot, (number, T::default()));
                slot
            }
        };
        &mut self.slots[slot].1
    }
}

impl<T> Index<&u32> for Numbered<T> {
    type Output = T;

    fn index(&self, number: &u32) -> &T {
        self.get(number).expect("the caller knows that there is one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_number_with_and_without_gaps() {
        let mut map = Numbered::default();
        for number in [3, 1, 2, 9, 4] {
            map.insert(number, number * 10);
        }
        assert_eq!(map.remove(&3), Some(30));
        map.insert(9, 91);
        assert_eq!(
            map.iter().map(|(&number, &value)| (number, value)).collect::<Vec<_>>(),
            [(1, 10), (2, 20), (4, 40), (9, 91)]
        );
        assert_eq!((map.get(&0), map.get(&3), map.get(&9), map[&4]), (None, None, Some(&91), 40));
        assert_eq!((map.get(&u32::MAX), map.len(), map.contains_key(&2)), (None, 4, true));
        assert_eq!(map.last_key_value(), Some((&9, &91)));
        *map.entry(9) += 1;
        *map.entry(5) += 50;
        assert_eq!((map[&9], map[&5]), (92, 50));
    }
}
