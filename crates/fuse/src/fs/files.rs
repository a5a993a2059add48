//! Contents of files.

use super::{Done, Fs, Reply};
use crate::abi::DATA_BYTES_MAX;
use crate::abi::op::{Range, WriteHow};
use crate::abi::reply::{self, OpenAs};
use crate::abi::request::Caller;
use crate::handles::{Open, OpenFile};
use crate::options::Caching;
use crate::table::{Version, View};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_dfs::{Allocate, File, Leased, Obj, OpenOptions, errno as number};
use std::sync::Arc;

/// So often a lease on contents is asked for that are being changed: changes take no longer than the question.
const COVER_LOOKS: u32 = 20;
const O_ACCMODE: u32 = 3;
const O_WRONLY: u32 = 1;
const O_APPEND: u32 = 0o2000;
const O_TRUNC: u32 = 0o1000;
const O_DIRECT: u32 = 0o40000;
const O_NOATIME: u32 = 0o1_000_000;

impl Fs {
    pub(super) fn open(&self, node: u64, caller: Caller, flags: u32, reply: &mut Reply) -> Done {
        let obj = self.obj(node)?;
        let writes = flags & O_ACCMODE != 0;
        let truncate = flags & O_TRUNC != 0 && writes;
        // Who has asked the kernel before has it read for him what he writes to a part of.
        let read = self.user.is_none() || flags & O_ACCMODE != O_WRONLY;
        let options = OpenOptions { truncate, write: writes, read, ..OpenOptions::READ };
        let file = self.done(obj.open(&options))?;
        if truncate && caller.uid != 0 && self.user.is_none() {
            // As with a write, which the kernel tells by itself.
            self.done(file.strip_rights())?;
        }
        let (mut as_what, mut covers) = (OpenAs::Fresh, Leased::default());
        let view = self.node(node)?.view;
        if self.options.caching == Caching::Data {
            let (stat, leased) = self.look(view, || obj.stat());
            let stat = self.done(stat)?;
            // The grain of times is 4 ms: of what was changed just now nobody knows whether it was changed again since.
            let version = Version { mtime: stat.mtime, ctime: stat.ctime, size_bytes: stat.size_bytes };
            if !self.table.is_same(node, version) {
                // The length is an attribute, too.
                self.outdates(node, reply);
            } else if !self.is_recent(&stat) {
                as_what = OpenAs::Kept;
            }
            covers = leased;
        }
        let mut as_what = self.open_as(flags, as_what);
        let open = self.open_file(file, (node, view), (flags, as_what));
        if let Some(number) = open.number
            && !self.told.keep_pages(number, &covers)
        {
            // Changed since: what the kernel has goes, and what it reads is covered by the read.
            as_what = OpenAs::Fresh;
        }
        open.is_changed.store(truncate, Ordering::Relaxed);
        let handle = self.opened(Open::File(Arc::new(open)), reply);
        reply::open(&mut reply.out, handle, as_what);
        Ok(())
    }

    /// Whether a file was changed within the grain of times, as the mount's clock has it.
    fn is_recent(&self, stat: &dolmen_dfs::Stat) -> bool {
        const GRAIN_NS: u64 = 2_000_000_000;
        self.now_ns().saturating_sub(stat.mtime.max(stat.ctime).unix_ns()) < GRAIN_NS
    }

    fn now_ns(&self) -> u64 {
        use dolmen_env::{Clock, RealClock};
        RealClock.now_ns()
    }

    /// How the kernel is to treat an open file. What appends asks for each write: only the store knows where the end is.
    pub(super) fn open_as(&self, flags: u32, otherwise: OpenAs) -> OpenAs {
        let is_direct = self.options.caching != Caching::Data || flags & (O_APPEND | O_DIRECT) != 0;
        if is_direct { OpenAs::Direct } else { otherwise }
    }

    /// A file that was opened with these flags. Whoever knows what the kernel calls it covers what the kernel may keep of it.
    pub(super) fn open_file(
        &self,
        file: File,
        (number, view): (u64, View),
        (flags, as_what): (u32, OpenAs),
    ) -> OpenFile {
        let is_covered = as_what != OpenAs::Direct && self.takes_leases(view);
        let number = is_covered.then_some(number);
        number.into_iter().for_each(|number| self.told.opened(number));
        let notes_access = flags & O_NOATIME == 0;
        let (reads, writes) = (flags & O_ACCMODE != O_WRONLY, flags & O_ACCMODE != 0);
        OpenFile { file, number, is_changed: AtomicBool::new(false), notes_access, reads, writes }
    }

    /// Gets a lease on the contents of a file that is open. Before they are read, so that no change of them is missed; there is none
    /// while one is under way. What is read without any is not kept.
    fn cover(&self, number: u64, file: &File) {
        for _ in 0..COVER_LOOKS {
            // Of the contents alone: what happens to names beside it is nothing to them.
            let (size, leased) = self.look(0, || self.dfs.size_of(file.oid(), file.chunk_bytes()));
            if size.is_err() {
                // What is wrong with the file is told by the read itself.
                break;
            }
            if self.told.keep_pages(number, &leased) {
                return;
            }
            dolmen_env::yield_now();
        }
        self.told.note_uncovered(number);
    }

    pub(super) fn read(&self, range: Range, reply: &mut Reply) -> Done {
        let open = self.handles.file(range.handle)?;
        if let Some(number) = open.number
            && !self.told.has_pages(number)
        {
            self.cover(number, &open.file);
        }
        let len = range.len.min(u64::from(DATA_BYTES_MAX));
        let len = usize::try_from(len).map_err(|_too_long| number::EINVAL)?;
        let buf = reply.out.room(len);
        let read = open.file.read_at(range.offset, buf);
        let read = self.done(read)?;
        reply.out.truncate(read);
        if open.notes_access {
            note_read(&open.file);
        }
        Ok(())
    }

    pub(super) fn write(
        &self,
        handle: u64,
        offset: u64,
        data: &[u8],
        how: WriteHow,
        reply: &mut Reply,
    ) -> Done {
        let open = self.handles.file(handle)?;
        if let Some(number) = open.number {
            self.told.begin_write(number);
            reply.wrote = Some(number);
        }
        open.is_changed.store(true, Ordering::Relaxed);
        // Of a user whose rights are looked at the change itself takes them.
        if how.strips_rights && self.user.is_none() {
            self.done(open.file.strip_rights())?;
        }
        let written = if how.appends {
            open.file.append(data).map(|_at| data.len())
        } else if how.is_whole {
            open.file.write_at(offset, data).map(|_at| data.len())
        } else {
            open.file.write_some_at(offset, data)
        };
        let count = self.done(written)?;
        if how.lasts {
            self.done(self.dfs.flush())?;
        }
        let len = u32::try_from(count).map_err(|_too_long| number::EINVAL)?;
        reply.out.u32(len).u32(0);
        Ok(())
    }

    /// Records when the file was changed, so that whoever opens it now sees it.
    pub(super) fn record(&self, handle: u64) -> Done {
        let open = self.handles.file(handle)?;
        if !open.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.recorded(open.file.record_times())
    }

    /// Records all times of the file, of accesses as well, and has all that was answered before survive the loss of power.
    pub(super) fn sync_file(&self, handle: u64) -> Done {
        self.recorded(self.handles.file(handle)?.file.sync())
    }

    fn recorded(&self, recorded: dolmen_dfs::Result<()>) -> Done {
        match recorded {
            // Somebody else has removed or moved it: there is nothing to record any more.
            Err(dolmen_dfs::Error::Stale | dolmen_dfs::Error::NotFound) => Ok(()),
            other => self.done(other),
        }
    }

    pub(super) fn fallocate(&self, range: Range, mode: u32) -> Done {
        let open = self.handles.file(range.handle)?;
        let (what, keeps_size) = self.done(Allocate::of_linux(mode))?;
        open.is_changed.store(true, Ordering::Relaxed);
        self.done(open.file.allocate(what, keeps_size, range.offset, range.len))
    }

    pub(super) fn lseek(&self, handle: u64, offset: u64, whence: u32, reply: &mut Reply) -> Done {
        const SEEK_DATA: u32 = 3;
        const SEEK_HOLE: u32 = 4;
        let file = &self.handles.file(handle)?.file;
        let found = match whence {
            SEEK_DATA => file.seek_data(offset),
            SEEK_HOLE => file.seek_hole(offset),
            _ => return Err(number::EINVAL),
        };
        let found = self.done(found)?;
        reply.out.u64(found);
        Ok(())
    }
}

/// Notes that something was read. The time waits in this process until it is recorded with others: no read costs a write.
pub(super) fn note_read(obj: &Obj) {
    // Ignored: what was read is read, and a time that cannot be looked up is one that is lost.
    let _not_noted = obj.note_read();
}
