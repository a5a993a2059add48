//! What counts against the limits of a container, and the account that its targets in one process share.
//!
//! Invariants: a version is charged by `charge_of` alone, when it is written, dropped and audited; what is used of a container
//! is the sum over its users; nothing is given back that was not charged.

use crate::verb::{Mutation, NewValue, PunchScope};
use crate::version::Version;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_types::{Error, KeyKind, TxId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

mod share;

pub use share::{Bounds, Share, ShareAsk, ShareTold, Told, Verdict, Wish};

/// The akey of the record of a name in a file system.
//= daos:src/include/daos_fs.h DFS_INODE akey
pub const INODE_AKEY: &[u8] = b"DFS_INODE";
/// What the akeys of records of names, and of the file system itself, begin with.
pub const RECORD_PREFIXES: [&[u8]; 2] = [b"DFS_", b"DLM_"];
/// The dkey with what the names of one file share, which is no name.
pub const COMPANION_DKEY: &[u8] = b"DLM_COMPANION";
/// Records of names up to this size count as the file that they are of: a record with the target of most symbolic links.
pub const RECORD_BYTES_MAX: u64 = 1024;
/// Transactions with gifts of which sums are kept; they are forgotten when these end. One that is missing is tried once more.
const ASKED_MAX: usize = 1024;
/// Users of one container that may have limits.
pub const USERS_MAX: usize = 4096;

/// What versions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// Bytes of values.
    pub bytes: u64,
    /// Names of files.
    pub files: u64,
}

impl Charge {
    /// Nothing.
    pub const NONE: Self = Self { bytes: 0, files: 0 };

    /// Whether it is nothing.
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Both together.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }

    /// What is left without `other`.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }

    /// Whether `other` is a part of it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        other.bytes <= self.bytes && other.files <= self.files
    }
}

/// What a version under these keys counts, which begins at record `index` of its array.
#[inline]
#[must_use]
pub fn charge_of(dkey: &[u8], akey: &[u8], index: u64, value_bytes: u32) -> Charge {
    let bytes = u64::from(value_bytes);
    if bytes == 0 || !RECORD_PREFIXES.iter().any(|prefix| akey.starts_with(prefix)) {
        return Charge { bytes, files: 0 };
    }
    let is_name = akey == INODE_AKEY && index == 0 && dkey != COMPANION_DKEY;
    Charge { bytes: if bytes > RECORD_BYTES_MAX { bytes } else { 0 }, files: u64::from(is_name) }
}

impl Version<'_> {
    /// What it counts.
    #[inline]
    #[must_use]
    pub fn charge(&self) -> Charge {
        charge_of(self.dkey, self.akey, self.recx.index, self.value_bytes)
    }
}

/// What a mutation counts, as far as it adds anything.
#[must_use]
pub fn charge_of_mutation(mutation: &Mutation<'_>) -> Charge {
    let Mutation::Update(update) = mutation else { return Charge::NONE };
    let mut sum = Charge::NONE;
    for iod in &update.iods {
        let mut add = |index, bytes: u64| {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            sum = sum.plus(charge_of(&update.dkey, &iod.akey, index, bytes));
        };
        match &iod.value {
            NewValue::Single(payload) => add(0, payload.bytes().len() as u64),
            NewValue::Array { record_bytes, extents, .. } => {
                extents.iter().for_each(|recx| add(recx.index, record_bytes.saturating_mul(recx.count)));
            }
            NewValue::NoSingle | NewValue::Hole { .. } => {}
        }
    }
    sum
}

/// How many of the names that mutations add stand for others that they remove.
#[must_use]
pub fn moves_of<'m, 'p: 'm>(mutations: impl Iterator<Item = &'m Mutation<'p>>) -> u64 {
    let (mut added, mut removed) = (0, 0);
    for mutation in mutations {
        added += charge_of_mutation(mutation).files;
        if let Mutation::Punch(punch) = mutation
            && let PunchScope::Dkey(dkey) = &punch.scope
            && punch.oid.object_type().is_some_and(|kind| kind.dkey_kind() != KeyKind::Uint64)
            && dkey.as_slice() != COMPANION_DKEY
        {
            removed += 1;
        }
    }
    added.min(removed)
}

/// Limits; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Of bytes.
    pub bytes: u64,
    /// Of files.
    pub files: u64,
}

impl Limits {
    /// Up to where they let something be filled.
    #[must_use]
    pub fn bound(self) -> Charge {
        let one = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        Charge { bytes: one(self.bytes), files: one(self.files) }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Limits of a container and of its users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    /// Of all together.
    pub limits: Limits,
    /// Of users who have any, by number.
    pub users: BTreeMap<u32, Limits>,
}

impl Quota {
    /// Whether there are no limits.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.limits.is_none() && self.users.is_empty()
    }

    /// Sets the limits of a user, or of all together. Whether there is room for him.
    #[must_use]
    pub fn set(&mut self, uid: Option<u32>, limits: Limits) -> bool {
        match uid {
            None => self.limits = limits,
            Some(uid) if limits.is_none() => drop(self.users.remove(&uid)),
            Some(uid) => {
                if self.users.len() >= USERS_MAX && !self.users.contains_key(&uid) {
                    return false;
                }
                self.users.insert(uid, limits);
            }
        }
        true
    }

    /// The bytes that are kept on record: both limits, then user and limits of each, ascending.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 20 * self.users.len());
        let put = |limits: &Limits, out: &mut Vec<u8>| {
            out.extend_from_slice(&limits.bytes.to_le_bytes());
            out.extend_from_slice(&limits.files.to_le_bytes());
        };
        put(&self.limits, &mut out);
        for (uid, limits) in &self.users {
            out.extend_from_slice(&uid.to_le_bytes());
            put(limits, &mut out);
        }
        out
    }

    /// `None` if the bytes are no limits.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = crate::bytes::Reader::new(bytes);
        let limits = Limits { bytes: r.u64()?, files: r.u64()? };
        let mut users = BTreeMap::new();
        while r.remaining() > 0 {
            let (uid, of) = (r.u32()?, Limits { bytes: r.u64()?, files: r.u64()? });
            let is_next = users.last_key_value().is_none_or(|(&last, _)| last < uid);
            if !is_next || of.is_none() || users.len() >= USERS_MAX {
                return None;
            }
            users.insert(uid, of);
        }
        Some(Self { limits, users })
    }
}

/// One line of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserUse {
    /// The user.
    pub uid: u32,
    /// What counts against his limits.
    pub used: Charge,
    /// These.
    pub limits: Limits,
}

/// What is used of a container, and what may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Of all together.
    pub used: Charge,
    /// These.
    pub limits: Limits,
    /// Users who have something, or limits, by number.
    pub users: Vec<UserUse>,
}

impl Report {
    /// Whether less than an eighth of some limit is left.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        let is_near = |limit: u64, used: u64| limit > 0 && used > limit - limit / 8;
        let is_tight = |limits: Limits, used: Charge| {
            is_near(limits.bytes, used.bytes) || is_near(limits.files, used.files)
        };
        is_tight(self.limits, self.used) || self.users.iter().any(|user| is_tight(user.limits, user.used))
    }
}

/// What versions of one container count on one target, by the number of the credentials that wrote them.
///
/// Invariants: ascending, and nobody with nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Charges(Vec<(u32, Charge)>);

impl Charges {
    /// A version was written.
    #[inline]
    pub fn add(&mut self, cred: u32, charge: Charge) {
        if charge.is_none() {
            return;
        }
        match self.0.binary_search_by_key(&cred, |one| one.0) {
            Ok(at) => self.0[at].1 = self.0[at].1.plus(charge),
            Err(at) => self.0.insert(at, (cred, charge)),
        }
    }

    /// Versions were dropped.
    ///
    /// REQUIRES: it covers them.
    pub fn subtract(&mut self, cred: u32, charge: Charge) {
        if let Ok(at) = self.0.binary_search_by_key(&cred, |one| one.0) {
            self.0[at].1 = self.0[at].1.less(charge);
            if self.0[at].1.is_none() {
                self.0.remove(at);
            }
        }
    }

    /// Whether so much is there of these.
    #[must_use]
    pub fn covers(&self, cred: u32, charge: Charge) -> bool {
        let known = self.0.binary_search_by_key(&cred, |one| one.0);
        known.map_or(Charge::NONE, |at| self.0[at].1).covers(charge)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Charge)> + '_ {
        self.0.iter().copied()
    }

    /// As they stand in a manifest: `None` unless they ascend and each has something, of `max` at most.
    pub(crate) fn of_list(list: Vec<(u32, Charge)>, max: u64) -> Option<Self> {
        let is_right = list.is_sorted_by(|one, next| one.0 < next.0)
            && list.iter().all(|(_, of)| !of.is_none() && of.bytes <= max && of.files <= max);
        is_right.then_some(Self(list))
    }

    pub(crate) fn list(&self) -> &[(u32, Charge)] {
        &self.0
    }
}

/// What some users have or add, each once; as a rule it is one.
#[derive(Debug, Clone, Default)]
pub struct ByUser(SmallVec<[(u32, Charge); 1]>);

impl ByUser {
    /// Adds something of a user.
    #[inline]
    pub fn add(&mut self, uid: u32, charge: Charge) {
        if charge.is_none() {
            return;
        }
        match self.0.iter_mut().find(|one| one.0 == uid) {
            Some(own) => own.1 = own.1.plus(charge),
            None => self.0.push((uid, charge)),
        }
    }

    /// Whether nobody has anything.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        other.iter().for_each(|(uid, charge)| sum.add(uid, charge));
        sum
    }

    /// Takes away so many names, whoever's they are.
    pub fn less_files(&mut self, mut files: u64) {
        for (_, charge) in &mut self.0 {
            let gone = files.min(charge.files);
            charge.files -= gone;
            files -= gone;
        }
        self.0.retain(|one| !one.1.is_none());
    }

    /// What a user has.
    #[must_use]
    pub fn of(&self, uid: u32) -> Charge {
        self.0.iter().find(|one| one.0 == uid).map_or(Charge::NONE, |one| one.1)
    }

    /// What all have together.
    #[must_use]
    pub fn all(&self) -> Charge {
        self.iter().fold(Charge::NONE, |sum, (_, charge)| sum.plus(charge))
    }

    /// What all have together, of no user in particular: it counts where all are counted, and for nobody by himself.
    fn of_nobody(&self) -> Self {
        let mut all = Self::default();
        all.add(u32::MAX, self.all());
        all
    }

    /// Each who has something.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Charge)> + '_ {
        self.0.iter().copied()
    }
}

/// What gifts move from some users to others; both sides are the same together.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Who lose it.
    pub from: ByUser,
    /// Who get it.
    pub to: ByUser,
}

impl Given {
    /// One more gift; nothing if it is of a user to himself.
    pub fn add(&mut self, from: u32, to: u32, charge: Charge) {
        if from != to {
            self.from.add(from, charge);
            self.to.add(to, charge);
        }
    }

    /// What stands against it where all are counted together: whoever gives it has no more room for what else he adds.
    #[must_use]
    pub fn gone(&self) -> ByUser {
        self.from.of_nobody()
    }

    /// Whether nothing moves.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.to.is_none()
    }
}

/// The account of a container that has limits, or had some, since its pool was opened. Shared by its targets.
#[derive(Debug, Default)]
pub struct Account {
    /// Guards the sums, for a few instructions; nothing is taken while it is held.
    state: Mutex<State>,
    /// The service has said something of its share.
    told: Condvar,
    /// Changes of the container, on all targets: after each there may be something that nobody sees.
    changes: AtomicU64,
    /// One more than there had been when that was freed last; 0 before.
    freed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    used: Charge,
    by_user: BTreeMap<u32, Charge>,
    /// What gifts under way would bring users, from others, who have it until they are decided.
    incoming: BTreeMap<u32, Charge>,
    /// What transactions under way would give, as far as targets have been asked, whether or not it fits.
    asked: BTreeMap<TxId, ByUser>,
    quota: Quota,
    /// Names that a transaction under way adds in the place of others that it removes.
    moves: BTreeMap<TxId, u64>,
    /// What may be used of the limits here, where others have shares, too.
    share: Option<share::Shared>,
}

impl Account {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits; all targets keep the account by now.
    pub fn limit(&self, quota: Quota) {
        self.state().quota = quota;
    }

    /// Counts what is there, or comes without anybody's asking.
    pub fn count(&self, uid: u32, charge: Charge) {
        self.state().add(uid, charge);
    }

    /// Gives back what was counted or reserved.
    pub fn release(&self, uid: u32, charge: Charge) {
        self.state().lose(uid, charge);
    }

    /// Reserves what a write adds, in a transaction if it is of one, where it hides so much of visible versions, of bytes what no
    /// snapshot shows.
    ///
    /// # Errors
    /// `QuotaLimit`, and nothing is reserved.
    pub fn reserve(&self, tx: Option<TxId>, adds: &ByUser, replaced: &ByUser) -> Result<(), Error> {
        let mut state = self.state();
        if !state.fits(tx, adds, replaced) {
            return Err(Error::QuotaLimit);
        }
        adds.iter().for_each(|(uid, charge)| state.add(uid, charge));
        Ok(())
    }

    /// As `reserve`, in a transaction that also gives users what others have: `given` is who would lose how much, and who get it.
    ///
    /// # Errors
    /// As `reserve`.
    pub fn reserve_given(
        &self,
        tx: Option<TxId>,
        adds: &ByUser,
        replaced: &ByUser,
        given: &Given,
    ) -> Result<(), Error> {
        let mut state = self.state();
        if let Some(tx) = tx.filter(|_| !given.is_none() && state.share.is_none()) {
            let sum = state.asked.remove(&tx).unwrap_or_default().plus(&given.to);
            state.asked.insert(tx, sum);
            if state.asked.len() > ASKED_MAX {
                state.asked.pop_first();
            }
        }
        if !state.fits(tx, &adds.plus(&given.to), &replaced.plus(&given.gone())) {
            return Err(Error::QuotaLimit);
        }
        adds.iter().for_each(|(uid, charge)| state.add(uid, charge));
        given.to.iter().for_each(|(uid, charge)| more(&mut state.incoming, uid, charge));
        Ok(())
    }

    /// What a transaction would have given that has ended: who get it, as far as targets have been asked. It is told once.
    #[must_use]
    pub fn take_asked(&self, tx: TxId) -> ByUser {
        self.state().asked.remove(&tx).unwrap_or_default()
    }

    /// Reserves what a gift that was prepared before would bring users, whether or not they have room.
    pub fn expect(&self, to: &ByUser) {
        let mut state = self.state();
        to.iter().for_each(|(uid, charge)| more(&mut state.incoming, uid, charge));
    }

    /// Gifts are decided, for which so much was reserved: who had it has it no more, and others do.
    pub fn hand_over(&self, expected: &ByUser, given: &Given) {
        let mut state = self.state();
        expected.iter().for_each(|(uid, charge)| less(&mut state.incoming, uid, charge));
        // Some may give what they are given.
        given.to.iter().for_each(|(uid, charge)| state.add(uid, charge));
        given.from.iter().for_each(|(uid, charge)| state.lose(uid, charge));
    }

    /// Whether so much would be admitted that replaces nothing, and so much that others have.
    #[must_use]
    pub fn fits_given(&self, adds: &ByUser, given: &ByUser) -> bool {
        // All together have it already.
        self.state().fits(None, &adds.plus(given), &given.of_nobody())
    }

    /// A transaction is under way that moves so many names.
    pub fn begin_moves(&self, tx: TxId, names: u64) {
        if names > 0 {
            self.state().moves.insert(tx, names);
        }
    }

    /// It is not under way any more.
    pub fn end_moves(&self, tx: TxId) {
        self.state().moves.remove(&tx);
    }

    /// Something was written, removed or decided in the container, or a snapshot of it made or removed.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How many changes there have been: to be looked at before what nobody sees is freed, and told by `note_freed` after it.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// What nobody saw after so many changes is freed.
    pub fn note_freed(&self, changes: u64) {
        self.freed.fetch_max(changes + 1, Ordering::AcqRel);
    }

    /// Whether nothing has changed since what nobody sees was freed.
    #[must_use]
    pub fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Acquire) > self.changes()
    }

    /// What is used, and what may be.
    #[must_use]
    pub fn report(&self) -> Report {
        let state = self.state();
        report(&state.quota, state.by_user.iter().map(|(&uid, &used)| (uid, used)))
    }
}

fn more(of: &mut BTreeMap<u32, Charge>, uid: u32, charge: Charge) {
    let own = of.entry(uid).or_default();
    *own = own.plus(charge);
}

fn less(of: &mut BTreeMap<u32, Charge>, uid: u32, charge: Charge) {
    let left = of.get(&uid).copied().unwrap_or_default().less(charge);
    if left.is_none() {
        of.remove(&uid);
    } else {
        of.insert(uid, left);
    }
}

impl State {
    fn add(&mut self, uid: u32, charge: Charge) {
        if charge.is_none() {
            return;
        }
        self.used = self.used.plus(charge);
        more(&mut self.by_user, uid, charge);
    }

    fn lose(&mut self, uid: u32, charge: Charge) {
        debug_assert!(self.used.covers(charge), "nothing is given back that was not charged");
        self.used = self.used.less(charge);
        less(&mut self.by_user, uid, charge);
    }

    fn fits(&self, tx: Option<TxId>, adds: &ByUser, replaced: &ByUser) -> bool {
        let moved = Charge { bytes: 0, files: self.moved(tx) };
        let bound_of = |uid: u32| match &self.share {
            // Of one that has not been told its share nobody knows who has limits.
            Some(share) if share.bounds.users.is_empty() && !share.is_told => Some(Charge::NONE),
            Some(share) => share.bounds.users.get(&uid).copied(),
            None => self.quota.users.get(&uid).map(|limits| limits.bound()),
        };
        let bound = self.share.as_ref().map_or(self.quota.limits.bound(), |share| share.bounds.all);
        let is_within_own = |(uid, adds): (u32, Charge)| {
            bound_of(uid).is_none_or(|bound| {
                let [used, incoming] =
                    [&self.by_user, &self.incoming].map(|of| of.get(&uid).copied().unwrap_or_default());
                is_within(bound, used.plus(incoming), adds, replaced.of(uid).plus(moved))
            })
        };
        is_within(bound, self.used, adds.all(), replaced.all().plus(moved)) && adds.iter().all(is_within_own)
    }

    /// How many names a transaction moves.
    fn moved(&self, tx: Option<TxId>) -> u64 {
        tx.and_then(|tx| self.moves.get(&tx)).copied().unwrap_or(0)
    }
}

fn is_within(bound: Charge, used: Charge, adds: Charge, gone: Charge) -> bool {
    let one = |bound: u64, used: u64, adds: u64, gone: u64| {
        adds <= gone || used.saturating_add(adds) <= bound.saturating_add(gone)
    };
    one(bound.bytes, used.bytes, adds.bytes, gone.bytes)
        && one(bound.files, used.files, adds.files, gone.files)
}

/// A report of what users use, under these limits. One who comes several times has the sum.
#[must_use]
pub fn report(quota: &Quota, used: impl Iterator<Item = (u32, Charge)>) -> Report {
    let mut users: BTreeMap<u32, UserUse> = BTreeMap::new();
    let one = |uid| UserUse { uid, ..UserUse::default() };
    for (&uid, &limits) in &quota.users {
        users.insert(uid, UserUse { limits, ..one(uid) });
    }
    let mut all = Charge::NONE;
    for (uid, charge) in used {
        let user = users.entry(uid).or_insert_with(|| one(uid));
        user.used = user.used.plus(charge);
        all = all.plus(charge);
    }
    Report { used: all, limits: quota.limits, users: users.into_values().collect() }
}

#[cfg(test)]
mod tests;
