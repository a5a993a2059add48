//! Numbers for what a writer makes, and the record that keeps others from freeing it.
//!
//! Who writes draws numbers from the store, says in a record of his that he has them, and until when he will have been heard of
//! again, and only then writes into objects of these numbers. Nobody else knows these objects until a transaction makes them part of a
//! version, which looks whether the record is still there. Who frees what the dead have left removes their records first.
//!
//! Until when says the clock of the store, which is the same for all; who writes has to know only how much time has passed.
//!
//! A container can go back to a snapshot while somebody writes: it hides what was written after that, and leaves the record of who had begun
//! before. So the transaction looks whether all groups are there, too.
//!
//! Invariants: nothing is written into an object whose number is in no record; a record that somebody removed is not made again.

use super::home::{At, Home};
use super::place::{self, Records};
use super::record::Writer;
use crate::error::{Error, Result};
use crate::stop;
use dolmen_client::ObjectClass;
use dolmen_env::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers that are drawn at once: a record and two requests for so many clusters.
const AT_ONCE: u64 = 64;

/// Numbers of one writer.
#[derive(Debug)]
pub(super) struct Numbers {
    home: Home,
    clock: Arc<dyn Clock>,
    lease_ns: u64,
    held: Vec<Held>,
    next: u64,
    end: u64,
    /// The class of the clusters of these numbers that were written, and how many groups they have.
    written: BTreeMap<u64, (ObjectClass, u32)>,
}

/// A record that was made.
#[derive(Clone, Copy, Debug)]
struct Held {
    writer: Writer,
    /// When it was begun to be written or renewed, by a clock that only goes on.
    since_ns: u64,
}

impl Numbers {
    pub(super) fn new(home: &Home, clock: &Arc<dyn Clock>, lease_ns: u64) -> Self {
        let (home, clock) = (home.clone(), Arc::clone(clock));
        Self { home, clock, lease_ns, held: Vec::new(), next: 0, end: 0, written: BTreeMap::new() }
    }

    /// The next number; with the first of several, a record is made.
    pub(super) fn next(&mut self) -> Result<u64> {
        if self.next == self.end {
            let since_ns = self.clock.monotonic_ns();
            let until_ns = self.home.now_ns()?.saturating_add(self.lease_ns);
            let writer = |first| Writer { first, count: AT_ONCE, until_ns };
            let record = |first| (place::writer(first), writer(first).write());
            let first = self.home.draw(AT_ONCE, Records::Writers, record)?;
            self.held.push(Held { writer: writer(first), since_ns });
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
        let now_ns = self.clock.monotonic_ns();
        for Held { writer, since_ns } in &mut self.held {
            if now_ns.saturating_sub(*since_ns) < self.lease_ns / 2 {
                continue;
            }
            let renewed = Writer { until_ns: self.home.now_ns()?.saturating_add(self.lease_ns), ..*writer };
            let dkey = place::writer(writer.first);
            if !self.home.renew(Records::Writers, &dkey, place::RECORD, &renewed.write())? {
                return Err(Error::Expired);
            }
            (*writer, *since_ns) = (renewed, now_ns);
        }
        Ok(())
    }

    /// Takes note that another group of a cluster is written.
    pub(super) fn writes(&mut self, class: ObjectClass, number: u64) {
        self.written.entry(number).or_insert((class, 0)).1 += 1;
    }

    /// Looks whether the records are there, in a transaction that depends on that.
    ///
    /// # Errors
    /// [`Error::Expired`].
    pub(super) fn check_in(&self, at: At<'_>) -> Result<()> {
        let has = |held: &Held| {
            let dkey = place::writer(held.writer.first);
            self.home.get(at, Records::Writers, &dkey, place::RECORD)
        };
        self.held.iter().try_for_each(|held| has(held)?.map(drop).ok_or(Error::Expired))
    }

    /// Takes the records away in the transaction that makes what was written part of a version.
    ///
    /// # Errors
    /// [`Error::Expired`] if somebody did before; [`Error::WentBack`].
    pub(super) fn end_in(&self, at: At<'_>) -> Result<()> {
        self.check_in(at)?;
        for (&number, &(class, groups)) in &self.written {
            crate::stop::check()?;
            if !self.home.has_groups(at, class, number, groups)? {
                return Err(Error::WentBack);
            }
        }
        let punch = |held: &Held| self.home.punch(at, Records::Writers, &place::writer(held.writer.first));
        self.held.iter().try_for_each(punch)
    }

    /// Whether a number is of those that were drawn since the records were last taken away.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.held.iter().any(|held| held.writer.holds(number))
    }

    /// Forgets the numbers whose records were taken away; what is left of them is never used.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.written.clear();
        self.end = self.next;
    }

    /// Gives them up with an error.
    pub(super) fn given_up_unless(&mut self, done: Result<()>) -> Result<()> {
        if done.is_err() {
            // Ignored: they are given up when the lease is over then, and the error before says more.
            drop(self.give_up());
        }
        done
    }

    /// Takes the records away: what was written is nobody's. Who was called off does that, too.
    ///
    /// # Errors
    /// The first; other records are gone nevertheless.
    pub(super) fn give_up(&mut self) -> Result<()> {
        self.end = self.next;
        self.written.clear();
        let (home, held) = (&self.home, core::mem::take(&mut self.held));
        let punch = |Held { writer, .. }: Held| {
            home.punch(At::Latest, Records::Writers, &place::writer(writer.first))
        };
        stop::asking(None, || held.into_iter().map(punch).fold(Ok(()), Result::and))
    }
}
