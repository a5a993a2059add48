//! An open pool.
//!
//! Invariants: while a `LocalPool` lives, this process owns the directory; when it is dropped, everything
//! acknowledged is on the devices and the targets are closed.

use crate::each::close_all;
use crate::error::Result;
use crate::options::{OpenOptions, Upkeep};
use crate::record::{PoolRecord, Spread};
use crate::root::begin_life;
use crate::store::Store;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_cluster::{PartDoor, Pool};
use dolmen_codec::acl::Acl;
use dolmen_codec::pool::{ContHandle, PoolReply, PoolVerb};
use dolmen_codec::{Answer, Ask, Outcome, Progress, QueueId, Request, Transport};
use dolmen_engine::Recovery;
use dolmen_env::{RealRoot, come_behind, group_principal, owner_of, spawn, user_principal};
use dolmen_types::{Epoch, PoolMap, PropId, PropValue, TargetNo, Uuid};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How long the upkeep thread rests when there is nothing to do: long enough to cost nothing, short enough
/// that a checkpoint does not come late.
const REST: Duration = Duration::from_millis(5);

/// The longest, when there was nothing to do for a while.
const LONG_REST: Duration = Duration::from_millis(80);

/// And when a device works for it.
const SHORT_REST: Duration = Duration::from_millis(1);

/// Between two looks at the parts of a pool at other engines: clients of one that was started anew wait so long.
const PARTS_REST: Duration = Duration::from_millis(200);

/// Looks at who waits for a share of a limit, between two looks at the parts: a writer waits so long for one.
const SHARES_LOOKS: u32 = 10;

/// How far upkeep comes behind those that serve (nice(2)): it has a tenth of what one of them has, if all want to run.
const BEHIND: i32 = 10;

/// A pool in this process. `Send` and `Sync`; give clients an `Arc` of it.
pub struct LocalPool {
    /// Present until the pool is closed.
    pool: Option<Arc<Pool<Store>>>,
    upkeep: Vec<(Arc<Stop>, JoinHandle<()>)>,
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
        pool: Pool<Store>,
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
        let mut upkeep = Vec::new();
        if options.upkeep == Upkeep::Thread && !read_only {
            pool.targets().set_callers_step(false);
            upkeep.push(start_thread("dolmen-upkeep", &pool, keep_up)?);
        }
        if record.spread.as_ref().is_some_and(Spread::has_service) {
            pool.hand_out_by_thread();
            upkeep.push(start_thread("dolmen-parts", &pool, look_after_parts)?);
        }
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

    /// What this engine shows of its part of the pool to the one that has the service; who asks for it has shown the key.
    #[must_use]
    pub fn part_door(&self) -> impl Transport + '_ {
        PartDoor::new(self.pool())
    }

    /// The engines of the pool, if there are several.
    #[must_use]
    pub fn spread(&self) -> Option<&Spread> {
        self.record.spread.as_ref()
    }

    /// Its map, as the record has it.
    #[must_use]
    pub fn map(&self) -> &PoolMap {
        &self.pool().identity().map
    }

    /// See [`Pool::wait_admitted`].
    #[must_use]
    pub fn wait_admitted(&self, limit: Duration) -> bool {
        self.pool().wait_admitted(limit)
    }

    /// See [`Pool::look`].
    ///
    /// # Errors
    /// Its own.
    pub fn look(&self, cont: Uuid) -> dolmen_types::Result<ContHandle> {
        self.pool().look(cont)
    }

    /// See [`Pool::look_after_parts`].
    pub fn look_after_parts(&self) {
        self.pool().look_after_parts();
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

    fn pool(&self) -> &Pool<Store> {
        self.pool.as_ref().expect("the pool is there until it is closed, which takes it by value")
    }

    fn shut(&mut self, clients_live_on: bool) -> Result<()> {
        for (stop, thread) in self.upkeep.drain(..) {
            stop.wanted.store(true, Ordering::Release);
            stop.wake.notify_all();
            // Ignored: a panic of the thread was reported when it happened, and the targets are closed below.
            let _ended = thread.join();
        }
        let Some(pool) = self.pool.take() else { return Ok(()) };
        // The directory's lock goes with `self`: stores that somebody else still had would write beside its next owner.
        let pool = Arc::into_inner(pool).expect("the threads that had it were joined, and doors borrow it");
        if self.read_only {
            // A checkpoint would be written to memory, and forgotten.
            return Ok(());
        }
        let own = pool.into_stores().into_iter().filter_map(Store::here).collect();
        close_all(self.record.own_targets().start, own, Some(self.record.life + 1), clients_live_on)?;
        begin_life(&self.root, &mut self.record)
    }

    /// The properties of the pool with what nobody has set: owner and group of its directory, and the list of a new pool.
    fn with_owner(&self, mut outcome: Outcome) -> Outcome {
        if let Ok(Answer::Pool(PoolReply::Props(props))) = &mut outcome.result {
            if let Ok((uid, gid)) = owner_of(self.root.path()) {
                let owner = || PropValue::Text(user_principal(uid));
                props.entry(PropId::PO_OWNER).or_insert_with(owner);
                let group = || PropValue::Text(group_principal(gid));
                props.entry(PropId::PO_OWNER_GROUP).or_insert_with(group);
            }
            let list = || PropValue::Bytes(Acl::of_new_pool().encode());
            props.entry(PropId::PO_ACL).or_insert_with(list);
        }
        outcome
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
        let is_of_props = matches!(request.ask, Ask::Pool(PoolVerb::Props));
        let outcome = self.refusal(&request).unwrap_or_else(|| self.pool().call(request));
        if is_of_props { self.with_owner(outcome) } else { outcome }
    }

    /// A pool that is open for reading has none: `NoPermission`.
    fn open_queue(&self) -> dolmen_types::Result<QueueId> {
        if self.read_only {
            return Err(dolmen_types::Error::NoPermission);
        }
        self.pool().open_queue()
    }

    fn saw(&self, epoch: Epoch) {
        self.pool().saw(epoch);
    }

    fn takes_gifts(&self, target: TargetNo) -> dolmen_types::Result<bool> {
        self.pool().takes_gifts(target)
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

fn start_thread(
    name: &str,
    pool: &Arc<Pool<Store>>,
    body: fn(&Pool<Store>, &Stop),
) -> Result<(Arc<Stop>, JoinHandle<()>)> {
    let stop = Arc::new(Stop::default());
    let (pool, stopped) = (Arc::clone(pool), Arc::clone(&stop));
    Ok((stop, spawn(name, move || body(&pool, &stopped))?))
}

fn keep_up(pool: &Pool<Store>, stop: &Stop) {
    // Ignored: then it has its share as others have.
    let _behind = come_behind(BEHIND);
    let mut rest = REST;
    while !stop.is_wanted() {
        let progress = pool.step();
        rest = if progress == Progress::Idle { (rest * 2).min(LONG_REST) } else { REST };
        match progress {
            // Who waits for an answer has the processor first: the kernel would let this thread keep it for milliseconds.
            Progress::More => dolmen_env::yield_now(),
            Progress::Waiting => stop.rest(SHORT_REST),
            Progress::Idle => stop.rest(rest),
        }
    }
}

fn look_after_parts(pool: &Pool<Store>, stop: &Stop) {
    let mut looks = 0;
    while !stop.is_wanted() {
        if looks == 0 {
            pool.look_after_parts();
            looks = SHARES_LOOKS;
        }
        looks -= 1;
        if pool.look_after_shares() {
            stop.rest(PARTS_REST / SHARES_LOOKS);
        } else {
            looks = 0;
            stop.rest(PARTS_REST);
        }
    }
}

impl Stop {
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    fn rest(&self, time: Duration) {
        let resting = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        // A wake-up that comes before the wait costs one rest.
        drop(self.wake.wait_timeout(resting, time));
    }
}
