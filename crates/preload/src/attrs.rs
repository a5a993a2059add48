//! Attributes of files and directories that are set without the kernel, where the caller owns them, and extended ones of users.
//!
//! Whether something is mounted on a directory the kernel is asked first: then it is the kernel's. So it is where nobody would tell
//! the kernel that it may be passed through no more.

use crate::mounts::Mounted;
use crate::names::{Told, sure};
use crate::open::Open;
use crate::place::Place;
use crate::settle;
use crate::state::state;
use core::ffi::{CStr, c_int};
use dolmen_dfs::{Error, FileKind, Obj, Rights, SetAttrs, SetTime, Stat, Time, XattrCond};
use libc::{mode_t, timespec, timeval};

/// Bits with which a program acts as somebody else: who may keep them is the kernel's to say.
pub(crate) const SET_IDS: u32 = 0o6000;

/// The list of those who have access to a file, beside its mode.
const LIST: &[u8] = b"system.posix_acl_access";

/// What attributes are looked at and set of.
pub(crate) struct Subject<'a> {
    obj: Obj,
    stat: Stat,
    mount: &'a Mounted,
    place: Option<&'a Place<'a>>,
}

/// Does something with the file or directory at a place, which `from` and `path` lead to; with a symbolic link if `or_link`.
pub(crate) fn at<'a, T>(
    place: &'a Place<'a>,
    (from, path): (c_int, &CStr),
    or_link: bool,
    act: impl FnOnce(&Subject<'a>) -> Told<T>,
) -> Told<T> {
    let looked = place.attempt(|dir| dir.lookup(place.name));
    let (obj, stat) = match sure(looked)? {
        Ok(looked) => looked,
        Err(errno) => return Some(Err(errno)),
    };
    match stat.kind {
        FileKind::File => {}
        FileKind::Symlink if or_link => {}
        FileKind::Directory if place.mount.heard.has_leases() && !place.is_mounted_over(from, path) => {}
        _ => return None,
    }
    act(&Subject { obj, stat, mount: &place.mount, place: Some(place) })
}

/// The same with an open file.
pub(crate) fn of<T>(open: &Open, act: impl FnOnce(&Subject<'_>) -> Told<T>) -> Told<T> {
    let stat = open.file.stat().ok()?;
    act(&Subject { obj: open.file.unchecked(), stat, mount: &open.mount, place: None })
}

impl Subject<'_> {
    /// Whether it is the caller's, or he is root.
    fn is_own(&self) -> bool {
        let (uid, _) = state().user();
        uid == 0 || uid == self.stat.uid
    }

    /// Whether its mode lets him do this.
    fn lets(&self, rights: Rights) -> bool {
        crate::rights::is_owners(&self.stat, rights)
            || self.place.is_some_and(|place| crate::rights::check_listed(place, &self.stat, rights).is_ok())
    }

    fn set(&self, attrs: &SetAttrs) -> Told<c_int> {
        let set = self.obj.set_attrs(attrs);
        self.mount.note_change(self.stat.ino);
        sure(set.map(|()| 0))
    }

    /// As chmod(2).
    pub(crate) fn set_mode(&self, mode: mode_t) -> Told<c_int> {
        let (uid, _) = state().user();
        // Who may not read and write his file could not have the kernel open it once more; what takes such bits is written by it.
        let is_plain = uid == 0 || mode & 0o600 == 0o600 && mode & SET_IDS == 0;
        let is_open = || self.place.is_some_and(|_| settle::numbered(self.mount.id, self.stat.ino));
        if !self.is_own() || !is_plain && (self.place.is_none() || is_open()) {
            return None;
        }
        if uid != 0 && mode & libc::S_ISGID != 0 {
            return None;
        }
        self.set(&SetAttrs { mode: Some(mode & 0o7777), ..SetAttrs::KEEP })
    }

    /// As chown(2): for root, and for the owner who gives it to a group that he is in.
    pub(crate) fn set_owner(&self, uid: u32, gid: u32) -> Told<c_int> {
        let given = |id: u32| (id != u32::MAX).then_some(id);
        let (uid, gid) = (given(uid), given(gid));
        // Who loses such a bit, and who keeps it, is the kernel's to say.
        let is_plain = self.stat.kind == FileKind::Symlink || self.stat.permissions & SET_IDS == 0;
        let may_give = || {
            let cred = state().cred();
            let is_in = |gid: u32| gid == self.stat.gid || gid == cred.gid || cred.groups.contains(&gid);
            cred.uid == self.stat.uid && uid.is_none_or(|uid| uid == cred.uid) && gid.is_none_or(is_in)
        };
        if !is_plain || (uid.is_none() && gid.is_none()) || state().user().0 != 0 && !may_give() {
            return None;
        }
        self.set(&SetAttrs { uid, gid, ..SetAttrs::KEEP })
    }

    /// As utimensat(2).
    pub(crate) fn set_times(&self, [atime, mtime]: [SetTime; 2]) -> Told<c_int> {
        if !self.is_own() || atime == SetTime::Keep && mtime == SetTime::Keep {
            return None;
        }
        self.set(&SetAttrs { atime, mtime, ..SetAttrs::KEEP })
    }

    /// As getxattr(2).
    pub(crate) fn xattr(&self, name: &[u8], room: &mut [u8]) -> Told<isize> {
        // A list may be read by everybody.
        if !self.has_list(name) && (!is_users(name) || !self.lets(Rights::READ)) {
            return None;
        }
        match self.obj.xattr(name) {
            Ok(value) => Some(told(&value, room)),
            Err(Error::NoAttribute) => Some(Err(libc::ENODATA)),
            Err(_) => None,
        }
    }

    /// As listxattr(2).
    pub(crate) fn xattr_names(&self, room: &mut [u8]) -> Told<isize> {
        let names = self.obj.xattr_names().ok()?;
        // Whom the kernel tells of others is its own to say.
        if !names.iter().all(|name| is_users(name) || self.has_list(name)) {
            return None;
        }
        let mut list = names.join(&0);
        list.extend((!names.is_empty()).then_some(0));
        Some(told(&list, room))
    }

    /// As setxattr(2), or removexattr(2) without a value.
    pub(crate) fn set_xattr(&self, name: &[u8], value: Option<&[u8]>, flags: c_int) -> Told<c_int> {
        if self.has_list(name) {
            return if flags == 0 { self.set_list(value) } else { None };
        }
        let cond = match flags {
            0 => XattrCond::Any,
            libc::XATTR_CREATE => XattrCond::Create,
            libc::XATTR_REPLACE => XattrCond::Replace,
            _ => return None,
        };
        if !is_users(name) || !self.lets(Rights::WRITE) {
            return None;
        }
        let set = match value {
            Some(value) => self.obj.set_xattr(name, value, cond),
            None => self.obj.remove_xattr(name),
        };
        self.mount.note_change(self.stat.ino);
        match set {
            Err(Error::NoAttribute) => Some(Err(libc::ENODATA)),
            set => sure(set.map(|()| 0)),
        }
    }

    /// Whether this is the list of those who have access, of a file: those of directories the kernel goes by.
    fn has_list(&self, name: &[u8]) -> bool {
        name == LIST && self.stat.kind == FileKind::File
    }

    /// Sets or takes away the list of access, and sets the mode with it.
    fn set_list(&self, list: Option<&[u8]>) -> Told<c_int> {
        let (uid, _) = state().user();
        // As of a mode.
        let is_plain = uid == 0
            || self.stat.permissions & SET_IDS == 0 && list.is_none_or(|list| owners_rights(list) & 6 == 6);
        let is_open = || self.place.is_some_and(|_| settle::numbered(self.mount.id, self.stat.ino));
        if !self.is_own() || !is_plain && (self.place.is_none() || is_open()) {
            return None;
        }
        let set = match list {
            Some(list) => self.obj.set_xattr(LIST, list, XattrCond::Any),
            None => self.obj.remove_xattr(LIST),
        };
        self.mount.note_change(self.stat.ino);
        sure(set.map(|()| 0))
    }
}

/// What the owner may do by a list of access, in the bytes of the kernel; the store looks at the rest.
fn owners_rights(list: &[u8]) -> u16 {
    //= linux:include/uapi/linux/posix_acl_xattr.h posix_acl_xattr_entry
    const HEAD_BYTES: usize = 4;
    const OWNER: [u8; 2] = 1_u16.to_le_bytes();
    let entries = list.get(HEAD_BYTES..).unwrap_or(&[]).as_chunks::<8>().0;
    let owners = entries.iter().find(|entry| entry[..2] == OWNER);
    owners.map_or(0, |entry| u16::from_le_bytes([entry[2], entry[3]]))
}

/// What a user may call as he likes, if the mode of the file lets him.
fn is_users(name: &[u8]) -> bool {
    name.starts_with(b"user.") && name.len() > 5
}

/// How long it is, and what it is if there is any room.
fn told(value: &[u8], room: &mut [u8]) -> Result<isize, i32> {
    match room.len() {
        0 => {}
        room_bytes if room_bytes < value.len() => return Err(libc::ERANGE),
        _ => room[..value.len()].copy_from_slice(value),
    }
    isize::try_from(value.len()).map_err(|_too_long| libc::E2BIG)
}

/// Times as utimensat(2) has them; `None` for what the kernel refuses.
pub(crate) fn times(given: Option<[timespec; 2]>) -> Option<[SetTime; 2]> {
    let Some([atime, mtime]) = given else { return Some([SetTime::Now; 2]) };
    let time = |time: timespec| match time.tv_nsec {
        libc::UTIME_NOW => Some(SetTime::Now),
        libc::UTIME_OMIT => Some(SetTime::Keep),
        ns @ 0..1_000_000_000 => Some(SetTime::To(Time { s: time.tv_sec, ns: u32::try_from(ns).ok()? })),
        _ => None,
    };
    Some([time(atime)?, time(mtime)?])
}

/// Times as utimes(2) has them.
pub(crate) fn coarse_times(given: Option<[timeval; 2]>) -> Option<[SetTime; 2]> {
    let fine = |time: timeval| match time.tv_usec {
        us @ 0..1_000_000 => Some(timespec { tv_sec: time.tv_sec, tv_nsec: us * 1000 }),
        _ => None,
    };
    match given {
        None => times(None),
        Some([atime, mtime]) => times(Some([fine(atime)?, fine(mtime)?])),
    }
}
