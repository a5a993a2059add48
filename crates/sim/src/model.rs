//! The reference model of one target: every version in plain maps, every answer computed by looking at all.
//!
//! Whatever a question needs to know of an undecided transaction is found out by asking it twice: as if the
//! transaction were committed, and as if not. Whether a transaction may still be written below something that
//! was read is found out by asking again everything that was read. So the model restarts or doubts only where
//! an answer really changes; an engine may do so more often, never less.
//!
//! Invariants: epochs that it chooses increase; a version is never changed.

mod data;
mod list;
mod quota;
mod read;
mod tx;
mod write;

use data::{Cont, Origin};
use dolmen_codec::quota::{Account, Charge};
use dolmen_codec::verb::{Audit, ContVerb, Fetch, Mutation, ReadAt, Reply, SpaceReport, Usage, Verb};
use dolmen_codec::verb::{List, ListWhat};
use dolmen_codec::{Completion, Lead, Op, Progress, TargetStore};
use dolmen_env::Clock;
use dolmen_types::limits::{RETAINED_RESULTS_PER_CLIENT, iods_max};
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, IoBuf, Key, Oid, Stamp, TargetNo, TxId};
pub(crate) use quota::{Fits, Sums};
use read::{Answer, Position, Question};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tx::Prepared;

/// A caller's epoch may be ahead of the clock by this much: the largest offset between servers.
const AHEAD_NS_MAX: u64 = 1_000_000_000;
/// Reads remembered; a transaction older than the oldest of them restarts. More than any test has open.
const READS_MAX: usize = 1 << 16;
/// What the model says a target can hold; it never fills.
const TOTAL_BYTES: u64 = 1 << 40;

/// A read that a transaction with a smaller epoch must not change any more.
#[derive(Debug)]
struct Remembered {
    cont: ContNo,
    /// The epoch of the read, or of the mutation that had the condition.
    epoch: Epoch,
    from: Position,
    question: Question,
    /// Whose read it is, if it was a condition of a transaction.
    reader: Option<TxId>,
}

/// The epoch of a mutation, or that it was a transaction's only part; and what was asked.
type Retained = (Option<Epoch>, u32);

/// The reference model of one target.
///
/// Keeps all versions for ever: aggregation only raises the epoch from which on all states can be read.
/// In accounts what nobody sees any more counts until an aggregation.
/// Completes at once; completions wait for the next poll. [`Model::restart`] stands for closing and opening.
#[derive(Debug)]
pub struct Model {
    target: TargetNo,
    clock: Arc<dyn Clock>,
    /// The newest epoch chosen, read at or written.
    last: Epoch,
    /// How far the targets that it goes with are.
    lead: Arc<Lead>,
    /// The epoch that the next mutation takes instead of one from the clock.
    forced: Option<Epoch>,
    conts: BTreeMap<ContNo, Cont>,
    prepared: BTreeMap<TxId, Prepared>,
    /// Committed ones only: unknown means aborted.
    decided: BTreeSet<TxId>,
    /// Those committed here as their leader that are not concluded.
    unconcluded: BTreeMap<TxId, dolmen_codec::verb::InDoubt>,
    /// A prepare that the network delivers after the abort must not bring a transaction back to life.
    aborted: BTreeSet<TxId>,
    reads: VecDeque<Remembered>,
    /// Reads up to this epoch are not remembered one by one: anything may have been read.
    read_floor: Epoch,
    results: BTreeMap<(u32, u128), BTreeMap<u64, Retained>>,
    /// Requests before this one are not sent again, by client.
    oldest: BTreeMap<(u32, u128), u64>,
    completions: Vec<Completion>,
    /// Accounts that it keeps with others.
    accounts: BTreeMap<ContNo, Arc<Account>>,
}

impl Model {
    /// An empty target.
    #[must_use]
    pub fn new(target: TargetNo, clock: Arc<dyn Clock>) -> Self {
        Self {
            target,
            clock,
            last: Epoch::ZERO,
            lead: Arc::default(),
            forced: None,
            conts: BTreeMap::new(),
            prepared: BTreeMap::new(),
            decided: BTreeSet::new(),
            unconcluded: BTreeMap::new(),
            aborted: BTreeSet::new(),
            reads: VecDeque::new(),
            read_floor: Epoch::ZERO,
            results: BTreeMap::new(),
            oldest: BTreeMap::new(),
            completions: Vec::new(),
            accounts: BTreeMap::new(),
        }
    }

    /// Which target it is.
    #[must_use]
    pub fn target(&self) -> TargetNo {
        self.target
    }

    /// The newest epoch that it chose, read at or wrote: that of a read of the latest state.
    #[must_use]
    pub fn last_epoch(&self) -> Epoch {
        self.last
    }

    /// The dkeys of an object as a read of the latest state would list them, undecided ones left out; looking
    /// is not remembered as a read.
    pub(crate) fn peek_dkeys(&self, cont: ContNo, oid: Oid) -> BTreeSet<Key> {
        let Some(cont) = self.conts.get(&cont) else { return BTreeSet::new() };
        cont.dkeys(&cont.view(self.last, &[]), oid).into_iter().cloned().collect()
    }

    /// Closes and opens it: what it keeps only in memory is gone, and it no longer knows what was read.
    pub fn restart(&mut self) {
        self.completions.clear();
        self.accounts.clear();
        self.reads.clear();
        // Nothing was read above the newest epoch, so nothing above it needs protection.
        self.read_floor = self.last;
    }

    /// Executes one operation; a mutation that gets a new epoch takes `epoch`.
    ///
    /// REQUIRES: `epoch` is above every epoch that this model has seen.
    pub fn execute_at(&mut self, op: Op<'_>, epoch: Epoch) -> Completion {
        self.forced = Some(epoch);
        let completion = self.execute(op);
        self.forced = None;
        completion
    }

    /// Executes one operation.
    pub fn execute(&mut self, op: Op<'_>) -> Completion {
        let Op { token, head, cont, verb } = op;
        let (result, buf) = match verb {
            Verb::Fetch(fetch) => {
                let (result, buf) = self.fetch(&head, cont, fetch);
                (result, Some(buf))
            }
            verb => (self.execute_other(&head, cont, verb), None),
        };
        Completion { token, result, buf }
    }

    fn execute_other(&mut self, head: &Head, cont: ContNo, verb: Verb<'_>) -> Result<Reply, Error> {
        self.check_deadline(head)?;
        match verb {
            Verb::Update(update) => self.mutate(head, cont, Mutation::Update(update)),
            Verb::Punch(punch) => self.mutate(head, cont, Mutation::Punch(punch)),
            Verb::Fetch(_) => unreachable!("a fetch is executed with its buffer"),
            Verb::List(list) => {
                list::check_list(&list)?;
                self.find(cont)?;
                let (own, at) = (list.at, self.list_epoch(cont, &list)?);
                let answer = self.ask(cont, (at, own), Question::List(list))?;
                let Answer::Listed(listed, anchor) = answer else { unreachable!("it was a list") };
                Ok(Reply::Listed(listed, anchor))
            }
            Verb::Query(query) => {
                read::check_query(&query)?;
                self.find(cont)?;
                let (own, at) = (query.at, self.read_epoch(cont, query.at)?);
                let answer = self.ask(cont, (at, own), Question::Query(query))?;
                let Answer::Found(found) = answer else { unreachable!("it was a query") };
                Ok(Reply::Found(found))
            }
            Verb::Prepare(prepare) => self.prepare(head, cont, prepare),
            Verb::Commit(tx) => self.commit(tx),
            Verb::Conclude(tx) => {
                self.unconcluded.remove(&tx);
                Ok(Reply::Done)
            }
            Verb::Abort(tx) => self.abort(tx),
            Verb::TxState(tx) => Ok(Reply::TxState(self.tx_state(tx))),
            Verb::InDoubt => Ok(Reply::InDoubt(self.in_doubt())),
            Verb::Unconcluded => Ok(Reply::InDoubt(self.unconcluded.values().cloned().collect())),
            Verb::Latest => Ok(Reply::Written(self.last)),
            Verb::Cont(verb) => self.cont_verb(cont, verb),
            Verb::Space => {
                let used: u64 = self.conts.values().map(|cont| cont.usage().1).sum();
                let free_bytes = TOTAL_BYTES.saturating_sub(used);
                let space = SpaceReport {
                    total_bytes: TOTAL_BYTES,
                    free_bytes,
                    log_bytes: used,
                    ..SpaceReport::default()
                };
                Ok(Reply::Space(space))
            }
            Verb::Flush | Verb::Checkpoint => Ok(Reply::Done),
            Verb::Scrub | Verb::Check => {
                let usages = self.conts.values().map(Cont::usage);
                let (versions, verified_bytes) =
                    usages.fold((0, 0), |sum, usage| (sum.0 + usage.0, sum.1 + usage.1));
                Ok(Reply::Audited(Audit { versions, verified_bytes, ..Audit::default() }))
            }
        }
    }

    fn check_deadline(&self, head: &Head) -> Result<(), Error> {
        let passed = head.deadline_ns != 0 && self.clock.now_ns() > head.deadline_ns;
        if passed { Err(Error::TimedOut) } else { Ok(()) }
    }

    fn find(&self, no: ContNo) -> Result<&Cont, Error> {
        self.conts.get(&no).ok_or(Error::NoContainer)
    }

    fn find_mut(&mut self, no: ContNo) -> Result<&mut Cont, Error> {
        self.conts.get_mut(&no).ok_or(Error::NoContainer)
    }

    /// An epoch above all others and above the container's floor.
    fn tick(&mut self, cont: ContNo) -> Epoch {
        let floor = self.conts.get(&cont).map_or(Epoch::ZERO, |cont| cont.floor);
        let wall = Epoch::from_unix_ns(self.clock.now_ns());
        let next = self.last.next().max(floor.next()).max(wall);
        let epoch = self.forced.take().unwrap_or(next);
        self.last = self.last.max(epoch);
        epoch
    }

    /// Takes note of an epoch that someone else chose.
    fn observe(&mut self, epoch: Epoch) -> Result<(), Error> {
        let limit = Epoch::from_unix_ns(self.clock.now_ns().saturating_add(AHEAD_NS_MAX));
        if epoch == Epoch::ZERO || epoch > limit.max(self.last) {
            return Err(Invalid::Epoch.into());
        }
        self.last = self.last.max(epoch);
        Ok(())
    }

    fn read_epoch(&mut self, no: ContNo, at: ReadAt) -> Result<Epoch, Error> {
        let epoch = match at {
            ReadAt::Latest => return Ok(self.last),
            ReadAt::Epoch(epoch) | ReadAt::Tx(epoch) => epoch,
        };
        self.observe(epoch)?;
        let cont = self.find(no)?;
        match at {
            _ if cont.keeps(epoch) => Ok(epoch),
            ReadAt::Tx(_) => Err(Error::TxRestart { after: cont.oldest }),
            ReadAt::Latest | ReadAt::Epoch(_) => Err(Error::EpochGone { oldest: cont.oldest }),
        }
    }

    fn list_epoch(&mut self, no: ContNo, list: &List) -> Result<Epoch, Error> {
        let ListWhat::Changes { from, to } = list.what else { return self.read_epoch(no, list.at) };
        if from > to {
            return Err(Invalid::Epoch.into());
        }
        self.read_epoch(no, ReadAt::Epoch(to))?;
        let cont = self.find(no)?;
        if cont.keeps(from) { Ok(to) } else { Err(Error::EpochGone { oldest: cont.oldest }) }
    }

    /// Answers a read and remembers it.
    fn ask(&mut self, cont: ContNo, (at, own): (Epoch, ReadAt), question: Question) -> Result<Answer, Error> {
        let answer = self.settled(cont, at, Position::At(at), &question, &[])?;
        // What a transaction reads comes before what it writes itself, at the same epoch: looked at again
        // later, its own writes must not cover up those of others.
        let from = match own {
            ReadAt::Tx(_) => Position::Before(Stamp { epoch: at, minor: 0 }),
            ReadAt::Latest | ReadAt::Epoch(_) => Position::At(at),
        };
        self.remember(Remembered { cont, epoch: at, from, question, reader: None });
        answer
    }

    fn remember(&mut self, read: Remembered) {
        if self.reads.len() == READS_MAX
            && let Some(oldest) = self.reads.pop_front()
        {
            self.read_floor = self.read_floor.max(oldest.epoch);
        }
        self.reads.push_back(read);
    }

    fn fetch(&mut self, head: &Head, no: ContNo, fetch: Fetch) -> (Result<Reply, Error>, IoBuf) {
        let Fetch { oid, dkey, cond, at, iods, mut buf } = fetch;
        let question = Question::Fetch { oid, dkey, cond, iods, room_bytes: buf.len() };
        let answer = self.fetch_answer(head, no, at, question);
        let reply = answer.map(|answer| {
            let Answer::Fetched(iods, fill) = answer else { unreachable!("it was a fetch") };
            for (offset, bytes) in fill {
                buf[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            Reply::Fetched(iods)
        });
        (reply, buf)
    }

    fn fetch_answer(
        &mut self,
        head: &Head,
        no: ContNo,
        at: ReadAt,
        question: Question,
    ) -> Result<Answer, Error> {
        self.check_deadline(head)?;
        let Question::Fetch { oid, dkey, iods, room_bytes, .. } = &question else {
            unreachable!("it was a fetch")
        };
        let object_type = oid.object_type().ok_or(Invalid::ObjectId)?;
        dolmen_codec::order::check_key(object_type.dkey_kind(), dkey)?;
        for iod in iods {
            dolmen_codec::order::check_key(object_type.akey_kind(), &iod.akey)?;
        }
        read::check_fetch(iods, *room_bytes)?;
        self.find(no)?;
        let epoch = self.read_epoch(no, at)?;
        self.ask(no, (epoch, at), question)
    }

    fn mutate(&mut self, head: &Head, no: ContNo, mutation: Mutation<'_>) -> Result<Reply, Error> {
        self.forget_before(head)?;
        let what = write::what(no, &mutation);
        if let Some((first, asked)) = self.first_result(head) {
            let is_same = first.is_none() || what == asked;
            return if is_same {
                Ok(first.map_or(Reply::Prepared, Reply::Written))
            } else {
                Err(Invalid::Argument.into())
            };
        }
        write::check(&mutation, iods_max(no))?;
        self.find(no)?;
        if let Some(question) = write::question(&mutation) {
            // The epoch is not chosen yet, and a failed mutation takes none: look from just above the last.
            let at = self.last;
            self.settled(no, Epoch::MAX, Position::At(at), &question, &[])??;
            self.reserve(no, head.cred.uid, core::slice::from_ref(&mutation), None)?;
            let epoch = self.tick(no);
            let from = Position::Before(Stamp { epoch, minor: 0 });
            self.remember(Remembered { cont: no, epoch, from, question, reader: None });
            return self.write((head, what), no, &mutation, epoch);
        }
        self.reserve(no, head.cred.uid, core::slice::from_ref(&mutation), None)?;
        let epoch = self.tick(no);
        self.write((head, what), no, &mutation, epoch)
    }

    fn write(
        &mut self,
        (head, what): (&Head, u32),
        no: ContNo,
        mutation: &Mutation<'_>,
        epoch: Epoch,
    ) -> Result<Reply, Error> {
        let origin = Origin { stamp: Stamp { epoch, minor: 0 }, undecided: None };
        write::apply(self.find_mut(no)?, head.cred.uid, mutation, origin);
        self.retain(head, Some(epoch), what);
        Ok(Reply::Written(epoch))
    }

    /// Forgets results that the client has done with; refuses a request among them.
    fn forget_before(&mut self, head: &Head) -> Result<(), Error> {
        let id = head.id;
        if id.sequence == 0 {
            return Ok(());
        }
        let known = self.oldest.entry((head.cred.uid, id.client)).or_default();
        *known = (*known).max(head.oldest.min(id.sequence));
        if let Some(results) = self.results.get_mut(&(head.cred.uid, id.client)) {
            *results = results.split_off(known);
        }
        if id.sequence < *known { Err(Error::TimedOut) } else { Ok(()) }
    }

    /// The first result of a request.
    fn first_result(&self, head: &Head) -> Option<Retained> {
        self.results.get(&(head.cred.uid, head.id.client))?.get(&head.id.sequence).copied()
    }

    fn retain(&mut self, head: &Head, epoch: Option<Epoch>, what: u32) {
        if head.id.sequence == 0 {
            return;
        }
        let results = self.results.entry((head.cred.uid, head.id.client)).or_default();
        results.insert(head.id.sequence, (epoch, what));
        while results.len() > RETAINED_RESULTS_PER_CLIENT {
            results.pop_first();
        }
    }

    fn cont_verb(&mut self, no: ContNo, verb: ContVerb) -> Result<Reply, Error> {
        if let Some(account) = self.accounts.get(&no).filter(|_| !matches!(verb, ContVerb::Aggregate(_))) {
            account.note_change();
        }
        match verb {
            ContVerb::Create(spec) => {
                self.conts.entry(no).or_insert_with(|| Cont::new(spec));
            }
            ContVerb::Destroy => {
                self.conts.remove(&no);
                self.accounts.remove(&no);
                self.prepared.retain(|_, prepared| prepared.cont != no);
                self.reads.retain(|read| read.cont != no);
            }
            ContVerb::Usage => {
                let (versions, value_bytes) = self.find(no)?.usage();
                // Where a store holds them is its own choice; the model's is that nothing is large.
                let usage = Usage { versions, value_bytes, bulk_bytes: 0, small_bytes: value_bytes };
                return Ok(Reply::ContUsage(usage));
            }
            ContVerb::RaiseFloor(epoch) => {
                let cont = self.find_mut(no)?;
                cont.floor = cont.floor.max(epoch);
            }
            ContVerb::AddSnapshot(epoch) => {
                let cont = self.find_mut(no)?;
                if !cont.keeps(epoch) {
                    return Err(Error::EpochGone { oldest: cont.oldest });
                }
                // A snapshot that later writes could reach would not be one.
                cont.floor = cont.floor.max(epoch);
                cont.snapshots.insert(epoch);
            }
            ContVerb::RemoveSnapshot(epoch) => {
                self.find_mut(no)?.snapshots.remove(&epoch);
            }
            ContVerb::Rollback { to, at } => self.roll_back(no, to, at)?,
            ContVerb::Aggregate(epoch) => {
                let last = self.last;
                let cont = self.find_mut(no)?;
                cont.oldest = cont.oldest.max(epoch.min(last.max(cont.floor)));
                // What is no longer kept apart must not be written between.
                cont.floor = cont.floor.max(cont.oldest);
                self.free(no);
                return Ok(Reply::Aggregated { more: false, freed: 0 });
            }
        }
        Ok(Reply::Done)
    }

    fn roll_back(&mut self, no: ContNo, to: Epoch, at: Epoch) -> Result<(), Error> {
        let cont = self.find_mut(no)?;
        if to >= at {
            return Err(Invalid::Epoch.into());
        }
        if !cont.keeps(to) {
            return Err(Error::EpochGone { oldest: cont.oldest });
        }
        cont.floor = cont.floor.max(at);
        cont.rollbacks.insert(at, to);
        // A read of the latest state comes after the rollback.
        self.last = self.last.max(at.next());
        Ok(())
    }
}

impl TargetStore for Model {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        self.last = self.last.max(self.lead.get());
        for op in ops.drain(..) {
            let completion = self.execute(op);
            self.completions.push(completion);
        }
        self.lead.note(self.last);
    }

    fn poll(&mut self, _wait: bool, out: &mut Vec<Completion>) {
        out.append(&mut self.completions);
    }

    fn step(&mut self) -> Progress {
        Progress::Idle
    }

    fn go_with(&mut self, lead: &Arc<Lead>) {
        self.lead = Arc::clone(lead);
    }

    fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        self.begin_account(cont, account)
    }

    fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        Ok(self.find(cont)?.unfreed().into_iter().collect())
    }
}
