//! One connection: what its peer may do, what it holds, and what goes to and from it.
//!
//! Invariants: nothing is taken from a peer that has as much under way as it may or does not read its answers, and its socket is
//! not listened to meanwhile; whoever comes over a Unix socket is who the kernel says, and over a network, where certificates
//! are asked for, whom his names; what is held is given back once.

mod files;
mod leases;
mod parts;

use super::arrival::{Greeted, Who};
use super::attached::{Attached, Closing, Opening};
use super::bufs::Held;
use super::holders::Away;
use super::jobs::{Job, JobReply, Mailbox};
use super::kept::OnItsWay;
use super::worker::{Shared, UnderWay, token_of};
use super::{Attachment, Caller};
use crate::error::{Error, Result};
use crate::input::{Requests, Room};
use crate::output::Output;
use crate::stream::Stream;
use crate::terms::Terms;
use crate::tls::Role;
use dolmen_codec::pool::{ContHandle, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Incoming, List, Reply, Verb};
use dolmen_codec::wire::{
    Asked, FetchPlan, PoolSlot, ReplyTo, RequestHeader, SystemReply, SystemVerb, Version,
    decode_request_owned, decode_request_shared, decode_system_request, encode_reply, encode_system_reply,
};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{Clock, RealClock, Waiter};
use dolmen_types::{Epoch, Error as Failure, Head, Invalid, IoBuf, TargetNo, limits};
use std::collections::VecDeque;
use std::sync::Arc;

use leases::Leased;
pub(super) use parts::Parts;
use parts::Paused;

/// Requests that one connection may have under way; a client that sends more waits.
pub const REQUESTS_MAX: u32 = 1024;

/// Bytes of bodies, payloads and buffers that one connection may have under way: what goes beyond is begun when this much
/// is answered and read.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Questions to a pool's service or the daemon that one connection may have under way: each answer may be long.
const JOBS_MAX: usize = 64;

/// What an answer of the service may take that names all there is of something, which comes at once: as many attributes as a
/// container may have, under the longest names.
const LONG_ANSWER_BYTES: usize = 36 << 20;

/// Requests that are taken from one connection before the next has its turn.
const REQUESTS_A_TURN: usize = 16;

/// The same for what they bring and ask for: a transfer of the usual size. Sixteen of these hold others up for as long as a
/// thousand small requests do, and whoever does not read the first answer is to have no second one made.
const BYTES_A_TURN: usize = 1 << 20;

/// Turns in a row that move nothing until nobody looks at a connection any more before its peer calls: to look at a socket is a
/// call of the system, and a peer at rings makes one that he is spared otherwise.
const TURNS_OF_SOCKET: u32 = 64;
const TURNS_OF_RINGS: u32 = 4096;

/// The same while the peer does not read his answers.
const TURNS_OF_FULL_SOCKET: u32 = 16;
const TURNS_OF_FULL_RINGS: u32 = 256;

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
    Opens(OpenFor, Away),
    Closes(Closing),
}

pub(super) struct Conn {
    stream: Stream,
    who: Who,
    serial: u64,
    is_hot: bool,
    /// Turns in a row that have moved nothing.
    still_turns: u32,
    /// Bytes of requests and answers that were begun in the last step, and in the last one that has begun something.
    begun_bytes: usize,
    usual_bytes: usize,
    /// What the waiter tells of the socket: input, and room.
    told: (bool, bool),
    terms: Terms,
    requests: Requests,
    /// It takes answers in parts.
    takes_parts: bool,
    /// What it has of leases, and waits for.
    leased: Leased,
    knows_quota: bool,
    /// A request whose answer there was no room for.
    stalled: Option<Box<Stalled>>,
    /// Answers in parts whose next part waits until the peer has read more.
    paused: VecDeque<Paused>,
    /// It waits for room in memory, for that or for what comes next.
    is_starved: bool,
    /// There may be some, and it has not tried yet: nothing else may come that would wake it.
    is_fed: bool,
    output: Output,
    must_flush: bool,
    pools: Vec<Option<Attached>>,
    under_way: usize,
    jobs_under_way: usize,
    /// Everything that it holds: the request that is arriving, those under way, and answers that are not read.
    held: Held,
    arriving: Held,
    unread: Held,
}

/// A request that waits for room for its answer.
struct Stalled {
    under_way: UnderWay,
    head: Head,
    ask: Ask<'static>,
    room_bytes: usize,
}

impl Conn {
    /// A connection that has been greeted.
    pub(super) fn new(greeted: Greeted, serial: u64) -> Self {
        let Greeted { stream, who, terms, takes_parts, takes_leases, knows_quota, must_flush } = greeted;
        let mut requests = Requests::new();
        requests.agree(terms);
        Self {
            stream,
            who,
            serial,
            is_hot: false,
            still_turns: 0,
            begun_bytes: 0,
            usual_bytes: 0,
            told: (true, false),
            terms,
            requests,
            takes_parts,
            leased: Leased::new(takes_leases),
            knows_quota,
            stalled: None,
            paused: VecDeque::new(),
            is_starved: false,
            is_fed: false,
            output: Output::default(),
            must_flush,
            pools: Vec::new(),
            under_way: 0,
            jobs_under_way: 0,
            held: Held::default(),
            arriving: Held::default(),
            unread: Held::default(),
        }
    }

    /// Lets `waiter` tell of the socket, and of the end of the process at its other end.
    pub(super) fn watch(&self, waiter: &Waiter, token: u64, peer_token: u64) -> Result<()> {
        self.who.watch(&self.stream, waiter, token, peer_token)
    }

    /// The contrary.
    pub(super) fn forget(&self, waiter: &Waiter) {
        self.who.forget(&self.stream, waiter);
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// The processor that a peer on this machine runs on who has come over a network. Over rings he goes aside himself
    /// where that is worth it.
    pub(super) fn peer_cpu(&self) -> Option<usize> {
        if self.stream.is_ring() { None } else { self.stream.peer_cpu() }
    }

    pub(super) fn is_hot(&self) -> bool {
        self.is_hot
    }

    pub(super) fn set_hot(&mut self, on: bool) {
        self.is_hot = on;
    }

    /// Whether the peer is a process of this machine that came over a Unix socket: the end of that is its doing.
    pub(super) fn is_local(&self) -> bool {
        self.who.peer.is_some()
    }

    /// For messages: who this is.
    pub(super) fn name(&self) -> String {
        self.who.name(&self.stream)
    }

    /// Bytes of requests and answers that it has begun in its last step.
    pub(super) fn begun_bytes(&self) -> usize {
        self.begun_bytes
    }

    /// Bytes that it begins in a step, as far as is known.
    pub(super) fn usual_bytes(&self) -> usize {
        self.usual_bytes
    }

    /// A turn is over; whether so many have moved nothing that it may as well rest.
    pub(super) fn tires(&mut self, has_moved: bool) -> bool {
        self.still_turns = if has_moved { 0 } else { self.still_turns + 1 };
        let turns = match (self.stream.is_ring(), self.output.is_empty()) {
            (false, true) => TURNS_OF_SOCKET,
            (true, true) => TURNS_OF_RINGS,
            (false, false) => TURNS_OF_FULL_SOCKET,
            (true, false) => TURNS_OF_FULL_RINGS,
        };
        self.still_turns >= turns
    }

    /// Goes to sleep; whether there is something to do instead.
    pub(super) fn rest(&mut self, waiter: &Waiter, at: usize) -> Result<bool> {
        self.still_turns = 0;
        let for_room = !self.output.is_empty() || !self.stream.flush()?;
        let for_input = !self.is_full();
        // The socket of rings brings calls, and the end.
        let told = if self.stream.is_ring() { (true, false) } else { (for_input, for_room) };
        if told != self.told {
            waiter.change(self.stream.socket(), token_of(at), told.0, told.1)?;
            self.told = told;
        }
        Ok(self.stream.rest(for_input, for_room)? || self.is_fed)
    }

    /// Is awake again. `is_gone` if nobody is at the other end: what it has sent is still taken, unless it is too much.
    pub(super) fn wake(&mut self, is_gone: bool) -> Result<()> {
        if is_gone && self.is_full() {
            return Err(Error::Ended);
        }
        self.stream.wake()
    }

    /// May try again to get memory.
    pub(super) fn feed(&mut self) {
        (self.is_starved, self.is_fed) = (false, true);
    }

    fn is_full(&self) -> bool {
        self.under_way >= REQUESTS_MAX as usize
            || self.jobs_under_way >= JOBS_MAX
            // What has begun to come is taken to its end.
            || self.held.byte_count - self.arriving.byte_count >= HELD_BYTES_MAX
            || self.is_starved
            || self.stalled.is_some()
            || !self.output.is_empty()
    }

    /// Sends what waits, and takes what has come.
    pub(super) fn step(&mut self, at: usize, shared: &mut Shared) -> Result<Step> {
        let mut moved = core::mem::take(&mut self.is_fed);
        if !self.output.is_empty() {
            moved |= self.send_on(shared)?;
            self.must_flush = true;
        }
        if !self.is_starved
            && let Some(stalled) = self.stalled.take()
        {
            moved |= self.begin(shared, stalled)?;
        }
        moved |= self.resume(shared)?;
        moved |= self.resume_changes(at, shared)?;
        let held_bytes = self.held.byte_count;
        self.begun_bytes = 0;
        for _ in 0..REQUESTS_A_TURN {
            if self.is_full() || self.begun_bytes >= BYTES_A_TURN {
                break;
            }
            let Some((header, payload)) = self.next(at, shared)? else { break };
            moved = true;
            let taken = self.take(at, shared, &header, payload);
            self.requests.forget_body();
            taken?;
            // What is answered at once is held no more.
            self.begun_bytes = self.held.byte_count.saturating_sub(held_bytes);
            self.usual_bytes = self.begun_bytes;
        }
        if moved || self.must_flush {
            self.stream.tell_cpu(shared.cpu);
            self.must_flush = !self.stream.flush()?;
        }
        Ok(if moved { Step::Moved } else { Step::Still })
    }

    fn send_on(&mut self, shared: &mut Shared) -> Result<bool> {
        let is_sent = self.output.go_on(&mut self.stream)?;
        while let Some(buf) = self.output.take_done() {
            shared.bufs.give(buf);
        }
        if is_sent {
            let read = core::mem::take(&mut self.unread);
            self.held.take_off(read);
            shared.bufs.release(read);
        }
        Ok(is_sent)
    }

    /// The next request that is complete.
    fn next(&mut self, at: usize, shared: &mut Shared) -> Result<Option<(RequestHeader, Incoming)>> {
        let (bufs, held, arriving) = (&mut shared.bufs, &mut self.held, &mut self.arriving);
        let mut is_starved = false;
        let next = self.requests.next(&mut self.stream, |room| {
            let (len, buffer_bytes) = match room {
                Room::First { body_bytes, payload_bytes } => (body_bytes + payload_bytes, payload_bytes),
                Room::More { byte_count } => (byte_count, 0),
            };
            let Some(more) = bufs.hold(at, *held, len, *arriving) else {
                is_starved = true;
                return None;
            };
            held.add(more);
            arriving.add(more);
            bufs.take(buffer_bytes)
        });
        self.is_starved |= is_starved;
        next
    }

    fn take(
        &mut self,
        at: usize,
        shared: &mut Shared,
        header: &RequestHeader,
        payload: Incoming,
    ) -> Result<()> {
        let mut under_way = self.under_way_of(at, header.token, header.pool);
        self.under_way += 1;
        if header.push_acked > 0 || header.wants_lease {
            self.acked(header).map_err(|bad| shared.bad_frame(&under_way, bad))?;
        }
        let mut head = header.head;
        if let Some(peer) = self.who.peer {
            (head.cred.uid, head.cred.gid) = (peer.uid, peer.gid);
        }
        // An engine asks for others.
        if let Some(identity) = self.who.identity.as_ref().filter(|identity| identity.role != Role::Engine) {
            (head.cred.uid, head.cred.gid) = (identity.uid, identity.gid);
        }
        if header.pool == PoolSlot::SYSTEM {
            let verb = decode_system_request(header, self.requests.body());
            let verb = verb.map_err(|bad| shared.bad_frame(&under_way, bad))?;
            return self.take_system(shared, under_way, head, verb);
        }
        let asked = if payload.bytes.is_empty() {
            decode_request_owned(header, self.requests.body(), payload.bytes)
        } else {
            let payload = under_way.payload.insert(Arc::new(payload));
            decode_request_shared(header, self.requests.body(), Arc::clone(payload))
        };
        let Asked { mut ask, room_bytes } = asked.map_err(|bad| shared.bad_frame(&under_way, bad))?;
        let Some(attached) = self.attached(header.pool) else {
            return self.refuse(shared, under_way, Failure::NoPermission);
        };
        (under_way.pool, under_way.map_version) = (attached.pool, attached.map_version);
        if attached.is_read_only && ask.changes() {
            return self.refuse(shared, under_way, Failure::NoPermission);
        }
        if let Err(error) = attached.check(&ask) {
            return self.refuse(shared, under_way, error);
        }
        attached.settle_charged(&mut ask);
        let room_bytes = match &ask {
            Ask::Target(_, _, Verb::List(list)) => list_bytes(list),
            Ask::Target(..) => room_bytes,
            Ask::Pool(verb) => answer_bytes(verb),
        };
        if matches!(ask, Ask::Pool(_)) && header.seen != Epoch::ZERO {
            attached.transport.saw(header.seen);
        }
        if header.wants_lease {
            under_way.lease = self.take_lease(at, shared, header.pool, &ask);
        }
        let asked = Box::new(Stalled { under_way, head, ask, room_bytes });
        self.begin_change(at, shared, asked)
    }

    fn under_way_of(&mut self, at: usize, token: u64, slot: PoolSlot) -> UnderWay {
        UnderWay {
            conn: at,
            serial: self.serial,
            token,
            plan: None,
            pool: usize::MAX,
            map_version: 0,
            handles: Handles::Same,
            slot,
            is_job: false,
            held: core::mem::take(&mut self.arriving),
            payload: None,
            parts: None,
            lease: None,
            mark: None,
        }
    }

    /// Hands a request over to its target or the service if there is room for its answer, else keeps it until there is;
    /// whether it has.
    fn begin(&mut self, shared: &mut Shared, mut asked: Box<Stalled>) -> Result<bool> {
        if asked.room_bytes > 0 {
            let UnderWay { conn, held, .. } = asked.under_way;
            let Some(more) = shared.bufs.hold(conn, self.held, asked.room_bytes, held) else {
                (self.is_starved, self.stalled) = (true, Some(asked));
                return Ok(false);
            };
            self.held.add(more);
            asked.under_way.held.add(more);
        }
        let Stalled { mut under_way, head, ask, room_bytes } = *asked;
        let (target, cont, mut verb) = match ask {
            Ask::Target(target, cont, verb) => (target, cont, verb),
            Ask::Pool(verb) => return self.take_pool(shared, under_way, head, verb).map(|()| true),
        };
        if let Verb::Fetch(fetch) = &mut verb {
            if self.takes_parts
                && let Some(parts) = Parts::of(fetch, room_bytes, head, target, cont)
            {
                under_way.lease = None;
                return self.begin_parts(shared, under_way, parts).map(|()| true);
            }
            let Some(buf) = shared.bufs.take(room_bytes) else {
                return self.refuse(shared, under_way, Failure::Busy).map(|()| true);
            };
            fetch.buf = buf;
            under_way.plan = Some(FetchPlan::of(fetch));
        }
        shared.submit(under_way, head, Ask::Target(target, cont, verb));
        Ok(true)
    }

    fn take_pool(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        head: Head,
        mut verb: PoolVerb<'static>,
    ) -> Result<()> {
        let version = self.terms.version;
        let attached = self.attached(under_way.slot).expect("looked at before");
        if let Err(error) = attached.settle_owner(&mut verb) {
            return self.refuse(shared, under_way, error);
        }
        if let PoolVerb::Lock(cont, ask) = &verb {
            let told = attached.lock(*cont, ask, RealClock.monotonic_ns());
            let result = told.map(|told| Answer::Pool(PoolReply::Lock(told)));
            return self.answer(shared, &mut under_way, &result, None);
        }
        if let PoolVerb::Leases(_, given) = &verb {
            return self.take_given(shared, &under_way, given);
        }
        if let PoolVerb::Files(cont, ask) = verb {
            return self.take_files(shared, under_way, (cont, ask));
        }
        if attached.is_part() && version == Version::One && matches!(verb, PoolVerb::ContOpen(..)) {
            // In that version parts open none, and nobody needs to have one open there.
            return self.refuse(shared, under_way, Invalid::Argument.into());
        }
        if is_quick(&verb, attached.answers_at_once) {
            let transport = Arc::clone(&attached.transport);
            let result = transport.call(Request { token: 0, head, ask: Ask::Pool(verb) }).result;
            return self.answer(shared, &mut under_way, &result, None);
        }
        under_way.is_job = true;
        self.jobs_under_way += 1;
        let attached = self.attached(under_way.slot).expect("looked at before");
        under_way.handles = match &verb {
            PoolVerb::ContOpen(_, wanted) => {
                Handles::Opens(*wanted, attached.opening(head.id.client, *wanted))
            }
            PoolVerb::ContClose(cont) => match attached.give_up(*cont) {
                Some(closing) => Handles::Closes(closing),
                None if attached.is_left(*cont) => {
                    let done = Ok(Answer::Pool(PoolReply::Done));
                    return self.answer(shared, &mut under_way, &done, None);
                }
                // What this connection has not opened it cannot close, nor twice while the first is under way.
                None => return self.refuse(shared, under_way, Failure::NoHandle),
            },
            _ => Handles::Same,
        };
        if matches!(under_way.handles, Handles::Opens(..)) && attached.open_count() >= CONTS_MAX {
            return self.refuse(shared, under_way, Failure::Busy);
        }
        let (transport, asker) = (Arc::clone(&attached.transport), attached.asker());
        let job =
            |key, to: &Arc<Mailbox>| Job::Pool { transport, head, verb, asker, key, to: Arc::clone(to) };
        match shared.give(under_way, job) {
            Ok(()) => Ok(()),
            Err(under_way) => {
                let transport = self.attached(under_way.slot).map(|attached| Arc::clone(&attached.transport));
                self.take_back(shared, &under_way, transport.expect("looked at before"));
                self.refuse(shared, *under_way, Failure::Busy)
            }
        }
    }

    /// A handle that was to be closed is open still, unless it was taken meanwhile, or its pool was left: then it is given back.
    fn take_back(&mut self, shared: &Shared, under_way: &UnderWay, transport: Arc<dyn Transport>) {
        let Handles::Closes(closing) = under_way.handles else { return };
        let attached = self.attached_to(under_way.slot, &transport);
        if !attached.is_some_and(|attached| attached.kept(closing)) {
            shared.jobs.release(transport, closing.cont, 1);
        }
    }

    fn take_system(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        head: Head,
        ask: SystemVerb,
    ) -> Result<()> {
        under_way.is_job = true;
        self.jobs_under_way += 1;
        if let SystemVerb::PoolDisconnect { slot } = ask {
            let left = self.detach(shared, slot);
            let reply = left.map(|()| SystemReply::Done);
            return self.answer_system(shared, &under_way, &reply);
        }
        let groups = match ask {
            SystemVerb::PoolConnect { .. } => self.stream.socket().peer_groups(),
            _ => Vec::new(),
        };
        let (peer, identity, client) = (self.who.peer, self.who.identity.clone(), self.who.client);
        let caller = Caller { peer, groups, identity, client };
        let job = |key, to: &Arc<Mailbox>| Job::System { head, caller, ask, key, to: Arc::clone(to) };
        match shared.give(under_way, job) {
            Ok(()) => Ok(()),
            Err(under_way) => self.answer_system(shared, &under_way, &Err(Failure::Busy)),
        }
    }

    fn attached(&mut self, slot: PoolSlot) -> Option<&mut Attached> {
        self.pools.get_mut(usize::from(slot.0).checked_sub(1)?)?.as_mut()
    }

    /// The same, unless the pool was left meanwhile, and the number is another one's.
    fn attached_to(&mut self, slot: PoolSlot, transport: &Arc<dyn Transport>) -> Option<&mut Attached> {
        self.attached(slot).filter(|attached| Arc::ptr_eq(&attached.transport, transport))
    }

    fn refuse(&mut self, shared: &mut Shared, mut under_way: UnderWay, error: Failure) -> Result<()> {
        self.answer(shared, &mut under_way, &Err(error), None)
    }

    /// Sends the answer of a target or of a pool's service.
    pub(super) fn answer(
        &mut self,
        shared: &mut Shared,
        under_way: &mut UnderWay,
        result: &core::result::Result<Answer, Failure>,
        buf: Option<IoBuf>,
    ) -> Result<()> {
        let lease = granted(under_way, result);
        let sent = self.send(shared, under_way, lease, result, buf);
        shared.keep(under_way.payload.take());
        self.done(shared, under_way);
        sent.and_then(|()| self.show())
    }

    fn send(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        lease: (u32, u32),
        result: &core::result::Result<Answer, Failure>,
        buf: Option<IoBuf>,
    ) -> Result<()> {
        let UnderWay { token, map_version, plan, .. } = under_way;
        let Terms { version, sums_replies, .. } = self.terms;
        let (token, map_version, plan) = (*token, *map_version, plan.as_ref());
        let to = ReplyTo { version, token, map_version, push_seq: self.leased.push_seq, lease, plan };
        shared.scratch.clear();
        match result {
            // By the number that programs of before know, which act on it alike.
            Err(Failure::QuotaLimit) if !self.knows_quota => {
                let full = Failure::NoSpace { target: TargetNo(0), needed_bytes: 0 };
                encode_reply(&mut shared.scratch, &to, &Err(full));
            }
            result => encode_reply(&mut shared.scratch, &to, result),
        }
        self.output.put(&mut self.stream, &shared.scratch)?;
        let parts = match (result, plan) {
            (Ok(Answer::Target(Reply::Fetched(fetched))), Some(plan)) => plan.parts(fetched),
            _ => None,
        };
        let left = match (buf, parts) {
            (Some(buf), Some(parts)) => self.output.put_parts(&mut self.stream, sums_replies, buf, parts)?,
            (buf, _) => buf,
        };
        if let Some(buf) = left {
            shared.bufs.give(buf);
        }
        Ok(())
    }

    /// Sends the answer of a job, and keeps what came with it.
    pub(super) fn answer_job(
        &mut self,
        shared: &mut Shared,
        under_way: &mut UnderWay,
        reply: JobReply,
    ) -> Result<()> {
        match reply {
            JobReply::Pool(transport, mut result, on_its_way) => {
                match &result {
                    Ok(Answer::Pool(PoolReply::Cont(handle))) => {
                        if let Handles::Opens(wanted, away) = under_way.handles
                            && !self.opened(
                                shared,
                                under_way,
                                transport,
                                (handle, on_its_way),
                                (wanted, away),
                            )
                        {
                            result = Err(Failure::NoPermission);
                        }
                    }
                    Ok(_) => {}
                    Err(_) => self.take_back(shared, under_way, transport),
                }
                if let (Ok(answer), Some(attached)) = (&mut result, self.attached(under_way.slot)) {
                    attached.trim(answer);
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
        shared.scratch.clear();
        let (version, token) = (self.terms.version, under_way.token);
        let push_seq = self.leased.push_seq;
        let to = ReplyTo { version, token, map_version: 0, push_seq, lease: (0, 0), plan: None };
        encode_system_reply(&mut shared.scratch, &to, reply);
        let sent = self.output.put(&mut self.stream, &shared.scratch);
        self.done(shared, under_way);
        sent.and_then(|()| self.show())
    }

    /// A request is answered; what it has held is free once the answer is sent.
    fn done(&mut self, shared: &mut Shared, under_way: &UnderWay) {
        self.under_way -= 1;
        self.jobs_under_way -= usize::from(under_way.is_job);
        if self.output.is_empty() {
            self.held.take_off(under_way.held);
            shared.bufs.release(under_way.held);
        } else {
            self.unread.add(under_way.held);
        }
    }

    /// Notes a handle on a container, or gives it back if the pool was left meanwhile, it was taken on its way, or there is
    /// nothing that the caller may do with it; whether he may.
    fn opened(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        transport: Arc<dyn Transport>,
        (handle, on_its_way): (&ContHandle, Option<Box<OnItsWay>>),
        (wanted, away): (OpenFor, Away),
    ) -> bool {
        let attached = self.attached_to(under_way.slot, &transport);
        // Of a pool that was left meanwhile nobody uses it.
        let opening = attached.map_or(Opening::Taken, |attached| attached.opened(handle, wanted, away));
        if opening == Opening::Noted {
            on_its_way.into_iter().for_each(|handle| handle.has_come());
        } else {
            shared.jobs.release(transport, handle.no, 1);
        }
        opening != Opening::NotAllowed
    }

    /// Sends what there is room for now: nobody may come back to this connection.
    pub(super) fn hasten(&mut self) -> Result<()> {
        self.output.go_on(&mut self.stream)?;
        self.must_flush = !self.stream.flush()?;
        Ok(())
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
        let Attachment { mut reply, pool, is_last: _ } = attachment;
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
        self.pools[place] = Some(Attached::new(pool, opened));
        Ok(reply)
    }

    fn detach(&mut self, shared: &mut Shared, slot: PoolSlot) -> core::result::Result<(), Failure> {
        let place = usize::from(slot.0).checked_sub(1).and_then(|at| self.pools.get_mut(at));
        let attached = place.and_then(Option::take).ok_or(Failure::NotFound)?;
        // Who says so believes in nothing there any more.
        attached.leave(shared, true);
        Ok(())
    }

    /// Gives back what the connection holds of its thread: what is left may be dropped anywhere.
    pub(super) fn give_back(&mut self, at: usize, shared: &mut Shared) {
        shared.bufs.forget(at);
        shared.bufs.release(self.arriving);
        shared.bufs.release(self.unread);
        let waiting = self.stalled.take().into_iter().chain(self.leased.take_waiting());
        let waiting = waiting.map(|stalled| stalled.under_way);
        for under_way in waiting.chain(self.paused.drain(..).map(|paused| paused.under_way)) {
            shared.bufs.release(under_way.held);
        }
        let is_dead = self.leased.is_dead;
        for attached in self.pools.drain(..).flatten() {
            attached.leave(shared, is_dead);
        }
    }
}

/// The lease that goes with an answer, and for how long it renews the others: what is not there is leased as well.
fn granted(under_way: &mut UnderWay, result: &core::result::Result<Answer, Failure>) -> (u32, u32) {
    match (under_way.lease.as_mut(), result) {
        (Some(taken), Ok(_) | Err(Failure::NotFound)) => taken.grant(RealClock.monotonic_ns()),
        _ => (0, 0),
    }
}

/// Whether the thread of connections answers this itself, which saves two calls of sleeping threads: it waits for no
/// device, and takes no longer than an update does.
fn is_quick(verb: &PoolVerb<'_>, answers_at_once: bool) -> bool {
    match verb {
        PoolVerb::TxBegin | PoolVerb::TxEnd(_) => true,
        PoolVerb::TxCommit(_) | PoolVerb::AllocOids(..) => answers_at_once,
        _ => false,
    }
}

/// Bytes that the answer of a pool's service may take, beyond what each request may.
fn answer_bytes(verb: &PoolVerb<'_>) -> usize {
    match verb {
        PoolVerb::AttrNames(_)
        | PoolVerb::ContList
        | PoolVerb::SnapList(_)
        | PoolVerb::ContQuota(_)
        | PoolVerb::Share(_) => LONG_ANSWER_BYTES,
        PoolVerb::Attr(..) => usize::try_from(limits::RECORD_BYTES_MAX).unwrap_or(usize::MAX),
        _ => 0,
    }
}

/// Bytes that the answer to an enumeration may take.
fn list_bytes(list: &List) -> usize {
    usize::try_from(list.bytes_max.min(limits::LIST_BYTES_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::worker::tests::alone;
    use super::*;
    use crate::input::tests::pair;
    use crate::ring::{RING_BYTES_MIN, memory_bytes};
    use dolmen_codec::verb::ChunkSums;
    use dolmen_env::SharedMemory;

    fn greeted(stream: Stream) -> Greeted {
        let (who, terms) = (Who::default(), Terms::default());
        Greeted {
            stream,
            who,
            terms,
            takes_parts: true,
            takes_leases: true,
            knows_quota: true,
            must_flush: false,
        }
    }

    #[test]
    fn the_payload_of_what_is_answered_at_once_is_memory_for_the_next() {
        const LEN: usize = 1 << 20;
        let (stream, _far) = pair();
        let mut conn = Conn::new(greeted(stream), 1);
        let mut worker = alone(&Arc::default());
        let shared = worker.shared_mut();
        let bytes = shared.bufs.take(LEN).unwrap();
        let place = bytes.as_ptr();
        let mut under_way = conn.under_way_of(0, 1, PoolSlot::SYSTEM);
        conn.under_way += 1;
        under_way.payload = Some(Arc::new(Incoming { bytes, sums: ChunkSums::new() }));
        conn.answer(shared, &mut under_way, &Err(Failure::Busy), None).unwrap();
        assert_eq!(shared.bufs.take(LEN).unwrap().as_ptr(), place);
    }

    #[test]
    fn who_moves_nothing_for_long_is_looked_at_no_more_and_a_socket_sooner_than_rings() {
        for ring_bytes in [0, RING_BYTES_MIN] {
            let (mut stream, _far) = pair();
            if ring_bytes > 0 {
                let memory = SharedMemory::create(memory_bytes(ring_bytes)).unwrap();
                stream.go_over_to_rings(memory, ring_bytes, true).unwrap();
            }
            let mut conn = Conn::new(greeted(stream), 1);
            let waiter = Waiter::new().unwrap();
            conn.watch(&waiter, 1, 2).unwrap();
            let turns = if ring_bytes > 0 { TURNS_OF_RINGS } else { TURNS_OF_SOCKET };
            assert!((1..turns).all(|_| !conn.tires(false)));
            assert!(!conn.tires(true), "something has moved");
            assert!((1..turns).all(|_| !conn.tires(false)));
            assert!(conn.tires(false));
            assert!(matches!(conn.rest(&waiter, 1), Ok(false)), "there is nothing to do");
            assert!(!conn.tires(false), "it is awake anew");
        }
    }
}
