//! The transaction that makes the next version the current one.

use super::base::{Base, Next};
use super::catalogue::Stored;
use super::numbers::Numbers;
use super::place;
use super::record::{Anchor, Made};
use crate::error::{Error, Result};
use dolmen_client::{At, Cond, Container, Durability, IoBuf, Key, NewValue, Object, Payload, UpdateIod};

/// Values of one update.
const VALUES_MAX: usize = 512;

/// A version of an ntuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its number; the first is 1.
    pub number: u64,
    /// When it was made, in nanoseconds since 1970.
    pub time_ns: u64,
    /// How many entries it has.
    pub entry_count: u64,
    /// How many clusters.
    pub cluster_count: u64,
    /// What made it.
    pub made: Made,
}

impl Version {
    pub(super) fn of(anchor: &Anchor) -> Self {
        Self {
            number: anchor.version,
            time_ns: anchor.time_ns,
            entry_count: anchor.entry_count,
            cluster_count: anchor.cluster_count,
            made: anchor.made,
        }
    }
}

/// Makes of the current version the next one, as `next` says, and it the current one. `base` is the version that is known to be the
/// current one, or an older one, and becomes the new one.
pub(super) fn commit(
    stored: &Stored,
    numbers: &mut Numbers,
    base: &mut Base,
    mut next: impl FnMut(&Base) -> Result<Next>,
) -> Result<Version> {
    settle(stored.container())?;
    let made = stored.container().transact(|tx| {
        let current = stored.current(At::Tx(tx))?;
        if current.version != base.anchor.version {
            *base = Base::load(&stored.source(&current)?, current)?;
        }
        let next = next(base)?;
        next.check()?;
        numbers.end_in(tx)?;
        put(stored.own(), At::Tx(tx), &next.base.anchor, &next.values)?;
        put_current(stored.own(), At::Tx(tx), &next.base.anchor)?;
        Ok::<_, Error>(next.base)
    })?;
    numbers.forget();
    *base = made;
    Ok(Version::of(&base.anchor))
}

/// Has all that was written before survive the loss of power, where a write alone does not: what is written next speaks of it.
pub(super) fn settle(cont: &Container) -> Result<()> {
    if cont.durability() == Durability::Power {
        return Ok(());
    }
    Ok(cont.flush()?)
}

/// Writes a version, which nobody reads until it is the current one.
pub(super) fn put(own: &Object, at: At<'_>, anchor: &Anchor, values: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let dkey = place::version(anchor.version);
    let record = anchor.write();
    let all = values.iter().map(|(akey, value)| (&**akey, &**value));
    let iods: Vec<_> = all.chain([(place::ANCHOR, &*record)]).map(|(akey, value)| iod(akey, value)).collect();
    for some in iods.chunks(VALUES_MAX) {
        own.update(at, &dkey, Cond::NONE, some)?;
    }
    Ok(())
}

/// Says that a version is the current one.
pub(super) fn put_current(own: &Object, at: At<'_>, anchor: &Anchor) -> Result<()> {
    own.put(at, place::CURRENT, place::ANCHOR, &anchor.write())?;
    Ok(())
}

/// A single value.
pub(super) fn iod<'a>(akey: &[u8], value: &'a [u8]) -> UpdateIod<'a> {
    let value = NewValue::Single(Payload::Ref(value));
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }
}

/// A single value of an object; none if it has none.
pub(super) fn value(object: &Object, at: At<'_>, dkey: &[u8], akey: &[u8]) -> Result<Option<IoBuf>> {
    let mut buf = IoBuf::default();
    Ok(object.get(at, dkey, akey, &mut buf)?.map(|_| buf))
}
