//! What ROOT's buffers have around objects: counts of bytes, versions, and references to classes and objects before.
//!
//! //= root:io/doc/TFile/README.md

use crate::error::{Fault, Feature, Result};
use crate::format::Cursor;
use crate::rootfile::big;

/// The bit that says of a word that it counts bytes.
const COUNTS_BYTES: u32 = 0x4000_0000;

/// The bit that says of a word that it names a class.
const NAMES_CLASS: u32 = 0x8000_0000;

/// The word before the name of a class that was not named before.
const NEW_CLASS: u32 = u32::MAX;

/// References count from this many bytes before the buffer.
const REFERENCE_BASE: u64 = 2;

/// The bit of a version that says of a collection that its items lie member by member.
const MEMBER_WISE: u16 = 0x4000;

/// The bit of an object of ROOT that says that others refer to it: two bytes more follow.
const IS_REFERENCED: u32 = 1 << 4;

/// Bytes of the name of a class at most.
const CLASS_BYTES_MAX: usize = 4096;

/// What stands before the members of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// The members.
    pub(super) body: Cursor<'a>,
    /// Version of the class.
    pub(super) version: u16,
    /// Whether items of a collection lie member by member.
    pub(super) is_member_wise: bool,
}

/// The head of an object whose bytes are counted; the cursor goes behind the object.
pub(super) fn head<'a>(cursor: &mut Cursor<'a>) -> Result<Head<'a>> {
    let start = *cursor;
    let word = big::u32(cursor)?;
    if word & COUNTS_BYTES == 0 || word == NEW_CLASS {
        return Err(start.unsupported(Feature::UncountedObject));
    }
    let mut body = part(cursor, (word & !COUNTS_BYTES) as usize)?;
    let version = big::u16(&mut body)?;
    Ok(Head { body, version: version & !MEMBER_WISE, is_member_wise: version & MEMBER_WISE != 0 })
}

/// The next `count` bytes by themselves; the cursor goes behind them.
pub(super) fn part<'a>(cursor: &mut Cursor<'a>, count: usize) -> Result<Cursor<'a>> {
    let base = cursor.offset();
    Ok(Cursor::within(cursor.structure(), cursor.take(count)?, base))
}

/// What is left of a part has to be nothing.
pub(super) fn is_over(cursor: &Cursor<'_>) -> Result<()> {
    if cursor.remaining() == 0 { Ok(()) } else { Err(cursor.corrupt(Fault::Length)) }
}

/// An object behind a pointer.
#[derive(Debug)]
pub(super) enum Pointed<'a> {
    /// None.
    Null,
    /// One that was read before, by what stands for it.
    Before(u64),
    /// One that stands here.
    Here {
        /// What stands for it.
        reference: u64,
        /// Its class.
        class: Box<str>,
        /// What its class says of it, and all of that.
        body: Cursor<'a>,
    },
}

/// Names of classes, by what stands for them.
#[derive(Default, Debug)]
pub(super) struct Classes(Vec<(u64, Box<str>)>);

impl Classes {
    /// Reads a pointer and what it points to; the cursor goes behind that.
    pub(super) fn pointed<'a>(&mut self, cursor: &mut Cursor<'a>) -> Result<Pointed<'a>> {
        let start = *cursor;
        let word = big::u32(cursor)?;
        if word == 0 {
            return Ok(Pointed::Null);
        }
        if word & NAMES_CLASS == 0 && word & COUNTS_BYTES == 0 {
            return Ok(Pointed::Before(u64::from(word)));
        }
        if word & COUNTS_BYTES == 0 || word == NEW_CLASS {
            return Err(start.unsupported(Feature::UncountedObject));
        }
        let mut body = part(cursor, (word & !COUNTS_BYTES) as usize)?;
        let tag_at = body;
        let tag = big::u32(&mut body)?;
        let class = if tag == NEW_CLASS {
            let name = terminated(&mut body)?;
            self.0.push((tag_at.offset() + REFERENCE_BASE, name.clone()));
            name
        } else {
            let named = u64::from(tag & !NAMES_CLASS);
            let is_class = tag & NAMES_CLASS != 0;
            let found = self.0.binary_search_by_key(&named, |(at, _)| *at);
            let at = found.ok().filter(|_| is_class).ok_or_else(|| tag_at.corrupt(Fault::Reference))?;
            self.0[at].1.clone()
        };
        Ok(Pointed::Here { reference: start.offset() + REFERENCE_BASE, class, body })
    }
}

/// A text that ends with a zero.
fn terminated(cursor: &mut Cursor<'_>) -> Result<Box<str>> {
    let start = *cursor;
    let mut ahead = *cursor;
    let rest = ahead.take(ahead.remaining().min(CLASS_BYTES_MAX))?;
    let length = rest.iter().position(|&byte| byte == 0).ok_or_else(|| start.corrupt(Fault::Text))?;
    let text = core::str::from_utf8(cursor.take(length)?).or(Err(start.corrupt(Fault::Text)))?;
    cursor.take(1)?;
    Ok(text.into())
}

/// A text of ROOT, whose length takes a byte, or five if it is 255 or more. It need not be UTF-8.
pub(super) fn text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let count = match cursor.u8()? {
        u8::MAX => big::u32(cursor)?,
        short => u32::from(short),
    };
    cursor.take(count as usize)
}

/// The name of a class behind its length, and a zero behind it.
pub(super) fn class_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let count = cursor.u8()?;
    let name = cursor.take(usize::from(count))?;
    cursor.take(1)?;
    Ok(name)
}

/// What each object of ROOT begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) unique_id: u32,
    pub(super) bits: u32,
}

/// The members of a `TObject`, with its version before them.
pub(super) fn identity(cursor: &mut Cursor<'_>) -> Result<Identity> {
    let start = *cursor;
    let word = big::u32(cursor)?;
    if word & COUNTS_BYTES == 0 {
        *cursor = start;
    }
    let _version = big::u16(cursor)?;
    Ok(Identity { unique_id: big::u32(cursor)?, bits: bits(cursor)? })
}

/// The bits of an object, with what follows them if others refer to it.
pub(super) fn bits(cursor: &mut Cursor<'_>) -> Result<u32> {
    let bits = big::u32(cursor)?;
    if bits & IS_REFERENCED != 0 {
        let _process = big::u16(cursor)?;
    }
    Ok(bits)
}

/// Name and title of a `TNamed`, with all that stands before them.
pub(super) fn named(cursor: &mut Cursor<'_>) -> Result<(Box<str>, Box<str>)> {
    let mut body = head(cursor)?.body;
    identity(&mut body)?;
    let names = (big::string(&mut body)?, big::string(&mut body)?);
    is_over(&body)?;
    Ok(names)
}

/// How many items a list of pointers has, which follow; the cursor goes behind the list.
pub(super) fn pointers<'a>(class: &str, cursor: &mut Cursor<'a>) -> Result<(Cursor<'a>, usize)> {
    let mut body = head(cursor)?.body;
    identity(&mut body)?;
    big::string(&mut body)?;
    let start = body;
    let count = big::u32(&mut body)? as usize;
    if class == "TObjArray" {
        let _lowest_index = big::u32(&mut body)?;
    }
    // Each takes four bytes at least: its reference.
    if count > body.remaining() / 4 { Err(start.corrupt(Fault::Length)) } else { Ok((body, count)) }
}
