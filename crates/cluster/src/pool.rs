//! A pool in this process: its targets and its service behind the client's `Transport`.
//!
//! Invariants: clients reach the service's own container, and change what targets know of containers, only
//! through the service; every request put on a queue gives exactly one outcome.

use crate::copy;
use crate::dispatch::Targets;
use crate::inbox::{Dest, Finished, Outbox, locked};
use crate::service::Service;
use dolmen_codec::verb::{ContVerb, Verb};
use dolmen_codec::{
    Answer, Ask, Completion, Op, Outcome, Progress, QueueId, Request, TargetStore, Transport,
};
use dolmen_types::{ContNo, Error, Head, Result, TargetNo};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Completion queues of one pool: one for each thread of a large node.
const QUEUES_MAX: usize = 1024;

/// Requests to the service that may wait on one queue.
const POOL_REQUESTS_MAX: usize = 4096;

/// A pool whose targets are in this process.
pub struct Pool<T> {
    targets: Targets<T>,
    service: Service,
    /// Guards the list of queues; written when one is opened or closed. Taken before all other locks.
    queues: RwLock<Vec<Option<Arc<Queue>>>>,
}

struct Queue {
    outbox: Arc<Outbox>,
    /// Guards what waits for a poller: requests to the service, and outcomes that needed no target.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request<'static>>,
    outcomes: Vec<Outcome>,
}

impl<T: TargetStore> Pool<T> {
    /// A pool of targets and the service that was opened on them.
    #[must_use]
    pub fn new(targets: Targets<T>, service: Service) -> Self {
        Self { targets, service, queues: RwLock::new(Vec::new()) }
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Targets<T> {
        &self.targets
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// One bounded piece of background work.
    pub fn step(&self) -> Progress {
        self.targets.step()
    }

    /// Finishes what is under way and gives the stores back, by target number.
    #[must_use]
    pub fn into_stores(self) -> Vec<T> {
        self.targets.into_stores()
    }

    #[inline]
    fn refusal(&self, head: &Head, cont: ContNo, verb: &Verb<'_>) -> Option<Error> {
        let version = self.service.identity().map.version;
        if head.map_version != 0 && head.map_version < version {
            return Some(Error::StaleMap { version });
        }
        match verb {
            Verb::Cont(ContVerb::Usage | ContVerb::Aggregate(_)) => None,
            // Who may say that all know of a commit is its coordinator alone.
            Verb::Cont(_) | Verb::Conclude(_) => Some(Error::NoPermission),
            Verb::Update(_)
            | Verb::Punch(_)
            | Verb::Fetch(_)
            | Verb::List(_)
            | Verb::Query(_)
            | Verb::Prepare(_)
                if cont == ContNo::SYSTEM =>
            {
                Some(Error::NoPermission)
            }
            _ => None,
        }
    }

    fn ask_target(&self, token: u64, head: Head, target: TargetNo, cont: ContNo, verb: Verb<'_>) -> Outcome {
        if let Some(error) = self.refusal(&head, cont, &verb) {
            return Outcome { token, result: Err(error), buf: copy::buffer_of(verb) };
        }
        outcome(self.targets.call(target, Op { token, head, cont, verb }))
    }

    fn queue(&self, id: QueueId) -> Option<Arc<Queue>> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(usize::try_from(id.0).ok()?)?.clone()
    }

    /// Answers the service's requests of a queue and appends everything that is finished.
    fn collect(&self, queue: &Queue, out: &mut Vec<Outcome>) {
        loop {
            let request = locked(&queue.waiting).requests.pop_front();
            let Some(request) = request else { break };
            out.push(self.call(request));
        }
        out.append(&mut locked(&queue.waiting).outcomes);
        if !queue.outbox.has_ready() {
            return;
        }
        let mut finished = Vec::new();
        queue.outbox.take(&mut finished);
        for (target, Finished { completion, again }) in finished {
            match again {
                None => out.push(outcome(completion)),
                Some(mut op) => {
                    copy::give_back(&mut op, completion.buf);
                    out.push(outcome(self.targets.call(target, op)));
                }
            }
        }
    }

    /// Drives the targets that have operations of `queue`; with `wait`, until one of them is finished.
    fn drive(&self, queue: &Queue, busy: &[TargetNo], wait: bool) {
        for &target in busy {
            self.targets.drive(target);
        }
        if let Some(&target) = busy.first()
            && wait
            && !queue.outbox.has_ready()
        {
            self.targets.drive_for(target, &Dest::Queue(Arc::clone(&queue.outbox)));
        }
    }
}

impl<T: TargetStore> Transport for Pool<T> {
    fn call(&self, request: Request<'_>) -> Outcome {
        let Request { token, head, ask } = request;
        match ask {
            Ask::Target(target, cont, verb) => self.ask_target(token, head, target, cont, verb),
            Ask::Pool(verb) => {
                let result = self.service.ask(&self.targets, &head, verb).map(Answer::Pool);
                Outcome { token, result, buf: None }
            }
        }
    }

    fn open_queue(&self) -> Result<QueueId> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let at = queues.iter().position(Option::is_none).unwrap_or(queues.len());
        if at >= QUEUES_MAX {
            return Err(Error::Busy);
        }
        if at == queues.len() {
            queues.push(None);
        }
        let outbox = Arc::new(Outbox::new(self.targets.count()));
        queues[at] = Some(Arc::new(Queue { outbox, waiting: Mutex::default() }));
        Ok(QueueId(u32::try_from(at).expect("limited by QUEUES_MAX")))
    }

    fn close_queue(&self, queue: QueueId) {
        let Some(open) = self.queue(queue) else { return };
        {
            let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = usize::try_from(queue.0).ok().and_then(|at| queues.get_mut(at)) {
                *slot = None;
            }
        }
        let (mut dropped, mut busy) = (Vec::new(), Vec::new());
        loop {
            self.collect(&open, &mut dropped);
            dropped.clear();
            busy.clear();
            open.outbox.targets_under_way(&mut busy);
            if busy.is_empty() {
                return;
            }
            self.drive(&open, &busy, true);
        }
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        // A request on a queue that is not open has nowhere to send its outcome.
        let Some(queue) = self.queue(queue) else { return };
        let Request { token, head, ask } = request;
        match ask {
            Ask::Target(target, cont, verb) => {
                let known = target.index() < self.targets.count();
                let refusal = self.refusal(&head, cont, &verb);
                if known && refusal.is_none() {
                    self.targets.start_queued(target, Op { token, head, cont, verb }, &queue.outbox);
                    return;
                }
                let error = refusal.unwrap_or(Error::Invalid(dolmen_types::Invalid::Argument));
                let refused = Outcome { token, result: Err(error), buf: copy::buffer_of(verb) };
                locked(&queue.waiting).outcomes.push(refused);
            }
            Ask::Pool(verb) => {
                let mut waiting = locked(&queue.waiting);
                if waiting.requests.len() < POOL_REQUESTS_MAX {
                    waiting.requests.push_back(Request { token, head, ask: Ask::Pool(verb) });
                } else {
                    waiting.outcomes.push(Outcome { token, result: Err(Error::Busy), buf: None });
                }
            }
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let Some(queue) = self.queue(queue) else { return };
        let before = out.len();
        let mut busy = Vec::new();
        loop {
            self.collect(&queue, out);
            busy.clear();
            queue.outbox.targets_under_way(&mut busy);
            if out.len() > before || busy.is_empty() && !queue.outbox.has_ready() {
                return;
            }
            self.drive(&queue, &busy, wait);
            if !wait && !queue.outbox.has_ready() {
                return;
            }
        }
    }
}

fn outcome(completion: Completion) -> Outcome {
    let Completion { token, result, buf } = completion;
    Outcome { token, result: result.map(Answer::Target), buf }
}
