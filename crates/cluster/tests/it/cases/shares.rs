//! Limits over two engines: their targets together take exactly what is allowed, whatever messages are lost and whoever starts anew.

use super::common::{owned_update, update};
use super::parts::{System, TARGETS};
use dolmen_cluster::PartDoor;
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::quota::{Charge, INODE_AKEY, Limits, Report};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Prepare, Punch, PunchScope, Update, UpdateIod, Verb};
use dolmen_codec::{Answer, Ask, Outcome, Request, Transport};
use dolmen_env::{Rng, scope, yield_now};
use dolmen_types::{
    Cond, ContNo, Credentials, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx, RequestId,
    TargetNo, TxId,
};
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Of both engines.
const ALL: u16 = 2 * TARGETS;

/// Each request is another.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn head(uid: u32) -> Head {
    let id = RequestId { client: 7, sequence: NEXT.fetch_add(1, Ordering::Relaxed) };
    Head { id, cred: Credentials { uid, ..Credentials::default() }, ..Head::default() }
}

/// Does something while the engine with the service hands out shares, as its thread does.
fn handing_out<R>(system: &System, act: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    scope(|threads| {
        let hand_out = || {
            while !is_over.load(Ordering::Acquire) {
                system.home.look_after_parts();
                system.home.look_after_shares();
                yield_now();
            }
        };
        let helper = threads.spawn(hand_out);
        let done = act();
        is_over.store(true, Ordering::Release);
        helper.join().unwrap();
        done
    })
}

fn on(system: &System, target: u16, ask: Ask<'_>, head: Head) -> Outcome {
    let engine = if target < TARGETS { &system.home } else { system.part() };
    engine.call(Request { token: 2, head, ask })
}

fn put_as(
    system: &System,
    uid: u32,
    (target, cont, dkey): (u16, ContNo, u64),
    bytes: u64,
) -> Result<(), Error> {
    let value = vec![1; usize::try_from(bytes).unwrap()];
    let verb = || Ask::Target(TargetNo(target), cont, Verb::Update(update(dkey, &value, Cond::NONE)));
    if target < TARGETS {
        return on(system, target, verb(), head(uid)).result.map(drop);
    }
    handing_out(system, || {
        assert!(system.part().wait_admitted(Duration::from_secs(10)));
        on(system, target, verb(), head(uid)).result.map(drop)
    })
}

fn put(system: &System, target: u16, cont: ContNo, dkey: u64, bytes: u64) -> Result<(), Error> {
    put_as(system, 0, (target, cont, dkey), bytes)
}

fn remove(system: &System, target: u16, cont: ContNo, dkey: u64) {
    let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
    let verb = Verb::Punch(Punch { oid: super::common::oid(), scope, cond: Cond::NONE });
    on(system, target, Ask::Target(TargetNo(target), cont, verb), head(0)).result.unwrap();
}

fn limit(system: &System, cont: ContNo, uid: Option<u32>, bytes: u64, files: u64) -> Result<(), Error> {
    let verb = PoolVerb::ContSetQuota(cont, uid, Limits { bytes, files });
    system.home.call(Request { token: 1, head: head(0), ask: Ask::Pool(verb) }).result.map(drop)
}

fn report(system: &System, cont: ContNo) -> Report {
    match system.ask(PoolVerb::ContQuota(cont)) {
        Ok(PoolReply::Quota(report)) => *report,
        other => panic!("{other:?}"),
    }
}

/// What is there without what nobody sees.
fn settled(system: &System, cont: ContNo) -> Charge {
    system.ask(PoolVerb::Aggregate(cont, Epoch::ZERO)).unwrap();
    report(system, cont).used
}

fn limited(bytes: u64, files: u64) -> (System, ContNo) {
    let system = System::new();
    let cont = system.make("c").unwrap();
    limit(&system, cont, None, bytes, files).unwrap();
    (system, cont)
}

#[test]
fn engines_share_one_limit_and_what_is_free_at_one_is_there_for_the_other() {
    let (system, cont) = limited(4000, 0);
    for target in 0..ALL {
        put(&system, target, cont, 1, 1000).unwrap();
    }
    for round in 0..8 {
        for target in 0..ALL {
            assert_eq!(put(&system, target, cont, 2, 1), Err(Error::QuotaLimit), "target {target}");
            assert_eq!(put(&system, target, cont, 1, 1000), Ok(()), "it is written over");
        }
        let (from, to) = (round % ALL, (round + 2) % ALL);
        remove(&system, from, cont, 1);
        // What was removed lay at the other engine.
        put(&system, to, cont, 2, 1000).unwrap();
        remove(&system, to, cont, 2);
        put(&system, from, cont, 1, 1000).unwrap();
    }
    assert_eq!(settled(&system, cont).bytes, 4000);
    // What no write needs goes where it is needed.
    (0..ALL).for_each(|target| remove(&system, target, cont, 1));
    put(&system, TARGETS, cont, 3, 4000).unwrap();
    assert_eq!(put(&system, 0, cont, 3, 1), Err(Error::QuotaLimit));
    remove(&system, TARGETS, cont, 3);
    put(&system, 0, cont, 3, 4000).unwrap();
    assert_eq!(settled(&system, cont).bytes, 4000);
    system.assert_clean();
}

#[test]
fn users_are_limited_over_engines_and_limits_are_lifted_and_lowered() {
    let system = System::new();
    let cont = system.make("c").unwrap();
    put_as(&system, 7, (TARGETS, cont, 9), 500).unwrap();
    assert_eq!(report(&system, cont).users.len(), 1, "without limits it is told, too");
    limit(&system, cont, Some(7), 2000, 0).unwrap();
    for target in 1..ALL {
        put_as(&system, 7, (target, cont, 1), 500).unwrap();
    }
    for target in 0..ALL {
        assert_eq!(put_as(&system, 7, (target, cont, 2), 1), Err(Error::QuotaLimit));
        put_as(&system, 8, (target, cont, 3), 5000).unwrap();
    }
    let told = report(&system, cont);
    let users: Vec<_> =
        told.users.iter().map(|user| (user.uid, user.used.bytes, user.limits.bytes)).collect();
    assert_eq!(users, [(7, 2000, 2000), (8, 20_000, 0)]);
    // Of all together, below what is there.
    limit(&system, cont, None, 10_000, 0).unwrap();
    for target in 0..ALL {
        assert_eq!(put_as(&system, 8, (target, cont, 4), 1), Err(Error::QuotaLimit));
    }
    limit(&system, cont, None, 0, 0).unwrap();
    assert!(system.home.look_after_shares());
    limit(&system, cont, Some(7), 0, 0).unwrap();
    assert!(!system.home.look_after_shares(), "without limits nobody is asked");
    for target in 0..ALL {
        put_as(&system, 7, (target, cont, 5), 9000).unwrap();
    }
    // And again.
    limit(&system, cont, None, 58_001, 0).unwrap();
    assert_eq!(put(&system, TARGETS, cont, 6, 2), Err(Error::QuotaLimit));
    put(&system, TARGETS, cont, 6, 1).unwrap();
    assert_eq!(put(&system, 0, cont, 6, 1), Err(Error::QuotaLimit));
}

#[test]
fn limits_are_set_with_all_engines_there_and_hold_for_those_that_start_anew() {
    let (mut system, cont) = limited(3000, 0);
    put(&system, 0, cont, 1, 1000).unwrap();
    put(&system, TARGETS, cont, 1, 1000).unwrap();
    system.restart_part();
    // It takes nothing before it is told its share, and then what is left.
    assert_eq!(put(&system, TARGETS, cont, 2, 1001), Err(Error::QuotaLimit));
    put(&system, TARGETS, cont, 2, 500).unwrap();
    let mut system = system.restart_home();
    assert_eq!(report(&system, cont).limits.bytes, 3000);
    assert_eq!(put(&system, 0, cont, 3, 501), Err(Error::QuotaLimit));
    put(&system, 0, cont, 3, 500).unwrap();
    assert_eq!(put(&system, TARGETS, cont, 3, 1), Err(Error::QuotaLimit));
    assert_eq!(settled(&system, cont).bytes, 3000);
    system.wire.fail_after(Some(0));
    let refused = limit(&system, cont, None, 9000, 0);
    assert!(matches!(refused, Err(Error::Unreachable { rank: 1 })), "{refused:?}");
    // What the other has was given to it: here there is nothing more.
    assert_eq!(put(&system, 0, cont, 4, 1), Err(Error::QuotaLimit));
    remove(&system, 0, cont, 1);
    put(&system, 0, cont, 4, 1000).unwrap();
    system.restart_part();
    assert_eq!(put(&system, TARGETS, cont, 4, 1), Err(Error::QuotaLimit));
    assert_eq!(settled(&system, cont).bytes, 3000);
}

#[test]
fn what_is_freed_above_a_lowered_limit_is_not_taken_again() {
    let (system, cont) = limited(10_000, 0);
    put(&system, 0, cont, 1, 4000).unwrap();
    put(&system, TARGETS, cont, 1, 3000).unwrap();
    put(&system, TARGETS, cont, 2, 3000).unwrap();
    remove(&system, TARGETS, cont, 1);
    limit(&system, cont, None, 5000, 0).unwrap();
    // Only now it is free there, and the limit is still passed by what is at the other.
    assert_eq!(settled(&system, cont).bytes, 7000);
    assert_eq!(put(&system, TARGETS, cont, 3, 500), Err(Error::QuotaLimit));
    remove(&system, 0, cont, 1);
    put(&system, TARGETS, cont, 3, 2000).unwrap();
    assert_eq!(put(&system, 0, cont, 3, 1), Err(Error::QuotaLimit));
    assert_eq!(settled(&system, cont).bytes, 5000);
}

/// How long a write waits for the service.
const PATIENCE_NS: u64 = 10_000_000_000;

#[test]
fn a_write_whose_engine_hears_nothing_of_the_service_ends_after_its_time_and_is_charged_when_it_is_written() {
    let (system, cont) = limited(4000, 0);
    put(&system, 0, cont, 1, 1000).unwrap();
    put(&system, TARGETS, cont, 1, 1000).unwrap();
    // Each engine is left what it uses.
    assert_eq!(put(&system, 0, cont, 2, 2001), Err(Error::QuotaLimit));
    system.wire.fail_after(Some(0));
    let (part, queue) = (system.part(), system.part().open_queue().unwrap());
    let ask_all = |heads: &[Head]| {
        for (dkey, head) in (2..).zip(heads) {
            let target = TargetNo(TARGETS + u16::try_from(dkey % 2).unwrap());
            let verb = Verb::Update(owned_update(dkey, &[1; 400]));
            let ask = Ask::Target(target, cont, verb);
            part.submit(queue, Request { token: dkey, head: *head, ask });
        }
    };
    let answers = || {
        let mut out = Vec::new();
        part.poll(queue, false, &mut out);
        out.sort_by_key(|outcome| outcome.token);
        out.into_iter().map(|outcome| outcome.result.map(drop)).collect::<Vec<_>>()
    };
    let heads: Vec<Head> = (0..5).map(|_| head(0)).collect();
    for _ in 0..2 {
        ask_all(&heads);
        assert!(system.home.look_after_shares());
        assert_eq!(answers(), []);
        system.clock.advance(PATIENCE_NS - 1_000_000);
        assert_eq!(answers(), [], "they wait");
        // What adds nothing waits for nobody.
        let over = Verb::Update(update(1, &[2; 1000], Cond::NONE));
        on(&system, TARGETS, Ask::Target(TargetNo(TARGETS), cont, over), head(0)).result.unwrap();
        system.clock.advance(1_000_000);
        assert_eq!(answers(), vec![Err(Error::Unreachable { rank: 0 }); 5]);
    }
    system.wire.fail_after(None);
    system.home.look_after_parts();
    assert_eq!(settled(&system, cont).bytes, 2000, "nothing was written");
    // The same once more: the service finds room for all of them.
    ask_all(&heads);
    assert_eq!(answers(), []);
    let mut told = Vec::new();
    for _ in 0..20 {
        system.home.look_after_shares();
        told.extend(answers());
    }
    assert_eq!(told, vec![Ok(()); 5]);
    ask_all(&heads);
    assert_eq!(answers(), vec![Ok(()); 5], "they are known");
    part.close_queue(queue);
    assert_eq!(settled(&system, cont).bytes, 4000);
    for target in 0..ALL {
        assert_eq!(put(&system, target, cont, 9, 1), Err(Error::QuotaLimit));
    }
    remove(&system, TARGETS, cont, 2);
    put(&system, 0, cont, 9, 400).unwrap();
    assert_eq!(put(&system, TARGETS, cont, 9, 1), Err(Error::QuotaLimit));
    assert_eq!(settled(&system, cont).bytes, 4000);
    system.assert_clean();
}

/// A transaction of values under fresh keys.
fn transact(system: &System, cont: ContNo, parts: Vec<(u16, Vec<Mutation<'static>>)>) -> Result<(), Error> {
    for _ in 0..20 {
        let Ok(PoolReply::Epoch(epoch)) = system.ask(PoolVerb::TxBegin) else { panic!("it always begins") };
        let tx = TxId { client: 9, begin: epoch };
        let parts = parts.iter().map(|(target, mutations)| (TargetNo(*target), mutations.clone())).collect();
        let commit = PoolVerb::TxCommit(TxCommit { cont, tx, epoch, parts, read: smallvec::SmallVec::new() });
        let result = system.home.call(Request { token: 1, head: head(0), ask: Ask::Pool(commit) }).result;
        if !matches!(result, Err(Error::TxRestart { .. })) {
            return result.map(|answer| assert!(matches!(answer, Answer::Pool(PoolReply::Epoch(_)))));
        }
    }
    panic!("it restarts for ever")
}

fn value(dkey: u64, bytes: u64) -> Mutation<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::zeroed(usize::try_from(bytes).unwrap())));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    let dkey = Key::from_slice(&dkey.to_le_bytes());
    Mutation::Update(Update { oid: super::common::oid(), dkey, cond: Cond::NONE, iods, charged: None })
}

#[test]
fn a_transaction_over_engines_fits_when_there_is_room_anywhere_and_else_nothing_of_it_is_done() {
    let (system, cont) = limited(3000, 0);
    let over = |dkey, one, other| vec![(0, vec![value(dkey, one)]), (TARGETS, vec![value(dkey, other)])];
    transact(&system, cont, over(1, 500, 500)).unwrap();
    assert_eq!(transact(&system, cont, over(2, 1000, 1001)), Err(Error::QuotaLimit));
    assert_eq!(settled(&system, cont).bytes, 1000);
    transact(&system, cont, over(2, 1000, 1000)).unwrap();
    assert_eq!(transact(&system, cont, over(3, 1, 1)), Err(Error::QuotaLimit));
    remove(&system, 0, cont, 2);
    transact(&system, cont, over(3, 1, 999)).unwrap();
    assert_eq!(settled(&system, cont).bytes, 3000);
    system.assert_clean();
}

/// Has all that all targets have charged to a user.
fn give(system: &System, cont: ContNo, uid: u32) -> Result<(), Error> {
    transact(system, cont, (0..ALL).map(|target| (target, vec![gift(uid)])).collect())
}

fn gift(uid: u32) -> Mutation<'static> {
    let (oid, dkey, charged) = (super::common::oid(), Key::new(), Some(uid));
    Mutation::Update(Update { oid, dkey, cond: Cond::NONE, iods: smallvec![], charged })
}

/// What users have who have anything.
fn by_user(system: &System, cont: ContNo) -> BTreeMap<u32, u64> {
    settled(system, cont);
    let users = report(system, cont).users;
    users.iter().map(|user| (user.uid, user.used.bytes)).filter(|user| user.1 > 0).collect()
}

#[test]
fn what_is_given_is_given_at_all_engines_or_at_none() {
    let (system, cont) = limited(5000, 0);
    limit(&system, cont, Some(7), 4000, 0).unwrap();
    for target in 0..ALL {
        put(&system, target, cont, 1, 1000).unwrap();
    }
    put_as(&system, 7, (TARGETS, cont, 2), 999).unwrap();
    put_as(&system, 7, (0, cont, 2), 1).unwrap();
    let before = BTreeMap::from([(0, 4000), (7, 1000)]);
    for _ in 0..3 {
        assert_eq!(give(&system, cont, 7), Err(Error::QuotaLimit));
        assert_eq!(by_user(&system, cont), before);
    }
    give(&system, cont, 8).unwrap();
    assert_eq!(by_user(&system, cont), BTreeMap::from([(8, 5000)]), "the container is full, and stays so");
    remove(&system, TARGETS, cont, 2);
    assert_eq!(give(&system, cont, 7), Err(Error::QuotaLimit), "by a byte");
    remove(&system, 0, cont, 2);
    give(&system, cont, 7).unwrap();
    assert_eq!(by_user(&system, cont), BTreeMap::from([(7, 4000)]), "to the last byte");
    for target in 0..ALL {
        assert_eq!(put_as(&system, 7, (target, cont, 3), 1), Err(Error::QuotaLimit));
        put_as(&system, 7, (target, cont, 1), 1000).unwrap();
    }
    system.assert_clean();
}

/// Has the engine with the part prepare what a transaction does on its first target, as the service would; it is undecided then.
fn prepare(
    system: &System,
    cont: ContNo,
    client: u128,
    mutation: &Mutation<'static>,
) -> (TxId, Result<(), Error>) {
    let Ok(PoolReply::Epoch(epoch)) = system.ask(PoolVerb::TxBegin) else { panic!("it always begins") };
    let tx = TxId { client, begin: epoch };
    let participants = [TargetNo(0), TargetNo(TARGETS)].into_iter().collect();
    let mutations = vec![mutation.clone()];
    let verb = Verb::Prepare(Prepare { tx, epoch, leader: TargetNo(0), participants, mutations });
    (tx, as_service(system, cont, verb))
}

fn as_service(system: &System, cont: ContNo, verb: Verb<'_>) -> Result<(), Error> {
    let door = PartDoor::new(Arc::clone(system.part.as_ref().unwrap()));
    let ask = Ask::Target(TargetNo(TARGETS), cont, verb);
    door.call(Request { token: 3, head: head(0), ask }).result.map(drop)
}

#[test]
fn what_is_about_to_be_given_is_held_against_whom_it_is_for_and_once_against_the_container() {
    let (system, cont) = limited(3000, 0);
    limit(&system, cont, Some(7), 1500, 0).unwrap();
    put(&system, TARGETS, cont, 1, 1000).unwrap();
    assert_eq!(
        prepare(&system, cont, 20, &gift(7)).1,
        Err(Error::QuotaLimit),
        "its engine has no share of that"
    );
    assert!(system.home.look_after_shares());
    let (tx, prepared) = prepare(&system, cont, 21, &gift(7));
    assert_eq!(prepared, Ok(()));
    assert_eq!(put_as(&system, 7, (0, cont, 1), 501), Err(Error::QuotaLimit));
    put_as(&system, 7, (0, cont, 1), 500).unwrap();
    put(&system, 0, cont, 2, 1500).unwrap();
    assert_eq!(put(&system, 0, cont, 3, 1), Err(Error::QuotaLimit));
    assert_eq!(as_service(&system, cont, Verb::Abort(tx)), Ok(()));
    assert_eq!(by_user(&system, cont), BTreeMap::from([(0, 2500), (7, 500)]));
    system.assert_clean();
}

#[test]
fn a_transaction_that_does_not_fit_takes_no_room_from_one_that_does() {
    let (system, cont) = limited(3000, 0);
    put(&system, 0, cont, 1, 1000).unwrap();
    put(&system, TARGETS, cont, 1, 1000).unwrap();
    assert_eq!(prepare(&system, cont, 20, &value(2, 900)).1, Err(Error::QuotaLimit), "as yet");
    let parts = vec![(0, vec![value(3, 600)]), (TARGETS, vec![value(3, 600)])];
    assert_eq!(transact(&system, cont, parts), Err(Error::QuotaLimit));
    // Room was found for both at once.
    let (tx, prepared) = prepare(&system, cont, 21, &value(2, 900));
    assert_eq!(prepared, Ok(()));
    assert_eq!(as_service(&system, cont, Verb::Abort(tx)), Ok(()));
    assert_eq!(settled(&system, cont).bytes, 2000);
    system.assert_clean();
}

fn record(name: &[u8]) -> Mutation<'static> {
    let data = Payload::Owned(IoBuf::zeroed(88));
    let value = NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 88)], data };
    let iods = smallvec![UpdateIod { akey: Key::from_slice(INODE_AKEY), cond: Cond::NONE, value }];
    let dkey = Key::from_slice(name);
    Mutation::Update(Update { oid: dir(), dkey, cond: Cond::NONE, iods, charged: None })
}

fn dir() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 5)
}

#[test]
fn names_move_between_engines_at_the_limit_and_none_is_made() {
    let (system, cont) = limited(0, 2);
    let unlink = |name: &[u8]| {
        let scope = PunchScope::Dkey(Key::from_slice(name));
        Mutation::Punch(Punch { oid: dir(), scope, cond: Cond::NONE })
    };
    transact(&system, cont, vec![(0, vec![record(b"a")]), (TARGETS, vec![record(b"b")])]).unwrap();
    for round in 0..6 {
        for target in 0..ALL {
            let one_more = transact(&system, cont, vec![(target, vec![record(b"c")])]);
            assert_eq!(one_more, Err(Error::QuotaLimit), "round {round}");
        }
        let (from, to) = if round % 2 == 0 { (0, TARGETS) } else { (TARGETS, 0) };
        transact(&system, cont, vec![(to, vec![record(b"a")]), (from, vec![unlink(b"a")])]).unwrap();
    }
    assert_eq!(settled(&system, cont).files, 2);
    transact(&system, cont, vec![(TARGETS, vec![unlink(b"b")])]).unwrap();
    transact(&system, cont, vec![(0, vec![record(b"c")])]).unwrap();
}

#[test]
fn many_writers_at_both_engines_take_exactly_what_is_allowed() {
    const WRITERS: u64 = 6;
    const LIMIT: u64 = 60_000;
    let (system, cont) = limited(LIMIT, 0);
    for round in 0..2 {
        let write = |writer: u64| -> u64 {
            let mut stored = 0;
            for number in 0..100 {
                let target = u16::try_from((writer + number) % u64::from(ALL)).unwrap();
                let (dkey, value) = (writer << 32 | number, [1; 200]);
                let verb = Verb::Update(update(dkey, &value, Cond::NONE));
                match on(&system, target, Ask::Target(TargetNo(target), cont, verb), head(0)).result {
                    Ok(_) => stored += 200,
                    Err(error) => assert_eq!(error, Error::QuotaLimit),
                }
            }
            stored
        };
        let bytes: u64 = handing_out(&system, || {
            scope(|threads| {
                let write = &write;
                let writers: Vec<_> =
                    (0..WRITERS).map(|writer| threads.spawn(move || write(writer))).collect();
                writers.into_iter().map(|writer| writer.join().unwrap()).sum()
            })
        });
        assert_eq!(bytes, LIMIT, "round {round}: all that fits, and not a byte more");
        assert_eq!(settled(&system, cont).bytes, LIMIT);
        for writer in 0..WRITERS {
            (0..100).for_each(|number| {
                let target = u16::try_from((writer + number) % u64::from(ALL)).unwrap();
                remove(&system, target, cont, writer << 32 | number);
            });
        }
    }
    assert_eq!(settled(&system, cont).bytes, 0);
}

/// A user who may not have all that a container may.
const LIMITED: u32 = 7;
const LIMIT_OF_ONE: u64 = 5000;

/// What is there, as the engines should have it.
struct Story {
    system: Option<System>,
    cont: ContNo,
    rng: Rng,
    limit: u64,
    sizes: BTreeMap<(u16, u64), u64>,
    /// To whom what was given is charged.
    given: BTreeMap<(u16, u64), u32>,
    gifts: u32,
    fresh: u64,
    refused: u32,
    lost: u32,
}

impl Story {
    fn system(&self) -> &System {
        self.system.as_ref().unwrap()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn needed(&self) -> u64 {
        self.sizes.values().sum()
    }

    fn put(&mut self, is_lossy: bool) {
        let target = u16::try_from(self.below(u64::from(ALL))).unwrap();
        let (dkey, bytes) = (self.below(6), [20, 700, 2500][usize::try_from(self.below(3)).unwrap()]);
        if is_lossy {
            let messages = self.below(6);
            self.system().wire.lose_one_after(messages);
        }
        let written = put(self.system(), target, self.cont, dkey, bytes);
        let replaced = self.sizes.get(&(target, dkey)).copied().unwrap_or(0);
        let admits = bytes <= replaced || self.needed() + bytes <= self.limit + replaced;
        match written {
            Ok(()) => {
                assert!(admits, "{bytes} bytes at {target} beside {} of {}", self.needed(), self.limit);
                self.sizes.insert((target, dkey), bytes);
                self.given.remove(&(target, dkey));
            }
            Err(Error::QuotaLimit) => {
                // What an engine has that does not answer is not to be had.
                assert!(!admits || is_lossy, "{bytes} bytes at {target} beside {}", self.needed());
                self.refused += 1;
                self.lost += u32::from(admits);
            }
            Err(other) => panic!("{other:?}"),
        }
        self.system().wire.fail_after(None);
        self.system().home.look_after_parts();
    }

    fn by_user(&self) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        for (place, bytes) in &self.sizes {
            *sums.entry(self.given.get(place).copied().unwrap_or(0)).or_insert(0) += bytes;
        }
        sums
    }

    /// Gives all that there is to one who has limits, or to one who has none.
    fn give(&mut self) {
        let uid = if self.below(2) == 0 { LIMITED } else { 8 };
        self.system().home.look_after_parts();
        let fits = uid != LIMITED || self.needed() <= LIMIT_OF_ONE;
        let done = give(self.system(), self.cont, uid);
        assert_eq!(done, if fits { Ok(()) } else { Err(Error::QuotaLimit) }, "{} to {uid}", self.needed());
        if fits {
            self.gifts += 1;
            self.given = self.sizes.keys().map(|place| (*place, uid)).collect();
        }
    }

    fn step(&mut self) {
        match self.below(43) {
            40..=42 => self.give(),
            0..=19 => self.put(false),
            20..=25 => self.put(true),
            26..=32 => {
                let at = usize::try_from(self.below(self.sizes.len().max(1) as u64)).unwrap();
                if let Some((&(target, dkey), _)) = self.sizes.iter().nth(at) {
                    remove(self.system(), target, self.cont, dkey);
                    self.sizes.remove(&(target, dkey));
                    self.given.remove(&(target, dkey));
                }
            }
            33 | 34 => {
                let (one, other) = (50 + self.below(900), 50 + self.below(900));
                self.fresh += 1;
                let dkey = 100 + self.fresh;
                // A part that has started anew is let in first.
                self.system().home.look_after_parts();
                let parts = vec![(0, vec![value(dkey, one)]), (TARGETS, vec![value(dkey, other)])];
                let fits = self.needed() + one + other <= self.limit;
                let done = transact(self.system(), self.cont, parts);
                assert_eq!(done, if fits { Ok(()) } else { Err(Error::QuotaLimit) });
                if fits {
                    self.sizes.extend([((0, dkey), one), ((TARGETS, dkey), other)]);
                }
            }
            35 => {
                self.limit = 4000 + self.below(8000);
                self.system().home.look_after_parts();
                limit(self.system(), self.cont, None, self.limit, 0).unwrap();
            }
            36 | 37 => self.system.as_mut().unwrap().restart_part(),
            38 => self.system = self.system.take().map(System::restart_home),
            _ => {
                self.system().home.look_after_parts();
                assert_eq!(by_user(self.system(), self.cont), self.by_user());
            }
        }
    }
}

#[test]
fn engines_keep_to_a_limit_as_one_would_over_lost_messages_and_restarts() {
    let seed = Rng::from_entropy().unwrap().below(1 << 32);
    println!("seed {seed}");
    let (system, cont) = limited(8000, 0);
    let rng = Rng::from_seed(seed);
    limit(&system, cont, Some(LIMITED), LIMIT_OF_ONE, 0).unwrap();
    let (sizes, given) = (BTreeMap::new(), BTreeMap::new());
    let (system, limit) = (Some(system), 8000);
    let mut story = Story { system, cont, rng, limit, sizes, given, gifts: 0, fresh: 0, refused: 0, lost: 0 };
    for _ in 0..600 {
        story.step();
    }
    story.system().home.look_after_parts();
    assert_eq!(settled(story.system(), cont).bytes, story.needed());
    story.system().assert_clean();
    assert!(story.gifts > 3, "{} gifts", story.gifts);
    assert!(story.refused > 20, "{} refused, {} for the sake of the other engine", story.refused, story.lost);
}
