//! Page lists that grow with each cluster, and the groups that a footer has of them.

use crate::error::Result;
use crate::format::footer::ClusterGroup;
use crate::format::locator::Link;
use crate::format::page_list::{ClusterPages, ColumnPages, Page, PageList};
use crate::format::schema::Schema;
use crate::sealed::ElementCounts;

/// Clusters of one page list at most: so little is read for one, and so few lists are written for many.
const CLUSTERS_OF_A_LIST: usize = 64;

/// Pages of one page list at most, which is of some megabytes then.
const PAGES_OF_A_LIST: usize = 1 << 18;

/// Where the pages of a column are, and how they were compressed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) compression: u32,
    pub(crate) pages: Vec<Page>,
}

/// Page lists of an ntuple that is written.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    counts: ElementCounts,
    list: PageList,
    groups: Vec<ClusterGroup>,
    entry_count: u64,
}

impl Lists {
    pub(crate) fn new(schema: &Schema) -> Self {
        let counts = ElementCounts::new(schema);
        Self { counts, list: PageList::default(), groups: Vec::new(), entry_count: 0 }
    }

    /// Takes the next cluster.
    pub(crate) fn add(&mut self, entry_count: u64, columns: Vec<Option<Placed>>) -> Result<()> {
        let elements = |placed: &Placed| placed.pages.iter().map(|page| u64::from(page.element_count)).sum();
        let elements: Vec<_> = columns.iter().map(|column| column.as_ref().map(elements)).collect();
        let firsts = self.counts.next(&elements)?;
        let mut described = Vec::with_capacity(columns.len());
        for (column, first_element) in columns.into_iter().zip(firsts) {
            let start = self.list.pages.len();
            let compression = column.as_ref().map_or(0, |placed| placed.compression);
            self.list.pages.extend(column.into_iter().flat_map(|placed| placed.pages));
            let pages = start..self.list.pages.len();
            described.push(ColumnPages { first_element, compression, pages });
        }
        let first_entry = self.entry_count;
        self.list.clusters.push(ClusterPages { first_entry, entry_count, columns: described });
        self.entry_count += entry_count;
        Ok(())
    }

    /// The page list, if it is full, or if it has anything and is the last.
    pub(crate) fn full(&self, is_last: bool) -> Option<&PageList> {
        let is_full =
            self.list.clusters.len() >= CLUSTERS_OF_A_LIST || self.list.pages.len() >= PAGES_OF_A_LIST;
        (is_full || is_last && !self.list.clusters.is_empty()).then_some(&self.list)
    }

    /// Goes on with an empty list; the one before is where `page_list` says.
    pub(crate) fn put(&mut self, page_list: Link) {
        let clusters = core::mem::take(&mut self.list).clusters;
        let first_entry = clusters.first().map_or(self.entry_count, |cluster| cluster.first_entry);
        self.groups.push(ClusterGroup {
            first_entry,
            entry_span: self.entry_count - first_entry,
            cluster_count: u32::try_from(clusters.len()).expect("they are few"),
            page_list,
        });
    }

    /// The groups of all lists that were put.
    pub(crate) fn groups(&self) -> &[ClusterGroup] {
        &self.groups
    }
}
