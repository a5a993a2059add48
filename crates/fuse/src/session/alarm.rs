//! Requests whose processes are interrupted while they wait for the store.
//!
//! The kernel says of a request that it is interrupted over the device. Of one that was interrupted before a ring got it, it says
//! nothing: so of those that take long it is looked whether their process is being killed. And where all entries of a queue have
//! requests that take long, it gets one more: what a killed process does at its end, such as closing files, must find one.

use super::ring::Queues;
use super::{Entry, Requests, Running, Session, unique_of};
use crate::abi::errno;
use crate::abi::request::{Op, Request};
use crate::service::Serves;
use core::time::Duration;
use dolmen_dfs::errno as number;
use dolmen_env::{Clock, RealClock};
use std::sync::{Arc, PoisonError};

/// A request that has run for less is not broken off: it is about to end.
const PATIENCE_NS: u64 = 400_000_000;

/// Between two looks at requests that were interrupted, or take long.
const LOOK: Duration = Duration::from_millis(100);

#[expect(private_bounds, reason = "who serves is a matter of this crate")]
impl<S: Serves> Session<S> {
    /// Somebody who waits for a request has got a signal.
    pub(super) fn interrupt(&self, bytes: &[u8]) {
        let Ok(Request { unique: own, op: Op::Interrupt { unique }, .. }) = Request::parse(bytes) else {
            return;
        };
        let mut requests = self.requests();
        if note_interrupted(&mut requests, unique) {
            drop(requests);
            self.alarm.notify_all();
            return;
        }
        let kept = requests.backlog.iter().position(|kept| unique_of(&kept.bytes) == Some(unique));
        if let Some(kept) = kept.and_then(|at| requests.backlog.remove(at)) {
            requests.backlog_bytes -= kept.bytes.len();
            drop(requests);
            self.fail(unique, errno::EINTR);
            return;
        }
        if let Some(queues) = &mut requests.queues {
            // Of requests over rings the kernel says it once.
            queues.note_interrupted(unique);
            return;
        }
        drop(requests);
        // Whoever has read the request has not said so yet: the kernel is to say it again. Of one that is answered it does not.
        self.fail(own, number::EAGAIN);
    }

    /// Answers requests that were interrupted and wait for the store.
    pub(super) fn watch(self: &Arc<Self>) {
        let (mut requests, mut asked) = (self.requests(), 0);
        while !requests.is_ended || !requests.running.is_empty() {
            let now_ns = RealClock.monotonic_ns();
            let broken = take_broken(&mut requests, now_ns);
            let (starved, waiting) = match &mut requests.queues {
                Some(queues) => (queues.take_starved(now_ns), queues.take_waiting(now_ns)),
                None => (Vec::new(), Vec::new()),
            };
            if !broken.is_empty() || !starved.is_empty() || !waiting.is_empty() {
                drop(requests);
                for queue in waiting {
                    self.ask_for_waiting(queue, asked);
                    asked += 1;
                }
                broken.into_iter().for_each(|(unique, entry)| self.break_off(unique, entry));
                starved.into_iter().for_each(|queue| self.add_entry(queue));
                requests = self.requests();
                continue;
            }
            let long = if requests.queues.is_some() { long_running(&requests, now_ns) } else { Vec::new() };
            if !long.is_empty() {
                drop(requests);
                let killed = long.into_iter().filter(|(_, pid)| dolmen_env::is_dying(*pid));
                let killed: Vec<u64> = killed.map(|(unique, _)| unique).collect();
                requests = self.requests();
                for unique in &killed {
                    note_interrupted(&mut requests, *unique);
                }
                if !killed.is_empty() {
                    continue;
                }
            }
            let looks = requests.interrupted > 0 || requests.is_ended;
            let looks = looks || requests.queues.is_some() && !requests.running.is_empty();
            requests.is_watcher_asleep = !looks;
            requests = if looks {
                self.alarm.wait_timeout(requests, LOOK).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.alarm.wait(requests).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// Answers a request that somebody else serves or that waits, as broken off.
    fn break_off(self: &Arc<Self>, unique: u64, entry: Option<Entry>) {
        let Some(entry) = entry else { return self.fail(unique, errno::EINTR) };
        if let (_, Some(entry)) = self.send_over(entry, unique, Err(errno::EINTR), &[]) {
            self.begin_entry(entry, false);
        }
    }
}

/// Those that are interrupted and may be answered so, each with its entry: they have their answer from now on.
fn take_broken(requests: &mut Requests, now_ns: u64) -> Vec<(u64, Option<Entry>)> {
    let mut broken = Vec::new();
    if requests.interrupted == 0 {
        return broken;
    }
    let Requests { running, queues, .. } = requests;
    let has_room = queues.as_ref().is_none_or(Queues::has_room);
    let waits =
        |running: &Running| running.is_interrupted && !running.is_answered && is_long(running, now_ns);
    let mut waiting: Vec<_> = running.iter_mut().filter(|(_, running)| waits(running)).collect();
    waiting.sort_unstable_by_key(|(unique, _)| **unique);
    for (unique, running) in waiting {
        let may_be_answered = has_room || running.entry.is_none();
        if may_be_answered && (!running.is_change || dolmen_env::is_being_killed(running.pid)) {
            running.is_answered = true;
            broken.push((*unique, running.free_entry(queues.as_mut())));
        }
    }
    broken
}

fn is_long(running: &Running, now_ns: u64) -> bool {
    now_ns.saturating_sub(running.since_ns) >= PATIENCE_NS
}

/// Those that came over a ring and take long, and of which no interrupt was heard, each with its process.
fn long_running(requests: &Requests, now_ns: u64) -> Vec<(u64, u32)> {
    let is_it =
        |running: &Running| running.entry.is_some() && !running.is_interrupted && is_long(running, now_ns);
    let found = requests.running.iter().filter(|(_, running)| is_it(running));
    let mut found: Vec<_> = found.map(|(unique, running)| (*unique, running.pid)).collect();
    found.sort_unstable();
    found
}

/// Whether there is such a request; it is interrupted.
fn note_interrupted(requests: &mut Requests, unique: u64) -> bool {
    let Some(running) = requests.running.get_mut(&unique) else { return false };
    let is_new = !running.is_interrupted;
    running.is_interrupted = true;
    requests.interrupted += usize::from(is_new);
    true
}
