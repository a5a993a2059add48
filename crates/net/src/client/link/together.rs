//! Requests of one call that are under way at once.
//!
//! Invariants: they change nothing, so what was sent and not answered is sent again without a thought.

use super::{Guard, Handles, Inner, Link, State, plan_of};
use crate::client::PoolRef;
use crate::client::pending::{Finished, Progress, Waiter, Wanted};
use dolmen_codec::{Lease, Outcome, QueueId, Request};
use dolmen_types::Error;
use std::collections::VecDeque;

/// So many at once: a connection that carries them is never idle, and an engine takes four times as many of one.
pub(in crate::client) const UNDER_WAY_MAX: usize = 256;

/// A request that was sent, or could not be.
struct Begun {
    id: u64,
    request: Request<'static>,
    deadline_ns: u64,
    failed: Option<Error>,
}

impl Link {
    /// Asks several of a pool, which change nothing, and waits for all; those with `true` want a lease.
    pub(in crate::client) fn call_all(
        &self,
        pool: PoolRef,
        requests: Vec<(Request<'static>, bool)>,
    ) -> Vec<(Outcome, Option<Lease>)> {
        let inner = &self.inner;
        if self.is_forked() {
            let refused = |(request, _): (Request<'_>, bool)| (request.refused(inner.unreachable()), None);
            return requests.into_iter().map(refused).collect();
        }
        let (mut answers, mut under_way) = (Vec::with_capacity(requests.len()), VecDeque::new());
        let mut state = inner.lock();
        for (request, wants_lease) in requests {
            if under_way.len() == UNDER_WAY_MAX
                && let Some(first) = under_way.pop_front()
            {
                let answer;
                (state, answer) = inner.settled(state, pool, first);
                answers.push(answer);
            }
            let begun;
            (state, begun) = inner.begun(state, pool, request, wants_lease);
            under_way.push_back(begun);
        }
        for begun in under_way {
            let answer;
            (state, answer) = inner.settled(state, pool, begun);
            answers.push(answer);
        }
        drop(state);
        answers
    }

    /// Sends a read of the present whose outcome goes to a queue, with a lease.
    pub(in crate::client) fn submit_leased(&self, pool: PoolRef, queue: QueueId, request: Request<'static>) {
        self.inner.submit(pool, queue.0 as usize, request, true);
    }

    /// The leases that came with answers on a queue, by the tokens of these.
    pub(in crate::client) fn take_leases(&self, queue: QueueId) -> Vec<(u64, Lease)> {
        let take = |state: &mut State| {
            let open = state.queues.of_mut(queue.0 as usize);
            open.map_or_else(Vec::new, |open| core::mem::take(&mut open.leases))
        };
        // What is forked off has none.
        self.look(take).into_iter().flatten().collect()
    }
}

impl Inner {
    fn begun<'s>(
        &'s self,
        mut state: Guard<'s>,
        pool: PoolRef,
        mut request: Request<'static>,
        wants_lease: bool,
    ) -> (Guard<'s>, Begun) {
        let deadline_ns = self.deadline(&request.head);
        let plan = plan_of(&request.ask);
        let id = state.requests.begin(Waiter::Caller(pool, Handles::Same), plan, None, deadline_ns);
        state.requests.of_mut(id).expect("begun above").lease = Wanted::of(&request.ask, wants_lease);
        let (state, sent) = self.send(state, id, pool, &mut request);
        (state, Begun { id, request, deadline_ns, failed: sent.err() })
    }

    fn settled<'s>(
        &'s self,
        mut state: Guard<'s>,
        pool: PoolRef,
        begun: Begun,
    ) -> (Guard<'s>, (Outcome, Option<Lease>)) {
        let Begun { id, mut request, deadline_ns, mut failed } = begun;
        while failed.is_none() {
            let mut is_done = state.caller_is_done(id);
            if is_done == Some(false) {
                let sent;
                (state, sent) = self.send(state, id, pool, &mut request);
                failed = sent.err();
                is_done = state.caller_is_done(id);
            }
            if is_done == Some(true) || failed.is_some() {
                break;
            }
            let done;
            (state, done) = self.wait(state, deadline_ns, |state| state.caller_is_done(id));
            if done.is_none() {
                state.note_silence(id, &request.head);
                failed = Some(self.unreachable());
            }
        }
        let answer = self.ended(&mut state, id, request, failed);
        (state, answer)
    }

    /// What a caller's request has come to.
    pub(super) fn ended(
        &self,
        state: &mut State,
        id: u64,
        mut request: Request<'_>,
        given_up: Option<Error>,
    ) -> (Outcome, Option<Lease>) {
        let is_done = state.caller_is_done(id) == Some(true);
        let ended = if is_done { state.requests.end(id) } else { state.give_up(id) };
        let pending = ended.expect("only its caller ends it");
        let result = match (pending.progress, given_up) {
            (Progress::Done(Finished::Pool(result)), _) => result,
            (_, Some(error)) => Err(error),
            (_, None) => Err(self.unreachable()),
        };
        let lease = match pending.lease {
            Wanted::Has(lease) => Some(lease),
            Wanted::No | Wanted::Yes { .. } => None,
        };
        let buf = pending.buf.or_else(|| request.ask.take_buf());
        (Outcome { token: request.token, result, buf }, lease)
    }
}
