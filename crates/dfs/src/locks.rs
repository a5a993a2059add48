//! Locks on files, kept for the processes of a mount at the engine that keeps them for all mounts.
//!
//! Invariants: what is told to be locked is on record here and at the engine. An engine that has forgotten it, since it was
//! started again or this mount was silent for too long, is told again before anything else is asked.

use crate::error::Result;
use crate::mount::Dfs;
use core::sync::atomic::{AtomicUsize, Ordering};
pub use dolmen_client::lock;
use dolmen_client::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange, LockReply, Ranges};
use dolmen_client::{Container, LockAsked};
use dolmen_types::{Oid, Uuid};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whose lock on what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockOwner {
    /// The file.
    pub oid: Oid,
    /// Of ranges or of the whole.
    pub family: LockFamily,
    /// The process, or the open file.
    pub owner: u64,
}

/// What came of a wish for a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Locked {
    /// It is as wished.
    Done,
    /// Somebody's stands against it.
    Held {
        /// His range.
        range: LockRange,
        /// His process, if he is of this mount; else 0.
        pid: u32,
    },
    /// The engine was started again a moment ago and asks those who had locks first.
    Later,
}

/// The locks of one mount. Any number of threads may use it; one asks at a time.
#[derive(Debug)]
pub struct Locks {
    cont: Container,
    holder: Uuid,
    /// Owners that have any.
    count: AtomicUsize,
    /// Guards what the engine has on record for this mount; held while it is asked.
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    by_owner: BTreeMap<LockOwner, (u32, Ranges)>,
    lost: usize,
    /// What owners have given back that nobody has waited for.
    freeing: Vec<(LockOwner, LockAsked)>,
}

/// A range that is asked for, by an owner that had none.
#[derive(Debug)]
pub(crate) struct Setting {
    who: LockOwner,
    asked: LockAsked,
}

/// Answers that nobody has waited for are looked at when there are so many, so that a look takes in several.
const FREEING_LOOK: usize = 8;
/// With so many under way whoever frees something waits for the answer.
const FREEING_MAX: usize = 64;

impl Locks {
    /// None yet. `holder` is a random number that nobody else knows.
    #[must_use]
    pub fn new(dfs: &Dfs, holder: Uuid) -> Self {
        Self::of(dfs.container().clone(), holder)
    }

    pub(crate) fn of(cont: Container, holder: Uuid) -> Self {
        Self { cont, holder, count: AtomicUsize::new(0), own: Mutex::default() }
    }

    /// Whether nobody has any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or frees a range.
    ///
    /// # Errors
    /// Those of the store; that it is busy if there are too many locks.
    pub fn set(&self, who: LockOwner, pid: u32, range: LockRange) -> Result<Locked> {
        if range.kind == LockKind::Free && !self.own().by_owner.contains_key(&who) {
            return Ok(Locked::Done);
        }
        self.set_by(LockAction::Set, who, pid, range)
    }

    /// Sets a range that nobody else can want, also at an engine that was started again and gives out no others yet.
    pub(crate) fn claim(&self, who: LockOwner, range: LockRange) -> Result<Locked> {
        self.set_by(LockAction::Again, who, 0, range)
    }

    fn set_by(&self, action: LockAction, who: LockOwner, pid: u32, range: LockRange) -> Result<Locked> {
        let mut own = self.own();
        self.wait_for_freed(&mut own, who)?;
        let told = self.ask(&mut own, action, who, pid, range)?;
        if told == Locked::Done {
            self.note(&mut own, who, pid, range);
        }
        Ok(told)
    }

    /// Takes note of what is done.
    fn note(&self, own: &mut Own, who: LockOwner, pid: u32, range: LockRange) {
        let (old_pid, ranges) = own.by_owner.entry(who).or_default();
        *old_pid = pid;
        ranges.set(range);
        if ranges.is_empty() {
            own.by_owner.remove(&who);
        }
        self.count.store(own.by_owner.len(), Ordering::Release);
    }

    /// Says what stands against a lock.
    ///
    /// # Errors
    /// Those of the store.
    pub fn test(&self, who: LockOwner, range: LockRange) -> Result<Locked> {
        self.ask(&mut self.own(), LockAction::Test, who, 0, range)
    }

    /// Frees all that an owner has of a file.
    ///
    /// # Errors
    /// Those of the store.
    pub fn free(&self, who: LockOwner) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.set(who, 0, LockRange::whole(LockKind::Free)).map(drop)
    }

    /// Asks for a range without waiting, which is on record here from now on: an engine that forgets it before its answer is looked at is
    /// told of it again. What came of it is for [`Locks::told`].
    ///
    /// REQUIRES: the owner has nothing, and has given nothing back that is under way.
    pub(crate) fn set_soon(&self, who: LockOwner, range: LockRange) -> Setting {
        let mut own = self.own();
        let question = self.question(!own.by_owner.is_empty(), LockAction::Set, who, 0, range);
        self.note(&mut own, who, 0, range);
        Setting { who, asked: self.cont.ask_lock(question) }
    }

    /// Whether what was asked for is known to be locked; what is not is on record no more.
    pub(crate) fn told(&self, mut setting: Setting) -> bool {
        let is_done = matches!(setting.asked.told(), Some(Ok(LockReply::Done)));
        let mut own = self.own();
        // Somebody else may have it by now, if the engine had to be told of it again.
        let is_on_record = own.by_owner.contains_key(&setting.who);
        if !is_done {
            self.note(&mut own, setting.who, 0, LockRange::whole(LockKind::Free));
        }
        is_done && is_on_record
    }

    /// As [`Locks::free`], without waiting for the engine, which does it before whatever it is asked after this. Tells owners for
    /// whom that could not be done before: they have to be freed anew.
    pub(crate) fn free_soon(&self, who: LockOwner) -> Vec<LockOwner> {
        let (mut own, mut is_new) = (self.own(), false);
        if own.by_owner.contains_key(&who) {
            let free = LockRange::whole(LockKind::Free);
            let asked = self.cont.ask_lock(self.question(true, LockAction::Set, who, 0, free));
            is_new = asked.send();
            self.note(&mut own, who, 0, free);
            own.freeing.push((who, asked));
        }
        let (failed, is_forgotten) =
            if own.freeing.len() < FREEING_LOOK { (Vec::new(), false) } else { own.take_answered() };
        // Who answers by another connection may be another run of the engine.
        if is_forgotten || is_new {
            // Ignored: it is told with the next question.
            let _later = self.say_here(&mut own);
        }
        if own.freeing.len() >= FREEING_MAX {
            // Ignored: what has failed is told of each that is under way.
            let _heard = self.hear(&own);
        }
        failed
    }

    /// Frees anew what could not be freed.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn free_again(&self, who: LockOwner) -> Result<()> {
        if self.own().by_owner.contains_key(&who) {
            // It was taken since.
            return Ok(());
        }
        self.set_by(LockAction::Set, who, 0, LockRange::whole(LockKind::Free)).map(drop)
    }

    /// Those whose locks could not be freed without waiting.
    pub(crate) fn unfreed(&self) -> Vec<LockOwner> {
        self.own().take_answered().0
    }

    /// Has the engine answer everything that it was asked before.
    fn hear(&self, own: &Own) -> Result<()> {
        let Some((who, _)) = own.freeing.first() else { return Ok(()) };
        let question = self.question(false, LockAction::Renew, *who, 0, LockRange::whole(LockKind::Free));
        self.cont.lock(&question)?;
        Ok(())
    }

    /// Before an owner asks for something again: what he has given back is not to come after that.
    fn wait_for_freed(&self, own: &mut Own, who: LockOwner) -> Result<()> {
        while let Some(at) = own.freeing.iter().position(|(of, _)| *of == who) {
            if own.freeing[at].1.told().is_some() {
                // Whatever became of it: the next question says what he has.
                own.freeing.swap_remove(at);
            } else {
                self.hear(own)?;
            }
        }
        Ok(())
    }

    /// Says that the mount is there, if it has any locks: to be called every [`RENEW_NS`](dolmen_client::lock::RENEW_NS). How
    /// many owners have lost theirs since the last call, because somebody else got them while the mount was silent.
    ///
    /// # Errors
    /// Those of the store.
    pub fn renew(&self) -> Result<usize> {
        let mut own = self.own();
        self.say_here(&mut own)?;
        Ok(core::mem::take(&mut own.lost))
    }

    fn say_here(&self, own: &mut Own) -> Result<()> {
        if let Some((&who, _)) = own.by_owner.first_key_value() {
            self.ask(own, LockAction::Renew, who, 0, LockRange::whole(LockKind::Free))?;
        }
        Ok(())
    }

    /// Frees all, at the end of the mount.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(&self) -> Result<()> {
        let mut own = self.own();
        let has_some = own.by_owner.keys().chain(own.freeing.iter().map(|(who, _)| who)).next().copied();
        let Some(who) = has_some else { return Ok(()) };
        self.cont.lock(&self.question(true, LockAction::Leave, who, 0, LockRange::whole(LockKind::Free)))?;
        own.by_owner.clear();
        own.freeing.clear();
        self.count.store(0, Ordering::Release);
        Ok(())
    }

    fn question(
        &self,
        has_locks: bool,
        action: LockAction,
        who: LockOwner,
        pid: u32,
        range: LockRange,
    ) -> LockAsk {
        let LockOwner { oid, family, owner } = who;
        LockAsk { holder: self.holder, action, has_locks, oid, family, owner, pid, range }
    }

    /// Asks, and if the engine has forgotten what it should know, tells it again first.
    fn ask(
        &self,
        own: &mut Own,
        action: LockAction,
        who: LockOwner,
        pid: u32,
        range: LockRange,
    ) -> Result<Locked> {
        loop {
            let question = self.question(!own.by_owner.is_empty(), action, who, pid, range);
            return Ok(match self.cont.lock(&question)? {
                LockReply::Done => Locked::Done,
                LockReply::Held { range, pid } => Locked::Held { range, pid },
                LockReply::Recovering => Locked::Later,
                LockReply::Unknown => {
                    self.tell_again(own)?;
                    continue;
                }
            });
        }
    }

    /// Tells the engine what is on record here. Whoever finds one of his ranges taken has lost all of that file.
    fn tell_again(&self, own: &mut Own) -> Result<()> {
        let mut lost = Vec::new();
        for (&who, (pid, ranges)) in &own.by_owner {
            for &range in ranges.as_slice() {
                let question = self.question(true, LockAction::Again, who, *pid, range);
                if self.cont.lock(&question)? != LockReply::Done {
                    lost.push((who, *pid));
                    break;
                }
            }
        }
        for (who, pid) in lost {
            own.by_owner.remove(&who);
            own.lost += 1;
            // What of it was set again before the one that was taken.
            let free = LockRange::whole(LockKind::Free);
            self.cont.lock(&self.question(false, LockAction::Set, who, pid, free))?;
        }
        self.count.store(own.by_owner.len(), Ordering::Release);
        Ok(())
    }
}

impl Own {
    /// Takes out what is answered: those for whom it could not be done, and whether the engine has forgotten what it should know.
    fn take_answered(&mut self) -> (Vec<LockOwner>, bool) {
        let (mut failed, mut is_forgotten) = (Vec::new(), false);
        self.freeing.retain_mut(|(who, asked)| {
            let Some(told) = asked.told() else { return true };
            // An engine that has forgotten it has forgotten all.
            is_forgotten |= matches!(told, Ok(LockReply::Unknown));
            failed.extend(told.is_err().then_some(*who));
            false
        });
        (failed, is_forgotten)
    }
}
