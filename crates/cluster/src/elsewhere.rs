//! Targets of a pool that are not in this process, as stores.
//!
//! Invariants: everything submitted is answered once, also if the other engine is gone: then with `Unreachable`.

use crate::copy;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::verb::{Reply, Verb};
use dolmen_codec::{
    Answer, Ask, Completion, Op, Outcome, Progress, QueueId, Request, TargetStore, Transport,
};
use dolmen_types::{Error, Result, TargetNo};
use std::sync::Arc;

/// A target of another engine, for the service of its pool.
pub struct Elsewhere {
    rank: u32,
    target: TargetNo,
    to: Arc<dyn Transport>,
    queue: QueueId,
    outcomes: Vec<Outcome>,
    /// Its engine did not answer when it was last looked after, and is not waited for until it does.
    is_silent: Arc<AtomicBool>,
}

impl Elsewhere {
    pub(crate) fn new(
        rank: u32,
        target: TargetNo,
        (to, is_silent): (Arc<dyn Transport>, Arc<AtomicBool>),
    ) -> Result<Self> {
        let queue = to.open_queue()?;
        Ok(Self { rank, target, to, queue, outcomes: Vec::new(), is_silent })
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.to.close_queue(self.queue);
    }
}

impl TargetStore for Elsewhere {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        let is_silent = self.is_silent.load(Ordering::Relaxed);
        for op in ops.drain(..) {
            let Op { token, head, cont, verb } = copy::into_owned(op);
            if is_silent {
                let result = Err(Error::Unreachable { rank: self.rank });
                self.outcomes.push(Outcome { token, result, buf: copy::buffer_of(verb) });
                continue;
            }
            // Who has an old map was told so by the service already.
            let head = dolmen_types::Head { map_version: 0, ..head };
            self.to.submit(self.queue, Request { token, head, ask: Ask::Target(self.target, cont, verb) });
        }
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        let wait = wait && self.outcomes.is_empty();
        self.to.poll(self.queue, wait, &mut self.outcomes);
        let rank = self.rank;
        out.extend(self.outcomes.drain(..).map(|outcome| completion(rank, outcome)));
    }

    fn step(&mut self) -> Progress {
        Progress::Idle
    }
}

fn completion(rank: u32, outcome: Outcome) -> Completion {
    let Outcome { token, result, buf } = outcome;
    let result = match result {
        Ok(Answer::Target(reply)) => Ok(reply),
        // A question to a target is answered by one: the other side speaks another protocol.
        Ok(Answer::Pool(_)) => Err(Error::Unreachable { rank }),
        Err(error) => Err(error),
    };
    Completion { token, result, buf }
}

/// The place of a target that a part of a pool does not have: clients do not ask for it here.
#[derive(Debug)]
pub struct Absent {
    rank: u32,
    refused: Vec<Completion>,
}

impl Absent {
    /// The place of a target of engine `rank`.
    #[must_use]
    pub fn new(rank: u32) -> Self {
        Self { rank, refused: Vec::new() }
    }
}

impl TargetStore for Absent {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        let unreachable = Error::Unreachable { rank: self.rank };
        self.refused.extend(ops.drain(..).map(|op| {
            let result = match op.verb {
                // Nothing is undecided here, which is all that is known.
                Verb::InDoubt => Ok(Reply::InDoubt(Vec::new())),
                _ => Err(unreachable.clone()),
            };
            Completion { token: op.token, result, buf: copy::buffer_of(op.verb) }
        }));
    }

    fn poll(&mut self, _wait: bool, out: &mut Vec<Completion>) {
        out.append(&mut self.refused);
    }

    fn step(&mut self) -> Progress {
        Progress::Idle
    }
}
