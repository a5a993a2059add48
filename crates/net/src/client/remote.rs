//! A pool behind connections: one to the engine with its service, and one to each other engine that has targets of it; one
//! that is not there when the pool is opened is tried again when it is asked.

use super::door::Door;
use super::link::Link;
use super::reach;
use crate::slots::Slots;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::verb::Reply;
use dolmen_codec::wire::{PoolAccess, PoolConnection, PoolName, PoolSlot, RankInfo, SystemVerb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport, Way, now};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{ContNo, Error, Head, Label, PoolMap, Result, TargetNo};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Looks at several connections before a thread that waits rests between two of them.
const LOOKS: u32 = 64;

/// How long it rests then: as long as a call across processors takes.
const REST: core::time::Duration = core::time::Duration::from_micros(30);

/// How long an engine that could not be reached is not tried again: who launches many requests waits for it once.
const FAILED_NS: u64 = 1_000_000_000;

/// How often to ask an engine that was just started for its part of a pool, and how long to rest in between.
const OPENING_LOOKS: u32 = 200;
const OPENING_REST: core::time::Duration = core::time::Duration::from_millis(25);

/// A pool of a system, as a client's `Transport`. `Send` and `Sync`; it is left when it is dropped.
pub struct Remote {
    home: Door,
    map: PoolMap,
    label: Option<Label>,
    spread: Option<Spread>,
}

/// What a pool on several engines needs.
struct Spread {
    others: Vec<Other>,
    /// By target: which of the others has it; `None` for the service's engine.
    places: Vec<Option<usize>>,
    /// The newest epoch that a target has answered with.
    seen: Arc<AtomicU64>,
    /// Guards the list of queues; taken before all other locks.
    queues: Mutex<Slots<Arc<Queue>>>,
}

/// Another engine with targets of the pool.
struct Other {
    rank: RankInfo,
    link: Link,
    connect: SystemVerb,
    head: Head,
    door: OnceLock<Door>,
    /// Guards the making of the door, so that it is made once, and what is open through it; and when it could not be made
    /// last, and why.
    making: Mutex<Option<(u64, Error)>>,
}

/// A completion queue at all engines.
struct Queue {
    home: QueueId,
    others: Vec<OnceLock<QueueId>>,
    /// Guards outcomes of requests that found no engine.
    failed: Mutex<Vec<Outcome>>,
    /// Guards the tokens of requests that take others' handles: their answers are containers that are open already.
    evicts: Mutex<Vec<u64>>,
}

impl Remote {
    /// Opens a pool; `link` leads to an engine that has targets of it.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission`; `Unreachable`.
    pub fn open(link: &Link, head: &Head, name: PoolName, access: PoolAccess) -> Result<Self> {
        now(Self::open_by(Way::Now, link, head, name, access))
    }

    /// As [`Remote::open`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub async fn open_by(
        way: Way,
        link: &Link,
        head: &Head,
        name: PoolName,
        access: PoolAccess,
    ) -> Result<Self> {
        let connect = SystemVerb::PoolConnect { name, access };
        let (mut home, mut connected) = Door::open_by(way, link, head, connect).await?;
        // Who may have the pool alone is for the engine with its service to say.
        let elsewhere = if access == PoolAccess::Exclusive { PoolAccess::ReadWrite } else { access };
        let connect = SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access: elsewhere };
        let service = connected.map.targets.first().map_or(0, |target| target.rank);
        if service != link.rank() {
            let info = info_of(&connected.ranks, service)?;
            let reached = reach::rank_by(way, link, info).await;
            let link = reached.map_err(|_gone| Error::Unreachable { rank: service })?;
            let again = SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access };
            (home, connected) = Door::open_by(way, &link, head, again).await?;
        }
        let spread = Spread::of(&connected, &home, connect, head)?;
        for other in spread.iter().flat_map(|spread| &spread.others) {
            // Ignored: one that is not there is told to whoever needs it; the others are reached without waiting later.
            let _reached = match way {
                Way::Now => other.door(&home).map(drop),
                Way::Later => other.open_door(way, &home).await.map(drop),
            };
        }
        let PoolConnection { map, label, .. } = connected;
        Ok(Self { home, map, label, spread })
    }

    /// Gives the pool back at all engines, on a way of the caller's; whatever is asked of it then fails.
    pub async fn leave(&self, way: Way) {
        let others = self.spread.iter().flat_map(|spread| &spread.others);
        for door in others.filter_map(|other| other.door.get()) {
            door.leave(way).await;
        }
        self.home.leave(way).await;
    }

    /// The pool's map when it was opened.
    #[must_use]
    pub fn map(&self) -> &PoolMap {
        &self.map
    }

    /// The pool's label.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        self.label.as_ref()
    }

    /// The connection to the engine with the pool's service.
    #[must_use]
    pub fn link(&self) -> &Link {
        self.home.link()
    }

    /// The number under which that engine knows the pool on this connection.
    #[must_use]
    pub fn slot(&self) -> Option<PoolSlot> {
        self.home.slot()
    }
}

fn info_of(ranks: &[RankInfo], rank: u32) -> Result<&RankInfo> {
    ranks.iter().find(|info| info.rank == rank).ok_or(Error::Unreachable { rank })
}

impl Spread {
    /// `None` if one engine has all targets.
    fn of(pool: &PoolConnection, home: &Door, connect: SystemVerb, head: &Head) -> Result<Option<Self>> {
        let service = home.link().rank();
        let mut others: Vec<Other> = Vec::new();
        let mut places = Vec::with_capacity(pool.map.targets.len());
        for target in &pool.map.targets {
            let known = others.iter().position(|other| other.rank.rank == target.rank);
            places.push(match known {
                _ if target.rank == service => None,
                Some(at) => Some(at),
                None => {
                    others.push(Other {
                        rank: info_of(&pool.ranks, target.rank)?.clone(),
                        link: home.link().clone(),
                        connect: connect.clone(),
                        head: *head,
                        door: OnceLock::new(),
                        making: Mutex::new(None),
                    });
                    Some(others.len() - 1)
                }
            });
        }
        if others.is_empty() {
            return Ok(None);
        }
        let seen = home.link().seen();
        Ok(Some(Self { others, places, seen, queues: Mutex::default() }))
    }

    /// Who has a target; an unknown one is refused by the service's engine.
    fn place(&self, target: TargetNo) -> Option<usize> {
        self.places.get(target.index()).copied().flatten()
    }

    fn saw(&self, outcome: &Outcome) {
        if let Ok(Answer::Target(Reply::Written(epoch))) = outcome.result {
            self.seen.fetch_max(epoch.0, Ordering::Relaxed);
        }
    }

    fn queues(&self) -> MutexGuard<'_, Slots<Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.queues().of(queue.0 as usize).cloned()
    }

    fn open_queue(&self, home: &Door) -> Result<QueueId> {
        let others = self.others.iter().map(|_| OnceLock::new()).collect();
        let queue =
            Queue { home: home.open_queue()?, others, failed: Mutex::default(), evicts: Mutex::default() };
        let at = self.queues().insert(Arc::new(queue));
        Ok(QueueId(u32::try_from(at).expect("an engine limits queues further below")))
    }

    fn close_queue(&self, home: &Door, queue: QueueId) {
        let Some(queue) = self.queues().remove(queue.0 as usize) else { return };
        home.close_queue(queue.home);
        for (other, queue) in self.others.iter().zip(&queue.others) {
            if let (Some(door), Some(queue)) = (other.door.get(), queue.get()) {
                door.close_queue(*queue);
            }
        }
    }

    fn submit(&self, home: &Door, queue: QueueId, request: Request<'static>) {
        let Some(queue) = self.queue(queue) else { return };
        if let Ask::Pool(PoolVerb::ContClose(cont)) = &request.ask {
            let (cont, head) = (*cont, request.head);
            home.submit(queue.home, request);
            return self.close(home, cont, &head);
        }
        if let Ask::Pool(PoolVerb::ContEvict(..)) = &request.ask {
            queue.evicts().push(request.token);
        }
        let Ask::Target(target, ..) = &request.ask else { return home.submit(queue.home, request) };
        let Some(at) = self.place(*target) else { return home.submit(queue.home, request) };
        match self.others[at].door_and_queue(home, &queue.others[at]) {
            Ok((door, queue)) => door.submit(queue, request),
            Err(error) => queue.failed().push(request.refused(error)),
        }
    }

    fn poll(&self, home: &Door, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let Some(queue) = self.queue(queue) else { return };
        let (before, mut looks) = (out.len(), 0);
        loop {
            out.append(&mut queue.failed());
            let mut under_way = 0;
            let mut only = None;
            for (door, id) in self.ends(home, &queue) {
                door.poll(id, false, out);
                if door.link().has_under_way(id) {
                    (under_way, only) = (under_way + 1, Some((door, id)));
                }
            }
            out[before..].iter().for_each(|outcome| self.saw(outcome));
            out[before..].iter_mut().for_each(|outcome| self.open_elsewhere(home, &queue, outcome));
            if out.len() > before || under_way == 0 || !wait {
                return;
            }
            match only {
                Some((door, id)) if under_way == 1 => door.poll(id, true, out),
                _ if looks < LOOKS => dolmen_env::yield_now(),
                _ => dolmen_env::wait(REST),
            }
            looks += 1;
        }
    }

    /// Opens a container that was opened by a request of a queue at the other engines, too. One that was made is not open.
    fn open_elsewhere(&self, home: &Door, queue: &Queue, outcome: &mut Outcome) {
        let Ok(Answer::Pool(PoolReply::Cont(handle))) = &outcome.result else { return };
        let no = handle.no;
        let mut evicts = queue.evicts();
        if let Some(at) = evicts.iter().position(|token| *token == outcome.token) {
            evicts.swap_remove(at);
            return self
                .others
                .iter()
                .filter_map(|other| other.door.get())
                .for_each(|door| door.goes_on(handle));
        }
        drop(evicts);
        if let Err(error) = self.open(home, no, &home.head()) {
            home.give_back(no);
            outcome.result = Err(error);
        }
    }

    /// Opens a container at the other engines that is open where the pool's service is.
    fn open(&self, home: &Door, no: ContNo, head: &Head) -> Result<()> {
        self.others.iter().try_for_each(|other| {
            other.with_door(|door| match home.cont(no) {
                Some(opened) => door.open_as(no, opened, head),
                // Another thread has closed it.
                None => Ok(()),
            })
        })
    }

    /// Closes a container at the other engines unless it is open still where the pool's service is.
    fn close(&self, home: &Door, no: ContNo, head: &Head) {
        for other in &self.others {
            let close = |door: &Door| {
                if home.cont(no).is_none() {
                    door.close_as(no, head);
                }
                Ok(())
            };
            // Never fails: what is closed so ends with the connection at the latest.
            let _closed = other.with_door(close);
        }
    }

    /// The queue at each engine that was asked by it.
    fn ends<'s>(&'s self, home: &'s Door, queue: &'s Queue) -> impl Iterator<Item = (&'s Door, QueueId)> {
        let others = self.others.iter().zip(&queue.others);
        let others = others.filter_map(|(other, queue)| Some((other.door.get()?, *queue.get()?)));
        core::iter::once((home, queue.home)).chain(others)
    }
}

impl Queue {
    fn evicts(&self) -> MutexGuard<'_, Vec<u64>> {
        self.evicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Other {
    /// The way to the engine, made if there is none yet, with what is open where the pool's service is.
    fn door(&self, home: &Door) -> Result<&Door> {
        if let Some(door) = self.door.get() {
            return Ok(door);
        }
        let mut failed = self.making();
        if let Some(door) = self.door.get() {
            return Ok(door);
        }
        let now_ns = RealClock.monotonic_ns();
        if let Some((failed_ns, error)) = &*failed
            && now_ns.saturating_sub(*failed_ns) < FAILED_NS
        {
            return Err(error.clone());
        }
        let made = now(self.open_door(Way::Now, home));
        *failed = made.as_ref().err().map(|error| (RealClock.monotonic_ns(), error.clone()));
        made
    }

    fn making(&self) -> MutexGuard<'_, Option<(u64, Error)>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the door if there is one; while it is made, waits, and what is open then is opened by who makes it.
    fn with_door(&self, body: impl FnOnce(&Door) -> Result<()>) -> Result<()> {
        let _making = self.making();
        self.door.get().map_or(Ok(()), body)
    }

    async fn open_door(&self, way: Way, home: &Door) -> Result<&Door> {
        let unreachable = || Error::Unreachable { rank: self.rank.rank };
        let link = reach::rank_by(way, &self.link, &self.rank).await.map_err(|_gone| unreachable())?;
        for _ in 0..OPENING_LOOKS {
            match Door::open_by(way, &link, &self.head, self.connect.clone()).await {
                // The service's engine has not opened it yet.
                Err(Error::Busy) => reach::rest(way, OPENING_REST).await,
                opened => {
                    let (door, _) = opened?;
                    for (no, opened) in home.conts() {
                        // Ignored: whoever uses one that cannot be opened there is told so.
                        let _opened = door.open_as(no, opened, &home.head());
                    }
                    return Ok(self.door.get_or_init(|| door));
                }
            }
        }
        Err(unreachable())
    }

    fn door_and_queue(&self, home: &Door, queue: &OnceLock<QueueId>) -> Result<(&Door, QueueId)> {
        let door = self.door(home)?;
        if let Some(queue) = queue.get() {
            return Ok((door, *queue));
        }
        let _making = self.making();
        if let Some(queue) = queue.get() {
            return Ok((door, *queue));
        }
        let opened = door.open_queue()?;
        Ok((door, *queue.get_or_init(|| opened)))
    }
}

impl Spread {
    /// Asks the pool's service, and has handles at the other engines follow those that it gives, takes and ends.
    fn ask_home(&self, home: &Door, request: Request<'_>) -> Outcome {
        let (head, closes) = match &request.ask {
            Ask::Pool(PoolVerb::ContClose(no)) => (request.head, Some(*no)),
            Ask::Pool(PoolVerb::ContOpen(..) | PoolVerb::ContEvict(..)) => (request.head, None),
            _ => return home.call(request),
        };
        let evicts = matches!(request.ask, Ask::Pool(PoolVerb::ContEvict(..)));
        let mut outcome = home.call(request);
        match (&outcome.result, closes) {
            (Ok(_), Some(no)) => self.close(home, no, &head),
            (Ok(Answer::Pool(PoolReply::Cont(handle))), None) if evicts => {
                let doors = self.others.iter().filter_map(|other| other.door.get());
                doors.for_each(|door| door.goes_on(handle));
            }
            (Ok(Answer::Pool(PoolReply::Cont(handle))), None) => {
                let no = handle.no;
                if let Err(error) = self.open(home, no, &head) {
                    home.give_back(no);
                    outcome.result = Err(error);
                }
            }
            _ => {}
        }
        outcome
    }
}

impl Transport for Remote {
    fn call(&self, request: Request<'_>) -> Outcome {
        let Some(spread) = &self.spread else { return self.home.call(request) };
        let at = match &request.ask {
            Ask::Target(target, ..) => spread.place(*target),
            Ask::Pool(_) => return spread.ask_home(&self.home, request),
        };
        let door = match at.map(|at| spread.others[at].door(&self.home)) {
            None => &self.home,
            Some(Ok(door)) => door,
            Some(Err(error)) => return request.refused(error),
        };
        let outcome = door.call(request);
        spread.saw(&outcome);
        outcome
    }

    fn open_queue(&self) -> Result<QueueId> {
        match &self.spread {
            None => self.home.open_queue(),
            Some(spread) => spread.open_queue(&self.home),
        }
    }

    fn close_queue(&self, queue: QueueId) {
        match &self.spread {
            None => self.home.close_queue(queue),
            Some(spread) => spread.close_queue(&self.home, queue),
        }
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        match &self.spread {
            None => self.home.submit(queue, request),
            Some(spread) => spread.submit(&self.home, queue, request),
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        match &self.spread {
            None => self.home.poll(queue, wait, out),
            Some(spread) => spread.poll(&self.home, queue, wait, out),
        }
    }
}

impl core::fmt::Debug for Remote {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Remote").field("pool", &self.map.pool).finish_non_exhaustive()
    }
}
