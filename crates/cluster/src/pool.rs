//! A pool in this process: its targets and its service behind the client's `Transport`.
//!
//! Invariants: clients reach the service's own container, and change what targets know of containers, only
//! through the service; every request put on a queue gives exactly one outcome.

use crate::accounts::is_limit;
use crate::commit::may_wait_for;
use crate::copy;
use crate::dispatch::{Targets, plain};
use crate::doubt::Doubt;
use crate::hlc::Hlc;
use crate::inbox::{Dest, Finished, Outbox, locked};
use crate::resolve;
use crate::service::{PoolIdentity, Service};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_codec::pool::{ContHandle, PoolReply};
use dolmen_codec::quota::{Account, Share, ShareAsk, ShareTold, Told, Verdict};
use dolmen_codec::verb::{ContVerb, Reply, Verb};
use dolmen_codec::{
    Answer, Ask, Completion, Op, Outcome, Progress, QueueId, Request, TargetStore, Transport,
};
use dolmen_types::{ContNo, Epoch, Error, Invalid, RequestId, Result, TargetNo, TxId, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

/// Completion queues of one pool: one for each thread of a large node.
const QUEUES_MAX: usize = 1024;

/// Attempts of a prepare that meets an earlier transaction: 30 ms, after which its coordinator looks for what is wrong.
const PREPARE_ATTEMPTS_MAX: u32 = 6;

/// Attempts of an operation that a limit refuses, each after what nobody sees was freed: the others may have overwritten more
/// meanwhile, at the limit, so that it does not fit although it would.
const LIMIT_ATTEMPTS_MAX: u32 = 8;

/// How long an operation waits for its engine to be told whether there is room for it. The engine with the service looks after that fifty
/// times a second, and waits for no engine that does not answer but once.
const SHARE_PATIENCE: Duration = Duration::from_secs(10);

/// Requests to the service that may wait on one queue.
const POOL_REQUESTS_MAX: usize = 4096;

/// A pool whose targets are in this process, or those of them that a part has.
pub struct Pool<T> {
    targets: Targets<T>,
    role: Role,
    /// Guards the list of queues; written when one is opened or closed. Taken before all other locks.
    queues: RwLock<Vec<Option<Arc<Queue>>>>,
}

/// On whose behalf a target is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    Client,
    Service,
}

/// Whether the pool's service is here.
enum Role {
    Service(Service),
    Part {
        identity: PoolIdentity,
        clock: Hlc,
        /// Guards what the service has let clients into; `None` before it has. Taken before the targets' locks.
        closed: Mutex<Option<Admitted>>,
        admitted: Condvar,
        /// It has: limits are known here.
        is_admitted: AtomicBool,
    },
}

/// What the service has said last.
struct Admitted {
    closed: BTreeSet<ContNo>,
    at: Epoch,
}

struct Queue {
    outbox: Arc<Outbox>,
    /// Guards what waits for a poller: requests to the service, and outcomes that needed no target.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request<'static>>,
    outcomes: Vec<Outcome>,
    /// Operations that have met an undecided transaction, to be repeated by a poller that does not wait.
    later: Vec<Later>,
    /// For what those were put off that are under way again, by token.
    doubts: BTreeMap<u64, Doubt>,
    /// How often those that a limit has refused and that are under way again were repeated, by token.
    repeated: BTreeMap<u64, u32>,
    /// Operations that a limit has refused, until what nobody sees is freed.
    starved: VecDeque<Starved>,
}

impl Waiting {
    /// Those that have come to their end are not repeated any more.
    fn forget_repeated(&mut self, finished: &[(TargetNo, Finished<'static>)]) {
        if self.repeated.is_empty() && self.doubts.is_empty() {
            return;
        }
        for (_, ended) in finished.iter().filter(|(_, finished)| finished.again.is_none()) {
            self.repeated.remove(&ended.completion.token);
            self.doubts.remove(&ended.completion.token);
        }
    }
}

/// An operation that is repeated once something was decided on its target, or after a while.
struct Later {
    target: TargetNo,
    op: Op<'static>,
    doubt: Doubt,
    /// Decisions on the target when it met the transaction.
    seen: u64,
}

/// An operation that is repeated once its container is aggregated.
struct Starved {
    target: TargetNo,
    op: Op<'static>,
    /// How far its container is. It has not begun without.
    reach: Option<Reach>,
    /// When it gives up, if its engine has a share of the limit.
    end_ns: u64,
}

/// How far what nobody sees of a container is freed.
#[derive(Clone, Copy)]
struct Reach {
    /// Changes before it.
    changes: u64,
    upto: Epoch,
    /// The target that is under way.
    target: TargetNo,
}

impl<T: TargetStore> Pool<T> {
    /// Has this part take nothing more of containers with limits until it is told its share, and forget limits that are no more.
    fn keep_limited(&self, limited: &[ContNo], clock: &Hlc) -> Result<()> {
        let accounts = self.targets.accounts();
        for cont in accounts.conts().into_iter().filter(|cont| !limited.contains(cont)) {
            // Who waits is let through. What counts in it is left with it.
            accounts.find(cont).iter().for_each(|account| account.unfreeze());
            accounts.forget(cont);
        }
        for &cont in limited {
            if accounts.find(cont).is_some_and(|account| account.is_shared()) {
                continue;
            }
            match self.targets.begin_account(cont) {
                Ok(account) => account.freeze(clock.tick().0),
                // What is destroyed, or not made here yet, has nothing here.
                Err(Error::NoContainer) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Does what the service says of this part's shares.
    pub(crate) fn share(&self, share: &Share) -> Result<ShareTold> {
        let Role::Part { .. } = &self.role else { return Err(Error::NoPermission) };
        let accounts = self.targets.accounts();
        if share.ask == ShareAsk::Short {
            let is_short = |cont: &ContNo| accounts.find(*cont).is_some_and(|account| account.is_short());
            return Ok(ShareTold::Short(accounts.conts().into_iter().filter(is_short).collect()));
        }
        let told = match accounts.find(share.cont) {
            Some(account) => account.share(share.life, share.number, &share.ask),
            None => Told { used: self.targets.charges(share.cont)?, ..Told::default() },
        };
        Ok(ShareTold::Account(told))
    }

    /// Hands shares of limits out to engines whose writers wait for them; whether containers have limits. To be done often.
    pub fn look_after_shares(&self) -> bool {
        match &self.role {
            Role::Service(service) => service.look_after_shares(&self.targets),
            Role::Part { .. } => false,
        }
    }

    /// `look_after_shares` is done often from now on: who needs room waits for it, and does not look for it himself.
    pub fn hand_out_by_thread(&self) {
        self.targets.accounts().shares.hand_out_by_thread();
    }

    /// A pool of targets and the service that was opened on them.
    #[must_use]
    pub fn new(targets: Targets<T>, service: Service) -> Self {
        Self { targets, role: Role::Service(service), queues: RwLock::new(Vec::new()) }
    }

    /// A part of a pool, whose service is at another engine. Of the targets only those of the part are asked for anything.
    #[must_use]
    pub fn part(targets: Targets<T>, identity: PoolIdentity, clock: Hlc) -> Self {
        let (closed, admitted, is_admitted) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        let role = Role::Part { identity, clock, closed, admitted, is_admitted };
        Self { targets, role, queues: RwLock::new(Vec::new()) }
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Targets<T> {
        &self.targets
    }

    /// The pool, with its map.
    #[must_use]
    pub fn identity(&self) -> &PoolIdentity {
        match &self.role {
            Role::Service(service) => service.identity(),
            Role::Part { identity, .. } => identity,
        }
    }

    /// Looks after parts of the pool at other engines, a few times a second: lets clients in where one has started anew,
    /// and settles transactions that nobody decides. Waits for engines that do not answer.
    pub fn look_after_parts(&self) {
        if let Role::Service(service) = &self.role {
            service.look_after_parts(&self.targets);
        }
    }

    /// Waits until the service has let clients into this part; false if it has not within `limit`. A pool with its service
    /// is always open.
    pub fn wait_admitted(&self, limit: Duration) -> bool {
        let Role::Part { closed, admitted, .. } = &self.role else { return true };
        let is_waiting = |closed: &mut Option<Admitted>| closed.is_none();
        let waited = admitted.wait_timeout_while(locked(closed), limit, is_waiting);
        let (closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        closed.is_some()
    }

    /// A container by its UUID, without a handle on it: what an engine with a part is told.
    ///
    /// # Errors
    /// `NotFound`; `NoPermission` of a part, which has no service.
    pub fn look(&self, uuid: Uuid) -> Result<ContHandle> {
        match &self.role {
            Role::Service(service) => service.look(uuid),
            Role::Part { .. } => Err(Error::NoPermission),
        }
    }

    /// Carries out what the service says of its containers.
    pub(crate) fn admit(&self, closed: &[ContNo], now: Epoch, limited: &[ContNo]) -> Result<PoolReply> {
        let Role::Part { closed: known, admitted, clock, is_admitted, .. } = &self.role else {
            return Err(Error::NoPermission);
        };
        let mut known = locked(known);
        let before = match &*known {
            // It was overtaken by one that was said later.
            Some(last) if now <= last.at => return Ok(PoolReply::Done),
            Some(last) => last.closed.clone(),
            None => {
                self.targets.refuse_older(now);
                self.raise_floors(now)?;
                BTreeSet::new()
            }
        };
        // Before clients are let in.
        self.keep_limited(limited, clock)?;
        let next: BTreeSet<ContNo> = closed.iter().copied().collect();
        for &cont in next.difference(&before) {
            self.targets.close_here(cont);
        }
        for &cont in before.difference(&next) {
            self.targets.numbers().for_each(|target| self.targets.open_cont(target, cont));
        }
        *known = Some(Admitted { closed: next, at: now });
        is_admitted.store(true, Ordering::Release);
        admitted.notify_all();
        Ok(PoolReply::Done)
    }

    /// Epochs of the targets of this part go on above `now`.
    fn raise_floors(&self, now: Epoch) -> Result<()> {
        for answer in self.targets.call_all(|_| plain(ContNo::SYSTEM, Verb::Cont(ContVerb::RaiseFloor(now))))
        {
            match answer.result {
                Err(Error::Unreachable { .. }) | Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One bounded piece of background work.
    pub fn step(&self) -> Progress {
        self.targets.step()
    }

    /// Finishes what is under way and gives the stores back, by target number.
    #[must_use]
    pub fn into_stores(self) -> Vec<T> {
        self.targets.into_stores()
    }

    /// Whether something would be taken by a part that does not know yet which containers have limits.
    fn is_early(&self, op: &Op<'_>) -> bool {
        let is_new = |is_admitted: &AtomicBool| !is_admitted.load(Ordering::Acquire);
        matches!(op.verb, Verb::Prepare(_))
            && matches!(&self.role, Role::Part { is_admitted, .. } if is_new(is_admitted))
    }

    /// Why a target is not asked; the service is believed in everything.
    #[inline]
    fn refusal(&self, trust: Trust, op: &Op<'_>) -> Option<Error> {
        if trust == Trust::Service {
            return self.is_early(op).then_some(Error::TxRestart { after: Epoch::ZERO });
        }
        let Op { head, cont, verb, .. } = op;
        let version = self.identity().map.version;
        if head.map_version != 0 && head.map_version < version {
            return Some(Error::StaleMap { version });
        }
        match verb {
            Verb::Cont(ContVerb::Usage | ContVerb::Aggregate(_)) => None,
            // Transactions over several targets are their coordinator's alone, in every step.
            Verb::Cont(_)
            | Verb::Prepare(_)
            | Verb::Commit(_)
            | Verb::Abort(_)
            | Verb::Conclude(_)
            | Verb::TxState(_)
            | Verb::InDoubt
            | Verb::Unconcluded => Some(Error::NoPermission),
            Verb::Update(_) | Verb::Punch(_) | Verb::Fetch(_) | Verb::List(_) | Verb::Query(_)
                if *cont == ContNo::SYSTEM =>
            {
                Some(Error::NoPermission)
            }
            _ => None,
        }
    }

    pub(crate) fn ask_target(&self, trust: Trust, target: TargetNo, op: Op<'_>) -> Outcome {
        match self.refusal(trust, &op) {
            Some(error) => refused(op, error),
            None if self.is_limited(&op) => outcome(self.call_within_limits(target, op)),
            None => outcome(self.targets.call(target, op)),
        }
    }

    /// Whether a limit may refuse an operation that is repeated then.
    #[inline]
    fn is_limited(&self, op: &Op<'_>) -> bool {
        matches!(op.verb, Verb::Update(_)) && self.targets.accounts().find(op.cont).is_some()
    }

    /// Carries out an operation that a limit may refuse: only after what nobody sees was freed.
    fn call_within_limits(&self, target: TargetNo, mut op: Op<'_>) -> Completion {
        if let Some(account) = self.targets.accounts().find(op.cont).filter(|account| account.is_shared()) {
            return self.call_within_share(&account, target, op);
        }
        for _ in 0..LIMIT_ATTEMPTS_MAX {
            let completion = self.targets.call(target, copy::borrowed(&mut op));
            if !is_limit(&completion.result) || !self.free_unseen(op.cont) {
                return completion;
            }
        }
        self.targets.call(target, op)
    }

    /// The same where this engine has a share of the limits: for as long as there is room anywhere, it is given some.
    fn call_within_share(&self, account: &Account, target: TargetNo, mut op: Op<'_>) -> Completion {
        let (id, cont) = (op.head.id, op.cont);
        loop {
            let completion = self.targets.call(target, copy::borrowed(&mut op));
            if !is_limit(&completion.result) {
                return completion;
            }
            match self.await_room(account, cont, id) {
                Verdict::Room => {}
                Verdict::Full => break,
                Verdict::Waits => {
                    account.forget_wish(id);
                    let result = Err(self.nobody_hands_out());
                    return Completion { result, ..completion };
                }
            }
        }
        // It may fit by what has become free meanwhile.
        let completion = self.targets.call(target, op);
        account.forget_wish(id);
        completion
    }

    fn await_room(&self, account: &Account, cont: ContNo, id: RequestId) -> Verdict {
        match &self.role {
            Role::Service(service) if !self.targets.accounts().shares.are_handed_out_by_thread() => {
                // Ignored: then there is no verdict.
                let _found = service.find_room(&self.targets, cont, None);
                account.verdict(id)
            }
            _ => account.await_verdict(id, SHARE_PATIENCE),
        }
    }

    /// What is told where the engine with the service does not answer.
    fn nobody_hands_out(&self) -> Error {
        Error::Unreachable { rank: self.identity().map.targets.first().map_or(0, |target| target.rank) }
    }

    /// Begins an operation once more for which there may be room, or tells that there is nobody who knows; `Some` if it waits on.
    fn feed_shared(
        &self,
        account: &Account,
        queue: &Queue,
        starved: Starved,
        out: &mut Vec<Outcome>,
    ) -> Option<Starved> {
        let (id, token) = (starved.op.head.id, starved.op.token);
        if let Role::Service(service) = &self.role
            && !self.targets.accounts().shares.are_handed_out_by_thread()
        {
            // Ignored: then there is no verdict.
            let _found = service.find_room(&self.targets, starved.op.cont, None);
        }
        match account.verdict(id) {
            Verdict::Waits if self.now_ns() < starved.end_ns => return Some(starved),
            Verdict::Waits => {
                account.forget_wish(id);
                locked(&queue.waiting).repeated.remove(&token);
                out.push(refused(starved.op, self.nobody_hands_out()));
                return None;
            }
            // As often as others have what was found for it.
            Verdict::Room => locked(&queue.waiting).repeated.insert(token, 0),
            // Once more: it may fit by what has become free meanwhile.
            Verdict::Full => locked(&queue.waiting).repeated.insert(token, LIMIT_ATTEMPTS_MAX),
        };
        self.targets.start_queued(starved.target, starved.op, &queue.outbox);
        None
    }

    /// Frees what nobody sees of a container; `false` if there is nothing, or it cannot be.
    fn free_unseen(&self, cont: ContNo) -> bool {
        match &self.role {
            Role::Service(service) => service.free_unseen(&self.targets, cont).is_ok_and(|ran| ran),
            Role::Part { .. } => false,
        }
    }

    /// One bounded step towards what `free_unseen` does, for the first that waits for it, which is repeated after the last. Who may
    /// `wait` repeats all, patiently.
    fn feed_starved(&self, queue: &Queue, wait: bool, out: &mut Vec<Outcome>) {
        while wait && let Some(Starved { target, op, .. }) = { locked(&queue.waiting).starved.pop_front() } {
            out.push(outcome(self.call_within_limits(target, op)));
        }
        let waiting = core::mem::take(&mut locked(&queue.waiting).starved);
        let mut left = VecDeque::new();
        for starved in waiting {
            let account = self.targets.accounts().find(starved.op.cont).filter(|account| account.is_shared());
            match account {
                Some(account) => left.extend(self.feed_shared(&account, queue, starved, out)),
                None => left.push_back(starved),
            }
        }
        locked(&queue.waiting).starved.extend(left);
        let is_shared = |starved: &Starved| {
            self.targets.accounts().find(starved.op.cont).is_some_and(|account| account.is_shared())
        };
        let mut waiting = locked(&queue.waiting);
        let at = waiting.starved.iter().position(|starved| !is_shared(starved));
        let Some(mut first) = at.and_then(|at| waiting.starved.remove(at)) else { return };
        drop(waiting);
        // What cannot be is told by its target.
        let is_done = self.free_on(&mut first).unwrap_or(true);
        if is_done {
            self.targets.start_queued(first.target, first.op, &queue.outbox);
        } else {
            locked(&queue.waiting).starved.push_front(first);
        }
    }

    /// Whether the container of an operation is aggregated to the end.
    fn free_on(&self, starved: &mut Starved) -> Result<bool> {
        let Role::Service(service) = &self.role else { return Err(Error::NoPermission) };
        let cont = starved.op.cont;
        let account = self.targets.accounts().find(cont).ok_or(Error::NoContainer)?;
        let mut reach = match starved.reach {
            Some(reach) => reach,
            None => {
                let changes = account.changes();
                let upto = service.aggregable_now(&self.targets, cont)?;
                Reach { changes, upto, target: TargetNo(0) }
            }
        };
        let verb = Verb::Cont(ContVerb::Aggregate(reach.upto));
        let more = match self.targets.call(reach.target, plain(cont, verb)).result? {
            Reply::Aggregated { more, .. } => more,
            _ => false,
        };
        if !more {
            reach.target = TargetNo(reach.target.0 + 1);
        }
        starved.reach = Some(reach);
        let is_done = reach.target.index() >= self.targets.count();
        if is_done {
            account.note_freed(reach.changes);
        }
        Ok(is_done)
    }

    /// Keeps an operation that a limit refuses, or tells so after as many attempts as one makes that waits.
    fn starve(&self, queue: &Queue, target: TargetNo, op: Op<'static>, out: &mut Vec<Outcome>) {
        let mut waiting = locked(&queue.waiting);
        let attempt = waiting.repeated.remove(&op.token).unwrap_or(0);
        let account = self.targets.accounts().find(op.cont);
        let is_freed = account.as_ref().is_none_or(|account| !account.is_shared() && account.is_freed());
        if attempt >= LIMIT_ATTEMPTS_MAX || is_freed {
            account.iter().for_each(|account| account.forget_wish(op.head.id));
            return out.push(refused(op, Error::QuotaLimit));
        }
        waiting.repeated.insert(op.token, attempt + 1);
        let end_ns =
            self.now_ns().saturating_add(u64::try_from(SHARE_PATIENCE.as_nanos()).unwrap_or(u64::MAX));
        waiting.starved.push_back(Starved { target, op, reach: None, end_ns });
    }

    fn queue(&self, id: QueueId) -> Option<Arc<Queue>> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(usize::try_from(id.0).ok()?)?.clone()
    }

    /// Answers the service's requests of a queue and appends everything that is finished. What has met an undecided
    /// transaction is repeated: at once and patiently by who may `wait`, else when it is due.
    fn collect(&self, queue: &Queue, wait: bool, out: &mut Vec<Outcome>) {
        loop {
            let request = locked(&queue.waiting).requests.pop_front();
            let Some(request) = request else { break };
            out.push(self.call(request));
        }
        out.append(&mut locked(&queue.waiting).outcomes);
        self.repeat_due(queue, wait, out);
        if self.targets.accounts().are_there() {
            self.feed_starved(queue, wait, out);
        }
        if !queue.outbox.has_ready() {
            return;
        }
        let mut finished = Vec::new();
        queue.outbox.take(&mut finished);
        locked(&queue.waiting).forget_repeated(&finished);
        for (target, Finished { completion, again }) in finished {
            match again {
                None => out.push(outcome(completion)),
                Some(mut op) => {
                    copy::give_back(&mut op, completion.buf);
                    match completion.result {
                        Err(Error::InDoubt { tx }) if !wait => self.put_off(queue, target, op, tx, out),
                        Err(Error::QuotaLimit) if !wait => self.starve(queue, target, op, out),
                        Err(Error::QuotaLimit) => out.push(outcome(self.call_within_limits(target, op))),
                        _ => out.push(outcome(self.targets.call(target, op))),
                    }
                }
            }
        }
    }

    /// Keeps an operation until it is worth while to repeat it; gives up after as many attempts as one makes that waits.
    fn put_off(&self, queue: &Queue, target: TargetNo, op: Op<'static>, tx: TxId, out: &mut Vec<Outcome>) {
        let mut waiting = locked(&queue.waiting);
        let before = waiting.doubts.remove(&op.token);
        let doubt = Doubt::of(before, tx, prepares(&op).is_some(), self.now_ns());
        if doubt.attempt >= attempts_max(&op, tx) {
            return out.push(refused(op, Error::InDoubt { tx }));
        }
        let seen = self.targets.shared(target).decisions();
        waiting.later.push(Later { target, op, doubt, seen });
    }

    /// Repeats what was put off and is due; all of it, patiently, for who may `wait`.
    fn repeat_due(&self, queue: &Queue, wait: bool, out: &mut Vec<Outcome>) {
        let mut waiting = locked(&queue.waiting);
        if waiting.later.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        let is_due = |later: &mut Later| {
            wait || now_ns >= later.doubt.due_ns
                || self.targets.shared(later.target).decisions() != later.seen
        };
        let mut due: Vec<Later> = waiting.later.extract_if(.., is_due).collect();
        // The earliest first: a later one in its way would make it restart.
        due.sort_by_key(|later| prepares(&later.op).map(|tx| tx.begin));
        for later in due.iter().filter(|_| !wait) {
            waiting.doubts.insert(later.op.token, later.doubt);
        }
        drop(waiting);
        for Later { target, op, doubt, .. } in due {
            if wait {
                out.push(outcome(self.targets.call(target, op)));
                continue;
            }
            resolve::settle_at_hand(&self.targets, target, doubt.tx, doubt.attempt);
            self.targets.start_queued(target, op, &queue.outbox);
        }
    }

    fn now_ns(&self) -> u64 {
        match &self.role {
            Role::Service(service) => service.clock().monotonic_ns(),
            Role::Part { clock, .. } => clock.monotonic_ns(),
        }
    }

    /// Drives the targets that have operations of `queue`; with `wait`, until one of them is finished.
    fn drive(&self, queue: &Queue, busy: &[TargetNo], wait: bool) {
        for &target in busy {
            self.targets.drive(target);
        }
        if let Some(&target) = busy.first()
            && wait
            && !queue.outbox.has_ready()
        {
            self.targets.drive_for(target, &Dest::Queue(Arc::clone(&queue.outbox)));
        }
    }

    pub(crate) fn submit_as(&self, trust: Trust, queue: QueueId, request: Request<'static>) {
        // A request on a queue that is not open has nowhere to send its outcome.
        let Some(queue) = self.queue(queue) else { return };
        let Request { token, head, ask } = request;
        match ask {
            Ask::Target(target, cont, verb) => {
                let op = Op { token, head, cont, verb };
                let known = target.index() < self.targets.count();
                let refusal = self.refusal(trust, &op);
                if known && refusal.is_none() {
                    self.targets.start_queued(target, op, &queue.outbox);
                    return;
                }
                let error = refusal.unwrap_or(Error::Invalid(Invalid::Argument));
                locked(&queue.waiting).outcomes.push(refused(op, error));
            }
            Ask::Pool(verb) => {
                let mut waiting = locked(&queue.waiting);
                if waiting.requests.len() < POOL_REQUESTS_MAX {
                    waiting.requests.push_back(Request { token, head, ask: Ask::Pool(verb) });
                } else {
                    waiting.outcomes.push(Outcome { token, result: Err(Error::Busy), buf: None });
                }
            }
        }
    }
}

impl<T: TargetStore> Transport for Pool<T> {
    fn call(&self, request: Request<'_>) -> Outcome {
        let Request { token, head, ask } = request;
        match ask {
            Ask::Target(target, cont, verb) => {
                self.ask_target(Trust::Client, target, Op { token, head, cont, verb })
            }
            Ask::Pool(verb) => {
                let result = match &self.role {
                    Role::Service(service) => service.ask(&self.targets, &head, verb),
                    // The map says who has the service.
                    Role::Part { .. } => Err(Error::Invalid(Invalid::Argument)),
                };
                Outcome { token, result: result.map(Answer::Pool), buf: None }
            }
        }
    }

    fn saw(&self, epoch: Epoch) {
        if let Role::Service(service) = &self.role {
            service.saw(epoch);
        }
    }

    fn takes_gifts(&self, target: TargetNo) -> Result<bool> {
        self.targets.parts().takes_gifts(target)
    }

    fn open_queue(&self) -> Result<QueueId> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let at = queues.iter().position(Option::is_none).unwrap_or(queues.len());
        if at >= QUEUES_MAX {
            return Err(Error::Busy);
        }
        if at == queues.len() {
            queues.push(None);
        }
        let outbox = Arc::new(Outbox::new(self.targets.count()));
        queues[at] = Some(Arc::new(Queue { outbox, waiting: Mutex::default() }));
        Ok(QueueId(u32::try_from(at).expect("limited by QUEUES_MAX")))
    }

    fn close_queue(&self, queue: QueueId) {
        let Some(open) = self.queue(queue) else { return };
        {
            let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = usize::try_from(queue.0).ok().and_then(|at| queues.get_mut(at)) {
                *slot = None;
            }
        }
        let (mut dropped, mut busy) = (Vec::new(), Vec::new());
        loop {
            locked(&open.waiting).later.clear();
            locked(&open.waiting).starved.clear();
            self.collect(&open, false, &mut dropped);
            dropped.clear();
            busy.clear();
            open.outbox.targets_under_way(&mut busy);
            if busy.is_empty() {
                return;
            }
            self.drive(&open, &busy, true);
        }
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.submit_as(Trust::Client, queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let Some(queue) = self.queue(queue) else { return };
        let before = out.len();
        let mut busy = Vec::new();
        loop {
            self.collect(&queue, wait, out);
            busy.clear();
            queue.outbox.targets_under_way(&mut busy);
            if out.len() > before || busy.is_empty() && !queue.outbox.has_ready() {
                return;
            }
            self.drive(&queue, &busy, wait);
            if !wait && !queue.outbox.has_ready() {
                return;
            }
        }
    }
}

/// The transaction over several targets that an operation prepares.
fn prepares(op: &Op<'_>) -> Option<TxId> {
    match &op.verb {
        Verb::Prepare(prepare) if prepare.participants.len() > 1 => Some(prepare.tx),
        _ => None,
    }
}

/// How often an operation is repeated that has met a transaction. One that holds places elsewhere meanwhile waits for
/// earlier ones only, and not for long.
fn attempts_max(op: &Op<'_>, met: TxId) -> u32 {
    match prepares(op) {
        Some(tx) if may_wait_for(tx, met) => PREPARE_ATTEMPTS_MAX,
        Some(_) => 0,
        None => resolve::ATTEMPTS_MAX,
    }
}

fn refused(op: Op<'_>, error: Error) -> Outcome {
    Outcome { token: op.token, result: Err(error), buf: copy::buffer_of(op.verb) }
}

fn outcome(completion: Completion) -> Outcome {
    let Completion { token, result, buf } = completion;
    Outcome { token, result: result.map(Answer::Target), buf }
}
