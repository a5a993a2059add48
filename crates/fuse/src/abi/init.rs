//! What this program and the kernel agree on at the start.

use super::reply::Out;
use super::request::HEAD_BYTES;
use super::{DATA_BYTES_MAX, word};

/// The version of the protocol whose forms are used here; a newer kernel keeps to them.
const MAJOR: u32 = 7;
const MINOR: u32 = 38;
/// The oldest kernel that has all that is needed: 4.20 has requests of 1 MiB.
const MINOR_MIN: u32 = 28;

const ASYNC_READ: u64 = 1;
const POSIX_LOCKS: u64 = 1 << 1;
const ATOMIC_O_TRUNC: u64 = 1 << 3;
const BIG_WRITES: u64 = 1 << 5;
const DONT_MASK: u64 = 1 << 6;
const HANDLE_KILLPRIV: u64 = 1 << 19;
const FLOCK_LOCKS: u64 = 1 << 10;
const AUTO_INVAL_DATA: u64 = 1 << 12;
const DO_READDIRPLUS: u64 = 1 << 13;
const READDIRPLUS_AUTO: u64 = 1 << 14;
const ASYNC_DIO: u64 = 1 << 15;
const PARALLEL_DIROPS: u64 = 1 << 18;
const POSIX_ACL: u64 = 1 << 20;
const ABORT_ERROR: u64 = 1 << 21;
const MAX_PAGES: u64 = 1 << 22;
const INIT_EXT: u64 = 1 << 30;
const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
const OVER_IO_URING: u64 = 1 << 41;

/// In the kernel's first request and in the answer: the upper half of what is offered and agreed on.
const OFFERED_HIGH_AT: usize = HEAD_BYTES + 16;
const AGREED_HIGH_AT: usize = 32;

/// What is asked for; the kernel gets those of them that it knows.
const WANTED: u64 = ASYNC_READ
    | ATOMIC_O_TRUNC
    | BIG_WRITES
    | DONT_MASK
    | AUTO_INVAL_DATA
    | DO_READDIRPLUS
    | READDIRPLUS_AUTO
    | ASYNC_DIO
    | PARALLEL_DIROPS
    | POSIX_ACL
    | ABORT_ERROR
    | MAX_PAGES
    | INIT_EXT
    | DIRECT_IO_ALLOW_MMAP
    | OVER_IO_URING;

/// What is asked for beside that where locks are kept for several mounts; else the kernel keeps them itself.
const LOCKS: u64 = POSIX_LOCKS | FLOCK_LOCKS;

/// Requests that the kernel sends although nobody waits for their end, such as reading ahead.
const BACKGROUND_MAX: u16 = 64;

/// What is kept by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    /// Everything by the kernel: nobody else uses the files.
    Nothing,
    /// Locks, for several mounts.
    Locks,
    /// Locks, and all rights as well: names are looked up one by one, and what is changed loses its owner's rights unasked.
    LocksAndRights,
}

impl Keeps {
    pub(crate) fn of(keeps_locks: bool) -> Self {
        if keeps_locks { Self::Locks } else { Self::Nothing }
    }

    fn wanted(self) -> u64 {
        match self {
            Self::Nothing => WANTED,
            Self::Locks => WANTED | LOCKS,
            Self::LocksAndRights => (WANTED | LOCKS | HANDLE_KILLPRIV) & !(DO_READDIRPLUS | READDIRPLUS_AUTO),
        }
    }
}

/// The answer to the first request; `None` for a kernel that is too old.
pub(crate) fn answer(
    major: u32,
    minor: u32,
    readahead_bytes: u32,
    offered: u64,
    keeps: Keeps,
) -> Option<Vec<u8>> {
    if major < MAJOR || (major == MAJOR && minor < MINOR_MIN) {
        return None;
    }
    let flags = keeps.wanted() & offered;
    let halves = flags.to_le_bytes();
    let mut out = Out::default();
    out.u32(MAJOR).u32(MINOR.min(if major == MAJOR { minor } else { MINOR }));
    out.u32(readahead_bytes.min(DATA_BYTES_MAX)).bytes(&halves[..4]);
    out.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX / 4 * 3);
    // Times have nanoseconds; requests have at most so many pages of 4 KiB.
    out.u32(DATA_BYTES_MAX).u32(1).u16(256).u16(0).bytes(&halves[4..]);
    out.bytes(&[0; 28]);
    Some(out.into_bytes())
}

/// Whether the kernel offers in its first request to hand out the others over `io_uring`.
pub(crate) fn offers_ring(request: &[u8]) -> bool {
    word(request, OFFERED_HIGH_AT).is_some_and(has_ring)
}

/// Whether that is agreed on in the answer, without its head.
pub(crate) fn agrees_ring(answer: &[u8]) -> bool {
    word(answer, AGREED_HIGH_AT).is_some_and(has_ring)
}

fn has_ring(high: u32) -> bool {
    (u64::from(high) << 32) & OVER_IO_URING != 0
}

/// Takes the offer out of the request: here it cannot be taken.
pub(crate) fn take_ring(request: &mut [u8]) {
    let Some(high) = word(request, OFFERED_HIGH_AT) else { return };
    let left = (u64::from(high) << 32) & !OVER_IO_URING;
    request[OFFERED_HIGH_AT..OFFERED_HIGH_AT + 4].copy_from_slice(&left.to_le_bytes()[4..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_of_rings_is_found_and_can_be_taken_out() {
        let mut request = vec![0xff; HEAD_BYTES + 64];
        assert!(offers_ring(&request));
        take_ring(&mut request);
        assert!(!offers_ring(&request));
        assert_eq!(word(&request, OFFERED_HIGH_AT), Some(!(1 << 9)));
        assert!(agrees_ring(&answer(7, 45, 0, u64::MAX, Keeps::Nothing).unwrap()));
        assert!(!agrees_ring(&answer(7, 45, 0, !OVER_IO_URING, Keeps::Nothing).unwrap()));
        let mut short = vec![0xff; HEAD_BYTES];
        take_ring(&mut short);
        assert!(!offers_ring(&short) && !agrees_ring(&[]));
    }

    #[test]
    fn only_what_the_kernel_offers_is_agreed_on() {
        let answer_of = |offered| answer(7, 45, 1 << 17, offered, Keeps::Locks).unwrap();
        assert_eq!(answer_of(u64::MAX).len(), 64);
        assert_eq!(answer_of(0)[12..16], [0; 4]);
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let all = answer_of(u64::MAX);
        assert_eq!(word(&all[20..24]), DATA_BYTES_MAX);
        assert_eq!(u64::from(word(&all[12..16])) | u64::from(word(&all[32..36])) << 32, WANTED | LOCKS);
        let alone = answer(7, 45, 1 << 17, u64::MAX, Keeps::Nothing).unwrap();
        assert_eq!(u64::from(word(&alone[12..16])) | u64::from(word(&alone[32..36])) << 32, WANTED);
        assert!(answer(7, 27, 0, u64::MAX, Keeps::Locks).is_none());
    }
}
