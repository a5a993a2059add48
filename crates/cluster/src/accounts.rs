//! Accounts of containers that have limits: one for all targets of a container in this process, while its pool is open.
//!
//! Invariants: a container has one account for as long as the pool is open, so that no target counts in another one; limits are
//! set once all targets count in it; without limits anywhere a request looks at one flag.

use crate::dispatch::Targets;
use crate::inbox::locked;
use crate::owned::Owned;
use crate::parts::Parts;
use crate::shares::Shares;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::TargetStore;
use dolmen_codec::pool::TxCommit;
use dolmen_codec::quota::{Account, ByUser, Charge, ShareAsk, charge_of_mutation, moves_of};
use dolmen_codec::verb::Mutation;
use dolmen_types::{ContNo, Error, Invalid, Result, TargetNo, TxId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The accounts of a pool.
#[derive(Default)]
pub(crate) struct Accounts {
    any: AtomicBool,
    /// Guards the list, for a look; nothing is taken while it is held.
    by_cont: Mutex<BTreeMap<ContNo, Arc<Account>>>,
    /// What the service knows of shares at several engines.
    pub(crate) shares: Shares,
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
        self.shares.forget(cont);
    }

    /// Containers with one.
    pub(crate) fn conts(&self) -> Vec<ContNo> {
        if self.are_there() { locked(&self.by_cont).keys().copied().collect() } else { Vec::new() }
    }

    fn open(&self, cont: ContNo) -> Arc<Account> {
        let account = Arc::clone(locked(&self.by_cont).entry(cont).or_default());
        self.any.store(true, Ordering::Relaxed);
        account
    }
}

impl<T: TargetStore> Targets<T> {
    /// Has all targets here count in the container's account, which is made if there is none.
    ///
    /// # Errors
    /// `Invalid(Engines)` if a store keeps no accounts; `NoContainer`.
    pub(crate) fn begin_account(&self, cont: ContNo) -> Result<Arc<Account>> {
        let account = self.accounts().open(cont);
        self.each_here(|owned| owned.keep_account(cont, &account))?;
        Ok(account)
    }

    /// What a container counts here, by user, in any order.
    ///
    /// # Errors
    /// As of `begin_account`.
    pub(crate) fn charges(&self, cont: ContNo) -> Result<Vec<(u32, Charge)>> {
        let mut all = Vec::new();
        self.each_here(|owned| owned.charges(cont).map(|charges| all.extend(charges)))?;
        Ok(all)
    }

    /// Does something with each target of this engine; those of others keep no accounts.
    fn each_here(&self, mut act: impl FnMut(&mut Owned<T>) -> Result<()>) -> Result<()> {
        let (mut here, mut elsewhere) = (0, 0);
        self.each_owned(|owned| match act(owned) {
            Err(Error::Invalid(Invalid::Engines)) => {
                elsewhere += 1;
                Ok(())
            }
            other => {
                here += 1;
                other
            }
        })?;
        let has_others = here > 0 && self.is_spread();
        if elsewhere == 0 || has_others { Ok(()) } else { Err(Invalid::Engines.into()) }
    }
}

/// A transaction that moves names, for as long as it is being committed.
pub(crate) struct Moving<'t> {
    account: Arc<Account>,
    tx: TxId,
    cont: ContNo,
    /// Other engines that take part.
    parts: Option<(&'t Parts, Vec<TargetNo>)>,
}

impl<'t> Moving<'t> {
    pub(crate) fn begin<T: TargetStore>(
        targets: &'t Targets<T>,
        commit: &TxCommit<'_>,
        tx: TxId,
    ) -> Option<Self> {
        let account = targets.accounts().find(commit.cont)?;
        let names = moved_names(commit);
        account.begin_moves(tx, names);
        let at: Vec<TargetNo> = commit.parts.iter().map(|part| part.0).collect();
        let parts = (names > 0 && targets.parts().are_there()).then_some((targets.parts(), at));
        let moving = Self { account, tx, cont: commit.cont, parts };
        moving.tell(names);
        Some(moving)
    }

    /// An engine that does not hear it refuses what it takes for a new name: it is asked for that in vain, too.
    fn tell(&self, names: u64) {
        if let Some((parts, at)) = &self.parts {
            parts.tell_moves(self.cont, at, ShareAsk::Moves(self.tx, names));
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.account.end_moves(self.tx);
        self.tell(0);
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

/// Whether a transaction gives anything.
pub(crate) fn gives(commit: &TxCommit<'_>) -> bool {
    let mut mutations = commit.parts.iter().flat_map(|(_, mutations)| mutations);
    mutations.any(|mutation| matches!(mutation, Mutation::Update(update) if update.iods.is_empty()))
}

/// Whether a refusal is one by limits.
pub(crate) fn is_limit<R>(result: &Result<R>) -> bool {
    matches!(result, Err(Error::QuotaLimit))
}
