//! Some fields of some entries as another ntuple: clusters of which all entries are wanted keep their pages as they are.

use super::append::Writing;
use super::base::Placed;
use super::catalogue::{CreateOptions, Store};
use super::cloned::{Part, part};
use super::commit::Version;
use super::import;
use super::record::Made;
use crate::array::{Array, Values};
use crate::error::{Error, GoOn, Result};
use crate::format::Header;
use crate::format::schema::{Known, Schema};
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::rootfile::RootWriter;
use crate::sealed::SealedCluster;
use crate::source::Source;
use crate::write::{self, Options};
use core::ops::Range;
use dolmen_client::ObjectClass;

/// Entries between two ranges that are read with them: about those of a page, which is fetched as a whole anyway.
const GAP_ENTRIES: u64 = 4096;

/// What was skimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skimmed {
    /// The version that has it.
    pub version: Version,
    /// Clusters whose pages are as they were.
    pub passed: u64,
    /// Clusters that were written anew.
    pub written: u64,
}

/// What of an ntuple is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted<'a> {
    /// Fields at the top, by their names; all if none are named.
    pub fields: &'a [&'a str],
    /// Entries, in ranges in their order that do not overlap.
    pub ranges: &'a [Entries],
}

/// Where clusters of a skim go: a store or a file of ROOT.
pub(super) trait Sink {
    /// Puts a cluster behind those that there are.
    fn put(&mut self, schema: &Schema, cluster: SealedCluster<'_>) -> Result<()>;
}

/// A store.
pub(super) struct Putting<'a> {
    writing: &'a mut Writing,
    class: ObjectClass,
    pub(super) placed: Vec<Placed>,
}

impl<'a> Putting<'a> {
    pub(super) fn new(writing: &'a mut Writing, class: ObjectClass) -> Self {
        Self { writing, class, placed: Vec::new() }
    }
}

impl Sink for Putting<'_> {
    fn put(&mut self, schema: &Schema, cluster: SealedCluster<'_>) -> Result<()> {
        let columns = (cluster.entry_count, &cluster.columns[..]);
        self.placed.push(self.writing.put(self.class, schema, 0, columns)?);
        Ok(())
    }
}

impl Sink for RootWriter {
    fn put(&mut self, _schema: &Schema, cluster: SealedCluster<'_>) -> Result<()> {
        self.append(&cluster)
    }
}

/// A skim under way.
struct Skim<'a, S, K> {
    from: &'a Ntuple<S>,
    part: &'a Part,
    options: &'a Options,
    /// Fields that have columns of their own: numbers in the part, and in the ntuple that it is of.
    fields: Vec<(u32, u32)>,
    sink: K,
    /// Entries that wait until they are a cluster.
    waiting: Vec<Array>,
    passed: u64,
    written: u64,
}

/// Writes a skim to a file of ROOT, which `begin` begins with what the ntuple is: fields, entries and clusters are those that
/// [`Store::skim`] has. `progress` is told of entries that were looked at. How many clusters were taken as they are, and how many were written.
///
/// # Errors
/// As of [`Store::skim`], and of the writer: the file is not there then.
pub fn skim_to<S: Source, P: GoOn>(
    from: &Ntuple<S>,
    wanted: &Wanted<'_>,
    write: &Options,
    begin: impl FnOnce(Header, Known) -> Result<RootWriter>,
    progress: impl FnMut(u64) -> P,
) -> Result<(u64, u64)> {
    let part = part_of(from, wanted)?;
    let header = Header { schema: part.schema.clone(), checksum: 0, ..from.header().clone() };
    let known = header.schema.known();
    let mut skim = Skim::begin(from, &part, write, begin(header, known)?)?;
    skim.run(wanted.ranges, progress)?;
    let Skim { sink, passed, written, .. } = skim;
    sink.finish()?;
    Ok((passed, written))
}

/// The part of an ntuple that is wanted.
fn part_of<S: Source>(from: &Ntuple<S>, wanted: &Wanted<'_>) -> Result<Part> {
    check(wanted.ranges, from.entry_count())?;
    let mut part = part(from, wanted.fields)?;
    import::check(&part.schema)?;
    // Entries before a column was added are written as the zeros that they are, since fewer are left of them.
    for column in &mut part.schema.columns {
        column.first_element = 0;
    }
    Ok(part)
}

impl Store {
    /// Makes an ntuple `name` of fields at the top of another one, by their names, or of all if none are named, and of the entries of ranges,
    /// which are in their order and do not overlap. Clusters of which all entries are wanted are taken as they are; of others the entries are
    /// put together and written as `write` says.
    ///
    /// # Errors
    /// [`Error::NoField`], [`Error::NoEntries`] also for a range before the end of the one before it, [`Error::Exists`]; those of reading; [`Error::NoFit`] and
    /// [`Error::Unsupported`] of a field whose arrays cannot be written; [`Error::Store`].
    pub fn skim<S: Source>(
        &self,
        from: &Ntuple<S>,
        fields: &[&str],
        ranges: &[Entries],
        name: &str,
        options: &CreateOptions,
        write: &Options,
    ) -> Result<Skimmed> {
        self.skim_telling(from, &Wanted { fields, ranges }, name, options, write, |_| ())
    }

    /// As [`skim`](Self::skim); `progress` is told of entries that were looked at.
    ///
    /// # Errors
    /// As [`skim`](Self::skim); those of `progress`, and nothing is made.
    pub fn skim_telling<S: Source, P: GoOn>(
        &self,
        from: &Ntuple<S>,
        wanted: &Wanted<'_>,
        name: &str,
        options: &CreateOptions,
        write: &Options,
        progress: impl FnMut(u64) -> P,
    ) -> Result<Skimmed> {
        self.check_name(name)?;
        write::check_name(name)?;
        let part = part_of(from, wanted)?;
        let header =
            Header { name: name.into(), schema: part.schema.clone(), checksum: 0, ..from.header().clone() };
        let (mut passed, mut written) = (0, 0);
        let of = (&header, part.schema.known());
        let put = |writing: &mut Writing, class| {
            let mut skim = Skim::begin(from, &part, write, Putting::new(writing, class))?;
            skim.run(wanted.ranges, progress)?;
            (passed, written) = (skim.passed, skim.written);
            Ok(skim.sink.placed)
        };
        let (_, version) = self.make(of, Made::Skimmed, (options, write.cluster_bytes), put)?;
        Ok(Skimmed { version, passed, written })
    }
}

/// Whether ranges are in their order and there.
pub(super) fn check(ranges: &[Entries], count: u64) -> Result<()> {
    let mut before = 0;
    for &Entries { first, end } in ranges {
        if first < before || end < first || end > count {
            return Err(Error::NoEntries { first, end, count });
        }
        before = end;
    }
    Ok(())
}

/// What of ranges is in a range.
pub(super) fn within(ranges: &[Entries], Entries { first, end }: Entries) -> Vec<Entries> {
    let from = ranges.partition_point(|range| range.end <= first);
    let some = ranges[from..].iter().take_while(|range| range.first < end);
    let cut = |range: &Entries| Entries { first: range.first.max(first), end: range.end.min(end) };
    some.map(cut).filter(|range| range.first < range.end).collect()
}

impl<'a, S: Source, K: Sink> Skim<'a, S, K> {
    fn begin(from: &'a Ntuple<S>, part: &'a Part, options: &'a Options, sink: K) -> Result<Self> {
        let mut fields = Vec::new();
        for (number, field) in (0_u32..).zip(&part.schema.fields) {
            if field.parent == number && field.source.is_none() {
                fields.push((number, from.field(&field.name)?));
            }
        }
        Ok(Self { from, part, options, fields, sink, waiting: Vec::new(), passed: 0, written: 0 })
    }

    fn run<P: GoOn>(&mut self, ranges: &[Entries], mut progress: impl FnMut(u64) -> P) -> Result<()> {
        let mut looked = 0;
        for cluster in self.from.all_clusters()? {
            let (first, end) =
                (cluster.pages.first_entry, cluster.pages.first_entry + cluster.pages.entry_count);
            let wanted = within(ranges, Entries { first, end });
            let count: u64 = wanted.iter().map(|range| range.end - range.first).sum();
            if count == end - first && self.is_complete(&cluster) {
                self.write()?;
                self.pass(&cluster)?;
                progress(end).go_on()?;
                continue;
            }
            for (hull, ranges) in hulls(&wanted) {
                let numbers: Vec<u32> = self.fields.iter().map(|(_, number)| *number).collect();
                let arrays = self.from.read(&numbers, hull)?;
                let arrays: Vec<Array> = arrays.iter().map(|array| kept(array, &ranges)).collect();
                if self.waiting.is_empty() {
                    self.waiting = arrays;
                } else {
                    self.waiting.iter_mut().zip(arrays).for_each(|(array, more)| extend(array, more));
                }
                if self.waiting.iter().map(Array::bytes).sum::<u64>() >= self.options.cluster_bytes {
                    self.write()?;
                }
            }
            progress(end).go_on()?;
            looked = end;
        }
        self.write()?;
        // It takes a while to write the last ones.
        progress(looked).go_on()
    }

    /// Whether all columns of the cluster that begin later have elements of each of its entries.
    fn is_complete(&self, cluster: &Cluster<'_>) -> bool {
        let schema = &self.from.header().schema;
        let mut begin_later =
            self.part.columns.iter().filter(|&&number| schema.columns[number].first_element != 0);
        begin_later.all(|&number| {
            // Of several representations any has them.
            let is_alike = |other: &usize| schema.columns[*other].field == schema.columns[number].field;
            let alike = (0..schema.columns.len()).filter(is_alike);
            let elements = alike.filter_map(|other| Some(cluster.element_count(u32::try_from(other).ok()?)));
            let most = elements.max().unwrap_or(0);
            most >= cluster.pages.entry_count.saturating_mul(schema.times(schema.columns[number].field))
        })
    }

    /// Takes a cluster as it is.
    fn pass(&mut self, cluster: &Cluster<'_>) -> Result<()> {
        let is_in = |number: u32| self.part.columns.contains(&(number as usize));
        let taken = self.from.take(cluster, is_in)?;
        let columns: Vec<_> =
            self.part.columns.iter().map(|&number| taken.columns.get(number).cloned().flatten()).collect();
        self.sink.put(&self.part.schema, SealedCluster { entry_count: taken.entry_count, columns })?;
        self.passed += 1;
        Ok(())
    }

    /// Writes the entries that wait.
    fn write(&mut self) -> Result<()> {
        let waiting = core::mem::take(&mut self.waiting);
        let part = self.part;
        let names = self.fields.iter().map(|(number, _)| &*part.schema.fields[*number as usize].name);
        let fields: Vec<(&str, &Array)> = names.zip(&waiting).collect();
        let count = write::entry_count(&fields)?;
        if count == 0 {
            return Ok(());
        }
        let sealed = write::seal(&part.schema, &fields, 0..count, self.options)?;
        self.sink.put(&part.schema, sealed)?;
        self.written += 1;
        Ok(())
    }
}

/// Ranges that are read together, and where they are in what is read.
fn hulls(wanted: &[Entries]) -> Vec<(Entries, Vec<Range<usize>>)> {
    let mut hulls: Vec<(Entries, Vec<Range<usize>>)> = Vec::new();
    for &Entries { first, end } in wanted {
        let place = |from: u64, entry: u64| usize::try_from(entry - from).expect("it is read into memory");
        match hulls.last_mut().filter(|(hull, _)| first - hull.end <= GAP_ENTRIES) {
            Some((hull, ranges)) => {
                hull.end = end;
                ranges.push(place(hull.first, first)..place(hull.first, end));
            }
            None => {
                let range = 0..place(first, end);
                hulls.push((Entries { first, end }, [range].into()));
            }
        }
    }
    hulls
}

/// The entries of ranges.
pub(super) fn kept(array: &Array, ranges: &[Range<usize>]) -> Array {
    match array {
        Array::Values(values) => Array::Values(kept_values(values, ranges)),
        Array::Lists { of, offsets, content } => {
            let place = |at: usize| usize::try_from(offsets[at]).expect("offsets do not fall below 0");
            let inner: Vec<_> = ranges.iter().map(|range| place(range.start)..place(range.end)).collect();
            let (mut all, mut last) = (vec![0], 0);
            for range in ranges {
                for at in range.clone() {
                    last += offsets[at + 1] - offsets[at];
                    all.push(last);
                }
            }
            Array::Lists { of: *of, offsets: all, content: Box::new(kept(content, &inner)) }
        }
        Array::Repeated { count, content, .. } => {
            let times = usize::try_from(*count).expect("all of them are in memory");
            let inner: Vec<_> = ranges.iter().map(|range| range.start * times..range.end * times).collect();
            Array::Repeated { count: *count, len: length(ranges), content: Box::new(kept(content, &inner)) }
        }
        Array::Record { fields, .. } => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), kept(field, ranges))).collect();
            Array::Record { len: length(ranges), fields }
        }
        Array::Variant { tags, index, contents } => {
            let mut inner = vec![Vec::new(); contents.len()];
            let mut counts = vec![0_i64; contents.len()];
            let (mut all_tags, mut all_index) = (Vec::new(), Vec::new());
            for at in ranges.iter().cloned().flatten() {
                let Ok(alternative) = usize::try_from(tags[at]) else {
                    all_tags.push(tags[at]);
                    all_index.push(0);
                    continue;
                };
                let place = usize::try_from(index[at]).expect("it is in memory");
                inner[alternative].push(place..place + 1);
                all_tags.push(tags[at]);
                all_index.push(counts[alternative]);
                counts[alternative] += 1;
            }
            let contents = contents.iter().zip(&inner).map(|(content, ranges)| kept(content, ranges));
            Array::Variant { tags: all_tags, index: all_index, contents: contents.collect() }
        }
    }
}

fn length(ranges: &[Range<usize>]) -> u64 {
    ranges.iter().map(|range| range.len() as u64).sum()
}

fn kept_values(values: &Values, ranges: &[Range<usize>]) -> Values {
    fn of<T: Copy>(values: &[T], ranges: &[Range<usize>]) -> Vec<T> {
        ranges.iter().flat_map(|range| values[range.clone()].iter().copied()).collect()
    }
    match values {
        Values::Bool(values) => Values::Bool(of(values, ranges)),
        Values::I8(values) => Values::I8(of(values, ranges)),
        Values::U8(values) => Values::U8(of(values, ranges)),
        Values::I16(values) => Values::I16(of(values, ranges)),
        Values::U16(values) => Values::U16(of(values, ranges)),
        Values::I32(values) => Values::I32(of(values, ranges)),
        Values::U32(values) => Values::U32(of(values, ranges)),
        Values::I64(values) => Values::I64(of(values, ranges)),
        Values::U64(values) => Values::U64(of(values, ranges)),
        Values::F32(values) => Values::F32(of(values, ranges)),
        Values::F64(values) => Values::F64(of(values, ranges)),
    }
}

/// Puts entries of the same fields behind those that there are.
pub(super) fn extend(array: &mut Array, more: Array) {
    match (array, more) {
        (Array::Values(values), Array::Values(more)) => extend_values(values, more),
        (
            Array::Lists { offsets, content, .. },
            Array::Lists { offsets: more_offsets, content: more, .. },
        ) => {
            let last = offsets.last().copied().unwrap_or(0);
            offsets.extend(more_offsets.iter().skip(1).map(|offset| offset + last));
            extend(content, *more);
        }
        (Array::Repeated { len, content, .. }, Array::Repeated { len: more_len, content: more, .. }) => {
            *len += more_len;
            extend(content, *more);
        }
        (Array::Record { len, fields }, Array::Record { len: more_len, fields: more }) => {
            *len += more_len;
            fields.iter_mut().zip(more).for_each(|((_, field), (_, more))| extend(field, more));
        }
        (
            Array::Variant { tags, index, contents },
            Array::Variant { tags: more_tags, index: more_index, contents: more },
        ) => {
            let places: Vec<i64> = contents
                .iter()
                .map(|content| i64::try_from(content.len()).expect("it is in memory"))
                .collect();
            for (tag, place) in more_tags.iter().zip(more_index) {
                let base = usize::try_from(*tag).map_or(0, |tag| places[tag]);
                index.push(place + base);
            }
            tags.extend(more_tags);
            contents.iter_mut().zip(more).for_each(|(content, more)| extend(content, more));
        }
        _ => unreachable!("arrays of the same field are of the same kind"),
    }
}

fn extend_values(values: &mut Values, more: Values) {
    match (values, more) {
        (Values::Bool(values), Values::Bool(more)) | (Values::U8(values), Values::U8(more)) => {
            values.extend(more)
        }
        (Values::I8(values), Values::I8(more)) => values.extend(more),
        (Values::I16(values), Values::I16(more)) => values.extend(more),
        (Values::U16(values), Values::U16(more)) => values.extend(more),
        (Values::I32(values), Values::I32(more)) => values.extend(more),
        (Values::U32(values), Values::U32(more)) => values.extend(more),
        (Values::I64(values), Values::I64(more)) => values.extend(more),
        (Values::U64(values), Values::U64(more)) => values.extend(more),
        (Values::F32(values), Values::F32(more)) => values.extend(more),
        (Values::F64(values), Values::F64(more)) => values.extend(more),
        _ => unreachable!("values of the same field are of the same kind"),
    }
}
