//! The space of a target.

use super::field::record;
use crate::verb::SpaceReport;

record!(SpaceReport {
    total_bytes: u64,
    free_bytes: u64,
    allocated_bytes: u64,
    bulk_bytes: u64,
    log_bytes: u64,
    run_bytes: u64,
    reserve_bytes: u64,
    scrubbed_bytes: u64,
    damage_count: u64,
});
