//! Baskets: the entries of a range of one branch, behind one another.
//!
//! A basket is a key with some numbers more, and as its object the entries' bytes, behind which is where each entry begins, if
//! entries differ in length. Its last basket a branch may have within itself.
//!
//! Invariants: of a basket that was read, `starts` has one place more than there are entries, which rise from 0 to the end of `data`.

use super::stream::{part, text};
use crate::error::{Error, Fault, Feature, Result, Structure};
use crate::format::{Cursor, block};
use crate::rootfile::key::{Key, SMALL_VERSION_MAX};
use crate::rootfile::{RootFile, big};

/// Bytes of a basket as it is stored that are read at most: ROOT itself has at most 1 GiB.
const BASKET_BYTES_MAX: u32 = 1 << 30;

/// A kind is raised by this where starts of entries are left out, since they follow from counts.
const LEAVES_OUT_STARTS: u8 = 80;

/// The bit of the features of a basket that says so, too.
const LEAVES_OUT_STARTS_BIT: u8 = 1;

/// The bits of a start that are not of it, in baskets of kinds between 20 and 40.
const DISPLACEMENT: u32 = 0xff00_0000;

/// A basket's numbers, behind those of its key.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    entry_count: u32,
    /// Where the entries' bytes end, counted from the key.
    end: u32,
    kind: u8,
    version: u16,
    leaves_out_starts: bool,
}

impl Numbers {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let version = big::u16(cursor)?;
        let _buffer_bytes = big::u32(cursor)?;
        let start = *cursor;
        let mut features = 0;
        if big::u32(cursor)?.cast_signed() < 0 {
            features = cursor.u8()?;
            if features & !LEAVES_OUT_STARTS_BIT != 0 {
                return Err(start.unsupported(Feature::Flags(u64::from(features))));
            }
        }
        let (entry_count, end, kind) = (big::u32(cursor)?, big::u32(cursor)?, cursor.u8()?);
        let leaves_out_starts = features & LEAVES_OUT_STARTS_BIT != 0 || kind >= LEAVES_OUT_STARTS;
        Ok(Self { entry_count, end, kind: kind % LEAVES_OUT_STARTS, version, leaves_out_starts })
    }
}

/// What a basket has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Basket {
    /// How many entries.
    pub(super) entry_count: u32,
    /// Their bytes.
    pub(super) data: Vec<u8>,
    /// Where in them each begins, and the last ends; none if all are of one length.
    pub(super) starts: Option<Vec<u32>>,
    /// Whether starts are left out, since they follow from the counts of the entries.
    pub(super) leaves_out_starts: bool,
}

/// A basket that is within its branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Embedded(pub(super) Basket);

impl Embedded {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let start = *cursor;
        let key_bytes = unwritten_key(cursor)?;
        let numbers = Numbers::read(cursor)?;
        let Numbers { entry_count, end, kind, .. } = numbers;
        let mut starts = Vec::new();
        let has_starts = kind != 0 && kind % 10 != 2 && !numbers.leaves_out_starts;
        if has_starts && entry_count > 0 {
            starts = array(cursor)?;
            if kind > 20 && kind < 40 {
                starts.iter_mut().for_each(|start| *start &= !DISPLACEMENT);
            }
            if kind > 40 {
                array(cursor)?;
            }
        }
        let mut data = Vec::new();
        if kind == 1 || kind > 10 {
            let buffer = if numbers.version > 1 { end } else { big::u32(cursor)? };
            data = cursor.take(buffer as usize)?.to_vec();
        }
        if (key_bytes as usize) > data.len() && !(data.is_empty() && entry_count == 0) {
            return Err(start.corrupt(Fault::Length));
        }
        data.drain(..(key_bytes as usize).min(data.len()));
        let starts = match has_starts {
            true if entry_count > 0 => {
                Some(places(&start, starts.into_iter(), key_bytes, entry_count, data.len())?)
            }
            _ => None,
        };
        Ok(Self(Basket { entry_count, data, starts, leaves_out_starts: numbers.leaves_out_starts }))
    }
}

/// The key of a basket that has not got a place in the file, of which only its own length is right; that.
fn unwritten_key(cursor: &mut Cursor<'_>) -> Result<u32> {
    let (_all_bytes, version) = (big::u32(cursor)?, big::u16(cursor)?);
    let (_bytes, _time) = (big::u32(cursor)?, big::u32(cursor)?);
    let (key_bytes, _cycle) = (big::u16(cursor)?, big::u16(cursor)?);
    for _ in ["this key", "its directory"] {
        big::place(cursor, version > SMALL_VERSION_MAX)?;
    }
    for _ in ["class", "name", "title"] {
        text(cursor)?;
    }
    Ok(u32::from(key_bytes))
}

/// Numbers behind their count.
fn array(cursor: &mut Cursor<'_>) -> Result<Vec<u32>> {
    let start = *cursor;
    let count = big::u32(cursor)? as usize;
    let bytes = count.checked_mul(4).ok_or_else(|| start.corrupt(Fault::Length))?;
    let mut numbers = part(cursor, bytes)?;
    (0..count).map(|_| big::u32(&mut numbers)).collect()
}

/// Where entries begin in the data, and the last ends, from where they are said to begin behind the key.
fn places(
    at: &Cursor<'_>,
    said: impl Iterator<Item = u32>,
    key_bytes: u32,
    entry_count: u32,
    data_bytes: usize,
) -> Result<Vec<u32>> {
    let end = u32::try_from(data_bytes).or(Err(at.corrupt(Fault::Length)))?;
    let mut starts = Vec::new();
    let mut before = 0;
    for start in said.take(entry_count as usize) {
        let start = start.checked_sub(key_bytes).ok_or_else(|| at.corrupt(Fault::Order))?;
        if start < before || start > end {
            return Err(at.corrupt(Fault::Order));
        }
        before = start;
        starts.push(start);
    }
    if starts.len() != entry_count as usize || starts.first().is_some_and(|&first| first != 0) {
        return Err(at.corrupt(Fault::Length));
    }
    starts.push(end);
    Ok(starts)
}

/// The basket of `stored_bytes` at `offset` of the file.
pub(super) fn read(file: &RootFile, structure: Structure, offset: u64, stored_bytes: u32) -> Result<Basket> {
    if stored_bytes > BASKET_BYTES_MAX {
        let (bytes, bytes_max) = (u64::from(stored_bytes), u64::from(BASKET_BYTES_MAX));
        return Err(Error::TooBig { structure, offset, bytes, bytes_max });
    }
    let bytes = file.read_bytes(offset, stored_bytes)?;
    let mut cursor = Cursor::within(structure, &bytes, offset);
    let start = cursor;
    let key = Key::read(&mut cursor)?;
    let numbers = Numbers::read(&mut cursor)?;
    let (stored_at, key_bytes) = (usize::from(key.key_bytes), u32::from(key.key_bytes));
    let stored_end = stored_at.checked_add(key.stored_bytes as usize);
    let stored = stored_end.and_then(|end| bytes.get(stored_at..end));
    let stored = stored.filter(|_| &*key.class == "TBasket").ok_or_else(|| start.corrupt(Fault::Length))?;
    let mut data = block::decompress(structure, stored, u64::from(key.bytes))?;
    let end = numbers.end.checked_sub(key_bytes).map(|end| end as usize).filter(|&end| end <= data.len());
    let end = end.ok_or_else(|| start.corrupt(Fault::Length))?;
    let behind = Cursor::within(structure, &data[end..], end as u64);
    let entry_count = numbers.entry_count;
    let starts = if behind.remaining() == 0 || numbers.leaves_out_starts {
        None
    } else {
        Some(places(&behind, array(&mut { behind })?.into_iter(), key_bytes, entry_count, end)?)
    };
    data.truncate(end);
    Ok(Basket { entry_count, data, starts, leaves_out_starts: numbers.leaves_out_starts })
}
