//! Answers, and who gets them.
//!
//! Invariants: whatever an answer does to pools and handles is done when it is heard, whoever waits for it.

use super::State;
use super::given::closed;
use crate::client::pending::{Decoded, Finished, Pending, Progress, Waiter, Wanted, handles_of};
use dolmen_codec::pool::PoolReply;
use dolmen_codec::verb::Reply;
use dolmen_codec::wire::ReplyHeader;
use dolmen_codec::{Answer, Outcome};
use dolmen_types::{Error, IoBuf, Result};

impl State {
    /// Gives a reply to whom it belongs.
    pub(super) fn settle(&mut self, header: &ReplyHeader, buf: IoBuf) {
        self.spin.moved();
        self.end_silence();
        let Some(decoded) = self.decoded.take() else { return self.renewed(header) };
        if let Decoded::Push(push) = &decoded {
            return self.leases.take_push(push);
        }
        if header.lease > 0 {
            self.granted(header);
        }
        let Some(pending) = self.requests.of_mut(header.token) else { return };
        if pending.plan.is_some() && pending.buf.is_none() {
            pending.buf = Some(buf);
        }
        match decoded {
            Decoded::Finished(finished) => self.finish(header.token, finished),
            Decoded::Part(part) => {
                let whole = pending.plan.as_ref().and_then(|plan| pending.gathered.take(plan, part));
                if let Some(iod) = whole {
                    let fetched = Reply::Fetched(core::iter::once(iod).collect());
                    self.finish(header.token, Finished::Pool(Ok(Answer::Target(fetched))));
                }
            }
            Decoded::Push(_) => {}
        }
    }

    pub(super) fn finish(&mut self, id: u64, finished: Finished) {
        let Some(pending) = self.requests.of_mut(id) else { return };
        let finished = match finished {
            // It has ended with a connection, and whoever was asked knows nothing of it.
            Finished::Pool(Err(Error::NoHandle)) if pending.is_late => closed(),
            other => other,
        };
        match &mut pending.waiter {
            Waiter::System(opens) => {
                let opens = opens.take();
                let finished = self.connected(opens, finished);
                if let Some(pending) = self.requests.of_mut(id) {
                    pending.progress = Progress::Done(finished);
                }
            }
            Waiter::Caller(pool, handles) => {
                if let (Finished::Pool(result), Some(attached)) = (&finished, self.pools.of_mut(*pool)) {
                    attached.answered(*handles, result);
                }
                pending.progress = Progress::Done(finished);
            }
            Waiter::Nobody(late) => {
                let late = *late;
                self.requests.end(id);
                self.take_late(late, finished);
            }
            Waiter::Farewell(_) => drop(self.requests.end(id)),
            Waiter::Queue { .. } => self.finish_queued(id, finished),
        }
    }

    fn finish_queued(&mut self, id: u64, finished: Finished) {
        let Some(pending) = self.requests.end(id) else { return };
        let result = match finished {
            Finished::Pool(result) => result,
            Finished::System(_) | Finished::Connected(..) => Err(crate::client::unexpected()),
        };
        let Waiter::Queue { queue, .. } = &pending.waiter else { return };
        let is_wanted = self.queues.of(*queue).is_some_and(|open| !open.is_closed);
        match handles_of(&pending.waiter) {
            Some((pool, handles)) if is_wanted => {
                self.pools.of_mut(pool).into_iter().for_each(|attached| attached.answered(handles, &result));
            }
            Some((pool, handles)) => self.unwanted(pool, handles, &result),
            None => {}
        }
        self.hand_out(pending, result);
    }

    /// Gives a queue what it waits for.
    fn hand_out(&mut self, pending: Pending, result: Result<Answer>) {
        let Pending { waiter: Waiter::Queue { queue, token, request, .. }, buf, lease, .. } = pending else {
            return;
        };
        let buf = buf.or_else(|| request.and_then(|mut request| request.ask.take_buf()));
        let Some(open) = self.queues.of_mut(queue) else { return };
        open.under_way -= 1;
        if !open.is_closed {
            if let Wanted::Has(lease) = lease {
                open.leases.push((token, lease));
            }
            open.done.push(Outcome { token, result, buf });
        } else if open.under_way == 0 {
            self.queues.remove(queue);
        }
    }

    /// Ends requests of queues whose deadline has passed by `now_ns`.
    pub(super) fn fail_overdue(&mut self, now_ns: u64, error: &Error) {
        for id in self.requests.unanswered() {
            let pending = self.requests.of_mut(id).expect("just listed");
            if pending.deadline_ns <= now_ns
                && let Waiter::Queue { request, .. } = &pending.waiter
            {
                if let Some(head) = request.as_ref().map(|request| request.head) {
                    self.note_silence(id, &head);
                }
                if let Some(pending) = self.give_up(id) {
                    let done = Ok(Answer::Pool(PoolReply::Done));
                    let result = if pending.is_late { done } else { Err(error.clone()) };
                    self.hand_out(pending, result);
                }
            }
        }
    }

    /// Ends everything that queues wait for, without a word to the engine: in a forked child, whose parent goes on.
    pub(super) fn fail_all_unsaid(&mut self, error: &Error) {
        for id in self.requests.unanswered() {
            let is_queued =
                self.requests.of_mut(id).is_some_and(|p| matches!(p.waiter, Waiter::Queue { .. }));
            if is_queued && let Some(pending) = self.requests.give_up(id) {
                self.hand_out(pending, Err(error.clone()));
            }
        }
    }
}
