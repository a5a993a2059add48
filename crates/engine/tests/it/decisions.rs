//! What a leader remembers of transactions over several targets, and for how long.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{
    InDoubt, Mutation, NewValue, Payload, Prepare, Reply, TxState, Update, UpdateIod, Verb,
};
use dolmen_engine::TargetConfig;
use dolmen_env::sim::CrashPlan;
use dolmen_env::{Clock, Media};
use dolmen_types::{Cond, Durability, Epoch, Error, Key, TargetNo, TxId, limits};
use smallvec::smallvec;

/// More than the decisions that are remembered for a while.
const MANY: u64 = 66_000;

fn put(dkey: &[u8]) -> Mutation<'static> {
    let value = NewValue::Single(Payload::Ref(b"v"));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Mutation::Update(Update {
        oid: oid(1),
        dkey: Key::from_slice(dkey),
        cond: Cond::NONE,
        iods,
        charged: None,
    })
}

fn rig(no: u16) -> Rig {
    let config = TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 256 << 20,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 4 << 20,
        memory_budget_bytes: 16 << 20,
        ..small_config()
    };
    Rig::with_config(Media::Mapped, Durability::Process, config)
}

fn begin(rig: &Rig) -> TxId {
    rig.clock.advance(1_000_000);
    let begin = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.clock.advance(1_000_000);
    TxId { client: 9, begin }
}

/// A prepare of a transaction that the first of `count` targets leads.
fn prepare(rig: &mut Rig, tx: TxId, count: u16, dkey: &[u8]) -> Result<Reply, Error> {
    let participants = (0..count).map(TargetNo).collect();
    let mutations = vec![put(dkey)];
    rig.ask(Verb::Prepare(Prepare { tx, epoch: tx.begin, leader: TargetNo(0), participants, mutations }))
}

fn lead(rig: &mut Rig, count: u16, dkey: &[u8]) -> Result<TxId, Error> {
    let tx = begin(rig);
    prepare(rig, tx, count, dkey)?;
    rig.ask(Verb::Commit(tx)).unwrap();
    Ok(tx)
}

fn state(rig: &mut Rig, tx: TxId) -> TxState {
    match rig.ask(Verb::TxState(tx)).unwrap() {
        Reply::TxState(state) => state,
        other => panic!("{other:?}"),
    }
}

fn unconcluded(rig: &mut Rig) -> Vec<InDoubt> {
    match rig.ask(Verb::Unconcluded).unwrap() {
        Reply::InDoubt(list) => list,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_keeps_a_commit_over_any_number_of_later_ones_until_it_is_concluded() {
    let mut rig = rig(0);
    let tx = lead(&mut rig, 2, b"first").unwrap();
    let alone = rig.commit(vec![put(b"alone")]).unwrap();
    let alone = TxId { client: 9, begin: alone };
    for n in 0..MANY {
        rig.commit(vec![put(&(n % 100).to_le_bytes())]).unwrap();
        if n % 1000 == 0 {
            rig.work();
        }
    }
    assert_eq!(state(&mut rig, alone), TxState::Unknown, "as many are remembered, and no more");
    for round in 0..4 {
        match round {
            0 => {}
            1 => rig.close_and_reopen(),
            2 => rig.crash(CrashPlan::Process),
            _ => {
                rig.ask(Verb::Checkpoint).unwrap();
                rig.crash(CrashPlan::None);
            }
        }
        assert_eq!(state(&mut rig, tx), TxState::Committed, "round {round}");
        assert_eq!(rig.ask(Verb::Abort(tx)).err(), Some(Error::Exists), "round {round}");
        let kept = unconcluded(&mut rig);
        assert_eq!(kept.len(), 1, "round {round}");
        assert_eq!((kept[0].tx, kept[0].epoch, kept[0].leader), (tx, tx.begin, TargetNo(0)));
        assert_eq!(kept[0].participants[..], [TargetNo(0), TargetNo(1)]);
    }
    for _ in 0..2 {
        rig.ask(Verb::Conclude(tx)).unwrap();
        assert!(unconcluded(&mut rig).is_empty());
        assert_eq!(state(&mut rig, tx), TxState::Committed, "for a while, for its client");
    }
    rig.ask(Verb::Flush).unwrap();
    rig.crash(CrashPlan::None);
    assert!(unconcluded(&mut rig).is_empty());
    assert_eq!(state(&mut rig, tx), TxState::Committed);
    rig.close_and_reopen();
    assert!(unconcluded(&mut rig).is_empty());
}

#[test]
fn only_the_leader_keeps_commits_and_only_those_of_several_targets() {
    let mut other = rig(1);
    let tx = begin(&other);
    prepare(&mut other, tx, 2, b"d").unwrap();
    other.ask(Verb::Commit(tx)).unwrap();
    other.commit(vec![put(b"alone")]).unwrap();
    assert!(unconcluded(&mut other).is_empty());
    assert_eq!(other.ask(Verb::Conclude(tx)).ok().map(|_| ()), Some(()), "harmless");
    assert_eq!(state(&mut other, tx), TxState::Committed);
}

#[test]
fn a_leader_of_whom_too_many_have_not_heard_leads_no_more_until_they_have() {
    let mut rig = rig(0);
    let all = u16::try_from(limits::TARGETS_MAX).unwrap();
    let mut led = Vec::new();
    let busy = loop {
        match lead(&mut rig, all, &(led.len() as u64).to_le_bytes()) {
            Ok(tx) => led.push(tx),
            Err(error) => break error,
        }
    };
    assert_eq!(busy, Error::Busy);
    assert_eq!(led.len(), 64);
    for _ in 0..2 {
        assert_eq!(lead(&mut rig, 2, b"two").err(), Some(Error::Busy));
        rig.commit(vec![put(b"alone")]).unwrap();
        assert!(led.iter().all(|&tx| state(&mut rig, tx) == TxState::Committed));
        rig.close_and_reopen();
        // Past the epochs that may have been given out before.
        rig.clock.advance(1_000_000_000);
    }
    rig.ask(Verb::Conclude(led[0])).unwrap();
    lead(&mut rig, 2, b"two").unwrap();
    rig.assert_clean();
}
