//! Updates and fetches of objects: from the program's descriptors to the client's, and back.

use crate::buffer::{self, Filled, Pieces};
use crate::error::{Der, Result, der};
use crate::event::{Chained, Ev, Finish, at_once, later, launch_chain, launch_with};
use crate::handle;
use crate::object::ObjectHandle;
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{Handle, Iov, SgList};
use core::ffi::{c_int, c_uint};
use dolmen_client::{
    Cond, FetchIod, Fetched, FetchedIod, IoBuf, Key, NewValue, Output, Payload, Recx, UpdateIod, Want, limits,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The kinds of a descriptor.
//= daos:src/include/daos_obj.h daos_iod_type_t
pub(crate) const SINGLE: c_uint = 1;
pub(crate) const ARRAY: c_uint = 2;
/// A map lists every extent, not only the first and the last.
//= daos:src/include/daos_obj.h DAOS_IOMF_DETAIL
const MAP_DETAIL: u32 = 1;
/// Bytes of the values whose map a program asks for without them: they are read all the same.
const MAPPED_BYTES_MAX: usize = 256 << 20;
/// All conditions.
const COND_MASK: u64 = 255;

/// An extent in records.
//= daos:src/include/daos_obj.h daos_recx_t
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct CRecx {
    pub(crate) idx: u64,
    pub(crate) nr: u64,
}

impl From<Recx> for CRecx {
    fn from(recx: Recx) -> Self {
        Self { idx: recx.index, nr: recx.count }
    }
}

/// What is written or read of one akey.
//= daos:src/include/daos_obj.h daos_iod_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CIod {
    pub(crate) name: Iov,
    pub(crate) kind: c_uint,
    pub(crate) size: u64,
    pub(crate) flags: u64,
    pub(crate) nr: u32,
    pub(crate) recxs: In<CRecx>,
}

/// Which extents a fetch found.
//= daos:src/include/daos_obj.h daos_iom_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CIom {
    kind: c_uint,
    nr: u32,
    nr_out: u32,
    flags: u32,
    size: u64,
    recx_lo: CRecx,
    recx_hi: CRecx,
    recxs: Out<CRecx>,
}

const _: () = assert!(size_of::<CIod>() == 64);
const _: () = assert!(size_of::<CIom>() == 64);

/// Writes values under one dkey, atomically.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_update(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: In<Iov>,
    nr: c_uint,
    iods: Out<CIod>,
    sgls: Out<SgList>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        object.check_writable(&when)?;
        let (dkey, cond) = (dkey.get()?.key()?, cond(flags)?);
        let iods = updates(nr, iods, sgls, cond)?;
        update(&object, &when, dkey, cond, iods, ev)
    })
}

/// Writes what is described, at once or with an event.
///
/// # Errors
/// Those of the client.
pub(crate) fn update(
    object: &ObjectHandle,
    when: &When,
    dkey: &[u8],
    cond: Cond,
    iods: SmallVec<[UpdateIod<'static>; 1]>,
    ev: Ev,
) -> Result<()> {
    if ev.is_null() {
        object.client.update(when.at(), dkey, cond, &iods)?;
        return Ok(());
    }
    if when.is_tx() {
        return at_once(ev, || Ok(object.client.update(when.at(), dkey, cond, &iods).map(drop)?));
    }
    if !cond.is_none() && iods.iter().any(|iod| is_large(&iod.value)) {
        let (client, when, dkey) = (object.client.clone(), when.clone(), dkey.to_vec());
        return later(ev, move || Ok(client.update(when.at(), &dkey, cond, &iods).map(drop)?));
    }
    let start = |event: &mut _| Ok(object.client.update_on(event, when.at(), dkey, cond, iods.into_vec())?);
    launch_with(ev, &object.cont.pool, start, Finish::Plain)
}

/// Whether a value may take several requests, which cannot carry a condition together.
fn is_large(value: &NewValue<'_>) -> bool {
    match value {
        NewValue::Array { extents, data, .. } => {
            data.bytes().len() > limits::PAYLOAD_BYTES_MAX
                || extents
                    .iter()
                    .any(|recx| recx.index % limits::WINDOW_RECORDS + recx.count > limits::WINDOW_RECORDS)
        }
        NewValue::Hole { extents } => extents.len() > limits::EXTENTS_MAX,
        NewValue::Single(_) | NewValue::NoSingle => false,
    }
}

/// What a function has returned, as a result again.
pub(crate) fn code(returned: c_int) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Der::from_code(returned)) }
}

pub(crate) fn cond(flags: u64) -> Result<Cond> {
    if flags & !COND_MASK == 0 { Ok(Cond(flags)) } else { Err(Der::INVAL) }
}

/// The descriptors of an update. Their payload stays in the program's memory if it is in one piece.
fn updates(
    nr: c_uint,
    iods: Out<CIod>,
    sgls: Out<SgList>,
    cond: Cond,
) -> Result<SmallVec<[UpdateIod<'static>; 1]>> {
    let count = nr as usize;
    if !(1..=limits::IODS_MAX).contains(&count) {
        return Err(Der::INVAL);
    }
    let mut updates = SmallVec::with_capacity(count);
    for (index, iod) in iods.list(count)?.iter().enumerate() {
        let sgl = if sgls.is_null() { Out::NULL } else { sgls.at(index) };
        let flags = if cond.has(Cond::PER_AKEY) { iod.flags & COND_MASK } else { 0 };
        let value = value_of(iod, sgl)?;
        updates.push(UpdateIod { akey: Key::from_slice(iod.name.key()?), cond: Cond(flags), value });
    }
    Ok(updates)
}

fn value_of(iod: &CIod, sgl: Out<SgList>) -> Result<NewValue<'static>> {
    match iod.kind {
        SINGLE if iod.nr != 1 => Err(Der::INVAL),
        SINGLE if iod.size == 0 => Ok(NewValue::NoSingle),
        SINGLE if iod.size > limits::PAYLOAD_BYTES_MAX as u64 => Err(Der::REC2BIG),
        SINGLE => Ok(NewValue::Single(payload(sgl, Some(iod.size))?)),
        ARRAY if iod.size == 0 => Ok(NewValue::Hole { extents: extents(iod)? }),
        ARRAY => {
            let extents = extents(iod)?;
            let data = payload(sgl, bytes_of(&extents, iod.size))?;
            Ok(NewValue::Array { record_bytes: iod.size, extents, data })
        }
        _ => Err(Der::INVAL),
    }
}

pub(crate) fn payload(sgl: Out<SgList>, len: Option<u64>) -> Result<Payload<'static>> {
    let len = len.and_then(|len| usize::try_from(len).ok()).ok_or(Der::INVAL)?;
    let pieces = Pieces::of(sgl)?.ok_or(Der::INVAL)?;
    Ok(match pieces.filled(len)? {
        Filled::One(bytes) => Payload::Ref(bytes),
        Filled::Gathered(buf) => Payload::Owned(buf),
    })
}

/// # Errors
/// `INVAL` for none, or more than a request may have.
pub(crate) fn extents(iod: &CIod) -> Result<SmallVec<[Recx; 1]>> {
    let count = iod.nr as usize;
    if !(1..=limits::EXTENTS_MAX).contains(&count) {
        return Err(Der::INVAL);
    }
    Ok(iod.recxs.list(count)?.iter().map(|recx| Recx::new(recx.idx, recx.nr)).collect())
}

/// Bytes of all records; `None` above 64 bits.
pub(crate) fn bytes_of(extents: &[Recx], record_bytes: u64) -> Option<u64> {
    let records = extents.iter().try_fold(0_u64, |sum, recx| sum.checked_add(recx.count))?;
    records.checked_mul(record_bytes)
}

/// Reads values under one dkey.
#[unsafe(no_mangle)]
extern "C" fn daos_obj_fetch(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: In<Iov>,
    nr: c_uint,
    iods: Out<CIod>,
    sgls: Out<SgList>,
    ioms: Out<CIom>,
    ev: Ev,
) -> c_int {
    der(|| {
        let object = handle::object(oh)?;
        let when = When::of(th, &object.cont)?;
        let (dkey, cond) = (dkey.get()?.key()?, cond(flags)?);
        fetch(&object, &when, dkey, cond, Lists { nr, iods, sgls, ioms }, ev)
    })
}

/// What a fetch was called with.
#[derive(Clone, Copy)]
struct Lists {
    nr: c_uint,
    iods: Out<CIod>,
    sgls: Out<SgList>,
    ioms: Out<CIom>,
}

fn fetch(
    object: &Arc<ObjectHandle>,
    when: &When,
    dkey: &[u8],
    cond: Cond,
    lists: Lists,
    ev: Ev,
) -> Result<()> {
    if !(1..=limits::IODS_MAX).contains(&(lists.nr as usize)) {
        return Err(Der::INVAL);
    }
    let unknown = lists.iods.list(lists.nr as usize)?.iter().enumerate().any(|(index, iod)| {
        let sgl = if lists.sgls.is_null() { Out::NULL } else { lists.sgls.at(index) };
        iod.kind == ARRAY && iod.size == 0 && Pieces::of(sgl).is_ok_and(|pieces| pieces.is_some())
    });
    if unknown && !ev.is_null() {
        let (object, when, dkey) = (Arc::clone(object), when.clone(), dkey.to_vec());
        if when.is_tx() {
            return later(ev, move || fetch(&object, &when, &dkey, cond, lists, Out::NULL));
        }
        return fetch_unknown(object, when, dkey, cond, lists, ev);
    }
    let mut sizes = SmallVec::<[u64; 1]>::new();
    if unknown {
        sizes = record_sizes(object, when, dkey, &lists)?;
    }
    let (wants, fetching, len) = plan(&lists, cond, &sizes)?;
    let cond = fetching.whole_cond;
    let mut buf = buffer::take(len)?;
    if ev.is_null() {
        let fetched = object.client.fetch(when.at(), dkey, cond, &wants, &mut buf);
        return code(fetching.arrived(fetched, buf));
    }
    let start = |event: &mut _| Ok(object.client.fetch_on(event, when.at(), dkey, cond, &wants, buf)?);
    launch_with(ev, &object.cont.pool, start, Finish::Fetch(fetching))
}

/// Launches a fetch of arrays whose record size the program does not know: that is asked for first.
fn fetch_unknown(
    object: Arc<ObjectHandle>,
    when: When,
    dkey: Vec<u8>,
    cond: Cond,
    lists: Lists,
    ev: Ev,
) -> Result<()> {
    let iods = lists.iods.list(lists.nr as usize)?;
    let size_of = |iod: &CIod| Ok(FetchIod { akey: Key::from_slice(iod.name.key()?), want: Want::Size });
    let asked: Result<SmallVec<[FetchIod; 1]>> = iods.iter().map(size_of).collect();
    let (asked, own, at, key) = (asked?, Arc::clone(&object), when.clone(), dkey.clone());
    let start = |event: &mut _| {
        Ok(own.client.fetch_on(event, at.at(), &key, Cond::NONE, &asked, IoBuf::default())?)
    };
    let mut fetching = None;
    launch_chain(ev, &own.cont.pool, start, move |ending| {
        if let Some(fetching) = fetching.take() {
            return code(Fetching::end(fetching, ending)).map(|()| Chained::Done);
        }
        let Output::Fetched(found) = ending.result? else { return Err(Der::MISC) };
        let known = lists.iods.list(lists.nr as usize)?.iter().zip(&found);
        let is_known = |iod: &CIod| iod.kind != ARRAY || iod.size != 0;
        let sizes: SmallVec<[u64; 1]> =
            known.map(|(iod, found)| if is_known(iod) { iod.size } else { found.size_bytes }).collect();
        let (wants, planned, len) = plan(&lists, cond, &sizes)?;
        let (cond, buf) = (planned.whole_cond, buffer::take(len)?);
        fetching = Some(planned);
        let (object, when, dkey) = (Arc::clone(&object), when.clone(), dkey.clone());
        Ok(Chained::Ask(Box::new(move |event| {
            Ok(object.client.fetch_on(event, when.at(), &dkey, cond, &wants, buf)?)
        })))
    })
}

/// Record sizes where the program does not know them.
fn record_sizes(
    object: &ObjectHandle,
    when: &When,
    dkey: &[u8],
    lists: &Lists,
) -> Result<SmallVec<[u64; 1]>> {
    let sizes = lists.iods.list(lists.nr as usize)?.iter().map(|iod| {
        if iod.kind != ARRAY || iod.size != 0 {
            return Ok(iod.size);
        }
        Ok(object.client.size(when.at(), dkey, iod.name.key()?)?)
    });
    sizes.collect()
}

/// A fetch under way: where its values go.
pub(crate) struct Fetching {
    parts: SmallVec<[Part; 1]>,
    /// The condition that the store checks; what only some akeys have is checked at the end.
    whole_cond: Cond,
}

struct Part {
    iod: Out<CIod>,
    pieces: Option<Pieces>,
    iom: Out<CIom>,
    must_exist: bool,
    /// Where the value begins in the buffer.
    start: usize,
    record_bytes: u64,
    /// Of an array; none for a single value or a size.
    extents: SmallVec<[Recx; 1]>,
}

type Plan = (SmallVec<[FetchIod; 1]>, Fetching, usize);

/// What is asked of the store, and where the answer goes. `sizes` has the record size of each, if one was not known.
fn plan(lists: &Lists, cond: Cond, sizes: &[u64]) -> Result<Plan> {
    let count = lists.nr as usize;
    let iods = lists.iods.list(count)?;
    let per_akey = cond.has(Cond::PER_AKEY);
    let is_needed = |iod: &CIod| per_akey && Cond(iod.flags).has(Cond::AKEY_FETCH);
    let whole = Cond(cond.0 & !Cond::PER_AKEY.0);
    let mut fetching = Fetching { parts: SmallVec::with_capacity(count), whole_cond: whole };
    let mut wants = SmallVec::with_capacity(count);
    let (mut len, mut mapped) = (0_usize, 0_usize);
    for (index, iod) in iods.iter().enumerate() {
        let sgl = if lists.sgls.is_null() { Out::NULL } else { lists.sgls.at(index) };
        let iom = if lists.ioms.is_null() { Out::NULL } else { lists.ioms.at(index) };
        let pieces = Pieces::of(sgl)?;
        let size = sizes.get(index).copied().unwrap_or(iod.size);
        let (want, bytes) = want_of(iod, size, pieces.as_ref(), !iom.is_null())?;
        if pieces.is_none() {
            mapped = mapped.saturating_add(bytes);
        }
        if mapped > MAPPED_BYTES_MAX {
            return Err(Der::REC2BIG);
        }
        let extents = match &want {
            Want::Array { extents, .. } => extents.clone(),
            Want::Single { .. } | Want::Size => SmallVec::new(),
        };
        wants.push(FetchIod { akey: Key::from_slice(iod.name.key()?), want });
        let iod_at = lists.iods.at(index);
        let must_exist = is_needed(iod);
        fetching.parts.push(Part {
            iod: iod_at,
            pieces,
            iom,
            must_exist,
            start: len,
            record_bytes: size,
            extents,
        });
        len = len.checked_add(bytes).ok_or(Der::REC2BIG)?;
    }
    Ok((wants, fetching, len))
}

/// What is wanted of one akey, and the bytes that it takes.
fn want_of(iod: &CIod, size: u64, pieces: Option<&Pieces>, has_map: bool) -> Result<(Want, usize)> {
    match (iod.kind, pieces) {
        (SINGLE, _) if iod.nr != 1 => Err(Der::INVAL),
        (SINGLE, Some(pieces)) => {
            let known =
                if size == 0 { usize::MAX } else { usize::try_from(size).map_err(|_wide| Der::REC2BIG)? };
            let room_bytes = pieces.room()?.min(known).min(limits::PAYLOAD_BYTES_MAX);
            Ok(if room_bytes == 0 { (Want::Size, 0) } else { (Want::Single { room_bytes }, room_bytes) })
        }
        (ARRAY, _) if size > 0 && (pieces.is_some() || has_map) => {
            let extents = extents(iod)?;
            let bytes = bytes_of(&extents, size).and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.ok_or(Der::REC2BIG)?;
            if let Some(pieces) = pieces
                && pieces.room()? < bytes
            {
                return Err(Der::REC2BIG);
            }
            Ok((Want::Array { record_bytes: size, extents }, bytes))
        }
        (SINGLE | ARRAY, _) => Ok((Want::Size, 0)),
        _ => Err(Der::INVAL),
    }
}

impl Fetching {
    /// Ends an asynchronous fetch.
    pub(crate) fn end(self, ending: crate::event::Ending) -> c_int {
        let fetched = match ending.result {
            Ok(Output::Fetched(fetched)) => Ok(fetched),
            Ok(_) => return Der::MISC.code(),
            Err(error) => Err(error),
        };
        match ending.buf {
            Some(buf) => self.arrived(fetched, buf),
            None => fetched.map_or_else(|error| Der::from(error).code(), |_| Der::MISC.code()),
        }
    }

    /// Copies what was found to the program's memory.
    fn arrived(&self, fetched: dolmen_client::Result<Fetched>, buf: IoBuf) -> c_int {
        let copied = der(|| match fetched {
            Ok(fetched) => self.copy(&fetched, &buf),
            Err(error) => {
                if let (dolmen_client::Error::RecTooBig { needed_bytes }, [part]) = (&error, &self.parts[..])
                {
                    part.set_size(*needed_bytes)?;
                }
                Err(error.into())
            }
        });
        buffer::put_back(buf);
        copied
    }

    fn copy(&self, fetched: &[FetchedIod], buf: &[u8]) -> Result<()> {
        let mut missing = false;
        for (part, found) in self.parts.iter().zip(fetched) {
            missing |= part.must_exist && found.size_bytes == 0;
            part.set_size(found.size_bytes)?;
            if let Some(pieces) = &part.pieces {
                let filled = part.copy(pieces, found, buf)?;
                pieces.set_filled(filled)?;
            }
            part.map(found)?;
        }
        if missing { Err(Der::NONEXIST) } else { Ok(()) }
    }
}

impl Part {
    fn set_size(&self, size: u64) -> Result<()> {
        let iod = self.iod.get()?;
        self.iod.set(CIod { size, ..iod })
    }

    /// Copies one value; the end of what was copied.
    fn copy(&self, pieces: &Pieces, found: &FetchedIod, buf: &[u8]) -> Result<usize> {
        let mut pen = pieces.pen()?;
        let part = buf.get(self.start..).ok_or(Der::MISC)?;
        if self.extents.is_empty() {
            let len = usize::try_from(found.size_bytes).map_err(|_wide| Der::REC2BIG)?;
            pen.write(0, part.get(..len).ok_or(Der::REC2BIG)?)?;
            return Ok(len);
        }
        let record = usize::try_from(self.record_bytes).map_err(|_wide| Der::REC2BIG)?;
        let (mut base, mut end) = (0_usize, 0_usize);
        for extent in &self.extents {
            let first =
                found.filled.partition_point(|filled| filled.end().unwrap_or(u64::MAX) <= extent.index);
            for common in found.filled[first..].iter().map_while(|filled| filled.intersect(*extent)) {
                let at = base + records(common.index - extent.index, record)?;
                let len = records(common.count, record)?;
                pen.write(at, part.get(at..at + len).ok_or(Der::MISC)?)?;
                end = at + len;
            }
            base += records(extent.count, record)?;
        }
        Ok(end)
    }

    /// Tells which extents were found, if the program wants to know.
    fn map(&self, found: &FetchedIod) -> Result<()> {
        if self.iom.is_null() {
            return Ok(());
        }
        let mut iom = self.iom.get()?;
        iom.kind = self.iod.get()?.kind;
        iom.size = found.size_bytes;
        iom.nr_out = u32::try_from(found.filled.len()).map_err(|_wide| Der::OVERFLOW)?;
        iom.recx_lo = found.filled.first().copied().map_or(CRecx::default(), CRecx::from);
        iom.recx_hi = found.filled.last().copied().map_or(CRecx::default(), CRecx::from);
        if iom.flags & MAP_DETAIL != 0 && !iom.recxs.is_null() {
            for (index, recx) in found.filled.iter().take(iom.nr as usize).enumerate() {
                iom.recxs.at(index).set((*recx).into())?;
            }
        }
        self.iom.set(iom)
    }
}

/// Bytes of records.
fn records(count: u64, record_bytes: usize) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_wide| Der::REC2BIG)?;
    count.checked_mul(record_bytes).ok_or(Der::REC2BIG)
}
