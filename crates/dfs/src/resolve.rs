//! From a path to an entry.

mod moved;

use crate::access::{Cred, Rights, check_dir};
use crate::error::{Error, Result, What};
use crate::layout::inode::{FileKind, Inode};
use crate::mount::Mount;
use crate::node::{Home, Node, Slot};
use crate::path::{Step, Walk, check_name, split};
use dolmen_client::At;
use std::sync::Arc;

/// Where a resolution begins, and on whose behalf.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) dir: &'a Arc<Node>,
    pub(crate) cred: Option<&'a Cred>,
}

/// Whether a symbolic link in the last place of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// What it points to is meant.
    Yes,
    /// The link itself is meant.
    No,
}

/// An entry that a path led to.
#[derive(Debug)]
pub(crate) struct Found {
    /// The directory that holds the entry; `None` if the path ended in the root, `.` or `..`.
    pub(crate) dir: Option<Arc<Node>>,
    /// The entry.
    pub(crate) slot: Slot,
    /// Its record; of a linked file the attributes are in the companion.
    pub(crate) inode: Inode,
    /// Removals begun before the record was read, if all had ended: see `Mount::dir_node`.
    pub(crate) quiet: Option<u64>,
}

/// Attempts before a path that others keep moving is given up.
pub(crate) const STALE_RETRIES: u32 = 64;
/// Looks at what this mount is moving before they are given up: whoever moves it may wait for a disk meanwhile.
pub(crate) const LOOKS_MAX: u32 = 10_000;

impl Start<'_> {
    fn mount(&self) -> &Arc<Mount> {
        &self.dir.mount
    }

    /// The entry at `path`.
    pub(crate) fn find(&self, path: &[u8], follow: Follow) -> Result<Found> {
        while_stale(|| self.find_once(path, follow))
    }

    fn find_once(&self, path: &[u8], follow: Follow) -> Result<Found> {
        let (parent, name, slash) = split(path)?;
        if check_name(name) == Err(Error::NameTooLong) {
            return Err(Error::NameTooLong);
        }
        if slash || check_name(name).is_err() {
            return self.descend(Arc::clone(self.dir), &mut Walk::new(path)?, follow);
        }
        let dir = self.dir_at(parent)?;
        check_dir(self.cred, &dir, Rights::EXECUTE)?;
        let slot = Slot::new(dir.oid, name);
        let quiet = self.mount().removals.quiet();
        let inode = self.mount().inode(At::Latest, &slot)?.ok_or(Error::NotFound)?;
        if inode.kind != FileKind::Symlink || follow == Follow::No {
            return Ok(Found { dir: Some(dir), slot, inode, quiet });
        }
        let mut walk = Walk::new(name)?;
        walk.step()?;
        walk.follow(&self.mount().target(At::Latest, &slot, &inode)?)?;
        self.descend(dir, &mut walk, follow)
    }

    /// The directory that `path` leads to; an empty path leads to the start.
    pub(crate) fn dir_at(&self, path: &[u8]) -> Result<Arc<Node>> {
        if path.is_empty() {
            return Ok(Arc::clone(self.dir));
        }
        let mount = self.mount();
        let from = if path[0] == b'/' { mount.root_oid } else { self.dir.oid };
        // Who is checked must pass through each directory, so takes no short cut.
        let cached = self.cred.is_none() && mount.caches_paths();
        if cached && let Some(node) = mount.paths.find(from, path) {
            return Ok(node);
        }
        let (generation, node) = while_stale(|| {
            let generation = mount.paths.generation();
            let found = self.descend(Arc::clone(self.dir), &mut Walk::new(path)?, Follow::Yes)?;
            Ok((generation, self.as_dir(&found)?))
        })?;
        if cached {
            mount.paths.keep(from, path, generation, &node);
        }
        Ok(node)
    }

    /// The node of a directory that was found.
    pub(crate) fn as_dir(&self, found: &Found) -> Result<Arc<Node>> {
        if !found.inode.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.mount().dir_node(found.dir.as_ref(), &found.slot, &found.inode, found.quiet)
    }

    /// Follows what is left of `walk` from `at`.
    pub(crate) fn descend(&self, mut at: Arc<Node>, walk: &mut Walk, follow: Follow) -> Result<Found> {
        loop {
            let quiet = self.mount().removals.quiet();
            let name = match walk.step()? {
                Step::Root => {
                    at = self.mount().root_node()?;
                    continue;
                }
                Step::Up => {
                    check_dir(self.cred, &at, Rights::EXECUTE)?;
                    at = at.parent().unwrap_or(at);
                    continue;
                }
                Step::Done => {
                    let slot = at.slot();
                    let inode = self.mount().inode(At::Latest, &slot)?;
                    let inode = inode.filter(|inode| inode.oid == at.oid).ok_or(Error::NotFound)?;
                    return Ok(Found { dir: at.parent(), slot, inode, quiet });
                }
                Step::Down(name) => name,
            };
            check_dir(self.cred, &at, Rights::EXECUTE)?;
            let slot = Slot::new(at.oid, name);
            let inode = self.mount().inode(At::Latest, &slot)?.ok_or(Error::NotFound)?;
            let (last, needs_dir) = (walk.is_last(), walk.needs_dir());
            match inode.kind {
                FileKind::Symlink if !last || needs_dir || follow == Follow::Yes => {
                    walk.follow(&self.mount().target(At::Latest, &slot, &inode)?)?;
                }
                FileKind::Directory if !last => {
                    at = self.mount().dir_node(Some(&at), &slot, &inode, quiet)?;
                }
                kind if needs_dir && kind != FileKind::Directory => return Err(Error::NotDirectory),
                _ => return Ok(Found { dir: Some(at), slot, inode, quiet }),
            }
        }
    }

    /// Runs `operation` on the directory and name that `path` ends in; again when they moved meanwhile.
    ///
    /// The name may be empty, `.` or `..`: `check_name` tells.
    pub(crate) fn in_parent<T>(
        &self,
        path: &[u8],
        operation: impl Fn(&Arc<Node>, &[u8], bool) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..STALE_RETRIES {
            match self.in_parent_once(path, &operation) {
                Err(Error::Stale) => self.mount().paths.forget_all(),
                other => return other,
            }
        }
        Err(Error::Stale)
    }

    /// As `in_parent`, for callers that begin again themselves.
    pub(crate) fn in_parent_once<T>(
        &self,
        path: &[u8],
        operation: impl FnOnce(&Arc<Node>, &[u8], bool) -> Result<T>,
    ) -> Result<T> {
        let (parent, name, slash) = split(path)?;
        let dir = self.dir_at(parent)?;
        check_dir(self.cred, &dir, Rights::EXECUTE)?;
        operation(&dir, name, slash)
    }
}

/// Runs `walk` until it meets no entry that moves while it is looked at.
pub(crate) fn while_stale<T>(mut walk: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..STALE_RETRIES {
        match walk() {
            Err(Error::Stale) => {}
            other => return other,
        }
    }
    Err(Error::Contended)
}

impl Mount {
    /// The node of the directory whose record `inode` was read after `quiet` in `slot`, an entry of `parent`;
    /// `Stale` if the entry has changed since.
    ///
    /// A rename sets the home of nodes it finds under the entry's stripe. One that came between the reading
    /// of the record and the node would leave a node with a home that is no more: then the entry is read again,
    /// under the stripe.
    pub(crate) fn dir_node(
        self: &Arc<Self>,
        parent: Option<&Arc<Node>>,
        slot: &Slot,
        inode: &Inode,
        quiet: Option<u64>,
    ) -> Result<Arc<Node>> {
        let home = || Home { slot: slot.clone(), parent: parent.cloned() };
        let (node, made) = self.nodes.find_or_add(inode.oid, || Node::new(self, inode, home()));
        let known = made || node.is_at(slot);
        if known && (self.removals.none_since(quiet) || self.is_read_only()) {
            // Also if another mount had moved it away meanwhile.
            node.set_found();
            return Ok(node);
        }
        let stripe = self.stripes.hold(slot);
        match self.inode(At::Latest, slot)? {
            Some(now) if now.oid == inode.oid => {
                node.set_home(home());
                // Owner and mode may have changed before the node was in the table.
                node.refresh(&now);
            }
            _ => return Err(Error::Stale),
        }
        drop(stripe);
        Ok(node)
    }

    /// The root directory's node.
    pub(crate) fn root_node(self: &Arc<Self>) -> Result<Arc<Node>> {
        if let Some(node) = self.nodes.find(self.root_oid) {
            return Ok(node);
        }
        let (quiet, slot) = (self.removals.quiet(), self.root_slot());
        let inode = self.inode(At::Latest, &slot)?.ok_or(Error::NotFormatted)?;
        self.dir_node(None, &slot, &inode, quiet)
    }
}

/// Refuses names that no entry can have, with the error that the caller's system call has for them.
pub(crate) fn entry_name(name: &[u8], for_dots: Error) -> Result<()> {
    match check_name(name) {
        Err(Error::Invalid(What::Name)) if name.is_empty() || name == b"." || name == b".." => Err(for_dots),
        other => other,
    }
}
