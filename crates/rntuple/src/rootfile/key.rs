//! Keys: what names an object in a file of ROOT, and says where it is.

use super::big;
use crate::error::{Fault, Result};
use crate::format::Cursor;

/// Keys of a larger version have places of 64 bits.
pub(super) const SMALL_VERSION_MAX: u16 = 1000;

/// Bytes of the shortest key.
pub(super) const KEY_BYTES_MIN: usize = 18 + 8 + 3;

/// One key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Class of the object.
    pub class: Box<str>,
    /// Name of the object.
    pub name: Box<str>,
    /// Title of the object.
    pub title: Box<str>,
    /// Which of several objects of the name: the largest is the last.
    pub cycle: u16,
    /// Where the object is, from the start of the file.
    pub offset: u64,
    /// Bytes of the object as they are stored.
    pub stored_bytes: u32,
    /// Bytes of the object.
    pub bytes: u32,
    /// Bytes of the key itself, before the object.
    pub(super) key_bytes: u16,
}

impl Key {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let start = *cursor;
        let (all_bytes, version) = (big::u32(cursor)?, big::u16(cursor)?);
        let bytes = big::u32(cursor)?;
        let _time = big::u32(cursor)?;
        let (key_bytes, cycle) = (big::u16(cursor)?, big::u16(cursor)?);
        let is_large = version > SMALL_VERSION_MAX;
        let at = big::place(cursor, is_large)?;
        let _directory = big::place(cursor, is_large)?;
        let (class, name) = (big::string(cursor)?, big::string(cursor)?);
        let title = big::string(cursor)?;
        let stored_bytes = all_bytes.checked_sub(u32::from(key_bytes));
        let (Some(stored_bytes), Some(offset)) = (stored_bytes, at.checked_add(u64::from(key_bytes))) else {
            return Err(start.corrupt(Fault::Length));
        };
        Ok(Self { class, name, title, cycle, offset, stored_bytes, bytes, key_bytes })
    }

    /// Whether the object is compressed, by the rule that the file itself has.
    pub(super) fn is_compressed(&self) -> bool {
        self.bytes > self.stored_bytes
    }
}
