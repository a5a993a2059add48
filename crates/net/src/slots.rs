//! Values at numbered places, which are used again.

/// Values at places that are numbered from 0, the lowest free ones first.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
enum Place<T> {
    Free,
    /// Its value is in somebody's hands, who puts it back.
    Lifted,
    Full(T),
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Puts a value at a free place, and says which.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.places[at] = Place::Full(value);
            return at;
        }
        self.places.push(Place::Full(value));
        self.places.len() - 1
    }

    /// Takes a value away; its place is free.
    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let place = self.places.get_mut(at)?;
        match core::mem::replace(place, Place::Free) {
            Place::Full(value) => {
                self.free.push(at);
                Some(value)
            }
            other => {
                *place = other;
                None
            }
        }
    }

    /// Takes a value for a while; its place stays taken until it is put back.
    #[inline]
    pub(crate) fn lift(&mut self, at: usize) -> Option<T> {
        let place = self.places.get_mut(at)?;
        match core::mem::replace(place, Place::Lifted) {
            Place::Full(value) => Some(value),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Puts a value back that was lifted.
    ///
    /// # Panics
    /// If it was not.
    #[inline]
    pub(crate) fn put_back(&mut self, at: usize, value: T) {
        let place = core::mem::replace(&mut self.places[at], Place::Full(value));
        assert!(matches!(place, Place::Lifted));
    }

    #[inline]
    pub(crate) fn of(&self, at: usize) -> Option<&T> {
        match self.places.get(at)? {
            Place::Full(value) => Some(value),
            Place::Free | Place::Lifted => None,
        }
    }

    #[inline]
    pub(crate) fn of_mut(&mut self, at: usize) -> Option<&mut T> {
        match self.places.get_mut(at)? {
            Place::Full(value) => Some(value),
            Place::Free | Place::Lifted => None,
        }
    }

    /// One more than the highest place that was ever taken.
    pub(crate) fn bound(&self) -> usize {
        self.places.len()
    }

    /// How many values there are, lifted ones included.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.places.len()).filter_map(|at| self.of(at))
    }

    /// The places that have values now.
    pub(crate) fn keys(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|&at| self.of(at).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_lifted_values_keep_theirs() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_eq!(slots.lift(a), Some('a'));
        assert!(slots.of(a).is_none());
        assert!(slots.remove(a).is_none());
        assert!(slots.lift(a).is_none());
        assert_eq!(slots.remove(b), Some('b'));
        assert_eq!(slots.insert('c'), b);
        slots.put_back(a, 'a');
        assert_eq!((slots.of(a), slots.len(), slots.keys()), (Some(&'a'), 2, vec![a, b]));
        assert_eq!(slots.remove(7), None);
    }
}
