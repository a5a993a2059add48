//! Where a path leads, as far as its directory: the kernel follows it that far.

use crate::heard;
use crate::mounts::{Mounted, mounts};
use crate::state::{is_off, state};
use crate::{settle, system};
use core::cell::OnceCell;
use core::ffi::{CStr, c_int};
use dolmen_dfs::Dir;
use std::ffi::CString;
use std::sync::Arc;

/// Of the kernel since 6.8: tells a mount by a number that no other ever has.
pub(crate) const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
const PATH_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;

/// An entry, which may exist, of a directory that this process reaches by itself.
pub(crate) struct Place<'a> {
    pub(crate) mount: Arc<Mounted>,
    /// Found when it is needed first.
    dir: OnceCell<Dir>,
    /// What the kernel knows of the directory.
    pub(crate) found: libc::statx,
    pub(crate) name: &'a [u8],
    pub(crate) parent: Parent,
}

/// Most paths are shorter, and have room beside the rest.
const SHORT_BYTES: usize = 192;

/// The path of a directory, with a dot and a zero at its end: with these the kernel looks whether it may be passed through.
pub(crate) struct Parent {
    from: c_int,
    short: [u8; SHORT_BYTES],
    len: usize,
    /// In place of the short one.
    long: Option<CString>,
}

impl Parent {
    fn new(from: c_int, path: &[u8]) -> Option<Self> {
        let len = path.len() + 2;
        let (mut short, mut long) = ([0; SHORT_BYTES], None);
        match short.get_mut(..len) {
            Some(room) => {
                room[..path.len()].copy_from_slice(path);
                room[path.len()] = b'.';
            }
            None if path.len() < PATH_BYTES_MAX => long = Some(CString::new([path, b"."].concat()).ok()?),
            None => return None,
        }
        Some(Self { from, short, len, long })
    }

    pub(crate) fn path(&self) -> &CStr {
        match &self.long {
            Some(long) => long,
            None => CStr::from_bytes_with_nul(&self.short[..self.len]).unwrap_or(c"."),
        }
    }

    /// A descriptor of the directory by which nothing is read or written.
    pub(crate) fn open(&self, flags: c_int) -> Result<c_int, c_int> {
        system::open_at(self.from, self.path(), libc::O_PATH | libc::O_DIRECTORY | flags)
    }
}

/// Whether a path may name what this process has open.
pub(crate) fn leads_to_descriptors(path: &CStr) -> bool {
    let path = path.to_bytes();
    [&b"/proc/"[..], b"/dev/fd", b"/dev/std"].iter().any(|begin| path.starts_with(begin))
}

/// Before a path is followed: what leads to the process's own descriptors must find the kernel's files there. One that names a
/// single descriptor leads to no other; programs have it for what is below a directory that they have open.
pub(crate) fn settle_on(path: &CStr) {
    if !crate::files::is_any() || !leads_to_descriptors(path) {
        return;
    }
    let path = path.to_bytes();
    let rest = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"));
    let number = rest.and_then(|rest| rest.split(|byte| *byte == b'/').next());
    match number.and_then(|number| str::from_utf8(number).ok()?.parse().ok()) {
        Some(fd) => settle::descriptor(fd),
        None => settle::everything(),
    }
}

/// Directory and name of a path; `None` if its last part names a directory for sure, or what the mount alone knows.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (dir, name) = path.split_at(at);
    let is_special = matches!(name, b"" | b"." | b".." | b".snapshots") || name.starts_with(b".dolmen-");
    (!is_special && name.len() <= NAME_BYTES_MAX).then_some((dir, name))
}

/// What the kernel knows of the directory of `path`, and the name there.
pub(crate) fn parent_of(from: c_int, path: &CStr) -> Option<(Parent, libc::statx, &[u8])> {
    let (dir, name) = split(path.to_bytes())?;
    let parent = Parent::new(from, dir)?;
    let mask = libc::STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE;
    let found = system::statx(from, parent.path(), libc::AT_STATX_DONT_SYNC, mask).ok()?;
    if found.stx_mask & STATX_MNT_ID_UNIQUE == 0 {
        mounts().note_old_kernel();
        return None;
    }
    Some((parent, found, name))
}

/// The place that `path` means; `None` if it is not ours.
pub(crate) fn of(from: c_int, path: &CStr) -> Option<Place<'_>> {
    if is_off() {
        return None;
    }
    let (parent, found, name) = parent_of(from, path)?;
    let mount = mounts().of(&found, from, parent.path())?;
    Some(Place { mount, dir: OnceCell::new(), found, name, parent })
}

impl Place<'_> {
    /// The directory, where lists of access have a say.
    pub(crate) fn listed_dir(&self) -> Option<Dir> {
        self.mount.listed_dir(&self.found, self.parent.from, self.parent.path())
    }

    /// Whether the kernel lets the caller make entries here.
    pub(crate) fn may_add(&self) -> bool {
        // What is told of the directory is as of now: the kernel has looked at its rights on the way through the dot.
        let ask = || system::may(self.parent.from, self.parent.path(), libc::W_OK | libc::X_OK);
        self.mount.writes && self.mount.may_add(&self.found, ask)
    }

    /// Whether it lets him remove them, whosever they are.
    pub(crate) fn may_remove(&self) -> bool {
        let is_sticky = u32::from(self.found.stx_mode) & libc::S_ISVTX != 0;
        (!is_sticky || self.found.stx_uid == state().user().0) && self.may_add()
    }

    /// Whether he may make entries here, and they get nothing from the directory: no group, and no list.
    pub(crate) fn is_plain(&self) -> bool {
        let takes_group = u32::from(self.found.stx_mode) & libc::S_ISGID != 0;
        let is_plain = |dir| self.mount.is_plain(self.found.stx_ino, dir);
        !takes_group && self.may_add() && self.dir().is_some_and(is_plain)
    }

    /// The directory in the container; `None` if it is none there.
    fn dir(&self) -> Option<&Dir> {
        if self.dir.get().is_none() {
            let dir = self.mount.dir(&self.found, self.parent.from, self.parent.path())?;
            // Ignored: it was found meanwhile, by nobody else.
            _ = self.dir.set(dir);
        }
        self.dir.get()
    }

    /// Whether something is mounted over it, as the kernel says.
    ///
    /// REQUIRES: `from` and `path` are what led here.
    pub(crate) fn is_mounted_over(&self, from: c_int, path: &CStr) -> bool {
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
        system::statx(from, path, flags, STATX_MNT_ID_UNIQUE)
            .map_or(true, |found| found.stx_mnt_id != self.found.stx_mnt_id)
    }

    /// Gives back to the kernel what was opened here; whether anything was.
    pub(crate) fn settle(&self) -> bool {
        crate::files::is_any() && settle::named(self.mount.id, self.found.stx_ino, self.name)
    }

    /// Finds the directory once more if somebody else has moved it since it was found; `None` if it is none of the container any
    /// more.
    pub(crate) fn directory(&self) -> Option<Dir> {
        let ino = self.found.stx_ino;
        let dir = self.dir()?;
        if self.mount.is_at_home(ino, dir) {
            return Some(dir.clone());
        }
        self.mount.forget_dir(ino);
        let dir = self.mount.dir(&self.found, self.parent.from, self.parent.path())?;
        self.mount.is_at_home(ino, &dir).then_some(dir)
    }

    /// What is there: as it is known, or as the daemon says.
    pub(crate) fn look(&self) -> dolmen_dfs::Result<heard::Found> {
        match self.mount.heard.known(self.found.stx_ino, self.name) {
            Some(found) => Ok(found),
            None => self.attempt(|dir| self.mount.heard.look(dir, self.found.stx_ino, self.name)),
        }
    }

    /// Notes that this process has made, removed or replaced the name.
    pub(crate) fn note_name(&self) {
        self.mount.note_name(self.found.stx_ino, self.name);
    }

    /// Does something in the directory, and once more if another has moved that since it was found.
    pub(crate) fn attempt<T>(&self, act: impl Fn(&Dir) -> dolmen_dfs::Result<T>) -> dolmen_dfs::Result<T> {
        match act(self.dir().ok_or(dolmen_dfs::Error::Stale)?) {
            Err(dolmen_dfs::Error::Stale) => {
                self.mount.forget_dir(self.found.stx_ino);
                let again = self.mount.dir(&self.found, self.parent.from, self.parent.path());
                again.map_or(Err(dolmen_dfs::Error::Stale), |dir| act(&dir))
            }
            done => done,
        }
    }
}
