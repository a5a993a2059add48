//! One wait for a dead engine in a command, and no more.
//!
//! A connection waits for an engine that does not answer, since it may be starting anew. A command asks it for many things:
//! after the first that was waited for in vain the engine counts as dead for the rest of it. On standard error it is told once
//! that something is waited for.

use crate::reached;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::{Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_net::client::Remote;
use dolmen_types::{Epoch, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A pool behind engines, as one command asks it.
pub(crate) struct Patient<T> {
    pool: T,
    /// The rank of each target.
    ranks: Vec<u32>,
    /// Guards the engines that were waited for in vain; taken alone.
    dead: Mutex<BTreeSet<u32>>,
    /// Who tells that.
    watch: Option<Arc<Watch>>,
}

/// How long an answer is waited for without a word.
const SILENT: Duration = Duration::from_secs(2);

/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// What is waited for.
#[derive(Default)]
struct Watch {
    /// Guards the requests under way, by number: since when, and whom they ask; taken alone.
    asked: Mutex<BTreeMap<u64, (u64, Option<u32>)>>,
    /// The number of the next.
    next: AtomicU64,
}

/// A request that is under way for as long as this lives.
struct Asked<'w>(&'w Watch, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Watch {
    /// Has `say` told once when an answer has been waited for longer than `silent`.
    fn start(silent: Duration, say: impl Fn(Option<u32>) + Send + 'static) -> Option<Arc<Self>> {
        let watch = Arc::new(Self::default());
        let watched = Arc::downgrade(&watch);
        let silent_ns = u64::try_from(silent.as_nanos()).unwrap_or(u64::MAX);
        let look = move || {
            while let Some(watch) = watched.upgrade() {
                let begun_ns = RealClock.monotonic_ns().saturating_sub(silent_ns);
                let is_late = |(since_ns, _): &&(u64, Option<u32>)| *since_ns <= begun_ns;
                let asked = watch.asked.lock().unwrap_or_else(PoisonError::into_inner);
                let late = asked.values().find(is_late).copied();
                drop(asked);
                if let Some((_, rank)) = late {
                    return say(rank);
                }
                drop(watch);
                std::thread::park_timeout(LOOK.min(silent));
            }
        };
        // Without a thread nobody is told.
        dolmen_env::spawn("patience", look).ok()?;
        Some(watch)
    }

    fn asks(&self, rank: Option<u32>) -> Asked<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let since = (RealClock.monotonic_ns(), rank);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(number, since);
        Asked(self, number)
    }
}

impl Patient<Remote> {
    /// The pool that is called so.
    pub(crate) fn new(pool: Remote, name: String) -> Self {
        let ranks = pool.map().targets.iter().map(|target| target.rank).collect();
        let say = move |rank: Option<u32>| {
            let who = rank.map_or_else(|| "the daemon".to_owned(), |rank| format!("engine {rank}"));
            let at = reached::shown().map_or_else(String::new, |at| format!(" ({at})"));
            let seconds = SILENT.as_secs();
            dolmen_env::say(&format!(
                "dolmen: {who} of pool {name}{at} has not answered for {seconds} s: waiting for it"
            ));
        };
        let watch = Watch::start(SILENT, say);
        Self { pool, ranks, dead: Mutex::default(), watch }
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
        let asked = self.watch.as_ref().map(|watch| watch.asks(rank));
        let outcome = self.pool.call(request);
        drop(asked);
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
    use core::sync::atomic::AtomicU32;
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
        let pool =
            Patient { pool: Engines::default(), ranks: vec![3, 5], dead: Mutex::default(), watch: None };
        let ask = |ask| pool.call(Request { token: 9, head: Head::default(), ask });
        for _ in 0..3 {
            let target = Ask::Target(dolmen_types::TargetNo(1), dolmen_types::ContNo(1), Verb::Space);
            let outcome = ask(target);
            assert_eq!((outcome.token, outcome.result.unwrap_err()), (9, Error::Unreachable { rank: 5 }));
            assert!(ask(Ask::Pool(PoolVerb::ContList)).result.is_ok());
        }
        assert_eq!(pool.pool.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_waits_is_told_for_whom_and_only_then() {
        let (told, hears) = std::sync::mpsc::sync_channel(1);
        let watch = Watch::start(Duration::from_millis(1), move |rank| told.send(rank).unwrap()).unwrap();
        let _asked = watch.asks(Some(5));
        assert_eq!(hears.recv(), Ok(Some(5)));
        assert!(hears.recv().is_err(), "once");
        let idle = Watch::default();
        drop(idle.asks(Some(3)));
        assert!(idle.asked.lock().unwrap().is_empty());
        let (told, hears) = std::sync::mpsc::sync_channel::<Option<u32>>(1);
        let watch = Watch::start(Duration::from_millis(1), move |rank| told.send(rank).unwrap()).unwrap();
        drop(watch);
        assert!(hears.recv().is_err(), "nothing was waited for, and nobody watches any more");
    }
}
