//! The tree of fields that are read, and what each level of it says of the next.
//!
//! Invariants: a node has as many extents as clusters are read together; the offsets of lists begin with 0 and never fall.

use super::pages::{self, Job};
use crate::array::{Array, Growing, Lists, Values, grow};
use crate::error::{Error, Fault, Feature, Result, Structure};
use crate::format::column::InMemory;
use crate::format::page_list::Page;
use crate::format::schema::{Field, Role};
use crate::ntuple::{Cluster, Ntuple, unknown};
use crate::source::Source;
use core::ops::Range;

/// Fields below each other that are read: more than any type of C++ has, and less than the stack bears.
const DEPTH_MAX: usize = 64;

/// Elements of one cluster, counted from its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Those that are needed.
    pub(super) range: Range<u64>,
    /// How many there are in the cluster, where that is known.
    pub(super) total: Option<u64>,
}

/// One field that is read, or what one of its columns has.
#[derive(Debug)]
pub(super) struct Node {
    field: u32,
    /// Which of the field's columns.
    column: usize,
    /// What is needed of each cluster.
    pub(super) extents: Vec<Extent>,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Values {
        kind: InMemory,
        values: Growing,
    },
    /// How many items collections of another field have.
    Sizes {
        ends: Vec<i64>,
        sizes: Vec<u64>,
    },
    Lists {
        of: Lists,
        ends: Vec<i64>,
        offsets: Vec<i64>,
        content: Box<Node>,
    },
    Repeated {
        count: u64,
        len: u64,
        content: Box<Node>,
    },
    Record {
        len: u64,
        fields: Vec<(Box<str>, Node)>,
    },
    Variant {
        switches: Vec<u8>,
        tags: Vec<i8>,
        index: Vec<i64>,
        contents: Vec<Node>,
    },
}

impl Node {
    /// What an entry has of a field: of one within collections, and arrays of a fixed number, a list of it for each of these.
    pub(super) fn of<S: Source>(ntuple: &Ntuple<S>, field: u32) -> Result<Self> {
        let mut node = Self::at(ntuple, field, 0)?;
        let (mut below, mut depth) = (field, 0);
        loop {
            let above = ntuple.schema_field(below).parent;
            if above == below {
                return Ok(node);
            }
            depth += 1;
            node = node.within(ntuple, (field, above), depth)?;
            below = above;
        }
    }

    /// What a field has of one below it, which is read alone.
    fn within<S: Source>(
        self,
        ntuple: &Ntuple<S>,
        (wanted, field): (u32, u32),
        depth: usize,
    ) -> Result<Self> {
        let (described, column_count) = vetted(ntuple, field, depth)?;
        let wrong = || wrong(field);
        let shape = match (described.role, column_count, described.repetition) {
            (Some(Role::Record | Role::Plain), 0, None) => return Ok(self),
            (Some(Role::Plain), 0, Some(count)) => Shape::Repeated { count, len: 0, content: Box::new(self) },
            (Some(Role::Collection), 1, _) => lists(Lists::Items, self),
            // One of several: not all entries have it.
            (Some(Role::Variant), ..) => {
                return Err(Error::NotFlat { name: ntuple.header().schema.dotted(wanted) });
            }
            _ => return Err(wrong()),
        };
        let node = Self { field, column: 0, extents: Vec::new(), shape };
        node.is_of_its_kind(ntuple).then_some(node).ok_or_else(wrong)
    }

    /// As [`of`](Self::of), but of a collection how many items it has, and of a text how many bytes, without what these are.
    pub(super) fn number_of<S: Source>(ntuple: &Ntuple<S>, field: u32) -> Result<Self> {
        let node = Self::of(ntuple, field)?;
        Ok(match node.shape {
            Shape::Lists { of: Lists::Items | Lists::Text, .. } => Self { shape: sizes(), ..node },
            shape => Self { shape, ..node },
        })
    }

    fn at<S: Source>(ntuple: &Ntuple<S>, field: u32, depth: usize) -> Result<Self> {
        let (described, column_count) = vetted(ntuple, field, depth)?;
        let wrong = || wrong(field);
        let mut children = Vec::new();
        for &child in ntuple.children(field) {
            children.push((ntuple.schema_field(child).name.clone(), Self::at(ntuple, child, depth + 1)?));
        }
        let repetition = described.repetition;
        let shape = match (described.role, column_count) {
            (Some(Role::Plain), 0) => {
                return Self::without_columns(field, repetition, children).ok_or_else(wrong);
            }
            (Some(Role::Plain), 1) if children.is_empty() => {
                let values = Self { field, column: 0, extents: Vec::new(), shape: single(ntuple, field)? };
                let Some(count) = repetition else { return Ok(values) };
                Shape::Repeated { count, len: 0, content: Box::new(values) }
            }
            (Some(Role::Plain), 2) if children.is_empty() => bytes(field, Lists::Text),
            (Some(Role::Streamer), 2) if children.is_empty() => bytes(field, Lists::Streamed),
            (Some(Role::Collection), 1) if !children.is_empty() => {
                let content = if children.len() == 1 {
                    children.swap_remove(0).1
                } else {
                    Self {
                        field,
                        column: 0,
                        extents: Vec::new(),
                        shape: Shape::Record { len: 0, fields: children },
                    }
                };
                lists(Lists::Items, content)
            }
            (Some(Role::Record), 0) => Shape::Record { len: 0, fields: children },
            (Some(Role::Variant), 1) if i8::try_from(children.len()).is_ok() => Shape::Variant {
                switches: Vec::new(),
                tags: Vec::new(),
                index: Vec::new(),
                contents: children.into_iter().map(|(_, node)| node).collect(),
            },
            _ => return Err(wrong()),
        };
        let node = Self { field, column: 0, extents: Vec::new(), shape };
        node.is_of_its_kind(ntuple).then_some(node).ok_or_else(wrong)
    }

    /// A field with a subfield in its place, or several times.
    fn without_columns(
        field: u32,
        repetition: Option<u64>,
        mut children: Vec<(Box<str>, Self)>,
    ) -> Option<Self> {
        let shape = match (repetition, children.len()) {
            (None, 0) => Shape::Record { len: 0, fields: children },
            (None, 1) => return Some(children.swap_remove(0).1),
            (Some(count), 1) => {
                Shape::Repeated { count, len: 0, content: Box::new(children.swap_remove(0).1) }
            }
            _ => return None,
        };
        Some(Self { field, column: 0, extents: Vec::new(), shape })
    }

    /// Whether all representations have columns of the kinds that the shape needs.
    fn is_of_its_kind<S: Source>(&self, ntuple: &Ntuple<S>) -> bool {
        let kinds: &[InMemory] = match &self.shape {
            Shape::Lists { of: Lists::Items, .. } | Shape::Sizes { .. } => &[InMemory::Offset],
            Shape::Lists { .. } => &[InMemory::Offset, InMemory::U8],
            Shape::Variant { .. } => &[InMemory::Switch],
            Shape::Values { .. } | Shape::Repeated { .. } | Shape::Record { .. } => return true,
        };
        ntuple.columns(self.field).iter().all(|columns| {
            let found = columns
                .iter()
                .map(|&column| ntuple.header().schema.columns[column as usize].kind.in_memory());
            found.eq(kinds.iter().map(|&kind| Some(kind)))
        })
    }

    /// Adds to `jobs` what is needed of each cluster, with memory of this node for it.
    pub(super) fn plan<'a, S: Source>(
        &'a mut self,
        ntuple: &Ntuple<S>,
        clusters: &[Cluster<'_>],
        jobs: &mut Vec<Job<'a>>,
    ) -> Result<()> {
        let (field, column) = (self.field, self.column);
        let wanted: Vec<_> = self.extents.iter().map(|extent| self.shape.wanted(extent)).collect();
        let count = wanted.iter().try_fold(0_usize, |all, range| {
            usize::try_from(range.end - range.start).ok().and_then(|count| all.checked_add(count))
        });
        let wrong =
            || Error::Corrupt { structure: Structure::Field { field }, offset: 0, fault: Fault::Length };
        let count = count.ok_or_else(wrong)?;
        let mut found = Vec::with_capacity(clusters.len());
        for ((cluster, range), extent) in clusters.iter().zip(&wanted).zip(&self.extents) {
            let pages = Found::of(ntuple, cluster, field, column, range, extent.total)?;
            pages.vet(ntuple, cluster, range)?;
            found.push(pages);
        }
        let (target, mut room) = match &mut self.shape {
            Shape::Values { kind, values } => (*kind, values.grow(count)?),
            Shape::Sizes { ends, .. } | Shape::Lists { ends, .. } => {
                ends.clear();
                (InMemory::Offset, grow(ends, count)?)
            }
            Shape::Variant { switches, .. } => {
                switches.clear();
                (InMemory::Switch, grow(switches, count.checked_mul(12).ok_or_else(wrong)?)?)
            }
            Shape::Repeated { .. } | Shape::Record { .. } => unreachable!("these have no columns"),
        };
        for ((cluster, range), found) in clusters.iter().zip(wanted).zip(found) {
            let bytes =
                usize::try_from(range.end - range.start).expect("they were added up") * target.bytes();
            let (part, rest) = room.split_at_mut(bytes);
            room = rest;
            found.jobs(cluster, range, target, part, jobs);
        }
        Ok(())
    }

    /// Columns of this node and of those below it, each with how many offsets are above it.
    fn each_column<S: Source>(&self, ntuple: &Ntuple<S>, depth: usize, with: &mut impl FnMut(u32, usize)) {
        let own = |with: &mut dyn FnMut(u32, usize)| {
            for columns in ntuple.columns(self.field) {
                columns.get(self.column).into_iter().for_each(|&number| with(number, depth));
            }
        };
        match &self.shape {
            Shape::Values { .. } | Shape::Sizes { .. } => own(with),
            Shape::Lists { content, .. } => {
                own(with);
                content.each_column(ntuple, depth + 1, with);
            }
            Shape::Variant { contents, .. } => {
                own(with);
                contents.iter().for_each(|content| content.each_column(ntuple, depth + 1, with));
            }
            Shape::Repeated { content, .. } => content.each_column(ntuple, depth, with),
            Shape::Record { fields, .. } => {
                fields.iter().for_each(|(_, field)| field.each_column(ntuple, depth, with));
            }
        }
    }

    /// Takes memory for what is needed of clusters: `count` elements of this node, or all that there are; of contents of lists only if they
    /// are needed as a whole. As long as nothing is read to it it is addresses alone, and no more than pages can become that are there.
    pub(super) fn expect<S: Source>(
        &mut self,
        ntuple: &Ntuple<S>,
        clusters: &[Cluster<'_>],
        count: Option<u64>,
        is_whole: bool,
    ) {
        match &mut self.shape {
            Shape::Values { kind, values } => {
                let numbers = ntuple.columns(self.field).iter().map(|columns| columns[self.column]);
                let (mut elements, mut stored_bytes) = (0_u64, 0_u64);
                for page in numbers
                    .flat_map(|number| clusters.iter().flat_map(move |cluster| cluster.pages_of(number)))
                {
                    let bytes = page.locator.bytes();
                    elements = elements.saturating_add(u64::from(page.element_count));
                    let is_there = ntuple.source().holds(page.locator, bytes).is_ok();
                    stored_bytes = stored_bytes.saturating_add(if is_there { bytes } else { 0 });
                }
                let count = count.unwrap_or(elements);
                let is_likely =
                    count.saturating_mul(kind.bytes() as u64) / pages::RATIO_TRUSTED <= stored_bytes;
                if let (true, Ok(count)) = (is_likely, usize::try_from(count)) {
                    values.expect(count);
                }
            }
            Shape::Repeated { count: times, content, .. } => {
                content.expect(ntuple, clusters, count.map(|count| count.saturating_mul(*times)), is_whole);
            }
            Shape::Record { fields, .. } => {
                fields.iter_mut().for_each(|(_, field)| field.expect(ntuple, clusters, count, is_whole));
            }
            Shape::Lists { content, .. } if is_whole => content.expect(ntuple, clusters, None, is_whole),
            Shape::Lists { .. } | Shape::Sizes { .. } | Shape::Variant { .. } => {}
        }
    }

    /// Pages that later rounds want of a cluster of which all entries are wanted.
    pub(super) fn inner_pages<S: Source>(
        &self,
        ntuple: &Ntuple<S>,
        cluster: &Cluster<'_>,
        pages: &mut Vec<Page>,
    ) -> Result<()> {
        let mut numbers = Vec::new();
        self.each_column(ntuple, 0, &mut |number, depth| numbers.extend((depth > 0).then_some(number)));
        for number in numbers {
            for page in cluster.pages_of(number).iter().filter(|page| page.element_count > 0) {
                pages::vet(ntuple, number, page)?;
                pages.push(*page);
            }
        }
        Ok(())
    }

    /// Bytes of all pages of this node and those below it in a cluster, as they are stored.
    pub(super) fn stored_bytes<S: Source>(&self, ntuple: &Ntuple<S>, cluster: &Cluster<'_>) -> u64 {
        let mut bytes = 0_u64;
        self.each_column(ntuple, 0, &mut |number, _| {
            bytes = cluster
                .pages_of(number)
                .iter()
                .fold(bytes, |all, page| all.saturating_add(page.locator.bytes()));
        });
        bytes
    }

    /// The array of all that was read.
    pub(super) fn finish(self) -> Array {
        match self.shape {
            Shape::Values { values, .. } => Array::Values(values.finish()),
            Shape::Sizes { sizes, .. } => Array::Values(Values::U64(sizes)),
            Shape::Lists { of, offsets, content, .. } => {
                Array::Lists { of, offsets, content: Box::new(content.finish()) }
            }
            Shape::Repeated { count, len, content } => {
                Array::Repeated { count, len, content: Box::new(content.finish()) }
            }
            Shape::Record { len, fields } => Array::Record {
                len,
                fields: fields.into_iter().map(|(name, node)| (name, node.finish())).collect(),
            },
            Shape::Variant { tags, index, contents, .. } => {
                Array::Variant { tags, index, contents: contents.into_iter().map(Self::finish).collect() }
            }
        }
    }
}

fn wrong(field: u32) -> Error {
    Error::Corrupt { structure: Structure::Field { field }, offset: 0, fault: Fault::Value }
}

/// A field that can be read, so deep below the one that is asked for, or above it; how many columns each representation has.
fn vetted<S: Source>(ntuple: &Ntuple<S>, field: u32, depth: usize) -> Result<(&Field, usize)> {
    let described = ntuple.schema_field(field);
    if let Some(feature) = described.unknown() {
        return Err(unknown(field, feature));
    }
    let columns = ntuple.columns(field);
    let column_count = columns.first().map_or(0, Vec::len);
    if depth > DEPTH_MAX || columns.iter().any(|of_one| of_one.len() != column_count) {
        return Err(wrong(field));
    }
    Ok((described, column_count))
}

fn lists(of: Lists, content: Node) -> Shape {
    Shape::Lists { of, ends: Vec::new(), offsets: vec![0], content: Box::new(content) }
}

fn sizes() -> Shape {
    Shape::Sizes { ends: Vec::new(), sizes: Vec::new() }
}

/// Lists of bytes, which are in the field's second column.
fn bytes(field: u32, of: Lists) -> Shape {
    let shape = Shape::Values { kind: InMemory::U8, values: Growing::new(InMemory::U8) };
    lists(of, Node { field, column: 1, extents: Vec::new(), shape })
}

/// What a field with one column is: values of its type in C++, or the sizes of another's collections.
fn single<S: Source>(ntuple: &Ntuple<S>, field: u32) -> Result<Shape> {
    let mut kinds = Vec::new();
    for representation in ntuple.columns(field) {
        let kind = ntuple.header().schema.columns[representation[0] as usize].kind;
        let Some(in_memory) = kind.in_memory() else {
            return Err(unknown(field, Feature::Column(kind.number())));
        };
        kinds.push(in_memory);
    }
    let is_double = &*ntuple.schema_field(field).type_name == "double";
    match kinds[0] {
        InMemory::Offset if kinds.iter().all(|&kind| kind == InMemory::Offset) => Ok(sizes()),
        first if first != InMemory::Switch => {
            let floats = kinds.iter().all(|kind| matches!(kind, InMemory::F32 | InMemory::F64));
            let kind = if is_double && floats { InMemory::F64 } else { first };
            let fits = |&other: &InMemory| other == kind || (other == InMemory::F32 && kind == InMemory::F64);
            if kinds.iter().all(fits) {
                return Ok(Shape::Values { kind, values: Growing::new(kind) });
            }
            Err(Error::Corrupt { structure: Structure::Field { field }, offset: 0, fault: Fault::Value })
        }
        _ => Err(Error::Corrupt { structure: Structure::Field { field }, offset: 0, fault: Fault::Value }),
    }
}

impl Shape {
    /// Elements of its column that are needed: of collections also the one before, where the first begins.
    fn wanted(&self, extent: &Extent) -> Range<u64> {
        let Range { start, end } = extent.range;
        match self {
            Self::Sizes { .. } | Self::Lists { .. } if start < end => start.saturating_sub(1)..end,
            _ => start..end,
        }
    }
}

/// The pages of a column in one cluster.
struct Found {
    number: u32,
    /// Which pages of the cluster's list.
    pages: Range<usize>,
    /// Elements before the first page, which are zero.
    zero_count: u64,
}

impl Found {
    /// Looks for the representation that has pages in this cluster.
    fn of<S: Source>(
        ntuple: &Ntuple<S>,
        cluster: &Cluster<'_>,
        field: u32,
        column: usize,
        range: &Range<u64>,
        total: Option<u64>,
    ) -> Result<Self> {
        let wrong =
            Error::Corrupt { structure: Structure::Field { field }, offset: range.end, fault: Fault::Length };
        let numbers = ntuple.columns(field).iter().map(|columns| columns[column]);
        // Elements of the cluster that are before the first of a column.
        let late_count = |number: u32| {
            let of_cluster = total?.checked_div(cluster.pages.entry_count)?;
            let before = cluster.pages.first_entry.saturating_mul(of_cluster);
            Some(
                ntuple.header().schema.columns[number as usize]
                    .first_element
                    .unsigned_abs()
                    .saturating_sub(before),
            )
        };
        let mut late = None;
        for number in numbers {
            let is_deferred = ntuple.header().schema.columns[number as usize].first_element != 0;
            match cluster.pages.columns.get(number as usize) {
                Some(pages) if pages.first_element.is_some() => {
                    let pages = pages.pages.clone();
                    let of = |page: usize| u64::from(cluster.list.pages[page].element_count);
                    let count: u64 = pages.clone().map(of).sum();
                    let missing = total.map_or(0, |total| total.saturating_sub(count));
                    let zero_count = missing.min(late_count(number).unwrap_or(0));
                    if range.end > zero_count + count {
                        return Err(wrong);
                    }
                    return Ok(Self { number, pages, zero_count });
                }
                None => late = Some(number),
                Some(_) if is_deferred => late = late.or(Some(number)),
                Some(_) => {}
            }
        }
        // A column that was added later has no pages here, and all is zero.
        match late {
            Some(number) if range.start == range.end || late_count(number) >= Some(range.end) => {
                Ok(Self { number, pages: 0..0, zero_count: range.end })
            }
            Some(_) => Err(wrong),
            None if range.start == range.end => Ok(Self { number: 0, pages: 0..0, zero_count: range.end }),
            None => Err(wrong),
        }
    }

    /// Pages with elements of `range`, and where their first elements are in the cluster.
    fn with<'a>(&'a self, cluster: &Cluster<'a>, range: Range<u64>) -> impl Iterator<Item = (u64, &'a Page)> {
        let pages = &cluster.list.pages[self.pages.clone()];
        let starts = pages.iter().scan(self.zero_count, |at, page| {
            let start = *at;
            *at += u64::from(page.element_count);
            Some((start, page))
        });
        let is_any = range.start < range.end;
        starts.filter(move |(start, page)| {
            is_any && *start < range.end && start + u64::from(page.element_count) > range.start
        })
    }

    /// Looks at what the pages claim before memory is taken for it.
    fn vet<S: Source>(&self, ntuple: &Ntuple<S>, cluster: &Cluster<'_>, range: &Range<u64>) -> Result<()> {
        self.with(cluster, range.clone()).try_for_each(|(_, page)| pages::vet(ntuple, self.number, page))
    }

    /// A job for each page with elements of `range`, which go to `part`.
    fn jobs<'a>(
        &self,
        cluster: &Cluster<'_>,
        range: Range<u64>,
        target: InMemory,
        part: &'a mut [u8],
        jobs: &mut Vec<Job<'a>>,
    ) {
        let bytes = |count: u64| usize::try_from(count).expect("part has their bytes") * target.bytes();
        let zeros = self.zero_count.min(range.end).saturating_sub(range.start);
        let (before, mut rest) = part.split_at_mut(bytes(zeros));
        before.fill(0);
        for (at, page) in self.with(cluster, range.clone()) {
            let end = at + u64::from(page.element_count);
            let (first, last) = (range.start.max(at), range.end.min(end));
            let (into, behind) = rest.split_at_mut(bytes(last - first));
            rest = behind;
            jobs.push(Job { number: self.number, page: *page, skip: first - at, target, into });
        }
    }
}

/// Goes down from nodes without columns to those that have some.
pub(super) fn with_columns(mut nodes: Vec<&mut Node>) -> Result<Vec<&mut Node>> {
    let mut leaves = Vec::new();
    while let Some(node) = nodes.pop() {
        let wide = |extent: &Extent| extent.range.end - extent.range.start;
        let needed = node.extents.iter().fold(0_u64, |all, extent| all.saturating_add(wide(extent)));
        match node {
            Node { shape: Shape::Record { len, fields }, extents, .. } => {
                *len = len.saturating_add(needed);
                for (_, field) in fields {
                    field.extents.clone_from(extents);
                    nodes.push(field);
                }
            }
            Node { shape: Shape::Repeated { count, len, content }, extents, field, .. } => {
                *len = len.saturating_add(needed);
                let structure = Structure::Field { field: *field };
                let error = || Error::Corrupt { structure, offset: 0, fault: Fault::Length };
                content.extents.clear();
                for extent in extents {
                    let times = |number: u64| number.checked_mul(*count).ok_or_else(error);
                    let range = times(extent.range.start)?..times(extent.range.end)?;
                    content.extents.push(Extent { range, total: extent.total.map(times).transpose()? });
                }
                nodes.push(content);
            }
            leaf => leaves.push(leaf),
        }
    }
    Ok(leaves)
}

/// Goes on with what was fetched for `leaves`: what they say of the nodes below, which are next.
pub(super) fn contents(leaves: Vec<&mut Node>) -> Result<Vec<&mut Node>> {
    let mut next = Vec::new();
    for Node { field, extents, shape, .. } in leaves {
        match shape {
            Shape::Values { .. } => {}
            Shape::Sizes { ends, sizes } => {
                each_list(*field, extents, ends, |size| sizes.push(size.cast_unsigned()))?;
            }
            Shape::Lists { ends, offsets, content, .. } => {
                let mut last = *offsets.last().expect("the first is 0");
                content.extents = each_list(*field, extents, ends, |size| {
                    last = last.saturating_add(size);
                    offsets.push(last);
                })?;
                next.push(&mut **content);
            }
            Shape::Variant { switches, tags, index, contents } => {
                switched(*field, extents, switches, tags, index, contents)?;
                next.extend(contents);
            }
            Shape::Repeated { .. } | Shape::Record { .. } => unreachable!("these have no columns"),
        }
    }
    Ok(next)
}

/// Says for each list of the extents how long it is; which elements of the contents they are, in each cluster.
fn each_list(field: u32, extents: &[Extent], ends: &[i64], mut with: impl FnMut(i64)) -> Result<Vec<Extent>> {
    let mut ends = ends.iter().copied();
    let mut contents = Vec::with_capacity(extents.len());
    for Extent { range, total } in extents {
        if range.start == range.end {
            contents.push(Extent { range: 0..0, total: None });
            continue;
        }
        let planned = "as many were planned as are needed";
        let first = if range.start > 0 { ends.next().expect(planned) } else { 0 };
        let fall = || Error::Corrupt {
            structure: Structure::Field { field },
            offset: range.start,
            fault: Fault::Order,
        };
        if first < 0 {
            return Err(fall());
        }
        let mut before = first;
        for _ in range.clone() {
            let end = ends.next().expect(planned);
            if end < before {
                return Err(fall());
            }
            with(end - before);
            before = end;
        }
        let range_of_contents = first.cast_unsigned()..before.cast_unsigned();
        let all = (*total == Some(range.end)).then_some(before.cast_unsigned());
        contents.push(Extent { range: range_of_contents, total: all });
    }
    Ok(contents)
}

/// Takes switches apart: which alternative each is, and which elements of the alternatives are needed.
fn switched(
    field: u32,
    extents: &[Extent],
    switches: &[u8],
    tags: &mut Vec<i8>,
    index: &mut Vec<i64>,
    contents: &mut [Node],
) -> Result<()> {
    let error = |fault| Error::Corrupt { structure: Structure::Field { field }, offset: 0, fault };
    let mut switches = switches.as_chunks::<12>().0.iter();
    let mut bases = vec![0_i64; contents.len()];
    for tag in &*tags {
        if let Ok(alternative) = usize::try_from(*tag) {
            bases[alternative] += 1;
        }
    }
    for node in &mut *contents {
        node.extents.clear();
    }
    for extent in extents {
        let mut ranges = vec![0..0_u64; contents.len()];
        for _ in extent.range.clone() {
            let switch = switches.next().expect("as many were planned as are needed");
            let (place, tag) = switch.split_first_chunk::<8>().expect("a switch has twelve bytes");
            let place = u64::from_le_bytes(*place);
            let tag = u32::from_le_bytes(*tag.first_chunk().expect("four are left"));
            let Some(alternative) = tag.checked_sub(1) else {
                tags.push(-1);
                index.push(0);
                continue;
            };
            let alternative = alternative as usize;
            let range = ranges.get_mut(alternative).ok_or_else(|| error(Fault::Value))?;
            if range.is_empty() {
                *range = place..place;
            }
            if place != range.end {
                return Err(error(Fault::Order));
            }
            range.end = place.checked_add(1).ok_or_else(|| error(Fault::Order))?;
            tags.push(i8::try_from(alternative).expect("there are fewer alternatives"));
            index.push(bases[alternative]);
            bases[alternative] += 1;
        }
        for (node, range) in contents.iter_mut().zip(ranges) {
            node.extents.push(Extent { range, total: None });
        }
    }
    Ok(())
}
