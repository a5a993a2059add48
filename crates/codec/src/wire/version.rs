//! The versions of frames. Of one connection all frames have the same.

use super::BadFrame;
use dolmen_types::crc32c;

/// A version of frames. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub enum Version {
    /// Headers have checksums.
    One = 1,
    /// Bodies have checksums, too, and payloads where nothing else vouches for them.
    Two = 2,
}

impl Version {
    /// All that are spoken, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// The newest one.
    pub const NEWEST: Self = Self::Two;

    /// Its number on the wire.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// What has this number; `None` if it is not spoken here.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    /// Whether bodies have checksums.
    #[must_use]
    #[inline]
    pub fn has_sums(self) -> bool {
        self >= Self::Two
    }

    /// The checksum of a body, as its header has it; 0 where there is none.
    #[inline]
    pub(super) fn body_sum(self, body: &[u8]) -> u32 {
        if self.has_sums() { crc32c(body) } else { 0 }
    }

    /// That a body is what its header's checksum says.
    #[inline]
    pub(super) fn check_body(self, body: &[u8], sum: u32) -> Result<(), BadFrame> {
        if self.body_sum(body) == sum { Ok(()) } else { Err(BadFrame::BodySum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_their_numbers_and_the_newest_is_the_last() {
        for number in 0..=u16::MAX {
            let version = Version::from_number(number);
            assert!(version.is_none_or(|version| version.number() == number));
            assert_eq!(version.is_some(), (1..=Version::NEWEST.number()).contains(&number));
        }
    }
}
