//! Epochs: 64-bit hybrid logical clock values, and stamps that order writes inside one transaction.

use core::fmt;

/// A hybrid logical clock value: 1/16 ns since 2021-01-01 UTC, the low 18 bits logical.
//= daos:src/gurt/hlc.c layout of the 64-bit value
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// Seconds from the Unix epoch to the start of the hybrid logical clock, 2021-01-01 UTC.
const START_UNIX_S: u64 = 1_609_459_200;
const LOGICAL_BITS: u32 = 18;

impl Epoch {
    /// Before everything.
    pub const ZERO: Self = Self(0);
    /// After everything; "the latest" where an epoch is asked for.
    pub const MAX: Self = Self(u64::MAX);

    /// The epoch of a wall-clock time in nanoseconds since the Unix epoch, logical part zero.
    #[must_use]
    pub fn from_unix_ns(unix_ns: u64) -> Self {
        let ns = unix_ns.saturating_sub(START_UNIX_S * 1_000_000_000);
        Self((ns.saturating_mul(16) >> LOGICAL_BITS) << LOGICAL_BITS)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ns(self) -> u64 {
        (self.0 / 16).saturating_add(START_UNIX_S * 1_000_000_000)
    }

    /// The next larger epoch.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{:x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// The version of one write: its epoch, and its order inside the transaction that wrote it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Stamp {
    /// The commit epoch.
    pub epoch: Epoch,
    /// Order among the writes of one transaction; zero outside one.
    pub minor: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_keeps_wall_time_to_about_16_us() {
        let unix_ns = 1_790_000_000_123_456_789;
        let epoch = Epoch::from_unix_ns(unix_ns);
        assert!(unix_ns - epoch.unix_ns() < 17_000);
        assert_eq!(epoch.0 & 0x3ffff, 0);
        assert!(epoch.next() > epoch);
    }
}
