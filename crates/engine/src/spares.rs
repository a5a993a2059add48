//! How many spare segments are worth keeping: as many as are used again.
//!
//! Under a steady load what an aggregation frees is written again before the next one ends, and on tmpfs a fresh page
//! costs several times what writing it again does. After a load that has ended the same spares would only take room.

/// What was used between the ends of aggregations; in any unit.
#[derive(Default)]
pub(crate) struct Spares {
    /// Since the last aggregation ended.
    used: u64,
    /// Between the ends of the two before.
    used_before: u64,
    /// In both of the last two spans.
    kept: u64,
}

impl Spares {
    /// So much more was used.
    pub(crate) fn used(&mut self, count: u64) {
        self.used += count;
    }

    /// An aggregation has ended.
    pub(crate) fn aggregated(&mut self) {
        self.kept = self.used.min(self.used_before);
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
        spares.aggregated();
        assert_eq!(spares.wanted(), 0);
        for used in [100, 80, 120] {
            spares.used(used);
            spares.aggregated();
            assert!(spares.wanted() >= 80, "after {used}");
        }
        spares.aggregated();
        assert_eq!(spares.wanted(), 0);
    }
}
