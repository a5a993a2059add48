//! The body of a fetch, that of its answer, and which parts of the buffer the answer's payload fills.
//!
//! Invariants: a payload holds only what was found, so that whoever reads it leaves the rest of the buffer alone; the
//! parts that an answer fills lie in what was asked for, in its order.

use super::field::{Field, Writer, read_few};
use crate::bytes::Reader;
use crate::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Want};
use core::ops::Range;
use dolmen_types::limits::{FRAME_PAYLOAD_BYTES_MAX, IODS_MAX};
use dolmen_types::{Cond, Epoch, Invalid, IoBuf, Key, Oid, Recx};
use smallvec::SmallVec;

/// When to read. Persistent: never renumber.
const LATEST: u8 = 0;
const AT_EPOCH: u8 = 1;
const IN_TX: u8 = 2;

impl Field for ReadAt {
    const BYTES_MIN: usize = 1;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Latest => w.put(&LATEST),
            Self::Epoch(epoch) => {
                w.put(&AT_EPOCH);
                w.put(epoch);
            }
            Self::Tx(epoch) => {
                w.put(&IN_TX);
                w.put(epoch);
            }
        }
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            LATEST => Self::Latest,
            AT_EPOCH => Self::Epoch(Epoch::read(r)?),
            IN_TX => Self::Tx(Epoch::read(r)?),
            _ => return None,
        })
    }
}

/// What is wanted of a value. Persistent: never renumber.
const SINGLE: u8 = 0;
const SIZE: u8 = 1;
const ARRAY: u8 = 2;

impl Field for FetchIod {
    const BYTES_MIN: usize = Key::BYTES_MIN + 1;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.akey);
        match &self.want {
            Want::Single { room_bytes } => {
                w.put(&SINGLE);
                w.put(&(*room_bytes as u64));
            }
            Want::Size => w.put(&SIZE),
            Want::Array { record_bytes, extents } => {
                w.put(&ARRAY);
                w.put(record_bytes);
                w.put(extents);
            }
        }
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let akey = Key::read(r)?;
        let want = match r.u8()? {
            SINGLE => Want::Single { room_bytes: usize::try_from(r.u64()?).ok()? },
            SIZE => Want::Size,
            ARRAY => Want::Array { record_bytes: r.u64()?, extents: Field::read(r)? },
            _ => return None,
        };
        Some(Self { akey, want })
    }
}

/// The buffer's length goes along, as far as the answer can fill it; the buffer itself stays with the caller.
pub(super) fn put_fetch(w: &mut Writer<'_>, fetch: &Fetch) {
    w.put(&fetch.oid);
    w.put(&fetch.cond);
    w.put(&fetch.at);
    w.put(&fetch.dkey);
    let room_bytes = fetch.buf.len().min(wanted_bytes(&fetch.iods));
    match u32::try_from(room_bytes) {
        Ok(room) if room_bytes <= FRAME_PAYLOAD_BYTES_MAX => w.put(&room),
        Ok(_) | Err(_) => w.refuse(Invalid::Extent),
    }
    w.list(&fetch.iods, IODS_MAX);
}

/// A fetch without its buffer, and how long that has to be.
#[inline]
pub(super) fn read_fetch(r: &mut Reader<'_>) -> Option<(Fetch, usize)> {
    let (oid, cond, at, dkey) = (Oid::read(r)?, Cond::read(r)?, ReadAt::read(r)?, Key::read(r)?);
    let room_bytes = usize::try_from(r.u32()?).ok()?;
    let iods: SmallVec<[FetchIod; 1]> = read_few(r, IODS_MAX)?;
    if room_bytes > FRAME_PAYLOAD_BYTES_MAX.min(wanted_bytes(&iods)) {
        return None;
    }
    Some((Fetch { oid, dkey, cond, at, iods, buf: IoBuf::default() }, room_bytes))
}

/// What the answers of these may fill; as much as there can be if it is more.
fn wanted_bytes(iods: &[FetchIod]) -> usize {
    let bytes_of = |want: &Want| match want {
        Want::Single { room_bytes } => *room_bytes,
        Want::Size => 0,
        Want::Array { record_bytes, extents } => {
            let records = extents.iter().fold(0u64, |sum, recx| sum.saturating_add(recx.count));
            usize::try_from(records.saturating_mul(*record_bytes)).unwrap_or(usize::MAX)
        }
    };
    iods.iter().fold(0, |sum, iod| sum.saturating_add(bytes_of(&iod.want)))
}

impl Field for FetchedIod {
    const BYTES_MIN: usize = 13;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.size_bytes);
        w.put(&self.is_end);
        // Parts of one extent that touch are one: a fetch of windows full of single records answers the most.
        w.list(&self.filled, FILLED_MAX);
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (size_bytes, is_end) = (r.u64()?, bool::read(r)?);
        Some(Self { size_bytes, filled: read_few(r, FILLED_MAX)?, is_end })
    }
}

/// A frame's body holds no more.
const FILLED_MAX: usize = dolmen_types::limits::FRAME_BODY_BYTES_MAX / 16;

impl Field for SmallVec<[FetchedIod; 1]> {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, IODS_MAX);
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_few(r, IODS_MAX)
    }
}

/// Where the answer to a fetch goes: made of the fetch on both sides of the wire before it moves on.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    wants: SmallVec<[Want; 1]>,
    /// Length of the buffer.
    room_bytes: usize,
}

impl FetchPlan {
    /// The plan of `fetch`, whose buffer has its length.
    #[must_use]
    pub fn of(fetch: &Fetch) -> Self {
        let wants = fetch.iods.iter().map(|iod| iod.want.clone()).collect();
        Self { wants, room_bytes: fetch.buf.len() }
    }

    /// The plan of one extent of an array; `None` if no buffer is as long.
    pub(super) fn of_extent(record_bytes: u64, recx: Recx) -> Option<Self> {
        let want = Want::Array { record_bytes, extents: core::iter::once(recx).collect() };
        let room_bytes = room_of(&want)?;
        Some(Self { wants: core::iter::once(want).collect(), room_bytes })
    }

    /// Bytes a record, and the extent, if nothing but one extent of an array was asked for.
    pub(super) fn sole_extent(&self) -> Option<(u64, Recx)> {
        match &self.wants[..] {
            [Want::Array { record_bytes, extents }] if extents.len() == 1 => {
                Some((*record_bytes, extents[0]))
            }
            _ => None,
        }
    }

    /// Where the record of that extent with so many before it is in the buffer.
    pub(super) fn place_of(&self, records: u64) -> Option<usize> {
        let (record_bytes, whole) = self.sole_extent()?;
        let end = usize::try_from(whole.count.checked_mul(record_bytes)?).ok()?;
        if records > whole.count || end > self.room_bytes {
            return None;
        }
        usize::try_from(records * record_bytes).ok()
    }

    /// The parts of the buffer that `fetched` fills, in the order in which a payload has them; `None` if it cannot be an
    /// answer to this fetch.
    #[must_use]
    pub fn parts<'a>(&'a self, fetched: &'a [FetchedIod]) -> Option<Parts<'a>> {
        if fetched.len() != self.wants.len() {
            return None;
        }
        let mut end = 0usize;
        for (want, fetched) in self.wants.iter().zip(fetched) {
            end = end.checked_add(room_of(want)?)?;
            if end > self.room_bytes || !suits(want, fetched) {
                return None;
            }
        }
        Some(Parts { wants: &self.wants, fetched, start: 0, extent: 0, filled: 0 })
    }

    /// How many bytes `fetched` fills; `None` if it cannot be an answer to this fetch.
    #[must_use]
    pub fn filled_bytes(&self, fetched: &[FetchedIod]) -> Option<usize> {
        Some(self.parts(fetched)?.map(|part| part.len()).sum())
    }

    /// Puts a payload where it belongs in the fetch's buffer; `None`, and nothing done, unless it is as long as `fetched`
    /// fills.
    #[must_use]
    pub fn scatter(&self, fetched: &[FetchedIod], payload: &[u8], buf: &mut [u8]) -> Option<()> {
        if self.filled_bytes(fetched)? != payload.len() || buf.len() < self.room_bytes {
            return None;
        }
        let mut rest = payload;
        for part in self.parts(fetched)? {
            let (bytes, behind) = rest.split_at(part.len());
            buf[part].copy_from_slice(bytes);
            rest = behind;
        }
        Some(())
    }
}

/// Bytes of the buffer that a want takes, filled or not; `None` if that overflows.
fn room_of(want: &Want) -> Option<usize> {
    match want {
        Want::Single { room_bytes } => Some(*room_bytes),
        Want::Size => Some(0),
        Want::Array { record_bytes, extents } => {
            let records = extents.iter().try_fold(0u64, |sum, recx| {
                recx.end()?;
                sum.checked_add(recx.count)
            })?;
            usize::try_from(records.checked_mul(*record_bytes)?).ok()
        }
    }
}

/// Whether this can be the answer to that.
fn suits(want: &Want, fetched: &FetchedIod) -> bool {
    let FetchedIod { size_bytes, filled, is_end: _ } = fetched;
    match want {
        Want::Single { room_bytes } => *size_bytes <= *room_bytes as u64 && filled.is_empty(),
        Want::Size => filled.is_empty(),
        Want::Array { record_bytes, extents } => {
            let is_size_right = *size_bytes > 0 && size_bytes == record_bytes;
            filled.is_empty() || (is_size_right && lie_in(filled, extents))
        }
    }
}

/// Whether the parts are ascending and lie in what was wanted.
fn lie_in(filled: &[Recx], wanted: &[Recx]) -> bool {
    let apart = |pair: &[Recx]| pair[0].end().is_some_and(|end| end <= pair[1].index);
    if !filled.windows(2).all(apart) || filled.iter().any(|part| part.count == 0 || part.end().is_none()) {
        return false;
    }
    let inside = |part: &Recx, wanted: &Recx| wanted.intersect(*part) == Some(*part);
    match (filled, wanted) {
        (_, [wanted]) => filled.iter().all(|part| inside(part, wanted)),
        _ => {
            let joined = joined(wanted);
            let holds = |part: &Recx| {
                let behind = joined.partition_point(|wanted| wanted.index <= part.index);
                behind.checked_sub(1).is_some_and(|at| inside(part, &joined[at]))
            };
            filled.iter().all(holds)
        }
    }
}

/// Extents in ascending order, those that touch or overlap as one.
fn joined(extents: &[Recx]) -> Vec<Recx> {
    let mut sorted = extents.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<Recx> = Vec::with_capacity(sorted.len());
    for recx in sorted {
        match joined.last_mut() {
            Some(last) if last.end().is_some_and(|end| recx.index <= end) => {
                let end = last.end().max(recx.end()).unwrap_or(u64::MAX);
                last.count = end - last.index;
            }
            _ => joined.push(recx),
        }
    }
    joined
}

/// The parts of a fetch's buffer that its answer fills, in the order of the payload.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    wants: &'a [Want],
    fetched: &'a [FetchedIod],
    /// Where the next want, or extent, begins in the buffer.
    start: usize,
    /// Which extent of the first want is next.
    extent: usize,
    /// Which filled part of that extent is next; 0 also where it is still to be found.
    filled: usize,
}

impl Parts<'_> {
    /// On to the next akey.
    fn step(&mut self) {
        (self.extent, self.filled) = (0, 0);
        self.wants = &self.wants[1..];
        self.fetched = &self.fetched[1..];
    }

    /// The next filled part of the extent at hand; `None` behind its last one.
    fn next_of_extent(&mut self, wanted: Recx, record_bytes: usize, filled: &[Recx]) -> Option<Range<usize>> {
        if self.filled == 0 {
            self.filled = filled.partition_point(|part| part.end().is_some_and(|end| end <= wanted.index));
        }
        let part = filled.get(self.filled)?.intersect(wanted)?;
        self.filled += 1;
        let place = |records: u64| usize::try_from(records).expect("fits the buffer") * record_bytes;
        let start = self.start + place(part.index - wanted.index);
        Some(start..start + place(part.count))
    }
}

impl Iterator for Parts<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while let (Some(want), Some(fetched)) = (self.wants.first(), self.fetched.first()) {
            match want {
                Want::Single { room_bytes } => {
                    let len = usize::try_from(fetched.size_bytes).expect("fits the room");
                    let part = self.start..self.start + len;
                    self.start += room_bytes;
                    self.step();
                    if len > 0 {
                        return Some(part);
                    }
                }
                Want::Size => self.step(),
                Want::Array { record_bytes, extents } => {
                    let record_bytes = usize::try_from(*record_bytes).expect("fits the room");
                    let Some(&wanted) = extents.get(self.extent) else {
                        self.step();
                        continue;
                    };
                    if let Some(part) = self.next_of_extent(wanted, record_bytes, &fetched.filled) {
                        return Some(part);
                    }
                    self.start += usize::try_from(wanted.count).expect("fits the room") * record_bytes;
                    (self.extent, self.filled) = (self.extent + 1, 0);
                }
            }
        }
        None
    }
}
