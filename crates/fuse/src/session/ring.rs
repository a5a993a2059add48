//! Requests over `io_uring`: a thread for each entry, in one of the kernel's queues.
//!
//! A thread waits for a request in its entry, serves it, and hands in the answer with its next wait. Where a request waits for a
//! lock its entry waits with it, and the thread ends, or goes on with a new one if the queue has no other for requests. Who answers
//! a request for a thread that still serves it, because its process was interrupted, takes its entry: a new thread goes on with that,
//! and the old one ends. So there is a thread for each entry that may get a request, always.
//!
//! Invariants: a queue whose requests take long has free entries for others; there are limits to that.

use super::{Entry, Requests, Session, op_code, unique_of};
use crate::abi::op::code;
use crate::abi::reply::head;
use crate::abi::request::NODE_AT;
use crate::abi::{DATA_BYTES_MAX, long, notify};
use crate::fs::Reply;
use crate::service::Serves;
use dolmen_env::{Clock, RealClock, RingEntry, ring_queues};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// Entries that each queue has at first, at least; and those that do not wait for locks, at most.
const ENTRIES_MIN: usize = 4;
const ENTRIES_MAX: usize = 64;

/// Those that are to be free while the others have requests that take long. What comes when none is free waits in the kernel for the
/// next answer of that queue, and no new entry gets it.
const FREE_MIN: usize = 2;

/// Where nothing was answered for so long, requests take long.
const STUCK_NS: u64 = 100_000_000;

/// What comes so soon after an answer has waited for it.
const NEXT_NS: u64 = 1_000_000;

/// Numbers of requests that are asked for begin here: the kernel's own do not come so far.
const ASKED_FIRST: u64 = 1 << 61;

/// A machine that may have more processors than that gets its requests from the device: each queue costs four threads or more.
const QUEUES_MAX: u16 = 256;

/// Requests for locks that others have, each of which holds an entry.
const PARKED_MAX: usize = 256;

/// Threads of entries, with those that still serve what others have answered. Above it nothing is answered for them.
const THREADS_MAX: usize = 1024;

/// Interrupts that came before their requests.
const INTERRUPTED_MAX: usize = 256;

/// What is known of one of the kernel's queues.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// All of its entries.
    entries: usize,
    /// Those in which the kernel can put a request.
    free: usize,
    /// Those that wait for locks.
    parked: usize,
    /// When one was freed last.
    freed_ns: u64,
    /// Requests may wait in the kernel for an answer of this queue.
    may_wait: bool,
    /// When one was asked for that has not come yet.
    asked_ns: Option<u64>,
}

impl Queue {
    /// There is one entry more, with nothing in it.
    fn add(&mut self) {
        self.entries += 1;
        self.free += 1;
    }

    /// Whether it needs an entry more since requests take long; then it counts as there.
    fn grows(&mut self, now_ns: u64) -> bool {
        let has_long = self.free < self.entries && now_ns.saturating_sub(self.freed_ns) >= STUCK_NS;
        let grows = has_long && self.free < FREE_MIN && self.entries - self.parked < ENTRIES_MAX;
        if grows {
            self.add();
        }
        grows
    }
}

/// What is known of them all.
#[derive(Debug, Default)]
pub(super) struct Queues {
    all: Vec<Queue>,
    threads: usize,
    interrupted: VecDeque<u64>,
    /// What was read, written or locked last.
    file: u64,
    /// The kernel wants none of it.
    is_given_up: bool,
}

impl Queues {
    fn of(&mut self, queue: u16) -> &mut Queue {
        let queue = usize::from(queue);
        if queue >= self.all.len() {
            self.all.resize(queue + 1, Queue::default());
        }
        &mut self.all[queue]
    }

    /// A queue has one entry more, with nothing in it.
    fn add(&mut self, queue: u16) {
        self.of(queue).add();
    }

    /// One is gone that had nothing in it.
    pub(super) fn lose(&mut self, queue: u16) {
        let queue = self.of(queue);
        queue.entries -= 1;
        queue.free -= 1;
    }

    /// A request has come; whether it was interrupted before.
    pub(super) fn begin(&mut self, queue: u16, unique: u64) -> bool {
        let queue = self.of(queue);
        queue.free -= 1;
        queue.may_wait |= queue.free == 0;
        !self.interrupted.is_empty() && self.was_interrupted(unique)
    }

    /// Whether the queue needs an entry more since requests take long; then it counts as there.
    fn grows(&mut self, queue: u16, now_ns: u64) -> bool {
        self.of(queue).grows(now_ns)
    }

    /// Its entry is free for another, or will be in a moment.
    pub(super) fn free(&mut self, queue: u16, was_parked: bool) {
        let queue = self.of(queue);
        queue.free += 1;
        queue.parked -= usize::from(was_parked);
        queue.freed_ns = RealClock.monotonic_ns();
    }

    /// An entry waits for a lock from now on.
    pub(super) fn park(&mut self, queue: u16) {
        let queue = self.of(queue);
        queue.parked += 1;
        queue.may_wait = true;
    }

    /// Something came where nothing was answered but what was asked for to that end: more may wait.
    fn note_waiting(&mut self, queue: u16) {
        self.of(queue).may_wait = true;
    }

    /// Queues where requests may wait for an answer, and one can be had.
    pub(super) fn take_waiting(&mut self, now_ns: u64) -> Vec<u16> {
        let found = (0..).zip(&mut self.all).filter_map(|(number, queue)| {
            // What was asked for may wait itself, or has been refused.
            let is_due = queue.asked_ns.is_none_or(|asked_ns| now_ns.saturating_sub(asked_ns) >= STUCK_NS);
            let found = is_due && queue.free > 0 && (queue.may_wait || queue.asked_ns.is_some());
            if found {
                (queue.may_wait, queue.asked_ns) = (false, Some(now_ns));
            }
            found.then_some(number)
        });
        found.collect()
    }

    /// An answer that was asked for is on its way.
    fn end_asking(&mut self, queue: u16) {
        self.of(queue).asked_ns = None;
    }

    /// Queues that need an entry more; it counts as there.
    pub(super) fn take_starved(&mut self, now_ns: u64) -> Vec<u16> {
        (0..).zip(&mut self.all).filter_map(|(number, queue)| queue.grows(now_ns).then_some(number)).collect()
    }

    /// Keeps in mind that a request is interrupted that nobody has begun to serve.
    pub(super) fn note_interrupted(&mut self, unique: u64) {
        if self.interrupted.len() == INTERRUPTED_MAX {
            self.interrupted.pop_front();
        }
        self.interrupted.push_back(unique);
    }

    /// Whether one that is begun was interrupted before.
    fn was_interrupted(&mut self, unique: u64) -> bool {
        let at = self.interrupted.iter().position(|one| *one == unique);
        at.is_some_and(|at| self.interrupted.remove(at).is_some())
    }

    /// Whether no more may wait for locks.
    pub(super) fn is_full(&self) -> bool {
        self.all.iter().map(|queue| queue.parked).sum::<usize>() >= PARKED_MAX
    }

    /// Whether there may be one thread more.
    pub(super) fn has_room(&self) -> bool {
        self.threads < THREADS_MAX
    }
}

#[expect(private_bounds, reason = "who serves is a matter of this crate")]
impl<S: Serves> Session<S> {
    /// Entries for all of the kernel's queues; none if this system does not grant them, or they are not wanted.
    pub(super) fn make_entries(&self) -> Vec<Entry> {
        let queues = ring_queues().ok().filter(|queues| self.fs.takes_ring() && *queues <= QUEUES_MAX);
        let queues = queues.unwrap_or(0);
        let each = self.fs.threads().div_ceil(usize::from(queues).max(1)).max(ENTRIES_MIN);
        let wanted = (0..queues).flat_map(|queue| core::iter::repeat_n(queue, each));
        let made: dolmen_env::Result<_> = wanted.map(|queue| self.make_entry(queue)).collect();
        made.unwrap_or_else(|error| {
            self.fs.note(&format!("requests come from the kernel's device: {error}"));
            Vec::new()
        })
    }

    fn make_entry(&self, queue: u16) -> dolmen_env::Result<Entry> {
        RingEntry::new(&self.device, queue, DATA_BYTES_MAX as usize).map(Box::new)
    }

    /// The kernel waits for these entries: each gets a thread.
    pub(super) fn begin_ring(self: &Arc<Self>, entries: Vec<Entry>) {
        let mut queues = Queues::default();
        entries.iter().for_each(|entry| queues.add(entry.queue()));
        self.requests().queues = Some(queues);
        for entry in entries {
            self.begin_entry(entry, true);
        }
    }

    /// Has a new thread go on with an entry, which the kernel does not know yet if it is new.
    pub(super) fn begin_entry(self: &Arc<Self>, entry: Entry, is_new: bool) {
        let queue = entry.queue();
        if let Some(queues) = &mut self.requests().queues {
            queues.threads += 1;
        }
        if let Err(error) = self.spawn_with("dolmen-ring", move |session| session.serve_entry(entry, is_new))
        {
            self.lose_entry(queue, &error);
            self.end_thread();
        }
    }

    fn end_thread(&self) {
        if let Some(queues) = &mut self.requests().queues {
            queues.threads -= 1;
        }
    }

    /// One thread.
    fn serve_entry(self: &Arc<Self>, entry: Entry, is_new: bool) {
        let (queue, mut has_begun) = (entry.queue(), !is_new);
        if let Err(error) = self.serve_entries(entry, &mut has_begun) {
            if has_begun {
                self.lose_entry(queue, &error);
            } else {
                // The kernel has given rings up with the first entry that it refused.
                self.give_ring_up();
            }
        }
        self.end_thread();
    }

    /// Requests come from the device after all.
    fn give_ring_up(self: &Arc<Self>) {
        let mut requests = self.requests();
        let is_first =
            requests.queues.as_mut().is_some_and(|queues| !core::mem::replace(&mut queues.is_given_up, true));
        drop(requests);
        if is_first {
            self.begin_reading(self.fs.threads().max(2));
        }
    }

    /// The same, until something fails; `has_begun` when the kernel has the entry.
    fn serve_entries(self: &Arc<Self>, mut entry: Entry, has_begun: &mut bool) -> dolmen_env::Result<()> {
        let (mut reply, mut asked_ns) = (Reply::default(), None);
        if !*has_begun {
            entry.register()?;
        }
        loop {
            let queue = entry.queue();
            let Some(request) = entry.wait()? else { return Ok(()) };
            if op_code(request.bytes()) == Some(code::NOTIFY_REPLY) {
                let unique = unique_of(request.bytes()).unwrap_or(0);
                drop(request);
                if let Some(queues) = &mut self.requests().queues {
                    queues.end_asking(queue);
                }
                entry.answer(&head(unique, 0, 0), &[])?;
                asked_ns = Some(RealClock.monotonic_ns());
                continue;
            }
            if !core::mem::replace(has_begun, true) {
                self.fs.set_over_ring();
            }
            let is_soon = |asked_ns: u64| RealClock.monotonic_ns().saturating_sub(asked_ns) < NEXT_NS;
            let is_next = asked_ns.take().is_some_and(is_soon);
            if self.begin_over(request.bytes(), entry, is_next) {
                self.add_entry(queue);
            }
            let served = self.serve_bytes(request.bytes(), &mut reply);
            drop(request);
            entry = match self.tell(served, &mut reply) {
                Some(entry) => entry,
                None if needs_entry(&mut self.requests(), queue) => self.registered(queue)?,
                None => return Ok(()),
            };
        }
    }

    /// Notes that a request is served; whether its queue needs an entry more meanwhile.
    fn begin_over(&self, bytes: &[u8], entry: Entry, is_next: bool) -> bool {
        let (queue, now_ns) = (entry.queue(), RealClock.monotonic_ns());
        let mut requests = self.requests();
        if let Some(queues) = &mut requests.queues {
            if is_next {
                queues.note_waiting(queue);
            }
            if op_code(bytes).is_some_and(is_of_file) {
                queues.file = long(bytes, NODE_AT).unwrap_or(0);
            }
        }
        self.begin(&mut requests, bytes, Some(entry));
        let is_ended = requests.is_ended;
        requests.queues.as_mut().is_some_and(|queues| !is_ended && queues.grows(queue, now_ns))
    }

    fn registered(&self, queue: u16) -> dolmen_env::Result<Entry> {
        let mut entry = self.make_entry(queue)?;
        entry.register()?;
        Ok(entry)
    }

    /// One entry more for a queue, which counts as there, with a thread.
    pub(super) fn add_entry(self: &Arc<Self>, queue: u16) {
        match self.make_entry(queue) {
            Ok(entry) => self.begin_entry(entry, true),
            Err(error) => self.lose_entry(queue, &error),
        }
    }

    /// Has the kernel hand out what waits in a queue for an answer: one is asked for, by a request that asks nothing.
    pub(super) fn ask_for_waiting(&self, queue: u16, number: u64) {
        let file = self.requests().queues.as_ref().map_or(0, |queues| queues.file);
        let asked = notify::nothing(ASKED_FIRST + 2 * number, file);
        // Ignored: where this thread may not be nobody is who waits for the mount, and of a file that is gone another is asked next.
        let _asked = dolmen_env::on_cpu(usize::from(queue), || self.device.reply(&[IoSlice::new(&asked)]));
    }

    fn lose_entry(&self, queue: u16, error: &dolmen_env::Error) {
        if let Some(queues) = &mut self.requests().queues {
            queues.lose(queue);
        }
        self.fs.note(&format!("the mount gets fewer requests at a time than it could: {error}"));
    }
}

fn is_of_file(code: u32) -> bool {
    matches!(code, code::READ | code::WRITE | code::FLUSH | code::SETLK | code::SETLKW)
}

/// Whether the queue needs an entry more; then it counts as there.
fn needs_entry(requests: &mut Requests, queue: u16) -> bool {
    let is_ended = requests.is_ended;
    let Some(queues) = &mut requests.queues else { return false };
    let needs = queues.of(queue).free < FREE_MIN && !is_ended;
    if needs {
        queues.add(queue);
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(entries: usize) -> Queues {
        let mut queues = Queues::default();
        (0..entries).for_each(|_| queues.add(1));
        queues
    }

    #[test]
    fn a_queue_keeps_an_entry_whoever_waits_for_locks() {
        let mut requests = Requests { queues: Some(queues(3)), ..Requests::default() };
        let park = |requests: &mut Requests| {
            let queues = requests.queues.as_mut().unwrap();
            queues.begin(1, 7);
            queues.park(1);
        };
        park(&mut requests);
        assert!(!needs_entry(&mut requests, 1), "two are left");
        park(&mut requests);
        assert!(needs_entry(&mut requests, 1) && !needs_entry(&mut requests, 1));
        requests.queues.as_mut().unwrap().free(1, true);
        let queue = requests.queues.as_ref().unwrap().all[1];
        assert_eq!((queue.entries, queue.free, queue.parked), (4, 3, 1));
        requests.is_ended = true;
        (0..3).for_each(|_| park(&mut requests));
        assert!(!needs_entry(&mut requests, 1));
    }

    #[test]
    fn a_queue_keeps_free_entries_while_requests_take_long_and_not_for_ever() {
        let mut queues = queues(4);
        queues.begin(1, 1);
        assert!(!queues.grows(1, STUCK_NS), "enough are free");
        assert!(!(2..4).any(|unique| queues.begin(1, unique)), "none was interrupted");
        assert!(!queues.grows(1, STUCK_NS - 1), "they may be done in a moment");
        assert!(queues.grows(1, STUCK_NS) && !queues.grows(1, STUCK_NS));
        queues.begin(1, 4);
        assert_eq!(queues.take_starved(STUCK_NS), [1]);
        assert!(queues.take_starved(STUCK_NS).is_empty());
        let mut count = 6;
        for unique in 5..200 {
            if queues.of(1).free > 0 {
                queues.begin(1, unique);
            }
            count += usize::from(queues.grows(1, STUCK_NS));
        }
        assert_eq!((count, queues.of(1).entries), (ENTRIES_MAX, ENTRIES_MAX), "enough is enough");
        queues.park(1);
        assert!(queues.grows(1, STUCK_NS), "who waits for a lock does not count");
        let now_ns = RealClock.monotonic_ns();
        queues.free(1, true);
        assert!(!queues.grows(1, now_ns), "something was answered just now");
    }

    #[test]
    fn an_answer_is_asked_for_where_requests_may_wait_for_one() {
        let mut queues = queues(2);
        queues.begin(1, 1);
        assert!(queues.take_waiting(0).is_empty());
        queues.begin(1, 2);
        assert!(queues.take_waiting(0).is_empty(), "there is no entry that it could come by");
        queues.free(1, false);
        assert_eq!(queues.take_waiting(0), [1]);
        assert!(queues.take_waiting(STUCK_NS - 1).is_empty(), "it is on its way");
        assert_eq!(queues.take_waiting(STUCK_NS), [1], "it may wait itself");
        queues.end_asking(1);
        assert!(queues.take_waiting(9 * STUCK_NS).is_empty(), "it has come");
        queues.note_waiting(1);
        assert_eq!(queues.take_waiting(0), [1]);
        queues.end_asking(1);
        queues.park(1);
        assert_eq!(queues.take_waiting(0), [1], "who waits for a lock gives no answer");
    }

    #[test]
    fn interrupts_that_come_first_are_kept_in_mind_and_not_for_ever() {
        let mut queues = queues(2);
        (0..300).for_each(|unique| queues.note_interrupted(unique));
        assert!(queues.begin(1, 299) && !queues.begin(1, 43));
        assert!(!queues.was_interrupted(299) && queues.was_interrupted(44));
    }
}
