//! The anchor of an ntuple in a file of ROOT.

use super::big::{self, Bytes};
use crate::error::{Fault, Feature, Result, Structure};
use crate::format::locator::{Link, Locator};
use crate::format::{Cursor, checksum};

/// Bytes before what the checksum is of: a count of bytes, and the version of the class.
const BEFORE_BYTES: usize = 6;

/// Bytes of the fields that are known; later versions add some behind them.
const FIELDS_BYTES: usize = 64;

/// Bytes that the first word counts: the version of the class and the fields.
const COUNTED_BYTES: u32 = 66;

/// The bit that says of the first word that it counts bytes.
const COUNTS_BYTES: u32 = 0x4000_0000;

/// The version of the class that is written.
const CLASS_VERSION: u16 = 2;

/// The epoch of the format that is known.
const EPOCH: u16 = 1;

/// Where an ntuple's header and footer are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Version of the format: epoch, major, minor, patch.
    pub version: [u16; 4],
    /// The header.
    pub header: Link,
    /// The footer.
    pub footer: Link,
    /// Payloads of more bytes are in several keys; none where there is no such limit.
    pub key_bytes_max: Option<u64>,
}

impl Anchor {
    /// Reads an object of class `ROOT::RNTuple`.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Error::Corrupt); [`Unsupported`](crate::Error::Unsupported) of an epoch other than 1.
    pub fn read(object: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(Structure::Anchor, object);
        let start = cursor;
        let (counted_bytes, _class_version) = (big::u32(&mut cursor)?, big::u16(&mut cursor)?);
        let fields_bytes = (counted_bytes & !COUNTS_BYTES).checked_sub(2).map(|bytes| bytes as usize);
        let Some(fields_bytes) = fields_bytes.filter(|&bytes| bytes >= FIELDS_BYTES) else {
            return Err(start.corrupt(Fault::Length));
        };
        let fields = cursor.take(fields_bytes)?;
        let end = cursor;
        if checksum(fields) != big::u64(&mut cursor)? {
            return Err(end.corrupt(Fault::Checksum));
        }
        let mut cursor = Cursor::within(Structure::Anchor, fields, BEFORE_BYTES as u64);
        let start = cursor;
        let mut version = [0; 4];
        for number in &mut version {
            *number = big::u16(&mut cursor)?;
        }
        if version[0] != EPOCH {
            return Err(start.unsupported(Feature::Epoch(version[0])));
        }
        let (header, footer) = (link(&mut cursor)?, link(&mut cursor)?);
        let key_bytes_max = Some(big::u64(&mut cursor)?).filter(|&bytes| bytes > 0);
        Ok(Self { version, header, footer, key_bytes_max })
    }

    /// The object of class `ROOT::RNTuple`.
    ///
    /// # Panics
    /// If header or footer are in no file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Bytes::default();
        bytes.u32(COUNTS_BYTES | COUNTED_BYTES);
        bytes.u16(CLASS_VERSION);
        for number in self.version {
            bytes.u16(number);
        }
        for link in [&self.header, &self.footer] {
            let Locator::File { offset, bytes: stored_bytes } = link.locator else {
                panic!("an anchor of a file says where in the file")
            };
            for number in [offset, stored_bytes, link.length_bytes] {
                bytes.u64(number);
            }
        }
        bytes.u64(self.key_bytes_max.unwrap_or(0));
        let sum = checksum(&bytes.0[BEFORE_BYTES..]);
        bytes.u64(sum);
        bytes.0
    }
}

fn link(cursor: &mut Cursor<'_>) -> Result<Link> {
    let (offset, bytes) = (big::u64(cursor)?, big::u64(cursor)?);
    Ok(Link { length_bytes: big::u64(cursor)?, locator: Locator::File { offset, bytes } })
}
