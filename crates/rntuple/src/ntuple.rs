//! An ntuple that is open for reading: its schema, its clusters, and where their pages are.

use crate::array::Array;
use crate::error::{Error, Fault, Feature, Result, Structure};
use crate::format::footer::{ClusterGroup, Footer};
use crate::format::locator::Link;
use crate::format::page_list::{ClusterPages, ColumnPages, Page, PageList};
use crate::format::schema::{Field, Known, Role, Schema};
use crate::format::{Header, PAGE_BYTES_MAX, block};
use crate::near::near;
use crate::read;
use crate::rootfile::Anchor;
use crate::source::{Source, Want};
use crate::trace::{Recorder, Trace};
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Page lists that are read together: as a list is a few hundred kilobytes, a few megabytes.
const LISTS_MAX: usize = 16;

/// Entries from one, up to before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries {
    /// The first.
    pub first: u64,
    /// That behind the last.
    pub end: u64,
}

/// A cluster: its entries, and the list that says where its pages are.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// What the list says of it.
    pub pages: &'a ClusterPages,
    /// The list.
    pub list: &'a PageList,
}

impl<'a> Cluster<'a> {
    /// Those of some entries that it has, counted from its first.
    pub(crate) fn part(&self, entries: Entries) -> Range<u64> {
        let (first, count) = (self.pages.first_entry, self.pages.entry_count);
        entries.first.max(first) - first..entries.end.min(first + count) - first
    }

    /// The pages of a column; none of one that the list does not have.
    pub(crate) fn pages_of(&self, number: u32) -> &'a [Page] {
        let column = self.pages.columns.get(number as usize);
        column.map_or(&[], |column| &self.list.pages[column.pages.clone()])
    }

    /// How many elements the pages of a column have.
    pub(crate) fn element_count(&self, number: u32) -> u64 {
        self.pages_of(number).iter().map(|page| u64::from(page.element_count)).sum()
    }
}

/// Columns that were added with values to clusters that were there: their page lists are of the same clusters.
#[derive(Debug)]
struct Family {
    /// The number of the first of them.
    first_column: usize,
    /// A list for each group.
    lists: Vec<Link>,
}

/// An ntuple that is open for reading, from any thread.
pub struct Ntuple<S> {
    source: S,
    header: Header,
    /// What the header had; the rest of the schema is the footer's.
    known: Known,
    groups: Vec<ClusterGroup>,
    /// Families of columns that were added with values to the clusters of the groups.
    added: Vec<Family>,
    lists: Vec<OnceLock<PageList>>,
    /// Subfields of each field.
    children: Vec<Vec<u32>>,
    /// Columns of each field, by representation.
    columns: Vec<Vec<Vec<u32>>>,
    entry_count: u64,
    /// What is read, from when it was asked for.
    recorder: OnceLock<Recorder>,
}

impl<S: Source> Ntuple<S> {
    /// Opens the ntuple whose anchor says where it is in `source`: reads header and footer.
    ///
    /// # Errors
    /// What [`Header::read`] and [`Footer::read`] say, and the source.
    pub fn open(source: S, anchor: &Anchor) -> Result<Self> {
        Self::open_families(source, &anchor.header, &[anchor.footer])
    }

    /// Opens the ntuple with this header, and a footer for each family of columns: the first says of the clusters, each other of what was
    /// added to the schema for them, and where the pages of that are.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Corrupt`] if families have other groups of clusters.
    ///
    /// # Panics
    /// Without a footer.
    pub(crate) fn open_families(source: S, header: &Link, footers: &[Link]) -> Result<Self> {
        let mut links = vec![(Structure::Header, *header)];
        links.extend(footers.iter().map(|footer| (Structure::Footer, *footer)));
        let mut envelopes = fetch_envelopes(&source, &links)?.into_iter();
        let mut header = Header::read(&envelopes.next().expect("as many as links"))?;
        let known = header.schema.known();
        let (mut first, mut added) = (None::<Vec<ClusterGroup>>, Vec::new());
        for envelope in envelopes {
            let first_column = header.schema.columns.len();
            let groups = Footer::read(&envelope, header.checksum, &mut header.schema)?.groups;
            let Some(of_first) = &first else {
                first = Some(groups);
                continue;
            };
            let span = |group: &ClusterGroup| (group.first_entry, group.entry_span, group.cluster_count);
            if !groups.iter().map(span).eq(of_first.iter().map(span)) {
                return Err(Error::Corrupt { structure: Structure::Footer, offset: 0, fault: Fault::Length });
            }
            let lists = groups.iter().map(|group| group.page_list).collect();
            added.push(Family { first_column, lists });
        }
        let groups = first.expect("there is a footer");
        let mut entry_count = 0_u64;
        for group in &groups {
            let Some(end) = group.first_entry.checked_add(group.entry_span) else {
                return Err(Error::Corrupt { structure: Structure::Footer, offset: 0, fault: Fault::Length });
            };
            entry_count = entry_count.max(end);
        }
        let lists = groups.iter().map(|_| OnceLock::new()).collect();
        let children = header.schema.children();
        let columns = columns(&header.schema)?;
        Ok(Self {
            source,
            header,
            known,
            groups,
            added,
            lists,
            children,
            columns,
            entry_count,
            recorder: OnceLock::new(),
        })
    }

    /// What header and footer say, the schema with all that was added to it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How much of the schema the header had; the footer has added the rest.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known
    }

    /// How many entries there are.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// Numbers of the fields at the top, in their order.
    pub fn top_fields(&self) -> impl Iterator<Item = u32> {
        self.header.schema.tops()
    }

    /// The number of a field, by its name and those above it with dots between; `_0`, as items of collections and arrays are called, may be
    /// left out before others.
    ///
    /// # Errors
    /// [`Error::NoField`].
    pub fn field(&self, name: &str) -> Result<u32> {
        let mut found = None;
        for (depth, part) in name.split('.').enumerate() {
            let is_it = |&number: &u32| *self.schema_field(number).name == *part;
            let next = match found {
                Some(above) => self.below(above, part),
                None => self.top_fields().find(is_it),
            };
            let Some(number) = next else {
                // What is near has the same names above it.
                let above: Vec<&str> = name.split('.').take(depth).collect();
                let near = near(part, self.named_within(found));
                let near = near.map(|near| [&above[..], &[near]].concat().join(".").into());
                return Err(Error::NoField { name: name.into(), near });
            };
            found = Some(number);
        }
        found.ok_or_else(|| Error::no_field(name, []))
    }

    /// Names of the fields at the top, or of those below one, of collections also of their items.
    fn named_within(&self, field: Option<u32>) -> Vec<&str> {
        let (mut numbers, mut around) = (Vec::new(), field);
        match field {
            None => numbers.extend(self.top_fields()),
            Some(_) => {
                while let Some(number) = around {
                    numbers.extend(self.children(number));
                    around = self.item(number);
                }
            }
        }
        numbers.into_iter().map(|number| &*self.schema_field(number).name).collect()
    }

    /// The subfield of that name, of collections also that of their items.
    fn below(&self, field: u32, name: &str) -> Option<u32> {
        let is_it = |&number: &u32| *self.schema_field(number).name == *name;
        let found = self.children(field).iter().copied().find(is_it);
        found.or_else(|| self.below(self.item(field)?, name))
    }

    /// What a collection or an array has several of.
    fn item(&self, field: u32) -> Option<u32> {
        match (self.children(field), self.schema_field(field).role) {
            (&[item], Some(Role::Collection | Role::Plain)) if *self.schema_field(item).name == *"_0" => {
                Some(item)
            }
            _ => None,
        }
    }

    /// The subfields that one asks for: of a collection and an array those of its items, if these have some.
    ///
    /// # Panics
    /// If there is no such field.
    #[must_use]
    pub fn subfields(&self, field: u32) -> &[u32] {
        match self.item(field) {
            Some(item) => self.subfields(item),
            None => self.children(field),
        }
    }

    /// Subfields of a field.
    ///
    /// # Panics
    /// If there is no such field.
    #[must_use]
    pub fn children(&self, field: u32) -> &[u32] {
        &self.children[field as usize]
    }

    /// Fields that are read where these are: all below them, and those above, which say where items of collections begin.
    pub(crate) fn read_with(&self, fields: &[u32]) -> BTreeSet<u32> {
        let (mut all, mut waiting) = (BTreeSet::new(), fields.to_vec());
        while let Some(field) = waiting.pop() {
            all.insert(field);
            waiting.extend(self.children(field));
        }
        for &field in fields {
            let mut at = field;
            while at != self.schema_field(at).parent {
                at = self.schema_field(at).parent;
                all.insert(at);
            }
        }
        all
    }

    /// Columns of fields, of all representations.
    pub(crate) fn columns_of_all(&self, fields: &BTreeSet<u32>) -> BTreeSet<u32> {
        fields.iter().flat_map(|&field| self.columns(field)).flatten().copied().collect()
    }

    /// Columns of a field, by representation.
    pub(crate) fn columns(&self, field: u32) -> &[Vec<u32>] {
        &self.columns[field as usize]
    }

    pub(crate) fn schema_field(&self, field: u32) -> &Field {
        &self.header.schema.fields[field as usize]
    }

    /// Where its bytes come from.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// All clusters with entries of the range, in the order of their entries.
    ///
    /// # Errors
    /// [`Error::NoEntries`], and what reading a page list says.
    pub fn clusters(&self, entries: Entries) -> Result<Vec<Cluster<'_>>> {
        let Entries { first, end } = entries;
        let groups = self.groups_with(entries)?;
        let mut found = Vec::new();
        for list in self.page_lists(&groups)? {
            let with = |pages: &&ClusterPages| {
                pages.first_entry < end && pages.first_entry + pages.entry_count > first
            };
            found.extend(list.clusters.iter().filter(with).map(|pages| Cluster { pages, list }));
        }
        found.sort_by_key(|cluster| cluster.pages.first_entry);
        let mut next = first;
        for Cluster { pages, .. } in &found {
            if pages.first_entry > next || (pages.first_entry < next && next != first) {
                return Err(Error::Corrupt {
                    structure: Structure::PageList,
                    offset: 0,
                    fault: Fault::Order,
                });
            }
            next = pages.first_entry + pages.entry_count;
        }
        if next < end {
            return Err(Error::Corrupt { structure: Structure::PageList, offset: 0, fault: Fault::Length });
        }
        Ok(found)
    }

    /// Page lists of groups; those that were not wanted before are read together.
    pub(crate) fn page_lists(&self, groups: &[usize]) -> Result<Vec<&PageList>> {
        let missing: Vec<usize> =
            groups.iter().copied().filter(|&at| self.lists[at].get().is_none()).collect();
        for some in missing.chunks(LISTS_MAX) {
            let links: Vec<_> = some
                .iter()
                .flat_map(|&at| self.list_links(at))
                .map(|link| (Structure::PageList, link))
                .collect();
            let mut envelopes = fetch_envelopes(&self.source, &links)?.into_iter();
            for &at in some {
                let of_group: Vec<_> = envelopes.by_ref().take(1 + self.added.len()).collect();
                let list = self.merged(&of_group)?;
                if list.clusters.len() != self.groups[at].cluster_count as usize {
                    let structure = Structure::PageList;
                    return Err(Error::Corrupt { structure, offset: 8, fault: Fault::Length });
                }
                // Whoever was first has read the same.
                self.lists[at].get_or_init(|| list);
            }
        }
        Ok(groups.iter().map(|&at| self.lists[at].get().expect("it was read above")).collect())
    }

    /// Groups that have entries of the range.
    ///
    /// # Errors
    /// [`Error::NoEntries`].
    pub(crate) fn groups_with(&self, entries: Entries) -> Result<Vec<usize>> {
        let Entries { first, end } = entries;
        if first > end || end > self.entry_count {
            return Err(Error::NoEntries { first, end, count: self.entry_count });
        }
        let has_some =
            |group: &ClusterGroup| group.first_entry < end && group.first_entry + group.entry_span > first;
        let groups = self.groups.iter().enumerate().filter(|(_, group)| has_some(group));
        Ok(groups.map(|(at, _)| at).collect())
    }

    /// Entries of the clusters of a group.
    pub(crate) fn group_entries(&self, group: usize) -> Entries {
        let ClusterGroup { first_entry, entry_span, .. } = self.groups[group];
        Entries { first: first_entry, end: first_entry + entry_span }
    }

    /// Where the page lists of a group are, one of each family: their pages are in the merged list in this order.
    pub(crate) fn list_links(&self, group: usize) -> Vec<Link> {
        let added = self.added.iter().map(|family| family.lists[group]);
        core::iter::once(self.groups[group].page_list).chain(added).collect()
    }

    /// The list of the clusters of a group, from those of all families.
    fn merged(&self, envelopes: &[Vec<u8>]) -> Result<PageList> {
        let mut list = PageList::read(&envelopes[0], self.header.checksum)?;
        for (family, envelope) in self.added.iter().zip(&envelopes[1..]) {
            let more = PageList::read(envelope, self.header.checksum)?;
            let entries = |pages: &ClusterPages| (pages.first_entry, pages.entry_count);
            let is_behind = list.clusters.iter().all(|pages| pages.columns.len() <= family.first_column);
            if !is_behind || !more.clusters.iter().map(entries).eq(list.clusters.iter().map(entries)) {
                let structure = Structure::PageList;
                return Err(Error::Corrupt { structure, offset: 8, fault: Fault::Length });
            }
            let before = list.pages.len();
            list.pages.extend(more.pages);
            for (pages, more) in list.clusters.iter_mut().zip(more.clusters) {
                // A column that begins later has no pages here, and is not suppressed by another one.
                for column in &self.header.schema.columns[pages.columns.len()..family.first_column] {
                    let first_element = Some(column.first_element.unsigned_abs());
                    pages.columns.push(ColumnPages { first_element, compression: 0, pages: before..before });
                }
                pages.columns.extend(more.columns.into_iter().map(|column| ColumnPages {
                    pages: column.pages.start + before..column.pages.end + before,
                    ..column
                }));
            }
        }
        Ok(list)
    }

    /// Reads fields, by their numbers, of entries: of one within collections a list for each entry, or lists of lists.
    ///
    /// # Errors
    /// [`Error::NoEntries`]; [`Error::Unsupported`] of a field that has what this program does not know; what is wrong with a page, of what
    /// is stored [`Error::BadPage`].
    ///
    /// # Panics
    /// If there is no such field.
    pub fn read(&self, fields: &[u32], entries: Entries) -> Result<Vec<Array>> {
        let read = read::read(self, fields, entries);
        let read = read.map_err(|error| self.naming_fields(error, entries, fields))?;
        self.note(fields, entries);
        Ok(read)
    }

    /// Reads fields as conditions are about them: as [`read`](Self::read), but of a collection how many items it has, and of a text how
    /// many bytes, and nothing of these is read.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    ///
    /// # Panics
    /// If there is no such field.
    pub fn read_numbers(&self, fields: &[u32], entries: Entries) -> Result<Vec<Array>> {
        let read = read::read_numbers(self, fields, entries);
        let read = read.map_err(|error| self.naming_fields(error, entries, fields))?;
        self.note(fields, entries);
        Ok(read)
    }

    fn note(&self, fields: &[u32], entries: Entries) {
        if let Some(recorder) = self.recorder.get() {
            recorder.note(fields, entries.end - entries.first);
        }
    }

    /// Records from now on which fields are [read](Self::read) together.
    pub fn record(&self) {
        self.recorder.get_or_init(Recorder::default);
    }

    /// What was read since [`record`](Self::record); nothing if that was never asked for.
    #[must_use]
    pub fn recorded(&self) -> Trace {
        self.recorder
            .get()
            .map_or_else(Trace::default, |recorder| recorder.trace(|field| self.header.schema.dotted(field)))
    }
}

/// Envelopes, decompressed.
pub(crate) fn fetch_envelopes<S: Source>(source: &S, links: &[(Structure, Link)]) -> Result<Vec<Vec<u8>>> {
    let mut stored = Vec::with_capacity(links.len());
    for (structure, link) in links {
        let stored_bytes = link.locator.bytes();
        let bytes = stored_bytes.max(link.length_bytes);
        if bytes > PAGE_BYTES_MAX {
            let structure = *structure;
            return Err(Error::TooBig { structure, offset: 0, bytes, bytes_max: PAGE_BYTES_MAX });
        }
        source.holds(link.locator, stored_bytes)?;
        stored.push(vec![0; usize::try_from(stored_bytes).expect("it was compared with the limit")]);
    }
    let wants = links.iter().zip(&mut stored).map(|((_, link), into)| Want { locator: link.locator, into });
    source.fetch(&mut wants.collect::<Vec<_>>())?;
    let envelopes = links.iter().zip(stored);
    envelopes
        .map(|((structure, link), stored)| block::decompress(*structure, &stored, link.length_bytes))
        .collect()
}

/// Columns of each field by representation; those of a field that shows another are the other's.
fn columns(schema: &Schema) -> Result<Vec<Vec<Vec<u32>>>> {
    let mut columns: Vec<Vec<Vec<u32>>> = vec![Vec::new(); schema.fields.len()];
    let owned =
        (0_u32..).zip(&schema.columns).map(|(number, column)| (number, column.field, column.representation));
    let shown = schema
        .aliases
        .iter()
        .map(|alias| (alias.column, alias.field, schema.columns[alias.column as usize].representation));
    for (number, field, representation) in owned.chain(shown) {
        let representations = &mut columns[field as usize];
        let representation = usize::from(representation);
        if representation > representations.len() {
            return Err(Error::Corrupt { structure: Structure::Header, offset: 0, fault: Fault::Reference });
        }
        if representation == representations.len() {
            representations.push(Vec::new());
        }
        representations[representation].push(number);
    }
    Ok(columns)
}

/// The error that a field has what this program does not know.
pub(crate) fn unknown(field: u32, feature: Feature) -> Error {
    Error::Unsupported { structure: Structure::Field { field }, offset: 0, feature }
}
