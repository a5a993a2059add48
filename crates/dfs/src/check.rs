//! Checking a file system: every entry readable, every object named, every link counted.

use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::layout::{self, companion_oid};
use crate::mount::{Dfs, Mount};
use crate::node::Slot;
use dolmen_client::{At, Page};
use dolmen_types::{Anchor, Oid};
use std::collections::{BTreeMap, BTreeSet};

/// An entry that cannot be used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BadEntry {
    /// The directory's object.
    pub dir: Oid,
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
    /// Files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Files without a name that are open, or wait for the next mount to free them.
    pub orphans: u64,
    /// Damaged records, and second names of directories.
    pub bad_entries: Vec<BadEntry>,
    /// Wrong link counts.
    pub bad_links: Vec<BadLinks>,
    /// Objects that nothing names: writes of a program that knows no orphans leave them, or a part that rotted.
    pub leaked: Vec<Oid>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.bad_entries.is_empty() && self.bad_links.is_empty() && self.leaked.is_empty()
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
    /// Looks at every entry and object. With `repair`, frees what nothing names and corrects link counts;
    /// damaged entries are only reported.
    ///
    /// REQUIRES: nobody changes the file system meanwhile, or what they make may look leaked.
    ///
    /// # Errors
    /// `ReadOnly` for `repair` on a read-only mount; those of the store.
    pub fn check(&self, repair: bool) -> Result<CheckReport> {
        let mount = self.mount();
        if repair {
            mount.check_writable()?;
        }
        let mut report = CheckReport::default();
        let mut seen = mount.walk_tree(&mut report)?;
        mount.count_orphans(&mut seen, &mut report)?;
        mount.compare_links(&seen, &mut report)?;
        mount.find_leaked(&seen, &mut report)?;
        if repair {
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
        let mut pending = vec![self.root_oid];
        while let Some(dir) = pending.pop() {
            report.dirs += 1;
            self.each_name(dir, |name| {
                let slot = Slot::new(dir, name);
                let bad = || BadEntry { dir, name: name.into() };
                let inode = match self.inode(At::Latest, &slot) {
                    Err(Error::BadRecord { .. }) => None,
                    other => other?,
                };
                match inode.map(|inode| (inode, inode.kind)) {
                    None => report.bad_entries.push(bad()),
                    Some((_, FileKind::Symlink)) => report.symlinks += 1,
                    Some((inode, FileKind::Directory)) if seen.dirs.insert(inode.oid) => {
                        pending.push(inode.oid);
                    }
                    Some((_, FileKind::Directory)) => report.bad_entries.push(bad()),
                    Some((inode, FileKind::File)) => {
                        let (names, linked) = seen.files.entry(inode.oid).or_default();
                        *names += 1;
                        *linked |= inode.linked;
                    }
                }
                Ok(())
            })?;
        }
        report.files = seen.files.len() as u64;
        report.bad_entries.sort_unstable();
        Ok(seen)
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
        self.each_name(self.orphans_oid(), |name| {
            match <[u8; 16]>::try_from(name) {
                Ok(bytes) => {
                    report.orphans += 1;
                    seen.files.insert(Oid::from_bytes(bytes), (1, false));
                }
                Err(_) => {
                    report.bad_entries.push(BadEntry { dir: self.orphans_oid(), name: name.into() });
                }
            }
            Ok(())
        })
    }

    fn compare_links(&self, seen: &Seen, report: &mut CheckReport) -> Result<()> {
        for (&file, &(found, linked)) in &seen.files {
            let stored = match linked.then(|| self.companion(At::Latest, file)) {
                None => Some(1),
                Some(Ok((_, links))) => Some(links.count()),
                Some(Err(Error::NotFound | Error::BadRecord { .. })) => None,
                Some(Err(other)) => return Err(other),
            };
            if stored != Some(found) {
                report.bad_links.push(BadLinks { file, found, stored });
            }
        }
        Ok(())
    }

    fn find_leaked(&self, seen: &Seen, report: &mut CheckReport) -> Result<()> {
        let companions: BTreeSet<Oid> = seen
            .files
            .iter()
            .filter(|(_, (_, linked))| *linked)
            .map(|(&file, _)| companion_oid(file))
            .collect();
        let reserved = [self.superblock_oid, self.orphans_oid()];
        let mut objects = self.container.objects(None);
        loop {
            let page = objects.next_page()?;
            if page.is_empty() {
                report.leaked.sort_unstable();
                return Ok(());
            }
            let named = |oid: &Oid| {
                reserved.contains(oid)
                    || seen.dirs.contains(oid)
                    || if layout::is_companion(*oid) {
                        companions.contains(oid)
                    } else {
                        seen.files.contains_key(oid)
                    }
            };
            report.leaked.extend(page.into_iter().filter(|oid| !named(oid)));
        }
    }
}
