//! A whole file as memory: the only way to write mapped media.
//!
//! Invariants: the file was preallocated before it was mapped and never shrinks, so an access meets no hole
//! and a full device shows as an error of `create`, not as SIGBUS; a file has one region at a time, and it
//! is not written otherwise while the region lives. What remains outside our power is a foreign program
//! that truncates files of a pool, or a device that fails under a mapping: both deliver SIGBUS and kill the
//! process, which the log then survives like any other death.

use crate::disk::byte_count;
use crate::real::Mapping;
use crate::sim::RegionJournal;
use core::ops::Range;
use crc_fast::{CrcAlgorithm, Digest};
use dolmen_types::crc32c;
use rustix::mm::Advice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes copied before their checksum is taken: half of a small L1 data cache, so that the second pass over
/// them does not leave the core.
const PIECE_BYTES: usize = 16 * 1024;

/// A mapped file.
///
/// Reads of different threads may overlap, a write needs the region alone. Every method panics if the range
/// lies outside the file, like indexing a slice: check offsets that come from a device with
/// [`Region::try_bytes`].
#[derive(Debug)]
pub struct Region {
    backing: Backing,
    _claim: Claim,
}

#[derive(Debug)]
enum Backing {
    Mapped(Mapping),
    Simulated(Vec<u8>, RegionJournal),
}

/// The right to be the one region of a file; given back on drop.
#[derive(Debug)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// `None` if somebody holds it.
    pub(crate) fn take(flag: &Arc<AtomicBool>) -> Option<Self> {
        let was_free = flag.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok();
        was_free.then(|| Self(Arc::clone(flag)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Region {
    pub(crate) fn mapped(mapping: Mapping, claim: Claim) -> Self {
        Self { backing: Backing::Mapped(mapping), _claim: claim }
    }

    pub(crate) fn simulated(bytes: Vec<u8>, journal: RegionJournal, claim: Claim) -> Self {
        Self { backing: Backing::Simulated(bytes, journal), _claim: claim }
    }

    /// Length of the file in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        byte_count(self.all().len())
    }

    /// Never true: an empty file cannot be mapped.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// The bytes of `range`.
    ///
    /// # Panics
    /// If the range lies outside the file.
    #[must_use]
    #[inline]
    pub fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.all()[index(range.start)..index(range.end)]
    }

    /// The bytes of `range`, or `None` if it lies outside the file.
    #[must_use]
    #[inline]
    pub fn try_bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        self.all().get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    /// From now on places are read in no order: reading ahead would be in vain.
    pub fn expect_random(&self) {
        if let Backing::Mapped(mapping) = &self.backing {
            mapping.advise(0..mapping.bytes().len(), Advice::Random);
        }
    }

    /// Asks for huge pages in place of those that the file has in memory: a look at random then costs a miss of the
    /// address translation less. It takes as long as copying the file, so it is for files that are used for long.
    ///
    /// A kernel that refuses leaves everything as it was, and so does a file that is not made of whole huge pages.
    pub fn prefer_huge_pages(&self) {
        if let Backing::Mapped(mapping) = &self.backing {
            // Ignored: a hint that is not taken costs time only.
            let _collapsed = mapping.collapse();
        }
    }

    /// The bytes of `range` are going to be read soon: the device begins to bring them.
    ///
    /// # Panics
    /// If the range lies outside the file.
    pub fn will_need(&self, range: Range<u64>) {
        if let Backing::Mapped(mapping) = &self.backing {
            mapping.advise(index(range.start)..index(range.end), Advice::WillNeed);
        }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If they do not fit into the file.
    #[inline]
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let start = index(offset);
        match &mut self.backing {
            Backing::Mapped(mapping) => {
                mapping.bytes_mut()[start..start + bytes.len()].copy_from_slice(bytes);
            }
            Backing::Simulated(copy, journal) => {
                copy[start..start + bytes.len()].copy_from_slice(bytes);
                journal.written(offset, bytes);
            }
        }
    }

    /// Writes eight bytes at once, after everything written before: if the process dies, they are there only with all
    /// of that.
    ///
    /// # Panics
    /// If they do not fit into the file or `offset` is no multiple of eight.
    #[inline]
    pub fn seal(&mut self, offset: u64, word: [u8; 8]) {
        match &mut self.backing {
            Backing::Mapped(mapping) => mapping.store_word(index(offset), u64::from_le_bytes(word).to_le()),
            Backing::Simulated(..) => self.write(offset, &word),
        }
    }

    /// Copies `bytes` to `offset` and returns their crc32c, computed as they pass.
    ///
    /// # Panics
    /// If they do not fit into the file.
    #[inline]
    pub fn write_crc(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        match &mut self.backing {
            Backing::Mapped(mapping) => {
                let start = index(offset);
                copy_crc(bytes, &mut mapping.bytes_mut()[start..start + bytes.len()])
            }
            Backing::Simulated(..) => {
                self.write(offset, bytes);
                crc32c(bytes)
            }
        }
    }

    /// Fills `range` with zeros.
    ///
    /// # Panics
    /// If the range lies outside the file.
    pub fn zero(&mut self, range: Range<u64>) {
        match &mut self.backing {
            Backing::Mapped(mapping) => mapping.bytes_mut()[index(range.start)..index(range.end)].fill(0),
            Backing::Simulated(copy, journal) => {
                let hidden = &mut copy[index(range.start)..index(range.end)];
                hidden.fill(0);
                journal.written(range.start, hidden);
            }
        }
    }

    /// Fills `out` from `offset` and returns the crc32c of what it now holds: one pass through memory.
    ///
    /// # Panics
    /// If the range lies outside the file.
    #[must_use]
    #[inline]
    pub fn copy_crc(&self, offset: u64, out: &mut [u8]) -> u32 {
        let start = index(offset);
        copy_crc(&self.all()[start..start + out.len()], out)
    }

    #[inline]
    fn all(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped(mapping) => mapping.bytes(),
            Backing::Simulated(copy, _) => copy,
        }
    }
}

/// Copies `from` to `to` and returns the crc32c of the copy, taken while it is in the first-level cache.
///
/// # Panics
/// If the lengths differ.
#[must_use]
#[inline]
pub fn copy_crc(from: &[u8], to: &mut [u8]) -> u32 {
    assert_eq!(from.len(), to.len());
    if from.len() <= PIECE_BYTES {
        to.copy_from_slice(from);
        return crc32c(to);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for (from, to) in from.chunks(PIECE_BYTES).zip(to.chunks_mut(PIECE_BYTES)) {
        to.copy_from_slice(from);
        digest.update(to);
    }
    u32::try_from(digest.finalize()).expect("a 32-bit algorithm gives 32 bits")
}

/// An offset in a mapped file as an index; what does not fit is outside any slice.
#[inline]
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_crc_equals_copy_then_crc_at_every_piece_boundary() {
        let from: Vec<u8> = (0..=250).cycle().take(3 * PIECE_BYTES + 5).collect();
        for len in [0, 1, 63, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, from.len()] {
            let mut to = vec![0; len];
            assert_eq!(copy_crc(&from[..len], &mut to), crc32c(&from[..len]), "length {len}");
            assert_eq!(to, from[..len]);
        }
    }
}
