//! `TargetStore`: the one trait between `cluster` and whatever stores one target's data.

use crate::quota::{Account, Charge};
use crate::verb::{Reply, Verb};
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, IoBuf};
use std::sync::Arc;

/// One operation on its way to a target.
#[derive(Debug)]
pub struct Op<'a> {
    /// Chosen by the caller, returned with the completion.
    pub token: u64,
    /// On whose behalf.
    pub head: Head,
    /// In which container.
    pub cont: ContNo,
    /// What.
    pub verb: Verb<'a>,
}

/// One finished operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation's.
    pub token: u64,
    /// Its answer.
    pub result: Result<Reply, Error>,
    /// The buffer that came with a fetch.
    pub buf: Option<IoBuf>,
}

/// Whether a bounded step of background work did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing to do.
    Idle,
    /// Something was done; call again.
    More,
    /// There is work, but a device has to finish something first: call again soon.
    Waiting,
}

/// The newest epoch that any of some targets has come to ahead of the wall clock, by which all of them go on: a plain write that
/// begins after the answer of another is not older than that, at whatever target.
///
/// Written only by who is ahead, so that who reads it with each operation finds it in his cache.
#[derive(Debug, Default)]
pub struct Lead(AtomicU64);

impl Lead {
    /// The epoch.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Epoch {
        // What it goes with, an answer, orders it.
        Epoch(self.0.load(Ordering::Relaxed))
    }

    /// A target is as far as this.
    pub fn note(&self, epoch: Epoch) {
        self.0.fetch_max(epoch.0, Ordering::Relaxed);
    }
}

/// A store of one target's data.
///
/// Owned by one thread at a time. Operations complete in any order. No operation may need a future, a box
/// or a lock of its own. Implemented by `engine::Target` and by the reference model in `sim`.
pub trait TargetStore: Send {
    /// Takes the operations out of `ops`. Borrowed payload is consumed before this returns. What completes
    /// at once is reported by the next `poll` like everything else.
    fn submit(&mut self, ops: &mut Vec<Op<'_>>);

    /// Appends finished operations to `out`. With `wait`, blocks until at least one operation finished,
    /// unless none is under way.
    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>);

    /// Does one bounded piece of background work (checkpoint, merge, aggregation, scrub).
    fn step(&mut self) -> Progress;

    /// From now on its epochs are above what others are ahead by, who are told how far it is itself before it answers. A store in
    /// another process goes by its own clock.
    fn go_with(&mut self, _lead: &Arc<Lead>) {}

    /// From now on keeps an account of a container that it shares with others in this process: counts in it what is there, and
    /// asks it before it adds anything. Another one that it has is kept no more; this one stays if it is there.
    ///
    /// # Errors
    /// `NoContainer`; `Invalid(Engines)` of a store that is in another process.
    fn keep_account(&mut self, _cont: ContNo, _account: &Arc<Account>) -> Result<(), Error> {
        Err(Invalid::Engines.into())
    }

    /// What the versions of a container count here, by user, in any order and maybe in several parts; with what transactions have
    /// prepared.
    ///
    /// # Errors
    /// As of `keep_account`.
    fn charges(&mut self, _cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        Err(Invalid::Engines.into())
    }
}
