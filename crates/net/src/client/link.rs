//! A connection to one engine that all threads of a process share.
//!
//! Whoever waits drives it for all: it looks for replies, and gives each to whom it belongs. There is no thread. What is
//! not answered when the connection ends is sent again over a new one, in order, under the same ids.
//!
//! Invariants: the lock is held while frames are written or taken in, and not for longer than a moment while a peer takes
//! nothing; at most one thread waits for the socket, the others for that thread; who takes something in meanwhile that this
//! thread would have been woken by rings its bell; at most one connects anew. A forked child takes no lock that a thread of its
//! parent may have held.

mod again;
mod anew;
mod answers;
mod bell;
mod crowd;
mod ends;
mod given;
mod land;
mod later;
mod leases;
mod silence;
mod together;
mod turns;

use super::follow::Follower;
use super::pending::{Decoded, Finished, Opens, Pending, Progress, Requests, Waiter, Wanted};
use super::pools::Pools;
use super::reopen::Reopening;
use super::session::{Attached, Handles, NO_SLOT, Session, connect, deadline_after};
use super::starter::Starter;
use super::{LinkOptions, PoolRef};
use crate::aside::Aside;
use crate::error::{Error as NetError, Result as NetResult};
use crate::input::Replies;
use crate::output::Output;
use crate::slots::Slots;
use crate::spin::{Next, Spin};
use crate::terms::Terms;
use anew::Coming;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::verb::Verb;
use dolmen_codec::wire::{
    Caller, FetchPlan, PoolSlot, SystemReply, SystemVerb, Welcome, encode_request, encode_system_request,
};
use dolmen_codec::{Answer, Ask, Lease, Outcome, QueueId, Request};
use dolmen_env::{Address, Bell, Clock, ForkMark, RealClock, Rng, Socket};
use dolmen_types::{Epoch, Error, Head, Invalid, IoBuf, RequestId, Result, crc32c_append};
use given::{Reached, closed};
use land::land;
use leases::Leases;
pub use leases::Pushes;
use silence::Silence;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
pub(super) use together::UNDER_WAY_MAX;
use turns::Turns;

/// Queues of one process at one engine: one for each thread of a large node.
const QUEUES_MAX: usize = 4096;

/// Requests of one process under way at one engine: what the daemon takes from one connection, and as many again that wait.
const REQUESTS_MAX: usize = 65_536;

/// The longest sleep without a look at deadlines.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// How long a frame waits for room while the lock is held; what is left of it then waits in memory.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// The longest that a caller takes to look whether an engine is back that was given up.
const LOOK_RECONNECT_NS: u64 = 1_000_000_000;

/// Between two searches for requests of a queue whose time is over.
const OVERDUE_LOOK_NS: u64 = 10_000_000;

/// A connection; a cheap handle, `Send` and `Sync`.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

/// A connection that others may have given up.
#[derive(Clone)]
pub(super) struct Weak {
    inner: std::sync::Weak<Inner>,
}

impl Weak {
    pub(super) fn upgrade(&self) -> Option<Link> {
        Some(Link { inner: self.inner.upgrade()? })
    }
}

struct Inner {
    rank: u32,
    address: Address,
    options: LinkOptions,
    /// Starts the engine's daemon where nobody listens, if it is one that is started so.
    starter: OnceLock<Arc<Starter>>,
    /// Finds it where it was moved, if it was reached by a name.
    follower: OnceLock<Arc<Follower>>,
    mark: ForkMark,
    /// Whose the changes are that the daemon is asked for: nobody else has these numbers.
    client: u128,
    /// The newest epoch that other engines have answered with.
    seen: Arc<AtomicU64>,
    /// Guards everything that is said and heard. Taken alone.
    state: Turns<State>,
    /// Called when the thread that waits for the socket has woken, or has connected anew.
    woken: Condvar,
    /// Guards what a forked child was refused; nobody else takes it.
    refused: Mutex<Vec<(usize, Outcome)>>,
}

pub(super) struct State {
    rank: u32,
    seen: Arc<AtomicU64>,
    session: Option<Session>,
    replies: Replies,
    decoded: Option<Decoded>,
    requests: Requests,
    queues: Slots<Queue>,
    pub(super) pools: Pools,
    scratch: Vec<u8>,
    spin: Spin,
    aside: Aside,
    /// The rest of a frame that the peer has had no room for; nothing else is sent before it.
    output: Output,
    /// Whether the stream has gathered bytes that the peer has had no room for.
    must_flush: bool,
    /// Whether requests of queues wait to be sent.
    has_unsent: bool,
    /// Whether a connection is made, by a thread that waits for it or in steps.
    is_connecting: bool,
    /// Since when.
    connecting_ns: u64,
    /// The one that is made in steps.
    coming: Option<Coming>,
    is_driven: bool,
    /// Wakes the thread that waits for the socket; from the first one that does.
    bell: Option<Arc<Bell>>,
    is_rung: bool,
    sleepers: usize,
    /// When overdue requests were last looked for.
    looked_ns: u64,
    /// Whether a pool could not be opened on this connection.
    has_refused: bool,
    /// How many changes the daemon was asked for.
    changes: u64,
    /// When the last connection was found to have ended.
    lost_ns: u64,
    /// When the last attempt to connect anew failed, and how long it took.
    failed: (u64, u64),
    /// Which run of the engine the last connection led to.
    instance: u128,
    /// Nobody connects anew before.
    again_ns: u64,
    /// Answers that have come.
    heard: u64,
    /// Told what errors of requests do not say.
    note: fn(&str),
    /// The engine takes connections and does not answer.
    silence: Option<Silence>,
    leases: Leases,
}

#[derive(Default)]
struct Queue {
    done: Vec<Outcome>,
    /// Of answers that came with one, by their tokens.
    leases: Vec<(u64, Lease)>,
    under_way: usize,
    is_closed: bool,
}

type Guard<'s> = MutexGuard<'s, State>;

impl Link {
    /// Connects to the engine at `address`.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn connect(address: &Address, options: &LinkOptions) -> NetResult<Self> {
        let options = named(options)?;
        let session = connect(address, &options, deadline_after(options.connect_timeout))?;
        Self::new(address, options, session)
    }

    fn new(address: &Address, options: LinkOptions, session: Session) -> NetResult<Self> {
        let rank = session.welcome.rank;
        let seen = Arc::<AtomicU64>::default();
        let state = State {
            rank,
            seen: Arc::clone(&seen),
            instance: session.welcome.instance,
            again_ns: 0,
            replies: Replies::new(session.terms()),
            session: Some(session),
            decoded: None,
            requests: Requests::default(),
            queues: Slots::default(),
            pools: Pools::default(),
            scratch: Vec::new(),
            spin: Spin::new(),
            aside: Aside::default(),
            output: Output::default(),
            must_flush: false,
            has_unsent: false,
            is_connecting: false,
            connecting_ns: 0,
            coming: None,
            is_driven: false,
            bell: None,
            is_rung: false,
            sleepers: 0,
            looked_ns: 0,
            has_refused: false,
            changes: 0,
            lost_ns: 0,
            failed: (0, 0),
            heard: 0,
            note: options.note,
            silence: None,
            leases: Leases::new(options.watches),
        };
        let inner = Inner {
            rank,
            address: address.clone(),
            options,
            starter: OnceLock::new(),
            follower: OnceLock::new(),
            mark: ForkMark::new()?,
            client: Rng::from_entropy()?.next_u128(),
            seen,
            state: Turns::new(state),
            woken: Condvar::new(),
            refused: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(super) fn downgrade(&self) -> Weak {
        Weak { inner: Arc::downgrade(&self.inner) }
    }

    /// The engine's number in its system.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// Whom the own certificate names, where one is shown: access control lists know this process by that name.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn own_identity(&self) -> crate::Result<Option<crate::tls::Identity>> {
        let (address, options) = self.way();
        Ok(options.certs.certs(address)?.map(|certs| certs.identity().clone()))
    }

    /// Where the engine is, and how the connection was made.
    pub(super) fn way(&self) -> (&Address, &LinkOptions) {
        (&self.inner.address, &self.inner.options)
    }

    /// From now on a daemon is started where nobody listens when the connection is made anew.
    pub(super) fn start_by(&self, starter: &Arc<Starter>) {
        // The first is as good as this one.
        let _first = self.inner.starter.get_or_init(|| Arc::clone(starter));
    }

    /// From now on it is looked for where it was moved when the connection is made anew and nobody listens.
    pub(super) fn follow_by(&self, follower: Follower) {
        // The first is as good as this one.
        let _first = self.inner.follower.get_or_init(|| Arc::new(follower));
    }

    /// Where it was moved since it was reached, if it was.
    pub(super) fn moved(&self) -> Option<Address> {
        self.inner.follower.get()?.moved()
    }

    /// What the engine is told that its clients have seen elsewhere.
    pub(super) fn seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.inner.seen)
    }

    /// Whether a queue waits for answers.
    pub(super) fn has_under_way(&self, queue: QueueId) -> bool {
        self.look(|state| state.queues.of(queue.0 as usize).is_some_and(|open| open.under_way > 0))
            .unwrap_or(false)
    }

    /// Whether this process is a forked child of the one that connected: then nothing can be asked.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.inner.mark.is_forked()
    }

    /// Whether it goes through shared memory.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.look(|state| state.session.as_ref().is_some_and(|session| session.stream.is_ring()))
            .unwrap_or(false)
    }

    /// What the daemon has said of itself.
    #[must_use]
    pub fn welcome(&self) -> Option<dolmen_codec::wire::Welcome> {
        self.look(|state| state.session.as_ref().map(|session| session.welcome.clone()))?
    }

    /// Asks the daemon. A pool that it opens is left at once, and none is left that a [`Door`](super::Door) leads to.
    ///
    /// # Errors
    /// Its own; `Unreachable`; `Invalid` for a number of a pool.
    pub fn ask_system(&self, head: &Head, verb: &SystemVerb) -> Result<SystemReply> {
        self.inner.ask_system(head, verb, Opens::of(head, verb)).map(|reached| self.reply_of(reached))
    }

    /// Looks at the state; not in a forked child.
    fn look<T>(&self, body: impl FnOnce(&mut State) -> T) -> Option<T> {
        (!self.is_forked()).then(|| body(&mut self.inner.lock()))
    }

    /// Asks a pool and waits for the answer. Handles that it gives are opened again with the next connection; those that it
    /// takes or ends are not.
    pub(super) fn call(&self, pool: PoolRef, request: Request<'_>) -> Outcome {
        self.inner.call(pool, Handles::of(&request.ask), request)
    }

    pub(super) fn open_queue(&self) -> Result<QueueId> {
        let opened = self
            .look(|state| (state.queues.len() < QUEUES_MAX).then(|| state.queues.insert(Queue::default())));
        let at = opened.ok_or_else(|| self.inner.unreachable())?.ok_or(Error::Busy)?;
        Ok(QueueId(u32::try_from(at).expect("limited by QUEUES_MAX")))
    }

    pub(super) fn close_queue(&self, queue: QueueId) {
        self.look(|state| {
            let at = queue.0 as usize;
            let Some(open) = state.queues.of_mut(at) else { return };
            open.done.clear();
            open.is_closed = true;
            if open.under_way == 0 {
                state.queues.remove(at);
            }
        });
    }

    pub(super) fn submit(&self, pool: PoolRef, queue: QueueId, request: Request<'static>) {
        self.inner.submit(pool, queue.0 as usize, request, false);
    }

    pub(super) fn flush(&self) -> bool {
        self.inner.flush()
    }

    pub(super) fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.inner.poll(queue.0 as usize, wait, out);
    }

    /// Whether there is a connection, or one is being made.
    pub(super) fn is_up(&self) -> bool {
        self.look(|state| state.session.is_some() || state.is_connecting).unwrap_or(false)
    }

    /// Looks at what is known of a pool.
    pub(super) fn with_pool<T>(&self, pool: PoolRef, body: impl FnOnce(&mut Attached) -> T) -> Option<T> {
        self.look(|state| state.pools.of_mut(pool).map(body))?
    }
}

impl Inner {
    fn lock(&self) -> Guard<'_> {
        self.state.lock()
    }

    fn unreachable(&self) -> Error {
        Error::Unreachable { rank: self.rank }
    }

    fn deadline(&self, head: &Head) -> u64 {
        let now_ns = RealClock.monotonic_ns();
        let patience_ns = u64::try_from(self.options.patience.as_nanos()).unwrap_or(u64::MAX);
        let mut wait_ns = patience_ns;
        if head.deadline_ns != 0 {
            wait_ns = wait_ns.min(head.deadline_ns.saturating_sub(RealClock.now_ns()));
        }
        now_ns.saturating_add(wait_ns)
    }

    fn call(&self, pool: PoolRef, handles: Handles, request: Request<'_>) -> Outcome {
        self.call_wanting(pool, handles, request, Wanted::No).0
    }

    fn call_wanting(
        &self,
        pool: PoolRef,
        handles: Handles,
        mut request: Request<'_>,
        wanted: Wanted,
    ) -> (Outcome, Option<Lease>) {
        if self.mark.is_forked() {
            return (request.refused(self.unreachable()), None);
        }
        let deadline_ns = self.deadline(&request.head);
        let mut state = self.lock();
        if handles != Handles::Same && state.requests.len() >= REQUESTS_MAX {
            return (request.refused(Error::Busy), None);
        }
        if let (Handles::Evicts(cont), Some(attached)) = (handles, state.pools.of_mut(pool)) {
            attached.evicts(cont);
        }
        let plan = plan_of(&request.ask);
        let id = state.requests.begin(Waiter::Caller(pool, handles), plan, None, deadline_ns);
        state.requests.of_mut(id).expect("begun above").lease = wanted;
        let mut has_come_back = false;
        let given_up = loop {
            if let Handles::Closes(cont) = handles {
                if state.session.is_none() && !core::mem::replace(&mut has_come_back, true) {
                    state.requests.of_mut(id).expect("only its caller ends it").is_late = true;
                    state = self.come_back(state);
                }
                if state.session.is_none() {
                    state.closes_without(id, pool, cont);
                }
                if state.has_ended_with(pool) {
                    state.finish(id, closed());
                }
            }
            if state.caller_is_done(id) == Some(true) {
                break None;
            }
            let sent;
            (state, sent) = self.send(state, id, pool, &mut request);
            if let Err(error) = sent {
                break Some(error);
            }
            let (again, done) = self.wait(state, deadline_ns, |state| state.caller_is_done(id));
            state = again;
            match done {
                Some(true) => break None,
                Some(false) => {}
                None => {
                    state.note_silence(id, &request.head);
                    break Some(self.unreachable());
                }
            }
        };
        self.ended(&mut state, id, request, given_up)
    }

    /// Asks the daemon; for a pool, if it is known how that is opened again.
    fn ask_system(&self, head: &Head, verb: &SystemVerb, opens: Option<Box<Opens>>) -> Result<Reached> {
        if self.mark.is_forked() {
            return Err(self.unreachable());
        }
        let deadline_ns = self.deadline(head);
        let mut state = self.lock();
        let (id, head) = &self.begin_system(&mut state, *head, verb, opens)?;
        let done = loop {
            let whole;
            (state, whole) = self.whole(state, deadline_ns);
            if let Err(error) = whole.and_then(|()| state.send_system(*id, head, verb)) {
                break Err(error);
            }
            let (again, done) = self.wait(state, deadline_ns, |state| state.caller_is_done(*id));
            state = again;
            match done {
                Some(true) => break Ok(()),
                Some(false) => {}
                None => {
                    state.note_silence(*id, head);
                    break Err(self.unreachable());
                }
            }
        };
        if let Err(error) = done {
            state.give_up(*id);
            return Err(error);
        }
        let pending = state.requests.end(*id).expect("only its caller ends it");
        self.answer_of(pending)
    }

    /// Takes note of a question to the daemon, which is to be sent under this head.
    fn begin_system(
        &self,
        state: &mut State,
        head: Head,
        verb: &SystemVerb,
        opens: Option<Box<Opens>>,
    ) -> Result<(u64, Head)> {
        // The number is of one connection, and this may be another.
        if matches!(verb, SystemVerb::PoolDisconnect { .. }) {
            return Err(Invalid::Argument.into());
        }
        if opens.is_some() && state.requests.len() >= REQUESTS_MAX {
            return Err(Error::Busy);
        }
        let head = self.numbered(state, head, verb);
        Ok((state.requests.begin(Waiter::System(opens), None, None, self.deadline(&head)), head))
    }

    /// What a question to the daemon is answered with.
    fn answer_of(&self, pending: Pending) -> Result<Reached> {
        match pending.progress {
            Progress::Done(Finished::System(result)) => result.map(Reached::Daemon),
            Progress::Done(Finished::Connected(pool, connected)) => Ok(Reached::Pool(pool, connected)),
            _ => Err(self.unreachable()),
        }
    }

    /// The head of a question to the daemon: a change has a number, by which it is known when it is sent again.
    fn numbered(&self, state: &mut State, mut head: Head, verb: &SystemVerb) -> Head {
        if head.id.sequence == 0 && verb.is_change() {
            state.changes += 1;
            head.id = RequestId { client: self.client, sequence: state.changes };
        }
        head
    }

    /// Sends a request whose payload is the caller's, with the buffer that it fetches into kept by us until it is answered.
    fn send<'s>(
        &'s self,
        mut state: Guard<'s>,
        id: u64,
        pool: PoolRef,
        request: &mut Request<'_>,
    ) -> (Guard<'s>, Result<()>) {
        let pending = state.requests.of_mut(id).expect("only its caller ends it");
        if let Some(buf) = pending.buf.take() {
            put_buf(&mut request.ask, buf);
        }
        let deadline_ns = pending.deadline_ns;
        let mut whole;
        loop {
            (state, whole) = self.whole(state, deadline_ns);
            if whole.is_err() || !state.is_refused(pool) {
                break;
            }
            (state, whole) = self.open_again(state, pool, deadline_ns);
            if whole.is_err() {
                break;
            }
        }
        if state.caller_is_done(id) == Some(true) {
            return (state, Ok(()));
        }
        let sent = whole.and_then(|()| state.send(id, pool, &request.head, &request.ask));
        if sent.is_ok() {
            let buf = request.ask.take_buf();
            state.requests.of_mut(id).expect("only its caller ends it").buf = buf;
        }
        (state, sent)
    }

    /// Never waits: what cannot be sent now is sent when somebody asks for answers.
    fn submit(&self, pool: PoolRef, queue: usize, mut request: Request<'static>, wants_lease: bool) {
        let token = request.token;
        if self.mark.is_forked() {
            return self.refused().push((queue, request.refused(self.unreachable())));
        }
        let mut state = self.lock();
        let close = match &request.ask {
            Ask::Pool(PoolVerb::ContClose(cont)) => Some(*cont),
            _ => None,
        };
        let at_once = if state.is_silent() {
            Some(Err(self.unreachable()))
        } else if state.requests.len() >= REQUESTS_MAX {
            Some(Err(Error::Busy))
        } else {
            let has_ended = |cont| state.has_ended_with(pool) && !state.may_be_on_record(pool, cont);
            close.is_some_and(has_ended).then_some(Ok(Answer::Pool(PoolReply::Done)))
        };
        let Some(open) = state.queues.of_mut(queue) else { return };
        if let Some(result) = at_once {
            open.done.push(Outcome { token, result, buf: request.ask.take_buf() });
            return;
        }
        open.under_way += 1;
        let is_first = open.under_way == 1;
        if let (Ask::Pool(PoolVerb::ContEvict(cont, _)), Some(attached)) =
            (&request.ask, state.pools.of_mut(pool))
        {
            attached.evicts(*cont);
        }
        let deadline_ns = self.deadline(&request.head);
        let (plan, wanted) = (plan_of(&request.ask), Wanted::of(&request.ask, wants_lease));
        let waiter = Waiter::Queue { queue, token, pool, request: Some(Box::new(request)) };
        let id = state.requests.begin(waiter, plan, None, deadline_ns);
        state.requests.of_mut(id).expect("begun above").lease = wanted;
        if state.session.is_none() || !state.output.is_empty() {
            state.has_unsent = true;
            let is_late = close.is_some() && state.session.is_none();
            state.requests.of_mut(id).expect("begun above").is_late = is_late;
        } else if let Err(error) = state.send_queued(id) {
            state.finish(id, Finished::Pool(Err(error)));
        } else if is_first {
            state.flush();
        }
    }

    fn poll(&self, queue: usize, wait: bool, out: &mut Vec<Outcome>) {
        if self.mark.is_forked() {
            return self.poll_forked(queue, out);
        }
        let mut state = self.lock();
        state.flush();
        state.pump();
        let before = out.len();
        loop {
            state.send_unsent();
            let Some(open) = state.queues.of_mut(queue) else { return };
            out.append(&mut open.done);
            if out.len() > before || open.under_way == 0 {
                return;
            }
            if state.has_refused
                && state.session.is_some()
                && let Some(pool) = state.refused_of(queue)
            {
                let deadline_ns = state.first_deadline(queue);
                let opened;
                (state, opened) = self.open_again(state, pool, deadline_ns);
                if let Err(error) = opened {
                    state.fail_refused(pool, &error);
                } else if !wait {
                    return;
                }
                continue;
            }
            let now_ns = RealClock.monotonic_ns();
            if !wait && state.session.is_some() && now_ns - state.looked_ns < OVERDUE_LOOK_NS {
                return self.give_way(state, now_ns);
            }
            state.looked_ns = now_ns;
            if !wait {
                state.look_for_end();
            }
            let deadline_ns = state.first_deadline(queue);
            if now_ns >= deadline_ns {
                state.fail_overdue(now_ns, &self.unreachable());
                continue;
            }
            if !wait {
                if self.look_anew(&mut state) {
                    return;
                }
                state.fail_overdue(u64::MAX, &self.unreachable());
                continue;
            }
            if self.is_given_up(&state) {
                let is_coming;
                (state, is_coming) = self.probe(state);
                if state.session.is_none() && !is_coming {
                    state.fail_overdue(u64::MAX, &self.unreachable());
                }
            } else if state.session.is_none() {
                state = self.reconnect(state, deadline_ns);
            } else {
                (state, _) =
                    self.wait(state, deadline_ns, |state| state.queue_is_done(queue).then_some(true));
            }
        }
    }

    /// What a queue gives in a forked child: whatever was under way there, the child has no part in it.
    fn poll_forked(&self, queue: usize, out: &mut Vec<Outcome>) {
        let mut refused = self.refused();
        out.extend(refused.extract_if(.., |(of, _)| *of == queue).map(|(_, outcome)| outcome));
        drop(refused);
        // A thread of the parent may have held it when the child was made: then nobody will let it go.
        if let Some(mut state) = self.state.try_lock() {
            state.fail_all_unsaid(&self.unreachable());
            if let Some(open) = state.queues.of_mut(queue) {
                out.append(&mut open.done);
            }
        }
    }

    fn refused(&self) -> MutexGuard<'_, Vec<(usize, Outcome)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees that there is a connection, made anew if the last one has ended, with room for a frame; everything that queues
    /// wait for is sent again before.
    ///
    /// # Errors
    /// `Unreachable` once it has taken too long.
    fn whole<'s>(&'s self, mut state: Guard<'s>, deadline_ns: u64) -> (Guard<'s>, Result<()>) {
        loop {
            if state.is_silent() {
                let answers;
                (state, answers) = self.listen(state);
                if !answers {
                    return (state, Err(self.unreachable()));
                }
            }
            // What was asked before and had no room goes first.
            if state.has_unsent {
                state.send_unsent();
            }
            if state.session.is_some() && state.output.is_empty() {
                return (state, Ok(()));
            }
            if RealClock.monotonic_ns() >= deadline_ns {
                return (state, Err(self.unreachable()));
            }
            if self.is_given_up(&state) {
                let is_coming;
                (state, is_coming) = self.probe(state);
                if state.session.is_none() && !is_coming {
                    return (state, Err(self.unreachable()));
                }
            } else if state.session.is_none() {
                state = self.reconnect(state, deadline_ns);
            } else {
                let has_room = |state: &mut State| state.output.is_empty().then_some(true);
                (state, _) = self.wait_taking(state, deadline_ns, 0, has_room);
            }
        }
    }

    /// Drives the connection until an answer has come, as `is_done` says, or time is over.
    fn wait<'s>(
        &'s self,
        state: Guard<'s>,
        deadline_ns: u64,
        is_done: impl FnMut(&mut State) -> Option<bool>,
    ) -> (Guard<'s>, Option<bool>) {
        self.wait_taking(state, deadline_ns, 1, is_done)
    }

    /// The same for anything else, of which so many frames that make `is_done` say something are nobody's but the caller's.
    fn wait_taking<'s>(
        &'s self,
        mut state: Guard<'s>,
        deadline_ns: u64,
        own: usize,
        mut is_done: impl FnMut(&mut State) -> Option<bool>,
    ) -> (Guard<'s>, Option<bool>) {
        state.flush();
        state.spin.moved();
        loop {
            // Others may have taken it in: what comes now is not the own.
            let mut done = is_done(&mut state);
            if done.is_none() {
                let frames = state.take_in();
                state.send_unsent();
                done = is_done(&mut state);
                state.tell_driver(frames > if done.is_some() { own } else { 0 });
            }
            if let Some(done) = done {
                return (state, Some(done));
            }
            if state.session.is_none() {
                // Whoever waits sends its own again.
                return (state, Some(false));
            }
            state.make_way();
            match state.spin.next() {
                Next::Look => {
                    let sleep = state.sleepers > 0;
                    state = self.state.give_way(state, sleep);
                    continue;
                }
                Next::GiveWay { now_ns } => {
                    state = self.after_others(state, now_ns);
                    continue;
                }
                Next::Sleep => {}
            }
            let now_ns = RealClock.monotonic_ns();
            if now_ns >= deadline_ns {
                return (state, None);
            }
            let left = Duration::from_nanos(deadline_ns - now_ns);
            let longest = state.sleep_max();
            state = self.sleep(state, left.min(longest));
        }
    }
}

impl State {
    /// Nobody has a deadline who has asked nothing: he sleeps until he is called, if he can be.
    fn sleep_max(&self) -> Duration {
        if self.requests.len() == 0 && self.bell.is_some() { Duration::MAX } else { SLEEP_MAX }
    }

    fn caller_is_done(&mut self, id: u64) -> Option<bool> {
        match self.requests.of_mut(id)?.progress {
            Progress::Done(_) => Some(true),
            Progress::Unsent => Some(false),
            Progress::Sent => None,
        }
    }

    fn queue_is_done(&self, queue: usize) -> bool {
        self.queues.of(queue).is_none_or(|open| !open.done.is_empty() || open.under_way == 0)
    }

    /// Whether the engine knows what it is asked; one that does not would close the connection.
    ///
    /// # Errors
    /// `Invalid::Argument`.
    #[inline]
    fn check_known(&self, ask: &Ask<'_>) -> Result<()> {
        match (ask, &self.session) {
            (Ask::Pool(verb), Some(session)) if !session.welcome.knows_verb(verb) => {
                Err(Invalid::Argument.into())
            }
            _ => Ok(()),
        }
    }

    /// Writes the frame of a request.
    fn send(&mut self, id: u64, pool: PoolRef, head: &Head, ask: &Ask<'_>) -> Result<()> {
        let slot = self.slot_of(pool).unwrap_or(NO_SLOT);
        let seen = Epoch(self.seen.load(Ordering::Relaxed));
        let Terms { version, sums_requests, .. } = self.terms();
        self.check_known(ask)?;
        let wants_lease = self.wants_lease(id);
        let push_acked = self.leases.handled();
        let welcome = self.session.as_ref().map(|session| &session.welcome);
        let caller = Caller {
            version,
            token: id,
            head: *head,
            pool: slot,
            seen,
            push_acked,
            wants_lease,
            names_charged: welcome.is_some_and(Welcome::knows_charged),
            tells_ends: welcome.is_some_and(Welcome::knows_ends),
        };
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let encoded = encode_request(&mut scratch, &caller, ask);
        let written = encoded.map(|parts| {
            self.write(&scratch);
            if sums_requests {
                self.write_summed(&parts)
            } else {
                parts.iter().for_each(|part| self.write(part))
            }
        });
        self.scratch = scratch;
        written?;
        if let (Ask::Pool(PoolVerb::Lock(cont, ask)), Some(attached)) = (ask, self.pools.of_mut(pool)) {
            attached.note_holder(*cont, ask);
        }
        self.leases.has_acked(push_acked);
        self.note_sent(id);
        Ok(())
    }

    /// A frame was written; the connection may have ended under it, and the request with that.
    fn note_sent(&mut self, id: u64) {
        let is_sent = self.session.is_some();
        if let Some(pending) = self.requests.of_mut(id)
            && matches!(pending.progress, Progress::Unsent)
        {
            pending.sends += 1;
            pending.heard = self.heard;
            pending.progress = if is_sent { Progress::Sent } else { Progress::Unsent };
        }
    }

    /// Sends what queues wait for and could not be sent before.
    fn send_unsent(&mut self) {
        if self.leases.has_news() {
            self.send_news();
        }
        if !self.has_unsent || self.session.is_none() || !self.output.is_empty() {
            return;
        }
        self.has_unsent = false;
        for id in self.requests.unanswered() {
            if self.session.is_none() || !self.output.is_empty() {
                self.has_unsent = true;
                return;
            }
            if let Err(error) = self.send_queued(id) {
                self.finish(id, Finished::Pool(Err(error)));
            }
        }
        self.flush();
    }

    fn send_queued(&mut self, id: u64) -> Result<()> {
        let unsent = self.requests.of_mut(id).filter(|pending| matches!(pending.progress, Progress::Unsent));
        let Some(pending) = unsent else { return Ok(()) };
        let pool = match &pending.waiter {
            Waiter::Queue { pool, .. } => *pool,
            Waiter::Farewell(_) => return self.send_farewell(id),
            _ => return Ok(()),
        };
        if self.is_refused(pool) {
            return Ok(());
        }
        let pending = self.requests.of_mut(id).expect("looked at above");
        let Waiter::Queue { request, .. } = &mut pending.waiter else { return Ok(()) };
        let mut request = request.take().expect("a queued request keeps its question");
        if let Some(buf) = pending.buf.take() {
            put_buf(&mut request.ask, buf);
        }
        let sent = self.send(id, pool, &request.head, &request.ask);
        // With the connection it may have ended, too.
        let Some(pending) = self.requests.of_mut(id) else { return Ok(()) };
        pending.buf = request.ask.take_buf();
        if let Waiter::Queue { request: kept, .. } = &mut pending.waiter {
            *kept = Some(request);
        }
        sent
    }

    fn send_system(&mut self, id: u64, head: &Head, verb: &SystemVerb) -> Result<()> {
        let caller = Caller {
            version: self.terms().version,
            token: id,
            head: *head,
            pool: PoolSlot::SYSTEM,
            seen: Epoch::ZERO,
            push_acked: 0,
            wants_lease: false,
            names_charged: false,
            tells_ends: false,
        };
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let encoded = encode_system_request(&mut scratch, &caller, verb);
        if encoded.is_ok() {
            self.write(&scratch);
        }
        self.scratch = scratch;
        encoded?;
        self.note_sent(id);
        Ok(())
    }

    /// What holds for the frames of the present connection; without one they are written nowhere.
    fn terms(&self) -> Terms {
        self.session.as_ref().map_or_else(Terms::default, Session::terms)
    }

    /// Writes a payload and its checksum: each piece is summed on its way into the cache, and written from there.
    fn write_summed(&mut self, parts: &[&[u8]]) {
        let piece_bytes = self.session.as_ref().map_or(usize::MAX, |session| session.stream.piece_bytes());
        let mut sum = 0;
        let mut pieces = parts.iter().flat_map(|part| part.chunks(piece_bytes)).peekable();
        while let Some(piece) = pieces.next() {
            sum = crc32c_append(sum, piece);
            if pieces.peek().is_some() {
                self.write(piece);
            } else {
                self.write_with_tail(piece, &sum.to_le_bytes());
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_with_tail(bytes, &[]);
    }

    /// Writes `bytes` and `tail` behind them, taking replies in while there is no room. What the peer takes too slowly is
    /// kept for later.
    fn write_with_tail(&mut self, bytes: &[u8], tail: &[u8]) {
        let (mut at, mut end_ns) = (0, 0);
        let rest = |at: usize| (&bytes[at.min(bytes.len())..], &tail[at.saturating_sub(bytes.len())..]);
        while at < bytes.len() + tail.len() && self.output.is_empty() {
            let Some(session) = &mut self.session else { return };
            let (bytes, tail) = rest(at);
            match session.stream.write_with_tail(bytes, tail) {
                Ok(0) if self.make_room(&mut end_ns) => {}
                Ok(0) => break,
                Ok(len) => (at, end_ns) = (at + len, 0),
                Err(error) => return self.broken(&error),
            }
        }
        let (bytes, tail) = rest(at);
        for left in [bytes, tail] {
            let Some(session) = self.session.as_mut().filter(|_| !left.is_empty()) else { continue };
            if let Err(error) = self.output.put(&mut session.stream, left) {
                return self.broken(&error);
            }
        }
    }

    /// Waits a moment for room; whether to go on. `end_ns` is when to stop, once that is known.
    fn make_room(&mut self, end_ns: &mut u64) -> bool {
        self.pump();
        let Some(session) = &mut self.session else { return false };
        if self.spin.again() {
            return true;
        }
        let now_ns = RealClock.monotonic_ns();
        if *end_ns == 0 {
            *end_ns = deadline_after(ROOM_WAIT);
        }
        let left = Duration::from_nanos(end_ns.saturating_sub(now_ns));
        if let Err(error) = session.stream.wait(true, Some(left)) {
            self.broken(&error);
        }
        // Its calls may have been for the one who waits for the socket.
        self.ring();
        now_ns < *end_ns
    }

    /// Sends what was gathered; what there is no room for goes out with the next look.
    fn flush(&mut self) {
        let Some(session) = &mut self.session else { return };
        let kept = if self.output.is_empty() { Ok(true) } else { self.output.go_on(&mut session.stream) };
        match kept.and_then(|_| session.stream.flush()) {
            Ok(is_sent) => self.must_flush = !is_sent,
            Err(error) => self.broken(&error),
        }
    }

    /// Goes where the engine is not, if both run on one processor and others want to run, too.
    #[inline]
    fn make_way(&mut self) {
        if self.spin.is_crowded()
            && let Some(session) = &self.session
        {
            self.aside.step(session.stream.peer_cpu(), self.spin.strangers());
        }
    }

    fn waits_for_room(&self) -> bool {
        self.must_flush || !self.output.is_empty()
    }

    /// Takes in what has come.
    fn pump(&mut self) {
        let answers = self.take_in();
        self.tell_driver(answers > 0);
    }

    /// The same, for who says himself that there were some for others; how many frames it was.
    fn take_in(&mut self) -> usize {
        if self.waits_for_room() {
            self.flush();
        }
        let mut count = 0;
        loop {
            let Some(session) = &mut self.session else { return count };
            let (requests, decoded) = (&mut self.requests, &mut self.decoded);
            let next =
                self.replies.next(&mut session.stream, |header, body| land(requests, decoded, header, body));
            match next {
                Ok(None) => return count,
                Ok(Some((header, buf))) => self.settle(&header, buf),
                Err(error) => {
                    self.broken(&error);
                    return count;
                }
            }
            count += 1;
        }
    }

    /// The connection is of no use any more: what was sent is to be sent again.
    fn broken(&mut self, error: &NetError) {
        // Before the engine hears of the end.
        self.leases.end_all();
        if self.session.take().is_some() {
            self.lost_ns = RealClock.monotonic_ns();
        }
        self.decoded = None;
        self.end_silence();
        self.output = Output::default();
        self.must_flush = false;
        self.has_unsent = true;
        if let Some((token, buf)) = self.replies.give_up()
            && let Some(pending) = self.requests.of_mut(token)
            && pending.plan.is_some()
        {
            pending.buf = Some(buf);
        }
        self.end_given();
        let mut most = 0;
        for id in self.requests.unanswered() {
            let pending = self.requests.of_mut(id).expect("just listed");
            if matches!(pending.progress, Progress::Sent) {
                pending.progress = Progress::Unsent;
                pending.ends += 1;
                most = most.max(pending.ends);
            }
            if let (Some(plan), Some(buf)) = (&pending.plan, &mut pending.buf) {
                pending.gathered.give_up(plan, buf);
            }
        }
        self.rest_after(most, error);
    }

    /// Goes on with a new connection on which `pools` are open. What was left meanwhile is given back.
    fn renew(&mut self, mut session: Session, pools: Vec<Reopening>) {
        self.note_run(session.welcome.instance);
        let none = Replies::new(session.terms());
        self.replies = core::mem::replace(&mut session.replies, none);
        self.session = Some(session);
        for Reopening { pool, attached: Attached { slot, refused, head, .. }, token, stage } in pools {
            match (self.pools.of_mut(pool), slot) {
                (Some(known), _) => (known.slot, known.refused) = (slot, refused),
                (None, Some(slot)) => drop(self.give_back(slot, head)),
                (None, None) => {}
            }
            self.end_reopening(token, stage);
        }
        self.note_refused();
        self.end_closes(|attached| attached.slot.is_none());
        self.has_unsent = true;
        self.send_unsent();
    }

    fn rest(&mut self) -> Option<Arc<Socket>> {
        let for_room = self.waits_for_room();
        let session = self.session.as_mut()?;
        match session.stream.rest(true, for_room) {
            Ok(false) => Some(session.stream.shared_socket()),
            Ok(true) => None,
            Err(error) => {
                self.broken(&error);
                None
            }
        }
    }

    fn wake(&mut self) {
        if let Some(session) = &mut self.session
            && let Err(error) = session.stream.wake()
        {
            self.broken(&error);
        }
    }

    /// Looks whether the connection has ended, which rings do not tell: for whoever polls without ever waiting.
    fn look_for_end(&mut self) {
        if !self.is_driven {
            self.wake();
            self.pump();
        }
    }

    fn first_deadline(&mut self, queue: usize) -> u64 {
        let waits = |pending: &Pending| {
            matches!(pending.waiter, Waiter::Queue { queue: of, .. } if of == queue)
                .then_some(pending.deadline_ns)
        };
        self.requests.iter().filter_map(waits).min().unwrap_or(u64::MAX)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.leases.end_all();
        if self.mark.is_forked() {
            // Its memory is mapped in the parent alone: what is at that address here is somebody else's.
            core::mem::forget((state.session.take(), state.coming.take()));
        }
    }
}

/// With a name that no other process has, if there is none yet.
pub(super) fn named(options: &LinkOptions) -> NetResult<LinkOptions> {
    let mut options = options.clone();
    if options.client == 0 {
        options.client = Rng::from_entropy()?.next_u128();
    }
    Ok(options)
}

fn plan_of(ask: &Ask<'_>) -> Option<FetchPlan> {
    match ask {
        Ask::Target(_, _, Verb::Fetch(fetch)) => Some(FetchPlan::of(fetch)),
        _ => None,
    }
}

fn put_buf(ask: &mut Ask<'_>, buf: IoBuf) {
    if let Ask::Target(_, _, Verb::Fetch(fetch)) = ask {
        fetch.buf = buf;
    }
}
