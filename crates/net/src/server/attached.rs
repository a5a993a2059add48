//! A pool that a connection uses, and the containers that it has open there.
//!
//! Invariants: what [`Holders`] have taken is found lost before the next request is begun; what a container allows is settled
//! when it is opened, and looked at with each request.

use super::OpenedPool;
use super::files::Files;
use super::holders::{Away, Holders};
use super::kept::{User, word_of};
use super::leases::{Leases, Place};
use super::locks::Locks;
use super::rights::{Need, Rights, may_open};
use super::worker::Shared;
use dolmen_codec::acl::perm;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::lock::{LockAction, LockAsk, LockFamily, LockKind, LockReply};
use dolmen_codec::pool::{ContHandle, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Mutation, Verb};
use dolmen_codec::{Answer, Ask, Transport};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{ContNo, Error, PropId, PropValue, Result, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Containers that a connection has had open and that are remembered: whoever asks for one of them is told so.
const REMEMBERED_MAX: usize = 4096;

pub(super) struct Attached {
    /// The pool as its thread uses it.
    pub(super) pool: usize,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) is_read_only: bool,
    pub(super) answers_at_once: bool,
    is_part: bool,
    pub(super) map_version: u32,
    user: Option<Arc<dyn User>>,
    holders: Arc<Holders>,
    locks: Arc<Locks>,
    /// Who has said by this connection what he has open.
    opens: BTreeSet<Uuid>,
    pub(super) leases: Arc<Leases>,
    files: Option<Arc<dyn Files>>,
    /// What leases know the connection by, once it has asked for one.
    pub(super) lease_key: Option<u64>,
    /// Who has it, as the engine knows him.
    uid: u32,
    key: u64,
    /// How often handles had been taken when it looked last.
    seen: u64,
    rights: Rights,
    /// Containers that it has open, with what it may do there; those that it has had open, with nothing.
    conts: BTreeMap<ContNo, u64>,
    /// No container above this is forgotten of those that it has had open.
    forgotten: Option<ContNo>,
}

/// A handle that is about to be closed, and may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    pub(super) cont: ContNo,
    perms: u64,
    away: Away,
}

/// What becomes of a handle that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Noted,
    /// There is nothing that may be done there, or no change where one is wanted.
    NotAllowed,
    /// It was taken on its way, as if it had been open before: whoever uses it is told so.
    Taken,
}

/// On whose behalf a service is asked.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) user: Option<Arc<dyn User>>,
    pub(super) holders: Arc<Holders>,
    pub(super) key: u64,
    pub(super) rights: Rights,
    /// Whether the pool's service is at another engine.
    pub(super) is_part: bool,
}

impl Attached {
    pub(super) fn new(pool: usize, opened: OpenedPool) -> Self {
        let OpenedPool {
            transport,
            is_read_only,
            answers_at_once,
            is_part,
            map_version,
            uid,
            rights,
            user,
            holders,
            locks,
            leases,
            files,
        } = opened;
        let key = holders.enter(uid, user.clone());
        let (seen, conts) = (holders.taken(), BTreeMap::new());
        Self {
            pool,
            transport,
            is_read_only,
            answers_at_once,
            is_part,
            map_version,
            user,
            holders,
            locks,
            opens: BTreeSet::new(),
            leases,
            files,
            lease_key: None,
            uid,
            key,
            seen,
            rights,
            conts,
            forgotten: None,
        }
    }

    pub(super) fn asker(&self) -> Asker {
        let (holders, rights) = (Arc::clone(&self.holders), self.rights.clone());
        Asker { user: self.user.clone(), holders, key: self.key, rights, is_part: self.is_part }
    }

    /// Whether the pool's service is at another engine.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// Whether what is asked may be begun.
    ///
    /// # Errors
    /// `NoHandle` if its container's handle has ended, or there was none where one is needed; `NoPermission`.
    #[inline]
    pub(super) fn check(&mut self, ask: &Ask<'_>) -> Result<()> {
        let taken = self.holders.taken();
        if taken != self.seen {
            self.look(taken);
        }
        let need = Need::of(ask);
        let (has, any, all) = match (need, &self.rights) {
            (Need::Cont(cont, any, all), rights) => match (self.conts.get(&cont), rights) {
                (Some(0), _) | (None, Rights::Listed { .. }) => return Err(Error::NoHandle),
                // It may have lost it.
                (None, Rights::All) if self.forgotten >= Some(cont) => return Err(Error::NoHandle),
                (Some(perms), _) => (*perms, any, all),
                (None, Rights::All) => return Ok(()),
            },
            (Need::Nothing, _) | (_, Rights::All) => return Ok(()),
            (Need::Operator, Rights::Listed { .. }) => return Err(Error::NoPermission),
            (Need::Pool(any), Rights::Listed { pool, .. }) => (*pool, any, 0),
        };
        let is_allowed = (any == 0 && all != 0 || has & any != 0) && has & all == all;
        if is_allowed { Ok(()) } else { Err(Error::NoPermission) }
    }

    /// Settles whose a container will be that is to be made.
    ///
    /// # Errors
    /// `NoPermission` to make one for others.
    pub(super) fn settle_owner(&self, verb: &mut PoolVerb<'_>) -> Result<()> {
        match verb {
            PoolVerb::ContCreate { props, .. } => self.rights.own(props),
            _ => Ok(()),
        }
    }

    /// Has charged who asks, unless he may say who else is: whoever may do everything, and who may set limits of the container's
    /// users.
    ///
    /// REQUIRES: it may be begun.
    #[inline]
    pub(super) fn settle_charged(&self, ask: &mut Ask<'_>) {
        let Rights::Listed { .. } = self.rights else { return };
        let may_say = |cont: ContNo| self.conts.get(&cont).is_some_and(|perms| perms & perm::SET_PROP != 0);
        match ask {
            Ask::Target(_, cont, Verb::Update(update)) if !may_say(*cont) => update.charged = None,
            Ask::Pool(PoolVerb::TxCommit(commit)) if !may_say(commit.cont) => {
                let mutations = commit.parts.iter_mut().flat_map(|(_, mutations)| mutations);
                mutations.for_each(|mutation| match mutation {
                    Mutation::Update(update) => update.charged = None,
                    Mutation::Punch(_) => {}
                });
            }
            // Steps of transactions are for who may do everything.
            _ => {}
        }
    }

    /// Leaves out of an answer what is not for this caller.
    pub(super) fn trim(&self, answer: &mut Answer) {
        if let Answer::Pool(reply) = answer {
            self.rights.trim(reply);
            tell_own_evictions(reply, self.uid);
        }
    }

    /// Does what is asked of locks.
    pub(super) fn lock(&mut self, cont: ContNo, ask: &LockAsk, now_ns: u64) -> Result<LockReply> {
        let told = self.locks.ask(self.uid, cont, ask, now_ns)?;
        // Of who has nothing nothing is remembered.
        let has_some = match ask.action {
            LockAction::Set | LockAction::Again => ask.range.kind != LockKind::Free,
            LockAction::Renew => ask.has_locks,
            LockAction::Test | LockAction::Leave => false,
        };
        if ask.action == LockAction::Leave && self.opens.remove(&ask.holder) {
            self.locks.leave(self.uid, ask.holder, now_ns);
        } else if ask.family == LockFamily::Open
            && has_some
            && told == LockReply::Done
            && self.opens.insert(ask.holder)
        {
            self.locks.enter(self.uid, ask.holder);
        }
        Ok(told)
    }

    /// Files of the pool's containers, and what they know the connection by.
    pub(super) fn files(&self) -> Option<(Arc<dyn Files>, u64)> {
        self.files.clone().map(|files| (files, self.key))
    }

    /// What leases know the connection by, which is at this place.
    pub(super) fn lease_key(&mut self, place: impl FnOnce() -> Place) -> u64 {
        *self.lease_key.get_or_insert_with(|| self.leases.enter(self.uid, place()))
    }

    /// Looks what was taken from it.
    #[cold]
    fn look(&mut self, taken: u64) {
        self.seen = taken;
        for (&cont, perms) in &mut self.conts {
            if !self.holders.has(self.key, cont) {
                *perms = 0;
            }
        }
    }

    /// Containers that it has open.
    pub(super) fn open_count(&self) -> usize {
        self.holders.count(self.key)
    }

    /// A handle is about to be opened for `client`.
    pub(super) fn opening(&self, client: u128, wanted: OpenFor) -> Away {
        self.holders.opening(client, word_of(wanted))
    }

    /// Has a handle more, on a container of these properties, or has not.
    pub(super) fn opened(&mut self, cont: &ContHandle, wanted: OpenFor, away: Away) -> Opening {
        let perms = self.rights.on_cont(&cont.props);
        if !may_open(perms, wanted) {
            return Opening::NotAllowed;
        }
        let is_noted = self.holders.opened(self.key, cont, away);
        if self.conts.len() >= REMEMBERED_MAX {
            let gone = self.conts.extract_if(.., |_, perms| *perms == 0).last();
            self.forgotten = self.forgotten.max(gone.map(|(no, _)| no));
        }
        if is_noted {
            self.conts.insert(cont.no, perms);
            return Opening::Noted;
        }
        // One that was opened since goes on.
        if !self.holders.has(self.key, cont.no) {
            self.conts.insert(cont.no, 0);
        }
        Opening::Taken
    }

    /// Has a handle again that could not be closed; false if it was taken meanwhile.
    pub(super) fn kept(&mut self, closing: Closing) -> bool {
        let Closing { cont, perms, away } = closing;
        let is_kept = self.holders.kept(self.key, cont, away);
        if is_kept {
            let now = self.conts.entry(cont).or_default();
            // One that was opened since says what is allowed now.
            *now = if *now == 0 { perms } else { *now };
        }
        is_kept
    }

    /// Whether a handle is closed with that which was open with the last daemon, and is open no more: its process has given it up
    /// before it came back.
    pub(super) fn is_left(&self, cont: ContNo) -> bool {
        !self.holders.has(self.key, cont) && self.user.as_ref().is_some_and(|user| user.gives_up(cont))
    }

    /// Takes a handle away that is about to be closed; `None` if there is none.
    pub(super) fn give_up(&mut self, cont: ContNo) -> Option<Closing> {
        let (left, away) = self.holders.closing(self.key, cont)?;
        let perms = self.conts.get(&cont).copied()?;
        if left == 0 {
            self.conts.insert(cont, 0);
        }
        Some(Closing { cont, perms, away })
    }

    /// Gives everything back. Unless the process at the other end has ended, it may believe in its leases for a term.
    pub(super) fn leave(self, shared: &mut Shared, is_dead: bool) {
        if let Some(key) = self.lease_key {
            self.leases.leave(key, is_dead, RealClock.monotonic_ns());
        }
        for holder in self.opens {
            self.locks.leave(self.uid, holder, RealClock.monotonic_ns());
        }
        if let Some(files) = &self.files {
            files.leave(self.key);
        }
        for (cont, count) in self.holders.leave(self.key) {
            shared.jobs.release(Arc::clone(&self.transport), cont, count);
        }
        shared.leave_pool(self.pool);
    }
}

/// Whoever asks is told how often he has lost handles, as who the engine takes him for, which he may not know himself: over a
/// network that is what his certificate says. How often others have is not for him.
fn tell_own_evictions(reply: &mut PoolReply, uid: u32) {
    match reply {
        PoolReply::Cont(cont) => own_evictions(cont, uid),
        PoolReply::Conts(all) => all.iter_mut().for_each(|cont| own_evictions(cont, uid)),
        PoolReply::ContInfo(info) => own_evictions(&mut info.cont, uid),
        _ => {}
    }
}

fn own_evictions(cont: &mut ContHandle, uid: u32) {
    let count = Evictions::of(&cont.props).count(uid);
    if count > 0 {
        let told = PropValue::Bytes(Evictions::of_all(count).encode());
        cont.props.insert(PropId::CO_EVICTIONS, told);
    } else {
        cont.props.remove(&PropId::CO_EVICTIONS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::jobs::tests::Nowhere;
    use dolmen_codec::order::HashKey;
    use dolmen_codec::pool::ContInfo;
    use dolmen_codec::verb::Usage;
    use dolmen_types::{Epoch, Props, Uuid};

    #[test]
    fn nobody_is_told_of_evictions_of_others_by_any_answer() {
        let mut evictions = Evictions::default();
        [Some(7), Some(7), Some(8)].into_iter().for_each(|uid| evictions.add(uid));
        let cont = || {
            let props = Props::from([(PropId::CO_EVICTIONS, PropValue::Bytes(evictions.encode()))]);
            let hash_key = HashKey([0; 16]);
            ContHandle { no: ContNo(1), uuid: Uuid::nil(), label: None, hash_key, props }
        };
        let info = || {
            let (cont, last_snapshot, usage) = (cont(), Epoch::ZERO, Usage::default());
            Box::new(ContInfo { cont, handles: 0, snapshots: 0, last_snapshot, usage })
        };
        for (uid, count) in [(7, 2), (8, 1), (9, 0)] {
            let answers = [
                PoolReply::Cont(cont()),
                PoolReply::Conts(vec![cont(), cont()]),
                PoolReply::ContInfo(info()),
            ];
            for mut answer in answers {
                tell_own_evictions(&mut answer, uid);
                let conts = match answer {
                    PoolReply::Cont(cont) => vec![cont],
                    PoolReply::Conts(all) => all,
                    PoolReply::ContInfo(info) => vec![info.cont],
                    other => panic!("{other:?}"),
                };
                for cont in conts {
                    let told = Evictions::of(&cont.props);
                    assert_eq!(told, Evictions::of_all(count), "user {uid}");
                    assert_eq!(cont.props.is_empty(), count == 0);
                }
            }
        }
    }

    #[test]
    fn what_an_operator_has_lost_or_closed_is_lost_however_many_containers_he_opens() {
        let mut attached = Attached::new(
            0,
            OpenedPool {
                transport: Arc::new(Nowhere),
                is_read_only: false,
                answers_at_once: true,
                is_part: false,
                map_version: 1,
                uid: 0,
                rights: Rights::All,
                user: None,
                holders: Arc::default(),
                locks: Arc::new(Locks::new(false, 0, Box::new(|| true))),
                leases: Arc::new(Leases::new(HashKey([0; 16]), false, 0, Vec::new(), Box::new(|| true))),
                files: None,
            },
        );
        let asked = |no| Ask::Pool(PoolVerb::SnapList(ContNo(no)));
        let count = u32::try_from(2 * REMEMBERED_MAX).unwrap();
        assert_eq!(attached.check(&asked(1)), Ok(()), "an operator need not open it");
        for no in 1..=count {
            let (uuid, hash_key, props) = (Uuid::nil(), HashKey([0; 16]), Props::new());
            let cont = ContHandle { no: ContNo(no), uuid, label: None, hash_key, props };
            let away = attached.opening(0, OpenFor::Any);
            assert_eq!(attached.opened(&cont, OpenFor::Any, away), Opening::Noted);
            assert_eq!(attached.check(&asked(no)), Ok(()));
            assert!(attached.give_up(cont.no).is_some());
        }
        assert!(attached.conts.len() <= REMEMBERED_MAX);
        for no in [1, count / 2, count] {
            assert_eq!(attached.check(&asked(no)), Err(Error::NoHandle), "container {no}");
        }
        assert_eq!(attached.check(&asked(count + 1)), Ok(()));
    }
}
