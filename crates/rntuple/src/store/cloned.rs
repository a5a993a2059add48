//! Fields of an ntuple as another one, which has the same pages: nothing but metadata is written.

use super::base::{Base, Placed, PlacedColumn};
use super::catalogue::{CreateOptions, Store, Stored, When};
use super::commit::Version;
use super::home::At;
use super::import;
use super::record::{Anchor, Made};
use crate::error::{AskedBy, Error, Fault, Result, Structure};
use crate::format::Header;
use crate::format::schema::{Alias, Column, Field, Known, Schema};
use crate::ntuple::{Entries, Ntuple};
use crate::source::Source;
use dolmen_client::ObjectClass;

/// Some fields of a schema, and which columns of it are theirs.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) schema: Schema,
    /// What of it was in the header.
    known: Known,
    /// The number of each of its columns in the whole.
    pub(super) columns: Vec<usize>,
}

impl Store {
    /// Makes an ntuple `name` of fields at the top of a version of another one, by their names, or of all if none are named. The two have the
    /// same pages, which are there as long as one of them needs them; what is done with one is not seen in the other.
    ///
    /// # Errors
    /// [`Error::OtherStore`], [`Error::NoField`], [`Error::NoVersion`], [`Error::Exists`]; those of reading metadata; [`Error::Store`].
    pub fn clone_fields(
        &self,
        from: &Stored,
        when: When<'_>,
        fields: &[&str],
        name: &str,
    ) -> Result<Version> {
        self.check_name(name)?;
        crate::write::check_name(name)?;
        if !self.home().is(from.home())? {
            return Err(Error::OtherStore);
        }
        // By this store, whose transactions know no other handle; what the other shows may be of a snapshot.
        let (seen, from) = (from, &self.numbered(from.name(), from.number()));
        from.with_current(|| match self.clone_once(from, seen.anchor_of(At::Latest, when)?, fields, name) {
            // It was current when it was looked at.
            Err(Error::NoVersion { name, by: AskedBy::Number, .. }) if matches!(when, When::Now) => {
                Err(Error::Freed { version: name.parse().unwrap_or(0) })
            }
            done => done,
        })
    }

    fn clone_once(&self, from: &Stored, anchor: Anchor, fields: &[&str], name: &str) -> Result<Version> {
        let source = from.source(&anchor);
        let ntuple = Ntuple::open_families(source, &anchor.header, &anchor.footers)?;
        let part = part(&ntuple, fields)?;
        import::check(&part.schema)?;
        let config = from.config(At::Latest)?;
        let order = config.order.iter().filter_map(|&column| {
            let place = part.columns.iter().position(|&of_part| of_part == column as usize)?;
            u32::try_from(place).ok()
        });
        let options = CreateOptions {
            group_bytes: Some(config.group_bytes),
            class: ObjectClass(anchor.class),
            keep_ns: config.keep_ns,
            order: order.collect(),
            measures: true,
        };
        let header =
            Header { name: name.into(), schema: part.schema.clone(), checksum: 0, ..ntuple.header().clone() };
        let (base, envelope) = Base::before_first(&header, part.known, options.class);
        let clusters = clusters(&ntuple, &part.columns)?;
        let mut numbers = self.numbers();
        let stored = self.numbered(name, numbers.next()?);
        let mut first = base.append(&clusters, Made::Cloned, self.now_ns())?;
        first.put_header(&envelope)?;
        let done = self.publish_if(&stored, &first, &options, &numbers, |at| {
            // As long as the version is there, of an ntuple that has its name, its pages are; from now on they are this one's, too.
            from.check_named(at)?;
            match from.anchor(at, anchor.version)? {
                now if now == anchor => Ok(()),
                // A snapshot was gone back to, and the version is another one of its number.
                _ => Err(Error::Freed { version: anchor.version }),
            }
        });
        numbers.given_up_unless(done)?;
        Ok(Version::of(&first.base.anchor))
    }
}

/// The clusters of an ntuple with some of its columns.
fn clusters(ntuple: &Ntuple<super::StoreSource>, columns: &[usize]) -> Result<Vec<Placed>> {
    let mut clusters = Vec::new();
    for at in ntuple.groups_with(Entries { first: 0, end: ntuple.entry_count() })? {
        let list = ntuple.page_lists(&[at])?[0];
        let known = ntuple.source().known(&ntuple.list_links(at))?;
        if known.len() != list.pages.len() {
            return Err(Error::Corrupt { structure: Structure::Zones, offset: 0, fault: Fault::Length });
        }
        crate::stop::check()?;
        for pages in &list.clusters {
            let placed = |&number: &usize| {
                let column = pages.columns.get(number)?;
                column.first_element.map(|_| PlacedColumn {
                    compression: column.compression,
                    pages: list.pages[column.pages.clone()].to_vec(),
                    known: known[column.pages.clone()].to_vec(),
                })
            };
            let columns = columns.iter().map(placed).collect();
            clusters.push(Placed { entry_count: pages.entry_count, columns });
        }
    }
    Ok(clusters)
}

/// The part of a schema that fields at the top are. A field that shows another's values has them for its own if that is not of the part.
pub(super) fn part<S: Source>(ntuple: &Ntuple<S>, names: &[&str]) -> Result<Part> {
    let (schema, known) = (&ntuple.header().schema, ntuple.known());
    let mut is_in = vec![names.is_empty(); schema.fields.len()];
    for name in names {
        let is_it = |number: &u32| &*schema.fields[*number as usize].name == *name;
        let field = ntuple.top_fields().find(is_it);
        let none = || {
            let names = ntuple.top_fields().map(|number| &*schema.fields[number as usize].name);
            Error::no_field(name, names)
        };
        is_in[field.ok_or_else(none)? as usize] = true;
    }
    for number in 0..schema.fields.len() {
        is_in[number] = is_in[number] || is_in[schema.fields[number].parent as usize];
    }
    let mut numbers = vec![None; schema.fields.len()];
    let chosen = (0..schema.fields.len()).filter(|&number| is_in[number]);
    for (next, number) in (0_u32..).zip(chosen) {
        numbers[number] = Some(next);
    }
    let new = |field: u32| numbers[field as usize];
    let mut of_part = Schema { extras: schema.extras.clone(), ..Schema::default() };
    for (number, field) in schema.fields.iter().enumerate() {
        let (Some(_), Some(parent)) = (numbers[number], new(field.parent)) else { continue };
        of_part.fields.push(Field { parent, source: field.source.and_then(new), ..field.clone() });
    }
    let (mut columns, mut places) = (Vec::new(), vec![None; schema.columns.len()]);
    for (number, column) in schema.columns.iter().enumerate() {
        let Some(field) = new(column.field) else { continue };
        places[number] = Some(u32::try_from(columns.len()).expect("a schema has fewer columns"));
        columns.push(number);
        of_part.columns.push(Column { field, ..*column });
    }
    let count = |all: usize, is_of: &dyn Fn(usize) -> bool| (0..all).filter(|&at| is_of(at)).count();
    let of_fields = count(known.fields, &|at| is_in[at]);
    let of_columns = count(known.columns, &|at| places[at].is_some());
    let mut of_aliases = 0;
    for (at, alias) in schema.aliases.iter().enumerate() {
        let Some(field) = new(alias.field) else { continue };
        let number = alias.column as usize;
        if let Some(column) = places[number] {
            of_part.aliases.push(Alias { column, field });
            of_aliases += usize::from(at < known.aliases);
        } else {
            columns.push(number);
            of_part.columns.push(Column { field, ..schema.columns[number] });
        }
    }
    let known = Known { fields: of_fields, columns: of_columns, aliases: of_aliases, extras: known.extras };
    Ok(Part { schema: of_part, known, columns })
}
