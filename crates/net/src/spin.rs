//! How long to look again before going to sleep.
//!
//! On a machine with processors to spare, looking again costs nobody anything and answers within a microsecond, where a
//! sleeper is called across processors in about 50. Where more threads want to run than there are processors, who looks
//! in vain gives its processor up between two looks: to a peer that has work to do, and so answers as fast; or to a
//! stranger, who keeps it for long: then sleeping is better, for the call takes it back at once.

use crate::error::Result;
use dolmen_env::{Clock, Load, RealClock, yield_now};

/// Who looks in vain for twice as long as a call takes has lost no more than that again.
const SPIN_NS: u64 = 100_000;

/// Looks between two readings of the clock, while nobody else wants the processor.
const LOOKS_BETWEEN: u32 = 32;

/// How long the answer to whether the machine is crowded holds.
const CROWD_NS: u64 = 2_000_000;

/// Whoever has kept a processor for longer has work of its own.
const STRANGER_NS: u64 = 300_000;

/// How long not to give a processor up to strangers again.
const SHY_NS: u64 = 20_000_000;

/// Decides when to stop looking.
#[derive(Debug)]
pub(crate) struct Spin {
    load: Load,
    looks: u32,
    since_ns: u64,
    asked_ns: u64,
    is_crowded: bool,
    shy_until_ns: u64,
}

impl Spin {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            load: Load::new()?,
            looks: 0,
            since_ns: 0,
            asked_ns: 0,
            is_crowded: false,
            shy_until_ns: 0,
        })
    }

    /// Something has come; the next wait begins anew.
    #[inline]
    pub(crate) fn moved(&mut self) {
        (self.looks, self.since_ns) = (0, 0);
    }

    /// Whether to look once more.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        if self.is_crowded {
            return self.again_in_a_crowd();
        }
        self.looks += 1;
        core::hint::spin_loop();
        if !self.looks.is_multiple_of(LOOKS_BETWEEN) {
            return true;
        }
        let now_ns = self.now();
        now_ns - self.since_ns < SPIN_NS
    }

    fn again_in_a_crowd(&mut self) -> bool {
        let before_ns = self.now();
        if before_ns < self.shy_until_ns || before_ns - self.since_ns >= SPIN_NS {
            return false;
        }
        yield_now();
        let after_ns = RealClock.monotonic_ns();
        if after_ns - before_ns > STRANGER_NS {
            self.shy_until_ns = after_ns + SHY_NS;
        }
        true
    }

    fn now(&mut self) -> u64 {
        let now_ns = RealClock.monotonic_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        if now_ns - self.asked_ns > CROWD_NS {
            (self.asked_ns, self.is_crowded) = (now_ns, self.load.is_crowded());
        }
        now_ns
    }
}
