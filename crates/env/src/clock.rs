//! Clocks: real, and simulated.

use core::sync::atomic::{AtomicU64, Ordering};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::Arc;

/// A source of time. All values are nanoseconds.
pub trait Clock: Send + Sync + core::fmt::Debug {
    /// Wall clock since the Unix epoch; may step, also backwards.
    fn now_ns(&self) -> u64;
    /// Time since an arbitrary start; never goes backwards.
    fn monotonic_ns(&self) -> u64;
    /// Processor time of the calling thread.
    fn thread_cpu_ns(&self) -> u64;
}

/// The clocks of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Realtime))
    }
    #[inline]
    fn monotonic_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }
    fn thread_cpu_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
    }
}

/// Processor time of the whole process, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// A time before 1970 counts as 1970: no machine that keeps data shows it on purpose.
fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// A clock that stands still until it is moved. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SimClock {
    hands: Arc<Hands>,
}

#[derive(Debug)]
struct Hands {
    wall_ns: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl SimClock {
    /// A clock whose wall time is `wall_ns`; its monotonic time starts at zero.
    #[must_use]
    pub fn new(wall_ns: u64) -> Self {
        let hands = Hands { wall_ns: AtomicU64::new(wall_ns), monotonic_ns: AtomicU64::new(0) };
        Self { hands: Arc::new(hands) }
    }

    /// Lets `ns` pass.
    pub fn advance(&self, ns: u64) {
        self.hands.wall_ns.fetch_add(ns, Ordering::SeqCst);
        self.hands.monotonic_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets the wall clock, also backwards, as an operator or a time daemon does; the monotonic one keeps.
    pub fn step_to(&self, wall_ns: u64) {
        self.hands.wall_ns.store(wall_ns, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.hands.wall_ns.load(Ordering::SeqCst)
    }
    fn monotonic_ns(&self) -> u64 {
        self.hands.monotonic_ns.load(Ordering::SeqCst)
    }
    /// Simulated work costs no processor time of its own: the monotonic clock stands in.
    fn thread_cpu_ns(&self) -> u64 {
        self.monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_moves_the_wall_clock_only() {
        let clock = SimClock::new(1_000);
        let same = clock.clone();
        clock.advance(50);
        same.step_to(10);
        assert_eq!((clock.now_ns(), clock.monotonic_ns()), (10, 50));
    }

    #[test]
    fn real_clocks_run() {
        let start = RealClock.monotonic_ns();
        assert!(RealClock.now_ns() > 1_700_000_000 * 1_000_000_000);
        assert!(RealClock.monotonic_ns() >= start);
        assert!(RealClock.thread_cpu_ns() <= process_cpu_ns());
    }
}
