//! The data of one container: every version ever written, and what a reader at an epoch sees of them.
//!
//! Invariants: versions are never changed, only appended, except that a decision turns those of an undecided
//! transaction into committed ones or removes them.

use dolmen_codec::quota::{Given, Limits};
use dolmen_codec::verb::ContSpec;
use dolmen_types::{Epoch, Key, Oid, Recx, Stamp, TxId};
use std::collections::{BTreeMap, BTreeSet};

/// When something was written, and by which transaction if that is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) stamp: Stamp,
    pub(super) undecided: Option<TxId>,
}

#[derive(Debug)]
pub(super) struct SingleVersion {
    pub(super) origin: Origin,
    /// `None` is a removal.
    pub(super) bytes: Option<Vec<u8>>,
    /// To whom it is charged, and whether an aggregation has had to free it.
    pub(super) uid: u32,
    pub(super) freed: bool,
}

#[derive(Debug)]
pub(super) struct ExtentVersion {
    pub(super) origin: Origin,
    pub(super) recx: Recx,
    /// Bytes a record; 0 for a hole.
    pub(super) record_bytes: u64,
    pub(super) bytes: Vec<u8>,
    /// To whom it is charged, and whether an aggregation has had to free it.
    pub(super) uid: u32,
    pub(super) freed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Akey {
    pub(super) punches: Vec<Origin>,
    pub(super) singles: Vec<SingleVersion>,
    pub(super) extents: Vec<ExtentVersion>,
}

#[derive(Debug, Default)]
pub(super) struct Dkey {
    pub(super) punches: Vec<Origin>,
    pub(super) akeys: BTreeMap<Key, Akey>,
}

#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) punches: Vec<Origin>,
    pub(super) dkeys: BTreeMap<Key, Dkey>,
}

/// What there is of an object is charged to a user once the transaction is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gift {
    pub(super) stamp: Stamp,
    pub(super) tx: TxId,
    pub(super) oid: Oid,
    pub(super) uid: u32,
}

#[derive(Debug)]
pub(super) struct Cont {
    pub(super) spec: ContSpec,
    /// Writes at or below it are refused.
    pub(super) floor: Epoch,
    /// Below it only snapshots can be read.
    pub(super) oldest: Epoch,
    pub(super) snapshots: BTreeSet<Epoch>,
    /// When a rollback happened, and to which epoch it returned.
    pub(super) rollbacks: BTreeMap<Epoch, Epoch>,
    pub(super) objects: BTreeMap<Oid, Object>,
    /// Of users, and of all together.
    pub(super) limits: BTreeMap<Option<u32>, Limits>,
    /// Those that are undecided.
    pub(super) gifts: Vec<Gift>,
}

/// What a reader sees: versions before a stamp, less what rollbacks hide, and those undecided transactions
/// that are taken to be committed.
#[derive(Clone, Debug)]
pub(super) struct View {
    before: Stamp,
    hidden: Vec<(Epoch, Epoch)>,
    with: Vec<TxId>,
}

impl View {
    fn sees(&self, origin: Origin) -> bool {
        let epoch = origin.stamp.epoch;
        origin.stamp < self.before
            && !self.hidden.iter().any(|&(after, upto)| epoch > after && epoch <= upto)
            && origin.undecided.is_none_or(|tx| self.with.contains(&tx))
    }

    /// The newest punch of a list that takes part.
    fn cover(&self, punches: &[Origin]) -> Stamp {
        punches.iter().filter(|&&origin| self.sees(origin)).map(|o| o.stamp).max().unwrap_or_default()
    }
}

/// A visible part of one array update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) recx: Recx,
    pub(super) stamp: Stamp,
    pub(super) record_bytes: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The part of it that lies in `recx`.
    pub(super) fn cut(&self, recx: Recx) -> Option<Self> {
        let part = self.recx.intersect(recx)?;
        let offset = |records: u64| usize::try_from(records * self.record_bytes).expect("a part of a slice");
        let (from, len) = (offset(part.index - self.recx.index), offset(part.count));
        Some(Self { recx: part, bytes: &self.bytes[from..from + len], ..*self })
    }
}

/// What is visible of one akey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values<'a> {
    pub(super) single: Option<(&'a [u8], Stamp)>,
    /// By index.
    pub(super) pieces: BTreeMap<u64, Piece<'a>>,
}

impl Values<'_> {
    pub(super) fn exist(&self) -> bool {
        self.single.is_some() || !self.pieces.is_empty()
    }

    /// Bytes a record of the visible array; 0 if there is none.
    pub(super) fn record_bytes(&self) -> u64 {
        self.pieces.values().next().map_or(0, |piece| piece.record_bytes)
    }
}

impl Cont {
    pub(super) fn new(spec: ContSpec) -> Self {
        Self {
            spec,
            floor: Epoch::ZERO,
            oldest: Epoch::ZERO,
            snapshots: BTreeSet::new(),
            rollbacks: BTreeMap::new(),
            objects: BTreeMap::new(),
            limits: BTreeMap::new(),
            gifts: Vec::new(),
        }
    }

    /// What a read at `at` sees, were the transactions in `with` committed.
    pub(super) fn view(&self, at: Epoch, with: &[TxId]) -> View {
        self.view_before(Stamp { epoch: at.next(), minor: 0 }, with)
    }

    /// What a mutation with stamp `before` finds.
    pub(super) fn view_before(&self, before: Stamp, with: &[TxId]) -> View {
        let at = if before.minor == 0 { Epoch(before.epoch.0.saturating_sub(1)) } else { before.epoch };
        View { before, hidden: self.hidden(at), with: with.to_vec() }
    }

    fn hidden(&self, at: Epoch) -> Vec<(Epoch, Epoch)> {
        let mut hidden = Vec::new();
        let mut reader = at;
        while let Some((&rolled_at, &to)) = self.rollbacks.range(..reader).next_back() {
            hidden.push((to, rolled_at));
            reader = to;
        }
        hidden
    }

    /// What is visible of one akey.
    pub(super) fn values(&self, view: &View, oid: Oid, dkey: &[u8], akey: &[u8]) -> Values<'_> {
        let Some(object) = self.objects.get(&oid) else { return Values::default() };
        let Some(below) = object.dkeys.get(dkey) else { return Values::default() };
        let Some(slot) = below.akeys.get(akey) else { return Values::default() };
        let punches = [&object.punches, &below.punches, &slot.punches];
        let cover = punches.iter().map(|list| view.cover(list)).max().unwrap_or_default();
        let sees = |origin: Origin| view.sees(origin) && origin.stamp > cover;
        let newest = slot.singles.iter().filter(|v| sees(v.origin)).max_by_key(|v| v.origin.stamp);
        let single = newest.and_then(|v| Some((v.bytes.as_deref()?, v.origin.stamp)));
        let mut extents: Vec<_> = slot.extents.iter().filter(|v| sees(v.origin)).collect();
        extents.sort_by_key(|v| v.origin.stamp);
        let mut pieces = BTreeMap::new();
        for extent in extents {
            paint(&mut pieces, extent);
        }
        Values { single, pieces }
    }

    /// Akeys that exist.
    pub(super) fn akeys(&self, view: &View, oid: Oid, dkey: &[u8]) -> Vec<&Key> {
        let below = self.objects.get(&oid).and_then(|object| object.dkeys.get(dkey));
        let akeys = below.into_iter().flat_map(|below| below.akeys.keys());
        akeys.filter(|akey| self.values(view, oid, dkey, akey).exist()).collect()
    }

    /// Whether a dkey exists.
    pub(super) fn dkey_exists(&self, view: &View, oid: Oid, dkey: &[u8]) -> bool {
        let below = self.objects.get(&oid).and_then(|object| object.dkeys.get(dkey));
        let mut akeys = below.into_iter().flat_map(|below| below.akeys.keys());
        akeys.any(|akey| self.values(view, oid, dkey, akey).exist())
    }

    /// Dkeys that exist.
    pub(super) fn dkeys(&self, view: &View, oid: Oid) -> Vec<&Key> {
        let dkeys = self.objects.get(&oid).into_iter().flat_map(|object| object.dkeys.keys());
        dkeys.filter(|dkey| self.dkey_exists(view, oid, dkey)).collect()
    }

    /// Whether an object exists.
    pub(super) fn object_exists(&self, view: &View, oid: Oid) -> bool {
        let mut dkeys = self.objects.get(&oid).into_iter().flat_map(|object| object.dkeys.keys());
        dkeys.any(|dkey| self.dkey_exists(view, oid, dkey))
    }

    /// The slot of an akey, made if need be.
    pub(super) fn slot(&mut self, oid: Oid, dkey: &Key, akey: &Key) -> &mut Akey {
        self.dkey(oid, dkey).akeys.entry(akey.clone()).or_default()
    }

    /// The slot of a dkey, made if need be.
    pub(super) fn dkey(&mut self, oid: Oid, dkey: &Key) -> &mut Dkey {
        self.objects.entry(oid).or_default().dkeys.entry(dkey.clone()).or_default()
    }

    /// Turns what a transaction wrote in some objects into committed versions, or removes it.
    /// Returns what it gives.
    pub(super) fn decide(&mut self, tx: TxId, oids: &BTreeSet<Oid>, commit: bool) -> Given {
        let keep = |origin: &mut Origin| {
            let own = origin.undecided == Some(tx);
            if own {
                origin.undecided = None;
            }
            commit || !own
        };
        for object in oids.iter() {
            let Some(object) = self.objects.get_mut(object) else { continue };
            object.punches.retain_mut(keep);
            for dkey in object.dkeys.values_mut() {
                dkey.punches.retain_mut(keep);
                for akey in dkey.akeys.values_mut() {
                    akey.punches.retain_mut(keep);
                    akey.singles.retain_mut(|version| keep(&mut version.origin));
                    akey.extents.retain_mut(|version| keep(&mut version.origin));
                }
            }
        }
        let (own, others) = core::mem::take(&mut self.gifts).into_iter().partition(|gift| gift.tx == tx);
        self.gifts = others;
        let mut given = Given::default();
        if commit {
            let own: Vec<Gift> = own;
            own.iter().for_each(|gift| self.give(gift, &mut given));
        }
        given
    }

    /// Whether the state at `at` can still be read.
    pub(super) fn keeps(&self, at: Epoch) -> bool {
        at >= self.oldest || self.snapshots.contains(&at)
    }

    /// All versions of values, and the bytes in them.
    pub(super) fn usage(&self) -> (u64, u64) {
        let (mut versions, mut value_bytes) = (0, 0);
        let akeys = self.objects.values().flat_map(|o| o.dkeys.values()).flat_map(|d| d.akeys.values());
        for akey in akeys {
            let singles = akey.singles.iter().map(|v| v.bytes.as_ref().map_or(0, Vec::len));
            for bytes in singles.chain(akey.extents.iter().map(|v| v.bytes.len())) {
                versions += 1;
                value_bytes += bytes as u64;
            }
        }
        (versions, value_bytes)
    }
}

/// Lays an extent over what was written before it.
fn paint<'a>(pieces: &mut BTreeMap<u64, Piece<'a>>, extent: &'a ExtentVersion) {
    let (start, end) = (extent.recx.index, extent.recx.end().expect("checked when it was written"));
    let first = pieces.range(..start).next_back().map_or(start, |(&index, _)| index);
    let touched: Vec<u64> = pieces.range(first..end).map(|(&index, _)| index).collect();
    for index in touched {
        let old = pieces.remove(&index).expect("it was just listed");
        let old_end = old.recx.end().expect("a part of a checked extent");
        let before = Recx::new(old.recx.index, start.saturating_sub(old.recx.index));
        let after = Recx::new(end, old_end.saturating_sub(end));
        for rest in [before, after].into_iter().filter(|rest| rest.count > 0) {
            if let Some(piece) = old.cut(rest) {
                pieces.insert(piece.recx.index, piece);
            }
        }
    }
    if extent.record_bytes > 0 {
        let Origin { stamp, .. } = extent.origin;
        let piece =
            Piece { recx: extent.recx, stamp, record_bytes: extent.record_bytes, bytes: &extent.bytes };
        pieces.insert(start, piece);
    }
}
