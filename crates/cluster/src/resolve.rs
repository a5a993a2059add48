//! Settling a transaction that is found undecided: the leader's record decides.
//!
//! The protocol is a pure function, [`Resolution`]; the rest of the module carries it out in process.
//!
//! Invariants: a participant is told to commit only after the leader was seen committed; it is told to abort
//! only after the leader has answered an `Abort`, so that the leader can never commit afterwards.

use crate::dispatch::{Targets, plain};
use crate::fence::CHANGE;
use core::time::Duration;
use dolmen_codec::TargetStore;
use dolmen_codec::verb::{Reply, TxState, Verb};
use dolmen_types::{ContNo, Error, Result, TargetNo, TxId};

/// Times that one operation is repeated because of undecided transactions.
pub(crate) const ATTEMPTS_MAX: u32 = 12;

/// The first wait for a coordinator that is still at work; doubles with every attempt, 1 s in all. A flush that
/// takes longer than that is a device in trouble.
const FIRST_WAIT: Duration = Duration::from_micros(500);

/// Decisions of others on one target that are waited through: there are no more at once than there are clients in line.
const DECISIONS_AWAITED: u32 = 64;

/// Attempts of an operation, 30 ms in all, before which a leader that does not know a transaction is expected to hear of it:
/// it may be in line there.
const UNKNOWN_ATTEMPTS: u32 = 6;

/// What the coordinator of an undecided transaction is waited for to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Patience {
    /// To prepare the leader, or to decide.
    Prepare,
    /// To decide, once the leader is prepared.
    Decide,
    /// Nothing: the transaction is ended.
    None,
}

impl Patience {
    fn at(attempt: u32) -> Self {
        match attempt {
            ..UNKNOWN_ATTEMPTS => Self::Prepare,
            attempt if attempt + 1 < ATTEMPTS_MAX => Self::Decide,
            _ => Self::None,
        }
    }
}

/// A question to a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// What do you know of the transaction?
    State,
    /// Commit it.
    Commit,
    /// Forget it.
    Abort,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Knowledge {
    /// To `Question::State`.
    State(TxState),
    /// To the other two.
    Done(Result<()>),
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Ask this target, and report its answer.
    Ask(TargetNo, Question),
    /// The coordinator may still be at work: wait, then begin anew with less patience.
    Wait,
    /// The participant knows the outcome.
    Settled,
}

/// Settles one transaction at one participant.
#[derive(Clone, Debug)]
pub struct Resolution {
    at: TargetNo,
    leader: TargetNo,
    patient: bool,
}

impl Resolution {
    /// A resolution for participant `at`. One without patience ends the transaction instead of waiting for
    /// its coordinator.
    #[must_use]
    pub fn begin(at: TargetNo, leader: TargetNo, patient: bool) -> (Self, Next) {
        (Self { at, leader, patient }, Next::Ask(leader, Question::State))
    }

    /// What follows from the answer of `from` to `to`. Repeat a question that gets no answer.
    #[must_use]
    pub fn on(&self, from: TargetNo, to: Question, answer: &Knowledge) -> Next {
        match (to, answer) {
            (Question::State, Knowledge::State(TxState::Committed)) if self.at == self.leader => {
                Next::Settled
            }
            (Question::State, Knowledge::State(TxState::Committed)) => Next::Ask(self.at, Question::Commit),
            (Question::State, Knowledge::State(TxState::Prepared)) if self.patient => Next::Wait,
            (Question::Abort, Knowledge::Done(Err(Error::Exists))) if from == self.leader => {
                if self.at == self.leader { Next::Settled } else { Next::Ask(self.at, Question::Commit) }
            }
            (Question::State, Knowledge::State(_)) => Next::Ask(self.leader, Question::Abort),
            (Question::Abort, Knowledge::Done(Ok(()))) if from == self.leader && self.at != self.leader => {
                Next::Ask(self.at, Question::Abort)
            }
            _ => Next::Settled,
        }
    }
}

/// Settles every undecided transaction of every target. REQUIRES: no coordinator is at work.
pub(crate) fn settle_all<T: TargetStore>(targets: &Targets<T>) -> Result<()> {
    for at in targets.numbers() {
        for undecided in targets.undecided(at) {
            settle(targets, at, undecided.leader, undecided.tx, Patience::None)?;
        }
    }
    Ok(())
}

/// Settles what is undecided in parts of the pool and was so at the last look already: its coordinator has given up, or has
/// time to begin anew. What cannot be settled now is tried at the next look.
pub(crate) fn settle_stale<T: TargetStore>(targets: &Targets<T>) {
    for at in targets.parts().targets() {
        let Ok(Reply::InDoubt(listed)) = targets.call(at, plain(ContNo::SYSTEM, Verb::InDoubt)).result else {
            continue;
        };
        for stale in targets.parts().stale(at, &listed) {
            // Ignored: an engine that does not answer now may at the next look.
            let _unsettled = settle(targets, at, stale.leader, stale.tx, Patience::None);
        }
    }
}

/// Settles a transaction that an operation met, or waits a while for its coordinator to do so, or for a container to be
/// open again.
pub(crate) fn settle_or_wait<T: TargetStore>(
    targets: &Targets<T>,
    at: TargetNo,
    tx: TxId,
    seen: u64,
    attempt: u32,
) {
    settle_or_pause(targets, at, tx, seen, (Patience::at(attempt), pause(attempt)));
}

/// The same, for a transaction that has waited in vain for the decision: a leader that does not know the one in its way is
/// not about to.
pub(crate) fn settle_overdue<T: TargetStore>(targets: &Targets<T>, at: TargetNo, tx: TxId) {
    let seen = targets.shared(at).decisions();
    settle_or_pause(targets, at, tx, seen, (Patience::Decide, FIRST_WAIT));
}

fn settle_or_pause<T: TargetStore>(
    targets: &Targets<T>,
    at: TargetNo,
    tx: TxId,
    seen: u64,
    (patience, limit): (Patience, Duration),
) {
    if tx != CHANGE {
        let Some(leader) = targets.leader_of(at, tx) else { return };
        // An error means that the leader cannot answer now: the operation is repeated and reports what it meets.
        if settle(targets, at, leader, tx, patience).unwrap_or(false) {
            return;
        }
    }
    targets.shared(at).wait_for_decision(seen, limit);
}

/// Waits until a transaction is decided on a target, or nothing was for as long as `limit`; whether it is.
pub(crate) fn await_decision<T: TargetStore>(
    targets: &Targets<T>,
    at: TargetNo,
    tx: TxId,
    limit: Duration,
) -> bool {
    let shared = targets.shared(at);
    for _ in 0..DECISIONS_AWAITED {
        let seen = shared.decisions();
        if tx != CHANGE && targets.leader_of(at, tx).is_none() {
            return true;
        }
        if !shared.wait_for_decision(seen, limit) {
            return false;
        }
    }
    false
}

/// How long to wait for a coordinator that is still at work, at the `attempt`th time.
pub(crate) fn pause(attempt: u32) -> Duration {
    FIRST_WAIT * (1 << attempt.min(ATTEMPTS_MAX))
}

/// Settles a transaction that an operation met, if that needs nobody but targets of this engine, and without waiting.
pub(crate) fn settle_at_hand<T: TargetStore>(targets: &Targets<T>, at: TargetNo, tx: TxId, attempt: u32) {
    if tx == CHANGE {
        return;
    }
    let Some(leader) = targets.leader_of(at, tx) else { return };
    if targets.parts().are_at(leader) || targets.parts().are_at(at) {
        return;
    }
    // Ignored: what cannot be settled now may be at the next attempt.
    let _settled = settle(targets, at, leader, tx, Patience::at(attempt));
}

/// True if the transaction is settled at `at`, false if its coordinator should be waited for.
fn settle<T: TargetStore>(
    targets: &Targets<T>,
    at: TargetNo,
    leader: TargetNo,
    tx: TxId,
    patience: Patience,
) -> Result<bool> {
    let (resolution, mut next) = Resolution::begin(at, leader, patience != Patience::None);
    loop {
        let (to, question) = match next {
            Next::Ask(to, question) => (to, question),
            Next::Wait => return Ok(false),
            Next::Settled => return Ok(true),
        };
        let verb = match question {
            Question::State => Verb::TxState(tx),
            Question::Commit => Verb::Commit(tx),
            Question::Abort => Verb::Abort(tx),
        };
        let knowledge = match targets.call(to, plain(ContNo::SYSTEM, verb)).result {
            Ok(Reply::TxState(TxState::Unknown)) if patience == Patience::Prepare => return Ok(false),
            Ok(Reply::TxState(state)) => Knowledge::State(state),
            Ok(_) => Knowledge::Done(Ok(())),
            Err(error @ (Error::Exists | Error::NotFound)) => Knowledge::Done(Err(error)),
            Err(error) => return Err(error),
        };
        next = resolution.on(to, question, &knowledge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: TargetNo = TargetNo(2);
    const LEADER: TargetNo = TargetNo(1);

    #[test]
    fn a_committed_leader_commits_the_participant() {
        let (it, first) = Resolution::begin(AT, LEADER, true);
        assert_eq!(first, Next::Ask(LEADER, Question::State));
        let next = it.on(LEADER, Question::State, &Knowledge::State(TxState::Committed));
        assert_eq!(next, Next::Ask(AT, Question::Commit));
        assert_eq!(it.on(AT, Question::Commit, &Knowledge::Done(Ok(()))), Next::Settled);
    }

    #[test]
    fn an_ignorant_leader_is_made_to_refuse_before_the_participant_forgets() {
        let (it, _) = Resolution::begin(AT, LEADER, true);
        let next = it.on(LEADER, Question::State, &Knowledge::State(TxState::Unknown));
        assert_eq!(next, Next::Ask(LEADER, Question::Abort));
        assert_eq!(it.on(LEADER, Question::Abort, &Knowledge::Done(Ok(()))), Next::Ask(AT, Question::Abort));
    }

    #[test]
    fn a_leader_that_committed_in_between_wins() {
        let (it, _) = Resolution::begin(AT, LEADER, false);
        let next = it.on(LEADER, Question::State, &Knowledge::State(TxState::Prepared));
        assert_eq!(next, Next::Ask(LEADER, Question::Abort));
        let next = it.on(LEADER, Question::Abort, &Knowledge::Done(Err(Error::Exists)));
        assert_eq!(next, Next::Ask(AT, Question::Commit));
    }

    #[test]
    fn a_coordinator_at_work_is_waited_for_unless_patience_is_spent() {
        let prepared = Knowledge::State(TxState::Prepared);
        assert_eq!(Resolution::begin(AT, LEADER, true).0.on(LEADER, Question::State, &prepared), Next::Wait);
        let (it, _) = Resolution::begin(LEADER, LEADER, false);
        assert_eq!(it.on(LEADER, Question::State, &prepared), Next::Ask(LEADER, Question::Abort));
        assert_eq!(it.on(LEADER, Question::Abort, &Knowledge::Done(Ok(()))), Next::Settled);
    }
}
