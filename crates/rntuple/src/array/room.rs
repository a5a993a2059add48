//! Memory for values: in large pages, for all values at once if it is known how many they are, and used again.
//!
//! Who reads much reads it to memory that is new to the process, which takes longer to get than to fill. So large memory that an
//! array had is kept for the next one ([`spare`]); the system takes it back when it has no other.
//!
//! Invariant: what is kept is within its limit, the longest kept goes first.

use super::Values;
use crate::error::{Error, Result, Structure};
use crate::format::column::InMemory;
use core::any::Any;
use dolmen_env::Spared;
use std::collections::VecDeque;
use std::sync::{Mutex, TryLockError};
use zerocopy::{FromBytes, IntoBytes};

/// Values of fewer bytes are in memory that others have used, most likely.
const LARGE_BYTES: usize = 4 << 20;

/// A large page of the system.
const PAGE_BYTES: usize = 2 << 20;

/// Values of so many bytes begin with a large page of their own; of fewer that would be too much for what they need.
const PAGED_BYTES: usize = 8 << 20;

/// What an allocator has before memory that it gives, and behind it.
const HEAD_BYTES: usize = 32;

/// Of so many bytes each request goes to the system, which has them zero, at a multiple of a large page.
const MAPPED_BYTES: usize = 34 << 20;

/// Of so many bytes it is asked first whether the system has them: those of fewer it has, or the program is at its end anyhow.
const DOUBTED_BYTES: usize = 1 << 30;

/// Bytes that are kept at most.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// Memory that is kept: a [`Spared`], and its bytes.
struct Piece {
    bytes: usize,
    memory: Box<dyn Any + Send>,
}

/// Memory that is kept, the longest kept first.
#[derive(Default)]
struct Kept {
    pieces: VecDeque<Piece>,
}

// Guards: the pieces; taken alone, and by nobody who would have to wait for it.
static KEPT: Mutex<Kept> = Mutex::new(Kept { pieces: VecDeque::new() });

/// Does something with what is kept; none if another does: to do without costs time only.
fn with_kept<R>(body: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    match KEPT.try_lock() {
        Ok(mut kept) => Some(body(&mut kept)),
        Err(TryLockError::Poisoned(kept)) => Some(body(&mut kept.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Kept {
    /// Keeps a piece; those that are too much then.
    fn put(&mut self, piece: Piece) -> Vec<Piece> {
        self.pieces.push_back(piece);
        let mut all: usize = self.pieces.iter().map(|piece| piece.bytes).sum();
        let mut gone = Vec::new();
        while all > KEPT_BYTES_MAX {
            let first = self.pieces.pop_front().expect("what is kept has bytes");
            all -= first.bytes;
            gone.push(first);
        }
        gone
    }

    /// The smallest piece of so many elements or somewhat more.
    fn take<T: Element>(&mut self, count: usize) -> Option<Box<Spared<T>>> {
        let bytes = size_of::<T>() * count;
        let enough = bytes..=bytes + bytes / 4;
        let fits = |piece: &Piece| piece.memory.is::<Spared<T>>() && enough.contains(&piece.bytes);
        let fitting = self.pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (at, _) = fitting.min_by_key(|(_, piece)| piece.bytes)?;
        self.pieces.remove(at)?.memory.downcast().ok()
    }
}

/// Elements that memory can be of.
// One implementor: it is a name for these bounds together.
pub(crate) trait Element: FromBytes + IntoBytes + Clone + Send + 'static {}

impl<T: FromBytes + IntoBytes + Clone + Send + 'static> Element for T {}

/// Keeps large memory.
pub(super) fn spare<T: Element>(vec: Vec<T>) {
    if let Some(piece) = piece(vec) {
        drop(with_kept(|kept| kept.put(piece)));
    }
}

/// Memory as it is kept, if it is.
fn piece<T: Element>(mut vec: Vec<T>) -> Option<Piece> {
    let bytes = size_of::<T>() * vec.len();
    if !(LARGE_BYTES..=KEPT_BYTES_MAX).contains(&bytes) {
        return None;
    }
    // What is behind it in its last large page is there as well.
    let count = vec.capacity().min(paged(bytes) / size_of::<T>()).max(vec.len());
    vec.resize(count, T::new_zeroed());
    Some(Piece { bytes: size_of::<T>() * vec.len(), memory: Box::new(Spared::new(vec)) })
}

/// `count` elements of what is kept, whatever they are.
fn kept<T: Element>(count: usize) -> Option<Vec<T>> {
    let spared = with_kept(|kept| kept.take::<T>(count))??;
    let mut vec = spared.take_back();
    vec.truncate(count);
    Some(vec)
}

/// Bytes of memory that ends just with a large page.
fn paged(bytes: usize) -> usize {
    (bytes + HEAD_BYTES).next_multiple_of(PAGE_BYTES) - HEAD_BYTES
}

/// `count` elements of large memory, whatever they are; none if there is no memory for so many.
fn large<T: Element>(count: usize) -> Option<Vec<T>> {
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX.unsigned_abs() / 2)?;
    if let Some(vec) = kept(count) {
        return Some(vec);
    }
    let addresses = if bytes < PAGED_BYTES { bytes } else { paged(bytes.max(MAPPED_BYTES - HEAD_BYTES)) };
    let capacity = addresses / size_of::<T>();
    if bytes >= DOUBTED_BYTES {
        Vec::<T>::new().try_reserve_exact(capacity).ok()?;
    }
    // New memory is zero by itself, and its pages come when they are filled: in large ones, if the system has them.
    let mut vec = vec![T::new_zeroed(); capacity];
    dolmen_env::prefer_huge_pages(&mut vec);
    vec.truncate(count);
    Some(vec)
}

/// Appends `count` elements, whatever they are; their bytes.
pub(crate) fn grow<T: Element>(vec: &mut Vec<T>, count: usize) -> Result<&mut [u8]> {
    let (start, bytes) = (vec.len(), count.saturating_mul(size_of::<T>()));
    let no_memory = || {
        let structure = Structure::Field { field: 0 };
        let (offset, bytes, bytes_max) = (start as u64, bytes as u64, u64::from(u32::MAX));
        Error::TooBig { structure, offset, bytes, bytes_max }
    };
    if start == 0 && bytes >= LARGE_BYTES {
        spare(core::mem::take(vec));
        *vec = large(count).ok_or_else(no_memory)?;
    } else {
        vec.try_reserve(count).map_err(|_no_room| no_memory())?;
        vec.resize(start + count, T::new_zeroed());
    }
    Ok(vec[start..].as_mut_bytes())
}

/// Values of which the first were read; there may be memory for more.
#[derive(Debug)]
pub(crate) struct Growing {
    values: Values,
    len: usize,
}

impl Growing {
    pub(crate) fn new(kind: InMemory) -> Self {
        Self { values: Values::empty(kind), len: 0 }
    }

    /// Takes memory for so many, if there are none yet and the system has it.
    pub(crate) fn expect(&mut self, count: usize) {
        let is_large = count.saturating_mul(self.values.kind().bytes()) >= LARGE_BYTES;
        if self.values.is_empty() && is_large {
            // Ignored: then memory is taken for what is read, which may be less.
            drop(self.values.grow(count));
        }
    }

    /// Room for `count` more, of whatever bytes.
    pub(crate) fn grow(&mut self, count: usize) -> Result<&mut [u8]> {
        let start = self.len;
        let missing = start.saturating_add(count).saturating_sub(self.values.len());
        if missing > 0 {
            self.values.grow(missing)?;
        }
        self.len += count;
        let width = self.values.kind().bytes();
        Ok(&mut self.values.as_mut_bytes()[start * width..self.len * width])
    }

    pub(crate) fn finish(mut self) -> Values {
        self.values.truncate(self.len);
        self.values
    }
}

/// Memory for bytes that come one after the other: of a round of pages that is read, or of a cluster that is written.
#[derive(Debug, Default)]
pub struct Room {
    bytes: Vec<u8>,
}

/// Large rooms have a multiple of so many bytes, which so suits what comes next, too.
const STEP_BYTES: usize = 4 << 20;

impl Room {
    /// So many bytes, whatever they are.
    pub(crate) fn of(&mut self, bytes: usize) -> Result<&mut [u8]> {
        if self.bytes.len() < bytes {
            spare(core::mem::take(&mut self.bytes));
            let whole = if bytes < STEP_BYTES { bytes } else { bytes.next_multiple_of(STEP_BYTES) };
            grow(&mut self.bytes, whole)?;
        }
        Ok(&mut self.bytes[..bytes])
    }

    /// All bytes that there are.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        spare(core::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::{DOUBTED_BYTES, Growing, KEPT_BYTES_MAX, Kept, LARGE_BYTES, grow, kept, large, piece};
    use crate::format::column::InMemory;

    #[test]
    fn memory_is_kept_for_as_many_elements_of_its_kind_and_not_for_far_fewer() {
        let mut kept = Kept::default();
        let count = LARGE_BYTES / 8;
        assert!(piece(vec![1_u64; count - 1]).is_none(), "it is small");
        assert!(kept.put(piece(vec![1_u64; 2 * count]).unwrap()).is_empty());
        assert!(kept.put(piece(vec![1_u64; 2 * count - 100]).unwrap()).is_empty());
        assert!(kept.take::<f64>(2 * count).is_none(), "it is of another kind");
        assert!(kept.take::<u64>(count).is_none(), "that would be half of it");
        assert!(kept.take::<u64>(3 * count).is_none());
        assert!(kept.take::<u64>(2 * count - 200).unwrap().len() < 2 * count, "the smaller one");
        let mut memory = kept.take::<u64>(2 * count - 200).unwrap().take_back();
        assert_eq!(memory.len(), 2 * count);
        memory.fill(3);
        assert!(kept.take::<u64>(2 * count).is_none(), "each is taken once");
    }

    #[test]
    fn what_was_kept_for_longest_goes_when_it_is_too_much() {
        let mut kept = Kept::default();
        let quarter = |first: u8| {
            let mut vec = vec![0_u8; KEPT_BYTES_MAX / 4 - 1000];
            vec.truncate(vec.len() - usize::from(first));
            piece(vec).unwrap()
        };
        for first in 0..4 {
            assert!(kept.put(quarter(first)).is_empty());
        }
        let gone = kept.put(quarter(4));
        assert_eq!(gone.len(), 1);
        assert!(gone[0].bytes >= KEPT_BYTES_MAX / 4 - 1000, "the first");
        assert_eq!(kept.pieces.len(), 4);
    }

    #[test]
    fn a_room_has_as_many_bytes_as_are_wanted_each_time() {
        let mut room = super::Room::default();
        for bytes in [3, 0, 5 << 20, 7, 9 << 20] {
            let part = room.of(bytes).unwrap();
            assert_eq!(part.len(), bytes);
            part.fill(1);
        }
        assert!(room.filled()[..9 << 20].iter().all(|&byte| byte == 1));
    }

    #[test]
    fn large_memory_is_as_long_as_it_is_wanted() {
        for count in [LARGE_BYTES, 9 << 20, 33 << 20, (64 << 20) + 5] {
            let mut memory = Vec::new();
            grow::<u8>(&mut memory, count).unwrap().fill(7);
            assert!(memory.len() == count && memory.iter().all(|&byte| byte == 7));
            grow(&mut memory, 3).unwrap().fill(8);
            assert!(memory.len() == count + 3 && memory[count - 1..] == [7, 8, 8, 8]);
        }
        assert!(kept::<u8>(LARGE_BYTES + 77).is_none_or(|memory| memory.len() == LARGE_BYTES + 77));
        assert!(large::<u64>(usize::MAX / 4).is_none());
        assert!(large::<u8>(DOUBTED_BYTES << 16).is_none(), "no system has so much");
    }

    #[test]
    fn values_grow_beyond_what_was_expected_and_have_no_more_than_was_read() {
        for expected in [0, 700_000, 5_000_000] {
            let mut values = Growing::new(InMemory::I64);
            values.expect(expected);
            for part in 0..3_u8 {
                let room = values.grow(1_000_000).unwrap();
                assert_eq!(room.len(), 8_000_000);
                room.fill(part);
            }
            let values = values.finish();
            let of = |part: u64| i64::from_le_bytes([u8::try_from(part).unwrap(); 8]);
            let super::Values::I64(found) = values else { panic!() };
            assert!(found.iter().copied().eq((0..3_000_000).map(|at| of(at / 1_000_000))));
        }
    }
}
