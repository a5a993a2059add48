//! Memory that the kernel does not hand back to a host, for measurements.

use crate::error::{Errno, Error, Op, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE_BYTES: usize = 4096;
/// One page is kept of each piece. A kernel hands back free blocks that are at least as large (x86: 2 to 8 MiB).
const PIECE_BYTES: usize = 2 << 20;

/// Pages spread over memory that was touched, so that no large block of it is free as a whole.
///
/// The kernel of a virtual machine may report large free blocks to its host, which takes them away; whoever
/// touches such memory next waits for the host to find it again, up to ten times as long as for a page that is
/// only cleared. While this lives, that happens to none of the memory that it touched.
#[derive(Debug)]
pub struct HeldMemory {
    pieces: *mut u8,
    bytes: usize,
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
            return Ok(Self { pieces: core::ptr::null_mut(), bytes });
        }
        let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let pieces = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, access, private) };
        let held = Self { pieces: pieces.map_err(failed)?.cast(), bytes };
        // One huge page would be given back as a whole or not at all.
        held.advise(0, bytes, Advice::LinuxNoHugepage).map_err(failed)?;
        let starts = || (0..bytes).step_by(PIECE_BYTES);
        starts()
            .try_for_each(|at| held.advise(at, PIECE_BYTES, Advice::LinuxPopulateWrite))
            .map_err(failed)?;
        let rest = PIECE_BYTES - PAGE_BYTES;
        starts()
            .try_for_each(|at| held.advise(at + PAGE_BYTES, rest, Advice::LinuxDontNeed))
            .map_err(failed)?;
        Ok(held)
    }

    fn advise(&self, at: usize, bytes: usize, advice: Advice) -> rustix::io::Result<()> {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the range lies in a mapping of ours that nothing refers to, so its content may change.
        unsafe { madvise(self.pieces.wrapping_add(at).cast(), bytes, advice) }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // Ignored: what cannot be unmapped ends with the process.
            // SAFETY: it is our own mapping, which nothing refers to.
            let _unmapped = unsafe { munmap(self.pieces.cast(), self.bytes) };
        }
    }
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

    #[test]
    fn one_page_of_each_piece_stays_and_goes_at_last() {
        const PIECES: u64 = 64;
        assert!(available_memory_bytes().unwrap() > PIECES * PIECE_BYTES as u64);
        let before = rss_bytes().unwrap();
        let held = HeldMemory::take(PIECES * PIECE_BYTES as u64 + 5).unwrap();
        let grown = rss_bytes().unwrap().saturating_sub(before);
        assert!(grown < PIECES * PIECE_BYTES as u64 / 4, "{grown}");
        assert_eq!(held.bytes as u64, PIECES * PIECE_BYTES as u64);
        drop(held);
        assert_eq!(HeldMemory::take(5).unwrap().bytes, 0);
        assert!(HeldMemory::take(u64::MAX).is_err());
    }
}
