//! How many spare segments are worth keeping: as many as may be used again before the next ones become free.
//!
//! Under a steady load what an aggregation frees is written again before the next one ends, and on tmpfs a fresh page
//! costs several times what writing it again does. After a load that has ended the same spares would only take room.

use dolmen_types::ContNo;

/// What was used between the ends of aggregations; in any unit.
#[derive(Default)]
pub(crate) struct Spares {
    /// Since the last aggregation ended.
    used: u64,
    /// Between the ends of the two before.
    used_before: u64,
    /// In the last two spans together, if something was used in both: what a merge frees may have become garbage over
    /// more than one.
    kept: u64,
    /// The container with whose aggregation a span ends, and how many of others have ended since.
    of: Option<ContNo>,
    others: usize,
}

impl Spares {
    /// So much more was used.
    pub(crate) fn used(&mut self, count: u64) {
        self.used += count;
    }

    /// An aggregation of one of so many containers has ended. Where they are aggregated in turn, a span is a whole
    /// round: between two of them next to nothing may be used.
    pub(crate) fn aggregated(&mut self, cont: ContNo, conts: usize) {
        if self.of.is_some_and(|of| of != cont) && self.others < conts {
            self.others += 1;
            return;
        }
        (self.of, self.others) = (Some(cont), 0);
        let is_steady = self.used.min(self.used_before) > 0;
        self.kept = if is_steady { self.used + self.used_before } else { 0 };
        self.used_before = core::mem::take(&mut self.used);
    }

    /// Spares that are worth keeping.
    pub(crate) fn wanted(&self) -> u64 {
        self.kept.max(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_load_keeps_its_spares_and_one_that_has_ended_none() {
        let mut spares = Spares::default();
        spares.used(90);
        assert_eq!(spares.wanted(), 90);
        // Nothing says yet that there will be another.
        spares.aggregated(ContNo(1), 1);
        assert_eq!(spares.wanted(), 0);
        for used in [100, 80, 120] {
            spares.used(used);
            spares.aggregated(ContNo(1), 1);
            assert!(spares.wanted() >= 80, "after {used}");
        }
        spares.aggregated(ContNo(1), 1);
        assert_eq!(spares.wanted(), 0);
    }

    #[test]
    fn containers_that_are_aggregated_in_turn_make_one_span() {
        let mut spares = Spares::default();
        for round in 0..4 {
            spares.used(99);
            spares.aggregated(ContNo(1), 2);
            spares.used(1);
            spares.aggregated(ContNo(2), 2);
            assert!(round < 2 || spares.wanted() >= 99, "round {round}");
        }
        // The one is not aggregated any more: the other takes its place.
        (0..5).for_each(|_| spares.aggregated(ContNo(2), 2));
        assert_eq!(spares.wanted(), 0);
    }
}
