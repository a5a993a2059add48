//! What nobody needs is found and freed: objects of versions that are gone, of ntuples that were destroyed, of writers that have died.
//!
//! An object was there when the container was walked through; only then writers and versions are looked at, in one transaction. So
//! whoever wrote it is known as a writer still, or has made it part of a version that is there, or it is nobody's. Writers whose lease
//! is over are removed in that transaction: what they commit later fails.
//!
//! Invariants: nothing is freed that a version refers to, or that has the number of a writer whose record is there.

use super::catalogue::{Listed, Store, Stored};
use super::home::At;
use super::place::{self, Named, Records};
use super::record::{Anchor, Writer};
use super::versions::lists;
use crate::error::{Error, Result, Structure};
use crate::format::Header;
use crate::format::locator::Locator;
use crate::format::page_list::PageList;
use crate::ntuple::fetch_envelopes;
use std::collections::BTreeSet;

/// Times that it begins anew because versions were removed meanwhile: whoever removes them leaves some.
const REPEATS_MAX: u32 = 8;

/// Page lists that are read together.
const LISTS_MAX: usize = 16;

/// What was freed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Collected {
    /// Versions that were kept for long enough.
    pub versions: u64,
    /// Writers that were silent for longer than their lease.
    pub writers: u64,
    /// Objects of clusters.
    pub clusters: u64,
    /// Objects of ntuples without a name.
    pub ntuples: u64,
}

/// Who needs what, at one time.
struct Roots {
    ntuples: Vec<(Stored, Vec<Anchor>)>,
    writers: Vec<Writer>,
    removed: u64,
}

impl Store {
    /// Destroys an ntuple with all its versions, and frees what nobody else needs: pages that it shares with a clone stay.
    ///
    /// # Errors
    /// [`Error::NoNtuple`]; [`Error::Store`]: if it is gone by then, the next [`collect`](Self::collect) frees the rest.
    pub fn destroy(&self, name: &str) -> Result<Collected> {
        let stored = self.ntuple(name)?;
        self.home().transact(|at| {
            stored.check_named(at)?;
            self.home().punch(at, Records::Catalogue, name.as_bytes())
        })?;
        // Without a name it is nobody's, and is freed with the rest.
        self.collect()
    }

    /// Frees what nobody needs: versions that were kept for long enough, what writers have left that are dead, and what was of ntuples that
    /// were destroyed. Safe beside writers and readers; costs a walk through the container's objects and all page lists.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Corrupt`]: nothing is freed that is not known to be nobody's.
    pub fn collect(&self) -> Result<Collected> {
        let mut collected = Collected::default();
        for Listed { name, number, .. } in self.list()? {
            match self.numbered(&name, number).expire() {
                Ok(versions) => collected.versions += versions,
                // It was destroyed meanwhile.
                Err(Error::NoNtuple { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let objects = self.home().objects()?;
        let mut repeats = 0;
        let (roots, needed) = loop {
            let roots = self.roots()?;
            match needed(&roots) {
                Ok(needed) => break (roots, needed),
                Err(error) if repeats == REPEATS_MAX || self.is_still(&roots)? => return Err(error),
                Err(_) => repeats += 1,
            }
        };
        // What was removed must not come back without what is freed now.
        self.home().settle()?;
        collected.writers = roots.removed;
        let is_held = |number: u64| roots.writers.iter().any(|writer| writer.holds(number));
        let named: BTreeSet<u64> = roots.ntuples.iter().map(|(stored, _)| stored.number()).collect();
        for object in &objects {
            match object.named {
                Named::Cluster(number) if !needed.contains(&number) && !is_held(number) => {
                    self.home().free(object)?;
                    collected.clusters += 1;
                }
                Named::Ntuple(number) if !named.contains(&number) && !is_held(number) => {
                    self.home().free(object)?;
                    collected.ntuples += 1;
                }
                _ => {}
            }
        }
        self.home().sweep()?;
        Ok(collected)
    }

    /// Looks at all names, versions and writers at one time.
    fn roots(&self) -> Result<Roots> {
        let (home, now_ns) = (self.home(), self.now_ns());
        home.transact(|at| {
            let mut roots = Roots { ntuples: Vec::new(), writers: Vec::new(), removed: 0 };
            for dkey in home.dkeys(at, Records::Writers)? {
                let Some(found) = home.get(at, Records::Writers, &dkey, place::RECORD)? else { continue };
                let writer = Writer::read(&found)?;
                if writer.until_ns < now_ns {
                    home.punch(at, Records::Writers, &dkey)?;
                    roots.removed += 1;
                } else {
                    roots.writers.push(writer);
                }
            }
            for Listed { name, number, .. } in self.listed(at)? {
                let stored = self.numbered(&name, number);
                let anchors = stored.anchors(at)?;
                roots.ntuples.push((stored, anchors));
            }
            Ok(roots)
        })
    }

    /// Whether all of these versions are still there.
    fn is_still(&self, roots: &Roots) -> Result<bool> {
        for (stored, anchors) in &roots.ntuples {
            let there = stored.anchors(At::Latest)?;
            if anchors.iter().any(|anchor| !there.contains(anchor)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Numbers of all clusters that versions refer to.
fn needed(roots: &Roots) -> Result<BTreeSet<u64>> {
    let mut needed = BTreeSet::new();
    for (stored, anchors) in &roots.ntuples {
        let mut seen = BTreeSet::new();
        for anchor in anchors {
            let source = stored.source(anchor);
            let envelope = fetch_envelopes(&source, &[(Structure::Header, anchor.header)])?.remove(0);
            let header_sum = Header::read(&envelope)?.checksum;
            let unseen = lists(&source, anchor)?.into_iter().filter(|link| seen.insert(link.locator.order()));
            let links: Vec<_> = unseen.map(|link| (Structure::PageList, link)).collect();
            for some in links.chunks(LISTS_MAX) {
                for envelope in fetch_envelopes(&source, some)? {
                    let list = PageList::read(&envelope, header_sum)?;
                    needed.extend(list.pages.iter().filter_map(|page| match page.locator {
                        Locator::Stored { object, .. } => Some(object),
                        _ => None,
                    }));
                }
            }
        }
    }
    Ok(needed)
}
