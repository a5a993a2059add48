//! The link count of a companion: 8 bytes, little-endian, in akey `DLM_LINKS`.
//!
//! Invariants: at least 1, at most `LINKS_MAX`.

use super::LINKS_MAX;

/// Length of the record.
pub const BYTES: usize = 8;

/// How many names a hard-linked file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCount(u64);

impl LinkCount {
    /// `count` names; `None` outside 1 to `LINKS_MAX`.
    #[must_use]
    pub fn new(count: u64) -> Option<Self> {
        (1..=LINKS_MAX).contains(&count).then_some(Self(count))
    }

    /// The number.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0
    }

    /// The record.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        self.0.to_le_bytes()
    }

    /// Reads a record; `None` if the number is out of range.
    #[must_use]
    pub fn from_bytes(bytes: [u8; BYTES]) -> Option<Self> {
        Self::new(u64::from_le_bytes(bytes))
    }
}

const _: () = assert!(size_of::<LinkCount>() == BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_count_has_its_golden_bytes() {
        let count = LinkCount::new(0x0102).unwrap();
        assert_eq!(count.to_bytes(), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(LinkCount::from_bytes([2, 1, 0, 0, 0, 0, 0, 0]), Some(count));
        assert_eq!(LinkCount::from_bytes([0; 8]), None);
        assert_eq!(LinkCount::new(LINKS_MAX + 1), None);
    }
}
