//! The directory of a pool: who owns it, what is in it, its small files.
//!
//! Invariants: one process owns the directory while a [`RealRoot`] of it lives; a small file is the old one
//! or the new one after any crash, never a mixture. What is read, written and opened lies in the directory that was
//! locked, wherever that has been moved since, and never in another one that has its name now.

use crate::disk::checked_name;
use crate::error::{Error, Op, Result};
use crate::process::is_ending;
use crate::real::{RealDisk, RealOptions};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, fstat, mkdirat, openat,
    renameat, statat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that is locked, and holds the owner's process id in decimal.
const LOCK_NAME: &str = ".owner";

/// Bytes of that file. It never changes its length, so that a full file system keeps nobody from owning the
/// directory: what is written lies where the file has its space already.
const LOCK_BYTES: usize = 16;

/// How often to look whether an owner that is ending has ended, and how long to rest in between: two seconds in all.
const ENDING_LOOKS: u32 = 400;
const ENDING_REST: core::time::Duration = core::time::Duration::from_millis(5);

/// How long to rest for who looks whether a directory is owned.
const LOOK_REST: core::time::Duration = core::time::Duration::from_millis(1);

/// Largest small file: a pool's description is a few hundred bytes; a larger one is not ours.
const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;

/// Exclusive ownership of a directory; ends with the value, or with the process however it dies.
#[derive(Debug)]
pub struct DirLock {
    /// None once it was handed over.
    file: Option<OwnedFd>,
}

impl DirLock {
    /// Takes the directory.
    ///
    /// # Errors
    /// [`Error::Owned`] with the owner's pid if another process, or another lock of this one, has it.
    pub fn acquire(dir: &Path) -> Result<Self> {
        Self::own(&opened(dir)?).map_err(lock_failed(dir))
    }

    fn own(dir: &OwnedFd) -> core::result::Result<Self, Refused> {
        let lock = Self::lock(dir, OFlags::RDWR | OFlags::CREATE)?;
        let written =
            lock.file.as_ref().map_or(Ok(()), |file| write_owner(file, &std::process::id().to_string()));
        match written {
            // The lock is what counts: without space for the pid, others learn only that there is an owner.
            Ok(()) | Err(Errno::NOSPC | Errno::DQUOT) => Ok(lock),
            Err(errno) => Err(Refused::Errno(errno)),
        }
    }

    /// Takes the directory to read what is in it, also where nothing may be written. Others then learn only that
    /// there is an owner.
    fn own_to_read(dir: &OwnedFd) -> core::result::Result<Self, Refused> {
        match Self::own(dir) {
            Err(Refused::Errno(Errno::ROFS | Errno::ACCESS)) => Self::lock(dir, OFlags::RDONLY),
            taken => taken,
        }
    }

    fn lock(dir: &OwnedFd, access: OFlags) -> core::result::Result<Self, Refused> {
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = openat(dir, LOCK_NAME, flags, mode).map_err(Refused::Errno)?;
        give_to_owner(dir, &file).map_err(Refused::Errno)?;
        for _ in 0..ENDING_LOOKS {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { file: Some(file) }),
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(Refused::Errno(errno)),
            }
            if !is_locked(&file) {
                // Somebody looks whether it is, as this did.
                crate::thread::wait(LOOK_REST);
                continue;
            }
            let pid = owner_of(&file);
            // One that was killed a moment ago is not in the way.
            if pid == 0 || pid == std::process::id() || !is_ending(pid) {
                return Err(Refused::Owned { pid });
            }
            crate::thread::wait(ENDING_REST);
        }
        Err(Refused::Owned { pid: owner_of(&file) })
    }

    /// Hands the lock over to whom the descriptor is given: it ends with the last copy of that, or when [`unlock`] is called with
    /// any of them.
    pub(crate) fn into_descriptor(mut self) -> OwnedFd {
        let file = self.file.take().expect("handed over once");
        // Who has it now is not known, and runs for as long as it is locked. Ignored: as when it is dropped.
        let _cleared = write_owner(&file, "");
        file
    }

    /// The process that owns a directory, as far as that is known, and runs: also one that is about to let go of it. Nobody does whose
    /// number was left there, and is another's now.
    #[must_use]
    pub fn owner(dir: &Path) -> Option<u32> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(opened(dir).ok()?, LOCK_NAME, flags, Mode::empty()).ok()?;
        let pid = owner_of(&file);
        (pid != 0 && crate::process::is_there(pid) && is_locked(&file)).then_some(pid)
    }
}

/// Whether somebody owns a directory, by its lock file. Others that look at the same time are in nobody's way: that is shared.
fn is_locked(file: &OwnedFd) -> bool {
    let is_free = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if is_free {
        unlock(file);
    }
    !is_free
}

/// Ends a lock, also one that was handed over, whoever has copies of its descriptor: a process that was forked meanwhile has one for
/// as long as it lives.
pub(crate) fn unlock(file: &OwnedFd) {
    // Ignored: then it ends with the last copy.
    let _unlocked = flock(file, FlockOperation::Unlock);
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

/// Writes who owns the directory, in place.
fn write_owner(file: &OwnedFd, pid: &str) -> core::result::Result<(), Errno> {
    let line = format!("{pid:<width$}\n", width = LOCK_BYTES - 1);
    pwrite(file, line.as_bytes(), 0).map(drop)
}

impl Drop for DirLock {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        // A pid left behind would mislead whoever looks at the file. Ignored: the lock ends with the
        // descriptor in any case.
        let _cleared = write_owner(file, "");
        // Now, not when the last copy of the descriptor is closed: another thread may be starting a process, which
        // has one until it runs its program.
        unlock(file);
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
    /// As it was named; it may have been moved since.
    path: PathBuf,
    dir: OwnedFd,
    /// It was made with this value.
    is_new: bool,
    _lock: DirLock,
}

impl RealRoot {
    /// Creates the directory, which nobody else may look into (its parents, too, which are as usual), and owns it. One that
    /// is there stays as open as it is. Parents that it makes are durable when this returns, the directory itself not before
    /// [`RealRoot::sync`].
    ///
    /// # Errors
    /// [`Error::Exists`] if it exists and is not empty; [`Error::Owned`]. A directory that was made here is then removed.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = failed_on(Op::Create, path);
        create_parents(path, sync_dir)?;
        let is_new = !path.exists();
        if !is_new && is_used(path) {
            // Before it is locked: nothing is left in what is somebody's.
            return Err(Error::Exists { name: path.display().to_string() });
        }
        fs::DirBuilder::new().recursive(true).mode(OWN_DIRECTORY).create(path).map_err(failed)?;
        let root = match Self::owned(path, DirLock::own).map(|root| Self { is_new, ..root }) {
            Err(error) if is_new => {
                // Ignored: why it cannot be used says more; what somebody else has put there keeps it.
                let _removed = fs::remove_dir(path);
                return Err(error);
            }
            other => other?,
        };
        if root.entries()?.is_empty() {
            Ok(root)
        } else {
            Err(Error::Exists { name: path.display().to_string() })
        }
    }

    /// Owns an existing directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Owned`] with the owner's pid.
    pub fn open(path: &Path) -> Result<Self> {
        Self::owned(path, DirLock::own)
    }

    /// Owns an existing directory to read what is in it; nothing may be written, and it may lie where nothing can be.
    /// Others may then learn only that there is an owner.
    ///
    /// # Errors
    /// As [`RealRoot::open`].
    pub fn open_to_read(path: &Path) -> Result<Self> {
        Self::owned(path, DirLock::own_to_read)
    }

    fn owned(
        path: &Path,
        own: impl FnOnce(&OwnedFd) -> core::result::Result<DirLock, Refused>,
    ) -> Result<Self> {
        let dir = opened(path)?;
        let lock = own(&dir).map_err(lock_failed(path))?;
        Ok(Self { path: path.to_owned(), dir, is_new: false, _lock: lock })
    }

    /// The directory, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the directory: what tells it from others that have its name, or had it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn id(&self) -> Result<(u64, u64)> {
        let stat = fstat(&self.dir).map_err(self.failed(Op::Stat))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Names of the subdirectories, sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn subdirectories(&self) -> Result<Vec<OsString>> {
        let failed = self.failed(Op::List);
        let mut names = self.names()?;
        let mut error = None;
        names.retain(|name| match statat(&self.dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            Err(Errno::NOENT) => false,
            Err(errno) => {
                error = Some(errno);
                false
            }
        });
        error.map_or(Ok(names), |errno| Err(failed(errno)))
    }

    /// Names of all entries but the lock, sorted; a name that is no UTF-8 is shown with replacements.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn entries(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> =
            self.names()?.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != LOCK_NAME);
        names.sort();
        Ok(names)
    }

    /// All names, sorted.
    fn names(&self) -> Result<Vec<OsString>> {
        let failed = self.failed(Op::List);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Creates a subdirectory and opens it as a disk.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::NoSpace`].
    pub fn create_disk(&self, name: &str, options: RealOptions) -> Result<RealDisk> {
        let path = self.path.join(checked_name(name)?);
        let failed = |errno| failed_on(Op::Create, &path)(std::io::Error::from(errno));
        mkdirat(&self.dir, name, Mode::from_raw_mode(OWN_DIRECTORY)).map_err(failed)?;
        let made = openat(&self.dir, name, DIRECTORY, Mode::empty()).map_err(failed)?;
        give_to_owner(&self.dir, &made).map_err(failed)?;
        RealDisk::of(made, &path, options)
    }

    /// Opens a subdirectory as a disk.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`].
    pub fn open_disk(&self, name: &str, options: RealOptions) -> Result<RealDisk> {
        let path = self.path.join(checked_name(name)?);
        let failed = |errno| failed_on(Op::Open, &path)(std::io::Error::from(errno));
        RealDisk::of(openat(&self.dir, name, DIRECTORY, Mode::empty()).map_err(failed)?, &path, options)
    }

    /// Opens a root, which is made if there is none.
    ///
    /// # Errors
    /// As [`RealRoot::open`] and [`RealRoot::create`].
    pub fn open_or_create(dir: &Path) -> Result<Self> {
        match Self::open(dir) {
            Err(error) if error.is_not_found() => Self::create(dir),
            opened => opened,
        }
    }

    /// Reads a small file.
    ///
    /// # Errors
    /// As [`read_small`].
    pub fn read_small(&self, name: &str) -> Result<Vec<u8>> {
        read_from(&self.dir, &self.path.join(checked_name(name)?), OsStr::new(name), name)
    }

    /// Replaces (or creates) a small file in one durable step.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; the old contents stay.
    pub fn write_small(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(checked_name(name)?);
        replaced(&self.dir, name, bytes).map_err(failed_on(Op::Write, &path))?;
        self.sync()
    }

    /// Makes the names in the directory durable, and its own name in its parent.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        let failed = self.failed(Op::SyncNames);
        rustix::fs::fsync(&self.dir).map_err(&failed)?;
        let above = openat(&self.dir, "..", DIRECTORY, Mode::empty()).map_err(&failed)?;
        rustix::fs::fsync(above).map_err(&failed)
    }

    /// Removes what was made in a directory that was empty before; a directory that was made for it, too. The small file `first`
    /// goes first, as with [`RealRoot::remove_tree`].
    ///
    /// # Errors
    /// As [`RealRoot::remove_tree`].
    pub fn take_back(self, first: &str) -> Result<()> {
        if self.is_new {
            return self.remove_tree(first);
        }
        let real = self.about_to_go(first)?;
        let failed = failed_on(Op::Remove, &self.path);
        for name in self.names()? {
            let path = real.join(&name);
            let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.map_err(&failed)?;
        }
        self.sync()
    }

    /// Removes the directory and all that is in it; of a symbolic link that leads to it, the link too.
    ///
    /// The small file `first` goes first and durably, so that a removal cut short leaves no directory that
    /// still looks like a pool.
    ///
    /// # Errors
    /// [`Error::Io`]; calling it again goes on. [`Error::NotFound`] if another directory has the name by now.
    pub fn remove_tree(self, first: &str) -> Result<()> {
        let real = self.about_to_go(first)?;
        let failed = failed_on(Op::Remove, &self.path);
        fs::remove_dir_all(real).map_err(&failed)?;
        // Without a slash at its end, which would mean what the link leads to.
        let name: PathBuf = self.path.components().collect();
        if name.is_symlink() { fs::remove_file(&name).map_err(&failed) } else { Ok(()) }
    }

    /// Where the directory is whose contents are about to be removed, after `first` is.
    fn about_to_go(&self, first: &str) -> Result<PathBuf> {
        let path = self.path.join(checked_name(first)?);
        match unlinkat(&self.dir, first, AtFlags::empty()) {
            Err(errno) if errno != Errno::NOENT => return Err(failed_on(Op::Remove, &path)(errno.into())),
            _ => rustix::fs::fsync(&self.dir).map_err(self.failed(Op::SyncNames))?,
        }
        let failed = failed_on(Op::Remove, &self.path);
        let real = fs::canonicalize(&self.path).map_err(&failed)?;
        let there = fstat(opened(&real)?).map_err(self.failed(Op::Stat))?;
        if (there.st_dev, there.st_ino) != self.id()? {
            return Err(failed(Errno::NOENT.into()));
        }
        Ok(real)
    }

    fn failed(&self, op: Op) -> impl Fn(Errno) -> Error {
        let failed = failed_on(op, &self.path);
        move |errno| failed(errno.into())
    }
}

/// What is made for its owner alone: who may see what, is for an engine to say, and not for who can read its files.
const OWN_DIRECTORY: u32 = 0o700;
const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What a small file is called until it takes its place; one that was cut short leaves it.
#[must_use]
pub fn unfinished_name(name: &str) -> String {
    format!(".{name}.new")
}

/// Writes a file and puts it in the place of what has its name in `dir`, which is not flushed here. What fails leaves the old one.
pub(crate) fn replaced(dir: &OwnedFd, name: &str, bytes: &[u8]) -> std::io::Result<File> {
    let fresh = unfinished_name(name);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let write = || {
        let mut file = File::from(openat(dir, &*fresh, flags, OWN_FILE)?);
        // One that is left of a writer that was cut short may be another's to read.
        rustix::fs::fchmod(&file, OWN_FILE)?;
        file.write_all(bytes)?;
        give_to_owner(dir, &file)?;
        file.sync_all()?;
        renameat(dir, &*fresh, dir, name)?;
        Ok(file)
    };
    write().inspect_err(|_error| {
        // Ignored: the write has failed already, and the next one replaces what is left of it.
        let _removed = unlinkat(dir, &*fresh, AtFlags::empty());
    })
}

/// Whether a directory has something in it, and nobody's lock: who has that is told by locking it.
fn is_used(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut names| names.next().is_some()) && !dir.join(LOCK_NAME).exists()
}

/// How a directory is opened.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is there.
fn opened(dir: &Path) -> Result<OwnedFd> {
    openat(rustix::fs::CWD, dir, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
        // It is there, and who may not look into it may not lock it.
        Errno::ACCESS if dir.is_dir() => lock_failed(dir)(Refused::Errno(errno)),
        errno => failed_on(Op::Open, dir)(errno.into()),
    })
}

/// A directory that is open: what is put into it lies in it, wherever it has been moved since, and never in another one that
/// has its name now.
#[derive(Debug)]
pub struct HeldDir {
    /// As it was named.
    path: PathBuf,
    dir: OwnedFd,
}

impl HeldDir {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), dir: opened(path)? })
    }

    /// The directory, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something has this name in it.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be known.
    pub fn has(&self, name: &str) -> Result<bool> {
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed_on(Op::Stat, &self.path.join(name))(errno.into())),
        }
    }

    /// Whether it still is where it was: not if it was moved or removed, whatever has its name now.
    #[must_use]
    pub fn has_its_name(&self) -> bool {
        match (fstat(&self.dir), statat(rustix::fs::CWD, &self.path, AtFlags::empty())) {
            (Ok(own), Ok(named)) => (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Replaces (or creates) a small file of a subdirectory in one durable step; there, nobody else may look into the
    /// subdirectory if it is made for it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; the old contents stay.
    pub fn write_small(&self, subdirectory: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(subdirectory).join(checked_name(name)?);
        let put = || -> std::io::Result<()> {
            let below = self.subdirectory(subdirectory)?;
            replaced(&below, name, bytes)?;
            Ok(rustix::fs::fsync(&below)?)
        };
        put().map_err(failed_on(Op::Write, &path))
    }

    /// A subdirectory, which is made if there is none, durably and for nobody else to look into.
    pub(crate) fn subdirectory(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let is_new = match mkdirat(&self.dir, name, Mode::from_raw_mode(OWN_DIRECTORY)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let below = openat(&self.dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        if is_new {
            give_to_owner(&self.dir, &below)?;
            rustix::fs::fsync(&self.dir)?;
        }
        Ok(below)
    }

    /// Device and inode of the directory: what tells it from others that have its name, or had it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn id(&self) -> Result<(u64, u64)> {
        let stat = fstat(&self.dir).map_err(|errno| failed_on(Op::Stat, &self.path)(errno.into()))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Takes a subdirectory, which is made if there is none; nothing is made above it.
    ///
    /// # Errors
    /// As [`DirLock::acquire`]; [`Error::NotFound`] if the directory was removed.
    pub fn lock(&self, subdirectory: &str) -> Result<DirLock> {
        let path = self.path.join(checked_name(subdirectory)?);
        let below = self.subdirectory(subdirectory);
        let below = below.map_err(|errno| failed_on(Op::Create, &path)(errno.into()))?;
        DirLock::own(&below).map_err(lock_failed(&path))
    }

    /// Takes over the lock of a subdirectory that this program was given in the place of its input, and waits for who has been
    /// faster. From now on no other process has a copy of it. `None` if it was not given that.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn take_over(&self, subdirectory: &str) -> Result<Option<DirLock>> {
        let path = self.path.join(checked_name(subdirectory)?);
        let failed = |errno| lock_failed(&path)(Refused::Errno(errno));
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let below = openat(&self.dir, subdirectory, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let file = match below.and_then(|below| openat(below, LOCK_NAME, flags, Mode::empty())) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let input = rustix::stdio::stdin();
        let (own, given) = (fstat(&file).map_err(failed)?, fstat(input).map_err(failed)?);
        if (own.st_dev, own.st_ino) != (given.st_dev, given.st_ino) {
            return Ok(None);
        }
        // A lock belongs to all copies of a descriptor: this one ends for those, too, that others have of it.
        flock(input, FlockOperation::Unlock).map_err(failed)?;
        rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).map_err(failed)?;
        // Ignored: who has it is told for those who ask; the lock is what counts.
        let _written = write_owner(&file, &std::process::id().to_string());
        Ok(Some(DirLock { file: Some(file) }))
    }

    /// Makes a mark in it, durable; one that is there is left as it is.
    ///
    /// # Errors
    /// [`Error::Io`], also if something other than a file has the name.
    pub fn put_mark(&self, name: &str) -> Result<()> {
        let path = self.path.join(checked_name(name)?);
        let failed = failed_on(Op::Create, &path);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let put = || rustix::fs::fsync(openat(&self.dir, name, flags, OWN_FILE)?);
        put().and_then(|()| rustix::fs::fsync(&self.dir)).map_err(|errno| failed(errno.into()))
    }

    /// Takes a mark away; none is no error.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_mark(&self, name: &str) -> Result<()> {
        match unlinkat(&self.dir, checked_name(name)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed_on(Op::Remove, &self.path.join(name))(errno.into())),
        }
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
    // A directory that may be passed need not be one that may be listed.
    read_from(rustix::fs::CWD, &path, path.as_os_str(), name)
}

fn read_from(dir: impl AsFd, path: &Path, at: &OsStr, name: &str) -> Result<Vec<u8>> {
    let failed = failed_on(Op::Read, path);
    // Whatever has the name: a pipe is not waited for, and a device not read to its end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(dir, at, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let file = File::from(file);
    let file_bytes = file.metadata().map_err(&failed)?.len();
    if file_bytes > SMALL_FILE_BYTES_MAX {
        let name = name.to_owned();
        return Err(Error::OutOfRange { name, offset: 0, len_bytes: SMALL_FILE_BYTES_MAX, file_bytes });
    }
    let mut bytes = Vec::new();
    file.take(SMALL_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(&failed)?;
    Ok(bytes)
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
    use core::sync::atomic::{AtomicBool, Ordering};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_put_into_a_held_directory_goes_where_that_was_moved() {
        let above = std::env::temp_dir().join(format!("dolmen-held-{}", std::process::id()));
        let [before, after] = ["before", "after"].map(|name| above.join(name));
        fs::create_dir_all(&before).unwrap();
        let held = HeldDir::open(&before).unwrap();
        held.write_small(".notes", "first", b"1").unwrap();
        assert!(held.has_its_name());
        fs::rename(&before, &after).unwrap();
        assert!(!held.has_its_name());
        held.write_small(".notes", "second", b"2").unwrap();
        held.write_small(".others", "third", b"3").unwrap();
        assert!(!before.exists());
        // Another one that has its name now.
        fs::create_dir(&before).unwrap();
        held.write_small(".notes", "first", b"4").unwrap();
        assert!(!held.has_its_name() && !is_used(&before));
        for (subdirectory, name, bytes) in
            [(".notes", "first", b"4"), (".notes", "second", b"2"), (".others", "third", b"3")]
        {
            assert_eq!(read_small(&after.join(subdirectory), name).unwrap(), bytes);
            let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            let place = after.join(subdirectory);
            assert_eq!([mode(place.clone()), mode(place.join(name))], [0o700, 0o600]);
        }
        // Journals and marks, too.
        let (mut journal, _none) = crate::Journal::open(&held, ".log", "log").unwrap();
        journal.append(b"5").unwrap();
        journal.replace(b"6").unwrap();
        for _ in 0..2 {
            held.put_mark("mark").unwrap();
        }
        assert_eq!(["mark", "none"].map(|name| held.has(name)), [Ok(true), Ok(false)]);
        assert!(after.join("mark").is_file());
        assert!(matches!(held.has(&"n".repeat(300)), Err(Error::Io { .. })), "that is not known");
        assert_eq!(read_small(&after.join(".log"), "log").unwrap(), b"6");
        fs::write(before.join("mark"), b"another's").unwrap();
        for _ in 0..2 {
            held.remove_mark("mark").unwrap();
        }
        assert!(!after.join("mark").exists());
        assert_eq!(fs::read_dir(&before).unwrap().count(), 1, "that of another is left as it is");
        fs::create_dir(after.join("mark")).unwrap();
        assert!(held.put_mark("mark").is_err() && held.remove_mark("mark").is_err());
        assert!(held.write_small(".notes", "../first", b"").is_err());
        assert!(HeldDir::open(&above.join("none")).unwrap_err().is_not_found());
        fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn a_lock_that_a_program_has_ends_with_it_whoever_was_forked_with_a_copy() {
        let dir = std::env::temp_dir().join(format!("dolmen-handed-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for (program, is_killed) in [("true", false), ("sleep", true), ("none-of-this-name", false)] {
            let lock = DirLock::acquire(&dir).unwrap();
            // What a process has that is forked while the program is started.
            let copy = lock.file.as_ref().unwrap().try_clone().unwrap();
            match crate::Started::begin(Path::new(program), &["600".as_ref()], &dir, lock) {
                Ok(mut started) => {
                    if is_killed {
                        let taken = DirLock::acquire(&dir);
                        assert!(
                            matches!(taken, Err(Error::Owned { .. })),
                            "it has it for as long as it runs"
                        );
                        started.kill();
                    }
                    while matches!(started.has_ended(), Ok(false)) {
                        crate::thread::yield_now();
                    }
                    let next = DirLock::acquire(&dir).unwrap();
                    drop(started.has_ended());
                    assert!(DirLock::acquire(&dir).is_err(), "the lock of the next one is not ended");
                    drop(next);
                }
                Err(error) => assert!(error.is_not_found(), "{error}"),
            }
            drop(DirLock::acquire(&dir).unwrap());
            drop(copy);
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn nobody_owns_what_names_a_process_that_has_no_lock_and_who_looks_is_in_nobodys_way() {
        let dir = std::env::temp_dir().join(format!("dolmen-left-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // As after a restart of the machine: the number is that of another.
        let leave = || fs::write(dir.join(LOCK_NAME), format!("{:<15}\n", std::process::id())).unwrap();
        leave();
        assert_eq!(DirLock::owner(&dir), None);
        let is_over = AtomicBool::new(false);
        let looked = OwnedFd::from(File::open(dir.join(LOCK_NAME)).unwrap());
        let taken = crate::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    is_locked(&looked);
                }
            });
            let take = || {
                leave();
                let lock = DirLock::acquire(&dir);
                (lock.is_ok(), DirLock::owner(&dir).is_some())
            };
            let taken: Vec<_> = (0..100).map(|_| take()).collect();
            is_over.store(true, Ordering::Relaxed);
            taken
        });
        assert_eq!(taken, [(true, true); 100]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone() {
        let above = std::env::temp_dir().join(format!("dolmen-private-{}", std::process::id()));
        let pool = above.join("pool");
        let root = RealRoot::create(&pool).unwrap();
        drop(root.create_disk("t0", RealOptions::default()).unwrap());
        // What is left of a writer that was cut short.
        fs::write(pool.join(".record.new"), b"").unwrap();
        fs::set_permissions(pool.join(".record.new"), fs::Permissions::from_mode(0o644)).unwrap();
        root.write_small("record", b"key").unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([pool.clone(), pool.join("t0")].map(mode), [0o700; 2]);
        assert_eq!(mode(pool.join("record")), 0o600);
        // An older one is closed to others by the next write, and a directory stays as who has it wants it.
        fs::set_permissions(&pool, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(pool.join("record"), fs::Permissions::from_mode(0o644)).unwrap();
        drop(root);
        let root = RealRoot::open(&pool).unwrap();
        root.write_small("record", b"next").unwrap();
        assert_eq!([pool.clone(), pool.join("record")].map(mode), [0o755, 0o600]);
        fs::remove_dir_all(above).unwrap();
    }

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
