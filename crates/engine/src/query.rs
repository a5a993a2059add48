//! Key queries: the largest or smallest dkey, akey or record.
//!
//! The index is walked from the end that is asked for, key by key, until one has what is asked below it.

use crate::conts::View;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::store::Store;
use crate::target::Target;
use crate::tree::key::decode_key;
use dolmen_codec::verb::{Found, Query};
use dolmen_types::{ContNo, Error, Invalid, Key, KeyKind, QueryFlags, Recx, Stamp};

impl Target {
    pub(crate) fn query(&mut self, cont: ContNo, query: &Query) -> Result<Option<Found>, Error> {
        let max = query.flags.has(QueryFlags::MAX);
        if max == query.flags.has(QueryFlags::MIN) {
            return Err(Invalid::Flags.into());
        }
        let view = self.read_view(cont, query.at)?;
        self.txs.refuse_undecided_read(cont, query.oid, None, None, view.at)?;
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut path = self.store.take_path();
        path.object(cont, secret, query.oid)?;
        let hashed = |asked: QueryFlags, kind: KeyKind| query.flags.has(asked) && kind == KeyKind::Hashed;
        if hashed(QueryFlags::DKEY, path.dkey_kind) || hashed(QueryFlags::AKEY, path.akey_kind) {
            return Err(Invalid::Query.into());
        }
        self.reads.raise(Scope::ObjectTree, path.object_hash, view.at);
        self.reads.raise(Scope::ObjectScan, path.object_hash, view.at);
        let mut search = Search { flags: query.flags, max, view, query };
        let found = search.dkeys(&mut self.store, &mut path)?;
        self.store.put_path(path);
        Ok(found)
    }
}

struct Search<'q> {
    flags: QueryFlags,
    max: bool,
    view: View,
    query: &'q Query,
}

impl Search<'_> {
    fn dkeys(&mut self, store: &mut Store, path: &mut Path) -> Result<Option<Found>, Error> {
        let cover = store.cover(path, Depth::Object, &self.view)?;
        if !self.flags.has(QueryFlags::DKEY) {
            path.dkey(&self.query.dkey)?;
            let cover = store.own_cover(path, Depth::Dkey, &self.view, cover)?;
            return self.akeys(store, path, cover, self.query.dkey.clone());
        }
        let kind = path.dkey_kind;
        let mut bound: Option<Key> = None;
        while let Some(encoded) = candidate(store, path, Depth::Dkey, self.max, bound.as_deref())? {
            path.dkey_encoded(&encoded);
            let dkey_cover = store.own_cover(path, Depth::Dkey, &self.view, cover)?;
            let dkey = decode_key(&encoded, kind).ok_or(Invalid::Query)?;
            if let Some(found) = self.akeys(store, path, dkey_cover, dkey)? {
                path.up(Depth::Object);
                return Ok(Some(found));
            }
            path.up(Depth::Object);
            bound = Some(encoded);
        }
        Ok(None)
    }

    fn akeys(
        &mut self,
        store: &mut Store,
        path: &mut Path,
        cover: Stamp,
        dkey: Key,
    ) -> Result<Option<Found>, Error> {
        if !self.flags.has(QueryFlags::AKEY) {
            if !self.flags.has(QueryFlags::RECX) {
                let exists = store.exists(path, Depth::Dkey, &self.view, cover)?;
                return Ok(exists.then(|| Found { dkey, ..Found::default() }));
            }
            path.akey(&self.query.akey)?;
            let cover = store.own_cover(path, Depth::Akey, &self.view, cover)?;
            return self.records(store, path, cover, dkey, self.query.akey.clone());
        }
        let kind = path.akey_kind;
        let mut bound: Option<Key> = None;
        while let Some(encoded) = candidate(store, path, Depth::Akey, self.max, bound.as_deref())? {
            path.akey_encoded(&encoded);
            let akey_cover = store.own_cover(path, Depth::Akey, &self.view, cover)?;
            let akey = decode_key(&encoded, kind).ok_or(Invalid::Query)?;
            let found = if self.flags.has(QueryFlags::RECX) {
                self.records(store, path, akey_cover, dkey.clone(), akey)?
            } else {
                let exists = store.exists(path, Depth::Akey, &self.view, akey_cover)?;
                exists.then(|| Found { dkey: dkey.clone(), akey, ..Found::default() })
            };
            path.up(Depth::Dkey);
            if found.is_some() {
                return Ok(found);
            }
            bound = Some(encoded);
        }
        Ok(None)
    }

    fn records(
        &mut self,
        store: &mut Store,
        path: &mut Path,
        cover: Stamp,
        dkey: Key,
        akey: Key,
    ) -> Result<Option<Found>, Error> {
        let found = if self.max {
            store.last_record(path, &self.view, cover)?
        } else {
            store.first_record(path, 0, &self.view, cover)?
        };
        Ok(found.map(|(record, record_bytes)| Found {
            dkey,
            akey,
            recx: Some(Recx::new(record, 1)),
            record_bytes: u64::from(record_bytes),
        }))
    }
}

/// The next key to look at, smallest or largest first, strictly beyond `bound`.
fn candidate(
    store: &mut Store,
    path: &Path,
    of: Depth,
    max: bool,
    bound: Option<&[u8]>,
) -> Result<Option<Key>, Error> {
    if path.kind(of) == KeyKind::Hashed {
        return Err(Invalid::Query.into());
    }
    if max { store.key_before(path, of, bound) } else { store.next_key(path, of, bound) }
}
