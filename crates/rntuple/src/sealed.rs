//! Clusters whose pages are sealed: compressed and summed, as they are stored wherever that is.
//!
//! Who writes makes them of arrays, an import takes them out of another place as they are; a file and a container of ours
//! put them where they belong.
//!
//! Invariants: pages of a column are in the order of their elements; a cluster has at most as many columns as the schema.

use crate::error::{Error, Fault, Result, Structure};
use crate::format::schema::Schema;
use crate::format::{CHECKSUM_BYTES, checksum};
use crate::zone::Zone;
use std::borrow::Cow;

/// A page as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct SealedPage<'a> {
    /// How many elements it has.
    pub element_count: u32,
    /// Its bytes, compressed if that makes them fewer.
    pub stored: Cow<'a, [u8]>,
    /// XXH3 of `stored`, which is stored behind it.
    pub checksum: Option<u64>,
    /// What its values lie between, where that is known.
    pub zone: Option<Zone>,
}

/// The pages of a column in one cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct SealedColumn<'a> {
    /// How they were compressed: algorithm times 100 and level.
    pub compression: u32,
    /// The pages.
    pub pages: Vec<SealedPage<'a>>,
}

/// A cluster of sealed pages.
#[derive(Clone, PartialEq, Debug)]
pub struct SealedCluster<'a> {
    /// How many entries it has.
    pub entry_count: u64,
    /// Its columns by their numbers; none where another representation has the values, and where a column was added later.
    pub columns: Vec<Option<SealedColumn<'a>>>,
}

impl SealedPage<'_> {
    /// Bytes that it takes where it is stored, with its checksum.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored.len() as u64 + if self.checksum.is_some() { CHECKSUM_BYTES as u64 } else { 0 }
    }

    /// Whether its bytes are those that were summed; without a checksum nobody can tell.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.checksum.is_none_or(|sum| sum == checksum(&self.stored))
    }
}

impl SealedColumn<'_> {
    /// How many elements all pages have.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.element_count)).sum()
    }
}

/// How many elements of each column all clusters before have: what the next one's page list starts from.
///
/// Representations of a field count together, since only one of them has pages in a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElementCounts {
    /// For each column the place of its count.
    places: Vec<usize>,
    counts: Vec<u64>,
}

impl ElementCounts {
    /// Nothing yet, of the columns of `schema`.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let mut counts = Self::default();
        counts.extend(schema);
        counts
    }

    /// Learns of columns that were added to `schema`.
    pub fn extend(&mut self, schema: &Schema) {
        let columns = &schema.columns;
        for number in self.places.len()..columns.len() {
            let column = &columns[number];
            let nth = columns[..number]
                .iter()
                .filter(|other| other.field == column.field && other.representation == column.representation);
            let nth = nth.count();
            let alike = columns[..number]
                .iter()
                .enumerate()
                .filter(|(_, other)| other.field == column.field && other.representation == 0);
            let place = alike.map(|(at, _)| self.places[at]).nth(nth).filter(|_| column.representation > 0);
            self.places.push(place.unwrap_or(self.counts.len()));
            if place.is_none() {
                self.counts.push(column.first_element.unsigned_abs());
            }
        }
    }

    /// The number of the first element that each column has in the next cluster, which has `elements` of each; none of a column that has no
    /// pages in it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] beyond 63 bits.
    ///
    /// # Panics
    /// If there are more columns than the schema has.
    pub fn next(&mut self, elements: &[Option<u64>]) -> Result<Vec<Option<u64>>> {
        let mut firsts = Vec::with_capacity(elements.len());
        for (number, elements) in elements.iter().enumerate() {
            let count = &mut self.counts[self.places[number]];
            firsts.push(elements.is_some().then_some(*count));
            let after = count.checked_add(elements.unwrap_or(0)).filter(|&sum| i64::try_from(sum).is_ok());
            let structure = Structure::PageList;
            *count = after.ok_or(Error::Corrupt { structure, offset: 0, fault: Fault::Length })?;
        }
        Ok(firsts)
    }
}
