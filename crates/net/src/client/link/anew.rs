//! Connecting anew: by a thread that waits until it is done, or step by step by those who may not wait.
//!
//! Invariants: at most one connection is made at a time; whoever waits goes on with one that others have begun, since those may
//! never look again. A handle that is given back while no connection is there has ended with the last one.

use super::ends::END_REST;
use super::{Guard, Inner, LOOK_RECONNECT_NS, SLEEP_MAX, State};
use crate::client::follow::connect_or_follow;
use crate::client::reopen::Reopening;
use crate::client::session::{Session, deadline_after};
use crate::error::{Error, Result as NetResult};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;
use core::time::Duration;
use dolmen_codec::{Way, now, step};
use dolmen_env::{Clock, RealClock};
use std::sync::{Arc, PoisonError};

/// Between two attempts to connect: a daemon that is restarted needs some ten milliseconds.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// How long a thread that waits rests between two looks at a connection that is made step by step.
const STEP_REST: Duration = Duration::from_micros(100);

/// How much longer than an attempt to connect took nobody tries again, once the engine was waited for in vain: an address
/// that does not even refuse holds up one caller in so many.
const FAILED_TIMES: u64 = 10;

/// Attempts that take no longer were refused, and are made by every caller.
const REFUSED_NS: u64 = LOOK_RECONNECT_NS / 2;

/// A connection, or why there is none; and the pools that are to be open on it.
type Made = (NetResult<Session>, Vec<Reopening>);

/// A connection that is made step by step.
pub(super) struct Coming {
    making: Pin<Box<dyn Future<Output = Made> + Send>>,
    /// Whether the engine is there; its pools are being opened.
    is_there: Arc<AtomicBool>,
    /// The numbers of the questions for its pools.
    tokens: Vec<u64>,
}

impl Inner {
    /// Tries once to connect anew, and rests if that fails; or waits for who does.
    pub(super) fn reconnect<'s>(&'s self, mut state: Guard<'s>, deadline_ns: u64) -> Guard<'s> {
        let left_ns = deadline_ns.saturating_sub(RealClock.monotonic_ns());
        let left = Duration::from_nanos(left_ns).min(SLEEP_MAX);
        if state.coming.is_some() {
            return self.drive(state, left);
        }
        if state.is_connecting {
            dolmen_env::look();
            state.sleepers += 1;
            let (again, _) = self.woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.sleepers -= 1;
            return state;
        }
        if state.rests() {
            drop(state);
            dolmen_env::wait(left.min(END_REST));
            return self.lock();
        }
        state = self.attempt(state, deadline_ns, deadline_ns);
        if state.session.is_none() {
            drop(state);
            dolmen_env::wait(RECONNECT_PAUSE.min(left));
            state = self.lock();
        }
        state
    }

    /// Whether the engine was waited for in vain for as long as this client waits, since the connection ended.
    pub(super) fn is_given_up(&self, state: &State) -> bool {
        let patience_ns = u64::try_from(self.options.patience.as_nanos()).unwrap_or(u64::MAX);
        state.session.is_none() && RealClock.monotonic_ns().saturating_sub(state.lost_ns) >= patience_ns
    }

    /// Looks whether an engine is back that was given up: without waiting, unless it is. Whether that is found out still.
    pub(super) fn probe<'s>(&'s self, mut state: Guard<'s>) -> (Guard<'s>, bool) {
        if state.coming.is_some() {
            state = self.drive(state, SLEEP_MAX);
            let is_coming = state.coming.is_some();
            return (state, is_coming);
        }
        if state.is_connecting || !state.is_probe_due() {
            return (state, false);
        }
        let until_ns = RealClock.monotonic_ns() + LOOK_RECONNECT_NS;
        (self.attempt(state, until_ns, deadline_after(self.options.patience)), false)
    }

    /// Sends what queues have in a buffer. Over a connection that has ended it goes with the next one, which is looked for as by who
    /// gives something up: whoever has asked may say nothing more for long, and is not there for the engine until then.
    /// Whether there is one.
    pub(super) fn flush(&self) -> bool {
        if self.mark.is_forked() {
            return false;
        }
        let mut state = self.lock();
        state.flush();
        state.look_for_end();
        // With the room for it: what is asked after it is to come after it.
        state.send_unsent();
        if !state.has_unsent || state.session.is_some() {
            return false;
        }
        self.come_back(state).session.is_some()
    }

    /// Looks once whether an engine is there again, for who gives something up that it may have on record; waits no longer than a
    /// look does, nor for a connection that others make if that takes longer: who gives up many things waits once.
    pub(super) fn come_back<'s>(&'s self, mut state: Guard<'s>) -> Guard<'s> {
        let until_ns = RealClock.monotonic_ns() + LOOK_RECONNECT_NS;
        while state.session.is_none()
            && (state.coming.is_some() || state.is_connecting)
            && RealClock.monotonic_ns() < until_ns.min(state.connecting_ns + LOOK_RECONNECT_NS)
        {
            state = self.reconnect(state, until_ns);
        }
        if state.session.is_some() || state.is_connecting || !state.is_probe_due() {
            return state;
        }
        self.attempt(state, until_ns, until_ns)
    }

    /// The same, in steps: whether that goes on. What others have begun before may fail for what was then: after it there is one
    /// of its own.
    pub(super) fn comes_back(&self, has_begun: &mut bool) -> bool {
        if self.mark.is_forked() {
            return false;
        }
        let mut state = self.lock();
        let is_free = state.coming.is_none() && !state.is_connecting && state.session.is_none();
        if is_free && (core::mem::replace(has_begun, true) || !state.is_probe_due()) {
            return false;
        }
        if is_free {
            self.begin(&mut state);
        }
        self.go_on(&mut state);
        state.session.is_none()
    }

    /// Goes on with a connection that is needed, for whoever may not wait. Whether there is hope: there is one, or one is made, or
    /// the engine was not waited for long enough.
    pub(super) fn look_anew(&self, state: &mut State) -> bool {
        if state.session.is_some() {
            return true;
        }
        let is_given_up = self.is_given_up(state);
        if state.coming.is_none() && !state.is_connecting && !state.rests() {
            let since_ns = RealClock.monotonic_ns().saturating_sub(state.failed.0);
            let has_rested = since_ns >= u64::try_from(RECONNECT_PAUSE.as_nanos()).unwrap_or(u64::MAX);
            if if is_given_up { state.is_probe_due() } else { has_rested } {
                self.begin(state);
            }
        }
        self.go_on(state);
        state.session.is_some() || state.coming.is_some() || !is_given_up
    }

    /// Begins to connect step by step.
    fn begin(&self, state: &mut State) {
        let pools = state.begin_connecting();
        let tokens = pools.iter().map(|reopening| reopening.token).collect();
        let (address, options) = (self.address.clone(), self.options.clone());
        let (starter, follower) = (self.starter.get().cloned(), self.follower.get().cloned());
        let is_there = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_there);
        let making = async move {
            let (mut pools, connect_ns) = (pools, deadline_after(options.connect_timeout));
            let made = async {
                let ends = (connect_ns, deadline_after(options.patience));
                let ways = (starter.as_deref(), follower.as_deref());
                let connected = connect_or_follow(Way::Later, &address, &options, ways, ends);
                let mut session = connected.await?;
                there.store(true, Ordering::Relaxed);
                session.reopen(Way::Later, &mut pools, deadline_after(options.patience)).await?;
                Ok(session)
            };
            (made.await, pools)
        };
        state.coming = Some(Coming { making: Box::pin(making), is_there, tokens });
    }

    /// A step of a connection that is being made.
    fn go_on(&self, state: &mut State) {
        let coming = state.coming.take();
        let mut taken = Step { state: &mut *state, coming };
        let Some(coming) = &mut taken.coming else { return };
        let made = step(&mut coming.making);
        if coming.is_there.swap(false, Ordering::Relaxed) {
            // Whoever comes now waits until its pools are open.
            taken.state.lost_ns = RealClock.monotonic_ns();
        }
        let coming = taken.coming.take();
        drop(taken);
        match made {
            Poll::Pending => state.coming = coming,
            Poll::Ready(made) => {
                state.end_connecting(made);
                self.woken.notify_all();
            }
        }
    }

    /// The same, of a thread that waits.
    fn drive<'s>(&'s self, mut state: Guard<'s>, left: Duration) -> Guard<'s> {
        self.go_on(&mut state);
        if state.coming.is_some() {
            drop(state);
            dolmen_env::wait(left.min(STEP_REST));
            state = self.lock();
        }
        state
    }

    /// Tries once to connect until `connect_ns`, to a daemon that is started if need be, and to open what was open until `deadline_ns`; without the lock.
    fn attempt<'s>(&'s self, mut state: Guard<'s>, connect_ns: u64, deadline_ns: u64) -> Guard<'s> {
        let mut attempt = Attempt { inner: self, pools: state.begin_connecting(), is_over: false };
        drop(state);
        let ways = (self.starter.get().map(Arc::as_ref), self.follower.get().map(Arc::as_ref));
        let ends = (connect_ns, deadline_ns);
        let connected = now(connect_or_follow(Way::Now, &self.address, &self.options, ways, ends));
        let made = connected.and_then(|mut session| {
            // It is there: whoever comes now waits until its pools are open.
            self.lock().lost_ns = RealClock.monotonic_ns();
            now(session.reopen(Way::Now, &mut attempt.pools, deadline_ns))?;
            Ok(session)
        });
        attempt.end(made)
    }
}

/// A connection that a thread makes. One that panics, as it may where it tells something, keeps nobody from the next.
struct Attempt<'s> {
    inner: &'s Inner,
    pools: Vec<Reopening>,
    is_over: bool,
}

impl<'s> Attempt<'s> {
    fn end(&mut self, made: NetResult<Session>) -> Guard<'s> {
        self.is_over = true;
        let mut state = self.inner.lock();
        state.end_connecting((made, core::mem::take(&mut self.pools)));
        self.inner.woken.notify_all();
        state
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.end(Err(Error::Ended)));
        }
    }
}

/// A step of a connection that is made step by step: of one that panics nothing goes on.
struct Step<'s> {
    state: &'s mut State,
    coming: Option<Coming>,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            self.state.end_failed(&coming.tokens);
        }
    }
}

impl State {
    /// What is to be open on a connection that is made from now on.
    fn begin_connecting(&mut self) -> Vec<Reopening> {
        self.is_connecting = true;
        self.connecting_ns = RealClock.monotonic_ns();
        self.try_closes();
        self.reopening()
    }

    fn end_connecting(&mut self, (made, pools): Made) {
        match made {
            Ok(session) => {
                self.is_connecting = false;
                self.renew(session, pools);
            }
            Err(_silent) => {
                self.end_failed(&pools.iter().map(|reopening| reopening.token).collect::<Vec<_>>());
            }
        }
    }

    /// No connection was made; `tokens` are the numbers of the questions for its pools.
    fn end_failed(&mut self, tokens: &[u64]) {
        self.is_connecting = false;
        tokens.iter().for_each(|&token| drop(self.requests.end(token)));
        self.end_tried_closes();
        self.end_farewells();
        let now_ns = RealClock.monotonic_ns();
        self.failed = (now_ns, now_ns - self.connecting_ns);
    }

    /// Whether an engine that was given up is to be looked at again.
    fn is_probe_due(&self) -> bool {
        let (failed_ns, took_ns) = self.failed;
        let since_ns = RealClock.monotonic_ns().saturating_sub(failed_ns);
        took_ns < REFUSED_NS || since_ns / FAILED_TIMES >= took_ns
    }
}
