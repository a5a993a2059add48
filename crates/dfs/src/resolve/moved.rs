//! Directories in use that another mount has moved (docs/decisions/0020-posix.md).
//!
//! A directory's record is in its entry, and nothing in the directory says where that is. So it is looked for where it was, under another
//! name, and in the other directories that are in use here, which are those that this mount's programs work in. It is that directory if
//! its record is found there: what then changes it, or adds to it, looks at that record as ever.
//!
//! Invariants: a node's home is moved only to where its record was just seen, under the lock of that entry; a search has a limit, and one
//! that was in vain is not made again until the directory is found by a path.

use crate::error::{Error, Result};
use crate::layout::inode::{FileKind, Inode};
use crate::mount::Mount;
use crate::node::{Home, Node, Slot};
use crate::rename::DEPTH_MAX;
use dolmen_client::{At, Page, Way, side_by_side};
use dolmen_types::Anchor;
use std::sync::Arc;

/// Names that are looked at in all: more cost longer than who waits for them would look himself.
const NAMES_MAX: usize = 4096;
/// Names that are asked for at once, and room for them.
const PAGE: Page = Page { items_max: 256, bytes_max: 256 << 10 };

impl Mount {
    /// Runs `operation` in a directory, and again if that was moved and is found.
    pub(crate) fn in_dir<T>(&self, dir: &Node, operation: impl Fn() -> Result<T>) -> Result<T> {
        match operation() {
            Err(Error::Stale) if self.finds_moved(dir)? => operation(),
            other => other,
        }
    }

    /// Whether a directory that is not where it was is found elsewhere; then its home is there. Also if it is where it was.
    pub(crate) fn finds_moved(&self, dir: &Node) -> Result<bool> {
        if dir.kind != FileKind::Directory || dir.is_removed() || !self.is_shared() || dir.was_sought() {
            return Ok(false);
        }
        let home = dir.home();
        match self.check_names(At::Latest, &home.slot, dir.oid) {
            Err(Error::Stale) => {}
            other => return other.map(|()| true),
        }
        let mut left = NAMES_MAX;
        for within in self.places(&home) {
            if self.seek_in(dir, &within, &mut left)? {
                return Ok(true);
            }
        }
        dir.note_sought();
        Ok(false)
    }

    /// The same of it and all above it.
    pub(crate) fn finds_moved_above(&self, dir: &Arc<Node>) -> Result<()> {
        above(dir).try_for_each(|dir| self.finds_moved(&dir).map(drop))
    }

    /// Where it may be: first where it was.
    fn places(&self, home: &Home) -> Vec<Arc<Node>> {
        let was_in = home.parent.as_ref().map(|parent| parent.oid);
        let mut places = self.nodes.live();
        places.retain(|node| node.kind == FileKind::Directory && !node.is_removed());
        places.sort_unstable_by_key(|node| (Some(node.oid) != was_in, node.oid));
        places
    }

    /// Looks for it in one directory.
    fn seek_in(&self, dir: &Node, within: &Arc<Node>, left: &mut usize) -> Result<bool> {
        let (object, mut anchor) = (self.object(within.oid)?, Anchor::default());
        while *left > 0 && !anchor.is_eof() {
            let names = object.list_dkeys(At::Latest, &mut anchor, PAGE)?;
            let slots: Vec<Slot> = names.iter().map(|name| Slot::new(within.oid, name)).collect();
            *left = left.saturating_sub(slots.len().max(1));
            let looks = slots.iter().map(async |slot| self.inode_by(Way::Later, At::Latest, slot).await);
            let looked = self.container.together(side_by_side(looks));
            // What is damaged is not it.
            let is_it =
                |looked: &Result<Option<Inode>>| matches!(looked, Ok(Some(inode)) if inode.oid == dir.oid);
            if let Some((slot, _)) = slots.iter().zip(&looked).find(|(_, looked)| is_it(looked)) {
                return self.settle_in(dir, within, slot);
            }
        }
        Ok(false)
    }

    /// It is in that entry, if it is there still. Whoever holds the lock of the entry changes it, and says so himself.
    fn settle_in(&self, dir: &Node, within: &Arc<Node>, slot: &Slot) -> Result<bool> {
        // What is known of the way up from there may be of the past, and lead back here.
        if above(within).any(|node| node.oid == dir.oid) {
            return Ok(false);
        }
        let Some(stripe) = self.stripes.try_hold(slot) else { return Ok(false) };
        let is_there = self.check_names(At::Latest, slot, dir.oid);
        if is_there.is_ok() {
            dir.set_home(Home { slot: slot.clone(), parent: Some(Arc::clone(within)) });
        }
        drop(stripe);
        match is_there {
            Err(Error::Stale) => Ok(false),
            other => other.map(|()| true),
        }
    }
}

/// It and what is above it, as far as this mount knows.
fn above(dir: &Arc<Node>) -> impl Iterator<Item = Arc<Node>> {
    core::iter::successors(Some(Arc::clone(dir)), |dir| dir.parent()).take(DEPTH_MAX)
}
