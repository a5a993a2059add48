//! Who commits a transaction, where it is asked for more than once at a time.
//!
//! A client whose connection ends while its commit is being carried out sends it again. Two coordinators of one transaction could tell its
//! targets different things: one that gives up has a target forget its part while the other has the leader commit.
//!
//! Invariants: of each transaction one coordinator at a time sends messages; the next begins when all that the one before has sent is answered,
//! or when the leader has its decision on record.

use crate::inbox::locked;
use core::time::Duration;
use dolmen_types::TxId;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Between two looks at what the turn may be waiting for.
const LOOK: Duration = Duration::from_millis(1);

/// Transactions whose turn somebody has.
#[derive(Default)]
pub(crate) struct Turns {
    /// Guards the set; taken alone.
    taken: Mutex<BTreeSet<TxId>>,
    /// Called when a turn has ended for which somebody waits.
    ended: Condvar,
}

/// A turn, until it is dropped.
pub(crate) struct Turn {
    of: Arc<Turns>,
    tx: TxId,
}

impl Turns {
    /// Takes the turn of a transaction, when nobody has it; until then it does `meanwhile` again and again. `None` when that says that it
    /// is not to be waited for any more.
    pub(crate) fn take(self: &Arc<Self>, tx: TxId, mut meanwhile: impl FnMut() -> bool) -> Option<Turn> {
        while !locked(&self.taken).insert(tx) {
            if !meanwhile() {
                return None;
            }
            let is_taken = |taken: &mut BTreeSet<TxId>| taken.contains(&tx);
            let waited = self.ended.wait_timeout_while(locked(&self.taken), LOOK, is_taken);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        Some(Turn { of: Arc::clone(self), tx })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        locked(&self.of.taken).remove(&self.tx);
        self.of.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering};
    use dolmen_types::Epoch;

    fn tx(client: u128) -> TxId {
        TxId { client, begin: Epoch(1) }
    }

    #[test]
    fn a_turn_is_waited_for_until_it_ends_and_others_are_free() {
        let turns = Arc::new(Turns::default());
        let first = turns.take(tx(1), || panic!("it is free")).unwrap();
        let other = turns.take(tx(2), || panic!("it is another")).unwrap();
        assert!(turns.take(tx(1), || false).is_none(), "it is not waited for");
        let waits = AtomicBool::new(false);
        dolmen_env::scope(|threads| {
            let meanwhile = || {
                waits.store(true, Ordering::Release);
                true
            };
            let second = threads.spawn(move || turns.take(tx(1), meanwhile).is_some());
            while !waits.load(Ordering::Acquire) {
                dolmen_env::yield_now();
            }
            drop(first);
            assert!(second.join().unwrap());
        });
        drop(other);
    }
}
