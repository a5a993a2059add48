//! A pool for tests: reference models behind one lock, with just enough of a service, and faults on demand.

use crate::service::Service;
use dolmen_client::{Container, Credentials, Options, Pool, Props};
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{ContVerb, Mutation, Prepare, Reply, Verb};
use dolmen_codec::{Answer, Ask, Completion, Op, Outcome, QueueId, Request, TargetStore, Transport};
use dolmen_env::{Clock, Rng, SimClock};
use dolmen_sim::Model;
use dolmen_types::{ContNo, Epoch, Error, Head, RequestId, Result, TargetNo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

pub(crate) struct TestPool {
    /// Guards everything; taken alone.
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) targets: Vec<Model>,
    pub(crate) service: Service,
    pub(crate) clock: SimClock,
    pub(crate) map_version: u32,
    /// The newest epoch that anybody was told.
    newest: Epoch,
    queues: BTreeMap<u32, Vec<Outcome>>,
    faults: VecDeque<Error>,
    /// Answers to come that get lost on their way.
    pub(crate) lost_answers: u32,
    /// Commits by request, as a service remembers them.
    commits: BTreeMap<RequestId, Epoch>,
    /// Every head that arrived, in order.
    pub(crate) heads: Vec<Head>,
}

pub(crate) const START_NS: u64 = 1_790_000_000_000_000_000;

impl TestPool {
    pub(crate) fn new(target_count: u16) -> Arc<Self> {
        let clock = SimClock::new(START_NS);
        let model = |number| Model::new(TargetNo(number), Arc::new(clock.clone()));
        let state = State {
            targets: (0..target_count).map(model).collect(),
            service: Service::default(),
            clock: clock.clone(),
            map_version: 1,
            newest: Epoch::ZERO,
            queues: BTreeMap::new(),
            faults: VecDeque::new(),
            lost_answers: 0,
            commits: BTreeMap::new(),
            heads: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    /// The next requests to targets fail like this, in this order.
    pub(crate) fn fail_next(&self, errors: impl IntoIterator<Item = Error>) {
        self.with(|state| state.faults.extend(errors));
    }

    pub(crate) fn connect(self: &Arc<Self>) -> Pool {
        let mut options = Options::new(Credentials { uid: 1, gid: 2, project: 3 }).unwrap();
        options.clock = Arc::new(self.with(|state| state.clock.clone()));
        options.rng = Rng::from_seed(7);
        Pool::connect_with(Arc::<Self>::clone(self), options).unwrap()
    }
}

/// A pool of `target_count` models, a client, and an open container.
pub(crate) fn open(target_count: u16) -> (Arc<TestPool>, Pool, Container) {
    let served = TestPool::new(target_count);
    let pool = served.connect();
    let cont = new_container(&pool);
    (served, pool, cont)
}

pub(crate) fn new_container(pool: &Pool) -> Container {
    let handle = pool.create_container(None, Props::new()).unwrap();
    pool.open_container(&ContName::Uuid(handle.uuid)).unwrap()
}

impl State {
    fn head() -> Head {
        Head::default()
    }

    pub(crate) fn call(&mut self, target: TargetNo, head: Head, cont: ContNo, verb: Verb<'_>) -> Completion {
        // Time passes, or a target's clock would fall ever further behind the epochs it hands out.
        self.clock.advance(20_000);
        let store = &mut self.targets[target.index()];
        store.submit(&mut vec![Op { token: 0, head, cont, verb }]);
        let mut done = Vec::new();
        store.poll(true, &mut done);
        let completion = done.pop().unwrap();
        if let Ok(Reply::Written(epoch)) = completion.result {
            self.newest = self.newest.max(epoch);
        }
        completion
    }

    /// Tells every target.
    pub(crate) fn tell_all(&mut self, cont: ContNo, verb: &ContVerb) -> Result<()> {
        for target in self.all() {
            self.call(target, Self::head(), cont, Verb::Cont(verb.clone())).result?;
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = TargetNo> + use<> {
        (0..u16::try_from(self.targets.len()).unwrap()).map(TargetNo)
    }

    /// An epoch above everything acknowledged.
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.newest = self.newest.next().max(Epoch::from_unix_ns(self.clock.now_ns()));
        self.newest
    }

    pub(crate) fn commit(&mut self, head: Head, commit: TxCommit<'_>) -> Result<Epoch> {
        let participants: Vec<TargetNo> = commit.parts.iter().map(|part| part.0).collect();
        for (target, mutations) in commit.parts {
            let prepare = Prepare {
                tx: commit.tx,
                epoch: commit.epoch,
                leader: participants[0],
                participants: participants.iter().copied().collect(),
                mutations: mutations.iter().map(Mutation::clone).collect(),
            };
            if let Err(error) = self.call(target, head, commit.cont, Verb::Prepare(prepare)).result {
                for &target in &participants {
                    self.call(target, Self::head(), commit.cont, Verb::Abort(commit.tx)).result?;
                }
                return Err(error);
            }
        }
        if participants.len() > 1 {
            for &target in &participants {
                self.call(target, Self::head(), commit.cont, Verb::Commit(commit.tx)).result?;
            }
        }
        self.newest = self.newest.max(commit.epoch);
        Ok(commit.epoch)
    }

    fn answer(&mut self, request: Request<'_>) -> Outcome {
        let Request { token, head, ask } = request;
        self.heads.push(head);
        match ask {
            Ask::Pool(verb) => {
                let result = self.ask_pool(head, verb).map(Answer::Pool);
                Outcome { token, result, buf: None }
            }
            Ask::Target(target, cont, verb) => {
                if let Some(error) = self.refusal(head) {
                    let buf = if let Verb::Fetch(fetch) = verb { Some(fetch.buf) } else { None };
                    return Outcome { token, result: Err(error), buf };
                }
                let Completion { result, buf, .. } = self.call(target, head, cont, verb);
                Outcome { token, result: result.map(Answer::Target), buf }
            }
        }
    }

    fn refusal(&mut self, head: Head) -> Option<Error> {
        let stale = head.map_version < self.map_version;
        self.faults.pop_front().or(stale.then_some(Error::StaleMap { version: self.map_version }))
    }

    fn ask_pool(&mut self, head: Head, verb: PoolVerb<'_>) -> Result<PoolReply> {
        match verb {
            PoolVerb::TxBegin => Ok(PoolReply::Epoch(self.next_epoch())),
            PoolVerb::TxCommit(commit) => {
                let epoch = match self.commits.get(&head.id) {
                    Some(&epoch) => epoch,
                    None => self.commit(head, commit)?,
                };
                self.commits.insert(head.id, epoch);
                Ok(PoolReply::Epoch(epoch))
            }
            other => {
                let mut service = core::mem::take(&mut self.service);
                let reply = service.ask(self, other);
                self.service = service;
                reply
            }
        }
    }
}

impl Transport for TestPool {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.with(|state| {
            let mut outcome = state.answer(request);
            if state.lost_answers > 0 {
                state.lost_answers -= 1;
                outcome.result = Err(Error::TimedOut);
            }
            outcome
        })
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.with(|state| {
            let id = state.queues.keys().next_back().map_or(0, |last| last + 1);
            state.queues.insert(id, Vec::new());
            Ok(QueueId(id))
        })
    }

    fn close_queue(&self, queue: QueueId) {
        self.with(|state| assert!(state.queues.remove(&queue.0).is_some()));
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.with(|state| {
            let outcome = state.answer(request);
            state.queues.get_mut(&queue.0).unwrap().push(outcome);
        });
    }

    fn poll(&self, queue: QueueId, _wait: bool, out: &mut Vec<Outcome>) {
        self.with(|state| out.append(state.queues.get_mut(&queue.0).unwrap()));
    }
}
