//! A queue: its events, a lane for each pool, and who drives them.

use super::rest::Rest;
use super::state::{Callback, Ended, Place, State};
use super::{CEvent, Ev};
use crate::error::{Der, Result};
use crate::io::Fetching;
use crate::place::PoolHandle;
use crate::raw::Out;
use core::cell::Cell as Counter;
use core::ffi::c_int;
use core::pin::Pin;
use core::task::Poll;
use dolmen_client::{Event, EventId, EventQueue, IoBuf, Output, Wait};
use dolmen_codec::step;
use dolmen_env::{Clock, RealClock};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Completions taken from a lane at a time.
const TAKEN_MAX: usize = 64;
/// How long a thread that waits for a time drives one lane before it looks at the queue again.
const TURN_NS: u64 = 10_000_000;

/// Who gives a queue up waits so long for the next answer: nobody wants it any more, and an engine that works has sent it
/// by then.
const SILENCE_NS_MAX: u64 = 1_000_000_000;

thread_local! {
    /// Callbacks that this thread is in.
    static CALLBACKS: Counter<u32> = const { Counter::new(0) };
}

/// Whether a callback of an event runs in this thread. The frames below it have yet to end what they took off a lane, so
/// that a wait in it may be one for ever.
pub(crate) fn is_in_callback() -> bool {
    CALLBACKS.try_with(Counter::get).is_ok_and(|depth| depth > 0)
}

/// How an operation of the client has ended.
pub(crate) struct Ending {
    pub(crate) result: dolmen_client::Result<Output>,
    pub(crate) buf: Option<IoBuf>,
}

/// What makes an ending the program's.
pub(crate) enum Finish {
    /// Nothing: only the error counts.
    Plain,
    /// Values go to the program's buffers.
    Fetch(Fetching),
    /// Whatever it does; it returns the event's error.
    Boxed(Box<dyn FnOnce(Ending) -> c_int + Send>),
    /// One of several parts of an operation, which ends with the last of them.
    Part(Arc<Parts>, usize),
    /// One of several requests, each after the answer to another.
    Chain(Box<Chain>),
    /// One of several requests side by side, after whose answers others may follow.
    Round(Arc<Rounds>, usize),
}

/// An operation that goes on when an answer is there.
pub(crate) struct Chain {
    pool: Arc<PoolHandle>,
    /// What the event's error is for one of ours.
    code: fn(Der) -> c_int,
    step: Box<dyn FnMut(Ending) -> Result<Chained> + Send>,
}

impl Chain {
    pub(super) fn new(
        pool: &Arc<PoolHandle>,
        code: fn(Der) -> c_int,
        step: impl FnMut(Ending) -> Result<Chained> + Send + 'static,
    ) -> Self {
        Self { pool: Arc::clone(pool), code, step: Box::new(step) }
    }
}

/// What submits the next request of an operation to the client's event.
pub(crate) type Start = Box<dyn FnOnce(&mut Event) -> Result<()>>;

/// What follows an answer.
pub(crate) enum Chained {
    /// Another request.
    Ask(Start),
    /// Nothing more: the operation has ended well.
    Done,
    /// Nothing more: the operation has ended with this error of the event's.
    Ended(c_int),
}

/// What follows the answers of a round.
pub(crate) enum Next {
    /// Others, side by side; not none.
    Ask(Vec<Start>),
    /// Nothing: the operation has ended with this error of the event's, 0 if it went well.
    Ended(c_int),
}

/// What takes the answers of a round, in the order of its requests.
pub(crate) type Step = Box<dyn FnMut(Vec<Ending>) -> Next + Send>;

/// An operation of requests side by side, which goes on when all of them have been answered.
pub(crate) struct Rounds {
    pool: Arc<PoolHandle>,
    /// What the event's error is for one of ours.
    code: fn(Der) -> c_int,
    // Guards: what has ended of this round; taken alone.
    round: Mutex<Round>,
}

struct Round {
    left: usize,
    endings: Vec<Option<Ending>>,
    refused: Option<Der>,
    /// Away while it takes a round.
    step: Option<Step>,
}

impl Rounds {
    pub(super) fn new(pool: &Arc<PoolHandle>, code: fn(Der) -> c_int, step: Step) -> Self {
        let round = Round { left: 0, endings: Vec::new(), refused: None, step: Some(step) };
        Self { pool: Arc::clone(pool), code, round: Mutex::new(round) }
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, count: usize) {
        assert!(count > 0, "a round without requests has nothing to end with");
        let mut round = self.lock();
        round.left = count;
        round.endings = core::iter::repeat_with(|| None).take(count).collect();
    }

    /// A request of the round has ended, or could not be started; what follows if it was the last.
    fn arrived(&self, index: usize, ending: Result<Ending>) -> Option<Next> {
        let mut round = self.lock();
        match ending {
            Ok(ending) => round.endings[index] = Some(ending),
            Err(error) => round.refused = round.refused.or(Some(error)),
        }
        round.left -= 1;
        if round.left > 0 {
            return None;
        }
        if let Some(error) = round.refused {
            return Some(Next::Ended((self.code)(error)));
        }
        let (mut step, endings) = (round.step.take()?, core::mem::take(&mut round.endings));
        drop(round);
        let answers = endings.into_iter().flatten().collect();
        let next = catch_unwind(AssertUnwindSafe(|| step(answers)));
        let next = next.unwrap_or(Next::Ended((self.code)(Der::MISC)));
        self.lock().step = Some(step);
        Some(next)
    }
}

/// A queue; many threads may use it.
#[derive(Default)]
pub(crate) struct Queue {
    // Guards: events and lanes; taken alone, never while something is carried out, driven or called back.
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    state: State,
    lanes: Vec<Lane>,
    /// What was carried out in its call and ends, with this error, when somebody polls; the oldest first.
    carried_out: VecDeque<(Place, c_int)>,
    /// What goes on whenever somebody polls; those that a thread goes on with right now are away.
    tasks: VecDeque<(Place, Task)>,
    /// How many there are, also away.
    task_count: usize,
}

/// An operation that goes on when it is polled; it gives the event's error.
pub(super) struct Task {
    operation: Pin<Box<dyn Future<Output = c_int> + Send>>,
    /// What the event's error is for one of ours.
    code: fn(Der) -> c_int,
}

impl Task {
    pub(super) fn new(
        operation: impl Future<Output = c_int> + Send + 'static,
        code: fn(Der) -> c_int,
    ) -> Self {
        Self { operation: Box::pin(operation), code }
    }
}

/// Operations of one pool.
struct Lane {
    pool: usize,
    queue: EventQueue,
    /// The ids of the client's events, in the order of `cells`, which is ascending.
    ids: Vec<EventId>,
    cells: Vec<Cell>,
    free: Vec<usize>,
}

/// One of the client's events, with what it is used for now.
struct Cell {
    /// Away while the operation is being submitted.
    event: Option<Event>,
    place: Option<Place>,
    finish: Finish,
    /// It completed while it was away.
    is_early: bool,
}

impl Lane {
    fn running(&self) -> usize {
        self.cells.len() - self.free.len()
    }
}

/// How long to go on waiting.
enum Left {
    Nothing,
    Ns(u64),
    Forever,
}

/// The end of a wait of so many microseconds; `None` for one without end.
fn end_of(timeout_us: i64) -> Option<u64> {
    let us = u64::try_from(timeout_us).ok()?;
    Some(if us == 0 { 0 } else { RealClock.monotonic_ns().saturating_add(us.saturating_mul(1000)) })
}

fn left(end_ns: Option<u64>) -> Left {
    match end_ns {
        None => Left::Forever,
        Some(0) => Left::Nothing,
        Some(end) => match end.saturating_sub(RealClock.monotonic_ns()) {
            0 => Left::Nothing,
            ns => Left::Ns(ns),
        },
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic cannot leave it half changed: what calls out does so without the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, ev: Ev, parent: Option<Place>) -> Result<Place> {
        self.lock().state.insert(ev, parent)
    }

    pub(super) fn remove(&self, place: Place) -> Result<()> {
        self.lock().state.remove(place)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().state.is_idle()
    }

    /// Whether anything has still to look at the program's memory: an operation, its callbacks, or a parent that waits.
    pub(super) fn is_under_way(&self) -> bool {
        self.lock().state.under_way() > 0
    }

    pub(super) fn list(&self, completed: bool, running: bool) -> Vec<Ev> {
        self.lock().state.list(completed, running)
    }

    pub(super) fn child_after(&self, place: Place, before: Option<Place>) -> Result<Ev> {
        self.lock().state.child_after(place, before)
    }

    pub(super) fn add_callback(&self, place: Place, callback: Callback) -> Result<()> {
        self.lock().state.add_callback(place, callback)
    }

    /// Launches a parent as the group of its children.
    ///
    /// # Errors
    /// `INVAL` without children; `NO_PERM` if it is under way or a child is not launched.
    pub(super) fn barrier(&self, place: Place, ev: Ev) -> Result<()> {
        let mut inner = self.lock();
        if !inner.state.has_children(place)? {
            return Err(Der::INVAL);
        }
        inner.state.begin(place, ev, false)?;
        let ended = inner.state.ended(place);
        drop(inner);
        self.complete(ended);
        Ok(())
    }

    /// Carries an operation out now; the event is complete then with the error that it returns.
    ///
    /// # Errors
    /// `NO_PERM` if the event cannot be launched.
    pub(super) fn run(&self, place: Place, ev: Ev, body: impl FnOnce() -> c_int) -> Result<()> {
        self.lock().state.begin(place, ev, true)?;
        let error = body();
        let ended = self.lock().state.end_operation(place, error);
        self.complete(ended);
        Ok(())
    }

    /// # Errors
    /// `NO_PERM` if the event cannot be launched.
    pub(super) fn check_ready(&self, place: Place) -> Result<()> {
        self.lock().state.check_ready(place)
    }

    /// Launches an operation that was carried out, and ends with this error when somebody polls or tests.
    ///
    /// # Errors
    /// As [`Queue::check_ready`].
    pub(super) fn end_later(&self, place: Place, ev: Ev, error: c_int) -> Result<()> {
        let mut inner = self.lock();
        inner.state.begin(place, ev, true)?;
        inner.carried_out.push_back((place, error));
        Ok(())
    }

    /// Ends the oldest operation that was carried out in its call; whether there was one.
    fn end_carried_out(&self) -> bool {
        let mut inner = self.lock();
        let Some((place, error)) = inner.carried_out.pop_front() else { return false };
        let ended = inner.state.end_operation(place, error);
        drop(inner);
        self.complete(ended);
        true
    }

    /// Launches an operation of several requests. It is polled once now, so that what it is given is read and its first request
    /// sent, and then by whoever polls or tests.
    ///
    /// # Errors
    /// As [`Queue::check_ready`].
    pub(super) fn launch_task(&self, place: Place, ev: Ev, task: Task) -> Result<()> {
        let mut inner = self.lock();
        inner.state.begin(place, ev, true)?;
        inner.task_count += 1;
        drop(inner);
        self.go_on_with(place, task);
        Ok(())
    }

    /// Goes on with every operation of several requests; whether one has ended.
    fn go_on_with_tasks(&self) -> bool {
        let (count, mut any) = (self.lock().tasks.len(), false);
        for _ in 0..count {
            let Some((place, task)) = self.lock().tasks.pop_front() else { break };
            any |= self.go_on_with(place, task);
        }
        any
    }

    /// Goes on with one; whether it has ended.
    fn go_on_with(&self, place: Place, mut task: Task) -> bool {
        let step = catch_unwind(AssertUnwindSafe(|| step(&mut task.operation)));
        let Poll::Ready(error) = step.unwrap_or(Poll::Ready((task.code)(Der::MISC))) else {
            self.lock().tasks.push_back((place, task));
            return false;
        };
        // What it holds is let go of before anybody knows that it has ended.
        drop(task);
        let mut inner = self.lock();
        inner.task_count -= 1;
        let ended = inner.state.end_operation(place, error);
        drop(inner);
        self.complete(ended);
        true
    }

    /// Launches an operation on the lane of a pool.
    ///
    /// # Errors
    /// `NO_PERM` if the event cannot be launched; what `start` answers: it is not launched then.
    pub(super) fn launch(
        &self,
        place: Place,
        ev: Ev,
        pool: &Arc<PoolHandle>,
        start: impl FnOnce(&mut Event) -> Result<()>,
        finish: Finish,
    ) -> Result<()> {
        let mut inner = self.lock();
        inner.state.begin(place, ev, true)?;
        let submitted = self.submit(inner, place, pool, start, finish);
        if submitted.is_err() {
            self.lock().state.take_back(place);
        }
        submitted
    }

    /// Launches the parts of an operation on the lane of a pool, side by side; `end` makes one error of all endings. If a
    /// part cannot be started, the operation ends with that error and the last part that could.
    ///
    /// REQUIRES: there is a part.
    ///
    /// # Errors
    /// `NO_PERM` if the event cannot be launched.
    pub(super) fn launch_parts<P>(
        &self,
        place: Place,
        ev: Ev,
        pool: &Arc<PoolHandle>,
        parts: Vec<P>,
        start: &mut dyn FnMut(&mut Event, P) -> Result<()>,
        end: EndOfParts,
    ) -> Result<()> {
        self.lock().state.begin(place, ev, true)?;
        let all = Arc::new(Parts::new(parts.len(), end));
        for (index, part) in parts.into_iter().enumerate() {
            let finish = Finish::Part(Arc::clone(&all), index);
            let started = self.submit(self.lock(), place, pool, |event| start(event, part), finish);
            if let Err(error) = started
                && let Some(error) = all.arrived(index, Err(error))
            {
                let ended = self.lock().state.end_operation(place, error);
                self.complete(ended);
            }
        }
        Ok(())
    }

    /// Launches an operation of requests side by side, and of what follows their answers. If one cannot be started, the operation
    /// ends with that error and the last that could.
    ///
    /// REQUIRES: there is a request.
    ///
    /// # Errors
    /// As [`Queue::check_ready`].
    pub(super) fn launch_rounds(
        &self,
        place: Place,
        ev: Ev,
        first: Vec<Start>,
        all: &Arc<Rounds>,
    ) -> Result<()> {
        self.lock().state.begin(place, ev, true)?;
        if let Some(error) = self.ask_round(place, all, first) {
            let ended = self.lock().state.end_operation(place, error);
            self.complete(ended);
        }
        Ok(())
    }

    /// Submits the requests of a round; the error of the operation, if it has ended with them.
    fn ask_round(&self, place: Place, all: &Arc<Rounds>, mut starts: Vec<Start>) -> Option<c_int> {
        loop {
            all.begin(starts.len());
            let mut next = None;
            for (index, start) in starts.into_iter().enumerate() {
                let finish = Finish::Round(Arc::clone(all), index);
                if let Err(error) = self.submit(self.lock(), place, &all.pool, start, finish) {
                    next = next.or(all.arrived(index, Err(error)));
                }
            }
            match next? {
                Next::Ended(error) => return Some(error),
                Next::Ask(more) => starts = more,
            }
        }
    }

    /// Takes an answer of a round; the error of the operation, if it has ended with it.
    fn go_on_round(&self, place: Place, all: &Arc<Rounds>, index: usize, ending: Ending) -> Option<c_int> {
        match all.arrived(index, Ok(ending))? {
            Next::Ended(error) => Some(error),
            Next::Ask(starts) => self.ask_round(place, all, starts),
        }
    }

    /// Submits an operation, or a part of one, of an event that was begun.
    fn submit(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        place: Place,
        pool: &Arc<PoolHandle>,
        start: impl FnOnce(&mut Event) -> Result<()>,
        finish: Finish,
    ) -> Result<()> {
        let (cell, mut event) = inner.take_cell(pool, place, finish)?;
        drop(inner);
        let started = start(&mut event);
        let mut inner = self.lock();
        let lane = inner.lane(pool.number).ok_or(Der::NO_HDL)?;
        lane.cells[cell].event = Some(event);
        if let Err(error) = started {
            lane.cells[cell].place = None;
            lane.cells[cell].finish = Finish::Plain;
            lane.free.push(cell);
            return Err(error);
        }
        let is_early = core::mem::take(&mut lane.cells[cell].is_early);
        drop(inner);
        if is_early {
            self.finish(pool.number, cell);
        }
        Ok(())
    }

    /// Takes completed events off the queue, up to `max`, after waiting for the first.
    ///
    /// # Errors
    /// `BUSY` in a callback, if there is nothing that need not be waited for; `NO_HDL` if the queue is given up meanwhile.
    pub(super) fn poll(&self, wait_running: bool, timeout_us: i64, max: usize) -> Result<Vec<Ev>> {
        let end = end_of(timeout_us);
        let (mut is_driven, mut rest) = (false, Rest::default());
        loop {
            let mut inner = self.lock();
            let found = inner.state.reap(max);
            let (is_idle, is_closed) = (inner.state.running() == 0, inner.state.is_closed());
            drop(inner);
            if found.is_empty() && is_closed {
                return Err(Der::NO_HDL);
            }
            if !found.is_empty() || (wait_running && is_idle) {
                return Ok(found);
            }
            refuse_in_callback()?;
            let left = left(end);
            if is_driven && matches!(left, Left::Nothing) {
                return Ok(found);
            }
            self.drive(&left, &mut rest);
            is_driven = true;
        }
    }

    /// Whether an event has completed, after waiting for it.
    ///
    /// # Errors
    /// `NO_PERM` for a child; `BUSY` in a callback, unless it has.
    pub(super) fn test(&self, place: Place, timeout_us: i64) -> Result<bool> {
        let end = end_of(timeout_us);
        let (mut is_driven, mut rest) = (false, Rest::default());
        loop {
            if self.lock().state.test(place)? {
                return Ok(true);
            }
            refuse_in_callback()?;
            let left = left(end);
            if is_driven && matches!(left, Left::Nothing) {
                return Ok(false);
            }
            self.drive(&left, &mut rest);
            is_driven = true;
        }
    }

    /// Ends one operation that was carried out, or goes on with those of several requests and drives the lanes that have something
    /// under way, for a while at most, and ends what has completed.
    fn drive(&self, left: &Left, rest: &mut Rest) {
        if self.end_carried_out() || self.go_on_with_tasks() {
            return rest.end();
        }
        let (lanes, has_tasks): (Vec<(usize, EventQueue)>, bool) = {
            let inner = self.lock();
            let busy = inner.lanes.iter().filter(|lane| lane.running() > 0);
            (busy.map(|lane| (lane.pool, lane.queue.clone())).collect(), inner.task_count > 0)
        };
        let wait = match (&lanes[..], left) {
            // Somebody has to look after these, too.
            _ if has_tasks => Wait::No,
            ([_], Left::Ns(ns)) => Wait::For((*ns).min(TURN_NS)),
            ([_], Left::Forever) => Wait::Forever,
            _ => Wait::No,
        };
        let (mut any, began_ns) = (false, RealClock.monotonic_ns());
        for (pool, queue) in &lanes {
            let mut taken = Vec::new();
            // Ignored: it fails only for a count of zero.
            let _count = queue.poll(wait, TAKEN_MAX, &mut taken);
            any |= !taken.is_empty();
            for id in taken {
                self.took(*pool, id);
            }
        }
        if any {
            return rest.end();
        }
        let left_ns = match left {
            Left::Nothing => return,
            Left::Ns(ns) => *ns,
            Left::Forever => u64::MAX,
        };
        let now_ns = RealClock.monotonic_ns();
        // A pass that waited for the client is a rest by itself.
        let pause =
            if now_ns.saturating_sub(began_ns) < TURN_NS / 2 { rest.pause(now_ns, left_ns) } else { None };
        match pause {
            Some(time) => dolmen_env::wait(time),
            None => dolmen_env::yield_now(),
        }
    }

    /// The client has completed one of its events.
    fn took(&self, pool: usize, id: EventId) {
        let mut inner = self.lock();
        let Some(lane) = inner.lane(pool) else { return };
        let Ok(cell) = lane.ids.binary_search(&id) else { return };
        if lane.cells[cell].event.is_none() {
            // Whoever submits it right now ends it.
            lane.cells[cell].is_early = true;
            return;
        }
        drop(inner);
        self.finish(pool, cell);
    }

    /// Ends the operation of a cell, whose event has completed.
    fn finish(&self, pool: usize, cell: usize) {
        let mut inner = self.lock();
        let Some(lane) = inner.lane(pool) else { return };
        let used = &mut lane.cells[cell];
        let (Some(place), Some(event)) = (used.place.take(), used.event.as_mut()) else { return };
        let finish = core::mem::replace(&mut used.finish, Finish::Plain);
        let result = event.take_result();
        let buf = event.take_buf();
        lane.free.push(cell);
        let result = result.unwrap_or(Err(dolmen_client::Error::Canceled));
        let error = if let Finish::Plain = finish {
            error_of(result)
        } else {
            drop(inner);
            let ending = Ending { result, buf };
            let error = match finish {
                Finish::Chain(chain) => self.go_on(place, chain, ending),
                Finish::Round(all, index) => self.go_on_round(place, &all, index, ending),
                other => other.end(ending),
            };
            let Some(error) = error else { return };
            inner = self.lock();
            error
        };
        let ended = inner.state.end_operation(place, error);
        drop(inner);
        self.complete(ended);
    }

    /// Takes an answer to its operation; the error of that, if it has ended with it.
    fn go_on(&self, place: Place, mut chain: Box<Chain>, ending: Ending) -> Option<c_int> {
        let step = catch_unwind(AssertUnwindSafe(|| (chain.step)(ending)));
        let code = chain.code;
        let submitted = match step.unwrap_or(Err(Der::MISC)) {
            Ok(Chained::Done) => return Some(0),
            Ok(Chained::Ended(error)) => return Some(error),
            Ok(Chained::Ask(start)) => {
                let pool = Arc::clone(&chain.pool);
                self.submit(self.lock(), place, &pool, start, Finish::Chain(chain))
            }
            Err(error) => Err(error),
        };
        submitted.err().map(code)
    }

    /// Runs the callbacks of an event that has ended, lets others see it, and goes on with its parent.
    fn complete(&self, mut next: Option<Ended>) {
        while let Some(Ended { place, at, mut error, callbacks }) = next {
            set_error(at, error);
            for callback in callbacks {
                let returned = call(callback, at, error);
                if error == 0 && returned != 0 {
                    error = returned;
                    set_error(at, error);
                }
            }
            next = self.lock().state.complete(place, error);
        }
    }

    /// Gives the queue up: ends everything that is under way, and waits for other threads that are about to: until then it may
    /// look at the program's memory. Whoever waits for an event of it hears of it then. What has not ended for a while is
    /// called off; whether there was such a rest.
    pub(crate) fn drain(&self) -> bool {
        let (mut rest, mut since_ns, mut left) = (Rest::default(), RealClock.monotonic_ns(), usize::MAX);
        let mut is_silent = false;
        while !self.lock().state.close() {
            let (under_way, now_ns) = (self.lock().state.under_way(), RealClock.monotonic_ns());
            if under_way < left {
                (left, since_ns) = (under_way, now_ns);
            }
            if now_ns.saturating_sub(since_ns) >= SILENCE_NS_MAX {
                self.call_off();
                is_silent = true;
            }
            self.drive(&Left::Ns(TURN_NS), &mut rest);
        }
        is_silent
    }

    /// Ends all operations as called off, but those that another thread has in hand. Their answers find nobody, and nothing of
    /// theirs looks at the program's memory again.
    fn call_off(&self) {
        let mut inner = self.lock();
        let tasks = core::mem::take(&mut inner.tasks);
        inner.task_count -= tasks.len();
        let mut gone = Vec::new();
        for cell in inner.lanes.iter_mut().flat_map(|lane| &mut lane.cells) {
            // The cell stays taken: its answer may come still.
            if let Some(place) = cell.place.take_if(|_| cell.event.is_some()) {
                let finish = core::mem::replace(&mut cell.finish, Finish::Plain);
                gone.push((place, finish, cell.event.take()));
            }
        }
        drop(inner);
        for (place, task) in tasks {
            let error = (task.code)(Der::CANCELED);
            drop(task);
            let ended = self.lock().state.end_operation(place, error);
            self.complete(ended);
        }
        for (place, finish, event) in gone {
            if let Some(mut event) = event {
                event.abort();
            }
            let Some(error) = finish.call_off() else { continue };
            let ended = self.lock().state.end_operation(place, error);
            self.complete(ended);
        }
    }

    /// Gives the lane of a connection up, unless something is under way on it.
    pub(super) fn let_go(&self, pool: usize) {
        let mut inner = self.lock();
        let gone = inner.lanes.iter().position(|lane| lane.pool == pool && lane.running() == 0);
        let gone = gone.map(|at| inner.lanes.swap_remove(at));
        drop(inner);
        drop(gone);
    }
}

impl Finish {
    /// The error of an operation that is called off, if it has ended with this.
    fn call_off(self) -> Option<c_int> {
        match self {
            Self::Chain(chain) => Some((chain.code)(Der::CANCELED)),
            Self::Round(all, index) => match all.arrived(index, Err(Der::CANCELED))? {
                Next::Ended(error) => Some(error),
                Next::Ask(_) => unreachable!("a round with a request that failed is the last"),
            },
            other => other.end(Ending { result: Err(dolmen_client::Error::Canceled), buf: None }),
        }
    }

    /// The error of the operation, if it has ended with this.
    fn end(self, ending: Ending) -> Option<c_int> {
        match self {
            Self::Plain => Some(error_of(ending.result)),
            Self::Fetch(fetching) => Some(fetching.end(ending)),
            Self::Boxed(end) => Some(end(ending)),
            Self::Part(parts, index) => parts.arrived(index, Ok(ending)),
            Self::Chain(_) | Self::Round(..) => unreachable!("what goes on does so, whoever finishes it"),
        }
    }
}

/// What makes one error of the endings of all parts, which come in the order of the parts.
pub(crate) type EndOfParts = Box<dyn FnOnce(Vec<Ending>) -> c_int + Send>;

/// An operation that is several of the client.
pub(crate) struct Parts {
    // Guards: what has ended so far; taken alone.
    state: Mutex<PartsState>,
}

struct PartsState {
    left: usize,
    endings: Vec<Option<Ending>>,
    refused: Option<Der>,
    end: Option<EndOfParts>,
}

impl Parts {
    fn new(count: usize, end: EndOfParts) -> Self {
        assert!(count > 0, "an operation without parts has nothing to end with");
        let endings = core::iter::repeat_with(|| None).take(count).collect();
        Self { state: Mutex::new(PartsState { left: count, endings, refused: None, end: Some(end) }) }
    }

    /// A part has ended, or could not be started; the error of the operation if it was the last.
    fn arrived(&self, index: usize, ending: Result<Ending>) -> Option<c_int> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match ending {
            Ok(ending) => state.endings[index] = Some(ending),
            Err(error) => state.refused = state.refused.or(Some(error)),
        }
        state.left -= 1;
        if state.left > 0 {
            return None;
        }
        let (end, endings) = (state.end.take()?, core::mem::take(&mut state.endings));
        let refused = state.refused;
        drop(state);
        Some(match refused {
            Some(error) => error.code(),
            None => end(endings.into_iter().flatten().collect()),
        })
    }
}

/// # Errors
/// `BUSY` in a callback.
fn refuse_in_callback() -> Result<()> {
    if is_in_callback() { Err(Der::BUSY) } else { Ok(()) }
}

/// Runs a callback of the program, and notes that it runs. What it is cannot unwind.
fn call(Callback { function, argument }: Callback, at: Ev, error: c_int) -> c_int {
    // Ignored: a thread that ends keeps no count any more.
    let _noted = CALLBACKS.try_with(|depth| depth.set(depth.get() + 1));
    let returned = function(argument, at, error);
    // Ignored: as above.
    let _noted = CALLBACKS.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    returned
}

fn error_of(result: dolmen_client::Result<Output>) -> c_int {
    result.map_or_else(|error| Der::from(error).code(), |_| 0)
}

impl Inner {
    fn lane(&mut self, pool: usize) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.pool == pool)
    }

    /// One of the client's events for an operation.
    fn take_cell(&mut self, pool: &PoolHandle, place: Place, finish: Finish) -> Result<(usize, Event)> {
        let at = match self.lanes.iter().position(|lane| lane.pool == pool.number) {
            Some(at) => at,
            None => {
                let queue = EventQueue::new(&pool.client)?;
                let (ids, cells, free) = (Vec::new(), Vec::new(), Vec::new());
                self.lanes.push(Lane { pool: pool.number, queue, ids, cells, free });
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[at];
        let cell = match lane.free.pop() {
            Some(cell) => cell,
            None => {
                let event = lane.queue.event()?;
                let is_next = lane.ids.last().is_none_or(|last| *last < event.id());
                assert!(is_next, "the client numbers the events of a queue in their order");
                lane.ids.push(event.id());
                let finish = Finish::Plain;
                lane.cells.push(Cell { event: Some(event), place: None, finish, is_early: false });
                lane.cells.len() - 1
            }
        };
        let used = &mut lane.cells[cell];
        (used.place, used.finish, used.is_early) = (Some(place), finish, false);
        used.event.take().map(|event| (cell, event)).ok_or(Der::MISC)
    }
}

/// Writes the error of an event, which is the first field of the program's struct.
fn set_error(at: Ev, error: c_int) {
    let field: Out<c_int> = Out::of(at.as_ptr().cast::<CEvent>().cast());
    field.set_if_wanted(error);
}
