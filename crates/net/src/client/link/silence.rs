//! An engine that takes connections and does not answer: its process stands still, or its machine is cut off.
//!
//! Who has waited for it in vain for as long as this client waits, while nothing at all has come from it, has done so for
//! all: from then on everything fails at once until it answers. It is asked whether it is there when it falls silent, and the answer
//! to that, or to what was asked before, ends the silence.
//!
//! Invariants: at most one such question is under way; a connection that has ended is not silent.

use super::{Guard, Inner, Link, State};
use crate::client::pending::Waiter;
use core::time::Duration;
use dolmen_codec::wire::SystemVerb;
use dolmen_env::{Clock, RealClock};
use dolmen_types::Head;

/// How long somebody waits for a silent engine to answer, and how much longer nobody does after that.
const LISTEN: Duration = Duration::from_millis(50);
const LISTEN_TIMES: u32 = 20;

/// A silence that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The question whether it is there.
    question: u64,
    /// When somebody may wait for it again.
    listen_ns: u64,
}

impl Inner {
    /// Waits a moment whether a silent engine answers, if nobody has done so lately.
    pub(super) fn listen<'s>(&'s self, mut state: Guard<'s>) -> (Guard<'s>, bool) {
        let now_ns = RealClock.monotonic_ns();
        let Some(silence) = state.silence.as_mut().filter(|silence| silence.listen_ns <= now_ns) else {
            return (state, false);
        };
        silence.listen_ns = now_ns + nanoseconds(LISTEN * LISTEN_TIMES);
        let has_ended = |state: &mut State| state.silence.is_none().then_some(true);
        (state, _) = self.wait_taking(state, now_ns + nanoseconds(LISTEN), 0, has_ended);
        let answers = state.silence.is_none();
        (state, answers)
    }
}

impl Link {
    /// How often something has come.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.look(|state| state.heard).unwrap_or(0)
    }

    /// Takes the engine for silent if nothing has come since it was [`Link::heard`] so often: from now on everything fails at
    /// once until it answers.
    pub fn note_silence_since(&self, heard: u64) {
        self.look(|state| {
            if state.heard == heard && state.session.is_some() && state.silence.is_none() {
                state.begin_silence();
            }
        });
    }
}

impl State {
    /// Whether the engine is silent still, by what has come.
    pub(super) fn is_silent(&mut self) -> bool {
        if self.silence.is_some() {
            self.pump();
        }
        self.silence.is_some()
    }

    /// A request was given up: what that says of the engine. One that others are answered beside, or that was to be answered
    /// sooner than this client waits, says nothing.
    pub(super) fn note_silence(&mut self, id: u64, head: &Head) {
        let heard = self.heard;
        let is_told =
            self.requests.of_mut(id).is_some_and(|given_up| given_up.sends == 1 && given_up.heard == heard);
        if !is_told || head.deadline_ns != 0 || self.session.is_none() || self.silence.is_some() {
            return;
        }
        self.begin_silence();
    }

    fn begin_silence(&mut self) {
        let question = self.requests.begin(Waiter::System(None), None, None, u64::MAX);
        self.silence = Some(Silence { question, listen_ns: 0 });
        // Ignored: it is a question without a body, and a connection that ends ends the silence.
        let _sent = self.send_system(question, &Head::default(), &SystemVerb::Ping);
        self.flush();
    }

    /// Something has come, or the connection has ended.
    pub(super) fn end_silence(&mut self) {
        self.heard += 1;
        if let Some(silence) = self.silence.take() {
            self.requests.end(silence.question);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
