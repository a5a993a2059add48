//! Numbers for what a writer makes, and the record that keeps others from freeing it.
//!
//! Who writes draws numbers from the container, says in a record of his that he has them, and until when he will have been heard of
//! again, and only then writes into objects of these numbers. Nobody else knows these objects until a transaction makes them part of a
//! version, which looks whether the record is still there. Who frees what the dead have left removes their records first.
//!
//! Invariants: nothing is written into an object whose number is in no record; a record that somebody removed is not made again.

use super::place;
use super::record::Writer;
use crate::error::{Error, Result};
use dolmen_client::{At, Cond, Container, IoBuf, Key, NewValue, Object, Payload, Tx, UpdateIod};
use dolmen_env::Clock;
use std::sync::Arc;

/// Numbers that are drawn at once: a record and two requests for so many clusters.
const AT_ONCE: u64 = 64;

/// Numbers that objects of the store itself have.
const RESERVED: u64 = 2;

/// Numbers of one writer.
#[derive(Debug)]
pub(super) struct Numbers {
    cont: Container,
    writers: Object,
    clock: Arc<dyn Clock>,
    lease_ns: u64,
    held: Vec<Writer>,
    next: u64,
    end: u64,
}

impl Numbers {
    pub(super) fn new(cont: &Container, clock: &Arc<dyn Clock>, lease_ns: u64) -> Result<Self> {
        let (cont, clock, writers) = (cont.clone(), Arc::clone(clock), place::writers(cont)?);
        Ok(Self { cont, writers, clock, lease_ns, held: Vec::new(), next: 0, end: 0 })
    }

    /// The next number; with the first of several, a record is made.
    pub(super) fn next(&mut self) -> Result<u64> {
        if self.next == self.end {
            let first = self.cont.alloc_oids(AT_ONCE + RESERVED)?.max(RESERVED);
            let until_ns = self.clock.now_ns().saturating_add(self.lease_ns);
            let writer = Writer { first, count: AT_ONCE, until_ns };
            self.writers.put(At::Latest, &place::writer(first), place::RECORD, &writer.write())?;
            self.held.push(writer);
            (self.next, self.end) = (first, first + AT_ONCE);
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Says that it is still there, if half of its lease is over.
    ///
    /// # Errors
    /// [`Error::Expired`].
    pub(super) fn renew(&mut self) -> Result<()> {
        let now_ns = self.clock.now_ns();
        for writer in &mut self.held {
            if now_ns.saturating_add(self.lease_ns / 2) < writer.until_ns {
                continue;
            }
            let renewed = Writer { until_ns: now_ns.saturating_add(self.lease_ns), ..*writer };
            let bytes = renewed.write();
            let value = NewValue::Single(Payload::Ref(&bytes));
            let iod = UpdateIod { akey: Key::from_slice(place::RECORD), cond: Cond::NONE, value };
            let dkey = place::writer(writer.first);
            self.writers.update(At::Latest, &dkey, Cond::DKEY_UPDATE, &[iod]).map_err(expired)?;
            *writer = renewed;
        }
        Ok(())
    }

    /// Takes the records away in the transaction that makes what was written part of a version.
    ///
    /// # Errors
    /// [`Error::Expired`] if somebody did before.
    pub(super) fn end_in(&self, tx: &Tx) -> Result<()> {
        for writer in &self.held {
            let dkey = place::writer(writer.first);
            let mut buf = IoBuf::default();
            if self.writers.get(At::Tx(tx), &dkey, place::RECORD, &mut buf)?.is_none() {
                return Err(Error::Expired);
            }
            self.writers.punch_dkey(At::Tx(tx), &dkey, Cond::NONE)?;
        }
        Ok(())
    }

    /// Forgets the numbers whose records were taken away; what is left of them is never used.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.end = self.next;
    }

    /// Takes the records away: what was written is nobody's.
    pub(super) fn give_up(&mut self) -> Result<()> {
        for writer in self.held.drain(..) {
            self.writers.punch_dkey(At::Latest, &place::writer(writer.first), Cond::NONE)?;
        }
        self.end = self.next;
        Ok(())
    }
}

fn expired(error: dolmen_client::Error) -> Error {
    match error {
        dolmen_client::Error::NotFound => Error::Expired,
        source => Error::Store { source },
    }
}
