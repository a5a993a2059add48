//! Names that are made, removed or changed.

use crate::names::{self, Told};
use crate::next::next;
use crate::open::returned;
use crate::report::Kind;
use crate::{files, guard, memory, place, settle};
use core::ffi::{c_char, c_int, c_uint};
use dolmen_dfs::New;
use libc::{mode_t, size_t, ssize_t};

/// Gives back what was opened by this path.
///
/// REQUIRES: called within [`guard::inside`].
pub(super) fn settle_named(from: c_int, path: *const c_char) {
    let Some(path) = memory::text(path) else { return };
    if let Some((_, found, name)) = place::parent_of(from, path) {
        settle::named(found.stx_mnt_id, found.stx_ino, name);
    }
}

/// Before the kernel does something with these names.
fn settle_all_named(names: &[(c_int, *const c_char)]) {
    if files::is_any() {
        for (from, path) in names {
            settle::descriptor(*from);
            guard::inside((), || settle_named(*from, *path));
        }
    }
}

fn unlinked(from: c_int, path: *const c_char, flags: c_int) -> Told<c_int> {
    let is_dir = match flags {
        0 => false,
        libc::AT_REMOVEDIR => true,
        _ => return None,
    };
    names::at(Kind::Name, (from, path), |place, path| names::remove(place, (from, path), is_dir))
}

/// As remove(3): whatever it is.
fn removed(path: *const c_char) -> Told<c_int> {
    match unlinked(libc::AT_FDCWD, path, 0) {
        Some(Err(libc::EISDIR)) => unlinked(libc::AT_FDCWD, path, libc::AT_REMOVEDIR),
        told => told,
    }
}

macro_rules! changers {
    ($($name:ident($($arg:ident: $of:ty),*): [$($from:expr, $path:ident),*], $told:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            if let Some(told) = $told {
                return returned(told);
            }
            settle_all_named(&[$(($from, $path)),*]);
            next!($name($($arg: $of),*) -> c_int)
        })*
    };
}

const CWD: c_int = libc::AT_FDCWD;

changers! {
    unlink(path: *const c_char): [CWD, path], unlinked(CWD, path, 0);
    unlinkat(from: c_int, path: *const c_char, flags: c_int): [from, path], unlinked(from, path, flags);
    rmdir(path: *const c_char): [CWD, path], unlinked(CWD, path, libc::AT_REMOVEDIR);
    remove(path: *const c_char): [CWD, path], removed(path);
    rename(old: *const c_char, new: *const c_char): [CWD, old, CWD, new], names::rename((CWD, old), (CWD, new), 0);
    renameat(from: c_int, old: *const c_char, to: c_int, new: *const c_char): [from, old, to, new], names::rename((from, old), (to, new), 0);
    renameat2(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint): [from, old, to, new], names::rename((from, old), (to, new), flags);
}

fn made(from: c_int, path: *const c_char, new: New<'_>, mode: mode_t) -> Told<c_int> {
    names::at(Kind::Name, (from, path), |place, _| names::make(place, new, mode))
}

/// As mknod(2); devices are the kernel's.
fn special(from: c_int, path: *const c_char, mode: mode_t) -> Told<c_int> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => made(from, path, New::File, mode & 0o7777),
        libc::S_IFIFO => made(from, path, New::Pipe, mode & 0o7777),
        _ => None,
    }
}

fn symlinked(target: *const c_char, from: c_int, path: *const c_char) -> Told<c_int> {
    let target = memory::text(target)?.to_bytes();
    made(from, path, New::Symlink(target), 0o777)
}

macro_rules! makers {
    ($($name:ident($($arg:ident: $of:ty),*): $from:expr, $told:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            if let Some(told) = $told {
                return returned(told);
            }
            settle::descriptor($from);
            next!($name($($arg: $of),*) -> c_int)
        })*
    };
}

makers! {
    mkdir(path: *const c_char, mode: mode_t): CWD, made(CWD, path, New::Directory, mode);
    mkdirat(from: c_int, path: *const c_char, mode: mode_t): from, made(from, path, New::Directory, mode);
    mknod(path: *const c_char, mode: mode_t, device: libc::dev_t): CWD, special(CWD, path, mode);
    mknodat(from: c_int, path: *const c_char, mode: mode_t, device: libc::dev_t): from, special(from, path, mode);
    mkfifo(path: *const c_char, mode: mode_t): CWD, special(CWD, path, mode & 0o7777 | libc::S_IFIFO);
    mkfifoat(from: c_int, path: *const c_char, mode: mode_t): from, special(from, path, mode & 0o7777 | libc::S_IFIFO);
    symlink(target: *const c_char, path: *const c_char): CWD, symlinked(target, CWD, path);
    symlinkat(target: *const c_char, from: c_int, path: *const c_char): from, symlinked(target, from, path);
    link(old: *const c_char, new: *const c_char): CWD, names::link((CWD, old), (CWD, new));
}

#[unsafe(no_mangle)]
extern "C" fn linkat(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> c_int {
    let told = if flags == 0 { names::link((from, old), (to, new)) } else { None };
    if let Some(told) = told {
        return returned(told);
    }
    settle::descriptor(from);
    settle::descriptor(to);
    next!(linkat(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> c_int)
}

fn target_of(from: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> Told<ssize_t> {
    let room = memory::room(to.cast(), len).ok()?;
    names::at(Kind::Name, (from, path), |place, _| names::read_link(place, room))
}

#[unsafe(no_mangle)]
extern "C" fn readlink(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t {
    match target_of(CWD, path, to, len) {
        Some(told) => returned(told),
        None => next!(readlink(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t),
    }
}

#[unsafe(no_mangle)]
extern "C" fn readlinkat(from: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t {
    match target_of(from, path, to, len) {
        Some(told) => returned(told),
        None => {
            settle::descriptor(from);
            next!(readlinkat(from: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t)
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn __readlink_chk(path: *const c_char, to: *mut c_char, len: size_t, room: size_t) -> ssize_t {
    readlink(path, to, len.min(room))
}

#[unsafe(no_mangle)]
extern "C" fn __readlinkat_chk(
    from: c_int,
    path: *const c_char,
    to: *mut c_char,
    len: size_t,
    room: size_t,
) -> ssize_t {
    readlinkat(from, path, to, len.min(room))
}
