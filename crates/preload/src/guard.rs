//! What keeps a thread that is in this library from coming in again.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The signals that the program itself keeps from this thread, as the kernel has them: a bit for each.
    static KEPT_AWAY: Cell<u64> = const { Cell::new(0) };
}

/// What a thread does itself to its program: it cannot wait.
const OWN_FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// What does not end a program that has no function for it.
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

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
        // Ignored: a thread that ends lets nothing end the program here.
        _ = KEPT_AWAY.try_with(|kept| kept.set(bits(&signals)));
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

/// A set of signals, as the kernel has it.
fn bits(signals: &libc::sigset_t) -> u64 {
    const { assert!(size_of::<libc::sigset_t>() >= size_of::<u64>()) };
    // SAFETY: it is as long, and aligned as words are, the first of which is the kernel's whole set.
    unsafe { core::ptr::from_ref(signals).cast::<u64>().read() }
}

/// Lets the program end, if it was sent a signal that does that, and for which it has no function: none of its functions runs so. A
/// thread that waits for the daemon would keep it until it has waited in vain.
pub(crate) fn let_end() {
    let is_inside = INSIDE.try_with(Cell::get).unwrap_or(false);
    // SAFETY: all zeros is a set of signals.
    let mut sent: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours.
    if !is_inside || unsafe { libc::sigpending(&raw mut sent) } != 0 {
        return;
    }
    let kept = KEPT_AWAY.try_with(Cell::get).unwrap_or(u64::MAX);
    let sent = bits(&sent) & !kept;
    let is_sent = |signal: &i32| sent >> (signal - 1) & 1 == 1;
    for signal in (1..=64).filter(|signal| is_sent(signal) && !HARMLESS.contains(signal)) {
        if is_fatal(signal) {
            let_come(signal);
        }
    }
}

/// Whether the program has said nothing of what is to be done at a signal.
fn is_fatal(signal: i32) -> bool {
    // SAFETY: all zeros is one.
    let mut now: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: nothing is changed, and there is room for what is said.
    let is_told = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut now) } == 0;
    is_told && now.sa_sigaction == libc::SIG_DFL
}

/// Takes a signal that waits for this thread or its process.
fn let_come(signal: i32) {
    // SAFETY: all zeros is a set of signals.
    let mut only: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigaddset(&raw mut only, signal) };
    for how in [libc::SIG_UNBLOCK, libc::SIG_BLOCK] {
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(how, &raw const only, core::ptr::null_mut()) };
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
