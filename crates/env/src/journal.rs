//! A file that grows by records, for what must outlive its process and is small.
//!
//! Invariants: what was appended is there after the process dies, and after a loss of power once it was synced; of what was
//! being appended then a part may be there. What is replaced is the old contents or the new ones after any crash.

use crate::error::{Error, Op, Result};
use crate::real::file::write_whole;
use crate::root::{HeldDir, give_to_owner, replaced};
use rustix::fs::{Mode, OFlags, fdatasync, fsync, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A journal that is open. Whoever has it is the only one.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    dir: OwnedFd,
    name: String,
    file: Arc<OwnedFd>,
    len: u64,
}

/// What makes appended records last over a loss of power, while others append.
#[derive(Debug, Clone)]
pub struct JournalSync {
    path: PathBuf,
    file: Arc<OwnedFd>,
}

impl Journal {
    /// The journal `name` in a subdirectory of `above`, both made if they are not there, and what is in it. It stays in that
    /// directory, wherever that is moved.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoSpace`].
    pub fn open(above: &HeldDir, subdirectory: &str, name: &str) -> Result<(Self, Vec<u8>)> {
        let path = above.path().join(subdirectory).join(name);
        let failed = failed(Op::Open, &path);
        let fd = above.subdirectory(subdirectory).map_err(&failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&fd, name, flags, OWN_FILE).map_err(&failed)?;
        give_to_owner(&fd, &file).and_then(|()| fsync(&fd)).map_err(&failed)?;
        let (mut bytes, mut file) = (Vec::new(), File::from(file));
        file.read_to_end(&mut bytes).map_err(|error| Error::from_std(Op::Read, &shown(&path), &error))?;
        let (len, file) = (bytes.len() as u64, Arc::new(file.into()));
        Ok((Self { path, dir: fd, name: name.to_owned(), file, len }, bytes))
    }

    /// Appends.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; then nothing counts as appended, and the next one is written over what there is of it.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        write_whole(self.file.as_fd(), self.len, bytes).map_err(failed(Op::Write, &self.path))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// What is appended next is written over all behind the first `len` bytes, such as a part of a record.
    pub fn cut(&mut self, len: u64) {
        self.len = self.len.min(len);
    }

    /// Its length in bytes.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        self.len
    }

    /// What syncs the records that were appended so far.
    #[must_use]
    pub fn syncs(&self) -> JournalSync {
        JournalSync { path: self.path.clone(), file: Arc::clone(&self.file) }
    }

    /// Has `bytes` and nothing else, in one durable step.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; the old contents stay.
    pub fn replace(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = |error| Error::from_std(Op::Write, &shown(&self.path), &error);
        let file = replaced(&self.dir, &self.name, bytes).map_err(failed)?;
        (self.file, self.len) = (Arc::new(file.into()), bytes.len() as u64);
        fsync(&self.dir).map_err(self::failed(Op::Write, &self.path))
    }
}

impl JournalSync {
    /// Waits until the device has them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        fdatasync(&*self.file).map_err(failed(Op::Flush, &self.path))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn failed(op: Op, path: &Path) -> impl Fn(Errno) -> Error + use<> {
    let name = shown(path);
    move |errno| Error::from_errno(op, &name, 0, errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_or_replaced_is_there_for_the_next() {
        let dir = std::env::temp_dir().join(format!("dolmen-journal-{}", std::process::id()));
        assert!(HeldDir::open(&dir).is_err(), "nothing is made above its directory");
        std::fs::create_dir(&dir).unwrap();
        let open = || Journal::open(&HeldDir::open(&dir).unwrap(), "inner", "log");
        let (mut journal, found) = open().unwrap();
        assert!(found.is_empty());
        journal.append(b"one").unwrap();
        journal.append(b"to be cut").unwrap();
        journal.cut(3);
        journal.append(b"two").unwrap();
        rustix::fs::ftruncate(&*journal.file, 6).unwrap();
        journal.syncs().sync().unwrap();
        let (mut journal, found) = open().unwrap();
        assert_eq!((found.as_slice(), journal.byte_count()), (b"onetwo".as_slice(), 6));
        journal.replace(b"three").unwrap();
        journal.append(b"four").unwrap();
        assert_eq!(open().unwrap().1, b"threefour");
        assert_eq!(std::fs::read_dir(dir.join("inner")).unwrap().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
