//! What a processor does with many bytes at once and the language has no safe words for.

/// Sixteen bytes, which a processor may have in one register.
pub type Lanes = [u8; 16];

#[cfg(target_arch = "x86_64")]
type Register = core::arch::x86_64::__m128i;

/// The bytes of both in turn, in two rows: the first of each, the second of each, and so on.
#[inline]
#[must_use]
pub fn zip_lanes(first: Lanes, second: Lanes) -> [Lanes; 2] {
    #[cfg(target_arch = "x86_64")]
    {
        let (first, second) = (zerocopy::transmute!(first), zerocopy::transmute!(second));
        // SAFETY: every processor of this kind has what it needs.
        zerocopy::transmute!(unsafe { zipped(first, second) })
    }
    #[cfg(not(target_arch = "x86_64"))]
    in_turn(first, second)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn zipped(first: Register, second: Register) -> [Register; 2] {
    use core::arch::x86_64::{_mm_unpackhi_epi8, _mm_unpacklo_epi8};
    [_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)]
}

/// As [`zip_lanes`], on any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn in_turn(first: Lanes, second: Lanes) -> [Lanes; 2] {
    let from = |start: usize| {
        core::array::from_fn(|at| if at % 2 == 0 { first[start + at / 2] } else { second[start + at / 2] })
    };
    [from(0), from(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_zipped_as_their_bytes_say() {
        let first: Lanes = core::array::from_fn(|at| u8::try_from(at).unwrap());
        let second = first.map(|byte| byte + 100);
        let found = zip_lanes(first, second);
        assert_eq!(found, in_turn(first, second));
        assert_eq!((&found[0][..4], &found[1][..4]), (&[0, 100, 1, 101][..], &[8, 108, 9, 109][..]));
    }
}
