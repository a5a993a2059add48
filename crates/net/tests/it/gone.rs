//! An epoch that goes while a long fetch is answered in parts: what the client gets is of one epoch, or the error.

use crate::double::{connect, pool_connection};
use core::time::Duration;
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContHandle, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Reply, Verb, Want};
use dolmen_codec::wire::{PoolAccess, PoolName, SystemReply, SystemVerb, Version, Welcome};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Address, Listener};
use dolmen_net::client::{Door, Link, LinkOptions};
use dolmen_net::server::{Attachment, Caller, Leases, Locks, OpenedPool, Options, Rights, Server, System};
use dolmen_types::{
    Cond, ContNo, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Props, Recx, Result,
    TargetNo, Uuid,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What is read: four parts.
const VALUE_BYTES: u64 = 512 << 10;
const PART_BYTES: u64 = 128 << 10;

/// The container of its pool.
pub(crate) const CONT: ContNo = ContNo(7);

/// The newest epoch when a fetch begins, and the oldest one that there is after so many parts.
const THEN: Epoch = Epoch(5);
const OLDEST: Epoch = Epoch(9);

/// A pool that has ones at an epoch until that is gone, and then twos in the first half.
#[derive(Default)]
pub(crate) struct Fading {
    /// Parts that are read before the epoch goes.
    pub(crate) parts: AtomicU64,
    /// Handles that are open.
    pub(crate) handles: AtomicU64,
    /// Those that ever were.
    pub(crate) opened: AtomicU64,
    /// Guards what nobody has taken yet.
    done: Mutex<Vec<Outcome>>,
}

impl Fading {
    fn fetched(&self, fetch: &mut Fetch) -> Result<Answer> {
        let [FetchIod { want: Want::Array { extents, .. }, .. }] = &fetch.iods[..] else {
            panic!("{fetch:?}")
        };
        let wanted = extents[0];
        let is_there = wanted.index / PART_BYTES < self.parts.load(Ordering::Relaxed);
        let (filled, byte) = match fetch.at {
            ReadAt::Epoch(THEN) if wanted.count <= PART_BYTES && is_there => (wanted, 1),
            ReadAt::Epoch(THEN) => return Err(Error::EpochGone { oldest: OLDEST }),
            _ => (Recx::new(0, VALUE_BYTES / 2), 2),
        };
        let len = usize::try_from(filled.count).unwrap();
        fetch.buf[..len].fill(byte);
        let fetched =
            FetchedIod { size_bytes: 1, filled: core::iter::once(filled).collect(), ..FetchedIod::default() };
        Ok(Answer::Target(Reply::Fetched(core::iter::once(fetched).collect())))
    }
}

impl Transport for Fading {
    fn call(&self, request: Request<'_>) -> Outcome {
        let reply = match &request.ask {
            Ask::Pool(PoolVerb::ContOpen(..)) => {
                self.handles.fetch_add(1, Ordering::Relaxed);
                self.opened.fetch_add(1, Ordering::Relaxed);
                let (uuid, hash_key) = (Uuid::from_u128(7), HashKey([1; 16]));
                PoolReply::Cont(ContHandle { no: CONT, uuid, label: None, hash_key, props: Props::default() })
            }
            Ask::Pool(PoolVerb::ContClose(CONT)) => {
                self.handles.fetch_sub(1, Ordering::Relaxed);
                PoolReply::Done
            }
            other => panic!("nobody asks so: {other:?}"),
        };
        Outcome { token: request.token, result: Ok(Answer::Pool(reply)), buf: None }
    }

    fn open_queue(&self) -> Result<QueueId> {
        Ok(QueueId(0))
    }

    fn close_queue(&self, _queue: QueueId) {}

    fn submit(&self, _queue: QueueId, request: Request<'static>) {
        let Request { token, ask, .. } = request;
        let outcome = match ask {
            Ask::Target(_, _, Verb::Latest) => {
                Outcome { token, result: Ok(Answer::Target(Reply::Written(THEN))), buf: None }
            }
            Ask::Target(_, _, Verb::Fetch(mut fetch)) => {
                let result = self.fetched(&mut fetch);
                Outcome { token, result, buf: Some(fetch.buf) }
            }
            other => panic!("nobody asks so: {other:?}"),
        };
        self.done.lock().unwrap().push(outcome);
    }

    fn poll(&self, _queue: QueueId, _wait: bool, out: &mut Vec<Outcome>) {
        out.append(&mut self.done.lock().unwrap());
    }
}

/// Serves a pool.
pub(crate) struct Serving(pub(crate) Arc<dyn Transport>);

impl System for Serving {
    fn welcome(&self, version: Version, ring_bytes: u64) -> Welcome {
        crate::double::welcome(version, ring_bytes)
    }

    fn answer(&self, _head: &Head, _caller: &Caller, ask: SystemVerb) -> Result<Attachment> {
        let SystemVerb::PoolConnect { .. } = ask else {
            return Ok(Attachment { reply: SystemReply::Done, pool: None, is_last: false });
        };
        let pool = OpenedPool {
            transport: Arc::clone(&self.0),
            is_read_only: false,
            answers_at_once: true,
            is_part: false,
            map_version: 1,
            uid: 0,
            rights: Rights::All,
            user: None,
            holders: Arc::default(),
            locks: Arc::new(Locks::new(false, 0, Box::new(|| true))),
            leases: Arc::new(Leases::new(HashKey([7; 16]), false, 0, Vec::new(), Box::new(|| true))),
            files: None,
        };
        let reply = SystemReply::Connected(Box::new(pool_connection()));
        Ok(Attachment { reply, pool: Some(pool), is_last: false })
    }

    fn end(&self) {}

    fn note(&self, text: &str) {
        eprintln!("server: {text}");
    }
}

pub(crate) fn fetch(at: ReadAt) -> Request<'static> {
    let extents = core::iter::once(Recx::new(0, VALUE_BYTES)).collect();
    let iod = FetchIod { akey: Key::from_slice(b"a"), want: Want::Array { record_bytes: 1, extents } };
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5);
    let buf = IoBuf::zeroed(usize::try_from(VALUE_BYTES).unwrap());
    let (dkey, iods) = (Key::from_slice(b"d"), core::iter::once(iod).collect());
    let fetch = Fetch { oid, dkey, cond: Cond::NONE, at, iods, buf };
    let ask = Ask::Target(TargetNo(0), ContNo(1), Verb::Fetch(fetch));
    Request { token: 3, head: Head::default(), ask }
}

/// The answer, by a call and by a queue.
pub(crate) fn answers(door: &Door, at: ReadAt) -> [Outcome; 2] {
    let queue = door.open_queue().unwrap();
    door.submit(queue, fetch(at));
    let mut outcomes = Vec::new();
    while outcomes.is_empty() {
        door.poll(queue, true, &mut outcomes);
    }
    door.close_queue(queue);
    [door.call(fetch(at)), outcomes.pop().unwrap()]
}

#[test]
fn an_epoch_that_goes_between_two_parts_is_given_up_for_one_answer_of_the_next_or_an_error() {
    let fading = Arc::new(Fading::default());
    let path = std::env::temp_dir().join(format!("dolmen-net-gone-{}", std::process::id()));
    let at = [Address::Unix(path.clone()), Address::Tcp("127.0.0.1:0".parse().unwrap())];
    let listeners: Vec<Listener> = at.iter().map(|at| Listener::bind(at).unwrap()).collect();
    let tcp = listeners[1].address().clone();
    let system: Arc<dyn System> = Arc::new(Serving(Arc::<Fading>::clone(&fading)));
    let server = Server::start(&system, listeners, &Options::default()).unwrap();
    for (address, ring_bytes) in [(&at[0], 64 << 10), (&at[0], 0), (&tcp, 0)] {
        let options = LinkOptions { ring_bytes, patience: Duration::from_secs(20), ..LinkOptions::default() };
        let link = Link::connect(address, &options).unwrap();
        assert_eq!(link.is_ring(), ring_bytes > 0);
        let name = PoolName::Uuid(Uuid::nil());
        let (door, _) = Door::open(&link, &Head::default(), connect(name, PoolAccess::ReadWrite)).unwrap();
        let half = usize::try_from(VALUE_BYTES / 2).unwrap();
        for parts in 0..=VALUE_BYTES / PART_BYTES {
            fading.parts.store(parts, Ordering::Relaxed);
            let is_whole = parts == VALUE_BYTES / PART_BYTES;
            for outcome in answers(&door, ReadAt::Latest) {
                let Ok(Answer::Target(Reply::Fetched(fetched))) = outcome.result else {
                    panic!("after {parts} parts: {:?}", outcome.result)
                };
                let buf = outcome.buf.unwrap();
                let (there, rest) = buf.split_at(if is_whole { 2 * half } else { half });
                let wanted = if is_whole { 1 } else { 2 };
                assert!(there.iter().all(|&byte| byte == wanted), "{address}: after {parts} parts");
                assert!(rest.iter().all(|&byte| byte == 0), "{address}: after {parts} parts");
                let filled: u64 = fetched[0].filled.iter().map(|recx| recx.count).sum();
                assert_eq!(filled, there.len() as u64);
            }
            for outcome in answers(&door, ReadAt::Epoch(THEN)) {
                let wanted = if is_whole { None } else { Some(Error::EpochGone { oldest: OLDEST }) };
                assert_eq!(outcome.result.err(), wanted, "{address}: after {parts} parts");
            }
        }
    }
    server.stop();
    std::fs::remove_file(path).unwrap();
}
