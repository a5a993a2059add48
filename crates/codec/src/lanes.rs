//! Lanes: of strings that stand side by side, the byte positions in which they differ.
//!
//! Strings that have the same form, like records of one kind, mostly differ in a few bytes of each field. A mask says
//! which of up to 64 positions those are; the rest is stored once, as a template, and each string keeps its lanes only.

/// Positions that a mask has bits for.
pub(crate) const LANES_MAX: usize = 64;

/// A bit for each byte in which `a` and `b` differ, the first byte lowest.
#[inline]
pub(crate) fn differing(a: &[u8; LANES_MAX], b: &[u8; LANES_MAX]) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let words = a.as_chunks().0.iter().zip(b.as_chunks().0);
    words.zip((0u32..64).step_by(8)).fold(0, |mask, ((a, b), shift)| {
        let bits = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        // The high bit of each byte that is not zero, then those eight bits side by side.
        let high = (((bits & LOW) + LOW) | bits) & !LOW;
        mask | ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << shift
    })
}

/// The first bytes of `bytes`, zeros behind them.
#[inline]
pub(crate) fn front_of(bytes: &[u8]) -> [u8; LANES_MAX] {
    let mut front = [0; LANES_MAX];
    let len = bytes.len().min(LANES_MAX);
    front[..len].copy_from_slice(&bytes[..len]);
    front
}

/// The last bytes of `bytes`, zeros before them.
#[inline]
pub(crate) fn end_of(bytes: &[u8]) -> [u8; LANES_MAX] {
    let mut end = [0; LANES_MAX];
    let len = bytes.len().min(LANES_MAX);
    end[LANES_MAX - len..].copy_from_slice(&bytes[bytes.len() - len..]);
    end
}

/// The bit of each of `count` positions, the last ones of a mask over [`end_of`], counted from the first of them.
#[inline]
pub(crate) fn last(mask: u64, count: usize) -> u64 {
    mask.checked_shr(shift(count)).unwrap_or(0)
}

/// The bits of the first `count` positions.
#[inline]
pub(crate) fn first(mask: u64, count: usize) -> u64 {
    mask & u64::MAX.checked_shr(shift(count)).unwrap_or(0)
}

fn shift(count: usize) -> u32 {
    u32::try_from(LANES_MAX.saturating_sub(count)).expect("at most 64")
}

/// Lanes of a mask.
#[inline]
pub(crate) fn count(mask: u64) -> usize {
    mask.count_ones() as usize
}

/// Copies the lanes of `bytes` to the front of `out`; returns how many there are.
///
/// # Panics
/// If the mask has a bit outside of `bytes`, or `out` is too short.
#[inline]
pub(crate) fn gather(mask: u64, bytes: &[u8], out: &mut [u8]) -> usize {
    let mut at = 0;
    each_range(mask, |start, len| {
        out[at..at + len].copy_from_slice(&bytes[start..start + len]);
        at += len;
    });
    at
}

/// Puts lanes where they belong in `out`.
///
/// # Panics
/// If the mask has a bit outside of `out`, or `lanes` is too short.
#[inline]
pub(crate) fn scatter(mask: u64, lanes: &[u8], out: &mut [u8]) {
    let mut at = 0;
    each_range(mask, |start, len| {
        out[start..start + len].copy_from_slice(&lanes[at..at + len]);
        at += len;
    });
}

/// Sets the lanes of `bytes` to zero.
///
/// # Panics
/// If the mask has a bit outside of `bytes`.
pub(crate) fn blank(mask: u64, bytes: &mut [u8]) {
    each_range(mask, |start, len| bytes[start..start + len].fill(0));
}

/// Shows start and length of each row of ones.
#[inline]
fn each_range(mut mask: u64, mut show: impl FnMut(usize, usize)) {
    let mut base = 0;
    while mask != 0 {
        let zeros = mask.trailing_zeros();
        mask >>= zeros;
        let ones = mask.trailing_ones();
        show(base + zeros as usize, ones as usize);
        mask = mask.checked_shr(ones).unwrap_or(0);
        base += (zeros + ones) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn template_and_lanes_make_the_string_again(
            template in prop::collection::vec(0u8..3, LANES_MAX),
            other in prop::collection::vec(0u8..3, LANES_MAX),
        ) {
            let (template, other) = (front_of(&template), front_of(&other));
            let mask = differing(&template, &other);
            for at in 0..LANES_MAX {
                prop_assert_eq!(mask >> at & 1 == 1, template[at] != other[at]);
            }
            let mut lanes = [0; LANES_MAX];
            let len = gather(mask, &other, &mut lanes);
            prop_assert_eq!(len, count(mask));
            let mut again = template;
            blank(mask, &mut again);
            for at in 0..LANES_MAX {
                prop_assert_eq!(again[at], if mask >> at & 1 == 1 { 0 } else { template[at] });
            }
            scatter(mask, &lanes[..len], &mut again);
            prop_assert_eq!(again, other);
        }
    }

    #[test]
    fn high_bits_and_borders_of_words_are_seen() {
        for at in 0..LANES_MAX {
            for bit in 0..8 {
                let mut other = [0x80; LANES_MAX];
                other[at] ^= 1 << bit;
                assert_eq!(differing(&[0x80; LANES_MAX], &other), 1 << at);
            }
        }
        assert_eq!((last(u64::MAX, 64), last(u64::MAX, 3), last(u64::MAX, 0)), (u64::MAX, 7, 0));
        assert_eq!((first(u64::MAX, 64), first(u64::MAX, 3), first(u64::MAX, 0)), (u64::MAX, 7, 0));
        assert_eq!((last(1 << 61, 3), first(1 << 2, 2)), (1, 0));
    }

    #[test]
    fn ends_are_cut_to_what_a_mask_covers() {
        assert_eq!(front_of(b"ab")[..3], b"ab\0"[..]);
        assert_eq!(end_of(b"ab")[61..], b"\0ab"[..]);
        let long: Vec<u8> = (0..100).collect();
        assert_eq!((front_of(&long)[63], end_of(&long)[0], end_of(&long)[63]), (63, 36, 99));
    }
}
