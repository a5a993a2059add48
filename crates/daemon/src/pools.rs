//! The pools of a system directory, each open once for all who use it.

use dolmen_codec::wire::{PoolAccess, PoolEntry, PoolName, PoolSpec};
use dolmen_local::{LocalPool, OpenOptions, PoolOptions, Upkeep};
use dolmen_types::{Error, Invalid, Label, Result, TargetNo, Uuid};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The pools of one directory.
pub(crate) struct Pools {
    dir: PathBuf,
    memory_budget_bytes: Option<u64>,
    /// Guards the open pools; held while one is opened, so that it is opened once.
    open: Mutex<BTreeMap<Uuid, Arc<LocalPool>>>,
}

impl Pools {
    pub(crate) fn new(dir: PathBuf, memory_budget_bytes: Option<u64>) -> Self {
        Self { dir, memory_budget_bytes, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<LocalPool>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pools of the directory, by UUID.
    pub(crate) fn list(&self) -> Result<Vec<PoolEntry>> {
        let mut all: Vec<PoolEntry> = self.entries()?.iter().map(entry_of).collect();
        let open = self.open();
        for entry in &mut all {
            let users = open.get(&entry.uuid).map_or(0, |pool| Arc::strong_count(pool) - 1);
            entry.connections = u32::try_from(users).unwrap_or(u32::MAX);
        }
        all.sort_unstable_by_key(|entry| entry.uuid);
        Ok(all)
    }

    /// A pool by name, opened if it is not open yet.
    pub(crate) fn connect(&self, name: &PoolName, access: PoolAccess) -> Result<(Arc<LocalPool>, PoolEntry)> {
        let found = self.find(name)?;
        let mut open = self.open();
        if let Some(pool) = open.get(&found.uuid) {
            if access == PoolAccess::Exclusive && Arc::strong_count(pool) > 1 {
                return Err(Error::Busy);
            }
            return Ok((Arc::clone(pool), entry_of(&found)));
        }
        let options = OpenOptions {
            memory_budget_bytes: self.memory_budget_bytes,
            upkeep: Upkeep::Thread,
            ..OpenOptions::default()
        };
        let pool =
            dolmen_local::open(&self.dir.join(&found.name), &options).map_err(|error| plain(&error))?;
        let pool = Arc::new(pool);
        open.insert(found.uuid, Arc::clone(&pool));
        Ok((pool, entry_of(&found)))
    }

    /// Makes a pool; its directory is called by its label, else by its UUID.
    pub(crate) fn create(&self, spec: &PoolSpec, uuid: Uuid) -> Result<PoolEntry> {
        let defaults = PoolOptions::default();
        let options = PoolOptions {
            targets: spec.targets.unwrap_or(defaults.targets),
            label: spec.label.clone(),
            uuid: Some(uuid),
            capacity_bytes: spec.capacity_bytes.unwrap_or(defaults.capacity_bytes),
            small_value_bytes_max: spec.small_value_bytes_max.unwrap_or(defaults.small_value_bytes_max),
            log_segment_bytes: spec.log_segment_bytes.unwrap_or(defaults.log_segment_bytes),
            bulk_segment_bytes: spec.bulk_segment_bytes.unwrap_or(defaults.bulk_segment_bytes),
            checkpoint_log_bytes: spec.checkpoint_log_bytes.unwrap_or(defaults.checkpoint_log_bytes),
            memory_budget_bytes: spec.memory_budget_bytes.unwrap_or(defaults.memory_budget_bytes),
            volatile: spec.volatile,
            bulk_dir: spec.bulk_dir.clone().map(|path| PathBuf::from(OsString::from_vec(path))),
        };
        let name = directory_name(spec.label.as_ref(), uuid);
        dolmen_local::create(&self.dir.join(name), &options).map_err(|error| plain(&error))?;
        Ok(entry_of(&self.find(&PoolName::Uuid(uuid))?))
    }

    /// Destroys a pool; whoever has it open keeps it from that unless `force` is set.
    pub(crate) fn destroy(&self, name: &PoolName, force: bool) -> Result<()> {
        let found = self.find(name)?;
        let mut open = self.open();
        if let Some(pool) = open.get(&found.uuid) {
            if Arc::strong_count(pool) > 1 && !force {
                return Err(Error::Busy);
            }
            // Whoever still uses it finds its targets gone when it asks next; the directory is removed below them.
            open.remove(&found.uuid);
        }
        dolmen_local::destroy(&self.dir.join(&found.name)).map_err(|error| plain(&error))
    }

    /// Closes all pools; the first error, with all closed nevertheless. `has_clients` if some may come back.
    pub(crate) fn close(&self, has_clients: bool) -> core::result::Result<(), dolmen_local::Error> {
        let all = core::mem::take(&mut *self.open());
        let mut first = Ok(());
        for pool in all.into_values().filter_map(Arc::into_inner) {
            first = first.and(if has_clients { pool.close_under_clients() } else { pool.close() });
        }
        first
    }

    fn entries(&self) -> Result<Vec<dolmen_local::PoolEntry>> {
        dolmen_local::list(&self.dir).map_err(|error| plain(&error))
    }

    fn find(&self, name: &PoolName) -> Result<dolmen_local::PoolEntry> {
        let is_named = |entry: &dolmen_local::PoolEntry| match name {
            PoolName::Label(label) => entry.label.as_ref() == Some(label),
            PoolName::Uuid(uuid) => entry.uuid == *uuid,
        };
        let entries = self.entries()?;
        // A pool without a label is called as its directory is.
        let has_name = |entry: &&dolmen_local::PoolEntry| matches!(name, PoolName::Label(label) if entry.label.is_none() && entry.name == label.as_str());
        let found = entries.iter().find(|entry| is_named(entry)).or_else(|| entries.iter().find(has_name));
        found.cloned().ok_or(Error::NotFound)
    }
}

fn directory_name(label: Option<&Label>, uuid: Uuid) -> String {
    match label.map(Label::as_str) {
        // What every directory has already.
        None | Some("." | "..") => uuid.to_string(),
        Some(label) => label.to_owned(),
    }
}

fn entry_of(entry: &dolmen_local::PoolEntry) -> PoolEntry {
    PoolEntry {
        uuid: entry.uuid,
        label: entry.label.clone(),
        target_count: u32::from(entry.targets),
        capacity_bytes: 0,
        connections: 0,
        volatile: entry.volatile,
    }
}

/// What a client can be told of an error of a pool's directory.
fn plain(error: &dolmen_local::Error) -> Error {
    use dolmen_local::Error as Local;
    match error {
        Local::Store(error) => error.clone(),
        Local::IsPool { .. } | Local::LabelTaken { .. } | Local::UuidTaken { .. } => Error::Exists,
        Local::Option { .. } | Local::Volatile { .. } | Local::Inside { .. } | Local::OwnBulk { .. } => {
            Invalid::Argument.into()
        }
        Local::Device(error) if error.is_not_found() => Error::NotFound,
        Local::NoRoom { needed_bytes, .. } => {
            Error::NoSpace { target: TargetNo(0), needed_bytes: *needed_bytes }
        }
        other if other.owner_pid().is_some() => Error::Busy,
        _ => Error::Io { target: TargetNo(0), errno: 5 },
    }
}

/// The directory of a system, for messages.
impl core::fmt::Debug for Pools {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pools").field("dir", &Path::new(&self.dir)).finish_non_exhaustive()
    }
}
