//! A pool, or a part of one, at one engine.

use super::PoolRef;
use super::link::Link;
use super::session::{Attached, Opened};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::wire::{PoolConnection, PoolName, PoolSlot, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport, Way, now};
use dolmen_types::{ContNo, Error, Head, Invalid, Result};
use std::collections::BTreeMap;

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
        match link.ask_system_by(way, head, &connect).await? {
            SystemReply::Connected(connected) => {
                // Whatever name it was found by: when it is opened again, it is this pool or none.
                let connect = match connect {
                    SystemVerb::PoolConnect { access, .. } => {
                        SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access }
                    }
                    other => other,
                };
                let attached = Attached {
                    slot: connected.slot,
                    connect,
                    head: *head,
                    conts: BTreeMap::new(),
                    evicting: BTreeMap::new(),
                    refused: None,
                    is_opening: false,
                };
                let is_left = AtomicBool::new(false);
                let door = Self { link: link.clone(), pool: link.attach(attached), head: *head, is_left };
                Ok((door, *connected))
            }
            _ => Err(super::unexpected()),
        }
    }

    /// The connection.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Containers that are open through it.
    pub(super) fn conts(&self) -> Vec<(ContNo, Opened)> {
        let list =
            |attached: &mut Attached| attached.conts.iter().map(|(&no, &opened)| (no, opened)).collect();
        let none: Vec<(ContNo, Opened)> = Vec::new();
        self.link.with_pool(self.pool, list).unwrap_or(none)
    }

    /// One of these.
    pub(super) fn cont(&self, no: ContNo) -> Option<Opened> {
        self.link.with_pool(self.pool, |attached| attached.conts.get(&no).copied())?
    }

    /// Opens a container at an engine with a part of the pool as it is open where the pool's service is, for the client that
    /// `head` names. Without a connection it is opened with the next one.
    ///
    /// # Errors
    /// `NoPermission`, `NotFound`; `Unreachable` and `Busy` if the part cannot ask the service.
    pub(super) fn open_as(&self, no: ContNo, home: Opened, head: &Head) -> Result<()> {
        let asks = self.link.note_open(self.pool, no, home, head.id.client);
        if !asks {
            return Ok(());
        }
        let ask = |verb| self.link.call(self.pool, Request { token: 0, head: *head, ask: Ask::Pool(verb) });
        let open = PoolVerb::ContOpen(ContName::Uuid(home.uuid), OpenFor::Any);
        match ask(open).result {
            Ok(Answer::Pool(PoolReply::Cont(handle))) if handle.no == no => {
                if Evictions::of(&handle.props).count(head.cred.uid) != home.evictions {
                    // It was taken away at the other engine meanwhile, which says so.
                    self.close_as(no, head);
                }
                Ok(())
            }
            // Ignored: it is opened with the next connection.
            Err(Error::Unreachable { rank }) if rank == self.link.rank() => Ok(()),
            // It opens none: it speaks the version of the wire before, or the service does. Who is let in there needs none.
            Err(Error::Invalid(Invalid::Argument)) => Ok(()),
            other => {
                self.link.with_pool(self.pool, |attached| attached.conts.remove(&no));
                other.and(Err(super::unexpected()))
            }
        }
    }

    /// Gives the container back that was opened so.
    pub(super) fn close_as(&self, no: ContNo, head: &Head) {
        let known = self.link.with_pool(self.pool, |attached| attached.conts.remove(&no)).flatten();
        if known.is_some() {
            // Ignored: a handle that cannot be given back ends with the connection.
            let ask = Ask::Pool(PoolVerb::ContClose(no));
            let _closed = self.link.call(self.pool, Request { token: 0, head: *head, ask });
        }
    }

    /// Gives a handle back that is of no use without those at other engines.
    pub(super) fn give_back(&self, no: ContNo) {
        // Ignored: it ends with the connection.
        let ask = Ask::Pool(PoolVerb::ContClose(no));
        let _closed = self.call(Request { token: 0, head: self.head(), ask });
    }

    /// Whose containers they are: an engine leaves those of a client alone that has others' handles taken.
    fn note_client(&self, head: &Head) {
        self.link.with_pool(self.pool, |attached| attached.head.id.client = head.id.client);
    }

    /// On whose behalf it was opened, with the number of the client since it has one.
    pub(super) fn head(&self) -> Head {
        self.link.with_pool(self.pool, |attached| attached.head).unwrap_or(self.head)
    }

    /// Handles of this client go on after an eviction that it has asked for.
    pub(super) fn goes_on(&self, handle: &ContHandle) {
        self.link.with_pool(self.pool, |attached| attached.evicted(handle));
    }

    /// Gives the pool back, on a way of the caller's; whatever is asked of it then fails.
    pub async fn leave(&self, way: Way) {
        if !self.is_left.swap(true, Ordering::AcqRel) {
            self.link.detach(way, self.pool, &self.head).await;
        }
    }

    /// The number under which the daemon knows the pool on this connection.
    #[must_use]
    pub fn slot(&self) -> Option<PoolSlot> {
        self.link.with_pool(self.pool, |attached| attached.slot)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        now(self.leave(Way::Now));
    }
}

/// What a question does to the handles that are to be opened again.
enum Handles {
    Opens,
    Evicts(ContNo),
    Closes(ContNo),
}

impl Transport for Door {
    fn call(&self, request: Request<'_>) -> Outcome {
        let handles = match &request.ask {
            Ask::Pool(PoolVerb::ContOpen(..)) => {
                self.note_client(&request.head);
                Handles::Opens
            }
            Ask::Pool(PoolVerb::ContEvict(cont, _)) => Handles::Evicts(*cont),
            Ask::Pool(PoolVerb::ContClose(cont)) => Handles::Closes(*cont),
            _ => return self.link.call(self.pool, request),
        };
        if let Handles::Evicts(cont) = handles {
            self.link.with_pool(self.pool, |attached| attached.evicts(cont));
        }
        let outcome = self.link.call(self.pool, request);
        match (&outcome.result, &handles) {
            (Ok(Answer::Pool(PoolReply::Cont(handle))), Handles::Opens) => {
                self.link.with_pool(self.pool, |attached| attached.opened(handle));
            }
            (Ok(Answer::Pool(PoolReply::Cont(handle))), Handles::Evicts(_)) => {
                self.link.with_pool(self.pool, |attached| attached.evicted(handle));
            }
            (Ok(_), Handles::Closes(cont)) => {
                self.link.with_pool(self.pool, |attached| attached.closed(*cont));
            }
            _ => {}
        }
        if let Handles::Evicts(cont) = handles {
            self.link.with_pool(self.pool, |attached| attached.has_evicted(cont));
        }
        outcome
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

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.link.poll(queue, wait, out);
    }
}

impl core::fmt::Debug for Door {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Door").field("pool", &self.pool).finish_non_exhaustive()
    }
}
