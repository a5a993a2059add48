//! Requests of a mount over `io_uring`, where the kernel offers that: one system call hands an answer in and waits for the next
//! request, and both are on the processor of whoever asks.
//!
//! The kernel has a queue for each processor. An entry is one request's place in a queue: memory in which the kernel puts the request
//! and finds the answer, and a ring of its own over which the two are told. See `linux/fuse.h` for the numbers.
//!
//! Invariants: an entry is the kernel's from when it is registered or answered to when it has a request, and then its owner's; a
//! request's bytes stay as they are for as long as somebody has them, also if the entry was answered meanwhile: then the kernel gets
//! other memory at the same place.

use super::{DEVICE, KernelDevice};
use crate::error::{Error, Op, Result};
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::sync::Arc;

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
const ANSWER: u32 = 2;

/// `struct fuse_uring_req_header`: the head of a request or an answer, what its operation has of fixed length, and what the kernel
/// says of the entry.
const HEADS_BYTES: usize = 288;
const OWN_AT: usize = 128;
const OWN_BYTES_MAX: usize = 128;
const COMMIT_AT: usize = 256 + 8;
const PAYLOAD_LEN_AT: usize = 256 + 16;

/// `struct fuse_in_header` and `struct fuse_out_header`.
const REQUEST_HEAD_BYTES: usize = 40;
const ANSWER_HEAD_BYTES: usize = 16;

/// What comes before the payload in memory: the heads, and room to put a request's in front of its payload.
const FRONT_BYTES: usize = 4096;

/// Where the list of possible processors is.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// How many queues the kernel has for a mount, one for each processor that there may be; every one needs an entry.
///
/// # Errors
/// [`Error::Io`] if the system does not say it, or has pages of another size than 4 KiB: payloads would be longer than agreed on.
pub fn ring_queues() -> Result<u16> {
    // SAFETY: it reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if page != 4096 {
        return Err(Error::from_errno(Op::Map, DEVICE, 0, Errno::NOTSUP));
    }
    let text =
        std::fs::read_to_string(POSSIBLE).map_err(|error| Error::from_std(Op::Open, POSSIBLE, &error))?;
    processors(text.trim()).ok_or_else(|| Error::from_errno(Op::Read, POSSIBLE, 0, Errno::RANGE))
}

/// How many a list such as `0-3,8` has.
fn processors(list: &str) -> Option<u16> {
    let mut count = 0_u16;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// Memory of an entry, as this process sees it.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that belongs to this value; no thread owns it.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads, and writing needs `&mut self`.
unsafe impl Sync for Memory {}

impl Memory {
    fn of(file: &OwnedFd, len: usize, at: Option<NonNull<u8>>) -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Map, DEVICE, 0, errno);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (place, flags) = match at {
            Some(at) => (at.as_ptr().cast::<c_void>(), MapFlags::SHARED | MapFlags::FIXED),
            None => (core::ptr::null_mut(), MapFlags::SHARED),
        };
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists; one at a given place takes that
        // of an entry, which no reference points to.
        let start = unsafe { mmap(place, len, access, flags, file, 0) }.map_err(failed)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| failed(Errno::NOMEM))?;
        Ok(Self { start, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and `len` are one live mapping. The kernel writes to it only while nobody but the entry has it: see
        // `RingEntry::answer`.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes us alone with it.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    fn word(&self, at: usize) -> usize {
        let bytes = self.bytes()[at..at + 4].try_into().expect("four bytes");
        usize::try_from(u32::from_le_bytes(bytes)).expect("no more than an address")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no reference to it outlives it. Ignored: a valid range is always given back.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A request that came over a ring.
#[derive(Debug)]
pub struct RingRequest {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl RingRequest {
    /// Its bytes, as a read of the device gives them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.range.clone()]
    }
}

/// A place for one request at a time in one of the kernel's queues. Whoever has it may be any thread; the one that waits must go on
/// living until a request has come.
pub struct RingEntry {
    /// First, so that the kernel has let go of the memory before that is given back.
    ring: IoUring<Entry128>,
    device: Arc<OwnedFd>,
    queue: u16,
    /// Where the kernel finds the memory.
    kernel: Memory,
    /// The same memory at another place: it stays with who has it when the kernel gets other memory.
    memory: Arc<Memory>,
    /// The kernel's number of the request that is here.
    commit: u64,
}

impl core::fmt::Debug for RingEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RingEntry").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl RingEntry {
    /// An entry for requests and answers with a payload of so many bytes; the kernel does not know it yet.
    ///
    /// # Errors
    /// [`Error::Io`] if the system grants no ring, or no memory.
    pub fn new(device: &KernelDevice, queue: u16, payload_bytes: usize) -> Result<Self> {
        let built = IoUring::<Entry128>::builder().dontfork().build(2);
        let ring = built.map_err(|error| Error::from_std(Op::Open, "io_uring", &error))?;
        let len = FRONT_BYTES + payload_bytes;
        let file = memory_file(len)?;
        let (kernel, memory) = (Memory::of(&file, len, None)?, Arc::new(Memory::of(&file, len, None)?));
        Ok(Self { ring, device: Arc::clone(&device.fd), queue, kernel, memory, commit: 0 })
    }

    /// In which of the kernel's queues it is.
    #[must_use]
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Tells the kernel of it; what comes of that is told by [`RingEntry::wait`], which is to follow.
    ///
    /// # Errors
    /// [`Error::Io`] if the ring is broken.
    pub fn register(&mut self) -> Result<()> {
        let start = self.kernel.start.as_ptr();
        let payload = start.wrapping_add(FRONT_BYTES);
        let parts: [(u64, u64); 2] = [
            (address(start), HEADS_BYTES as u64),
            (address(payload), (self.kernel.len - FRONT_BYTES) as u64),
        ];
        self.push(REGISTER, Some(&parts))?;
        // The parts are read by then.
        self.enter(0)
    }

    fn push(&mut self, command: u32, parts: Option<&[(u64, u64); 2]>) -> Result<()> {
        let mut own = [0_u8; 80];
        own[8..16].copy_from_slice(&self.commit.to_le_bytes());
        own[16..18].copy_from_slice(&self.queue.to_le_bytes());
        let mut entry = opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), command).cmd(own);
        if let Some(parts) = parts {
            entry = entry.addr(Some(address(parts.as_ptr().cast::<u8>().cast_mut())));
        }
        let mut entry = entry.build();
        if let Some(parts) = parts {
            const LEN_AT: usize = 24;
            let at = core::ptr::from_mut(&mut entry).cast::<u8>().wrapping_add(LEN_AT).cast::<u32>();
            let count = u32::try_from(parts.len()).expect("two");
            // SAFETY: an entry is the 128 bytes of `struct io_uring_sqe`, whose field `len` is there.
            unsafe { at.write_unaligned(count) };
        }
        // SAFETY: the kernel's copy of the device's descriptor is ours while `device` is; the memory that it may write to is that
        // of `kernel`, which outlives the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_full| Error::from_errno(Op::Write, "io_uring", 0, Errno::BUSY))
    }

    fn enter(&self, wait: usize) -> Result<()> {
        loop {
            match self.ring.submit_and_wait(wait) {
                Ok(_) => return Ok(()),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    Some(Errno::AGAIN | Errno::BUSY) => std::thread::yield_now(),
                    _ => return Err(Error::from_std(Op::Read, "io_uring", &error)),
                },
            }
        }
    }

    /// Hands in what was answered, and waits for a request; `None` when there will be no more.
    ///
    /// # Errors
    /// [`Error::Io`]: the kernel has refused the entry or its last answer, and will put nothing into it.
    pub fn wait(&mut self) -> Result<Option<RingRequest>> {
        let failed = |errno| Error::from_errno(Op::Read, DEVICE, 0, errno);
        loop {
            self.enter(1)?;
            let Some(done) = self.ring.completion().next() else { continue };
            if done.result() >= 0 {
                return self.take().map(Some).ok_or_else(|| failed(Errno::PROTO));
            }
            match Errno::from_raw_os_error(done.result().saturating_neg()) {
                Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV | Errno::CANCELED => return Ok(None),
                errno => return Err(failed(errno)),
            }
        }
    }

    /// The request that is here, its parts put together.
    fn take(&mut self) -> Option<RingRequest> {
        // Nobody else has it: `answer` has seen to that.
        let memory = Arc::get_mut(&mut self.memory)?;
        let commit = memory.bytes()[COMMIT_AT..COMMIT_AT + 8].try_into().ok()?;
        let (len, payload) = (memory.word(0), memory.word(PAYLOAD_LEN_AT));
        let own = len.checked_sub(REQUEST_HEAD_BYTES)?.checked_sub(payload)?;
        if own > OWN_BYTES_MAX || payload > memory.len - FRONT_BYTES {
            return None;
        }
        self.commit = u64::from_le_bytes(commit);
        let (own_at, start) = (FRONT_BYTES - own, FRONT_BYTES - own - REQUEST_HEAD_BYTES);
        let bytes = memory.bytes_mut();
        bytes.copy_within(..REQUEST_HEAD_BYTES, start);
        bytes.copy_within(OWN_AT..OWN_AT + own, own_at);
        Some(RingRequest { memory: Arc::clone(&self.memory), range: start..start + len })
    }

    /// Puts down the answer to the request that is here: its head, and what it has of its own. The kernel gets it with the next
    /// [`RingEntry::wait`], by whichever thread. The request's bytes stay for who has them still.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no memory, or the answer is longer than the payload may be: nothing was answered.
    pub fn answer(&mut self, head: &[u8; ANSWER_HEAD_BYTES], own: &[u8]) -> Result<()> {
        if own.len() > self.kernel.len - FRONT_BYTES {
            return Err(Error::from_errno(Op::Write, DEVICE, 0, Errno::OVERFLOW));
        }
        if Arc::get_mut(&mut self.memory).is_none() {
            self.renew()?;
        }
        let shared = || Error::from_errno(Op::Write, DEVICE, 0, Errno::BUSY);
        let memory = Arc::get_mut(&mut self.memory).ok_or_else(shared)?;
        let bytes = memory.bytes_mut();
        bytes[..ANSWER_HEAD_BYTES].copy_from_slice(head);
        bytes[FRONT_BYTES..FRONT_BYTES + own.len()].copy_from_slice(own);
        let len = u32::try_from(own.len()).unwrap_or(u32::MAX);
        bytes[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 4].copy_from_slice(&len.to_le_bytes());
        self.push(ANSWER, None)
    }

    /// Other memory for the kernel at the place that it knows.
    fn renew(&mut self) -> Result<()> {
        let len = self.kernel.len;
        let file = memory_file(len)?;
        let memory = Memory::of(&file, len, None)?;
        // The mapping that was at this place is gone with it, and `kernel` stands for the new one.
        core::mem::forget(Memory::of(&file, len, Some(self.kernel.start))?);
        self.memory = Arc::new(memory);
        Ok(())
    }
}

fn memory_file(len: usize) -> Result<OwnedFd> {
    let failed = |errno| Error::from_errno(Op::Map, DEVICE, 0, errno);
    let file = rustix::fs::memfd_create("dolmen-fuse", MemfdFlags::CLOEXEC).map_err(failed)?;
    rustix::fs::ftruncate(&file, len as u64).map_err(failed)?;
    Ok(file)
}

fn address(start: *mut u8) -> u64 {
    start.expose_provenance() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        assert_eq!(processors("0"), Some(1));
        assert_eq!(processors("0-3"), Some(4));
        assert_eq!(processors("0-1,4,6-7"), Some(5));
        for bad in ["", "x", "3-1", "0-", "0-65535"] {
            assert_eq!(processors(bad), None, "{bad}");
        }
        assert!(ring_queues().unwrap() > 0);
    }
}
