//! Other programs begun: they have the same descriptors, and may not have this library. A fork is noticed in another way (see
//! `state`).

use crate::next::next;
use crate::state::state;
use crate::{guard, settle};
use core::ffi::{c_char, c_int, c_void};

type Words = *const *const c_char;

macro_rules! begun {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $of),*) -> $ret {
            settle::everything();
            // Nobody does it later, if this process is to be another program.
            guard::inside((), || state().mounts.record_times());
            next!($name($($arg: $of),*) -> $ret)
        })*
    };
}

begun! {
    execve(path: *const c_char, args: Words, env: Words) -> c_int;
    execv(path: *const c_char, args: Words) -> c_int;
    execvp(file: *const c_char, args: Words) -> c_int;
    execvpe(file: *const c_char, args: Words, env: Words) -> c_int;
    fexecve(fd: c_int, args: Words, env: Words) -> c_int;
    execveat(from: c_int, path: *const c_char, args: Words, env: Words, flags: c_int) -> c_int;
    posix_spawn(pid: *mut c_int, path: *const c_char, actions: *const c_void, attrs: *const c_void, args: Words, env: Words) -> c_int;
    posix_spawnp(pid: *mut c_int, file: *const c_char, actions: *const c_void, attrs: *const c_void, args: Words, env: Words) -> c_int;
    system(line: *const c_char) -> c_int;
    popen(line: *const c_char, mode: *const c_char) -> *mut libc::FILE;
}

/// A child of its own: one that shared this process's memory would change what the library knows here.
#[unsafe(no_mangle)]
extern "C" fn vfork() -> libc::pid_t {
    // SAFETY: what may be done after it, may be done after a fork as well.
    unsafe { libc::fork() }
}
