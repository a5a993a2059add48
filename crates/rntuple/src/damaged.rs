//! The page that an error of reading is of: a source says which bytes are damaged, not whose they are.
//!
//! Only of what is stored is looked for it: of a file all is told by column and offset.

use crate::error::{Error, Result, Structure};
use crate::format::page_list::Page;
use crate::format::{CHECKSUM_BYTES, checksum};
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::{Source, Want};

/// Bytes of pages that are looked at together.
const TOGETHER_BYTES_MAX: u64 = 16 << 20;

/// A page that is looked at: its column, its number there, and its bytes with the checksum behind them.
struct Looked {
    column: u32,
    number: u32,
    page: Page,
    stored: Vec<u8>,
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
        let fields = self.read_with(fields);
        let columns: Vec<u32> =
            fields.into_iter().flat_map(|field| self.columns(field)).flatten().copied().collect();
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
                let sum_bytes = if page.has_checksum { CHECKSUM_BYTES as u64 } else { 0 };
                let stored_bytes = page.locator.bytes() + sum_bytes;
                let stored = vec![0; usize::try_from(stored_bytes).expect("a page is in memory")];
                some.push(Looked { column, number, page, stored });
                bytes += stored_bytes;
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
    let wants = some.iter_mut().map(|looked| {
        let locator = looked.page.locator.part(0, looked.stored.len() as u64);
        Want { locator, into: &mut looked.stored }
    });
    match (source.fetch(&mut wants.collect::<Vec<_>>()), &mut *some) {
        (Ok(()), some) => {
            Ok(some.iter().find(|looked| !looked.is_right()).map(|looked| (looked.column, looked.number)))
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

impl Looked {
    fn is_right(&self) -> bool {
        if !self.page.has_checksum {
            return true;
        }
        let (stored, sum) = self.stored.split_at(self.stored.len() - CHECKSUM_BYTES);
        sum == checksum(stored).to_le_bytes()
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
