//! Columns with values for entries that are there.

use super::append::Writing;
use super::base::{Base, Placed};
use super::catalogue::Stored;
use super::commit::{Version, commit};
use super::import;
use crate::error::{Error, Result};
use crate::format::schema::{Known, Schema};
use crate::ntuple::{Entries, Ntuple};
use crate::sealed::SealedCluster;
use dolmen_client::ObjectClass;
use std::collections::BTreeSet;

/// Adds columns to clusters that are there, whose pages stay as they are. What it has put is part of the ntuple with
/// [`commit`](Self::commit); what is never committed is freed by [`Store::collect`](super::Store::collect).
#[derive(Debug)]
pub struct ColumnAdder {
    stored: Stored,
    base: Base,
    schema: Schema,
    /// How much of it is there.
    known: Known,
    writing: Writing,
    /// Entries of the clusters that are known.
    entries: Vec<Entries>,
    clusters: Vec<Placed>,
}

impl ColumnAdder {
    pub(super) fn begin(stored: Stored, schema: &Schema) -> Result<Self> {
        let (base, entries) = with_entries(&stored)?;
        check(&base.schema, schema)?;
        let writing = Writing::begin(&stored)?;
        let (schema, known) = (schema.clone(), base.schema.known());
        Ok(Self { stored, base, schema, known, writing, entries, clusters: Vec::new() })
    }

    /// Entries of the clusters whose columns are to be pushed still, in their order.
    #[must_use]
    pub fn missing(&self) -> &[Entries] {
        &self.entries[self.clusters.len()..]
    }

    /// Whether pages that come without zones are decompressed to find these; so unless it is said.
    pub fn measures(&mut self, measures: bool) {
        self.writing.measures = measures;
    }

    /// Puts the columns of the next cluster: those that are added, in their order; before them there may be as many as the ntuple has, all
    /// without pages.
    ///
    /// # Errors
    /// [`Error::OtherSchema`] if it has other columns or entries than the cluster, or there is no cluster left; [`Error::Corrupt`] for a page
    /// that is not what its checksum says, or of other elements than entries; [`Error::Expired`]; [`Error::Store`].
    pub fn push(&mut self, cluster: &SealedCluster<'_>) -> Result<()> {
        let before = self.known.columns;
        let next = self.missing().first();
        let is_next = next.is_some_and(|entries| entries.end - entries.first == cluster.entry_count);
        let (mut columns, count) = (&cluster.columns[..], self.schema.columns.len());
        if columns.len() == count && columns[..before].iter().all(Option::is_none) {
            columns = &columns[before..];
        }
        if !is_next || before + columns.len() != count {
            return Err(Error::OtherSchema);
        }
        let class = ObjectClass(self.base.anchor.class);
        let placed = self.writing.put(class, &self.schema, before, (cluster.entry_count, columns))?;
        self.clusters.push(placed);
        Ok(())
    }

    /// Makes the columns part of the ntuple: all of them, or, with an error, nothing.
    ///
    /// # Errors
    /// [`Error::Behind`] if there are clusters that lack the columns, for which others may have seen to meanwhile: [`missing`](Self::missing) has
    /// them then. [`Error::OtherSchema`] if others have added columns; [`Error::Expired`]; [`Error::NoNtuple`] if it was destroyed;
    /// [`Error::TooBig`] if page lists do not fit one transaction; [`Error::Store`].
    pub fn commit(&mut self) -> Result<Version> {
        self.writing.pipeline.finish()?;
        let (stored, schema, known, clusters) = (&self.stored, &self.schema, self.known, &self.clusters);
        let added: u64 = clusters.iter().map(|cluster| cluster.entry_count).sum();
        let done = commit(stored, &mut self.writing.numbers, &mut self.base, |base| {
            if base.schema.known() != known || !schema.begins_with(&base.schema) {
                return Err(Error::OtherSchema);
            }
            if base.anchor.cluster_count > clusters.len() as u64 {
                return Err(Error::Behind { first: added, end: base.anchor.entry_count });
            }
            base.add_family(&stored.source(&base.anchor), schema, clusters, stored.store().now_ns())
        });
        match done {
            Err(Error::Behind { .. }) => (self.base, self.entries) = with_entries(&self.stored)?,
            Ok(_) => (self.entries, self.clusters) = (Vec::new(), Vec::new()),
            Err(_) => {}
        }
        done
    }

    /// Gives up what was put, so that it can be freed at once.
    ///
    /// # Errors
    /// [`Error::Store`]; it is freed when the lease is over then.
    pub fn discard(self) -> Result<()> {
        self.writing.give_up()
    }
}

/// The current version, and the entries of its clusters.
fn with_entries(stored: &Stored) -> Result<(Base, Vec<Entries>)> {
    stored.with_current(|| {
        let base = stored.base()?;
        let entries = entries(stored, &base)?;
        Ok((base, entries))
    })
}

/// Entries of all clusters.
fn entries(stored: &Stored, base: &Base) -> Result<Vec<Entries>> {
    let anchor = &base.anchor;
    let ntuple = Ntuple::open_families(stored.source(anchor), &anchor.header, &anchor.footers)?;
    let of = |cluster: &crate::ntuple::Cluster<'_>| {
        let first = cluster.pages.first_entry;
        Entries { first, end: first + cluster.pages.entry_count }
    };
    Ok(ntuple.all_clusters()?.iter().map(of).collect())
}

/// Whether one schema is the other with fields of their own behind it.
fn check(before: &Schema, after: &Schema) -> Result<()> {
    let known = before.known();
    if !after.begins_with(before) || after.columns.len() == known.columns {
        return Err(Error::OtherSchema);
    }
    let own = |field: u32| field as usize >= known.fields && (field as usize) < after.fields.len();
    let are_own =
        after.columns[known.columns..].iter().all(|column| own(column.field) && column.first_element == 0);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (number, field) in (0_u32..).zip(&after.fields) {
        let is_new = number as usize >= known.fields;
        if is_new && (!own(field.parent) || field.parent > number) {
            return Err(Error::OtherSchema);
        }
        if field.parent == number && !names.insert(&field.name) && is_new {
            return Err(Error::Exists { name: field.name.clone() });
        }
    }
    if !are_own {
        return Err(Error::OtherSchema);
    }
    import::check(after)
}
