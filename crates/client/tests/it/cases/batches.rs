//! Batches: several changes at once.

use super::common::{new_container, open};
use super::objects::object;
use dolmen_client::{
    At, Cond, Container, Error, Invalid, IoBuf, Key, NewValue, Object, ObjectType, Payload, UpdateIod,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn has(object: &Object, dkey: &[u8]) -> bool {
    object.get(At::Latest, dkey, b"a", &mut IoBuf::default()).unwrap().is_some()
}

fn put(object: &Object, dkey: &[u8]) {
    object.put(At::Latest, dkey, b"a", b"value").unwrap();
}

fn two_objects(cont: &Container) -> (Object, Object) {
    (object(cont, ObjectType::MultiHashed, "S1"), object(cont, ObjectType::MultiHashed, "SX"))
}

#[test]
fn a_batch_removes_everything_named_at_one_epoch_and_nothing_else() {
    for targets in [1, 4] {
        let (_, _, cont) = open(targets);
        let (one, other) = two_objects(&cont);
        for n in 0..20_u8 {
            put(&one, &[n]);
            put(&other, &[n]);
        }
        let mut batch = cont.batch();
        batch.punch_dkey(&one, &[3]);
        batch.punch(&other);
        let epoch = batch.commit().unwrap();
        let before = cont.at(dolmen_client::Epoch(epoch.0 - 1));
        for n in 0..20_u8 {
            assert_eq!(has(&one, &[n]), n != 3);
            assert!(!has(&other, &[n]));
            assert!(has(&before.object(one.oid()).unwrap(), &[n]));
            assert!(has(&before.object(other.oid()).unwrap(), &[n]));
        }
    }
}

#[test]
fn a_batch_whose_condition_is_not_met_does_nothing() {
    for targets in [1, 4] {
        let (_, _, cont) = open(targets);
        let (one, other) = two_objects(&cont);
        let iod = |value: &'static [u8]| UpdateIod {
            akey: Key::from_slice(b"a"),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(value)),
        };
        for (is_first, value) in [(true, b"first"), (false, b"again")] {
            let mut batch = cont.batch();
            for n in 0..8_u8 {
                batch.update(&other, &[n], Cond::NONE, &[iod(value)]);
            }
            batch.update(&one, b"d", Cond::DKEY_INSERT, &[iod(value)]);
            let result = batch.commit();
            assert!(if is_first { result.is_ok() } else { result == Err(Error::Exists) });
        }
        let mut buf = IoBuf::default();
        for n in 0..8_u8 {
            other.get(At::Latest, &[n], b"a", &mut buf).unwrap();
            assert_eq!(&buf[..], b"first");
        }
    }
}

#[test]
fn a_batch_that_cannot_be_carried_out_says_why() {
    let (_, pool, cont) = open(2);
    let (one, _) = two_objects(&cont);
    put(&one, b"d");
    assert_eq!(cont.batch().commit().unwrap_err(), Invalid::Count.into());
    let elsewhere = new_container(&pool);
    let (other, _) = two_objects(&elsewhere);
    let mut foreign = cont.batch();
    foreign.punch(&other);
    assert_eq!(foreign.commit().unwrap_err(), Invalid::Argument.into());
    let view = cont.at(cont.create_snapshot(None).unwrap());
    let in_view = view.object(one.oid()).unwrap();
    let mut batch = view.batch();
    batch.punch(&in_view);
    assert_eq!(batch.commit().unwrap_err(), Error::NoPermission);
    assert!(has(&one, b"d"));
}

/// Reads and writes of others make the epoch of a batch too old all the time.
#[test]
fn batches_get_through_between_writers_and_readers() {
    let (_, _, cont) = open(2);
    let (one, other) = two_objects(&cont);
    let is_over = Arc::new(AtomicBool::new(false));
    let (others_one, others_other, over) = (one.clone(), other.clone(), Arc::clone(&is_over));
    let neighbour = dolmen_env::spawn("neighbour", move || {
        while !over.load(Ordering::Relaxed) {
            put(&others_one, b"neighbour");
            has(&others_one, b"d");
            has(&others_other, b"d");
        }
    })
    .unwrap();
    for _ in 0..300 {
        put(&one, b"d");
        put(&other, b"d");
        let mut batch = cont.batch();
        batch.punch_dkey(&one, b"d");
        batch.punch(&other);
        batch.commit().unwrap();
        assert!(!has(&one, b"d") && !has(&other, b"d"));
    }
    is_over.store(true, Ordering::Relaxed);
    neighbour.join().unwrap();
}
