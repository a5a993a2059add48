//! Limits, as the store keeps them and as the model says.
//!
//! What nobody sees is charged until the store frees it, and when it does so is its own choice: what it has charged lies between what
//! must be there and what no aggregation has had to free. Once all is aggregated the two are the same.

use super::{Agreed, CONT, Pair, Tx};
use crate::model::{Fits, Sums};
use dolmen_codec::quota::{Account, Charge, Limits, Report, moves_of};
use dolmen_codec::verb::{Mutation, Reply};
use dolmen_types::Error;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the model says of a write before it is asked for: nothing, where there are no accounts.
pub(super) type Watch = Option<Watched>;

pub(super) struct Watched {
    fits: Fits,
    /// What can be seen that is above a limit, of whom, and whether of files.
    above: BTreeMap<(Option<u32>, bool), u64>,
    /// Names that it moves: who says so of names that are not there comes above a limit of files.
    moves: u64,
}

impl Pair<'_> {
    /// Has the store keep an account, as its service does when a pool is opened.
    pub(super) fn keep_account(&mut self) -> Agreed {
        let account = Arc::<Account>::default();
        let kept = self.subject.store().keep_account(CONT, &account);
        account.limit(self.quota.clone());
        self.account = Some(account);
        agreed(kept.is_ok(), || format!("the store keeps no account: {kept:?}"))
    }

    pub(super) fn limit(&mut self, uid: Option<u32>, limits: Limits) -> Agreed {
        self.model.limit(CONT, uid, limits);
        let is_room = self.quota.set(uid, limits);
        if let Some(account) = &self.account {
            account.limit(self.quota.clone());
        }
        agreed(is_room, || "there is no room for limits".to_owned())
    }

    /// What the model says of mutations that are about to be asked for, of which the account is told as by a coordinator.
    pub(super) fn watch(&mut self, mutations: &[Mutation<'_>], tx: Option<Tx>) -> Watch {
        let account = self.account.as_ref()?;
        let moves = if tx.is_some() { moves_of(mutations.iter()) } else { 0 };
        if let Some(tx) = tx {
            account.begin_moves(tx.id, moves);
        }
        let fits = self.model.fits(CONT, self.cred.uid, mutations, tx.map(|tx| tx.epoch));
        Some(Watched { fits, above: self.model.seen_above(CONT), moves })
    }

    pub(super) fn end_moves(&mut self, tx: Tx) {
        if let Some(account) = &self.account {
            account.end_moves(tx.id);
        }
    }

    /// Whether an answer is the refusal by a limit that it may be.
    pub(super) fn is_limit(&mut self, answer: &Result<Reply, Error>, watch: &Watch) -> Result<bool, String> {
        if !matches!(answer, Err(Error::QuotaLimit)) {
            return Ok(false);
        }
        self.tally.limited += 1;
        let fits = watch.as_ref().map(|watched| watched.fits);
        let may_be = fits.is_some_and(|fits| !fits.at_most);
        agreed(may_be, || format!("the store refuses by a limit, model {fits:?}"))?;
        Ok(true)
    }

    /// A write was done: it had room, and nothing that can be seen has come above a limit by it.
    pub(super) fn was_admitted(&mut self, watch: &Watch) -> Agreed {
        let Some(Watched { fits, above: before, moves }) = watch else { return Ok(()) };
        agreed(fits.at_least, || format!("the store admits what is above a limit, model {fits:?}"))?;
        let above = self.model.seen_above(CONT);
        let is_new = |(whose, seen): &(&(Option<u32>, bool), &u64)| {
            (*moves == 0 || !whose.1) && before.get(*whose).is_none_or(|old| *seen > old)
        };
        let one = above.iter().find(is_new);
        agreed(one.is_none(), || format!("seen above a limit by a write: {one:?}"))
    }

    /// What the account has is what the store has on record, and that is what the model says.
    pub(super) fn compare_accounts(&mut self) -> Agreed {
        let Some(account) = &self.account else { return Ok(()) };
        let reported = sums(&account.report());
        let charges = self.subject.store().charges(CONT);
        agreed(charges.is_ok(), || format!("the store tells no charges: {charges:?}"))?;
        let mut recorded = Sums::new();
        for (uid, charge) in charges.into_iter().flatten().filter(|(_, charge)| !charge.is_none()) {
            let own = recorded.entry(uid).or_default();
            *own = own.plus(charge);
        }
        let (needed, unfreed) = self.model.charged(CONT);
        let covers = |more: &Sums, less: &Sums| {
            less.iter().all(|(uid, charge)| more.get(uid).copied().unwrap_or_default().covers(*charge))
        };
        let are_right = reported == recorded && covers(&reported, &needed) && covers(&unfreed, &reported);
        agreed(are_right, || {
            format!("account {reported:?}, on record {recorded:?}, needed {needed:?}, not freed {unfreed:?}")
        })
    }

    /// Frees what nobody sees: then what is reported is what the model says, to the byte.
    pub(super) fn report(&mut self) -> Agreed {
        self.aggregate(None)?;
        let Some(account) = &self.account else { return Ok(()) };
        let report = account.report();
        let (needed, _) = self.model.charged(CONT);
        let total = needed.values().fold(Charge::NONE, |sum, charge| sum.plus(*charge));
        let limits = |uid| self.quota.users.get(&uid).copied().unwrap_or_default();
        let are_told = report.limits == self.quota.limits
            && report.users.iter().all(|user| user.limits == limits(user.uid))
            && self.quota.users.keys().all(|&uid| report.users.iter().any(|user| user.uid == uid));
        let are_right = sums(&report) == needed && report.used == total && are_told;
        agreed(are_right, || format!("report {report:?}, needed {needed:?}, limits {:?}", self.quota))?;
        self.tally.reported += 1;
        Ok(())
    }
}

fn sums(report: &Report) -> Sums {
    let used = report.users.iter().filter(|user| !user.used.is_none());
    used.map(|user| (user.uid, user.used)).collect()
}

fn agreed(is_right: bool, said: impl FnOnce() -> String) -> Agreed {
    if is_right { Ok(()) } else { Err(said()) }
}
