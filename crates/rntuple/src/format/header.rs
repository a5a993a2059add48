//! The header: name, description, writer, and the schema at the start.

use super::EnvelopeKind;
use super::envelope::{open, seal};
use super::schema::{Known, Schema};
use crate::error::Result;

/// What a header says.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// The ntuple's name.
    pub name: Box<str>,
    /// What it is, for people.
    pub description: Box<str>,
    /// The program that wrote it.
    pub writer: Box<str>,
    /// Fields and columns.
    pub schema: Schema,
    /// The checksum of the envelope, by which footer and page lists say that they belong to it.
    pub checksum: u64,
}

impl Header {
    /// Reads a decompressed envelope.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Error::Corrupt) or [`Unsupported`](crate::Error::Unsupported).
    pub fn read(envelope: &[u8]) -> Result<Self> {
        let (mut cursor, checksum) = open(EnvelopeKind::Header, envelope)?;
        cursor.flags(0)?;
        let (name, description, writer) = (cursor.string()?, cursor.string()?, cursor.string()?);
        let mut schema = Schema::default();
        schema.extend(&mut cursor)?;
        Ok(Self { name, description, writer, schema, checksum })
    }

    /// The envelope, and its checksum.
    ///
    /// # Panics
    /// If a text has 4 GiB, or a field an unknown role.
    #[must_use]
    pub fn write(&self) -> (Vec<u8>, u64) {
        self.write_known(&self.schema.known())
    }

    /// As [`write`](Self::write), of the first `known` of each of the schema; a footer has the rest.
    ///
    /// # Panics
    /// As [`write`](Self::write), and if the schema has fewer.
    #[must_use]
    pub fn write_known(&self, known: &Known) -> (Vec<u8>, u64) {
        seal(EnvelopeKind::Header, |builder| {
            builder.u64(0);
            for text in [&self.name, &self.description, &self.writer] {
                builder.string(text);
            }
            self.schema.write_part(&Known::default(), known, builder);
        })
    }
}
