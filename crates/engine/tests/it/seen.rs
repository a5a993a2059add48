//! What somebody was told stays true: an answer that depends on a frame waits until that frame is durable,
//! others do not wait, and a flush that failed is never taken for one that succeeded.

use crate::rig::{CONT, Rig, oid};
use dolmen_codec::verb::{
    ContVerb, Fetch, FetchIod, List, ListWhat, Mutation, NewValue, Payload, Prepare, Punch, PunchScope,
    Query, ReadAt, Reply, TxState, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Completion, Op, TargetStore};
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_env::{Clock, Media};
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Error, Head, IoBuf, Key, QueryFlags, RequestId, TargetNo, TxId,
};
use smallvec::smallvec;

/// Tokens of operations that change something; the others ask.
const CHANGES: u64 = 100;

fn update(dkey: u8, cond: Cond) -> Update<'static> {
    let akey = Key::from_slice(b"a");
    let value = NewValue::Single(Payload::Ref(b"value"));
    let iods = smallvec![UpdateIod { akey, cond: Cond::NONE, value }];
    Update { oid: oid(1), dkey: Key::from_slice(&[dkey]), cond, iods, charged: None }
}

fn punch(dkey: u8) -> Punch {
    Punch { oid: oid(1), scope: PunchScope::Dkey(Key::from_slice(&[dkey])), cond: Cond::NONE }
}

fn fetch(dkey: u8, at: ReadAt) -> Verb<'static> {
    let iods = smallvec![FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 64 } }];
    let dkey = Key::from_slice(&[dkey]);
    Verb::Fetch(Fetch { oid: oid(1), dkey, cond: Cond::NONE, at, iods, buf: IoBuf::zeroed(64) })
}

fn list(what: ListWhat) -> Verb<'static> {
    let at = ReadAt::Latest;
    Verb::List(List { what, anchor: Anchor::default(), items_max: 10, bytes_max: 1 << 16, at })
}

fn query() -> Verb<'static> {
    Verb::Query(Query {
        oid: oid(1),
        flags: QueryFlags::MAX.and(QueryFlags::RECX),
        dkey: Key::from_slice(&[1]),
        akey: Key::from_slice(b"a"),
        at: ReadAt::Latest,
    })
}

fn tx(epoch: Epoch) -> TxId {
    TxId { client: 9, begin: epoch }
}

fn prepare(dkey: u8, epoch: Epoch, participants: &[u16]) -> Verb<'static> {
    prepare_for(0, dkey, epoch, participants)
}

/// The same of a transaction that another target may lead.
fn prepare_for(leader: u16, dkey: u8, epoch: Epoch, participants: &[u16]) -> Verb<'static> {
    Verb::Prepare(Prepare {
        tx: tx(epoch),
        epoch,
        leader: TargetNo(leader),
        participants: participants.iter().map(|&no| TargetNo(no)).collect(),
        mutations: vec![Mutation::Update(update(dkey, Cond::NONE))],
    })
}

fn op(token: u64, verb: Verb<'_>) -> Op<'_> {
    let id = RequestId { client: 5, sequence: token };
    Op { token, head: Head { id, ..Head::default() }, cont: CONT, verb }
}

/// Gives the target operations and takes what it answers while no flush can complete.
fn answered_without_a_flush(rig: &mut Rig, mut ops: Vec<Op<'_>>) -> Vec<Completion> {
    let power = rig.drive.power().clone();
    let target = rig.target.as_mut().unwrap();
    target.submit(&mut ops);
    power.crash_now();
    let mut out = Vec::new();
    target.poll(false, &mut out);
    out.retain(|done| !matches!(done.result, Err(Error::Io { .. } | Error::ReadOnly { .. })));
    out
}

/// A target with values under dkeys 1 and 2, all durable, and an epoch at which they are there.
fn rig(durability: Durability) -> (Rig, Epoch) {
    let mut rig = Rig::new(Media::Block, durability);
    rig.put(oid(1), &[1], b"a", b"old").unwrap();
    let old = rig.put(oid(1), &[2], b"a", b"old").unwrap();
    rig.ask(Verb::Flush).unwrap();
    (rig, old)
}

#[track_caller]
fn assert_waits(changes: Vec<Verb<'static>>, asks: Vec<Verb<'static>>) {
    let (mut rig, _) = rig(Durability::Power);
    let changes = changes.into_iter().zip(CHANGES..).map(|(verb, token)| op(token, verb));
    let ops = changes.chain(asks.into_iter().zip(1..).map(|(verb, token)| op(token, verb))).collect();
    let answered = answered_without_a_flush(&mut rig, ops);
    assert!(answered.is_empty(), "answered although a crash takes it back: {answered:?}");
}

#[test]
fn what_depends_on_a_write_that_is_not_durable_waits_for_it() {
    let write = || vec![Verb::Update(update(1, Cond::NONE))];
    let insert = || vec![Verb::Update(update(3, Cond::NONE))];
    let remove = || vec![Verb::Punch(punch(1))];
    assert_waits(write(), vec![fetch(1, ReadAt::Latest)]);
    assert_waits(write(), vec![query()]);
    assert_waits(insert(), vec![list(ListWhat::Dkeys(oid(1)))]);
    assert_waits(insert(), vec![list(ListWhat::Objects)]);
    assert_waits(insert(), vec![list(ListWhat::Akeys(oid(1), Key::from_slice(&[3])))]);
    assert_waits(remove(), vec![fetch(1, ReadAt::Latest)]);
    assert_waits(remove(), vec![list(ListWhat::Dkeys(oid(1)))]);
    // What was refused because of it was told that it is there, or that it is not.
    assert_waits(insert(), vec![Verb::Update(update(3, Cond::DKEY_INSERT))]);
    assert_waits(remove(), vec![Verb::Update(update(1, Cond::DKEY_UPDATE))]);
}

#[test]
fn what_depends_on_a_change_of_the_container_waits_for_it() {
    let (mut rig, old) = rig(Durability::Power);
    let newest = rig.put(oid(1), &[1], b"a", b"new").unwrap();
    let rollback = Verb::Cont(ContVerb::Rollback { to: old, at: newest.next() });
    let ops = vec![op(CHANGES, rollback), op(1, fetch(2, ReadAt::Latest))];
    assert!(answered_without_a_flush(&mut rig, ops).is_empty());
    let (mut rig, _) = self::rig(Durability::Power);
    let ops = vec![op(CHANGES, Verb::Cont(ContVerb::Destroy)), op(1, fetch(2, ReadAt::Latest))];
    assert!(answered_without_a_flush(&mut rig, ops).is_empty());
}

#[test]
fn what_depends_on_a_decision_that_is_not_durable_waits_for_it() {
    for (decision, dkey) in [(Verb::Commit as fn(TxId) -> Verb<'static>, 1), (Verb::Abort, 1)] {
        let (mut rig, old) = rig(Durability::Power);
        rig.clock.advance(1_000_000);
        let epoch = Epoch::from_unix_ns(rig.clock.now_ns()).max(old.next());
        assert!(matches!(rig.ask(prepare(dkey, epoch, &[0, 1])), Ok(Reply::Prepared)));
        let asks = vec![
            op(CHANGES, decision(tx(epoch))),
            op(1, fetch(dkey, ReadAt::Latest)),
            Op { cont: ContNo::SYSTEM, ..op(2, Verb::TxState(tx(epoch))) },
            op(3, decision(tx(epoch))),
            op(4, list(ListWhat::Akeys(oid(1), Key::from_slice(&[dkey])))),
        ];
        let answered = answered_without_a_flush(&mut rig, asks);
        assert!(answered.is_empty(), "{answered:?}");
    }
}

/// A target of a container of that durability on which a transaction is prepared that `leader` leads.
fn prepared(durability: Durability, leader: u16) -> (Rig, Epoch) {
    let (mut rig, old) = rig(durability);
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns()).max(old.next());
    assert!(matches!(rig.ask(prepare_for(leader, 1, epoch, &[0, 1])), Ok(Reply::Prepared)));
    (rig, epoch)
}

#[test]
fn a_leader_answers_a_commit_as_durably_as_the_container_has_it_and_the_others_for_good() {
    let decisions = |epoch, cont| {
        let state = Op { cont, ..op(2, Verb::TxState(tx(epoch))) };
        vec![op(1, Verb::Commit(tx(epoch))), state]
    };
    for (durability, leader, cont, told) in [
        (Durability::Process, 0, CONT, &[1, 2][..]),
        // Who asks so has others commit.
        (Durability::Process, 0, ContNo::SYSTEM, &[1]),
        // The leader forgets by this answer.
        (Durability::Process, 1, CONT, &[2]),
        (Durability::Power, 0, CONT, &[]),
        (Durability::Power, 1, CONT, &[]),
    ] {
        let (mut rig, epoch) = prepared(durability, leader);
        let answered = answered_without_a_flush(&mut rig, decisions(epoch, cont));
        let tokens: Vec<u64> = answered.iter().map(|done| done.token).collect();
        assert_eq!(tokens, told, "{durability:?}, {leader} leads, {cont:?}");
    }
    // Told again it is durable, for whoever has not heard the first answer.
    let (mut rig, epoch) = prepared(Durability::Process, 0);
    let ops = vec![op(1, Verb::Commit(tx(epoch))), op(2, Verb::Commit(tx(epoch)))];
    let answered = answered_without_a_flush(&mut rig, ops);
    assert_eq!(answered.iter().map(|done| done.token).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_commit_for_which_nobody_waits_is_flushed_in_time() {
    const SOON_NS: u64 = 50_000_000;
    for leader in [0, 1] {
        let (mut rig, epoch) = prepared(Durability::Process, leader);
        let mut answered = Vec::new();
        let mut goes_on = |rig: &mut Rig, ops: Vec<Op<'_>>| {
            let (target, mut ops) = (rig.target.as_mut().unwrap(), ops);
            target.submit(&mut ops);
            // What is begun ends.
            for _ in 0..4 {
                target.step();
                target.poll(false, &mut answered);
            }
            answered.len()
        };
        let at_once = usize::from(leader == 0);
        assert_eq!(goes_on(&mut rig, vec![op(1, Verb::Commit(tx(epoch)))]), at_once);
        rig.clock.advance(SOON_NS - 1);
        assert_eq!(goes_on(&mut rig, Vec::new()), at_once, "not before its time");
        rig.clock.advance(1);
        assert_eq!(goes_on(&mut rig, Vec::new()), 1);
        rig.crash(CrashPlan::None);
        assert!(matches!(rig.ask(Verb::TxState(tx(epoch))), Ok(Reply::TxState(TxState::Committed))));
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(b"value".to_vec()));
    }
}

#[test]
fn many_commits_that_are_flushed_in_time_are_flushed_before_it() {
    let (mut rig, first) = prepared(Durability::Process, 1);
    let mut epochs = vec![first];
    for dkey in 2..=255 {
        rig.clock.advance(1_000_000);
        epochs.push(Epoch::from_unix_ns(rig.clock.now_ns()).max(first.next()));
        assert!(matches!(
            rig.ask(prepare_for(1, dkey, epochs[epochs.len() - 1], &[0, 1])),
            Ok(Reply::Prepared)
        ));
    }
    let target = rig.target.as_mut().unwrap();
    let mut answered = Vec::new();
    for (epoch, token) in epochs.iter().zip(1..) {
        target.submit(&mut vec![op(token, Verb::Commit(tx(*epoch)))]);
        target.poll(false, &mut answered);
    }
    assert!(answered.is_empty(), "{answered:?}");
    rig.clock.advance(1_000_000);
    let last = Epoch::from_unix_ns(rig.clock.now_ns());
    let mut ops = vec![op(400, prepare_for(1, 0, last, &[0, 1])), op(401, Verb::Commit(tx(last)))];
    let target = rig.target.as_mut().unwrap();
    target.submit(&mut ops);
    (0..4).for_each(|_| target.poll(false, &mut answered));
    assert_eq!(answered.len(), 257);
}

#[test]
fn who_waits_for_a_commit_that_is_flushed_in_time_hastens_the_flush() {
    let (mut rig, epoch) = prepared(Durability::Process, 1);
    assert!(matches!(rig.ask(Verb::Commit(tx(epoch))), Ok(Reply::Done)));
    rig.crash(CrashPlan::None);
    assert_eq!(rig.get(oid(1), &[1], b"a"), Some(b"value".to_vec()));
    // So does the flush that somebody waits for, and a close loses nobody's answer.
    for closes in [false, true] {
        let (mut rig, epoch) = prepared(Durability::Process, 1);
        let target = rig.target.as_mut().unwrap();
        let mut answered = Vec::new();
        target.submit(&mut vec![op(1, Verb::Commit(tx(epoch)))]);
        target.poll(false, &mut answered);
        assert!(answered.is_empty());
        if closes {
            rig.close_and_reopen();
        } else {
            target.submit(&mut vec![op(2, Verb::Flush)]);
            while answered.len() < 2 {
                target.poll(true, &mut answered);
            }
            rig.crash(CrashPlan::None);
        }
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(b"value".to_vec()));
    }
}

#[test]
fn a_flush_that_fails_in_time_fails_who_waits_for_it() {
    let (mut rig, epoch) = prepared(Durability::Process, 1);
    let power = rig.drive.power().clone();
    let target = rig.target.as_mut().unwrap();
    let mut answered = Vec::new();
    target.submit(&mut vec![op(1, Verb::Commit(tx(epoch)))]);
    target.poll(false, &mut answered);
    power.fail_at(power.ops(), Fault::Eio);
    while answered.is_empty() {
        target.poll(true, &mut answered);
    }
    assert!(answered[0].result.is_err(), "{answered:?}");
    assert!(rig.put(oid(1), &[1], b"a", b"newer").is_err());
}

#[test]
fn a_repetition_is_not_answered_before_the_first_one() {
    let (mut rig, old) = rig(Durability::Power);
    let epoch = old.next();
    let again = |token| Op { token, ..op(7, Verb::Update(update(1, Cond::NONE))) };
    let ops = vec![again(7), again(8)];
    let answered = answered_without_a_flush(&mut rig, ops);
    assert!(answered.is_empty(), "{answered:?}");
    let (mut rig, _) = self::rig(Durability::Power);
    let ops = vec![op(1, prepare(3, epoch, &[0, 1])), op(2, prepare(3, epoch, &[0, 1]))];
    let answered = answered_without_a_flush(&mut rig, ops);
    assert!(answered.is_empty(), "{answered:?}");
}

#[test]
fn nobody_waits_for_what_he_has_not_seen() {
    let (mut rig, old) = rig(Durability::Power);
    let ops = vec![
        op(CHANGES, Verb::Update(update(1, Cond::NONE))),
        op(1, fetch(2, ReadAt::Latest)),
        op(2, fetch(1, ReadAt::Epoch(old))),
        op(3, list(ListWhat::Akeys(oid(1), Key::from_slice(&[2])))),
        op(4, Verb::Update(update(2, Cond::DKEY_INSERT))),
        // A coordinator that is told so begins a transaction.
        op(5, Verb::TxState(tx(old))),
    ];
    let answered: Vec<u64> = answered_without_a_flush(&mut rig, ops).iter().map(|done| done.token).collect();
    assert_eq!(answered, [1, 2, 3, 4, 5]);
    // Where the death of the process is all that is guarded against, nothing waits.
    let (mut rig, _) = self::rig(Durability::Process);
    let ops = vec![op(CHANGES, Verb::Update(update(1, Cond::NONE))), op(1, fetch(1, ReadAt::Latest))];
    assert_eq!(answered_without_a_flush(&mut rig, ops).len(), 2);
}

#[test]
fn a_failed_flush_is_never_taken_for_a_good_one() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        rig.put(oid(1), &[1], b"a", b"old").unwrap();
        let power = rig.drive.power().clone();
        // The write into the log, then the flush.
        power.fail_at(power.ops() + 1, Fault::Eio);
        assert!(rig.put(oid(1), &[1], b"a", b"new").is_err());
        assert!(rig.ask(Verb::Flush).is_err());
        assert!(rig.ask(Verb::Checkpoint).is_err());
        assert!(rig.ask(fetch(1, ReadAt::Latest)).is_err());
        assert!(rig.put(oid(1), &[1], b"a", b"newer").is_err());
        rig.crash(CrashPlan::None);
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(b"old".to_vec()));
        rig.assert_clean();
    }
}

#[test]
fn a_checkpoint_waits_for_the_flush_under_way() {
    for (seed, media) in (0..8).flat_map(|seed| [(seed, Media::Block), (seed, Media::Mapped)]) {
        for at in 0..40 {
            let mut rig = Rig::seeded(seed, media, Durability::Power);
            rig.put(oid(1), &[1], b"a", b"old").unwrap();
            let target = rig.target.as_mut().unwrap();
            target.submit(&mut vec![op(1, Verb::Update(update(1, Cond::NONE)))]);
            let mut out = Vec::new();
            target.poll(false, &mut out);
            let power = rig.drive.power().clone();
            power.fail_at(power.ops() + at, Fault::Crash);
            target.submit(&mut vec![op(2, Verb::Checkpoint)]);
            target.poll(false, &mut out);
            let acknowledged = out.iter().any(|done| done.token == 1 && done.result.is_ok());
            rig.crash(CrashPlan::None);
            let found = rig.get(oid(1), &[1], b"a").unwrap();
            assert!(found == b"value" || (!acknowledged && found == b"old"), "seed {seed}, boundary {at}");
            rig.assert_clean();
        }
    }
}
