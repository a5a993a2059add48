//! Memory that two processes share: a sealed memfd.
//!
//! Invariants: the memory can neither shrink nor grow while it lives, so that no access meets a page that is gone;
//! what the other process writes is never seen through a reference: bytes are copied out before anybody looks at them,
//! words are read as atomics. A range that lies outside is a mistake of ours and panics.

use crate::apart::OwnFd;
use crate::error::{Error, Op, Result};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Alignment of the words that [`SharedMemory`] reads and writes at once.
pub const WORD_BYTES: usize = 8;

/// What keeps the size as it is, for good.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory shared with another process.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
    fd: OwnFd,
}

// SAFETY: the mapping belongs to the value; all access is by copies and atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: as above. Which thread copies where is decided by who uses it: see the rings.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of `len` zero bytes, sealed; [`SharedMemory::fd`] is what another process needs of it.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has none left, or no such memory.
    pub fn create(len: usize) -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Share, "rings", 0, errno);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = OwnFd::from(memfd_create("dolmen-rings", flags).map_err(failed)?);
        ftruncate(&fd, u64::try_from(len).unwrap_or(u64::MAX)).map_err(failed)?;
        fcntl_add_seals(&fd, SEALS).map_err(failed)?;
        Self::map(fd, len).map_err(failed)
    }

    /// Takes over memory that another process has made.
    ///
    /// # Errors
    /// [`Error::Io`] unless it has `len` bytes and is sealed.
    pub fn adopt(fd: impl Into<OwnFd>, len: usize) -> Result<Self> {
        let fd = fd.into();
        let failed = |errno| Error::from_errno(Op::Share, "rings", 0, errno);
        let is_whole = u64::try_from(fstat(&fd).map_err(failed)?.st_size) == u64::try_from(len);
        let is_sealed = fcntl_get_seals(&fd).map_err(failed)?.contains(SEALS);
        if !is_whole || !is_sealed {
            return Err(failed(Errno::PROTO));
        }
        Self::map(fd, len).map_err(failed)
    }

    fn map(fd: OwnFd, len: usize) -> core::result::Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let start = unsafe { mmap(core::ptr::null_mut(), len, access, MapFlags::SHARED, &fd, 0) }?;
        let memory = Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len, fd };
        // A forked child has no part in what its parent talks about.
        // SAFETY: the range was just mapped by us; the advice changes nothing in this process.
        unsafe { madvise(memory.start.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// What another process takes it over by.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: nothing cannot be mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a word, and with it all that its writer wrote before.
    ///
    /// # Panics
    /// If it lies outside or is not aligned.
    #[must_use]
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Writes a word after all that was written before.
    ///
    /// # Panics
    /// If it lies outside or is not aligned.
    #[inline]
    pub fn store(&self, at: usize, word: u64) {
        self.word(at).store(word, Ordering::Release);
    }

    /// Writes a flag, in one order with all other flags, and all words that are read after it or were written before.
    ///
    /// # Panics
    /// If it lies outside or is not aligned.
    #[inline]
    pub fn raise(&self, at: usize, flag: bool) {
        self.flag(at).store(u32::from(flag), Ordering::SeqCst);
        core::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Takes a flag down, and says whether it was up; ordered as [`SharedMemory::raise`].
    ///
    /// # Panics
    /// If it lies outside or is not aligned.
    #[must_use]
    #[inline]
    pub fn take(&self, at: usize) -> bool {
        core::sync::atomic::fence(Ordering::SeqCst);
        let flag = self.flag(at);
        flag.load(Ordering::SeqCst) != 0 && flag.swap(0, Ordering::SeqCst) != 0
    }

    /// Copies `bytes` to `at`.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        assert!(self.holds(at, bytes.len()));
        // SAFETY: the range lies in the mapping (asserted), which no reference points into.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place(at), bytes.len()) };
    }

    /// Copies from `at` into `bytes`.
    ///
    /// # Panics
    /// If the range lies outside.
    #[inline]
    pub fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        assert!(self.holds(at, bytes.len()));
        // SAFETY: the range lies in the mapping (asserted), which no reference points into; whatever the other process
        // writes meanwhile, the copy is bytes.
        unsafe { core::ptr::copy_nonoverlapping(self.place(at), bytes.as_mut_ptr(), bytes.len()) };
    }

    #[inline]
    fn holds(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len)
    }

    #[inline]
    fn place(&self, at: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at)
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(WORD_BYTES));
        assert!(self.holds(at, WORD_BYTES));
        // SAFETY: the word lies in the mapping (asserted), which lives as long as `self`, and is aligned.
        unsafe { AtomicU64::from_ptr(self.place(at).cast()) }
    }

    #[inline]
    fn flag(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(WORD_BYTES));
        assert!(self.holds(at, WORD_BYTES));
        // SAFETY: as of `word`.
        unsafe { AtomicU32::from_ptr(self.place(at).cast()) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and nothing borrows it when the value is dropped.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        assert!(unmapped.is_ok(), "a mapping of ours can be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same_bytes_and_words() {
        let ours = SharedMemory::create(8192).unwrap();
        let theirs = SharedMemory::adopt(ours.fd().try_clone_to_owned().unwrap(), 8192).unwrap();
        ours.copy_in(4000, b"stone");
        ours.store(8, 77);
        let mut bytes = [0; 5];
        theirs.copy_out(4000, &mut bytes);
        assert_eq!((&bytes, theirs.load(8)), (b"stone", 77));
        theirs.raise(16, true);
        assert!(ours.take(16));
        assert!(!ours.take(16));
    }

    #[test]
    fn memory_of_another_size_or_without_seals_is_refused() {
        let ours = SharedMemory::create(8192).unwrap();
        assert!(SharedMemory::adopt(ours.fd().try_clone_to_owned().unwrap(), 4096).is_err());
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(SharedMemory::adopt(open, 4096).is_err());
        assert!(ftruncate(ours.fd(), 0).is_err(), "sealed");
    }
}
