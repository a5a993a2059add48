//! The pools of a connection, each under a number that no other pool ever has.
//!
//! Invariants: a pool that was given back is found no more, whoever has its place by then.

use super::session::Attached;
use crate::slots::Slots;

/// A pool as one connection knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    use crate::client::session::NO_SLOT;
    use dolmen_codec::wire::{PoolAccess, PoolName, PoolSlot, SystemVerb};
    use dolmen_types::{Head, Uuid};
    use std::collections::BTreeMap;

    fn attached(slot: PoolSlot) -> Attached {
        Attached {
            slot,
            connect: SystemVerb::PoolConnect {
                name: PoolName::Uuid(Uuid::nil()),
                access: PoolAccess::ReadWrite,
            },
            head: Head::default(),
            conts: BTreeMap::new(),
            evicting: BTreeMap::new(),
            evictions: 0,
            refused: None,
            is_opening: false,
        }
    }

    #[test]
    fn who_has_left_a_pool_does_not_find_the_one_that_came_after() {
        let mut pools = Pools::default();
        let first = pools.insert(attached(NO_SLOT));
        let copies = pools.copies();
        assert!(pools.remove(first).is_some());
        let second = pools.insert(attached(PoolSlot(7)));
        assert_eq!(second.at, first.at, "the place is used again");
        assert!(pools.of(first).is_none() && pools.of_mut(first).is_none() && pools.remove(first).is_none());
        assert!(pools.of_mut(copies[0].0).is_none(), "a connection that was made meanwhile");
        assert_eq!(pools.of(second).map(|attached| attached.slot), Some(PoolSlot(7)));
        assert_eq!(pools.iter().count(), 1);
    }
}
