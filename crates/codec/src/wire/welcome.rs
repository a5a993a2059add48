//! What is answered to a hello, in 256 bytes. Their layout is the same in all versions.
//!
//! Invariants: as those of a hello; a refusal says which versions are spoken, too.

use super::{BadFrame, VERSION, VERSION_MIN, Version};
use crate::lock::LockFamily;
use crate::pool::{OpenFor, PoolVerb};
use core::fmt;
use dolmen_types::limits::LABEL_BYTES_MAX;
use dolmen_types::{Uuid, crc32c};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the encoded record.
pub const WELCOME_BYTES: usize = 256;
const MAGIC: u32 = 0x4557_4c44;
const SUM_END: usize = 8;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    magic: U32,
    sum: U32,
    version: U16,
    version_min: U16,
    version_max: U16,
    refusal: U16,
    features: U64,
    ring_bytes: U64,
    engine: [u8; 16],
    instance: U128,
    rank: U32,
    body_bytes_max: U32,
    payload_bytes_max: U64,
    requests_max: U32,
    rest: [u8; 43],
    name_len: u8,
    name: [u8; 128],
}

const _: () = assert!(size_of::<Fields>() == WELCOME_BYTES);
const _: () = assert!(core::mem::offset_of!(Fields, version) == SUM_END);

/// A feature of an engine: pools are made at another one, the first of the system's list.
pub const FEATURE_NOT_FIRST: u64 = 1;

/// A feature of an engine: containers can be opened so that nobody else has them
/// ([`OpenFor::Alone`](crate::pool::OpenFor::Alone)). Who does not say it closes the connection on which that is asked.
/// 4 said so of engines that knew no word with it.
pub const FEATURE_ALONE: u64 = 16;

/// A feature of an engine: pools can be connected to in order to change them
/// ([`PoolAccess::Change`](super::PoolAccess::Change)). Who does not say it closes the connection on which that is asked.
pub const FEATURE_CHANGE: u64 = 8;

/// A feature of both sides: reads may take leases, and what has changed is pushed to who has them. Who does not say it is never
/// pushed to, and closes the connection on which one is asked for.
pub const FEATURE_LEASES: u64 = 32;

/// A feature of an engine, and of a client: containers may have limits, which are asked for and set by
/// [`PoolVerb::ContQuota`](crate::pool::PoolVerb::ContQuota) and the like, and who does not fit is told
/// [`Error::QuotaLimit`](dolmen_types::Error::QuotaLimit). An engine that does not say it closes the connection on which they are
/// asked for; a client that does not is told that the pool is full.
pub const FEATURE_QUOTA: u64 = 128;
/// A feature of an engine: writes may say whom they are charged to ([`Update::charged`](crate::verb::Update::charged)), and engines
/// have shares of limits ([`PoolVerb::Share`]). Who does not say it closes the connection on which that is said.
pub const FEATURE_CHARGED: u64 = 256;
/// A feature of an engine: what it has of an object can be given to somebody, by an update without values
/// ([`Update::iods`](crate::verb::Update::iods)). Who does not say it refuses that as invalid.
pub const FEATURE_GIFTS: u64 = 512;
/// A feature of an engine: transactions tell where they have only read ([`TxCommit::read`](crate::pool::TxCommit::read)), and that
/// they have ended ([`PoolVerb::TxEnd`]). Who does not say it closes the connection on which that is told.
pub const FEATURE_ENDS: u64 = 1024;
/// A feature of an engine: files of containers can be used by way of it ([`PoolVerb::Files`](crate::pool::PoolVerb::Files)). Who
/// does not say it closes the connection on which that is asked.
pub const FEATURE_FILES: u64 = 64;

/// Who answers, and what was agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version of all frames from here on.
    pub version: Version,
    /// The engine's number in its system.
    pub rank: u32,
    /// The engine.
    pub engine: Uuid,
    /// This run of it: another one knows nothing of connections and slots.
    pub instance: u128,
    /// What both can do.
    pub features: u64,
    /// Bytes of each of two rings in the memory that comes with this record; 0 to stay on the socket.
    pub ring_bytes: u64,
    /// The longest body that it takes.
    pub body_bytes_max: u32,
    /// The longest payload that it takes.
    pub payload_bytes_max: u64,
    /// Requests that may be under way on this connection.
    pub requests_max: u32,
    /// The system's name, at most 127 bytes.
    pub system: String,
}

/// Why there is no connection. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Refusal {
    /// It speaks none of the client's versions.
    Version {
        /// The oldest that it speaks.
        min: u16,
        /// The newest that it speaks.
        max: u16,
    } = 1,
    /// The caller may not connect.
    NoPermission = 2,
    /// There are as many connections as there may be.
    Busy = 3,
    /// It is about to end.
    Stopping = 4,
    /// It takes connections with certificates alone; said in the clear to who has begun without.
    NeedsCertificate = 5,
    /// It has no certificates itself; said in the clear to who has begun with.
    HasNoCertificate = 6,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { min, max } if min == max => {
                write!(f, "it speaks version {min} of the protocol; use programs of the same release")
            }
            Self::Version { min, max } => {
                write!(
                    f,
                    "it speaks versions {min} to {max} of the protocol; use programs of the same release"
                )
            }
            Self::NoPermission => f.write_str("the caller may not connect"),
            Self::Busy => f.write_str("there are as many connections as there may be; try again later"),
            Self::Stopping => f.write_str("the daemon is about to end; try again later"),
            Self::NeedsCertificate => f.write_str("it takes connections with certificates alone"),
            Self::HasNoCertificate => f.write_str("it takes connections without certificates alone"),
        }
    }
}

impl Refusal {
    /// That it speaks no version of the client's.
    pub const VERSION: Self = Self::Version { min: VERSION_MIN, max: VERSION };

    /// Encodes the record.
    #[must_use]
    pub fn encode(self) -> [u8; WELCOME_BYTES] {
        let mut fields = Fields::new_zeroed();
        fields.refusal = match self {
            Self::Version { .. } => 1,
            Self::NoPermission => 2,
            Self::Busy => 3,
            Self::Stopping => 4,
            Self::NeedsCertificate => 5,
            Self::HasNoCertificate => 6,
        }
        .into();
        let (min, max) = match self {
            Self::Version { min, max } => (min, max),
            _ => (VERSION_MIN, VERSION),
        };
        fields.version_min = min.into();
        fields.version_max = max.into();
        fields.sealed()
    }
}

impl Welcome {
    /// Whether who says this knows what a container is to be opened for.
    #[must_use]
    pub fn knows(&self, wanted: OpenFor) -> bool {
        !wanted.is_of_alone() || self.features & FEATURE_ALONE != 0
    }

    /// Whether who says this knows limits of containers.
    #[must_use]
    pub fn knows_quota(&self) -> bool {
        self.features & FEATURE_QUOTA != 0
    }

    /// Whether who says this knows what is asked of a pool's service.
    #[must_use]
    pub fn knows_verb(&self, verb: &PoolVerb<'_>) -> bool {
        match verb {
            PoolVerb::ContOpen(_, wanted) => self.knows(*wanted),
            PoolVerb::ContQuota(_) | PoolVerb::ContSetQuota(..) => self.knows_quota(),
            PoolVerb::Share(_) => self.knows_charged(),
            PoolVerb::TxEnd(_) => self.knows_ends(),
            PoolVerb::Lock(_, ask) => ask.family != LockFamily::Open || self.features & FEATURE_LEASES != 0,
            PoolVerb::Admit { limited, .. } => limited.is_empty() || self.knows_charged(),
            _ => true,
        }
    }

    /// Whether who says this understands whom writes are charged to.
    #[must_use]
    pub fn knows_charged(&self) -> bool {
        self.features & FEATURE_CHARGED != 0
    }

    /// Whether who says this understands that an object is given to somebody.
    #[must_use]
    pub fn knows_gifts(&self) -> bool {
        self.features & FEATURE_GIFTS != 0
    }

    /// Whether who says this is told where transactions have only read, and that they have ended.
    #[must_use]
    pub fn knows_ends(&self) -> bool {
        self.features & FEATURE_ENDS != 0
    }

    /// Encodes the record.
    ///
    /// # Panics
    /// If the system's name is longer than 127 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let name = self.system.as_bytes();
        assert!(name.len() <= LABEL_BYTES_MAX);
        let mut fields = Fields {
            magic: 0.into(),
            sum: 0.into(),
            version: self.version.number().into(),
            version_min: VERSION_MIN.into(),
            version_max: VERSION.into(),
            refusal: 0.into(),
            features: self.features.into(),
            ring_bytes: self.ring_bytes.into(),
            engine: *self.engine.as_bytes(),
            instance: self.instance.into(),
            rank: self.rank.into(),
            body_bytes_max: self.body_bytes_max.into(),
            payload_bytes_max: self.payload_bytes_max.into(),
            requests_max: self.requests_max.into(),
            rest: [0; 43],
            name_len: u8::try_from(name.len()).expect("names have at most 127 bytes"),
            name: [0; 128],
        };
        fields.name[..name.len()].copy_from_slice(name);
        fields.sealed()
    }

    /// Decodes the record: a welcome, or why there is none.
    ///
    /// # Errors
    /// `BadFrame::Magic`, `BadFrame::Checksum`, `BadFrame::Kind` for a refusal that nobody knows, `BadFrame::Version` if
    /// the version is not spoken here, `BadFrame::Reserved` for a name that is none.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<Result<Self, Refusal>, BadFrame> {
        let fields: &Fields = zerocopy::transmute_ref!(bytes);
        if fields.magic.get() != MAGIC {
            return Err(BadFrame::Magic);
        }
        if fields.sum.get() != crc32c(&bytes[SUM_END..]) {
            return Err(BadFrame::Checksum);
        }
        let (min, max) = (fields.version_min.get(), fields.version_max.get());
        match fields.refusal.get() {
            0 => fields.welcome().map(Ok),
            1 => Ok(Err(Refusal::Version { min, max })),
            2 => Ok(Err(Refusal::NoPermission)),
            3 => Ok(Err(Refusal::Busy)),
            4 => Ok(Err(Refusal::Stopping)),
            5 => Ok(Err(Refusal::NeedsCertificate)),
            6 => Ok(Err(Refusal::HasNoCertificate)),
            number => Err(BadFrame::Kind { number }),
        }
    }
}

impl Fields {
    fn sealed(mut self) -> [u8; WELCOME_BYTES] {
        self.magic = MAGIC.into();
        self.sum = crc32c(&self.as_bytes()[SUM_END..]).into();
        zerocopy::transmute!(self)
    }

    fn welcome(&self) -> Result<Welcome, BadFrame> {
        let found = self.version.get();
        let version = Version::from_number(found).filter(|_| (VERSION_MIN..=VERSION).contains(&found));
        let version = version.ok_or(BadFrame::Version { found })?;
        let name = self.name.get(..usize::from(self.name_len)).ok_or(BadFrame::Reserved)?;
        let Ok(system) = core::str::from_utf8(name) else { return Err(BadFrame::Reserved) };
        Ok(Welcome {
            version,
            rank: self.rank.get(),
            engine: Uuid::from_bytes(self.engine),
            instance: self.instance.get(),
            features: self.features.get(),
            ring_bytes: self.ring_bytes.get(),
            body_bytes_max: self.body_bytes_max.get(),
            payload_bytes_max: self.payload_bytes_max.get(),
            requests_max: self.requests_max.get(),
            system: system.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    fn welcome() -> Welcome {
        Welcome {
            version: Version::One,
            rank: 2,
            engine: Uuid::from_u128(3),
            instance: 4,
            features: 5,
            ring_bytes: 6,
            body_bytes_max: 7,
            payload_bytes_max: 8,
            requests_max: 9,
            system: "dolmen".into(),
        }
    }

    #[test]
    fn a_welcome_round_trips_and_any_flip_is_seen() {
        let bytes = welcome().encode();
        assert_eq!(&bytes[..4], b"DLWE");
        assert_eq!(golden(&bytes), 0x3bf3_389a_82a2_bd01);
        assert_eq!(Welcome::decode(&bytes), Ok(Ok(welcome())));
        for bit in 0..WELCOME_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Welcome::decode(&bad).is_err(), "bit {bit}");
        }
        let longest = Welcome { system: "x".repeat(127), ..welcome() };
        assert_eq!(Welcome::decode(&longest.encode()), Ok(Ok(longest)));
    }

    #[test]
    fn a_refusal_says_why() {
        let other = Refusal::Version { min: 3, max: 4 };
        let all = [Refusal::VERSION, other, Refusal::NoPermission, Refusal::Busy, Refusal::Stopping];
        for refusal in all {
            assert_eq!(Welcome::decode(&refusal.encode()), Ok(Err(refusal)));
        }
        assert_eq!(golden(&all.map(Refusal::encode).concat()), 0x32fe_3e0e_db96_c7da);
        for refusal in [Refusal::NeedsCertificate, Refusal::HasNoCertificate] {
            assert_eq!(Welcome::decode(&refusal.encode()), Ok(Err(refusal)));
        }
    }

    #[test]
    fn a_welcome_that_cannot_be_followed_is_refused() {
        let bad = |change: &dyn Fn(&mut Fields)| {
            let mut fields: Fields = zerocopy::transmute!(welcome().encode());
            change(&mut fields);
            Welcome::decode(&fields.sealed()).unwrap_err()
        };
        assert_eq!(bad(&|f| f.version = (VERSION + 1).into()), BadFrame::Version { found: VERSION + 1 });
        assert_eq!(bad(&|f| f.refusal = 7.into()), BadFrame::Kind { number: 7 });
        assert_eq!(bad(&|f| f.name_len = 129), BadFrame::Reserved);
        assert_eq!(bad(&|f| f.name[0] = 0xff), BadFrame::Reserved);
    }
}
