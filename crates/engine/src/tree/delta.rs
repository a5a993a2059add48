//! The delta: an ordered map from flat key to the position of what it names.
//!
//! A B+ tree of small variable-sized nodes, numbered by `u32`. It is emptied as a whole at a checkpoint, so
//! removal only joins a leaf that is nearly empty with its neighbour.
//!
//! Invariants: all leaves are at the same depth and linked in key order; the keys of a child are at or above the
//! separator left of it and below the one right of it; `len` counts the entries of all leaves, `block_bytes` the
//! blocks of all nodes.

use super::key::{KEY_BYTES_MAX, TAIL_BYTES, common_prefix_len};
use super::node::Node;

/// Where the record of an entry lies; its meaning belongs to whoever inserts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub(crate) struct Pos(pub(crate) u64);

type Leaf = Node<8>;
type Inner = Node<4>;

/// No node.
const NONE: u32 = u32::MAX;
/// More levels than 2^32 leaves need at the smallest fan-out of an inner node, which is 4096 / 400 bytes.
const LEVELS_MAX: usize = 12;
/// A leaf below this many bytes is joined with a neighbour.
const LEAF_BYTES_MIN: usize = super::node::NODE_BYTES_MAX / 4;

/// An ordered map from flat key to position.
#[derive(Debug)]
pub(crate) struct Delta {
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    free_leaves: Vec<u32>,
    free_inners: Vec<u32>,
    /// A leaf if `height` is 0, otherwise an inner node.
    root: u32,
    height: usize,
    len: usize,
    block_bytes: usize,
    /// Changes with everything that moves entries, so that cursors notice.
    generation: u64,
}

/// The way from the root to a leaf: inner nodes, and the child taken in each (0 is its link).
#[derive(Clone, Copy)]
struct Path {
    steps: [(u32, usize); LEVELS_MAX],
    leaf: u32,
}

/// A place in a [`Delta`]: on an entry, or after the last one.
///
/// It borrows nothing: entries may come and go between two steps, and a step continues from the key it stood on.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    key: Vec<u8>,
    pos: Option<Pos>,
    leaf: u32,
    index: usize,
    generation: u64,
    /// The leaf that `key` was loaded from, in that generation.
    loaded: u32,
}

impl Default for Cursor {
    fn default() -> Self {
        let key = Vec::with_capacity(KEY_BYTES_MAX);
        Self { key, pos: None, leaf: NONE, index: 0, generation: 0, loaded: NONE }
    }
}

impl Cursor {
    /// Key and position of the entry it stands on; `None` after the last one and before the first seek.
    #[must_use]
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], Pos)> {
        self.pos.map(|pos| (&self.key[..], pos))
    }

    /// Leaves the entry it stands on.
    pub(crate) fn leave(&mut self) {
        self.pos = None;
    }
}

impl Default for Delta {
    fn default() -> Self {
        Self {
            leaves: vec![Leaf::new(NONE)],
            inners: Vec::new(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            height: 0,
            len: 0,
            block_bytes: 0,
            generation: 1,
        }
    }
}

impl Delta {
    /// Inserts an entry or gives an existing one a new position; returns the old position.
    ///
    /// REQUIRES: `key` is a flat key.
    pub(crate) fn insert(&mut self, key: &[u8], pos: Pos) -> Option<Pos> {
        assert!((TAIL_BYTES..=KEY_BYTES_MAX).contains(&key.len()));
        loop {
            let path = self.descend(key);
            let leaf = &mut self.leaves[path.leaf as usize];
            let before = leaf.block_bytes();
            match leaf.find(key) {
                Ok(index) => {
                    let old = leaf.value(index);
                    leaf.set_value(index, pos.0.to_le_bytes());
                    return Some(Pos(u64::from_le_bytes(old)));
                }
                Err(index) => {
                    if leaf.insert(index, key, pos.0.to_le_bytes()) {
                        self.block_bytes = self.block_bytes + leaf.block_bytes() - before;
                        self.len += 1;
                        self.generation += 1;
                        return None;
                    }
                    self.split_leaf(&path, index, key);
                }
            }
        }
    }

    /// The leaf that has or would have `key`; its node is asked for.
    #[inline]
    pub(crate) fn find_leaf(&self, key: &[u8]) -> u32 {
        let leaf = self.leaf_of(key);
        dolmen_env::prefetch_line(&self.leaves[leaf as usize]);
        leaf
    }

    /// Asks for what an insertion into a leaf touches. A number that is no leaf's any more is ignored.
    #[inline]
    pub(crate) fn prefetch_leaf(&self, leaf: u32) {
        if let Some(leaf) = self.leaves.get(leaf as usize) {
            leaf.prefetch();
        }
    }

    /// The position of an entry.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Pos> {
        let leaf = &self.leaves[self.leaf_of(key) as usize];
        let index = leaf.find(key).ok()?;
        Some(Pos(u64::from_le_bytes(leaf.value(index))))
    }

    /// Removes an entry; returns its position.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Pos> {
        let path = self.descend(key);
        let leaf = &mut self.leaves[path.leaf as usize];
        let index = leaf.find(key).ok()?;
        let pos = Pos(u64::from_le_bytes(leaf.value(index)));
        leaf.remove(index);
        let is_small = leaf.live_bytes() < LEAF_BYTES_MIN;
        self.len -= 1;
        self.generation += 1;
        if self.len == 0 {
            self.clear();
        } else if is_small && self.height > 0 {
            self.join_leaf(&path);
        }
        Some(pos)
    }

    /// Removes everything and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    /// Gives back the memory of up to `nodes` nodes of a map that nobody reads any more; `true` when all is back.
    ///
    /// Dropping millions of entries at once would stall a target for milliseconds.
    pub(crate) fn dismantle(&mut self, nodes: usize) -> bool {
        self.len = 0;
        self.generation += 1;
        for _ in 0..nodes {
            let inner = self.inners.pop().map(|node| node.block_bytes());
            let Some(bytes) = inner.or_else(|| self.leaves.pop().map(|node| node.block_bytes())) else {
                self.clear();
                return true;
            };
            self.block_bytes -= bytes;
        }
        false
    }

    /// Puts the cursor on the first entry at or after `key`, which may be any bytes.
    pub(crate) fn seek(&self, cursor: &mut Cursor, key: &[u8]) {
        cursor.leaf = self.leaf_of(key);
        let (Ok(index) | Err(index)) = self.leaves[cursor.leaf as usize].find(key);
        cursor.index = index;
        // What it holds may be of another map.
        cursor.loaded = NONE;
        self.settle(cursor);
    }

    /// Puts the cursor on the first entry after the one it stands on; at the end it stays there.
    ///
    /// REQUIRES: the cursor was last put on an entry of this map.
    pub(crate) fn advance(&self, cursor: &mut Cursor) {
        if cursor.pos.is_none() {
            return;
        }
        if cursor.generation != self.generation {
            cursor.leaf = self.leaf_of(&cursor.key);
            match self.leaves[cursor.leaf as usize].find(&cursor.key) {
                Ok(index) => cursor.index = index + 1,
                Err(index) => cursor.index = index,
            }
        } else {
            cursor.index += 1;
        }
        self.settle(cursor);
    }

    /// Puts the cursor on the last entry before `key`, which may be any bytes, or on none.
    pub(crate) fn seek_below(&self, cursor: &mut Cursor, key: &[u8]) {
        let below = self.below(key);
        // What it holds may be of another map.
        cursor.loaded = NONE;
        self.stand(cursor, below);
    }

    /// Puts the cursor on the entry before the one it stands on, or on none.
    ///
    /// REQUIRES: the cursor was last put on an entry of this map.
    pub(crate) fn retreat(&self, cursor: &mut Cursor) {
        if cursor.pos.is_some() {
            let is_inside = cursor.generation == self.generation && cursor.index > 0;
            let below =
                if is_inside { Some((cursor.leaf, cursor.index - 1)) } else { self.below(&cursor.key) };
            self.stand(cursor, below);
        }
    }

    fn stand(&self, cursor: &mut Cursor, place: Option<(u32, usize)>) {
        match place {
            Some(place) => {
                (cursor.leaf, cursor.index) = place;
                self.settle(cursor);
            }
            None => cursor.leave(),
        }
    }

    /// Leaf and index of the last entry before `key`.
    fn below(&self, key: &[u8]) -> Option<(u32, usize)> {
        let mut path = self.descend(key);
        let (Ok(mut above) | Err(mut above)) = self.leaves[path.leaf as usize].find(key);
        while above == 0 {
            if !self.step_left(&mut path) {
                return None;
            }
            above = self.leaves[path.leaf as usize].count();
        }
        Some((path.leaf, above - 1))
    }

    /// Turns the way to a leaf into the way to the one left of it; `false` if there is none.
    fn step_left(&self, path: &mut Path) -> bool {
        let Some(turn) = path.steps[..self.height].iter().rposition(|&(_, index)| index > 0) else {
            return false;
        };
        let (inner, index) = path.steps[turn];
        path.steps[turn] = (inner, index - 1);
        path.leaf = child(&self.inners[inner as usize], index - 1);
        for step in &mut path.steps[turn + 1..self.height] {
            let inner = &self.inners[path.leaf as usize];
            *step = (path.leaf, inner.count());
            path.leaf = child(inner, inner.count());
        }
        true
    }

    /// How many entries there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory held, in bytes, with what the allocator adds to each block.
    #[must_use]
    pub(crate) fn resident_bytes(&self) -> usize {
        const ALLOCATION_BYTES: usize = 16;
        let nodes = self.leaves.capacity() * size_of::<Leaf>() + self.inners.capacity() * size_of::<Inner>();
        self.block_bytes + nodes + (self.leaves.len() + self.inners.len()) * ALLOCATION_BYTES
    }

    /// Asserts the invariants, reading every entry.
    pub(crate) fn check(&self) {
        let mut leaf = self.root;
        for _ in 0..self.height {
            leaf = self.inners[leaf as usize].link;
        }
        let mut len = 0;
        let (mut key, mut before) = (Vec::new(), Vec::new());
        while leaf != NONE {
            let node = &self.leaves[leaf as usize];
            node.check();
            for index in 0..node.count() {
                node.key_into(index, &mut key);
                assert!(len == 0 || before < key);
                assert!(self.leaf_of(&key) == leaf);
                core::mem::swap(&mut key, &mut before);
                len += 1;
            }
            leaf = node.link;
        }
        let leaves: usize = self.leaves.iter().map(Leaf::block_bytes).sum();
        let inners: usize = self.inners.iter().map(Inner::block_bytes).sum();
        assert!(len == self.len);
        assert!(leaves + inners == self.block_bytes);
    }

    /// Loads the entry at leaf and index, or the first one of the leaves that follow.
    fn settle(&self, cursor: &mut Cursor) {
        // Of a leaf that has not changed the next key differs behind the prefix only.
        let was_loaded = cursor.loaded == cursor.leaf && cursor.generation == self.generation;
        cursor.generation = self.generation;
        while cursor.leaf != NONE {
            let leaf = &self.leaves[cursor.leaf as usize];
            if cursor.index < leaf.count() {
                if was_loaded && cursor.loaded == cursor.leaf {
                    leaf.sibling_into(cursor.index, &mut cursor.key);
                } else {
                    leaf.key_into(cursor.index, &mut cursor.key);
                    cursor.loaded = cursor.leaf;
                }
                cursor.pos = Some(Pos(u64::from_le_bytes(leaf.value(cursor.index))));
                return;
            }
            (cursor.leaf, cursor.index) = (leaf.link, 0);
            self.prefetch_behind(leaf.link);
        }
        cursor.pos = None;
    }

    /// Whoever goes on to a leaf will want the next one as well.
    fn prefetch_behind(&self, leaf: u32) {
        let next = self.leaves.get(leaf as usize).and_then(|leaf| self.leaves.get(leaf.link as usize));
        if let Some(next) = next {
            next.prefetch_all();
        }
    }

    fn leaf_of(&self, key: &[u8]) -> u32 {
        let mut id = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[id as usize];
            id = child(inner, child_index(inner, key));
        }
        id
    }

    fn descend(&self, key: &[u8]) -> Path {
        let mut path = Path { steps: [(NONE, 0); LEVELS_MAX], leaf: self.root };
        for step in &mut path.steps[..self.height] {
            let inner = &self.inners[path.leaf as usize];
            let index = child_index(inner, key);
            *step = (path.leaf, index);
            path.leaf = child(inner, index);
        }
        path
    }

    /// Splits the leaf that `key` does not fit into at `index`, or an inner node that has no room for that.
    fn split_leaf(&mut self, path: &Path, index: usize, key: &[u8]) {
        let leaf = &self.leaves[path.leaf as usize];
        // A stream fills its leaf and leaves what is above it to the next one.
        let at = if leaf.is_stream(index) { index } else { leaf.middle() };
        let (mut low, mut high) = (Vec::with_capacity(KEY_BYTES_MAX), Vec::with_capacity(KEY_BYTES_MAX));
        if at == index && at < leaf.count() {
            low.extend_from_slice(key);
        } else {
            leaf.key_into(at - 1, &mut low);
        }
        if at < leaf.count() {
            leaf.key_into(at, &mut high);
        } else {
            high.extend_from_slice(key);
        }
        high.truncate(common_prefix_len(&low, &high) + 1);
        let right = match self.free_leaves.last() {
            Some(free) => *free,
            None => node_number(self.leaves.len()),
        };
        if !self.insert_separator(path, self.height, &high, right) {
            return;
        }
        let leaf = &mut self.leaves[path.leaf as usize];
        let before = leaf.block_bytes();
        let new = leaf.split_off(at, leaf.link);
        leaf.link = right;
        self.block_bytes = self.block_bytes + leaf.block_bytes() + new.block_bytes() - before;
        match self.free_leaves.pop() {
            Some(free) => self.leaves[free as usize] = new,
            None => self.leaves.push(new),
        }
        self.generation += 1;
    }

    /// Puts a separator and the child right of it into the parent of a node at `depth`.
    ///
    /// If the parent is full it is split instead, and `false` returned: the caller descends anew.
    fn insert_separator(&mut self, path: &Path, depth: usize, separator: &[u8], right: u32) -> bool {
        let Some(above) = depth.checked_sub(1) else {
            self.grow_root(separator, right);
            return true;
        };
        let (id, index) = path.steps[above];
        let inner = &mut self.inners[id as usize];
        let before = inner.block_bytes();
        if inner.insert(index, separator, right.to_le_bytes()) {
            self.block_bytes = self.block_bytes + inner.block_bytes() - before;
            return true;
        }
        let at = if inner.is_stream(index) && index == inner.count() { index - 1 } else { inner.middle() };
        let mut promoted = Vec::with_capacity(KEY_BYTES_MAX);
        inner.key_into(at, &mut promoted);
        let middle = u32::from_le_bytes(inner.value(at));
        let new = self.take_inner();
        if !self.insert_separator(path, above, &promoted, new) {
            self.free_inners.push(new);
            return false;
        }
        let inner = &mut self.inners[id as usize];
        let before = inner.block_bytes();
        let upper = inner.split_off(at + 1, middle);
        inner.truncate(at);
        self.block_bytes = self.block_bytes + inner.block_bytes() + upper.block_bytes() - before;
        self.inners[new as usize] = upper;
        false
    }

    /// The number of an inner node that is not in the tree.
    fn take_inner(&mut self) -> u32 {
        self.free_inners.pop().unwrap_or_else(|| {
            self.inners.push(Inner::new(NONE));
            node_number(self.inners.len() - 1)
        })
    }

    fn grow_root(&mut self, separator: &[u8], right: u32) {
        assert!(self.height < LEVELS_MAX);
        let mut root = Inner::new(self.root);
        assert!(root.insert(0, separator, right.to_le_bytes()), "an empty node has room");
        self.block_bytes += root.block_bytes();
        self.root = self.take_inner();
        self.inners[self.root as usize] = root;
        self.height += 1;
    }

    /// Joins a leaf that has become small with a neighbour under the same parent, if both fit one leaf.
    fn join_leaf(&mut self, path: &Path) {
        let (parent, index) = path.steps[self.height - 1];
        let inner = &mut self.inners[parent as usize];
        if inner.count() == 0 {
            return;
        }
        let left_index = index.saturating_sub(1);
        let (left, right) = (child(inner, left_index), child(inner, left_index + 1));
        let (left_leaf, right_leaf) = (&self.leaves[left as usize], &self.leaves[right as usize]);
        let Some(joined) = Leaf::joined(left_leaf, right_leaf, right_leaf.link) else {
            return;
        };
        let before = left_leaf.block_bytes() + right_leaf.block_bytes();
        inner.remove(left_index);
        self.block_bytes = self.block_bytes + joined.block_bytes() - before;
        self.leaves[left as usize] = joined;
        self.leaves[right as usize] = Leaf::new(NONE);
        self.free_leaves.push(right);
        while self.height > 0 && self.inners[self.root as usize].count() == 0 {
            let root = &mut self.inners[self.root as usize];
            let only = root.link;
            self.block_bytes -= root.block_bytes();
            *root = Inner::new(NONE);
            self.free_inners.push(self.root);
            self.root = only;
            self.height -= 1;
        }
    }
}

/// Which child of `inner` has `key`: the one right of the last separator at or below it.
fn child_index(inner: &Inner, key: &[u8]) -> usize {
    match inner.find(key) {
        Ok(index) => index + 1,
        Err(index) => index,
    }
}

fn child(inner: &Inner, index: usize) -> u32 {
    match index.checked_sub(1) {
        None => inner.link,
        Some(separator) => u32::from_le_bytes(inner.value(separator)),
    }
}

fn node_number(count: usize) -> u32 {
    u32::try_from(count).expect("2^32 nodes of the delta are more than any memory")
}

#[cfg(test)]
mod tests;
