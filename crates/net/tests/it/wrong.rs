//! Whatever a daemon answers, its client goes on: with the next connection, if this one is of no use.

use crate::given_back::{LONG, ask, door, open_cont, pool_of, queued};
use crate::obedient::{CONT, Double, Spite, VALUE, uuid};
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::{Fetch, FetchIod, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb, Want};
use dolmen_codec::{Answer, Ask, Outcome, Request, Transport};
use dolmen_net::client::Door;
use dolmen_types::{Cond, Epoch, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Result, TargetNo};

/// More than any socket takes at once.
const LARGE: usize = 16 << 20;

fn oid() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5)
}

fn update() -> Request<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::zeroed(LARGE)));
    let iods = [UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }].into_iter().collect();
    let update = Update { oid: oid(), dkey: Key::from_slice(b"d"), cond: Cond::NONE, iods, charged: None };
    Request { token: 1, head: Head::default(), ask: Ask::Target(TargetNo(0), CONT, Verb::Update(update)) }
}

fn fetch() -> Request<'static> {
    let want = Want::Single { room_bytes: VALUE.len() };
    let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
    let (dkey, buf) = (Key::from_slice(b"d"), IoBuf::zeroed(VALUE.len()));
    let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    Request { token: 1, head: Head::default(), ask: Ask::Target(TargetNo(0), CONT, Verb::Fetch(fetch)) }
}

/// Asks in the call, or by a queue.
fn asked(door: &Door, is_queued: bool, request: Request<'static>) -> Outcome {
    if !is_queued {
        return door.call(request);
    }
    let (queue, mut done) = (door.open_queue().unwrap(), Vec::new());
    door.submit(queue, request);
    while done.is_empty() {
        door.poll(queue, true, &mut done);
    }
    door.close_queue(queue);
    done.remove(0)
}

#[test]
fn an_answer_before_its_question_was_sent_ends_the_connection_and_the_question_is_asked_again() {
    for is_queued in [false, true] {
        let double = Double::start();
        let first = door(&double.link(LONG), "pa");
        double.spite(Spite::Early);
        let written = asked(&first, is_queued, update()).result;
        assert!(matches!(written, Ok(Answer::Target(Reply::Written(Epoch(1))))), "{written:?}");
        assert_eq!((double.asked("connect pa"), double.asked("update pa")), (2, 1), "{is_queued}");
        assert_eq!(pool_of(&first), Ok(uuid("pa")));
    }
}

#[test]
fn a_second_answer_does_no_harm_whoever_has_asked() {
    let double = Double::start();
    let link = double.link(LONG);
    let first = door(&link, "pa");
    double.spite(Spite::Twice);
    assert_eq!(pool_of(&first), Ok(uuid("pa")), "a call");
    double.spite(Spite::Twice);
    assert_eq!(queued(&first, PoolVerb::Query), Ok(()), "a queue");
    double.spite(Spite::Twice);
    let second = door(&link, "pb");
    double.spite(Spite::Twice);
    assert_eq!(open_cont(&second), Ok(()), "a container");
    assert_eq!(pool_of(&first), Ok(uuid("pa")));
    assert_eq!(pool_of(&second), Ok(uuid("pb")));
    assert_eq!(double.open(), [("pa".to_owned(), 0), ("pb".to_owned(), 1)]);
    assert_eq!(first.call(ask(PoolVerb::Query)).token, 1);
}

#[test]
fn payload_of_a_wrong_length_takes_no_buffer_from_its_question_which_is_asked_again() -> Result<()> {
    for is_queued in [false, true] {
        let double = Double::start();
        let first = door(&double.link(LONG), "pa");
        double.spite(Spite::Short);
        let Outcome { result, buf, .. } = asked(&first, is_queued, fetch());
        result?;
        assert_eq!(buf.as_deref(), Some(VALUE), "{is_queued}");
        assert_eq!((double.asked("connect pa"), double.asked("fetch pa")), (2, 2));
    }
    Ok(())
}
