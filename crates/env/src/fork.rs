//! Whether this process is the child of the one that made something.

use crate::error::{Error, Op, Result};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
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

/// Something that each process has for itself: a forked child begins with a new one, and needs nothing of the threads of its
/// parent, which may have had the old one locked when it was made.
pub struct PerProcess<T: 'static> {
    // Null, or leaked by the process that it names: whoever has looked at one may go on with it.
    own: AtomicPtr<Own<T>>,
    make: fn() -> T,
}

struct Own<T> {
    pid: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Nothing yet; `make` makes it for the first who asks in a process.
    pub const fn new(make: fn() -> T) -> Self {
        Self { own: AtomicPtr::new(core::ptr::null_mut()), make }
    }

    /// That of this process. Costs a system call, and in each process that forks and asks the memory of one value.
    pub fn get(&self) -> &'static T {
        let pid = std::process::id();
        let known = self.own.load(Ordering::Acquire);
        // SAFETY: it is null, or was leaked, and nobody changes it.
        if let Some(own) = unsafe { known.as_ref() }.filter(|own| own.pid == pid) {
            return &own.value;
        }
        let made = Box::into_raw(Box::new(Own { pid, value: (self.make)() }));
        match self.own.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked for good.
            Ok(_) => unsafe { &(*made).value },
            Err(_other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                self.get()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_process_has_one_value_of_its_own_whoever_asks_first() {
        static COUNT: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::default);
        crate::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| *COUNT.get().lock().unwrap() += 1);
            }
        });
        assert_eq!(*COUNT.get().lock().unwrap(), 8);
    }

    #[test]
    fn a_process_knows_its_own_mark() {
        assert!(!ForkMark::new().unwrap().is_forked());
    }
}
