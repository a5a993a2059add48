//! Ntuples made of values: a type, values of it, and the bytes that a file has of them.

use dolmen_rntuple::format::block::{Compression, compress};
use dolmen_rntuple::format::footer::{ClusterGroup, Footer};
use dolmen_rntuple::format::locator::{Link, Locator};
use dolmen_rntuple::format::page_list::{ClusterPages, ColumnPages, Page, PageList};
use dolmen_rntuple::format::schema::{Column, ColumnKind, Field, InMemory, Role, Schema};
use dolmen_rntuple::format::{Header, checksum, encoding};
use dolmen_rntuple::rootfile::Anchor;
use dolmen_rntuple::{Array, Values};

/// A type of a field.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Number(ColumnKind),
    Text(ColumnKind),
    List(ColumnKind, Box<Type>),
    Repeated(u64, Box<Type>),
    Record(Vec<Type>),
    Variant(Vec<Type>),
}

/// A value, whatever its type: numbers as their bytes in memory.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Number(Vec<u8>),
    Text(Vec<u8>),
    Several(Vec<Value>),
    One(Option<(usize, Box<Value>)>),
}

/// How pages and clusters are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) compression: Compression,
    pub(crate) elements_of_a_page: usize,
    pub(crate) entries_of_a_cluster: usize,
    pub(crate) clusters_of_a_group: usize,
    pub(crate) has_checksums: bool,
}

/// The bytes of a file with one ntuple of one field, and where it begins.
pub(crate) fn file(of: &Type, values: &[Value], how: How) -> (Vec<u8>, Anchor) {
    let mut schema = Schema::default();
    add_field(&mut schema, None, of, "field");
    let (name, writer) = ("made".into(), "these tests".into());
    let header = Header { name, description: "".into(), writer, schema, checksum: 0 };
    with_header(&header, of, values, how)
}

fn with_header(header: &Header, of: &Type, values: &[Value], how: How) -> (Vec<u8>, Anchor) {
    // Room for what a file of ROOT has at its start.
    let mut bytes = vec![0; 200];
    let (envelope, header_sum) = header.write();
    let header_link = put_envelope(&mut bytes, &envelope, how);
    let schema = &header.schema;
    let mut firsts = vec![0_u64; schema.columns.len()];
    let (mut groups, mut list, mut first_entry) = (Vec::new(), PageList::default(), 0);
    let clusters: Vec<_> = values.chunks(how.entries_of_a_cluster).collect();
    for (at, entries) in clusters.iter().enumerate() {
        let mut columns = vec![Vec::new(); schema.columns.len()];
        entries.iter().for_each(|value| shred(schema, 0, of, value, &mut columns));
        let mut described = Vec::new();
        for ((column, elements), first) in schema.columns.iter().zip(columns).zip(&mut firsts) {
            described.push(put_column(&mut bytes, &mut list, column, &elements, first, how));
        }
        let entry_count = entries.len() as u64;
        list.clusters.push(ClusterPages { first_entry, entry_count, columns: described });
        first_entry += entry_count;
        if list.clusters.len() == how.clusters_of_a_group || at + 1 == clusters.len() {
            let of_group = core::mem::take(&mut list);
            let page_list = put_envelope(&mut bytes, &of_group.write(header_sum), how);
            groups.push(ClusterGroup {
                first_entry: of_group.clusters[0].first_entry,
                entry_span: first_entry - of_group.clusters[0].first_entry,
                cluster_count: u32::try_from(of_group.clusters.len()).unwrap(),
                page_list,
            });
        }
    }
    let footer = Footer { groups }.write(header_sum, schema, &schema.known());
    let footer = put_envelope(&mut bytes, &footer, how);
    (bytes, Anchor { version: [1, 0, 0, 0], header: header_link, footer, key_bytes_max: None })
}

pub(crate) fn put_envelope(bytes: &mut Vec<u8>, envelope: &[u8], how: How) -> Link {
    let block = compress(how.compression, envelope).unwrap();
    let locator = Locator::File { offset: bytes.len() as u64, bytes: block.len() as u64 };
    bytes.extend_from_slice(&block);
    Link { length_bytes: envelope.len() as u64, locator }
}

pub(crate) fn put_column(
    bytes: &mut Vec<u8>,
    list: &mut PageList,
    column: &Column,
    elements: &[u8],
    first: &mut u64,
    how: How,
) -> ColumnPages {
    let width = column.kind.in_memory().unwrap().bytes();
    let start = list.pages.len();
    for some in elements.chunks(how.elements_of_a_page * width) {
        let block = compress(how.compression, &encoding::encode(column, some)).unwrap();
        let locator = Locator::File { offset: bytes.len() as u64, bytes: block.len() as u64 };
        bytes.extend_from_slice(&block);
        if how.has_checksums {
            bytes.extend_from_slice(&checksum(&block).to_le_bytes());
        }
        let element_count = u32::try_from(some.len() / width).unwrap();
        list.pages.push(Page { element_count, has_checksum: how.has_checksums, locator });
    }
    let first_element = Some(*first);
    *first += (elements.len() / width) as u64;
    ColumnPages { first_element, compression: how.compression.settings(), pages: start..list.pages.len() }
}

/// A field at the top without anything special.
pub(crate) fn field(number: u32, role: Role, name: &str) -> Field {
    Field {
        name: name.into(),
        type_name: "".into(),
        type_alias: "".into(),
        description: "".into(),
        field_version: 0,
        type_version: 0,
        parent: number,
        role: Some(role),
        repetition: None,
        source: None,
        type_checksum: None,
        is_soa: false,
    }
}

/// Adds a field of that type, and those below it.
fn add_field(schema: &mut Schema, parent: Option<u32>, of: &Type, name: &str) {
    let number = u32::try_from(schema.fields.len()).unwrap();
    let (role, repetition, children): (_, _, &[Type]) = match of {
        Type::Number(_) | Type::Text(_) => (Role::Plain, None, &[]),
        Type::List(_, item) => (Role::Collection, None, core::slice::from_ref(&**item)),
        Type::Repeated(count, item) => (Role::Plain, Some(*count), core::slice::from_ref(&**item)),
        Type::Record(fields) => (Role::Record, None, fields),
        Type::Variant(fields) => (Role::Variant, None, fields),
    };
    schema.fields.push(Field { parent: parent.unwrap_or(number), repetition, ..field(number, role, name) });
    let kinds: &[ColumnKind] = match of {
        Type::Number(kind) | Type::List(kind, _) => &[*kind],
        Type::Text(kind) => &[*kind, ColumnKind::Char],
        Type::Variant(_) => &[ColumnKind::Switch],
        Type::Repeated(..) | Type::Record(_) => &[],
    };
    for &kind in kinds {
        let bits = kind.bits().unwrap().1;
        let range = (kind == ColumnKind::Real32Quant).then_some((-8.0, 8.0));
        schema.columns.push(Column { kind, bits, field: number, representation: 0, first_element: 0, range });
    }
    for (at, child) in children.iter().enumerate() {
        add_field(schema, Some(number), child, &format!("_{at}"));
    }
}

/// Appends a value of field `field` to the columns; the number of the field behind it and those below it.
fn shred(schema: &Schema, field: u32, of: &Type, value: &Value, columns: &mut [Vec<u8>]) {
    let own = |at: usize| {
        let mut of_field = schema.columns.iter().enumerate().filter(|(_, column)| column.field == field);
        of_field.nth(at).unwrap().0
    };
    let end = |columns: &[Vec<u8>], more: usize| {
        let last = columns[own(0)].last_chunk::<8>().map_or(0, |last| i64::from_le_bytes(*last));
        (last + more as i64).to_le_bytes()
    };
    let children: Vec<u32> =
        (0..).zip(&schema.fields).filter(|(n, f)| f.parent == field && *n != field).map(|(n, _)| n).collect();
    match (of, value) {
        (Type::Number(_), Value::Number(bytes)) => columns[own(0)].extend_from_slice(bytes),
        (Type::Text(_), Value::Text(text)) => {
            let end = end(columns, text.len());
            columns[own(0)].extend_from_slice(&end);
            columns[own(1)].extend_from_slice(text);
        }
        (Type::List(_, item), Value::Several(items)) => {
            let end = end(columns, items.len());
            columns[own(0)].extend_from_slice(&end);
            items.iter().for_each(|value| shred(schema, children[0], item, value, columns));
        }
        (Type::Repeated(_, item), Value::Several(items)) => {
            items.iter().for_each(|value| shred(schema, children[0], item, value, columns));
        }
        (Type::Record(types), Value::Several(values)) => {
            for ((child, of), value) in children.iter().zip(types).zip(values) {
                shred(schema, *child, of, value, columns);
            }
        }
        (Type::Variant(types), Value::One(one)) => {
            let tag = one.as_ref().map_or(0, |(which, _)| u32::try_from(which + 1).unwrap());
            let before =
                columns[own(0)].as_chunks::<12>().0.iter().filter(|s| tag > 0 && s[8..] == tag.to_le_bytes());
            let place = before.count() as u64;
            columns[own(0)].extend_from_slice(&place.to_le_bytes());
            columns[own(0)].extend_from_slice(&tag.to_le_bytes());
            if let Some((which, value)) = one {
                shred(schema, children[*which], &types[*which], value, columns);
            }
        }
        (of, value) => panic!("{value:?} is no value of {of:?}"),
    }
}

/// What an array has at a place.
pub(crate) fn value(array: &Array, at: usize) -> Value {
    match array {
        Array::Values(values) => {
            let width = values.as_bytes().len() / values.len();
            Value::Number(values.as_bytes()[at * width..(at + 1) * width].to_vec())
        }
        Array::Lists { of, offsets, content } => {
            let range = usize::try_from(offsets[at]).unwrap()..usize::try_from(offsets[at + 1]).unwrap();
            match (of, &**content) {
                (dolmen_rntuple::Lists::Text, Array::Values(Values::U8(bytes))) => {
                    Value::Text(bytes[range].to_vec())
                }
                (_, content) => Value::Several(range.map(|at| value(content, at)).collect()),
            }
        }
        Array::Repeated { count, content, .. } => {
            let count = usize::try_from(*count).unwrap();
            Value::Several((at * count..(at + 1) * count).map(|at| value(content, at)).collect())
        }
        Array::Record { fields, .. } => {
            Value::Several(fields.iter().map(|(_, field)| value(field, at)).collect())
        }
        Array::Variant { tags, index, contents } => Value::One(usize::try_from(tags[at]).ok().map(|which| {
            let found = value(&contents[which], usize::try_from(index[at]).unwrap());
            (which, Box::new(found))
        })),
    }
}

/// Bytes in memory of a number of that kind that a page keeps exactly.
pub(crate) fn number(kind: ColumnKind, seed: u64) -> Vec<u8> {
    let small = f32::from(i8::try_from(seed % 16).unwrap() - 8);
    match kind.in_memory().unwrap() {
        InMemory::Bool => vec![u8::from(seed % 2 == 1)],
        InMemory::F32 if kind == ColumnKind::Real32Quant => {
            (if seed.is_multiple_of(2) { -8.0_f32 } else { 8.0 }).to_le_bytes().to_vec()
        }
        InMemory::F32 => small.to_le_bytes().to_vec(),
        other => seed.to_le_bytes()[..other.bytes().min(8)].to_vec(),
    }
}
