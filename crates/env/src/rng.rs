//! Random numbers from a seed.

use crate::error::{Error, Op, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// xoshiro256** by Blackman and Vigna, seeded through splitmix64: small, fast, the same on every machine.
/// Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`; equal seeds give equal sequences for ever.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: core::array::from_fn(|_| splitmix64(&mut mix)) }
    }

    /// A generator that nobody can repeat.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no entropy to give.
    pub fn from_entropy() -> Result<Self> {
        let mut state = [0; 4];
        for word in &mut state {
            *word = entropy_u64()?;
        }
        // The all-zero state is the one that this generator never leaves.
        Ok(if state == [0; 4] { Self::from_seed(0) } else { Self { state } })
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        out
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number below `bound`, as even as 64 bits allow; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(u64::MAX)
    }

    /// An index below `count`; 0 if `count` is 0.
    #[inline]
    pub fn index(&mut self, count: usize) -> usize {
        let bound = u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(usize::MAX)
    }

    /// True once in `n` times on average; never if `n` is 0.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for piece in out.chunks_mut(8) {
            piece.copy_from_slice(&self.next_u64().to_le_bytes()[..piece.len()]);
        }
    }

    /// Puts `items` into an order of equal chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// A generator of its own for a part of the work, so that parts do not disturb one another.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.next_u64())
    }
}

/// Where numbers come from that others must not guess: ids of clients, words that open something.
///
/// None follows from the others, whatever of them is told.
#[derive(Clone, Debug)]
pub enum Secrets {
    /// Each drawn from the system by itself.
    System,
    /// For what must be repeated in a simulation, and is no secret there.
    Repeatable(Rng),
}

impl Secrets {
    /// 128 bits.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no entropy to give.
    pub fn next_u128(&mut self) -> Result<u128> {
        match self {
            Self::System => Ok(u128::from(entropy_u64()?) << 64 | u128::from(entropy_u64()?)),
            Self::Repeatable(rng) => Ok(rng.next_u128()),
        }
    }
}

/// 64 bits from the system: a seed.
///
/// # Errors
/// [`Error::Io`] if the system has none to give.
pub fn entropy_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    // The kernel never splits a request this small.
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| Error::from_errno(Op::Random, "the system", 0, errno))?;
    Ok(u64::from_le_bytes(bytes))
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_has_its_published_values() {
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn xoshiro_has_its_published_values() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn secrets_are_the_systems_unless_they_must_be_repeated() {
        let mut drawn: Vec<u128> = (0..100).map(|_| Secrets::System.clone().next_u128().unwrap()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100, "no two follow from the same state");
        let mut secrets = Secrets::Repeatable(Rng::from_seed(7));
        assert_eq!(secrets.next_u128().unwrap(), Rng::from_seed(7).next_u128());
    }

    #[test]
    fn bounds_hold_and_seeds_repeat() {
        let (mut a, mut b) = (Rng::from_seed(7), Rng::from_seed(7));
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[a.index(5)] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seen:?}");
        for _ in 0..5_000 {
            b.next_u64();
        }
        assert_eq!(a, b);
        assert_ne!(Rng::from_entropy().unwrap(), Rng::from_entropy().unwrap());
        assert_eq!(a.below(0), 0);
    }
}
