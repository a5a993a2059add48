//! What differs between two epochs of a container.
//!
//! Only below dkeys that were written to between the two, or whose object was punched, anything can differ: entries of
//! that time lead there, and runs that are older or younger are not read. Where a container was rolled back, an
//! older version may be visible again without any new entry, and all dkeys are compared.

use crate::conts::View;
use crate::error::corrupt;
use crate::list::{Resume, after_bytes, decode_position, encode_position, resume};
use crate::path::{Depth, Path};
use crate::store::{Extent, Store, resolve};
use crate::target::Target;
use crate::tree::key::{FlatKey, LEVEL_KEY, split_typed, successor};
use dolmen_codec::verb::{Change, ChangeKind, List, Listed, ReadAt};
use dolmen_codec::version::VersionKind;
use dolmen_types::{Anchor, ContNo, Epoch, Error, Invalid, Key, Oid, Stamp};

/// Dkeys that one call compares at most, and entries that it passes over for each on average, so that a call is
/// bounded also when nothing changed.
const DKEYS_MAX: usize = 4096;
const ENTRIES_MAX: usize = 16 * DKEYS_MAX;

/// Entries of these epochs, the first left out.
pub(crate) type Window = (Epoch, Epoch);

/// Where the enumeration of one call is.
struct Differ {
    cont: ContNo,
    /// Nothing differs without an entry of this time; `None` if it may.
    window: Option<Window>,
    /// Everything before this key was compared.
    at: Vec<u8>,
    /// The object that was met last.
    met: Option<Oid>,
    /// It is one of which all dkeys are to be compared.
    is_whole: bool,
    entries_left: usize,
}

impl Target {
    pub(crate) fn list_changes(
        &mut self,
        cont: ContNo,
        from: Epoch,
        to: Epoch,
        list: &List,
    ) -> Result<(Listed, Anchor), Error> {
        if from > to {
            return Err(Invalid::Epoch.into());
        }
        let old = self.read_view(cont, ReadAt::Epoch(from))?;
        let new = self.read_view(cont, ReadAt::Epoch(to))?;
        self.txs.refuse_undecided_list(cont, to)?;
        let mut changes = Vec::new();
        let mut differ = Differ {
            cont,
            window: (old.is_plain() && new.is_plain()).then_some((from, to)),
            at: Vec::new(),
            met: None,
            is_whole: false,
            entries_left: ENTRIES_MAX,
        };
        match resume(&list.anchor)? {
            Resume::Eof => return Ok((Listed::Changes(changes), Anchor::eof())),
            Resume::Start => differ.at.extend_from_slice(FlatKey::default().container(cont).as_bytes()),
            Resume::After(position) => self.go_behind(&mut differ, position)?,
        }
        let mut looked_at = 0;
        while let Some((oid, dkey)) = self.next_to_compare(&mut differ)? {
            let Some(dkey) = dkey else {
                return Ok((Listed::Changes(changes), after_bytes(&oid.to_bytes(), list)));
            };
            let mut path = self.list_path(cont, oid)?;
            path.dkey_encoded(&dkey);
            self.dkey_changes(&mut path, &old, &new, &mut changes)?;
            let kind = path.dkey_kind;
            self.store.put_path(path);
            looked_at += 1;
            let is_full = changes.len() >= list.items_max as usize;
            if is_full || looked_at >= DKEYS_MAX || differ.entries_left == 0 {
                let mut position = oid.to_bytes().to_vec();
                position.extend_from_slice(&decode_position(&dkey, kind));
                return Ok((Listed::Changes(changes), after_bytes(&position, list)));
            }
        }
        Ok((Listed::Changes(changes), Anchor::eof()))
    }

    /// Goes on behind the dkey of an anchor, or behind the records of an object itself.
    fn go_behind(&mut self, differ: &mut Differ, position: &[u8]) -> Result<(), Error> {
        let (oid, dkey) = position.split_first_chunk().ok_or(Invalid::Anchor)?;
        let oid = Oid::from_bytes(*oid);
        if dkey.is_empty() {
            self.meet(differ, oid)?;
            differ.pass_records(oid);
            return Ok(());
        }
        let path = self.list_path(differ.cont, oid)?;
        let encoded = encode_position(dkey, path.dkey_kind)?;
        self.store.put_path(path);
        self.meet(differ, oid)?;
        differ.pass(oid, &encoded);
        Ok(())
    }

    /// The next dkey below which something may differ, with its object; it is passed then. An object without a dkey
    /// says that the call has done enough and the next one goes on with the object's dkeys.
    fn next_to_compare(&mut self, differ: &mut Differ) -> Result<Option<(Oid, Option<Key>)>, Error> {
        loop {
            let Some((oid, dkey)) = self.store.next_written(differ)? else {
                // Behind an object that was compared as a whole there may be more.
                if core::mem::take(&mut differ.is_whole) {
                    continue;
                }
                return Ok(None);
            };
            if differ.met != Some(oid) {
                if core::mem::take(&mut differ.is_whole) {
                    // What was found behind the last object may be of any time.
                    continue;
                }
                self.meet(differ, oid)?;
                if differ.is_whole {
                    differ.go_to(oid);
                    continue;
                }
            }
            if let Some(dkey) = &dkey {
                differ.pass(oid, dkey);
            } else {
                differ.pass_records(oid);
            }
            if dkey.is_some() || differ.entries_left == 0 {
                return Ok(Some((oid, dkey)));
            }
            differ.entries_left -= 1;
        }
    }

    /// Comes to an object: if it was punched in the time that counts, anything may be gone.
    fn meet(&mut self, differ: &mut Differ, oid: Oid) -> Result<(), Error> {
        differ.met = Some(oid);
        differ.is_whole = false;
        if let Some((from, to)) = differ.window {
            let view = self.conts.find(differ.cont)?.view(to);
            let mut path = self.list_path(differ.cont, oid)?;
            let punch = self.store.newest(&mut path, VersionKind::Punch, &view)?;
            self.store.put_path(path);
            differ.is_whole = punch.is_some_and(|punch| punch.stamp.epoch > from);
        }
        Ok(())
    }

    /// Appends what differs below one dkey between two views.
    fn dkey_changes(
        &mut self,
        path: &mut Path,
        old: &View,
        new: &View,
        changes: &mut Vec<Change>,
    ) -> Result<(), Error> {
        let mut akey: Option<Key> = None;
        while let Some(next) = self.store.next_key(path, Depth::Akey, akey.as_deref())? {
            path.akey_encoded(&next);
            let before = self.visible_stamps(path, old)?;
            let after = self.visible_stamps(path, new)?;
            let kind = match (before.is_empty(), after.is_empty()) {
                (true, false) => Some(ChangeKind::Added),
                (false, true) => Some(ChangeKind::Removed),
                _ => (before != after).then_some(ChangeKind::Modified),
            };
            if let Some(kind) = kind {
                let (dkey, akey) = self.raw_keys(path)?;
                changes.push(Change { oid: path.oid, dkey, akey, kind });
            }
            path.up(Depth::Dkey);
            akey = Some(next);
        }
        Ok(())
    }

    /// The raw dkey and akey of a path, which any version below it has.
    fn raw_keys(&mut self, path: &Path) -> Result<(Key, Key), Error> {
        let mut cursor = self.store.take_cursor();
        self.store.reseek(&mut cursor, path.key.as_bytes())?;
        if cursor.key().is_none() {
            return Err(crate::error::corrupt(self.config.target, "run", 0, 0));
        }
        let (version, _) = self.store.index.version(&self.store.log, cursor.place())?;
        let keys = (Key::from_slice(version.dkey), Key::from_slice(version.akey));
        self.store.put_cursor(cursor);
        Ok(keys)
    }

    /// Which versions make up an akey's visible value: the single value's stamp, and each piece with its stamp.
    fn visible_stamps(&mut self, path: &mut Path, view: &View) -> Result<Vec<(u64, u64, Stamp)>, Error> {
        let cover = self.store.cover(path, Depth::Akey, view)?;
        path.up(Depth::Akey);
        let mut stamps = Vec::new();
        if let Some(entry) = self.store.single(path, view, cover)? {
            stamps.push((u64::MAX, 0, entry.stamp));
        }
        let mut extents: Vec<Extent> = Vec::new();
        let mut pieces = Vec::new();
        self.store.extents(path, (0, u64::MAX), view, cover, &mut extents)?;
        resolve(&mut extents, (0, u64::MAX), &mut pieces);
        for piece in &pieces {
            let stamp = extents[piece.extent].stamp;
            match stamps.last_mut() {
                Some(last) if last.1 == piece.start && last.2 == stamp && last.0 != u64::MAX => {
                    last.1 = piece.end
                }
                _ => stamps.push((piece.start, piece.end, stamp)),
            }
        }
        Ok(stamps)
    }
}

impl Differ {
    /// Goes to the records of an object itself.
    fn go_to(&mut self, oid: Oid) {
        self.at.clear();
        self.at.extend_from_slice(FlatKey::default().object(self.cont, oid).as_bytes());
    }

    /// The records of the object itself were looked at.
    fn pass_records(&mut self, oid: Oid) {
        self.go_to(oid);
        self.at.push(LEVEL_KEY);
    }

    /// Everything up to this dkey was compared.
    fn pass(&mut self, oid: Oid, dkey: &[u8]) {
        self.pass_records(oid);
        self.at.extend_from_slice(dkey);
        let has_more = successor(&mut self.at);
        debug_assert!(has_more, "the container's number is below the largest");
    }
}

impl Store {
    /// The first object and dkey at or behind `differ.at` with an entry of the time that counts. Without a dkey it is
    /// an entry of the object itself. When no entries are left to be passed over, the next one counts as such.
    fn next_written(&mut self, differ: &mut Differ) -> Result<Option<(Oid, Option<Key>)>, Error> {
        let window = differ.window.filter(|_| !differ.is_whole);
        let mut cursor = self.take_cursor();
        cursor.during(window);
        self.reseek(&mut cursor, &differ.at)?;
        let mut found = None;
        while let Some(key) = cursor.key() {
            let parts = split_typed(key).ok_or_else(|| corrupt(self.target, "run", 0, 0))?;
            if parts.cont != differ.cont {
                break;
            }
            let epoch = parts.stamp.epoch;
            let is_written = window.is_none_or(|(from, to)| epoch > from && epoch <= to);
            if is_written || differ.entries_left == 0 {
                found = Some((parts.oid, parts.dkey.map(Key::from_slice)));
                break;
            }
            differ.entries_left = differ.entries_left.saturating_sub(1);
            self.advance(&mut cursor)?;
        }
        self.put_cursor(cursor);
        Ok(found)
    }
}
