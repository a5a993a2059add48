//! Gifts: what a target has of an object is charged to somebody else from now on, whoever wrote it.
//!
//! A gift is an entry of the object itself. The newest one says who is charged for every version of the object that is older;
//! for what is written later, the version itself does.
//!
//! Invariants: gifts of an object come in the order of their stamps, and no version comes later that is older than one of them;
//! what stands in the charges of a base is who is charged by the gifts that the base has; a merge that has passed an object
//! notes a gift of it, so that what it leaves out is taken from whom it was given to.

use crate::cursor::IndexCursor;
use crate::draft::Drafts;
use crate::index::EntryPlace;
use crate::log::LogPlace;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::quota::Reserving;
use crate::scrub::is_damage;
use crate::store::Store;
use crate::target::Target;
use crate::tree::key::{FlatKey, OBJECT_PREFIX_BYTES, split_typed};
use crate::tx::Prepared;
use crate::update::offset_place;
use dolmen_codec::quota::{ByUser, Charges, Given};
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Error, Oid, Stamp};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Who is charged for a version: the number of credentials in bases of so many freezes or more. Ascending; the first is of 0.
pub(crate) type Payers = SmallVec<[(u64, u32); 1]>;

/// The newest gift of an object in each source: from which freeze on bases have it, its stamp, and to whom it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gifts(SmallVec<[(u64, Stamp, u32); 1]>);

impl Gifts {
    /// Who is charged for a version that these credentials wrote.
    #[inline]
    pub(crate) fn payer(&self, stamp: Stamp, cred: u32) -> u32 {
        self.0.last().filter(|gift| gift.1 > stamp).map_or(cred, |gift| gift.2)
    }

    /// A newer one, in bases of so many freezes or more.
    pub(crate) fn push(&mut self, since: u64, stamp: Stamp, cred: u32) {
        // Of those that no base tells apart the newest counts.
        self.0.retain(|gift| gift.0 < since);
        self.0.push((since, stamp, cred));
    }

    /// The same in each base that there is or may be.
    pub(crate) fn payers(&self, stamp: Stamp, cred: u32) -> Payers {
        let later = self.0.iter().filter(|gift| gift.1 > stamp).map(|gift| (gift.0, gift.2));
        core::iter::once((0, cred)).chain(later).collect()
    }
}

/// Who of them is charged in a base of so many freezes.
pub(crate) fn payer_at(payers: &Payers, freezes: u64) -> u32 {
    payers.iter().rev().find(|payer| payer.0 <= freezes).map_or(u32::MAX, |payer| payer.1)
}

impl Store {
    /// The gifts of an object.
    pub(crate) fn gifts(&mut self, cont: ContNo, oid: Oid) -> Result<Gifts, Error> {
        let mut key = FlatKey::default();
        key.object(cont, oid);
        if !self.index.may_have_gift(key.as_bytes()) {
            return Ok(Gifts::default());
        }
        let blocks = &mut self.blocks.source(&mut *self.disks.meta);
        let found = self.index.gifts(&mut key, &mut self.scratch, blocks)?;
        let freezes = self.index.freezes();
        let mut gifts = Gifts::default();
        for (since, entry) in [0, freezes, freezes + 1].into_iter().zip(found) {
            if let Some(entry) = entry {
                gifts.0.push((since, entry.stamp, self.version(&entry.place)?.cred));
            }
        }
        Ok(gifts)
    }
}

impl Target {
    /// What of an object is older than a gift and charged to others than `cred`, by whom it is charged to.
    fn given_away(&mut self, cont: ContNo, oid: Oid, stamp: Stamp, cred: u32) -> Result<Charges, Error> {
        let gifts = match self.store.gifts(cont, oid) {
            // It may be decided: then it is to be applied, whatever has become of the gifts before it.
            Err(error) if is_damage(&error) => Gifts::default(),
            gifts => gifts?,
        };
        let mut key = FlatKey::default();
        let prefix = key.object(cont, oid).as_bytes();
        let (mut cursor, mut damaged) = (IndexCursor::default(), BTreeSet::new());
        let mut charges = Charges::default();
        // Of what cannot be read nobody knows whose it is.
        self.store.reseek_intact(&mut cursor, prefix, &mut damaged)?;
        while let Some(key) = cursor.key().filter(|key| key.starts_with(prefix)) {
            if let Some(parts) = split_typed(key).filter(|parts| parts.stamp < stamp)
                && let Ok((version, _)) = self.store.index.version(&self.store.log, cursor.place())
                && version.is_data()
            {
                let payer = gifts.payer(parts.stamp, version.cred);
                if payer != cred {
                    charges.add(payer, version.charge());
                }
            }
            self.store.advance_intact(&mut cursor, &mut damaged)?;
        }
        Ok(charges)
    }

    /// Puts a gift into the index, and what it gives into the accounts of whom it is given to.
    ///
    /// REQUIRES: the path is at the object.
    pub(crate) fn take_gift(
        &mut self,
        path: &mut Path,
        stamp: Stamp,
        (place, cred): (LogPlace, u32),
    ) -> Result<bool, Error> {
        let given = self.given_away(path.cont, path.oid, stamp, cred)?;
        let prefix = path.key.mark();
        path.key.tail(VersionKind::Single, 0, stamp);
        let is_new = self.store.index.insert_gift(&path.key, place);
        let since = self.store.index.freezes() + 1;
        if let Some(merge) = &mut self.checkpoint.merge {
            merge.note_given(
                (path.cont, path.oid),
                &path.key.as_bytes()[..OBJECT_PREFIX_BYTES],
                (since, stamp, cred),
            );
        }
        self.store.index.note_entry(path.key.as_bytes().len(), 0);
        path.key.rewind(prefix);
        self.checkpoint.changes += 1;
        self.checkpoint.newest_write = self.checkpoint.newest_write.max(stamp.epoch);
        self.writes.raise(Scope::ObjectTree, path.object_hash, stamp.epoch);
        let to = self.uid_of(cred);
        for (from, charge) in given.iter() {
            self.given.add(self.uid_of(from), to, charge);
            if let Some(known) = self.conts.any_mut(path.cont) {
                known.state.charges.subtract(from, charge);
                known.state.charges.add(cred, charge);
            }
        }
        Ok(is_new)
    }

    /// Has the account of the container know of the gifts of a transaction that has been decided.
    pub(crate) fn hand_over(&mut self, prepared: &Prepared) {
        let given = core::mem::take(&mut self.given);
        if let Some(account) = self.account(prepared.head.cont)
            && !(given.is_none() && prepared.expected.is_none())
        {
            account.hand_over(&prepared.expected, &given);
        }
    }

    /// What the gifts of a transaction move that is about to be prepared, with what it writes itself of what it gives.
    pub(crate) fn given_by(
        &mut self,
        write: &Reserving<'_>,
        parts: &[(Oid, &Drafts<'_>)],
    ) -> Result<Given, Error> {
        let mut given = Given::default();
        for (number, (oid, drafts)) in parts.iter().enumerate().filter(|(_, (_, drafts))| drafts.is_gift()) {
            let to = drafts.cred(write.asks);
            let cred = self.creds.get(&to).copied().unwrap_or(u32::MAX);
            let minor = u16::try_from(number).expect("mutations are limited");
            let stamp = Stamp { epoch: write.view.at, minor };
            self.add_given(&mut given, (write.cont, *oid), stamp, (cred, to.uid))?;
            for (_, before) in parts[..number].iter().filter(|(of, _)| of == oid) {
                given.add(before.cred(write.asks).uid, to.uid, crate::quota::charge_of_drafts(before));
            }
        }
        Ok(given)
    }

    /// Adds what a gift to these credentials, which are a user's, would move.
    fn add_given(
        &mut self,
        given: &mut Given,
        (cont, oid): (ContNo, Oid),
        stamp: Stamp,
        (cred, to): (u32, u32),
    ) -> Result<(), Error> {
        for (from, charge) in self.given_away(cont, oid, stamp, cred)?.iter() {
            given.add(self.uid_of(from), to, charge);
        }
        Ok(())
    }

    /// What the gifts of a prepared transaction would bring users.
    pub(crate) fn expected_of(&mut self, prepared: &Prepared) -> Result<ByUser, Error> {
        let mut given = Given::default();
        for version in prepared.versions.iter().filter(|version| version.is_gift) {
            let cred =
                self.store.version(&EntryPlace::Log(offset_place(prepared.body, version.offset)))?.cred;
            let stamp = Stamp { epoch: prepared.head.epoch, minor: version.minor };
            let to = self.uid_of(cred);
            self.add_given(&mut given, (prepared.head.cont, version.oid), stamp, (cred, to))?;
        }
        Ok(given.to)
    }
}

impl Depth {
    /// Whether a version of this depth and kind is a gift.
    pub(crate) fn is_gift(self, kind: VersionKind) -> bool {
        self == Self::Object && kind == VersionKind::Single
    }
}
