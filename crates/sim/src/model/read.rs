//! Questions to the data of a container, and their answers: pure functions of data and view.

use super::data::{Cont, Values, View};
use super::list;
use dolmen_codec::order;
use dolmen_codec::verb::{FetchIod, FetchedIod, Found, List, ListWhat, Listed, Query, Want};
use dolmen_types::limits;
use dolmen_types::{Anchor, Cond, Epoch, Error, Invalid, Key, KeyKind, Oid, QueryFlags, Recx, Stamp, TxId};
use smallvec::SmallVec;

/// Anything that can be asked of the data, also by a mutation before it writes.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Fetch { oid: Oid, dkey: Key, cond: Cond, iods: SmallVec<[FetchIod; 1]>, room_bytes: usize },
    List(List),
    Query(Query),
    Update { oid: Oid, dkey: Key, cond: Cond, akeys: Vec<AkeyTerms> },
    PunchObject(Oid),
    PunchDkey(Oid, Key),
    PunchAkeys(Oid, Key, Vec<Key>),
}

/// What an update requires of an akey.
#[derive(Clone, Debug)]
pub(super) struct AkeyTerms {
    pub(super) akey: Key,
    pub(super) cond: Cond,
    /// The size that records must have if there are any; 0 if it does not matter.
    pub(super) record_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// By iod; and what goes where in the buffer.
    Fetched(SmallVec<[FetchedIod; 1]>, Vec<(usize, Vec<u8>)>),
    Listed(Listed, Anchor),
    Found(Option<Found>),
    /// All conditions are met.
    Met,
}

/// From where data is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Position {
    /// A read at an epoch.
    At(Epoch),
    /// A mutation that will have this stamp.
    Before(Stamp),
}

impl Question {
    /// The object that the answer depends on; `None` if it depends on all.
    pub(super) fn oid(&self) -> Option<Oid> {
        match self {
            Self::Fetch { oid, .. } | Self::Update { oid, .. } => Some(*oid),
            Self::PunchObject(oid) | Self::PunchDkey(oid, _) | Self::PunchAkeys(oid, ..) => Some(*oid),
            Self::Query(query) => Some(query.oid),
            Self::List(list) => match &list.what {
                ListWhat::Dkeys(oid) | ListWhat::Akeys(oid, _) | ListWhat::Extents(oid, ..) => Some(*oid),
                ListWhat::Objects | ListWhat::Changes { .. } => None,
            },
        }
    }

    /// The answer, were the transactions in `with` committed.
    pub(super) fn answer(&self, cont: &Cont, from: Position, with: &[TxId]) -> Result<Answer, Error> {
        let view = match from {
            Position::At(epoch) => cont.view(epoch, with),
            Position::Before(stamp) => cont.view_before(stamp, with),
        };
        match self {
            Self::Fetch { oid, dkey, cond, iods, room_bytes } => {
                fetch(cont, &view, (*oid, dkey), *cond, iods, *room_bytes)
            }
            Self::List(list) => list::list(cont, &view, list, with),
            Self::Query(ask) => query(cont, &view, ask).map(Answer::Found),
            Self::Update { oid, dkey, cond, akeys } => update_terms(cont, &view, (*oid, dkey), *cond, akeys),
            Self::PunchObject(oid) => met(cont.object_exists(&view, *oid), Error::NotFound),
            Self::PunchDkey(oid, dkey) => met(cont.dkey_exists(&view, *oid, dkey), Error::NotFound),
            Self::PunchAkeys(oid, dkey, akeys) => {
                let exist = akeys.iter().all(|akey| cont.values(&view, *oid, dkey, akey).exist());
                met(exist, Error::NotFound)
            }
        }
    }
}

fn met(holds: bool, error: Error) -> Result<Answer, Error> {
    if holds { Ok(Answer::Met) } else { Err(error) }
}

fn update_terms(
    cont: &Cont,
    view: &View,
    (oid, dkey): (Oid, &Key),
    cond: Cond,
    akeys: &[AkeyTerms],
) -> Result<Answer, Error> {
    if cond.has(Cond::DKEY_INSERT) {
        met(!cont.dkey_exists(view, oid, dkey), Error::Exists)?;
    }
    if cond.has(Cond::DKEY_UPDATE) {
        met(cont.dkey_exists(view, oid, dkey), Error::NotFound)?;
    }
    for terms in akeys {
        let values = cont.values(view, oid, dkey, &terms.akey);
        let cond = if cond.has(Cond::PER_AKEY) { terms.cond } else { cond };
        if cond.has(Cond::AKEY_INSERT) {
            met(!values.exist(), Error::Exists)?;
        }
        if cond.has(Cond::AKEY_UPDATE) {
            met(values.exist(), Error::NotFound)?;
        }
    }
    for terms in akeys.iter().filter(|terms| terms.record_bytes > 0) {
        check_record_bytes(&cont.values(view, oid, dkey, &terms.akey), terms.record_bytes)?;
    }
    Ok(Answer::Met)
}

fn check_record_bytes(values: &Values<'_>, record_bytes: u64) -> Result<(), Error> {
    let stored_bytes = values.record_bytes();
    if stored_bytes != 0 && stored_bytes != record_bytes {
        return Err(Error::RecordSize { stored_bytes });
    }
    Ok(())
}

/// Checks what can be checked of a fetch without data.
pub(super) fn check_fetch(iods: &[FetchIod], room_bytes: usize) -> Result<(), Error> {
    if iods.is_empty() || iods.len() > limits::IODS_MAX {
        return Err(Invalid::Count.into());
    }
    let mut needed_bytes: u128 = 0;
    for iod in iods {
        match &iod.want {
            Want::Size => {}
            Want::Single { room_bytes } => needed_bytes += *room_bytes as u128,
            Want::Array { record_bytes, extents } => {
                if *record_bytes == 0 || *record_bytes > limits::RECORD_BYTES_MAX {
                    return Err(Invalid::RecordSize.into());
                }
                if extents.is_empty() || extents.len() > limits::EXTENTS_MAX {
                    return Err(Invalid::Count.into());
                }
                if extents.iter().any(|recx| recx.count == 0 || recx.end().is_none()) {
                    return Err(Invalid::Extent.into());
                }
                let records: u128 = extents.iter().map(|recx| u128::from(recx.count)).sum();
                needed_bytes += records * u128::from(*record_bytes);
            }
        }
    }
    if needed_bytes > room_bytes as u128 { Err(Invalid::Payload.into()) } else { Ok(()) }
}

fn fetch(
    cont: &Cont,
    view: &View,
    (oid, dkey): (Oid, &Key),
    cond: Cond,
    iods: &[FetchIod],
    room_bytes: usize,
) -> Result<Answer, Error> {
    check_fetch(iods, room_bytes)?;
    if cond.has(Cond::DKEY_FETCH) {
        met(cont.dkey_exists(view, oid, dkey), Error::NotFound)?;
    }
    let (mut found, mut fill, mut part) = (SmallVec::new(), Vec::new(), 0);
    for iod in iods {
        let values = cont.values(view, oid, dkey, &iod.akey);
        if cond.has(Cond::AKEY_FETCH) {
            met(values.exist(), Error::NotFound)?;
        }
        let single_bytes = values.single.map_or(0, |(bytes, _)| bytes.len() as u64);
        match &iod.want {
            Want::Size => {
                let size_bytes = if single_bytes > 0 { single_bytes } else { values.record_bytes() };
                found.push(FetchedIod { size_bytes, filled: SmallVec::new(), is_end: false });
            }
            Want::Single { room_bytes } => {
                if single_bytes > *room_bytes as u64 {
                    return Err(Error::RecTooBig { needed_bytes: single_bytes });
                }
                fill.extend(values.single.map(|(bytes, _)| (part, bytes.to_vec())));
                found.push(FetchedIod { size_bytes: single_bytes, filled: SmallVec::new(), is_end: false });
                part += room_bytes;
            }
            Want::Array { record_bytes, extents } => {
                check_record_bytes(&values, *record_bytes)?;
                let filled = fetch_records(&values, *record_bytes, extents, &mut part, &mut fill);
                found.push(FetchedIod { size_bytes: values.record_bytes(), filled, is_end: false });
            }
        }
    }
    Ok(Answer::Fetched(found, fill))
}

/// Copies what is visible of each wanted extent; says which parts of them that is, ascending.
fn fetch_records(
    values: &Values<'_>,
    record_bytes: u64,
    extents: &[Recx],
    part: &mut usize,
    fill: &mut Vec<(usize, Vec<u8>)>,
) -> SmallVec<[Recx; 1]> {
    let offset = |records: u64| usize::try_from(records * record_bytes).expect("it fits the buffer");
    let mut filled = Vec::new();
    for wanted in extents {
        for piece in values.pieces.values().filter_map(|piece| piece.cut(*wanted)) {
            filled.push(piece.recx);
            fill.push((*part + offset(piece.recx.index - wanted.index), piece.bytes.to_vec()));
        }
        *part += offset(wanted.count);
    }
    merge(filled)
}

/// The same records as ascending extents that do not touch.
fn merge(mut parts: Vec<Recx>) -> SmallVec<[Recx; 1]> {
    parts.sort_unstable();
    let mut merged: SmallVec<[Recx; 1]> = SmallVec::new();
    for part in parts {
        let end = part.end().expect("a part of a checked extent");
        match merged.last_mut() {
            Some(last) if last.index + last.count >= part.index => {
                last.count = last.count.max(end - last.index);
            }
            _ => merged.push(part),
        }
    }
    merged
}

/// Checks what can be checked of a query without data.
pub(super) fn check_query(query: &Query) -> Result<(), Error> {
    let has = |flag| query.flags.has(flag);
    let levels = QueryFlags::DKEY.0 | QueryFlags::AKEY.0 | QueryFlags::RECX.0;
    let known = levels | QueryFlags::MAX.0 | QueryFlags::MIN.0;
    if has(QueryFlags::MAX) == has(QueryFlags::MIN)
        || query.flags.0 & levels == 0
        || query.flags.0 & !known != 0
    {
        return Err(Invalid::Flags.into());
    }
    let object_type = query.oid.object_type().ok_or(Invalid::ObjectId)?;
    let unordered = |flag, kind| has(flag) && kind == KeyKind::Hashed;
    if unordered(QueryFlags::DKEY, object_type.dkey_kind())
        || unordered(QueryFlags::AKEY, object_type.akey_kind())
    {
        return Err(Invalid::Query.into());
    }
    if !has(QueryFlags::DKEY) {
        order::check_key(object_type.dkey_kind(), &query.dkey)?;
    }
    if has(QueryFlags::RECX) && !has(QueryFlags::AKEY) {
        order::check_key(object_type.akey_kind(), &query.akey)?;
    }
    Ok(())
}

fn query(cont: &Cont, view: &View, query: &Query) -> Result<Option<Found>, Error> {
    check_query(query)?;
    let object_type = query.oid.object_type().ok_or(Invalid::ObjectId)?;
    let has = |flag| query.flags.has(flag);
    let ordered = |keys: Vec<&Key>, kind: KeyKind| {
        let mut keys: Vec<(Vec<u8>, Key)> =
            keys.into_iter().map(|k| (encoded(cont, kind, k), k.clone())).collect();
        keys.sort();
        if has(QueryFlags::MAX) {
            keys.reverse();
        }
        keys.into_iter().map(|(_, key)| key).collect::<Vec<_>>()
    };
    let dkeys = if has(QueryFlags::DKEY) {
        ordered(cont.dkeys(view, query.oid), object_type.dkey_kind())
    } else {
        vec![query.dkey.clone()]
    };
    for dkey in dkeys {
        if !has(QueryFlags::AKEY) && !has(QueryFlags::RECX) {
            return Ok(Some(Found { dkey, akey: query.akey.clone(), ..Found::default() }));
        }
        let akeys = if has(QueryFlags::AKEY) {
            ordered(cont.akeys(view, query.oid, &dkey), object_type.akey_kind())
        } else {
            vec![query.akey.clone()]
        };
        for akey in akeys {
            if !has(QueryFlags::RECX) {
                return Ok(Some(Found { dkey, akey, ..Found::default() }));
            }
            let values = cont.values(view, query.oid, &dkey, &akey);
            let piece = if has(QueryFlags::MAX) {
                values.pieces.values().next_back()
            } else {
                values.pieces.values().next()
            };
            if let Some(piece) = piece {
                let last = piece.recx.index + piece.recx.count - 1;
                let index = if has(QueryFlags::MAX) { last } else { piece.recx.index };
                let (recx, record_bytes) = (Some(Recx::new(index, 1)), piece.record_bytes);
                return Ok(Some(Found { dkey, akey, recx, record_bytes }));
            }
        }
    }
    Ok(None)
}

/// The key as it is ordered, and as an anchor holds it unless it is lexical.
pub(super) fn encoded(cont: &Cont, kind: KeyKind, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    order::push_key(&mut out, kind, cont.spec.hash_key, key);
    out
}
