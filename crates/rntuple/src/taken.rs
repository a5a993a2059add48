//! Clusters taken out of an ntuple as they are: sealed pages, neither decompressed nor sealed anew.

use crate::error::{Error, Fault, Result, Structure};
use crate::format::page_list::ColumnPages;
use crate::format::{CHECKSUM_BYTES, PAGE_BYTES_MAX, checksum};
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::sealed::{SealedCluster, SealedColumn, SealedPage};
use crate::source::{Source, Want};
use std::borrow::Cow;

impl<S: Source> Ntuple<S> {
    /// All clusters.
    ///
    /// # Errors
    /// As [`clusters`](Self::clusters).
    pub fn all_clusters(&self) -> Result<Vec<Cluster<'_>>> {
        self.clusters(Entries { first: 0, end: self.entry_count() })
    }

    /// The sealed pages of a cluster, of the columns that `wanted` says of their numbers. Each page has the bytes that its checksum is of.
    ///
    /// # Errors
    /// [`Error::Corrupt`] of a page whose bytes are others, or [`Error::BadPage`] of what is stored; what the source says.
    ///
    /// # Panics
    /// Where memory has addresses of fewer than 32 bits.
    pub fn take(
        &self,
        cluster: &Cluster<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<SealedCluster<'static>> {
        let (first, count) = (cluster.pages.first_entry, cluster.pages.entry_count);
        let taken = self.take_sealed(cluster, &wanted);
        taken.map_err(|error| self.naming(error, Entries { first, end: first + count }, wanted))
    }

    fn take_sealed(
        &self,
        cluster: &Cluster<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<SealedCluster<'static>> {
        let columns = &cluster.pages.columns;
        let mut taken = Vec::with_capacity(columns.len());
        for (number, column) in (0_u32..).zip(columns) {
            let is_there = column.first_element.is_some() && wanted(number);
            taken.push(if is_there { Some(self.room(cluster, number, column)?) } else { None });
        }
        let mut wants = Vec::new();
        for (described, column) in columns.iter().zip(&mut taken) {
            let Some(column) = column else { continue };
            let pages = &cluster.list.pages[described.pages.clone()];
            for (page, sealed) in pages.iter().zip(&mut column.pages) {
                let Cow::Owned(into) = &mut sealed.stored else { unreachable!("room was made") };
                wants.push(Want { locator: page.locator.part(0, into.len() as u64), into });
            }
        }
        self.source().fetch(&mut wants)?;
        for (number, column) in (0_u32..).zip(&mut taken) {
            for page in column.iter_mut().flat_map(|column| &mut column.pages) {
                vet(number, page)?;
            }
        }
        Ok(SealedCluster { entry_count: cluster.pages.entry_count, columns: taken })
    }

    /// Room for the pages of a column and their checksums.
    fn room(
        &self,
        cluster: &Cluster<'_>,
        number: u32,
        column: &ColumnPages,
    ) -> Result<SealedColumn<'static>> {
        let mut pages = Vec::new();
        for page in &cluster.list.pages[column.pages.clone()] {
            let bytes = page.locator.bytes();
            if bytes > PAGE_BYTES_MAX {
                let structure = Structure::Page { column: number };
                return Err(Error::TooBig { structure, offset: 0, bytes, bytes_max: PAGE_BYTES_MAX });
            }
            self.source().holds(page.locator, page.bytes_with_sum())?;
            let room = usize::try_from(page.bytes_with_sum()).expect("it was compared with the limit");
            let stored = Cow::Owned(vec![0; room]);
            let checksum = page.has_checksum.then_some(0);
            pages.push(SealedPage { element_count: page.element_count, stored, checksum, zone: None });
        }
        Ok(SealedColumn { compression: column.compression, pages })
    }
}

/// Takes the checksum off the end of what was fetched and compares it.
fn vet(number: u32, page: &mut SealedPage<'_>) -> Result<()> {
    let (Some(said), Cow::Owned(stored)) = (&mut page.checksum, &mut page.stored) else { return Ok(()) };
    let length = stored.len() - CHECKSUM_BYTES;
    *said = u64::from_le_bytes(*stored.last_chunk().expect("room was made for it"));
    stored.truncate(length);
    if checksum(stored) == *said {
        return Ok(());
    }
    let structure = Structure::Page { column: number };
    Err(Error::Corrupt { structure, offset: length as u64, fault: Fault::Checksum })
}
