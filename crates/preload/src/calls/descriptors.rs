//! Descriptors: closed, duplicated, asked for their flags.

use crate::files::Files;
use crate::next::next;
use crate::open::{Open, returned, with};
use crate::report::{self, Kind};
use crate::state::state;
use crate::{files, guard, mounts, settle};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use libc::c_ulong;
use std::sync::Arc;

/// Takes a descriptor out of the table before the kernel gives its number to something else; what the last one of a file has to
/// say.
fn closed(fd: c_int) -> Result<c_int, i32> {
    if !files::is_taken(fd) {
        return Ok(0);
    }
    let closed = guard::inside(Err(libc::EIO), || {
        let Some((open, is_last)) = state().files.remove(fd) else { return Ok(0) };
        report::taken(Kind::Other);
        let recorded = open.record();
        if is_last {
            drop(open);
        }
        recorded
    });
    closed.unwrap_or(Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn close(fd: c_int) -> c_int {
    if dolmen_env::is_apart(fd) {
        return returned(Err(libc::EBADF));
    }
    let recorded = closed(fd);
    let done = next!(close(fd: c_int) -> c_int);
    match recorded {
        Err(errno) if done == 0 => returned(Err(errno)),
        _ => done,
    }
}

#[unsafe(no_mangle)]
extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOSE_ON_EXEC: c_int = 4;
    if flags & CLOSE_ON_EXEC != 0 {
        return next!(close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int);
    }
    let closes = |fd: c_int| c_uint::try_from(fd).is_ok_and(|fd| first <= fd && fd <= last);
    let own = dolmen_env::apart();
    let taken = guard::inside(Vec::new(), || state().files.descriptors());
    for fd in taken.into_iter().flatten() {
        if closes(fd) {
            // Ignored: the data is stored, and nobody is told of single files.
            _ = closed(fd);
        }
    }
    // All but the library's own.
    let mut from = first;
    for kept in own.filter(|fd| closes(*fd)).filter_map(|fd| c_uint::try_from(fd).ok()) {
        let (first, last) = (from, kept.wrapping_sub(1));
        if kept > first {
            next!(close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int);
        }
        from = kept + 1;
    }
    if from > last {
        return 0;
    }
    let first = from;
    next!(close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int)
}

#[unsafe(no_mangle)]
extern "C" fn closefrom(first: c_int) {
    close_range(c_uint::try_from(first).unwrap_or(0), c_uint::MAX, 0);
}

/// Before `to` becomes the same as `from`. The C library may have a stream on it, if there is something: that is the kernel's.
fn settled_for(from: c_int, to: c_int) {
    if files::is_taken(from) && (!Files::has_place(to) || crate::system::is_open(to) && !files::is_taken(to))
    {
        settle::descriptor(from);
    }
}

/// What `fd` stands for, to be found under another number as well.
fn shared(fd: c_int) -> Option<Arc<Open>> {
    files::is_taken(fd).then(|| guard::attempt(|| state().files.find(fd))).flatten()
}

/// Has the new number of a placeholder stand for the same.
fn also(fd: c_int, open: Option<Arc<Open>>) -> c_int {
    let Some(open) = open.filter(|_| fd >= 0) else { return fd };
    guard::inside((), || state().files.insert(fd, open));
    fd
}

#[unsafe(no_mangle)]
extern "C" fn dup(fd: c_int) -> c_int {
    let open = shared(fd);
    let other = next!(dup(fd: c_int) -> c_int);
    if open.is_none() || other < 0 || Files::has_place(other) {
        return also(other, open);
    }
    // The kernel's own there: once more, by the same number.
    crate::system::close(other);
    settle::descriptor(fd);
    next!(dup(fd: c_int) -> c_int)
}

/// Before `to` becomes something else.
fn given_up(from: c_int, to: c_int) {
    if dolmen_env::is_apart(to) {
        mounts::abandon();
    }
    if from != to {
        // Ignored: the kernel tells nobody of errors of what a duplicate has taken the number of.
        _ = closed(to);
    }
}

#[unsafe(no_mangle)]
extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    settled_for(from, to);
    let open = shared(from).filter(|_| from != to);
    given_up(from, to);
    also(next!(dup2(from: c_int, to: c_int) -> c_int), open)
}

#[unsafe(no_mangle)]
extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    settled_for(from, to);
    let open = shared(from).filter(|_| from != to);
    given_up(from, to);
    also(next!(dup3(from: c_int, to: c_int, flags: c_int) -> c_int), open)
}

/// What can be set of an open file without the kernel.
const SETTABLE: c_int = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME;

/// Sets the flags that can be set; `None` for those that only the kernel knows.
fn set_flags(open: &Open, flags: c_int) -> Option<c_int> {
    if flags & (libc::O_DIRECT | libc::O_ASYNC) != 0 {
        return None;
    }
    let change = |known: c_int| Some(known & !SETTABLE | flags & SETTABLE);
    // Ignored: it always changes.
    _ = open.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    Some(0)
}

macro_rules! controls {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
            let own = c_int::try_from(arg).unwrap_or(0);
            let done = match command {
                libc::F_GETFD | libc::F_SETFD => None,
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                    if !Files::has_place(own) {
                        settle::descriptor(fd);
                    }
                    let open = shared(fd);
                    return also(next!($name(fd: c_int, command: c_int, arg: c_ulong) -> c_int), open);
                }
                libc::F_GETFL => with(fd, Kind::Other, |open| Ok(Some(open.told_flags()))),
                libc::F_SETFL => with(fd, Kind::Other, |open| Ok(set_flags(open, own))),
                _ => Some(Ok(None)),
            };
            match done {
                Some(Ok(Some(done))) => done,
                Some(Err(errno)) => returned(Err(errno)),
                Some(Ok(None)) => {
                    settle::descriptor(fd);
                    next!($name(fd: c_int, command: c_int, arg: c_ulong) -> c_int)
                }
                None => next!($name(fd: c_int, command: c_int, arg: c_ulong) -> c_int),
            }
        })*
    };
}

controls! { fcntl fcntl64 }
