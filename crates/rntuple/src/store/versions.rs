//! Versions that are kept, by tags and for a time, and those that nobody needs.

use super::catalogue::{Stored, When};
use super::commit::Version;
use super::home::At;
use super::place;
use super::record::{self, Anchor, Tag};
use super::source::StoreSource;
use crate::error::{AskedBy, BadName, Error, Named, Result, Structure};
use crate::format::Header;
use crate::format::footer::Footer;
use crate::format::locator::Link;
use crate::ntuple::fetch_envelopes;
use std::collections::BTreeSet;

/// Bytes of a tag's name: what a key of its kind has, without what is before it.
const TAG_BYTES_MAX: usize = 72;

/// A tag, and the version that it keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagOf {
    /// Its name.
    pub name: Box<str>,
    /// The number of the version.
    pub version: u64,
    /// When it was set, in nanoseconds since 1970.
    pub time_ns: u64,
}

impl Stored {
    /// All versions that are there, the oldest first.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Corrupt`].
    pub fn versions(&self) -> Result<Vec<Version>> {
        Ok(self.anchors(At::Latest)?.iter().map(Version::of).collect())
    }

    /// All tags, by their names.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Corrupt`].
    pub fn tags(&self) -> Result<Vec<TagOf>> {
        self.tagged(At::Latest)
    }

    pub(super) fn tagged(&self, at: At<'_>) -> Result<Vec<TagOf>> {
        let mut tags = Vec::new();
        for dkey in self.home().dkeys(at, self.own())? {
            if let Some(name) = place::tag_of(&dkey)
                && let Some(found) = self.home().get(at, self.own(), &dkey, place::RECORD)?
            {
                let Tag { version, time_ns } = Tag::read(&found)?;
                tags.push(TagOf { name: name.into(), version, time_ns });
            }
        }
        tags.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(tags)
    }

    /// Has a tag keep a version; with `moves` also one that keeps another by now.
    ///
    /// # Errors
    /// [`Error::NoVersion`]; [`Error::NoNtuple`] if it was destroyed; [`Error::Exists`] if the tag is there and not to be moved; [`Error::BadName`] of a name that is
    /// empty, longer than 72 bytes, or has control characters.
    pub fn tag(&self, name: &str, when: When<'_>, moves: bool) -> Result<Version> {
        if let Some(why) = bad_tag(name) {
            return Err(Error::BadName { of: Named::Tag, name: name.into(), why });
        }
        let dkey = place::tag(name);
        self.home().transact(|at| {
            // Who destroys it unless it has tags has seen this one, or is seen.
            self.check_named(at)?;
            let anchor = self.anchor_of(at, when)?;
            // The current version is also under its number, which is what is freed.
            self.anchor(at, anchor.version)?;
            if !moves && self.home().get(at, self.own(), &dkey, place::RECORD)?.is_some() {
                return Err(Error::Exists { name: name.into() });
            }
            let tag = Tag { version: anchor.version, time_ns: self.store().now_ns() };
            self.home().put(at, self.own(), &dkey, &[(place::RECORD, &tag.write())])?;
            Ok(Version::of(&anchor))
        })
    }

    /// Removes a tag.
    ///
    /// # Errors
    /// [`Error::NoVersion`] if there is none of that name.
    pub fn untag(&self, name: &str) -> Result<()> {
        let dkey = place::tag(name);
        self.home().transact(|at| {
            if self.home().get(at, self.own(), &dkey, place::RECORD)?.is_none() {
                return Err(self.no_version(at, AskedBy::Tag, &name)?);
            }
            self.home().punch(at, self.own(), &dkey)
        })
    }

    /// Sets for how long versions that were replaced are kept.
    ///
    /// # Errors
    /// [`Error::NoNtuple`] if it was destroyed; [`Error::Store`].
    pub fn keep(&self, keep_ns: u64) -> Result<()> {
        self.home().transact(|at| {
            let mut config = self.config(at)?;
            config.keep_ns = keep_ns;
            self.home().put(at, self.own(), place::CONFIG, &[(place::RECORD, &config.write())])
        })
    }

    /// For how long versions that were replaced are kept, in nanoseconds.
    ///
    /// # Errors
    /// [`Error::NoNtuple`] if it was destroyed; [`Error::Store`].
    pub fn keeps_ns(&self) -> Result<u64> {
        Ok(self.config(At::Latest)?.keep_ns)
    }

    /// Removes versions that no tag keeps, and that were replaced longer ago than versions are kept; how many. What only they refer to
    /// is freed by [`Store::collect`](super::Store::collect).
    ///
    /// # Errors
    /// [`Error::NoNtuple`] if it was destroyed; [`Error::Store`], [`Error::Corrupt`].
    pub fn expire(&self) -> Result<u64> {
        self.with_current(|| self.home().transact(|at| self.expire_in(at)))
    }

    fn expire_in(&self, at: At<'_>) -> Result<u64> {
        let (config, current) = (self.config(at)?, self.current(at)?);
        let tagged: BTreeSet<u64> = self.tagged(at)?.into_iter().map(|tag| tag.version).collect();
        let anchors = self.anchors(at)?;
        let replaced = anchors.iter().skip(1).map(|next| next.time_ns).chain([u64::MAX]);
        let now_ns = self.store().now_ns();
        let (kept, gone): (Vec<_>, Vec<_>) =
            anchors.iter().zip(replaced).partition(|(anchor, replaced_ns)| {
                anchor.version >= current.version
                        || tagged.contains(&anchor.version)
                        // A version of a clock that is ahead of this one was replaced no time ago.
                        || now_ns.saturating_sub(*replaced_ns) < config.keep_ns
            });
        if gone.is_empty() {
            return Ok(0);
        }
        let mut needed = BTreeSet::new();
        for (anchor, replaced_ns) in kept {
            needed.extend(self.parts(anchor)?);
            // Until then it was the one to read, which the times of those that stay do not say.
            if gone.iter().any(|(next, _)| next.version == anchor.version + 1) {
                let (dkey, value) = (place::version(anchor.version), record::write_replaced(replaced_ns));
                self.home().put(at, self.own(), &dkey, &[(place::REPLACED, &value)])?;
            }
        }
        self.remove(at, &needed)?;
        for (anchor, _) in &gone {
            let dkey = place::version(anchor.version);
            self.home().punch_akeys(at, self.own(), &dkey, &place::OF_VERSION)?;
        }
        Ok(gone.len() as u64)
    }

    /// Removes of all versions the parts that are not needed.
    fn remove(&self, at: At<'_>, needed: &BTreeSet<(u64, Vec<u8>)>) -> Result<()> {
        for dkey in self.home().dkeys(at, self.own())? {
            let Some(version) = place::version_of(&dkey) else { continue };
            let akeys = self.home().akeys(at, self.own(), &dkey)?;
            let is_record = |akey: &[u8]| place::OF_VERSION.contains(&akey);
            let gone: Vec<&[u8]> = akeys
                .iter()
                .filter(|akey| !is_record(akey) && !needed.contains(&(version, (*akey).clone())))
                .map(|akey| &**akey)
                .collect();
            if !gone.is_empty() {
                self.home().punch_akeys(at, self.own(), &dkey, &gone)?;
            }
        }
        Ok(())
    }

    /// Places of all parts of a version, as versions and akeys.
    fn parts(&self, anchor: &Anchor) -> Result<Vec<(u64, Vec<u8>)>> {
        let source = self.source(anchor);
        let lists = lists(&source, anchor)?;
        let zones = lists.iter().filter_map(|link| place::zones_of(link.locator));
        let own =
            [anchor.header].into_iter().chain(anchor.footers.iter().copied()).chain(lists.iter().copied());
        Ok(own.filter_map(|link| place::akey_of(link.locator)).chain(zones).collect())
    }
}

/// Why a tag cannot be called so.
fn bad_tag(name: &str) -> Option<BadName> {
    match name.chars().find(|found| found.is_control()) {
        _ if name.is_empty() => Some(BadName::Empty),
        _ if name.len() > TAG_BYTES_MAX => Some(BadName::Longer(TAG_BYTES_MAX)),
        unseen => unseen.map(BadName::Unseen),
    }
}

/// The page lists of a version, of all families.
pub(super) fn lists(source: &StoreSource, anchor: &Anchor) -> Result<Vec<Link>> {
    let mut links = vec![(Structure::Header, anchor.header)];
    links.extend(anchor.footers.iter().map(|footer| (Structure::Footer, *footer)));
    let mut envelopes = fetch_envelopes(source, &links)?.into_iter();
    let mut header = Header::read(&envelopes.next().expect("as many as links"))?;
    let mut lists = Vec::new();
    for envelope in envelopes {
        let footer = Footer::read(&envelope, header.checksum, &mut header.schema)?;
        lists.extend(footer.groups.iter().map(|group| group.page_list));
    }
    Ok(lists)
}
