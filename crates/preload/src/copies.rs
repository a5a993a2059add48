//! Contents that the kernel would copy from one open file to another: here they go through this library's memory, and what a file
//! system without shared blocks refuses is refused. A file of the kernel's beside one of ours is of another file system, unless it
//! is of a mount like ours: what is to be done with that is the kernel's.
//!
//! Invariants: errors come in the kernel's order; a copy moves no offset but by what it has copied.

use crate::memory;
use crate::names::Told;
use crate::open::{self, Open};
use crate::system::{self, Theirs};
use core::ffi::{c_int, c_uint, c_ulong, c_void};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use std::sync::PoisonError;

/// Memory for one step.
const PIECE_BYTES: usize = 1 << 20;
/// No call copies more: no function of the program runs at a signal meanwhile. Who wants more calls again, as the kernel has it.
const COPY_BYTES_MAX: u64 = 1 << 24;

/// The file at one end of a copy.
pub(crate) enum End<'a> {
    Ours(&'a Open),
    Theirs(Theirs),
}

/// Does something with two descriptors of which at least one stands for a file of ours; `None` if the kernel is to do it.
fn between(fds: [c_int; 2], act: impl FnOnce(&End<'_>, &End<'_>) -> Told<isize>) -> Told<isize> {
    open::with_two(fds, |opens| {
        let mut ends = core::iter::zip(fds, opens).map(|(fd, open)| match open {
            Some(open) => Ok(End::Ours(open)),
            None => Theirs::of(fd).map(End::Theirs),
        });
        let (Some(from), Some(to)) = (ends.next(), ends.next()) else { return None };
        match (from, to) {
            (Ok(from), Ok(to)) => act(&from, &to),
            (Err(errno), _) | (_, Err(errno)) => Some(Err(errno)),
        }
    })
}

/// As copy_file_range(2).
pub(crate) fn copy_range(
    (from, at): (c_int, *mut i64),
    (to, there): (c_int, *mut i64),
    len: usize,
    flags: c_uint,
) -> Told<isize> {
    between([from, to], |from, to| {
        let (begin, end) = (from.place(at), to.place(there));
        if flags != 0 {
            return Some(Err(libc::EINVAL));
        }
        if let Err(errno) = checked(from, to) {
            return Some(Err(errno));
        }
        match (from, to) {
            (End::Ours(source), End::Ours(target)) => {
                let copied = copied_range((source, begin), (target, end), len);
                Some(copied.and_then(|(copied, len)| {
                    if copied > 0 {
                        from.move_to(at, begin + copied)?;
                        to.move_to(there, end + copied)?;
                    }
                    Ok(len)
                }))
            }
            (End::Theirs(theirs), _) | (_, End::Theirs(theirs)) if theirs.is_of_mount() => None,
            _ => Some(Err(libc::EXDEV)),
        }
    })
}

/// Copies between ours; how much, as both kinds of numbers.
fn copied_range(
    (from, at): (&Open, i64),
    (to, there): (&Open, i64),
    len: usize,
) -> Result<(i64, isize), i32> {
    // The kernel adds as if places had no sign, and looks at that later.
    let ends_at = |place: i64| place.cast_unsigned().checked_add(len as u64).ok_or(libc::EOVERFLOW);
    ends_at(at)?;
    ends_at(there)?;
    let size = from.size()?;
    let begin = u64::try_from(at).map_err(|_negative| libc::EINVAL)?;
    let target = u64::try_from(there).map_err(|_negative| libc::EINVAL)?;
    let count = (len as u64).min(size.saturating_sub(begin));
    let is_same = from.ino == to.ino && from.mount.id == to.mount.id;
    if is_same && target + count > begin && target < begin + count {
        return Err(libc::EINVAL);
    }
    let copied = in_pieces((&End::Ours(from), begin), (&End::Ours(to), target), count)?;
    Ok((copied, isize::try_from(copied).unwrap_or(0)))
}

/// As sendfile(2), between regular files.
pub(crate) fn send((from, at): (c_int, *mut i64), to: c_int, len: usize) -> Told<isize> {
    between([from, to], |from, to| {
        if !from.is_regular() || !to.is_regular() {
            return None;
        }
        let (begin, end) = (from.place(at), to.place(core::ptr::null_mut()));
        Some(sent((from, at, begin), (to, end), len))
    })
}

fn sent(
    (from, at, begin): (&End<'_>, *mut i64, i64),
    (to, end): (&End<'_>, i64),
    len: usize,
) -> Result<isize, i32> {
    if !from.is_read() {
        return Err(libc::EBADF);
    }
    let source = u64::try_from(begin).map_err(|_negative| libc::EINVAL)?;
    if !to.is_written() {
        return Err(libc::EBADF);
    }
    if to.flags() & libc::O_APPEND != 0 {
        return Err(libc::EINVAL);
    }
    let target = u64::try_from(end).map_err(|_negative| libc::EINVAL)?;
    let copied = in_pieces((from, source), (to, target), len as u64)?;
    if copied > 0 {
        from.move_to(at, begin + copied)?;
        to.move_to(core::ptr::null_mut(), end + copied)?;
    }
    isize::try_from(copied).map_err(|_too_long| libc::EINVAL)
}

/// Copies until `len`, an end or an error, which is told if nothing was copied before.
fn in_pieces((from, at): (&End<'_>, u64), (to, there): (&End<'_>, u64), len: u64) -> Result<i64, i32> {
    let len = len.min(COPY_BYTES_MAX);
    let mut room = vec![0; usize::try_from(len).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
    let mut copied = 0;
    while copied < len {
        let left = usize::try_from(len - copied).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = from.read(at + copied, &mut room[..left]);
        match read.and_then(|read| to.write(there + copied, &room[..read])) {
            Ok(0) => break,
            Ok(written) => copied += written as u64,
            Err(errno) if copied == 0 => return Err(errno),
            Err(_told_next_time) => break,
        }
    }
    i64::try_from(copied).map_err(|_too_long| libc::EINVAL)
}

/// What the kernel asks of both ends.
fn checked(from: &End<'_>, to: &End<'_>) -> Result<(), i32> {
    if from.is_dir() || to.is_dir() {
        return Err(libc::EISDIR);
    }
    if !from.is_regular() || !to.is_regular() {
        return Err(libc::EINVAL);
    }
    let may = from.is_read() && to.is_written() && to.flags() & libc::O_APPEND == 0;
    if may { Ok(()) } else { Err(libc::EBADF) }
}

impl End<'_> {
    fn flags(&self) -> c_int {
        match self {
            Self::Ours(open) => open.flags.load(Ordering::Relaxed),
            Self::Theirs(theirs) => theirs.flags,
        }
    }

    fn is_read(&self) -> bool {
        self.flags() & libc::O_ACCMODE != libc::O_WRONLY
    }

    fn is_written(&self) -> bool {
        self.flags() & libc::O_ACCMODE != libc::O_RDONLY
    }

    fn is_regular(&self) -> bool {
        matches!(self, Self::Ours(_)) || matches!(self, Self::Theirs(theirs) if theirs.kind == libc::S_IFREG)
    }

    fn is_dir(&self) -> bool {
        matches!(self, Self::Theirs(theirs) if theirs.kind == libc::S_IFDIR)
    }

    fn dev(&self) -> (u32, u32) {
        match self {
            Self::Ours(open) => (open.dir.stx_dev_major, open.dir.stx_dev_minor),
            Self::Theirs(theirs) => theirs.dev,
        }
    }

    /// Where `at` says, or where the next read or write begins.
    fn place(&self, at: *mut i64) -> i64 {
        let own = || match self {
            Self::Ours(open) => {
                i64::try_from(*open.offset.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or(i64::MAX)
            }
            Self::Theirs(theirs) => system::place(theirs.fd),
        };
        memory::get(at.cast_const()).unwrap_or_else(own)
    }

    fn move_to(&self, at: *mut i64, place: i64) -> Result<(), i32> {
        if !at.is_null() {
            return memory::put(at, place);
        }
        let place = u64::try_from(place).map_err(|_negative| libc::EINVAL)?;
        match self {
            Self::Ours(open) => *open.offset.lock().unwrap_or_else(PoisonError::into_inner) = place,
            Self::Theirs(theirs) => system::seek(theirs.fd, place),
        }
        Ok(())
    }

    fn read(&self, at: u64, room: &mut [u8]) -> Result<usize, i32> {
        match self {
            Self::Ours(open) => counted(open.read(Some(signed(at)?), room)?),
            Self::Theirs(theirs) => system::read_at(theirs.fd, room, at),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<usize, i32> {
        match self {
            Self::Ours(open) => counted(open.write(Some(signed(at)?), bytes)?),
            Self::Theirs(theirs) => system::write_at(theirs.fd, bytes, at),
        }
    }
}

fn signed(place: u64) -> Result<i64, i32> {
    i64::try_from(place).map_err(|_too_far| libc::EFBIG)
}

fn counted(count: isize) -> Result<usize, i32> {
    usize::try_from(count).map_err(|_negative| libc::EIO)
}

/// Asks whether files have the same contents, for blocks that they could share.
//= linux:include/uapi/linux/fs.h FIDEDUPERANGE
const FIDEDUPERANGE: c_ulong = 0xc018_9436;

/// The argument of `FIDEDUPERANGE`, after which its targets come.
#[repr(C)]
#[derive(Clone, Copy)]
struct SameRange {
    offset: u64,
    len: u64,
    count: u16,
    zero: u16,
    zeros: u32,
}

/// A target there.
#[repr(C)]
#[derive(Clone, Copy)]
struct SameTarget {
    to: i64,
    offset: u64,
    same_bytes: u64,
    status: i32,
    zeros: u32,
}

/// As ioctl(2) for blocks that files share, where a file of ours is at either end, and for what no file is.
pub(crate) fn control(fd: c_int, request: c_ulong, arg: *mut c_void) -> Told<c_int> {
    let number = |from: i64| c_int::try_from(from).unwrap_or(-1);
    match request {
        // The descriptor is the argument itself.
        libc::FICLONE => cloned(descriptor(arg.addr()), fd),
        libc::FICLONERANGE => match memory::get(arg.cast_const().cast::<libc::file_clone_range>()) {
            Some(range) => cloned(number(range.src_fd), fd),
            None => ours_says(fd, libc::EFAULT),
        },
        FIDEDUPERANGE => compared(fd, arg.cast_const().cast()),
        libc::TCGETS => ours_says(fd, libc::ENOTTY),
        _ => None,
    }
}

/// The kernel takes half a word for it.
fn descriptor(word: usize) -> c_int {
    u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX).cast_signed()
}

/// What a file of ours answers whatever is asked.
fn ours_says(fd: c_int, errno: i32) -> Told<c_int> {
    open::with(fd, crate::report::Kind::Other, |_open| Err(errno))
}

fn cloned(from: c_int, to: c_int) -> Told<c_int> {
    let told = between([from, to], |from, to| {
        let refused = if from.dev() == to.dev() {
            checked(from, to).err().unwrap_or(libc::EOPNOTSUPP)
        } else {
            libc::EXDEV
        };
        Some(Err(refused))
    });
    told.map(|refused| refused.map(|_never| 0))
}

fn compared(fd: c_int, asked: *const SameRange) -> Told<c_int> {
    const PAGE_BYTES: usize = 4096;
    let Some(range) = memory::get(asked) else { return ours_says(fd, libc::EFAULT) };
    let count = usize::from(range.count);
    let len = size_of::<SameRange>() + count * size_of::<SameTarget>();
    let said = open::with(fd, crate::report::Kind::Other, |open| {
        Err(match open.flags.load(Ordering::Relaxed) & libc::O_ACCMODE {
            _ if len > PAGE_BYTES => libc::ENOMEM,
            libc::O_WRONLY => libc::EINVAL,
            _ if range.zero != 0 || range.zeros != 0 => libc::EINVAL,
            _ => libc::EOPNOTSUPP,
        })
    });
    if said.is_none() && len <= PAGE_BYTES {
        // Each of them has an answer of the kernel's.
        let targets = memory::list(asked.wrapping_add(1).cast::<SameTarget>(), count);
        for target in targets {
            crate::settle::descriptor(c_int::try_from(target.to).unwrap_or(-1));
        }
    }
    said
}

const _: () = assert!(size_of::<SameRange>() == 24);
const _: () = assert!(size_of::<SameTarget>() == 32 && offset_of!(SameTarget, status) == 24);
