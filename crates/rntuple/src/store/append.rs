//! Clusters that are put behind those that there are.

use super::base::{Base, Placed, PlacedColumn, is_deferred};
use super::catalogue::Stored;
use super::commit::{Version, commit};
use super::fill::{self, Differ, Fill, Fills, LeftOut, Portion};
use super::home::At;
use super::measure::Measure;
use super::numbers::Numbers;
use super::pack::{Group, pack};
use super::pipeline::Pipeline;
use super::record::{Config, Made};
use super::zones::Known;
use crate::array::Array;
use crate::error::{Error, Fault, GoOn, Result, Structure};
use crate::format::CHECKSUM_BYTES;
use crate::format::locator::Locator;
use crate::format::page_list::Page;
use crate::format::schema::{Column, Schema};
use crate::ntuple::{Entries, Ntuple};
use crate::sealed::{SealedCluster, SealedColumn};
use crate::source::Source;
use crate::write::{self, Options};
use dolmen_client::{IoBuf, ObjectClass};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Appends clusters to a stored ntuple. What it has put is on its way at once, and part of the ntuple with
/// [`commit`](Self::commit); what is never committed is freed by [`Store::collect`](super::Store::collect).
///
/// Others may append at the same time, from here or elsewhere.
#[derive(Debug)]
pub struct Appender {
    stored: Stored,
    base: Base,
    writing: Writing,
    clusters: Vec<Placed>,
    /// Of which these are.
    schema: Schema,
    pub(super) fills: Fills,
}

/// Pages on their way into objects that nobody else knows.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) numbers: Numbers,
    pub(super) pipeline: Pipeline,
    pub(super) config: Config,
    pub(super) measures: bool,
}

/// Times that columns are filled which others have added during a commit: who adds them takes longer than that.
const ADDITIONS_MAX: u32 = 16;

impl Appender {
    pub(super) fn begin(stored: Stored) -> Result<Self> {
        let base = stored.base()?;
        let writing = Writing::begin(&stored)?;
        let schema = base.schema.clone();
        Ok(Self { stored, base, writing, clusters: Vec::new(), schema, fills: Fills::default() })
    }

    /// The schema that clusters have to be of.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.base.schema
    }

    /// How many entries were put and are not part of the ntuple yet.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.clusters.iter().map(|cluster| cluster.entry_count).sum()
    }

    /// Whether pages that come without zones are decompressed to find these; so unless it is said.
    pub fn measures(&mut self, measures: bool) {
        self.writing.measures = measures;
    }

    /// Fills fields where what is put has no values of them; also those that others add before the commit. What is filled is written as `options`
    /// say, and so is what comes of a tree.
    pub fn fill(&mut self, fields: Vec<Fill>, options: &Options) {
        self.fills = Fills { fields, options: *options, ..self.fills };
    }

    /// Whether fields of another ntuple, and branches of a tree, are left out that the ntuple has not, and branches that are not read; not so
    /// unless it is said.
    pub fn leave_out(&mut self, leaves_out: bool) {
        self.fills.leaves_out = leaves_out;
    }

    /// Whether all that is filled are fields of the ntuple by now, and can be filled so. [`commit`](Self::commit) sees to it as well: fields
    /// may be added until then.
    ///
    /// # Errors
    /// [`Error::NoFill`]; [`Error::NoFit`] of a value that its field cannot have.
    pub fn check(&self) -> Result<()> {
        self.fills.check(&self.base.schema)
    }

    /// Whether another ntuple can be put, of which nothing but the schema is looked at; what is left out of it then.
    ///
    /// # Errors
    /// [`Error::NoFill`]; [`Error::OtherFields`]; [`Error::NoFit`] of a value that its field cannot have.
    pub fn check_ntuple(&self, schema: &Schema) -> Result<Vec<LeftOut>> {
        self.check()?;
        self.fills.settle(&self.base.schema, fill::matched(&self.base.schema, schema).differ)
    }

    /// Puts a cluster into the store.
    ///
    /// # Errors
    /// [`Error::OtherFields`] if there are fields without pages that are not filled, or no others; [`Error::NoFit`] of one that cannot be filled so;
    /// [`Error::OtherSchema`]; [`Error::Corrupt`] for a page that is not what its checksum says, or of other elements than entries;
    /// [`Error::Expired`]; [`Error::Store`].
    pub fn push(&mut self, cluster: &SealedCluster<'_>) -> Result<()> {
        if cluster.columns.len() > self.base.schema.columns.len() {
            return Err(Error::OtherSchema);
        }
        if cluster.entry_count == 0 {
            return Ok(());
        }
        self.catch_up()?;
        let (class, schema) = (ObjectClass(self.base.anchor.class), &self.base.schema);
        let lacking = fill::lacking(schema, &cluster.columns);
        let (entry_count, mut columns) = (cluster.entry_count, Cow::Borrowed(&cluster.columns[..]));
        if !lacking.is_empty() {
            self.fills.settle(schema, Differ { lacking: lacking.clone(), ..Differ::default() })?;
            let columns = columns.to_mut();
            columns.resize(schema.columns.len(), None);
            for (column, filled) in
                columns.iter_mut().zip(self.fills.sealed(schema, &lacking, entry_count)?)
            {
                *column = filled.or_else(|| column.take());
            }
        }
        let placed = self.writing.put(class, schema, 0, (entry_count, &columns))?;
        self.clusters.push(placed);
        Ok(())
    }

    /// Puts all clusters of another ntuple with the same fields, in whatever order, their pages as they are; of fields that it stores otherwise
    /// (not split into bytes, say) their values, sealed as [`fill`](Self::fill) says, if the ntuple keeps all of their bits.
    ///
    /// # Errors
    /// [`Error::OtherFields`] if there are others that are not left out, or some are missing that are not filled; [`Error::NoFit`] of one that cannot be filled so;
    /// those of reading; [`Error::Expired`]; [`Error::Store`].
    pub fn push_all<S: Source>(&mut self, from: &Ntuple<S>) -> Result<()> {
        self.push_all_telling(from, |_| ())
    }

    /// As [`push_all`](Self::push_all); `progress` is told of the entries that are in the store.
    ///
    /// # Errors
    /// As [`push_all`](Self::push_all); those of `progress`.
    pub fn push_all_telling<S: Source, P: GoOn>(
        &mut self,
        from: &Ntuple<S>,
        progress: impl FnMut(u64) -> P,
    ) -> Result<()> {
        self.catch_up()?;
        let schema = &self.base.schema;
        let fill::Matched { columns, anew, differ } = fill::matched(schema, &from.header().schema);
        let lacking = differ.lacking.clone();
        self.fills.settle(schema, differ)?;
        // None of an entry: whether they can be filled so.
        self.fills.sealed(schema, &lacking, 0)?;
        let class = ObjectClass(self.base.anchor.class);
        // The order is one of the ntuple's columns; those that are copied have the other's numbers.
        let place = |number: &u32| {
            let found = columns.get(*number as usize).copied().flatten()?;
            u32::try_from(found).ok()
        };
        let order = self.writing.config.order.iter().filter_map(place).collect();
        let mut is_wanted = vec![false; from.header().schema.columns.len()];
        columns.iter().flatten().for_each(|&found| is_wanted[found] = true);
        let copy = |writing: &mut Writing| writing.copy_all(class, from, &is_wanted, progress);
        let copied = self.writing.in_order(order, copy)?;
        let mut clusters = Vec::new();
        for cluster in copied {
            let column = |found: &Option<usize>| cluster.columns.get((*found)?).cloned().flatten();
            let columns = columns.iter().map(column).collect();
            clusters.push(Placed { entry_count: cluster.entry_count, columns });
        }
        self.put_anew(from, &mut clusters, &anew)?;
        self.put_fills(&mut clusters, &lacking)?;
        self.clusters.append(&mut clusters);
        Ok(())
    }

    /// Puts columns of fields at the top that clusters of another ntuple have, and store otherwise: one cluster at a time is decoded.
    fn put_anew<S: Source>(
        &mut self,
        from: &Ntuple<S>,
        clusters: &mut [Placed],
        fields: &[(u32, u32)],
    ) -> Result<()> {
        if fields.is_empty() {
            return Ok(());
        }
        let class = ObjectClass(self.base.anchor.class);
        let (tops, others): (Vec<u32>, Vec<u32>) = fields.iter().copied().unzip();
        let part = fill::part(&self.base.schema, &tops);
        let names: Vec<&str> =
            part.schema.tops().map(|top| &*part.schema.fields[top as usize].name).collect();
        let options = &self.fills.options;
        let mut first = 0;
        self.writing.in_order(Vec::new(), |writing| {
            for cluster in clusters.iter_mut() {
                crate::stop::check()?;
                let entries = Entries { first, end: first + cluster.entry_count };
                first = entries.end;
                let arrays = from.read(&others, entries)?;
                let given: Vec<(&str, &Array)> = names.iter().copied().zip(&arrays).collect();
                let sealed = write::seal(&part.schema, &given, 0..cluster.entry_count, options)?;
                writing.put_part(class, cluster, &part, &sealed.columns)?;
            }
            Ok(())
        })
    }

    /// Puts columns of fields at the top that clusters lack.
    fn put_fills(&mut self, clusters: &mut [Placed], lacking: &[u32]) -> Result<()> {
        if lacking.is_empty() {
            return Ok(());
        }
        let class = ObjectClass(self.base.anchor.class);
        let part = fill::part(&self.base.schema, lacking);
        let fields: Vec<u32> = part.schema.tops().collect();
        let fills = &self.fills;
        self.writing.in_order(Vec::new(), |writing| {
            for cluster in clusters.iter_mut() {
                let sealed = fills.sealed(&part.schema, &fields, cluster.entry_count)?;
                writing.put_part(class, cluster, &part, &sealed)?;
            }
            Ok(())
        })
    }

    /// Fills what others have added since clusters were put.
    fn catch_up(&mut self) -> Result<()> {
        let schema = &self.base.schema;
        if self.schema == *schema {
            return Ok(());
        }
        // Where a snapshot was gone back to it may have lost some.
        if !schema.begins_with(&self.schema) {
            return Err(Error::OtherSchema);
        }
        let added = fill::behind(schema, self.schema.columns.len());
        if !self.clusters.is_empty() {
            self.fills.check_lacking(schema, &added)?;
            let mut clusters = self.clusters.clone();
            self.put_fills(&mut clusters, &added)?;
            self.clusters = clusters;
        }
        self.schema = self.base.schema.clone();
        Ok(())
    }

    /// Makes what was put part of the ntuple: all of it, or, with an error, nothing. What others have appended meanwhile is before it.
    ///
    /// # Errors
    /// [`Error::OtherFields`] if fields were added since it began that are not filled; [`Error::NoFill`]; [`Error::Expired`]; [`Error::NoNtuple`] if it was destroyed;
    /// [`Error::TooBig`] if it was so much that its page lists do not fit one transaction; [`Error::Store`].
    pub fn commit(&mut self) -> Result<Version> {
        for _ in 0..ADDITIONS_MAX {
            self.catch_up()?;
            match self.try_commit() {
                Err(Error::OtherSchema) => {}
                done => return done,
            }
        }
        Err(Error::OtherSchema)
    }

    /// As [`commit`](Self::commit), unless others have added columns meanwhile.
    fn try_commit(&mut self) -> Result<Version> {
        self.writing.pipeline.finish()?;
        let (store, clusters, fills) = (self.stored.store().clone(), &self.clusters, &self.fills);
        let schema = &self.schema;
        let version = commit(&self.stored, &mut self.writing.numbers, &mut self.base, |base| {
            if base.schema != *schema {
                return Err(Error::OtherSchema);
            }
            fills.check(&base.schema)?;
            base.append(clusters, Made::Appended, store.now_ns())
        })?;
        self.clusters.clear();
        Ok(version)
    }

    /// Gives up what was put since the last commit, so that it can be freed at once.
    ///
    /// # Errors
    /// [`Error::Store`]; it is freed when the lease is over then.
    pub fn discard(self) -> Result<()> {
        self.writing.give_up()
    }
}

impl Writing {
    pub(super) fn begin(stored: &Stored) -> Result<Self> {
        let (numbers, config) = (stored.store().numbers(), stored.config(At::Latest)?);
        Ok(Self { numbers, pipeline: Pipeline::new(stored.home()), config, measures: true })
    }

    /// Does something with columns packed in another order.
    fn in_order<T>(&mut self, order: Vec<u32>, write: impl FnOnce(&mut Self) -> T) -> T {
        let own = core::mem::replace(&mut self.config.order, order);
        let done = write(self);
        self.config.order = own;
        done
    }

    /// Does what makes all that it writes part of a version; of what fails nothing is left that is not freed at once.
    pub(super) fn wholly<T>(mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = write(&mut self);
        match &done {
            Ok(_) => self.numbers.forget(),
            // Ignored: it is freed when the lease is over then, and the error before says more.
            Err(_) => drop(self.give_up()),
        }
        done
    }

    /// Gives up what was put, so that it can be freed at once.
    pub(super) fn give_up(mut self) -> Result<()> {
        // First: what arrives when the record is gone already may be left by whoever frees just then.
        self.pipeline.give_up();
        self.numbers.give_up()
    }

    /// Puts columns of a part of a schema into a cluster, which has others.
    fn put_part(
        &mut self,
        class: ObjectClass,
        cluster: &mut Placed,
        Portion { schema, columns, column_count }: &Portion,
        sealed: &[Option<SealedColumn<'_>>],
    ) -> Result<()> {
        let placed = self.put(class, schema, 0, (cluster.entry_count, sealed))?;
        cluster.columns.resize(*column_count, None);
        for (&number, column) in columns.iter().zip(placed.columns) {
            cluster.columns[number] = column;
        }
        Ok(())
    }

    /// Puts a cluster whose columns are those of `schema` from `first` on.
    pub(super) fn put(
        &mut self,
        class: ObjectClass,
        schema: &Schema,
        first: usize,
        (entry_count, sealed_columns): (u64, &[Option<SealedColumn<'_>>]),
    ) -> Result<Placed> {
        if !is_complete(schema, first, sealed_columns) {
            return Err(Error::OtherSchema);
        }
        self.numbers.renew()?;
        let number = self.numbers.next()?;
        let (mut columns, mut sizes) = (Vec::new(), Vec::new());
        for (at, column) in sealed_columns.iter().enumerate() {
            let Some(sealed) = column else {
                columns.push(None);
                sizes.push(Vec::new());
                continue;
            };
            let known = self.known(schema, first + at, entry_count, sealed)?;
            sizes.push(sealed.pages.iter().map(|page| page.stored_bytes()).collect());
            let pages =
                sealed.pages.iter().map(|page| placed_page(page.element_count, page.checksum.is_some()));
            let pages = pages.collect();
            columns.push(Some(PlacedColumn { compression: sealed.compression, pages, known }));
        }
        let order: Vec<u32> = self
            .config
            .order
            .iter()
            .filter_map(|&column| column.checked_sub(u32::try_from(first).ok()?))
            .collect();
        let groups = pack(&sizes, &order, u64::from(self.config.group_bytes));
        for (at, group) in (0_u32..).zip(&groups) {
            let mut buf = room(group)?;
            for &(no, offset) in &group.pages {
                let column = sealed_columns[no.column].as_ref().expect("it has pages");
                let page = &column.pages[no.page];
                let start = usize::try_from(offset).expect("the group is in memory");
                let end = start + page.stored.len();
                buf[start..end].copy_from_slice(&page.stored);
                if let Some(sum) = page.checksum {
                    buf[end..end + CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
                }
                let placed = columns[no.column].as_mut().expect("it has pages");
                placed.pages[no.page].locator = locator(number, at, offset, page.stored.len())?;
            }
            self.write(class, (number, at), buf)?;
        }
        Ok(Placed { entry_count, columns })
    }

    /// Writes a group of a cluster.
    pub(super) fn write(
        &mut self,
        class: ObjectClass,
        (number, group): (u64, u32),
        buf: IoBuf,
    ) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        self.pipeline.write(class, (number, group), buf)?;
        self.numbers.writes(class, number);
        Ok(())
    }

    /// What is known of the pages of a column, which are looked at.
    fn known(
        &self,
        schema: &Schema,
        number: usize,
        entry_count: u64,
        sealed: &SealedColumn<'_>,
    ) -> Result<Vec<Known>> {
        let column = schema.columns[number];
        let at = u32::try_from(number).expect("a schema has fewer columns");
        let wrong = |fault| Error::Corrupt { structure: Structure::Page { column: at }, offset: 0, fault };
        if has_one_of_each_entry(schema, number) && sealed.element_count() != entry_count {
            return Err(wrong(Fault::Length));
        }
        if sealed.pages.iter().any(|page| !page.is_whole()) {
            return Err(wrong(Fault::Checksum));
        }
        let mut measure = Measure::new(at, column);
        let is_measured = self.measures && sealed.pages.iter().any(|page| page.zone.is_none());
        let of = |page: &crate::sealed::SealedPage<'_>| {
            let zone = match is_measured {
                true => measure.next(page.element_count, &page.stored)?,
                false => page.zone,
            };
            Ok(Known { zone, sum: page.checksum })
        };
        sealed.pages.iter().map(of).collect()
    }
}

/// Whether each field has pages in one of its representations, unless its first entries have none anyway.
fn is_complete(schema: &Schema, first: usize, sealed: &[Option<SealedColumn<'_>>]) -> bool {
    let columns = &schema.columns[first..];
    let there = columns.iter().zip(sealed).filter(|(_, sealed)| sealed.is_some());
    let fields: BTreeSet<u32> = there.map(|(column, _)| column.field).collect();
    let numbered = (first..).zip(columns);
    let is_there = |column: &Column| column.first_element != 0 || fields.contains(&column.field);
    numbered.into_iter().all(|(number, column)| is_there(column) || is_deferred(schema, number))
}

/// Whether the column has one element of each entry.
fn has_one_of_each_entry(schema: &Schema, column: usize) -> bool {
    let column = &schema.columns[column];
    let field = &schema.fields[column.field as usize];
    let is_first = schema
        .columns
        .iter()
        .find(|other| other.field == column.field && other.representation == column.representation);
    field.parent == column.field
        && field.repetition.is_none()
        && column.first_element == 0
        && is_first.is_some_and(|first| core::ptr::eq(first, column))
}

/// A page that gets its place when its group is written.
pub(super) fn placed_page(element_count: u32, has_checksum: bool) -> Page {
    let locator = Locator::Stored { object: 0, group: 0, offset: 0, bytes: 0 };
    Page { element_count, has_checksum, locator }
}

/// The place of a page.
pub(super) fn locator(object: u64, group: u32, offset: u64, bytes: usize) -> Result<Locator> {
    let structure = Structure::Group { object, group };
    let too_big = Error::TooBig { structure, offset, bytes: bytes as u64, bytes_max: u64::from(u32::MAX) };
    let bytes = u32::try_from(bytes).map_err(|_wide| too_big)?;
    Ok(Locator::Stored { object, group, offset, bytes })
}

/// Memory for a group.
pub(super) fn room(group: &Group) -> Result<IoBuf> {
    let structure = Structure::Group { object: 0, group: 0 };
    let bytes_max = crate::format::PAGE_BYTES_MAX;
    let too_big = || Error::TooBig { structure, offset: 0, bytes: group.bytes, bytes_max };
    let bytes = usize::try_from(group.bytes).ok().filter(|_| group.bytes <= bytes_max);
    bytes.and_then(IoBuf::try_zeroed).ok_or_else(too_big)
}
