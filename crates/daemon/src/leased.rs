//! Leases on what was read of the pools of a directory, whoever has the pools open how often, and what is left of them for the next
//! daemon, whatever became of this one.

use dolmen_codec::LEASE_TERM_NS;
use dolmen_codec::order::HashKey;
use dolmen_env::{Clock, HeldDir, RealClock};
use dolmen_net::server::Leases;
use dolmen_types::Uuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The mark in the system's directory that somebody has leases.
const MARK: &str = "dolmen.leases";

/// The leases of all pools.
pub(crate) struct Leased {
    /// The system's directory, wherever it is moved.
    dir: Arc<HeldDir>,
    /// When the daemon before this one ended there were leases.
    had_some: bool,
    started_ns: u64,
    /// Of hashes; nobody else knows it.
    secret: HashKey,
    /// Guards the tables, which are never taken out; taken alone.
    pools: Mutex<BTreeMap<Uuid, Arc<Leases>>>,
}

impl Leased {
    /// Those of the system in `dir`.
    pub(crate) fn new(dir: &Arc<HeldDir>, secret: HashKey) -> Self {
        // Who cannot look has changes wait for a term, which is never wrong.
        let (dir, had_some) = (Arc::clone(dir), dir.has(MARK).unwrap_or(true));
        Self { dir, had_some, started_ns: RealClock.monotonic_ns(), secret, pools: Mutex::default() }
    }

    /// Those of one pool; by target, which are at another engine, if any are.
    pub(crate) fn of(&self, pool: Uuid, elsewhere: impl FnOnce() -> Vec<bool>) -> Arc<Leases> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let dir = Arc::clone(&self.dir);
            let note = Box::new(move || dir.put_mark(MARK).is_ok());
            Arc::new(Leases::new(self.secret, self.had_some, self.started_ns, elsewhere(), note))
        };
        Arc::clone(pools.entry(pool).or_insert_with(make))
    }

    /// The daemon ends: if nobody has leases, the next one need not wait until nobody believes in any.
    pub(crate) fn close(&self) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recovering = self.had_some && RealClock.monotonic_ns() - self.started_ns < LEASE_TERM_NS;
        if !is_recovering && pools.values().all(|leases| leases.is_empty()) {
            // Ignored: a mark that stays makes the first changes of the next daemon wait for a few seconds.
            let _stays = self.dir.remove_mark(MARK);
        }
    }
}
