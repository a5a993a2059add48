//! How a thread rests that waits for what nothing tells it of: an idle queue, or lanes on several pools.

use core::time::Duration;

/// For so long it only lets others run: most operations end within that.
const YIELDS_NS: u64 = 100_000;
/// The first wait; each is twice as long as the one before.
const PAUSE_MIN_NS: u64 = 50_000;
const PAUSE_MAX_NS: u64 = 1_000_000;

/// One wait, from its beginning or the last event on.
#[derive(Default)]
pub(super) struct Rest {
    since_ns: Option<u64>,
    pause_ns: u64,
}

impl Rest {
    /// How long to rest now that nothing has happened until `now_ns`, of at most `left_ns`; `None` to let others run.
    pub(super) fn pause(&mut self, now_ns: u64, left_ns: u64) -> Option<Duration> {
        let since = *self.since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since) < YIELDS_NS {
            return None;
        }
        self.pause_ns = (self.pause_ns * 2).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS);
        Some(Duration::from_nanos(self.pause_ns.min(left_ns)))
    }

    /// Something has happened.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_millisecond_and_not_beyond_the_time_that_is_left() {
        let mut rest = Rest::default();
        assert_eq!((rest.pause(7, u64::MAX), rest.pause(7 + YIELDS_NS - 1, u64::MAX)), (None, None));
        let found: Vec<_> =
            (0..7).map(|_| rest.pause(7 + YIELDS_NS, u64::MAX).unwrap().as_micros()).collect();
        assert_eq!(found, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(rest.pause(8 + YIELDS_NS, 3), Some(Duration::from_nanos(3)));
        rest.end();
        assert_eq!(rest.pause(8 + YIELDS_NS, 3), None);
        assert_eq!(rest.pause(8 + 2 * YIELDS_NS, u64::MAX), Some(Duration::from_micros(50)));
    }
}
