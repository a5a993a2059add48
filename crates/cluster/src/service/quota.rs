//! Limits of containers: on record, in accounts, and told.

use super::{Asked, Cont, Service, State, change};
use crate::accounts;
use crate::dispatch::{Targets, plain};
use crate::drive;
use crate::inbox::locked;
use crate::service::record::{Answer, ContRecord};
use crate::service::store::META;
use crate::shares::OWN_LIFE;
use crate::whose;
use dolmen_codec::TargetStore;
use dolmen_codec::pool::TxCommit;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::quota::{Account, ByUser, Limits, Quota, Report, report};
use dolmen_codec::verb::Verb;
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, PropId, PropValue, Result};

impl Cont {
    /// Its limits; `None` if what is on record is none.
    fn quota(&self) -> Option<Quota> {
        match self.record.props.get(&PropId::CO_QUOTA) {
            Some(PropValue::Bytes(bytes)) => Quota::decode(bytes),
            Some(_) => None,
            None => Some(Quota::default()),
        }
    }
}

fn put(record: &mut ContRecord, quota: &Quota) {
    if quota.is_none() {
        record.props.remove(&PropId::CO_QUOTA);
    } else {
        record.props.insert(PropId::CO_QUOTA, PropValue::Bytes(quota.encode()));
    }
}

/// Has targets keep the accounts of containers that have limits.
///
/// # Errors
/// `Corrupt` for limits that cannot be read; those of a target. A container that a target does not know, which an audit finds, has
/// no limits there: it has nothing there.
pub(super) fn begin_all<T: TargetStore>(targets: &Targets<T>, state: &State) -> Result<()> {
    for (&no, cont) in state.conts.iter().filter(|(_, cont)| cont.is_live()) {
        let quota = cont.quota().ok_or_else(|| super::store::damaged(no, META))?;
        if !quota.is_none() {
            match targets.begin_account(no) {
                Ok(account) => begin(targets, no, &account, quota),
                Err(Error::NoContainer) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Tells all engines their shares, when the pool is opened.
///
/// # Errors
/// `Unreachable` if one does not answer.
pub(super) fn fit_all<T: TargetStore>(targets: &Targets<T>, service: &Service) -> Result<()> {
    if !targets.parts().are_there() {
        return Ok(());
    }
    for no in targets.accounts().conts() {
        let quota =
            locked(&service.state).live(no)?.quota().ok_or_else(|| super::store::damaged(no, META))?;
        service.fit(targets, no, quota)?;
    }
    Ok(())
}

/// Has an account keep to limits, or, where others have shares of them, take nothing more until its share is known.
fn begin<T: TargetStore>(targets: &Targets<T>, no: ContNo, account: &Account, quota: Quota) {
    if targets.parts().are_there() {
        account.freeze(OWN_LIFE);
        targets.accounts().shares.open(no);
        targets.parts().keep_limited(core::iter::once(no));
    }
    account.limit(quota);
}

/// Sets limits, of all users together or of one.
pub(super) fn set<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    (uid, limits): (Option<u32>, Limits),
    asked: Asked,
) -> Result<()> {
    let cont = state.live(no)?;
    let mut quota = cont.quota().ok_or_else(|| super::store::damaged(no, META))?;
    if !quota.set(uid, limits) {
        return Err(Invalid::Count.into());
    }
    let mut record = cont.record.clone();
    put(&mut record, &quota);
    // Before anybody is told that there is a limit all targets count.
    let account = targets.begin_account(no)?;
    change::put_record(targets, state, no, record, (asked, Answer::Done))?;
    account.limit(quota);
    Ok(())
}

impl Service {
    /// What is used of a container, and what may be; where a limit is near, without what nobody sees.
    pub(super) fn quota<T: TargetStore>(&self, targets: &Targets<T>, no: ContNo) -> Result<Report> {
        let quota = locked(&self.state).live(no)?.quota().ok_or_else(|| super::store::damaged(no, META))?;
        if targets.parts().are_there() {
            return self.quota_everywhere(targets, no, &quota);
        }
        match targets.accounts().find(no) {
            Some(account) => {
                if account.report().is_tight() {
                    // Ignored: it counts until it can be freed.
                    let _freed = self.free_unseen(targets, no);
                }
                Ok(account.report())
            }
            None => Ok(report(&Quota::default(), targets.charges(no)?.into_iter())),
        }
    }

    fn quota_everywhere<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        no: ContNo,
        quota: &Quota,
    ) -> Result<Report> {
        let told = report(quota, self.used_everywhere(targets, no)?.into_iter());
        if !told.is_tight() {
            return Ok(told);
        }
        // Ignored: it counts until it can be freed.
        let _freed = self.aggregable_now(targets, no).and_then(|upto| self.aggregate(targets, no, upto));
        Ok(report(quota, self.used_everywhere(targets, no)?.into_iter()))
    }

    /// Sets limits of a container whose targets are at several engines: all of them hold to their shares of the new ones before they
    /// are on record.
    ///
    /// # Errors
    /// `Unreachable` if an engine is not there; as `set`.
    pub(super) fn set_quota_everywhere<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        head: &Head,
        no: ContNo,
        (uid, limits): (Option<u32>, Limits),
    ) -> Result<PoolReply> {
        let turn = locked(&self.quotas);
        let on_record = || {
            let state = locked(&self.state);
            state.live(no)?.quota().ok_or_else(|| super::store::damaged(no, META))
        };
        let mut quota = on_record()?;
        if !quota.set(uid, limits) {
            return Err(Invalid::Count.into());
        }
        let account = targets.begin_account(no)?;
        account.freeze(OWN_LIFE);
        targets.accounts().shares.open(no);
        let fitted = targets.parts().limit_cont(no).and_then(|()| self.fit(targets, no, quota.clone()));
        let done =
            fitted.and_then(|()| self.ask_once(targets, head, PoolVerb::ContSetQuota(no, uid, limits)));
        let kept = on_record()?;
        if kept.is_none() {
            // Nobody is held up any more.
            targets.parts().unlimit_cont(no);
            targets.accounts().shares.forget(no);
            account.unfreeze();
            account.limit(Quota::default());
        } else if kept != quota || done.is_err() {
            // Ignored: they hold to no more than what was tried, and are told when somebody waits.
            let _fitted_later = self.fit(targets, no, kept);
        }
        drop(turn);
        done
    }

    /// Frees what nobody sees of a container with an account, if something has changed since that was done last; whether it was.
    pub(crate) fn free_unseen<T: TargetStore>(&self, targets: &Targets<T>, no: ContNo) -> Result<bool> {
        let account = targets.accounts().find(no).ok_or(Error::NoContainer)?;
        if account.is_freed() {
            return Ok(false);
        }
        let changes = account.changes();
        let upto = self.aggregable_now(targets, no)?;
        self.aggregate(targets, no, upto)?;
        account.note_freed(changes);
        Ok(true)
    }

    /// As `aggregable`, of all that targets have answered or are about to.
    pub(crate) fn aggregable_now<T: TargetStore>(&self, targets: &Targets<T>, no: ContNo) -> Result<Epoch> {
        targets.ask_all(|_| plain(ContNo::SYSTEM, Verb::Latest))?;
        self.aggregable(targets, no)
    }

    /// Commits a transaction. One that a limit refuses is told to restart if what nobody sees was in its way.
    pub(super) fn commit<T: TargetStore>(
        &self,
        targets: &Targets<T>,
        head: &Head,
        commit: TxCommit<'_>,
    ) -> Result<Epoch> {
        let cont = commit.cont;
        let limited =
            targets.accounts().find(cont).map(|account| (account, accounts::adds(&commit, head.cred.uid)));
        let gives = limited.is_some() && accounts::gives(&commit);
        let tx = gives.then(|| whose::number_of(&commit, head.cred));
        let frees = || targets.accounts().shares.frees(cont);
        let frees_before = if gives { frees() } else { 0 };
        let result = drive::commit(targets, head, commit);
        let Some((account, adds)) = limited else { return result };
        let given = tx.map_or_else(ByUser::default, |tx| account.take_asked(tx));
        if !accounts::is_limit(&result) {
            return result;
        }
        if account.is_shared() {
            // Behind what it was told, so that all of it has said what it adds, and none of it is in its own way.
            drop(targets.call_all(|_| plain(ContNo::SYSTEM, Verb::Latest)));
            let is_full = self.find_room(targets, cont, Some(head.id))?;
            // What would be given may be less by what was freed: then all are to say anew how much it is.
            let is_final = is_full && !(gives && frees() > frees_before);
            return if is_final { result } else { Err(Error::TxRestart { after: self.now(targets) }) };
        }
        self.free_unseen(targets, cont)?;
        if account.fits_given(&adds, &given) {
            return Err(Error::TxRestart { after: self.now(targets) });
        }
        result
    }
}
