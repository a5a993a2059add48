//! Aggregations that callers have asked for.

use dolmen_types::{ContNo, Epoch};

/// An aggregation that a caller asked for, from the checkpoint it begins with to the merge it ends with.
pub(crate) struct Asked {
    pub(super) cont: ContNo,
    /// The last epoch that a caller wants it to reach.
    pub(super) upto: Epoch,
    /// Its merge has begun, and was not given up.
    pub(super) is_merging: bool,
    pub(super) is_complete: bool,
    /// Versions that it has freed.
    pub(super) freed: u64,
    pub(super) round: Round,
    /// What the target had seen of changes when it was asked for.
    pub(super) changes: u64,
}

/// An aggregation of which its caller does not know yet that it has ended.
pub(crate) struct Ended {
    pub(super) cont: ContNo,
    pub(super) upto: Epoch,
    pub(super) freed: u64,
}

/// What was joined in the first round, or had to stay for a rollback that is forgotten with it, is dropped in a second one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    First,
    LeavesMore,
    Second,
}

impl Asked {
    pub(super) fn new(cont: ContNo, upto: Epoch, changes: u64) -> Self {
        Self { cont, upto, is_merging: false, is_complete: false, freed: 0, round: Round::First, changes }
    }

    /// A merge is complete.
    pub(crate) fn merged(&mut self, freed: u64, leaves_more: bool) {
        if self.is_merging {
            self.is_complete = true;
            self.freed += freed;
            if leaves_more && self.round == Round::First {
                self.round = Round::LeavesMore;
            }
        }
    }

    /// Begins the second round if there is to be one; what the first has done counts as no change.
    pub(super) fn begin_round(&mut self, changes: u64) -> bool {
        let begins = self.is_complete && self.round == Round::LeavesMore;
        if begins {
            let begun = Self::new(self.cont, self.upto, changes);
            *self = Self { freed: self.freed, round: Round::Second, ..begun };
        }
        begins
    }
}
