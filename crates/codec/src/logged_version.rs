//! A version as a log record has it: each number in the bytes that it needs.
//!
//! A byte with kind, place and whether there is a minor, which most have not; the minor; lengths of dkey and akey;
//! the credentials' number; of an array the extent and the record size, of a single value its bytes; the place in bulk;
//! checksums, dkey, akey. Numbers but the minor and the place are of one to ten bytes ([`Reader::varint`]). A small
//! value follows.
//!
//! Invariant: as for every version; the bytes of an array's value follow from its extent and record size.

use crate::bytes::{Reader, put_varint, varint_bytes};
use crate::version::{PLACE_BULK, PLACE_INLINE, PLACE_NONE, ValuePlace, Version, VersionHead, VersionKind};
use dolmen_types::Recx;

const KIND_BITS: u8 = 3;
const PLACE_BITS: u8 = 2;
const HAS_MINOR: u8 = 1 << (KIND_BITS + PLACE_BITS);
const TAG_MAX: u8 = HAS_MINOR << 1;
const MINOR_BYTES: usize = 2;
const PLACE_BYTES: usize = 8;

impl<'a> Version<'a> {
    /// The bytes of a punched object: tag, lengths of the keys and credentials.
    pub const LOGGED_BYTES_MIN: usize = 4;

    /// The most bytes that stand before the checksums.
    pub const LOGGED_HEAD_BYTES_MAX: usize = 1 + MINOR_BYTES + 3 + 3 + 5 + 10 + 10 + 5 + PLACE_BYTES;

    /// The least bytes before the checksums of a version of this kind with a small value.
    #[must_use]
    #[inline]
    pub fn logged_head_bytes_min(kind: VersionKind) -> usize {
        // Extent and record size, or length of the value.
        Self::LOGGED_BYTES_MIN + if kind.is_array() { 3 } else { 1 }
    }

    /// Bytes of the encoding in a log record with the value inline, up to the value.
    #[must_use]
    pub fn logged_head_bytes(&self) -> usize {
        let minor = if self.minor > 0 { MINOR_BYTES } else { 0 };
        let keys = [self.dkey, self.akey].map(|key| varint_bytes(key.len() as u64) + key.len());
        let mut bytes = 1 + minor + keys[0] + keys[1] + varint_bytes(u64::from(self.cred)) + self.sums.len();
        if self.kind.is_array() {
            bytes += varint_bytes(self.recx.index) + varint_bytes(self.recx.count);
            bytes += varint_bytes(u64::from(self.record_bytes));
        } else if self.is_data() {
            bytes += varint_bytes(u64::from(self.value_bytes));
        }
        bytes
    }

    /// Appends the encoding in a log record, without an inline value.
    ///
    /// # Panics
    /// If the value is in the log elsewhere.
    pub fn encode_logged(&self, out: &mut Vec<u8>) {
        let place = match self.place {
            ValuePlace::None => PLACE_NONE,
            ValuePlace::Inline => PLACE_INLINE,
            ValuePlace::Bulk { .. } => PLACE_BULK,
            ValuePlace::Log { .. } => unreachable!("a log record has its small value itself"),
        };
        let mut head = [0; Self::LOGGED_HEAD_BYTES_MAX];
        head[0] = self.kind as u8 | place << KIND_BITS;
        let mut at = 1;
        if self.minor > 0 {
            head[0] |= HAS_MINOR;
            head[1..=MINOR_BYTES].copy_from_slice(&self.minor.to_le_bytes());
            at += MINOR_BYTES;
        }
        at = put_varint(&mut head, at, self.dkey.len() as u64);
        at = put_varint(&mut head, at, self.akey.len() as u64);
        at = put_varint(&mut head, at, u64::from(self.cred));
        if self.kind.is_array() {
            at = put_varint(&mut head, at, self.recx.index);
            at = put_varint(&mut head, at, self.recx.count);
            at = put_varint(&mut head, at, u64::from(self.record_bytes));
        } else if self.is_data() {
            at = put_varint(&mut head, at, u64::from(self.value_bytes));
        }
        if let ValuePlace::Bulk { segment, unit } = self.place {
            head[at..at + 4].copy_from_slice(&segment.to_le_bytes());
            head[at + 4..at + PLACE_BYTES].copy_from_slice(&unit.to_le_bytes());
            at += PLACE_BYTES;
        }
        out.extend_from_slice(&head[..at]);
        out.extend_from_slice(self.sums);
        out.extend_from_slice(self.dkey);
        out.extend_from_slice(self.akey);
    }

    /// Reads one from a log record; `None` if the bytes cannot be one. As for [`Version::decode`], a checksum over
    /// them has been verified.
    #[inline]
    pub fn decode_logged(r: &mut Reader<'a>) -> Option<Self> {
        let tag = r.u8()?;
        if tag >= TAG_MAX {
            return None;
        }
        let kind = VersionKind::from_number(tag & ((1 << KIND_BITS) - 1))?;
        let place = tag >> KIND_BITS & ((1 << PLACE_BITS) - 1);
        let minor = if tag & HAS_MINOR > 0 { r.u16().filter(|&minor| minor > 0)? } else { 0 };
        let key_len =
            |r: &mut Reader<'_>| r.varint().and_then(|len| u16::try_from(len).ok()).map(usize::from);
        let key_lens = (key_len(r)?, key_len(r)?);
        let cred = u32::try_from(r.varint()?).ok()?;
        let (mut recx, mut record_bytes, mut value_bytes) = (Recx::default(), 0, 0);
        if kind.is_array() {
            recx = Recx::new(r.varint()?, r.varint()?);
            record_bytes = u32::try_from(r.varint()?).ok()?;
            recx.end()?;
            if place != PLACE_NONE {
                value_bytes = u32::try_from(recx.count.checked_mul(u64::from(record_bytes))?).ok()?;
            }
        } else if place != PLACE_NONE {
            value_bytes = u32::try_from(r.varint()?).ok()?;
        }
        let place = match place {
            PLACE_NONE => ValuePlace::None,
            PLACE_INLINE => ValuePlace::Inline,
            PLACE_BULK => ValuePlace::Bulk { segment: r.u32()?, unit: r.u32()? },
            _ => return None,
        };
        VersionHead { kind, minor, cred, recx, record_bytes, value_bytes, place }.with_rest(r, key_lens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUMS: [u8; 64] = [7; 64];

    fn single() -> Version<'static> {
        Version {
            kind: VersionKind::Single,
            minor: 0,
            cred: 1,
            dkey: b"d",
            akey: b"akey",
            recx: Recx::default(),
            record_bytes: 0,
            value_bytes: 64,
            place: ValuePlace::Inline,
            sums: &SUMS[..4],
        }
    }

    fn array() -> Version<'static> {
        Version {
            kind: VersionKind::Array64,
            dkey: b"12345678",
            akey: b"a",
            recx: Recx::new(0, 64),
            record_bytes: 1,
            ..single()
        }
    }

    fn hole() -> Version<'static> {
        Version { record_bytes: 0, value_bytes: 0, place: ValuePlace::None, sums: &[], ..array() }
    }

    fn examples() -> Vec<Version<'static>> {
        let removal = Version { value_bytes: 0, place: ValuePlace::None, sums: &[], ..single() };
        vec![
            single(),
            Version { minor: 7, cred: 300, ..single() },
            Version { value_bytes: 33_000, sums: &SUMS[..8], ..single() },
            array(),
            Version {
                kind: VersionKind::Array64Ki,
                recx: Recx::new(1 << 40, 50_000),
                record_bytes: 8,
                value_bytes: 400_000,
                place: ValuePlace::Bulk { segment: 1, unit: 2 },
                sums: &SUMS[..52],
                ..array()
            },
            hole(),
            Version { kind: VersionKind::LongHole, recx: Recx::new(1, u64::MAX - 2), ..hole() },
            removal,
            Version { kind: VersionKind::Punch, ..removal },
            Version { kind: VersionKind::Punch, dkey: b"", akey: b"", ..removal },
        ]
    }

    #[test]
    fn logged_versions_round_trip_in_the_bytes_that_they_say() {
        let mut all = Vec::new();
        for version in examples() {
            let before = all.len();
            version.encode_logged(&mut all);
            let bytes = &all[before..];
            let mut reader = Reader::new(bytes);
            assert_eq!((Version::decode_logged(&mut reader), reader.remaining()), (Some(version), 0));
            let is_bulk = matches!(version.place, ValuePlace::Bulk { .. });
            assert_eq!(bytes.len(), version.logged_head_bytes() + if is_bulk { PLACE_BYTES } else { 0 });
            for len in 0..bytes.len() {
                assert_eq!(
                    Version::decode_logged(&mut Reader::new(&bytes[..len])),
                    None,
                    "{version:?} {len}"
                );
            }
        }
        assert_eq!(single().logged_head_bytes(), Version::logged_head_bytes_min(VersionKind::Single) + 4 + 5);
        assert_eq!(array().logged_head_bytes(), Version::logged_head_bytes_min(VersionKind::Array64) + 4 + 9);
        assert_eq!(examples().last().unwrap().logged_head_bytes(), Version::LOGGED_BYTES_MIN);
        assert_eq!(crate::bytes::golden(&all), 0xa32f_c37d_ea43_8d7f);
    }

    proptest! {
        #[test]
        fn decoding_any_logged_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = Reader::new(&bytes);
            if let Some(version) = Version::decode_logged(&mut reader) {
                let mut again = Vec::new();
                version.encode_logged(&mut again);
                prop_assert_eq!(&again[..], &bytes[..reader.position()]);
            }
        }
    }
}
