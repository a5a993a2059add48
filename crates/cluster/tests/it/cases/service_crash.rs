//! Changes of the service cut short at every single operation.

use super::common::{Store, World, ask, by_label, get, get_at, make, put};
use dolmen_cluster::Pool;
use dolmen_codec::pool::{OpenFor, PoolReply, PoolVerb, Snapshot};
use dolmen_codec::verb::ReadAt;
use dolmen_types::{ContNo, Epoch, Error};

const TARGETS: u16 = 3;

/// Runs `change` with a crash after 0, 1, 2 … operations until it is long enough to succeed, and looks at the
/// reopened pool each time; how many crash points there were.
fn at_every_operation(
    prepare: impl Fn(&Pool<Store>) -> ContNo,
    change: impl Fn(&Pool<Store>, ContNo) -> Result<(), Error>,
    check: impl Fn(&Pool<Store>, ContNo, bool),
) -> u64 {
    for operations in 0..100 {
        let world = World::new();
        let pool = world.create(TARGETS);
        let no = prepare(&pool);
        world.director.fail_after(Some(operations));
        let answer = change(&pool, no);
        let pool = world.reopen(pool);
        check(&pool, no, answer.is_ok());
        assert_clean(&pool);
        if answer.is_ok() {
            return operations;
        }
    }
    panic!("the change never succeeds");
}

fn assert_clean(pool: &Pool<Store>) {
    match ask(pool, PoolVerb::Check).unwrap() {
        PoolReply::Audits(audits) => assert!(audits.iter().all(|a| a.findings.is_empty()), "{audits:?}"),
        other => panic!("{other:?}"),
    }
}

fn snapshots(pool: &Pool<Store>, no: ContNo) -> Vec<Snapshot> {
    match ask(pool, PoolVerb::SnapList(no)).unwrap() {
        PoolReply::Snapshots(list) => list,
        other => panic!("{other:?}"),
    }
}

fn filled(pool: &Pool<Store>) -> ContNo {
    let no = make(pool, 1, "a").unwrap().no;
    for target in 0..TARGETS {
        put(pool, target, no, 1, b"old").unwrap();
    }
    no
}

fn snapshotted(pool: &Pool<Store>) -> ContNo {
    let no = filled(pool);
    ask(pool, PoolVerb::SnapCreate(no, None)).unwrap();
    for target in 0..TARGETS {
        put(pool, target, no, 1, b"new").unwrap();
    }
    no
}

fn exists(pool: &Pool<Store>, label: &str) -> bool {
    ask(pool, PoolVerb::ContOpen(by_label(label), OpenFor::Any)).is_ok()
}

#[test]
fn creating_a_container() {
    let points = at_every_operation(
        |pool| make(pool, 1, "a").unwrap().no,
        |pool, _| make(pool, 2, "b").map(|_| ()),
        |pool, a, done| {
            assert!(exists(pool, "b") || !done);
            let b = if exists(pool, "b") { None } else { Some(make(pool, 2, "b").unwrap()) };
            assert!(b.is_none_or(|b| b.no > a));
            put(pool, 0, a, 1, b"x").unwrap();
        },
    );
    // At the last point only the removal of the intent failed, and the container is there all the same.
    assert_eq!(points, u64::from(TARGETS) + 1);
}

#[test]
fn destroying_a_container() {
    at_every_operation(
        filled,
        |pool, _| ask(pool, PoolVerb::ContDestroy(by_label("a"), false)).map(|_| ()),
        |pool, no, done| {
            let there = exists(pool, "a");
            assert!(!(done && there));
            for target in 0..TARGETS {
                let seen = get(pool, target, no, 1);
                assert_eq!(seen, if there { Ok(b"old".to_vec()) } else { Err(Error::NoContainer) });
            }
        },
    );
}

#[test]
fn making_a_snapshot() {
    at_every_operation(
        filled,
        |pool, no| ask(pool, PoolVerb::SnapCreate(no, Some("s".to_owned()))).map(|_| ()),
        |pool, no, done| {
            let list = snapshots(pool, no);
            assert!(!(done && list.is_empty()));
            for target in 0..TARGETS {
                put(pool, target, no, 1, b"new").unwrap();
            }
            ask(pool, PoolVerb::Aggregate(no, Epoch::ZERO)).unwrap();
            for Snapshot { epoch, .. } in list {
                for target in 0..TARGETS {
                    assert_eq!(get_at(pool, target, no, 1, ReadAt::Epoch(epoch)).unwrap(), b"old");
                }
            }
        },
    );
}

#[test]
fn destroying_a_snapshot() {
    at_every_operation(
        snapshotted,
        |pool, no| {
            let epoch = snapshots(pool, no)[0].epoch;
            ask(pool, PoolVerb::SnapDestroy(no, epoch)).map(|_| ())
        },
        |pool, no, done| {
            let list = snapshots(pool, no);
            assert!(!done || list.is_empty());
            ask(pool, PoolVerb::Aggregate(no, Epoch::ZERO)).unwrap();
            for target in 0..TARGETS {
                if let Some(Snapshot { epoch, .. }) = list.first() {
                    assert_eq!(get_at(pool, target, no, 1, ReadAt::Epoch(*epoch)).unwrap(), b"old");
                }
                assert_eq!(get(pool, target, no, 1).unwrap(), b"new");
            }
        },
    );
}

#[test]
fn rolling_back() {
    at_every_operation(
        snapshotted,
        |pool, no| {
            let epoch = snapshots(pool, no)[0].epoch;
            ask(pool, PoolVerb::Rollback(no, epoch)).map(|_| ())
        },
        |pool, no, done| {
            let seen: Vec<_> = (0..TARGETS).map(|target| get(pool, target, no, 1).unwrap()).collect();
            let back = seen.iter().all(|value| value == b"old");
            assert!(back || !done && seen.iter().all(|value| value == b"new"), "{seen:?}");
        },
    );
}

#[test]
fn attributes_properties_and_object_numbers() {
    let first_oid = |pool: &Pool<Store>, no| match ask(pool, PoolVerb::AllocOids(no, 1 << 17)) {
        Ok(PoolReply::Oids(first)) => Ok(first),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    at_every_operation(
        filled,
        |pool, no| first_oid(pool, no).map(|first| assert_eq!(first, 1)),
        |pool, no, done| assert!(!done || first_oid(pool, no).unwrap() > 1 << 17),
    );
    let pair = vec![("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())];
    at_every_operation(
        filled,
        |pool, no| ask(pool, PoolVerb::SetAttrs(Some(no), pair.clone())).map(|_| ()),
        |pool, no, done| match ask(pool, PoolVerb::AttrNames(Some(no))).unwrap() {
            PoolReply::AttrNames(names) => assert_eq!(names.len(), if done { 2 } else { 0 }),
            other => panic!("{other:?}"),
        },
    );
}
