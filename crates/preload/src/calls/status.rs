//! stat(2), access(2) and what is like them.

use crate::next::next;
use crate::open::{returned, with};
use crate::place::{self, Place};
use crate::report::{self, Kind};
use crate::stat::Found;
use crate::state::state;
use crate::{guard, memory, rights, settle, system};
use core::ffi::{c_char, c_int, c_uint};
use dolmen_dfs::{FileKind, Follow, Rights, Stat};

/// Attributes of what is no directory, or that nothing is there; `None` if the kernel is to find them, which follows links.
fn take(from: c_int, path: *const c_char, follow: Follow) -> Option<Result<Found, i32>> {
    let path = memory::text(path)?;
    settle::descriptor(from);
    place::settle_on(path);
    guard::attempt(|| {
        let place = place::of(from, path)?;
        let found = attributes(&place, follow);
        match &found {
            Some(_) => report::taken(Kind::Stat),
            None => report::passed(Kind::Stat),
        }
        found.map(|found| found.map(|stat| Found { stat, dir: place.found }))
    })
    .or_else(|| {
        guard::inside((), || refresh(from, path));
        None
    })
}

fn attributes(place: &Place<'_>, follow: Follow) -> Option<Result<Stat, i32>> {
    let Some(stat) = place.look().ok()? else { return Some(Err(libc::ENOENT)) };
    let is_ours = match stat.kind {
        FileKind::File | FileKind::Pipe | FileKind::Socket => true,
        FileKind::Symlink => follow == Follow::No,
        // Something may be mounted on it, or it has a number.
        _ => false,
    };
    is_ours.then_some(Ok(stat))
}

/// Times of a directory in which this process has made something may wait, and the kernel may remember them, or what a link leads to.
fn refresh(from: c_int, path: &core::ffi::CStr) {
    state().mounts.record_times_at(from, path);
    if state().mounts.has_changed() {
        // Ignored: it will fail again, for the program to see.
        _ = system::statx(from, path, libc::AT_STATX_FORCE_SYNC, libc::STATX_BASIC_STATS);
    }
}

macro_rules! of_paths {
    ($($name:ident($($before:ident: $of:ty)?): $follow:ident;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($before: $of,)? path: *const c_char, to: *mut libc::stat) -> c_int {
            match take(libc::AT_FDCWD, path, Follow::$follow) {
                Some(found) => returned(found.and_then(|found| found.put(to))),
                None => next!($name($($before: $of,)? path: *const c_char, to: *mut libc::stat) -> c_int),
            }
        })*
    };
}

of_paths! {
    stat(): Yes;
    stat64(): Yes;
    lstat(): No;
    lstat64(): No;
    __xstat(version: c_int): Yes;
    __xstat64(version: c_int): Yes;
    __lxstat(version: c_int): No;
    __lxstat64(version: c_int): No;
}

/// Flags of the functions that take a directory, which change nothing or what is said of links.
const AT_HARMLESS: c_int = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_FORCE_SYNC;

/// Whether `path` is empty, and so the descriptor itself is meant.
fn is_empty(path: *const c_char, flags: c_int) -> bool {
    flags & libc::AT_EMPTY_PATH != 0 && memory::text(path).is_none_or(|path| path.is_empty())
}

/// Attributes of what a directory and a path, or a descriptor alone, mean.
fn take_at(from: c_int, path: *const c_char, flags: c_int) -> Option<Result<Found, i32>> {
    if is_empty(path, flags) {
        return with(from, Kind::Stat, |open| open.stat());
    }
    let is_plain = flags & !(AT_HARMLESS | libc::AT_EMPTY_PATH) == 0;
    let follow = if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { Follow::Yes } else { Follow::No };
    if is_plain { take(from, path, follow) } else { None }
}

macro_rules! of_places {
    ($($name:ident($($version:ident: c_int)?);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($version: c_int,)? from: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int {
            match take_at(from, path, flags) {
                Some(found) => returned(found.and_then(|found| found.put(to))),
                None => next!($name($($version: c_int,)? from: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int),
            }
        })*
    };
}

of_places! {
    fstatat();
    fstatat64();
    __fxstatat(version: c_int);
    __fxstatat64(version: c_int);
}

macro_rules! of_files {
    ($($name:ident($($version:ident: c_int)?);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($version: c_int,)? fd: c_int, to: *mut libc::stat) -> c_int {
            match with(fd, Kind::Stat, |open| open.stat()) {
                Some(found) => returned(found.and_then(|found| found.put(to))),
                None => next!($name($($version: c_int,)? fd: c_int, to: *mut libc::stat) -> c_int),
            }
        })*
    };
}

of_files! {
    fstat();
    fstat64();
    __fxstat(version: c_int);
    __fxstat64(version: c_int);
}

#[unsafe(no_mangle)]
extern "C" fn statx(
    from: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    // What else can be asked for is the kernel's to know.
    let is_basic = mask & !(libc::STATX_BASIC_STATS | libc::STATX_BTIME) == 0;
    if !is_basic {
        settle::descriptor(from);
    }
    match take_at(from, path, flags).filter(|_| is_basic) {
        Some(found) => returned(found.and_then(|found| found.put_x(to))),
        None => {
            next!(statx(from: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx) -> c_int)
        }
    }
}

/// Whether a regular file may be used so, or that nothing is there; `None` if the kernel is to say so, which has to where it may not.
fn may(from: c_int, path: *const c_char, mode: c_int, flags: c_int) -> Option<Result<c_int, i32>> {
    let path = memory::text(path)?;
    settle::descriptor(from);
    let is_plain = flags & !(libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW) == 0 && mode & !7 == 0;
    if !is_plain || place::leads_to_descriptors(path) {
        return None;
    }
    guard::attempt(|| {
        let place = place::of(from, path)?;
        let told = allowed(&place, Rights(u32::try_from(mode).ok()?));
        match told {
            Some(_) => report::taken(Kind::Access),
            None => report::passed(Kind::Access),
        }
        told
    })
}

fn allowed(place: &Place<'_>, wanted: Rights) -> Option<Result<c_int, i32>> {
    let Some(stat) = place.look().ok()? else { return Some(Err(libc::ENOENT)) };
    let executes = wanted.0 & Rights::EXECUTE.0 != 0 && stat.permissions & 0o100 == 0;
    let is_refused = wanted.0 & Rights::WRITE.0 != 0 && !place.mount.writes;
    let is_plain = stat.kind == FileKind::File && !is_refused && system::is_itself();
    let is_let_in = || {
        let is_owners = !executes && rights::is_owners(&stat, wanted);
        is_owners || place.attempt(|_| rights::check_listed(place, &stat, wanted)).is_ok()
    };
    (is_plain && is_let_in()).then_some(Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    may(libc::AT_FDCWD, path, mode, 0)
        .map_or_else(|| next!(access(path: *const c_char, mode: c_int) -> c_int), returned)
}

#[unsafe(no_mangle)]
extern "C" fn faccessat(from: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    may(from, path, mode, flags).map_or_else(
        || next!(faccessat(from: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int),
        returned,
    )
}

#[unsafe(no_mangle)]
extern "C" fn eaccess(path: *const c_char, mode: c_int) -> c_int {
    may(libc::AT_FDCWD, path, mode, libc::AT_EACCESS)
        .map_or_else(|| next!(eaccess(path: *const c_char, mode: c_int) -> c_int), returned)
}

#[unsafe(no_mangle)]
extern "C" fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    eaccess(path, mode)
}
