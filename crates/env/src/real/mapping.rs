//! A mapping of a whole file. One of whole huge pages begins where they can be mapped as such.
//!
//! Invariants: `len` is not zero and is the length of the file, which never shrinks; the mapping lives as
//! long as the value; it is the only one of its file in this process (see `Claim`).

use crate::hint::HUGE_PAGE_BYTES;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Advice is about pages; where they are larger, a hint is not taken.
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that belongs to this value; no thread owns it.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads, and writing needs `&mut self`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, with all page table entries made at once if `populate`; what is written to a
    /// private mapping does not reach the file.
    pub(crate) fn of(file: impl AsFd, len: usize, populate: bool, is_private: bool) -> Result<Self, Errno> {
        let mut flags = if is_private { MapFlags::PRIVATE } else { MapFlags::SHARED };
        // Of a private mapping that would copy every page.
        flags.set(MapFlags::POPULATE, populate && !is_private);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        if !len.is_multiple_of(HUGE_PAGE_BYTES) {
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
            let start = unsafe { mmap(core::ptr::null_mut(), len, access, flags, file, 0) }?;
            return Self::at(start, len);
        }
        let room = Self::reserve(len.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::NOMEM)?, ProtFlags::empty())?;
        let skipped = room.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let start = room.start.as_ptr().wrapping_add(skipped).cast();
        // SAFETY: the place lies in `room`, which is ours alone and has nothing in it.
        let start = unsafe { mmap(start, len, access, flags | MapFlags::FIXED, file, 0) }?;
        let mapped = Self::at(start, len)?;
        room.give_back_around(skipped, len);
        Ok(mapped)
    }

    fn at(start: *mut c_void, len: usize) -> Result<Self, Errno> {
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// Addresses that nothing is mapped at; with `access`, memory that is there once it is touched.
    pub(crate) fn reserve(len: usize, access: ProtFlags) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, access, flags) }?;
        Self::at(start, len)
    }

    /// Gives reserved addresses back but for those that have been mapped since.
    fn give_back_around(self, skipped: usize, len: usize) {
        let (start, end) = (self.start.as_ptr(), self.len);
        core::mem::forget(self);
        for part in [0..skipped, skipped + len..end] {
            if !part.is_empty() {
                drop(Self {
                    start: NonNull::new(start.wrapping_add(part.start)).expect("behind what is not null"),
                    len: part.len(),
                });
            }
        }
    }

    /// Asks for huge pages in place of those that a file of whole ones has. tmpfs gives them at this request however it is
    /// mounted. An error leaves what the file holds as it was, parts of it on huge pages.
    pub(crate) fn collapse(&self) -> Result<(), Errno> {
        unsafe extern "C" {
            fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
        }
        /// Since Linux 6.1; `rustix` has no name for it.
        const MADV_COLLAPSE: c_int = 25;
        if !self.len.is_multiple_of(HUGE_PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the range is a live mapping; the advice changes which pages it has, not what they hold.
        let advised = unsafe { madvise(self.start.as_ptr().cast(), self.len, MADV_COLLAPSE) };
        if advised == 0 {
            Ok(())
        } else {
            Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOMEM))
        }
    }

    /// Gives the kernel advice about pages of the mapping, the first and the last whole.
    ///
    /// REQUIRES: the range lies in the mapping; the advice changes no content.
    pub(crate) fn advise(&self, range: Range<usize>, advice: Advice) {
        let start = range.start / PAGE_BYTES * PAGE_BYTES;
        let part = &self.bytes()[start..range.end];
        // Ignored: a hint that is not taken costs time only.
        // SAFETY: the range is part of a live mapping and begins at a page; this advice changes no content.
        let _advised = unsafe { madvise(part.as_ptr().cast_mut().cast(), part.len(), advice) };
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and `len` are one live mapping; writes need `&mut self`, so none runs meanwhile.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` and `len` are one live, writable mapping, and `&mut self` makes us alone with it.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Stores a word in one instruction, not before what was stored earlier.
    #[inline]
    pub(crate) fn store_word(&mut self, offset: usize, word: u64) {
        assert!(offset.is_multiple_of(size_of::<u64>()), "the word is aligned");
        let place: *mut u8 = &raw mut self.bytes_mut()[offset..offset + size_of::<u64>()][0];
        // SAFETY: the word lies in the mapping (checked above), which starts at a page, so it is aligned; `&mut self`
        // makes us alone with it.
        let place = unsafe { AtomicU64::from_ptr(place.cast()) };
        place.store(word, Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `of` or `reserve`, and nothing borrows it when the value is dropped.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        assert!(unmapped.is_ok(), "a mapping of ours can be removed");
    }
}
