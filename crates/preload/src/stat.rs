//! Attributes as the kernel tells them.

use crate::memory;
use dolmen_dfs::{Stat, Time};

/// What was found of a file.
pub(crate) struct Found {
    pub(crate) stat: Stat,
    /// What the kernel knows of its directory: it is on the same device.
    pub(crate) dir: libc::statx,
}

fn links(stat: &Stat) -> u32 {
    u32::try_from(stat.links).unwrap_or(u32::MAX)
}

fn mode(stat: &Stat) -> u16 {
    u16::try_from(stat.mode() & 0xffff).unwrap_or(0)
}

fn seconds(time: Time) -> i64 {
    time.s
}

impl Found {
    /// Tells it as stat(2).
    pub(crate) fn put(&self, to: *mut libc::stat) -> Result<i32, i32> {
        let Self { stat, dir } = self;
        // SAFETY: all zeros is one.
        let mut told: libc::stat = unsafe { core::mem::zeroed() };
        told.st_dev = libc::makedev(dir.stx_dev_major, dir.stx_dev_minor);
        told.st_ino = stat.ino;
        told.st_nlink = links(stat).into();
        told.st_mode = mode(stat).into();
        told.st_uid = stat.uid;
        told.st_gid = stat.gid;
        told.st_rdev = 0;
        told.st_size = i64::try_from(stat.size_bytes).map_err(|_too_big| libc::EOVERFLOW)?;
        told.st_blksize = dir.stx_blksize.into();
        told.st_blocks = i64::try_from(stat.blocks).map_err(|_too_big| libc::EOVERFLOW)?;
        (told.st_atime, told.st_atime_nsec) = (seconds(stat.atime), i64::from(stat.atime.ns));
        (told.st_mtime, told.st_mtime_nsec) = (seconds(stat.mtime), i64::from(stat.mtime.ns));
        (told.st_ctime, told.st_ctime_nsec) = (seconds(stat.ctime), i64::from(stat.ctime.ns));
        memory::put(to, told).map(|()| 0)
    }

    /// Tells it as statx(2).
    pub(crate) fn put_x(&self, to: *mut libc::statx) -> Result<i32, i32> {
        let Self { stat, dir } = self;
        let mut told = *dir;
        let time = |time: Time| {
            let mut told = dir.stx_mtime;
            (told.tv_sec, told.tv_nsec) = (seconds(time), time.ns);
            told
        };
        told.stx_mask = libc::STATX_BASIC_STATS;
        told.stx_attributes = 0;
        told.stx_ino = stat.ino;
        told.stx_nlink = links(stat);
        told.stx_mode = mode(stat);
        (told.stx_uid, told.stx_gid) = (stat.uid, stat.gid);
        (told.stx_size, told.stx_blocks) = (stat.size_bytes, stat.blocks);
        (told.stx_atime, told.stx_mtime, told.stx_ctime) =
            (time(stat.atime), time(stat.mtime), time(stat.ctime));
        told.stx_mnt_id = 0;
        memory::put(to, told).map(|()| 0)
    }
}
