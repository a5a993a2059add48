//! Batches: changes of several objects that happen at once, without a look at what was there before.
//!
//! A transaction reads at one epoch and must be given up when others write below it. A batch reads nothing, so a
//! conflict only means that its epoch came too late, and the same changes are sent again with a newer one. On one
//! target it is one record; over several it is committed as a transaction is.

use crate::client::{MapView, unexpected};
use crate::container::Container;
use crate::object::Object;
use crate::tx::{CONFLICTS_MAX, begin_epoch};
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{Mutation, Punch, PunchScope};
use dolmen_codec::{Answer, Ask};
use dolmen_types::limits::TX_MUTATIONS_MAX;
use dolmen_types::{Cond, Epoch, Error, Invalid, IoBuf, Key, Result, TargetNo, TxId};
use smallvec::SmallVec;

/// Removals that happen together or not at all; made by [`Container::batch`].
#[derive(Debug)]
pub struct Batch<'a> {
    cont: &'a Container,
    punches: SmallVec<[(&'a Object, PunchScope); 4]>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(cont: &'a Container) -> Self {
        Self { cont, punches: SmallVec::new() }
    }

    /// Adds the removal of an object.
    pub fn punch(&mut self, object: &'a Object) {
        self.punches.push((object, PunchScope::Object));
    }

    /// Adds the removal of a dkey with everything below it.
    pub fn punch_dkey(&mut self, object: &'a Object, dkey: &[u8]) {
        self.punches.push((object, PunchScope::Dkey(Key::from_slice(dkey))));
    }

    /// Carries everything out and returns its epoch. Removing what does not exist is no error.
    ///
    /// # Errors
    /// `NoPermission` in a snapshot; `Invalid::Count` for nothing or more than `limits::TX_MUTATIONS_MAX` on a
    /// target; `Invalid::Argument` for objects of another container; `TxRestart` after 64 conflicts in a row.
    pub fn commit(self) -> Result<Epoch> {
        if self.cont.view_epoch().is_some() {
            return Err(Error::NoPermission);
        }
        if self.punches.iter().any(|(object, _)| !object.container().is_same(self.cont)) {
            return Err(Invalid::Argument.into());
        }
        let mut conflicts = 0;
        loop {
            match self.send(begin_epoch(self.cont)?) {
                Err(Error::TxRestart { .. } | Error::InDoubt { .. } | Error::EpochGone { .. })
                    if conflicts < CONFLICTS_MAX =>
                {
                    conflicts += 1;
                    self.cont.core().pause(conflicts);
                }
                other => return other,
            }
        }
    }

    fn send(&self, epoch: Epoch) -> Result<Epoch> {
        let core = self.cont.core();
        let answer = core.ask(core.mutation_id(), &mut IoBuf::default(), |map, _| {
            let parts = parts_of(self.punches.iter().map(|(object, scope)| (*object, scope)), map)?;
            if parts.is_empty() || parts.iter().any(|(_, mutations)| mutations.len() > TX_MUTATIONS_MAX) {
                return Err(Invalid::Count.into());
            }
            let tx = TxId { client: core.client(), begin: epoch };
            Ok(Ask::Pool(PoolVerb::TxCommit(TxCommit { cont: self.cont.no(), tx, epoch, parts })))
        })?;
        match answer {
            Answer::Pool(PoolReply::Epoch(epoch)) => Ok(epoch),
            _ => Err(unexpected()),
        }
    }
}

/// The removals by target, in their order on each.
pub(crate) fn parts_of<'p>(
    punches: impl Iterator<Item = (&'p Object, &'p PunchScope)>,
    map: MapView,
) -> Result<Vec<(TargetNo, Vec<Mutation<'static>>)>> {
    // Few targets take part, so that looking through them is cheaper than a map.
    let mut parts: Vec<(TargetNo, Vec<Mutation<'static>>)> = Vec::with_capacity(1);
    for (object, scope) in punches {
        let targets = match scope {
            PunchScope::Object => object.targets(map)?,
            PunchScope::Dkey(dkey) | PunchScope::Akeys(dkey, _) => {
                SmallVec::from_slice(&[object.target(map, dkey)?])
            }
        };
        for target in targets {
            let known = parts.iter().position(|(no, _)| *no == target);
            let index = known.unwrap_or(parts.len());
            if known.is_none() {
                parts.push((target, Vec::with_capacity(2)));
            }
            let punch = Punch { oid: object.oid(), scope: scope.clone(), cond: Cond::NONE };
            parts[index].1.push(Mutation::Punch(punch));
        }
    }
    Ok(parts)
}
