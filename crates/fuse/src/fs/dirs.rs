//! Listing directories.

use super::{Done, Fs, Reply};
use crate::abi::reply::{self, ENTRY_BYTES, dirent_bytes};
use crate::fs::files::note_read;
use crate::fs::snapshots;
use crate::handles::{Open, OpenDir};
use crate::table::{Node, What};
use dolmen_dfs::{Cookie, Dir, Error, errno as number};
use std::sync::{Arc, Mutex, PoisonError};

/// Names that are asked for at once.
const PAGE_NAMES: u32 = 256;

/// The number of an entry of which nobody knows it, as the C library of FUSE has it.
const UNKNOWN_INO: u64 = 0xffff_ffff;

/// The number of `.`, `..` and of the first name.
const FIRST: u64 = 2;

/// Where the listing of an open directory stands. An entry's number is that of its page times the names of a page, and its place
/// there.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Where each page begins that was read so far, and the one after them.
    starts: Vec<Cookie>,
    /// The page that was read last: its number and names.
    page: Option<(usize, Vec<Box<[u8]>>)>,
}

impl Listing {
    fn new() -> Self {
        Self { starts: vec![Cookie::default()], page: None }
    }

    /// The names of page `at`; `None` behind the last.
    fn page(&mut self, dir: &Dir, at: usize) -> dolmen_dfs::Result<Option<&[Box<[u8]>]>> {
        if self.page.as_ref().is_none_or(|(number, _)| *number != at) {
            let Some(start) = self.starts.get(at) else { return Ok(None) };
            let mut cookie = *start;
            if cookie.is_end() {
                return Ok(None);
            }
            let names = dir.list(&mut cookie, PAGE_NAMES)?;
            let names = names.iter().take(PAGE_NAMES as usize).map(Box::from).collect();
            if at + 1 == self.starts.len() {
                self.starts.push(cookie);
            }
            self.page = Some((at, names));
        }
        Ok(self.page.as_ref().map(|(_, names)| &names[..]))
    }
}

impl Fs {
    pub(super) fn opendir(&self, node: u64, reply: &mut Reply) -> Done {
        let Node { view, what } = self.node(node)?;
        let open = match what {
            What::Snapshots => Open::Snapshots(self.snapshot_names()?),
            What::Obj(obj) => {
                let dir = self.done(obj.as_dir())?;
                let ino = snapshots::ino_in(view, self.done(obj.stat())?.ino);
                Open::Dir(Arc::new(OpenDir { dir, ino, view, listing: Mutex::new(Listing::new()) }))
            }
        };
        let handle = self.opened(open, reply);
        reply::open(&mut reply.out, handle, reply::OpenAs::Fresh);
        Ok(())
    }

    pub(super) fn readdir(
        &self,
        handle: u64,
        offset: u64,
        room: usize,
        plus: bool,
        reply: &mut Reply,
    ) -> Done {
        let open = match self.handles.find(handle)? {
            Open::Dir(open) => open,
            Open::File(_) => return Err(number::ENOTDIR),
            Open::Snapshots(names) => {
                list_snapshots(&names, offset, room, plus, reply);
                return Ok(());
            }
        };
        let mut listing = open.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = offset;
        if at == 0 {
            // A listing that begins anew sees what has come and gone.
            *listing = Listing::new();
            note_read(&open.dir.obj());
        }
        while at < FIRST {
            let (name, ino) = if at == 0 { (&b"."[..], open.ino) } else { (&b".."[..], UNKNOWN_INO) };
            if !fits(reply, room, name, plus) {
                return Ok(());
            }
            at += 1;
            put_plain(reply, ino, at, name, plus);
        }
        let stride = u64::from(PAGE_NAMES);
        loop {
            let (page, place) = ((at - FIRST) / stride, (at - FIRST) % stride);
            let page_number = usize::try_from(page).map_err(|_no_page| number::EINVAL)?;
            let Some(names) = self.done(listing.page(&open.dir, page_number))? else { return Ok(()) };
            let place = usize::try_from(place).map_err(|_no_place| number::EINVAL)?;
            let mut left = names.get(place..).unwrap_or_default();
            at = FIRST + page * stride + place as u64;
            // Of what is gone since it was listed the room is left for others.
            while !left.is_empty() {
                let some = &left[..fitting(reply, room, left, plus)];
                if some.is_empty() {
                    return Ok(());
                }
                self.list_some(&open, some, at + 1, plus, reply)?;
                (left, at) = (&left[some.len()..], at + some.len() as u64);
            }
            at = FIRST + (page + 1) * stride;
        }
    }

    /// Lists names, of which the first is followed by number `next`: what they name is asked for side by side.
    fn list_some(
        &self,
        open: &OpenDir,
        names: &[Box<[u8]>],
        next: u64,
        plus: bool,
        reply: &mut Reply,
    ) -> Done {
        let asked: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
        if !plus {
            let found = open.dir.numbers_of_all(&asked);
            for ((name, next), found) in asked.into_iter().zip(next..).zip(found) {
                if let Some((kind, ino)) = self.listed((name, next), plus, found, reply)? {
                    let ino = snapshots::ino_in(open.view, ino);
                    reply::dirent(&mut reply.out, ino, next, kind.bits() >> 12, name);
                }
            }
            return Ok(());
        }
        let found = open.dir.lookup_all(&asked, self.takes_leases(open.view));
        for ((name, next), (found, leased)) in asked.into_iter().zip(next..).zip(found) {
            if let Some((obj, stat)) = self.listed((name, next), plus, found, reply)? {
                self.found(open.view, obj, (&stat, &leased), reply);
                let ino = snapshots::ino_in(open.view, stat.ino);
                reply::dirent(&mut reply.out, ino, next, stat.mode() >> 12, name);
            }
        }
        Ok(())
    }

    /// What was found of a name, if it is to be told; what is damaged, or may not be looked at, is listed here without that.
    fn listed<T>(
        &self,
        (name, next): (&[u8], u64),
        plus: bool,
        found: dolmen_dfs::Result<T>,
        reply: &mut Reply,
    ) -> Done<Option<T>> {
        match found {
            // Gone since it was listed.
            Err(Error::NotFound | Error::Stale) => return Ok(None),
            // He may list the directory, and not pass through it.
            Err(Error::NoPermission) => {}
            Err(error) if error.is_damage() => self.note(&error.to_string()),
            found => return self.done(found).map(Some),
        }
        put_plain(reply, UNKNOWN_INO, next, name, plus);
        Ok(None)
    }
}

fn fits(reply: &Reply, room: usize, name: &[u8], plus: bool) -> bool {
    reply.out.len() + entry_bytes(name, plus) <= room
}

/// How many of these names there is room for, at most.
fn fitting(reply: &Reply, room: usize, names: &[Box<[u8]>], plus: bool) -> usize {
    let mut len = reply.out.len();
    let fits = |name: &&[u8]| {
        len += entry_bytes(name, plus);
        len <= room
    };
    names.iter().map(|name| &**name).take_while(fits).count()
}

fn entry_bytes(name: &[u8], plus: bool) -> usize {
    let head = if plus { ENTRY_BYTES } else { 0 };
    head + dirent_bytes(name)
}

/// Lists the names of snapshots, behind `.` and `..`. None is mounted before somebody looks into it.
fn list_snapshots(names: &[Box<[u8]>], offset: u64, room: usize, plus: bool, reply: &mut Reply) {
    let dots = [&b"."[..], b".."].into_iter();
    let all = dots.chain(names.iter().map(|name| &name[..])).zip(1..);
    for (name, next) in all.skip_while(|(_, next)| *next <= offset) {
        if !fits(reply, room, name, plus) {
            return;
        }
        let ino = if name == b"." { snapshots::INO } else { UNKNOWN_INO };
        put_entry(reply, (ino, DIRECTORY), next, name, plus);
    }
}

/// The kind of an entry that is a directory.
const DIRECTORY: u32 = 4;

/// An entry of which the kernel is not to remember anything.
fn put_plain(reply: &mut Reply, ino: u64, next: u64, name: &[u8], plus: bool) {
    const UNKNOWN: u32 = 0;
    let kind = if name == b"." || name == b".." { DIRECTORY } else { UNKNOWN };
    put_entry(reply, (ino, kind), next, name, plus);
}

fn put_entry(reply: &mut Reply, (ino, kind): (u64, u32), next: u64, name: &[u8], plus: bool) {
    if plus {
        reply.out.bytes(&[0; ENTRY_BYTES]);
    }
    reply::dirent(&mut reply.out, ino, next, kind, name);
}
