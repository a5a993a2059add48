//! Transactions that have read here and may go on: what they read, and where they write, is kept for them at rest.
//!
//! A target learns of a transaction by its reads, and of its end by what it writes here, or because it is told that it has only
//! read. Nobody can be made to tell: so each is kept for a time from its begin at most, whether it goes on or not.
//!
//! Invariants: whatever was noted and has not ended is at or above what `oldest` gives, until it is too old; memory does
//! not grow with the number of transactions.

use crate::target::Target;
use core::time::Duration;
use dolmen_types::Epoch;
use std::collections::BTreeSet;

/// For so long from its begin a transaction is kept: what one who does not end it can hold.
const OPEN_MAX: Duration = Duration::from_secs(300);

/// So many are known one by one.
const NAMED_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Readers {
    named: BTreeSet<Epoch>,
    /// The newest of those that had no place. While it is young enough, the past is kept for as long as for anyone.
    crowd: Option<Epoch>,
    /// The one noted last: most read more than once.
    last: Option<Epoch>,
}

impl Readers {
    /// A transaction that began at this epoch reads; whether that was not known.
    #[inline]
    pub(crate) fn note(&mut self, epoch: Epoch) -> bool {
        let is_new = self.last != Some(epoch);
        if is_new {
            self.last = Some(epoch);
            self.insert(epoch);
        }
        is_new
    }

    fn insert(&mut self, epoch: Epoch) {
        self.drop_before(open_since(epoch.unix_ns()));
        if self.named.len() < NAMED_MAX {
            self.named.insert(epoch);
        } else if !self.named.contains(&epoch) {
            self.crowd = self.crowd.max(Some(epoch));
        }
    }

    /// The transaction has ended, or can only begin anew.
    pub(crate) fn forget(&mut self, epoch: Epoch) {
        self.named.remove(&epoch);
        self.last = None;
    }

    /// The oldest that may go on, of those that began at or after `since`. Older ones are forgotten.
    pub(crate) fn oldest(&mut self, since: Epoch) -> Option<Epoch> {
        self.drop_before(since);
        if self.crowd.is_some() { Some(since) } else { self.first() }
    }

    /// The oldest of those that are known one by one.
    #[inline]
    pub(crate) fn first(&self) -> Option<Epoch> {
        self.named.first().copied()
    }

    fn drop_before(&mut self, since: Epoch) {
        if self.named.first().is_some_and(|&first| first < since) {
            self.named = self.named.split_off(&since);
            self.last = None;
        }
        self.crowd = self.crowd.filter(|&newest| newest >= since);
    }
}

/// What began before is kept no more at this time.
pub(crate) fn open_since(now_ns: u64) -> Epoch {
    let open_ns = u64::try_from(OPEN_MAX.as_nanos()).unwrap_or(u64::MAX);
    Epoch::from_unix_ns(now_ns.saturating_sub(open_ns))
}

impl Target {
    /// A transaction that began at this epoch reads.
    #[inline]
    pub(crate) fn note_reader(&mut self, epoch: Epoch) {
        if self.readers.note(epoch) {
            self.need_marks();
        }
    }

    /// The transaction has ended, or can only begin anew.
    pub(crate) fn forget_reader(&mut self, epoch: Epoch) {
        self.readers.forget(epoch);
        self.need_marks();
    }

    /// What the oldest open transaction may conflict with is remembered place by place.
    pub(crate) fn need_marks(&mut self) {
        let above = self.readers.first().map_or(Epoch::MAX, |first| Epoch(first.0.saturating_sub(1)));
        self.reads.need_above(above);
        self.writes.need_above(above);
    }

    /// Nobody is there any more for whom more is remembered than at first.
    pub(crate) fn shrink_marks(&mut self) {
        if self.readers.first().is_none() {
            self.reads.shrink();
            self.writes.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_may_go_on_is_kept_until_it_ends_or_is_too_old() {
        let mut readers = Readers::default();
        assert_eq!(readers.oldest(Epoch(1)), None);
        [30, 20, 20, 40].into_iter().for_each(|epoch| _ = readers.note(Epoch(epoch)));
        assert_eq!(readers.oldest(Epoch(1)), Some(Epoch(20)));
        readers.forget(Epoch(20));
        assert_eq!(readers.oldest(Epoch(1)), Some(Epoch(30)));
        assert_eq!(readers.oldest(Epoch(31)), Some(Epoch(40)));
        readers.forget(Epoch(40));
        assert_eq!(readers.oldest(Epoch(1)), None);
        readers.note(Epoch(40));
        assert_eq!(readers.oldest(Epoch(1)), Some(Epoch(40)), "forgotten and noted again");
    }

    #[test]
    fn more_than_have_a_place_are_all_kept_for_the_whole_time() {
        let mut readers = Readers::default();
        let many = NAMED_MAX as u64 + 10;
        (1000..1000 + many).for_each(|epoch| _ = readers.note(Epoch(epoch)));
        (1000..1000 + many).for_each(|epoch| readers.forget(Epoch(epoch)));
        let last = Epoch(1000 + many - 1);
        assert_eq!(readers.oldest(Epoch(900)), Some(Epoch(900)), "nobody knows which of them have ended");
        assert_eq!(readers.oldest(last), Some(last));
        assert_eq!(readers.oldest(last.next()), None);
    }
}
