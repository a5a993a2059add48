//! A version as the next one is made of it: envelopes of families, the last page lists, counts of elements.
//!
//! Invariants: all families have lists of the same clusters; each list has at most [`LIST_CLUSTERS_MAX`] clusters, so that the next
//! version writes little; what earlier versions wrote is referred to and never written again.

use super::METADATA_COMPRESSION;
use super::place::{self, Part};
use super::record::{self, Anchor, Made};
use super::source::StoreSource;
use super::zones::{self, Known};
use crate::error::{Error, Fault, Result, Structure};
use crate::format::footer::{ClusterGroup, Footer};
use crate::format::locator::{Link, Locator};
use crate::format::page_list::{ClusterPages, ColumnPages, Page, PageList};
use crate::format::schema::{Column, Known as Extent, Schema};
use crate::format::{Header, block};
use crate::ntuple::fetch_envelopes;
use crate::sealed::ElementCounts;
use core::ops::Range;
use dolmen_client::ObjectClass;
use std::collections::BTreeSet;

/// Clusters of one page list: the next append writes the last list anew.
const LIST_CLUSTERS_MAX: usize = 64;

/// Pages of one list, of all families: a megabyte of descriptions.
const LIST_PAGES_MAX: usize = 32_768;

/// Bytes that one transaction writes of a version: what a frame carries, with room for what is around it. A writer of more commits
/// more often.
const VERSION_BYTES_MAX: usize = 48 << 20;

/// Time from one version to the next where the clock has gone back: what seconds as a float of 64 bits still tell apart.
const STEP_NS: u64 = 1000;

/// The pages of a column of a cluster that are stored, and that no version has yet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PlacedColumn {
    /// How they were compressed.
    pub(super) compression: u32,
    /// The pages.
    pub(super) pages: Vec<Page>,
    /// What is known of each.
    pub(super) known: Vec<Known>,
}

/// A cluster that is stored, and that no version has yet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    /// How many entries it has.
    pub(super) entry_count: u64,
    /// Its columns: of the whole schema, or those that are added.
    pub(super) columns: Vec<Option<PlacedColumn>>,
}

/// Lists of the same clusters, one of each family, with what is known of their pages.
type Lists = Vec<(PageList, Vec<Known>)>;

#[derive(Clone, Debug)]
struct Family {
    /// What the schema had before this family's fields and columns.
    before: Extent,
    /// What it had with them.
    after: Extent,
    groups: Vec<ClusterGroup>,
}

/// A version, as the next one is made of it.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) anchor: Anchor,
    pub(super) schema: Schema,
    header_sum: u64,
    families: Vec<Family>,
    /// The lists of the last group, if there is one.
    last: Lists,
    counts: ElementCounts,
}

/// The next version, and what has to be written of it.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) base: Base,
    /// Values of the version by their akeys.
    pub(super) values: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Base {
    /// Before the first version: a schema without entries, of which the header has what is `known`. It is written with the first.
    pub(super) fn before_first(header: &Header, known: Extent, class: ObjectClass) -> (Self, Vec<u8>) {
        let (envelope, header_sum) = header.write_known(&known);
        let nowhere =
            Link { length_bytes: envelope.len() as u64, locator: place::own(Part::Header, 0, 1, 0) };
        let anchor = Anchor {
            version: 0,
            time_ns: 0,
            entry_count: 0,
            cluster_count: 0,
            made: Made::Created,
            class: class.0,
            header: nowhere,
            footers: Vec::new(),
        };
        let after = header.schema.known();
        let families = vec![Family { before: known, after, groups: Vec::new() }];
        let (schema, counts) = (header.schema.clone(), ElementCounts::new(&header.schema));
        (Self { anchor, schema, header_sum, families, last: Vec::new(), counts }, envelope)
    }

    /// The version of an anchor.
    pub(super) fn load(source: &StoreSource, anchor: Anchor) -> Result<Self> {
        let mut links = vec![(Structure::Header, anchor.header)];
        links.extend(anchor.footers.iter().map(|footer| (Structure::Footer, *footer)));
        let mut envelopes = fetch_envelopes(source, &links)?.into_iter();
        let header = Header::read(&envelopes.next().expect("as many as links"))?;
        let (mut schema, mut families) = (header.schema, Vec::new());
        for envelope in envelopes {
            let before = schema.known();
            let groups = Footer::read(&envelope, header.checksum, &mut schema)?.groups;
            families.push(Family { before, after: schema.known(), groups });
        }
        let (mut clusters, mut entries) = (0_u64, Some(0_u64));
        for group in &families[0].groups {
            clusters += u64::from(group.cluster_count);
            entries = entries.and_then(|entries| entries.checked_add(group.entry_span));
        }
        if clusters != anchor.cluster_count || entries != Some(anchor.entry_count) {
            return Err(Error::Corrupt { structure: Structure::Record, offset: 0, fault: Fault::Length });
        }
        let mut base = Self {
            counts: ElementCounts::default(),
            anchor,
            schema,
            header_sum: header.checksum,
            families,
            last: Vec::new(),
        };
        if let Some(at) = base.families[0].groups.len().checked_sub(1) {
            base.last = base.lists(source, at)?;
        }
        let key = (place::version(base.anchor.version), place::COUNTS.to_vec());
        let counts = source.values(&[key])?.remove(0).ok_or_else(lost)?;
        let counts = record::read_counts(&counts, base.schema.columns.len())?;
        base.counts = counted(&base.schema, &counts)?;
        Ok(base)
    }

    /// The lists of all families of a group.
    pub(super) fn lists(&self, source: &StoreSource, at: usize) -> Result<Lists> {
        let group = |family: &Family| family.groups.get(at).map(|group| group.page_list).ok_or_else(lost);
        let links = self.families.iter().map(group).collect::<Result<Vec<_>>>()?;
        let wanted: Vec<_> = links.iter().map(|link| (Structure::PageList, *link)).collect();
        let beside: Vec<_> = links.iter().filter_map(|link| place::zones_of(link.locator)).collect();
        let beside = beside.into_iter().map(|(version, akey)| (place::version(version), akey));
        let known = source.values(&beside.collect::<Vec<_>>())?;
        let mut lists = Vec::new();
        for (envelope, known) in fetch_envelopes(source, &wanted)?.iter().zip(known) {
            let list = PageList::read(envelope, self.header_sum)?;
            let known = zones::read(&known.ok_or_else(lost)?)?;
            if known.len() != list.pages.len() {
                return Err(Error::Corrupt { structure: Structure::Zones, offset: 0, fault: Fault::Length });
            }
            lists.push((list, known));
        }
        Ok(lists)
    }

    /// How many groups of clusters there are.
    fn group_count(&self) -> usize {
        self.families[0].groups.len()
    }

    /// The first column of each family.
    fn starts(&self) -> Vec<usize> {
        core::iter::once(0).chain(self.families[1..].iter().map(|family| family.before.columns)).collect()
    }

    /// The next version with clusters behind those that there are.
    pub(super) fn append(&self, clusters: &[Placed], made: Made, time_ns: u64) -> Result<Next> {
        let mut making = Making::new(self, made, time_ns);
        let starts = self.starts();
        for cluster in clusters {
            let mut columns: Vec<_> = cluster.columns.iter().map(Option::as_ref).collect();
            columns.resize(self.schema.columns.len(), None);
            let firsts = making.base.counts.next(&elements(&self.schema, &columns))?;
            making.begin_list()?;
            let base = &mut making.base;
            let first_entry = base.anchor.entry_count;
            for (family, (list, known)) in base.last.iter_mut().enumerate() {
                let end = starts.get(family + 1).copied().unwrap_or(columns.len());
                let range = begun(&base.schema, &columns, starts[family]..end);
                let pages = described(list, known, &columns[range.clone()], &firsts[range]);
                list.clusters.push(ClusterPages {
                    first_entry,
                    entry_count: cluster.entry_count,
                    columns: pages,
                });
            }
            let entry_count = first_entry.checked_add(cluster.entry_count).ok_or_else(lost)?;
            base.anchor.entry_count = entry_count;
            base.anchor.cluster_count += 1;
            making.is_changed = true;
        }
        making.end_list()?;
        for family in 0..self.families.len() {
            making.put_footer(family)?;
        }
        making.finish()
    }

    /// The next version with the columns that `schema` has more, for the clusters that there are: as many as `clusters`.
    pub(super) fn add_family(
        &self,
        source: &StoreSource,
        schema: &Schema,
        clusters: &[Placed],
        time_ns: u64,
    ) -> Result<Next> {
        let mut making = Making::new(self, Made::ColumnsAdded, time_ns);
        let (before, after) = (self.schema.known(), schema.known());
        making.base.schema = schema.clone();
        making.base.counts.extend(schema);
        making.base.families.push(Family { before, after, groups: Vec::new() });
        let family = self.families.len();
        let mut left = clusters.iter();
        for at in 0..self.group_count() {
            let of_first = self.lists(source, at)?.swap_remove(0).0;
            let (mut list, mut known) = (PageList::default(), Vec::new());
            for pages in &of_first.clusters {
                let placed = left.next().filter(|placed| placed.entry_count == pages.entry_count);
                let placed = placed.ok_or(Error::OtherSchema)?;
                let mut columns: Vec<Option<&PlacedColumn>> = vec![None; before.columns];
                columns.extend(placed.columns.iter().map(Option::as_ref));
                let firsts = making.base.counts.next(&elements(schema, &columns))?;
                let described =
                    described(&mut list, &mut known, &columns[before.columns..], &firsts[before.columns..]);
                list.clusters.push(ClusterPages { columns: described, ..pages.clone() });
            }
            let group = making.put_list(&list, &known, self.families[0].groups[at])?;
            making.base.families[family].groups.push(group);
            if at + 1 == self.group_count() {
                making.base.last.push((list, known));
            }
        }
        making.put_footer(family)?;
        making.finish()
    }
}

/// What a cluster was, for whoever is about to replace it: its entries, and where its first page was.
pub(super) type Was = (u64, u64, Option<Locator>);

/// What a cluster is.
pub(super) fn what_is(pages: &ClusterPages, list: &PageList) -> Was {
    let first = pages.columns.iter().find(|column| !column.pages.is_empty());
    (pages.first_entry, pages.entry_count, first.map(|column| list.pages[column.pages.start].locator))
}

impl Base {
    /// The next version with `clusters` in place of those that `were`, which have as many entries.
    pub(super) fn replace(
        &self,
        source: &StoreSource,
        were: &[Was],
        clusters: &[Placed],
        time_ns: u64,
    ) -> Result<Next> {
        let first = were.first().map_or(0, |was| was.0);
        let end = were.last().map_or(0, |was| was.0 + was.1);
        let changed = || Error::Changed { first, end };
        let groups = &self.families[0].groups;
        let has_some =
            |group: &ClusterGroup| group.first_entry < end && group.first_entry + group.entry_span > first;
        let start = groups.iter().position(has_some).ok_or_else(changed)?;
        let count = groups[start..].iter().take_while(|group| has_some(group)).count();
        let mut before = Vec::new();
        for at in start..start + count {
            before.push(self.lists(source, at)?);
        }
        let all: Vec<Was> = before
            .iter()
            .flat_map(|lists| lists[0].0.clusters.iter().map(|pages| what_is(pages, &lists[0].0)))
            .collect();
        let of_range = all.iter().filter(|was| was.0 >= first && was.0 < end);
        if !of_range.eq(were) {
            return Err(changed());
        }
        let mut making = Making::new(self, Made::Reshaped, time_ns);
        let column_count = self.schema.columns.len();
        let numbers = first_elements(&self.schema, &before, &self.starts());
        let mut counts = counted(&self.schema, &numbers)?;
        let old = before.iter().flat_map(|lists| {
            (0..lists[0].0.clusters.len()).map(|at| {
                (lists[0].0.clusters[at].first_entry, placed(lists, at, &self.starts(), column_count))
            })
        });
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        for (first_entry, placed) in old {
            if first_entry < first {
                head.push(placed);
            } else if first_entry >= end {
                tail.push(placed);
            }
        }
        let whole: Vec<&Placed> = head.iter().chain(clusters).chain(&tail).collect();
        making.replace_groups(start..start + count, &whole, &mut counts)?;
        let base = &mut making.base;
        let count = |number: usize| number as u64;
        base.anchor.cluster_count = base.anchor.cluster_count - count(were.len()) + count(clusters.len());
        for family in 0..self.families.len() {
            making.put_footer(family)?;
        }
        making.finish()
    }
}

/// A cluster of lists as it was before it was in them.
fn placed(lists: &Lists, at: usize, starts: &[usize], column_count: usize) -> Placed {
    let mut columns = Vec::with_capacity(column_count);
    for ((list, known), start) in lists.iter().zip(starts) {
        columns.resize(*start, None);
        columns.extend(list.clusters[at].columns.iter().map(|column| {
            let pages = || list.pages[column.pages.clone()].to_vec();
            let known = || known[column.pages.clone()].to_vec();
            let placed = || PlacedColumn { compression: column.compression, pages: pages(), known: known() };
            column.first_element.map(|_| placed())
        }));
    }
    columns.resize(column_count, None);
    Placed { entry_count: lists[0].0.clusters[at].entry_count, columns }
}

/// The number of the first element that each column has in the lists, or another representation of it; 0 if none has any.
fn first_elements(schema: &Schema, before: &[Lists], starts: &[usize]) -> Vec<u64> {
    let mut of_column = vec![None::<u64>; schema.columns.len()];
    for lists in before {
        for ((list, _), start) in lists.iter().zip(starts) {
            for cluster in &list.clusters {
                for (number, column) in (*start..).zip(&cluster.columns) {
                    of_column[number] = of_column[number].or(column.first_element);
                }
            }
        }
    }
    // The counts of a first representation are those of all that are like it.
    let mut nth = vec![0_usize; schema.columns.len()];
    for number in 1..schema.columns.len() {
        let (one, last) = (&schema.columns[number], &schema.columns[number - 1]);
        let is_next = one.field == last.field && one.representation == last.representation;
        nth[number] = if is_next { nth[number - 1] + 1 } else { 0 };
    }
    let like = |number: usize| {
        let column = &schema.columns[number];
        (0..schema.columns.len())
            .filter(move |&other| schema.columns[other].field == column.field)
            .filter(|&other| nth[other] == nth[number])
            .filter_map(|other| of_column[other])
            .min()
    };
    let has_several = schema.columns.iter().any(|column| column.representation > 0);
    (0..schema.columns.len())
        .map(|number| if has_several { like(number) } else { of_column[number] }.unwrap_or(0))
        .collect()
}

/// A version in the making.
struct Making {
    base: Base,
    values: Vec<(Vec<u8>, Vec<u8>)>,
    list_count: u32,
    /// Whether the last lists are other than those that are stored.
    is_changed: bool,
}

impl Making {
    fn new(before: &Base, made: Made, time_ns: u64) -> Self {
        let mut base = before.clone();
        // A clock that went back, as one of seconds does, is not believed: versions are in the order of their times.
        let before_ns = before.anchor.time_ns;
        let time_ns = if time_ns < before_ns { before_ns.saturating_add(STEP_NS) } else { time_ns };
        base.anchor = Anchor { version: before.anchor.version + 1, made, time_ns, ..before.anchor.clone() };
        Self { base, values: Vec::new(), list_count: 0, is_changed: false }
    }

    /// Has the last lists be such that there is room for one more cluster.
    fn begin_list(&mut self) -> Result<()> {
        let pages: usize = self.base.last.iter().map(|(list, _)| list.pages.len()).sum();
        let clusters = self.base.last.first().map_or(LIST_CLUSTERS_MAX, |(list, _)| list.clusters.len());
        if clusters < LIST_CLUSTERS_MAX && pages < LIST_PAGES_MAX {
            return Ok(());
        }
        self.end_list()?;
        self.base.last = vec![(PageList::default(), Vec::new()); self.base.families.len()];
        let first_entry = self.base.anchor.entry_count;
        for family in &mut self.base.families {
            let page_list = Link { length_bytes: 0, locator: place::own(Part::List, 0, 0, 0) };
            family.groups.push(ClusterGroup { first_entry, entry_span: 0, cluster_count: 0, page_list });
        }
        Ok(())
    }

    /// Writes the last lists if they were changed.
    fn end_list(&mut self) -> Result<()> {
        if !core::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        let last = core::mem::take(&mut self.base.last);
        for (family, (list, known)) in last.iter().enumerate() {
            let before = *self.base.families[family].groups.last().expect("there is one for the last list");
            let span: u64 = list.clusters.iter().map(|pages| pages.entry_count).sum();
            let cluster_count = u32::try_from(list.clusters.len()).expect("a list has few clusters");
            let group = ClusterGroup { entry_span: span, cluster_count, ..before };
            let group = self.put_list(list, known, group)?;
            *self.base.families[family].groups.last_mut().expect("as above") = group;
        }
        self.base.last = last;
        Ok(())
    }

    /// Puts lists of these clusters in place of those of groups; `counts` are those before the first.
    fn replace_groups(
        &mut self,
        range: Range<usize>,
        clusters: &[&Placed],
        counts: &mut ElementCounts,
    ) -> Result<()> {
        let starts = self.base.starts();
        let column_count = self.base.schema.columns.len();
        let is_last = range.end == self.base.group_count();
        let mut first_entry = self.base.families[0].groups[range.start].first_entry;
        let (mut groups, mut rest) = (vec![Vec::new(); starts.len()], clusters);
        while !rest.is_empty() {
            let mut pages = 0;
            let fits = rest.iter().take(LIST_CLUSTERS_MAX).take_while(|cluster| {
                let before = pages;
                pages += cluster.columns.iter().flatten().map(|column| column.pages.len()).sum::<usize>();
                before < LIST_PAGES_MAX
            });
            let (some, behind) = rest.split_at(fits.count());
            rest = behind;
            let mut lists: Lists = vec![(PageList::default(), Vec::new()); starts.len()];
            let first = first_entry;
            for cluster in some {
                let mut columns: Vec<_> = cluster.columns.iter().map(Option::as_ref).collect();
                columns.resize(column_count, None);
                let firsts = counts.next(&elements(&self.base.schema, &columns))?;
                for (family, (list, known)) in lists.iter_mut().enumerate() {
                    let end = starts.get(family + 1).copied().unwrap_or(column_count);
                    let range = begun(&self.base.schema, &columns, starts[family]..end);
                    let columns = described(list, known, &columns[range.clone()], &firsts[range]);
                    list.clusters.push(ClusterPages {
                        first_entry,
                        entry_count: cluster.entry_count,
                        columns,
                    });
                }
                first_entry += cluster.entry_count;
            }
            let cluster_count = u32::try_from(some.len()).expect("a list has few clusters");
            let page_list = Link { length_bytes: 0, locator: place::own(Part::List, 0, 0, 0) };
            let group = ClusterGroup {
                first_entry: first,
                entry_span: first_entry - first,
                cluster_count,
                page_list,
            };
            for (groups, (list, known)) in groups.iter_mut().zip(&lists) {
                groups.push(self.put_list(list, known, group)?);
            }
            if is_last {
                self.base.last = lists;
            }
        }
        for (family, groups) in self.base.families.iter_mut().zip(groups) {
            family.groups.splice(range.clone(), groups);
        }
        Ok(())
    }

    fn put_list(&mut self, list: &PageList, known: &[Known], group: ClusterGroup) -> Result<ClusterGroup> {
        let envelope = list.write(self.base.header_sum);
        let index = self.list_count;
        self.list_count += 1;
        let page_list = self.put_envelope(Part::List, index, &envelope)?;
        let (_, akey) = place::zones_of(page_list.locator).expect("it is one of the ntuple's own");
        self.values.push((akey, zones::write(known)?));
        Ok(ClusterGroup { page_list, ..group })
    }

    fn put_envelope(&mut self, part: Part, index: u32, envelope: &[u8]) -> Result<Link> {
        let packed = block::compress(METADATA_COMPRESSION, envelope)?;
        let bytes = u32::try_from(packed.len()).map_err(|_wide| too_big(packed.len()))?;
        let locator = place::own(part, index, self.base.anchor.version, bytes);
        let (_, akey) = place::akey_of(locator).expect("it is one of the ntuple's own");
        self.values.push((akey, packed));
        Ok(Link { length_bytes: envelope.len() as u64, locator })
    }

    fn put_footer(&mut self, family: usize) -> Result<()> {
        let Family { before, after, groups } = &self.base.families[family];
        let schema = Schema {
            fields: self.base.schema.fields[..after.fields].to_vec(),
            columns: self.base.schema.columns[..after.columns].to_vec(),
            aliases: self.base.schema.aliases[..after.aliases].to_vec(),
            extras: self.base.schema.extras[..after.extras].to_vec(),
        };
        let envelope = Footer { groups: groups.clone() }.write(self.base.header_sum, &schema, before);
        let index = u32::try_from(family).expect("there are few families");
        let link = self.put_envelope(Part::Footer, index, &envelope)?;
        let footers = &mut self.base.anchor.footers;
        if family < footers.len() {
            footers[family] = link;
        } else {
            footers.push(link);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Next> {
        let counts = current(&self.base.counts, self.base.schema.columns.len())?;
        self.values.push((place::COUNTS.to_vec(), record::write_counts(&counts)?));
        Ok(Next { base: self.base, values: self.values })
    }
}

impl Next {
    /// Adds the header, which the first version writes.
    pub(super) fn put_header(&mut self, envelope: &[u8]) -> Result<()> {
        let packed = block::compress(METADATA_COMPRESSION, envelope)?;
        let bytes = u32::try_from(packed.len()).map_err(|_wide| too_big(packed.len()))?;
        let locator = place::own(Part::Header, 0, self.base.anchor.version, bytes);
        let (_, akey) = place::akey_of(locator).expect("it is one of the ntuple's own");
        self.values.push((akey, packed));
        self.base.anchor.header = Link { length_bytes: envelope.len() as u64, locator };
        Ok(())
    }

    /// Whether one transaction can write it.
    ///
    /// # Errors
    /// [`Error::TooBig`].
    pub(super) fn check(&self) -> Result<()> {
        let bytes = self.values.iter().map(|(_, value)| value.len()).sum();
        if bytes > VERSION_BYTES_MAX { Err(too_big(bytes)) } else { Ok(()) }
    }
}

/// Whether a column, or one of a field above its own, begins with an entry other than the first.
pub(super) fn is_deferred(schema: &Schema, number: usize) -> bool {
    begins_with(schema, number).is_some()
}

/// The column with which a column begins later: one of its own field, or of one above it, that has elements of each entry from its first on.
pub(super) fn begins_with(schema: &Schema, number: usize) -> Option<usize> {
    let mut field = schema.columns[number].field;
    loop {
        let begins_later = |column: &Column| column.field == field && column.first_element != 0;
        if let Some(found) = schema.columns.iter().position(begins_later) {
            return Some(found);
        }
        let parent = schema.fields[field as usize].parent;
        if parent == field {
            return None;
        }
        field = parent;
    }
}

/// Without the last columns that begin later: a list leaves these out, since a column that is suppressed has its values elsewhere.
fn begun(schema: &Schema, columns: &[Option<&PlacedColumn>], range: Range<usize>) -> Range<usize> {
    let begins_later = |number: usize| columns[number].is_none() && is_deferred(schema, number);
    let last = range.clone().rev().find(|&number| !begins_later(number));
    range.start..last.map_or(range.start, |last| last + 1)
}

/// Adds the pages of a cluster to a list.
fn described(
    list: &mut PageList,
    known: &mut Vec<Known>,
    columns: &[Option<&PlacedColumn>],
    firsts: &[Option<u64>],
) -> Vec<ColumnPages> {
    let of = |(column, first): (&Option<&PlacedColumn>, &Option<u64>)| {
        let start = list.pages.len();
        let compression = column.map_or(0, |column| column.compression);
        if let Some(column) = column {
            list.pages.extend_from_slice(&column.pages);
            known.extend_from_slice(&column.known);
        }
        ColumnPages { first_element: *first, compression, pages: start..list.pages.len() }
    };
    columns.iter().zip(firsts).map(of).collect()
}

/// How many elements each column has; none of a column that is suppressed, since another representation of its field has them. One that is not there
/// because it begins later has no elements yet.
fn elements(schema: &Schema, columns: &[Option<&PlacedColumn>]) -> Vec<Option<u64>> {
    let count = |column: &PlacedColumn| column.pages.iter().map(|page| u64::from(page.element_count)).sum();
    let there: BTreeSet<u32> = schema
        .columns
        .iter()
        .zip(columns)
        .filter(|(_, column)| column.is_some())
        .map(|(column, _)| column.field)
        .collect();
    let of = |(described, column): (&Column, &Option<&PlacedColumn>)| {
        let is_late = described.representation == 0 && !there.contains(&described.field);
        column.map(count).or(is_late.then_some(0))
    };
    schema.columns.iter().zip(columns).map(of).collect()
}

/// The numbers that the next elements of all columns have.
fn current(counts: &ElementCounts, column_count: usize) -> Result<Vec<u64>> {
    let firsts = counts.clone().next(&vec![Some(0); column_count])?;
    Ok(firsts.into_iter().map(|first| first.expect("of each column none was asked for")).collect())
}

/// Counts that go on with such numbers.
fn counted(schema: &Schema, numbers: &[u64]) -> Result<ElementCounts> {
    let mut counts = ElementCounts::new(schema);
    let begun = current(&counts, schema.columns.len())?;
    let more = schema.columns.iter().zip(numbers).zip(begun).map(|((column, number), begun)| {
        // Other representations count with the first.
        (column.representation == 0).then(|| number.saturating_sub(begun))
    });
    counts.next(&more.collect::<Vec<_>>())?;
    Ok(counts)
}

/// The error that what a version refers to is not there, or cannot be.
fn lost() -> Error {
    let fault = Fault::Reference;
    Error::Corrupt { structure: Structure::Record, offset: 0, fault }
}

fn too_big(bytes: usize) -> Error {
    let bytes_max = VERSION_BYTES_MAX as u64;
    Error::TooBig { structure: Structure::PageList, offset: 0, bytes: bytes as u64, bytes_max }
}
