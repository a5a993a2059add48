//! Random operations on a store and on the model, side by side: whatever can be observed must agree.
//!
//! The store goes first and chooses the epochs; the model repeats the operation at that epoch. A store may
//! refuse a transaction, or doubt an answer, where the model does not: it may restart too often, never too
//! seldom. Of enumerations the set and order of items count, not the pages; of extents what they cover.

mod quota;

use crate::chance::Chance;
pub use crate::ops::Space;
use crate::ops::{Listing, SLOTS, Source, Spec, Step, When, places};
use crate::{Model, Subject};
use dolmen_codec::order::HashKey;
use dolmen_codec::quota::{Account, Limits, Quota};
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, FetchedIod, Found, List, ListWhat, Listed, ListedExtent, Mutation,
    Prepare, Query, ReadAt, Reply, Usage, Verb, Want,
};
use dolmen_codec::{Completion, Op};
use dolmen_env::{Clock, Rng, SimClock};
use dolmen_types::{
    Anchor, Cond, ContNo, Credentials, Durability, Epoch, Error, Head, IoBuf, Key, Oid, QueryFlags, Recx,
    RequestId, TargetNo, TxId, limits,
};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CONT: ContNo = ContNo(1);
const CLIENT: u128 = 0xC11E;
/// Time between two steps: more than the wall clock's grain in an epoch.
const STEP_NS: u64 = 100_000;
/// Longer than a reopened store's clock may be ahead.
const REOPEN_NS: u64 = 10_000_000_000;
/// A store that answers one request in more than this many steps does not end.
const TURNS_MAX: usize = 100_000;
/// Attempts at cutting a failing list of steps down.
const CUTS_MAX: usize = 400;
/// Steps that bytes may choose: what a fuzzer tries must take milliseconds.
const STEPS_OF_BYTES_MAX: usize = 200;
/// Two single values with the room that steps ask for, and some.
const BUF_BYTES: usize = 130_000;

/// Where store and model disagree.
#[derive(Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The seed of the steps.
    pub seed: u64,
    /// Which step disagreed; the number of steps for the sweep at the end.
    pub step: usize,
    /// The steps up to there.
    pub steps: Vec<String>,
    /// What each of the two answered.
    pub answers: String,
}

impl core::fmt::Debug for Divergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.step, self.answers)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}: {step}"))
    }
}

/// What a run went through, so that a test can tell that it tested something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Mutations that were done.
    pub written: u64,
    /// Reads that agreed.
    pub read: u64,
    /// Transactions that were prepared or committed.
    pub prepared: u64,
    /// Transactions that the store refused for a conflict.
    pub restarted: u64,
    /// Answers that the store left in doubt.
    pub doubted: u64,
    /// Changes that the store refused for want of space.
    pub refused: u64,
    /// Changes that a limit refused.
    pub limited: u64,
    /// Those of them that fitted when what nobody saw was freed.
    pub fitted: u64,
    /// Reports of what is used that agreed.
    pub reported: u64,
}

/// Runs `steps` random steps from `seed` on an empty subject and on a model.
///
/// # Errors
/// The first disagreement.
pub fn side_by_side(seed: u64, steps: usize, subject: &mut dyn Subject) -> Result<Tally, Box<Divergence>> {
    run(seed, Space::Wide, &random_steps(seed, steps, Space::Wide), subject)
}

/// Runs the steps that `bytes` choose on an empty subject and on a model.
///
/// # Errors
/// The first disagreement.
pub fn side_by_side_of(bytes: &[u8], subject: &mut dyn Subject) -> Result<Tally, Box<Divergence>> {
    run(0, Space::Wide, &Source(Chance::Bytes(bytes), Space::Wide).steps(STEPS_OF_BYTES_MAX), subject)
}

fn random_steps(seed: u64, count: usize, space: Space) -> Vec<Step> {
    Source(Chance::Seed(Rng::from_seed(seed)), space).steps(count)
}

/// As [`side_by_side`] on a fresh subject, over that space, and cuts the steps down to a few that still disagree.
///
/// # Errors
/// The smallest disagreement found.
pub fn side_by_side_cut(
    seed: u64,
    steps: usize,
    space: Space,
    open: &mut dyn FnMut() -> Box<dyn Subject>,
) -> Result<Tally, Box<Divergence>> {
    let mut steps = random_steps(seed, steps, space);
    let mut smallest = match run(seed, space, &steps, &mut *open()) {
        Ok(tally) => return Ok(tally),
        Err(divergence) => divergence,
    };
    steps.truncate(smallest.step + 1);
    let mut size = steps.len().div_ceil(2);
    let (mut at, mut cuts) = (0, 0);
    while size > 0 && cuts < CUTS_MAX {
        if at >= steps.len() {
            (at, size) = (0, if size == 1 { 0 } else { size.div_ceil(2) });
            continue;
        }
        let mut fewer = steps.clone();
        fewer.drain(at..(at + size).min(steps.len()));
        cuts += 1;
        match run(seed, space, &fewer, &mut *open()) {
            Err(divergence) => {
                fewer.truncate(divergence.step + 1);
                (steps, smallest) = (fewer, divergence);
            }
            Ok(_) => at += size,
        }
    }
    Err(smallest)
}

fn run(seed: u64, space: Space, steps: &[Step], subject: &mut dyn Subject) -> Result<Tally, Box<Divergence>> {
    let mut pair = Pair::new(subject, space);
    let describe = |step: usize, answers: String| {
        let steps = steps.iter().take(step + 1).map(|step| format!("{step:?}")).collect();
        Box::new(Divergence { seed, step, steps, answers })
    };
    pair.create().map_err(|answers| describe(0, answers))?;
    for (number, step) in steps.iter().enumerate() {
        pair.clock.advance(STEP_NS);
        let agreed = pair.step(step).and_then(|()| pair.compare_accounts());
        agreed.map_err(|answers| describe(number, answers))?;
        pair.look_at_open_lists();
    }
    pair.sweep().map_err(|answers| describe(steps.len(), answers))?;
    Ok(pair.tally)
}

/// A transaction that a slot holds.
#[derive(Clone, Copy, Debug)]
struct Tx {
    id: TxId,
    epoch: Epoch,
    is_prepared: bool,
}

/// An enumeration of dkeys under way on the store.
#[derive(Debug)]
struct OpenList {
    oid: Oid,
    items_max: u32,
    anchor: Anchor,
    seen: Vec<Key>,
    /// What was there all the time, and what was there at some time.
    always: BTreeSet<Key>,
    ever: BTreeSet<Key>,
}

struct Pair<'s> {
    subject: &'s mut dyn Subject,
    model: Model,
    clock: SimClock,
    sequence: u64,
    /// Above this every new epoch must be.
    newest: Epoch,
    past: Vec<(Spec, Head, Epoch)>,
    snapshots: Vec<Epoch>,
    slots: [Option<Tx>; SLOTS],
    lists: [Option<OpenList>; SLOTS],
    space: Space,
    /// Who asks.
    cred: Credentials,
    /// The account that the store keeps, and the limits that are set.
    account: Option<Arc<Account>>,
    quota: Quota,
    is_tight: bool,
    aggregated: bool,
    tally: Tally,
}

type Agreed = Result<(), String>;

impl<'s> Pair<'s> {
    fn new(subject: &'s mut dyn Subject, space: Space) -> Self {
        let (clock, is_tight) = (subject.clock(), subject.is_tight());
        let model = Model::new(subject.target(), Arc::new(clock.clone()));
        Self {
            subject,
            model,
            clock,
            sequence: 0,
            newest: Epoch::ZERO,
            past: Vec::new(),
            snapshots: Vec::new(),
            slots: [None; SLOTS],
            lists: [const { None }; SLOTS],
            space,
            cred: Credentials::default(),
            account: None,
            quota: Quota::default(),
            is_tight,
            // Where there is no room a store aggregates unasked.
            aggregated: is_tight,
            tally: Tally::default(),
        }
    }

    fn create(&mut self) -> Agreed {
        let spec = ContSpec { hash_key: HashKey([9; 16]), durability: Durability::Power };
        self.both_done(|| Verb::Cont(ContVerb::Create(spec)))?;
        if self.space == Space::Limited {
            self.model.limit(CONT, None, Limits::default());
            self.keep_account()?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Agreed {
        match step {
            Step::Mutate(spec) => self.mutate(spec),
            Step::Repeat(back) => self.repeat(*back),
            Step::Fetch(oid, dkey, cond, iods, when) => self.fetch((*oid, dkey), *cond, iods, *when),
            Step::List(listing, items_max, when) => {
                let at = self.at(*when);
                self.list(&list_what(listing), *items_max, at)
            }
            Step::Open(slot, oid, items_max) => {
                self.open(*slot, *oid, *items_max);
                Ok(())
            }
            Step::Page(slot) => self.page(*slot),
            Step::Query(oid, flags, dkey, akey, when) => self.query(*oid, *flags, (dkey, akey), *when),
            Step::Snapshot => self.snapshot(),
            Step::RemoveSnapshot(number) => self.remove_snapshot(*number),
            Step::RollBack(number) => self.roll_back(*number),
            Step::Aggregate(number) => self.aggregate(*number),
            Step::Changes(one, other, items_max) => self.changes(*one, *other, *items_max),
            Step::Begin(slot) => {
                self.begin(*slot);
                Ok(())
            }
            Step::Prepare(slot, specs) => self.prepare(*slot, specs, false),
            Step::Alone(slot, specs) => self.prepare(*slot, specs, true),
            Step::Commit(slot) => self.decide(*slot, true),
            Step::Abort(slot) => self.decide(*slot, false),
            Step::InDoubt => self.in_doubt(),
            Step::Usage => self.usage(),
            Step::Restart => self.reopen(false),
            Step::Crash => self.reopen(true),
            Step::Checkpoint => self.both_done(|| Verb::Checkpoint),
            Step::Background => {
                self.subject.store().step();
                Ok(())
            }
            Step::Check => self.check(),
            Step::As(uid, gid, step) => {
                self.cred = Credentials { uid: *uid, gid: *gid, project: 0 };
                let agreed = self.step(step);
                self.cred = Credentials::default();
                agreed
            }
            Step::Limit(uid, limits) => self.limit(*uid, *limits),
            Step::Report => self.report(),
        }
    }

    /// Asks the store.
    fn theirs(&mut self, head: Head, verb: Verb<'_>) -> Result<Completion, String> {
        let mut ops = vec![Op { token: 1, head, cont: CONT, verb }];
        let store = self.subject.store();
        store.submit(&mut ops);
        let mut done = Vec::new();
        for _ in 0..TURNS_MAX {
            store.poll(true, &mut done);
            if let Some(completion) = done.pop() {
                return Ok(completion);
            }
        }
        Err("the store does not complete the operation".to_owned())
    }

    /// Asks the model.
    fn ours(&mut self, head: Head, verb: Verb<'_>) -> Completion {
        self.model.execute(Op { token: 1, head, cont: CONT, verb })
    }

    fn both_done(&mut self, verb: impl Fn() -> Verb<'static>) -> Agreed {
        let theirs = self.theirs(Head::default(), verb())?.result;
        if theirs.as_ref().err().is_some_and(|error| self.may_refuse(error)) {
            return Ok(());
        }
        let ours = self.ours(Head::default(), verb()).result;
        match (&theirs, &ours) {
            (Ok(Reply::Done), Ok(Reply::Done)) => Ok(()),
            _ if theirs.as_ref().err().is_some_and(|error| ours.as_ref().err() == Some(error)) => Ok(()),
            _ => Err(format!("store {theirs:?}, model {ours:?}")),
        }
    }

    fn undecided(&self) -> impl Iterator<Item = Tx> {
        self.slots.iter().flatten().filter(|tx| tx.is_prepared).copied()
    }

    /// Whether the store may refuse a change like this, which has then changed nothing.
    fn may_refuse(&mut self, error: &Error) -> bool {
        let refuses = self.is_tight && matches!(error, Error::NoSpace { .. });
        self.tally.refused += u64::from(refuses);
        refuses
    }

    /// Whether the store may leave an answer in doubt over this transaction.
    fn may_doubt(&mut self, error: &Error) -> bool {
        let Error::InDoubt { tx } = *error else { return false };
        let known = self.undecided().any(|undecided| undecided.id == tx);
        self.tally.doubted += u64::from(known);
        known
    }

    fn at(&self, when: When) -> ReadAt {
        let at = match when {
            When::Latest => None,
            When::Snapshot(number) => pick(&self.snapshots, number).map(ReadAt::Epoch),
            When::Past(back) => self.past.iter().rev().nth(back).map(|past| ReadAt::Epoch(past.2)),
            When::Tx(slot) => self.slots[slot].filter(|tx| !tx.is_prepared).map(|tx| ReadAt::Tx(tx.epoch)),
        };
        at.unwrap_or(ReadAt::Latest)
    }

    /// Whether two answers to a read agree. What the model has aggregated the store may still have.
    fn agree<T: PartialEq + core::fmt::Debug>(
        &mut self,
        at: ReadAt,
        theirs: &Result<T, Error>,
        ours: &Result<T, Error>,
    ) -> Agreed {
        let agree = match (theirs, ours) {
            (Err(Error::EpochGone { .. }), Err(Error::EpochGone { .. })) => true,
            (Err(Error::TxRestart { .. }), Err(Error::TxRestart { .. })) => true,
            (Ok(_), Err(Error::EpochGone { .. } | Error::TxRestart { .. })) => self.aggregated,
            (Err(Error::EpochGone { .. } | Error::TxRestart { .. }), _) => {
                let is_kept = matches!(at, ReadAt::Epoch(epoch) if self.snapshots.contains(&epoch));
                self.is_tight && at != ReadAt::Latest && !is_kept
            }
            (theirs, ours) => theirs == ours,
        };
        if theirs.is_ok()
            && let ReadAt::Epoch(epoch) | ReadAt::Tx(epoch) = at
        {
            self.newest = self.newest.max(epoch);
        }
        self.tally.read += 1;
        if agree { Ok(()) } else { Err(format!("at {at:?}: store {theirs:?}, model {ours:?}")) }
    }

    fn mutate(&mut self, spec: &Spec) -> Agreed {
        if spec.is_odd() && self.undecided().next().is_some() {
            // Which of record sizes wins is then a matter of who is decided first.
            return Ok(());
        }
        self.sequence += 1;
        let id = RequestId { client: CLIENT, sequence: self.sequence };
        let head = Head { id, cred: self.cred, ..Head::default() };
        let mut watch = self.watch(&[spec.mutation()], None);
        let mut answer = self.theirs(head, verb_of(spec))?.result;
        if self.is_limit(&answer, &watch)? {
            // As whoever has the targets does.
            self.aggregate(None)?;
            watch = self.watch(&[spec.mutation()], None);
            answer = self.theirs(head, verb_of(spec))?.result;
            self.tally.fitted += u64::from(answer.is_ok());
            if self.is_limit(&answer, &watch)? {
                return Ok(());
            }
        }
        match answer {
            Ok(Reply::Written(epoch)) => {
                if epoch <= self.newest {
                    return Err(format!("the store chose {epoch:?} after {:?}", self.newest));
                }
                self.newest = epoch;
                let op = Op { token: 1, head, cont: CONT, verb: verb_of(spec) };
                let ours = self.model.execute_at(op, epoch).result;
                self.past.push((spec.clone(), head, epoch));
                self.tally.written += 1;
                self.was_admitted(&watch)?;
                if ours.is_ok() { Ok(()) } else { Err(format!("store wrote at {epoch:?}, model {ours:?}")) }
            }
            Err(error) if self.may_doubt(&error) || self.may_refuse(&error) => Ok(()),
            theirs => {
                let ours = self.ours(head, verb_of(spec)).result;
                let same = ours.as_ref().err().is_some_and(|error| theirs.as_ref().err() == Some(error));
                if same { Ok(()) } else { Err(format!("store {theirs:?}, model {ours:?}")) }
            }
        }
    }

    fn repeat(&mut self, back: usize) -> Agreed {
        let Some((spec, head, first)) = self.past.iter().rev().nth(back).cloned() else { return Ok(()) };
        match self.theirs(head, verb_of(&spec))?.result {
            Ok(Reply::Written(epoch)) if epoch == first => Ok(()),
            theirs => Err(format!("store repeats {head:?} of {first:?} as {theirs:?}")),
        }
    }

    fn fetch(&mut self, (oid, dkey): (Oid, &Key), cond: Cond, iods: &[FetchIod], when: When) -> Agreed {
        let at = self.at(when);
        let verb = || {
            let buf = IoBuf::copy_of(&[b'.'; BUF_BYTES]);
            Verb::Fetch(Fetch { oid, dkey: dkey.clone(), cond, at, iods: iods.into(), buf })
        };
        let theirs = fetched(self.theirs(Head::default(), verb())?)?;
        if theirs.0.as_ref().err().is_some_and(|error| self.may_doubt(error)) {
            return Ok(());
        }
        let ours = fetched(self.ours(Head::default(), verb()))?;
        self.agree(at, &theirs.0, &ours.0)?;
        if theirs.0.is_ok() && ours.0.is_ok() && theirs.1 != ours.1 {
            let differs = (0..BUF_BYTES).find(|&offset| theirs.1[offset] != ours.1[offset]);
            return Err(format!("at {at:?}: {:?}, but the bytes differ at {differs:?}", theirs.0));
        }
        Ok(())
    }

    fn list(&mut self, what: &ListWhat, items_max: u32, at: ReadAt) -> Agreed {
        let (mut anchor, mut items) = (Anchor::default(), Items::default());
        let theirs = loop {
            let list = List { what: what.clone(), anchor, items_max, bytes_max: 1 << 16, at };
            match self.theirs(Head::default(), Verb::List(list))?.result {
                Ok(Reply::Listed(listed, next)) => {
                    if next == anchor {
                        break Err(Error::Busy);
                    }
                    items.add(&listed);
                    anchor = next;
                    if anchor.is_eof() {
                        break Ok(items);
                    }
                }
                Ok(other) => return Err(format!("store lists {other:?}")),
                Err(error) if self.may_doubt(&error) => return Ok(()),
                Err(error) => break Err(error),
            }
        };
        let list = List {
            what: what.clone(),
            anchor: Anchor::default(),
            items_max: u32::MAX,
            bytes_max: u32::MAX,
            at,
        };
        let ours = match self.ours(Head::default(), Verb::List(list)).result {
            Ok(Reply::Listed(listed, _)) => {
                let mut items = Items::default();
                items.add(&listed);
                Ok(items)
            }
            Ok(other) => return Err(format!("model lists {other:?}")),
            Err(error) => Err(error),
        };
        let epochs = !self.aggregated;
        self.agree(at, &theirs.map(|items| items.settled(epochs)), &ours.map(|items| items.settled(epochs)))
    }

    fn open(&mut self, slot: usize, oid: Oid, items_max: u32) {
        let now = self.model.peek_dkeys(CONT, oid);
        let (seen, anchor) = (Vec::new(), Anchor::default());
        self.lists[slot] = Some(OpenList { oid, items_max, anchor, seen, always: now.clone(), ever: now });
    }

    fn page(&mut self, slot: usize) -> Agreed {
        let Some(mut open) = self.lists[slot].take() else { return Ok(()) };
        let what = ListWhat::Dkeys(open.oid);
        let list = List {
            what,
            anchor: open.anchor,
            items_max: open.items_max,
            bytes_max: 1 << 16,
            at: ReadAt::Latest,
        };
        match self.theirs(Head::default(), Verb::List(list))?.result {
            Ok(Reply::Listed(Listed::Keys(keys), anchor)) => {
                open.seen.extend(keys.iter().map(Key::from_slice));
                open.anchor = anchor;
            }
            Err(error) if self.may_doubt(&error) => {}
            other => return Err(format!("store lists {other:?}")),
        }
        let unique: BTreeSet<Key> = open.seen.iter().cloned().collect();
        if unique.len() < open.seen.len() {
            return Err(format!("listed twice: {:?}", open.seen));
        }
        if let Some(stranger) = unique.difference(&open.ever).next() {
            return Err(format!("listed, but never there: {stranger:?}"));
        }
        if !open.anchor.is_eof() {
            self.lists[slot] = Some(open);
        } else if let Some(missed) = open.always.difference(&unique).next() {
            return Err(format!("always there, but not listed: {missed:?}"));
        }
        Ok(())
    }

    fn look_at_open_lists(&mut self) {
        for open in self.lists.iter_mut().flatten() {
            let now = self.model.peek_dkeys(CONT, open.oid);
            open.always.retain(|key| now.contains(key));
            open.ever.extend(now);
        }
    }

    fn query(&mut self, oid: Oid, flags: QueryFlags, (dkey, akey): (&Key, &Key), when: When) -> Agreed {
        let at = self.at(when);
        let verb = || Verb::Query(Query { oid, flags, dkey: dkey.clone(), akey: akey.clone(), at });
        let answer = |completion: Completion| match completion.result {
            Ok(Reply::Found(found)) => Ok(Ok(found.map(|found| asked_levels(found, flags)))),
            Ok(other) => Err(format!("a query answered by {other:?}")),
            Err(error) => Ok(Err(error)),
        };
        let theirs = answer(self.theirs(Head::default(), verb())?)?;
        if theirs.as_ref().err().is_some_and(|error| self.may_doubt(error)) {
            return Ok(());
        }
        let ours = answer(self.ours(Head::default(), verb()))?;
        self.agree(at, &theirs, &ours)
    }

    /// An epoch from the clock, above all that was chosen, as a pool would hand it out.
    fn now(&mut self) -> Epoch {
        self.clock.advance(1_000_000);
        Epoch::from_unix_ns(self.clock.now_ns()).next()
    }

    fn snapshot(&mut self) -> Agreed {
        let epoch = self.now();
        let refused = self.tally.refused;
        self.both_done(|| Verb::Cont(ContVerb::RaiseFloor(epoch)))?;
        self.both_done(|| Verb::Cont(ContVerb::AddSnapshot(epoch)))?;
        if self.tally.refused == refused {
            self.snapshots.push(epoch);
        }
        Ok(())
    }

    fn remove_snapshot(&mut self, number: usize) -> Agreed {
        let Some(epoch) = pick(&self.snapshots, number) else { return Ok(()) };
        self.snapshots.retain(|&snapshot| snapshot != epoch);
        self.both_done(|| Verb::Cont(ContVerb::RemoveSnapshot(epoch)))
    }

    fn roll_back(&mut self, number: usize) -> Agreed {
        let Some(to) = pick(&self.snapshots, number) else { return Ok(()) };
        if self.undecided().next().is_some() {
            // A pool decides what is undecided before it rolls back.
            return Ok(());
        }
        let at = self.now();
        self.both_done(|| Verb::Cont(ContVerb::RaiseFloor(at)))?;
        self.both_done(|| Verb::Cont(ContVerb::Rollback { to, at }))
    }

    fn aggregate(&mut self, number: Option<usize>) -> Agreed {
        let upto = number.and_then(|number| pick(&self.snapshots, number)).unwrap_or(self.newest);
        // What a transaction is still undecided over stays apart.
        let upto = self.undecided().map(|tx| tx.epoch).fold(upto, Epoch::min);
        self.aggregated = true;
        for _ in 0..TURNS_MAX {
            match self.theirs(Head::default(), Verb::Cont(ContVerb::Aggregate(upto)))?.result {
                Ok(Reply::Aggregated { more: true, .. }) => {}
                Ok(Reply::Aggregated { more: false, .. }) => {
                    let ours = self.ours(Head::default(), Verb::Cont(ContVerb::Aggregate(upto))).result;
                    return if ours.is_ok() { Ok(()) } else { Err(format!("model {ours:?}")) };
                }
                Err(error) if self.may_refuse(&error) => return Ok(()),
                other => return Err(format!("store aggregates {other:?}")),
            }
        }
        Err("aggregation does not end".to_owned())
    }

    fn changes(&mut self, one: usize, other: usize, items_max: u32) -> Agreed {
        let (Some(one), Some(other)) = (pick(&self.snapshots, one), pick(&self.snapshots, other)) else {
            return Ok(());
        };
        self.list(&ListWhat::Changes { from: one.min(other), to: one.max(other) }, items_max, ReadAt::Latest)
    }

    fn begin(&mut self, slot: usize) {
        if self.slots[slot].is_none_or(|tx| !tx.is_prepared) {
            let epoch = self.now();
            self.slots[slot] =
                Some(Tx { id: TxId { client: CLIENT, begin: epoch }, epoch, is_prepared: false });
        }
    }

    fn prepare(&mut self, slot: usize, specs: &[Spec], alone: bool) -> Agreed {
        if self.slots[slot].is_none() {
            self.begin(slot);
        }
        let Some(tx) = self.slots[slot].filter(|tx| !tx.is_prepared) else { return Ok(()) };
        if specs.iter().any(Spec::is_odd) && self.undecided().next().is_some() {
            return Ok(());
        }
        let own = self.subject.target();
        let other = TargetNo(own.0 + 1);
        let verb = || {
            let participants: SmallVec<[TargetNo; 4]> =
                if alone { smallvec![own] } else { smallvec![own, other] };
            let mutations = specs.iter().map(Spec::mutation).collect();
            Verb::Prepare(Prepare { tx: tx.id, epoch: tx.epoch, leader: own, participants, mutations })
        };
        self.slots[slot] = None;
        let mutations: Vec<Mutation<'static>> = specs.iter().map(Spec::mutation).collect();
        let watch = self.watch(&mutations, Some(tx));
        let head = Head { cred: self.cred, ..Head::default() };
        let answer = self.theirs(head, verb())?.result;
        self.end_moves(tx);
        if self.is_limit(&answer, &watch)? {
            return Ok(());
        }
        match answer {
            Ok(Reply::Prepared) => {
                self.tally.prepared += 1;
                self.newest = self.newest.max(tx.epoch);
                self.slots[slot] = (!alone).then_some(Tx { is_prepared: true, ..tx });
                match self.ours(head, verb()).result {
                    Ok(Reply::Prepared) => self.was_admitted(&watch),
                    ours => Err(format!("store prepared at {:?}, model {ours:?}", tx.epoch)),
                }
            }
            Err(Error::TxRestart { .. }) => {
                self.tally.restarted += 1;
                Ok(())
            }
            Err(error) if self.may_doubt(&error) || self.may_refuse(&error) => Ok(()),
            theirs => match self.ours(head, verb()).result {
                Err(_) if theirs.is_err() => Ok(()),
                ours => Err(format!("store {theirs:?}, model {ours:?}")),
            },
        }
    }

    fn decide(&mut self, slot: usize, commit: bool) -> Agreed {
        let Some(tx) = self.slots[slot].filter(|tx| tx.is_prepared) else { return Ok(()) };
        self.slots[slot] = None;
        self.both_done(|| if commit { Verb::Commit(tx.id) } else { Verb::Abort(tx.id) })
    }

    fn in_doubt(&mut self) -> Agreed {
        let mut theirs = match self.theirs(Head::default(), Verb::InDoubt)?.result {
            Ok(Reply::InDoubt(list)) => list,
            other => return Err(format!("store {other:?}")),
        };
        theirs.sort_by_key(|item| item.tx);
        match self.ours(Head::default(), Verb::InDoubt).result {
            Ok(Reply::InDoubt(ours)) if ours == theirs => Ok(()),
            ours => Err(format!("store {theirs:?}, model {ours:?}")),
        }
    }

    fn usage(&mut self) -> Agreed {
        if self.aggregated || self.undecided().next().is_some() {
            return Ok(());
        }
        let theirs = self.theirs(Head::default(), Verb::Cont(ContVerb::Usage))?.result;
        let ours = self.ours(Head::default(), Verb::Cont(ContVerb::Usage)).result;
        match (&theirs, &ours) {
            (Ok(Reply::ContUsage(theirs)), Ok(Reply::ContUsage(ours)))
                if theirs.value_bytes == ours.value_bytes && is_held(theirs) =>
            {
                Ok(())
            }
            _ => Err(format!("store {theirs:?}, model {ours:?}")),
        }
    }

    fn reopen(&mut self, crash: bool) -> Agreed {
        if crash {
            self.subject.crash();
        } else {
            self.subject.restart();
        }
        self.model.restart();
        self.clock.advance(REOPEN_NS);
        if self.account.is_some() {
            self.keep_account()?;
        }
        self.in_doubt()
    }

    fn check(&mut self) -> Agreed {
        match self.theirs(Head::default(), Verb::Check)?.result {
            Ok(Reply::Audited(audit)) if audit.findings.is_empty() => Ok(()),
            other => Err(format!("store {other:?}")),
        }
    }

    /// Decides everything, then reads everything in every state that is kept, before and after reopening.
    fn sweep(&mut self) -> Agreed {
        for slot in 0..SLOTS {
            self.decide(slot, slot % 2 == 0)?;
        }
        for round in 0..2 {
            let states = self.snapshots.iter().map(|&epoch| ReadAt::Epoch(epoch)).chain([ReadAt::Latest]);
            for at in states.collect::<Vec<_>>() {
                self.sweep_at(at).map_err(|answers| format!("sweep {round}: {answers}"))?;
            }
            self.check()?;
            if round == 0 {
                self.reopen(false)?;
            }
        }
        Ok(())
    }

    fn sweep_at(&mut self, at: ReadAt) -> Agreed {
        // The slot of the transaction stands for the state, so that a fetch can be told any epoch.
        let when = match at {
            ReadAt::Epoch(epoch) => {
                When::Snapshot(self.snapshots.iter().position(|&snapshot| snapshot == epoch).unwrap_or(0))
            }
            ReadAt::Latest | ReadAt::Tx(_) => When::Latest,
        };
        self.list(&ListWhat::Objects, 2, at)?;
        for (oid, dkey, akey, record_bytes) in places(self.space) {
            self.list(&ListWhat::Dkeys(oid), 2, at)?;
            self.list(&ListWhat::Akeys(oid, dkey.clone()), 2, at)?;
            self.list(&ListWhat::Extents(oid, dkey.clone(), akey.clone()), 3, at)?;
            let edge = limits::WINDOW_RECORDS - 30;
            let extents = smallvec![Recx::new(0, 100), Recx::new(edge, 100), Recx::new(1 << 40, 50)];
            let single = FetchIod { akey: akey.clone(), want: Want::Single { room_bytes: 60_000 } };
            self.fetch((oid, &dkey), Cond::NONE, &[single], when)?;
            let array = FetchIod { akey, want: Want::Array { record_bytes, extents } };
            self.fetch((oid, &dkey), Cond::NONE, &[array], when)?;
        }
        Ok(())
    }
}

fn pick(epochs: &[Epoch], number: usize) -> Option<Epoch> {
    epochs.get(number % epochs.len().max(1)).copied()
}

fn verb_of(spec: &Spec) -> Verb<'static> {
    match spec.mutation() {
        Mutation::Update(update) => Verb::Update(update),
        Mutation::Punch(punch) => Verb::Punch(punch),
    }
}

fn list_what(listing: &Listing) -> ListWhat {
    match listing.clone() {
        Listing::Objects => ListWhat::Objects,
        Listing::Dkeys(oid) => ListWhat::Dkeys(oid),
        Listing::Akeys(oid, dkey) => ListWhat::Akeys(oid, dkey),
        Listing::Extents(oid, dkey, akey) => ListWhat::Extents(oid, dkey, akey),
    }
}

/// The answer without keys that were given or do not matter.
fn asked_levels(mut found: Found, flags: QueryFlags) -> Found {
    if !flags.has(QueryFlags::DKEY) {
        found.dkey.clear();
    }
    if !flags.has(QueryFlags::AKEY) {
        found.akey.clear();
    }
    found
}

type Fetched = (Result<Vec<FetchedIod>, Error>, IoBuf);

fn fetched(completion: Completion) -> Result<Fetched, String> {
    let buf = completion.buf.ok_or("a fetch without its buffer")?;
    if buf.len() != BUF_BYTES {
        return Err(format!("a fetch returns {} bytes of buffer", buf.len()));
    }
    match completion.result {
        Ok(Reply::Fetched(iods)) => Ok((Ok(iods.into_vec()), buf)),
        Ok(other) => Err(format!("a fetch answered by {other:?}")),
        Err(error) => Ok((Err(error), buf)),
    }
}

/// What was listed, in a form that does not depend on pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Items {
    keys: Vec<Key>,
    oids: BTreeMap<Oid, u32>,
    changes: Vec<dolmen_codec::verb::Change>,
    extents: Vec<ListedExtent>,
}

impl Items {
    fn add(&mut self, listed: &Listed) {
        match listed {
            Listed::Keys(keys) => self.keys.extend(keys.iter().map(Key::from_slice)),
            Listed::Changes(changes) => self.changes.extend(changes.iter().cloned()),
            Listed::Extents(extents) => self.extents.extend(extents),
            Listed::Objects(oids) => oids.iter().for_each(|&oid| *self.oids.entry(oid).or_default() += 1),
        }
    }

    /// Sorted where order does not count, extents joined where they touch; their epochs only if `epochs`,
    /// since aggregation may join extents of several.
    fn settled(mut self, epochs: bool) -> Self {
        self.changes.sort();
        let mut joined: Vec<ListedExtent> = Vec::new();
        for mut extent in self.extents {
            if !epochs {
                extent.epoch = Epoch::ZERO;
            }
            match joined.last_mut() {
                Some(last)
                    if !extent.single
                        && !last.single
                        && last.recx.end() == Some(extent.recx.index)
                        && (last.epoch, last.record_bytes) == (extent.epoch, extent.record_bytes) =>
                {
                    last.recx.count += extent.recx.count;
                }
                _ => joined.push(extent),
            }
        }
        self.extents = joined;
        self
    }
}

/// Whether every byte is held somewhere: where is the store's choice, which the model does not make.
fn is_held(usage: &Usage) -> bool {
    let rest_bytes = usage.value_bytes.checked_sub(usage.small_bytes);
    rest_bytes.is_some_and(|rest_bytes| usage.bulk_bytes >= rest_bytes)
}
