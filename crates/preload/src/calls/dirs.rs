//! Directories that are listed.

use crate::next::next;
use crate::open::returned;
use crate::report::{self, Kind};
use crate::stream::{self, ours};
use crate::{guard, memory, place, settle, system};
use core::ffi::{c_char, c_int, c_long};
use libc::{DIR, dirent64};

fn opened(path: *const c_char) -> Option<*mut DIR> {
    let path = memory::text(path)?;
    place::settle_on(path);
    guard::attempt(|| {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let fd = system::open_at(libc::AT_FDCWD, path, flags).ok()?;
        let opened = stream::open(fd, true);
        match opened {
            Some(_) => report::taken(Kind::List),
            None => system::close(fd),
        }
        opened
    })
}

#[unsafe(no_mangle)]
extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    opened(path).unwrap_or_else(|| next!(opendir(path: *const c_char) -> *mut DIR))
}

#[unsafe(no_mangle)]
extern "C" fn fdopendir(fd: c_int) -> *mut DIR {
    settle::descriptor(fd);
    let opened = guard::attempt(|| {
        let flags = system::status_flags(fd).ok()?;
        let is_read = flags & (libc::O_PATH | libc::O_ACCMODE) == 0;
        let opened = if is_read && system::is_at_start(fd) { stream::open(fd, false) } else { None };
        opened.inspect(|_| report::taken(Kind::List))
    });
    opened.unwrap_or_else(|| next!(fdopendir(fd: c_int) -> *mut DIR))
}

/// An entry's address, or NULL at the end.
fn stepped(stream: &stream::Stream) -> *mut dirent64 {
    let told = guard::inside(Err(libc::EIO), || stream.next()).unwrap_or(Err(libc::EIO));
    returned(told.map(|entry| entry.unwrap_or(core::ptr::null_mut())))
}

macro_rules! readers {
    ($($name:ident $copier:ident;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(stream: *mut DIR) -> *mut dirent64 {
            match ours(stream) {
                Some(stream) => stepped(stream),
                None => next!($name(stream: *mut DIR) -> *mut dirent64),
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $copier(stream: *mut DIR, to: *mut dirent64, told: *mut *mut dirent64) -> c_int {
            match ours(stream) {
                Some(stream) => copied(stream, to, told).err().unwrap_or(0),
                None => next!($copier(stream: *mut DIR, to: *mut dirent64, told: *mut *mut dirent64) -> c_int),
            }
        })*
    };
}

fn copied(stream: &stream::Stream, to: *mut dirent64, told: *mut *mut dirent64) -> Result<(), i32> {
    let entry = guard::inside(Err(libc::EIO), || stream.next_copy()).unwrap_or(Err(libc::EIO))?;
    match entry {
        Some(entry) => {
            memory::put(to, entry)?;
            memory::put(told, to)
        }
        None => memory::put(told, core::ptr::null_mut()),
    }
}

// On this machine's C library both are one.
readers! {
    readdir readdir_r;
    readdir64 readdir64_r;
}

#[unsafe(no_mangle)]
extern "C" fn closedir(stream: *mut DIR) -> c_int {
    match guard::inside(None, || stream::close(stream)).flatten() {
        Some(fd) => {
            system::close(fd);
            0
        }
        None => next!(closedir(stream: *mut DIR) -> c_int),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rewinddir(stream: *mut DIR) {
    match ours(stream) {
        Some(stream) => {
            guard::inside((), || stream.rewind());
        }
        None => next!(rewinddir(stream: *mut DIR) -> ()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn telldir(stream: *mut DIR) -> c_long {
    match ours(stream) {
        Some(stream) => guard::inside(0, || stream.at()).unwrap_or(0),
        None => next!(telldir(stream: *mut DIR) -> c_long),
    }
}

#[unsafe(no_mangle)]
extern "C" fn seekdir(stream: *mut DIR, at: c_long) {
    match ours(stream) {
        Some(stream) => {
            guard::inside((), || stream.seek(at));
        }
        None => next!(seekdir(stream: *mut DIR, at: c_long) -> ()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn dirfd(stream: *mut DIR) -> c_int {
    match ours(stream) {
        Some(stream) => guard::inside(-1, || stream.descriptor()).unwrap_or(-1),
        None => next!(dirfd(stream: *mut DIR) -> c_int),
    }
}
