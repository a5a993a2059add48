//! A schema for arrays.

use crate::array::{Array, Lists, Values};
use crate::error::{BadName, Error, Fit, Named, Result};
use crate::format::Header;
use crate::format::block::Compression;
use crate::format::schema::{Column, ColumnKind, Field, InMemory, Role, Schema};

/// Fields within each other that a schema has at most; readers go no deeper.
pub(crate) const DEPTH_MAX: usize = 60;

/// Adds to `schema` fields at the top for arrays, with columns as they are best for that compression: what is compressed is split.
///
/// Types are those of C++ that ROOT has for them: `std::vector`, `std::string`, `std::array`, `std::variant`; records, and what has some in it,
/// have none.
///
/// # Errors
/// [`Error::NoFit`] of a name that is there already, and of bytes that a streamer made; [`Error::BadName`] of one that ROOT does not read.
pub fn schema(schema: &mut Schema, fields: &[(&str, &Array)], compression: Compression) -> Result<()> {
    for (name, array) in fields {
        let is_there = |field: &Field| &*field.name == *name;
        if schema.tops().any(|number| is_there(&schema.fields[number as usize])) {
            return Err(Error::NoFit { field: (*name).into(), fit: Fit::Twice });
        }
        let mut made = Made { schema, compression, top: name };
        made.add(None, name, array, 0)?;
    }
    Ok(())
}

/// Why nothing that is written can be called so: ROOT reads no ntuple with such a name, or with a field of it.
///
/// //= root:tree/ntuple/src/RNTupleUtils.cxx EnsureValidNameForRNTuple
fn bad_name(name: &str) -> Option<BadName> {
    let is_bad = |found: &char| matches!(found, '.' | '/' | ' ' | '\\') || found.is_ascii_control();
    if name.is_empty() { Some(BadName::Empty) } else { name.chars().find(is_bad).map(BadName::Has) }
}

/// Whether an ntuple and its fields can be called as they are, for what is written anew; what comes from elsewhere keeps the names that it has.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_names(header: &Header) -> Result<()> {
    check_name(&header.name)?;
    let bad = header.schema.fields.iter().find_map(|field| Some((field, bad_name(&field.name)?)));
    bad.map_or(Ok(()), |(field, why)| Err(Error::BadName { of: Named::Field, name: field.name.clone(), why }))
}

/// Whether an ntuple that is made can be called so.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_name(name: &str) -> Result<()> {
    // What is behind it ROOT takes for the number of a cycle.
    let cycle = || name.contains(';').then_some(BadName::Has(';'));
    let why = bad_name(name).or_else(cycle);
    why.map_or(Ok(()), |why| Err(Error::BadName { of: Named::Ntuple, name: name.into(), why }))
}

struct Made<'a> {
    schema: &'a mut Schema,
    compression: Compression,
    top: &'a str,
}

impl Made<'_> {
    fn no_fit(&self, fit: Fit) -> Error {
        Error::NoFit { field: self.top.into(), fit }
    }

    /// The name of a field with those above it.
    fn path(&self, parent: Option<u32>, name: &str) -> String {
        match parent {
            Some(parent) => format!("{}.{name}", self.schema.dotted(parent)),
            None => name.to_owned(),
        }
    }

    /// Adds a field and all below it; its type.
    fn add(&mut self, parent: Option<u32>, name: &str, array: &Array, depth: usize) -> Result<Box<str>> {
        if let Some(why) = bad_name(name) {
            return Err(Error::BadName { of: Named::Field, name: self.path(parent, name).into(), why });
        }
        if depth > DEPTH_MAX {
            return Err(self.no_fit(Fit::Depth));
        }
        let number = self.count();
        let (role, repetition) = match array {
            Array::Values(_) | Array::Lists { of: Lists::Text, .. } => (Role::Plain, None),
            Array::Lists { of: Lists::Items, .. } => (Role::Collection, None),
            Array::Lists { of: Lists::Streamed, .. } => return Err(self.no_fit(Fit::Kind)),
            Array::Repeated { count, .. } => (Role::Plain, Some(*count)),
            Array::Record { .. } => (Role::Record, None),
            Array::Variant { .. } => (Role::Variant, None),
        };
        self.schema.fields.push(Field { repetition, ..Field::plain(name, role, parent.unwrap_or(number)) });
        for kind in self.kinds(array) {
            self.schema.columns.push(Column {
                kind,
                bits: kind.bits().expect("no unknown kind is written").1,
                field: number,
                representation: 0,
                first_element: 0,
                range: None,
            });
        }
        let type_name = self.add_contents(number, array, depth)?;
        self.schema.fields[number as usize].type_name.clone_from(&type_name);
        Ok(type_name)
    }

    /// Adds what is below a field; the type of all.
    fn add_contents(&mut self, number: u32, array: &Array, depth: usize) -> Result<Box<str>> {
        let within = |inner: &str, before: &str, after: &str| -> Box<str> {
            if inner.is_empty() { "".into() } else { format!("{before}{inner}{after}").into() }
        };
        Ok(match array {
            Array::Values(values) => type_name(values).into(),
            Array::Lists { of: Lists::Items, content, .. } => {
                within(&self.add(Some(number), "_0", content, depth + 1)?, "std::vector<", ">")
            }
            Array::Lists { .. } => "std::string".into(),
            Array::Repeated { count, content, .. } => {
                let inner = self.add(Some(number), "_0", content, depth + 1)?;
                within(&inner, "std::array<", &format!(",{count}>"))
            }
            Array::Record { fields, .. } => {
                for (at, (name, field)) in fields.iter().enumerate() {
                    if fields[..at].iter().any(|(other, _)| other == name) {
                        return Err(self.no_fit(Fit::Twice));
                    }
                    self.add(Some(number), name, field, depth + 1)?;
                }
                "".into()
            }
            Array::Variant { contents, .. } => {
                let mut inner = Vec::new();
                for (at, content) in contents.iter().enumerate() {
                    inner.push(self.add(Some(number), &format!("_{at}"), content, depth + 1)?);
                }
                let is_named = inner.iter().all(|name| !name.is_empty());
                if is_named { format!("std::variant<{}>", inner.join(",")).into() } else { "".into() }
            }
        })
    }

    fn count(&self) -> u32 {
        u32::try_from(self.schema.fields.len()).expect("memory has fewer fields")
    }

    /// Kinds of the columns of a field itself.
    fn kinds(&self, array: &Array) -> Vec<ColumnKind> {
        let is_split = self.compression != Compression::None;
        let index = if is_split { ColumnKind::SplitIndex64 } else { ColumnKind::Index64 };
        match array {
            Array::Values(values) => vec![number(values.kind(), is_split)],
            Array::Lists { of: Lists::Items, .. } => vec![index],
            Array::Lists { .. } => vec![index, ColumnKind::Char],
            Array::Repeated { .. } | Array::Record { .. } => Vec::new(),
            Array::Variant { .. } => vec![ColumnKind::Switch],
        }
    }
}

/// The kind of columns for numbers of that kind, split or as they are in memory.
#[must_use]
pub fn number(kind: InMemory, is_split: bool) -> ColumnKind {
    use ColumnKind as K;
    let (plain, split) = match kind {
        InMemory::Bool => (K::Bit, K::Bit),
        InMemory::I8 => (K::Int8, K::Int8),
        InMemory::U8 => (K::UInt8, K::UInt8),
        InMemory::I16 => (K::Int16, K::SplitInt16),
        InMemory::U16 => (K::UInt16, K::SplitUInt16),
        InMemory::I32 => (K::Int32, K::SplitInt32),
        InMemory::U32 => (K::UInt32, K::SplitUInt32),
        InMemory::I64 => (K::Int64, K::SplitInt64),
        InMemory::U64 => (K::UInt64, K::SplitUInt64),
        InMemory::F32 => (K::Real32, K::SplitReal32),
        InMemory::F64 => (K::Real64, K::SplitReal64),
        InMemory::Offset => (K::Index64, K::SplitIndex64),
        InMemory::Switch => (K::Switch, K::Switch),
    };
    if is_split { split } else { plain }
}

/// The type in C++, as ROOT writes it.
fn type_name(values: &Values) -> &'static str {
    match values {
        Values::Bool(_) => "bool",
        Values::I8(_) => "std::int8_t",
        Values::U8(_) => "std::uint8_t",
        Values::I16(_) => "std::int16_t",
        Values::U16(_) => "std::uint16_t",
        Values::I32(_) => "std::int32_t",
        Values::U32(_) => "std::uint32_t",
        Values::I64(_) => "std::int64_t",
        Values::U64(_) => "std::uint64_t",
        Values::F32(_) => "float",
        Values::F64(_) => "double",
    }
}
