//! Counting a tree in the container, and checksums of its files.

use super::queue::{self, Queue};
use super::{BLOCK_BYTES, OnFile, Options, Remote, Tally, join};
use crate::attr::Stat;
use crate::dir::{Dir, OpenOptions};
use crate::error::Result;
use crate::layout::inode::FileKind;
use crate::list::Cookie;
use dolmen_types::{Oid, crc32c, crc32c_append};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

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
}

/// Adds up the tree at `path`. With `exact`, asks each file for its data, which costs by extents.
///
/// # Errors
/// The first error of any entry, with its path.
pub fn du(dir: &Dir, path: impl AsRef<[u8]>, exact: bool) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut seen: HashSet<Oid> = HashSet::new();
    walk(dir, path.as_ref(), |remote, stat| {
        match stat.kind {
            FileKind::Directory => usage.dirs += 1,
            FileKind::Symlink => usage.symlinks += 1,
            FileKind::File if stat.links > 1 && !seen.insert(stat.oid) => return Ok(true),
            FileKind::File => {
                usage.files += 1;
                if exact {
                    usage.data_bytes += dir.open(remote, &OpenOptions::READ)?.data_bytes()?;
                }
            }
        }
        usage.size_bytes += stat.size_bytes;
        Ok(true)
    })?;
    Ok(usage)
}

/// The crc32c of every file of the tree at `path`, with its size, by path.
///
/// # Errors
/// The first error of any entry, with its path.
pub fn digest(dir: &Dir, path: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Vec<(Vec<u8>, u64, u32)>> {
    let tally = Tally::default();
    // Guards: the results; taken alone.
    let digests = Mutex::new(Vec::new());
    let produce =
        |queue: &Queue<Remote>| {
            walk(dir, path.as_ref(), |remote, stat| {
                Ok(stat.kind != FileKind::File || queue.push(remote.to_vec()))
            })
        };
    let work = |remote: Remote| {
        let (size, crc) = digest_file(dir, &remote, &tally, options).on(&remote)?;
        digests.lock().unwrap_or_else(PoisonError::into_inner).push((remote, size, crc));
        tally.add(|tally| &tally.files, 1, options);
        Ok(())
    };
    queue::run(options, produce, work)?;
    let mut digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    digests.sort_unstable();
    Ok(digests)
}

fn digest_file(dir: &Dir, remote: &[u8], tally: &Tally, options: &Options<'_>) -> Result<(u64, u32)> {
    let file = dir.open(remote, &OpenOptions::READ)?;
    let mut block = vec![0; BLOCK_BYTES];
    let (mut at, mut crc) = (0, crc32c(b""));
    loop {
        let read = file.read_at(at, &mut block)?;
        crc = crc32c_append(crc, &block[..read]);
        at += read as u64;
        tally.add(|tally| &tally.bytes, read as u64, options);
        if read < block.len() {
            return Ok((at, crc));
        }
    }
}

/// The paths of these objects below `dir`, each file by all its names: one look at each entry. Damaged entries and
/// directories are passed over.
///
/// # Errors
/// Those of listing.
pub fn paths_of(dir: &Dir, oids: &BTreeSet<Oid>) -> Result<Vec<(Oid, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut pending: Vec<Remote> = vec![b"/".to_vec()];
    while let Some(remote) = pending.pop() {
        let here = match dir.open_dir(&remote) {
            Err(error) if error.is_damage() => continue,
            other => other.on(&remote)?,
        };
        let mut cookie = Cookie::default();
        while !cookie.is_end() {
            let entries = match here.list_plus(&mut cookie, ENTRIES_AT_ONCE) {
                Err(error) if error.is_damage() => break,
                other => other.on(&remote)?,
            };
            for entry in entries {
                let Ok(stat) = entry.stat else { continue };
                let path = join(&remote, &entry.name);
                if oids.contains(&stat.oid) {
                    found.push((stat.oid, path.clone()));
                }
                if stat.kind == FileKind::Directory {
                    pending.push(path);
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Calls `visit` for `path` and everything below it, parents first, until it says `false`.
fn walk(dir: &Dir, path: &[u8], mut visit: impl FnMut(&[u8], &Stat) -> Result<bool>) -> Result<()> {
    let mut pending: Vec<(Remote, Stat)> = vec![(path.to_vec(), dir.lstat(path).on(path)?)];
    while let Some((remote, stat)) = pending.pop() {
        if !visit(&remote, &stat).on(&remote)? {
            return Ok(());
        }
        if stat.kind == FileKind::Directory {
            let here = dir.open_dir(&remote).on(&remote)?;
            let mut cookie = Cookie::default();
            while !cookie.is_end() {
                for entry in here.list_plus(&mut cookie, ENTRIES_AT_ONCE).on(&remote)? {
                    let path = join(&remote, &entry.name);
                    let stat = entry.stat.on(&path)?;
                    pending.push((path, stat));
                }
            }
        }
    }
    Ok(())
}
