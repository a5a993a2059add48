//! Who has a file of the orphan list open: 8 bytes, the number of the holder, little-endian, in akey `DLM_HOLDER` of its entry.
//!
//! Where there is none, nobody can tell whether who made the entry lives.

/// Bytes of a holder's number.
pub const BYTES: usize = 8;

/// The number as it is stored.
#[must_use]
pub fn to_bytes(number: u64) -> [u8; BYTES] {
    number.to_le_bytes()
}

/// The number that is stored; `None` for another length.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_has_its_golden_bytes() {
        let golden = [8, 7, 6, 5, 4, 3, 2, 1];
        assert_eq!(to_bytes(0x0102_0304_0506_0708), golden);
        assert_eq!(from_bytes(&golden), Some(0x0102_0304_0506_0708));
        assert_eq!(from_bytes(&golden[1..]), None);
        assert_eq!(from_bytes(&[0; 9]), None);
    }
}
