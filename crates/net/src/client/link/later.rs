//! Questions to the daemon that nobody waits for in the call: whoever asked comes back and looks.
//!
//! Invariants: a question that is given up is taken off the list of those under way.

use super::given::Reached;
use super::{Guard, Inner, Link, OVERDUE_LOOK_NS, State, named};
use crate::client::LinkOptions;
use crate::client::pending::{Opens, Progress};
use crate::client::session::{connect_by, deadline_after};
use crate::error::Result as NetResult;
use dolmen_codec::wire::{SystemReply, SystemVerb};
use dolmen_codec::{Way, give_way};
use dolmen_env::{Address, Clock, RealClock};
use dolmen_types::{Head, Result};

/// A question under way.
struct Asked<'l> {
    inner: &'l Inner,
    id: u64,
    deadline_ns: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.inner.mark.is_forked() {
            self.inner.lock().give_up(self.id);
        }
    }
}

impl Link {
    /// As [`Link::connect`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Link::connect`].
    pub async fn connect_by(way: Way, address: &Address, options: &LinkOptions) -> NetResult<Self> {
        let options = named(options)?;
        let session = connect_by(way, address, &options, deadline_after(options.connect_timeout)).await?;
        Self::new(address, options, session)
    }

    /// As [`Link::ask_system`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Link::ask_system`].
    pub async fn ask_system_by(&self, way: Way, head: &Head, verb: &SystemVerb) -> Result<SystemReply> {
        match way {
            Way::Now => self.ask_system(head, verb),
            Way::Later => {
                let reached = self.inner.ask_system_later(head, verb, Opens::of(head, verb)).await;
                reached.map(|reached| self.reply_of(reached))
            }
        }
    }
}

impl Inner {
    /// Asks the daemon; for a pool, if it is known how that is opened again.
    pub(super) async fn ask_system_later(
        &self,
        head: &Head,
        verb: &SystemVerb,
        opens: Option<Box<Opens>>,
    ) -> Result<Reached> {
        if self.mark.is_forked() {
            return Err(self.unreachable());
        }
        let deadline_ns = self.deadline(head);
        let (id, head) = self.begin_system(&mut self.lock(), *head, verb, opens)?;
        let asked = Asked { inner: self, id, deadline_ns };
        while !asked.look(&head, verb)? {
            give_way().await;
        }
        let pending = self.lock().requests.end(id).expect("only its caller ends it");
        self.answer_of(pending)
    }
}

impl State {
    /// Sends and takes in what there is, and looks now and then whether the connection has ended.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.flush();
        self.pump();
        if now_ns - self.looked_ns >= OVERDUE_LOOK_NS {
            self.looked_ns = now_ns;
            self.look_for_end();
        }
        self.send_unsent();
    }
}

impl Asked<'_> {
    /// Sends the question if it is to be sent, and looks for the answer; whether it is there. Waits at most as long as a look
    /// at a queue does.
    fn look(&self, head: &Head, verb: &SystemVerb) -> Result<bool> {
        let inner = self.inner;
        if inner.mark.is_forked() {
            return Err(inner.unreachable());
        }
        let mut state = inner.lock();
        let now_ns = RealClock.monotonic_ns();
        state.look(now_ns);
        let pending = state.requests.of_mut(self.id).expect("only its caller ends it");
        match pending.progress {
            Progress::Done(_) => return Ok(true),
            Progress::Unsent => {}
            Progress::Sent if now_ns < self.deadline_ns => return Ok(false),
            Progress::Sent => {
                state.note_silence(self.id, head);
                return Err(inner.unreachable());
            }
        }
        let (mut state, is_there) = self.connected(state, now_ns)?;
        if is_there {
            state.send_system(self.id, head, verb)?;
            state.flush();
        }
        Ok(false)
    }

    /// Whether there is a connection with room for a frame.
    fn connected<'s>(&'s self, mut state: Guard<'s>, now_ns: u64) -> Result<(Guard<'s>, bool)> {
        let inner = self.inner;
        if state.is_silent() || now_ns >= self.deadline_ns {
            return Err(inner.unreachable());
        }
        if !inner.look_anew(&mut state) {
            return Err(inner.unreachable());
        }
        let is_there = state.session.is_some() && state.output.is_empty();
        Ok((state, is_there))
    }
}
