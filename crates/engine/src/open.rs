//! Creating a target, and opening one after a close or a crash.
//!
//! Opening reads the newest valid superblock and its manifest, then replays the log from where the manifest
//! says. What follows the last valid frame is either an interrupted write, which was never acknowledged, or
//! damage. A later frame that says the bad one was durable tells them apart; and if the machine has run on since the
//! last open, nothing can be missing but a frame that was being written.

use crate::bulk::Bulk;
use crate::config::{Devices, TargetConfig};
use crate::conts::Conts;
use crate::epochs::Epochs;
use crate::error::{corrupt, disk_error};
use crate::index::Index;
use crate::log::Log;
use crate::names::number_of;
use crate::repeats::Repeats;
use crate::replay::Stop;
use crate::runs::Blocks;
use crate::store::{Disks, Store};
use crate::target::Target;
use crate::tx::Txs;
use dolmen_codec::manifest::{Manifest, RUN_NUMBER_MAX};
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::verb::system_container;
use dolmen_env::{Clock, Disk};
use dolmen_types::{Error, Invalid, TargetNo, crc32c};
use hashbrown::HashMap;
use std::sync::Arc;

pub(crate) const SUPERBLOCK_FILE: &str = "super";
/// Slots of it, written in turn.
pub(crate) const SLOTS: u64 = 2;

pub(crate) fn manifest_name(number: u32) -> String {
    format!("manifest.{number:08x}")
}

/// The table of short ways may take this part of the memory budget: eight bytes there save a fetch what a block of a
/// run of a few KiB would, and the access to the device for it.
const HOT_PARTS: u64 = 2;

/// What opening found besides the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Whether the target had been closed.
    pub clean: bool,
    /// Log frames replayed.
    pub frames: u64,
    /// Bytes behind the last valid frame that were an interrupted, never acknowledged write.
    pub discarded_bytes: u64,
}

impl Target {
    /// Creates an empty target and opens it.
    ///
    /// # Errors
    /// `Invalid::Argument` for sizes that do not fit together, `Exists` if the devices hold a target, and the
    /// device's errors.
    pub fn create(
        devices: Devices,
        clock: Arc<dyn Clock>,
        target_id: u128,
        config: &TargetConfig,
    ) -> Result<Self, Error> {
        config.check()?;
        let target = config.target;
        let io = |e: dolmen_env::Error| disk_error(target, &e);
        let mut disks = Disks::new(devices.meta, devices.bulk);
        if disks.meta.list().map_err(io)?.iter().any(|name| name == SUPERBLOCK_FILE) {
            return Err(Error::Exists);
        }
        let manifest = Manifest { target_id, ..Manifest::default() };
        let file = disks.meta.create(SUPERBLOCK_FILE, SLOTS * SUPERBLOCK_SLOT_BYTES as u64).map_err(io)?;
        disks.meta.close(file);
        disks.create_bulk(target, target_id)?;
        let mut created = assemble(disks, clock, config, &manifest)?;
        let (cont, spec) = system_container();
        created.conts.apply(cont, dolmen_codec::log_body::ContEvent::Created(spec));
        created.write_first_manifest()?;
        Ok(created)
    }

    /// The id of the target on a device, of metadata or for bulk alone, as [`Target::create`] was given it, and the
    /// life of its pool that it last took part in. Reads only.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Corrupt` if its superblock is damaged; the device's errors.
    pub fn id_on(device: &mut dyn Disk, target: TargetNo) -> Result<(u128, u64), Error> {
        let superblock = read_superblock(device, target)?;
        Ok((superblock.target_id, superblock.life))
    }

    /// Opens a target.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Corrupt` if something durable is damaged, naming file and offset; the
    /// device's errors.
    pub fn open(
        devices: Devices,
        clock: Arc<dyn Clock>,
        config: &TargetConfig,
    ) -> Result<(Self, Recovery), Error> {
        config.check()?;
        let mut disks = Disks::new(devices.meta, devices.bulk);
        let superblock = read_superblock(&mut *disks.meta, config.target)?;
        let manifest = read_manifest(&mut *disks.meta, config.target, &superblock)?;
        let stop = stop_of(&superblock, disks.meta.boot_id());
        let mut opened = assemble(disks, clock, config, &manifest)?;
        opened.checkpoint.adopt(&superblock, &manifest);
        opened.store.open_runs(&manifest.runs)?;
        let mut recovery = opened.replay(&manifest, stop)?;
        recovery.clean = superblock.clean;
        opened.remove_strays()?;
        if superblock.clean {
            // From now on frames may follow the checkpoint: the next open must not take the target for closed.
            opened.mark_clean(false)?;
        }
        if opened.is_reserve_used() {
            opened.give_back_log()?;
        }
        Ok((opened, recovery))
    }

    /// Every recovery takes a segment: on a full device a checkpoint gives those before it back, so that the next
    /// one finds one, too. If there is no room for its run, it gets that of a segment of the reserve.
    fn give_back_log(&mut self) -> Result<(), Error> {
        let spares = self.store.log.free_count();
        if !self.checkpoint_if_room()? && spares > 0 {
            self.store.log.trim(&mut *self.store.disks.meta, spares - 1)?;
            self.checkpoint_if_room()?;
        }
        Ok(())
    }

    /// Whether there was room for it.
    fn checkpoint_if_room(&mut self) -> Result<bool, Error> {
        match self.checkpoint_now() {
            Err(Error::NoSpace { .. }) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Removes files that an interrupted checkpoint or merge left and nothing refers to.
    fn remove_strays(&mut self) -> Result<(), Error> {
        self.remove_stray_runs()?;
        let io = |e: dolmen_env::Error| disk_error(self.config.target, &e);
        for name in self.store.disks.bulk().list().map_err(io)? {
            if !self.store.bulk.knows(&name) {
                self.store.disks.bulk().remove(&name).map_err(io)?;
            }
        }
        Ok(())
    }

    /// The runs and manifests among them.
    pub(crate) fn remove_stray_runs(&mut self) -> Result<(), Error> {
        let io = |e: dolmen_env::Error| disk_error(self.config.target, &e);
        let manifest = self.checkpoint.manifest();
        let manifests = [manifest_name(manifest), manifest_name(manifest.wrapping_sub(1))];
        let names = self.store.disks.meta.list().map_err(io)?;
        let runs: Vec<String> =
            self.store.index.runs.iter().map(|run| crate::runs::file_name(run.info().number)).collect();
        for name in names {
            let is_manifest = number_of(&name, manifest_name, u32::MAX).is_some();
            let is_run = number_of(&name, crate::runs::file_name, RUN_NUMBER_MAX).is_some();
            if (is_manifest && !manifests.contains(&name)) || (is_run && !runs.contains(&name)) {
                self.store.disks.meta.remove(&name).map_err(io)?;
            }
        }
        Ok(())
    }
}

/// How the target's last owner came to its end.
fn stop_of(superblock: &Superblock, boot_id: u128) -> Stop {
    if superblock.clean {
        Stop::Closed
    } else if boot_id != 0 && superblock.boot_id == boot_id {
        Stop::Process
    } else {
        Stop::Power
    }
}

/// Puts a target together as a manifest describes it, before any replay.
fn assemble(
    mut disks: Disks,
    clock: Arc<dyn Clock>,
    config: &TargetConfig,
    manifest: &Manifest,
) -> Result<Target, Error> {
    let target = config.target;
    let media = disks.meta.media();
    let log = Log::new(config, manifest.target_id, media);
    let mut bulk = Bulk::new(config);
    bulk.open(disks.bulk(), &manifest.bulk_segments)?;
    let cache_bytes = usize::try_from(config.memory_budget_bytes / 4).unwrap_or(usize::MAX);
    let blocks = Blocks::new(cache_bytes);
    let hot = crate::hot::Hot::new(config.memory_budget_bytes / HOT_PARTS);
    let store = Store::new(
        target,
        disks,
        log,
        bulk,
        Index::new(target, config.memory_budget_bytes / 64),
        blocks,
        hot,
    );
    let epochs = Epochs::new(clock, manifest.ceiling);
    let mut repeats = Repeats::from_manifest(&manifest.clients, &manifest.floors);
    repeats.opened(epochs.wall_ns());
    let creds: HashMap<_, _> = manifest.creds.iter().map(|&(number, cred)| (cred, number)).collect();
    Ok(Target::assemble(
        config.clone(),
        manifest.target_id,
        store,
        Conts::from_manifest(&manifest.conts),
        epochs,
        repeats,
        creds,
        Txs::from_manifest(&manifest.decided, &manifest.unconcluded),
        crate::checkpoint::State::default(),
    ))
}

fn read_superblock(disk: &mut dyn Disk, target: TargetNo) -> Result<Superblock, Error> {
    let file = match disk.open(SUPERBLOCK_FILE) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Err(Error::NotFound),
        Err(error) => return Err(disk_error(target, &error)),
    };
    let damaged = || corrupt(target, SUPERBLOCK_FILE, 0, 0);
    // A longer one is not ours, whatever it begins with.
    if disk.len(file).map_err(|e| disk_error(target, &e))? != SLOTS * SUPERBLOCK_SLOT_BYTES as u64 {
        return Err(damaged());
    }
    let mut best: Option<Superblock> = None;
    let mut other_version = false;
    let mut slot = vec![0; SUPERBLOCK_SLOT_BYTES];
    for number in 0..SLOTS {
        disk.read_at(file, number * SUPERBLOCK_SLOT_BYTES as u64, &mut slot)
            .map_err(|e| disk_error(target, &e))?;
        let found = Superblock::decode(&slot);
        other_version |= Superblock::is_of_another_version(&slot);
        if let Some(found) = found
            && best.is_none_or(|best| found.sequence > best.sequence)
        {
            best = Some(found);
        }
    }
    disk.close(file);
    let none = || if other_version { Invalid::Layout.into() } else { damaged() };
    let best = best.ok_or_else(none)?;
    if best.features != 0 {
        return Err(Invalid::Layout.into());
    }
    Ok(best)
}

pub(crate) fn read_manifest(
    disk: &mut dyn Disk,
    target: TargetNo,
    superblock: &Superblock,
) -> Result<Manifest, Error> {
    let number = superblock.manifest;
    let damaged = || corrupt(target, "manifest", u64::from(number), 0);
    let io = |e: dolmen_env::Error| disk_error(target, &e);
    let file = match disk.open(&manifest_name(number)) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Err(damaged()),
        Err(error) => return Err(io(error)),
    };
    if u64::from(superblock.manifest_bytes) > disk.len(file).map_err(io)? {
        return Err(damaged());
    }
    let mut bytes = vec![0; superblock.manifest_bytes as usize];
    disk.read_at(file, 0, &mut bytes).map_err(io)?;
    disk.close(file);
    if crc32c(&bytes) != superblock.manifest_sum {
        return Err(damaged());
    }
    let manifest = Manifest::decode(&bytes).ok_or_else(damaged)?;
    if manifest.target_id != superblock.target_id {
        return Err(damaged());
    }
    Ok(manifest)
}
