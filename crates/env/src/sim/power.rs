//! The supply of several drives: counts their I/O boundaries, and fails at the chosen ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happens at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This one operation fails with an I/O error. A write may have been done in part; what a failed flush
    /// covered stays readable but will never become durable by a later flush.
    Eio,
    /// This one operation finds the device full.
    NoSpace,
    /// The machine stops before this operation; it and every later one return `Error::Crashed`.
    Crash,
    /// The device is gone: it and every later operation of all drives, reads too, fail with an I/O error.
    Dead,
}

/// Counts the boundaries of all drives on it. Clones are the same supply.
///
/// A boundary is a write, a flush, a name operation, a region's write, a submitted write or flush at the
/// moment it is carried out. A create is two: the name, then the contents. Reads are none.
#[derive(Clone, Debug, Default)]
pub struct SimPower {
    supply: Arc<Supply>,
}

#[derive(Debug, Default)]
struct Supply {
    /// Guards the counter and the faults; taken after a drive's lock, never before one.
    state: Mutex<PowerState>,
}

#[derive(Debug, Default)]
struct PowerState {
    ops: u64,
    faults: BTreeMap<u64, Fault>,
    ended: Option<Fault>,
}

impl SimPower {
    /// A supply without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Boundaries so far: the number that the next one has.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.lock().ops
    }

    /// Lets `fault` happen at boundary number `op`, counted from zero. One fault per boundary, the last
    /// one set; a boundary that has passed is too late.
    pub fn fail_at(&self, op: u64, fault: Fault) {
        self.lock().faults.insert(op, fault);
    }

    /// Stops the machine now.
    pub fn crash_now(&self) {
        self.lock().ended = Some(Fault::Crash);
    }

    /// Whether the machine has stopped.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.lock().ended == Some(Fault::Crash)
    }

    /// Passes a boundary; the fault that happens at it.
    pub(crate) fn pass(&self) -> Option<Fault> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return state.ended;
        }
        let op = state.ops;
        state.ops += 1;
        let fault = state.faults.remove(&op)?;
        if matches!(fault, Fault::Crash | Fault::Dead) {
            state.ended = Some(fault);
        }
        Some(fault)
    }

    /// The fault that meets an operation that is no boundary.
    pub(crate) fn ended(&self) -> Option<Fault> {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, PowerState> {
        self.supply.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
