//! Locks on objects of the pools of a directory, whoever has the pools open how often, and what is left of them for the next
//! daemon if this one dies.

use dolmen_codec::lock::RECOVER_NS;
use dolmen_env::{Clock, HeldDir, RealClock};
use dolmen_net::server::Locks;
use dolmen_types::Uuid;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The mark in the system's directory that somebody has locks.
const MARK: &str = "dolmen.locks";

/// Whether mounts may have locks in pools of this directory that no daemon keeps at the moment: they wait for the next one.
#[must_use]
pub fn may_have_locks(system: &Path) -> bool {
    system.join(MARK).is_file()
}

/// The locks of all pools.
pub(crate) struct Locked {
    /// The system's directory, wherever it is moved.
    dir: Arc<HeldDir>,
    /// The daemon before this one died when there were locks.
    has_died: bool,
    started_ns: u64,
    /// Guards the tables, which are never taken out; taken alone.
    pools: Mutex<BTreeMap<Uuid, Arc<Locks>>>,
}

impl Locked {
    pub(crate) fn new(dir: &Arc<HeldDir>) -> Self {
        // Where that is not known it may have: waiting a while takes nothing from anybody.
        let (dir, has_died) = (Arc::clone(dir), dir.has(MARK).unwrap_or(true));
        Self { dir, has_died, started_ns: RealClock.monotonic_ns(), pools: Mutex::default() }
    }

    /// Those of one pool.
    pub(crate) fn of(&self, pool: Uuid) -> Arc<Locks> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let dir = Arc::clone(&self.dir);
            let note = move || dir.put_mark(MARK).is_ok();
            Arc::new(Locks::new(self.has_died, self.started_ns, Box::new(note)))
        };
        Arc::clone(pools.entry(pool).or_insert_with(make))
    }

    /// The daemon ends: if nobody has locks, the next one waits for nobody.
    pub(crate) fn close(&self) {
        self.close_at(RealClock.monotonic_ns());
    }

    fn close_at(&self, now_ns: u64) {
        // Who had some before may not have come yet.
        if self.has_died && now_ns.saturating_sub(self.started_ns) < RECOVER_NS {
            return;
        }
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pools.values().all(|locks| locks.is_empty()) {
            // Ignored: a mark that stays makes the next daemon wait for a few seconds before it gives out locks.
            let _stays = self.dir.remove_mark(MARK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_ends_before_those_who_had_locks_have_come_leaves_them_to_the_next() {
        let path = std::env::temp_dir().join(format!("dolmen-locked-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let dir = Arc::new(HeldDir::open(&path).unwrap());
        let none = Locked::new(&dir);
        assert!(!none.has_died);
        dir.put_mark(MARK).unwrap();
        for (late_ns, stays) in [(RECOVER_NS - 1, true), (RECOVER_NS, false)] {
            let locked = Locked::new(&dir);
            assert!(locked.has_died);
            locked.close_at(locked.started_ns + late_ns);
            assert_eq!(may_have_locks(&path), stays);
        }
        dir.put_mark(MARK).unwrap();
        none.close();
        assert!(!may_have_locks(&path), "nobody had any");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
