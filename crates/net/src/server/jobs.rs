//! What may take long or flush: questions to a pool's service and to the daemon, answered by threads of their own.

use super::arrival::Greeted;
use super::attached::Asker;
use super::kept::{self, OnItsWay};
use super::leases::Notice;
use super::post::Post;
use super::{Attachment, Caller, System, or_end};
use crate::error::Result;
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb, Whose};
use dolmen_codec::wire::{PoolName, SystemVerb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::spawn;
use dolmen_types::{ContNo, Error, Head, crc32c};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Jobs that may wait. A client waits for its answer, so this is about as many as there are clients that open containers
/// at once.
const JOBS_MAX: usize = 16_384;

/// Threads that ask pools' services, at first.
const JOB_THREADS: usize = 6;

/// Threads that are left to what is quick, however many wait for engines.
const QUICK_THREADS: usize = 2;

/// Threads at most. They are begun as jobs wait for other engines: some dozen pools whose engines do not answer keep nobody from
/// others. One takes some 20 KiB.
const JOB_THREADS_MAX: usize = 64;

const _: () = assert!(JOB_THREADS > QUICK_THREADS && JOB_THREADS < JOB_THREADS_MAX);

/// How long a job may take, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pace {
    /// No longer than a device: it waits for nobody.
    Quick,
    /// Seconds: it connects to a pool, for which other engines may be asked, or opens a container where the pool's service is not.
    Opens,
    /// Seconds: it asks all targets of a pool, or tells all its engines, and changes nothing that others wait for.
    Asks,
    /// Seconds: it commits a transaction, and waits for the engines of its targets.
    Commits,
    /// Seconds: it changes what all targets of a pool know. One follows the other in any case.
    Changes,
    /// Seconds: it makes, ends or takes a pool, or a part of one.
    Manages,
    /// Minutes: it goes over everything that is stored.
    Long,
}

impl Pace {
    /// How many of one pool may be under way at once: of long ones, of all pools. More would keep threads from the pools of others.
    fn at_once(self) -> usize {
        match self {
            Self::Quick => usize::MAX,
            Self::Commits => 6,
            Self::Opens | Self::Asks | Self::Manages | Self::Long => 2,
            Self::Changes => 1,
        }
    }
}

/// Jobs of one pace and one pool; of names that are spelt differently, or alike, it matters little.
type Lane = (Pace, u128);

/// What a thread of the service does next.
pub(super) enum Job {
    /// Asks a pool's service.
    Pool {
        transport: Arc<dyn Transport>,
        head: Head,
        verb: PoolVerb<'static>,
        asker: Asker,
        key: u64,
        to: Arc<Mailbox>,
    },
    /// Asks the daemon.
    System { head: Head, caller: Caller, ask: SystemVerb, key: u64, to: Arc<Mailbox> },
    /// Gives handles of containers back whose holder is gone.
    Release { transport: Arc<dyn Transport>, cont: ContNo, count: u32 },
}

/// What a job has led to.
pub(super) struct Done {
    pub(super) key: u64,
    pub(super) reply: JobReply,
}

/// The answer of a job.
pub(super) enum JobReply {
    /// Of one that has opened a container: with its place on record.
    Pool(Arc<dyn Transport>, core::result::Result<Answer, Error>, Option<Box<OnItsWay>>),
    System(core::result::Result<Attachment, Error>),
}

/// What comes to a thread that serves.
pub(super) enum Mail {
    /// An answer for one of its connections.
    Done(Done),
    /// A connection that is new.
    Came(Box<Greeted>),
    /// What one of its connections has read does not hold any more.
    Void(Box<Notice>),
    /// Leases are gone that a change of one of its connections has waited for.
    Free { at: usize, serial: u64, wait: u64 },
}

/// Where that is put.
pub(super) struct Mailbox {
    post: Post<Mail>,
    /// Connections that the thread has, or is about to get.
    connections: AtomicUsize,
}

impl Mailbox {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { post: Post::new()?, connections: AtomicUsize::new(0) })
    }

    pub(super) fn post(&self) -> &Post<Mail> {
        &self.post
    }

    pub(super) fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Hands a connection over.
    pub(super) fn hand(&self, greeted: Greeted) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.post.put(Mail::Came(Box::new(greeted)));
    }

    /// A connection has ended.
    pub(super) fn has_ended(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn put(&self, done: Done) {
        self.post.put(Mail::Done(done));
    }
}

/// The jobs that wait; a cheap handle.
#[derive(Clone)]
pub(super) struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    system: Arc<dyn System>,
    /// Guards the jobs; not held while one is carried out. Taken before `threads`.
    waiting: Mutex<Waiting>,
    come: Condvar,
    /// Guards the threads, for whoever ends them; taken for a few instructions.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Jobs that wait, and how many are under way.
///
/// Invariants: of each lane no more have been let through to `quick` or `slow`, or are under way, than may be at once; threads that
/// carry out what is not quick leave [`QUICK_THREADS`] to the others.
#[derive(Default)]
struct Waiting {
    /// What may begin, in the order in which it did, with its number.
    quick: VecDeque<(u64, Job)>,
    slow: VecDeque<(u64, Job)>,
    /// How many were let through, and what waits until one of them has ended, by lane.
    lanes: BTreeMap<Lane, (usize, VecDeque<Job>)>,
    next_number: u64,
    /// All that nobody carries out yet.
    count: usize,
    /// Those that are being carried out and are not quick.
    slow_under_way: usize,
    /// Threads that carry jobs out.
    threads: usize,
    is_over: bool,
}

impl Waiting {
    /// Puts a job behind the others of its lane.
    fn put(&mut self, job: Job) {
        self.count += 1;
        let lane = job.lane();
        if lane.0 == Pace::Quick {
            let number = self.number();
            return self.quick.push_back((number, job));
        }
        let (let_through, behind) = self.lanes.entry(lane).or_default();
        if *let_through < lane.0.at_once() {
            *let_through += 1;
            self.let_through(job);
        } else {
            behind.push_back(job);
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn let_through(&mut self, job: Job) {
        let number = self.number();
        self.slow.push_back((number, job));
    }

    /// The next job: what may begin first, so that a handle is given back before whoever comes later counts them. `grow` begins one more
    /// thread, if it can: so whoever waits for an engine takes no thread away from others.
    fn take(&mut self, grow: impl FnOnce() -> bool) -> Option<Job> {
        let quick = self.quick.front().map_or(u64::MAX, |(number, _)| *number);
        let is_slow_first = self.slow.front().is_some_and(|(number, _)| *number < quick);
        let (_, job) = if is_slow_first && self.may_be_slow(grow) {
            self.slow_under_way += 1;
            self.slow.pop_front()?
        } else {
            self.quick.pop_front()?
        };
        self.count -= 1;
        Some(job)
    }

    fn may_be_slow(&mut self, grow: impl FnOnce() -> bool) -> bool {
        let needed = self.slow_under_way + 1 + QUICK_THREADS;
        if needed > self.threads && needed <= JOB_THREADS_MAX && grow() {
            self.threads += 1;
        }
        needed <= self.threads
    }

    /// A job has ended; the next one of its lane may begin.
    fn end_one(&mut self, lane: Lane) {
        if lane.0 == Pace::Quick {
            return;
        }
        self.slow_under_way -= 1;
        let Some((let_through, behind)) = self.lanes.get_mut(&lane) else { return };
        if let Some(next) = behind.pop_front() {
            return self.let_through(next);
        }
        *let_through -= 1;
        if *let_through == 0 {
            self.lanes.remove(&lane);
        }
    }
}

impl Job {
    fn lane(&self) -> Lane {
        let pace = self.pace();
        (pace, if pace == Pace::Long { 0 } else { self.pool() })
    }

    /// What tells the job's pool from others.
    fn pool(&self) -> u128 {
        let named = |name: &PoolName| match name {
            PoolName::Uuid(uuid) => uuid.as_u128(),
            PoolName::Label(label) => u128::from(crc32c(label.as_str().as_bytes())),
        };
        match self {
            // The same for all who have the pool open, also for who has it alone.
            Self::Pool { asker, .. } => Arc::as_ptr(&asker.holders) as usize as u128,
            Self::System { ask, .. } => match ask {
                SystemVerb::PoolConnect { name, .. }
                | SystemVerb::PoolDestroy { name, .. }
                | SystemVerb::PoolEvict(name) => named(name),
                SystemVerb::PoolCreate(spec) => {
                    spec.label.as_ref().map_or(0, |label| named(&PoolName::Label(label.clone())))
                }
                SystemVerb::PartCreate(part) => part.pool.uuid.map_or(0, |uuid| uuid.as_u128()),
                SystemVerb::PartConnect { pool, .. }
                | SystemVerb::PartDestroy { pool, .. }
                | SystemVerb::PartEvict { pool, .. } => pool.as_u128(),
                _ => 0,
            },
            Self::Release { .. } => 0,
        }
    }

    fn pace(&self) -> Pace {
        match self {
            Self::Pool { verb, asker, .. } => pace_of(verb, asker.is_part),
            Self::System { ask: SystemVerb::PoolConnect { .. } | SystemVerb::PartConnect { .. }, .. } => {
                Pace::Opens
            }
            Self::System {
                ask:
                    SystemVerb::PoolCreate(_)
                    | SystemVerb::PoolDestroy { .. }
                    | SystemVerb::PoolEvict(_)
                    | SystemVerb::PartCreate(_)
                    | SystemVerb::PartDestroy { .. }
                    | SystemVerb::PartEvict { .. },
                ..
            } => Pace::Manages,
            Self::System { .. } | Self::Release { .. } => Pace::Quick,
        }
    }
}

fn pace_of(verb: &PoolVerb<'_>, is_part: bool) -> Pace {
    match verb {
        PoolVerb::Scrub | PoolVerb::Check | PoolVerb::Aggregate(..) | PoolVerb::Checkpoint => Pace::Long,
        // The engine with the service is asked.
        PoolVerb::ContOpen(..) if is_part => Pace::Opens,
        PoolVerb::ContEvict(..) | PoolVerb::Query | PoolVerb::ContQuery(_) | PoolVerb::ContQuota(_) => {
            Pace::Asks
        }
        PoolVerb::TxCommit(_) => Pace::Commits,
        PoolVerb::ContCreate { .. }
        | PoolVerb::ContDestroy(..)
        | PoolVerb::SnapCreate(..)
        | PoolVerb::SnapDestroy(..)
        | PoolVerb::Rollback(..) => Pace::Changes,
        // From what the service knows, or with its own records alone.
        _ => Pace::Quick,
    }
}

impl Jobs {
    pub(super) fn new(system: Arc<dyn System>) -> Self {
        let (waiting, threads) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { system, waiting, come: Condvar::new(), threads }) }
    }

    /// Begins the threads that there are in any case.
    ///
    /// # Errors
    /// If they cannot be had.
    pub(super) fn start(&self) -> Result<()> {
        for _ in 0..JOB_THREADS {
            self.begin_thread()?;
            self.waiting().threads += 1;
        }
        Ok(())
    }

    fn begin_thread(&self) -> Result<()> {
        let jobs = self.clone();
        let thread = spawn("dolmen-service", move || or_end(|| jobs.run()))?;
        self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job behind the others; `false` if too many wait.
    pub(super) fn give(&self, job: Job) -> bool {
        let mut waiting = self.waiting();
        // What frees something always has room: there is no more of it than there are handles.
        let has_room = waiting.count < JOBS_MAX || matches!(job, Job::Release { .. });
        if has_room {
            waiting.put(job);
            self.inner.come.notify_one();
        }
        has_room
    }

    /// Gives handles of a container back that nobody has.
    pub(super) fn release(&self, transport: Arc<dyn Transport>, cont: ContNo, count: u32) {
        self.give(Job::Release { transport, cont, count });
    }

    /// Ends the threads, once nothing waits any more.
    pub(super) fn end(&self) {
        self.waiting().is_over = true;
        self.inner.come.notify_all();
        // None begins any more while none is left that could begin it. Those that do meanwhile are in the next round.
        loop {
            let threads =
                core::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
            if threads.is_empty() {
                return;
            }
            // Ignored: a panic of a thread was reported when it happened, and the others are ended all the same.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    /// Carries jobs out until the end.
    fn run(&self) {
        while let Some(job) = self.next() {
            let lane = job.lane();
            self.carry_out(job);
            if lane.0 != Pace::Quick {
                self.waiting().end_one(lane);
                self.inner.come.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting();
        loop {
            if let Some(job) = waiting.take(|| self.begin_thread().is_ok()) {
                return Some(job);
            }
            if waiting.is_over && waiting.count == 0 {
                return None;
            }
            waiting = self.inner.come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&self, job: Job) {
        match job {
            Job::Pool { transport, head, verb, asker, key, to } => {
                let evicts = match &verb {
                    PoolVerb::ContEvict(cont, whose) => Some((*cont, *whose)),
                    _ => None,
                };
                let (result, handle) = ask_service(&*transport, head, verb, &asker);
                if let (Ok(Answer::Pool(PoolReply::Cont(handle))), Some((cont, whose))) = (&result, evicts) {
                    let count = asker.holders.take(asker.key, cont, whose, &Evictions::of(&handle.props));
                    release(&*transport, head, cont, count);
                    let uid = (whose == Whose::Own).then_some(head.cred.uid);
                    asker.user.iter().for_each(|user| user.evicts(cont, uid));
                }
                to.put(Done { key, reply: JobReply::Pool(transport, result, handle) });
            }
            Job::System { head, caller, ask, key, to } => {
                let reply = self.inner.system.answer(&head, &caller, ask);
                to.put(Done { key, reply: JobReply::System(reply) });
            }
            Job::Release { transport, cont, count } => release(&*transport, Head::default(), cont, count),
        }
    }
}

/// Asks a pool's service what the asker may ask it; with the place on record of a handle that it gives.
fn ask_service(
    transport: &dyn Transport,
    head: Head,
    verb: PoolVerb<'static>,
    asker: &Asker,
) -> (core::result::Result<Answer, Error>, Option<Box<OnItsWay>>) {
    let opens = match &verb {
        // A part knows of nobody who has a container alone.
        PoolVerb::ContOpen(name, wanted) if !asker.is_part => Some((name.clone(), *wanted)),
        _ => None,
    };
    let result = ask_if_allowed(transport, head, verb, (asker, opens.as_ref()));
    let handle = match (&result, &asker.user, &opens) {
        (Ok(Answer::Pool(PoolReply::Cont(handle))), Some(user), Some((_, wanted))) => {
            Some(Box::new(OnItsWay::new(user, handle.no, *wanted)))
        }
        _ => None,
    };
    (result, handle)
}

fn ask_if_allowed(
    transport: &dyn Transport,
    head: Head,
    verb: PoolVerb<'static>,
    (asker, opens): (&Asker, Option<&(ContName, OpenFor)>),
) -> core::result::Result<Answer, Error> {
    let refuse =
        |(name, wanted): &(ContName, OpenFor)| asker.rights.refuse_open(transport, head, (name, *wanted));
    if let Some(open) = opens.filter(|(_, wanted)| wanted.is_of_alone()) {
        refuse(open)?;
    }
    let past_others = |verb| match &asker.user {
        Some(user) => kept::settled(&**user, transport, head, verb),
        None => Ok(verb),
    };
    let settled = asker.rights.settled(transport, head, verb).and_then(past_others);
    let result =
        settled.and_then(|verb| transport.call(Request { token: 0, head, ask: Ask::Pool(verb) }).result);
    if let (Err(Error::Busy), Some(open)) = (&result, opens) {
        refuse(open)?;
    }
    result
}

/// Gives handles back to the pool's service.
fn release(transport: &dyn Transport, head: Head, cont: ContNo, count: u32) {
    for _ in 0..count {
        let ask = Ask::Pool(PoolVerb::ContClose(cont));
        // Ignored: the handle's container may have been destroyed since.
        let _closed = transport.call(Request { token: 0, head, ask });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::server::{Holders, Rights};
    use dolmen_codec::wire::PoolAccess;
    use dolmen_codec::{Outcome, QueueId};
    use dolmen_types::{Result, Uuid};

    /// A pool that does nothing.
    pub(in crate::server) struct Nowhere;

    impl Transport for Nowhere {
        fn call(&self, request: Request<'_>) -> Outcome {
            Outcome { token: request.token, result: Err(Error::Busy), buf: None }
        }

        fn open_queue(&self) -> Result<QueueId> {
            Err(Error::Busy)
        }

        fn close_queue(&self, _queue: QueueId) {}

        fn submit(&self, _queue: QueueId, _request: Request<'static>) {}

        fn poll(&self, _queue: QueueId, _wait: bool, _out: &mut Vec<Outcome>) {}
    }

    fn asks_pool(verb: PoolVerb<'static>, to: &Arc<Mailbox>) -> Job {
        asks_pool_of(&Arc::default(), verb, to)
    }

    fn asks_pool_of(pool: &Arc<Holders>, verb: PoolVerb<'static>, to: &Arc<Mailbox>) -> Job {
        let transport: Arc<dyn Transport> = Arc::new(Nowhere);
        let asker =
            Asker { user: None, holders: Arc::clone(pool), key: 0, rights: Rights::All, is_part: false };
        Job::Pool { transport, head: Head::default(), verb, asker, key: 0, to: Arc::clone(to) }
    }

    /// With threads as a server begins, of which no more can be had.
    fn waiting_for(jobs: impl IntoIterator<Item = Job>) -> Waiting {
        let mut waiting = Waiting { threads: JOB_THREADS, ..Waiting::default() };
        jobs.into_iter().for_each(|job| waiting.put(job));
        waiting
    }

    /// The paces of all that may be under way at once.
    fn take_all(waiting: &mut Waiting) -> Vec<Lane> {
        core::iter::from_fn(|| waiting.take(|| false)).map(|job| job.lane()).collect()
    }

    fn paces(lanes: &[Lane]) -> Vec<Pace> {
        lanes.iter().map(|lane| lane.0).collect()
    }

    fn evict() -> PoolVerb<'static> {
        PoolVerb::ContEvict(ContNo(1), dolmen_codec::pool::Whose::All)
    }

    fn rolls_back() -> PoolVerb<'static> {
        PoolVerb::Rollback(ContNo(1), dolmen_types::Epoch(7))
    }

    fn asks_system(ask: SystemVerb, to: &Arc<Mailbox>) -> Job {
        let caller = Caller { peer: None, groups: Vec::new(), identity: None, client: 0 };
        Job::System { head: Head::default(), caller, ask, key: 0, to: Arc::clone(to) }
    }

    #[test]
    fn jobs_that_take_long_leave_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let long = [PoolVerb::Scrub, PoolVerb::Check, PoolVerb::Scrub, PoolVerb::ContList];
        let mut waiting = waiting_for(long.map(|verb| asks_pool(verb, &to)));
        let taken = take_all(&mut waiting);
        assert_eq!(
            paces(&taken),
            [Pace::Long, Pace::Long, Pace::Quick],
            "the third scrub waits, the list does not"
        );
        waiting.end_one(taken[0]);
        assert_eq!(paces(&take_all(&mut waiting)), [Pace::Long]);
        taken[..2].iter().for_each(|lane| waiting.end_one(*lane));
        assert!(waiting.lanes.is_empty() && waiting.count == 0 && waiting.slow_under_way == 0);
    }

    #[test]
    fn who_takes_handles_leaves_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let pool: Arc<Holders> = Arc::default();
        let asks = [evict(), evict(), evict(), rolls_back(), rolls_back(), PoolVerb::ContList];
        let mut waiting = waiting_for(asks.map(|verb| asks_pool_of(&pool, verb, &to)));
        let taken = paces(&take_all(&mut waiting));
        assert_eq!(
            taken,
            [Pace::Asks, Pace::Asks, Pace::Changes, Pace::Quick],
            "one change, and the list does not wait"
        );
    }

    #[test]
    fn who_waits_for_other_engines_keeps_nobody_from_other_pools() {
        let to = Arc::new(Mailbox::new().unwrap());
        let pools: Vec<Arc<Holders>> = (0..2 * JOB_THREADS_MAX).map(|_| Arc::default()).collect();
        let changes = |pool| asks_pool_of(pool, rolls_back(), &to);
        let mut waiting = waiting_for(pools.iter().chain(&pools).map(changes));
        let taken: Vec<Lane> = core::iter::from_fn(|| waiting.take(|| true)).map(|job| job.lane()).collect();
        assert_eq!(
            taken.len(),
            JOB_THREADS_MAX - QUICK_THREADS,
            "one of each pool, as there are threads for"
        );
        assert_eq!(waiting.threads, JOB_THREADS_MAX);
        waiting.put(asks_pool_of(&pools[0], PoolVerb::ContList, &to));
        assert_eq!(paces(&take_all(&mut waiting)), [Pace::Quick], "threads are left for it");
        let next = pools.len() - taken.len();
        for lane in taken {
            waiting.end_one(lane);
            assert_eq!(waiting.take(|| true).map(|job| job.pace()), Some(Pace::Changes));
        }
        assert_eq!(
            (waiting.count, waiting.threads),
            (pools.len() + next - waiting.slow_under_way, JOB_THREADS_MAX)
        );
    }

    #[test]
    fn no_thread_is_begun_for_what_is_quick_nor_for_more_of_one_pool() {
        let to = Arc::new(Mailbox::new().unwrap());
        let pool: Arc<Holders> = Arc::default();
        let of = |verb| asks_pool_of(&pool, verb, &to);
        let mut waiting =
            waiting_for((0..100).flat_map(|_| [of(PoolVerb::ContList), of(evict()), of(rolls_back())]));
        let taken = core::iter::from_fn(|| waiting.take(|| panic!("one more thread"))).count();
        assert_eq!(taken, 100 + 2 + 1);
    }

    #[test]
    fn who_waits_for_other_engines_leaves_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let name = || PoolName::Uuid(Uuid::nil());
        let destroy = || SystemVerb::PoolDestroy { name: name(), force: true };
        let connect = || SystemVerb::PoolConnect { name: name(), access: PoolAccess::ReadWrite };
        let asks = [
            destroy(),
            destroy(),
            SystemVerb::PoolEvict(name()),
            connect(),
            connect(),
            connect(),
            SystemVerb::PoolList,
        ];
        let mut waiting = waiting_for(asks.map(|ask| asks_system(ask, &to)));
        let taken = take_all(&mut waiting);
        let expected = [Pace::Manages, Pace::Manages, Pace::Opens, Pace::Opens, Pace::Quick];
        assert_eq!(paces(&taken), expected, "neither connects nor lists wait for who destroys it");
        waiting.end_one(taken[2]);
        assert_eq!(paces(&take_all(&mut waiting)), [Pace::Opens]);
        waiting.end_one(taken[0]);
        assert_eq!(paces(&take_all(&mut waiting)), [Pace::Manages]);
    }
}
