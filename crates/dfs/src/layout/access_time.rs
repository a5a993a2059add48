//! The time of the last access: 12 bytes, seconds and nanoseconds, little-endian, in akey `DLM_ATIME` beside a record.
//!
//! Invariants: the nanoseconds are below 1e9.

use super::inode::Time;

/// Length of the record.
pub const BYTES: usize = 12;

/// The record.
#[must_use]
pub fn to_bytes(time: Time) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&time.s.to_le_bytes());
    bytes[8..].copy_from_slice(&time.ns.to_le_bytes());
    bytes
}

/// Reads a record; `None` for another length or an impossible time.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Option<Time> {
    let (s, ns) = <&[u8; BYTES]>::try_from(bytes).ok()?.split_at(8);
    let time =
        Time { s: i64::from_le_bytes(s.try_into().ok()?), ns: u32::from_le_bytes(ns.try_into().ok()?) };
    (time.ns < 1_000_000_000).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_time_has_its_golden_bytes() {
        let time = Time { s: -2, ns: 0x0102_0304 };
        let golden = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 3, 2, 1];
        assert_eq!(to_bytes(time), golden);
        assert_eq!(from_bytes(&golden), Some(time));
        assert_eq!(from_bytes(&[0xff; 12]), None);
        assert_eq!(from_bytes(&golden[1..]), None);
    }
}
