//! Transactions: buffered writes, reads that see them, one commit.
//!
//! A transaction reads at the epoch of its begin and writes nothing before its commit, which is one message.
//! Targets remember what it read, so that a commit that would make a read untrue is refused: all committed
//! transactions have the effect of running one after the other in the order of their epochs.
//!
//! Conditions are checked when a write is buffered, by such a remembered read; the commit needs no second look.

pub(crate) mod check;
pub(crate) mod merge;
pub(crate) mod overlay;
pub(crate) mod shared;

use crate::client::{Core, MapView, unexpected};
use crate::container::Container;
use crate::event::{Event, Next, Output, Then};
use crate::object::Object;
use crate::split;
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Punch, PunchScope, ReadAt, Update, UpdateIod};
use dolmen_codec::{Answer, Ask, Way, now};
use dolmen_types::limits::TX_MUTATIONS_MAX;
use dolmen_types::{Cond, Epoch, Error, Invalid, IoBuf, Key, Oid, Recx, RequestId, Result, TargetNo, TxId};
use overlay::{ObjectLayer, Overlay};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Conflicts in a row that one `transact`, batch or punch goes on over however long they take.
const CONFLICTS_MIN: u32 = 64;
/// And for how long it goes on over more: as long as a client waits for an engine. Whoever has a line of others before him
/// loses to each.
const CONFLICTS_NS_MAX: u64 = 30_000_000_000;
/// The end under a clock that stands still: more than fit into the time.
const CONFLICTS_MAX: u32 = 1 << 16;
/// Bytes that one transaction may buffer: what a log segment can take and a client can spare.
const TX_BYTES_MAX: usize = 256 << 20;

/// A transaction; `Send` and `Sync`. Dropping it without a commit forgets it.
pub struct Tx {
    cont: Container,
    /// Guards what is buffered; never held while something is asked.
    state: Mutex<State>,
    /// What it shows a past state of; `None` for a transaction.
    shows: Option<Arc<Self>>,
}

struct State {
    epoch: Epoch,
    phase: Phase,
    overlay: Overlay,
    log: Vec<Entry>,
    buffered_bytes: usize,
    /// Kept over repeats of a commit whose answer was lost.
    commit_id: Option<RequestId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Committing,
    MustRestart {
        after: Epoch,
    },
    /// It may be committed: everything is kept as it was sent, to be sent again.
    InDoubt {
        tx: TxId,
    },
    Ended,
}

/// What a read sees from its first request to its last, whatever is written and begun anew meanwhile.
pub(crate) struct Sight {
    pub(crate) at: ReadAt,
    /// What the transaction had written of the object when the read began.
    pub(crate) layer: Option<Arc<ObjectLayer>>,
}

/// What is being committed.
#[derive(Debug)]
struct Commit {
    epoch: Epoch,
    log: Vec<Entry>,
    id: RequestId,
}

/// One buffered mutation.
#[derive(Debug)]
struct Entry {
    object: Arc<Object>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Update {
        dkey: Key,
        iods: Vec<(Key, Value)>,
    },
    Punch(PunchScope),
    /// What there is of the object is charged to whom the object says.
    Give,
}

/// One of the changes that a transaction is to buffer together.
#[derive(Debug)]
pub(crate) enum Staged<'a> {
    Update { dkey: &'a [u8], iods: &'a [UpdateIod<'a>] },
    Punch(PunchScope),
    Give,
}

/// Conflicts in a row, or answers that say nothing of what became of a commit.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    count: u32,
    end_ns: u64,
}

impl Conflicts {
    /// Notes one more; whether it is worth while to try again.
    pub(crate) fn may_try_again(&mut self, core: &Core) -> bool {
        self.may_ask_again(core) || self.count < CONFLICTS_MIN
    }

    /// Notes one more of a commit whose outcome is not known; whether to ask for it again. Who does it anew instead may do it
    /// twice.
    pub(crate) fn may_ask_again(&mut self, core: &Core) -> bool {
        let now_ns = core.clock().monotonic_ns();
        if self.count == 0 {
            self.end_ns = now_ns.saturating_add(CONFLICTS_NS_MAX);
        }
        self.count += 1;
        self.count < CONFLICTS_MAX && now_ns < self.end_ns
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

impl Staged<'_> {
    fn payload_bytes(&self) -> usize {
        match self {
            Self::Update { iods, .. } => iods.iter().map(|iod| payload_of(&iod.value).len()).sum(),
            Self::Punch(_) | Self::Give => 0,
        }
    }
}

#[derive(Debug)]
enum Value {
    Single(Arc<[u8]>),
    NoSingle,
    Array { record_bytes: u64, extents: SmallVec<[Recx; 1]>, data: Arc<[u8]> },
    Hole { extents: SmallVec<[Recx; 1]> },
}

impl Tx {
    pub(crate) async fn begin(way: Way, cont: Container) -> Result<Self> {
        if cont.view_epoch().is_some() {
            return Err(Error::NoPermission);
        }
        let state = State::new(begin_epoch(way, &cont).await?);
        Ok(Self { cont, state: Mutex::new(state), shows: None })
    }

    /// The transaction as it is now, for reads of an object that go on later: they see what is written of that now, and nothing
    /// that is written meanwhile. Nothing can be written or committed in it.
    #[must_use]
    pub fn as_it_is(self: &Arc<Self>, oid: Oid) -> Self {
        let now = self.lock();
        let (phase, overlay) = (now.phase, now.overlay.only(oid));
        let state = Mutex::new(State { phase, overlay, ..State::new(now.epoch) });
        Self { cont: self.cont.clone(), state, shows: Some(Arc::clone(self)) }
    }

    /// The epoch that its reads have and its writes will get.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// The container it was begun in.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.cont
    }

    /// Commits and returns the epoch of its writes. A failure other than a conflict leaves everything buffered:
    /// committing again is safe and returns the first result if that was only lost on its way.
    ///
    /// # Errors
    /// `TxRestart` on a conflict; `InDoubt` and `Unreachable` if it is not known whether it is committed, `InDoubt` after having
    /// asked for 30 s: the transaction takes nothing more then, committing again asks again, and who begins it anew may do it
    /// twice; `Invalid::Count` above `limits::TX_MUTATIONS_MAX` mutations on a target;
    /// `NoSpace`, `RecordSize` and others of the targets, with nothing written.
    pub fn commit(&self) -> Result<Epoch> {
        now(self.commit_by(Way::Now))
    }

    /// As [`Tx::commit`], on a way of the caller's.
    async fn commit_by(&self, way: Way) -> Result<Epoch> {
        let commit = self.begin_commit()?;
        let (core, mut doubts) = (self.cont.core(), Conflicts::default());
        let result = loop {
            let told = match way {
                _ if commit.log.is_empty() => Ok(commit.epoch),
                Way::Now => self.send(&commit),
                Way::Later => self.send_later(&commit).await,
            };
            if !is_in_doubt(&told) || !doubts.may_ask_again(core) {
                break told;
            }
            core.pause_by(way, doubts.count()).await;
        };
        self.end_commit(result, commit)
    }

    /// Takes what is buffered; until `end_commit` the transaction is busy.
    fn begin_commit(&self) -> Result<Commit> {
        self.cont.check_handle()?;
        self.check_own()?;
        let mut state = self.lock();
        if !matches!(state.phase, Phase::InDoubt { .. }) {
            state.check()?;
        }
        state.phase = Phase::Committing;
        let id = *state.commit_id.get_or_insert_with(|| self.cont.core().mutation_id());
        Ok(Commit { epoch: state.epoch, log: core::mem::take(&mut state.log), id })
    }

    /// Ends a commit as its answer says.
    fn end_commit(&self, result: Result<Epoch>, commit: Commit) -> Result<Epoch> {
        let core = self.cont.core();
        match &result {
            Ok(_) if commit.log.is_empty() => core.end_reads(commit.epoch),
            Ok(_) | Err(Error::TxRestart { .. }) => core.forget_reads(commit.epoch),
            Err(_) => {}
        }
        let mut state = self.lock();
        state.phase = match &result {
            Ok(_) => Phase::Ended,
            Err(Error::TxRestart { after }) => Phase::MustRestart { after: *after },
            Err(Error::EpochGone { .. }) => Phase::MustRestart { after: commit.epoch },
            Err(error) => {
                state.log = commit.log;
                match error {
                    Error::InDoubt { tx } => Phase::InDoubt { tx: *tx },
                    Error::Unreachable { .. } => Phase::InDoubt { tx: self.id(commit.epoch) },
                    _ => Phase::Open,
                }
            }
        };
        result
    }

    fn id(&self, begin: Epoch) -> TxId {
        TxId { client: self.cont.core().client(), begin }
    }

    fn send(&self, commit: &Commit) -> Result<Epoch> {
        let core = self.cont.core();
        let answer = core.ask(commit.id, &mut IoBuf::default(), |map, _| {
            Ok(Ask::Pool(PoolVerb::TxCommit(self.request(commit, map, Value::borrowed)?)))
        })?;
        committed(answer)
    }

    /// As [`Tx::send`], with values of the request's own.
    async fn send_later(&self, commit: &Commit) -> Result<Epoch> {
        let make = |map| Ok(Ask::Pool(PoolVerb::TxCommit(self.request(commit, map, Value::owned)?)));
        committed(self.cont.core().ask_by(Way::Later, commit.id, make).await?)
    }

    fn request<'l, 'o>(
        &self,
        commit: &'l Commit,
        map: MapView,
        value: impl Fn(&'l Value) -> NewValue<'o>,
    ) -> Result<TxCommit<'o>> {
        let (tx, epoch) = (self.id(commit.epoch), commit.epoch);
        let parts = parts(&commit.log, map, value)?;
        let read = self.cont.core().only_read(epoch, parts.iter().map(|(target, _)| target));
        Ok(TxCommit { cont: self.cont.no(), tx, epoch, parts, read })
    }

    /// Launches [`Tx::commit`]; gives [`Output::Written`](crate::Output::Written). Until that completes the
    /// transaction is `Busy`; called off, or with its queue closed before, it is in doubt.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready; `TxRestart`, `Busy`, `Invalid::Argument` if the transaction cannot be
    /// committed. Everything else is the event's.
    pub fn commit_on(self: &Arc<Self>, event: &mut Event) -> Result<()> {
        event.check_ready(self.cont.core())?;
        let commit = self.begin_commit()?;
        let next = match self.next(&commit) {
            Ok(Some(next)) => next,
            empty_or_refused => {
                let result = empty_or_refused.map(|_| commit.epoch);
                return event.run(|| self.end_commit(result, commit).map(Output::Written));
            }
        };
        let mut asked = Asked { tx: Arc::clone(self), commit: Some(commit), doubts: Conflicts::default() };
        event.launch_step(next, Box::new(move |answer| asked.go_on(answer.and_then(committed))))
    }

    /// The question of a commit; none if there is nothing to commit.
    fn next(&self, commit: &Commit) -> Result<Option<Next>> {
        let map = self.cont.core().map();
        let request = self.request(commit, map, Value::owned)?;
        let is_empty = request.parts.is_empty();
        let ask = Ask::Pool(PoolVerb::TxCommit(request));
        Ok((!is_empty).then_some(Next { id: commit.id, map_version: map.version, ask }))
    }

    /// Forgets everything buffered and ends the transaction. Doing so again is harmless.
    pub fn abort(&self) {
        let mut state = self.lock();
        let epoch = state.epoch;
        *state = State { phase: Phase::Ended, ..State::new(epoch) };
        drop(state);
        self.end_reads(epoch);
    }

    /// What was read at this epoch need not be kept.
    fn end_reads(&self, epoch: Epoch) {
        // What only shows a transaction has not ended with it.
        if self.shows.is_none() {
            self.cont.core().end_reads(epoch);
        }
    }

    /// Begins anew under the same handle: everything buffered is forgotten, the epoch is a new one.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn restart(&self) -> Result<()> {
        now(self.restart_by(Way::Now))
    }

    /// As [`Tx::restart`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Tx::restart`].
    pub async fn restart_by(&self, way: Way) -> Result<()> {
        self.end_reads(self.epoch());
        let epoch = begin_epoch(way, &self.cont).await?;
        *self.lock() = State::new(epoch);
        Ok(())
    }

    /// Whether a conflict was met, so that only [`Tx::restart`] leads on.
    #[must_use]
    pub fn must_restart(&self) -> bool {
        matches!(self.lock().phase, Phase::MustRestart { .. })
    }

    pub(crate) fn is_of(&self, cont: &Container) -> bool {
        self.cont.is_same(cont)
    }

    pub(crate) fn read_epoch(&self) -> Result<ReadAt> {
        let state = self.lock();
        state.check()?;
        Ok(ReadAt::Tx(state.epoch))
    }

    /// What a read of an object sees that begins now.
    pub(crate) fn sight(&self, oid: Oid) -> Result<Sight> {
        let state = self.lock();
        state.check()?;
        Ok(Sight { at: ReadAt::Tx(state.epoch), layer: state.overlay.object(oid).cloned() })
    }

    /// Remembers a conflict that a read at this epoch met, unless the transaction was begun anew since.
    pub(crate) fn note(&self, read_at: ReadAt, error: &Error) {
        if let Some(shown) = &self.shows {
            shown.note(read_at, error);
        }
        let mut state = self.lock();
        if state.phase == Phase::Open && read_at == ReadAt::Tx(state.epoch) {
            match error {
                Error::TxRestart { after } => state.phase = Phase::MustRestart { after: *after },
                Error::InDoubt { .. } => state.phase = Phase::MustRestart { after: state.epoch },
                _ => {}
            }
        }
    }

    pub(crate) fn update(
        &self,
        object: &Object,
        dkey: &[u8],
        cond: Cond,
        iods: &[UpdateIod<'_>],
    ) -> Result<Epoch> {
        now(self.update_by(Way::Now, object, dkey, cond, iods))
    }

    /// As [`Tx::update`], on a way of the caller's: it is buffered when its conditions are known to hold.
    ///
    /// # Errors
    /// `Canceled` if the transaction was begun anew meanwhile.
    pub(crate) async fn update_by(
        &self,
        way: Way,
        object: &Object,
        dkey: &[u8],
        cond: Cond,
        iods: &[UpdateIod<'_>],
    ) -> Result<Epoch> {
        check::update(object, dkey, iods)?;
        let sight = self.sight(object.oid())?;
        let at = sight.at;
        let is_met = merge::check_update(way, object, &sight, dkey, cond, iods).await;
        drop(sight);
        is_met.inspect_err(|error| self.note(at, error))?;
        self.buffer(object, &[Staged::Update { dkey, iods }], Some(at))
    }

    pub(crate) fn punch(&self, object: &Object, scope: PunchScope, cond: Cond) -> Result<Epoch> {
        check::punch(object, &scope)?;
        if cond.has(Cond::PUNCH) {
            let sight = self.sight(object.oid())?;
            now(merge::check_punch(Way::Now, object, &sight, &scope))
                .inspect_err(|error| self.note(sight.at, error))?;
        }
        self.buffer(object, &[Staged::Punch(scope)], None)
    }

    /// Buffers changes of an object in their order, all of them or none.
    ///
    /// REQUIRES: all arrays written have records of one size: whether they fit is asked of what was there before.
    pub(crate) fn change(&self, object: &Object, changes: &[Staged<'_>]) -> Result<Epoch> {
        for change in changes {
            match change {
                Staged::Update { dkey, iods } => check::update(object, dkey, iods)?,
                Staged::Punch(scope) => check::punch(object, scope)?,
                Staged::Give => {}
            }
        }
        self.buffer(object, changes, None)
    }

    /// Buffers changes, of a transaction that stands where it stood when their conditions were looked at.
    fn buffer(&self, object: &Object, changes: &[Staged<'_>], looked_at: Option<ReadAt>) -> Result<Epoch> {
        self.check_own()?;
        let mut state = self.lock();
        state.check()?;
        if looked_at.is_some_and(|at| at != ReadAt::Tx(state.epoch)) {
            return Err(Error::Canceled);
        }
        state.buffer(object, changes)?;
        Ok(state.epoch)
    }

    /// # Errors
    /// `NoPermission` for what only shows a transaction.
    fn check_own(&self) -> Result<()> {
        if self.shows.is_some() { Err(Error::NoPermission) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread cannot leave it half changed: nothing in here calls out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        self.end_reads(self.epoch());
    }
}

impl core::fmt::Debug for Tx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.lock();
        f.debug_struct("Tx")
            .field("epoch", &state.epoch)
            .field("phase", &state.phase)
            .field("mutations", &state.log.len())
            .finish_non_exhaustive()
    }
}

impl State {
    fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            phase: Phase::Open,
            overlay: Overlay::default(),
            log: Vec::new(),
            buffered_bytes: 0,
            commit_id: None,
        }
    }

    /// # Errors
    /// `TxRestart` after a conflict; `InDoubt` if it may be committed; `Invalid::Argument` if it has ended; `Busy` while another
    /// thread commits it.
    fn check(&self) -> Result<()> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Committing => Err(Error::Busy),
            Phase::MustRestart { after } => Err(Error::TxRestart { after }),
            Phase::InDoubt { tx } => Err(Error::InDoubt { tx }),
            Phase::Ended => Err(Invalid::Argument.into()),
        }
    }

    /// Whatever can be refused is refused before the first piece is there: a commit after it would write a part.
    fn buffer(&mut self, object: &Object, changes: &[Staged<'_>]) -> Result<()> {
        let bytes: usize = changes.iter().map(Staged::payload_bytes).sum();
        if self.buffered_bytes + bytes > TX_BYTES_MAX {
            return Err(Invalid::Payload.into());
        }
        let mut cut = SmallVec::<[_; 1]>::with_capacity(changes.len());
        for change in changes {
            if let Staged::Update { dkey, iods } = change {
                iods.iter().try_for_each(|iod| self.check_record_bytes(object.oid(), dkey, iod))?;
                cut.push(if iods.iter().any(split::is_needed) { split::pieces(iods)? } else { Vec::new() });
            } else {
                cut.push(Vec::new());
            }
        }
        self.buffered_bytes += bytes;
        let object = Arc::new(object.clone());
        for (change, pieces) in changes.iter().zip(&cut) {
            match change {
                Staged::Update { dkey, iods } if pieces.is_empty() => self.push_update(&object, dkey, iods),
                Staged::Update { dkey, .. } => {
                    pieces.iter().for_each(|piece| self.push_update(&object, dkey, piece));
                }
                Staged::Give => self.log.push(Entry { object: Arc::clone(&object), change: Change::Give }),
                Staged::Punch(scope) => {
                    self.overlay.punch(object.oid(), scope);
                    let change = Change::Punch(scope.clone());
                    self.log.push(Entry { object: Arc::clone(&object), change });
                }
            }
        }
        Ok(())
    }

    fn push_update(&mut self, object: &Arc<Object>, dkey: &[u8], iods: &[UpdateIod<'_>]) {
        let mut values = Vec::with_capacity(iods.len());
        for iod in iods {
            let payload: Arc<[u8]> = Arc::from(payload_of(&iod.value));
            self.overlay.update(object.oid(), dkey, iod, &payload);
            values.push((iod.akey.clone(), Value::of(&iod.value, payload)));
        }
        let change = Change::Update { dkey: Key::from_slice(dkey), iods: values };
        self.log.push(Entry { object: Arc::clone(object), change });
    }

    /// Records of one array have one size as long as any of them is there.
    fn check_record_bytes(&self, oid: Oid, dkey: &[u8], iod: &UpdateIod<'_>) -> Result<()> {
        let NewValue::Array { record_bytes, .. } = &iod.value else { return Ok(()) };
        match self.overlay.object(oid).and_then(|object| object.akey(dkey, &iod.akey).0) {
            Some(akey) if akey.has_records() && akey.record_bytes != *record_bytes => {
                Err(Error::RecordSize { stored_bytes: akey.record_bytes })
            }
            _ => Ok(()),
        }
    }
}

impl Value {
    fn of(value: &NewValue<'_>, payload: Arc<[u8]>) -> Self {
        match value {
            NewValue::Single(_) => Self::Single(payload),
            NewValue::NoSingle => Self::NoSingle,
            NewValue::Array { record_bytes, extents, .. } => {
                Self::Array { record_bytes: *record_bytes, extents: extents.clone(), data: payload }
            }
            NewValue::Hole { extents } => Self::Hole { extents: extents.clone() },
        }
    }

    /// The value with its own copy of the bytes.
    fn owned(&self) -> NewValue<'static> {
        let copy = |bytes: &[u8]| Payload::Owned(IoBuf::copy_of(bytes));
        match self {
            Self::Single(bytes) => NewValue::Single(copy(bytes)),
            Self::NoSingle => NewValue::NoSingle,
            Self::Array { record_bytes, extents, data } => {
                NewValue::Array { record_bytes: *record_bytes, extents: extents.clone(), data: copy(data) }
            }
            Self::Hole { extents } => NewValue::Hole { extents: extents.clone() },
        }
    }

    fn borrowed(&self) -> NewValue<'_> {
        match self {
            Self::Single(bytes) => NewValue::Single(Payload::Ref(bytes)),
            Self::NoSingle => NewValue::NoSingle,
            Self::Array { record_bytes, extents, data } => NewValue::Array {
                record_bytes: *record_bytes,
                extents: extents.clone(),
                data: Payload::Ref(data),
            },
            Self::Hole { extents } => NewValue::Hole { extents: extents.clone() },
        }
    }
}

fn payload_of<'a>(value: &'a NewValue<'_>) -> &'a [u8] {
    match value {
        NewValue::Single(payload) | NewValue::Array { data: payload, .. } => payload.bytes(),
        NewValue::NoSingle | NewValue::Hole { .. } => &[],
    }
}

/// A commit that is asked for on an event.
struct Asked {
    tx: Arc<Tx>,
    /// Until it has ended.
    commit: Option<Commit>,
    doubts: Conflicts,
}

impl Asked {
    fn go_on(&mut self, told: Result<Epoch>) -> Then {
        let Some(commit) = self.commit.take() else { return Then::Done(Err(unexpected())) };
        if is_in_doubt(&told)
            && self.doubts.may_ask_again(self.tx.cont.core())
            && let Ok(Some(again)) = self.tx.next(&commit)
        {
            self.commit = Some(commit);
            return Then::Ask(again);
        }
        Then::Done(self.tx.end_commit(told, commit).map(Output::Written))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.take() {
            let tx = self.tx.id(commit.epoch);
            // Ignored: whoever commits again is told.
            let _not_told = self.tx.end_commit(Err(Error::InDoubt { tx }), commit);
        }
    }
}

/// Whether an answer says nothing of what became of a commit. What undecided transactions of others refuse is in doubt, too, if
/// it was sent before.
pub(crate) fn is_in_doubt(told: &Result<Epoch>) -> bool {
    matches!(told, Err(Error::InDoubt { .. }))
}

/// The epoch that a commit answered with.
pub(crate) fn committed(answer: Answer) -> Result<Epoch> {
    match answer {
        Answer::Pool(PoolReply::Epoch(epoch)) => Ok(epoch),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn begin_epoch(way: Way, cont: &Container) -> Result<Epoch> {
    cont.check_handle()?;
    match cont.core().ask_pool_by(way, cont.core().read_id(), || PoolVerb::TxBegin).await? {
        PoolReply::Epoch(epoch) => Ok(epoch),
        _ => Err(unexpected()),
    }
}

/// The mutations by target, in program order on each.
fn parts<'l, 'o>(
    log: &'l [Entry],
    map: MapView,
    new_value: impl Fn(&'l Value) -> NewValue<'o>,
) -> Result<Vec<(TargetNo, Vec<Mutation<'o>>)>> {
    let mut parts: BTreeMap<TargetNo, Vec<Mutation<'o>>> = BTreeMap::new();
    for entry in log {
        let oid = entry.object.oid();
        match &entry.change {
            Change::Update { dkey, iods } => {
                let iods = iods.iter().map(|(akey, value)| {
                    let (akey, value) = (akey.clone(), new_value(value));
                    UpdateIod { akey, cond: Cond::NONE, value }
                });
                let (iods, charged) = (iods.collect(), entry.object.charged());
                let update = Update { oid, dkey: dkey.clone(), cond: Cond::NONE, iods, charged };
                parts.entry(entry.object.target(map, dkey)?).or_default().push(Mutation::Update(update));
            }
            Change::Give => {
                for target in entry.object.targets(map)? {
                    let (dkey, iods, charged) = (Key::new(), SmallVec::new(), entry.object.charged());
                    let gift = Update { oid, dkey, cond: Cond::NONE, iods, charged };
                    parts.entry(target).or_default().push(Mutation::Update(gift));
                }
            }
            Change::Punch(scope) => {
                let targets = match scope {
                    PunchScope::Object => entry.object.targets(map)?,
                    PunchScope::Dkey(dkey) | PunchScope::Akeys(dkey, _) => {
                        SmallVec::from_slice(&[entry.object.target(map, dkey)?])
                    }
                };
                for target in targets {
                    let punch = Punch { oid, scope: scope.clone(), cond: Cond::NONE };
                    parts.entry(target).or_default().push(Mutation::Punch(punch));
                }
            }
        }
    }
    if parts.values().any(|mutations| mutations.len() > TX_MUTATIONS_MAX) {
        return Err(Invalid::Count.into());
    }
    Ok(parts.into_iter().collect())
}

/// The loop behind `Container::transact`.
pub(crate) async fn transact<T, E: From<Error>, F>(
    way: Way,
    cont: &Container,
    mut body: impl FnMut(Arc<Tx>) -> F,
) -> core::result::Result<T, E>
where
    F: Future<Output = core::result::Result<T, E>>,
{
    let tx = Arc::new(Tx::begin(way, cont.clone()).await?);
    let mut conflicts = Conflicts::default();
    loop {
        let conflict = match body(Arc::clone(&tx)).await {
            Err(error) if !tx.must_restart() => {
                tx.abort();
                return Err(error);
            }
            Err(conflict) => conflict,
            Ok(value) => match tx.commit_by(way).await {
                Ok(_) => return Ok(value),
                Err(error) if !tx.must_restart() => return Err(error.into()),
                Err(conflict) => conflict.into(),
            },
        };
        if !conflicts.may_try_again(cont.core()) {
            return Err(conflict);
        }
        cont.core().pause_by(way, conflicts.count()).await;
        tx.restart_by(way).await?;
    }
}
