//! Pools: connections.

use crate::error::{Der, Result};
use crate::event::{Ev, run};
use crate::handle::{self, Entry};
use crate::life;
use crate::place::{self, PoolHandle};
use crate::raw::{Out, Text};
use crate::types::{CPoolInfo, Handle};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// How a pool may be connected to.
//= daos:src/include/daos_pool.h DAOS_PC_*
const CONNECT_RO: u32 = 1;
const CONNECT_RW: u32 = 2;
const CONNECT_EX: u32 = 4;

/// Connects to the pool that a label or UUID means.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_connect2(
    pool: Text,
    sys: Text,
    flags: c_uint,
    poh: Out<Handle>,
    info: Out<CPoolInfo>,
    ev: Ev,
) -> c_int {
    run(ev, || connect(pool, sys, flags, poh, info))
}

/// As [`daos_pool_connect2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_connect(
    pool: Text,
    sys: Text,
    flags: c_uint,
    poh: Out<Handle>,
    info: Out<CPoolInfo>,
    ev: Ev,
) -> c_int {
    daos_pool_connect2(pool, sys, flags, poh, info, ev)
}

fn connect(pool: Text, sys: Text, flags: c_uint, poh: Out<Handle>, _info: Out<CPoolInfo>) -> Result<()> {
    life::check()?;
    let known = [CONNECT_RO, CONNECT_RW, CONNECT_EX].contains(&flags);
    if !known {
        return Err(Der::INVAL);
    }
    let poh = poh.check()?;
    let place = place::system(sys.str_if_any()?)?;
    let opened = place::connect(place, pool.str()?, flags, flags != CONNECT_RO)?;
    poh.set(handle::insert(Entry::Pool(Arc::new(opened)))?)
}

/// Gives a connection up.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ev) -> c_int {
    run(ev, || {
        if handle::pool(poh)?.conts.load(Ordering::Acquire) > 0 {
            return Err(Der::BUSY);
        }
        handle::remove(poh, |entry| matches!(entry, Entry::Pool(_))).map(|_pool: Entry| ())
    })
}

impl core::fmt::Debug for PoolHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PoolHandle").field("uuid", &self.uuid).finish_non_exhaustive()
    }
}
