//! Asynchronous operations.

use super::common::open;
use super::objects::object;
use dolmen_client::{
    Anchor, At, Cond, ContName, Error, Event, EventQueue, FetchIod, Invalid, IoBuf, Key, NewValue,
    ObjectType, Output, Page, Payload, QueryFlags, Recx, UpdateIod, Wait, Want,
};
use dolmen_types::limits::PAYLOAD_BYTES_MAX;
use smallvec::smallvec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn put(value: &[u8]) -> Vec<UpdateIod<'static>> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(value)));
    vec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }]
}

fn get() -> FetchIod {
    FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 100 } }
}

#[test]
fn what_is_more_than_a_target_takes_is_sent_in_order_as_answers_come() {
    const COUNT: u32 = 20_000;
    let (_, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut events: Vec<_> = (0..COUNT).map(|_| queue.event().unwrap()).collect();
    let key = |number: u32| (number % 3000).to_le_bytes();
    for (number, event) in (0..COUNT).zip(&mut events) {
        let value = number.to_le_bytes();
        object.update_on(event, At::Latest, &key(number), Cond::NONE, put(&value)).unwrap();
    }
    for (number, event) in (0..COUNT).zip(&mut events) {
        assert!(matches!(event.wait(), Ok(Output::Written(_))), "number {number}");
        object.fetch_on(event, At::Latest, &key(number), Cond::NONE, &[get()], IoBuf::zeroed(100)).unwrap();
    }
    for (number, event) in (0..COUNT).zip(&mut events) {
        assert!(matches!(event.wait(), Ok(Output::Fetched(_))), "number {number}");
        let last = (number % 3000..COUNT).step_by(3000).next_back().unwrap();
        assert_eq!(event.take_buf().unwrap()[..4], last.to_le_bytes(), "number {number}");
    }
}

#[test]
fn a_queue_that_nobody_looks_at_holds_up_neither_others_nor_calls() {
    let (_, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let (left, other) = (EventQueue::new(&pool).unwrap(), EventQueue::new(&pool).unwrap());
    let mut events: Vec<_> = (0..10_000).map(|_| left.event().unwrap()).collect();
    for (number, event) in (0_u32..).zip(&mut events) {
        object.update_on(event, At::Latest, &number.to_le_bytes(), Cond::NONE, put(b"v")).unwrap();
    }
    let mut event = other.event().unwrap();
    object.update_on(&mut event, At::Latest, b"other", Cond::NONE, put(b"v")).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    for number in 0_u32..6000 {
        object.put(At::Latest, b"called", b"a", &number.to_le_bytes()).unwrap();
    }
    for event in &mut events {
        assert!(matches!(event.wait(), Ok(Output::Written(_))));
    }
    // What is called off before it is sent never is.
    for (number, event) in (0_u32..).zip(&mut events) {
        object.update_on(event, At::Latest, &number.to_le_bytes(), Cond::NONE, put(b"w")).unwrap();
    }
    events.last_mut().unwrap().abort();
    let mut ended: Vec<_> = events.iter_mut().map(Event::wait).collect();
    assert!(matches!(ended.pop(), Some(Err(Error::Canceled))));
    assert!(ended.iter().all(Result::is_ok));
    let mut buf = IoBuf::default();
    object.get(At::Latest, &9999_u32.to_le_bytes(), b"a", &mut buf).unwrap();
    assert_eq!(&buf[..], b"v");
    // A queue that goes takes what it has not sent with it, and its room is there for others.
    for (number, event) in (0_u32..).zip(&mut events) {
        object.update_on(event, At::Latest, &number.to_le_bytes(), Cond::NONE, put(b"x")).unwrap();
    }
    drop(events);
    left.destroy(true).unwrap();
    object.update_on(&mut event, At::Latest, b"other", Cond::NONE, put(b"w")).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
}

#[test]
fn operations_complete_on_their_queue_and_events_are_used_again() {
    let (_, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut events: Vec<_> = (0..8).map(|_| queue.event().unwrap()).collect();
    for round in 0..3_u8 {
        for (n, event) in events.iter_mut().enumerate() {
            let value = [round + 1, u8::try_from(n).unwrap()];
            object.update_on(event, At::Latest, &[7, value[1]], Cond::NONE, put(&value)).unwrap();
            assert_eq!(
                object.update_on(event, At::Latest, b"d", Cond::NONE, put(b"v")),
                Err(Error::NoPermission)
            );
        }
        assert_eq!(queue.running(), 8);
        let mut ids = Vec::new();
        while ids.len() < 8 {
            queue.poll(Wait::Forever, 3, &mut ids).unwrap();
        }
        for (n, event) in events.iter_mut().enumerate() {
            assert!(ids.contains(&event.id()));
            assert!(matches!(event.take_result(), Some(Ok(Output::Written(_)))));
            let buf = IoBuf::zeroed(100);
            object
                .fetch_on(event, At::Latest, &[7, u8::try_from(n).unwrap()], Cond::NONE, &[get()], buf)
                .unwrap();
        }
        for (n, event) in events.iter_mut().enumerate() {
            let Output::Fetched(found) = event.wait().unwrap() else { panic!("not a fetch") };
            assert_eq!(found[0].size_bytes, 2);
            assert_eq!(event.take_buf().unwrap()[..2], [round + 1, u8::try_from(n).unwrap()]);
        }
        assert_eq!((queue.running(), queue.completed()), (0, 0));
    }
}

#[test]
fn an_operation_has_its_own_error_and_gives_its_buffer_back() {
    let (served, pool, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    object.update_on(&mut event, At::Latest, b"d", Cond::DKEY_UPDATE, put(b"v")).unwrap();
    assert_eq!(event.wait().err(), Some(Error::NotFound));
    served.fail_next([Error::Busy]);
    object.fetch_on(&mut event, At::Latest, b"d", Cond::NONE, &[get()], IoBuf::copy_of(&[5; 100])).unwrap();
    assert_eq!(event.wait().err(), Some(Error::Busy));
    assert_eq!(event.take_buf().unwrap()[..], [5; 100]);
    assert_eq!(event.wait().err(), Some(Invalid::Argument.into()));
    assert_eq!(queue.poll(Wait::No, 0, &mut Vec::new()), Err(Invalid::Count.into()));
    assert_eq!(queue.poll(Wait::Forever, 1, &mut Vec::new()), Ok(0));
}

#[test]
fn a_stale_map_is_renewed_for_the_next_operation() {
    let (served, pool, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    served.set_map_version(5);
    object.update_on(&mut event, At::Latest, b"d", Cond::NONE, put(b"v")).unwrap();
    assert_eq!(event.wait().err(), Some(Error::StaleMap { version: 5 }));
    object.update_on(&mut event, At::Latest, b"d", Cond::NONE, put(b"v")).unwrap();
    assert!(event.wait().is_ok());
}

#[test]
fn a_parent_completes_after_its_children() {
    let (_, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut parent = queue.event().unwrap();
    let mut children: Vec<_> = (0..3).map(|_| queue.child(&parent).unwrap()).collect();
    assert_eq!(parent.barrier(), Err(Error::NoPermission));
    let called = Arc::new(AtomicU32::new(0));
    for (n, child) in children.iter_mut().enumerate() {
        let called = Arc::clone(&called);
        child
            .on_complete(Box::new(move |error| {
                assert!(error.is_none());
                called.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }))
            .unwrap();
        object.update_on(child, At::Latest, &[1, u8::try_from(n).unwrap()], Cond::NONE, put(b"v")).unwrap();
    }
    parent.barrier().unwrap();
    assert_eq!(children[0].test(Wait::No), Err(Error::NoPermission));
    let mut ids = Vec::new();
    queue.poll(Wait::Forever, 9, &mut ids).unwrap();
    assert_eq!(ids, [parent.id()]);
    assert_eq!(called.load(Ordering::Relaxed), 3);
    assert!(matches!(parent.take_result(), Some(Ok(Output::Done))));
    let other = EventQueue::new(&pool).unwrap();
    assert_eq!(other.child(&parent).err(), Some(Error::NotFound));
}

#[test]
fn a_callback_may_turn_a_success_into_an_error() {
    let (_, pool, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    event.on_complete(Box::new(|_| Err(Error::NotEmpty))).unwrap();
    object.update_on(&mut event, At::Latest, b"d", Cond::NONE, put(b"v")).unwrap();
    assert_eq!(event.wait().err(), Some(Error::NotEmpty));
}

#[test]
fn what_is_more_than_one_request_completes_as_one() {
    let (_, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let (len, recx) = (2 * PAYLOAD_BYTES_MAX, Recx::new(3, 2 * PAYLOAD_BYTES_MAX as u64));
    let data = Payload::Owned(IoBuf::copy_of(&vec![3; len]));
    let value = NewValue::Array { record_bytes: 1, extents: smallvec![recx], data };
    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
    object.update_on(&mut event, At::Latest, b"d", Cond::NONE, vec![iod]).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    let mut buf = IoBuf::default();
    assert_eq!(object.read(At::Latest, b"d", b"a", 1, recx, &mut buf).unwrap().filled.as_slice(), [recx]);
    event.run(|| object.punch(At::Latest, Cond::PUNCH).map(Output::Written)).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    let tx = cont.begin().unwrap();
    object.update_on(&mut event, At::Tx(&tx), b"d", Cond::NONE, put(b"v")).unwrap();
    assert!(event.wait().is_ok());
    object.fetch_on(&mut event, At::Tx(&tx), b"d", Cond::NONE, &[get()], IoBuf::zeroed(100)).unwrap();
    assert!(event.wait().is_ok());
    assert_eq!(event.take_buf().unwrap()[0], b'v');
}

#[test]
fn a_queue_in_use_is_destroyed_only_by_force() {
    let (_, pool, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    object.update_on(&mut event, At::Latest, b"d", Cond::NONE, put(b"v")).unwrap();
    assert_eq!(queue.clone().destroy(false), Err(Error::Busy));
    assert!(event.test(Wait::For(1_000_000_000)).unwrap());
    drop(event);
    assert_eq!(queue.destroy(false), Ok(()));
}

/// Twenty dkeys in an object over all targets, and the event's answers beside those of the plain calls.
#[test]
fn punches_listings_and_queries_complete_on_events() {
    let (_, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiUint64, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let dkey = |n: u64| n.to_le_bytes();
    for n in 0..20 {
        for akey in 1..4_u64 {
            object.put(At::Latest, &dkey(n), &akey.to_le_bytes(), b"v").unwrap();
        }
    }
    let page = Page { items_max: 3, bytes_max: 1000 };
    let (mut listed, mut anchor) = (Vec::new(), Anchor::default());
    while !anchor.is_eof() {
        object.list_dkeys_on(&mut event, At::Latest, anchor, page).unwrap();
        let Output::Keys(keys, next) = event.wait().unwrap() else { panic!("not keys") };
        listed.extend(keys.iter().map(<[u8]>::to_vec));
        anchor = next;
    }
    listed.sort();
    let mut all: Vec<_> = (0..20).map(|n| dkey(n).to_vec()).collect();
    all.sort();
    assert_eq!(listed, all);

    object.list_akeys_on(&mut event, At::Latest, &dkey(7), Anchor::default(), page).unwrap();
    let Output::Keys(akeys, _) = event.wait().unwrap() else { panic!("not keys") };
    assert_eq!(akeys.len(), 3);
    object
        .list_extents_on(&mut event, At::Latest, &dkey(7), &1_u64.to_le_bytes(), Anchor::default(), 9)
        .unwrap();
    let Output::Extents(extents, _) = event.wait().unwrap() else { panic!("not extents") };
    assert!(extents.len() == 1 && extents[0].single);

    let last = |event: &mut Event| {
        let flags = QueryFlags::MAX.and(QueryFlags::DKEY).and(QueryFlags::AKEY);
        object.query_on(event, At::Latest, flags, &[], &[]).unwrap();
        let Output::Found(found) = event.wait().unwrap() else { panic!("not an answer to a query") };
        assert_eq!(found, object.query(At::Latest, flags, &[], &[]).unwrap());
        found.map(|found| (found.dkey.to_vec(), found.akey.to_vec()))
    };
    assert_eq!(last(&mut event), Some((dkey(19).to_vec(), dkey(3).to_vec())));
    object.punch_akeys_on(&mut event, At::Latest, &dkey(19), &[&3_u64.to_le_bytes()], Cond::PUNCH).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    assert_eq!(last(&mut event), Some((dkey(19).to_vec(), dkey(2).to_vec())));
    object.punch_dkey_on(&mut event, At::Latest, &dkey(19), Cond::PUNCH).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    object.punch_dkey_on(&mut event, At::Latest, &dkey(19), Cond::PUNCH).unwrap();
    assert_eq!(event.wait().err(), Some(Error::NotFound));
    assert_eq!(last(&mut event), Some((dkey(18).to_vec(), dkey(3).to_vec())));
    object.punch_on(&mut event, At::Latest, Cond::NONE).unwrap();
    assert!(event.is_running(), "over several targets it takes several requests");
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    assert_eq!(last(&mut event), None);
    object.punch_on(&mut event, At::Latest, Cond::PUNCH).unwrap();
    assert_eq!(event.wait().err(), Some(Error::NotFound));
}

/// Whatever the number of polls after which the only dkey is removed: that removal or the punch finds it, not both.
#[test]
fn a_punch_with_a_condition_over_several_targets_is_before_or_behind_what_comes_between_its_requests() {
    let (_, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiUint64, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    for polls in 0..12 {
        let dkey = 7_u64.to_le_bytes();
        object.put(At::Latest, &dkey, &dkey, b"v").unwrap();
        object.punch_on(&mut event, At::Latest, Cond::PUNCH).unwrap();
        assert!(event.is_running(), "nothing of it is carried out by its launch");
        for _ in 0..polls {
            event.test(Wait::No).unwrap();
        }
        let removed = object.punch_dkey(At::Latest, &dkey, Cond::PUNCH);
        let punched = event.wait().map(drop);
        assert!(removed.is_ok() != punched.is_ok(), "after {polls} polls: {removed:?}, {punched:?}");
        let refused = [removed.map(drop), punched].into_iter().find_map(Result::err);
        assert_eq!(refused, Some(Error::NotFound), "after {polls} polls");
        assert!(object.list_dkeys(At::Latest, &mut Anchor::default(), Page::default()).unwrap().is_empty());
    }
}

#[test]
fn transactions_commit_on_events_and_conflicts_are_theirs() {
    let (_, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let tx = Arc::new(cont.begin().unwrap());
    for n in 0..8_u8 {
        object.put(At::Tx(&tx), &[n], b"a", &[n + 1]).unwrap();
    }
    tx.commit_on(&mut event).unwrap();
    assert_eq!(object.put(At::Tx(&tx), b"x", b"a", b"late").err(), Some(Error::Busy));
    assert!(event.is_running());
    assert_eq!(tx.commit_on(&mut event), Err(Error::NoPermission));
    assert!(matches!(event.wait(), Ok(Output::Written(epoch)) if epoch == tx.epoch()));
    let mut buf = IoBuf::default();
    assert!(
        (0..8_u8).all(|n| object.get(At::Latest, &[n], b"a", &mut buf) == Ok(Some(1)) && buf[0] == n + 1)
    );

    tx.restart().unwrap();
    object.get(At::Tx(&tx), &[1], b"a", &mut buf).unwrap();
    object.put(At::Tx(&tx), &[1], b"a", b"mine").unwrap();
    object.put(At::Latest, &[1], b"a", b"theirs").unwrap();
    tx.commit_on(&mut event).unwrap();
    assert!(matches!(event.wait(), Err(Error::TxRestart { .. })));
    assert!(tx.must_restart());
    tx.restart().unwrap();
    tx.commit_on(&mut event).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Written(_))), "there was nothing to send");
}

#[test]
fn containers_are_opened_queried_snapshotted_and_closed_on_events() {
    let (_, pool, cont) = open(2);
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let name = ContName::Uuid(cont.uuid());
    pool.open_container_on(&mut event, &name).unwrap();
    assert!(event.is_running());
    let Output::Opened(second) = event.wait().unwrap() else { panic!("not a container") };
    assert_eq!(second.no(), cont.no());
    let handles = |event: &mut Event| {
        cont.query_on(event).unwrap();
        let Output::Info(info) = event.wait().unwrap() else { panic!("no container's info") };
        info.handles
    };
    assert_eq!(handles(&mut event), 2);
    second.create_snapshot_on(&mut event, Some("first")).unwrap();
    let Output::Written(epoch) = event.wait().unwrap() else { panic!("not an epoch") };
    assert_eq!(cont.snapshots().unwrap()[0].epoch, epoch);
    second.close_on(&mut event).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Done)));
    second.close_on(&mut event).unwrap();
    assert!(matches!(event.wait(), Ok(Output::Done)));
    drop(second);
    assert_eq!(handles(&mut event), 1);

    // Nobody takes the container of an event that is dropped: its handle is given back all the same.
    for is_polled in [false, true] {
        let mut dropped = queue.event().unwrap();
        pool.open_container_on(&mut dropped, &name).unwrap();
        if is_polled {
            queue.poll(Wait::Forever, 1, &mut Vec::new()).unwrap();
        }
        drop(dropped);
        queue.poll(Wait::Forever, 1, &mut Vec::new()).unwrap();
        assert_eq!(handles(&mut event), 1);
    }
    let missing = ContName::Uuid(dolmen_client::Uuid::from_u128(1));
    pool.open_container_on(&mut event, &missing).unwrap();
    assert_eq!(event.wait().err(), Some(Error::NotFound));
}

#[test]
fn an_aborted_operation_sends_nothing_more() {
    let (_, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    object.put(At::Latest, b"d", b"a", b"v").unwrap();
    object.punch_on(&mut event, At::Latest, Cond::NONE).unwrap();
    event.abort();
    assert_eq!(event.wait().err(), Some(Error::Canceled));
    assert_eq!(object.size(At::Latest, b"d", b"a"), Ok(1));
    // What is one request is under way already.
    object.punch_dkey_on(&mut event, At::Latest, b"d", Cond::NONE).unwrap();
    event.abort();
    assert!(matches!(event.wait(), Ok(Output::Written(_))));
    assert_eq!(object.size(At::Latest, b"d", b"a"), Ok(0));
    // And so it is for a group.
    object.put(At::Latest, b"d", b"a", b"v").unwrap();
    let mut parent = queue.event().unwrap();
    let mut child = queue.child(&parent).unwrap();
    object.punch_on(&mut child, At::Latest, Cond::NONE).unwrap();
    parent.barrier().unwrap();
    parent.abort();
    assert_eq!(parent.wait().err(), Some(Error::Canceled));
    assert_eq!(object.size(At::Latest, b"d", b"a"), Ok(1));
}

#[test]
fn an_event_serves_its_own_client_only() {
    let (_, pool, _) = open(1);
    let (_, _, elsewhere) = open(1);
    let object = object(&elsewhere, ObjectType::MultiHashed, "S1");
    let mut event = EventQueue::new(&pool).unwrap().event().unwrap();
    let refused = Err(Invalid::Argument.into());
    assert_eq!(object.update_on(&mut event, At::Latest, b"d", Cond::NONE, put(b"v")), refused);
    assert_eq!(object.punch_on(&mut event, At::Latest, Cond::NONE), refused);
    assert_eq!(elsewhere.query_on(&mut event), refused);
    assert_eq!(Arc::new(elsewhere.begin().unwrap()).commit_on(&mut event), refused);
}
