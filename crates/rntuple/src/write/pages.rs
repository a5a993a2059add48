//! Columns into pages.

use super::Options;
use crate::error::Result;
use crate::format::block::{self, Compression};
use crate::format::column::{Column, InMemory};
use crate::format::{checksum, encoding};
use crate::sealed::{SealedColumn, SealedPage};
use crate::zone::Zone;
use std::borrow::Cow;

/// The pages of all `elements` of a column, as few as the options allow, all of about the same number.
pub(super) fn seal<'a>(
    column: &Column,
    elements: Cow<'a, [u8]>,
    options: &Options,
) -> Result<SealedColumn<'a>> {
    let kind = column.kind.in_memory().expect("an unknown kind was refused");
    let count = elements.len() / kind.bytes();
    let most = (u64::from(options.page_bytes) * 8 / u64::from(column.bits)).max(1);
    let page_count = (count as u64).div_ceil(most);
    let mut pages = Vec::new();
    let mut before = 0;
    for nth in 0..page_count {
        let at = |nth: u64| {
            let place = u128::from(nth) * count as u128 / u128::from(page_count);
            usize::try_from(place).expect("it is at most the count") * kind.bytes()
        };
        let (start, end) = (at(nth), at(nth + 1));
        let part = match &elements {
            Cow::Borrowed(all) => Cow::Borrowed(&all[start..end]),
            Cow::Owned(all) => Cow::Owned(all[start..end].to_vec()),
        };
        let zone = if options.has_zones { Zone::of(kind, &part, before) } else { None };
        if kind == InMemory::Offset {
            before = part.last_chunk().map_or(before, |end| i64::from_le_bytes(*end));
        }
        let element_count = u32::try_from(part.len() / kind.bytes()).expect("a page has fewer bytes");
        let stored = stored(column, part, options.compression)?;
        let checksum = options.has_checksums.then(|| checksum(&stored));
        pages.push(SealedPage { element_count, stored, checksum, zone });
    }
    Ok(SealedColumn { compression: options.compression.settings(), pages })
}

/// A page as it is stored.
fn stored<'a>(column: &Column, part: Cow<'a, [u8]>, compression: Compression) -> Result<Cow<'a, [u8]>> {
    let page = if encoding::is_plain(column.kind) { part } else { encoding::encode(column, &part).into() };
    if compression == Compression::None {
        return Ok(page);
    }
    let block = block::compress(compression, &page)?;
    // Of a page that is stored as it is, the memory that there is already.
    Ok(if block.len() == page.len() { page } else { block.into() })
}
