//! Events and event queues: asynchronous operations as a C program has them.
//!
//! An event is the program's memory; the library writes its error there, and the name of its place in a queue. A queue
//! takes operations on several pools: each pool has a lane in it, on which the client completes what was asked of that
//! pool. Nothing runs by itself; whoever polls or tests drives the lanes and runs the callbacks.
//!
//! Invariants: the lock of a queue is not held while an operation is carried out, a lane is driven or a callback runs.

mod queue;
mod rest;
mod state;

use crate::error::{Der, Errno, PosixResult, Result, der, errno, number};
use crate::handle::{self, Entry};
use crate::life;
use crate::place::PoolHandle;
use crate::raw::Out;
use crate::types::Handle;
use core::ffi::{c_int, c_uint};
use core::mem::offset_of;
use dolmen_client::{Wait, Way};
use dolmen_codec::{give_way, now};
use queue::{Chain, Rounds, Step, Task};
pub(crate) use queue::{Chained, Ending, Finish, Next, Queue, Start, is_in_callback};

pub(crate) use state::Callback;
use state::Place;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event as a C program has it.
//= daos:src/include/daos_types.h daos_event_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CEvent {
    error: c_int,
    private: [u64; 20],
    debug: u64,
}

const _: () = assert!(size_of::<CEvent>() == 176);

/// The event of a call; NULL if it is to block.
pub(crate) type Ev = Out<CEvent>;

/// The words of an event that are ours from its start to its end: what says so, its queue, and its place there. Nothing
/// else of it is read while it may be under way, since whoever drives the queue writes the error.
fn words(ev: Ev) -> Result<[u64; 3]> {
    let at = ev.check()?.as_ptr().wrapping_byte_add(offset_of!(CEvent, private));
    Out::<[u64; 3]>::of(at.cast()).get()
}

/// What says that the private words are ours.
const MAGIC: u64 = 0x646f_6c6d_656e_6576;

/// `daos_eq_destroy` also with events under way.
//= daos:src/include/daos_types.h DAOS_EQ_DESTROY_FORCE
const DESTROY_FORCE: c_int = 1;

// Guards: the queue of events that are on none; taken alone.
static UNQUEUED: Mutex<Option<Arc<Queue>>> = Mutex::new(None);

/// The queue of events that are on none.
fn unqueued() -> Arc<Queue> {
    let mut queue = UNQUEUED.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(queue.get_or_insert_with(Arc::default))
}

/// Gives up what the library keeps of events that are on no queue; whether something of that was called off.
pub(crate) fn clear() -> bool {
    let queue = UNQUEUED.lock().unwrap_or_else(PoisonError::into_inner).take();
    queue.is_some_and(|queue| queue.drain())
}

/// As [`clear`], without ending anything: it belongs to the process that this one was forked off.
pub(crate) fn forget() {
    core::mem::forget(UNQUEUED.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// The lock here.
pub(crate) type Locked = MutexGuard<'static, Option<Arc<Queue>>>;

/// Takes it for a fork.
pub(crate) fn hold() -> Locked {
    UNQUEUED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets go of a connection that was given up.
pub(crate) fn let_go(pool: usize) {
    for queue in handle::queues() {
        queue.let_go(pool);
    }
    unqueued().let_go(pool);
}

/// The queue of an event and its place there.
///
/// # Errors
/// `INVAL` for what was never initialised; `NO_HDL` if its queue is gone; `UNINIT` in a forked process.
fn locate(ev: Ev) -> Result<(Arc<Queue>, Place)> {
    let [magic, queue, place] = words(ev)?;
    if magic != MAGIC {
        return Err(Der::INVAL);
    }
    life::check()?;
    let queue = if queue == 0 { unqueued() } else { handle::queue(Handle { cookie: queue })? };
    Ok((queue, Place::of_word(place)))
}

/// Carries an operation out; with an event, which is complete when the call returns.
pub(crate) fn run(ev: Ev, body: impl FnOnce() -> Result<()>) -> c_int {
    if ev.is_null() {
        return der(body);
    }
    der(|| {
        let (queue, place) = locate(ev)?;
        queue.run(place, ev, || match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => 0,
            Ok(Err(error)) => error.code(),
            Err(_panic) => Der::MISC.code(),
        })
    })
}

/// Carries an operation of several requests out: in the call without an event; with one it is begun in the call, which reads
/// what it was given, and goes on whenever somebody polls or tests. What `make` makes must not hold on to borrowed arguments
/// once it has given way.
pub(crate) fn go<F>(ev: Ev, make: impl FnOnce(Way) -> F) -> c_int
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    if ev.is_null() {
        return der(|| now(make(Way::Now)));
    }
    der(|| {
        let (queue, place) = locate(ev)?;
        queue.check_ready(place)?;
        let operation = make(Way::Later);
        let coded = async move { operation.await.map_or_else(Der::code, |()| 0) };
        queue.launch_task(place, ev, Task::new(coded, Der::code))
    })
}

/// As [`go`], for a `dfs_*` function: `read` reads in the call what that was given, and makes of it the operation.
pub(crate) fn go_posix<M, F>(ev: Ev, read: impl FnOnce() -> PosixResult<M>) -> c_int
where
    M: FnOnce(Way) -> F,
    F: Future<Output = PosixResult<()>> + Send + 'static,
{
    errno(|| {
        if ev.is_null() {
            return now(read()?(Way::Now));
        }
        launch_posix(ev, || Ok(read()?(Way::Later)))
    })
}

/// Launches an operation of several requests of a `dfs_*` function.
///
/// # Errors
/// `NO_PERM` if it cannot be launched; those of `make`.
pub(crate) fn launch_posix<F>(ev: Ev, make: impl FnOnce() -> PosixResult<F>) -> PosixResult<()>
where
    F: Future<Output = PosixResult<()>> + Send + 'static,
{
    let (queue, place) = locate(ev)?;
    queue.check_ready(place)?;
    let operation = make()?;
    let coded = async move { operation.await.map_or_else(|error| error.0, |()| 0) };
    Ok(queue.launch_task(place, ev, Task::new(coded, |error| Errno::from(error).0))?)
}

/// An operation of the client's queue as a part of one of several requests, which gives way until it has ended. All of a pool
/// share one queue.
///
/// # Errors
/// Those of `start`, and of a pool whose limit of queues is reached.
pub(crate) async fn ending_of(
    pool: &PoolHandle,
    start: impl FnOnce(&mut dolmen_client::Event) -> Result<()>,
) -> Result<Ending> {
    let mut event = pool.steps()?.event()?;
    start(&mut event)?;
    loop {
        give_way().await;
        if event.test(Wait::No)? {
            let result = event.take_result().unwrap_or(Err(dolmen_client::Error::Canceled));
            return Ok(Ending { result, buf: event.take_buf() });
        }
    }
}

/// Carries an operation out now, and ends its event when somebody polls or tests: for what only changes this process's
/// part of a transaction, in which the order of calls counts.
///
/// # Errors
/// Without an event, those of the operation; with one, `NO_PERM` if it cannot be launched.
pub(crate) fn at_once(ev: Ev, body: impl FnOnce() -> Result<()>) -> Result<()> {
    if ev.is_null() {
        return body();
    }
    ended_at_once(ev, || der(body))
}

/// As [`at_once`], for a `dfs_*` function that has nothing to ask: `read` reads in the call what that was given, and what is
/// wrong with it is not the event's.
pub(crate) fn at_once_posix<F>(ev: Ev, read: impl FnOnce() -> PosixResult<F>) -> c_int
where
    F: FnOnce() -> PosixResult<()>,
{
    errno(|| {
        let body = read()?;
        if ev.is_null() { body() } else { Ok(ended_at_once(ev, || errno(body))?) }
    })
}

fn ended_at_once(ev: Ev, body: impl FnOnce() -> c_int) -> Result<()> {
    let (queue, place) = locate(ev)?;
    queue.check_ready(place)?;
    queue.end_later(place, ev, body())
}

/// Launches an operation of a pool: `start` submits it to the client's event, and `finish` makes its outcome the
/// program's when it has completed.
///
/// # Errors
/// What is wrong before anything was submitted; the event is not launched then.
pub(crate) fn launch(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    start: impl FnOnce(&mut dolmen_client::Event) -> Result<()>,
    finish: impl FnOnce(Ending) -> c_int + Send + 'static,
) -> Result<()> {
    launch_with(ev, pool, start, Finish::Boxed(Box::new(finish)))
}

/// As [`launch`], with one of the ends that need no memory of their own.
///
/// # Errors
/// As [`launch`].
pub(crate) fn launch_with(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    start: impl FnOnce(&mut dolmen_client::Event) -> Result<()>,
    finish: Finish,
) -> Result<()> {
    let (queue, place) = locate(ev)?;
    queue.launch(place, ev, pool, start, finish)
}

/// Launches an operation of several requests: `step` takes each answer, and says what is asked next.
///
/// # Errors
/// As [`launch`].
pub(crate) fn launch_chain(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    start: impl FnOnce(&mut dolmen_client::Event) -> Result<()>,
    step: impl FnMut(Ending) -> Result<Chained> + Send + 'static,
) -> Result<()> {
    launch_chain_with(ev, pool, Der::code, start, step)
}

/// As [`launch_chain`]; `code` makes errors of ours the event's.
///
/// # Errors
/// As [`launch`].
pub(crate) fn launch_chain_with(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    code: fn(Der) -> c_int,
    start: impl FnOnce(&mut dolmen_client::Event) -> Result<()>,
    step: impl FnMut(Ending) -> Result<Chained> + Send + 'static,
) -> Result<()> {
    launch_with(ev, pool, start, Finish::Chain(Box::new(Chain::new(pool, code, step))))
}

/// Launches an operation whose parts are under way side by side; `end` makes one error of all endings.
///
/// # Errors
/// As [`launch`]; what `start` answers for the only part. Of several, that becomes the error of the event.
pub(crate) fn launch_parts<P>(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    mut parts: Vec<P>,
    mut start: impl FnMut(&mut dolmen_client::Event, P) -> Result<()>,
    end: impl FnOnce(Vec<Ending>) -> c_int + Send + 'static,
) -> Result<()> {
    if parts.len() > 1 {
        let (queue, place) = locate(ev)?;
        return queue.launch_parts(place, ev, pool, parts, &mut start, Box::new(end));
    }
    match parts.pop() {
        Some(part) => launch(ev, pool, |event| start(event, part), |ending| end(vec![ending])),
        None => crate::io::code(run(ev, || crate::io::code(end(Vec::new())))),
    }
}

/// Launches an operation of requests side by side: `step` takes the answers of each round, and says what is asked next. `code`
/// makes errors of ours the event's.
///
/// REQUIRES: there is a request.
///
/// # Errors
/// `NO_PERM` if the event cannot be launched.
pub(crate) fn launch_rounds(
    ev: Ev,
    pool: &Arc<PoolHandle>,
    code: fn(Der) -> c_int,
    first: Vec<Start>,
    step: Step,
) -> Result<()> {
    let (queue, place) = locate(ev)?;
    queue.launch_rounds(place, ev, first, &Arc::new(Rounds::new(pool, code, step)))
}

/// Makes a queue on which events complete.
#[unsafe(no_mangle)]
extern "C" fn daos_eq_create(eqh: Out<Handle>) -> c_int {
    der(|| {
        life::check()?;
        let eqh = eqh.check()?;
        eqh.set(handle::insert(Entry::Queue(Arc::default()))?)
    })
}

/// Gives a queue up; by force only after what is under way has ended, be it as called off, since that looks at the program's
/// memory. A callback cannot wait for that.
#[unsafe(no_mangle)]
extern "C" fn daos_eq_destroy(eqh: Handle, flags: c_int) -> c_int {
    der(|| {
        let queue = handle::queue(eqh)?;
        let is_kept = flags & DESTROY_FORCE == 0 && !queue.is_idle();
        if is_kept || (is_in_callback() && queue.is_under_way()) {
            return Err(Der::BUSY);
        }
        let Entry::Queue(queue) = handle::remove(eqh, |entry| matches!(entry, Entry::Queue(_)))? else {
            return Err(Der::NO_HDL);
        };
        queue.drain();
        Ok(())
    })
}

/// Waits for completed events and takes them off the queue.
#[unsafe(no_mangle)]
extern "C" fn daos_eq_poll(
    eqh: Handle,
    wait_running: c_int,
    timeout: i64,
    nevents: c_uint,
    events: Out<Ev>,
) -> c_int {
    number(|| {
        if nevents == 0 || timeout < -1 {
            return Err(Der::INVAL);
        }
        let events = events.check()?;
        let queue = handle::queue(eqh)?;
        let found = queue.poll(wait_running != 0, timeout, nevents as usize)?;
        events.copy_from(&found)?;
        c_int::try_from(found.len()).map_err(|_wide| Der::OVERFLOW)
    })
}

/// Counts, and tells, the events of a queue that are completed (1), under way (2), or both.
#[unsafe(no_mangle)]
extern "C" fn daos_eq_query(eqh: Handle, query: c_uint, nevents: c_uint, events: Out<Ev>) -> c_int {
    number(|| {
        let queue = handle::queue(eqh)?;
        let found = queue.list(query & 1 != 0, query & 2 != 0);
        if events.is_null() || nevents == 0 {
            return c_int::try_from(found.len()).map_err(|_wide| Der::OVERFLOW);
        }
        let told = &found[..found.len().min(nevents as usize)];
        events.copy_from(told)?;
        c_int::try_from(told.len()).map_err(|_wide| Der::OVERFLOW)
    })
}

/// Makes an event: on a queue, or on none; below a parent, or not.
#[unsafe(no_mangle)]
extern "C" fn daos_event_init(ev: Ev, eqh: Handle, parent: Ev) -> c_int {
    der(|| {
        life::check()?;
        let ev = ev.check()?;
        let (queue, cookie, parent) = if parent.is_null() {
            let queue = if eqh.cookie == 0 { unqueued() } else { handle::queue(eqh)? };
            (queue, eqh.cookie, None)
        } else {
            let (queue, place) = locate(parent)?;
            (queue, words(parent)?[1], Some(place))
        };
        let place = queue.insert(ev, parent)?;
        let mut private = [0; 20];
        private[..3].copy_from_slice(&[MAGIC, cookie, place.word()]);
        ev.set(CEvent { error: 0, private, debug: 0 })
    })
}

/// Ends an event.
#[unsafe(no_mangle)]
extern "C" fn daos_event_fini(ev: Ev) -> c_int {
    der(|| {
        match locate(ev) {
            Ok((queue, place)) => queue.remove(place)?,
            // Its queue was given up before it, and it with the queue.
            Err(Der::NO_HDL) => {}
            Err(other) => return Err(other),
        }
        ev.set(CEvent { private: [0; 20], ..ev.get()? })
    })
}

/// The child after `*child`, or the first for NULL; NULL after the last.
#[unsafe(no_mangle)]
extern "C" fn daos_event_next(parent: Ev, child: Out<Ev>) -> c_int {
    der(|| {
        let (queue, place) = locate(parent)?;
        let before = child.get()?;
        let before = if before.is_null() { None } else { Some(locate(before)?.1) };
        child.set(queue.child_after(place, before)?)
    })
}

/// Waits for one event and tells whether it has completed.
#[unsafe(no_mangle)]
extern "C" fn daos_event_test(ev: Ev, timeout: i64, flag: Out<bool>) -> c_int {
    der(|| {
        if timeout < -1 {
            return Err(Der::INVAL);
        }
        let flag = flag.check()?;
        let (queue, place) = locate(ev)?;
        flag.set(queue.test(place, timeout)?)
    })
}

/// Launches a parent as the group of its children.
#[unsafe(no_mangle)]
extern "C" fn daos_event_parent_barrier(ev: Ev) -> c_int {
    der(|| {
        let (queue, place) = locate(ev)?;
        queue.barrier(place, ev)
    })
}

/// Calls a function when the event completes.
#[unsafe(no_mangle)]
extern "C" fn daos_event_register_comp_cb(
    ev: Ev,
    callback: Option<extern "C" fn(Out<u8>, Ev, c_int) -> c_int>,
    argument: Out<u8>,
) -> c_int {
    der(|| {
        let function = callback.ok_or(Der::INVAL)?;
        let (queue, place) = locate(ev)?;
        queue.add_callback(place, Callback { function, argument })
    })
}

/// Does nothing: what is under way completes.
#[unsafe(no_mangle)]
extern "C" fn daos_event_abort(ev: Ev) -> c_int {
    der(|| locate(ev).map(drop))
}
