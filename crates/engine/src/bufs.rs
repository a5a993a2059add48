//! Buffers of direct writes, used again: the page faults of fresh memory cost more than the copy into it.

use dolmen_types::{IoBuf, limits};

/// What spare buffers may take at most: sixteen of the largest usual writes.
const SPARE_BYTES_MAX: u64 = 16 << 20;
/// And the part of the memory budget that they may take.
const BUDGET_PARTS: u64 = 64;

/// Spare buffers.
pub(crate) struct Bufs {
    spare: Vec<IoBuf>,
    spare_bytes: u64,
    spare_bytes_max: u64,
}

impl Bufs {
    pub(crate) fn new(memory_budget_bytes: u64) -> Self {
        let spare_bytes_max = SPARE_BYTES_MAX.min(memory_budget_bytes / BUDGET_PARTS);
        Self { spare: Vec::new(), spare_bytes: 0, spare_bytes_max }
    }

    /// A copy of `bytes`, with zeros behind it up to a whole number of units of bulk.
    pub(crate) fn padded_copy(&mut self, bytes: &[u8]) -> IoBuf {
        let unit = usize::try_from(limits::BULK_UNIT_BYTES).expect("a small constant");
        let padded = bytes.len().next_multiple_of(unit);
        let mut buf = self.take(padded);
        buf.set_len(padded);
        buf[..bytes.len()].copy_from_slice(bytes);
        buf[bytes.len()..].fill(0);
        buf
    }

    /// A spare buffer that has the capacity, or a new one.
    fn take(&mut self, capacity: usize) -> IoBuf {
        match self.spare.pop() {
            Some(buf) => {
                self.spare_bytes -= buf.capacity() as u64;
                if buf.capacity() >= capacity { buf } else { IoBuf::zeroed(capacity) }
            }
            None => IoBuf::zeroed(capacity),
        }
    }

    /// Takes a buffer back that is no longer written from.
    pub(crate) fn put(&mut self, buf: IoBuf) {
        let bytes = buf.capacity() as u64;
        if self.spare_bytes + bytes <= self.spare_bytes_max {
            self.spare_bytes += bytes;
            self.spare.push(buf);
        }
    }

    /// Memory of the spare buffers, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.spare_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_used_again_shows_nothing_of_what_it_held_and_spares_are_bounded() {
        let mut bufs = Bufs::new(64 * 8192);
        let long = bufs.padded_copy(&[7; 8000]);
        assert_eq!((long.len(), &long[8000..]), (8192, &[0; 192][..]));
        bufs.put(long);
        assert_eq!(bufs.resident_bytes(), 8192);
        let short = bufs.padded_copy(b"x");
        assert_eq!((short.capacity(), short.len(), bufs.resident_bytes()), (8192, 4096, 0));
        assert!(short[1..].iter().all(|&byte| byte == 0));
        bufs.put(short);
        bufs.put(IoBuf::zeroed(4096));
        assert_eq!(bufs.resident_bytes(), 8192);
    }
}
