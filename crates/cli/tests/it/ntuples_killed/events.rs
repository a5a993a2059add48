//! What an ntuple of these tests holds: a row of appends, each by an owner whose number says all that it has put.

use dolmen_client::Container;
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::format::{self};
use dolmen_rntuple::store::{CreateOptions, Store, Stored, When};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Lists, Ntuple, Source, Values};
use std::collections::BTreeSet;

/// Bits of an owner's number that count the appends of a writer.
const STEP_BITS: u32 = 20;

/// Columns that are added to an ntuple at most.
pub(super) const ADDED_MAX: usize = 3;

/// The number of an append of a writer.
pub(super) fn owner(writer: u64, step: u64) -> i64 {
    i64::try_from(writer << STEP_BITS | step).unwrap()
}

/// The writer of an append, and its step.
pub(super) fn writer_of(owner: i64) -> (i64, i64) {
    (owner >> STEP_BITS, owner & ((1 << STEP_BITS) - 1))
}

fn mixed(number: i64) -> u64 {
    number.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 17
}

/// How many entries an append has.
pub(super) fn entries_of(owner: i64) -> i32 {
    5 + i32::try_from(mixed(owner) % 40).unwrap()
}

/// What appends have put, with columns that were added, by the names of fields.
pub(super) fn arrays(owners: &[i64], added_count: usize) -> Vec<(String, Array)> {
    let entries: Vec<(i64, i32)> =
        owners.iter().flat_map(|&owner| (0..entries_of(owner)).map(move |at| (owner, at))).collect();
    let (mut offsets, mut hits) = (vec![0], Vec::new());
    for &(owner, at) in &entries {
        let count = i32::try_from(mixed(owner + i64::from(at)) % 4).unwrap();
        hits.extend((0..count).map(|hit| at * 10 + hit));
        offsets.push(i64::try_from(hits.len()).unwrap());
    }
    let content = Box::new(Array::Values(Values::I32(hits)));
    let mut fields = vec![
        ("owner".to_owned(), Array::Values(Values::I64(entries.iter().map(|entry| entry.0).collect()))),
        ("at".to_owned(), Array::Values(Values::I32(entries.iter().map(|entry| entry.1).collect()))),
        ("hits".to_owned(), Array::Lists { of: Lists::Items, offsets, content }),
    ];
    fields.extend((0..added_count).map(|number| (name_of_added(number), added(&entries, number))));
    fields
}

pub(super) fn name_of_added(number: usize) -> String {
    format!("added{number}")
}

/// A column that is added, for these owners and places within what they have put.
pub(super) fn added(entries: &[(i64, i32)], number: usize) -> Array {
    let number = i64::try_from(number).unwrap();
    Array::Values(Values::I64(
        entries.iter().map(|&(owner, at)| owner * 7 + i64::from(at) * 3 + number).collect(),
    ))
}

/// Fields as those who write want them.
pub(super) fn borrowed(fields: &[(String, Array)]) -> Vec<(&str, &Array)> {
    fields.iter().map(|(name, array)| (&**name, array)).collect()
}

/// Small pages, so that a commit is many steps.
pub(super) fn options() -> Options {
    Options { page_bytes: 200, cluster_bytes: 600, ..Options::default() }
}

/// An ntuple without entries.
pub(super) fn create(store: &Store, name: &str) -> Stored {
    let mut schema = Schema::default();
    write::schema(&mut schema, &borrowed(&arrays(&[], 0)), Compression::Zstd(1)).unwrap();
    let header =
        Header { name: name.into(), description: "".into(), writer: "a test".into(), schema, checksum: 0 };
    store.create(&header, &CreateOptions { group_bytes: Some(500), ..CreateOptions::default() }).unwrap()
}

/// How many columns were added.
pub(super) fn added_count(schema: &Schema) -> usize {
    let is_there = |number: &usize| schema.fields.iter().any(|field| *field.name == *name_of_added(*number));
    (0..ADDED_MAX).take_while(is_there).count()
}

/// All that an ntuple has, by the names of fields.
pub(super) fn read<S: Source>(ntuple: &Ntuple<S>) -> dolmen_rntuple::Result<Vec<(String, Array)>> {
    let fields: Vec<u32> = ntuple.top_fields().collect();
    let names = fields.iter().map(|&field| ntuple.header().schema.fields[field as usize].name.to_string());
    let arrays = ntuple.read(&fields, Entries { first: 0, end: ntuple.entry_count() })?;
    Ok(names.zip(arrays).collect())
}

/// A checksum of all that was read.
pub(super) fn sum(fields: &[(String, Array)]) -> u64 {
    fn put(bytes: &mut Vec<u8>, array: &Array) {
        match array {
            Array::Values(values) => bytes.extend_from_slice(values.as_bytes()),
            Array::Lists { offsets, content, .. } => {
                offsets.iter().for_each(|offset| bytes.extend_from_slice(&offset.to_le_bytes()));
                put(bytes, content);
            }
            other => panic!("nobody wrote {other:?}"),
        }
    }
    let mut bytes = Vec::new();
    for (name, array) in fields {
        bytes.extend_from_slice(name.as_bytes());
        put(&mut bytes, array);
    }
    format::checksum(&bytes)
}

/// Objects that versions need for their pages.
pub(super) fn needed(stored: &Stored) -> BTreeSet<u64> {
    let mut needed = BTreeSet::new();
    for version in stored.versions().unwrap() {
        let ntuple = stored.open(When::Version(version.number)).unwrap();
        let all = Entries { first: 0, end: ntuple.entry_count() };
        for cluster in ntuple.clusters(all).unwrap() {
            needed.extend(cluster.list.pages.iter().filter_map(|page| match page.locator {
                Locator::Stored { object, .. } => Some(object),
                _ => None,
            }));
        }
    }
    needed
}

/// Objects in a container.
pub(super) fn object_count(cont: &Container) -> usize {
    let mut walk = cont.objects(None);
    core::iter::from_fn(|| Some(walk.next_page().unwrap().len()).filter(|&len| len > 0)).sum()
}
