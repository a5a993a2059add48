//! Hints to processor, kernel and allocator about memory. They change how long things take and nothing else.

use rustix::mm::{Advice, madvise};

const LINE_BYTES: usize = 64;
/// A page of the usual kind.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A huge page of the usual kind.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks the processor to bring the cache lines of `bytes` near, at most `lines_max` of them, without waiting.
#[inline]
pub fn prefetch(bytes: &[u8], lines_max: usize) {
    for line in bytes.chunks(LINE_BYTES).take(lines_max) {
        prefetch_line(line);
    }
}

/// Asks the processor to bring the first cache line of `place` near.
#[inline]
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no hint is known here"))]
pub fn prefetch_line<T: ?Sized>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see, and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
    }
}

/// Asks the kernel to back `memory` by huge pages when it is first touched: a table that is looked into at
/// random then costs one miss of the address translation less a look, and large memory few faults instead of many.
///
/// A kernel that refuses leaves everything as it was.
pub fn prefer_huge_pages<T>(memory: &mut [T]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    // With the whole of the first page and the last: what begins just behind the start of a huge page is in it.
    let skipped = start.addr() % PAGE_BYTES;
    let bytes = (skipped + size_of_val(memory)).next_multiple_of(PAGE_BYTES);
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    let part = start.wrapping_sub(skipped);
    // Ignored: a hint that is not taken costs time only.
    // SAFETY: the range is the pages of a slice that we hold; this advice changes no content.
    let _advised = unsafe { madvise(part.cast(), bytes, Advice::LinuxHugepage) };
}

/// Gives memory that was freed back to the system, which the allocator otherwise keeps for the next request: for a process
/// that will not need it soon. Takes milliseconds, in which other threads that allocate wait.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it moves nothing and takes nothing away that is in use.
    // Ignored: whether there was any.
    let _given = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::PoisonError;

    #[test]
    #[cfg(target_env = "gnu")]
    fn memory_that_was_freed_goes_back_and_what_is_held_stays() {
        let _alone = crate::thread::MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces: Vec<Vec<u8>> = (0..4000).map(|_| vec![3; 64 << 10]).collect();
        let held = vec![4_u8; 64 << 10];
        drop(pieces);
        give_memory_back();
        assert!(held.iter().all(|&byte| byte == 4));
        let left = crate::anonymous_rss_bytes().unwrap();
        assert!(left < 60 << 20, "{} MiB", left >> 20);
    }

    #[test]
    fn hints_leave_memory_as_it_is() {
        let mut memory = vec![7; 3 * HUGE_PAGE_BYTES + 5];
        prefer_huge_pages(&mut memory);
        prefetch(&memory, usize::MAX);
        prefetch_line(&());
        prefer_huge_pages::<u64>(&mut []);
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
