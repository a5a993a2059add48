//! Listing directories.

use crate::access::{Rights, check_dir};
use crate::attr::{Stat, number_of};
use crate::dir::Dir;
use crate::error::{Error, Result, What};
use crate::layout::inode::{FileKind, Inode};
use crate::mount::Mount;
use crate::node::Slot;
use crate::path::check_name;
use crate::resolve::STALE_RETRIES;
use crate::store::bad_record;
use dolmen_client::{At, PackedKeys, Page, Way, side_by_side};
use dolmen_types::{Anchor, Error as StoreError, Invalid};

/// Where a listing stands: opaque, copied by value, valid in another process and after others have added and
/// removed entries. Every entry that exists during the whole listing is returned exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cookie(Anchor);

/// States of a cookie in its bytes. Persistent: never renumber.
const STATE_START: u8 = 0;
const STATE_AFTER: u8 = 1;
const STATE_END: u8 = 2;

impl Cookie {
    /// Whether everything was listed.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.0.is_eof()
    }

    /// The start of one part of a directory: see [`Dir::list_until`].
    #[must_use]
    pub fn part(part: u16) -> Self {
        let mut anchor = Anchor::default();
        anchor.shard = part;
        Self(anchor)
    }

    /// As bytes, at most 107.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let state = match (self.0.is_eof(), self.0.position()) {
            (true, _) => STATE_END,
            (false, []) => STATE_START,
            (false, _) => STATE_AFTER,
        };
        let mut bytes = vec![state];
        bytes.extend_from_slice(&self.0.shard.to_le_bytes());
        bytes.extend_from_slice(self.0.position());
        bytes
    }

    /// The inverse of `to_bytes`.
    ///
    /// # Errors
    /// `Invalid(Cookie)`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let [state, shard_low, shard_high, position @ ..] = bytes else { return Err(What::Cookie.into()) };
        let anchor = match (*state, position) {
            (STATE_START, []) => Some(Anchor::default()),
            (STATE_END, []) => Some(Anchor::eof()),
            (STATE_AFTER, [_, ..]) => Anchor::after(position),
            _ => None,
        };
        let mut anchor = anchor.ok_or(What::Cookie)?;
        anchor.shard = u16::from_le_bytes([*shard_low, *shard_high]);
        Ok(Self(anchor))
    }
}

impl From<Anchor> for Cookie {
    fn from(anchor: Anchor) -> Self {
        Self(anchor)
    }
}

impl From<Cookie> for Anchor {
    fn from(cookie: Cookie) -> Self {
        cookie.0
    }
}

/// Names of entries, packed into one buffer.
#[derive(Clone, Debug, Default)]
pub struct Names {
    keys: PackedKeys,
    /// Keys among them that are no names.
    bad_count: usize,
}

impl Names {
    fn new(keys: PackedKeys) -> Self {
        let bad_count = keys.iter().filter(|key| check_name(key).is_err()).count();
        Self { keys, bad_count }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len() - self.bad_count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names, in the order of the listing.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter(|key| self.bad_count == 0 || check_name(key).is_ok())
    }

    /// What stands where a name should, but leads elsewhere or nowhere, such as `../f`: damage, or the work of a foreign
    /// program. Only [`Dir::discard`] takes it.
    pub fn bad(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter(|key| self.bad_count > 0 && check_name(key).is_err())
    }
}

/// An entry with its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name. Where `stat` is an error it need not be one: see [`Names::bad`].
    pub name: Box<[u8]>,
    /// What `lstat` says of it; also that it is damaged, which hides no other entry.
    pub stat: Result<Stat>,
}

/// A name, and what was found out of its entry.
pub type Found<T> = (Box<[u8]>, Result<T>);

/// Bytes of names in one answer, for each name asked for: a quarter of the longest.
const NAME_ROOM_BYTES: u32 = 64;
/// The least room for names: several of the longest.
const NAMES_ROOM_BYTES_MIN: u32 = 4096;

impl Dir {
    /// In how many parts this directory can be listed side by side: by its shards, as far as they have targets of
    /// their own.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn part_count(&self) -> Result<u16> {
        let targets = self.mount().container.query_pool()?.map.targets.len();
        Ok(self.node.oid.class().groups().min(u16::try_from(targets).unwrap_or(u16::MAX)).max(1))
    }

    /// As `list`, of the parts before `end` only, where there are parts from `end` on: none once these are at their end.
    /// The cookie begins as [`Cookie::part`].
    ///
    /// # Errors
    /// As `list`.
    pub fn list_until(&self, end: u16, cookie: &mut Cookie, count_max: u32) -> Result<Names> {
        if cookie.is_end() {
            return Ok(Names::default());
        }
        let names = self.list(cookie, count_max)?;
        if !cookie.is_end() && cookie.0.shard < end {
            return Ok(names);
        }
        // An answer has names of one part. When the last of ours has no more the listing stands before the next one, or,
        // if that has told names already, further on.
        let is_own = !cookie.is_end() && cookie.0.shard == end && cookie.0.position().is_empty();
        cookie.0 = Anchor::eof();
        Ok(if is_own { names } else { Names::default() })
    }

    /// The next names after `cookie`, at most `count_max`; at least one, if only a bad one, unless the cookie is then at
    /// its end. `.` and `..` are not among them.
    ///
    /// # Errors
    /// `NoPermission`; `NotFound` if the directory was removed; `Invalid(Cookie)`, `Invalid(Range)`.
    pub fn list(&self, cookie: &mut Cookie, count_max: u32) -> Result<Names> {
        check_dir(self.cred.as_deref(), &self.node, Rights::READ)?;
        if count_max == 0 {
            return Err(What::Range.into());
        }
        if self.node.is_removed() {
            return Err(Error::NotFound);
        }
        if cookie.is_end() {
            return Ok(Names::default());
        }
        let bytes_max = count_max.saturating_mul(NAME_ROOM_BYTES).max(NAMES_ROOM_BYTES_MIN);
        let page = Page { items_max: count_max, bytes_max };
        let keys = self.mount().object(self.node.oid)?.list_dkeys(At::Latest, &mut cookie.0, page);
        keys.map(Names::new).map_err(|error| match error {
            StoreError::Invalid(Invalid::Anchor) => What::Cookie.into(),
            other => other.into(),
        })
    }

    /// The cookie that goes on behind `name`, whether there is (still) such an entry or not: a place inside of a
    /// page, as telldir(3) tells it.
    ///
    /// # Errors
    /// `Invalid(Name)`, `NameTooLong` for what cannot be a name.
    pub fn cookie_after(&self, name: impl AsRef<[u8]>) -> Result<Cookie> {
        check_name(name.as_ref())?;
        Ok(Cookie(self.mount().object(self.node.oid)?.anchor_after(name.as_ref())?))
    }

    /// The cookie from which the next name listed is `name`, or what follows its place if there is no such entry.
    ///
    /// # Errors
    /// As `cookie_after`.
    pub fn cookie_at(&self, name: impl AsRef<[u8]>) -> Result<Cookie> {
        Ok(Cookie(self.mount().object(self.node.oid)?.anchor_at(name.as_ref())?))
    }

    /// The next entries after `cookie` with their attributes; sizes are asked for file by file. Entries that
    /// were removed meanwhile are left out, so there may be none although the cookie is not at its end; damaged ones are not.
    ///
    /// # Errors
    /// As `list`; `NoPermission` without the right to pass through.
    pub fn list_plus(&self, cookie: &mut Cookie, count_max: u32) -> Result<Vec<Entry>> {
        check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE)?;
        let names = self.list(cookie, count_max)?;
        self.describe_names(&names)
    }

    /// Names that were listed, with their attributes; those removed since are left out.
    ///
    /// # Errors
    /// `NoPermission` without the right to pass through; those of the store.
    pub fn describe_names(&self, names: &Names) -> Result<Vec<Entry>> {
        check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE)?;
        let entries = self.describe(names, async |slot| {
            for _ in 0..STALE_RETRIES {
                let Some(inode) = self.mount().listed(slot).await? else { return Ok(None) };
                match self.mount().stat_entry_by(Way::Later, slot, &inode).await {
                    // Removed or replaced between the two looks.
                    Err(Error::Stale) => {}
                    other => return other.map(Some),
                }
            }
            Err(Error::Contended)
        })?;
        Ok(entries.into_iter().map(|(name, stat)| Entry { name, stat }).collect())
    }

    /// The next names after `cookie` with their kinds, which is one fetch each; of a damaged one, that it is.
    ///
    /// # Errors
    /// As `list_plus`.
    pub fn list_kinds(&self, cookie: &mut Cookie, count_max: u32) -> Result<Vec<Found<FileKind>>> {
        check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE)?;
        let names = self.list(cookie, count_max)?;
        self.describe(&names, async |slot| Ok(self.mount().listed(slot).await?.map(|inode| inode.kind)))
    }

    /// The next names after `cookie` with what readdir(3) tells of each, kind and number, which is one fetch; of a damaged one,
    /// that it is.
    ///
    /// # Errors
    /// As `list_plus`.
    pub fn list_numbers(&self, cookie: &mut Cookie, count_max: u32) -> Result<Vec<Found<(FileKind, u64)>>> {
        check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE)?;
        let names = self.list(cookie, count_max)?;
        let told = |inode: Inode| (inode.kind, number_of(inode.oid));
        self.describe(&names, async |slot| Ok(self.mount().listed(slot).await?.map(told)))
    }

    /// The same of each of these names; `NotFound` of those that are gone.
    pub fn numbers_of_all(&self, names: &[&[u8]]) -> Vec<Result<(FileKind, u64)>> {
        if let Err(denied) = check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE) {
            return names.iter().map(|_| Err(denied.clone())).collect();
        }
        let looks = names.iter().map(async |name| {
            let inode = self.mount().listed(&Slot::new(self.node.oid, name)).await?.ok_or(Error::NotFound)?;
            Ok((inode.kind, number_of(inode.oid)))
        });
        self.mount().container.together(side_by_side(looks))
    }

    /// What `look` finds out of each name, all of them side by side: also that it is damaged, which hides no other.
    fn describe<T>(
        &self,
        names: &Names,
        look: impl AsyncFn(&Slot) -> Result<Option<T>>,
    ) -> Result<Vec<Found<T>>> {
        let look = &look;
        let looks = names.iter().map(async |name| look(&Slot::new(self.node.oid, name)).await);
        let looked = self.mount().container.together(side_by_side(looks));
        let mut found = Vec::with_capacity(names.keys.len());
        for (name, looked) in names.iter().zip(looked) {
            match looked {
                Ok(told) => found.extend(told.map(|told| (name.into(), Ok(told)))),
                Err(error) if error.is_damage() => found.push((name.into(), Err(error))),
                Err(other) => return Err(other),
            }
        }
        let bad = |name: &[u8]| (name.into(), Err(bad_record(&Slot::new(self.node.oid, name))));
        found.extend(names.bad().map(bad));
        Ok(found)
    }

    /// All names that an entry can have, sorted: for directories that fit memory.
    ///
    /// # Errors
    /// As `list`.
    pub fn names(&self) -> Result<Vec<Vec<u8>>> {
        let (mut all, mut cookie) = (Vec::new(), Cookie::default());
        while !cookie.is_end() {
            all.extend(self.list(&mut cookie, 4096)?.iter().map(<[u8]>::to_vec));
        }
        all.sort_unstable();
        Ok(all)
    }
}

impl Mount {
    /// The record of an entry that was listed; `None` if it was removed since.
    async fn listed(&self, slot: &Slot) -> Result<Option<Inode>> {
        match self.inode_by(Way::Later, At::Latest, slot).await? {
            None if self.has_akeys_by(Way::Later, At::Latest, slot).await? => {
                // It may have been made again in between.
                let again = self.inode_by(Way::Later, At::Latest, slot).await?;
                again.map(Some).ok_or_else(|| bad_record(slot))
            }
            other => Ok(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_travel_as_bytes() {
        let mut after = Anchor::after(&[7; 16]).unwrap();
        after.shard = 258;
        for anchor in [Anchor::default(), Anchor::eof(), after] {
            let cookie = Cookie(anchor);
            assert_eq!(Cookie::from_bytes(&cookie.to_bytes()), Ok(cookie));
        }
        for bad in [&[][..], &[1, 0, 0], &[0, 0, 0, 1], &[9, 0, 0], &[1; 120]] {
            assert_eq!(Cookie::from_bytes(bad), Err(Error::Invalid(What::Cookie)));
        }
    }
}
