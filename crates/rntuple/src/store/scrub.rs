//! All pages of a version are looked at; damaged ones are put right from another place that has them.
//!
//! Invariant: a page is written over only by bytes that have the checksum that it is known to have.

use super::catalogue::{Stored, When};
use super::home::At;
use super::source::StoreSource;
use super::zones::Known;
use crate::damaged::{Raw, TOGETHER_BYTES_MAX, fetch};
use crate::error::{Error, Fault, GoOn, Result, Structure};
use crate::format::checksum;
use crate::format::locator::Locator;
use crate::format::page_list::Page;
use crate::format::schema::Schema;
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::{Source, Want};
use dolmen_client::ObjectClass;

/// What is wrong with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It is not there, or not all of it.
    Missing,
    /// Its bytes are not those of its checksum.
    Checksum,
    /// The store says that what it has is damaged: the page, or what it compares with one checksum together with it.
    Store,
}

/// A page that is damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadPage {
    /// The field that it is of, with dots between it and those above it.
    pub field: Box<str>,
    /// The number of the column.
    pub column: u32,
    /// Entries of the cluster.
    pub entries: Entries,
    /// The number of the page in its column and cluster.
    pub page: u32,
    /// Where it is.
    pub locator: Locator,
    /// What is wrong.
    pub damage: Damage,
    /// The checksum that it is known to have had.
    pub sum: Option<u64>,
}

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Scrubbed {
    /// How many pages.
    pub pages: u64,
    /// How many of them have no checksum, and are only known to be there.
    pub unsummed: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Those that are damaged, in the order of clusters, columns and pages.
    pub bad: Vec<BadPage>,
}

/// A page that is looked at.
struct Looked<'a> {
    cluster: Cluster<'a>,
    column: u32,
    number: u32,
    raw: Raw,
    known: Known,
}

impl Stored {
    /// Looks at all pages of a version: whether they are there, and have the bytes of their checksums; `progress` is told of the entries
    /// that were looked at.
    ///
    /// # Errors
    /// [`Error::NoVersion`]; those of `progress`; [`Error::Corrupt`] and [`Error::Store`] where it cannot go on: of metadata, or where the store is not to be reached.
    ///
    /// # Panics
    /// Where memory has addresses of fewer than 32 bits.
    pub fn scrub<P: GoOn>(&self, when: When<'_>, mut progress: impl FnMut(u64) -> P) -> Result<Scrubbed> {
        let ntuple = self.open(when)?;
        let mut scrubbed = Scrubbed::default();
        for at in ntuple.groups_with(Entries { first: 0, end: ntuple.entry_count() })? {
            let list = ntuple.page_lists(&[at])?[0];
            let known = ntuple.source().known(&ntuple.list_links(at))?;
            if known.len() != list.pages.len() {
                return Err(Error::Corrupt { structure: Structure::Zones, offset: 0, fault: Fault::Length });
            }
            for pages in &list.clusters {
                let cluster = Cluster { pages, list };
                let (mut some, mut bytes) = (Vec::new(), 0);
                for (column, of_column) in (0_u32..).zip(&pages.columns) {
                    for (number, at) in (0_u32..).zip(of_column.pages.clone()) {
                        let (page, known) = (list.pages[at], known[at]);
                        bytes += page.bytes_with_sum();
                        some.push(Looked { cluster, column, number, raw: Raw::room(page), known });
                        if bytes >= TOGETHER_BYTES_MAX {
                            scrubbed.look(&ntuple, &mut some)?;
                            bytes = 0;
                        }
                    }
                }
                scrubbed.look(&ntuple, &mut some)?;
                crate::stop::check()?;
                progress(pages.first_entry + pages.entry_count).go_on()?;
            }
        }
        Ok(scrubbed)
    }

    /// Puts damaged pages right by those of another ntuple: a file from which they were imported, another version, a copy. How many are
    /// right now; a page is taken only if it has the checksum that the damaged one is known to have had, and one without a checksum if it
    /// is at the same place with as many bytes. The pages are right in all versions that have them.
    ///
    /// # Errors
    /// [`Error::Store`]; those of reading the other one but damage of its pages.
    pub fn repair<S: Source>(&self, bad: &[BadPage], from: &Ntuple<S>) -> Result<Vec<bool>> {
        let class = ObjectClass(self.current(At::Latest)?.class);
        let mut repaired = vec![false; bad.len()];
        // Those of one group go together.
        let mut order: Vec<usize> = (0..bad.len()).collect();
        order.sort_by_key(|&at| bad[at].locator.order());
        let group = |at: usize| match bad[at].locator {
            Locator::Stored { object, group, .. } => Some((object, group)),
            _ => None,
        };
        for some in order.chunk_by(|&one, &other| group(one) == group(other)) {
            let Some(place) = group(some[0]) else { continue };
            let mut found = Vec::new();
            for &at in some {
                if let Some(bytes) = same(&bad[at], from)? {
                    found.push((at, bytes));
                }
            }
            let parts: Vec<(u64, &[u8])> =
                found.iter().map(|(at, bytes)| (bad[*at].locator.order().2, &bytes[..])).collect();
            if !parts.is_empty() && self.home().mend(class, place, &parts)? {
                found.iter().for_each(|(at, _)| repaired[*at] = true);
            }
        }
        Ok(repaired)
    }
}

impl Scrubbed {
    fn look(&mut self, ntuple: &Ntuple<StoreSource>, some: &mut Vec<Looked<'_>>) -> Result<()> {
        let all = fetch(ntuple.source(), some.iter_mut().map(|looked| &mut looked.raw));
        let is_whole = all.is_ok();
        all.or_else(|error| damage_of(error).map(drop))?;
        for mut looked in some.drain(..) {
            let alone =
                if is_whole { Ok(()) } else { fetch(ntuple.source(), core::iter::once(&mut looked.raw)) };
            let damage = match alone {
                Ok(()) => (!looked.raw.is_right(looked.known.sum)).then_some(Damage::Checksum),
                Err(error) => Some(damage_of(error)?),
            };
            self.pages += 1;
            self.bytes += looked.raw.stored.len() as u64;
            self.unsummed += u64::from(!looked.raw.page.has_checksum && looked.known.sum.is_none());
            self.bad.extend(damage.map(|damage| looked.bad(&ntuple.header().schema, damage)));
        }
        Ok(())
    }
}

/// The damage that an error is of.
fn damage_of(error: Error) -> Result<Damage> {
    match error {
        Error::Corrupt { fault: Fault::Short { .. }, .. } => Ok(Damage::Missing),
        Error::Store { source: dolmen_client::Error::Corrupt { .. } } => Ok(Damage::Store),
        other => Err(other),
    }
}

impl Looked<'_> {
    fn bad(&self, schema: &Schema, damage: Damage) -> BadPage {
        let first = self.cluster.pages.first_entry;
        BadPage {
            field: schema.dotted(schema.columns[self.column as usize].field),
            column: self.column,
            entries: Entries { first, end: first + self.cluster.pages.entry_count },
            page: self.number,
            locator: self.raw.page.locator,
            damage,
            sum: self.known.sum,
        }
    }
}

/// The bytes of the same page in another ntuple, with its checksum; none if it has not that page.
fn same<S: Source>(bad: &BadPage, from: &Ntuple<S>) -> Result<Option<Vec<u8>>> {
    let schema = &from.header().schema;
    let is_it = |&number: &u32| schema.dotted(schema.columns[number as usize].field) == bad.field;
    let count = u32::try_from(schema.columns.len()).expect("a schema has fewer columns");
    let columns: Vec<u32> = (0..count).filter(is_it).collect();
    let mut clusters = from.all_clusters()?;
    // It is likely where it was.
    clusters.sort_by_key(|cluster| cluster.pages.first_entry != bad.entries.first);
    for cluster in &clusters {
        let is_there = cluster.pages.first_entry == bad.entries.first;
        for &column in &columns {
            let Some(of_column) = cluster.pages.columns.get(column as usize) else { continue };
            for (number, page) in (0_u32..).zip(&cluster.list.pages[of_column.pages.clone()]) {
                let is_same_place = is_there && number == bad.page && column == bad.column;
                let has_right_sum = page.has_checksum == bad.sum.is_some();
                let is_candidate = page.locator.bytes() == bad.locator.bytes() && has_right_sum;
                if !is_candidate || (bad.sum.is_none() && !is_same_place) {
                    continue;
                }
                if let Some(bytes) = read(from, page, bad.sum)? {
                    return Ok(Some(bytes));
                }
            }
        }
    }
    Ok(None)
}

/// The bytes of a page with its checksum, if that is the one.
fn read<S: Source>(from: &Ntuple<S>, page: &Page, sum: Option<u64>) -> Result<Option<Vec<u8>>> {
    let bytes = page.locator.bytes();
    let room = |bytes: u64| vec![0; usize::try_from(bytes).expect("the page was imported")];
    let mut stored = room(bytes);
    let done = from.source().fetch(&mut [Want { locator: page.locator, into: &mut stored }]);
    if let Err(error) = done {
        return damage_of(error).map(|_| None);
    }
    let Some(sum) = sum else { return Ok(Some(stored)) };
    if checksum(&stored) != sum {
        return Ok(None);
    }
    stored.extend_from_slice(&sum.to_le_bytes());
    Ok(Some(stored))
}
