//! The footer: what was added to the schema, and where the page lists are.

use super::EnvelopeKind;
use super::envelope::{open, seal};
use super::locator::{LOCATOR_BYTES_MIN, Link};
use super::schema::{Known, Schema};
use crate::error::{Fault, Result};

/// Bytes of the shortest record of a group of clusters.
const GROUP_BYTES_MIN: usize = 8 + 20 + 8 + LOCATOR_BYTES_MIN;

/// Clusters with one page list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterGroup {
    /// The first entry of all in it.
    pub first_entry: u64,
    /// How many entries from there on they cover.
    pub entry_span: u64,
    /// How many clusters.
    pub cluster_count: u32,
    /// Where the page list is.
    pub page_list: Link,
}

/// What a footer says.
#[derive(Clone, PartialEq, Debug)]
pub struct Footer {
    /// Groups of clusters, in the order of their clusters' numbers.
    pub groups: Vec<ClusterGroup>,
}

impl Footer {
    /// Reads a decompressed envelope and adds to `schema`, which a header of the checksum `header` began, what it says.
    ///
    /// # Errors
    /// [`Corrupt`](Error::Corrupt), also if it belongs to another header, or [`Unsupported`](Error::Unsupported).
    pub fn read(envelope: &[u8], header: u64, schema: &mut Schema) -> Result<Self> {
        let (mut cursor, _) = open(EnvelopeKind::Footer, envelope)?;
        cursor.flags(0)?;
        let start = cursor;
        if cursor.u64()? != header {
            return Err(start.corrupt(Fault::Checksum));
        }
        let mut extension = cursor.record()?;
        if extension.remaining() > 0 {
            schema.extend(&mut extension)?;
        }
        let (mut list, count) = cursor.list(GROUP_BYTES_MIN)?;
        let mut groups = Vec::with_capacity(count);
        for _ in 0..count {
            let mut record = list.record()?;
            let (first_entry, entry_span, cluster_count) = (record.u64()?, record.u64()?, record.u32()?);
            groups.push(ClusterGroup {
                first_entry,
                entry_span,
                cluster_count,
                page_list: Link::read(&mut record)?,
            });
        }
        Ok(Self { groups })
    }

    /// The envelope, for what `schema` has behind the `known` of a header with the checksum `header`.
    ///
    /// # Panics
    /// If a text has 4 GiB, or a field an unknown role.
    #[must_use]
    pub fn write(&self, header: u64, schema: &Schema, known: &Known) -> Vec<u8> {
        let (bytes, _) = seal(EnvelopeKind::Footer, |builder| {
            builder.u64(0);
            builder.u64(header);
            builder.record(|extension| schema.write_behind(known, extension));
            builder.list(self.groups.iter(), |list, group| {
                list.record(|record| {
                    record.u64(group.first_entry);
                    record.u64(group.entry_span);
                    record.u32(group.cluster_count);
                    group.page_list.write(record);
                });
            });
            builder.list(core::iter::empty::<()>(), |_, ()| ());
        });
        bytes
    }
}
