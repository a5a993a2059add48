//! A pool behind connections: one to the engine with its service, and one to each other engine that has targets of it; one
//! that is not there when the pool is opened is tried again when it is asked.

use super::door::Door;
use super::link::{Link, UNDER_WAY_MAX};
use super::other::{Linked, Other};
use super::reach;
use crate::slots::Slots;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Poll;
use dolmen_codec::lock::LockFamily;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::verb::Reply;
use dolmen_codec::wire::{FEATURE_CHANGE, PoolAccess, PoolConnection, PoolName, RankInfo, SystemVerb};
use dolmen_codec::{Answer, Ask, Lease, Outcome, QueueId, Request, Transport, Way, now};
use dolmen_types::{ContNo, Error, Head, Label, PoolMap, Result, TargetNo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Looks at several connections before a thread that waits rests between two of them.
const LOOKS: u32 = 64;

/// How long it rests then: as long as a call across processors takes.
const REST: core::time::Duration = core::time::Duration::from_micros(30);

/// A pool of a system, as a client's `Transport`. `Send` and `Sync`; it is left when it is dropped.
pub struct Remote {
    home: Door,
    map: PoolMap,
    label: Option<Label>,
    spread: Option<Spread>,
}

/// What a pool on several engines needs.
struct Spread {
    others: Vec<Other>,
    linked: Linked,
    /// By target: which of the others has it; `None` for the service's engine.
    places: Vec<Option<usize>>,
    /// The newest epoch that a target has answered with.
    seen: Arc<AtomicU64>,
    /// Guards the list of queues; taken before all other locks.
    queues: Mutex<Slots<Arc<Queue>>>,
}

/// A request, and whether it is to be answered with a lease.
type Wanting = (Request<'static>, bool);

/// A completion queue at all engines.
struct Queue {
    home: QueueId,
    others: Vec<OnceLock<QueueId>>,
    /// Guards outcomes of requests that found no engine.
    failed: Mutex<Vec<Outcome>>,
    /// Guards the tokens of requests that take others' handles: their answers are containers that are open already.
    evicts: Mutex<Vec<u64>>,
    // Guards: what waits for other engines; taken before what is under way at them.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Requests that cannot be sent yet, and to whom.
    unsent: Vec<(usize, Wanting)>,
    /// Containers that are open where the pool's service is, and not yet elsewhere, with what is answered then.
    opening: Vec<(Opening, Outcome)>,
}

/// A container that is being opened at other engines.
struct Opening {
    no: ContNo,
    head: Head,
    /// Which of them have not answered yet.
    left: Vec<usize>,
    failed: Option<Error>,
}

/// What is asked of an engine that may not know all that can be: it then refuses changes one by one.
fn known(link: &Link, access: PoolAccess) -> PoolAccess {
    let knows = link.welcome().is_some_and(|welcome| welcome.features & FEATURE_CHANGE != 0);
    if access == PoolAccess::Change && !knows { PoolAccess::ReadWrite } else { access }
}

impl Remote {
    /// Opens a pool; `link` leads to an engine that has targets of it.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission`; `Unreachable`.
    pub fn open(link: &Link, head: &Head, name: PoolName, access: PoolAccess) -> Result<Self> {
        now(Self::open_by(Way::Now, link, head, name, access))
    }

    /// As [`Remote::open`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub async fn open_by(
        way: Way,
        link: &Link,
        head: &Head,
        name: PoolName,
        access: PoolAccess,
    ) -> Result<Self> {
        let connect = SystemVerb::PoolConnect { name, access: known(link, access) };
        let (mut home, mut connected) = Door::open_by(way, link, head, connect).await?;
        // Who may have the pool alone, or change it, is for the engine with its service to say.
        let elsewhere = match access {
            PoolAccess::Exclusive | PoolAccess::Change => PoolAccess::ReadWrite,
            PoolAccess::ReadOnly | PoolAccess::ReadWrite => access,
        };
        let connect = SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access: elsewhere };
        let service = connected.map.targets.first().map_or(0, |target| target.rank);
        if service != link.rank() {
            let info = info_of(&connected.ranks, service)?;
            let reached = reach::rank_by(way, link, info).await;
            let link = reached.map_err(|_gone| Error::Unreachable { rank: service })?;
            let access = known(&link, access);
            let again = SystemVerb::PoolConnect { name: PoolName::Uuid(connected.uuid), access };
            (home, connected) = Door::open_by(way, &link, head, again).await?;
        }
        let spread = Spread::of(&connected, &home, connect, head)?;
        for other in spread.iter().flat_map(|spread| &spread.others) {
            other.arrive(way, &home).await;
        }
        let PoolConnection { map, label, .. } = connected;
        Ok(Self { home, map, label, spread })
    }

    /// Gives the pool back at all engines, on a way of the caller's; whatever is asked of it then fails.
    pub async fn leave(&self, way: Way) {
        let others = self.spread.iter().flat_map(|spread| &spread.others);
        for door in others.filter_map(Other::door) {
            door.leave(way).await;
        }
        self.home.leave(way).await;
    }

    /// The pool's map when it was opened.
    #[must_use]
    pub fn map(&self) -> &PoolMap {
        &self.map
    }

    /// The pool's label.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        self.label.as_ref()
    }

    /// The connections that it has by now: who has leases listens on each.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        let others = self.spread.iter().flat_map(|spread| &spread.others);
        let others = others.filter_map(Other::door).map(|door| door.link().clone());
        core::iter::once(self.home.link().clone()).chain(others).collect()
    }

    /// Has this called whenever there is a connection more ([`Remote::links`]), by whoever makes it: it must not wait. One who wants that
    /// is enough; of others nothing is heard.
    pub fn when_linked(&self, call: impl Fn() + Send + Sync + 'static) {
        if let Some(spread) = &self.spread {
            // Ignored: there is one.
            let _known = spread.linked.set(Box::new(call));
        }
    }

    /// The connection to the engine with the pool's service.
    #[must_use]
    pub fn link(&self) -> &Link {
        self.home.link()
    }
}

fn info_of(ranks: &[RankInfo], rank: u32) -> Result<&RankInfo> {
    ranks.iter().find(|info| info.rank == rank).ok_or(Error::Unreachable { rank })
}

impl Spread {
    /// `None` if one engine has all targets.
    fn of(pool: &PoolConnection, home: &Door, connect: SystemVerb, head: &Head) -> Result<Option<Self>> {
        let service = home.link().rank();
        let (linked, mut others) = (Linked::default(), Vec::<Other>::new());
        let mut places = Vec::with_capacity(pool.map.targets.len());
        for target in &pool.map.targets {
            let known = others.iter().position(|other| other.rank() == target.rank);
            places.push(match known {
                _ if target.rank == service => None,
                Some(at) => Some(at),
                None => {
                    let rank = info_of(&pool.ranks, target.rank)?.clone();
                    others.push(Other::new(rank, home.link(), (connect.clone(), *head), &linked));
                    Some(others.len() - 1)
                }
            });
        }
        if others.is_empty() {
            return Ok(None);
        }
        let seen = home.link().seen();
        Ok(Some(Self { others, linked, places, seen, queues: Mutex::default() }))
    }

    /// Who has a target; an unknown one is refused by the service's engine.
    fn place(&self, target: TargetNo) -> Option<usize> {
        self.places.get(target.index()).copied().flatten()
    }

    fn saw(&self, outcome: &Outcome) {
        if let Ok(Answer::Target(Reply::Written(epoch))) = outcome.result {
            self.seen.fetch_max(epoch.0, Ordering::Relaxed);
        }
    }

    fn queues(&self) -> MutexGuard<'_, Slots<Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.queues().of(queue.0 as usize).cloned()
    }

    fn open_queue(&self, home: &Door) -> Result<QueueId> {
        let others = self.others.iter().map(|_| OnceLock::new()).collect();
        let queue = Queue {
            home: home.open_queue()?,
            others,
            failed: Mutex::default(),
            evicts: Mutex::default(),
            waiting: Mutex::default(),
        };
        let at = self.queues().insert(Arc::new(queue));
        Ok(QueueId(u32::try_from(at).expect("an engine limits queues further below")))
    }

    fn close_queue(&self, home: &Door, queue: QueueId) {
        let Some(queue) = self.queues().remove(queue.0 as usize) else { return };
        home.close_queue(queue.home);
        for (other, queue) in self.others.iter().zip(&queue.others) {
            if let (Some(door), Some(queue)) = (other.door(), queue.get()) {
                door.close_queue(*queue);
            }
        }
    }

    fn submit(&self, home: &Door, queue: QueueId, request: Request<'static>) {
        let Some(queue) = self.queue(queue) else { return };
        if let Ask::Pool(PoolVerb::ContClose(cont)) = &request.ask {
            let (cont, head) = (*cont, request.head);
            home.submit(queue.home, request);
            return self.close_aside(home, cont, &head);
        }
        if let Ask::Pool(PoolVerb::ContEvict(..)) = &request.ask {
            queue.evicts().push(request.token);
        }
        let Ask::Target(target, ..) = &request.ask else { return home.submit(queue.home, request) };
        let Some(at) = self.place(*target) else { return home.submit(queue.home, request) };
        self.submit_at(home, &queue, Some(at), (request, false));
    }

    /// Sends a request to where its target is.
    fn submit_at(&self, home: &Door, queue: &Queue, at: Option<usize>, asked: Wanting) {
        match at {
            None => submit(home, queue.home, asked),
            Some(at) => {
                let unsent = self.send(home, queue, at, asked);
                queue.waiting().unsent.extend(unsent.map(|asked| (at, asked)));
            }
        }
    }

    /// Asks several, of which all engines have theirs at once; what one of them does not answer keeps no other's answers back.
    fn call_all(&self, home: &Door, requests: Vec<Wanting>) -> Vec<(Outcome, Option<Lease>)> {
        let place = |(request, _): &Wanting| match &request.ask {
            Ask::Target(target, ..) => self.place(*target),
            Ask::Pool(_) => None,
        };
        let places: Vec<Option<usize>> = requests.iter().map(place).collect();
        let is_one = places.windows(2).all(|two| two[0] == two[1]);
        if is_one {
            return self.call_each(home, requests, &places);
        }
        // Without a queue left, one after the other.
        let Ok(id) = self.open_queue(home) else { return self.call_each(home, requests, &places) };
        let answers = self.call_several(home, id, (requests, &places));
        self.close_queue(home, id);
        answers
    }

    /// Asks several engines at once, on a queue for that alone: each has so many under way as one alone would have.
    fn call_several(
        &self,
        home: &Door,
        id: QueueId,
        (requests, places): (Vec<Wanting>, &[Option<usize>]),
    ) -> Vec<(Outcome, Option<Lease>)> {
        let tokens: Vec<u64> = requests.iter().map(|(request, _)| request.token).collect();
        let mut answers: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
        let mut leases: Vec<Option<Lease>> = requests.iter().map(|_| None).collect();
        let mut left: BTreeMap<Option<usize>, (usize, VecDeque<Wanting>)> = BTreeMap::new();
        for (number, (request, wants_lease)) in requests.into_iter().enumerate() {
            let request = Request { token: number as u64, ..request };
            left.entry(places[number]).or_default().1.push_back((request, wants_lease));
        }
        let Some(queue) = self.queue(id) else { unreachable!("opened for this alone") };
        let (mut done, mut unanswered) = (Vec::new(), tokens.len());
        while unanswered > 0 {
            for (at, (under_way, left)) in &mut left {
                let room = UNDER_WAY_MAX.saturating_sub(*under_way).min(left.len());
                *under_way += room;
                left.drain(..room).for_each(|asked| self.submit_at(home, &queue, *at, asked));
            }
            self.poll(home, id, true, &mut done);
            for outcome in done.drain(..) {
                let number = place_of(outcome.token);
                left.get_mut(&places[number]).expect("asked there").0 -= 1;
                answers[number] = Some(Outcome { token: tokens[number], ..outcome });
                unanswered -= 1;
            }
        }
        let taken = self.ends(home, &queue).flat_map(|(door, id)| door.link().take_leases(id));
        taken.for_each(|(number, lease)| leases[place_of(number)] = Some(lease));
        let answers = answers.into_iter().map(|answer| answer.expect("all of them are answered"));
        answers.zip(leases).collect()
    }

    /// Asks several, those of one engine at once.
    fn call_each(
        &self,
        home: &Door,
        requests: Vec<Wanting>,
        places: &[Option<usize>],
    ) -> Vec<(Outcome, Option<Lease>)> {
        let mut answers: Vec<Option<(Outcome, Option<Lease>)>> = requests.iter().map(|_| None).collect();
        let mut parts: BTreeMap<Option<usize>, (Vec<usize>, Vec<_>)> = BTreeMap::new();
        for (number, asked) in requests.into_iter().enumerate() {
            let (numbers, part) = parts.entry(places[number]).or_default();
            numbers.push(number);
            part.push(asked);
        }
        for (at, (numbers, part)) in parts {
            let reached = match (at, part.first()) {
                (Some(at), Some((first, _))) => until(|| self.reach(home, at, &first.ask)),
                _ => Ok(home),
            };
            let told = match reached {
                Ok(door) => door.call_all(part),
                Err(error) => {
                    part.into_iter().map(|(asked, _)| (asked.refused(error.clone()), None)).collect()
                }
            };
            for (number, answer) in numbers.into_iter().zip(told) {
                answers[number] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.expect("each request is in one part")).collect()
    }

    /// Sends a request to another engine; gives it back if that is to be tried again.
    fn send(&self, home: &Door, queue: &Queue, at: usize, asked: Wanting) -> Option<Wanting> {
        let Poll::Ready(reached) = self.reach(home, at, &asked.0.ask) else { return Some(asked) };
        match reached.and_then(|door| Ok((door, queue.at(at, door)?))) {
            Ok((door, queue)) => submit(door, queue, asked),
            Err(error) => queue.failed().push(asked.0.refused(error)),
        }
        None
    }

    /// The way to another engine, for a question to one of its targets.
    fn reach(&self, home: &Door, at: usize, ask: &Ask<'_>) -> Poll<Result<&Door>> {
        let cont = match ask {
            Ask::Target(_, cont, _) => *cont,
            Ask::Pool(_) => ContNo(0),
        };
        self.others[at].reach(home, cont)
    }

    fn poll(&self, home: &Door, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let Some(queue) = self.queue(queue) else { return };
        let (before, mut looks) = (out.len(), 0);
        loop {
            let mut under_way = self.send_unsent(home, &queue);
            out.append(&mut queue.failed());
            let mut only = None;
            for (door, id) in self.ends(home, &queue) {
                door.poll(id, false, out);
                if door.link().has_under_way(id) {
                    (under_way, only) = (under_way + 1, Some((door, id)));
                }
            }
            out[before..].iter().for_each(|outcome| self.saw(outcome));
            under_way += self.open_elsewhere(home, &queue, before, out);
            if out.len() > before || under_way == 0 || !wait {
                return;
            }
            match only {
                Some((door, id)) if under_way == 1 => door.poll(id, true, out),
                _ => rest(looks),
            }
            looks += 1;
        }
    }

    /// Sends what could not be sent before; how many cannot be sent yet.
    fn send_unsent(&self, home: &Door, queue: &Queue) -> usize {
        let mut waiting = queue.waiting();
        if waiting.unsent.is_empty() {
            return 0;
        }
        let unsent = core::mem::take(&mut waiting.unsent);
        let send = |(at, asked)| Some((at, self.send(home, queue, at, asked)?));
        waiting.unsent = unsent.into_iter().filter_map(send).collect();
        waiting.unsent.len()
    }

    /// Opens containers that were opened by requests of a queue at the other engines, too; how many are not open there yet.
    fn open_elsewhere(&self, home: &Door, queue: &Queue, before: usize, out: &mut Vec<Outcome>) -> usize {
        let mut waiting = queue.waiting();
        for at in (before..out.len()).rev() {
            if let Some(opening) = self.begin_opening(home, queue, &out[at]) {
                waiting.opening.push((opening, out.remove(at)));
            }
        }
        let opening = core::mem::take(&mut waiting.opening);
        for (mut opening, mut outcome) in opening {
            let Poll::Ready(opened) = self.go_on_opening(home, &mut opening) else {
                waiting.opening.push((opening, outcome));
                continue;
            };
            if let Err(error) = opened {
                home.give_back(opening.no);
                self.close_aside(home, opening.no, &opening.head);
                outcome.result = Err(error);
            }
            out.push(outcome);
        }
        waiting.opening.len()
    }

    /// Whether an outcome is a container that was opened.
    fn begin_opening(&self, home: &Door, queue: &Queue, outcome: &Outcome) -> Option<Opening> {
        let Ok(Answer::Pool(PoolReply::Cont(handle))) = &outcome.result else { return None };
        let mut evicts = queue.evicts();
        if let Some(at) = evicts.iter().position(|token| *token == outcome.token) {
            evicts.swap_remove(at);
            self.others.iter().for_each(|other| other.goes_on(home, handle));
            return None;
        }
        // One that was made is not open.
        home.cont(handle.no)?;
        Some(self.opening(handle.no, home.head()))
    }

    fn opening(&self, no: ContNo, head: Head) -> Opening {
        Opening { no, head, left: (0..self.others.len()).collect(), failed: None }
    }

    /// Goes on with the opening of a container that is open where the pool's service is at the other engines, at all of which it is
    /// begun at once.
    fn go_on_opening(&self, home: &Door, opening: &mut Opening) -> Poll<Result<()>> {
        let Opening { no, head, left, failed } = opening;
        left.retain(|at| match self.others[*at].open(home, *no, head) {
            Poll::Pending => true,
            Poll::Ready(opened) => {
                *failed = failed.take().or(opened.err());
                false
            }
        });
        if left.is_empty() { Poll::Ready(failed.take().map_or(Ok(()), Err)) } else { Poll::Pending }
    }

    /// Opens a container at the other engines that is open where the pool's service is.
    fn open(&self, home: &Door, no: ContNo, head: &Head) -> Result<()> {
        let mut opening = self.opening(no, *head);
        until(|| self.go_on_opening(home, &mut opening))
    }

    /// Closes a container at the other engines unless it is open still where the pool's service is.
    fn close(&self, home: &Door, no: ContNo, head: &Head) {
        let closing: Vec<_> = self.others.iter().filter_map(|other| other.close(home, no, head)).collect();
        for (door, queue) in closing {
            // Ignored: what is closed so ends with the connection at the latest.
            let mut outcomes = Vec::new();
            while door.link().has_under_way(queue) {
                door.poll(queue, true, &mut outcomes);
            }
            door.close_queue(queue);
        }
    }

    /// As [`Spread::close`], without waiting; nobody looks at the answers.
    fn close_aside(&self, home: &Door, no: ContNo, head: &Head) {
        let closing = self.others.iter().filter_map(|other| other.close(home, no, head));
        closing.for_each(|(door, queue)| door.close_queue(queue));
    }

    /// The queue at each engine that was asked by it.
    fn ends<'s>(&'s self, home: &'s Door, queue: &'s Queue) -> impl Iterator<Item = (&'s Door, QueueId)> {
        let others = self.others.iter().zip(&queue.others);
        let others = others.filter_map(|(other, queue)| Some((other.door()?, *queue.get()?)));
        core::iter::once((home, queue.home)).chain(others)
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue at another engine.
    fn at(&self, at: usize, door: &Door) -> Result<QueueId> {
        if let Some(queue) = self.others[at].get() {
            return Ok(*queue);
        }
        let opened = door.open_queue()?;
        let queue = *self.others[at].get_or_init(|| opened);
        if queue != opened {
            // Another thread was faster.
            door.close_queue(opened);
        }
        Ok(queue)
    }

    fn evicts(&self) -> MutexGuard<'_, Vec<u64>> {
        self.evicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a request among those of its call, which is its token meanwhile.
fn place_of(token: u64) -> usize {
    usize::try_from(token).expect("it was a place")
}

fn submit(door: &Door, queue: QueueId, (request, wants_lease): Wanting) {
    match wants_lease {
        true => door.submit_leased(queue, request),
        false => door.submit(queue, request),
    }
}

/// Looks until what is looked for is there.
fn until<T>(mut look: impl FnMut() -> Poll<T>) -> T {
    let mut looks = 0;
    loop {
        if let Poll::Ready(found) = look() {
            return found;
        }
        rest(looks);
        looks += 1;
    }
}

/// Rests between two looks of a thread that waits, after so many.
fn rest(looks: u32) {
    if looks < LOOKS {
        dolmen_env::yield_now();
    } else {
        dolmen_env::wait(REST);
    }
}

impl Spread {
    /// Asks the pool's service, and has handles at the other engines follow those that it gives, takes and ends.
    fn ask_home(&self, home: &Door, request: Request<'_>) -> Outcome {
        let (head, closes) = match &request.ask {
            Ask::Pool(PoolVerb::ContClose(no)) => (request.head, Some(*no)),
            Ask::Pool(PoolVerb::ContOpen(..) | PoolVerb::ContEvict(..)) => (request.head, None),
            _ => return home.call(request),
        };
        let evicts = matches!(request.ask, Ask::Pool(PoolVerb::ContEvict(..)));
        let mut outcome = home.call(request);
        match (&outcome.result, closes) {
            (Ok(_), Some(no)) => self.close(home, no, &head),
            (Ok(Answer::Pool(PoolReply::Cont(handle))), None) if evicts => {
                self.others.iter().for_each(|other| other.goes_on(home, handle));
            }
            (Ok(Answer::Pool(PoolReply::Cont(handle))), None) => {
                let no = handle.no;
                if let Err(error) = self.open(home, no, &head) {
                    home.give_back(no);
                    self.close(home, no, &head);
                    outcome.result = Err(error);
                }
            }
            _ => {}
        }
        outcome
    }
}

impl Transport for Remote {
    fn call(&self, request: Request<'_>) -> Outcome {
        if let Ask::Pool(PoolVerb::Lock(_, ask)) = &request.ask
            && ask.family == LockFamily::Open
            && self.home.link().is_of_before_leases()
        {
            // As where nobody keeps locks.
            return request.refused(Error::NoPermission);
        }
        let Some(spread) = &self.spread else { return self.home.call(request) };
        let at = match &request.ask {
            Ask::Target(target, ..) => spread.place(*target),
            Ask::Pool(_) => return spread.ask_home(&self.home, request),
        };
        let door = match at.map(|at| until(|| spread.reach(&self.home, at, &request.ask))) {
            None => &self.home,
            Some(Ok(door)) => door,
            Some(Err(error)) => return request.refused(error),
        };
        let outcome = door.call(request);
        spread.saw(&outcome);
        outcome
    }

    fn call_leased(&self, request: Request<'_>) -> (Outcome, Option<Lease>) {
        let Ask::Target(target, ..) = &request.ask else { return (self.call(request), None) };
        let Some(spread) = &self.spread else { return self.home.call_leased(request) };
        let at = spread.place(*target);
        match at.map(|at| until(|| spread.reach(&self.home, at, &request.ask))) {
            None => self.home.call_leased(request),
            Some(Ok(door)) => door.call_leased(request),
            Some(Err(error)) => (request.refused(error), None),
        }
    }

    fn is_in_order(&self) -> bool {
        self.spread.is_none()
    }

    /// What is given is asked of the service's engine, which hands it on.
    fn takes_gifts(&self, target: TargetNo) -> Result<bool> {
        if !self.home.takes_gifts(target)? {
            return Ok(false);
        }
        match self.spread.as_ref().and_then(|spread| Some((spread, spread.place(target)?))) {
            None => Ok(true),
            Some((spread, at)) => {
                until(|| spread.others[at].reach(&self.home, ContNo(0)))?.takes_gifts(target)
            }
        }
    }

    fn call_all(&self, requests: Vec<(Request<'static>, bool)>) -> Vec<(Outcome, Option<Lease>)> {
        match &self.spread {
            None => self.home.call_all(requests),
            Some(spread) => spread.call_all(&self.home, requests),
        }
    }

    fn open_queue(&self) -> Result<QueueId> {
        match &self.spread {
            None => self.home.open_queue(),
            Some(spread) => spread.open_queue(&self.home),
        }
    }

    fn close_queue(&self, queue: QueueId) {
        match &self.spread {
            None => self.home.close_queue(queue),
            Some(spread) => spread.close_queue(&self.home, queue),
        }
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        match &self.spread {
            None => self.home.submit(queue, request),
            Some(spread) => spread.submit(&self.home, queue, request),
        }
    }

    fn flush(&self) -> bool {
        let others = self.spread.iter().flat_map(|spread| &spread.others);
        for door in others.filter_map(Other::door) {
            // Ignored: the others know nothing of who is there.
            let _is_new = door.flush();
        }
        self.home.flush()
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        match &self.spread {
            None => self.home.poll(queue, wait, out),
            Some(spread) => spread.poll(&self.home, queue, wait, out),
        }
    }
}

impl core::fmt::Debug for Remote {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Remote").field("pool", &self.map.pool).finish_non_exhaustive()
    }
}
