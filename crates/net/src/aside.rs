//! Who waits for an engine does so beside it, not in its place.
//!
//! Where more threads want to run than there are processors, some share one. An engine that shares its own with a client
//! answers all others later, while whoever has a processor to himself waits there for nothing: so a client that finds
//! itself on the engine's moves to another, where the system lets it run. It is no more than a push: the system moves
//! threads as before. Where a stranger has the other processor, who keeps it for milliseconds, the engine's is the better
//! place after all: who meets one stays for longer each time.
//!
//! Where there are processors enough the system puts an engine that it wakes beside whoever has called, and a client that
//! waits without sleeping may be bound to its processor: there the engine moves.

use dolmen_env::{Clock, RealClock, current_cpu, leave_cpu};

/// From one move to the next, at least: they take some ten microseconds, and the system itself moves threads about every
/// four milliseconds.
const PAUSE_NS: u64 = 1_000_000;

/// The longest pause after a stranger; four times the last one each time.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// Decides when to move.
#[derive(Debug)]
pub(crate) struct Aside {
    next_ns: u64,
    pause_ns: u64,
    /// Strangers that had come when it was last looked, and whether it moved then.
    strangers: u32,
    has_moved: bool,
}

impl Default for Aside {
    fn default() -> Self {
        Self { next_ns: 0, pause_ns: PAUSE_NS, strangers: 0, has_moved: false }
    }
}

impl Aside {
    /// The calling thread waits for who runs on `peer_cpu`, as far as is known: it goes to another processor if it is on
    /// that one and has met no strangers lately, of whom so many have come so far. For clients while the machine is crowded, and for
    /// engines while it is not: so never both.
    #[inline]
    pub(crate) fn step(&mut self, peer_cpu: Option<usize>, strangers: u32) {
        if peer_cpu == Some(current_cpu()) && self.is_time(RealClock.monotonic_ns(), strangers) {
            // Ignored: who may not move stays.
            let _moved = leave_cpu(current_cpu());
        }
    }

    #[cold]
    fn is_time(&mut self, now_ns: u64, strangers: u32) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        let has_met = strangers != self.strangers;
        self.strangers = strangers;
        if has_met {
            self.pause_ns = (4 * self.pause_ns).min(PAUSE_NS_MAX);
            self.next_ns = now_ns + self.pause_ns;
        } else {
            if self.has_moved {
                self.pause_ns = PAUSE_NS;
            }
            self.next_ns = now_ns + PAUSE_NS;
        }
        self.has_moved = !has_met;
        self.has_moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_from_the_peers_processor_and_no_other_and_not_again_at_once() {
        let mut aside = Aside::default();
        aside.step(None, 0);
        aside.step(Some(usize::MAX), 0);
        assert_eq!(aside.next_ns, 0, "it is elsewhere");
        assert!(aside.is_time(5, 0));
        assert!(!aside.is_time(5 + PAUSE_NS - 1, 0), "it has just moved");
        assert!(aside.is_time(5 + PAUSE_NS, 0));
    }

    #[test]
    fn who_meets_strangers_each_time_stays_for_longer_each_time_and_who_does_not_moves_as_before() {
        let (mut aside, mut now_ns, mut moves) = (Aside::default(), 0, 0);
        // A stranger waits wherever it goes.
        while now_ns < 20_000_000_000 {
            moves += u32::from(aside.is_time(now_ns, moves));
            now_ns += 100_000;
        }
        assert!((10..40).contains(&moves), "{moves}");
        // There are none any more.
        let last = aside.strangers;
        for _ in 0..3 {
            now_ns += PAUSE_NS_MAX;
            aside.is_time(now_ns, last);
        }
        assert_eq!(aside.pause_ns, PAUSE_NS);
        assert!(aside.is_time(now_ns + PAUSE_NS, last));
    }
}
