//! The trait that stands between the engine and a directory on a device.
//!
//! Invariants: after [`Disk::create`] a file changes its length through [`Disk::extend`] only, and only grows; an
//! inode has at most one [`FileId`] and at most one [`Region`]; a file that is mapped is written through its
//! region only and keeps its length.

use crate::error::{Error, Result};
use crate::region::Region;
use dolmen_types::IoBuf;

/// How a device is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Memory-like (tmpfs, DAX): map files, copy, no system call per access.
    Mapped,
    /// A block device behind a file system: aligned direct I/O.
    Block,
}

/// How [`Disk::open_as`] treats the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The file must not exist.
    Create {
        /// Its length.
        len_bytes: u64,
    },
    /// The file must exist.
    Open,
}

/// An open file of one [`Disk`]; meaningless on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u32);

/// Room on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the whole device (or of its share that we may use).
    pub total_bytes: u64,
    /// Bytes that a create may still take.
    pub free_bytes: u64,
}

/// An operation handed to [`Disk::submit`].
#[derive(Debug)]
pub struct Io {
    /// Comes back in [`IoDone`]; chosen by the caller, need not be unique.
    pub token: u64,
    /// The file.
    pub file: FileId,
    /// First byte; ignored by a flush.
    pub offset: u64,
    /// What to do.
    pub op: IoOp,
}

/// What to do, with the buffer that it owns until completion.
///
/// The length may be shorter than the buffer; it is direct (no page cache) on block media when offset and
/// length are multiples of 4096.
#[derive(Debug)]
pub enum IoOp {
    /// Fill the first `len` bytes of the buffer from the file.
    Read(IoBuf, u32),
    /// Write the first `len` bytes of the buffer to the file.
    Write(IoBuf, u32),
    /// As [`Disk::flush`]; covers what had completed before it was submitted.
    Flush,
    /// Makes durable the creates, removes and renames of the whole disk that were done before it was submitted;
    /// the file is any open one. What a created file holds needs a flush of its own.
    FlushNames,
}

impl IoOp {
    /// Bytes that it moves.
    pub(crate) fn transfer_bytes(&self) -> u64 {
        match self {
            Self::Read(_, len) | Self::Write(_, len) => u64::from(*len),
            Self::Flush | Self::FlushNames => 0,
        }
    }

    /// The buffer; `None` for a flush.
    #[must_use]
    pub fn into_buf(self) -> Option<IoBuf> {
        match self {
            Self::Read(buf, _) | Self::Write(buf, _) => Some(buf),
            Self::Flush | Self::FlushNames => None,
        }
    }
}

/// A completion.
#[derive(Debug)]
pub struct IoDone {
    /// The token of the [`Io`].
    pub token: u64,
    /// Bytes moved (all of them), or why not. After an error a read buffer holds anything.
    pub result: Result<u32>,
    /// The buffer, handed back; `None` for a flush.
    pub buf: Option<IoBuf>,
}

/// One directory on one device. Names are flat.
///
/// An implementation moves between threads but is used by one at a time. All numbers are bytes.
///
/// # Errors
/// Every method may return [`Error::Io`]; a simulated disk that has crashed returns [`Error::Crashed`].
/// Methods that take a name return [`Error::BadName`], those that take a file [`Error::NotOpen`], those
/// that take a range [`Error::OutOfRange`].
pub trait Disk: Send {
    /// The class of the device; never changes.
    fn media(&self) -> Media;

    /// Names the time since the machine was started; 0 if that is not known.
    ///
    /// What was written and not flushed is still there, in memory, as long as this number stays: it survives the
    /// death of the process, not that of the machine.
    fn boot_id(&self) -> u128;

    /// All names, sorted.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn list(&self) -> Result<Vec<String>>;

    /// Creates a file of `len_bytes` zeros and opens it.
    ///
    /// Its blocks are allocated, so later writes do not meet a full device. Name and contents are durable
    /// after [`Disk::sync_names`].
    ///
    /// # Errors
    /// [`Error::NoSpace`] after removing what was there of the file; [`Error::Exists`].
    fn create(&mut self, name: &str, len_bytes: u64) -> Result<FileId>;

    /// As [`Disk::create`], for a file that will be mapped and looked into at random: where it is in memory it is made of
    /// huge pages, if the system has any. That is also cheaper than small ones.
    ///
    /// # Errors
    /// As [`Disk::create`].
    fn create_for_looks(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        self.create(name, len_bytes)
    }

    /// Makes a file `more_bytes` longer; what is added reads as zeros and is preallocated where the file system can.
    ///
    /// For files that are written once, from front to end: unlike those of [`Disk::create`] the new blocks are
    /// not written yet. The length is durable after a [`Disk::flush`] of this file.
    ///
    /// # Errors
    /// [`Error::NoSpace`], the file as it was; [`Error::Busy`] while it is mapped.
    fn extend(&mut self, file: FileId, more_bytes: u64) -> Result<()>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Busy`] if this disk has it open already.
    fn open(&mut self, name: &str) -> Result<FileId>;

    /// [`Disk::create`] or [`Disk::open`], as `mode` says.
    ///
    /// # Errors
    /// Those of the two.
    fn open_as(&mut self, name: &str, mode: Mode) -> Result<FileId> {
        match mode {
            Mode::Create { len_bytes } => self.create(name, len_bytes),
            Mode::Open => self.open(name),
        }
    }

    /// Forgets a file. Operations in flight on it still complete; a region of it stays valid. Nothing is
    /// flushed. Closing an id that is not open does nothing.
    fn close(&mut self, file: FileId);

    /// Length of the file.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn len(&self, file: FileId) -> Result<u64>;

    /// Removes a name; an open file lives on until it is closed.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Renames, replacing `to` in one step. Open files keep their ids.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn rename(&mut self, from: &str, to: &str) -> Result<()>;

    /// Makes all creates, removes and renames durable, and the zeros of files that were created.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn sync_names(&mut self) -> Result<()>;

    /// [`Disk::flush`] of each of `files` and [`Disk::sync_names`], in no order: side by side where the
    /// device can, which then takes little longer than one of them. After an error all of them count as failed.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn flush_all(&mut self, files: &[FileId]) -> Result<()> {
        files.iter().try_for_each(|&file| self.flush(file))?;
        self.sync_names()
    }

    /// Fills `buf` from the file: all of it or an error.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Writes `buf` through the page cache: all of it or an error. It survives the death of the process,
    /// and loss of power once the file has been flushed.
    ///
    /// # Errors
    /// [`Error::Busy`] while the file is mapped.
    fn write_at(&mut self, file: FileId, offset: u64, buf: &[u8]) -> Result<()>;

    /// Makes every completed write of the file durable, also those through its region.
    ///
    /// After an error the caller must stop writing: what was not durable may be lost although it can still
    /// be read, and a second flush would claim success. It is never retried here.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn flush(&mut self, file: FileId) -> Result<()>;

    /// Takes an operation. It may start only at the next [`Disk::poll`]; order among operations in flight
    /// is not kept. Every operation completes exactly once, errors included, through `poll`.
    fn submit(&mut self, io: Io);

    /// Starts what was submitted and appends what has completed to `out`. With `wait` it returns at least
    /// one completion, unless nothing is in flight.
    fn poll(&mut self, wait: bool, out: &mut Vec<IoDone>);

    /// Maps the whole file, shared: what is written is in the file at once for this disk's reads, and
    /// durable after a flush.
    ///
    /// # Errors
    /// [`Error::Busy`] while an earlier region of the file lives; [`Error::OutOfRange`] for an empty file.
    fn map(&mut self, file: FileId) -> Result<Region>;

    /// Room on the device.
    #[expect(clippy::missing_errors_doc, reason = "errors are listed once, on the trait")]
    fn space(&self) -> Result<Space>;
}

impl<D: Disk + ?Sized> Disk for Box<D> {
    fn media(&self) -> Media {
        (**self).media()
    }
    fn boot_id(&self) -> u128 {
        (**self).boot_id()
    }
    fn list(&self) -> Result<Vec<String>> {
        (**self).list()
    }
    fn create(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        (**self).create(name, len_bytes)
    }
    fn create_for_looks(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        (**self).create_for_looks(name, len_bytes)
    }
    fn extend(&mut self, file: FileId, more_bytes: u64) -> Result<()> {
        (**self).extend(file, more_bytes)
    }
    fn open(&mut self, name: &str) -> Result<FileId> {
        (**self).open(name)
    }
    fn close(&mut self, file: FileId) {
        (**self).close(file);
    }
    fn len(&self, file: FileId) -> Result<u64> {
        (**self).len(file)
    }
    fn remove(&mut self, name: &str) -> Result<()> {
        (**self).remove(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        (**self).rename(from, to)
    }
    fn sync_names(&mut self) -> Result<()> {
        (**self).sync_names()
    }
    fn flush_all(&mut self, files: &[FileId]) -> Result<()> {
        (**self).flush_all(files)
    }
    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()> {
        (**self).read_at(file, offset, buf)
    }
    fn write_at(&mut self, file: FileId, offset: u64, buf: &[u8]) -> Result<()> {
        (**self).write_at(file, offset, buf)
    }
    fn flush(&mut self, file: FileId) -> Result<()> {
        (**self).flush(file)
    }
    fn submit(&mut self, io: Io) {
        (**self).submit(io);
    }
    fn poll(&mut self, wait: bool, out: &mut Vec<IoDone>) {
        (**self).poll(wait, out);
    }
    fn map(&mut self, file: FileId) -> Result<Region> {
        (**self).map(file)
    }
    fn space(&self) -> Result<Space> {
        (**self).space()
    }
}

/// Longest name, in bytes: what every Linux file system takes.
pub const NAME_BYTES_MAX: usize = 255;

pub(crate) fn checked_name(name: &str) -> Result<&str> {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    if fits && !name.starts_with('.') && !name.bytes().any(|byte| byte == b'/' || byte == 0) {
        Ok(name)
    } else {
        Err(Error::BadName { name: name.to_owned() })
    }
}

pub(crate) fn checked_range(name: &str, offset: u64, len_bytes: u64, file_bytes: u64) -> Result<()> {
    match offset.checked_add(len_bytes) {
        Some(end) if end <= file_bytes => Ok(()),
        _ => Err(Error::OutOfRange { name: name.to_owned(), offset, len_bytes, file_bytes }),
    }
}

/// The first `len` bytes exist in `buf`, or the range error that says otherwise.
pub(crate) fn checked_buf(name: &str, buf: &IoBuf, len: u32) -> Result<usize> {
    match usize::try_from(len) {
        Ok(bytes) if bytes <= buf.len() => Ok(bytes),
        _ => Err(Error::OutOfRange {
            name: name.to_owned(),
            offset: 0,
            len_bytes: u64::from(len),
            file_bytes: byte_count(buf.len()),
        }),
    }
}

/// A length in memory as a length in a file.
#[inline]
pub(crate) fn byte_count(len: usize) -> u64 {
    u64::try_from(len).expect("a length in memory fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges_from_outside_are_refused_not_trusted() {
        assert!(checked_name("log.0").is_ok());
        for bad in ["", ".hidden", "a/b", "nul\0"] {
            assert!(matches!(checked_name(bad), Err(Error::BadName { .. })), "{bad:?}");
        }
        assert!(checked_name(&"x".repeat(256)).is_err());
        assert!(checked_range("f", 4096, 4096, 8192).is_ok());
        assert!(checked_range("f", u64::MAX, 2, 8192).is_err());
    }
}
