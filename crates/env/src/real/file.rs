//! Descriptors of an open file and blocking I/O on them.

use super::mapping::Mapping;
use crate::disk::{Media, byte_count};
use crate::hint::HUGE_PAGE_BYTES;
use core::sync::atomic::AtomicBool;
use dolmen_types::IoBuf;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, ftruncate, openat, statx};
use rustix::io::{Errno, pread, pwrite};
use std::sync::Arc;

/// Direct I/O is used for ranges and lengths that are multiples of this; every device we know takes it.
pub(crate) const DIRECT_ALIGN: u64 = 4096;

/// Zeros written at a time when a file is created.
const ZERO_PIECE_BYTES: u64 = 1 << 20;

/// The descriptors of a file; kept alive by operations in flight.
#[derive(Debug)]
pub(crate) struct Handle {
    buffered: OwnedFd,
    direct: Option<OwnedFd>,
}

/// An entry in the table of open files.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) name: String,
    pub(crate) handle: Arc<Handle>,
    pub(crate) len: u64,
    pub(crate) inode: (u64, u64),
    pub(crate) mapped: Arc<AtomicBool>,
}

impl Handle {
    pub(crate) fn new(buffered: OwnedFd, direct: Option<OwnedFd>) -> Self {
        Self { buffered, direct }
    }

    pub(crate) fn buffered(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// The descriptor that fits a transfer between an [`IoBuf`] and this range.
    pub(crate) fn for_range(&self, offset: u64, len: u32) -> BorrowedFd<'_> {
        let aligned = (offset | u64::from(len)).is_multiple_of(DIRECT_ALIGN);
        match &self.direct {
            Some(direct) if aligned => direct.as_fd(),
            _ => self.buffered.as_fd(),
        }
    }
}

/// Fills `buf` from `offset`. A file that ends early has been cut by somebody else: that is an I/O error.
pub(crate) fn read_whole(
    file: BorrowedFd<'_>,
    mut offset: u64,
    mut buf: &mut [u8],
) -> rustix::io::Result<()> {
    while !buf.is_empty() {
        match pread(file, &mut *buf, offset) {
            Ok(0) => return Err(Errno::NODATA),
            Ok(count) => {
                offset += byte_count(count);
                buf = &mut buf[count..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes `buf` at `offset`.
pub(crate) fn write_whole(file: BorrowedFd<'_>, mut offset: u64, mut buf: &[u8]) -> rustix::io::Result<()> {
    while !buf.is_empty() {
        match pwrite(file, buf, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                offset += byte_count(count);
                buf = &buf[count..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens `name` beside its buffered descriptor for direct I/O, if the file system gives it usably.
pub(crate) fn open_direct(dir: BorrowedFd<'_>, name: &str, len: u64) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECT;
    let file = openat(dir, name, flags, Mode::empty()).ok()?;
    takes_direct(&file, len).then_some(file)
}

/// Linux 6.1 and later say what alignment they need (and say nothing for a file whose data is journaled,
/// where the flag is accepted but ignored); older ones are asked by doing it.
fn takes_direct(file: &OwnedFd, len: u64) -> bool {
    let known = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    if let Some(stat) = known {
        let offset_align = u64::from(stat.stx_dio_offset_align);
        let memory_align = u64::from(stat.stx_dio_mem_align);
        return offset_align != 0 && offset_align <= DIRECT_ALIGN && memory_align <= DIRECT_ALIGN;
    }
    let probe_len = usize::try_from(DIRECT_ALIGN).expect("a small constant");
    len >= DIRECT_ALIGN && read_whole(file.as_fd(), 0, &mut IoBuf::zeroed(probe_len)).is_ok()
}

/// Makes a file of `len` bytes longer; its new blocks are allocated, not written.
pub(crate) fn lengthen(handle: &Handle, len: u64, more: u64) -> rustix::io::Result<()> {
    match fallocate(handle.buffered(), FallocateFlags::empty(), len, more) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(handle.buffered(), len.saturating_add(more)),
        other => other,
    }
}

/// What a file in memory is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pages {
    Usual,
    /// Huge ones where the system has any.
    Huge,
}

/// Gives an empty file its blocks; writes them once where the system does not give blocks of zeros, and in
/// memory, so that a mapping meets pages that are there.
///
/// Measured for 256 MiB: on tmpfs fallocate and write take 118 ms, write alone 650 ms, fallocate and a
/// populated mapping 190 ms. On ext4 the first direct writes into blocks that were never written run at 0.6 to
/// 0.9 of the rate of later ones; writing zeros before them would cost half of the device for as long.
pub(crate) fn preallocate(handle: &Handle, len: u64, media: Media, pages: Pages) -> rustix::io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    let is_filled =
        media == Media::Mapped && pages == Pages::Huge && fill_with_huge_pages(handle, len).is_ok();
    match fallocate(handle.buffered(), FallocateFlags::empty(), 0, len) {
        Ok(()) if is_filled || media == Media::Block => return Ok(()),
        // A file system without preallocation gets its blocks from the zeros below.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(errno) => return Err(errno),
    }
    let piece_bytes = ZERO_PIECE_BYTES.min(len.next_multiple_of(DIRECT_ALIGN));
    let zeros = IoBuf::zeroed(usize::try_from(piece_bytes).expect("at most a mebibyte"));
    let mut offset = 0;
    while offset < len {
        let count = u32::try_from(piece_bytes.min(len - offset)).expect("at most a mebibyte");
        let bytes = usize::try_from(count).expect("at most a mebibyte");
        write_whole(handle.for_range(offset, count), offset, &zeros[..bytes])?;
        offset += u64::from(count);
    }
    Ok(())
}

/// Makes an empty file of zeros on huge pages. Of a file that cannot be, some parts may be on such pages then, and whole.
///
/// Measured for 64 MiB: 5 ms of processor time, where `fallocate` and zeros take 45, and huge pages in place of those
/// 25 more.
fn fill_with_huge_pages(handle: &Handle, len: u64) -> rustix::io::Result<()> {
    let bytes = usize::try_from(len).map_err(|_too_long| Errno::FBIG)?;
    if !bytes.is_multiple_of(HUGE_PAGE_BYTES) {
        return Err(Errno::INVAL);
    }
    ftruncate(handle.buffered(), len)?;
    // A huge page takes the place of small ones, of one at least.
    for at in (0..len).step_by(HUGE_PAGE_BYTES) {
        pwrite(handle.buffered(), &[0], at)?;
    }
    Mapping::of(handle.buffered(), bytes, false, false)?.collapse()
}
