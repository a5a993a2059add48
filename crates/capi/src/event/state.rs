//! The events of one queue as a state machine without I/O.
//!
//! Invariants: a place that is given to another event has another age; a child is never in the list of the completed; an
//! event is in that list exactly while it is completed and has no parent.

use super::Ev;
use crate::error::{Der, Result};
use crate::raw::Out;
use core::ffi::c_int;
use std::collections::VecDeque;

/// Events of one queue: programs keep a few hundred; above this somebody forgets to end them.
const EVENTS_MAX: usize = 1 << 20;

/// Where an event is in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    index: u32,
    age: u32,
}

impl Place {
    pub(super) fn word(self) -> u64 {
        u64::from(self.age) << 32 | u64::from(self.index)
    }

    pub(super) fn of_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        Self { index: u32::from_le_bytes([a, b, c, d]), age: u32::from_le_bytes([e, f, g, h]) }
    }
}

/// What is called when an event completes.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(super) function: extern "C" fn(Out<u8>, Ev, c_int) -> c_int,
    pub(super) argument: Out<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ready,
    Running,
    Completed,
}

struct Item {
    /// The program's event.
    at: Ev,
    status: Status,
    /// Its own operation is under way; not for a group that only waits for its children.
    has_operation: bool,
    parent: Option<Place>,
    children: Vec<Place>,
    children_running: u32,
    error: c_int,
    child_error: c_int,
    callbacks: Vec<Callback>,
}

#[derive(Default)]
struct Slot {
    age: u32,
    item: Option<Item>,
}

#[derive(Default)]
pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    completed: VecDeque<Place>,
    /// Events under way, children not counted.
    running: usize,
    /// Events under way, be it as children, until those who look at the program's memory for them have done so.
    under_way: usize,
    /// The queue was given up: nothing begins any more.
    is_closed: bool,
}

/// An event that has ended, and whose callbacks are to be run before others may see it.
pub(super) struct Ended {
    pub(super) place: Place,
    pub(super) at: Ev,
    pub(super) error: c_int,
    pub(super) callbacks: Vec<Callback>,
}

impl State {
    /// A new event.
    ///
    /// # Errors
    /// `NO_PERM` below a parent that is a child itself or is not ready; `NOMEM` above the limit.
    pub(super) fn insert(&mut self, at: Ev, parent: Option<Place>) -> Result<Place> {
        if let Some(parent) = parent {
            let parent = self.item(parent)?;
            if parent.parent.is_some() || parent.status != Status::Ready {
                return Err(Der::NO_PERM);
            }
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() >= EVENTS_MAX => return Err(Der::NOMEM),
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).map_err(|_wide| Der::NOMEM)?
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.item = Some(Item {
            at,
            status: Status::Ready,
            has_operation: false,
            parent,
            children: Vec::new(),
            children_running: 0,
            error: 0,
            child_error: 0,
            callbacks: Vec::new(),
        });
        let place = Place { index, age: slot.age };
        if let Some(parent) = parent {
            self.item(parent)?.children.push(place);
        }
        Ok(place)
    }

    /// # Errors
    /// `INVAL` for an event that was ended.
    fn item(&mut self, place: Place) -> Result<&mut Item> {
        let slot = self.slots.get_mut(place.index as usize).filter(|slot| slot.age == place.age);
        slot.and_then(|slot| slot.item.as_mut()).ok_or(Der::INVAL)
    }

    /// Whether an operation of the event can begin.
    ///
    /// # Errors
    /// `NO_PERM` unless it is ready and all its children are launched; `NO_HDL` if the queue was given up.
    pub(super) fn check_ready(&mut self, place: Place) -> Result<()> {
        if self.is_closed {
            return Err(Der::NO_HDL);
        }
        let item = self.item(place)?;
        let (ready, children) = (item.status == Status::Ready, item.children.clone());
        let has_unlaunched = children.into_iter().any(|child| self.is(child, Status::Ready));
        if ready && !has_unlaunched { Ok(()) } else { Err(Der::NO_PERM) }
    }

    /// Begins an operation, or (without one of its own) the wait of a parent for its children.
    ///
    /// # Errors
    /// As [`State::check_ready`].
    pub(super) fn begin(&mut self, place: Place, at: Ev, has_operation: bool) -> Result<()> {
        self.check_ready(place)?;
        if let Some(parent) = self.item(place)?.parent {
            self.item(parent)?.children_running += 1;
        } else {
            self.running += 1;
        }
        self.under_way += 1;
        let item = self.item(place)?;
        (item.at, item.status, item.has_operation, item.error) = (at, Status::Running, has_operation, 0);
        Ok(())
    }

    fn is(&mut self, place: Place, status: Status) -> bool {
        self.item(place).is_ok_and(|item| item.status == status)
    }

    /// Takes back a [`State::begin`] whose operation was refused.
    pub(super) fn take_back(&mut self, place: Place) {
        let Ok(item) = self.item(place) else { return };
        (item.status, item.has_operation) = (Status::Ready, false);
        match item.parent {
            Some(parent) => {
                if let Ok(parent) = self.item(parent) {
                    parent.children_running -= 1;
                }
            }
            None => self.running -= 1,
        }
        self.under_way -= 1;
    }

    /// Gives the queue up, unless something is under way; whether it is given up.
    pub(super) fn close(&mut self) -> bool {
        self.is_closed |= self.under_way == 0;
        self.is_closed
    }

    /// Whether the queue was given up.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether the event has children.
    ///
    /// # Errors
    /// As `item`.
    pub(super) fn has_children(&mut self, place: Place) -> Result<bool> {
        Ok(!self.item(place)?.children.is_empty())
    }

    /// Its own operation has ended with `error`; whether the event has, too.
    pub(super) fn end_operation(&mut self, place: Place, error: c_int) -> Option<Ended> {
        let item = self.item(place).ok()?;
        (item.has_operation, item.error) = (false, error);
        self.ended(place)
    }

    /// The event, if nothing of it is under way any more.
    pub(super) fn ended(&mut self, place: Place) -> Option<Ended> {
        let item = self.item(place).ok()?;
        if item.status != Status::Running || item.has_operation || item.children_running > 0 {
            return None;
        }
        if item.error == 0 {
            item.error = core::mem::take(&mut item.child_error);
        }
        let callbacks = core::mem::take(&mut item.callbacks);
        Some(Ended { place, at: item.at, error: item.error, callbacks })
    }

    /// Lets others see that an event has ended; its parent may have ended with it.
    pub(super) fn complete(&mut self, place: Place, error: c_int) -> Option<Ended> {
        let item = self.item(place).ok()?;
        (item.status, item.error) = (Status::Completed, error);
        let parent = item.parent;
        self.under_way -= 1;
        let Some(parent) = parent else {
            self.running -= 1;
            self.completed.push_back(place);
            return None;
        };
        let above = self.item(parent).ok()?;
        above.children_running -= 1;
        if above.child_error == 0 {
            above.child_error = error;
        }
        self.ended(parent)
    }

    /// Takes up to `max` completed events off the list; they are ready again.
    pub(super) fn reap(&mut self, max: usize) -> Vec<Ev> {
        let mut found = Vec::with_capacity(max.min(self.completed.len()));
        while found.len() < max {
            let Some(place) = self.completed.pop_front() else { break };
            found.extend(self.make_ready(place));
        }
        found
    }

    fn make_ready(&mut self, place: Place) -> Option<Ev> {
        let item = self.item(place).ok()?;
        item.status = Status::Ready;
        let (at, children) = (item.at, item.children.clone());
        for child in children {
            if let Ok(child) = self.item(child) {
                child.status = Status::Ready;
            }
        }
        Some(at)
    }

    /// Whether the event is complete, or was not launched at all; it is ready then.
    ///
    /// # Errors
    /// `NO_PERM` for a child: its parent answers for it.
    pub(super) fn test(&mut self, place: Place) -> Result<bool> {
        let item = self.item(place)?;
        if item.parent.is_some() {
            return Err(Der::NO_PERM);
        }
        match item.status {
            Status::Ready => Ok(true),
            Status::Running => Ok(false),
            Status::Completed => {
                self.completed.retain(|&other| other != place);
                self.make_ready(place);
                Ok(true)
            }
        }
    }

    /// Ends an event, and with it its children.
    ///
    /// # Errors
    /// `BUSY` while it or a child is under way; `INVAL` for a child whose parent is not ready.
    pub(super) fn remove(&mut self, place: Place) -> Result<()> {
        let Ok(item) = self.item(place) else {
            // A child that went with its parent.
            return Ok(());
        };
        if item.status == Status::Running {
            return Err(Der::BUSY);
        }
        let (parent, children) = (item.parent, item.children.clone());
        if let Some(parent) = parent {
            let above = self.item(parent)?;
            if above.status != Status::Ready {
                return Err(Der::INVAL);
            }
            above.children.retain(|&child| child != place);
        }
        if children.iter().any(|&child| self.is(child, Status::Running)) {
            return Err(Der::BUSY);
        }
        self.completed.retain(|&other| other != place);
        for gone in children.into_iter().chain([place]) {
            let Some(slot) = self.slots.get_mut(gone.index as usize) else { continue };
            if slot.age == gone.age && slot.item.take().is_some() {
                slot.age = slot.age.wrapping_add(1);
                self.free.push(gone.index);
            }
        }
        Ok(())
    }

    /// The child after another, or the first; NULL after the last.
    ///
    /// # Errors
    /// `INVAL` if `before` is no child of it.
    pub(super) fn child_after(&mut self, place: Place, before: Option<Place>) -> Result<Ev> {
        let children = self.item(place)?.children.clone();
        let next = match before {
            None => children.first(),
            Some(before) => {
                let at = children.iter().position(|&child| child == before).ok_or(Der::INVAL)?;
                children.get(at + 1)
            }
        };
        next.map_or(Ok(Ev::NULL), |&child| Ok(self.item(child)?.at))
    }

    /// # Errors
    /// `NO_PERM` once it is launched.
    pub(super) fn add_callback(&mut self, place: Place, callback: Callback) -> Result<()> {
        let item = self.item(place)?;
        if item.status != Status::Ready {
            return Err(Der::NO_PERM);
        }
        item.callbacks.push(callback);
        Ok(())
    }

    /// Events under way, children not counted.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Events under way, and children.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether nothing is under way, be it as a child, and nothing completed that nobody has seen.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0 && self.completed.is_empty()
    }

    /// The events that are completed, or under way.
    pub(super) fn list(&self, completed: bool, running: bool) -> Vec<Ev> {
        let is_wanted = |item: &&Item| match item.status {
            Status::Completed => completed && item.parent.is_none(),
            Status::Running => running && item.parent.is_none(),
            Status::Ready => false,
        };
        self.slots
            .iter()
            .filter_map(|slot| slot.item.as_ref())
            .filter(is_wanted)
            .map(|item| item.at)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(state: &mut State, place: Place, error: c_int) -> Option<Ended> {
        let ended = state.end_operation(place, error)?;
        state.complete(ended.place, ended.error)
    }

    #[test]
    fn an_event_is_launched_again_after_it_was_seen() {
        let mut state = State::default();
        let place = state.insert(Ev::NULL, None).unwrap();
        for _ in 0..2 {
            state.begin(place, Ev::NULL, true).unwrap();
            assert_eq!(state.begin(place, Ev::NULL, true), Err(Der::NO_PERM));
            assert_eq!((state.test(place), state.remove(place)), (Ok(false), Err(Der::BUSY)));
            assert!(end(&mut state, place, 0).is_none());
            assert_eq!((state.is_idle(), state.under_way()), (false, 0));
            assert_eq!(state.reap(4).len(), 1);
            assert!(state.is_idle());
        }
        state.remove(place).unwrap();
        let next = state.insert(Ev::NULL, None).unwrap();
        assert_ne!(Place::of_word(next.word()), place);
        assert_eq!(state.begin(place, Ev::NULL, true), Err(Der::INVAL));
    }

    #[test]
    fn a_group_completes_with_its_last_child_and_has_the_first_error() {
        let mut state = State::default();
        let parent = state.insert(Ev::NULL, None).unwrap();
        let children = [1, 2].map(|_| state.insert(Ev::NULL, Some(parent)).unwrap());
        assert_eq!(state.insert(Ev::NULL, Some(children[0])), Err(Der::NO_PERM));
        assert_eq!(state.begin(parent, Ev::NULL, false), Err(Der::NO_PERM));
        for child in children {
            state.begin(child, Ev::NULL, true).unwrap();
        }
        assert!(end(&mut state, children[1], -5).is_none());
        assert_eq!((state.running(), state.under_way()), (0, 1));
        assert!(!state.is_idle(), "a child is under way, although its parent is not launched");
        assert!(!state.close());
        state.begin(parent, Ev::NULL, false).unwrap();
        assert!(state.ended(parent).is_none());
        let ended = end(&mut state, children[0], -7).unwrap();
        assert_eq!((ended.place, ended.error), (parent, -5));
        assert_eq!((state.running(), state.under_way()), (1, 1));
        assert!(state.complete(parent, ended.error).is_none());
        assert_eq!(
            (state.test(children[0]), state.remove(children[0])),
            (Err(Der::NO_PERM), Err(Der::INVAL))
        );
        assert_eq!(state.reap(9).len(), 1);
        state.remove(children[0]).unwrap();
        assert!(state.is_idle());
        assert!(state.close());
        assert_eq!(state.begin(parent, Ev::NULL, true), Err(Der::NO_HDL));
        state.remove(parent).unwrap();
    }
}
