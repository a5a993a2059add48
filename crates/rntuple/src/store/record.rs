//! Records of the store: all have magic, kind, version, flags and length before them, and XXH3 of all of that behind them.

use crate::error::{Error, Fault, Feature, Result, Structure};
use crate::format::locator::Link;
use crate::format::{Builder, CHECKSUM_BYTES, Cursor, block, checksum};

/// What every record begins with.
const MAGIC: [u8; 4] = *b"DNTP";

/// What the root of a store in a bucket begins with: magic and kind.
pub const ROOT_START: [u8; 6] = {
    let ([a, b, c, d], [low, high]) = (MAGIC, (Kind::Root as u16).to_le_bytes());
    [a, b, c, d, low, high]
};

/// The version of all kinds.
const VERSION: u16 = 1;

/// Bytes before the contents: magic, kind, version, flags, length.
const HEAD_BYTES: usize = 4 + 2 + 2 + 4 + 4;

/// Kinds of records. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum Kind {
    /// An ntuple's number.
    Entry = 1,
    /// An ntuple's settings.
    Config = 2,
    /// What a version consists of.
    Anchor = 3,
    /// The version that a tag keeps.
    Tag = 4,
    /// Who writes clusters of which numbers.
    Writer = 5,
    /// How many elements of each column there are.
    Counts = 6,
    /// Zones and checksums of pages.
    Zones = 7,
    /// Where the nodes of a bucket are.
    Root = 8,
    /// The records of an object of a bucket.
    Node = 9,
    /// When a version was replaced by one that was freed since.
    Replaced = 10,
}

/// The record with what `fill` puts.
pub(super) fn seal(kind: Kind, fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    seal_version(kind, VERSION, fill)
}

fn seal_version(kind: Kind, version: u16, fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    let mut builder = Builder::default();
    builder.put(&MAGIC);
    builder.u16(kind as u16);
    builder.u16(version);
    builder.u32(0);
    builder.u32(0);
    fill(&mut builder);
    let mut bytes = builder.finish();
    let length = u32::try_from(bytes.len() + CHECKSUM_BYTES).expect("a record has fewer bytes");
    bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The contents of a record of that kind.
pub(super) fn open(kind: Kind, bytes: &[u8]) -> Result<Cursor<'_>> {
    open_version(kind, VERSION, bytes).map(|(_, cursor)| cursor)
}

/// The version of a record, up to the last that is known, and its contents.
fn open_version(kind: Kind, last: u16, bytes: &[u8]) -> Result<(u16, Cursor<'_>)> {
    let mut cursor = Cursor::new(Structure::Record, bytes);
    let start = cursor;
    if cursor.array::<4>()? != MAGIC || cursor.u16()? != kind as u16 {
        return Err(start.corrupt(Fault::Magic));
    }
    let (version, flags, length) = (cursor.u16()?, cursor.u32()?, cursor.u32()?);
    let contents_bytes = bytes.len().checked_sub(CHECKSUM_BYTES).filter(|&end| end >= HEAD_BYTES);
    let Some(contents_bytes) = contents_bytes.filter(|_| length as usize == bytes.len()) else {
        return Err(start.corrupt(Fault::Length));
    };
    let (contents, sum) = bytes.split_at(contents_bytes);
    if checksum(contents).to_le_bytes() != sum {
        return Err(start.corrupt(Fault::Checksum));
    }
    if !(VERSION..=last).contains(&version) || flags != 0 {
        let feature = Feature::Flags(u64::from(version) << 32 | u64::from(flags));
        return Err(start.unsupported(feature));
    }
    Ok((version, Cursor::within(Structure::Record, &contents[HEAD_BYTES..], HEAD_BYTES as u64)))
}

/// A catalogue's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The ntuple's number.
    pub(super) number: u64,
    /// When it was made, in nanoseconds since 1970.
    pub(super) created_ns: u64,
}

impl Entry {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = open(Kind::Entry, bytes)?;
        Ok(Self { number: cursor.u64()?, created_ns: cursor.u64()? })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        seal(Kind::Entry, |builder| {
            builder.u64(self.number);
            builder.u64(self.created_ns);
        })
    }
}

/// An ntuple's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Config {
    /// For how long versions that were replaced are kept.
    pub(super) keep_ns: u64,
    /// Bytes of a column group.
    pub(super) group_bytes: u32,
    /// Class of the objects of clusters.
    pub(super) class: u32,
    /// Columns in the order in which they are packed; those that it does not name come behind them.
    pub(super) order: Vec<u32>,
}

impl Config {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = open(Kind::Config, bytes)?;
        let (keep_ns, group_bytes, class) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
        let count = cursor.u32()? as usize;
        if count > cursor.remaining() / 4 {
            return Err(cursor.corrupt(Fault::Length));
        }
        let order = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
        Ok(Self { keep_ns, group_bytes, class, order })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        seal(Kind::Config, |builder| {
            builder.u64(self.keep_ns);
            builder.u32(self.group_bytes);
            builder.u32(self.class);
            builder.u32(u32::try_from(self.order.len()).expect("a schema has fewer columns"));
            self.order.iter().for_each(|&column| builder.u32(column));
        })
    }
}

/// What made a version. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Made {
    /// The ntuple, without entries.
    Created = 1,
    /// All of another ntuple.
    Imported = 2,
    /// Clusters behind those that there were.
    Appended = 3,
    /// Columns for the clusters that there were.
    ColumnsAdded = 4,
    /// Fields of another ntuple, whose pages it shares.
    Cloned = 5,
    /// Entries as they were, in other clusters and pages.
    Reshaped = 6,
    /// Entries and fields of another ntuple.
    Skimmed = 7,
}

impl Made {
    fn of(number: u16) -> Option<Self> {
        [
            Self::Created,
            Self::Imported,
            Self::Appended,
            Self::ColumnsAdded,
            Self::Cloned,
            Self::Reshaped,
            Self::Skimmed,
        ]
        .into_iter()
        .find(|made| *made as u16 == number)
    }
}

/// What a version consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Anchor {
    /// The version.
    pub(super) version: u64,
    /// When it was made, in nanoseconds since 1970.
    pub(super) time_ns: u64,
    /// How many entries it has.
    pub(super) entry_count: u64,
    /// How many clusters.
    pub(super) cluster_count: u64,
    /// What made it.
    pub(super) made: Made,
    /// Class of the objects of clusters.
    pub(super) class: u32,
    /// The header.
    pub(super) header: Link,
    /// The footer of each family.
    pub(super) footers: Vec<Link>,
}

/// Bytes of the shortest link.
const LINK_BYTES_MIN: usize = 8 + 12;

impl Anchor {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = open(Kind::Anchor, bytes)?;
        let (version, time_ns) = (cursor.u64()?, cursor.u64()?);
        let (entry_count, cluster_count) = (cursor.u64()?, cursor.u64()?);
        let start = cursor;
        let made = Made::of(cursor.u16()?).ok_or(start.corrupt(Fault::Value))?;
        let class = cursor.u32()?;
        let header = Link::read(&mut cursor)?;
        let count = cursor.u32()? as usize;
        if count == 0 || count > cursor.remaining() / LINK_BYTES_MIN {
            return Err(cursor.corrupt(Fault::Length));
        }
        let footers = (0..count).map(|_| Link::read(&mut cursor)).collect::<Result<_>>()?;
        Ok(Self { version, time_ns, entry_count, cluster_count, made, class, header, footers })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        seal(Kind::Anchor, |builder| {
            for number in [self.version, self.time_ns, self.entry_count, self.cluster_count] {
                builder.u64(number);
            }
            builder.u16(self.made as u16);
            builder.u32(self.class);
            self.header.write(builder);
            builder.u32(u32::try_from(self.footers.len()).expect("there are fewer families"));
            self.footers.iter().for_each(|footer| footer.write(builder));
        })
    }
}

/// The version that a tag keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// The version.
    pub(super) version: u64,
    /// When the tag was set.
    pub(super) time_ns: u64,
}

impl Tag {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = open(Kind::Tag, bytes)?;
        Ok(Self { version: cursor.u64()?, time_ns: cursor.u64()? })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        seal(Kind::Tag, |builder| {
            builder.u64(self.version);
            builder.u64(self.time_ns);
        })
    }
}

/// Who writes clusters of which numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Writer {
    /// The first number.
    pub(super) first: u64,
    /// How many.
    pub(super) count: u64,
    /// Until when nobody may free what it wrote, in nanoseconds since 1970.
    pub(super) until_ns: u64,
}

impl Writer {
    /// Whether a number is one of its.
    pub(super) fn holds(&self, number: u64) -> bool {
        number.checked_sub(self.first).is_some_and(|at| at < self.count)
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = open(Kind::Writer, bytes)?;
        Ok(Self { first: cursor.u64()?, count: cursor.u64()?, until_ns: cursor.u64()? })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        seal(Kind::Writer, |builder| {
            for number in [self.first, self.count, self.until_ns] {
                builder.u64(number);
            }
        })
    }
}

/// A record with compressed contents.
pub(super) fn seal_packed(kind: Kind, contents: &[u8]) -> Result<Vec<u8>> {
    seal_packed_version(kind, VERSION, contents)
}

/// The same, of another version than the first.
pub(super) fn seal_packed_version(kind: Kind, version: u16, contents: &[u8]) -> Result<Vec<u8>> {
    let packed = block::compress(super::METADATA_COMPRESSION, contents)?;
    Ok(seal_version(kind, version, |builder| {
        builder.u64(contents.len() as u64);
        builder.put(&packed);
    }))
}

/// The contents of such a record.
pub(super) fn open_packed(kind: Kind, structure: Structure, bytes: &[u8]) -> Result<Vec<u8>> {
    open_packed_version(kind, VERSION, structure, bytes).map(|(_, contents)| contents)
}

/// The version of such a record, up to the last that is known, and its contents.
pub(super) fn open_packed_version(
    kind: Kind,
    last: u16,
    structure: Structure,
    bytes: &[u8],
) -> Result<(u16, Vec<u8>)> {
    let (version, mut cursor) = open_version(kind, last, bytes)?;
    let length_bytes = cursor.u64()?;
    let packed = cursor.take(cursor.remaining())?;
    Ok((version, block::decompress(structure, packed, length_bytes)?))
}

/// How many elements of each column there are, with those before the first that it has.
pub(super) fn write_counts(counts: &[u64]) -> Result<Vec<u8>> {
    let mut builder = Builder::default();
    counts.iter().for_each(|&count| builder.u64(count));
    seal_packed(Kind::Counts, &builder.finish())
}

/// When a version was replaced, in nanoseconds since 1970.
pub(super) fn write_replaced(time_ns: u64) -> Vec<u8> {
    seal(Kind::Replaced, |builder| builder.u64(time_ns))
}

/// Such a time.
pub(super) fn read_replaced(bytes: &[u8]) -> Result<u64> {
    open(Kind::Replaced, bytes)?.u64()
}

/// Such counts, of as many columns as there are.
pub(super) fn read_counts(bytes: &[u8], column_count: usize) -> Result<Vec<u64>> {
    let contents = open_packed(Kind::Counts, Structure::Record, bytes)?;
    let (counts, rest) = contents.as_chunks::<8>();
    if counts.len() != column_count || !rest.is_empty() {
        return Err(Error::Corrupt { structure: Structure::Record, offset: 0, fault: Fault::Length });
    }
    Ok(counts.iter().map(|count| u64::from_le_bytes(*count)).collect())
}

#[cfg(test)]
mod tests {
    use super::{
        Anchor, Config, Entry, Made, Tag, Writer, read_counts, read_replaced, write_counts, write_replaced,
    };
    use crate::error::{Error, Fault};
    use crate::format::locator::Link;
    use crate::store::place::{self, Part};
    use crate::store::zones::{self, Known};
    use crate::zone::{Bounds, Zone};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn anchor() -> Anchor {
        let link = |part, length_bytes| Link { length_bytes, locator: place::own(part, 0, 3, 100) };
        Anchor {
            version: 3,
            time_ns: 4,
            entry_count: 5,
            cluster_count: 6,
            made: Made::Appended,
            class: 0x0100_0004,
            header: link(Part::Header, 200),
            footers: vec![link(Part::Footer, 300)],
        }
    }

    fn config() -> Config {
        Config { keep_ns: 7, group_bytes: 1 << 20, class: 0x0100_0004, order: vec![2, 1] }
    }

    fn known() -> Vec<Known> {
        let zone = |bounds, null_count| Some(Zone { bounds, null_count });
        vec![
            Known { zone: zone(Some(Bounds::Signed(-1, 2)), 0), sum: Some(9) },
            Known { zone: zone(Some(Bounds::Float(0.5, 1.0)), 3), sum: None },
            Known { zone: zone(None, 1), sum: None },
            Known::default(),
        ]
    }

    #[test]
    fn records_have_the_bytes_that_they_always_had() {
        let golden = [
            (
                Entry { number: 1, created_ns: 2 }.write(),
                "444e545001000100000000002800000001000000000000000200000000000000fe2ba9a958473392",
            ),
            (
                config().write(),
                concat!(
                    "444e5450020001000000000034000000070000000000000000001000040000010200000002000000",
                    "010000002b5ddf2b3072ee07"
                ),
            ),
            (
                anchor().write(),
                concat!(
                    "444e545003000100000000008a000000030000000000000004000000000000000500000000000000",
                    "0600000000000000030004000001c8000000000000001c0000c0ffffffffffffffff000000006400",
                    "00000300000000000000010000002c010000000000001c0000c0ffffffffffffffff000000016400",
                    "00000300000000000000da8b9b8c41e796f0"
                ),
            ),
            (
                Tag { version: 3, time_ns: 4 }.write(),
                "444e545004000100000000002800000003000000000000000400000000000000cc61ed1edd71be6f",
            ),
            (
                Writer { first: 5, count: 64, until_ns: 6 }.write(),
                concat!(
                    "444e5450050001000000000030000000050000000000000040000000000000000600000000000000",
                    "27578219ce0625f7"
                ),
            ),
            (
                write_counts(&[1, 2]).unwrap(),
                concat!(
                    "444e5450060001000000000030000000100000000000000001000000000000000200000000000000",
                    "65e2334f0a7d1040"
                ),
            ),
            (write_replaced(7), "444e54500a000100000000002000000007000000000000001e971d8d0ecaed95"),
            (
                zones::write(&known()).unwrap(),
                concat!(
                    "444e545007000100000000005e00000040000000000000005a530135000040000028b52ffd204065",
                    "0100040204000000020100000000ff0200090004000300e03f00f03f010001000000000005100062",
                    "1032f0c09917329d7b699417ea25"
                ),
            ),
        ];
        for (bytes, wanted) in golden {
            assert_eq!(hex(&bytes), wanted);
        }
    }

    #[test]
    fn a_record_that_is_written_is_read_and_one_that_is_damaged_is_refused() {
        assert_eq!(Anchor::read(&anchor().write()).unwrap(), anchor());
        assert_eq!(Config::read(&config().write()).unwrap(), config());
        assert_eq!(zones::read(&zones::write(&known()).unwrap()).unwrap(), known());
        assert_eq!(read_counts(&write_counts(&[1, 2]).unwrap(), 2).unwrap(), [1, 2]);
        assert!(read_counts(&write_counts(&[1, 2]).unwrap(), 3).is_err());
        assert_eq!(read_replaced(&write_replaced(7)).unwrap(), 7);
        let bytes = anchor().write();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Anchor::read(&damaged).is_err(), "{at}");
            assert!(Anchor::read(&bytes[..at]).is_err(), "{at}");
        }
        let other = Tag::read(&bytes);
        assert!(matches!(other, Err(Error::Corrupt { fault: Fault::Magic, .. })), "{other:?}");
        // What a later version writes is told apart from damage.
        let mut later = Tag { version: 1, time_ns: 2 }.write();
        later[6] = 2;
        let end = later.len() - 8;
        let sum = crate::format::checksum(&later[..end]).to_le_bytes();
        later[end..].copy_from_slice(&sum);
        assert!(matches!(Tag::read(&later), Err(Error::Unsupported { .. })));
    }
}
