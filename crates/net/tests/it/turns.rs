//! Many who ask for much at once: how much of that is begun before everybody has had his turn.

use crate::double::connect;
use crate::gone::Serving;
use core::time::Duration;
use dolmen_codec::verb::{Fetch, FetchIod, ReadAt, Reply, Verb, Want};
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Address, Listener};
use dolmen_net::client::{Door, Link, LinkOptions};
use dolmen_net::server::{Options, Server, System};
use dolmen_types::{
    Cond, ContNo, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx, Result, TargetNo, Uuid,
};
use std::sync::{Arc, Mutex};

/// Connections, and what each has under way.
const READERS: usize = 24;
const REQUESTS: usize = 20;

/// What each request asks for: a transfer of the usual size.
const LONG_BYTES: u64 = 1 << 20;

/// A pool with nothing in it, that looks how much is begun between two of its server's turns.
#[derive(Default)]
struct Scales {
    /// Held while nothing is to be begun; taken before `seen`, and given back at once.
    gate: Mutex<()>,
    /// Guards what it knows.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    done: Vec<Outcome>,
    /// Long fetches that were begun since the last look for answers, and the most between two such looks.
    begun: usize,
    most: usize,
    all: usize,
}

impl Transport for Scales {
    fn call(&self, request: Request<'_>) -> Outcome {
        panic!("nobody asks so: {:?}", request.ask)
    }

    fn open_queue(&self) -> Result<QueueId> {
        Ok(QueueId(0))
    }

    fn close_queue(&self, _queue: QueueId) {}

    fn submit(&self, _queue: QueueId, request: Request<'static>) {
        let Request { token, ask, .. } = request;
        drop(self.gate.lock().unwrap());
        let mut seen = self.seen.lock().unwrap();
        let outcome = match ask {
            // So begins a fetch that is to be answered in parts.
            Ask::Target(_, _, Verb::Latest) => {
                seen.begun += 1;
                seen.all += 1;
                Outcome { token, result: Ok(Answer::Target(Reply::Written(Epoch(5)))), buf: None }
            }
            Ask::Target(_, _, Verb::Fetch(fetch)) => {
                Outcome { token, result: Err(Error::NotFound), buf: Some(fetch.buf) }
            }
            other => panic!("nobody asks so: {other:?}"),
        };
        seen.done.push(outcome);
    }

    fn poll(&self, _queue: QueueId, _wait: bool, out: &mut Vec<Outcome>) {
        let mut seen = self.seen.lock().unwrap();
        seen.most = seen.most.max(seen.begun);
        seen.begun = 0;
        out.append(&mut seen.done);
    }
}

fn fetch() -> Request<'static> {
    let extents = core::iter::once(Recx::new(0, LONG_BYTES)).collect();
    let iod = FetchIod { akey: Key::from_slice(b"a"), want: Want::Array { record_bytes: 1, extents } };
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5);
    let buf = IoBuf::zeroed(usize::try_from(LONG_BYTES).unwrap());
    let (dkey, iods) = (Key::from_slice(b"d"), core::iter::once(iod).collect());
    let fetch = Fetch { oid, dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    let ask = Ask::Target(TargetNo(0), ContNo(1), Verb::Fetch(fetch));
    Request { token: 3, head: Head::default(), ask }
}

#[test]
fn of_many_who_ask_for_much_one_transfer_is_begun_before_everybody_has_his_turn() {
    let scales = Arc::new(Scales::default());
    let path = std::env::temp_dir().join(format!("dolmen-net-turns-{}", std::process::id()));
    let at = Address::Unix(path.clone());
    let listeners = vec![Listener::bind(&at).unwrap()];
    let system: Arc<dyn System> = Arc::new(Serving(Arc::<Scales>::clone(&scales)));
    let server = Server::start(&system, listeners, &Options::default()).unwrap();
    let readers: Vec<(Door, QueueId)> = (0..READERS)
        .map(|number| {
            let ring_bytes = if number % 2 == 0 { 64 << 10 } else { 0 };
            let options =
                LinkOptions { ring_bytes, patience: Duration::from_secs(60), ..LinkOptions::default() };
            let link = Link::connect(&at, &options).unwrap();
            let name = PoolName::Uuid(Uuid::nil());
            let asked = connect(name, PoolAccess::ReadWrite);
            let (door, _) = Door::open(&link, &Head::default(), asked).unwrap();
            // From now on the server knows what it asks for.
            assert_eq!(door.call(fetch()).result.err(), Some(Error::NotFound));
            let queue = door.open_queue().unwrap();
            (door, queue)
        })
        .collect();
    scales.seen.lock().unwrap().most = 0;
    let gate = scales.gate.lock().unwrap();
    for (door, queue) in &readers {
        (0..REQUESTS).for_each(|_| door.submit(*queue, fetch()));
    }
    drop(gate);
    let mut outcomes = Vec::new();
    for (door, queue) in &readers {
        let before = outcomes.len();
        while outcomes.len() < before + REQUESTS {
            door.poll(*queue, true, &mut outcomes);
        }
        door.close_queue(*queue);
    }
    assert!(outcomes.iter().all(|outcome| matches!(outcome.result, Err(Error::NotFound))));
    let (most, all) = scales.seen.lock().map(|seen| (seen.most, seen.all)).unwrap();
    assert_eq!(all, READERS * (REQUESTS + 1));
    assert!(most <= 2, "{most} were begun at once");
    server.stop();
    std::fs::remove_file(path).unwrap();
}
