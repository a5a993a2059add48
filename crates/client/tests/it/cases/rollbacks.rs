//! Rollbacks while others read and write: everything is before one or after it.

use super::common::open;
use super::objects::object;
use dolmen_client::{At, Container, Error, IoBuf, Object, ObjectType};
use dolmen_env::scope;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 12;

fn value(object: &Object, at: At<'_>, key: u64) -> Result<u8, Error> {
    let mut buf = IoBuf::default();
    let len = object.get(at, &key.to_le_bytes(), b"a", &mut buf)?;
    Ok(if len.is_some() { buf[0] } else { 0 })
}

fn set(object: &Object, at: At<'_>, key: u64, value: u8) -> Result<(), Error> {
    object.put(at, &key.to_le_bytes(), b"a", &[value]).map(|_| ())
}

fn set_all(cont: &Container, object: &Object, value: u8) {
    cont.transact(|tx| (0..KEYS).try_for_each(|key| set(object, At::Tx(tx), key, value))).unwrap();
}

/// Each transaction reads every key twice; no committed one has seen two states.
fn read_beside_rollbacks(target_count: u16) {
    let (_served, _pool, cont) = open(target_count);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    set_all(&cont, &object, 1);
    let snapshot = cont.create_snapshot(None).unwrap();
    let (done, committed) = (AtomicBool::new(false), AtomicU64::new(0));
    scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let tx = cont.begin().unwrap();
                let keys = (0..KEYS).chain(0..KEYS);
                let seen: Result<Vec<u8>, Error> = keys.map(|key| value(&object, At::Tx(&tx), key)).collect();
                let Ok(seen) = seen else { continue };
                if tx.commit().is_ok() {
                    assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
                    committed.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        for _ in 0..300 {
            set(&object, At::Latest, 0, 1).unwrap();
            set_all(&cont, &object, 2);
            cont.rollback(snapshot).unwrap();
            assert_eq!((0..KEYS).map(|key| value(&object, At::Latest, key).unwrap()).max(), Some(1));
        }
        while committed.load(Ordering::SeqCst) == 0 {
            dolmen_env::yield_now();
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_transaction_beside_rollbacks_sees_one_state() {
    read_beside_rollbacks(3);
}

#[test]
fn a_transaction_beside_rollbacks_of_one_target_sees_one_state() {
    read_beside_rollbacks(1);
}

/// All that transactions do is to copy values, so that after a rollback only those of the snapshot can be there.
#[test]
fn no_transaction_brings_back_what_a_rollback_took() {
    let (_served, _pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    set_all(&cont, &object, 1);
    let snapshot = cont.create_snapshot(None).unwrap();
    for round in 0..60 {
        set_all(&cont, &object, 2);
        let (done, copied) = (AtomicBool::new(false), AtomicU64::new(0));
        scope(|threads| {
            for number in 0..2 {
                let (cont, object, done, copied) = (&cont, &object, &done, &copied);
                threads.spawn(move || {
                    for n in number.. {
                        let (from, to) = (n % KEYS, (n * 7 + 3) % KEYS);
                        let copy = cont.transact(|tx| {
                            let found = value(object, At::Tx(tx), from)?;
                            set(object, At::Tx(tx), to, found)
                        });
                        copied.fetch_add(u64::from(copy.is_ok()), Ordering::SeqCst);
                        if done.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                });
            }
            while copied.load(Ordering::SeqCst) < 4 {
                dolmen_env::yield_now();
            }
            cont.rollback(snapshot).unwrap();
            done.store(true, Ordering::SeqCst);
        });
        let all: Vec<u8> = (0..KEYS).map(|key| value(&object, At::Latest, key).unwrap()).collect();
        assert!(all.iter().all(|value| *value == 1), "round {round}: {all:?}");
    }
}
