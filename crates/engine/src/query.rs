//! Key queries: the largest or smallest dkey, akey or record.
//!
//! The index is walked forwards only; the largest integer key is found by galloping: doubling steps until
//! nothing follows, then halving them.

use crate::conts::View;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::store::{Store, resolve};
use crate::target::Target;
use crate::tree::key::{TAIL_BYTES, decode_key};
use dolmen_codec::order;
use dolmen_codec::verb::{Found, Query};
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Epoch, Error, Invalid, Key, KeyKind, QueryFlags, Recx, Stamp, limits};

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
            let cover = store.dkey_cover(path, &self.view, cover)?;
            return self.akeys(store, path, cover, self.query.dkey.clone());
        }
        let kind = path.dkey_kind;
        let mut bound = None;
        while let Some(encoded) = candidate(store, path, Depth::Object, kind, self.max, bound.as_deref())? {
            path.dkey_encoded(&encoded);
            let dkey_cover = store.dkey_cover(path, &self.view, cover)?;
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
                let exists = store.dkey_exists(path, &self.view, cover)?;
                return Ok(exists.then(|| Found { dkey, ..Found::default() }));
            }
            path.akey(&self.query.akey)?;
            let cover = store.akey_cover(path, &self.view, cover)?;
            return self.records(store, path, cover, dkey, self.query.akey.clone());
        }
        let kind = path.akey_kind;
        let mut bound = None;
        while let Some(encoded) = candidate(store, path, Depth::Dkey, kind, self.max, bound.as_deref())? {
            path.akey_encoded(&encoded);
            let akey_cover = store.akey_cover(path, &self.view, cover)?;
            let akey = decode_key(&encoded, kind).ok_or(Invalid::Query)?;
            let found = if self.flags.has(QueryFlags::RECX) {
                self.records(store, path, akey_cover, dkey.clone(), akey)?
            } else {
                let exists = store.akey_exists(path, &self.view, akey_cover)?;
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
    path: &mut Path,
    above: Depth,
    kind: KeyKind,
    max: bool,
    bound: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    match (kind, max) {
        (KeyKind::Hashed, _) => Err(Invalid::Query.into()),
        (_, false) => next_key(store, path, above, bound),
        (KeyKind::Uint64, true) => largest_integer(store, path, above, bound),
        (KeyKind::Lexical, true) => largest_string(store, path, above, bound),
    }
}

fn next_key(
    store: &mut Store,
    path: &mut Path,
    above: Depth,
    after: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    match above {
        Depth::Object => store.next_dkey(path, after),
        Depth::Dkey | Depth::Akey => store.next_akey(path, after),
    }
}

fn encode(number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(8);
    order::push_key(&mut out, KeyKind::Uint64, order::HashKey::default(), &number.to_le_bytes());
    out
}

fn number(encoded: &[u8]) -> u64 {
    decode_key(encoded, KeyKind::Uint64).map_or(0, |key| order::key_number(&key))
}

/// The largest integer key with any entry, below `bound`.
fn largest_integer(
    store: &mut Store,
    path: &mut Path,
    above: Depth,
    bound: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    let limit = bound.map_or(u64::MAX, |bound| number(bound).saturating_sub(1));
    if bound.is_some_and(|bound| number(bound) == 0) {
        return Ok(None);
    }
    let Some(first) = next_key(store, path, above, None)? else {
        return Ok(None);
    };
    let mut best = number(&first);
    if best > limit {
        return Ok(None);
    }
    let mut step = 1u64;
    loop {
        let from = best.saturating_add(step - 1);
        let next = if from < limit { next_key(store, path, above, Some(&encode(from)))? } else { None };
        match next.map(|encoded| number(&encoded)).filter(|&found| found <= limit) {
            Some(found) => {
                best = found;
                step = step.saturating_mul(2);
            }
            None if step == 1 => return Ok(Some(encode(best))),
            None => step /= 2,
        }
    }
}

/// The largest string key with any entry, below `bound`: strings cannot be halved, so all are walked.
fn largest_string(
    store: &mut Store,
    path: &mut Path,
    above: Depth,
    bound: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut best = None;
    while let Some(next) = next_key(store, path, above, best.as_deref())? {
        if bound.is_some_and(|bound| next[..] >= *bound) {
            break;
        }
        best = Some(next);
    }
    Ok(best)
}

impl Store {
    /// The last visible record, with the size of its records.
    ///
    /// REQUIRES: the path is at the akey.
    pub(crate) fn last_record(
        &mut self,
        path: &mut Path,
        view: &View,
        cover: Stamp,
    ) -> Result<Option<(u64, u32)>, Error> {
        let mut end = self.extents_end(path, u64::MAX)?;
        let (mut extents, mut pieces) = (Vec::new(), Vec::new());
        let mut width = 1;
        while end > 0 {
            let window = (end - 1) / limits::WINDOW_RECORDS * limits::WINDOW_RECORDS;
            let start = end.saturating_sub(width).max(window);
            self.extents(path, (start, end), view, cover, &mut extents)?;
            resolve(&mut extents, (start, end), &mut pieces);
            if let Some(piece) = pieces.last() {
                return Ok(Some((piece.end - 1, extents[piece.extent].record_bytes)));
            }
            width = limits::WINDOW_RECORDS;
            end = if start == window { self.extents_end(path, start)? } else { start };
        }
        Ok(None)
    }

    /// One past the last record that any data version covers below `limit`, visible or not.
    fn extents_end(&mut self, path: &mut Path, limit: u64) -> Result<u64, Error> {
        let akey = path.key.mark();
        let mut end = 0;
        for kind in VersionKind::ARRAYS {
            if kind != VersionKind::LongHole && self.index.may_have(path.key.as_bytes(), kind) {
                let last = self.last_start(path, kind, limit);
                path.key.rewind(akey);
                if let Some(start) = last? {
                    end =
                        end.max(start.saturating_add(kind.records_max().expect("an array kind")).min(limit));
                }
            }
        }
        Ok(end)
    }

    /// The largest start of an extent of one kind below `limit`.
    fn last_start(&mut self, path: &mut Path, kind: VersionKind, limit: u64) -> Result<Option<u64>, Error> {
        let Some(mut best) = self.start_at_or_after(path, kind, 0)?.filter(|&start| start < limit) else {
            return Ok(None);
        };
        let mut step = 1u64;
        loop {
            let from = best.saturating_add(step);
            let next = if from < limit { self.start_at_or_after(path, kind, from)? } else { None };
            match next.filter(|&start| start < limit) {
                Some(start) => {
                    best = start;
                    step = step.saturating_mul(2);
                }
                None if step == 1 => return Ok(Some(best)),
                None => step /= 2,
            }
        }
    }

    fn start_at_or_after(
        &mut self,
        path: &mut Path,
        kind: VersionKind,
        from: u64,
    ) -> Result<Option<u64>, Error> {
        let akey = path.key.mark();
        path.key.tail(kind, from, Stamp { epoch: Epoch::MAX, minor: u16::MAX });
        let cursor = self.seek(path.key.as_bytes());
        let prefix_bytes = path.key.as_bytes().len() - TAIL_BYTES + 1;
        let cursor = cursor?;
        let below = |key: &&[u8]| key.starts_with(&path.key.as_bytes()[..prefix_bytes]);
        let found = match cursor.key().filter(below) {
            Some(key) => Some(crate::store::split_tail(self.target, key)?.1),
            None => None,
        };
        path.key.rewind(akey);
        Ok(found)
    }
}
