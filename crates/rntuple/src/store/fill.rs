//! What is appended to an ntuple has its fields, whatever their order: what is missing is told, or filled where that is asked for, and what is too
//! much is told, or left out.
//!
//! Only what is named is filled, and no entries are made of that alone.

use super::base::is_deferred;
use super::prune::Number;
use crate::array::{Array, Lists, Values};
use crate::error::{Error, Fit, OtherFields, Result, typed};
use crate::format::column::{ColumnKind, InMemory};
use crate::format::schema::{Column, Field, Role, Schema};
use crate::near::near;
use crate::sealed::SealedColumn;
use crate::write::{self, DEPTH_MAX, Options};
use core::fmt;
use std::collections::BTreeSet;

/// A field at the top that is filled where what is appended has no values of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Fill {
    /// Its name.
    pub field: Box<str>,
    /// Its value, of a field of one number; none for zeros, empty texts and collections, and variants without a value, whatever it is of.
    pub number: Option<Number>,
}

/// What is not appended of what another ntuple, or a tree, has.
#[derive(Debug)]
pub enum LeftOut {
    /// The ntuple has no such field.
    NoField {
        /// Its name.
        name: Box<str>,
        /// Its type.
        of: Box<str>,
    },
    /// A branch is not read: an [`Error::BranchRefused`].
    Refused(Error),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoField { name, of } => write!(f, "{} is no field of the ntuple", typed(name, of)),
            Self::Refused(why) => why.fmt(f),
        }
    }
}

/// What an appender fills, how that is written, and whether it leaves out what is too much.
#[derive(Clone, Debug, Default)]
pub(super) struct Fills {
    pub(super) fields: Vec<Fill>,
    pub(super) options: Options,
    pub(super) leaves_out: bool,
}

/// Columns of another ntuple as those of one.
#[derive(Debug)]
pub(super) struct Matched {
    /// For each column that of the other, if it has one.
    pub(super) columns: Vec<Option<usize>>,
    /// Fields at the top that are the other's, with these, but for how their columns are stored: pages of one are none of the other.
    pub(super) anew: Vec<(u32, u32)>,
    pub(super) differ: Differ,
}

/// How fields at the top are different from those of an ntuple.
#[derive(Default, Debug)]
pub(super) struct Differ {
    /// Fields of the ntuple that are not there.
    pub(super) lacking: Vec<u32>,
    /// Fields that it has not: names and types.
    pub(super) more: Vec<(Box<str>, Box<str>)>,
    /// Fields of other types: name, its type, type that was given.
    pub(super) others: Vec<(Box<str>, Box<str>, Box<str>)>,
}

/// For each field that at the top.
fn tops(schema: &Schema) -> Vec<u32> {
    let mut tops: Vec<u32> = Vec::with_capacity(schema.fields.len());
    for (number, field) in (0_u32..).zip(&schema.fields) {
        let top = if field.parent == number { number } else { tops[field.parent as usize] };
        tops.push(top);
    }
    tops
}

/// Fields at the top that have values of their own.
pub(super) fn own_tops(schema: &Schema) -> impl Iterator<Item = u32> {
    schema.tops().filter(|&number| schema.fields[number as usize].source.is_none())
}

/// Columns of a field at the top and of those below it.
fn columns_of(schema: &Schema, tops: &[u32], top: u32) -> Vec<usize> {
    (0..schema.columns.len()).filter(|&at| tops[schema.columns[at].field as usize] == top).collect()
}

/// Fields at the top that lack columns in a cluster which has some, but for those whose first entries have none anyway.
pub(super) fn lacking(schema: &Schema, sealed: &[Option<SealedColumn<'_>>]) -> Vec<u32> {
    let there = schema.columns.iter().zip(sealed).filter(|(_, sealed)| sealed.is_some());
    let fields: BTreeSet<u32> = there.map(|(column, _)| column.field).collect();
    let tops = tops(schema);
    let numbered = schema.columns.iter().enumerate();
    let lacks = |(number, column): &(usize, &Column)| {
        column.first_element == 0 && !fields.contains(&column.field) && !is_deferred(schema, *number)
    };
    let lacking: BTreeSet<u32> =
        numbered.filter(lacks).map(|(_, column)| tops[column.field as usize]).collect();
    lacking.into_iter().collect()
}

/// Fields at the top whose columns are from `first` on.
pub(super) fn behind(schema: &Schema, first: usize) -> Vec<u32> {
    let tops = tops(schema);
    let fields: BTreeSet<u32> =
        schema.columns[first..].iter().map(|column| tops[column.field as usize]).collect();
    fields.into_iter().collect()
}

/// Finds fields of another schema by their names.
pub(super) fn matched(schema: &Schema, other: &Schema) -> Matched {
    let (own, others) = (tops(schema), tops(other));
    let mut columns = vec![None; schema.columns.len()];
    let (mut anew, mut differ) = (Vec::new(), Differ::default());
    for top in own_tops(schema) {
        let name = &schema.fields[top as usize].name;
        // What shows another field there has its values for its own here.
        let Some(found) = other.tops().find(|&found| other.fields[found as usize].name == *name) else {
            differ.lacking.push(top);
            continue;
        };
        match likeness((schema, &own, top), (other, &others, found)) {
            Likeness::Pages => {}
            Likeness::Values => {
                anew.push((top, found));
                continue;
            }
            Likeness::None => {
                differ.others.push(different(name, (schema, &own, top), (other, &others, found)));
            }
        }
        let pairs = columns_of(schema, &own, top).into_iter().zip(columns_of(other, &others, found));
        pairs.for_each(|(own, found)| columns[own] = Some(found));
    }
    for top in own_tops(other) {
        let name = &other.fields[top as usize].name;
        if !own_tops(schema).any(|own| schema.fields[own as usize].name == *name) {
            differ.more.push((name.clone(), type_of(other, top)));
        }
    }
    Matched { columns, anew, differ }
}

/// A field at the top of a schema, with what is at the top of each.
type Top<'a> = (&'a Schema, &'a [u32], u32);

/// What of one field can be that of another.
enum Likeness {
    None,
    /// Its values, which are written anew.
    Values,
    Pages,
}

/// What of the other can be that of the one.
fn likeness((one, one_tops, one_top): Top<'_>, (other, other_tops, other_top): Top<'_>) -> Likeness {
    let fields = |schema: &Schema, tops: &[u32], top: u32| -> Vec<u32> {
        (0_u32..).take(schema.fields.len()).filter(|&number| tops[number as usize] == top).collect()
    };
    let (own, found) = (fields(one, one_tops, one_top), fields(other, other_tops, other_top));
    let place = |within: &[u32], number: u32| within.binary_search(&number).ok();
    let are_fields = own.len() == found.len()
        && own.iter().zip(&found).all(|(&number, &same)| {
            let (field, of) = (&one.fields[number as usize], &other.fields[same as usize]);
            let key =
                |field: &Field| (field.name.clone(), field.type_name.clone(), field.role, field.repetition);
            key(field) == key(of) && place(&own, field.parent) == place(&found, of.parent)
        });
    let (columns, same) = (columns_of(one, one_tops, one_top), columns_of(other, other_tops, other_top));
    if !are_fields {
        return Likeness::None;
    }
    if other.fields[other_top as usize].source.is_some() {
        let are_narrow = columns.iter().any(|&number| is_narrow(one.columns[number].kind));
        return if are_narrow { Likeness::None } else { Likeness::Values };
    }
    let are_alike = columns.len() == same.len()
        && columns.iter().zip(&same).all(|(&number, &same)| {
            let (column, of) = (&one.columns[number], &other.columns[same]);
            let key = |column: &Column| (column.kind, column.bits, column.representation, column.range);
            key(column) == key(of) && place(&own, column.field) == place(&found, of.field)
        });
    // What begins later has no elements of the entries before, and is behind others here.
    let are_late = same.iter().any(|&same| other.columns[same].first_element != 0);
    let kept = |(&number, &same): (&u32, &u32)| has_values_of((one, number), (other, same));
    if are_alike && !are_late {
        Likeness::Pages
    } else if are_alike && !columns.iter().any(|&number| is_fine(&one.columns[number]))
        || own.iter().zip(&found).all(kept)
    {
        Likeness::Values
    } else {
        Likeness::None
    }
}

/// Whether columns of a kind keep fewer bits of floats.
fn is_narrow(kind: ColumnKind) -> bool {
    use ColumnKind::{Real16, Real32Quant, Real32Trunc, SplitReal16};
    matches!(kind, Real16 | SplitReal16 | Real32Trunc | Real32Quant)
}

/// Whether a column is quantised in more steps than a float of 32 bits can tell, so that what is read of it is not all that was written.
fn is_fine(column: &Column) -> bool {
    column.kind == ColumnKind::Real32Quant && column.bits > 22
}

/// Whether a field keeps all values that another can have: its columns have what the other's have in memory, or doubles for its floats, and no fewer bits.
fn has_values_of((one, field): (&Schema, u32), (other, of): (&Schema, u32)) -> bool {
    let columns = |schema: &Schema, field: u32, representation: u16| -> Vec<ColumnKind> {
        let is_it = |column: &&Column| column.field == field && column.representation == representation;
        schema.columns.iter().filter(is_it).map(|column| column.kind).collect()
    };
    let own = columns(one, field, 0);
    let in_memory = |kinds: &[ColumnKind]| kinds.iter().map(|kind| kind.in_memory()).collect::<Vec<_>>();
    let last =
        other.columns.iter().filter(|column| column.field == of).map(|column| column.representation).max();
    let holds = |(one, other): (&Option<InMemory>, &Option<InMemory>)| {
        one == other || (*one, *other) == (Some(InMemory::F64), Some(InMemory::F32))
    };
    let is_same = |representation| {
        let (own, others) = (in_memory(&own), in_memory(&columns(other, of, representation)));
        own.len() == others.len() && own.iter().zip(&others).all(holds)
    };
    !own.iter().copied().any(is_narrow) && (0..=last.unwrap_or(0)).all(is_same)
}

/// The types of two fields of one name, in such words that they are different.
fn different(name: &str, own: Top<'_>, other: Top<'_>) -> (Box<str>, Box<str>, Box<str>) {
    let (mut one, mut found) = (type_of(own.0, own.2), type_of(other.0, other.2));
    if one == found {
        let stored = |(schema, tops, top): Top<'_>| {
            let columns = columns_of(schema, tops, top).into_iter().map(|number| {
                let column = &schema.columns[number];
                let late = if column.first_element == 0 { "" } else { ", later" };
                format!("{:?} of {} bits{late}", column.kind, column.bits)
            });
            columns.collect::<Vec<_>>().join(", ")
        };
        one = format!("{one} stored as {}", stored(own)).into();
        found = format!("{found} stored as {}", stored(other)).into();
    }
    (name.into(), one, found)
}

/// The type of a field in words.
pub(super) fn type_of(schema: &Schema, number: u32) -> Box<str> {
    let field = &schema.fields[number as usize];
    let below = || {
        let names = schema.below(number).map(|below| &*schema.fields[below as usize].name);
        names.collect::<Vec<_>>().join(", ")
    };
    match field.role {
        _ if !field.type_name.is_empty() => field.type_name.clone(),
        Some(Role::Record) => format!("a record of {}", below()).into(),
        Some(Role::Collection) => "a collection without a name of its type".into(),
        Some(Role::Variant) => "a variant without a name of its type".into(),
        _ => "without a name of its type".into(),
    }
}

fn named(schema: &Schema, tops: &[u32]) -> Vec<(Box<str>, Box<str>)> {
    tops.iter().map(|&top| (schema.fields[top as usize].name.clone(), type_of(schema, top))).collect()
}

/// Some fields at the top of a schema.
pub(super) struct Portion {
    /// These alone.
    pub(super) schema: Schema,
    /// The number of each of its columns in the whole.
    pub(super) columns: Vec<usize>,
    /// Columns of the whole.
    pub(super) column_count: usize,
}

/// Some fields at the top, by their numbers.
pub(super) fn part(schema: &Schema, tops_wanted: &[u32]) -> Portion {
    let tops = tops(schema);
    let mut part = Schema::default();
    let mut numbers = vec![0; schema.fields.len()];
    for (number, field) in schema.fields.iter().enumerate() {
        if tops_wanted.contains(&tops[number]) {
            let own = u32::try_from(part.fields.len()).expect("it has fewer fields than the other");
            numbers[number] = own;
            part.fields.push(Field { parent: numbers[field.parent as usize], ..field.clone() });
        }
    }
    let mut columns = Vec::new();
    for (number, column) in schema.columns.iter().enumerate() {
        if tops_wanted.contains(&tops[column.field as usize]) {
            columns.push(number);
            part.columns.push(Column { field: numbers[column.field as usize], ..*column });
        }
    }
    Portion { schema: part, columns, column_count: schema.columns.len() }
}

impl Fills {
    /// Whether all that is filled are fields at the top, and can be filled so.
    ///
    /// # Errors
    /// [`Error::NoFill`]; [`Error::NoFit`] of a value that its field cannot have.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        let names = || own_tops(schema).map(|top| &*schema.fields[top as usize].name);
        let unknown = self.fields.iter().find(|fill| !names().any(|name| *fill.field == *name));
        let Some(Fill { field, .. }) = unknown else {
            let is_filled = |&top: &u32| self.not_filled(schema, &[top]).is_empty();
            let tops: Vec<u32> = own_tops(schema).filter(is_filled).collect();
            return self.sealed(schema, &tops, 0).map(drop);
        };
        Err(Error::NoFill {
            field: field.clone(),
            near: near(field, names()).map(Into::into),
            others: names().map(Into::into).collect(),
        })
    }

    /// Whether all that is lacking is filled.
    ///
    /// # Errors
    /// [`Error::OtherFields`].
    pub(super) fn check_lacking(&self, schema: &Schema, lacking: &[u32]) -> Result<()> {
        let missing = named(schema, &self.not_filled(schema, lacking));
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::OtherFields(Box::new(OtherFields { missing, ..OtherFields::default() })))
    }

    /// Whether what has these fields can be appended, with what is filled and left out; what is left out.
    ///
    /// # Errors
    /// [`Error::OtherFields`].
    pub(super) fn settle(&self, schema: &Schema, differ: Differ) -> Result<Vec<LeftOut>> {
        let Differ { lacking, more, others } = differ;
        let are_all = !lacking.is_empty() && lacking.len() == own_tops(schema).count();
        let missing = if are_all { lacking.clone() } else { self.not_filled(schema, &lacking) };
        if missing.is_empty() && others.is_empty() && (more.is_empty() || self.leaves_out) {
            return Ok(more.into_iter().map(|(name, of)| LeftOut::NoField { name, of }).collect());
        }
        let more = if self.leaves_out { Vec::new() } else { more };
        let missing = named(schema, &missing);
        Err(Error::OtherFields(Box::new(OtherFields { missing, are_all, more, others })))
    }

    fn not_filled(&self, schema: &Schema, lacking: &[u32]) -> Vec<u32> {
        let is_filled = |top: u32| {
            let name = &schema.fields[top as usize].name;
            self.fields.iter().any(|fill| fill.field == *name)
        };
        lacking.iter().copied().filter(|&top| !is_filled(top)).collect()
    }

    /// The columns of fields at the top, by the numbers of `schema`, for so many entries.
    pub(super) fn sealed(
        &self,
        schema: &Schema,
        tops: &[u32],
        entry_count: u64,
    ) -> Result<Vec<Option<SealedColumn<'static>>>> {
        let mut sealed: Vec<Option<SealedColumn<'static>>> = vec![None; schema.columns.len()];
        for &top in tops {
            let name = &*schema.fields[top as usize].name;
            let fill = self.fields.iter().find(|fill| *fill.field == *name);
            let number = fill.and_then(|fill| fill.number);
            let array = filled(schema, top, entry_count, number, 0).map_err(|fit| {
                let fit = if matches!(fit, Fit::Number | Fit::Kind) { Fit::Fill } else { fit };
                Error::NoFit { field: name.into(), fit }
            })?;
            let cluster = write::seal(schema, &[(name, &array)], 0..entry_count, &self.options)?;
            for (column, filled) in sealed.iter_mut().zip(cluster.columns) {
                if let Some(filled) = filled {
                    *column = Some(owned(filled));
                }
            }
        }
        Ok(sealed)
    }
}

/// The same with bytes of its own.
fn owned(column: SealedColumn<'_>) -> SealedColumn<'static> {
    let page = |page: crate::sealed::SealedPage<'_>| crate::sealed::SealedPage {
        element_count: page.element_count,
        stored: page.stored.into_owned().into(),
        checksum: page.checksum,
        zone: page.zone,
    };
    SealedColumn { compression: column.compression, pages: column.pages.into_iter().map(page).collect() }
}

/// So many values of a field: a number, or what is none.
fn filled(schema: &Schema, number: u32, count: u64, value: Option<Number>, depth: usize) -> Fitted<Array> {
    if depth > DEPTH_MAX {
        return Err(Fit::Depth);
    }
    let field = &schema.fields[number as usize];
    let below: Vec<u32> = schema.below(number).collect();
    let own = schema.columns.iter().filter(|column| column.field == number && column.representation == 0);
    let own: Vec<ColumnKind> = own.map(|column| column.kind).collect();
    let kinds: Vec<InMemory> =
        own.iter().map(|kind| kind.in_memory().ok_or(Fit::Kind)).collect::<Fitted<_>>()?;
    let is_half = matches!(own[..], [ColumnKind::Real16 | ColumnKind::SplitReal16]);
    if is_half
        && matches!(value.map(as_float), Some(Some(float)) if float.is_finite() && float.abs() >= HALF_END)
    {
        return Err(Fit::Number);
    }
    let none = |value: Option<Number>| if value.is_some() { Err(Fit::Number) } else { Ok(()) };
    let inner = |number, count| filled(schema, number, count, None, depth + 1);
    let record = |count| -> Fitted<Array> {
        let fields = below.iter().map(|&at| Ok((schema.fields[at as usize].name.clone(), inner(at, count)?)));
        Ok(Array::Record { len: count, fields: fields.collect::<Fitted<_>>()? })
    };
    let empty = || -> Fitted<Vec<i64>> { Ok(vec![0; place(count)? + 1]) };
    match (field.role.ok_or(Fit::Kind)?, field.repetition, &kinds[..], &below[..]) {
        (Role::Plain, None, [], [child]) => filled(schema, *child, count, value, depth + 1),
        (Role::Plain, None, [kind], []) => values(*kind, count, value).map(Array::Values),
        (Role::Plain, None, [InMemory::Offset, kind], []) => {
            none(value)?;
            let content = Box::new(Array::Values(values(*kind, 0, None)?));
            Ok(Array::Lists { of: Lists::Text, offsets: empty()?, content })
        }
        (Role::Plain, Some(times), kinds, below) => {
            none(value)?;
            let all = count.checked_mul(times).ok_or(Fit::Kind)?;
            let content = match (kinds, below) {
                ([kind], []) => Array::Values(values(*kind, all, None)?),
                ([], [child]) => inner(*child, all)?,
                _ => return Err(Fit::Kind),
            };
            Ok(Array::Repeated { count: times, len: count, content: Box::new(content) })
        }
        (Role::Collection, None, [InMemory::Offset], below) => {
            none(value)?;
            let content = if let [child] = below { inner(*child, 0)? } else { record(0)? };
            Ok(Array::Lists { of: Lists::Items, offsets: empty()?, content: Box::new(content) })
        }
        (Role::Record, None, [], _) | (Role::Plain, None, [], []) => {
            none(value)?;
            record(count)
        }
        (Role::Variant, None, [InMemory::Switch], below) => {
            none(value)?;
            let contents = below.iter().map(|&child| inner(child, 0)).collect::<Fitted<_>>()?;
            Ok(Array::Variant { tags: vec![-1; place(count)?], index: vec![0; place(count)?], contents })
        }
        _ => Err(Fit::Kind),
    }
}

/// The least number that becomes infinite in 16 bits.
const HALF_END: f64 = 65_520.0;

type Fitted<T> = core::result::Result<T, Fit>;

fn place(count: u64) -> Fitted<usize> {
    usize::try_from(count).or(Err(Fit::Kind))
}

/// A number as a float, if there is one that is the same.
fn as_float(value: Number) -> Option<f64> {
    let whole = match value {
        Number::Signed(whole) => i128::from(whole),
        Number::Unsigned(whole) => i128::from(whole),
        Number::Float(float) => return Some(float),
    };
    #[expect(clippy::cast_precision_loss, reason = "it is compared with what it was")]
    #[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was")]
    Some(whole as f64).filter(|&float| float as i128 == whole)
}

/// A number in 32 bits, unless it is infinite there alone.
#[expect(clippy::cast_possible_truncation, reason = "that is what such a field keeps")]
fn in_32_bits(float: f64) -> Option<f32> {
    let kept = float as f32;
    (kept.is_finite() || !float.is_finite()).then_some(kept)
}

/// So many times the same number; 0 if it is none.
fn values(kind: InMemory, count: u64, value: Option<Number>) -> Fitted<Values> {
    let value = value.unwrap_or(Number::Unsigned(0));
    let whole = match value {
        Number::Signed(whole) => Some(i128::from(whole)),
        Number::Unsigned(whole) => Some(i128::from(whole)),
        Number::Float(float) => {
            #[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was")]
            let whole = float as i128;
            #[expect(clippy::cast_precision_loss, reason = "it is compared with what it was")]
            let is_whole = whole as f64 == float;
            is_whole.then_some(whole)
        }
    };
    let float = as_float(value);
    macro_rules! of {
        ($variant:ident, $value:expr) => {
            Values::$variant(vec![$value.ok_or(Fit::Number)?; place(count)?])
        };
    }
    macro_rules! whole {
        ($variant:ident) => {
            of!($variant, whole.and_then(|whole| whole.try_into().ok()))
        };
    }
    Ok(match kind {
        InMemory::Bool => of!(Bool, whole.and_then(|whole| u8::try_from(whole).ok()).filter(|&one| one < 2)),
        InMemory::I8 => whole!(I8),
        InMemory::U8 => whole!(U8),
        InMemory::I16 => whole!(I16),
        InMemory::U16 => whole!(U16),
        InMemory::I32 => whole!(I32),
        InMemory::U32 => whole!(U32),
        InMemory::I64 => whole!(I64),
        // Of a field that shows how many items collections have.
        InMemory::U64 | InMemory::Offset => whole!(U64),
        InMemory::F32 => of!(F32, float.and_then(in_32_bits)),
        InMemory::F64 => of!(F64, float),
        InMemory::Switch => return Err(Fit::Kind),
    })
}
