//! Enumerations and key queries over the shards of an object.
//!
//! Invariants: an anchor carries the shard being listed and that target's own position in it.

use crate::client::{MapView, unexpected};
use crate::event::Next;
use crate::object::{Object, Page};
use crate::together::side_by_side;
use crate::tx::Sight;
use crate::tx::merge::{self, Seen};
use dolmen_codec::verb::{
    Found, List, ListWhat, Listed, ListedExtent, PackedKeys, Query, ReadAt, Reply, Verb,
};
use dolmen_codec::{Ask, Way};
use dolmen_types::{Anchor, Invalid, Key, KeyKind, QueryFlags, Result};

pub(crate) async fn dkeys(
    way: Way,
    object: &Object,
    sight: &Sight,
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    loop {
        let keys = match Seen::of(way, object, sight) {
            Some(seen) => merge::dkeys(seen, anchor, page).await?,
            None => dkeys_of_shard(way, object, sight.at, anchor, page).await?,
        };
        if !keys.is_empty() || anchor.is_eof() {
            return Ok(keys);
        }
    }
}

/// One step in the anchor's shard; the anchor goes on to the next shard when this one is exhausted.
pub(crate) async fn dkeys_of_shard(
    way: Way,
    object: &Object,
    at: ReadAt,
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    let shard = anchor.shard;
    let keys = dkeys_of_target(way, object, at, anchor, page).await?;
    anchor.shard = shard;
    go_on(object, anchor)?;
    Ok(keys)
}

/// One step in the anchor's shard; the anchor is left as the target gave it.
pub(crate) async fn dkeys_of_target(
    way: Way,
    object: &Object,
    at: ReadAt,
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    let what = ListWhat::Dkeys(object.oid());
    keys(way, object, Where::Shard(anchor.shard), what, at, anchor, page).await
}

/// Turns the end of a shard into the start of the next one, if there is one.
pub(crate) fn go_on(object: &Object, anchor: &mut Anchor) -> Result<()> {
    let shard = anchor.shard;
    if anchor.is_eof()
        && let Some(next) = object.shard_after(shard)?
    {
        *anchor = Anchor::default();
        anchor.shard = next;
    }
    Ok(())
}

pub(crate) async fn akeys(
    way: Way,
    object: &Object,
    sight: &Sight,
    dkey: &[u8],
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    match Seen::of(way, object, sight) {
        Some(seen) => merge::akeys(seen, dkey, anchor, page).await,
        None => loop {
            let keys = akeys_base(way, object, sight.at, dkey, anchor, page).await?;
            if !keys.is_empty() || anchor.is_eof() {
                return Ok(keys);
            }
        },
    }
}

pub(crate) async fn akeys_base(
    way: Way,
    object: &Object,
    at: ReadAt,
    dkey: &[u8],
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    let what = ListWhat::Akeys(object.oid(), Key::from_slice(dkey));
    keys(way, object, Where::Dkey(dkey), what, at, anchor, page).await
}

pub(crate) async fn extents(
    way: Way,
    object: &Object,
    sight: &Sight,
    (dkey, akey): (&[u8], &[u8]),
    anchor: &mut Anchor,
    items_max: u32,
) -> Result<Vec<ListedExtent>> {
    loop {
        let extents = match Seen::of(way, object, sight) {
            Some(seen) => merge::extents(seen, dkey, akey, anchor, items_max).await?,
            None => extents_base(way, object, sight.at, (dkey, akey), anchor, items_max).await?,
        };
        if !extents.is_empty() || anchor.is_eof() {
            return Ok(extents);
        }
    }
}

pub(crate) async fn extents_base(
    way: Way,
    object: &Object,
    at: ReadAt,
    (dkey, akey): (&[u8], &[u8]),
    anchor: &mut Anchor,
    items_max: u32,
) -> Result<Vec<ListedExtent>> {
    let what = ListWhat::Extents(object.oid(), Key::from_slice(dkey), Key::from_slice(akey));
    let page = Page { items_max, bytes_max: u32::MAX };
    match list(way, object, Where::Dkey(dkey), &what, at, anchor, page).await? {
        Listed::Extents(extents) => Ok(extents),
        _ => Err(unexpected()),
    }
}

/// Which of the object's targets is asked.
#[derive(Clone, Copy)]
pub(crate) enum Where<'a> {
    Shard(u16),
    Dkey(&'a [u8]),
}

async fn keys(
    way: Way,
    object: &Object,
    at_target: Where<'_>,
    what: ListWhat,
    at: ReadAt,
    anchor: &mut Anchor,
    page: Page,
) -> Result<PackedKeys> {
    match list(way, object, at_target, &what, at, anchor, page).await? {
        Listed::Keys(keys) => Ok(keys),
        _ => Err(unexpected()),
    }
}

async fn list(
    way: Way,
    object: &Object,
    at_target: Where<'_>,
    what: &ListWhat,
    at: ReadAt,
    anchor: &mut Anchor,
    page: Page,
) -> Result<Listed> {
    let (core, from) = (object.container().core(), *anchor);
    let make = |map| ask(object, at_target, map, Verb::List(list_from(what, at, &from, page)));
    match core.read_target_by(way, object.container().gathered(), make).await? {
        Reply::Listed(listed, next) => {
            *anchor = next;
            Ok(listed)
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn query(
    way: Way,
    object: &Object,
    sight: &Sight,
    flags: QueryFlags,
    dkey: &[u8],
    akey: &[u8],
) -> Result<Option<Found>> {
    match Seen::of(way, object, sight) {
        Some(seen) => merge::query(seen, flags, dkey, akey).await,
        None => query_base(way, object, sight.at, flags, dkey, akey).await,
    }
}

/// The answer of the dkey's shard, or the best one of all shards if the dkey is asked for.
pub(crate) async fn query_base(
    way: Way,
    object: &Object,
    at: ReadAt,
    flags: QueryFlags,
    dkey: &[u8],
    akey: &[u8],
) -> Result<Option<Found>> {
    if !flags.has(QueryFlags::DKEY) {
        return query_shard(way, object, Where::Dkey(dkey), at, flags, (dkey, akey)).await;
    }
    let query = |number| query_shard(way, object, Where::Shard(number), at, flags, (dkey, akey));
    let (mut best, mut shards) = (None, Vec::new());
    let mut shard = Some(0);
    while let Some(number) = shard {
        match way {
            Way::Now => best = better(object, flags, best, query(number).await?),
            Way::Later => shards.push(number),
        }
        shard = object.shard_after(number)?;
    }
    for found in side_by_side(shards.into_iter().map(query)).await {
        best = better(object, flags, best, found?);
    }
    Ok(best)
}

/// The one of two answers that has the larger (or smaller) dkey.
pub(crate) fn better(
    object: &Object,
    flags: QueryFlags,
    a: Option<Found>,
    b: Option<Found>,
) -> Option<Found> {
    let (Some(left), Some(right)) = (&a, &b) else { return a.or(b) };
    let order = compare(object.object_type().dkey_kind(), &left.dkey, &right.dkey);
    if order.is_lt() == flags.has(QueryFlags::MAX) { b } else { a }
}

/// The order by value of integer and lexical keys.
pub(crate) fn compare(kind: KeyKind, a: &[u8], b: &[u8]) -> core::cmp::Ordering {
    match (kind, <[u8; 8]>::try_from(a), <[u8; 8]>::try_from(b)) {
        (KeyKind::Uint64, Ok(a), Ok(b)) => u64::from_le_bytes(a).cmp(&u64::from_le_bytes(b)),
        _ => a.cmp(b),
    }
}

async fn query_shard(
    way: Way,
    object: &Object,
    at_target: Where<'_>,
    at: ReadAt,
    flags: QueryFlags,
    (dkey, akey): (&[u8], &[u8]),
) -> Result<Option<Found>> {
    let core = object.container().core();
    let make = |map| {
        let (dkey, akey) = (Key::from_slice(dkey), Key::from_slice(akey));
        ask(object, at_target, map, Verb::Query(Query { oid: object.oid(), flags, dkey, akey, at }))
    };
    let Reply::Found(found) = core.read_target_by(way, object.container().gathered(), make).await? else {
        return Err(unexpected());
    };
    Ok(found.map(|found| with_given(found, flags, dkey, akey)))
}

/// An answer with what was given, which need not come back.
pub(crate) fn with_given(found: Found, flags: QueryFlags, dkey: &[u8], akey: &[u8]) -> Found {
    Found {
        dkey: if flags.has(QueryFlags::DKEY) { found.dkey } else { Key::from_slice(dkey) },
        akey: if flags.has(QueryFlags::AKEY) { found.akey } else { Key::from_slice(akey) },
        ..found
    }
}

fn list_from(what: &ListWhat, at: ReadAt, anchor: &Anchor, page: Page) -> List {
    // The shard is the client's; a target sees only the position that it gave itself.
    let mut anchor = *anchor;
    anchor.shard = 0;
    List { what: what.clone(), anchor, items_max: page.items_max, bytes_max: page.bytes_max, at }
}

fn ask(object: &Object, at_target: Where<'_>, map: MapView, verb: Verb<'static>) -> Result<Ask<'static>> {
    let target = match at_target {
        Where::Shard(shard) => object.shard_target(map, shard)?,
        Where::Dkey(dkey) => object.target(map, dkey)?,
    };
    Ok(Ask::Target(target, object.container().no(), verb))
}

/// A listing as a request of an event.
pub(crate) fn list_request(
    object: &Object,
    at_target: Where<'_>,
    what: &ListWhat,
    at: ReadAt,
    anchor: &Anchor,
    page: Page,
) -> Result<Next> {
    request(object, at_target, Verb::List(list_from(what, at, anchor, page)))
}

/// A key query as a request of an event.
pub(crate) fn query_request(
    object: &Object,
    at_target: Where<'_>,
    at: ReadAt,
    flags: QueryFlags,
    (dkey, akey): &(Key, Key),
) -> Result<Next> {
    let (dkey, akey) = (dkey.clone(), akey.clone());
    request(object, at_target, Verb::Query(Query { oid: object.oid(), flags, dkey, akey, at }))
}

fn request(object: &Object, at_target: Where<'_>, verb: Verb<'static>) -> Result<Next> {
    let core = object.container().core();
    let map = core.map();
    let ask = ask(object, at_target, map, verb)?;
    Ok(Next { id: core.read_id(), map_version: map.version, ask })
}

/// Checks the flags of a query as a target does.
pub(crate) fn check_query(object: &Object, flags: QueryFlags) -> Result<()> {
    if flags.has(QueryFlags::MAX) == flags.has(QueryFlags::MIN) {
        return Err(Invalid::Flags.into());
    }
    let object_type = object.object_type();
    let unordered = |asked, kind| flags.has(asked) && kind == KeyKind::Hashed;
    if unordered(QueryFlags::DKEY, object_type.dkey_kind())
        || unordered(QueryFlags::AKEY, object_type.akey_kind())
    {
        return Err(Invalid::Query.into());
    }
    Ok(())
}
