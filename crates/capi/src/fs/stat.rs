//! `struct stat` as C has it, and what is set by one.

use super::EINVAL;
use crate::error::PosixResult;
use dolmen_dfs::{SetTime, Stat, Time};

/// Attributes of a file.
pub(super) type CStat = libc::stat;

/// A struct with everything zero.
pub(super) fn empty() -> CStat {
    // SAFETY: the struct has numbers only, for which zero is a value.
    unsafe { core::mem::zeroed() }
}

/// What `stat` says, as C has it.
pub(super) fn filled(stat: &Stat) -> CStat {
    let mut out = empty();
    out.st_ino = stat.ino;
    out.st_mode = stat.mode();
    out.st_nlink = stat.links;
    out.st_uid = stat.uid;
    out.st_gid = stat.gid;
    out.st_size = i64::try_from(stat.size_bytes).unwrap_or(i64::MAX);
    out.st_blocks = i64::try_from(stat.blocks).unwrap_or(i64::MAX);
    out.st_blksize = i64::try_from(stat.chunk_bytes).unwrap_or(i64::MAX);
    (out.st_mtime, out.st_mtime_nsec) = (stat.mtime.s, stat.mtime.ns.into());
    (out.st_ctime, out.st_ctime_nsec) = (stat.ctime.s, stat.ctime.ns.into());
    // Access times are not kept; the last change is the least that there was.
    let last = stat.mtime.max(stat.ctime);
    (out.st_atime, out.st_atime_nsec) = (last.s, last.ns.into());
    out
}

/// A time to be set, as seconds and nanoseconds, or one of the two words that stand for none and for now.
pub(super) fn time(s: i64, ns: i64) -> PosixResult<SetTime> {
    match ns {
        libc::UTIME_OMIT => Ok(SetTime::Keep),
        libc::UTIME_NOW => Ok(SetTime::Now),
        ns => {
            let ns = u32::try_from(ns).ok().filter(|&ns| ns < 1_000_000_000).ok_or(EINVAL)?;
            Ok(SetTime::To(Time { s, ns }))
        }
    }
}
