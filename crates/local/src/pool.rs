//! An open pool.
//!
//! Invariants: while a `LocalPool` lives, this process owns the directory; when it is dropped, everything
//! acknowledged is on the devices and the targets are closed.

use crate::each::close_all;
use crate::error::Result;
use crate::options::{OpenOptions, Upkeep};
use crate::record::PoolRecord;
use crate::root::begin_life;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_cluster::Pool;
use dolmen_codec::{Outcome, Progress, QueueId, Request, Transport};
use dolmen_engine::{Recovery, Target};
use dolmen_env::{RealRoot, spawn};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How long the upkeep thread rests when there is nothing to do: long enough to cost nothing, short enough
/// that a checkpoint does not come late.
const REST: Duration = Duration::from_millis(10);

/// And when a device works for it.
const SHORT_REST: Duration = Duration::from_millis(1);

/// A pool in this process. `Send` and `Sync`; give clients an `Arc` of it.
pub struct LocalPool {
    /// Present until the pool is closed.
    pool: Option<Arc<Pool<Target>>>,
    upkeep: Option<(Arc<Stop>, JoinHandle<()>)>,
    recoveries: Vec<Recovery>,
    root: RealRoot,
    record: PoolRecord,
    /// Owned for as long as the pool is open.
    bulk: Option<RealRoot>,
    read_only: bool,
}

/// How the upkeep thread is stopped.
#[derive(Default)]
struct Stop {
    wanted: AtomicBool,
    /// Guards nothing but the wait itself; held only while resting.
    rest: Mutex<()>,
    wake: Condvar,
}

impl LocalPool {
    pub(crate) fn start(
        pool: Pool<Target>,
        (root, record): (RealRoot, PoolRecord),
        bulk: Option<RealRoot>,
        recoveries: Vec<Recovery>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let pool = Arc::new(pool);
        let read_only = options.read_only;
        if read_only {
            // What it would write is forgotten.
            pool.targets().set_callers_step(false);
        }
        let upkeep = match options.upkeep {
            _ if read_only => None,
            Upkeep::Callers => None,
            Upkeep::Thread => {
                pool.targets().set_callers_step(false);
                let stop = Arc::new(Stop::default());
                let (pool, stopped) = (Arc::clone(&pool), Arc::clone(&stop));
                Some((stop, spawn("dolmen-upkeep", move || keep_up(&pool, &stopped))?))
            }
        };
        Ok(Self { pool: Some(pool), upkeep, recoveries, root, record, bulk, read_only })
    }

    /// The pool's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// All directories that this process owns for the pool: its own, and that of bulk data if it has one.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.root), self.bulk.as_ref()].into_iter().flatten().map(RealRoot::path)
    }

    /// Device and inode of each of these, wherever it is by now.
    ///
    /// # Errors
    /// What the device answers.
    pub fn directory_ids(&self) -> Result<Vec<(u64, u64)>> {
        let roots = [Some(&self.root), self.bulk.as_ref()].into_iter().flatten();
        roots.map(|root| Ok(root.id()?)).collect()
    }

    /// What opening found, by target.
    #[must_use]
    pub fn recoveries(&self) -> &[Recovery] {
        &self.recoveries
    }

    /// Size of a bulk segment: no longer value goes to bulk.
    #[must_use]
    pub fn bulk_segment_bytes(&self) -> u64 {
        u64::from(self.record.bulk_segment_bytes)
    }

    /// One bounded piece of background work, for callers that have time to spare.
    pub fn step(&self) -> Progress {
        self.pool().step()
    }

    /// Makes everything durable, writes a last checkpoint and closes the targets.
    ///
    /// # Errors
    /// The first target's that fails; the others are closed nevertheless.
    pub fn close(mut self) -> Result<()> {
        self.shut(false)
    }

    /// The same, when clients in other processes may repeat their requests as soon as the pool is open again: results are
    /// retained for them.
    ///
    /// # Errors
    /// As [`LocalPool::close`].
    pub fn close_under_clients(mut self) -> Result<()> {
        self.shut(true)
    }

    fn pool(&self) -> &Pool<Target> {
        self.pool.as_ref().expect("the pool is there until it is closed, which takes it by value")
    }

    fn shut(&mut self, clients_live_on: bool) -> Result<()> {
        if let Some((stop, thread)) = self.upkeep.take() {
            stop.wanted.store(true, Ordering::Release);
            stop.wake.notify_all();
            // Ignored: a panic of the thread was reported when it happened, and the targets are closed below.
            let _ended = thread.join();
        }
        let Some(pool) = self.pool.take().and_then(Arc::into_inner) else { return Ok(()) };
        if self.read_only {
            // A checkpoint would be written to memory, and forgotten.
            return Ok(());
        }
        close_all(pool.into_stores(), Some(self.record.life + 1), clients_live_on)?;
        begin_life(&self.root, &mut self.record)
    }

    /// The answer to a request that would change a pool that is open for reading.
    fn refusal(&self, request: &Request<'_>) -> Option<Outcome> {
        let refused = self.read_only && request.ask.changes();
        refused.then(|| Outcome {
            token: request.token,
            result: Err(dolmen_types::Error::NoPermission),
            buf: None,
        })
    }
}

impl Drop for LocalPool {
    fn drop(&mut self) {
        // Ignored: whoever wants to know calls `close`; what was acknowledged is durable in any case.
        let _closed = self.shut(false);
    }
}

impl core::fmt::Debug for LocalPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LocalPool").field("dir", &self.root.path()).finish_non_exhaustive()
    }
}

impl Transport for LocalPool {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.refusal(&request).unwrap_or_else(|| self.pool().call(request))
    }

    /// A pool that is open for reading has none: `NoPermission`.
    fn open_queue(&self) -> dolmen_types::Result<QueueId> {
        if self.read_only {
            return Err(dolmen_types::Error::NoPermission);
        }
        self.pool().open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.pool().close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.pool().submit(queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.pool().poll(queue, wait, out);
    }
}

fn keep_up(pool: &Pool<Target>, stop: &Stop) {
    while !stop.wanted.load(Ordering::Acquire) {
        let rest = match pool.step() {
            Progress::More => continue,
            Progress::Waiting => SHORT_REST,
            Progress::Idle => REST,
        };
        let resting = stop.rest.lock().unwrap_or_else(PoisonError::into_inner);
        // A wake-up that comes before the wait costs one rest.
        drop(stop.wake.wait_timeout(resting, rest));
    }
}
