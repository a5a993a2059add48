//! Leases on what connections have read of a pool: who is told, and waited for, before it changes
//! (docs/decisions/0037-leases.md).
//!
//! Invariants: a change goes on when nobody but its own connection believes any more in what it changes, and no lease on that is
//! given before it is answered; a holder that does not answer holds nobody up for longer than [`LEASE_TERM_NS`] after he was told; while one is told, no
//! answer renews what he has; no user takes the room of all. After a start that followed a death nothing changes before those
//! who had leases have none.

mod table;
#[cfg(test)]
mod tests;

use super::jobs::{Mail, Mailbox};
use super::locks::Note;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use dolmen_codec::order::{HashKey, key_hash};
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::{ContVerb, List, ListWhat, Mutation, Punch, PunchScope, Query, ReadAt, Verb};
use dolmen_codec::{Ask, LEASE_TERM_MS, LEASE_TERM_NS};
use dolmen_types::{ContNo, Oid, TargetNo};
use std::sync::{Arc, Mutex, PoisonError};
pub(super) use table::CONNECTION_MAX;
use table::{All, Out, Ticket};

/// Cells that count changes under way, by object: enough that two of a job seldom meet, which costs a lease and no more.
const CELLS: usize = 4096;

/// Odd, and so many bits set that near objects have far cells.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The leases of a pool at one engine.
pub struct Leases {
    /// Of the hashes of dkeys.
    secret: HashKey,
    /// By target: whether it is another engine's.
    elsewhere: Vec<bool>,
    /// Until when nothing changes, since somebody may have leases from the last daemon; 0 for never.
    recovers_until_ns: AtomicU64,
    note: Note,
    is_noted: AtomicBool,
    /// Leases that there are, and those asked for.
    count: AtomicUsize,
    /// Changes under way: by object, and of whole containers.
    cells: Box<[AtomicU32]>,
    wholes: AtomicU32,
    /// Guards who has which leases; taken before the letters of a [`Mailbox`] alone.
    all: Mutex<All>,
}

/// What a lease is on: a dkey by its hash, or the whole object for 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Unit {
    pub(super) cont: ContNo,
    pub(super) oid: Oid,
    dkey: u128,
}

/// What is about to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// A dkey, or a whole object with all its dkeys.
    Of(Unit),
    /// Several.
    OfAll(Vec<Unit>),
    /// A container.
    Cont(ContNo),
}

/// Where a connection is that is told, or called.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) at: usize,
    pub(super) serial: u64,
}

/// A connection is to be told that a lease is void, or that all are.
pub(super) struct Notice {
    pub(super) place: Place,
    pub(super) leases: Arc<Leases>,
    pub(super) key: u64,
    /// The number, and what it is on; `None` for all.
    pub(super) what: Option<(u32, Unit)>,
}

/// A lease that was asked for with a read that is under way; given up when this is dropped before it was granted.
pub(super) struct Taken {
    leases: Arc<Leases>,
    key: u64,
    no: u32,
    unit: Unit,
    is_granted: bool,
}

/// A change under way; it has ended when this is dropped.
pub(super) struct Mark {
    leases: Arc<Leases>,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    One(usize),
    Some(Vec<usize>),
    All,
}

impl core::fmt::Debug for Leases {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Leases").field("count", &self.count).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Taken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Taken").field("no", &self.no).field("unit", &self.unit).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Mark {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mark").field("cells", &self.cells).finish_non_exhaustive()
    }
}

impl Leases {
    /// None yet. `secret` is known to nobody else. `has_died` says that there may be some that an engine before has given, at `now_ns` of the clock of all later
    /// calls; `elsewhere`, by target, which are another engine's, if any are. `note` is called before the first is given, and
    /// says false if that could not be written down.
    #[must_use]
    pub fn new(secret: HashKey, has_died: bool, now_ns: u64, elsewhere: Vec<bool>, note: Note) -> Self {
        let recovers_until_ns = if has_died { now_ns.saturating_add(LEASE_TERM_NS) } else { 0 };
        Self {
            secret,
            elsewhere,
            recovers_until_ns: AtomicU64::new(recovers_until_ns),
            note,
            is_noted: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            cells: core::iter::repeat_with(AtomicU32::default).take(CELLS).collect(),
            wholes: AtomicU32::new(0),
            all: Mutex::default(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// A connection of a user, which may ask for leases from now on; its key.
    pub(super) fn enter(self: &Arc<Self>, uid: u32, place: Place) -> u64 {
        self.with(0, |all, _| all.enter(uid, place))
    }

    /// A connection has ended. Unless its process has, too, it may not know that yet, and believes in what it has for a term.
    pub(super) fn leave(self: &Arc<Self>, key: u64, is_dead: bool, now_ns: u64) {
        self.with(now_ns, |all, out| all.leave(key, is_dead, now_ns, out));
    }

    /// A lease for a connection, under this number unless it has one already, on what a read that is about to begin looks at.
    pub(super) fn take(self: &Arc<Self>, key: u64, no: u32, unit: Unit, now_ns: u64) -> Option<Taken> {
        if now_ns < self.recovers_until_ns.load(Ordering::Relaxed) {
            return None;
        }
        // Under the lock, so that nobody has one before it is written down.
        let no =
            self.with(
                now_ns,
                |all, _| {
                    if self.is_written_down() { all.take(key, no, unit, now_ns) } else { None }
                },
            )?;
        let taken = Taken { leases: Arc::clone(self), key, no, unit, is_granted: false };
        // Whoever begins a change from here on sees that there is a lease.
        let changes = self.cells[self.cell(unit.cont, unit.oid)].load(Ordering::SeqCst);
        let is_at_rest = changes == 0 && self.wholes.load(Ordering::SeqCst) == 0;
        is_at_rest.then_some(taken)
    }

    /// A request is about to begin; if it is a change, nobody gets a lease on what it changes until the mark is dropped.
    #[inline]
    pub(super) fn mark(self: &Arc<Self>, ask: &Ask<'_>) -> Option<Mark> {
        let cells = match touched(ask)? {
            Touched::One(cont, (oid, _)) => Cells::One(self.cell(cont, oid)),
            Touched::Some(cont, all) => Cells::some(all.into_iter().map(|(oid, _)| self.cell(cont, oid))),
            Touched::Cont(_) => Cells::All,
        };
        Some(self.marked(cells))
    }

    fn marked(self: &Arc<Self>, cells: Cells) -> Mark {
        self.count_up(&cells, |cell| cell.fetch_add(1, Ordering::SeqCst));
        Mark { leases: Arc::clone(self), cells }
    }

    /// Takes back the leases of others on what changes, which are gone when that is acknowledged. `None` if nobody but the
    /// connection with key `own` has one any more; else until when to wait; the place that `asker` gives is called before,
    /// with its number, if all have acknowledged. Whoever was called, or has waited, asks again.
    ///
    /// REQUIRES: the change is marked.
    #[inline]
    pub(super) fn clear(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        own: Option<u64>,
        asker: impl FnOnce() -> (Place, u64),
        now_ns: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let is_quiet = self.recovers_until_ns.load(Ordering::Relaxed) == 0 && self.is_empty();
        if is_quiet { None } else { self.clear_change(&self.change_of(ask)?, own, asker(), now_ns()) }
    }

    fn clear_change(
        self: &Arc<Self>,
        change: &Change,
        own: Option<u64>,
        (place, wait): (Place, u64),
        now_ns: u64,
    ) -> Option<u64> {
        let recovers_until_ns = self.recovers_until_ns.load(Ordering::Relaxed);
        if now_ns < recovers_until_ns {
            return Some(recovers_until_ns);
        }
        self.recovers_until_ns.store(0, Ordering::Relaxed);
        let ticket = Ticket::new(place, wait);
        let until_ns = self.with(now_ns, |all, out| all.clear(change, own, &ticket, now_ns, out));
        // Whoever has acknowledged meanwhile has not called: it was not known how many there are.
        if ticket.is_done() { None } else { Some(until_ns) }
    }

    /// A connection gives leases back, or has taken in that they are void.
    pub(super) fn give(self: &Arc<Self>, key: u64, given: &[u32], now_ns: u64) {
        self.with(now_ns, |all, out| given.iter().for_each(|no| all.give(key, *no, out)));
    }

    /// The same of all that it has.
    pub(super) fn give_all(self: &Arc<Self>, key: u64, now_ns: u64) {
        self.with(now_ns, |all, out| all.give_all(key, out));
    }

    /// For how long what a connection has holds from when it sent what is answered now, in milliseconds; 0 if it is being told
    /// that something is void, or has nothing.
    pub(super) fn renews(self: &Arc<Self>, key: u64, now_ns: u64) -> u32 {
        self.with(now_ns, |all, _| if all.may_renew(key) { LEASE_TERM_MS } else { 0 })
    }

    /// What a read that is asked with a lease looks at; `None` if there is none for it.
    pub(super) fn unit_of(&self, ask: &Ask<'_>) -> Option<Unit> {
        let Ask::Target(target, cont, verb) = ask else { return None };
        if self.is_elsewhere(*target) {
            return None;
        }
        match verb {
            Verb::Fetch(fetch) if fetch.at == ReadAt::Latest => {
                Some(self.unit(*cont, fetch.oid, Some(&fetch.dkey[..])))
            }
            Verb::List(List { what, at: ReadAt::Latest, .. }) => match what {
                ListWhat::Dkeys(oid) => Some(self.unit(*cont, *oid, None)),
                ListWhat::Akeys(oid, dkey) | ListWhat::Extents(oid, dkey, _) => {
                    Some(self.unit(*cont, *oid, Some(&dkey[..])))
                }
                ListWhat::Objects | ListWhat::Changes { .. } => None,
            },
            Verb::Query(Query { oid, at: ReadAt::Latest, .. }) => Some(self.unit(*cont, *oid, None)),
            _ => None,
        }
    }

    /// What a request changes that somebody may have leases on; `None` if nothing.
    fn change_of(&self, ask: &Ask<'_>) -> Option<Change> {
        Some(match touched(ask)? {
            Touched::One(cont, (oid, dkey)) => Change::Of(self.unit(cont, oid, dkey)),
            Touched::Some(cont, all) => {
                Change::OfAll(all.into_iter().map(|(oid, dkey)| self.unit(cont, oid, dkey)).collect())
            }
            Touched::Cont(cont) => Change::Cont(cont),
        })
    }

    fn unit(&self, cont: ContNo, oid: Oid, dkey: Option<&[u8]>) -> Unit {
        // 0 is the whole object.
        let dkey = dkey.map_or(0, |dkey| key_hash(self.secret, dkey).max(1));
        Unit { cont, oid, dkey }
    }

    fn is_elsewhere(&self, target: TargetNo) -> bool {
        self.elsewhere.get(target.index()).copied().unwrap_or(false)
    }

    /// The place of an object's cell. Who has it meet another's costs that one a lease and no more.
    #[inline]
    fn cell(&self, cont: ContNo, oid: Oid) -> usize {
        let mixed = (oid.lo ^ oid.hi.rotate_left(32) ^ u64::from(cont.0).rotate_left(48)).wrapping_mul(MIX);
        usize::try_from(mixed >> (u64::BITS - CELLS.ilog2())).expect("below the number of cells")
    }

    fn count_up(&self, cells: &Cells, mut count: impl FnMut(&AtomicU32) -> u32) {
        match cells {
            Cells::One(cell) => {
                count(&self.cells[*cell]);
            }
            Cells::Some(cells) => cells.iter().for_each(|cell| {
                count(&self.cells[*cell]);
            }),
            Cells::All => {
                count(&self.wholes);
            }
        }
    }

    fn is_written_down(&self) -> bool {
        if !self.is_noted.load(Ordering::Relaxed) {
            self.is_noted.store((self.note)(), Ordering::Relaxed);
        }
        self.is_noted.load(Ordering::Relaxed)
    }

    /// Looks at all leases, after those have gone whose term is over, and tells afterwards who is to be told.
    fn with<T>(self: &Arc<Self>, now_ns: u64, body: impl FnOnce(&mut All, &mut Out) -> T) -> T {
        let mut out = Out::default();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.expire(now_ns, &mut out);
        let value = body(&mut all, &mut out);
        self.count.store(all.count(), Ordering::SeqCst);
        drop(all);
        for (key, place, what) in out.notices {
            let notice = Notice { place: place.clone(), leases: Arc::clone(self), key, what };
            place.mailbox.post().put(Mail::Void(Box::new(notice)));
        }
        out.tickets.iter().for_each(|ticket| ticket.count_down());
        value
    }
}

/// What a request changes: dkeys of objects, or all of them for none.
enum Touched<'a> {
    One(ContNo, Part<'a>),
    Some(ContNo, Vec<Part<'a>>),
    Cont(ContNo),
}

type Part<'a> = (Oid, Option<&'a [u8]>);

/// What a request changes; `None` if nothing that anybody reads.
#[inline]
fn touched<'a>(ask: &'a Ask<'_>) -> Option<Touched<'a>> {
    match ask {
        Ask::Target(_, cont, verb) => match verb {
            Verb::Update(update) => Some(Touched::One(*cont, (update.oid, Some(&update.dkey[..])))),
            Verb::Punch(punch) => Some(Touched::One(*cont, part_of_punch(punch))),
            Verb::Prepare(prepare) => {
                Some(Touched::Some(*cont, prepare.mutations.iter().map(part_of).collect()))
            }
            Verb::Cont(ContVerb::Destroy | ContVerb::Rollback { .. }) => Some(Touched::Cont(*cont)),
            _ => None,
        },
        Ask::Pool(PoolVerb::TxCommit(commit)) => {
            let mutations = commit.parts.iter().flat_map(|(_, mutations)| mutations);
            Some(Touched::Some(commit.cont, mutations.map(part_of).collect()))
        }
        Ask::Pool(PoolVerb::Rollback(cont, _)) => Some(Touched::Cont(*cont)),
        Ask::Pool(_) => None,
    }
}

fn part_of<'a>(mutation: &'a Mutation<'_>) -> Part<'a> {
    match mutation {
        Mutation::Update(update) => (update.oid, Some(&update.dkey[..])),
        Mutation::Punch(punch) => part_of_punch(punch),
    }
}

fn part_of_punch(punch: &Punch) -> Part<'_> {
    match &punch.scope {
        PunchScope::Object => (punch.oid, None),
        PunchScope::Dkey(dkey) | PunchScope::Akeys(dkey, _) => (punch.oid, Some(&dkey[..])),
    }
}

impl Cells {
    /// Each once.
    fn some(cells: impl Iterator<Item = usize>) -> Self {
        let mut cells: Vec<usize> = cells.collect();
        cells.sort_unstable();
        cells.dedup();
        Self::Some(cells)
    }
}

impl Place {
    /// Calls the connection: the change with this number may go on.
    fn call(&self, wait: u64) {
        self.mailbox.post().put(Mail::Free { at: self.at, serial: self.serial, wait });
    }
}

impl Taken {
    /// The number.
    pub(super) fn no(&self) -> u32 {
        self.no
    }

    /// The read has an answer: the number of the lease that comes with it, and for how long that renews what its connection has,
    /// in milliseconds. (0, 0) if it was taken back meanwhile.
    pub(super) fn grant(&mut self, now_ns: u64) -> (u32, u32) {
        let (key, no, unit) = (self.key, self.no, self.unit);
        let granted = self.leases.with(now_ns, |all, _| all.grant(key, no, unit).then(|| all.may_renew(key)));
        self.is_granted = granted.is_some();
        granted.map_or((0, 0), |renews| (no, if renews { LEASE_TERM_MS } else { 0 }))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.is_granted {
            let (key, no, unit) = (self.key, self.no, self.unit);
            self.leases.with(0, |all, _| all.release(key, no, unit));
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.leases.count_up(&self.cells, |cell| cell.fetch_sub(1, Ordering::SeqCst));
    }
}
