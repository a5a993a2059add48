//! A mounted file system, its directories and files.

use super::ffi::{self, Dfs, DfsObj, Iov, SgList, Stat, Text};
use super::{Connection, Handles, done, global, text};
use crate::error::Result;
use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

/// How a file is opened: flags of `open(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::load) enum Mode {
    /// An existing one, to be read.
    Read,
    /// Made if it is missing, to be written and read.
    Write,
    /// Made, and not there before.
    Create,
}

const O_RDONLY: c_int = 0;
const O_RDWR: c_int = 2;
const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;
const S_IFREG: c_uint = 0o100_000;
const S_IFDIR: c_uint = 0o040_000;

impl Mode {
    fn flags(self) -> c_int {
        match self {
            Self::Read => O_RDONLY,
            Self::Write => O_RDWR | O_CREAT,
            Self::Create => O_RDWR | O_CREAT | O_EXCL,
        }
    }
}

/// A mounted file system. Names are those of one directory, or of its root.
pub(in crate::load) struct Files {
    dfs: *mut Dfs,
    /// Class and chunk of new files, 0 for what the container says.
    class: u32,
    chunk_bytes: u64,
}

/// An open file or directory.
pub(in crate::load) struct File {
    obj: *mut DfsObj,
}

impl Files {
    /// Mounts the file system of a container.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn mount(connection: &Connection) -> Result<Self> {
        let mut dfs = null_mut();
        let (pool, cont, at) = (connection.pool, connection.cont, &raw mut dfs);
        // SAFETY: the library checks the handles; there is a place for the mount.
        done("dfs_mount", "", unsafe { ffi::dfs_mount(pool, cont, O_RDWR, at) })?;
        Ok(Self { dfs, class: 0, chunk_bytes: 0 })
    }

    /// Mounts what another process has mounted.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn of(connection: &Connection, handles: &Handles) -> Result<Self> {
        let mut dfs = null_mut();
        let (pool, cont, at) = (connection.pool, connection.cont, &raw mut dfs);
        let glob = Iov::of(handles.files.as_deref().unwrap_or(&[]));
        // SAFETY: the bytes live during the call; there is a place for the mount.
        let number = unsafe { ffi::dfs_global2local(pool, cont, O_RDWR, glob, at) };
        done("dfs_global2local", "", number)?;
        Ok(Self { dfs, class: 0, chunk_bytes: 0 })
    }

    /// How new files are laid out.
    pub(in crate::load) fn laid_out(mut self, class: u32, chunk_bytes: u64) -> Self {
        (self.class, self.chunk_bytes) = (class, chunk_bytes);
        self
    }

    pub(super) fn global(&self) -> Result<Vec<u8>> {
        // SAFETY: the mount is there until it is given up; the buffer is one of the call.
        global("dfs_local2global", |glob| unsafe { ffi::dfs_local2global(self.dfs, glob) })
    }

    /// Opens a file in a directory.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn open(&self, dir: Option<&File>, name: &str, mode: Mode) -> Result<File> {
        self.open_as(dir, name, S_IFREG | 0o644, mode.flags())
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn open_dir(&self, dir: Option<&File>, name: &str) -> Result<File> {
        self.open_as(dir, name, S_IFDIR | 0o755, O_RDWR)
    }

    fn open_as(&self, dir: Option<&File>, name: &str, mode: c_uint, flags: c_int) -> Result<File> {
        let (named, mut obj) = (text(name)?, null_mut());
        let (dir, class, chunk, at) = (parent(dir), self.class, self.chunk_bytes, &raw mut obj);
        let (named, no_value) = (Text::from(&*named), Text::from(None));
        // SAFETY: mount, directory and name live during the call; there is a place for what is opened.
        let number = unsafe { ffi::dfs_open(self.dfs, dir, named, mode, flags, class, chunk, no_value, at) };
        done("dfs_open", name, number).map(|()| File { obj })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn make_dir(&self, dir: Option<&File>, name: &str) -> Result<()> {
        let named = text(name)?;
        let (dir, label) = (parent(dir), Text::from(&*named));
        // SAFETY: mount, directory and name live during the call.
        done("dfs_mkdir", name, unsafe { ffi::dfs_mkdir(self.dfs, dir, label, 0o755, 0) })
    }

    /// Removes a name, and with `force` all below it.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn remove(&self, dir: Option<&File>, name: &str, force: bool) -> Result<()> {
        let named = text(name)?;
        let (dir, label) = (parent(dir), Text::from(&*named));
        // SAFETY: mount, directory and name live during the call; nobody asks for the object.
        let number = unsafe { ffi::dfs_remove(self.dfs, dir, label, force, null_mut()) };
        done("dfs_remove", name, number)
    }

    /// The size of what a name leads to.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn stat(&self, dir: Option<&File>, name: &str) -> Result<u64> {
        let (named, mut stat) = (text(name)?, Stat::NEW);
        let (dir, label, at) = (parent(dir), Text::from(&*named), &raw mut stat);
        // SAFETY: mount, directory and name live during the call; there is a place for the answer.
        let number = unsafe { ffi::dfs_stat(self.dfs, dir, label, at) };
        done("dfs_stat", name, number).map(|()| stat.size_bytes())
    }

    /// Writes bytes at an offset of a file.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut iov = Iov::of(bytes);
        let mut list = SgList { nr: 1, nr_out: 0, iovs: &raw mut iov };
        // SAFETY: mount, file and bytes live during the call, which is over when it returns.
        let number = unsafe { ffi::dfs_write(self.dfs, file.obj, &raw mut list, offset, null_mut()) };
        done("dfs_write", "", number)
    }

    /// Reads bytes at an offset of a file; how many there were.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn read(&self, file: &File, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        let (mut iov, mut read) = (Iov::room(bytes), 0);
        let mut list = SgList { nr: 1, nr_out: 0, iovs: &raw mut iov };
        let (list_at, read_at) = (&raw mut list, &raw mut read);
        // SAFETY: as in `write`; the bytes are this call's alone.
        let number = unsafe { ffi::dfs_read(self.dfs, file.obj, list_at, offset, read_at, null_mut()) };
        done("dfs_read", "", number).map(|()| read)
    }

    /// Gives the mount up.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn unmount(self) -> Result<()> {
        // SAFETY: it is not used again.
        done("dfs_umount", "", unsafe { ffi::dfs_umount(self.dfs) })
    }
}

impl File {
    /// Gives it up.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn close(self) -> Result<()> {
        // SAFETY: it is not used again.
        done("dfs_release", "", unsafe { ffi::dfs_release(self.obj) })
    }
}

fn parent(dir: Option<&File>) -> *mut DfsObj {
    dir.map_or(null_mut(), |dir| dir.obj)
}
