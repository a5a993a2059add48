//! What all envelopes have around them: kind, length, checksum.

use super::{Builder, CHECKSUM_BYTES, Cursor};
use crate::error::{Error, Fault, Result, Structure};
use twox_hash::XxHash3_64;

/// Kinds of envelopes. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum EnvelopeKind {
    /// The schema as the writer began with it.
    Header = 1,
    /// What was added to the schema, and where the page lists are.
    Footer = 2,
    /// Where the pages of a group of clusters are.
    PageList = 3,
}

impl EnvelopeKind {
    fn structure(self) -> Structure {
        match self {
            Self::Header => Structure::Header,
            Self::Footer => Structure::Footer,
            Self::PageList => Structure::PageList,
        }
    }
}

/// The XXH3 checksum of 64 bits that the format has everywhere.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The payload of the envelope in `bytes`, which has to be of `kind`, and the envelope's checksum.
///
/// //= root:tree/ntuple/doc/BinaryFormatSpecification.md Envelopes; the length counts the checksum, which is over all before it
pub(super) fn open(kind: EnvelopeKind, bytes: &[u8]) -> Result<(Cursor<'_>, u64)> {
    let structure = kind.structure();
    let mut cursor = Cursor::new(structure, bytes);
    let start = cursor;
    let word = cursor.u64()?;
    if word & 0xffff != u64::from(kind as u16) {
        return Err(start.corrupt(Fault::Magic));
    }
    let Some(contents_bytes) = bytes.len().checked_sub(CHECKSUM_BYTES).filter(|&contents| contents >= 8)
    else {
        return Err(cursor.corrupt(Fault::Length));
    };
    if word >> 16 != bytes.len() as u64 {
        return Err(start.corrupt(Fault::Length));
    }
    let (contents, tail) = bytes.split_at(contents_bytes);
    let said = u64::from_le_bytes(*tail.first_chunk().expect("eight bytes were split off"));
    if checksum(contents) != said {
        let offset = contents_bytes as u64;
        return Err(Error::Corrupt { structure, offset, fault: Fault::Checksum });
    }
    Ok((Cursor::within(structure, &contents[8..], 8), said))
}

/// The envelope of `kind` with what `fill` puts, and its checksum.
pub(super) fn seal(kind: EnvelopeKind, fill: impl FnOnce(&mut Builder)) -> (Vec<u8>, u64) {
    let mut builder = Builder::default();
    builder.u64(0);
    fill(&mut builder);
    let mut bytes = builder.finish();
    let word = ((bytes.len() + CHECKSUM_BYTES) as u64) << 16 | u64::from(kind as u16);
    bytes[..8].copy_from_slice(&word.to_le_bytes());
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    (bytes, sum)
}
