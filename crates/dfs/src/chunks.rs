//! Where the bytes of a file lie: chunk `c` of the file is the array under dkey `c + 1`, akey `0`.
//!
//! Invariants: the pieces of a range are ascending, touch, lie inside one chunk and one extent window each,
//! and sum up to the range.

use core::ops::Range;
use dolmen_types::{QueryFlags, Recx, limits};

/// Akey of all data of a file.
//= daos:src/client/array/dc_array.c akey '0'
pub(crate) const AKEY_DATA: &[u8] = b"0";

/// Asks for the last record of a file, which tells its size.
pub(crate) const LAST_RECORD: QueryFlags = QueryFlags::MAX.and(QueryFlags::DKEY).and(QueryFlags::RECX);

/// A part of a byte range inside one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The chunk's dkey number: chunk index + 1.
    //= daos:src/client/array/dc_array.c dkey 0 is reserved for metadata
    pub(crate) dkey: u64,
    /// Records inside the chunk.
    pub(crate) recx: Recx,
    /// Offset from the start of the range.
    pub(crate) at: usize,
}

impl Piece {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.recx.count).expect("a piece lies in one window, at most 1 MiB")
    }

    /// Where its bytes are in the range.
    #[must_use]
    pub fn bytes(&self) -> Range<usize> {
        self.at..self.at + self.len()
    }

    /// Where in its bytes the answer to a read has data, ascending.
    pub fn data<'a>(&self, filled: &'a [Recx]) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let whole = self.recx;
        // A piece lies in one window, at most 1 MiB.
        let at = |records: u64| usize::try_from(records).unwrap_or(usize::MAX);
        let parts = filled.iter().filter_map(move |recx| recx.intersect(whole));
        parts.map(move |part| at(part.index - whole.index)..at(part.index - whole.index + part.count))
    }
}

/// The pieces of `len` bytes from `offset` in a file with chunks of `chunk_bytes`.
///
/// REQUIRES: `offset + len` does not overflow and `chunk_bytes` is not zero.
pub(crate) fn pieces(chunk_bytes: u64, offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    assert!(chunk_bytes != 0, "checked when the record was read");
    let mut at = 0usize;
    core::iter::from_fn(move || {
        let left = len.checked_sub(at).filter(|&left| left != 0)?;
        let (dkey, recx) = first_piece(chunk_bytes, offset + at as u64, left as u64);
        let piece = Piece { dkey, recx, at };
        at += piece.len();
        Some(piece)
    })
}

/// Where the bytes from `position` on lie, and how many of `left` lie there together.
fn first_piece(chunk_bytes: u64, position: u64, left: u64) -> (u64, Recx) {
    let index = position % chunk_bytes;
    let to_chunk_end = chunk_bytes - index;
    let to_window_end = limits::WINDOW_RECORDS - index % limits::WINDOW_RECORDS;
    (position / chunk_bytes + 1, Recx::new(index, left.min(to_chunk_end).min(to_window_end)))
}

/// The size of a file whose last record is record `index` of the chunk under dkey number `dkey`.
pub(crate) fn size_to(chunk_bytes: u64, dkey: u64, index: u64) -> Option<u64> {
    dkey.checked_sub(1)?.checked_mul(chunk_bytes)?.checked_add(index)?.checked_add(1)
}

/// Whether the next data (`want_data`) or hole at or after `offset` is, among ascending extents of data.
///
/// The end of the file counts as a hole. `None` if there is no such offset before the end of the file.
pub(crate) fn seek(
    extents: impl Iterator<Item = (u64, u64)>,
    size: u64,
    offset: u64,
    want_data: bool,
) -> Option<u64> {
    let mut hole_from = offset;
    if offset >= size {
        return None;
    }
    for (start, end) in extents.filter(|&(_, end)| end > offset) {
        if want_data {
            return Some(start.max(offset)).filter(|&at| at < size);
        }
        if start > hole_from {
            break;
        }
        hole_from = end;
    }
    if want_data { None } else { Some(hole_from.min(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_the_range_in_order(chunk in 1u64..5000, offset in 0u64..100_000, len in 0usize..20_000) {
            let mut next = 0;
            for piece in pieces(chunk, offset, len) {
                prop_assert_eq!(piece.at, next);
                prop_assert_eq!((piece.dkey - 1) * chunk + piece.recx.index, offset + next as u64);
                prop_assert!(piece.recx.index + piece.recx.count <= chunk);
                next += piece.len();
            }
            prop_assert_eq!(next, len);
        }
    }

    #[test]
    fn large_chunks_are_split_at_windows() {
        let found: Vec<_> = pieces(4 << 20, (1 << 20) - 1, 2).map(|p| (p.dkey, p.recx)).collect();
        assert_eq!(found, [(1, Recx::new((1 << 20) - 1, 1)), (1, Recx::new(1 << 20, 1))]);
        assert_eq!(size_to(100, 3, 4), Some(205));
        assert_eq!(size_to(100, 0, 4), None);
    }

    #[test]
    fn the_last_byte_of_a_chunk_is_in_it_and_the_next_begins_another() {
        let found: Vec<_> = pieces(100, 199, 2).map(|p| (p.dkey, p.recx, p.at)).collect();
        assert_eq!(found, [(2, Recx::new(99, 1), 0), (3, Recx::new(0, 1), 1)]);
    }

    #[test]
    fn seek_finds_data_and_holes() {
        let extents = || [(10, 20), (20, 25), (40, 50)].into_iter();
        let data = |at| seek(extents(), 60, at, true);
        let hole = |at| seek(extents(), 60, at, false);
        assert_eq!(
            [data(0), data(12), data(24), data(25), data(50)],
            [Some(10), Some(12), Some(24), Some(40), None]
        );
        assert_eq!(
            [hole(0), hole(10), hole(30), hole(45), hole(60)],
            [Some(0), Some(25), Some(30), Some(50), None]
        );
        assert_eq!(seek([(0, 60)].into_iter(), 60, 5, false), Some(60));
    }
}
