//! A lease as its holder knows it: what was read holds until it is taken back, or its term is over.
//!
//! Invariants: once void, void for ever; the end of its term moves on only.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// How long leases hold from when the last question was sent whose answer renews them: as long as a writer waits for a holder
/// that stands still.
pub const LEASE_TERM_MS: u32 = 3000;
/// The same in nanoseconds.
pub const LEASE_TERM_NS: u64 = LEASE_TERM_MS as u64 * 1_000_000;
/// How often a holder renews.
pub const LEASE_RENEW_NS: u64 = 1_000_000_000;

/// A lease; a cheap handle. It is given back some time after the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Lease {
    no: u32,
    is_void: Arc<AtomicBool>,
    /// Until when all of its container hold on its connection, by the clock of its holder.
    until_ns: Arc<AtomicU64>,
}

impl Lease {
    /// A new one, which holds until what `until_ns` says.
    #[must_use]
    pub fn new(no: u32, until_ns: Arc<AtomicU64>) -> Self {
        Self { no, is_void: Arc::default(), until_ns }
    }

    /// Its number on its connection.
    #[must_use]
    pub fn no(&self) -> u32 {
        self.no
    }

    /// What tells it from all others that somebody has: the same of all handles of one.
    #[must_use]
    pub fn key(&self) -> usize {
        Arc::as_ptr(&self.is_void).addr()
    }

    /// Whether what was read with it holds at `now_ns` of the monotonic clock: nobody has changed it since but by the connection
    /// that it is of. Not in a forked child, whom nobody tells.
    #[must_use]
    #[inline]
    pub fn holds(&self, now_ns: u64) -> bool {
        !self.is_void.load(Ordering::Acquire) && now_ns < self.until_ns.load(Ordering::Acquire)
    }

    /// Until when it holds, unless it is renewed or taken back.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        if self.is_void.load(Ordering::Acquire) { 0 } else { self.until_ns.load(Ordering::Acquire) }
    }

    /// It holds no more.
    pub fn end(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Whether nobody else has it.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        Arc::strong_count(&self.is_void) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_holds_until_its_term_is_over_and_never_again_once_it_is_void() {
        let until_ns = Arc::new(AtomicU64::new(10));
        let lease = Lease::new(3, Arc::clone(&until_ns));
        assert!(lease.holds(9) && !lease.holds(10));
        until_ns.store(20, Ordering::Release);
        let other = lease.clone();
        assert!(lease.holds(10) && !lease.is_sole());
        assert!(other.key() == lease.key() && Lease::new(3, until_ns).key() != lease.key());
        drop(other);
        assert!(lease.is_sole());
        lease.end();
        assert!(!lease.holds(0) && lease.until_ns() == 0);
    }
}
