//! Memory for payloads, used again: fresh memory costs as much as copying into it.
//!
//! A buffer is not wiped between its users: what of a fetch's buffer was not filled is not sent.

use dolmen_types::IoBuf;

/// Bytes of payloads that one thread's connections may hold together. More is not read until some are done.
const HELD_BYTES_MAX: usize = 512 << 20;

/// Buffers that are kept for later, by class; larger ones are given back to the allocator.
const CLASSES: [(usize, usize); 4] = [(4 << 10, 1024), (64 << 10, 128), (256 << 10, 64), (2 << 20, 16)];

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(super) struct Bufs {
    free: [Vec<IoBuf>; CLASSES.len()],
    held_bytes: usize,
}

impl Bufs {
    /// Counts `len` bytes as held; whether there is room for them.
    pub(super) fn hold(&mut self, len: usize) -> bool {
        // One request always has room, however large, so that none waits forever.
        let has_room = self.held_bytes == 0 || self.held_bytes + len <= HELD_BYTES_MAX;
        if has_room {
            self.held_bytes += len;
        }
        has_room
    }

    /// Bytes that are held no more.
    pub(super) fn release(&mut self, len: usize) {
        self.held_bytes -= len;
    }

    /// A buffer of `len` bytes of whatever was there before.
    pub(super) fn take(&mut self, len: usize) -> IoBuf {
        if len == 0 {
            return IoBuf::default();
        }
        let class = CLASSES.iter().position(|&(bytes, _)| len <= bytes);
        let Some(class) = class else { return IoBuf::zeroed(len) };
        let mut buf = self.free[class].pop().unwrap_or_else(|| IoBuf::zeroed(CLASSES[class].0));
        buf.set_len(len);
        buf
    }

    /// Keeps a buffer for later.
    pub(super) fn give(&mut self, buf: IoBuf) {
        let class = CLASSES.iter().position(|&(bytes, _)| buf.capacity() == bytes);
        if let Some(class) = class
            && self.free[class].len() < CLASSES[class].1
        {
            self.free[class].push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_in_their_class_and_one_request_always_has_room() {
        let mut bufs = Bufs::default();
        let buf = bufs.take(5000);
        assert_eq!((buf.len(), buf.capacity()), (5000, 64 << 10));
        let start = buf.as_ptr();
        bufs.give(buf);
        let again = bufs.take(60_000);
        assert_eq!((again.as_ptr(), again.len()), (start, 60_000));
        assert!(bufs.hold(2 * HELD_BYTES_MAX));
        assert!(!bufs.hold(1));
        bufs.release(2 * HELD_BYTES_MAX);
        assert!(bufs.hold(1));
    }
}
