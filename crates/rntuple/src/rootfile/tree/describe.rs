//! Descriptions of classes: which members each version of a class has, as the file that has its objects says it.

use super::stream::{self, Classes, Pointed, head, named, pointers};
use crate::error::{Fault, Result, Structure};
use crate::format::Cursor;
use crate::rootfile::{RootFile, big};

/// Bytes of all descriptions that are read at most.
const DESCRIPTIONS_BYTES_MAX: u32 = 64 << 20;

/// What is known of a member besides its kind.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Extra {
    /// Nothing.
    Nothing,
    /// It is a class whose members the class has before its own, in this version.
    Base {
        /// Its version; none where it is not said.
        version: Option<i32>,
    },
    /// It is an array as long as the member of this name says.
    Counted(Box<str>),
    /// It is a collection of the standard library, or its string.
    Standard,
}

/// One member.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Member {
    pub(super) name: Box<str>,
    pub(super) title: Box<str>,
    /// What it is, by ROOT's number.
    pub(super) kind: i32,
    /// How many values it has, if it is an array.
    pub(super) length: u32,
    /// How many in each dimension.
    pub(super) dimensions: Vec<u32>,
    /// Its type in C++.
    pub(super) type_name: Box<str>,
    pub(super) extra: Extra,
}

/// One version of a class.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Description {
    pub(super) class: Box<str>,
    pub(super) version: i32,
    pub(super) checksum: u32,
    pub(super) members: Vec<Member>,
}

/// All of a file, by class and version.
#[derive(Default, Debug)]
pub(super) struct Descriptions {
    all: Vec<Description>,
}

impl Descriptions {
    /// Those of the file; none if it has none.
    pub(super) fn of(file: &RootFile) -> Result<Self> {
        let Some(key) = file.descriptions()? else { return Ok(Self::default()) };
        let object = file.object(&key, DESCRIPTIONS_BYTES_MAX)?;
        let base = u64::from(key.key_bytes);
        Self::read(&mut Cursor::within(Structure::Descriptions, &object, base))
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut classes = Classes::default();
        let (mut list, count) = pointers("TList", cursor)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let pointed = classes.pointed(&mut list)?;
            stream::text(&mut list)?;
            // What else is in the list are rules of how to convert, for programs that have the classes.
            if let Pointed::Here { class, body, .. } = pointed
                && &*class == "TStreamerInfo"
            {
                all.push(description(&mut classes, body)?);
            }
        }
        all.sort_by(|a: &Description, b| (&a.class, a.version).cmp(&(&b.class, b.version)));
        Ok(Self { all })
    }

    /// All versions of a class.
    pub(super) fn versions(&self, class: &str) -> &[Description] {
        let start = self.all.partition_point(|other| &*other.class < class);
        let rest = &self.all[start..];
        &rest[..rest.partition_point(|other| &*other.class == class)]
    }

    pub(super) fn version(&self, class: &str, version: i32) -> Option<&Description> {
        self.versions(class).iter().find(|description| description.version == version)
    }
}

fn description(classes: &mut Classes, mut body: Cursor<'_>) -> Result<Description> {
    let mut body = head(&mut body)?.body;
    let (class, _title) = named(&mut body)?;
    let (checksum, version) = (big::u32(&mut body)?, big::u32(&mut body)?.cast_signed());
    let start = body;
    let Pointed::Here { class: array, body: mut elements, .. } = classes.pointed(&mut body)? else {
        return Err(start.corrupt(Fault::Reference));
    };
    let (mut elements, count) = pointers(&array, &mut elements)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let start = elements;
        let Pointed::Here { class, body, .. } = classes.pointed(&mut elements)? else {
            return Err(start.corrupt(Fault::Reference));
        };
        members.push(member(&class, body)?);
    }
    Ok(Description { class, version, checksum, members })
}

fn member(class: &str, mut body: Cursor<'_>) -> Result<Member> {
    let own = head(&mut body)?;
    let (own_version, mut body) = (own.version, own.body);
    if class == "TStreamerSTLstring" {
        // It has what a collection has, once more around it.
        body = head(&mut body)?.body;
    }
    let common = head(&mut body)?;
    let (version, mut common) = (common.version, common.body);
    let (name, title) = named(&mut common)?;
    let start = common;
    let kind = big::u32(&mut common)?.cast_signed();
    let _bytes = big::u32(&mut common)?;
    let (length, dimension_count) = (big::u32(&mut common)?, big::u32(&mut common)? as usize);
    let lengths_count = if version == 1 { big::u32(&mut common)? as usize } else { 5 };
    if lengths_count > common.remaining() / 4 || dimension_count > lengths_count {
        return Err(start.corrupt(Fault::Length));
    }
    let mut dimensions = Vec::new();
    for at in 0..lengths_count {
        let length = big::u32(&mut common)?;
        if at < dimension_count {
            dimensions.push(length);
        }
    }
    let type_name = big::string(&mut common)?;
    let extra = match class {
        "TStreamerBase" if own_version > 2 => {
            Extra::Base { version: Some(big::u32(&mut body)?.cast_signed()) }
        }
        "TStreamerBase" => Extra::Base { version: None },
        "TStreamerBasicPointer" | "TStreamerLoop" => {
            let _version = big::u32(&mut body)?;
            Extra::Counted(big::string(&mut body)?)
        }
        "TStreamerSTL" | "TStreamerSTLstring" => Extra::Standard,
        _ => Extra::Nothing,
    };
    Ok(Member { name, title, kind, length, dimensions, type_name, extra })
}
