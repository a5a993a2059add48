//! Fields and their columns: the schema, as a header says it and a footer adds to it.
//!
//! Invariants: a field's parent has a smaller number, or its own, if the field is at the top; each column names a field that
//! is there; an alias names a column that is there.

use super::column::COLUMN_BYTES_MIN;
use super::{Builder, Cursor};
use crate::error::{Fault, Feature, Result};
use std::collections::{BTreeMap, BTreeSet};

pub use super::column::{Column, ColumnKind, InMemory};

/// What a field is in the tree of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A value, or what has one subfield in its place.
    Plain,
    /// Any number of its subfield.
    Collection,
    /// All of its subfields.
    Record,
    /// One of its subfields.
    Variant,
    /// Bytes that a streamer of ROOT made.
    Streamer,
}

/// The field is there several times in each entry.
const REPETITIVE: u16 = 0x01;

/// The field shows another's values.
const PROJECTED: u16 = 0x02;

/// The field's type has a checksum.
const TYPE_CHECKSUM: u16 = 0x04;

/// The field's type keeps its members as columns in memory, too.
const SOA: u16 = 0x08;

/// What the name of a collection begins with that ROOT's importer gives to branches of one length, before its number.
const NUMBERED: &str = "_collection";

/// Bytes of the shortest record of a field: its frame, numbers, and four empty strings.
const FIELD_BYTES_MIN: usize = 8 + 16 + 16;

/// Bytes of the record of an alias.
const ALIAS_BYTES_MIN: usize = 8 + 8;

/// Bytes of the shortest record of what is known of a type besides.
const EXTRA_BYTES_MIN: usize = 8 + 12;

/// One field.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name.
    pub name: Box<str>,
    /// Its type in C++, normalised; empty if it has none.
    pub type_name: Box<str>,
    /// Another name of the type.
    pub type_alias: Box<str>,
    /// What it is, for people.
    pub description: Box<str>,
    /// Version of what the field is on disk; 0 is known.
    pub field_version: u32,
    /// Version of the type; `u32::MAX` of a class without one.
    pub type_version: u32,
    /// The field above, or itself at the top.
    pub parent: u32,
    /// What it is in the tree; none if a later version of the format has it.
    pub role: Option<Role>,
    /// How many values each has, of a field that is there several times.
    pub repetition: Option<u64>,
    /// The field whose values it shows.
    pub source: Option<u32>,
    /// Checksum of the type's description.
    pub type_checksum: Option<u32>,
    /// Whether the type keeps its members as columns in memory, too.
    pub is_soa: bool,
}

/// An alias: a column of another field, as one of this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alias {
    /// The column whose pages there are.
    pub column: u32,
    /// The field that shows them.
    pub field: u32,
}

/// What is known of a type besides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extra {
    /// What the contents are; 0 is the descriptions of ROOT's streamers.
    pub content: u32,
    /// Version of the type.
    pub type_version: u32,
    /// Name of the type.
    pub type_name: Box<str>,
    /// The contents.
    pub bytes: Box<[u8]>,
}

/// Fields and columns, each at the place of its number.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Schema {
    /// Fields.
    pub fields: Vec<Field>,
    /// Columns with pages.
    pub columns: Vec<Column>,
    /// Columns that show others.
    pub aliases: Vec<Alias>,
    /// What is known of types besides.
    pub extras: Vec<Extra>,
}

impl Schema {
    /// Numbers of the fields at the top, in their order.
    pub fn tops(&self) -> impl Iterator<Item = u32> {
        (0_u32..)
            .zip(&self.fields)
            .filter(|(number, field)| field.parent == *number)
            .map(|(number, _)| number)
    }

    /// How many elements a column of a field has of each entry, unless collections are above it.
    pub(crate) fn times(&self, mut field: u32) -> u64 {
        let mut times = 1_u64;
        loop {
            let described = &self.fields[field as usize];
            times = times.saturating_mul(described.repetition.unwrap_or(1));
            if described.parent == field {
                return times;
            }
            field = described.parent;
        }
    }

    /// Numbers of the subfields of a field.
    pub(crate) fn below(&self, field: u32) -> impl Iterator<Item = u32> {
        let numbered = (0_u32..).zip(&self.fields);
        numbered
            .filter(move |(number, below)| below.parent == field && *number != field)
            .map(|(number, _)| number)
    }

    /// Numbers of the subfields of each field.
    pub(crate) fn children(&self) -> Vec<Vec<u32>> {
        let mut children = vec![Vec::new(); self.fields.len()];
        for (number, field) in (0_u32..).zip(&self.fields) {
            if field.parent != number {
                children[field.parent as usize].push(number);
            }
        }
        children
    }

    /// The name of a field behind those above it, with dots between.
    pub(crate) fn dotted(&self, mut number: u32) -> Box<str> {
        let mut names = Vec::new();
        loop {
            let field = &self.fields[number as usize];
            names.push(&*field.name);
            if field.parent == number {
                break;
            }
            number = field.parent;
        }
        names.reverse();
        names.join(".").into()
    }

    /// The field at the top that a field is below, or is.
    #[must_use]
    pub fn top(&self, mut field: u32) -> u32 {
        while self.fields[field as usize].parent != field {
            field = self.fields[field as usize].parent;
        }
        field
    }

    /// For each field the one by whose name its values are known: itself, or, of a collection that has a number for a name (`_collection7`)
    /// and of what is below it, the projected one that shows it. Of several it is one of `wanted`, if there is one, and how many there are
    /// before lists of them.
    #[must_use]
    pub fn known_as(&self, wanted: &BTreeSet<u32>) -> Vec<u32> {
        let mut best = BTreeMap::new();
        for (number, field) in (0_u32..).zip(&self.fields) {
            let Some(source) = field.source.filter(|&source| (source as usize) < self.fields.len()) else {
                continue;
            };
            if self.fields[self.top(source) as usize].is_numbered() {
                let rank = (!wanted.contains(&number), field.role != Some(Role::Plain), number);
                best.entry(source).and_modify(|best| *best = rank.min(*best)).or_insert(rank);
            }
        }
        (0_u32..)
            .zip(&self.fields)
            .map(|(number, _)| best.get(&number).map_or(number, |(.., shows)| *shows))
            .collect()
    }

    /// Adds what four lists say, as a header has them at its end and a footer in its extension.
    pub(super) fn extend(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let (mut list, count) = cursor.list(FIELD_BYTES_MIN)?;
        for _ in 0..count {
            let number = self.fields.len();
            let field = read_field(&mut list, number)?;
            self.fields.push(field);
        }
        let (mut list, count) = cursor.list(COLUMN_BYTES_MIN)?;
        for _ in 0..count {
            let start = list;
            let column = Column::read(&mut list)?;
            if column.field as usize >= self.fields.len() {
                return Err(start.corrupt(Fault::Reference));
            }
            self.columns.push(column);
        }
        let (mut list, count) = cursor.list(ALIAS_BYTES_MIN)?;
        for _ in 0..count {
            let start = list;
            let mut record = list.record()?;
            let alias = Alias { column: record.u32()?, field: record.u32()? };
            if alias.column as usize >= self.columns.len() || alias.field as usize >= self.fields.len() {
                return Err(start.corrupt(Fault::Reference));
            }
            self.aliases.push(alias);
        }
        let (mut list, count) = cursor.list(EXTRA_BYTES_MIN)?;
        for _ in 0..count {
            self.extras.push(read_extra(&mut list)?);
        }
        Ok(())
    }

    /// The four lists of what is here behind the first `fields`, `columns`, … of `known`.
    pub(super) fn write_behind(&self, known: &Known, builder: &mut Builder) {
        self.write_part(known, &self.known(), builder);
    }

    /// The four lists of what is from `start` up to `end`.
    pub(super) fn write_part(&self, start: &Known, end: &Known, builder: &mut Builder) {
        builder.list(self.fields[start.fields..end.fields].iter(), write_field);
        builder.list(self.columns[start.columns..end.columns].iter(), |list, column| column.write(list));
        builder.list(self.aliases[start.aliases..end.aliases].iter(), |list, alias| {
            list.record(|record| {
                record.u32(alias.column);
                record.u32(alias.field);
            });
        });
        builder.list(self.extras[start.extras..end.extras].iter(), |list, extra| {
            list.record(|record| {
                record.u32(extra.content);
                record.u32(extra.type_version);
                record.string(&extra.type_name);
                record.u32(u32::try_from(extra.bytes.len()).expect("descriptions have fewer bytes"));
                record.put(&extra.bytes);
            });
        });
    }

    /// Whether it is another one, with what may stand behind that.
    #[must_use]
    pub fn begins_with(&self, other: &Self) -> bool {
        let known = other.known();
        self.fields.get(..known.fields) == Some(&other.fields)
            && self.columns.get(..known.columns) == Some(&other.columns)
            && self.aliases.get(..known.aliases) == Some(&other.aliases)
            && self.extras.get(..known.extras) == Some(&other.extras)
    }

    /// How much there is of each.
    #[must_use]
    pub fn known(&self) -> Known {
        Known {
            fields: self.fields.len(),
            columns: self.columns.len(),
            aliases: self.aliases.len(),
            extras: self.extras.len(),
        }
    }
}

/// How many fields, columns, aliases and extras there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// Fields.
    pub fields: usize,
    /// Columns.
    pub columns: usize,
    /// Aliases.
    pub aliases: usize,
    /// Extras.
    pub extras: usize,
}

fn read_field(list: &mut Cursor<'_>, number: usize) -> Result<Field> {
    let mut record = list.record()?;
    let start = record;
    let (field_version, type_version, parent) = (record.u32()?, record.u32()?, record.u32()?);
    if parent as usize > number {
        return Err(start.corrupt(Fault::Reference));
    }
    let role = match record.u16()? {
        0 => Some(Role::Plain),
        1 => Some(Role::Collection),
        2 => Some(Role::Record),
        3 => Some(Role::Variant),
        4 => Some(Role::Streamer),
        _ => None,
    };
    let flags = record.u16()?;
    let (name, type_name) = (record.string()?, record.string()?);
    let (type_alias, description) = (record.string()?, record.string()?);
    let repetition = if flags & REPETITIVE != 0 { Some(record.u64()?) } else { None };
    let source = if flags & PROJECTED != 0 { Some(record.u32()?) } else { None };
    let type_checksum = if flags & TYPE_CHECKSUM != 0 { Some(record.u32()?) } else { None };
    let is_soa = flags & SOA != 0;
    Ok(Field {
        name,
        type_name,
        type_alias,
        description,
        field_version,
        type_version,
        parent,
        role,
        repetition,
        source,
        type_checksum,
        is_soa,
    })
}

fn write_field(list: &mut Builder, field: &Field) {
    list.record(|record| {
        record.u32(field.field_version);
        record.u32(field.type_version);
        record.u32(field.parent);
        record.u16(match field.role.expect("only fields of known roles are written") {
            Role::Plain => 0,
            Role::Collection => 1,
            Role::Record => 2,
            Role::Variant => 3,
            Role::Streamer => 4,
        });
        let flags = [
            (field.repetition.is_some(), REPETITIVE),
            (field.source.is_some(), PROJECTED),
            (field.type_checksum.is_some(), TYPE_CHECKSUM),
            (field.is_soa, SOA),
        ];
        record.u16(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
        for text in [&field.name, &field.type_name, &field.type_alias, &field.description] {
            record.string(text);
        }
        if let Some(count) = field.repetition {
            record.u64(count);
        }
        for number in [field.source, field.type_checksum].into_iter().flatten() {
            record.u32(number);
        }
    });
}

fn read_extra(list: &mut Cursor<'_>) -> Result<Extra> {
    let mut record = list.record()?;
    let (content, type_version, type_name) = (record.u32()?, record.u32()?, record.string()?);
    let count = record.u32()?;
    let bytes = record.take(count as usize)?.into();
    Ok(Extra { content, type_version, type_name, bytes })
}

impl Field {
    /// Whether it has a number for a name, by which nobody knows it.
    fn is_numbered(&self) -> bool {
        let number = self.name.strip_prefix(NUMBERED);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// A field without a type or anything special: below `parent`, or at the top, where that is its own number.
    #[must_use]
    pub(crate) fn plain(name: &str, role: Role, parent: u32) -> Self {
        Self {
            name: name.into(),
            type_name: "".into(),
            type_alias: "".into(),
            description: "".into(),
            field_version: 0,
            type_version: 0,
            parent,
            role: Some(role),
            repetition: None,
            source: None,
            type_checksum: None,
            is_soa: false,
        }
    }

    /// What of this field a later version of the format has, and this program does not know.
    #[must_use]
    pub fn unknown(&self) -> Option<Feature> {
        if self.role.is_none() {
            return Some(Feature::Role(u16::MAX));
        }
        (self.field_version != 0).then_some(Feature::FieldVersion(self.field_version))
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Role, Schema};
    use std::collections::BTreeSet;

    #[test]
    fn what_a_collection_with_a_number_for_a_name_has_is_known_by_the_fields_that_show_it() {
        let shows = |name, role, parent, source| Field { source, ..Field::plain(name, role, parent) };
        for (name, is_numbered) in [("_collection7", true), ("_collection", false), ("Muon", false)] {
            let fields = vec![
                Field::plain(name, Role::Collection, 0),
                Field::plain("_0", Role::Record, 0),
                Field::plain("pt", Role::Plain, 1),
                Field::plain("left_out", Role::Plain, 1),
                shows("Muon_pt", Role::Collection, 4, Some(0)),
                shows("_0", Role::Plain, 4, Some(2)),
                shows("nMuon", Role::Plain, 6, Some(0)),
                shows("of_nothing", Role::Plain, 7, Some(9)),
            ];
            let schema = Schema { fields, ..Schema::default() };
            let same: Vec<_> = (0..8).collect();
            let known_as = |wanted: &[u32]| schema.known_as(&BTreeSet::from_iter(wanted.iter().copied()));
            let of_all = if is_numbered { vec![6, 1, 5, 3, 4, 5, 6, 7] } else { same.clone() };
            assert_eq!(known_as(&[]), of_all, "{name}");
            assert_eq!(known_as(&same), of_all, "{name}");
            assert_eq!(known_as(&[4, 5])[0], if is_numbered { 4 } else { 0 }, "{name}");
            assert_eq!(schema.top(2), 0);
        }
    }
}
