//! The page that an error of reading is of: a source says which bytes are damaged, not whose they are.
//!
//! Only of what is stored is looked for it: of a file all is told by column and offset.

use crate::error::{Error, Result, Structure};
use crate::format::page_list::Page;
use crate::format::{CHECKSUM_BYTES, checksum};
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::{Source, Want};

/// Bytes of pages that are looked at together.
pub(crate) const TOGETHER_BYTES_MAX: u64 = 16 << 20;

/// A page as it is stored, with its checksum behind it.
pub(crate) struct Raw {
    pub(crate) page: Page,
    pub(crate) stored: Vec<u8>,
}

impl Raw {
    /// Room for a page.
    ///
    /// # Panics
    /// Where memory has addresses of fewer than 32 bits.
    pub(crate) fn room(page: Page) -> Self {
        Self { page, stored: vec![0; usize::try_from(page.bytes_with_sum()).expect("a page is in memory")] }
    }

    /// Whether its bytes are those of its checksum, and of the one that it is known to have had, as far as there are such.
    pub(crate) fn is_right(&self, known: Option<u64>) -> bool {
        let sum_bytes = if self.page.has_checksum { CHECKSUM_BYTES } else { 0 };
        let (stored, behind) = self.stored.split_at(self.stored.len() - sum_bytes);
        let behind = behind.first_chunk().map(|sum| u64::from_le_bytes(*sum));
        let sums = [behind, known];
        let is_known = sums.iter().any(Option::is_some);
        !is_known || sums.iter().flatten().all(|&sum| sum == checksum(stored))
    }
}

/// Fetches pages with their checksums.
pub(crate) fn fetch<'a, S: Source>(source: &S, pages: impl Iterator<Item = &'a mut Raw>) -> Result<()> {
    let wants = pages.map(|Raw { page, stored }| {
        let locator = page.locator.part(0, stored.len() as u64);
        Want { locator, into: stored }
    });
    source.fetch(&mut wants.collect::<Vec<_>>())
}

/// A page that is looked at: its column, its number there, and what is stored.
struct Looked {
    column: u32,
    number: u32,
    raw: Raw,
}

impl<S: Source> Ntuple<S> {
    /// An error of reading columns, by their numbers, of entries; with the field and the page that are damaged, if that is why.
    pub(crate) fn naming(&self, error: Error, entries: Entries, wanted: impl Fn(u32) -> bool) -> Error {
        if !self.source().has_groups() || !is_of_pages(&error) {
            return error;
        }
        match self.bad_page(entries, wanted) {
            Ok(Some((cluster, column, page))) => {
                let schema = &self.header().schema;
                let field = schema.dotted(schema.columns[column as usize].field);
                // As one asks for it.
                let field = field.replace("._0.", ".").into();
                let Entries { first, end } = cluster;
                Error::BadPage { field, first, end, page, source: Box::new(error) }
            }
            // Nothing of it is damaged by now, or that is not to be told: what was met first is.
            Ok(None) | Err(_) => error,
        }
    }

    /// As [`naming`](Self::naming), of fields with all below them.
    pub(crate) fn naming_fields(&self, error: Error, entries: Entries, fields: &[u32]) -> Error {
        let columns = self.columns_of_all(&self.read_with(fields));
        self.naming(error, entries, |column| columns.contains(&column))
    }

    /// The first page that is damaged: entries of its cluster, its column, its number there.
    fn bad_page(
        &self,
        entries: Entries,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<Option<(Entries, u32, u32)>> {
        for cluster in self.clusters(entries)? {
            if let Some((column, page)) = self.bad_page_of(&cluster, &wanted)? {
                let first = cluster.pages.first_entry;
                let entries = Entries { first, end: first + cluster.pages.entry_count };
                return Ok(Some((entries, column, page)));
            }
        }
        Ok(None)
    }

    fn bad_page_of(&self, cluster: &Cluster<'_>, wanted: impl Fn(u32) -> bool) -> Result<Option<(u32, u32)>> {
        let (mut some, mut bytes) = (Vec::new(), 0);
        let count = u32::try_from(cluster.pages.columns.len()).expect("a schema has fewer columns");
        for column in (0..count).filter(|&column| wanted(column)) {
            for (number, &page) in (0_u32..).zip(cluster.pages_of(column)) {
                some.push(Looked { column, number, raw: Raw::room(page) });
                bytes += page.bytes_with_sum();
                if bytes >= TOGETHER_BYTES_MAX {
                    if let Some(bad) = first_bad(self.source(), &mut some)? {
                        return Ok(Some(bad));
                    }
                    some.clear();
                    bytes = 0;
                }
            }
        }
        first_bad(self.source(), &mut some)
    }
}

/// The first of pages that is damaged. If it is the source that says so, first half of them are asked for, then the rest.
fn first_bad<S: Source>(source: &S, some: &mut [Looked]) -> Result<Option<(u32, u32)>> {
    crate::stop::check()?;
    match (fetch(source, some.iter_mut().map(|looked| &mut looked.raw)), &mut *some) {
        (Ok(()), some) => {
            let bad = some.iter().find(|looked| !looked.raw.is_right(None));
            Ok(bad.map(|looked| (looked.column, looked.number)))
        }
        (Err(error), [only]) if is_of_pages(&error) => Ok(Some((only.column, only.number))),
        (Err(error), some) if is_of_pages(&error) => {
            let (before, behind) = some.split_at_mut(some.len() / 2);
            match first_bad(source, before)? {
                None => first_bad(source, behind),
                found => Ok(found),
            }
        }
        (Err(error), _) => Err(error),
    }
}

/// Whether it says that pages are damaged.
fn is_of_pages(error: &Error) -> bool {
    match error {
        Error::Corrupt { structure, .. } => {
            matches!(structure, Structure::Page { .. } | Structure::Group { .. })
        }
        Error::Store { source } => matches!(source, dolmen_client::Error::Corrupt { .. }),
        _ => false,
    }
}
