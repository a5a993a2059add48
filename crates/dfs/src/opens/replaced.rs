//! Names behind which other mounts replace files, faster than a door looks a name up and opens what it has found
//! (docs/decisions/0039-open-elsewhere.md).
//!
//! A door whose system looks a name up first and opens what that was in a second step finds the file gone if it was replaced in between.
//! It tells so, and is asked for the name again. From then on, for a while, whoever looks that name up has the file open with the
//! look, and has it so for a moment: the second step finds it, however often the name is replaced meanwhile.
//!
//! Invariants: what is held is open, so that nobody frees it; it is let go of after a moment, by the mount's thread at the latest, and
//! when the mount ends; nothing is let go of under the lock.

use crate::error::Error;
use crate::mount::Mount;
use crate::node::{InUse, Slot};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_client::At;
use dolmen_types::{Key, Oid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For how long a name counts as replaced again and again: until it is replaced no more a look at it costs two requests more.
const REPLACED_NS: u64 = 10_000_000_000;
/// Names that do: of more the oldest are forgotten, which costs an open another attempt.
const NAMES_MAX: usize = 256;
/// For how long a look has the file open: longer than a busy machine takes from one step to the next.
const HELD_NS: u64 = 1_000_000_000;
/// Files that are held at once. Of more the oldest go earlier.
const HELD_MAX: usize = 256;

/// Names, and what is held.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    /// Whether there are any names.
    has_names: AtomicBool,
    /// Guards: names, and until when they count; taken alone.
    names: Mutex<BTreeMap<(Oid, Key), u64>>,
    /// Guards: what is held, by when it was looked up; taken alone.
    held: Mutex<VecDeque<(u64, InUse)>>,
}

impl Replaced {
    fn names(&self) -> MutexGuard<'_, BTreeMap<(Oid, Key), u64>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_held(&self) -> MutexGuard<'_, VecDeque<(u64, InUse)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that was found in one of these was gone when it was to be opened.
    fn note(&self, slots: &[Slot], now_ns: u64) {
        let (mut names, until_ns) = (self.names(), now_ns.saturating_add(REPLACED_NS));
        for slot in slots {
            names.insert((slot.oid, slot.dkey.clone()), until_ns);
            if names.len() > NAMES_MAX {
                let first = names.iter().min_by_key(|(_, until_ns)| **until_ns);
                if let Some(first) = first.map(|(name, _)| name.clone()) {
                    names.remove(&first);
                }
            }
        }
        self.has_names.store(!names.is_empty(), Ordering::Relaxed);
    }

    /// Whether the name counts as replaced again and again.
    fn counts(&self, slot: &Slot, now_ns: impl FnOnce() -> u64) -> bool {
        if !self.has_names.load(Ordering::Relaxed) {
            return false;
        }
        let (mut names, now_ns) = (self.names(), now_ns());
        names.retain(|_, until_ns| *until_ns > now_ns);
        self.has_names.store(!names.is_empty(), Ordering::Relaxed);
        names.contains_key(&(slot.oid, slot.dkey.clone()))
    }
}

impl Mount {
    /// Notes that a file was gone when it was to be opened that was found in one of `slots` before.
    pub(crate) fn note_replaced(&self, slots: &[Slot]) {
        if self.tells_opens && self.knows_opens() {
            self.replaced.note(slots, self.monotonic_ns());
        }
    }

    /// Whether who looks up the name in `slot` is to have what it names open.
    pub(crate) fn is_replaced_often(&self, slot: &Slot) -> bool {
        self.replaced.counts(slot, || self.monotonic_ns())
    }

    /// Has a file open for who has looked it up, for a moment.
    pub(crate) fn hold(&self, in_use: InUse) {
        self.holder.keep_here();
        let (oid, now_ns) = (in_use.node().oid, self.monotonic_ns());
        let mut held = self.replaced.all_held();
        let known = held.iter().position(|(_, held)| held.node().oid == oid);
        let known = known.and_then(|at| held.remove(at));
        held.push_back((now_ns, in_use));
        let first = if held.len() > HELD_MAX { held.pop_front() } else { None };
        drop(held);
        drop(known);
        first.into_iter().for_each(|(_, first)| self.let_go_of(first));
    }

    /// The file, if it is held; not when that was for too long.
    pub(crate) fn held(&self, oid: Oid) -> Option<InUse> {
        let all = self.replaced.all_held();
        let (since_ns, held) = all.iter().find(|(_, held)| held.node().oid == oid)?;
        if self.monotonic_ns().saturating_sub(*since_ns) <= HELD_NS {
            return Some(held.clone());
        }
        drop(all);
        self.let_go_of_old();
        None
    }

    /// Lets go of what was held for long enough; whether anything is held still.
    pub(crate) fn let_go_of_old(&self) -> bool {
        let now_ns = self.monotonic_ns();
        loop {
            let mut held = self.replaced.all_held();
            let is_old = |(since_ns, _): &mut (u64, InUse)| now_ns.saturating_sub(*since_ns) > HELD_NS;
            let Some((_, old)) = held.pop_front_if(is_old) else { return !held.is_empty() };
            drop(held);
            self.let_go_of(old);
        }
    }

    /// Lets go of everything: nobody asks for it any more.
    pub(crate) fn let_go_of_all(&self) {
        let all = core::mem::take(&mut *self.replaced.all_held());
        all.into_iter().for_each(|(_, held)| self.let_go_of(held));
    }

    /// Whoever has replaced it leaves it to who has it open: who has noticed that frees it with his last close.
    fn let_go_of(&self, in_use: InUse) {
        let node = in_use.node();
        if !node.is_removed()
            && self.at_name(node, |slot| self.check_names(At::Latest, slot, node.oid)) == Err(Error::Stale)
        {
            // Ignored: then who has removed the name frees it.
            let _is_left = self.finds_left(node);
        }
    }
}
