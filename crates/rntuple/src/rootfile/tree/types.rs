//! Types of branches, and fields of an ntuple that have the same values.

use crate::format::column::{Column, ColumnKind, InMemory};
use crate::format::schema::{Field, Role, Schema};

/// A number of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Number {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// What it is in memory.
    #[must_use]
    pub fn in_memory(self) -> InMemory {
        match self {
            Self::Bool => InMemory::Bool,
            Self::I8 => InMemory::I8,
            Self::U8 => InMemory::U8,
            Self::I16 => InMemory::I16,
            Self::U16 => InMemory::U16,
            Self::I32 => InMemory::I32,
            Self::U32 => InMemory::U32,
            Self::I64 => InMemory::I64,
            Self::U64 => InMemory::U64,
            Self::F32 => InMemory::F32,
            Self::F64 => InMemory::F64,
        }
    }

    /// Bytes of one, in memory and in a basket.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.in_memory().bytes()
    }

    /// Its name as fields of an ntuple have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "std::int8_t",
            Self::U8 => "std::uint8_t",
            Self::I16 => "std::int16_t",
            Self::U16 => "std::uint16_t",
            Self::I32 => "std::int32_t",
            Self::U32 => "std::uint32_t",
            Self::I64 => "std::int64_t",
            Self::U64 => "std::uint64_t",
            Self::F32 => "float",
            Self::F64 => "double",
        }
    }

    /// The column that ROOT gives such a field.
    fn column(self) -> ColumnKind {
        match self {
            Self::Bool => ColumnKind::Bit,
            Self::I8 => ColumnKind::Int8,
            Self::U8 => ColumnKind::UInt8,
            Self::I16 => ColumnKind::SplitInt16,
            Self::U16 => ColumnKind::SplitUInt16,
            Self::I32 => ColumnKind::SplitInt32,
            Self::U32 => ColumnKind::SplitUInt32,
            Self::I64 => ColumnKind::SplitInt64,
            Self::U64 => ColumnKind::SplitUInt64,
            Self::F32 => ColumnKind::SplitReal32,
            Self::F64 => ColumnKind::SplitReal64,
        }
    }
}

/// What a collection is in C++.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names of the standard library say it")]
pub enum Container {
    Vector,
    Set,
    UnorderedSet,
    MultiSet,
    UnorderedMultiSet,
    Map,
    UnorderedMap,
    MultiMap,
    UnorderedMultiMap,
}

impl Container {
    /// Its name in C++.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "std::vector",
            Self::Set => "std::set",
            Self::UnorderedSet => "std::unordered_set",
            Self::MultiSet => "std::multiset",
            Self::UnorderedMultiSet => "std::unordered_multiset",
            Self::Map => "std::map",
            Self::UnorderedMap => "std::unordered_map",
            Self::MultiMap => "std::multimap",
            Self::UnorderedMultiMap => "std::unordered_multimap",
        }
    }

    /// Whether its items are pairs of key and value.
    #[must_use]
    pub fn is_map(self) -> bool {
        matches!(self, Self::Map | Self::UnorderedMap | Self::MultiMap | Self::UnorderedMultiMap)
    }
}

/// The type of a branch, or of what it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// A number.
    Number(Number),
    /// A text.
    Text,
    /// Any number of items.
    List {
        /// What has them.
        container: Container,
        /// What each is.
        item: Box<Type>,
    },
    /// The same number of items each.
    Array {
        /// How many.
        count: u64,
        /// What each is.
        item: Box<Type>,
    },
    /// Several fields.
    Record {
        /// Its class; empty of what has none.
        class: Box<str>,
        /// Names and types of the fields.
        fields: Vec<(Box<str>, Type)>,
    },
}

impl Type {
    /// Its name as fields of an ntuple have it; empty of records, which have fields in place of a name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Number(number) => number.name().into(),
            Self::Text => "std::string".into(),
            Self::Record { class, fields } => match class.split('<').next().unwrap_or("") {
                class @ ("pair" | "tuple") => {
                    let names: Vec<_> = fields.iter().map(|(_, field)| field.name()).collect();
                    // A tuple is described from its last part to its first.
                    let is_in_order =
                        fields.iter().enumerate().all(|(at, (name, _))| **name == format!("_{at}"));
                    if !is_in_order || names.iter().any(String::is_empty) {
                        String::new()
                    } else {
                        format!("std::{class}<{}>", names.join(","))
                    }
                }
                _ => String::new(),
            },
            Self::Array { count, item } => wrapped("std::array", &item.name(), &format!(",{count}")),
            Self::List { container, item } if container.is_map() => {
                let pair = item.name();
                let arguments = pair.strip_prefix("std::pair<").and_then(|rest| rest.strip_suffix('>'));
                wrapped(container.name(), arguments.unwrap_or(""), "")
            }
            Self::List { container, item } => wrapped(container.name(), &item.name(), ""),
        }
    }

    /// Adds a field of this type at the top of `schema`, with its columns; its number.
    ///
    /// # Panics
    /// If the schema has 2^32 fields.
    pub fn add_to(&self, schema: &mut Schema, name: &str) -> u32 {
        self.add(schema, None, name)
    }

    fn add(&self, schema: &mut Schema, parent: Option<u32>, name: &str) -> u32 {
        let number = u32::try_from(schema.fields.len()).expect("a schema has fewer fields");
        let (role, repetition) = match self {
            Self::Number(_) | Self::Text => (Role::Plain, None),
            Self::Array { count, .. } => (Role::Plain, Some(*count)),
            Self::List { .. } => (Role::Collection, None),
            Self::Record { .. } => (Role::Record, None),
        };
        schema.fields.push(Field {
            type_name: self.name().into(),
            repetition,
            ..Field::plain(name, role, parent.unwrap_or(number))
        });
        match self {
            Self::Number(kind) => add_column(schema, number, kind.column()),
            Self::Text => {
                add_column(schema, number, ColumnKind::SplitIndex64);
                add_column(schema, number, ColumnKind::Char);
            }
            Self::Array { item, .. } => {
                item.add(schema, Some(number), "_0");
            }
            Self::List { item, .. } => {
                add_column(schema, number, ColumnKind::SplitIndex64);
                item.add(schema, Some(number), "_0");
            }
            Self::Record { fields, .. } => {
                for (name, field) in fields {
                    field.add(schema, Some(number), name);
                }
            }
        }
        number
    }
}

/// The name of a class of one type; none if the type has none.
fn wrapped(class: &str, item: &str, behind: &str) -> String {
    if item.is_empty() { String::new() } else { format!("{class}<{item}{behind}>") }
}

fn add_column(schema: &mut Schema, field: u32, kind: ColumnKind) {
    let bits = kind.bits().expect("a known kind has bits").0;
    schema.columns.push(Column { kind, bits, field, representation: 0, first_element: 0, range: None });
}
