//! Another engine with targets of a pool: the way to it, and the containers that are open there.
//!
//! Nobody waits in here. What takes a while is looked at again and again by whoever needs it, and by whom it was begun does not
//! matter: it goes on with anybody's looks.
//!
//! Invariants: the lock is held for moments; a container is asked for once at a time, and nobody uses it here before that is
//! answered; what two engines count of evictions is compared only if they take the caller for the same user.

use super::door::Door;
use super::link::Link;
use super::reopen::is_final;
use super::session::Opened;
use super::{reach, unexpected};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;
use dolmen_codec::pool::{ContHandle, PoolReply};
use dolmen_codec::wire::{RankInfo, SystemVerb};
use dolmen_codec::{Answer, QueueId, Transport, Way, step};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{ContNo, Error, Head, Invalid, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How long an engine that could not be reached is not tried again: who launches many requests waits for it once.
const FAILED_NS: u64 = 1_000_000_000;

/// How often to ask an engine that was just started for its part of a pool, and how long to rest in between.
const OPENING_LOOKS: u32 = 200;
const OPENING_REST: core::time::Duration = core::time::Duration::from_millis(25);

/// What is called when there is a way to another engine: one for all of a pool, and once somebody wants it.
pub(super) type Linked = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

/// Another engine with targets of the pool.
pub(super) struct Other {
    way: WayTo,
    linked: Linked,
    door: OnceLock<Door>,
    /// Whether there is a door, and every container that is open where the pool's service is may be used here.
    is_whole: AtomicBool,
    // Guards: what is under way; taken before the lock of a connection.
    state: Mutex<State>,
}

/// What it takes to come to it.
#[derive(Clone)]
struct WayTo {
    rank: RankInfo,
    link: Link,
    connect: SystemVerb,
    head: Head,
}

#[derive(Default)]
struct State {
    /// The door that is being made.
    coming: Option<Pin<Box<dyn Future<Output = Result<Door>> + Send>>>,
    /// When it could not be made last, and why.
    failed: Option<(u64, Error)>,
    /// Containers that are open where the pool's service is, and are opened here when they are used: the engine was away.
    owed: BTreeSet<ContNo>,
    /// Containers that are being opened.
    asked: BTreeMap<ContNo, Asked>,
}

/// A container that is being opened.
struct Asked {
    /// As it is open where the pool's service is.
    home: Opened,
    queue: QueueId,
    /// Whether it is open, and the service is asked if the caller has it still.
    is_open: bool,
}

impl Other {
    pub(super) fn new(
        rank: RankInfo,
        home: &Link,
        (connect, head): (SystemVerb, Head),
        linked: &Linked,
    ) -> Self {
        let way = WayTo { rank, link: home.clone(), connect, head };
        let (linked, is_whole) = (Arc::clone(linked), AtomicBool::new(false));
        Self { way, linked, door: OnceLock::new(), is_whole, state: Mutex::default() }
    }

    pub(super) fn rank(&self) -> u32 {
        self.way.rank.rank
    }

    /// The way to the engine, if there is one.
    pub(super) fn door(&self) -> Option<&Door> {
        self.door.get()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the way to it, on one of the caller's, before anybody else can.
    pub(super) async fn arrive(&self, way: Way, home: &Door) {
        let made = self.way.clone().arrive(way).await;
        // Ignored: one that is not there is told to whoever needs it.
        let _made = self.settle(home, &mut self.lock(), made);
    }

    /// The way to the engine, to use a container there that is open where the pool's service is.
    ///
    /// # Errors
    /// Why there is none, or the container cannot be opened.
    #[inline]
    pub(super) fn reach(&self, home: &Door, cont: ContNo) -> Poll<Result<&Door>> {
        match self.door.get() {
            Some(door) if self.is_whole.load(Ordering::Acquire) => Poll::Ready(Ok(door)),
            _ => self.reach_by_and_by(home, cont),
        }
    }

    #[cold]
    fn reach_by_and_by(&self, home: &Door, cont: ContNo) -> Poll<Result<&Door>> {
        let state = &mut *self.lock();
        let door = match self.door.get() {
            Some(door) => door,
            None => match self.go_on(home, state) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(made) => made?,
            },
        };
        if state.owed.contains(&cont) {
            match look(door, home, state, cont, &home.head()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) if !is_final(&error) => return Poll::Ready(Err(error)),
                // Whoever uses one that cannot be opened there is told so.
                Poll::Ready(_) => self.no_more_owed(state, cont),
            }
        }
        Poll::Ready(Ok(door))
    }

    fn owe(&self, state: &mut State, no: ContNo) {
        state.owed.insert(no);
        self.is_whole.store(false, Ordering::Release);
    }

    fn no_more_owed(&self, state: &mut State, no: ContNo) {
        state.owed.remove(&no);
        self.is_whole.store(state.owed.is_empty() && self.door.get().is_some(), Ordering::Release);
    }

    /// Goes on with the making of the door.
    fn go_on(&self, home: &Door, state: &mut State) -> Poll<Result<&Door>> {
        let now_ns = RealClock.monotonic_ns();
        if state.coming.is_none()
            && let Some((failed_ns, error)) = &state.failed
            && now_ns.saturating_sub(*failed_ns) < FAILED_NS
        {
            return Poll::Ready(Err(error.clone()));
        }
        let begin = || Box::pin(self.way.clone().arrive(Way::Later)) as Pin<Box<_>>;
        let Poll::Ready(made) = step(state.coming.get_or_insert_with(begin)) else { return Poll::Pending };
        state.coming = None;
        Poll::Ready(self.settle(home, state, made))
    }

    /// Takes a door into use; what is open where the pool's service is by now is to be opened through it.
    fn settle(&self, home: &Door, state: &mut State, made: Result<Door>) -> Result<&Door> {
        state.failed = made.as_ref().err().map(|error| (RealClock.monotonic_ns(), error.clone()));
        let door = self.door.get_or_init({
            let made = made?;
            || made
        });
        state.owed = home.conts().into_iter().collect();
        self.is_whole.store(state.owed.is_empty(), Ordering::Release);
        if let Some(call) = self.linked.get() {
            call();
        }
        Ok(door)
    }

    /// Opens a container that is open where the pool's service is, for the client that `head` names. An engine that is not
    /// there costs its targets: it is opened when it is used.
    ///
    /// # Errors
    /// `NoPermission`, `NotFound`; `Unreachable` and `Busy` if the part cannot ask the service.
    pub(super) fn open(&self, home: &Door, no: ContNo, head: &Head) -> Poll<Result<()>> {
        let state = &mut *self.lock();
        // Without a door, who makes it finds what is open.
        let Some(door) = self.door.get() else { return Poll::Ready(Ok(())) };
        sweep(door, home, state);
        if !door.link().is_up() && !state.asked.contains_key(&no) {
            self.owe(state, no);
            return Poll::Ready(Ok(()));
        }
        match look(door, home, state, no, head) {
            Poll::Ready(Err(Error::Unreachable { rank })) if rank == self.rank() => {
                self.owe(state, no);
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Closes a container unless it is open still where the pool's service is; the queue that the answers are on.
    pub(super) fn close(&self, home: &Door, no: ContNo, head: &Head) -> Option<(&Door, QueueId)> {
        let state = &mut *self.lock();
        if home.cont(no).is_some() {
            return None;
        }
        self.no_more_owed(state, no);
        let door = self.door.get()?;
        sweep(door, home, state);
        Some((door, door.close_all(no, head)?))
    }

    /// Handles of this client go on after an eviction that it has asked for.
    pub(super) fn goes_on(&self, home: &Door, handle: &ContHandle) {
        if let Some(door) = self.door.get() {
            door.goes_on(handle, door.is_like(home));
        }
    }
}

impl WayTo {
    async fn arrive(self, way: Way) -> Result<Door> {
        let unreachable = || Error::Unreachable { rank: self.rank.rank };
        let link = reach::rank_by(way, &self.link, &self.rank).await.map_err(|_gone| unreachable())?;
        for _ in 0..OPENING_LOOKS {
            match Door::open_by(way, &link, &self.head, self.connect.clone()).await {
                // The service's engine has not opened it yet.
                Err(Error::Busy) => reach::rest(way, OPENING_REST).await,
                opened => return Ok(opened?.0),
            }
        }
        Err(unreachable())
    }
}

/// Goes on with the opening of a container, as it is open where the pool's service is by now.
fn look(door: &Door, home: &Door, state: &mut State, no: ContNo, head: &Head) -> Poll<Result<()>> {
    // Another thread may have closed it.
    let Some(opened) = home.cont(no) else { return Poll::Ready(Ok(())) };
    if let Some(asked) = state.asked.get_mut(&no) {
        let is_this = (asked.home.uuid, asked.home.evictions) == (opened.uuid, opened.evictions);
        let Poll::Ready(result) = asked.look(door, home, no) else { return Poll::Pending };
        state.asked.remove(&no);
        if is_this || result.is_err() {
            return Poll::Ready(result);
        }
    }
    if door.has_as(no, opened) {
        return Poll::Ready(Ok(()));
    }
    match door.begin_open(opened.uuid, head) {
        Ok(queue) => {
            state.asked.insert(no, Asked { home: opened, queue, is_open: false });
            Poll::Pending
        }
        // There are too many queues: somebody else's is closed by and by.
        Err(Error::Busy) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// Takes answers in that nobody waits for any more.
fn sweep(door: &Door, home: &Door, state: &mut State) {
    state.asked.retain(|&no, asked| home.cont(no).is_some() || asked.look(door, home, no).is_pending());
}

impl Asked {
    fn look(&mut self, door: &Door, home: &Door, no: ContNo) -> Poll<Result<()>> {
        let at = if self.is_open { home } else { door };
        let Some(outcome) = at.answer(self.queue) else { return Poll::Pending };
        let handle = match outcome.result {
            Err(Error::NoHandle) if self.is_open => return self.end(door, no),
            _ if self.is_open => return Poll::Ready(Ok(())),
            Ok(Answer::Pool(PoolReply::Cont(handle))) if handle.no == no => handle,
            Ok(_) => return Poll::Ready(Err(unexpected())),
            // It opens none: it speaks the version of the wire before, or the service does. Who is let in there needs none.
            Err(Error::Invalid(Invalid::Argument)) => {
                door.note_open(no, self.home);
                return Poll::Ready(Ok(()));
            }
            Err(error) => return Poll::Ready(Err(error)),
        };
        door.opened_as(no, self.home);
        match home.cont(no) {
            None => self.end(door, no),
            // It was taken away at the other engine meanwhile, which says so.
            Some(_) if door.is_like(home) && !home.has_still(&self.home, &handle) => self.end(door, no),
            Some(_) if door.is_like(home) => Poll::Ready(Ok(())),
            Some(_) => self.ask_home(home, no),
        }
    }

    /// What the engines count is of two users: only the service says whether the caller has lost it meanwhile.
    fn ask_home(&mut self, home: &Door, no: ContNo) -> Poll<Result<()>> {
        match home.begin_look(no) {
            Ok(queue) => {
                (self.queue, self.is_open) = (queue, true);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Gives a container back that the caller has no more where the pool's service is.
    fn end(&self, door: &Door, no: ContNo) -> Poll<Result<()>> {
        if let Some(queue) = door.close_all(no, &door.head()) {
            door.close_queue(queue);
        }
        Poll::Ready(Ok(()))
    }
}
