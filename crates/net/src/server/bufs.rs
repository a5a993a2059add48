//! Memory for payloads, used again: fresh memory costs as much as copying into it.
//!
//! A buffer is not wiped between its users: what of a fetch's buffer was not filled is not sent.
//!
//! Invariants: what a connection holds counts as its own share first; only what is beyond that can keep others waiting, and
//! keeps nobody from using the share of its own; who waits for room is told when there may be some, the first one first;
//! one connection at most is beyond the limit of all, with what it has begun, so that those that are half there do not wait
//! for each other.

use dolmen_types::{IoBuf, limits};
use std::collections::VecDeque;

/// Bytes of requests and answers that one thread's connections may hold together beyond their own shares. More is not read
/// until some are done, but of one connection.
const HELD_BYTES_MAX: usize = 512 << 20;

/// Bytes that each connection may hold whatever the others hold: the longest value, or several transfers of the usual 1 MiB.
const SHARE_BYTES: usize = 16 << 20;

const _: () = assert!(SHARE_BYTES > limits::PAYLOAD_BYTES_MAX);

/// Buffers that are kept for later, by class; larger ones are given back to the allocator.
const CLASSES: [(usize, usize); 4] = [(4 << 10, 1024), (64 << 10, 128), (256 << 10, 64), (2 << 20, 16)];

/// Bytes that are held; so many of them beyond the connection's own share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) byte_count: usize,
    common_bytes: usize,
}

impl Held {
    pub(super) fn add(&mut self, other: Self) {
        self.byte_count += other.byte_count;
        self.common_bytes += other.common_bytes;
    }

    pub(super) fn take_off(&mut self, other: Self) {
        self.byte_count -= other.byte_count;
        self.common_bytes -= other.common_bytes;
    }
}

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(super) struct Bufs {
    free: [Vec<IoBuf>; CLASSES.len()],
    common_bytes: usize,
    /// The connection that has gone beyond the limit, until less is held again.
    beyond: Option<usize>,
    /// Connections that wait for room.
    waiting: VecDeque<usize>,
    has_freed: bool,
    /// Memory was taken since it was last given back.
    is_used: bool,
}

impl Bufs {
    /// Counts `len` bytes more as held by the connection `conn`, which holds `held`; `None` if there is no room for them now:
    /// the connection then waits. `begun` of that is held by the same request.
    pub(super) fn hold(&mut self, conn: usize, held: Held, len: usize, begun: Held) -> Option<Held> {
        let own_bytes = SHARE_BYTES.saturating_sub(held.byte_count - held.common_bytes).min(len);
        let common_bytes = len - own_bytes;
        let is_turn = self.waiting.front().is_none_or(|&first| first == conn);
        // Whoever is first goes beyond the limit, and on with what others would wait for in vain; not with the next request.
        let has_room = (is_turn && self.common_bytes < HELD_BYTES_MAX)
            || (self.beyond == Some(conn) && begun.common_bytes > 0);
        if common_bytes > 0 && !has_room {
            if !self.waiting.contains(&conn) {
                self.waiting.push_back(conn);
            }
            return None;
        }
        self.common_bytes += common_bytes;
        if common_bytes > 0 && self.common_bytes >= HELD_BYTES_MAX {
            self.beyond = self.beyond.or(Some(conn));
        }
        self.stop_waiting(conn);
        Some(Held { byte_count: len, common_bytes })
    }

    /// Counts bytes as held no more.
    pub(super) fn release(&mut self, held: Held) {
        self.common_bytes -= held.common_bytes;
        self.has_freed |= held.common_bytes > 0;
        if self.common_bytes < HELD_BYTES_MAX {
            self.beyond = None;
        }
    }

    /// The connection is gone; what it has held is released apart.
    pub(super) fn forget(&mut self, conn: usize) {
        self.stop_waiting(conn);
        self.beyond = self.beyond.filter(|&beyond| beyond != conn);
    }

    /// The connection waits no more: it has got room, or is gone.
    fn stop_waiting(&mut self, conn: usize) {
        if let Some(place) = self.waiting.iter().position(|&waiting| waiting == conn) {
            self.waiting.remove(place);
            self.has_freed = true;
        }
    }

    /// The connection that is to try again, if there may be room for it since the last call.
    pub(super) fn take_next(&mut self) -> Option<usize> {
        if core::mem::take(&mut self.has_freed) { self.waiting.front().copied() } else { None }
    }

    /// A buffer of `len` bytes of whatever was there before; `None` if the system has no memory for it.
    pub(super) fn take(&mut self, len: usize) -> Option<IoBuf> {
        if len == 0 {
            return Some(IoBuf::default());
        }
        self.is_used = true;
        let class = CLASSES.iter().position(|&(bytes, _)| len <= bytes);
        let Some(class) = class else { return IoBuf::try_zeroed(len) };
        let mut buf = match self.free[class].pop() {
            Some(buf) => buf,
            None => IoBuf::try_zeroed(CLASSES[class].0)?,
        };
        buf.set_len(len);
        Some(buf)
    }

    /// Whether there may be memory to give back.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Gives back what is kept for later, when nobody has needed it for a while.
    pub(super) fn give_back(&mut self) {
        self.free = Default::default();
        self.is_used = false;
        dolmen_env::give_memory_back();
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
        let buf = bufs.take(5000).unwrap();
        assert_eq!((buf.len(), buf.capacity()), (5000, 64 << 10));
        let start = buf.as_ptr();
        bufs.give(buf);
        let again = bufs.take(60_000).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (start, 60_000));
        assert!(bufs.take(1 << 60).is_none(), "no machine has so much");
        bufs.give(again);
        assert!(bufs.is_used());
        bufs.give_back();
        assert!(!bufs.is_used() && bufs.free.iter().all(Vec::is_empty), "nothing is kept");
        let all = bufs.hold(0, Held::default(), 2 * HELD_BYTES_MAX, Held::default()).unwrap();
        assert_eq!(bufs.hold(0, all, 1, Held::default()), None);
        bufs.release(all);
        assert_eq!(bufs.take_next(), Some(0));
        assert!(bufs.hold(0, Held::default(), 1, Held::default()).is_some());
    }

    #[test]
    fn each_connection_has_a_share_whatever_others_hold_and_who_waits_first_is_first() {
        let mut bufs = Bufs::default();
        let all = bufs.hold(0, Held::default(), SHARE_BYTES + HELD_BYTES_MAX, Held::default()).unwrap();
        let own = bufs.hold(1, Held::default(), SHARE_BYTES, Held::default()).unwrap();
        assert_eq!(own, Held { byte_count: SHARE_BYTES, common_bytes: 0 });
        assert_eq!([1, 2, 1].map(|conn| bufs.hold(conn, own, 1, Held::default())), [None; 3]);
        assert_eq!(bufs.take_next(), None, "nothing was given back");
        bufs.release(all);
        assert_eq!((bufs.take_next(), bufs.take_next()), (Some(1), None));
        assert_eq!(bufs.hold(2, own, 1, Held::default()), None, "it is the turn of the first");
        assert!(bufs.hold(1, own, 1, Held::default()).is_some());
        assert_eq!(bufs.take_next(), Some(2));
        assert!(bufs.hold(2, own, 1, Held::default()).is_some());
        assert_eq!(bufs.take_next(), None);
    }

    #[test]
    fn those_that_are_half_there_go_on_one_after_the_other() {
        let mut bufs = Bufs::default();
        let begun: Vec<Held> = (0..4)
            .map(|conn| {
                bufs.hold(conn, Held::default(), SHARE_BYTES + HELD_BYTES_MAX / 4, Held::default()).unwrap()
            })
            .collect();
        // The last one has reached the limit: it alone goes on, whoever waits, but not with another request.
        for conn in [2, 0, 1] {
            assert_eq!(bufs.hold(conn, begun[conn], SHARE_BYTES, begun[conn]), None);
        }
        assert_eq!(bufs.hold(3, begun[3], 1, Held::default()), None);
        let more = bufs.hold(3, begun[3], SHARE_BYTES, begun[3]).unwrap();
        bufs.release(more);
        assert_eq!(bufs.hold(2, begun[2], 1, begun[2]), None);
        bufs.release(begun[3]);
        assert_eq!((bufs.take_next(), bufs.take_next()), (Some(2), None));
        let more = bufs.hold(2, begun[2], HELD_BYTES_MAX, begun[2]).unwrap();
        assert_eq!(bufs.take_next(), Some(0));
        assert_eq!(bufs.hold(0, begun[0], 1, begun[0]), None, "another one is beyond the limit");
        // It goes, and so does what it has held.
        bufs.forget(2);
        assert_eq!(bufs.hold(0, begun[0], 1, begun[0]), None, "it is held still");
        bufs.release(more);
        bufs.release(begun[2]);
        assert_eq!(bufs.take_next(), Some(0));
        bufs.forget(0);
        assert_eq!(bufs.take_next(), Some(1));
        assert!(bufs.hold(1, begun[1], HELD_BYTES_MAX, begun[1]).is_some());
    }
}
