//! Fields into columns: which elements each column has of a range of entries.
//!
//! Contents of neighbouring lists are neighbours, so that a range of entries is one range of elements in each array below.

use super::given::{Flat, Given};
use crate::array::{Array, Lists, Values};
use crate::error::{Error, Fit, Result};
use crate::format::column::InMemory;
use crate::format::schema::{Field, Role, Schema};
use core::ops::Range;
use std::borrow::Cow;

/// Elements of each column in memory; none of columns of other fields and of further representations.
pub(super) type Columns<'a> = Vec<Option<Cow<'a, [u8]>>>;

/// The elements of `entries`, for each column of the schema.
pub(super) fn shred<'a, F: Into<Given<'a>> + Copy>(
    schema: &Schema,
    fields: &[(&str, F)],
    entries: Range<u64>,
) -> Result<Columns<'a>> {
    let tree = Tree::new(schema);
    let mut columns = vec![None; schema.columns.len()];
    for (name, given) in fields {
        let no_fit = |fit| Error::NoFit { field: (*name).into(), fit };
        let is_it = |&number: &u32| &*schema.fields[number as usize].name == *name;
        let number = tree.tops.iter().copied().find(is_it).ok_or_else(|| no_fit(Fit::Unknown))?;
        if schema.fields[number as usize].source.is_some() {
            return Err(no_fit(Fit::Shown));
        }
        let range = place(entries.start)..place(entries.end);
        let fitted = match (*given).into() {
            Given::Array(array) => tree.field(number, array, range, &mut columns),
            Given::Flat(flat) => tree.flat(number, flat, range, &mut columns),
        };
        fitted.map_err(no_fit)?;
    }
    Ok(columns)
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("memory has fewer elements")
}

struct Tree<'s> {
    schema: &'s Schema,
    tops: Vec<u32>,
    children: Vec<Vec<u32>>,
    /// Columns of the first representation.
    columns: Vec<Vec<usize>>,
}

type Fitted = core::result::Result<(), Fit>;

impl<'s> Tree<'s> {
    fn new(schema: &'s Schema) -> Self {
        let mut columns = vec![Vec::new(); schema.fields.len()];
        for (number, column) in schema.columns.iter().enumerate() {
            if column.representation == 0 {
                columns[column.field as usize].push(number);
            }
        }
        Self { schema, tops: schema.tops().collect(), children: schema.children(), columns }
    }

    /// Puts elements `range` of an array into the columns of a field and of those below it.
    fn field<'a>(
        &self,
        number: u32,
        array: &'a Array,
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        let at = number as usize;
        let field = &self.schema.fields[at];
        let (own, below) = (&self.columns[at][..], &self.children[at][..]);
        if field.unknown().is_some() {
            return Err(Fit::Kind);
        }
        match (field.role.ok_or(Fit::Kind)?, own, below, array) {
            (Role::Plain, [], [child], array) if field.repetition.is_none() => {
                self.field(*child, array, range, columns)
            }
            (Role::Plain, _, _, Array::Repeated { count, content, .. }) => {
                self.repeated(number, *count, content, range, columns)
            }
            (Role::Plain, [column], [], Array::Values(values)) if field.repetition.is_none() => {
                self.values(*column, values, range, columns)
            }
            (Role::Plain, [ends, bytes], [], Array::Lists { of: Lists::Text, offsets, content })
            | (Role::Streamer, [ends, bytes], [], Array::Lists { of: Lists::Streamed, offsets, content }) => {
                let contents = self.ends(*ends, offsets, content.len(), range, columns)?;
                let Array::Values(values) = &**content else { return Err(Fit::Kind) };
                self.values(*bytes, values, contents, columns)
            }
            (Role::Collection, [ends], below, Array::Lists { of: Lists::Items, offsets, content }) => {
                let contents = self.ends(*ends, offsets, content.len(), range, columns)?;
                match below {
                    [child] => self.field(*child, content, contents, columns),
                    several => self.record(several, content, contents, columns),
                }
            }
            (Role::Record, [], below, array) => self.record(below, array, range, columns),
            (Role::Plain, [], [], Array::Record { fields, .. }) if fields.is_empty() => Ok(()),
            (Role::Variant, [switch], below, Array::Variant { tags, index, contents }) => {
                let parts = switches(tags, index, below.len(), range)?;
                columns[*switch] = Some(parts.0.into());
                if contents.len() != below.len() {
                    return Err(Fit::Kind);
                }
                for ((child, content), part) in below.iter().zip(contents).zip(parts.1) {
                    self.within(content.len(), &part)?;
                    self.field(*child, content, part, columns)?;
                }
                Ok(())
            }
            _ => Err(Fit::Kind),
        }
    }

    /// As [`field`](Self::field), of flat values.
    fn flat<'a>(
        &self,
        number: u32,
        flat: Flat<'a>,
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        let at = number as usize;
        let field = &self.schema.fields[at];
        if field.unknown().is_some() || field.repetition.is_some() || field.role != Some(Role::Plain) {
            return Err(Fit::Kind);
        }
        match (&self.columns[at][..], &self.children[at][..]) {
            ([], [child]) => self.flat(*child, flat, range, columns),
            ([column], []) => self.elements(*column, flat.kind, flat.bytes, range, columns),
            _ => Err(Fit::Kind),
        }
    }

    fn within(&self, len: u64, range: &Range<usize>) -> Fitted {
        let (wanted, found) = (range.end as u64, len);
        if wanted <= found { Ok(()) } else { Err(Fit::Length { wanted, found }) }
    }

    fn repeated<'a>(
        &self,
        number: u32,
        count: u64,
        content: &'a Array,
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        let at = number as usize;
        let wanted = self.schema.fields[at].repetition.ok_or(Fit::Kind)?;
        if wanted != count {
            return Err(Fit::Length { wanted, found: count });
        }
        let count = place(count);
        let times = |place: usize| place.checked_mul(count).ok_or(Fit::Kind);
        let range = times(range.start)?..times(range.end)?;
        self.within(content.len(), &range)?;
        match (&self.columns[at][..], &self.children[at][..], content) {
            ([], [child], content) => self.field(*child, content, range, columns),
            ([column], [], Array::Values(values)) => self.values(*column, values, range, columns),
            _ => Err(Fit::Kind),
        }
    }

    fn record<'a>(
        &self,
        below: &[u32],
        array: &'a Array,
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        let Array::Record { fields, .. } = array else { return Err(Fit::Kind) };
        if fields.len() != below.len() {
            return Err(Fit::Kind);
        }
        for &child in below {
            let Field { name, .. } = &self.schema.fields[child as usize];
            let found = fields.iter().find(|(other, _)| other == name);
            let (_, array) = found.ok_or(Fit::Unknown)?;
            self.within(array.len(), &range)?;
            self.field(child, array, range.clone(), columns)?;
        }
        Ok(())
    }

    fn values<'a>(
        &self,
        column: usize,
        values: &'a Values,
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        self.elements(column, values.kind(), values.as_bytes(), range, columns)
    }

    /// Puts elements `range` of those that are in `all` into a column.
    fn elements<'a>(
        &self,
        column: usize,
        found: InMemory,
        all: &'a [u8],
        range: Range<usize>,
        columns: &mut Columns<'a>,
    ) -> Fitted {
        let width = found.bytes();
        self.within((all.len() / width) as u64, &range)?;
        let kind = self.schema.columns[column].kind.in_memory().ok_or(Fit::Kind)?;
        let part = &all[range.start * width..range.end * width];
        columns[column] = Some(match (kind, found) {
            (InMemory::F32, InMemory::F64) => {
                let mut narrow = Vec::with_capacity(part.len() / 2);
                for wide in part.as_chunks().0 {
                    #[expect(clippy::cast_possible_truncation, reason = "that is what such a column keeps")]
                    let value = f64::from_le_bytes(*wide) as f32;
                    narrow.extend_from_slice(&value.to_le_bytes());
                }
                narrow.into()
            }
            // How many items collections have that are stored elsewhere: their ends.
            (InMemory::Offset, InMemory::U64 | InMemory::U32 | InMemory::I64 | InMemory::I32) => {
                ends_of(found, part)?.into()
            }
            _ if found == kind || (found, kind) == (InMemory::Bool, InMemory::U8) => part.into(),
            _ => return Err(Fit::Kind),
        });
        let Some((low, high)) = self.schema.columns[column].range else { return Ok(()) };
        let floats = columns[column].iter().flat_map(|kept| kept.as_chunks().0);
        // As they are read: the least and the largest are the floats next to these.
        #[expect(clippy::cast_possible_truncation, reason = "that is what such a column keeps")]
        let kept = low as f32..=high as f32;
        let is_within = |float: &[u8; 4]| kept.contains(&f32::from_le_bytes(*float));
        if floats.copied().all(|float| is_within(&float)) { Ok(()) } else { Err(Fit::Range { low, high }) }
    }

    /// Where the lists of `range` end in the cluster; which elements of the contents they have.
    fn ends(
        &self,
        column: usize,
        offsets: &[i64],
        content_len: u64,
        range: Range<usize>,
        columns: &mut Columns<'_>,
    ) -> core::result::Result<Range<usize>, Fit> {
        self.within(offsets.len() as u64, &(range.start..range.end + 1))?;
        let offsets = &offsets[range.start..=range.end];
        let base = offsets[0];
        let mut ends = Vec::with_capacity((offsets.len() - 1) * 8);
        let mut before = base;
        for &end in &offsets[1..] {
            if end < before {
                return Err(Fit::Order);
            }
            before = end;
            ends.extend_from_slice(&(end - base).to_le_bytes());
        }
        let is_index = self.schema.columns[column].kind.in_memory() == Some(InMemory::Offset);
        let (Ok(start), Ok(end), true) = (usize::try_from(base), usize::try_from(before), is_index) else {
            return Err(if is_index { Fit::Order } else { Fit::Kind });
        };
        self.within(content_len, &(start..end))?;
        columns[column] = Some(ends.into());
        Ok(start..end)
    }
}

/// Where collections of these sizes end, which are whole numbers of that kind.
fn ends_of(kind: InMemory, sizes: &[u8]) -> core::result::Result<Vec<u8>, Fit> {
    let mut ends = Vec::with_capacity(sizes.len() / kind.bytes() * 8);
    let mut last = 0_i64;
    for size in sizes.chunks_exact(kind.bytes()) {
        let size: i128 = match (kind, size.first_chunk::<8>(), size.first_chunk::<4>()) {
            (InMemory::U64, Some(size), _) => u64::from_le_bytes(*size).into(),
            (InMemory::I64, Some(size), _) => i64::from_le_bytes(*size).into(),
            (InMemory::U32, _, Some(size)) => u32::from_le_bytes(*size).into(),
            (InMemory::I32, _, Some(size)) => i32::from_le_bytes(*size).into(),
            _ => return Err(Fit::Kind),
        };
        let sum = i64::try_from(i128::from(last) + size).ok().filter(|_| size >= 0);
        last = sum.ok_or(Fit::Number)?;
        ends.extend_from_slice(&last.to_le_bytes());
    }
    Ok(ends)
}

/// The switches of `range`, and which elements of each alternative they have.
fn switches(
    tags: &[i8],
    index: &[i64],
    alternatives: usize,
    range: Range<usize>,
) -> core::result::Result<(Vec<u8>, Vec<Range<usize>>), Fit> {
    let mut elements = Vec::with_capacity(range.len() * 12);
    let mut parts: Vec<Option<Range<usize>>> = vec![None; alternatives];
    let (Some(tags), Some(index)) = (tags.get(range.clone()), index.get(range)) else {
        return Err(Fit::Kind);
    };
    for (&tag, &at) in tags.iter().zip(index) {
        let Ok(alternative) = usize::try_from(tag) else {
            elements.extend_from_slice(&[0; 12]);
            continue;
        };
        let at = usize::try_from(at).or(Err(Fit::Order))?;
        let part = parts.get_mut(alternative).ok_or(Fit::Kind)?.get_or_insert(at..at);
        if part.end != at {
            return Err(Fit::Order);
        }
        elements.extend_from_slice(&((at - part.start) as u64).to_le_bytes());
        elements.extend_from_slice(&(i32::from(tag) + 1).to_le_bytes());
        part.end += 1;
    }
    Ok((elements, parts.into_iter().map(Option::unwrap_or_default).collect()))
}
