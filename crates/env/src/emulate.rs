//! A disk made slower, or failing: other media on a machine that has one disk.
//!
//! Invariants: an operation completes no earlier than the modelled device would have done it, and no
//! earlier than the real one did.

use crate::clock::{Clock, RealClock};
use crate::disk::{Disk, FileId, Io, IoDone, IoOp, Media, Space, byte_count};
use crate::error::{Errno, Error, Op, Result};
use crate::region::Region;
use core::time::Duration;
use std::collections::BTreeMap;

/// What a device can do. Zero means: no limit of this kind.
///
/// A region's accesses are memory accesses and are not slowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second, reads and writes together.
    pub bytes_per_s: u64,
    /// Reads, writes and flushes a second.
    pub ops_per_s: u64,
    /// Time from start to end of a lone read or write.
    pub latency_ns: u64,
    /// Time from start to end of a lone flush.
    pub flush_latency_ns: u64,
    /// Reads, writes and flushes until each further one fails with an I/O error.
    pub fail_after_ops: Option<u64>,
    /// What the device claims to be; `None` keeps what it is.
    pub media: Option<Media>,
}

/// A disk within limits.
#[derive(Debug)]
pub struct Emulated<D> {
    inner: D,
    limits: Limits,
    ops: u64,
    /// When the modelled device has worked off what it was given.
    idle_at_ns: u64,
    /// Operations in flight by number: the inner disk sees numbers, so equal tokens stay apart.
    flights: BTreeMap<u64, Flight>,
    next_number: u64,
    /// What the inner disk has completed, with numbers as tokens, until it is due.
    held: Vec<IoDone>,
}

#[derive(Debug)]
struct Flight {
    token: u64,
    due_ns: u64,
}

impl<D: Disk> Emulated<D> {
    /// Puts `limits` on `inner`.
    pub fn new(inner: D, limits: Limits) -> Self {
        Self {
            inner,
            limits,
            ops: 0,
            idle_at_ns: 0,
            flights: BTreeMap::new(),
            next_number: 0,
            held: Vec::new(),
        }
    }

    /// Gives the device an operation; returns when it is over.
    fn start(&mut self, bytes: u64, latency_ns: u64) -> u64 {
        let start = self.idle_at_ns.max(RealClock.monotonic_ns());
        let transfer_ns = ratio_ns(bytes, self.limits.bytes_per_s);
        let slot_ns = ratio_ns(1, self.limits.ops_per_s);
        self.idle_at_ns = start.saturating_add(transfer_ns.max(slot_ns));
        self.idle_at_ns.saturating_add(latency_ns)
    }

    fn admit(&mut self, op: Op, offset: u64) -> Result<()> {
        self.ops += 1;
        if self.limits.fail_after_ops.is_some_and(|limit| self.ops > limit) {
            return Err(Error::Io { op, name: "an emulated device".to_owned(), offset, errno: Errno::IO });
        }
        Ok(())
    }

    fn release_due(&mut self, out: &mut Vec<IoDone>) {
        let now = RealClock.monotonic_ns();
        let mut still_held = Vec::new();
        for done in self.held.drain(..) {
            match self.flights.get(&done.token) {
                Some(flight) if flight.due_ns > now => still_held.push(done),
                _ => {
                    let flight = self.flights.remove(&done.token).expect("every number is in flight once");
                    out.push(IoDone { token: flight.token, ..done });
                }
            }
        }
        self.held = still_held;
    }

    /// When the next held completion is due.
    fn next_due_ns(&self) -> Option<u64> {
        let due = |done: &IoDone| self.flights.get(&done.token).map(|flight| flight.due_ns);
        self.held.iter().filter_map(due).min()
    }
}

fn ratio_ns(count: u64, per_s: u64) -> u64 {
    count.saturating_mul(1_000_000_000).checked_div(per_s).unwrap_or(0)
}

/// Waits as a device would: asleep for what the timer can do, then spinning.
#[expect(clippy::disallowed_methods, reason = "an emulated device is slow; waiting is what it is for")]
fn wait_until(due_ns: u64) {
    /// A sleep of the kernel may be this much too long.
    const TIMER_SLACK_NS: u64 = 80_000;
    loop {
        let left_ns = due_ns.saturating_sub(RealClock.monotonic_ns());
        if left_ns == 0 {
            return;
        }
        if left_ns > TIMER_SLACK_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - TIMER_SLACK_NS));
        } else {
            core::hint::spin_loop();
        }
    }
}

impl<D: Disk> Disk for Emulated<D> {
    fn media(&self) -> Media {
        self.limits.media.unwrap_or_else(|| self.inner.media())
    }
    fn boot_id(&self) -> u128 {
        self.inner.boot_id()
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn create(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        self.inner.create(name, len_bytes)
    }
    fn create_for_looks(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        self.inner.create_for_looks(name, len_bytes)
    }
    fn extend(&mut self, file: FileId, more_bytes: u64) -> Result<()> {
        self.inner.extend(file, more_bytes)
    }
    fn open(&mut self, name: &str) -> Result<FileId> {
        self.inner.open(name)
    }
    fn close(&mut self, file: FileId) {
        self.inner.close(file);
    }
    fn len(&self, file: FileId) -> Result<u64> {
        self.inner.len(file)
    }
    fn remove(&mut self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn sync_names(&mut self) -> Result<()> {
        self.inner.sync_names()
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.admit(Op::Read, offset)?;
        let due_ns = self.start(byte_count(buf.len()), self.limits.latency_ns);
        let result = self.inner.read_at(file, offset, buf);
        wait_until(due_ns);
        result
    }

    fn write_at(&mut self, file: FileId, offset: u64, buf: &[u8]) -> Result<()> {
        self.admit(Op::Write, offset)?;
        let due_ns = self.start(byte_count(buf.len()), self.limits.latency_ns);
        let result = self.inner.write_at(file, offset, buf);
        wait_until(due_ns);
        result
    }

    fn flush(&mut self, file: FileId) -> Result<()> {
        self.admit(Op::Flush, 0)?;
        let due_ns = self.start(0, self.limits.flush_latency_ns);
        let result = self.inner.flush(file);
        wait_until(due_ns);
        result
    }

    fn submit(&mut self, io: Io) {
        let (op, bytes, latency_ns) = match &io.op {
            IoOp::Read(_, len) => (Op::Read, u64::from(*len), self.limits.latency_ns),
            IoOp::Write(_, len) => (Op::Write, u64::from(*len), self.limits.latency_ns),
            IoOp::Flush | IoOp::FlushNames => (Op::Flush, 0, self.limits.flush_latency_ns),
        };
        let admitted = self.admit(op, io.offset);
        let number = self.next_number;
        self.next_number += 1;
        let due_ns = self.start(bytes, latency_ns);
        self.flights.insert(number, Flight { token: io.token, due_ns });
        match admitted {
            Ok(()) => self.inner.submit(Io { token: number, ..io }),
            Err(error) => {
                self.held.push(IoDone { token: number, result: Err(error), buf: io.op.into_buf() });
            }
        }
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<IoDone>) {
        let before = out.len();
        loop {
            let only_inner_can_complete = wait && self.held.is_empty() && out.len() == before;
            self.inner.poll(only_inner_can_complete, &mut self.held);
            self.release_due(out);
            if !wait || out.len() > before {
                return;
            }
            match self.next_due_ns() {
                Some(due_ns) => wait_until(due_ns),
                // Nothing came from the inner disk although we waited: nothing is in flight.
                None => return,
            }
        }
    }

    fn map(&mut self, file: FileId) -> Result<Region> {
        self.inner.map(file)
    }
    fn space(&self) -> Result<Space> {
        self.inner.space()
    }
}
