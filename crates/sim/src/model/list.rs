//! Enumerations: everything that is visible is listed and sorted, then the part after the anchor is returned.

use super::data::{Cont, Values, View};
use super::read::{Answer, encoded};
use dolmen_codec::order;
use dolmen_codec::verb::{Change, ChangeKind, List, ListWhat, Listed, ListedExtent, PackedKeys};
use dolmen_types::{Anchor, AnchorState, Epoch, Error, Invalid, Key, KeyKind, Oid, Recx, TxId, limits};

/// Checks what can be checked of an enumeration without data.
pub(super) fn check_list(list: &List) -> Result<(), Error> {
    if list.items_max == 0 {
        return Err(Invalid::Count.into());
    }
    let kinds = |oid: Oid| oid.object_type().map(|t| (t.dkey_kind(), t.akey_kind())).ok_or(Invalid::ObjectId);
    let position_bytes = match &list.what {
        ListWhat::Objects => 16..=16,
        ListWhat::Dkeys(oid) => position_bytes(kinds(*oid)?.0),
        ListWhat::Akeys(oid, dkey) => {
            let (dkey_kind, akey_kind) = kinds(*oid)?;
            order::check_key(dkey_kind, dkey)?;
            position_bytes(akey_kind)
        }
        ListWhat::Extents(oid, dkey, akey) => {
            let (dkey_kind, akey_kind) = kinds(*oid)?;
            order::check_key(dkey_kind, dkey)?;
            order::check_key(akey_kind, akey)?;
            8..=8
        }
        ListWhat::Changes { .. } => 8..=8,
    };
    let anchor = &list.anchor;
    if anchor.state() == AnchorState::After && !position_bytes.contains(&anchor.position().len()) {
        return Err(Invalid::Anchor.into());
    }
    Ok(())
}

fn position_bytes(kind: KeyKind) -> core::ops::RangeInclusive<usize> {
    match kind {
        KeyKind::Hashed => 16..=16,
        KeyKind::Uint64 => 8..=8,
        KeyKind::Lexical => 1..=limits::LEXICAL_KEY_BYTES_MAX,
    }
}

pub(super) fn list(cont: &Cont, view: &View, list: &List, with: &[TxId]) -> Result<Answer, Error> {
    check_list(list)?;
    let (listed, anchor) = match &list.what {
        ListWhat::Objects => objects(cont, view, list),
        ListWhat::Dkeys(oid) => {
            let kind = oid.object_type().ok_or(Invalid::ObjectId)?.dkey_kind();
            keys(cont, kind, cont.dkeys(view, *oid), list)?
        }
        ListWhat::Akeys(oid, dkey) => {
            let kind = oid.object_type().ok_or(Invalid::ObjectId)?.akey_kind();
            keys(cont, kind, cont.akeys(view, *oid, dkey), list)?
        }
        ListWhat::Extents(oid, dkey, akey) => extents(&cont.values(view, *oid, dkey, akey), list),
        ListWhat::Changes { from, to } => changes(cont, (*from, *to), with, list),
    };
    Ok(Answer::Listed(listed, anchor))
}

fn items_max(list: &List) -> usize {
    usize::try_from(list.items_max).unwrap_or(usize::MAX)
}

/// Where to resume after an item at `position`, or the end if there is nothing more.
fn next_anchor(more: bool, position: &[u8]) -> Anchor {
    if more { Anchor::after(position).expect("positions of every kind fit an anchor") } else { Anchor::eof() }
}

fn objects(cont: &Cont, view: &View, list: &List) -> (Listed, Anchor) {
    if list.anchor.is_eof() {
        return (Listed::Objects(Vec::new()), Anchor::eof());
    }
    // Positions order as bytes, so the objects do as well: stable, which is all that is promised.
    let exist = cont.objects.keys().filter(|oid| cont.object_exists(view, **oid));
    let mut oids: Vec<[u8; 16]> = exist.map(|oid| oid.to_bytes()).collect();
    oids.retain(|oid| oid.as_slice() > list.anchor.position());
    oids.sort_unstable();
    let more = oids.len() > items_max(list);
    oids.truncate(items_max(list));
    let anchor = next_anchor(more, oids.last().map_or(&[], |oid| oid));
    (Listed::Objects(oids.into_iter().map(Oid::from_bytes).collect()), anchor)
}

fn keys(cont: &Cont, kind: KeyKind, keys: Vec<&Key>, list: &List) -> Result<(Listed, Anchor), Error> {
    if list.anchor.is_eof() {
        return Ok((Listed::Keys(PackedKeys::default()), Anchor::eof()));
    }
    let place = |key: &Key| if kind == KeyKind::Lexical { key.to_vec() } else { encoded(cont, kind, key) };
    let mut keys: Vec<(Vec<u8>, &Key)> = keys.into_iter().map(|key| (place(key), key)).collect();
    keys.sort();
    keys.retain(|(place, _)| place.as_slice() > list.anchor.position());
    let mut packed = PackedKeys::default();
    let mut position: &[u8] = &[];
    for (place, key) in &keys {
        let bytes = packed.bytes.len() + key.len();
        if packed.len() == items_max(list) || bytes > usize::try_from(list.bytes_max).unwrap_or(usize::MAX) {
            break;
        }
        packed.push(key);
        position = place;
    }
    if let (true, Some((_, key))) = (packed.is_empty(), keys.first()) {
        return Err(Error::KeyTooBig { needed_bytes: key.len() as u64 });
    }
    let anchor = next_anchor(packed.len() < keys.len(), position);
    Ok((Listed::Keys(packed), anchor))
}

/// The single value first, which lies before record 0, then the pieces of the array.
fn extents(values: &Values<'_>, list: &List) -> (Listed, Anchor) {
    let next_index = match list.anchor.state() {
        AnchorState::Start => None,
        AnchorState::After => Some(order::key_number(list.anchor.position())),
        AnchorState::Eof => return (Listed::Extents(Vec::new()), Anchor::eof()),
    };
    let mut items = Vec::new();
    if let (None, Some((bytes, stamp))) = (next_index, values.single) {
        let (recx, record_bytes) = (Recx::new(0, 1), bytes.len() as u64);
        items.push((0, ListedExtent { recx, record_bytes, epoch: stamp.epoch, single: true }));
    }
    let from = next_index.unwrap_or(0);
    let rest = Recx::new(from, u64::MAX - from);
    for piece in values.pieces.values().filter_map(|piece| piece.cut(rest)) {
        let end = piece.recx.index + piece.recx.count;
        let (epoch, record_bytes) = (piece.stamp.epoch, piece.record_bytes);
        items.push((end, ListedExtent { recx: piece.recx, record_bytes, epoch, single: false }));
    }
    let more = items.len() > items_max(list);
    items.truncate(items_max(list));
    let anchor = next_anchor(more, &items.last().map_or(0, |item| item.0).to_le_bytes());
    (Listed::Extents(items.into_iter().map(|item| item.1).collect()), anchor)
}

/// Resumes by ordinal: both states are in the past, so their difference does not change.
fn changes(cont: &Cont, (from, to): (Epoch, Epoch), with: &[TxId], list: &List) -> (Listed, Anchor) {
    let done = match list.anchor.state() {
        AnchorState::Start => 0,
        AnchorState::After => {
            usize::try_from(order::key_number(list.anchor.position())).unwrap_or(usize::MAX)
        }
        AnchorState::Eof => return (Listed::Changes(Vec::new()), Anchor::eof()),
    };
    let (older, newer) = (cont.view(from, with), cont.view(to, with));
    let mut changes = Vec::new();
    for (&oid, object) in &cont.objects {
        for (dkey, below) in &object.dkeys {
            for akey in below.akeys.keys() {
                let (old, new) = (cont.values(&older, oid, dkey, akey), cont.values(&newer, oid, dkey, akey));
                if let Some(kind) = change(&old, &new) {
                    changes.push(Change { oid, dkey: dkey.clone(), akey: akey.clone(), kind });
                }
            }
        }
    }
    let page: Vec<Change> = changes.iter().skip(done).take(items_max(list)).cloned().collect();
    let done = done.saturating_add(page.len());
    let anchor = next_anchor(done < changes.len(), &(done as u64).to_le_bytes());
    (Listed::Changes(page), anchor)
}

fn change(old: &Values<'_>, new: &Values<'_>) -> Option<ChangeKind> {
    match (old.exist(), new.exist()) {
        (false, false) => None,
        (false, true) => Some(ChangeKind::Added),
        (true, false) => Some(ChangeKind::Removed),
        // Pieces carry their stamps, so a value written again with equal bytes differs.
        (true, true) => (old != new).then_some(ChangeKind::Modified),
    }
}
