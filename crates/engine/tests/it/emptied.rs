//! A target that is full says so, loses nothing, and can be emptied.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{ContSpec, ContVerb, NewValue, Payload, PunchScope, Reply, SpaceReport, Verb};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_types::{Cond, Durability, Error, Key};

fn space(rig: &mut Rig) -> SpaceReport {
    match rig.ask(Verb::Space).unwrap() {
        Reply::Space(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Writes values of so many bytes until there is no space; returns how many were acknowledged.
fn fill(rig: &mut Rig, object: u64, bytes: usize) -> u32 {
    for number in 0..100_000u32 {
        match rig.put(oid(object), &number.to_le_bytes(), b"a", &vec![number.to_le_bytes()[0]; bytes]) {
            Ok(_) => {}
            Err(Error::NoSpace { .. }) => return number,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("never full");
}

fn assert_holds(rig: &mut Rig, object: u64, bytes: usize, count: u32) {
    for number in 0..count {
        let found = rig.get(oid(object), &number.to_le_bytes(), b"a");
        assert!(found == Some(vec![number.to_le_bytes()[0]; bytes]), "{number} of {count}");
    }
}

fn tight() -> TargetConfig {
    TargetConfig {
        capacity_bytes: 3 << 20,
        log_segment_bytes: 64 << 10,
        bulk_segment_bytes: 256 << 10,
        ..small_config()
    }
}

#[test]
fn a_full_target_loses_nothing_and_can_be_emptied() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, tight());
        let (large, small) = (fill(&mut rig, 1, 20_000), fill(&mut rig, 2, 300));
        assert!(large > 20, "{large} large values");
        assert!(fill(&mut rig, 1, 20_000) == 0 && fill(&mut rig, 2, 300) == 0, "it stays full");
        assert!(space(&mut rig).allocated_bytes <= tight().capacity_bytes, "{:?}", space(&mut rig));
        rig.close_and_reopen();
        assert_holds(&mut rig, 1, 20_000, large);
        assert_holds(&mut rig, 2, 300, small);
        // What frees space needs none of what is left for data.
        let mut punch = |object, number: u32| {
            let dkey = PunchScope::Dkey(Key::from_slice(&number.to_le_bytes()));
            rig.punch(oid(object), dkey, Cond::NONE).unwrap();
        };
        (0..large).for_each(|number| punch(1, number));
        // More than a rest of a log segment has room for.
        (800..1600).for_each(|number| punch(2, number));
        rig.aggregate();
        assert_holds(&mut rig, 2, 300, small.min(800));
        assert!(fill(&mut rig, 3, 20_000) >= large / 2, "the space came back");
        rig.ask(Verb::Cont(ContVerb::Destroy)).unwrap();
        rig.work();
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Power };
        rig.ask(Verb::Cont(ContVerb::Create(spec))).unwrap_err();
        rig.assert_clean();
    }
}

#[test]
fn a_refused_update_takes_no_space() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, tight());
        rig.put(oid(1), b"d", b"a", &[1; 20_000]).unwrap();
        let before = space(&mut rig);
        for _ in 0..200 {
            let value = NewValue::Single(Payload::Ref(&[2; 20_000]));
            let refused = rig.update(oid(1), b"d", Cond::DKEY_INSERT, b"a", value);
            assert_eq!(refused, Err(Error::Exists));
        }
        assert_eq!(space(&mut rig).bulk_bytes, before.bulk_bytes);
        rig.assert_clean();
    }
}
