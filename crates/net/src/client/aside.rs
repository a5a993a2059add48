//! Who waits for an engine does so beside it, not in its place.
//!
//! Where more threads want to run than there are processors, some share one. An engine that shares its own with a client
//! answers all others later, and who waits on a processor of his own waits for nothing: so a client that finds itself on
//! the engine's moves to another, where the system lets it run. It is no more than a push: the system moves threads as
//! before, and who is moved back again and again stays.

use dolmen_env::{current_cpu, leave_cpu};

/// How long after a move to look again, at first: as often as the system itself moves threads about.
const PAUSE_NS_MIN: u64 = 1_000_000;

/// The longest pause; it doubles after each move.
const PAUSE_NS_MAX: u64 = 1_000_000;

/// Decides when to move.
#[derive(Debug)]
pub(super) struct Aside {
    next_ns: u64,
    pause_ns: u64,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self { next_ns: 0, pause_ns: PAUSE_NS_MIN }
    }

    /// The caller, which waits for who runs on `peer_cpu`, goes to another processor if it is on that one. To be asked while
    /// the machine is crowded.
    pub(super) fn step(&mut self, now_ns: u64, peer_cpu: Option<usize>) -> bool {
        let Some(cpu) = peer_cpu else { return false };
        if cpu != current_cpu() {
            return true;
        }
        if now_ns < self.next_ns {
            return false;
        }
        // It has stayed for long: what was in vain is forgotten.
        if now_ns - self.next_ns > PAUSE_NS_MAX {
            self.pause_ns = PAUSE_NS_MIN;
        }
        // Ignored: who may not move stays.
        let moved = leave_cpu(cpu);
        self.next_ns = now_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_NS_MAX);
        moved.unwrap_or(false)
    }
}
