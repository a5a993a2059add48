//! Entries as they are, in clusters and pages of other sizes, or compressed in another way, while readers and writers go on.

use super::append::Writing;
use super::base::{Was, begins_with, what_is};
use super::catalogue::{Stored, When};
use super::commit::{Version, commit};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::format::schema::Schema;
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::sealed::SealedColumn;
use crate::source::Source;
use crate::write::{self, Options};
use dolmen_client::ObjectClass;

/// What was reshaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reshaped {
    /// The version that has it.
    pub version: Version,
    /// Entries that it was done for.
    pub entries: Entries,
    /// Clusters that they were in.
    pub clusters_before: u64,
    /// Clusters that they are in.
    pub clusters_after: u64,
}

impl Stored {
    /// Writes clusters anew as `options` say, from the first that begins at `first` or behind it, until what they decompress to is
    /// `bytes_max` or there are no more; none if there are none there. Whoever goes on at the end of what was done gets through all of an ntuple
    /// with bounded memory, each step a version of its own. What was there before is freed with the versions that have it.
    ///
    /// # Errors
    /// [`Error::Changed`] if others have reshaped the same clusters meanwhile; [`Error::NoFit`] and [`Error::Unsupported`] of a field whose
    /// arrays cannot be written; those of reading, and of [`Appender`](super::Appender).
    pub fn reshape(&self, first: u64, bytes_max: u64, options: &Options) -> Result<Option<Reshaped>> {
        self.with_current(|| self.reshape_current(first, bytes_max, options))
    }

    fn reshape_current(&self, first: u64, bytes_max: u64, options: &Options) -> Result<Option<Reshaped>> {
        let ntuple = self.open(When::Now)?;
        let schema = &ntuple.header().schema;
        let clusters = ntuple.all_clusters()?;
        let from = clusters.partition_point(|cluster| cluster.pages.first_entry < first);
        let mut bytes = 0_u64;
        let fits = clusters[from..].iter().take_while(|cluster| {
            let before = bytes;
            bytes = bytes.saturating_add(whole_bytes(schema, cluster));
            before < bytes_max.max(1)
        });
        let some = &clusters[from..from + fits.count()];
        let (Some(begin), Some(last)) = (some.first(), some.last()) else { return Ok(None) };
        let entries =
            Entries { first: begin.pages.first_entry, end: last.pages.first_entry + last.pages.entry_count };
        let arrays = Arrays::of(&ntuple, entries)?;
        let were: Vec<Was> = some.iter().map(|cluster| what_is(cluster.pages, cluster.list)).collect();
        let mut base = self.base()?;
        let fields = arrays.fields();
        let class = ObjectClass(base.anchor.class);
        let (version, clusters_after) = Writing::begin(self)?.wholly(|writing| {
            let mut placed = Vec::new();
            for range in write::cut(&fields, options)? {
                let mut cluster = write::seal_behind(schema, &fields, range, entries.first, options)?;
                leave_out_late(schema, &mut cluster.columns);
                let sealed = (cluster.entry_count, &cluster.columns[..]);
                placed.push(writing.put(class, schema, 0, sealed)?);
            }
            writing.pipeline.finish()?;
            let version = commit(self, &mut writing.numbers, &mut base, |base| {
                if base.schema != *schema {
                    return Err(Error::OtherSchema);
                }
                base.replace(&self.source(&base.anchor), &were, &placed, self.store().now_ns())
            })?;
            Ok((version, placed.len()))
        })?;
        let count = |count: usize| count as u64;
        Ok(Some(Reshaped {
            version,
            entries,
            clusters_before: count(were.len()),
            clusters_after: count(clusters_after),
        }))
    }
}

/// Arrays of the fields at the top that have columns of their own.
struct Arrays<'n> {
    names: Vec<&'n str>,
    arrays: Vec<Array>,
}

impl<'n> Arrays<'n> {
    fn of<S: Source>(ntuple: &'n Ntuple<S>, entries: Entries) -> Result<Self> {
        let fields = &ntuple.header().schema.fields;
        let owns = |field: &u32| fields[*field as usize].source.is_none();
        let numbers: Vec<u32> = ntuple.top_fields().filter(owns).collect();
        let names = numbers.iter().map(|&number| &*fields[number as usize].name).collect();
        Ok(Self { names, arrays: ntuple.read(&numbers, entries)? })
    }

    fn fields(&self) -> Vec<(&str, &Array)> {
        self.names.iter().copied().zip(&self.arrays).collect()
    }
}

/// Bytes of all pages of a cluster when they are decompressed.
fn whole_bytes(schema: &Schema, cluster: &Cluster<'_>) -> u64 {
    let of_column = |(number, column): (usize, &crate::format::page_list::ColumnPages)| {
        let pages = cluster.list.pages[column.pages.clone()].iter();
        let bytes =
            |count| schema.columns.get(number).and_then(|column| column.page_bytes(count)).unwrap_or(0);
        pages.map(|page| bytes(u64::from(page.element_count))).fold(0, u64::saturating_add)
    };
    cluster.pages.columns.iter().enumerate().map(of_column).fold(0, u64::saturating_add)
}

/// Leaves columns out of what begins behind the cluster.
fn leave_out_late(schema: &Schema, columns: &mut [Option<SealedColumn<'_>>]) {
    let has_pages = |number: usize| columns[number].as_ref().is_some_and(|column| !column.pages.is_empty());
    let is_late = |&number: &usize| begins_with(schema, number).is_some_and(|first| !has_pages(first));
    let late: Vec<usize> = (0..columns.len()).filter(is_late).collect();
    late.into_iter().for_each(|number| columns[number] = None);
}
