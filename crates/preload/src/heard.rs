//! What this process has found of names, for as long as nobody has changed it (docs/decisions/0037-leases.md).
//!
//! Others' changes wait until a thread that listens on the connection has taken in that what was found is void. It begins with the
//! first lease and ends, and gives all back, when nobody has looked for a while.
//!
//! Invariants: what is told from here was found under leases that hold now, after everything that this process has done to it
//! itself, which nobody tells it; whoever takes a lease has a thread that listens.

use crate::{guard, report};
use core::hash::{BuildHasher as _, Hash};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::LEASE_RENEW_NS;
use dolmen_dfs::{Dir, Error, Leased, Result, Stat};
use dolmen_env::{Clock as _, RealClock};
use dolmen_net::client::{Link, Remote};
use hashbrown::{DefaultHashBuilder, Equivalent, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;

/// What was found lately: twice as much is remembered, of some 300 bytes each, and as many leases or two. The engine gives a
/// connection 65,536.
const LATELY_MAX: usize = 8192;
/// Own changes are counted in so many places, by number and by name: who shares one looks once more.
const CELLS: usize = 1024;
/// What nobody has asked for in so long, or in twice as long, is given back.
const TURN_NS: u64 = 8_000_000_000;
/// Who has looked for nothing for so long gives everything back.
const IDLE_NS: u64 = 2_000_000_000;
/// Between two looks of a thread at whether it is wanted still.
const LOOK: Duration = Duration::from_millis(100);

/// What was found under a name of a directory; `None` if there was nothing.
pub(crate) type Found = Option<Stat>;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    dir: u64,
    name: Box<[u8]>,
}

#[derive(Hash)]
struct KeyRef<'a> {
    dir: u64,
    name: &'a [u8],
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.dir == key.dir && *self.name == *key.name
    }
}

struct Kept {
    found: Found,
    leased: Leased,
    /// Where own changes of the name and of the file are counted, and how many there were before it was looked for.
    at: [u16; 2],
    changes: [u64; 2],
}

/// In two parts: what was found lately, and before that.
#[derive(Default)]
struct Names {
    lately: HashMap<Key, Arc<Kept>>,
    before: HashMap<Key, Arc<Kept>>,
}

/// Threads that listen, one on each connection.
#[derive(Default)]
struct Listeners {
    threads: Vec<(Link, JoinHandle<()>)>,
    /// Which threads are meant: those of a number before this end.
    number: u64,
    /// A thread could not be started.
    is_deaf: bool,
}

/// What was found through one connection to a pool.
pub(crate) struct Heard {
    remote: Arc<Remote>,
    hasher: DefaultHashBuilder,
    /// Own changes, counted together and by whom they concern.
    all_changes: AtomicU64,
    changes: [AtomicU64; CELLS],
    /// Guards: the names; taken last.
    names: RwLock<Names>,
    /// Guards: who listens; held, shared, while something is looked for with leases; before the names.
    listeners: RwLock<Listeners>,
    /// When something was looked for, about.
    used_ns: AtomicU64,
    /// When what was found lately became old.
    turned_ns: AtomicU64,
}

impl Heard {
    pub(crate) fn new(remote: Arc<Remote>) -> Self {
        Self {
            remote,
            hasher: DefaultHashBuilder::default(),
            all_changes: AtomicU64::new(0),
            changes: [const { AtomicU64::new(0) }; CELLS],
            names: RwLock::default(),
            listeners: RwLock::default(),
            used_ns: AtomicU64::new(0),
            turned_ns: AtomicU64::new(0),
        }
    }

    /// Whether there are leases where it is connected to.
    pub(crate) fn has_leases(&self) -> bool {
        self.remote.link().has_leases()
    }

    /// Where own changes of something are counted.
    fn cell_of(&self, of: impl Hash) -> u16 {
        let hash = self.hasher.hash_one(of).to_le_bytes();
        u16::from_le_bytes([hash[0], hash[1]])
    }

    fn cell(&self, at: u16) -> &AtomicU64 {
        &self.changes[usize::from(at) % CELLS]
    }

    fn changes_at(&self, at: u16) -> u64 {
        self.cell(at).load(Ordering::Acquire)
    }

    /// This process has changed a file, or what is recorded of it.
    pub(crate) fn note_change(&self, ino: u64) {
        // First: who sees the other has seen this.
        self.all_changes.fetch_add(1, Ordering::AcqRel);
        self.cell(self.cell_of(ino)).fetch_add(1, Ordering::AcqRel);
    }

    /// This process has made, removed or replaced a name.
    pub(crate) fn note_name(&self, dir: u64, name: &[u8]) {
        self.all_changes.fetch_add(1, Ordering::AcqRel);
        self.cell(self.cell_of(KeyRef { dir, name })).fetch_add(1, Ordering::AcqRel);
    }

    /// What is known to be under a name.
    pub(crate) fn known(&self, dir: u64, name: &[u8]) -> Option<Found> {
        let now_ns = RealClock.monotonic_ns();
        self.note_use(now_ns);
        let key = KeyRef { dir, name };
        let old = {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            let lately = names.lately.get(&key);
            let kept = lately.or_else(|| names.before.get(&key))?;
            if !kept.at.iter().zip(kept.changes).all(|(at, count)| self.changes_at(*at) == count)
                || !kept.leased.holds(now_ns)
            {
                return None;
            }
            if lately.is_some() {
                report::known();
                return Some(kept.found);
            }
            Arc::clone(kept)
        };
        let found = old.found;
        self.keep(Key { dir, name: name.into() }, old);
        report::known();
        Some(found)
    }

    /// What the entry `name` of `dir`, whose number is `ino`, names, as the daemon says; it is known from then on.
    ///
    /// # Errors
    /// As `Dir::lookup`; that there is nothing is no error.
    pub(crate) fn look(self: &Arc<Self>, dir: &Dir, ino: u64, name: &[u8]) -> Result<Found> {
        let now_ns = RealClock.monotonic_ns();
        let Some(listeners) = self.listening() else { return ask(dir, name) };
        let at_name = self.cell_of(KeyRef { dir: ino, name });
        let before = self.all_changes.load(Ordering::Acquire);
        let (found, leased) = dolmen_dfs::leased(|| ask(dir, name));
        let found = found?;
        let of_file = found.map_or(at_name, |stat| self.cell_of(stat.ino));
        let at = [at_name, of_file];
        let changes = at.map(|at| self.changes_at(at));
        // Who has changed something here meanwhile may have come after the look.
        let is_whole = self.all_changes.load(Ordering::Acquire) == before;
        if is_whole && leased.holds(now_ns) {
            self.keep(Key { dir: ino, name: name.into() }, Arc::new(Kept { found, leased, at, changes }));
        }
        let has_more = self.remote.links().len() > listeners.threads.len();
        drop(listeners);
        if has_more {
            self.begin_to_listen();
        }
        Ok(found)
    }

    /// What `look` finds, with the leases on all that it has read; with none if it may have no leases.
    pub(crate) fn leased<T>(self: &Arc<Self>, look: impl FnOnce() -> T) -> (T, Leased) {
        self.note_use(RealClock.monotonic_ns());
        match self.listening() {
            Some(_listeners) => dolmen_dfs::leased(look),
            None => (look(), Leased::default()),
        }
    }

    fn note_use(&self, now_ns: u64) {
        const SELDOM_NS: u64 = 50_000_000;
        if now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed)) > SELDOM_NS {
            self.used_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    fn keep(&self, key: Key, kept: Arc<Kept>) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = if names.lately.len() >= LATELY_MAX { names.turn() } else { HashMap::default() };
        let replaced = names.lately.insert(key, kept);
        drop(names);
        drop((forgotten, replaced));
    }
}

fn ask(dir: &Dir, name: &[u8]) -> Result<Found> {
    match dir.lookup(name) {
        Ok((_, stat)) => Ok(Some(stat)),
        Err(Error::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

impl Names {
    /// What was found lately was found before, from now on; what is forgotten.
    #[must_use]
    fn turn(&mut self) -> HashMap<Key, Arc<Kept>> {
        let lately = core::mem::take(&mut self.lately);
        core::mem::replace(&mut self.before, lately)
    }
}

impl Heard {
    /// That threads listen, for as long as this is held; `None` if nobody may have leases.
    fn listening(self: &Arc<Self>) -> Option<RwLockReadGuard<'_, Listeners>> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        if !listeners.threads.is_empty() {
            return Some(listeners);
        }
        drop(listeners);
        self.begin_to_listen();
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        (!listeners.threads.is_empty()).then_some(listeners)
    }

    /// Has a thread listen on each connection.
    fn begin_to_listen(self: &Arc<Self>) {
        if !self.has_leases() {
            return;
        }
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        for link in self.remote.links() {
            if listeners.is_deaf || listeners.threads.iter().any(|(known, _)| known.is_same(&link)) {
                continue;
            }
            let (heard, on, number) = (Arc::clone(self), link.clone(), listeners.number);
            match dolmen_env::spawn("dolmen-leases", move || heard.listen(&on, number)) {
                Ok(thread) => listeners.threads.push((link, thread)),
                Err(_) => listeners.is_deaf = true,
            }
        }
    }

    /// Until nobody has looked for anything for a while, or the thread is called off.
    fn listen(&self, link: &Link, number: u64) {
        guard::inside((), || {
            let mut renewed_ns = RealClock.monotonic_ns();
            loop {
                link.attend(LOOK);
                let now_ns = RealClock.monotonic_ns();
                if !self.is_wanted(number, now_ns) {
                    break;
                }
                if now_ns.saturating_sub(renewed_ns) >= LEASE_RENEW_NS {
                    self.forget_old(now_ns);
                    link.renew_leases();
                    renewed_ns = now_ns;
                }
            }
            link.renew_leases();
        });
    }

    /// Whether threads of this number go on.
    fn is_wanted(&self, number: u64, now_ns: u64) -> bool {
        let is_idle = || now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed)) > IDLE_NS;
        // Who looks for something has it.
        if is_idle()
            && let Ok(mut listeners) = self.listeners.try_write()
            && listeners.number == number
            && is_idle()
        {
            drop(self.call_off(&mut listeners));
        }
        let number_now = self.listeners.read().unwrap_or_else(PoisonError::into_inner).number;
        number_now == number
    }

    /// Has all threads give everything back and end.
    fn call_off(&self, listeners: &mut Listeners) -> Vec<(Link, JoinHandle<()>)> {
        listeners.number += 1;
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Names::default();
        core::mem::take(&mut listeners.threads)
    }

    /// What is void, and what nobody has asked for since the last time.
    fn forget_old(&self, now_ns: u64) {
        let turned_ns = self.turned_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(turned_ns) < TURN_NS {
            return;
        }
        if self.turned_ns.compare_exchange(turned_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            let forgotten = names.turn();
            names.before.retain(|_, kept| kept.leased.holds(now_ns));
            drop(names);
            drop(forgotten);
        }
    }

    /// Ends all threads, and waits for that.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
            self.call_off(&mut listeners)
        };
        for (_, thread) in threads {
            // Ignored: one that has panicked has ended as well.
            _ = thread.join();
        }
    }
}
