//! Locks on objects of a pool, kept for whoever asks over a socket.
//!
//! Invariants: no two owners have ranges that stand against each other. Whoever asks speaks for holders of his own user alone, and no
//! user takes the room of all. A holder that is silent for [`TERM_NS`] keeps what it has
//! until somebody else wants some of it; then it loses all, and is told so when it asks again. Nobody is silent who has files open and
//! whose connection lasts. After a start that followed a
//! death, nothing new is given out, and of nothing is it said that nobody has it, before those who had locks have had [`RECOVER_NS`] to
//! set them again.

use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::lock::{LockAction, LockAsk, LockFamily, LockKind, LockReply, RECOVER_NS, Ranges, TERM_NS};
use dolmen_types::{ContNo, Error, Invalid, Oid, Result, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ranges that may be locked in a pool: by all together, by one user, and by each whatever the others have.
const RANGES: Room = Room { all: 1 << 19, user: 1 << 17, share: 64 };
/// Holders that are remembered, each a process; the silent ones are forgotten first.
const HOLDERS: Room = Room { all: 1 << 14, user: 1 << 12, share: 16 };
/// Users who have holders.
const USERS_MAX: usize = 1 << 12;

/// How many there may be of something.
struct Room {
    all: usize,
    user: usize,
    share: usize,
}

impl Room {
    /// Whether a user who has `used` of `all` may have one more.
    fn has_more(&self, used: usize, all: usize) -> bool {
        used < self.share || used < self.user && all < self.all
    }
}

/// Called before the first lock is given out; false if it could not be written down that there are any.
pub type Note = Box<dyn Fn() -> bool + Send + Sync>;

/// The locks of a pool.
pub struct Locks {
    /// Until when those who had locks come first.
    recovers_until_ns: u64,
    note: Note,
    is_noted: AtomicBool,
    /// Guards who has locked what; taken alone.
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// When each holder was heard last.
    heard_ns: BTreeMap<Holder, u64>,
    objects: BTreeMap<Place, Vec<Held>>,
    /// What each user has who has holders.
    users: BTreeMap<u32, Used>,
    /// Ranges in all.
    count: usize,
    /// Connections by which holders have said what they have open.
    present: BTreeMap<Holder, usize>,
}

/// What a user has.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    holders: usize,
    ranges: usize,
}

/// A user, and what he calls the process.
type Holder = (u32, Uuid);

type Place = (ContNo, Oid, LockFamily);

/// What an owner has locked of an object.
#[derive(Debug)]
struct Held {
    holder: Holder,
    owner: u64,
    pid: u32,
    ranges: Ranges,
}

impl core::fmt::Debug for Locks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Locks").field("all", &self.all).finish_non_exhaustive()
    }
}

impl Locks {
    /// None yet. `has_died` says that there may have been some before, at `now_ns` of the clock of all later calls.
    #[must_use]
    pub fn new(has_died: bool, now_ns: u64, note: Note) -> Self {
        let recovers_until_ns = if has_died { now_ns.saturating_add(RECOVER_NS) } else { 0 };
        Self { recovers_until_ns, note, is_noted: AtomicBool::new(false), all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().count == 0
    }

    /// Does what a user asks.
    ///
    /// # Errors
    /// `Invalid::Argument` for a range that ends before it begins; `Busy` if there are too many locks or holders, or it cannot
    /// be written down that there are any.
    pub(super) fn ask(&self, uid: u32, cont: ContNo, ask: &LockAsk, now_ns: u64) -> Result<LockReply> {
        if ask.range.last < ask.range.first {
            return Err(Error::Invalid(Invalid::Argument));
        }
        let mut all = self.all();
        let holder = (uid, ask.holder);
        let is_known = all.heard_ns.contains_key(&holder);
        if ask.has_locks && !is_known && ask.action != LockAction::Again {
            return Ok(LockReply::Unknown);
        }
        let takes = matches!(ask.action, LockAction::Set | LockAction::Again);
        let takes = takes && ask.range.kind != LockKind::Free;
        if ask.action == LockAction::Set && takes && now_ns < self.recovers_until_ns {
            return Ok(LockReply::Recovering);
        }
        if is_known && ask.action != LockAction::Leave {
            all.hear(holder, now_ns)?;
        }
        let place = (cont, ask.oid, ask.family);
        match ask.action {
            LockAction::Renew => {}
            LockAction::Leave if is_known => all.leave(&BTreeSet::from([holder])),
            LockAction::Leave => {}
            LockAction::Test => {
                if let Some(held) = all.against(place, (holder, ask), now_ns) {
                    return Ok(held);
                }
                // Whoever had it may not have said so yet.
                if ask.range.kind != LockKind::Free && now_ns < self.recovers_until_ns {
                    return Ok(LockReply::Recovering);
                }
            }
            LockAction::Set | LockAction::Again if takes => {
                if let Some(held) = all.against(place, (holder, ask), now_ns) {
                    return Ok(held);
                }
                let used = all.users.get(&uid).copied().unwrap_or_default();
                if !RANGES.has_more(used.ranges, all.count) || !self.is_written_down() {
                    return Err(Error::Busy);
                }
                all.hear(holder, now_ns)?;
                all.set(place, (holder, ask));
            }
            // Who has nothing gives nothing free, and nothing is remembered of him.
            LockAction::Set | LockAction::Again if is_known => all.set(place, (holder, ask)),
            LockAction::Set | LockAction::Again => {}
        }
        Ok(LockReply::Done)
    }

    /// A holder has said by a connection what it has open: it is there for as long as that lasts.
    pub(super) fn enter(&self, uid: u32, holder: Uuid) {
        *self.all().present.entry((uid, holder)).or_default() += 1;
    }

    /// The connection has ended, or the holder has nothing open any more.
    pub(super) fn leave(&self, uid: u32, holder: Uuid, now_ns: u64) {
        let (mut all, holder) = (self.all(), (uid, holder));
        let Some(count) = all.present.get_mut(&holder) else { return };
        *count -= 1;
        if *count == 0 {
            all.present.remove(&holder);
        }
        if let Some(heard_ns) = all.heard_ns.get_mut(&holder) {
            *heard_ns = now_ns;
        }
    }

    /// Under the lock, so that nobody has one before it is written down.
    fn is_written_down(&self) -> bool {
        if !self.is_noted.load(Ordering::Relaxed) {
            self.is_noted.store((self.note)(), Ordering::Relaxed);
        }
        self.is_noted.load(Ordering::Relaxed)
    }
}

impl All {
    fn hear(&mut self, holder: Holder, now_ns: u64) -> Result<()> {
        if !self.heard_ns.contains_key(&holder) {
            if !self.has_room(holder.0) {
                let silent = |&&other: &&Holder| self.is_silent(other, now_ns);
                let silent: BTreeSet<Holder> = self.heard_ns.keys().filter(silent).copied().collect();
                self.leave(&silent);
            }
            if !self.has_room(holder.0) {
                return Err(Error::Busy);
            }
            self.users.entry(holder.0).or_default().holders += 1;
        }
        self.heard_ns.insert(holder, now_ns);
        Ok(())
    }

    /// Whether a user may have a holder more.
    fn has_room(&self, uid: u32) -> bool {
        match self.users.get(&uid) {
            Some(used) => HOLDERS.has_more(used.holders, self.heard_ns.len()),
            None => self.users.len() < USERS_MAX,
        }
    }

    fn is_silent(&self, holder: Holder, now_ns: u64) -> bool {
        let is_present = self.present.contains_key(&holder);
        !is_present
            && self.heard_ns.get(&holder).is_none_or(|&heard_ns| now_ns.saturating_sub(heard_ns) > TERM_NS)
    }

    /// The first lock that stands against what is asked for. Holders that are silent lose theirs.
    fn against(&mut self, place: Place, (holder, ask): (Holder, &LockAsk), now_ns: u64) -> Option<LockReply> {
        let others = self.objects.get(&place)?.iter();
        let others = others.filter(|held| (held.holder, held.owner) != (holder, ask.owner));
        let (mut silent, mut first) = (BTreeSet::new(), None);
        for held in others {
            let Some(range) = held.ranges.against(&ask.range) else { continue };
            if self.is_silent(held.holder, now_ns) {
                silent.insert(held.holder);
            } else if first.is_none() {
                let pid = if held.holder == holder { held.pid } else { 0 };
                first = Some(LockReply::Held { range, pid });
            }
        }
        self.leave(&silent);
        first
    }

    /// REQUIRES: the holder was heard.
    fn set(&mut self, place: Place, (holder, ask): (Holder, &LockAsk)) {
        let owners = self.objects.entry(place).or_default();
        let own = owners.iter().position(|held| (held.holder, held.owner) == (holder, ask.owner));
        let own = own.unwrap_or_else(|| {
            owners.push(Held { holder, owner: ask.owner, pid: ask.pid, ranges: Ranges::default() });
            owners.len() - 1
        });
        let held = &mut owners[own];
        let before = held.ranges.as_slice().len();
        held.ranges.set(ask.range);
        held.pid = ask.pid;
        let now = held.ranges.as_slice().len();
        if held.ranges.is_empty() {
            owners.swap_remove(own);
        }
        if owners.is_empty() {
            self.objects.remove(&place);
        }
        self.count = self.count - before + now;
        let used = self.users.entry(holder.0).or_default();
        used.ranges = used.ranges - before + now;
    }

    /// Takes everything from these, in one pass over all that is locked.
    fn leave(&mut self, gone: &BTreeSet<Holder>) {
        if gone.is_empty() {
            return;
        }
        self.heard_ns.retain(|holder, _| !gone.contains(holder));
        self.objects.retain(|_, owners| {
            owners.retain(|held| !gone.contains(&held.holder));
            !owners.is_empty()
        });
        self.users.clear();
        for &(uid, _) in self.heard_ns.keys() {
            self.users.entry(uid).or_default().holders += 1;
        }
        self.count = 0;
        for held in self.objects.values().flatten() {
            let ranges = held.ranges.as_slice().len();
            self.users.entry(held.holder.0).or_default().ranges += ranges;
            self.count += ranges;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use dolmen_codec::lock::LockRange;
    use std::sync::Arc;

    const USER: u32 = 1000;
    const CONT: ContNo = ContNo(3);
    const READ: LockRange = LockRange { first: 10, last: 19, kind: LockKind::Read };
    const WRITE: LockRange = LockRange { first: 15, last: 30, kind: LockKind::Write };
    const FREE: LockRange = LockRange::whole(LockKind::Free);

    /// A question about the object that all tests use.
    fn question(holder: u128, owner: u64, action: LockAction, range: LockRange) -> LockAsk {
        LockAsk {
            holder: Uuid::from_u128(holder),
            action,
            has_locks: false,
            oid: Oid { hi: 1, lo: 2 },
            family: LockFamily::Range,
            owner,
            pid: 77,
            range,
        }
    }

    fn locks() -> Locks {
        Locks::new(false, 0, Box::new(|| true))
    }

    fn set(locks: &Locks, holder: u128, range: LockRange, now_ns: u64) -> LockReply {
        locks.ask(USER, CONT, &question(holder, 1, LockAction::Set, range), now_ns).unwrap()
    }

    #[test]
    fn what_stands_against_a_lock_is_told_and_changes_nothing() {
        let locks = locks();
        assert_eq!(set(&locks, 1, READ, 0), LockReply::Done);
        assert_eq!(set(&locks, 2, READ, 0), LockReply::Done, "readers share");
        assert_eq!(set(&locks, 3, WRITE, 0), LockReply::Held { range: READ, pid: 0 });
        let own = question(1, 2, LockAction::Test, WRITE);
        assert_eq!(
            locks.ask(USER, CONT, &own, 0),
            Ok(LockReply::Held { range: READ, pid: 77 }),
            "of one holder"
        );
        assert_eq!(locks.ask(USER, ContNo(4), &own, 0), Ok(LockReply::Done), "another container");
        let whole = LockAsk { family: LockFamily::Whole, ..own.clone() };
        assert_eq!(locks.ask(USER, CONT, &whole, 0), Ok(LockReply::Done), "the families do not meet");
        let backwards = LockAsk { range: LockRange { first: 2, last: 1, ..READ }, ..own };
        assert_eq!(locks.ask(USER, CONT, &backwards, 0), Err(Error::Invalid(Invalid::Argument)));
        for holder in [1, 2] {
            assert_eq!(set(&locks, holder, FREE, 0), LockReply::Done);
        }
        assert!(locks.is_empty());
        assert_eq!(set(&locks, 3, WRITE, 0), LockReply::Done);
    }

    #[test]
    fn a_holder_that_is_silent_loses_all_when_somebody_wants_some_of_it_and_is_told() {
        let locks = locks();
        let far = LockRange { first: 1000, last: 1001, kind: LockKind::Write };
        assert_eq!(set(&locks, 1, WRITE, 0), LockReply::Done);
        assert_eq!(set(&locks, 1, far, 0), LockReply::Done);
        let renew = LockAsk { has_locks: true, ..question(1, 0, LockAction::Renew, FREE) };
        assert_eq!(locks.ask(USER, CONT, &renew, TERM_NS), Ok(LockReply::Done));
        assert_eq!(set(&locks, 2, READ, 2 * TERM_NS), LockReply::Held { range: WRITE, pid: 0 });
        // Nobody wants any of it, so it is there still.
        assert_eq!(locks.ask(USER, CONT, &renew, 4 * TERM_NS), Ok(LockReply::Done));
        assert_eq!(set(&locks, 2, READ, 5 * TERM_NS + 1), LockReply::Done);
        assert_eq!(set(&locks, 2, far, 5 * TERM_NS + 1), LockReply::Done, "it has lost the other one, too");
        assert_eq!(locks.ask(USER, CONT, &renew, 5 * TERM_NS + 1), Ok(LockReply::Unknown));
        let more = LockAsk {
            has_locks: true,
            ..question(1, 1, LockAction::Set, LockRange { first: 0, last: 0, ..READ })
        };
        assert_eq!(locks.ask(USER, CONT, &more, 5 * TERM_NS + 1), Ok(LockReply::Unknown), "nothing is added");
        let again = LockAsk { has_locks: true, ..question(1, 1, LockAction::Again, WRITE) };
        assert_eq!(
            locks.ask(USER, CONT, &again, 5 * TERM_NS + 1),
            Ok(LockReply::Held { range: READ, pid: 0 })
        );
    }

    #[test]
    fn who_has_files_open_is_not_silent_while_his_connection_lasts_nor_at_once_after_it() {
        let locks = locks();
        let late_ns = 100 * TERM_NS;
        assert_eq!(set(&locks, 1, READ, 0), LockReply::Done);
        (0..2).for_each(|_| locks.enter(USER, Uuid::from_u128(1)));
        assert_eq!(set(&locks, 2, WRITE, late_ns), LockReply::Held { range: READ, pid: 0 });
        locks.leave(USER, Uuid::from_u128(1), late_ns);
        assert_eq!(
            set(&locks, 2, WRITE, 2 * late_ns),
            LockReply::Held { range: READ, pid: 0 },
            "by another one"
        );
        locks.leave(USER, Uuid::from_u128(1), 3 * late_ns);
        assert_eq!(set(&locks, 2, WRITE, 3 * late_ns + TERM_NS), LockReply::Held { range: READ, pid: 0 });
        assert_eq!(set(&locks, 2, WRITE, 3 * late_ns + TERM_NS + 1), LockReply::Done);
        locks.leave(USER, Uuid::from_u128(1), 0);
        assert!(locks.all().present.is_empty());
    }

    #[test]
    fn after_a_death_those_who_had_locks_come_first() {
        let locks = Locks::new(true, 100, Box::new(|| true));
        assert_eq!(set(&locks, 2, READ, 100), LockReply::Recovering);
        assert_eq!(set(&locks, 2, FREE, 100), LockReply::Done, "nothing is free to all");
        let test = |now_ns| locks.ask(USER, CONT, &question(2, 1, LockAction::Test, READ), now_ns).unwrap();
        assert_eq!(test(100 + RECOVER_NS - 1), LockReply::Recovering, "nobody knows yet");
        let again = LockAsk { has_locks: true, ..question(1, 1, LockAction::Again, WRITE) };
        assert_eq!(locks.ask(USER, CONT, &again, 100 + RECOVER_NS - 1), Ok(LockReply::Done));
        assert_eq!(test(100 + RECOVER_NS - 1), LockReply::Held { range: WRITE, pid: 0 }, "that is known");
        assert_eq!(set(&locks, 2, READ, 100 + RECOVER_NS), LockReply::Held { range: WRITE, pid: 0 });
        let free = question(1, 1, LockAction::Set, FREE);
        assert_eq!(locks.ask(USER, CONT, &free, 100 + RECOVER_NS), Ok(LockReply::Done));
        assert_eq!(test(100 + RECOVER_NS), LockReply::Done, "who has not come has nothing");
    }

    #[test]
    fn nobody_has_a_lock_that_is_not_written_down() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let note = move || counted.fetch_add(1, Ordering::Relaxed) > 0;
        let locks = Locks::new(false, 0, Box::new(note));
        let ask = question(1, 1, LockAction::Set, READ);
        assert_eq!(locks.ask(USER, CONT, &ask, 0), Err(Error::Busy));
        assert!(locks.is_empty());
        assert_eq!(locks.ask(USER, CONT, &ask, 0), Ok(LockReply::Done));
        assert_eq!(set(&locks, 2, READ, 0), LockReply::Done);
        assert_eq!(count.load(Ordering::Relaxed), 2, "once is enough");
        let leave = question(1, 0, LockAction::Leave, FREE);
        assert_eq!(locks.ask(USER, CONT, &leave, 0), Ok(LockReply::Done));
        assert_eq!(set(&locks, 3, WRITE, 0), LockReply::Held { range: READ, pid: 0 }, "the other one's");
    }

    #[test]
    fn there_are_so_many_locks_and_holders_and_no_more() {
        let locks = locks();
        for holder in 0..HOLDERS.user as u128 {
            assert_eq!(set(&locks, holder, READ, 0), LockReply::Done);
        }
        let late = question(u128::MAX, 1, LockAction::Set, READ);
        assert_eq!(locks.ask(USER, CONT, &late, 0), Err(Error::Busy));
        assert_eq!(
            locks.ask(USER, CONT, &late, TERM_NS + 1),
            Ok(LockReply::Done),
            "the silent are forgotten"
        );
        let mut ask = question(1, 1, LockAction::Set, READ);
        let mut refused = None;
        for at in 0..=RANGES.user as u64 {
            ask.oid.lo = at;
            refused = locks.ask(USER, CONT, &ask, TERM_NS + 1).err();
        }
        assert_eq!(refused, Some(Error::Busy));
        // Another user has his.
        assert_eq!(locks.ask(USER + 1, CONT, &late, TERM_NS + 1), Ok(LockReply::Done));
        assert_eq!(locks.ask(USER + 1, CONT, &ask, TERM_NS + 1), Ok(LockReply::Done));
    }

    #[test]
    fn each_user_has_a_share_whatever_the_others_have() {
        let locks = locks();
        let set = |uid: u32, holder: usize| {
            let holder = u128::try_from(holder).unwrap();
            locks.ask(uid, CONT, &question(holder, 1, LockAction::Set, READ), 0)
        };
        let full = u32::try_from(HOLDERS.all / HOLDERS.user).unwrap();
        for uid in 0..full {
            (0..HOLDERS.user).for_each(|holder| assert_eq!(set(uid, holder), Ok(LockReply::Done)));
            assert_eq!(set(uid, HOLDERS.user), Err(Error::Busy));
        }
        (0..HOLDERS.share).for_each(|holder| assert_eq!(set(full, holder), Ok(LockReply::Done)));
        assert_eq!(set(full, HOLDERS.share), Err(Error::Busy));
    }

    #[test]
    fn who_asks_speaks_for_his_own_user_and_of_who_has_nothing_nothing_is_remembered() {
        let locks = locks();
        assert_eq!(set(&locks, 1, WRITE, 0), LockReply::Done);
        let other = |ask: &LockAsk| locks.ask(USER + 1, CONT, ask, 0);
        for action in [LockAction::Leave, LockAction::Renew, LockAction::Set] {
            assert_eq!(other(&question(1, 1, action, FREE)), Ok(LockReply::Done), "{action:?}");
            let claims = LockAsk { has_locks: true, ..question(1, 1, action, FREE) };
            assert_eq!(other(&claims), Ok(LockReply::Unknown), "{action:?}");
        }
        assert_eq!(set(&locks, 2, READ, 0), LockReply::Held { range: WRITE, pid: 0 }, "it is there still");
        let test = question(1, 1, LockAction::Test, READ);
        assert_eq!(other(&test), Ok(LockReply::Held { range: WRITE, pid: 0 }), "of another user's process");
        assert_eq!(
            other(&question(1, 1, LockAction::Set, READ)),
            Ok(LockReply::Held { range: WRITE, pid: 0 })
        );
        let all = locks.all();
        assert_eq!((all.heard_ns.len(), all.users.len(), all.count), (1, 1, 1));
    }
}
