//! Names made, removed and moved without the kernel, which says who may do it.
//!
//! Invariants: what is refused for a reason that the store does not name for sure is the mount's to answer; what this process has
//! open under a name that goes is the kernel's, and so is then the removal.

use crate::memory;
use crate::place::{self, Place};
use crate::report::{self, Kind};
use crate::state::state;
use crate::{guard, settle, system};
use core::ffi::{CStr, c_char, c_int, c_uint};
use dolmen_dfs::{Error, FileKind, New, RenameMode, number_of};
use libc::mode_t;
use std::sync::Arc;

/// An answer, or none if the kernel is to give it.
pub(crate) type Told<T> = Option<Result<T, i32>>;

/// Does something at a place that a program names, if it is ours.
pub(crate) fn at<T>(
    kind: Kind,
    (from, path): (c_int, *const c_char),
    act: impl FnOnce(&Place<'_>, &CStr) -> Told<T>,
) -> Told<T> {
    let path = memory::text(path)?;
    before(from, path);
    guard::attempt(|| {
        let place = place::of(from, path)?;
        counted(kind, act(&place, path))
    })
}

/// Before a path is followed.
fn before(from: c_int, path: &CStr) {
    settle::descriptor(from);
    place::settle_on(path);
}

fn counted<T>(kind: Kind, told: Told<T>) -> Told<T> {
    match told {
        Some(_) => report::taken(kind),
        None => report::passed(kind),
    }
    told
}

/// What is told of an operation on names: the errors that say what is there are as sure as success.
pub(crate) fn sure<T>(done: dolmen_dfs::Result<T>) -> Told<T> {
    match done {
        Ok(done) => Some(Ok(done)),
        Err(
            error @ (Error::NotFound
            | Error::Exists
            | Error::NotEmpty
            | Error::IsDirectory
            | Error::NotDirectory),
        ) => Some(Err(error.errno())),
        Err(_) => None,
    }
}

/// Makes anything but an open file.
pub(crate) fn make(place: &Place<'_>, new: New<'_>, mode: mode_t) -> Told<c_int> {
    if !place.is_plain() {
        return None;
    }
    let mode = match new {
        New::Symlink(_) => 0o777,
        New::Directory => mode & 0o1777 & !state().user().1,
        _ => mode & 0o7777 & !state().user().1,
    };
    let made = place.attempt(|dir| dir.make(place.name, new, mode));
    place.note_name();
    sure(made.map(|_| 0))
}

/// Removes a directory, or anything else.
pub(crate) fn remove(place: &Place<'_>, (from, path): (c_int, &CStr), is_dir: bool) -> Told<c_int> {
    if place.settle() || !place.may_remove() || is_dir && place.is_mounted_over(from, path) {
        return None;
    }
    let removed = place.attempt(|dir| dir.remove_as(place.name, is_dir));
    place.note_name();
    if let Ok((kind, oid)) = &removed {
        // It may have other names.
        place.mount.note_change(number_of(*oid));
        if *kind == FileKind::Directory {
            place.mount.forget_dir(number_of(*oid));
        }
    }
    sure(removed.map(|_| 0))
}

/// What is under a name, known or not.
struct Known {
    ino: u64,
    is_dir: bool,
}

fn known(place: &Place<'_>) -> Option<Option<Known>> {
    let found = place.look().ok()?;
    Some(found.map(|stat| Known { ino: stat.ino, is_dir: stat.kind == FileKind::Directory }))
}

/// Does something at two places that a program names, if both are ours and in one mount.
fn at_both(
    (from, old): (c_int, *const c_char),
    (to, new): (c_int, *const c_char),
    act: impl FnOnce(&Place<'_>, &Place<'_>, [(c_int, &CStr); 2]) -> Told<c_int>,
) -> Told<c_int> {
    let (old, new) = (memory::text(old)?, memory::text(new)?);
    before(from, old);
    before(to, new);
    guard::attempt(|| {
        let (source, target) = (place::of(from, old)?, place::of(to, new)?);
        let is_one = Arc::ptr_eq(&source.mount, &target.mount);
        let done = is_one.then(|| act(&source, &target, [(from, old), (to, new)])).flatten();
        counted(Kind::Name, done)
    })
}

/// As renameat2(2).
pub(crate) fn rename(old: (c_int, *const c_char), new: (c_int, *const c_char), flags: c_uint) -> Told<c_int> {
    let mode = match flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        libc::RENAME_EXCHANGE => RenameMode::Exchange,
        _ => return None,
    };
    at_both(old, new, |source, target, paths| renamed(source, target, paths, mode))
}

fn renamed(
    source: &Place<'_>,
    target: &Place<'_>,
    paths: [(c_int, &CStr); 2],
    mode: RenameMode,
) -> Told<c_int> {
    let is_open = source.settle() | target.settle();
    if is_open || !source.may_remove() || !target.may_remove() {
        return None;
    }
    let Some(moved) = known(source)? else { return Some(Err(libc::ENOENT)) };
    let victim = known(target)?;
    let changes_parent = source.found.stx_ino != target.found.stx_ino;
    let both = [(Some(&moved), source, paths[0]), (victim.as_ref(), target, paths[1])];
    for (known, place, (from, path)) in both {
        // Its `..` changes with its directory, for which it has to be the caller's to write.
        let may_move = || !changes_parent || system::may(from, path, libc::W_OK);
        if known.is_some_and(|known| known.is_dir) && (place.is_mounted_over(from, path) || !may_move()) {
            return None;
        }
    }
    let (old_dir, new_dir) = (source.directory()?, target.directory()?);
    let renamed = old_dir.rename(source.name, &new_dir, target.name, mode);
    source.note_name();
    target.note_name();
    for known in [Some(&moved), victim.as_ref()].into_iter().flatten() {
        source.mount.note_change(known.ino);
        if known.is_dir {
            source.mount.note_moved();
        }
    }
    sure(renamed.map(|()| 0))
}

/// As linkat(2) where links are not followed.
pub(crate) fn link(old: (c_int, *const c_char), new: (c_int, *const c_char)) -> Told<c_int> {
    at_both(old, new, |source, target, _paths| linked(source, target))
}

fn linked(source: &Place<'_>, target: &Place<'_>) -> Told<c_int> {
    if !target.may_add() {
        return None;
    }
    let looked = source.attempt(|dir| dir.lookup(source.name));
    let Some((obj, stat)) = sure(looked)?.ok() else { return Some(Err(libc::ENOENT)) };
    let uid = state().user().0;
    // To whom else a link may be made the kernel's settings say.
    if stat.kind != FileKind::File || uid != 0 && uid != stat.uid {
        return None;
    }
    let linked = target.attempt(|dir| dir.link_to(&obj, target.name));
    target.note_name();
    source.mount.note_change(stat.ino);
    sure(linked.map(|_| 0))
}

/// As readlink(2), into `room`.
pub(crate) fn read_link(place: &Place<'_>, room: &mut [u8]) -> Told<isize> {
    if room.is_empty() {
        return None;
    }
    match place.look().ok()? {
        None => return Some(Err(libc::ENOENT)),
        Some(stat) if stat.kind != FileKind::Symlink => return Some(Err(libc::EINVAL)),
        Some(_) => {}
    }
    let target = place
        .attempt(|dir| {
            let obj = dir.lookup(place.name)?.0;
            let target = obj.readlink()?;
            // Ignored: the target is known, and the time of the access is none of its reader's.
            _ = obj.note_read();
            Ok(target)
        })
        .ok()?;
    let len = target.len().min(room.len());
    room[..len].copy_from_slice(&target[..len]);
    Some(isize::try_from(len).map_err(|_too_long| libc::EINVAL))
}
