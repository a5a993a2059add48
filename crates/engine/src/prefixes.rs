//! The hashes of prefixes that have punches or holes in a delta: what spares most lookups the question.
//!
//! Exact while they are few; beyond that a filter, which may claim what is not there and costs a lookup then.
//!
//! Invariants: what was inserted is always claimed; memory has a bound that is set at the start.

use crate::run::filter::Filter;
use hashbrown::HashSet;

/// A table of hashes, its free slots counted, takes at most so many bytes for each.
const EXACT_BYTES: u64 = 18;
/// The filter that follows has room for so many times the hashes that were too many: two bytes each.
const FILTER_FACTOR: u64 = 8;

/// A set of hashes within a bound of memory.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    exact: HashSet<u64>,
    filter: Option<Filter>,
    limit: u64,
}

impl Prefixes {
    /// An empty set that takes about `bytes_max` at most.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { exact: HashSet::new(), filter: None, limit: (bytes_max / EXACT_BYTES).max(1) }
    }

    /// The set so far; an empty one with the same bound takes its place.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self { limit: self.limit, ..Self::default() };
        core::mem::replace(self, empty)
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        if let Some(filter) = &mut self.filter {
            return filter.insert(hash);
        }
        self.exact.insert(hash);
        if self.exact.len() as u64 > self.limit {
            let mut filter = Filter::with_room(self.limit * FILTER_FACTOR);
            core::mem::take(&mut self.exact).into_iter().for_each(|hash| filter.insert(hash));
            self.filter = Some(filter);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.filter.is_none()
    }

    /// Whether the hash may have been inserted.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match &self.filter {
            Some(filter) => filter.may_contain(hash),
            None => self.exact.contains(&hash),
        }
    }

    /// Memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        const SLOT_BYTES: usize = 9;
        self.exact.capacity() * SLOT_BYTES
            + self.filter.as_ref().map_or(0, |filter| filter.lines().len() * 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::mix;

    #[test]
    fn a_set_that_has_become_a_filter_still_claims_everything_within_its_bound() {
        const BYTES_MAX: usize = 64 << 10;
        let mut set = Prefixes::new(BYTES_MAX as u64);
        assert!(set.is_empty() && !set.may_contain(1));
        for number in 0..100_000 {
            set.insert(mix(7, number));
            assert!(set.resident_bytes() <= BYTES_MAX + 64, "{} at {number}", set.resident_bytes());
        }
        assert!((0..100_000).all(|number| set.may_contain(mix(7, number))));
        let taken = set.take();
        assert!(set.is_empty() && taken.may_contain(mix(7, 99_999)));
        (0..20_000).for_each(|number| set.insert(mix(7, number)));
        let claimed = (50_000..60_000).filter(|&number| set.may_contain(mix(7, number))).count();
        assert!(claimed < 500, "{claimed}");
    }
}
