//! Leases of a connection: what it is told, what it has acknowledged, and changes that wait until others have.
//!
//! Invariants: numbers of leases and pushes are used once; a change that waits is marked, and begun or dropped with its
//! connection.

use super::{Conn, Stalled};
use crate::error::{Error, Result, Violation};
use crate::server::attached::Attached;
use crate::server::leases::{CONNECTION_MAX, Leases, Notice, Taken};
use crate::server::worker::{Shared, UnderWay};
use dolmen_codec::pool::PoolReply;
use dolmen_codec::wire::{BadFrame, Invalidated, PoolSlot, Push, Pushed, RequestHeader};
use dolmen_codec::{Answer, Ask};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{Epoch, Error as Failure};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Pushes that may be unacknowledged: twice the leases of a connection. One that takes leases, has them broken, and gives them
/// back without a word of the pushes is closed.
const PUSHED_MAX: usize = 2 * CONNECTION_MAX;

/// What a connection has to do with leases.
pub(super) struct Leased {
    /// It knows them, and takes what is pushed.
    takes: bool,
    last_no: u32,
    pub(super) push_seq: u64,
    pushed: VecDeque<Told>,
    waiting: BTreeMap<u64, Waiting>,
    last_wait: u64,
    /// Those that may go on.
    free: Vec<u64>,
    /// The process at the other end has ended.
    pub(super) is_dead: bool,
}

/// A push that is not acknowledged.
struct Told {
    push_seq: u64,
    leases: Arc<Leases>,
    key: u64,
    /// `None` for all of them.
    no: Option<u32>,
}

/// A change that waits for leases of others to be gone, until then at most.
struct Waiting {
    until_ns: u64,
    asked: Box<Stalled>,
}

impl Leased {
    pub(super) fn new(takes: bool) -> Self {
        Self {
            takes,
            last_no: 0,
            push_seq: 0,
            pushed: VecDeque::new(),
            waiting: BTreeMap::new(),
            last_wait: 0,
            free: Vec::new(),
            is_dead: false,
        }
    }

    /// Changes that have not begun.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Box<Stalled>> + use<> {
        core::mem::take(&mut self.waiting).into_values().map(|waiting| waiting.asked)
    }
}

impl Attached {
    /// What the connection has of leases here, and is given back; for how long the answer renews the others, in milliseconds.
    fn give_leases(&self, given: &[u32], now_ns: u64) -> u32 {
        let Some(key) = self.lease_key else { return 0 };
        self.leases.give(key, given, now_ns);
        self.leases.renews(key, now_ns)
    }
}

impl Conn {
    /// Nobody believes in anything at the other end any more: its process has ended, or, on this machine, has closed the
    /// connection, and before that it has forgotten what it had there.
    pub(in crate::server) fn has_died(&mut self) {
        self.leased.is_dead = true;
    }

    /// Takes note of what has been acknowledged.
    ///
    /// # Errors
    /// `BadFrame::Reserved` for a lease that is not agreed on, and what was not pushed.
    pub(super) fn acked(&mut self, header: &RequestHeader) -> core::result::Result<(), BadFrame> {
        if !self.leased.takes {
            return if header.wants_lease { Err(BadFrame::Reserved) } else { Ok(()) };
        }
        if header.push_acked > self.leased.push_seq {
            return Err(BadFrame::Reserved);
        }
        while let Some(told) = self.leased.pushed.pop_front_if(|told| told.push_seq <= header.push_acked) {
            let now_ns = RealClock.monotonic_ns();
            match told.no {
                Some(no) => told.leases.give(told.key, &[no], now_ns),
                None => told.leases.give_all(told.key, now_ns),
            }
        }
        Ok(())
    }

    /// A lease for a read that is about to begin, if there may be one.
    pub(super) fn take_lease(
        &mut self,
        at: usize,
        shared: &Shared,
        slot: PoolSlot,
        ask: &Ask<'_>,
    ) -> Option<Box<Taken>> {
        let no = self.leased.last_no.checked_add(1)?;
        let serial = self.serial;
        let attached = self.attached(slot)?;
        let unit = attached.leases.unit_of(ask)?;
        let key = attached.lease_key(|| shared.place(at, serial));
        let taken = attached.leases.take(key, no, unit, RealClock.monotonic_ns())?;
        if taken.no() == no {
            self.leased.last_no = no;
        }
        Some(Box::new(taken))
    }

    /// Begins a request, once nobody has leases any more on what it changes.
    pub(super) fn begin_change(
        &mut self,
        at: usize,
        shared: &mut Shared,
        mut asked: Box<Stalled>,
    ) -> Result<()> {
        let (serial, wait) = (self.serial, self.leased.last_wait + 1);
        let UnderWay { slot, pool, .. } = asked.under_way;
        let Some(attached) = self.attached(slot).filter(|attached| attached.pool == pool) else {
            return self.refuse(shared, asked.under_way, Failure::NoHandle);
        };
        if asked.under_way.mark.is_none() {
            asked.under_way.mark = attached.leases.mark(&asked.ask);
            if asked.under_way.mark.is_none() {
                return self.begin(shared, asked).map(drop);
            }
        } else if let Err(error) = attached.check(&asked.ask) {
            return self.refuse(shared, asked.under_way, error);
        }
        let asker = || (shared.place(at, serial), wait);
        let (own, now) = (attached.lease_key, || RealClock.monotonic_ns());
        let Some(until_ns) = attached.leases.clear(&asked.ask, own, asker, now) else {
            return self.begin(shared, asked).map(drop);
        };
        self.leased.last_wait = wait;
        self.leased.waiting.insert(wait, Waiting { until_ns, asked });
        shared.free_ns = Some(shared.free_ns.map_or(until_ns, |free_ns| free_ns.min(until_ns)));
        Ok(())
    }

    /// A change need not wait any longer; whether it is still there.
    pub(in crate::server) fn free(&mut self, wait: u64) -> bool {
        let is_waiting = self.leased.waiting.contains_key(&wait);
        if is_waiting {
            self.leased.free.push(wait);
        }
        is_waiting
    }

    /// The same of those that have waited long enough; whether there is one, and when the next has.
    pub(in crate::server) fn free_overdue(&mut self, now_ns: u64) -> (bool, Option<u64>) {
        let Leased { waiting, free, .. } = &mut self.leased;
        free.extend(waiting.iter().filter(|(_, waiting)| waiting.until_ns <= now_ns).map(|(wait, _)| *wait));
        let next_ns =
            waiting.values().map(|waiting| waiting.until_ns).filter(|until_ns| *until_ns > now_ns).min();
        (!free.is_empty(), next_ns)
    }

    /// Begins changes that need not wait any longer; whether there is one.
    pub(super) fn resume_changes(&mut self, at: usize, shared: &mut Shared) -> Result<bool> {
        let mut moved = false;
        while self.stalled.is_none()
            && !self.is_starved
            && let Some(wait) = self.leased.free.pop()
        {
            if let Some(waiting) = self.leased.waiting.remove(&wait) {
                self.begin_change(at, shared, waiting.asked)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Says that a lease is void, or that all are.
    ///
    /// # Errors
    /// `Violation::Limit` if it acknowledges nothing.
    pub(in crate::server) fn tell_void(&mut self, shared: &mut Shared, notice: &Notice) -> Result<()> {
        if self.leased.pushed.len() >= PUSHED_MAX {
            return Err(Error::Protocol(Violation::Limit));
        }
        self.leased.push_seq += 1;
        let push_seq = self.leased.push_seq;
        let (what, lease) = match notice.what {
            Some((no, unit)) => {
                (Pushed::Invalidate(Invalidated { cont: unit.cont, oid: unit.oid, dkey_hash: 0 }), no)
            }
            None => (Pushed::RevokeAll, 0),
        };
        let no = notice.what.map(|(no, _)| no);
        self.leased.pushed.push_back(Told {
            push_seq,
            leases: Arc::clone(&notice.leases),
            key: notice.key,
            no,
        });
        let push = Push { what, lease, epoch: Epoch::ZERO, push_seq, map_version: 0 };
        shared.scratch.clear();
        push.encode(&mut shared.scratch, self.terms.version);
        self.output.put(&mut self.stream, &shared.scratch)?;
        self.show()
    }

    /// Takes leases back that the connection gives, and says for how long what it has else goes on.
    pub(super) fn take_given(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        given: &[u32],
    ) -> Result<()> {
        let attached = self.attached(under_way.slot).expect("looked at before");
        let renews_ms = attached.give_leases(given, RealClock.monotonic_ns());
        let done = Ok(Answer::Pool(PoolReply::Done));
        let sent = self.send(shared, under_way, (0, renews_ms), &done, None);
        self.done(shared, under_way);
        sent.and_then(|()| self.show())
    }
}
