//! The coordinator of a transaction as a pure function: state + event -> commands.
//!
//! One target: a single `Prepare` that commits. Several: `Prepare` to all; when all have prepared, `Commit`
//! to the leader (the lowest target), whose record decides; then `Commit` to the others; when all have
//! acknowledged it, `Conclude` to the leader. Any refusal aborts all. A transaction that meets a prepared one waits for it if
//! that began before it, and restarts if not: with the order of their epochs no two wait for each other. Who carries out the commands, and how
//! answers get lost, is none of this module's business.
//!
//! Why an unknown transaction can be aborted: a leader forgets a commit only when it is concluded, so after every
//! participant has acknowledged it durably, and who has done so never asks again. So if a participant is
//! undecided and its leader knows nothing of the transaction, the leader has not committed it, and refuses to do so
//! once it has answered an `Abort`.
//!
//! Invariants: `Commit` is sent to anybody but the leader only after the leader has answered it; after a
//! `Commit` was sent to the leader, nothing is aborted unless the leader answers that it knows no such
//! transaction; `Conclude` is sent only after every participant has acknowledged the commit; messages go to
//! participants only; exactly one `Finish` is given.

use dolmen_types::{Epoch, Error, Result, TargetNo, TxId};
use smallvec::SmallVec;

/// Times that one message is sent before its target counts as unreachable.
pub const SENDS_MAX: u32 = 16;

/// Times that a `Prepare` is repeated because other transactions are undecided. Restarting the transaction is
/// the better way out of a crowd.
pub const DOUBTS_MAX: u32 = 8;

/// A message to a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Prepare the target's part; commits at once if it is the only participant.
    Prepare,
    /// Decide (leader), or carry out the decision.
    Commit,
    /// Forget.
    Abort,
    /// To the leader: all have acknowledged the commit, it need not be kept for them.
    Conclude,
}

/// What a coordinator wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a message to a participant; report its answer, or that none came.
    Send {
        /// To whom.
        to: TargetNo,
        /// What.
        message: Message,
    },
    /// Settle another transaction that stands in the way at a participant, then report `Settled`.
    Settle {
        /// Where it stands in the way.
        at: TargetNo,
        /// Which.
        tx: TxId,
    },
    /// Tell the client; sending may go on after it.
    Finish(Result<Epoch>),
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A participant answered.
    Answer {
        /// Who.
        from: TargetNo,
        /// To what.
        to: Message,
        /// Its answer.
        result: Result<()>,
    },
    /// No answer came in time: message or answer was lost, or the participant has crashed.
    Silence {
        /// Who.
        from: TargetNo,
        /// To what.
        to: Message,
    },
    /// The transaction that stood in the way at a participant is settled, or the patience for it is spent.
    Settled {
        /// Where.
        at: TargetNo,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waiting for all to prepare.
    Preparing,
    /// Waiting for the leader's decision.
    Deciding,
    /// Committed; telling the others.
    Telling,
    /// All others know; telling the leader so.
    Concluding,
    /// Aborted, or about to be; telling all.
    Aborting,
    /// Nothing left to do.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    target: TargetNo,
    /// Whether the message of the current phase is answered.
    answered: bool,
    sends: u32,
    doubts: u32,
}

/// The coordinator of one transaction.
#[derive(Clone, Debug)]
pub struct Coordinator {
    tx: TxId,
    epoch: Epoch,
    phase: Phase,
    parts: SmallVec<[Part; 4]>,
    /// Somebody did not acknowledge the commit, so that its leader keeps it.
    is_owed: bool,
}

impl Coordinator {
    /// A coordinator for `participants`, and its first commands.
    ///
    /// REQUIRES: `participants` are ascending without repetition, at least one.
    ///
    /// # Panics
    /// If they are not.
    pub fn begin(tx: TxId, epoch: Epoch, participants: &[TargetNo], out: &mut Vec<Command>) -> Self {
        assert!(!participants.is_empty(), "a transaction has a participant");
        assert!(participants.is_sorted_by(|a, b| a < b), "participants are ascending");
        let mut it = Self::in_phase(Phase::Preparing, tx, epoch, participants);
        it.send_all(Message::Prepare, out);
        it
    }

    /// A coordinator that tells the participants of a transaction which its leader has committed and keeps, and its
    /// first commands. Gives no `Finish`.
    ///
    /// REQUIRES: as `begin`, at least two.
    ///
    /// # Panics
    /// If they are not.
    pub fn tell_again(tx: TxId, epoch: Epoch, participants: &[TargetNo], out: &mut Vec<Command>) -> Self {
        assert!(participants.len() > 1, "the commit of a single target is known to it");
        assert!(participants.is_sorted_by(|a, b| a < b), "participants are ascending");
        let mut it = Self::in_phase(Phase::Telling, tx, epoch, participants);
        it.tell(Phase::Telling, 1, Message::Commit, out);
        it
    }

    fn in_phase(phase: Phase, tx: TxId, epoch: Epoch, participants: &[TargetNo]) -> Self {
        let part = |&target| Part { target, answered: false, sends: 0, doubts: 0 };
        Self { tx, epoch, phase, parts: participants.iter().map(part).collect(), is_owed: false }
    }

    /// Begins to tell the participants anew, after this one `is_owed`.
    #[must_use]
    pub fn again(&self, out: &mut Vec<Command>) -> Self {
        let participants: SmallVec<[TargetNo; 4]> = self.parts.iter().map(|part| part.target).collect();
        Self::tell_again(self.tx, self.epoch, &participants, out)
    }

    /// Whether the transaction is committed and somebody may not know: its leader keeps the decision until all do.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Whether it has given up, and not all know.
    #[must_use]
    pub fn is_aborting(&self) -> bool {
        self.phase == Phase::Aborting
    }

    /// Whose record decides.
    #[must_use]
    pub fn leader(&self) -> TargetNo {
        self.parts[0].target
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Takes note of an event and appends what follows from it. Late and repeated events do nothing.
    pub fn on(&mut self, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Answer { from, to, result } => self.on_answer(from, to, result, out),
            Event::Silence { from, to } => self.on_silence(from, to, out),
            Event::Settled { at } => {
                if let Some(index) = self.waiting(at, Message::Prepare) {
                    self.send(index, Message::Prepare, out);
                }
            }
        }
    }

    fn on_answer(&mut self, from: TargetNo, to: Message, result: Result<()>, out: &mut Vec<Command>) {
        let Some(index) = self.waiting(from, to) else { return };
        match (self.phase, result) {
            (Phase::Preparing, Ok(())) => {
                self.parts[index].answered = true;
                if self.parts.iter().all(|part| part.answered) {
                    self.decide(out);
                }
            }
            (Phase::Preparing, Err(error)) => self.on_refusal(index, error, out),
            (Phase::Deciding, Ok(())) => {
                out.push(Command::Finish(Ok(self.epoch)));
                self.tell(Phase::Telling, 1, Message::Commit, out);
            }
            // Somebody found the transaction undecided for too long and had the leader forget it.
            (Phase::Deciding, Err(Error::NotFound)) => {
                out.push(Command::Finish(Err(self.restart())));
                self.tell(Phase::Aborting, 1, Message::Abort, out);
            }
            (_, Err(Error::Busy)) => self.on_silence(from, to, out),
            // The leader's device failed: what its log holds decides when it is opened again.
            (Phase::Deciding, Err(error)) => {
                out.push(Command::Finish(Err(error)));
                self.phase = Phase::Closed;
            }
            // Who had prepared it and does not know it any more has committed it long ago: nobody could abort it.
            (Phase::Telling, Ok(()) | Err(Error::NotFound)) => self.told(index, out),
            (Phase::Concluding, Ok(())) => self.phase = Phase::Closed,
            (Phase::Telling | Phase::Concluding, Err(_)) => self.on_silence(from, to, out),
            (Phase::Aborting, _) => self.told(index, out),
            (Phase::Closed, _) => {}
        }
    }

    fn on_refusal(&mut self, index: usize, error: Error, out: &mut Vec<Command>) {
        let part = &mut self.parts[index];
        let at = part.target;
        let verdict = match error {
            // Who comes later waits, who comes earlier gives way: so nobody waits in a circle.
            Error::InDoubt { tx } if may_wait_for(self.tx, tx) && part.doubts < DOUBTS_MAX => {
                part.doubts += 1;
                part.sends = 0;
                out.push(Command::Settle { at, tx });
                return;
            }
            Error::Busy => return self.on_silence(at, Message::Prepare, out),
            Error::InDoubt { .. } => self.restart(),
            other => other,
        };
        self.give_up(verdict, out);
    }

    fn on_silence(&mut self, from: TargetNo, to: Message, out: &mut Vec<Command>) {
        let Some(index) = self.waiting(from, to) else { return };
        if self.parts[index].sends < SENDS_MAX {
            return self.send(index, to, out);
        }
        match self.phase {
            Phase::Preparing if self.parts.len() > 1 => self.give_up(self.restart(), out),
            // The only participant, or the leader, may have committed: nobody can say it before it answers.
            Phase::Preparing | Phase::Deciding => {
                out.push(Command::Finish(Err(Error::InDoubt { tx: self.tx })));
                self.phase = Phase::Closed;
            }
            // Who was not told asks the leader when it matters, and the leader keeps the decision for it.
            Phase::Telling | Phase::Concluding => {
                self.is_owed = true;
                self.told(index, out);
            }
            Phase::Aborting | Phase::Closed => self.told(index, out),
        }
    }

    fn decide(&mut self, out: &mut Vec<Command>) {
        if self.parts.len() == 1 {
            out.push(Command::Finish(Ok(self.epoch)));
            self.phase = Phase::Closed;
            return;
        }
        self.phase = Phase::Deciding;
        self.renew(0);
        self.send(0, Message::Commit, out);
    }

    fn give_up(&mut self, verdict: Error, out: &mut Vec<Command>) {
        out.push(Command::Finish(Err(verdict)));
        // The only participant has changed nothing when it refuses, so there is nothing to forget.
        let first = usize::from(self.parts.len() == 1);
        self.tell(Phase::Aborting, first, Message::Abort, out);
    }

    /// Enters the last phase: `message` goes to all participants from the `first` one on.
    fn tell(&mut self, phase: Phase, first: usize, message: Message, out: &mut Vec<Command>) {
        self.phase = if first < self.parts.len() { phase } else { Phase::Closed };
        self.parts.iter_mut().take(first).for_each(|part| part.answered = true);
        for index in first..self.parts.len() {
            self.renew(index);
            self.send(index, message, out);
        }
    }

    fn told(&mut self, index: usize, out: &mut Vec<Command>) {
        self.parts[index].answered = true;
        if !self.parts.iter().all(|part| part.answered) {
            return;
        }
        if self.phase == Phase::Telling && !self.is_owed {
            self.phase = Phase::Concluding;
            self.renew(0);
            self.send(0, Message::Conclude, out);
        } else {
            self.phase = Phase::Closed;
        }
    }

    fn send_all(&mut self, message: Message, out: &mut Vec<Command>) {
        for index in 0..self.parts.len() {
            self.send(index, message, out);
        }
    }

    fn send(&mut self, index: usize, message: Message, out: &mut Vec<Command>) {
        self.parts[index].sends += 1;
        out.push(Command::Send { to: self.parts[index].target, message });
    }

    fn renew(&mut self, index: usize) {
        let part = &mut self.parts[index];
        (part.answered, part.sends) = (false, 0);
    }

    /// The participant's index if its answer to `message` is what the current phase waits for.
    fn waiting(&self, from: TargetNo, message: Message) -> Option<usize> {
        let expected = match self.phase {
            Phase::Preparing => Message::Prepare,
            Phase::Deciding | Phase::Telling => Message::Commit,
            Phase::Aborting => Message::Abort,
            Phase::Concluding => Message::Conclude,
            Phase::Closed => return None,
        };
        let index = self.parts.iter().position(|part| part.target == from)?;
        let asked = self.phase != Phase::Deciding || index == 0;
        (asked && message == expected && !self.parts[index].answered).then_some(index)
    }

    fn restart(&self) -> Error {
        Error::TxRestart { after: self.epoch }
    }
}

/// Whether a transaction that holds what it has prepared may wait for another one. It would have to restart after a later one
/// in any case, since that is above its epoch.
pub(crate) fn may_wait_for(waiting: TxId, other: TxId) -> bool {
    (other.begin, other.client) < (waiting.begin, waiting.client)
}

#[cfg(test)]
mod tests;
