//! Enumerations: objects, dkeys, akeys, extents and changes, resumable from an anchor.

use crate::batch::{BATCH_KEYS, Batch};
use crate::conts::View;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::store::resolve;
use crate::target::Target;
use crate::walk::KeyWalk;
use dolmen_codec::order;
use dolmen_codec::verb::{List, ListWhat, Listed, ListedExtent, PackedKeys};
use dolmen_types::{Anchor, AnchorState, ContNo, Error, Invalid, Key, KeyKind, Oid, Recx, Stamp, limits};

impl Target {
    pub(crate) fn list(&mut self, cont: ContNo, list: &List) -> Result<(Listed, Anchor), Error> {
        if list.items_max == 0 {
            return Err(Invalid::Count.into());
        }
        match &list.what {
            ListWhat::Objects => self.list_objects(cont, list),
            ListWhat::Dkeys(oid) => self.list_keys(cont, *oid, None, list),
            ListWhat::Akeys(oid, dkey) => self.list_keys(cont, *oid, Some(dkey), list),
            ListWhat::Extents(oid, dkey, akey) => self.list_extents(cont, *oid, dkey, akey, list),
            ListWhat::Changes { from, to } => self.list_changes(cont, *from, *to, list),
        }
    }

    pub(crate) fn list_path(&mut self, cont: ContNo, oid: Oid) -> Result<Box<Path>, Error> {
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut path = self.store.take_path();
        path.object(cont, secret, oid)?;
        Ok(path)
    }

    fn list_objects(&mut self, cont: ContNo, list: &List) -> Result<(Listed, Anchor), Error> {
        let view = self.read_view(cont, list.at)?;
        self.txs.refuse_undecided_list(cont, view.at)?;
        let mut after = match resume(&list.anchor)? {
            Resume::Start => None,
            Resume::Eof => return Ok((Listed::Objects(Vec::new()), Anchor::eof())),
            Resume::After(bytes) => Some(Oid::from_bytes(bytes.try_into().or(Err(Invalid::Anchor))?)),
        };
        let mut path = self.store.take_path();
        let mut found = Vec::new();
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut anchor = Anchor::eof();
        while let Some(oid) = self.store.next_object(cont, after)? {
            path.object(cont, secret, oid)?;
            let cover = self.store.cover(&mut path, Depth::Object, &view)?;
            if self.store.exists(&path, Depth::Object, &view, cover)? {
                found.push(oid);
            }
            after = Some(oid);
            if found.len() >= list.items_max as usize {
                anchor = after_bytes(&oid.to_bytes(), list);
                break;
            }
        }
        path.object(cont, secret, Oid::default())?;
        self.reads.raise(Scope::ObjectList, path.cont_hash, view.at);
        self.store.put_path(path);
        Ok((Listed::Objects(found), anchor))
    }

    /// Dkeys of an object, or akeys of one of its dkeys.
    fn list_keys(
        &mut self,
        cont: ContNo,
        oid: Oid,
        dkey: Option<&Key>,
        list: &List,
    ) -> Result<(Listed, Anchor), Error> {
        let view = self.read_view(cont, list.at)?;
        self.txs.refuse_undecided_read(cont, oid, dkey.map(|dkey| &dkey[..]), None, view.at)?;
        let mut path = self.list_path(cont, oid)?;
        let of = match dkey {
            None => {
                self.reads.raise(Scope::DkeyList, path.object_hash, view.at);
                Depth::Dkey
            }
            Some(dkey) => {
                path.dkey(dkey)?;
                self.reads.raise(Scope::AkeyList, path.dkey_hash, view.at);
                self.reads.raise(Scope::DkeyTree, path.dkey_hash, view.at);
                Depth::Akey
            }
        };
        self.reads.raise(Scope::ObjectTree, path.object_hash, view.at);
        let after = match key_resume(&list.anchor, path.kind(of))? {
            None => return Ok((Listed::Keys(PackedKeys::default()), Anchor::eof())),
            Some(after) => after,
        };
        let cover = self.store.cover(&mut path, of.above(), &view)?;
        let mut walk = self.store.walk_keys(&path, of, after.as_deref(), cover)?;
        let (keys, anchor) = self.collect_keys(&mut walk, (of, path.kind(of)), &view, list)?;
        self.store.end_walk(walk);
        self.store.put_path(path);
        Ok((Listed::Keys(keys), anchor))
    }

    /// Collects the keys that a walk finds, up to the limits of the listing.
    fn collect_keys(
        &mut self,
        walk: &mut KeyWalk,
        (of, kind): (Depth, KeyKind),
        view: &View,
        list: &List,
    ) -> Result<(PackedKeys, Anchor), Error> {
        let (items_max, bytes_max) = (list.items_max as usize, list.bytes_max as usize);
        let mut keys = PackedKeys::default();
        let mut last = Vec::new();
        let mut batch = Batch::new(of, kind);
        loop {
            let wanted = BATCH_KEYS.min(items_max - keys.len());
            batch.fill(&mut self.store, walk, view, wanted)?;
            let fitted = batch.unpack(&self.store, &mut keys, bytes_max)?;
            if let Some(index) = fitted.checked_sub(1) {
                last.clear();
                last.extend_from_slice(batch.encoded(index));
            }
            if fitted == batch.len() && batch.len() < wanted {
                return Ok((keys, Anchor::eof()));
            }
            if fitted < batch.len() || keys.len() >= items_max {
                return Ok((keys, anchor_of(&last, kind, list)?));
            }
        }
    }

    fn list_extents(
        &mut self,
        cont: ContNo,
        oid: Oid,
        dkey: &Key,
        akey: &Key,
        list: &List,
    ) -> Result<(Listed, Anchor), Error> {
        let view = self.read_view(cont, list.at)?;
        self.txs.refuse_undecided_read(cont, oid, Some(dkey), None, view.at)?;
        let mut path = self.list_path(cont, oid)?;
        path.dkey(dkey)?;
        path.akey(akey)?;
        self.reads.raise(Scope::Akey, path.akey_hash, view.at);
        self.reads.raise(Scope::DkeyTree, path.dkey_hash, view.at);
        self.reads.raise(Scope::ObjectTree, path.object_hash, view.at);
        let cover = self.store.cover(&mut path, Depth::Akey, &view)?;
        let mut found = Vec::new();
        let start = match resume(&list.anchor)? {
            Resume::Eof => return Ok((Listed::Extents(found), Anchor::eof())),
            Resume::After(bytes) => u64::from_le_bytes(bytes.try_into().or(Err(Invalid::Anchor))?),
            Resume::Start => {
                if let Some(entry) = self.store.single(&mut path, &view, cover)? {
                    let record_bytes = self.store.stored(&entry.place)?.len() as u64;
                    let recx = Recx::new(0, 1);
                    found.push(ListedExtent { recx, record_bytes, epoch: entry.stamp.epoch, single: true });
                }
                0
            }
        };
        let anchor = self.collect_extents(&mut path, start, &view, cover, list, &mut found)?;
        self.store.put_path(path);
        Ok((Listed::Extents(found), anchor))
    }

    fn collect_extents(
        &mut self,
        path: &mut Path,
        start: u64,
        view: &View,
        cover: Stamp,
        list: &List,
        found: &mut Vec<ListedExtent>,
    ) -> Result<Anchor, Error> {
        let (mut extents, mut pieces) = (Vec::new(), Vec::new());
        let mut at = start;
        while let Some((first, _)) = self.store.first_record(path, at, view, cover)? {
            let window_end = (first / limits::WINDOW_RECORDS + 1).saturating_mul(limits::WINDOW_RECORDS);
            self.store.extents(path, (first, window_end), view, cover, &mut extents)?;
            resolve(&mut extents, (first, window_end), &mut pieces);
            for piece in &pieces {
                if found.len() >= list.items_max as usize {
                    return Ok(after_bytes(&piece.start.to_le_bytes(), list));
                }
                let extent = &extents[piece.extent];
                found.push(ListedExtent {
                    recx: Recx::new(piece.start, piece.end - piece.start),
                    record_bytes: u64::from(extent.record_bytes),
                    epoch: extent.stamp.epoch,
                    single: false,
                });
            }
            if window_end <= at {
                break;
            }
            at = window_end;
        }
        Ok(Anchor::eof())
    }
}

/// Where an enumeration goes on.
pub(crate) enum Resume<'a> {
    Start,
    Eof,
    After(&'a [u8]),
}

pub(crate) fn resume(anchor: &Anchor) -> Result<Resume<'_>, Error> {
    match anchor.state() {
        AnchorState::Start => Ok(Resume::Start),
        AnchorState::Eof => Ok(Resume::Eof),
        AnchorState::After if anchor.position().is_empty() => Err(Invalid::Anchor.into()),
        AnchorState::After => Ok(Resume::After(anchor.position())),
    }
}

/// The order-encoded key to resume behind; `Some(None)` at the start, `None` at the end.
fn key_resume(anchor: &Anchor, kind: KeyKind) -> Result<Option<Option<Vec<u8>>>, Error> {
    match resume(anchor)? {
        Resume::Start => Ok(Some(None)),
        Resume::Eof => Ok(None),
        Resume::After(position) => Ok(Some(Some(encode_position(position, kind)?))),
    }
}

/// Anchors hold lexical keys raw, since escaped ones may be too long, and the others order-encoded.
pub(crate) fn encode_position(position: &[u8], kind: KeyKind) -> Result<Vec<u8>, Error> {
    match kind {
        KeyKind::Hashed if position.len() == 16 => Ok(position.to_vec()),
        KeyKind::Uint64 if position.len() == 8 => Ok(position.to_vec()),
        KeyKind::Lexical if !position.is_empty() && position.len() <= limits::LEXICAL_KEY_BYTES_MAX => {
            let mut encoded = Vec::new();
            order::push_key(&mut encoded, kind, order::HashKey::default(), position);
            Ok(encoded)
        }
        _ => Err(Invalid::Anchor.into()),
    }
}

pub(crate) fn decode_position(encoded: &[u8], kind: KeyKind) -> Vec<u8> {
    match kind {
        KeyKind::Hashed | KeyKind::Uint64 => encoded.to_vec(),
        KeyKind::Lexical => {
            crate::tree::key::decode_key(encoded, kind).expect("the index holds whole encodings").to_vec()
        }
    }
}

fn anchor_of(encoded: &[u8], kind: KeyKind, list: &List) -> Result<Anchor, Error> {
    Ok(after_bytes(&decode_position(encoded, kind), list))
}

pub(crate) fn after_bytes(position: &[u8], list: &List) -> Anchor {
    let mut anchor = Anchor::after(position).expect("positions are limited to fit");
    anchor.shard = list.anchor.shard;
    anchor
}
