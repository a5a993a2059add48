//! Merges of some runs, not of all, keep what the older runs still need.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{ContVerb, PunchScope, Reply, Verb};
use dolmen_codec::{Progress, TargetStore};
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Cond, ContNo, Durability, Epoch, Key};

fn run_bytes(rig: &mut Rig) -> u64 {
    match rig.ask(Verb::Space).unwrap() {
        Reply::Space(report) => report.run_bytes,
        other => panic!("{other:?}"),
    }
}

/// A crash between a checkpoint that has made the horizon of an aggregation durable and its merge.
fn cut_an_aggregation_short(rig: &mut Rig) {
    for _ in 0..3 {
        let step = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
        assert!(matches!(step, Reply::Aggregated { more: true, .. }), "{step:?}");
    }
    let before = run_bytes(rig);
    for number in 0..400u32 {
        rig.put(oid(3), &number.to_le_bytes(), b"a", &[3; 3500]).unwrap();
    }
    while run_bytes(rig) == before {
        let target = rig.target.as_mut().unwrap();
        assert_ne!(target.step(), Progress::Idle, "a checkpoint is due");
        target.poll(true, &mut Vec::new());
    }
    rig.crash(CrashPlan::All);
    assert!(run_bytes(rig) > before, "nothing is merged yet");
}

#[test]
fn a_punch_outlives_merges_that_leave_out_what_it_hides() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        for number in 0..30_000u32 {
            rig.put(oid(1), &number.to_le_bytes(), b"a", b"old").unwrap();
        }
        rig.ask(Verb::Checkpoint).unwrap();
        let oldest = run_bytes(&mut rig);
        let gone = 7u32.to_le_bytes();
        rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&gone)), Cond::NONE).unwrap();
        cut_an_aggregation_short(&mut rig);
        for number in 0..8u32 {
            rig.put(oid(2), &number.to_le_bytes(), b"a", b"new").unwrap();
            rig.ask(Verb::Checkpoint).unwrap();
        }
        let before = run_bytes(&mut rig);
        rig.work();
        let after = run_bytes(&mut rig);
        assert!(oldest < after && after < before, "{oldest} stay, {before} are merged to {after}");
        assert_eq!(rig.get(oid(1), &gone, b"a"), None, "{media:?}");
        assert_eq!(rig.get(oid(1), &8u32.to_le_bytes(), b"a"), Some(b"old".to_vec()));
        rig.assert_clean();
    }
}

#[test]
fn an_aggregation_beside_one_of_the_past_reaches_as_far_as_it_was_asked_to() {
    for steps in 1..5 {
        let mut rig = Rig::new(Media::Mapped, Durability::Process);
        let first = rig.put(oid(1), b"d", b"a", b"one").unwrap();
        rig.put(oid(1), b"d", b"a", b"two").unwrap();
        rig.put(oid(1), b"d", b"a", b"three").unwrap();
        for _ in 0..steps {
            // Another caller, who asks for less.
            rig.ask(Verb::Cont(ContVerb::Aggregate(first))).unwrap();
        }
        assert_eq!(rig.aggregate(), 2, "after {steps} steps of another");
        assert_eq!(rig.get(oid(1), b"d", b"a"), Some(b"three".to_vec()));
        rig.assert_clean();
    }
}

/// Each takes the steps of both: none throws away what the other has done.
#[test]
fn aggregations_of_two_containers_asked_for_in_turn_both_end() {
    for values in (1..60).step_by(7) {
        let mut rig = Rig::new(Media::Mapped, Durability::Process);
        rig.cont = ContNo(2);
        rig.create_container(Durability::Process);
        for no in [1, 2] {
            rig.cont = ContNo(no);
            for number in 0..values * 40_u32 {
                for value in [1, 2] {
                    rig.put(oid(1), &number.to_le_bytes(), b"a", &[value; 100]).unwrap();
                }
            }
        }
        let mut freed = [None; 2];
        let mut calls = 0;
        while freed.contains(&None) {
            for (number, freed) in freed.iter_mut().enumerate().filter(|(_, freed)| freed.is_none()) {
                rig.cont = [ContNo(1), ContNo(2)][number];
                let reply = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
                let Reply::Aggregated { more, freed: count } = reply else { panic!("{reply:?}") };
                *freed = Some(count).filter(|_| !more);
                calls += 1;
                assert!(calls < 5000, "{values}: neither ends");
            }
        }
        let freed: u64 = freed.into_iter().flatten().sum();
        assert_eq!(freed, 2 * u64::from(values) * 40, "what both have overwritten, once");
    }
}
