//! Names that go or change: the mount does it, which knows who else has the file open. What this process has open under such a
//! name is the kernel's before.

use crate::next::next;
use crate::{files, guard, memory, place, settle};
use core::ffi::{c_char, c_int, c_uint};

/// Gives back what was opened by this path.
///
/// REQUIRES: called within [`guard::inside`].
pub(super) fn settle_named(from: c_int, path: *const c_char) {
    let Some(path) = memory::text(path) else { return };
    if let Some((_, found, name)) = place::parent_of(from, path) {
        settle::named(found.stx_mnt_id, found.stx_ino, name);
    }
}

fn settle_all_named(names: &[(c_int, *const c_char)]) {
    if files::is_any() {
        for (from, path) in names {
            settle::descriptor(*from);
            guard::inside((), || settle_named(*from, *path));
        }
    }
}

macro_rules! removers {
    ($($name:ident($($arg:ident: $of:ty),*): $($from:expr, $path:ident),*;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            settle_all_named(&[$(($from, $path)),*]);
            next!($name($($arg: $of),*) -> c_int)
        })*
    };
}

removers! {
    unlink(path: *const c_char): libc::AT_FDCWD, path;
    unlinkat(from: c_int, path: *const c_char, flags: c_int): from, path;
    remove(path: *const c_char): libc::AT_FDCWD, path;
    rename(old: *const c_char, new: *const c_char): libc::AT_FDCWD, old, libc::AT_FDCWD, new;
    renameat(from: c_int, old: *const c_char, to: c_int, new: *const c_char): from, old, to, new;
    renameat2(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint): from, old, to, new;
    truncate(path: *const c_char, len: libc::off_t): libc::AT_FDCWD, path;
    truncate64(path: *const c_char, len: libc::off_t): libc::AT_FDCWD, path;
}
