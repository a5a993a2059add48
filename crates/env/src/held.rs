//! Memory that the kernel does not hand back to a host, for measurements.

use crate::error::{Errno, Error, Op, Result};
use crate::real::Mapping;
use core::ops::Range;
use rustix::mm::{Advice, ProtFlags, madvise};

const PAGE_BYTES: usize = 4096;
/// One page is kept of each piece. A kernel hands back free blocks that are at least as large (x86: 2 to 8 MiB).
const PIECE_BYTES: usize = 2 << 20;

/// Pages spread over memory that was touched, so that no large block of it is free as a whole.
///
/// The kernel of a virtual machine may report large free blocks to its host, which takes them away; whoever
/// touches such memory next waits for the host to find it again, up to ten times as long as for a page that is
/// only cleared. While this lives, that happens to none of the memory that it touched.
pub struct HeldMemory {
    /// None of less than a piece.
    pieces: Option<Mapping>,
}

impl HeldMemory {
    /// Touches `bytes` of memory, rounded down to 2 MiB, and gives back all but one page in 2 MiB.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no such memory; nothing is held then.
    pub fn take(bytes: u64) -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Thread, "memory to hold", 0, errno);
        let bytes = usize::try_from(bytes).map_err(|_too_many| failed(Errno::NOMEM))?;
        let bytes = bytes / PIECE_BYTES * PIECE_BYTES;
        if bytes == 0 {
            return Ok(Self { pieces: None });
        }
        let mut pieces = Mapping::reserve(bytes, ProtFlags::READ | ProtFlags::WRITE).map_err(failed)?;
        // One huge page would be given back as a whole or not at all.
        advise(&mut pieces, 0..bytes, Advice::LinuxNoHugepage).map_err(failed)?;
        for at in (0..bytes).step_by(PIECE_BYTES) {
            advise(&mut pieces, at..at + PIECE_BYTES, Advice::LinuxPopulateWrite).map_err(failed)?;
        }
        for at in (0..bytes).step_by(PIECE_BYTES) {
            advise(&mut pieces, at + PAGE_BYTES..at + PIECE_BYTES, Advice::LinuxDontNeed).map_err(failed)?;
        }
        Ok(Self { pieces: Some(pieces) })
    }

    /// Bytes that were touched; one page in 2 MiB of them is held.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        self.pieces.as_ref().map_or(0, |pieces| pieces.bytes().len() as u64)
    }
}

fn advise(pieces: &mut Mapping, range: Range<usize>, advice: Advice) -> rustix::io::Result<()> {
    let part = &mut pieces.bytes_mut()[range];
    // SAFETY: the range lies in a mapping of ours that nothing else refers to, so its content may change.
    unsafe { madvise(part.as_mut_ptr().cast(), part.len(), advice) }
}

/// Bytes that the system could give to programs without swapping, as `/proc/meminfo` estimates it.
///
/// # Errors
/// [`Error::Io`] if `/proc` is not there.
pub fn available_memory_bytes() -> Result<u64> {
    crate::thread::proc_bytes("/proc/meminfo", "MemAvailable:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rss_bytes;
    use std::sync::PoisonError;

    #[test]
    fn one_page_of_each_piece_stays_and_goes_at_last() {
        const PIECES: u64 = 64;
        let _alone = crate::thread::MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(available_memory_bytes().unwrap() > PIECES * PIECE_BYTES as u64);
        let before = rss_bytes().unwrap();
        let held = HeldMemory::take(PIECES * PIECE_BYTES as u64 + 5).unwrap();
        let grown = rss_bytes().unwrap().saturating_sub(before);
        assert!(grown < PIECES * PIECE_BYTES as u64 / 4, "{grown}");
        assert_eq!(held.touched_bytes(), PIECES * PIECE_BYTES as u64);
        drop(held);
        assert_eq!(HeldMemory::take(5).unwrap().touched_bytes(), 0);
        assert!(HeldMemory::take(u64::MAX).is_err());
    }
}
