//! Flat key-value stores.

use crate::buffer;
use crate::error::{Der, Result, der};
use crate::event::{Ending, Ev, go, launch, run};
use crate::handle::{self, Entry};
use crate::io;
use crate::list::{KeyDesc, Listing, dkeys};
use crate::object::{self, KvHandle};
use crate::raw::{In, Out, Text};
use crate::tx::When;
use crate::types::{CAnchor, Handle, ObjId, SgList};
use core::ffi::{c_int, c_uint};
use dolmen_client::{Cond, Error, FetchIod, IoBuf, Key, NewValue, Output, Payload, UpdateIod, Want, limits};
use smallvec::smallvec;
use std::sync::Arc;

/// The akey of every value.
//= daos:src/client/kv/dc_kv.c akey '0'
pub(crate) const AKEY: &[u8] = b"0";

/// A handle on a key-value store; nothing is asked.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_open(coh: Handle, oid: ObjId, mode: c_uint, oh: Out<Handle>, ev: Ev) -> c_int {
    run(ev, || {
        let cont = handle::cont(coh)?;
        let oh = oh.check()?;
        let object = object::open(&cont, oid, mode)?;
        if !object.client.object_type().is_kv() {
            return Err(Der::INVAL);
        }
        oh.set(handle::insert(Entry::Kv(Arc::new(KvHandle { object })))?)
    })
}

/// Gives a handle on a key-value store up.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_close(oh: Handle, ev: Ev) -> c_int {
    run(ev, || handle::remove(oh, |entry| matches!(entry, Entry::Kv(_))).map(drop))
}

/// Removes everything.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_destroy(oh: Handle, th: Handle, ev: Ev) -> c_int {
    der(|| {
        let kv = handle::kv(oh)?;
        let when = When::of(th, &kv.object.cont)?;
        kv.object.check_writable(&when)?;
        object::punch(&kv.object, &when, Cond::NONE, ev)
    })
}

fn key<'a>(text: Text) -> Result<&'a [u8]> {
    let key = text.bytes()?;
    if key.is_empty() { Err(Der::INVAL) } else { Ok(key) }
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_put(
    oh: Handle,
    th: Handle,
    flags: u64,
    name: Text,
    size: u64,
    buf: In<u8>,
    ev: Ev,
) -> c_int {
    der(|| {
        let kv = handle::kv(oh)?;
        let when = When::of(th, &kv.object.cont)?;
        kv.object.check_writable(&when)?;
        let len = usize::try_from(size).map_err(|_wide| Der::REC2BIG)?;
        if len == 0 {
            return Err(Der::INVAL);
        }
        if len > limits::SINGLE_BYTES_MAX {
            return Err(Der::REC2BIG);
        }
        let value = NewValue::Single(Payload::Ref(buf.list(len)?));
        let iod = UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value };
        io::update(&kv.object, &when, key(name)?, io::cond(flags)?, smallvec![iod], ev)
    })
}

/// Reads the value of a key, or only its size.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_get(
    oh: Handle,
    th: Handle,
    flags: u64,
    name: Text,
    size: Out<u64>,
    buf: Out<u8>,
    ev: Ev,
) -> c_int {
    der(|| {
        let kv = handle::kv(oh)?;
        let when = When::of(th, &kv.object.cont)?;
        let (dkey, cond) = (key(name)?, io::cond(flags)?);
        let room = usize::try_from(size.get()?).unwrap_or(usize::MAX).min(limits::SINGLE_BYTES_MAX);
        let room_bytes = if buf.is_null() { 0 } else { room };
        let want = if room_bytes == 0 { Want::Size } else { Want::Single { room_bytes } };
        let iods = [FetchIod { akey: Key::from_slice(AKEY), want }];
        let mut own = buffer::take(room_bytes)?;
        let object = &kv.object.client;
        if ev.is_null() {
            let found = object.fetch(when.at(), dkey, cond, &iods, &mut own);
            return io::code(got(found.map(|found| found[0].size_bytes), &own, size, buf, room_bytes));
        }
        if when.is_tx() {
            let (kv, dkey) = (Arc::clone(&kv), dkey.to_vec());
            let get = move |way| async move {
                let object = &kv.object.client;
                let found = object.fetch_by(way, when.at(), &dkey, cond, &iods, &mut own).await;
                io::code(got(found.map(|found| found[0].size_bytes), &own, size, buf, room_bytes))
            };
            return io::code(go(ev, get));
        }
        let start = |event: &mut _| Ok(object.fetch_on(event, when.at(), dkey, cond, &iods, own)?);
        launch(ev, &kv.object.cont.pool, start, move |ending| {
            let Ending { result, buf: own } = ending;
            let found = result.map(|output| match output {
                Output::Fetched(found) => found.first().map_or(0, |found| found.size_bytes),
                _ => 0,
            });
            got(found, own.as_ref().unwrap_or(&IoBuf::default()), size, buf, room_bytes)
        })
    })
}

/// Gives the program a value, or its size.
fn got(
    found: dolmen_client::Result<u64>,
    own: &IoBuf,
    size: Out<u64>,
    buf: Out<u8>,
    room_bytes: usize,
) -> c_int {
    der(|| match found {
        Ok(len) => {
            if room_bytes > 0 {
                let filled = usize::try_from(len).ok().and_then(|len| own.get(..len)).ok_or(Der::REC2BIG)?;
                buf.copy_from(filled)?;
            }
            size.set(len)
        }
        Err(Error::RecTooBig { needed_bytes }) => {
            size.set(needed_bytes)?;
            Err(Der::REC2BIG)
        }
        Err(error) => Err(error.into()),
    })
}

/// Removes a key.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_remove(oh: Handle, th: Handle, flags: u64, name: Text, ev: Ev) -> c_int {
    der(|| {
        let kv = handle::kv(oh)?;
        let when = When::of(th, &kv.object.cont)?;
        kv.object.check_writable(&when)?;
        object::punch_dkey(&kv.object, &when, key(name)?, io::cond(flags)?, ev)
    })
}

/// The next keys after the anchor.
#[unsafe(no_mangle)]
extern "C" fn daos_kv_list(
    oh: Handle,
    th: Handle,
    nr: Out<u32>,
    kds: Out<KeyDesc>,
    sgl: Out<SgList>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    der(|| {
        let kv = handle::kv(oh)?;
        let when = When::of(th, &kv.object.cont)?;
        dkeys(&kv.object, &when, Listing { nr, kds, sgl, anchor }, ev)
    })
}
