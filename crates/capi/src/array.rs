//! One-dimensional arrays.

use crate::buffer::{self, Filled, Pieces};
use crate::cont::ContHandle;
use crate::error::{Der, Result, der};
use crate::event::{
    Chained, Ending, Ev, Next, Start, at_once, go, launch, launch_chain, launch_parts, launch_rounds, run,
};
use crate::handle::{self, Entry};
use crate::io::code;
use crate::kv::AKEY;
use crate::object::{self, ArrayHandle, ObjectHandle, found};
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{Handle, ObjId, SgList};
use crate::walk::Walk;
use core::ffi::{c_int, c_uint};
use dolmen_client::{
    Anchor, Array, ArrayPart, At, Cond, Event, FetchIod, Key, NewValue, ObjectType, Output, Page, Payload,
    Recx, UpdateIod, Want, Way, limits,
};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

/// Chunks that a punch changes side by side; more are looked for first, since few of them may exist.
const PUNCH_PARTS_MAX: u64 = 64;

/// A range of records.
//= daos:src/include/daos_array.h daos_range_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CRange {
    index: u64,
    len: u64,
}

/// Ranges of records, and how many of a read were not there.
//= daos:src/include/daos_array.h daos_array_iod_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CArrayIod {
    nr: u64,
    ranges: In<CRange>,
    short_read: u64,
    read: u64,
}

/// Size and age of an array.
//= daos:src/include/daos_array.h daos_array_stbuf_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CArrayStat {
    size: u64,
    max_epoch: u64,
}

const _: () = assert!(size_of::<CArrayIod>() == 32);

impl ArrayHandle {
    /// The same array through another handle on its object.
    pub(crate) fn reopened(&self, object: Arc<ObjectHandle>) -> Option<Arc<Self>> {
        let (cell_bytes, chunk_records) = {
            let old = self.client.try_read().ok()?;
            (old.cell_bytes(), old.chunk_records())
        };
        let (cont, oid) = (&object.cont.client, object.client.oid());
        let made = if object.client.object_type() == ObjectType::Array {
            Array::open(cont, At::Latest, oid)
        } else {
            Array::open_with(cont, oid, cell_bytes, chunk_records)
        };
        let client = RwLock::new(made.ok()?);
        Some(Arc::new(Self { object, client }))
    }

    fn array(&self) -> Array {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A handle on an array of a container.
///
/// # Errors
/// `INVAL` if the id is of no array.
pub(crate) fn insert(cont: &Arc<ContHandle>, oid: ObjId, mode: u32, client: Array) -> Result<Handle> {
    let object = object::open(cont, oid, mode)?;
    handle::insert(Entry::Array(Arc::new(ArrayHandle { object, client: RwLock::new(client) })))
}

/// Makes an array; its sizes are kept in it if its type says so.
#[unsafe(no_mangle)]
extern "C" fn daos_array_create(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    cell_size: u64,
    chunk_size: u64,
    oh: Out<Handle>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        let (when, oh) = (When::of(th, &cont)?, oh.check()?);
        cont.check_writable()?;
        let made = Array::create_by(way, &cont.client, when.at(), oid.oid(), cell_size, chunk_size).await?;
        oh.set(insert(&cont, oid, object::OPEN_RW, made)?)
    })
}

/// Opens an array that keeps its own sizes, and tells them.
#[unsafe(no_mangle)]
extern "C" fn daos_array_open(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    mode: c_uint,
    cell_size: Out<u64>,
    chunk_size: Out<u64>,
    oh: Out<Handle>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        let (when, oh) = (When::of(th, &cont)?, oh.check()?);
        let array = Array::open_by(way, &cont.client, when.at(), oid.oid()).await?;
        let (cell_bytes, chunk_records) = (array.cell_bytes(), array.chunk_records());
        let opened = insert(&cont, oid, mode, array)?;
        cell_size.set_if_wanted(cell_bytes);
        chunk_size.set_if_wanted(chunk_records);
        oh.set(opened)
    })
}

/// Opens an array whose sizes the program keeps; nothing is asked.
#[unsafe(no_mangle)]
extern "C" fn daos_array_open_with_attr(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    mode: c_uint,
    cell_size: u64,
    chunk_size: u64,
    oh: Out<Handle>,
    ev: Ev,
) -> c_int {
    run(ev, || {
        let oh = oh.check()?;
        let cont = handle::cont(coh)?;
        When::of(th, &cont)?;
        let array = Array::open_with(&cont.client, oid.oid(), cell_size, chunk_size)?;
        oh.set(insert(&cont, oid, mode, array)?)
    })
}

/// Gives a handle on an array up.
#[unsafe(no_mangle)]
extern "C" fn daos_array_close(oh: Handle, ev: Ev) -> c_int {
    run(ev, || handle::remove(oh, |entry| matches!(entry, Entry::Array(_))).map(drop))
}

/// An operation on an array: its handle, when, and whether that may write.
struct Use {
    handle: Arc<ArrayHandle>,
    array: Array,
    when: When,
}

impl Use {
    fn of(oh: Handle, th: Handle) -> Result<Self> {
        let handle = handle::array(oh)?;
        let when = When::of(th, &handle.object.cont)?;
        let array = handle.array();
        Ok(Self { handle, array, when })
    }

    fn to_read(oh: Handle, th: Handle, ev: Ev) -> Result<Self> {
        let used = Self::of(oh, th)?;
        let when = used.when.seen_by(&used.handle.object, ev);
        Ok(Self { when, ..used })
    }

    fn to_write(oh: Handle, th: Handle) -> Result<Self> {
        let used = Self::of(oh, th)?;
        used.handle.object.check_writable(&used.when)?;
        Ok(used)
    }

    /// Launches a change of the chunks that the ranges lie in, each with a value of its own.
    fn change(
        &self,
        ranges: &[Recx],
        value: impl Fn(ArrayPart) -> Result<NewValue<'static>>,
        ev: Ev,
    ) -> Result<()> {
        let start = |event: &mut Event, part: ArrayPart| {
            let dkey = part.dkey;
            let iod = UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value: value(part)? };
            Ok(self.array.object().update_on(event, self.when.at(), &dkey, Cond::NONE, vec![iod])?)
        };
        let end = |endings: Vec<Ending>| {
            der(|| Ok(endings.into_iter().try_for_each(|ending| ending.result.map(drop))?))
        };
        launch_parts(ev, &self.handle.object.cont.pool, self.array.parts(ranges)?, start, end)
    }

    /// Launches a look at size and age: first the size, then every extent.
    fn stat(self, stat: Out<CArrayStat>, ev: Ev) -> Result<()> {
        let (object, array) = (self.array.object().clone(), self.array.clone());
        let start =
            |event: &mut _| Ok(object.query_on(event, self.when.at(), Array::SIZE_FLAGS, &[], AKEY)?);
        let (mut walk, mut size) = (Walk::new(object.clone(), self.when.clone(), Some(AKEY)), None);
        launch_chain(ev, &self.handle.object.cont.pool, start, move |ending| {
            match size {
                None => size = Some(array.size_of(found(ending)?.as_ref())?),
                Some(_) => walk.take(ending)?,
            }
            let next = walk.next();
            if let Chained::Done = next {
                stat.set(CArrayStat { size: size.unwrap_or(0), max_epoch: walk.newest.0 })?;
            }
            Ok(next)
        })
    }

    /// Launches a punch of ranges that name more chunks than exist: the chunks are listed, and changed one after the other.
    fn punch_existing(self, ranges: SmallVec<[Recx; 1]>, ev: Ev) -> Result<()> {
        if ranges.iter().any(|range| range.end().is_none()) {
            return Err(Der::INVAL);
        }
        let (object, when) = (self.array.object().clone(), self.when.clone());
        let chunk_records = self.array.chunk_records();
        let mut holes = VecDeque::new();
        let mut position = Anchor::default();
        let start = |event: &mut _| Ok(object.list_dkeys_on(event, when.at(), position, Page::default())?);
        let (own, at) = (object.clone(), when.clone());
        launch_chain(ev, &self.handle.object.cont.pool, start, move |ending| {
            if let Output::Keys(keys, anchor) = ending.result? {
                position = anchor;
                holes.extend(keys.iter().filter_map(|dkey| holes_of(dkey, &ranges, chunk_records)));
            }
            let (object, when) = (own.clone(), at.clone());
            Ok(match holes.pop_front() {
                Some((dkey, extents)) => Chained::Ask(Box::new(move |event| {
                    let value = NewValue::Hole { extents };
                    let iod = UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value };
                    Ok(object.update_on(event, when.at(), &dkey, Cond::NONE, vec![iod])?)
                })),
                None if position.is_eof() => Chained::Done,
                None => Chained::Ask(Box::new(move |event| {
                    Ok(object.list_dkeys_on(event, when.at(), position, Page::default())?)
                })),
            })
        })
    }

    /// Bytes of all ranges.
    fn bytes(&self, ranges: &[Recx]) -> Result<usize> {
        let records = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.count));
        let bytes = records.and_then(|records| records.checked_mul(self.array.cell_bytes()));
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(Der::INVAL)
    }
}

/// What ranges of an array mean for the chunk of a dkey: nothing for the dkey of the sizes, and for a chunk in none of them.
fn holes_of(dkey: &[u8], ranges: &[Recx], chunk_records: u64) -> Option<([u8; 8], SmallVec<[Recx; 1]>)> {
    let dkey = <[u8; 8]>::try_from(dkey).ok()?;
    let start = u64::from_le_bytes(dkey).checked_sub(1)?.checked_mul(chunk_records)?;
    let chunk = Recx::new(start, chunk_records.min(u64::MAX - start));
    let parts = ranges.iter().filter_map(|range| range.intersect(chunk));
    let extents: SmallVec<[Recx; 1]> = parts.map(|part| Recx::new(part.index - start, part.count)).collect();
    (!extents.is_empty()).then_some((dkey, extents))
}

fn ranges(iod: Out<CArrayIod>) -> Result<SmallVec<[Recx; 1]>> {
    let iod = iod.get()?;
    let count =
        usize::try_from(iod.nr).ok().filter(|&count| count <= limits::EXTENTS_MAX).ok_or(Der::INVAL)?;
    let ranges = iod.ranges.list(count)?;
    Ok(ranges.iter().filter(|range| range.len > 0).map(|range| Recx::new(range.index, range.len)).collect())
}

/// Reads ranges of records; what is not there becomes zeros.
#[unsafe(no_mangle)]
extern "C" fn daos_array_read(
    oh: Handle,
    th: Handle,
    iod: Out<CArrayIod>,
    sgl: Out<SgList>,
    ev: Ev,
) -> c_int {
    der(|| {
        let used = Use::to_read(oh, th, ev)?;
        let ranges = ranges(iod)?;
        let len = used.bytes(&ranges)?;
        let pieces = Pieces::of(sgl)?.ok_or(Der::INVAL)?;
        if pieces.room()? < len {
            return Err(Der::INVAL);
        }
        let read = Read { ranges, len, pieces, iod };
        if ev.is_null() || used.when.is_tx() {
            return code(go(ev, move |way| read.all(used, way)));
        }
        read.launch(used, ev)
    })
}

/// A read of ranges: where it goes.
struct Read {
    ranges: SmallVec<[Recx; 1]>,
    len: usize,
    pieces: Pieces,
    iod: Out<CArrayIod>,
}

impl Read {
    async fn all(self, used: Use, way: Way) -> Result<()> {
        let mut buf = buffer::take(self.len)?;
        let read = used.array.read_by(way, used.when.at(), &self.ranges, &mut buf).await;
        let done = read.map_err(Der::from).and_then(|read| {
            self.pieces.pen()?.write(0, &buf[..self.len])?;
            self.tell(read.records, read.short_records)
        });
        buffer::put_back(buf);
        done
    }

    fn tell(&self, read: u64, short_read: u64) -> Result<()> {
        self.pieces.set_filled(self.len)?;
        self.iod.set(CArrayIod { short_read, read, ..self.iod.get()? })
    }

    /// Launches it. What does not end in data takes another look, at the size, when its answers are there.
    fn launch(self, used: Use, ev: Ev) -> Result<()> {
        let parts = used.array.parts(&self.ranges)?;
        let mut places: Vec<(u64, usize)> = parts.iter().map(|part| (part.first, part.bytes.start)).collect();
        let pool = Arc::clone(&used.handle.object.cont.pool);
        if parts.is_empty() {
            return code(run(ev, || self.tell(0, 0)));
        }
        let starts = parts.into_iter().map(|part| self.start(&used, part)).collect();
        let mut is_size_asked = false;
        let mut step = move |endings: Vec<Ending>| {
            if is_size_asked {
                let size =
                    used.array.size_of(found(endings.into_iter().next().ok_or(Der::MISC)?)?.as_ref())?;
                return self.ended_at(size).map(|()| Next::Ended(0));
            }
            if self.arrived(&core::mem::take(&mut places), endings)? {
                return self.tell(self.wanted(), 0).map(|()| Next::Ended(0));
            }
            is_size_asked = true;
            let (array, when) = (used.array.clone(), used.when.clone());
            let start: Start = Box::new(move |event| {
                Ok(array.object().query_on(event, when.at(), Array::SIZE_FLAGS, &[], AKEY)?)
            });
            Ok(Next::Ask(vec![start]))
        };
        let step = move |endings| step(endings).unwrap_or_else(|error: Der| Next::Ended(error.code()));
        launch_rounds(ev, &pool, Der::code, starts, Box::new(step))
    }

    /// The request for one part.
    fn start(&self, used: &Use, part: ArrayPart) -> Start {
        let (object, when) = (used.array.object().clone(), used.when.clone());
        let record_bytes = used.array.cell_bytes();
        Box::new(move |event| {
            let mut buf = buffer::take(part.bytes.len())?;
            buf.fill(0);
            let want = Want::Array { record_bytes, extents: part.extents };
            let iods = [FetchIod { akey: Key::from_slice(AKEY), want }];
            Ok(object.fetch_on(event, when.at(), &part.dkey, Cond::NONE, &iods, buf)?)
        })
    }

    fn wanted(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    /// The array is so long: what of the ranges is behind its end was not there.
    fn ended_at(&self, size: u64) -> Result<()> {
        let beyond =
            |range: &Recx| range.index.saturating_add(range.count).saturating_sub(size).min(range.count);
        let short_read = self.ranges.iter().map(beyond).sum();
        self.tell(self.wanted() - short_read, short_read)
    }

    /// Gives the program what there is; whether it ends in data.
    fn arrived(&self, places: &[(u64, usize)], endings: Vec<Ending>) -> Result<bool> {
        let end = self.ranges.iter().filter_map(|range| range.end()).max().unwrap_or(0);
        let (mut ends_in_data, mut pen) = (end == 0, self.pieces.pen()?);
        for (Ending { result, buf }, (first, at)) in endings.into_iter().zip(places) {
            let Output::Fetched(found) = result? else { return Err(Der::MISC) };
            let mut filled = found.iter().flat_map(|iod| &iod.filled);
            ends_in_data |= filled.any(|recx| recx.end().is_some_and(|last| first + last == end));
            let buf = buf.ok_or(Der::MISC)?;
            pen.write(*at, &buf)?;
            buffer::put_back(buf);
        }
        Ok(ends_in_data)
    }
}

/// Writes ranges of records, each chunk atomically.
#[unsafe(no_mangle)]
extern "C" fn daos_array_write(
    oh: Handle,
    th: Handle,
    iod: Out<CArrayIod>,
    sgl: Out<SgList>,
    ev: Ev,
) -> c_int {
    der(|| {
        let used = Use::to_write(oh, th)?;
        let ranges = ranges(iod)?;
        let len = used.bytes(&ranges)?;
        if len == 0 {
            return code(run(ev, || Ok(())));
        }
        let data = Pieces::of(sgl)?.ok_or(Der::INVAL)?.filled(len)?;
        if ev.is_null() || used.when.is_tx() {
            return at_once(ev, || Ok(used.array.write(used.when.at(), &ranges, data.bytes())?));
        }
        let value = |part: ArrayPart| {
            let data = match &data {
                Filled::One(bytes) => Payload::Ref(bytes.get(part.bytes).ok_or(Der::INVAL)?),
                Filled::Gathered(all) => {
                    Payload::Owned(buffer::copy_of(all.get(part.bytes).ok_or(Der::INVAL)?)?)
                }
            };
            Ok(NewValue::Array { record_bytes: used.array.cell_bytes(), extents: part.extents, data })
        };
        used.change(&ranges, value, ev)
    })
}

/// Removes ranges of records.
#[unsafe(no_mangle)]
extern "C" fn daos_array_punch(oh: Handle, th: Handle, iod: Out<CArrayIod>, ev: Ev) -> c_int {
    der(|| {
        let used = Use::to_write(oh, th)?;
        let ranges = ranges(iod)?;
        let records = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.count));
        let chunks = (records / used.array.chunk_records()).saturating_add(ranges.len() as u64);
        let is_long = chunks > PUNCH_PARTS_MAX;
        if ev.is_null() || used.when.is_tx() {
            return at_once(ev, || Ok(used.array.punch(used.when.at(), &ranges)?));
        }
        if is_long {
            return used.punch_existing(ranges, ev);
        }
        used.change(&ranges, |part: ArrayPart| Ok(NewValue::Hole { extents: part.extents }), ev)
    })
}

/// The size in records.
#[unsafe(no_mangle)]
extern "C" fn daos_array_get_size(oh: Handle, th: Handle, size: Out<u64>, ev: Ev) -> c_int {
    der(|| {
        let used = Use::to_read(oh, th, ev)?;
        if ev.is_null() || used.when.is_tx() {
            let ask = move |way| async move { size.set(used.array.size_by(way, used.when.at()).await?) };
            return code(go(ev, ask));
        }
        let (array, object) = (used.array.clone(), used.array.object());
        let start =
            |event: &mut _| Ok(object.query_on(event, used.when.at(), Array::SIZE_FLAGS, &[], AKEY)?);
        launch(ev, &used.handle.object.cont.pool, start, move |ending| {
            der(|| size.set(array.size_of(found(ending)?.as_ref())?))
        })
    })
}

/// The size in records, and when the array was last written to.
#[unsafe(no_mangle)]
extern "C" fn daos_array_stat(oh: Handle, th: Handle, stat: Out<CArrayStat>, ev: Ev) -> c_int {
    der(|| {
        let used = Use::to_read(oh, th, ev)?;
        let stat = stat.check()?;
        if !ev.is_null() && !used.when.is_tx() {
            return used.stat(stat, ev);
        }
        let look = move |way| async move {
            let found = used.array.stat_by(way, used.when.at()).await?;
            stat.set(CArrayStat { size: found.size, max_epoch: found.max_epoch.0 })
        };
        code(go(ev, look))
    })
}

/// Cuts the array, or makes it longer.
#[unsafe(no_mangle)]
extern "C" fn daos_array_set_size(oh: Handle, th: Handle, size: u64, ev: Ev) -> c_int {
    der(|| {
        let used = Use::to_write(oh, th)?;
        if used.when.is_tx() {
            return at_once(ev, || Ok(used.array.set_size(used.when.at(), size)?));
        }
        // Like all changes outside of a transaction it is refused in a snapshot.
        code(go(ev, move |way| async move { Ok(used.array.set_size_by(way, size).await?) }))
    })
}

/// Removes the array with its sizes.
#[unsafe(no_mangle)]
extern "C" fn daos_array_destroy(oh: Handle, th: Handle, ev: Ev) -> c_int {
    der(|| {
        let used = Use::to_write(oh, th)?;
        object::punch(&used.handle.object, &used.when, Cond::NONE, ev)
    })
}

/// The sizes of an array.
#[unsafe(no_mangle)]
extern "C" fn daos_array_get_attr(oh: Handle, chunk_size: Out<u64>, cell_size: Out<u64>) -> c_int {
    der(|| {
        let array = handle::array(oh)?.array();
        chunk_size.set(array.chunk_records())?;
        cell_size.set(array.cell_bytes())
    })
}

/// Changes the chunk size of an array that does not keep it, for this handle.
#[unsafe(no_mangle)]
extern "C" fn daos_array_update_chunk_size(oh: Handle, chunk_size: u64) -> c_int {
    der(|| {
        let handle = handle::array(oh)?;
        let mut client = handle.client.write().unwrap_or_else(PoisonError::into_inner);
        if client.object().object_type() == ObjectType::Array {
            return Err(Der::INVAL);
        }
        *client = Array::open_with(
            &handle.object.cont.client,
            client.object().oid(),
            client.cell_bytes(),
            chunk_size,
        )?;
        Ok(())
    })
}
