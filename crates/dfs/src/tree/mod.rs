//! Whole directory trees: put, get, verify, count, remove. Parallel and resumable.
//!
//! Kept are contents with holes, kinds, modes, times of change to the nanosecond, symbolic links, hard links
//! inside the tree, extended attributes that the caller may read, and owners if asked for. A file gets its name when
//! it is complete, in place of the one that had it, so a copy that fails or is killed leaves the old one or the new one.
//! Until then its name is `.dolmen-…-….unfinished`; what has such a name is not copied, and the next copy into that
//! directory removes what a dead one has left. A repeated put or get copies the contents of only those files that are
//! not there with the same size and time, and makes mode, owner and extended attributes of all what they are at the
//! source; it writes nothing where they are so already. Names that share a file here and not there are parted, and the other way round.
//! Devices, sockets and pipes have no entry in this layout; they are named and counted as skipped.
//!
//! An entry that cannot be copied or compared does not end the run if the caller takes failures one by one
//! (`Options::on_failure`): all others are done, and those below a directory that failed are left out with it.

mod du;
mod get;
mod link;
mod local;
mod put;
mod queue;
mod remove;
mod stream;
mod unfinished;
mod verify;

pub use du::{Usage, digest, du, paths_of};
pub use get::get;
pub use put::put;
pub use remove::remove;
pub use stream::put_pieces;
pub use verify::{Difference, Mismatch, Report, verify};

use crate::dir::Dir;
use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::resolve::Follow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use link::Link;
use queue::Queue;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Called with what was done so far, from any of the working threads.
pub type OnProgress<'a> = &'a (dyn Fn(Counts) + Sync);

/// Called with path, size and crc32c of a file that is put: all of it is acknowledged by then. From any of the
/// working threads; an error ends the put.
pub type OnStored<'a> = &'a (dyn Fn(&[u8], u64, u32) -> Result<()> + Sync);

/// Called with why an entry could not be copied or compared, with its path. From any of the working threads.
pub type OnFailure<'a> = &'a (dyn Fn(Error) + Sync);

/// Why an entry is left out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skipped {
    /// A socket.
    Socket,
    /// A named pipe.
    Pipe,
    /// A character or block device.
    Device,
    /// A directory of `Options::excluded`.
    Excluded,
    /// A file that another copy has not finished.
    Unfinished,
    /// An extended attribute that the other side has no room for, or forbids.
    Attribute {
        /// Its name.
        name: Box<[u8]>,
        /// The system's error number.
        errno: i32,
    },
}

/// Called with what is left out, by its path outside. From any of the working threads.
pub type OnSkipped<'a> = &'a (dyn Fn(&Path, Skipped) + Sync);

/// Asked whether a directory outside must not be written. From any of the working threads.
pub type IsRefused<'a> = &'a (dyn Fn(&Path) -> bool + Sync);

/// How a tree is worked on.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads that copy or compare; 0 for one a processor.
    pub threads: usize,
    /// Do not copy the contents of files that are there with the same size and time.
    pub resume: bool,
    /// Keep owner and group. Without, a file whose owner changes loses its set-user-id and set-group-id bits, and
    /// capabilities.
    pub owner: bool,
    /// Called after each file and each few MiB.
    pub on_progress: Option<OnProgress<'a>>,
    /// Called for each file that is put; costs its checksum.
    pub on_stored: Option<OnStored<'a>>,
    /// Called for each entry that could not be copied or compared, and the run goes on; without it, the first one
    /// ends the run. What would meet every entry, such as a full device, ends it in any case, and so does what is
    /// wrong with the entry that was named. A place that the device does not give is that of one entry where the store
    /// is only read.
    pub on_failure: Option<OnFailure<'a>>,
    /// Called for each entry that is left out.
    pub on_skipped: Option<OnSkipped<'a>>,
    /// Ends the run with `Canceled` before its next entry or block, once somebody sets it: what is not finished then is
    /// taken back, what is finished stays.
    pub stop: Option<&'a AtomicBool>,
    /// Directories outside that are left out by a put and not written by a get, by device and inode: those of the
    /// open pool.
    pub excluded: &'a [(u64, u64)],
    /// Says of a directory outside that is there whether a get must not write into it: one of another pool.
    pub is_refused: Option<IsRefused<'a>>,
}

impl Default for Options<'_> {
    /// Resumes, one thread a processor, owners not kept, no callbacks, nothing excluded, never called off.
    fn default() -> Self {
        Self {
            threads: 0,
            resume: true,
            owner: false,
            on_progress: None,
            on_stored: None,
            on_failure: None,
            on_skipped: None,
            stop: None,
            excluded: &[],
            is_refused: None,
        }
    }
}

impl core::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Options")
            .field("threads", &self.threads)
            .field("resume", &self.resume)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Directories.
    pub dirs: u64,
    /// Files copied or compared.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files.
    pub links: u64,
    /// Bytes copied or compared; holes that are not read do not count.
    pub bytes: u64,
    /// Files that a resumed run found finished.
    pub resumed: u64,
    /// What is left out: devices, sockets, pipes, excluded directories, attributes that the other side refuses.
    pub skipped: u64,
    /// Entries that could not be copied or compared.
    pub failed: u64,
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
    failed: AtomicU64,
    /// Nothing is written to the store: then a place that cannot be read is in the way of one entry alone.
    only_reads: bool,
}

impl Tally {
    /// Of what only reads the store.
    fn of_reads() -> Self {
        Self { only_reads: true, ..Self::default() }
    }

    fn add(&self, of: impl Fn(&Self) -> &AtomicU64, count: u64, options: &Options<'_>) {
        of(self).fetch_add(count, Ordering::Relaxed);
        if let Some(on_progress) = options.on_progress {
            on_progress(self.counts());
        }
    }

    /// What was done; `None` if it failed and the others go on. Every entry passes here: then a run can be called off.
    fn spare<T>(&self, done: Result<T>, options: &Options<'_>) -> Result<Option<T>> {
        options.check_stop()?;
        match (done, options.on_failure) {
            (Err(error), Some(on_failure))
                if error.spares_others() || self.only_reads && error.is_unreadable() =>
            {
                self.failed.fetch_add(1, Ordering::Relaxed);
                on_failure(error);
                Ok(None)
            }
            (done, _) => done.map(Some),
        }
    }

    fn skip(&self, path: &Path, why: Skipped, options: &Options<'_>) {
        if let Some(on_skipped) = options.on_skipped {
            on_skipped(path, why);
        }
        self.add(|tally| &tally.skipped, 1, options);
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
            failed: load(&self.failed),
        }
    }
}

/// Bytes moved at once: a chunk of most files.
const BLOCK_BYTES: usize = 1 << 20;

/// A path in the container.
pub(crate) type Remote = Vec<u8>;

pub(crate) fn join(dir: &[u8], name: &[u8]) -> Remote {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

impl Options<'_> {
    /// The same; for the entry that the caller has named, a failure is that of the whole run.
    fn for_root(&self, is_dir: bool) -> Self {
        if is_dir { *self } else { Self { on_failure: None, ..*self } }
    }

    fn check_stop(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) { Err(Error::Canceled) } else { Ok(()) }
    }

    fn is_excluded(&self, meta: &Metadata) -> bool {
        meta.is_dir() && self.excluded.contains(&(meta.dev(), meta.ino()))
    }
}

/// Does `work` on all items in the threads of `options`.
fn side_by_side<J: Send>(
    options: &Options<'_>,
    mut items: impl Iterator<Item = J>,
    work: impl Fn(J) -> Result<()> + Sync,
) -> Result<()> {
    let produce = |queue: &Queue<J>| {
        // After an error of a worker nothing more is wanted.
        let _all_taken = items.all(|item| queue.push(item));
        Ok(())
    };
    queue::run(options, produce, work)
}

/// Why what is no file, directory or symbolic link is left out.
fn special(meta: &Metadata) -> Skipped {
    let kind = meta.file_type();
    if kind.is_socket() {
        Skipped::Socket
    } else if kind.is_fifo() {
        Skipped::Pipe
    } else {
        Skipped::Device
    }
}

/// The same of an entry of the container.
fn special_kind(kind: FileKind) -> Skipped {
    match kind {
        FileKind::Socket => Skipped::Socket,
        FileKind::Pipe => Skipped::Pipe,
        _ => Skipped::Device,
    }
}

/// The kind in a mode, if it is one that is copied.
fn kind_copied(mode: u32) -> Option<FileKind> {
    FileKind::of_mode(mode).filter(|kind| !kind.is_special())
}

impl Dir {
    /// Names and values of extended attributes, sorted by name; those of a symbolic link itself.
    ///
    /// # Errors
    /// `NotFound`; `NoPermission`.
    pub fn xattrs(&self, remote: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let names = self.xattr_names(remote, Follow::No)?;
        let valued = |name: Vec<u8>| Ok((name.clone(), self.xattr(remote, name, Follow::No)?));
        names.into_iter().map(valued).collect()
    }
}

/// Mode bits by which a program runs with the rights of its owner or group.
const MODE_OF_OWNER: u32 = 0o6000;

/// The extended attribute by which a program has rights of root.
const XATTR_OF_OWNER: &[u8] = b"security.capability";

impl Options<'_> {
    /// Mode bits that an entry keeps on its way from one owner and group to another: what gives a program the rights of its
    /// owner is not given to another one.
    fn mode_kept(&self, kind: FileKind, from: (u32, u32), to: (u32, u32)) -> u32 {
        let kept = self.owner || from == to || kind != FileKind::File;
        if kept { 0o7777 } else { 0o7777 & !MODE_OF_OWNER }
    }
}

/// Extended attributes without the one that an entry which keeps the mode bits `kept` may not have.
fn xattrs_kept(mut xattrs: Vec<(Vec<u8>, Vec<u8>)>, kept: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    xattrs.retain(|(name, _)| kept & MODE_OF_OWNER != 0 || name != XATTR_OF_OWNER);
    xattrs
}

/// Where data or a hole begins; `end` if there is none.
fn or_end(found: Result<u64>, end: u64) -> Result<u64> {
    match found {
        Err(Error::NoSuchOffset) => Ok(end),
        other => other,
    }
}

fn as_path(remote: &[u8]) -> PathBuf {
    Path::new(std::ffi::OsStr::from_bytes(remote)).to_path_buf()
}

// One implementor: a method of results keeps the path of success readable from left to right.
/// Says which file an error is about.
trait OnFile<T> {
    fn on(self, remote: &[u8]) -> Result<T>;
    /// As `on`, without a path as long as nothing is wrong.
    fn at(self, link: &Link) -> Result<T>;
}

impl<T> OnFile<T> for Result<T> {
    fn on(self, remote: &[u8]) -> Result<T> {
        self.map_err(|error| match error {
            error @ (Error::Local { .. }
            | Error::InTree { .. }
            | Error::Excluded { .. }
            | Error::Special { .. }
            | Error::Changed { .. }
            | Error::Canceled) => error,
            source => Error::InTree { path: as_path(remote), source: Box::new(source) },
        })
    }

    fn at(self, link: &Link) -> Result<T> {
        if self.is_err() { self.on(&link.path()) } else { self }
    }
}
