//! An open file.
//!
//! Invariants: the offset is locked while a read or write moves it, as the kernel does; a file that was given back to the kernel
//! is never read or written here again.

use crate::guard;
use crate::memory::TRANSFER_BYTES_MAX;
use crate::mounts::Mounted;
use crate::names::Told;
use crate::report::{self, Kind};
use crate::{memory, settle, stat, state};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use dolmen_dfs::{Error, File, Obj};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What descriptors of one open(2), and those that were duplicated from them, stand for.
pub(crate) struct Open {
    pub(crate) file: File,
    pub(crate) mount: Arc<Mounted>,
    /// The number of its directory, and its name there, when it was opened.
    pub(crate) at: (u64, Box<[u8]>),
    pub(crate) ino: u64,
    /// What the kernel knows of its directory.
    pub(crate) dir: libc::statx,
    /// Guards: where the next read or write begins; held while that is under way.
    pub(crate) offset: Mutex<u64>,
    /// As of open(2); some change.
    pub(crate) flags: AtomicI32,
    /// Something was written since its time was recorded.
    pub(crate) is_changed: AtomicBool,
    /// Guards: whether it was given back to the kernel; held, shared, while it is used here.
    pub(crate) is_settled: RwLock<bool>,
    /// How many descriptors stand for it.
    pub(crate) descriptors: AtomicUsize,
    /// Goes last: what the file has recorded with its end is a change as well.
    pub(crate) _ends: Ends,
}

/// Notes that a file may have changed when it is open no more.
pub(crate) struct Ends(pub(crate) Arc<Mounted>, pub(crate) u64);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.heard.note_change(self.1);
    }
}

/// The system's number for an error of something in a file system.
pub(crate) fn number(obj: &Obj, error: &Error) -> i32 {
    match obj.errno_of(error) {
        libc::EHOSTUNREACH | libc::ETIMEDOUT | libc::ERESTART => libc::EIO,
        _ if error.is_damage() => libc::EIO,
        other => other,
    }
}

/// Does something with the file that `fd` stands for; `None` if it stands for none, so that the kernel is to do it. A file that
/// somebody else has moved or removed is the kernel's from then on, if the mount knows it still.
pub(crate) fn with<T>(
    fd: c_int,
    kind: Kind,
    act: impl FnOnce(&Open) -> Result<T, i32>,
) -> Option<Result<T, i32>> {
    if !crate::files::is_taken(fd) {
        return None;
    }
    guard::inside(Some(Err(libc::EIO)), || {
        let open = state::state().files.find(fd)?;
        let done = {
            let is_settled = open.is_settled.read().unwrap_or_else(PoisonError::into_inner);
            if *is_settled {
                return None;
            }
            act(&open)
        };
        if matches!(done, Err(libc::ESTALE)) && settle::one(&open) {
            return None;
        }
        report::taken(kind);
        Some(done)
    })
    .flatten()
}

/// As [`with`], with what two descriptors stand for, or nothing where one is the kernel's; `None` also if that is so of both.
pub(crate) fn with_two<T>(fds: [c_int; 2], act: impl FnOnce([Option<&Open>; 2]) -> Told<T>) -> Told<T> {
    if !fds.into_iter().any(crate::files::is_taken) {
        return None;
    }
    guard::inside(Some(Err(libc::EIO)), || {
        let opens = fds.map(|fd| state::state().files.find(fd));
        let mut each: Vec<&Arc<Open>> = opens.iter().flatten().collect();
        // Always in the same order: whoever gives one back waits for its users, and keeps later ones waiting.
        each.sort_unstable_by_key(|open| Arc::as_ptr(open));
        each.dedup_by_key(|open| Arc::as_ptr(open));
        let done = {
            let held = each.iter().map(|open| open.is_settled.read().unwrap_or_else(PoisonError::into_inner));
            let held: Vec<_> = held.collect();
            if held.is_empty() || held.iter().any(|is_settled| **is_settled) {
                return None;
            }
            act([opens[0].as_deref(), opens[1].as_deref()])?
        };
        if matches!(done, Err(libc::ESTALE)) && each.iter().all(|open| settle::one(open)) {
            return None;
        }
        report::taken(Kind::Other);
        Some(done)
    })
    .flatten()
}

/// As [`with`], where the kernel is to do it with its own file if this says nothing.
pub(crate) fn take<T>(fd: c_int, kind: Kind, act: impl FnOnce(&Open) -> Told<T>) -> Told<T> {
    match with(fd, kind, |open| Ok(act(open))) {
        Some(Ok(Some(told))) => Some(told),
        Some(Err(errno)) => Some(Err(errno)),
        Some(Ok(None)) | None => {
            settle::descriptor(fd);
            None
        }
    }
}

/// What a function returns for this, with `errno` set.
pub(crate) fn returned<T: crate::next::Failure>(done: Result<T, i32>) -> T {
    done.unwrap_or_else(|errno| {
        guard::set_errno(errno);
        T::FAILED
    })
}

impl Open {
    fn flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// The flags that `F_GETFL` tells.
    pub(crate) fn told_flags(&self) -> i32 {
        /// What the kernel says of every file of a program with long offsets.
        const LARGE_FILE: i32 = 0o100_000;
        const OF_OPENING: i32 =
            libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC | libc::O_CLOEXEC;
        self.flags() & !OF_OPENING | LARGE_FILE
    }

    fn may_read(&self) -> Result<(), i32> {
        if self.flags() & libc::O_ACCMODE == libc::O_WRONLY { Err(libc::EBADF) } else { Ok(()) }
    }

    fn may_write(&self) -> Result<(), i32> {
        if self.flags() & libc::O_ACCMODE == libc::O_RDONLY { Err(libc::EBADF) } else { Ok(()) }
    }

    /// Reads where `at` says, or where the last read or write has ended.
    pub(crate) fn read(&self, at: Option<i64>, buf: &mut [u8]) -> Result<isize, i32> {
        self.may_read()?;
        let read = |offset: u64, buf: &mut [u8]| -> Result<usize, i32> {
            if buf.is_empty() {
                return Ok(0);
            }
            self.file.read_at(offset, buf).map_err(|error| number(&self.file, &error))
        };
        let len = match at {
            Some(at) => read(u64::try_from(at).map_err(|_negative| libc::EINVAL)?, buf)?,
            None => {
                let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
                let len = read(*offset, buf)?;
                *offset += len as u64;
                len
            }
        };
        isize::try_from(len).map_err(|_too_long| libc::EINVAL)
    }

    /// Writes there, or to the end if the file was opened so.
    pub(crate) fn write(&self, at: Option<i64>, data: &[u8]) -> Result<isize, i32> {
        self.may_write()?;
        let flags = self.flags();
        // A part of `O_SYNC`.
        let (appends, lasts) = (flags & libc::O_APPEND != 0, flags & libc::O_DSYNC != 0);
        // Where what was written ends, and how much it is.
        let write = |offset: u64| -> Result<(u64, usize), i32> {
            if data.is_empty() {
                return Ok((offset, 0));
            }
            self.is_changed.store(true, Ordering::Relaxed);
            let written = if appends {
                self.file.append(data).map(|at| (at + data.len() as u64, data.len()))
            } else {
                self.file.write_some_at(offset, data).map(|count| (offset + count as u64, count))
            };
            self.mount.note_change(self.ino);
            let stays = |done| if lasts { self.file.flush().map(|()| done) } else { Ok(done) };
            written.and_then(stays).map_err(|error| number(&self.file, &error))
        };
        let count = match at {
            Some(at) => write(u64::try_from(at).map_err(|_negative| libc::EINVAL)?)?.1,
            None => {
                let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
                let (end, count) = write(*offset)?;
                *offset = end;
                count
            }
        };
        isize::try_from(count).map_err(|_too_long| libc::EINVAL)
    }

    /// As [`Open::read`], into several buffers.
    pub(crate) fn read_vector(
        &self,
        at: Option<i64>,
        iov: *const libc::iovec,
        count: i32,
    ) -> Result<isize, i32> {
        let (parts, sum) = memory::vector(iov, count)?;
        if let [part] = parts {
            return self.read(at, memory::room(part.iov_base, part.iov_len)?);
        }
        let mut all = vec![0; sum];
        let read = self.read(at, &mut all)?;
        let mut rest = &all[..usize::try_from(read).unwrap_or(0)];
        for part in parts {
            let room = memory::room(part.iov_base, part.iov_len.min(rest.len()))?;
            let (here, after) = rest.split_at(room.len());
            room.copy_from_slice(here);
            rest = after;
        }
        Ok(read)
    }

    /// As [`Open::write`], from several buffers.
    pub(crate) fn write_vector(
        &self,
        at: Option<i64>,
        iov: *const libc::iovec,
        count: i32,
    ) -> Result<isize, i32> {
        let (parts, sum) = memory::vector(iov, count)?;
        if let [part] = parts {
            return self.write(at, memory::bytes(part.iov_base, part.iov_len)?);
        }
        let mut all = Vec::with_capacity(sum);
        for part in parts {
            let left = TRANSFER_BYTES_MAX - all.len();
            all.extend_from_slice(memory::bytes(part.iov_base, part.iov_len.min(left))?);
        }
        self.write(at, &all)
    }

    pub(crate) fn size(&self) -> Result<u64, i32> {
        self.file.size().map_err(|error| number(&self.file, &error))
    }

    /// Moves the offset.
    pub(crate) fn seek(&self, by: i64, whence: c_int) -> Result<i64, i32> {
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let from = |base: u64| {
            let base = i64::try_from(base).map_err(|_too_far| libc::EOVERFLOW)?;
            base.checked_add(by).ok_or(libc::EOVERFLOW)
        };
        let failed = |error: Error| number(&self.file, &error);
        let place = || u64::try_from(by).map_err(|_negative| libc::ENXIO);
        let told = |at: u64| i64::try_from(at).map_err(|_too_far| libc::EOVERFLOW);
        let found = match whence {
            libc::SEEK_SET => by,
            libc::SEEK_CUR => from(*offset)?,
            libc::SEEK_END => from(self.size()?)?,
            libc::SEEK_DATA => told(self.file.seek_data(place()?).map_err(failed)?)?,
            libc::SEEK_HOLE => told(self.file.seek_hole(place()?).map_err(failed)?)?,
            _ => return Err(libc::EINVAL),
        };
        *offset = u64::try_from(found).map_err(|_negative| libc::EINVAL)?;
        Ok(found)
    }

    /// Its attributes.
    pub(crate) fn stat(&self) -> Result<stat::Found, i32> {
        let stat = self.file.stat().map_err(|error| number(&self.file, &error))?;
        Ok(stat::Found { stat, dir: self.dir })
    }

    /// Cuts or lengthens it.
    pub(crate) fn set_len(&self, len: i64) -> Result<c_int, i32> {
        let len = u64::try_from(len).map_err(|_negative| libc::EINVAL)?;
        self.may_write().map_err(|_not_open_for_it| libc::EINVAL)?;
        self.is_changed.store(true, Ordering::Relaxed);
        let done = self.file.set_len(len).map(|()| 0).map_err(|error| number(&self.file, &error));
        self.mount.note_change(self.ino);
        done
    }

    /// As [`Open::record`], and has all that was answered before survive the loss of power.
    pub(crate) fn sync(&self) -> Result<c_int, i32> {
        let is_changed = self.is_changed.swap(false, Ordering::Relaxed);
        let recorded = self.file.sync();
        if is_changed {
            self.mount.note_change(self.ino);
        }
        self.recorded(recorded)
    }

    /// Records when it was changed, so that whoever opens it now sees it. The data is stored already.
    pub(crate) fn record(&self) -> Result<c_int, i32> {
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(0);
        }
        let recorded = self.file.record_times();
        self.mount.note_change(self.ino);
        self.recorded(recorded)
    }

    fn recorded(&self, recorded: dolmen_dfs::Result<()>) -> Result<c_int, i32> {
        match recorded {
            // Somebody else has removed or moved it: there is nothing to record any more.
            Ok(()) | Err(Error::Stale | Error::NotFound) => Ok(0),
            Err(error) => Err(number(&self.file, &error)),
        }
    }
}
