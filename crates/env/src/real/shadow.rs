//! A disk that leaves its directory as it is: changed files are copies in memory, under the names of the originals.
//!
//! Invariants: of an ephemeral disk nothing is written through a descriptor of the directory's own files; a name
//! with a shadow is never looked up in the directory.

use super::file::{Handle, OpenFile, read_whole, write_whole};
use super::{RealDisk, refuse_mapped};
use crate::disk::FileId;
use crate::error::{Error, Op, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, MemfdFlags, SeekFrom, fstat, ftruncate, memfd_create, seek, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// By name: the file in memory, or `None` for one that was removed.
#[derive(Default)]
pub(super) struct Shadows(BTreeMap<String, Option<Arc<Handle>>>);

impl Shadows {
    /// Whether a name has to be looked up here.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names of the files in memory.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()).collect()
    }

    fn file(&self, name: &str) -> Option<&Arc<Handle>> {
        self.0.get(name)?.as_ref()
    }
}

impl RealDisk {
    pub(super) fn is_shadow(&self, file: FileId) -> Result<bool> {
        let open = self.files.at(file)?;
        Ok(self.shadows.file(&open.name).is_some_and(|shadow| Arc::ptr_eq(shadow, &open.handle)))
    }

    /// Before a file is written: on an ephemeral disk it becomes a copy in memory.
    pub(super) fn shadow_if_ephemeral(&mut self, file: FileId) -> Result<()> {
        if !self.options.ephemeral || self.is_shadow(file)? {
            return Ok(());
        }
        let open = self.files.at(file)?;
        refuse_mapped(open)?;
        let failed = |errno| Error::from_errno(Op::Write, &open.name, 0, errno);
        let copy = in_memory(&open.name, open.len).map_err(failed)?;
        copy_contents(&open.handle, &copy, open.len).map_err(failed)?;
        let inode = inode_of(&copy).map_err(failed)?;
        let open = self.files.at_mut(file)?;
        open.handle = Arc::new(copy);
        open.inode = inode;
        self.shadows.0.insert(open.name.clone(), Some(Arc::clone(&open.handle)));
        Ok(())
    }

    pub(super) fn create_shadow(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        if self.has(name)? {
            return Err(Error::from_errno(Op::Create, name, 0, Errno::EXIST));
        }
        let failed = |errno| Error::from_errno(Op::Create, name, 0, errno).needing(len_bytes);
        let file = in_memory(name, len_bytes).map_err(failed)?;
        self.shadows.0.insert(name.to_owned(), Some(Arc::new(file)));
        self.open_shadow(name)
    }

    pub(super) fn open_shadow(&mut self, name: &str) -> Result<FileId> {
        let failed = |errno| Error::from_errno(Op::Open, name, 0, errno);
        let handle = Arc::clone(self.shadows.file(name).ok_or_else(|| failed(Errno::NOENT))?);
        let stat = fstat(handle.buffered()).map_err(failed)?;
        let inode = (stat.st_dev, stat.st_ino);
        if self.files.iter().any(|other| other.inode == inode) {
            return Err(Error::Busy { name: name.to_owned() });
        }
        let len = u64::try_from(stat.st_size).map_err(|_negative| failed(Errno::INVAL))?;
        Ok(self.files.insert(OpenFile { name: name.to_owned(), handle, len, inode, mapped: Arc::default() }))
    }

    pub(super) fn remove_shadow(&mut self, name: &str) -> Result<()> {
        if !self.has(name)? {
            return Err(Error::from_errno(Op::Remove, name, 0, Errno::NOENT));
        }
        self.shadows.0.insert(name.to_owned(), None);
        Ok(())
    }

    pub(super) fn rename_shadow(&mut self, from: &str, to: &str) -> Result<()> {
        let open = self.files.ids().find(|&id| self.files.at(id).is_ok_and(|file| file.name == from));
        let file = match open {
            Some(file) => file,
            None => crate::disk::Disk::open(self, from)?,
        };
        let shadowed = self.shadow_if_ephemeral(file);
        if open.is_none() {
            drop(self.files.remove(file));
        }
        shadowed?;
        let moved = self.shadows.0.insert(from.to_owned(), None).flatten();
        self.shadows.0.insert(to.to_owned(), moved);
        for file in self.files.iter_mut().filter(|file| file.name == from) {
            to.clone_into(&mut file.name);
        }
        Ok(())
    }

    fn has(&self, name: &str) -> Result<bool> {
        if self.shadows.covers(name) {
            return Ok(self.shadows.file(name).is_some());
        }
        match statat(self.dir.buffered(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::from_errno(Op::Stat, name, 0, errno)),
        }
    }
}

/// A file of zeros without a name in any directory.
fn in_memory(name: &str, len_bytes: u64) -> rustix::io::Result<Handle> {
    let file: OwnedFd = memfd_create(name, MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len_bytes)?;
    Ok(Handle::new(file, None))
}

fn inode_of(file: &Handle) -> rustix::io::Result<(u64, u64)> {
    let stat = fstat(file.buffered())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Copies what there is; holes stay holes, which take no memory.
fn copy_contents(from: &Handle, to: &Handle, len_bytes: u64) -> rustix::io::Result<()> {
    let piece = usize::try_from(PIECE_BYTES.min(len_bytes)).unwrap_or(usize::MAX);
    let mut buf = vec![0; piece];
    let mut end = 0;
    while let Some(mut offset) = data_from(from, end, len_bytes)? {
        end = seek(from.buffered(), SeekFrom::Hole(offset))?.min(len_bytes);
        while offset < end {
            let now = &mut buf[..usize::try_from(end - offset).unwrap_or(piece).min(piece)];
            read_whole(from.buffered(), offset, now)?;
            write_whole(to.buffered(), offset, now)?;
            offset += now.len() as u64;
        }
    }
    Ok(())
}

/// Where the next data of a file begins, if there is any before its end.
fn data_from(file: &Handle, offset: u64, len_bytes: u64) -> rustix::io::Result<Option<u64>> {
    match seek(file.buffered(), SeekFrom::Data(offset)) {
        Ok(start) => Ok(Some(start).filter(|&start| start < len_bytes)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno),
    }
}
