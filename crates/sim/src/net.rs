//! Messages between coordinators and targets that are delayed, overtake one another, come twice or not at all,
//! while targets crash before and after they work on them. Everything follows from a seed.
//!
//! Invariants: equal seeds and equal calls give equal deliveries; a message is executed only as often as it
//! was duplicated; whoever sent a message learns its answer, or that there was silence, at least once.

use crate::Subject;
use dolmen_codec::Op;
use dolmen_codec::verb::{Reply, Verb};
use dolmen_env::{Rng, SimClock};
use dolmen_types::{ContNo, Error, Head, IoBuf, TargetNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Silence is reported after this time: longer than a message and its answer usually take, shorter than the
/// longest delay, so that late answers occur.
const PATIENCE_NS: u64 = 3_000_000;
/// Turns that a store may take for one operation.
const TURNS_MAX: usize = 100_000;

/// What can go wrong, each once in so many messages; 0 is never.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// A message or an answer is lost.
    pub drop_one_in: u64,
    /// A message or an answer comes twice.
    pub duplicate_one_in: u64,
    /// The target crashes and reopens before it has seen the message.
    pub crash_before_one_in: u64,
    /// It crashes after it has worked on it and before it has answered.
    pub crash_after_one_in: u64,
    /// A message takes up to a hundred times as long as usual.
    pub delay_one_in: u64,
}

impl Faults {
    /// A perfect network between perfect targets; messages still overtake one another.
    pub const NONE: Self = Self {
        drop_one_in: 0,
        duplicate_one_in: 0,
        crash_before_one_in: 0,
        crash_after_one_in: 0,
        delay_one_in: 0,
    };
}

/// When a planned crash comes, seen from the message that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The target has not seen the message.
    Before,
    /// It has begun to work on it, and nothing more than it writes at once is written.
    Within,
    /// It has done the work, and nobody is told.
    After,
}

/// How much stops at a planned crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The target that the message is for.
    Target,
    /// All of them, with everything under way: one process held them.
    Process,
}

/// What is asked: made anew for each delivery, since a duplicate is a message of its own.
pub type Body = Arc<dyn Fn() -> Verb<'static>>;

/// Something that happened to whoever sent a message.
#[derive(Debug)]
pub enum Delivery {
    /// An answer; may come more than once, and after silence.
    Answer {
        /// The message's.
        token: u64,
        /// The answer.
        result: Result<Reply, Error>,
        /// The buffer of a fetch.
        buf: Option<IoBuf>,
    },
    /// No answer came in time.
    Silence {
        /// The message's.
        token: u64,
    },
    /// The time that was asked for has come.
    Alarm {
        /// The alarm's.
        token: u64,
    },
    /// All targets have crashed and are open again; no message, answer, silence or alarm of before will come.
    Outage,
}

#[derive(Clone)]
struct Message {
    to: TargetNo,
    cont: ContNo,
    head: Head,
    body: Body,
}

enum Packet {
    Ask(u64, Message),
    Tell(Delivery),
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages executed by a target.
    pub executed: u64,
    /// Messages and answers lost.
    pub dropped: u64,
    /// Messages and answers doubled.
    pub duplicated: u64,
    /// Crashes.
    pub crashed: u64,
    /// Messages not answered in time.
    pub silent: u64,
}

/// Targets behind a network. The subjects must share one clock, which the network moves.
pub struct Net<S> {
    targets: Vec<S>,
    clock: SimClock,
    rng: Rng,
    faults: Faults,
    /// By time of delivery and order of sending.
    packets: BTreeMap<(u64, u64), Packet>,
    sent: u64,
    now_ns: u64,
    /// Tokens whose answer was delivered.
    answered: BTreeSet<u64>,
    tally: Tally,
    digest: u64,
    /// The number of a message, counted from zero, and what it meets.
    planned: Option<(u64, Moment, Reach)>,
    /// Targets that nothing reaches at present, and what waits for them.
    held: BTreeSet<TargetNo>,
    waiting: Vec<(u64, Message)>,
    /// The tokens of all messages that reached a target, in order.
    trace: Vec<(TargetNo, u64)>,
}

impl<S> core::fmt::Debug for Net<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Net")
            .field("now_ns", &self.now_ns)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

impl<S: Subject> Net<S> {
    /// A network of `targets`, numbered by their places.
    ///
    /// # Panics
    /// If there is no target.
    pub fn new(seed: u64, faults: Faults, targets: Vec<S>) -> Self {
        let clock = targets.first().expect("a network has targets").clock();
        Self {
            targets,
            clock,
            rng: Rng::from_seed(seed),
            faults,
            packets: BTreeMap::new(),
            sent: 0,
            now_ns: 0,
            answered: BTreeSet::new(),
            tally: Tally::default(),
            digest: 0,
            planned: None,
            held: BTreeSet::new(),
            waiting: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// Plans a crash at the message that is the `message`th to reach a target, counted from zero.
    pub fn crash_at(&mut self, message: u64, moment: Moment, reach: Reach) {
        self.planned = Some((message, moment, reach));
    }

    /// From now on nothing reaches `target`.
    pub fn hold(&mut self, target: TargetNo) {
        self.held.insert(target);
    }

    /// Lets everything through that was held.
    pub fn release(&mut self) {
        self.held.clear();
        for (token, message) in core::mem::take(&mut self.waiting) {
            let at = self.now_ns + self.delay_ns();
            self.push(at, Packet::Ask(token, message));
        }
    }

    /// The messages that reached a target, in order: which target, and the message's token.
    #[must_use]
    pub fn trace(&self) -> &[(TargetNo, u64)] {
        &self.trace
    }

    /// Nanoseconds since the start, the same for all.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What happened so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// A number that differs as soon as anything was delivered otherwise.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Ends all faults: what is sent from now on arrives once.
    pub fn heal(&mut self) {
        self.faults = Faults::NONE;
    }

    /// The targets, to look at them without a network in between.
    pub fn targets(&mut self) -> &mut [S] {
        &mut self.targets
    }

    /// Sends a message; what comes of it is delivered under `token`, which no other message may have.
    pub fn send(&mut self, token: u64, to: TargetNo, cont: ContNo, head: Head, body: Body) {
        let message = Message { to, cont, head, body };
        for _ in 0..self.copies() {
            let at = self.now_ns + self.delay_ns();
            self.push(at, Packet::Ask(token, message.clone()));
        }
        self.push(self.now_ns + PATIENCE_NS, Packet::Tell(Delivery::Silence { token }));
    }

    /// Delivers [`Delivery::Alarm`] after `ns`.
    pub fn alarm(&mut self, token: u64, ns: u64) {
        self.push(self.now_ns + ns, Packet::Tell(Delivery::Alarm { token }));
    }

    /// Carries on until something is delivered; `None` if nothing is under way.
    pub fn deliver(&mut self) -> Option<Delivery> {
        loop {
            let ((at, _), packet) = self.packets.pop_first()?;
            if at > self.now_ns {
                self.clock.advance(at - self.now_ns);
                self.now_ns = at;
            }
            match packet {
                Packet::Ask(token, message) if self.held.contains(&message.to) => {
                    self.waiting.push((token, message));
                }
                Packet::Ask(token, message) => match self.planned {
                    Some((at, moment, reach)) if at == self.trace.len() as u64 => {
                        self.planned = None;
                        if self.crash_as_planned(token, &message, moment, reach) {
                            return Some(Delivery::Outage);
                        }
                    }
                    _ => self.execute(token, &message),
                },
                Packet::Tell(Delivery::Silence { token }) if self.answered.contains(&token) => {}
                Packet::Tell(delivery) => {
                    let (kind, token) = match &delivery {
                        Delivery::Answer { token, .. } => (1, *token),
                        Delivery::Silence { token } => (2, *token),
                        Delivery::Alarm { token } => (3, *token),
                        Delivery::Outage => unreachable!("never sent"),
                    };
                    if kind == 1 {
                        self.answered.insert(token);
                    }
                    self.tally.silent += u64::from(kind == 2);
                    self.note(kind ^ token << 3);
                    return Some(delivery);
                }
            }
        }
    }

    /// Executes an operation now, past the network.
    ///
    /// # Panics
    /// If the target does not complete it.
    pub fn execute_now(
        &mut self,
        to: TargetNo,
        cont: ContNo,
        verb: Verb<'_>,
    ) -> (Result<Reply, Error>, Option<IoBuf>) {
        let store = self.targets[to.index()].store();
        store.submit(&mut vec![Op { token: 0, head: Head::default(), cont, verb }]);
        self.finish(to, 0)
    }

    fn execute(&mut self, token: u64, message: &Message) {
        self.trace.push((message.to, token));
        if self.rng.one_in(self.faults.crash_before_one_in) {
            return self.crash(message.to);
        }
        self.submit(token, message);
        if self.rng.one_in(self.faults.crash_after_one_in) {
            // Half of these crashes come before the store has said that it is done.
            if self.rng.one_in(2) {
                drop(self.finish(message.to, token));
            }
            return self.crash(message.to);
        }
        let (result, buf) = self.finish(message.to, token);
        self.targets[message.to.index()].store().step();
        for _ in 0..self.copies() {
            let at = self.now_ns + self.delay_ns();
            let result = result.as_ref().map(copy_of).map_err(Clone::clone);
            self.push(at, Packet::Tell(Delivery::Answer { token, result, buf: buf.clone() }));
        }
    }

    fn submit(&mut self, token: u64, message: &Message) {
        let store = self.targets[message.to.index()].store();
        store.submit(&mut vec![Op { token, head: message.head, cont: message.cont, verb: (message.body)() }]);
        self.tally.executed += 1;
        self.note(token << 3);
    }

    /// True if everything has stopped.
    fn crash_as_planned(&mut self, token: u64, message: &Message, moment: Moment, reach: Reach) -> bool {
        self.trace.push((message.to, token));
        if moment != Moment::Before {
            self.submit(token, message);
        }
        if moment == Moment::After {
            drop(self.finish(message.to, token));
        }
        if reach == Reach::Target {
            self.crash(message.to);
            return false;
        }
        self.packets.clear();
        self.waiting.clear();
        for target in 0..self.targets.len() {
            self.crash(TargetNo(u16::try_from(target).expect("targets are numbered by 16 bits")));
        }
        true
    }

    fn finish(&mut self, to: TargetNo, token: u64) -> (Result<Reply, Error>, Option<IoBuf>) {
        let store = self.targets[to.index()].store();
        let mut done = Vec::new();
        for _ in 0..TURNS_MAX {
            store.poll(true, &mut done);
            if let Some(completion) = done.pop() {
                assert_eq!(completion.token, token, "a completion of something else");
                return (completion.result, completion.buf);
            }
        }
        panic!("target {} does not complete an operation", to.0);
    }

    fn crash(&mut self, target: TargetNo) {
        self.tally.crashed += 1;
        self.note(u64::from(target.0) << 48);
        self.targets[target.index()].crash();
    }

    /// How many of a message arrive.
    fn copies(&mut self) -> u32 {
        if self.rng.one_in(self.faults.drop_one_in) {
            self.tally.dropped += 1;
            return 0;
        }
        let duplicated = self.rng.one_in(self.faults.duplicate_one_in);
        self.tally.duplicated += u64::from(duplicated);
        1 + u32::from(duplicated)
    }

    fn delay_ns(&mut self) -> u64 {
        let usual = 50_000 + self.rng.below(200_000);
        if self.rng.one_in(self.faults.delay_one_in) { usual * (1 + self.rng.below(100)) } else { usual }
    }

    fn push(&mut self, at: u64, packet: Packet) {
        self.sent += 1;
        self.packets.insert((at, self.sent), packet);
    }

    fn note(&mut self, what: u64) {
        let mixed = (self.digest ^ what ^ self.now_ns.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.digest = mixed ^ mixed >> 29;
    }
}

/// A second answer for a message that comes twice.
fn copy_of(reply: &Reply) -> Reply {
    match reply {
        Reply::Written(epoch) => Reply::Written(*epoch),
        Reply::Fetched(iods) => Reply::Fetched(iods.clone()),
        Reply::Listed(listed, anchor) => Reply::Listed(listed.clone(), *anchor),
        Reply::Found(found) => Reply::Found(found.clone()),
        Reply::Prepared => Reply::Prepared,
        Reply::Done => Reply::Done,
        Reply::TxState(state) => Reply::TxState(*state),
        Reply::InDoubt(list) => Reply::InDoubt(list.clone()),
        Reply::ContUsage(usage) => Reply::ContUsage(*usage),
        Reply::Space(space) => Reply::Space(*space),
        Reply::Aggregated { more, freed } => Reply::Aggregated { more: *more, freed: *freed },
        Reply::Audited(audit) => Reply::Audited(audit.clone()),
    }
}
