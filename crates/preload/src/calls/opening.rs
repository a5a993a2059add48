//! open(2) and what is like it.

use crate::files::Files;
use crate::next::next;
use crate::open::{Ends, Open, returned};
use crate::place::{self, Place};
use crate::report::{self, Kind};
use crate::state::state;
use crate::{guard, memory, rights, settle, system};
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use dolmen_dfs::{Error, File, FileKind, OpenOptions, Rights, Stat};
use libc::mode_t;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Flags of which the kernel makes more than is made here.
const NOT_TAKEN: c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_DIRECT | libc::O_ASYNC | libc::O_TMPFILE;

/// Opens a regular file, or says that nothing is there; `None` if the kernel is to do it.
fn take(from: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<Result<c_int, i32>> {
    let path = memory::text(path)?;
    let is_taken = flags & NOT_TAKEN == 0 && flags & libc::O_ACCMODE != libc::O_ACCMODE;
    guard::attempt(|| {
        let forking = state().forking.read().unwrap_or_else(PoisonError::into_inner);
        let place = place::of(from, path)?;
        let fd = match is_taken {
            true if is_missing(&place, flags) => Some(Err(libc::ENOENT)),
            true => taken(&place, flags, mode).map(Ok),
            false => None,
        };
        drop(forking);
        match fd {
            Some(_) => report::taken(Kind::Open),
            None => report::passed(Kind::Open),
        }
        fd
    })
}

/// Whether a file that is not to be made is known not to be there.
fn is_missing(place: &Place<'_>, flags: c_int) -> bool {
    flags & libc::O_CREAT == 0
        && matches!(place.mount.heard.known(place.found.stx_ino, place.name), Some(None))
}

fn taken(place: &Place<'_>, flags: c_int, mode: mode_t) -> Option<c_int> {
    let creates = flags & libc::O_CREAT != 0;
    if creates && !reopens(flags, mode) {
        return None;
    }
    // First of all the descriptor: what is made must not be there if there is none.
    let fd = place.parent.open(flags & libc::O_CLOEXEC).ok()?;
    let opened = if Files::has_place(fd) { opened(place, flags, mode) } else { None };
    let Some((file, stat)) = opened.filter(|(_, stat)| !place.mount.is_left(stat.ino)) else {
        system::close(fd);
        return None;
    };
    let open = Open {
        file,
        mount: Arc::clone(&place.mount),
        at: (place.found.stx_ino, place.name.into()),
        ino: stat.ino,
        dir: place.found,
        offset: Mutex::new(0),
        flags: AtomicI32::new(flags),
        is_changed: AtomicBool::new(flags & libc::O_TRUNC != 0),
        is_settled: RwLock::new(false),
        descriptors: AtomicUsize::new(0),
        _ends: Ends(Arc::clone(&place.mount), stat.ino),
    };
    state().files.insert(fd, Arc::new(open));
    Some(fd)
}

/// Whether its maker may open a new file with these permissions once more, in the same way: the mount will do it.
fn reopens(flags: c_int, mode: mode_t) -> bool {
    let (uid, umask) = state().user();
    let needed = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => 0o400,
        libc::O_WRONLY => 0o200,
        _ => 0o600,
    };
    uid == 0 || mode & !umask & needed == needed
}

fn opened(place: &Place<'_>, flags: c_int, mode: mode_t) -> Option<(File, Stat)> {
    let access = flags & libc::O_ACCMODE;
    let writes = access != libc::O_RDONLY;
    let truncate = flags & libc::O_TRUNC != 0;
    if truncate && !writes {
        return None;
    }
    let options = OpenOptions {
        read: access != libc::O_WRONLY,
        write: writes,
        truncate,
        no_follow: true,
        ..OpenOptions::READ
    };
    let creates = flags & libc::O_CREAT != 0;
    let made = if creates { made(place, &options, mode) } else { Err(Error::Exists) };
    let opened = match made {
        Err(Error::Exists) if flags & (libc::O_CREAT | libc::O_EXCL) != libc::O_CREAT | libc::O_EXCL => {
            existing(place, &options)
        }
        made => made,
    };
    if creates {
        place.note_name();
    }
    if !creates && matches!(opened, Err(Error::NotFound)) {
        // Ignored: what is found, or not, is to be known the next time.
        _ = place.look();
    }
    let opened = opened.ok()?;
    if creates || truncate {
        place.mount.note_change(opened.1.ino);
    }
    Some(opened)
}

/// Makes a file that must not exist.
fn made(place: &Place<'_>, options: &OpenOptions, mode: mode_t) -> dolmen_dfs::Result<(File, Stat)> {
    let (_, umask) = state().user();
    let options = OpenOptions {
        create: true,
        exclusive: true,
        truncate: false,
        mode: mode & 0o7777 & !umask,
        ..*options
    };
    // What gets something from its directory is for the mount to make, which looks at that each time.
    if !place.is_plain() || rights::loses_set_ids(mode) {
        return Err(Error::NotSupported);
    }
    place.attempt(|dir| dir.create(place.name, &options))
}

/// Opens a file that exists.
pub(super) fn existing(place: &Place<'_>, options: &OpenOptions) -> dolmen_dfs::Result<(File, Stat)> {
    place.attempt(|dir| {
        let (obj, stat) = dir.lookup(place.name)?;
        let is_kernels =
            place.mount.is_left(stat.ino) || options.write && rights::loses_set_ids(stat.permissions);
        if stat.kind != FileKind::File || is_kernels {
            return Err(Error::NotSupported);
        }
        let write = if options.write { Rights::WRITE } else { Rights::NONE };
        let wanted = write.and(if options.read { Rights::READ } else { Rights::NONE });
        if !rights::is_owners(&stat, wanted) {
            rights::check_listed(place, &stat, wanted)?;
        }
        Ok((obj.open(options)?, stat))
    })
}

/// What the kernel has opened may have another length than it remembers.
fn handed_on(fd: c_int) -> c_int {
    if fd >= 0 {
        guard::inside((), || {
            if state().mounts.has_changed() {
                // Ignored: then it goes by what it remembers, as for anybody else.
                _ = system::refresh(fd);
            }
        });
    }
    fd
}

/// Before the kernel follows a path.
fn before(from: c_int, path: *const c_char) {
    settle::descriptor(from);
    if let Some(path) = memory::text(path) {
        place::settle_on(path);
    }
}

macro_rules! openers {
    ($($name:ident($($from:ident: c_int)?)($($mode:ident: mode_t)?);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($from: c_int,)? path: *const c_char, flags: c_int $(, $mode: mode_t)?) -> c_int {
            let dir = [$($from,)? libc::AT_FDCWD][0];
            let mode = [$($mode,)? 0][0];
            before(dir, path);
            if let Some(done) = take(dir, path, flags, mode) {
                return returned(done);
            }
            handed_on(next!($name($($from: c_int,)? path: *const c_char, flags: c_int $(, $mode: mode_t)?) -> c_int))
        })*
    };
}

openers! {
    open()(mode: mode_t);
    open64()(mode: mode_t);
    openat(from: c_int)(mode: mode_t);
    openat64(from: c_int)(mode: mode_t);
    __open_2()();
    __open64_2()();
    __openat_2(from: c_int)();
    __openat64_2(from: c_int)();
}

const CREAT: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

#[unsafe(no_mangle)]
extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    open(path, CREAT, mode)
}

#[unsafe(no_mangle)]
extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    open64(path, CREAT, mode)
}

macro_rules! streams {
    ($($name:ident($($arg:ident: $of:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(path: *const c_char, $($arg: $of),*) -> *mut libc::FILE {
            before(libc::AT_FDCWD, path);
            let stream = next!($name(path: *const c_char, $($arg: $of),*) -> *mut libc::FILE);
            if !stream.is_null() {
                // SAFETY: the C library has just returned it.
                handed_on(unsafe { libc::fileno(stream) });
            }
            stream
        })*
    };
}

// The C library's own calls are not taken, so its streams are the kernel's.
streams! {
    fopen(mode: *const c_char);
    fopen64(mode: *const c_char);
}

/// The mask of what is made from now on.
#[unsafe(no_mangle)]
extern "C" fn umask(mask: mode_t) -> mode_t {
    guard::inside((), || state().set_umask(mask));
    next!(umask(mask: mode_t) -> mode_t)
}
