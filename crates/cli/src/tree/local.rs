//! Files outside the container: what std does not offer, and errors with their paths.

use crate::failure::{Failure, Outcome};
use dolmen_dfs::Time;
use dolmen_dfs::layout::XATTR_VALUE_BYTES_MAX;
use rustix::fs::{AtFlags, CWD, SeekFrom, Timespec, Timestamps, UTIME_OMIT, XattrFlags};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Adds the path to an error of the system.
pub(super) trait OnPath<T> {
    fn at(self, path: &Path) -> Outcome<T>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure::on_file(path, &error))
    }
}

impl<T> OnPath<T> for rustix::io::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure::on_file(path, &error.into()))
    }
}

pub(super) fn mtime(meta: &Metadata) -> Time {
    let ns = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
    Time { s: meta.mtime(), ns }
}

pub(super) fn set_mtime(path: &Path, mtime: Time) -> Outcome<()> {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps {
        last_access: omit,
        last_modification: Timespec { tv_sec: mtime.s, tv_nsec: i64::from(mtime.ns) },
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).at(path)
}

/// Names and values of extended attributes that the caller may read, sorted; none where the file system has none.
pub(super) fn xattrs(path: &Path) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut xattrs = Vec::new();
    for name in xattr_names(path)? {
        let mut value = vec![0; XATTR_VALUE_BYTES_MAX];
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

fn xattr_names(path: &Path) -> Outcome<Vec<Vec<u8>>> {
    /// What Linux lists at most.
    const LIST_BYTES_MAX: usize = 65536;
    let mut probe: [u8; 0] = [];
    let len = match rustix::fs::llistxattr(path, &mut probe[..]) {
        Ok(0) | Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
        Ok(len) => len.max(LIST_BYTES_MAX),
        Err(error) => return Err(error).at(path),
    };
    let mut list = vec![0u8; len];
    let len = rustix::fs::llistxattr(path, &mut list[..]).at(path)?;
    let names = list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Sets an extended attribute; `false` if the file system has none of this kind.
pub(super) fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> Outcome<bool> {
    match rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::PERM) => Ok(false),
        Err(error) => Err(error).at(path),
    }
}

/// The next data at or after `offset`, as start and end; `None` if there is none before the end.
pub(super) fn next_data(file: &File, offset: u64, path: &Path) -> Outcome<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error).at(path),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).at(path)?;
    Ok(Some((start, end)))
}

/// Whether the file may have holes.
pub(super) fn is_sparse(meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(512) < meta.len()
}
