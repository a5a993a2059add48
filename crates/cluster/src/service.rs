//! The pool's service: containers, their properties and attributes, handles, snapshots, object numbers.
//!
//! What it knows is in memory and, record by record, in the system container (`store`). A change that
//! concerns several targets first writes an intent beside the container's records; a crash in between is
//! made good when the pool is opened: a creation that some target has not seen is undone, and so is a snapshot that is
//! not on record (nobody was told of them); everything else is completed.
//!
//! Invariants: a container number is never used twice; labels and UUIDs are unique among containers that are
//! not being destroyed; what a record says is durable before the answer; an intent stays on record until all
//! targets have carried it out.

mod change;
mod props;
mod quota;
mod record;
mod repeats;
mod store;

use crate::dispatch::{Targets, plain};
use crate::hlc::Hlc;
use crate::inbox::{locked, try_locked};
use crate::resolve;
use crate::service::record::{ContRecord, Intent, Times};
use crate::service::repeats::{Asked, Repeats};
use crate::tell;
use core::ops::{Deref, DerefMut};
use dolmen_codec::TargetStore;
use dolmen_codec::pool::{
    ContHandle, ContInfo, ContName, EndedTx, OpenFor, PoolInfo, PoolReply, PoolVerb, Snapshot, Whose,
};
use dolmen_codec::verb::{
    Audit, ContSpec, ContVerb, Finding, Reply, SpaceReport, Usage, Verb, system_container,
};
use dolmen_env::Secrets;
use dolmen_types::{
    ContNo, Epoch, Error, Head, Invalid, Label, PoolMap, PropId, PropValue, Props, RequestId, Result,
    TargetState, Uuid,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

/// Object numbers taken from the record at a time, so that most allocations write nothing.
const OIDS_RESERVED: u64 = 1 << 16;
/// Container numbers taken from the record at a time.
const CONTS_RESERVED: u32 = 64;
/// Snapshots of one container: each takes part in every later aggregation.
const SNAPSHOTS_MAX: usize = 65536;
/// Epochs that are tried for a snapshot while a target that is nearly full frees what nobody keeps.
const SNAPSHOT_ATTEMPTS: u32 = 64;
//= daos:src/include/daos_types.h DAOS_ATTR_NAME_MAX
const ATTR_NAME_BYTES_MAX: usize = 511;
/// A user attribute's value: it travels in one message and is one record.
const ATTR_VALUE_BYTES_MAX: usize = 1 << 20;
/// User attributes of one container.
const ATTRS_MAX: usize = 65536;

/// How far the clock of another engine may be ahead of ours and still be believed.
const AHEAD_NS_MAX: u64 = 60_000_000_000;

/// What identifies a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    /// Its targets, with its UUID and version.
    pub map: PoolMap,
    /// Its label.
    pub label: Option<Label>,
}

/// The service of one pool; shared by all threads.
pub struct Service {
    identity: PoolIdentity,
    hlc: Hlc,
    /// Guards that changes which ask all targets follow each other, also while targets are asked. Taken first: whoever has it takes
    /// `state`, and gives it back while he asks. Nobody else takes it: who changes nothing, or the service's own records alone, waits
    /// for no engine that somebody's change waits for.
    changes: Mutex<()>,
    /// Guards that changes of limits at several engines follow each other, also while these are asked. Taken before all others.
    quotas: Mutex<()>,
    /// Guards what the service knows. Held across changes of records, which are at the service's own engine, and never while other
    /// engines are asked; operations on data never take it. Taken after `changes` and before any lock of `Targets`.
    state: Mutex<State>,
}

/// What the service knows, for one change that asks all targets. While it does, which may take until an engine is given up, others
/// look at the state, open and close containers, and change records: what was read before must be looked up again after it.
struct Changing<'s> {
    /// Guards what the service knows: that of the service.
    state: &'s Mutex<State>,
    /// None while targets are asked.
    guard: Option<MutexGuard<'s, State>>,
    /// Given back after the state.
    _one_at_a_time: MutexGuard<'s, ()>,
}

impl Changing<'_> {
    /// Asks targets, without the state.
    fn apart<R>(&mut self, ask: impl FnOnce() -> R) -> R {
        self.guard = None;
        let answer = ask();
        self.guard = Some(locked(self.state));
        answer
    }
}

impl Deref for Changing<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.guard.as_ref().expect("given up for as long as targets are asked")
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("given up for as long as targets are asked")
    }
}

#[derive(Debug)]
struct State {
    conts: BTreeMap<ContNo, Cont>,
    by_label: BTreeMap<Label, ContNo>,
    by_uuid: BTreeMap<Uuid, ContNo>,
    pool_attrs: BTreeSet<String>,
    pool_props: Props,
    next_cont: u32,
    reserved_cont: u32,
    secrets: Secrets,
    repeats: Box<Repeats>,
    /// When what is asked for now is.
    now: Epoch,
}

#[derive(Debug)]
struct Cont {
    record: ContRecord,
    snapshots: BTreeMap<Epoch, Option<String>>,
    attrs: BTreeSet<String>,
    handles: u32,
    alone: Alone,
    next_oid: u64,
    /// Who has made it, and by which snapshots were made.
    origins: BTreeMap<Epoch, RequestId>,
    /// An intent that is on record and not yet carried out by all targets.
    unfinished: Option<Intent>,
    /// Snapshots that are destroyed, and that not all targets have let go of yet.
    gone: BTreeSet<Epoch>,
    times: Times,
}

/// Whether those who have opened a container have it alone, by the word of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    No,
    By(u64),
}

impl Alone {
    /// What holds when one handle more is open, beside so many; `None` if it may not be.
    fn opened(self, wanted: OpenFor, handles: u32) -> Option<Self> {
        match (wanted, self) {
            (OpenFor::Alone(word), Self::No) => (handles == 0).then_some(Self::By(word)),
            (OpenFor::Alone(word) | OpenFor::Joining(word), Self::By(known)) => {
                (word == known && word != 0).then_some(self)
            }
            (OpenFor::Evicting, _) | (OpenFor::Any | OpenFor::Change, Self::No) => Some(self),
            (OpenFor::Joining(_), Self::No) | (OpenFor::Any | OpenFor::Change, Self::By(_)) => None,
        }
    }
}

impl Cont {
    fn new(record: ContRecord) -> Self {
        let next_oid = record.oid_limit;
        let (snapshots, attrs, origins) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (gone, times) = (BTreeSet::new(), Times::default());
        Self {
            record,
            snapshots,
            attrs,
            handles: 0,
            alone: Alone::No,
            next_oid,
            origins,
            unfinished: None,
            gone,
            times,
        }
    }

    /// Whether clients may see it.
    fn is_live(&self) -> bool {
        !matches!(self.unfinished, Some(Intent::Create | Intent::Destroy))
    }

    fn props(&self) -> Props {
        let mut all = props::all(&self.record.props);
        if let Some(label) = &self.record.label {
            all.insert(PropId::CO_LABEL, PropValue::Text(label.as_str().to_owned()));
        }
        all.insert(props::CO_ALLOCED_OID, PropValue::Number(self.record.oid_limit));
        all
    }

    fn handle(&self, no: ContNo) -> ContHandle {
        let ContRecord { uuid, label, hash_key, .. } = &self.record;
        let mut props = self.props();
        if let Some(evictions) = self.record.props.get(&PropId::CO_EVICTIONS) {
            props.insert(PropId::CO_EVICTIONS, evictions.clone());
        }
        ContHandle { no, uuid: *uuid, label: label.clone(), hash_key: *hash_key, props }
    }

    /// The same, with when it was opened and changed last.
    fn dated(&self, no: ContNo) -> ContHandle {
        let mut handle = self.handle(no);
        let Times { opened, changed } = self.times;
        handle.props.insert(PropId::CO_OPENED, PropValue::Number(opened.0));
        handle.props.insert(PropId::CO_CHANGED, PropValue::Number(changed.0));
        handle
    }

    fn spec(&self) -> ContSpec {
        ContSpec { hash_key: self.record.hash_key, durability: props::durability(&self.record.props) }
    }
}

impl Service {
    /// Prepares the targets of a new pool.
    ///
    /// # Errors
    /// What a target answers.
    pub fn create<T: TargetStore>(targets: &Targets<T>) -> Result<()> {
        // The pool's own record comes with the first container.
        let (no, spec) = system_container();
        targets.ask_all(|_| plain(no, Verb::Cont(ContVerb::Create(spec)))).map(|_| ())
    }

    /// Reads the records and makes good what a crash cut short. The hash keys of containers are drawn from `secrets`.
    ///
    /// # Errors
    /// `Corrupt` for a record that cannot be read; what a target answers. An intent that a target cannot
    /// carry out now does not hinder opening: it is tried again before the container's next change.
    pub fn open<T: TargetStore>(
        targets: &Targets<T>,
        hlc: Hlc,
        identity: PoolIdentity,
        secrets: Secrets,
    ) -> Result<Self> {
        targets.ask_all(|_| plain(ContNo::SYSTEM, Verb::Latest))?;
        hlc.merge(targets.newest_epoch());
        let now = hlc.tick();
        targets.refuse_older(now);
        store::lift_clocks(targets, now)?;
        let state = change::load(targets, secrets)?;
        targets.parts().keep_closed(change::rolling_back(&state));
        // Who was evicted before the service was started anew may have been told so by this engine alone.
        state.conts.iter().for_each(|(&no, cont)| targets.parts().note_evicted(no, &cont.record.props, 0));
        let (changes, quotas) = (Mutex::default(), Mutex::default());
        let service = Self { identity, hlc, state: Mutex::new(state), changes, quotas };
        change::finish_all(targets, &mut service.changing());
        quota::begin_all(targets, &locked(&service.state))?;
        targets.parts().look(now)?;
        quota::fit_all(targets, &service)?;
        Ok(service)
    }

    /// Waits until no other change that asks all targets is under way.
    fn changing(&self) -> Changing<'_> {
        self.change_after(locked(&self.changes))
    }

    fn change_after<'s>(&'s self, changes: MutexGuard<'s, ()>) -> Changing<'s> {
        Changing { state: &self.state, guard: Some(locked(&self.state)), _one_at_a_time: changes }
    }

    /// The pool's clock.
    #[must_use]
    pub fn clock(&self) -> &Hlc {
        &self.hlc
    }

    /// The pool.
    #[must_use]
    pub fn identity(&self) -> &PoolIdentity {
        &self.identity
    }

    /// Goes on above an epoch that a client has seen at another engine, unless that is far ahead of the clock.
    pub(crate) fn saw(&self, epoch: Epoch) {
        let latest = Epoch::from_unix_ns(self.hlc.unix_ns().saturating_add(AHEAD_NS_MAX));
        if epoch <= latest {
            self.hlc.merge(epoch);
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// `TimedOut` past the deadline; `NoContainer` for an unknown number, `NotFound` for an unknown name;
    /// what the verb and the targets say.
    pub fn ask<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        head: &Head,
        verb: PoolVerb<'_>,
    ) -> Result<PoolReply> {
        if head.deadline_ns != 0 && self.hlc.unix_ns() > head.deadline_ns {
            return Err(Error::TimedOut);
        }
        match verb {
            PoolVerb::TxBegin => Ok(PoolReply::Epoch(self.now(targets))),
            // Its own records change by its own verbs only.
            PoolVerb::TxCommit(tx) if tx.cont == ContNo::SYSTEM => Err(Error::NoPermission),
            PoolVerb::TxCommit(mut tx) => {
                let ended = EndedTx { epoch: tx.tx.begin, read: core::mem::take(&mut tx.read) };
                let result = self.commit(targets, head, tx);
                if let Err(Error::TxRestart { after }) = &result {
                    self.hlc.merge(*after);
                }
                // Whatever else it was told, it may go on.
                if matches!(result, Ok(_) | Err(Error::TxRestart { .. })) {
                    tell::tell_end(targets, &ended);
                }
                result.map(PoolReply::Epoch)
            }
            PoolVerb::TxEnd(ended) => {
                tell::tell_end(targets, &ended);
                Ok(PoolReply::Done)
            }
            PoolVerb::Query => self.query(targets).map(PoolReply::Pool),
            PoolVerb::ContQuota(no) => self.quota(targets, no).map(Box::new).map(PoolReply::Quota),
            PoolVerb::Aggregate(no, epoch) => self.aggregate(targets, no, epoch).map(PoolReply::Aggregated),
            PoolVerb::Checkpoint => {
                targets.ask_all(|_| plain(ContNo::SYSTEM, Verb::Checkpoint)).map(|_| PoolReply::Done)
            }
            PoolVerb::Scrub => audits(targets, || Verb::Scrub).map(PoolReply::Audits),
            PoolVerb::Check => self.check(targets).map(PoolReply::Audits),
            PoolVerb::ContSetQuota(no, uid, limits) if targets.parts().are_there() => {
                self.set_quota_everywhere(targets, head, no, (uid, limits))
            }
            PoolVerb::ContQuery(no) => self.cont_info(targets, no).map(Box::new).map(PoolReply::ContInfo),
            verb => self.ask_once(targets, head, verb),
        }
    }

    /// The verbs that work on what the service knows; a change that was made already is answered as it was then.
    fn ask_once<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        head: &Head,
        verb: PoolVerb<'_>,
    ) -> Result<PoolReply> {
        let (evicts, asked) = (matches!(verb, PoolVerb::ContEvict(..)), Asked::by(head));
        let is_change = repeats::is_change(&verb);
        let mut state = locked(&self.state);
        if is_change && (asks_targets(&verb) || change::begun(&mut state, asked)?.is_some()) {
            drop(state);
            let mut changing = self.changing();
            changing.now = self.now(targets);
            let known = change::finished_answer(targets, &mut changing, asked)?;
            return known.map_or_else(|| self.change(targets, &mut changing, head, verb), Ok);
        }
        if is_change || matches!(verb, PoolVerb::ContOpen(..) | PoolVerb::ContClose(_)) {
            state.now = self.now(targets);
        }
        let known = if is_change { change::answered(&mut state, asked)? } else { None };
        let reply = known.map_or_else(|| ask_state(targets, &mut state, head, verb), Ok);
        drop(state);
        if evicts && reply.is_ok() {
            // Before the answer; without the state, which others need while an engine does not answer.
            targets.parts().tell_evicted();
        }
        reply
    }

    /// What asks all targets, or comes under the number of what does.
    fn change<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        state: &mut Changing<'_>,
        head: &Head,
        verb: PoolVerb<'_>,
    ) -> Result<PoolReply> {
        let (done, asked) = (|()| PoolReply::Done, Asked::by(head));
        match verb {
            PoolVerb::ContCreate { uuid, label, props } => {
                let wanted = change::Wanted { uuid, label, props };
                change::create(targets, state, wanted, head).map(PoolReply::Cont)
            }
            PoolVerb::ContDestroy(name, force) => {
                change::destroy(targets, state, &name, force, asked).map(done)
            }
            PoolVerb::SnapCreate(no, name) => {
                let now = || self.now(targets);
                change::add_snapshot(targets, state, no, (name, asked), now).map(PoolReply::Epoch)
            }
            PoolVerb::SnapDestroy(no, epoch) => {
                change::remove_snapshot(targets, state, no, epoch, asked).map(done)
            }
            PoolVerb::Rollback(no, to) => {
                change::roll_back(targets, state, no, to, asked, || self.now(targets)).map(PoolReply::Epoch)
            }
            verb => ask_state(targets, state, head, verb),
        }
    }

    /// A container by its UUID, without a handle on it.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn look(&self, uuid: Uuid) -> Result<ContHandle> {
        let state = locked(&self.state);
        let no = state.find(&ContName::Uuid(uuid))?;
        Ok(state.live(no)?.handle(no))
    }

    /// Looks after the parts of the pool at other engines: lets clients in where one has started anew, and settles
    /// transactions that nobody decides. Call it a few times a second; it waits for engines that do not answer.
    pub(crate) fn look_after_parts<T: TargetStore>(&self, targets: &Targets<T>) {
        // Whoever needs an engine that is gone is told so. When all are there, what they have missed is carried out.
        // While somebody's change is under way, which may wait for an engine, the others are looked after: it is done by a later look.
        if targets.parts().look(self.now(targets)).is_ok()
            && let Some(changes) = try_locked(&self.changes)
        {
            change::finish_all(targets, &mut self.change_after(changes));
        }
        resolve::settle_stale(targets);
    }

    /// A new epoch above every epoch that a target has answered.
    pub(crate) fn now<T: TargetStore>(&self, targets: &Targets<T>) -> Epoch {
        self.hlc.merge(targets.newest_epoch());
        self.hlc.tick()
    }

    fn query<T: TargetStore>(&self, targets: &Targets<T>) -> Result<PoolInfo> {
        let report = |reply| match reply {
            Reply::Space(report) => report,
            _ => SpaceReport::default(),
        };
        let PoolIdentity { mut map, label } = self.identity.clone();
        let mut space = Vec::with_capacity(map.targets.len());
        let answers = targets.call_all(|_| plain(ContNo::SYSTEM, Verb::Space));
        for (target, answer) in map.targets.iter_mut().zip(answers) {
            match answer.result {
                // Its engine is gone; the others' space is known all the same.
                Err(Error::Unreachable { .. }) => {
                    target.state = TargetState::Down;
                    space.push(SpaceReport::default());
                }
                result => space.push(report(result?)),
            }
        }
        let cont_count = locked(&self.state).conts.values().filter(|cont| cont.is_live()).count() as u64;
        Ok(PoolInfo { map, label, space, cont_count })
    }

    fn cont_info<T: TargetStore>(&self, targets: &Targets<T>, no: ContNo) -> Result<ContInfo> {
        let mut info = {
            let state = locked(&self.state);
            let cont = state.live(no)?;
            ContInfo {
                cont: cont.dated(no),
                handles: cont.handles,
                snapshots: u32::try_from(cont.snapshots.len()).expect("limited by SNAPSHOTS_MAX"),
                last_snapshot: cont.snapshots.keys().next_back().copied().unwrap_or_default(),
                usage: Usage::default(),
            }
        };
        for reply in targets.ask_all(|_| plain(no, Verb::Cont(ContVerb::Usage)))? {
            if let Reply::ContUsage(Usage { versions, value_bytes, bulk_bytes, small_bytes }) = reply {
                info.usage.versions += versions;
                info.usage.value_bytes += value_bytes;
                info.usage.bulk_bytes += bulk_bytes;
                info.usage.small_bytes += small_bytes;
            }
        }
        Ok(info)
    }

    /// Up to which epoch a container may be aggregated now.
    pub(crate) fn aggregable<T: TargetStore>(&self, targets: &Targets<T>, no: ContNo) -> Result<Epoch> {
        let state = locked(&self.state);
        let now = self.now(targets);
        Ok(match state.live(no)?.unfinished {
            Some(Intent::AddSnapshot(in_the_making)) => now.min(in_the_making),
            _ => now,
        })
    }

    /// Aggregation never takes away what a new snapshot keeps. One that is begun later has an epoch above the one chosen here, because
    /// both are chosen under the state's lock; one in the making, which not all targets may keep yet, is not passed.
    pub(crate) fn aggregate<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        no: ContNo,
        epoch: Epoch,
    ) -> Result<u64> {
        let now = self.aggregable(targets, no)?;
        let epoch = if epoch == Epoch::ZERO { now } else { epoch.min(now) };
        let mut total = 0;
        for target in targets.numbers() {
            loop {
                let op = plain(no, Verb::Cont(ContVerb::Aggregate(epoch)));
                let Reply::Aggregated { more, freed } = targets.call(target, op).result? else { break };
                total += freed;
                targets.accounts().shares.note_freed(no, freed);
                if !more {
                    break;
                }
            }
        }
        Ok(total)
    }

    /// The audits of all targets, and whether each of them knows the containers that the records name.
    fn check<T: TargetStore>(&self, targets: &Targets<T>) -> Result<Vec<Audit>> {
        let mut found = audits(targets, || Verb::Check)?;
        let live: Vec<ContNo> = {
            let state = locked(&self.state);
            state.conts.iter().filter(|(_, cont)| cont.is_live()).map(|(&no, _)| no).collect()
        };
        for no in live {
            let answers = targets.call_all(|_| plain(no, Verb::Cont(ContVerb::Usage)));
            // One that was destroyed meanwhile is rightly gone; its number is not used again.
            if locked(&self.state).live(no).is_err() {
                continue;
            }
            for (audit, answer) in found.iter_mut().zip(answers) {
                if matches!(answer.result, Err(Error::NoContainer)) {
                    let place = match store::damaged(no, store::META) {
                        Error::Corrupt { place, .. } => *place,
                        _ => continue,
                    };
                    audit.findings.push(Finding { place, rule: "container-on-record" });
                }
            }
        }
        Ok(found)
    }
}

/// Whether a change asks all targets.
fn asks_targets(verb: &PoolVerb<'_>) -> bool {
    matches!(
        verb,
        PoolVerb::ContCreate { .. }
            | PoolVerb::ContDestroy(..)
            | PoolVerb::SnapCreate(..)
            | PoolVerb::SnapDestroy(..)
            | PoolVerb::Rollback(..)
    )
}

/// What is answered from what the service knows, or changes its own records alone.
fn ask_state<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    head: &Head,
    verb: PoolVerb<'_>,
) -> Result<PoolReply> {
    let (done, asked) = (|()| PoolReply::Done, Asked::by(head));
    match verb {
        PoolVerb::ContOpen(name, wanted) => state.open(&name, wanted).map(PoolReply::Cont),
        PoolVerb::ContClose(no) => state.close(no).map(done),
        PoolVerb::Props => Ok(PoolReply::Props(state.pool_props.clone())),
        PoolVerb::SetProps(props) => change::set_pool_props(targets, state, props, asked).map(done),
        PoolVerb::ContEvict(no, whose) => {
            let uid = (whose == Whose::Own).then_some(head.cred.uid);
            let cont = change::evict(targets, state, no, uid, asked)?;
            targets.parts().note_evicted(no, &cont.props, head.id.client);
            Ok(PoolReply::Cont(cont))
        }
        PoolVerb::ContList => Ok(PoolReply::Conts(state.list())),
        PoolVerb::ContSetProps(no, props) => change::set_props(targets, state, no, props, asked).map(done),
        PoolVerb::ContSetQuota(no, uid, limits) => {
            quota::set(targets, state, no, (uid, limits), asked).map(done)
        }
        PoolVerb::ContProps(no, ids) => state.props(no, &ids).map(PoolReply::Props),
        PoolVerb::SetAttrs(no, attrs) => change::set_attrs(targets, state, no, &attrs, asked).map(done),
        PoolVerb::Attr(no, name) => change::attr(targets, state, no, &name).map(PoolReply::Attr),
        PoolVerb::AttrNames(no) => {
            state.attrs(no).map(|names| PoolReply::AttrNames(names.iter().cloned().collect()))
        }
        PoolVerb::RemoveAttrs(no, names) => change::remove_attrs(targets, state, no, &names, asked).map(done),
        PoolVerb::SnapList(no) => state.live(no).map(|cont| PoolReply::Snapshots(snapshots(cont))),
        PoolVerb::AllocOids(no, count) => {
            change::alloc_oids(targets, state, no, count, asked).map(PoolReply::Oids)
        }
        // Asked of parts, which have no service.
        PoolVerb::Admit { .. } | PoolVerb::Evicted { .. } | PoolVerb::Share(_) => Err(Error::NoPermission),
        // Kept by who serves connections; a process by itself has nobody to keep them from.
        PoolVerb::Lock(..) | PoolVerb::Leases(..) | PoolVerb::Files(..) => Err(Error::NoPermission),
        PoolVerb::ContCreate { .. }
        | PoolVerb::ContDestroy(..)
        | PoolVerb::SnapCreate(..)
        | PoolVerb::SnapDestroy(..)
        | PoolVerb::Rollback(..)
        | PoolVerb::Query
        | PoolVerb::ContQuery(_)
        | PoolVerb::ContQuota(_)
        | PoolVerb::TxBegin
        | PoolVerb::TxCommit(_)
        | PoolVerb::TxEnd(_)
        | PoolVerb::Aggregate(..)
        | PoolVerb::Checkpoint
        | PoolVerb::Scrub
        | PoolVerb::Check => unreachable!("answered without the state, or with all targets"),
    }
}

impl State {
    fn live(&self, no: ContNo) -> Result<&Cont> {
        self.conts.get(&no).filter(|cont| cont.is_live()).ok_or(Error::NoContainer)
    }

    fn find(&self, name: &ContName) -> Result<ContNo> {
        let no = match name {
            ContName::Label(label) => self.by_label.get(label),
            ContName::Uuid(uuid) => self.by_uuid.get(uuid),
        };
        no.copied().filter(|no| self.live(*no).is_ok()).ok_or(Error::NotFound)
    }

    fn open(&mut self, name: &ContName, wanted: OpenFor) -> Result<ContHandle> {
        let no = self.find(name)?;
        let cont = self.conts.get_mut(&no).ok_or(Error::NotFound)?;
        let alone = cont.alone.opened(wanted, cont.handles).ok_or(Error::Busy)?;
        cont.handles = cont.handles.checked_add(1).ok_or(Error::Busy)?;
        cont.times.opened = self.now;
        cont.alone = alone;
        Ok(cont.handle(no))
    }

    /// Closing a handle on a container that was destroyed by force is no error: there is nothing to give back.
    fn close(&mut self, no: ContNo) -> Result<()> {
        match self.conts.get_mut(&no) {
            Some(cont) if cont.is_live() => {
                cont.handles = cont.handles.checked_sub(1).ok_or(Invalid::Argument)?;
                cont.times.changed = self.now;
                if cont.handles == 0 {
                    cont.alone = Alone::No;
                }
                Ok(())
            }
            _ if no.0 != 0 && no.0 < self.next_cont => Ok(()),
            _ => Err(Error::NoContainer),
        }
    }

    fn list(&self) -> Vec<ContHandle> {
        self.conts.iter().filter(|(_, cont)| cont.is_live()).map(|(&no, cont)| cont.dated(no)).collect()
    }

    fn props(&self, no: ContNo, ids: &[PropId]) -> Result<Props> {
        let all = self.live(no)?.props();
        if ids.is_empty() {
            return Ok(all);
        }
        let one = |id: &PropId| all.get(id).map(|value| (*id, value.clone()));
        ids.iter().map(|id| one(id).ok_or(Error::Invalid(Invalid::Property))).collect()
    }

    fn attrs(&self, no: Option<ContNo>) -> Result<&BTreeSet<String>> {
        match no {
            Some(no) => self.live(no).map(|cont| &cont.attrs),
            None => Ok(&self.pool_attrs),
        }
    }

    fn attrs_mut(&mut self, no: Option<ContNo>) -> Result<&mut BTreeSet<String>> {
        match no {
            Some(no) => self.conts.get_mut(&no).map(|cont| &mut cont.attrs).ok_or(Error::NoContainer),
            None => Ok(&mut self.pool_attrs),
        }
    }

    /// Adds a container with what finds it.
    fn insert(&mut self, no: ContNo, cont: Cont) {
        // One in the making has its names already, should it be completed later.
        if cont.unfinished != Some(Intent::Destroy) {
            self.by_uuid.insert(cont.record.uuid, no);
            if let Some(label) = &cont.record.label {
                self.by_label.insert(label.clone(), no);
            }
        }
        self.next_cont = self.next_cont.max(no.0 + 1);
        self.conts.insert(no, cont);
    }

    /// Makes a container invisible.
    fn hide(&mut self, no: ContNo) {
        self.by_uuid.retain(|_, found| *found != no);
        self.by_label.retain(|_, found| *found != no);
    }
}

fn snapshots(cont: &Cont) -> Vec<Snapshot> {
    let one = |(&epoch, name): (&Epoch, &Option<String>)| Snapshot { epoch, name: name.clone() };
    cont.snapshots.iter().map(one).collect()
}

fn audits<T: TargetStore>(targets: &Targets<T>, verb: impl Fn() -> Verb<'static>) -> Result<Vec<Audit>> {
    let audit = |reply| match reply {
        Reply::Audited(audit) => audit,
        _ => Audit::default(),
    };
    let replies = targets.ask_all(|_| plain(ContNo::SYSTEM, verb()))?;
    Ok(replies.into_iter().map(audit).collect())
}
