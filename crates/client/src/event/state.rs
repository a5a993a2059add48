//! The events of one queue as a state machine without I/O.
//!
//! Invariants: an id of an event that is gone is never that of another (slots count generations); a child never
//! appears among the completed; an event is in the list of the completed exactly while it has that status.

use super::{Callback, Output, Step};
use crate::client::{Core, Write};
use dolmen_types::{Error, Invalid, IoBuf, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Events of one queue: a thread of an HPC client keeps a few hundred under way; as many as a queue of the C library has.
const EVENTS_MAX: usize = 1 << 20;

/// Names an event of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId {
    slot: u32,
    generation: u32,
}

impl EventId {
    pub(super) fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(super) fn of_token(token: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = token.to_le_bytes();
        Self { slot: u32::from_le_bytes([a, b, c, d]), generation: u32::from_le_bytes([e, f, g, h]) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ready,
    Running,
    Completed,
}

#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    completed: VecDeque<EventId>,
    running: usize,
    /// What fell away: dropped by whoever holds the lock, after it.
    gone: Vec<State>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    event: Option<State>,
}

pub(super) struct State {
    status: Status,
    /// Requests under way for its own operation.
    requests: u32,
    parent: Option<EventId>,
    children: Vec<EventId>,
    children_running: u32,
    /// The first error of a child since the last completion.
    child_error: Option<Error>,
    /// Its handle is gone: it is removed when it completes.
    detached: bool,
    result: Option<Result<Output>>,
    buf: Option<IoBuf>,
    callbacks: Vec<Callback>,
    /// How the operation under way goes on after the next answer.
    step: Option<Step>,
    /// Nothing more is sent for it.
    aborted: bool,
    /// Its mutations under way.
    writes: Vec<Write<Arc<Core>>>,
}

impl State {
    fn new(parent: Option<EventId>) -> Self {
        Self {
            status: Status::Ready,
            requests: 0,
            parent,
            children: Vec::new(),
            children_running: 0,
            child_error: None,
            detached: false,
            result: None,
            buf: None,
            callbacks: Vec::new(),
            step: None,
            aborted: false,
            writes: Vec::new(),
        }
    }
}

impl Slots {
    /// # Errors
    /// `Busy` above the limit; `NoPermission` for a parent that is a child itself or is not ready.
    pub(super) fn insert(&mut self, parent: Option<EventId>) -> Result<EventId> {
        if let Some(parent) = parent {
            let parent = self.state(parent)?;
            if parent.parent.is_some() || parent.status != Status::Ready {
                return Err(Error::NoPermission);
            }
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() >= EVENTS_MAX => return Err(Error::Busy),
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).map_err(|_wide| Error::Busy)?
            }
        };
        let place = &mut self.slots[slot as usize];
        place.event = Some(State::new(parent));
        let id = EventId { slot, generation: place.generation };
        if let Some(parent) = parent {
            self.state(parent)?.children.push(id);
        }
        Ok(id)
    }

    fn state(&mut self, id: EventId) -> Result<&mut State> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation);
        slot.and_then(|slot| slot.event.as_mut()).ok_or(Error::NotFound)
    }

    /// Whether the event may be launched: it is ready, and so are none of its children.
    ///
    /// # Errors
    /// `NoPermission`.
    pub(super) fn check_ready(&mut self, id: EventId) -> Result<()> {
        let state = self.state(id)?;
        let (ready, children) = (state.status == Status::Ready, state.children.clone());
        let unlaunched = children.into_iter().any(|child| self.is(child, Status::Ready));
        if ready && !unlaunched { Ok(()) } else { Err(Error::NoPermission) }
    }

    fn is(&mut self, id: EventId, status: Status) -> bool {
        self.state(id).is_ok_and(|state| state.status == status)
    }

    /// Begins an operation of `requests` requests at once; `step` leads from one to the next.
    ///
    /// # Errors
    /// As `check_ready`.
    pub(super) fn launch(&mut self, id: EventId, requests: u32, step: Option<Step>) -> Result<()> {
        self.check_ready(id)?;
        let state = self.state(id)?;
        let old = State { result: state.result.take(), buf: state.buf.take(), ..State::new(None) };
        (state.status, state.requests, state.step, state.aborted) = (Status::Running, requests, step, false);
        if old.result.is_some() || old.buf.is_some() {
            self.gone.push(old);
        }
        self.running += 1;
        if let Some(parent) = self.state(id)?.parent {
            self.state(parent)?.children_running += 1;
        }
        Ok(())
    }

    /// Launches a parent that only groups its children.
    ///
    /// # Errors
    /// `Invalid::Argument` without children; as `check_ready`.
    pub(super) fn barrier(&mut self, id: EventId) -> Result<Vec<EventId>> {
        if self.state(id)?.children.is_empty() {
            return Err(Invalid::Argument.into());
        }
        self.launch(id, 0, None)?;
        let mut done = Vec::new();
        self.settle(id, &mut done);
        Ok(done)
    }

    /// Keeps a mutation under way until the operation ends.
    pub(super) fn hold(&mut self, id: EventId, write: Write<Arc<Core>>) {
        if let Ok(state) = self.state(id) {
            state.writes.push(write);
        }
    }

    /// How the operation goes on; `None` if it ends with the answer.
    pub(super) fn take_step(&mut self, id: EventId) -> Option<Step> {
        self.state(id).ok()?.step.take()
    }

    /// Keeps the step for the next answer; whether anything may be asked still.
    pub(super) fn put_step(&mut self, id: EventId, step: Step) -> bool {
        let Ok(state) = self.state(id) else { return false };
        state.step = Some(step);
        !state.aborted
    }

    /// Lets nothing more be sent for an event and its children.
    pub(super) fn abort(&mut self, id: EventId) {
        let Ok(state) = self.state(id) else { return };
        state.aborted = true;
        for child in state.children.clone() {
            self.abort(child);
        }
    }

    /// Whether nothing more is to be sent for an event.
    pub(super) fn is_aborted(&mut self, id: EventId) -> bool {
        self.state(id).is_ok_and(|state| state.aborted)
    }

    /// What fell away since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<State> {
        core::mem::take(&mut self.gone)
    }

    /// Records the end of one request; events that complete by it are appended to `done`.
    pub(super) fn finish(
        &mut self,
        id: EventId,
        result: Result<Output>,
        buf: Option<IoBuf>,
        done: &mut Vec<EventId>,
    ) {
        // An event whose handle is gone may be gone as well.
        let mut fresh = State { result: Some(result), buf, ..State::new(None) };
        if let Ok(state) = self.state(id) {
            state.requests = state.requests.saturating_sub(1);
            if state.requests == 0 {
                state.writes.clear();
            }
            fresh.step = state.step.take();
            if fresh.buf.is_some() {
                core::mem::swap(&mut state.buf, &mut fresh.buf);
            }
            if !matches!(state.result, Some(Err(_))) {
                core::mem::swap(&mut state.result, &mut fresh.result);
            }
        }
        if fresh.result.is_some() || fresh.buf.is_some() || fresh.step.is_some() {
            self.gone.push(fresh);
        }
        self.settle(id, done);
    }

    /// Completes the event if nothing of it is under way.
    fn settle(&mut self, id: EventId, done: &mut Vec<EventId>) {
        let Ok(state) = self.state(id) else { return };
        if state.status != Status::Running || state.requests > 0 || state.children_running > 0 {
            return;
        }
        if let (Some(error), None | Some(Ok(_))) = (state.child_error.take(), &state.result) {
            state.result = Some(Err(error));
        }
        let result = state.result.get_or_insert(Ok(Output::Done));
        let (parent, detached, error) = (state.parent, state.detached, result.as_ref().err().cloned());
        state.status = Status::Completed;
        self.running -= 1;
        done.push(id);
        if let Some(parent) = parent {
            if let Ok(parent) = self.state(parent) {
                parent.children_running -= 1;
                parent.child_error = parent.child_error.take().or(error);
            }
            self.settle(parent, done);
        } else if !detached {
            self.completed.push_back(id);
        }
        if detached {
            self.free(id);
        }
    }

    pub(super) fn on_complete(&mut self, id: EventId, callback: Callback) -> Result<()> {
        self.state(id)?.callbacks.push(callback);
        Ok(())
    }

    /// The callbacks of a completed event with a copy of its error; they are run without the lock.
    pub(super) fn take_callbacks(&mut self, id: EventId) -> (Vec<Callback>, Option<Error>) {
        let Ok(state) = self.state(id) else { return (Vec::new(), None) };
        let error = state.result.as_ref().and_then(|result| result.as_ref().err().cloned());
        (core::mem::take(&mut state.callbacks), error)
    }

    /// What a callback made of a success.
    pub(super) fn fail(&mut self, id: EventId, error: Error) {
        if let Ok(state) = self.state(id)
            && matches!(state.result, Some(Ok(_)))
        {
            state.result = Some(Err(error));
        }
    }

    /// Takes up to `max` completed events off the list; they are ready again and keep their results.
    pub(super) fn reap(&mut self, max: usize, out: &mut Vec<EventId>) {
        for _ in 0..max {
            let Some(id) = self.completed.pop_front() else { return };
            self.make_ready(id);
            out.push(id);
        }
    }

    fn make_ready(&mut self, id: EventId) {
        let Ok(state) = self.state(id) else { return };
        state.status = Status::Ready;
        let children = core::mem::take(&mut state.children);
        for &child in &children {
            if let Ok(child) = self.state(child) {
                child.status = Status::Ready;
                child.parent = None;
            }
        }
    }

    /// Whether the event is complete; it is ready again then.
    ///
    /// # Errors
    /// `NoPermission` for a child: its parent answers for it.
    pub(super) fn test(&mut self, id: EventId) -> Result<bool> {
        let state = self.state(id)?;
        if state.parent.is_some() {
            return Err(Error::NoPermission);
        }
        match state.status {
            Status::Ready => Ok(state.result.is_some()),
            Status::Running => Ok(false),
            Status::Completed => {
                self.completed.retain(|&other| other != id);
                self.make_ready(id);
                Ok(true)
            }
        }
    }

    pub(super) fn take_result(&mut self, id: EventId) -> Option<Result<Output>> {
        let state = self.state(id).ok()?;
        if state.status == Status::Running { None } else { state.result.take() }
    }

    pub(super) fn take_buf(&mut self, id: EventId) -> Option<IoBuf> {
        let state = self.state(id).ok()?;
        if state.status == Status::Running { None } else { state.buf.take() }
    }

    pub(super) fn is_running(&mut self, id: EventId) -> bool {
        self.is(id, Status::Running)
    }

    /// Gives an event up: at once, or when it completes.
    pub(super) fn detach(&mut self, id: EventId) {
        let Ok(state) = self.state(id) else { return };
        for child in core::mem::take(&mut state.children) {
            if let Ok(child) = self.state(child) {
                child.parent = None;
            }
        }
        let Ok(state) = self.state(id) else { return };
        if state.status == Status::Running {
            state.detached = true;
            // Children that are still under way complete by themselves.
            state.children_running = 0;
            if state.requests == 0 {
                self.running -= 1;
                self.free(id);
            }
            return;
        }
        self.completed.retain(|&other| other != id);
        if let Some(parent) = self.state(id).ok().and_then(|state| state.parent)
            && let Ok(parent) = self.state(parent)
        {
            parent.children.retain(|&child| child != id);
        }
        self.free(id);
    }

    fn free(&mut self, id: EventId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize) {
            self.gone.extend(slot.event.take());
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// Events under way.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Events completed and not yet reaped.
    pub(super) fn completed(&self) -> usize {
        self.completed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Epoch;

    fn reaped(slots: &mut Slots) -> Vec<EventId> {
        let mut out = Vec::new();
        slots.reap(9, &mut out);
        out
    }

    #[test]
    fn an_event_completes_with_its_last_request_and_can_be_launched_again() {
        let mut slots = Slots::default();
        let id = slots.insert(None).unwrap();
        for _ in 0..2 {
            slots.launch(id, 2, None).unwrap();
            assert_eq!(slots.launch(id, 1, None), Err(Error::NoPermission));
            let mut done = Vec::new();
            slots.finish(id, Ok(Output::Written(Epoch(1))), None, &mut done);
            assert!(done.is_empty());
            assert!(!slots.test(id).unwrap());
            slots.finish(id, Err(Error::Exists), None, &mut done);
            assert_eq!((done, reaped(&mut slots)), (vec![id], vec![id]));
            assert!(matches!(slots.take_result(id), Some(Err(Error::Exists))));
        }
        slots.detach(id);
        let next = slots.insert(None).unwrap();
        assert_ne!(next, id);
        assert_eq!(EventId::of_token(next.token()), next);
        assert!(slots.launch(id, 1, None).is_err());
    }

    #[test]
    fn a_group_completes_with_its_last_child_and_has_the_first_error() {
        let mut slots = Slots::default();
        let parent = slots.insert(None).unwrap();
        assert_eq!(slots.barrier(parent), Err(Invalid::Argument.into()));
        let children = [slots.insert(Some(parent)).unwrap(), slots.insert(Some(parent)).unwrap()];
        assert_eq!(slots.insert(Some(children[0])), Err(Error::NoPermission));
        assert_eq!(slots.barrier(parent), Err(Error::NoPermission));
        slots.launch(children[0], 1, None).unwrap();
        slots.launch(children[1], 1, None).unwrap();
        let mut done = Vec::new();
        slots.finish(children[1], Err(Error::Exists), None, &mut done);
        assert!(slots.barrier(parent).unwrap().is_empty());
        assert!(reaped(&mut slots).is_empty());
        slots.finish(children[0], Err(Error::NotFound), None, &mut done);
        assert_eq!(done, [children[1], children[0], parent]);
        assert_eq!(slots.test(children[0]), Err(Error::NoPermission));
        assert_eq!(reaped(&mut slots), [parent]);
        assert!(matches!(slots.take_result(parent), Some(Err(Error::Exists))));
        assert_eq!(slots.running(), 0);
    }

    #[test]
    fn a_barrier_after_all_children_completes_at_once() {
        let mut slots = Slots::default();
        let parent = slots.insert(None).unwrap();
        let child = slots.insert(Some(parent)).unwrap();
        slots.launch(child, 1, None).unwrap();
        slots.finish(child, Ok(Output::Done), None, &mut Vec::new());
        assert_eq!(slots.barrier(parent).unwrap(), [parent]);
        assert_eq!(reaped(&mut slots), [parent]);
    }

    #[test]
    fn a_dropped_event_under_way_is_removed_when_it_ends() {
        let mut slots = Slots::default();
        let id = slots.insert(None).unwrap();
        slots.launch(id, 1, None).unwrap();
        slots.detach(id);
        assert_eq!(slots.running(), 1);
        slots.finish(id, Ok(Output::Done), None, &mut Vec::new());
        assert_eq!((slots.running(), slots.completed()), (0, 0));
        assert_eq!(slots.take_buf(id), None);
    }
}
