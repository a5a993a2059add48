//! Page lists: entries of each cluster, and where the pages of each of its columns are.
//!
//! Invariants: each cluster has as many columns as the list says at its start; the pages of a column are those between two
//! neighbours of `ends`.

use super::envelope::{open, seal};
use super::locator::{LOCATOR_BYTES_MIN, Locator};
use super::{CHECKSUM_BYTES, EnvelopeKind};
use crate::error::{Fault, Feature, Result};
use core::ops::Range;

/// Bytes of the shortest summary of a cluster.
const SUMMARY_BYTES_MIN: usize = 8 + 16;

/// Bytes of the shortest list: that of pages of a column without any, with its element offset.
const COLUMN_BYTES_MIN: usize = 12 + 8;

/// Bytes of the shortest description of a page.
const PAGE_BYTES_MIN: usize = 4 + LOCATOR_BYTES_MIN;

/// Bits of the word with the entries of a cluster that count them; those above are flags.
const ENTRY_COUNT_BITS: u32 = 56;

/// The cluster is in several parts.
const SHARDED: u64 = 1 << ENTRY_COUNT_BITS;

/// The element offset of a column that is suppressed.
const SUPPRESSED: i64 = i64::MIN;

/// One page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// How many elements.
    pub element_count: u32,
    /// Whether a checksum of what is stored is behind it.
    pub has_checksum: bool,
    /// Where it is.
    pub locator: Locator,
}

impl Page {
    /// Bytes that it takes as it is stored, with its checksum if it has one.
    pub(crate) fn bytes_with_sum(&self) -> u64 {
        let sum_bytes = if self.has_checksum { CHECKSUM_BYTES as u64 } else { 0 };
        self.locator.bytes().saturating_add(sum_bytes)
    }
}

/// What one cluster has of one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnPages {
    /// The number of its first element among all of the column; none if the column is suppressed in this cluster.
    pub first_element: Option<u64>,
    /// How its pages were compressed: algorithm times 100 and level.
    pub compression: u32,
    /// Which pages of the list.
    pub pages: Range<usize>,
}

/// The entries of one cluster, and its columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterPages {
    /// Its first entry.
    pub first_entry: u64,
    /// How many entries.
    pub entry_count: u64,
    /// Its columns, by their numbers; later ones are without pages here.
    pub columns: Vec<ColumnPages>,
}

/// What a page list says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PageList {
    /// Clusters.
    pub clusters: Vec<ClusterPages>,
    /// Pages of all of them.
    pub pages: Vec<Page>,
}

impl PageList {
    /// Reads a decompressed envelope of the ntuple whose header has the checksum `header`.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Error::Corrupt) or [`Unsupported`](crate::Error::Unsupported).
    pub fn read(envelope: &[u8], header: u64) -> Result<Self> {
        let (mut cursor, _) = open(EnvelopeKind::PageList, envelope)?;
        let start = cursor;
        if cursor.u64()? != header {
            return Err(start.corrupt(Fault::Checksum));
        }
        let mut list = Self::default();
        let (mut summaries, count) = cursor.list(SUMMARY_BYTES_MIN)?;
        for _ in 0..count {
            let mut record = summaries.record()?;
            let start = record;
            let (first_entry, word) = (record.u64()?, record.u64()?);
            if word & SHARDED != 0 {
                return Err(start.unsupported(Feature::ShardedClusters));
            }
            let entry_count = word & (SHARDED - 1);
            if first_entry.checked_add(entry_count).is_none() {
                return Err(start.corrupt(Fault::Length));
            }
            list.clusters.push(ClusterPages { first_entry, entry_count, columns: Vec::new() });
        }
        let start = cursor;
        let (mut clusters, count) = cursor.list(12)?;
        if count != list.clusters.len() {
            return Err(start.corrupt(Fault::Length));
        }
        for at in 0..count {
            let (mut columns, column_count) = clusters.list(COLUMN_BYTES_MIN)?;
            for _ in 0..column_count {
                let column = list.read_column(&mut columns)?;
                list.clusters[at].columns.push(column);
            }
        }
        Ok(list)
    }

    fn read_column(&mut self, columns: &mut super::Cursor<'_>) -> Result<ColumnPages> {
        // An item of a page description is no frame, and element offset and compression are behind the items in the
        // list's frame: the least size of an item is checked here, where there is one.
        let (mut pages, count) = columns.list(1)?;
        if count > pages.remaining() / PAGE_BYTES_MIN {
            return Err(pages.corrupt(Fault::Length));
        }
        let first = self.pages.len();
        for _ in 0..count {
            let start = pages;
            let word = pages.i32()?;
            if word == i32::MIN {
                return Err(start.corrupt(Fault::Value));
            }
            let page = Page {
                element_count: word.unsigned_abs(),
                has_checksum: word < 0,
                locator: Locator::read(&mut pages)?,
            };
            self.pages.push(page);
        }
        let start = pages;
        let first_element = u64::try_from(pages.i64()?).ok();
        if first_element.is_none() && count > 0 {
            return Err(start.corrupt(Fault::Value));
        }
        let compression = if first_element.is_some() { pages.u32()? } else { 0 };
        Ok(ColumnPages { first_element, compression, pages: first..self.pages.len() })
    }

    /// The envelope, of the ntuple whose header has the checksum `header`.
    ///
    /// # Panics
    /// If a cluster has 2^56 entries, or a page 2^31 elements or a place that is not known.
    #[must_use]
    pub fn write(&self, header: u64) -> Vec<u8> {
        let (bytes, _) = seal(EnvelopeKind::PageList, |builder| {
            builder.u64(header);
            builder.list(self.clusters.iter(), |list, cluster| {
                assert!(cluster.entry_count < SHARDED, "a cluster has fewer entries");
                list.record(|record| {
                    record.u64(cluster.first_entry);
                    record.u64(cluster.entry_count);
                });
            });
            builder.list(self.clusters.iter(), |list, cluster| {
                list.list(cluster.columns.iter(), |list, column| {
                    list.list_with_tail(
                        self.pages[column.pages.clone()].iter(),
                        |list, page| {
                            let count = i32::try_from(page.element_count).expect("a page has fewer elements");
                            list.i32(if page.has_checksum { -count } else { count });
                            page.locator.write(list);
                        },
                        |tail| match column.first_element {
                            Some(first) => {
                                tail.i64(i64::try_from(first).expect("a column has fewer elements"));
                                tail.u32(column.compression);
                            }
                            None => tail.i64(SUPPRESSED),
                        },
                    );
                });
            });
        });
        bytes
    }
}
