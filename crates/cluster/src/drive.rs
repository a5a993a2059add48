//! Carries out a coordinator's commands on the targets of this process.
//!
//! Messages to several targets are started before the first is waited for, so that their flushes overlap.
//! Targets that take no part are neither asked nor waited for.

use crate::accounts::Moving;
use crate::commit::{Command, Coordinator, Event, Message};
use crate::copy::borrowed_mutations;
use crate::dispatch::Targets;
use crate::resolve;
use crate::tell::{self, Asked, Telling};
use crate::turns::Turn;
use crate::whose;
use core::time::Duration;
use dolmen_codec::pool::TxCommit;
use dolmen_codec::verb::{Prepare, Reply, TxState, Verb};
use dolmen_codec::{Op, TargetStore};
use dolmen_types::{Epoch, Error, Head, Invalid, RequestId, Result, TargetNo, TxId, limits};
use smallvec::SmallVec;

/// How long to wait for an earlier transaction while holding prepared parts: it waits for none that is later, so that it is
/// decided as soon as its devices and those before it allow. Much longer, and its coordinator has given up.
const EARLIER_WAIT: Duration = Duration::from_millis(30);

/// How often who commits a transaction looks whether another one who does has ended: for some seconds. Then it is in doubt, and may
/// be asked for again.
const TURN_LOOKS_MAX: u32 = 5_000;

/// Commits a transaction; the epoch of its writes.
///
/// Sending a committed transaction again returns its epoch, within the targets' retention. Another user's, or one that
/// does something else, is another one, whatever number the client has given it.
///
/// # Errors
/// `TxRestart` on a conflict; `InDoubt` if the outcome is unknown; `Invalid` for a transaction that names a
/// target twice or none, or has more than `limits::TX_MUTATIONS_MAX` mutations on one; what a target answers.
pub(crate) fn commit<T: TargetStore>(
    targets: &Targets<T>,
    head: &Head,
    commit: TxCommit<'_>,
) -> Result<Epoch> {
    let mut commit = commit;
    commit.parts.sort_by_key(|part| part.0);
    let participants: SmallVec<[TargetNo; 4]> = commit.parts.iter().map(|part| part.0).collect();
    if !participants.is_sorted_by(|a, b| a < b) || participants.iter().any(|p| p.index() >= targets.count()) {
        return Err(Invalid::Argument.into());
    }
    if commit.parts.iter().any(|(_, mutations)| !(1..=limits::TX_MUTATIONS_MAX).contains(&mutations.len())) {
        return Err(Invalid::Count.into());
    }
    let Some(&leader) = participants.first() else { return Ok(commit.epoch) };
    tell::tell_on(targets);
    let tx = whose::number_of(&commit, head.cred);
    // Who was asked before may give it up, and have those forget it who prepare it for this one.
    let turn = if participants.len() > 1 { Some(turn_of(targets, tx)?) } else { None };
    // To the end of it, whatever that is.
    let _moving = Moving::begin(targets, &commit, tx);
    let TxCommit { cont, epoch, mut parts, .. } = commit;
    if participants.len() == 1 {
        let (_, mutations) = parts.remove(0);
        let verb = Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations });
        let answer = targets.call(leader, Op { token: 0, head: *head, cont, verb });
        return answer.result.map(|_| epoch);
    }
    // A decision has to be carried out whatever the deadline, and is repeatable without being remembered.
    let decided = Head { id: RequestId::default(), deadline_ns: 0, ..*head };
    let decision = |verb| Op { token: 0, head: decided, cont, verb };
    if let Reply::TxState(TxState::Committed) = targets.call(leader, decision(Verb::TxState(tx))).result? {
        return Ok(epoch);
    }
    let op = |to: TargetNo, message| match tell::decided(message, tx) {
        Some(verb) => decision(verb),
        None => {
            let (_, mutations) = parts.iter().find(|part| part.0 == to).expect("sent to participants only");
            let (participants, mutations) = (participants.clone(), borrowed_mutations(mutations));
            let verb = Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations });
            Op { token: 0, head: *head, cont, verb }
        }
    };
    let mut commands = Vec::new();
    let mut coordinator = Coordinator::begin(tx, epoch, &participants, &mut commands);
    let mut sent = Sent::default();
    while let Some(event) = carry_out(targets, &mut commands, &mut sent, &op) {
        coordinator.on(event, &mut commands);
    }
    let Sent { verdict, told, .. } = sent;
    if !coordinator.is_closed() {
        // Whoever asks again for what is committed is told so by the leader.
        let turn = turn.filter(|_| coordinator.is_aborting());
        tell::look_after(targets, Telling::new(tx, coordinator, told, turn));
    }
    verdict.expect("a coordinator that has no command left has given its verdict")
}

/// The turn of a transaction.
///
/// # Errors
/// `InDoubt` if somebody has it for long.
fn turn_of<T: TargetStore>(targets: &Targets<T>, tx: TxId) -> Result<Turn> {
    let mut looks = 0;
    let goes_on = || {
        tell::tell_on(targets);
        looks += 1;
        looks < TURN_LOOKS_MAX
    };
    targets.turns().take(tx, goes_on).ok_or(Error::InDoubt { tx })
}

/// What a coordinator has sent.
#[derive(Default)]
struct Sent {
    verdict: Option<Result<Epoch>>,
    /// What it waits for, by target.
    asked: SmallVec<[Asked; 4]>,
    /// What it does not wait for.
    told: SmallVec<[Asked; 4]>,
}

/// Carries out all commands, which it takes, and waits for one answer unless there is a verdict; returns what happened. The
/// lowest target is waited for first: transactions that meet there form one line for all of them.
fn carry_out<'a, T: TargetStore>(
    targets: &Targets<T>,
    commands: &mut Vec<Command>,
    sent: &mut Sent,
    op: &impl Fn(TargetNo, Message) -> Op<'a>,
) -> Option<Event> {
    for command in commands.drain(..) {
        match command {
            // The client does not wait for those who are told of a decision: a reader that comes first asks the leader.
            Command::Send { to, message } => {
                let asked = (to, message, targets.start(to, op(to, message)));
                if sent.verdict.is_some() { &mut sent.told } else { &mut sent.asked }.push(asked);
            }
            Command::Settle { at, tx } => {
                if !resolve::await_decision(targets, at, tx, EARLIER_WAIT) {
                    resolve::settle_overdue(targets, at, tx);
                }
                // It is the only command.
                return Some(Event::Settled { at });
            }
            Command::Finish(result) => sent.verdict = Some(result),
        }
    }
    if sent.verdict.is_some() {
        return None;
    }
    let lowest = (0..sent.asked.len()).min_by_key(|&at| sent.asked[at].0)?;
    let (from, to, ticket) = sent.asked.remove(lowest);
    let result = targets.wait_for(from, &ticket).completion.result.map(|_| ());
    Some(Event::Answer { from, to, result })
}
