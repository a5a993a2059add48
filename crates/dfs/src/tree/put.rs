//! From a directory tree outside into the container.

use super::local::{self, OnPath};
use super::queue::{self, Queue};
use super::{
    BLOCK_BYTES, Counts, OnFile, Options, Remote, Skipped, Tally, join, side_by_side, special, unfinished,
    xattrs_kept,
};
use crate::attr::{SetAttrs, SetTime, Stat, XattrCond};
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result};
use crate::file::File;
use crate::layout::inode::FileKind;
use crate::rename::RenameMode;
use crate::resolve::Follow;
use core::sync::atomic::Ordering;
use dolmen_types::{Error as StoreError, Oid, crc32c, crc32c_append};
use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files up to this size are put whole, in one write: above it, their bytes take longer than a second flush.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// So often a file is read again that somebody has changed meanwhile: who changes it all the time is not waited for.
const AGAIN_WHEN_CHANGED: u32 = 1;

/// So often a file is put again that found its target full, under a new number and so most likely on another one.
const AGAIN_WHEN_FULL: u32 = 3;

/// A file or symbolic link to be put.
struct Job {
    path: PathBuf,
    meta: Metadata,
    remote: Remote,
    /// The directory was made in this run: nothing can be there.
    fresh: bool,
}

/// A directory that was made, or found.
struct Made {
    path: PathBuf,
    meta: Metadata,
    remote: Remote,
    /// It was not there.
    fresh: bool,
}

/// A directory that is to be made, or found.
struct Below {
    path: PathBuf,
    remote: Remote,
    /// The directory that holds it was made in this run.
    in_fresh: bool,
}

/// Files with several names.
#[derive(Default)]
struct Names {
    /// First names, by device and inode.
    first: HashMap<(u64, u64), Remote>,
    /// Their further names: old and new. They can only be made when all files are there.
    links: Vec<(Remote, Remote)>,
}

struct Put<'a> {
    dir: &'a Dir,
    options: &'a Options<'a>,
    tally: Tally,
    /// Guards the stored files with several names that a file outside was found to be; taken alone.
    claimed: Mutex<HashSet<Oid>>,
    /// Guards why first names of files with several were not put; taken alone.
    failed: Mutex<HashMap<Remote, Error>>,
}

/// Puts the file, symbolic link or directory tree `local` at `remote`, which is merged into if both are
/// directories; files of the same name are replaced, each at once.
///
/// Every step waits for the store to make it durable, so all of them are taken side by side: directories level by
/// level, then everything in them, then the directories' own attributes.
///
/// # Errors
/// `Excluded` if `local` is an excluded directory; the first error of any entry, with its path, unless
/// `Options::on_failure` takes it; what was put until then stays.
pub fn put(local: &Path, dir: &Dir, remote: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Counts> {
    let meta = fs::symlink_metadata(local).at(local)?;
    if !meta.is_dir() && !meta.is_file() && !meta.is_symlink() {
        return Err(Error::Special { path: local.to_owned() });
    }
    let options = &options.for_root(meta.is_dir());
    let put =
        Put { dir, options, tally: Tally::default(), claimed: Mutex::default(), failed: Mutex::default() };
    if options.is_excluded(&meta) {
        return Err(Error::Excluded { path: local.to_owned() });
    }
    let levels = if meta.is_dir() { put.make_dirs(local, remote.as_ref())? } else { Vec::new() };
    if meta.is_file() && meta.len() > SMALL_BYTES_MAX {
        let above = unfinished::parent(remote.as_ref());
        unfinished::clear(dir, above).on(remote.as_ref())?;
    }
    let mut names = Names::default();
    let produce = |queue: &Queue<Job>| {
        if !meta.is_dir() {
            let job = Job { path: local.to_owned(), meta, remote: remote.as_ref().to_vec(), fresh: false };
            put.offer(queue, &mut names, job);
        }
        levels.iter().flatten().try_for_each(|dir| put.walk(queue, &mut names, dir))
    };
    queue::run(options, produce, |job: Job| put.one(&job))?;
    for (old, new) in &names.links {
        put.tally.spare(put.link(old, new).on(new), options)?;
    }
    // Children first: what is put into a directory changes its time, and its mode may forbid to pass.
    for level in levels.iter().rev() {
        side_by_side(options, level.iter(), |dir| {
            put.tally.spare(put.finish_dir(dir).on(&dir.remote), options).map(|_| ())
        })?;
    }
    Ok(put.tally.counts())
}

impl Put<'_> {
    /// Makes all directories, each after the one above it; by level.
    fn make_dirs(&self, local: &Path, remote: &[u8]) -> Result<Vec<Vec<Made>>> {
        let root = Below { path: local.to_owned(), remote: remote.to_vec(), in_fresh: false };
        let (root, mut next) = self.dir_of(root)?;
        let mut levels = vec![vec![root]];
        while !next.is_empty() {
            // Guards what the threads have found; taken alone.
            let (made, below) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
            side_by_side(self.options, next.into_iter(), |dir: Below| {
                let Some((dir, mut children)) = self.tally.spare(self.dir_of(dir), self.options)? else {
                    return Ok(());
                };
                below.lock().unwrap_or_else(PoisonError::into_inner).append(&mut children);
                made.lock().unwrap_or_else(PoisonError::into_inner).push(dir);
                Ok(())
            })?;
            levels.push(made.into_inner().unwrap_or_else(PoisonError::into_inner));
            next = below.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        Ok(levels)
    }

    /// Makes a directory, and lists those below it.
    fn dir_of(&self, Below { path, remote, in_fresh }: Below) -> Result<(Made, Vec<Below>)> {
        let meta = fs::metadata(&path).at(&path)?;
        // Listed first: what may not be read is not made either.
        let entries = fs::read_dir(&path).at(&path)?;
        let fresh = self.make_dir(&meta, &remote, in_fresh).on(&remote)?;
        let mut children = Vec::new();
        for entry in entries {
            let entry = entry.at(&path)?;
            let kind = self.tally.spare(entry.file_type().at(&entry.path()), self.options)?;
            if !kind.is_some_and(|kind| kind.is_dir()) {
                continue;
            }
            if !self.options.excluded.is_empty() && self.options.is_excluded(&entry.metadata().at(&path)?) {
                self.tally.skip(&entry.path(), Skipped::Excluded, self.options);
                continue;
            }
            let remote = join(&remote, entry.file_name().as_bytes());
            children.push(Below { path: entry.path(), remote, in_fresh: fresh });
        }
        Ok((Made { path, meta, remote, fresh }, children))
    }

    /// Offers everything in a directory but directories.
    fn walk(&self, queue: &Queue<Job>, names: &mut Names, dir: &Made) -> Result<()> {
        let Some(entries) = self.tally.spare(fs::read_dir(&dir.path).at(&dir.path), self.options)? else {
            return Ok(());
        };
        for entry in entries {
            let Some(entry) = self.tally.spare(entry.at(&dir.path), self.options)? else { continue };
            let path = entry.path();
            // Of what kind it is was told with the directories.
            if entry.file_type().map_or(true, |kind| kind.is_dir()) {
                continue;
            }
            let Some(meta) = self.tally.spare(entry.metadata().at(&path), self.options)? else { continue };
            let remote = join(&dir.remote, entry.file_name().as_bytes());
            if !self.offer(queue, names, Job { path, meta, remote, fresh: dir.fresh }) {
                break;
            }
        }
        Ok(())
    }

    /// Hands a job to the threads, unless it is a further name or of no kind that is kept. `false` after an error.
    fn offer(&self, queue: &Queue<Job>, names: &mut Names, job: Job) -> bool {
        let why = if !job.meta.is_file() && !job.meta.is_symlink() {
            Some(special(&job.meta))
        } else {
            unfinished::is_named(&job.path).then_some(Skipped::Unfinished)
        };
        if let Some(why) = why {
            self.tally.skip(&job.path, why, self.options);
            return true;
        }
        names.first_or_link(job).is_none_or(|job| queue.push(job))
    }

    fn one(&self, job: &Job) -> Result<()> {
        if job.meta.is_symlink() {
            let done = self.symlink(job).on(&job.remote);
            return self.tally.spare(done, self.options).map(|_| ());
        }
        let put = self.file(job).on(&job.remote);
        if let (Err(error), true) = (&put, job.meta.nlink() > 1) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(job.remote.clone(), error.clone());
        }
        let Some(Some((size_bytes, crc))) = self.tally.spare(put, self.options)? else { return Ok(()) };
        match self.options.on_stored {
            Some(on_stored) => on_stored(&job.remote, size_bytes, crc),
            None => Ok(()),
        }
    }

    /// Whether it was not there.
    fn make_dir(&self, meta: &Metadata, remote: &[u8], in_fresh: bool) -> Result<bool> {
        // Writable until everything is in it; the mode is set with the time.
        let make = || self.dir.mkdir(remote, meta.mode() & 0o7777 | 0o700);
        let made = match self.make_new(remote, in_fresh, make) {
            Err(Error::Exists) => match self.dir.lstat(remote)?.kind {
                FileKind::Directory => {
                    unfinished::clear(self.dir, remote)?;
                    false
                }
                there => return Err(Error::OtherKind { there, wanted: FileKind::Directory }),
            },
            other => other.map(|()| true)?,
        };
        self.tally.add(|tally| &tally.dirs, 1, self.options);
        Ok(made)
    }

    fn finish_dir(&self, dir: &Made) -> Result<()> {
        self.set_xattrs(&dir.remote, &local::xattrs(&dir.path)?, dir.fresh)?;
        if dir.fresh || !self.is_right(&self.dir.stat(&dir.remote)?, &dir.meta) {
            self.dir.set_attrs(&dir.remote, &self.attrs(&dir.meta), Follow::Yes)?;
        }
        Ok(())
    }

    /// Makes what has no entry yet; `Exists` if something has the name. That is asked before it is tried: a pool that is full
    /// refuses also what would change nothing.
    fn make_new(&self, remote: &[u8], in_fresh: bool, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let is_new = in_fresh || self.dir.lstat(remote) == Err(Error::NotFound);
        if is_new { make() } else { Err(Error::Exists) }
    }

    /// Whether mode, owner and time are those outside.
    fn is_right(&self, there: &Stat, meta: &Metadata) -> bool {
        let is_owned = !self.options.owner || (there.uid, there.gid) == (meta.uid(), meta.gid());
        let is_mode = meta.is_symlink() || there.permissions == self.mode(meta);
        is_owned && is_mode && there.mtime == local::mtime(meta)
    }

    fn attrs(&self, meta: &Metadata) -> SetAttrs {
        let owner = self.options.owner;
        SetAttrs {
            mode: (!meta.is_symlink()).then_some(self.mode(meta)),
            uid: owner.then_some(meta.uid()),
            gid: owner.then_some(meta.gid()),
            atime: SetTime::Keep,
            mtime: SetTime::To(local::mtime(meta)),
        }
    }

    /// The mode that it gets inside.
    fn mode(&self, meta: &Metadata) -> u32 {
        meta.mode() & self.mode_kept(meta)
    }

    fn mode_kept(&self, meta: &Metadata) -> u32 {
        let kind = FileKind::of_mode(meta.mode()).unwrap_or(FileKind::File);
        self.options.mode_kept(kind, (meta.uid(), meta.gid()), self.dir.owner_of_entries())
    }

    /// The extended attributes that a file gets inside.
    fn xattrs_of(&self, job: &Job) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(xattrs_kept(local::xattrs(&job.path)?, self.mode_kept(&job.meta)))
    }

    /// Makes the extended attributes those given; what is `fresh` has no others.
    fn set_xattrs(&self, remote: &[u8], xattrs: &[(Vec<u8>, Vec<u8>)], fresh: bool) -> Result<()> {
        let there = if fresh { Vec::new() } else { self.dir.xattr_names(remote, Follow::No)? };
        for name in there.iter().filter(|name| xattrs.iter().all(|(kept, _)| kept != *name)) {
            self.dir.remove_xattr(remote, name, Follow::No)?;
        }
        for (name, value) in xattrs {
            // One that is damaged is set anew.
            let is_kept =
                there.contains(name) && self.dir.xattr(remote, name, Follow::No).as_ref() == Ok(value);
            if !is_kept {
                self.dir.set_xattr(remote, name, value, XattrCond::Any, Follow::No)?;
            }
        }
        Ok(())
    }

    fn symlink(&self, Job { path, meta, remote, fresh }: &Job) -> Result<()> {
        let target = fs::read_link(path).at(path)?;
        let target = target.as_os_str().as_bytes();
        let made = match self.make_new(remote, *fresh, || self.dir.symlink(target, remote)) {
            Err(Error::Exists) => match self.there(remote)?.map(|there| there.kind) {
                Some(FileKind::Symlink) if self.dir.readlink(remote).is_ok_and(|there| there == target) => {
                    false
                }
                Some(there @ FileKind::Directory) => {
                    return Err(Error::OtherKind { there, wanted: FileKind::Symlink });
                }
                _ => {
                    self.replace(remote, |unfinished| self.dir.symlink(target, unfinished)).map(|()| true)?
                }
            },
            other => other.map(|()| true)?,
        };
        self.set_xattrs(remote, &local::xattrs(path)?, made)?;
        if made || !self.is_right(&self.dir.lstat(remote)?, meta) {
            self.dir.set_attrs(remote, &self.attrs(meta), Follow::No)?;
        }
        self.tally.add(|tally| &tally.symlinks, 1, self.options);
        Ok(())
    }

    /// Makes an entry under a name of its own and gives it the name `remote`, in place of what has it, at once.
    fn replace<T>(&self, remote: &[u8], make: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let unfinished = unfinished::beside(self.dir.mount(), remote);
        let done = make(&unfinished).and_then(|made| {
            self.dir.rename(&unfinished, self.dir, remote, RenameMode::Replace)?;
            Ok(made)
        });
        if done.is_err() {
            // Ignored: the first error is the one to tell; the name says what is left behind.
            let _removed = self.dir.unlink(&unfinished);
        }
        done
    }

    /// Size and checksum of what was stored; `None` if it was there.
    fn file(&self, job: &Job) -> Result<Option<(u64, u32)>> {
        let there = if job.fresh { None } else { self.there(&job.remote)? };
        match &there {
            Some(Stat { kind: there @ FileKind::Directory, .. }) => {
                return Err(Error::OtherKind { there: *there, wanted: FileKind::File });
            }
            Some(there) if self.options.resume && self.is_there(job, there)? => {
                self.tally.add(|tally| &tally.resumed, 1, self.options);
                return Ok(None);
            }
            _ => {}
        }
        let is_new = there.is_none();
        let (mut changed, mut full) = (0, 0);
        let stored = loop {
            let mut copied = 0;
            match self.store(job, is_new, &mut copied) {
                Err(Error::Changed { .. }) if changed < AGAIN_WHEN_CHANGED => changed += 1,
                Err(Error::Store(error))
                    if matches!(*error, StoreError::NoSpace { .. }) && full < AGAIN_WHEN_FULL =>
                {
                    full += 1;
                }
                done => break done?,
            }
            // What was in vain does not count.
            self.tally.bytes.fetch_sub(copied, Ordering::Relaxed);
        };
        self.tally.add(|tally| &tally.files, 1, self.options);
        Ok(Some(stored))
    }

    /// Stores a state that the file has had, or nothing; adds the bytes that it counts.
    fn store(&self, job: &Job, is_new: bool, copied: &mut u64) -> Result<(u64, u32)> {
        // Opened first: what cannot be read replaces nothing.
        let source = fs::File::open(&job.path).at(&job.path)?;
        let meta = source.metadata().at(&job.path)?;
        if !meta.is_file() {
            return Err(Error::Changed { path: job.path.clone() });
        }
        local::outlast_tick(&meta);
        let job = &Job { path: job.path.clone(), meta, remote: job.remote.clone(), fresh: job.fresh };
        let xattrs = self.xattrs_of(job)?;
        let is_small = job.meta.len() <= SMALL_BYTES_MAX && !local::is_sparse(&job.meta);
        if is_small && xattrs.is_empty() {
            let data = read_small(job, &source)?;
            if data.len() as u64 <= SMALL_BYTES_MAX {
                *copied += data.len() as u64;
                self.tally.add(|tally| &tally.bytes, data.len() as u64, self.options);
                return self.put_whole(job, &source, &data, is_new);
            }
        }
        self.replace(&job.remote, |unfinished| self.put_parts((job, &source), &xattrs, unfinished, copied))
    }

    /// Refuses what was read while somebody wrote it: the parts may be of different states.
    fn check_unchanged(&self, job: &Job, source: &fs::File) -> Result<()> {
        if local::is_unchanged(&job.meta, &source.metadata().at(&job.path)?) {
            Ok(())
        } else {
            Err(Error::Changed { path: job.path.clone() })
        }
    }

    /// What is there to be kept: nothing if it is damaged.
    fn there(&self, remote: &[u8]) -> Result<Option<Stat>> {
        match self.dir.lstat(remote) {
            Err(error) if error == Error::NotFound || error.is_damage() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Makes a small file with everything at once.
    fn put_whole(&self, job: &Job, source: &fs::File, data: &[u8], is_new: bool) -> Result<(u64, u32)> {
        self.check_unchanged(job, source)?;
        let put = |remote: &[u8]| self.dir.put_whole(remote, data, &self.attrs(&job.meta));
        match if is_new { put(&job.remote) } else { Err(Error::Exists) } {
            Err(Error::Exists) => self.replace(&job.remote, put)?,
            other => other?,
        }
        let crc = if self.options.on_stored.is_some() { crc32c(data) } else { 0 };
        Ok((data.len() as u64, crc))
    }

    /// Makes a file part by part.
    fn put_parts(
        &self,
        (job, source): (&Job, &fs::File),
        xattrs: &[(Vec<u8>, Vec<u8>)],
        unfinished: &[u8],
        counted: &mut u64,
    ) -> Result<(u64, u32)> {
        let open = OpenOptions { mode: 0o600, ..OpenOptions::CREATE_NEW };
        let file = self.dir.open(unfinished, &open)?;
        let copied = self.copy(job, source, &file, counted)?;
        self.set_xattrs(unfinished, xattrs, true)?;
        file.set_attrs(&self.attrs(&job.meta))?;
        self.check_unchanged(job, source)?;
        Ok(copied)
    }

    /// Whether the file's contents are there; then everything else is made as it is outside.
    fn is_there(&self, job: &Job, there: &Stat) -> Result<bool> {
        let mtime = local::mtime(&job.meta);
        let is_same =
            there.kind == FileKind::File && there.size_bytes == job.meta.len() && there.mtime == mtime;
        if !is_same || !self.is_its_own(job, there) {
            return Ok(false);
        }
        self.set_xattrs(&job.remote, &self.xattrs_of(job)?, false)?;
        if !self.is_right(there, &job.meta) {
            self.dir.set_attrs(&job.remote, &self.attrs(&job.meta), Follow::No)?;
        }
        Ok(true)
    }

    /// Whether no other file outside has the one that is there.
    fn is_its_own(&self, job: &Job, there: &Stat) -> bool {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        there.links < 2 || job.meta.nlink() > 1 && claimed.insert(there.oid)
    }

    /// Copies what is data; size and checksum of what was read, holes as zeros.
    fn copy(&self, job: &Job, source: &fs::File, file: &File, counted: &mut u64) -> Result<(u64, u32)> {
        // What says that it is empty is read to its end, as in /proc.
        let mut len = if job.meta.len() == 0 { u64::MAX } else { job.meta.len() };
        let mut block = vec![0; usize::try_from(len).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES)];
        let mut crc = crc32c(b"");
        let (mut at, mut written) = (0, 0);
        while at < len {
            let range = if local::is_sparse(&job.meta) {
                local::next_data(source, at, &job.path)?
            } else {
                Some((at, len))
            };
            let (start, end) = range.map_or((len, len), |(start, end)| (start.min(len), end.min(len)));
            crc = self.skip(start - at, crc);
            at = start;
            while at < end {
                self.options.check_stop()?;
                let room = usize::try_from(end - at).unwrap_or(BLOCK_BYTES).min(block.len());
                let read = source.read_at(&mut block[..room], at).at(&job.path)?;
                if read == 0 && local::is_end(source, &job.meta, at, &job.path)? {
                    len = at;
                    break;
                }
                if read == 0 {
                    // It was cut while it was read.
                    return Err(Error::Changed { path: job.path.clone() });
                }
                file.write_at(at, &block[..read])?;
                if self.options.on_stored.is_some() {
                    crc = crc32c_append(crc, &block[..read]);
                }
                at += read as u64;
                written = at;
                *counted += read as u64;
                self.tally.add(|tally| &tally.bytes, read as u64, self.options);
            }
        }
        // A hole at the end: nothing was written there.
        if written < len {
            file.set_len(len)?;
        }
        Ok((len, crc))
    }

    /// The checksum after a hole.
    fn skip(&self, hole_bytes: u64, mut crc: u32) -> u32 {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut left = if self.options.on_stored.is_some() { hole_bytes } else { 0 };
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
            crc = crc32c_append(crc, &ZEROS[..now]);
            left -= now as u64;
        }
        crc
    }

    fn link(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(old).cloned();
        if let Some(error) = failed {
            return Err(error);
        }
        match self.make_new(new, false, || self.dir.link(old, self.dir, new)) {
            Err(Error::Exists) => match self.there(new)? {
                Some(Stat { kind: there @ FileKind::Directory, .. }) => {
                    return Err(Error::OtherKind { there, wanted: FileKind::File });
                }
                Some(there) if there.oid == self.dir.lstat(old)?.oid => {}
                _ => self.replace(new, |unfinished| self.dir.link(old, self.dir, unfinished))?,
            },
            other => other?,
        }
        self.tally.add(|tally| &tally.links, 1, self.options);
        Ok(())
    }
}

/// A small file; of one that says that it is empty one byte more than a small one has, if there are so many.
fn read_small(job: &Job, source: &fs::File) -> Result<Vec<u8>> {
    let len = if job.meta.len() == 0 { SMALL_BYTES_MAX + 1 } else { job.meta.len() };
    let mut data = Vec::with_capacity(usize::try_from(job.meta.len()).unwrap_or(0) + 1);
    source.take(len).read_to_end(&mut data).at(&job.path)?;
    Ok(data)
}

impl Names {
    /// The job back if this is the first name of its file; else a link is noted.
    fn first_or_link(&mut self, job: Job) -> Option<Job> {
        if !job.meta.is_file() || job.meta.nlink() < 2 {
            return Some(job);
        }
        let key = (job.meta.dev(), job.meta.ino());
        if let Some(first) = self.first.get(&key) {
            self.links.push((first.clone(), job.remote));
            return None;
        }
        self.first.insert(key, job.remote.clone());
        Some(job)
    }
}
