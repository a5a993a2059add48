//! How long to look again before going to sleep.
//!
//! On a machine with processors to spare, looking again costs nobody anything and answers within a microsecond, where a
//! sleeper is called across processors in about 50. Where more threads want to run than there are processors, who looks
//! in vain gives its processor up between two looks: to a peer that has work to do, and so answers as fast; or to a
//! stranger, who keeps it for long: then sleeping is better, for the call takes it back at once. A stranger that comes by
//! is no reason to sleep for long; one that is there each time is.

use dolmen_env::{Clock, Load, RealClock, yield_now};

/// Who looks in vain for twice as long as a call takes has lost no more than that again.
const SPIN_NS: u64 = 100_000;

/// Looks between two readings of the clock, while nobody else wants the processor.
const LOOKS_BETWEEN: u32 = 32;

/// How long the answer to whether the machine is crowded holds.
const CROWD_NS: u64 = 2_000_000;

/// How long a machine counts as crowded after it was: while a peer sleeps for a moment it is not, and who then looks
/// without giving way keeps that peer from waking.
const CROWD_LASTS_NS: u64 = 20_000_000;

/// How long to look in vain without giving way at all. Two that wait for each other may have been put on one processor
/// while another is idle.
const ALONE_NS: u64 = 10_000;

/// After so many waits in a row in which it was in vain, looking is left out: where a peer sleeps that this thread has
/// called, and both are on one processor, the peer runs no sooner than this thread sleeps, for the system takes no
/// processor back, even at request, that was given for a while and is wanted by one who has just woken.
const WAITS_IN_VAIN: u32 = 2;

/// So many waits later it is tried again, and twice as many after each trial in vain: peers may have moved, or look
/// themselves.
const TRIAL_AFTER_MIN: u32 = 4;
const TRIAL_AFTER_MAX: u32 = 64;

/// Whoever has kept a processor for longer has work of its own.
const STRANGER_NS: u64 = 300_000;

/// How long not to give a processor up again after a stranger took it: twice as long each time in a row, for that
/// costs as much as the stranger's turn of some milliseconds.
const SHY_NS_MIN: u64 = 500_000;
const SHY_NS_MAX: u64 = 64_000_000;

/// So many peers in a row make a stranger forgotten.
const PEERS: u32 = 64;

/// What one who has looked in vain does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Look again.
    Look,
    /// Give the processor up, which is noted as a turn that began now, and look again.
    GiveWay {
        now_ns: u64,
    },
    Sleep,
}

/// Decides when to stop looking.
#[derive(Debug)]
pub(crate) struct Spin {
    load: Load,
    looks: u32,
    since_ns: u64,
    asked_ns: u64,
    crowded_until_ns: u64,
    /// Waits in a row in which looking was in vain, and waits since it is left out.
    in_vain: u32,
    short_waits: u32,
    trial_after: u32,
    /// How long to look in vain this time.
    wait_ns: u64,
    /// It has told to sleep.
    has_given_up: bool,
    shy_until_ns: u64,
    /// For how long the next stranger makes shy, and how many peers have come since the last one.
    shy_ns: u64,
    peers: u32,
    /// That have come so far.
    strangers: u32,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Self {
            load: Load::of_machine(),
            looks: 0,
            since_ns: 0,
            asked_ns: 0,
            crowded_until_ns: 0,
            in_vain: 0,
            short_waits: 0,
            trial_after: TRIAL_AFTER_MIN,
            wait_ns: SPIN_NS,
            has_given_up: false,
            shy_until_ns: 0,
            shy_ns: SHY_NS_MIN,
            peers: 0,
            strangers: 0,
        }
    }

    /// Something has come; the next wait begins anew.
    #[inline]
    pub(crate) fn moved(&mut self) {
        if self.looks > 0 && !self.has_given_up {
            (self.in_vain, self.trial_after) = (0, TRIAL_AFTER_MIN);
        }
        (self.looks, self.since_ns, self.has_given_up) = (0, 0, false);
    }

    /// Whether to look once more.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        match self.next() {
            Next::Look => true,
            Next::GiveWay { now_ns } => {
                yield_now();
                self.note_turn(now_ns, RealClock.monotonic_ns());
                true
            }
            Next::Sleep => false,
        }
    }

    /// As [`Spin::again`], for one who has a lock that a peer may need: he lets go of it before he gives way, and takes note of
    /// that turn.
    #[inline]
    pub(crate) fn next(&mut self) -> Next {
        self.looks += 1;
        if self.crowded_until_ns == 0 && self.in_vain < WAITS_IN_VAIN {
            core::hint::spin_loop();
            if !self.looks.is_multiple_of(LOOKS_BETWEEN) {
                return Next::Look;
            }
        }
        let next = self.next_in_vain();
        self.has_given_up |= matches!(next, Next::Sleep);
        next
    }

    /// Whether one who comes back at once when he has found nothing is to give way first, and to take note of that turn: where
    /// more want to run than there are processors, and no stranger has come of it lately.
    #[inline]
    pub(crate) fn is_to_give_way(&mut self, now_ns: u64) -> bool {
        self.ask(now_ns);
        self.crowded_until_ns != 0 && now_ns >= self.shy_until_ns
    }

    /// Whether more threads want to run than there are processors, as was found out a moment ago.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded_until_ns != 0
    }

    /// How many strangers have taken the processor so far.
    #[inline]
    pub(crate) fn strangers(&self) -> u32 {
        self.strangers
    }

    fn next_in_vain(&mut self) -> Next {
        let is_first = self.since_ns == 0;
        let now_ns = self.now();
        let is_crowded = self.crowded_until_ns != 0;
        if is_crowded && now_ns < self.shy_until_ns {
            return Next::Sleep;
        }
        if is_first {
            self.wait_ns = self.next_wait();
        }
        let waited_ns = now_ns - self.since_ns;
        if waited_ns >= self.wait_ns {
            // Who is called and finds nothing complete is still in the same wait.
            self.in_vain = self.in_vain.saturating_add(u32::from(!self.has_given_up));
            return Next::Sleep;
        }
        if is_crowded || waited_ns >= ALONE_NS { Next::GiveWay { now_ns } } else { Next::Look }
    }

    /// How long to look now: what was in vain some time ago may not be any more.
    fn next_wait(&mut self) -> u64 {
        if self.in_vain < WAITS_IN_VAIN {
            self.short_waits = 0;
            return SPIN_NS;
        }
        self.short_waits += 1;
        if self.short_waits <= self.trial_after {
            return 0;
        }
        self.short_waits = 0;
        self.trial_after = (2 * self.trial_after).min(TRIAL_AFTER_MAX);
        SPIN_NS
    }

    /// Somebody had the processor between the two, or nobody wanted it.
    pub(crate) fn note_turn(&mut self, before_ns: u64, after_ns: u64) {
        if after_ns - before_ns > STRANGER_NS {
            self.crowded_until_ns = after_ns + CROWD_LASTS_NS;
            self.strangers = self.strangers.wrapping_add(1);
            self.shy_until_ns = after_ns + self.shy_ns;
            (self.shy_ns, self.peers) = ((2 * self.shy_ns).min(SHY_NS_MAX), 0);
        } else {
            self.peers += 1;
            if self.peers >= PEERS {
                (self.shy_ns, self.peers) = (SHY_NS_MIN, 0);
            }
        }
    }

    fn now(&mut self) -> u64 {
        let now_ns = RealClock.monotonic_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        self.ask(now_ns);
        now_ns
    }

    fn ask(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.asked_ns) > CROWD_NS {
            self.asked_ns = now_ns;
            if self.load.is_crowded() {
                self.crowded_until_ns = now_ns + CROWD_LASTS_NS;
            } else if now_ns >= self.crowded_until_ns {
                self.crowded_until_ns = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks in vain until it is told to sleep; for how long.
    fn wait_in_vain(spin: &mut Spin) -> u64 {
        let begin_ns = RealClock.monotonic_ns();
        let looks = (0..100_000_000_u64).take_while(|_| spin.again()).count();
        assert!(looks < 100_000_000, "it looks for ever");
        let waited_ns = RealClock.monotonic_ns() - begin_ns;
        spin.moved();
        waited_ns
    }

    #[test]
    fn strangers_in_a_row_make_shy_for_longer_and_peers_make_them_forgotten() {
        let mut spin = Spin::new();
        let mut now_ns = 1_000_000_000;
        for times in 0..10 {
            now_ns += SHY_NS_MAX;
            let after_ns = now_ns + STRANGER_NS + 1;
            spin.note_turn(now_ns, after_ns);
            assert_eq!(spin.shy_until_ns - after_ns, (SHY_NS_MIN << times).min(SHY_NS_MAX));
            assert!(spin.crowded_until_ns > after_ns, "a stranger is a crowd");
        }
        (0..PEERS).for_each(|_| spin.note_turn(now_ns, now_ns + STRANGER_NS));
        assert_eq!(spin.shy_ns, SHY_NS_MIN);
    }

    #[test]
    fn who_comes_back_at_once_gives_way_in_a_crowd_but_not_to_strangers() {
        let mut spin = Spin::new();
        let now_ns = RealClock.monotonic_ns();
        // What was asked a moment ago holds.
        (spin.asked_ns, spin.crowded_until_ns) = (now_ns, 0);
        assert!(!spin.is_to_give_way(now_ns), "there is room for all");
        spin.crowded_until_ns = now_ns + CROWD_LASTS_NS;
        assert!(spin.is_to_give_way(now_ns));
        let after_ns = now_ns + STRANGER_NS + 1;
        spin.note_turn(now_ns, after_ns);
        spin.asked_ns = after_ns;
        assert!(!spin.is_to_give_way(after_ns), "a stranger has come of it");
        assert!(spin.is_to_give_way(after_ns + SHY_NS_MIN));
    }

    #[test]
    fn who_has_a_lock_is_told_to_give_way_and_does_it_himself() {
        let mut spin = Spin::new();
        let begin_ns = RealClock.monotonic_ns();
        (spin.asked_ns, spin.crowded_until_ns) = (begin_ns, begin_ns + CROWD_LASTS_NS);
        let Next::GiveWay { now_ns } = spin.next() else { panic!("there is a crowd") };
        assert!(now_ns >= begin_ns);
        assert_eq!(spin.peers, 0, "nobody has had the processor yet");
        spin.note_turn(now_ns, now_ns + 1);
        assert_eq!(spin.peers, 1);
        assert!(spin.again());
        assert_eq!(spin.peers + spin.strangers, 2, "who has none gives way at once");
    }

    #[test]
    fn who_looks_in_vain_again_and_again_sleeps_at_once_but_tries_now_and_then() {
        let mut spin = Spin::new();
        let waited_ns = wait_in_vain(&mut spin);
        assert!(waited_ns >= SPIN_NS || spin.shy_until_ns > 0, "{waited_ns}");
        spin.in_vain = 0;
        let in_vain = |spin: &mut Spin| {
            let wait_ns = spin.next_wait();
            spin.in_vain += 1;
            wait_ns
        };
        let tried: Vec<u32> = (0..100).filter(|_| in_vain(&mut spin) == SPIN_NS).collect();
        assert_eq!(tried, [0, 1, 6, 15, 32, 65]);
        // Looking has led to something.
        spin.looks = 1;
        spin.moved();
        assert_eq!((spin.next_wait(), spin.trial_after), (SPIN_NS, TRIAL_AFTER_MIN));
    }
}
