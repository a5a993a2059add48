//! Telling the participants of a commit, while its client goes on.
//!
//! Invariants: a commit whose coordinator has given its verdict is listed here until its leader has concluded it, or the
//! pool is closed; what is left then is told again when the pool is opened.

use crate::commit::{Command, Coordinator, Event, Message};
use crate::dispatch::{Targets, plain};
use crate::inbox::{Ticket, locked};
use crate::turns::Turn;
use dolmen_codec::TargetStore;
use dolmen_codec::pool::EndedTx;
use dolmen_codec::verb::{InDoubt, Reply, Verb};
use dolmen_types::{ContNo, Result, TargetNo, TxId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Commits looked after at a time: each takes two looks or three, so that fewer would let them pile up.
const LOOKED_AFTER: usize = 4;

/// A message under way to a participant.
pub(crate) type Asked = (TargetNo, Message, Arc<Ticket>);

/// A decided transaction of which not all know.
pub(crate) struct Telling {
    tx: TxId,
    coordinator: Coordinator,
    asked: SmallVec<[Asked; 4]>,
    /// Nobody else commits it meanwhile, if it is being aborted.
    _turn: Option<Turn>,
}

/// All of them, oldest first. The leaders bound their number.
#[derive(Default)]
pub(crate) struct Tellings {
    /// Guards the list; taken alone.
    list: Mutex<VecDeque<Telling>>,
}

impl Telling {
    pub(crate) fn new(
        tx: TxId,
        coordinator: Coordinator,
        asked: SmallVec<[Asked; 4]>,
        turn: Option<Turn>,
    ) -> Self {
        Self { tx, coordinator, asked, _turn: turn }
    }

    /// Takes note of the answers that are there and sends what follows; true if all know. With `wait`, waits for what
    /// is under way and begins nothing anew.
    fn go_on<T: TargetStore>(&mut self, targets: &Targets<T>, wait: bool) -> bool {
        let mut commands = Vec::new();
        for (from, to, ticket) in core::mem::take(&mut self.asked) {
            if !wait {
                targets.drive(from);
            }
            let finished = if wait { Some(targets.wait_for(from, &ticket)) } else { ticket.take() };
            match finished {
                None => self.asked.push((from, to, ticket)),
                Some(finished) => {
                    let result = finished.completion.result.map(|_| ());
                    self.coordinator.on(Event::Answer { from, to, result }, &mut commands);
                }
            }
        }
        if self.coordinator.is_closed() && !self.coordinator.is_owed() {
            return true;
        }
        if self.coordinator.is_closed() && !wait {
            self.coordinator = self.coordinator.again(&mut commands);
        }
        for command in commands {
            let Command::Send { to, message } = command else {
                unreachable!("a decided transaction needs nothing but messages");
            };
            let verb = decided(message, self.tx).expect("it is prepared everywhere");
            self.asked.push((to, message, targets.start(to, plain(ContNo::SYSTEM, verb))));
        }
        false
    }

    fn is_under_way(&self) -> bool {
        !self.asked.is_empty()
    }
}

/// What a message that follows a decision asks of a target; none for the one that comes before it.
pub(crate) fn decided<'a>(message: Message, tx: TxId) -> Option<Verb<'a>> {
    match message {
        Message::Commit => Some(Verb::Commit(tx)),
        Message::Conclude => Some(Verb::Conclude(tx)),
        Message::Abort => Some(Verb::Abort(tx)),
        Message::Prepare => None,
    }
}

/// Tells the targets at which a transaction was only read that it has ended, and waits for none of them: what one that does not
/// hear it keeps for the transaction, it keeps no longer than for others that do not end.
pub(crate) fn tell_end<T: TargetStore>(targets: &Targets<T>, ended: &EndedTx) {
    let tx = TxId { client: 0, begin: ended.epoch };
    for &target in ended.read.iter().filter(|target| target.index() < targets.count()) {
        targets.tell(target, plain(ContNo::SYSTEM, Verb::Conclude(tx)));
    }
}

/// Looks after a transaction from now on.
pub(crate) fn look_after<T: TargetStore>(targets: &Targets<T>, telling: Telling) {
    locked(&targets.tellings().list).push_back(telling);
}

/// Looks after a few of the transactions that not all know of.
pub(crate) fn tell_on<T: TargetStore>(targets: &Targets<T>) {
    let tellings = targets.tellings();
    let count = locked(&tellings.list).len().min(LOOKED_AFTER);
    for _ in 0..count {
        // Another thread may be looking after the rest.
        let Some(mut telling) = locked(&tellings.list).pop_front() else { return };
        if !telling.go_on(targets, false) {
            locked(&tellings.list).push_back(telling);
        }
    }
}

/// Waits until everybody knows who can be told now. Those who cannot are told later: the leader keeps the decision.
pub(crate) fn tell_all<T: TargetStore>(targets: &Targets<T>) {
    let all = core::mem::take(&mut *locked(&targets.tellings().list));
    for mut telling in all {
        let mut all_know = telling.go_on(targets, true);
        while !all_know && telling.is_under_way() {
            all_know = telling.go_on(targets, true);
        }
        if !all_know {
            locked(&targets.tellings().list).push_back(telling);
        }
    }
}

/// Tells the participants of all transactions that leaders have committed and keep.
pub(crate) fn tell_again<T: TargetStore>(targets: &Targets<T>) -> Result<()> {
    for leader in targets.numbers() {
        let kept = match targets.call(leader, plain(ContNo::SYSTEM, Verb::Unconcluded)).result? {
            Reply::InDoubt(kept) => kept,
            other => unreachable!("a store answers Unconcluded with a list, not {other:?}"),
        };
        for one in kept.into_iter().filter(|one| can_be_told(one, leader, targets.count())) {
            let mut commands = Vec::new();
            let coordinator = Coordinator::tell_again(one.tx, one.epoch, &one.participants, &mut commands);
            let send = |command| match command {
                Command::Send { to, message } => {
                    (to, message, targets.start(to, plain(ContNo::SYSTEM, Verb::Commit(one.tx))))
                }
                other => unreachable!("a coordinator begins to tell with messages, not {other:?}"),
            };
            let asked = commands.into_iter().map(send).collect();
            look_after(targets, Telling::new(one.tx, coordinator, asked, None));
        }
    }
    tell_all(targets);
    Ok(())
}

/// Whether the participants are targets of this pool, in the order in which coordinators have them. A leader keeps the
/// decision for any others.
fn can_be_told(one: &InDoubt, leader: TargetNo, count: usize) -> bool {
    one.participants.len() > 1
        && one.participants[0] == leader
        && one.participants.is_sorted_by(|a, b| a < b)
        && one.participants.iter().all(|target| target.index() < count)
}
