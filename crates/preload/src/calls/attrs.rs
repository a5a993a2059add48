//! Attributes that are set, and extended ones.

use super::names::settle_named;
use crate::attrs::{self, Subject, coarse_times, times};
use crate::names::{self, Told};
use crate::next::next;
use crate::open::{self, returned};
use crate::report::Kind;
use crate::{files, guard, memory, settle};
use core::ffi::{c_char, c_int, c_uint, c_void};
use dolmen_dfs::{OpenOptions, SetTime};
use libc::{mode_t, off_t, size_t, ssize_t, timespec, timeval};

const CWD: c_int = libc::AT_FDCWD;

/// Does something with a file or directory, or with a symbolic link itself if `or_link`.
fn at<T>(
    (from, path): (c_int, *const c_char),
    or_link: bool,
    act: impl FnOnce(&Subject<'_>) -> Told<T>,
) -> Told<T> {
    names::at(Kind::Attr, (from, path), |place, path| attrs::at(place, (from, path), or_link, act))
}

/// The same with what is open.
fn of<T>(fd: c_int, act: impl FnOnce(&Subject<'_>) -> Told<T>) -> Told<T> {
    open::take(fd, Kind::Attr, |open| attrs::of(open, act))
}

/// Does it for files, changing them.
fn set_at(
    (from, path): (c_int, *const c_char),
    flags: c_int,
    act: impl FnOnce(&Subject<'_>) -> Told<c_int>,
) -> Told<c_int> {
    let or_link = match flags {
        0 => false,
        libc::AT_SYMLINK_NOFOLLOW => true,
        _ => {
            settle::descriptor(from);
            return None;
        }
    };
    at((from, path), or_link, act)
}

fn pair<T: Copy>(times: *const T) -> Option<[T; 2]> {
    memory::list(times, 2).try_into().ok()
}

/// As utimensat(2), which means the descriptor if there is no path.
fn timed(from: c_int, path: *const c_char, times: Option<[SetTime; 2]>, flags: c_int) -> Told<c_int> {
    let Some(times) = times else {
        settle::descriptor(from);
        return None;
    };
    if path.is_null() {
        return if flags == 0 { of(from, |subject| subject.set_times(times)) } else { None };
    }
    set_at((from, path), flags, |subject| subject.set_times(times))
}

fn cut(path: *const c_char, len: off_t) -> Told<c_int> {
    let len = u64::try_from(len).ok()?;
    names::at(Kind::Attr, (CWD, path), |place, _| {
        let options = OpenOptions { write: true, read: false, no_follow: true, ..OpenOptions::READ };
        let opened = super::opening::existing(place, &options);
        let (file, stat) = match names::sure(opened)? {
            Ok(opened) => opened,
            Err(errno) => return Some(Err(errno)),
        };
        if stat.permissions & attrs::SET_IDS != 0 {
            return None;
        }
        let done = file.set_len(len);
        drop(file);
        place.mount.note_change(stat.ino);
        names::sure(done.map(|()| 0))
    })
}

macro_rules! setters {
    ($($name:ident($($arg:ident: $of:ty),*) $(before $before:expr)? => $told:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            if let Some(told) = $told {
                return returned(told);
            }
            $($before;)?
            next!($name($($arg: $of),*) -> c_int)
        })*
    };
}

/// Before the kernel does something with a name that this process may have open.
fn settled(path: *const c_char) {
    if files::is_any() {
        guard::inside((), || settle_named(CWD, path));
    }
}

setters! {
    chmod(path: *const c_char, mode: mode_t) before settled(path) => set_at((CWD, path), 0, |subject| subject.set_mode(mode));
    fchmod(fd: c_int, mode: mode_t) => of(fd, |subject| subject.set_mode(mode));
    fchmodat(from: c_int, path: *const c_char, mode: mode_t, flags: c_int) => if flags == 0 { set_at((from, path), 0, |subject| subject.set_mode(mode)) } else { settle::descriptor(from); None };
    chown(path: *const c_char, uid: c_uint, gid: c_uint) => set_at((CWD, path), 0, |subject| subject.set_owner(uid, gid));
    lchown(path: *const c_char, uid: c_uint, gid: c_uint) => set_at((CWD, path), libc::AT_SYMLINK_NOFOLLOW, |subject| subject.set_owner(uid, gid));
    fchown(fd: c_int, uid: c_uint, gid: c_uint) => of(fd, |subject| subject.set_owner(uid, gid));
    fchownat(from: c_int, path: *const c_char, uid: c_uint, gid: c_uint, flags: c_int) => set_at((from, path), flags, |subject| subject.set_owner(uid, gid));
    utimensat(from: c_int, path: *const c_char, given: *const timespec, flags: c_int) => timed(from, path, times(pair(given)), flags);
    futimens(fd: c_int, given: *const timespec) => timed(fd, core::ptr::null(), times(pair(given)), 0);
    utimes(path: *const c_char, given: *const timeval) => timed(CWD, path, coarse_times(pair(given)), 0);
    lutimes(path: *const c_char, given: *const timeval) => timed(CWD, path, coarse_times(pair(given)), libc::AT_SYMLINK_NOFOLLOW);
    futimes(fd: c_int, given: *const timeval) => timed(fd, core::ptr::null(), coarse_times(pair(given)), 0);
    futimesat(from: c_int, path: *const c_char, given: *const timeval) => timed(from, path, coarse_times(pair(given)), 0);
    truncate(path: *const c_char, len: off_t) before settled(path) => cut(path, len);
    truncate64(path: *const c_char, len: off_t) before settled(path) => cut(path, len);
    setxattr(path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) => at((CWD, path), false, |subject| set_xattr(subject, name, (from, len), flags));
    lsetxattr(path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) => at((CWD, path), false, |subject| set_xattr(subject, name, (from, len), flags));
    fsetxattr(fd: c_int, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) => of(fd, |subject| set_xattr(subject, name, (from, len), flags));
    removexattr(path: *const c_char, name: *const c_char) => at((CWD, path), false, |subject| subject.set_xattr(memory::text(name)?.to_bytes(), None, 0));
    lremovexattr(path: *const c_char, name: *const c_char) => at((CWD, path), false, |subject| subject.set_xattr(memory::text(name)?.to_bytes(), None, 0));
    fremovexattr(fd: c_int, name: *const c_char) => of(fd, |subject| subject.set_xattr(memory::text(name)?.to_bytes(), None, 0));
}

#[unsafe(no_mangle)]
extern "C" fn utime(path: *const c_char, given: *const libc::utimbuf) -> c_int {
    let fine = |time| timespec { tv_sec: time, tv_nsec: 0 };
    let given_times = memory::get(given).map(|given| [fine(given.actime), fine(given.modtime)]);
    match timed(CWD, path, times(given_times), 0) {
        Some(told) => returned(told),
        None => next!(utime(path: *const c_char, given: *const libc::utimbuf) -> c_int),
    }
}

fn set_xattr(
    subject: &Subject<'_>,
    name: *const c_char,
    (from, len): (*const c_void, size_t),
    flags: c_int,
) -> Told<c_int> {
    subject.set_xattr(memory::text(name)?.to_bytes(), Some(memory::bytes(from, len).ok()?), flags)
}

macro_rules! getters {
    ($($name:ident($($arg:ident: $of:ty),*): $told:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> ssize_t {
            match $told {
                Some(told) => returned(told),
                None => next!($name($($arg: $of),*) -> ssize_t),
            }
        })*
    };
}

getters! {
    getxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t): at((CWD, path), false, |subject| xattr(subject, name, to, len));
    lgetxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t): at((CWD, path), false, |subject| xattr(subject, name, to, len));
    fgetxattr(fd: c_int, name: *const c_char, to: *mut c_void, len: size_t): of(fd, |subject| xattr(subject, name, to, len));
    listxattr(path: *const c_char, to: *mut c_char, len: size_t): at((CWD, path), false, |subject| subject.xattr_names(memory::room(to.cast(), len).ok()?));
    llistxattr(path: *const c_char, to: *mut c_char, len: size_t): at((CWD, path), false, |subject| subject.xattr_names(memory::room(to.cast(), len).ok()?));
    flistxattr(fd: c_int, to: *mut c_char, len: size_t): of(fd, |subject| subject.xattr_names(memory::room(to.cast(), len).ok()?));
}

fn xattr(subject: &Subject<'_>, name: *const c_char, to: *mut c_void, len: size_t) -> Told<ssize_t> {
    subject.xattr(memory::text(name)?.to_bytes(), memory::room(to, len).ok()?)
}
