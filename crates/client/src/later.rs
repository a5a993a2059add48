//! Questions that nobody waits for in the call: whoever asked comes back and looks.
//!
//! They share one queue of the transport, which has few, whatever their number; more than may be under way wait in the client.
//!
//! Invariants: the lock is not held while the transport is asked; an answer that nobody wants any more is dropped.

use crate::client::Core;
use crate::gathered::Gathered;
use dolmen_codec::{Answer, Outcome, QueueId, Request, Transport, give_way};
use dolmen_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The queue, opened with the first question, and what was asked on it.
pub(crate) struct Later {
    transport: Arc<dyn Transport>,
    // Guards: who waits for what; taken alone.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: Option<QueueId>,
    last: u64,
    /// By token; with the answer, once it has come.
    asked: BTreeMap<u64, Option<Outcome>>,
    /// How many are sent and not answered, also of those that nobody waits for.
    sent: usize,
}

/// A question under way.
struct Asked<'c> {
    later: &'c Later,
    token: u64,
}

impl Later {
    pub(crate) fn new(transport: &Arc<dyn Transport>) -> Self {
        Self { transport: Arc::clone(transport), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question for which there is room; its token.
    fn send(&self, mut request: Request<'static>) -> Result<u64> {
        let mut state = self.lock();
        let queue = match state.queue {
            Some(queue) => queue,
            None => *state.queue.insert(self.transport.open_queue()?),
        };
        state.last += 1;
        state.sent += 1;
        let token = state.last;
        state.asked.insert(token, None);
        drop(state);
        request.token = token;
        self.transport.submit(queue, request);
        Ok(token)
    }

    /// Takes in what has come; how many answers that are.
    fn drive(&self) -> usize {
        let Some(queue) = self.lock().queue else { return 0 };
        let mut outcomes = Vec::new();
        self.transport.poll(queue, false, &mut outcomes);
        if outcomes.is_empty() {
            return 0;
        }
        let (count, mut unwanted) = (outcomes.len(), Vec::new());
        let mut state = self.lock();
        state.sent -= count;
        for outcome in outcomes {
            match state.asked.get_mut(&outcome.token) {
                Some(answer) => *answer = Some(outcome),
                None => unwanted.push(outcome),
            }
        }
        drop(state);
        drop(unwanted);
        count
    }
}

impl Asked<'_> {
    /// The answer, if it is there.
    fn answer(&self) -> Option<Outcome> {
        self.later.lock().asked.get_mut(&self.token)?.take()
    }
}

/// A question to whose answer its asker comes back, or does not.
pub(crate) struct Unawaited {
    core: Arc<Core>,
    token: u64,
}

impl Unawaited {
    /// Asks if there is room for it: before whatever is asked after it of the same engine.
    ///
    /// # Errors
    /// `Busy` if there is none.
    pub(crate) fn ask(core: &Arc<Core>, make: impl FnOnce() -> Request<'static>) -> Result<Self> {
        if !core.may_send() {
            return Err(Error::Busy);
        }
        let token = core.later().send(make()).inspect_err(|_| core.was_answered(1))?;
        Ok(Self { core: Arc::clone(core), token })
    }

    /// What was sent may be in a buffer still. Whether a connection had to be made anew for it.
    pub(crate) fn send(&self) -> bool {
        self.core.transport().flush()
    }

    /// What it was answered, told once; `None` if that is not there yet.
    ///
    /// # Errors
    /// Those of the transport.
    pub(crate) fn answer(&mut self) -> Option<Result<Answer>> {
        let take = || self.core.later().lock().asked.get_mut(&self.token)?.take();
        let outcome = take().or_else(|| {
            self.core.drive_later();
            take()
        })?;
        Some(outcome.result)
    }
}

impl Drop for Unawaited {
    fn drop(&mut self) {
        let gone = self.core.later().lock().asked.remove(&self.token);
        drop(gone);
    }
}

impl core::fmt::Debug for Unawaited {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Unawaited").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let gone = self.later.lock().asked.remove(&self.token);
        drop(gone);
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some(queue) = self.lock().queue {
            self.transport.close_queue(queue);
        }
    }
}

impl Core {
    /// Takes in answers to questions that nobody waits for in the call.
    pub(crate) fn drive_later(&self) {
        let later = self.later();
        self.was_answered(later.drive());
    }

    /// Gives way until there is room for a question, asks it, and gives way until it is answered.
    ///
    /// In a round it is asked with the rest of that, and with a lease if there is a place for it.
    ///
    /// # Errors
    /// `Busy` if the transport has no queue left.
    pub(crate) async fn ask_later(
        &self,
        make: impl FnOnce() -> Request<'static>,
        gathered: Option<&Gathered>,
    ) -> Result<Outcome> {
        if self.has_round() {
            return Ok(self.ask_in_round(make, gathered).await);
        }
        gathered.into_iter().for_each(Gathered::note_gap);
        let later = self.later();
        while !self.may_send() {
            if later.lock().sent == 0 {
                // Queues have taken all the room, and their program may not be looking at them.
                self.drive_queues();
            }
            give_way().await;
            self.drive_later();
        }
        let token = later.send(make()).inspect_err(|_| self.was_answered(1))?;
        let asked = Asked { later, token };
        loop {
            give_way().await;
            if let Some(outcome) = asked.answer() {
                return Ok(outcome);
            }
            self.drive_later();
            if let Some(outcome) = asked.answer() {
                return Ok(outcome);
            }
        }
    }
}
