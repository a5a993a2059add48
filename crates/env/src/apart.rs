//! Descriptors that this process has for itself inside a program of others, which does with numbers what it likes: closes all that it
//! has not opened, and has low ones mean what it says.
//!
//! Invariants: once descriptors are kept apart, each that is made here is marked, under a high number if there is one, before anything
//! is done with it, and as long as it is open; what is marked no more is not closed here, since the number may be another's.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Programs count on numbers below this, and give them meanings by dup2(2).
const NUMBER_MIN: RawFd = 100;
/// Numbers from this on bear no marks: a program with more descriptors than that may close one of these.
const MARKS_MAX: usize = 65_536;

static IS_SET: AtomicBool = AtomicBool::new(false);
/// Whether there are any marks.
static HAS_MARKS: AtomicBool = AtomicBool::new(false);
// A bit for each number: to be looked at without a lock, since a signal may come in between.
static MARKS: [AtomicU64; MARKS_MAX / 64] = [const { AtomicU64::new(0) }; MARKS_MAX / 64];

/// From now on sockets, bells and shared memory of this process are kept apart from the descriptors of the program that it is in.
pub fn keep_apart() {
    IS_SET.store(true, Ordering::Relaxed);
}

/// Whether a descriptor is one of those.
#[must_use]
pub fn is_apart(fd: RawFd) -> bool {
    HAS_MARKS.load(Ordering::Relaxed)
        && mark(fd).is_some_and(|(bits, bit)| bits.load(Ordering::Relaxed) & bit != 0)
}

/// All of them, in their order.
pub fn apart() -> impl Iterator<Item = RawFd> {
    let used = MARKS.iter().enumerate().filter(|(_, bits)| bits.load(Ordering::Relaxed) != 0);
    let numbers = used.flat_map(|(at, _)| at * 64..(at + 1) * 64);
    numbers.filter_map(|at| RawFd::try_from(at).ok()).filter(|fd| is_apart(*fd))
}

/// They are the program's from now on, and are not closed here any more: it wants their numbers, or is a forked child, in which nobody
/// uses what its parent had.
pub fn forget_apart() {
    if HAS_MARKS.swap(false, Ordering::Relaxed) {
        let used = MARKS.iter().filter(|bits| bits.load(Ordering::Relaxed) != 0);
        used.for_each(|bits| bits.store(0, Ordering::Relaxed));
    }
}

/// Where a number is marked.
fn mark(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let at = usize::try_from(fd).ok()?;
    Some((MARKS.get(at / 64)?, 1 << (at % 64)))
}

/// A descriptor of this process's own, kept apart if they are.
#[derive(Debug)]
pub struct OwnFd {
    /// `None` only while it ends.
    fd: Option<OwnedFd>,
    is_marked: bool,
}

impl From<OwnedFd> for OwnFd {
    fn from(fd: OwnedFd) -> Self {
        if !IS_SET.load(Ordering::Relaxed) {
            return Self { fd: Some(fd), is_marked: false };
        }
        let is_low = fd.as_raw_fd() < NUMBER_MIN;
        // In a process that may have so few descriptors it stays where it is.
        let moved = is_low.then(|| rustix::io::fcntl_dupfd_cloexec(&fd, NUMBER_MIN).ok()).flatten();
        let fd = moved.unwrap_or(fd);
        let mark = mark(fd.as_raw_fd());
        if let Some((bits, bit)) = mark {
            bits.fetch_or(bit, Ordering::Relaxed);
            HAS_MARKS.store(true, Ordering::Relaxed);
        }
        Self { fd: Some(fd), is_marked: mark.is_some() }
    }
}

impl AsFd for OwnFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is there until it ends").as_fd()
    }
}

impl Drop for OwnFd {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take().filter(|_| self.is_marked) else { return };
        let was_marked = mark(fd.as_raw_fd())
            .is_some_and(|(bits, bit)| bits.fetch_and(!bit, Ordering::Relaxed) & bit != 0);
        if !was_marked {
            core::mem::forget(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// A descriptor whose end the other one sees, under a number that no other test has.
    fn far_up(number: RawFd) -> (OwnedFd, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        (rustix::io::fcntl_dupfd_cloexec(&near, number).unwrap(), far)
    }

    fn has_ended(mut far: &UnixStream) -> bool {
        far.read(&mut [0]).is_ok_and(|len| len == 0)
    }

    // One test: what is kept apart is so for the whole process.
    #[test]
    fn own_descriptors_are_marked_above_those_of_the_program_until_they_are_closed_or_its() {
        let (before, _) = far_up(500);
        let before = OwnFd::from(before);
        keep_apart();
        assert!(!is_apart(before.as_fd().as_raw_fd()));
        let low = OwnFd::from(OwnedFd::from(UnixStream::pair().unwrap().0));
        assert!(low.as_fd().as_raw_fd() >= NUMBER_MIN && is_apart(low.as_fd().as_raw_fd()));
        let [(first, ours), (second, theirs)] = [600, 700].map(far_up);
        let [first, second] = [first, second].map(OwnFd::from);
        let numbers = [first.as_fd().as_raw_fd(), second.as_fd().as_raw_fd()];
        assert!(apart().filter(|fd| numbers.contains(fd)).eq(numbers));
        drop(first);
        assert!(has_ended(&ours) && !is_apart(numbers[0]) && is_apart(numbers[1]));
        forget_apart();
        assert!(!is_apart(numbers[1]));
        drop(second);
        assert!(!has_ended(&theirs), "the program's by now");
        assert!([-1, 0, RawFd::MAX].iter().all(|fd| !is_apart(*fd)));
    }
}
