//! Batches: changes of several objects that happen at once, without a look at what was there before.
//!
//! A transaction reads at one epoch and must be given up when others write below it. A batch reads nothing but what
//! its conditions ask, so a conflict only means that its epoch came too late, and the same changes are sent again with
//! a newer one. On one target it is one record; over several it is committed as a transaction is.

use crate::client::MapView;
use crate::container::Container;
use crate::object::Object;
use crate::tx::{Conflicts, begin_epoch, committed, is_in_doubt};
use dolmen_codec::Ask;
use dolmen_codec::pool::{PoolVerb, TxCommit};
use dolmen_codec::verb::{Mutation, Punch, PunchScope, Update, UpdateIod};
use dolmen_codec::{Way, now};
use dolmen_types::limits::TX_MUTATIONS_MAX;
use dolmen_types::{Cond, Epoch, Error, Invalid, IoBuf, Key, RequestId, Result, TargetNo, TxId};
use smallvec::SmallVec;

/// Changes that happen together or not at all; made by [`Container::batch`].
#[derive(Debug)]
pub struct Batch<'a> {
    cont: &'a Container,
    changes: SmallVec<[(&'a Object, Mutation<'a>); 2]>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(cont: &'a Container) -> Self {
        Self { cont, changes: SmallVec::new() }
    }

    /// Adds values under one dkey. If the condition is not met, nothing of the batch happens. Nothing is split:
    /// extents lie in one window and payload is below `limits::PAYLOAD_BYTES_MAX`.
    pub fn update(&mut self, object: &'a Object, dkey: &[u8], cond: Cond, iods: &[UpdateIod<'a>]) {
        let (oid, dkey) = (object.oid(), Key::from_slice(dkey));
        let (iods, charged) = (iods.iter().cloned().collect(), object.charged());
        let update = Update { oid, dkey, cond, iods, charged };
        self.changes.push((object, Mutation::Update(update)));
    }

    /// Adds the removal of an object.
    pub fn punch(&mut self, object: &'a Object) {
        self.push_punch(object, PunchScope::Object);
    }

    /// Adds the removal of a dkey with everything below it.
    pub fn punch_dkey(&mut self, object: &'a Object, dkey: &[u8]) {
        self.push_punch(object, PunchScope::Dkey(Key::from_slice(dkey)));
    }

    fn push_punch(&mut self, object: &'a Object, scope: PunchScope) {
        let punch = Punch { oid: object.oid(), scope, cond: Cond::NONE };
        self.changes.push((object, Mutation::Punch(punch)));
    }

    /// Carries everything out and returns its epoch. Removing what does not exist is no error.
    ///
    /// # Errors
    /// `Exists`, `NotFound` where a condition is not met; `NoSpace`; `Invalid::Extent` and others as an update has
    /// them; `NoPermission` in a snapshot; `Invalid::Count` for nothing or more than `limits::TX_MUTATIONS_MAX` on a
    /// target; `Invalid::Argument` for objects of another container; `TxRestart` after 30 s of conflicts in a row;
    /// `InDoubt` and `Unreachable` if it is not known whether it is carried out.
    pub fn commit(self) -> Result<Epoch> {
        if self.cont.view_epoch().is_some() {
            return Err(Error::NoPermission);
        }
        if self.changes.iter().any(|(object, _)| !object.container().is_same(self.cont)) {
            return Err(Invalid::Argument.into());
        }
        let (core, mut conflicts) = (self.cont.core(), Conflicts::default());
        loop {
            match self.commit_at(now(begin_epoch(Way::Now, self.cont))?) {
                Err(Error::TxRestart { .. } | Error::EpochGone { .. }) if conflicts.may_try_again(core) => {
                    core.pause(conflicts.count());
                }
                other => return other,
            }
        }
    }

    /// Sends it with one epoch until it is told what became of it.
    fn commit_at(&self, epoch: Epoch) -> Result<Epoch> {
        let core = self.cont.core();
        let (id, mut doubts) = (core.mutation_id(), Conflicts::default());
        loop {
            let told = self.send(id, epoch);
            if !is_in_doubt(&told) || !doubts.may_ask_again(core) {
                return told;
            }
            core.pause(doubts.count());
        }
    }

    fn send(&self, id: RequestId, epoch: Epoch) -> Result<Epoch> {
        let core = self.cont.core();
        committed(core.ask(id, &mut IoBuf::default(), |map, _| {
            let parts = parts_of(self.changes.iter().map(|(object, change)| (*object, change)), map)?;
            if parts.is_empty() || parts.iter().any(|(_, mutations)| mutations.len() > TX_MUTATIONS_MAX) {
                return Err(Invalid::Count.into());
            }
            let tx = TxId { client: core.client(), begin: epoch };
            let (cont, read) = (self.cont.no(), SmallVec::new());
            Ok(Ask::Pool(PoolVerb::TxCommit(TxCommit { cont, tx, epoch, parts, read })))
        })?)
    }
}

/// The changes by target, in their order on each.
pub(crate) fn parts_of<'p, 'm: 'p>(
    changes: impl Iterator<Item = (&'p Object, &'p Mutation<'m>)>,
    map: MapView,
) -> Result<Vec<(TargetNo, Vec<Mutation<'m>>)>> {
    // Few targets take part, so that looking through them is cheaper than a map.
    let mut parts: Vec<(TargetNo, Vec<Mutation<'m>>)> = Vec::with_capacity(2);
    for (object, change) in changes {
        let dkey = match change {
            Mutation::Update(Update { dkey, .. })
            | Mutation::Punch(Punch { scope: PunchScope::Dkey(dkey) | PunchScope::Akeys(dkey, _), .. }) => {
                Some(dkey)
            }
            Mutation::Punch(Punch { scope: PunchScope::Object, .. }) => None,
        };
        let targets = match dkey {
            Some(dkey) => SmallVec::from_slice(&[object.target(map, dkey)?]),
            None => object.targets(map)?,
        };
        for target in targets {
            let known = parts.iter().position(|(no, _)| *no == target);
            let index = known.unwrap_or(parts.len());
            if known.is_none() {
                parts.push((target, Vec::with_capacity(2)));
            }
            parts[index].1.push(change.clone());
        }
    }
    Ok(parts)
}
