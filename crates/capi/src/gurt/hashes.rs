//! Hash functions of keys.

use crate::raw::In;
use core::ffi::{c_int, c_uint};

/// The bytes at an address; none if there is nothing at it.
fn bytes<'a>(address: In<u8>, len: usize) -> &'a [u8] {
    address.list(len).unwrap_or(&[])
}

/// A number of a string of so many bytes.
#[unsafe(no_mangle)]
extern "C" fn d_hash_string_u32(string: In<u8>, len: c_uint) -> u32 {
    string_hash(bytes(string, len as usize))
}

/// Bernstein's hash: times 33, plus the byte.
pub(super) fn string_hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

/// The 64-bit `MurmurHash2` of a key.
#[unsafe(no_mangle)]
extern "C" fn d_hash_murmur64(key: In<u8>, len: c_int, seed: c_uint) -> u64 {
    murmur64(bytes(key, usize::try_from(len).unwrap_or(0)), seed)
}

fn murmur64(bytes: &[u8], seed: u32) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mixed = |word: u64| {
        let word = word.wrapping_mul(MULTIPLIER);
        (word ^ (word >> SHIFT)).wrapping_mul(MULTIPLIER)
    };
    let mut hash = u64::from(seed) ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ mixed(u64::from_le_bytes(*word))).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> SHIFT)
}

/// A 64-bit number with its bits mixed.
#[unsafe(no_mangle)]
extern "C" fn d_hash_mix64(key: u64) -> u64 {
    // The mixer of splitmix64.
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_keys_hash_to_known_numbers() {
        assert_eq!(string_hash(b""), 5381);
        assert_eq!(string_hash(b"a"), 5381 * 33 + 97);
        assert_eq!(murmur64(b"", 0), 0);
        assert_ne!(murmur64(b"12345678", 1), murmur64(b"12345678", 2));
        let each: std::collections::BTreeSet<u64> = (0..20).map(|len| murmur64(&[7; 20][..len], 3)).collect();
        assert_eq!(each.len(), 20);
        assert_ne!(d_hash_mix64(1), d_hash_mix64(2));
    }
}
