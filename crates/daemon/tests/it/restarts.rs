//! Either side dies, or stands still: what was acknowledged is there, what was sent again was done once, and nobody waits
//! for longer than told.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, WAYS, Way, ended};
use crate::raw::Raw;
use crate::relay::Relay;
use dolmen_client::{At, Event, EventQueue, Object, Wait};
use dolmen_codec::Way::Later;
use dolmen_codec::pool::{ContName, OpenFor, PoolVerb};
use dolmen_codec::verb::{NewValue, Payload, Reply, Update, UpdateIod, Verb};
use dolmen_codec::wire::{PoolAccess, PoolName, PoolSpec, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_net::client::{Link, reach};
use dolmen_types::{
    Cond, Error, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Props, RequestId, TargetNo,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Deaths of a daemon in one test.
const DEATHS: u64 = 6;

/// Operations between two deaths.
const OPERATIONS: u64 = 150;

/// Values of all ways to be sent: within a frame, and beyond a ring.
fn value(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(31) { 1 << 20 } else { 10 + number % 5000 };
    (number..).map(|at| (at % 253).to_le_bytes()[0]).take(usize::try_from(len).unwrap()).collect()
}

fn single(bytes: &[u8]) -> UpdateIod<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(bytes)));
    UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }
}

/// Writes under a dkey that must not be there: a second time would fail.
fn insert(object: &Object, number: u64) -> dolmen_types::Result<()> {
    let dkey = number.to_le_bytes();
    object.update(At::Latest, &dkey, Cond::DKEY_INSERT, &[single(&value(number))]).map(|_| ())
}

fn assert_all_there(object: &Object, count: u64) {
    for number in 0..count {
        let mut buf = IoBuf::default();
        object.get(At::Latest, &number.to_le_bytes(), b"a", &mut buf).unwrap();
        assert!(buf[..] == value(number)[..], "number {number} of {count}");
    }
}

/// Kills or ends, and restarts the daemon whenever `done` has gone on by some operations.
fn kill_on(daemon: &ChildDaemon, done: &AtomicU64, is_over: &AtomicBool) {
    for death in 1..=DEATHS {
        until("the clients go on", || {
            done.load(Ordering::Relaxed) >= death * OPERATIONS || is_over.load(Ordering::Relaxed)
        });
        if death.is_multiple_of(2) {
            daemon.kill()
        } else {
            daemon.end()
        }
        daemon.start_again();
    }
}

#[test]
fn a_client_goes_on_over_the_death_of_its_daemon_and_nothing_is_done_twice() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let bystander = Bystander::first(daemon.link(way));
        let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut number = 0;
        dolmen_env::scope(|threads| {
            threads.spawn(|| {
                kill_on(&daemon, &done, &is_over);
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let inserted = insert(&bystander.object, number);
                if inserted.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!(inserted, Ok(()), "{way:?}: number {number}");
                number += 1;
                done.store(number, Ordering::Relaxed);
            }
        });
        assert!(number >= DEATHS * OPERATIONS);
        assert_all_there(&bystander.object, number);
        assert_eq!(insert(&bystander.object, 0), Err(Error::Exists), "conditions are looked at");
        assert_eq!(bystander.handle_count(), 1, "the handle was opened again");
        daemon.assert_sound();
    }
}

#[test]
fn what_was_opened_and_closed_by_polling_is_as_open_after_the_death_of_the_daemon() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let bystander = Bystander::first(daemon.link(way));
        let name = ContName::Label(Label::new(CONT).unwrap());
        let open = || ended(bystander.pool.open_container_for_by(Later, &name, OpenFor::Any)).unwrap();
        let (kept, given_up) = (open(), open());
        ended(given_up.close_by(Later)).unwrap();
        assert_eq!(bystander.handle_count(), 2);
        daemon.kill();
        daemon.start_again();
        assert_eq!(ended(kept.query_by(Later)).unwrap().handles, 2, "{way:?}");
        ended(kept.close_by(Later)).unwrap();
        assert_eq!(bystander.handle_count(), 1);
    }
}

#[test]
fn a_question_by_polling_to_a_daemon_that_died_ends_when_the_client_has_waited_enough() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let link = daemon.link_with(WAYS[0], Duration::from_millis(300));
    let bystander = Bystander::first(link.clone());
    daemon.kill();
    let unreachable = Err(Error::Unreachable { rank: 0 });
    assert_eq!(ended(bystander.cont.query_by(Later)).map(drop), unreachable);
    let asked = ended(link.ask_system_by(Later, &Head::default(), &SystemVerb::Ping));
    assert_eq!(asked.map(drop), unreachable);
    daemon.start_again();
    assert_eq!(ended(bystander.cont.query_by(Later)).unwrap().handles, 1, "it is back");
}

#[test]
fn who_has_a_pool_alone_keeps_others_from_it_until_he_leaves_or_dies() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let (own, other) = (daemon.link(WAYS[0]), daemon.link(WAYS[1]));
    drop(Bystander::first(own.clone()));
    let open = |link: &Link, access| {
        let name = PoolName::Label(Label::new(POOL).unwrap());
        reach::pool(link, &Head::default(), name, access)
    };
    let alone = open(&own, PoolAccess::Exclusive).unwrap();
    for access in [PoolAccess::ReadOnly, PoolAccess::ReadWrite, PoolAccess::Exclusive] {
        assert_eq!(open(&other, access).err(), Some(Error::Busy), "{access:?}");
    }
    drop(alone);
    let shared = open(&other, PoolAccess::ReadWrite).unwrap();
    assert_eq!(open(&own, PoolAccess::Exclusive).err(), Some(Error::Busy));
    drop(shared);
    let alone = open(&own, PoolAccess::Exclusive).unwrap();
    daemon.kill();
    daemon.start_again();
    let query = Request { token: 0, head: Head::default(), ask: Ask::Pool(PoolVerb::Query) };
    assert!(alone.call(query).result.is_ok(), "it is opened again");
    assert_eq!(open(&other, PoolAccess::ReadWrite).err(), Some(Error::Busy), "and is his alone still");
}

#[test]
fn who_has_a_container_alone_has_it_so_after_the_death_of_the_daemon() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let (own, other) = (Bystander::first(daemon.link(way)), Bystander::of(&daemon.link(WAYS[0])));
        let name = ContName::Label(Label::new("alone").unwrap());
        own.pool.create_container(Some(Label::new("alone").unwrap()), Props::default()).unwrap();
        let alone = own.pool.open_container_for(&name, OpenFor::Alone(7)).unwrap();
        let joined = other.pool.open_container_for(&name, OpenFor::Joining(7)).unwrap();
        let assert_alone = || {
            for wanted in [OpenFor::Any, OpenFor::Change, OpenFor::Alone(8), OpenFor::Joining(8)] {
                let opened = other.pool.open_container_for(&name, wanted);
                assert_eq!(opened.map(drop).unwrap_err(), Error::Busy, "{way:?} {wanted:?}");
            }
        };
        assert_alone();
        daemon.kill();
        daemon.start_again();
        // Whoever comes first.
        assert_eq!(joined.query().unwrap().cont.no, alone.no());
        assert_eq!(alone.query().unwrap().handles, 2, "{way:?}");
        assert_alone();
        joined.close().unwrap();
        daemon.kill();
        daemon.start_again();
        assert_eq!(alone.query().unwrap().handles, 1, "{way:?}");
        assert_alone();
        alone.close().unwrap();
        other.pool.open_container(&name).unwrap();
    }
}

/// Keeps so many inserts under way on one queue until told to stop; returns how many there were.
fn insert_in_flight(
    queue: &EventQueue,
    object: &Object,
    events: &mut [Event],
    done: &AtomicU64,
    is_over: &AtomicBool,
) -> u64 {
    let (mut number, mut finished) = (0, Vec::new());
    let mut launch = |event: &mut Event| {
        object
            .update_on(
                event,
                At::Latest,
                &u64::to_le_bytes(number),
                Cond::DKEY_INSERT,
                vec![single(&value(number))],
            )
            .unwrap();
        number += 1;
    };
    events.iter_mut().for_each(&mut launch);
    loop {
        queue.poll(Wait::Forever, 64, &mut finished).unwrap();
        for id in finished.drain(..) {
            let event = events.iter_mut().find(|event| event.id() == id).unwrap();
            let result = event.take_result().unwrap();
            if result.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            result.unwrap();
            done.fetch_add(1, Ordering::Relaxed);
            if !is_over.load(Ordering::Relaxed) {
                launch(event);
            }
        }
        if queue.running() == 0 {
            return number;
        }
    }
}

#[test]
fn events_in_flight_go_on_over_the_death_of_their_daemon_and_nothing_is_done_twice() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let bystander = Bystander::first(daemon.link(way));
        let object = &bystander.object;
        let queue = EventQueue::new(&bystander.pool).unwrap();
        let mut events: Vec<_> = (0..64).map(|_| queue.event().unwrap()).collect();
        let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut count = 0;
        dolmen_env::scope(|threads| {
            threads.spawn(|| {
                kill_on(&daemon, &done, &is_over);
                is_over.store(true, Ordering::Relaxed);
            });
            count = insert_in_flight(&queue, object, &mut events, &done, &is_over);
        });
        assert_eq!(done.load(Ordering::Relaxed), count, "{way:?}");
        assert_all_there(object, count);
        daemon.assert_sound();
    }
}

/// How long a client of a daemon that is gone waits.
const PATIENCE: Duration = Duration::from_millis(700);

/// That `call` is given up in time.
fn assert_given_up<T: core::fmt::Debug>(what: &str, call: impl FnOnce() -> dolmen_types::Result<T>) {
    let begun_ns = RealClock.monotonic_ns();
    let result = call();
    assert_eq!(result.unwrap_err(), Error::Unreachable { rank: 0 }, "{what}");
    let taken = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
    assert!(taken <= PATIENCE + Duration::from_secs(1), "{what}: {taken:?}");
}

/// Everything that a client may wait for ends in time.
fn assert_all_given_up(bystander: &Bystander, queue: &EventQueue) {
    let object = &bystander.object;
    let mut buf = IoBuf::default();
    assert_given_up("a write", || object.put(At::Latest, b"k", b"a", b"v"));
    assert_given_up("a write beyond the ring", || object.put(At::Latest, b"k", b"a", &vec![1; 6 << 20]));
    assert_given_up("a read", || object.get(At::Latest, b"k", b"a", &mut buf));
    assert_given_up("the service", || bystander.cont.query());
    for wait in [Wait::Forever, Wait::No] {
        let mut events: Vec<_> = (0..64).map(|_| queue.event().unwrap()).collect();
        let begun_ns = RealClock.monotonic_ns();
        for (at, event) in (0..).zip(&mut events) {
            let iods = vec![single(&value(at * 31))];
            object.update_on(event, At::Latest, &u64::to_le_bytes(at), Cond::NONE, iods).unwrap();
        }
        let mut done = Vec::new();
        while queue.running() > 0 {
            queue.poll(wait, 64, &mut done).unwrap();
        }
        let taken = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
        assert!(taken <= PATIENCE + Duration::from_secs(2), "{wait:?}: {taken:?}");
        for event in &mut events {
            assert!(matches!(event.take_result(), Some(Err(Error::Unreachable { rank: 0 }))), "{wait:?}");
        }
    }
}

#[test]
fn a_daemon_that_is_gone_is_unreachable_within_the_patience_of_its_client() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let mut bystander = Bystander::first(daemon.link_with(way, PATIENCE));
        let queue = EventQueue::new(&bystander.pool).unwrap();
        bystander.goes_on();
        daemon.kill();
        assert_all_given_up(&bystander, &queue);
        daemon.start_again();
        bystander.goes_on();
        daemon.assert_sound();
    }
}

#[test]
fn a_daemon_serves_right_after_the_former_was_killed() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    for number in 0..10 {
        insert(&bystander.object, number).unwrap();
        daemon.replace();
        // A newcomer, at each of its addresses.
        for way in WAYS {
            let newcomer = Bystander::of(&daemon.link(way));
            assert_all_there(&newcomer.object, number + 1);
        }
    }
    daemon.assert_sound();
}

#[test]
fn a_pool_that_cannot_be_opened_again_keeps_nobody_from_the_others_and_is_open_when_it_can() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let link = daemon.link(way);
        let free = Bystander::first(link.clone());
        crate::common::create(&link, "held");
        let held = crate::common::pool(&link, "held");
        let made = held.create_container(Some(Label::new("c").unwrap()), Props::default()).unwrap();
        let cont = held.open_container(&ContName::Uuid(made.uuid)).unwrap();
        let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
        let object = cont.object(oid).unwrap();
        insert(&object, 0).unwrap();
        daemon.kill();
        // Somebody has it in a process of his own: the daemon says that it is busy.
        let owner =
            dolmen_local::open(&dir.path().join("held"), &dolmen_local::OpenOptions::default()).unwrap();
        daemon.start_again();
        dolmen_env::scope(|threads| {
            let waiting = threads.spawn(|| insert(&object, 1));
            let queued = threads.spawn(|| {
                let queue = EventQueue::new(&held).unwrap();
                let mut event = queue.event().unwrap();
                let iods = vec![single(b"queued")];
                object.update_on(&mut event, At::Latest, b"queued", Cond::NONE, iods).unwrap();
                let mut done = Vec::new();
                queue.poll(Wait::Forever, 1, &mut done).unwrap();
                event.take_result().unwrap().map(drop)
            });
            for number in 0..10 {
                assert_eq!(insert(&free.object, number), Ok(()), "{way:?}");
                assert!(!waiting.is_finished() && !queued.is_finished(), "{way:?}: it is not open yet");
            }
            drop(owner);
            assert_eq!(waiting.join().unwrap(), Ok(()), "{way:?}");
            assert_eq!(queued.join().unwrap(), Ok(()), "{way:?}");
        });
        assert_all_there(&object, 2);
        assert_eq!(cont.query().unwrap().handles, 1, "its handle was opened again, once");
        assert_eq!(cont.close(), Ok(()));
        daemon.assert_sound();
    }
}

/// Requests to a dead engine; if each waited, they would take minutes.
const IN_VAIN: u64 = 200;

#[test]
fn who_has_waited_once_for_a_dead_engine_fails_at_once_until_it_is_back() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let mut bystander = Bystander::first(daemon.link_with(way, PATIENCE));
        let queue = EventQueue::new(&bystander.pool).unwrap();
        until("it goes on", || bystander.try_to_go_on().is_ok());
        daemon.kill();
        assert_given_up("the first", || bystander.cont.query());
        let begun_ns = RealClock.monotonic_ns();
        for number in 0..IN_VAIN {
            let written = bystander.object.put(At::Latest, &number.to_le_bytes(), b"a", b"v");
            assert_eq!(written, Err(Error::Unreachable { rank: 0 }));
            assert_eq!(bystander.cont.query().err(), Some(Error::Unreachable { rank: 0 }));
            let mut event = queue.event().unwrap();
            let iods = vec![single(&value(number))];
            bystander
                .object
                .update_on(&mut event, At::Latest, &number.to_le_bytes(), Cond::NONE, iods)
                .unwrap();
            let mut done = Vec::new();
            let wait = if number % 2 == 0 { Wait::Forever } else { Wait::No };
            while queue.running() > 0 {
                queue.poll(wait, 64, &mut done).unwrap();
            }
            assert!(matches!(event.take_result(), Some(Err(Error::Unreachable { rank: 0 }))));
        }
        let taken = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
        assert!(taken < Duration::from_secs(30), "{way:?}: {taken:?}");
        daemon.start_again();
        until("it goes on again", || bystander.try_to_go_on().is_ok());
        daemon.assert_sound();
    }
}

#[test]
fn a_daemon_that_stands_still_is_unreachable_and_its_late_answers_do_no_harm() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let mut bystander = Bystander::first(daemon.link_with(way, PATIENCE));
        let queue = EventQueue::new(&bystander.pool).unwrap();
        bystander.goes_on();
        daemon.stop();
        assert_all_given_up(&bystander, &queue);
        daemon.signal(Signal::CONT);
        until("it answers again", || bystander.cont.query().is_ok());
        // What it had been sent before comes first, and may take longer than this client waits.
        let went_on = (0..40).filter(|_| bystander.try_to_go_on().is_ok()).count();
        assert!(went_on >= 20, "{way:?}: {went_on} of 40");
        daemon.assert_sound();
    }
}

/// Attempts at an engine that stands still.
const ATTEMPTS: u32 = 50;

#[test]
fn who_has_waited_once_for_a_daemon_that_stands_still_fails_at_once_until_it_answers() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let mut bystander = Bystander::first(daemon.link_with(way, PATIENCE));
        let queue = EventQueue::new(&bystander.pool).unwrap();
        bystander.goes_on();
        daemon.stop();
        assert_given_up("the first", || bystander.object.put(At::Latest, b"k", b"a", b"v"));
        let begun_ns = RealClock.monotonic_ns();
        for at in 0..ATTEMPTS {
            let put = bystander.object.put(At::Latest, b"k", b"a", b"v");
            assert_eq!(put, Err(Error::Unreachable { rank: 0 }), "attempt {at}");
            assert!(bystander.cont.query().is_err(), "attempt {at}");
            let mut event = queue.event().unwrap();
            bystander.object.update_on(&mut event, At::Latest, b"k", Cond::NONE, vec![single(b"v")]).unwrap();
            let mut done = Vec::new();
            while queue.running() > 0 {
                queue.poll(Wait::Forever, 1, &mut done).unwrap();
            }
            assert!(matches!(event.take_result(), Some(Err(Error::Unreachable { rank: 0 }))), "attempt {at}");
        }
        let taken = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
        assert!(taken < PATIENCE * ATTEMPTS / 2, "{way:?}: each waits: {taken:?}");
        daemon.signal(Signal::CONT);
        until("it answers again", || bystander.cont.query().is_ok());
        bystander.goes_on();
        daemon.assert_sound();
    }
}

const CLIENT_NAME: &str = "restarts::a_client_that_is_killed_leaves_nothing_behind";
/// Set for the child: the directory of the daemon, and how it reaches that.
const CLIENT_DIRECTORY: &str = "CLIENT_DIRECTORY";
const CLIENT_RINGS: &str = "CLIENT_RINGS";

/// The child: writes with many events under way until it is killed.
fn write_for_ever(dir: &Path, ring_bytes: usize) {
    let address = dolmen_env::Address::Unix(dir.join(dolmen_daemon::Settings::SOCKET_NAME));
    let options =
        dolmen_net::client::LinkOptions { ring_bytes, ..dolmen_net::client::LinkOptions::default() };
    let link = dolmen_net::client::Link::connect(&address, &options).unwrap();
    let bystander = Bystander::of(&link);
    let queue = EventQueue::new(&bystander.pool).unwrap();
    let mut events: Vec<_> = (0..32).map(|_| queue.event().unwrap()).collect();
    let put = |event: &mut Event, number: u64| {
        let iods = vec![single(&value(number))];
        bystander.object.update_on(event, At::Latest, b"killed", Cond::NONE, iods).unwrap();
    };
    events.iter_mut().for_each(|event| put(event, 0));
    let mut finished = Vec::new();
    for number in 1.. {
        queue.poll(Wait::Forever, 8, &mut finished).unwrap();
        for id in finished.drain(..) {
            put(events.iter_mut().find(|event| event.id() == id).unwrap(), number);
        }
        eprintln!("round {number}");
    }
}

fn writing_client(dir: &Path, ring_bytes: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CLIENT_NAME, "--exact", "--nocapture"]);
    command.env(CLIENT_DIRECTORY, dir).env(CLIENT_RINGS, ring_bytes.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_client_that_is_killed_leaves_nothing_behind() {
    if let (Some(dir), Ok(rings)) = (std::env::var_os(CLIENT_DIRECTORY), std::env::var(CLIENT_RINGS)) {
        return write_for_ever(Path::new(&dir), rings.parse().unwrap());
    }
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    bystander.goes_on();
    let (descriptors, rings) = (daemon.descriptor_count(), daemon.ring_count());
    for (ring_bytes, lines) in [(1 << 18, 1), (0, 1), (1 << 14, 40), (1 << 20, 17), (0, 30)] {
        let mut client = writing_client(dir.path(), ring_bytes);
        // Kept open until it is dead: it would end by itself.
        let mut said = BufReader::new(client.stderr.take().unwrap()).lines();
        let is_round =
            |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| line.starts_with("round"));
        let heard = said.by_ref().filter(is_round).take(lines).count();
        assert_eq!(heard, lines);
        assert_eq!(bystander.handle_count(), 2);
        client.kill().unwrap();
        client.wait().unwrap();
        until("its handle is given back", || bystander.handle_count() == 1);
        until("its connection is gone", || daemon.descriptor_count() == descriptors);
        until("its memory is gone", || daemon.ring_count() == rings);
        bystander.goes_on();
    }
    let other = bystander.pool.create_container(None, Props::default());
    assert!(other.is_ok(), "{other:?}");
    daemon.assert_sound();
}

#[test]
fn a_change_of_the_service_whose_answer_is_lost_is_made_once() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    for (round, dies) in [(1, false), (2, true)] {
        let text = format!("made-{round}");
        let label = Some(Label::new(&text).unwrap());
        let (uuid, props) = (dolmen_types::Uuid::from_u128(round), Props::default());
        let create = Ask::Pool(PoolVerb::ContCreate { uuid, label, props });
        let snapshot = Ask::Pool(PoolVerb::SnapCreate(bystander.cont.no(), Some(text.clone())));
        let mut raw = Raw::connect(&daemon, Way::Rings);
        let slot = raw.open(POOL, CONT).slot;
        let frames = [raw.frame(1, slot, &create), raw.frame(2, slot, &snapshot)].concat();
        raw.send(&frames);
        until("both are made", || {
            bystander.cont.snapshots().unwrap().iter().any(|snapshot| snapshot.name.as_ref() == Some(&text))
                && bystander.pool.containers().unwrap().iter().any(|cont| cont.uuid == uuid)
        });
        drop(raw);
        if dies {
            daemon.kill();
            daemon.start_again();
        }
        let mut raw = Raw::connect(&daemon, Way::Rings);
        assert_eq!(raw.open(POOL, CONT).slot, slot);
        raw.send(&frames);
        for _ in 0..2 {
            let (token, answer, _) = raw.answer();
            assert!(answer.is_ok(), "round {round}, token {token}: {answer:?}");
        }
    }
    assert_eq!(bystander.cont.snapshots().unwrap().len(), 2);
    daemon.assert_sound();
}

#[test]
fn the_end_of_a_frame_that_found_no_room_is_sent_when_there_is() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link_with(Way::Socket, Duration::from_secs(5)));
    // Some of these end just where the socket's buffer does.
    for len in (100_000..300_000).step_by(5_000) {
        daemon.stop();
        dolmen_env::scope(|threads| {
            threads.spawn(|| {
                dolmen_env::wait(Duration::from_millis(50));
                daemon.signal(Signal::CONT);
            });
            let put = bystander.object.put(At::Latest, b"k", b"a", &vec![5; len]);
            assert!(put.is_ok(), "{len} bytes: {put:?}");
        });
    }
    daemon.assert_sound();
}

/// Asks through a relay that loses the answer; then the daemon dies and is started again.
fn over_a_lost_answer<T: Send>(daemon: &ChildDaemon, relay: &Relay, ask: impl FnOnce() -> T + Send) -> T {
    relay.lose_an_answer();
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(ask);
        until("the answer is lost", || relay.has_lost());
        daemon.kill();
        daemon.start_again();
        asking.join().unwrap()
    })
}

#[test]
fn reads_that_are_under_way_at_once_are_answered_over_a_restart() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    for n in 0..600_u16 {
        bystander.object.put(At::Latest, &n.to_le_bytes(), b"a", &(n + 7).to_le_bytes()).unwrap();
    }
    let relay = Relay::start(daemon.address(Way::Socket), dir.path());
    let options = dolmen_net::client::LinkOptions { ring_bytes: 0, ..Default::default() };
    let link = dolmen_net::client::Link::connect(&relay.address(), &options).unwrap();
    let reader = Bystander::of(&link);
    let read = async |n: u16| {
        let mut buf = dolmen_types::IoBuf::default();
        reader.object.get_by(Later, At::Latest, &n.to_le_bytes(), b"a", &mut buf).await.unwrap();
        buf.to_vec()
    };
    let values = over_a_lost_answer(&daemon, &relay, || {
        reader.cont.together(dolmen_client::side_by_side((0..600).map(read)))
    });
    assert!(values.into_iter().eq((0..600_u16).map(|n| (n + 7).to_le_bytes().to_vec())));
}

#[test]
fn what_was_made_or_removed_before_the_answer_was_lost_is_answered_so_after_a_restart() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    let relay = Relay::start(daemon.address(Way::Socket), dir.path());
    // Rings do not go through a relay.
    let options = dolmen_net::client::LinkOptions { ring_bytes: 0, ..Default::default() };
    let link = dolmen_net::client::Link::connect(&relay.address(), &options).unwrap();
    let pool = crate::common::pool(&link, POOL);
    let cont = pool.open_container(&ContName::Uuid(bystander.cont.uuid())).unwrap();
    let other = pool.create_container(Some(Label::new("other").unwrap()), Props::default()).unwrap();
    let snapshot = cont.create_snapshot(None).unwrap();
    cont.set_attrs(&[("name".to_owned(), b"value".to_vec())]).unwrap();
    let ask = |what: &str, done: dolmen_types::Result<()>| assert_eq!(done, Ok(()), "{what}");
    ask("a snapshot", over_a_lost_answer(&daemon, &relay, || cont.destroy_snapshot(snapshot)));
    ask("an attribute", over_a_lost_answer(&daemon, &relay, || cont.remove_attrs(&["name".to_owned()])));
    let by_uuid = ContName::Uuid(other.uuid);
    ask("a container", over_a_lost_answer(&daemon, &relay, || pool.destroy_container(&by_uuid, false)));
    // Without a lost answer it is as ever.
    assert_eq!(pool.destroy_container(&by_uuid, false), Err(Error::NotFound));
    let spec = PoolSpec {
        uuid: Some(dolmen_types::Uuid::from_u128(77)),
        label: Some(Label::new("second").unwrap()),
        targets: Some(1),
        volatile: true,
        ..PoolSpec::default()
    };
    let head = dolmen_types::Head::default();
    let create = SystemVerb::PoolCreate(spec);
    let made = over_a_lost_answer(&daemon, &relay, || link.ask_system(&head, &create));
    assert!(matches!(made, Ok(SystemReply::Created(entry)) if entry.uuid.as_u128() == 77));
    let name = PoolName::Label(Label::new("second").unwrap());
    let destroy = SystemVerb::PoolDestroy { name, force: false };
    let gone = over_a_lost_answer(&daemon, &relay, || link.ask_system(&head, &destroy));
    assert_eq!(gone, Ok(SystemReply::Done));
    assert_eq!(link.ask_system(&head, &destroy), Err(Error::NotFound));
    daemon.assert_sound();
}

#[test]
fn a_label_that_is_anothers_when_its_destruction_is_asked_for_again_stays_his() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    let relay = Relay::start(daemon.address(Way::Socket), dir.path());
    let options = dolmen_net::client::LinkOptions { ring_bytes: 0, ..Default::default() };
    let link = dolmen_net::client::Link::connect(&relay.address(), &options).unwrap();
    let pool = crate::common::pool(&link, POOL);
    let label = Label::new("other").unwrap();
    pool.create_container(Some(label.clone()), Props::default()).unwrap();
    let name = ContName::Label(label.clone());
    // The first answer says which container that is.
    relay.lose_answer_after(1);
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(|| pool.destroy_container(&name, false));
        until("the answer is lost", || relay.has_lost());
        relay.close(true);
        daemon.kill();
        daemon.start_again();
        bystander.pool.create_container(Some(label), Props::default()).unwrap();
        relay.close(false);
        assert_eq!(asking.join().unwrap(), Ok(()));
    });
    assert!(bystander.pool.open_container(&name).is_ok(), "it is not the one that was to be destroyed");
    daemon.assert_sound();
}

#[test]
fn a_request_is_known_again_after_a_daemon_that_nobody_was_connected_to() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    let remote = Arc::new(crate::common::remote(&daemon.link(Way::Rings), POOL).unwrap());
    let pool = dolmen_client::Pool::connect(Arc::clone(&remote) as _, crate::common::CRED).unwrap();
    let cont = pool.open_container(&ContName::Uuid(bystander.cont.uuid())).unwrap();
    let head = Head { id: RequestId { client: 7, sequence: 1 }, oldest: 1, ..Head::default() };
    let insert = |head| {
        let (oid, dkey) = (crate::raw::oid(), Key::from_slice(b"k"));
        let iods = [single(b"value")].into_iter().collect();
        let update = Verb::Update(Update { oid, dkey, cond: Cond::DKEY_INSERT, iods, charged: None });
        remote.call(Request { token: 0, head, ask: Ask::Target(TargetNo(0), cont.no(), update) }).result
    };
    let first = insert(head);
    assert!(matches!(first, Ok(Answer::Target(Reply::Written(_)))), "{first:?}");
    daemon.kill();
    daemon.start_again();
    // Whoever waits for an answer may be on the way still.
    daemon.end();
    daemon.start_again();
    assert_eq!(format!("{:?}", insert(head)), format!("{first:?}"));
    let another = Head { id: RequestId { sequence: 2, ..head.id }, ..head };
    assert_eq!(insert(another).unwrap_err(), Error::Exists, "conditions are looked at");
}

#[test]
fn who_gives_up_what_a_dead_daemon_had_waits_for_nobody() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        drop(Bystander::first(daemon.link(way)));
        let bystander = Bystander::of(&daemon.link_with(way, Duration::from_secs(1)));
        // Longer than anybody waits for a test.
        let link = daemon.link_with(way, Duration::from_secs(86_400));
        let pool = crate::common::pool(&link, POOL);
        let uuid = bystander.cont.uuid();
        let open = || pool.open_container(&ContName::Uuid(uuid)).unwrap();
        let (first, second) = (open(), open());
        daemon.kill();
        assert_eq!(first.close(), Ok(()), "{way:?}");
        drop(second);
        drop(pool);
        drop(link);
        assert_eq!(bystander.cont.query().map(|_| ()), Err(Error::Unreachable { rank: 0 }));
    }
}

#[test]
fn a_pool_in_use_is_kept_and_one_made_anew_under_its_name_is_another() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let old = Bystander::first(daemon.link(Way::Rings));
    let head = dolmen_types::Head::default();
    let name = PoolName::Label(Label::new(POOL).unwrap());
    let destroy = SystemVerb::PoolDestroy { name: name.clone(), force: false };
    assert_eq!(daemon.link(Way::Socket).ask_system(&head, &destroy), Err(Error::Busy));
    // And newcomers are let in as before.
    assert!(crate::common::remote(&daemon.link(Way::Socket), POOL).is_ok());
    daemon.kill();
    std::fs::remove_dir_all(dir.path().join(POOL)).unwrap();
    daemon.start_again();
    let new = Bystander::first(daemon.link(Way::Rings));
    new.object.put(At::Latest, b"key", b"a", b"new").unwrap();
    let refused = old.object.put(At::Latest, b"key", b"a", b"old");
    assert!(refused.is_err(), "the old pool is gone: {refused:?}");
    let mut buf = IoBuf::default();
    new.object.get(At::Latest, b"key", b"a", &mut buf).unwrap();
    assert_eq!(&buf[..], b"new");
    daemon.assert_sound();
}
