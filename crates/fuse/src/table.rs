//! Numbers of what the kernel remembers.
//!
//! Invariants: a number stands for one thing as long as the kernel remembers it, and is never used again. One thing has one
//! number, by however many names it was looked up.

use crate::abi::ROOT;
use dolmen_dfs::{Obj, Time};
use hashbrown::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which view of the container something is seen in: 0 is the container as it is, others are snapshots.
pub(crate) type View = u32;

/// What a number stands for.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Something in the container.
    Obj(Obj),
    /// The directory in which the snapshots are.
    Snapshots,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) view: View,
    pub(crate) what: What,
}

/// What tells whether contents may have changed. Programs set the time of their last change as they like, but not that of
/// the last change of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    pub(crate) size_bytes: u64,
}

#[derive(Debug)]
struct Remembered {
    node: Node,
    key: (View, u64),
    lookups: u64,
    /// Of the contents that the kernel may remember.
    version: Option<Version>,
}

#[derive(Debug, Default)]
struct Numbers {
    by_number: HashMap<u64, Remembered>,
    by_key: HashMap<(View, u64), u64>,
    last: u64,
}

/// All that the kernel remembers.
#[derive(Debug)]
pub(crate) struct Table {
    /// Guards: both maps; taken alone, and nothing is dropped under it that asks the store.
    numbers: Mutex<Numbers>,
}

impl Table {
    pub(crate) fn new(root: Node, ino: u64) -> Self {
        let mut numbers = Numbers { last: ROOT, ..Numbers::default() };
        let key = (root.view, ino);
        numbers.by_key.insert(key, ROOT);
        numbers.by_number.insert(ROOT, Remembered { node: root, key, lookups: 1, version: None });
        Self { numbers: Mutex::new(numbers) }
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, number: u64) -> Option<Node> {
        self.numbers().by_number.get(&number).map(|known| known.node.clone())
    }

    /// What has the inode number `ino`, if the kernel remembers it.
    pub(crate) fn find_ino(&self, view: View, ino: u64) -> Option<Node> {
        let numbers = self.numbers();
        let number = numbers.by_key.get(&(view, ino))?;
        numbers.by_number.get(number).map(|known| known.node.clone())
    }

    /// Counts a lookup of what has the inode number `ino`; its number.
    pub(crate) fn remember(&self, node: Node, ino: u64) -> u64 {
        let key = (node.view, ino);
        let mut unused = None;
        let mut numbers = self.numbers();
        let known = numbers.by_key.get(&key).copied();
        let number = match known {
            Some(number) => number,
            None => {
                numbers.last += 1;
                numbers.last
            }
        };
        match numbers.by_number.get_mut(&number) {
            Some(known) => {
                known.lookups += 1;
                unused = Some(node);
            }
            None => {
                numbers.by_key.insert(key, number);
                numbers.by_number.insert(number, Remembered { node, key, lookups: 1, version: None });
            }
        }
        drop(numbers);
        // The last handle of something records its times, which must not happen under the lock.
        drop(unused);
        number
    }

    /// Takes lookups back. What nobody remembers any more is given to the caller, to be dropped.
    #[must_use]
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Node> {
        let mut numbers = self.numbers();
        let known = numbers.by_number.get_mut(&number)?;
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 || number == ROOT {
            return None;
        }
        let gone = numbers.by_number.remove(&number)?;
        numbers.by_key.remove(&gone.key);
        drop(numbers);
        Some(gone.node)
    }

    /// Notes what an open found; whether the kernel's memory of the contents is of the same.
    pub(crate) fn is_same(&self, number: u64, version: Version) -> bool {
        let mut numbers = self.numbers();
        let Some(known) = numbers.by_number.get_mut(&number) else { return false };
        known.version.replace(version) == Some(version)
    }

    /// How many things the kernel remembers.
    pub(crate) fn len(&self) -> usize {
        self.numbers().by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node { view: 0, what: What::Snapshots }
    }

    #[test]
    fn a_thing_has_one_number_until_all_its_lookups_are_forgotten() {
        let table = Table::new(node(), 1);
        let number = table.remember(node(), 77);
        assert_eq!(table.remember(node(), 77), number);
        let elsewhere = table.remember(Node { view: 1, ..node() }, 77);
        assert_ne!(elsewhere, number, "another view of it is another thing");
        assert!(table.forget(number, 1).is_none());
        assert!(table.find(number).is_some());
        assert!(table.forget(number, 5).is_some(), "a kernel that forgets too often harms nobody");
        assert!(table.find(number).is_none());
        assert!(table.forget(number, 1).is_none());
        assert_ne!(table.remember(node(), 77), number, "a number is not used twice");
        assert!(table.forget(ROOT, 9).is_none());
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn contents_are_the_same_if_the_last_open_found_the_same_version() {
        let table = Table::new(node(), 1);
        let number = table.remember(node(), 5);
        let version = Version { mtime: Time { s: 1, ns: 2 }, ctime: Time { s: 1, ns: 3 }, size_bytes: 3 };
        assert!(!table.is_same(number, version));
        assert!(table.is_same(number, version));
        assert!(!table.is_same(number, Version { size_bytes: 4, ..version }));
        assert!(!table.is_same(number, version));
        assert!(
            !table.is_same(number, Version { ctime: version.mtime, ..version }),
            "the old time was set again"
        );
        assert!(!table.is_same(99, version));
    }
}
