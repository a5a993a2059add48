//! The hashes of placement. Persistent: never change; the golden values below are what data lies under.

/// Odd constants without structure: the fraction of the golden ratio, and the multipliers of the mixer.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes 64 bits so that each of them depends on all (the finaliser of splitmix64).
#[inline]
pub(crate) fn mix(value: u64) -> u64 {
    let x = value.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The hash of `value` among the hashes of `seed`.
#[inline]
pub(crate) fn mix_pair(seed: u64, value: u64) -> u64 {
    mix(seed ^ mix(value))
}

/// The hash of a byte string: its length, then its little-endian words.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = mix(u64::try_from(bytes.len()).expect("a slice is shorter than 2^64 bytes"));
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        hash = mix(hash ^ u64::from_le_bytes(word.try_into().expect("chunks of eight")));
    }
    let rest = words.remainder();
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

/// A number below `bound` from a hash, as even as the hash; 0 if `bound` is 0.
#[inline]
pub(crate) fn below(hash: u64, bound: u16) -> u16 {
    let wide = u128::from(hash) * u128::from(bound);
    u16::try_from(wide >> 64).expect("the high half is below a 16-bit bound")
}

/// The bucket of `key` among `count` buckets such that a new last bucket takes its share and nothing else
/// moves (Lamping and Veach, "A fast, minimal memory, consistent hash algorithm"), in integers.
///
/// REQUIRES: `count > 0`.
#[inline]
pub(crate) fn jump(key: u64, count: u16) -> u16 {
    assert!(count > 0);
    let mut state = key;
    let (mut bucket, mut next) = (0, 0);
    while next < u64::from(count) {
        bucket = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((bucket + 1) << 31) / ((state >> 33) + 1);
    }
    u16::try_from(bucket).expect("below a 16-bit count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_have_their_golden_values() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(hash_bytes(b""), mix(0));
        assert_eq!(hash_bytes(b"dolmen"), 0xde1a_12f8_6039_787f);
        assert_eq!(hash_bytes(b"dolmen/cap.root"), 0xcc07_9a01_99c3_9958);
        assert_eq!([jump(1, 10), jump(2, 10), jump(0xdead_beef, 1024)], [6, 6, 285]);
    }

    #[test]
    fn strings_that_differ_only_in_padding_differ() {
        assert_ne!(hash_bytes(b"a"), hash_bytes(b"a\0"));
        assert_ne!(hash_bytes(b"12345678"), hash_bytes(b"12345678\0"));
    }

    #[test]
    fn one_bucket_takes_everything() {
        assert!((0..100).all(|key| jump(mix(key), 1) == 0));
    }
}
