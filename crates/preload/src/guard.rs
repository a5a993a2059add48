//! What keeps a thread that is in this library from coming in again.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What a thread does itself to its program: it cannot wait.
const OWN_FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// The `errno` of this thread.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub(crate) fn set_errno(errno: i32) {
    // SAFETY: it takes nothing.
    let own = unsafe { libc::__errno_location() };
    // SAFETY: it always is the address of this thread's own.
    unsafe { own.write(errno) };
}

/// A thread in the library: without signals, so that no function of the program runs while something is locked.
struct Inside {
    signals: libc::sigset_t,
    errno: i32,
}

impl Inside {
    /// `None` if the thread is in the library already.
    fn enter() -> Option<Self> {
        let is_first = INSIDE.try_with(|inside| !inside.replace(true)).unwrap_or(false);
        if !is_first {
            return None;
        }
        let errno = errno();
        // SAFETY: all zeros is a set of signals.
        let [mut all, mut signals]: [libc::sigset_t; 2] = unsafe { core::mem::zeroed() };
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&raw mut all) };
        for signal in OWN_FAULTS {
            // SAFETY: the set is ours.
            unsafe { libc::sigdelset(&raw mut all, signal) };
        }
        // SAFETY: both sets are ours.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut signals) };
        Some(Self { signals, errno })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        set_errno(self.errno);
        // Ignored: a thread that ends needs it no more.
        _ = INSIDE.try_with(|inside| inside.set(false));
        // SAFETY: the set is ours.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, core::ptr::null_mut()) };
    }
}

/// Runs `take` unless this thread is in the library already; `None` if that is so. A panic becomes `panicked`. `errno` is as it
/// was.
pub(crate) fn inside<T>(panicked: T, take: impl FnOnce() -> T) -> Option<T> {
    let _inside = Inside::enter()?;
    Some(catch_unwind(AssertUnwindSafe(take)).unwrap_or(panicked))
}

/// As [`inside`], for what is handed on when it cannot be done.
pub(crate) fn attempt<T>(take: impl FnOnce() -> Option<T>) -> Option<T> {
    inside(None, take).flatten()
}
