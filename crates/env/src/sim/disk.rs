//! A program's way to a simulated device.

use crate::disk::{
    Disk, FileId, Io, IoDone, IoOp, Media, Space, byte_count, checked_buf, checked_name, checked_range,
};
use crate::error::{Errno, Error, Op, Result};
use crate::region::{Claim, Region};
use crate::sim::drive::{DriveState, RegionJournal, SimDrive, Write};
use crate::slots::Slots;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

/// A disk whose every byte is in memory and whose every fault comes from outside.
///
/// Dropping it is the death of the process: what was submitted stays in flight on the drive.
#[derive(Debug)]
pub struct SimDisk {
    drive: SimDrive,
    /// Inode numbers.
    files: Slots<u64>,
    queue: Vec<Queued>,
    done: VecDeque<IoDone>,
}

#[derive(Debug)]
struct Queued {
    token: u64,
    inode: u64,
    offset: u64,
    op: IoOp,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    /// The number of the write in flight.
    Write(u64),
    /// Covers changes below this number.
    Flush(u64),
}

impl SimDisk {
    /// A disk on `drive`, as a program that has just started sees it.
    #[must_use]
    pub fn new(drive: &SimDrive) -> Self {
        Self { drive: drive.clone(), files: Slots::default(), queue: Vec::new(), done: VecDeque::new() }
    }

    /// The device.
    #[must_use]
    pub fn drive(&self) -> &SimDrive {
        &self.drive
    }

    /// The inode of an open file and a check of a range in it.
    fn checked(&self, state: &DriveState, file: FileId, offset: u64, len: u64) -> Result<u64> {
        let inode = *self.files.at(file)?;
        if !state.has(inode) {
            return Err(Error::NotOpen { file: file.0 });
        }
        let found = state.at(inode);
        checked_range(&found.name, offset, len, found.live.len())?;
        Ok(inode)
    }

    fn accept(&self, io: &Io) -> Result<(u64, Kind)> {
        let mut state = self.drive.lock();
        let (inode, kind) = match &io.op {
            IoOp::Read(buf, len) => {
                let inode = self.checked(&state, io.file, io.offset, u64::from(*len))?;
                checked_buf(&state.at(inode).name, buf, *len)?;
                (inode, Kind::Read)
            }
            IoOp::Write(buf, len) => {
                let inode = self.checked(&state, io.file, io.offset, u64::from(*len))?;
                let bytes = checked_buf(&state.at(inode).name, buf, *len)?;
                refuse_mapped(&state, inode)?;
                let write = Write { inode, offset: io.offset, bytes: buf[..bytes].into() };
                // A machine that has stopped takes no further operation.
                self.drive.alive(Op::Write, &state.at(inode).name, io.offset)?;
                (inode, Kind::Write(state.launch(write)))
            }
            IoOp::Flush | IoOp::FlushNames => {
                let inode = self.checked(&state, io.file, 0, 0)?;
                (inode, Kind::Flush(state.next_order()))
            }
        };
        state.hold(inode);
        Ok((inode, kind))
    }

    fn carry_out(&self, mut queued: Queued) -> IoDone {
        let mut state = self.drive.lock();
        let Queued { inode, offset, .. } = queued;
        let result = if !state.has(inode) {
            Err(Error::Crashed)
        } else {
            match (&mut queued.op, queued.kind) {
                (IoOp::Read(buf, len), _) => {
                    let bytes = usize::try_from(*len).unwrap_or(usize::MAX);
                    self.read(&state, inode, offset, &mut buf[..bytes]).map(|()| *len)
                }
                (IoOp::Write(_, len), Kind::Write(number)) => {
                    let alive = self.drive.alive(Op::Write, &state.at(inode).name, offset);
                    alive.and_then(|()| self.land(&mut state, number)).map(|()| *len)
                }
                (IoOp::Flush, Kind::Flush(until)) => self.drive.flush(&mut state, inode, until).map(|()| 0),
                (IoOp::FlushNames, Kind::Flush(until)) => self.flush_names(&mut state, until).map(|()| 0),
                _ => unreachable!("the kind was taken from the operation"),
            }
        };
        state.release(inode);
        IoDone { token: queued.token, result, buf: queued.op.into_buf() }
    }

    /// Carries out a write in flight. One that the crash meets stays in flight for the crash to judge.
    fn land(&self, state: &mut DriveState, number: u64) -> Result<()> {
        let Some(write) = state.land(number) else { return Err(Error::Crashed) };
        let result = self.drive.write(state, write.clone());
        if result == Err(Error::Crashed) {
            state.relaunch(number, write);
        }
        result
    }

    /// Makes changes of names below `until` durable.
    fn flush_names(&self, state: &mut DriveState, until: u64) -> Result<()> {
        let passed = self.drive.pass(Op::SyncNames, "the directory", 0);
        if self.drive.alive(Op::SyncNames, "the directory", 0).is_ok() {
            state.settle_names(until, passed.is_ok());
        }
        passed
    }

    fn read(&self, state: &DriveState, inode: u64, offset: u64, buf: &mut [u8]) -> Result<()> {
        let name = &state.at(inode).name;
        self.drive.alive(Op::Read, name, offset)?;
        let range = offset..offset + byte_count(buf.len());
        if state.is_bad(inode, &range) {
            let name = name.clone();
            return Err(Error::Io { op: Op::Read, name, offset, errno: Errno::IO });
        }
        state.at(inode).live.read(offset, buf);
        Ok(())
    }
}

fn refuse_mapped(state: &DriveState, inode: u64) -> Result<()> {
    let found = state.at(inode);
    if found.mapped.load(Ordering::Acquire) {
        return Err(Error::Busy { name: found.name.clone() });
    }
    Ok(())
}

impl Disk for SimDisk {
    fn media(&self) -> Media {
        self.drive.config().media
    }

    fn boot_id(&self) -> u128 {
        self.drive.config().boot_id
    }

    fn list(&self) -> Result<Vec<String>> {
        self.drive.alive(Op::List, "the directory", 0)?;
        Ok(self.drive.lock().names())
    }

    fn create(&mut self, name: &str, len_bytes: u64) -> Result<FileId> {
        checked_name(name)?;
        let no_space = || Error::NoSpace { name: name.to_owned(), needed_bytes: len_bytes };
        let mut state = self.drive.lock();
        self.drive.alive(Op::Create, name, 0)?;
        if state.inode_of(name).is_ok() {
            return Err(Error::Exists { name: name.to_owned() });
        }
        self.drive.pass(Op::Create, name, 0).map_err(|error| error.needing(len_bytes))?;
        let inode = state.create_name(name);
        let free = self.drive.config().capacity_bytes.saturating_sub(state.used_bytes());
        let filled = self.drive.pass(Op::Create, name, 0).map_err(|error| error.needing(len_bytes));
        match filled {
            Ok(()) if len_bytes <= free => {}
            Err(Error::Crashed) => return Err(Error::Crashed),
            other => {
                state.remove_name(name);
                return Err(other.err().unwrap_or_else(no_space));
            }
        }
        state.fill(inode, len_bytes);
        state.hold(inode);
        drop(state);
        Ok(self.files.insert(inode))
    }

    fn extend(&mut self, file: FileId, more_bytes: u64) -> Result<()> {
        let mut state = self.drive.lock();
        let inode = self.checked(&state, file, 0, 0)?;
        refuse_mapped(&state, inode)?;
        let name = state.at(inode).name.clone();
        let passed = self.drive.pass(Op::Extend, &name, state.at(inode).live.len());
        passed.map_err(|error| error.needing(more_bytes))?;
        let free = self.drive.config().capacity_bytes.saturating_sub(state.used_bytes());
        if more_bytes > free {
            return Err(Error::NoSpace { name, needed_bytes: more_bytes });
        }
        state.extend(inode, more_bytes);
        Ok(())
    }

    fn open(&mut self, name: &str) -> Result<FileId> {
        checked_name(name)?;
        let mut state = self.drive.lock();
        self.drive.alive(Op::Open, name, 0)?;
        let inode = state.inode_of(name)?;
        if self.files.iter().any(|&other| other == inode) {
            return Err(Error::Busy { name: name.to_owned() });
        }
        state.hold(inode);
        drop(state);
        Ok(self.files.insert(inode))
    }

    fn close(&mut self, file: FileId) {
        if let Some(inode) = self.files.remove(file) {
            self.drive.lock().release(inode);
        }
    }

    fn len(&self, file: FileId) -> Result<u64> {
        let state = self.drive.lock();
        let inode = self.checked(&state, file, 0, 0)?;
        Ok(state.at(inode).live.len())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        checked_name(name)?;
        let mut state = self.drive.lock();
        state.inode_of(name)?;
        self.drive.pass(Op::Remove, name, 0)?;
        state.remove_name(name);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        checked_name(from)?;
        checked_name(to)?;
        let mut state = self.drive.lock();
        state.inode_of(from)?;
        self.drive.pass(Op::Rename, from, 0)?;
        state.rename(from, to);
        Ok(())
    }

    fn sync_names(&mut self) -> Result<()> {
        let mut state = self.drive.lock();
        let until = state.next_order();
        self.flush_names(&mut state, until)
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()> {
        let state = self.drive.lock();
        let inode = self.checked(&state, file, offset, byte_count(buf.len()))?;
        self.read(&state, inode, offset, buf)
    }

    fn write_at(&mut self, file: FileId, offset: u64, buf: &[u8]) -> Result<()> {
        let mut state = self.drive.lock();
        let inode = self.checked(&state, file, offset, byte_count(buf.len()))?;
        refuse_mapped(&state, inode)?;
        self.drive.write(&mut state, Write { inode, offset, bytes: buf.into() })
    }

    fn flush(&mut self, file: FileId) -> Result<()> {
        let mut state = self.drive.lock();
        let inode = self.checked(&state, file, 0, 0)?;
        let until = state.next_order();
        self.drive.flush(&mut state, inode, until)
    }

    fn submit(&mut self, io: Io) {
        match self.accept(&io) {
            Ok((inode, kind)) => {
                let Io { token, offset, op, .. } = io;
                self.queue.push(Queued { token, inode, offset, op, kind });
            }
            Err(error) => {
                self.done.push_back(IoDone { token: io.token, result: Err(error), buf: io.op.into_buf() });
            }
        }
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<IoDone>) {
        let must = usize::from(wait && self.done.is_empty() && !self.queue.is_empty());
        let count = self.drive.lock().rng.index(self.queue.len() + 1).max(must);
        for _ in 0..count {
            let at = self.drive.lock().rng.index(self.queue.len());
            let queued = self.queue.swap_remove(at);
            let done = self.carry_out(queued);
            self.done.push_back(done);
        }
        out.extend(self.done.drain(..));
    }

    fn map(&mut self, file: FileId) -> Result<Region> {
        let mut state = self.drive.lock();
        let inode = self.checked(&state, file, 0, 0)?;
        let found = state.at(inode);
        self.drive.alive(Op::Map, &found.name, 0)?;
        if found.live.len() == 0 {
            let name = found.name.clone();
            return Err(Error::Io { op: Op::Map, name, offset: 0, errno: Errno::INVAL });
        }
        let claim = Claim::take(&found.mapped).ok_or_else(|| Error::Busy { name: found.name.clone() })?;
        let bytes = found.live.to_vec();
        state.hold(inode);
        drop(state);
        Ok(Region::simulated(bytes, RegionJournal::new(&self.drive, inode), claim))
    }

    fn space(&self) -> Result<Space> {
        self.drive.alive(Op::Stat, "the directory", 0)?;
        Ok(self.drive.space())
    }
}
