//! Files given back to the kernel: opened by the mount, with the same offset and flags, in the place of every descriptor that
//! stood for them. All opens of one file go together, and what is opened of it later is the kernel's, too: it remembers the
//! length of what it has open, and must hear of every write.

use crate::open::Open;
use crate::state::state;
use crate::{files, guard, report, system};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::ffi::CString;
use std::sync::{Arc, PoisonError};

/// What of the flags an open file keeps.
const KEPT: c_int = libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK | libc::O_SYNC | libc::O_NOATIME;

/// Gives the file that `fd` stands for back to the kernel, if it stands for one.
pub(crate) fn descriptor(fd: c_int) {
    if files::is_taken(fd) {
        guard::inside((), || {
            if let Some(open) = state().files.find(fd) {
                one(&open);
            }
        });
    }
}

/// Gives all files back: for whoever is about to share or to lose all descriptors.
pub(crate) fn everything() {
    if files::is_any() {
        guard::inside((), all);
    }
}

/// As [`everything`], for a thread in this library.
pub(crate) fn all() {
    if files::is_any() {
        for open in state().files.all() {
            one(&open);
        }
    }
}

/// Gives those back that were opened as `name` of the directory `dir`; whether there were any.
pub(crate) fn named(mount: u64, dir: u64, name: &[u8]) -> bool {
    let mut were_any = false;
    for open in state().files.all() {
        if open.mount.id == mount && open.at.0 == dir && *open.at.1 == *name {
            one(&open);
            were_any = true;
        }
    }
    were_any
}

/// Gives back all that is open of a file; whether anything was.
pub(crate) fn numbered(mount: u64, ino: u64) -> bool {
    let is_it = |open: &Arc<Open>| open.mount.id == mount && open.ino == ino;
    let open = files::is_any().then(|| state().files.all().into_iter().find(is_it)).flatten();
    open.is_some_and(|open| {
        one(&open);
        true
    })
}

/// Records all times that wait for it.
pub(crate) fn record_all() {
    if files::is_any() {
        for open in state().files.all() {
            // Ignored: the process ends, and the data is stored.
            _ = open.record();
        }
    }
}

/// Gives a file back, and all other opens of it; whether the kernel has it now.
pub(crate) fn one(open: &Arc<Open>) -> bool {
    open.mount.leave(open.ino);
    let mut is_done = true;
    for other in state().files.all() {
        if other.ino == open.ino && other.mount.id == open.mount.id {
            is_done &= alone(&other);
        }
    }
    is_done
}

fn alone(open: &Arc<Open>) -> bool {
    let mut is_settled = open.is_settled.write().unwrap_or_else(PoisonError::into_inner);
    if *is_settled {
        return true;
    }
    let files = &state().files;
    let Some(placeholder) = files.descriptor_of(open) else { return false };
    // Ignored: the time of the change is the kernel's next write, or that of the store.
    _ = open.record();
    let flags = open.flags.load(Ordering::Relaxed) & KEPT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let Some(fd) = opened(placeholder, open, flags) else { return false };
    system::seek(fd, *open.offset.lock().unwrap_or_else(PoisonError::into_inner));
    files.replace(open, fd);
    system::close(fd);
    *is_settled = true;
    report::settled();
    true
}

/// The same file by the mount: by its name, or, if that has changed, by its number.
fn opened(dir: c_int, open: &Open, flags: c_int) -> Option<c_int> {
    let oid = open.file.oid();
    let by_number = format!(".dolmen-number-{:016x}{:016x}", oid.hi, oid.lo);
    for name in [CString::new(&*open.at.1), CString::new(by_number)] {
        let Ok(fd) = name.map_err(|_zero| libc::EINVAL).and_then(|name| system::open_at(dir, &name, flags))
        else {
            continue;
        };
        if system::refresh(fd).is_ok_and(|found| found.stx_ino == open.ino) {
            return Some(fd);
        }
        system::close(fd);
    }
    None
}
