//! The first 64 bytes that a client sends on a connection. Their layout is the same in all versions.
//!
//! Invariants: the checksum covers everything behind itself; bytes that no field has are 0 when sent, and are not looked at
//! by who reads them, so that a later version may say more in them.

use super::{BadFrame, VERSION, VERSION_MIN, Version};
use dolmen_types::crc32c;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the encoded record.
pub const HELLO_BYTES: usize = 64;
const MAGIC: u32 = 0x4948_4c44;
const SUM_END: usize = 8;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    magic: U32,
    sum: U32,
    version_min: U16,
    version_max: U16,
    process: U32,
    features: U64,
    ring_bytes: U64,
    client: U128,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<Fields>() == HELLO_BYTES);
const _: () = assert!(core::mem::offset_of!(Fields, version_min) == SUM_END);

/// Who connects, and what it speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The oldest version of frames that it speaks.
    pub version_min: u16,
    /// The newest one.
    pub version_max: u16,
    /// Its process, as it sees itself: for messages and lists. Whom to trust is the socket's to say.
    pub process: u32,
    /// What it can do beyond its version; what the other does not know is not done.
    pub features: u64,
    /// Bytes of each of two rings in shared memory that it wants; 0 to stay on the socket.
    pub ring_bytes: u64,
    /// The client, as in the ids of its requests.
    pub client: u128,
}

impl Hello {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut fields = Fields {
            magic: MAGIC.into(),
            sum: 0.into(),
            version_min: self.version_min.into(),
            version_max: self.version_max.into(),
            process: self.process.into(),
            features: self.features.into(),
            ring_bytes: self.ring_bytes.into(),
            client: self.client.into(),
            rest: [0; 16],
        };
        fields.sum = crc32c(&fields.as_bytes()[SUM_END..]).into();
        zerocopy::transmute!(fields)
    }

    /// Decodes the record.
    ///
    /// # Errors
    /// `BadFrame::Magic`, `BadFrame::Checksum`, or `BadFrame::Version` if it speaks none at all.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, BadFrame> {
        let fields: &Fields = zerocopy::transmute_ref!(bytes);
        if fields.magic.get() != MAGIC {
            return Err(BadFrame::Magic);
        }
        if fields.sum.get() != crc32c(&bytes[SUM_END..]) {
            return Err(BadFrame::Checksum);
        }
        let hello = Self {
            version_min: fields.version_min.get(),
            version_max: fields.version_max.get(),
            process: fields.process.get(),
            features: fields.features.get(),
            ring_bytes: fields.ring_bytes.get(),
            client: fields.client.get(),
        };
        let speaks_any = hello.version_min <= hello.version_max;
        if speaks_any { Ok(hello) } else { Err(BadFrame::Version { found: hello.version_max }) }
    }

    /// The newest version that both speak.
    #[must_use]
    pub fn agreed(&self) -> Option<Version> {
        let newest = self.version_max.min(VERSION);
        (newest >= self.version_min.max(VERSION_MIN)).then(|| Version::from_number(newest))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    fn hello() -> Hello {
        Hello { version_min: 1, version_max: 2, process: 3, features: 4, ring_bytes: 5, client: 6 << 100 }
    }

    #[test]
    fn a_hello_round_trips_and_any_flip_is_seen() {
        let bytes = hello().encode();
        assert_eq!(&bytes[..4], b"DLHI");
        assert_eq!(golden(&bytes), 0xb8ef_27d4_8199_f1c9);
        assert_eq!(Hello::decode(&bytes), Ok(hello()));
        for bit in 0..HELLO_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Hello::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_later_hello_may_say_more() {
        let mut fields: Fields = zerocopy::transmute!(hello().encode());
        fields.rest = [7; 16];
        fields.sum = crc32c(&fields.as_bytes()[SUM_END..]).into();
        assert_eq!(Hello::decode(&zerocopy::transmute!(fields)), Ok(hello()));
    }

    #[test]
    fn the_newest_version_of_both_is_agreed_on() {
        let agreed = |version_min, version_max| Hello { version_min, version_max, ..hello() }.agreed();
        assert_eq!(agreed(VERSION, VERSION), Some(Version::NEWEST));
        assert_eq!(agreed(0, u16::MAX), Some(Version::NEWEST));
        assert_eq!(agreed(0, VERSION_MIN), Some(Version::One), "a program of the version before");
        assert_eq!(agreed(VERSION + 1, u16::MAX), None);
        assert_eq!(agreed(0, VERSION_MIN - 1), None);
        let none = Hello { version_min: 2, version_max: 1, ..hello() };
        assert_eq!(Hello::decode(&none.encode()), Err(BadFrame::Version { found: 1 }));
    }
}
