//! All entries of some runs in one order, for a merge: kept from one of its steps to the next.
//!
//! Invariants: `order` names the cursors that stand on an entry, each once, in the order of their keys.

use super::reader::{BlockSource, Run, RunCursor};
use dolmen_types::Error;

/// Walks runs upwards, from their first entries on. A key that several runs have comes once from each.
#[derive(Default)]
pub(crate) struct MergedRuns {
    cursors: Vec<RunCursor>,
    /// Places in `cursors`, the one that comes first at the end.
    order: Vec<usize>,
}

impl MergedRuns {
    /// Stands on the first entry of all.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn first_of(runs: &[Run], blocks: &mut dyn BlockSource) -> Result<Self, Error> {
        let mut merged = Self { cursors: vec![RunCursor::default(); runs.len()], order: Vec::new() };
        for (at, (cursor, run)) in merged.cursors.iter_mut().zip(runs).enumerate() {
            cursor.seek(run, &[], blocks)?;
            if cursor.entry().is_some() {
                merged.order.push(at);
            }
        }
        let cursors = &merged.cursors;
        merged.order.sort_by(|&a, &b| key_of(cursors, b).cmp(key_of(cursors, a)));
        Ok(merged)
    }

    /// Key and payload of the present entry; `None` at the end.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursors[*self.order.last()?].entry()
    }

    /// Shows payloads of entries that come soon; in the long run each once.
    #[inline]
    pub(crate) fn upcoming(&self, ahead: usize, scratch: &mut Vec<u8>, show: impl FnMut(&[u8])) {
        if let Some(&first) = self.order.last() {
            self.cursors[first].upcoming(ahead, scratch, show);
        }
    }

    /// Goes to the next entry; at the end it stays there. `runs` are those it was made of.
    ///
    /// # Errors
    /// Those of the source.
    #[inline]
    pub(crate) fn advance(&mut self, runs: &[Run], blocks: &mut dyn BlockSource) -> Result<(), Error> {
        let Some(first) = self.order.pop() else {
            return Ok(());
        };
        self.cursors[first].advance(&runs[first], blocks)?;
        if self.cursors[first].entry().is_some() {
            let place = self.place_of(first);
            self.order.insert(place, first);
        }
        Ok(())
    }

    /// Where a cursor belongs in the order. As a rule it stays first.
    fn place_of(&self, cursor: usize) -> usize {
        let key = key_of(&self.cursors, cursor);
        let is_behind = |&other: &usize| key_of(&self.cursors, other) >= key;
        match self.order.last() {
            Some(second) if !is_behind(second) => self.order.partition_point(is_behind),
            _ => self.order.len(),
        }
    }

    /// Memory of the blocks it stands in, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.cursors.iter().map(RunCursor::resident_bytes).sum::<usize>() as u64
    }
}

/// REQUIRES: the cursor stands on an entry.
fn key_of(cursors: &[RunCursor], at: usize) -> &[u8] {
    cursors[at].entry().expect("what is in the order stands on an entry").0
}
