//! crc32c, the one checksum of records and payload.

use crate::limits::CSUM_CHUNK_BYTES;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The crc32c (Castagnoli) of `bytes`.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The crc32c of the bytes that gave `crc` followed by `bytes`.
///
/// # Panics
/// Never: the algorithm gives 32 bits.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    if crc == 0 {
        // As if nothing had been before: without a state that is set up for more to come.
        return crc32c(bytes);
    }
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(crc ^ u32::MAX));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a 32-bit algorithm gives 32 bits")
}

/// The crc32c of some bytes that gave `first`, followed by `second_bytes` others that gave `second`.
#[must_use]
pub fn crc32c_join(first: u32, second: u32, second_bytes: usize) -> u32 {
    if first == 0 {
        return second;
    }
    let factor = if second_bytes == CSUM_CHUNK_BYTES { CHUNK } else { power(second_bytes) };
    times(first, factor) ^ second
}

/// The polynomial of crc32c without its highest term. As in every sum, the lowest power stands in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;
/// `x` to the number of bits of a byte.
const BYTE: u32 = ONE >> 8;
const CHUNK: u32 = power(CSUM_CHUNK_BYTES);

/// The product of two polynomials over bits, modulo that of crc32c.
const fn times(first: u32, mut second: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if first & bit != 0 {
            product ^= second;
        }
        bit >>= 1;
        second = if second & 1 == 0 { second >> 1 } else { second >> 1 ^ POLYNOMIAL };
    }
    product
}

/// `x` to the number of bits in so many bytes.
const fn power(mut bytes: usize) -> u32 {
    let (mut product, mut square) = (ONE, BYTE);
    while bytes > 0 {
        if bytes & 1 == 1 {
            product = times(product, square);
        }
        square = times(square, square);
        bytes >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_has_the_published_check_value_and_appends() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xE306_9283);
        assert_eq!(crc32c_append(crc32c(b""), b"123456789"), 0xE306_9283);
    }

    #[test]
    fn sums_of_parts_join_to_that_of_the_whole() {
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * CSUM_CHUNK_BYTES).collect();
        let lengths = [0, 1, 7, 4096, CSUM_CHUNK_BYTES - 1, CSUM_CHUNK_BYTES, CSUM_CHUNK_BYTES + 1];
        for (first, second) in lengths.into_iter().flat_map(|first| lengths.map(|second| (first, second))) {
            let (before, rest) = bytes.split_at(first);
            let joined = crc32c_join(crc32c(before), crc32c(&rest[..second]), second);
            assert_eq!(joined, crc32c(&bytes[..first + second]), "{first} and {second}");
        }
    }
}
