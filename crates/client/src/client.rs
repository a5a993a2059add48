//! One client of one pool: who asks, the map it asks by, and the one place where requests are repeated.
//!
//! Invariants: a request keeps its id when it is repeated; the packed map only ever gets a newer version.

use crate::event::Inner;
use crate::gathered::Gathered;
use crate::later::Later;
use crate::reads::Reads;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContHandle, PoolInfo, PoolReply, PoolVerb};
use dolmen_codec::verb::Reply;
use dolmen_codec::{Answer, Ask, Lease, Outcome, Request, Transport, Way, give_way, now};
use dolmen_env::{Clock, Rng, Secrets};
use dolmen_types::limits::RETAINED_RESULTS_PER_CLIENT;
use dolmen_types::{ContNo, Credentials, Error, Head, IoBuf, RequestId, Result, TargetNo};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Repeats after a stale pool map. Each repeat has fetched the map anew, so more than a few mean that the map
/// changes faster than a request travels.
const STALE_REPEATS_MAX: u32 = 8;
/// Repeats while another client's transaction is undecided. With the pauses below they cover the time that a
/// commit takes even when its coordinator flushes to a slow disk.
const IN_DOUBT_REPEATS_MAX: u32 = 64;
/// The first pause is drawn below this; each next one below twice as much.
const PAUSE_BASE_NS: u64 = 2_000;
/// Doublings of the pause: 2 us << 9 is about a millisecond.
const PAUSE_DOUBLINGS_MAX: u32 = 9;
/// Yields in one pause, so that it ends under a clock that stands still.
const PAUSE_YIELDS_MAX: u32 = 1_000;
/// `EIO`: the system has no entropy to give.
const ERRNO_IO: i32 = 5;
/// `EPROTO`: an answer that does not belong to its question.
const ERRNO_PROTOCOL: i32 = 71;

/// What placement needs of a pool map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapView {
    pub(crate) version: u32,
    pub(crate) target_count: u16,
}

impl MapView {
    fn of(info: &PoolInfo) -> Self {
        let target_count = u16::try_from(info.map.targets.len()).unwrap_or(u16::MAX);
        Self { version: info.map.version, target_count }
    }

    fn pack(self) -> u64 {
        u64::from(self.version) << 16 | u64::from(self.target_count)
    }

    fn unpack(packed: u64) -> Self {
        let [a, b, c, d, e, f, ..] = packed.to_le_bytes();
        Self { version: u32::from_le_bytes([c, d, e, f]), target_count: u16::from_le_bytes([a, b]) }
    }
}

/// Sequence numbers of mutations in the order they were drawn, from the oldest on that has not ended.
struct Drawn {
    oldest: u64,
    has_ended: VecDeque<bool>,
}

impl Drawn {
    fn draw(&mut self) -> u64 {
        self.has_ended.push_back(false);
        self.oldest + self.has_ended.len() as u64 - 1
    }

    /// Whether the next one would be further ahead of the oldest than a target takes.
    fn is_far_ahead(&self) -> bool {
        self.has_ended.len() >= AHEAD_MAX
    }

    /// The oldest that has not ended now.
    fn end(&mut self, sequence: u64) -> u64 {
        let at = usize::try_from(sequence - self.oldest).expect("as many are held in memory");
        self.has_ended[at] = true;
        while self.has_ended.front() == Some(&true) {
            self.has_ended.pop_front();
            self.oldest += 1;
        }
        self.oldest
    }
}

/// Sequence numbers from the oldest mutation that has not ended to the newest: a target retains the results of no more, and
/// refuses what goes further ahead. A few are left for threads that draw at the same time.
const AHEAD_MAX: usize = RETAINED_RESULTS_PER_CLIENT - 256;
/// Requests of all queues of a client that are sent and not answered: what an engine's inbox takes, and a fraction of what
/// a connection does. Others wait here, where they cost no copy of their payload.
const SENT_MAX: usize = 3072;

/// A mutation under way: until this is dropped every request to those who retain its result says that it may still be sent.
pub(crate) struct Write<C: Deref<Target = Core>> {
    core: C,
    sequence: u64,
    /// Whether it is a change by the pool's service, whatever targets are asked meanwhile.
    is_change: bool,
}

impl<C: Deref<Target = Core>> Write<C> {
    #[inline]
    pub(crate) fn begin(core: C) -> Self {
        let sequence = core.drawn().draw();
        Self { core, sequence, is_change: false }
    }

    /// As [`Write::begin`], once the oldest that has not ended is not too far behind: that one may be on a queue whose program
    /// does not look at it, which is done here then.
    #[inline]
    pub(crate) fn begin_in_turn(core: C) -> Self {
        loop {
            let mut drawn = core.drawn();
            if !drawn.is_far_ahead() {
                let sequence = drawn.draw();
                drop(drawn);
                return Self { core, sequence, is_change: false };
            }
            drop(drawn);
            core.drive_queues();
        }
    }

    /// As [`Write::begin`], unless the oldest that has not ended is too far behind.
    pub(crate) fn try_begin(core: C) -> Option<Self> {
        let mut drawn = core.drawn();
        let sequence = if drawn.is_far_ahead() { None } else { Some(drawn.draw()) };
        drop(drawn);
        sequence.map(|sequence| Self { core, sequence, is_change: false })
    }

    /// A change by the pool's service. No target waits for its end before it forgets what it has answered.
    pub(crate) fn begin_change(core: C) -> Self {
        let sequence = {
            let mut changes = core.changes();
            // Under the lock, so that nobody says that it has ended before it is listed.
            let sequence = core.mutation_id().sequence;
            changes.insert(sequence);
            sequence
        };
        Self { core, sequence, is_change: true }
    }

    #[inline]
    pub(crate) fn id(&self) -> RequestId {
        RequestId { client: self.core.client, sequence: self.sequence }
    }
}

impl<C: Deref<Target = Core>> Drop for Write<C> {
    fn drop(&mut self) {
        if self.is_change {
            self.core.changes().remove(&self.sequence);
        } else {
            self.core.end(self.sequence);
        }
    }
}

/// The state that all handles of a client share.
pub(crate) struct Core {
    transport: Arc<dyn Transport>,
    later: Later,
    clock: Arc<dyn Clock>,
    client: u128,
    cred: Credentials,
    job: u64,
    tenant: u32,
    timeout_ns: u64,
    /// Guards the sequence numbers, for a few instructions; nothing is taken while it is held.
    drawn: Mutex<Drawn>,
    /// The oldest of them that has not ended, or one before it.
    oldest: AtomicU64,
    /// Guards which changes by the pool's service are under way; taken before `drawn`.
    changes: Mutex<BTreeSet<u64>>,
    map: AtomicU64,
    /// Requests of queues that are sent and not answered.
    sent: AtomicUsize,
    reads: Reads,
    /// Guards the list of queues; taken alone, to open one and to look after all.
    queues: Mutex<Vec<Weak<Inner>>>,
    /// Guards which handles on containers end together; taken alone, to open, close and evict.
    eras: Mutex<BTreeMap<ContNo, Era>>,
    /// Guards the generator of pauses; taken alone, never on the way of a request that succeeds.
    rng: Mutex<Rng>,
    /// Guards the source of UUIDs; taken alone, to make a container.
    secrets: Mutex<Secrets>,
}

/// Handles on a container between two evictions.
struct Era {
    evictions: u64,
    has_ended: Weak<AtomicBool>,
}

/// Who a client is and how it waits; given by the caller, never read from the process's environment.
#[derive(Debug, Clone)]
pub struct Options {
    /// The caller.
    pub cred: Credentials,
    /// The batch job, for accounting; 0 for none.
    pub job: u64,
    /// The tenant, for quality of service.
    pub tenant: u32,
    /// How long a request may wait before it is begun, in nanoseconds; 0 for as long as it takes.
    pub timeout_ns: u64,
    /// Source of deadlines and pauses.
    pub clock: Arc<dyn Clock>,
    /// Source of the jitter of pauses.
    pub rng: Rng,
    /// Source of the client's id and of container UUIDs: those are told, and that must not follow from them, since who
    /// knows it may ask in the client's place.
    pub secrets: Secrets,
}

impl Options {
    /// The machine's clock and entropy; no job, no tenant, no time limit.
    ///
    /// # Errors
    /// `Io` if the system has no entropy to give.
    pub fn new(cred: Credentials) -> Result<Self> {
        let rng = Rng::from_entropy().map_err(no_entropy)?;
        let clock = Arc::new(dolmen_env::RealClock);
        Ok(Self { cred, job: 0, tenant: 0, timeout_ns: 0, clock, rng, secrets: Secrets::System })
    }

    /// As [`Options::new`], for the user, job and tenant of a head.
    ///
    /// # Errors
    /// As [`Options::new`].
    pub fn like(head: &Head) -> Result<Self> {
        Ok(Self { job: head.job, tenant: head.tenant, ..Self::new(head.cred)? })
    }
}

impl Core {
    pub(crate) async fn connect(
        way: Way,
        transport: Arc<dyn Transport>,
        options: Options,
    ) -> Result<Arc<Self>> {
        let Options { cred, job, tenant, timeout_ns, clock, rng, mut secrets } = options;
        let core = Self {
            later: Later::new(&transport),
            transport,
            clock,
            client: secrets.next_u128().map_err(no_entropy)?,
            cred,
            job,
            tenant,
            timeout_ns,
            drawn: Mutex::new(Drawn { oldest: 1, has_ended: VecDeque::new() }),
            oldest: AtomicU64::new(1),
            changes: Mutex::default(),
            map: AtomicU64::new(0),
            sent: AtomicUsize::new(0),
            reads: Reads::default(),
            queues: Mutex::default(),
            eras: Mutex::default(),
            rng: Mutex::new(rng),
            secrets: Mutex::new(secrets),
        };
        core.query_by(way).await?;
        Ok(Arc::new(core))
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(crate) fn later(&self) -> &Later {
        &self.later
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn client(&self) -> u128 {
        self.client
    }

    /// Whether the handles have ended that were opened as this one was. Those from before an eviction that the handle tells
    /// of end here: until then only the engine knew.
    pub(crate) fn era_of(&self, handle: &ContHandle) -> Arc<AtomicBool> {
        let evictions = Evictions::of(&handle.props).count(self.cred.uid);
        let mut eras = self.eras.lock().unwrap_or_else(PoisonError::into_inner);
        let known = eras.get(&handle.no).and_then(|era| Some((era.evictions, era.has_ended.upgrade()?)));
        match known {
            Some((known, has_ended)) if known == evictions => return has_ended,
            // It was answered before the eviction, and is heard of after it.
            Some((known, _)) if known > evictions => return Arc::new(AtomicBool::new(true)),
            Some((_, has_ended)) => has_ended.store(true, Ordering::Release),
            None => {}
        }
        let has_ended = Arc::<AtomicBool>::default();
        eras.insert(handle.no, Era { evictions, has_ended: Arc::downgrade(&has_ended) });
        has_ended
    }

    /// Handles of this client go on after an eviction that it has asked for.
    pub(crate) fn goes_on(&self, handle: &ContHandle) {
        let evictions = Evictions::of(&handle.props).count(self.cred.uid);
        if let Some(era) = self.eras.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&handle.no) {
            era.evictions = era.evictions.max(evictions);
        }
    }

    /// The last handle of an era was given up.
    pub(crate) fn forget_era(&self, no: ContNo) {
        let mut eras = self.eras.lock().unwrap_or_else(PoisonError::into_inner);
        if eras.get(&no).is_some_and(|era| era.has_ended.strong_count() <= 1) {
            eras.remove(&no);
        }
    }

    /// Counts one more request of a queue as sent, if there is room for it.
    pub(crate) fn may_send(&self) -> bool {
        let room = |sent: usize| (sent < SENT_MAX).then_some(sent + 1);
        self.sent.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_ok()
    }

    /// So many are answered, or were not sent after all.
    pub(crate) fn was_answered(&self, count: usize) {
        self.sent.fetch_sub(count, Ordering::AcqRel);
    }

    /// Notes a queue, to be looked after when it holds others up.
    pub(crate) fn note_queue(&self, queue: &Arc<Inner>) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// Takes in what has come on any queue, without waiting, and lets others run: what has not ended there may be what
    /// somebody waits for.
    #[cold]
    pub(crate) fn drive_queues(&self) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<Arc<Inner>> = queues.iter().filter_map(Weak::upgrade).collect();
        drop(queues);
        for queue in open {
            queue.drive(false);
        }
        self.drive_later();
        dolmen_env::yield_now();
    }

    /// 128 bits that nobody can guess.
    pub(crate) fn secret_u128(&self) -> Result<u128> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).next_u128().map_err(no_entropy)
    }

    #[inline]
    pub(crate) fn map(&self) -> MapView {
        MapView::unpack(self.map.load(Ordering::Acquire))
    }

    /// An id for a request whose result no target retains.
    #[inline]
    pub(crate) fn mutation_id(&self) -> RequestId {
        Write::begin(self).id()
    }

    #[inline]
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn end(&self, sequence: u64) {
        let mut drawn = self.drawn();
        // Under the lock, so that it never falls.
        self.oldest.store(drawn.end(sequence), Ordering::Relaxed);
    }

    fn changes(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a request that changes nothing: no target needs to remember its result.
    #[inline]
    pub(crate) fn read_id(&self) -> RequestId {
        RequestId { client: self.client, sequence: 0 }
    }

    #[inline]
    pub(crate) fn head(&self, id: RequestId, map_version: u32) -> Head {
        let deadline_ns = match self.timeout_ns {
            0 => 0,
            timeout_ns => self.clock.now_ns().saturating_add(timeout_ns),
        };
        let oldest = self.oldest.load(Ordering::Relaxed);
        Head { id, oldest, deadline_ns, map_version, job: self.job, tenant: self.tenant, cred: self.cred }
    }

    /// The same for what is asked: the service is told which is the oldest change that it may be asked for still. Where a
    /// transaction reads is noted.
    #[inline]
    pub(crate) fn head_of(&self, id: RequestId, map_version: u32, ask: &Ask<'_>) -> Head {
        let mut head = self.head(id, map_version);
        self.reads.note(ask);
        if let Ask::Pool(verb) = ask
            && !matches!(verb, PoolVerb::TxCommit(_))
        {
            head.oldest = self.changes().first().copied().unwrap_or(id.sequence);
        }
        head
    }

    /// Asks, and asks again after a stale map or while a transaction stands in the way. `make` builds the
    /// question for a map, with `buf` in it if it is a fetch; `buf` is back when this returns.
    #[inline]
    pub(crate) fn ask<'a>(
        &self,
        id: RequestId,
        buf: &mut IoBuf,
        make: impl FnMut(MapView, IoBuf) -> Result<Ask<'a>>,
    ) -> Result<Answer> {
        self.ask_gathering(id, buf, None, make)
    }

    /// As [`Core::ask`], of a read: with a lease, if there is a place for it.
    #[inline]
    pub(crate) fn ask_gathering<'a>(
        &self,
        id: RequestId,
        buf: &mut IoBuf,
        gathered: Option<&Gathered>,
        mut make: impl FnMut(MapView, IoBuf) -> Result<Ask<'a>>,
    ) -> Result<Answer> {
        let mut repeats = 0;
        loop {
            let map = self.map();
            let ask = make(map, core::mem::take(buf))?;
            let request = Request { token: 0, head: self.head_of(id, map.version, &ask), ask };
            let outcome = match gathered {
                None => self.transport.call(request),
                Some(gathered) => gathered.call(&*self.transport, request),
            };
            if let Some(back) = outcome.buf {
                *buf = back;
            }
            match outcome.result {
                Ok(answer) => return Ok(answer),
                Err(error) => self.recover(error, &mut repeats)?,
            }
        }
    }

    /// Asks one target something that brings no buffer.
    #[inline]
    pub(crate) fn ask_target<'a>(
        &self,
        id: RequestId,
        mut make: impl FnMut(MapView) -> Result<Ask<'a>>,
    ) -> Result<Reply> {
        match self.ask(id, &mut IoBuf::default(), |map, _| make(map))? {
            Answer::Target(reply) => Ok(reply),
            Answer::Pool(_) => Err(unexpected()),
        }
    }

    /// Asks the pool's service.
    pub(crate) fn ask_pool<'a>(
        &self,
        id: RequestId,
        mut make: impl FnMut() -> PoolVerb<'a>,
    ) -> Result<PoolReply> {
        match self.ask(id, &mut IoBuf::default(), |_, _| Ok(Ask::Pool(make())))? {
            Answer::Pool(reply) => Ok(reply),
            Answer::Target(_) => Err(unexpected()),
        }
    }

    /// Asks the pool's service for a change, on a way of the caller's. Until it is answered every request of the client says that
    /// it may still be sent.
    pub(crate) async fn change_by(
        &self,
        way: Way,
        make: impl FnMut() -> PoolVerb<'static>,
    ) -> Result<PoolReply> {
        let change = Write::begin_change(self);
        self.ask_pool_by(way, change.id(), make).await
    }

    /// Asks the pool's service, on a way of the caller's.
    pub(crate) async fn ask_pool_by(
        &self,
        way: Way,
        id: RequestId,
        mut make: impl FnMut() -> PoolVerb<'static>,
    ) -> Result<PoolReply> {
        match self.ask_by(way, id, |_| Ok(Ask::Pool(make()))).await? {
            Answer::Pool(reply) => Ok(reply),
            Answer::Target(_) => Err(unexpected()),
        }
    }

    /// Asks one target something that brings no buffer, on a way of the caller's.
    pub(crate) async fn ask_target_by(
        &self,
        way: Way,
        id: RequestId,
        make: impl FnMut(MapView) -> Result<Ask<'static>>,
    ) -> Result<Reply> {
        match self.ask_by(way, id, make).await? {
            Answer::Target(reply) => Ok(reply),
            Answer::Pool(_) => Err(unexpected()),
        }
    }

    /// As [`Core::ask_target_by`], of a read: with a lease, if there is a place for it.
    pub(crate) async fn read_target_by(
        &self,
        way: Way,
        gathered: Option<&Gathered>,
        mut make: impl FnMut(MapView) -> Result<Ask<'static>>,
    ) -> Result<Reply> {
        let (id, none) = (self.read_id(), &mut IoBuf::default());
        match self.ask_gathering_by(way, id, none, gathered, |map, _| make(map)).await? {
            Answer::Target(reply) => Ok(reply),
            Answer::Pool(_) => Err(unexpected()),
        }
    }

    /// As [`Core::ask_gathering`], on a way of the caller's; with a lease if that is now.
    pub(crate) async fn ask_gathering_by(
        &self,
        way: Way,
        id: RequestId,
        buf: &mut IoBuf,
        gathered: Option<&Gathered>,
        make: impl FnMut(MapView, IoBuf) -> Result<Ask<'static>>,
    ) -> Result<Answer> {
        match way {
            Way::Now => self.ask_gathering(id, buf, gathered, make),
            Way::Later => self.ask_on_the_way(id, buf, gathered, make).await,
        }
    }

    /// As [`Core::ask`], on a way of the caller's, of what brings neither buffer nor borrowed payload.
    pub(crate) async fn ask_by(
        &self,
        way: Way,
        id: RequestId,
        mut make: impl FnMut(MapView) -> Result<Ask<'static>>,
    ) -> Result<Answer> {
        self.ask_with_by(way, id, &mut IoBuf::default(), |map, _| make(map)).await
    }

    /// As [`Core::ask`], on a way of the caller's, of what brings no borrowed payload.
    pub(crate) async fn ask_with_by(
        &self,
        way: Way,
        id: RequestId,
        buf: &mut IoBuf,
        make: impl FnMut(MapView, IoBuf) -> Result<Ask<'static>>,
    ) -> Result<Answer> {
        match way {
            Way::Now => self.ask(id, buf, make),
            Way::Later => self.ask_on_the_way(id, buf, None, make).await,
        }
    }

    /// The same of what nobody waits for in the call.
    async fn ask_on_the_way(
        &self,
        id: RequestId,
        buf: &mut IoBuf,
        gathered: Option<&Gathered>,
        mut make: impl FnMut(MapView, IoBuf) -> Result<Ask<'static>>,
    ) -> Result<Answer> {
        let mut repeats = 0;
        loop {
            let map = self.map();
            let ask = make(map, core::mem::take(buf))?;
            let request = || {
                let head = self.head_of(id, map.version, &ask);
                Request { token: 0, head, ask }
            };
            let outcome = self.ask_later(request, gathered).await?;
            if let Some(back) = outcome.buf {
                *buf = back;
            }
            match outcome.result {
                Ok(answer) => return Ok(answer),
                Err(Error::StaleMap { .. }) if repeats < STALE_REPEATS_MAX && self.has_round() => {
                    self.query_in_round(map.version).await?;
                }
                Err(Error::StaleMap { .. }) if repeats < STALE_REPEATS_MAX => {
                    self.query_later().await?;
                }
                Err(Error::InDoubt { .. }) if repeats < IN_DOUBT_REPEATS_MAX => {
                    if self.has_round() {
                        self.pause_by(Way::Later, repeats + 1).await;
                    }
                }
                Err(other) => return Err(other),
            }
            repeats += 1;
        }
    }

    /// Asks several, all of them reads.
    pub(crate) fn call_all(&self, asked: Vec<(Request<'static>, bool)>) -> Vec<(Outcome, Option<Lease>)> {
        if asked.is_empty() { Vec::new() } else { self.transport.call_all(asked) }
    }

    /// Fetches the pool's map and takes it over.
    pub(crate) fn query(&self) -> Result<PoolInfo> {
        now(self.query_by(Way::Now))
    }

    /// As [`Core::query`], on a way of the caller's.
    pub(crate) async fn query_by(&self, way: Way) -> Result<PoolInfo> {
        match way {
            Way::Now => self.queried(self.transport.call(self.map_question())),
            Way::Later => self.query_later().await,
        }
    }

    async fn query_later(&self) -> Result<PoolInfo> {
        self.queried(self.ask_later(|| self.map_question(), None).await?)
    }

    pub(crate) fn map_question(&self) -> Request<'static> {
        let head = self.head(self.read_id(), self.map().version);
        Request { token: 0, head, ask: Ask::Pool(PoolVerb::Query) }
    }

    fn queried(&self, outcome: Outcome) -> Result<PoolInfo> {
        self.take_map(&outcome.result)?;
        match outcome.result? {
            Answer::Pool(PoolReply::Pool(info)) => Ok(info),
            Answer::Pool(_) | Answer::Target(_) => Err(unexpected()),
        }
    }

    /// Takes over a map that was asked for.
    pub(crate) fn take_map(&self, result: &Result<Answer>) -> Result<()> {
        match result {
            Ok(Answer::Pool(PoolReply::Pool(info))) => {
                self.map.fetch_max(MapView::of(info).pack(), Ordering::AcqRel);
                Ok(())
            }
            Ok(_) => Err(unexpected()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Makes a repeat of a failed request worthwhile, or returns its error.
    #[cold]
    fn recover(&self, error: Error, repeats: &mut u32) -> Result<()> {
        *repeats += 1;
        match error {
            Error::StaleMap { .. } if *repeats <= STALE_REPEATS_MAX => self.query().map(|_| ()),
            Error::InDoubt { .. } if *repeats <= IN_DOUBT_REPEATS_MAX => {
                self.pause(*repeats);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Lets others run for a random time that grows with `repeats`.
    pub(crate) fn pause(&self, repeats: u32) {
        now(self.pause_by(Way::Now, repeats));
    }

    /// As [`Core::pause`], on a way of the caller's.
    pub(crate) async fn pause_by(&self, way: Way, repeats: u32) {
        let bound = PAUSE_BASE_NS << repeats.min(PAUSE_DOUBLINGS_MAX);
        let pause_ns = self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(bound);
        let end = self.clock.monotonic_ns().saturating_add(pause_ns);
        let mut yields = 0;
        while self.clock.monotonic_ns() < end && yields < PAUSE_YIELDS_MAX {
            match way {
                Way::Now => dolmen_env::yield_now(),
                Way::Later => give_way().await,
            }
            yields += 1;
        }
    }
}

fn no_entropy(_entropy: dolmen_env::Error) -> Error {
    Error::Io { target: TargetNo(0), errno: ERRNO_IO }
}

/// An answer of another kind than the question's: the other side speaks another protocol.
pub(crate) fn unexpected() -> Error {
    Error::Io { target: TargetNo(0), errno: ERRNO_PROTOCOL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mutation_is_the_first_that_has_not_ended() {
        let mut drawn = Drawn { oldest: 1, has_ended: VecDeque::new() };
        let all: Vec<u64> = (0..10_000).map(|_| drawn.draw()).collect();
        assert_eq!((all[0], all[9999]), (1, 10_000));
        assert!(all[1..].iter().all(|&sequence| drawn.end(sequence) == 1), "the first is stuck");
        assert_eq!(drawn.end(1), 10_001);
        assert_eq!((drawn.draw(), drawn.has_ended.len()), (10_001, 1));
    }

    #[test]
    fn a_newer_map_packs_to_a_larger_number() {
        let old = MapView { version: 7, target_count: 900 };
        let new = MapView { version: 8, target_count: 3 };
        assert!(new.pack() > old.pack());
        assert_eq!((MapView::unpack(old.pack()), MapView::unpack(new.pack())), (old, new));
    }
}
