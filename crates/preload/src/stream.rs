//! Streams of directories: what opendir(3) returns for one of ours.
//!
//! A stream is told from one of the C library by its first words, which no other has: there they are a descriptor and a lock.
//! Entries are numbered as the mount numbers them: by pages of names, and places in these. In a forked child, and when the store
//! refuses, the kernel lists on from there.
//!
//! Invariants: the descriptor of a stream leads to its directory; once the program knows it, it is one that the kernel reads by.

use crate::memory;
use crate::mounts::{Mounted, mounts};
use crate::place::STATX_MNT_ID_UNIQUE;
use crate::state::is_off;
use crate::system;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_dfs::{Cookie, Dir, Error, FileKind, Found};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names that are asked for at once.
const PAGE_NAMES: u32 = 256;
const STRIDE: u64 = PAGE_NAMES as u64;
/// The number of the first name, behind `.` and `..`.
const FIRST: u64 = 2;
/// The number of what nobody knows the number of, as the mount tells it.
const UNKNOWN_INO: u64 = 0xffff_ffff;

/// Of a stream of ours. As a descriptor it would be none.
const MARK: u64 = 0x646f_6c6d_ffff_fe01;

/// A stream. What comes first is what the C library would look at.
#[repr(C)]
pub(crate) struct Stream {
    mark: u64,
    own: AtomicU64,
    /// Guards: the listing; held while the store or the kernel is asked; taken alone.
    listing: Mutex<Listing>,
}

struct Listing {
    fd: c_int,
    /// The kernel reads nothing by the descriptor yet.
    is_path: bool,
    /// Where it is listed by the store, and by which process; `None` where the kernel does it.
    by: Option<(Arc<Mounted>, Dir, u32)>,
    ino: u64,
    /// The number of the next entry.
    at: u64,
    /// Where each page begins that was read so far, and the one after them.
    starts: Vec<Cookie>,
    page: Option<(u64, Arc<[Entry]>)>,
    /// All that the kernel has listed.
    rest: Option<Vec<Entry>>,
    told: Box<libc::dirent64>,
}

/// What is told of a name.
pub(crate) struct Entry {
    pub(crate) ino: u64,
    pub(crate) kind: u8,
    pub(crate) name: Box<[u8]>,
}

/// The stream at an address that a program has for one, if it is ours.
pub(crate) fn ours<'a>(stream: *mut libc::DIR) -> Option<&'a Stream> {
    let [mark, own] = memory::get(stream.cast_const().cast::<[u64; 2]>())?;
    if mark != MARK || own != stream.addr() as u64 {
        return None;
    }
    // SAFETY: it was made here, and is there until it is closed.
    unsafe { stream.cast::<Stream>().as_ref() }
}

/// A stream of what `fd` is, a directory; `None` if it is none of ours, or not to be read. On success the descriptor is the stream's.
pub(crate) fn open(fd: c_int, is_path: bool) -> Option<*mut libc::DIR> {
    if is_off() {
        return None;
    }
    let mask = libc::STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE;
    let found = system::statx(fd, c".", libc::AT_STATX_DONT_SYNC, mask).ok()?;
    if found.stx_mask & STATX_MNT_ID_UNIQUE == 0 {
        return None;
    }
    let mount = mounts().of(&found, fd, c".")?;
    let dir = mount.dir(&found, fd, c".")?;
    // By what is open already it may be read.
    if is_path && !system::may(fd, c".", libc::R_OK) {
        return None;
    }
    let listing = Listing {
        fd,
        is_path,
        by: Some((mount, dir, dolmen_env::process_id())),
        ino: found.stx_ino,
        at: 0,
        starts: vec![Cookie::default()],
        page: None,
        rest: None,
        told: Box::new(system::no_entry()),
    };
    let stream = Box::new(Stream { mark: MARK, own: AtomicU64::new(0), listing: Mutex::new(listing) });
    stream.own.store((&raw const *stream).addr() as u64, Ordering::Relaxed);
    Some(Box::into_raw(stream).cast())
}

/// Ends a stream that is ours; its descriptor.
pub(crate) fn close(stream: *mut libc::DIR) -> Option<c_int> {
    ours(stream)?;
    let words = stream.cast::<Stream>();
    // SAFETY: it is ours, and the caller uses it no more.
    let mut ended = unsafe { Box::from_raw(words) };
    ended.mark = 0;
    Some(ended.listing().fd)
}

impl Stream {
    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry, as it stays until the one after it is asked for; `None` at the end.
    pub(crate) fn next(&self) -> Result<Option<*mut libc::dirent64>, i32> {
        let mut listing = self.listing();
        Ok(listing.step()?.then(|| &raw mut *listing.told))
    }

    /// A copy of the next entry.
    pub(crate) fn next_copy(&self) -> Result<Option<libc::dirent64>, i32> {
        let mut listing = self.listing();
        Ok(listing.step()?.then_some(*listing.told))
    }

    /// The number of the next entry.
    pub(crate) fn at(&self) -> i64 {
        i64::try_from(self.listing().at).unwrap_or(i64::MAX)
    }

    /// Goes to an entry by a number that was told.
    pub(crate) fn seek(&self, at: i64) {
        self.listing().at = u64::try_from(at).unwrap_or(0);
    }

    /// Begins anew, with what is there then.
    pub(crate) fn rewind(&self) {
        let mut listing = self.listing();
        listing.at = 0;
        listing.starts.truncate(1);
        (listing.page, listing.rest) = (None, None);
    }

    /// The descriptor, which the kernel reads by from now on.
    pub(crate) fn descriptor(&self) -> c_int {
        let mut listing = self.listing();
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        if listing.is_path
            && let Ok(fd) = system::open_at(listing.fd, c".", flags)
        {
            listing.is_path = system::duplicate_to(fd, listing.fd, libc::O_CLOEXEC).is_err();
            system::close(fd);
        }
        listing.fd
    }
}

impl Listing {
    /// Whether there is another entry, which is `told` then.
    fn step(&mut self) -> Result<bool, i32> {
        if self.at < FIRST {
            let (name, ino) = if self.at == 0 { (c".", self.ino) } else { (c"..", UNKNOWN_INO) };
            self.at += 1;
            let entry = Entry { ino, kind: libc::DT_DIR, name: name.to_bytes().into() };
            put(&mut self.told, &entry, self.at);
            return Ok(true);
        }
        if let Some((_, dir, process)) = &self.by
            && *process == dolmen_env::process_id()
        {
            let dir = dir.clone();
            match self.step_by_store(&dir) {
                Ok(is_there) => return Ok(is_there),
                // It was removed.
                Err(Error::NotFound) => return Ok(false),
                Err(_) => {}
            }
        }
        if let Some(by) = self.by.take()
            && by.2 != dolmen_env::process_id()
        {
            // What the parent of a forked child has is not the child's to end.
            core::mem::forget(by);
        }
        self.step_by_kernel()
    }

    fn step_by_store(&mut self, dir: &Dir) -> dolmen_dfs::Result<bool> {
        loop {
            let (page, place) = ((self.at - FIRST) / STRIDE, (self.at - FIRST) % STRIDE);
            let Some(entries) = self.page(dir, page)? else { return Ok(false) };
            if let Some(entry) = usize::try_from(place).ok().and_then(|place| entries.get(place)) {
                self.at += 1;
                put(&mut self.told, entry, self.at);
                return Ok(true);
            }
            self.at = FIRST + (page + 1) * STRIDE;
        }
    }

    /// The entries of a page; `None` behind the last.
    fn page(&mut self, dir: &Dir, number: u64) -> dolmen_dfs::Result<Option<Arc<[Entry]>>> {
        if let Some((known, entries)) = &self.page
            && *known == number
        {
            return Ok(Some(Arc::clone(entries)));
        }
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(start) = self.starts.get(at) else { return Ok(None) };
        let mut cookie = *start;
        if cookie.is_end() {
            return Ok(None);
        }
        if number == 0 {
            // Ignored: the names are known, and the time of the access is none of their reader's.
            _ = dir.obj().note_read();
        }
        let found = dir.list_numbers(&mut cookie, PAGE_NAMES)?;
        if at + 1 == self.starts.len() {
            self.starts.push(cookie);
        }
        let entries: Arc<[Entry]> = found.into_iter().map(entry_of).collect();
        self.page = Some((number, Arc::clone(&entries)));
        Ok(Some(entries))
    }

    fn step_by_kernel(&mut self) -> Result<bool, i32> {
        if self.rest.is_none() {
            let rest = system::list(self.fd)?;
            // It lists in the order of the store.
            let last = name_of(&self.told);
            let after =
                (self.at > FIRST).then(|| rest.iter().position(|entry| *entry.name == *last)).flatten();
            if let Some(after) = after {
                self.at = FIRST + after as u64 + 1;
            }
            self.rest = Some(rest);
        }
        let place = usize::try_from(self.at - FIRST).unwrap_or(usize::MAX);
        let Some(entry) = self.rest.as_ref().and_then(|rest| rest.get(place)) else { return Ok(false) };
        self.at += 1;
        put(&mut self.told, entry, self.at);
        Ok(true)
    }
}

fn entry_of((name, told): Found<(FileKind, u64)>) -> Entry {
    match told {
        Ok((kind, ino)) => {
            Entry { ino, kind: u8::try_from(kind.bits() >> 12).unwrap_or(libc::DT_UNKNOWN), name }
        }
        Err(_) => Entry { ino: UNKNOWN_INO, kind: libc::DT_UNKNOWN, name },
    }
}

fn put(told: &mut libc::dirent64, entry: &Entry, next: u64) {
    const HEAD_BYTES: usize = core::mem::offset_of!(libc::dirent64, d_name);
    let len = entry.name.len().min(told.d_name.len() - 1);
    told.d_ino = entry.ino;
    told.d_off = i64::try_from(next).unwrap_or(i64::MAX);
    told.d_reclen = u16::try_from((HEAD_BYTES + len + 1).next_multiple_of(8)).unwrap_or(u16::MAX);
    told.d_type = entry.kind;
    for (to, byte) in told.d_name.iter_mut().zip(&entry.name[..len]) {
        *to = byte.cast_signed();
    }
    told.d_name[len] = 0;
}

fn name_of(told: &libc::dirent64) -> Vec<u8> {
    told.d_name.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect()
}
