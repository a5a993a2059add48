//! Writing: arrays into sealed clusters.
//!
//! A [`Schema`] comes from arrays ([`schema`]) or from what there is already; arrays are cut into clusters, their fields
//! into columns, columns into pages. What is stored as it is in memory is borrowed from the arrays and not copied.

mod given;
mod narrow;
mod pages;
mod schema;
mod shred;

pub use crate::array::Room;
pub use given::{Flat, Given};
pub use narrow::{Narrow, narrow};
pub(crate) use schema::DEPTH_MAX;
pub use schema::{check_name, check_names, number, schema};

use crate::error::{Error, Fit, Result};
use crate::format::block::Compression;
use crate::format::column::InMemory;
use crate::format::schema::Schema;
use crate::sealed::SealedCluster;
use core::ops::Range;
use pages::Put;
use std::borrow::Cow;

/// Bytes of a page before it is compressed: what becomes of it stays in a cache of the processor, and a request for it is worth its while.
pub const PAGE_BYTES: u32 = 256 << 10;

/// Bytes of a cluster before it is compressed.
pub const CLUSTER_BYTES: u64 = 128 << 20;

/// How arrays become clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How pages are compressed.
    pub compression: Compression,
    /// Bytes of a page before it is compressed, at most.
    pub page_bytes: u32,
    /// Bytes of a cluster before it is compressed, about; a cluster has at least an entry.
    pub cluster_bytes: u64,
    /// Whether pages have checksums.
    pub has_checksums: bool,
    /// Whether pages have zones.
    pub has_zones: bool,
}

impl Default for Options {
    /// zstd of level 1, with checksums and zones.
    fn default() -> Self {
        Self {
            compression: Compression::Zstd(1),
            page_bytes: PAGE_BYTES,
            cluster_bytes: CLUSTER_BYTES,
            has_checksums: true,
            has_zones: true,
        }
    }
}

/// How many entries the arrays have, all the same.
///
/// # Errors
/// [`Error::NoFit`] of the first that has another number than the first of all.
pub fn entry_count<'a, F: Into<Given<'a>> + Copy>(fields: &[(&str, F)]) -> Result<u64> {
    let len = |field: F| field.into().len();
    let count = fields.first().map_or(0, |(_, field)| len(*field));
    match fields.iter().find(|(_, field)| len(*field) != count) {
        Some((name, field)) => Err(Error::NoFit {
            field: (*name).into(),
            fit: Fit::Length { wanted: count, found: len(*field) },
        }),
        None => Ok(count),
    }
}

/// The entries of each cluster that the arrays are cut into.
///
/// # Errors
/// [`Error::NoFit`] as [`entry_count`].
///
/// # Panics
/// Never: a place within is at most the count.
pub fn cut<'a, F: Into<Given<'a>> + Copy>(
    fields: &[(&str, F)],
    options: &Options,
) -> Result<Vec<Range<u64>>> {
    let count = entry_count(fields)?;
    let bytes: u64 = fields.iter().map(|&(_, field)| field.into().bytes()).sum();
    let clusters = bytes.div_ceil(options.cluster_bytes.max(1)).clamp(1, count.max(1));
    let cluster = |nth: u64| {
        let at = u128::from(nth) * u128::from(count) / u128::from(clusters);
        u64::try_from(at).expect("it is at most the count")
    };
    Ok((0..clusters).map(|nth| cluster(nth)..cluster(nth + 1)).filter(|range| !range.is_empty()).collect())
}

/// The cluster of `entries` of the arrays, each of which is a field at the top of `schema`. Columns of other fields have no pages in it.
///
/// # Errors
/// [`Error::NoFit`] if there is no such field, or an array is not of its type; [`Error::NoEntries`] beyond an array's end.
pub fn seal<'a, F: Into<Given<'a>> + Copy>(
    schema: &Schema,
    fields: &[(&str, F)],
    entries: Range<u64>,
    options: &Options,
) -> Result<SealedCluster<'a>> {
    sealed(schema, shredded(schema, fields, entries.clone())?, entries, options)
}

/// As [`seal`], of arrays that begin with the entry `first` of the ntuple: of columns that were added later only what they have is written, and not
/// the zeros that their entries before are read as.
pub(crate) fn seal_behind<'a, F: Into<Given<'a>> + Copy>(
    schema: &Schema,
    fields: &[(&str, F)],
    entries: Range<u64>,
    first: u64,
    options: &Options,
) -> Result<SealedCluster<'a>> {
    let mut columns = shredded(schema, fields, entries.clone())?;
    let (begin, count) = (first + entries.start, entries.end - entries.start);
    for (column, elements) in schema.columns.iter().zip(&mut columns) {
        let Some(elements) = elements.as_mut().filter(|_| column.first_element != 0) else { continue };
        let width = column.kind.in_memory().map_or(1, InMemory::bytes);
        // What is added later has as many elements of each entry.
        let of_entry = (elements.len() / width) as u64 / count.max(1);
        let before = column.first_element.unsigned_abs().saturating_sub(begin.saturating_mul(of_entry));
        let late = usize::try_from(before).map_or(elements.len(), |before| before.saturating_mul(width));
        let late = late.min(elements.len());
        match elements {
            Cow::Borrowed(all) => *all = &all[late..],
            Cow::Owned(all) => drop(all.drain(..late)),
        }
    }
    sealed(schema, columns, entries, options)
}

/// Columns into a cluster.
fn sealed<'a>(
    schema: &Schema,
    columns: shred::Columns<'a>,
    entries: Range<u64>,
    options: &Options,
) -> Result<SealedCluster<'a>> {
    let (mut room, mut scratch) = (Room::default(), Vec::new());
    let mut put = Put::Own(&mut room);
    let mut sealed = Vec::with_capacity(columns.len());
    for (column, elements) in schema.columns.iter().zip(columns) {
        let seal = |elements| pages::seal(column, elements, options, &mut scratch, &mut put);
        sealed.push(elements.map(seal).transpose()?);
    }
    Ok(SealedCluster { entry_count: entries.end - entries.start, columns: sealed })
}

/// As [`seal`]: pages that are not stored as they are in memory are in `room`, which the next cluster can have when this one is written.
///
/// # Errors
/// As [`seal`]; [`Error::TooBig`] if there is no memory for all.
pub fn seal_in<'a, F: Into<Given<'a>> + Copy>(
    schema: &Schema,
    fields: &[(&str, F)],
    entries: Range<u64>,
    options: &Options,
    room: &'a mut Room,
) -> Result<SealedCluster<'a>> {
    let columns = shredded(schema, fields, entries.clone())?;
    let (mut all_bytes, mut more_bytes) = (0, 0);
    for (column, elements) in schema.columns.iter().zip(&columns) {
        let Some(elements) = elements else { continue };
        let are_lent = matches!(elements, Cow::Borrowed(_));
        let (bytes, more) = pages::room_bytes(column, elements, are_lent, options);
        all_bytes += bytes;
        more_bytes = more.max(more_bytes);
    }
    let mut rest = room.of(all_bytes + more_bytes)?;
    let mut scratch = Vec::new();
    let mut put = Put::Room(&mut rest);
    let mut sealed = Vec::with_capacity(columns.len());
    for (column, elements) in schema.columns.iter().zip(columns) {
        let seal = |elements| pages::seal(column, elements, options, &mut scratch, &mut put);
        sealed.push(elements.map(seal).transpose()?);
    }
    Ok(SealedCluster { entry_count: entries.end - entries.start, columns: sealed })
}

/// The elements of each column.
fn shredded<'a, F: Into<Given<'a>> + Copy>(
    schema: &Schema,
    fields: &[(&str, F)],
    entries: Range<u64>,
) -> Result<shred::Columns<'a>> {
    let count = entry_count(fields)?;
    let Range { start: first, end } = entries;
    if first > end || end > count {
        return Err(Error::NoEntries { first, end, count });
    }
    shred::shred(schema, fields, entries)
}
