//! Directories by the text of their path: what makes an operation on `/a/b/c` one lookup, not three.
//!
//! Invariants: an entry is used only in the generation in which its walk began. Whatever can make a path lead
//! elsewhere (a directory or symbolic link renamed, replaced or removed by this mount) begins a new one.
//! Mounts that share a container with others do not use the cache.

use crate::node::Node;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_types::Oid;
use hashbrown::{DefaultHashBuilder, Equivalent, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// Directories kept: at some 300 bytes each, with their nodes, below 20 MiB.
const ENTRIES_MAX: usize = 65_536;
const SHARDS: usize = 16;

#[derive(PartialEq, Eq, Hash, Debug)]
struct OwnedPath {
    from: Oid,
    path: Box<[u8]>,
}

#[derive(Hash)]
struct PathRef<'a> {
    from: Oid,
    path: &'a [u8],
}

impl Equivalent<OwnedPath> for PathRef<'_> {
    fn equivalent(&self, key: &OwnedPath) -> bool {
        self.from == key.from && self.path == &*key.path
    }
}

/// What a generation number stands for: all paths walked in it led to the same directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation(u64);

type Shard = HashMap<OwnedPath, (Generation, Arc<Node>)>;

#[derive(Debug)]
pub(crate) struct Paths {
    generation: AtomicU64,
    /// Nothing is kept any more.
    closed: AtomicBool,
    hasher: DefaultHashBuilder,
    /// Guards: one shard each; no other lock is taken under it.
    shards: [RwLock<Shard>; SHARDS],
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            hasher: DefaultHashBuilder::default(),
            shards: core::array::from_fn(|_| RwLock::default()),
        }
    }
}

impl Paths {
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Forgets everything, also what walks now under way will find.
    pub(crate) fn forget_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn shard(&self, key: &PathRef<'_>) -> &RwLock<Shard> {
        let hash = self.hasher.hash_one(key).to_le_bytes();
        &self.shards[usize::from(hash[0]) % SHARDS]
    }

    pub(crate) fn find(&self, from: Oid, path: &[u8]) -> Option<Arc<Node>> {
        let key = PathRef { from, path };
        let shard = self.shard(&key).read().unwrap_or_else(PoisonError::into_inner);
        let (generation, node) = shard.get(&key)?;
        (*generation == self.generation()).then(|| Arc::clone(node))
    }

    /// Keeps `node` as what `path` led to in a walk that began in `generation`.
    pub(crate) fn keep(&self, from: Oid, path: &[u8], generation: Generation, node: &Arc<Node>) {
        let key = PathRef { from, path };
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let mut shard = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        let dropped =
            if shard.len() >= ENTRIES_MAX / SHARDS { core::mem::take(&mut *shard) } else { Shard::new() };
        let replaced = shard.insert(OwnedPath { from, path: path.into() }, (generation, Arc::clone(node)));
        drop(shard);
        // Nodes that die here record their times, which must not happen under the lock.
        drop((dropped, replaced));
    }

    /// Drops all nodes for good: they hold their mount, which holds this.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.forget_all();
        for shard in &self.shards {
            let dropped = core::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            drop(dropped);
        }
    }
}
