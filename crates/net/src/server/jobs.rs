//! What may take long or flush: questions to a pool's service and to the daemon, answered by threads of their own.

use super::attached::Asker;
use super::{Attachment, Caller, JOB_THREADS, System};
use crate::error::Result;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::wire::SystemVerb;
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::Bell;
use dolmen_types::{ContNo, Error, Head};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Jobs that may wait. A client waits for its answer, so this is about as many as there are clients that open containers
/// at once.
const JOBS_MAX: usize = 16_384;

/// Jobs of one pace that is not quick, at once: the other threads are for those who open containers.
const SLOW_JOBS_MAX: usize = JOB_THREADS / 3;

const _: () = assert!(JOB_THREADS > 2 * SLOW_JOBS_MAX);

/// How long a job may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Quick,
    /// Seconds: it waits for other engines, or until what others have under way has ended.
    Waits,
    /// Minutes: it goes over everything that is stored.
    Long,
}

/// What a thread of the service does next.
pub(super) enum Job {
    /// Asks a pool's service.
    Pool {
        transport: Arc<dyn Transport>,
        head: Head,
        verb: PoolVerb<'static>,
        asker: Asker,
        key: u64,
        to: Arc<Mailbox>,
    },
    /// Asks the daemon.
    System { head: Head, caller: Caller, ask: SystemVerb, key: u64, to: Arc<Mailbox> },
    /// Gives handles of containers back whose holder is gone.
    Release { transport: Arc<dyn Transport>, cont: ContNo, count: u32 },
}

/// What a job has led to.
pub(super) struct Done {
    pub(super) key: u64,
    pub(super) reply: JobReply,
}

/// The answer of a job.
pub(super) enum JobReply {
    Pool(Arc<dyn Transport>, core::result::Result<Answer, Error>),
    System(core::result::Result<Attachment, Error>),
}

/// Answers for one thread of connections.
pub(super) struct Mailbox {
    /// Guards the answers; taken alone, for a few instructions.
    done: Mutex<Vec<Done>>,
    has_mail: AtomicBool,
    bell: Bell,
}

impl Mailbox {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { done: Mutex::default(), has_mail: AtomicBool::new(false), bell: Bell::new()? })
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(super) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> Vec<Done> {
        if !self.has_mail() {
            return Vec::new();
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_mail.store(false, Ordering::Release);
        core::mem::take(&mut *done)
    }

    fn put(&self, done: Done) {
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(done);
        self.has_mail.store(true, Ordering::Release);
        drop(all);
        self.bell.ring();
    }
}

/// The jobs that wait; a cheap handle.
#[derive(Clone)]
pub(super) struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    system: Arc<dyn System>,
    /// Guards the jobs; not held while one is carried out.
    waiting: Mutex<Waiting>,
    come: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Those that may take seconds and are being carried out.
    slow: usize,
    /// Those that may take minutes.
    long: usize,
    is_over: bool,
}

impl Waiting {
    /// The oldest job, but for those of a pace of which as many are under way as may be.
    fn take(&mut self) -> Option<Job> {
        let [may_wait, may_be_long] = [self.slow, self.long].map(|count| count < SLOW_JOBS_MAX);
        let may_begin = |job: &Job| match job.pace() {
            Pace::Quick => true,
            Pace::Waits => may_wait,
            Pace::Long => may_be_long,
        };
        let at = self.jobs.iter().position(may_begin)?;
        let job = self.jobs.remove(at)?;
        if let Some(count) = self.count(job.pace()) {
            *count += 1;
        }
        Some(job)
    }

    /// How many of a pace are being carried out; of quick ones nobody needs to know.
    fn count(&mut self, pace: Pace) -> Option<&mut usize> {
        match pace {
            Pace::Quick => None,
            Pace::Waits => Some(&mut self.slow),
            Pace::Long => Some(&mut self.long),
        }
    }
}

impl Job {
    fn pace(&self) -> Pace {
        match self {
            Self::Pool {
                verb: PoolVerb::Scrub | PoolVerb::Check | PoolVerb::Aggregate(..) | PoolVerb::Checkpoint,
                ..
            } => Pace::Long,
            Self::Pool { verb: PoolVerb::ContOpen(..), asker, .. } if asker.is_part => Pace::Waits,
            // All engines of the pool are told.
            Self::Pool { verb: PoolVerb::ContEvict(..), .. } => Pace::Waits,
            Self::System {
                ask:
                    SystemVerb::PoolConnect { .. }
                    | SystemVerb::PoolCreate(_)
                    | SystemVerb::PoolDestroy { .. }
                    | SystemVerb::PoolEvict(_)
                    | SystemVerb::PartCreate(_)
                    | SystemVerb::PartConnect { .. }
                    | SystemVerb::PartDestroy { .. }
                    | SystemVerb::PartEvict { .. },
                ..
            } => Pace::Waits,
            _ => Pace::Quick,
        }
    }
}

impl Jobs {
    pub(super) fn new(system: Arc<dyn System>) -> Self {
        Self { inner: Arc::new(Inner { system, waiting: Mutex::default(), come: Condvar::new() }) }
    }

    /// Puts a job behind the others; `false` if too many wait.
    pub(super) fn give(&self, job: Job) -> bool {
        let mut waiting = self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // What frees something always has room: there is no more of it than there are handles.
        let has_room = waiting.jobs.len() < JOBS_MAX || matches!(job, Job::Release { .. });
        if has_room {
            waiting.jobs.push_back(job);
            self.inner.come.notify_one();
        }
        has_room
    }

    /// Gives handles of a container back that nobody has.
    pub(super) fn release(&self, transport: Arc<dyn Transport>, cont: ContNo, count: u32) {
        self.give(Job::Release { transport, cont, count });
    }

    /// Lets the threads end once nothing waits any more.
    pub(super) fn end(&self) {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.inner.come.notify_all();
    }

    /// Carries jobs out until the end.
    pub(super) fn run(&self) {
        while let Some(job) = self.next() {
            let pace = job.pace();
            self.carry_out(job);
            if let Some(count) = self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).count(pace)
            {
                *count -= 1;
                self.inner.come.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = waiting.take() {
                return Some(job);
            }
            if waiting.is_over && waiting.jobs.is_empty() {
                return None;
            }
            waiting = self.inner.come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&self, job: Job) {
        match job {
            Job::Pool { transport, head, verb, asker, key, to } => {
                let evicts = match &verb {
                    PoolVerb::ContEvict(cont, whose) => Some((*cont, *whose)),
                    _ => None,
                };
                let result = asker
                    .rights
                    .settled(&*transport, head, verb)
                    .and_then(|verb| transport.call(Request { token: 0, head, ask: Ask::Pool(verb) }).result);
                if let (Ok(Answer::Pool(PoolReply::Cont(handle))), Some((cont, whose))) = (&result, evicts) {
                    let count = asker.holders.take(asker.key, cont, whose, &Evictions::of(&handle.props));
                    release(&*transport, head, cont, count);
                }
                to.put(Done { key, reply: JobReply::Pool(transport, result) });
            }
            Job::System { head, caller, ask, key, to } => {
                let reply = self.inner.system.answer(&head, &caller, ask);
                to.put(Done { key, reply: JobReply::System(reply) });
            }
            Job::Release { transport, cont, count } => release(&*transport, Head::default(), cont, count),
        }
    }
}

/// Gives handles back to the pool's service.
fn release(transport: &dyn Transport, head: Head, cont: ContNo, count: u32) {
    for _ in 0..count {
        let ask = Ask::Pool(PoolVerb::ContClose(cont));
        // Ignored: the handle's container may have been destroyed since.
        let _closed = transport.call(Request { token: 0, head, ask });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::server::Rights;
    use dolmen_codec::wire::{PoolAccess, PoolName};
    use dolmen_codec::{Outcome, QueueId};
    use dolmen_types::{Result, Uuid};

    /// A pool that does nothing.
    pub(in crate::server) struct Nowhere;

    impl Transport for Nowhere {
        fn call(&self, request: Request<'_>) -> Outcome {
            Outcome { token: request.token, result: Err(Error::Busy), buf: None }
        }

        fn open_queue(&self) -> Result<QueueId> {
            Err(Error::Busy)
        }

        fn close_queue(&self, _queue: QueueId) {}

        fn submit(&self, _queue: QueueId, _request: Request<'static>) {}

        fn poll(&self, _queue: QueueId, _wait: bool, _out: &mut Vec<Outcome>) {}
    }

    fn asks_pool(verb: PoolVerb<'static>, to: &Arc<Mailbox>) -> Job {
        let transport: Arc<dyn Transport> = Arc::new(Nowhere);
        let asker = Asker { holders: Arc::default(), key: 0, rights: Rights::All, is_part: false };
        Job::Pool { transport, head: Head::default(), verb, asker, key: 0, to: Arc::clone(to) }
    }

    #[test]
    fn jobs_that_take_long_leave_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let job = |verb| asks_pool(verb, &to);
        let mut waiting = Waiting::default();
        waiting.jobs.extend([PoolVerb::Scrub, PoolVerb::Check, PoolVerb::Scrub, PoolVerb::ContList].map(job));
        let taken: Vec<Pace> = (0..3).map_while(|_| waiting.take()).map(|job| job.pace()).collect();
        assert_eq!(taken, [Pace::Long, Pace::Long, Pace::Quick], "the third scrub waits, the list does not");
        assert!(waiting.take().is_none());
        waiting.long -= 1;
        assert!(waiting.take().is_some_and(|job| job.pace() == Pace::Long));
    }

    #[test]
    fn who_takes_handles_leaves_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let job = |verb| asks_pool(verb, &to);
        let mut waiting = Waiting::default();
        let evict = || PoolVerb::ContEvict(ContNo(1), dolmen_codec::pool::Whose::All);
        waiting.jobs.extend([evict(), evict(), evict(), PoolVerb::ContList].map(job));
        let taken: Vec<Pace> = (0..3).map_while(|_| waiting.take()).map(|job| job.pace()).collect();
        assert_eq!(taken, [Pace::Waits, Pace::Waits, Pace::Quick], "the list does not wait");
        assert!(waiting.take().is_none());
    }

    #[test]
    fn who_waits_for_other_engines_leaves_threads_to_the_others() {
        let to = Arc::new(Mailbox::new().unwrap());
        let job = |ask| {
            let caller = Caller { peer: None, groups: Vec::new(), identity: None };
            Job::System { head: Head::default(), caller, ask, key: 0, to: Arc::clone(&to) }
        };
        let name = || PoolName::Uuid(Uuid::nil());
        let destroy = SystemVerb::PoolDestroy { name: name(), force: true };
        let connect = SystemVerb::PoolConnect { name: name(), access: PoolAccess::ReadWrite };
        let evict = SystemVerb::PoolEvict(name());
        let mut waiting = Waiting::default();
        waiting.jobs.extend([destroy, connect, evict, SystemVerb::PoolList].map(job));
        // Scrubs do not keep anybody from pools.
        waiting.long = SLOW_JOBS_MAX;
        let taken: Vec<Pace> = (0..3).map_while(|_| waiting.take()).map(|job| job.pace()).collect();
        assert_eq!(taken, [Pace::Waits, Pace::Waits, Pace::Quick], "the list does not wait");
        assert!(waiting.take().is_none());
        waiting.slow -= 1;
        assert!(waiting.take().is_some());
    }
}
