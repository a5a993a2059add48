//! What Python has handles on: each can be closed under those who have it, and belongs to the process that has opened it.
//!
//! Invariants: a slot is read and emptied with the interpreter's lock given up, so that no thread waits for one that waits for
//! that lock; nothing is locked in a forked child.

use crate::error::{Error, Result};
use crate::watch::detached;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_client::Pool;
use dolmen_local::LocalPool;
use pyo3::prelude::Python;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

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
    local: Mutex<Option<Arc<LocalPool>>>,
}

/// What is open, and what it was opened from.
struct Open {
    above: Option<u64>,
    held: Weak<dyn Empty>,
}

// One implementor: it hides of which type what is open is.
trait Empty: Send + Sync {
    fn empty(&self);
}

struct Held<T> {
    // Guards: what Python has a handle on, for as long as an operation on it lasts; emptied by whoever closes it.
    value: RwLock<Option<T>>,
}

impl<T: Send + Sync> Held<T> {
    fn take(&self) -> Option<T> {
        self.value.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Send + Sync> Empty for Held<T> {
    fn empty(&self) {
        drop(self.take());
    }
}

/// A handle on something of a pool. Clones are the same handle.
pub(crate) struct Slot<T: Send + Sync + 'static> {
    /// There until it is dropped.
    held: Option<Arc<Held<T>>>,
    session: Arc<Session>,
    number: u64,
}

impl<T: Send + Sync + 'static> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self { held: self.held.clone(), session: Arc::clone(&self.session), number: self.number }
    }
}

impl Session {
    /// An open pool; `local` if it is open in this process.
    pub(crate) fn new(address: String, read_only: bool, local: Option<Arc<LocalPool>>) -> Arc<Self> {
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
        self.hold_from(None, value)
    }

    fn hold_from<T: Send + Sync>(self: &Arc<Self>, above: Option<u64>, value: T) -> Result<Slot<T>> {
        let held = Arc::new(Held { value: RwLock::new(Some(value)) });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let weak = Arc::downgrade(&held) as _;
        let slot = Slot { held: Some(held), session: Arc::clone(self), number };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, Open { above, held: weak });
        drop(open);
        // After it is noted: whoever closes the pool now finds it.
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(slot) }
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
        self.closed.store(true, Ordering::SeqCst);
        let open = core::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for held in open.into_values().rev().filter_map(|open| open.held.upgrade()) {
            held.empty();
        }
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another session of this process may have the same pool.
        match local.and_then(Arc::into_inner) {
            Some(pool) => Ok(pool.close()?),
            None => Ok(()),
        }
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
        let value = self.held().value.read().unwrap_or_else(PoisonError::into_inner);
        body(value.as_ref().ok_or(Error::Closed)?)
    }

    /// Takes it out, after the operations that are under way; `None` if that was done before, and in a forked child, which leaves
    /// to its parent what that has opened.
    pub(crate) fn take(&self, py: Python<'_>) -> Option<T> {
        self.session.check_process().ok().and_then(|()| py.detach(|| self.held().take()))
    }

    /// A handle on something that was opened from this one, which does not outlive it.
    pub(crate) fn hold<V: Send + Sync>(&self, value: V) -> Result<Slot<V>> {
        let slot = self.session.hold_from(Some(self.number), value)?;
        // After it is noted: whoever closes this one now finds it.
        self.with(|_| Ok(()))?;
        Ok(slot)
    }

    /// Takes it out as [`Slot::take`] does, and closes what was opened from it, the newest first.
    pub(crate) fn take_all(&self, py: Python<'_>) -> Option<T> {
        let taken = self.take(py)?;
        py.detach(|| {
            let open = self.session.open.lock().unwrap_or_else(PoisonError::into_inner);
            // What is opened later has a higher number than what it was opened from.
            let (mut numbers, mut below) = (BTreeSet::from([self.number]), Vec::new());
            for (number, open) in &*open {
                if open.above.is_some_and(|above| numbers.contains(&above)) {
                    numbers.insert(*number);
                    below.extend(open.held.upgrade());
                }
            }
            drop(open);
            for held in below.iter().rev() {
                held.empty();
            }
        });
        Some(taken)
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        match self.run(py, |_| Ok(())) {
            Ok(()) => Ok(false),
            Err(Error::Closed) => Ok(true),
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
