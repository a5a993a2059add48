//! Limits of containers: what is reserved in their accounts before it is written, and given back when it is not, or is no more.
//!
//! Invariants: once a container has an account, that has what its manifest's charges are on this target, and what prepared
//! transactions would add, and for a moment what is about to be logged; what a merge drops goes after the manifest without it is
//! durable, so that no crash brings back more than the account holds.

use crate::conts::View;
use crate::draft::{Draft, Drafts};
use crate::gifts::Gifts;
use crate::index::EntryPlace;
use crate::path::{Depth, Path};
use crate::store::{Extent, resolve};
use crate::target::Target;
use crate::tx::Prepared;
use crate::update::offset_place;
use dolmen_codec::order::HashKey;
use dolmen_codec::quota::{Account, ByUser, Charge, Given};
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Credentials, Error, Oid, Recx, RequestId, Stamp, TxId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For what something is reserved, and what that sees of what is there.
pub(crate) struct Reserving<'v> {
    /// The request, and who asks.
    pub(crate) id: RequestId,
    pub(crate) asks: Credentials,
    /// The transaction that is prepared.
    pub(crate) tx: Option<TxId>,
    pub(crate) cont: ContNo,
    pub(crate) secret: HashKey,
    pub(crate) view: &'v View,
}

/// Versions that are replaced, each counted once: the hash of its akey, its first record, its stamp.
type Seen = BTreeSet<(u64, u64, Stamp)>;

impl Target {
    /// Keeps an account of a container from now on.
    pub(crate) fn begin_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        if self.conts.find(cont)?.account.as_ref().is_some_and(|known| Arc::ptr_eq(known, account)) {
            return Ok(());
        }
        self.charges_by_user(cont)?.into_iter().for_each(|(uid, charge)| account.count(uid, charge));
        let giving = |one: &&Prepared| one.head.cont == cont && !one.gifts().is_empty();
        for prepared in self.txs.prepared.values().filter(giving).cloned().collect::<Vec<_>>() {
            let expected = self.expected_of(&prepared)?;
            account.expect(&expected);
            self.txs.prepared.entry(prepared.head.tx).and_modify(|known| known.expected = expected);
        }
        self.conts.find_mut(cont)?.account = Some(Arc::clone(account));
        Ok(())
    }

    /// What a container counts here, by user, with what is prepared.
    pub(crate) fn charges_by_user(&self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        let of_cont: Vec<(u32, Charge)> = self.conts.find(cont)?.state.charges.iter().collect();
        let prepared = self.txs.prepared.values().filter(|prepared| prepared.head.cont == cont);
        let prepared: Vec<(u32, Charge)> = prepared.flat_map(|one| self.prepared_charges(one)).collect();
        let uids: BTreeMap<u32, u32> = self.creds.iter().map(|(cred, &number)| (number, cred.uid)).collect();
        let uid = |cred: u32| uids.get(&cred).copied().unwrap_or(u32::MAX);
        Ok(of_cont.into_iter().chain(prepared).map(|(cred, charge)| (uid(cred), charge)).collect())
    }

    /// Reserves what mutations add. What of that gifts bring.
    ///
    /// # Errors
    /// `QuotaLimit`, with nothing reserved; those of a lookup.
    pub(crate) fn reserve(
        &mut self,
        account: &Account,
        write: &Reserving<'_>,
        parts: &[(Oid, &Drafts<'_>)],
    ) -> Result<ByUser, Error> {
        let mut adds = ByUser::default();
        parts.iter().for_each(|(_, drafts)| adds.add(drafts.cred(write.asks).uid, charge_of_drafts(drafts)));
        let given = self.given_by(write, parts)?;
        if adds.is_none() && given.is_none() {
            return Ok(ByUser::default());
        }
        let met = |replaced: &ByUser| {
            let (adds, replaced) = (adds.plus(&given.to), replaced.plus(&given.gone()));
            write.tx.inspect(|&tx| account.note_met(write.id, tx, &adds, &replaced));
            Ok(given.to.clone())
        };
        if account.reserve_given(write.tx, &adds, &ByUser::default(), &given).is_ok() {
            return met(&ByUser::default());
        }
        // Only now it is worth a look at what is there.
        let replaced = self.replaced(write, parts)?;
        match account.reserve_given(write.tx, &adds, &replaced, &given) {
            Ok(()) => met(&replaced),
            Err(error) => {
                let (adds, replaced) = (adds.plus(&given.to), replaced.plus(&given.gone()));
                account.note_short(write.id, write.tx, &adds, &replaced);
                Err(error)
            }
        }
    }

    /// What mutations hide wholly of what is visible: of bytes, what no snapshot shows.
    fn replaced(&mut self, write: &Reserving<'_>, parts: &[(Oid, &Drafts<'_>)]) -> Result<ByUser, Error> {
        let (mut replaced, mut seen) = (ByUser::default(), Seen::new());
        let mut path = Path::default();
        for (oid, drafts) in parts {
            path.object(write.cont, write.secret, *oid)?;
            let gifts = self.store.gifts(write.cont, *oid)?;
            for draft in drafts.items.iter().filter(|draft| !draft.charge(&drafts.dkey).is_none()) {
                path.down(Depth::Akey, &drafts.dkey, &draft.akey)?;
                let cover = self.store.cover(&mut path, Depth::Akey, write.view)?;
                if draft.kind == VersionKind::Single {
                    if let Some(entry) = self.store.single(&mut path, write.view, cover)? {
                        let known = (path.akey_hash, 0, entry.stamp);
                        if seen.insert(known) {
                            let is_shown = self.is_shown(write.cont, &mut path, entry.stamp, None)?;
                            let of = (&gifts, entry.stamp);
                            self.note_replaced(of, &entry.place, is_shown, &mut replaced)?;
                        }
                    }
                } else {
                    let sums = (&mut seen, &mut replaced);
                    self.replaced_extents(write, &mut path, (draft, cover, &gifts), sums)?;
                }
            }
            path.up(Depth::Object);
        }
        Ok(replaced)
    }

    fn replaced_extents(
        &mut self,
        write: &Reserving<'_>,
        path: &mut Path,
        (draft, cover, gifts): (&Draft<'_>, Stamp, &Gifts),
        (seen, replaced): (&mut Seen, &mut ByUser),
    ) -> Result<(), Error> {
        let range = (draft.recx.index, draft.recx.index.saturating_add(draft.recx.count));
        let (mut extents, mut pieces): (Vec<Extent>, Vec<_>) = (Vec::new(), Vec::new());
        self.store.extents(path, range, write.view, cover, &mut extents)?;
        resolve(&mut extents, range, &mut pieces);
        let visible: BTreeSet<usize> = pieces.iter().map(|piece| piece.extent).collect();
        for extent in visible.into_iter().map(|at| &extents[at]) {
            let end = extent.recx.index.saturating_add(extent.recx.count);
            // Of one that is hidden in part all is kept.
            if extent.recx.index >= range.0 && end <= range.1 {
                let known = (path.akey_hash, extent.recx.index, extent.stamp);
                if seen.insert(known) {
                    let is_shown = self.is_shown(write.cont, path, extent.stamp, Some(extent.recx))?;
                    self.note_replaced((gifts, extent.stamp), &extent.place, is_shown, replaced)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a snapshot shows something of a visible version: a single value, or one of these records.
    fn is_shown(
        &mut self,
        cont: ContNo,
        path: &mut Path,
        stamp: Stamp,
        recx: Option<Recx>,
    ) -> Result<bool, Error> {
        let known = self.conts.find(cont)?;
        let snapshots = &known.state.snapshots;
        let later = &snapshots[snapshots.partition_point(|&snapshot| snapshot < stamp.epoch)..];
        if later.is_empty() || known.state.rollbacks.is_empty() {
            return Ok(!later.is_empty());
        }
        // What a snapshot has seen above it, a rollback may have taken away since.
        let views: Vec<View> = later.iter().map(|&snapshot| known.view(snapshot)).collect();
        let (mut extents, mut pieces): (Vec<Extent>, Vec<_>) = (Vec::new(), Vec::new());
        for view in &views {
            let cover = self.store.cover(path, Depth::Akey, view)?;
            path.up(Depth::Akey);
            let is_shown = match recx {
                None => self.store.single(path, view, cover)?.is_some_and(|entry| entry.stamp == stamp),
                Some(recx) => {
                    let range = (recx.index, recx.index.saturating_add(recx.count));
                    self.store.extents(path, range, view, cover, &mut extents)?;
                    resolve(&mut extents, range, &mut pieces);
                    pieces.iter().any(|piece| extents[piece.extent].stamp == stamp)
                }
            };
            if is_shown {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn note_replaced(
        &self,
        (gifts, stamp): (&Gifts, Stamp),
        place: &EntryPlace,
        is_shown: bool,
        replaced: &mut ByUser,
    ) -> Result<(), Error> {
        let version = self.store.version(place)?;
        let mut charge = version.charge();
        if is_shown {
            charge.bytes = 0;
        }
        replaced.add(self.uid_of(gifts.payer(stamp, version.cred)), charge);
        Ok(())
    }

    /// Counts a version that joins others: these are charged until they are dropped.
    pub(crate) fn count_joined(&self, cont: ContNo, cred: u32, charge: Charge) {
        if let Some(account) = self.account(cont) {
            account.count(self.uid_of(cred), charge);
        }
    }

    /// Versions of a container were dropped.
    pub(crate) fn uncharge(&mut self, cont: ContNo, cred: u32, gone: Charge) {
        if let Some(known) = self.conts.any_mut(cont) {
            known.state.charges.subtract(cred, gone);
        }
        if let Some(account) = self.account(cont) {
            account.release(self.uid_of(cred), gone);
        }
    }

    /// Gives back what a transaction has reserved that is aborted.
    pub(crate) fn release_prepared(&self, prepared: &Prepared) {
        if let Some(account) = self.account(prepared.head.cont) {
            for (cred, charge) in self.prepared_charges(prepared) {
                account.release(self.uid_of(cred), charge);
            }
            account.hand_over(&prepared.expected, &Given::default());
        }
    }

    /// Something was decided, or kept, or is kept no more: there may be something that nobody sees.
    pub(crate) fn note_change(&self, cont: ContNo) {
        if let Some(account) = self.account(cont) {
            account.note_change();
        }
    }

    pub(crate) fn account(&self, cont: ContNo) -> Option<&Account> {
        self.conts.any(cont)?.account.as_deref()
    }

    /// What a prepared transaction would add, as its record tells.
    fn prepared_charges(&self, prepared: &Prepared) -> Vec<(u32, Charge)> {
        let charge = |offset| {
            let place = EntryPlace::Log(offset_place(prepared.body, offset));
            let version = self.store.version(&place).ok()?;
            let charge = version.charge();
            Some((version.cred, charge))
        };
        prepared.versions.iter().filter_map(|version| charge(version.offset)).collect()
    }

    /// The user of credentials. For what comes seldom: it goes over all that there are.
    pub(crate) fn uid_of(&self, cred: u32) -> u32 {
        self.creds.iter().find(|(_, number)| **number == cred).map_or(u32::MAX, |(cred, _)| cred.uid)
    }
}

pub(crate) fn charge_of_drafts(drafts: &Drafts<'_>) -> Charge {
    let charges = drafts.items.iter().map(|draft| draft.charge(&drafts.dkey));
    charges.fold(Charge::NONE, Charge::plus)
}
