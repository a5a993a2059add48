//! A lock whose holder sees that others want it.
//!
//! Who looks for answers has the lock nearly all the time, and lets go of it only to take it again: who waits for it asleep
//! would wake too late each time.
//!
//! Invariants: whoever wants it has it after a few looks of one who gives way between them.

use core::sync::atomic::{AtomicU32, Ordering};
use dolmen_env::yield_now;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Looks before going to sleep, which are some microseconds: a frame is written or taken in meanwhile.
const LOOKS: u32 = 400;

/// Looks until whoever wants it has taken it; one who sleeps has to be woken, and finds it free later.
const LOOKS_FOR_OTHERS: u32 = 50;

pub(super) struct Turns<T> {
    // Guards: whatever its owner says; taken alone.
    inner: Mutex<T>,
    /// How many wait for it.
    wanting: AtomicU32,
    /// How many have waited for it and had it.
    had: AtomicU32,
}

impl<T> Turns<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), wanting: AtomicU32::new(0), had: AtomicU32::new(0) }
    }

    /// Waits for nobody.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(guard) => Some(guard),
            // A panic while it was held was one of ours: the connection is then made anew by its next error.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_after_others())
    }

    #[cold]
    fn lock_after_others(&self) -> MutexGuard<'_, T> {
        self.wanting.fetch_add(1, Ordering::Relaxed);
        let looked = (0..LOOKS).find_map(|_| {
            core::hint::spin_loop();
            self.try_lock()
        });
        let guard = looked.unwrap_or_else(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner));
        self.wanting.fetch_sub(1, Ordering::Relaxed);
        self.had.fetch_add(1, Ordering::Relaxed);
        guard
    }

    /// Lets one of those who want it have it in between; also if some `sleep` otherwise until it is let go of.
    #[inline]
    pub(super) fn give_way<'s>(&'s self, guard: MutexGuard<'s, T>, sleep: bool) -> MutexGuard<'s, T> {
        if !sleep && self.wanting.load(Ordering::Relaxed) == 0 {
            return guard;
        }
        let had = self.had.load(Ordering::Relaxed);
        drop(guard);
        let waits = || self.wanting.load(Ordering::Relaxed) > 0 && self.had.load(Ordering::Relaxed) == had;
        let still_waits = (0..LOOKS_FOR_OTHERS).all(|_| {
            core::hint::spin_loop();
            waits()
        });
        if still_waits {
            yield_now();
        }
        self.lock()
    }

    /// What it guards, which nobody else has.
    pub(super) fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn who_has_it_between_looks_lets_everybody_have_it() {
        const TIMES: u32 = 200;
        let (turns, is_over) = (Turns::new(0_u32), AtomicBool::new(false));
        dolmen_env::scope(|threads| {
            threads.spawn(|| {
                let mut guard = turns.lock();
                while !is_over.load(Ordering::Relaxed) {
                    guard = turns.give_way(guard, false);
                }
            });
            let others: Vec<_> =
                (0..3).map(|_| threads.spawn(|| (0..TIMES).for_each(|_| *turns.lock() += 1))).collect();
            others.into_iter().for_each(|other| other.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(*turns.lock(), 3 * TIMES);
        assert_eq!(turns.wanting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_while_it_is_held_keeps_nobody_from_it() {
        let turns = Turns::new(1);
        let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let _guard = turns.lock();
            panic!("held");
        }));
        assert!(panicked.is_err());
        assert_eq!((*turns.lock(), turns.try_lock().map(|guard| *guard)), (1, None));
    }
}
