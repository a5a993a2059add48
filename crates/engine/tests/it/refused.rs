//! An update that is refused takes nothing: no space, no credentials, no place of a client, no work.

use crate::rig::{Rig, oid, small_config, tiny};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Prepare, Reply, SpaceReport, Update, UpdateIod, Verb};
use dolmen_engine::TargetConfig;
use dolmen_env::{Clock as _, Media};
use dolmen_types::{Cond, Credentials, Durability, Epoch, Error, Head, Key, RequestId, TxId};
use smallvec::smallvec;

fn space(rig: &mut Rig) -> SpaceReport {
    match rig.ask(Verb::Space).unwrap() {
        Reply::Space(report) => report,
        other => panic!("{other:?}"),
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

/// Somebody whom the target does not know yet.
fn stranger(number: u32) -> Head {
    let cred = Credentials { uid: 1000 + number, gid: 1, project: 1 };
    let id = RequestId { client: 1000 + u128::from(number), sequence: 1 };
    Head { cred, id, ..Head::default() }
}

/// An update of so many values of 1000 bytes.
fn values(dkey: &[u8], count: u32) -> Update<'static> {
    let iod = |number: u32| UpdateIod {
        akey: Key::from_slice(&number.to_le_bytes()),
        cond: Cond::NONE,
        value: NewValue::Single(Payload::Ref(&[7; 1000])),
    };
    let iods = (0..count).map(iod).collect();
    Update { oid: oid(1), dkey: Key::from_slice(dkey), cond: Cond::NONE, iods, charged: None }
}

/// The same as a transaction of this target alone.
fn alone(rig: &Rig, update: Update<'static>) -> Verb<'static> {
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.clock.advance(1_000_000);
    let tx = TxId { client: 9, begin: epoch };
    let leader = rig.config.target;
    let mutations = vec![Mutation::Update(update)];
    Verb::Prepare(Prepare { tx, epoch, leader, participants: smallvec![leader], mutations })
}

fn memory_bytes(rig: &Rig) -> u64 {
    rig.target.as_ref().unwrap().memory_bytes()
}

#[test]
fn an_update_that_is_too_large_takes_no_credentials() {
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, tiny());
    rig.put(oid(1), b"d", b"a", b"v").unwrap();
    let before = memory_bytes(&rig);
    for number in 0..500 {
        let many = alone(&rig, values(b"d", 20));
        for verb in [Verb::Update(values(b"d", 20)), many] {
            let refused = rig.complete_as(stranger(number), verb).result;
            assert!(matches!(refused, Err(Error::RecTooBig { .. })), "{refused:?}");
        }
    }
    assert_eq!(memory_bytes(&rig), before);
}

#[test]
fn every_update_up_to_a_size_finds_room_for_what_goes_before_it() {
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, tiny());
    let (mut stored, mut last) = (0, 0);
    for size in 700..1024_u32 {
        let value = vec![7; size as usize];
        let iod = |number: u8| UpdateIod {
            akey: Key::from_slice(&[number]),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(&value)),
        };
        let dkey = Key::from_slice(&size.to_le_bytes());
        let update =
            Update { oid: oid(1), dkey, cond: Cond::NONE, iods: (0..17).map(iod).collect(), charged: None };
        match rig.complete_as(stranger(size), Verb::Update(update)).result {
            Ok(_) => {
                stored += 1;
                last = size;
            }
            Err(Error::RecTooBig { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!((850..1000).contains(&last), "{last}");
    assert_eq!(stored, last - 699, "all up to one size");
    rig.close_and_reopen();
    assert_eq!(rig.get(oid(1), &last.to_le_bytes(), &[16]), Some(vec![7; last as usize]));
    rig.assert_clean();
}

#[test]
fn what_a_full_target_refuses_of_strangers_is_reclaimed_for_once() {
    let config = TargetConfig { capacity_bytes: 4 << 20, ..tiny() };
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, config);
    let mut dkey = 0_u32;
    while rig.complete(Verb::Update(values(&dkey.to_le_bytes(), 1))).result.is_ok() {
        dkey += 1;
    }
    for _ in 0..20 {
        assert!(rig.complete(Verb::Update(values(b"more", 1))).result.is_err());
    }
    let before = (rig.target.as_ref().unwrap().background_done(), memory_bytes(&rig));
    for number in 0..100 {
        // The ceiling of epochs is due each time.
        rig.clock.advance(1_000_000_000);
        let many = alone(&rig, values(b"more", 1));
        for verb in [Verb::Update(values(b"more", 1)), many] {
            let refused = rig.complete_as(stranger(number), verb).result;
            assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        }
    }
    let after = (rig.target.as_ref().unwrap().background_done(), memory_bytes(&rig));
    assert!(after.0.merges - before.0.merges < 10, "{before:?} and then {after:?}");
    assert!(after.0.checkpoints - before.0.checkpoints < 10, "{before:?} and then {after:?}");
    assert!(after.1 < before.1 + 1000, "{before:?} and then {after:?}");
}
