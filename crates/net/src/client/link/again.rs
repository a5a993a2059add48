//! Opening a pool again that could not be opened when the connection was made anew: it may be busy, or damaged, and the other
//! pools of the connection go on meanwhile.
//!
//! Invariants: one thread opens a pool, the others wait for it or are told what the last attempt met; a pool is used again when
//! its containers are open, too.

use super::{Guard, Inner, State};
use crate::client::PoolRef;
use crate::client::pending::{Finished, Opens, Progress, Waiter};
use crate::client::reopen::is_final;
use crate::client::session::{Attached, Handles, Opened, Refused};
use core::time::Duration;
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb};
use dolmen_codec::{Answer, Ask, Request};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{ContNo, Error, Result};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Between two attempts on a pool that is busy: whoever has it may be about to let go of it.
const BUSY_REST: Duration = Duration::from_millis(25);

/// How long whoever asks for a pool that cannot be opened is told why without another attempt.
const REFUSED_NS: u64 = 1_000_000_000;

impl State {
    /// Whether a pool could not be opened on this connection, and may be later.
    #[inline]
    pub(super) fn is_refused(&self, pool: PoolRef) -> bool {
        self.has_refused && self.pools.of(pool).is_some_and(|attached| attached.refused.is_some())
    }

    /// The pool that requests of a queue wait for, if it is one.
    pub(super) fn refused_of(&self, queue: usize) -> Option<PoolRef> {
        self.requests.iter().find_map(|pending| match (&pending.progress, &pending.waiter) {
            (Progress::Unsent, Waiter::Queue { queue: of, pool, .. }) if *of == queue => {
                self.is_refused(*pool).then_some(*pool)
            }
            _ => None,
        })
    }

    /// Ends requests of queues to a pool that cannot be opened.
    pub(super) fn fail_refused(&mut self, pool: PoolRef, error: &Error) {
        for id in self.requests.unanswered() {
            let pending = self.requests.of_mut(id).expect("just listed");
            let is_unsent = matches!(pending.progress, Progress::Unsent);
            if is_unsent && matches!(pending.waiter, Waiter::Queue { pool: of, .. } if of == pool) {
                self.finish(id, Finished::Pool(Err(error.clone())));
            }
        }
    }

    /// Looks anew whether any is refused.
    pub(super) fn note_refused(&mut self) {
        self.has_refused = self.pools.iter().any(|attached| attached.refused.is_some());
    }
}

impl Inner {
    /// Tries to open a pool again, or waits a moment for who does; then look whether it is refused still.
    ///
    /// # Errors
    /// Why it cannot be opened, if that is not worth waiting for, or time is over.
    pub(super) fn open_again<'s>(
        &'s self,
        mut state: Guard<'s>,
        pool: PoolRef,
        deadline_ns: u64,
    ) -> (Guard<'s>, Result<()>) {
        let Some(attached) = state.pools.of_mut(pool) else { return (state, Ok(())) };
        let Some(Refused { error, at_ns }) = attached.refused.clone() else { return (state, Ok(())) };
        let now_ns = RealClock.monotonic_ns();
        if now_ns >= deadline_ns {
            return (state, Err(error));
        }
        let is_busy = error == Error::Busy;
        let age = Duration::from_nanos(now_ns.saturating_sub(at_ns));
        if attached.is_opening || (is_busy && age < BUSY_REST) {
            dolmen_env::look();
            state.sleepers += 1;
            let (mut state, _) =
                self.woken.wait_timeout(state, BUSY_REST).unwrap_or_else(PoisonError::into_inner);
            state.sleepers -= 1;
            return (state, Ok(()));
        }
        if age < Duration::from_nanos(REFUSED_NS) && !is_busy {
            return (state, Err(error));
        }
        attached.is_opening = true;
        let (copy, session) = (attached.clone(), state.session_no());
        drop(state);
        let opened = self.open_beside(&copy);
        let mut state = self.lock();
        let is_same = state.session_no() == session;
        state.settle_opened(pool, opened, is_same);
        self.woken.notify_all();
        (state, Ok(()))
    }

    /// Opens a pool and its containers under a number that nobody uses yet.
    fn open_beside(&self, copy: &Attached) -> Result<PoolRef> {
        let Attached { connect, head, .. } = copy;
        let opens = Opens { connect: connect.clone(), head: *head, is_beside: true };
        let (pool, connected) = self.open(&opens)?;
        if connected.evictions > copy.evictions {
            self.lock().leave(pool);
            return Err(Error::NoPermission);
        }
        for (cont, known) in &copy.conts {
            for _ in 0..known.count {
                let ask = |verb| Request { token: 0, head: copy.head, ask: Ask::Pool(verb) };
                let wanted = known.wanted();
                let open = PoolVerb::ContOpen(ContName::Uuid(known.uuid), wanted);
                match self.call(pool, Handles::Opens(wanted), ask(open)).result {
                    Ok(Answer::Pool(PoolReply::Cont(handle))) if handle.no == *cont => {
                        if copy.goes_on(known, &handle) {
                            continue;
                        }
                        // Ignored: they were taken away meanwhile, and whoever uses one is told so.
                        let closes = Handles::Closes(*cont);
                        let _closed = self.call(pool, closes, ask(PoolVerb::ContClose(*cont)));
                        break;
                    }
                    Err(error) if !is_final(&error) => {
                        self.lock().leave(pool);
                        return Err(error);
                    }
                    // It was destroyed meanwhile: whoever uses it is told so.
                    _ => break,
                }
            }
        }
        for verb in copy.here() {
            let here = Request { token: 0, head: copy.head, ask: Ask::Pool(verb) };
            // Ignored: who was forgotten is told so when he asks for something himself.
            let _told = self.call(pool, Handles::Same, here).result;
        }
        Ok(pool)
    }
}

impl State {
    /// Takes over what was opened for a pool, unless the connection is another one by now, on which it was opened with all
    /// others, or refused again; gives back what nobody uses.
    fn settle_opened(&mut self, pool: PoolRef, opened: Result<PoolRef>, is_same: bool) {
        let beside = opened.map(|beside| self.pools.remove(beside));
        let real = self.pools.of_mut(pool);
        match (real, beside) {
            (Some(real), Ok(Some(beside))) if is_same => {
                (real.slot, real.refused, real.is_opening) = (beside.slot, None, false);
                // What was closed meanwhile was so before it was open.
                let closed = closed_since(&beside.conts, &real.conts);
                closed.into_iter().for_each(|cont| self.close(pool, cont));
            }
            (Some(real), Err(error)) if is_same => {
                let is_gone = matches!(error, Error::NotFound | Error::NoPermission);
                let refused = Refused { error, at_ns: RealClock.monotonic_ns() };
                (real.slot, real.refused) = (None, (!is_gone).then_some(refused));
                real.is_opening = false;
            }
            (real, beside) => {
                if let Some(real) = real {
                    real.is_opening = false;
                }
                if let Ok(Some(Attached { slot: Some(slot), head, .. })) = beside {
                    self.give_back(slot, head);
                }
            }
        }
        self.note_refused();
        self.has_unsent = true;
        self.send_unsent();
    }
}

/// Of which containers handles are open that nobody has any more, once for each.
fn closed_since(open: &BTreeMap<ContNo, Opened>, known: &BTreeMap<ContNo, Opened>) -> Vec<ContNo> {
    let more = |cont, opened: &Opened| {
        opened.count.saturating_sub(known.get(cont).map_or(0, |known: &Opened| known.count))
    };
    let lists = open.iter().map(|(cont, opened)| core::iter::repeat_n(*cont, more(cont, opened) as usize));
    lists.flatten().collect()
}
