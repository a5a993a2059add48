//! A run's filter: a Bloom filter of which each key touches one cache line.
//!
//! Sixteen bits a key and seven probes inside 512 bits give about 0.12 % of false positives. A new name is asked for in
//! every run, and a wrong yes costs a look into a block, fifty times what the question does: ten bits, with 1.3 %, saved
//! less than a byte a key and let a tenth of all creates look into a block.

use crate::lines::{self, Line};

/// Bits for each expected key.
const BITS_PER_KEY: u64 = 16;
const LINE_BITS: u64 = 512;
const PROBES: u32 = 7;
/// A line has 512 bits: nine bits of the hash say which.
const PROBE_BITS: u32 = 9;

/// A set of hashes that may claim to have what it has not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    lines: Vec<Line>,
    /// Hashes added, some perhaps again; none are known of a filter that was stored.
    added: u64,
}

impl Filter {
    /// An empty filter, sized for `keys` hashes; more make it less exact.
    pub(crate) fn with_room(keys: u64) -> Self {
        let lines = keys.saturating_mul(BITS_PER_KEY).div_ceil(LINE_BITS).max(1);
        let lines = lines::zeroed(usize::try_from(lines).expect("a filter fits the address space"));
        Self { lines, added: 0 }
    }

    /// A filter that was stored; without lines it claims to have everything.
    pub(crate) fn from_lines(lines: Vec<Line>) -> Self {
        Self { lines, added: 0 }
    }

    /// Its lines.
    pub(crate) fn lines(&self) -> &[[u64; 8]] {
        lines::words(&self.lines)
    }

    /// How many hashes it has, of a filter that was stored for how many it was made at most.
    pub(crate) fn hashes(&self) -> u64 {
        if self.added > 0 { self.added } else { self.lines.len() as u64 * (LINE_BITS / BITS_PER_KEY) }
    }

    /// Adds a hash.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64) {
        self.added += 1;
        let Some(index) = self.line_of(hash) else {
            return;
        };
        let line = &mut self.lines[index].0;
        for (word, bit) in probes(hash) {
            line[word] |= bit;
        }
    }

    /// Asks for the line of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(index) = self.line_of(hash) {
            dolmen_env::prefetch_line(&self.lines[index]);
        }
    }

    /// Whether the hash may have been added.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let Some(index) = self.line_of(hash) else {
            return true;
        };
        let line = &self.lines[index].0;
        probes(hash).all(|(word, bit)| line[word] & bit != 0)
    }

    /// The line of a hash: the high half scaled to the number of lines.
    fn line_of(&self, hash: u64) -> Option<usize> {
        let lines = u64::try_from(self.lines.len()).ok().filter(|&lines| lines > 0)?;
        usize::try_from(u128::from(spread(hash)).wrapping_mul(u128::from(lines)) >> 64).ok()
    }
}

/// Distributes what the caller's hash may have left uneven.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

/// Word and bit of each probe.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let bits = spread(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let at = bits >> (probe * PROBE_BITS) & (LINE_BITS - 1);
        (usize::try_from(at / 64).expect("eight words a line"), 1 << (at % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_what_was_added_and_little_else() {
        const KEYS: u64 = 20_000;
        for step in [1, 0x0001_0000_0000, 0x9e37_79b9_7f4a_7c15] {
            let mut filter = Filter::with_room(KEYS);
            for number in 0..KEYS {
                filter.insert(number.wrapping_mul(step));
            }
            assert!((0..KEYS).all(|number| filter.may_contain(number.wrapping_mul(step))));
            let stored = Filter::from_lines(filter.lines.clone());
            assert_eq!((filter.hashes(), stored.hashes() / 100), (KEYS, KEYS / 100));
            let wrong =
                (KEYS..2 * KEYS).filter(|number| filter.may_contain(number.wrapping_mul(step))).count();
            assert!(wrong < 60, "{wrong} of {KEYS} with step {step}");
        }
        assert!(Filter::from_lines(Vec::new()).may_contain(5));
    }
}
