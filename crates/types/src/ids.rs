//! Who asks, what is asked, and where it goes.

use crate::{Epoch, Invalid, limits};
use core::fmt;
use uuid::Uuid;

/// A container's number in its pool: dense, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ContNo(pub u32);

impl ContNo {
    /// The container service's own container.
    pub const SYSTEM: Self = Self(0);
}

/// A target's index in its pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TargetNo(pub u16);

impl TargetNo {
    /// As an index into a slice of all targets.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The id of a mutation: the client that made it and its sequence number there.
///
/// The same id sent again returns the first result within the retention stated in `limits`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId {
    /// Random, drawn once by a client process.
    pub client: u128,
    /// Counts from 1 within the client; 0 asks for no retention.
    pub sequence: u64,
}

/// The id of a transaction: client and the epoch at which it began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TxId {
    /// The client that began it.
    pub client: u128,
    /// The hybrid logical clock at its begin.
    pub begin: Epoch,
}

/// On whose behalf a request runs; stored with every version record for quotas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project: u32,
}

/// What every request carries, also in process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The request.
    pub id: RequestId,
    /// The client's oldest mutation that may still be sent or sent again: of those before it nothing needs to be
    /// known any more. 0 if the client does not say.
    pub oldest: u64,
    /// Wall clock, nanoseconds since the Unix epoch; 0 for none.
    pub deadline_ns: u64,
    /// The version of the pool map that the sender used.
    pub map_version: u32,
    /// The batch job, for accounting.
    pub job: u64,
    /// The tenant, for quality of service.
    pub tenant: u32,
    /// The caller.
    pub cred: Credentials,
}

/// State of a target in the pool map.
//= daos:src/include/daos_pool.h daos_target_state_t
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TargetState {
    /// Out of the pool.
    Down = 2,
    /// In the pool, serving.
    UpIn = 4,
}

/// One target in the pool map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetInfo {
    /// The engine that owns it.
    pub rank: u32,
    /// Whether it serves.
    pub state: TargetState,
}

/// The targets of a pool, versioned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolMap {
    /// Grows with every change.
    pub version: u32,
    /// The pool.
    pub pool: Uuid,
    /// By target number.
    pub targets: Vec<TargetInfo>,
}

/// A pool's or container's label: 1 to 127 characters of `[A-Za-z0-9._:-]`, not a UUID.
//= daos:src/include/daos_prop.h daos_label_is_valid
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(String);

impl Label {
    /// Checks `text`.
    ///
    /// # Errors
    /// `Invalid::Label` if it is empty, too long, has other characters or reads as a UUID.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        let ok = (1..=limits::LABEL_BYTES_MAX).contains(&text.len())
            && text.bytes().all(known)
            && Uuid::try_parse(text).is_err();
        if ok { Ok(Self(text.to_owned())) } else { Err(Invalid::Label) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A UUID of version 4 of these random bits (RFC 9562, 5.4).
#[must_use]
pub fn uuid_of_random(bits: u128) -> Uuid {
    uuid::Builder::from_random_bytes(Uuid::from_u128(bits).into_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_checked() {
        assert!(Label::new("era5-2026.11").is_ok());
        for bad in ["", "a b", "ä", "5b1f0f2e-6a2e-4a39-8d5e-2f6c1f9f7f11", &"x".repeat(128)] {
            assert_eq!(Label::new(bad), Err(Invalid::Label), "{bad:?}");
        }
    }
}
