//! Functions that need the kernel's own file: it is given back first.

use crate::next::next;
use crate::open::returned;
use crate::state::{self, state};
use crate::{copies, guard, memory, settle};
use core::ffi::{c_char, c_int, c_uint, c_void};
use libc::{c_ulong, loff_t, off_t, size_t, ssize_t, timespec, timeval};

macro_rules! handed {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty: $($fd:expr),*;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> $ret {
            $(settle::descriptor($fd);)*
            next!($name($($arg: $of),*) -> $ret)
        })*
    };
}

handed! {
    mmap(at: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void: fd;
    mmap64(at: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void: fd;
    flock(fd: c_int, what: c_int) -> c_int: fd;
    lockf(fd: c_int, what: c_int, len: off_t) -> c_int: fd;
    lockf64(fd: c_int, what: c_int, len: off_t) -> c_int: fd;
    splice(from: c_int, at: *mut loff_t, to: c_int, there: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t: from, to;
    fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE: fd;
    fchdir(fd: c_int) -> c_int: fd;
    fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int: fd;
    fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int: fd;
    posix_fallocate(fd: c_int, offset: off_t, len: off_t) -> c_int: fd;
    posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int: fd;
    sync_file_range(fd: c_int, offset: off_t, len: off_t, flags: c_uint) -> c_int: fd;
    syncfs(fd: c_int) -> c_int: fd;
    readahead(fd: c_int, offset: off_t, len: size_t) -> ssize_t: fd;
    preadv2(fd: c_int, iov: *const libc::iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t: fd;
    preadv64v2(fd: c_int, iov: *const libc::iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t: fd;
    pwritev2(fd: c_int, iov: *const libc::iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t: fd;
    pwritev64v2(fd: c_int, iov: *const libc::iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t: fd;
    name_to_handle_at(fd: c_int, path: *const c_char, to: *mut c_void, id: *mut c_int, flags: c_int) -> c_int: fd;
    epoll_ctl(queue: c_int, what: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int: fd;
    fpathconf(fd: c_int, name: c_int) -> libc::c_long: fd;
    vdprintf(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int: fd;
    __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, args: *mut c_void) -> c_int: fd;
    aio_read(block: *mut libc::aiocb) -> c_int: fd_of(block);
    aio_read64(block: *mut libc::aiocb) -> c_int: fd_of(block);
    aio_write(block: *mut libc::aiocb) -> c_int: fd_of(block);
    aio_write64(block: *mut libc::aiocb) -> c_int: fd_of(block);
    aio_fsync(what: c_int, block: *mut libc::aiocb) -> c_int: fd_of(block);
    aio_fsync64(what: c_int, block: *mut libc::aiocb) -> c_int: fd_of(block);
}

macro_rules! copied {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty: $told:expr, $($fd:expr),*;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> $ret {
            if let Some(told) = $told {
                return returned(told);
            }
            $(settle::descriptor($fd);)*
            next!($name($($arg: $of),*) -> $ret)
        })*
    };
}

// Where a file of ours is at an end, it need not be given back for most of these.
copied! {
    ioctl(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int: copies::control(fd, request, arg), fd;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t: copies::send((from, offset), to, len), to, from;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t: copies::send((from, offset), to, len), to, from;
    copy_file_range(from: c_int, at: *mut loff_t, to: c_int, there: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t: copies::copy_range((from, at), (to, there), len, flags), from, to;
}

/// The descriptor is the first field.
fn fd_of(block: *mut libc::aiocb) -> c_int {
    memory::get(block.cast_const().cast::<c_int>()).unwrap_or(-1)
}

macro_rules! waiting {
    ($($name:ident($($arg:ident: $of:ty),*): |$all:ident| $list:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            if crate::files::is_any() {
                $list.for_each(settle::descriptor);
            }
            next!($name($($arg: $of),*) -> c_int)
        })*
    };
}

fn polled(all: *const libc::pollfd, count: libc::nfds_t) -> impl Iterator<Item = c_int> {
    memory::list(all, usize::try_from(count).unwrap_or(0)).iter().map(|one| one.fd)
}

fn selected(count: c_int, sets: [*mut libc::fd_set; 3]) -> impl Iterator<Item = c_int> {
    let is_in = |fd: c_int, set: *mut libc::fd_set| {
        // SAFETY: it is not NULL, and the caller says that it is a set of at least so many.
        !set.is_null() && unsafe { libc::FD_ISSET(fd, set) }
    };
    let set_fds_max = c_int::try_from(libc::FD_SETSIZE).unwrap_or(0);
    (0..count.min(set_fds_max)).filter(move |fd| sets.iter().any(|set| is_in(*fd, *set)))
}

waiting! {
    poll(all: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int): |all| polled(all, count);
    __poll_chk(all: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int, room: size_t): |all| polled(all, count);
    ppoll(all: *mut libc::pollfd, count: libc::nfds_t, timeout: *const timespec, mask: *const libc::sigset_t): |all| polled(all, count);
    select(count: c_int, r: *mut libc::fd_set, w: *mut libc::fd_set, x: *mut libc::fd_set, timeout: *mut timeval): |all| selected(count, [r, w, x]);
    pselect(count: c_int, r: *mut libc::fd_set, w: *mut libc::fd_set, x: *mut libc::fd_set, timeout: *const timespec, mask: *const libc::sigset_t): |all| selected(count, [r, w, x]);
}

/// A descriptor that is sent to another process is the kernel's there.
#[unsafe(no_mangle)]
extern "C" fn sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t {
    if memory::get(message).is_some_and(|message| message.msg_controllen > 0) {
        settle::everything();
    }
    next!(sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t)
}

macro_rules! someone_else {
    ($($name:ident($($arg:ident: $of:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            let done = next!($name($($arg: $of),*) -> c_int);
            if done == 0 {
                state::turn_off();
            }
            done
        })*
    };
}

// The connection is that of whom the process was, and of where it was.
someone_else! {
    setuid(uid: c_uint);
    seteuid(uid: c_uint);
    setreuid(uid: c_uint, euid: c_uint);
    setresuid(uid: c_uint, euid: c_uint, suid: c_uint);
    setgid(gid: c_uint);
    setegid(gid: c_uint);
    setregid(gid: c_uint, egid: c_uint);
    setresgid(gid: c_uint, egid: c_uint, sgid: c_uint);
    setgroups(count: size_t, groups: *const c_uint);
    initgroups(user: *const c_char, group: c_uint);
    chroot(path: *const c_char);
    capset(header: *mut c_void, rights: *const c_void);
}

macro_rules! somewhere_else {
    ($($name:ident($($arg:ident: $of:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> c_int {
            // The kernel lets some of it be done only where there is no other thread.
            guard::inside((), || state().mounts.stop_listening());
            let done = next!($name($($arg: $of),*) -> c_int);
            if done == 0 {
                state::turn_off();
            }
            done
        })*
    };
}

somewhere_else! {
    unshare(flags: c_int);
    setns(fd: c_int, kind: c_int);
}

macro_rules! as_whom {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(id: c_uint) -> c_int {
            state::turn_off();
            next!($name(id: c_uint) -> c_int)
        })*
    };
}

as_whom! { setfsuid setfsgid }
