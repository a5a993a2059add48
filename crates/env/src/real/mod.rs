//! The disk of the machine: a directory, `io_uring` where the kernel allows it, direct I/O where the file
//! system does.

pub(crate) mod file;
mod mapping;
mod ring;
mod shadow;

pub(crate) use mapping::Mapping;

use crate::disk::{
    Disk, FileId, Io, IoDone, IoOp, Media, Space, byte_count, checked_buf, checked_name, checked_range,
};
use crate::error::{Error, Op, Result};
use crate::region::{Claim, Region};
use crate::root::give_to_owner;
use crate::slots::Slots;
use core::sync::atomic::Ordering;
use file::{Handle, OpenFile, Pages, lengthen, open_direct, preallocate, read_whole, write_whole};
use ring::{Asker, Ring, Ticket};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fdatasync, fstat, fstatfs, fstatvfs, fsync, ftruncate, open,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use shadow::Shadows;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, OnceLock};

//= linux:include/uapi/linux/magic.h TMPFS_MAGIC RAMFS_MAGIC
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58F6;

/// What a [`RealDisk`] may use. Everything is on by default and given up where the system refuses it.
#[derive(Clone, Copy, Debug)]
pub struct RealOptions {
    /// Take `io_uring` for submitted operations; otherwise they run, blocking, inside `submit`.
    pub uring: bool,
    /// Take direct I/O for aligned submitted operations on block media.
    pub direct: bool,
    /// Treat the device as this; `None` asks the file system (a DAX mount has to be named).
    pub media: Option<Media>,
    /// Leave the directory as it is: what is written, made or removed is so in memory only, and gone with the disk.
    pub ephemeral: bool,
}

impl Default for RealOptions {
    fn default() -> Self {
        Self { uring: true, direct: true, media: None, ephemeral: false }
    }
}

/// A directory of this machine.
pub struct RealDisk {
    dir: Arc<Handle>,
    dir_name: String,
    media: Media,
    options: RealOptions,
    files: Slots<OpenFile>,
    shadows: Shadows,
    /// Created since the last `sync_names`: their blocks are not durable yet.
    created: Vec<Arc<Handle>>,
    /// Parts of a `flush_all` that have not completed, and the first error among those that have.
    flushing: u32,
    flush_error: Option<Error>,
    ring: RingState,
    done: VecDeque<IoDone>,
}

enum RingState {
    Untried,
    Refused,
    Ready(Box<Ring>),
}

impl core::fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RealDisk").field("dir", &self.dir_name).field("media", &self.media).finish()
    }
}

impl RealDisk {
    /// Opens an existing directory with everything the system offers.
    ///
    /// # Errors
    /// [`Error::NotFound`], or [`Error::Io`] if it is not a directory we may use.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::with_options(dir, RealOptions::default())
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// As [`RealDisk::open`].
    pub fn with_options(dir: &Path, options: RealOptions) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |errno| Error::from_errno(Op::Open, &dir.display().to_string(), 0, errno);
        Self::of(open(dir, flags, Mode::empty()).map_err(failed)?, dir, options)
    }

    /// The directory that is open as `dir`, and was named `path`.
    pub(crate) fn of(dir: OwnedFd, path: &Path, options: RealOptions) -> Result<Self> {
        let dir_name = path.display().to_string();
        let failed = |errno| Error::from_errno(Op::Stat, &dir_name, 0, errno);
        let magic = u64::try_from(fstatfs(&dir).map_err(failed)?.f_type).unwrap_or(0);
        let detected = if matches!(magic, TMPFS_MAGIC | RAMFS_MAGIC) { Media::Mapped } else { Media::Block };
        Ok(Self {
            dir: Arc::new(Handle::new(dir, None)),
            dir_name,
            media: options.media.unwrap_or(detected),
            options,
            files: Slots::default(),
            shadows: Shadows::default(),
            created: Vec::new(),
            flushing: 0,
            flush_error: None,
            ring: RingState::Untried,
            done: VecDeque::new(),
        })
    }

    /// Whether submitted operations go through `io_uring`; decides it if no operation has done so yet.
    pub fn uses_uring(&mut self) -> bool {
        self.ring().is_some()
    }

    fn ring(&mut self) -> Option<&mut Ring> {
        if matches!(self.ring, RingState::Untried) {
            // On mapped media a copy is shorter than a trip through the ring.
            let wanted = self.options.uring && self.media == Media::Block;
            let ring = if wanted { Ring::new().ok() } else { None };
            self.ring = ring.map_or(RingState::Refused, |ring| RingState::Ready(Box::new(ring)));
        }
        match &mut self.ring {
            RingState::Ready(ring) => Some(ring),
            RingState::Untried | RingState::Refused => None,
        }
    }

    fn admit(&mut self, name: &str, buffered: OwnedFd) -> Result<OpenFile> {
        let failed = |errno| Error::from_errno(Op::Stat, name, 0, errno);
        let stat = fstat(&buffered).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(failed(Errno::INVAL));
        }
        let len = u64::try_from(stat.st_size).map_err(|_negative| failed(Errno::INVAL))?;
        let wants_direct = self.options.direct && self.media == Media::Block;
        let direct = if wants_direct { open_direct(self.dir.buffered(), name, len) } else { None };
        Ok(OpenFile {
            name: name.to_owned(),
            handle: Arc::new(Handle::new(buffered, direct)),
            len,
            inode: (stat.st_dev, stat.st_ino),
            mapped: Arc::default(),
        })
    }

    fn create_filled(&mut self, name: &str, len_bytes: u64, pages: Pages) -> Result<FileId> {
        if self.options.ephemeral {
            return self.create_shadow(checked_name(name)?, len_bytes);
        }
        // Some file systems hand out all they have before they find that it is not enough, and everybody
        // on the device would feel that.
        if len_bytes > self.space()?.free_bytes {
            return Err(Error::NoSpace { name: name.to_owned(), needed_bytes: len_bytes });
        }
        self.create_preallocated(checked_name(name)?, len_bytes, pages)
    }

    fn create_preallocated(&mut self, name: &str, len_bytes: u64, pages: Pages) -> Result<FileId> {
        let failed = |errno| Error::from_errno(Op::Create, name, 0, errno).needing(len_bytes);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let access = Mode::RUSR | Mode::WUSR;
        let buffered = openat(self.dir.buffered(), name, flags, access).map_err(failed)?;
        let given = give_to_owner(&self.dir.buffered(), &buffered).map_err(failed);
        let filled = given.and_then(|()| self.admit(name, buffered)).and_then(|mut file| {
            preallocate(&file.handle, len_bytes, self.media, pages).map_err(failed)?;
            file.len = len_bytes;
            Ok(file)
        });
        match filled {
            Ok(file) => {
                self.created.push(Arc::clone(&file.handle));
                Ok(self.files.insert(file))
            }
            Err(error) => {
                // Ignored: the create has failed already, and a file that cannot be removed is reported by
                // the next create of the same name.
                let _removed = unlinkat(self.dir.buffered(), name, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Runs one operation on this thread.
    fn run(&mut self, ticket: Ticket) {
        let Ticket { token, handle, offset, op, asker } = ticket;
        let failed = |op| {
            let (disk, handle) = (&*self, &handle);
            move |errno| Error::from_errno(op, &disk.name_of(handle), offset, errno)
        };
        let (result, buf) = match op {
            IoOp::Read(mut buf, len) => {
                let bytes = usize::try_from(len).unwrap_or(usize::MAX);
                let read = read_whole(handle.for_range(offset, len), offset, &mut buf[..bytes]);
                (read.map(|()| len).map_err(failed(Op::Read)), Some(buf))
            }
            IoOp::Write(buf, len) => {
                let bytes = usize::try_from(len).unwrap_or(usize::MAX);
                let written = write_whole(handle.for_range(offset, len), offset, &buf[..bytes]);
                (written.map(|()| len).map_err(failed(Op::Write)), Some(buf))
            }
            IoOp::Flush => (fdatasync(handle.buffered()).map(|()| 0).map_err(failed(Op::Flush)), None),
            IoOp::FlushNames => (fsync(handle.buffered()).map(|()| 0).map_err(failed(Op::SyncNames)), None),
        };
        self.complete(asker, IoDone { token, result, buf });
    }

    /// The file, after checking that the operation may be done at all.
    fn checked(&self, io: &Io) -> Result<Arc<Handle>> {
        let file = self.files.at(io.file)?;
        match &io.op {
            IoOp::Read(buf, len) => {
                checked_buf(&file.name, buf, *len)?;
                checked_range(&file.name, io.offset, u64::from(*len), file.len)?;
            }
            IoOp::Write(buf, len) => {
                checked_buf(&file.name, buf, *len)?;
                checked_range(&file.name, io.offset, u64::from(*len), file.len)?;
                refuse_mapped(file)?;
            }
            IoOp::Flush => {}
            IoOp::FlushNames => return Ok(Arc::clone(&self.dir)),
        }
        Ok(Arc::clone(&file.handle))
    }

    /// Hands an operation to the ring, or carries it out.
    fn start(&mut self, ticket: Ticket) {
        while self.ring().is_some_and(|ring| ring.is_full()) {
            self.ring().into_iter().for_each(|ring| ring.enter(1));
            self.reap();
        }
        match self.ring() {
            Some(ring) => ring.push(ticket),
            None => self.run(ticket),
        }
    }

    /// Reports what has completed: to the caller of `poll`, or to `flush_all`, which waits for its parts.
    fn complete(&mut self, asker: Asker, done: IoDone) {
        match asker {
            Asker::Submitter => self.done.push_back(done),
            Asker::FlushAll => {
                self.flushing -= 1;
                self.flush_error = self.flush_error.take().or(done.result.err());
            }
        }
    }

    fn reap(&mut self) {
        while let RingState::Ready(ring) = &mut self.ring {
            let Some((ticket, moved)) = ring.next() else { return };
            self.finish(ticket, moved);
        }
    }

    /// Turns a completion of the ring into one of ours. What the kernel did not do at all, or did in part,
    /// is done here, blocking: that is rare, and a transfer is whole or an error.
    fn finish(&mut self, ticket: Ticket, moved: rustix::io::Result<u32>) {
        let wanted = match ticket.op {
            IoOp::Read(_, len) | IoOp::Write(_, len) => len,
            IoOp::Flush | IoOp::FlushNames => 0,
        };
        match moved {
            Ok(count) if count == wanted => {
                let done = IoDone { token: ticket.token, result: Ok(count), buf: ticket.op.into_buf() };
                self.complete(ticket.asker, done);
            }
            Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) => {
                self.run(ticket);
            }
            Err(errno) => {
                let op = match ticket.op {
                    IoOp::Read(..) => Op::Read,
                    IoOp::Write(..) => Op::Write,
                    IoOp::Flush => Op::Flush,
                    IoOp::FlushNames => Op::SyncNames,
                };
                let name = self.name_of(&ticket.handle);
                let result = Err(Error::from_errno(op, &name, ticket.offset, errno));
                let done = IoDone { token: ticket.token, result, buf: ticket.op.into_buf() };
                self.complete(ticket.asker, done);
            }
        }
    }

    fn name_of(&self, handle: &Arc<Handle>) -> String {
        if Arc::ptr_eq(&self.dir, handle) {
            return self.dir_name.clone();
        }
        let open = self.files.iter().find(|file| Arc::ptr_eq(&file.handle, handle));
        open.map_or_else(|| "a closed file".to_owned(), |file| file.name.clone())
    }
}

/// The kernel's random number for the time since it started, in hexadecimal with dashes; 0 where it tells none.
fn read_boot_id() -> u128 {
    let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

fn refuse_mapped(file: &OpenFile) -> Result<()> {
    if file.mapped.load(Ordering::Acquire) { Err(Error::Busy { name: file.name.clone() }) } else { Ok(()) }
}

impl Disk for RealDisk {
    fn media(&self) -> Media {
        self.media
    }

    fn boot_id(&self) -> u128 {
        static BOOT_ID: OnceLock<u128> = OnceLock::new();
        *BOOT_ID.get_or_init(read_boot_id)
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |errno| Error::from_errno(Op::List, &self.dir_name, 0, errno);
        let mut names = self.shadows.names();
        for entry in Dir::read_from(self.dir.buffered()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let stat = match statat(self.dir.buffered(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && checked_name(name).is_ok() && !self.shadows.covers(name) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        self.create_filled(name, len_bytes, Pages::Usual)
    }

    fn create_for_looks(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        self.create_filled(name, len_bytes, Pages::Huge)
    }

    fn extend(&mut self, file: FileId, more_bytes: u64) -> Result<()> {
        self.shadow_if_ephemeral(file)?;
        let open = self.files.at(file)?;
        refuse_mapped(open)?;
        let no_space = || Error::NoSpace { name: open.name.clone(), needed_bytes: more_bytes };
        // As in `create`: some file systems hand out all they have before they find that it is not enough.
        if more_bytes > self.space()?.free_bytes {
            return Err(no_space());
        }
        let len = open.len.checked_add(more_bytes).ok_or_else(no_space)?;
        if let Err(errno) = lengthen(&open.handle, open.len, more_bytes) {
            // Ignored: the file keeps the length that is counted here, whatever the system has left behind it.
            let _cut = ftruncate(open.handle.buffered(), open.len);
            return Err(Error::from_errno(Op::Extend, &open.name, open.len, errno).needing(more_bytes));
        }
        self.files.at_mut(file)?.len = len;
        Ok(())
    }

    fn open(&mut self, name: &str) -> Result<FileId> {
        checked_name(name)?;
        if self.shadows.covers(name) {
            return self.open_shadow(name);
        }
        let access = if self.options.ephemeral { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let buffered = openat(self.dir.buffered(), name, flags, Mode::empty())
            .map_err(|errno| Error::from_errno(Op::Open, name, 0, errno))?;
        let file = self.admit(name, buffered)?;
        if self.files.iter().any(|other| other.inode == file.inode) {
            return Err(Error::Busy { name: name.to_owned() });
        }
        Ok(self.files.insert(file))
    }

    fn close(&mut self, file: FileId) {
        // Descriptors of operations in flight live on in their tickets.
        drop(self.files.remove(file));
    }

    fn len(&self, file: FileId) -> Result<u64> {
        Ok(self.files.at(file)?.len)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        checked_name(name)?;
        if self.options.ephemeral {
            return self.remove_shadow(name);
        }
        unlinkat(self.dir.buffered(), name, AtFlags::empty())
            .map_err(|errno| Error::from_errno(Op::Remove, name, 0, errno))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        checked_name(from)?;
        checked_name(to)?;
        if self.options.ephemeral {
            return self.rename_shadow(from, to);
        }
        renameat(self.dir.buffered(), from, self.dir.buffered(), to)
            .map_err(|errno| Error::from_errno(Op::Rename, from, 0, errno))?;
        for file in self.files.iter_mut().filter(|file| file.name == from) {
            to.clone_into(&mut file.name);
        }
        Ok(())
    }

    fn sync_names(&mut self) -> Result<()> {
        self.flush_all(&[])
    }

    fn flush_all(&mut self, files: &[FileId]) -> Result<()> {
        if self.options.ephemeral {
            return files.iter().try_for_each(|&file| self.files.at(file).map(drop));
        }
        let named = files.iter().map(|&file| Ok(Arc::clone(&self.files.at(file)?.handle)));
        let mut handles = named.collect::<Result<Vec<_>>>()?;
        handles.append(&mut self.created);
        let dir = (Arc::clone(&self.dir), IoOp::FlushNames);
        for (handle, op) in handles.into_iter().map(|file| (file, IoOp::Flush)).chain([dir]) {
            self.flushing += 1;
            self.start(Ticket { token: 0, handle, offset: 0, op, asker: Asker::FlushAll });
        }
        loop {
            self.reap();
            match &mut self.ring {
                RingState::Ready(ring) if self.flushing > 0 => ring.enter(1),
                _ => break,
            }
        }
        self.flush_error.take().map_or(Ok(()), Err)
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()> {
        let file = self.files.at(file)?;
        checked_range(&file.name, offset, byte_count(buf.len()), file.len)?;
        read_whole(file.handle.buffered(), offset, buf)
            .map_err(|errno| Error::from_errno(Op::Read, &file.name, offset, errno))
    }

    fn write_at(&mut self, file: FileId, offset: u64, buf: &[u8]) -> Result<()> {
        self.shadow_if_ephemeral(file)?;
        let file = self.files.at(file)?;
        checked_range(&file.name, offset, byte_count(buf.len()), file.len)?;
        refuse_mapped(file)?;
        write_whole(file.handle.buffered(), offset, buf)
            .map_err(|errno| Error::from_errno(Op::Write, &file.name, offset, errno))
    }

    fn flush(&mut self, file: FileId) -> Result<()> {
        let file = self.files.at(file)?;
        fdatasync(file.handle.buffered()).map_err(|errno| Error::from_errno(Op::Flush, &file.name, 0, errno))
    }

    fn submit(&mut self, io: Io) {
        let shadowed = match &io.op {
            IoOp::Write(..) => self.shadow_if_ephemeral(io.file),
            IoOp::Read(..) | IoOp::Flush | IoOp::FlushNames => Ok(()),
        };
        let handle = match shadowed.and_then(|()| self.checked(&io)) {
            Ok(found) => found,
            Err(error) => {
                self.done.push_back(IoDone { token: io.token, result: Err(error), buf: io.op.into_buf() });
                return;
            }
        };
        self.start(Ticket { token: io.token, handle, offset: io.offset, op: io.op, asker: Asker::Submitter });
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<IoDone>) {
        loop {
            self.reap();
            let waits = wait && self.done.is_empty();
            match &mut self.ring {
                RingState::Ready(ring) if waits && ring.in_flight() > 0 => ring.enter(1),
                RingState::Ready(ring) if ring.has_queued() => {
                    ring.enter(0);
                    break;
                }
                _ => break,
            }
        }
        out.extend(self.done.drain(..));
    }

    fn map(&mut self, file: FileId) -> Result<Region> {
        if self.media == Media::Block {
            self.shadow_if_ephemeral(file)?;
        }
        // On mapped media, where files stay mapped while they are open, what is written stays in the mapping.
        let is_private = self.options.ephemeral && !self.is_shadow(file)?;
        let file = self.files.at(file)?;
        let failed = |errno| Error::from_errno(Op::Map, &file.name, 0, errno);
        if file.len == 0 {
            return Err(failed(Errno::INVAL));
        }
        let len = usize::try_from(file.len).map_err(|_too_long| failed(Errno::NOMEM))?;
        let claim = Claim::take(&file.mapped).ok_or_else(|| Error::Busy { name: file.name.clone() })?;
        // All page table entries at once are five times cheaper than faults, but on block media they would
        // read the whole file.
        let populate = self.media == Media::Mapped;
        let mapping = Mapping::of(file.handle.buffered(), len, populate, is_private).map_err(failed)?;
        Ok(Region::mapped(mapping, claim))
    }

    fn space(&self) -> Result<Space> {
        let stat = fstatvfs(self.dir.buffered())
            .map_err(|errno| Error::from_errno(Op::Stat, &self.dir_name, 0, errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total_bytes: bytes(stat.f_blocks), free_bytes: bytes(stat.f_bavail) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_fit_leaves_no_trace() {
        let dir = Path::new("/dev/shm").join(format!("dolmen-env-full-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mut disk = RealDisk::open(&dir).unwrap();
        let full = |name: &str| Error::NoSpace { name: name.to_owned(), needed_bytes: 1 << 50 };
        // The system's own refusal, and the one that saves it the attempt.
        assert_eq!(disk.create_preallocated("late", 1 << 50, Pages::Usual), Err(full("late")));
        assert_eq!(disk.create("early", 1 << 50), Err(full("early")));
        assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        std::fs::remove_dir(&dir).unwrap();
    }
}
