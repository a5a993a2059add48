//! The list of files without a name that are still open: who has them open, and who frees what the dead have left.
//!
//! Where several processes have the container, a mount draws a number at random and takes the lock of it: one byte of the list's
//! object, at the engine that keeps locks. It keeps that for as long as it lives, and each entry that it makes says the
//! number. Whoever gets the lock of a number knows that its holder is dead, or was silent for longer than a lock is kept.
//!
//! Invariants: a mount has the lock of a number, and was heard a moment ago, when it makes an entry that says it; an entry is
//! freed by who has it open, by who has got the lock of its number, or, if it says none, by a mount that has the container for
//! itself.

use crate::error::{Error, Result};
use crate::layout::inode::{FileKind, Inode};
use crate::layout::{self, AKEY_HOLDER, AKEY_INODE, AKEY_LINKS, holder};
use crate::locks::{LockOwner, Locked, Locks};
use crate::mount::Mount;
use crate::node::Slot;
use crate::opens::{self, Elsewhere};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_client::lock::{LockFamily, LockKind, LockRange, RENEW_NS, TERM_NS};
use dolmen_client::{At, Page};
use dolmen_types::{Anchor, Error as StoreError, Key, ObjectClass, ObjectType, Oid, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A holder that has not been heard for so long says that it is there before it makes another entry: well before others may
/// take it for dead.
const HEARD_NS_MAX: u64 = TERM_NS / 2;
/// After so long a mount looks again whether those have died whom it found alive; twice as long each time.
const LOOK_NS_MIN: u64 = TERM_NS + 2 * RENEW_NS;
/// A mount that lasts looks so often whether somebody has died: one request.
const LOOK_NS_MAX: u64 = 60_000_000_000;
/// A number that no entry says, and that nobody has asked for since, is given back after so long: longer than an entry is in
/// the making.
const IDLE_NS: u64 = 60_000_000_000;
/// Files that could not be freed at their last close, to be tried again; what is more waits for the next mount.
const UNFREED_MAX: usize = 4096;
/// So many of them at once: each is a few requests.
const UNFREED_AT_ONCE: usize = 256;

/// Under which number a mount has files open that have no name.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    this: OnceLock<Weak<Mount>>,
    /// Guards: the number and its lock; held while the engine is asked.
    own: Mutex<Own>,
    /// Entries that this mount has made, and that are still there.
    entries: AtomicU64,
    /// Guards: files that could not be freed; taken alone.
    unfreed: Mutex<Vec<Oid>>,
    keeper: Arc<Keeper>,
    /// Where nobody can tell the living from the dead they may be waiting for who can.
    spares: bool,
}

#[derive(Debug, Default)]
enum Own {
    /// There was no need of one.
    #[default]
    None,
    /// Nobody keeps locks: all mounts are in this process, and die with it.
    Nobody,
    Held(Held),
}

#[derive(Debug)]
struct Held {
    number: u64,
    locks: Locks,
    /// When the engine was asked that heard this mount last.
    heard_ns: u64,
    /// When it was asked for last.
    asked_ns: u64,
    /// What was forked off has no thread that says that it is there.
    process: u32,
}

/// What the thread is told that says that a mount is there.
#[derive(Debug, Default)]
struct Keeper {
    /// Guards: taken alone.
    state: Mutex<KeeperState>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct KeeperState {
    /// In which process it runs.
    process: Option<u32>,
    /// There is something to renew, which was not there before.
    is_new: bool,
    /// It rests, and looks in time for what is new whether or not it is woken.
    is_near: bool,
    is_ended: bool,
}

/// Why the thread rests no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woken {
    /// There is something new.
    New,
    /// Time is over.
    Rested,
    Ended,
}

impl Keeper {
    fn state(&self) -> MutexGuard<'_, KeeperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to happen, at most so long.
    fn waits(&self, rest_ns: u64) -> Woken {
        let mut state = self.state();
        state.is_near = rest_ns <= RENEW_NS;
        let is_quiet = |state: &mut KeeperState| !state.is_ended && !state.is_new;
        let waited = self.told.wait_timeout_while(state, Duration::from_nanos(rest_ns), is_quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        // What comes while it looks may be missed by that look.
        state.is_near = false;
        let is_new = core::mem::take(&mut state.is_new);
        match () {
            () if state.is_ended => Woken::Ended,
            () if is_new => Woken::New,
            () => Woken::Rested,
        }
    }

    /// Has it look before what is new now has to be renewed.
    fn wake(&self) {
        let mut state = self.state();
        if !state.is_near && !state.is_new {
            state.is_new = true;
            drop(state);
            self.told.notify_all();
        }
    }
}

impl Holder {
    pub(crate) fn new(spares: bool) -> Self {
        Self { spares, ..Self::default() }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unfreed(&self) -> MutexGuard<'_, Vec<Oid>> {
        self.unfreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an entry of this mount is in the list.
    pub(crate) fn note_entry(&self) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that one is there no more.
    pub(crate) fn note_freed(&self) {
        let one_less = |count: u64| Some(count.saturating_sub(1));
        // Ignored: of an entry whose making was not known to be done nobody has noted it.
        let _was = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }

    /// Notes a file that could not be freed: it is tried again where a thread tends the list, and else left to the next mount.
    pub(crate) fn note_unfreed(&self, file: Oid) {
        let mut unfreed = self.unfreed();
        if unfreed.len() < UNFREED_MAX {
            unfreed.push(file);
        }
    }

    /// The mount begins.
    pub(crate) fn begin(&self, mount: &Arc<Mount>, tends: bool) {
        // Ignored: it begins once.
        let _once = self.this.set(Arc::downgrade(mount));
        if tends {
            self.keep(true);
        }
    }

    /// Has a thread say from now on that this mount is there.
    fn keep(&self, tends: bool) {
        let Some(mount) = self.this.get().cloned() else { return };
        let mut state = self.keeper.state();
        state.is_new = true;
        if state.process != Some(dolmen_env::process_id()) {
            let keeper = Arc::clone(&self.keeper);
            let body = move || keep(&mount, &keeper, tends);
            // Without a thread it is said with each entry, and the others are lost to who takes this one for dead.
            state.process = dolmen_env::spawn("orphans", body).ok().map(|_runs| dolmen_env::process_id());
        }
        drop(state);
        self.keeper.told.notify_all();
    }

    /// Has a thread look after what this mount holds, if there is none yet.
    pub(crate) fn keep_here(&self) {
        let is_kept = self.keeper.state().process == Some(dolmen_env::process_id());
        if !is_kept {
            self.keep(false);
        }
    }

    /// Has the thread, if there is one, look before what is new now has to be renewed. Nobody is woken where it looks in time by itself:
    /// who makes one file after the other begins to have something open each time.
    pub(crate) fn wake(&self) {
        self.keeper.wake();
    }

    /// The mount ends: what it has not freed is left to whoever comes.
    pub(crate) fn end(&self) {
        self.keeper.state().is_ended = true;
        self.keeper.told.notify_all();
        if let Own::Held(held) = core::mem::take(&mut *self.own())
            && held.process == dolmen_env::process_id()
        {
            // Ignored: then its lock ends with the time that locks have.
            let _ends_later = held.locks.leave();
        }
    }
}

/// Says that a mount is there for as long as it is, frees what could not be freed, and, if it `tends` the list, what the dead
/// have left; then it records accesses as well.
fn keep(mount: &Weak<Mount>, keeper: &Keeper, tends: bool) {
    let mut looks = Looks::default();
    let mut rest_ns = LOOK_NS_MAX;
    loop {
        let woken = keeper.waits(rest_ns);
        if woken == Woken::Ended {
            return;
        }
        let Some(mount) = mount.upgrade() else { return };
        let holds = mount.let_go_of_old() | mount.renew_holder() | mount.opens.renew();
        let waits = mount.free_unfreed();
        if tends {
            looks.look(&mount);
        }
        // Where something was open a moment ago something will be soon.
        rest_ns = if holds || waits || woken == Woken::New { RENEW_NS } else { looks.rest_ns };
    }
}

/// When to look at the list.
#[derive(Debug)]
struct Looks {
    next_ns: u64,
    rest_ns: u64,
}

impl Default for Looks {
    fn default() -> Self {
        Self { next_ns: 0, rest_ns: LOOK_NS_MIN / 2 }
    }
}

impl Looks {
    fn look(&mut self, mount: &Mount) {
        let now_ns = mount.monotonic_ns();
        if now_ns < self.next_ns {
            return;
        }
        self.rest_ns = match mount.free_orphans() {
            Ok(Left::Others) => (self.rest_ns * 2).clamp(LOOK_NS_MIN, LOOK_NS_MAX),
            Ok(Left::Nothing) | Err(_) => LOOK_NS_MAX,
        };
        mount.record_waiting_times();
        self.next_ns = now_ns + self.rest_ns;
    }
}

/// What a look at the list has left in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Nothing of others.
    Nothing,
    /// What others have open, or may have.
    Others,
}

/// What came of a wish for a lock, where locks are kept.
pub(crate) enum Kept {
    Told(Locked),
    ByNobody,
    TooMany,
}

pub(crate) fn kept(told: Result<Locked>) -> Result<Kept> {
    match told {
        Err(Error::Store(error)) if matches!(*error, StoreError::NoPermission) => Ok(Kept::ByNobody),
        Err(Error::Store(error)) if matches!(*error, StoreError::Busy) => Ok(Kept::TooMany),
        other => other.map(Kept::Told),
    }
}

/// A name for a holder of locks, and a number; `None` if the system has nothing random.
pub(crate) fn random() -> Option<(Uuid, u64)> {
    let name = dolmen_env::Rng::from_entropy().ok()?.next_u128();
    Some((dolmen_types::uuid_of_random(name), dolmen_env::entropy_u64().ok()?))
}

/// The lock of a number.
fn lock_of(number: u64) -> LockRange {
    LockRange { first: number, last: number, kind: LockKind::Write }
}

impl Mount {
    fn list_owner(&self) -> LockOwner {
        LockOwner { oid: self.orphans_oid(), family: LockFamily::Range, owner: 0 }
    }

    pub(crate) fn orphans_oid(&self) -> Oid {
        layout::orphans_oid(ObjectClass::S1)
    }

    pub(crate) fn orphan_slot(&self, file: Oid) -> Slot {
        Slot::new(self.orphans_oid(), &file.to_bytes())
    }

    /// The number that entries of this mount say, and that it is known to be there by; `None` where nobody can tell.
    pub(crate) fn holder_number(&self) -> Result<Option<u64>> {
        let mut own = self.holder.own();
        let now_ns = self.monotonic_ns();
        if let Own::Held(held) = &mut *own {
            if held.process != dolmen_env::process_id() {
                *own = Own::None;
            } else if now_ns.saturating_sub(held.heard_ns) > HEARD_NS_MAX {
                match held.locks.renew()? {
                    0 => held.heard_ns = now_ns,
                    // Somebody has taken this mount for dead, and frees what says its number.
                    _ => *own = Own::None,
                }
            }
        }
        if let Own::None = &*own {
            *own = self.take_number(now_ns)?;
            if let Own::Held(_) = &*own {
                self.holder.keep(false);
            }
        }
        Ok(match &mut *own {
            Own::Held(held) => {
                held.asked_ns = now_ns;
                Some(held.number)
            }
            Own::None | Own::Nobody => None,
        })
    }

    fn take_number(&self, now_ns: u64) -> Result<Own> {
        let Some((name, number)) = random() else { return Ok(Own::None) };
        let locks = Locks::of(self.container.clone(), name);
        match kept(locks.claim(self.list_owner(), lock_of(number)))? {
            Kept::Told(Locked::Done) => {
                let process = dolmen_env::process_id();
                Ok(Own::Held(Held { number, locks, heard_ns: now_ns, asked_ns: now_ns, process }))
            }
            // Of 2^64 somebody has drawn the same.
            Kept::Told(Locked::Held { .. } | Locked::Later) => Err(Error::Contended),
            Kept::ByNobody => Ok(Own::Nobody),
            // Then only who has the container for himself frees what this mount leaves.
            Kept::TooMany => Ok(Own::None),
        }
    }

    /// Says that this mount is there; whether there is anything to say.
    fn renew_holder(&self) -> bool {
        let mut own = self.holder.own();
        let Own::Held(held) = &mut *own else { return false };
        let now_ns = self.monotonic_ns();
        let is_idle = now_ns.saturating_sub(held.asked_ns) > IDLE_NS;
        let kept = if is_idle && self.holder.entries.load(Ordering::Relaxed) == 0 {
            held.locks.leave().map(|()| false)
        } else {
            held.locks.renew().map(|lost| lost == 0)
        };
        match kept {
            Ok(true) => held.heard_ns = now_ns,
            Ok(false) => *own = Own::None,
            // Whoever makes an entry asks again, and is told.
            Err(_) => {}
        }
        matches!(*own, Own::Held(_))
    }

    /// Tries some of those again that could not be freed; whether there are any left.
    fn free_unfreed(&self) -> bool {
        let mut unfreed = self.holder.unfreed();
        let count = unfreed.len().min(UNFREED_AT_ONCE);
        let tried: Vec<Oid> = unfreed.drain(..count).collect();
        drop(unfreed);
        for file in tried {
            match self.free_unopened(file, true) {
                Ok(true) => self.holder.note_freed(),
                Ok(false) | Err(_) => self.holder.note_unfreed(file),
            }
        }
        !self.holder.unfreed().is_empty()
    }

    /// Frees a file of the orphan list that is not open here unless others have it open; it may have got a name if it is `nameable`.
    /// Whether nobody has.
    pub(crate) fn free_unopened(&self, file: Oid, nameable: bool) -> Result<bool> {
        match self.has_open_elsewhere(file)? {
            Elsewhere::Open => Ok(false),
            // Until it is freed nobody begins to have it open.
            Elsewhere::No(_alone) if nameable => self.free_if_nameless(file).map(|()| true),
            Elsewhere::No(_alone) => self.free_orphan(file).map(|()| true),
        }
    }

    /// Notes a file without a name that is still open, with what lies beside its record in `home`.
    pub(crate) fn put_orphan(&self, at: At<'_>, inode: &Inode, home: &Slot) -> Result<()> {
        let mut extras = Vec::new();
        if let Some(number) = self.holder_number()? {
            extras.push((Key::from_slice(AKEY_HOLDER), holder::to_bytes(number).to_vec()));
        }
        let stays = [AKEY_INODE, AKEY_LINKS, AKEY_HOLDER];
        let goes_along = |akey: &Key| !stays.contains(&&akey[..]);
        for akey in self.akeys(at, home)?.into_iter().filter(goes_along) {
            match self.value(at, home, &akey) {
                // What cannot be read keeps no file from being removed.
                Err(error) if error.is_damage() => {}
                value => extras.extend(value?.map(|value| (akey, value))),
            }
        }
        self.put_whole_entry(at, &self.orphan_slot(inode.oid), inode, &extras)
    }

    /// Frees a file of the orphan list, or what has no contents: both or neither.
    pub(crate) fn free_orphan(&self, file: Oid) -> Result<()> {
        let slot = self.orphan_slot(file);
        let list = self.object(slot.oid)?;
        let contents = match file.object_type() {
            Some(ObjectType::ArrayByte) => Some(self.object(file)?),
            _ => None,
        };
        let mut batch = self.container.batch();
        contents.iter().for_each(|contents| batch.punch(contents));
        batch.punch_dkey(&list, &slot.dkey);
        batch.commit()?;
        Ok(())
    }

    /// Frees a file that may have a name by now, if the answer to who gave it was lost: only what is in the list has none.
    pub(crate) fn free_if_nameless(&self, file: Oid) -> Result<()> {
        match self.inode(At::Latest, &self.orphan_slot(file))? {
            Some(_) => self.free_orphan(file),
            None => Ok(()),
        }
    }

    /// Frees what was unlinked while open by mounts that have ended without closing it. What is damaged is left as it is, for
    /// a check to name: nobody can say what it was, and the files that have names are not touched by it.
    pub(crate) fn free_orphans(&self) -> Result<Left> {
        let object = self.object(self.orphans_oid())?;
        let (mut anchor, mut left) = (Anchor::default(), Left::Nothing);
        let mut judge = Judge { mount: self, own: self.own_number(), known: BTreeMap::new(), locks: None };
        while !anchor.is_eof() {
            let keys = match object.list_dkeys(At::Latest, &mut anchor, Page::default()).map_err(Error::from)
            {
                Err(error) if error.is_damage() => break,
                other => other?,
            };
            for file in keys.iter().filter_map(|key| self.orphan(key)) {
                match judge.of(&self.orphan_slot(file))? {
                    Verdict::Dead if judge.is_open(file)? => left = Left::Others,
                    Verdict::Dead => self.free_orphan(file)?,
                    Verdict::Own => {}
                    Verdict::Alive => left = Left::Others,
                }
            }
        }
        Ok(left)
    }

    fn own_number(&self) -> Option<u64> {
        match &*self.holder.own() {
            Own::Held(held) => Some(held.number),
            Own::None | Own::Nobody => None,
        }
    }

    /// The file that a dkey of the orphan list names; `None` if it is the name of none.
    pub(crate) fn orphan(&self, dkey: &[u8]) -> Option<Oid> {
        let oid = Oid::from_bytes(dkey.try_into().ok()?);
        match self.object(oid).ok()?.object_type() {
            ObjectType::ArrayByte => Some(oid),
            // A pipe, socket, device or symbolic link, if its record says so: directories have such numbers, too.
            ObjectType::MultiHashed => {
                let inode = self.inode(At::Latest, &self.orphan_slot(oid)).ok()??;
                (inode.oid == oid && !matches!(inode.kind, FileKind::Directory | FileKind::File))
                    .then_some(oid)
            }
            _ => None,
        }
    }
}

/// Of who has made an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Dead,
    Own,
    /// Or nobody knows.
    Alive,
}

/// Who tells the living from the dead, by the locks of their numbers: those of the dead are his until he goes.
struct Judge<'a> {
    mount: &'a Mount,
    own: Option<u64>,
    known: BTreeMap<u64, Verdict>,
    locks: Option<Locks>,
}

impl Judge<'_> {
    fn of(&mut self, slot: &Slot) -> Result<Verdict> {
        let stored = match self.mount.value(At::Latest, slot, AKEY_HOLDER) {
            Err(error) if error.is_damage() => None,
            other => other?,
        };
        let of_nobody = if self.mount.is_shared() { Verdict::Alive } else { Verdict::Dead };
        let Some(number) = stored.and_then(|bytes| holder::from_bytes(&bytes)) else { return Ok(of_nobody) };
        if self.own == Some(number) {
            return Ok(Verdict::Own);
        }
        if let Some(&known) = self.known.get(&number) {
            return Ok(known);
        }
        let verdict = match self.asks(number)? {
            Kept::Told(Locked::Done) => Verdict::Dead,
            Kept::Told(Locked::Held { .. } | Locked::Later) | Kept::TooMany => Verdict::Alive,
            Kept::ByNobody if self.mount.holder.spares => Verdict::Alive,
            // Whoever had a lock of an engine has lost the pool to this process.
            Kept::ByNobody => of_nobody,
        };
        self.known.insert(number, verdict);
        Ok(verdict)
    }

    /// Whether somebody has it open, whoever has made the entry. This mount asks as one of the others.
    fn is_open(&mut self, file: Oid) -> Result<bool> {
        if !self.mount.knows_opens() || !opens::is_file(file) {
            return Ok(false);
        }
        let told = self.takes(opens::owner(file), LockRange::whole(LockKind::Write))?;
        Ok(matches!(told, Kept::Told(Locked::Held { .. } | Locked::Later) | Kept::TooMany))
    }

    fn asks(&mut self, number: u64) -> Result<Kept> {
        self.takes(self.mount.list_owner(), lock_of(number))
    }

    fn takes(&mut self, owner: LockOwner, range: LockRange) -> Result<Kept> {
        if self.locks.is_none() {
            let Some((name, _)) = random() else { return Ok(Kept::TooMany) };
            self.locks = Some(Locks::of(self.mount.container.clone(), name));
        }
        let Some(locks) = &self.locks else { return Ok(Kept::TooMany) };
        kept(locks.set(owner, dolmen_env::process_id(), range))
    }
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        if let Some(locks) = &self.locks {
            // Ignored: then they end with the time that locks have.
            let _end_later = locks.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Keeper, LOOK_NS_MAX, Woken};
    use dolmen_client::lock::RENEW_NS;

    #[test]
    fn who_looks_in_time_by_itself_is_not_woken_and_who_would_look_too_late_is() {
        let keeper = Keeper::default();
        keeper.wake();
        assert_eq!(keeper.waits(u64::MAX), Woken::New, "it was woken before it rested");
        keeper.state().is_near = true;
        keeper.wake();
        assert_eq!(keeper.waits(0), Woken::Rested, "it looks in time");
        keeper.wake();
        assert_eq!(keeper.waits(LOOK_NS_MAX), Woken::New, "it was looking, and may have missed what is new");
        dolmen_env::scope(|threads| {
            let resting = threads.spawn(|| keeper.waits(RENEW_NS + 1));
            while !resting.is_finished() {
                keeper.wake();
                std::thread::yield_now();
            }
            assert_eq!(resting.join().unwrap(), Woken::New, "it would have looked too late");
        });
        keeper.state().is_ended = true;
        assert_eq!(keeper.waits(RENEW_NS), Woken::Ended);
    }
}
