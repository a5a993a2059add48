//! Shares of a container's limits at the engines of a pool, as its service hands them out.
//!
//! The service knows of each engine up to where it may fill its account. Who is short is given some of what is free; if that is too
//! little, all give back what they do not use; if that is, too, what nobody sees is freed everywhere, and they do so again. Only then
//! there is no room.
//!
//! Invariants: what an engine may use is at most what is known here of it, which is raised before it is told and lowered after it
//! has said so; the shares of those that have not been heard of are all that there is.

use crate::dispatch::{Targets, plain};
use crate::inbox::locked;
use crate::service::Service;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_codec::TargetStore;
use dolmen_codec::quota::{Bounds, ByUser, Charge, Limits, Quota, Share, ShareAsk, ShareTold, Told, Wish};
use dolmen_codec::verb::{ContVerb, Reply, Verb};
use dolmen_types::{ContNo, Error, RequestId, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Transactions that were refused and of which nobody has asked yet.
const REFUSED_MAX: usize = 1024;

/// The life of the account of the engine with the service, which goes with what is known here.
pub(crate) const OWN_LIFE: u64 = 1;

/// What the service knows of shares.
#[derive(Default)]
pub(crate) struct Shares {
    /// Guards the list, for a look; nothing is taken while it is held.
    by_cont: Mutex<BTreeMap<ContNo, Arc<OfCont>>>,
    /// Somebody hands them out again and again.
    by_thread: AtomicBool,
}

impl Shares {
    pub(crate) fn forget(&self, cont: ContNo) {
        locked(&self.by_cont).remove(&cont);
    }

    pub(crate) fn open(&self, cont: ContNo) {
        locked(&self.by_cont).entry(cont).or_default();
    }

    /// Containers whose limits engines have shares of.
    fn conts(&self) -> Vec<ContNo> {
        locked(&self.by_cont).keys().copied().collect()
    }

    fn find(&self, cont: ContNo) -> Option<Arc<OfCont>> {
        locked(&self.by_cont).get(&cont).cloned()
    }

    /// Versions of a container were freed that nobody sees.
    pub(crate) fn note_freed(&self, cont: ContNo, versions: u64) {
        if versions > 0
            && let Some(of_cont) = self.find(cont)
        {
            of_cont.frees.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often something was freed: what a gift would have moved before may be less after it.
    pub(crate) fn frees(&self, cont: ContNo) -> u64 {
        self.find(cont).map_or(0, |of_cont| of_cont.frees.load(Ordering::Acquire))
    }

    pub(crate) fn hand_out_by_thread(&self) {
        self.by_thread.store(true, Ordering::Release);
    }

    pub(crate) fn are_handed_out_by_thread(&self) -> bool {
        self.by_thread.load(Ordering::Acquire)
    }
}

/// Shares of one container's limits.
#[derive(Default)]
struct OfCont {
    /// Guards what is known, and is held while engines are asked, so that what is said last is what is true. Taken before the
    /// service's `state`.
    kept: Mutex<Kept>,
    /// How often something of it was freed.
    frees: AtomicU64,
}

/// What is known of them.
#[derive(Default)]
struct Kept {
    quota: Quota,
    /// The engine with the service, then the parts.
    engines: Vec<Known>,
    /// Lives and changes when what nobody sees was freed last.
    freed: Vec<(u64, u64)>,
    refused: VecDeque<RequestId>,
}

#[derive(Default)]
struct Known {
    life: u64,
    number: u64,
    /// What it has told last; its bounds are the largest that it may have.
    last: Option<Told>,
    /// It has heard what it may use.
    is_told: bool,
}

fn each(one: Charge, other: Charge, with: impl Fn(u64, u64) -> u64) -> Charge {
    Charge { bytes: with(one.bytes, other.bytes), files: with(one.files, other.files) }
}

/// Up to where one may fill its account that uses so much: nowhere without a limit.
fn cap(limits: Limits, bound: Charge, used: Charge) -> Charge {
    // A bound from before there was a limit is none.
    let held = each(bound, used, |bound, used| if bound == u64::MAX { used } else { bound.max(used) });
    each(limits.bound(), held, |limit, held| if limit == u64::MAX { limit } else { held })
}

/// What `caps` leave of a limit.
fn room(limits: Limits, caps: impl Iterator<Item = Charge>) -> Charge {
    let less = |left: Charge, cap| {
        each(left, cap, |left, cap| if left == u64::MAX { left } else { left.saturating_sub(cap) })
    };
    caps.fold(limits.bound(), less)
}

fn plus(cap: Charge, more: Charge) -> Charge {
    each(cap, more, u64::saturating_add)
}

fn half_of(room: Charge, engines: u64) -> Charge {
    each(room, Charge::NONE, |room, _| if room == u64::MAX { 0 } else { room / (2 * engines) })
}

impl Kept {
    fn limits_of(&self, uid: Option<u32>) -> Limits {
        uid.map_or(self.quota.limits, |uid| self.quota.users.get(&uid).copied().unwrap_or_default())
    }

    /// Up to where an engine may fill its account, as far as is known.
    fn caps(&self, at: usize) -> Bounds {
        let users = self.quota.users.iter();
        let Some(last) = &self.engines[at].last else {
            // It may be all.
            let users = users.map(|(&uid, limits)| (uid, limits.bound())).collect();
            return Bounds { all: self.quota.limits.bound(), users };
        };
        let of_user = |(&uid, &limits): (&u32, &Limits)| {
            (uid, cap(limits, last.bounds.of(Some(uid)), last.held_by(uid)))
        };
        let all = cap(self.quota.limits, last.bounds.all, last.used_by_all());
        Bounds { all, users: users.map(of_user).collect() }
    }

    fn used(&self) -> Charge {
        let told = self.engines.iter().filter_map(|known| known.last.as_ref());
        told.fold(Charge::NONE, |sum, last| sum.plus(last.used_by_all()))
    }

    fn changes(&self) -> Vec<(u64, u64)> {
        let each =
            self.engines.iter().map(|known| (known.life, known.last.as_ref().map_or(0, |last| last.changes)));
        each.collect()
    }
}

/// What is handed out in one go.
struct Round<'r, T> {
    targets: &'r Targets<T>,
    cont: ContNo,
    kept: &'r mut Kept,
    is_there: Vec<bool>,
    /// One has answered that has not been let in.
    has_new: bool,
    caps: Vec<Bounds>,
}

impl<T: TargetStore> Round<'_, T> {
    fn count(&self) -> usize {
        self.kept.engines.len()
    }

    /// Asks an engine; whether it has answered.
    fn ask(&mut self, at: usize, ask: ShareAsk) -> bool {
        let is_look = matches!(ask, ShareAsk::Look(_));
        let known = &mut self.kept.engines[at];
        known.number += 1;
        let (cont, life, number) = (self.cont, known.life, known.number);
        let told = match at.checked_sub(1) {
            None => self.targets.accounts().find(cont).map(|account| account.share(life, number, &ask)),
            Some(part) => match self.targets.parts().ask_share(part, Share { cont, life, number, ask }) {
                Ok(ShareTold::Account(told)) => Some(told),
                Ok(ShareTold::Short(_)) | Err(_) => None,
            },
        };
        // Without an account it has not been let in yet.
        let is_new = told.as_ref().is_some_and(|told| told.life == 0);
        self.has_new |= is_new;
        let told = told.filter(|told| told.life != 0);
        let known = &mut self.kept.engines[at];
        self.is_there[at] = told.is_some();
        if let Some(mut told) = told {
            if is_look && told.life == known.life {
                // It may still hear what it was told before, unless something else was said to it since.
                known.last.iter().for_each(|last| told.bounds.raise(&last.bounds));
            }
            // Above what a service that was here before has said.
            known.number = known.number.max(told.number);
            known.is_told &= told.life == known.life;
            known.life = told.life;
            known.last = Some(told);
        }
        self.is_there[at]
    }

    fn ask_all(&mut self, ask: &ShareAsk) {
        (0..self.count()).for_each(|at| {
            self.ask(at, ask.clone());
        });
        self.caps = (0..self.count()).map(|at| self.kept.caps(at)).collect();
    }

    /// Who waits, by engine.
    fn wishes(&self) -> Vec<(usize, Wish)> {
        let of = |(at, known): (usize, &Known)| {
            let wishes = known.last.iter().flat_map(|last| last.wishes.clone());
            wishes.map(|wish| (at, wish)).collect::<Vec<_>>()
        };
        let there = self.kept.engines.iter().enumerate().filter(|(at, _)| self.is_there[*at]);
        there.flat_map(of).collect()
    }

    fn room(&self, uid: Option<u32>) -> Charge {
        room(self.kept.limits_of(uid), self.caps.iter().map(|caps| caps.of(uid)))
    }

    /// Finds room for all of these wishes or for none.
    fn grant(&mut self, wishes: &[&(usize, Wish)]) -> bool {
        let (mut all, mut users) = (Charge::NONE, ByUser::default());
        for (_, wish) in wishes {
            all = all.plus(wish.all);
            wish.users.iter().for_each(|&(uid, adds)| users.add(uid, adds));
        }
        let limited = |uid: u32| self.kept.quota.users.contains_key(&uid);
        let has_room = self.room(None).covers(all)
            && users.iter().all(|(uid, adds)| !limited(uid) || self.room(Some(uid)).covers(adds));
        if has_room {
            for (at, wish) in wishes {
                self.give(*at, None, wish.all);
                for &(uid, adds) in &wish.users {
                    if self.kept.quota.users.contains_key(&uid) {
                        self.give(*at, Some(uid), adds);
                    }
                }
            }
        }
        has_room
    }

    fn give(&mut self, at: usize, uid: Option<u32>, more: Charge) {
        let caps = &mut self.caps[at];
        let cap = match uid {
            None => &mut caps.all,
            Some(uid) => caps.users.entry(uid).or_default(),
        };
        *cap = plus(*cap, more);
    }

    /// Finds room for all of them; those for whom there is none. Parts of one transaction have room together or not at all: what
    /// some of them find is lost for others.
    fn grant_all(&mut self, wishes: &[(usize, Wish)]) -> Vec<RequestId> {
        let (mut places, mut together) = (BTreeMap::new(), Vec::<Vec<&(usize, Wish)>>::new());
        for wish in wishes {
            let place = *places.entry(wish.1.id).or_insert(together.len());
            if place == together.len() {
                together.push(Vec::new());
            }
            together[place].push(wish);
        }
        together.retain(|wishes| !self.grant(wishes));
        together.into_iter().map(|wishes| wishes[0].1.id).collect()
    }

    /// Hands some of what is left to engines, so that they need not ask for each write.
    fn spread(&mut self, to: &[usize], uids: impl Iterator<Item = Option<u32>>) {
        let engines = self.count() as u64;
        for uid in uids {
            let more = half_of(self.room(uid), engines);
            to.iter().for_each(|&at| self.give(at, uid, more));
        }
    }

    /// Up to where an engine may fill its account: what has been found for it, and where there is more than a limit allows, what is left
    /// if all others keep what they have. So nobody takes again what is freed until there is less.
    fn bounds(&self, at: usize) -> Bounds {
        let of = |uid: Option<u32>, own: Charge| {
            let others = self.caps.iter().enumerate().filter(|(other, _)| *other != at);
            each(own, room(self.kept.limits_of(uid), others.map(|(_, caps)| caps.of(uid))), u64::min)
        };
        let Bounds { all, users } = &self.caps[at];
        Bounds {
            all: of(None, *all),
            users: users.iter().map(|(&uid, &own)| (uid, of(Some(uid), own))).collect(),
        }
    }

    /// Says to an engine what it may use, and what became of wishes; whether it has heard it.
    fn set(&mut self, at: usize, told: Vec<(RequestId, bool)>) -> bool {
        let bounds = self.bounds(at);
        let Some(last) = self.kept.engines[at].last.as_mut() else { return false };
        // Before it is told: if the answer is lost, it may have it.
        last.bounds.raise(&bounds);
        let is_heard = self.ask(at, ShareAsk::Set { bounds: bounds.clone(), told })
            && self.kept.engines[at].last.as_ref().is_some_and(|last| last.bounds == bounds);
        self.kept.engines[at].is_told |= is_heard;
        is_heard
    }
}

impl Service {
    /// Tells engines which share of a container's limits they have, without room that any of them had before.
    ///
    /// # Errors
    /// `Unreachable` if one has not heard it.
    pub(crate) fn fit<T: TargetStore>(&self, targets: &Targets<T>, cont: ContNo, quota: Quota) -> Result<()> {
        self.hand_out(targets, cont, (Some(quota), None)).map(drop)
    }

    /// Looks whether anybody waits for room, and finds it; whether there is none for this request.
    pub(crate) fn find_room<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        cont: ContNo,
        id: Option<RequestId>,
    ) -> Result<bool> {
        let refused = self.hand_out(targets, cont, (None, id))?;
        Ok(id.is_some_and(|id| refused.contains(&id) || self.was_refused(targets, cont, id)))
    }

    fn was_refused<T: TargetStore>(&self, targets: &Targets<T>, cont: ContNo, id: RequestId) -> bool {
        let Some(kept) = targets.accounts().shares.find(cont) else { return false };
        let mut kept = locked(&kept.kept);
        let before = kept.refused.len();
        kept.refused.retain(|other| *other != id);
        kept.refused.len() < before
    }

    fn hand_out<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        cont: ContNo,
        (fit, of): (Option<Quota>, Option<RequestId>),
    ) -> Result<Vec<RequestId>> {
        let of_cont = targets.accounts().shares.find(cont).ok_or(Error::NoContainer)?;
        let mut kept = locked(&of_cont.kept);
        let count = 1 + targets.parts().count();
        // Above what a service that was here before has said.
        let number = self.clock().tick().0;
        kept.engines.resize_with(count, || Known { life: 0, number, last: None, is_told: false });
        let is_fit = fit.is_some();
        if let Some(quota) = fit {
            kept.quota = quota;
        }
        let (is_there, caps) = (vec![true; count], Vec::new());
        let mut round = Round { targets, cont, kept: &mut kept, is_there, has_new: false, caps };
        round.ask_all(&ShareAsk::Look(of));
        if round.has_new {
            // Ignored: then it is not there.
            let _let_in = targets.parts().look(self.now(targets));
            round.ask_all(&ShareAsk::Look(of));
        }
        let mut wishes = round.wishes();
        // Its parts that did fit wait for nothing else.
        wishes.sort_by_key(|(_, wish)| Some(wish.id) != of);
        if is_fit {
            round.ask_all(&ShareAsk::Recall);
        }
        let unfitted: Vec<usize> = (0..count).filter(|&at| !round.is_fitted(at)).collect();
        if !is_fit && wishes.is_empty() && unfitted.is_empty() {
            return Ok(Vec::new());
        }
        let mut refused = round.grant_all(&wishes);
        let is_recalled = is_fit || !refused.is_empty();
        if !refused.is_empty() {
            round.ask_all(&ShareAsk::Recall);
            refused = round.grant_all(&wishes);
        }
        if !refused.is_empty() && round.kept.freed != round.kept.changes() {
            let (changes, before) = (round.kept.changes(), round.kept.used());
            let is_all = self.free_everywhere(targets, cont)?;
            round.kept.freed = if is_all { changes } else { Vec::new() };
            round.ask_all(&ShareAsk::Recall);
            // By a merge that was under way, too, which counts for nobody.
            targets.accounts().shares.note_freed(cont, u64::from(!round.kept.used().covers(before)));
            refused = round.grant_all(&wishes);
        }
        round.spread_among(&wishes, (is_fit, is_recalled && refused.is_empty()));
        let is_heard = round.tell(&wishes, &refused, (is_recalled, &unfitted));
        let missing = (1..count).find(|&at| !is_heard[at]);
        kept.note_refused(&refused);
        match missing {
            Some(at) if is_fit => Err(Error::Unreachable { rank: targets.parts().rank(at - 1) }),
            _ => Ok(refused),
        }
    }

    /// Frees what nobody sees of a container on all targets that answer; whether all have.
    fn free_everywhere<T: TargetStore>(&self, targets: &Targets<T>, cont: ContNo) -> Result<bool> {
        // Only for the epochs that it tells. One that does not is behind.
        drop(targets.call_all(|_| plain(ContNo::SYSTEM, Verb::Latest)));
        let upto = self.aggregable(targets, cont)?;
        let mut is_all = true;
        for target in targets.numbers() {
            let aggregate =
                || targets.call(target, plain(cont, Verb::Cont(ContVerb::Aggregate(upto)))).result;
            let mut done = aggregate();
            while let Ok(Reply::Aggregated { more: true, .. }) = done {
                done = aggregate();
            }
            if let Ok(Reply::Aggregated { freed, .. }) = done {
                targets.accounts().shares.note_freed(cont, freed);
            }
            is_all &= done.is_ok();
        }
        Ok(is_all)
    }

    /// What all engines have of a container.
    ///
    /// # Errors
    /// `Unreachable` if one does not answer.
    pub(crate) fn used_everywhere<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        cont: ContNo,
    ) -> Result<Vec<(u32, Charge)>> {
        let mut used = match targets.accounts().find(cont) {
            Some(account) => account.share(0, 0, &ShareAsk::Look(None)).used,
            None => targets.charges(cont)?,
        };
        for part in 0..targets.parts().count() {
            let look = Share { cont, life: 0, number: 0, ask: ShareAsk::Look(None) };
            match targets.parts().ask_share(part, look)? {
                ShareTold::Account(told) => used.extend(told.used),
                ShareTold::Short(_) => return Err(Error::Unreachable { rank: targets.parts().rank(part) }),
            }
        }
        Ok(used)
    }

    /// Hands room out to whoever waits for it; whether containers have limits.
    pub(crate) fn look_after_shares<T: TargetStore>(&self, targets: &Targets<T>) -> bool {
        let (accounts, parts) = (targets.accounts(), targets.parts());
        if !parts.are_there() || !accounts.are_there() {
            return false;
        }
        let mut short: Vec<ContNo> = accounts.shares.conts();
        if short.is_empty() {
            return false;
        }
        short.retain(|&cont| accounts.find(cont).is_some_and(|account| account.is_short()));
        for part in 0..parts.count() {
            let ask = Share { cont: ContNo::SYSTEM, life: 0, number: 0, ask: ShareAsk::Short };
            if let Ok(ShareTold::Short(conts)) = parts.ask_share(part, ask) {
                short.extend(conts);
            }
        }
        short.sort_unstable();
        short.dedup();
        for cont in short {
            // Ignored: whoever waits asks again, and is told in the end that nobody answers.
            let _later = self.find_room(targets, cont, None);
        }
        true
    }
}

impl Kept {
    fn note_refused(&mut self, refused: &[RequestId]) {
        self.refused.extend(refused);
        while self.refused.len() > REFUSED_MAX {
            self.refused.pop_front();
        }
    }
}

impl<T: TargetStore> Round<'_, T> {
    /// Whether an engine that is there has bounds where there are limits.
    fn is_fitted(&self, at: usize) -> bool {
        let Some(last) = self.kept.engines[at].last.as_ref().filter(|_| self.is_there[at]) else {
            return true;
        };
        let is_alike = |bound: Charge, limits: Limits| {
            (bound.bytes == u64::MAX) == (limits.bytes == 0)
                && (bound.files == u64::MAX) == (limits.files == 0)
        };
        let users = &self.kept.quota.users;
        self.kept.engines[at].is_told
            && is_alike(last.bounds.all, self.kept.quota.limits)
            && last.bounds.users.len() == users.len()
            && users
                .iter()
                .all(|(uid, limits)| last.bounds.users.get(uid).is_some_and(|one| is_alike(*one, *limits)))
    }

    fn spread_among(&mut self, wishes: &[(usize, Wish)], (is_fit, is_to_all): (bool, bool)) {
        let mut to: Vec<usize> =
            if is_to_all { (0..self.count()).filter(|&at| self.is_there[at]).collect() } else { Vec::new() };
        let mut uids: Vec<Option<u32>> = vec![None];
        if is_fit {
            uids.extend(self.kept.quota.users.keys().copied().map(Some));
        } else {
            let limited = |uid: &u32| self.kept.quota.users.contains_key(uid);
            let of_wishes = wishes.iter().flat_map(|(_, wish)| wish.users.iter().map(|one| one.0));
            uids.extend(of_wishes.filter(limited).map(Some));
            if to.is_empty() && !is_to_all {
                to.extend(wishes.iter().map(|wish| wish.0));
            }
        }
        to.sort_unstable();
        to.dedup();
        uids.sort_unstable();
        uids.dedup();
        self.spread(&to, uids.into_iter());
    }

    /// Says to all whom it concerns what they may use, and what became of wishes; who has heard it, or had nothing to hear.
    fn tell(
        &mut self,
        wishes: &[(usize, Wish)],
        refused: &[RequestId],
        (is_recalled, unfitted): (bool, &[usize]),
    ) -> Vec<bool> {
        let told_at = |at: usize| -> Vec<(RequestId, bool)> {
            let own = wishes.iter().filter(|wish| wish.0 == at);
            own.map(|(_, wish)| (wish.id, !refused.contains(&wish.id))).collect()
        };
        let mut has_heard = Vec::with_capacity(self.count());
        for at in 0..self.count() {
            let told = told_at(at);
            let concerns = is_recalled || !told.is_empty() || unfitted.contains(&at);
            has_heard.push(self.is_there[at] && (!concerns || self.set(at, told)));
        }
        has_heard
    }
}
