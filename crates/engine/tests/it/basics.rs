//! The main verbs, before and after a restart.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{ListWhat, PunchScope, Verb};
use dolmen_env::Media;
use dolmen_types::{Cond, Durability, Error, Key, Recx};

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
