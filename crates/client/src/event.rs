//! Asynchronous operations: events, and the queues on which they complete.
//!
//! Nothing runs by itself: operations go on when somebody polls, tests or waits, and callbacks run in that
//! thread. An event belongs to one thread at a time, a queue to many.
//!
//! An operation of several requests goes from one to the next when the answer is polled. Operations in a
//! transaction only buffer or look at what is buffered, and are carried out when they are launched; [`Event::run`]
//! does that for anything. A stale map is fetched anew and returned as an error: the payload went with the request.
//!
//! What is more than targets and connections take waits in the queue, in its order, and is sent as answers come.
//!
//! Invariants: the lock of the events is not held while the transport is driven, a callback or a step runs, or a
//! result is dropped, which may be the last handle of a container.

mod data;
mod service;
mod state;

use crate::client::{Core, Write, unexpected};
use crate::container::Container;
use crate::object::Fetched;
use crate::pool::Pool;
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_codec::pool::{ContInfo, PoolReply};
use dolmen_codec::verb::{Found, ListedExtent, PackedKeys, Reply};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request};
use dolmen_types::{Anchor, Epoch, Error, Invalid, IoBuf, RequestId, Result};
use std::collections::VecDeque;
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
    /// A container.
    Opened(Container),
    /// Everything about a container.
    Info(Box<ContInfo>),
}

/// The next request of an operation.
pub(crate) struct Next {
    pub(crate) id: RequestId,
    pub(crate) map_version: u32,
    pub(crate) ask: Ask<'static>,
}

/// What follows an answer.
pub(crate) enum Then {
    Ask(Next),
    Done(Result<Output>),
}

/// How an operation of several requests goes on.
pub(crate) type Step = Box<dyn FnMut(Result<Answer>) -> Then + Send>;

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

pub(crate) struct Inner {
    core: Arc<Core>,
    queue: QueueId,
    /// Guards what waits until it may be sent, in its order; held while one is sent, and taken before the events.
    held: Mutex<VecDeque<Held>>,
    /// Its requests that are sent and not answered.
    sent: AtomicUsize,
    /// Guards the events; taken alone, or while something is sent.
    slots: Mutex<Slots>,
}

/// A request that waits until it may be sent.
struct Held {
    event: EventId,
    map_version: u32,
    ask: Ask<'static>,
    id: Id,
}

/// The id of a request that waits until it may be sent.
enum Id {
    /// It has one.
    Of(RequestId),
    /// A mutation of a target gets one when it is sent.
    Write,
    /// So does a change by the pool's service.
    Change,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.transport().close_queue(self.queue);
        self.core.was_answered(*self.sent.get_mut());
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
        let inner = Arc::new(Inner {
            core,
            queue,
            held: Mutex::default(),
            sent: AtomicUsize::new(0),
            slots: Mutex::default(),
        });
        inner.core.note_queue(&inner);
        Ok(Self { inner })
    }

    /// A new event, ready to be launched.
    ///
    /// # Errors
    /// `Busy` above a million events.
    pub fn event(&self) -> Result<Event> {
        self.insert(None)
    }

    /// A new event under `parent`, which then completes after it. It never comes out of [`EventQueue::poll`].
    /// When the parent's completion has been taken (by `poll`, `test` or `wait`), both are ready again and no longer
    /// belong together: the child keeps its result and buffer for whoever takes them, is then an event like others,
    /// and a group is made anew with new children.
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
        let id = self.inner.with(|slots| slots.insert(parent))?;
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
        self.inner.with(|slots| slots.running())
    }

    /// Events completed and not yet polled.
    #[must_use]
    pub fn completed(&self) -> usize {
        self.inner.with(|slots| slots.completed())
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
    /// Looks at or changes the events. What falls away by it is dropped after the lock.
    fn with<T>(&self, body: impl FnOnce(&mut Slots) -> T) -> T {
        // A panic of a callback cannot leave it half changed: callbacks run without it.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let result = body(&mut slots);
        let gone = slots.take_gone();
        drop(slots);
        drop(gone);
        result
    }

    /// Drives the transport until `is_enough` says so or the time is over.
    fn drive_until(&self, wait: Wait, mut is_enough: impl FnMut(&mut Slots) -> bool) {
        let end = match wait {
            Wait::No => Some(0),
            Wait::For(ns) => Some(self.core.clock().monotonic_ns().saturating_add(ns)),
            Wait::Forever => None,
        };
        if self.with(&mut is_enough) {
            return;
        }
        loop {
            self.turn(end.is_none());
            if self.with(&mut is_enough) || end.is_some_and(|end| self.core.clock().monotonic_ns() >= end) {
                return;
            }
            dolmen_env::yield_now();
        }
    }

    /// Takes in what has come, and sends what has waited for that.
    fn turn(&self, wait: bool) {
        self.drive(wait);
        if !self.send_held() && self.sent.load(Ordering::Acquire) == 0 {
            // Other queues have taken all the room, and their program may not be looking at them.
            self.core.drive_queues();
        }
    }

    /// Takes in what has come.
    pub(crate) fn drive(&self, wait: bool) {
        let mut outcomes = Vec::new();
        self.core.transport().poll(self.queue, wait, &mut outcomes);
        for outcome in outcomes {
            self.go_on(outcome);
        }
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, or keeps it until there is room.
    fn send(&self, request: Held) {
        let mut held = self.held();
        if held.is_empty() {
            held.extend(self.try_to_send(request));
        } else {
            held.push_back(request);
        }
    }

    /// Sends what waits, as far as there is room; whether that is all.
    fn send_held(&self) -> bool {
        let mut called_off = Vec::new();
        let mut held = self.held();
        while let Some(mut request) = held.pop_front() {
            if self.with(|slots| slots.is_aborted(request.event)) {
                called_off.push((request.event, request.ask.take_buf()));
            } else if let Some(kept) = self.try_to_send(request) {
                held.push_front(kept);
                break;
            }
        }
        let is_all = held.is_empty();
        drop(held);
        for (event, buf) in called_off {
            self.complete(event, Err(Error::Canceled), buf);
        }
        is_all
    }

    fn was_answered(&self) {
        self.sent.fetch_sub(1, Ordering::AcqRel);
        self.core.was_answered(1);
    }

    /// Sends a request; gives it back if there is no room.
    fn try_to_send(&self, request: Held) -> Option<Held> {
        if !self.core.may_send() {
            return Some(request);
        }
        let write = match request.id {
            Id::Of(_) => None,
            Id::Change => Some(Write::begin_change(Arc::clone(&self.core))),
            Id::Write => {
                let Some(write) = Write::try_begin(Arc::clone(&self.core)) else {
                    self.core.was_answered(1);
                    return Some(request);
                };
                Some(write)
            }
        };
        let id = match (&write, &request.id) {
            (Some(write), _) => write.id(),
            (None, Id::Of(id)) => *id,
            (None, _) => unreachable!("what has no id has begun"),
        };
        if let Some(write) = write {
            self.with(|slots| slots.hold(request.event, write));
        }
        self.sent.fetch_add(1, Ordering::AcqRel);
        self.submit(request.event, Next { id, map_version: request.map_version, ask: request.ask });
        None
    }

    /// Takes an answer to the operation that it belongs to, which ends with it or asks on.
    fn go_on(&self, outcome: Outcome) {
        let id = EventId::of_token(outcome.token);
        if let Err(Error::StaleMap { .. }) = outcome.result {
            // Ignored: the event has its error either way, and the next request finds out.
            let _refreshed = self.core.query();
        }
        let Some(mut step) = self.with(|slots| slots.take_step(id)) else {
            self.was_answered();
            let result = outcome.result.and_then(|answer| self.output(answer));
            return self.complete(id, result, outcome.buf);
        };
        match step(outcome.result) {
            Then::Done(result) => {
                self.was_answered();
                self.complete(id, result, outcome.buf);
            }
            Then::Ask(next) => {
                if self.with(|slots| slots.put_step(id, step)) {
                    self.submit(id, next);
                } else {
                    self.was_answered();
                    self.complete(id, Err(Error::Canceled), outcome.buf);
                }
            }
        }
    }

    /// What an operation of one request gives.
    fn output(&self, answer: Answer) -> Result<Output> {
        match answer {
            Answer::Target(Reply::Written(epoch)) | Answer::Pool(PoolReply::Epoch(epoch)) => {
                Ok(Output::Written(epoch))
            }
            Answer::Target(Reply::Fetched(fetched)) => Ok(Output::Fetched(fetched)),
            Answer::Pool(PoolReply::Cont(handle)) => {
                Ok(Output::Opened(Container::new(Arc::clone(&self.core), handle)))
            }
            Answer::Pool(PoolReply::ContInfo(info)) => Ok(Output::Info(info)),
            Answer::Pool(PoolReply::Done) => Ok(Output::Done),
            _ => Err(unexpected()),
        }
    }

    fn submit(&self, id: EventId, next: Next) {
        let head = self.core.head_of(next.id, next.map_version, &next.ask);
        self.core.transport().submit(self.queue, Request { token: id.token(), head, ask: next.ask });
    }

    fn complete(&self, id: EventId, result: Result<Output>, buf: Option<IoBuf>) {
        let mut done = Vec::new();
        self.with(|slots| slots.finish(id, result, buf, &mut done));
        self.call_back(done);
    }

    fn call_back(&self, done: Vec<EventId>) {
        for id in done {
            let (callbacks, error) = self.with(|slots| slots.take_callbacks(id));
            for callback in callbacks {
                if let Err(error) = callback(error.as_ref()) {
                    self.with(|slots| slots.fail(id, error));
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
        self.inner.with(|slots| slots.detach(self.id));
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
        self.inner.with(|slots| slots.is_running(self.id))
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
        self.inner.with(|slots| slots.take_result(self.id))
    }

    /// The buffer of a completed fetch, also of a failed one.
    pub fn take_buf(&mut self) -> Option<IoBuf> {
        self.inner.with(|slots| slots.take_buf(self.id))
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
        let done = self.inner.with(|slots| slots.barrier(self.id))?;
        self.inner.call_back(done);
        Ok(())
    }

    /// Adds a callback for the completion; several run in the order they were added.
    ///
    /// # Errors
    /// `NotFound` never happens for a live event.
    pub fn on_complete(&mut self, callback: Callback) -> Result<()> {
        self.inner.with(|slots| slots.on_complete(self.id, callback))
    }

    /// Calls its operation off, and those of its children: what was not sent yet never will be, and an operation
    /// that is cut short completes with `Canceled`. One whose last request is under way completes as if nothing had
    /// been said, and nothing that was carried out is undone.
    pub fn abort(&mut self) {
        self.inner.with(|slots| slots.abort(self.id));
    }

    /// Carries an operation out now and completes with its result.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready; the operation's own error is the event's.
    pub fn run(&mut self, operation: impl FnOnce() -> Result<Output>) -> Result<()> {
        self.inner.with(|slots| slots.launch(self.id, 1, None))?;
        self.complete(operation(), None);
        Ok(())
    }

    fn complete(&self, result: Result<Output>, buf: Option<IoBuf>) {
        self.inner.complete(self.id, result, buf);
    }

    /// # Errors
    /// `NoPermission` unless it is ready; `Invalid::Argument` if its queue is another client's.
    pub(crate) fn check_ready(&self, core: &Arc<Core>) -> Result<()> {
        if !Arc::ptr_eq(core, &self.inner.core) {
            return Err(Invalid::Argument.into());
        }
        self.inner.with(|slots| slots.check_ready(self.id))
    }

    /// Begins an operation of `requests` requests at once, or of several after each other.
    ///
    /// # Errors
    /// As `check_ready`.
    fn launch(&self, core: &Arc<Core>, requests: u32, step: Option<Step>) -> Result<()> {
        self.check_ready(core)?;
        self.inner.with(|slots| slots.launch(self.id, requests, step))
    }

    /// Begins an operation of one request after the other.
    pub(crate) fn launch_step(&self, next: Next, step: Step) -> Result<()> {
        self.inner.with(|slots| slots.launch(self.id, 1, Some(step)))?;
        self.submit(next);
        Ok(())
    }

    fn submit(&self, Next { id, map_version, ask }: Next) {
        self.inner.send(Held { event: self.id, map_version, ask, id: Id::Of(id) });
    }

    /// Submits a mutation of a target, which ends with the event's operation.
    fn submit_write(&self, map_version: u32, ask: Ask<'static>) {
        self.inner.send(Held { event: self.id, map_version, ask, id: Id::Write });
    }

    /// Submits a change by the pool's service, which ends with the event's operation.
    fn submit_change(&self, map_version: u32, ask: Ask<'static>) {
        self.inner.send(Held { event: self.id, map_version, ask, id: Id::Change });
    }
}

impl core::fmt::Debug for Event {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Event").field("id", &self.id).finish_non_exhaustive()
    }
}
