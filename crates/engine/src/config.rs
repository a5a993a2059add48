//! What a target is made of and how large its parts are.

use core::time::Duration;
use dolmen_env::Disk;
use dolmen_types::{Error, TargetNo, limits};

/// The devices of a target.
pub struct Devices {
    /// Superblock, manifest, log and runs.
    pub meta: Box<dyn Disk>,
    /// Bulk segments; `None` puts them beside the metadata.
    pub bulk: Option<Box<dyn Disk>>,
}

/// Sizes and policies of one target. Plain data; what must be the same at each open is stored in the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its number in the pool.
    pub target: TargetNo,
    /// What all its files together may take at most, in bytes.
    pub capacity_bytes: u64,
    /// Values up to this size stay in log segments.
    pub small_value_bytes_max: u32,
    /// Size of a log segment; a whole number of 4 KiB.
    pub log_segment_bytes: u32,
    /// Size of a bulk segment; a whole number of 256 KiB, so that its bitmap is of whole words.
    pub bulk_segment_bytes: u32,
    /// Resident memory of index, filters and caches, in bytes.
    pub memory_budget_bytes: u64,
    /// A checkpoint begins after this many bytes of log, or four times as many of bulk that it refers to.
    pub checkpoint_log_bytes: u64,
    /// So many small extents, written one after another and side by side, are joined by an aggregation; 2 or more.
    pub join_extents_min: u32,
    /// Bytes that the background scrub reads a second, in pages of 4 KiB and whole values; 0 turns it off.
    pub scrub_bytes_per_s: u64,
    /// At rest, what was overwritten, punched or removed longer ago than this is freed, unless a snapshot shows it; `None`
    /// frees nothing until somebody asks, or room is needed.
    pub keep_past: Option<Duration>,
    /// Targets whose metadata lies on the same device, this one counted: free space there is reported in equal
    /// shares, so that it is counted once over all of them.
    pub device_sharers: u16,
    /// The pool lives in memory and says so: `Durability::Power` is accepted and means nothing.
    pub volatile: bool,
}

impl Default for TargetConfig {
    fn default() -> Self {
        Self {
            target: TargetNo(0),
            capacity_bytes: 1 << 40,
            small_value_bytes_max: u32::try_from(limits::SMALL_VALUE_BYTES_DEFAULT)
                .expect("4096 fits 32 bits"),
            // Small, because a new target makes three of them and a pool is to be there within 100 ms.
            log_segment_bytes: 4 << 20,
            bulk_segment_bytes: 64 << 20,
            memory_budget_bytes: 1 << 30,
            checkpoint_log_bytes: 256 << 20,
            // Records written in any other order lie like this once in 2 x 10^13 places, and stay as they are.
            join_extents_min: 16,
            // A terabyte in three days.
            scrub_bytes_per_s: 4 << 20,
            keep_past: None,
            device_sharers: 1,
            volatile: false,
        }
    }
}

/// The smallest log segment: a transaction record with a few small values must fit.
const LOG_SEGMENT_BYTES_MIN: u32 = 16 << 10;
const BULK_SEGMENT_STEP_BYTES: u32 = 256 << 10;
/// The least memory: the shares of delta and hot table must hold something, or a checkpoint would always be due.
pub const MEMORY_BUDGET_BYTES_MIN: u64 = 256 << 10;
/// The least log between two checkpoints: one that every frame makes due would never end.
pub const CHECKPOINT_LOG_BYTES_MIN: u64 = 4 << 10;

impl TargetConfig {
    /// Refuses sizes that cannot work together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let log = self.log_segment_bytes;
        let bulk = self.bulk_segment_bytes;
        let ok = log >= LOG_SEGMENT_BYTES_MIN
            && log.is_multiple_of(4096)
            && bulk >= BULK_SEGMENT_STEP_BYTES
            && bulk.is_multiple_of(BULK_SEGMENT_STEP_BYTES)
            && self.join_extents_min >= 2
            && self.memory_budget_bytes >= MEMORY_BUDGET_BYTES_MIN
            && self.checkpoint_log_bytes >= CHECKPOINT_LOG_BYTES_MIN
            && self.small_value_bytes_max <= log / 4
            && self.capacity_bytes >= 4 * u64::from(log);
        if ok { Ok(()) } else { Err(dolmen_types::Invalid::Argument.into()) }
    }
}
