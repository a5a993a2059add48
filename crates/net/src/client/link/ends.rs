//! Connections that end under one request, again and again: something on the way changes it, or its answer.
//!
//! Invariants: the end of an engine's process does not count.

use super::State;
use crate::client::pending::Finished;
use crate::client::session::deadline_after;
use crate::error::Error as NetError;
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use dolmen_types::Error;

/// Connections to one run of an engine that may end under a request before it is given up: something on the way changes it, or its
/// answer, each time.
const ENDS_MAX: u32 = 12;

/// How long nobody connects anew after the second one, twice as long after the next, and so on, and the longest of these.
pub(super) const END_REST: Duration = Duration::from_millis(10);
const END_REST_DOUBLINGS: u32 = 6;

impl State {
    /// Whether it is too early to connect anew.
    pub(super) fn rests(&self) -> bool {
        RealClock.monotonic_ns() < self.again_ns
    }

    /// The next connection leads to this run of the engine.
    pub(super) fn note_run(&mut self, instance: u128) {
        if self.instance != instance {
            self.instance = instance;
            // What ended the former run's connections was its end.
            for id in self.requests.unanswered() {
                self.requests.of_mut(id).expect("just listed").ends = 0;
            }
        }
    }

    /// The connection has ended so often under a request: the first end is nobody's fault, and what the others have in common is
    /// the request. `error` is how the last one ended.
    pub(super) fn rest_after(&mut self, ends: u32, error: &NetError) {
        let Some(doublings) = ends.checked_sub(2) else { return };
        self.again_ns = deadline_after(END_REST * (1 << doublings.min(END_REST_DOUBLINGS)));
        if ends < ENDS_MAX {
            return;
        }
        (self.note)(&format!(
            "a request to engine {} is given up: {ENDS_MAX} connections ended while it was under way, the last one so: {error}; \
             something on the way changes what is sent or answered",
            self.rank
        ));
        for id in self.requests.unanswered() {
            let given_up = self.requests.of_mut(id).is_some_and(|pending| pending.ends >= ENDS_MAX);
            if given_up {
                let error = Error::Unreachable { rank: self.rank };
                self.finish(id, Finished::Pool(Err(error)));
            }
        }
    }
}
