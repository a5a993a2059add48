//! What a transaction has written so far, as a layer over what the targets hold.
//!
//! Invariants: pieces of an array are disjoint and not empty; a punched level hides all of the base below it,
//! and what is in the overlay below it was written after the punch.

use super::shared::SharedMap;
use core::ops::Bound;
use dolmen_codec::verb::{NewValue, PunchScope, UpdateIod};
use dolmen_types::{Oid, Recx};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All buffered writes by place.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Shared with reads under way, which see what was there when they began. A change of one that is shared copies the way
    /// to the akey that it changes, and that akey.
    objects: BTreeMap<Oid, Arc<ObjectLayer>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectLayer {
    pub(crate) punched: bool,
    pub(crate) dkeys: SharedMap<DkeyLayer>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DkeyLayer {
    pub(crate) punched: bool,
    pub(crate) akeys: SharedMap<AkeyLayer>,
}

/// The buffered state of one akey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AkeyLayer {
    pub(crate) punched: bool,
    /// `Some(None)` for a removed single value.
    pub(crate) single: Option<Option<Arc<[u8]>>>,
    /// By first record.
    pieces: BTreeMap<u64, Piece>,
    pub(crate) record_bytes: u64,
}

/// Records written (with data) or removed (without).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    end: u64,
    data: Option<Slice>,
}

/// Bytes of a shared payload from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    payload: Arc<[u8]>,
    start: usize,
}

impl Slice {
    /// `len` bytes, `skip` bytes from its start.
    pub(crate) fn bytes(&self, skip: usize, len: usize) -> &[u8] {
        &self.payload[self.start + skip..self.start + skip + len]
    }

    fn skipped(&self, skip: usize) -> Self {
        Self { payload: Arc::clone(&self.payload), start: self.start + skip }
    }
}

impl Overlay {
    pub(crate) fn object(&self, oid: Oid) -> Option<&Arc<ObjectLayer>> {
        self.objects.get(&oid)
    }

    /// What is buffered of one object.
    pub(crate) fn only(&self, oid: Oid) -> Self {
        Self { objects: self.objects.get(&oid).map(|layer| (oid, Arc::clone(layer))).into_iter().collect() }
    }

    fn object_mut(&mut self, oid: Oid) -> &mut ObjectLayer {
        Arc::make_mut(self.objects.entry(oid).or_default())
    }

    /// Applies one iod; `payload` holds its bytes.
    pub(crate) fn update(&mut self, oid: Oid, dkey: &[u8], iod: &UpdateIod<'_>, payload: &Arc<[u8]>) {
        let akey = self.object_mut(oid).dkeys.entry(dkey).akeys.entry(&iod.akey);
        match &iod.value {
            NewValue::Single(_) => akey.single = Some(Some(Arc::clone(payload))),
            NewValue::NoSingle => akey.single = Some(None),
            NewValue::Array { record_bytes, extents, .. } => akey.write(*record_bytes, extents, payload),
            NewValue::Hole { extents } => {
                for recx in extents {
                    akey.set(*recx, None);
                }
            }
        }
    }

    pub(crate) fn punch(&mut self, oid: Oid, scope: &PunchScope) {
        let object = self.object_mut(oid);
        match scope {
            PunchScope::Object => *object = ObjectLayer { punched: true, dkeys: SharedMap::default() },
            PunchScope::Dkey(dkey) => {
                object.dkeys.insert(dkey, DkeyLayer { punched: true, akeys: SharedMap::default() });
            }
            PunchScope::Akeys(dkey, akeys) => {
                let dkey = object.dkeys.entry(dkey);
                for akey in akeys {
                    dkey.akeys.insert(akey, AkeyLayer { punched: true, ..AkeyLayer::default() });
                }
            }
        }
    }
}

impl ObjectLayer {
    /// The layer of a dkey, and whether the base below it is hidden.
    pub(crate) fn dkey(&self, dkey: &[u8]) -> (Option<&DkeyLayer>, bool) {
        let layer = self.dkeys.get(dkey);
        (layer, self.punched || layer.is_some_and(|dkey| dkey.punched))
    }

    /// Whether anything is to be laid over what the target holds of a dkey.
    pub(crate) fn touches(&self, dkey: &[u8]) -> bool {
        let (layer, is_hidden) = self.dkey(dkey);
        layer.is_some() || is_hidden
    }

    /// The layer of an akey, and whether the base below it is hidden.
    pub(crate) fn akey(&self, dkey: &[u8], akey: &[u8]) -> (Option<&AkeyLayer>, bool) {
        let (layer, is_hidden) = self.dkey(dkey);
        let layer = layer.and_then(|dkey| dkey.akeys.get(akey));
        (layer, is_hidden || layer.is_some_and(|akey| akey.punched))
    }
}

impl DkeyLayer {
    pub(crate) fn has_data(&self) -> bool {
        self.akeys.values().any(|akey| akey.has_single() || akey.has_records())
    }
}

impl AkeyLayer {
    pub(crate) fn has_single(&self) -> bool {
        matches!(self.single, Some(Some(_)))
    }

    pub(crate) fn has_records(&self) -> bool {
        self.pieces.values().any(|piece| piece.data.is_some())
    }

    pub(crate) fn has_holes(&self) -> bool {
        self.pieces.values().any(|piece| piece.data.is_none())
    }

    fn write(&mut self, record_bytes: u64, extents: &[Recx], payload: &Arc<[u8]>) {
        self.record_bytes = record_bytes;
        let mut start = 0;
        for recx in extents {
            self.set(*recx, Some(Slice { payload: Arc::clone(payload), start }));
            start += self.byte_len(recx.count);
        }
    }

    fn byte_len(&self, records: u64) -> usize {
        usize::try_from(records * self.record_bytes).expect("bytes of a payload in memory")
    }

    /// Puts a piece over whatever was there.
    fn set(&mut self, recx: Recx, data: Option<Slice>) {
        let end = recx.index.saturating_add(recx.count);
        assert!(recx.index < end);
        if let Some((&start, left)) = self.pieces.range_mut(..recx.index).next_back()
            && left.end > recx.index
        {
            let old = left.clone();
            left.end = recx.index;
            self.keep_right(start, old, end);
        }
        while let Some((&start, _)) =
            self.pieces.range((Bound::Included(recx.index), Bound::Excluded(end))).next()
        {
            if let Some(old) = self.pieces.remove(&start) {
                self.keep_right(start, old, end);
            }
        }
        self.pieces.insert(recx.index, Piece { end, data });
    }

    /// Keeps what of the old piece at `start` lies at or after `from`.
    fn keep_right(&mut self, start: u64, old: Piece, from: u64) {
        if old.end > from {
            let data = old.data.map(|slice| slice.skipped(self.byte_len(from - start)));
            self.pieces.insert(from, Piece { end: old.end, data });
        }
    }

    /// The pieces that touch records of `hull`, cut to it, ascending.
    pub(crate) fn pieces_in(&self, hull: Recx) -> Vec<(Recx, Option<Slice>)> {
        let end = hull.index.saturating_add(hull.count);
        let first = self.pieces.range(..hull.index).next_back().filter(|(_, piece)| piece.end > hull.index);
        let rest = self.pieces.range((Bound::Included(hull.index), Bound::Excluded(end)));
        let cut = |(&start, piece): (&u64, &Piece)| {
            let (from, to) = (start.max(hull.index), piece.end.min(end));
            let data = piece.data.as_ref().map(|slice| slice.skipped(self.byte_len(from - start)));
            (Recx::new(from, to - from), data)
        };
        first.into_iter().chain(rest).map(cut).collect()
    }

    /// The parts of `recx` that no piece covers.
    pub(crate) fn uncovered(&self, recx: Recx) -> Vec<Recx> {
        let end = recx.index.saturating_add(recx.count);
        let mut at = recx.index;
        let mut parts = Vec::new();
        for (piece, _) in self.pieces_in(recx) {
            if piece.index > at {
                parts.push(Recx::new(at, piece.index - at));
            }
            at = piece.index + piece.count;
        }
        if at < end {
            parts.push(Recx::new(at, end - at));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Key;
    use proptest::prelude::*;

    /// The overlay against a plain map of records: `Some(None)` is a hole.
    fn replay(writes: &[(u64, u64, bool)]) -> (AkeyLayer, BTreeMap<u64, Option<[u8; 2]>>) {
        let (mut layer, mut plain) = (AkeyLayer::default(), BTreeMap::new());
        for (number, &(index, count, is_data)) in writes.iter().enumerate() {
            let recx = Recx::new(index, count);
            let mark = u8::try_from(number).unwrap();
            if is_data {
                let bytes: Vec<u8> = (0..count).flat_map(|n| [mark, u8::try_from(n).unwrap()]).collect();
                layer.write(2, &[recx], &Arc::from(bytes));
            } else {
                layer.set(recx, None);
            }
            for n in 0..count {
                plain.insert(index + n, is_data.then(|| [mark, u8::try_from(n).unwrap()]));
            }
        }
        (layer, plain)
    }

    proptest! {
        #[test]
        fn the_latest_piece_wins_everywhere(
            writes in prop::collection::vec((0_u64..60, 1_u64..30, any::<bool>()), 0..12),
            index in 0_u64..60,
            count in 1_u64..60,
        ) {
            let (layer, plain) = replay(&writes);
            let hull = Recx::new(index, count);
            let mut found = BTreeMap::new();
            for (recx, data) in layer.pieces_in(hull) {
                for n in 0..recx.count {
                    let skip = usize::try_from(n).unwrap() * 2;
                    let bytes = data.as_ref().map(|slice| <[u8; 2]>::try_from(slice.bytes(skip, 2)).unwrap());
                    prop_assert!(found.insert(recx.index + n, bytes).is_none());
                }
            }
            let expected: BTreeMap<_, _> = plain.range(index..index + count).map(|(k, v)| (*k, *v)).collect();
            prop_assert_eq!(&found, &expected);
            let uncovered: Vec<u64> = layer.uncovered(hull).iter().flat_map(|r| r.index..r.index + r.count).collect();
            prop_assert_eq!(uncovered, (index..index + count).filter(|i| !plain.contains_key(i)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_punch_hides_the_base_and_clears_what_was_written_before() {
        let mut overlay = Overlay::default();
        let oid = Oid { hi: 1, lo: 2 };
        let value = NewValue::Single(dolmen_codec::verb::Payload::Ref(b"v"));
        let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: dolmen_types::Cond::NONE, value };
        overlay.update(oid, b"d", &iod, &Arc::from(&b"v"[..]));
        let before = Arc::clone(overlay.object(oid).unwrap());
        assert!(before.akey(b"d", b"a").0.unwrap().has_single());
        assert!(!before.akey(b"d", b"a").1);
        overlay.punch(oid, &PunchScope::Object);
        assert_eq!(overlay.object(oid).unwrap().akey(b"d", b"a"), (None, true));
        assert!(before.akey(b"d", b"a").0.unwrap().has_single(), "who began before sees what was there");
        overlay.update(oid, b"d", &iod, &Arc::from(&b"v"[..]));
        let after = Arc::clone(overlay.object(oid).unwrap());
        assert!(after.akey(b"d", b"a").0.unwrap().has_single() && after.akey(b"d", b"a").1);
        overlay.punch(
            oid,
            &PunchScope::Akeys(Key::from_slice(b"d"), smallvec::smallvec![Key::from_slice(b"a")]),
        );
        assert!(!overlay.object(oid).unwrap().akey(b"d", b"a").0.unwrap().has_single());
    }

    fn single(akey: u64) -> UpdateIod<'static> {
        let value = NewValue::Single(dolmen_codec::verb::Payload::Ref(b"v"));
        UpdateIod { akey: Key::from_slice(&akey.to_le_bytes()), cond: dolmen_types::Cond::NONE, value }
    }

    #[test]
    fn a_write_beside_reads_under_way_copies_one_akey_however_much_is_buffered() {
        const COUNT: u64 = 600;
        let (mut overlay, oid, payload) = (Overlay::default(), Oid { hi: 1, lo: 2 }, Arc::from(&b"v"[..]));
        let dkey = |number: u64| (number % 20).to_le_bytes();
        let mut under_way = Vec::new();
        for number in 0..COUNT {
            overlay.update(oid, &dkey(number), &single(number), &payload);
            under_way.push(overlay.only(oid));
        }
        for number in 0..COUNT {
            let before = Arc::clone(overlay.object(oid).unwrap());
            // Of a dkey that was written before, of an akey that was, and of others.
            overlay.update(oid, &dkey(number), &single(number * 2), &payload);
            let after = overlay.object(oid).unwrap();
            let (nodes, dkeys) = after.dkeys.apart_from(&before.dkeys);
            assert!(nodes <= 8 && dkeys == 1, "{nodes} nodes, {dkeys} dkeys");
            let akeys = |object: &ObjectLayer| object.dkey(&dkey(number)).0.unwrap().akeys.clone();
            let (nodes, akeys) = akeys(after).apart_from(&akeys(&before));
            assert!(nodes <= 10 && akeys == 1, "{nodes} nodes, {akeys} akeys");
        }
        for (number, seen) in (0..).zip(&under_way) {
            let object = seen.object(oid).unwrap();
            let akeys: usize = object.dkeys.values().map(|dkey| dkey.akeys.keys().count()).sum();
            assert_eq!(akeys, number + 1, "what a read sees is what was there when it began");
        }
    }
}
