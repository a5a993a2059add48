//! Buffers of direct writes, used again: the page faults of fresh memory cost more than the copy into it.

use dolmen_types::{IoBuf, limits};
use std::collections::VecDeque;

/// What spare buffers may take at most: sixteen of the largest usual writes.
const SPARE_BYTES_MAX: u64 = 16 << 20;
/// And the part of the memory budget that they may take.
const BUDGET_PARTS: u64 = 64;

/// Spare buffers that are looked at for one that is long enough.
const LOOKED_AT: usize = 16;

/// Spare buffers.
pub(crate) struct Bufs {
    /// In the order in which they came back.
    spare: VecDeque<IoBuf>,
    spare_bytes: u64,
    spare_bytes_max: u64,
}

impl Bufs {
    pub(crate) fn new(memory_budget_bytes: u64) -> Self {
        let spare_bytes_max = SPARE_BYTES_MAX.min(memory_budget_bytes / BUDGET_PARTS);
        Self { spare: VecDeque::new(), spare_bytes: 0, spare_bytes_max }
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

    /// The shortest spare buffer that has the capacity, of those that came back last, or a new one.
    fn take(&mut self, capacity: usize) -> IoBuf {
        let first = self.spare.len().saturating_sub(LOOKED_AT);
        let lengths = (first..).zip(self.spare.range(first..).map(IoBuf::capacity));
        let fits = lengths.filter(|&(_, bytes)| bytes >= capacity).min_by_key(|&(_, bytes)| bytes);
        let spare = fits.and_then(|(place, _)| self.spare.remove(place));
        self.spare_bytes -= spare.as_ref().map_or(0, |buf| buf.capacity() as u64);
        spare.unwrap_or_else(|| IoBuf::zeroed(capacity))
    }

    /// Takes a buffer back that is no longer written from; those that came back first make room for it.
    pub(crate) fn put(&mut self, buf: IoBuf) {
        let bytes = buf.capacity() as u64;
        if bytes > self.spare_bytes_max {
            return;
        }
        self.spare_bytes += bytes;
        self.spare.push_back(buf);
        while self.spare_bytes > self.spare_bytes_max {
            self.spare_bytes -= self.spare.pop_front().map_or(0, |buf| buf.capacity() as u64);
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
        assert_eq!(bufs.resident_bytes(), 4096, "the one that came back first has made room");
        bufs.put(IoBuf::zeroed(12_288));
        assert_eq!(bufs.resident_bytes(), 4096, "none is kept that takes more than all may");
    }

    #[test]
    fn long_and_short_buffers_by_turns_are_those_of_before() {
        let mut bufs = Bufs::new(64 * (1 << 20));
        let both = [bufs.padded_copy(&[1; 100_000]), bufs.padded_copy(&[2; 16])];
        let places = both.each_ref().map(|buf| buf.as_ptr());
        both.into_iter().for_each(|buf| bufs.put(buf));
        for _turn in 0..3 {
            let long = bufs.padded_copy(&[3; 100_000]);
            assert_eq!(long.as_ptr(), places[0]);
            bufs.put(long);
            let short = bufs.padded_copy(&[4; 16]);
            assert_eq!(short.as_ptr(), places[1]);
            bufs.put(short);
        }
    }
}
