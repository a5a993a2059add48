//! The directory of a pool and that of a system.

use crate::each::{close_all, on_each};
use crate::error::{Error, RecordFault, Result};
use crate::options::{OpenOptions, PoolOptions, bytes_at_first, check_memory, target_config};
use crate::pool::LocalPool;
use crate::record::{PoolRecord, Spread};
use crate::store::Store;
use core::ops::Range;
use dolmen_cluster::{Absent, Hlc, Part, Pool, PoolIdentity, Service, Targets};
use dolmen_codec::Transport;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_engine::{Devices, Recovery, Target, TargetConfig};
use dolmen_env::{Clock, Disk, Media, RealClock, RealDisk, RealOptions, RealRoot, Secrets, unfinished_name};
use dolmen_types::{Label, PoolMap, TargetInfo, TargetNo, TargetState, Uuid, uuid_of_random};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The pool's record in its directory, written last by `create` and removed first by `destroy`.
const RECORD_NAME: &str = "pool";
/// The same in a directory for bulk data.
const BULK_RECORD_NAME: &str = "bulk";
/// What the engine calls its superblock.
const SUPERBLOCK_NAME: &str = "super";
/// The version of a pool map whose targets never change.
const MAP_VERSION: u32 = 1;

/// A pool in a system directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// The name of its directory.
    pub name: OsString,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: Option<Label>,
    /// Its targets in this directory.
    pub targets: u16,
    /// Its engines, if there are several.
    pub spread: Option<Spread>,
    /// Whether it may be lost with the power.
    pub volatile: bool,
    /// Where its bulk data is, if not beside the metadata.
    pub bulk_dir: Option<PathBuf>,
    /// How often it had been opened and closed; its targets were as often, or once more.
    pub life: u64,
}

/// The pools that are called `name`: by label or UUID; if there is none, that without a label whose directory has the name.
#[must_use]
pub fn named<'e>(all: &'e [PoolEntry], name: &str) -> Vec<&'e PoolEntry> {
    let uuid = Uuid::try_parse(name).ok();
    let is_called = |entry: &&PoolEntry| {
        entry.label.as_ref().is_some_and(|label| label.as_str() == name) || Some(entry.uuid) == uuid
    };
    let found: Vec<&PoolEntry> = all.iter().filter(is_called).collect();
    let lies_there = |entry: &&PoolEntry| entry.label.is_none() && entry.name == name;
    if found.is_empty() { all.iter().filter(lies_there).collect() } else { found }
}

/// Makes a pool in `dir`, which must not exist or be empty, and closes it.
///
/// # Errors
/// `NoParent` if the directory above `dir`, or above that for bulk data, is not there; `NoDirectory` if something
/// else has the name, or no directory can be made there; `Inside` if `dir` or the directory for bulk data lies in a
/// pool; `OwnBulk` if both are one; `IsPool` if `dir` is one; `LabelTaken` or `UuidTaken` if another pool beside it has the label, or the UUID that was asked for;
/// `Volatile` on a file system in memory unless the options say so; `Option`; `NoRoom`; what the device and the
/// engine answer. Nothing is left behind.
pub fn create(dir: &Path, options: &PoolOptions) -> Result<()> {
    refuse_inside_pool(dir)?;
    refuse_no_directory(dir)?;
    if is_record(dir, RECORD_NAME) {
        return Err(Error::IsPool { dir: dir.to_owned() });
    }
    if let Some(bulk) = &options.bulk_dir {
        refuse_inside_pool(bulk)?;
        let (dir, resolved_bulk) = (resolved(dir)?, resolved(bulk)?);
        if resolved_bulk == dir {
            return Err(Error::OwnBulk { dir });
        }
        if resolved_bulk.starts_with(&dir) {
            return Err(Error::Inside { dir: resolved_bulk, pool: dir });
        }
        refuse_no_directory(bulk)?;
    }
    refuse_taken(dir, options)?;
    let root = own_new(dir)?;
    let bulk = options.bulk_dir.as_deref().map(own_new).transpose();
    let made = match &bulk {
        Ok(bulk) => fill(&root, bulk.as_ref(), options),
        Err(error) => Err(error.clone()),
    };
    if made.is_err() {
        // Ignored, both: why the pool could not be made says more than why its remains could not be removed.
        let _removed = root.take_back(RECORD_NAME);
        let _removed = bulk.ok().flatten().map(|bulk| bulk.take_back(BULK_RECORD_NAME));
    }
    made
}

/// Makes a directory whose parent is there, and owns it.
fn own_new(dir: &Path) -> Result<RealRoot> {
    match RealRoot::create(dir) {
        // The parent is there: this file system makes no directories.
        Err(error) if error.is_not_found() => Err(Error::NoDirectory { path: dir.to_owned() }),
        other => Ok(other?),
    }
}

/// Opens the pool in `dir`, recovering it if its last owner died; with `OpenOptions::read_only` nothing in it is
/// changed but the owner's pid.
///
/// # Errors
/// `Device` with the owner's pid if another process has it (see `Error::owner_pid`); `Record`; what the
/// targets answer; `MissingTarget` if one is not there; `ForeignTarget` if a target's directory holds another
/// target; `OtherLife` if it is a copy from another time; `OtherPlace` if it is a copy whose original has the directory
/// for bulk data, and something is to be changed; `Option`.
pub fn open(dir: &Path, options: &OpenOptions) -> Result<LocalPool> {
    let opened = open_own(dir, options)?;
    if opened.record.spread.is_some() {
        return Err(Error::Spread { dir: dir.to_owned() });
    }
    opened.with_service(&[], options)
}

/// The same, of the directory with the service of a pool that has other engines, too; `to` are the ways to their parts, in
/// the order of the engines.
///
/// # Errors
/// As `open`; `Spread` if the record does not say that this engine has the service of a pool with so many parts; `Store` with
/// `Unreachable` if one of them cannot be asked.
pub fn open_with_parts(dir: &Path, options: &OpenOptions, to: &[Arc<dyn Transport>]) -> Result<LocalPool> {
    let opened = open_own(dir, options)?;
    match &opened.record.spread {
        Some(spread) if spread.has_service() && spread.ranks.len() == to.len() + 1 => {
            opened.with_service(to, options)
        }
        _ => Err(Error::Spread { dir: dir.to_owned() }),
    }
}

/// Opens a part of a pool whose service is at another engine. Clients get in when that says so.
///
/// # Errors
/// As `open`; `Spread` if it is no such part.
pub fn open_part(dir: &Path, options: &OpenOptions) -> Result<LocalPool> {
    let opened = open_own(dir, options)?;
    if opened.record.spread.as_ref().is_none_or(Spread::has_service) {
        return Err(Error::Spread { dir: dir.to_owned() });
    }
    opened.into_part(options)
}

/// The targets of a directory, open.
struct Opened {
    root: RealRoot,
    record: PoolRecord,
    bulk: Option<RealRoot>,
    targets: Vec<(Target, Recovery)>,
    clock: Arc<dyn Clock>,
}

impl Opened {
    fn with_service(self, to: &[Arc<dyn Transport>], options: &OpenOptions) -> Result<LocalPool> {
        let Self { root, record, bulk, targets, clock } = self;
        let (stores, recoveries): (Vec<Target>, Vec<Recovery>) = targets.into_iter().unzip();
        let mut stores: Vec<Store> = stores.into_iter().map(Store::Here).collect();
        let mut parts = Vec::with_capacity(to.len());
        let ranks = record.spread.iter().flat_map(|spread| spread.ranks.iter().skip(1));
        let firsts = (record.targets..).step_by(usize::from(record.targets));
        for ((to, &rank), first) in to.iter().zip(ranks).zip(firsts) {
            let part = Part::new(rank, first..first + record.targets, Arc::clone(to));
            stores.extend(part.stores()?.into_iter().map(|store| Store::Elsewhere(Box::new(store))));
            parts.push(part);
        }
        let targets = Targets::with_parts(stores, parts)?;
        let identity = PoolIdentity { map: pool_map(&record, options.rank), label: record.label.clone() };
        let service = Service::open(&targets, Hlc::new(clock), identity, Secrets::System)?;
        LocalPool::start(Pool::new(targets, service), (root, record), bulk, recoveries, options)
    }

    fn into_part(self, options: &OpenOptions) -> Result<LocalPool> {
        let Self { root, record, bulk, targets, clock } = self;
        let (stores, recoveries): (Vec<Target>, Vec<Recovery>) = targets.into_iter().unzip();
        let (own, mut stores) = (record.own_targets(), stores.into_iter());
        let store = |(no, rank): (u16, u32)| match own.contains(&no) {
            true => stores.next().map_or(Store::Absent(Absent::new(rank)), Store::Here),
            false => Store::Absent(Absent::new(rank)),
        };
        let stores = (0..).zip(record.ranks(options.rank)).map(store).collect();
        let identity = PoolIdentity { map: pool_map(&record, options.rank), label: record.label.clone() };
        let pool = Pool::part(Targets::of_part(stores)?, identity, Hlc::new(clock));
        LocalPool::start(pool, (root, record), bulk, recoveries, options)
    }
}

fn open_own(dir: &Path, options: &OpenOptions) -> Result<Opened> {
    options.memory_budget_bytes.map_or(Ok(()), check_memory)?;
    refuse_no_pool(dir)?;
    let own = if options.read_only { RealRoot::open_to_read } else { RealRoot::open };
    let root = own(dir)?;
    let mut record = read_record(&root, RECORD_NAME)?;
    let bulk = match &record.bulk_dir {
        Some(path) => {
            let (bulk, place) = checked_bulk(own(&dir.join(path))?, record.uuid)?;
            if !options.read_only {
                claim_bulk(&bulk, place, &root, &record)?;
            }
            Some(bulk)
        }
        None => None,
    };
    let places = RealOptions { ephemeral: options.read_only, ..options.devices };
    let memory = options.memory_budget_bytes.unwrap_or(record.memory_budget_bytes);
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let mut all = Vec::with_capacity(usize::from(record.targets));
    // Before any of them is opened, which writes: what belongs elsewhere stays as it is.
    for target in record.own_targets().map(TargetNo) {
        let missing = |error: Error| match error {
            Error::Device(error) if error.is_not_found() => {
                Error::MissingTarget { dir: target_dir(&root, target) }
            }
            other => other,
        };
        let mut devices = devices(&root, bulk.as_ref(), target, places, Existing::Yes).map_err(missing)?;
        check_identity(&root, &mut *devices.meta, target, &record)?;
        if let (Some(root), Some(device)) = (&bulk, &mut devices.bulk) {
            check_identity(root, &mut **device, target, &record)?;
        }
        all.push(devices);
    }
    let targets = on_each(record.own_targets().start, all, |target, devices| {
        let config = TargetConfig { keep_past: options.keep_past, ..target_config(&record, memory, target) };
        let (mut opened, recovery) = Target::open(devices, Arc::clone(&clock), &config)?;
        if !options.read_only {
            opened.begin_life(record.life + 1)?;
        }
        Ok((opened, recovery))
    })?;
    if !options.read_only {
        begin_life(&root, &mut record)?;
    }
    Ok(Opened { root, record, bulk, targets, clock })
}

/// Refuses a device of another target, and one from another time than the pool's record.
fn check_identity(
    root: &RealRoot,
    device: &mut dyn Disk,
    target: TargetNo,
    record: &PoolRecord,
) -> Result<()> {
    let dir = target_dir(root, target);
    let (id, life) = match Target::id_on(device, target) {
        Err(dolmen_types::Error::NotFound) => return Err(Error::MissingTarget { dir }),
        found => found?,
    };
    if id != target_id(record.uuid, target) {
        return Err(Error::ForeignTarget { dir });
    }
    // One ahead: the record is written last.
    if life.checked_sub(record.life).is_some_and(|ahead| ahead <= 1) {
        Ok(())
    } else {
        Err(Error::OtherLife { dir, life, pool: record.life })
    }
}

/// Takes over in the pool's record the life that all targets have begun. Without room for it they stay ahead.
pub(crate) fn begin_life(root: &RealRoot, record: &mut PoolRecord) -> Result<()> {
    let next = PoolRecord { life: record.life + 1, ..record.clone() };
    match root.write_small(RECORD_NAME, &next.encode()) {
        Ok(()) => *record = next,
        Err(error) if error.is_no_space() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Removes the pool in `dir` with everything in it. Calling it again goes on where it was cut short. Of a pool whose
/// record is damaged a directory for bulk data stays, which only the record knows.
///
/// # Errors
/// `Record` if it is no pool, or that of a newer format; `Foreign` if something else lies in it, and nothing is removed; `OtherPlace`
/// as at an open; `Device` with the owner's pid if it is in use.
pub fn destroy(dir: &Path) -> Result<()> {
    remove(dir, Existing::Yes).map(|_all| ())
}

/// The same, also if the directory for bulk data is not there any more, or empty, or belongs to the pool that this one
/// is a copy of: its path then.
///
/// # Errors
/// As `destroy`.
pub fn destroy_rest(dir: &Path) -> Result<Option<PathBuf>> {
    remove(dir, Existing::No)
}

/// Removes what a removal that was cut short has left in `dir`: targets without a record. Nothing else is touched.
///
/// # Errors
/// As [`destroy`].
pub fn destroy_remains(dir: &Path) -> Result<()> {
    let root = RealRoot::open(dir)?;
    match read_record(&root, RECORD_NAME) {
        Err(Error::Record { fault: RecordFault::Missing, .. }) if is_remains(&root)? => {
            Ok(root.remove_tree(RECORD_NAME)?)
        }
        _ => Ok(()),
    }
}

/// The record of a pool that a destroy would remove.
///
/// # Errors
/// As [`destroy`]; nothing is changed.
pub(crate) fn removable(dir: &Path) -> Result<PoolRecord> {
    let (root, bulk, _gone) = to_remove(dir, Existing::Yes)?;
    drop(bulk);
    read_record(&root, RECORD_NAME)
}

/// The system directory around a pool.
///
/// # Errors
/// `Device`.
pub(crate) fn system_of(dir: &Path) -> Result<PathBuf> {
    let dir = absolute(dir)?;
    Ok(dir.parent().map_or_else(|| dir.clone(), Path::to_owned))
}

fn remove(dir: &Path, bulk: Existing) -> Result<Option<PathBuf>> {
    let (root, bulk, gone) = to_remove(dir, bulk)?;
    root.remove_tree(RECORD_NAME)?;
    bulk.map_or(Ok(()), |bulk| bulk.remove_tree(BULK_RECORD_NAME))?;
    Ok(gone)
}

/// What is to be removed: the pool's directory, that of its bulk data if there is one, or where it was; nothing else lies in them.
fn to_remove(dir: &Path, bulk: Existing) -> Result<(RealRoot, Option<RealRoot>, Option<PathBuf>)> {
    refuse_no_pool(dir)?;
    let root = RealRoot::open(dir)?;
    let record = match read_record(&root, RECORD_NAME) {
        Ok(record) => Some(record),
        Err(Error::Record { fault: RecordFault::Damaged, .. }) if is_surely_pool(dir) => None,
        // What is left of a removal that was cut short: targets without a record.
        Err(Error::Record { fault: RecordFault::Missing, .. }) if is_remains(&root)? => None,
        Err(error) => return Err(error),
    };
    let targets = record.as_ref().map_or(0..u16::MAX, PoolRecord::own_targets);
    let elsewhere = record.and_then(|record| Some((record.uuid, dir.join(record.bulk_dir?))));
    let is_gone =
        |path: &Path| dolmen_env::read_small(path, BULK_RECORD_NAME).is_err_and(|error| error.is_not_found());
    let (bulk, gone) = match elsewhere {
        Some((_, path)) if bulk == Existing::No && is_gone(&path) => (None, Some(path)),
        Some((uuid, path)) => {
            let (own, place) = checked_bulk(RealRoot::open(&path)?, uuid)?;
            match refuse_copy(&own, place.as_deref(), &root, uuid) {
                Ok(()) => (Some(own), None),
                Err(_) if bulk == Existing::No => (None, Some(path)),
                Err(error) => return Err(error),
            }
        }
        None => (None, None),
    };
    let mut entries = foreign_entries(&root, RECORD_NAME, &targets)?;
    if let Some(bulk) = &bulk {
        entries.append(&mut foreign_entries(bulk, BULK_RECORD_NAME, &targets)?);
    }
    if !entries.is_empty() {
        return Err(Error::Foreign { entries });
    }
    Ok((root, bulk, gone))
}

/// Refuses what cannot be a pool: what is no directory, or lies below such. What does not exist passes.
///
/// # Errors
/// `Record`.
pub fn refuse_no_pool(dir: &Path) -> Result<()> {
    let is_none = match dir.metadata() {
        Ok(found) => !found.is_dir(),
        Err(error) => error.kind() == ErrorKind::NotADirectory,
    };
    if is_none {
        return Err(Error::Record { dir: dir.to_owned(), fault: RecordFault::Missing });
    }
    Ok(())
}

/// The pools of a system directory, by name. Directories that are no pools are passed over; a pool in use is
/// listed without being disturbed.
///
/// # Errors
/// `NoDirectory`; what the device answers.
pub fn list(system: &Path) -> Result<Vec<PoolEntry>> {
    let entry = |(name, record): Found| {
        let PoolRecord { uuid, label, targets, spread, volatile, bulk_dir, life, .. } = record.ok()?;
        let bulk_dir = bulk_dir.map(|path| system.join(&name).join(path));
        Some(PoolEntry { name, uuid, label, targets, spread, volatile, bulk_dir, life })
    };
    Ok(records(system)?.filter_map(entry).collect())
}

/// The pools of a system directory whose records cannot be used, with the reason, by name: damaged ones, and those of a
/// newer format.
///
/// # Errors
/// What the device answers.
pub fn list_damaged(system: &Path) -> Result<Vec<(OsString, RecordFault)>> {
    let faults = records(system)?.filter_map(|(name, record)| Some((name, record.err()?)));
    Ok(faults.filter(|(name, _)| is_surely_pool(&system.join(name))).collect())
}

/// A directory with something that may be a pool's record, and what that says.
type Found = (OsString, core::result::Result<PoolRecord, RecordFault>);

/// What lies where pools of a system directory have their records, by name of the pool.
fn records(system: &Path) -> Result<impl Iterator<Item = Found>> {
    if system.metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(Error::NoDirectory { path: system.to_owned() });
    }
    let record = |name: OsString| {
        let bytes = dolmen_env::read_small(&system.join(&name), RECORD_NAME).ok()?;
        Some((name, PoolRecord::decode(&bytes)))
    };
    Ok(dolmen_env::subdirectories(system)?.into_iter().filter_map(record))
}

/// Whether a directory is a pool although its record is damaged: that begins as one, or a target has a superblock.
fn is_surely_pool(dir: &Path) -> bool {
    let is_superblock =
        |bytes: Vec<u8>| bytes.chunks(SUPERBLOCK_SLOT_BYTES).any(|slot| Superblock::decode(slot).is_some());
    let is_target = |name: &OsString| {
        name.to_str().and_then(target_number).is_some()
            && dolmen_env::read_small(&dir.join(name), SUPERBLOCK_NAME).is_ok_and(is_superblock)
    };
    is_record(dir, RECORD_NAME)
        || dolmen_env::subdirectories(dir).is_ok_and(|names| names.iter().any(is_target))
}

/// The id that a target of a pool has: no other target of the pool has it, nor one of another pool.
#[must_use]
pub fn target_id(pool: Uuid, target: TargetNo) -> u128 {
    /// Odd, so that every number gives another id; large, so that UUIDs that follow each other do not meet.
    const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    pool.as_u128().wrapping_add(STEP.wrapping_mul(u128::from(target.0) + 1))
}

fn target_name(target: TargetNo) -> String {
    format!("t{}", target.0)
}

fn target_dir(root: &RealRoot, target: TargetNo) -> PathBuf {
    root.path().join(target_name(target))
}

/// The pool, or directory of one for bulk data, that a path outside leads into, or to.
///
/// # Errors
/// What the system answers.
pub fn pool_around(path: &Path) -> Result<Option<PathBuf>> {
    Ok(resolved(path)?.ancestors().find(|&above| is_pool(above)).map(Path::to_owned))
}

/// Whether a directory is a pool's, or one of a pool for bulk data, be its record damaged or of a newer format.
#[must_use]
pub fn is_pool(dir: &Path) -> bool {
    [RECORD_NAME, BULK_RECORD_NAME].iter().any(|name| is_record(dir, name))
}

/// Refuses a directory that has a pool above it, or a pool's directory for bulk data.
fn refuse_inside_pool(dir: &Path) -> Result<()> {
    let path = resolved(dir)?;
    match path.ancestors().skip(1).find(|&above| is_pool(above)) {
        Some(pool) => Err(Error::Inside { dir: dir.to_owned(), pool: pool.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a directory has a pool's record of this name, be it damaged or of a newer format.
fn is_record(dir: &Path, name: &str) -> bool {
    dolmen_env::read_small(dir, name).is_ok_and(|bytes| PoolRecord::is_one(&bytes))
}

/// Refuses a directory that cannot be made in one step: a parent that is misspelt would be made, too, and stay.
fn refuse_no_directory(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(Error::NoDirectory { path: dir.to_owned() });
    }
    match absolute(dir)?.parent() {
        Some(parent) if !parent.exists() => Err(Error::NoParent { dir: parent.to_owned() }),
        Some(parent) if !parent.is_dir() => Err(Error::NoDirectory { path: parent.to_owned() }),
        _ => Ok(()),
    }
}

/// Refuses a label, or a UUID that was asked for, that a pool beside the new one has.
fn refuse_taken(dir: &Path, options: &PoolOptions) -> Result<()> {
    let path = resolved(dir)?;
    let (true, Some(system)) = (options.label.is_some() || options.uuid.is_some(), path.parent()) else {
        return Ok(());
    };
    let entries = match list(system) {
        Err(Error::Device(error)) if error.is_not_found() => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        if entry.label.is_some() && entry.label == options.label {
            return Err(Error::LabelTaken { dir: system.join(entry.name) });
        }
        if Some(entry.uuid) == options.uuid {
            return Err(Error::UuidTaken { dir: system.join(entry.name) });
        }
    }
    Ok(())
}

/// What lies in a pool's directory, or in those of its targets, and is not the pool's.
fn foreign_entries(root: &RealRoot, record: &str, targets: &Range<u16>) -> Result<Vec<PathBuf>> {
    let fresh = format!(".{record}.new");
    let subdirectories = root.subdirectories()?;
    let mut foreign = Vec::new();
    for name in root.entries()? {
        let path = root.path().join(&name);
        if subdirectories.iter().any(|directory| *directory == *name)
            && target_number(&name).is_some_and(|number| targets.contains(&number))
        {
            let names = dolmen_env::entries(&path)?;
            foreign.extend(names.iter().filter(|name| !is_engine_file(name)).map(|name| path.join(name)));
        } else if name != record && name != fresh {
            foreign.push(path);
        }
    }
    Ok(foreign)
}

/// The number of a target by the name of its directory.
fn target_number(name: &str) -> Option<u16> {
    let number = name.strip_prefix('t')?.parse().ok()?;
    (target_name(TargetNo(number)) == name).then_some(number)
}

/// Whether the engine names a file so: `super`, or a kind and a number of eight digits.
fn is_engine_file(name: &str) -> bool {
    let numbered = |kind: &str| {
        let number = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
        number.is_some_and(|digits| digits.len() == 8 && u32::from_str_radix(digits, 16).is_ok())
    };
    name == SUPERBLOCK_NAME || ["manifest", "log", "run", "bulk"].into_iter().any(numbered)
}

/// Whether the directories of targets are there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Existing {
    Yes,
    No,
}

/// Makes the targets, then the records.
fn fill(root: &RealRoot, bulk: Option<&RealRoot>, options: &PoolOptions) -> Result<()> {
    let (mut device_bytes, mut free_bytes) = (u64::MAX, u64::MAX);
    for place in [Some(root), bulk].into_iter().flatten() {
        let disk = RealDisk::open(place.path())?;
        if disk.media() == Media::Mapped && !options.volatile {
            return Err(Error::Volatile { dir: place.path().to_owned() });
        }
        let space = disk.space()?;
        (device_bytes, free_bytes) = (device_bytes.min(space.total_bytes), free_bytes.min(space.free_bytes));
    }
    let mut record = options.record(device_bytes, uuid_of_random(Secrets::System.next_u128()?))?;
    refuse_too_large(root, bulk, options.capacity_bytes)?;
    let needed_bytes = bytes_at_first(&record);
    if needed_bytes > free_bytes {
        return Err(Error::NoRoom { targets: record.targets, needed_bytes, free_bytes });
    }
    // An absolute path stays right from whatever directory the pool is opened.
    record.bulk_dir = bulk.map(|bulk| absolute(bulk.path())).transpose()?;
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let own = record.own_targets();
    let stores = on_each(own.start, own.clone().collect(), |target, _| {
        let devices = devices(root, bulk, target, RealOptions::default(), Existing::No)?;
        let config: TargetConfig = target_config(&record, record.memory_budget_bytes, target);
        Ok(Target::create(devices, Arc::clone(&clock), target_id(record.uuid, target), &config)?)
    })?;
    let targets = Targets::new(stores)?;
    Service::create(&targets)?;
    close_all(own.start, targets.into_stores(), None, false)?;
    if let Some(bulk) = bulk {
        bulk.write_small(BULK_RECORD_NAME, &bulk_record(&record, resolved(root.path())?).encode())?;
    }
    Ok(root.write_small(RECORD_NAME, &record.encode())?)
}

/// Pools are thin, and together may have more than there is; one alone that has more than its devices could never be filled.
fn refuse_too_large(root: &RealRoot, bulk: Option<&RealRoot>, capacity_bytes: u64) -> Result<()> {
    let mut devices = BTreeMap::new();
    for place in [Some(root), bulk].into_iter().flatten() {
        devices.insert(place.id()?.0, RealDisk::open(place.path())?.space()?.total_bytes);
    }
    let device_bytes = devices.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    if capacity_bytes > device_bytes {
        return Err(Error::TooLarge { capacity_bytes, device_bytes });
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        let errno = dolmen_env::Errno::from_io_error(&error).unwrap_or(dolmen_env::Errno::IO);
        let name = path.display().to_string();
        Error::Device(dolmen_env::Error::from_errno(dolmen_env::Op::Open, &name, 0, errno))
    })
}

/// The path without links and `..`, as far as it exists.
fn resolved(path: &Path) -> Result<PathBuf> {
    let path = absolute(path)?;
    let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    Ok(match existing {
        Some((above, real)) => path.strip_prefix(above).map_or(real.clone(), |rest| {
            if rest.as_os_str().is_empty() { real.clone() } else { real.join(rest) }
        }),
        None => path,
    })
}

fn pool_map(record: &PoolRecord, own: u32) -> PoolMap {
    let target = |rank| TargetInfo { rank, state: TargetState::UpIn };
    let targets = record.ranks(own).into_iter().map(target).collect();
    PoolMap { version: MAP_VERSION, pool: record.uuid, targets }
}

fn devices(
    root: &RealRoot,
    bulk: Option<&RealRoot>,
    target: TargetNo,
    options: RealOptions,
    existing: Existing,
) -> Result<Devices> {
    let name = target_name(target);
    let disk = |root: &RealRoot| -> Result<Box<dyn Disk>> {
        Ok(Box::new(match existing {
            Existing::Yes => root.open_disk(&name, options)?,
            Existing::No => root.create_disk(&name, options)?,
        }))
    };
    Ok(Devices { meta: disk(root)?, bulk: bulk.map(disk).transpose()? })
}

fn read_record(root: &RealRoot, name: &str) -> Result<PoolRecord> {
    let fault = |fault| Error::Record { dir: root.path().to_owned(), fault };
    let bytes = match root.read_small(name) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Err(fault(RecordFault::Missing)),
        Err(error) => return Err(error.into()),
    };
    PoolRecord::decode(&bytes).map_err(fault)
}

/// Refuses a directory for bulk data of another pool; otherwise also where its pool was when it was last written.
fn checked_bulk(root: RealRoot, uuid: Uuid) -> Result<(RealRoot, Option<PathBuf>)> {
    let record = read_record(&root, BULK_RECORD_NAME)?;
    if record.uuid == uuid {
        Ok((root, record.bulk_dir))
    } else {
        Err(Error::Record { dir: root.path().to_owned(), fault: RecordFault::Foreign })
    }
}

/// Refuses bulk data that belongs to another directory with this pool, of which the one in `root` is then a copy. A pool
/// that has been moved is not in its old place: the bulk data learns the new one.
fn claim_bulk(bulk: &RealRoot, place: Option<PathBuf>, root: &RealRoot, record: &PoolRecord) -> Result<()> {
    refuse_copy(bulk, place.as_deref(), root, record.uuid)?;
    let here = resolved(root.path())?;
    if place.as_deref() == Some(&*here) {
        return Ok(());
    }
    match bulk.write_small(BULK_RECORD_NAME, &bulk_record(record, here).encode()) {
        // The old place has no pool: whoever asks next learns the same.
        Err(error) if error.is_no_space() => Ok(()),
        written => Ok(written?),
    }
}

/// What the directory for bulk data has as record: in it the path is that of the pool's directory.
fn bulk_record(record: &PoolRecord, place: PathBuf) -> PoolRecord {
    PoolRecord { bulk_dir: Some(place), ..record.clone() }
}

fn refuse_copy(bulk: &RealRoot, place: Option<&Path>, root: &RealRoot, uuid: Uuid) -> Result<()> {
    let Some(place) = place else { return Ok(()) };
    let is_here = place.metadata().is_ok_and(|found| root.id() == Ok((found.dev(), found.ino())));
    let is_pool = match dolmen_env::read_small(place, RECORD_NAME) {
        Ok(bytes) => PoolRecord::decode(&bytes).is_ok_and(|there| there.uuid == uuid),
        Err(error) if error.is_not_found() => false,
        // What cannot be looked at may be the pool.
        Err(_) => place.is_dir(),
    };
    if is_here || !is_pool {
        return Ok(());
    }
    let (dir, bulk) = (root.path().to_owned(), bulk.path().to_owned());
    Err(Error::OtherPlace { dir, bulk, place: place.to_owned() })
}

/// Whether a directory holds targets and nothing else but a record that was cut short.
fn is_remains(root: &RealRoot) -> Result<bool> {
    let (names, record) = (root.entries()?, unfinished_name(RECORD_NAME));
    Ok(!names.is_empty() && names.iter().all(|name| target_number(name).is_some() || *name == record))
}
