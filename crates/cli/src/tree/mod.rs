//! Whole directory trees between the file system outside and a container: put, get, verify. Parallel, resumable.
//!
//! Kept are contents with holes, kinds, modes, times of change to the nanosecond, symbolic links, hard links
//! inside the tree, extended attributes that the caller may read, and owners if asked for. A file's time is
//! set last, so what was interrupted is told from what was finished, and a repeated put or get copies only the
//! former. Devices, sockets and pipes have no entry in this layout; they are counted as skipped.

mod get;
mod journal;
mod local;
mod put;
mod queue;
mod verify;

pub(crate) use get::get;
pub(crate) use journal::{Journal, Record, read_journal};
pub(crate) use put::put;
pub(crate) use queue::{Queue, run as run_jobs};
pub(crate) use verify::verify;

use crate::failure::{Failure, Outcome};
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_dfs::Error as DfsError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Called with what was done so far, from any of the working threads.
pub(crate) type OnProgress<'a> = &'a (dyn Fn(Counts) + Sync);

/// How a tree is worked on.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    /// Threads that copy or compare; at least one.
    pub(crate) threads: usize,
    /// Skip files that are there with the same size and time.
    pub(crate) resume: bool,
    /// Keep owner and group.
    pub(crate) owner: bool,
    /// Called after each file and each few MiB.
    pub(crate) on_progress: Option<OnProgress<'a>>,
    /// Is told of every file that is stored and acknowledged.
    pub(crate) journal: Option<&'a Journal>,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Directories.
    pub(crate) dirs: u64,
    /// Files copied or compared.
    pub(crate) files: u64,
    /// Symbolic links.
    pub(crate) symlinks: u64,
    /// Further names of files.
    pub(crate) links: u64,
    /// Bytes copied or compared, holes included.
    pub(crate) bytes: u64,
    /// Files that a resumed run found finished.
    pub(crate) resumed: u64,
    /// Entries or attributes that have no form on the other side.
    pub(crate) skipped: u64,
}

/// Counts that several threads add to.
#[derive(Debug, Default)]
struct Tally {
    dirs: AtomicU64,
    files: AtomicU64,
    symlinks: AtomicU64,
    links: AtomicU64,
    bytes: AtomicU64,
    resumed: AtomicU64,
    skipped: AtomicU64,
}

impl Tally {
    fn add(&self, of: impl Fn(&Self) -> &AtomicU64, count: u64, options: &Options<'_>) {
        of(self).fetch_add(count, Ordering::Relaxed);
        if let Some(on_progress) = options.on_progress {
            on_progress(self.counts());
        }
    }

    fn counts(&self) -> Counts {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Counts {
            dirs: load(&self.dirs),
            files: load(&self.files),
            symlinks: load(&self.symlinks),
            links: load(&self.links),
            bytes: load(&self.bytes),
            resumed: load(&self.resumed),
            skipped: load(&self.skipped),
        }
    }
}

/// Bytes moved at once: a chunk of most files.
const BLOCK_BYTES: usize = 1 << 20;

/// A path in the container.
pub(crate) type Remote = Vec<u8>;

/// The path of an entry of a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Remote {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// A path in the container, for people.
pub(crate) fn shown(remote: &[u8]) -> String {
    Path::new(OsStr::from_bytes(remote)).display().to_string()
}

/// Why one file of a tree failed: here, or in the store.
pub(crate) enum Trouble {
    /// The command's own failure, which names its object.
    Here(Failure),
    /// The store's, which does not know the path.
    Stored(DfsError),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

impl From<DfsError> for Trouble {
    fn from(error: DfsError) -> Self {
        Self::Stored(error)
    }
}

/// Says which file an error is about.
trait OnFile<T> {
    fn on(self, doing: &str, remote: &[u8]) -> Outcome<T>;
}

impl<T, E: Into<Trouble>> OnFile<T> for Result<T, E> {
    fn on(self, doing: &str, remote: &[u8]) -> Outcome<T> {
        self.map_err(|error| match error.into() {
            Trouble::Here(failure) => failure,
            Trouble::Stored(error) => {
                use crate::failure::Doing;
                let failed: Outcome<()> = Err(error).doing(|| format!("{doing} {}", shown(remote)));
                failed.expect_err("made from an error")
            }
        })
    }
}
