//! What a daemon has given: pools, and handles on containers. It is given back when nobody has it any more.
//!
//! Invariants: what is open at the daemon on this connection is known here, or on its way back; it is taken in, and given back,
//! under the lock under which the answer was heard; nothing is given back on another connection than the one that it was given
//! on.

use super::{Inner, Link, State};
use crate::client::pending::{Farewell, Finished, Given, Late, Opens, Pending, Progress, Waiter, handles_of};
use crate::client::reopen::{Reopening, Stage};
use crate::client::session::{Attached, Handles};
use crate::client::slot::{SessionNo, SlotOn};
use crate::client::{PoolRef, unexpected};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::wire::{PoolAccess, PoolConnection, PoolName, PoolSlot, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Way, give_way};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{ContNo, Head, Result};

/// What the daemon has answered.
#[derive(Debug)]
pub(super) enum Reached {
    /// This.
    Daemon(SystemReply),
    /// A pool is open, and has a place among the others.
    Pool(PoolRef, Box<PoolConnection>),
}

/// The answer to closing what has ended.
pub(super) fn closed() -> Finished {
    Finished::Pool(Ok(Answer::Pool(PoolReply::Done)))
}

impl Link {
    /// Opens a pool: from the moment at which the answer is heard it is opened again whenever the connection is made anew.
    pub(in crate::client) async fn open_pool(
        &self,
        way: Way,
        head: &Head,
        connect: SystemVerb,
    ) -> Result<(PoolRef, PoolConnection)> {
        let opens = Opens { connect: connect.clone(), head: *head, is_beside: false };
        let opened = match way {
            Way::Now => self.inner.open(&opens),
            Way::Later => of_pool(self.inner.ask_system_later(head, &connect, Some(Box::new(opens))).await),
        };
        opened.map(|(pool, connected)| (pool, *connected))
    }

    /// Gives a pool back, and waits until that is heard of or the connection has ended: what is open ends with it.
    pub(in crate::client) async fn detach(&self, way: Way, pool: PoolRef, head: &Head) {
        let leave = |state: &mut State| {
            let farewell = state.leave(pool);
            state.send_unsent();
            farewell
        };
        self.come_back(way).await;
        let Some(Some(farewell)) = self.look(leave) else { return };
        let deadline_ns = self.inner.deadline(head);
        match way {
            Way::Now => self.inner.wait_gone(farewell, deadline_ns, head),
            Way::Later => {
                while !self.inner.is_gone(farewell, deadline_ns) {
                    give_way().await;
                }
            }
        }
    }

    /// Connects anew once if the connection has ended, so that who has come after is told what is given back.
    async fn come_back(&self, way: Way) {
        let is_cut = self.look(|state| {
            state.look_for_end();
            state.session.is_none()
        });
        match (is_cut, way) {
            (Some(true), Way::Now) => drop(self.inner.come_back(self.inner.lock())),
            (Some(true), Way::Later) => {
                let mut has_begun = false;
                while self.inner.comes_back(&mut has_begun) {
                    give_way().await;
                }
            }
            _ => {}
        }
    }

    /// The answer to a question to the daemon. A pool that it has opened is left again: whoever wants one has a
    /// [`Door`](crate::client::Door).
    pub(super) fn reply_of(&self, reached: Reached) -> SystemReply {
        match reached {
            Reached::Daemon(reply) => reply,
            Reached::Pool(pool, connected) => {
                self.look(|state| {
                    state.leave(pool);
                    state.send_unsent();
                });
                SystemReply::Connected(connected)
            }
        }
    }
}

impl Opens {
    /// What a question opens, if it is a pool.
    pub(super) fn of(head: &Head, verb: &SystemVerb) -> Option<Box<Self>> {
        let connects = matches!(verb, SystemVerb::PoolConnect { .. } | SystemVerb::PartConnect { .. });
        connects.then(|| Box::new(Self { connect: verb.clone(), head: *head, is_beside: false }))
    }
}

fn of_pool(reached: Result<Reached>) -> Result<(PoolRef, Box<PoolConnection>)> {
    match reached? {
        Reached::Pool(pool, connected) => Ok((pool, connected)),
        Reached::Daemon(_) => Err(unexpected()),
    }
}

impl Inner {
    /// Opens a pool, and waits for the answer.
    pub(super) fn open(&self, opens: &Opens) -> Result<(PoolRef, Box<PoolConnection>)> {
        of_pool(self.ask_system(&opens.head, &opens.connect, Some(Box::new(opens.clone()))))
    }

    fn wait_gone(&self, farewell: u64, deadline_ns: u64, head: &Head) {
        let mut state = self.lock();
        // It is told, and nobody waits for who does not answer.
        if state.is_silent() {
            return;
        }
        let is_gone = |state: &mut State| state.requests.of_mut(farewell).is_none().then_some(true);
        let (mut state, gone) = self.wait_taking(state, deadline_ns, 0, is_gone);
        if gone.is_none() {
            state.note_silence(farewell, head);
        }
    }

    /// Whether what was given back is gone; or nobody is to wait for that any longer.
    fn is_gone(&self, farewell: u64, deadline_ns: u64) -> bool {
        if self.mark.is_forked() {
            return true;
        }
        let mut state = self.lock();
        let now_ns = RealClock.monotonic_ns();
        state.look(now_ns);
        state.requests.of_mut(farewell).is_none() || now_ns >= deadline_ns || state.is_silent()
    }
}

impl State {
    /// The present connection.
    #[inline]
    pub(super) fn session_no(&self) -> Option<SessionNo> {
        self.session.as_ref().map(|session| session.no)
    }

    /// The number of a pool on the present connection.
    #[inline]
    pub(super) fn slot_of(&self, pool: PoolRef) -> Option<PoolSlot> {
        self.pools.of(pool)?.slot?.on(self.session_no()?)
    }

    /// Whether handles on containers of a pool have ended with the connection, or with the pool, and nobody is about to open
    /// them on another.
    pub(super) fn has_ended_with(&self, pool: PoolRef) -> bool {
        let is_cut = self.session.is_none() && !self.is_connecting;
        is_cut || self.is_refused(pool) || self.pools.of(pool).is_none()
    }

    /// A daemon has answered: a pool that it has opened has a place from now on.
    pub(super) fn connected(&mut self, opens: Option<Box<Opens>>, finished: Finished) -> Finished {
        let session = self.session_no();
        match (finished, opens, session) {
            (Finished::System(Ok(SystemReply::Connected(connected))), Some(opens), Some(session)) => {
                let Opens { connect, head, is_beside } = *opens;
                // Whatever name it was found by: when it is opened again, it is this pool or none. What it may be opened for was looked
                // at, and each engine knows the other way to say it.
                let connect = match connect {
                    SystemVerb::PoolConnect { access, .. } => {
                        let access =
                            if access == PoolAccess::Change { PoolAccess::ReadWrite } else { access };
                        SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access }
                    }
                    other => other,
                };
                let slot = SlotOn::new(connected.slot, session);
                let evictions = connected.evictions;
                let attached = Attached { is_beside, evictions, ..Attached::new(slot, connect, head) };
                Finished::Connected(self.pools.insert(attached), connected)
            }
            (other, ..) => other,
        }
    }

    /// All pools, to be opened again on the next connection. Should an answer be late, nobody waits for it, but it is known
    /// what to do with it.
    pub(super) fn reopening(&mut self) -> Vec<Reopening> {
        self.pools.end_beside();
        let copies = self.pools.copies().into_iter();
        let begin = |(pool, attached)| {
            let token = self.requests.begin(Waiter::Nobody(Late::Pool), None, None, u64::MAX);
            Reopening { pool, attached, token, stage: Stage::Asked }
        };
        copies.map(begin).collect()
    }

    /// The connection is there on which a pool was asked for; its answer may come still.
    pub(super) fn end_reopening(&mut self, token: u64, stage: Stage) {
        match self.requests.of_mut(token) {
            Some(pending) if stage == Stage::Asked => pending.progress = Progress::Sent,
            _ => drop(self.requests.end(token)),
        }
    }

    /// Takes a pool away, and gives it back if it is open on this connection.
    pub(super) fn leave(&mut self, pool: PoolRef) -> Option<u64> {
        let Attached { slot, head, .. } = self.pools.remove(pool)?;
        // Before it is said that it is left: from then on nobody waits for who has had leases there.
        self.leases.end_pool(pool);
        self.give_back(slot?, head)
    }

    /// Gives a pool back that nobody has; without its connection there is nothing to give back.
    pub(super) fn give_back(&mut self, slot: SlotOn, head: Head) -> Option<u64> {
        slot.on(self.session_no()?)?;
        Some(self.part_with(Farewell { head, to: Given::Pool(slot) }))
    }

    /// Gives a handle back that nobody has.
    pub(super) fn close(&mut self, pool: PoolRef, cont: ContNo) {
        if let Some(head) = self.pools.of(pool).map(|attached| attached.head) {
            self.part_with(Farewell { head, to: Given::Cont(pool, cont) });
        }
    }

    /// It is sent as soon as nothing else is being sent.
    fn part_with(&mut self, farewell: Farewell) -> u64 {
        self.has_unsent = true;
        self.requests.begin(Waiter::Farewell(Box::new(farewell)), None, None, u64::MAX)
    }

    /// Sends a farewell, unless what it gives back has ended by now.
    pub(super) fn send_farewell(&mut self, id: u64) -> Result<()> {
        let Some(Pending { waiter: Waiter::Farewell(farewell), .. }) = self.requests.of_mut(id) else {
            return Ok(());
        };
        let Farewell { head, to } = **farewell;
        let session = self.session_no();
        match to {
            Given::Pool(slot) => {
                if let Some(slot) = session.and_then(|session| slot.on(session)) {
                    return self.send_system(id, &head, &SystemVerb::PoolDisconnect { slot });
                }
            }
            Given::Cont(pool, cont) => {
                if self.slot_of(pool).is_some() {
                    return self.send(id, pool, &head, &Ask::Pool(PoolVerb::ContClose(cont)));
                }
            }
        }
        self.requests.end(id);
        Ok(())
    }

    /// Nobody waits for an answer any more: what it gives then is given back.
    pub(super) fn give_up(&mut self, id: u64) -> Option<Pending> {
        let pending = self.requests.give_up(id)?;
        let is_sent = match &pending.progress {
            Progress::Unsent => false,
            Progress::Sent => true,
            Progress::Done(Finished::Connected(pool, _)) => {
                self.leave(*pool);
                return Some(pending);
            }
            Progress::Done(_) => return Some(pending),
        };
        let Some((pool, handles)) = handles_of(&pending.waiter) else { return Some(pending) };
        if let Some(attached) = self.pools.of_mut(pool) {
            match handles {
                // Whoever has asked for that has it no more, whatever becomes of it.
                Handles::Closes(cont) => attached.closed(cont),
                Handles::Evicts(cont) if !is_sent => attached.has_evicted(cont),
                _ => {}
            }
        }
        Some(pending)
    }

    /// An answer that nobody waits for.
    pub(super) fn take_late(&mut self, late: Late, finished: Finished) {
        let session = self.session_no();
        match (late, finished) {
            (Late::Pool, Finished::System(Ok(SystemReply::Connected(connected)))) => {
                if let Some(session) = session {
                    self.give_back(SlotOn::new(connected.slot, session), Head::default());
                }
            }
            (Late::Handles(pool, handles), Finished::Pool(result)) => self.unwanted(pool, handles, &result),
            _ => {}
        }
    }

    /// An answer that nobody wants.
    pub(super) fn unwanted(&mut self, pool: PoolRef, handles: Handles, result: &Result<Answer>) {
        match (handles, result) {
            (Handles::Opens(_), Ok(Answer::Pool(PoolReply::Cont(handle)))) => self.close(pool, handle.no),
            (Handles::Opens(_), _) => {}
            (handles, result) => {
                self.pools.of_mut(pool).into_iter().for_each(|attached| attached.answered(handles, result));
            }
        }
    }

    /// The connection has ended, and with it what was open on it.
    pub(super) fn end_given(&mut self) {
        for id in self.requests.unanswered() {
            match self.requests.of_mut(id).map(|pending| &pending.waiter) {
                Some(Waiter::Nobody(Late::Handles(pool, Handles::Evicts(cont)))) => {
                    let (pool, cont) = (*pool, *cont);
                    self.pools.of_mut(pool).into_iter().for_each(|attached| attached.has_evicted(cont));
                    self.requests.end(id);
                }
                Some(Waiter::Nobody(_) | Waiter::Farewell(_)) => drop(self.requests.end(id)),
                _ => {}
            }
        }
        self.keep_closes();
    }

    /// The connection has ended on which handles were to be closed: they are on record, and are closed on the next one if that
    /// is soon there.
    fn keep_closes(&mut self) {
        for (id, pool, cont, is_noted) in self.closes() {
            if is_noted && self.is_open_by_others(pool, cont) {
                // On the next connection these would be those.
                self.finish(id, closed());
            } else if let Some(pending) = self.requests.of_mut(id) {
                pending.is_late = true;
            }
        }
    }

    /// Whether a handle that is being closed, and that was noted, has ended with its connection and may be open for the next daemon.
    pub(super) fn may_be_on_record(&self, pool: PoolRef, cont: ContNo) -> bool {
        self.session.is_none() && !self.is_refused(pool) && !self.is_open_by_others(pool, cont)
    }

    /// Whether the client has other handles on a container than those whose closing was noted.
    fn is_open_by_others(&self, pool: PoolRef, cont: ContNo) -> bool {
        let Some(own) = self.pools.of(pool) else { return true };
        let is_same = |other: &&Attached| match (&other.connect, &own.connect) {
            (SystemVerb::PoolConnect { name, .. }, SystemVerb::PoolConnect { name: own, .. }) => name == own,
            (other, own) => other == own,
        };
        self.pools.iter().filter(is_same).any(|other| other.conts.contains_key(&cont))
    }

    /// Handles that are to be closed have ended, of pools of which that is so.
    pub(super) fn end_closes(&mut self, has_ended: impl Fn(&Attached) -> bool) {
        for (id, pool, ..) in self.closes() {
            if self.pools.of(pool).is_none_or(&has_ended) {
                self.finish(id, closed());
            }
        }
    }

    /// A connection is made from now on, on which handles are closed, too.
    pub(super) fn try_closes(&mut self) {
        for (id, ..) in self.closes() {
            self.requests.of_mut(id).into_iter().for_each(|pending| pending.is_tried = true);
        }
    }

    /// A handle that its caller closes has ended, and he has waited for a connection as long as for who does not answer. One that is
    /// made still opens it again, and gives it back then.
    pub(super) fn closes_without(&mut self, id: u64, pool: PoolRef, cont: ContNo) {
        let is_open =
            self.requests.of_mut(id).is_some_and(|pending| !matches!(pending.progress, Progress::Done(_)));
        if is_open && self.is_connecting {
            self.close(pool, cont);
        }
        if is_open {
            self.finish(id, closed());
        }
    }

    /// What was to be given back on a connection that could not be made has ended.
    pub(super) fn end_farewells(&mut self) {
        for id in self.requests.unanswered() {
            if self.requests.of_mut(id).is_some_and(|pending| matches!(pending.waiter, Waiter::Farewell(_))) {
                self.requests.end(id);
            }
        }
    }

    /// The connection could not be made that was begun for them, too: nobody is there to be told.
    pub(super) fn end_tried_closes(&mut self) {
        for (id, ..) in self.closes() {
            if self.requests.of_mut(id).is_some_and(|pending| pending.is_tried) {
                self.finish(id, closed());
            }
        }
    }

    /// Handles that are being closed; and whether that was noted when it was asked for.
    fn closes(&mut self) -> Vec<(u64, PoolRef, ContNo, bool)> {
        let mut closes = Vec::new();
        for id in self.requests.unanswered() {
            match self.requests.of_mut(id).map(|pending| &pending.waiter) {
                Some(Waiter::Caller(pool, Handles::Closes(cont))) => closes.push((id, *pool, *cont, false)),
                Some(Waiter::Queue { pool, request: Some(request), .. }) => {
                    if let Ask::Pool(PoolVerb::ContClose(cont)) = request.ask {
                        closes.push((id, *pool, cont, true));
                    }
                }
                _ => {}
            }
        }
        closes
    }
}
