//! Bytes that are written and, read again, compared: they say which load, which owner and which place they are of.
//!
//! The bytes between two stamps depend on the place in the transfer alone, so that a buffer is filled once and only its
//! stamps change from one transfer to the next, as the generators of others do it: what is measured is the store. A
//! transfer is compared with one of the same length.

use super::fault::Difference;
use crate::error::{Error, Result};

/// Bytes from one stamp to the next: a transfer that was torn or laid elsewhere shows.
const STAMP_EVERY: usize = 512;
const WORD_BYTES: usize = 8;

/// A buffer of one transfer.
pub(super) struct Pattern {
    seed: u64,
    bytes: Vec<u8>,
}

impl Pattern {
    /// Bytes of a load with this signature.
    pub(super) fn new(signature: u64, len: usize) -> Self {
        let seed = mix(signature ^ 0x446f_6c6d_656e);
        let mut bytes = vec![0; len];
        for (index, word) in bytes.chunks_mut(WORD_BYTES).enumerate() {
            let filled = mix(seed.wrapping_add(index as u64)).to_le_bytes();
            word.copy_from_slice(&filled[..word.len()]);
        }
        Self { seed, bytes }
    }

    /// What is to be at a place of an owner: a file or a process.
    pub(super) fn at(&mut self, owner: u64, place: u64) -> &[u8] {
        stamp(self.seed, &mut self.bytes, owner, place);
        &self.bytes
    }

    /// What is the same at every place, for buffers that are then stamped.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes a copy of [`Pattern::bytes`] what is to be at a place.
    pub(super) fn stamp(&self, bytes: &mut [u8], owner: u64, place: u64) {
        stamp(self.seed, bytes, owner, place);
    }

    /// Compares what was read at a place; `what` names it, and `first_byte` is where in it the transfer begins.
    ///
    /// # Errors
    /// `Differs` with the place.
    pub(super) fn check(
        &mut self,
        (owner, place): (u64, u64),
        found: &[u8],
        what: impl FnOnce() -> String,
        first_byte: u64,
    ) -> Result<()> {
        let expected = self.at(owner, place);
        if expected == found {
            return Ok(());
        }
        let same = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
        let word = |bytes: &[u8]| bytes[same..bytes.len().min(same + WORD_BYTES)].to_vec();
        let offset_bytes = first_byte + same as u64;
        let difference =
            Difference { what: what(), offset_bytes, expected: word(expected), found: word(found) };
        Err(Error::Differs(Box::new(difference)))
    }
}

fn stamp(seed: u64, bytes: &mut [u8], owner: u64, place: u64) {
    let seed = mix(seed ^ mix(owner)).wrapping_add(mix(place));
    for (index, chunk) in bytes.chunks_mut(STAMP_EVERY).enumerate() {
        let stamp = mix(seed.wrapping_add(index as u64)).to_le_bytes();
        let len = chunk.len().min(WORD_BYTES);
        chunk[..len].copy_from_slice(&stamp[..len]);
    }
}

/// A number that differs in about half of its bits for the next one.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: (u64, u64, u64), expected: (u64, u64, u64), len: usize) -> Option<u64> {
        let found = Pattern::new(written.0, len).at(written.1, written.2).to_vec();
        let place = (expected.1, expected.2);
        let checked = Pattern::new(expected.0, len).check(place, &found, || "a file".to_owned(), 1000);
        match checked {
            Err(Error::Differs(difference)) => Some(difference.offset_bytes),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn bytes_of_another_load_owner_or_place_differ() {
        for len in [1, 7, 8, 3901, 47_008] {
            assert_eq!(check((1, 2, 3), (1, 2, 3), len), None);
        }
        for other in [(9, 2, 3), (1, 9, 3), (1, 2, 9)] {
            assert_eq!(check(other, (1, 2, 3), 3901), Some(1000));
        }
    }

    #[test]
    fn one_wrong_byte_and_a_short_read_are_found_where_they_are() {
        let mut pattern = Pattern::new(5, 4096);
        let mut found = pattern.at(0, 1 << 20).to_vec();
        found[3000] ^= 1;
        let wrong = pattern.check((0, 1 << 20), &found, || "f".to_owned(), 1 << 20).unwrap_err();
        let Error::Differs(wrong) = wrong else { panic!("{wrong}") };
        assert_eq!((wrong.offset_bytes, wrong.found.len()), ((1 << 20) + 3000, 8));
        let short = pattern.check((0, 1 << 20), &found[..100], || "f".to_owned(), 0).unwrap_err();
        assert!(short.to_string().contains("at byte 100"), "{short}");
        assert!(short.to_string().contains("ends there"), "{short}");
    }
}
