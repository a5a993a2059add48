//! Rename and hard links: what changes two entries at once, each one transaction.

use crate::access::{Cred, Rights, check_add, check_remove, check_remove_damaged};
use crate::dir::Dir;
use crate::error::{Error, Result, What};
use crate::file::without_rights;
use crate::layout::inode::{FileKind, Inode};
use crate::layout::link_count::LinkCount;
use crate::layout::{self, LINKS_MAX};
use crate::mount::Mount;
use crate::node::{Home, Node, Removing, Slot};
use crate::opens::Leaving;
use crate::resolve::{Follow, STALE_RETRIES, entry_name};
use crate::store::{Extra, bad_record};
use dolmen_client::At;
use dolmen_types::{Epoch, Oid};
use std::sync::{Arc, PoisonError};

/// What happens to an entry that has the new name already, as the flags of renameat2(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// It is replaced: a file by a file, an empty directory by a directory.
    Replace,
    /// The rename fails with `Exists`.
    NoReplace,
    /// It gets the old name; both must exist.
    Exchange,
}

/// Directories between one and the root: more do not fit a path.
pub(crate) const DEPTH_MAX: usize = crate::layout::PATH_BYTES_MAX;

/// How long a rename goes on where others change the same entries: a program does not expect to be told to try again.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How often at most, for who has a clock that stands still: what takes two milliseconds or more each ends by the time.
const ROUNDS_MAX: u32 = 10_000;

/// One side of a rename.
struct Side<'a> {
    dir: &'a Arc<Node>,
    slot: Slot,
    /// A slash followed the name: it must be a directory.
    slash: bool,
}

impl<'a> Side<'a> {
    fn new(dir: &'a Arc<Node>, name: &[u8], slash: bool) -> Result<Self> {
        entry_name(name, Error::Invalid(What::Name))?;
        Ok(Self { dir, slot: Slot::new(dir.oid, name), slash })
    }
}

/// Which of those that a rename moves others have open: their records go to where whoever has them open looks for them.
#[derive(Clone, Copy, Default)]
struct Elsewhere {
    source: bool,
    victim: bool,
}

/// What came of a rename.
#[derive(Clone, Copy, Default)]
struct Renamed {
    /// The last name of the victim went.
    gone: bool,
    /// What has its record beside its names now.
    beside: Elsewhere,
}

/// What a rename found before its transaction, and locks by.
struct Seen {
    source: Inode,
    victim: Option<Inode>,
    /// The new name is that of an entry whose record is damaged.
    damaged: bool,
}

impl Dir {
    /// Renames the entry `old` to `new` in `new_dir`, atomically, also over a crash. An entry whose record is damaged is
    /// replaced whatever it was, and what it named is left to [`Dfs::check`](crate::Dfs::check).
    ///
    /// # Errors
    /// `NotFound`; `Exists` for `NoReplace`; `Invalid(Cycle)` for a directory below itself; `IsDirectory`,
    /// `NotDirectory`, `NotEmpty` for what cannot be replaced; `NoPermission`, `NotPermitted`, `ReadOnly`; `Contended` if
    /// others have changed the same entries for 30 s.
    pub fn rename(
        &self,
        old: impl AsRef<[u8]>,
        new_dir: &Self,
        new: impl AsRef<[u8]>,
        mode: RenameMode,
    ) -> Result<()> {
        self.mount().check_writable()?;
        if !Arc::ptr_eq(self.mount(), new_dir.mount()) {
            return Err(Error::CrossMount);
        }
        let mut rounds = 0;
        let end_ns = self.mount().monotonic_ns().saturating_add(PATIENCE_NS);
        loop {
            let done = self.start().in_parent_once(old.as_ref(), |from_dir, from_name, from_slash| {
                new_dir.start().in_parent_once(new.as_ref(), |to_dir, to_name, to_slash| {
                    let from = Side::new(from_dir, from_name, from_slash)?;
                    let to = Side::new(to_dir, to_name, to_slash)?;
                    self.rename_entry(&from, &to, mode)
                })
            });
            rounds += 1;
            match done {
                Err(Error::Stale | Error::Contended)
                    if rounds < ROUNDS_MAX && self.mount().monotonic_ns() < end_ns =>
                {
                    self.mount().paths.forget_all();
                    if done == Err(Error::Stale) {
                        self.mount().finds_moved_above(&self.node)?;
                        self.mount().finds_moved_above(&new_dir.node)?;
                    }
                    dolmen_env::yield_now();
                }
                Err(Error::Stale) => return Err(Error::Contended),
                other => return other,
            }
        }
    }

    fn rename_entry(&self, from: &Side<'_>, to: &Side<'_>, mode: RenameMode) -> Result<()> {
        let mount = self.mount();
        let quiet = mount.removals.quiet();
        let source = mount.inode(At::Latest, &from.slot)?.ok_or(Error::NotFound)?;
        let (victim, damaged) = mount.victim(At::Latest, &to.slot)?;
        let seen = Seen { source, victim, damaged };
        self.check_rename(from, to, &seen, mode)?;
        if from.slot == to.slot {
            return Ok(());
        }
        let moves_dir = seen.source.is_dir() || seen.victim.is_some_and(|victim| victim.is_dir());
        let whole = moves_dir || mode == RenameMode::Exchange;
        let tree = whole.then(|| mount.tree.lock().unwrap_or_else(PoisonError::into_inner));
        let replaced = seen.victim.filter(|_| mode == RenameMode::Replace);
        let victim_node = match replaced {
            Some(victim) if victim.is_dir() => {
                Some(mount.dir_node(Some(to.dir), &to.slot, &victim, quiet)?)
            }
            Some(victim) => mount.nodes.find(victim.oid),
            None => seen.victim.and_then(|victim| mount.nodes.find(victim.oid)),
        };
        let (removal, alone) = (mount.removals.begin(), mount.alone());
        let gates = Gates::hold(
            from.dir,
            to.dir,
            mode,
            victim_node.as_ref().filter(|_| replaced.is_some_and(|victim| victim.is_dir())),
        );
        if gates.closed(from.dir, to.dir, mode) {
            return Err(Error::NotFound);
        }
        to.dir.check_there()?;
        let stripes = mount.stripes.hold_both(&from.slot, &to.slot);
        let source_node = mount.nodes.find(seen.source.oid);
        // A file opened since is in the table now; it stays until its opener has looked at the entry again.
        let late = replaced.filter(|_| victim_node.is_none()).and_then(|victim| mount.nodes.find(victim.oid));
        let victim_node = victim_node.as_ref().or(late.as_ref());
        let removing = victim_node.filter(|_| replaced.is_some()).cloned().map(Removing::new);
        let is_open = removing.as_ref().is_some_and(|removing| removing.is_open);
        let mut leaving = Leaving::default();
        let renamed = mount.opened_elsewhere(&seen, mode).and_then(|elsewhere| {
            let how = (mode, is_open, elsewhere);
            mount.transact(|tx| mount.rename_in(At::Tx(tx), from, to, &seen, how, &mut leaving))
        });
        if let Ok(Renamed { gone, beside }) = renamed {
            if let Some(victim) = &seen.victim {
                leaving.settle(mount, victim.oid);
            }
            if let Some(node) = &source_node {
                mount.moved(node, (&seen.source, beside.source), to);
            }
            if mode == RenameMode::Exchange
                && let (Some(node), Some(victim)) = (victim_node, &seen.victim)
            {
                mount.moved(node, (victim, beside.victim), from);
            } else {
                removing.filter(|_| gone).into_iter().for_each(Removing::settle);
            }
        }
        drop((stripes, gates, removal, tree, alone));
        renamed?;
        let links = |inode: &Inode| inode.kind != FileKind::File;
        if links(&seen.source) || damaged || seen.victim.as_ref().is_some_and(links) {
            mount.paths.forget_all();
        }
        mount.touch(from.dir);
        mount.touch(to.dir);
        Ok(())
    }

    /// The checks that need no look at the tree.
    fn check_rename(&self, from: &Side<'_>, to: &Side<'_>, seen: &Seen, mode: RenameMode) -> Result<()> {
        let cred = self.cred.as_deref();
        let Seen { source, victim, damaged } = seen;
        if from.slash && !source.is_dir() || to.slash && !source.is_dir() && mode != RenameMode::Exchange {
            return Err(Error::NotDirectory);
        }
        match (mode, victim) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::NoReplace, None) if *damaged => return Err(Error::Exists),
            (RenameMode::Exchange, None) if *damaged => return Err(bad_record(&to.slot)),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            (RenameMode::Exchange, Some(victim)) if to.slash && !victim.is_dir() => {
                return Err(Error::NotDirectory);
            }
            _ => {}
        }
        check_remove(cred, from.dir, &self.mount().owned(&from.slot, source)?)?;
        match victim {
            Some(victim) => check_remove(cred, to.dir, &self.mount().owned(&to.slot, victim)?)?,
            None if *damaged => check_remove_damaged(cred, to.dir)?,
            None => check_add(cred, to.dir)?,
        }
        let moved = from.dir.oid != to.dir.oid;
        let movers = [Some(source), victim.as_ref().filter(|_| mode == RenameMode::Exchange)];
        for dir in movers.into_iter().flatten().filter(|inode| moved && inode.is_dir()) {
            // A moved directory's `..` changes.
            let slot = if dir.oid == source.oid { &from.slot } else { &to.slot };
            self.mount().check(cred, slot, dir, Rights::WRITE)?;
        }
        Ok(())
    }

    /// Gives the file at `old` another name. A symbolic link at `old` is not followed.
    ///
    /// On the second name the file's attributes move to its companion object; see the crate's documentation.
    ///
    /// # Errors
    /// `NotPermitted` for a directory or symbolic link, and for what is another's unless it is a file that the caller may read and write
    /// and that lends nobody's rights; `Exists`, `NotFound`, `TooManyLinks`, `NoPermission`, `ReadOnly`.
    pub fn link(&self, old: impl AsRef<[u8]>, new_dir: &Self, new: impl AsRef<[u8]>) -> Result<()> {
        self.mount().check_writable()?;
        if !Arc::ptr_eq(self.mount(), new_dir.mount()) {
            return Err(Error::CrossMount);
        }
        for _ in 0..STALE_RETRIES {
            let source = self.start().find(old.as_ref(), Follow::No)?;
            if !source.inode.kind.has_links() {
                return Err(Error::NotPermitted);
            }
            let done = new_dir.start().in_parent_once(new.as_ref(), |dir, name, slash| {
                entry_name(name, Error::Exists)?;
                let to = Slot::new(dir.oid, name);
                check_add(new_dir.cred.as_deref(), dir)?;
                if let Some(cred) = self.cred.as_deref().filter(|cred| !cred.is_root()) {
                    let (inode, _, home) =
                        self.mount().attributes(At::Latest, &source.slot, &source.inode)?;
                    self.mount().check_link_source(cred, &home, &inode)?;
                }
                if slash {
                    let taken = self.mount().inode(At::Latest, &to)?.is_some();
                    return Err(if taken { Error::Exists } else { Error::NotFound });
                }
                self.mount().link(&source.slot, source.inode.oid, dir, &to)
            });
            match done {
                Err(Error::Stale) => {
                    self.mount().paths.forget_all();
                    self.mount().finds_moved(&new_dir.node)?;
                }
                other => return other,
            }
        }
        Err(Error::Contended)
    }
}

/// The gates that a rename holds: shared of the directories that get an entry, exclusive of one replaced.
struct Gates<'a> {
    shared: [Option<std::sync::RwLockReadGuard<'a, ()>>; 2],
    replaced: Option<std::sync::RwLockWriteGuard<'a, ()>>,
}

impl<'a> Gates<'a> {
    fn hold(from: &'a Node, to: &'a Node, mode: RenameMode, replaced: Option<&'a Arc<Node>>) -> Self {
        let read = |node: &'a Node| Some(node.gate.read().unwrap_or_else(PoisonError::into_inner));
        let shared = match mode {
            RenameMode::Exchange if from.oid < to.oid => [read(from), read(to)],
            RenameMode::Exchange if from.oid > to.oid => [read(to), read(from)],
            _ => [read(to), None],
        };
        let not_held = |node: &&'a Arc<Node>| node.oid != to.oid;
        let replaced = replaced.filter(not_held);
        let replaced = replaced.map(|node| node.gate.write().unwrap_or_else(PoisonError::into_inner));
        Self { shared, replaced }
    }

    /// Whether a directory that would get an entry was removed.
    fn closed(&self, from: &Node, to: &Node, mode: RenameMode) -> bool {
        assert!(self.shared[0].is_some(), "a rename adds at least one entry");
        assert!(self.replaced.is_none() || mode == RenameMode::Replace);
        to.is_removed() || (mode == RenameMode::Exchange && from.is_removed())
    }
}

impl Mount {
    /// Checks that a caller who is not root may give what `inode` in `home` says another name, as Linux's protected links: a name
    /// counts for the owner of a file, and keeps a program with his rights where he cannot remove it.
    pub(crate) fn check_link_source(&self, cred: &Cred, home: &Slot, inode: &Inode) -> Result<()> {
        if cred.uid == inode.uid {
            return Ok(());
        }
        let lends_rights = without_rights(inode.permissions) != inode.permissions;
        if inode.kind != FileKind::File || lends_rights {
            return Err(Error::NotPermitted);
        }
        self.check(Some(cred), home, inode, Rights::READ.and(Rights::WRITE)).map_err(|error| match error {
            Error::NoPermission => Error::NotPermitted,
            other => other,
        })
    }

    /// The record of the entry that a rename replaces, if there is one, and whether it is damaged.
    fn victim(&self, at: At<'_>, slot: &Slot) -> Result<(Option<Inode>, bool)> {
        match self.inode(at, slot) {
            Err(error) if error.is_damage() => Ok((None, true)),
            other => Ok((other?, false)),
        }
    }

    /// Which of those that a rename moves others have open, as far as anybody knows.
    fn opened_elsewhere(&self, seen: &Seen, mode: RenameMode) -> Result<Elsewhere> {
        let is_open = |inode: &Inode| match inode.kind == FileKind::File && !inode.linked {
            true => self.is_held_elsewhere(inode.oid),
            false => Ok(false),
        };
        let exchanged = seen.victim.filter(|_| mode == RenameMode::Exchange);
        let victim = exchanged.as_ref().map_or(Ok(false), is_open)?;
        Ok(Elsewhere { source: is_open(&seen.source)?, victim })
    }

    /// The transaction of a rename.
    fn rename_in<'a>(
        &'a self,
        at: At<'_>,
        from: &Side<'_>,
        to: &Side<'_>,
        seen: &Seen,
        (mode, victim_open, elsewhere): (RenameMode, bool, Elsewhere),
        leaving: &mut Leaving<'a>,
    ) -> Result<Renamed> {
        let source = self.inode(at, &from.slot)?.ok_or(Error::Stale)?;
        let (victim, damaged) = self.victim(at, &to.slot)?;
        let is_same = victim.map(|v| v.oid) == seen.victim.map(|v| v.oid) && damaged == seen.damaged;
        if source.oid != seen.source.oid || !is_same {
            return Err(Error::Stale);
        }
        if self.is_shared() {
            self.check_alive(at, to.dir)?;
        }
        if source.is_dir() && from.dir.oid != to.dir.oid {
            self.check_not_below(at, to.dir, source.oid)?;
        }
        let extras = self.extras(at, &from.slot)?;
        if mode == RenameMode::Exchange {
            let victim = victim.ok_or(Error::NotFound)?;
            if victim.is_dir() && from.dir.oid != to.dir.oid {
                self.check_not_below(at, from.dir, victim.oid)?;
            }
            let victim_extras = self.extras(at, &to.slot)?;
            self.punch_entry(at, &from.slot)?;
            let victim = self.put_moved(at, &from.slot, (&victim, elsewhere.victim), &victim_extras)?;
            self.punch_entry(at, &to.slot)?;
            let source = self.put_moved(at, &to.slot, (&source, elsewhere.source), &extras)?;
            return Ok(Renamed { gone: false, beside: Elsewhere { source, victim } });
        }
        let mut gone = false;
        if let Some(victim) = victim {
            if victim.oid == source.oid {
                // Two names of one file: both stay.
                return Ok(Renamed::default());
            }
            match (source.is_dir(), victim.is_dir()) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.is_empty(at, victim.oid)? => return Err(Error::NotEmpty),
                _ => {}
            }
            gone = self.drop_name(at, &to.slot, &victim, victim_open, leaving)?;
        }
        self.punch_entry(at, &from.slot)?;
        if victim.is_some() || damaged {
            self.punch_entry(at, &to.slot)?;
        }
        let source = self.put_moved(at, &to.slot, (&source, elsewhere.source), &extras)?;
        Ok(Renamed { gone, beside: Elsewhere { source, victim: false } })
    }

    /// Writes a renamed entry; the change time of what it names is now. Whether the record of what others have open has gone beside
    /// its names.
    fn put_moved(
        &self,
        at: At<'_>,
        slot: &Slot,
        (inode, is_open_elsewhere): (&Inode, bool),
        extras: &[Extra],
    ) -> Result<bool> {
        let now = self.now();
        let changed =
            |inode: &Inode| Inode { ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..*inode };
        let mut entry = *inode;
        if inode.linked {
            match self.companion(at, inode.oid) {
                Ok((shared, _)) => {
                    self.put_inode(at, &Self::companion_slot(inode.oid), &changed(&shared))?;
                    // To whom a name is charged, its record says.
                    (entry.uid, entry.gid) = (shared.uid, shared.gid);
                }
                // The entry is moved whatever has become of what it leads to.
                Err(error) if error.is_damage() || error == Error::NotFound => {}
                Err(other) => return Err(other),
            }
        }
        let entry = changed(&entry);
        if inode.linked || !is_open_elsewhere {
            self.put_whole_entry(at, slot, &entry, extras)?;
            return Ok(false);
        }
        let one = LinkCount::new(1).expect("one is between one and the limit");
        self.put_companion(at, &entry, one, extras)?;
        self.put_whole_entry(at, slot, &Inode { linked: true, ..entry }, &[])?;
        Ok(true)
    }

    /// Refuses to move the directory `moved` into `dir` if that is it or lies below it. Each step up is read
    /// at `at`, so a transaction conflicts with whoever moves one of them.
    fn check_not_below(&self, at: At<'_>, dir: &Arc<Node>, moved: Oid) -> Result<()> {
        let mut above = Arc::clone(dir);
        for _ in 0..DEPTH_MAX {
            if above.oid == moved {
                return Err(What::Cycle.into());
            }
            let Some(parent) = above.parent() else { return Ok(()) };
            self.check_alive(at, &above)?;
            above = parent;
        }
        Err(Error::NameTooLong)
    }

    /// After the commit of a rename: the node's record lies in the new entry now, or beside its names.
    fn moved(&self, node: &Arc<Node>, (inode, is_beside): (&Inode, bool), to: &Side<'_>) {
        if inode.linked || node.is_removed() {
            return;
        }
        if is_beside {
            return node.set_home(Home { slot: Self::companion_slot(node.oid), parent: None });
        }
        let parent = inode.is_dir().then(|| Arc::clone(to.dir));
        node.set_home(Home { slot: to.slot.clone(), parent });
    }

    /// Adds `to` in `dir` as another name of the file `oid` at `from`.
    pub(crate) fn link(&self, from: &Slot, oid: Oid, dir: &Arc<Node>, to: &Slot) -> Result<()> {
        let gate = dir.gate.read().unwrap_or_else(PoisonError::into_inner);
        dir.check_there()?;
        let (removal, alone) = (self.removals.begin(), self.alone());
        let stripes = self.stripes.hold_both(from, to);
        let node = self.nodes.find(oid);
        let linked = self.transact(|tx| self.link_in(At::Tx(tx), from, oid, dir, to));
        if let (Ok(()), Some(node)) = (&linked, &node) {
            node.set_home(Home { slot: Self::companion_slot(oid), parent: None });
        }
        drop(stripes);
        drop((removal, gate, alone));
        linked?;
        self.touch(dir);
        Ok(())
    }

    fn link_in(&self, at: At<'_>, from: &Slot, oid: Oid, dir: &Node, to: &Slot) -> Result<()> {
        let source = self.record_of(at, from, oid)?;
        // An object in use may be known by its companion.
        let source = Inode { linked: source.linked || layout::is_companion(from.oid), ..source };
        if self.is_shared() {
            self.check_alive(at, dir)?;
        }
        let now = self.now();
        if source.linked {
            let (shared, links) = self.companion(at, oid)?;
            if links.count() >= LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            self.set_links(at, oid, links.count() + 1, now)?;
            let entry = Inode { uid: shared.uid, gid: shared.gid, ..source };
            self.put_new_entry(at, to, &entry, &[])?;
            return Ok(());
        }
        let extras = self.extras(at, from)?;
        let shared = Inode { ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..source };
        let two = LinkCount::new(2).expect("two is between one and the limit");
        self.put_companion(at, &shared, two, &extras)?;
        self.punch_extras(at, from, &extras)?;
        let entry = Inode { linked: true, ..source };
        self.put_inode(at, from, &entry)?;
        self.put_new_entry(at, to, &entry, &[])?;
        Ok(())
    }
}
