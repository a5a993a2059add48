//! What Python has handles on: each can be closed under those who have it, and belongs to the process that has opened it.
//!
//! Invariants: a slot is read and emptied with the interpreter's lock given up, so that no thread waits for one that waits for
//! that lock; nothing is locked in a forked child; nobody waits for an operation that is under way on his own thread, of which he
//! is told (`progress`, a signal).

use crate::error::{Error, Result, Still};
use crate::here::Here;
use crate::watch::detached;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_client::Pool;
use pyo3::prelude::Python;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError, Weak};

/// An open pool, with everything that was opened through it.
pub(crate) struct Session {
    pid: u32,
    /// What was given to reach it.
    pub(crate) address: String,
    pub(crate) read_only: bool,
    is_here: bool,
    closed: AtomicBool,
    next: AtomicU64,
    /// Guards what is open, in the order in which it was opened; no slot is emptied under it.
    open: Mutex<BTreeMap<u64, Open>>,
    /// Guards the pool in this process, if it is in one; taken alone.
    local: Mutex<Option<Here>>,
}

/// Numbers of what something was opened from, and that from, up to the pool.
type Above = Arc<[u64]>;

/// What is open, and what it was opened from.
struct Open {
    /// All above it, also those that nobody has a handle on any more.
    above: Above,
    held: Weak<dyn Empty>,
}

// One implementor: it hides of which type what is open is.
trait Empty: Send + Sync {
    fn empty(&self, closed: Option<&Arc<str>>);
}

struct Held<T> {
    // Guards: what Python has a handle on, for as long as an operation on it lasts; emptied by whoever closes it.
    value: RwLock<Kept<T>>,
}

enum Kept<T> {
    There(T),
    /// With what was closed, as far as that has a name.
    Gone(Option<Arc<str>>),
}

impl<T: Send + Sync> Held<T> {
    fn take(&self, closed: Option<&Arc<str>>) -> Option<T> {
        let mut kept = self.value.write().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Kept::There(_) => match core::mem::replace(&mut *kept, Kept::Gone(closed.cloned())) {
                Kept::There(value) => Some(value),
                Kept::Gone(_) => None,
            },
            Kept::Gone(_) => None,
        }
    }
}

impl<T: Send + Sync> Empty for Held<T> {
    fn empty(&self, closed: Option<&Arc<str>>) {
        drop(self.take(closed));
    }
}

/// A handle on something of a pool. Clones are the same handle.
pub(crate) struct Slot<T: Send + Sync + 'static> {
    /// There until it is dropped.
    held: Option<Arc<Held<T>>>,
    session: Arc<Session>,
    above: Above,
    number: u64,
    /// What errors call it that tell that it was closed.
    name: Option<Arc<str>>,
    /// The epoch of the view that it is, or was opened from.
    view: Option<u64>,
}

/// An operation under way.
struct UnderWay {
    /// Where its session is.
    session: usize,
    above: Above,
    number: u64,
}

thread_local! {
    /// What this thread has under way, the newest last.
    static UNDER_WAY: RefCell<Vec<UnderWay>> = const { RefCell::new(Vec::new()) };
}

fn is_under_way(is_it: impl Fn(&UnderWay) -> bool) -> bool {
    UNDER_WAY.with_borrow(|all| all.iter().any(is_it))
}

/// Ends what was begun last.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        UNDER_WAY.with_borrow_mut(Vec::pop);
    }
}

impl<T: Send + Sync + 'static> Clone for Slot<T> {
    fn clone(&self) -> Self {
        let (session, above) = (Arc::clone(&self.session), Arc::clone(&self.above));
        let (number, name, view) = (self.number, self.name.clone(), self.view);
        Self { held: self.held.clone(), session, above, number, name, view }
    }
}

impl Session {
    /// An open pool; `local` if it is open in this process.
    pub(crate) fn new(address: String, read_only: bool, local: Option<Here>) -> Arc<Self> {
        Arc::new(Self {
            pid: std::process::id(),
            address,
            read_only,
            is_here: local.is_some(),
            closed: AtomicBool::new(false),
            next: AtomicU64::new(0),
            open: Mutex::default(),
            local: Mutex::new(local),
        })
    }

    /// A handle on something that was opened.
    pub(crate) fn hold<T: Send + Sync>(self: &Arc<Self>, value: T) -> Result<Slot<T>> {
        self.hold_from(Arc::default(), value)
    }

    fn hold_from<T: Send + Sync>(self: &Arc<Self>, above: Above, value: T) -> Result<Slot<T>> {
        let held = Arc::new(Held { value: RwLock::new(Kept::There(value)) });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let weak = Arc::downgrade(&held) as _;
        let slot = Slot {
            held: Some(held),
            session: Arc::clone(self),
            above: Arc::clone(&above),
            number,
            name: None,
            view: None,
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, Open { above, held: weak });
        drop(open);
        // After it is noted: whoever closes the pool now finds it.
        if self.closed.load(Ordering::SeqCst) { Err(Error::WasClosed(self.name())) } else { Ok(slot) }
    }

    /// Tells it from the others that there are.
    fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn name(&self) -> Arc<str> {
        format!("the pool {}", self.address).into()
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.pid { Ok(()) } else { Err(Error::Forked { pid: self.pid }) }
    }

    /// Whether the pool is open in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes everything, the newest first, after the operations that are under way, and the pool then.
    ///
    /// REQUIRES: the interpreter's lock is given up.
    pub(crate) fn close(&self) -> Result<()> {
        self.check_process()?;
        let own = self.place();
        if is_under_way(|one| one.session == own) {
            return Err(Error::UnderWay);
        }
        self.closed.store(true, Ordering::SeqCst);
        let open = core::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let name = self.name();
        for held in open.into_values().rev().filter_map(|open| open.held.upgrade()) {
            held.empty(Some(&name));
        }
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner).take();
        local.map_or(Ok(()), Here::close)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // The child has no part in what its parent has opened.
            core::mem::forget(self.local.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl<T: Send + Sync + 'static> Slot<T> {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn held(&self) -> &Held<T> {
        self.held.as_deref().expect("it is there until the slot is dropped")
    }

    /// Does something with it, other threads running meanwhile.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&T) -> Result<R> + Send,
    ) -> Result<R> {
        self.session.check_process()?;
        detached(py, || self.with(body))
    }

    /// The same for who has given up the interpreter's lock already.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        self.session.check_process()?;
        let lock = &self.held().value;
        let kept = if is_under_way(|one| self.is(one)) {
            // Whoever waits to close it waits for this thread.
            match lock.try_read() {
                Ok(kept) => kept,
                Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(Error::Closed),
            }
        } else {
            lock.read().unwrap_or_else(PoisonError::into_inner)
        };
        let value = match &*kept {
            Kept::There(value) => value,
            Kept::Gone(closed) => return Err(closed.clone().map_or(Error::Closed, Error::WasClosed)),
        };
        let (session, above) = (self.session.place(), Arc::clone(&self.above));
        UNDER_WAY.with_borrow_mut(|all| all.push(UnderWay { session, above, number: self.number }));
        let ended = Ended;
        let done = body(value);
        drop(ended);
        match (done, self.view) {
            (Err(Error::Store(dolmen_types::Error::NoPermission)), Some(epoch)) => {
                Err(Error::Still(Still::View(epoch)))
            }
            (done, _) => done,
        }
    }

    fn is(&self, one: &UnderWay) -> bool {
        one.session == self.session.place() && one.number == self.number
    }

    /// Whether this thread does something with it, or with what was opened from it.
    fn is_busy_here(&self) -> bool {
        let own = self.session.place();
        is_under_way(|one| self.is(one) || (one.session == own && one.above.contains(&self.number)))
    }

    /// Refuses to close what this thread does something with.
    pub(crate) fn check_idle(&self) -> Result<()> {
        if self.is_busy_here() { Err(Error::UnderWay) } else { Ok(()) }
    }

    /// The same handle, which is one on a view.
    pub(crate) fn of_view(mut self, epoch: Option<u64>) -> Self {
        self.view = epoch;
        self
    }

    /// What errors call it.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("it")
    }

    /// Whether something was opened from this very handle.
    pub(crate) fn is_above<V: Send + Sync>(&self, other: &Slot<V>) -> bool {
        Arc::ptr_eq(&self.session, &other.session) && other.above.contains(&self.number)
    }

    /// The same handle, which errors call so that tell that it was closed.
    pub(crate) fn called(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Takes it out, after the operations that are under way; `None` if that was done before, in a forked child, which leaves
    /// to its parent what that has opened, and where this thread does something with it.
    pub(crate) fn take(&self, py: Python<'_>) -> Option<T> {
        if self.is_busy_here() {
            return None;
        }
        self.session.check_process().ok().and_then(|()| py.detach(|| self.held().take(self.name.as_ref())))
    }

    /// A handle on something that was opened from this one, which does not outlive it.
    pub(crate) fn hold<V: Send + Sync>(&self, value: V) -> Result<Slot<V>> {
        let above = self.above.iter().copied().chain([self.number]).collect();
        let slot = self.session.hold_from(above, value)?;
        // After it is noted: whoever closes this one now finds it.
        self.with(|_| Ok(()))?;
        Ok(slot.of_view(self.view))
    }

    /// Takes it out as [`Slot::take`] does, and closes what was opened from it, the newest first.
    pub(crate) fn take_all(&self, py: Python<'_>) -> Option<T> {
        let taken = self.take(py)?;
        py.detach(|| {
            let open = self.session.open.lock().unwrap_or_else(PoisonError::into_inner);
            let is_below = |open: &&Open| open.above.contains(&self.number);
            let below: Vec<_> =
                open.values().filter(is_below).filter_map(|open| open.held.upgrade()).collect();
            drop(open);
            for held in below.iter().rev() {
                held.empty(self.name.as_ref());
            }
        });
        Some(taken)
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        match self.run(py, |_| Ok(())) {
            Ok(()) => Ok(false),
            Err(Error::Closed | Error::WasClosed(_)) => Ok(true),
            Err(other) => Err(other),
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        if std::process::id() != self.session.pid {
            core::mem::forget(held);
            return;
        }
        // The last handle closes what it is on, for which an engine may be asked.
        if let Some(held) = Arc::into_inner(held) {
            let give_back = || {
                let mut open = self.session.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.remove(&self.number);
                drop(open);
                drop(held);
            };
            Python::attach(|py| py.detach(give_back));
        }
    }
}

/// The client of a pool, as a slot holds it.
pub(crate) type PoolSlot = Slot<Pool>;
