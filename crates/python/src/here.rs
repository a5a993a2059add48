//! Pools that are open in this process: one each of a directory, for all who open it.
//!
//! Invariants: who closes a pool as the last has closed it when he goes on, though others may be letting go of what they had of it: a
//! handle that another thread drops, a thread that serves, or looks after files, and ends.

use crate::address::How;
use crate::error::{Error, Result, Wrong};
use core::time::Duration;
use dolmen_env::PerProcess;
use dolmen_local::{LocalPool, OpenOptions, Upkeep};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A pool that is open in this process, for one session of those that have it.
pub(crate) struct Here {
    pool: Arc<LocalPool>,
    /// As many as there are sessions.
    sessions: Arc<Sessions>,
}

struct Sessions;

/// The pools that are open in this process, by directory, and whether to read alone.
type OpenDirs = BTreeMap<PathBuf, (bool, Weak<LocalPool>, Weak<Sessions>)>;

// Guards: the directories that this process has open, so that two who open one have the same pool; taken alone, also while one is
// opened. A forked child has none of its parent's.
static OPEN: PerProcess<Mutex<OpenDirs>> = PerProcess::new(Mutex::default);

/// How often a directory is opened anew that another thread of this process is just closing: that takes as long as a checkpoint.
const CLOSING_REPEATS_MAX: u32 = 1 << 20;

/// How often it is looked whether all have let go of a pool, and how long between: who has not then closes it himself.
const LOOKS_MAX: u32 = 60_000;
const LOOK: Duration = Duration::from_millis(1);

pub(crate) fn open(dir: &Path, how: &How) -> Result<Here> {
    let whole = dir.canonicalize().unwrap_or_else(|_missing| dir.to_owned());
    let mut all = OPEN.get().lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|_, (_, _, sessions)| sessions.strong_count() > 0);
    let here = |(how, pool, sessions): &(bool, Weak<_>, Weak<_>)| {
        Some((*how, Here { pool: pool.upgrade()?, sessions: sessions.upgrade()? }))
    };
    if let Some((read_only, here)) = all.get(&whole).and_then(here) {
        if read_only && !how.read_only {
            return Err(Error::Argument(Wrong::OpenToRead));
        }
        return Ok(here);
    }
    let upkeep = if how.upkeep { Upkeep::Thread } else { Upkeep::Callers };
    let options = OpenOptions {
        memory_budget_bytes: how.memory_bytes,
        upkeep,
        read_only: how.read_only,
        ..OpenOptions::default()
    };
    let mut repeats = 0;
    let opened = loop {
        match dolmen_local::open(dir, &options) {
            Err(error) if error.owner_pid() == Some(std::process::id()) && repeats < CLOSING_REPEATS_MAX => {
                repeats += 1;
                dolmen_env::yield_now();
            }
            other => break other?,
        }
    };
    let (pool, sessions) = (Arc::new(opened), Arc::new(Sessions));
    all.insert(whole, (how.read_only, Arc::downgrade(&pool), Arc::downgrade(&sessions)));
    Ok(Here { pool, sessions })
}

impl Here {
    pub(crate) fn pool(&self) -> &Arc<LocalPool> {
        &self.pool
    }

    /// Closes the pool, unless another session has it. REQUIRES: everything that was opened through the session is closed.
    pub(crate) fn close(self) -> Result<()> {
        let Self { mut pool, sessions } = self;
        if Arc::into_inner(sessions).is_none() {
            return Ok(());
        }
        for _ in 0..LOOKS_MAX {
            pool = match Arc::try_unwrap(pool) {
                Ok(pool) => return Ok(pool.close()?),
                Err(shared) => shared,
            };
            dolmen_env::wait(LOOK);
        }
        Ok(())
    }
}
