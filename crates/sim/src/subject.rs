//! What a test drives: a store with its clock, which can be closed, crashed and opened again.

use crate::Model;
use dolmen_codec::TargetStore;
use dolmen_env::SimClock;
use dolmen_types::{ContNo, Epoch, TargetNo, TxId};
use std::sync::Arc;

// One implementor: the others are in the tests of the stores, the engine's first of all.
/// A store under test.
pub trait Subject {
    /// The store, open.
    fn store(&mut self) -> &mut dyn TargetStore;

    /// Which target the store is.
    fn target(&self) -> TargetNo;

    /// The only clock of the store.
    fn clock(&self) -> SimClock;

    /// Closes the store in good order and opens it again. What was not polled is forgotten.
    fn restart(&mut self);

    /// Takes the store's process away between two of its steps, with everything that was not made durable,
    /// and opens it again. All that was acknowledged must be there.
    fn crash(&mut self);

    /// Whether the store is so small that it runs full: then it may refuse a change for want of space, and forget
    /// epochs that are no snapshots to make room.
    fn is_tight(&self) -> bool {
        false
    }

    /// Keeps the present of a container, if the subject is more than a store: then it chooses the epoch itself.
    fn snapshot(&mut self, _: ContNo) -> Option<Epoch> {
        None
    }

    /// Returns a container to a snapshot and says when, if the subject chooses that epoch itself.
    fn roll_back(&mut self, _: ContNo, _to: Epoch) -> Option<Epoch> {
        None
    }

    /// Begins a transaction, if the subject chooses its id and epoch itself.
    fn begin(&mut self, _: ContNo) -> Option<(TxId, Epoch)> {
        None
    }
}

/// The model as a subject.
#[derive(Debug)]
pub struct ModelSubject {
    model: Model,
    clock: SimClock,
}

/// Where simulated clocks start: 2026-01-01, so that epochs look like real ones.
const START_NS: u64 = 1_767_225_600_000_000_000;

impl ModelSubject {
    /// An empty model of target `target`.
    #[must_use]
    pub fn new(target: TargetNo) -> Self {
        Self::with_clock(target, SimClock::new(START_NS))
    }

    /// An empty model of target `target` that shares a clock with others.
    #[must_use]
    pub fn with_clock(target: TargetNo, clock: SimClock) -> Self {
        Self { model: Model::new(target, Arc::new(clock.clone())), clock }
    }
}

impl Subject for ModelSubject {
    fn store(&mut self) -> &mut dyn TargetStore {
        &mut self.model
    }

    fn target(&self) -> TargetNo {
        self.model.target()
    }

    fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    fn restart(&mut self) {
        self.model.restart();
    }

    fn crash(&mut self) {
        self.model.restart();
    }
}
