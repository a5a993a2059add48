//! The thread at the door: it takes connections, greets them, and hands those that may stay to the threads that serve; and it
//! buries those that have ended.
//!
//! Both take calls of the system that are long beside a request: certificates are verified, memory for rings is made and given
//! back. So that a crowd that comes and goes holds up nobody who works, this thread does it, and comes behind those that
//! serve where there are too few processors for all.
//!
//! Invariants: a connection counts from when it was taken until its socket is closed; one that was handed over is not known
//! here any more.

use super::arrival::{Arrival, Greeted};
use super::conn::Conn;
use super::jobs::Mailbox;
use super::post::Post;
use super::worker::{BELL_TOKEN, PEER_TOKEN, index_of, token_of};
use super::{Options, System};
use crate::error::{Error, Result};
use crate::slots::Slots;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use dolmen_env::{Clock, Listener, Ready, RealClock, Socket, Waiter, come_behind, wait};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the waiter calls listeners; the bell and connections are called as by those that serve.
const LISTENER_TOKEN: u64 = 1 << 62;

/// Connections that are taken before those that are here are looked at.
const ACCEPTED_AT_ONCE: usize = 64;

/// How long this thread rests after it has done something while others serve. A crowd that it let in one by one would interrupt
/// a client's requests as often; what is done at once interrupts one of them.
const PACE: Duration = Duration::from_millis(10);

/// How long to sleep, if no more connections can be taken, before it is tried again.
const DEAF_REST: Duration = Duration::from_millis(100);

/// Between two looks whether certificates were renewed: each reads three files.
const RENEW_NS: u64 = 1_000_000_000;

/// How far this thread comes behind those that serve (nice(2)): it has a tenth of what one of them has, if all want to run.
const BEHIND: i32 = 10;

/// A connection that has ended, and why if that is to be noted.
pub(super) struct Remains {
    pub(super) conn: Box<Conn>,
    pub(super) why: Option<Error>,
}

/// Where connections that have ended go to.
pub(super) type Grave = Post<Remains>;

pub(super) struct Door {
    waiter: Waiter,
    listeners: Vec<Listener>,
    system: Arc<dyn System>,
    options: Options,
    /// Of all threads that serve.
    mailboxes: Vec<Arc<Mailbox>>,
    grave: Arc<Grave>,
    stop: Arc<AtomicBool>,
    /// Of the whole server.
    connections: Arc<AtomicUsize>,
    arrivals: Slots<(u64, Arrival)>,
    serial: u64,
    /// Connections over a network that had not said hello when they came: until when they may, place and number.
    unheard: VecDeque<(u64, usize, u64)>,
    /// No more connections could be taken the last time.
    is_full: bool,
    /// It does not hear of new connections for a while.
    is_deaf: bool,
    /// When to look whether certificates were renewed.
    renew_ns: u64,
}

impl Door {
    pub(super) fn new(
        system: Arc<dyn System>,
        options: &Options,
        listeners: Vec<Listener>,
        mailboxes: Vec<Arc<Mailbox>>,
        grave: Arc<Grave>,
        (stop, connections): (Arc<AtomicBool>, Arc<AtomicUsize>),
    ) -> Result<Self> {
        let waiter = Waiter::new()?;
        waiter.add(grave.bell(), BELL_TOKEN, false)?;
        for (listener, token) in listeners.iter().zip(LISTENER_TOKEN..) {
            waiter.add(listener, token, false)?;
        }
        Ok(Self {
            waiter,
            listeners,
            system,
            options: options.clone(),
            mailboxes,
            grave,
            stop,
            connections,
            arrivals: Slots::default(),
            serial: 0,
            unheard: VecDeque::new(),
            is_full: false,
            is_deaf: false,
            renew_ns: 0,
        })
    }

    /// Works until it is stopped, and everything that has ended before is buried.
    pub(super) fn run(mut self) {
        // Ignored: then it has its share as others have.
        let _behind = come_behind(BEHIND);
        let mut ready = Vec::new();
        while !self.stop.load(Ordering::Acquire) {
            // A waiter that fails is found again at the next look. Ignored: nothing is lost by it.
            let _waited = self.waiter.wait(self.rest_limit(), &mut ready);
            self.grave.wake();
            self.bury();
            if self.is_deaf {
                self.listen(true);
            }
            self.look(&mut ready);
            self.end_unheard();
            if self.mailboxes.iter().any(|mailbox| mailbox.post().is_awake()) {
                wait(PACE);
            }
        }
        self.bury();
    }

    /// How long to wait at most for what calls; `None` for as long as nobody does.
    fn rest_limit(&self) -> Option<Duration> {
        let is_called = !self.grave.rest() || self.stop.load(Ordering::Acquire);
        let unheard = self
            .unheard
            .front()
            .map(|(end_ns, ..)| Duration::from_nanos(end_ns.saturating_sub(RealClock.monotonic_ns())));
        let deaf = self.is_deaf.then_some(DEAF_REST);
        let called = is_called.then_some(Duration::ZERO);
        unheard.into_iter().chain(deaf).chain(called).min()
    }

    /// Takes what sockets tell.
    fn look(&mut self, ready: &mut Vec<Ready>) {
        // New connections come last: one at the place of another that has just ended must not hear what concerns that.
        let of_listener = |ready: &Ready| ready.token & LISTENER_TOKEN != 0;
        for ready in ready.iter().filter(|ready| !of_listener(ready)) {
            match ready.token {
                BELL_TOKEN => self.grave.bell().still(),
                token if token & PEER_TOKEN != 0 => self.end(index_of(token ^ PEER_TOKEN), None),
                token => self.hear(index_of(token)),
            }
        }
        for ready in ready.drain(..).filter(of_listener) {
            self.take_connections(index_of(ready.token ^ LISTENER_TOKEN));
        }
    }

    /// Gives back what connections have held that have ended.
    fn bury(&self) {
        for Remains { conn, why } in self.grave.take() {
            if let Some(why) = why {
                self.system.note(&format!("connection of {} closed: {why}", conn.name()));
            }
            drop(conn);
            self.gone();
        }
    }

    /// One connection less.
    fn gone(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_connections(&mut self, listener: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(listener) else { return };
            match listener.accept() {
                Ok(Some(socket)) => {
                    self.is_full = false;
                    if let Err(error) = self.take_connection(socket) {
                        self.system.note(&format!("a connection was refused: {error}"));
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    if !self.is_full {
                        self.system.note(&format!("no more connections for now: {error}"));
                    }
                    self.is_full = true;
                    return self.listen(false);
                }
            }
        }
    }

    /// Hears of new connections, or not: of those that cannot be taken it would hear without end.
    fn listen(&mut self, on: bool) {
        self.is_deaf = !on;
        for (listener, token) in self.listeners.iter().zip(LISTENER_TOKEN..) {
            // Ignored: it is tried again after the next sleep, or is as it was.
            let _changed = self.waiter.change(listener, token, on, false);
        }
    }

    fn take_connection(&mut self, socket: Socket) -> Result<()> {
        let connections_max = self.options.connections_max.saturating_mul(self.mailboxes.len());
        if self.connections.load(Ordering::Relaxed) >= connections_max {
            return Err(Error::Refused(dolmen_types::Error::Busy));
        }
        let is_network = socket.is_network();
        if is_network {
            self.renew_certs();
        }
        let arrival = Arrival::new(socket, self.options.certs.as_ref())?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.serial += 1;
        let at = self.arrivals.insert((self.serial, arrival));
        if is_network {
            let limit_ns = u64::try_from(self.options.greeting_max.as_nanos()).unwrap_or(u64::MAX);
            let end_ns = RealClock.monotonic_ns().saturating_add(limit_ns);
            self.unheard.push_back((end_ns, at, self.serial));
        }
        let (_, arrival) = self.arrivals.of(at).expect("inserted above");
        let watched = arrival.watch(&self.waiter, token_of(at), PEER_TOKEN | token_of(at));
        if watched.is_err() {
            self.end(at, None);
        }
        watched
    }

    /// Takes what an arrival says. Who has said hello goes on to a thread that serves.
    fn hear(&mut self, at: usize) {
        let Some((_, arrival)) = self.arrivals.of_mut(at) else { return };
        match arrival.greet(&*self.system, self.options.ring_bytes_max) {
            Ok(None) => {}
            Ok(Some(agreed)) => {
                let (_, arrival) = self.arrivals.remove(at).expect("it was just there");
                arrival.forget(&self.waiter);
                self.hand_over(arrival.greeted(&agreed));
            }
            Err(error) => self.end(at, Some(&error)),
        }
    }

    /// Gives a connection to the thread that has fewest.
    fn hand_over(&self, greeted: Greeted) {
        let fewest = self.mailboxes.iter().min_by_key(|mailbox| mailbox.connection_count());
        let mailbox = fewest.expect("there is a thread that serves");
        mailbox.hand(greeted);
    }

    /// Closes connections over a network that have not said hello in time, and forgets those that have.
    fn end_unheard(&mut self) {
        while let Some(&(end_ns, at, serial)) = self.unheard.front() {
            let is_silent = self.arrivals.of(at).is_some_and(|&(there, _)| there == serial);
            if is_silent && end_ns > RealClock.monotonic_ns() {
                return;
            }
            self.unheard.pop_front();
            if is_silent {
                self.end(at, None);
            }
        }
    }

    /// Closes the connection of an arrival.
    fn end(&mut self, at: usize, error: Option<&Error>) {
        let Some((_, arrival)) = self.arrivals.remove(at) else { return };
        if let Some(error @ Error::Protocol(_)) = error {
            self.system.note(&format!("connection of {} closed: {error}", arrival.name()));
        }
        drop(arrival);
        self.gone();
    }

    /// Looks from time to time whether certificates were renewed.
    fn renew_certs(&mut self) {
        let now_ns = RealClock.monotonic_ns();
        if let Some(certs) = self.options.certs.as_mut().filter(|_| now_ns >= self.renew_ns) {
            let (renewed, lack) = certs.renewed_and_told();
            *certs = renewed;
            self.renew_ns = now_ns + RENEW_NS;
            if let Some(lack) = lack {
                self.system.note(&format!(
                    "certificates cannot be taken into use as they are, and what was revoked stays so: {lack}"
                ));
            }
        }
    }
}
