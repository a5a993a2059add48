//! `daos_init` to `daos_fini`, and what a fork does to them.
//!
//! Invariants: a process forked off one that has initialised the library has not: a mark says so that children lack.
//! Inherited handles are refused until they are made anew.

use crate::error::{Der, Result, der};
use crate::{event, fork, fs, handle};
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_env::ForkMark;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError};

// Guards: how often the library was initialised and not finished; taken before the table of handles.
static USERS: Mutex<usize> = Mutex::new(0);

/// A mark of the process that initialised the library: the system wipes its page in a forked child.
// Guards: whose the library is; taken alone.
static OWNER: RwLock<Option<ForkMark>> = RwLock::new(None);

/// Whether this is the process that initialised the library.
#[inline]
pub(crate) fn is_own() -> bool {
    let owner = OWNER.read().unwrap_or_else(PoisonError::into_inner);
    owner.as_ref().is_some_and(|mark| !mark.is_forked())
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

/// Gives up, without ending anything, what belongs to the process that this one was forked off.
fn forget() {
    fs::forget();
    handle::forget();
    event::forget();
}

/// Claims the library for this process.
fn claim() -> Result<()> {
    let mark = ForkMark::new().map_err(|_no_page| Der::NOMEM)?;
    let mut owner = OWNER.write().unwrap_or_else(PoisonError::into_inner);
    *owner = Some(mark);
    Ok(())
}

fn unclaim() {
    let mut owner = OWNER.write().unwrap_or_else(PoisonError::into_inner);
    *owner = None;
}

/// The locks here.
pub(crate) type Locked = (Option<MutexGuard<'static, usize>>, RwLockWriteGuard<'static, Option<ForkMark>>);

/// Takes them for a fork; a callback may run in a `daos_fini` that has its part already.
pub(crate) fn hold() -> Locked {
    (users().ok(), OWNER.write().unwrap_or_else(PoisonError::into_inner))
}

/// How often the library is used, for a change of that.
///
/// # Errors
/// `BUSY` in a callback while somebody changes it, who may be the one that waits for the callback.
fn users() -> Result<MutexGuard<'static, usize>> {
    if !event::is_in_callback() {
        return Ok(USERS.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match USERS.try_lock() {
        Ok(users) => Ok(users),
        Err(TryLockError::Poisoned(users)) => Ok(users.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Der::BUSY),
    }
}

/// Initialises the library; may be called again, and then needs as many `daos_fini`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_init() -> c_int {
    der(|| {
        let mut users = users()?;
        if !is_own() {
            fork::watch();
            if *users > 0 {
                forget();
                *users = 0;
            }
            claim()?;
        }
        *users += 1;
        Ok(())
    })
}

/// Ends what as many `daos_init` began; with the last of them every handle is given up, which a callback cannot do: it
/// would wait for itself.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_fini() -> c_int {
    der(|| {
        let mut users = users()?;
        if *users == 0 {
            return Err(Der::UNINIT);
        }
        if *users == 1 && is_own() && event::is_in_callback() {
            return Err(Der::BUSY);
        }
        *users -= 1;
        if *users > 0 {
            return Ok(());
        }
        if is_own() {
            handle::end_queues();
            fs::clear();
            handle::clear();
            unclaim();
        }
        Ok(())
    })
}

/// Makes the library of a forked process usable. Handles on what a daemon serves, mounts, and what is open in them are made
/// anew and keep their cookies; what the parent has open in a directory stays the parent's, and so do transactions and what is
/// under way.
#[unsafe(no_mangle)]
extern "C" fn daos_reinit() -> c_int {
    der(|| {
        let users = users()?;
        if *users == 0 {
            return Err(Der::UNINIT);
        }
        if is_own() {
            return Ok(());
        }
        event::forget();
        claim()?;
        handle::renew();
        fs::renew();
        Ok(())
    })
}
