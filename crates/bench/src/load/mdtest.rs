//! Many files and directories: the phases of mdtest.

use super::daos::{File, Files, Mode};
use super::fault::Difference;
use super::options::MdtestLoad;
use super::pattern::Pattern;
use super::rank::Team;
use crate::error::{Error, Result};

/// What one process works with.
struct Work<'a> {
    load: &'a MdtestLoad,
    team: &'a Team,
    files: &'a Files,
    root: File,
}

/// One repetition.
pub(super) fn round(load: &MdtestLoad, team: &Team, files: &Files) -> Result<()> {
    if load.create {
        team.step("make room", || if team.is_first() { files.make_dir(None, &load.dir) } else { Ok(()) })?;
    }
    let mut root = None;
    team.step("open", || {
        root = Some(files.open_dir(None, &load.dir)?);
        Ok(())
    })?;
    let root = root.expect("the step has opened it");
    let work = Work { load, team, files, root };
    if load.create {
        team.phase("tree creation", |tally| match work.tree() {
            Some(name) => tally.run(0, || files.make_dir(Some(&work.root), &name)),
            None => Ok(()),
        })?;
    }
    if load.dirs {
        work.directories()?;
    }
    if load.files {
        work.files()?;
    }
    if load.remove {
        team.phase("tree removal", |tally| match work.tree() {
            Some(name) => tally.run(0, || files.remove(Some(&work.root), &name, false)),
            None => Ok(()),
        })?;
    }
    work.root.close()?;
    if load.remove {
        let last = || if team.is_first() { files.remove(None, &load.dir, false) } else { Ok(()) };
        team.step("remove", last)?;
    }
    Ok(())
}

impl Work<'_> {
    /// The directory of the tree that this process makes, if it makes one.
    fn tree(&self) -> Option<String> {
        (self.load.unique || self.team.is_first()).then(|| self.tree_of(self.team.rank))
    }

    fn tree_of(&self, rank: u32) -> String {
        if self.load.unique { format!("tree.{rank}") } else { "tree".to_owned() }
    }

    /// A phase that does something with all names of a process, in the directory that has them.
    fn each(
        &self,
        phase: &str,
        rank: u32,
        byte_count: u64,
        mut what: impl FnMut(&File, u64) -> Result<()>,
    ) -> Result<()> {
        let mut dir = None;
        self.team.step("open", || {
            dir = Some(self.files.open_dir(Some(&self.root), &self.tree_of(rank))?);
            Ok(())
        })?;
        let dir = dir.expect("the step has opened it");
        self.team.phase(phase, |tally| {
            (0..self.load.count).try_for_each(|index| tally.run(byte_count, || what(&dir, index)))
        })?;
        dir.close()
    }

    fn directories(&self) -> Result<()> {
        let (load, files, own) = (self.load, self.files, self.team.rank);
        let other = self.team.next(load.stride);
        let name = |rank: u32, index: u64| format!("dir.mdtest.{rank}.{index}");
        if load.create {
            self.each("directory creation", own, 0, |dir, index| {
                files.make_dir(Some(dir), &name(own, index))
            })?;
        }
        if load.stat {
            self.each("directory stat", other, 0, |dir, index| {
                files.stat(Some(dir), &name(other, index)).map(drop)
            })?;
        }
        if load.remove {
            self.each("directory removal", own, 0, |dir, index| {
                files.remove(Some(dir), &name(own, index), false)
            })?;
        }
        Ok(())
    }

    fn files(&self) -> Result<()> {
        let (load, files, own) = (self.load, self.files, self.team.rank);
        let other = self.team.next(load.stride);
        if load.create {
            let (mut pattern, mut back) = (pattern(load, load.write_bytes), Vec::new());
            self.each("file creation", own, load.write_bytes, |dir, index| {
                let file = files.open(Some(dir), &file_name(own, index), Mode::Create)?;
                if load.write_bytes > 0 {
                    files.write(&file, 0, pattern.at(u64::from(own), index))?;
                }
                if load.check_write {
                    back.resize(pattern.bytes().len(), 0);
                    self.read(&file, (own, index), &mut back, Some(&mut pattern))?;
                }
                file.close()
            })?;
        }
        if load.stat {
            self.each("file stat", other, 0, |dir, index| {
                let size_bytes = files.stat(Some(dir), &file_name(other, index))?;
                if load.create { self.check_size((other, index), size_bytes) } else { Ok(()) }
            })?;
        }
        if load.read {
            self.read_phase(other)?;
        }
        if load.remove {
            self.each("file removal", own, 0, |dir, index| {
                files.remove(Some(dir), &file_name(own, index), false)
            })?;
        }
        Ok(())
    }

    fn read_phase(&self, other: u32) -> Result<()> {
        let (load, files) = (self.load, self.files);
        let mut pattern = pattern(load, load.read_bytes);
        let mut buffer = pattern.bytes().to_vec();
        self.each("file read", other, load.read_bytes, |dir, index| {
            let file = files.open(Some(dir), &file_name(other, index), Mode::Read)?;
            if load.read_bytes > 0 {
                let checked = load.check_read.then_some(&mut pattern);
                self.read(&file, (other, index), &mut buffer, checked)?;
            }
            file.close()
        })
    }

    /// Reads a file of a process, and compares it with what it is to hold.
    fn read(
        &self,
        file: &File,
        (rank, index): (u32, u64),
        buffer: &mut [u8],
        pattern: Option<&mut Pattern>,
    ) -> Result<()> {
        let read = self.files.read(file, 0, buffer)?;
        let Some(pattern) = pattern else {
            let expected = buffer.len() as u64;
            return if read == expected { Ok(()) } else { Err(self.short((rank, index), read, expected)) };
        };
        let found = &buffer[..usize::try_from(read).unwrap_or(0)];
        pattern.check((u64::from(rank), index), found, || self.path((rank, index)), 0)
    }

    fn check_size(&self, file: (u32, u64), size_bytes: u64) -> Result<()> {
        let expected = self.load.write_bytes;
        if size_bytes == expected { Ok(()) } else { Err(self.short(file, size_bytes, expected)) }
    }

    fn path(&self, (rank, index): (u32, u64)) -> String {
        format!("file /{}/{}/{}", self.load.dir, self.tree_of(rank), file_name(rank, index))
    }

    /// A file of another size than it is to have.
    fn short(&self, file: (u32, u64), found: u64, expected: u64) -> Error {
        Error::Differs(Box::new(Difference {
            what: format!("the size of {} ({found} bytes instead of {expected})", self.path(file)),
            offset_bytes: found.min(expected),
            expected: Vec::new(),
            found: Vec::new(),
        }))
    }
}

fn file_name(rank: u32, index: u64) -> String {
    format!("file.mdtest.{rank}.{index}")
}

fn pattern(load: &MdtestLoad, len: u64) -> Pattern {
    Pattern::new(load.signature, usize::try_from(len).expect("a small file fits into memory"))
}
