//! Enumerations of dkeys, akeys and extents.

use crate::buffer::Pieces;
use crate::error::{Der, Result, der};
use crate::event::{Chained, Ending, Ev, go, launch, launch_chain, run};
use crate::handle;
use crate::io::CRecx;
use crate::io::code;
use crate::object::ObjectHandle;
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{CAnchor, EpochRange, Handle, Iov, SgList};
use core::ffi::c_int;
use dolmen_client::{
    Anchor, Error, Event, ListedExtent, Output, PackedKeys, Page, QueryFlags, Recx, Way, limits,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a key in a listing is: its length.
//= daos:src/include/daos_obj.h daos_key_desc_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KeyDesc {
    pub(crate) key_len: u64,
    pub(crate) val_type: u32,
}

/// Where a listing goes, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) nr: Out<u32>,
    pub(crate) kds: Out<KeyDesc>,
    pub(crate) sgl: Out<SgList>,
    pub(crate) anchor: Out<CAnchor>,
}

/// The next dkeys after the anchor.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_list_dkey(
    oh: Handle,
    th: Handle,
    nr: Out<u32>,
    kds: Out<KeyDesc>,
    sgl: Out<SgList>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        dkeys(&object, &when, Listing { nr, kds, sgl, anchor }, ev)
    })
}

/// Lists dkeys, or those of one part of a split listing, at once or with an event.
///
/// # Errors
/// `KEY2BIG` if not one key fits: its length is in the first descriptor. Those of the client.
pub(crate) fn dkeys(object: &Arc<ObjectHandle>, when: &When, listing: Listing, ev: Ev) -> Result<()> {
    let Some(Begun { mut anchor, page, part_end }) = listing.begin()? else {
        return code(run(ev, || listing.nr.set(0)));
    };
    let own = Arc::clone(object);
    if ev.is_null() || when.is_tx() {
        let when = when.clone();
        let list = move |way| async move {
            let keys = own.client.list_dkeys_by(way, when.at(), &mut anchor, page).await;
            code(listing.end_part(&own, part_end, keys.map(|keys| (keys, anchor))))
        };
        return code(go(ev, list));
    }
    let start = |event: &mut _| Ok(object.client.list_dkeys_on(event, when.at(), anchor, page)?);
    let end = move |ending: Ending| listing.end_part(&own, part_end, listed(ending));
    launch(ev, &object.cont.pool, start, end)
}

/// The keys that a listing has ended with, and where it goes on.
fn listed(ending: Ending) -> dolmen_client::Result<(PackedKeys, Anchor)> {
    match ending.result? {
        Output::Keys(keys, anchor) => Ok((keys, anchor)),
        _ => Err(Error::Canceled),
    }
}

/// The next akeys of a dkey after the anchor.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_list_akey(
    oh: Handle,
    th: Handle,
    dkey: In<Iov>,
    nr: Out<u32>,
    kds: Out<KeyDesc>,
    sgl: Out<SgList>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        let dkey = dkey.get()?.key()?;
        let listing = Listing { nr, kds, sgl, anchor };
        let Some(Begun { mut anchor, page, .. }) = listing.begin()? else {
            return code(run(ev, || listing.nr.set(0)));
        };
        if ev.is_null() || when.is_tx() {
            let dkey = dkey.to_vec();
            let list = move |way| async move {
                let keys = object.client.list_akeys_by(way, when.at(), &dkey, &mut anchor, page).await;
                code(listing.end(keys.map(|keys| (keys, anchor))))
            };
            return code(go(ev, list));
        }
        let start = |event: &mut _| Ok(object.client.list_akeys_on(event, when.at(), dkey, anchor, page)?);
        launch(ev, &object.cont.pool, start, move |ending| listing.end(listed(ending)))
    })
}

/// A listing that has something to list.
struct Begun {
    anchor: Anchor,
    page: Page,
    /// The shard to stop before; 0 for none.
    part_end: u64,
}

impl Listing {
    /// Where it begins and how much it may take; `None` if it is over.
    ///
    /// # Errors
    /// `INVAL` if there is no room for anything.
    fn begin(&self) -> Result<Option<Begun>> {
        let items_max = self.nr.get()?;
        let own = self.anchor.get()?;
        let pieces = Pieces::of(self.sgl)?.ok_or(Der::INVAL)?;
        let bytes_max = u32::try_from(pieces.room()?).unwrap_or(u32::MAX);
        if items_max == 0 || bytes_max == 0 || self.kds.is_null() {
            return Err(Der::INVAL);
        }
        let anchor = own.anchor()?;
        if anchor.is_eof() {
            return Ok(None);
        }
        Ok(Some(Begun { anchor, page: Page { items_max, bytes_max }, part_end: own.end_shard }))
    }

    /// Gives the program a page of dkeys: it is of one shard, and the listing of a part ends with the last shard of it.
    fn end_part(
        &self,
        object: &ObjectHandle,
        part_end: u64,
        listed: dolmen_client::Result<(PackedKeys, Anchor)>,
    ) -> c_int {
        self.end(listed.and_then(|(keys, anchor)| cut(object, part_end, keys, anchor)))
    }

    /// Gives the program a page of keys.
    fn end(&self, listed: dolmen_client::Result<(PackedKeys, Anchor)>) -> c_int {
        der(|| match listed {
            Ok((keys, anchor)) => self.give(&keys, &anchor),
            Err(Error::KeyTooBig { needed_bytes }) => {
                self.kds.set(KeyDesc { key_len: needed_bytes, val_type: 0 })?;
                Err(Der::KEY2BIG)
            }
            Err(error) => Err(error.into()),
        })
    }

    fn give(&self, keys: &PackedKeys, anchor: &Anchor) -> Result<()> {
        let pieces = Pieces::of(self.sgl)?.ok_or(Der::INVAL)?;
        for (index, key) in keys.iter().enumerate() {
            self.kds.at(index).set(KeyDesc { key_len: key.len() as u64, val_type: 0 })?;
        }
        pieces.pen()?.write(0, &keys.bytes)?;
        pieces.set_filled(keys.bytes.len())?;
        self.anchor.set(self.anchor.get()?.moved_to(anchor))?;
        self.nr.set(u32::try_from(keys.len()).map_err(|_wide| Der::OVERFLOW)?)
    }
}

/// What a page of dkeys, and where it goes on, is of a part that ends before this shard; 0 for no end.
///
/// # Errors
/// Those of the client.
pub(crate) fn cut(
    object: &ObjectHandle,
    part_end: u64,
    keys: PackedKeys,
    anchor: Anchor,
) -> dolmen_client::Result<(PackedKeys, Anchor)> {
    let is_beyond = |shard: u16| part_end != 0 && u64::from(shard) >= part_end;
    if let (true, Some(first)) = (part_end != 0, keys.iter().next())
        && is_beyond(object.client.anchor_after(first)?.shard)
    {
        return Ok((PackedKeys::default(), Anchor::eof()));
    }
    let is_over = is_beyond(anchor.shard);
    Ok((keys, if is_over { Anchor::eof() } else { anchor }))
}

/// The next visible extents of an array value after the anchor, in the order of their indices or against it. A single value
/// beside them is none. Without memory for extents only their number, and the size of their records, is told.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_list_recx(
    oh: Handle,
    th: Handle,
    dkey: In<Iov>,
    akey: In<Iov>,
    size: Out<u64>,
    nr: Out<u32>,
    recxs: Out<CRecx>,
    eprs: Out<EpochRange>,
    anchor: Out<CAnchor>,
    incr_order: bool,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?.seen_by(&object, ev);
        let (dkey, akey) = (dkey.get()?.key()?.to_vec(), akey.get()?.key()?.to_vec());
        let own = anchor.get()?;
        let items_max = nr.get()?.min(u32::try_from(limits::EXTENTS_MAX).unwrap_or(u32::MAX));
        if items_max == 0 {
            return Err(Der::INVAL);
        }
        let position = own.anchor()?;
        if position.is_eof() {
            return code(run(ev, || nr.set(0)));
        }
        let walk = ExtentWalk { object, when, dkey, akey, items_max };
        let lists = Extents { size, nr, recxs, eprs, anchor };
        if !incr_order {
            return code(go(ev, move |way| walk.descend(lists, position, way)));
        }
        if ev.is_null() || walk.when.is_tx() {
            return code(go(ev, move |way| walk.ascend(lists, position, way)));
        }
        walk.launch(lists, position, ev)
    })
}

/// Where a listing of extents goes.
#[derive(Clone, Copy)]
struct Extents {
    size: Out<u64>,
    nr: Out<u32>,
    recxs: Out<CRecx>,
    eprs: Out<EpochRange>,
    anchor: Out<CAnchor>,
}

impl Extents {
    fn give(&self, extents: &[ListedExtent], position: &Anchor) -> Result<()> {
        let Self { size, nr, recxs, eprs, anchor } = *self;
        for (index, extent) in extents.iter().enumerate() {
            if !recxs.is_null() {
                recxs.at(index).set(extent.recx.into())?;
            }
            if !eprs.is_null() {
                eprs.at(index).set(EpochRange { lo: extent.epoch.0, hi: extent.epoch.0 })?;
            }
        }
        size.set_if_wanted(extents.first().map_or(0, |extent| extent.record_bytes));
        anchor.set(anchor.get()?.moved_to(position))?;
        nr.set(u32::try_from(extents.len()).map_err(|_wide| Der::OVERFLOW)?)
    }
}

/// How much further down a descending listing begins when it has found too little.
const WIDER: u64 = 16;

/// A walk over the extents of one akey.
struct ExtentWalk {
    object: Arc<ObjectHandle>,
    when: When,
    dkey: Vec<u8>,
    akey: Vec<u8>,
    items_max: u32,
}

impl ExtentWalk {
    async fn ascend(self, lists: Extents, mut position: Anchor, way: Way) -> Result<()> {
        loop {
            let found;
            (found, position) = self.page(position, self.items_max, way).await?;
            if !found.is_empty() || position.is_eof() {
                return lists.give(&found, &position);
            }
        }
    }

    fn start(&self, position: Anchor, items_max: u32, event: &mut Event) -> Result<()> {
        let Self { object, when, dkey, akey, .. } = self;
        Ok(object.client.list_extents_on(event, when.at(), dkey, akey, position, items_max)?)
    }

    async fn page(
        &self,
        mut position: Anchor,
        items_max: u32,
        way: Way,
    ) -> Result<(Vec<ListedExtent>, Anchor)> {
        let Self { object, when, dkey, akey, .. } = self;
        let (client, at) = (&object.client, when.at());
        let listed = client.list_extents_by(way, at, dkey, akey, &mut position, items_max).await?;
        Ok((without_singles(listed), position))
    }

    /// Launches an ascending listing; what has only a single value in it takes another look.
    fn launch(self, lists: Extents, position: Anchor, ev: Ev) -> Result<()> {
        let walk = Arc::new(self);
        let (pool, own) = (Arc::clone(&walk.object.cont.pool), Arc::clone(&walk));
        let start = move |event: &mut _| own.start(position, own.items_max, event);
        launch_chain(ev, &pool, start, move |ending| {
            let (found, position) = extents_listed(ending)?;
            if !found.is_empty() || position.is_eof() {
                return lists.give(&found, &position).map(|()| Chained::Done);
            }
            let own = Arc::clone(&walk);
            Ok(Chained::Ask(Box::new(move |event| own.start(position, own.items_max, event))))
        })
    }

    /// Lists the last extents below the place where the listing stands. Stores list upwards only, so it looks at ranges below
    /// it, each wider than the one before, until there are enough in one.
    async fn descend(self, lists: Extents, position: Anchor, way: Way) -> Result<()> {
        let Some(bound) = self.bound(&position, way).await? else { return lists.give(&[], &Anchor::eof()) };
        let mut wide = limits::WINDOW_RECORDS;
        loop {
            // Where windows begin, extents are cut however they are listed.
            let from = bound.saturating_sub(wide) / limits::WINDOW_RECORDS * limits::WINDOW_RECORDS;
            let mut last = self.last_of(from, bound, way).await?;
            let is_all = from == 0 && last.len() <= self.items_max as usize;
            if last.len() > self.items_max as usize {
                last.pop_front();
            }
            if is_all || last.len() == self.items_max as usize {
                let next = last.front().map(|extent| extent.recx.index.to_le_bytes()).filter(|_| !is_all);
                let next = next.map_or_else(|| Some(Anchor::eof()), |bound| Anchor::after(&bound));
                let listed: Vec<ListedExtent> = last.into_iter().rev().collect();
                return lists.give(&listed, &next.ok_or(Der::MISC)?);
            }
            wide = wide.saturating_mul(WIDER);
        }
    }

    /// The index that a descending listing is to stay below; `None` if there is nothing.
    async fn bound(&self, position: &Anchor, way: Way) -> Result<Option<u64>> {
        let Self { object, when, dkey, akey, .. } = self;
        if !position.position().is_empty() {
            let bytes = position.position().try_into().map_err(|_other| Der::INVAL)?;
            return Ok(Some(u64::from_le_bytes(bytes)));
        }
        let flags = QueryFlags(QueryFlags::MAX.0 | QueryFlags::RECX.0);
        let last = object.client.query_by(way, when.at(), flags, dkey, akey).await?;
        Ok(last.and_then(|last| last.recx).map(|last| last.end().unwrap_or(u64::MAX)))
    }

    /// The last extents, and one more than a page has, in a range of indices.
    async fn last_of(&self, from: u64, bound: u64, way: Way) -> Result<VecDeque<ListedExtent>> {
        let range = Recx::new(from, bound - from);
        let page_max = u32::try_from(limits::EXTENTS_MAX).unwrap_or(u32::MAX);
        let mut position =
            if from == 0 { Some(Anchor::default()) } else { Anchor::after(&from.to_le_bytes()) }
                .ok_or(Der::MISC)?;
        let mut last = VecDeque::new();
        while !position.is_eof() {
            let listed;
            (listed, position) = self.page(position, page_max, way).await?;
            if listed.first().is_some_and(|extent| extent.recx.index >= bound) {
                break;
            }
            let inside = |extent: ListedExtent| {
                extent.recx.intersect(range).map(|recx| ListedExtent { recx, ..extent })
            };
            for extent in listed.into_iter().filter_map(inside) {
                if last.len() > self.items_max as usize {
                    last.pop_front();
                }
                last.push_back(extent);
            }
        }
        Ok(last)
    }
}

fn extents_listed(ending: Ending) -> Result<(Vec<ListedExtent>, Anchor)> {
    match ending.result? {
        Output::Extents(extents, position) => Ok((without_singles(extents), position)),
        _ => Err(Der::MISC),
    }
}

fn without_singles(mut extents: Vec<ListedExtent>) -> Vec<ListedExtent> {
    extents.retain(|extent| !extent.single);
    extents
}
