//! Leases: what one client has read holds until it hears that another is about to change it, and who does not listen holds nobody up for
//! long.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{CRED, Scratch, Served, WAYS, Way, pool, remote};
use crate::ranks::{Engines, container, spread_object};
use crate::raw::{Opened, Raw, oid, update};
use dolmen_client::{At, Container, Gathered, Page, Pool, side_by_side};
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, List, ListWhat, ReadAt, Verb, Want};
use dolmen_codec::wire::{Caller, FEATURE_LEASES, Push, Pushed, ReplyHeader, Version};
use dolmen_codec::{Answer, Ask, LEASE_TERM_NS, Lease, Outcome, Request, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_net::client::{Link, Remote};
use dolmen_types::{Anchor, Cond, ContNo, Error, Head, IoBuf, Key, Label, RequestId, TargetNo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One who reads with leases and writes.
struct User {
    link: Link,
    remote: Remote,
    cont: ContNo,
    client: u128,
    sequence: u64,
}

impl User {
    fn of(link: Link, client: u128) -> Self {
        let remote = remote(&link, POOL).unwrap();
        let name = ContName::Label(Label::new(CONT).unwrap());
        let open = Ask::Pool(PoolVerb::ContOpen(name, OpenFor::Any));
        let head = Head { cred: CRED, ..Head::default() };
        let opened = remote.call(Request { token: 0, head, ask: open }).result;
        let Ok(Answer::Pool(PoolReply::Cont(handle))) = opened else { panic!("it is not opened") };
        Self { link, remote, cont: handle.no, client, sequence: 0 }
    }

    fn head(&mut self) -> Head {
        self.sequence += 1;
        let id = RequestId { client: self.client, sequence: self.sequence };
        Head { id, cred: CRED, ..Head::default() }
    }

    /// What is under a dkey, if anything is, with a lease on that.
    fn read(&mut self, dkey: &[u8]) -> (Option<Vec<u8>>, Option<Lease>) {
        let want = Want::Single { room_bytes: 16 };
        let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
        let (dkey, buf) = (Key::from_slice(dkey), IoBuf::zeroed(16));
        let fetch = Fetch { oid: oid(), dkey, cond: Cond::AKEY_FETCH, at: ReadAt::Latest, iods, buf };
        let ask = Ask::Target(TargetNo(0), self.cont, Verb::Fetch(fetch));
        let request = Request { token: 0, head: self.head(), ask };
        let (Outcome { result, buf, .. }, lease) = self.remote.call_leased(request);
        let value = match result {
            Ok(Answer::Target(dolmen_codec::verb::Reply::Fetched(fetched))) => {
                let len = usize::try_from(fetched[0].size_bytes).unwrap();
                Some(buf.unwrap()[..len].to_vec())
            }
            Err(Error::NotFound) => None,
            other => panic!("{other:?}"),
        };
        (value, lease)
    }

    fn write(&mut self, dkey: &[u8], value: &[u8]) {
        let opened = Opened { slot: dolmen_codec::wire::PoolSlot(0), cont: self.cont };
        let request = Request { token: 0, head: self.head(), ask: update(opened, dkey, value) };
        let outcome = self.remote.call(request);
        assert!(outcome.result.is_ok(), "{outcome:?}");
    }

    fn holds(lease: Option<&Lease>) -> bool {
        lease.is_some_and(|lease| lease.holds(RealClock.monotonic_ns()))
    }
}

/// Ends a thread that looks at it, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Lets a holder listen beside while `body` runs.
fn listening<T>(link: &Link, body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    dolmen_env::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let pushes = link.pushes(Duration::from_millis(20));
                link.handled(&pushes);
                link.renew_leases();
            }
        });
        let _ends = Ends(&is_over);
        body()
    })
}

#[test]
fn what_was_read_holds_until_another_changes_it_and_is_void_before_that_is_done() {
    for way in WAYS {
        let served = Served::start();
        drop(Bystander::first(served.link(way)));
        let (mut reader, mut writer) = (User::of(served.link(way), 1), User::of(served.link(way), 2));
        writer.write(b"x", b"one");
        let (value, lease) = reader.read(b"x");
        assert_eq!(value.as_deref(), Some(&b"one"[..]));
        let (nothing, absent) = reader.read(b"z");
        assert_eq!(nothing, None);
        assert!(User::holds(lease.as_ref()) && User::holds(absent.as_ref()), "{way:?}");
        let begun_ns = RealClock.monotonic_ns();
        listening(&reader.link, || writer.write(b"y", b"another"));
        assert!(User::holds(lease.as_ref()), "{way:?}: another name");
        listening(&reader.link, || writer.write(b"x", b"two"));
        assert!(!User::holds(lease.as_ref()), "{way:?}: it is changed");
        listening(&reader.link, || writer.write(b"z", b"three"));
        assert!(!User::holds(absent.as_ref()), "{way:?}: it is there now");
        let took_ns = RealClock.monotonic_ns() - begun_ns;
        assert!(took_ns < 2 * LEASE_TERM_NS, "{way:?}: two wait for the end of a term: {took_ns} ns");
        let (value, lease) = reader.read(b"x");
        assert_eq!((value.as_deref(), User::holds(lease.as_ref())), (Some(&b"two"[..]), true));
        // What it changes itself nobody else has changed.
        reader.write(b"x", b"own");
        assert!(User::holds(lease.as_ref()), "{way:?}: its own");
        listening(&reader.link, || writer.write(b"x", b"three"));
        assert!(!User::holds(lease.as_ref()), "{way:?}: another's after it");
    }
}

#[test]
fn who_renews_keeps_a_lease_beyond_its_term_and_who_does_not_loses_it_by_himself() {
    let served = Served::start();
    drop(Bystander::first(served.link(Way::Rings)));
    let (mut one, mut other) = (User::of(served.link(Way::Rings), 1), User::of(served.link(Way::Rings), 2));
    let (_, renewed) = one.read(b"x");
    let (_, left) = other.read(b"x");
    let until_ns = RealClock.monotonic_ns() + LEASE_TERM_NS;
    while RealClock.monotonic_ns() <= until_ns {
        one.link.renew_leases();
        let pushes = one.link.pushes(Duration::from_millis(100));
        assert!(pushes.void.is_empty() && !pushes.all);
        one.link.handled(&pushes);
    }
    assert!(User::holds(renewed.as_ref()));
    assert!(!User::holds(left.as_ref()));
}

/// The state of a thread of this process in the kernel, by its number.
fn state_of(thread: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

#[test]
fn who_listens_sleeps_until_he_is_called_also_before_he_comes() {
    const FOR_EVER: Duration = Duration::from_secs(1 << 20);
    for way in WAYS {
        let served = Served::start();
        drop(Bystander::first(served.link(way)));
        let link = User::of(served.link(way), 1).link;
        link.call_listener();
        let pushes = link.pushes(FOR_EVER);
        assert!(pushes.void.is_empty() && !pushes.all, "{way:?}");
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        dolmen_env::scope(|threads| {
            let listens = threads.spawn(|| {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                link.pushes(FOR_EVER)
            });
            let thread = told.recv().unwrap();
            until("he sleeps", || state_of(thread) == "S");
            link.call_listener();
            assert!(!listens.join().unwrap().all, "{way:?}");
        });
    }
}

#[test]
fn who_wants_to_know_is_told_of_a_connection_to_another_engine_when_there_is_one() {
    let engines = Engines::start(2);
    engines.create(true);
    let cont = container(&pool(&engines.link(0), POOL)).uuid();
    engines.kill(1);
    let remote = Arc::new(remote(&engines.link(0), POOL).unwrap());
    let called = Arc::new(AtomicBool::new(false));
    let call = Arc::clone(&called);
    remote.when_linked(move || call.store(true, Ordering::Release));
    let pool = Pool::connect(Arc::clone(&remote) as Arc<dyn Transport>, CRED).unwrap();
    let object = spread_object(&pool.open_container(&ContName::Uuid(cont)).unwrap());
    assert!(!called.load(Ordering::Acquire) && remote.links().len() == 1);
    engines.start_again(1);
    until("all of it is there", || {
        (0..32_u8).all(|dkey| object.put(At::Latest, &[dkey], b"a", b"text").is_ok())
    });
    assert!(called.load(Ordering::Acquire) && remote.links().len() == 2);
}

#[test]
fn a_listing_is_void_when_a_name_comes_and_a_commit_or_a_rollback_makes_void_what_it_changes() {
    let served = Served::start();
    let bystander = Bystander::first(served.link(Way::Rings));
    let mut reader = User::of(served.link(Way::Socket), 1);
    let oid = bystander.object.oid();
    let list = |reader: &mut User| {
        let what = ListWhat::Dkeys(oid);
        let list = List { what, anchor: Anchor::default(), items_max: 9, bytes_max: 999, at: ReadAt::Latest };
        let leases = [0, 1].map(|target| {
            let ask = Ask::Target(TargetNo(target), reader.cont, Verb::List(list.clone()));
            let request = Request { token: 0, head: reader.head(), ask };
            let (outcome, lease) = reader.remote.call_leased(request);
            assert!(outcome.result.is_ok(), "{outcome:?}");
            lease.unwrap()
        });
        move || leases.iter().all(|lease| User::holds(Some(lease)))
    };
    let put = |key: &[u8]| {
        bystander.object.put(At::Latest, key, b"a", b"value").unwrap();
    };
    put(b"first");
    let snapshot = bystander.cont.create_snapshot(None).unwrap();
    let holds = list(&mut reader);
    assert!(holds());
    listening(&reader.link, || put(b"second"));
    assert!(!holds());
    let holds = list(&mut reader);
    assert!(holds());
    listening(&reader.link, || {
        let tx = bystander.cont.begin().unwrap();
        bystander.object.put(At::Tx(&tx), b"third", b"a", b"value").unwrap();
        assert!(holds(), "nothing is changed yet");
        tx.commit().unwrap();
    });
    assert!(!holds());
    let holds = list(&mut reader);
    assert!(holds());
    listening(&reader.link, || bystander.cont.rollback(snapshot)).unwrap();
    assert!(!holds());
}

#[test]
fn an_operation_holds_as_long_as_all_that_it_has_read() {
    let served = Served::start();
    let link = served.link(Way::Rings);
    let bystander = Bystander::first(link.clone());
    let writer = Bystander::of(&served.link(Way::Socket));
    writer.object.put(At::Latest, b"x", b"a", b"one").unwrap();
    let gathered = Arc::new(Gathered::default());
    let object = bystander.object.gathering(&gathered);
    let read = || {
        for dkey in [b"x", b"y"] {
            object.get(At::Latest, dkey, b"a", &mut IoBuf::default()).unwrap();
        }
        object.list_akeys(At::Latest, b"x", &mut Anchor::default(), Page::default()).unwrap();
        gathered.take()
    };
    let leased = read();
    assert!(leased.holds(RealClock.monotonic_ns()));
    listening(&link, || writer.object.put(At::Latest, b"z", b"a", b"other")).unwrap();
    assert!(leased.holds(RealClock.monotonic_ns()), "it has not looked there");
    listening(&link, || writer.object.put(At::Latest, b"y", b"a", b"new")).unwrap();
    assert!(!leased.holds(RealClock.monotonic_ns()));
    assert!(read().holds(RealClock.monotonic_ns()));
    let snapshot = bystander.cont.create_snapshot(None).unwrap();
    object.get(At::Snapshot(snapshot), b"x", b"a", &mut IoBuf::default()).unwrap();
    assert!(!gathered.take().holds(RealClock.monotonic_ns()), "there is no lease on the past");
}

/// Another client's handle on a container, and his connections.
fn reader_at(link: &Link, cont: &Container) -> (Arc<Remote>, Container) {
    let reads_by = Arc::new(remote(link, POOL).unwrap());
    let pool = Pool::connect(Arc::clone(&reads_by) as Arc<dyn Transport>, CRED).unwrap();
    let reader = pool.open_container(&ContName::Uuid(cont.uuid())).unwrap();
    (reads_by, reader)
}

#[test]
fn a_commit_waits_for_leases_at_all_engines_of_its_targets() {
    let engines = Engines::start(2);
    engines.create(true);
    let writer = pool(&engines.link(0), POOL);
    let cont = container(&writer);
    let object = spread_object(&cont);
    let (reads_by, reader) = reader_at(&engines.link(1), &cont);
    let gathered = Arc::new(Gathered::default());
    let seen = reader.object(object.oid()).unwrap().gathering(&gathered);
    let read = |dkey: u8| {
        seen.get(At::Latest, &[dkey], b"a", &mut IoBuf::default()).unwrap();
        gathered.take()
    };
    // They are placed at all targets.
    let leased: Vec<_> = (0..32).map(read).collect();
    let hold = || leased.iter().filter(|leased| leased.holds(RealClock.monotonic_ns())).count();
    assert_eq!(hold(), 32);
    let links = reads_by.links();
    assert_eq!(links.len(), 2);
    listening(&links[0], || {
        listening(&links[1], || {
            let tx = cont.begin().unwrap();
            (0..16_u8).for_each(|dkey| {
                object.put(At::Tx(&tx), &[dkey], b"a", b"text").unwrap();
            });
            tx.commit().unwrap();
            assert_eq!(hold(), 16, "what is changed is void when it is done, and nothing else");
            (16..32_u8).for_each(|dkey| {
                object.put(At::Latest, &[dkey], b"a", b"text").unwrap();
            });
        });
    });
    assert_eq!(hold(), 0);
}

#[test]
fn reads_that_go_out_at_once_are_answered_in_their_order_with_a_lease_each() {
    const COUNT: usize = 700;
    let engines = Engines::start(2);
    engines.create(true);
    let writer = pool(&engines.link(0), POOL);
    let cont = container(&writer);
    let object = spread_object(&cont);
    let (reads_by, reader) = reader_at(&engines.link(1), &cont);
    let dkey_of = |n: usize| format!("dkey {n}").into_bytes();
    let value_of = |n: usize| format!("value {n}").into_bytes();
    for n in (0..COUNT).filter(|n| n % 3 != 0) {
        object.put(At::Latest, &dkey_of(n), b"a", &value_of(n)).unwrap();
    }
    let gathered: Vec<Arc<Gathered>> = (0..COUNT).map(|_| Arc::default()).collect();
    let reads = gathered.iter().enumerate().map(async |(n, gathered)| {
        let (object, mut buf) = (reader.object(object.oid()).unwrap().gathering(gathered), IoBuf::default());
        let dkey = dkey_of(n);
        let found = object.get_by(dolmen_client::Way::Later, At::Latest, &dkey, b"a", &mut buf).await;
        found.unwrap().map(|_| buf.to_vec())
    });
    let values = reader.together(side_by_side(reads));
    assert!(values.into_iter().eq((0..COUNT).map(|n| (n % 3 != 0).then(|| value_of(n)))));
    let leased: Vec<_> = gathered.iter().map(|gathered| gathered.take()).collect();
    let void = || -> Vec<usize> {
        let now_ns = RealClock.monotonic_ns();
        (0..COUNT).filter(|n| !leased[*n].holds(now_ns)).collect()
    };
    let links = reads_by.links();
    listening(&links[0], || {
        listening(&links[1], || {
            assert_eq!(void(), [0_usize; 0]);
            for n in [5_usize, 300, 699] {
                object.put(At::Latest, &dkey_of(n), b"a", b"new").unwrap();
            }
            assert_eq!(void(), [5, 300, 699]);
        });
    });
}

/// A raw client with a lease on a dkey, and the number of that.
fn raw_holder(daemon: &ChildDaemon, way: Way) -> (Raw, Opened, u32) {
    let mut raw = Raw::connect_with(daemon, way, (Version::NEWEST, FEATURE_LEASES));
    let opened = raw.open(POOL, CONT);
    let header = leased(&mut raw, opened, b"x", 0);
    (raw, opened, header.lease)
}

/// Reads a dkey, and says that so many pushes were taken in.
fn leased(raw: &mut Raw, opened: Opened, dkey: &[u8], push_acked: u64) -> ReplyHeader {
    let want = Want::Single { room_bytes: 16 };
    let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
    let (dkey, buf) = (Key::from_slice(dkey), IoBuf::zeroed(16));
    let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    let caller = Caller { push_acked, wants_lease: true, ..raw.caller(98, opened.slot) };
    let frame = raw.framed(&caller, &Ask::Target(TargetNo(0), opened.cont, Verb::Fetch(fetch)));
    raw.send(&frame);
    raw.reply().unwrap().0
}

/// The next push.
fn pushed(raw: &mut Raw) -> Push {
    let (header, body, _) = raw.reply().unwrap();
    Push::decode(&header, &body).unwrap()
}

#[test]
fn who_does_not_acknowledge_holds_a_writer_up_for_a_term_and_loses_all() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    drop(Bystander::first(daemon.link(Way::Socket)));
    for way in [Way::Rings, Way::Tcp] {
        let (mut silent, opened, no) = raw_holder(&daemon, way);
        assert_ne!(no, 0);
        let mut writer = Raw::connect(&daemon, Way::Socket);
        let target = writer.open(POOL, CONT);
        assert!(writer.ask(target, &update(target, b"y", b"another")).is_ok());
        let begun_ns = RealClock.monotonic_ns();
        assert!(writer.ask(target, &update(target, b"x", b"two")).is_ok());
        let took_ns = RealClock.monotonic_ns() - begun_ns;
        assert!(took_ns >= LEASE_TERM_NS, "{way:?}: {took_ns} ns");
        let first = pushed(&mut silent);
        assert_eq!((first.lease, first.push_seq), (no, 1), "{way:?}: it is told of nothing else");
        assert!(matches!(first.what, Pushed::Invalidate(what) if what.oid == oid()));
        let second = pushed(&mut silent);
        assert_eq!((second.what, second.push_seq), (Pushed::RevokeAll, 2), "{way:?}");
        let header = leased(&mut silent, opened, b"x", 2);
        assert_eq!((header.lease, header.lease_term_ms, header.push_seq), (0, 0, 2), "{way:?}");
    }
}

#[test]
fn a_holder_that_has_ended_holds_nobody_up_on_its_machine_and_elsewhere_for_a_term() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    drop(Bystander::first(daemon.link(Way::Socket)));
    let mut writer = Raw::connect(&daemon, Way::Socket);
    let target = writer.open(POOL, CONT);
    for (way, waits) in [(Way::Socket, false), (Way::Rings, false), (Way::Tcp, true)] {
        let (holder, _, no) = raw_holder(&daemon, way);
        assert_ne!(no, 0);
        let begun_ns = RealClock.monotonic_ns();
        drop(holder);
        assert!(writer.ask(target, &update(target, b"x", b"two")).is_ok());
        let took_ns = RealClock.monotonic_ns() - begun_ns;
        assert_eq!(took_ns >= LEASE_TERM_NS, waits, "{way:?}: {took_ns} ns");
    }
}

#[test]
fn who_says_what_cannot_be_is_left_and_who_knows_no_leases_has_none() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    drop(Bystander::first(daemon.link(Way::Socket)));
    let acks = |raw: &mut Raw, opened: Opened, push_acked| {
        let caller = Caller { push_acked, ..raw.caller(97, opened.slot) };
        let frame = raw.framed(&caller, &Ask::Target(TargetNo(0), opened.cont, Verb::Latest));
        raw.send(&frame);
    };
    for way in WAYS {
        let (mut raw, opened, _) = raw_holder(&daemon, way);
        acks(&mut raw, opened, 1);
        crate::raw::assert_closed(&mut raw.stream, "what was not pushed");
        let mut old = Raw::connect(&daemon, way);
        let opened = old.open(POOL, CONT);
        acks(&mut old, opened, 1);
        assert!(old.answer().1.is_ok(), "{way:?}: as before");
        let caller = Caller { wants_lease: true, ..old.caller(97, opened.slot) };
        let frame = old.framed(&caller, &Ask::Target(TargetNo(0), opened.cont, Verb::Latest));
        old.send(&frame);
        crate::raw::assert_closed(&mut old.stream, "a lease was not agreed on");
    }
}

#[test]
fn after_a_daemon_has_died_nothing_changes_before_nobody_believes_in_what_it_has_given() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    drop(Bystander::first(daemon.link(Way::Socket)));
    for has_leases in [false, true] {
        if has_leases {
            assert_ne!(raw_holder(&daemon, Way::Socket).2, 0);
        }
        assert_eq!(dir.path().join("dolmen.leases").is_file(), has_leases);
        let begun_ns = RealClock.monotonic_ns();
        daemon.kill();
        daemon.start_again();
        let mut writer = Raw::connect(&daemon, Way::Socket);
        let opened = writer.open(POOL, CONT);
        assert!(writer.ask(opened, &update(opened, b"x", b"two")).is_ok());
        let took_ns = RealClock.monotonic_ns() - begun_ns;
        assert!(!has_leases || took_ns >= LEASE_TERM_NS, "{took_ns} ns");
    }
}
