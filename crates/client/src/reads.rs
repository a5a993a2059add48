//! Where transactions have read: targets keep what those may ask for until they hear of their end.
//!
//! A commit names the targets that it does not write to; of any other end they are told by a message that nobody waits for.
//!
//! Invariants: memory does not grow with the number of transactions; what is left out is kept by its targets for as long as for
//! transactions that nobody ends.

use crate::client::Core;
use crate::container::Container;
use dolmen_codec::pool::{EndedTx, PoolVerb};
use dolmen_codec::verb::{Fetch, List, Query, ReadAt, Verb};
use dolmen_codec::{Ask, Request};
use dolmen_types::{Epoch, TargetNo};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Transactions of a client that are known at a time: as many as a target knows one by one.
const OPEN_MAX: usize = 4096;

/// Targets in ascending order.
type Targets = SmallVec<[TargetNo; 4]>;

/// By the epoch of the transaction.
#[derive(Default)]
pub(crate) struct Reads {
    /// Guards the list; taken last, for a few instructions.
    open: Mutex<BTreeMap<Epoch, Targets>>,
}

impl Reads {
    /// Notes a read of a transaction.
    #[inline]
    pub(crate) fn note(&self, ask: &Ask<'_>) {
        if let Ask::Target(target, _, verb) = ask
            && let Some(epoch) = tx_of(verb)
        {
            self.insert(epoch, *target);
        }
    }

    fn insert(&self, epoch: Epoch, target: TargetNo) {
        let mut open = self.lock();
        let targets = open.entry(epoch).or_default();
        if let Err(place) = targets.binary_search(&target) {
            targets.insert(place, target);
        }
        if open.len() > OPEN_MAX {
            open.pop_first();
        }
    }

    /// The targets at which a transaction has read.
    pub(crate) fn of(&self, epoch: Epoch) -> Targets {
        self.lock().get(&epoch).cloned().unwrap_or_default()
    }

    /// The transaction has ended; where it had read.
    fn take(&self, epoch: Epoch) -> Option<Targets> {
        self.lock().remove(&epoch)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Epoch, Targets>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transaction that reads.
#[inline]
fn tx_of(verb: &Verb<'_>) -> Option<Epoch> {
    match verb {
        Verb::Fetch(Fetch { at: ReadAt::Tx(epoch), .. })
        | Verb::List(List { at: ReadAt::Tx(epoch), .. })
        | Verb::Query(Query { at: ReadAt::Tx(epoch), .. }) => Some(*epoch),
        _ => None,
    }
}

/// A transaction that ends when this is dropped, if it has not before.
pub(crate) struct Reading {
    cont: Container,
    epoch: Epoch,
}

impl Reading {
    pub(crate) fn begin(cont: &Container, epoch: Epoch) -> Self {
        Self { cont: cont.clone(), epoch }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.cont.core().end_reads(self.epoch);
    }
}

impl Core {
    /// The targets at which a transaction has read that writes to others.
    pub(crate) fn only_read<'m>(
        &self,
        epoch: Epoch,
        written: impl Iterator<Item = &'m TargetNo> + Clone,
    ) -> Targets {
        let mut read = self.reads().of(epoch);
        read.retain(|target| written.clone().all(|other| other != target));
        read
    }

    /// A transaction has ended with the answer to its commit, which has told all targets.
    pub(crate) fn forget_reads(&self, epoch: Epoch) {
        // Ignored: they know.
        let _told = self.reads().take(epoch);
    }

    /// A transaction has ended, and no commit has told so: this does. Nobody waits for the answer.
    pub(crate) fn end_reads(&self, epoch: Epoch) {
        let Some(read) = self.reads().take(epoch) else { return };
        // A queue of its own, so that nothing of it is left when it is closed, and that it is sent at once.
        let Ok(queue) = self.transport().open_queue() else { return };
        let head = self.head(self.read_id(), self.map().version);
        let ask = Ask::Pool(PoolVerb::TxEnd(EndedTx { epoch, read }));
        self.transport().submit(queue, Request { token: 0, head, ask });
        self.transport().close_queue(queue);
    }
}
