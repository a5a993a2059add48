//! Values of a branch as they lie in a basket, and the arrays that they become.
//!
//! A [`Node`] says how values lie and keeps those that were read. Numbers are turned round in bulk; what has its length within
//! itself is read one after the other.
//!
//! Invariants: a node reads as many values as it is told, or fails; of what it keeps then nothing is shown.

use super::stream::{Head, bits, class_name, head, identity, is_over, text};
use super::types::{Container, Number, Type};
use crate::array::{Array, Lists, Values, grow};
use crate::error::{Fault, Feature, Result};
use crate::format::Cursor;
use crate::rootfile::big;

/// Collections by member have the version of their items' class before them from this version of theirs on.
const MEMBER_WISE_VERSION_MIN: u16 = 8;

/// How a float of few bits lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Packing {
    /// As a number of steps from the least.
    Steps {
        /// The least value.
        low: f64,
        /// Steps in 1.
        factor: f64,
    },
    /// As exponent and so many bits of the fraction, in three bytes.
    Short {
        /// Bits of the fraction.
        bits: u32,
    },
    /// As a float of 32 bits.
    Float,
}

impl Packing {
    fn bytes(self) -> usize {
        match self {
            Self::Steps { .. } | Self::Float => 4,
            Self::Short { .. } => 3,
        }
    }
}

/// What tells versions of a class apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edition {
    pub(super) version: i32,
    pub(super) checksum: u32,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) node: Node,
    /// Whether its fields are the record's own: it is a class that the record's has before its members.
    pub(super) is_base: bool,
}

/// How values lie, and those that were read.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Numbers, the highest byte first.
    Number { of: Number, values: Values },
    /// Floats of few bits.
    Packed { packing: Packing, values: Values },
    /// Texts behind their lengths.
    Text { offsets: Vec<i64>, bytes: Vec<u8> },
    /// Collections behind their counts.
    List { container: Container, offsets: Vec<i64>, item: Box<Node> },
    /// The same count of each.
    Fixed { count: usize, len: u64, item: Box<Node> },
    /// What has one head, for however many values.
    Headed {
        inner: Box<Node>,
        /// Whether items are known to be read only where they lie member by member: else they are behind pointers.
        is_member_wise_only: bool,
    },
    /// An object behind the name of its class.
    Named { class: Box<str>, inner: Box<Node> },
    /// Members of a class, behind a head if the class has editions.
    Record { class: Box<str>, edition: Option<Edition>, len: u64, fields: Vec<Field> },
    /// What objects of ROOT begin with.
    Identity { unique_ids: Vec<u32>, bits: Vec<u32> },
    /// Bits of objects of ROOT, which are followed by more where others refer to the object.
    Bits(Vec<u32>),
    /// References to objects, by numbers that these have.
    Reference { ids: Vec<u32>, bits: Vec<u32>, processes: Vec<u16> },
    /// Arrays of references.
    References { offsets: Vec<i64>, ids: Vec<u32> },
    /// As many as the field at `counter` of the same record says.
    Counted {
        counter: usize,
        /// Whether a byte before them says whether there are any.
        has_flag: bool,
        offsets: Vec<i64>,
        item: Box<Node>,
    },
}

impl Node {
    pub(super) fn number(of: Number) -> Self {
        Self::Number { of, values: Values::empty(of.in_memory()) }
    }

    pub(super) fn packed(packing: Packing, of: Number) -> Self {
        Self::Packed { packing, values: Values::empty(of.in_memory()) }
    }

    pub(super) fn text() -> Self {
        Self::Text { offsets: vec![0], bytes: Vec::new() }
    }

    pub(super) fn list(container: Container, item: Self) -> Self {
        Self::List { container, offsets: vec![0], item: Box::new(item) }
    }

    /// Arrays of these dimensions, none of which is 0.
    pub(super) fn fixed(dimensions: &[usize], item: Self) -> Self {
        dimensions.iter().rev().fold(item, |item, &count| Self::Fixed { count, len: 0, item: Box::new(item) })
    }

    pub(super) fn headed(inner: Self) -> Self {
        Self::Headed { inner: Box::new(inner), is_member_wise_only: false }
    }

    pub(super) fn identity() -> Self {
        Self::Identity { unique_ids: Vec::new(), bits: Vec::new() }
    }

    pub(super) fn reference() -> Self {
        Self::Reference { ids: Vec::new(), bits: Vec::new(), processes: Vec::new() }
    }

    pub(super) fn references() -> Self {
        Self::References { offsets: vec![0], ids: Vec::new() }
    }

    /// The same without what stands before an object that is not a branch of its own.
    pub(super) fn without_head(self) -> Self {
        match self {
            Self::Record { class, len, fields, .. } => Self::Record { class, edition: None, len, fields },
            other => other,
        }
    }

    /// Bytes of a value, if all have as many.
    pub(super) fn bytes(&self) -> Option<usize> {
        match self {
            Self::Number { of, .. } => Some(of.bytes()),
            Self::Packed { packing, .. } => Some(packing.bytes()),
            Self::Fixed { count, item, .. } => item.bytes()?.checked_mul(*count),
            Self::Record { edition: None, fields, .. } => {
                fields.iter().try_fold(0_usize, |all, field| all.checked_add(field.node.bytes()?))
            }
            _ => None,
        }
    }

    /// Reads the next `count` values.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, count: usize) -> Result<()> {
        let start = *cursor;
        let too_many = || start.corrupt(Fault::Length);
        match self {
            Self::Number { of, values } => {
                let bytes = cursor.take(count.checked_mul(of.bytes()).ok_or_else(too_many)?)?;
                turned(*of, bytes, values.grow(count)?);
            }
            Self::Packed { packing, values } => {
                let bytes = cursor.take(count.checked_mul(packing.bytes()).ok_or_else(too_many)?)?;
                unpack(*packing, bytes, values)?;
            }
            Self::Text { offsets, bytes } => {
                for _ in 0..count {
                    let text = text(cursor)?;
                    grow(bytes, text.len())?.copy_from_slice(text);
                    offsets.push(place(bytes.len()));
                }
            }
            Self::List { offsets, item, .. } => {
                for _ in 0..count {
                    let length = length(cursor)?;
                    item.read(cursor, length)?;
                    push_length(offsets, length);
                }
            }
            Self::Fixed { count: each, len, item } => {
                item.read(cursor, count.checked_mul(*each).ok_or_else(too_many)?)?;
                *len += count as u64;
            }
            Self::Headed { inner, is_member_wise_only } => {
                return inner.read_headed(cursor, count, *is_member_wise_only);
            }
            Self::Record { edition, len, fields, .. } => {
                for _ in 0..count {
                    record(*edition, fields, cursor)?;
                }
                *len += count as u64;
            }
            Self::Named { class, inner } => {
                for _ in 0..count {
                    let start = *cursor;
                    if class_name(cursor)? != class.as_bytes() {
                        return Err(start.unsupported(Feature::OtherClass));
                    }
                    inner.read(cursor, 1)?;
                }
            }
            _ => return (0..count).try_for_each(|_| self.read_known(cursor)),
        }
        Ok(())
    }

    /// A text of no bytes at all, not even of a length.
    pub(super) fn push_nothing(&mut self) {
        if let Self::Text { offsets, .. } = self {
            push_length(offsets, 0);
        }
    }

    /// Reads what ROOT's own classes have, which no description says.
    fn read_known(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        match self {
            Self::Identity { unique_ids, bits } => {
                let identity = identity(cursor)?;
                unique_ids.push(identity.unique_id);
                bits.push(identity.bits);
            }
            Self::Bits(values) => values.push(bits(cursor)?),
            Self::Reference { ids, bits, processes } => {
                let identity = identity(cursor)?;
                ids.push(identity.unique_id);
                bits.push(identity.bits);
                processes.push(big::u16(cursor)?);
            }
            Self::References { offsets, ids } => return references(cursor, offsets, ids),
            _ => return Err(cursor.unsupported(Feature::CountedMember)),
        }
        Ok(())
    }

    /// Reads `count` values that have one head before them.
    fn read_headed(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        is_member_wise_only: bool,
    ) -> Result<()> {
        let start = *cursor;
        let head = head(cursor)?;
        let mut body = head.body;
        if head.is_member_wise {
            self.read_member_wise(&head, &mut body, Some(count))?;
        } else if is_member_wise_only {
            return Err(start.unsupported(Feature::PointedItems));
        } else {
            self.read(&mut body, count)?;
        }
        is_over(&body)
    }

    /// Reads collections whose items lie member by member: `count` of them, or until there is nothing left; how many there were.
    fn read_member_wise(
        &mut self,
        head: &Head<'_>,
        cursor: &mut Cursor<'_>,
        count: Option<usize>,
    ) -> Result<usize> {
        let start = *cursor;
        let no_members = || start.unsupported(Feature::MemberWise);
        let Self::List { offsets, item, .. } = self else { return Err(no_members()) };
        if head.version < MEMBER_WISE_VERSION_MIN {
            return Err(no_members());
        }
        let (edition, has_bytes) = match &**item {
            Self::Record { edition, fields, .. } => {
                (*edition, fields.iter().any(|field| field.node.has_bytes_by_member(field.is_base)))
            }
            Self::Fixed { .. } => (None, true),
            _ => return Err(no_members()),
        };
        let version = big::u16(cursor)?;
        is_edition(edition, version, cursor)?;
        let mut done = 0;
        while count.map_or(cursor.remaining() > 0, |count| done < count) {
            // Items of a class without members have no bytes, however many they are.
            let length = if has_bytes { length(cursor)? } else { big::u32(cursor)? as usize };
            if length > 0 {
                item.read_each_member(cursor, length)?;
            }
            push_length(offsets, length);
            done += 1;
        }
        Ok(done)
    }

    /// Reads each member of `count` items, which are records or arrays.
    fn read_each_member(&mut self, cursor: &mut Cursor<'_>, count: usize) -> Result<()> {
        let Self::Record { edition, len, fields, .. } = self else { return self.read(cursor, count) };
        for field in fields {
            match &mut field.node {
                // A class that the items' class has before its members has no head then.
                base @ Self::Record { .. } if field.is_base => base.read_each_member(cursor, count)?,
                // Those of keys and values have one, which they have not where pairs lie one by one.
                part @ (Self::Text { .. } | Self::List { .. }) if edition.is_none() => {
                    part.read_headed(cursor, count, false)?;
                }
                node => node.read(cursor, count)?,
            }
        }
        *len += count as u64;
        Ok(())
    }

    /// Reads values until there is nothing left; how many there were.
    pub(super) fn read_rest(&mut self, cursor: &mut Cursor<'_>) -> Result<usize> {
        let start = *cursor;
        if cursor.remaining() == 0 {
            return Ok(0);
        }
        if let Some(bytes) = self.bytes() {
            let count = cursor.remaining().checked_div(bytes).ok_or_else(|| start.corrupt(Fault::Length))?;
            self.read(cursor, count)?;
            return is_over(cursor).map(|()| count);
        }
        if let Self::Headed { inner, is_member_wise_only } = self {
            let head = head(cursor)?;
            is_over(cursor)?;
            let mut body = head.body;
            return match (head.is_member_wise, *is_member_wise_only) {
                (true, _) => inner.read_member_wise(&head, &mut body, None),
                (false, true) => Err(start.unsupported(Feature::PointedItems)),
                (false, false) => inner.read_rest(&mut body),
            };
        }
        let mut count = 0;
        while cursor.remaining() > 0 {
            let before = cursor.remaining();
            self.read(cursor, 1)?;
            if cursor.remaining() == before {
                return Err(start.corrupt(Fault::Length));
            }
            count += 1;
        }
        Ok(count)
    }

    /// Whether it has bytes where items lie member by member.
    fn has_bytes_by_member(&self, is_base: bool) -> bool {
        match self {
            Self::Record { fields, .. } if is_base => {
                fields.iter().any(|field| field.node.has_bytes_by_member(field.is_base))
            }
            _ => true,
        }
    }

    /// The last number that was read, if these are whole numbers.
    fn last(&self) -> Option<i64> {
        let Self::Number { values, .. } = self else { return None };
        match values {
            Values::I8(v) => v.last().map(|v| i64::from(*v)),
            Values::U8(v) => v.last().map(|v| i64::from(*v)),
            Values::I16(v) => v.last().map(|v| i64::from(*v)),
            Values::U16(v) => v.last().map(|v| i64::from(*v)),
            Values::I32(v) => v.last().map(|v| i64::from(*v)),
            Values::U32(v) => v.last().map(|v| i64::from(*v)),
            Values::I64(v) => v.last().copied(),
            _ => None,
        }
    }

    /// The type of a value.
    pub(super) fn type_of(&self) -> Type {
        match self {
            Self::Number { of, .. } => Type::Number(*of),
            Self::Packed { values: Values::F32(_), .. } => Type::Number(Number::F32),
            Self::Packed { .. } => Type::Number(Number::F64),
            Self::Text { .. } => Type::Text,
            Self::List { container, item, .. } => {
                Type::List { container: *container, item: Box::new(item.type_of()) }
            }
            Self::Counted { item, .. } => {
                Type::List { container: Container::Vector, item: Box::new(item.type_of()) }
            }
            Self::Fixed { count, item, .. } => {
                Type::Array { count: *count as u64, item: Box::new(item.type_of()) }
            }
            Self::Headed { inner, .. } | Self::Named { inner, .. } => inner.type_of(),
            Self::Record { class, .. } => Type::Record { class: class.clone(), fields: self.field_types() },
            Self::Identity { .. } => Type::Record { class: "TObject".into(), fields: self.field_types() },
            Self::Bits(_) => Type::Number(Number::U32),
            Self::Reference { .. } => Type::Record { class: "TRef".into(), fields: self.field_types() },
            Self::References { .. } => {
                let item = Box::new(Type::Number(Number::U32));
                Type::List { container: Container::Vector, item }
            }
        }
    }

    /// Types of the fields of a record, with those of its bases before its own.
    fn field_types(&self) -> Vec<(Box<str>, Type)> {
        match self {
            Self::Record { fields, .. } => {
                let of_base = |field: &Field| field.node.field_types();
                let own = |field: &Field| vec![(field.name.clone(), field.node.type_of())];
                fields
                    .iter()
                    .flat_map(|field| if field.is_base { of_base(field) } else { own(field) })
                    .collect()
            }
            _ => {
                let numbers = [("fUniqueID", Number::U32), ("fBits", Number::U32), ("fPID", Number::U16)];
                let count = if matches!(self, Self::Reference { .. }) { 3 } else { 2 };
                numbers[..count].iter().map(|(name, of)| ((*name).into(), Type::Number(*of))).collect()
            }
        }
    }

    /// What was read.
    pub(super) fn finish(self) -> Array {
        match self {
            Self::Number { values, .. } | Self::Packed { values, .. } => Array::Values(values),
            Self::Text { offsets, bytes } => {
                let content = Box::new(Array::Values(Values::U8(bytes)));
                Array::Lists { of: Lists::Text, offsets, content }
            }
            Self::List { offsets, item, .. } | Self::Counted { offsets, item, .. } => {
                Array::Lists { of: Lists::Items, offsets, content: Box::new(item.finish()) }
            }
            Self::Fixed { count, len, item } => {
                Array::Repeated { count: count as u64, len, content: Box::new(item.finish()) }
            }
            Self::Headed { inner, .. } | Self::Named { inner, .. } => inner.finish(),
            Self::Bits(values) => Array::Values(Values::U32(values)),
            Self::References { offsets, ids } => {
                let content = Box::new(Array::Values(Values::U32(ids)));
                Array::Lists { of: Lists::Items, offsets, content }
            }
            Self::Identity { .. } | Self::Reference { .. } | Self::Record { .. } => {
                let (len, fields) = self.fields();
                Array::Record { len, fields }
            }
        }
    }

    /// How many records there are, and their fields, with those of their bases before their own.
    fn fields(self) -> (u64, Vec<(Box<str>, Array)>) {
        match self {
            Self::Record { len, fields, .. } => {
                let mut all = Vec::new();
                for field in fields {
                    if field.is_base {
                        all.extend(field.node.fields().1);
                    } else {
                        all.push((field.name, field.node.finish()));
                    }
                }
                (len, all)
            }
            Self::Identity { unique_ids, bits } => {
                let len = bits.len() as u64;
                let values = |vec| Array::Values(Values::U32(vec));
                (len, vec![("fUniqueID".into(), values(unique_ids)), ("fBits".into(), values(bits))])
            }
            Self::Reference { ids, bits, processes } => {
                let len = bits.len() as u64;
                let (ids, bits) = (Values::U32(ids), Values::U32(bits));
                let values = [("fUniqueID", ids), ("fBits", bits), ("fPID", Values::U16(processes))];
                (len, values.map(|(name, values)| (name.into(), Array::Values(values))).into())
            }
            other => unreachable!("a class is one of these, not {other:?}"),
        }
    }
}

/// A length as an offset has it.
fn place(length: usize) -> i64 {
    i64::try_from(length).expect("memory has fewer bytes")
}

pub(super) fn push_length(offsets: &mut Vec<i64>, length: usize) {
    let last = *offsets.last().expect("the first is 0");
    offsets.push(last + place(length));
}

/// How many items a collection has, each of which takes a byte at least.
fn length(cursor: &mut Cursor<'_>) -> Result<usize> {
    let start = *cursor;
    let length = big::u32(cursor)? as usize;
    if length > cursor.remaining() { Err(start.corrupt(Fault::Length)) } else { Ok(length) }
}

/// Reads one record.
fn record(edition: Option<Edition>, fields: &mut [Field], cursor: &mut Cursor<'_>) -> Result<()> {
    let Some(edition) = edition else { return members(fields, cursor) };
    let head = head(cursor)?;
    let mut body = head.body;
    if head.is_member_wise {
        return Err(body.unsupported(Feature::MemberWise));
    }
    is_edition(Some(edition), head.version, &mut body)?;
    members(fields, &mut body)?;
    is_over(&body)
}

fn members(fields: &mut [Field], cursor: &mut Cursor<'_>) -> Result<()> {
    for at in 0..fields.len() {
        let (before, rest) = fields.split_at_mut(at);
        match &mut rest[0].node {
            Node::Counted { counter, has_flag, offsets, item } => {
                let start = *cursor;
                let wrong = || start.corrupt(Fault::Length);
                let count = before.get(*counter).and_then(|field| field.node.last()).ok_or_else(wrong)?;
                let count = usize::try_from(count).or(Err(wrong()))?;
                let count = if *has_flag && cursor.u8()? == 0 { 0 } else { count };
                if count > cursor.remaining() {
                    return Err(wrong());
                }
                item.read(cursor, count)?;
                push_length(offsets, count);
            }
            node => node.read(cursor, 1)?,
        }
    }
    Ok(())
}

/// Members of an array of references.
fn references(cursor: &mut Cursor<'_>, offsets: &mut Vec<i64>, ids: &mut Vec<u32>) -> Result<()> {
    let mut body = head(cursor)?.body;
    identity(&mut body)?;
    let _name = text(&mut body)?;
    let start = body;
    let count = big::u32(&mut body)? as usize;
    let _lowest_index = big::u32(&mut body)?;
    let _process = big::u16(&mut body)?;
    if count > body.remaining() / 4 {
        return Err(start.corrupt(Fault::Length));
    }
    for _ in 0..count {
        ids.push(big::u32(&mut body)?);
    }
    push_length(offsets, count);
    is_over(&body)
}

/// Whether objects have the version that they are read by; a version of 0 has the checksum of the class behind it.
fn is_edition(edition: Option<Edition>, version: u16, cursor: &mut Cursor<'_>) -> Result<()> {
    let start = *cursor;
    let is_it = match (version, edition) {
        (0, Some(edition)) => big::u32(cursor)? == edition.checksum,
        (_, Some(edition)) => i32::from(version) == edition.version,
        (0, None) => big::u32(cursor).is_ok(),
        (_, None) => true,
    };
    if is_it { Ok(()) } else { Err(start.unsupported(Feature::ClassVersion(version))) }
}

/// Copies numbers whose highest byte is first.
fn turned(of: Number, from: &[u8], into: &mut [u8]) {
    match of.bytes() {
        1 if of == Number::Bool => {
            into.iter_mut().zip(from).for_each(|(to, from)| *to = u8::from(*from != 0))
        }
        1 => into.copy_from_slice(from),
        2 => {
            for (to, from) in into.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                *to = u16::from_le_bytes(*from).swap_bytes().to_le_bytes();
            }
        }
        4 => {
            for (to, from) in into.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                *to = u32::from_le_bytes(*from).swap_bytes().to_le_bytes();
            }
        }
        _ => {
            for (to, from) in into.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                *to = u64::from_le_bytes(*from).swap_bytes().to_le_bytes();
            }
        }
    }
}

fn unpack(packing: Packing, bytes: &[u8], values: &mut Values) -> Result<()> {
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes).swap_bytes();
    match packing {
        Packing::Steps { low, factor } => {
            put(values, bytes.as_chunks().0, |bytes| f64::from(word(bytes)) / factor + low)
        }
        Packing::Float => put(values, bytes.as_chunks().0, |bytes| f64::from(f32::from_bits(word(bytes)))),
        Packing::Short { bits } => put(values, bytes.as_chunks().0, |&[exponent, high, low]| {
            let fraction = u32::from(high) << 8 | u32::from(low);
            let magnitude = u32::from(exponent) << 23 | (fraction & ((1 << (bits + 1)) - 1)) << (23 - bits);
            let float = f64::from(f32::from_bits(magnitude));
            if fraction >> (bits + 1) & 1 == 1 { -float } else { float }
        }),
    }
}

fn put<const N: usize>(values: &mut Values, from: &[[u8; N]], value: impl Fn(&[u8; N]) -> f64) -> Result<()> {
    let is_wide = matches!(values, Values::F64(_));
    let into = values.grow(from.len())?;
    if is_wide {
        into.as_chunks_mut().0.iter_mut().zip(from).for_each(|(to, from)| *to = value(from).to_le_bytes());
        return Ok(());
    }
    for (to, from) in into.as_chunks_mut().0.iter_mut().zip(from) {
        #[expect(clippy::cast_possible_truncation, reason = "it has 32 bits in memory")]
        let float = value(from) as f32;
        *to = float.to_le_bytes();
    }
    Ok(())
}
