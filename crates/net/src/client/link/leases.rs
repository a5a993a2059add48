//! Leases of a connection as its client has them (docs/decisions/0037-leases.md).
//!
//! Invariants: pushes are taken in among the answers, in their order; a lease ends with its connection; what was read with one is
//! void before the push is acknowledged; what is being given back is not believed in when an answer that was under way grants it
//! anew.

use super::{Guard, Handles, Inner, Link, SLEEP_MAX, State};
use crate::client::PoolRef;
use crate::client::pending::{Waiter, Wanted, token_of_nobody};
use crate::client::session::{NO_SLOT, Session, deadline_after};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::wire::{Caller, Push, Pushed, ReplyHeader, ReplyKind, encode_request};
use dolmen_codec::{Ask, Lease, Outcome, Request};
use dolmen_env::{Clock, RealClock};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{ContNo, Epoch, Head, Oid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};

/// Questions that renew and are not answered: an engine that does not answer is asked no more.
const ASKED_MAX: usize = 64;

/// Between two looks of who listens beside others who drive the connection.
const BESIDE_REST: Duration = Duration::from_millis(2);

/// What has come to who watches.
#[derive(Clone, Debug, Default)]
pub struct Pushes {
    /// The last of them, and on which connection they came.
    upto: u64,
    connection: u64,
    /// Leases that are void, each with the object that it was on, if the engine has said so.
    pub void: Vec<(Lease, Option<Oid>)>,
    /// Whether all are that there were.
    pub all: bool,
}

#[derive(Default)]
pub(super) struct Leases {
    held: BTreeMap<u32, Held>,
    /// Until when those of a container hold.
    terms: BTreeMap<(PoolRef, ContNo), Arc<AtomicU64>>,
    /// The last push that was taken in, that was done with, and of which the engine was told that.
    taken: u64,
    handled: u64,
    acked: u64,
    /// The last one that who watches has heard of.
    shown: u64,
    is_watched: bool,
    /// Who waits for pushes is to return.
    is_called: bool,
    /// How many connections there were before.
    connection: u64,
    news: Pushes,
    /// Numbers that are given back by these.
    giving: BTreeSet<u32>,
    /// Questions that renew.
    asked: VecDeque<Asked>,
    asked_count: u64,
}

struct Held {
    lease: Lease,
    of: (PoolRef, ContNo),
}

struct Asked {
    token: u64,
    of: (PoolRef, ContNo),
    sent_ns: u64,
    given: Vec<u32>,
}

impl Link {
    /// As a call, of a read of the present: with a lease on what it has looked at, if there may be one.
    pub(in crate::client) fn call_leased(
        &self,
        pool: PoolRef,
        request: Request<'_>,
    ) -> (Outcome, Option<Lease>) {
        let wanted = Wanted::of(&request.ask, true);
        self.inner.call_wanting(pool, Handles::Same, request, wanted)
    }

    /// Renews the leases of this connection, and gives back those that nobody has any more. Whoever has some does this every
    /// [`LEASE_RENEW_NS`](dolmen_codec::LEASE_RENEW_NS). Never waits.
    pub fn renew_leases(&self) {
        self.look(|state| {
            state.look_for_end();
            state.renew_leases();
            state.send_unsent();
            state.flush();
        });
    }

    /// What has been pushed since the last call, or within `timeout`. From the first call on, or from the start if the options of
    /// the connection say so, nothing is acknowledged before [`Link::handled`] is called: whoever has told others of what he has
    /// read tells them first that it is void.
    #[must_use]
    pub fn pushes(&self, timeout: Duration) -> Pushes {
        if self.is_forked() {
            return Pushes::default();
        }
        let deadline_ns = deadline_after(timeout);
        let mut state = self.inner.lock();
        state.leases.is_watched = true;
        while !state.leases.has_pushes() && !state.leases.is_called {
            let left_ns = deadline_ns.saturating_sub(RealClock.monotonic_ns());
            if left_ns == 0 {
                break;
            }
            state = self.inner.listen_for_pushes(state, left_ns);
        }
        let (upto, connection) = (state.leases.taken, state.leases.connection);
        state.leases.shown = upto;
        state.leases.is_called = false;
        Pushes { upto, connection, ..core::mem::take(&mut state.leases.news) }
    }

    /// Has [`Link::pushes`] return, now or when it is called next, whatever has come. Never waits.
    pub fn call_listener(&self) {
        self.look(|state| {
            state.leases.is_called = true;
            state.ring();
        });
        // Beside others who drive the connection, or without one.
        self.inner.woken.notify_all();
    }

    /// Takes in what is pushed for so long, and says so at once: for who has told nobody else of what he has read.
    pub fn attend(&self, time: Duration) {
        if self.is_forked() {
            return;
        }
        let deadline_ns = deadline_after(time);
        let mut state = self.inner.lock();
        loop {
            state.leases.shown = state.leases.taken;
            state.send_unsent();
            state.flush();
            let left_ns = deadline_ns.saturating_sub(RealClock.monotonic_ns());
            if left_ns == 0 {
                return;
            }
            state = self.inner.listen_for_pushes(state, left_ns);
        }
    }

    /// Whether both are one connection.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether the engine gives leases; not without a connection.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        self.look(|state| state.session.as_ref().is_some_and(Session::has_leases)).unwrap_or(false)
    }

    /// Whether there is a daemon that knows neither leases nor of what files are open.
    pub(in crate::client) fn is_of_before_leases(&self) -> bool {
        let lacks = |session: &Session| !session.has_leases();
        self.look(|state| state.session.as_ref().is_some_and(lacks)).unwrap_or(false)
    }

    /// Whether the engine answers questions for files ([`FEATURE_FILES`](dolmen_codec::wire::FEATURE_FILES)).
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.look(|state| state.session.as_ref().is_some_and(Session::has_files)).unwrap_or(false)
    }

    /// All of this is done with.
    pub fn handled(&self, pushes: &Pushes) {
        self.look(|state| {
            if pushes.connection == state.leases.connection {
                state.leases.handled = state.leases.handled.max(pushes.upto);
            }
            state.send_unsent();
            state.flush();
        });
    }
}

impl Inner {
    /// Waits for pushes, or for a moment. While requests are under way whoever waits for these drives the connection: who
    /// slept on it beside them would have to be called for each of their answers.
    fn listen_for_pushes<'s>(&'s self, mut state: Guard<'s>, left_ns: u64) -> Guard<'s> {
        let left = Duration::from_nanos(left_ns);
        if state.session.is_some() && state.requests.len() == 0 {
            let is_over = |state: &mut State| {
                let is_called = state.leases.has_pushes() || state.leases.is_called;
                (is_called || state.requests.len() > 0).then_some(true)
            };
            return self.wait_taking(state, deadline_after(left), 0, is_over).0;
        }
        // Without a connection whoever asks something makes one.
        let rest = left.min(if state.session.is_some() { BESIDE_REST } else { SLEEP_MAX });
        state = self.woken.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        if !state.is_driven {
            state.pump();
        }
        state.send_unsent();
        state
    }
}

impl State {
    /// Whether a request is sent with the wish for a lease; it is from now.
    #[inline]
    pub(super) fn wants_lease(&mut self, id: u64) -> bool {
        let has_leases = self.session.as_ref().is_some_and(Session::has_leases);
        match self.requests.of_mut(id).map(|pending| &mut pending.lease) {
            Some(Wanted::Yes { sent_ns, .. }) if has_leases => {
                *sent_ns = RealClock.monotonic_ns();
                true
            }
            _ => false,
        }
    }

    /// Says that pushes were taken in, for which no request goes out otherwise.
    pub(super) fn send_news(&mut self) {
        if self.session.is_none() || !self.output.is_empty() {
            return;
        }
        let of = self.leases.terms.keys().next().copied();
        self.ask_leases(of, Vec::new());
    }

    fn renew_leases(&mut self) {
        if self.session.is_none() {
            return;
        }
        let mut unwanted = self.leases.unwanted();
        for of in self.leases.terms.keys().copied().collect::<Vec<_>>() {
            let left = unwanted.remove(&of).unwrap_or_default();
            if left.is_empty() && !self.leases.held.values().any(|held| held.of == of) {
                self.leases.terms.remove(&of);
                continue;
            }
            // At least one, which renews.
            for given in left.chunks(IODS_MAX).chain(left.is_empty().then_some(&[][..])) {
                if !self.output.is_empty() || self.leases.asked.len() >= ASKED_MAX {
                    return;
                }
                self.leases.begin_to_give(given);
                self.ask_leases(Some(of), given.to_vec());
            }
        }
    }

    /// Asks for leases of a container; the answer goes by a token that no request has.
    fn ask_leases(&mut self, of: Option<(PoolRef, ContNo)>, given: Vec<u32>) {
        self.leases.asked_count += 1;
        let (version, token) = (self.terms().version, token_of_nobody(self.leases.asked_count));
        let slot = of.and_then(|(pool, _)| self.slot_of(pool)).unwrap_or(NO_SLOT);
        let push_acked = self.leases.handled;
        let caller = Caller {
            version,
            token,
            head: Head::default(),
            pool: slot,
            seen: Epoch::ZERO,
            push_acked,
            wants_lease: false,
            names_charged: false,
            tells_ends: false,
        };
        let ask = Ask::Pool(PoolVerb::Leases(of.map_or(ContNo(0), |(_, cont)| cont), given.clone()));
        let sent_ns = RealClock.monotonic_ns();
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let is_written = encode_request(&mut scratch, &caller, &ask).is_ok();
        if is_written {
            self.write(&scratch);
            self.leases.has_acked(push_acked);
            self.leases.asked.extend(of.map(|of| Asked { token, of, sent_ns, given }));
        }
        self.scratch = scratch;
        self.flush();
    }

    /// An answer has come with a lease. Of a pool that was left meanwhile it is void: nobody waits for who has left.
    pub(super) fn granted(&mut self, header: &ReplyHeader) {
        let Some(pending) = self.requests.of_mut(header.token) else { return };
        let (Wanted::Yes { cont, sent_ns }, Waiter::Caller(pool, _) | Waiter::Queue { pool, .. }) =
            (&pending.lease, &pending.waiter)
        else {
            return;
        };
        let of = (*pool, *cont);
        if self.pools.of(of.0).is_none() {
            return;
        }
        if let Some(lease) = self.leases.grant(of, header.lease, (*sent_ns, header.lease_term_ms)) {
            pending.lease = Wanted::Has(lease);
        }
    }

    /// An answer that no request waits for: it may renew leases.
    pub(super) fn renewed(&mut self, header: &ReplyHeader) {
        let Some(at) = self.leases.asked.iter().position(|asked| asked.token == header.token) else { return };
        let Some(Asked { of, sent_ns, given, .. }) = self.leases.asked.remove(at) else { return };
        // Every answer that could grant one of these has come before this one.
        for no in given {
            self.leases.giving.remove(&no);
        }
        if header.kind == ReplyKind::Failed {
            self.leases.end_of(of);
        } else {
            self.leases.renew(of, sent_ns, header.lease_term_ms);
        }
    }
}

impl Leases {
    /// None; whether somebody watches from the start.
    pub(super) fn new(is_watched: bool) -> Self {
        Self { is_watched, ..Self::default() }
    }

    /// The last push that is done with.
    #[inline]
    pub(super) fn handled(&self) -> u64 {
        self.handled
    }

    /// The engine has been told so of those up to here.
    #[inline]
    pub(super) fn has_acked(&mut self, push_acked: u64) {
        self.acked = push_acked;
    }

    /// Whether it is to be told so of others.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.handled > self.acked
    }

    /// Whether there is something for who watches, if only to say that he is done with it.
    fn has_pushes(&self) -> bool {
        self.news.all || !self.news.void.is_empty() || self.taken > self.shown
    }

    /// An answer grants a lease; `None` if that is being given back.
    fn grant(&mut self, of: (PoolRef, ContNo), no: u32, (sent_ns, term_ms): (u64, u32)) -> Option<Lease> {
        let until_ns = self.renew(of, sent_ns, term_ms);
        if self.giving.contains(&no) {
            return None;
        }
        let held = self.held.entry(no).or_insert_with(|| Held { lease: Lease::new(no, until_ns), of });
        Some(held.lease.clone())
    }

    /// Leases that nobody has any more.
    fn unwanted(&self) -> BTreeMap<(PoolRef, ContNo), Vec<u32>> {
        let mut unwanted: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (no, held) in self.held.iter().filter(|(_, held)| held.lease.is_sole()) {
            unwanted.entry(held.of).or_default().push(*no);
        }
        unwanted
    }

    /// These are given back from now on.
    fn begin_to_give(&mut self, given: &[u32]) {
        given.iter().for_each(|no| drop(self.held.remove(no)));
        self.giving.extend(given);
    }

    fn renew(&mut self, of: (PoolRef, ContNo), sent_ns: u64, term_ms: u32) -> Arc<AtomicU64> {
        let until_ns = self.terms.entry(of).or_default();
        if term_ms > 0 {
            until_ns.fetch_max(sent_ns.saturating_add(u64::from(term_ms) * 1_000_000), Ordering::AcqRel);
        }
        Arc::clone(until_ns)
    }

    /// Takes in what nobody has asked for.
    pub(super) fn take_push(&mut self, push: &Push) {
        let is_next = push.push_seq == self.taken.wrapping_add(1);
        self.taken = self.taken.max(push.push_seq);
        match push.what {
            Pushed::Invalidate(what) if is_next => {
                if let Some(held) = self.held.remove(&push.lease) {
                    held.lease.end();
                    self.news.void.extend(self.is_watched.then_some((held.lease, Some(what.oid))));
                }
            }
            Pushed::MapChanged if is_next => {}
            Pushed::Invalidate(_) | Pushed::RevokeAll | Pushed::MapChanged => self.void_all(),
        }
        if !self.is_watched {
            self.handled = self.taken;
        }
    }

    fn void_all(&mut self) {
        let held = core::mem::take(&mut self.held);
        self.news.all |= self.is_watched && !held.is_empty();
        held.into_values().for_each(|held| held.lease.end());
    }

    /// What was asked there and is answered from here on gives none, either.
    fn end_of(&mut self, of: (PoolRef, ContNo)) {
        for (_, held) in self.held.extract_if(.., |_, held| held.of == of) {
            held.lease.end();
            self.news.void.extend(self.is_watched.then_some((held.lease, None)));
        }
        self.terms.remove(&of);
    }

    /// A pool is about to be left.
    pub(super) fn end_pool(&mut self, pool: PoolRef) {
        let all: Vec<_> = self.terms.keys().copied().filter(|of| of.0 == pool).collect();
        all.into_iter().for_each(|of| self.end_of(of));
    }

    /// The connection has ended, and all with it.
    pub(super) fn end_all(&mut self) {
        self.void_all();
        let news = core::mem::take(&mut self.news);
        let (is_watched, connection, asked_count) = (self.is_watched, self.connection + 1, self.asked_count);
        *self = Self { is_watched, connection, news, asked_count, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pools::Pools;
    use crate::client::session::Attached;
    use crate::client::slot::{SessionNo, SlotOn};
    use dolmen_codec::wire::{Invalidated, PoolAccess, PoolName, PoolSlot, SystemVerb};
    use dolmen_types::Uuid;

    const CONT: ContNo = ContNo(3);

    fn pool() -> PoolRef {
        let slot = SlotOn::new(PoolSlot(1), SessionNo::next());
        let connect =
            SystemVerb::PoolConnect { name: PoolName::Uuid(Uuid::nil()), access: PoolAccess::ReadWrite };
        Pools::default().insert(Attached::new(slot, connect, Head::default()))
    }

    /// Leases with these numbers, until 100.
    fn leases(numbers: &[u32]) -> (Leases, Vec<Lease>) {
        let mut leases = Leases::default();
        let of = (pool(), CONT);
        let until_ns = leases.renew(of, 0, 0);
        until_ns.store(100, Ordering::Release);
        let all: Vec<_> = numbers.iter().map(|no| Lease::new(*no, Arc::clone(&until_ns))).collect();
        leases.held.extend(all.iter().map(|lease| (lease.no(), Held { lease: lease.clone(), of })));
        (leases, all)
    }

    fn push(push_seq: u64, lease: u32) -> Push {
        let what = Pushed::Invalidate(Invalidated { cont: CONT, oid: Oid::default(), dkey_hash: 0 });
        Push { what, lease, epoch: Epoch::ZERO, push_seq, map_version: 0 }
    }

    fn held(all: &[Lease]) -> Vec<u32> {
        all.iter().filter(|lease| lease.holds(99)).map(Lease::no).collect()
    }

    #[test]
    fn a_push_makes_void_what_it_names_and_one_out_of_order_everything() {
        let (mut leases, all) = leases(&[1, 2, 3]);
        leases.take_push(&push(1, 2));
        assert_eq!((held(&all), leases.handled()), (vec![1, 3], 1), "and it may be acknowledged");
        leases.take_push(&push(2, 77));
        assert_eq!(held(&all), [1, 3], "nobody has that");
        leases.take_push(&Push { what: Pushed::MapChanged, ..push(3, 0) });
        assert_eq!(held(&all), [1, 3]);
        leases.take_push(&push(5, 1));
        assert_eq!((held(&all), leases.handled()), (vec![], 5), "one was lost");
        let (mut leases, all) = self::leases(&[1, 2]);
        leases.take_push(&Push { what: Pushed::RevokeAll, ..push(1, 0) });
        assert_eq!(held(&all), []);
    }

    #[test]
    fn who_watches_is_told_of_all_and_nothing_is_acknowledged_before_he_is_done() {
        let (mut leases, all) = leases(&[1, 2]);
        leases.is_watched = true;
        leases.take_push(&push(1, 2));
        assert_eq!((held(&all), leases.handled(), leases.has_news()), (vec![1], 0, false));
        let void: Vec<u32> = leases.news.void.iter().map(|(lease, _)| lease.no()).collect();
        assert_eq!((void, leases.news.all, leases.has_pushes()), (vec![2], false, true));
        leases.handled = 1;
        assert!(leases.has_news());
        leases.has_acked(1);
        assert!(!leases.has_news());
        leases.end_all();
        assert!(held(&all).is_empty() && leases.news.all, "the connection has ended");
        assert_eq!((leases.taken, leases.acked, leases.connection), (0, 0, 1));
    }

    #[test]
    fn what_nobody_has_any_more_is_given_back_and_not_believed_in_when_an_answer_grants_it_anew() {
        let (mut leases, mut all) = leases(&[1, 2, 3]);
        let of = leases.held[&1].of;
        assert!(leases.unwanted().is_empty());
        all.remove(1);
        assert_eq!(leases.unwanted(), BTreeMap::from([(of, vec![2])]));
        leases.begin_to_give(&[2]);
        assert!(leases.unwanted().is_empty(), "once");
        assert!(leases.grant(of, 2, (0, 0)).is_none(), "the engine may have forgotten it by now");
        assert!(leases.grant(of, 3, (0, 0)).unwrap().holds(99));
        leases.giving.clear();
        assert!(leases.grant(of, 4, (0, 0)).unwrap().holds(99), "its answer has come");
    }

    #[test]
    fn a_term_is_counted_from_when_a_question_was_sent_and_ends_no_earlier_for_a_late_answer() {
        let (mut leases, all) = leases(&[1]);
        let of = (leases.held[&1].of.0, CONT);
        leases.renew(of, 1000, 1);
        assert!(all[0].holds(1_000_999) && !all[0].holds(1_001_000));
        leases.renew(of, 500, 1);
        assert!(all[0].holds(1_000_999), "an answer that was overtaken");
        leases.renew(of, 2_000_000, 0);
        assert!(!all[0].holds(1_001_000), "one that renews nothing");
        leases.end_of(of);
        assert!(!all[0].holds(0));
    }
}
