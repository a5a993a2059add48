//! The transaction that makes the next version the current one.

use super::base::{Base, Next};
use super::catalogue::Stored;
use super::home::{At, Home};
use super::numbers::Numbers;
use super::place::{self, Records};
use super::record::{Anchor, Made};
use crate::error::{Error, Result};
use crate::format::locator::Locator;
use crate::ntuple::Ntuple;

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
    let done = stored.with_current(|| {
        home.transact(|at| {
            let current = stored.current(at)?;
            // Another version may have its number, where a snapshot was gone back to.
            if current != base.anchor {
                *base = Base::load(&stored.source(&current), current)?;
            }
            let next = next(base)?;
            next.check()?;
            numbers.end_in(at)?;
            put(home, stored.own(), at, &next.base.anchor, &next.values)?;
            put_current(home, stored.own(), at, &next.base.anchor)?;
            Ok(next.base)
        })
    });
    match done {
        Ok(made) => {
            numbers.forget();
            *base = made;
            Ok(Version::of(&base.anchor))
        }
        // Its records are taken away by whoever frees what it wrote, and by itself, if the answer to that was lost.
        Err(Error::Expired) => {
            let version = done_before(stored, numbers)?.ok_or(Error::Expired)?;
            numbers.forget();
            Ok(version)
        }
        Err(error) => Err(error),
    }
}

/// The first version with clusters of numbers that are held; none if there is none.
fn done_before(stored: &Stored, numbers: &Numbers) -> Result<Option<Version>> {
    for anchor in stored.anchors(At::Latest)? {
        let ntuple = Ntuple::open_families(stored.source(&anchor), &anchor.header, &anchor.footers)?;
        let clusters = ntuple.all_clusters()?;
        let pages = clusters.iter().flat_map(|cluster| {
            cluster.pages.columns.iter().flat_map(|column| &cluster.list.pages[column.pages.clone()])
        });
        let mut objects = pages.filter_map(|page| match page.locator {
            Locator::Stored { object, .. } => Some(object),
            _ => None,
        });
        if objects.any(|object| numbers.holds(object)) {
            return Ok(Some(Version::of(&anchor)));
        }
    }
    Ok(None)
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
