//! What the owner of a target remembers of transactions, so that late and repeated messages do no harm, and which
//! containers are closed for a change of the whole.
//!
//! Invariants: every transaction that the store holds as prepared is listed here; after an abort was
//! answered, no `Prepare` of that transaction reaches the store again; what reads or writes in a closed container does
//! not reach the store.

use dolmen_codec::verb::{InDoubt, Prepare, Reply, Verb};
use dolmen_types::{ContNo, Epoch, Error, Result, TargetNo, TxId};
use std::collections::VecDeque;

/// Stands for the change that a container is closed for, where an operation is told which transaction it has met.
pub(crate) const CHANGE: TxId = TxId { client: 0, begin: Epoch::ZERO };

/// Decisions remembered. A message that is still on its way after this many later decisions on one target
/// is refused by the floor instead, which only costs its sender a restart.
const DECIDED_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decision {
    Committed,
    Aborted,
}

/// What an operation does to a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// Nothing: no verb of a transaction.
    Plain,
    Prepared(TxId, TargetNo),
    Committed(TxId),
    Aborted(TxId),
}

impl Note {
    #[inline]
    pub(crate) fn of(verb: &Verb<'_>) -> Self {
        match verb {
            Verb::Prepare(p) if p.participants.len() > 1 => Self::Prepared(p.tx, p.leader),
            Verb::Commit(tx) => Self::Committed(*tx),
            Verb::Abort(tx) => Self::Aborted(*tx),
            _ => Self::Plain,
        }
    }
}

/// A transaction that the store may hold as prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Undecided {
    pub(crate) tx: TxId,
    pub(crate) leader: TargetNo,
    /// Whether the store has answered that it is prepared, durably.
    answered: bool,
}

/// One target's memory of transactions; lost with the process, which is safe because whoever opens the target
/// calls `refuse_older` with the clock of that moment.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    undecided: Vec<Undecided>,
    decided: VecDeque<(TxId, Decision)>,
    /// Transactions begun at or below this epoch may have been aborted and forgotten.
    floor: Epoch,
    /// Containers that are being changed as a whole: nobody reads or writes in them meanwhile.
    closed: Vec<ContNo>,
}

impl Fence {
    /// A fence that knows what a store reported at open.
    pub(crate) fn with_undecided(listed: &[InDoubt]) -> Self {
        let undecided = listed.iter().map(|d| Undecided { tx: d.tx, leader: d.leader, answered: true });
        Self { undecided: undecided.collect(), ..Self::default() }
    }

    /// Whether no transaction is undecided and no container closed, so that no operation can meet one.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.undecided.is_empty() && self.closed.is_empty()
    }

    /// Makes operations in a container wait. Decisions of transactions pass: what they decide was prepared before.
    pub(crate) fn close(&mut self, cont: ContNo) {
        if !self.closed.contains(&cont) {
            self.closed.push(cont);
        }
    }

    /// Lets operations in a container through again.
    pub(crate) fn open(&mut self, cont: ContNo) {
        self.closed.retain(|&closed| closed != cont);
    }

    /// Whether an operation has to wait until its container is open again.
    #[inline]
    pub(crate) fn keeps_out(&self, cont: ContNo, verb: &Verb<'_>) -> bool {
        !self.closed.is_empty() && self.closed.contains(&cont) && reads_or_writes(verb)
    }

    /// Who leads an undecided transaction; `None` if it is decided by now.
    pub(crate) fn leader_of(&self, tx: TxId) -> Option<TargetNo> {
        self.undecided.iter().find(|u| u.tx == tx).map(|u| u.leader)
    }

    /// Undecided transactions.
    pub(crate) fn undecided(&self) -> &[Undecided] {
        &self.undecided
    }

    /// Refuses transactions begun at or below `epoch`, which may have been decided before this memory began.
    pub(crate) fn refuse_older(&mut self, epoch: Epoch) {
        self.floor = self.floor.max(epoch);
    }

    /// The answer to a late or repeated `Prepare`; `None` if the store has to see it.
    ///
    /// `Busy` means that the first one is not answered yet: ask again.
    pub(crate) fn answer(&self, prepare: &Prepare<'_>) -> Option<Result<Reply>> {
        if prepare.participants.len() < 2 {
            return None;
        }
        let tx = prepare.tx;
        if let Some(known) = self.undecided.iter().find(|u| u.tx == tx) {
            return Some(if known.answered { Ok(Reply::Prepared) } else { Err(Error::Busy) });
        }
        let restart = Err(Error::TxRestart { after: prepare.epoch });
        match self.decided.iter().rev().find(|d| d.0 == tx) {
            Some((_, Decision::Committed)) => Some(Ok(Reply::Prepared)),
            Some((_, Decision::Aborted)) => Some(restart),
            None => (tx.begin <= self.floor).then_some(restart),
        }
    }

    /// Notes that the store is about to be asked. REQUIRES: `answer` had no answer to it.
    pub(crate) fn before(&mut self, note: Note) {
        if let Note::Prepared(tx, leader) = note {
            assert!(self.leader_of(tx).is_none(), "a prepared transaction is answered by the fence");
            self.undecided.push(Undecided { tx, leader, answered: false });
        }
    }

    /// Notes what the store answered; true if that decided a transaction.
    pub(crate) fn after(&mut self, note: Note, result: &Result<Reply>) -> bool {
        match (note, result) {
            (Note::Prepared(tx, _), Ok(_)) => {
                if let Some(known) = self.undecided.iter_mut().find(|u| u.tx == tx) {
                    known.answered = true;
                }
                false
            }
            // Only a refusal proves that nothing is prepared; after a device error the log may hold it.
            (Note::Prepared(tx, _), Err(error)) => {
                if !matches!(error, Error::Io { .. } | Error::ReadOnly { .. }) {
                    self.undecided.retain(|u| u.tx != tx);
                }
                false
            }
            (Note::Committed(tx), Ok(_)) | (Note::Aborted(tx), Err(Error::Exists)) => {
                self.decide(tx, Decision::Committed)
            }
            (Note::Aborted(tx), Ok(_)) => self.decide(tx, Decision::Aborted),
            (Note::Committed(tx), Err(Error::NotFound)) => {
                self.undecided.retain(|u| u.tx != tx);
                true
            }
            _ => false,
        }
    }

    fn decide(&mut self, tx: TxId, decision: Decision) -> bool {
        self.undecided.retain(|u| u.tx != tx);
        if self.decided.len() == DECIDED_MAX
            && let Some((old, Decision::Aborted)) = self.decided.pop_front()
        {
            self.floor = self.floor.max(old.begin);
        }
        self.decided.push_back((tx, decision));
        true
    }
}

fn reads_or_writes(verb: &Verb<'_>) -> bool {
    match verb {
        Verb::Update(_)
        | Verb::Punch(_)
        | Verb::Fetch(_)
        | Verb::List(_)
        | Verb::Query(_)
        | Verb::Prepare(_) => true,
        Verb::Commit(_)
        | Verb::Conclude(_)
        | Verb::Abort(_)
        | Verb::TxState(_)
        | Verb::InDoubt
        | Verb::Unconcluded
        | Verb::Latest
        | Verb::Cont(_)
        | Verb::Space
        | Verb::Flush
        | Verb::Checkpoint
        | Verb::Scrub
        | Verb::Check => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn tx(begin: u64) -> TxId {
        TxId { client: 1, begin: Epoch(begin) }
    }

    fn prepare(begin: u64) -> Prepare<'static> {
        Prepare {
            tx: tx(begin),
            epoch: Epoch(begin),
            leader: TargetNo(0),
            participants: smallvec![TargetNo(0), TargetNo(1)],
            mutations: Vec::new(),
        }
    }

    #[test]
    fn a_prepare_that_comes_after_its_abort_is_refused() {
        let mut fence = Fence::default();
        assert!(fence.answer(&prepare(5)).is_none());
        assert!(fence.after(Note::Aborted(tx(5)), &Ok(Reply::Done)));
        assert!(matches!(fence.answer(&prepare(5)), Some(Err(Error::TxRestart { .. }))));
    }

    #[test]
    fn a_repeated_prepare_is_answered_without_the_store() {
        let mut fence = Fence::default();
        fence.before(Note::Prepared(tx(5), TargetNo(0)));
        assert!(matches!(fence.answer(&prepare(5)), Some(Err(Error::Busy))));
        fence.after(Note::Prepared(tx(5), TargetNo(0)), &Ok(Reply::Prepared));
        assert!(!fence.is_quiet());
        assert!(matches!(fence.answer(&prepare(5)), Some(Ok(Reply::Prepared))));
        assert!(fence.after(Note::Committed(tx(5)), &Ok(Reply::Done)));
        assert!(fence.is_quiet());
        assert!(matches!(fence.answer(&prepare(5)), Some(Ok(Reply::Prepared))));
    }

    #[test]
    fn a_forgotten_abort_still_refuses_through_the_floor() {
        let mut fence = Fence::default();
        for begin in 1..=5000 {
            fence.after(Note::Aborted(tx(begin)), &Ok(Reply::Done));
        }
        assert!(matches!(fence.answer(&prepare(3)), Some(Err(Error::TxRestart { .. }))));
        assert!(fence.answer(&prepare(6000)).is_none());
    }
}
