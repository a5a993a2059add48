//! Entries on a walk, each by the directory above it: with a path each, a tree would take memory by the square of its depth.

use super::Remote;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// An entry by its name and the directory that holds it.
pub(super) struct Link {
    above: Option<Arc<Self>>,
    /// Of the entry that the caller has named, its path.
    pub(super) name: Box<[u8]>,
    /// A removal leaves it: it, or something below it, could not be removed.
    stays: AtomicBool,
}

impl Link {
    /// The entry that the caller has named.
    pub(super) fn root(path: &[u8]) -> Arc<Self> {
        Arc::new(Self { above: None, name: path.into(), stays: AtomicBool::new(false) })
    }

    /// An entry of the directory `above`.
    pub(super) fn below(above: &Arc<Self>, name: Box<[u8]>) -> Arc<Self> {
        Arc::new(Self { above: Some(Arc::clone(above)), name, stays: AtomicBool::new(false) })
    }

    /// Costs by depth: only for what somebody is told.
    pub(super) fn path(&self) -> Remote {
        let names: Vec<&[u8]> = self.upwards().map(|link| &*link.name).collect();
        let mut path = Remote::new();
        for name in names.into_iter().rev() {
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path
    }

    /// Notes that it stays, and with it all directories above it.
    pub(super) fn keep(&self) {
        // Above one that stays, all do.
        let _above = self.upwards().find(|link| link.stays.swap(true, Ordering::Relaxed));
    }

    pub(super) fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    /// It, and the directories above it.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        core::iter::successors(Some(self), |link| link.above.as_deref())
    }
}

impl Drop for Link {
    /// One after the other: a tree may be deeper than a stack.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut last) = above.and_then(Arc::into_inner) {
            above = last.above.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_that_of_the_root_and_what_stays_keeps_what_is_above() {
        for (root, path) in [("", "a/b"), ("/", "/a/b"), ("t", "t/a/b"), ("/t/", "/t/a/b")] {
            let root = Link::root(root.as_bytes());
            let a = Link::below(&root, (*b"a").into());
            let (b, c) = (Link::below(&a, (*b"b").into()), Link::below(&a, (*b"c").into()));
            assert_eq!(b.path(), path.as_bytes());
            assert!(!root.stays());
            b.keep();
            assert_eq!([&root, &a, &b, &c].map(|link| link.stays()), [true, true, true, false]);
        }
    }

    #[test]
    fn a_chain_that_is_deeper_than_a_stack_is_dropped() {
        let down = |above: Arc<Link>, _| Link::below(&above, (*b"d").into());
        let last = (0..1_000_000).fold(Link::root(b"/"), down);
        assert_eq!(last.path().len(), 2_000_000);
    }
}
