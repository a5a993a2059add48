//! The pool's hybrid logical clock: epochs for transactions and snapshots.
//!
//! Invariants: no two calls of `tick` return the same epoch; a tick is above every epoch merged before it.

use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_env::Clock;
use dolmen_types::Epoch;
use std::sync::Arc;

/// A hybrid logical clock over the wall clock of `env`; shared by all threads.
pub struct Hlc {
    last: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Hlc {
    /// A clock that has seen nothing.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { last: AtomicU64::new(0), clock }
    }

    /// A new epoch: above every earlier tick, above everything merged, and not before the wall clock.
    pub fn tick(&self) -> Epoch {
        let wall = Epoch::from_unix_ns(self.clock.now_ns());
        let mut last = self.last.load(Ordering::Acquire);
        loop {
            let next = Epoch(last).next().max(wall);
            match self.last.compare_exchange_weak(last, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return next,
                Err(current) => last = current,
            }
        }
    }

    /// Takes note of an epoch that someone else chose.
    pub fn merge(&self, epoch: Epoch) {
        self.last.fetch_max(epoch.0, Ordering::AcqRel);
    }

    /// For pauses, in nanoseconds: however the wall clock is set, it goes on.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// The wall clock, nanoseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}
