//! Objects: handles, ids, punches, key queries.

use crate::cont::ContHandle;
use crate::error::{Der, Result, der};
use crate::event::{Chained, Ending, Ev, Finish, at_once, go, launch, launch_chain, launch_with, run};
use crate::handle::{self, Entry};
use crate::io::{CRecx, code, cond};
use crate::life;
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{CAnchor, Handle, Iov, ObjId, RankList};
use crate::walk::Walk;
use core::ffi::{c_int, c_uint};
use dolmen_client::{
    Anchor, Array, Cond, Container, Epoch, Found, Object, ObjectClass, ObjectType, Oid, Output, Page,
    QueryFlags, Way,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// How an object may be opened.
//= daos:src/include/daos_obj.h DAOS_OO_*
pub(crate) const OPEN_RO: u32 = 2;
pub(crate) const OPEN_RW: u32 = 4;
const OPEN_EXCL: u32 = 8;

/// An open object.
pub(crate) struct ObjectHandle {
    pub(crate) client: Object,
    pub(crate) cont: Arc<ContHandle>,
    pub(crate) mode: u32,
}

/// An open array.
pub(crate) struct ArrayHandle {
    pub(crate) object: Arc<ObjectHandle>,
    /// Its chunk size can be changed before it is used.
    // Guards: the client's handle, which holds the sizes; taken alone, for a clone or a change.
    pub(crate) client: std::sync::RwLock<Array>,
}

/// An open key-value store.
pub(crate) struct KvHandle {
    pub(crate) object: Arc<ObjectHandle>,
}

impl ObjectHandle {
    pub(crate) fn new(client: Object, cont: Arc<ContHandle>, mode: u32) -> Self {
        Self { client, cont, mode }
    }

    /// # Errors
    /// `NO_PERM` if container, handle or transaction are for reading.
    pub(crate) fn check_writable(&self, when: &When) -> Result<()> {
        let for_reading = self.mode & OPEN_RO != 0 && self.mode & (OPEN_RW | OPEN_EXCL) == 0;
        if self.cont.writable && !for_reading && !when.is_read_only() { Ok(()) } else { Err(Der::NO_PERM) }
    }
}

/// A client's handle on an object.
///
/// # Errors
/// `INVAL` if the id names no type or class that there is.
pub(crate) fn open(cont: &Arc<ContHandle>, oid: ObjId, mode: u32) -> Result<Arc<ObjectHandle>> {
    let client = cont.client.object(oid.oid())?;
    Ok(Arc::new(ObjectHandle::new(client, Arc::clone(cont), mode)))
}

/// A handle on an object; nothing is asked.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_open(coh: Handle, oid: ObjId, mode: c_uint, oh: Out<Handle>, ev: Ev) -> c_int {
    run(ev, || {
        let cont = handle::cont(coh)?;
        let oh = oh.check()?;
        oh.set(handle::insert(Entry::Object(open(&cont, oid, mode)?))?)
    })
}

/// Gives a handle on an object, an array, a key-value store or an object id table up.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_close(oh: Handle, ev: Ev) -> c_int {
    let is_object =
        |entry: &Entry| matches!(entry, Entry::Object(_) | Entry::Oit(_) | Entry::Array(_) | Entry::Kv(_));
    run(ev, || handle::remove(oh, is_object).map(drop))
}

/// Stamps type and class into an id of the program's 96 bits.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_generate_oid2(
    coh: Handle,
    oid: Out<ObjId>,
    otype: c_uint,
    class: u32,
    hints: u16,
    _args: u32,
) -> c_int {
    der(|| {
        let cont = handle::cont(coh)?;
        let own = oid.get()?;
        let [user_hi, upper] = [own.hi & u64::from(u32::MAX), own.hi >> 32];
        if upper != 0 {
            return Err(Der::INVAL);
        }
        let object_type = u8::try_from(otype).ok().and_then(ObjectType::from_number).ok_or(Der::INVAL)?;
        let class = hinted(ObjectClass(class), object_type, hints, &cont.client)?;
        let user_hi = u32::try_from(user_hi).map_err(|_wide| Der::INVAL)?;
        oid.set(cont.client.oid(object_type, class, user_hi, own.lo)?.into())
    })
}

/// As [`daos_obj_generate_oid2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_generate_oid(
    coh: Handle,
    oid: Out<ObjId>,
    otype: c_uint,
    class: u32,
    hints: u16,
    args: u32,
) -> c_int {
    daos_obj_generate_oid2(coh, oid, otype, class, hints, args)
}

/// The class that hints ask for where the program names none.
//= daos:src/include/daos_obj_class.h DAOS_OCH_*
fn hinted(class: ObjectClass, object_type: ObjectType, hints: u16, cont: &Container) -> Result<ObjectClass> {
    const REDUNDANT: u16 = 4 | 8;
    const TINY: u16 = 32;
    const REGULAR: u16 = 64;
    const HIGH: u16 = 128;
    const EXTREME: u16 = 256;
    const MAX: u16 = 512;
    if class != ObjectClass::UNKNOWN {
        return Ok(class);
    }
    if hints & REDUNDANT != 0 {
        return Err(Der::INVAL);
    }
    let targets = cont.query_pool()?.map.targets.len();
    let share = |least: usize, percent: usize| {
        let wanted = least.max(targets * percent / 100).min(targets);
        ObjectClass::from_parts(1, u16::try_from(wanted).unwrap_or(u16::MAX))
    };
    Ok(match hints {
        hints if hints & TINY != 0 => ObjectClass::S1,
        hints if hints & REGULAR != 0 => share(128, 25),
        hints if hints & HIGH != 0 => share(256, 50),
        hints if hints & EXTREME != 0 => share(1024, 70),
        hints if hints & MAX != 0 => ObjectClass::SX,
        _ if object_type.is_array() || object_type.is_kv() => ObjectClass::SX,
        _ => ObjectClass::S1,
    })
}

/// Removes an object.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_punch(oh: Handle, th: Handle, flags: u64, ev: Ev) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        object.check_writable(&when)?;
        punch(&object, &when, cond(flags)?, ev)
    })
}

/// Removes an object, at once or with an event.
///
/// # Errors
/// Those of the client.
pub(crate) fn punch(object: &ObjectHandle, when: &When, cond: Cond, ev: Ev) -> Result<()> {
    if ev.is_null() || when.is_tx() {
        return at_once(ev, || Ok(object.client.punch(when.at(), cond).map(drop)?));
    }
    let start = |event: &mut _| Ok(object.client.punch_on(event, when.at(), cond)?);
    launch_with(ev, &object.cont.pool, start, Finish::Plain)
}

/// Removes a dkey; `nr` has to be 1.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_punch_dkeys(
    oh: Handle,
    th: Handle,
    flags: u64,
    nr: c_uint,
    dkeys: In<Iov>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        object.check_writable(&when)?;
        if nr != 1 {
            return Err(Der::INVAL);
        }
        punch_dkey(&object, &when, dkeys.get()?.key()?, cond(flags)?, ev)
    })
}

/// Removes a dkey, at once or with an event.
///
/// # Errors
/// Those of the client.
pub(crate) fn punch_dkey(object: &ObjectHandle, when: &When, dkey: &[u8], cond: Cond, ev: Ev) -> Result<()> {
    if ev.is_null() || when.is_tx() {
        return at_once(ev, || Ok(object.client.punch_dkey(when.at(), dkey, cond).map(drop)?));
    }
    let start = |event: &mut _| Ok(object.client.punch_dkey_on(event, when.at(), dkey, cond)?);
    launch_with(ev, &object.cont.pool, start, Finish::Plain)
}

/// Removes akeys of a dkey.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_punch_akeys(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: In<Iov>,
    nr: c_uint,
    akeys: In<Iov>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        object.check_writable(&when)?;
        let (dkey, cond) = (dkey.get()?.key()?, cond(flags)?);
        if nr == 0 || nr as usize > dolmen_client::limits::IODS_MAX {
            return Err(Der::INVAL);
        }
        let akeys: Result<SmallVec<[&[u8]; 8]>> =
            akeys.list(nr as usize)?.iter().map(|akey| akey.key()).collect();
        let akeys = akeys?;
        if ev.is_null() || when.is_tx() {
            let now = || Ok(object.client.punch_akeys(when.at(), dkey, &akeys, cond).map(drop)?);
            return at_once(ev, now);
        }
        let start = |event: &mut _| Ok(object.client.punch_akeys_on(event, when.at(), dkey, &akeys, cond)?);
        launch_with(ev, &object.cont.pool, start, Finish::Plain)
    })
}

/// Where an object lies: not told, as in DAOS.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_query(oh: Handle, _attr: Out<u8>, _ranks: Out<RankList>, ev: Ev) -> c_int {
    run(ev, || {
        handle::object(oh)?;
        Err(Der::NOSYS)
    })
}

/// The largest or smallest dkey, akey or extent.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_query_key(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: Out<Iov>,
    akey: Out<Iov>,
    recx: Out<CRecx>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        let flags = u32::try_from(flags).map(QueryFlags).map_err(|_wide| Der::INVAL)?;
        let levels = [QueryFlags::DKEY, QueryFlags::AKEY, QueryFlags::RECX];
        if !levels.iter().any(|&level| flags.has(level)) {
            return Err(Der::INVAL);
        }
        let given = |key: Out<Iov>, level| if flags.has(level) { Ok(&[][..]) } else { key.get()?.key() };
        let own_dkey = given(dkey, QueryFlags::DKEY)?;
        let needs_akey = flags.has(QueryFlags::AKEY) || flags.has(QueryFlags::RECX);
        let own_akey = if needs_akey { given(akey, QueryFlags::AKEY)? } else { &[] };
        let give = move |found: Option<Found>| {
            let found = found.ok_or(Der::NONEXIST)?;
            if flags.has(QueryFlags::DKEY) {
                give_key(dkey, &found.dkey)?;
            }
            if flags.has(QueryFlags::AKEY) {
                give_key(akey, &found.akey)?;
            }
            if flags.has(QueryFlags::RECX) {
                recx.set(found.recx.map(CRecx::from).ok_or(Der::NONEXIST)?)?;
            }
            Ok(())
        };
        if ev.is_null() || when.is_tx() {
            let (dkey, akey) = (own_dkey.to_vec(), own_akey.to_vec());
            let ask = move |way| async move {
                let found = object.client.query_by(way, when.at(), flags, &dkey, &akey).await?;
                give(found)
            };
            return code(go(ev, ask));
        }
        let start =
            |event: &mut _| Ok(object.client.query_on(event, when.at(), flags, own_dkey, own_akey)?);
        launch(ev, &object.cont.pool, start, move |ending| der(|| give(found(ending)?)))
    })
}

/// What a key query has ended with.
///
/// # Errors
/// Its own.
pub(crate) fn found(ending: Ending) -> Result<Option<Found>> {
    match ending.result? {
        Output::Found(found) => Ok(found),
        _ => Err(Der::MISC),
    }
}

/// Copies a key to the program's buffer for it.
fn give_key(to: Out<Iov>, key: &[u8]) -> Result<()> {
    let mut iov = to.get()?;
    if iov.buf_len < key.len() {
        return Err(Der::KEY2BIG);
    }
    iov.buf.copy_from(key)?;
    iov.len = key.len();
    to.set(iov)
}

/// When the newest value of an object was written.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_query_max_epoch(oh: Handle, th: Handle, epoch: Out<u64>, ev: Ev) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?.seen_by(&object, ev);
        let epoch = epoch.check()?;
        if !ev.is_null() && !when.is_tx() {
            let mut walk = Walk::new(object.client.clone(), when, None);
            let Chained::Ask(start) = walk.next() else { return Err(Der::MISC) };
            return launch_chain(ev, &object.cont.pool, start, move |ending| {
                walk.take(ending)?;
                let next = walk.next();
                if let Chained::Done = next {
                    epoch.set(walk.newest.0)?;
                }
                Ok(next)
            });
        }
        let look = move |way| async move { epoch.set(newest(way, &object.client, &when).await?.0) };
        code(go(ev, look))
    })
}

/// When the newest visible value was written.
async fn newest(way: Way, object: &Object, when: &When) -> Result<Epoch> {
    let (mut newest, mut dkeys) = (Epoch::ZERO, Anchor::default());
    while !dkeys.is_eof() {
        for dkey in object.list_dkeys_by(way, when.at(), &mut dkeys, Page::default()).await?.iter() {
            let mut akeys = Anchor::default();
            while !akeys.is_eof() {
                let page = object.list_akeys_by(way, when.at(), dkey, &mut akeys, Page::default()).await?;
                for akey in page.iter() {
                    let mut extents = Anchor::default();
                    while !extents.is_eof() {
                        let at = when.at();
                        let found = object.list_extents_by(way, at, dkey, akey, &mut extents, 1024).await?;
                        newest = found.iter().map(|extent| extent.epoch).fold(newest, Epoch::max);
                    }
                }
            }
        }
    }
    Ok(newest)
}

/// Reads an object as it was at an epoch, and verifies every checksum on the way.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_verify(coh: Handle, oid: ObjId, epoch: u64) -> c_int {
    der(|| {
        let cont = handle::cont(coh)?;
        let past = (epoch != 0 && epoch != u64::MAX).then_some(Epoch(epoch));
        let client = past.map_or_else(|| cont.client.clone(), |epoch| cont.client.at(epoch));
        verify(&client.object(oid.oid())?)
    })
}

fn verify(object: &Object) -> Result<()> {
    let now = When::now();
    let mut buf = dolmen_client::IoBuf::default();
    let mut dkeys = Anchor::default();
    while !dkeys.is_eof() {
        for dkey in object.list_dkeys(now.at(), &mut dkeys, Page::default())?.iter() {
            let mut akeys = Anchor::default();
            while !akeys.is_eof() {
                for akey in object.list_akeys(now.at(), dkey, &mut akeys, Page::default())?.iter() {
                    verify_akey(object, &now, dkey, akey, &mut buf)?;
                }
            }
        }
    }
    Ok(())
}

fn verify_akey(
    object: &Object,
    now: &When,
    dkey: &[u8],
    akey: &[u8],
    buf: &mut dolmen_client::IoBuf,
) -> Result<()> {
    let mut extents = Anchor::default();
    while !extents.is_eof() {
        for extent in object.list_extents(now.at(), dkey, akey, &mut extents, 1024)? {
            let read = if extent.single {
                object.get(now.at(), dkey, akey, buf).map(drop)
            } else {
                object.read(now.at(), dkey, akey, extent.record_bytes, extent.recx, buf).map(drop)
            };
            match read {
                Err(dolmen_client::Error::Corrupt { .. }) => return Err(Der::MISMATCH),
                other => other?,
            }
        }
    }
    Ok(())
}

/// How many parts a listing of dkeys has at most.
fn parts(object: &ObjectHandle) -> u16 {
    object.client.oid().class().groups().min(object.cont.pool.client.target_count()).max(1)
}

/// Cuts a listing of dkeys into parts that can be listed side by side.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_anchor_split(oh: Handle, nr: Out<u32>, anchors: Out<CAnchor>) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let shards = parts(&object);
        let wanted = nr.get()?;
        if anchors.is_null() || wanted == 0 {
            return nr.set(u32::from(shards));
        }
        let count = u16::try_from(wanted).unwrap_or(u16::MAX).min(shards);
        let cut = |index: u16| {
            let at = u32::from(shards) * u32::from(index) / u32::from(count);
            u16::try_from(at).unwrap_or(shards)
        };
        for index in 0..count {
            anchors.at(usize::from(index)).set(CAnchor::part(cut(index), cut(index + 1)))?;
        }
        nr.set(u32::from(count))
    })
}

/// The anchor of one of the parts of a listing of dkeys.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_anchor_set(oh: Handle, index: u32, anchor: Out<CAnchor>) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let index = u16::try_from(index).ok().filter(|&index| index < parts(&object)).ok_or(Der::INVAL)?;
        anchor.set(CAnchor::part(index, index + 1))
    })
}

/// The anchor of a listing of dkeys, or of the akeys of one, that goes on with a key, or with what follows it.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_key2anchor(
    oh: Handle,
    th: Handle,
    dkey: In<Iov>,
    akey: In<Iov>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    run(ev, || {
        let object = handle::object(oh)?;
        When::of(th, &object.cont)?;
        let at = if akey.is_null() {
            object.client.anchor_at(dkey.get()?.key()?)?
        } else {
            dkey.get()?.key()?;
            object.client.anchor_at_akey(akey.get()?.key()?)?
        };
        anchor.set(CAnchor::part(0, 0).moved_to(&at))
    })
}

/// The id of an object id table: of no object that a program makes.
pub(crate) fn is_table(oid: Oid) -> bool {
    matches!(oid.object_type(), Some(ObjectType::Oit | ObjectType::OitV2))
}

/// Classes of one's own do not exist.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_register_class(coh: Handle, _class: u32, _attr: Out<u8>, ev: Ev) -> c_int {
    run(ev, || no_classes(coh))
}

/// As [`daos_obj_register_class`].
#[unsafe(no_mangle)]
extern "C" fn daos_obj_query_class(coh: Handle, _class: u32, _attr: Out<u8>, ev: Ev) -> c_int {
    run(ev, || no_classes(coh))
}

/// As [`daos_obj_register_class`].
#[unsafe(no_mangle)]
extern "C" fn daos_obj_list_class(coh: Handle, _list: Out<u8>, _anchor: Out<CAnchor>, ev: Ev) -> c_int {
    run(ev, || no_classes(coh))
}

fn no_classes(_coh: Handle) -> Result<()> {
    life::check()?;
    Err(Der::NOSYS)
}
