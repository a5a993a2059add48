//! Reading and writing of what ROOT's file itself has: big-endian numbers, and strings behind a length of one byte or five.

use crate::error::{Fault, Result};
use crate::format::Cursor;

fn big<const N: usize>(cursor: &mut Cursor<'_>) -> Result<[u8; N]> {
    let mut bytes = cursor.array::<N>()?;
    bytes.reverse();
    Ok(bytes)
}

pub(super) fn u16(cursor: &mut Cursor<'_>) -> Result<u16> {
    big(cursor).map(u16::from_le_bytes)
}

pub(super) fn u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    big(cursor).map(u32::from_le_bytes)
}

pub(super) fn u64(cursor: &mut Cursor<'_>) -> Result<u64> {
    big(cursor).map(u64::from_le_bytes)
}

/// A place in the file: 64 bits where it is `large`, else 32.
pub(super) fn place(cursor: &mut Cursor<'_>, large: bool) -> Result<u64> {
    if large { u64(cursor) } else { u32(cursor).map(u64::from) }
}

/// A string, whose length takes a byte, or five if it is 255 or more.
pub(super) fn string(cursor: &mut Cursor<'_>) -> Result<Box<str>> {
    let start = *cursor;
    let count = match cursor.u8()? {
        u8::MAX => u32(cursor)?,
        short => u32::from(short),
    };
    let bytes = cursor.take(count as usize)?;
    core::str::from_utf8(bytes).map(Into::into).or(Err(start.corrupt(Fault::Text)))
}

/// Bytes that are being made.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    fn big<const N: usize>(&mut self, mut bytes: [u8; N]) {
        bytes.reverse();
        self.0.extend_from_slice(&bytes);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.big(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.big(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.big(value.to_le_bytes());
    }

    /// # Panics
    /// If the text is of 4 GiB or more, which no name has.
    pub(super) fn string(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(count) if count < u8::MAX => self.u8(count),
            _ => {
                self.u8(u8::MAX);
                self.u32(u32::try_from(text.len()).expect("a name is short"));
            }
        }
        self.0.extend_from_slice(text.as_bytes());
    }
}
