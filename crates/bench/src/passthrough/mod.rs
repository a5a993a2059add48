//! The floor under every file system of FUSE: a directory that goes to the kernel through a process with nothing in between.
//!
//! Each thread reads a request from the device, makes the system call that it stands for, on descriptors that are open already,
//! and answers. Nothing is queued, no interrupt is heard, nothing is checked or remembered but numbers of nodes and open files. The
//! kernel may keep what libfuse's own example of this kind lets it keep: names and attributes for a second, contents until the
//! file is opened again. What a load does not need is not there: links, extended attributes, locks, listings with attributes.
//!
//! Invariants: a number stands for one node as long as the kernel remembers it, and is never used again.

mod nodes;

use crate::error::{Error, Result};
use core::time::Duration;
use dolmen_dfs::Time;
use dolmen_env::{KernelDevice, MountRequest, Received, scope};
use dolmen_fuse::reply::{self, Attrs, OpenAs, Out, Timeouts};
use dolmen_fuse::request::{NewAttrs, NewTime, Op, Range, Refused, Request};
use dolmen_fuse::{DATA_BYTES_MAX, REQUEST_BYTES_MAX};
use nodes::{Handles, Nodes, Open};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// For how long the kernel remembers names and attributes.
const TIMEOUTS: Timeouts = Timeouts { names: Duration::from_secs(1), attrs: Duration::from_secs(1) };

/// A directory that is shown elsewhere.
struct Passthrough {
    device: KernelDevice,
    nodes: Nodes,
    handles: Handles,
}

/// What a thread works with.
struct Room {
    out: Out,
    data: Vec<u8>,
}

/// Where the answer to a request is.
enum Answer {
    Out,
    /// As many bytes of what was read.
    Data(usize),
}

type Done<T = ()> = core::result::Result<T, Errno>;

/// Shows the directory `dir` at `mount_point` by so many threads until it is unmounted; `ready` hears when it is there.
///
/// # Errors
/// [`Error::Device`] if it cannot be mounted; [`Error::System`] if the directory cannot be opened.
pub fn passthrough(dir: &Path, mount_point: &Path, threads: usize, ready: &mut dyn FnMut()) -> Result<()> {
    // Ignored: then there are as many nodes as there may be descriptors.
    let _raised = dolmen_env::raise_descriptor_limit();
    // What others ask for was masked by the kernel.
    rustix::process::umask(Mode::empty());
    let root = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let nodes = root.and_then(Nodes::new).map_err(|errno| failed("open the directory to be shown", errno))?;
    let request = MountRequest {
        dir: mount_point.to_owned(),
        source: format!("passthrough-{}", dir.display()),
        read_only: false,
        allow_other: false,
    };
    let device = KernelDevice::mount(&request)?;
    let shown = Passthrough { device, nodes, handles: Handles::default() };
    scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| shown.serve())).collect();
        ready();
        let died = |_panic| Error::Child { scenario: "a thread of the passthrough".to_owned() };
        threads.into_iter().try_for_each(|thread| thread.join().map_err(died)?)
    })
}

fn failed(doing: &'static str, errno: Errno) -> Error {
    Error::system(doing)(errno.into())
}

impl Passthrough {
    /// One thread.
    fn serve(&self) -> Result<()> {
        let mut bytes = vec![0; REQUEST_BYTES_MAX];
        let mut room = Room { out: Out::default(), data: vec![0; DATA_BYTES_MAX as usize] };
        loop {
            match self.device.receive(&mut bytes)? {
                Received::Request(len) => self.answer(&bytes[..len], &mut room)?,
                Received::Nothing => {}
                Received::End => return Ok(()),
            }
        }
    }

    fn answer(&self, bytes: &[u8], room: &mut Room) -> Result<()> {
        room.out.clear();
        let (unique, done) = match Request::parse(bytes) {
            Ok(request) => {
                let done = self.operate(&request, room);
                if !request.op.is_answered() {
                    return Ok(());
                }
                (request.unique, done)
            }
            Err(Refused::Unreadable) => return Ok(()),
            Err(Refused::Malformed { unique }) => (unique, Err(Errno::INVAL)),
            Err(Refused::NameTooLong { unique }) => (unique, Err(Errno::NAMETOOLONG)),
        };
        let (errno, own) = match done {
            Ok(Answer::Out) => (0, room.out.as_slice()),
            Ok(Answer::Data(len)) => (0, &room.data[..len]),
            Err(errno) => (errno.raw_os_error(), &[][..]),
        };
        let head = reply::head(unique, errno, own.len());
        self.device.reply(&[IoSlice::new(&head), IoSlice::new(own)])?;
        Ok(())
    }

    fn operate(&self, request: &Request<'_>, room: &mut Room) -> Done<Answer> {
        let node = request.node;
        match &request.op {
            Op::Read(range) => return self.read(*range, &mut room.data).map(Answer::Data),
            Op::Write { handle, offset, data, .. } => self.write(*handle, *offset, data, &mut room.out)?,
            Op::Lookup { name } => self.entry(node, name, &mut room.out)?,
            Op::Forget(forgotten) => {
                forgotten.iter().for_each(|(node, lookups)| self.nodes.forget(*node, *lookups));
            }
            Op::GetAttr { .. } => self.getattr(node, &mut room.out)?,
            Op::SetAttr(new) => {
                self.setattr(node, new)?;
                self.getattr(node, &mut room.out)?;
            }
            Op::Create { name, flags, mode, .. } => {
                self.create(node, name, (*flags, *mode), &mut room.out)?
            }
            Op::Open { flags } => {
                let how = opened_with(*flags);
                let found = self.nodes.find(node)?;
                let file = rustix::fs::open(by_descriptor(&found), how, Mode::empty())?;
                self.opened(Open::File(file), &mut room.out);
            }
            Op::Release { handle, .. } | Op::ReleaseDir { handle } => self.handles.remove(*handle),
            Op::Flush { .. } | Op::Interrupt { .. } | Op::Destroy => {}
            Op::FSync { handle } => rustix::fs::fsync(self.handles.file(*handle)?.fd()?)?,
            other => self.operate_on_names(node, other, &mut room.out)?,
        }
        Ok(Answer::Out)
    }

    fn operate_on_names(&self, node: u64, op: &Op<'_>, out: &mut Out) -> Done {
        match op {
            Op::Init { major, minor, readahead_bytes, flags } => {
                init(out, (*major, *minor), *readahead_bytes, *flags);
                Ok(())
            }
            Op::MkDir { name, mode, .. } => {
                rustix::fs::mkdirat(&self.nodes.find(node)?, name_of(name), Mode::from_raw_mode(*mode))?;
                self.entry(node, name, out)
            }
            Op::Unlink { name } => {
                rustix::fs::unlinkat(&self.nodes.find(node)?, name_of(name), AtFlags::empty())
            }
            Op::RmDir { name } => {
                rustix::fs::unlinkat(&self.nodes.find(node)?, name_of(name), AtFlags::REMOVEDIR)
            }
            Op::Rename { name, new_dir, new_name, flags } => {
                let (from, to) = (self.nodes.find(node)?, self.nodes.find(*new_dir)?);
                let flags = RenameFlags::from_bits_retain(*flags);
                rustix::fs::renameat_with(&from, name_of(name), &to, name_of(new_name), flags)
            }
            Op::OpenDir => {
                let how = OFlags::DIRECTORY | OFlags::CLOEXEC;
                let dir = rustix::fs::openat(&self.nodes.find(node)?, ".", how, Mode::empty())?;
                self.opened(Open::list(dir)?, out);
                Ok(())
            }
            Op::ReadDir { handle, offset, room_bytes, .. } => {
                self.handles.file(*handle)?.read_names(*offset, *room_bytes as usize, out)
            }
            Op::StatFs => self.statfs(node, out),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Finds a name in a directory, for the kernel to remember.
    fn entry(&self, dir: u64, name: &[u8], out: &mut Out) -> Done {
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&self.nodes.find(dir)?, name_of(name), how, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        let node = self.nodes.remember(found, &stat);
        reply::entry(out, node, &attrs_of(&stat), TIMEOUTS);
        Ok(())
    }

    fn create(&self, dir: u64, name: &[u8], (flags, mode): (u32, u32), out: &mut Out) -> Done {
        let how = opened_with(flags) | OFlags::CREATE | (OFlags::from_bits_retain(flags) & OFlags::EXCL);
        let mode = Mode::from_raw_mode(mode);
        let file = rustix::fs::openat(&self.nodes.find(dir)?, name_of(name), how, mode)?;
        self.entry(dir, name, out)?;
        self.opened(Open::File(file), out);
        Ok(())
    }

    fn opened(&self, open: Open, out: &mut Out) {
        reply::open(out, self.handles.add(open), OpenAs::Fresh);
    }

    fn read(&self, range: Range, data: &mut [u8]) -> Done<usize> {
        let len = usize::try_from(range.len).map_or(data.len(), |len| len.min(data.len()));
        rustix::io::pread(self.handles.file(range.handle)?.fd()?, &mut data[..len], range.offset)
    }

    fn write(&self, handle: u64, offset: u64, data: &[u8], out: &mut Out) -> Done {
        let written = rustix::io::pwrite(self.handles.file(handle)?.fd()?, data, offset)?;
        out.u32(u32::try_from(written).map_err(|_too_long| Errno::INVAL)?).u32(0);
        Ok(())
    }

    fn getattr(&self, node: u64, out: &mut Out) -> Done {
        let stat = rustix::fs::fstat(self.nodes.find(node)?)?;
        reply::attrs(out, &attrs_of(&stat), TIMEOUTS);
        Ok(())
    }

    fn setattr(&self, node: u64, new: &NewAttrs) -> Done {
        let found = self.nodes.find(node)?;
        if let Some(mode) = new.mode {
            rustix::fs::chmod(by_descriptor(&found), Mode::from_raw_mode(mode))?;
        }
        if new.uid.is_some() || new.gid.is_some() {
            let (uid, gid) = (new.uid.map(Uid::from_raw), new.gid.map(Gid::from_raw));
            rustix::fs::chownat(&found, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = new.size {
            let file =
                rustix::fs::open(by_descriptor(&found), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::ftruncate(file, size)?;
        }
        if new.atime.is_some() || new.mtime.is_some() {
            let times = Timestamps { last_access: time_of(new.atime), last_modification: time_of(new.mtime) };
            rustix::fs::utimensat(rustix::fs::CWD, by_descriptor(&found), &times, AtFlags::empty())?;
        }
        Ok(())
    }

    fn statfs(&self, node: u64, out: &mut Out) -> Done {
        let space = rustix::fs::fstatfs(self.nodes.find(node)?)?;
        let word = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        out.u64(space.f_blocks).u64(space.f_bfree).u64(space.f_bavail).u64(space.f_files).u64(space.f_ffree);
        out.u32(word(space.f_bsize)).u32(word(space.f_namelen)).u32(word(space.f_frsize)).u32(0);
        out.bytes(&[0; 24]);
        Ok(())
    }
}

/// What a program of libfuse agrees on with the kernel unless it asks for something else.
fn init(out: &mut Out, (major, minor): (u32, u32), readahead_bytes: u32, offered: u64) {
    const ASYNC_READ: u64 = 1;
    const ATOMIC_O_TRUNC: u64 = 1 << 3;
    const BIG_WRITES: u64 = 1 << 5;
    const AUTO_INVAL_DATA: u64 = 1 << 12;
    const ASYNC_DIO: u64 = 1 << 15;
    const PARALLEL_DIROPS: u64 = 1 << 18;
    const MAX_PAGES: u64 = 1 << 22;
    const WANTED: u64 =
        ASYNC_READ | ATOMIC_O_TRUNC | BIG_WRITES | AUTO_INVAL_DATA | ASYNC_DIO | PARALLEL_DIROPS | MAX_PAGES;
    /// The version whose forms are used here.
    const MINOR: u32 = 38;
    /// Requests that nobody waits for: as many as the kernel says itself where nothing is asked for.
    const BACKGROUND: [u16; 2] = [12, 9];
    const PAGES_MAX: u16 = 256;
    let flags = (WANTED & offered).to_le_bytes();
    out.u32(major.min(7)).u32(minor.min(MINOR)).u32(readahead_bytes).bytes(&flags[..4]);
    out.u16(BACKGROUND[0]).u16(BACKGROUND[1]);
    out.u32(DATA_BYTES_MAX).u32(1).u16(PAGES_MAX).u16(0).u32(0).bytes(&[0; 28]);
}

fn name_of(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

/// A node by the descriptor that is open on it, for calls that take none of its kind.
fn by_descriptor(node: &OwnedFd) -> PathBuf {
    use rustix::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", node.as_raw_fd()))
}

/// The flags of an open of the directory that is shown. What appends has its place from the kernel, so that it is written there.
fn opened_with(flags: u32) -> OFlags {
    let kept = OFlags::ACCMODE | OFlags::TRUNC;
    (OFlags::from_bits_retain(flags) & kept) | OFlags::CLOEXEC
}

fn attrs_of(stat: &Stat) -> Attrs {
    let size = |value: i64| u64::try_from(value).unwrap_or(0);
    let time = |s: i64, ns: u64| Time { s, ns: u32::try_from(ns).unwrap_or(0) };
    Attrs {
        ino: stat.st_ino,
        size: size(stat.st_size),
        blocks: size(stat.st_blocks),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: u32::try_from(stat.st_rdev).unwrap_or(0),
        block_bytes: u32::try_from(stat.st_blksize).unwrap_or(4096),
    }
}

fn time_of(new: Option<NewTime>) -> Timespec {
    match new {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(NewTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(NewTime::At(s, ns)) => Timespec { tv_sec: s, tv_nsec: i64::from(ns) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_the_first_request_has_what_the_kernel_offers_and_the_length_that_it_expects() {
        let answer = |offered| {
            let mut out = Out::default();
            init(&mut out, (7, 45), 1 << 17, offered);
            out.as_slice().to_vec()
        };
        let all = answer(u64::MAX);
        assert_eq!((all.len(), answer(0).len()), (64, 64));
        assert_eq!(answer(0)[12..16], [0; 4]);
        assert_eq!(all[20..24], DATA_BYTES_MAX.to_le_bytes());
        assert_ne!(all[12..16], [0; 4]);
    }

    #[test]
    fn what_is_opened_keeps_only_flags_that_concern_the_directory_shown() {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC | OFlags::EXCL | OFlags::DIRECT;
        assert_eq!(opened_with(flags.bits()), OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC);
    }
}
