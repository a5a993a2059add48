//! Steps through the levels of the key space, and existence: a key exists if data is visible below it.

use crate::conts::View;
use crate::path::{Depth, Path};
use crate::store::Store;
use crate::tree::key::{split_object, split_typed, successor};
use dolmen_types::{ContNo, Error, Oid, Stamp};

impl Store {
    /// The order encoding of the first dkey with any entry after `after` (at the start: `None`).
    ///
    /// REQUIRES: the path is at the object.
    pub(crate) fn next_dkey(
        &mut self,
        path: &mut Path,
        after: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(key) = self.next_below(path, Depth::Object, after)? else {
            return Ok(None);
        };
        let parts = split_typed(&key).ok_or_else(|| crate::error::corrupt(self.target, "run", 0, 0))?;
        Ok(parts.dkey.map(<[u8]>::to_vec))
    }

    /// The order encoding of the first akey with any entry after `after`.
    ///
    /// REQUIRES: the path is at the dkey.
    pub(crate) fn next_akey(
        &mut self,
        path: &mut Path,
        after: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(key) = self.next_below(path, Depth::Dkey, after)? else {
            return Ok(None);
        };
        let parts = split_typed(&key).ok_or_else(|| crate::error::corrupt(self.target, "run", 0, 0))?;
        Ok(parts.akey.map(<[u8]>::to_vec))
    }

    /// The first whole key one level below `depth` behind everything of `after`.
    fn next_below(
        &mut self,
        path: &mut Path,
        depth: Depth,
        after: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        const LEVEL_KEY: u8 = 1;
        let prefix_bytes = path.up(depth).as_bytes().len();
        let mut from = path.key.as_bytes().to_vec();
        from.push(LEVEL_KEY);
        if let Some(after) = after {
            from.extend_from_slice(after);
            if !successor(&mut from) {
                return Ok(None);
            }
        }
        let cursor = self.seek(&from)?;
        let below = |key: &&[u8]| {
            key.starts_with(&path.key.as_bytes()[..prefix_bytes]) && key.get(prefix_bytes) == Some(&LEVEL_KEY)
        };
        Ok(cursor.key().filter(below).map(<[u8]>::to_vec))
    }

    /// The first object of the container with any entry after `after`.
    pub(crate) fn next_object(&mut self, cont: ContNo, after: Option<Oid>) -> Result<Option<Oid>, Error> {
        let mut path = self.take_path();
        let mut from = match after {
            None => path.key.container(cont).as_bytes().to_vec(),
            Some(oid) => path.key.object(cont, oid).as_bytes().to_vec(),
        };
        self.put_path(path);
        if after.is_some() && !successor(&mut from) {
            return Ok(None);
        }
        let cursor = self.seek(&from)?;
        let found = cursor.key().and_then(split_object).filter(|(found, _)| *found == cont);
        Ok(found.map(|(_, oid)| oid))
    }

    /// Whether a dkey has visible data; the path comes back at the dkey.
    ///
    /// REQUIRES: the path is at the dkey; `cover` covers it.
    pub(crate) fn dkey_exists(&mut self, path: &mut Path, view: &View, cover: Stamp) -> Result<bool, Error> {
        Ok(self.first_akey(path, None, view, cover)?.is_some())
    }

    /// The first akey after `after` that has visible data; the path comes back at the dkey.
    pub(crate) fn first_akey(
        &mut self,
        path: &mut Path,
        after: Option<&[u8]>,
        view: &View,
        cover: Stamp,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut after = after.map(<[u8]>::to_vec);
        while let Some(akey) = self.next_akey(path, after.as_deref())? {
            path.akey_encoded(&akey);
            let cover = self.akey_cover(path, view, cover)?;
            let exists = self.akey_exists(path, view, cover)?;
            path.up(Depth::Dkey);
            if exists {
                return Ok(Some(akey));
            }
            after = Some(akey);
        }
        Ok(None)
    }

    /// The first dkey after `after` that has visible data; the path comes back at the object.
    pub(crate) fn first_dkey(
        &mut self,
        path: &mut Path,
        after: Option<&[u8]>,
        view: &View,
        cover: Stamp,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut after = after.map(<[u8]>::to_vec);
        while let Some(dkey) = self.next_dkey(path, after.as_deref())? {
            path.dkey_encoded(&dkey);
            let cover = self.dkey_cover(path, view, cover)?;
            let exists = self.dkey_exists(path, view, cover)?;
            path.up(Depth::Object);
            if exists {
                return Ok(Some(dkey));
            }
            after = Some(dkey);
        }
        Ok(None)
    }

    /// Adds the punch of the dkey itself to the cover of its object.
    pub(crate) fn dkey_cover(&mut self, path: &mut Path, view: &View, object: Stamp) -> Result<Stamp, Error> {
        self.own_cover(path, view, object)
    }

    /// Adds the punch of the akey itself to the cover of its dkey.
    pub(crate) fn akey_cover(&mut self, path: &mut Path, view: &View, dkey: Stamp) -> Result<Stamp, Error> {
        self.own_cover(path, view, dkey)
    }

    fn own_cover(&mut self, path: &mut Path, view: &View, above: Stamp) -> Result<Stamp, Error> {
        let kind = dolmen_codec::version::VersionKind::Punch;
        if !self.index.may_have(path.key.as_bytes(), kind) {
            return Ok(above);
        }
        Ok(self.newest(path, kind, view)?.map_or(above, |punch| punch.stamp.max(above)))
    }

    /// Whether an object has visible data; the path comes back at the object.
    pub(crate) fn object_exists(&mut self, path: &mut Path, view: &View) -> Result<bool, Error> {
        let cover = self.cover(path, Depth::Object, view)?;
        path.up(Depth::Object);
        Ok(self.first_dkey(path, None, view, cover)?.is_some())
    }
}
