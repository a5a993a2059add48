//! A version as a log record has it: each number in the bytes that it needs.
//!
//! A byte with kind, place, whether there is a minor, which most have not, and whether the head of the record stands just
//! before; the minor; lengths of dkey and akey; the credentials' number; of an array the extent and the record size, of a
//! single value its bytes; the place in bulk; checksums of the value, dkey, akey; a checksum of all this and of the
//! head. Numbers but the minor and the place are of one to ten bytes ([`Reader::varint`]). A small value follows.
//!
//! Invariants: as for every version; the bytes of an array's value follow from its extent and record size. What is decoded
//! has the right checksum, since records are read from the log long before anybody verifies their frame again.

use crate::bytes::{Reader, put_varint, varint_bytes};
use crate::log_body::WriteHead;
use crate::version::{PLACE_BULK, PLACE_INLINE, PLACE_NONE, ValuePlace, Version, VersionHead, VersionKind};
use dolmen_types::{Recx, crc32c};

const KIND_BITS: u8 = 3;
const PLACE_BITS: u8 = 2;
const HAS_MINOR: u8 = 1 << (KIND_BITS + PLACE_BITS);
const HAS_HEAD: u8 = HAS_MINOR << 1;
const TAG_MAX: u8 = HAS_HEAD << 1;
const SUM_BYTES: usize = 4;
const MINOR_BYTES: usize = 2;
const PLACE_BYTES: usize = 8;
/// Of what stands before the checksums of the value.
const NUMBERS_BYTES_MAX: usize = 1 + MINOR_BYTES + 3 + 3 + 5 + 10 + 10 + 5 + PLACE_BYTES;

impl<'a> Version<'a> {
    /// The bytes of a punched object: tag, lengths of the keys, credentials and the checksum.
    pub const LOGGED_BYTES_MIN: usize = 4 + SUM_BYTES;

    /// The most bytes that an encoding has besides the checksums of the value and keys.
    pub const LOGGED_HEAD_BYTES_MAX: usize = NUMBERS_BYTES_MAX + SUM_BYTES;

    /// The least bytes that a version of this kind with a small value has besides checksums of the value and keys.
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
        let sums = self.sums.len() + SUM_BYTES;
        let mut bytes = 1 + minor + keys[0] + keys[1] + varint_bytes(u64::from(self.cred)) + sums;
        if self.kind.is_array() {
            bytes += varint_bytes(self.recx.index) + varint_bytes(self.recx.count);
            bytes += varint_bytes(u64::from(self.record_bytes));
        } else if self.is_data() {
            bytes += varint_bytes(u64::from(self.value_bytes));
        }
        bytes
    }

    /// Appends the encoding in a log record, without an inline value. The last `head_bytes` are the head of the record, if
    /// this is its first version, or none.
    ///
    /// # Panics
    /// If the value is in the log elsewhere, or there are fewer bytes.
    pub fn encode_logged(&self, out: &mut Vec<u8>, head_bytes: usize) {
        let covered = out.len() - head_bytes;
        let place = match self.place {
            ValuePlace::None => PLACE_NONE,
            ValuePlace::Inline => PLACE_INLINE,
            ValuePlace::Bulk { .. } => PLACE_BULK,
            ValuePlace::Log { .. } => unreachable!("a log record has its small value itself"),
        };
        let mut head = [0; NUMBERS_BYTES_MAX];
        head[0] = self.kind as u8 | place << KIND_BITS | if head_bytes > 0 { HAS_HEAD } else { 0 };
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
        let sum = crc32c(&out[covered..]);
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// Reads one from a log record, of which the reader has passed the head; `None` if the bytes are not what was written.
    #[inline]
    pub fn decode_logged(r: &mut Reader<'a>) -> Option<Self> {
        Self::decode_with_head(r).map(|(version, _)| version)
    }

    /// As [`Version::decode_logged`]; also returns the head of the record, if this is its first version, or no bytes.
    #[inline]
    pub fn decode_with_head(r: &mut Reader<'a>) -> Option<(Self, &'a [u8])> {
        let began = r.position();
        let (version, has_head) = Self::decode_unverified(r)?;
        let head_bytes = if has_head { WriteHead::before(r.read_since(0).get(..began)?)?.len() } else { 0 };
        let covered = r.read_since(began - head_bytes);
        let is_right = r.u32()? == crc32c(covered);
        is_right.then_some((version, &covered[..head_bytes]))
    }

    /// Puts the checksum right of whatever looks like a version at `at` of a record, without a head before it, and says
    /// where its value begins and how long it is. For tests that forge records: a wrong checksum would end what they try.
    #[must_use]
    pub fn reseal_logged(record: &mut [u8], at: usize) -> Option<(usize, usize)> {
        *record.get_mut(at)? &= !HAS_HEAD;
        let mut r = Reader::new(record.get(at..)?);
        let value_bytes = Version::decode_unverified(&mut r)?.0.inline_bytes();
        let end = at + r.position();
        let sum = crc32c(&record[at..end]);
        record.get_mut(end..end + SUM_BYTES)?.copy_from_slice(&sum.to_le_bytes());
        Some((end + SUM_BYTES, value_bytes))
    }

    #[inline]
    fn decode_unverified(r: &mut Reader<'a>) -> Option<(Self, bool)> {
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
        let head = VersionHead { kind, minor, cred, recx, record_bytes, value_bytes, place };
        Some((head.with_rest(r, key_lens)?, tag & HAS_HEAD > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::{ContNo, Epoch, Oid};
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
            version.encode_logged(&mut all, 0);
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
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Version::decode_logged(&mut Reader::new(&flipped)), None, "{version:?} {bit}");
            }
        }
        assert_eq!(single().logged_head_bytes(), Version::logged_head_bytes_min(VersionKind::Single) + 4 + 5);
        assert_eq!(array().logged_head_bytes(), Version::logged_head_bytes_min(VersionKind::Array64) + 4 + 9);
        assert_eq!(examples().last().unwrap().logged_head_bytes(), Version::LOGGED_BYTES_MIN);
        assert_eq!(crate::bytes::golden(&all), 0xc542_8bb0_6a40_219f);
    }

    #[test]
    fn a_gift_is_a_removed_value_without_keys_and_no_other_value_is_without_them() {
        let gift =
            Version { dkey: b"", akey: b"", value_bytes: 0, place: ValuePlace::None, sums: &[], ..single() };
        let decoded = |version: &Version<'_>| {
            let mut bytes = Vec::new();
            version.encode_logged(&mut bytes, 0);
            let found = Version::decode_logged(&mut Reader::new(&bytes))
                .map(|found| (found.is_gift(), found.is_removal()));
            (found, crate::bytes::golden(&bytes))
        };
        assert_eq!(decoded(&gift), (Some((true, false)), 0x119b_2e0f_518b_71a5));
        let keyed = Version { akey: b"a", ..gift };
        for other in
            [keyed, Version { dkey: b"", akey: b"", ..single() }, Version { dkey: b"", akey: b"", ..hole() }]
        {
            assert_eq!(decoded(&other).0, None, "{other:?}");
        }
        let removal = Version { dkey: b"d", akey: b"a", ..gift };
        assert_eq!(decoded(&removal).0, Some((false, true)));
    }

    #[test]
    fn a_forged_version_gets_a_right_checksum() {
        let mut record = vec![9; 3];
        array().encode_logged(&mut record, 0);
        let end = record.len();
        record.extend_from_slice(&[0; 64]);
        record[end - 6] ^= 1;
        assert_eq!(Version::decode_logged(&mut Reader::new(&record[3..])), None);
        assert_eq!(Version::reseal_logged(&mut record, 3), Some((end, 64)));
        assert!(Version::decode_logged(&mut Reader::new(&record[3..])).is_some());
        let len = record.len();
        assert_eq!(Version::reseal_logged(&mut record, len), None);
    }

    #[test]
    fn a_first_version_covers_the_head_before_it() {
        let head =
            WriteHead { epoch: Epoch(9), client: 1, sequence: 2, cont: ContNo(3), oid: Oid { hi: 4, lo: 5 } };
        let mut record = Vec::new();
        head.encode(&mut record);
        let head_bytes = record.len();
        single().encode_logged(&mut record, head_bytes);
        let decode = |record: &[u8], passed: usize| {
            let mut reader = Reader::new(record);
            reader.take(passed)?;
            let (version, head) = Version::decode_with_head(&mut reader)?;
            Some((version.kind, head.to_vec()))
        };
        assert_eq!(decode(&record, head_bytes), Some((VersionKind::Single, record[..head_bytes].to_vec())));
        assert_eq!(decode(&record[1..], head_bytes - 1), None, "the head is not whole");
        for bit in 0..8 * head_bytes {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped, head_bytes), None, "{bit}");
        }
    }

    proptest! {
        #[test]
        fn decoding_any_logged_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = Reader::new(&bytes);
            if let Some((version, has_head)) = Version::decode_unverified(&mut reader) {
                let mut again = Vec::new();
                version.encode_logged(&mut again, 0);
                again.truncate(again.len() - SUM_BYTES);
                again[0] |= if has_head { HAS_HEAD } else { 0 };
                prop_assert_eq!(&again[..], &bytes[..reader.position()]);
            }
            prop_assert!(Version::decode_logged(&mut Reader::new(&bytes)).is_none_or(|v| v.sums.len() < 80));
        }
    }
}
