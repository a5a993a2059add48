//! One `io_uring` for one disk, and the tickets of what is in flight.
//!
//! Invariants: the kernel may touch a buffer from the push of its entry to its completion, and all that
//! time its ticket owns it; no more than `DEPTH` tickets exist, so the completion queue (twice as deep)
//! cannot overflow; a ring is not dropped before everything in flight has completed.

use crate::disk::IoOp;
use crate::real::file::Handle;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Operations in flight: four times what a fast NVMe device needs to reach its rate.
const DEPTH: u32 = 256;

/// Entries collected before the kernel is entered without being asked: keeps the device busy while a caller
/// goes on submitting, and costs a thirty-second of a system call each.
const BATCH: usize = 32;

/// Bytes collected before the kernel is entered without being asked: moving as many takes the device longer than
/// that takes.
const BATCH_BYTES: u64 = 256 << 10;

/// An operation and what keeps it valid: its buffer and its file.
pub(crate) struct Ticket {
    pub(crate) token: u64,
    pub(crate) handle: Arc<Handle>,
    pub(crate) offset: u64,
    pub(crate) op: IoOp,
    /// For whom it is done.
    pub(crate) asker: Asker,
}

/// Who waits for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// Whoever submitted it: it completes through [`crate::Disk::poll`].
    Submitter,
    /// The [`crate::Disk::flush_all`] under way.
    FlushAll,
}

pub(crate) struct Ring {
    ring: IoUring,
    tickets: Vec<Option<Ticket>>,
    free: Vec<usize>,
    pushed: usize,
    pushed_bytes: u64,
}

impl Ring {
    /// A ring, or the reason why the kernel (often a container's seccomp filter) grants none.
    pub(crate) fn new() -> std::io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(DEPTH)?;
        let depth = usize::try_from(DEPTH).expect("a small constant");
        let tickets = std::iter::repeat_with(|| None).take(depth).collect();
        Ok(Self { ring, tickets, free: (0..depth).collect(), pushed: 0, pushed_bytes: 0 })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.tickets.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Queues the operation of `ticket`.
    ///
    /// REQUIRES: not [`Ring::is_full`]; the buffer is at least as long as the operation.
    pub(crate) fn push(&mut self, ticket: Ticket) {
        let slot = self.free.pop().expect("the caller has made room");
        let user_data = u64::try_from(slot).expect("a small index");
        self.pushed_bytes += ticket.op.transfer_bytes();
        let entry = entry_of(self.tickets[slot].insert(ticket)).user_data(user_data);
        // SAFETY: the entry points into the buffer and the descriptor of the ticket just stored, which stays
        // there until the completion with this slot's number arrives.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "as many entries as tickets");
        self.pushed += 1;
        if self.pushed >= BATCH || self.pushed_bytes >= BATCH_BYTES {
            self.enter(0);
        }
    }

    /// Starts what is queued and, with `wait`, returns when something has completed.
    pub(crate) fn enter(&mut self, wait: usize) {
        loop {
            match self.ring.submitter().submit_and_wait(wait) {
                Ok(_) => {
                    self.pushed = self.ring.submission().len();
                    self.pushed_bytes = 0;
                    return;
                }
                Err(error) => match Errno::from_io_error(&error) {
                    // Interrupted, or short of memory for the moment: the entries are still queued.
                    Some(Errno::INTR) => {}
                    Some(Errno::AGAIN | Errno::BUSY) if self.ring.completion().is_empty() => {
                        std::thread::yield_now();
                    }
                    Some(Errno::AGAIN | Errno::BUSY) => return,
                    _ => panic!("a valid ring cannot be entered: {error}"),
                },
            }
        }
    }

    pub(crate) fn has_queued(&self) -> bool {
        self.pushed > 0
    }

    /// The next completion: its ticket, and bytes moved or the error.
    pub(crate) fn next(&mut self) -> Option<(Ticket, Result<u32, Errno>)> {
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let slot = usize::try_from(entry.user_data()).expect("the number of a slot");
        let ticket = self.tickets[slot].take().expect("one completion for each ticket");
        self.free.push(slot);
        let result = u32::try_from(entry.result())
            .map_err(|_negative| Errno::from_raw_os_error(entry.result().saturating_neg()));
        Some((ticket, result))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if self.next().is_none() {
                self.enter(1);
            }
        }
    }
}

fn entry_of(ticket: &mut Ticket) -> squeue::Entry {
    let Ticket { handle, offset, op, .. } = ticket;
    let fd = |fd: BorrowedFd<'_>| types::Fd(fd.as_raw_fd());
    match op {
        IoOp::Read(buf, len) => {
            let file = fd(handle.for_range(*offset, *len));
            opcode::Read::new(file, buf.as_mut_ptr(), *len).offset(*offset).build()
        }
        IoOp::Write(buf, len) => {
            let file = fd(handle.for_range(*offset, *len));
            opcode::Write::new(file, buf.as_ptr(), *len).offset(*offset).build()
        }
        IoOp::Flush => {
            let file = fd(handle.buffered());
            opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
        }
        // Of a directory, a flush of data would not cover all entries.
        IoOp::FlushNames => opcode::Fsync::new(fd(handle.buffered())).build(),
    }
}
