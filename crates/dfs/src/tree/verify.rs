//! Comparing a directory tree outside with one in the container.

use super::local::{self, OnPath};
use super::queue::{self, Queue};
use super::{
    BLOCK_BYTES, Counts, OnFile, Options, Remote, Skipped, Tally, join, or_end, special, unfinished,
    xattrs_kept,
};
use crate::attr::Stat;
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result};
use crate::file::File;
use crate::layout::inode::FileKind;
use crate::list::Cookie;
use crate::node::Slot;
use crate::store::bad_record;
use dolmen_types::Oid;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Differences kept; further ones are counted.
const MISMATCHES_MAX: usize = 10_000;

const NAMES_AT_ONCE: u32 = 4096;

/// Bytes after which the end of a hole is searched again: a search asks for all chunks, and zeros may be data.
const SEARCH_BYTES: u64 = 64 << 20;

/// How an entry differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Difference {
    /// Only outside.
    Missing,
    /// Only in the container.
    Extra,
    /// File, directory or symbolic link.
    Kind,
    /// Permission bits.
    Mode,
    /// Owner or group.
    Owner,
    /// Time of the last change.
    Time,
    /// Length.
    Size,
    /// Bytes, the first one at this offset; of a symbolic link its target.
    Content {
        /// The first byte that differs.
        offset: u64,
    },
    /// Extended attributes.
    Xattrs,
    /// Which names share the file, or how many if all of those outside are in the tree.
    Links,
}

/// An entry that differs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mismatch {
    /// In the container.
    pub path: Vec<u8>,
    /// How.
    pub difference: Difference,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What was compared.
    pub counts: Counts,
    /// What differs, by path; empty means equal.
    pub mismatches: Vec<Mismatch>,
    /// Differences found beyond those kept.
    pub more: u64,
}

struct Job {
    path: PathBuf,
    meta: Metadata,
    remote: Remote,
    stat: Stat,
}

struct Verify<'a> {
    dir: &'a Dir,
    options: &'a Options<'a>,
    tally: Tally,
    /// Guards: the differences found; taken alone.
    found: Mutex<(Vec<Mismatch>, u64)>,
}

/// Compares `local` with `remote`: kinds, modes, times, targets, extended attributes, which names share a file, sizes
/// and every byte; owners if `options` say so.
///
/// # Errors
/// Those of reading either side, unless `Options::on_failure` takes them; differences are in the report.
pub fn verify(local: &Path, dir: &Dir, remote: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Report> {
    let meta = fs::symlink_metadata(local).at(local)?;
    match dir.lstat(remote.as_ref()) {
        Ok(_) | Err(Error::NotFound) => {}
        Err(error) => return Err(error).on(remote.as_ref()),
    }
    let options = &options.for_root(meta.is_dir());
    let verify = Verify { dir, options, tally: Tally::of_reads(), found: Mutex::default() };
    let produce = |queue: &Queue<Job>| verify.walk(queue, local.to_owned(), meta, remote.as_ref().to_vec());
    queue::run(options, produce, |job: Job| {
        verify.tally.spare(verify.entry(&job).on(&job.remote), options).map(|_| ())
    })?;
    let (mut mismatches, more) = verify.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    mismatches.sort_unstable();
    Ok(Report { counts: verify.tally.counts(), mismatches, more })
}

impl Verify<'_> {
    fn note(&self, path: &[u8], difference: Difference) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.0.len() < MISMATCHES_MAX {
            found.0.push(Mismatch { path: path.to_vec(), difference });
        } else {
            found.1 += 1;
        }
    }

    fn walk(&self, queue: &Queue<Job>, path: PathBuf, meta: Metadata, remote: Remote) -> Result<()> {
        let mut groups = Groups::default();
        let mut pending = vec![(path, meta, remote)];
        while let Some((path, meta, remote)) = pending.pop() {
            let stat = match self.dir.lstat(&remote) {
                Err(Error::NotFound) => {
                    self.note(&remote, Difference::Missing);
                    continue;
                }
                other => match self.tally.spare(other.on(&remote), self.options)? {
                    Some(stat) => stat,
                    None => continue,
                },
            };
            let kind = kind_of(&meta);
            if kind.is_none() {
                self.tally.skip(&path, special(&meta), self.options);
            } else if kind != Some(stat.kind) {
                self.note(&remote, Difference::Kind);
            } else {
                if stat.kind == FileKind::Directory {
                    self.tally.spare(self.children(&path, &remote, &mut pending), self.options)?;
                }
                if stat.kind == FileKind::File && !groups.add(&meta, &stat, &remote) {
                    self.note(&remote, Difference::Links);
                }
                if !queue.push(Job { path, meta, remote, stat }) {
                    return Ok(());
                }
            }
        }
        groups.of_other_counts().for_each(|remote| self.note(remote, Difference::Links));
        Ok(())
    }

    fn children(
        &self,
        path: &Path,
        remote: &[u8],
        pending: &mut Vec<(PathBuf, Metadata, Remote)>,
    ) -> Result<()> {
        let mut extra = self.names(remote)?;
        for entry in fs::read_dir(path).at(path)? {
            let entry = entry.at(path)?;
            let name = entry.file_name();
            extra.remove(name.as_bytes());
            let path = entry.path();
            let Some(meta) = self.tally.spare(entry.metadata().at(&path), self.options)? else { continue };
            if self.options.is_excluded(&meta) {
                self.tally.skip(&path, Skipped::Excluded, self.options);
            } else if unfinished::is_named(&path) {
                self.tally.skip(&path, Skipped::Unfinished, self.options);
            } else if kind_of(&meta).is_some() {
                pending.push((path, meta, join(remote, name.as_bytes())));
            } else {
                self.tally.skip(&path, special(&meta), self.options);
            }
        }
        for name in extra {
            self.note(&join(remote, &name), Difference::Extra);
        }
        Ok(())
    }

    /// The names in a directory of the container.
    fn names(&self, remote: &[u8]) -> Result<BTreeSet<Vec<u8>>> {
        let dir = self.dir.open_dir(remote).on(remote)?;
        let (mut all, mut cookie) = (BTreeSet::new(), Cookie::default());
        while !cookie.is_end() {
            let names = dir.list(&mut cookie, NAMES_AT_ONCE).on(remote)?;
            all.extend(names.iter().map(<[u8]>::to_vec));
            for name in names.bad() {
                let bad = bad_record(&Slot::new(dir.oid(), name));
                self.tally.spare(Err::<(), _>(bad).on(&join(remote, name)), self.options)?;
            }
        }
        Ok(all)
    }

    fn entry(&self, job: &Job) -> Result<()> {
        let Job { path, meta, remote, stat } = job;
        let kept = self.options.mode_kept(stat.kind, (stat.uid, stat.gid), (meta.uid(), meta.gid()));
        if stat.kind != FileKind::Symlink && (stat.permissions ^ meta.mode()) & kept != 0 {
            self.note(remote, Difference::Mode);
        }
        if self.options.owner && (stat.uid, stat.gid) != (meta.uid(), meta.gid()) {
            self.note(remote, Difference::Owner);
        }
        if stat.mtime != local::mtime(meta) {
            self.note(remote, Difference::Time);
        }
        let (stored, outside) = (self.dir.xattrs(remote)?, local::xattrs(path)?);
        if xattrs_kept(stored, kept) != xattrs_kept(outside, kept) {
            self.note(remote, Difference::Xattrs);
        }
        match stat.kind {
            FileKind::Directory => self.tally.add(|tally| &tally.dirs, 1, self.options),
            FileKind::Symlink => {
                let target = fs::read_link(path).at(path)?;
                if self.dir.readlink(remote)? != target.as_os_str().as_bytes() {
                    self.note(remote, Difference::Content { offset: 0 });
                }
                self.tally.add(|tally| &tally.symlinks, 1, self.options);
            }
            FileKind::File => {
                self.contents(job)?;
                self.tally.add(|tally| &tally.files, 1, self.options);
            }
            // Of these there is none outside of the same kind: `kind_of`.
            FileKind::Pipe | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {}
        }
        Ok(())
    }

    fn contents(&self, job: &Job) -> Result<()> {
        let is_told_so = job.stat.size_bytes == job.meta.len();
        let outside = match fs::File::open(&job.path) {
            Err(_) if !is_told_so => {
                self.note(&job.remote, Difference::Size);
                return Ok(());
            }
            other => other.at(&job.path)?,
        };
        // The size that the system tells is not always that of the contents.
        let is_sure = is_told_so && job.meta.len() > 0;
        if !is_sure && !local::is_as_long(&outside, job.stat.size_bytes, &job.path)? {
            self.note(&job.remote, Difference::Size);
            return Ok(());
        }
        let stored = self.dir.open(&job.remote, &OpenOptions { no_follow: true, ..OpenOptions::READ })?;
        let room = usize::try_from(job.stat.size_bytes).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let (mut ours, mut theirs) = (vec![0; room], vec![0; room]);
        let (mut at, mut search_at) = (0, 0);
        while at < job.stat.size_bytes {
            self.options.check_stop()?;
            let want = usize::try_from(job.stat.size_bytes - at).unwrap_or(room).min(room);
            let (ours, theirs) = (&mut ours[..want], &mut theirs[..want]);
            let short = stored.read_at(at, ours)? < want || outside.read_exact_at(theirs, at).is_err();
            let equal = *ours == *theirs;
            let differs = if equal { None } else { ours.iter().zip(&*theirs).position(|(a, b)| a != b) };
            if short || differs.is_some() {
                let offset = at + differs.unwrap_or(want) as u64;
                self.note(&job.remote, Difference::Content { offset });
                return Ok(());
            }
            at += want as u64;
            // Zeros may be a hole on both sides, which is not read to its end.
            if at >= search_at && at < job.stat.size_bytes && ours.iter().all(|&byte| byte == 0) {
                at = next_data(&stored, &outside, at, job)?;
                search_at = at + SEARCH_BYTES;
            }
            self.tally.add(|tally| &tally.bytes, want as u64, self.options);
        }
        Ok(())
    }
}

/// A file outside of which one side has several names, and the stored one that its first name leads to.
struct Group {
    oid: Oid,
    first: Remote,
    /// Names met in the tree.
    names: u64,
    links_outside: u64,
    links_stored: u64,
    /// Another file shares its names on one side.
    is_parted: bool,
}

/// Files with several names.
#[derive(Default)]
struct Groups {
    outside: HashMap<(u64, u64), Group>,
    stored: HashMap<Oid, (u64, u64)>,
}

impl Groups {
    /// Whether this name shares its file with the same ones on both sides, as far as they were met.
    fn add(&mut self, meta: &Metadata, stat: &Stat, remote: &[u8]) -> bool {
        if stat.links < 2 && meta.nlink() < 2 {
            return true;
        }
        let id = (meta.dev(), meta.ino());
        let group = self.outside.entry(id).or_insert_with(|| Group {
            oid: stat.oid,
            first: remote.to_vec(),
            names: 0,
            links_outside: meta.nlink(),
            links_stored: stat.links,
            is_parted: false,
        });
        group.names += 1;
        let is_shared = group.oid == stat.oid && *self.stored.entry(stat.oid).or_insert(id) == id;
        group.is_parted |= !is_shared;
        is_shared
    }

    /// First names of files that have all their names outside in the tree, and not as many inside.
    fn of_other_counts(&self) -> impl Iterator<Item = &Remote> {
        let differs = |group: &&Group| {
            !group.is_parted && group.names == group.links_outside && group.links_stored != group.names
        };
        self.outside.values().filter(differs).map(|group| &group.first)
    }
}

/// Where the next data of either side begins; the end if there is none.
fn next_data(stored: &File, outside: &fs::File, at: u64, job: &Job) -> Result<u64> {
    let end = job.stat.size_bytes;
    let stored_at = or_end(stored.seek_data(at), end)?;
    let outside_at = local::next_data(outside, at, &job.path)?.map_or(end, |(start, _)| start);
    Ok(stored_at.min(outside_at).clamp(at, end))
}

fn kind_of(meta: &Metadata) -> Option<FileKind> {
    super::kind_copied(meta.mode())
}

impl core::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let path = dolmen_types::shown(&self.path);
        match self.difference {
            Difference::Missing => write!(f, "{path}: missing in the container"),
            Difference::Extra => write!(f, "{path}: only in the container"),
            Difference::Content { offset } => write!(f, "{path}: content differs from byte {offset} on"),
            Difference::Kind => write!(f, "{path}: other kind of file"),
            Difference::Mode => write!(f, "{path}: other mode"),
            Difference::Owner => write!(f, "{path}: other owner"),
            Difference::Time => write!(f, "{path}: other time of change"),
            Difference::Size => write!(f, "{path}: other size"),
            Difference::Xattrs => write!(f, "{path}: other extended attributes"),
            Difference::Links => write!(f, "{path}: other hard links"),
        }
    }
}
