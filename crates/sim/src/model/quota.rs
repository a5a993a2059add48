//! Limits: what versions count, for whom, what of it must be there and what may, and whether a write fits.
//!
//! All of this is counted anew from the versions, by the rules of decision 0038, whenever it is asked for. Of what stores count with
//! only the names of things are used.

use super::data::{Akey, Cont, Gift, Values, View};
use super::{Model, write};
use dolmen_codec::quota::{Account, ByUser, Charge, Given, Limits};
use dolmen_codec::verb::{Mutation, NewValue, PunchScope, Update};
use dolmen_types::{ContNo, Epoch, Error, Key, KeyKind, Oid, Recx, Stamp, TxId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What users have.
pub(crate) type Sums = BTreeMap<u32, Charge>;

/// Newer than everything.
const PRESENT: Epoch = Epoch(u64::MAX - 1);

/// Whether a write is within the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fits {
    /// With all that may still be charged.
    pub(crate) at_most: bool,
    /// With only what must be.
    pub(crate) at_least: bool,
}

/// A version under an akey: whether it is a single value, and which of these it is.
type Place = (bool, usize);

fn counts(dkey: &[u8], akey: &[u8], first: u64, bytes: u64) -> Charge {
    if !akey.starts_with(b"DFS_") && !akey.starts_with(b"DLM_") {
        return Charge { bytes, files: 0 };
    }
    let is_name = bytes > 0 && first == 0 && akey == b"DFS_INODE" && dkey != b"DLM_COMPANION";
    Charge { bytes: if bytes > 1024 { bytes } else { 0 }, files: u64::from(is_name) }
}

fn add(sums: &mut Sums, uid: u32, charge: Charge) {
    if !charge.is_none() {
        let own = sums.entry(uid).or_default();
        *own = own.plus(charge);
    }
}

fn all(sums: &Sums) -> Charge {
    sums.values().fold(Charge::NONE, |sum, charge| sum.plus(*charge))
}

impl Akey {
    fn places(&self) -> impl Iterator<Item = Place> {
        (0..self.singles.len()).map(|n| (true, n)).chain((0..self.extents.len()).map(|n| (false, n)))
    }

    fn stamp(&self, (single, n): Place) -> Stamp {
        if single { self.singles[n].origin.stamp } else { self.extents[n].origin.stamp }
    }

    fn is_undecided(&self, (single, n): Place) -> bool {
        let origin = if single { self.singles[n].origin } else { self.extents[n].origin };
        origin.undecided.is_some()
    }

    fn uid(&self, (single, n): Place) -> u32 {
        if single { self.singles[n].uid } else { self.extents[n].uid }
    }

    fn is_freed(&self, (single, n): Place) -> bool {
        if single { self.singles[n].freed } else { self.extents[n].freed }
    }

    fn charge(&self, dkey: &[u8], akey: &[u8], (single, n): Place) -> Charge {
        if single {
            let bytes = self.singles[n].bytes.as_ref().map_or(0, Vec::len);
            return counts(dkey, akey, 0, bytes as u64);
        }
        let extent = &self.extents[n];
        counts(dkey, akey, extent.recx.index, extent.bytes.len() as u64)
    }

    fn uid_mut(&mut self, (single, n): Place) -> &mut u32 {
        if single { &mut self.singles[n].uid } else { &mut self.extents[n].uid }
    }

    /// Those older than a gift that are decided, and its transaction's own.
    fn older(&self, gift: &Gift) -> Vec<Place> {
        let undecided = |(single, n): Place| {
            if single { self.singles[n].origin.undecided } else { self.extents[n].origin.undecided }
        };
        let is_older = |place: &Place| {
            self.stamp(*place) < gift.stamp && undecided(*place).is_none_or(|tx| tx == gift.tx)
        };
        self.places().filter(is_older).collect()
    }

    /// The versions of which something is seen.
    fn seen(&self, values: &Values<'_>) -> BTreeSet<Place> {
        let is_seen = |place: &Place| {
            let stamp = self.stamp(*place);
            if place.0 {
                return values.single.is_some_and(|single| single.1 == stamp);
            }
            let recx = self.extents[place.1].recx;
            values.pieces.values().any(|piece| piece.stamp == stamp && recx.intersect(piece.recx).is_some())
        };
        self.places().filter(is_seen).collect()
    }
}

impl Cont {
    fn slots(&self) -> impl Iterator<Item = (Oid, &Key, &Key, &Akey)> {
        let dkeys = self.objects.iter().flat_map(|(oid, object)| object.dkeys.iter().map(move |d| (*oid, d)));
        dkeys.flat_map(|(oid, (dkey, below))| {
            below.akeys.iter().map(move |(akey, slot)| (oid, dkey, akey, slot))
        })
    }

    /// What is kept that is not above the horizon is what one of these sees.
    fn kept_views(&self) -> Vec<View> {
        let returns = self.rollbacks.iter().filter(|(at, _)| **at > self.oldest).map(|(_, to)| *to);
        let kept: BTreeSet<Epoch> =
            self.snapshots.iter().copied().chain(returns).chain([self.oldest]).collect();
        kept.into_iter().map(|epoch| self.view(epoch, &[])).collect()
    }

    fn seen_by(&self, views: &[View], (oid, dkey, akey, slot): (Oid, &Key, &Key, &Akey)) -> BTreeSet<Place> {
        views.iter().flat_map(|view| slot.seen(&self.values(view, oid, dkey, akey))).collect()
    }

    fn needed_of(&self, views: &[View], slot: (Oid, &Key, &Key, &Akey)) -> BTreeSet<Place> {
        let mut needed = self.seen_by(views, slot);
        let akey = slot.3;
        needed.extend(akey.places().filter(|&n| akey.is_undecided(n) || akey.stamp(n).epoch > self.oldest));
        needed
    }

    fn sums(&self, places: impl Fn((Oid, &Key, &Key, &Akey)) -> BTreeSet<Place>) -> Sums {
        let mut sums = Sums::new();
        for slot in self.slots() {
            let (_, dkey, akey, versions) = slot;
            for place in places(slot) {
                add(&mut sums, versions.uid(place), versions.charge(dkey, akey, place));
            }
        }
        sums
    }

    /// Has what is older of an object charged to whom a gift names, and adds what of that is not freed.
    pub(super) fn give(&mut self, gift: &Gift, given: &mut Given) {
        let Some(object) = self.objects.get_mut(&gift.oid) else { return };
        let dkeys = object.dkeys.iter_mut();
        for (dkey, akey, slot) in
            dkeys.flat_map(|(d, below)| below.akeys.iter_mut().map(move |(a, s)| (d, a, s)))
        {
            for place in slot.older(gift) {
                if !slot.is_freed(place) {
                    given.add(slot.uid(place), gift.uid, slot.charge(dkey, akey, place));
                }
                *slot.uid_mut(place) = gift.uid;
            }
        }
    }

    /// What gifts would move of what `counts`.
    fn given(&self, gifts: &[Gift], counts: impl Fn((Oid, &Key, &Key, &Akey)) -> BTreeSet<Place>) -> Given {
        let mut given = Given::default();
        for gift in gifts {
            for slot in self.slots().filter(|slot| slot.0 == gift.oid) {
                let counted = counts(slot);
                for place in slot.3.older(gift).into_iter().filter(|place| counted.contains(place)) {
                    given.add(slot.3.uid(place), gift.uid, slot.3.charge(slot.1, slot.2, place));
                }
            }
        }
        given
    }

    fn unfreed_of(slot: (Oid, &Key, &Key, &Akey)) -> BTreeSet<Place> {
        slot.3.places().filter(|&place| !slot.3.is_freed(place)).collect()
    }

    /// What no aggregation frees: what is above the horizon, undecided, or seen by a state that is kept.
    fn needed(&self) -> Sums {
        let views = self.kept_views();
        self.sums(|slot| self.needed_of(&views, slot))
    }

    /// What a transaction has written that is undecided.
    fn undecided(&self, tx: TxId) -> Sums {
        let is_of = |akey: &Akey, (single, n): Place| {
            let origin = if single { akey.singles[n].origin } else { akey.extents[n].origin };
            origin.undecided == Some(tx)
        };
        self.sums(|(.., akey)| akey.places().filter(|&place| is_of(akey, place)).collect())
    }

    fn gifts_of(&self, tx: TxId) -> Vec<Gift> {
        self.gifts.iter().filter(|gift| gift.tx == tx).copied().collect()
    }

    /// What no aggregation has had to free.
    pub(super) fn unfreed(&self) -> Sums {
        self.sums(Self::unfreed_of)
    }

    /// What the newest state shows something of.
    fn visible(&self) -> Sums {
        let views = [self.view(PRESENT, &[])];
        self.sums(|slot| self.seen_by(&views, slot))
    }

    /// Frees all that is not needed, and says what that is.
    pub(super) fn free(&mut self) -> Sums {
        let views = self.kept_views();
        let (mut gone, mut freed) = (Vec::new(), Sums::new());
        for slot in self.slots() {
            let needed = self.needed_of(&views, slot);
            let is_new = |place: &Place| !needed.contains(place) && !slot.3.is_freed(*place);
            let places: Vec<Place> = slot.3.places().filter(is_new).collect();
            for &place in &places {
                add(&mut freed, slot.3.uid(place), slot.3.charge(slot.1, slot.2, place));
            }
            gone.push((slot.0, slot.1.clone(), slot.2.clone(), places));
        }
        for (oid, dkey, akey, places) in gone {
            let slot = self.slot(oid, &dkey, &akey);
            for (single, n) in places {
                let freed = if single { &mut slot.singles[n].freed } else { &mut slot.extents[n].freed };
                *freed = true;
            }
        }
        freed
    }

    /// What a write of one value hides wholly of what `view` sees: of bytes, what no snapshot shows. `recx` is none for a single value.
    fn replaced(
        &self,
        view: &View,
        (oid, dkey, akey): (Oid, &Key, &Key),
        recx: Option<Recx>,
    ) -> BTreeMap<Place, (u32, Charge)> {
        let below = self.objects.get(&oid).and_then(|object| object.dkeys.get(dkey));
        let Some(slot) = below.and_then(|below| below.akeys.get(akey)) else { return BTreeMap::new() };
        let is_hidden = |&(single, n): &Place| match recx {
            None => single,
            Some(recx) => !single && recx.intersect(slot.extents[n].recx) == Some(slot.extents[n].recx),
        };
        let seen = slot.seen(&self.values(view, oid, dkey, akey));
        let snapshots: Vec<View> = self.snapshots.iter().map(|&epoch| self.view(epoch, &[])).collect();
        let shown = self.seen_by(&snapshots, (oid, dkey, akey, slot));
        let of = |place: Place| {
            let charge = slot.charge(dkey, akey, place);
            let bytes = if shown.contains(&place) { 0 } else { charge.bytes };
            (place, (slot.uid(place), Charge { bytes, ..charge }))
        };
        seen.into_iter().filter(is_hidden).map(of).collect()
    }

    /// What mutations add, and what of what is there they replace.
    fn adds(&self, asks: u32, mutations: &[Mutation<'_>], at: Option<Epoch>) -> (Sums, Sums) {
        let view = match at {
            Some(epoch) => self.view_before(Stamp { epoch, minor: 0 }, &[]),
            None => self.view(PRESENT, &[]),
        };
        let (mut adds, mut gone) = (Sums::new(), BTreeMap::new());
        for mutation in mutations {
            let Mutation::Update(update) = mutation else { continue };
            for (akey, recx, bytes) in parts(update) {
                let charge = counts(&update.dkey, akey, recx.map_or(0, |recx| recx.index), bytes);
                if charge.is_none() {
                    continue;
                }
                add(&mut adds, update.charged.unwrap_or(asks), charge);
                let place = (write::oid(mutation), &update.dkey, akey);
                let hidden = self.replaced(&view, place, recx);
                gone.extend(hidden.into_iter().map(|(version, of)| ((place, version), of)));
            }
        }
        let mut replaced = Sums::new();
        gone.into_values().for_each(|(uid, charge)| add(&mut replaced, uid, charge));
        (adds, replaced)
    }
}

/// What an update writes: under which akey, from which record on, how many bytes; and which records, if it is no single value.
fn parts<'u>(update: &'u Update<'_>) -> Vec<(&'u Key, Option<Recx>, u64)> {
    let mut parts = Vec::new();
    for iod in &update.iods {
        match &iod.value {
            NewValue::Single(payload) => parts.push((&iod.akey, None, payload.bytes().len() as u64)),
            NewValue::Array { record_bytes, extents, .. } => {
                parts.extend(extents.iter().map(|&recx| (&iod.akey, Some(recx), recx.count * record_bytes)));
            }
            NewValue::NoSingle | NewValue::Hole { .. } => {}
        }
    }
    parts
}

/// The gifts of a transaction that is not there yet.
fn gifts(mutations: &[Mutation<'_>], at: Option<Epoch>) -> Vec<Gift> {
    let Some(epoch) = at else { return Vec::new() };
    let gift = |(mutation, minor): (&Mutation<'_>, u16)| match mutation {
        Mutation::Update(Update { oid, iods, charged: Some(uid), .. }) if iods.is_empty() => {
            let tx = TxId { client: u128::MAX, begin: Epoch::MAX };
            Some(Gift { stamp: Stamp { epoch, minor }, tx, oid: *oid, uid: *uid })
        }
        _ => None,
    };
    mutations.iter().zip(0..=u16::MAX).filter_map(gift).collect()
}

/// Adds what a transaction gives of what it writes itself.
fn add_own(given: &mut Given, asks: u32, mutations: &[Mutation<'_>]) {
    for (number, gift) in mutations.iter().enumerate() {
        let Mutation::Update(Update { oid, iods, charged: Some(to), .. }) = gift else { continue };
        if !iods.is_empty() {
            continue;
        }
        for before in &mutations[..number] {
            let Mutation::Update(update) = before else { continue };
            for (akey, recx, bytes) in parts(update).into_iter().filter(|_| update.oid == *oid) {
                let charge = counts(&update.dkey, akey, recx.map_or(0, |recx| recx.index), bytes);
                given.add(update.charged.unwrap_or(asks), *to, charge);
            }
        }
    }
}

/// How many of the names that a transaction adds stand for others that it removes.
fn moved(mutations: &[Mutation<'_>]) -> u64 {
    let (mut added, mut removed) = (0, 0);
    for mutation in mutations {
        match mutation {
            Mutation::Update(update) => {
                let charge = |(akey, recx, bytes): (&Key, Option<Recx>, u64)| {
                    counts(&update.dkey, akey, recx.map_or(0, |recx| recx.index), bytes)
                };
                added += parts(update).into_iter().map(|part| charge(part).files).sum::<u64>();
            }
            Mutation::Punch(punch) => {
                let kind = punch.oid.object_type().map(|of| of.dkey_kind());
                let is_name =
                    matches!(&punch.scope, PunchScope::Dkey(dkey) if dkey.as_slice() != b"DLM_COMPANION");
                removed += u64::from(is_name && kind.is_some_and(|kind| kind != KeyKind::Uint64));
            }
        }
    }
    added.min(removed)
}

impl Model {
    /// Sets limits of a user, or of all together; 0 is none.
    pub(crate) fn limit(&mut self, no: ContNo, uid: Option<u32>, limits: Limits) {
        if let Some(cont) = self.conts.get_mut(&no) {
            cont.limits.insert(uid, limits);
        }
    }

    /// What must be charged, and what may be.
    pub(crate) fn charged(&self, no: ContNo) -> (Sums, Sums) {
        let cont = self.conts.get(&no);
        cont.map_or((Sums::new(), Sums::new()), |cont| (cont.needed(), cont.unfreed()))
    }

    /// The limits that somebody has, where what can be seen is above them, with that.
    pub(crate) fn seen_above(&self, no: ContNo) -> BTreeMap<(Option<u32>, bool), u64> {
        let Some(cont) = self.conts.get(&no) else { return BTreeMap::new() };
        let (sums, mut above) = (cont.visible(), BTreeMap::new());
        for (&uid, limits) in &cont.limits {
            let seen = uid.map_or(all(&sums), |uid| sums.get(&uid).copied().unwrap_or_default());
            for (is_files, limit, seen) in
                [(false, limits.bytes, seen.bytes), (true, limits.files, seen.files)]
            {
                if limit > 0 && seen > limit {
                    above.insert((uid, is_files), seen);
                }
            }
        }
        above
    }

    /// Keeps an account that others keep, too.
    pub(super) fn begin_account(&mut self, no: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        let unfreed = self.find(no)?.unfreed();
        if !self.accounts.get(&no).is_some_and(|known| Arc::ptr_eq(known, account)) {
            unfreed.into_iter().for_each(|(uid, charge)| account.count(uid, charge));
            let cont = self.find(no)?;
            let expected = |tx: &TxId| cont.given(&cont.gifts_of(*tx), Cont::unfreed_of).to;
            let expected: Vec<_> = self.prepared.keys().map(|tx| (*tx, expected(tx))).collect();
            for (tx, expected) in expected {
                account.expect(&expected);
                self.prepared.entry(tx).and_modify(|prepared| prepared.expected = expected);
            }
            self.accounts.insert(no, Arc::clone(account));
        }
        Ok(())
    }

    /// Reserves what mutations add in the account of their container, if it has one. What of that gifts bring.
    pub(super) fn reserve(
        &self,
        no: ContNo,
        asks: u32,
        mutations: &[Mutation<'_>],
        tx: Option<(TxId, Epoch)>,
    ) -> Result<ByUser, Error> {
        let cont = self.find(no)?;
        let own = tx.map(|tx| tx.0);
        for mutation in mutations {
            let oid = write::oid(mutation);
            let given = cont.gifts.iter().find(|gift| gift.oid == oid && Some(gift.tx) != own);
            let gives = cont.gifts.iter().any(|gift| gift.oid == oid && Some(gift.tx) == own);
            let others = || self.prepared.iter().find(|(tx, of)| Some(**tx) != own && of.touches(no, oid));
            let before = given.map(|gift| gift.tx).or_else(|| gives.then(others).flatten().map(|one| *one.0));
            if let Some(tx) = before {
                return Err(Error::InDoubt { tx });
            }
        }
        let Some(account) = self.accounts.get(&no) else { return Ok(ByUser::default()) };
        let (adds, replaced) = cont.adds(asks, mutations, tx.map(|tx| tx.1));
        let given = tx.map_or_else(Given::default, |tx| cont.given(&cont.gifts_of(tx.0), Cont::unfreed_of));
        let by_user = |sums: Sums| {
            let mut of = ByUser::default();
            sums.into_iter().for_each(|(uid, charge)| of.add(uid, charge));
            of
        };
        account.reserve_given(tx.map(|tx| tx.0), &by_user(adds), &by_user(replaced), &given)?;
        account.note_change();
        Ok(given.to)
    }

    /// Gives back what a transaction has reserved that is about to be aborted.
    pub(super) fn release(&self, no: ContNo, tx: TxId) {
        if let (Some(account), Some(cont)) = (self.accounts.get(&no), self.conts.get(&no)) {
            cont.undecided(tx).into_iter().for_each(|(uid, charge)| account.release(uid, charge));
            account.note_change();
        }
    }

    /// Gives back what an aggregation frees.
    pub(super) fn free(&mut self, no: ContNo) {
        let freed = self.conts.get_mut(&no).map(Cont::free);
        if let (Some(account), Some(freed)) = (self.accounts.get(&no), freed) {
            freed.into_iter().for_each(|(uid, charge)| account.release(uid, charge));
        }
    }

    /// Whether mutations for which `asks` asks, at the epoch of their transaction if they are of one, are within the limits.
    pub(crate) fn fits(&self, no: ContNo, asks: u32, mutations: &[Mutation<'_>], at: Option<Epoch>) -> Fits {
        let Some(cont) = self.conts.get(&no) else { return Fits { at_most: true, at_least: true } };
        let (adds, replaced) = cont.adds(asks, mutations, at);
        let moved = if at.is_some() { moved(mutations) } else { 0 };
        let gifts = gifts(mutations, at);
        let views = cont.kept_views();
        let given =
            [cont.given(&gifts, Cont::unfreed_of), cont.given(&gifts, |slot| cont.needed_of(&views, slot))]
                .map(|mut given| {
                    add_own(&mut given, asks, mutations);
                    given
                });
        // What is undecided is reserved.
        let incoming = [
            cont.given(&cont.gifts, Cont::unfreed_of).to,
            cont.given(&cont.gifts, |slot| cont.needed_of(&views, slot)).to,
        ];
        let within = |used: &Sums, given: &Given, incoming: &ByUser| {
            let is_within = |limits: Limits, used: Charge, adds: Charge, gone: Charge| {
                let one = |limit: u64, used: u64, adds: u64, gone: u64| {
                    limit == 0 || adds <= gone || used + adds <= limit + gone
                };
                one(limits.bytes, used.bytes, adds.bytes, gone.bytes)
                    && one(limits.files, used.files, adds.files, gone.files + moved)
            };
            let of = |sums: &Sums, uid: &u32| sums.get(uid).copied().unwrap_or_default();
            cont.limits.iter().all(|(uid, &limits)| match uid {
                None => {
                    let moved = given.to.all();
                    is_within(limits, all(used), all(&adds).plus(moved), all(&replaced).plus(moved))
                }
                Some(uid) => {
                    let adds = of(&adds, uid).plus(given.to.of(*uid));
                    let used = of(used, uid).plus(incoming.of(*uid));
                    is_within(limits, used, adds, of(&replaced, uid))
                }
            })
        };
        Fits {
            at_most: within(&cont.unfreed(), &given[0], &incoming[0]),
            at_least: within(&cont.needed(), &given[1], &incoming[1]),
        }
    }
}
