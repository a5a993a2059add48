//! Keys in random order and values that can be told again, without remembering either.

use dolmen_env::Rng;

/// Bytes that all values are cut from; larger than a second-level cache would make payload slower than any
/// application's, which has just made it.
const POOL_BYTES: usize = 1 << 18;

/// Values: each is a slice of one pool of random bytes, at a place that key and round decide.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    size: usize,
}

impl Values {
    /// Values of this many bytes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let mut pool = vec![0; POOL_BYTES + size];
        Rng::from_seed(0xD01).fill(&mut pool);
        Self { pool, size }
    }

    /// Bytes of each.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// What `key` holds after its `round`-th write.
    #[inline]
    #[must_use]
    pub fn of(&self, key: u64, round: u64) -> &[u8] {
        let mixed = mix(key ^ round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let start = usize::try_from(mixed % (POOL_BYTES as u64 / 8)).unwrap_or(0) * 8;
        &self.pool[start..start + self.size]
    }
}

/// `1 << bits` keys in an order of their own for each round.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    bits: u32,
}

impl Keys {
    /// `1 << bits` keys.
    ///
    /// # Panics
    /// With fewer than 2 or more than 40 bits.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        assert!((2..=40).contains(&bits), "the mixing below needs a few bits and a few to spare");
        Self { bits }
    }

    /// How many.
    #[must_use]
    pub fn count(self) -> u64 {
        1 << self.bits
    }

    /// The key that comes `index`-th in `round`: a bijection, since multiplying by an odd number and folding
    /// high bits onto low ones can both be undone.
    #[inline]
    #[must_use]
    pub fn at(self, index: u64, round: u64) -> u64 {
        let mask = self.count() - 1;
        let fold = self.bits / 2;
        let odd = mix(round) | 1;
        let mut x = (index ^ (odd >> 20)) & mask;
        x ^= x >> fold;
        x = x.wrapping_mul(odd) & mask;
        x ^= x >> fold;
        x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
        x ^ (x >> fold)
    }
}

#[inline]
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once_a_round_and_rounds_differ() {
        let keys = Keys::new(10);
        for round in 0..4 {
            let mut seen: Vec<u64> = (0..keys.count()).map(|index| keys.at(index, round)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..keys.count()), "round {round}");
        }
        assert!((0..keys.count()).any(|index| keys.at(index, 0) != keys.at(index, 1)));
    }

    #[test]
    fn values_can_be_told_again_and_differ_by_round() {
        let values = Values::new(64);
        assert_eq!(values.of(5, 2), Values::new(64).of(5, 2));
        assert_ne!(values.of(5, 2), values.of(5, 3));
    }
}
