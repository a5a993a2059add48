//! Steps through the levels of the key space, and existence: a key exists if data is visible below it.

use crate::conts::View;
use crate::cursor::{IndexCursor, PlaceRef, RunHashes};
use crate::path::{Depth, Path};
use crate::store::{Store, split_tail};
use crate::tree::key::{
    LEVEL_KEY, LEVEL_RECORD, OBJECT_PREFIX_BYTES, STAMP_BYTES, TAIL_BYTES, encoded_len, push_stamp,
    split_object, strip_prefix, successor,
};
use dolmen_codec::order::HashKey;
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Epoch, Error, Key, KeyKind, Oid, Stamp, TargetNo};

/// Entries that a walk steps over before it seeks behind what it wants to leave: about what a seek costs.
const STEPS_MAX: usize = 8;

/// Goes through the dkeys of an object or the akeys of a dkey and stops at those that have visible data.
///
/// One cursor sees all entries in their order: the punches of a key before what they hide, newer versions before
/// older ones. Only where a hole may hide what was found, the records are looked at one by one.
pub(crate) struct KeyWalk {
    cursor: IndexCursor,
    target: TargetNo,
    /// The level of the keys: `Dkey` or `Akey`.
    of: Depth,
    dkey_kind: KeyKind,
    akey_kind: KeyKind,
    /// Bytes that name the object or dkey above.
    above_bytes: usize,
    /// The newest punch that covers all below it.
    cover: Stamp,
    /// Names the present key and, while a dkey is looked into, one of its akeys.
    prefix: Vec<u8>,
    /// How many bytes of it name the present key; none before the first.
    key_bytes: usize,
    /// Whether something may have been removed below the object; `None` until somebody asks.
    may_have_removal: Option<bool>,
    seek_key: Vec<u8>,
}

impl KeyWalk {
    fn new() -> Self {
        Self {
            cursor: IndexCursor::default(),
            target: TargetNo::default(),
            of: Depth::Dkey,
            dkey_kind: KeyKind::Hashed,
            akey_kind: KeyKind::Hashed,
            above_bytes: 0,
            cover: Stamp::default(),
            prefix: Vec::new(),
            key_bytes: 0,
            may_have_removal: None,
            seek_key: Vec::new(),
        }
    }

    /// Prepares for the keys of one level on the path.
    fn begin(&mut self, target: TargetNo, path: &Path, of: Depth, cover: Stamp) {
        self.target = target;
        self.of = of;
        (self.dkey_kind, self.akey_kind) = (path.dkey_kind, path.akey_kind);
        self.above_bytes = path.up_len(of.above());
        self.cover = cover;
        self.prefix.clear();
        self.prefix.extend_from_slice(&path.key.as_bytes()[..self.above_bytes]);
        self.key_bytes = 0;
        self.may_have_removal = None;
        self.cursor.within(RunHashes::new());
    }

    /// Goes to the next key that exists; `false` at the end.
    pub(crate) fn next(&mut self, store: &mut Store, view: &View) -> Result<bool, Error> {
        if self.key_bytes > 0 {
            self.leave_key(store)?;
        }
        while self.enter()? {
            if self.key_exists(store, view)? {
                return Ok(true);
            }
            self.leave_key(store)?;
        }
        Ok(false)
    }

    /// The present key in its order encoding.
    pub(crate) fn key(&self) -> &[u8] {
        &self.prefix[self.above_bytes + 1..self.key_bytes]
    }

    /// A version of the present key.
    pub(crate) fn place(&self) -> PlaceRef<'_> {
        self.cursor.place()
    }

    /// Makes the key that the cursor stands on the present one; `false` if it has left what is walked.
    fn enter(&mut self) -> Result<bool, Error> {
        let Some(key) = self.cursor.key() else {
            return Ok(false);
        };
        let above = self.above_bytes;
        let below = strip_prefix(key, &self.prefix[..above]);
        if below.and_then(<[u8]>::first) != Some(&LEVEL_KEY) {
            return Ok(false);
        }
        let kind = if self.of == Depth::Dkey { self.dkey_kind } else { self.akey_kind };
        self.key_bytes = self.level_end(key, above, kind)?;
        self.prefix.truncate(above);
        self.prefix.extend_from_slice(&key[above..self.key_bytes]);
        Ok(true)
    }

    /// Where the encoded key ends that `start` and a level byte precede.
    fn level_end(&self, key: &[u8], start: usize, kind: KeyKind) -> Result<usize, Error> {
        let end = key.get(start + 1..).and_then(|rest| encoded_len(rest, kind)).map(|len| start + 1 + len);
        end.filter(|&end| end < key.len()).ok_or_else(|| crate::error::corrupt(self.target, "run", 0, 0))
    }

    fn leave_key(&mut self, store: &mut Store) -> Result<(), Error> {
        self.prefix.truncate(self.key_bytes);
        self.pass(store)
    }

    /// Leaves everything that begins with the prefix behind.
    fn pass(&mut self, store: &mut Store) -> Result<(), Error> {
        let mut steps = 0;
        while self.is_inside() && steps < STEPS_MAX {
            store.advance(&mut self.cursor)?;
            steps += 1;
        }
        if steps < STEPS_MAX || !self.is_inside() {
            return Ok(());
        }
        self.seek_key.clear();
        self.seek_key.extend_from_slice(&self.prefix);
        assert!(successor(&mut self.seek_key), "a level byte is below 255");
        store.reseek(&mut self.cursor, &self.seek_key)
    }

    #[inline]
    fn is_inside(&self) -> bool {
        self.cursor.key().is_some_and(|key| strip_prefix(key, &self.prefix).is_some())
    }

    /// Leaves those of its kind behind that begin with the prefix and `kind`.
    fn pass_kind(&mut self, store: &mut Store, kind: u8) -> Result<(), Error> {
        let len = self.prefix.len();
        self.prefix.push(kind);
        let passed = self.pass(store);
        self.prefix.truncate(len);
        passed
    }

    /// Leaves the versions behind that are newer than `at`, of the value or record that the cursor stands on.
    fn pass_newer(&mut self, store: &mut Store, at: Epoch) -> Result<(), Error> {
        let key = self.cursor.key().expect("it stands on a version");
        self.seek_key.clear();
        self.seek_key.extend_from_slice(&key[..key.len() - STAMP_BYTES]);
        let level = key.len() - TAIL_BYTES;
        for _ in 0..STEPS_MAX {
            store.advance(&mut self.cursor)?;
            match self.cursor.key().filter(|key| key.starts_with(&self.seek_key)) {
                Some(key) if split_tail(self.target, key, level)?.2.epoch > at => {}
                Some(_) | None => return Ok(()),
            }
        }
        push_stamp(&mut self.seek_key, Stamp { epoch: at, minor: u16::MAX });
        store.reseek(&mut self.cursor, &self.seek_key)
    }

    /// Whether the present key has visible data; if so, the cursor stands on some.
    ///
    /// REQUIRES: the cursor stands on its first entry.
    fn key_exists(&mut self, store: &mut Store, view: &View) -> Result<bool, Error> {
        if self.of == Depth::Akey {
            return self.akey_exists(store, view, self.cover);
        }
        let mut cover = self.cover;
        loop {
            self.prefix.truncate(self.key_bytes);
            let Some(key) = self.cursor.key().filter(|key| strip_prefix(key, &self.prefix).is_some()) else {
                return Ok(false);
            };
            if key.get(self.key_bytes) == Some(&LEVEL_RECORD) {
                let (_, _, punched) = split_tail(self.target, key, self.key_bytes + 1)?;
                if punched.epoch > view.at {
                    self.pass_newer(store, view.at)?;
                } else if view.sees(punched.epoch) {
                    cover = cover.max(punched);
                    self.pass_kind(store, LEVEL_RECORD)?;
                } else {
                    store.advance(&mut self.cursor)?;
                }
                continue;
            }
            let end = self.level_end(key, self.key_bytes, self.akey_kind)?;
            self.prefix.extend_from_slice(&key[self.key_bytes..end]);
            if self.akey_exists(store, view, cover)? {
                return Ok(true);
            }
            self.pass(store)?;
        }
    }

    /// Whether the akey that the prefix names has visible data; if so, the cursor stands on some.
    ///
    /// REQUIRES: the cursor stands on its first entry; `cover` covers its dkey.
    fn akey_exists(&mut self, store: &mut Store, view: &View, mut cover: Stamp) -> Result<bool, Error> {
        while let Some(key) = self.cursor.key().filter(|key| strip_prefix(key, &self.prefix).is_some()) {
            let (kind, _, stamp) = split_tail(self.target, key, self.prefix.len())?;
            if stamp.epoch > view.at {
                self.pass_newer(store, view.at)?;
                continue;
            }
            if !view.sees(stamp.epoch) {
                store.advance(&mut self.cursor)?;
                continue;
            }
            let is_data = kind != VersionKind::Punch && stamp > cover && self.is_data(store)?;
            match kind {
                VersionKind::Single if is_data => return Ok(true),
                VersionKind::Punch | VersionKind::Single => {
                    if kind == VersionKind::Punch {
                        cover = cover.max(stamp);
                    }
                    // The newest one decides.
                    self.pass_kind(store, kind as u8)?;
                }
                _ if is_data => return self.array_exists(store, view, cover),
                _ => store.advance(&mut self.cursor)?,
            }
        }
        Ok(false)
    }

    /// Whether the version here has data; the version itself is only looked at where something was removed.
    fn is_data(&mut self, store: &Store) -> Result<bool, Error> {
        Ok(!self.may_have_removal(store) || store.index.version(&store.log, self.cursor.place())?.0.is_data())
    }

    #[inline]
    fn may_have_removal(&mut self, store: &Store) -> bool {
        let object = &self.prefix[..OBJECT_PREFIX_BYTES];
        *self.may_have_removal.get_or_insert_with(|| store.index.may_have_removal(object))
    }

    /// Whether some record of the akey is visible, given that there is visible data; holes may hide all of it.
    fn array_exists(&mut self, store: &mut Store, view: &View, cover: Stamp) -> Result<bool, Error> {
        if !self.may_have_removal(store) || !store.index.may_have_removal(&self.prefix) {
            return Ok(true);
        }
        let damaged = || crate::error::corrupt(self.target, "run", 0, 0);
        let (cont, oid) = split_object(&self.prefix).ok_or_else(damaged)?;
        let dkey_end = self.level_end(&self.prefix, OBJECT_PREFIX_BYTES, self.dkey_kind)?;
        let mut path = Path::default();
        path.object(cont, HashKey::default(), oid)?;
        path.dkey_encoded(&self.prefix[OBJECT_PREFIX_BYTES + 1..dkey_end]);
        path.akey_encoded(&self.prefix[dkey_end + 1..]);
        Ok(store.first_record(&mut path, 0, view, cover)?.is_some())
    }
}

impl Store {
    /// Begins a walk over the keys of a level, behind the order encoding `after`; `end_walk` ends it.
    ///
    /// REQUIRES: the path reaches the level above, which `cover` covers.
    pub(crate) fn walk_keys(
        &mut self,
        path: &Path,
        of: Depth,
        after: Option<&[u8]>,
        cover: Stamp,
    ) -> Result<KeyWalk, Error> {
        let mut walk = self.spare_walk.take().unwrap_or_else(KeyWalk::new);
        walk.begin(self.target, path, of, cover);
        walk.seek_key.clear();
        walk.seek_key.extend_from_slice(&walk.prefix);
        begin_behind(&mut walk.seek_key, after);
        self.reseek(&mut walk.cursor, &walk.seek_key)?;
        Ok(walk)
    }

    /// Gives a walk back, so that its buffers are not allocated anew.
    pub(crate) fn end_walk(&mut self, walk: KeyWalk) {
        self.spare_walk = Some(walk);
    }

    /// Whether the object, dkey or akey of the path has visible data.
    ///
    /// REQUIRES: the path reaches `depth`; `cover` covers what is above it, of an object the object itself.
    pub(crate) fn exists(
        &mut self,
        path: &Path,
        depth: Depth,
        view: &View,
        cover: Stamp,
    ) -> Result<bool, Error> {
        if depth == Depth::Object {
            let mut walk = self.walk_keys(path, Depth::Dkey, None, cover)?;
            let found = walk.next(self, view);
            self.end_walk(walk);
            return found;
        }
        let mut walk = self.spare_walk.take().unwrap_or_else(KeyWalk::new);
        walk.begin(self.target, path, depth, cover);
        let name = &path.key.as_bytes()[..path.up_len(depth)];
        if depth == Depth::Akey {
            walk.cursor.within(self.index.hashes_of_all(name));
        }
        self.reseek(&mut walk.cursor, name)?;
        let found = walk.enter()? && walk.prefix == name && walk.key_exists(self, view)?;
        self.end_walk(walk);
        Ok(found)
    }

    /// The order encoding of the first key of a level that has any entry, visible or not, behind `after`.
    ///
    /// REQUIRES: the path reaches the level above.
    pub(crate) fn next_key(
        &mut self,
        path: &Path,
        of: Depth,
        after: Option<&[u8]>,
    ) -> Result<Option<Key>, Error> {
        let mut walk = self.walk_keys(path, of, after, Stamp::default())?;
        let found = walk.enter()?.then(|| Key::from_slice(walk.key()));
        self.end_walk(walk);
        Ok(found)
    }

    /// As `next_key`, downwards: the last key before `before`, or of all.
    pub(crate) fn key_before(
        &mut self,
        path: &Path,
        of: Depth,
        before: Option<&[u8]>,
    ) -> Result<Option<Key>, Error> {
        let mut walk = self.spare_walk.take().unwrap_or_else(KeyWalk::new);
        walk.begin(self.target, path, of, Stamp::default());
        walk.seek_key.clear();
        walk.seek_key.extend_from_slice(&walk.prefix);
        match before {
            Some(before) => {
                walk.seek_key.push(LEVEL_KEY);
                walk.seek_key.extend_from_slice(before);
            }
            None => walk.seek_key.push(LEVEL_KEY + 1),
        }
        self.seek_below(&mut walk.cursor, &walk.seek_key)?;
        let found = walk.enter()?.then(|| Key::from_slice(walk.key()));
        self.end_walk(walk);
        Ok(found)
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
        let mut cursor = self.take_cursor();
        self.reseek(&mut cursor, &from)?;
        let found = cursor.key().and_then(split_object).filter(|(found, _)| *found == cont);
        self.put_cursor(cursor);
        Ok(found.map(|(_, oid)| oid))
    }

    /// The newest punch that covers the path at `depth`, given the one that covers what is above.
    pub(crate) fn own_cover(
        &mut self,
        path: &mut Path,
        depth: Depth,
        view: &View,
        above: Stamp,
    ) -> Result<Stamp, Error> {
        if !self.index.may_have(path.key.as_bytes(), VersionKind::Punch) {
            return Ok(above);
        }
        let Some(punch) = self.newest(path, VersionKind::Punch, view)? else {
            return Ok(above);
        };
        path.refuse_collision(depth, &self.version(&punch.place)?)?;
        Ok(punch.stamp.max(above))
    }
}

/// Makes the name of an object or dkey the place of the first key below it, or behind an order-encoded one.
fn begin_behind(key: &mut Vec<u8>, after: Option<&[u8]>) {
    key.push(LEVEL_KEY);
    if let Some(after) = after {
        key.extend_from_slice(after);
        assert!(successor(key), "a level byte is below 255");
    }
}
