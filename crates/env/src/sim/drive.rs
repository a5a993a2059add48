//! The device: live and durable contents, and what lies between them.
//!
//! Invariants: `live` is what reads see; `durable` plus `unsynced` in order, without the doomed ones lost,
//! leads from what the platter holds to what reads see; an inode exists while a live or durable name, an
//! open file or an operation needs it.

use crate::disk::{Media, Space, byte_count};
use crate::error::{Errno, Error, Op, Result};
use crate::rng::Rng;
use crate::sim::crash::{CrashPlan, Fate, Fates};
use crate::sim::image::Image;
use crate::sim::power::{Fault, SimPower};
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a simulated device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Decides completion order, tears and subsets.
    pub seed: u64,
    /// What the device claims to be.
    pub media: Media,
    /// Room for files.
    pub capacity_bytes: u64,
    /// The machine's, until a crash with loss of power gives it the next one.
    pub boot_id: u128,
}

impl Default for SimConfig {
    /// A block device of 1 GiB; seed 0.
    fn default() -> Self {
        Self { seed: 0, media: Media::Block, capacity_bytes: 1 << 30, boot_id: 1 }
    }
}

/// All files of a drive by name: cheap to copy, to be put on other drives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimFiles {
    files: BTreeMap<String, Image>,
}

/// An operation that a crash may lose, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsynced {
    /// The file, by a name it has or had.
    pub name: String,
    /// Write, extend, create, remove or rename.
    pub op: Op,
    /// Where a write starts.
    pub offset: u64,
    /// How long a write is.
    pub len_bytes: u64,
    /// Whether it is submitted and not yet carried out.
    pub in_flight: bool,
}

/// A simulated device. Clones are the same device.
#[derive(Clone, Debug)]
pub struct SimDrive {
    device: Arc<Device>,
}

#[derive(Debug)]
struct Device {
    /// Guards all contents; the supply's lock is taken inside it.
    state: Mutex<DriveState>,
    power: SimPower,
    config: SimConfig,
}

#[derive(Debug)]
pub(crate) struct DriveState {
    inodes: BTreeMap<u64, Inode>,
    live_names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced: Vec<Pending>,
    /// Submitted writes that are not carried out, by their number.
    in_flight: BTreeMap<u64, Write>,
    next_inode: u64,
    next_order: u64,
    next_flight: u64,
    pub(crate) rng: Rng,
}

#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) name: String,
    pub(crate) live: Image,
    durable: Image,
    open: u32,
    pub(crate) mapped: Arc<AtomicBool>,
    /// A write through memory has failed; the next flush has to say so.
    flush_owes_error: bool,
    bad: Vec<Range<u64>>,
}

#[derive(Clone, Debug)]
struct Pending {
    order: u64,
    change: Change,
    /// A flush that covered it has failed: later ones pass over it.
    doomed: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write(Write),
    /// An inode and its new length.
    Extend(u64, u64),
    Create(String, u64),
    Remove(String),
    Rename(String, String, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) inode: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Arc<[u8]>,
}

impl SimDrive {
    /// An empty device with a supply of its own.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        Self::on_power(config, &SimPower::new())
    }

    /// An empty device on a shared supply, so that one fault stops them all.
    #[must_use]
    pub fn on_power(config: SimConfig, power: &SimPower) -> Self {
        Self::with_files(config, power, &SimFiles::default())
    }

    /// A device that holds `files`, all durable.
    #[must_use]
    pub fn with_files(config: SimConfig, power: &SimPower, files: &SimFiles) -> Self {
        let state = Mutex::new(DriveState::holding(config.seed, files, 1));
        Self { device: Arc::new(Device { state, power: power.clone(), config }) }
    }

    /// What the device is like.
    #[must_use]
    pub fn config(&self) -> SimConfig {
        self.device.config
    }

    /// Its supply, where boundaries are counted and faults set.
    #[must_use]
    pub fn power(&self) -> &SimPower {
        &self.device.power
    }

    /// What a crash now may lose, in order.
    #[must_use]
    pub fn unsynced(&self) -> Vec<Unsynced> {
        let state = self.lock();
        let mut seen: Vec<Unsynced> =
            state.unsynced.iter().map(|pending| state.describe(&pending.change)).collect();
        for write in state.in_flight.values() {
            seen.push(Unsynced { in_flight: true, ..state.describe(&Change::Write(write.clone())) });
        }
        seen
    }

    /// The plans that cover a power cut now: none, all, each one missing, each one torn (both ways), and
    /// `subsets` seeded subsets.
    #[must_use]
    pub fn crash_plans(&self, subsets: u64) -> Vec<CrashPlan> {
        let unsynced = self.unsynced();
        let mut plans = vec![CrashPlan::None];
        if unsynced.is_empty() {
            return plans;
        }
        plans.push(CrashPlan::All);
        for (index, op) in unsynced.iter().enumerate() {
            plans.push(CrashPlan::AllBut(index));
            if op.op == Op::Write {
                plans.extend([CrashPlan::Torn(index), CrashPlan::TornByte(index)]);
            }
        }
        plans.extend((0..subsets).map(CrashPlan::Subset));
        plans
    }

    /// The device as a crash now would leave it, on a supply of its own; this one stays as it is.
    #[must_use]
    pub fn crash(&self, plan: CrashPlan) -> Self {
        self.crash_onto(plan, &SimPower::new())
    }

    /// As [`SimDrive::crash`], on the given supply.
    #[must_use]
    pub fn crash_onto(&self, plan: CrashPlan, power: &SimPower) -> Self {
        let files = self.lock().after_crash(plan, self.device.config.seed);
        let config = self.device.config;
        let boot_id = match plan {
            CrashPlan::Process => config.boot_id,
            _ => config.boot_id + 1,
        };
        Self::with_files(SimConfig { boot_id, ..config }, power, &files)
    }

    /// All files as reads see them.
    #[must_use]
    pub fn files(&self) -> SimFiles {
        self.lock().live_files()
    }

    /// Puts `files` in place of all contents, durable. Open files lose their ids.
    pub fn restore(&self, files: &SimFiles) {
        let mut state = self.lock();
        *state = DriveState::holding(self.device.config.seed, files, state.next_inode);
    }

    /// Flips one bit of a file, on the medium and as read. A region mapped before keeps its copy.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`].
    pub fn flip(&self, name: &str, offset: u64, bit: u8) -> Result<()> {
        self.lock().rot(name, offset, 1, |bytes| bytes[0] ^= 1 << (bit % 8))
    }

    /// Overwrites bytes of a file behind everybody's back, on the medium and as read.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`].
    pub fn corrupt(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.lock().rot(name, offset, bytes.len(), |old| old.copy_from_slice(bytes))
    }

    /// Makes reads of a part of a file fail with an I/O error, as a bad sector does.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn break_range(&self, name: &str, range: Range<u64>) -> Result<()> {
        let mut state = self.lock();
        let inode = state.inode_of(name)?;
        state.at_mut(inode).bad.push(range);
        Ok(())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DriveState> {
        self.device.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a boundary for `op`: the error of the fault that happens at it.
    pub(crate) fn pass(&self, op: Op, name: &str, offset: u64) -> Result<()> {
        self.device.power.pass().map_or(Ok(()), |fault| Err(error_of(fault, op, name, offset)))
    }

    /// The error that meets a read, or any call that is no boundary, once the machine has stopped.
    pub(crate) fn alive(&self, op: Op, name: &str, offset: u64) -> Result<()> {
        self.device.power.ended().map_or(Ok(()), |fault| Err(error_of(fault, op, name, offset)))
    }

    /// Carries out a write: a boundary.
    pub(crate) fn write(&self, state: &mut DriveState, write: Write) -> Result<()> {
        let name = state.at(write.inode).name.clone();
        let passed = self.pass(Op::Write, &name, write.offset);
        match &passed {
            Ok(()) => state.apply(write),
            Err(Error::Io { .. }) if !self.is_over() => {
                // A failed write has usually reached the medium in part.
                let seed = state.rng.next_u64();
                let fate = Fates::new(CrashPlan::Torn(0), seed).next(write.offset, write.bytes.len());
                if let Fate::Part(part) = fate {
                    state.apply(write.part(part));
                }
            }
            Err(_) => {}
        }
        passed
    }

    /// Carries out a flush of what was done before `until`: a boundary.
    pub(crate) fn flush(&self, state: &mut DriveState, inode: u64, until: u64) -> Result<()> {
        let name = state.at(inode).name.clone();
        let mut passed = self.pass(Op::Flush, &name, 0);
        if passed.is_ok() && core::mem::take(&mut state.at_mut(inode).flush_owes_error) {
            passed = Err(error_of(Fault::Eio, Op::Flush, &name, 0));
        }
        if !self.is_over() {
            state.settle(inode, until, passed.is_ok());
        }
        passed
    }

    pub(crate) fn space(&self) -> Space {
        let used = self.lock().used_bytes();
        let total_bytes = self.device.config.capacity_bytes;
        Space { total_bytes, free_bytes: total_bytes.saturating_sub(used) }
    }

    fn is_over(&self) -> bool {
        self.device.power.ended().is_some()
    }
}

pub(crate) fn error_of(fault: Fault, op: Op, name: &str, offset: u64) -> Error {
    let name = name.to_owned();
    match fault {
        Fault::Crash => Error::Crashed,
        Fault::NoSpace => Error::NoSpace { name, needed_bytes: 0 },
        Fault::Eio | Fault::Dead => Error::Io { op, name, offset, errno: Errno::IO },
    }
}

/// A region's way to the device. A region cannot report an error: the next flush of the file does.
#[derive(Debug)]
pub(crate) struct RegionJournal {
    drive: SimDrive,
    inode: u64,
}

impl RegionJournal {
    /// REQUIRES: the inode is held for the region; dropping this releases it.
    pub(crate) fn new(drive: &SimDrive, inode: u64) -> Self {
        Self { drive: drive.clone(), inode }
    }

    pub(crate) fn written(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.drive.lock();
        if !state.inodes.contains_key(&self.inode) {
            return;
        }
        let write = Write { inode: self.inode, offset, bytes: bytes.into() };
        match self.drive.write(&mut state, write.clone()) {
            Ok(()) => {}
            // What is mapped has its blocks.
            Err(Error::NoSpace { .. }) => state.apply(write),
            Err(_) => state.at_mut(self.inode).flush_owes_error = true,
        }
    }
}

impl Drop for RegionJournal {
    fn drop(&mut self) {
        self.drive.lock().release(self.inode);
    }
}

impl Write {
    fn part(&self, part: Range<usize>) -> Self {
        let offset = self.offset + byte_count(part.start);
        Self { offset, bytes: self.bytes[part].into(), ..*self }
    }
}

impl DriveState {
    /// Inode numbers below `first_inode` are stale for ever.
    fn holding(seed: u64, files: &SimFiles, first_inode: u64) -> Self {
        let mut state = Self {
            inodes: BTreeMap::new(),
            live_names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced: Vec::new(),
            in_flight: BTreeMap::new(),
            next_inode: first_inode,
            next_order: 0,
            next_flight: 0,
            rng: Rng::from_seed(seed),
        };
        for (name, image) in &files.files {
            let inode = state.add_inode(name, image.clone());
            state.live_names.insert(name.clone(), inode);
        }
        state.durable_names.clone_from(&state.live_names);
        state
    }

    fn add_inode(&mut self, name: &str, image: Image) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        let inode = Inode {
            name: name.to_owned(),
            durable: image.clone(),
            live: image,
            open: 0,
            mapped: Arc::default(),
            flush_owes_error: false,
            bad: Vec::new(),
        };
        self.inodes.insert(number, inode);
        number
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.live_names.keys().cloned().collect()
    }

    pub(crate) fn inode_of(&self, name: &str) -> Result<u64> {
        let found = self.live_names.get(name).copied();
        found.ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    pub(crate) fn has(&self, inode: u64) -> bool {
        self.inodes.contains_key(&inode)
    }

    pub(crate) fn at(&self, inode: u64) -> &Inode {
        self.inodes.get(&inode).expect("an inode in use exists")
    }

    fn at_mut(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("an inode in use exists")
    }

    pub(crate) fn is_bad(&self, inode: u64, range: &Range<u64>) -> bool {
        let bad = &self.at(inode).bad;
        bad.iter().any(|bad| bad.start < range.end && range.start < bad.end)
    }

    /// Somebody uses the inode.
    pub(crate) fn hold(&mut self, inode: u64) {
        self.at_mut(inode).open += 1;
    }

    /// And no longer does. An inode of before a restore may be gone.
    pub(crate) fn release(&mut self, inode: u64) {
        if let Some(found) = self.inodes.get_mut(&inode) {
            found.open = found.open.saturating_sub(1);
        }
        self.drop_unused();
    }

    /// The number that the next change will have: a flush covers what is below it.
    pub(crate) fn next_order(&self) -> u64 {
        self.next_order
    }

    fn record(&mut self, change: Change) {
        self.unsynced.push(Pending { order: self.next_order, change, doomed: false });
        self.next_order += 1;
    }

    fn apply(&mut self, write: Write) {
        self.at_mut(write.inode).live.write(write.offset, &write.bytes);
        self.record(Change::Write(write));
    }

    /// Submits a write; its number.
    pub(crate) fn launch(&mut self, write: Write) -> u64 {
        let number = self.next_flight;
        self.next_flight += 1;
        self.in_flight.insert(number, write);
        number
    }

    pub(crate) fn land(&mut self, number: u64) -> Option<Write> {
        self.in_flight.remove(&number)
    }

    /// Puts a write back that a crash met on its way.
    pub(crate) fn relaunch(&mut self, number: u64, write: Write) {
        self.in_flight.insert(number, write);
    }

    /// The first half of a create: an empty file.
    pub(crate) fn create_name(&mut self, name: &str) -> u64 {
        let inode = self.add_inode(name, Image::default());
        self.live_names.insert(name.to_owned(), inode);
        self.record(Change::Create(name.to_owned(), inode));
        inode
    }

    /// The second half: zeros, which are durable at once because a create flushes them.
    pub(crate) fn fill(&mut self, inode: u64, len_bytes: u64) {
        let zeros = Image::zeroed(len_bytes);
        let inode = self.at_mut(inode);
        inode.live = zeros.clone();
        inode.durable = zeros;
    }

    /// Makes a file longer; the length is durable with a flush of the file.
    pub(crate) fn extend(&mut self, inode: u64, more_bytes: u64) {
        let found = self.at_mut(inode);
        let len = found.live.len() + more_bytes;
        found.live.lengthen(len);
        self.record(Change::Extend(inode, len));
    }

    pub(crate) fn remove_name(&mut self, name: &str) {
        self.live_names.remove(name);
        self.record(Change::Remove(name.to_owned()));
        self.drop_unused();
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let Some(inode) = self.live_names.remove(from) else { return };
        self.live_names.insert(to.to_owned(), inode);
        to.clone_into(&mut self.at_mut(inode).name);
        self.record(Change::Rename(from.to_owned(), to.to_owned(), inode));
    }

    /// Ends the uncertainty of names: they become durable, or a failed sync makes sure they never do so by
    /// a later one.
    pub(crate) fn settle_names(&mut self, until: u64, ok: bool) {
        let mut kept = Vec::new();
        for mut pending in core::mem::take(&mut self.unsynced) {
            let is_write = matches!(pending.change, Change::Write(_) | Change::Extend(..));
            let is_name = !is_write && pending.order < until;
            if is_name && ok && !pending.doomed {
                apply_name(&mut self.durable_names, &pending.change);
            } else {
                pending.doomed |= is_name && !ok;
                kept.push(pending);
            }
        }
        self.unsynced = kept;
        self.drop_unused();
    }

    fn settle(&mut self, inode: u64, until: u64, ok: bool) {
        let mut kept = Vec::new();
        for mut pending in core::mem::take(&mut self.unsynced) {
            let covered = match &pending.change {
                Change::Write(write) => pending.order < until && write.inode == inode,
                Change::Extend(extended, _) => pending.order < until && *extended == inode,
                _ => false,
            };
            match &pending.change {
                Change::Extend(_, len) if covered && ok && !pending.doomed => {
                    self.at_mut(inode).durable.lengthen(*len);
                }
                Change::Write(write) if covered && ok && !pending.doomed => {
                    let write = write.clone();
                    self.at_mut(write.inode).durable.write(write.offset, &write.bytes);
                }
                _ => {
                    pending.doomed |= covered && !ok;
                    kept.push(pending);
                }
            }
        }
        self.unsynced = kept;
        self.drop_unused();
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<u64> = self.live_names.values().copied().collect();
        let counts = |(number, inode): &(&u64, &Inode)| named.contains(number) || inode.open > 0;
        self.inodes.iter().filter(counts).map(|(_, inode)| inode.live.len()).sum()
    }

    fn drop_unused(&mut self) {
        let mut used: BTreeSet<u64> = self.live_names.values().copied().collect();
        used.extend(self.durable_names.values());
        for pending in &self.unsynced {
            match &pending.change {
                Change::Create(_, inode) | Change::Rename(_, _, inode) => used.insert(*inode),
                Change::Write(write) => used.insert(write.inode),
                Change::Extend(inode, _) => used.insert(*inode),
                Change::Remove(_) => false,
            };
        }
        used.extend(self.in_flight.values().map(|write| write.inode));
        self.inodes.retain(|number, inode| inode.open > 0 || used.contains(number));
    }

    fn describe(&self, change: &Change) -> Unsynced {
        let name_op = |name: &String, op| Unsynced {
            name: name.clone(),
            op,
            offset: 0,
            len_bytes: 0,
            in_flight: false,
        };
        match change {
            Change::Write(write) => Unsynced {
                offset: write.offset,
                len_bytes: byte_count(write.bytes.len()),
                ..name_op(&self.at(write.inode).name, Op::Write)
            },
            Change::Extend(inode, len) => {
                Unsynced { len_bytes: *len, ..name_op(&self.at(*inode).name, Op::Extend) }
            }
            Change::Create(name, _) => name_op(name, Op::Create),
            Change::Remove(name) => name_op(name, Op::Remove),
            Change::Rename(from, _, _) => name_op(from, Op::Rename),
        }
    }

    fn live_files(&self) -> SimFiles {
        let image = |(name, inode): (&String, &u64)| (name.clone(), self.at(*inode).live.clone());
        SimFiles { files: self.live_names.iter().map(image).collect() }
    }

    fn after_crash(&self, plan: CrashPlan, seed: u64) -> SimFiles {
        let mut fates = Fates::new(plan, seed);
        let is_process = plan == CrashPlan::Process;
        let start = |inode: &Inode| if is_process { inode.live.clone() } else { inode.durable.clone() };
        let mut images: BTreeMap<u64, Image> =
            self.inodes.iter().map(|(number, inode)| (*number, start(inode))).collect();
        let mut names = if is_process { self.live_names.clone() } else { self.durable_names.clone() };
        if !is_process {
            for pending in &self.unsynced {
                match &pending.change {
                    Change::Write(write) => survive(&mut images, write, &mut fates),
                    Change::Extend(inode, len) => {
                        if fates.next(0, 0) == Fate::Whole
                            && let Some(image) = images.get_mut(inode)
                        {
                            image.lengthen(*len);
                        }
                    }
                    change if fates.next(0, 0) == Fate::Whole => apply_name(&mut names, change),
                    _ => {}
                }
            }
        }
        for write in self.in_flight.values() {
            survive(&mut images, write, &mut fates);
        }
        let image = |(name, inode)| (name, images.get(&inode).cloned().unwrap_or_default());
        SimFiles { files: names.into_iter().map(image).collect() }
    }

    fn rot(&mut self, name: &str, offset: u64, len: usize, change: impl Fn(&mut [u8])) -> Result<()> {
        let inode = self.inode_of(name)?;
        let inode = self.at_mut(inode);
        crate::disk::checked_range(name, offset, byte_count(len), inode.live.len())?;
        for image in [&mut inode.live, &mut inode.durable] {
            let mut bytes = vec![0; len];
            image.read(offset, &mut bytes);
            change(&mut bytes);
            image.write(offset, &bytes);
        }
        Ok(())
    }
}

fn survive(images: &mut BTreeMap<u64, Image>, write: &Write, fates: &mut Fates) {
    let part = match fates.next(write.offset, write.bytes.len()) {
        Fate::Whole => 0..write.bytes.len(),
        Fate::Part(part) => part,
        Fate::Lost => return,
    };
    if let Some(image) = images.get_mut(&write.inode) {
        // Where the file did not become longer, what was written behind its end is not there.
        let start = write.offset + byte_count(part.start);
        let room = usize::try_from(image.len().saturating_sub(start)).unwrap_or(usize::MAX);
        let bytes = &write.bytes[part];
        image.write(start, &bytes[..bytes.len().min(room)]);
    }
}

fn apply_name(names: &mut BTreeMap<String, u64>, change: &Change) {
    match change {
        Change::Write(_) | Change::Extend(..) => {}
        Change::Create(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Change::Remove(name) => {
            names.remove(name);
        }
        Change::Rename(from, to, inode) => {
            // A second file may have taken the old name since.
            if names.get(from) == Some(inode) {
                names.remove(from);
            }
            names.insert(to.clone(), *inode);
        }
    }
}

impl SimFiles {
    /// Names and lengths, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(name, image)| (name.as_str(), image.len()))
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.iter().map(|(_, len)| len).sum()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.files.get(name).map(Image::to_vec)
    }

    /// Puts a file, replacing one of that name.
    pub fn insert(&mut self, name: &str, bytes: &[u8]) {
        self.files.insert(name.to_owned(), Image::of(bytes));
    }

    /// Flips one bit; false if there is no such byte.
    pub fn flip(&mut self, name: &str, offset: u64, bit: u8) -> bool {
        match self.files.get_mut(name) {
            Some(image) if offset < image.len() => {
                let mut byte = [0];
                image.read(offset, &mut byte);
                image.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
                true
            }
            _ => false,
        }
    }
}
