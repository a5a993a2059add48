//! Who waits for an engine does so beside it, not in its place.
//!
//! Where more threads want to run than there are processors, some share one. An engine that shares its own with a client
//! answers all others later, while whoever has a processor to himself waits there for nothing: so a client that finds
//! itself on the engine's moves to another, where the system lets it run. It is no more than a push: the system moves
//! threads as before.

use dolmen_env::{Clock, RealClock, current_cpu, leave_cpu};

/// From one move to the next, at least: they take some ten microseconds, and the system itself moves threads about every
/// four milliseconds.
const PAUSE_NS: u64 = 1_000_000;

/// Decides when to move.
#[derive(Debug, Default)]
pub(super) struct Aside {
    next_ns: u64,
}

impl Aside {
    /// The calling thread waits for who runs on `peer_cpu`, as far as is known: it goes to another processor if it is on
    /// that one. To be called while the machine is crowded.
    #[inline]
    pub(super) fn step(&mut self, peer_cpu: Option<usize>) {
        if peer_cpu == Some(current_cpu()) {
            self.go_on(RealClock.monotonic_ns());
        }
    }

    #[cold]
    fn go_on(&mut self, now_ns: u64) {
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + PAUSE_NS;
            // Ignored: who may not move stays.
            let _moved = leave_cpu(current_cpu());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_from_the_peers_processor_and_no_other_and_not_again_at_once() {
        let mut aside = Aside::default();
        aside.step(None);
        aside.step(Some(usize::MAX));
        assert_eq!(aside.next_ns, 0, "it is elsewhere");
        aside.go_on(5);
        assert_eq!(aside.next_ns, 5 + PAUSE_NS);
        aside.go_on(5 + PAUSE_NS - 1);
        assert_eq!(aside.next_ns, 5 + PAUSE_NS, "it has just moved");
    }
}
