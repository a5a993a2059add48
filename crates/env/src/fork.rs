//! Whether this process is the child of the one that made something.

use crate::error::{Error, Op, Result};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE_BYTES: usize = 4096;

/// A mark that a forked child does not inherit: it tells in a few nanoseconds whether the process is still the one
/// that made it, where asking for the process id takes a system call.
#[derive(Debug)]
pub struct ForkMark {
    page: NonNull<u8>,
}

// SAFETY: the page belongs to the value, and is only read after `new`.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// A mark of this process.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no page left, or does not know such pages (before Linux 4.14).
    ///
    /// # Panics
    /// Never: the kernel maps nothing at null.
    pub fn new() -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Share, "mark of this process", 0, errno);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let page =
            unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, access, flags) }.map_err(failed)?;
        let mark = Self { page: NonNull::new(page.cast()).expect("the kernel maps nothing at null") };
        // SAFETY: the page was just mapped by us, and is nobody else's.
        unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.map_err(failed)?;
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// Whether this is another process than the one that made the mark.
    #[must_use]
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as the value lives, aligned, and only used as this word.
        unsafe { AtomicU32::from_ptr(self.page.as_ptr().cast()) }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new`, and nothing borrows it when the value is dropped.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
        assert!(unmapped.is_ok(), "a mapping of ours can be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_mark() {
        assert!(!ForkMark::new().unwrap().is_forked());
    }
}
