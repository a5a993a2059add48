use super::*;

const TX: TxId = TxId { client: 7, begin: Epoch(40) };
const OTHER: TxId = TxId { client: 8, begin: Epoch(30) };
const EPOCH: Epoch = Epoch(40);

fn begin(targets: &[u16]) -> (Coordinator, Vec<Command>) {
    let targets: Vec<_> = targets.iter().copied().map(TargetNo).collect();
    let mut out = Vec::new();
    (Coordinator::begin(TX, EPOCH, &targets, &mut out), out)
}

fn send(to: u16, message: Message) -> Command {
    Command::Send { to: TargetNo(to), message }
}

fn answer(it: &mut Coordinator, from: u16, to: Message, result: Result<()>) -> Vec<Command> {
    let mut out = Vec::new();
    it.on(Event::Answer { from: TargetNo(from), to, result }, &mut out);
    out
}

fn silence(it: &mut Coordinator, from: u16, to: Message) -> Vec<Command> {
    let mut out = Vec::new();
    it.on(Event::Silence { from: TargetNo(from), to }, &mut out);
    out
}

#[test]
fn one_participant_commits_by_preparing() {
    let (mut it, out) = begin(&[2]);
    assert_eq!(out, [send(2, Message::Prepare)]);
    assert_eq!(answer(&mut it, 2, Message::Prepare, Ok(())), [Command::Finish(Ok(EPOCH))]);
    assert!(it.is_closed());
}

#[test]
fn a_lone_participant_that_refuses_is_left_alone() {
    let (mut it, _) = begin(&[2]);
    let out = answer(&mut it, 2, Message::Prepare, Err(Error::NotFound));
    assert_eq!(out, [Command::Finish(Err(Error::NotFound))]);
    assert!(it.is_closed());
}

#[test]
fn others_are_told_only_after_the_leader_has_decided() {
    let (mut it, out) = begin(&[1, 3, 4]);
    assert_eq!(out, [1, 3, 4].map(|to| send(to, Message::Prepare)));
    assert_eq!(answer(&mut it, 4, Message::Prepare, Ok(())), []);
    assert_eq!(answer(&mut it, 1, Message::Prepare, Ok(())), []);
    assert_eq!(answer(&mut it, 1, Message::Prepare, Ok(())), [], "a repeated answer counts once");
    assert_eq!(answer(&mut it, 3, Message::Prepare, Ok(())), [send(1, Message::Commit)]);
    assert_eq!(answer(&mut it, 3, Message::Commit, Ok(())), [], "nobody asked it yet");
    let told = [Command::Finish(Ok(EPOCH)), send(3, Message::Commit), send(4, Message::Commit)];
    assert_eq!(answer(&mut it, 1, Message::Commit, Ok(())), told);
    assert_eq!(answer(&mut it, 4, Message::Commit, Ok(())), []);
    assert!(!it.is_closed());
    let all_know = [send(1, Message::Conclude)];
    assert_eq!(answer(&mut it, 3, Message::Commit, Ok(())), all_know);
    assert_eq!(answer(&mut it, 1, Message::Conclude, Ok(())), []);
    assert!(it.is_closed());
    assert!(!it.is_owed());
}

#[test]
fn a_commit_that_somebody_has_not_acknowledged_is_not_concluded() {
    let (mut it, _) = begin(&[1, 3, 4]);
    for target in [1, 3, 4] {
        answer(&mut it, target, Message::Prepare, Ok(()));
    }
    answer(&mut it, 1, Message::Commit, Ok(()));
    answer(&mut it, 4, Message::Commit, Ok(()));
    let full = || Err(Error::NoSpace { target: TargetNo(3), needed_bytes: 24 });
    for _ in 1..SENDS_MAX {
        assert_eq!(answer(&mut it, 3, Message::Commit, full()), [send(3, Message::Commit)]);
    }
    assert_eq!(answer(&mut it, 3, Message::Commit, full()), []);
    assert!(it.is_closed());
    assert!(it.is_owed());

    let mut out = Vec::new();
    let mut it = it.again(&mut out);
    assert_eq!(out, [send(3, Message::Commit), send(4, Message::Commit)]);
    assert_eq!(
        answer(&mut it, 4, Message::Commit, Err(Error::NotFound)),
        [],
        "it has committed and forgotten"
    );
    assert_eq!(answer(&mut it, 3, Message::Commit, Ok(())), [send(1, Message::Conclude)]);
}

#[test]
fn a_conflict_aborts_every_participant() {
    let (mut it, _) = begin(&[0, 1]);
    let conflict = Error::TxRestart { after: Epoch(50) };
    let out = answer(&mut it, 1, Message::Prepare, Err(conflict.clone()));
    assert_eq!(out, [Command::Finish(Err(conflict)), send(0, Message::Abort), send(1, Message::Abort)]);
    assert_eq!(answer(&mut it, 0, Message::Prepare, Ok(())), [], "too late");
    answer(&mut it, 0, Message::Abort, Ok(()));
    answer(&mut it, 1, Message::Abort, Ok(()));
    assert!(it.is_closed());
}

#[test]
fn a_leader_that_was_made_to_forget_means_restart() {
    let (mut it, _) = begin(&[0, 1]);
    answer(&mut it, 0, Message::Prepare, Ok(()));
    answer(&mut it, 1, Message::Prepare, Ok(()));
    let out = answer(&mut it, 0, Message::Commit, Err(Error::NotFound));
    let restart = Error::TxRestart { after: EPOCH };
    assert_eq!(out, [Command::Finish(Err(restart)), send(1, Message::Abort)]);
}

#[test]
fn what_stands_in_the_way_is_settled_before_preparing_again() {
    let (mut it, _) = begin(&[0, 1]);
    for _ in 0..DOUBTS_MAX {
        let out = answer(&mut it, 1, Message::Prepare, Err(Error::InDoubt { tx: OTHER }));
        assert_eq!(out, [Command::Settle { at: TargetNo(1), tx: OTHER }]);
        let mut out = Vec::new();
        it.on(Event::Settled { at: TargetNo(1) }, &mut out);
        assert_eq!(out, [send(1, Message::Prepare)]);
    }
    let out = answer(&mut it, 1, Message::Prepare, Err(Error::InDoubt { tx: OTHER }));
    assert_eq!(out[0], Command::Finish(Err(Error::TxRestart { after: EPOCH })));
}

#[test]
fn of_two_that_meet_the_later_waits_and_the_earlier_restarts() {
    for (tx, waits) in [
        (OTHER, true),
        (TxId { client: 8, begin: Epoch(41) }, false),
        (TxId { client: 6, ..TX }, true),
        (TxId { client: 8, ..TX }, false),
    ] {
        let (mut it, _) = begin(&[0, 1]);
        let out = answer(&mut it, 1, Message::Prepare, Err(Error::InDoubt { tx }));
        if waits {
            assert_eq!(out, [Command::Settle { at: TargetNo(1), tx }]);
        } else {
            let restart = Command::Finish(Err(Error::TxRestart { after: EPOCH }));
            assert_eq!(out, [restart, send(0, Message::Abort), send(1, Message::Abort)]);
        }
    }
}

#[test]
fn silence_while_preparing_aborts_in_the_end() {
    let (mut it, _) = begin(&[0, 1]);
    for _ in 1..SENDS_MAX {
        assert_eq!(silence(&mut it, 1, Message::Prepare), [send(1, Message::Prepare)]);
    }
    let out = silence(&mut it, 1, Message::Prepare);
    assert_eq!(out[1..], [send(0, Message::Abort), send(1, Message::Abort)]);
}

#[test]
fn silence_of_the_deciding_leader_is_reported_as_doubt_and_aborts_nothing() {
    let (mut it, _) = begin(&[0, 1]);
    answer(&mut it, 0, Message::Prepare, Ok(()));
    answer(&mut it, 1, Message::Prepare, Ok(()));
    for _ in 1..SENDS_MAX {
        assert_eq!(silence(&mut it, 0, Message::Commit), [send(0, Message::Commit)]);
    }
    let out = silence(&mut it, 0, Message::Commit);
    assert_eq!(out, [Command::Finish(Err(Error::InDoubt { tx: TX }))]);
    assert!(it.is_closed());
}

/// Every order of events with losses and repetitions, to a fixed depth: no message leaves the participants,
/// nobody but the leader hears `Commit` before it is decided, nobody hears `Abort` after it, the leader hears `Conclude`
/// after the other has acknowledged the commit, one `Finish`.
#[test]
fn invariants_hold_in_every_short_history() {
    fn explore(
        it: &Coordinator,
        (decided, known): (bool, bool),
        finishes: usize,
        depth: usize,
        leaves: &mut u32,
    ) {
        *leaves += 1;
        if depth == 0 {
            return;
        }
        for from in [0, 1, 2] {
            for to in [Message::Prepare, Message::Commit, Message::Abort, Message::Conclude] {
                for result in [None, Some(Ok(())), Some(Err(Error::NotFound)), Some(Err(Error::Busy))] {
                    let from = TargetNo(from);
                    let committed = it.phase == Phase::Deciding
                        && (from, to, &result) == (TargetNo(0), Message::Commit, &Some(Ok(())));
                    let acknowledges = matches!(result, Some(Ok(()) | Err(Error::NotFound)));
                    let known = known
                        || it.phase == Phase::Telling
                            && (from, to, acknowledges) == (TargetNo(1), Message::Commit, true);
                    let event = match result {
                        Some(result) => Event::Answer { from, to, result },
                        None => Event::Silence { from, to },
                    };
                    let (mut next, mut out) = (it.clone(), Vec::new());
                    next.on(event, &mut out);
                    let decided = decided || committed;
                    let mut finishes = finishes;
                    for command in &out {
                        match command {
                            Command::Send { to, message } => {
                                assert!(to.0 < 2);
                                assert!(*message != Message::Abort || !decided);
                                assert!(*message != Message::Conclude || known && *to == TargetNo(0));
                                assert!(*message != Message::Commit || decided || *to == TargetNo(0));
                            }
                            Command::Finish(_) => finishes += 1,
                            Command::Settle { .. } => unreachable!("nothing is in doubt"),
                        }
                    }
                    assert!(finishes <= 1);
                    assert!(!next.is_closed() || finishes == 1);
                    if !out.is_empty() || next.phase != it.phase {
                        explore(&next, (decided, known), finishes, depth - 1, leaves);
                    }
                }
            }
        }
    }
    let (it, _) = begin(&[0, 1]);
    let mut leaves = 0;
    explore(&it, (false, false), 0, 6, &mut leaves);
    assert!(leaves > 100, "{leaves}");
}
