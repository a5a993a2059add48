//! Accounts of containers that have limits: one for all targets of a container, while its pool is open.
//!
//! Invariants: a container has one account for as long as the pool is open, so that no target counts in another one; limits are
//! set once all targets count in it; without limits anywhere a request looks at one flag.

use crate::dispatch::Targets;
use crate::inbox::locked;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::TargetStore;
use dolmen_codec::pool::TxCommit;
use dolmen_codec::quota::{Account, ByUser, Charge, charge_of_mutation, moves_of};
use dolmen_codec::verb::Mutation;
use dolmen_types::{ContNo, Error, Invalid, Result, TxId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The accounts of a pool.
#[derive(Default)]
pub(crate) struct Accounts {
    any: AtomicBool,
    /// Guards the list, for a look; nothing is taken while it is held.
    by_cont: Mutex<BTreeMap<ContNo, Arc<Account>>>,
}

impl Accounts {
    /// The account of a container, if it has one.
    #[inline]
    pub(crate) fn find(&self, cont: ContNo) -> Option<Arc<Account>> {
        if self.are_there() { self.look(cont) } else { None }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    #[cold]
    fn look(&self, cont: ContNo) -> Option<Arc<Account>> {
        locked(&self.by_cont).get(&cont).cloned()
    }

    /// The container is gone; its number is not used again.
    pub(crate) fn forget(&self, cont: ContNo) {
        locked(&self.by_cont).remove(&cont);
    }

    fn open(&self, cont: ContNo) -> Arc<Account> {
        let account = Arc::clone(locked(&self.by_cont).entry(cont).or_default());
        self.any.store(true, Ordering::Relaxed);
        account
    }
}

impl<T: TargetStore> Targets<T> {
    /// Has all targets count in the container's account, which is made if there is none.
    ///
    /// # Errors
    /// `Invalid(Engines)` if some are at other engines; `NoContainer`.
    pub(crate) fn begin_account(&self, cont: ContNo) -> Result<Arc<Account>> {
        if self.parts().are_there() {
            return Err(Invalid::Engines.into());
        }
        let account = self.accounts().open(cont);
        self.each_owned(|owned| owned.keep_account(cont, &account))?;
        Ok(account)
    }

    /// What a container counts, by user, in any order.
    ///
    /// # Errors
    /// As of `begin_account`.
    pub(crate) fn charges(&self, cont: ContNo) -> Result<Vec<(u32, Charge)>> {
        if self.parts().are_there() {
            return Err(Invalid::Engines.into());
        }
        let mut all = Vec::new();
        self.each_owned(|owned| owned.charges(cont).map(|charges| all.extend(charges)))?;
        Ok(all)
    }
}

/// A transaction that moves names, for as long as it is being committed.
pub(crate) struct Moving {
    account: Arc<Account>,
    tx: TxId,
}

impl Moving {
    pub(crate) fn begin(accounts: &Accounts, commit: &TxCommit<'_>, tx: TxId) -> Option<Self> {
        let account = accounts.find(commit.cont)?;
        account.begin_moves(tx, moved_names(commit));
        Some(Self { account, tx })
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.account.end_moves(self.tx);
    }
}

fn moved_names(commit: &TxCommit<'_>) -> u64 {
    moves_of(commit.parts.iter().flat_map(|(_, mutations)| mutations))
}

/// What a transaction adds for which `uid` asks, without names that it moves.
pub(crate) fn adds(commit: &TxCommit<'_>, uid: u32) -> ByUser {
    let mut adds = ByUser::default();
    for mutation in commit.parts.iter().flat_map(|(_, mutations)| mutations) {
        let charged = match mutation {
            Mutation::Update(update) => update.charged,
            Mutation::Punch(_) => None,
        };
        adds.add(charged.unwrap_or(uid), charge_of_mutation(mutation));
    }
    adds.less_files(moved_names(commit));
    adds
}

/// Whether a refusal is one by limits.
pub(crate) fn is_limit<R>(result: &Result<R>) -> bool {
    matches!(result, Err(Error::QuotaLimit))
}
