//! The directory of a pool: who owns it, what is in it, its small files.
//!
//! Invariants: one process owns the directory while a [`RealRoot`] of it lives; a small file is the old one
//! or the new one after any crash, never a mixture.

use crate::disk::checked_name;
use crate::error::{Error, Op, Result};
use crate::real::{RealDisk, RealOptions};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, fstat, openat};
use rustix::io::{Errno, pread, pwrite};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file that is locked, and holds the owner's process id in decimal.
const LOCK_NAME: &str = ".owner";

/// Bytes of that file. It never changes its length, so that a full file system keeps nobody from owning the
/// directory: what is written lies where the file has its space already.
const LOCK_BYTES: usize = 16;

/// Largest small file: a pool's description is a few hundred bytes; a larger one is not ours.
const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;

/// Exclusive ownership of a directory; ends with the value, or with the process however it dies.
#[derive(Debug)]
pub struct DirLock {
    file: OwnedFd,
}

impl DirLock {
    /// Takes the directory.
    ///
    /// # Errors
    /// [`Error::Owned`] with the owner's pid if another process, or another lock of this one, has it.
    pub fn acquire(dir: &Path) -> Result<Self> {
        Self::own(dir).map_err(lock_failed(dir))
    }

    /// Takes the directory to read what is in it, also where nothing may be written. Others then learn only that
    /// there is an owner.
    ///
    /// # Errors
    /// As [`DirLock::acquire`].
    pub fn acquire_to_read(dir: &Path) -> Result<Self> {
        let taken = match Self::own(dir) {
            Err(Refused::Errno(Errno::ROFS | Errno::ACCESS)) => Self::lock(dir, OFlags::RDONLY),
            taken => taken,
        };
        taken.map_err(lock_failed(dir))
    }

    fn own(dir: &Path) -> core::result::Result<Self, Refused> {
        let lock = Self::lock(dir, OFlags::RDWR | OFlags::CREATE)?;
        match write_owner(&lock.file, &std::process::id().to_string()) {
            // The lock is what counts: without space for the pid, others learn only that there is an owner.
            Ok(()) | Err(Errno::NOSPC | Errno::DQUOT) => Ok(lock),
            Err(errno) => Err(Refused::Errno(errno)),
        }
    }

    fn lock(dir: &Path, access: OFlags) -> core::result::Result<Self, Refused> {
        let path = dir.join(LOCK_NAME);
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = openat(rustix::fs::CWD, &path, flags, mode).map_err(Refused::Errno)?;
        give_to_owner_of(dir, &file).map_err(Refused::Errno)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(Refused::Owned { pid: owner_of(&file) }),
            Err(errno) => Err(Refused::Errno(errno)),
        }
    }
}

/// Why a directory could not be taken.
enum Refused {
    Owned { pid: u32 },
    Errno(Errno),
}

fn lock_failed(dir: &Path) -> impl Fn(Refused) -> Error {
    let name = dir.join(LOCK_NAME).display().to_string();
    move |refused| match refused {
        Refused::Owned { pid } => Error::Owned { pid },
        Refused::Errno(errno) => Error::from_errno(Op::Lock, &name, 0, errno),
    }
}

/// Gives a file that the superuser has made to the owner of the directory that it is in, who could not use it
/// otherwise; for everybody else nothing changes.
pub(crate) fn give_to_owner(dir: &impl AsFd, file: &impl AsFd) -> rustix::io::Result<()> {
    let (above, own) = (fstat(dir)?, fstat(file)?);
    let is_other = (above.st_uid, above.st_gid) != (own.st_uid, own.st_gid);
    if is_other && rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(above.st_uid), Gid::from_raw(above.st_gid));
        fchown(file, Some(uid), Some(gid))?;
    }
    Ok(())
}

fn give_to_owner_of(dir: &Path, file: &impl AsFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    give_to_owner(&openat(rustix::fs::CWD, dir, flags, Mode::empty())?, file)
}

/// Writes who owns the directory, in place.
fn write_owner(file: &OwnedFd, pid: &str) -> core::result::Result<(), Errno> {
    let line = format!("{pid:<width$}\n", width = LOCK_BYTES - 1);
    pwrite(file, line.as_bytes(), 0).map(drop)
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // A pid left behind would mislead whoever looks at the file. Ignored: the lock ends with the
        // descriptor in any case.
        let _cleared = write_owner(&self.file, "");
        // Now, not when the last copy of the descriptor is closed: another thread may be starting a process, which
        // has one until it runs its program. Ignored: as above.
        let _unlocked = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The pid in the lock file; 0 while the owner is between locking and writing.
fn owner_of(file: &OwnedFd) -> u32 {
    let mut text = [0; LOCK_BYTES];
    let len = pread(file, &mut text, 0).unwrap_or(0);
    core::str::from_utf8(&text[..len]).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// An owned directory of this machine: a pool, with a subdirectory for each target.
#[derive(Debug)]
pub struct RealRoot {
    dir: PathBuf,
    _lock: DirLock,
}

impl RealRoot {
    /// Creates the directory (its parents, too) and owns it. Parents that it makes are durable when this
    /// returns, the directory itself not before [`RealRoot::sync`].
    ///
    /// # Errors
    /// [`Error::Exists`] if it exists and is not empty; [`Error::Owned`].
    pub fn create(dir: &Path) -> Result<Self> {
        let failed = failed_on(Op::Create, dir);
        create_parents(dir, sync_dir)?;
        fs::create_dir_all(dir).map_err(failed)?;
        let lock = DirLock::acquire(dir)?;
        let root = Self { dir: dir.to_owned(), _lock: lock };
        if root.entries()?.is_empty() {
            Ok(root)
        } else {
            Err(Error::Exists { name: dir.display().to_string() })
        }
    }

    /// Owns an existing directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Owned`] with the owner's pid.
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self { dir: existing(dir)?, _lock: DirLock::acquire(dir)? })
    }

    /// Owns an existing directory to read what is in it; nothing may be written, and it may lie where nothing can be.
    ///
    /// # Errors
    /// As [`RealRoot::open`].
    pub fn open_to_read(dir: &Path) -> Result<Self> {
        Ok(Self { dir: existing(dir)?, _lock: DirLock::acquire_to_read(dir)? })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Names of the subdirectories, sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn subdirectories(&self) -> Result<Vec<OsString>> {
        subdirectories(&self.dir)
    }

    /// Names of all entries but the lock, sorted; a name that is no UTF-8 is shown with replacements.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn entries(&self) -> Result<Vec<String>> {
        let mut names = entries(&self.dir)?;
        names.retain(|name| name != LOCK_NAME);
        Ok(names)
    }

    /// Creates a subdirectory and opens it as a disk.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::NoSpace`].
    pub fn create_disk(&self, name: &str, options: RealOptions) -> Result<RealDisk> {
        let path = self.dir.join(checked_name(name)?);
        fs::create_dir(&path).map_err(failed_on(Op::Create, &path))?;
        let given = File::open(&path).and_then(|made| Ok(give_to_owner_of(&self.dir, &made)?));
        given.map_err(failed_on(Op::Create, &path))?;
        RealDisk::with_options(&path, options)
    }

    /// Opens a subdirectory as a disk.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`].
    pub fn open_disk(&self, name: &str, options: RealOptions) -> Result<RealDisk> {
        RealDisk::with_options(&self.dir.join(checked_name(name)?), options)
    }

    /// Reads a small file.
    ///
    /// # Errors
    /// As [`read_small`].
    pub fn read_small(&self, name: &str) -> Result<Vec<u8>> {
        read_small(&self.dir, name)
    }

    /// Replaces (or creates) a small file in one durable step.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; the old contents stay.
    pub fn write_small(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(checked_name(name)?);
        let fresh = self.dir.join(format!(".{name}.new"));
        let failed = failed_on(Op::Write, &path);
        let written = File::create(&fresh)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                give_to_owner_of(&self.dir, &file)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&fresh, &path));
        if let Err(error) = written {
            // Ignored: the write has failed already, and the next one replaces what is left of it.
            let _removed = fs::remove_file(&fresh);
            return Err(failed(error));
        }
        self.sync()
    }

    /// Makes the names in the directory durable, and its own name in its parent.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        sync_dir(&self.dir)?;
        let own = fs::canonicalize(&self.dir).map_err(failed_on(Op::SyncNames, &self.dir))?;
        own.parent().map_or(Ok(()), sync_dir)
    }

    /// Removes the directory and all that is in it; of a symbolic link that leads to it, the link too.
    ///
    /// The small file `first` goes first and durably, so that a removal cut short leaves no directory that
    /// still looks like a pool.
    ///
    /// # Errors
    /// [`Error::Io`]; calling it again goes on.
    pub fn remove_tree(self, first: &str) -> Result<()> {
        let path = self.dir.join(checked_name(first)?);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed_on(Op::Remove, &path)(error));
            }
            _ => sync_dir(&self.dir)?,
        }
        let failed = failed_on(Op::Remove, &self.dir);
        fs::remove_dir_all(fs::canonicalize(&self.dir).map_err(&failed)?).map_err(&failed)?;
        // Without a slash at its end, which would mean what the link leads to.
        let name: PathBuf = self.dir.components().collect();
        if name.is_symlink() { fs::remove_file(&name).map_err(&failed) } else { Ok(()) }
    }
}

/// A directory that is there.
fn existing(dir: &Path) -> Result<PathBuf> {
    let failed = failed_on(Op::Open, dir);
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(dir.to_owned()),
        Ok(_) => Err(failed(std::io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(failed(error)),
    }
}

/// Names of the subdirectories of a directory that need not be owned, sorted.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Io`].
pub fn subdirectories(dir: &Path) -> Result<Vec<OsString>> {
    let failed = failed_on(Op::List, dir);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if entry.file_type().map_err(&failed)?.is_dir() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// Names of all entries of a directory that need not be owned, sorted; a name that is no UTF-8 is shown with
/// replacements.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Io`].
pub fn entries(dir: &Path) -> Result<Vec<String>> {
    let failed = failed_on(Op::List, dir);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(&failed)? {
        names.push(entry.map_err(&failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads a small file of a directory that need not be owned; [`RealRoot::write_small`] replaces such a file
/// in one step, so a reader sees the old one or the new one.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::OutOfRange`] if it is longer than a mebibyte.
pub fn read_small(dir: &Path, name: &str) -> Result<Vec<u8>> {
    let path = dir.join(checked_name(name)?);
    let failed = failed_on(Op::Read, &path);
    let file_bytes = fs::metadata(&path).map_err(&failed)?.len();
    if file_bytes > SMALL_FILE_BYTES_MAX {
        let name = name.to_owned();
        return Err(Error::OutOfRange { name, offset: 0, len_bytes: SMALL_FILE_BYTES_MAX, file_bytes });
    }
    fs::read(&path).map_err(&failed)
}

/// Makes the parents that `dir` lacks, outermost first, and gives `sync` the directory that each is named in.
fn create_parents(dir: &Path, mut sync: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    let parents = dir.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let missing: Vec<&Path> = parents.take_while(|parent| !parent.exists()).collect();
    for parent in missing.into_iter().rev() {
        // Another process may have made it meanwhile, and not yet synced it.
        fs::create_dir_all(parent).map_err(failed_on(Op::Create, parent))?;
        let holder = parent.parent().filter(|holder| !holder.as_os_str().is_empty());
        sync(holder.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed_on(Op::SyncNames, dir))
}

fn failed_on(op: Op, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let name = path.display().to_string();
    move |error| Error::from_std(op, &name, &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_every_parent_that_is_made_is_synced() {
        let root = std::env::temp_dir().join(format!("dolmen-parents-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let dir = root.join("a/b/pool");
        for expected in [vec![root.clone(), root.join("a")], Vec::new()] {
            let mut synced = Vec::new();
            create_parents(&dir, |holder| {
                synced.push(holder.to_owned());
                Ok(())
            })
            .unwrap();
            assert_eq!(synced, expected);
            assert!(root.join("a/b").is_dir());
        }
        assert!(!dir.exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
