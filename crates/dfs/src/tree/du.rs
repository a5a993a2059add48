//! Counting a tree in the container, and checksums of its files.

use super::link::Link;
use super::queue::{self, Queue};
use super::{BLOCK_BYTES, OnFile, Options, Tally};
use crate::attr::Stat;
use crate::dir::{Dir, OpenOptions};
use crate::error::Result;
use crate::layout::inode::FileKind;
use crate::list::Cookie;
use dolmen_types::{Oid, crc32c, crc32c_append};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

const ENTRIES_AT_ONCE: u32 = 512;

/// What a tree takes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Directories.
    pub dirs: u64,
    /// Files, one with several names once.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Sizes of files and targets, holes included.
    pub size_bytes: u64,
    /// Bytes of files that are data; 0 unless asked for.
    pub data_bytes: u64,
    /// Entries that could not be counted.
    pub failed: u64,
}

/// An entry on a walk, by the directory that holds it: paths of deep trees are longer than a path may be.
struct Entry {
    above: Dir,
    link: Arc<Link>,
    stat: Stat,
}

/// Adds up the tree at `path`. With `exact`, asks each file for its data, which costs by extents.
///
/// # Errors
/// The first error of any entry, with its path, unless `Options::on_failure` takes it: then it is counted as failed.
pub fn du(dir: &Dir, path: impl AsRef<[u8]>, exact: bool, options: &Options<'_>) -> Result<Usage> {
    let (mut usage, tally) = (Usage::default(), Tally::of_reads());
    let mut seen: HashSet<Oid> = HashSet::new();
    walk(dir, path.as_ref(), &tally, options, |entry| {
        let Entry { above, link, stat } = &entry;
        match stat.kind {
            FileKind::Directory => usage.dirs += 1,
            FileKind::Symlink => usage.symlinks += 1,
            _ if stat.links > 1 && !seen.insert(stat.oid) => return Ok(true),
            FileKind::Pipe | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
                usage.files += 1
            }
            FileKind::File => {
                if exact {
                    usage.data_bytes += above.open(&link.name, &OpenOptions::READ)?.data_bytes()?;
                }
                usage.files += 1;
            }
        }
        usage.size_bytes += stat.size_bytes;
        Ok(true)
    })?;
    usage.failed = tally.counts().failed;
    Ok(usage)
}

/// The crc32c of every file of the tree at `path`, with its size, by path.
///
/// # Errors
/// The first error of any entry, with its path, unless `Options::on_failure` takes it.
pub fn digest(dir: &Dir, path: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Vec<(Vec<u8>, u64, u32)>> {
    let tally = Tally::of_reads();
    // Guards: the results; taken alone.
    let digests = Mutex::new(Vec::new());
    let produce = |queue: &Queue<Entry>| {
        walk(dir, path.as_ref(), &tally, options, |entry| {
            Ok(entry.stat.kind != FileKind::File || queue.push(entry))
        })
    };
    let work = |entry: Entry| {
        let digest = digest_file(&entry, &tally, options).at(&entry.link);
        if let Some((size, crc)) = tally.spare(digest, options)? {
            digests.lock().unwrap_or_else(PoisonError::into_inner).push((entry.link.path(), size, crc));
            tally.add(|tally| &tally.files, 1, options);
        }
        Ok(())
    };
    queue::run(options, produce, work)?;
    let mut digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    digests.sort_unstable();
    Ok(digests)
}

fn digest_file(entry: &Entry, tally: &Tally, options: &Options<'_>) -> Result<(u64, u32)> {
    let file = entry.above.open(&entry.link.name, &OpenOptions::READ)?;
    let mut block = vec![0; BLOCK_BYTES];
    let (mut at, mut crc) = (0, crc32c(b""));
    loop {
        options.check_stop()?;
        let read = file.read_at(at, &mut block)?;
        crc = crc32c_append(crc, &block[..read]);
        at += read as u64;
        tally.add(|tally| &tally.bytes, read as u64, options);
        if read < block.len() {
            return Ok((at, crc));
        }
    }
}

/// The paths of these objects, the root directory among them, each file by all its names: one look at each entry.
/// What is damaged, or not for this user, is passed over with what is below it.
///
/// # Errors
/// What would meet every entry; any error of the root directory's own entry.
pub fn paths_of(dir: &Dir, oids: &BTreeSet<Oid>) -> Result<Vec<(Oid, Vec<u8>)>> {
    let mut found = Vec::new();
    let pass_over = |_error| {};
    let options = Options { on_failure: Some(&pass_over), ..Options::default() };
    walk(dir, b"/", &Tally::of_reads(), &options, |entry| {
        if oids.contains(&entry.stat.oid) {
            found.push((entry.stat.oid, entry.link.path()));
        }
        Ok(true)
    })?;
    found.sort_unstable();
    Ok(found)
}

/// Calls `visit` for `path` and everything below it, parents first, until it says `false`.
fn walk(
    dir: &Dir,
    path: &[u8],
    tally: &Tally,
    options: &Options<'_>,
    mut visit: impl FnMut(Entry) -> Result<bool>,
) -> Result<()> {
    let stat = dir.lstat(path).on(path)?;
    let options = &options.for_root(stat.kind == FileKind::Directory);
    let mut pending = vec![Entry { above: dir.clone(), link: Link::root(path), stat }];
    while let Some(entry) = pending.pop() {
        let link = Arc::clone(&entry.link);
        if entry.stat.kind == FileKind::Directory {
            tally.spare(children(&entry, tally, options, &mut pending).at(&link), options)?;
        }
        if tally.spare(visit(entry).at(&link), options)? == Some(false) {
            return Ok(());
        }
    }
    Ok(())
}

/// Appends what is in a directory.
fn children(dir: &Entry, tally: &Tally, options: &Options<'_>, pending: &mut Vec<Entry>) -> Result<()> {
    let above = dir.above.open_dir(&dir.link.name)?;
    let mut cookie = Cookie::default();
    while !cookie.is_end() {
        for found in above.list_plus(&mut cookie, ENTRIES_AT_ONCE)? {
            let link = Link::below(&dir.link, found.name);
            if let Some(stat) = tally.spare(found.stat.at(&link), options)? {
                pending.push(Entry { above: above.clone(), link, stat });
            }
        }
    }
    Ok(())
}
