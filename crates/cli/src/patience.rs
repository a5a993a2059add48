//! One wait for a dead engine in a command, and no more.
//!
//! A connection waits for an engine that does not answer, since it may be starting anew. A command asks it for many things:
//! after the first that was waited for in vain the engine counts as dead for the rest of it.

use dolmen_codec::{Ask, Outcome, QueueId, Request, Transport};
use dolmen_net::client::Remote;
use dolmen_types::{Epoch, Error, Result};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A pool behind engines, as one command asks it.
pub(crate) struct Patient<T> {
    pool: T,
    /// The rank of each target.
    ranks: Vec<u32>,
    /// Guards the engines that were waited for in vain; taken alone.
    dead: Mutex<BTreeSet<u32>>,
}

impl Patient<Remote> {
    pub(crate) fn new(pool: Remote) -> Self {
        let ranks = pool.map().targets.iter().map(|target| target.rank).collect();
        Self { pool, ranks, dead: Mutex::default() }
    }
}

impl<T> Patient<T> {
    /// The engine that is asked: the first has the pool's service.
    fn rank(&self, ask: &Ask<'_>) -> Option<u32> {
        match ask {
            Ask::Target(target, ..) => self.ranks.get(target.index()).copied(),
            Ask::Pool(_) => self.ranks.first().copied(),
        }
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).contains(&rank)
    }
}

impl<T: Transport> Transport for Patient<T> {
    fn call(&self, request: Request<'_>) -> Outcome {
        let rank = self.rank(&request.ask);
        if let Some(rank) = rank.filter(|rank| self.is_dead(*rank)) {
            return request.refused(Error::Unreachable { rank });
        }
        let outcome = self.pool.call(request);
        // Another engine that this one needs is named by it, and waited for by it: only who was asked is known to be dead.
        if let (Some(rank), Err(Error::Unreachable { rank: silent })) = (rank, &outcome.result)
            && rank == *silent
        {
            self.dead.lock().unwrap_or_else(PoisonError::into_inner).insert(rank);
        }
        outcome
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.pool.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.pool.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.pool.submit(queue, request);
    }

    fn saw(&self, epoch: Epoch) {
        self.pool.saw(epoch);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.pool.poll(queue, wait, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use dolmen_codec::Answer;
    use dolmen_codec::pool::{PoolReply, PoolVerb};
    use dolmen_codec::verb::Verb;
    use dolmen_types::Head;

    /// Engine 3 has the pool's service; engine 5 is silent. How often that is waited for.
    #[derive(Default)]
    struct Engines(AtomicU32);

    impl Transport for Engines {
        fn call(&self, request: Request<'_>) -> Outcome {
            let result = match &request.ask {
                Ask::Pool(_) => Ok(Answer::Pool(PoolReply::Done)),
                Ask::Target(..) => {
                    self.0.fetch_add(1, Ordering::Relaxed);
                    Err(Error::Unreachable { rank: 5 })
                }
            };
            Outcome { token: request.token, result, buf: None }
        }

        fn open_queue(&self) -> Result<QueueId> {
            Err(Error::Busy)
        }

        fn close_queue(&self, _queue: QueueId) {}

        fn submit(&self, _queue: QueueId, _request: Request<'static>) {}

        fn poll(&self, _queue: QueueId, _wait: bool, _out: &mut Vec<Outcome>) {}
    }

    #[test]
    fn a_silent_engine_is_waited_for_once_and_others_are_asked_on() {
        let pool = Patient { pool: Engines::default(), ranks: vec![3, 5], dead: Mutex::default() };
        let ask = |ask| pool.call(Request { token: 9, head: Head::default(), ask });
        for _ in 0..3 {
            let target = Ask::Target(dolmen_types::TargetNo(1), dolmen_types::ContNo(1), Verb::Space);
            let outcome = ask(target);
            assert_eq!((outcome.token, outcome.result.unwrap_err()), (9, Error::Unreachable { rank: 5 }));
            assert!(ask(Ask::Pool(PoolVerb::ContList)).result.is_ok());
        }
        assert_eq!(pool.pool.0.load(Ordering::Relaxed), 1);
    }
}
