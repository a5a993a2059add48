//! The main verbs, before and after a restart.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{ListWhat, NewValue, Payload, PunchScope, Verb};
use dolmen_env::Media;
use dolmen_types::{Cond, Durability, Error, Key, Recx};
use smallvec::smallvec;

fn each_rig(test: impl Fn(Rig)) {
    for media in [Media::Mapped, Media::Block] {
        for durability in [Durability::Power, Durability::Process] {
            test(Rig::new(media, durability));
        }
    }
}

#[test]
fn values_of_all_sizes_survive_a_kill_and_a_close() {
    each_rig(|mut rig| {
        let sizes = [1usize, 64, 4096, 4097, 40_000, 1 << 20];
        for (number, size) in sizes.into_iter().enumerate() {
            let value = vec![u8::try_from(number + 1).unwrap(); size];
            rig.put(oid(1), &[7, u8::try_from(number).unwrap()], b"a", &value).unwrap();
        }
        for round in 0..3 {
            for (number, size) in sizes.into_iter().enumerate() {
                let value = vec![u8::try_from(number + 1).unwrap(); size];
                assert_eq!(
                    rig.get(oid(1), &[7, u8::try_from(number).unwrap()], b"a"),
                    Some(value),
                    "round {round}"
                );
            }
            assert_eq!(rig.get(oid(1), b"none", b"a"), None);
            rig.assert_clean();
            if round == 0 { rig.reopen() } else { rig.close_and_reopen() }
        }
    });
}

#[test]
fn extents_overlap_by_age_and_holes_are_no_zeros() {
    each_rig(|mut rig| {
        rig.write(oid(2), b"d", b"a", 10, 2, &[1; 20]).unwrap();
        rig.write(oid(2), b"d", b"a", 14, 2, &[2; 4]).unwrap();
        for _ in 0..2 {
            let (filled, bytes) = rig.read(oid(2), b"d", b"a", 8, 16, 2);
            assert_eq!(filled, [Recx::new(10, 10)]);
            assert_eq!(bytes[..4], [0; 4]);
            assert_eq!(bytes[4..12], [1; 8]);
            assert_eq!(bytes[12..16], [2; 4]);
            assert_eq!(bytes[16..24], [1; 8]);
            rig.reopen();
        }
    });
}

#[test]
fn punched_keys_are_gone_and_may_come_back() {
    each_rig(|mut rig| {
        rig.put(oid(3), b"x", b"a", b"1").unwrap();
        rig.put(oid(3), b"x", b"b", b"2").unwrap();
        rig.put(oid(3), b"y", b"a", b"3").unwrap();
        rig.punch(
            oid(3),
            PunchScope::Akeys(Key::from_slice(b"x"), [Key::from_slice(b"a")].into_iter().collect()),
            Cond::PUNCH,
        )
        .unwrap();
        assert_eq!(rig.keys(ListWhat::Akeys(oid(3), Key::from_slice(b"x"))), [b"b".to_vec()]);
        rig.punch(oid(3), PunchScope::Dkey(Key::from_slice(b"x")), Cond::PUNCH).unwrap();
        assert_eq!(rig.keys(ListWhat::Dkeys(oid(3))), [b"y".to_vec()]);
        let again = rig.punch(oid(3), PunchScope::Dkey(Key::from_slice(b"x")), Cond::PUNCH);
        assert_eq!(again.unwrap_err(), Error::NotFound);
        rig.put(oid(3), b"x", b"a", b"4").unwrap();
        rig.punch(oid(3), PunchScope::Object, Cond::PUNCH).unwrap();
        assert_eq!(rig.keys(ListWhat::Dkeys(oid(3))), Vec::<Vec<u8>>::new());
        rig.put(oid(3), b"z", b"a", b"5").unwrap();
        rig.reopen();
        assert_eq!(rig.keys(ListWhat::Dkeys(oid(3))), [b"z".to_vec()]);
        assert_eq!(rig.get(oid(3), b"x", b"a"), None);
    });
}

#[test]
fn a_checkpoint_changes_nothing_that_can_be_seen() {
    each_rig(|mut rig| {
        for number in 0..200u8 {
            rig.put(oid(4), &[number], b"a", &[number; 100]).unwrap();
        }
        rig.ask(Verb::Checkpoint).unwrap();
        for number in 0..50u8 {
            rig.put(oid(4), &[number], b"a", &[number + 1; 100]).unwrap();
        }
        for _ in 0..3 {
            for number in 0..200u8 {
                let expected = if number < 50 { number + 1 } else { number };
                assert_eq!(rig.get(oid(4), &[number], b"a"), Some(vec![expected; 100]));
            }
            assert_eq!(rig.keys(ListWhat::Dkeys(oid(4))).len(), 200);
            rig.assert_clean();
            rig.reopen();
        }
    });
}

#[test]
fn aggregation_frees_what_nobody_can_see_and_nothing_else() {
    each_rig(|mut rig| {
        let mut last = dolmen_types::Epoch::ZERO;
        for round in 0..4u8 {
            for number in 0..100u8 {
                last = rig.put(oid(5), &[number], b"a", &[round; 300]).unwrap();
                rig.write(oid(5), &[number], b"x", u64::from(round) * 10, 1, &[round; 5000]).unwrap();
            }
            if round == 1 {
                let snapshot = dolmen_codec::verb::ContVerb::AddSnapshot(last);
                rig.ask(Verb::Cont(snapshot)).unwrap();
            }
        }
        rig.punch(oid(5), PunchScope::Dkey(Key::from_slice(&[7])), Cond::NONE).unwrap();
        let snapshot = {
            // Round 1 ended with the last write of its array; the snapshot is at the single value before it.
            last
        };
        let freed = rig.aggregate();
        assert!(freed > 150, "{freed}");
        for _ in 0..2 {
            for number in 0..100u8 {
                let expected = (number != 7).then(|| vec![3; 300]);
                assert_eq!(rig.get(oid(5), &[number], b"a"), expected);
            }
            let (filled, bytes) = rig.read(oid(5), &[9], b"x", 0, 5030, 1);
            assert_eq!(filled, [Recx::new(0, 5030)]);
            assert_eq!((bytes[0], bytes[10], bytes[20], bytes[5029]), (0, 1, 2, 3));
            rig.assert_clean();
            rig.close_and_reopen();
        }
        assert!(snapshot > dolmen_types::Epoch::ZERO);
        rig.aggregate();
        rig.assert_clean();
    });
}

#[test]
fn a_destroyed_container_gives_its_space_back() {
    each_rig(|mut rig| {
        for number in 0..100u8 {
            rig.put(oid(6), &[number], b"a", &[1; 20_000]).unwrap();
        }
        rig.ask(Verb::Cont(dolmen_codec::verb::ContVerb::Destroy)).unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        rig.work();
        match rig.ask(Verb::Space).unwrap() {
            dolmen_codec::verb::Reply::Space(space) => assert_eq!(space.bulk_bytes, 0),
            other => panic!("{other:?}"),
        }
        rig.assert_clean();
        rig.reopen();
        rig.assert_clean();
    });
}

#[test]
fn a_target_that_was_closed_once_is_not_taken_for_closed_after_a_crash() {
    each_rig(|mut rig| {
        rig.put(oid(8), b"d", b"a", b"before").unwrap();
        rig.close_and_reopen();
        assert!(rig.recovery.clean);
        rig.put(oid(8), b"d", b"a", b"after").unwrap();
        rig.crash(dolmen_env::sim::CrashPlan::Process);
        assert!(!rig.recovery.clean);
        assert_eq!(rig.get(oid(8), b"d", b"a"), Some(b"after".to_vec()));
        rig.crash(dolmen_env::sim::CrashPlan::Process);
        assert_eq!(rig.get(oid(8), b"d", b"a"), Some(b"after".to_vec()));
        rig.assert_clean();
    });
}

#[test]
fn an_insert_sees_what_any_run_has_of_its_akey_and_nothing_else() {
    each_rig(|mut rig| {
        let insert = |rig: &mut Rig, dkey: u8, akey: &[u8], round: u8| {
            let value = if round.is_multiple_of(2) {
                NewValue::Single(Payload::Ref(b"value"))
            } else {
                let extents = smallvec![Recx::new(0, 100)];
                NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(&[7; 100]) }
            };
            rig.update(oid(1), &[dkey], Cond::AKEY_INSERT, akey, value)
        };
        for round in 0..6u8 {
            for dkey in 0..20 {
                insert(&mut rig, dkey, b"a", round).unwrap();
            }
            rig.put(oid(1), &[100 + round], b"a", b"another").unwrap();
            rig.ask(Verb::Checkpoint).unwrap();
            for dkey in 0..20 {
                assert_eq!(insert(&mut rig, dkey, b"a", round), Err(Error::Exists), "{dkey} in {round}");
                insert(&mut rig, dkey, &[b'b', round], round).unwrap();
            }
            rig.ask(Verb::Checkpoint).unwrap();
            for dkey in 0..20 {
                let scope = match dkey % 3 {
                    0 => PunchScope::Akeys(Key::from_slice(&[dkey]), smallvec![Key::from_slice(b"a")]),
                    _ => PunchScope::Dkey(Key::from_slice(&[dkey])),
                };
                rig.punch(oid(1), scope, Cond::NONE).unwrap();
            }
            if round.is_multiple_of(2) {
                rig.ask(Verb::Checkpoint).unwrap();
            }
        }
        rig.assert_clean();
    });
}
