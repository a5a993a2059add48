//! Reads of a transaction: what the targets hold at its epoch, under what it has buffered.
//!
//! Every function takes the transaction's lock only to copy what it needs, and asks without it.

use super::Tx;
use super::overlay::{AkeyLayer, Slice};
use crate::at::At;
use crate::listing;
use crate::object::{Fetched, Object, Page};
use dolmen_codec::order::{HashKey, check_key, push_key};
use dolmen_codec::verb::{
    FetchIod, FetchedIod, Found, ListedExtent, PackedKeys, PunchScope, ReadAt, UpdateIod, Want,
};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{Anchor, Cond, Error, Invalid, IoBuf, Key, KeyKind, QueryFlags, Recx, Result};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// A key that every kind allows, for questions that are about its dkey only.
const ANY_AKEY: [u8; 8] = [0; 8];
const WHOLE: Recx = Recx { index: 0, count: u64::MAX };
const EXTENTS_PAGE: u32 = 1024;

/// One akey as the transaction sees it.
struct AkeyRef<'a> {
    tx: &'a Tx,
    object: &'a Object,
    at: ReadAt,
    dkey: &'a [u8],
    akey: &'a [u8],
}

impl AkeyRef<'_> {
    /// What is buffered for it, and whether what the target holds is hidden.
    fn layer(&self) -> (AkeyLayer, bool) {
        self.tx.with_overlay(|overlay| {
            let (layer, hidden) = overlay.akey(self.object.oid(), self.dkey, self.akey);
            (layer.cloned().unwrap_or_default(), hidden)
        })
    }

    fn fetch_base(&self, want: Want, buf: &mut IoBuf) -> Result<FetchedIod> {
        let iod = FetchIod { akey: Key::from_slice(self.akey), want };
        let mut fetched = self.object.fetch_base(self.at, self.dkey, Cond::NONE, &[iod], buf)?;
        Ok(fetched.pop().unwrap_or_default())
    }

    /// The next extents that the target holds and nothing buffered covers.
    fn base_extents(&self, layer: &AkeyLayer, anchor: &mut Anchor) -> Result<Vec<ListedExtent>> {
        let (object, dkey, akey) = (self.object, self.dkey, self.akey);
        let listed = listing::extents_base(object, self.at, dkey, akey, anchor, EXTENTS_PAGE)?;
        Ok(listed.into_iter().flat_map(|extent| uncovered(layer, extent)).collect())
    }

    /// Whether it has a visible value of either form.
    fn exists(&self) -> Result<bool> {
        let (layer, hidden) = self.layer();
        if layer.has_single() || layer.has_records() {
            return Ok(true);
        }
        if hidden {
            return Ok(false);
        }
        if layer == AkeyLayer::default() {
            let iod = FetchIod { akey: Key::from_slice(self.akey), want: Want::Size };
            let buf = &mut IoBuf::default();
            return found(self.object.fetch_base(self.at, self.dkey, Cond::AKEY_FETCH, &[iod], buf));
        }
        Ok(self.base_single(&layer)? || self.base_record_bytes(&layer)? != 0)
    }

    /// Whether the target holds a single value that is not replaced.
    fn base_single(&self, layer: &AkeyLayer) -> Result<bool> {
        if layer.single.is_some() {
            return Ok(false);
        }
        match self.fetch_base(Want::Single { room_bytes: 0 }, &mut IoBuf::default()) {
            Ok(iod) => Ok(iod.size_bytes > 0),
            Err(Error::RecTooBig { .. }) => Ok(true),
            Err(other) => Err(other),
        }
    }

    /// Bytes a record of the array that the target holds; 0 if everything of it is covered.
    fn base_record_bytes(&self, layer: &AkeyLayer) -> Result<u64> {
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            let extents = self.base_extents(layer, &mut anchor)?;
            if let Some(extent) = extents.iter().find(|extent| !extent.single) {
                return Ok(extent.record_bytes);
            }
        }
        Ok(0)
    }

    /// All visible extents, ascending.
    fn extents(&self) -> Result<Vec<ListedExtent>> {
        let (layer, hidden) = self.layer();
        let mut extents = Vec::new();
        let mut anchor = if hidden { Anchor::eof() } else { Anchor::default() };
        while !anchor.is_eof() {
            extents.extend(self.base_extents(&layer, &mut anchor)?);
        }
        extents.extend(self.buffered(&layer, WHOLE));
        extents.sort_unstable_by_key(|extent| (!extent.single, extent.recx));
        Ok(extents)
    }

    /// The buffered records within `hull`, as a listing shows them.
    fn buffered(&self, layer: &AkeyLayer, hull: Recx) -> impl Iterator<Item = ListedExtent> {
        let (epoch, record_bytes) = (self.tx.epoch(), layer.record_bytes);
        let data = layer.pieces_in(hull).into_iter().filter(|(_, data)| data.is_some());
        data.map(move |(recx, _)| ListedExtent { recx, record_bytes, epoch, single: false })
    }

    fn fetch(&self, want: &Want, out: &mut [u8]) -> Result<FetchedIod> {
        let (layer, hidden) = self.layer();
        match want {
            Want::Single { .. } => self.fetch_single(&layer, hidden, out),
            Want::Size => self.fetch_size(&layer, hidden),
            Want::Array { record_bytes, extents } => {
                self.fetch_array(&layer, hidden, *record_bytes, extents, out)
            }
        }
    }

    fn fetch_single(&self, layer: &AkeyLayer, hidden: bool, out: &mut [u8]) -> Result<FetchedIod> {
        match &layer.single {
            Some(Some(value)) => {
                let needed_bytes = u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?;
                out.get_mut(..value.len()).ok_or(Error::RecTooBig { needed_bytes })?.copy_from_slice(value);
                Ok(FetchedIod { size_bytes: needed_bytes, filled: SmallVec::new(), is_end: false })
            }
            None if !hidden => {
                let mut part = IoBuf::zeroed(out.len());
                let iod = self.fetch_base(Want::Single { room_bytes: out.len() }, &mut part)?;
                let len = usize::try_from(iod.size_bytes).map_err(|_wide| Invalid::Payload)?;
                out[..len].copy_from_slice(&part[..len]);
                Ok(iod)
            }
            _ => Ok(FetchedIod::default()),
        }
    }

    fn fetch_size(&self, layer: &AkeyLayer, hidden: bool) -> Result<FetchedIod> {
        let size_bytes = match &layer.single {
            Some(Some(value)) => u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?,
            None if !hidden && self.base_single(layer)? => {
                self.fetch_base(Want::Size, &mut IoBuf::default())?.size_bytes
            }
            _ if layer.has_records() => layer.record_bytes,
            _ if hidden => 0,
            _ => self.base_record_bytes(layer)?,
        };
        Ok(FetchedIod { size_bytes, filled: SmallVec::new(), is_end: false })
    }

    fn fetch_array(
        &self,
        layer: &AkeyLayer,
        hidden: bool,
        record_bytes: u64,
        extents: &[Recx],
        out: &mut [u8],
    ) -> Result<FetchedIod> {
        if record_bytes == 0 {
            return Err(Invalid::RecordSize.into());
        }
        if layer.has_records() && layer.record_bytes != record_bytes {
            return Err(Error::RecordSize { stored_bytes: layer.record_bytes });
        }
        let mut part = IoBuf::default();
        let mut base = FetchedIod::default();
        if !hidden {
            part.set_len(out.len());
            let want = Want::Array { record_bytes, extents: SmallVec::from_slice(extents) };
            match self.fetch_base(want, &mut part) {
                // Of what the target holds nothing is left, so that records of another size are written.
                Err(Error::RecordSize { .. }) if layer.has_holes() && self.base_record_bytes(layer)? == 0 => {
                }
                fetched => base = fetched?,
            }
        }
        let record_len = usize::try_from(record_bytes).map_err(|_wide| Invalid::RecordSize)?;
        let byte =
            |records: u64| usize::try_from(records).map_or(usize::MAX, |r| r.saturating_mul(record_len));
        let kept: Vec<Recx> = base.filled.iter().flat_map(|recx| layer.uncovered(*recx)).collect();
        let mut filled: Vec<Recx> = Vec::new();
        let mut laid = 0;
        for extent in extents {
            for recx in kept.iter().filter_map(|recx| recx.intersect(*extent)) {
                let bytes = byte(laid + recx.index - extent.index)
                    ..byte(laid + recx.index - extent.index + recx.count);
                out[bytes.clone()].copy_from_slice(&part[bytes]);
                filled.push(recx);
            }
            for (recx, data) in layer.pieces_in(*extent) {
                let start = byte(laid + recx.index - extent.index);
                copy_piece(data.as_ref(), &mut out[start..start + byte(recx.count)], || filled.push(recx));
            }
            laid += extent.count;
        }
        let size_bytes = match (layer.has_records(), layer.has_holes()) {
            (true, _) => record_bytes,
            (false, true) if !hidden && base.size_bytes != 0 => self.base_record_bytes(layer)?,
            _ => base.size_bytes,
        };
        Ok(FetchedIod { size_bytes, filled: joined(filled), is_end: false })
    }
}

fn copy_piece(data: Option<&Slice>, out: &mut [u8], mut filled: impl FnMut()) {
    if let Some(slice) = data {
        out.copy_from_slice(slice.bytes(0, out.len()));
        filled();
    }
}

/// Sorted, with what overlaps or touches joined.
fn joined(mut parts: Vec<Recx>) -> SmallVec<[Recx; 1]> {
    parts.sort_unstable();
    let mut joined: SmallVec<[Recx; 1]> = SmallVec::new();
    for part in parts {
        match joined.last_mut().filter(|last| last.index + last.count >= part.index) {
            Some(last) => last.count = last.count.max(part.index + part.count - last.index),
            None => joined.push(part),
        }
    }
    joined
}

/// The parts of a listed extent that nothing buffered covers.
fn uncovered(layer: &AkeyLayer, extent: ListedExtent) -> Vec<ListedExtent> {
    if extent.single {
        return if layer.single.is_some() { Vec::new() } else { vec![extent] };
    }
    layer.uncovered(extent.recx).into_iter().map(|recx| ListedExtent { recx, ..extent }).collect()
}

fn found<T>(result: Result<T>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(other) => Err(other),
    }
}

/// A fetch under a dkey that the transaction has written to.
pub(crate) fn fetch(
    tx: &Tx,
    object: &Object,
    dkey: &[u8],
    cond: Cond,
    iods: &[FetchIod],
    buf: &mut IoBuf,
) -> Result<Fetched> {
    let at = tx.read_epoch()?;
    if iods.is_empty() || iods.len() > IODS_MAX {
        return Err(Invalid::Count.into());
    }
    if cond.has(Cond::DKEY_FETCH) && !dkey_exists(tx, object, dkey)? {
        return Err(Error::NotFound);
    }
    let mut fetched = Fetched::new();
    let mut start = 0;
    for iod in iods {
        check_key(object.object_type().akey_kind(), &iod.akey)?;
        let akey = AkeyRef { tx, object, at, dkey, akey: &iod.akey };
        if cond.has(Cond::AKEY_FETCH) && !akey.exists()? {
            return Err(Error::NotFound);
        }
        let end = room(&iod.want).and_then(|room| room.checked_add(start)).ok_or(Invalid::Extent)?;
        fetched.push(akey.fetch(&iod.want, buf.get_mut(start..end).ok_or(Invalid::Payload)?)?);
        start = end;
    }
    Ok(fetched)
}

/// Bytes that an iod takes of the buffer.
fn room(want: &Want) -> Option<usize> {
    match want {
        Want::Single { room_bytes } => Some(*room_bytes),
        Want::Size => Some(0),
        Want::Array { record_bytes, extents } => {
            let records = extents.iter().try_fold(0_u64, |sum, recx| sum.checked_add(recx.count))?;
            usize::try_from(records.checked_mul(*record_bytes)?).ok()
        }
    }
}

pub(crate) fn dkey_exists(tx: &Tx, object: &Object, dkey: &[u8]) -> Result<bool> {
    let at = tx.read_epoch()?;
    let (touched, has_data, hidden) = tx.with_overlay(|overlay| {
        let (layer, hidden) = overlay.dkey(object.oid(), dkey);
        (layer.is_some_and(|l| !l.akeys.is_empty()), layer.is_some_and(|l| l.has_data()), hidden)
    });
    if has_data || hidden {
        return Ok(has_data);
    }
    if !touched {
        let iod = FetchIod { akey: Key::from_slice(&ANY_AKEY), want: Want::Size };
        return found(object.fetch_base(at, dkey, Cond::DKEY_FETCH, &[iod], &mut IoBuf::default()));
    }
    let keys = listing::akeys(object, At::Tx(tx), dkey, &mut Anchor::default(), Page::default())?;
    Ok(!keys.is_empty())
}

fn akey_exists(tx: &Tx, object: &Object, dkey: &[u8], akey: &[u8]) -> Result<bool> {
    AkeyRef { tx, object, at: tx.read_epoch()?, dkey, akey }.exists()
}

/// Checks the conditions of an update that is about to be buffered.
pub(crate) fn check_update(
    tx: &Tx,
    object: &Object,
    dkey: &[u8],
    cond: Cond,
    iods: &[UpdateIod<'_>],
) -> Result<()> {
    let (insert, update) = (cond.has(Cond::DKEY_INSERT), cond.has(Cond::DKEY_UPDATE));
    if insert || update {
        check_exists(insert, update, || dkey_exists(tx, object, dkey))?;
    }
    for iod in iods {
        let cond = if cond.has(Cond::PER_AKEY) { iod.cond } else { cond };
        let (insert, update) = (cond.has(Cond::AKEY_INSERT), cond.has(Cond::AKEY_UPDATE));
        if insert || update {
            check_exists(insert, update, || akey_exists(tx, object, dkey, &iod.akey))?;
        }
    }
    Ok(())
}

fn check_exists(insert: bool, update: bool, exists: impl FnOnce() -> Result<bool>) -> Result<()> {
    match exists()? {
        true if insert => Err(Error::Exists),
        false if update => Err(Error::NotFound),
        _ => Ok(()),
    }
}

/// Checks that everything that is about to be punched exists.
pub(crate) fn check_punch(tx: &Tx, object: &Object, scope: &PunchScope) -> Result<()> {
    let exists = match scope {
        PunchScope::Object => {
            let page = Page { items_max: 1, bytes_max: u32::MAX };
            !listing::dkeys(object, At::Tx(tx), &mut Anchor::default(), page)?.is_empty()
        }
        PunchScope::Dkey(dkey) => dkey_exists(tx, object, dkey)?,
        PunchScope::Akeys(dkey, akeys) => {
            let mut all = true;
            for akey in akeys {
                all &= akey_exists(tx, object, dkey, akey)?;
            }
            all
        }
    };
    if exists { Ok(()) } else { Err(Error::NotFound) }
}

/// The position that an anchor holds after `key`; positions compare as the keys do.
pub(crate) fn position(kind: KeyKind, secret: HashKey, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    match kind {
        KeyKind::Hashed | KeyKind::Uint64 => push_key(&mut bytes, kind, secret, key),
        KeyKind::Lexical => bytes.extend_from_slice(key),
    }
    bytes
}

/// One step of listing dkeys in the anchor's shard.
pub(crate) fn dkeys(tx: &Tx, object: &Object, anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
    let at = tx.read_epoch()?;
    let (shard, from) = (anchor.shard, *anchor);
    let map = object.container().core().map();
    let target = object.shard_target(map, shard)?;
    let (punched, touched) = tx.with_overlay(|overlay| {
        overlay
            .object(object.oid())
            .map_or((false, Vec::new()), |o| (o.punched, o.dkeys.keys().cloned().collect()))
    });
    let mut own = Vec::new();
    for dkey in touched {
        if object.target(map, &dkey)? == target {
            own.push(dkey);
        }
    }
    let base = if punched {
        *anchor = Anchor::eof();
        PackedKeys::default()
    } else {
        listing::dkeys_of_target(object, at, anchor, page)?
    };
    let kind = object.object_type().dkey_kind();
    let merge = KeyMerge { kind, secret: object.container().hash_key(), from, page };
    let is_own = |key: &[u8]| tx.touches_dkey(object.oid(), key);
    let keys = merge.run(&base, own, anchor, |key| Ok(!is_own(key) || dkey_exists(tx, object, key)?))?;
    anchor.shard = shard;
    listing::go_on(object, anchor)?;
    Ok(keys)
}

/// One step of listing akeys.
pub(crate) fn akeys(
    tx: &Tx,
    object: &Object,
    dkey: &[u8],
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    let at = tx.read_epoch()?;
    let from = *anchor;
    let (own, hidden): (Vec<Key>, bool) = tx.with_overlay(|overlay| {
        let (layer, hidden) = overlay.dkey(object.oid(), dkey);
        (layer.map_or_else(Vec::new, |l| l.akeys.keys().cloned().collect()), hidden)
    });
    let base = if hidden {
        check_key(object.object_type().dkey_kind(), dkey)?;
        *anchor = Anchor::eof();
        PackedKeys::default()
    } else {
        listing::akeys_base(object, at, dkey, anchor, page)?
    };
    let kind = object.object_type().akey_kind();
    let merge = KeyMerge { kind, secret: object.container().hash_key(), from, page };
    let touched = own.clone();
    let is_own = |key: &[u8]| touched.iter().any(|own| own[..] == *key);
    merge.run(&base, own, anchor, |key| Ok(!is_own(key) || akey_exists(tx, object, dkey, key)?))
}

/// A page of a listing into which buffered keys are merged.
struct KeyMerge {
    kind: KeyKind,
    secret: HashKey,
    from: Anchor,
    page: Page,
}

impl KeyMerge {
    /// Merges `own` keys that lie between the page's start and its last key (or the end) into `base`, leaves out
    /// what is not visible, and sets `anchor` back if the page gets too long.
    fn run(
        &self,
        base: &PackedKeys,
        own: Vec<Key>,
        anchor: &mut Anchor,
        mut visible: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<PackedKeys> {
        if self.page.items_max == 0 {
            return Err(Invalid::Count.into());
        }
        if self.from.is_eof() {
            *anchor = Anchor::eof();
            return Ok(PackedKeys::default());
        }
        let position = |key: &[u8]| position(self.kind, self.secret, key);
        let mut merged: BTreeMap<Vec<u8>, Key> =
            base.iter().map(|k| (position(k), Key::from_slice(k))).collect();
        let until =
            if anchor.is_eof() { None } else { Some(merged.keys().next_back().cloned().unwrap_or_default()) };
        for key in own {
            let place = position(&key);
            let after_start = place[..] > *self.from.position() || self.from.position().is_empty();
            if after_start && until.as_ref().is_none_or(|until| place <= *until) {
                merged.insert(place, key);
            }
        }
        let mut keys = PackedKeys::default();
        let mut last = self.from;
        for (place, key) in merged {
            if !visible(&key)? {
                continue;
            }
            let too_long =
                keys.bytes.len() + key.len() > usize::try_from(self.page.bytes_max).unwrap_or(usize::MAX);
            if too_long && keys.is_empty() {
                *anchor = self.from;
                return Err(Error::KeyTooBig { needed_bytes: u64::try_from(key.len()).unwrap_or(u64::MAX) });
            }
            if too_long || keys.len() >= usize::try_from(self.page.items_max).unwrap_or(usize::MAX) {
                *anchor = last;
                return Ok(keys);
            }
            keys.push(&key);
            last = Anchor::after(&place).ok_or(Invalid::Anchor)?;
        }
        Ok(keys)
    }
}

/// One step of listing extents.
pub(crate) fn extents(
    tx: &Tx,
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    anchor: &mut Anchor,
    items_max: u32,
) -> Result<Vec<ListedExtent>> {
    let at = tx.read_epoch()?;
    let this = AkeyRef { tx, object, at, dkey, akey };
    let (layer, hidden) = this.layer();
    let from = start_of(anchor)?;
    let is_first = anchor.position().is_empty() && !anchor.is_eof();
    if anchor.is_eof() {
        return Ok(Vec::new());
    }
    let mut items: Vec<ListedExtent> = if hidden {
        *anchor = Anchor::eof();
        Vec::new()
    } else {
        let base = listing::extents_base(object, at, dkey, akey, anchor, items_max)?;
        base.into_iter().flat_map(|extent| uncovered(&layer, extent)).collect()
    };
    let until = if anchor.is_eof() { u64::MAX } else { start_of(anchor)? };
    if until > from {
        items.extend(this.buffered(&layer, Recx::new(from, until - from)));
    }
    if let (Some(Some(value)), true) = (&layer.single, is_first) {
        let record_bytes = u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?;
        items.push(ListedExtent { recx: Recx::new(0, 1), record_bytes, epoch: tx.epoch(), single: true });
    }
    items.sort_unstable_by_key(|extent| (!extent.single, extent.recx));
    let items_len = usize::try_from(items_max).unwrap_or(usize::MAX);
    if items.len() > items_len && items_len > 0 {
        items.truncate(items_len);
        let last = items[items_len - 1].recx;
        let next = if items[items_len - 1].single { 0 } else { last.index + last.count };
        *anchor = Anchor::after(&next.to_le_bytes()).ok_or(Invalid::Anchor)?;
    }
    Ok(items)
}

/// The next index that an anchor of extents holds.
fn start_of(anchor: &Anchor) -> Result<u64> {
    match anchor.position() {
        [] => Ok(0),
        bytes => Ok(u64::from_le_bytes(bytes.try_into().map_err(|_wide| Invalid::Anchor)?)),
    }
}

/// A key query over an object that the transaction has written to.
///
/// The target's answer stands unless something is buffered for its dkey; then only a better one does, or the
/// best of all dkeys that nothing is buffered for.
pub(crate) fn query(
    tx: &Tx,
    object: &Object,
    flags: QueryFlags,
    dkey: &[u8],
    akey: &[u8],
) -> Result<Option<Found>> {
    listing::check_query(object, flags)?;
    if !flags.has(QueryFlags::DKEY) {
        return query_dkey(tx, object, flags, dkey, akey);
    }
    let (punched, touched) = tx.with_overlay(|overlay| {
        overlay
            .object(object.oid())
            .map_or((false, Vec::new()), |o| (o.punched, o.dkeys.keys().cloned().collect()))
    });
    let mut best = None;
    for dkey in &touched {
        let found = query_dkey(tx, object, flags, dkey, akey)?;
        best = listing::better(object, flags, best, found);
    }
    let at = tx.read_epoch()?;
    let base = if punched { None } else { listing::query_base(object, at, flags, dkey, akey)? };
    let Some(base) = base else { return Ok(best) };
    if !touched.contains(&base.dkey) {
        return Ok(listing::better(object, flags, best, Some(base)));
    }
    let is_better = |than: &[u8], dkey: &[u8]| {
        let order = listing::compare(object.object_type().dkey_kind(), dkey, than);
        if flags.has(QueryFlags::MAX) { order.is_gt() } else { order.is_lt() }
    };
    if best.as_ref().is_some_and(|best| !is_better(&best.dkey, &base.dkey)) {
        return Ok(best);
    }
    let mut dkeys = all_dkeys(object, at)?;
    dkeys.retain(|dkey| {
        !touched.contains(dkey) && best.as_ref().is_none_or(|best| is_better(&best.dkey, dkey))
    });
    sort_best_first(object.object_type().dkey_kind(), flags, &mut dkeys);
    for dkey in dkeys {
        let inner = QueryFlags(flags.0 & !QueryFlags::DKEY.0);
        let found = query_untouched(object, at, inner, &dkey, akey)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(best)
}

/// A dkey that nothing is buffered for: the target knows, if more than its existence is asked.
fn query_untouched(
    object: &Object,
    at: ReadAt,
    flags: QueryFlags,
    dkey: &Key,
    akey: &[u8],
) -> Result<Option<Found>> {
    if !flags.has(QueryFlags::AKEY) && !flags.has(QueryFlags::RECX) {
        let found = Found { dkey: dkey.clone(), akey: Key::from_slice(akey), recx: None, record_bytes: 0 };
        return Ok(Some(found));
    }
    listing::query_base(object, at, flags, dkey, akey)
}

fn all_dkeys(object: &Object, at: ReadAt) -> Result<Vec<Key>> {
    let mut dkeys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        let page = listing::dkeys_of_shard(object, at, &mut anchor, Page::default())?;
        dkeys.extend(page.iter().map(Key::from_slice));
    }
    Ok(dkeys)
}

fn sort_best_first(kind: KeyKind, flags: QueryFlags, keys: &mut [Key]) {
    keys.sort_unstable_by(|a, b| listing::compare(kind, a, b));
    if flags.has(QueryFlags::MAX) {
        keys.reverse();
    }
}

/// What is asked of one dkey: whether it exists, its best akey, its best record.
fn query_dkey(
    tx: &Tx,
    object: &Object,
    flags: QueryFlags,
    dkey: &[u8],
    akey: &[u8],
) -> Result<Option<Found>> {
    let found = |akey: &[u8], recx, record_bytes| Found {
        dkey: Key::from_slice(dkey),
        akey: Key::from_slice(akey),
        recx,
        record_bytes,
    };
    let akeys: SmallVec<[Key; 1]> = if flags.has(QueryFlags::AKEY) {
        all_akeys(tx, object, flags, dkey)?
    } else if flags.has(QueryFlags::RECX) {
        smallvec![Key::from_slice(akey)]
    } else {
        return Ok(dkey_exists(tx, object, dkey)?.then(|| found(akey, None, 0)));
    };
    for akey in akeys {
        if !flags.has(QueryFlags::RECX) {
            return Ok(Some(found(&akey, None, 0)));
        }
        let this = AkeyRef { tx, object, at: tx.read_epoch()?, dkey, akey: &akey };
        let mut records = this.extents()?;
        records.retain(|extent| !extent.single);
        let best = if flags.has(QueryFlags::MAX) { records.last() } else { records.first() };
        if let Some(extent) = best {
            let last = extent.recx.index + extent.recx.count - 1;
            let index = if flags.has(QueryFlags::MAX) { last } else { extent.recx.index };
            return Ok(Some(found(&akey, Some(Recx::new(index, 1)), extent.record_bytes)));
        }
    }
    Ok(None)
}

/// All akeys of a dkey, best first.
fn all_akeys(tx: &Tx, object: &Object, flags: QueryFlags, dkey: &[u8]) -> Result<SmallVec<[Key; 1]>> {
    let mut keys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        let page = listing::akeys(object, At::Tx(tx), dkey, &mut anchor, Page::default())?;
        keys.extend(page.iter().map(Key::from_slice));
    }
    sort_best_first(object.object_type().akey_kind(), flags, &mut keys);
    Ok(keys.into())
}
