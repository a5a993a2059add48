//! Objects that say what a tree is: read by the file's own descriptions of their classes.
//!
//! Trees, branches and leaves had some thirty versions together. Each file describes those that it has, so they are read by
//! that; only what the descriptions themselves are made of is known here ([`stream`](super::stream)). Of an object only the
//! members of [`MEMBERS`] are kept.
//!
//! Invariants: an object that refers to another refers to one that was read before it, or that it is a part of.

use super::basket::Embedded;
use super::describe::{Descriptions, Extra, Member};
use super::stream::{Classes, Pointed, head, identity, named, part, pointers, text};
use crate::error::{Fault, Feature, Result};
use crate::format::Cursor;
use crate::rootfile::big;

/// Members that are kept, of whatever class.
const MEMBERS: [&str; 24] = [
    "fName",
    "fTitle",
    "fEntries",
    "fBranches",
    "fLeaves",
    "fBaskets",
    "fMaxBaskets",
    "fWriteBasket",
    "fBasketBytes",
    "fBasketEntry",
    "fBasketSeek",
    "fFileName",
    "fClassName",
    "fParentName",
    "fCheckSum",
    "fClassVersion",
    "fID",
    "fType",
    "fStreamerType",
    "fLen",
    "fIsUnsigned",
    "fLeafCount",
    "fVirtual",
    "fNClusterRange",
];

/// Objects within objects, or base classes of base classes, at most.
const DEPTH_MAX: usize = 64;

/// The place of an object among all.
pub(super) type Place = usize;

/// What a member is.
#[derive(Debug)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Ints(Vec<i64>),
    /// What it points to.
    One(Option<Place>),
    /// What a list points to.
    Many(Vec<Option<Place>>),
    /// One that is not kept.
    Other,
}

/// An object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) class: Box<str>,
    members: Vec<(&'static str, Value)>,
    /// What a basket is that is within its branch.
    pub(super) basket: Option<Embedded>,
}

impl Object {
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(member, _)| *member == name).map(|(_, value)| value)
    }

    /// A number, which some versions have as a float.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Int(int) => Some(*int),
            #[expect(clippy::cast_possible_truncation, reason = "a float is a count here")]
            Value::Float(float) => Some(*float as i64),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn ints(&self, name: &str) -> &[i64] {
        match self.value(name) {
            Some(Value::Ints(ints)) => ints,
            _ => &[],
        }
    }

    pub(super) fn one(&self, name: &str) -> Option<Place> {
        match self.value(name) {
            Some(Value::One(place)) => *place,
            _ => None,
        }
    }

    pub(super) fn many(&self, name: &str) -> &[Option<Place>] {
        match self.value(name) {
            Some(Value::Many(places)) => places,
            _ => &[],
        }
    }
}

/// Reads objects, and keeps them.
#[derive(Debug)]
pub(super) struct Objects<'d> {
    descriptions: &'d Descriptions,
    classes: Classes,
    all: Vec<Object>,
    /// What stands for each, rising.
    references: Vec<(u64, Place)>,
}

impl<'d> Objects<'d> {
    pub(super) fn new(descriptions: &'d Descriptions) -> Self {
        Self { descriptions, classes: Classes::default(), all: Vec::new(), references: Vec::new() }
    }

    /// How many were read.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn at(&self, place: Place) -> &Object {
        &self.all[place]
    }

    /// Takes the basket out of an object.
    pub(super) fn take_basket(&mut self, place: Place) -> Option<Embedded> {
        self.all[place].basket.take()
    }

    /// Reads the members of an object of `class` that is all of the cursor.
    pub(super) fn read(&mut self, class: &str, cursor: &mut Cursor<'_>) -> Result<Place> {
        let place = self.begin(class);
        self.members_with_head(place, class, cursor, 0)?;
        Ok(place)
    }

    fn begin(&mut self, class: &str) -> Place {
        self.all.push(Object { class: class.into(), members: Vec::new(), basket: None });
        self.all.len() - 1
    }

    fn keep(&mut self, place: Place, name: &str, value: Value) {
        if let Some(name) = MEMBERS.iter().find(|member| **member == name) {
            self.all[place].members.push((name, value));
        }
    }

    /// An object behind a pointer.
    fn pointed(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Option<Place>> {
        let start = *cursor;
        match self.classes.pointed(cursor)? {
            Pointed::Null => Ok(None),
            Pointed::Before(reference) => {
                let found = self.references.binary_search_by_key(&reference, |(at, _)| *at);
                let found = found.or(Err(start.corrupt(Fault::Reference)))?;
                Ok(Some(self.references[found].1))
            }
            Pointed::Here { reference, class, mut body } => {
                let place = self.begin(&class);
                self.references.push((reference, place));
                if depth > DEPTH_MAX {
                    return Err(start.corrupt(Fault::Value));
                }
                if &*class == "TBasket" {
                    self.all[place].basket = Some(Embedded::read(&mut body)?);
                } else if !self.descriptions.versions(&class).is_empty() {
                    self.members_with_head(place, &class, &mut body, depth + 1)?;
                }
                Ok(Some(place))
            }
        }
    }

    /// The members of `class` that `place` has, behind their head.
    fn members_with_head(
        &mut self,
        place: Place,
        class: &str,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<()> {
        let start = *cursor;
        let head = head(cursor)?;
        if depth > DEPTH_MAX {
            return Err(start.corrupt(Fault::Value));
        }
        let descriptions = self.descriptions;
        let Some(description) = descriptions.version(class, i32::from(head.version)) else {
            return Err(start.unsupported(Feature::ClassVersion(head.version)));
        };
        let mut body = head.body;
        for member in &description.members {
            // Floats of fewer bits are the last members of leaves that have such values: least and largest of them.
            if matches!(member.kind, 9 | 19) {
                break;
            }
            self.member(place, member, &mut body, depth)?;
            // What a tree has behind its branches is what they have, too, or for programs.
            if &*member.name == "fBranches" && class == "TTree" {
                break;
            }
        }
        Ok(())
    }

    fn member(&mut self, place: Place, member: &Member, cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
        let value = match member.kind {
            0 => return self.base(place, &member.name, cursor, depth),
            66 => return identity(cursor).map(|_| ()),
            67 => return self.base(place, "TNamed", cursor, depth),
            61..=63 => self.inline(&member.type_name, cursor, depth)?,
            64 | 69 => Value::One(self.pointed(cursor, depth + 1)?),
            65 => Value::Text(String::from_utf8_lossy(text(cursor)?).into()),
            kind @ 1..=19 => number(kind, cursor)?,
            kind @ 21..=39 => numbers(kind - 20, member.length as usize, cursor)?,
            kind @ 41..=59 => {
                let Extra::Counted(counter) = &member.extra else {
                    return Err(cursor.corrupt(Fault::Reference));
                };
                let count = self.all[place].int(counter).and_then(|count| usize::try_from(count).ok());
                let count = count.ok_or_else(|| cursor.corrupt(Fault::Length))?;
                if cursor.u8()? == 0 { Value::Ints(Vec::new()) } else { numbers(kind - 40, count, cursor)? }
            }
            kind => return Err(cursor.unsupported(Feature::Member(kind))),
        };
        self.keep(place, &member.name, value);
        Ok(())
    }

    fn base(&mut self, place: Place, class: &str, cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
        match class {
            "TObject" => identity(cursor).map(|_| ()),
            "TNamed" => {
                let (name, title) = named(cursor)?;
                self.keep(place, "fName", Value::Text(name));
                self.keep(place, "fTitle", Value::Text(title));
                Ok(())
            }
            _ => self.members_with_head(place, class, cursor, depth + 1),
        }
    }

    /// An object that is a part of another.
    fn inline(&mut self, class: &str, cursor: &mut Cursor<'_>, depth: usize) -> Result<Value> {
        match class {
            "TObjArray" | "TList" => {
                let (mut list, count) = pointers(class, cursor)?;
                let mut places = Vec::new();
                for _ in 0..count {
                    places.push(self.pointed(&mut list, depth + 1)?);
                    if class == "TList" {
                        text(&mut list)?;
                    }
                }
                Ok(Value::Many(places))
            }
            _ => head(cursor).map(|_| Value::Other),
        }
    }
}

fn number(kind: i32, cursor: &mut Cursor<'_>) -> Result<Value> {
    Ok(match kind {
        1 | 10 => Value::Int(i64::from(cursor.u8()?.cast_signed())),
        2 => Value::Int(i64::from(big::u16(cursor)?.cast_signed())),
        3 | 6 => Value::Int(i64::from(big::u32(cursor)?.cast_signed())),
        4 | 16 => Value::Int(big::u64(cursor)?.cast_signed()),
        5 => Value::Float(f64::from(f32::from_bits(big::u32(cursor)?))),
        8 => Value::Float(f64::from_bits(big::u64(cursor)?)),
        11 | 18 => Value::Int(i64::from(cursor.u8()?)),
        12 => Value::Int(i64::from(big::u16(cursor)?)),
        13 | 15 => Value::Int(i64::from(big::u32(cursor)?)),
        14 | 17 => Value::Int(big::u64(cursor)?.cast_signed()),
        _ => return Err(cursor.unsupported(Feature::Member(kind))),
    })
}

fn numbers(kind: i32, count: usize, cursor: &mut Cursor<'_>) -> Result<Value> {
    let bytes = match kind {
        1 | 10 | 11 | 18 => 1,
        2 | 12 => 2,
        4 | 8 | 14 | 16 | 17 => 8,
        _ => 4,
    };
    let start = *cursor;
    let mut rest = part(cursor, count.checked_mul(bytes).ok_or_else(|| start.corrupt(Fault::Length))?)?;
    let mut ints = Vec::with_capacity(count);
    for _ in 0..count {
        ints.push(match number(kind, &mut rest)? {
            Value::Int(int) => int,
            _ => 0,
        });
    }
    Ok(Value::Ints(ints))
}
