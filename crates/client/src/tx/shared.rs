//! A map by key of which copies share what they have in common.
//!
//! A copy takes no time, and a change of one of two costs the way from the root to what is changed. Nothing is removed.
//!
//! Invariants: keys ascend from left to right; the heights of the two sides of a node differ by one at most.

use core::cmp::Ordering;
use dolmen_types::Key;
use std::sync::Arc;

/// A balanced tree; who holds it holds it as it is.
#[derive(Debug)]
pub(crate) struct SharedMap<V> {
    root: Link<V>,
}

type Link<V> = Option<Arc<Node<V>>>;

#[derive(Debug)]
struct Node<V> {
    key: Key,
    value: Arc<V>,
    height: u8,
    /// Those below: of smaller keys, and of greater ones.
    sides: [Link<V>; 2],
}

/// Which of the two sides.
const LEFT: usize = 0;
const RIGHT: usize = 1;

impl<V> Clone for SharedMap<V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<V> Clone for Node<V> {
    fn clone(&self) -> Self {
        let Self { key, value, height, sides } = self;
        Self { key: key.clone(), value: Arc::clone(value), height: *height, sides: sides.clone() }
    }
}

impl<V> SharedMap<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match key.cmp(&node.key[..]) {
                Ordering::Less => &node.sides[LEFT],
                Ordering::Greater => &node.sides[RIGHT],
                Ordering::Equal => return Some(&node.value),
            };
        }
        None
    }

    pub(crate) fn contains_key(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Ascending.
    fn nodes(&self) -> impl Iterator<Item = &Node<V>> {
        let mut above: Vec<&Node<V>> = Vec::new();
        let mut next = self.root.as_deref();
        core::iter::from_fn(move || {
            while let Some(node) = next {
                above.push(node);
                next = node.sides[LEFT].as_deref();
            }
            let node = above.pop()?;
            next = node.sides[RIGHT].as_deref();
            Some(node)
        })
    }

    /// Ascending.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.nodes().map(|node| &node.key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes().map(|node| &*node.value)
    }

    /// Puts a value in the place of what was there.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) {
        insert(&mut self.root, key, Arc::new(value));
    }
}

impl<V: Clone + Default> SharedMap<V> {
    /// What is there, or nothing yet, to be changed: a copy of its own if others share it.
    pub(crate) fn entry(&mut self, key: &[u8]) -> &mut V {
        if !self.contains_key(key) {
            self.insert(key, V::default());
        }
        let mut link = &mut self.root;
        loop {
            let node = Arc::make_mut(link.as_mut().expect("inserted above"));
            link = match key.cmp(&node.key[..]) {
                Ordering::Less => &mut node.sides[LEFT],
                Ordering::Greater => &mut node.sides[RIGHT],
                Ordering::Equal => return Arc::make_mut(&mut node.value),
            };
        }
    }
}

fn insert<V>(link: &mut Link<V>, key: &[u8], value: Arc<V>) {
    let Some(node) = link else {
        let key = Key::from_slice(key);
        *link = Some(Arc::new(Node { key, value, height: 1, sides: [None, None] }));
        return;
    };
    let node = Arc::make_mut(node);
    match key.cmp(&node.key[..]) {
        Ordering::Less => insert(&mut node.sides[LEFT], key, value),
        Ordering::Greater => insert(&mut node.sides[RIGHT], key, value),
        Ordering::Equal => node.value = value,
    }
    balance(link);
}

fn height<V>(link: &Link<V>) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

impl<V> Node<V> {
    fn measure(&mut self) {
        self.height = 1 + height(&self.sides[LEFT]).max(height(&self.sides[RIGHT]));
    }
}

/// Makes a node balanced of which one side has grown by one.
fn balance<V>(link: &mut Link<V>) {
    let Some(node) = link else { return };
    let node = Arc::make_mut(node);
    node.measure();
    let [left, right] = [LEFT, RIGHT].map(|side| height(&node.sides[side]));
    let (high, low) = if left > right { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
    if left.abs_diff(right) < 2 {
        return;
    }
    if node.sides[high].as_ref().is_some_and(|child| height(&child.sides[high]) < height(&child.sides[low])) {
        lift(&mut node.sides[high], low);
    }
    lift(link, high);
}

/// The child on this side comes to the place of its parent.
fn lift<V>(link: &mut Link<V>, side: usize) {
    let Some(mut node) = link.take() else { return };
    let parent = Arc::make_mut(&mut node);
    let Some(mut child) = parent.sides[side].take() else {
        *link = Some(node);
        return;
    };
    let other = LEFT + RIGHT - side;
    let lifted = Arc::make_mut(&mut child);
    parent.sides[side] = lifted.sides[other].take();
    parent.measure();
    lifted.sides[other] = Some(node);
    lifted.measure();
    *link = Some(child);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    impl<V> SharedMap<V> {
        /// Nodes and values that this has and `other` has not: what was copied or made since they were the same.
        pub(crate) fn apart_from(&self, other: &Self) -> (usize, usize) {
            let parts = |map: &Self| -> (HashSet<_>, HashSet<_>) {
                map.nodes().map(|node| (core::ptr::from_ref(node), Arc::as_ptr(&node.value))).unzip()
            };
            let (mine, theirs) = (parts(self), parts(other));
            (mine.0.difference(&theirs.0).count(), mine.1.difference(&theirs.1).count())
        }
    }

    fn check<V>(link: &Link<V>) -> u8 {
        let Some(node) = link else { return 0 };
        let [left, right] = [&node.sides[LEFT], &node.sides[RIGHT]].map(check);
        assert!(left.abs_diff(right) <= 1);
        assert_eq!(node.height, 1 + left.max(right));
        node.height
    }

    proptest! {
        #[test]
        fn each_copy_stays_what_it_was(
            steps in prop::collection::vec((any::<u8>(), any::<bool>(), any::<bool>()), 0..120),
        ) {
            let (mut map, mut plain) = (SharedMap::<u32>::default(), BTreeMap::<u8, u32>::new());
            let mut copies = Vec::new();
            for (number, (key, replaces, is_kept)) in (1_u32..).zip(steps) {
                if is_kept {
                    copies.push((map.clone(), plain.clone()));
                }
                if replaces {
                    map.insert(&[key], number);
                    plain.insert(key, number);
                } else {
                    *map.entry(&[key]) += number;
                    *plain.entry(key).or_default() += number;
                }
            }
            copies.push((map, plain));
            for (map, plain) in copies {
                check(&map.root);
                let keys: Vec<u8> = map.keys().map(|key| key[0]).collect();
                prop_assert_eq!(keys, plain.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(map.values().collect::<Vec<_>>(), plain.values().collect::<Vec<_>>());
                prop_assert_eq!(map.is_empty(), plain.is_empty());
                for key in 0..=u8::MAX {
                    prop_assert_eq!(map.get(&[key]), plain.get(&key));
                }
            }
        }
    }

    #[test]
    fn a_change_copies_the_way_to_it_and_no_other_value() {
        let mut map = SharedMap::<u32>::default();
        (0..1000_u32).for_each(|key| map.insert(&key.to_le_bytes(), key));
        // A tree of so many that is balanced like this has no more levels.
        let levels = check(&map.root);
        assert!(levels <= 14, "{levels}");
        for key in 0..1100_u32 {
            let before = map.clone();
            *map.entry(&key.to_le_bytes()) += 1;
            let (nodes, values) = map.apart_from(&before);
            assert!(nodes <= 16 && values == 1, "{nodes} nodes, {values} values");
        }
    }
}
