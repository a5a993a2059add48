//! Entries of branches as arrays: which baskets have them, and what of each.

use super::Tree;
use super::basket::{self, Basket};
use super::branch::{Branch, Placed, Shape, Where};
use super::node::{Node, push_length};
use super::stream;
use crate::array::{Array, Lists, Values};
use crate::error::{Error, Fault, Feature, Refusal, Result, Structure};
use crate::format::Cursor;
use crate::ntuple::Entries;
use std::borrow::Cow;
use std::ops::Range;

/// Fields of a record whose names begin the same.
#[derive(Debug)]
pub(super) enum Group<T> {
    One(T),
    Several(Vec<(Box<str>, T)>),
}

/// Puts fields with dots in their names together by what is before the first.
pub(super) fn grouped<T>(fields: Vec<(Box<str>, T)>) -> Vec<(Box<str>, Group<T>)> {
    let mut groups: Vec<(Box<str>, Group<T>)> = Vec::new();
    for (name, field) in fields {
        let Some((first, rest)) = name.split_once('.') else {
            groups.push((name, Group::One(field)));
            continue;
        };
        let group = groups.iter_mut().find_map(|(name, group)| match group {
            Group::Several(members) if &**name == first => Some(members),
            _ => None,
        });
        match group {
            Some(members) => members.push((rest.into(), field)),
            None => groups.push((first.into(), Group::Several(vec![(rest.into(), field)]))),
        }
    }
    groups
}

/// Reads a branch of entries.
pub(super) fn branch(tree: &Tree, number: usize, entries: Entries) -> Result<Array> {
    let branch = &tree.branches()[number];
    branch.type_of()?;
    let shape = branch.shape.as_ref().map_err(|why| branch.refused(*why))?;
    let read = match shape {
        Shape::One(node) => one(tree, number, node, entries),
        Shape::Text(node) => text(tree, number, node, entries),
        Shape::Several { node, has_flag } => several(tree, number, node, *has_flag, entries),
        Shape::Record => {
            let mut fields = Vec::new();
            for &child in &branch.children {
                match (tree.branches()[child].is_base, self::branch(tree, child, entries)?) {
                    (true, Array::Record { fields: own, .. }) => fields.extend(own),
                    (_, array) => fields.push((field_name(tree, branch, child), array)),
                }
            }
            Ok(record(entries.end - entries.first, fields))
        }
        Shape::Collection => collection(tree, number, entries),
    };
    // Who reads is told which branch has what is not known.
    read.map_err(|error| match error {
        Error::Unsupported { feature, .. } => branch.refused(Refusal::Has(feature)),
        other => other,
    })
}

fn field_name(tree: &Tree, above: &Branch, child: usize) -> Box<str> {
    tree.branches()[child].field_name(&above.name).into()
}

fn record(len: u64, fields: Vec<(Box<str>, Array)>) -> Array {
    let mut own = Vec::new();
    for (name, group) in grouped(fields) {
        own.push((
            name,
            match group {
                Group::One(array) => array,
                Group::Several(members) => record(len, members),
            },
        ));
    }
    Array::Record { len, fields: own }
}

/// Collections whose items' members are branches of their own.
fn collection(tree: &Tree, number: usize, entries: Entries) -> Result<Array> {
    let branch = &tree.branches()[number];
    let mut counts = Node::number(super::types::Number::I32);
    each_part(tree, number, entries, |basket, part, structure| {
        one_part(&mut counts, basket, part, structure)
    })?;
    let Array::Values(Values::I32(counts)) = counts.finish() else {
        unreachable!("the counts are of this type")
    };
    let wrong = |at: usize| Error::Corrupt {
        structure: Structure::Branch { branch: number_of(number) },
        offset: entries.first + at as u64,
        fault: Fault::Length,
    };
    let mut offsets = vec![0];
    for (at, count) in counts.into_iter().enumerate() {
        push_length(&mut offsets, usize::try_from(count).or(Err(wrong(at)))?);
    }
    let mut fields = Vec::new();
    for &child in &branch.children {
        let Array::Lists { offsets: own, content, .. } = self::branch(tree, child, entries)? else {
            return Err(branch.refused(Refusal::Type));
        };
        if own != offsets {
            let at = own.iter().zip(&offsets).take_while(|(own, offset)| own == offset).count();
            return Err(wrong(at.saturating_sub(1)));
        }
        fields.push((branch.item_name(&tree.branches()[child]), *content));
    }
    let len = offsets.last().expect("the first is 0").cast_unsigned();
    let content = Box::new(record(len, fields));
    Ok(Array::Lists { of: Lists::Items, offsets, content })
}

fn one(tree: &Tree, number: usize, node: &Node, entries: Entries) -> Result<Array> {
    let mut node = node.clone();
    each_part(tree, number, entries, |basket, part, structure| one_part(&mut node, basket, part, structure))?;
    Ok(node.finish())
}

/// Reads the entries `part` of a basket, each of which is one value.
fn one_part(node: &mut Node, basket: &Basket, part: Range<usize>, structure: Structure) -> Result<()> {
    let all = Cursor::new(structure, &basket.data);
    let count = part.len();
    if let Some(bytes) = node.bytes() {
        if bytes.checked_mul(basket.entry_count as usize) != Some(basket.data.len()) {
            return Err(all.corrupt(Fault::Length));
        }
        return node.read(&mut entry(basket, part.start * bytes..part.end * bytes, structure), count);
    }
    if let Some(starts) = &basket.starts {
        for at in part {
            let mut cursor = entry(basket, starts[at] as usize..starts[at + 1] as usize, structure);
            node.read(&mut cursor, 1)?;
            stream::is_over(&cursor)?;
        }
        return Ok(());
    }
    let mut cursor = all;
    let mut skipped = node.clone();
    (0..part.start).try_for_each(|_| skipped.read(&mut cursor, 1))?;
    (0..count).try_for_each(|_| node.read(&mut cursor, 1))?;
    if part.end == basket.entry_count as usize { stream::is_over(&cursor) } else { Ok(()) }
}

fn entry(basket: &Basket, range: Range<usize>, structure: Structure) -> Cursor<'_> {
    let base = range.start as u64;
    Cursor::within(structure, &basket.data[range], base)
}

/// Texts of leaves: an empty one has no bytes, so that only where each begins tells them apart.
fn text(tree: &Tree, number: usize, node: &Node, entries: Entries) -> Result<Array> {
    let mut node = node.clone();
    each_part(tree, number, entries, |basket, part, structure| {
        let all = Cursor::new(structure, &basket.data);
        let Some(starts) = &basket.starts else { return Err(all.unsupported(Feature::NoStarts)) };
        for at in part {
            let mut cursor = entry(basket, starts[at] as usize..starts[at + 1] as usize, structure);
            if cursor.remaining() == 0 {
                node.push_nothing();
            } else {
                node.read(&mut cursor, 1)?;
            }
            stream::is_over(&cursor)?;
        }
        Ok(())
    })?;
    Ok(node.finish())
}

fn several(tree: &Tree, number: usize, node: &Node, has_flag: bool, entries: Entries) -> Result<Array> {
    let (mut node, mut offsets) = (node.clone(), vec![0]);
    let mut first = entries.first;
    each_part(tree, number, entries, |basket, part, structure| {
        let before = part.start as u64;
        let starts = starts(tree, number, &node, basket, first.checked_sub(before), structure)?;
        first += part.len() as u64;
        several_part(&mut node, &mut offsets, has_flag, basket, (part, &starts), structure)
    })?;
    Ok(Array::Lists { of: Lists::Items, offsets, content: Box::new(node.finish()) })
}

/// Where entries of a basket begin: as it says itself, or as the branch says that counts them. `first` is its first entry.
fn starts<'a>(
    tree: &Tree,
    number: usize,
    node: &Node,
    basket: &'a Basket,
    first: Option<u64>,
    structure: Structure,
) -> Result<Cow<'a, [u32]>> {
    let all = Cursor::new(structure, &basket.data);
    let wrong = || all.corrupt(Fault::Length);
    let end = u32::try_from(basket.data.len()).or(Err(wrong()))?;
    if let Some(starts) = &basket.starts {
        return Ok(Cow::Borrowed(starts));
    }
    if basket.entry_count == 1 {
        return Ok(Cow::Owned(vec![0, end]));
    }
    let counter = tree.branches()[number].counter.filter(|_| basket.leaves_out_starts);
    let (Some(counter), Some(bytes), Some(first)) = (counter, node.bytes(), first) else {
        return Err(all.unsupported(Feature::NoStarts));
    };
    let last = first.checked_add(u64::from(basket.entry_count)).ok_or_else(wrong)?;
    let counts = counts(tree, counter, Entries { first, end: last })?;
    let bytes = u64::try_from(bytes).or(Err(wrong()))?;
    let (mut starts, mut at) = (vec![0], 0_u32);
    for count in counts {
        let length = count.checked_mul(bytes).and_then(|length| u32::try_from(length).ok());
        at = length.and_then(|length| at.checked_add(length)).filter(|&at| at <= end).ok_or_else(wrong)?;
        starts.push(at);
    }
    if at == end { Ok(Cow::Owned(starts)) } else { Err(wrong()) }
}

/// What a branch of whole numbers counts.
fn counts(tree: &Tree, number: usize, entries: Entries) -> Result<Vec<u64>> {
    let branch = &tree.branches()[number];
    let Ok(Shape::One(node @ Node::Number { .. })) = &branch.shape else {
        return Err(branch.refused(Refusal::Counter));
    };
    let Array::Values(values) = one(tree, number, node, entries)? else {
        return Err(branch.refused(Refusal::Counter));
    };
    let wrong = || Error::Corrupt {
        structure: Structure::Branch { branch: number_of(number) },
        offset: entries.first,
        fault: Fault::Value,
    };
    let wide: Vec<i64> = match values {
        Values::I8(values) => values.into_iter().map(i64::from).collect(),
        Values::U8(values) => values.into_iter().map(i64::from).collect(),
        Values::I16(values) => values.into_iter().map(i64::from).collect(),
        Values::U16(values) => values.into_iter().map(i64::from).collect(),
        Values::I32(values) => values.into_iter().map(i64::from).collect(),
        Values::U32(values) => values.into_iter().map(i64::from).collect(),
        Values::I64(values) => values,
        _ => return Err(branch.refused(Refusal::Counter)),
    };
    wide.into_iter().map(|count| u64::try_from(count).or(Err(wrong()))).collect()
}

/// Reads the entries `part` of a basket, each of which has as many values as its bytes hold.
fn several_part(
    node: &mut Node,
    offsets: &mut Vec<i64>,
    has_flag: bool,
    basket: &Basket,
    (part, starts): (Range<usize>, &[u32]),
    structure: Structure,
) -> Result<()> {
    let all = Cursor::new(structure, &basket.data);
    if let (Some(bytes @ 1..), false) = (node.bytes(), has_flag) {
        let wanted = starts[part.start] as usize..starts[part.end] as usize;
        for at in part {
            let length = (starts[at + 1] - starts[at]) as usize;
            if length.checked_rem(bytes) != Some(0) {
                return Err(all.corrupt(Fault::Length));
            }
            push_length(offsets, length / bytes);
        }
        let count = wanted.len() / bytes;
        return node.read(&mut entry(basket, wanted, structure), count);
    }
    for at in part {
        let mut cursor = entry(basket, starts[at] as usize..starts[at + 1] as usize, structure);
        let is_there = !has_flag || cursor.remaining() > 0 && cursor.u8()? != 0;
        let count = if is_there { node.read_rest(&mut cursor)? } else { 0 };
        stream::is_over(&cursor)?;
        push_length(offsets, count);
    }
    Ok(())
}

fn number_of(branch: usize) -> u32 {
    u32::try_from(branch).unwrap_or(u32::MAX)
}

/// Reads the baskets that have entries of the range, and does with each and its entries within that range what is to be done.
fn each_part(
    tree: &Tree,
    number: usize,
    entries: Entries,
    mut with: impl FnMut(&Basket, Range<usize>, Structure) -> Result<()>,
) -> Result<()> {
    let branch = &tree.branches()[number];
    let mut next = entries.first;
    let starts_behind = |at: usize| branch.baskets.get(at + 1).map_or(u64::MAX, |behind| behind.first_entry);
    for (at, Placed { first_entry, at: place }) in branch.baskets.iter().enumerate() {
        let end = starts_behind(at);
        if end <= next || *first_entry >= entries.end {
            continue;
        }
        crate::stop::check()?;
        let structure = Structure::Basket { branch: number_of(number), basket: number_of(at) };
        let wrong = Error::Corrupt { structure, offset: 0, fault: Fault::Length };
        let basket = match place {
            Where::File { offset, bytes } => {
                Cow::Owned(basket::read(tree.file(), structure, *offset, *bytes)?)
            }
            Where::Here(basket) => Cow::Borrowed(basket),
        };
        let count = u64::from(basket.entry_count);
        let is_right = if end == u64::MAX {
            first_entry.checked_add(count).is_some()
        } else {
            end - first_entry == count
        };
        if !is_right || *first_entry > next {
            return Err(wrong);
        }
        let (from, to) =
            (next - first_entry, entries.end.min(first_entry + count).saturating_sub(*first_entry));
        let local = |entry: u64| usize::try_from(entry).expect("a basket has fewer entries");
        if from > to {
            return Err(wrong);
        }
        with(&basket, local(from)..local(to), structure)?;
        next = first_entry + to;
    }
    if next == entries.end {
        return Ok(());
    }
    let structure = Structure::Branch { branch: number_of(number) };
    Err(Error::Corrupt { structure, offset: next, fault: Fault::Length })
}
