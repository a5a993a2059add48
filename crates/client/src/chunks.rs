//! The chunks of an array: which dkey holds which records.
//!
//! Invariants: the groups of a list of ranges follow each other in the caller's buffer without gaps.

use dolmen_types::{Invalid, Recx};
use smallvec::SmallVec;

/// Chunks that one list may touch. A request each: more would keep a caller waiting for minutes.
pub(crate) const CHUNKS_MAX: u64 = 1 << 20;

/// Ranges of one list that follow each other and lie in one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The chunk's number.
    pub(crate) chunk: u64,
    /// Within the chunk.
    pub(crate) extents: SmallVec<[Recx; 1]>,
    /// Where they start in the caller's buffer, in records.
    pub(crate) buffer_start: u64,
    /// How many records they are.
    pub(crate) records: u64,
}

/// The dkey of a chunk: its number plus one; dkey 0 is kept for metadata.
///
/// # Errors
/// `Invalid::Extent` for the one chunk that has no dkey.
//= daos:src/client/array/dc_array.c dkey = chunk number + 1
pub(crate) fn dkey_of(chunk: u64) -> Result<[u8; 8], Invalid> {
    chunk.checked_add(1).map(u64::to_le_bytes).ok_or(Invalid::Extent)
}

/// Cuts ranges at chunk boundaries and joins what follows each other in one chunk.
///
/// # Errors
/// `Invalid::Extent` for an empty range or one that ends beyond 2^64 - 1, or if the sum overflows;
/// `Invalid::Count` above `CHUNKS_MAX`.
pub(crate) fn groups(ranges: &[Recx], chunk_records: u64) -> Result<SmallVec<[Group; 1]>, Invalid> {
    if chunk_count(ranges, chunk_records)? > CHUNKS_MAX {
        return Err(Invalid::Count);
    }
    let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
    let mut buffer_start: u64 = 0;
    for range in ranges {
        let end = range.end().filter(|_| range.count > 0).ok_or(Invalid::Extent)?;
        let mut index = range.index;
        while index < end {
            let (chunk, inner) = (index / chunk_records, index % chunk_records);
            let count = (end - index).min(chunk_records - inner);
            let extent = Recx::new(inner, count);
            match groups.last_mut().filter(|group| group.chunk == chunk) {
                Some(group) => {
                    group.extents.push(extent);
                    group.records += count;
                }
                None => groups.push(Group {
                    chunk,
                    extents: SmallVec::from_buf([extent]),
                    buffer_start,
                    records: count,
                }),
            }
            buffer_start = buffer_start.checked_add(count).ok_or(Invalid::Extent)?;
            index += count;
        }
    }
    Ok(groups)
}

/// How many chunks ranges touch, each counted as often as ranges touch it.
///
/// # Errors
/// `Invalid::Extent` for an empty range or one that ends beyond 2^64 - 1.
pub(crate) fn chunk_count(ranges: &[Recx], chunk_records: u64) -> Result<u64, Invalid> {
    ranges.iter().try_fold(0, |sum: u64, range| {
        let end = range.end().filter(|_| range.count > 0).ok_or(Invalid::Extent)?;
        let chunks = (end - 1) / chunk_records - range.index / chunk_records;
        Ok(sum.saturating_add(chunks).saturating_add(1))
    })
}

/// Calls `hole` with each part of `extents` that is not in `filled`, as records of the extents laid end to end.
/// Both ascend where they overlap, as a fetch returns them.
pub(crate) fn holes(extents: &[Recx], filled: &[Recx], mut hole: impl FnMut(core::ops::Range<u64>)) {
    let mut laid = 0;
    for extent in extents {
        let end = extent.index.saturating_add(extent.count);
        let mut at = extent.index;
        let mut parts: SmallVec<[Recx; 4]> = filled.iter().filter_map(|f| f.intersect(*extent)).collect();
        parts.sort_unstable();
        for part in parts {
            if part.index > at {
                hole(laid + (at - extent.index)..laid + (part.index - extent.index));
            }
            at = at.max(part.index + part.count);
        }
        if at < end {
            hole(laid + (at - extent.index)..laid + extent.count);
        }
        laid += extent.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<Recx>> {
        let range = (0_u64..200, 1_u64..60).prop_map(|(index, count)| Recx::new(index, count));
        prop::collection::vec(range, 0..8)
    }

    proptest! {
        #[test]
        fn groups_hold_every_record_in_order(ranges in ranges(), chunk_records in 1_u64..40) {
            let groups = groups(&ranges, chunk_records).unwrap();
            let mut laid = 0;
            let mut records = Vec::new();
            for group in &groups {
                prop_assert_eq!(group.buffer_start, laid);
                laid += group.records;
                for extent in &group.extents {
                    prop_assert!(extent.index + extent.count <= chunk_records);
                    records.extend((extent.index..extent.index + extent.count).map(|i| group.chunk * chunk_records + i));
                }
            }
            let wanted: Vec<u64> = ranges.iter().flat_map(|r| r.index..r.index + r.count).collect();
            prop_assert_eq!(records, wanted);
        }

        #[test]
        fn holes_are_what_is_not_filled(wanted in ranges(), filled in ranges()) {
            let mut found = Vec::new();
            holes(&wanted, &filled, |range| found.extend(range));
            let is_filled = |i: u64| filled.iter().any(|f| (f.index..f.index + f.count).contains(&i));
            let all = wanted.iter().flat_map(|r| r.index..r.index + r.count).enumerate();
            let expected: Vec<u64> =
                all.filter(|&(_, i)| !is_filled(i)).map(|(laid, _)| u64::try_from(laid).unwrap()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn ranges_without_a_place_are_refused() {
        assert_eq!(groups(&[Recx::new(0, 0)], 4), Err(Invalid::Extent));
        assert_eq!(groups(&[Recx::new(2, u64::MAX)], 4), Err(Invalid::Extent));
        assert_eq!(groups(&[Recx::new(0, 1 << 40)], 4), Err(Invalid::Count));
        assert_eq!(dkey_of(u64::MAX), Err(Invalid::Extent));
        assert_eq!(dkey_of(0), Ok(1_u64.to_le_bytes()));
    }
}
