//! A file of Parquet, written row group by row group: fields of arrays as required columns, lists as its lists, compressed by zstd.
//!
//! Lists have a level of repetition and one of definition each, since no list is missing, only empty; so levels follow from offsets alone, and
//! the values of a column are those of the array as they lie. What has one of several types is refused.
//!
//! Invariants: all row groups have columns of one schema, which is that of the first arrays.

mod levels;
mod thrift;

use core::ops::Range;
use dolmen_rntuple::rootfile::Output;
use dolmen_rntuple::{Array, Lists, Values};
use levels::Levels;
use std::io::{IoSlice, Result};
use thrift::Thrift;

const MAGIC: &[u8] = b"PAR1";
/// As the format numbers it.
const ZSTD: i64 = 6;
/// As fast as pages are written elsewhere.
const ZSTD_LEVEL: i32 = 1;

/// How the format stores values, by its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Physical {
    Boolean = 0,
    Int32 = 1,
    Int64 = 2,
    Float = 4,
    Double = 5,
    Bytes = 6,
}

/// An element of the schema.
#[derive(Clone, PartialEq, Debug)]
enum Node {
    /// A column; what it means beyond how it is stored, by the format's numbers.
    Leaf {
        name: String,
        physical: Physical,
        converted: Option<i64>,
    },
    List {
        name: String,
        item: Box<Node>,
    },
    Record {
        name: String,
        fields: Vec<Node>,
    },
}

/// A part of a column that was written.
struct Chunk {
    offset: u64,
    plain_bytes: u64,
    stored_bytes: u64,
    value_count: u64,
}

/// A file that is written.
pub(super) struct Writer {
    output: Box<dyn Output>,
    offset: u64,
    schema: Vec<Node>,
    groups: Vec<(u64, Vec<Chunk>)>,
}

/// Whether the format has columns for a field.
pub(super) fn has_columns(field: &Array) -> bool {
    node("", field).is_some()
}

/// Why a column is not written.
pub(super) enum Unwritten {
    /// Its texts are no UTF-8: the format has no others.
    Text,
    Io(std::io::Error),
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Writer {
    /// Begins a file of these fields, whose arrays need not have entries.
    ///
    /// REQUIRES: each [has columns](has_columns).
    pub(super) fn begin(output: Box<dyn Output>, fields: &[(&str, &Array)]) -> Self {
        let node = |(name, array): &(&str, &Array)| node(name, array).expect("it was looked at before");
        Self { output, offset: 0, schema: fields.iter().map(node).collect(), groups: Vec::new() }
    }

    /// Writes entries as a row group: those of the arrays that are in these ranges; of which array a column could not be written, and why.
    pub(super) fn append(
        &mut self,
        arrays: &[Array],
        entries: &[Range<usize>],
    ) -> core::result::Result<(), (usize, Unwritten)> {
        if self.offset == 0 {
            self.put(MAGIC).map_err(|error| (0, error.into()))?;
        }
        let levels = Levels::of(entries.to_vec());
        let (count, mut chunks) = (levels.count(), Vec::new());
        for (number, array) in arrays.iter().enumerate() {
            self.columns(array, &levels, &mut chunks).map_err(|why| (number, why))?;
        }
        self.groups.push((count, chunks));
        Ok(())
    }

    /// Writes what says where all is, and has the file be there.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.offset == 0 {
            self.put(MAGIC)?;
        }
        let mut footer = self.footer();
        let length = u32::try_from(footer.len()).map_err(std::io::Error::other)?;
        footer.extend(length.to_le_bytes());
        footer.extend(MAGIC);
        self.put(&footer)?;
        self.output.finish()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.put_at(self.offset, &[IoSlice::new(bytes)])?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes the columns of an array, whose values are at `places` of what is above.
    fn columns(
        &mut self,
        array: &Array,
        levels: &Levels,
        chunks: &mut Vec<Chunk>,
    ) -> core::result::Result<(), Unwritten> {
        match array {
            Array::Values(values) => Ok(self.column(levels, &plain(values, levels.ranges()), chunks)?),
            Array::Lists { of: Lists::Text, offsets, content } => {
                let texts = texts(offsets, content, levels.ranges()).ok_or(Unwritten::Text)?;
                Ok(self.column(levels, &texts, chunks)?)
            }
            Array::Lists { offsets, content, .. } => {
                self.columns(content, &levels.within(|at| place(offsets[at])), chunks)
            }
            Array::Repeated { count, content, .. } => {
                let count = usize::try_from(*count).expect("all of them are in memory");
                self.columns(content, &levels.within(|at| at * count), chunks)
            }
            Array::Record { fields, .. } => {
                fields.iter().try_for_each(|(_, field)| self.columns(field, levels, chunks))
            }
            Array::Variant { .. } => unreachable!("it was refused at the beginning"),
        }
    }

    /// Writes a column as one page.
    fn column(&mut self, levels: &Levels, values: &[u8], chunks: &mut Vec<Chunk>) -> Result<()> {
        let mut page = levels.encoded();
        page.extend_from_slice(values);
        let stored = zstd::bulk::compress(&page, ZSTD_LEVEL)?;
        if page.len() > PAGE_BYTES_MAX || stored.len() > PAGE_BYTES_MAX {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let mut header = Thrift::default();
        header.structure(|header| {
            header.i32(1, 0);
            header.i32(2, signed(page.len() as u64));
            header.i32(3, signed(stored.len() as u64));
            header.field_structure(5, |data| {
                data.i32(1, signed(levels.count()));
                data.i32(2, PLAIN);
                data.i32(3, RLE);
                data.i32(4, RLE);
            });
        });
        let header = header.into_bytes();
        let (offset, head_bytes) = (self.offset, header.len() as u64);
        self.put(&header)?;
        self.put(&stored)?;
        chunks.push(Chunk {
            offset,
            plain_bytes: head_bytes + page.len() as u64,
            stored_bytes: head_bytes + stored.len() as u64,
            value_count: levels.count(),
        });
        Ok(())
    }

    /// What stands at the end of the file.
    fn footer(&self) -> Vec<u8> {
        let mut elements = Vec::new();
        elements.push(element("schema", None, Repetition::Required, Some(self.schema.len()), None, true));
        self.schema.iter().for_each(|node| elements_of(node, &mut elements));
        let mut columns = Vec::new();
        self.schema.iter().for_each(|node| columns_of(node, &mut Vec::new(), &mut columns));
        let count: u64 = self.groups.iter().map(|(count, _)| count).sum();
        let mut footer = Thrift::default();
        footer.structure(|footer| {
            footer.i32(1, 1);
            footer.list_of_structures(2, elements.len(), |at, one| one.raw(&elements[at]));
            footer.i64(3, signed(count));
            footer.list_of_structures(4, self.groups.len(), |at, one| group(one, &self.groups[at], &columns));
            footer.text(6, concat!("Dolmen ", env!("CARGO_PKG_VERSION")));
        });
        footer.into_bytes()
    }
}

const PLAIN: i64 = 0;
const RLE: i64 = 3;
/// Pages say how long they are in 31 bits.
const PAGE_BYTES_MAX: usize = i32::MAX as usize;

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("it counts what is there")
}

fn place(offset: i64) -> usize {
    usize::try_from(offset).expect("offsets do not fall below 0")
}

/// A row group, as the footer tells it.
fn group(out: &mut Thrift, (count, chunks): &(u64, Vec<Chunk>), columns: &[(Vec<String>, Physical)]) {
    let plain_bytes: u64 = chunks.iter().map(|chunk| chunk.plain_bytes).sum();
    out.structure(|group| {
        group.list_of_structures(1, chunks.len(), |at, out| {
            let (chunk, (path, physical)) = (&chunks[at], &columns[at]);
            out.structure(|column| {
                column.i64(2, signed(chunk.offset));
                column.field_structure(3, |meta| {
                    meta.i32(1, *physical as i64);
                    meta.list_of_i32(2, &[PLAIN, RLE]);
                    meta.list_of_texts(3, path);
                    meta.i32(4, ZSTD);
                    meta.i64(5, signed(chunk.value_count));
                    meta.i64(6, signed(chunk.plain_bytes));
                    meta.i64(7, signed(chunk.stored_bytes));
                    meta.i64(9, signed(chunk.offset));
                });
            });
        });
        group.i64(2, signed(plain_bytes));
        group.i64(3, signed(*count));
    });
}

/// How often an element is there, by the format's numbers.
#[derive(Clone, Copy)]
enum Repetition {
    Required = 0,
    Repeated = 2,
}

fn element(
    name: &str,
    physical: Option<Physical>,
    repetition: Repetition,
    children: Option<usize>,
    converted: Option<i64>,
    is_root: bool,
) -> Vec<u8> {
    let mut out = Thrift::default();
    out.structure(|element| {
        if let Some(physical) = physical {
            element.i32(1, physical as i64);
        }
        if !is_root {
            element.i32(3, repetition as i64);
        }
        element.text(4, name);
        if let Some(children) = children {
            element.i32(5, signed(children as u64));
        }
        if let Some(converted) = converted {
            element.i32(6, converted);
        }
    });
    out.into_bytes()
}

/// What a list is to the format.
const LIST: i64 = 3;

fn elements_of(node: &Node, out: &mut Vec<Vec<u8>>) {
    match node {
        Node::Leaf { name, physical, converted } => {
            out.push(element(name, Some(*physical), Repetition::Required, None, *converted, false));
        }
        Node::List { name, item } => {
            out.push(element(name, None, Repetition::Required, Some(1), Some(LIST), false));
            out.push(element("list", None, Repetition::Repeated, Some(1), None, false));
            elements_of(item, out);
        }
        Node::Record { name, fields } => {
            out.push(element(name, None, Repetition::Required, Some(fields.len()), None, false));
            fields.iter().for_each(|field| elements_of(field, out));
        }
    }
}

/// Paths of the columns, in their order.
fn columns_of(node: &Node, path: &mut Vec<String>, out: &mut Vec<(Vec<String>, Physical)>) {
    let depth = path.len();
    match node {
        Node::Leaf { name, physical, .. } => {
            path.push(name.clone());
            out.push((path.clone(), *physical));
        }
        Node::List { name, item } => {
            path.extend([name.clone(), "list".to_owned()]);
            columns_of(item, path, out);
        }
        Node::Record { name, fields } => {
            path.push(name.clone());
            fields.iter().for_each(|field| columns_of(field, path, out));
        }
    }
    path.truncate(depth);
}

fn node(name: &str, array: &Array) -> Option<Node> {
    let name = name.to_owned();
    match array {
        Array::Values(values) => {
            let (physical, converted) = stored_as(values);
            Some(Node::Leaf { name, physical, converted })
        }
        Array::Lists { of: Lists::Text, .. } => {
            Some(Node::Leaf { name, physical: Physical::Bytes, converted: Some(0) })
        }
        Array::Lists { content, .. } | Array::Repeated { content, .. } => {
            Some(Node::List { name, item: node("element", content)?.into() })
        }
        Array::Record { fields, .. } if !fields.is_empty() => {
            let fields = fields.iter().map(|(field, array)| node(field, array));
            Some(Node::Record { name, fields: fields.collect::<Option<_>>()? })
        }
        Array::Record { .. } | Array::Variant { .. } => None,
    }
}

/// How values are stored, and what they mean.
fn stored_as(values: &Values) -> (Physical, Option<i64>) {
    match values {
        Values::Bool(_) => (Physical::Boolean, None),
        Values::U8(_) => (Physical::Int32, Some(11)),
        Values::U16(_) => (Physical::Int32, Some(12)),
        Values::U32(_) => (Physical::Int32, Some(13)),
        Values::U64(_) => (Physical::Int64, Some(14)),
        Values::I8(_) => (Physical::Int32, Some(15)),
        Values::I16(_) => (Physical::Int32, Some(16)),
        Values::I32(_) => (Physical::Int32, None),
        Values::I64(_) => (Physical::Int64, None),
        Values::F32(_) => (Physical::Float, None),
        Values::F64(_) => (Physical::Double, None),
    }
}

/// Values as the format has them.
fn plain(values: &Values, ranges: &[Range<usize>]) -> Vec<u8> {
    fn of<T: Copy, const N: usize>(
        (values, ranges): (&[T], &[Range<usize>]),
        bytes: impl Fn(T) -> [u8; N],
    ) -> Vec<u8> {
        let wanted = ranges.iter().flat_map(|range| &values[range.clone()]);
        wanted.flat_map(|value| bytes(*value)).collect()
    }
    match values {
        Values::Bool(values) => {
            let eight = |some: &[u8]| some.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit != 0));
            of((values, ranges), |value| [value]).chunks(8).map(eight).collect()
        }
        Values::I8(values) => of((values, ranges), |value| i32::from(value).to_le_bytes()),
        Values::U8(values) => of((values, ranges), |value| u32::from(value).to_le_bytes()),
        Values::I16(values) => of((values, ranges), |value| i32::from(value).to_le_bytes()),
        Values::U16(values) => of((values, ranges), |value| u32::from(value).to_le_bytes()),
        Values::I32(values) => of((values, ranges), i32::to_le_bytes),
        Values::U32(values) => of((values, ranges), u32::to_le_bytes),
        Values::I64(values) => of((values, ranges), i64::to_le_bytes),
        Values::U64(values) => of((values, ranges), u64::to_le_bytes),
        Values::F32(values) => of((values, ranges), f32::to_le_bytes),
        Values::F64(values) => of((values, ranges), f64::to_le_bytes),
    }
}

/// Texts as the format has them: each behind how many bytes it has; none if one is no UTF-8.
fn texts(offsets: &[i64], content: &Array, ranges: &[Range<usize>]) -> Option<Vec<u8>> {
    let Array::Values(values) = content else { unreachable!("a text has bytes") };
    let mut out = Vec::new();
    for at in ranges.iter().cloned().flatten() {
        let text = &values.as_bytes()[place(offsets[at])..place(offsets[at + 1])];
        core::str::from_utf8(text).ok()?;
        out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(text);
    }
    Some(out)
}
