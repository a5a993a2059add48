//! crc32c, the one checksum of records and payload.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_has_the_published_check_value_and_appends() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xE306_9283);
        assert_eq!(crc32c_append(crc32c(b""), b"123456789"), 0xE306_9283);
    }
}
