//! Ends of transactions, as those are told where they have read.

use super::common::open;
use super::objects::object;
use crate::watched::{Doubt, End, Watched};
use dolmen_client::{At, Cond, Container, Epoch, Error, EventQueue, IoBuf, Object, ObjectType, Pool, Tx};
use dolmen_types::TargetNo;
use std::sync::Arc;

const TARGETS: u16 = 4;

/// Keys on all targets.
fn keys() -> impl Iterator<Item = [u8; 2]> {
    (0..32).map(|n| [n, 7])
}

fn served() -> (Arc<Watched>, Pool, Container, Object) {
    let (served, pool, cont) = open(TARGETS);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    object.put(At::Latest, &[0, 7], b"a", b"v").unwrap();
    served.take_ends();
    (served, pool, cont, object)
}

fn read_all(object: &Object, tx: &Tx) {
    for key in keys() {
        object.get(At::Tx(tx), &key, b"a", &mut IoBuf::default()).unwrap();
    }
}

/// All targets, told by a message of its own.
fn all_of(epoch: Epoch) -> End {
    (epoch, false, (0..TARGETS).map(TargetNo).collect())
}

#[test]
fn a_commit_names_the_targets_that_were_only_read_at() {
    let (served, _pool, cont, object) = served();
    let tx = cont.begin().unwrap();
    read_all(&object, &tx);
    object.put(At::Tx(&tx), &[0, 7], b"a", b"w").unwrap();
    let epoch = tx.commit().unwrap();
    drop(tx);
    let ends = served.take_ends();
    assert_eq!(ends.len(), 1, "it is told once: {ends:?}");
    let (_, _, read) = &ends[0];
    assert_eq!((ends[0].0, ends[0].1, read.len()), (epoch, true, usize::from(TARGETS) - 1));
    assert!(read.is_sorted_by(|a, b| a < b));
    // What writes where it has read tells by that.
    let tx = cont.begin().unwrap();
    object.get(At::Tx(&tx), &[0, 7], b"a", &mut IoBuf::default()).unwrap();
    object.put(At::Tx(&tx), &[0, 7], b"a", b"x").unwrap();
    let epoch = tx.commit().unwrap();
    drop(tx);
    assert_eq!(served.take_ends(), [(epoch, true, vec![])]);
}

#[test]
fn who_ends_without_a_commit_tells_so_once() {
    let (served, _pool, cont, object) = served();
    let ways: [fn(&Arc<Tx>); 4] = [
        |tx| tx.abort(),
        |tx| tx.restart().unwrap(),
        |tx| assert_ne!(tx.commit().unwrap(), Epoch(0)),
        |_is_dropped| {},
    ];
    for end in ways {
        let tx = Arc::new(cont.begin().unwrap());
        read_all(&object, &tx);
        let epoch = tx.epoch();
        let shown = tx.as_it_is(object.oid());
        read_all(&object, &shown);
        drop(shown);
        assert_eq!(served.take_ends(), [], "who only shows it does not end it");
        end(&tx);
        drop(tx);
        assert_eq!(served.take_ends(), [all_of(epoch)]);
    }
    let mut epoch = Epoch::ZERO;
    let failed = cont.transact(|tx| {
        read_all(&object, tx);
        epoch = tx.epoch();
        Err::<(), _>(Error::NotFound)
    });
    assert_eq!((failed, served.take_ends()), (Err(Error::NotFound), vec![all_of(epoch)]));
    drop(cont.begin().unwrap());
    assert_eq!(served.take_ends(), [], "it has not read");
}

#[test]
fn what_may_be_committed_again_goes_on_until_it_is_given_up() {
    let (served, _pool, cont, object) = served();
    let tx = cont.begin().unwrap();
    read_all(&object, &tx);
    object.put(At::Tx(&tx), &[0, 7], b"a", b"w").unwrap();
    served.doubt_commits(Doubt::Lost, u32::MAX);
    assert!(matches!(tx.commit(), Err(Error::InDoubt { .. })));
    assert_eq!(served.take_ends(), []);
    let epoch = tx.epoch();
    drop(tx);
    assert_eq!(served.take_ends(), [all_of(epoch)]);
}

#[test]
fn a_removal_on_an_event_that_finds_nothing_tells_that_it_has_ended() {
    let (served, pool, _cont, object) = served();
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    object.punch_on(&mut event, At::Latest, Cond::PUNCH).unwrap();
    event.wait().unwrap();
    let ends = served.take_ends();
    assert!(ends.len() == 1 && ends[0].1, "it writes to all targets: {ends:?}");
    object.punch_on(&mut event, At::Latest, Cond::PUNCH).unwrap();
    assert_eq!(event.wait().map(drop), Err(Error::NotFound));
    let ends = served.take_ends();
    assert_eq!(ends, [all_of(ends[0].0)]);
}
