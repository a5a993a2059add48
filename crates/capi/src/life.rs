//! `daos_init` to `daos_fini`, and what a fork does to them.
//!
//! Invariants: a process forked off one that has initialised the library has not: one page says so, which the system
//! wipes in the child. Its handles are refused until `daos_reinit`.

use crate::error::{Der, Result, der};
use crate::{handle, place};
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE_BYTES: usize = 4096;

// Guards: how often the library was initialised and not finished; taken before the table of handles.
static USERS: Mutex<usize> = Mutex::new(0);

/// A page that holds 1 in the process that made it, and 0 in those forked off it.
static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// Whether this is the process that initialised the library. Costs two loads.
#[inline]
pub(crate) fn is_own() -> bool {
    let mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        return false;
    }
    // SAFETY: the page is mapped for ever, and only ever seen as this number.
    unsafe { &*mark }.load(Ordering::Relaxed) == 1
}

/// A number that differs between threads, so that they take different parts of a table.
pub(crate) fn spread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    OWN.try_with(Cell::get).unwrap_or(0)
}

/// Refuses what needs an initialised library.
///
/// # Errors
/// `UNINIT`.
pub(crate) fn check() -> Result<()> {
    if is_own() { Ok(()) } else { Err(Der::UNINIT) }
}

/// Makes the page, or claims it for a forked process.
fn mark() -> Result<()> {
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses.
        let page = unsafe { libc::mmap(core::ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Der::NOMEM);
        }
        // SAFETY: it is the whole of the mapping just made.
        if unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
            return Err(Der::NOSYS);
        }
        mark = page.cast();
        MARK.store(mark, Ordering::Release);
    }
    // SAFETY: as in `is_own`.
    unsafe { &*mark }.store(1, Ordering::Release);
    Ok(())
}

fn unmark() {
    let mark = MARK.load(Ordering::Acquire);
    if !mark.is_null() {
        // SAFETY: as in `is_own`.
        unsafe { &*mark }.store(0, Ordering::Release);
    }
}

/// Initialises the library; may be called again, and then needs as many `daos_fini`.
#[unsafe(no_mangle)]
extern "C" fn daos_init() -> c_int {
    der(|| {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 || !is_own() {
            mark()?;
        }
        *users += 1;
        Ok(())
    })
}

/// Ends what as many `daos_init` began; with the last of them every handle is given up.
#[unsafe(no_mangle)]
extern "C" fn daos_fini() -> c_int {
    der(|| {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 {
            return Err(Der::UNINIT);
        }
        *users -= 1;
        if *users > 0 {
            return Ok(());
        }
        if is_own() {
            handle::clear();
            unmark();
        }
        Ok(())
    })
}

/// Makes the library of a forked process usable. Handles from before the fork stay what they are to the parent, and are
/// refused here: their connections are the parent's.
#[unsafe(no_mangle)]
extern "C" fn daos_reinit() -> c_int {
    der(|| {
        let users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 {
            return Err(Der::UNINIT);
        }
        if is_own() {
            return Ok(());
        }
        handle::forget();
        place::forget();
        mark()
    })
}
