//! What is written through a daemon is read through it, by every way.

use crate::common::{Served, WAYS, Way, remote};
use core::time::Duration;
use dolmen_client::{At, Container, EventQueue, Pool, Tx, Wait};
use dolmen_codec::pool::ContName;
use dolmen_codec::verb::{NewValue, Payload, UpdateIod};
use dolmen_env::{Clock, RealClock};
use dolmen_net::client::Link;
use dolmen_types::{Cond, Error, IoBuf, Key, Label, ObjectClass, ObjectType, Props, Recx};
use std::sync::Arc;

fn container(pool: &Pool) -> Container {
    let handle = pool.create_container(Some(Label::new("field").unwrap()), Props::default()).unwrap();
    pool.open_container(&ContName::Uuid(handle.uuid)).unwrap()
}

/// A new pool with a new container.
fn with_container(served: &Served, link: &Link) -> (Pool, Container) {
    served.create(link, "p");
    let pool = served.pool(link, "p");
    let cont = container(&pool);
    (pool, cont)
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + salt * 7) as u8).collect()
}

#[test]
fn values_of_all_sizes_come_back_by_every_way() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let (_pool, cont) = with_container(&served, &link);
        let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
        let object = cont.object(oid).unwrap();
        for (salt, len) in [1, 64, 4096, 4097, 100_000, 1 << 20, 5 << 20].into_iter().enumerate() {
            let value = pattern(len, salt);
            let dkey = [salt as u8];
            object.put(At::Latest, &dkey, b"single", &value).unwrap();
            let mut buf = IoBuf::default();
            assert_eq!(object.get(At::Latest, &dkey, b"single", &mut buf).unwrap(), Some(len), "{way:?}");
            assert!(buf[..] == value[..], "{way:?}: {len} bytes came back changed");
            object.write(At::Latest, &dkey, b"array", 1, Recx::new(10, len as u64), &value).unwrap();
            let mut buf = IoBuf::copy_of(&vec![0xee; len + 20]);
            let recx = Recx::new(0, len as u64 + 20);
            let found = object.read(At::Latest, &dkey, b"array", 1, recx, &mut buf).unwrap();
            let filled: u64 = found.filled.iter().map(|recx| recx.count).sum();
            assert_eq!(filled, len as u64);
            assert!(buf[..10].iter().all(|&byte| byte == 0xee), "a hole is left alone");
            assert!(buf[10..len + 10] == value[..]);
        }
        assert_eq!(object.get(At::Latest, b"none", b"single", &mut IoBuf::default()).unwrap(), None);
    }
}

#[test]
fn many_requests_are_under_way_on_one_queue() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let (pool, cont) = with_container(&served, &link);
        let object = cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap()).unwrap();
        let queue = EventQueue::new(&pool).unwrap();
        let mut events: Vec<_> = (0..300).map(|_| queue.event().unwrap()).collect();
        for (at, event) in (0_u32..).zip(&mut events) {
            let value = IoBuf::copy_of(&pattern(4096, at as usize));
            let value = NewValue::Single(Payload::Owned(value));
            let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
            object.update_on(event, At::Latest, &at.to_le_bytes(), Cond::NONE, vec![iod]).unwrap();
        }
        let (mut done, mut all) = (Vec::new(), 0);
        while all < events.len() {
            all += queue.poll(Wait::Forever, 64, &mut done).unwrap();
        }
        for (at, event) in (0_u32..).zip(&mut events) {
            event.take_result().unwrap().unwrap();
            let mut buf = IoBuf::default();
            assert_eq!(object.get(At::Latest, &at.to_le_bytes(), b"a", &mut buf).unwrap(), Some(4096));
            assert!(buf[..] == pattern(4096, at as usize)[..], "{way:?}: value {at}");
        }
    }
}

#[test]
fn threads_share_a_connection() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let (_pool, cont) = with_container(&served, &link);
        let object = cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap()).unwrap();
        dolmen_env::scope(|threads| {
            for thread in 0..4_u32 {
                let object = object.clone();
                threads.spawn(move || {
                    for turn in 0..200_u32 {
                        let dkey = [thread.to_le_bytes(), turn.to_le_bytes()].concat();
                        let value = pattern(100 + turn as usize * 50, thread as usize);
                        object.put(At::Latest, &dkey, b"a", &value).unwrap();
                        let mut buf = IoBuf::default();
                        assert_eq!(object.get(At::Latest, &dkey, b"a", &mut buf).unwrap(), Some(value.len()));
                        assert!(buf[..] == value[..]);
                    }
                });
            }
        });
    }
}

#[test]
fn transactions_snapshots_and_lists_go_through() {
    let served = Served::start();
    let link = served.link(WAYS[0]);
    let (_pool, cont) = with_container(&served, &link);
    let object = cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap()).unwrap();
    cont.transact(|tx| {
        object.put(At::Tx(tx), b"x", b"a", b"one")?;
        object.put(At::Tx(tx), b"y", b"a", b"two")
    })
    .unwrap();
    let epoch = cont.create_snapshot(Some("then")).unwrap();
    object.put(At::Latest, b"x", b"a", b"three").unwrap();
    let then = cont.at(epoch).object(object.oid()).unwrap();
    let mut buf = IoBuf::default();
    then.get(At::Latest, b"x", b"a", &mut buf).unwrap();
    assert_eq!(&buf[..], b"one");
    let mut anchor = dolmen_types::Anchor::default();
    let mut keys = Vec::new();
    while !anchor.is_eof() {
        let page = object.list_dkeys(At::Latest, &mut anchor, dolmen_client::Page::default()).unwrap();
        keys.extend(page.iter().map(<[u8]>::to_vec));
    }
    keys.sort();
    assert_eq!(keys, [b"x".to_vec(), b"y".to_vec()]);
}

#[test]
fn a_pool_that_is_not_there_is_not_found() {
    let served = Served::start();
    let link = served.link(WAYS[0]);
    assert_eq!(remote(&link, "nothing").unwrap_err(), Error::NotFound);
    served.create(&link, "p");
    let pools = dolmen_local::list(served.dir.path()).unwrap();
    assert_eq!(pools.len(), 1);
    drop(Arc::new(remote(&link, "p").unwrap()));
}

#[test]
fn what_was_served_opens_in_process_and_the_reverse() {
    let served = Served::start();
    let link = served.link(WAYS[0]);
    let (pool, cont) = with_container(&served, &link);
    let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
    cont.object(oid).unwrap().put(At::Latest, b"x", b"a", b"served").unwrap();
    let dir = served.dir.path().join("p");
    let refused = dolmen_local::open(&dir, &dolmen_local::OpenOptions::default()).unwrap_err();
    assert_eq!(refused.owner_pid(), Some(std::process::id()));
    drop((cont, pool, link));
    let Served { daemon, dir: scratch, .. } = served;
    daemon.stop().unwrap();
    let local = Arc::new(dolmen_local::open(&dir, &dolmen_local::OpenOptions::default()).unwrap());
    let pool = dolmen_client::Pool::connect(local.clone(), crate::common::CRED).unwrap();
    let cont = pool.open_container(&ContName::Label(Label::new("field").unwrap())).unwrap();
    let object = cont.object(oid).unwrap();
    let mut buf = IoBuf::default();
    object.get(At::Latest, b"x", b"a", &mut buf).unwrap();
    assert_eq!(&buf[..], b"served");
    object.put(At::Latest, b"x", b"a", b"in process").unwrap();
    drop((object, cont, pool));
    Arc::into_inner(local).unwrap().close().unwrap();
    let served = Served::over(scratch);
    let link = served.link(WAYS[2]);
    let pool = served.pool(&link, "p");
    let cont = pool.open_container(&ContName::Label(Label::new("field").unwrap())).unwrap();
    cont.object(oid).unwrap().get(At::Latest, b"x", b"a", &mut buf).unwrap();
    assert_eq!(&buf[..], b"in process");
}

#[test]
fn what_no_frame_can_hold_is_refused_at_once_as_too_big() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let (_pool, cont) = with_container(&served, &link);
        let begin_ns = RealClock.monotonic_ns();
        for len in [64 << 20, 65 << 20] {
            let refused = cont.set_attrs(&[("long".to_owned(), vec![7; len])]);
            assert!(matches!(refused, Err(Error::RecTooBig { .. })), "{way:?}, {len}: {refused:?}");
        }
        let took_ns = RealClock.monotonic_ns() - begin_ns;
        assert!(took_ns < 10_000_000_000, "{way:?}: {took_ns} ns");
        cont.set_attrs(&[("short".to_owned(), vec![7])]).unwrap();
        assert_eq!(cont.attr("short"), Ok(vec![7]), "{way:?}: the connection goes on");
    }
}

#[test]
fn a_served_pool_gives_space_back_by_itself_and_one_that_keeps_all_does_not() {
    for keep_past in [Some(Duration::from_millis(1)), None] {
        let served = Served::with(|settings| settings.keep_past = keep_past);
        let link = served.link(Way::Rings);
        let (pool, cont) = with_container(&served, &link);
        let object = cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::S1, 7, 1).unwrap()).unwrap();
        for salt in 0..20 {
            object.put(At::Latest, b"d", b"a", &pattern(1 << 20, salt)).unwrap();
        }
        let bulk_bytes = || pool.query().unwrap().space.iter().map(|space| space.bulk_bytes).sum::<u64>();
        assert!(bulk_bytes() >= 2 << 20, "some is there to be freed");
        let looks = if keep_past.is_some() { 600 } else { 10 };
        let is_free = (0..looks).any(|_| {
            // Each look is a request: the pool rests in between.
            dolmen_env::wait(Duration::from_millis(500));
            bulk_bytes() == 1 << 20
        });
        assert_eq!(is_free, keep_past.is_some(), "{} bytes", bulk_bytes());
        let mut buf = IoBuf::default();
        assert_eq!(object.get(At::Latest, b"d", b"a", &mut buf).unwrap(), Some(1 << 20));
        assert!(buf[..] == pattern(1 << 20, 19)[..]);
    }
}

/// For five minutes that would be so, if nobody told.
#[test]
fn a_transaction_that_has_only_read_at_a_target_holds_nothing_there_when_it_has_ended() {
    for way in [Way::Rings, Way::Tcp] {
        let served = Served::with(|settings| settings.keep_past = Some(Duration::from_millis(1)));
        let link = served.link(way);
        let (pool, cont) = with_container(&served, &link);
        let object = cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::SX, 7, 1).unwrap()).unwrap();
        let keys = || (0..32_u8).map(|n| [n]);
        let read_all = |tx: &Tx| {
            keys().try_for_each(|key| object.get(At::Tx(tx), &key, b"a", &mut IoBuf::default()).map(drop))
        };
        cont.transact(|tx| {
            read_all(tx)?;
            object.put(At::Tx(tx), b"d", b"a", b"v").map(drop)
        })
        .unwrap();
        let in_vain = cont.transact(|tx| read_all(tx).and(Err::<(), _>(Error::NotFound)));
        assert_eq!(in_vain, Err(Error::NotFound));
        for salt in 0..3 {
            for key in keys() {
                object.put(At::Latest, &key, b"a", &pattern(1 << 20, salt)).unwrap();
            }
        }
        let bulk_bytes = || pool.query().unwrap().space.iter().map(|space| space.bulk_bytes).sum::<u64>();
        let is_free = (0..120).any(|_| {
            dolmen_env::wait(Duration::from_millis(500));
            bulk_bytes() == 32 << 20
        });
        assert!(is_free, "{way:?}: {} bytes", bulk_bytes());
    }
}
