//! All entries of some runs in one order, for a merge: kept from one of its steps to the next.
//!
//! Invariants: `order` names the cursors that stand on an entry, each once, in the order of their keys. Runs ascend,
//! so all their keys begin with what the first and the last of them share; only those that were forged do not, and come
//! out in an order that does not ascend.

use super::reader::{BlockSource, Run, RunCursor, head_of};
use crate::tree::key::common_prefix_len;
use core::cmp::Ordering;
use dolmen_types::Error;

/// Walks runs upwards, from their first entries on. A key that several runs have comes once from each, from the
/// first of them first.
#[derive(Default)]
pub(crate) struct MergedRuns {
    cursors: Vec<RunCursor>,
    /// Places in `cursors`, the one that comes first at the end, each with the head of its key.
    order: Vec<(u64, usize)>,
    /// What all keys begin with has so many bytes: their heads are behind it.
    shared_len: usize,
}

impl MergedRuns {
    /// Stands on the first entry of all.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn first_of(runs: &[Run], blocks: &mut dyn BlockSource) -> Result<Self, Error> {
        let mut cursors = vec![RunCursor::default(); runs.len()];
        for (cursor, run) in cursors.iter_mut().zip(runs) {
            cursor.seek(run, &[], blocks)?;
        }
        let standing = || (0..runs.len()).filter_map(|at| Some((at, cursors[at].entry()?.0)));
        let lowest = standing().map(|(_, key)| key).min().unwrap_or_default();
        let highest = runs.iter().map(|run| &run.footer().last_key[..]).max().unwrap_or_default();
        let shared_len = common_prefix_len(lowest, highest);
        let mut order: Vec<_> =
            standing().map(|(at, key)| (head_of(key.get(shared_len..).unwrap_or_default()), at)).collect();
        order.sort_by(|&(_, a), &(_, b)| key_of(&cursors, b).cmp(key_of(&cursors, a)).then(b.cmp(&a)));
        Ok(Self { cursors, order, shared_len })
    }

    /// Key and payload of the present entry; `None` at the end.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursors[self.order.last()?.1].entry()
    }

    /// Shows payloads of entries that come soon; in the long run each once.
    #[inline]
    pub(crate) fn upcoming(&self, ahead: usize, scratch: &mut Vec<u8>, show: impl FnMut(&[u8])) {
        if let Some(&(_, first)) = self.order.last() {
            self.cursors[first].upcoming(ahead, scratch, show);
        }
    }

    /// Goes to the next entry; at the end it stays there. `runs` are those it was made of.
    ///
    /// # Errors
    /// Those of the source.
    #[inline]
    pub(crate) fn advance(&mut self, runs: &[Run], blocks: &mut dyn BlockSource) -> Result<(), Error> {
        let Some((_, first)) = self.order.pop() else {
            return Ok(());
        };
        self.cursors[first].advance(&runs[first], blocks)?;
        if let Some((key, _)) = self.cursors[first].entry() {
            let head = head_of(key.get(self.shared_len..).unwrap_or_default());
            let place = self.place_of(head, first);
            self.order.insert(place, (head, first));
        }
        Ok(())
    }

    /// Where a cursor on a key with this head belongs in the order. As a rule it stays first.
    fn place_of(&self, head: u64, cursor: usize) -> usize {
        let is_behind = |&(other_head, other): &(u64, usize)| match other_head.cmp(&head) {
            Ordering::Equal => {
                let keys = key_of(&self.cursors, other).cmp(key_of(&self.cursors, cursor));
                keys.then(other.cmp(&cursor)).is_gt()
            }
            unequal => unequal == Ordering::Greater,
        };
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
