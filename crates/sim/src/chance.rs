//! Where the choices of a random run come from: a seed, or bytes that somebody else has chosen.

use dolmen_env::Rng;

/// A source of choices. Bytes that have run out choose the first of everything.
#[derive(Debug)]
pub(crate) enum Chance<'a> {
    Seed(Rng),
    Bytes(&'a [u8]),
}

impl Chance<'_> {
    /// Whether nothing is left to choose by; a seed never ends.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }

    /// A number below `bound`; 0 if `bound` is 0. A small one takes one byte.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        match self {
            Self::Seed(rng) => rng.below(bound),
            Self::Bytes(_) => {
                let byte_count = if bound <= 256 { 1 } else { 8 };
                let number = (0..byte_count).fold(0, |number, _| number << 8 | u64::from(self.byte()));
                number.checked_rem(bound).unwrap_or(0)
            }
        }
    }

    /// An index below `count`; 0 if `count` is 0.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a number of this type")
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// Any byte.
    pub(crate) fn byte(&mut self) -> u8 {
        match self {
            Self::Seed(rng) => rng.next_u64().to_le_bytes()[0],
            Self::Bytes(bytes) => {
                let Some((first, rest)) = bytes.split_first() else { return 0 };
                *bytes = rest;
                *first
            }
        }
    }
}
