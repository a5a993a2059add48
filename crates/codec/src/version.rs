//! The record of one version: a value, an extent, a hole, a removal or a punch.
//!
//! These bytes are an entry of a run; all numbers are as wide in each, so that a block stores once what entries
//! share. A log record has a version in fewer bytes (`logged_version`). Container, object and epoch are those of
//! what surrounds it.
//!
//! Invariants: `kind` agrees with the lengths of the keys: a punch without dkey is of an object, one without
//! akey of a dkey; a value has both. A removed single value without keys is a gift: what its object has is charged to whom it names. A checksum covers `chunk_bytes` of payload, the last one less.

use crate::bytes::Reader;
use dolmen_types::{Recx, limits};

/// What a version is. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum VersionKind {
    /// Removes everything older below its key.
    Punch = 0,
    /// A single value, or its removal.
    Single = 1,
    /// One record.
    Array1 = 2,
    /// 2 to 64 records.
    Array64 = 3,
    /// Up to 4096 records.
    Array4Ki = 4,
    /// Up to 65536 records.
    Array64Ki = 5,
    /// Up to 2^20 records.
    Array1Mi = 6,
    /// A hole of more than 2^20 records.
    LongHole = 7,
}

impl VersionKind {
    /// The kinds that array extents may have.
    pub const ARRAYS: [Self; 6] =
        [Self::Array1, Self::Array64, Self::Array4Ki, Self::Array64Ki, Self::Array1Mi, Self::LongHole];

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Punch,
            1 => Self::Single,
            2 => Self::Array1,
            3 => Self::Array64,
            4 => Self::Array4Ki,
            5 => Self::Array64Ki,
            6 => Self::Array1Mi,
            7 => Self::LongHole,
            _ => return None,
        })
    }

    /// The kind of an extent of `count` records.
    #[must_use]
    pub fn of_extent(count: u64) -> Self {
        match count {
            0..=1 => Self::Array1,
            2..=64 => Self::Array64,
            65..=4096 => Self::Array4Ki,
            4097..=65536 => Self::Array64Ki,
            _ if count <= limits::WINDOW_RECORDS => Self::Array1Mi,
            _ => Self::LongHole,
        }
    }

    /// The most records an extent of this kind has; `None` for a punch or single value.
    #[must_use]
    pub fn records_max(self) -> Option<u64> {
        match self {
            Self::Punch | Self::Single => None,
            Self::Array1 => Some(1),
            Self::Array64 => Some(64),
            Self::Array4Ki => Some(4096),
            Self::Array64Ki => Some(65536),
            Self::Array1Mi => Some(limits::WINDOW_RECORDS),
            Self::LongHole => Some(u64::MAX),
        }
    }

    /// Whether it is an extent of an array.
    #[must_use]
    pub fn is_array(self) -> bool {
        !matches!(self, Self::Punch | Self::Single)
    }
}

/// Where a value's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValuePlace {
    /// Nowhere: a punch, a removal or a hole.
    None,
    /// Right behind the record, in the log.
    Inline,
    /// In a log segment at a byte offset.
    Log {
        /// Segment number.
        segment: u32,
        /// Byte offset.
        offset: u32,
    },
    /// In a bulk segment from a unit on.
    Bulk {
        /// Segment number.
        segment: u32,
        /// First unit of `limits::BULK_UNIT_BYTES`.
        unit: u32,
    },
}

/// Bytes of an encoding before what depends on the kind.
const HEAD_BYTES: usize = 16;
/// Extent and record size of an array's.
const ARRAY_BYTES: usize = 20;
pub(crate) const PLACE_NONE: u8 = 0;
pub(crate) const PLACE_INLINE: u8 = 1;
pub(crate) const PLACE_LOG: u8 = 2;
pub(crate) const PLACE_BULK: u8 = 3;

/// A version as decoded; borrows keys and checksums from the encoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// What it is.
    pub kind: VersionKind,
    /// Order inside its transaction.
    pub minor: u16,
    /// The number of the credentials that wrote it.
    pub cred: u32,
    /// Raw dkey; empty for a punched object.
    pub dkey: &'a [u8],
    /// Raw akey; empty for a punched object or dkey.
    pub akey: &'a [u8],
    /// The extent; `{0, 0}` unless it is an array's.
    pub recx: Recx,
    /// Bytes a record; 0 for a hole and whatever is no array.
    pub record_bytes: u32,
    /// Bytes of the value.
    pub value_bytes: u32,
    /// Where they are.
    pub place: ValuePlace,
    /// crc32c of each chunk of the value, four little-endian bytes each.
    pub sums: &'a [u8],
}

/// Bytes of payload that one checksum covers: 32 KiB aligned down to whole records, or one larger record. Of a single value
/// (`record_bytes` 0) of `value_bytes` above 8 MiB as many times 32 KiB, a power of two, that 256 checksums are enough: they
/// lie beside the keys in one block of a run.
#[must_use]
pub fn chunk_bytes(record_bytes: u32, value_bytes: u32) -> usize {
    let record = (record_bytes as usize).max(1);
    if record >= limits::CSUM_CHUNK_BYTES {
        return record;
    }
    let longer =
        if record_bytes > 0 { 1 } else { (value_bytes as usize).div_ceil(limits::PAYLOAD_BYTES_MAX) };
    longer.next_power_of_two() * (limits::CSUM_CHUNK_BYTES / record * record)
}

/// What stands in an encoding before checksums and keys.
pub(crate) struct VersionHead {
    pub(crate) kind: VersionKind,
    pub(crate) minor: u16,
    pub(crate) cred: u32,
    pub(crate) recx: Recx,
    pub(crate) record_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) place: ValuePlace,
}

impl VersionHead {
    /// Reads checksums and keys of these lengths; `None` if all of it cannot be a version.
    #[inline]
    pub(crate) fn with_rest<'a>(
        self,
        r: &mut Reader<'a>,
        (dkey_len, akey_len): (usize, usize),
    ) -> Option<Version<'a>> {
        let Self { kind, minor, cred, recx, record_bytes, value_bytes, place } = self;
        let has_data = place != ValuePlace::None;
        if has_data != (value_bytes > 0)
            || (has_data && kind == VersionKind::Punch)
            || (kind.is_array() && has_data != (record_bytes > 0))
        {
            return None;
        }
        if has_data
            && kind.is_array()
            && recx.count.checked_mul(u64::from(record_bytes))? != u64::from(value_bytes)
        {
            return None;
        }
        let sums = r.take((value_bytes as usize).div_ceil(chunk_bytes(record_bytes, value_bytes)) * 4)?;
        let (dkey, akey) = (r.take(dkey_len)?, r.take(akey_len)?);
        let keys_fit = match kind {
            VersionKind::Punch => dkey_len > 0 || akey_len == 0,
            VersionKind::Single if !has_data && dkey_len == 0 => akey_len == 0,
            _ => dkey_len > 0 && akey_len > 0,
        };
        keys_fit.then_some(Version {
            kind,
            minor,
            cred,
            dkey,
            akey,
            recx,
            record_bytes,
            value_bytes,
            place,
            sums,
        })
    }
}

impl<'a> Version<'a> {
    /// Bytes of the value that stand behind the record in the log.
    #[must_use]
    pub fn inline_bytes(&self) -> usize {
        if self.place == ValuePlace::Inline { self.value_bytes as usize } else { 0 }
    }

    /// Bytes of the encoding up to the place.
    fn head_bytes(kind: VersionKind) -> usize {
        HEAD_BYTES + if kind.is_array() { ARRAY_BYTES } else { 0 }
    }

    /// Whether it carries data: a value or an extent with bytes.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.place != ValuePlace::None
    }

    /// Whether it is a removed single value or a hole of an array.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.kind != VersionKind::Punch && !self.is_data() && !self.is_gift()
    }

    /// Whether it says of an object that what is older of it is charged to whom its credentials name.
    #[must_use]
    pub fn is_gift(&self) -> bool {
        self.kind == VersionKind::Single && self.dkey.is_empty()
    }

    /// Appends the encoding, without an inline value.
    ///
    /// # Panics
    /// If a key is longer than `limits::KEY_BYTES_MAX`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let place = match self.place {
            ValuePlace::None => PLACE_NONE,
            ValuePlace::Inline => PLACE_INLINE,
            ValuePlace::Log { .. } => PLACE_LOG,
            ValuePlace::Bulk { .. } => PLACE_BULK,
        };
        let key_len = |key: &[u8]| u16::try_from(key.len()).expect("keys are limited").to_le_bytes();
        let (dkey_len, akey_len) = (key_len(self.dkey), key_len(self.akey));
        let mut head = [0; HEAD_BYTES];
        head[0] = self.kind as u8;
        head[1] = place;
        head[2..4].copy_from_slice(&self.minor.to_le_bytes());
        head[4..6].copy_from_slice(&dkey_len);
        head[6..8].copy_from_slice(&akey_len);
        head[8..12].copy_from_slice(&self.cred.to_le_bytes());
        head[12..16].copy_from_slice(&self.value_bytes.to_le_bytes());
        out.extend_from_slice(&head);
        if self.kind.is_array() {
            out.extend_from_slice(&self.recx.index.to_le_bytes());
            out.extend_from_slice(&self.recx.count.to_le_bytes());
            out.extend_from_slice(&self.record_bytes.to_le_bytes());
        }
        match self.place {
            ValuePlace::None | ValuePlace::Inline => {}
            ValuePlace::Log { segment, offset: at } | ValuePlace::Bulk { segment, unit: at } => {
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&at.to_le_bytes());
            }
        }
        out.extend_from_slice(self.sums);
        out.extend_from_slice(self.dkey);
        out.extend_from_slice(self.akey);
    }

    /// Reads one record; `None` if the bytes cannot be one. Whoever holds the bytes has verified a checksum
    /// over them; this guards against our own mistakes and against forged ones.
    #[inline]
    pub fn decode(r: &mut Reader<'a>) -> Option<Self> {
        let kind = VersionKind::from_number(r.u8()?)?;
        let place = r.u8()?;
        let minor = r.u16()?;
        let (dkey_len, akey_len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        let cred = r.u32()?;
        let value_bytes = r.u32()?;
        let (mut recx, mut record_bytes) = (Recx::default(), 0);
        if kind.is_array() {
            recx = Recx::new(r.u64()?, r.u64()?);
            record_bytes = r.u32()?;
            recx.end()?;
        }
        let place = Self::read_place(place, r)?;
        VersionHead { kind, minor, cred, recx, record_bytes, value_bytes, place }
            .with_rest(r, (dkey_len, akey_len))
    }

    /// Where the value is, of an encoding of which nothing else is looked at; `None` if the bytes cannot be one.
    #[must_use]
    #[inline]
    pub fn decode_place(bytes: &[u8]) -> Option<ValuePlace> {
        let kind = VersionKind::from_number(*bytes.first()?)?;
        Self::read_place(*bytes.get(1)?, &mut Reader::new(bytes.get(Self::head_bytes(kind)..)?))
    }

    /// The rest of a place of which the encoding has this number. A run has no values beside its entries.
    #[inline]
    fn read_place(number: u8, r: &mut Reader<'_>) -> Option<ValuePlace> {
        Some(match number {
            PLACE_NONE => ValuePlace::None,
            PLACE_LOG => ValuePlace::Log { segment: r.u32()?, offset: r.u32()? },
            PLACE_BULK => ValuePlace::Bulk { segment: r.u32()?, unit: r.u32()? },
            _ => return None,
        })
    }

    /// The checksum of chunk `index`.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    #[inline]
    pub fn sum(&self, index: usize) -> u32 {
        let bytes = &self.sums[index * 4..index * 4 + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes were cut out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn array(count: u64, record_bytes: u32, place: ValuePlace, sums: &[u8]) -> Version<'_> {
        let value_bytes =
            if place == ValuePlace::None { 0 } else { u32::try_from(count).unwrap() * record_bytes };
        Version {
            kind: VersionKind::of_extent(count),
            minor: 3,
            cred: 9,
            dkey: b"dkey",
            akey: b"a",
            recx: Recx::new(40, count),
            record_bytes: if place == ValuePlace::None { 0 } else { record_bytes },
            value_bytes,
            place,
            sums,
        }
    }

    #[test]
    fn versions_round_trip() {
        let single = Version {
            kind: VersionKind::Single,
            minor: 0,
            cred: 1,
            dkey: b"d",
            akey: b"akey",
            recx: Recx::default(),
            record_bytes: 0,
            value_bytes: 33_000,
            place: ValuePlace::Log { segment: 4, offset: 5 },
            sums: &[1; 8],
        };
        let punch = Version {
            kind: VersionKind::Punch,
            dkey: b"",
            akey: b"",
            place: ValuePlace::None,
            value_bytes: 0,
            sums: &[],
            ..single
        };
        let bulk = array(100, 700, ValuePlace::Bulk { segment: 1, unit: 2 }, &[7; 12]);
        let mut all = Vec::new();
        for version in [
            single,
            punch,
            bulk,
            array(5000, 0, ValuePlace::None, &[]),
            array(1, 64, ValuePlace::Inline, &[2; 4]),
        ] {
            let mut bytes = Vec::new();
            version.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            let is_of_a_run = version.place != ValuePlace::Inline;
            assert_eq!(Version::decode(&mut reader), Some(version).filter(|_| is_of_a_run));
            assert!(reader.remaining() == 0 || !is_of_a_run);
            all.extend_from_slice(&bytes);
        }
        assert_eq!(crate::bytes::golden(&all), 0xcdfc_ada8_619a_2689);
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let decoded = Version::decode(&mut Reader::new(&bytes));
            prop_assert!(decoded.is_none_or(|v| v.sums.len() <= bytes.len()));
        }
    }

    #[test]
    fn chunks_hold_whole_records() {
        assert_eq!(chunk_bytes(0, 1), 32768);
        assert_eq!(chunk_bytes(1, 8 << 20), 32768);
        assert_eq!(chunk_bytes(1000, 1 << 20), 32000);
        assert_eq!(chunk_bytes(40000, 80000), 40000);
        // Of longer single values fewer, longer ones.
        for (value_bytes, expected) in [(8 << 20, 32), ((8 << 20) + 1, 64), (16 << 20, 64), (32 << 20, 128)] {
            assert_eq!(chunk_bytes(0, value_bytes), expected << 10, "{value_bytes}");
        }
    }
}
