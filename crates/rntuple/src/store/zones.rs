//! Zones and checksums of the pages of a list, in the order in which the list has them.
//!
//! They are beside the list, and not in it: most readers do not look at them. The checksums are those behind the pages, so that a page
//! that is lost with them is known again where there is another copy.

use super::record::{Kind, open_packed, seal_packed};
use crate::error::{Fault, Result, Structure};
use crate::format::{Builder, Cursor};
use crate::zone::{Bounds, Zone};

/// What is known of a page besides where it is.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Known {
    /// What its values lie between.
    pub(super) zone: Option<Zone>,
    /// Its checksum.
    pub(super) sum: Option<u64>,
}

/// Kinds of bounds. Persistent: never renumber.
const NO_ZONE: u16 = 0;
const NO_BOUNDS: u16 = 1;
const SIGNED: u16 = 2;
const UNSIGNED: u16 = 3;
const FLOAT: u16 = 4;

/// The page has a checksum.
const HAS_SUM: u16 = 0x100;

/// Bytes of the shortest description.
const KNOWN_BYTES_MIN: usize = 2;

/// The record.
pub(super) fn write(pages: &[Known]) -> Result<Vec<u8>> {
    let mut builder = Builder::default();
    builder.u32(u32::try_from(pages.len()).expect("a list has fewer pages"));
    for Known { zone, sum } in pages {
        let (kind, low, high) = match zone.map(|zone| zone.bounds) {
            None => (NO_ZONE, 0, 0),
            Some(None) => (NO_BOUNDS, 0, 0),
            Some(Some(Bounds::Signed(low, high))) => (SIGNED, low.cast_unsigned(), high.cast_unsigned()),
            Some(Some(Bounds::Unsigned(low, high))) => (UNSIGNED, low, high),
            Some(Some(Bounds::Float(low, high))) => (FLOAT, low.to_bits(), high.to_bits()),
        };
        builder.u16(kind | if sum.is_some() { HAS_SUM } else { 0 });
        if let Some(zone) = zone {
            builder.u32(zone.null_count);
        }
        if kind >= SIGNED {
            builder.u64(low);
            builder.u64(high);
        }
        if let Some(sum) = sum {
            builder.u64(*sum);
        }
    }
    seal_packed(Kind::Zones, &builder.finish())
}

/// What such a record says.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Known>> {
    let contents = open_packed(Kind::Zones, Structure::Zones, bytes)?;
    let mut cursor = Cursor::new(Structure::Zones, &contents);
    let count = cursor.u32()? as usize;
    if count > cursor.remaining() / KNOWN_BYTES_MIN {
        return Err(cursor.corrupt(Fault::Length));
    }
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        let start = cursor;
        let word = cursor.u16()?;
        let kind = word & !HAS_SUM;
        let null_count = if kind == NO_ZONE { 0 } else { cursor.u32()? };
        let bounds = match kind {
            NO_ZONE | NO_BOUNDS => None,
            SIGNED => Some(Bounds::Signed(cursor.i64()?, cursor.i64()?)),
            UNSIGNED => Some(Bounds::Unsigned(cursor.u64()?, cursor.u64()?)),
            FLOAT => Some(Bounds::Float(cursor.f64()?, cursor.f64()?)),
            _ => return Err(start.corrupt(Fault::Value)),
        };
        let zone = (kind != NO_ZONE).then_some(Zone { bounds, null_count });
        let sum = if word & HAS_SUM != 0 { Some(cursor.u64()?) } else { None };
        pages.push(Known { zone, sum });
    }
    if cursor.remaining() > 0 {
        return Err(cursor.corrupt(Fault::Length));
    }
    Ok(pages)
}
