//! Commits whose own outcome is not told: nothing of them is done twice.

use super::common::open;
use super::objects::object;
use crate::watched::{Doubt, Watched};
use core::future::ready;
use dolmen_client::{
    At, Cond, Container, Error, EventQueue, IoBuf, Key, NewValue, Object, ObjectType, Output, Payload, Tx,
    UpdateIod, Way,
};
use std::sync::Arc;

/// More than one request is repeated over.
const LONG: u32 = 100;
/// Until nobody waits any more.
const FOR_EVER: u32 = u32::MAX;

/// Two keys of an object, on targets of their own.
const KEYS: [&[u8]; 2] = [&[0, 7], &[1, 7]];

fn number(object: &Object, at: At<'_>, dkey: &[u8]) -> Result<u64, Error> {
    let mut buf = IoBuf::default();
    let len = object.get(at, dkey, b"n", &mut buf)?;
    Ok(len.map_or(0, |len| u64::from_le_bytes(buf[..len].try_into().unwrap())))
}

fn append(object: &Object, tx: &Tx) -> Result<(), Error> {
    KEYS.iter().try_for_each(|dkey| {
        let longer = number(object, At::Tx(tx), dkey)? + 1;
        object.put(At::Tx(tx), dkey, b"n", &longer.to_le_bytes()).map(|_| ())
    })
}

fn counted(cont: &Container) -> Object {
    object(cont, ObjectType::MultiHashed, "SX")
}

fn lengths(object: &Object) -> [u64; 2] {
    KEYS.map(|dkey| number(object, At::Latest, dkey).unwrap())
}

fn served(targets: u16) -> (Arc<Watched>, dolmen_client::Pool, Container, Object) {
    let (served, pool, cont) = open(targets);
    let object = counted(&cont);
    (served, pool, cont, object)
}

#[test]
fn what_is_appended_is_there_once_however_long_its_commit_is_in_doubt() {
    for (targets, what) in [(1, Doubt::Done), (4, Doubt::Done), (1, Doubt::Lost), (4, Doubt::Lost)] {
        let (served, _pool, cont, object) = served(targets);
        served.doubt_commits(what, LONG);
        let mut runs = 0;
        let appended = cont.transact(|tx| {
            runs += 1;
            append(&object, tx)
        });
        assert_eq!((appended, runs, lengths(&object)), (Ok(()), 1, [1, 1]), "{targets} targets");
        served.doubt_commits(what, LONG);
        let appended = cont.together(cont.transact_by(Way::Later, |tx| {
            runs += 1;
            ready(append(&object, &tx))
        }));
        assert_eq!((appended, runs, lengths(&object)), (Ok(()), 2, [2, 2]), "{targets} targets, later");
    }
}

#[test]
fn a_commit_that_nobody_decides_is_said_to_be_in_doubt_and_not_done_anew() {
    let (served, _pool, cont, object) = served(4);
    served.doubt_commits(Doubt::Done, FOR_EVER);
    let mut runs = 0;
    let appended = cont.transact(|tx| {
        runs += 1;
        append(&object, tx)
    });
    assert!(matches!(appended, Err(Error::InDoubt { .. })), "{appended:?}");
    served.doubt_commits(Doubt::Done, 0);
    assert_eq!((runs, lengths(&object)), (1, [1, 1]));
}

#[test]
fn who_is_told_of_a_doubt_can_ask_for_the_outcome_and_for_nothing_else() {
    for way in [Doubt::Done, Doubt::Lost] {
        let (served, _pool, cont, object) = served(4);
        let tx = cont.begin().unwrap();
        append(&object, &tx).unwrap();
        served.doubt_commits(way, FOR_EVER);
        let is_in_doubt = |result| matches!(result, Err(Error::InDoubt { .. }));
        assert!(is_in_doubt(tx.commit().map(|_| ())));
        assert!(!tx.must_restart());
        assert!(is_in_doubt(append(&object, &tx)), "what is written now may be in it or not");
        assert!(is_in_doubt(number(&object, At::Tx(&tx), KEYS[0]).map(|_| ())));
        assert!(is_in_doubt(tx.commit().map(|_| ())), "asked again");
        served.doubt_commits(way, 0);
        assert_eq!(tx.commit(), Ok(tx.epoch()));
        assert_eq!(lengths(&object), [1, 1]);
    }
}

#[test]
fn a_conflict_that_ends_a_doubt_is_one() {
    let (served, _pool, cont, object) = served(4);
    let mut runs = 0;
    cont.transact(|tx| {
        runs += 1;
        append(&object, tx)?;
        if runs == 1 {
            served.doubt_commits(Doubt::Lost, 0);
            cont.transact(|other| append(&object, other))?;
            served.doubt_commits(Doubt::Lost, LONG);
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!((runs, lengths(&object)), (2, [2, 2]));
}

#[test]
fn reads_beside_the_undecided_of_others_are_done_anew() {
    let (served, _pool, cont, object) = served(4);
    let tx = dolmen_types::TxId { client: 1, begin: dolmen_types::Epoch(2) };
    let mut runs = 0;
    cont.transact(|own| {
        runs += 1;
        if runs == 1 {
            served.fail_next((0..LONG).map(|_| Error::InDoubt { tx }));
        }
        append(&object, own)
    })
    .unwrap();
    assert_eq!((runs, lengths(&object)), (2, [1, 1]));
}

#[test]
fn a_batch_in_doubt_is_asked_for_and_not_done_anew() {
    for targets in [1, 4] {
        let (served, _pool, cont, object) = served(targets);
        let insert = |count| {
            let iod = UpdateIod {
                akey: Key::from_slice(b"n"),
                cond: Cond::NONE,
                value: NewValue::Single(Payload::Ref(&[7; 8])),
            };
            served.doubt_commits(Doubt::Done, count);
            let mut batch = cont.batch();
            for dkey in KEYS {
                batch.update(&object, dkey, Cond::DKEY_INSERT, core::slice::from_ref(&iod));
            }
            batch.commit()
        };
        assert!(insert(LONG).is_ok(), "it was there by itself");
        object.punch(At::Latest, Cond::NONE).unwrap();
        let before = served.heads().len();
        assert!(matches!(insert(FOR_EVER), Err(Error::InDoubt { .. })));
        assert_eq!(served.heads().len(), before + 1, "it was begun once");
        assert_eq!(insert(0), Err(Error::Exists));
    }
}

#[test]
fn a_removal_in_doubt_on_an_event_is_asked_for_and_not_done_anew() {
    let (served, pool, cont, object) = served(4);
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let mut remove = |count| {
        cont.transact(|tx| append(&object, tx)).unwrap();
        served.doubt_commits(Doubt::Done, count);
        object.punch_on(&mut event, At::Latest, Cond::PUNCH).unwrap();
        let removed = event.wait();
        served.doubt_commits(Doubt::Done, 0);
        assert_eq!(lengths(&object), [0, 0]);
        removed
    };
    assert!(matches!(remove(LONG), Ok(Output::Written(_))), "nothing was there to be removed again");
    assert!(matches!(remove(FOR_EVER), Err(Error::InDoubt { .. })));
}

#[test]
fn a_commit_in_doubt_on_an_event_is_asked_for_until_it_is_told_or_called_off() {
    let (served, pool, cont, object) = served(4);
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    for (count, length) in [(0, 1), (LONG, 2), (FOR_EVER, 3)] {
        let tx = Arc::new(cont.begin().unwrap());
        append(&object, &tx).unwrap();
        served.doubt_commits(Doubt::Done, count);
        tx.commit_on(&mut event).unwrap();
        let committed = event.wait();
        assert_eq!(matches!(committed, Ok(Output::Written(_))), count != FOR_EVER);
        assert!(!tx.must_restart());
        served.doubt_commits(Doubt::Done, 0);
        assert_eq!(lengths(&object), [length; 2]);
        if count == FOR_EVER {
            assert!(matches!(committed, Err(Error::InDoubt { .. })));
            tx.commit_on(&mut event).unwrap();
            assert!(matches!(event.wait(), Ok(Output::Written(_))), "asked again");
            assert_eq!(lengths(&object), [length; 2]);
        }
    }
    let tx = Arc::new(cont.begin().unwrap());
    append(&object, &tx).unwrap();
    served.doubt_commits(Doubt::Done, FOR_EVER);
    tx.commit_on(&mut event).unwrap();
    event.abort();
    assert!(matches!(event.wait(), Err(Error::Canceled)));
    served.doubt_commits(Doubt::Done, 0);
    assert!(matches!(append(&object, &tx), Err(Error::InDoubt { .. })), "it may be committed");
    assert_eq!(tx.commit(), Ok(tx.epoch()));
    assert_eq!(lengths(&object), [4, 4]);
}
