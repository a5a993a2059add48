//! One thread of the daemon: its connections, and its completion queue of each pool.
//!
//! A turn takes what connections bring, submits it, collects what is finished and sends it back. When nothing has moved
//! for a while the thread sleeps until a socket, another thread or a device calls.
//!
//! Invariants: a request under way is answered exactly once, or dropped with its connection; a connection is looked at in
//! every turn (`is_hot`), or its peer calls, or the waiter tells of its socket.

use super::System;
use super::arrival::Greeted;
use super::bufs::{Bufs, Held};
use super::conn::{Conn, Handles, Parts, Step};
use super::door::{Grave, Remains};
use super::jobs::{Done, Job, JobReply, Jobs, Mail, Mailbox};
use super::leases::{Mark, Notice, Place, Taken};
use crate::aside::Aside;
use crate::error::{Error, Result};
use crate::input::bad_frame;
use crate::slots::Slots;
use crate::spin::Spin;
use core::time::Duration;
use dolmen_codec::pool::PoolReply;
use dolmen_codec::verb::Incoming;
use dolmen_codec::wire::{BadFrame, FetchPlan, PoolSlot};
use dolmen_codec::{Answer, Ask, Outcome, QueueId, Request, Transport};
use dolmen_env::{Clock, Ready, RealClock, Waiter, current_cpu};
use dolmen_types::{Error as Refusal, Head, IoBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the waiter calls the bell, and connections.
pub(super) const BELL_TOKEN: u64 = 1 << 63;
/// The process at the other end of a connection.
pub(super) const PEER_TOKEN: u64 = 1 << 61;

/// Turns between two looks at sockets while nothing moves, and how many of these one that moves something counts for: a
/// connection that rests, or is new, waits no longer than these take.
const TURNS_BETWEEN_LOOKS: u32 = 64;
const TURNS_OF_WORK: u32 = 4;

/// Bytes of requests and answers that are begun in a turn, of connections of which each begins much: when others have begun so
/// many, it has its turn in the next one. Who asks for little waits for one transfer of the usual size, and not for one of each.
const BYTES_A_TURN: usize = 1 << 20;
const MUCH_BYTES: usize = 64 << 10;

/// How long a thread sleeps while devices work for it.
const DEVICE_REST: Duration = Duration::from_micros(50);

/// How long nobody asks for anything until buffers that are kept for the next request are given back: jobs rest for less
/// between two phases, and whoever comes later pays for fresh memory once.
const KEEP_NS: u64 = 3_000_000_000;

/// A request that a target or the service works on.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) conn: usize,
    pub(super) serial: u64,
    pub(super) token: u64,
    pub(super) plan: Option<FetchPlan>,
    /// The pool as this thread uses it, and as the connection calls it.
    pub(super) pool: usize,
    pub(super) slot: PoolSlot,
    pub(super) map_version: u32,
    pub(super) handles: Handles,
    /// Whether the service or the daemon is asked.
    pub(super) is_job: bool,
    /// What counts against the connection and the thread.
    pub(super) held: Held,
    /// What it brought; used again when nobody else holds it.
    pub(super) payload: Option<Arc<Incoming>>,
    /// A long fetch is answered in parts.
    pub(super) parts: Option<Box<Parts>>,
    /// A read that is answered with a lease, if that is not taken back before.
    pub(super) lease: Option<Box<Taken>>,
    /// A change, until it is answered.
    pub(super) mark: Option<Mark>,
}

/// A pool that connections of this thread use.
pub(super) struct PoolEnd {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) queue: QueueId,
    pub(super) users: usize,
    pub(super) under_way: usize,
}

/// What all connections of a thread share.
pub(super) struct Shared {
    pub(super) system: Arc<dyn System>,
    pub(super) pools: Slots<PoolEnd>,
    pub(super) under_way: Slots<UnderWay>,
    pub(super) bufs: Bufs,
    pub(super) jobs: Jobs,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) scratch: Vec<u8>,
    /// The processor that the thread runs on, or did a moment ago.
    pub(super) cpu: usize,
    /// When a change that waits for leases goes on at the latest.
    pub(super) free_ns: Option<u64>,
}

/// What a request has led to.
enum Given {
    Target(core::result::Result<Answer, Refusal>, Option<IoBuf>),
    Job(JobReply),
}

pub(super) struct Worker {
    waiter: Waiter,
    stop: Arc<AtomicBool>,
    /// Where connections go to that have ended.
    grave: Arc<Grave>,
    conns: Slots<Conn>,
    hot: Vec<usize>,
    /// Which of them is looked at first in the next turn.
    first: usize,
    serial: u64,
    shared: Shared,
    spin: Spin,
    aside: Aside,
    turns: u32,
    ready: Vec<Ready>,
    outcomes: Vec<Outcome>,
}

impl Worker {
    pub(super) fn new(
        system: Arc<dyn System>,
        jobs: Jobs,
        grave: Arc<Grave>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let waiter = Waiter::new()?;
        let mailbox = Arc::new(Mailbox::new()?);
        waiter.add(mailbox.post().bell(), BELL_TOKEN, false)?;
        let shared = Shared {
            system,
            pools: Slots::default(),
            under_way: Slots::default(),
            bufs: Bufs::default(),
            jobs,
            mailbox,
            scratch: Vec::new(),
            cpu: current_cpu(),
            free_ns: None,
        };
        Ok(Self {
            waiter,
            stop,
            grave,
            conns: Slots::default(),
            hot: Vec::new(),
            first: 0,
            serial: 0,
            shared,
            spin: Spin::new(),
            aside: Aside::default(),
            turns: 0,
            ready: Vec::new(),
            outcomes: Vec::new(),
        })
    }

    /// What calls the thread from its sleep.
    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.shared.mailbox)
    }

    /// Works until it is stopped. What is under way then is finished, and not answered.
    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            let moved = self.turn();
            self.turns += if moved { TURNS_OF_WORK } else { 1 };
            if self.turns >= TURNS_BETWEEN_LOOKS {
                self.look(Some(Duration::ZERO));
            }
            if moved {
                self.spin.moved();
            } else if !self.spin.again() {
                self.sleep();
            }
        }
        for at in self.conns.keys() {
            self.end(at, Error::Ended);
        }
        self.shared.close_pools();
    }

    /// Takes, submits, collects and sends; whether anything has moved.
    fn turn(&mut self) -> bool {
        let (mut moved, mut begun_bytes, mut late) = (false, 0, None);
        let (count, first) = (self.hot.len(), self.first);
        for step in 0..count {
            // From the last to the first, but for where it begins: the last may go to the place of one that rests.
            let index = (first % count + count - step) % count;
            let Some(&at) = self.hot.get(index) else { continue };
            let Some(mut conn) = self.conns.lift(at) else {
                self.hot.swap_remove(index);
                continue;
            };
            if begun_bytes >= BYTES_A_TURN && conn.usual_bytes() >= MUCH_BYTES {
                late = late.or(Some(index));
                self.conns.put_back(at, conn);
                continue;
            }
            let mut stepped = conn.step(at, &mut self.shared);
            let mut rests = false;
            if conn.tires(matches!(stepped, Ok(Step::Moved))) {
                match conn.rest(&self.waiter, at) {
                    Ok(is_ready) => rests = !is_ready,
                    Err(error) => stepped = Err(error),
                }
            }
            begun_bytes += conn.begun_bytes();
            conn.set_hot(!rests);
            self.conns.put_back(at, conn);
            if rests {
                self.hot.swap_remove(index);
            }
            match stepped {
                Ok(Step::Moved) => moved = true,
                Ok(Step::Still) => {}
                Err(error) => self.lose(at, error),
            }
        }
        self.first = late.unwrap_or(first);
        moved |= self.take_mail();
        moved |= self.collect();
        self.feed();
        moved | self.free_overdue()
    }

    /// Lets changes go on that have waited for leases for as long as those can hold; whether there are any, which begin in the next
    /// turn.
    fn free_overdue(&mut self) -> bool {
        let Some(free_ns) = self.shared.free_ns else { return false };
        let now_ns = RealClock.monotonic_ns();
        if now_ns < free_ns {
            return false;
        }
        let (mut next_ns, mut any) = (None, false);
        for at in self.conns.keys() {
            let Some(conn) = self.conns.of_mut(at) else { continue };
            let (is_free, at_ns) = conn.free_overdue(now_ns);
            next_ns = next_ns.into_iter().chain(at_ns).min();
            if is_free {
                any = true;
                self.heat(at);
            }
        }
        self.shared.free_ns = next_ns;
        any
    }

    /// Sends what targets have finished.
    fn collect(&mut self) -> bool {
        let mut moved = false;
        for pool in 0..self.shared.pools.bound() {
            let Some(end) = self.shared.pools.of(pool).filter(|end| end.under_way > 0) else { continue };
            let mut outcomes = core::mem::take(&mut self.outcomes);
            end.transport.poll(end.queue, false, &mut outcomes);
            for outcome in outcomes.drain(..) {
                moved = true;
                let Outcome { token, result, buf } = outcome;
                self.shared.pool_has_answered(pool);
                self.answer(token, Given::Target(result, buf));
            }
            self.outcomes = outcomes;
        }
        moved
    }

    /// Sends what the service has finished, and takes connections that have come.
    fn take_mail(&mut self) -> bool {
        let mut moved = false;
        for mail in self.shared.mailbox.post().take() {
            moved = true;
            match mail {
                Mail::Done(Done { key, reply }) => self.answer(key, Given::Job(reply)),
                Mail::Came(greeted) => self.take_connection(*greeted),
                Mail::Void(notice) => self.tell_void(&notice),
                Mail::Free { at, serial, wait } => {
                    let conn = self.conns.of_mut(at).filter(|conn| conn.serial() == serial);
                    if conn.is_some_and(|conn| conn.free(wait)) {
                        self.heat(at);
                    }
                }
            }
        }
        moved
    }

    /// Tells a connection that it has no lease any more, if it is still there.
    fn tell_void(&mut self, notice: &Notice) {
        let Place { at, serial, .. } = notice.place;
        let is_there = self.conns.of(at).is_some_and(|conn| conn.serial() == serial);
        let Some(mut conn) = is_there.then(|| self.conns.lift(at)).flatten() else { return };
        let told = conn.tell_void(&mut self.shared, notice);
        self.conns.put_back(at, conn);
        self.heat(at);
        if let Err(error) = told {
            self.end(at, error);
        }
    }

    /// Gives an answer to the connection that it belongs to, if that is still there.
    fn answer(&mut self, key: u64, reply: Given) {
        let Some(mut under_way) = self.shared.under_way.remove(index_of(key)) else { return };
        self.shared.keep(under_way.payload.take());
        let reply = match (under_way.parts.take(), reply) {
            (Some(parts), Given::Target(result, buf)) => {
                return self.hand_part(under_way, parts, result, buf);
            }
            (_, reply) => reply,
        };
        let is_last = matches!(&reply, Given::Job(JobReply::System(Ok(attachment))) if attachment.is_last);
        self.hand_over(&mut under_way, reply, is_last);
        if is_last {
            self.shared.system.end();
        }
    }

    /// Gives a part of an answer to the connection that waits for it, which goes on with the next.
    fn hand_part(
        &mut self,
        under_way: UnderWay,
        parts: Box<Parts>,
        result: core::result::Result<Answer, Refusal>,
        buf: Option<IoBuf>,
    ) {
        let at = under_way.conn;
        let is_there = self.conns.of(at).is_some_and(|conn| conn.serial() == under_way.serial);
        let Some(mut conn) = is_there.then(|| self.conns.lift(at)).flatten() else {
            self.shared.bufs.release(under_way.held);
            return self.shared.drop_answer(&under_way, Given::Target(result, buf));
        };
        let given = conn.take_part(&mut self.shared, under_way, parts, result, buf);
        self.conns.put_back(at, conn);
        self.heat(at);
        if let Err(error) = given {
            self.end(at, error);
        }
    }

    fn hand_over(&mut self, under_way: &mut UnderWay, reply: Given, is_last: bool) {
        let at = under_way.conn;
        let is_there = self.conns.of(at).is_some_and(|conn| conn.serial() == under_way.serial);
        let Some(mut conn) = is_there.then(|| self.conns.lift(at)).flatten() else {
            self.shared.bufs.release(under_way.held);
            return self.shared.drop_answer(under_way, reply);
        };
        let given = match reply {
            Given::Target(result, buf) => conn.answer(&mut self.shared, under_way, &result, buf),
            Given::Job(reply) => conn.answer_job(&mut self.shared, under_way, reply),
        };
        let given = given.and_then(|()| if is_last { conn.hasten() } else { Ok(()) });
        self.conns.put_back(at, conn);
        self.heat(at);
        if let Err(error) = given {
            self.end(at, error);
        }
    }

    /// Lets connections rest and waits for what comes.
    fn sleep(&mut self) {
        let mut index = 0;
        while let Some(&at) = self.hot.get(index) {
            let Some(mut conn) = self.conns.lift(at) else {
                self.hot.swap_remove(index);
                continue;
            };
            let rested = conn.rest(&self.waiter, at);
            let is_ready = matches!(rested, Ok(true));
            conn.set_hot(is_ready || rested.is_err());
            self.conns.put_back(at, conn);
            match rested {
                Ok(true) => index += 1,
                Ok(false) => drop(self.hot.swap_remove(index)),
                Err(error) => self.lose(at, error),
            }
        }
        let begun_ns = RealClock.monotonic_ns();
        self.look(self.rest_limit());
        if self.shared.bufs.is_used() && RealClock.monotonic_ns() - begun_ns >= KEEP_NS {
            self.shared.bufs.give_back();
        }
        self.shared.mailbox.post().wake();
        self.spin.moved();
    }

    /// How long to wait at most for what calls; `None` for as long as nobody does. What called before, and is not called for
    /// again, is looked at here.
    fn rest_limit(&self) -> Option<Duration> {
        let is_called = !self.shared.mailbox.post().rest() || self.stop.load(Ordering::Acquire);
        if is_called || !self.hot.is_empty() {
            return Some(Duration::ZERO);
        }
        let device_works = self.shared.pools.iter().any(|end| end.under_way > 0);
        if device_works {
            return Some(DEVICE_REST);
        }
        let kept_ns = self.shared.bufs.is_used().then_some(KEEP_NS);
        let free_ns = self.shared.free_ns.map(|at_ns| at_ns.saturating_sub(RealClock.monotonic_ns()));
        kept_ns.into_iter().chain(free_ns).min().map(Duration::from_nanos)
    }

    /// Looks at a connection in every turn from now on.
    fn heat(&mut self, at: usize) {
        if let Some(conn) = self.conns.of_mut(at)
            && !conn.is_hot()
        {
            conn.set_hot(true);
            self.hot.push(at);
        }
    }

    /// Lets the connection that waits for memory try again, if there may be some.
    fn feed(&mut self) {
        if let Some(at) = self.shared.bufs.take_next()
            && let Some(conn) = self.conns.of_mut(at)
        {
            conn.feed();
            self.heat(at);
        }
    }

    /// Leaves the processor to the one client that is served, if he waits there and others are idle.
    fn make_way(&mut self) {
        if !self.spin.is_crowded()
            && let &[at] = &self.hot[..]
        {
            let peer_cpu = self.conns.of(at).and_then(Conn::peer_cpu);
            self.aside.step(peer_cpu, self.spin.strangers());
        }
    }

    /// Takes what sockets tell.
    fn look(&mut self, timeout: Option<Duration>) {
        self.turns = 0;
        self.make_way();
        self.shared.cpu = current_cpu();
        let mut ready = core::mem::take(&mut self.ready);
        // A waiter that fails is found again at the next look; meanwhile connections are served while they are hot.
        // Ignored: nothing is lost by it.
        let _waited = self.waiter.wait(timeout, &mut ready);
        for ready in ready.drain(..) {
            match ready.token {
                BELL_TOKEN => self.shared.mailbox.post().bell().still(),
                token if token & PEER_TOKEN != 0 => {
                    let at = index_of(token ^ PEER_TOKEN);
                    self.conns.of_mut(at).into_iter().for_each(Conn::has_died);
                    self.end(at, Error::Ended);
                }
                token => self.warm(index_of(token), ready.is_gone),
            }
        }
        self.ready = ready;
    }

    /// A connection whose socket has something to say.
    fn warm(&mut self, at: usize, is_gone: bool) {
        let Some(conn) = self.conns.of_mut(at) else { return };
        let woken = conn.wake(is_gone);
        self.heat(at);
        if let Err(error) = woken {
            self.lose(at, error);
        }
    }

    fn take_connection(&mut self, greeted: Greeted) {
        self.serial += 1;
        let conn = Conn::new(greeted, self.serial);
        let at = self.conns.insert(conn);
        let conn = self.conns.of(at).expect("inserted above");
        match conn.watch(&self.waiter, token_of(at), PEER_TOKEN | token_of(at)) {
            // Its first request may have come with its hello.
            Ok(()) => self.heat(at),
            Err(error) => self.end(at, error),
        }
    }

    /// A connection is of no use any more.
    fn lose(&mut self, at: usize, error: Error) {
        if error == Error::Ended
            && let Some(conn) = self.conns.of_mut(at).filter(|conn| conn.is_local())
        {
            conn.has_died();
        }
        self.end(at, error);
    }

    /// Frees everything that a connection has held, and has it closed.
    fn end(&mut self, at: usize, error: Error) {
        let Some(mut conn) = self.conns.remove(at) else { return };
        // Its place may be taken by another one, which then would stand there twice, or hear of its end.
        self.hot.retain(|&hot| hot != at);
        conn.forget(&self.waiter);
        conn.give_back(at, &mut self.shared);
        self.shared.mailbox.has_ended();
        let why = matches!(error, Error::Protocol(_)).then_some(error);
        self.grave.put(Remains { conn: Box::new(conn), why });
    }
}

impl Shared {
    /// Where a connection of this thread is.
    pub(super) fn place(&self, at: usize, serial: u64) -> Place {
        Place { mailbox: Arc::clone(&self.mailbox), at, serial }
    }

    /// Submits a request to a target; its answer comes by the pool's queue.
    pub(super) fn submit(&mut self, under_way: UnderWay, head: Head, ask: Ask<'static>) {
        let pool = under_way.pool;
        let key = self.under_way.insert(under_way);
        let end = self.pools.of_mut(pool).expect("a connection holds it");
        end.under_way += 1;
        end.transport.submit(end.queue, Request { token: token_of(key), head, ask });
    }

    /// Gives a request to the service's threads; `Busy` if too many wait.
    pub(super) fn give(
        &mut self,
        under_way: UnderWay,
        job: impl FnOnce(u64, &Arc<Mailbox>) -> Job,
    ) -> core::result::Result<(), Box<UnderWay>> {
        let key = self.under_way.insert(under_way);
        if self.jobs.give(job(token_of(key), &self.mailbox)) {
            return Ok(());
        }
        Err(Box::new(self.under_way.remove(key).expect("inserted above")))
    }

    /// A request that threads of others answer: what it is called, and where its answer goes.
    pub(super) fn leave_to_others(&mut self, under_way: UnderWay) -> (u64, Arc<Mailbox>) {
        (token_of(self.under_way.insert(under_way)), Arc::clone(&self.mailbox))
    }

    /// The pool as this thread uses it; opened for the first connection that does.
    ///
    /// # Errors
    /// `Busy` if the pool can have no more queues.
    pub(super) fn enter_pool(
        &mut self,
        transport: &Arc<dyn Transport>,
    ) -> core::result::Result<usize, Refusal> {
        let known = (0..self.pools.bound())
            .find(|&at| self.pools.of(at).is_some_and(|end| Arc::ptr_eq(&end.transport, transport)));
        if let Some(at) = known {
            self.pools.of_mut(at).expect("found above").users += 1;
            return Ok(at);
        }
        let queue = transport.open_queue()?;
        let end = PoolEnd { transport: Arc::clone(transport), queue, users: 1, under_way: 0 };
        Ok(self.pools.insert(end))
    }

    pub(super) fn leave_pool(&mut self, at: usize) {
        let Some(end) = self.pools.of_mut(at) else { return };
        end.users -= 1;
        self.close_unused(at);
    }

    fn pool_has_answered(&mut self, at: usize) {
        self.pools.of_mut(at).expect("it has a request under way").under_way -= 1;
        self.close_unused(at);
    }

    fn close_unused(&mut self, at: usize) {
        if self.pools.of(at).is_some_and(|end| end.users == 0 && end.under_way == 0) {
            let end = self.pools.remove(at).expect("looked at above");
            end.transport.close_queue(end.queue);
        }
    }

    fn close_pools(&mut self) {
        for at in self.pools.keys() {
            let end = self.pools.remove(at).expect("its key was just listed");
            end.transport.close_queue(end.queue);
        }
    }

    /// What nobody waits for any more: a handle on a container is given back, a buffer kept.
    fn drop_answer(&mut self, under_way: &UnderWay, reply: Given) {
        match reply {
            Given::Target(_, Some(buf)) => self.bufs.give(buf),
            Given::Job(JobReply::Pool(transport, Ok(Answer::Pool(PoolReply::Cont(handle))), _))
                if matches!(under_way.handles, Handles::Opens(..)) =>
            {
                self.jobs.release(transport, handle.no, 1);
            }
            Given::Job(JobReply::Pool(transport, Err(_), _)) => {
                if let Handles::Closes(closing) = under_way.handles {
                    // Nobody has it, and it is counted still.
                    self.jobs.release(transport, closing.cont, 1);
                }
            }
            Given::Target(..) | Given::Job(_) => {}
        }
    }

    /// A frame that cannot be read: what it has held is free.
    pub(super) fn bad_frame(&mut self, under_way: &UnderWay, bad: BadFrame) -> Error {
        self.bufs.release(under_way.held);
        bad_frame(bad)
    }

    /// Keeps the memory of a payload for later, if nobody else holds it.
    pub(super) fn keep(&mut self, payload: Option<Arc<Incoming>>) {
        if let Some(payload) = payload.and_then(Arc::into_inner) {
            self.bufs.give(payload.bytes);
        }
    }
}

pub(super) fn token_of(at: usize) -> u64 {
    u64::try_from(at).expect("an index in memory")
}

pub(super) fn index_of(token: u64) -> usize {
    usize::try_from(token).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::server::{Attachment, Caller, System};
    use dolmen_codec::wire::{SystemVerb, Version, Welcome};

    /// Nobody connects.
    struct Alone;

    impl System for Alone {
        fn welcome(&self, _version: Version, _ring_bytes: u64) -> Welcome {
            unreachable!("nobody says hello")
        }

        fn answer(
            &self,
            _head: &Head,
            _caller: &Caller,
            _ask: SystemVerb,
        ) -> core::result::Result<Attachment, Refusal> {
            Err(Refusal::Busy)
        }

        fn end(&self) {
            unreachable!("nobody asks for it")
        }

        fn note(&self, _text: &str) {}
    }

    impl Worker {
        pub(crate) fn shared_mut(&mut self) -> &mut Shared {
            &mut self.shared
        }
    }

    pub(crate) fn alone(stop: &Arc<AtomicBool>) -> Worker {
        let system: Arc<dyn System> = Arc::new(Alone);
        let jobs = Jobs::new(Arc::clone(&system));
        let grave = Arc::new(Grave::new().unwrap());
        Worker::new(system, jobs, grave, Arc::clone(stop)).unwrap()
    }

    #[test]
    fn who_is_told_to_stop_does_not_sleep_though_the_call_was_taken_before() {
        let stop = Arc::<AtomicBool>::default();
        let mut worker = alone(&stop);
        assert_eq!(worker.rest_limit(), None, "there is nothing to do");
        stop.store(true, Ordering::Release);
        worker.mailbox().post().bell().ring();
        worker.look(Some(Duration::ZERO));
        assert_eq!(worker.rest_limit(), Some(Duration::ZERO), "nobody calls again");
    }
}
