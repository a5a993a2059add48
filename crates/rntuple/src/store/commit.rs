//! The transaction that makes the next version the current one.

use super::base::{Base, Next};
use super::catalogue::Stored;
use super::home::{At, Home};
use super::numbers::Numbers;
use super::place::{self, Records};
use super::record::{Anchor, Made};
use crate::error::Result;

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
    let home = stored.home();
    home.settle()?;
    let made = home.transact(|at| {
        let current = stored.current(at)?;
        if current.version != base.anchor.version {
            *base = Base::load(&stored.source(&current), current)?;
        }
        let next = next(base)?;
        next.check()?;
        numbers.end_in(at)?;
        put(home, stored.own(), at, &next.base.anchor, &next.values)?;
        put_current(home, stored.own(), at, &next.base.anchor)?;
        Ok(next.base)
    })?;
    numbers.forget();
    *base = made;
    Ok(Version::of(&base.anchor))
}

/// Writes a version, which nobody reads until it is the current one.
pub(super) fn put(
    home: &Home,
    own: Records,
    at: At<'_>,
    anchor: &Anchor,
    values: &[(Vec<u8>, Vec<u8>)],
) -> Result<()> {
    let record = anchor.write();
    let all = values.iter().map(|(akey, value)| (&**akey, &**value));
    let all: Vec<_> = all.chain([(place::ANCHOR, &*record)]).collect();
    home.put(at, own, &place::version(anchor.version), &all)
}

/// Says that a version is the current one.
pub(super) fn put_current(home: &Home, own: Records, at: At<'_>, anchor: &Anchor) -> Result<()> {
    home.put(at, own, place::CURRENT, &[(place::ANCHOR, &anchor.write())])
}
