//! Updates and fetches of objects: from the program's descriptors to the client's, and back.

mod sizes;

use crate::buffer::{self, Filled, Pieces};
use crate::error::{Der, Result, der};
use crate::event::{Chained, Ending, Ev, Finish, at_once, go, launch_chain, launch_with};
use crate::handle;
use crate::object::ObjectHandle;
use crate::raw::{In, Out};
use crate::tx::When;
use crate::types::{Handle, Iov, SgList};
use core::ffi::{c_int, c_uint};
use dolmen_client::{
    At, Cond, Error, Event, FetchIod, Fetched, FetchedIod, IoBuf, Key, NewValue, Output, Payload, Recx,
    UpdateIod, Want, Way, limits,
};
use dolmen_codec::now;
use sizes::{Question, Questions};
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
        let (client, dkey) = (object.client.clone(), dkey.to_vec());
        let update =
            |way| async move { Ok(client.update_by(way, At::Latest, &dkey, cond, &iods).await.map(drop)?) };
        return code(go(ev, update));
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
        SINGLE if iod.size > limits::SINGLE_BYTES_MAX as u64 => Err(Der::REC2BIG),
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
        let when = When::of(th, &object.cont)?.seen_by(&object, ev);
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

impl Lists {
    fn iods<'a>(&self) -> Result<&'a [CIod]> {
        self.iods.list(self.nr as usize)
    }

    /// The memory of one descriptor.
    fn pieces(&self, index: usize) -> Result<Option<Pieces>> {
        Pieces::of(if self.sgls.is_null() { Out::NULL } else { self.sgls.at(index) })
    }

    fn iom(&self, index: usize) -> Out<CIom> {
        if self.ioms.is_null() { Out::NULL } else { self.ioms.at(index) }
    }
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
    let questions = sizes::unknown(&lists, cond)?;
    if questions.is_empty() && (ev.is_null() || (lists.nr == 1 && !when.is_tx())) {
        return fetch_known(object, when, dkey, cond, lists, ev);
    }
    if questions.is_empty() && lists.nr == 1 {
        // What is wrong with it is not the event's.
        plan(&lists, cond, &[])?;
    }
    let (object, when) = (Arc::clone(object), when.clone());
    let read = Reading { source: Source { object, when, dkey: dkey.to_vec(), cond }, lists };
    if ev.is_null() || read.source.when.is_tx() {
        return code(go(ev, move |way| read.all(questions, way)));
    }
    if questions.is_empty() {
        return read.launch_several(ev);
    }
    if lists.nr == 1 {
        return read.launch_unknown(questions, ev);
    }
    code(go(ev, move |way| read.all(questions, way)))
}

/// A fetch of what has a size that the program knows, or room for whatever it is: one request.
fn fetch_known(
    object: &Arc<ObjectHandle>,
    when: &When,
    dkey: &[u8],
    cond: Cond,
    lists: Lists,
    ev: Ev,
) -> Result<()> {
    let (wants, fetching, len) = match plan(&lists, cond, &[]) {
        Err(Der::REC2BIG) if lists.nr > 1 => return Err(tell_all(object, when, dkey, &lists)),
        planned => planned?,
    };
    let cond = fetching.whole_cond;
    let mut buf = buffer::take(len)?;
    if !ev.is_null() {
        let start = |event: &mut _| Ok(object.client.fetch_on(event, when.at(), dkey, cond, &wants, buf)?);
        return launch_with(ev, &object.cont.pool, start, Finish::Fetch(fetching));
    }
    let fetched = object.client.fetch(when.at(), dkey, cond, &wants, &mut buf);
    let is_too_big = matches!(fetched, Err(Error::RecTooBig { .. })) && lists.nr > 1;
    let done = code(fetching.arrived(fetched, buf));
    if is_too_big { Err(tell_all(object, when, dkey, &lists)) } else { done }
}

/// Tells a program all sizes, since a buffer of its is too small.
fn tell_all(object: &ObjectHandle, when: &When, dkey: &[u8], lists: &Lists) -> Der {
    now(tell_sizes(object, when, dkey, *lists, Way::Now)).err().unwrap_or(Der::REC2BIG)
}

async fn tell_sizes(object: &ObjectHandle, when: &When, dkey: &[u8], lists: Lists, way: Way) -> Result<()> {
    for question in sizes::all(&lists)? {
        let size = question.ask(object, when, dkey, way).await?;
        question.set_size(&lists, size)?;
    }
    Ok(())
}

/// What is read, and when.
#[derive(Clone)]
struct Source {
    object: Arc<ObjectHandle>,
    when: When,
    dkey: Vec<u8>,
    cond: Cond,
}

/// A fetch of several requests.
struct Reading {
    source: Source,
    lists: Lists,
}

impl Source {
    async fn tell_sizes(&self, lists: Lists, way: Way) -> Result<()> {
        tell_sizes(&self.object, &self.when, &self.dkey, lists, way).await
    }

    /// Reads all but what is done.
    async fn read(&self, lists: Lists, is_done: &[bool], way: Way) -> Result<()> {
        let (wants, fetching, len) = plan(&lists, self.cond, is_done)?;
        let (cond, mut buf) = (fetching.whole_cond, buffer::take(len)?);
        let (client, at) = (&self.object.client, self.when.at());
        let fetched = client.fetch_by(way, at, &self.dkey, cond, &wants, &mut buf).await;
        code(fetching.arrived(fetched, buf))
    }

    fn start(&self, cond: Cond, wants: &[FetchIod], buf: IoBuf, event: &mut Event) -> Result<()> {
        Ok(self.object.client.fetch_on(event, self.when.at(), &self.dkey, cond, wants, buf)?)
    }

    fn ask(&self, question: &Question, event: &mut Event) -> Result<()> {
        question.start(&self.object, &self.when, &self.dkey, event)
    }
}

impl Reading {
    /// Asks for sizes, and then reads what is left to be read.
    async fn all(self, questions: Questions, way: Way) -> Result<()> {
        let Self { source, lists } = self;
        let mut is_done = SmallVec::<[bool; 8]>::from_elem(false, lists.nr as usize);
        for question in questions {
            let size = question.ask(&source.object, &source.when, &source.dkey, way).await?;
            is_done[question.index] = !question.tell(&lists, size)?;
        }
        if is_done.iter().all(|&is_done| is_done) {
            return Ok(());
        }
        let read = source.read(lists, &is_done, way).await;
        if matches!(read, Err(Der::REC2BIG)) && lists.nr > 1 {
            source.tell_sizes(lists, way).await?;
        }
        read
    }

    /// Launches a fetch of one value whose size is asked for first, or instead of it.
    fn launch_unknown(self, mut questions: Questions, ev: Ev) -> Result<()> {
        let question = questions.pop().ok_or(Der::INVAL)?;
        let Self { source, lists } = self;
        let (pool, asked, own) = (Arc::clone(&source.object.cont.pool), question.clone(), source.clone());
        let mut fetching = None;
        launch_chain(
            ev,
            &pool,
            move |event| own.ask(&asked, event),
            move |ending| {
                if let Some(fetching) = fetching.take() {
                    return code(Fetching::end(fetching, ending)).map(|()| Chained::Done);
                }
                if !question.tell(&lists, question.answer(ending)?)? {
                    return Ok(Chained::Done);
                }
                let (wants, planned, len) = plan(&lists, source.cond, &[])?;
                let (cond, buf, source) = (planned.whole_cond, buffer::take(len)?, source.clone());
                fetching = Some(planned);
                Ok(Chained::Ask(Box::new(move |event| source.start(cond, &wants, buf, event))))
            },
        )
    }

    /// Launches a fetch of several values, which asks for all sizes if one has no room.
    fn launch_several(self, ev: Ev) -> Result<()> {
        let Self { source, lists } = self;
        let (wants, planned, len) = match plan(&lists, source.cond, &[]) {
            Err(Der::REC2BIG) => {
                let tell = move |way| async move {
                    source.tell_sizes(lists, way).await?;
                    Err(Der::REC2BIG)
                };
                return code(go(ev, tell));
            }
            planned => planned?,
        };
        let (cond, buf) = (planned.whole_cond, buffer::take(len)?);
        let (pool, own) = (Arc::clone(&source.object.cont.pool), source.clone());
        let (mut fetching, mut questions, mut asked) = (Some(planned), Questions::new(), None);
        launch_chain(
            ev,
            &pool,
            move |event| own.start(cond, &wants, buf, event),
            move |ending| {
                if let Some(fetching) = fetching.take() {
                    if !matches!(ending.result, Err(Error::RecTooBig { .. })) {
                        return code(fetching.end(ending)).map(|()| Chained::Done);
                    }
                    questions = sizes::all(&lists)?;
                    questions.reverse();
                } else {
                    let question: Question = asked.take().ok_or(Der::MISC)?;
                    question.set_size(&lists, question.answer(ending)?)?;
                }
                let question = questions.pop().ok_or(Der::REC2BIG)?;
                asked = Some(question.clone());
                let source = source.clone();
                Ok(Chained::Ask(Box::new(move |event| source.ask(&question, event))))
            },
        )
    }
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

/// What is asked of the store, and where the answer goes, without what is done.
fn plan(lists: &Lists, cond: Cond, is_done: &[bool]) -> Result<Plan> {
    let per_akey = cond.has(Cond::PER_AKEY);
    let is_needed = |iod: &CIod| per_akey && Cond(iod.flags).has(Cond::AKEY_FETCH);
    let whole_cond = Cond(cond.0 & !Cond::PER_AKEY.0);
    let mut fetching = Fetching { parts: SmallVec::with_capacity(lists.nr as usize), whole_cond };
    let mut wants = SmallVec::with_capacity(lists.nr as usize);
    let (mut len, mut mapped) = (0_usize, 0_usize);
    for (index, iod) in lists.iods()?.iter().enumerate() {
        if is_done.get(index).is_some_and(|&is_done| is_done) {
            continue;
        }
        let (pieces, iom) = (lists.pieces(index)?, lists.iom(index));
        let (want, bytes) = want_of(iod, pieces.as_ref())?;
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
        fetching.parts.push(Part {
            iod: lists.iods.at(index),
            pieces,
            iom,
            must_exist: is_needed(iod),
            start: len,
            record_bytes: iod.size,
            extents,
        });
        len = len.checked_add(bytes).ok_or(Der::REC2BIG)?;
    }
    Ok((wants, fetching, len))
}

/// What is wanted of one akey, and the bytes that it takes.
fn want_of(iod: &CIod, pieces: Option<&Pieces>) -> Result<(Want, usize)> {
    match (iod.kind, pieces) {
        (SINGLE, Some(pieces)) => {
            let known = if iod.size == 0 { Ok(usize::MAX) } else { usize::try_from(iod.size) };
            let known = known.map_err(|_wide| Der::REC2BIG)?;
            let room_bytes = pieces.room()?.min(known).min(limits::SINGLE_BYTES_MAX);
            Ok((Want::Single { room_bytes }, room_bytes))
        }
        (ARRAY, _) if iod.size > 0 => {
            let extents = extents(iod)?;
            let bytes = bytes_of(&extents, iod.size).and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.ok_or(Der::REC2BIG)?;
            if let Some(pieces) = pieces
                && pieces.room()? < bytes
            {
                return Err(Der::REC2BIG);
            }
            Ok((Want::Array { record_bytes: iod.size, extents }, bytes))
        }
        // What has no size yet was asked for it.
        _ => Err(Der::INVAL),
    }
}

impl Fetching {
    /// Ends an asynchronous fetch.
    pub(crate) fn end(self, ending: Ending) -> c_int {
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
                if let (Error::RecTooBig { needed_bytes }, [part]) = (&error, &self.parts[..]) {
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
            map(part.iom, part.iod.get()?.kind, found)?;
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
}

/// Tells which extents were found, if the program wants to know.
fn map(to: Out<CIom>, kind: c_uint, found: &FetchedIod) -> Result<()> {
    if to.is_null() {
        return Ok(());
    }
    let mut iom = to.get()?;
    iom.kind = kind;
    iom.size = found.size_bytes;
    iom.nr_out = u32::try_from(found.filled.len()).map_err(|_wide| Der::OVERFLOW)?;
    iom.recx_lo = found.filled.first().copied().map_or(CRecx::default(), CRecx::from);
    iom.recx_hi = found.filled.last().copied().map_or(CRecx::default(), CRecx::from);
    if iom.flags & MAP_DETAIL != 0 && !iom.recxs.is_null() {
        for (index, recx) in found.filled.iter().take(iom.nr as usize).enumerate() {
            iom.recxs.at(index).set((*recx).into())?;
        }
    }
    to.set(iom)
}

/// Bytes of records.
fn records(count: u64, record_bytes: usize) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_wide| Der::REC2BIG)?;
    count.checked_mul(record_bytes).ok_or(Der::REC2BIG)
}
