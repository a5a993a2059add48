//! A pool, or a part of one, at one engine.

use super::PoolRef;
use super::link::Link;
use super::session::Opened;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolVerb};
use dolmen_codec::wire::{PoolConnection, SystemVerb};
use dolmen_codec::{Ask, Lease, Outcome, QueueId, Request, Transport, Way, now};
use dolmen_env::Address;
use dolmen_types::{ContNo, Error, Head, PropId, Result, TargetNo, Uuid};

/// What one engine has of a pool, as a `Transport`. `Send` and `Sync`; it is left when it is dropped.
pub struct Door {
    link: Link,
    pool: PoolRef,
    head: Head,
    /// Whether the pool was given back.
    is_left: AtomicBool,
}

impl Door {
    /// Opens a pool over a connection, and says what it is.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission`; `Unreachable`.
    pub fn open(link: &Link, head: &Head, connect: SystemVerb) -> Result<(Self, PoolConnection)> {
        now(Self::open_by(Way::Now, link, head, connect))
    }

    /// As [`Door::open`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Door::open`].
    pub async fn open_by(
        way: Way,
        link: &Link,
        head: &Head,
        connect: SystemVerb,
    ) -> Result<(Self, PoolConnection)> {
        let (pool, connected) = link.open_pool(way, head, connect).await?;
        let is_left = AtomicBool::new(false);
        Ok((Self { link: link.clone(), pool, head: *head, is_left }, connected))
    }

    /// The connection.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Containers that are open through it.
    pub(super) fn conts(&self) -> Vec<ContNo> {
        let none: Vec<ContNo> = Vec::new();
        self.link.with_pool(self.pool, |attached| attached.conts.keys().copied().collect()).unwrap_or(none)
    }

    /// One of these.
    pub(super) fn cont(&self, no: ContNo) -> Option<Opened> {
        self.link.with_pool(self.pool, |attached| attached.conts.get(&no).copied())?
    }

    /// Whether its engine takes the caller for the same user as that of `other`: he comes to both in the same way.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_socket = |door: &Self| matches!(door.link.way().0, Address::Unix(_));
        is_socket(self) == is_socket(other)
    }

    /// Sends a read of the present whose outcome goes to a queue, with a lease.
    pub(super) fn submit_leased(&self, queue: QueueId, request: Request<'static>) {
        self.link.submit_leased(self.pool, queue, request);
    }

    /// Asks, on a queue for that alone.
    ///
    /// # Errors
    /// `Busy` if there is no queue left.
    fn ask_aside(&self, head: &Head, verb: PoolVerb<'static>) -> Result<QueueId> {
        let queue = self.link.open_queue()?;
        self.submit(queue, Request { token: 0, head: *head, ask: Ask::Pool(verb) });
        Ok(queue)
    }

    /// The answer on such a queue, if it is there; the queue is closed then.
    pub(super) fn answer(&self, queue: QueueId) -> Option<Outcome> {
        let mut outcomes = Vec::new();
        self.link.poll(queue, false, &mut outcomes);
        let outcome = outcomes.pop()?;
        self.link.close_queue(queue);
        Some(outcome)
    }

    /// Begins to open a container at an engine with a part of the pool; the queue that the answer is on.
    ///
    /// # Errors
    /// `Busy` if there is no queue left.
    pub(super) fn begin_open(&self, uuid: Uuid, head: &Head) -> Result<QueueId> {
        self.ask_aside(head, PoolVerb::ContOpen(ContName::Uuid(uuid), OpenFor::Any))
    }

    /// Begins to look whether a container is open still; the queue that the answer is on.
    ///
    /// # Errors
    /// `Busy` if there is no queue left.
    pub(super) fn begin_look(&self, no: ContNo) -> Result<QueueId> {
        self.ask_aside(&self.head(), PoolVerb::ContProps(no, vec![PropId::CO_LABEL]))
    }

    /// Whether a container is open at an engine with a part as it is where the pool's service is.
    pub(super) fn has_as(&self, no: ContNo, home: Opened) -> bool {
        self.cont(no).is_some_and(|known| known.uuid == home.uuid && known.at_home == home.evictions)
    }

    /// A container that was opened just now is open as it is where the pool's service is.
    pub(super) fn opened_as(&self, no: ContNo, home: Opened) {
        self.link.with_pool(self.pool, |attached| {
            attached.conts.get_mut(&no).into_iter().for_each(|known| known.at_home = home.evictions);
        });
    }

    /// The same of one that is not opened, and may be used.
    pub(super) fn note_open(&self, no: ContNo, home: Opened) {
        let noted = Opened { count: 1, alone: OpenFor::Any, at_home: home.evictions, ..home };
        self.link.with_pool(self.pool, |attached| attached.conts.insert(no, noted));
    }

    /// Whether handles that were open are open still, going by one that the same user has opened elsewhere just now.
    pub(super) fn has_still(&self, opened: &Opened, elsewhere: &ContHandle) -> bool {
        self.link.with_pool(self.pool, |attached| attached.goes_on(opened, elsewhere)).unwrap_or(false)
    }

    /// Gives all handles on a container back; the queue that the answers are on. `None` if there are none, or nobody can be
    /// asked, and they end with the connection.
    pub(super) fn close_all(&self, no: ContNo, head: &Head) -> Option<QueueId> {
        let known = self.link.with_pool(self.pool, |attached| attached.conts.remove(&no))??;
        let queue = self.link.open_queue().ok()?;
        for _ in 0..known.count {
            self.submit(queue, Request { token: 0, head: *head, ask: Ask::Pool(PoolVerb::ContClose(no)) });
        }
        Some(queue)
    }

    /// Gives a handle back that is of no use without those at other engines; nobody looks at the answer.
    pub(super) fn give_back(&self, no: ContNo) {
        // Ignored: without a queue left it ends with the connection.
        let asked = self.ask_aside(&self.head(), PoolVerb::ContClose(no));
        asked.into_iter().for_each(|queue| self.link.close_queue(queue));
    }

    /// Whose containers they are: an engine leaves those of a client alone that has others' handles taken.
    fn note_client(&self, head: &Head) {
        self.link.with_pool(self.pool, |attached| attached.head.id.client = head.id.client);
    }

    /// On whose behalf it was opened, with the number of the client since it has one.
    pub(super) fn head(&self) -> Head {
        self.link.with_pool(self.pool, |attached| attached.head).unwrap_or(self.head)
    }

    /// Handles of this client go on after an eviction that it has asked for where the pool's service is. Whether the engine takes
    /// it for the same user.
    pub(super) fn goes_on(&self, handle: &ContHandle, is_like: bool) {
        self.link.with_pool(self.pool, |attached| attached.evicted_at_home(handle, is_like));
    }

    /// Gives the pool back, on a way of the caller's; whatever is asked of it then fails.
    pub async fn leave(&self, way: Way) {
        if !self.is_left.swap(true, Ordering::AcqRel) {
            self.link.detach(way, self.pool, &self.head).await;
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        now(self.leave(Way::Now));
    }
}

impl Transport for Door {
    fn call(&self, request: Request<'_>) -> Outcome {
        if matches!(request.ask, Ask::Pool(PoolVerb::ContOpen(..))) {
            self.note_client(&request.head);
        }
        self.link.call(self.pool, request)
    }

    fn call_leased(&self, request: Request<'_>) -> (Outcome, Option<Lease>) {
        self.link.call_leased(self.pool, request)
    }

    fn call_all(&self, requests: Vec<(Request<'static>, bool)>) -> Vec<(Outcome, Option<Lease>)> {
        self.link.call_all(self.pool, requests)
    }

    fn takes_gifts(&self, _target: TargetNo) -> Result<bool> {
        let knows = || self.link.welcome().map(|welcome| welcome.knows_gifts());
        if let Some(knows) = knows() {
            return Ok(knows);
        }
        // Over a connection that is made anew.
        self.link.ask_system(&Head::default(), &SystemVerb::Ping)?;
        knows().ok_or(Error::Unreachable { rank: self.link.rank() })
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.link.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.link.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        match &request.ask {
            Ask::Pool(PoolVerb::ContClose(cont)) => {
                self.link.with_pool(self.pool, |attached| attached.closed(*cont));
            }
            Ask::Pool(PoolVerb::ContOpen(..)) => self.note_client(&request.head),
            _ => {}
        }
        self.link.submit(self.pool, queue, request);
    }

    fn flush(&self) -> bool {
        self.link.flush()
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.link.poll(queue, wait, out);
    }
}

impl core::fmt::Debug for Door {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Door").field("pool", &self.pool).finish_non_exhaustive()
    }
}
