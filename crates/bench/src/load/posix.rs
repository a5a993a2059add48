//! Files of a directory by plain calls of the system: what a program gets that knows nothing of any store.
//!
//! Each process has a file and a directory of its own below the one of the load, as mdtest and IOR have it with `-u` and `-F`.
//! The file is written and read from its begin to its end, and blocks of it in an order that looks random, each once; what is
//! read has marks of its place, which are compared. Of a FUSE mount the kernel knows nothing when cold phases begin ([`forget`]),
//! and all that is asked for when the warm one does.

use super::fault::Difference;
use super::options::PosixLoad;
use super::rank::{Tally, phase, step};
use crate::data::mix;
use crate::error::{Error, Result};
use core::time::Duration;
use dolmen_env::{Clock, Errno, RealClock};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Blocks of which each has a mark of its place, and which are read at random.
const BLOCK_BYTES: usize = 4096;
/// Names that are looked at again and again while the kernel knows them: few enough to be looked at within the time for which
/// it does.
const WARM_COUNT_MAX: u64 = 1000;
/// How long a kernel that cannot be told to forget is waited for: file systems have it remember for a second.
const FORGETS_AFTER: Duration = Duration::from_millis(1500);

/// What one process works with.
struct Work<'a> {
    load: &'a PosixLoad,
    rank: u32,
    file: PathBuf,
    dir: PathBuf,
}

/// One repetition.
pub(super) fn round(load: &PosixLoad, rank: u32) -> Result<()> {
    let work = Work {
        load,
        rank,
        file: load.dir.join(format!("file.{rank}")),
        dir: load.dir.join(format!("tree.{rank}")),
    };
    step("begin", || work.begin())?;
    if load.file_bytes > 0 {
        work.contents()?;
    }
    if load.count > 0 {
        work.names()?;
    }
    Ok(())
}

impl Work<'_> {
    /// Uses the directory a little. A library between this program and the system is connected after that.
    fn begin(&self) -> Result<()> {
        const CALLS: usize = 64;
        let path = self.load.dir.join(format!("begin.{}", self.rank));
        File::create_new(&path).map(drop).map_err(Error::system("create a file"))?;
        (0..CALLS).try_for_each(|_| look_at(&path))?;
        std::fs::remove_file(&path).map_err(Error::system("remove a file"))
    }

    fn contents(&self) -> Result<()> {
        phase("write", |tally| self.write(tally))?;
        self.forgotten()?;
        phase("read", |tally| self.read(tally))?;
        if self.load.read_count > 0 {
            self.forgotten()?;
            phase("random read", |tally| self.read_at_random(tally))?;
        }
        step("remove", || std::fs::remove_file(&self.file).map_err(Error::system("remove a file")))
    }

    fn names(&self) -> Result<()> {
        let count = self.load.count;
        step("make room", || std::fs::create_dir(&self.dir).map_err(Error::system("make a directory")))?;
        phase("create", |tally| {
            self.each(tally, count, |path| {
                File::create_new(path).map(drop).map_err(Error::system("create a file"))
            })
        })?;
        self.forgotten()?;
        phase("stat, cold", |tally| self.each(tally, count, look_at))?;
        let warm = count.min(WARM_COUNT_MAX);
        let paths: Vec<PathBuf> = (0..warm).map(|index| self.path(index)).collect();
        step("look", || paths.iter().try_for_each(|path| look_at(path)))?;
        phase("stat, warm", |tally| {
            let mut again = paths.iter().cycle().zip(0..count);
            again.try_for_each(|(path, _)| tally.run(0, || look_at(path)))
        })?;
        phase("unlink", |tally| {
            self.each(tally, count, |path| std::fs::remove_file(path).map_err(Error::system("remove a file")))
        })?;
        step("remove", || std::fs::remove_dir(&self.dir).map_err(Error::system("remove a directory")))
    }

    fn path(&self, index: u64) -> PathBuf {
        self.dir.join(format!("file.{}.{index}", self.rank))
    }

    /// Does something with all names of this process.
    fn each(&self, tally: &mut Tally, count: u64, what: impl Fn(&Path) -> Result<()>) -> Result<()> {
        (0..count).try_for_each(|index| {
            let path = self.path(index);
            tally.run(0, || what(&path))
        })
    }

    fn forgotten(&self) -> Result<()> {
        step("forget", || if self.rank == 0 { forget(&self.load.dir) } else { Ok(()) })
    }

    /// In order, with calls of the transfer's length; the close is part of it.
    fn write(&self, tally: &mut Tally) -> Result<()> {
        let mut bytes = vec![0x5a_u8; transfer_bytes(self.load)];
        let mut file = File::create_new(&self.file).map_err(Error::system("create a file"))?;
        for offset in offsets(self.load) {
            self.mark(&mut bytes, offset);
            let len = bytes.len() as u64;
            tally.run(len, || file.write_all(&bytes).map_err(Error::system("write a file")))?;
        }
        drop(file);
        Ok(())
    }

    fn read(&self, tally: &mut Tally) -> Result<()> {
        let mut bytes = vec![0_u8; transfer_bytes(self.load)];
        let mut file = File::open(&self.file).map_err(Error::system("open a file"))?;
        for offset in offsets(self.load) {
            let len = bytes.len() as u64;
            tally.run(len, || file.read_exact(&mut bytes).map_err(Error::system("read a file")))?;
            self.check(&bytes, offset)?;
        }
        let rest = file.read(&mut bytes).map_err(Error::system("read a file"))?;
        if rest == 0 { Ok(()) } else { Err(self.differs(self.load.file_bytes, &[], &bytes[..rest.min(8)])) }
    }

    /// Each block at most once, so that none comes from the kernel's memory.
    fn read_at_random(&self, tally: &mut Tally) -> Result<()> {
        let mut block = vec![0_u8; BLOCK_BYTES];
        let file = File::open(&self.file).map_err(Error::system("open a file"))?;
        for index in order(self.load.file_bytes / BLOCK_BYTES as u64, self.load.read_count) {
            let offset = index * BLOCK_BYTES as u64;
            tally.run(BLOCK_BYTES as u64, || {
                file.read_exact_at(&mut block, offset).map_err(Error::system("read a file"))
            })?;
            self.check(&block, offset)?;
        }
        Ok(())
    }

    /// What stands at the begin of the block at an offset.
    fn mark_of(&self, offset: u64) -> [u8; 8] {
        mix(offset ^ u64::from(self.rank) << 48).to_le_bytes()
    }

    fn mark(&self, bytes: &mut [u8], offset: u64) {
        for (block, at) in bytes.chunks_mut(BLOCK_BYTES).zip((offset..).step_by(BLOCK_BYTES)) {
            block[..8].copy_from_slice(&self.mark_of(at));
        }
    }

    fn check(&self, bytes: &[u8], offset: u64) -> Result<()> {
        for (block, at) in bytes.chunks(BLOCK_BYTES).zip((offset..).step_by(BLOCK_BYTES)) {
            let expected = self.mark_of(at);
            if block[..8] != expected {
                return Err(self.differs(at, &expected, &block[..8]));
            }
        }
        Ok(())
    }

    fn differs(&self, offset_bytes: u64, expected: &[u8], found: &[u8]) -> Error {
        Error::Differs(Box::new(Difference {
            what: format!("file {}", self.file.display()),
            offset_bytes,
            expected: expected.to_vec(),
            found: found.to_vec(),
        }))
    }
}

fn look_at(path: &Path) -> Result<()> {
    let found = std::fs::metadata(path).map_err(Error::system("look at a file"))?;
    if found.is_file() && found.len() == 0 {
        return Ok(());
    }
    let what = format!("the length of file {}", path.display());
    Err(Error::Differs(Box::new(Difference {
        what,
        offset_bytes: 0,
        expected: Vec::new(),
        found: Vec::new(),
    })))
}

fn transfer_bytes(load: &PosixLoad) -> usize {
    usize::try_from(load.transfer_bytes).expect("a transfer fits into memory")
}

fn offsets(load: &PosixLoad) -> impl Iterator<Item = u64> {
    let transfer_bytes = load.transfer_bytes;
    (0..load.file_bytes / transfer_bytes).map(move |index| index * transfer_bytes)
}

/// `wanted` of `count` numbers in an order that looks random, none of them twice; all, if fewer are there.
fn order(count: u64, wanted: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..count).collect();
    all.sort_unstable_by_key(|index| mix(*index));
    all.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    all
}

/// Has the kernel forget what it knows of a FUSE mount. Who may not is to wait until the time for which it may remember names
/// is over; contents it forgets at the next open.
fn forget(dir: &Path) -> Result<()> {
    match dolmen_env::forget_mount(dir) {
        Ok(_forgotten) => Ok(()),
        Err(dolmen_env::Error::Io { errno: Errno::PERM | Errno::NOSYS | Errno::ACCESS, .. }) => {
            rest(FORGETS_AFTER);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn rest(time: Duration) {
    let end_ns = RealClock.monotonic_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    while let left_ns @ 1.. = end_ns.saturating_sub(RealClock.monotonic_ns()) {
        std::thread::park_timeout(Duration::from_nanos(left_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file_bytes: u64) -> PosixLoad {
        PosixLoad { dir: PathBuf::from("/d"), file_bytes, transfer_bytes: 8192, count: 1, read_count: 1 }
    }

    #[test]
    fn no_block_is_read_twice_and_the_order_is_not_that_of_the_file() {
        let all = order(100, 1000);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u64>>());
        assert_ne!(all, sorted);
        assert_eq!(order(100, 7), all[..7]);
    }

    #[test]
    fn a_block_of_another_place_or_process_is_found() {
        let load = load(1 << 14);
        let work = |rank| Work { load: &load, rank, file: PathBuf::from("/d/f"), dir: PathBuf::from("/d/t") };
        let mut bytes = vec![0_u8; 8192];
        work(0).mark(&mut bytes, 8192);
        assert!(work(0).check(&bytes, 8192).is_ok());
        for (rank, offset) in [(0, 0), (1, 8192)] {
            let found = work(rank).check(&bytes, offset).unwrap_err();
            assert!(found.to_string().contains("file /d/f differs at byte"), "{found}");
        }
        bytes[4096] ^= 1;
        assert!(work(0).check(&bytes, 8192).unwrap_err().to_string().contains("at byte 12288"));
        assert_eq!(offsets(&load).collect::<Vec<u64>>(), [0, 8192]);
    }
}
