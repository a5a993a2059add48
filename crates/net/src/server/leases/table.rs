//! Who has which leases.
//!
//! Invariants: a connection has one lease on a unit at most; each is counted for its user until it is gone; what is broken is in
//! `ending`, in the order in which its term is over.

use super::{Change, Place, Unit};
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_codec::LEASE_TERM_NS;
use dolmen_types::Oid;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Leases of a pool: of all together, of one user, of each whatever the others have, and of one connection. One takes 300 bytes or
/// so: a mount that remembers more names asks again for those that it looks at.
const ALL_MAX: usize = 1 << 18;
const USER_MAX: usize = 1 << 17;
const SHARE: usize = 64;
pub(in crate::server) const CONNECTION_MAX: usize = 1 << 16;

/// Users who have leases, or have not acknowledged.
const USERS_MAX: usize = 1 << 12;

/// Connections of a user that may fail to acknowledge within this time before he gets no leases for as long: a node that dies
/// with its mounts has some.
pub(super) const LATE_MAX: u32 = 16;
pub(super) const LATE_NS: u64 = 60_000_000_000;

/// Who waits for leases to be gone.
pub(super) struct Ticket {
    left: AtomicUsize,
    place: Place,
    /// What the connection there calls the change.
    wait: u64,
}

impl Ticket {
    /// One that counts for itself until it is known how many there are.
    pub(super) fn new(place: Place, wait: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(1), place, wait })
    }

    fn count_up(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// One has gone; the last one calls.
    pub(super) fn count_down(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.place.call(self.wait);
        }
    }

    /// All are known; whether none is left.
    pub(super) fn is_done(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

/// A connection, by its key and place, and what it is told: the number and unit of a lease, or that it has none.
type Telling = (u64, Place, Option<(u32, Unit)>);

/// Who is to be told of what, and called, once the lock is given back.
#[derive(Default)]
pub(super) struct Out {
    pub(super) notices: Vec<Telling>,
    pub(super) tickets: Vec<Arc<Ticket>>,
}

#[derive(Default)]
pub(super) struct All {
    next: u64,
    units: BTreeMap<Unit, Vec<Entry>>,
    holders: BTreeMap<u64, Holder>,
    users: BTreeMap<u32, Used>,
    /// What was broken, and not acknowledged when it was put here: when that is over, what, and of whom.
    ending: VecDeque<(u64, Unit, u64)>,
    count: usize,
}

/// A lease on a unit.
struct Entry {
    key: u64,
    no: u32,
    state: State,
}

enum State {
    /// Nobody believes in it yet: so many reads are under way.
    Asked(u32),
    Held,
    Broken {
        until_ns: u64,
        tickets: Vec<Arc<Ticket>>,
    },
}

/// A connection.
struct Holder {
    uid: u32,
    /// `None` once it has ended.
    place: Option<Place>,
    leases: BTreeMap<u32, Unit>,
    /// How many of these are broken.
    broken: usize,
    /// It has not acknowledged in time.
    is_late: bool,
}

/// What a user has.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    leases: usize,
    late: u32,
    late_ns: u64,
}

impl All {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn enter(&mut self, uid: u32, place: Place) -> u64 {
        self.next += 1;
        let holder = Holder { uid, place: Some(place), leases: BTreeMap::new(), broken: 0, is_late: false };
        self.holders.insert(self.next, holder);
        self.next
    }

    pub(super) fn leave(&mut self, key: u64, is_dead: bool, now_ns: u64, out: &mut Out) {
        let Some(holder) = self.holders.get_mut(&key) else { return };
        holder.place = None;
        if is_dead {
            self.give_all(key, out);
        } else {
            self.break_all(key, now_ns, out);
        }
        self.bury(key);
    }

    /// Forgets a connection that has ended, and of which nothing is left.
    fn bury(&mut self, key: u64) {
        let is_gone = |holder: &Holder| holder.place.is_none() && holder.leases.is_empty();
        if self.holders.get(&key).is_some_and(is_gone) {
            self.holders.remove(&key);
        }
    }

    /// A read is about to begin that wants a lease; its number.
    pub(super) fn take(&mut self, key: u64, no: u32, unit: Unit, now_ns: u64) -> Option<u32> {
        let holder = self.holders.get_mut(&key)?;
        let known = self.units.get_mut(&unit).and_then(|entries| entries.iter_mut().find(|it| it.key == key));
        if let Some(entry) = known {
            match &mut entry.state {
                State::Asked(reads) => *reads += 1,
                State::Held => {}
                State::Broken { .. } => return None,
            }
            return Some(entry.no);
        }
        let used = self.users.get(&holder.uid).copied();
        let is_late = |used: &Used| used.late >= LATE_MAX && now_ns.saturating_sub(used.late_ns) < LATE_NS;
        let has_room = match &used {
            Some(used) => {
                !is_late(used) && (used.leases < SHARE || used.leases < USER_MAX && self.count < ALL_MAX)
            }
            None => self.users.len() < USERS_MAX,
        };
        if !has_room || holder.is_late || holder.place.is_none() || holder.leases.len() >= CONNECTION_MAX {
            return None;
        }
        holder.leases.insert(no, unit);
        self.users.entry(holder.uid).or_default().leases += 1;
        self.count += 1;
        // Most have one: a vector that grows by itself begins with four.
        let entries = self.units.entry(unit).or_insert_with(|| Vec::with_capacity(1));
        entries.push(Entry { key, no, state: State::Asked(1) });
        Some(no)
    }

    /// The read has an answer; whether the lease goes with it.
    pub(super) fn grant(&mut self, key: u64, no: u32, unit: Unit) -> bool {
        let Some(entry) = self.entry(key, no, unit) else { return false };
        match &mut entry.state {
            State::Asked(_) => entry.state = State::Held,
            State::Held => {}
            State::Broken { .. } => return false,
        }
        true
    }

    /// The read has no answer that a lease goes with.
    pub(super) fn release(&mut self, key: u64, no: u32, unit: Unit) {
        let Some(entry) = self.entry(key, no, unit) else { return };
        if let State::Asked(reads) = &mut entry.state {
            *reads -= 1;
            if *reads == 0 {
                self.remove(key, unit, &mut Out::default());
            }
        }
    }

    fn entry(&mut self, key: u64, no: u32, unit: Unit) -> Option<&mut Entry> {
        self.units.get_mut(&unit)?.iter_mut().find(|entry| (entry.key, entry.no) == (key, no))
    }

    /// Whether answers renew what a connection has.
    pub(super) fn may_renew(&self, key: u64) -> bool {
        self.holders.get(&key).is_some_and(|holder| holder.broken == 0 && !holder.is_late)
    }

    pub(super) fn give(&mut self, key: u64, no: u32, out: &mut Out) {
        let unit = self.holders.get(&key).and_then(|holder| holder.leases.get(&no).copied());
        if let Some(unit) = unit {
            self.remove(key, unit, out);
        }
    }

    pub(super) fn give_all(&mut self, key: u64, out: &mut Out) {
        for unit in self.units_of_holder(key) {
            self.remove(key, unit, out);
        }
    }

    fn units_of_holder(&self, key: u64) -> Vec<Unit> {
        self.holders.get(&key).map_or_else(Vec::new, |holder| holder.leases.values().copied().collect())
    }

    /// Takes back what others have that stands in the way of a change; until when the last of it does at most. What its own
    /// connection has stays: nobody *else* has changed that.
    pub(super) fn clear(
        &mut self,
        change: &Change,
        own: Option<u64>,
        ticket: &Arc<Ticket>,
        now_ns: u64,
        out: &mut Out,
    ) -> u64 {
        let mut until_ns = 0;
        for unit in self.units_in(change) {
            for key in self.holders_of(unit).into_iter().filter(|key| own != Some(*key)) {
                if let Some(ends_ns) = self.break_one(key, unit, Some(ticket), now_ns, out) {
                    until_ns = until_ns.max(ends_ns);
                }
            }
        }
        until_ns
    }

    /// Units with leases on what changes.
    fn units_in(&self, change: &Change) -> Vec<Unit> {
        let mut units = Vec::new();
        match change {
            Change::Of(unit) => self.add_units(*unit, &mut units),
            Change::OfAll(changed) => {
                changed.iter().for_each(|unit| self.add_units(*unit, &mut units));
                units.sort_unstable();
                units.dedup();
            }
            Change::Cont(cont) => {
                let first = Unit { cont: *cont, oid: Oid { hi: 0, lo: 0 }, dkey: 0 };
                let in_cont = self.units.range(first..).take_while(|(unit, _)| unit.cont == *cont);
                units.extend(in_cont.map(|(unit, _)| *unit));
            }
        }
        units
    }

    fn add_units(&self, changed: Unit, units: &mut Vec<Unit>) {
        let whole = Unit { dkey: 0, ..changed };
        if changed.dkey == 0 {
            units
                .extend(self.units.range(whole..=Unit { dkey: u128::MAX, ..changed }).map(|(unit, _)| *unit));
        } else {
            units.extend([whole, changed].into_iter().filter(|unit| self.units.contains_key(unit)));
        }
    }

    fn holders_of(&self, unit: Unit) -> Vec<u64> {
        self.units.get(&unit).map_or_else(Vec::new, |all| all.iter().map(|entry| entry.key).collect())
    }

    /// Takes a lease back, which is gone when that is acknowledged, or its term over: when that is, if it is not gone at once.
    fn break_one(
        &mut self,
        key: u64,
        unit: Unit,
        ticket: Option<&Arc<Ticket>>,
        now_ns: u64,
        out: &mut Out,
    ) -> Option<u64> {
        let last_ns = self.ending.back().map_or(0, |(until_ns, ..)| *until_ns);
        let entry = self.find(key, unit)?;
        let (no, is_new) = (entry.no, matches!(entry.state, State::Held));
        if let State::Asked(_) = entry.state {
            self.remove(key, unit, out);
            return None;
        }
        if is_new {
            let until_ns = now_ns.saturating_add(LEASE_TERM_NS).max(last_ns);
            entry.state = State::Broken { until_ns, tickets: Vec::new() };
        }
        let State::Broken { until_ns, tickets } = &mut entry.state else { return None };
        let until_ns = *until_ns;
        if let Some(ticket) = ticket {
            ticket.count_up();
            tickets.push(Arc::clone(ticket));
        }
        if is_new {
            self.ending.push_back((until_ns, unit, key));
            self.holders.get_mut(&key).expect("who has a lease is known").broken += 1;
            self.tell(key, Some((no, unit)), out);
        }
        Some(until_ns)
    }

    fn find(&mut self, key: u64, unit: Unit) -> Option<&mut Entry> {
        self.units.get_mut(&unit)?.iter_mut().find(|entry| entry.key == key)
    }

    fn tell(&self, key: u64, what: Option<(u32, Unit)>, out: &mut Out) {
        if let Some(place) = self.holders.get(&key).and_then(|holder| holder.place.clone()) {
            out.notices.push((key, place, what));
        }
    }

    /// Takes back all that a connection has, without a word of each.
    fn break_all(&mut self, key: u64, now_ns: u64, out: &mut Out) {
        let told = out.notices.len();
        for unit in self.units_of_holder(key) {
            self.break_one(key, unit, None, now_ns, out);
        }
        out.notices.truncate(told);
    }

    /// Leases go that nobody believes in any more, acknowledged or not; who has not acknowledged loses all.
    pub(super) fn expire(&mut self, now_ns: u64, out: &mut Out) {
        while let Some((until_ns, unit, key)) = self.ending.pop_front_if(|(until_ns, ..)| *until_ns <= now_ns)
        {
            let is_this =
                |state: &State| matches!(state, State::Broken { until_ns: of, .. } if *of == until_ns);
            if self.find(key, unit).is_some_and(|entry| is_this(&entry.state)) {
                self.remove(key, unit, out);
                self.note_late(key, now_ns, out);
            }
        }
    }

    fn note_late(&mut self, key: u64, now_ns: u64, out: &mut Out) {
        let Some(holder) =
            self.holders.get_mut(&key).filter(|holder| holder.place.is_some() && !holder.is_late)
        else {
            return;
        };
        holder.is_late = true;
        let used = self.users.entry(holder.uid).or_default();
        if now_ns.saturating_sub(used.late_ns) >= LATE_NS {
            used.late = 0;
        }
        (used.late, used.late_ns) = (used.late + 1, now_ns);
        // No answer has renewed anything since it was told, a term ago: it believes in nothing, whatever it has heard.
        self.give_all(key, out);
        self.tell(key, None, out);
    }

    /// A lease is gone; who waits for that is called.
    fn remove(&mut self, key: u64, unit: Unit, out: &mut Out) {
        let Some(entries) = self.units.get_mut(&unit) else { return };
        let Some(at) = entries.iter().position(|entry| entry.key == key) else { return };
        let entry = entries.swap_remove(at);
        if entries.is_empty() {
            self.units.remove(&unit);
        }
        self.count -= 1;
        let holder = self.holders.get_mut(&key).expect("who has a lease is known");
        holder.leases.remove(&entry.no);
        if let State::Broken { tickets, .. } = entry.state {
            holder.broken -= 1;
            out.tickets.extend(tickets);
        }
        let used = self.users.entry(holder.uid).or_default();
        used.leases -= 1;
        if (used.leases, used.late) == (0, 0) {
            let uid = holder.uid;
            self.users.remove(&uid);
        }
        self.bury(key);
    }
}
