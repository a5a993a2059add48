//! Where bytes are: in a file, or in a container.

use super::{Builder, CHECKSUM_BYTES, Cursor};
use crate::error::{Fault, Feature, Result};

/// A kind of locators with 64 bits of length.
const LARGE: u8 = 0x01;

/// The kind of locators into a container of ours; they are never in a file.
const STORED: u8 = 0x40;

/// Bytes of the shortest locator.
pub(super) const LOCATOR_BYTES_MIN: usize = 4;

/// Where bytes are, and how many as they are stored, without a page's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locator {
    /// In a file, from `offset` of its start.
    File {
        /// Bytes from the start of the file.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// In the object of a cluster.
    Stored {
        /// Number of the cluster's object.
        object: u64,
        /// Column group, the dkey.
        group: u32,
        /// Bytes from the start of the group's array value.
        offset: u64,
        /// How many bytes.
        bytes: u32,
    },
    /// Somewhere that this program does not know.
    Unknown {
        /// The kind.
        kind: u8,
    },
}

impl Locator {
    /// How many bytes are stored there; none where the place is not known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::File { bytes, .. } => bytes,
            Self::Stored { bytes, .. } => u64::from(bytes),
            Self::Unknown { .. } => 0,
        }
    }

    /// What orders places such that those are neighbours which are read together; all before the last number have to be the same for
    /// that in a container.
    pub(crate) fn order(self) -> (u64, u32, u64) {
        match self {
            Self::File { offset, .. } => (0, 0, offset),
            Self::Stored { object, group, offset, .. } => (object, group, offset),
            Self::Unknown { .. } => (0, 0, 0),
        }
    }

    /// What is behind it: the checksum of a page.
    pub(crate) fn behind(self) -> Self {
        let checksum_bytes = CHECKSUM_BYTES as u64;
        match self {
            Self::File { offset, bytes } => {
                Self::File { offset: offset.saturating_add(bytes), bytes: checksum_bytes }
            }
            Self::Stored { object, group, offset, bytes } => {
                let offset = offset.saturating_add(u64::from(bytes));
                Self::Stored { object, group, offset, bytes: 8 }
            }
            Self::Unknown { kind } => Self::Unknown { kind },
        }
    }

    /// The `bytes` from `skip` on, which may reach into what is behind it.
    pub(crate) fn part(self, skip: u64, bytes: u64) -> Self {
        match self {
            Self::File { offset, .. } => Self::File { offset: offset.saturating_add(skip), bytes },
            Self::Stored { object, group, offset, .. } => Self::Stored {
                object,
                group,
                offset: offset.saturating_add(skip),
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            },
            Self::Unknown { kind } => Self::Unknown { kind },
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let start = *cursor;
        let word = cursor.i32()?;
        if let Ok(bytes) = u32::try_from(word) {
            return Ok(Self::File { offset: cursor.u64()?, bytes: u64::from(bytes) });
        }
        let [low, high, _, kind] = word.to_le_bytes();
        let kind = kind & 0x7f;
        let Some(payload_bytes) = usize::from(u16::from_le_bytes([low, high])).checked_sub(4) else {
            return Err(start.corrupt(Fault::Length));
        };
        let base = cursor.offset();
        let payload = cursor.take(payload_bytes)?;
        let mut payload = Cursor::within(start.structure(), payload, base);
        match kind {
            LARGE => {
                let bytes = payload.u64()?;
                Ok(Self::File { offset: payload.u64()?, bytes })
            }
            STORED => {
                let (object, group, bytes) = (payload.u64()?, payload.u32()?, payload.u32()?);
                Ok(Self::Stored { object, group, bytes, offset: payload.u64()? })
            }
            kind => Ok(Self::Unknown { kind }),
        }
    }

    /// # Panics
    /// If the place is not known: it was read from somewhere else, and says nothing here.
    pub(crate) fn write(&self, builder: &mut Builder) {
        match *self {
            Self::File { offset, bytes } => match i32::try_from(bytes) {
                Ok(bytes) => {
                    builder.i32(bytes);
                    builder.u64(offset);
                }
                Err(_) => {
                    special(builder, LARGE, 16);
                    builder.u64(bytes);
                    builder.u64(offset);
                }
            },
            Self::Stored { object, group, offset, bytes } => {
                special(builder, STORED, 24);
                builder.u64(object);
                builder.u32(group);
                builder.u32(bytes);
                builder.u64(offset);
            }
            Self::Unknown { kind } => panic!("a locator of kind {kind} is written nowhere"),
        }
    }
}

/// The first word of a locator that is no offset in a file.
fn special(builder: &mut Builder, kind: u8, payload_bytes: u16) {
    builder.u16(payload_bytes + 4);
    builder.put(&[0, kind | 0x80]);
}

/// Where an envelope is, and how many bytes it has when it is decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Bytes of the envelope.
    pub length_bytes: u64,
    /// Where it is.
    pub locator: Locator,
}

impl Link {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let length_bytes = cursor.u64()?;
        let start = *cursor;
        match Locator::read(cursor)? {
            Locator::Unknown { kind } => Err(start.unsupported(Feature::Locator(kind))),
            locator => Ok(Self { length_bytes, locator }),
        }
    }

    pub(crate) fn write(&self, builder: &mut Builder) {
        builder.u64(self.length_bytes);
        self.locator.write(builder);
    }
}
