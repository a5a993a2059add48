//! Asynchronous operations: events, and the queues on which they complete.
//!
//! Nothing runs by itself: operations go on when somebody polls, tests or waits, and callbacks run in that
//! thread. An event belongs to one thread at a time, a queue to many.
//!
//! An operation that cannot be one request (in a transaction, over several shards) is carried out when it is
//! launched; [`Event::run`] does that for anything. A stale map is fetched anew and returned as an error: the
//! payload went with the request.
//!
//! Invariants: the lock of a queue is not held while the transport is driven or a callback runs.

mod state;

use crate::at::At;
use crate::client::{Core, unexpected};
use crate::object::{Fetched, Object};
use crate::pool::Pool;
use crate::split;
use dolmen_codec::verb::{Fetch, FetchIod, Found, ListedExtent, PackedKeys, Reply, Update, UpdateIod, Verb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request};
use dolmen_types::{Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, RequestId, Result};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use state::EventId;
use state::Slots;

/// What an operation gives.
#[derive(Debug)]
pub enum Output {
    /// Nothing but its success; also that of a parent of events.
    Done,
    /// A write's epoch.
    Written(Epoch),
    /// What was found, by iod; the bytes are in the event's buffer.
    Fetched(Fetched),
    /// Keys, and where to go on.
    Keys(PackedKeys, Anchor),
    /// Extents, and where to go on.
    Extents(Vec<ListedExtent>, Anchor),
    /// The answer to a key query.
    Found(Option<Found>),
}

/// How long to wait for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all; one pass over what is under way.
    No,
    /// For so many nanoseconds.
    For(u64),
    /// Until an event completes, unless none is under way.
    Forever,
}

/// Run at completion with the operation's error, if it has one; its own error becomes the event's when the
/// operation succeeded.
pub type Callback = Box<dyn FnOnce(Option<&Error>) -> Result<()> + Send>;

/// A queue on which events complete; a cheap handle, `Send` and `Sync`.
#[derive(Clone)]
pub struct EventQueue {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    queue: QueueId,
    /// Guards the events; taken alone.
    slots: Mutex<Slots>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.transport().close_queue(self.queue);
    }
}

impl EventQueue {
    /// Opens a queue. It is closed with its last handle and event.
    ///
    /// # Errors
    /// `Busy` above the transport's limit of queues.
    pub fn new(pool: &Pool) -> Result<Self> {
        let core = Arc::clone(pool.core());
        let queue = core.transport().open_queue()?;
        Ok(Self { inner: Arc::new(Inner { core, queue, slots: Mutex::default() }) })
    }

    /// A new event, ready to be launched.
    ///
    /// # Errors
    /// `Busy` above 65,536 events.
    pub fn event(&self) -> Result<Event> {
        self.insert(None)
    }

    /// A new event under `parent`, which then completes after it. It never comes out of [`EventQueue::poll`].
    ///
    /// # Errors
    /// `NoPermission` if the parent is a child itself or under way; `NotFound` if it is of another queue.
    pub fn child(&self, parent: &Event) -> Result<Event> {
        if Arc::ptr_eq(&self.inner, &parent.inner) {
            self.insert(Some(parent.id))
        } else {
            Err(Error::NotFound)
        }
    }

    fn insert(&self, parent: Option<EventId>) -> Result<Event> {
        let id = self.inner.lock().insert(parent)?;
        Ok(Event { inner: Arc::clone(&self.inner), id })
    }

    /// Drives what is under way and appends up to `max` completed events to `out`. They are ready again; their
    /// results stay until they are taken.
    ///
    /// # Errors
    /// `Invalid::Count` if `max` is zero.
    pub fn poll(&self, wait: Wait, max: usize, out: &mut Vec<EventId>) -> Result<usize> {
        if max == 0 {
            return Err(Invalid::Count.into());
        }
        let before = out.len();
        self.inner.drive_until(wait, |slots| {
            slots.reap(max, out);
            out.len() > before || slots.running() == 0
        });
        Ok(out.len() - before)
    }

    /// Events under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.lock().running()
    }

    /// Events completed and not yet polled.
    #[must_use]
    pub fn completed(&self) -> usize {
        self.inner.lock().completed()
    }

    /// Gives this handle up; the queue is closed with the last handle or event.
    ///
    /// # Errors
    /// `Busy` if events are under way or not polled and `force` is not set.
    pub fn destroy(self, force: bool) -> Result<()> {
        let idle = self.running() == 0 && self.completed() == 0;
        if idle || force { Ok(()) } else { Err(Error::Busy) }
    }
}

impl core::fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EventQueue").field("queue", &self.inner.queue).finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        // A panic of a callback cannot leave it half changed: callbacks run without it.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives the transport until `is_enough` says so or the time is over.
    fn drive_until(&self, wait: Wait, mut is_enough: impl FnMut(&mut Slots) -> bool) {
        let end = match wait {
            Wait::No => Some(0),
            Wait::For(ns) => Some(self.core.clock().monotonic_ns().saturating_add(ns)),
            Wait::Forever => None,
        };
        if is_enough(&mut self.lock()) {
            return;
        }
        loop {
            self.drive(end.is_none());
            if is_enough(&mut self.lock()) || end.is_some_and(|end| self.core.clock().monotonic_ns() >= end) {
                return;
            }
            dolmen_env::yield_now();
        }
    }

    fn drive(&self, wait: bool) {
        let mut outcomes = Vec::new();
        self.core.transport().poll(self.queue, wait, &mut outcomes);
        for outcome in outcomes {
            self.finish(outcome);
        }
    }

    fn finish(&self, outcome: Outcome) {
        if let Err(Error::StaleMap { .. }) = outcome.result {
            // Ignored: the event has its error either way, and the next request finds out.
            let _refreshed = self.core.query();
        }
        let result = outcome.result.and_then(|answer| match answer {
            Answer::Target(Reply::Written(epoch)) => Ok(Output::Written(epoch)),
            Answer::Target(Reply::Fetched(fetched)) => Ok(Output::Fetched(fetched)),
            _ => Err(unexpected()),
        });
        self.complete(EventId::of_token(outcome.token), result, outcome.buf);
    }

    fn complete(&self, id: EventId, result: Result<Output>, buf: Option<IoBuf>) {
        let mut done = Vec::new();
        self.lock().finish(id, result, buf, &mut done);
        self.call_back(done);
    }

    fn call_back(&self, done: Vec<EventId>) {
        for id in done {
            let (callbacks, error) = self.lock().take_callbacks(id);
            for callback in callbacks {
                if let Err(error) = callback(error.as_ref()) {
                    self.lock().fail(id, error);
                }
            }
        }
    }
}

/// One asynchronous operation at a time; belongs to one thread at a time. Dropping one that is under way lets
/// its operation go on unobserved.
pub struct Event {
    inner: Arc<Inner>,
    id: EventId,
}

impl Drop for Event {
    fn drop(&mut self) {
        self.inner.lock().detach(self.id);
    }
}

impl Event {
    /// What [`EventQueue::poll`] calls it.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.id
    }

    /// Whether its operation is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.inner.lock().is_running(self.id)
    }

    /// Whether its operation has completed, after waiting as told. It is ready again then, and is not returned
    /// by [`EventQueue::poll`] any more.
    ///
    /// # Errors
    /// `NoPermission` for a child: its parent answers for it.
    pub fn test(&mut self, wait: Wait) -> Result<bool> {
        let mut tested = Ok(false);
        self.inner.drive_until(wait, |slots| {
            tested = slots.test(self.id);
            !matches!(tested, Ok(false)) || !slots.is_running(self.id)
        });
        tested
    }

    /// The result of a completed operation; `None` if there is none (any more).
    pub fn take_result(&mut self) -> Option<Result<Output>> {
        self.inner.lock().take_result(self.id)
    }

    /// The buffer of a completed fetch, also of a failed one.
    pub fn take_buf(&mut self) -> Option<IoBuf> {
        self.inner.lock().take_buf(self.id)
    }

    /// Waits for the operation and takes its result.
    ///
    /// # Errors
    /// Those of the operation; `Invalid::Argument` if none was launched; `NoPermission` for a child.
    pub fn wait(&mut self) -> Result<Output> {
        self.test(Wait::Forever)?;
        self.take_result().unwrap_or(Err(Invalid::Argument.into()))
    }

    /// Launches a parent as the group of its children: it completes with the last of them.
    ///
    /// # Errors
    /// `Invalid::Argument` without children; `NoPermission` if it is under way or a child is not launched.
    pub fn barrier(&mut self) -> Result<()> {
        let done = self.inner.lock().barrier(self.id)?;
        self.inner.call_back(done);
        Ok(())
    }

    /// Adds a callback for the completion; several run in the order they were added.
    ///
    /// # Errors
    /// `NotFound` never happens for a live event.
    pub fn on_complete(&mut self, callback: Callback) -> Result<()> {
        self.inner.lock().on_complete(self.id, callback)
    }

    /// Carries an operation out now and completes with its result.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready; the operation's own error is the event's.
    pub fn run(&mut self, operation: impl FnOnce() -> Result<Output>) -> Result<()> {
        self.inner.lock().launch(self.id, 1)?;
        self.inner.complete(self.id, operation(), None);
        Ok(())
    }

    fn submit(&self, id: RequestId, map_version: u32, ask: Ask<'static>) {
        let core = &self.inner.core;
        let request = Request { token: self.id.token(), head: core.head(id, map_version), ask };
        core.transport().submit(self.inner.queue, request);
    }
}

impl core::fmt::Debug for Event {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Event").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Object {
    /// Launches [`Object::update`]; payloads are owned by the operation. Large ones are written in several
    /// requests at a time and may carry no condition then.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready or the container is a view; `Invalid::Flags` for a condition on
    /// what takes several requests. Everything else is the event's.
    pub fn update_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: Vec<UpdateIod<'static>>,
    ) -> Result<()> {
        if self.container().write_tx(at)?.is_some() {
            return event.run(|| self.update(at, dkey, cond, &iods).map(Output::Written));
        }
        let mut requests: Vec<SmallVec<[UpdateIod<'static>; 1]>> = vec![iods.into()];
        if requests[0].iter().any(split::is_needed) {
            if !cond.is_none() {
                return Err(Invalid::Flags.into());
            }
            let pieces = split::pieces(&requests[0])?;
            requests = pieces.into_iter().map(|piece| piece.into_iter().map(owned).collect()).collect();
        }
        let core = self.container().core();
        let map = core.map();
        let target = self.target(map, dkey)?;
        event
            .inner
            .lock()
            .launch(event.id, u32::try_from(requests.len()).map_err(|_wide| Invalid::Payload)?)?;
        for iods in requests {
            let update = Update { oid: self.oid(), dkey: Key::from_slice(dkey), cond, iods };
            let ask = Ask::Target(target, self.container().no(), Verb::Update(update));
            event.submit(core.mutation_id(), map.version, ask);
        }
        Ok(())
    }

    /// Launches [`Object::fetch`]; `buf` comes back through [`Event::take_buf`].
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready. Everything else is the event's.
    pub fn fetch_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        mut buf: IoBuf,
    ) -> Result<()> {
        let read_at = self.container().read_epoch(at)?;
        event.inner.lock().launch(event.id, 1)?;
        if let At::Tx(_) = at {
            let result = self.fetch(at, dkey, cond, iods, &mut buf).map(Output::Fetched);
            event.inner.complete(event.id, result, Some(buf));
            return Ok(());
        }
        let core = self.container().core();
        let map = core.map();
        let target = self.target(map, dkey)?;
        let iods = iods.iter().cloned().collect();
        let fetch = Fetch { oid: self.oid(), dkey: Key::from_slice(dkey), cond, at: read_at, iods, buf };
        event.submit(
            core.read_id(),
            map.version,
            Ask::Target(target, self.container().no(), Verb::Fetch(fetch)),
        );
        Ok(())
    }
}

/// The iod with its own copy of borrowed bytes.
fn owned(iod: UpdateIod<'_>) -> UpdateIod<'static> {
    use dolmen_codec::verb::NewValue;
    let value = match iod.value {
        NewValue::Single(payload) => NewValue::Single(payload.into_owned()),
        NewValue::NoSingle => NewValue::NoSingle,
        NewValue::Array { record_bytes, extents, data } => {
            NewValue::Array { record_bytes, extents, data: data.into_owned() }
        }
        NewValue::Hole { extents } => NewValue::Hole { extents },
    };
    UpdateIod { akey: iod.akey, cond: iod.cond, value }
}
