//! crc32c, the one checksum of records and payload.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// The crc32c (Castagnoli) of `bytes`.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The crc32c of the bytes that gave `crc` followed by `bytes`.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let len = u64::try_from(bytes.len()).expect("a slice is shorter than 2^64 bytes");
    let joined = crc_fast::checksum_combine(Crc32Iscsi, u64::from(crc), u64::from(crc32c(bytes)), len);
    u32::try_from(joined).expect("a 32-bit algorithm gives 32 bits")
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
