//! A pool behind connections.

use super::PoolRef;
use super::link::Link;
use super::session::Attached;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::wire::{PoolConnection, PoolSlot, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_types::{Head, Label, PoolMap, Result};
use std::collections::BTreeMap;

/// A pool of a daemon, as a client's `Transport`. `Send` and `Sync`; it is left when it is dropped.
pub struct Remote {
    link: Link,
    pool: PoolRef,
    head: Head,
    map: PoolMap,
    label: Option<Label>,
}

impl Remote {
    /// Opens a pool over a connection.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission`; `Unreachable`.
    pub fn open(link: &Link, head: &Head, connect: SystemVerb) -> Result<Self> {
        match link.ask_system(head, &connect)? {
            SystemReply::Connected(connected) => {
                let PoolConnection { slot, map, label, .. } = *connected;
                let attached = Attached { slot, connect, head: *head, conts: BTreeMap::new() };
                Ok(Self { link: link.clone(), pool: link.attach(attached), head: *head, map, label })
            }
            _ => Err(super::unexpected()),
        }
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

impl Drop for Remote {
    fn drop(&mut self) {
        self.link.detach(self.pool, &self.head);
    }
}

/// What a question does to the handles that are to be opened again.
enum Handles {
    Opens,
    Closes(dolmen_types::ContNo),
}

impl Transport for Remote {
    fn call(&self, request: Request<'_>) -> Outcome {
        let handles = match &request.ask {
            Ask::Pool(PoolVerb::ContOpen(_)) => Handles::Opens,
            Ask::Pool(PoolVerb::ContClose(cont)) => Handles::Closes(*cont),
            _ => return self.link.call(self.pool, request),
        };
        let outcome = self.link.call(self.pool, request);
        match (&outcome.result, handles) {
            (Ok(Answer::Pool(PoolReply::Cont(handle))), Handles::Opens) => {
                self.link.with_pool(self.pool, |attached| attached.opened(handle.no, handle.uuid));
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

impl core::fmt::Debug for Remote {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Remote").field("pool", &self.map.pool).finish_non_exhaustive()
    }
}
