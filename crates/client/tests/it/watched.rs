//! A transport that writes down who asks, and loses, delays or refuses on demand.

use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::SimClock;
use dolmen_types::{Epoch, Error, Head, Result, TargetNo, TxId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// How long who decides a transaction is waited for before it is said to be in doubt.
const DECISION_NS: u64 = 200_000_000;

/// What becomes of commits whose outcome is not told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    Done,
    Lost,
}

/// What targets are told of the end of a transaction: its epoch, whether by its commit, and which.
pub(crate) type End = (Epoch, bool, Vec<TargetNo>);

pub(crate) struct Watched {
    inner: Arc<dyn Transport>,
    pub(crate) clock: SimClock,
    /// Guards the faults to come and what was seen; not held while the pool works.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    map_version: u32,
    faults: VecDeque<Error>,
    lost_answers: u32,
    doubts: Option<(Doubt, u32)>,
    ends: Vec<End>,
    heads: Vec<Head>,
    /// Outcomes that never reached the pool.
    refused: Vec<(QueueId, Outcome)>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Transport>, clock: SimClock) -> Self {
        Self { inner, clock, state: Mutex::new(State { map_version: 1, ..State::default() }) }
    }

    /// The next requests to targets fail like this, in this order.
    pub(crate) fn fail_next(&self, errors: impl IntoIterator<Item = Error>) {
        self.state.lock().unwrap().faults.extend(errors);
    }

    /// The next answers get lost after the request was carried out.
    pub(crate) fn lose_answers(&self, count: u32) {
        self.state.lock().unwrap().lost_answers = count;
    }

    /// So many commits from now on are answered with a doubt of their own.
    pub(crate) fn doubt_commits(&self, what: Doubt, count: u32) {
        self.state.lock().unwrap().doubts = Some((what, count));
    }

    /// The pool's map changes.
    pub(crate) fn set_map_version(&self, version: u32) {
        self.state.lock().unwrap().map_version = version;
    }

    /// Ends of transactions that targets were told of since the last call.
    pub(crate) fn take_ends(&self) -> Vec<End> {
        core::mem::take(&mut self.state.lock().unwrap().ends)
    }

    /// Every head that arrived, in order.
    pub(crate) fn heads(&self) -> Vec<Head> {
        self.state.lock().unwrap().heads.clone()
    }

    /// Lets time pass, writes the request down, and refuses it if that is its turn.
    fn refusal(&self, request: &Request<'_>) -> Option<Error> {
        self.clock.advance(20_000);
        let mut state = self.state.lock().unwrap();
        state.heads.push(request.head);
        match &request.ask {
            Ask::Pool(PoolVerb::TxCommit(commit)) => {
                state.ends.push((commit.epoch, true, commit.read.to_vec()));
            }
            Ask::Pool(PoolVerb::TxEnd(ended)) => state.ends.push((ended.epoch, false, ended.read.to_vec())),
            _ => {}
        }
        let Ask::Target(..) = request.ask else { return None };
        let version = state.map_version;
        let stale = (request.head.map_version < version).then_some(Error::StaleMap { version });
        state.faults.pop_front().or(stale)
    }
}

impl Watched {
    /// A commit that was asked for, if its outcome is not to be told.
    fn doubt(&self, ask: &Ask<'_>) -> Option<(Doubt, TxId)> {
        let Ask::Pool(PoolVerb::TxCommit(commit)) = ask else { return None };
        let mut state = self.state.lock().unwrap();
        let (what, left) = state.doubts.as_mut()?;
        *left = left.checked_sub(1)?;
        self.clock.advance(DECISION_NS);
        Some((*what, commit.tx))
    }

    fn leave_in_doubt(&self, request: Request<'_>, what: Doubt, tx: TxId) -> Outcome {
        let (token, in_doubt) = (request.token, Error::InDoubt { tx });
        match what {
            Doubt::Done => Outcome { token, result: Err(in_doubt), buf: self.inner.call(request).buf },
            Doubt::Lost => request.refused(in_doubt),
        }
    }
}

impl Transport for Watched {
    fn call(&self, request: Request<'_>) -> Outcome {
        if let Some((what, tx)) = self.doubt(&request.ask) {
            return self.leave_in_doubt(request, what, tx);
        }
        if let Some(error) = self.refusal(&request) {
            return request.refused(error);
        }
        let is_query = matches!(request.ask, Ask::Pool(PoolVerb::Query));
        let mut outcome = self.inner.call(request);
        let mut state = self.state.lock().unwrap();
        if let (true, Ok(Answer::Pool(PoolReply::Pool(info)))) = (is_query, &mut outcome.result) {
            info.map.version = state.map_version;
        }
        if state.lost_answers > 0 {
            state.lost_answers -= 1;
            outcome.result = Err(Error::TimedOut);
        }
        outcome
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.inner.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.inner.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        if let Some((what, tx)) = self.doubt(&request.ask) {
            let outcome = self.leave_in_doubt(request, what, tx);
            self.state.lock().unwrap().refused.push((queue, outcome));
            return;
        }
        match self.refusal(&request) {
            Some(error) => self.state.lock().unwrap().refused.push((queue, request.refused(error))),
            None => self.inner.submit(queue, request),
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let state = &mut *self.state.lock().unwrap();
        let (ours, others) = state.refused.drain(..).partition(|(other, _)| *other == queue);
        state.refused = others;
        let ours: Vec<(QueueId, Outcome)> = ours;
        let any = !ours.is_empty();
        out.extend(ours.into_iter().map(|(_, outcome)| outcome));
        self.inner.poll(queue, wait && !any, out);
    }
}
