//! The directory of a pool and that of a system.

use crate::each::{close_all, on_each};
use crate::error::{Error, RecordFault, Result};
use crate::options::{OpenOptions, PoolOptions, target_config};
use crate::pool::LocalPool;
use crate::record::PoolRecord;
use dolmen_cluster::{Hlc, Pool, PoolIdentity, Service, Targets};
use dolmen_engine::{Devices, Recovery, Target, TargetConfig};
use dolmen_env::{Clock, Disk, Media, RealClock, RealDisk, RealOptions, RealRoot, Rng};
use dolmen_types::{Label, PoolMap, TargetInfo, TargetNo, TargetState, Uuid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The pool's record in its directory, written last by `create` and removed first by `destroy`.
const RECORD_NAME: &str = "pool";
/// The same in a directory for bulk data.
const BULK_RECORD_NAME: &str = "bulk";
/// The version of a pool map whose targets never change.
const MAP_VERSION: u32 = 1;

/// A pool in a system directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// The name of its directory.
    pub name: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: Option<Label>,
    /// Its targets.
    pub targets: u16,
    /// Whether it may be lost with the power.
    pub volatile: bool,
    /// Where its bulk data is, if not beside the metadata.
    pub bulk_dir: Option<PathBuf>,
}

/// Makes a pool in `dir`, which must not exist or be empty, and closes it.
///
/// # Errors
/// `Volatile` on a file system in memory unless the options say so; `Option`; what the device and the engine
/// answer. Nothing is left behind.
pub fn create(dir: &Path, options: &PoolOptions) -> Result<()> {
    let root = RealRoot::create(dir)?;
    let bulk = options.bulk_dir.as_deref().map(RealRoot::create).transpose();
    let made = match &bulk {
        Ok(bulk) => fill(&root, bulk.as_ref(), options),
        Err(error) => Err(error.clone().into()),
    };
    if made.is_err() {
        // Ignored, both: why the pool could not be made says more than why its remains could not be removed.
        let _removed = root.remove_tree(RECORD_NAME);
        let _removed = bulk.ok().flatten().map(|bulk| bulk.remove_tree(BULK_RECORD_NAME));
    }
    made
}

/// Opens the pool in `dir`, recovering it if its last owner died.
///
/// # Errors
/// `Device` with the owner's pid if another process has it (see `Error::owner_pid`); `Record`; what the
/// targets answer.
pub fn open(dir: &Path, options: &OpenOptions) -> Result<LocalPool> {
    let root = RealRoot::open(dir)?;
    let mut record = read_record(&root, RECORD_NAME)?;
    let bulk = match record.bulk_dir.take() {
        Some(path) => Some(open_bulk(&dir.join(path), record.uuid)?),
        None => None,
    };
    let memory = options.memory_budget_bytes.unwrap_or(record.memory_budget_bytes);
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let opened = on_each((0..record.targets).collect(), |target, _| {
        let devices = devices(&root, bulk.as_ref(), target, options.devices, Existing::Yes)?;
        Ok(Target::open(devices, Arc::clone(&clock), &target_config(&record, memory, target))?)
    })?;
    let (stores, recoveries): (Vec<Target>, Vec<Recovery>) = opened.into_iter().unzip();
    let targets = Targets::new(stores)?;
    let identity = PoolIdentity { map: pool_map(&record), label: record.label.clone() };
    let service = Service::open(&targets, Hlc::new(clock), identity, Rng::from_entropy()?)?;
    LocalPool::start(Pool::new(targets, service), root, bulk, recoveries, options.upkeep)
}

/// Removes the pool in `dir` with everything in it. Calling it again goes on where it was cut short.
///
/// # Errors
/// `Record` if it is no pool; `Device` with the owner's pid if it is in use.
pub fn destroy(dir: &Path) -> Result<()> {
    let root = RealRoot::open(dir)?;
    let record = match read_record(&root, RECORD_NAME) {
        Ok(record) => Some(record),
        // What is left of a removal that was cut short: targets without a record.
        Err(Error::Record { fault: RecordFault::Missing, .. }) if is_remains(&root)? => None,
        Err(error) => return Err(error),
    };
    let bulk = match record.and_then(|record| Some((record.uuid, record.bulk_dir?))) {
        Some((uuid, path)) => Some(open_bulk(&dir.join(path), uuid)?),
        None => None,
    };
    root.remove_tree(RECORD_NAME)?;
    bulk.map_or(Ok(()), |bulk| bulk.remove_tree(BULK_RECORD_NAME))?;
    Ok(())
}

/// The pools of a system directory, by name. Directories that are no pools are passed over; a pool in use is
/// listed without being disturbed.
///
/// # Errors
/// What the device answers.
pub fn list(system: &Path) -> Result<Vec<PoolEntry>> {
    let mut entries = Vec::new();
    for name in dolmen_env::subdirectories(system)? {
        let Ok(bytes) = dolmen_env::read_small(&system.join(&name), RECORD_NAME) else { continue };
        if let Ok(PoolRecord { uuid, label, targets, volatile, bulk_dir, .. }) = PoolRecord::decode(&bytes) {
            let bulk_dir = bulk_dir.map(|path| system.join(&name).join(path));
            entries.push(PoolEntry { name, uuid, label, targets, volatile, bulk_dir });
        }
    }
    Ok(entries)
}

/// Whether the directories of targets are there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Existing {
    Yes,
    No,
}

/// Makes the targets, then the records.
fn fill(root: &RealRoot, bulk: Option<&RealRoot>, options: &PoolOptions) -> Result<()> {
    let mut rng = Rng::from_entropy()?;
    let mut device_bytes = u64::MAX;
    for place in [Some(root), bulk].into_iter().flatten() {
        let disk = RealDisk::open(place.path())?;
        if disk.media() == Media::Mapped && !options.volatile {
            return Err(Error::Volatile { dir: place.path().to_owned() });
        }
        device_bytes = device_bytes.min(disk.space()?.total_bytes);
    }
    let mut record = options.record(device_bytes, &mut rng)?;
    // An absolute path stays right from whatever directory the pool is opened.
    record.bulk_dir = bulk.map(|bulk| absolute(bulk.path())).transpose()?;
    let ids: Vec<u128> = (0..record.targets).map(|_| rng.next_u128()).collect();
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let stores = on_each((0..record.targets).collect(), |target, _| {
        let devices = devices(root, bulk, target, RealOptions::default(), Existing::No)?;
        let config: TargetConfig = target_config(&record, record.memory_budget_bytes, target);
        Ok(Target::create(devices, Arc::clone(&clock), ids[target.index()], &config)?)
    })?;
    let targets = Targets::new(stores)?;
    Service::create(&targets)?;
    close_all(targets.into_stores())?;
    if let Some(bulk) = bulk {
        bulk.write_small(BULK_RECORD_NAME, &record.encode())?;
    }
    Ok(root.write_small(RECORD_NAME, &record.encode())?)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        let errno = dolmen_env::Errno::from_io_error(&error).unwrap_or(dolmen_env::Errno::IO);
        let name = path.display().to_string();
        Error::Device(dolmen_env::Error::from_errno(dolmen_env::Op::Open, &name, 0, errno))
    })
}

fn pool_map(record: &PoolRecord) -> PoolMap {
    let targets = vec![TargetInfo { rank: 0, state: TargetState::UpIn }; usize::from(record.targets)];
    PoolMap { version: MAP_VERSION, pool: record.uuid, targets }
}

fn devices(
    root: &RealRoot,
    bulk: Option<&RealRoot>,
    target: TargetNo,
    options: RealOptions,
    existing: Existing,
) -> Result<Devices> {
    let name = format!("t{}", target.0);
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

fn open_bulk(dir: &Path, uuid: Uuid) -> Result<RealRoot> {
    let root = RealRoot::open(dir)?;
    if read_record(&root, BULK_RECORD_NAME)?.uuid == uuid {
        Ok(root)
    } else {
        Err(Error::Record { dir: dir.to_owned(), fault: RecordFault::Foreign })
    }
}

/// Whether a directory holds targets and nothing else that is visible.
fn is_remains(root: &RealRoot) -> Result<bool> {
    let names = root.subdirectories()?;
    let target = |name: &String| name.strip_prefix('t').is_some_and(|number| number.parse::<u16>().is_ok());
    Ok(!names.is_empty() && names.iter().all(target))
}
