//! A transport on which a test acts just before a request is carried out, or just after it, or that carries none out for a while.

use dolmen_client::{Leased, Transport};
use dolmen_codec::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange, LockReply};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::verb::Verb;
use dolmen_codec::{Answer, Ask, Lease, Outcome, QueueId, Request};
use dolmen_types::{Error, Oid, Result, Uuid};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Which request.
pub(crate) type IsIt = fn(&Ask<'_>) -> bool;

type Act = Box<dyn FnOnce() -> Result<()> + Send>;

struct Trap {
    is_it: IsIt,
    is_before: bool,
    act: Act,
}

pub(crate) struct Watched {
    inner: Arc<dyn Transport>,
    requests: AtomicU64,
    round_trips: AtomicU64,
    /// Guards what waits for its request; not held while it acts.
    trap: Mutex<Option<Trap>>,
    /// Who keeps locks, if anybody does.
    keeper: Option<Keeper>,
    /// Guards what nobody has waited for, and its answers.
    answered: Mutex<Vec<(QueueId, Outcome)>>,
    /// Guards what leases were given on, by their numbers; `None` where none are given.
    leased: Option<Mutex<Vec<String>>>,
    /// What was sent without being waited for last went by another connection.
    is_new: AtomicBool,
    /// Why nothing is carried out at present, if nothing is.
    refuses: Box<dyn Fn() -> Option<Error> + Send + Sync>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Transport>) -> Self {
        Self::refusing(inner, || None)
    }

    /// One that carries nothing out while `refuses` says why.
    pub(crate) fn refusing(
        inner: Arc<dyn Transport>,
        refuses: impl Fn() -> Option<Error> + Send + Sync + 'static,
    ) -> Self {
        let (requests, round_trips) = (AtomicU64::new(0), AtomicU64::new(0));
        let (trap, answered) = (Mutex::new(None), Mutex::default());
        let refuses = Box::new(refuses);
        let is_new = AtomicBool::new(false);
        Self { inner, requests, round_trips, trap, keeper: None, answered, leased: None, is_new, refuses }
    }

    /// One that keeps locks, as a daemon does.
    pub(crate) fn keeping_locks(inner: Arc<dyn Transport>) -> Self {
        Self { keeper: Some(Keeper::default()), ..Self::new(inner) }
    }

    /// The same, and keeps locks.
    pub(crate) fn and_keeping_locks(self) -> Self {
        Self { keeper: Some(Keeper::default()), ..self }
    }

    /// One that gives leases for ever.
    pub(crate) fn leasing(inner: Arc<dyn Transport>) -> Self {
        Self { leased: Some(Mutex::default()), ..Self::new(inner) }
    }

    /// Has what is sent next without being waited for go by another connection.
    pub(crate) fn end_connection(&self) {
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// What these leases are on.
    pub(crate) fn leased_on(&self, leased: &Leased) -> BTreeSet<String> {
        let on = self.leased.as_ref().unwrap().lock().unwrap();
        leased.leases().iter().map(|lease| on[lease.no() as usize].clone()).collect()
    }

    fn lease(&self, on: String) -> Option<Lease> {
        let mut leased = self.leased.as_ref()?.lock().unwrap();
        leased.push(on);
        Some(Lease::new(u32::try_from(leased.len() - 1).unwrap(), Arc::new(AtomicU64::new(u64::MAX))))
    }

    /// Has it forget all locks, as a daemon that is started again: then those who had some come first until `recovers` is false.
    pub(crate) fn forget_locks(&self, recovers: bool) {
        let mut all = self.keeper.as_ref().unwrap().all.lock().unwrap();
        if recovers {
            all.held.clear();
        }
        all.recovers = recovers;
    }

    /// Has it refuse more locks, as a daemon does of which somebody has as many as he may; or not any more.
    pub(crate) fn fill_locks(&self, is_full: bool) {
        self.keeper.as_ref().unwrap().all.lock().unwrap().is_full = is_full;
    }

    /// Has it take somebody who has a lock on this for dead.
    pub(crate) fn lose_holders_of(&self, oid: Oid) {
        let mut all = self.keeper.as_ref().unwrap().all.lock().unwrap();
        let gone: Vec<Uuid> =
            all.held.iter().filter(|held| held.on.0 == oid).map(|held| held.holder).collect();
        assert!(!gone.is_empty());
        all.held.retain(|held| !gone.contains(&held.holder));
    }

    /// Who has locks on this.
    pub(crate) fn holders_of(&self, oid: Oid) -> usize {
        let all = self.keeper.as_ref().unwrap().all.lock().unwrap();
        all.held.iter().filter(|held| held.on.0 == oid).count()
    }

    /// Requests so far whose answers somebody has waited for.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How often somebody has waited so far, for one request or for several that went out at once.
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Before the next such request; with an error it is not carried out.
    pub(crate) fn before(&self, is_it: IsIt, act: impl FnOnce() -> Result<()> + Send + 'static) {
        *self.trap.lock().unwrap() = Some(Trap { is_it, is_before: true, act: Box::new(act) });
    }

    /// When the next such request is answered, and the caller does not know yet.
    pub(crate) fn after(&self, is_it: IsIt, act: impl FnOnce() + Send + 'static) {
        let act = Box::new(|| {
            act();
            Ok(())
        });
        *self.trap.lock().unwrap() = Some(Trap { is_it, is_before: false, act });
    }

    /// Whether everything has acted.
    pub(crate) fn is_done(&self) -> bool {
        self.trap.lock().unwrap().is_none()
    }
}

/// Keeps locks of whole ranges for holders that are never silent.
#[derive(Default)]
struct Keeper {
    /// Guards what is locked.
    all: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    held: Vec<Held>,
    recovers: bool,
    /// It has no room for more.
    is_full: bool,
}

struct Held {
    on: (Oid, LockFamily),
    holder: Uuid,
    owner: u64,
    range: LockRange,
}

impl Keeper {
    fn ask(&self, ask: &LockAsk) -> Result<LockReply> {
        let mut all = self.all.lock().unwrap();
        let sets = matches!(ask.action, LockAction::Set | LockAction::Again);
        if all.is_full && sets && ask.range.kind != LockKind::Free {
            return Err(Error::Busy);
        }
        Ok(all.ask(ask))
    }
}

impl Kept {
    fn ask(&mut self, ask: &LockAsk) -> LockReply {
        let all = self;
        let is_known = all.held.iter().any(|held| held.holder == ask.holder);
        let takes = ask.range.kind != LockKind::Free;
        if ask.has_locks && !is_known && ask.action != LockAction::Again {
            return LockReply::Unknown;
        }
        let on = (ask.oid, ask.family);
        let is_own = |held: &Held| held.on == on && held.holder == ask.holder && held.owner == ask.owner;
        match ask.action {
            LockAction::Renew => {}
            LockAction::Leave => all.held.retain(|held| held.holder != ask.holder),
            LockAction::Set if takes && all.recovers => return LockReply::Recovering,
            LockAction::Test | LockAction::Set | LockAction::Again => {
                let against =
                    |held: &&Held| held.on == on && !is_own(held) && held.range.stands_against(&ask.range);
                if let Some(held) = all.held.iter().find(against) {
                    return LockReply::Held { range: held.range, pid: 0 };
                }
                if ask.action == LockAction::Test && takes && all.recovers {
                    return LockReply::Recovering;
                }
                if ask.action != LockAction::Test {
                    all.held.retain(|held| !is_own(held));
                    let (holder, owner, range) = (ask.holder, ask.owner, ask.range);
                    all.held.extend(takes.then_some(Held { on, holder, owner, range }));
                }
            }
        }
        LockReply::Done
    }
}

impl Watched {
    fn carry_out(&self, request: Request<'_>) -> Outcome {
        match (&self.keeper, &request.ask) {
            (Some(keeper), Ask::Pool(PoolVerb::Lock(_, ask))) => {
                let told = keeper.ask(ask).map(|told| Answer::Pool(PoolReply::Lock(told)));
                Outcome { result: told, ..request.refused(Error::Busy) }
            }
            _ => self.inner.call(request),
        }
    }
}

impl Watched {
    fn ask(&self, request: Request<'_>) -> Outcome {
        if let Some(error) = (self.refuses)() {
            return request.refused(error);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.act_on(request)
    }

    /// Carries a request out, unless somebody is to act before or says otherwise.
    fn act_on(&self, request: Request<'_>) -> Outcome {
        let trap = self.trap.lock().unwrap().take_if(|trap| (trap.is_it)(&request.ask));
        let Some(trap) = trap else { return self.carry_out(request) };
        if !trap.is_before {
            let outcome = self.carry_out(request);
            (trap.act)().unwrap();
            return outcome;
        }
        match (trap.act)() {
            Ok(()) => self.carry_out(request),
            Err(error) => request.refused(error),
        }
    }
}

/// What a read looks at.
fn read_of(ask: &Ask<'_>) -> Option<String> {
    match ask {
        Ask::Target(target, _, Verb::Fetch(fetch)) => {
            Some(format!("{target:?} {:?} {:?} {:?}", fetch.oid, fetch.dkey, fetch.iods))
        }
        Ask::Target(target, _, verb @ (Verb::List(_) | Verb::Query(_))) => {
            Some(format!("{target:?} {verb:?}"))
        }
        _ => None,
    }
}

impl Transport for Watched {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.ask(request)
    }

    fn is_in_order(&self) -> bool {
        self.keeper.is_some()
    }

    fn call_all(&self, requests: Vec<(Request<'static>, bool)>) -> Vec<(Outcome, Option<Lease>)> {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let ask = |(request, wants_lease): (Request<'static>, bool)| {
            let on = read_of(&request.ask);
            (self.ask(request), on.filter(|_| wants_lease).and_then(|on| self.lease(on)))
        };
        requests.into_iter().map(ask).collect()
    }

    fn call_leased(&self, request: Request<'_>) -> (Outcome, Option<Lease>) {
        let on = read_of(&request.ask);
        (self.call(request), on.and_then(|on| self.lease(on)))
    }

    fn flush(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.inner.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.inner.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        if self.keeper.is_none() || !matches!(request.ask, Ask::Pool(PoolVerb::Lock(..))) {
            return self.inner.submit(queue, request);
        }
        let outcome = match (self.refuses)() {
            Some(error) => request.refused(error),
            None => self.act_on(request),
        };
        self.answered.lock().unwrap().push((queue, outcome));
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let answered =
            self.answered.lock().unwrap().extract_if(.., |(of, _)| *of == queue).collect::<Vec<_>>();
        let is_waited_for = wait && answered.is_empty();
        out.extend(answered.into_iter().map(|(_, outcome)| outcome));
        self.inner.poll(queue, is_waited_for, out);
    }
}
