//! Parts of a pool: targets of other engines, as the one with the service looks after them, and how such an engine shows
//! its targets to it.
//!
//! Invariants: a part lets nobody into a container that is closed on any of its targets; what a part is told replaces what
//! it was told before, and what comes later than its successor is passed over: so a message that is lost, overtaken, or comes
//! twice, does no harm.

use crate::elsewhere::Elsewhere;
use crate::inbox::locked;
use crate::pool::{Pool, Trust};
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::quota::{Share, ShareAsk, ShareTold};
use dolmen_codec::verb::InDoubt;
use dolmen_codec::{Answer, Ask, Op, Outcome, QueueId, Request, TargetStore, Transport};
use dolmen_types::{ContNo, Epoch, Error, Head, PropId, PropValue, Props, Result, TargetNo, TxId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// Looks at which a transaction must be found undecided before others settle it: two seconds, longer than a commit takes
/// whose devices are well.
const STALE_LOOKS: u32 = 10;

/// Evictions of one container that a part has not heard of and is told one by one, each with who goes on; if there are more, it
/// is told the last, and nobody goes on.
const UNTOLD_MAX: usize = 16;

/// An engine that has targets of a pool.
pub struct Part {
    rank: u32,
    targets: Range<u16>,
    to: Arc<dyn Transport>,
    /// It did not answer when it was last looked after.
    is_silent: Arc<AtomicBool>,
}

impl Part {
    /// The targets of engine `rank` behind `to`, which lets through what only the service may ask.
    #[must_use]
    pub fn new(rank: u32, targets: Range<u16>, to: Arc<dyn Transport>) -> Self {
        Self { rank, targets, to, is_silent: Arc::default() }
    }

    /// Its targets as stores, in the order of their numbers.
    ///
    /// # Errors
    /// What opening a queue answers.
    pub fn stores(&self) -> Result<Vec<Elsewhere>> {
        let store = |target| {
            let to = (Arc::clone(&self.to), Arc::clone(&self.is_silent));
            Elsewhere::new(self.rank, TargetNo(target), to)
        };
        self.targets.clone().map(store).collect()
    }
}

/// All of them, for the service.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// Guards what was said last, and is held while it is said, so that what is said last is what is true.
    said: Mutex<Said>,
    /// Guards which containers have limits; taken last, for a look.
    limited: Mutex<BTreeSet<ContNo>>,
    /// Guards evictions of which a part has not been told, by part. Taken alone or last, and not held while they are told.
    untold: Mutex<Vec<Untold>>,
    /// Guards what was undecided at the last look, by target, and for how many looks. Taken alone.
    undecided: Mutex<BTreeMap<TargetNo, BTreeMap<TxId, u32>>>,
}

#[derive(Default)]
struct Said {
    /// Targets that a container is closed on, by part.
    closed: Vec<BTreeMap<ContNo, BTreeSet<TargetNo>>>,
    now: Epoch,
}

impl Parts {
    /// Whether the engine with a target understands that an object is given to somebody.
    ///
    /// # Errors
    /// `Unreachable` if that is not known.
    pub(crate) fn takes_gifts(&self, target: TargetNo) -> Result<bool> {
        let part = self.parts.iter().find(|part| part.targets.contains(&target.0));
        part.map_or(Ok(true), |part| part.to.takes_gifts(target))
    }
}

/// Evictions of containers, oldest first.
type Untold = BTreeMap<ContNo, VecDeque<Eviction>>;

/// The bytes of the property, and the client that goes on.
#[derive(Clone, PartialEq, Eq)]
struct Eviction {
    counts: Vec<u8>,
    by: u128,
}

impl Said {
    /// Notes a container as closed on all targets.
    fn close(&mut self, parts: &[Part], cont: ContNo) {
        for (part, closed) in parts.iter().zip(&mut self.closed) {
            closed.insert(cont, part.targets.clone().map(TargetNo).collect());
        }
    }
}

impl Parts {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let closed = parts.iter().map(|_| BTreeMap::new()).collect();
        let untold = Mutex::new(parts.iter().map(|_| Untold::new()).collect());
        let said = Said { closed, now: Epoch::ZERO };
        let (limited, undecided) = (Mutex::default(), Mutex::default());
        Self { parts, said: Mutex::new(said), limited, untold, undecided }
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Whether a target is at another engine.
    pub(crate) fn are_at(&self, target: TargetNo) -> bool {
        self.parts.iter().any(|part| part.targets.contains(&target.0))
    }

    /// The targets of all of them.
    pub(crate) fn targets(&self) -> impl Iterator<Item = TargetNo> + '_ {
        self.parts.iter().flat_map(|part| part.targets.clone()).map(TargetNo)
    }

    /// Says to all what is open, and how late it is; the first error, once all were asked.
    pub(crate) fn look(&self, now: Epoch) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let mut said = locked(&self.said);
        said.now = said.now.max(now);
        let admitted = self.admit_all(&mut said);
        drop(said);
        self.tell_evicted();
        admitted
    }

    /// Notes that handles on a container have been taken, as its properties count it, at the wish of `client`, for all parts to
    /// be told. REQUIRES: of two evictions the earlier is noted first.
    pub(crate) fn note_evicted(&self, cont: ContNo, props: &Props, client: u128) {
        let Some(PropValue::Bytes(counts)) = props.get(&PropId::CO_EVICTIONS) else { return };
        for untold in &mut *locked(&self.untold) {
            let all = untold.entry(cont).or_default();
            let is_full = all.len() >= UNTOLD_MAX;
            if is_full {
                all.clear();
            }
            let by = if is_full { 0 } else { client };
            all.push_back(Eviction { counts: counts.clone(), by });
        }
    }

    /// A container is gone from all targets, and with it whatever handles there were.
    pub(crate) fn forget_evicted(&self, cont: ContNo) {
        for untold in &mut *locked(&self.untold) {
            untold.remove(&cont);
        }
    }

    /// Tells parts what they have not heard of evictions. One that does not answer now is told by the first look that it answers.
    /// What is told twice at a time does no harm.
    pub(crate) fn tell_evicted(&self) {
        for (at, part) in self.parts.iter().enumerate() {
            if part.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            let untold = locked(&self.untold)[at].clone();
            'part: for (cont, evictions) in untold {
                for eviction in evictions {
                    let Eviction { counts: evictions, by } = eviction.clone();
                    let verb = PoolVerb::Evicted { cont, evictions, by };
                    let told =
                        part.to.call(Request { token: 0, head: Head::default(), ask: Ask::Pool(verb) });
                    // One of the version before cannot be told, and has nothing open.
                    if matches!(told.result, Err(Error::Unreachable { .. } | Error::Busy)) {
                        // Nobody waits for it again. Those after this one are told in their order.
                        break 'part;
                    }
                    if let Some(all) = locked(&self.untold)[at].get_mut(&cont) {
                        all.retain(|other| *other != eviction);
                    }
                }
            }
            locked(&self.untold)[at].retain(|_, evictions| !evictions.is_empty());
        }
    }

    /// Notes containers that are closed, before anything is said.
    pub(crate) fn keep_closed(&self, conts: impl Iterator<Item = ContNo>) {
        let mut said = locked(&self.said);
        conts.for_each(|cont| said.close(&self.parts, cont));
    }

    /// Closes a container on all targets of all parts.
    pub(crate) fn close_cont(&self, cont: ContNo) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let mut said = locked(&self.said);
        said.close(&self.parts, cont);
        self.admit_all(&mut said)
    }

    /// Opens a container on a target; clients get in once it is open on all of the part's.
    pub(crate) fn open_cont(&self, target: TargetNo, cont: ContNo) {
        let Some(at) = self.parts.iter().position(|part| part.targets.contains(&target.0)) else { return };
        let mut said = locked(&self.said);
        let Some(left) = said.closed[at].get_mut(&cont) else { return };
        left.remove(&target);
        if left.is_empty() {
            said.closed[at].remove(&cont);
            // Ignored: the next look says it again.
            let _told_later = self.admit(&mut said, at);
        }
    }

    /// Notes that containers have limits, before anything is said.
    pub(crate) fn keep_limited(&self, conts: impl Iterator<Item = ContNo>) {
        locked(&self.limited).extend(conts);
    }

    /// Has all parts take nothing more of a container until they are told their share of its limits.
    ///
    /// # Errors
    /// If one does not answer: then none of them does so for longer than until the next look.
    pub(crate) fn limit_cont(&self, cont: ContNo) -> Result<()> {
        let mut said = locked(&self.said);
        if !locked(&self.limited).insert(cont) {
            return Ok(());
        }
        let told = self.admit_all(&mut said);
        if told.is_err() {
            locked(&self.limited).remove(&cont);
        }
        told
    }

    /// A container has no limits any more. Who does not hear it now is told by the next look.
    pub(crate) fn unlimit_cont(&self, cont: ContNo) {
        let mut said = locked(&self.said);
        let was_limited = locked(&self.limited).remove(&cont);
        if was_limited {
            // Ignored: the next look says it again.
            let _told_later = self.admit_all(&mut said);
        }
    }

    /// A container is gone from all targets: the next look says so.
    pub(crate) fn forget_limited(&self, cont: ContNo) {
        locked(&self.limited).remove(&cont);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The rank of a part.
    pub(crate) fn rank(&self, part: usize) -> u32 {
        self.parts[part].rank
    }

    /// Asks a part something about its share.
    ///
    /// # Errors
    /// `Unreachable`, at once if it did not answer when it was last looked after; what it answers.
    pub(crate) fn ask_share(&self, part: usize, share: Share) -> Result<ShareTold> {
        let Part { rank, to, is_silent, .. } = &self.parts[part];
        if is_silent.load(Ordering::Relaxed) {
            return Err(Error::Unreachable { rank: *rank });
        }
        let ask = Ask::Pool(PoolVerb::Share(Box::new(share)));
        match to.call(Request { token: 0, head: Head::default(), ask }).result? {
            Answer::Pool(PoolReply::Share(told)) => Ok(*told),
            _ => Err(Error::Unreachable { rank: *rank }),
        }
    }

    /// Tells the parts of these targets how many names a transaction moves.
    pub(crate) fn tell_moves(&self, cont: ContNo, at: &[TargetNo], ask: ShareAsk) {
        let takes_part = |part: &Part| at.iter().any(|target| part.targets.contains(&target.0));
        for (number, _) in self.parts.iter().enumerate().filter(|(_, part)| takes_part(part)) {
            // Ignored: see who asks.
            let _told = self.ask_share(number, Share { cont, life: 0, number: 0, ask: ask.clone() });
        }
    }

    fn admit_all(&self, said: &mut Said) -> Result<()> {
        (0..self.parts.len()).map(|part| self.admit(said, part)).fold(Ok(()), Result::and)
    }

    fn admit(&self, said: &mut Said, part: usize) -> Result<()> {
        // Each is later than the one before: one that was overtaken on its way is recognised by that.
        said.now = said.now.next();
        let closed = said.closed[part].keys().copied().collect();
        let limited = locked(&self.limited).iter().copied().collect();
        let ask = Ask::Pool(PoolVerb::Admit { closed, now: said.now, limited });
        let Part { to, is_silent, .. } = &self.parts[part];
        let result = to.call(Request { token: 0, head: Head::default(), ask }).result.map(|_| ());
        is_silent.store(matches!(result, Err(Error::Unreachable { .. })), Ordering::Relaxed);
        result
    }

    /// Those of `listed` that have been undecided on a target for so many looks that their coordinator must have given up.
    pub(crate) fn stale(&self, at: TargetNo, listed: &[InDoubt]) -> Vec<InDoubt> {
        let mut all = locked(&self.undecided);
        let before = all.entry(at).or_default();
        let looks = |tx: &TxId| before.get(tx).map_or(1, |looks| looks.saturating_add(1));
        let now: BTreeMap<TxId, u32> = listed.iter().map(|one| (one.tx, looks(&one.tx))).collect();
        let stale = listed.iter().filter(|one| now.get(&one.tx).is_some_and(|looks| *looks >= STALE_LOOKS));
        let stale = stale.cloned().collect();
        *before = now;
        stale
    }
}

/// What an engine with a part of a pool shows to the one that has the service. `P` is a way to the pool: a reference, so
/// that the part cannot be closed while somebody stands before its door, or a share of it.
pub struct PartDoor<P> {
    pool: P,
}

impl<P> PartDoor<P> {
    /// The door to a part; who stands before it has shown the pool's key.
    #[must_use]
    pub fn new(pool: P) -> Self {
        Self { pool }
    }
}

impl<P, T> Transport for PartDoor<P>
where
    P: Deref<Target = Pool<T>> + Send + Sync,
    T: TargetStore,
{
    fn call(&self, request: Request<'_>) -> Outcome {
        let Request { token, head, ask } = request;
        match ask {
            Ask::Target(target, cont, verb) => {
                self.pool.ask_target(Trust::Service, target, Op { token, head, cont, verb })
            }
            Ask::Pool(PoolVerb::Admit { closed, now, limited }) => {
                let result = self.pool.admit(&closed, now, &limited);
                Outcome { token, result: result.map(Answer::Pool), buf: None }
            }
            Ask::Pool(PoolVerb::Share(share)) => {
                let told = self.pool.share(&share).map(|told| Answer::Pool(PoolReply::Share(Box::new(told))));
                Outcome { token, result: told, buf: None }
            }
            Ask::Pool(_) => Outcome { token, result: Err(Error::NoPermission), buf: None },
        }
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.pool.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.pool.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.pool.submit_as(Trust::Service, queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.pool.poll(queue, wait, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_codec::Answer;
    use dolmen_codec::evictions::Evictions;
    use dolmen_codec::pool::PoolReply;

    /// Keeps which containers it hears of.
    #[derive(Default)]
    struct Hears(Mutex<Vec<ContNo>>);

    impl Transport for Hears {
        fn call(&self, request: Request<'_>) -> Outcome {
            if let Ask::Pool(PoolVerb::Evicted { cont, .. }) = request.ask {
                locked(&self.0).push(cont);
            }
            Outcome { token: request.token, result: Ok(Answer::Pool(PoolReply::Done)), buf: None }
        }

        fn open_queue(&self) -> Result<QueueId> {
            Err(Error::Busy)
        }

        fn close_queue(&self, _queue: QueueId) {}

        fn submit(&self, _queue: QueueId, _request: Request<'static>) {}

        fn poll(&self, _queue: QueueId, _wait: bool, _out: &mut Vec<Outcome>) {}
    }

    #[test]
    fn evictions_of_a_container_that_is_gone_are_told_to_nobody_and_not_kept() {
        let hears = Arc::new(Hears::default());
        let to: Arc<dyn Transport> = Arc::<Hears>::clone(&hears);
        let parts = Parts::new(vec![Part::new(1, 0..1, to)]);
        let counts = PropValue::Bytes(Evictions::of_all(1).encode());
        let props = Props::from([(PropId::CO_EVICTIONS, counts)]);
        [7, 8].iter().for_each(|&no| parts.note_evicted(ContNo(no), &props, 0));
        parts.forget_evicted(ContNo(7));
        assert!(locked(&parts.untold).iter().all(|untold| untold.len() == 1));
        parts.tell_evicted();
        assert_eq!(*locked(&hears.0), [ContNo(8)]);
        assert!(locked(&parts.untold).iter().all(BTreeMap::is_empty));
    }
}
