//! What a pool is made of, and how it is opened.

use crate::error::{Error, Result};
use crate::record::{PoolRecord, Spread};
use core::time::Duration;
use dolmen_engine::{CHECKPOINT_LOG_BYTES_MIN, TargetConfig};
use dolmen_env::{RealOptions, cpu_count};
use dolmen_types::{Label, TargetNo, Uuid, limits};
use std::path::PathBuf;

/// Memory of a pool unless it says otherwise: what a laptop can spare.
const MEMORY_BUDGET_BYTES_DEFAULT: u64 = 1 << 30;
/// What a pool may be given as memory: from what one target needs to more than machines have.
const MEMORY_BUDGET_BYTES_MIN: u64 = MEMORY_BYTES_MIN_PER_TARGET;
const MEMORY_BUDGET_BYTES_MAX: u64 = 16 << 40;
/// No device of these years is as large, and sums over all targets stay far below 64 bits.
const CAPACITY_BYTES_MAX: u64 = 1 << 50;
/// Below this a target cannot hold the blocks of one merge.
const MEMORY_BYTES_MIN_PER_TARGET: u64 = 4 << 20;
/// A target that chooses its sizes has room for about so many log segments, and each is at least so large.
const LOG_SEGMENTS: u64 = 32;
const LOG_SEGMENT_BYTES_LEAST: u32 = 256 << 10;
/// And so many bulk segments; the least holds a chunk of a file.
const BULK_SEGMENTS: u64 = 8;
const BULK_SEGMENT_BYTES_LEAST: u32 = 1 << 20;

/// What a target refuses: less than four log segments, smaller ones, and small values that are no part of one.
const LOG_SEGMENTS_MIN: u64 = 4;
const LOG_SEGMENT_BYTES_MIN: u64 = 16 << 10;
const SMALL_VALUES_IN_SEGMENT: u64 = 4;

/// What a new pool is made of. Stored with the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Targets, the unit of concurrency; 0 takes one for each processor.
    pub targets: u16,
    /// A name.
    pub label: Option<Label>,
    /// Its UUID; drawn if there is none.
    pub uuid: Option<Uuid>,
    /// What all targets together may use, in bytes, at most a pebibyte; 0 takes the size of the smallest device.
    pub capacity_bytes: u64,
    /// Values up to this size stay beside the metadata.
    pub small_value_bytes_max: u32,
    /// Size of a log segment; 0 takes one that suits the capacity.
    pub log_segment_bytes: u32,
    /// Size of a bulk segment; 0 takes one that suits the capacity.
    pub bulk_segment_bytes: u32,
    /// A target begins a checkpoint after this many bytes of log.
    pub checkpoint_log_bytes: u64,
    /// Resident memory of all targets together, in bytes from 4 MiB to 16 TiB; can be overridden at each open.
    pub memory_budget_bytes: u64,
    /// The pool may be lost with the power: required where the file system is in memory.
    pub volatile: bool,
    /// A directory for bulk data, on another device; `None` keeps it beside the metadata.
    pub bulk_dir: Option<PathBuf>,
    /// The engines that have targets of the pool, if not this alone; then all sizes here are of this one's part.
    pub spread: Option<Spread>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        let TargetConfig { small_value_bytes_max, checkpoint_log_bytes, .. } = TargetConfig::default();
        Self {
            targets: 0,
            label: None,
            uuid: None,
            capacity_bytes: 0,
            small_value_bytes_max,
            log_segment_bytes: 0,
            bulk_segment_bytes: 0,
            checkpoint_log_bytes,
            memory_budget_bytes: MEMORY_BUDGET_BYTES_DEFAULT,
            volatile: false,
            bulk_dir: None,
            spread: None,
        }
    }
}

/// Who does checkpoints, merges and other background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Upkeep {
    /// Callers, a bounded piece every few operations.
    #[default]
    Callers,
    /// A thread of its own.
    Thread,
}

/// How a pool is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Resident memory of all targets together, in bytes from 4 MiB to 16 TiB; `None` takes the pool's.
    pub memory_budget_bytes: Option<u64>,
    /// Who does the background work.
    pub upkeep: Upkeep,
    /// At rest, what was overwritten, punched or removed longer ago than this is freed, unless a snapshot shows it; `None`
    /// frees nothing until somebody asks, or room is needed. Without a thread for upkeep there is no rest.
    pub keep_past: Option<Duration>,
    /// The engine that opens it, as the map of a pool on one engine tells it; a pool on several has its ranks on record.
    pub rank: u32,
    /// What of the system the devices may use.
    pub devices: RealOptions,
    /// Nothing may be changed, and nothing in the directory is: also what a recovery writes stays in memory. Works
    /// on a full file system. The pool is owned all the same, so that no writer changes what is read.
    pub read_only: bool,
}

impl PoolOptions {
    /// The record of a new pool. `device_bytes` is the size of its smallest device; `drawn` is its id unless one is wanted.
    pub(crate) fn record(&self, device_bytes: u64, drawn: Uuid) -> Result<PoolRecord> {
        let targets = if self.targets == 0 {
            u16::try_from(cpu_count().min(limits::TARGETS_MAX)).expect("limited by TARGETS_MAX")
        } else {
            self.targets
        };
        let engines = self.spread.as_ref().map_or(1, |spread| spread.ranks.len().max(1)) as u64;
        in_range("targets", u64::from(targets), 1, limits::TARGETS_MAX as u64 / engines)?;
        let capacity_bytes =
            if self.capacity_bytes == 0 { device_bytes.min(CAPACITY_BYTES_MAX) } else { self.capacity_bytes };
        let capacity_bytes = capacity_bytes / u64::from(targets);
        let sizes = TargetConfig::default();
        let record = PoolRecord {
            uuid: self.uuid.unwrap_or(drawn),
            label: self.label.clone(),
            targets,
            capacity_bytes,
            small_value_bytes_max: self.small_value_bytes_max,
            log_segment_bytes: match self.log_segment_bytes {
                0 => suited(capacity_bytes / LOG_SEGMENTS, LOG_SEGMENT_BYTES_LEAST, sizes.log_segment_bytes),
                given => given,
            },
            bulk_segment_bytes: match self.bulk_segment_bytes {
                0 => {
                    suited(capacity_bytes / BULK_SEGMENTS, BULK_SEGMENT_BYTES_LEAST, sizes.bulk_segment_bytes)
                }
                given => given,
            },
            checkpoint_log_bytes: self.checkpoint_log_bytes,
            memory_budget_bytes: self.memory_budget_bytes,
            volatile: self.volatile,
            bulk_dir: self.bulk_dir.clone(),
            life: 0,
            spread: self.spread.clone(),
        };
        check(&record)?;
        Ok(record)
    }
}

/// Refuses sizes that a target cannot have beside each other.
fn check(record: &PoolRecord) -> Result<()> {
    let targets = u64::from(record.targets);
    let log_segment = u64::from(record.log_segment_bytes);
    let small_values = u64::from(record.small_value_bytes_max);
    in_range("log_segment_bytes", log_segment, LOG_SEGMENT_BYTES_MIN, u64::from(u32::MAX))?;
    in_range("small_value_bytes_max", small_values, 0, log_segment / SMALL_VALUES_IN_SEGMENT)?;
    in_range("checkpoint_log_bytes", record.checkpoint_log_bytes, CHECKPOINT_LOG_BYTES_MIN, u64::MAX)?;
    let capacity_bytes = record.capacity_bytes * targets;
    in_range("capacity_bytes", capacity_bytes, bytes_at_first(record), CAPACITY_BYTES_MAX)?;
    check_memory(record.memory_budget_bytes)
}

/// Refuses a memory budget that no pool can have.
pub(crate) fn check_memory(bytes: u64) -> Result<()> {
    in_range("memory_budget_bytes", bytes, MEMORY_BUDGET_BYTES_MIN, MEMORY_BUDGET_BYTES_MAX)
}

/// What the targets of a new pool take at once, at least: each makes its log segments.
pub(crate) fn bytes_at_first(record: &PoolRecord) -> u64 {
    LOG_SEGMENTS_MIN * u64::from(record.log_segment_bytes) * u64::from(record.targets)
}

fn in_range(name: &'static str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Error::Option { name, value, low, high }) }
}

/// The largest power of two up to `share` bytes, but neither less than `least` nor more than `usual`.
fn suited(share: u64, least: u32, usual: u32) -> u32 {
    let power = u32::try_from(share).unwrap_or(u32::MAX).checked_ilog2().map_or(0, |log| 1 << log);
    power.clamp(least, usual)
}

/// The configuration of one target of a pool.
pub(crate) fn target_config(record: &PoolRecord, memory_budget_bytes: u64, target: TargetNo) -> TargetConfig {
    let share = memory_budget_bytes / u64::from(record.targets);
    TargetConfig {
        target,
        capacity_bytes: record.capacity_bytes,
        small_value_bytes_max: record.small_value_bytes_max,
        log_segment_bytes: record.log_segment_bytes,
        bulk_segment_bytes: record.bulk_segment_bytes,
        memory_budget_bytes: share.max(MEMORY_BYTES_MIN_PER_TARGET),
        checkpoint_log_bytes: record.checkpoint_log_bytes,
        volatile: record.volatile,
        device_sharers: record.targets,
        ..TargetConfig::default()
    }
}
