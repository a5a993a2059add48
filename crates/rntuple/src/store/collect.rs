//! What nobody needs is found and freed: objects of versions that are gone, of ntuples that were destroyed, of writers that have died.
//!
//! An object was there when the container was walked through; only then writers and versions are looked at, in one transaction. So
//! whoever wrote it is known as a writer still, or has made it part of a version that is there, or it is nobody's. Writers whose lease
//! is over are removed in that transaction: what they commit later fails.
//!
//! A container can go back to a snapshot meanwhile, at which something of that is needed. So who frees makes a record as writers do, looks once more
//! at what nobody needed, and frees it in transactions that look whether the record is there: what was needed at no time since
//! before the record was made is needed at no snapshot that leaves the record.
//!
//! What cannot be read of an ntuple might name any cluster. So, as long as one is damaged, clusters are freed only of writers that are removed, which
//! no version has; all else goes on, and the damaged ones are told. When they are mended or destroyed the rest is freed.
//!
//! Invariants: nothing is freed that a version refers to, or may refer to, or that has the number of a writer whose record is there.

use super::catalogue::{LEASE_NS_MAX, Store, Stored};
use super::home::{At, Found};
use super::numbers::Numbers;
use super::place::{self, Named, Records};
use super::record::{Anchor, Entry, Writer};
use super::versions::lists;
use crate::error::{Error, Result, Structure};
use crate::format::Header;
use crate::format::locator::Locator;
use crate::format::page_list::PageList;
use crate::ntuple::fetch_envelopes;
use std::collections::{BTreeMap, BTreeSet};

/// Times that it begins anew because versions were removed meanwhile: whoever removes them leaves some.
const REPEATS_MAX: u32 = 8;

/// Objects that are freed in one transaction.
const FREED_TOGETHER: usize = 16;

/// Page lists that are read together.
const LISTS_MAX: usize = 16;

/// What was freed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Collected {
    /// Versions that were kept for long enough.
    pub versions: u64,
    /// Versions that were replaced and are kept still, by tags or for not long enough; of ntuples that can be read.
    pub kept: u64,
    /// Writers that were silent for longer than their lease.
    pub writers: u64,
    /// Writers who may be alive: what they have put is left until their leases are over.
    pub alive: u64,
    /// Objects of clusters.
    pub clusters: u64,
    /// Objects of ntuples without a name.
    pub ntuples: u64,
    /// Objects of an object store that somebody began to write in parts, and never completed; none where the store does not tell.
    pub uploads: u64,
    /// Ntuples that cannot be read, by their names: what might be theirs is left until they are mended, or destroyed.
    pub damaged: Vec<Unreadable>,
}

/// An ntuple that cannot be read, at least in part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its name.
    pub name: Box<str>,
    /// What is wrong.
    pub why: Box<str>,
}

/// Who needs what, at one time.
#[derive(Default)]
struct Roots {
    /// With why their versions are not known, or these.
    ntuples: Vec<(Stored, Anchors)>,
    /// Names whose ntuples are not known.
    unknown: Damaged,
    writers: Vec<Writer>,
    removed: Vec<Writer>,
    /// How many of those that are removed cannot be read.
    unreadable: u64,
}

/// Numbers of all clusters that versions refer to, and ntuples of which some may not be known.
#[derive(Default)]
struct Needed {
    clusters: BTreeSet<u64>,
    damaged: Damaged,
}

/// Who needs what, and objects that nobody needs.
struct Looked {
    roots: Roots,
    needed: Needed,
    free: Vec<Found>,
}

/// Versions of an ntuple, or why they cannot be read.
type Anchors = core::result::Result<Vec<Anchor>, Box<str>>;

/// Why ntuples cannot be read, by their names.
type Damaged = BTreeMap<Box<str>, Box<str>>;

impl Roots {
    /// Which of these objects nobody needs.
    fn leaves(&self, needed: &Needed, objects: &[Found]) -> Vec<Found> {
        let is_of = |writers: &[Writer], number: u64| writers.iter().any(|writer| writer.holds(number));
        let is_known = needed.damaged.is_empty() && self.unknown.is_empty();
        let named: BTreeSet<u64> = self.ntuples.iter().map(|(stored, _)| stored.number()).collect();
        let is_free = |object: &&Found| match object.named {
            Named::Cluster(number) => {
                let is_needed = needed.clusters.contains(&number) || is_of(&self.writers, number);
                !is_needed && (is_known || is_of(&self.removed, number))
            }
            Named::Ntuple(number) => {
                let is_needed = named.contains(&number) || is_of(&self.writers, number);
                !is_needed && self.unknown.is_empty()
            }
        };
        objects.iter().filter(is_free).copied().collect()
    }
}

impl Collected {
    fn count(&mut self, freed: &[Found]) {
        for object in freed {
            match object.named {
                Named::Cluster(_) => self.clusters += 1,
                Named::Ntuple(_) => self.ntuples += 1,
            }
        }
    }
}

/// Whether there is no room for what is to be written.
fn is_full(error: &Error) -> bool {
    let Error::Store { source } = error else { return false };
    matches!(source, dolmen_client::Error::NoSpace { .. } | dolmen_client::Error::QuotaLimit)
}

impl Store {
    /// Destroys an ntuple with all its versions, also one that is damaged, and frees what nobody else needs: pages that it shares with a
    /// clone stay.
    ///
    /// # Errors
    /// [`Error::NoNtuple`]; [`Error::Store`]: if it is gone by then, the next [`collect`](Self::collect) frees the rest.
    pub fn destroy(&self, name: &str) -> Result<Collected> {
        self.destroy_if(name, |_, entry| entry.map(drop).or_else(|error| error.damage().map(drop)))
    }

    /// As [`destroy`](Self::destroy), unless tags keep versions of it, or it is damaged.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy); [`Error::Tagged`]; [`Error::Corrupt`].
    pub fn destroy_untagged(&self, name: &str) -> Result<Collected> {
        self.destroy_if(name, |at, entry| {
            let Some(Entry { number, .. }) = entry? else { return Ok(()) };
            let tags = self.numbered(name, number).tagged(at)?;
            if tags.is_empty() { Ok(()) } else { Err(Error::Tagged { name: name.into(), tags }) }
        })
    }

    /// Destroys an ntuple, if what the catalogue has of it allows that at the time at which it loses its name.
    fn destroy_if(
        &self,
        name: &str,
        allow: impl Fn(At<'_>, Result<Option<Entry>>) -> Result<()>,
    ) -> Result<Collected> {
        let is_named = self.home().transact(|at| {
            let entry = self.entry(at, name);
            if matches!(entry, Ok(None)) {
                return Ok(false);
            }
            allow(at, entry)?;
            self.home().punch(at, Records::Catalogue, name.as_bytes())?;
            Ok(true)
        })?;
        if !is_named {
            return Err(self.no_ntuple(name));
        }
        // Without a name it is nobody's, and is freed with the rest.
        self.collect()
    }

    /// Frees what nobody needs: versions that were kept for long enough, what writers have left that are dead, and what was of ntuples that
    /// were destroyed. Safe beside writers and readers; costs a walk through the container's objects and all page lists.
    ///
    /// An ntuple that is damaged does not keep others from what can be done for them: it is told in [`Collected::damaged`].
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Corrupt`] if the names themselves cannot be read: nothing is freed that is not known to be nobody's.
    pub fn collect(&self) -> Result<Collected> {
        self.collect_but(true)
    }

    /// As [`collect`](Self::collect), where nobody writes: what writers have left that died is freed without waiting until their leases are over. One
    /// that lives in spite of it loses what it has not committed, and is told so ([`Error::Expired`]).
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub fn collect_alone(&self) -> Result<Collected> {
        self.collect_but(false)
    }

    /// Frees what nobody needs, and if leases hold not what is of writers who may be alive.
    fn collect_but(&self, leases_hold: bool) -> Result<Collected> {
        let mut collected = Collected::default();
        let damaged = self.expire_all(&mut collected)?;
        let mut own = self.numbers();
        let mut repeats = 0;
        let Looked { roots, needed, .. } = loop {
            let done = self.collect_once(leases_hold, &mut own, &mut collected);
            let given_up = own.give_up();
            match done {
                // Others took the record, or a snapshot was gone back to.
                Err(Error::Expired) if repeats < REPEATS_MAX => repeats += 1,
                done => {
                    let looked = done?;
                    given_up?;
                    break looked;
                }
            }
        };
        let is_of = |number: u64| roots.writers.iter().any(|writer| writer.holds(number));
        collected.uploads = self.home().sweep(is_of)?;
        let anchors = roots.ntuples.iter().filter_map(|(_, anchors)| anchors.as_ref().ok());
        collected.alive = roots.writers.len() as u64;
        collected.kept = anchors.map(|anchors| (anchors.len() as u64).saturating_sub(1)).sum();
        let damaged = damaged.into_iter().chain(needed.damaged).chain(roots.unknown);
        let damaged: Damaged = damaged.collect();
        collected.damaged = damaged.into_iter().map(|(name, why)| Unreadable { name, why }).collect();
        Ok(collected)
    }

    /// Frees what nobody needs, and says what was seen.
    ///
    /// # Errors
    /// [`Error::Expired`] if it is to begin anew.
    fn collect_once(
        &self,
        leases_hold: bool,
        own: &mut Numbers,
        collected: &mut Collected,
    ) -> Result<Looked> {
        let home = self.home();
        let mut looked = self.look(&home.objects()?, leases_hold, (own, Vec::new()), collected)?;
        if home.goes_back() && !looked.free.is_empty() {
            match own.next() {
                // What nobody needed before the record was made nobody needs at a snapshot of after that; one of before it takes the record away.
                Ok(_) => {
                    looked = self.look(&looked.free, leases_hold, (own, looked.roots.removed), collected)?;
                }
                Err(error) if is_full(&error) => {
                    return self.free_looking(looked, leases_hold, own, collected);
                }
                Err(error) => return Err(error),
            }
        }
        // What was removed must not come back without what is freed now.
        home.settle()?;
        for some in looked.free.chunks(FREED_TOGETHER) {
            crate::stop::check()?;
            own.renew()?;
            match home.goes_back() {
                true => home.transact(|at| {
                    own.check_in(at)?;
                    home.free(at, some)
                })?,
                false => home.free(At::Latest, some)?,
            }
            collected.count(some);
        }
        Ok(looked)
    }

    /// Frees what nobody needs where there is no room for a record: each transaction looks by itself.
    fn free_looking(
        &self,
        looked: Looked,
        leases_hold: bool,
        own: &Numbers,
        collected: &mut Collected,
    ) -> Result<Looked> {
        let home = self.home();
        home.settle()?;
        for some in looked.free.chunks(FREED_TOGETHER) {
            crate::stop::check()?;
            let freed = home.transact(|at| {
                let mut roots = self.roots_in(at, leases_hold, own)?;
                roots.removed.extend(&looked.roots.removed);
                let free = roots.leaves(&needed(&roots)?, some);
                home.free(at, &free)?;
                Ok(free)
            })?;
            collected.count(&freed);
        }
        Ok(looked)
    }

    /// Looks which of these objects nobody needs. `removed` are writers whose records it has removed before.
    fn look(
        &self,
        objects: &[Found],
        leases_hold: bool,
        (own, mut removed): (&Numbers, Vec<Writer>),
        collected: &mut Collected,
    ) -> Result<Looked> {
        let mut repeats = 0;
        let (mut roots, needed) = loop {
            let roots = self.roots(leases_hold, own)?;
            collected.writers += roots.removed.len() as u64 + roots.unreadable;
            removed.extend(&roots.removed);
            let needed = needed(&roots);
            let is_whole = needed.as_ref().is_ok_and(|needed| needed.damaged.is_empty());
            if is_whole || repeats == REPEATS_MAX || self.is_still(&roots)? {
                break (roots, needed?);
            }
            repeats += 1;
        };
        roots.removed = removed;
        let free = roots.leaves(&needed, objects);
        Ok(Looked { roots, needed, free })
    }

    /// Removes versions of all ntuples that were kept for long enough; those of which that cannot be said.
    fn expire_all(&self, collected: &mut Collected) -> Result<Damaged> {
        let mut damaged = Damaged::new();
        for (name, entry) in self.entries(At::Latest)? {
            let Ok(Entry { number, .. }) = entry else { continue };
            let stored = self.numbered(&name, number);
            // What others remove meanwhile may look like damage, once.
            match stored.expire().or_else(|error| error.damage().and_then(|_| stored.expire())) {
                Ok(versions) => collected.versions += versions,
                // It was destroyed meanwhile.
                Err(Error::NoNtuple { .. }) => {}
                Err(error) => {
                    damaged.insert(name, error.damage()?);
                }
            }
        }
        Ok(damaged)
    }

    /// Looks at all names, versions and writers at one time.
    fn roots(&self, leases_hold: bool, own: &Numbers) -> Result<Roots> {
        self.home().transact(|at| self.roots_in(at, leases_hold, own))
    }

    /// The same in a transaction, in which records of writers whose leases are over are removed.
    fn roots_in(&self, at: At<'_>, leases_hold: bool, own: &Numbers) -> Result<Roots> {
        let home = self.home();
        let now_ns = home.now_ns()?;
        // By a clock that is wrong by more than any lease somebody could be alive for ever.
        let alive_ns = now_ns..=now_ns.saturating_add(2 * LEASE_NS_MAX);
        let mut roots = Roots::default();
        for dkey in home.dkeys(at, Records::Writers)? {
            let Some(found) = home.get(at, Records::Writers, &dkey, place::RECORD)? else { continue };
            match Writer::read(&found) {
                Ok(writer) if own.holds(writer.first) => continue,
                Ok(writer) if leases_hold && alive_ns.contains(&writer.until_ns) => {
                    roots.writers.push(writer);
                    continue;
                }
                Ok(writer) => roots.removed.push(writer),
                // Until when it is to be left alone is not known: if it is there still it is told that it was not.
                Err(error) => {
                    error.damage()?;
                    roots.unreadable += 1;
                }
            }
            home.punch(at, Records::Writers, &dkey)?;
        }
        for (name, entry) in self.entries(at)? {
            match entry {
                Ok(Entry { number, .. }) => {
                    let stored = self.numbered(&name, number);
                    let anchors = match stored.anchors(at) {
                        Ok(anchors) => Ok(anchors),
                        Err(error) => Err(error.damage()?),
                    };
                    roots.ntuples.push((stored, anchors));
                }
                Err(error) => {
                    roots.unknown.insert(name, error.damage()?);
                }
            }
        }
        Ok(roots)
    }

    /// Whether all of these versions are still there, and what cannot be read cannot be read still.
    fn is_still(&self, roots: &Roots) -> Result<bool> {
        for (stored, anchors) in &roots.ntuples {
            let is_still = match (anchors, stored.anchors(At::Latest)) {
                (Ok(anchors), Ok(there)) => anchors.iter().all(|anchor| there.contains(anchor)),
                (Err(_), Ok(_)) => false,
                (_, Err(error)) => error.damage().map(|_| true)?,
            };
            if !is_still {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What versions need.
fn needed(roots: &Roots) -> Result<Needed> {
    let mut needed = Needed::default();
    for (stored, anchors) in &roots.ntuples {
        crate::stop::check()?;
        let why = match anchors {
            Ok(anchors) => match clusters(stored, anchors, &mut needed.clusters) {
                Ok(()) => continue,
                Err(error) => error.damage()?,
            },
            Err(why) => why.clone(),
        };
        needed.damaged.insert(stored.name().into(), why);
    }
    Ok(needed)
}

/// Adds the numbers of all clusters that versions of an ntuple refer to.
fn clusters(stored: &Stored, anchors: &[Anchor], needed: &mut BTreeSet<u64>) -> Result<()> {
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
    Ok(())
}
