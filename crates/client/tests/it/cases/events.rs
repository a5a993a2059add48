//! Asynchronous operations.

use super::common::open;
use super::objects::object;
use dolmen_client::{
    At, Cond, Error, EventQueue, FetchIod, Invalid, IoBuf, Key, NewValue, ObjectType, Output, Payload, Recx,
    UpdateIod, Wait, Want,
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
