//! Which descriptors stand for files that were taken.

use crate::open::Open;
use crate::system;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Descriptors above it are left to the kernel.
const FD_MAX: usize = 65_536;
/// Below are those of the streams that every program has, which the C library writes to by itself.
const FD_MIN: usize = 3;

/// Descriptors that stand for taken files, so that nobody looks for one where there is none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether any descriptor stands for a taken file.
pub(crate) fn is_any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

// A bit for each descriptor that stands for a taken file: to be looked at without a lock.
static MARKS: [AtomicU64; FD_MAX / 64] = [const { AtomicU64::new(0) }; FD_MAX / 64];

/// Whether `fd` stands for a taken file.
pub(crate) fn is_taken(fd: c_int) -> bool {
    is_any()
        && usize::try_from(fd)
            .ok()
            .and_then(|at| Some(MARKS.get(at / 64)?.load(Ordering::Relaxed) >> (at % 64) & 1 == 1))
            .unwrap_or(false)
}

fn mark(at: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    MARKS[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
}

fn unmark(at: usize) {
    COUNT.fetch_sub(1, Ordering::Relaxed);
    MARKS[at / 64].fetch_and(!(1 << (at % 64)), Ordering::Relaxed);
}

/// In a forked child, which has none.
pub(crate) fn forget() {
    COUNT.store(0, Ordering::Relaxed);
    for marks in &MARKS {
        // Most are zero, and a page that is not written is the parent's still.
        if marks.load(Ordering::Relaxed) != 0 {
            marks.store(0, Ordering::Relaxed);
        }
    }
}

/// By descriptor.
#[derive(Default)]
pub(crate) struct Files {
    /// Guards: the table; taken last, and nothing is asked of the store under it.
    table: RwLock<Vec<Option<Arc<Open>>>>,
}

impl Files {
    /// Whether a descriptor may stand for a taken file.
    pub(crate) fn has_place(fd: c_int) -> bool {
        usize::try_from(fd).is_ok_and(|at| (FD_MIN..FD_MAX).contains(&at))
    }

    /// Has `fd` stand for `open`.
    ///
    /// REQUIRES: [`Files::has_place`].
    pub(crate) fn insert(&self, fd: c_int, open: Arc<Open>) {
        let Ok(at) = usize::try_from(fd) else { return };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() <= at {
            table.resize_with(at + 1, || None);
        }
        open.descriptors.fetch_add(1, Ordering::Relaxed);
        let before = table[at].replace(open);
        if before.is_none() {
            mark(at);
        }
        drop(table);
        drop(before);
    }

    /// What `fd` stands for.
    pub(crate) fn find(&self, fd: c_int) -> Option<Arc<Open>> {
        let at = usize::try_from(fd).ok()?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(at)?.clone()
    }

    /// Takes `fd` out; what it stood for, and whether no other descriptor does.
    #[must_use]
    pub(crate) fn remove(&self, fd: c_int) -> Option<(Arc<Open>, bool)> {
        let at = usize::try_from(fd).ok()?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let open = table.get_mut(at)?.take()?;
        unmark(at);
        let is_last = open.descriptors.fetch_sub(1, Ordering::Relaxed) == 1;
        Some((open, is_last))
    }

    /// All that is taken, each once.
    pub(crate) fn all(&self) -> Vec<Arc<Open>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<Open>> = Vec::new();
        for open in table.iter().flatten() {
            if !all.iter().any(|known| Arc::ptr_eq(known, open)) {
                all.push(Arc::clone(open));
            }
        }
        all
    }

    /// All descriptors that stand for something.
    pub(crate) fn descriptors(&self) -> Vec<c_int> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let taken = table.iter().enumerate().filter(|(_, open)| open.is_some());
        taken.filter_map(|(at, _)| c_int::try_from(at).ok()).collect()
    }

    /// A descriptor that stands for `open`.
    pub(crate) fn descriptor_of(&self, open: &Arc<Open>) -> Option<c_int> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let at = table.iter().position(|other| other.as_ref().is_some_and(|other| Arc::ptr_eq(other, open)));
        at.and_then(|at| c_int::try_from(at).ok())
    }

    /// Puts the kernel's file `fd` in the place of every descriptor that stands for `open`, and forgets that they did.
    pub(crate) fn replace(&self, open: &Arc<Open>, fd: c_int) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for (at, place) in table.iter_mut().enumerate() {
            let is_it = place.as_ref().is_some_and(|other| Arc::ptr_eq(other, open));
            let (true, Ok(number)) = (is_it, c_int::try_from(at)) else { continue };
            let is_closed_by_exec = system::descriptor_flags(number) & libc::FD_CLOEXEC != 0;
            let flags = if is_closed_by_exec { libc::O_CLOEXEC } else { 0 };
            // Ignored: it cannot fail for two descriptors that are open, and if it did, the number would serve nobody.
            _ = system::duplicate_to(fd, number, flags);
            *place = None;
            unmark(at);
        }
    }
}
