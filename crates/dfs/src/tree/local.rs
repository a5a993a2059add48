//! Files outside the container: what std does not offer, and errors with their paths.

use crate::error::{Error, Result, errno};
use crate::layout::inode::Time;
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Adds the path to an error of the system.
pub(super) trait OnPath<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(errno::EIO);
            Error::Local { path: path.to_owned(), errno }
        })
    }
}

impl<T> OnPath<T> for rustix::io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|error| Error::Local { path: path.to_owned(), errno: error.raw_os_error() })
    }
}

pub(super) fn mtime(meta: &Metadata) -> Time {
    let ns = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
    Time { s: meta.mtime(), ns }
}

pub(super) fn set_mtime(path: &Path, mtime: Time) -> Result<()> {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps {
        last_access: omit,
        last_modification: Timespec { tv_sec: mtime.s, tv_nsec: i64::from(mtime.ns) },
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).at(path)
}

/// Names and values of extended attributes that the caller may read, sorted; none where the file system has none.
pub(super) fn xattrs(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut xattrs = Vec::new();
    for name in xattr_names(path)? {
        let mut value = vec![0; crate::layout::XATTR_VALUE_BYTES_MAX];
        match rustix::fs::lgetxattr(path, &name[..], &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                xattrs.push((name, value));
            }
            // Removed meanwhile, or readable for others only.
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {}
            Err(error) => return Err(error).at(path),
        }
    }
    xattrs.sort_unstable();
    Ok(xattrs)
}

fn xattr_names(path: &Path) -> Result<Vec<Vec<u8>>> {
    /// Room that most lists fit in.
    const LIST_BYTES: usize = 1024;
    /// What Linux lists at most.
    const LIST_BYTES_MAX: usize = 65536;
    let mut list = vec![0u8; LIST_BYTES];
    let len = match rustix::fs::llistxattr(path, &mut list[..]) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
        Err(rustix::io::Errno::RANGE) => {
            list.resize(LIST_BYTES_MAX, 0);
            rustix::fs::llistxattr(path, &mut list[..]).at(path)?
        }
        other => other.at(path)?,
    };
    let names = list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Removes an extended attribute; the system's error number if it may not be removed.
pub(super) fn remove_xattr(path: &Path, name: &[u8]) -> Result<Option<i32>> {
    use rustix::io::Errno;
    match rustix::fs::lremovexattr(path, name) {
        Ok(()) | Err(Errno::NODATA) => Ok(None),
        Err(refused @ (Errno::NOTSUP | Errno::PERM | Errno::ACCESS)) => Ok(Some(refused.raw_os_error())),
        Err(error) => Err(error).at(path),
    }
}

/// Sets an extended attribute; the system's error number if the file system has none of this kind, or no room for one
/// like this: that says nothing of the room for files.
pub(super) fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> Result<Option<i32>> {
    use rustix::io::Errno;
    match rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(None),
        Err(refused @ (Errno::NOTSUP | Errno::PERM | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE)) => {
            Ok(Some(refused.raw_os_error()))
        }
        Err(error) => Err(error).at(path),
    }
}

/// The next data at or after `offset`, as start and end; `None` if there is none before the end.
pub(super) fn next_data(file: &File, offset: u64, path: &Path) -> Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // A pseudo file system, which knows of no holes.
        Err(rustix::io::Errno::INVAL) => return Ok(Some((offset, u64::MAX))),
        Err(error) => return Err(error).at(path),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).at(path)?;
    Ok(Some((start, end)))
}

/// Whether the contents end at `at`, and the file says nothing new of itself: the sizes that pseudo file systems tell (/proc,
/// /sys) are not those of the contents.
pub(super) fn is_end(file: &File, meta: &Metadata, at: u64, path: &Path) -> Result<bool> {
    let more = file.read_at(&mut [0], at).at(path)?;
    Ok(more == 0 && is_unchanged(meta, &file.metadata().at(path)?))
}

/// Whether the contents have so many bytes, whatever size the system tells.
pub(super) fn is_as_long(file: &File, len: u64, path: &Path) -> Result<bool> {
    let has = |at| -> Result<bool> { Ok(file.read_at(&mut [0], at).at(path)? > 0) };
    Ok((len == 0 || has(len - 1)?) && !has(len)?)
}

/// Whether the file may have holes.
pub(super) fn is_sparse(meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(512) < meta.len()
}

/// Waits until a change of the file would show in its times: those of two changes may be equal within one tick of the
/// file system's clock.
pub(super) fn outlast_tick(meta: &Metadata) {
    /// Twice the longest tick of Linux.
    const TICK_NS: u64 = 20_000_000;
    let changed_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    let age_ns = u64::try_from(i128::from(RealClock.now_ns()) - changed_ns);
    // A time to come is one of another clock, which says nothing about this one.
    if let Some(left_ns) = age_ns.ok().and_then(|age_ns| TICK_NS.checked_sub(age_ns)) {
        dolmen_env::wait(Duration::from_nanos(left_ns));
    }
}

/// Whether nobody has changed the file between the two.
pub(super) fn is_unchanged(before: &Metadata, after: &Metadata) -> bool {
    let state =
        |meta: &Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    state(before) == state(after)
}

/// Locks a file that is being written, so that nobody takes it for abandoned; `false` if another has locked it.
pub(super) fn lock(file: &File) -> bool {
    // A file system without locks says so in other ways: there nothing is taken for abandoned.
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
}

/// Whether nobody writes this file any more. Of a symbolic link, which cannot be locked, nobody can say: whoever is about
/// to give it its name makes it anew.
pub(super) fn is_abandoned(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_or_else(
        |_refused| path.is_symlink(),
        |file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
    )
}
