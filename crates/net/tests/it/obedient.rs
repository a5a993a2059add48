//! A daemon that is told when to answer, and when to die; and, if it is to be, one that answers wrongly.
//!
//! It has every pool that somebody asks for, and in each the container `c`. What it was asked it keeps, in words.

use dolmen_codec::lock::LockReply;
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContHandle, PoolInfo, PoolReply, PoolVerb};
use dolmen_codec::verb::{FetchedIod, Reply, Verb};
use dolmen_codec::wire::{
    Asked, FEATURE_LEASES, FetchPlan, HELLO_BYTES, Hello, PAYLOAD_SUM_BYTES, PoolConnection, PoolName,
    PoolSlot, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, RankInfo, ReplyHeader, ReplyTo, RequestHeader,
    SystemReply, SystemVerb, Version, Welcome, decode_request_owned, decode_system_request, encode_reply,
    encode_system_reply,
};
use dolmen_codec::{Answer, Ask};
use dolmen_env::{Address, Waiter};
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::{ContNo, Epoch, Error, IoBuf, PoolMap, Props, TargetInfo, TargetState, Uuid, crc32c};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The container that each pool has.
pub(crate) const CONT: ContNo = ContNo(7);

/// What its values are.
pub(crate) const VALUE: &[u8] = b"forty-two bytes that a fetch finds, always";

/// How it answers wrongly, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spite {
    /// A request with a payload, before that has come.
    Early,
    /// Twice.
    Twice,
    /// A fetch, with a payload that is shorter than what it says.
    Short,
}

pub(crate) struct Double {
    at: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Guards all that it knows.
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    /// Which engine of its system it is, and all of these, each of which has one target of each pool; empty if it is the only one
    /// and has none.
    rank: u32,
    ranks: Vec<RankInfo>,
    log: Vec<String>,
    /// Whose answers are kept back, and those that are.
    held: Vec<String>,
    kept: Vec<(String, usize, Vec<u8>)>,
    conns: BTreeMap<usize, Conn>,
    last: usize,
    spite: Option<Spite>,
}

struct Conn {
    stream: UnixStream,
    /// By number, from 1.
    pools: Vec<Option<String>>,
    /// Handles on the container of a pool.
    handles: BTreeMap<String, u32>,
}

pub(crate) fn uuid(name: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Uuid::from_bytes(bytes)
}

fn name_of(name: &PoolName) -> String {
    let PoolName::Uuid(uuid) = name else { panic!("pools are named by UUID") };
    String::from_utf8(uuid.as_bytes().iter().copied().take_while(|&byte| byte != 0).collect()).unwrap()
}

impl Double {
    /// The engines of one system.
    pub(crate) fn start_several(count: u32) -> Vec<Self> {
        let all: Vec<Self> = (0..count).map(|_| Self::start()).collect();
        let info = |(rank, double): (u32, &Self)| RankInfo {
            rank,
            uuid: Uuid::nil(),
            addresses: vec![format!("unix:{}", double.at.display())],
        };
        let ranks: Vec<RankInfo> = (0..).zip(&all).map(info).collect();
        for (rank, double) in (0..).zip(&all) {
            let mut state = double.shared.lock();
            (state.rank, state.ranks) = (rank, ranks.clone());
        }
        all
    }

    /// Ends all connections, and takes no more.
    pub(crate) fn go_away(&self) {
        std::fs::remove_file(&self.at).unwrap();
        self.restart();
    }

    pub(crate) fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dolmen-double-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let at = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&at).unwrap();
        let shared = Arc::<Shared>::default();
        let double = Self { at, shared: Arc::clone(&shared) };
        spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                spawn(move || serve(&shared, stream));
            }
        });
        double
    }

    /// A connection to it, of a client that waits so long.
    pub(crate) fn link(&self, patience: Duration) -> Link {
        let options = LinkOptions { ring_bytes: 0, patience, ..LinkOptions::default() };
        Link::connect(&Address::Unix(self.at.clone()), &options).unwrap()
    }

    /// Ends all connections, as when it is killed and started again.
    pub(crate) fn restart(&self) {
        let mut state = self.shared.lock();
        state.log.push("restart".to_owned());
        state.kept.clear();
        for (_, conn) in core::mem::take(&mut state.conns) {
            conn.stream.shutdown(Shutdown::Both).unwrap();
        }
    }

    /// Keeps answers to this question back.
    pub(crate) fn hold(&self, question: &str) {
        self.shared.lock().held.push(question.to_owned());
    }

    /// Answers what was kept back, and what is asked from now on.
    pub(crate) fn let_go(&self) {
        let mut state = self.shared.lock();
        state.held.clear();
        for (_, conn, frame) in core::mem::take(&mut state.kept) {
            if let Some(conn) = state.conns.get_mut(&conn) {
                conn.stream.write_all(&frame).unwrap();
            }
        }
    }

    pub(crate) fn spite(&self, spite: Spite) {
        self.shared.lock().spite = Some(spite);
    }

    /// Waits until it was asked this so often.
    pub(crate) fn until_asked(&self, question: &str, count: usize) {
        let is_missing = |state: &mut State| state.count(question) < count;
        let state = self.shared.lock();
        let (state, waited) = self.shared.asked.wait_timeout_while(state, LIMIT, is_missing).unwrap();
        assert!(!waited.timed_out(), "{question}: {:?}", state.log);
    }

    pub(crate) fn asked(&self, question: &str) -> usize {
        self.shared.lock().count(question)
    }

    /// The pools that are open, with the handles in each, of all connections.
    pub(crate) fn open(&self) -> Vec<(String, u32)> {
        let state = self.shared.lock();
        let of_conn = |conn: &Conn| {
            let names = conn.pools.iter().flatten().cloned();
            names.map(|name| (name.clone(), conn.handles.get(&name).copied().unwrap_or(0))).collect()
        };
        let mut open: Vec<_> = state.conns.values().flat_map(|conn| -> Vec<_> { of_conn(conn) }).collect();
        open.sort();
        open
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.at));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn count(&self, question: &str) -> usize {
        self.log.iter().filter(|asked| *asked == question).count()
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    drop(dolmen_env::spawn("double", body).unwrap());
}

fn serve(shared: &Shared, mut stream: UnixStream) {
    let mut hello = [0; HELLO_BYTES];
    if stream.read_exact(&mut hello).is_err() {
        return;
    }
    assert_eq!(Hello::decode(&hello).unwrap().agreed(), Some(Version::NEWEST));
    let at = {
        let mut state = shared.lock();
        state.last += 1;
        let at = state.last;
        let conn = Conn { stream: stream.try_clone().unwrap(), pools: Vec::new(), handles: BTreeMap::new() };
        state.conns.insert(at, conn);
        // Inside: it may be told to die at once.
        drop(stream.write_all(&welcome(state.rank).encode()));
        at
    };
    while answer_next(shared, &mut stream, at).is_some() {}
    shared.lock().conns.remove(&at);
}

fn welcome(rank: u32) -> Welcome {
    Welcome {
        version: Version::NEWEST,
        rank,
        engine: Uuid::nil(),
        instance: 1,
        features: FEATURE_LEASES,
        ring_bytes: 0,
        body_bytes_max: 1 << 20,
        payload_bytes_max: 1 << 30,
        requests_max: 1 << 10,
        system: "double".to_owned(),
    }
}

/// Takes a request and answers it; `None` at the end of the connection.
fn answer_next(shared: &Shared, stream: &mut UnixStream, at: usize) -> Option<()> {
    let mut head = [0; REQUEST_HEADER_BYTES];
    stream.read_exact(&mut head).ok()?;
    let header = RequestHeader::decode(&head, Version::NEWEST).unwrap();
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body).ok()?;
    let to = ReplyTo {
        version: Version::NEWEST,
        token: header.token,
        map_version: 0,
        push_seq: 0,
        lease: (0, 0),
        plan: None,
    };
    let is_early = header.payload_bytes > 0 && shared.takes_spite(Spite::Early);
    if is_early {
        let mut frame = Vec::new();
        encode_reply(&mut frame, &to, &Ok(Answer::Target(Reply::Written(Epoch(1)))));
        stream.write_all(&frame).ok()?;
        // What else comes is not taken: whoever sends it has more of that than any socket takes, and so the answer before all of
        // it is sent.
        let waiter = Waiter::new().unwrap();
        waiter.add(stream, 0, false).unwrap();
        waiter.change(stream, 0, false, false).unwrap();
        waiter.wait(None, &mut Vec::new()).unwrap();
        return None;
    }
    let payload = payload_of(stream, &header)?;
    let mut state = shared.state.lock().unwrap();
    let (question, mut frame) = state.answer(at, &header, &body, payload, to)?;
    state.log.push(question.clone());
    shared.asked.notify_all();
    if state.held.contains(&question) {
        state.kept.push((question, at, frame));
        return Some(());
    }
    drop(state);
    if shared.takes_spite(Spite::Twice) {
        frame.extend_from_within(..);
    }
    stream.write_all(&frame).ok()
}

impl Shared {
    fn takes_spite(&self, spite: Spite) -> bool {
        self.lock().spite.take_if(|wanted| *wanted == spite).is_some()
    }
}

fn payload_of(stream: &mut UnixStream, header: &RequestHeader) -> Option<IoBuf> {
    let mut payload = IoBuf::zeroed(usize::try_from(header.payload_bytes).unwrap());
    if !payload.is_empty() {
        let mut sum = [0; PAYLOAD_SUM_BYTES];
        stream.read_exact(&mut payload).ok()?;
        stream.read_exact(&mut sum).ok()?;
        assert_eq!(u32::from_le_bytes(sum), crc32c(&payload));
    }
    Some(payload)
}

impl State {
    /// What was asked, in words, and the frame of the answer; `None` if the connection has ended.
    fn answer(
        &mut self,
        at: usize,
        header: &RequestHeader,
        body: &[u8],
        payload: IoBuf,
        to: ReplyTo<'_>,
    ) -> Option<(String, Vec<u8>)> {
        let (spite, ranks) = (self.spite, &self.ranks);
        let conn = self.conns.get_mut(&at)?;
        let mut frame = Vec::new();
        if header.pool == PoolSlot::SYSTEM {
            let (question, reply) = conn.answer_system(decode_system_request(header, body).unwrap(), ranks);
            encode_system_reply(&mut frame, &to, &reply);
            return Some((question, frame));
        }
        let Asked { mut ask, room_bytes } = decode_request_owned(header, body, payload).unwrap();
        let Some(pool) = conn.pool(header.pool) else {
            encode_reply(&mut frame, &to, &Err(Error::NoPermission));
            return Some((format!("nobody's {}", header.pool.0), frame));
        };
        if let Ask::Target(_, _, Verb::Fetch(fetch)) = &mut ask {
            fetch.buf = IoBuf::zeroed(room_bytes);
            let plan = FetchPlan::of(fetch);
            let found = FetchedIod { size_bytes: VALUE.len() as u64, ..FetchedIod::default() };
            let fetched = Answer::Target(Reply::Fetched([found].into_iter().collect()));
            encode_reply(&mut frame, &ReplyTo { plan: Some(&plan), ..to }, &Ok(fetched));
            let mut value = VALUE;
            if spite == Some(Spite::Short) {
                (self.spite, value) = (None, &VALUE[1..]);
                shorten(&mut frame, value.len());
            }
            frame.extend_from_slice(value);
            frame.extend_from_slice(&crc32c(value).to_le_bytes());
            return Some((format!("fetch {pool}"), frame));
        }
        let (question, reply) = conn.answer_pool(&pool, &ask, ranks);
        encode_reply(&mut frame, &to, &reply);
        Some((question, frame))
    }
}

/// Lets the header of a reply say another length of its payload.
fn shorten(frame: &mut [u8], payload_bytes: usize) {
    let head = frame.first_chunk_mut::<REPLY_HEADER_BYTES>().unwrap();
    let header = ReplyHeader::decode(head, Version::NEWEST).unwrap();
    *head = ReplyHeader { payload_bytes: u32::try_from(payload_bytes).unwrap(), ..header }.encode();
}

impl Conn {
    fn pool(&self, slot: PoolSlot) -> Option<String> {
        self.pools.get(usize::from(slot.0).checked_sub(1)?)?.clone()
    }

    fn answer_system(
        &mut self,
        verb: SystemVerb,
        ranks: &[RankInfo],
    ) -> (String, Result<SystemReply, Error>) {
        match verb {
            SystemVerb::PoolConnect { name, .. } => {
                let name = name_of(&name);
                let free = self.pools.iter().position(Option::is_none);
                let place = free.unwrap_or_else(|| {
                    self.pools.push(None);
                    self.pools.len() - 1
                });
                self.pools[place] = Some(name.clone());
                let slot = PoolSlot(u16::try_from(place + 1).unwrap());
                let (uuid, map) = (uuid(&name), map_of(&name, ranks));
                let connected =
                    PoolConnection { slot, uuid, label: None, map, ranks: ranks.to_vec(), evictions: 0 };
                (format!("connect {name}"), Ok(SystemReply::Connected(Box::new(connected))))
            }
            SystemVerb::PoolDisconnect { slot } => match self.pool(slot) {
                Some(name) => {
                    self.pools[usize::from(slot.0) - 1] = None;
                    self.handles.remove(&name);
                    (format!("leave {name}"), Ok(SystemReply::Done))
                }
                None => (format!("leave nobody's {}", slot.0), Err(Error::NotFound)),
            },
            SystemVerb::Ping => ("ping".to_owned(), Ok(SystemReply::Done)),
            other => panic!("{other:?}"),
        }
    }

    fn answer_pool(
        &mut self,
        pool: &str,
        ask: &Ask<'_>,
        ranks: &[RankInfo],
    ) -> (String, Result<Answer, Error>) {
        let handles = self.handles.entry(pool.to_owned()).or_default();
        match ask {
            Ask::Pool(PoolVerb::Query) => {
                let info =
                    PoolInfo { map: map_of(pool, ranks), label: None, space: Vec::new(), cont_count: 1 };
                (format!("query {pool}"), Ok(Answer::Pool(PoolReply::Pool(info))))
            }
            Ask::Pool(PoolVerb::ContOpen(..)) => {
                *handles += 1;
                let (uuid, hash_key, props) = (uuid("c"), HashKey([1; 16]), Props::default());
                let handle = ContHandle { no: CONT, uuid, label: None, hash_key, props };
                (format!("open {pool}/c"), Ok(Answer::Pool(PoolReply::Cont(handle))))
            }
            Ask::Pool(PoolVerb::ContClose(_)) => {
                let closed = handles.checked_sub(1).ok_or(Error::NoHandle);
                *handles = closed.clone().unwrap_or(0);
                (format!("close {pool}/c"), closed.map(|_| Answer::Pool(PoolReply::Done)))
            }
            Ask::Pool(PoolVerb::Lock(_, ask)) => {
                let question = format!("lock {pool} {:?} {:?}", ask.action, ask.range.kind);
                (question, Ok(Answer::Pool(PoolReply::Lock(LockReply::Done))))
            }
            Ask::Target(_, _, Verb::Update(_)) => {
                (format!("update {pool}"), Ok(Answer::Target(Reply::Written(Epoch(1)))))
            }
            other => panic!("{other:?}"),
        }
    }
}

fn map_of(pool: &str, ranks: &[RankInfo]) -> PoolMap {
    let target = |info: &RankInfo| TargetInfo { rank: info.rank, state: TargetState::UpIn };
    PoolMap { version: 1, pool: uuid(pool), targets: ranks.iter().map(target).collect() }
}
