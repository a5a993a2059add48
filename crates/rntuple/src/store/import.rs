//! Another ntuple, with its pages as they are.

use super::append::{Writing, locator, placed_page, room};
use super::base::{Placed, PlacedColumn};
use super::catalogue::{CreateOptions, Store};
use super::commit::Version;
use super::measure::Measure;
use super::pack::{Group, pack};
use super::record::Made;
use super::zones::Known;
use crate::error::{Error, Fault, Feature, GoOn, Result, Structure};
use crate::format::page_list::Page;
use crate::format::schema::Schema;
use crate::format::{CHECKSUM_BYTES, Header, PAGE_BYTES_MAX, checksum};
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::{Source, Want};
use crate::write::{self, CLUSTER_BYTES};
use crate::zone::Zone;
use dolmen_client::{IoBuf, ObjectClass};

/// Bytes of groups that are read together.
const TOGETHER_BYTES_MAX: u64 = 16 << 20;

impl Store {
    /// Imports an ntuple under a name: its pages as they are, in clusters as it has them, and all at once.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::BadName`] of another name than its own that ROOT does not take; those of reading it, also [`Error::Corrupt`] where a page is not what its checksum says; [`Error::Unsupported`] of a
    /// field of an unknown role; [`Error::Store`].
    pub fn import<S: Source>(
        &self,
        name: &str,
        from: &Ntuple<S>,
        options: &CreateOptions,
    ) -> Result<Version> {
        self.import_telling(name, from, options, |_| ())
    }

    /// As [`import`](Self::import); `progress` is told of the entries that are in the container.
    ///
    /// # Errors
    /// As [`import`](Self::import); those of `progress`, and nothing is imported.
    pub fn import_telling<S: Source, P: GoOn>(
        &self,
        name: &str,
        from: &Ntuple<S>,
        options: &CreateOptions,
        progress: impl FnMut(u64) -> P,
    ) -> Result<Version> {
        // It may be called as it is; who calls it anew gives a name that ROOT takes.
        if *name != *from.header().name {
            write::check_name(name)?;
        }
        self.check_name(name)?;
        let header = Header { name: name.into(), checksum: 0, ..from.header().clone() };
        check(&header.schema)?;
        let cluster_bytes = from.all_clusters()?.iter().map(stored_bytes).max().unwrap_or(CLUSTER_BYTES);
        let of = (&header, from.known());
        let is_wanted = vec![true; header.schema.columns.len()];
        let copy = |writing: &mut Writing, class| writing.copy_all(class, from, &is_wanted, progress);
        Ok(self.make(of, Made::Imported, (options, cluster_bytes), copy)?.1)
    }
}

/// Bytes of all pages of a cluster as they are stored.
fn stored_bytes(cluster: &Cluster<'_>) -> u64 {
    let pages = cluster.pages.columns.iter().flat_map(|column| &cluster.list.pages[column.pages.clone()]);
    pages.map(|page| page.locator.bytes()).fold(0, u64::saturating_add)
}

/// Whether a header of it can be written.
pub(super) fn check(schema: &Schema) -> Result<()> {
    let unknown = (0_u32..).zip(&schema.fields).find(|(_, field)| field.role.is_none());
    unknown.map_or(Ok(()), |(field, _)| Err(crate::ntuple::unknown(field, Feature::Role(u16::MAX))))
}

/// Where the zones of pages come from.
enum Finding<'a> {
    /// They were found before, of all pages of the list.
    Known(&'a [Option<Zone>]),
    /// Pages are looked at.
    Measured(&'a mut [Measure]),
    /// Nobody wants them.
    None,
}

/// Groups that are read together, with their memory.
struct Batch<'g> {
    first: u32,
    groups: &'g [Group],
    bufs: Vec<IoBuf>,
}

impl Writing {
    /// Puts those columns of all clusters of another ntuple that are wanted of its schema.
    pub(super) fn copy_all<S: Source, P: GoOn>(
        &mut self,
        class: ObjectClass,
        from: &Ntuple<S>,
        is_wanted: &[bool],
        mut progress: impl FnMut(u64) -> P,
    ) -> Result<Vec<Placed>> {
        // That they follow each other.
        from.all_clusters()?;
        let mut groups = from.groups_with(Entries { first: 0, end: from.entry_count() })?;
        groups.sort_by_key(|&group| from.group_entries(group).first);
        let mut placed = Vec::new();
        for group in groups {
            let list = from.page_lists(&[group])?[0];
            // Where they were found before, nothing has to be decompressed for them.
            let zones =
                from.source().zones(&from.list_links(group))?.filter(|zones| zones.len() == list.pages.len());
            let mut clusters: Vec<_> = list.clusters.iter().map(|pages| Cluster { pages, list }).collect();
            clusters.sort_by_key(|cluster| cluster.pages.first_entry);
            for cluster in clusters {
                crate::stop::check()?;
                placed.push(self.copy(class, from, &cluster, (is_wanted, zones.as_deref()))?);
                progress(cluster.pages.first_entry + cluster.pages.entry_count).go_on()?;
            }
        }
        Ok(placed)
    }

    /// Puts wanted columns of a cluster of another ntuple, of whose list these are the zones.
    fn copy<S: Source>(
        &mut self,
        class: ObjectClass,
        from: &Ntuple<S>,
        cluster: &Cluster<'_>,
        (is_wanted, zones): (&[bool], Option<&[Option<Zone>]>),
    ) -> Result<Placed> {
        let schema = &from.header().schema;
        let (first_entry, entry_count) = (cluster.pages.first_entry, cluster.pages.entry_count);
        let entries = Entries { first: first_entry, end: first_entry + entry_count };
        let damaged = |error| from.naming(error, entries, |_| true);
        let mut columns = Vec::new();
        let is_wanted = |number: usize| is_wanted.get(number).is_none_or(|is_wanted| *is_wanted);
        for (number, of_column) in cluster.pages.columns.iter().enumerate() {
            if !is_wanted(number) {
                columns.push(None);
                continue;
            }
            let pages = &cluster.list.pages[of_column.pages.clone()];
            for page in pages {
                vet(from, number, page)?;
            }
            let pages: Vec<_> =
                pages.iter().map(|page| placed_page(page.element_count, page.has_checksum)).collect();
            let known = vec![Known::default(); pages.len()];
            let placed = PlacedColumn { compression: of_column.compression, pages, known };
            columns.push(of_column.first_element.map(|_| placed));
        }
        let mut measures: Vec<_> =
            (0_u32..).zip(&schema.columns).map(|(number, column)| Measure::new(number, *column)).collect();
        let sizes = cluster.pages.columns.iter().enumerate().map(|(number, of_column)| {
            if !is_wanted(number) {
                return Vec::new();
            }
            cluster.list.pages[of_column.pages.clone()].iter().map(Page::bytes_with_sum).collect()
        });
        let groups = pack(&sizes.collect::<Vec<_>>(), &self.config.order, u64::from(self.config.group_bytes));
        self.numbers.renew()?;
        let number = self.numbers.next()?;
        let mut at = 0;
        while at < groups.len() {
            let mut bytes = 0;
            let fits = groups[at..].iter().take_while(|group| {
                bytes += group.bytes;
                bytes <= TOGETHER_BYTES_MAX
            });
            let count = fits.count().max(1);
            let first = u32::try_from(at).expect("a cluster has fewer groups");
            let some = &groups[at..at + count];
            let mut batch =
                Batch { first, groups: some, bufs: some.iter().map(room).collect::<Result<_>>()? };
            batch.read(from, cluster).map_err(damaged)?;
            let finding = match zones {
                Some(zones) => Finding::Known(zones),
                None if self.measures => Finding::Measured(&mut measures),
                None => Finding::None,
            };
            batch.look(number, cluster, finding, &mut columns).map_err(damaged)?;
            for (group, buf) in (first..).zip(batch.bufs) {
                self.write(class, (number, group), buf)?;
            }
            self.numbers.renew()?;
            at += count;
        }
        Ok(Placed { entry_count: cluster.pages.entry_count, columns })
    }
}

impl Batch<'_> {
    /// Reads all pages to where they go.
    fn read<S: Source>(&mut self, from: &Ntuple<S>, cluster: &Cluster<'_>) -> Result<()> {
        let mut wants = Vec::new();
        for (group, buf) in self.groups.iter().zip(&mut self.bufs) {
            let mut rest = &mut buf[..];
            for (no, _) in &group.pages {
                let page = cluster.list.pages[cluster.pages.columns[no.column].pages.start + no.page];
                let stored_bytes = usize::try_from(page.locator.bytes()).expect("there is memory for it");
                let (into, behind) = rest.split_at_mut(stored_bytes);
                wants.push(Want { locator: page.locator, into });
                rest = behind;
                if page.has_checksum {
                    let (into, behind) = rest.split_at_mut(CHECKSUM_BYTES);
                    wants.push(Want { locator: page.locator.behind(), into });
                    rest = behind;
                }
            }
        }
        from.source().fetch(&mut wants)
    }

    /// Looks at what was read, and says where it goes and what is known of it.
    fn look(
        &self,
        object: u64,
        cluster: &Cluster<'_>,
        mut zones: Finding<'_>,
        columns: &mut [Option<PlacedColumn>],
    ) -> Result<()> {
        for (at, (group, buf)) in (self.first..).zip(self.groups.iter().zip(&self.bufs)) {
            for &(no, offset) in &group.pages {
                let at_list = cluster.pages.columns[no.column].pages.start + no.page;
                let page = cluster.list.pages[at_list];
                let start = usize::try_from(offset).expect("the group is in memory");
                let end = start + usize::try_from(page.locator.bytes()).expect("the group is in memory");
                let stored = &buf[start..end];
                let sum = page.has_checksum.then(|| {
                    let sum = buf[end..].first_chunk::<CHECKSUM_BYTES>().expect("the group has it");
                    u64::from_le_bytes(*sum)
                });
                if sum.is_some_and(|sum| sum != checksum(stored)) {
                    let column = u32::try_from(no.column).expect("a schema has fewer columns");
                    let (structure, fault) = (Structure::Page { column }, Fault::Checksum);
                    return Err(Error::Corrupt { structure, offset: stored.len() as u64, fault });
                }
                let zone = match &mut zones {
                    Finding::Known(zones) => zones[at_list],
                    Finding::Measured(measures) => measures[no.column].next(page.element_count, stored)?,
                    Finding::None => None,
                };
                let placed = columns[no.column].as_mut().expect("it has pages");
                placed.pages[no.page].locator = locator(object, at, offset, stored.len())?;
                placed.known[no.page] = Known { zone, sum };
            }
        }
        Ok(())
    }
}

/// Looks at what a page claims before memory is taken for it.
fn vet<S: Source>(from: &Ntuple<S>, column: usize, page: &Page) -> Result<()> {
    let number = u32::try_from(column).expect("a schema has fewer columns");
    let structure = Structure::Page { column: number };
    let Some(column) = from.header().schema.columns.get(column) else {
        return Err(Error::Corrupt { structure, offset: 0, fault: Fault::Reference });
    };
    let bytes = page.locator.bytes();
    if bytes > PAGE_BYTES_MAX {
        return Err(Error::TooBig { structure, offset: 0, bytes, bytes_max: PAGE_BYTES_MAX });
    }
    if column.page_bytes(u64::from(page.element_count)).is_some_and(|whole| bytes > whole) {
        return Err(Error::Corrupt { structure, offset: 0, fault: Fault::Length });
    }
    from.source().holds(page.locator, page.bytes_with_sum())
}
