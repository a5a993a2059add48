//! Reads of a transaction: what the targets hold at its epoch, under what it has buffered.
//!
//! A read sees what was buffered when it began, from its first request to its last: nothing here looks at the transaction.

use super::Sight;
use super::overlay::{AkeyLayer, ObjectLayer, Slice};
use crate::listing;
use crate::object::{Fetched, Object, Page};
use dolmen_codec::Way;
use dolmen_codec::order::{HashKey, check_key, push_key};
use dolmen_codec::verb::{
    FetchIod, FetchedIod, Found, ListedExtent, PackedKeys, PunchScope, ReadAt, UpdateIod, Want,
};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, KeyKind, QueryFlags, Recx, Result};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, btree_map};

/// A key that every kind allows, for questions that are about its dkey only.
const ANY_AKEY: [u8; 8] = [0; 8];
const WHOLE: Recx = Recx { index: 0, count: u64::MAX };
const EXTENTS_PAGE: u32 = 1024;

/// An object of which the transaction has written something, as a read sees it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    way: Way,
    object: &'a Object,
    at: ReadAt,
    layer: &'a ObjectLayer,
}

impl<'a> Seen<'a> {
    /// `None` if nothing is written of it: what the targets hold is all.
    pub(crate) fn of(way: Way, object: &'a Object, sight: &'a Sight) -> Option<Self> {
        sight.layer.as_deref().map(|layer| Self { way, object, at: sight.at, layer })
    }

    /// As [`Seen::of`], but only if something is written under the dkey.
    pub(crate) fn of_dkey(way: Way, object: &'a Object, sight: &'a Sight, dkey: &[u8]) -> Option<Self> {
        Self::of(way, object, sight).filter(|seen| seen.layer.touches(dkey))
    }

    /// The epoch of what is written.
    fn epoch(&self) -> Epoch {
        match self.at {
            ReadAt::Tx(epoch) | ReadAt::Epoch(epoch) => epoch,
            ReadAt::Latest => Epoch::ZERO,
        }
    }

    fn akey(self, dkey: &'a [u8], akey: &'a [u8]) -> AkeyRef<'a> {
        AkeyRef { seen: self, dkey, akey }
    }
}

/// One akey as the transaction sees it.
struct AkeyRef<'a> {
    seen: Seen<'a>,
    dkey: &'a [u8],
    akey: &'a [u8],
}

impl AkeyRef<'_> {
    /// What is buffered for it, and whether what the target holds is hidden.
    fn layer(&self) -> (AkeyLayer, bool) {
        let (layer, is_hidden) = self.seen.layer.akey(self.dkey, self.akey);
        (layer.cloned().unwrap_or_default(), is_hidden)
    }

    async fn fetch_base(&self, cond: Cond, want: Want, buf: &mut IoBuf) -> Result<FetchedIod> {
        let Seen { way, object, at, .. } = self.seen;
        let iod = FetchIod { akey: Key::from_slice(self.akey), want };
        let mut fetched = object.fetch_base_by(way, at, self.dkey, cond, &[iod], buf).await?;
        Ok(fetched.pop().unwrap_or_default())
    }

    /// The next extents that the target holds and nothing buffered covers.
    async fn base_extents(&self, layer: &AkeyLayer, anchor: &mut Anchor) -> Result<Vec<ListedExtent>> {
        let (Seen { way, object, at, .. }, keys) = (self.seen, (self.dkey, self.akey));
        let listed = listing::extents_base(way, object, at, keys, anchor, EXTENTS_PAGE).await?;
        Ok(listed.into_iter().flat_map(|extent| uncovered(layer, extent)).collect())
    }

    /// Whether it has a visible value of either form.
    async fn exists(&self) -> Result<bool> {
        let (layer, hidden) = self.layer();
        if layer.has_single() || layer.has_records() {
            return Ok(true);
        }
        if hidden {
            return Ok(false);
        }
        if layer == AkeyLayer::default() {
            return found(self.fetch_base(Cond::AKEY_FETCH, Want::Size, &mut IoBuf::default()).await);
        }
        Ok(self.base_single(&layer).await? || self.base_record_bytes(&layer).await? != 0)
    }

    /// Whether the target holds a single value that is not replaced.
    async fn base_single(&self, layer: &AkeyLayer) -> Result<bool> {
        if layer.single.is_some() {
            return Ok(false);
        }
        match self.fetch_base(Cond::NONE, Want::Single { room_bytes: 0 }, &mut IoBuf::default()).await {
            Ok(iod) => Ok(iod.size_bytes > 0),
            Err(Error::RecTooBig { .. }) => Ok(true),
            Err(other) => Err(other),
        }
    }

    /// Bytes a record of the array that the target holds; 0 if everything of it is covered.
    async fn base_record_bytes(&self, layer: &AkeyLayer) -> Result<u64> {
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            let extents = self.base_extents(layer, &mut anchor).await?;
            if let Some(extent) = extents.iter().find(|extent| !extent.single) {
                return Ok(extent.record_bytes);
            }
        }
        Ok(0)
    }

    /// All visible extents, ascending.
    async fn extents(&self) -> Result<Vec<ListedExtent>> {
        let (layer, hidden) = self.layer();
        let mut extents = Vec::new();
        let mut anchor = if hidden { Anchor::eof() } else { Anchor::default() };
        while !anchor.is_eof() {
            extents.extend(self.base_extents(&layer, &mut anchor).await?);
        }
        extents.extend(self.buffered(&layer, WHOLE));
        extents.sort_unstable_by_key(|extent| (!extent.single, extent.recx));
        Ok(extents)
    }

    /// The buffered records within `hull`, as a listing shows them.
    fn buffered(&self, layer: &AkeyLayer, hull: Recx) -> impl Iterator<Item = ListedExtent> {
        let (epoch, record_bytes) = (self.seen.epoch(), layer.record_bytes);
        let data = layer.pieces_in(hull).into_iter().filter(|(_, data)| data.is_some());
        data.map(move |(recx, _)| ListedExtent { recx, record_bytes, epoch, single: false })
    }

    async fn fetch(&self, want: &Want, out: &mut [u8]) -> Result<FetchedIod> {
        let (layer, hidden) = self.layer();
        match want {
            Want::Single { .. } => self.fetch_single(&layer, hidden, out).await,
            Want::Size => self.fetch_size(&layer, hidden).await,
            Want::Array { record_bytes, extents } => {
                self.fetch_array(&layer, hidden, *record_bytes, extents, out).await
            }
        }
    }

    async fn fetch_single(&self, layer: &AkeyLayer, hidden: bool, out: &mut [u8]) -> Result<FetchedIod> {
        match &layer.single {
            Some(Some(value)) => {
                let needed_bytes = u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?;
                out.get_mut(..value.len()).ok_or(Error::RecTooBig { needed_bytes })?.copy_from_slice(value);
                Ok(FetchedIod { size_bytes: needed_bytes, filled: SmallVec::new(), is_end: false })
            }
            None if !hidden => {
                let mut part = IoBuf::zeroed(out.len());
                let want = Want::Single { room_bytes: out.len() };
                let iod = self.fetch_base(Cond::NONE, want, &mut part).await?;
                let len = usize::try_from(iod.size_bytes).map_err(|_wide| Invalid::Payload)?;
                out[..len].copy_from_slice(&part[..len]);
                Ok(iod)
            }
            _ => Ok(FetchedIod::default()),
        }
    }

    async fn fetch_size(&self, layer: &AkeyLayer, hidden: bool) -> Result<FetchedIod> {
        let size_bytes = match &layer.single {
            Some(Some(value)) => u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?,
            None if !hidden && self.base_single(layer).await? => {
                self.fetch_base(Cond::NONE, Want::Size, &mut IoBuf::default()).await?.size_bytes
            }
            _ if layer.has_records() => layer.record_bytes,
            _ if hidden => 0,
            _ => self.base_record_bytes(layer).await?,
        };
        Ok(FetchedIod { size_bytes, filled: SmallVec::new(), is_end: false })
    }

    async fn fetch_array(
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
            match self.fetch_base(Cond::NONE, want, &mut part).await {
                Err(error @ Error::RecordSize { .. }) => {
                    // Of what the target holds nothing is left, so that records of another size are written.
                    let is_gone = layer.has_holes() && self.base_record_bytes(layer).await? == 0;
                    if !is_gone {
                        return Err(error);
                    }
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
            (false, true) if !hidden && base.size_bytes != 0 => self.base_record_bytes(layer).await?,
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
pub(crate) async fn fetch(
    seen: Seen<'_>,
    dkey: &[u8],
    cond: Cond,
    iods: &[FetchIod],
    buf: &mut IoBuf,
) -> Result<Fetched> {
    if iods.is_empty() || iods.len() > IODS_MAX {
        return Err(Invalid::Count.into());
    }
    if cond.has(Cond::DKEY_FETCH) && !dkey_exists(seen, dkey).await? {
        return Err(Error::NotFound);
    }
    let mut fetched = Fetched::new();
    let mut start = 0;
    for iod in iods {
        check_key(seen.object.object_type().akey_kind(), &iod.akey)?;
        let akey = seen.akey(dkey, &iod.akey);
        if cond.has(Cond::AKEY_FETCH) && !akey.exists().await? {
            return Err(Error::NotFound);
        }
        let end = room(&iod.want).and_then(|room| room.checked_add(start)).ok_or(Invalid::Extent)?;
        fetched.push(akey.fetch(&iod.want, buf.get_mut(start..end).ok_or(Invalid::Payload)?).await?);
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

async fn dkey_exists(seen: Seen<'_>, dkey: &[u8]) -> Result<bool> {
    let (layer, is_hidden) = seen.layer.dkey(dkey);
    let has_data = layer.is_some_and(|layer| layer.has_data());
    if has_data || is_hidden {
        return Ok(has_data);
    }
    if layer.is_none_or(|layer| layer.akeys.is_empty()) {
        return base_has(seen.way, seen.object, seen.at, dkey, Cond::DKEY_FETCH, &ANY_AKEY).await;
    }
    let keys = akeys(seen, dkey, &mut Anchor::default(), Page::default()).await?;
    Ok(!keys.is_empty())
}

/// Whether the target holds a dkey, or an akey, as the condition says.
async fn base_has(
    way: Way,
    object: &Object,
    at: ReadAt,
    dkey: &[u8],
    cond: Cond,
    akey: &[u8],
) -> Result<bool> {
    let iods = [FetchIod { akey: Key::from_slice(akey), want: Want::Size }];
    found(object.fetch_base_by(way, at, dkey, cond, &iods, &mut IoBuf::default()).await)
}

/// Whether a dkey, or one akey of it, is there for the transaction.
async fn exists(way: Way, object: &Object, sight: &Sight, dkey: &[u8], akey: Option<&[u8]>) -> Result<bool> {
    match (Seen::of(way, object, sight), akey) {
        (Some(seen), Some(akey)) => seen.akey(dkey, akey).exists().await,
        (Some(seen), None) => dkey_exists(seen, dkey).await,
        (None, Some(akey)) => base_has(way, object, sight.at, dkey, Cond::AKEY_FETCH, akey).await,
        (None, None) => base_has(way, object, sight.at, dkey, Cond::DKEY_FETCH, &ANY_AKEY).await,
    }
}

/// Checks the conditions of an update that is about to be buffered.
pub(crate) async fn check_update(
    way: Way,
    object: &Object,
    sight: &Sight,
    dkey: &[u8],
    cond: Cond,
    iods: &[UpdateIod<'_>],
) -> Result<()> {
    let (insert, update) = (cond.has(Cond::DKEY_INSERT), cond.has(Cond::DKEY_UPDATE));
    if insert || update {
        check_exists(insert, update, exists(way, object, sight, dkey, None).await?)?;
    }
    for iod in iods {
        let cond = if cond.has(Cond::PER_AKEY) { iod.cond } else { cond };
        let (insert, update) = (cond.has(Cond::AKEY_INSERT), cond.has(Cond::AKEY_UPDATE));
        if insert || update {
            check_exists(insert, update, exists(way, object, sight, dkey, Some(&iod.akey)).await?)?;
        }
    }
    Ok(())
}

fn check_exists(insert: bool, update: bool, exists: bool) -> Result<()> {
    match exists {
        true if insert => Err(Error::Exists),
        false if update => Err(Error::NotFound),
        _ => Ok(()),
    }
}

/// Checks that everything that is about to be punched exists.
pub(crate) async fn check_punch(way: Way, object: &Object, sight: &Sight, scope: &PunchScope) -> Result<()> {
    let exists = match scope {
        PunchScope::Object => {
            let page = Page { items_max: 1, bytes_max: u32::MAX };
            !listing::dkeys(way, object, sight, &mut Anchor::default(), page).await?.is_empty()
        }
        PunchScope::Dkey(dkey) => exists(way, object, sight, dkey, None).await?,
        PunchScope::Akeys(dkey, akeys) => {
            let mut all = true;
            for akey in akeys {
                all &= exists(way, object, sight, dkey, Some(akey)).await?;
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
pub(crate) async fn dkeys(seen: Seen<'_>, anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
    let Seen { way, object, at, layer } = seen;
    let (shard, from) = (anchor.shard, *anchor);
    let map = object.container().core().map();
    let target = object.shard_target(map, shard)?;
    let mut own = Vec::new();
    for dkey in layer.dkeys.keys() {
        if object.target(map, dkey)? == target {
            own.push(dkey);
        }
    }
    let base = if layer.punched {
        *anchor = Anchor::eof();
        PackedKeys::default()
    } else {
        listing::dkeys_of_target(way, object, at, anchor, page).await?
    };
    let order = (object.object_type().dkey_kind(), object.container().hash_key());
    let mut merge = KeyMerge::of(order, &base, own, from, anchor, page)?;
    while let Some((place, dkey)) = merge.next() {
        let is_own = layer.touches(&dkey);
        if (!is_own || dkey_exists(seen, &dkey).await?) && !merge.take(&place, &dkey, anchor)? {
            break;
        }
    }
    anchor.shard = shard;
    listing::go_on(object, anchor)?;
    Ok(merge.keys)
}

/// The next akeys; at least one, unless the anchor is at its end afterwards.
pub(crate) async fn akeys(
    seen: Seen<'_>,
    dkey: &[u8],
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    loop {
        let keys = akeys_once(seen, dkey, anchor, page).await?;
        if !keys.is_empty() || anchor.is_eof() {
            return Ok(keys);
        }
    }
}

/// One step of listing akeys.
async fn akeys_once(seen: Seen<'_>, dkey: &[u8], anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
    let Seen { way, object, at, .. } = seen;
    let from = *anchor;
    let (layer, is_hidden) = seen.layer.dkey(dkey);
    let base = if is_hidden {
        check_key(object.object_type().dkey_kind(), dkey)?;
        *anchor = Anchor::eof();
        PackedKeys::default()
    } else {
        listing::akeys_base(way, object, at, dkey, anchor, page).await?
    };
    let order = (object.object_type().akey_kind(), object.container().hash_key());
    let own = layer.into_iter().flat_map(|layer| layer.akeys.keys());
    let mut merge = KeyMerge::of(order, &base, own, from, anchor, page)?;
    while let Some((place, akey)) = merge.next() {
        let is_own = layer.is_some_and(|layer| layer.akeys.contains_key(&akey));
        if (!is_own || seen.akey(dkey, &akey).exists().await?) && !merge.take(&place, &akey, anchor)? {
            break;
        }
    }
    Ok(merge.keys)
}

/// A page of a listing into which buffered keys are merged.
struct KeyMerge {
    page: Page,
    from: Anchor,
    /// By their place: those of the target, and of the transaction those between the page's start and its last key, or the end.
    merged: btree_map::IntoIter<Vec<u8>, Key>,
    keys: PackedKeys,
    last: Anchor,
}

impl KeyMerge {
    fn of<'a>(
        (kind, secret): (KeyKind, HashKey),
        base: &PackedKeys,
        own: impl IntoIterator<Item = &'a Key>,
        from: Anchor,
        anchor: &mut Anchor,
        page: Page,
    ) -> Result<Self> {
        if page.items_max == 0 {
            return Err(Invalid::Count.into());
        }
        let mut merged = BTreeMap::new();
        if from.is_eof() {
            *anchor = Anchor::eof();
        } else {
            let position = |key: &[u8]| position(kind, secret, key);
            merged.extend(base.iter().map(|key| (position(key), Key::from_slice(key))));
            let last = merged.keys().next_back().cloned().unwrap_or_default();
            let until = if anchor.is_eof() { None } else { Some(last) };
            for key in own {
                let place = position(key);
                let after_start = place[..] > *from.position() || from.position().is_empty();
                if after_start && until.as_ref().is_none_or(|until| place <= *until) {
                    merged.insert(place, key.clone());
                }
            }
        }
        Ok(Self { page, from, merged: merged.into_iter(), keys: PackedKeys::default(), last: from })
    }

    /// The next key, be it visible or not.
    fn next(&mut self) -> Option<(Vec<u8>, Key)> {
        self.merged.next()
    }

    /// Adds a key that is visible; `false` if the page is full, and `anchor` is set back to the last that it has.
    fn take(&mut self, place: &[u8], key: &[u8], anchor: &mut Anchor) -> Result<bool> {
        let Self { page, keys, .. } = self;
        let too_long = keys.bytes.len() + key.len() > usize::try_from(page.bytes_max).unwrap_or(usize::MAX);
        if too_long && keys.is_empty() {
            *anchor = self.from;
            return Err(Error::KeyTooBig { needed_bytes: u64::try_from(key.len()).unwrap_or(u64::MAX) });
        }
        if too_long || keys.len() >= usize::try_from(page.items_max).unwrap_or(usize::MAX) {
            *anchor = self.last;
            return Ok(false);
        }
        keys.push(key);
        self.last = Anchor::after(place).ok_or(Invalid::Anchor)?;
        Ok(true)
    }
}

/// One step of listing extents.
pub(crate) async fn extents(
    seen: Seen<'_>,
    dkey: &[u8],
    akey: &[u8],
    anchor: &mut Anchor,
    items_max: u32,
) -> Result<Vec<ListedExtent>> {
    let this = seen.akey(dkey, akey);
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
        let Seen { way, object, at, .. } = seen;
        let base = listing::extents_base(way, object, at, (dkey, akey), anchor, items_max).await?;
        base.into_iter().flat_map(|extent| uncovered(&layer, extent)).collect()
    };
    let until = if anchor.is_eof() { u64::MAX } else { start_of(anchor)? };
    if until > from {
        items.extend(this.buffered(&layer, Recx::new(from, until - from)));
    }
    if let (Some(Some(value)), true) = (&layer.single, is_first) {
        let record_bytes = u64::try_from(value.len()).map_err(|_wide| Invalid::Payload)?;
        items.push(ListedExtent { recx: Recx::new(0, 1), record_bytes, epoch: seen.epoch(), single: true });
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
pub(crate) async fn query(
    seen: Seen<'_>,
    flags: QueryFlags,
    dkey: &[u8],
    akey: &[u8],
) -> Result<Option<Found>> {
    let Seen { way, object, at, layer } = seen;
    listing::check_query(object, flags)?;
    if !flags.has(QueryFlags::DKEY) {
        return query_dkey(seen, flags, dkey, akey).await;
    }
    let mut best = None;
    for dkey in layer.dkeys.keys() {
        let found = query_dkey(seen, flags, dkey, akey).await?;
        best = listing::better(object, flags, best, found);
    }
    let base =
        if layer.punched { None } else { listing::query_base(way, object, at, flags, dkey, akey).await? };
    let Some(base) = base else { return Ok(best) };
    if !layer.dkeys.contains_key(&base.dkey) {
        return Ok(listing::better(object, flags, best, Some(base)));
    }
    let is_better = |than: &[u8], dkey: &[u8]| {
        let order = listing::compare(object.object_type().dkey_kind(), dkey, than);
        if flags.has(QueryFlags::MAX) { order.is_gt() } else { order.is_lt() }
    };
    if best.as_ref().is_some_and(|best| !is_better(&best.dkey, &base.dkey)) {
        return Ok(best);
    }
    let mut dkeys = all_dkeys(way, object, at).await?;
    dkeys.retain(|dkey| {
        !layer.dkeys.contains_key(dkey) && best.as_ref().is_none_or(|best| is_better(&best.dkey, dkey))
    });
    sort_best_first(object.object_type().dkey_kind(), flags, &mut dkeys);
    for dkey in dkeys {
        let inner = QueryFlags(flags.0 & !QueryFlags::DKEY.0);
        let found = query_untouched(seen, inner, &dkey, akey).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(best)
}

/// A dkey that nothing is buffered for: the target knows, if more than its existence is asked.
async fn query_untouched(
    seen: Seen<'_>,
    flags: QueryFlags,
    dkey: &Key,
    akey: &[u8],
) -> Result<Option<Found>> {
    if !flags.has(QueryFlags::AKEY) && !flags.has(QueryFlags::RECX) {
        let found = Found { dkey: dkey.clone(), akey: Key::from_slice(akey), recx: None, record_bytes: 0 };
        return Ok(Some(found));
    }
    listing::query_base(seen.way, seen.object, seen.at, flags, dkey, akey).await
}

async fn all_dkeys(way: Way, object: &Object, at: ReadAt) -> Result<Vec<Key>> {
    let mut dkeys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        let page = listing::dkeys_of_shard(way, object, at, &mut anchor, Page::default()).await?;
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
async fn query_dkey(seen: Seen<'_>, flags: QueryFlags, dkey: &[u8], akey: &[u8]) -> Result<Option<Found>> {
    let found = |akey: &[u8], recx, record_bytes| Found {
        dkey: Key::from_slice(dkey),
        akey: Key::from_slice(akey),
        recx,
        record_bytes,
    };
    let akeys: SmallVec<[Key; 1]> = if flags.has(QueryFlags::AKEY) {
        all_akeys(seen, flags, dkey).await?
    } else if flags.has(QueryFlags::RECX) {
        smallvec![Key::from_slice(akey)]
    } else {
        return Ok(dkey_exists(seen, dkey).await?.then(|| found(akey, None, 0)));
    };
    for akey in akeys {
        if !flags.has(QueryFlags::RECX) {
            return Ok(Some(found(&akey, None, 0)));
        }
        let mut records = seen.akey(dkey, &akey).extents().await?;
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
async fn all_akeys(seen: Seen<'_>, flags: QueryFlags, dkey: &[u8]) -> Result<SmallVec<[Key; 1]>> {
    let mut keys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        let page = akeys(seen, dkey, &mut anchor, Page::default()).await?;
        keys.extend(page.iter().map(Key::from_slice));
    }
    sort_best_first(seen.object.object_type().akey_kind(), flags, &mut keys);
    Ok(keys.into())
}
