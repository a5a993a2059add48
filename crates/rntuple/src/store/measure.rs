//! Zones of pages that come without: the one reason to decompress what is stored as it is.

use crate::error::{Error, Result, Structure};
use crate::format::column::{Column, InMemory};
use crate::format::{PAGE_BYTES_MAX, block, encoding};
use crate::zone::Zone;

/// Measures the pages of a column of one cluster, one after the other.
#[derive(Debug)]
pub(super) struct Measure {
    number: u32,
    column: Column,
    /// Where the last collection of the page before ended.
    before: i64,
    elements: Vec<u8>,
}

impl Measure {
    pub(super) fn new(number: u32, column: Column) -> Self {
        Self { number, column, before: 0, elements: Vec::new() }
    }

    /// The zone of the next page; none of a column of an unknown kind.
    pub(super) fn next(&mut self, element_count: u32, stored: &[u8]) -> Result<Option<Zone>> {
        let structure = Structure::Page { column: self.number };
        let Some(kind) = self.column.kind.in_memory() else { return Ok(None) };
        let page_bytes = self.column.page_bytes(u64::from(element_count)).unwrap_or(u64::MAX);
        if page_bytes > PAGE_BYTES_MAX {
            return Err(Error::TooBig { structure, offset: 0, bytes: page_bytes, bytes_max: PAGE_BYTES_MAX });
        }
        let page = block::decompress(structure, stored, page_bytes)?;
        self.elements.resize(element_count as usize * kind.bytes(), 0);
        encoding::decode(self.number, &self.column, &page, &mut self.elements)?;
        let zone = Zone::of(kind, &self.elements, self.before);
        if let (InMemory::Offset, Some(last)) = (kind, self.elements.last_chunk::<8>()) {
            self.before = i64::from_le_bytes(*last);
        }
        Ok(zone)
    }
}
