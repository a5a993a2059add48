//! The number of a pool on a connection, and which connection that is.
//!
//! Invariants: a number is written into a frame of the connection that has given it out, and of no other: there it is another
//! pool's, or nobody's.

use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_codec::wire::PoolSlot;

/// One connection of this process, of all that it ever makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SessionNo(u64);

impl SessionNo {
    /// That of a connection that was just made.
    pub(super) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The number of a pool on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotOn {
    slot: PoolSlot,
    session: SessionNo,
}

impl SlotOn {
    /// The number that a connection has given out.
    pub(super) fn new(slot: PoolSlot, session: SessionNo) -> Self {
        Self { slot, session }
    }

    /// The number for a frame of a connection; `None` if another one has given it out.
    #[inline]
    pub(super) fn on(self, session: SessionNo) -> Option<PoolSlot> {
        (self.session == session).then_some(self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_use_on_the_connection_that_has_given_it_out_and_on_no_other() {
        let (first, second) = (SessionNo::next(), SessionNo::next());
        let slot = SlotOn::new(PoolSlot(1), first);
        assert_eq!((slot.on(first), slot.on(second)), (Some(PoolSlot(1)), None));
        assert_ne!(slot, SlotOn::new(PoolSlot(1), second));
    }
}
