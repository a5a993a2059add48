//! Object numbers, reserved in ranges so that most new objects ask nobody.

use crate::client::{Core, unexpected};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::{Way, now};
use dolmen_types::{ContNo, Result};
use std::sync::{Mutex, PoisonError};

/// Numbers reserved at a time. A client that ends loses at most this many of 2^64.
const RANGE_LEN: u64 = 4096;

/// The numbers that a client still has.
#[derive(Debug, Default)]
pub(crate) struct Oids {
    /// Guards the unused rest of the range; held while a new range is asked for, so that only one is.
    range: Mutex<core::ops::Range<u64>>,
}

impl Oids {
    pub(crate) fn next(&self, core: &Core, cont: ContNo) -> Result<u64> {
        let mut range = self.range.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = range.next() {
            return Ok(number);
        }
        let make = || PoolVerb::AllocOids(cont, RANGE_LEN);
        let PoolReply::Oids(first) = now(core.change_by(Way::Now, make))? else {
            return Err(unexpected());
        };
        *range = first.saturating_add(1)..first.saturating_add(RANGE_LEN);
        Ok(first)
    }
}
