//! A pool that a connection uses, and the containers that it has open there.
//!
//! Invariants: what [`Holders`] have taken is found lost before the next request is begun.

use super::OpenedPool;
use super::holders::Holders;
use super::jobs::Job;
use super::worker::Shared;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::{Ask, Transport};
use dolmen_types::{ContNo, Head};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Containers that a connection has had open and that are remembered: whoever asks for one of them is told so.
const REMEMBERED_MAX: usize = 4096;

pub(super) struct Attached {
    /// The pool as its thread uses it.
    pub(super) pool: usize,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) is_read_only: bool,
    pub(super) answers_at_once: bool,
    pub(super) map_version: u32,
    holders: Arc<Holders>,
    key: u64,
    /// How often handles had been taken when it looked last.
    seen: u64,
    /// Containers that it has open, or has had open: whether it has.
    conts: BTreeMap<ContNo, bool>,
}

/// On whose behalf handles are taken from others.
#[derive(Clone)]
pub(super) struct Evicting {
    pub(super) holders: Arc<Holders>,
    pub(super) key: u64,
}

impl Attached {
    pub(super) fn new(pool: usize, opened: OpenedPool) -> Self {
        let OpenedPool { transport, is_read_only, answers_at_once, map_version, uid, holders } = opened;
        let key = holders.enter(uid);
        let (seen, conts) = (holders.taken(), BTreeMap::new());
        Self { pool, transport, is_read_only, answers_at_once, map_version, holders, key, seen, conts }
    }

    pub(super) fn evicting(&self) -> Evicting {
        Evicting { holders: Arc::clone(&self.holders), key: self.key }
    }

    /// Whether what is asked concerns a container whose handle has ended.
    #[inline]
    pub(super) fn has_lost(&mut self, ask: &Ask<'_>) -> bool {
        let taken = self.holders.taken();
        if taken != self.seen {
            self.look(taken);
        }
        let cont = match ask {
            Ask::Target(_, cont, _) => Some(*cont),
            Ask::Pool(verb) => cont_of(verb),
        };
        cont.is_some_and(|cont| self.conts.get(&cont) == Some(&false))
    }

    /// Looks what was taken from it.
    #[cold]
    fn look(&mut self, taken: u64) {
        self.seen = taken;
        for (&cont, is_open) in &mut self.conts {
            *is_open = *is_open && self.holders.has(self.key, cont);
        }
    }

    /// Containers that it has open.
    pub(super) fn open_count(&self) -> usize {
        self.holders.count(self.key)
    }

    /// Has a handle more.
    pub(super) fn opened(&mut self, cont: ContNo) {
        self.holders.opened(self.key, cont);
        if self.conts.len() >= REMEMBERED_MAX {
            self.conts.retain(|_, is_open| *is_open);
        }
        self.conts.insert(cont, true);
    }

    /// Takes a handle away that is about to be closed; whether there is one.
    pub(super) fn give_up(&mut self, cont: ContNo) -> bool {
        let left = self.holders.closing(self.key, cont);
        if left == Some(0) {
            self.conts.insert(cont, false);
        }
        left.is_some()
    }

    /// Gives everything back.
    pub(super) fn leave(self, shared: &mut Shared) {
        for (cont, count) in self.holders.leave(self.key) {
            let transport = Arc::clone(&self.transport);
            shared.jobs.give(Job::Release { transport, head: Head::default(), cont, count });
        }
        shared.leave_pool(self.pool);
    }
}

/// The open container that a question is about; closing is another matter.
fn cont_of(verb: &PoolVerb<'_>) -> Option<ContNo> {
    match verb {
        PoolVerb::ContEvict(cont, _)
        | PoolVerb::ContQuery(cont)
        | PoolVerb::ContSetProps(cont, _)
        | PoolVerb::ContProps(cont, _)
        | PoolVerb::SnapCreate(cont, _)
        | PoolVerb::SnapList(cont)
        | PoolVerb::SnapDestroy(cont, _)
        | PoolVerb::Rollback(cont, _)
        | PoolVerb::AllocOids(cont, _)
        | PoolVerb::Aggregate(cont, _) => Some(*cont),
        PoolVerb::SetAttrs(cont, _)
        | PoolVerb::Attr(cont, _)
        | PoolVerb::AttrNames(cont)
        | PoolVerb::RemoveAttrs(cont, _) => *cont,
        PoolVerb::TxCommit(commit) => Some(commit.cont),
        PoolVerb::Query
        | PoolVerb::ContCreate { .. }
        | PoolVerb::ContOpen(_)
        | PoolVerb::ContClose(_)
        | PoolVerb::ContDestroy(..)
        | PoolVerb::ContList
        | PoolVerb::TxBegin
        | PoolVerb::Checkpoint
        | PoolVerb::Scrub
        | PoolVerb::Check
        | PoolVerb::Admit { .. } => None,
    }
}
