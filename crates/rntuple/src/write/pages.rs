//! Columns into pages.

use super::Options;
use crate::array::Room;
use crate::error::Result;
use crate::format::block::{self, Compression};
use crate::format::column::{Column, InMemory};
use crate::format::{checksum, encoding};
use crate::sealed::{SealedColumn, SealedPage};
use crate::zone::Zone;
use std::borrow::Cow;

/// Where pages are put that are not as they are in memory.
pub(super) enum Put<'r, 'a> {
    /// One behind the other.
    Room(&'r mut &'a mut [u8]),
    /// Each in memory of its own; the room is used for one after the other.
    Own(&'r mut Room),
}

/// Bytes of room that a column needs, and those that its largest page needs besides before it is known how many bytes that has.
pub(super) fn room_bytes(
    column: &Column,
    elements: &[u8],
    are_lent: bool,
    options: &Options,
) -> (usize, usize) {
    if are_lent && encoding::is_plain(column.kind) && options.compression == Compression::None {
        return (0, 0);
    }
    // A page is not longer than its elements.
    let width = column.kind.in_memory().map_or(0, InMemory::bytes);
    let page_bytes = elements.len().min(page_elements(column, options).saturating_mul(width));
    (elements.len(), block::room_bytes(page_bytes))
}

/// Elements of a page at most.
fn page_elements(column: &Column, options: &Options) -> usize {
    let most = (u64::from(options.page_bytes) * 8 / u64::from(column.bits)).max(1);
    usize::try_from(most).expect("it is a number of 32 bits, times eight")
}

/// The pages of all `elements` of a column, as few as the options allow, all of about the same number.
pub(super) fn seal<'a>(
    column: &Column,
    elements: Cow<'a, [u8]>,
    options: &Options,
    scratch: &mut Vec<u8>,
    put: &mut Put<'_, 'a>,
) -> Result<SealedColumn<'a>> {
    let kind = column.kind.in_memory().expect("an unknown kind was refused");
    let count = elements.len() / kind.bytes();
    let page_count = (count as u64).div_ceil(page_elements(column, options) as u64);
    let (mut pages, mut rounded) = (Vec::new(), Vec::new());
    let mut before = 0;
    for nth in 0..page_count {
        crate::stop::check()?;
        let at = |nth: u64| {
            let place = u128::from(nth) * count as u128 / u128::from(page_count);
            usize::try_from(place).expect("it is at most the count") * kind.bytes()
        };
        let (start, end) = (at(nth), at(nth + 1));
        let part = &elements[start..end];
        let element_count = u32::try_from(part.len() / kind.bytes()).expect("a page has fewer bytes");
        let page = if encoding::is_plain(column.kind) {
            part
        } else {
            encoding::encode_to(column, part, scratch);
            &*scratch
        };
        // Of what is read, which is not what was written if that is rounded.
        let kept = if options.has_zones && encoding::is_rounded(column.kind) {
            rounded.resize(part.len(), 0);
            encoding::decode(0, column, page, &mut rounded)?;
            &rounded[..]
        } else {
            part
        };
        let zone = if options.has_zones { Zone::of(kind, kept, before) } else { None };
        if kind == InMemory::Offset {
            before = part.last_chunk().map_or(before, |end| i64::from_le_bytes(*end));
        }
        let as_it_is = match &elements {
            Cow::Borrowed(all) if encoding::is_plain(column.kind) => Some(&all[start..end]),
            _ => None,
        };
        let stored = stored(page, as_it_is, options.compression, put)?;
        let checksum = options.has_checksums.then(|| checksum(&stored));
        pages.push(SealedPage { element_count, stored, checksum, zone });
    }
    Ok(SealedColumn { compression: options.compression.settings(), pages })
}

/// A page as it is stored, which there may be already as it is.
fn stored<'a>(
    page: &[u8],
    as_it_is: Option<&'a [u8]>,
    compression: Compression,
    put: &mut Put<'_, 'a>,
) -> Result<Cow<'a, [u8]>> {
    if compression != Compression::None {
        let compress = |room: &mut [u8]| block::compress_into(compression, page, room);
        if let Some(stored) = put.with(block::room_bytes(page.len()), compress)? {
            return Ok(stored);
        }
    }
    if let Some(stored) = as_it_is {
        return Ok(stored.into());
    }
    let copied = put.with(page.len(), |room| {
        room.copy_from_slice(page);
        Ok(Some(page.len()))
    })?;
    Ok(copied.expect("it was copied"))
}

impl<'a> Put<'_, 'a> {
    /// Has `fill` fill room of so many bytes: those that it says it has filled.
    fn with(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<Option<usize>>,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        match self {
            Self::Room(rest) => {
                let Some(count) = fill(&mut rest[..bytes])? else { return Ok(None) };
                let (filled, behind) = core::mem::take(*rest).split_at_mut(count);
                **rest = behind;
                Ok(Some(Cow::Borrowed(filled)))
            }
            Self::Own(room) => {
                let room = room.of(bytes)?;
                Ok(fill(room)?.map(|count| room[..count].to_vec().into()))
            }
        }
    }
}
