//! A pool, or a part of one, at one engine.

use super::PoolRef;
use super::link::Link;
use super::session::Attached;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::wire::{PoolConnection, PoolName, PoolSlot, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_types::{Head, Result};
use std::collections::BTreeMap;

/// What one engine has of a pool, as a `Transport`. `Send` and `Sync`; it is left when it is dropped.
pub struct Door {
    link: Link,
    pool: PoolRef,
    head: Head,
}

impl Door {
    /// Opens a pool over a connection, and says what it is.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission`; `Unreachable`.
    pub fn open(link: &Link, head: &Head, connect: SystemVerb) -> Result<(Self, PoolConnection)> {
        match link.ask_system(head, &connect)? {
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
                    refused: None,
                    is_opening: false,
                };
                let door = Self { link: link.clone(), pool: link.attach(attached), head: *head };
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

    /// The number under which the daemon knows the pool on this connection.
    #[must_use]
    pub fn slot(&self) -> Option<PoolSlot> {
        self.link.with_pool(self.pool, |attached| attached.slot)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.link.detach(self.pool, &self.head);
    }
}

/// What a question does to the handles that are to be opened again.
enum Handles {
    Opens,
    Evicts,
    Closes(dolmen_types::ContNo),
}

impl Transport for Door {
    fn call(&self, request: Request<'_>) -> Outcome {
        let handles = match &request.ask {
            Ask::Pool(PoolVerb::ContOpen(..)) => Handles::Opens,
            Ask::Pool(PoolVerb::ContEvict(..)) => Handles::Evicts,
            Ask::Pool(PoolVerb::ContClose(cont)) => Handles::Closes(*cont),
            _ => return self.link.call(self.pool, request),
        };
        let outcome = self.link.call(self.pool, request);
        match (&outcome.result, handles) {
            (Ok(Answer::Pool(PoolReply::Cont(handle))), Handles::Opens) => {
                self.link.with_pool(self.pool, |attached| attached.opened(handle));
            }
            (Ok(Answer::Pool(PoolReply::Cont(handle))), Handles::Evicts) => {
                self.link.with_pool(self.pool, |attached| attached.evicted(handle));
            }
            (Ok(_), Handles::Closes(cont)) => {
                self.link.with_pool(self.pool, |attached| attached.closed(cont));
            }
            _ => {}
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
