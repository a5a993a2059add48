//! The target's hybrid logical clock.
//!
//! Invariants: every epoch given out is larger than all given out before, also before a restart and when the
//! wall clock steps back: none that is written exceeds the ceiling that the log holds. What is above the wall clock is told to the other targets of
//! the process before anybody has an answer that it is in.

use dolmen_codec::Lead;
use dolmen_env::Clock;
use dolmen_types::{Epoch, Error, Invalid};
use std::sync::Arc;

/// How far ahead of the log's ceiling a new one is set: rare enough to cost nothing, near enough that a
/// restart does not carry the clock far into the future.
///
/// After a crash a target goes on at its ceiling. Half a second keeps that within what other targets accept
/// as a clock's offset.
const CEILING_AHEAD_NS: u64 = 500_000_000;
/// A clock that is ahead already moves its ceiling by little, so that quick restarts do not add up.
const CEILING_STEP_NS: u64 = 1_000_000;
/// A caller's epoch may be ahead of this target's clock by the largest clock offset between servers.
//= daos:src/gurt/hlc.c default epsilon
const AHEAD_NS_MAX: u64 = 1_000_000_000;
/// The newest epoch that even the pool service may name, a year before the last one there is: from there on epochs could
/// not increase any more.
const TRUSTED_MAX: Epoch = Epoch(u64::MAX - 365 * 86_400 * 1_000_000_000 * 16);

pub(crate) struct Epochs {
    clock: Arc<dyn Clock>,
    /// The wall clock as `tick` has read it: once for all operations that come together. It does not step back: others who
    /// read it at the same time have chosen epochs by it.
    wall_ns: u64,
    last: Epoch,
    ceiling: Epoch,
    /// The newest epoch that this target or the pool service vouches for: after the wall clock has stepped
    /// back, what counts as far ahead is measured from here.
    vouched: Epoch,
    /// How far ahead the targets of this process are.
    lead: Arc<Lead>,
}

impl Epochs {
    /// Continues above `ceiling`.
    pub(crate) fn new(clock: Arc<dyn Clock>, ceiling: Epoch) -> Self {
        Self {
            wall_ns: clock.now_ns(),
            clock,
            last: ceiling,
            ceiling,
            vouched: ceiling,
            lead: Arc::default(),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The wall clock as it was read last; it never falls.
    #[inline]
    pub(crate) fn wall_ns(&self) -> u64 {
        self.wall_ns
    }

    /// Goes on above what the others of these targets are ahead by, and tells them.
    pub(crate) fn go_with(&mut self, lead: &Arc<Lead>) {
        self.lead = Arc::clone(lead);
        self.lead.note(self.last);
    }

    /// Reads the wall clock for the epochs that follow.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.wall_ns = self.wall_ns.max(self.clock.now_ns());
        self.last = self.last.max(self.lead.get());
    }

    /// Tells other targets how far this one is, if it is above the wall clock: whoever reads that comes below. To be called before
    /// any answer goes out.
    #[inline]
    pub(crate) fn tell(&mut self) {
        let is_ahead = |wall_ns| self.last > Epoch::from_unix_ns(wall_ns);
        if is_ahead(self.wall_ns) && is_ahead(self.clock.now_ns()) {
            self.lead.note(self.last);
        }
    }

    /// The next epoch.
    #[inline]
    pub(crate) fn next(&mut self) -> Epoch {
        let wall = Epoch::from_unix_ns(self.wall_ns);
        self.last = self.last.next().max(wall);
        self.last
    }

    /// An epoch at which everything committed is visible and nothing later will be.
    pub(crate) fn latest(&self) -> Epoch {
        self.last
    }

    /// Takes note of an epoch that a client brings.
    ///
    /// # Errors
    /// `Invalid::Epoch` if it lies more than a second ahead of the wall clock, wherever that was before it stepped back, and
    /// of what is vouched for.
    pub(crate) fn observe(&mut self, epoch: Epoch) -> Result<(), Error> {
        if epoch > self.last {
            let ahead = |ns: u64| Epoch::from_unix_ns(ns.saturating_add(AHEAD_NS_MAX));
            self.tick();
            let limit = ahead(self.wall_ns).max(ahead(self.vouched.unix_ns()));
            if epoch > limit {
                return Err(Invalid::Epoch.into());
            }
            self.last = epoch;
        }
        Ok(())
    }

    /// Takes note of an epoch that the pool service has chosen, however far ahead it is: after a restart with
    /// the wall clock stepped back, the pool's clock goes on where it was.
    ///
    /// # Errors
    /// `Invalid::Epoch` within a year of the last epoch there is.
    pub(crate) fn trust(&mut self, epoch: Epoch) -> Result<(), Error> {
        if epoch > TRUSTED_MAX {
            return Err(Invalid::Epoch.into());
        }
        self.vouch(epoch);
        Ok(())
    }

    fn vouch(&mut self, epoch: Epoch) {
        self.last = self.last.max(epoch);
        self.vouched = self.vouched.max(epoch);
    }

    /// Takes note of an epoch that the log or a manifest holds.
    pub(crate) fn replay(&mut self, epoch: Epoch) {
        self.vouch(epoch);
        self.ceiling = self.ceiling.max(epoch);
    }

    /// The ceiling that must be logged before `next` may be called again, if it is reached.
    #[inline]
    pub(crate) fn due_ceiling(&self) -> Option<Epoch> {
        let next = self.last.next().max(Epoch::from_unix_ns(self.wall_ns));
        if next < self.ceiling {
            return None;
        }
        let ahead = Epoch::from_unix_ns(self.wall_ns.saturating_add(CEILING_AHEAD_NS));
        let step = Epoch::from_unix_ns(next.unix_ns().saturating_add(CEILING_STEP_NS));
        Some(ahead.max(step).max(next.next()))
    }

    pub(crate) fn set_ceiling(&mut self, ceiling: Epoch) {
        assert!(ceiling >= self.ceiling);
        self.ceiling = ceiling;
    }

    pub(crate) fn ceiling(&self) -> Epoch {
        self.ceiling
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_env::SimClock;

    const HOUR_NS: u64 = 3_600_000_000_000;
    const BEGIN_NS: u64 = 1_800_000_000_000_000_000;

    #[test]
    fn what_others_chose_before_the_wall_clock_stepped_back_is_not_far_ahead() {
        let clock = SimClock::new(BEGIN_NS);
        let mut epochs = Epochs::new(Arc::new(clock.clone()), Epoch::ZERO);
        clock.advance(HOUR_NS);
        epochs.tick();
        let chosen = Epoch::from_unix_ns(clock.now_ns() + AHEAD_NS_MAX / 2);
        let too_far = Epoch::from_unix_ns(clock.now_ns() + 2 * AHEAD_NS_MAX);
        clock.step_to(BEGIN_NS - HOUR_NS);
        epochs.tick();
        assert_eq!(epochs.observe(chosen), Ok(()));
        assert!(epochs.next() > chosen);
        assert_eq!(epochs.observe(too_far), Err(Invalid::Epoch.into()));
    }
}
