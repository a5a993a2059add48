//! What a daemon has open for a client is what the client has: over the end of connections, and answers that come too late.

use crate::obedient::{CONT, Double, uuid};
use core::task::Poll;
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::wire::{PoolAccess, PoolName, SystemVerb};
use dolmen_codec::{Answer, Ask, Outcome, Request, Transport, Way, step};
use dolmen_net::client::{Door, Link};
use dolmen_types::{Error, Head, Result, Uuid};
use std::time::Duration;

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// How long a client waits that gives up.
const SHORT: Duration = Duration::from_millis(50);

const WAYS: [Way; 2] = [Way::Now, Way::Later];

fn connect(pool: &str) -> SystemVerb {
    SystemVerb::PoolConnect { name: PoolName::Uuid(uuid(pool)), access: PoolAccess::ReadWrite }
}

pub(crate) fn door(link: &Link, pool: &str) -> Door {
    Door::open(link, &Head::default(), connect(pool)).unwrap().0
}

/// Polls an operation until it has ended.
fn ended<T>(operation: impl Future<Output = T>) -> T {
    let mut operation = Box::pin(operation);
    loop {
        if let Poll::Ready(result) = step(&mut operation) {
            return result;
        }
        dolmen_env::yield_now();
    }
}

pub(crate) fn ask(verb: PoolVerb<'static>) -> Request<'static> {
    Request { token: 1, head: Head::default(), ask: Ask::Pool(verb) }
}

pub(crate) fn open_verb() -> PoolVerb<'static> {
    PoolVerb::ContOpen(ContName::Uuid(uuid("c")), OpenFor::Any)
}

/// Which pool it is that a door leads to.
pub(crate) fn pool_of(door: &Door) -> Result<Uuid> {
    match door.call(ask(PoolVerb::Query)).result? {
        Answer::Pool(PoolReply::Pool(info)) => Ok(info.map.pool),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn open_cont(door: &Door) -> Result<()> {
    door.call(ask(open_verb())).result.map(drop)
}

fn close_cont(door: &Door) -> Result<()> {
    door.call(ask(PoolVerb::ContClose(CONT))).result.map(drop)
}

/// Asks by a queue, and polls until that is answered.
pub(crate) fn queued(door: &Door, verb: PoolVerb<'static>) -> Result<()> {
    let (queue, mut done) = (door.open_queue().unwrap(), Vec::<Outcome>::new());
    door.submit(queue, ask(verb));
    while done.is_empty() {
        door.poll(queue, true, &mut done);
    }
    door.close_queue(queue);
    done.remove(0).result.map(drop)
}

/// That this is what the double has open, pool by pool with its handles.
fn assert_open(double: &Double, expected: &[(&str, u32)], what: &str) {
    let expected: Vec<_> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(double.open(), expected, "{what}");
}

#[test]
fn a_pool_that_is_left_after_a_restart_takes_no_other_with_it() {
    for way in WAYS {
        for left in 0..3 {
            let double = Double::start();
            let link = double.link(LONG);
            let names = ["pa", "pb", "pc"];
            let doors = names.map(|name| door(&link, name));
            double.restart();
            match way {
                Way::Now => dolmen_codec::now(doors[left].leave(way)),
                Way::Later => ended(doors[left].leave(way)),
            }
            let others = || (0..3).filter(|at| *at != left);
            for at in others() {
                assert_eq!(pool_of(&doors[at]), Ok(uuid(names[at])), "{way:?}, {left} was left");
            }
            let fourth = door(&link, "pd");
            assert_eq!(pool_of(&fourth), Ok(uuid("pd")));
            for at in others() {
                assert_eq!(pool_of(&doors[at]), Ok(uuid(names[at])), "{way:?}, {left} was left");
            }
            assert!(pool_of(&doors[left]).is_err());
            let open = double.open();
            assert_eq!(open.len(), 3, "{way:?}, {left} was left: {open:?}");
        }
    }
}

#[test]
fn a_pool_whose_answer_has_come_before_a_restart_is_that_pool_after_it() {
    let double = Double::start();
    let link = double.link(LONG);
    let first = door(&link, "pa");
    let head = Head::default();
    let mut second = Box::pin(Door::open_by(Way::Later, &link, &head, connect("pb")));
    assert!(step(&mut second).is_pending());
    double.until_asked("connect pb", 1);
    // Whoever asks takes in what has come before.
    assert_eq!(pool_of(&first), Ok(uuid("pa")));
    double.restart();
    assert_eq!(pool_of(&first), Ok(uuid("pa")));
    let third = door(&link, "pc");
    let (second, connected) = ended(second).unwrap();
    assert_eq!(connected.uuid, uuid("pb"));
    assert_eq!(pool_of(&second), Ok(uuid("pb")));
    assert_eq!(pool_of(&third), Ok(uuid("pc")));
    assert_eq!(open_cont(&second), Ok(()));
    assert_open(&double, &[("pa", 0), ("pb", 1), ("pc", 0)], "each once");
}

#[test]
fn a_pool_that_opens_slowly_keeps_nobody_from_the_others_and_is_open_when_it_can() {
    let double = Double::start();
    let link = double.link(LONG);
    let doors = ["pa", "pb", "pc"].map(|name| door(&link, name));
    assert_eq!((open_cont(&doors[1]), open_cont(&doors[2])), (Ok(()), Ok(())));
    double.restart();
    double.hold("connect pb");
    double.hold("open pc/c");
    assert_eq!(pool_of(&doors[0]), Ok(uuid("pa")), "it waits for none of the others");
    double.let_go();
    for (door, name) in doors.iter().zip(["pa", "pb", "pc"]) {
        assert_eq!(pool_of(door), Ok(uuid(name)));
    }
    // What has come too late is given back by whoever looks next.
    while double.open().len() > 3 {
        assert_eq!(pool_of(&doors[0]), Ok(uuid("pa")));
    }
    assert_open(&double, &[("pa", 0), ("pb", 1), ("pc", 1)], "each once");
    assert_eq!(double.asked("restart"), 1);
}

#[test]
fn a_handle_that_is_closed_while_its_pool_is_opened_again_is_closed() {
    let double = Double::start();
    let link = double.link(LONG);
    let (first, second) = (door(&link, "pa"), door(&link, "pb"));
    assert_eq!((open_cont(&second), open_cont(&second)), (Ok(()), Ok(())));
    double.restart();
    double.hold("connect pb");
    assert_eq!(pool_of(&first), Ok(uuid("pa")));
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(|| pool_of(&second));
        // At first, with the new connection, and by who asks for it.
        double.until_asked("connect pb", 3);
        assert_eq!(close_cont(&second), Ok(()), "nobody waits");
        double.let_go();
        assert_eq!(asking.join().unwrap(), Ok(uuid("pb")));
    });
    double.until_asked("close pb/c", 1);
    double.until_asked("leave pb", 1);
    assert_eq!(pool_of(&second), Ok(uuid("pb")));
    assert_open(&double, &[("pa", 0), ("pb", 1)], "one is left");
}

#[test]
fn a_pool_that_was_left_while_another_thread_connects_anew_is_given_back() {
    let double = Double::start();
    let link = double.link(LONG);
    let (first, second) = (door(&link, "pa"), door(&link, "pb"));
    assert_eq!(open_cont(&second), Ok(()));
    double.restart();
    double.hold("connect pa");
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(|| pool_of(&first));
        double.until_asked("connect pa", 2);
        dolmen_codec::now(second.leave(Way::Now));
        double.let_go();
        assert_eq!(asking.join().unwrap(), Ok(uuid("pa")));
    });
    double.until_asked("leave pb", 1);
    assert_open(&double, &[("pa", 0)], "it was left");
}

#[test]
fn a_pool_whose_answer_comes_too_late_is_given_back() {
    for way in WAYS {
        let double = Double::start();
        let link = double.link(SHORT);
        let first = door(&link, "pa");
        double.hold("connect pb");
        let head = Head::default();
        let opened = match way {
            Way::Now => Door::open(&link, &head, connect("pb")),
            Way::Later => ended(Door::open_by(way, &link, &head, connect("pb"))),
        };
        assert_eq!(opened.map(drop), Err(Error::Unreachable { rank: 0 }), "{way:?}");
        double.let_go();
        // It answers again, and what it has said before is heard first.
        while pool_of(&first).is_err() {
            dolmen_env::yield_now();
        }
        double.until_asked("leave pb", 1);
        assert_open(&double, &[("pa", 0)], "nobody has the other");
    }
}

#[test]
fn a_pool_that_nobody_waits_for_any_more_is_given_back_whether_its_answer_has_come_or_not() {
    for has_come in [true, false] {
        let double = Double::start();
        let link = double.link(LONG);
        let (first, head) = (door(&link, "pa"), Head::default());
        let mut second = Box::pin(Door::open_by(Way::Later, &link, &head, connect("pb")));
        if !has_come {
            double.hold("connect pb");
        }
        assert!(step(&mut second).is_pending());
        double.until_asked("connect pb", 1);
        assert_eq!(pool_of(&first), Ok(uuid("pa")));
        drop(second);
        double.let_go();
        assert_eq!(pool_of(&first), Ok(uuid("pa")));
        double.until_asked("leave pb", 1);
        assert_open(&double, &[("pa", 0)], "nobody has the other");
    }
}

#[test]
fn a_handle_whose_answer_comes_too_late_is_given_back() {
    for is_queued in [false, true] {
        let double = Double::start();
        let link = double.link(SHORT);
        let first = door(&link, "pa");
        assert_eq!(open_cont(&first), Ok(()));
        double.hold("open pa/c");
        let opened = if is_queued { queued(&first, open_verb()) } else { open_cont(&first) };
        assert_eq!(opened, Err(Error::Unreachable { rank: 0 }));
        assert_open(&double, &[("pa", 2)], "it was opened");
        double.let_go();
        while pool_of(&first).is_err() {
            dolmen_env::yield_now();
        }
        double.until_asked("close pa/c", 1);
        assert_open(&double, &[("pa", 1)], "nobody has the second one");
        double.restart();
        while pool_of(&first).is_err() {
            dolmen_env::yield_now();
        }
        assert_open(&double, &[("pa", 1)], "one was opened again");
    }
}

#[test]
fn a_handle_that_comes_for_a_queue_that_was_closed_is_given_back() {
    let double = Double::start();
    let link = double.link(LONG);
    let first = door(&link, "pa");
    double.hold("open pa/c");
    let queue = first.open_queue().unwrap();
    first.submit(queue, ask(open_verb()));
    first.poll(queue, false, &mut Vec::new());
    double.until_asked("open pa/c", 1);
    first.close_queue(queue);
    double.let_go();
    assert_eq!(pool_of(&first), Ok(uuid("pa")));
    double.until_asked("close pa/c", 1);
    assert_open(&double, &[("pa", 0)], "nobody has it");
}

#[test]
fn a_handle_that_is_closed_over_a_restart_takes_no_other_with_it() {
    for is_queued in [false, true] {
        let double = Double::start();
        let link = double.link(LONG);
        let first = door(&link, "pa");
        assert_eq!((open_cont(&first), open_cont(&first)), (Ok(()), Ok(())));
        double.hold("close pa/c");
        dolmen_env::scope(|threads| {
            let close =
                || if is_queued { queued(&first, PoolVerb::ContClose(CONT)) } else { close_cont(&first) };
            let closing = threads.spawn(close);
            double.until_asked("close pa/c", 1);
            double.restart();
            double.let_go();
            assert_eq!(pool_of(&first), Ok(uuid("pa")));
            assert_eq!(closing.join().unwrap(), Ok(()));
        });
        assert_eq!(pool_of(&first), Ok(uuid("pa")));
        assert_open(&double, &[("pa", 1)], "the other handle is open again");
    }
}
