//! A double of a daemon that answers through rings whatever it likes: header and body of an answer that has changed there are
//! found, and asked for again.

use core::time::Duration;
use dolmen_codec::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Reply, Verb, Want};
use dolmen_codec::wire::{
    AskKind, FetchPlan, HELLO_BYTES, PoolAccess, PoolConnection, PoolName, PoolSlot, REQUEST_HEADER_BYTES,
    ReplyTo, RequestHeader, SystemInfo, SystemReply, SystemVerb, Version, Welcome, encode_reply,
    encode_system_reply,
};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{Address, Listener, Moved, Rng, SharedMemory, Socket, Waiter, spawn};
use dolmen_net::client::{Door, Link, LinkOptions};
use dolmen_net::{Stream, ring};
use dolmen_types::{
    Cond, ContNo, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, PoolMap, TargetNo, Uuid,
};
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

const LIMIT: Duration = Duration::from_secs(20);
const RING_BYTES: usize = 64 << 10;
const VALUE: [u8; 3000] = [7; 3000];

pub(crate) fn welcome(version: Version, ring_bytes: u64) -> Welcome {
    Welcome {
        version,
        rank: 0,
        engine: Uuid::nil(),
        instance: 1,
        features: 0,
        ring_bytes,
        body_bytes_max: 1 << 20,
        payload_bytes_max: 1 << 20,
        requests_max: 16,
        system: "double".to_owned(),
    }
}

pub(crate) fn pool_connection() -> PoolConnection {
    let map = PoolMap { version: 1, pool: Uuid::nil(), targets: Vec::new() };
    PoolConnection { slot: PoolSlot(1), uuid: Uuid::nil(), label: None, map, ranks: Vec::new(), evictions: 0 }
}

pub(crate) fn connect(name: PoolName, access: PoolAccess) -> SystemVerb {
    SystemVerb::PoolConnect { name, access }
}

/// What becomes of the next answers to questions of one kind.
enum Fault {
    /// A bit of the byte at this place of header and body is turned around, in the next one.
    Flip(usize),
    /// Other bytes come in place of all of them.
    Garbage(Rng),
}

#[derive(Default)]
struct Plan {
    fault: Option<(AskKind, Fault)>,
    /// Bytes of header and body of the last answer.
    len: usize,
}

fn info() -> SystemInfo {
    SystemInfo { name: "double".to_owned(), ranks: Vec::new(), pool_count: 3 }
}

fn fetch() -> Fetch {
    let want = Want::Single { room_bytes: VALUE.len() };
    let iods = core::iter::once(FetchIod { akey: Key::from_slice(b"a"), want }).collect();
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5);
    let (dkey, buf) = (Key::from_slice(b"d"), IoBuf::zeroed(VALUE.len()));
    Fetch { oid, dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf }
}

/// Reads until `bytes` are full; false once the other end is gone.
fn pull(stream: &mut Stream, bytes: &mut [u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        match stream.read(&mut bytes[at..]) {
            Ok(0) if stream.wait(false, Some(LIMIT)).is_err() => return false,
            Ok(len) => at += len,
            Err(_) => return false,
        }
    }
    true
}

fn push(stream: &mut Stream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) if stream.wait(true, Some(LIMIT)).is_err() => return false,
            Ok(len) => bytes = &bytes[len..],
            Err(_) => return false,
        }
    }
    stream.flush().is_ok()
}

/// Header and body, and the payload, that a question is answered with.
fn answer(header: &RequestHeader) -> (Vec<u8>, &'static [u8]) {
    let plan = FetchPlan::of(&fetch());
    let (version, mut frame) = (Version::NEWEST, Vec::new());
    let mut to =
        ReplyTo { version, token: header.token, map_version: 1, push_seq: 0, lease: (0, 0), plan: None };
    let reply = match header.kind {
        AskKind::Fetch => {
            to.plan = Some(&plan);
            let found = FetchedIod { size_bytes: VALUE.len() as u64, ..FetchedIod::default() };
            let fetched = Reply::Fetched(core::iter::once(found).collect());
            encode_reply(&mut frame, &to, &Ok(Answer::Target(fetched)));
            return (frame, &VALUE);
        }
        AskKind::PoolConnect => SystemReply::Connected(Box::new(pool_connection())),
        AskKind::SystemQuery => SystemReply::System(info()),
        _ => SystemReply::Done,
    };
    encode_system_reply(&mut frame, &to, &Ok(reply));
    (frame, &[])
}

/// Greets a client, and answers it until it goes.
fn serve(socket: Socket, plan: &Mutex<Plan>) {
    let (mut hello, mut at) = ([0; HELLO_BYTES], 0);
    while at < hello.len() {
        match socket.read(&mut hello[at..]) {
            Ok(Moved::Bytes(len)) => at += len,
            Ok(Moved::Later) => drop(socket.wait(true, false, Some(LIMIT))),
            Ok(Moved::End) | Err(_) => return,
        }
    }
    let memory = SharedMemory::create(ring::memory_bytes(RING_BYTES)).unwrap();
    let welcome = welcome(Version::NEWEST, RING_BYTES as u64).encode();
    socket.write_with(&[IoSlice::new(&welcome)], memory.fd()).unwrap();
    let mut stream = Stream::over_socket(socket);
    stream.go_over_to_rings(memory, RING_BYTES, true).unwrap();
    loop {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        if !pull(&mut stream, &mut bytes) {
            return;
        }
        let header = RequestHeader::decode(&bytes, Version::NEWEST).unwrap();
        if !pull(&mut stream, &mut vec![0; header.body_bytes as usize]) {
            return;
        }
        let (mut frame, payload) = answer(&header);
        plan.lock().unwrap().change(header.kind, &mut frame);
        if !push(&mut stream, &frame) || !push(&mut stream, payload) {
            return;
        }
    }
}

impl Plan {
    fn change(&mut self, kind: AskKind, frame: &mut [u8]) {
        match &mut self.fault {
            Some((of, Fault::Flip(at))) if *of == kind => {
                self.len = frame.len();
                if let Some(byte) = frame.get_mut(*at) {
                    *byte ^= 1 << (*at % 8);
                }
                self.fault = None;
            }
            Some((of, Fault::Garbage(rng))) if *of == kind => rng.fill(frame),
            _ => {}
        }
    }
}

/// A client of a double that does what the plan says.
fn doubled(name: &str) -> (Link, Arc<Mutex<Plan>>) {
    let path = std::env::temp_dir().join(format!("dolmen-net-{name}-{}", std::process::id()));
    let listener = Listener::bind(&Address::Unix(path)).unwrap();
    let (address, plan) = (listener.address().clone(), Arc::<Mutex<Plan>>::default());
    let shared = Arc::clone(&plan);
    // It ends with the test's process.
    drop(spawn("double", move || {
        let (waiter, mut ready) = (Waiter::new().unwrap(), Vec::new());
        waiter.add(&listener, 0, false).unwrap();
        loop {
            waiter.wait(None, &mut ready).unwrap();
            let Some(socket) = listener.accept().unwrap() else { continue };
            serve(socket, &shared);
        }
    }));
    let options = LinkOptions { ring_bytes: RING_BYTES, patience: LIMIT, ..LinkOptions::default() };
    let link = Link::connect(&address, &options).unwrap();
    assert!(link.is_ring());
    (link, plan)
}

fn set(plan: &Mutex<Plan>, kind: AskKind, fault: Fault) {
    plan.lock().unwrap().fault = Some((kind, fault));
}

#[test]
fn what_changes_in_header_or_body_of_an_answer_in_rings_is_asked_for_again() {
    let (link, plan) = doubled("flipped");
    let name = PoolName::Uuid(Uuid::nil());
    let (door, _) = Door::open(&link, &Head::default(), connect(name, PoolAccess::ReadWrite)).unwrap();
    for at in 0.. {
        set(&plan, AskKind::SystemQuery, Fault::Flip(at));
        assert_eq!(
            link.ask_system(&Head::default(), &SystemVerb::Query),
            Ok(SystemReply::System(info())),
            "byte {at}"
        );
        let has_query = at < plan.lock().unwrap().len;
        set(&plan, AskKind::Fetch, Fault::Flip(at));
        let ask = Ask::Target(TargetNo(0), ContNo(1), Verb::Fetch(fetch()));
        let outcome = door.call(Request { token: 3, head: Head::default(), ask });
        assert!(
            matches!(outcome.result, Ok(Answer::Target(Reply::Fetched(_)))),
            "{at}: {:?}",
            outcome.result
        );
        assert!(outcome.buf.unwrap()[..] == VALUE, "byte {at}");
        if !has_query && at >= plan.lock().unwrap().len {
            assert!(at > 60, "headers alone are longer");
            break;
        }
    }
}

#[test]
fn a_daemon_that_answers_with_garbage_through_rings_is_given_up_with_an_error() {
    const SEED: u64 = 29;
    println!("seed {SEED}");
    let (link, plan) = doubled("garbage");
    let name = PoolName::Uuid(Uuid::nil());
    let (door, _) = Door::open(&link, &Head::default(), connect(name, PoolAccess::ReadWrite)).unwrap();
    set(&plan, AskKind::Fetch, Fault::Garbage(Rng::from_seed(SEED)));
    let queue = door.open_queue().unwrap();
    let ask = || Ask::Target(TargetNo(0), ContNo(1), Verb::Fetch(fetch()));
    door.submit(queue, Request { token: 3, head: Head::default(), ask: ask() });
    let mut outcomes = Vec::new();
    while outcomes.is_empty() {
        door.poll(queue, true, &mut outcomes);
    }
    assert_eq!(outcomes[0].result.as_ref().err(), Some(&Error::Unreachable { rank: 0 }));
    // Nothing of it has come to the buffer, and whoever is answered goes on.
    assert!(outcomes[0].buf.as_ref().unwrap().iter().all(|&byte| byte == 0));
    plan.lock().unwrap().fault = None;
    let outcome = door.call(Request { token: 4, head: Head::default(), ask: ask() });
    assert!(outcome.result.is_ok() && outcome.buf.unwrap()[..] == VALUE);
}
