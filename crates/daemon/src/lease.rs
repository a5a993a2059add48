//! An open pool as connections have it: it can be taken from all of them.
//!
//! Invariants: nothing begins once the end was announced; the pool is taken when nothing is under way any more, so each
//! request that was let through is answered; it is closed before whoever ended it goes on, also for the engine that has
//! the pool's service: nobody has a way to it but through the lease.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb};
use dolmen_codec::wire::Looked;
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_local::LocalPool;
use dolmen_net::server::Holders;
use dolmen_types::{Epoch, Error, Head, Invalid, PoolMap, Result, TargetNo, Uuid};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// How long what is under way may take to end when a pool is taken: longer than a device or another engine needs, less than
/// whoever asks for it waits.
const END_NS: u64 = 10_000_000_000;

/// Between two looks whether it has ended.
const REST: Duration = Duration::from_millis(1);

/// An open pool.
pub(crate) struct Lease {
    map: PoolMap,
    /// Who has which containers open.
    holders: Arc<Holders>,
    /// Whether other engines have parts of it.
    is_spread: bool,
    /// Of a part: the way to the engine with the pool's service.
    service: Option<Box<AskService>>,
    /// What comes waits for the verdict whether it ends.
    is_ending: AtomicBool,
    has_ended: AtomicBool,
    /// Guards who has the pool alone; taken alone, for a few instructions.
    alone: Mutex<HasAlone>,
    /// How many look at it who do not use it.
    looking: AtomicUsize,
    /// Requests of queues whose outcomes nobody has taken yet.
    under_way: AtomicUsize,
    /// Guards whether there is a pool; held to read for as long as something is asked. Taken before the others.
    pool: RwLock<Option<LocalPool>>,
    /// Guards requests that wait for the verdict; there are no more than connections may have under way.
    waiting: Mutex<Vec<(Side, QueueId, Request<'static>)>>,
    /// How many outcomes `late` has.
    late_count: AtomicUsize,
    /// Guards outcomes of requests that came after the end; taken alone, or last.
    late: Mutex<Vec<(QueueId, Outcome)>>,
}

/// Who has a pool alone: connections of one user that know a word which the first has drawn.
#[derive(Default)]
struct HasAlone {
    connections: usize,
    uid: u32,
    /// 0 if it is shared with nobody.
    word: u64,
}

/// Asks the engine with a part's service who may do what in the pool, and with a container if one is named.
pub(crate) type AskService = dyn Fn(Option<Uuid>) -> Result<Looked> + Send + Sync;

/// Who asks.
#[derive(Clone, Copy)]
enum Side {
    Client,
    /// The engine with the pool's service.
    Service,
}

impl Lease {
    pub(crate) fn new(pool: LocalPool) -> Self {
        Self::over(pool, None)
    }

    /// A part of a pool.
    pub(crate) fn part(pool: LocalPool, service: Box<AskService>) -> Self {
        Self::over(pool, Some(service))
    }

    fn over(pool: LocalPool, service: Option<Box<AskService>>) -> Self {
        Self {
            service,
            map: pool.map().clone(),
            holders: Arc::default(),
            is_spread: pool.spread().is_some(),
            is_ending: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            alone: Mutex::default(),
            looking: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            pool: RwLock::new(Some(pool)),
            waiting: Mutex::default(),
            late_count: AtomicUsize::new(0),
            late: Mutex::default(),
        }
    }

    /// Whether a connection has the pool alone: nobody else may connect.
    pub(crate) fn is_alone(&self) -> bool {
        self.has_alone().connections > 0
    }

    /// A connection is about to have the pool alone, by an [`Alone`]; or one more, if it knows the word of the first.
    ///
    /// REQUIRES: nobody else has it, and nobody else is looking whether somebody does.
    pub(crate) fn be_alone(&self, head: &Head) {
        let mut alone = self.has_alone();
        let connections = alone.connections + 1;
        *alone = HasAlone { connections, uid: head.cred.uid, word: head.id.sequence };
    }

    /// Whether somebody is one of those who have the pool alone: the processes with whom its handle was shared.
    pub(crate) fn is_shared_with(&self, head: &Head) -> bool {
        let alone = self.has_alone();
        alone.connections > 0
            && alone.word != 0
            && (alone.uid, alone.word) == (head.cred.uid, head.id.sequence)
    }

    fn has_alone(&self) -> MutexGuard<'_, HasAlone> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who has one of its `Arc`s looks at it, and is no user. REQUIRES: counted and taken off under the lock under which
    /// users are counted.
    pub(crate) fn count_looking(&self, more: bool) {
        match more {
            true => self.looking.fetch_add(1, Ordering::SeqCst),
            false => self.looking.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Who has it beside the list of open pools.
    pub(crate) fn user_count(lease: &Arc<Self>) -> usize {
        Arc::strong_count(lease) - 1 - lease.looking.load(Ordering::SeqCst)
    }

    /// Nobody gets it any more. REQUIRES: whoever says so ends it.
    pub(crate) fn announce_end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    pub(crate) fn map(&self) -> &PoolMap {
        &self.map
    }

    pub(crate) fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    pub(crate) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// Whether the pool's service is at another engine.
    pub(crate) fn is_part(&self) -> bool {
        self.service.is_some()
    }

    /// What only the engines of the pool know, while it is open.
    pub(crate) fn key(&self) -> Option<u128> {
        self.held().as_ref().and_then(|pool| Some(pool.spread()?.key))
    }

    /// Whose the pool is and who may do what, also with a container if one is named; a part asks where its service is.
    pub(crate) fn look(&self, cont: Option<Uuid>) -> Result<Looked> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Err(Error::NoPermission);
        }
        if let Some(service) = &self.service {
            // Nothing of the pool is held meanwhile: it may take until the other engine is given up.
            return service(cont);
        }
        let request = Request { token: 0, head: Head::default(), ask: Ask::Pool(PoolVerb::Props) };
        let Answer::Pool(PoolReply::Props(props)) = self.call(request).result? else {
            return Err(Invalid::Argument.into());
        };
        let look = |cont| self.with(cont, LocalPool::look).unwrap_or_else(|(_, error)| Err(error));
        Ok(Looked { props, cont: cont.map(look).transpose()? })
    }

    /// What a part answers itself of what its service is asked elsewhere: handles, which belong to connections.
    fn answer_of_part(&self, ask: &Ask<'_>) -> Option<Result<Answer>> {
        self.service.as_ref()?;
        match ask {
            Ask::Pool(PoolVerb::ContOpen(ContName::Uuid(uuid), _)) => Some(
                self.look(Some(*uuid))
                    .and_then(|looked| looked.cont.ok_or(Error::NotFound))
                    .map(|cont| Answer::Pool(PoolReply::Cont(cont))),
            ),
            Ask::Pool(PoolVerb::ContClose(_)) => Some(Ok(Answer::Pool(PoolReply::Done))),
            _ => None,
        }
    }

    /// Whether it was taken, or is about to be.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst) || self.has_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.held().as_ref().is_some_and(|pool| pool.wait_admitted(Duration::ZERO))
    }

    /// The pool, when nobody else has the lease.
    pub(crate) fn into_pool(self) -> Option<LocalPool> {
        self.pool.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pool from all who have it, and closes it.
    ///
    /// # Errors
    /// `Busy` if what is under way does not end; then what came meanwhile is carried out. REQUIRES: one thread ends it.
    pub(crate) fn end(&self) -> Result<()> {
        self.end_within(END_NS)
    }

    fn end_within(&self, limit_ns: u64) -> Result<()> {
        self.is_ending.store(true, Ordering::SeqCst);
        let end_ns = RealClock.monotonic_ns() + limit_ns;
        loop {
            // Who waits in line for the lock would hold up those whose work the others wait for.
            if self.under_way.load(Ordering::SeqCst) == 0 {
                let taken = match self.pool.try_write() {
                    Ok(mut pool) => Ok(pool.take()),
                    Err(TryLockError::Poisoned(pool)) => Ok(pool.into_inner().take()),
                    Err(TryLockError::WouldBlock) => Err(()),
                };
                if let Ok(taken) = taken {
                    self.has_ended.store(true, Ordering::SeqCst);
                    self.let_go_on();
                    // Outside of the lock: a last checkpoint takes as long as it takes, and who asks is refused at once.
                    drop(taken);
                    return Ok(());
                }
            }
            if RealClock.monotonic_ns() >= end_ns {
                self.let_go_on();
                return Err(Error::Busy);
            }
            dolmen_env::wait(REST);
        }
    }

    /// The verdict: what waits for it is carried out, or refused if it has ended.
    fn let_go_on(&self) {
        let mut waiting = self.waiting();
        self.is_ending.store(false, Ordering::SeqCst);
        let all = core::mem::take(&mut *waiting);
        drop(waiting);
        all.into_iter().for_each(|(side, queue, request)| self.submit_by(side, queue, request));
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Side, QueueId, Request<'static>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> RwLockReadGuard<'_, Option<LocalPool>> {
        self.pool.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the pool, or gives back what cannot be done now, and why.
    fn with<I, T>(
        &self,
        input: I,
        body: impl FnOnce(&LocalPool, I) -> T,
    ) -> core::result::Result<T, (I, Error)> {
        if self.is_ending.load(Ordering::SeqCst) {
            return Err((input, Error::Busy));
        }
        match &*self.held() {
            Some(pool) => Ok(body(pool, input)),
            None => Err((input, Error::NoPermission)),
        }
    }

    fn call_by(&self, side: Side, request: Request<'_>) -> Outcome {
        self.with(request, |pool, request| match side {
            Side::Client => pool.call(request),
            Side::Service => pool.part_door().call(request),
        })
        .unwrap_or_else(|(request, error)| request.refused(error))
    }

    fn submit_by(&self, side: Side, queue: QueueId, mut request: Request<'static>) {
        loop {
            // Before it is known whether it may begin: who ends the lease first says so, then counts.
            self.under_way.fetch_add(1, Ordering::SeqCst);
            let submitted = self.with(request, |pool, request| match side {
                Side::Client => pool.submit(queue, request),
                Side::Service => pool.part_door().submit(queue, request),
            });
            let Err((refused, error)) = submitted else { return };
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            if error == Error::NoPermission {
                let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                late.push((queue, refused.refused(error)));
                self.late_count.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let mut waiting = self.waiting();
            // The verdict is given under the lock: what is put here before is found by it.
            if self.is_ending.load(Ordering::SeqCst) {
                return waiting.push((side, queue, refused));
            }
            request = refused;
        }
    }

    fn take_late(&self, queue: QueueId, out: &mut Vec<Outcome>) {
        if self.late_count.load(Ordering::SeqCst) > 0 {
            let before = out.len();
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            out.extend(late.extract_if(.., |(of, _)| *of == queue).map(|(_, outcome)| outcome));
            self.late_count.fetch_sub(out.len() - before, Ordering::SeqCst);
        }
    }
}

impl Transport for Lease {
    fn call(&self, request: Request<'_>) -> Outcome {
        match self.answer_of_part(&request.ask) {
            Some(result) => Outcome { token: request.token, result, buf: None },
            None => self.call_by(Side::Client, request),
        }
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.with((), |pool, ()| pool.open_queue()).unwrap_or_else(|((), error)| Err(error))
    }

    fn saw(&self, epoch: Epoch) {
        // Ignored: of a pool that is gone nobody begins a transaction.
        let _seen = self.with((), |pool, ()| pool.saw(epoch));
    }

    fn takes_gifts(&self, target: TargetNo) -> Result<bool> {
        self.with((), |pool, ()| pool.takes_gifts(target)).unwrap_or_else(|((), error)| Err(error))
    }

    fn close_queue(&self, queue: QueueId) {
        self.waiting().retain(|(_, of, _)| *of != queue);
        if let Some(pool) = &*self.held() {
            pool.close_queue(queue);
        }
        self.take_late(queue, &mut Vec::new());
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.submit_by(Side::Client, queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let before = out.len();
        if let Some(pool) = &*self.held() {
            pool.poll(queue, wait, out);
            self.under_way.fetch_sub(out.len() - before, Ordering::SeqCst);
        }
        self.take_late(queue, out);
    }
}

/// The lease as a connection has it that has the pool alone, until it is let go of: when the connection leaves the pool, or ends.
pub(crate) struct Alone(pub(crate) Arc<Lease>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.has_alone().connections -= 1;
    }
}

impl Transport for Alone {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.0.call(request)
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.0.open_queue()
    }

    fn saw(&self, epoch: Epoch) {
        self.0.saw(epoch);
    }

    fn takes_gifts(&self, target: TargetNo) -> Result<bool> {
        self.0.takes_gifts(target)
    }

    fn close_queue(&self, queue: QueueId) {
        self.0.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.0.submit(queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.0.poll(queue, wait, out);
    }
}

/// The lease of a part as the engine with the pool's service has it.
pub(crate) struct PartLease {
    lease: Arc<Lease>,
}

impl PartLease {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease }
    }
}

impl Transport for PartLease {
    fn call(&self, request: Request<'_>) -> Outcome {
        if let Ask::Pool(PoolVerb::Evicted { cont, evictions, by }) = &request.ask {
            let counted = Evictions::decode(evictions).ok_or(Error::Invalid(Invalid::Argument));
            let result = counted.map(|counted| {
                self.lease.holders.end_older(*cont, &counted, *by);
                Answer::Pool(PoolReply::Done)
            });
            return Outcome { token: request.token, result, buf: None };
        }
        self.lease.call_by(Side::Service, request)
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.lease.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.lease.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.lease.submit_by(Side::Service, queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.lease.poll(queue, wait, out);
    }
}

impl core::fmt::Debug for Lease {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lease").field("pool", &self.map.pool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_codec::order::HashKey;
    use dolmen_codec::verb::{ContSpec, ContVerb, Verb};
    use dolmen_local::{OpenOptions, PoolOptions, Spread};
    use dolmen_types::{ContNo, Durability, TargetNo};
    use std::path::PathBuf;

    /// A directory for a test, which is removed with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("dolmen-lease-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn create(dir: &Scratch, spread: Option<Spread>) {
        let options = PoolOptions {
            targets: 1,
            capacity_bytes: 64 << 20,
            volatile: true,
            spread,
            ..PoolOptions::default()
        };
        dolmen_local::create(&dir.0, &options).unwrap();
    }

    fn list(token: u64) -> Request<'static> {
        Request { token, head: Head::default(), ask: Ask::Pool(PoolVerb::ContList) }
    }

    #[test]
    fn a_part_that_is_taken_is_closed_before_it_can_be_opened_again() {
        let dir = Scratch::new("part");
        create(&dir, Some(Spread { rank: 1, ranks: vec![0, 1], key: 5 }));
        let open = || Arc::new(Lease::new(dolmen_local::open_part(&dir.0, &OpenOptions::default()).unwrap()));
        let make = |door: &PartLease, no| {
            let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Power };
            let ask = Ask::Target(TargetNo(1), ContNo(no), Verb::Cont(ContVerb::Create(spec)));
            door.call(Request { token: 0, head: Head::default(), ask }).result.map(drop)
        };
        let lease = open();
        let old = PartLease::new(Arc::clone(&lease));
        assert_eq!(make(&old, 1), Ok(()));
        assert_eq!(lease.end(), Ok(()));
        let again = open();
        let new = PartLease::new(Arc::clone(&again));
        assert_eq!(make(&old, 2), Err(Error::NoPermission), "the old door leads nowhere");
        assert_eq!(make(&new, 3), Ok(()));
        let usage = Ask::Target(TargetNo(1), ContNo(1), Verb::Cont(ContVerb::Usage));
        let told = new.call(Request { token: 0, head: Head::default(), ask: usage });
        assert!(told.result.is_ok(), "what was acknowledged before is there: {told:?}");
    }

    #[test]
    fn a_part_is_not_taken_while_the_service_has_something_under_way() {
        let dir = Scratch::new("counted");
        create(&dir, Some(Spread { rank: 1, ranks: vec![0, 1], key: 5 }));
        let pool = dolmen_local::open_part(&dir.0, &OpenOptions::default()).unwrap();
        let lease = Arc::new(Lease::new(pool));
        let door = PartLease::new(Arc::clone(&lease));
        let queue = door.open_queue().unwrap();
        door.submit(queue, list(7));
        assert_eq!(lease.under_way.load(Ordering::SeqCst), 1);
        let mut out = Vec::new();
        while out.is_empty() {
            door.poll(queue, true, &mut out);
        }
        assert_eq!(lease.under_way.load(Ordering::SeqCst), 0);
        assert_eq!(lease.end(), Ok(()));
        door.submit(queue, list(8));
        door.poll(queue, false, &mut out);
        assert_eq!(out[1].token, 8);
        assert_eq!(out[1].result.as_ref().err(), Some(&Error::NoPermission));
    }

    #[test]
    fn what_comes_while_a_pool_is_being_taken_waits_for_the_verdict() {
        for is_taken in [false, true] {
            let dir = Scratch::new(if is_taken { "taken" } else { "kept" });
            create(&dir, None);
            let lease = Lease::new(dolmen_local::open(&dir.0, &OpenOptions::default()).unwrap());
            let queue = lease.open_queue().unwrap();
            lease.is_ending.store(true, Ordering::SeqCst);
            lease.submit(queue, list(7));
            let mut out = Vec::new();
            lease.poll(queue, false, &mut out);
            assert!(out.is_empty(), "nobody is told anything yet: {out:?}");
            assert_eq!(lease.call(list(0)).result.err(), Some(Error::Busy));
            if is_taken {
                assert_eq!(lease.end(), Ok(()));
            } else {
                lease.let_go_on();
            }
            while out.is_empty() {
                lease.poll(queue, true, &mut out);
            }
            assert_eq!(out[0].token, 7);
            assert_eq!(out[0].result.is_ok(), !is_taken, "{:?}", out[0].result);
            assert_eq!(lease.call(list(0)).result.is_ok(), !is_taken);
        }
    }

    #[test]
    fn a_pool_whose_work_does_not_end_stays_and_goes_on() {
        let dir = Scratch::new("busy");
        create(&dir, None);
        let lease = Lease::new(dolmen_local::open(&dir.0, &OpenOptions::default()).unwrap());
        // Somebody has something under way that takes longer than may be waited for.
        let held = lease.held();
        assert_eq!(lease.end_within(0), Err(Error::Busy));
        drop(held);
        assert!(lease.call(list(0)).result.is_ok());
        assert!(!lease.has_ended());
    }
}
