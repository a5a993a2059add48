//! Checking a file system: every entry readable, every object named, every link counted.

use crate::error::{Error, Result};
use crate::layout::inode::{FileKind, Inode};
use crate::layout::{self, DKEY_ROOT, companion_oid};
use crate::mount::{Dfs, Mount};
use crate::node::Slot;
use crate::path::check_name;
use crate::tree::join;
use dolmen_client::{At, Page};
use dolmen_types::{Anchor, Oid};
use std::collections::{BTreeMap, BTreeSet};

/// An entry that cannot be used, or a directory that cannot be listed, by the entry that leads to it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BadEntry {
    /// The directory's object.
    pub dir: Oid,
    /// The directory's path; empty for the entry of the root, and for files without a name.
    pub dir_path: Box<[u8]>,
    /// The entry's name.
    pub name: Box<[u8]>,
}

/// A hard-linked file whose count is not the number of its names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BadLinks {
    /// The file's object.
    pub file: Oid,
    /// Names found.
    pub found: u64,
    /// Names counted in the companion; `None` if there is no readable one.
    pub stored: Option<u64>,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Directories, the root included.
    pub dirs: u64,
    /// Files, pipes, sockets and devices.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Files without a name that are open, or wait for the next mount to free them.
    pub orphans: u64,
    /// Damaged records, directories that cannot be listed, names that no entry can have, and second names of
    /// directories.
    pub bad_entries: Vec<BadEntry>,
    /// Wrong link counts.
    pub bad_links: Vec<BadLinks>,
    /// Objects that nothing names: writes of a program that knows no orphans leave them. What only a bad entry leads to
    /// is among them, too.
    pub leaked: Vec<Oid>,
    /// Objects of others beside the files, such as ntuples: nothing is known of them here, and nothing is done to them.
    pub others: u64,
    /// The list of objects is damaged: not all of them were looked at.
    pub unlisted: bool,
    /// What nothing names was freed and link counts were corrected.
    pub repaired: bool,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_whole() && self.bad_links.is_empty() && self.leaked.is_empty()
    }

    /// Whether everything could be looked at. If not, what nothing seems to name may belong to what is damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bad_entries.is_empty() && !self.unlisted
    }
}

/// What was seen on the way through the tree.
#[derive(Default)]
struct Seen {
    dirs: BTreeSet<Oid>,
    /// Names by file; whether its entries say that there is a companion.
    files: BTreeMap<Oid, (u64, bool)>,
}

impl Dfs {
    /// Looks at every entry and object, and goes on past what is damaged. With `repair`, frees what nothing names and
    /// corrects link counts, unless anything is damaged: what a damaged entry leads to, and whatever is below it, has no
    /// other name. Damaged entries are only reported; to remove or replace them takes an unlink or rename.
    ///
    /// What is made or freed meanwhile never looks leaked, nor do objects of others that are kept in the same container: those whose
    /// numbers no file can have ([`CheckReport::others`]). REQUIRES: for `repair`, that nobody changes the file system meanwhile: what is
    /// moved may be missed on the way through the tree.
    ///
    /// # Errors
    /// `ReadOnly` for `repair` on a read-only mount; those of the store.
    pub fn check(&self, repair: bool) -> Result<CheckReport> {
        let mount = self.mount();
        if repair {
            mount.check_writable()?;
        }
        let mut report = CheckReport::default();
        // Before the names: whatever is made later is not among them.
        let objects = mount.all_objects(&mut report)?;
        let mut seen = mount.walk_tree(&mut report)?;
        mount.count_orphans(&mut seen, &mut report)?;
        mount.compare_links(&seen, &mut report)?;
        mount.find_leaked(objects, &seen, &mut report);
        if !report.leaked.is_empty() {
            // What was freed meanwhile had no name when the names were looked at, and is not there any more.
            let objects: BTreeSet<Oid> = mount.all_objects(&mut report)?.into_iter().collect();
            report.leaked.retain(|oid| objects.contains(oid));
        }
        report.repaired = repair && report.is_whole();
        if report.repaired {
            for oid in &report.leaked {
                mount.punch_object(At::Latest, *oid)?;
            }
            for links in report.bad_links.iter().filter(|links| links.stored.is_some()) {
                mount.transact(|tx| mount.set_links(At::Tx(tx), links.file, links.found, mount.now()))?;
            }
        }
        Ok(report)
    }
}

impl Mount {
    fn walk_tree(&self, report: &mut CheckReport) -> Result<Seen> {
        let mut seen = Seen::default();
        seen.dirs.insert(self.root_oid);
        let root = BadEntry { dir: self.superblock_oid, dir_path: [].into(), name: DKEY_ROOT.into() };
        let mut pending = vec![(self.root_oid, root)];
        while let Some((dir, entry)) = pending.pop() {
            report.dirs += 1;
            let path = join(&entry.dir_path, &entry.name);
            let listed = self.each_name(dir, |name| {
                let bad = || BadEntry { dir, dir_path: path[..].into(), name: name.into() };
                let inode = self.usable(&Slot::new(dir, name))?;
                match inode.map(|inode| (inode, inode.kind)) {
                    None => report.bad_entries.push(bad()),
                    Some((_, FileKind::Symlink)) => report.symlinks += 1,
                    Some((inode, FileKind::Directory)) if seen.dirs.insert(inode.oid) => {
                        pending.push((inode.oid, bad()));
                    }
                    Some((_, FileKind::Directory)) => report.bad_entries.push(bad()),
                    Some((inode, _)) => {
                        let (names, linked) = seen.files.entry(inode.oid).or_default();
                        *names += 1;
                        *linked |= inode.linked;
                    }
                }
                Ok(())
            });
            match listed {
                Err(error) if error.is_damage() => report.bad_entries.push(entry),
                other => other?,
            }
        }
        report.files = seen.files.len() as u64;
        report.bad_entries.sort_unstable();
        Ok(seen)
    }

    /// The record of an entry that was listed; `None` if it cannot be used.
    fn usable(&self, slot: &Slot) -> Result<Option<Inode>> {
        if check_name(&slot.dkey).is_err() {
            return Ok(None);
        }
        match self.inode(At::Latest, slot) {
            Err(error) if error.is_damage() => Ok(None),
            other => other,
        }
    }

    fn each_name(&self, dir: Oid, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let object = self.object(dir)?;
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            let names = object.list_dkeys(At::Latest, &mut anchor, Page::default())?;
            names.iter().try_for_each(&mut visit)?;
        }
        Ok(())
    }

    fn count_orphans(&self, seen: &mut Seen, report: &mut CheckReport) -> Result<()> {
        let bad = |name: &[u8]| BadEntry { dir: self.orphans_oid(), dir_path: [].into(), name: name.into() };
        let listed = self.each_name(self.orphans_oid(), |name| {
            match self.orphan(name) {
                Some(file) => {
                    report.orphans += 1;
                    seen.files.insert(file, (1, false));
                }
                None => report.bad_entries.push(bad(name)),
            }
            Ok(())
        });
        match listed {
            Err(error) if error.is_damage() => report.bad_entries.push(bad(b"")),
            other => other?,
        }
        Ok(())
    }

    fn compare_links(&self, seen: &Seen, report: &mut CheckReport) -> Result<()> {
        for (&file, &(found, linked)) in &seen.files {
            let stored = match linked.then(|| self.companion(At::Latest, file)) {
                None => Some(1),
                Some(Ok((_, links))) => Some(links.count()),
                Some(Err(Error::NotFound)) => None,
                Some(Err(error)) if error.is_damage() => None,
                Some(Err(other)) => return Err(other),
            };
            if stored != Some(found) {
                report.bad_links.push(BadLinks { file, found, stored });
            }
        }
        Ok(())
    }

    fn all_objects(&self, report: &mut CheckReport) -> Result<Vec<Oid>> {
        let (mut walk, mut all) = (self.container.objects(None), Vec::new());
        loop {
            match walk.next_page().map_err(Error::from) {
                Ok(page) if page.is_empty() => return Ok(all),
                Ok(page) => all.extend(page),
                Err(error) if error.is_damage() => {
                    report.unlisted = true;
                    return Ok(all);
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Objects that nothing names of those that were there before the names were looked at.
    fn find_leaked(&self, objects: Vec<Oid>, seen: &Seen, report: &mut CheckReport) {
        let companions: BTreeSet<Oid> = seen
            .files
            .iter()
            .filter(|(_, (_, linked))| *linked)
            .map(|(&file, _)| companion_oid(file))
            .collect();
        let reserved = [self.superblock_oid, self.orphans_oid()];
        let named = |oid: &Oid| {
            reserved.contains(oid)
                || seen.dirs.contains(oid)
                || if layout::is_companion(*oid) {
                    companions.contains(oid)
                } else {
                    seen.files.contains_key(oid)
                }
        };
        let unnamed = objects.into_iter().filter(|oid| !named(oid));
        let (leaked, others): (Vec<Oid>, Vec<Oid>) = unnamed.partition(|oid| layout::is_of_files(*oid));
        report.others = others.len() as u64;
        report.leaked = leaked;
        report.leaked.sort_unstable();
    }
}
