//! From a directory tree outside into the container.

use super::local::{self, OnPath};
use super::queue::{self, Queue};
use super::{BLOCK_BYTES, Counts, OnFile, Options, Remote, Tally, join};
use crate::attr::{SetAttrs, SetTime, XattrCond};
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result};
use crate::file::File;
use crate::layout::inode::FileKind;
use crate::resolve::Follow;
use dolmen_types::{ObjectClass, crc32c, crc32c_append};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Files above this size get all targets: 64 chunks keep them all busy.
const WIDE_BYTES_MIN: u64 = 64 << 20;

/// A file to be put.
struct Job {
    path: PathBuf,
    meta: Metadata,
    remote: Remote,
    /// The directory was made in this run: nothing can be there.
    fresh: bool,
}

/// What can only be done when all files are there.
#[derive(Default)]
struct Later {
    /// First names of files with several, by device and inode.
    first_names: HashMap<(u64, u64), Remote>,
    /// Their further names: old and new.
    links: Vec<(Remote, Remote)>,
    /// Directories in the order they were found, parents first.
    dirs: Vec<(PathBuf, Metadata, Remote)>,
}

struct Put<'a> {
    dir: &'a Dir,
    options: &'a Options<'a>,
    tally: Tally,
}

/// Puts the file, symbolic link or directory tree `local` at `remote`, which is merged into if both are
/// directories; files of the same name are overwritten.
///
/// # Errors
/// The first error of any file, with its path; what was put until then stays.
pub fn put(local: &Path, dir: &Dir, remote: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Counts> {
    let put = Put { dir, options, tally: Tally::default() };
    let mut later = Later::default();
    let produce = |queue: &Queue<Job>| {
        let meta = fs::symlink_metadata(local).at(local)?;
        put.walk(queue, &mut later, local.to_owned(), meta, remote.as_ref().to_vec())
    };
    queue::run(options, produce, |job: Job| put.file(&job).on(&job.remote))?;
    for (old, new) in &later.links {
        put.link(old, new).on(new)?;
    }
    // Children first: what is put into a directory changes its time.
    for (path, meta, remote) in later.dirs.iter().rev() {
        put.finish_dir(path, meta, remote).on(remote)?;
    }
    Ok(put.tally.counts())
}

impl Put<'_> {
    fn walk(
        &self,
        queue: &Queue<Job>,
        later: &mut Later,
        path: PathBuf,
        meta: Metadata,
        remote: Remote,
    ) -> Result<()> {
        let mut pending = vec![(path, meta, remote, false)];
        while let Some((path, meta, remote, fresh)) = pending.pop() {
            if meta.is_dir() {
                let made = self.make_dir(&meta, &remote).on(&remote)?;
                let mut children = Vec::new();
                for entry in fs::read_dir(&path).at(&path)? {
                    let entry = entry.at(&path)?;
                    let (path, meta) = (entry.path(), entry.metadata().at(&entry.path())?);
                    children.push((path, meta, join(&remote, entry.file_name().as_bytes()), made));
                }
                later.dirs.push((path, meta, remote));
                pending.append(&mut children);
            } else if meta.is_symlink() {
                self.symlink(&path, &meta, &remote).on(&remote)?;
            } else if !meta.is_file() {
                self.tally.add(|tally| &tally.skipped, 1, self.options);
            } else if let Some(job) = later.first_or_link(Job { path, meta, remote, fresh })
                && !queue.push(job)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether it was not there.
    fn make_dir(&self, meta: &Metadata, remote: &[u8]) -> Result<bool> {
        // Writable until everything is in it; the mode is set with the time.
        let made = match self.dir.mkdir(remote, meta.mode() & 0o7777 | 0o700) {
            Err(Error::Exists) if self.dir.stat(remote)?.kind == FileKind::Directory => false,
            other => other.map(|()| true)?,
        };
        self.tally.add(|tally| &tally.dirs, 1, self.options);
        Ok(made)
    }

    fn finish_dir(&self, path: &Path, meta: &Metadata, remote: &[u8]) -> Result<()> {
        self.xattrs(path, remote)?;
        self.dir.set_attrs(remote, &self.attrs(meta), Follow::Yes)
    }

    fn attrs(&self, meta: &Metadata) -> SetAttrs {
        let owner = self.options.owner;
        SetAttrs {
            mode: (!meta.is_symlink()).then_some(meta.mode() & 0o7777),
            uid: owner.then_some(meta.uid()),
            gid: owner.then_some(meta.gid()),
            mtime: SetTime::To(local::mtime(meta)),
        }
    }

    fn xattrs(&self, path: &Path, remote: &[u8]) -> Result<()> {
        for (name, value) in local::xattrs(path)? {
            self.dir.set_xattr(remote, name, value, XattrCond::Any, Follow::No)?;
        }
        Ok(())
    }

    fn symlink(&self, path: &Path, meta: &Metadata, remote: &[u8]) -> Result<()> {
        let target = fs::read_link(path).at(path)?;
        let target = target.as_os_str().as_bytes();
        match self.dir.symlink(target, remote) {
            Err(Error::Exists) => match self.dir.lstat(remote)?.kind {
                FileKind::Symlink if self.dir.readlink(remote)? == target => {}
                FileKind::Directory => return Err(Error::IsDirectory),
                _ => {
                    self.dir.unlink(remote)?;
                    self.dir.symlink(target, remote)?;
                }
            },
            other => other?,
        }
        self.dir.set_attrs(remote, &self.attrs(meta), Follow::No)?;
        self.tally.add(|tally| &tally.symlinks, 1, self.options);
        Ok(())
    }

    fn file(&self, job: &Job) -> Result<()> {
        if self.options.resume && !job.fresh && self.is_there(job)? {
            self.tally.add(|tally| &tally.resumed, 1, self.options);
            return Ok(());
        }
        let wide = job.meta.len() >= WIDE_BYTES_MIN;
        let open = OpenOptions {
            truncate: true,
            no_follow: true,
            mode: job.meta.mode() & 0o7777 | 0o600,
            class: if wide { ObjectClass::SX } else { ObjectClass::UNKNOWN },
            ..OpenOptions::CREATE
        };
        let file = match self.dir.open(&job.remote, &open) {
            // A symbolic link in the way is replaced, not followed out of the tree.
            Err(Error::SymlinkLoop) => {
                self.dir.unlink(&job.remote)?;
                self.dir.open(&job.remote, &open)?
            }
            other => other?,
        };
        let (size_bytes, crc) = self.copy(job, &file)?;
        self.xattrs(&job.path, &job.remote)?;
        file.set_attrs(&self.attrs(&job.meta))?;
        if let Some(on_stored) = self.options.on_stored {
            on_stored(&job.remote, size_bytes, crc)?;
        }
        self.tally.add(|tally| &tally.files, 1, self.options);
        Ok(())
    }

    fn is_there(&self, job: &Job) -> Result<bool> {
        match self.dir.lstat(&job.remote) {
            Ok(stat) => Ok(stat.kind == FileKind::File
                && stat.size_bytes == job.meta.len()
                && stat.mtime == local::mtime(&job.meta)),
            Err(Error::NotFound) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Copies what is data; size and checksum of what was read, holes as zeros.
    fn copy(&self, job: &Job, file: &File) -> Result<(u64, u32)> {
        let source = fs::File::open(&job.path).at(&job.path)?;
        let len = job.meta.len();
        let mut block = vec![0; usize::try_from(len).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES)];
        let mut crc = crc32c(b"");
        let (mut at, mut written) = (0, 0);
        while at < len {
            let range = if local::is_sparse(&job.meta) {
                local::next_data(&source, at, &job.path)?
            } else {
                Some((at, len))
            };
            // Data that was appended meanwhile is left for the next put.
            let (start, end) = range.map_or((len, len), |(start, end)| (start.min(len), end.min(len)));
            crc = self.skip(start - at, crc);
            at = start;
            while at < end {
                let room = usize::try_from(end - at).unwrap_or(BLOCK_BYTES).min(block.len());
                let read = source.read_at(&mut block[..room], at).at(&job.path)?;
                if read == 0 {
                    // The file was cut while it was read: what it is now is what is kept.
                    return Ok((at, crc));
                }
                file.write_at(at, &block[..read])?;
                if self.options.on_stored.is_some() {
                    crc = crc32c_append(crc, &block[..read]);
                }
                at += read as u64;
                written = at;
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
        match self.dir.link(old, self.dir, new) {
            Err(Error::Exists) if self.dir.lstat(old)?.oid == self.dir.lstat(new)?.oid => {}
            Err(Error::Exists) => {
                self.dir.unlink(new)?;
                self.dir.link(old, self.dir, new)?;
            }
            other => other?,
        }
        self.tally.add(|tally| &tally.links, 1, self.options);
        Ok(())
    }
}

impl Later {
    /// The job back if this is the first name of its file; else a link is noted.
    fn first_or_link(&mut self, job: Job) -> Option<Job> {
        if job.meta.nlink() < 2 {
            return Some(job);
        }
        let key = (job.meta.dev(), job.meta.ino());
        if let Some(first) = self.first_names.get(&key) {
            self.links.push((first.clone(), job.remote));
            return None;
        }
        self.first_names.insert(key, job.remote.clone());
        Some(job)
    }
}
