//! Memory that nobody needs for a while: kept for the next who needs as much, and the system's when it has no other.
//!
//! Fresh memory costs a fault for each of its pages, and the time to make them zero, which is more than it takes to fill them.

use crate::hint::PAGE_BYTES;
use core::ffi::c_void;
use rustix::mm::{Advice, madvise};
use zerocopy::{FromBytes, IntoBytes};

/// What is given to the system is of whole pieces of so many bytes: pages of any system.
const PIECE_BYTES: usize = 64 << 10;

/// Memory that is spared: as long as nobody takes it back the system may have its pages.
///
/// Invariant: nobody looks at the contents, which the system changes to zero whenever it likes.
#[derive(Debug)]
pub struct Spared<T> {
    memory: Vec<T>,
}

impl<T: FromBytes + IntoBytes> Spared<T> {
    /// Spares it.
    #[must_use]
    pub fn new(mut memory: Vec<T>) -> Self {
        let bytes = memory.as_mut_slice().as_mut_bytes();
        let start = bytes.as_mut_ptr();
        let skip = start.align_offset(PIECE_BYTES);
        let whole = bytes.len().saturating_sub(skip) / PIECE_BYTES * PIECE_BYTES;
        if whole > 0 {
            // Ignored: a system that knows no such thing leaves the memory to us.
            // SAFETY: the range is whole pages inside of memory that we hold alone. What the advice does is that they may become zero, a valid
            // value of `T`, until they are written to; nobody reads them before `take_back` has done that.
            let _advised =
                unsafe { madvise(start.wrapping_add(skip).cast::<c_void>(), whole, Advice::LinuxFree) };
        }
        Self { memory }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The memory, with anything in it.
    #[must_use]
    pub fn take_back(mut self) -> Vec<T> {
        // A page that was written to is ours again.
        for page in self.memory.as_mut_slice().as_mut_bytes().chunks_mut(PAGE_BYTES) {
            page[0] = 0;
        }
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_spared_is_taken_back_as_long_as_it_was_and_can_be_filled() {
        for len in [0, 1, 511, 513, 3_000_001] {
            let spared = Spared::new(vec![7_u64; len]);
            assert_eq!((spared.len(), spared.is_empty()), (len, len == 0));
            let mut memory = spared.take_back();
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|&value| value == 7 || value == 0));
            memory.fill(9);
            assert!(memory.iter().all(|&value| value == 9));
        }
    }
}
