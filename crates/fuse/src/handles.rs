//! Open files and directories by the numbers that the kernel has of them.

use crate::fs::Listing;
use crate::table::View;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_dfs::{Dir, File, errno as number};
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// What the kernel calls it, if it may keep its contents.
    pub(crate) number: Option<u64>,
    /// Something was written since its time was recorded.
    pub(crate) is_changed: AtomicBool,
    /// Reads are accesses.
    pub(crate) notes_access: bool,
    /// It was opened to be read.
    pub(crate) reads: bool,
    /// It was opened to be written.
    pub(crate) writes: bool,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) dir: Dir,
    pub(crate) ino: u64,
    pub(crate) view: View,
    /// Guards: where the listing stands; held while the store is asked for more.
    pub(crate) listing: Mutex<Listing>,
}

/// What is open.
#[derive(Clone, Debug)]
pub(crate) enum Open {
    File(Arc<OpenFile>),
    Dir(Arc<OpenDir>),
    /// The directory of snapshots: their names as they were when it was opened.
    Snapshots(Arc<[Box<[u8]>]>),
}

#[derive(Debug, Default)]
pub(crate) struct Handles {
    last: AtomicU64,
    /// Guards: the map; taken alone, and nothing is dropped under it that asks the store.
    open: RwLock<HashMap<u64, Open>>,
}

impl Handles {
    pub(crate) fn add(&self, open: Open) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(handle, open);
        handle
    }

    /// Takes a handle out, to be dropped by the caller.
    #[must_use]
    pub(crate) fn remove(&self, handle: u64) -> Option<Open> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }

    pub(crate) fn find(&self, handle: u64) -> Result<Open, i32> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle).cloned().ok_or(number::EBADF)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn dir_count(&self) -> usize {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.values().filter(|open| !matches!(open, Open::File(_))).count()
    }

    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenFile>, i32> {
        match self.find(handle)? {
            Open::File(file) => Ok(file),
            _ => Err(number::EISDIR),
        }
    }
}
