//! Operations with an event, or without one.

use crate::error::{Der, PosixResult, Result, der, errno};
use crate::raw::Out;
use core::ffi::c_int;

/// An event as a C program has it.
//= daos:src/include/daos_types.h daos_event_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CEvent {
    error: c_int,
    private: [u64; 20],
    debug: u64,
}

const _: () = assert!(size_of::<CEvent>() == 176);

/// The event of a call; NULL if it is to block.
pub(crate) type Ev = Out<CEvent>;

/// Carries an operation out; with an event it is complete when the call returns.
pub(crate) fn run(ev: Ev, body: impl FnOnce() -> Result<()>) -> c_int {
    if ev.is_null() { der(body) } else { Der::NOSYS.code() }
}

/// As [`run`], for a `dfs_*` function.
#[allow(dead_code, reason = "the POSIX interfaces come with their own modules")]
pub(crate) fn run_posix(ev: Ev, body: impl FnOnce() -> PosixResult<()>) -> c_int {
    if ev.is_null() { errno(body) } else { libc::ENOSYS }
}
