//! The pools of a connection, each under a number that no other pool ever has.
//!
//! Invariants: a pool that was given back is found no more, whoever has its place by then.

use super::session::Attached;
use crate::slots::Slots;

/// A pool as one connection knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PoolRef {
    at: usize,
    /// Tells it from all others that had the place before, or have it later.
    serial: u64,
}

/// All that are open on a connection.
#[derive(Default)]
pub(super) struct Pools {
    slots: Slots<(u64, Attached)>,
    serials: u64,
}

impl Pools {
    pub(super) fn insert(&mut self, attached: Attached) -> PoolRef {
        self.serials += 1;
        PoolRef { at: self.slots.insert((self.serials, attached)), serial: self.serials }
    }

    pub(super) fn remove(&mut self, pool: PoolRef) -> Option<Attached> {
        self.of(pool)?;
        self.slots.remove(pool.at).map(|(_, attached)| attached)
    }

    #[inline]
    pub(super) fn of(&self, pool: PoolRef) -> Option<&Attached> {
        let (serial, attached) = self.slots.of(pool.at)?;
        (*serial == pool.serial).then_some(attached)
    }

    #[inline]
    pub(super) fn of_mut(&mut self, pool: PoolRef) -> Option<&mut Attached> {
        let (serial, attached) = self.slots.of_mut(pool.at)?;
        (*serial == pool.serial).then_some(attached)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attached> {
        self.slots.iter().map(|(_, attached)| attached)
    }

    /// Forgets those that were opened beside others: they have ended with their connection.
    pub(super) fn end_beside(&mut self) {
        for at in self.slots.keys() {
            if self.slots.of(at).is_some_and(|(_, attached)| attached.is_beside) {
                self.slots.remove(at);
            }
        }
    }

    /// What it takes to open all of them again on another connection.
    pub(super) fn copies(&self) -> Vec<(PoolRef, Attached)> {
        let keys = self.slots.keys().into_iter();
        let copy = |at| {
            let (serial, attached) = self.slots.of(at)?;
            Some((PoolRef { at, serial: *serial }, attached.clone()))
        };
        keys.filter_map(copy).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::slot::{SessionNo, SlotOn};
    use dolmen_codec::wire::{PoolAccess, PoolName, PoolSlot, SystemVerb};
    use dolmen_types::{Head, Uuid};

    fn attached(slot: SlotOn) -> Attached {
        let name = PoolName::Uuid(Uuid::nil());
        let connect = SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite };
        Attached::new(slot, connect, Head::default())
    }

    #[test]
    fn who_has_left_a_pool_does_not_find_the_one_that_came_after() {
        let (mut pools, session) = (Pools::default(), SessionNo::next());
        let slot = |no| SlotOn::new(PoolSlot(no), session);
        let first = pools.insert(attached(slot(3)));
        let copies = pools.copies();
        assert!(pools.remove(first).is_some());
        let second = pools.insert(attached(slot(7)));
        assert_eq!(second.at, first.at, "the place is used again");
        assert!(pools.of(first).is_none() && pools.of_mut(first).is_none() && pools.remove(first).is_none());
        assert!(pools.of_mut(copies[0].0).is_none(), "a connection that was made meanwhile");
        assert_eq!(pools.of(second).map(|attached| attached.slot), Some(Some(slot(7))));
        assert_eq!(pools.iter().count(), 1);
    }
}
