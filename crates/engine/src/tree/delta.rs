//! The delta: an ordered map from flat key to the position of what it names.

use super::key::{KEY_BYTES_MAX, TAIL_BYTES};
use core::ops::Bound;
use std::collections::BTreeMap;

/// Where the record of an entry lies; its meaning belongs to whoever inserts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub(crate) struct Pos(pub(crate) u64);

/// An ordered map from flat key to position.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    map: BTreeMap<Vec<u8>, Pos>,
    bytes: usize,
}

/// A place in a [`Delta`]: on an entry, or after the last one.
///
/// It borrows nothing: entries may come and go between two steps, and a step continues from the key it stood on.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    key: Vec<u8>,
    pos: Option<Pos>,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { key: Vec::with_capacity(KEY_BYTES_MAX), pos: None }
    }
}

impl Cursor {
    /// Key and position of the entry it stands on; `None` after the last one and before the first seek.
    #[must_use]
    pub(crate) fn entry(&self) -> Option<(&[u8], Pos)> {
        self.pos.map(|pos| (&self.key[..], pos))
    }

    fn put(&mut self, found: Option<(&Vec<u8>, &Pos)>) {
        self.pos = found.map(|(_, pos)| *pos);
        if let Some((key, _)) = found {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
    }
}

impl Delta {
    /// Inserts an entry or gives an existing one a new position; returns the old position.
    ///
    /// REQUIRES: `key` is a flat key.
    pub(crate) fn insert(&mut self, key: &[u8], pos: Pos) -> Option<Pos> {
        assert!((TAIL_BYTES..=KEY_BYTES_MAX).contains(&key.len()));
        let old = self.map.insert(key.to_vec(), pos);
        if old.is_none() {
            self.bytes += key.len() + 40;
        }
        old
    }

    /// Gives an existing entry a new position; `false` if there is no such entry.
    pub(crate) fn replace(&mut self, key: &[u8], pos: Pos) -> bool {
        self.map.get_mut(key).map(|old| *old = pos).is_some()
    }

    /// The position of an entry.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Pos> {
        self.map.get(key).copied()
    }

    /// Removes an entry; returns its position.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Pos> {
        let old = self.map.remove(key);
        if old.is_some() {
            self.bytes -= key.len() + 40;
        }
        old
    }

    /// Removes everything and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Puts the cursor on the first entry at or after `key`, which may be any bytes.
    pub(crate) fn seek(&self, cursor: &mut Cursor, key: &[u8]) {
        cursor.put(self.map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).next());
    }

    /// Puts the cursor on the first entry after the one it stands on; at the end it stays there.
    pub(crate) fn advance(&self, cursor: &mut Cursor) {
        if cursor.pos.is_some() {
            let after = (Bound::Excluded(&cursor.key[..]), Bound::Unbounded);
            let found = self.map.range::<[u8], _>(after).next();
            cursor.put(found);
        }
    }

    /// How many entries there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Memory held, in bytes.
    #[must_use]
    pub(crate) fn resident_bytes(&self) -> usize {
        self.bytes
    }
}
