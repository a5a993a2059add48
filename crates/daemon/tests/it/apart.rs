//! What is asked while an engine stands still: no launch and no look waits for it, nor who does not need it.

use crate::child::until;
use crate::common::{CRED, pool};
use crate::parted::{all_are, read, written};
use crate::ranks::{Engines, spread_object};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use dolmen_client::{At, Container, Event, EventId, EventQueue, Object, Pool, Wait};
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{NewValue, Payload, UpdateIod};
use dolmen_codec::wire::{PoolAccess, PoolSpec, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Request, Transport, Way, step};
use dolmen_env::{Clock, RealClock};
use dolmen_local::PoolOptions;
use dolmen_net::client::{Door, Link, reach};
use dolmen_types::{Cond, Error, Head, IoBuf, Key, Label, Props, Result, Uuid};
use rustix::process::Signal;

/// What does not wait takes far less; one look that waits for an engine took 1 s, or its client's patience, which is 30 s.
const LOOKS_NS: u64 = 8_000_000_000;

/// Looks at an engine that stands still; each at a moment of its own.
const LOOKS: u32 = 60;

/// Between two of them: a while after which a client looks again for an engine that is gone.
const PAUSE: Duration = Duration::from_millis(15);

/// Looks so often, none of which may wait.
fn looks<T>(mut look: impl FnMut() -> Poll<T>) -> Poll<T> {
    let mut took_ns = 0;
    for _ in 0..LOOKS {
        let begun_ns = RealClock.monotonic_ns();
        let looked = look();
        took_ns += RealClock.monotonic_ns() - begun_ns;
        assert!(took_ns < LOOKS_NS, "looks have waited");
        if looked.is_ready() {
            return looked;
        }
        dolmen_env::wait(PAUSE);
    }
    Poll::Pending
}

fn ended<F: Future + Unpin>(operation: &mut F) -> F::Output {
    loop {
        if let Poll::Ready(result) = looks(|| step(operation)) {
            return result;
        }
    }
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn named(text: &str) -> ContName {
    ContName::Label(label(text))
}

fn made(pool: &Pool, text: &str) -> ContName {
    pool.create_container(Some(label(text)), Props::new()).unwrap();
    named(text)
}

/// Launches an update of each dkey.
fn launch(queue: &EventQueue, object: &Object, count: u32) -> Vec<Event> {
    let one = |dkey: u32| {
        let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(b"value")));
        let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
        let mut event = queue.event().unwrap();
        object.update_on(&mut event, At::Latest, &dkey.to_le_bytes(), Cond::NONE, vec![iod]).unwrap();
        event
    };
    (0..count).map(one).collect()
}

/// Looks without waiting for those that are done.
fn none_or_some(queue: &EventQueue, done: &mut Vec<EventId>, wanted: usize) -> Poll<()> {
    queue.poll(Wait::No, 64, done).unwrap();
    if done.len() < wanted { Poll::Pending } else { Poll::Ready(()) }
}

#[test]
fn containers_are_opened_and_closed_on_events_while_another_engine_stands_still() {
    let engines = Engines::start(2);
    engines.create(true);
    let pool = pool(&engines.link(0), "p");
    let name = made(&pool, "c");
    pool.open_container(&name).unwrap().close().unwrap();
    engines.stand_still(1);
    let mut opening = pin!(pool.open_container_for_by(Way::Later, &name, OpenFor::Any));
    let mut twice = pin!(pool.open_container_for_by(Way::Later, &name, OpenFor::Any));
    assert!(looks(|| step(&mut opening)).is_pending(), "it is not open at the other engine");
    assert!(looks(|| step(&mut twice)).is_pending(), "nor is it by another handle's opening");
    engines.signal(1, Signal::CONT);
    // Whoever has it open uses it at all engines, at once.
    let again: Container = ended(&mut twice).unwrap();
    assert!(all_are(&written(&spread_object(&again)), &Ok(())));
    let cont: Container = ended(&mut opening).unwrap();
    let object = spread_object(&cont);
    assert!(all_are(&written(&object), &Ok(())));
    engines.stand_still(1);
    let (mut first, mut second) = (pin!(cont.close_by(Way::Later)), pin!(again.close_by(Way::Later)));
    assert_eq!(ended(&mut first), Ok(()), "the engine with the service has closed it");
    assert_eq!(ended(&mut second), Ok(()));
    engines.signal(1, Signal::CONT);
    // Nobody has it open anywhere.
    assert!(all_are(&written(&object), &Err(Error::NoHandle)));
    assert_eq!(pool.destroy_container(&name, false), Ok(()));
    engines.assert_sound();
}

#[test]
fn a_container_that_is_opened_while_another_engine_stands_still_for_long_is_opened_there_when_it_is_used() {
    let engines = Engines::start(2);
    engines.create(true);
    let patience = Duration::from_secs(2);
    let pool = pool(&engines.link_to(0, patience), "p");
    let [name, other] = ["c", "other"].map(|text| made(&pool, text));
    engines.stand_still(1);
    let begun_ns = RealClock.monotonic_ns();
    let mut opening = pin!(pool.open_container_for_by(Way::Later, &name, OpenFor::Any));
    let cont: Container = ended(&mut opening).unwrap();
    assert!(RealClock.monotonic_ns() - begun_ns >= 2_000_000_000, "its client has waited");
    let object = spread_object(&cont);
    let all = written(&object);
    assert!(all.contains(&Ok(())) && all.contains(&Err(Error::Unreachable { rank: 1 })), "{all:?}");
    engines.signal(1, Signal::CONT);
    until("it is used at both", || all_are(&written(&object), &Ok(())));
    // So is one that is opened while it is away, by a call.
    engines.kill(1);
    let other = spread_object(&pool.open_container(&other).unwrap());
    engines.start_again(1);
    until("so is the other", || all_are(&written(&other), &Ok(())));
    assert!(all_are(&read(&object), &Ok(Some(5))));
    engines.assert_sound();
}

#[test]
fn what_is_launched_does_not_wait_for_an_engine_that_is_not_reached_yet() {
    let engines = Engines::start(2);
    engines.create(false);
    let name = made(&pool(&engines.link(0), "p"), "c");
    // The pool is opened while the other engine is away, and used while that is there and stands still.
    engines.kill(1);
    let pool = pool(&engines.link(0), "p");
    let object = spread_object(&pool.open_container(&name).unwrap());
    engines.start_again(1);
    engines.stand_still(1);
    let queue = EventQueue::new(&pool).unwrap();
    let mut done = Vec::new();
    let count = 48;
    let mut events = Vec::new();
    let launched = looks(|| {
        events = launch(&queue, &object, count);
        Poll::Ready(())
    });
    assert!(launched.is_ready());
    let looked = looks(|| none_or_some(&queue, &mut done, count as usize));
    assert!(looked.is_pending() && !done.is_empty(), "the first engine has answered: {}", done.len());
    engines.signal(1, Signal::CONT);
    while done.len() < count as usize {
        queue.poll(Wait::Forever, 64, &mut done).unwrap();
    }
    let results: Vec<Result<()>> =
        events.iter_mut().map(|event| event.take_result().unwrap().map(drop)).collect();
    assert!(all_are(&results, &Ok(())), "{results:?}");
    assert!(all_are(&read(&object), &Ok(Some(5))));
    engines.assert_sound();
}

#[test]
fn looks_do_not_wait_for_an_engine_that_was_started_anew_and_stands_still() {
    let engines = Engines::start(2);
    engines.create(false);
    let pool = pool(&engines.link(0), "p");
    let name = made(&pool, "c");
    let cont = pool.open_container(&name).unwrap();
    let object = spread_object(&cont);
    assert!(all_are(&written(&object), &Ok(())));
    let queue = EventQueue::new(&pool).unwrap();
    for rank in [1, 0] {
        engines.kill(rank);
        engines.start_again(rank);
        engines.stand_still(rank);
        let (mut events, mut done) = (launch(&queue, &object, 8), Vec::new());
        let mut query = pin!(cont.query_by(Way::Later));
        let looked = looks(|| {
            let (queried, polled) = (step(&mut query), none_or_some(&queue, &mut done, 8));
            if queried.is_ready() { Poll::Ready(()) } else { polled }
        });
        assert!(looked.is_pending(), "{} of engine {rank}", done.len());
        engines.signal(rank, Signal::CONT);
        while done.len() < 8 {
            queue.poll(Wait::Forever, 64, &mut done).unwrap();
        }
        for event in &mut events {
            assert_eq!(event.take_result().unwrap().map(drop), Ok(()), "engine {rank}");
        }
        ended(&mut query).unwrap();
    }
    assert!(all_are(&written(&object), &Ok(())));
    // Handles that are given back meanwhile have ended with the connection, and no other has.
    let second = pool.open_container(&name).unwrap();
    engines.kill(0);
    let mut closing = pin!(second.close_by(Way::Later));
    assert!(step(&mut closing).is_pending());
    engines.start_again(0);
    assert_eq!(ended(&mut closing), Ok(()));
    assert!(all_are(&written(&object), &Ok(())), "{:?}", written(&object));
    engines.assert_sound();
}

/// A way to a pool's service, and to no other engine.
fn service(link: &Link, name: &str) -> Door {
    let name = reach::pool_name(name).unwrap();
    let connect = SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite };
    Door::open(link, &Head { cred: CRED, ..Head::default() }, connect).unwrap().0
}

fn ask(service: &Door, verb: PoolVerb<'_>) -> PoolReply {
    let head = Head { cred: CRED, ..Head::default() };
    match service.call(Request { token: 0, head, ask: Ask::Pool(verb) }).result.unwrap() {
        Answer::Pool(reply) => reply,
        Answer::Target(other) => panic!("{other:?}"),
    }
}

/// A pool at the first engine alone, which has come there with its directory.
fn brought(engines: &Engines, name: &str) {
    let options =
        PoolOptions { targets: 1, label: Some(label(name)), volatile: true, ..PoolOptions::default() };
    dolmen_local::create(&engines.directory(0).join(name), &options).unwrap();
}

type Waiting<'w> = Pin<Box<dyn Future<Output = Result<()>> + 'w>>;

/// What changes a pool, or asks all its targets.
fn waiting<'w>(pool: &'w Pool, cont: &'w Container) -> [Waiting<'w>; 5] {
    let later = Way::Later;
    [
        Box::pin(
            async move { pool.create_container_by(later, Some(label("d")), Props::new()).await.map(drop) },
        ),
        Box::pin(async move { cont.create_snapshot_by(later, Some("second")).await.map(drop) }),
        Box::pin(async move { pool.destroy_container_by(later, &named("other"), false).await }),
        Box::pin(async move { cont.query_by(later).await.map(drop) }),
        Box::pin(async move { pool.query_by(later).await.map(drop) }),
    ]
}

#[test]
fn whoever_does_not_need_an_engine_that_stands_still_waits_for_nobody_who_does() {
    let (engines, names) = (Engines::start(2), ["p", "q", "r", "s"]);
    names.iter().chain(&["t"]).for_each(|name| engines.create_named(name, true));
    brought(&engines, "alone");
    let link = engines.link(0);
    let pools = names.map(|name| pool(&link, name));
    let conts = pools.each_ref().map(|pool| {
        made(pool, "other");
        pool.open_container(&made(pool, "c")).unwrap()
    });
    let evict = SystemVerb::PoolEvict(reach::pool_name("t").unwrap());
    let make = |name| SystemVerb::PoolCreate(PoolSpec { label: Some(label(name)), ..PoolSpec::default() });
    let asked = [make("x"), make("y"), make("z"), evict];
    let ask_system = |verb| -> Waiting<'_> {
        let link = &link;
        Box::pin(async move { link.ask_system_by(Way::Later, &Head::default(), verb).await.map(drop) })
    };
    engines.stand_still(1);
    let mut all: Vec<Waiting<'_>> =
        pools.iter().zip(&conts).flat_map(|(pool, cont)| waiting(pool, cont)).collect();
    all.extend(asked.iter().map(ask_system));
    assert!(all.iter_mut().all(|one| step(one).is_pending()), "each needs the other engine");
    // What came before on the connection is at the first engine.
    assert_eq!(link.ask_system(&Head::default(), &SystemVerb::Ping), Ok(SystemReply::Done));
    let other = engines.link(0);
    assert_eq!(reach::pools(&other, &Head::default()).unwrap().len(), 6);
    assert!(matches!(other.ask_system(&Head::default(), &SystemVerb::Query), Ok(SystemReply::System(_))));
    for name in names {
        let service = service(&other, name);
        let PoolReply::Cont(cont) = ask(&service, PoolVerb::ContOpen(named("c"), OpenFor::Any)) else {
            panic!("no container")
        };
        let attrs = vec![("name".to_owned(), b"value".to_vec())];
        assert!(matches!(ask(&service, PoolVerb::SetAttrs(Some(cont.no), attrs)), PoolReply::Done));
        assert!(matches!(ask(&service, PoolVerb::AllocOids(cont.no, 8)), PoolReply::Oids(_)));
        assert!(
            matches!(ask(&service, PoolVerb::SnapList(cont.no)), PoolReply::Snapshots(none) if none.is_empty())
        );
        assert!(matches!(ask(&service, PoolVerb::ContClose(cont.no)), PoolReply::Done));
        assert!(matches!(ask(&service, PoolVerb::ContList), PoolReply::Conts(_)));
    }
    let service = service(&other, "alone");
    let create =
        PoolVerb::ContCreate { uuid: Uuid::from_u128(5), label: Some(label("c")), props: Props::new() };
    assert!(matches!(ask(&service, create), PoolReply::Cont(_)));
    let PoolReply::Cont(cont) = ask(&service, PoolVerb::ContOpen(named("c"), OpenFor::Any)) else {
        panic!("no container")
    };
    assert!(matches!(ask(&service, PoolVerb::SnapCreate(cont.no, None)), PoolReply::Epoch(_)));
    assert!(matches!(ask(&service, PoolVerb::ContDestroy(named("c"), true)), PoolReply::Done));
    assert!(
        all.iter_mut().all(|one| step(one).is_pending()),
        "nobody has been given up: the others have not waited"
    );
    engines.signal(1, Signal::CONT);
    for (at, one) in all.iter_mut().enumerate() {
        assert_eq!(ended(one), Ok(()), "{at}");
    }
    engines.assert_sound();
}
