//! Giving the processor up where more threads want to run than there are processors.
//!
//! Invariants: nobody does so who has the connection.

use super::{Guard, Inner};
use dolmen_env::{Clock, RealClock, yield_now};

impl Inner {
    /// Lets others run before whoever polls without waiting comes back, where not all can: the engine, too, may be one.
    pub(super) fn give_way(&self, mut state: Guard<'_>, now_ns: u64) {
        if state.spin.is_to_give_way(now_ns) {
            drop(self.after_others(state, now_ns));
        }
    }

    /// Gives the processor up, and the lock with it: others may want that, and would wait for who does not run.
    pub(super) fn after_others<'s>(&'s self, state: Guard<'s>, now_ns: u64) -> Guard<'s> {
        drop(state);
        yield_now();
        let after_ns = RealClock.monotonic_ns();
        let mut state = self.lock();
        state.spin.note_turn(now_ns, after_ns);
        state
    }
}
