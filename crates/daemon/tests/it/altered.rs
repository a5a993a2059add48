//! What changes on the way between client and daemon: nothing of it is stored or returned, and nobody notices but by the
//! time that it takes to send it again.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::ChildDaemon;
use crate::common::{Scratch, WAYS, Way, create, pool};
use crate::raw::{RING_BYTES, Raw, array_update, assert_closed, push, update};
use dolmen_client::{At, Event, EventQueue, Object, Wait};
use dolmen_codec::Answer;
use dolmen_codec::pool::{ContName, OpenFor};
use dolmen_codec::verb::{FetchIod, NewValue, Payload, Reply, UpdateIod, Want};
use dolmen_codec::wire::{FEATURE_ALONE, HELLO_BYTES, Hello, Version, WELCOME_BYTES, Welcome};
use dolmen_env::{Address, Listener, Moved, Rng, Socket, Waiter};
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::{Cond, Error, Invalid, IoBuf, Key, Label, Props, Recx};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// From the client to the daemon.
    Up,
    /// From the daemon to the client.
    Down,
}

const COURSES: [Course; 2] = [Course::Up, Course::Down];

/// A bit that is to be turned around.
#[derive(Clone, Copy)]
struct Flip {
    course: Course,
    /// After so many bytes that go that way.
    after: usize,
    bit: u32,
    /// Only on connections from this one on.
    first: usize,
}

/// A place at which each connection is changed.
#[derive(Clone, Copy)]
struct Fault {
    course: Course,
    /// After so many bytes that go that way.
    after: usize,
}

#[derive(Default)]
struct Plan {
    flip: Option<Flip>,
    fault: Option<Fault>,
    /// Bytes that have passed, up and down.
    passed: [usize; 2],
    /// Both ends of each connection there was, and what has passed on it, up and down, since there is a fault.
    connections: Vec<[Arc<Socket>; 2]>,
    since: Vec<[usize; 2]>,
    flips: usize,
    /// Features of the daemon that its clients are not told of.
    hidden: u64,
}

/// Hands bytes on between clients and a daemon, and turns a bit of them around when it is told to; its threads end with the
/// test's process.
pub(crate) struct Alterer {
    address: Address,
    /// Guards what is to happen and what has; taken alone.
    plan: Arc<Mutex<Plan>>,
}

impl Alterer {
    /// Listens where the daemon's clients can reach it, at `path` if that is a socket; `greet` changes what they say first.
    pub(crate) fn start(to: &Address, path: &Path, greet: fn(&mut Hello)) -> Self {
        let plan = Arc::<Mutex<Plan>>::default();
        let at = match to {
            Address::Unix(_) => Address::Unix(path.to_owned()),
            Address::Tcp(_) => Address::Tcp("127.0.0.1:0".parse().unwrap()),
        };
        let listener = Listener::bind(&at).unwrap();
        let (to, address, shared) = (to.clone(), listener.address().clone(), Arc::clone(&plan));
        spawn(move || {
            let (waiter, mut ready) = (Waiter::new().unwrap(), Vec::new());
            waiter.add(&listener, 0, false).unwrap();
            loop {
                waiter.wait(None, &mut ready).unwrap();
                let Some(near) = listener.accept().unwrap() else { continue };
                // Nobody is there while the daemon starts: the client finds out, and comes again.
                let Ok(far) = Socket::connect(&to, Duration::from_secs(10)) else { continue };
                let (near, far) = (Arc::new(near), Arc::new(far));
                let number = shared.lock().unwrap().connected([Arc::clone(&near), Arc::clone(&far)]);
                let (plan, from, to) = (Arc::clone(&shared), Arc::clone(&near), Arc::clone(&far));
                spawn(move || {
                    let Some(hello) = hear(&from, greet) else { return };
                    hand_on(&plan, number, Course::Up, hello, &from, &to);
                });
                let plan = Arc::clone(&shared);
                spawn(move || hand_on(&plan, number, Course::Down, Vec::new(), &far, &near));
            }
        });
        Self { address, plan }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// A client of the daemon behind it.
    pub(crate) fn link(&self) -> Link {
        self.link_noted(|_| ())
    }

    /// The same, with somebody who is told why requests are given up.
    fn link_noted(&self, note: fn(&str)) -> Link {
        let options =
            LinkOptions { ring_bytes: 0, patience: Duration::from_secs(60), note, ..LinkOptions::default() };
        Link::connect(&self.address, &options).unwrap()
    }

    /// Turns a bit around in the byte that comes after so many others.
    pub(crate) fn flip(&self, course: Course, after: usize, bit: u32) {
        self.plan().flip = Some(Flip { course, after, bit, first: 0 });
    }

    /// The same on the next connection; those that there are end.
    fn flip_on_the_next(&self, course: Course, after: usize, bit: u32) {
        let mut plan = self.plan();
        plan.flip = Some(Flip { course, after, bit, first: plan.connections.len() });
        plan.connections.iter().flatten().for_each(end);
    }

    /// Ends all connections that there are.
    pub(crate) fn end_all(&self) {
        self.plan().connections.iter().flatten().for_each(end);
    }

    /// Changes a byte of each connection from now on, after so many others; or none any more.
    fn fault(&self, fault: Option<Fault>) {
        let mut plan = self.plan();
        plan.since.fill([0; 2]);
        plan.fault = fault;
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.plan().connections.len()
    }

    pub(crate) fn flips(&self) -> usize {
        self.plan().flips
    }

    /// How many bytes go up and down for something.
    fn passed(&self, body: impl FnOnce()) -> [usize; 2] {
        let before = self.plan().passed;
        body();
        let after = self.plan().passed;
        [after[0] - before[0], after[1] - before[1]]
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    drop(dolmen_env::spawn("alterer", body).unwrap());
}

fn end(socket: &Arc<Socket>) {
    // Ignored: it may have ended already.
    let _ended = rustix::net::shutdown(&**socket, rustix::net::Shutdown::Both);
}

/// What has come, once something has; nothing once it has ended.
fn read(socket: &Socket, bytes: &mut [u8]) -> usize {
    loop {
        match socket.read(bytes) {
            Ok(Moved::Bytes(len)) => return len,
            Ok(Moved::Later) => drop(socket.wait(true, false, None)),
            Ok(Moved::End) | Err(_) => return 0,
        }
    }
}

/// Whether all of it could be sent.
fn write(socket: &Socket, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match socket.write(&[IoSlice::new(bytes)]) {
            Ok(Moved::Bytes(len)) => bytes = &bytes[len..],
            Ok(Moved::Later) => drop(socket.wait(false, true, None)),
            Ok(Moved::End) | Err(_) => return false,
        }
    }
    true
}

/// What a client says first, as it is told to the daemon.
fn hear(from: &Socket, greet: fn(&mut Hello)) -> Option<Vec<u8>> {
    let (mut bytes, mut at) = ([0; HELLO_BYTES], 0);
    while at < bytes.len() {
        match read(from, &mut bytes[at..]) {
            0 => return None,
            len => at += len,
        }
    }
    let mut hello = Hello::decode(&bytes).unwrap();
    greet(&mut hello);
    Some(hello.encode().to_vec())
}

fn hand_on(
    plan: &Mutex<Plan>,
    number: usize,
    course: Course,
    first: Vec<u8>,
    from: &Arc<Socket>,
    to: &Arc<Socket>,
) {
    let mut bytes = vec![0; 64 << 10];
    let mut len = first.len();
    bytes[..len].copy_from_slice(&first);
    loop {
        plan.lock().unwrap().pass(number, course, &mut bytes[..len]);
        if !write(to, &bytes[..len]) {
            break;
        }
        len = read(from, &mut bytes);
        if len == 0 {
            break;
        }
    }
    [from, to].into_iter().for_each(end);
}

impl Plan {
    /// A connection more; its number.
    fn connected(&mut self, ends: [Arc<Socket>; 2]) -> usize {
        self.connections.push(ends);
        self.since.push([0; 2]);
        self.connections.len() - 1
    }

    fn pass(&mut self, number: usize, course: Course, bytes: &mut [u8]) {
        self.passed[usize::from(course == Course::Down)] += bytes.len();
        if let Some(first) = bytes.first_chunk_mut().filter(|_| self.hidden != 0 && course == Course::Down)
            && let Ok(Ok(welcome)) = Welcome::decode(first)
        {
            *first = Welcome { features: welcome.features & !self.hidden, ..welcome }.encode();
        }
        if let Some(fault) = self.fault.filter(|fault| fault.course == course) {
            let before = &mut self.since[number][usize::from(course == Course::Down)];
            if let Some(byte) = fault.after.checked_sub(*before).and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1;
            }
            *before += bytes.len();
        }
        let Some(flip) = self.flip.as_mut().filter(|flip| flip.course == course && number >= flip.first)
        else {
            return;
        };
        if flip.after < bytes.len() {
            bytes[flip.after] ^= 1 << flip.bit;
            self.flip = None;
            self.flips += 1;
        } else {
            flip.after -= bytes.len();
        }
    }
}

/// A daemon with a pool, and a way to it that changes what goes there.
struct Altered {
    daemon: ChildDaemon,
    alterer: Alterer,
    direct: Bystander,
    _dir: Scratch,
}

impl Altered {
    fn start(way: Way, greet: fn(&mut Hello)) -> Self {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let direct = Bystander::first(daemon.link(Way::Rings));
        let alterer = Alterer::start(daemon.address(way), &dir.path().join("altered.sock"), greet);
        Self { daemon, alterer, direct, _dir: dir }
    }

    /// That everything is there as it was written, whoever looks.
    fn assert_there(&self, count: u64) {
        for number in 0..count {
            assert_got(&self.direct.object, number);
        }
        for audits in [self.direct.pool.check().unwrap(), self.direct.pool.scrub().unwrap()] {
            assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
        }
        self.daemon.assert_sound();
    }
}

/// Short ones, and some that go over socket and ring in many pieces.
fn value(number: u64) -> Vec<u8> {
    let len = match number % 40 {
        1 => 1 << 20,
        2 => 300_000,
        3 => 40_000,
        4 => 16 << 10,
        _ => 37,
    };
    (number..).map(|at| (at % 251).to_le_bytes()[0]).take(len).collect()
}

fn single(number: u64) -> UpdateIod<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(&value(number))));
    UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }
}

/// Writes what must not be there: a second time would fail.
fn insert(object: &Object, number: u64) {
    let inserted = object.update(At::Latest, &number.to_le_bytes(), Cond::DKEY_INSERT, &[single(number)]);
    assert!(inserted.is_ok(), "number {number}: {inserted:?}");
}

fn assert_got(object: &Object, number: u64) {
    let mut buf = IoBuf::default();
    object.get(At::Latest, &number.to_le_bytes(), b"a", &mut buf).unwrap();
    assert!(buf[..] == value(number)[..], "number {number} came back changed");
}

#[test]
fn no_byte_that_changes_on_the_way_is_stored_or_returned() {
    for way in [Way::Socket, Way::Tcp] {
        let altered = Altered::start(way, |_| ());
        let Altered { alterer, .. } = &altered;
        let client = Bystander::of(&alterer.link());
        // The first numbers have short values.
        let mut number = 5;
        let mut next = || {
            number += if number % 40 == 39 { 6 } else { 1 };
            number
        };
        insert(&client.object, 5);
        let inserted = alterer.passed(|| insert(&client.object, next()));
        let got = alterer.passed(|| assert_got(&client.object, 5));
        let mut flips = 0;
        for (course, len) in COURSES.into_iter().zip(inserted) {
            for at in 0..len {
                alterer.flip(course, at, at as u32 % 8);
                insert(&client.object, next());
                flips += 1;
                assert_eq!(alterer.flips(), flips, "{way:?}, {course:?}: byte {at} of {len}");
            }
        }
        for (course, len) in COURSES.into_iter().zip(got) {
            for at in 0..len {
                alterer.flip(course, at, at as u32 % 8);
                assert_got(&client.object, 5);
                flips += 1;
                assert_eq!(alterer.flips(), flips, "{way:?}, {course:?}: byte {at} of {len}");
            }
        }
        assert!(flips > 500, "{flips}");
        for number in (5..=number).filter(|number| !(0..5).contains(&(number % 40))) {
            assert_got(&altered.direct.object, number);
        }
        altered.assert_there(0);
    }
}

#[test]
fn no_byte_of_a_greeting_that_changes_keeps_a_client_from_its_pool() {
    for way in [Way::Socket, Way::Tcp] {
        let altered = Altered::start(way, |_| ());
        let client = Bystander::of(&altered.alterer.link());
        insert(&client.object, 5);
        let greetings = [(Course::Up, HELLO_BYTES), (Course::Down, WELCOME_BYTES)];
        for (course, at) in
            greetings.into_iter().flat_map(|(course, len)| (0..len).map(move |at| (course, at)))
        {
            let before = altered.alterer.flips();
            altered.alterer.flip_on_the_next(course, at, at as u32 % 8);
            assert_got(&client.object, 5);
            assert_eq!(altered.alterer.flips(), before + 1, "{way:?}, {course:?}: byte {at}");
        }
        altered.assert_there(0);
    }
}

/// Rounds and seed of the loop below.
const ROUNDS: u64 = 400;
const SEED: u64 = 2023;

#[test]
fn long_payloads_that_change_on_the_way_are_sent_again() {
    println!("seed {SEED}");
    let mut rng = Rng::from_seed(SEED);
    for way in [Way::Socket, Way::Tcp] {
        let altered = Altered::start(way, |_| ());
        let Altered { alterer, .. } = &altered;
        let client = Bystander::of(&alterer.link());
        let queue = EventQueue::new(&client.pool).unwrap();
        for number in 0..ROUNDS {
            let course = COURSES[usize::try_from(rng.below(2)).unwrap()];
            // What is not reached by this is met by one of the next, or by what opens a connection again.
            let reach = value(number).len() as u64 + 400;
            alterer.flip(course, usize::try_from(rng.below(reach)).unwrap(), rng.below(8) as u32);
            if number.is_multiple_of(3) {
                insert_on(&queue, &client.object, number);
            } else {
                insert(&client.object, number);
            }
            assert_got(&client.object, number);
            assert_got(&client.object, rng.below(number + 1));
        }
        assert!(alterer.flips() as u64 > ROUNDS / 2, "{}", alterer.flips());
        altered.assert_there(ROUNDS);
    }
}

#[test]
fn what_changes_on_the_way_each_time_is_given_up_after_a_number_of_connections() {
    for way in [Way::Socket, Way::Tcp] {
        // Guards: what was told of requests that were given up; taken alone. This test alone gives some up.
        static NOTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let altered = Altered::start(way, |_| ());
        let Altered { alterer, .. } = &altered;
        let note = |said: &str| NOTED.lock().unwrap().push(said.to_owned());
        let client = Bystander::of(&alterer.link_noted(note));
        let queue = EventQueue::new(&client.pool).unwrap();
        // A long value.
        insert(&client.object, 41);
        for course in COURSES {
            for on_queue in [false, true] {
                let before = alterer.connections();
                // Behind all that opens pool and container.
                alterer.fault(Some(Fault { course, after: 100_000 }));
                let result = match course {
                    Course::Up if on_queue => update_on(&queue, &client.object, 81),
                    Course::Up => client
                        .object
                        .update(At::Latest, &81_u64.to_le_bytes(), Cond::NONE, &[single(81)])
                        .map(drop),
                    Course::Down => client
                        .object
                        .get(At::Latest, &41_u64.to_le_bytes(), b"a", &mut IoBuf::zeroed(1 << 20))
                        .map(drop),
                };
                assert_eq!(result, Err(Error::Unreachable { rank: 0 }), "{way:?}, {course:?}");
                let made = alterer.connections() - before;
                assert!((6..=13).contains(&made), "{way:?}, {course:?}: {made} connections");
                let noted = std::mem::take(&mut *NOTED.lock().unwrap());
                assert_eq!(noted.len(), 1, "{noted:?}");
                assert!(
                    noted[0].contains("something on the way changes what is sent or answered"),
                    "{noted:?}"
                );
                // Who reads it has found the checksum that does not match; what is sent, only the engine has.
                assert!(course == Course::Up || noted[0].contains("has changed on the way"), "{noted:?}");
                alterer.fault(None);
                // The others go on.
                assert_got(&client.object, 41);
            }
        }
        client.object.update(At::Latest, &81_u64.to_le_bytes(), Cond::NONE, &[single(81)]).unwrap();
        for number in [41, 81] {
            assert_got(&altered.direct.object, number);
        }
        altered.assert_there(0);
    }
}

/// An update as an event.
fn update_on(queue: &EventQueue, object: &Object, number: u64) -> dolmen_types::Result<()> {
    let mut event: Event = queue.event().unwrap();
    let dkey = number.to_le_bytes();
    object.update_on(&mut event, At::Latest, &dkey, Cond::NONE, vec![single(number)]).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        queue.poll(Wait::Forever, 1, &mut done).unwrap();
    }
    event.take_result().unwrap().map(drop)
}

/// The same as an event.
fn insert_on(queue: &EventQueue, object: &Object, number: u64) {
    let mut event: Event = queue.event().unwrap();
    let dkey = number.to_le_bytes();
    object.update_on(&mut event, At::Latest, &dkey, Cond::DKEY_INSERT, vec![single(number)]).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        queue.poll(Wait::Forever, 1, &mut done).unwrap();
    }
    drop(event.take_result().unwrap().unwrap());
}

#[test]
fn a_client_of_this_version_uses_a_daemon_of_the_one_before() {
    for way in [Way::Socket, Way::Tcp] {
        // So the daemon answers as one that knows no other version.
        let altered = Altered::start(way, |hello| hello.version_max = Version::One.number());
        let link = altered.alterer.link();
        assert_eq!(link.welcome().unwrap().version, Version::One);
        let client = Bystander::of(&link);
        for number in 0..50 {
            insert(&client.object, number);
            assert_got(&client.object, number);
        }
        altered.assert_there(50);
    }
}

#[test]
fn a_daemon_that_knows_no_exclusive_containers_is_not_asked_for_one() {
    let altered = Altered::start(Way::Socket, |_| {});
    altered.alterer.plan().hidden = FEATURE_ALONE;
    let client = Bystander::of(&altered.alterer.link());
    let name = ContName::Label(Label::new(CONT).unwrap());
    for wanted in [OpenFor::Alone(5), OpenFor::Joining(5), OpenFor::Evicting] {
        let refused = client.pool.open_container_for(&name, wanted).map(drop).unwrap_err();
        assert_eq!(refused, Invalid::Argument.into());
    }
    insert(&client.object, 0);
    assert_got(&client.object, 0);
}

#[test]
fn a_client_of_the_version_before_uses_this_daemon() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let link = daemon.link(Way::Socket);
    create(&link, POOL);
    pool(&link, POOL).create_container(Some(Label::new(CONT).unwrap()), Props::default()).unwrap();
    for (way, number) in WAYS.into_iter().zip(0_u8..) {
        let mut old = Raw::connect_as(&daemon, way, Version::One);
        let mut new = Raw::connect(&daemon, way);
        let (opened, here) = (old.open(POOL, CONT), new.open(POOL, CONT));
        for (len, number) in [1, 40_000, 1 << 20].into_iter().zip(number * 10..) {
            let value = vec![number + 1; len];
            let (first, second) = ([number, 1], [number, 2]);
            assert!(matches!(
                old.ask(opened, &array_update(opened, &first, &value)),
                Ok(Answer::Target(Reply::Written(_)))
            ));
            assert!(new.ask(here, &array_update(here, &second, &value)).is_ok());
            for dkey in [first, second] {
                assert!(old.fetched(opened, &dkey, len) == value, "{way:?}: {len} bytes");
                assert!(new.fetched(here, &dkey, len) == value, "{way:?}: {len} bytes");
            }
        }
    }
    daemon.assert_sound();
}

#[test]
fn a_request_with_any_changed_byte_closes_its_connection_and_is_not_carried_out() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        assert!(raw.ask(opened, &update(opened, b"k", b"first")).is_ok());
        let good = raw.frame(5, opened.slot, &update(opened, b"k", b"other"));
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1 << (at % 8);
            let mut raw = Raw::connect(&daemon, way);
            assert_eq!(raw.open(POOL, CONT).slot, opened.slot);
            push(&mut raw.stream, &changed).unwrap();
            assert_closed(&mut raw.stream, &format!("{way:?}: byte {at}"));
        }
        assert_eq!(raw.fetched_single(opened, b"k", 5), b"first", "{way:?}");
        bystander.goes_on();
    }
    daemon.assert_sound();
}

#[test]
fn payload_that_changes_in_a_ring_is_stored_as_it_was_meant_or_closes_the_connection() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    let (mut closed, mut stored) = (0, 0);
    for turn in 0..200_u8 {
        let mut raw = Raw::connect(&daemon, Way::Rings);
        let opened = raw.open(POOL, CONT);
        let theirs = raw.memory.take().unwrap();
        let start = usize::try_from(theirs.load(4096)).unwrap();
        let frame = raw.frame(1, opened.slot, &update(opened, &[turn], &vec![turn; RING_BYTES / 2]));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let answer = dolmen_env::scope(|threads| {
            // The last bytes of the payload: beside what the daemon copies, or too late.
            threads.spawn(|| {
                let at = 8192 + (start + frame.len() - 4 - 64) % RING_BYTES;
                while turn.is_multiple_of(2) && !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    theirs.copy_in(at, &[turn ^ 0x80; 32]);
                }
            });
            let answer = push(&mut raw.stream, &frame).and_then(|()| raw.reply());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            answer
        });
        let mut after = Raw::connect(&daemon, Way::Rings);
        let opened = after.open(POOL, CONT);
        let found = after.fetched_single(opened, &[turn], RING_BYTES / 2);
        match answer {
            Ok(_) => {
                assert!(found == vec![turn; RING_BYTES / 2], "turn {turn}: what was not meant is stored");
                stored += 1;
            }
            Err(dolmen_net::Error::Ended) => {
                assert!(found.is_empty(), "turn {turn}: what was refused is stored");
                closed += 1;
            }
            Err(other) => panic!("turn {turn}: {other}"),
        }
    }
    assert!(stored >= 100, "{stored} stored");
    assert!(closed > 0, "nothing was changed in time");
    bystander.goes_on();
    daemon.assert_sound();
}

#[test]
fn values_of_all_shapes_are_stored_under_the_checksums_that_they_came_with() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    drop(Bystander::first(daemon.link(Way::Rings)));
    for way in WAYS {
        let client = Bystander::of(&daemon.link(way));
        let bytes: Vec<u8> = (0..=250).cycle().take(3 << 20).collect();
        // Chunks that begin with the payload, in its midst, at a whole chunk of it, and of other lengths than a chunk has.
        let shapes: [(u64, &[u64]); 8] = [
            (1, &[100]),
            (1, &[1 << 20]),
            (1, &[32 << 10, 32 << 10, 5]),
            (1, &[1000, 64 << 10, 64 << 10]),
            (8, &[4096, 10, 4096]),
            (3, &[20_000, 100]),
            (40_000, &[7, 2]),
            (64 << 10, &[4, 1]),
        ];
        for ((record_bytes, counts), number) in shapes.into_iter().zip(0_u8..) {
            let mut extents = Vec::new();
            for count in counts {
                let end = extents.last().map_or(0, |recx: &Recx| recx.index + recx.count);
                extents.push(Recx::new(end + 3, *count));
            }
            let len = usize::try_from(counts.iter().sum::<u64>() * record_bytes).unwrap();
            let array = |bytes: &[u8]| NewValue::Array {
                record_bytes,
                extents: extents.iter().copied().collect(),
                data: Payload::Owned(IoBuf::copy_of(bytes)),
            };
            let single = |bytes: &[u8]| NewValue::Single(Payload::Owned(IoBuf::copy_of(bytes)));
            let dkey = [number];
            // Beside others: its payload begins where theirs end.
            let values = [
                (b"a", array(&bytes[..len])),
                (b"b", single(&bytes[..77])),
                (b"c", array(&bytes[9..len + 9])),
            ];
            let iods: Vec<UpdateIod<'static>> = values
                .into_iter()
                .map(|(akey, value)| UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value })
                .collect();
            client.object.update(At::Latest, &dkey, Cond::NONE, &iods).unwrap();
            for (akey, from) in [(b"a", 0), (b"c", 9)] {
                let mut buf = IoBuf::zeroed(len);
                let want = Want::Array { record_bytes, extents: extents.iter().copied().collect() };
                let iods = [FetchIod { akey: Key::from_slice(akey), want }];
                client.object.fetch(At::Latest, &dkey, Cond::NONE, &iods, &mut buf).unwrap();
                assert!(buf[..] == bytes[from..from + len], "{way:?}: records of {record_bytes}");
            }
        }
        let audits = client.pool.scrub().unwrap();
        assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
    }
    daemon.assert_sound();
}

/// Where a test of several engines puts a way that alters: in the place of a socket, which goes elsewhere.
pub(crate) fn in_place_of(socket: &Path) -> Alterer {
    // Rings do not go this way.
    put_before(socket, |hello| hello.ring_bytes = 0)
}

/// The same with an engine of which others do not hear that it knows this.
pub(crate) fn who_hides(socket: &Path, features: u64) -> Alterer {
    let alterer = in_place_of(socket);
    alterer.plan().hidden = features;
    alterer
}

/// The same with an engine that speaks, with whoever comes to it, no version but the first.
pub(crate) fn of_the_version_before(socket: &Path) -> Alterer {
    put_before(socket, |hello| (hello.ring_bytes, hello.version_max) = (0, Version::One.number()))
}

fn put_before(socket: &Path, greet: fn(&mut Hello)) -> Alterer {
    let behind = PathBuf::from(format!("{}.real", socket.display()));
    std::fs::rename(socket, &behind).unwrap();
    Alterer::start(&Address::Unix(behind), socket, greet)
}
