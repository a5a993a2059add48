//! Where a path leads, as far as its directory: the kernel follows it that far.

use crate::heard;
use crate::mounts::{Mounted, mounts};
use crate::state::{is_off, state};
use crate::{settle, system};
use core::ffi::{CStr, c_int};
use dolmen_dfs::Dir;
use std::sync::Arc;

/// Of the kernel since 6.8: tells a mount by a number that no other ever has.
pub(crate) const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
const PATH_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;

/// An entry, which may exist, of a directory that this process reaches by itself.
pub(crate) struct Place<'a> {
    pub(crate) mount: Arc<Mounted>,
    pub(crate) dir: Dir,
    /// What the kernel knows of the directory.
    pub(crate) found: libc::statx,
    pub(crate) name: &'a [u8],
    pub(crate) parent: Parent,
}

/// The path of a directory, with a zero at its end.
pub(crate) struct Parent {
    from: c_int,
    room: [u8; PATH_BYTES_MAX + 2],
    len: usize,
}

impl Parent {
    fn new(from: c_int, path: &[u8]) -> Option<Self> {
        let mut room = [0; PATH_BYTES_MAX + 2];
        room.get_mut(..path.len())?.copy_from_slice(path);
        // With it the kernel looks whether the directory may be passed through.
        *room.get_mut(path.len())? = b'.';
        (path.len() < PATH_BYTES_MAX).then_some(Self { from, room, len: path.len() + 1 })
    }

    pub(crate) fn path(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.room[..=self.len]).unwrap_or(c".")
    }

    /// A descriptor of the directory by which nothing is read or written.
    pub(crate) fn open(&self, flags: c_int) -> Result<c_int, c_int> {
        system::open_at(self.from, self.path(), libc::O_PATH | libc::O_DIRECTORY | flags)
    }
}

/// Whether a path may name what this process has open.
pub(crate) fn leads_to_descriptors(path: &CStr) -> bool {
    let path = path.to_bytes();
    path.starts_with(b"/proc/") || path.starts_with(b"/dev/")
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
    (found.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some((parent, found, name))
}

/// The place that `path` means; `None` if it is not ours.
pub(crate) fn of(from: c_int, path: &CStr) -> Option<Place<'_>> {
    if is_off() {
        return None;
    }
    let (parent, found, name) = parent_of(from, path)?;
    let mount = mounts().of(&found, from, parent.path())?;
    let dir = mount.dir(&found, from, parent.path())?;
    Some(Place { mount, dir, found, name, parent })
}

impl Place<'_> {
    /// The directory, where lists of access have a say.
    pub(crate) fn listed_dir(&self) -> Option<Dir> {
        self.mount.listed_dir(&self.found, self.parent.from, self.parent.path())
    }

    /// Whether the kernel lets the caller make entries here.
    pub(crate) fn may_add(&self) -> bool {
        self.mount.writes && system::may(self.parent.from, self.parent.path(), libc::W_OK | libc::X_OK)
    }

    /// Whether it lets him remove them, whosever they are.
    pub(crate) fn may_remove(&self) -> bool {
        let is_sticky = u32::from(self.found.stx_mode) & libc::S_ISVTX != 0;
        (!is_sticky || self.found.stx_uid == state().user().0) && self.may_add()
    }

    /// Whether he may make entries here, and they get nothing from the directory: no group, and no list.
    pub(crate) fn is_plain(&self) -> bool {
        let takes_group = u32::from(self.found.stx_mode) & libc::S_ISGID != 0;
        !takes_group && self.may_add() && self.mount.is_plain(self.found.stx_ino, &self.dir)
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
        if self.mount.is_at_home(ino, &self.dir) {
            return Some(self.dir.clone());
        }
        self.mount.forget_dir(ino);
        let dir = self.mount.dir(&self.found, self.parent.from, self.parent.path())?;
        self.mount.is_at_home(ino, &dir).then_some(dir)
    }

    /// What is there: as it is known, or as the daemon says.
    pub(crate) fn look(&self) -> dolmen_dfs::Result<heard::Found> {
        self.attempt(|dir| self.mount.heard.look(dir, self.found.stx_ino, self.name))
    }

    /// Notes that this process has made, removed or replaced the name.
    pub(crate) fn note_name(&self) {
        self.mount.note_name(self.found.stx_ino, self.name);
    }

    /// Does something in the directory, and once more if another has moved that since it was found.
    pub(crate) fn attempt<T>(&self, act: impl Fn(&Dir) -> dolmen_dfs::Result<T>) -> dolmen_dfs::Result<T> {
        match act(&self.dir) {
            Err(dolmen_dfs::Error::Stale) => {
                self.mount.forget_dir(self.found.stx_ino);
                let again = self.mount.dir(&self.found, self.parent.from, self.parent.path());
                again.map_or(Err(dolmen_dfs::Error::Stale), |dir| act(&dir))
            }
            done => done,
        }
    }
}
