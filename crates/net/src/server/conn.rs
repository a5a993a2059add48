//! One connection: what its peer may do, what it holds, and what goes to and from it.
//!
//! Invariants: nothing is taken from a peer that has not said hello, nor from one that has as much under way as it may or
//! does not read its answers; whoever comes over a Unix socket is who the kernel says; what is held is given back once.

use super::Attachment;
use super::jobs::{Job, JobReply, Mailbox};
use super::worker::{Shared, UnderWay, token_of};
use crate::error::{Error, Result, Violation};
use crate::input::{Requests, bad_frame, fill};
use crate::output::Output;
use crate::ring;
use crate::stream::Stream;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::verb::{Reply, Verb};
use dolmen_codec::wire::{
    Asked, FetchPlan, HELLO_BYTES, Hello, PoolSlot, Refusal, ReplyTo, RequestHeader, SystemReply, SystemVerb,
    WELCOME_BYTES, decode_request_owned, decode_request_shared, decode_system_request, encode_reply,
    encode_system_reply,
};
use dolmen_codec::{Answer, Ask, Transport};
use dolmen_env::{Peer, SharedMemory, Socket, Waiter, peer_watch};
use dolmen_types::{ContNo, Error as Failure, Head, IoBuf};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Requests that one connection may have under way; a client that sends more waits.
pub const REQUESTS_MAX: u32 = 1024;

/// Bytes of payload and of buffers that one connection may have under way.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Requests that are taken from one connection before the next has its turn.
const REQUESTS_A_TURN: usize = 16;

/// Pools that one connection may use.
const POOLS_MAX: usize = 256;

/// Containers that one connection may hold open in a pool.
const CONTS_MAX: usize = 65_536;

/// What a step has done.
pub(super) enum Step {
    Moved,
    Still,
}

/// What a request to the service does to the connection's handles when it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handles {
    Same,
    Opens,
    Closes(ContNo),
}

pub(super) struct Conn {
    stream: Stream,
    peer: Option<Peer>,
    watch: Option<OwnedFd>,
    serial: u64,
    is_hot: bool,
    waits_for_room: bool,
    hello: Option<([u8; HELLO_BYTES], usize)>,
    requests: Requests,
    output: Output,
    must_flush: bool,
    pools: Vec<Option<Attached>>,
    under_way: usize,
    held_bytes: usize,
}

/// A pool that the connection uses.
struct Attached {
    pool: usize,
    transport: Arc<dyn Transport>,
    is_read_only: bool,
    map_version: u32,
    /// Handles that it has on containers.
    conts: BTreeMap<ContNo, u32>,
}

impl Conn {
    pub(super) fn new(socket: Socket, serial: u64) -> Result<Self> {
        let peer = socket.peer()?;
        Ok(Self {
            stream: Stream::over_socket(socket),
            peer,
            watch: None,
            serial,
            is_hot: false,
            waits_for_room: false,
            hello: Some(([0; HELLO_BYTES], 0)),
            requests: Requests::new(),
            output: Output::default(),
            must_flush: false,
            pools: Vec::new(),
            under_way: 0,
            held_bytes: 0,
        })
    }

    /// Lets `waiter` tell of the socket, and of the end of the process at its other end: a forked child may keep the socket.
    pub(super) fn watch(&mut self, waiter: &Waiter, token: u64, peer_token: u64) -> Result<()> {
        waiter.add(self.stream.socket(), token, false)?;
        if let Some(peer) = self.peer {
            // Who has ended since is found by reading.
            if let Ok(watch) = peer_watch(peer.pid) {
                self.watch = Some(watch);
            }
        }
        if let Some(watch) = &self.watch {
            waiter.add(watch, peer_token, false)?;
        }
        Ok(())
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn is_hot(&self) -> bool {
        self.is_hot
    }

    pub(super) fn set_hot(&mut self, on: bool) {
        self.is_hot = on;
    }

    /// For messages: who this is.
    pub(super) fn who(&self) -> String {
        match self.peer {
            Some(Peer { pid, uid, .. }) => format!("process {pid} of user {uid}"),
            None => format!("{}", self.stream.socket().address()),
        }
    }

    /// Goes to sleep; whether there is something to do instead.
    pub(super) fn rest(&mut self, waiter: &Waiter, at: usize) -> Result<bool> {
        let waits_for_room = !self.output.is_empty() || !self.stream.flush()?;
        if waits_for_room != self.waits_for_room && !self.stream.is_ring() {
            waiter.change(self.stream.socket(), token_of(at), waits_for_room)?;
        }
        self.waits_for_room = waits_for_room;
        let is_ready = self.stream.rest(waits_for_room)?;
        Ok(is_ready && (waits_for_room || !self.is_full()))
    }

    /// Is awake again.
    pub(super) fn wake(&mut self, waiter: &Waiter, at: usize) -> Result<()> {
        if self.waits_for_room && !self.stream.is_ring() {
            waiter.change(self.stream.socket(), token_of(at), false)?;
            self.waits_for_room = false;
        }
        self.stream.wake()
    }

    fn is_full(&self) -> bool {
        self.under_way >= REQUESTS_MAX as usize
            || self.held_bytes >= HELD_BYTES_MAX
            || !self.output.is_empty()
    }

    /// Sends what waits, and takes what has come.
    pub(super) fn step(&mut self, at: usize, shared: &mut Shared) -> Result<Step> {
        if self.hello.is_some() {
            return self.greet(shared);
        }
        let mut moved = false;
        if !self.output.is_empty() {
            moved |= self.output.go_on(&mut self.stream)?;
            self.must_flush = true;
            while let Some(buf) = self.output.take_done() {
                shared.bufs.give(buf);
            }
        }
        for _ in 0..REQUESTS_A_TURN {
            if self.is_full() {
                break;
            }
            let bufs = &mut shared.bufs;
            let next = self.requests.next(&mut self.stream, |len| bufs.hold(len).then(|| bufs.take(len)))?;
            let Some((header, payload)) = next else { break };
            moved = true;
            self.take(at, shared, &header, payload)?;
        }
        if moved || self.must_flush {
            self.must_flush = !self.stream.flush()?;
        }
        Ok(if moved { Step::Moved } else { Step::Still })
    }

    /// Takes the hello, and answers it: with rings if they are asked for and possible.
    fn greet(&mut self, shared: &mut Shared) -> Result<Step> {
        let Some((bytes, at)) = &mut self.hello else { return Ok(Step::Still) };
        if !fill(&mut self.stream, bytes, at)? {
            return Ok(Step::Still);
        }
        let hello = Hello::decode(bytes).map_err(bad_frame)?;
        self.hello = None;
        let Some(version) = hello.agreed() else {
            self.say(&Refusal::VERSION.encode(), None)?;
            return Err(Error::Protocol(Violation::Version));
        };
        let wanted = usize::try_from(hello.ring_bytes).unwrap_or(usize::MAX);
        let granted = match self.peer {
            Some(_) if wanted > 0 => {
                wanted.clamp(ring::RING_BYTES_MIN, shared.options.ring_bytes_max).next_power_of_two()
            }
            _ => 0,
        };
        let welcome = shared.system.welcome(version, granted as u64).encode();
        if granted == 0 {
            self.say(&welcome, None)?;
            return Ok(Step::Moved);
        }
        let memory = SharedMemory::create(ring::memory_bytes(granted))?;
        self.say(&welcome, Some(&memory))?;
        self.stream.go_over_to_rings(memory, granted, true)?;
        Ok(Step::Moved)
    }

    /// Sends the first frame; a socket takes it at once, since nothing was sent before.
    fn say(&mut self, bytes: &[u8; WELCOME_BYTES], memory: Option<&SharedMemory>) -> Result<()> {
        let parts = [IoSlice::new(bytes)];
        let socket = self.stream.socket();
        let moved = match memory {
            Some(memory) => socket.write_with(&parts, memory.fd())?,
            None => socket.write(&parts)?,
        };
        if moved == dolmen_env::Moved::Bytes(bytes.len()) { Ok(()) } else { Err(Error::Ended) }
    }

    fn take(&mut self, at: usize, shared: &mut Shared, header: &RequestHeader, payload: IoBuf) -> Result<()> {
        let held_bytes = payload.len();
        let mut under_way = UnderWay {
            conn: at,
            serial: self.serial,
            token: header.token,
            plan: None,
            pool: usize::MAX,
            map_version: 0,
            handles: Handles::Same,
            slot: header.pool,
            held_bytes,
            payload: None,
        };
        self.under_way += 1;
        self.held_bytes += held_bytes;
        let mut head = header.head;
        if let Some(peer) = self.peer {
            (head.cred.uid, head.cred.gid) = (peer.uid, peer.gid);
        }
        if header.pool == PoolSlot::SYSTEM {
            let verb = decode_system_request(header, self.requests.body()).map_err(bad_frame)?;
            return self.take_system(shared, under_way, head, verb);
        }
        let asked = if payload.is_empty() {
            decode_request_owned(header, self.requests.body(), payload)
        } else {
            let payload = under_way.payload.insert(Arc::new(payload));
            decode_request_shared(header, self.requests.body(), Arc::clone(payload))
        };
        let Asked { ask, room_bytes } = asked.map_err(bad_frame)?;
        let Some(attached) = self.attached(header.pool) else {
            return self.refuse(shared, under_way, Failure::NoPermission);
        };
        (under_way.pool, under_way.map_version) = (attached.pool, attached.map_version);
        if attached.is_read_only && ask.changes() {
            return self.refuse(shared, under_way, Failure::NoPermission);
        }
        match ask {
            Ask::Target(target, cont, mut verb) => {
                if let Verb::Fetch(fetch) = &mut verb {
                    if !shared.bufs.hold(room_bytes) {
                        return self.refuse(shared, under_way, Failure::Busy);
                    }
                    self.held_bytes += room_bytes;
                    under_way.held_bytes += room_bytes;
                    fetch.buf = shared.bufs.take(room_bytes);
                    under_way.plan = Some(FetchPlan::of(fetch));
                }
                shared.submit(under_way, head, Ask::Target(target, cont, verb));
                Ok(())
            }
            Ask::Pool(verb) => self.take_pool(shared, under_way, head, verb),
        }
    }

    fn take_pool(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        head: Head,
        verb: PoolVerb<'static>,
    ) -> Result<()> {
        let attached = self.attached(under_way.slot).expect("looked at before");
        under_way.handles = match &verb {
            PoolVerb::ContOpen(_) => Handles::Opens,
            // What this connection has not opened it cannot close.
            PoolVerb::ContClose(cont) if !attached.conts.contains_key(cont) => {
                return self.refuse(shared, under_way, Failure::NotFound);
            }
            PoolVerb::ContClose(cont) => Handles::Closes(*cont),
            _ => Handles::Same,
        };
        if under_way.handles == Handles::Opens && attached.conts.len() >= CONTS_MAX {
            return self.refuse(shared, under_way, Failure::Busy);
        }
        let transport = Arc::clone(&attached.transport);
        let job = |key, to: &Arc<Mailbox>| Job::Pool { transport, head, verb, key, to: Arc::clone(to) };
        match shared.give(under_way, job) {
            Ok(()) => Ok(()),
            Err(under_way) => self.refuse(shared, *under_way, Failure::Busy),
        }
    }

    fn take_system(
        &mut self,
        shared: &mut Shared,
        under_way: UnderWay,
        head: Head,
        ask: SystemVerb,
    ) -> Result<()> {
        if let SystemVerb::PoolDisconnect { slot } = ask {
            let left = self.detach(shared, slot);
            let reply = left.map(|()| SystemReply::Done);
            return self.answer_system(shared, &under_way, &reply);
        }
        let peer = self.peer;
        let job = |key, to: &Arc<Mailbox>| Job::System { head, peer, ask, key, to: Arc::clone(to) };
        match shared.give(under_way, job) {
            Ok(()) => Ok(()),
            Err(under_way) => self.answer_system(shared, &under_way, &Err(Failure::Busy)),
        }
    }

    fn attached(&mut self, slot: PoolSlot) -> Option<&mut Attached> {
        self.pools.get_mut(usize::from(slot.0).checked_sub(1)?)?.as_mut()
    }

    fn refuse(&mut self, shared: &mut Shared, under_way: UnderWay, error: Failure) -> Result<()> {
        let answered = self.answer(shared, &under_way, &Err(error), None);
        shared.release(&under_way, None);
        answered
    }

    /// Sends the answer of a target or of a pool's service.
    pub(super) fn answer(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        result: &core::result::Result<Answer, Failure>,
        buf: Option<IoBuf>,
    ) -> Result<()> {
        self.done(under_way);
        let UnderWay { token, map_version, plan, .. } = under_way;
        let to = ReplyTo { token: *token, map_version: *map_version, push_seq: 0, plan: plan.as_ref() };
        shared.scratch.clear();
        encode_reply(&mut shared.scratch, &to, result);
        self.output.put(&mut self.stream, &shared.scratch)?;
        let parts = match (result, plan) {
            (Ok(Answer::Target(Reply::Fetched(fetched))), Some(plan)) => plan.parts(fetched),
            _ => None,
        };
        let left = match (buf, parts) {
            (Some(buf), Some(parts)) => self.output.put_parts(&mut self.stream, buf, parts)?,
            (buf, _) => buf,
        };
        if let Some(buf) = left {
            shared.bufs.give(buf);
        }
        self.show()
    }

    /// Sends the answer of a job, and keeps what came with it.
    pub(super) fn answer_job(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        reply: JobReply,
    ) -> Result<()> {
        match reply {
            JobReply::Pool(_, result) => {
                if let (Ok(answer), Some(attached)) = (&result, self.attached(under_way.slot)) {
                    attached.note(under_way.handles, answer);
                }
                self.answer(shared, under_way, &result, None)
            }
            JobReply::System(result) => {
                let reply = result.and_then(|attachment| self.attach(shared, attachment));
                self.answer_system(shared, under_way, &reply)
            }
        }
    }

    fn answer_system(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        reply: &core::result::Result<SystemReply, Failure>,
    ) -> Result<()> {
        self.done(under_way);
        shared.scratch.clear();
        let to = ReplyTo { token: under_way.token, map_version: 0, push_seq: 0, plan: None };
        encode_system_reply(&mut shared.scratch, &to, reply);
        self.output.put(&mut self.stream, &shared.scratch)?;
        self.show()
    }

    fn done(&mut self, under_way: &UnderWay) {
        self.under_way -= 1;
        self.held_bytes -= under_way.held_bytes;
    }

    /// A reader of rings sees each answer at once; over a socket those of one turn go together.
    fn show(&mut self) -> Result<()> {
        if self.stream.is_ring() {
            self.stream.flush()?;
        } else {
            self.must_flush = true;
        }
        Ok(())
    }

    /// Takes a pool for use, and says under which number.
    fn attach(
        &mut self,
        shared: &mut Shared,
        attachment: Attachment,
    ) -> core::result::Result<SystemReply, Failure> {
        let Attachment { mut reply, pool } = attachment;
        let Some(opened) = pool else { return Ok(reply) };
        let place = self.pools.iter().position(Option::is_none).unwrap_or(self.pools.len());
        if place >= POOLS_MAX {
            return Err(Failure::Busy);
        }
        let pool = shared.enter_pool(&opened.transport)?;
        if place == self.pools.len() {
            self.pools.push(None);
        }
        let slot = PoolSlot(u16::try_from(place + 1).expect("limited by POOLS_MAX"));
        if let SystemReply::Connected(connected) = &mut reply {
            connected.slot = slot;
        }
        self.pools[place] = Some(Attached {
            pool,
            transport: opened.transport,
            is_read_only: opened.is_read_only,
            map_version: opened.map_version,
            conts: BTreeMap::new(),
        });
        Ok(reply)
    }

    fn detach(&mut self, shared: &mut Shared, slot: PoolSlot) -> core::result::Result<(), Failure> {
        let place = usize::from(slot.0).checked_sub(1).and_then(|at| self.pools.get_mut(at));
        let attached = place.and_then(Option::take).ok_or(Failure::NotFound)?;
        attached.leave(shared);
        Ok(())
    }

    /// Gives back what the connection holds.
    pub(super) fn give_back(mut self, shared: &mut Shared) {
        for attached in self.pools.drain(..).flatten() {
            attached.leave(shared);
        }
    }
}

impl Attached {
    fn note(&mut self, handles: Handles, answer: &Answer) {
        match (handles, answer) {
            (Handles::Opens, Answer::Pool(PoolReply::Cont(handle))) => {
                *self.conts.entry(handle.no).or_default() += 1;
            }
            (Handles::Closes(cont), Answer::Pool(_)) => {
                if let Some(count) = self.conts.get_mut(&cont) {
                    *count -= 1;
                    if *count == 0 {
                        self.conts.remove(&cont);
                    }
                }
            }
            _ => {}
        }
    }

    fn leave(self, shared: &mut Shared) {
        let Self { pool, transport, conts, .. } = self;
        for (cont, count) in conts {
            let transport = Arc::clone(&transport);
            shared.jobs.give(Job::Release { transport, head: Head::default(), cont, count });
        }
        shared.leave_pool(pool);
    }
}
