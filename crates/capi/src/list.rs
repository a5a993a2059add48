//! Enumerations of dkeys, akeys and extents.

use crate::buffer::Pieces;
use crate::error::{Der, Result};
use crate::event::{Ev, run};
use crate::handle;
use crate::io::CRecx;
use crate::object::ObjectHandle;
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{CAnchor, EpochRange, Handle, Iov, SgList};
use core::ffi::c_int;
use dolmen_client::{Anchor, Error, PackedKeys, Page, limits};

/// What a key in a listing is: its length.
//= daos:src/include/daos_obj.h daos_key_desc_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KeyDesc {
    pub(crate) key_len: u64,
    pub(crate) val_type: u32,
}

/// Where a listing goes, and where it stands.
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
    run(ev, || {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        dkeys(&object, &when, &Listing { nr, kds, sgl, anchor })
    })
}

/// Lists dkeys, or those of one part of a split listing.
///
/// # Errors
/// `KEY2BIG` if not one key fits: its length is in the first descriptor. Those of the client.
pub(crate) fn dkeys(object: &ObjectHandle, when: &When, listing: &Listing) -> Result<()> {
    let part_end = listing.anchor.get()?.end_shard;
    listing.fill(|anchor, page| {
        let keys = object.client.list_dkeys(when.at(), anchor, page)?;
        // A page is of one shard; the listing of a part ends with the last shard of it.
        let is_beyond = |shard: u16| part_end != 0 && u64::from(shard) >= part_end;
        if let (true, Some(first)) = (part_end != 0, keys.iter().next())
            && is_beyond(object.client.anchor_after(first)?.shard)
        {
            *anchor = Anchor::eof();
            return Ok(PackedKeys::default());
        }
        if is_beyond(anchor.shard) {
            *anchor = Anchor::eof();
        }
        Ok(keys)
    })
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
    run(ev, || {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        let dkey = dkey.get()?.key()?;
        let listing = Listing { nr, kds, sgl, anchor };
        listing.fill(|anchor, page| object.client.list_akeys(when.at(), dkey, anchor, page))
    })
}

impl Listing {
    /// Gives the program a page of keys.
    fn fill(&self, list: impl FnOnce(&mut Anchor, Page) -> dolmen_client::Result<PackedKeys>) -> Result<()> {
        let items_max = self.nr.get()?;
        let own = self.anchor.get()?;
        let pieces = Pieces::of(self.sgl)?.ok_or(Der::INVAL)?;
        let bytes_max = u32::try_from(pieces.room()?).unwrap_or(u32::MAX);
        if items_max == 0 || bytes_max == 0 || self.kds.is_null() {
            return Err(Der::INVAL);
        }
        let mut anchor = own.anchor()?;
        if anchor.is_eof() {
            return self.nr.set(0);
        }
        let keys = match list(&mut anchor, Page { items_max, bytes_max }) {
            Ok(keys) => keys,
            Err(Error::KeyTooBig { needed_bytes }) => {
                self.kds.set(KeyDesc { key_len: needed_bytes, val_type: 0 })?;
                return Err(Der::KEY2BIG);
            }
            Err(error) => return Err(error.into()),
        };
        for (index, key) in keys.iter().enumerate() {
            self.kds.at(index).set(KeyDesc { key_len: key.len() as u64, val_type: 0 })?;
        }
        pieces.pen()?.write(0, &keys.bytes)?;
        pieces.set_filled(keys.bytes.len())?;
        self.anchor.set(own.moved_to(&anchor))?;
        self.nr.set(u32::try_from(keys.len()).map_err(|_wide| Der::OVERFLOW)?)
    }
}

/// The next visible extents of an array value after the anchor, or the single value as one.
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
    _incr_order: bool,
    ev: Ev,
) -> c_int {
    run(ev, || {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        let (dkey, akey) = (dkey.get()?.key()?, akey.get()?.key()?);
        let own = anchor.get()?;
        let items_max = nr.get()?.min(u32::try_from(limits::EXTENTS_MAX).unwrap_or(u32::MAX));
        if items_max == 0 || recxs.is_null() {
            return Err(Der::INVAL);
        }
        let mut position = own.anchor()?;
        if position.is_eof() {
            return nr.set(0);
        }
        let extents = object.client.list_extents(when.at(), dkey, akey, &mut position, items_max)?;
        for (index, extent) in extents.iter().enumerate() {
            recxs.at(index).set(extent.recx.into())?;
            if !eprs.is_null() {
                eprs.at(index).set(EpochRange { lo: extent.epoch.0, hi: extent.epoch.0 })?;
            }
        }
        size.set_if_wanted(extents.first().map_or(0, |extent| extent.record_bytes));
        anchor.set(own.moved_to(&position))?;
        nr.set(u32::try_from(extents.len()).map_err(|_wide| Der::OVERFLOW)?)
    })
}
