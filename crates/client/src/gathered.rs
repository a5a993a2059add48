//! Leases of what an operation has read, gathered while it runs (docs/decisions/0037-leases.md).
//!
//! Invariants: what was read without a lease is never said to hold.

use dolmen_codec::{Lease, Outcome, Request, Transport};
use dolmen_types::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where reads put their leases ([`Container::gathering`](crate::Container::gathering)).
#[derive(Debug, Default)]
pub struct Gathered {
    /// Guards what has come so far; taken alone.
    so_far: Mutex<Leased>,
}

/// Leases on all that an operation has read, or on a part of it.
#[derive(Clone, Debug, Default)]
pub struct Leased {
    leases: Vec<Lease>,
    /// Something was read without one.
    has_gap: bool,
}

impl Gathered {
    fn so_far(&self) -> MutexGuard<'_, Leased> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come since the last call.
    #[must_use]
    pub fn take(&self) -> Leased {
        core::mem::take(&mut *self.so_far())
    }

    /// Asks with a lease. What is asked again because of its error says nothing yet.
    pub(crate) fn call(&self, transport: &dyn Transport, request: Request<'_>) -> Outcome {
        let (outcome, lease) = transport.call_leased(request);
        self.note(&outcome, lease);
        outcome
    }

    /// Takes in what was answered with this lease, or without one.
    pub(crate) fn note(&self, outcome: &Outcome, lease: Option<Lease>) {
        if matches!(outcome.result, Ok(_) | Err(Error::NotFound)) {
            let mut so_far = self.so_far();
            so_far.has_gap |= lease.is_none();
            so_far.leases.extend(lease);
        }
    }

    /// Something is read without a lease.
    pub(crate) fn note_gap(&self) {
        self.so_far().has_gap = true;
    }
}

impl Leased {
    /// Whether all that was read holds at `now_ns` of the monotonic clock: nobody else has changed any of it since. Not in a
    /// forked child.
    #[must_use]
    pub fn holds(&self, now_ns: u64) -> bool {
        !self.has_gap && !self.leases.is_empty() && self.leases.iter().all(|lease| lease.holds(now_ns))
    }

    /// Until when it does, unless it is renewed or changed; 0 if it does not.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        if self.has_gap { 0 } else { self.leases.iter().map(Lease::until_ns).min().unwrap_or(0) }
    }

    /// The leases; what they are on holds as long as each of them if [`Leased::until_ns`] is not 0.
    #[must_use]
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// The same with what another operation has read.
    pub fn join(&mut self, other: Self) {
        self.has_gap |= other.has_gap;
        self.leases.extend(other.leases);
    }
}

impl FromIterator<Lease> for Leased {
    fn from_iter<I: IntoIterator<Item = Lease>>(leases: I) -> Self {
        Self { leases: leases.into_iter().collect(), has_gap: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::sync::Arc;

    #[test]
    fn what_was_read_holds_as_long_as_each_part_of_it() {
        let terms = [5, 9].map(|until_ns| Arc::new(AtomicU64::new(until_ns)));
        let [first, second] = [0, 1].map(|at| Lease::new(7, Arc::clone(&terms[at])));
        let mut leased = Leased { leases: vec![first], has_gap: false };
        leased.join(Leased { leases: vec![second.clone()], has_gap: false });
        assert!(leased.holds(4) && !leased.holds(5) && leased.until_ns() == 5);
        terms[0].store(20, Ordering::Release);
        assert!(leased.holds(8) && leased.until_ns() == 9);
        let mut gap = leased.clone();
        gap.join(Leased { leases: Vec::new(), has_gap: true });
        assert!(!gap.holds(0) && gap.until_ns() == 0);
        second.end();
        assert!(!leased.holds(0) && leased.until_ns() == 0);
        assert!(!Leased::default().holds(0), "nothing was read");
    }
}
