//! Attributes and extended attributes.

use super::EINVAL;
use super::mount::{Mounted, own_gid, own_uid};
use super::obj::{KEEP, KIND, Obj, PERMISSIONS, both, follow, name, parent};
use super::stat::{self, CStat};
use super::table::Ptr;
use crate::error::{Errno, PosixResult, errno};
use crate::raw::{In, Out, Text};
use core::ffi::{c_char, c_int};
use dolmen_dfs::{Cred, Dir, Follow, Opened, Rights, SetAttrs, SetTime, Stat, XattrCond};

//= daos:src/include/daos_fs.h DFS_SET_ATTR_*
const SET_MODE: c_int = 1;
const SET_ATIME: c_int = 2;
const SET_MTIME: c_int = 4;
pub(super) const SET_SIZE: c_int = 8;
const SET_UID: c_int = 16;
const SET_GID: c_int = 32;

/// Attributes of an entry, also of a symbolic link; without a name, of the directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_stat(dfs: Ptr<Mounted>, dir: Ptr<Obj>, entry: Text, stbuf: Out<CStat>) -> c_int {
    errno(|| {
        let (_, dir) = parent(dfs, dir)?;
        let stat = if entry.is_null() { dir.stat_self()? } else { dir.lstat(name(entry)?)? };
        Ok(stbuf.set(stat::filled(&stat))?)
    })
}

/// Attributes of something open.
#[unsafe(no_mangle)]
extern "C" fn dfs_ostat(dfs: Ptr<Mounted>, obj: Ptr<Obj>, stbuf: Out<CStat>) -> c_int {
    errno(|| {
        let (_, obj) = both(dfs, obj)?;
        Ok(stbuf.set(stat::filled(&stat_of(&obj)?))?)
    })
}

fn stat_of(obj: &Obj) -> PosixResult<Stat> {
    match &obj.opened {
        Opened::File(file) => Ok(file.stat()?),
        Opened::Dir(dir) => Ok(dir.stat_self()?),
        Opened::Symlink(_) => {
            let (dir, name) = entry_of(obj)?;
            let stat = dir.lstat(name)?;
            if stat.oid == obj.oid { Ok(stat) } else { Err(Errno(libc::ESTALE)) }
        }
    }
}

/// Directory and name of the entry of something that is not the root.
fn entry_of(obj: &Obj) -> PosixResult<(Dir, Vec<u8>)> {
    let entry = obj.entry();
    Ok((entry.parent.ok_or(EINVAL)?, entry.name))
}

/// Sets those attributes of something open that `flags` name, and tells all of them.
#[unsafe(no_mangle)]
extern "C" fn dfs_osetattr(dfs: Ptr<Mounted>, obj: Ptr<Obj>, stbuf: Out<CStat>, flags: c_int) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        mounted.check_writable()?;
        let wanted = stbuf.get()?;
        let attrs = attrs_of(&wanted, flags, obj.mode())?;
        if flags & SET_SIZE != 0 {
            let size = u64::try_from(wanted.st_size).map_err(|_negative| EINVAL)?;
            obj.file()?.reopen(&dolmen_dfs::OpenOptions::WRITE)?.set_len(size)?;
        }
        if attrs != KEEP {
            set(&obj, &attrs)?;
        }
        Ok(stbuf.set(stat::filled(&stat_of(&obj)?))?)
    })
}

/// What a struct asks to be set of something with this mode.
pub(super) fn attrs_of(wanted: &CStat, flags: c_int, mode: u32) -> PosixResult<SetAttrs> {
    let known = SET_MODE | SET_ATIME | SET_MTIME | SET_SIZE | SET_UID | SET_GID;
    if flags & !known != 0 {
        return Err(EINVAL);
    }
    let kind = wanted.st_mode & KIND;
    if flags & SET_MODE != 0 && kind != 0 && kind != mode & KIND {
        return Err(EINVAL);
    }
    let mtime = match flags & SET_MTIME {
        0 => SetTime::Keep,
        _ => stat::time(wanted.st_mtime, wanted.st_mtime_nsec)?,
    };
    Ok(SetAttrs {
        mode: (flags & SET_MODE != 0).then_some(wanted.st_mode & PERMISSIONS),
        uid: (flags & SET_UID != 0).then_some(wanted.st_uid),
        gid: (flags & SET_GID != 0).then_some(wanted.st_gid),
        // Access times are not kept by the mounts of C programs.
        atime: SetTime::Keep,
        mtime,
    })
}

fn set(obj: &Obj, attrs: &SetAttrs) -> PosixResult<()> {
    match &obj.opened {
        Opened::File(file) => Ok(file.set_attrs(attrs)?),
        Opened::Dir(dir) => Ok(dir.set_attrs(".", attrs, Follow::No)?),
        Opened::Symlink(_) => {
            let (dir, name) = entry_of(obj)?;
            Ok(dir.set_attrs(name, attrs, Follow::No)?)
        }
    }
}

/// Whether the caller may use an entry so; without a name, the directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_access(dfs: Ptr<Mounted>, dir: Ptr<Obj>, entry: Text, mask: c_int) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        let name: &[u8] = if entry.is_null() { b"." } else { name(entry)? };
        access(&mounted, &dir, name, mask)
    })
}

pub(super) fn access(mounted: &Mounted, dir: &Dir, path: &[u8], mask: c_int) -> PosixResult<()> {
    if mask & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
        return Err(EINVAL);
    }
    if mask & libc::W_OK != 0 {
        mounted.check_writable()?;
    }
    let rights = Rights(mask.cast_unsigned());
    Ok(dir.check_access(path, &own_cred(), rights)?)
}

/// Who calls.
fn own_cred() -> Cred {
    // SAFETY: without room it only tells the number.
    let count = unsafe { libc::getgroups(0, core::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many as it is told.
    let count = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    Cred { uid: own_uid(), gid: own_gid(), groups, umask: 0 }
}

/// Sets the permissions of what an entry leads to; without a name, of the directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_chmod(dfs: Ptr<Mounted>, dir: Ptr<Obj>, entry: Text, mode: u32) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        mounted.check_writable()?;
        let name: &[u8] = if entry.is_null() { b"." } else { name(entry)? };
        Ok(dir.chmod(name, mode & PERMISSIONS)?)
    })
}

/// Sets owner and group of an entry, or of what it leads to; -1 keeps one.
#[unsafe(no_mangle)]
extern "C" fn dfs_chown(
    dfs: Ptr<Mounted>,
    dir: Ptr<Obj>,
    entry: Text,
    uid: u32,
    gid: u32,
    flags: c_int,
) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        mounted.check_writable()?;
        let name: &[u8] = if entry.is_null() { b"." } else { name(entry)? };
        Ok(dir.chown(name, if_given(uid), if_given(gid), follow(flags))?)
    })
}

/// A number that is to be set, unless it is -1.
pub(super) fn if_given(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

/// How an extended attribute is to be set.
pub(super) fn cond(flags: c_int) -> PosixResult<XattrCond> {
    match flags {
        0 => Ok(XattrCond::Any),
        libc::XATTR_CREATE => Ok(XattrCond::Create),
        libc::XATTR_REPLACE => Ok(XattrCond::Replace),
        _ => Err(EINVAL),
    }
}

/// Sets an extended attribute of something open.
#[unsafe(no_mangle)]
extern "C" fn dfs_setxattr(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    attr: Text,
    value: In<u8>,
    size: u64,
    flags: c_int,
) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        mounted.check_writable()?;
        let (attr, value, cond) = (attr.bytes()?, value.list(super::size(size)?)?, cond(flags)?);
        match &obj.opened {
            Opened::File(file) => Ok(file.set_xattr(attr, value, cond)?),
            Opened::Dir(dir) => Ok(dir.set_xattr(".", attr, value, cond, Follow::No)?),
            Opened::Symlink(_) => {
                let (dir, name) = entry_of(&obj)?;
                Ok(dir.set_xattr(name, attr, value, cond, Follow::No)?)
            }
        }
    })
}

/// The value of an extended attribute of something open; without a buffer, its length.
#[unsafe(no_mangle)]
extern "C" fn dfs_getxattr(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    attr: Text,
    value: Out<u8>,
    size: Out<u64>,
) -> c_int {
    errno(|| {
        let (_, obj) = both(dfs, obj)?;
        let attr = attr.bytes()?;
        let found = match &obj.opened {
            Opened::File(file) => file.xattr(attr)?,
            Opened::Dir(dir) => dir.xattr(".", attr, Follow::No)?,
            Opened::Symlink(_) => {
                let (dir, name) = entry_of(&obj)?;
                dir.xattr(name, attr, Follow::No)?
            }
        };
        give(&found, value, size)
    })
}

/// Gives bytes to a C program: without a buffer their length, into one that is too short `ERANGE` and their length.
pub(super) fn give(bytes: &[u8], buf: Out<u8>, size: Out<u64>) -> PosixResult<()> {
    let room = super::size(size.get()?)?;
    size.set(bytes.len() as u64)?;
    if buf.is_null() || room == 0 {
        return Ok(());
    }
    if room < bytes.len() {
        return Err(Errno(libc::ERANGE));
    }
    Ok(buf.copy_from(bytes)?)
}

/// Removes an extended attribute of something open.
#[unsafe(no_mangle)]
extern "C" fn dfs_removexattr(dfs: Ptr<Mounted>, obj: Ptr<Obj>, attr: Text) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        mounted.check_writable()?;
        let attr = attr.bytes()?;
        match &obj.opened {
            Opened::File(file) => Ok(file.remove_xattr(attr)?),
            Opened::Dir(dir) => Ok(dir.remove_xattr(".", attr, Follow::No)?),
            Opened::Symlink(_) => {
                let (dir, name) = entry_of(&obj)?;
                Ok(dir.remove_xattr(name, attr, Follow::No)?)
            }
        }
    })
}

/// Names of the extended attributes of something open, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn dfs_listxattr(dfs: Ptr<Mounted>, obj: Ptr<Obj>, list: Out<c_char>, size: Out<u64>) -> c_int {
    errno(|| {
        let (_, obj) = both(dfs, obj)?;
        let names = match &obj.opened {
            Opened::File(file) => file.xattr_names()?,
            Opened::Dir(dir) => dir.xattr_names(".", Follow::No)?,
            Opened::Symlink(_) => {
                let (dir, name) = entry_of(&obj)?;
                dir.xattr_names(name, Follow::No)?
            }
        };
        give(&joined(&names), list.bytes(), size)
    })
}

/// Names one after the other, each with its zero.
pub(super) fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().flat_map(|name| name.iter().copied().chain([0])).collect()
}
