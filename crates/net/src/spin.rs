//! How long to look again before going to sleep.

use crate::error::Result;
use dolmen_env::{Clock, Load, RealClock};

/// A sleeper is called across processors in about half of this (50 us here); who looks that long in vain has lost no
/// more than that again.
const SPIN_NS: u64 = 100_000;

/// Looks between two readings of the clock.
const LOOKS_BETWEEN: u32 = 32;

/// How long the answer to whether the machine is crowded holds.
const CROWD_NS: u64 = 2_000_000;

/// Decides when to stop looking.
#[derive(Debug)]
pub(crate) struct Spin {
    load: Load,
    looks: u32,
    since_ns: u64,
    asked_ns: u64,
    is_crowded: bool,
}

impl Spin {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { load: Load::new()?, looks: 0, since_ns: 0, asked_ns: 0, is_crowded: false })
    }

    /// Something has come; the next wait begins anew.
    #[inline]
    pub(crate) fn moved(&mut self) {
        (self.looks, self.since_ns) = (0, 0);
    }

    /// Whether to look once more.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        self.looks += 1;
        core::hint::spin_loop();
        if !self.looks.is_multiple_of(LOOKS_BETWEEN) {
            return true;
        }
        let now_ns = RealClock.monotonic_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        if now_ns - self.asked_ns > CROWD_NS {
            (self.asked_ns, self.is_crowded) = (now_ns, self.load.is_crowded());
        }
        !self.is_crowded && now_ns - self.since_ns < SPIN_NS
    }
}
