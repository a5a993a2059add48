//! A one-dimensional array in an object: chunks of records under integer dkeys, akey `0`.
//!
//! The size is that of the last record written; it is not stored anywhere.

use crate::at::At;
use crate::chunks::{self, Group, dkey_of};
use crate::client::unexpected;
use crate::container::Container;
use crate::object::{Object, Page, grow};
use crate::tx::{Staged, Tx};
use core::future::ready;
use dolmen_codec::verb::{FetchIod, Found, NewValue, Payload, PunchScope, UpdateIod, Want};
use dolmen_codec::{Way, now};
use dolmen_types::{
    Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, ObjectType, Oid, QueryFlags, Recx, Result, limits,
};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};

/// The akey of all records and of the metadata.
//= daos:src/client/array/dc_array.c akey '0', metadata under dkey 0
const AKEY: &[u8] = b"0";
const METADATA_DKEY: [u8; 8] = [0; 8];
const METADATA_MAGIC: u64 = 0xdaca_55a9_daca_55a9;
/// Chunks removed in one transaction when a large array is cut outside of one: well below
/// `limits::TX_MUTATIONS_MAX` also when all of them lie on one target.
const CHUNKS_CUT_MAX: usize = 16_384;
/// A larger scratch buffer is not kept between reads: a handle is cheap.
const SCRATCH_BYTES_MAX: usize = 8 << 20;
/// Chunks of a punch that are changed one by one without looking which of them exist.
const PUNCH_CHUNKS_MAX: u64 = 64;

/// An array; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Array {
    object: Object,
    cell_bytes: u64,
    chunk_records: u64,
    scratch: Arc<Scratch>,
}

/// The buffer through which reads of several chunks go: fresh memory would cost more than the copy.
#[derive(Debug, Default)]
struct Scratch {
    /// Guards the buffer between reads; a reader takes it out and puts it back.
    buf: Mutex<Option<IoBuf>>,
}

impl Scratch {
    fn take(&self) -> IoBuf {
        self.buf.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    fn put_back(&self, buf: IoBuf) {
        if buf.capacity() <= SCRATCH_BYTES_MAX {
            *self.buf.lock().unwrap_or_else(PoisonError::into_inner) = Some(buf);
        }
    }
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArrayRead {
    /// Records below the end of the array, holes included (they read as zeros).
    pub records: u64,
    /// Records asked for beyond the end of the array (they read as zeros, too).
    pub short_records: u64,
}

/// Size and age of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArrayStat {
    /// In records.
    pub size: u64,
    /// When the newest visible record was written; zero if there is none.
    pub max_epoch: Epoch,
}

/// What one request reads or writes of an array: records in one chunk that follow each other in the caller's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPart {
    /// The chunk's dkey.
    pub dkey: [u8; 8],
    /// Records within the chunk.
    pub extents: SmallVec<[Recx; 1]>,
    /// The index in the array of the chunk's first record.
    pub first: u64,
    /// Where they lie in the caller's buffer.
    pub bytes: core::ops::Range<usize>,
}

impl Array {
    /// Creates an array: for `ObjectType::Array` cell and chunk size are stored in it, the other array types
    /// leave them to the application.
    ///
    /// # Errors
    /// `Exists` if the object holds an array's metadata already; `Invalid::ObjectId` unless the id is of an
    /// array type; `Invalid::RecordSize` and `Invalid::Argument` for sizes out of range.
    pub fn create(
        cont: &Container,
        at: At<'_>,
        oid: Oid,
        cell_bytes: u64,
        chunk_records: u64,
    ) -> Result<Self> {
        now(Self::create_by(Way::Now, cont, at, oid, cell_bytes, chunk_records))
    }

    /// As [`Array::create`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::create`]; `Canceled` if the transaction was begun anew meanwhile.
    pub async fn create_by(
        way: Way,
        cont: &Container,
        at: At<'_>,
        oid: Oid,
        cell_bytes: u64,
        chunk_records: u64,
    ) -> Result<Self> {
        let array = Self::handle(cont, oid, cell_bytes, chunk_records)?;
        if array.object.object_type() == ObjectType::Array {
            let (bytes, cond) = (array.metadata(), Cond::DKEY_INSERT);
            array.object.update_by(way, at, &METADATA_DKEY, cond, &[single_iod(&bytes)]).await?;
        }
        Ok(array)
    }

    /// Opens an array that keeps its own sizes.
    ///
    /// # Errors
    /// `NotFound` if it was not created; `Invalid::ObjectId` unless the id is of type `ObjectType::Array` and
    /// the object holds an array's metadata.
    pub fn open(cont: &Container, at: At<'_>, oid: Oid) -> Result<Self> {
        now(Self::open_by(Way::Now, cont, at, oid))
    }

    /// As [`Array::open`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::open`].
    pub async fn open_by(way: Way, cont: &Container, at: At<'_>, oid: Oid) -> Result<Self> {
        if oid.object_type() != Some(ObjectType::Array) {
            return Err(Invalid::ObjectId.into());
        }
        let object = cont.object(oid)?;
        let mut buf = IoBuf::default();
        object.get_by(way, at, &METADATA_DKEY, AKEY, &mut buf).await?.ok_or(Error::NotFound)?;
        Self::of_metadata(object, &buf)
    }

    fn of_metadata(object: Object, bytes: &[u8]) -> Result<Self> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).filter_map(|w| w.try_into().ok().map(u64::from_le_bytes)).collect();
        match words[..] {
            [METADATA_MAGIC, cell_bytes, chunk_records] => Self::checked(object, cell_bytes, chunk_records),
            _ => Err(Invalid::ObjectId.into()),
        }
    }

    /// Opens an array whose sizes the application keeps; nothing is asked.
    ///
    /// # Errors
    /// `Invalid::ObjectId` unless the id is of type `ArrayAttr` or `ArrayByte`; `Invalid::RecordSize` and
    /// `Invalid::Argument` for sizes out of range.
    pub fn open_with(cont: &Container, oid: Oid, cell_bytes: u64, chunk_records: u64) -> Result<Self> {
        let array = Self::handle(cont, oid, cell_bytes, chunk_records)?;
        if array.object.object_type() == ObjectType::Array {
            Err(Invalid::ObjectId.into())
        } else {
            Ok(array)
        }
    }

    fn handle(cont: &Container, oid: Oid, cell_bytes: u64, chunk_records: u64) -> Result<Self> {
        Self::checked(cont.object(oid)?, cell_bytes, chunk_records)
    }

    fn checked(object: Object, cell_bytes: u64, chunk_records: u64) -> Result<Self> {
        let object_type = object.object_type();
        if !object_type.is_array() {
            return Err(Invalid::ObjectId.into());
        }
        let bytes_only = object_type == ObjectType::ArrayByte;
        if !(1..=limits::RECORD_BYTES_MAX).contains(&cell_bytes) || (bytes_only && cell_bytes != 1) {
            return Err(Invalid::RecordSize.into());
        }
        if chunk_records == 0 {
            return Err(Invalid::Argument.into());
        }
        Ok(Self { object, cell_bytes, chunk_records, scratch: Arc::default() })
    }

    fn metadata(&self) -> SmallVec<[u8; 24]> {
        let words = [METADATA_MAGIC, self.cell_bytes, self.chunk_records];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The same array, what is written by which is charged to this user ([`Object::charged_to`]).
    #[must_use]
    pub fn charged_to(self, uid: u32) -> Self {
        Self { object: self.object.charged_to(uid), ..self }
    }

    /// The object that holds it.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Bytes a record.
    #[must_use]
    pub fn cell_bytes(&self) -> u64 {
        self.cell_bytes
    }

    /// Records a chunk.
    #[must_use]
    pub fn chunk_records(&self) -> u64 {
        self.chunk_records
    }

    /// Writes ranges of records from `data`, which holds them one after the other. Each chunk is written
    /// atomically; for all together use a transaction, which takes all of them or none.
    ///
    /// # Errors
    /// `Invalid::Payload` if the length does not fit; `Invalid::Count` above `limits::EXTENTS_MAX` ranges;
    /// those of [`Object::update`].
    pub fn write(&self, at: At<'_>, ranges: &[Recx], data: &[u8]) -> Result<()> {
        let groups = self.groups(ranges)?;
        if groups.last().map_or(0, |last| last.buffer_start + last.records).checked_mul(self.cell_bytes)
            != u64::try_from(data.len()).ok()
        {
            return Err(Invalid::Payload.into());
        }
        let mut writes = SmallVec::<[_; 1]>::with_capacity(groups.len());
        for group in groups {
            let data = Payload::Ref(&data[self.bytes_of(&group)?]);
            let value = NewValue::Array { record_bytes: self.cell_bytes, extents: group.extents, data };
            writes.push((dkey_of(group.chunk)?, iod(value)));
        }
        self.update_chunks(at, &writes)
    }

    /// The requests that ranges of records take: for whoever has them under way side by side, under akey `0`.
    ///
    /// # Errors
    /// `Invalid::Count` above `limits::EXTENTS_MAX` ranges; `Invalid::Extent` for one that is empty or too long.
    pub fn parts(&self, ranges: &[Recx]) -> Result<Vec<ArrayPart>> {
        let part = |group: Group| {
            let (dkey, bytes) = (dkey_of(group.chunk)?, self.bytes_of(&group)?);
            let first = group.chunk * self.chunk_records;
            Ok(ArrayPart { dkey, extents: group.extents, first, bytes })
        };
        self.groups(ranges)?.into_iter().map(part).collect()
    }

    /// Changes chunks one after the other; in a transaction all of them or none.
    fn update_chunks(&self, at: At<'_>, writes: &[([u8; 8], UpdateIod<'_>)]) -> Result<()> {
        if let Some(tx) = self.object.container().write_tx(at)? {
            tx.change(&self.object, &staged(writes).collect::<Vec<_>>())?;
            return Ok(());
        }
        for (dkey, iod) in writes {
            self.object.update(at, dkey, Cond::NONE, core::slice::from_ref(iod))?;
        }
        Ok(())
    }

    /// Reads ranges of records into the start of `buf`, which grows if it is shorter; holes and what lies beyond
    /// the end become zeros. Asks for the array's size only if the last record asked for is not there.
    ///
    /// # Errors
    /// `Invalid::Count`; those of [`Object::fetch`].
    pub fn read(&self, at: At<'_>, ranges: &[Recx], buf: &mut IoBuf) -> Result<ArrayRead> {
        now(self.read_by(Way::Now, at, ranges, buf))
    }

    /// As [`Array::read`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub async fn read_by(&self, way: Way, at: At<'_>, ranges: &[Recx], buf: &mut IoBuf) -> Result<ArrayRead> {
        let filled = self.read_filled_by(way, at, ranges, buf).await?;
        let wanted: u64 = ranges.iter().map(|range| range.count).sum();
        let last = ranges.iter().filter_map(|range| range.end()).max().unwrap_or(0);
        if filled.iter().any(|f| f.end() == Some(last)) || wanted == 0 {
            return Ok(ArrayRead { records: wanted, short_records: 0 });
        }
        let size = self.size_by(way, at).await?;
        let beyond =
            |range: &Recx| range.index.saturating_add(range.count).saturating_sub(size).min(range.count);
        let short_records = ranges.iter().map(beyond).sum();
        Ok(ArrayRead { records: wanted - short_records, short_records })
    }

    /// As [`Array::read`], but says which records hold data and never asks for the size.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub fn read_filled(&self, at: At<'_>, ranges: &[Recx], buf: &mut IoBuf) -> Result<SmallVec<[Recx; 1]>> {
        now(self.read_filled_by(Way::Now, at, ranges, buf))
    }

    async fn read_filled_by(
        &self,
        way: Way,
        at: At<'_>,
        ranges: &[Recx],
        buf: &mut IoBuf,
    ) -> Result<SmallVec<[Recx; 1]>> {
        let groups = self.groups(ranges)?;
        let len = groups.last().map_or(0, |last| last.buffer_start + last.records);
        grow(buf, len.checked_mul(self.cell_bytes).and_then(|len| usize::try_from(len).ok()))?;
        if let [group] = &groups[..] {
            return self.read_group(way, at, group, buf).await;
        }
        let mut part = self.scratch.take();
        let filled = self.read_groups(way, at, &groups, &mut part, buf).await;
        self.scratch.put_back(part);
        filled
    }

    async fn read_groups(
        &self,
        way: Way,
        at: At<'_>,
        groups: &[Group],
        part: &mut IoBuf,
        buf: &mut IoBuf,
    ) -> Result<SmallVec<[Recx; 1]>> {
        let mut filled = SmallVec::new();
        for group in groups {
            let bytes = self.bytes_of(group)?;
            part.set_len(bytes.len());
            filled.extend(self.read_group(way, at, group, part).await?);
            buf[bytes].copy_from_slice(part);
        }
        Ok(filled)
    }

    /// Reads one group into the start of `buf`, with zeros for holes; the records found, by their index in the
    /// array.
    async fn read_group(
        &self,
        way: Way,
        at: At<'_>,
        group: &Group,
        buf: &mut IoBuf,
    ) -> Result<SmallVec<[Recx; 1]>> {
        let want = Want::Array { record_bytes: self.cell_bytes, extents: group.extents.clone() };
        let iods = [FetchIod { akey: Key::from_slice(AKEY), want }];
        let fetched = self.object.fetch_by(way, at, &dkey_of(group.chunk)?, Cond::NONE, &iods, buf).await?;
        let mut filled = fetched.into_iter().next().ok_or_else(unexpected)?.filled;
        let cell_len = usize::try_from(self.cell_bytes).map_err(|_wide| Invalid::RecordSize)?;
        let byte_of =
            |record: u64| usize::try_from(record).map_or(usize::MAX, |r| r.saturating_mul(cell_len));
        chunks::holes(&group.extents, &filled, |hole| {
            if let Some(bytes) = buf.get_mut(byte_of(hole.start)..byte_of(hole.end)) {
                bytes.fill(0);
            }
        });
        for recx in &mut filled {
            recx.index += group.chunk * self.chunk_records;
        }
        Ok(filled)
    }

    /// Removes records: they read as holes. Ranges may be of any length; each chunk is changed atomically, in a
    /// transaction all of them or none.
    ///
    /// # Errors
    /// `Invalid::Count`, `Invalid::Extent`; those of [`Object::update`].
    pub fn punch(&self, at: At<'_>, ranges: &[Recx]) -> Result<()> {
        if ranges.len() > limits::EXTENTS_MAX {
            return Err(Invalid::Count.into());
        }
        if chunks::chunk_count(ranges, self.chunk_records)? > PUNCH_CHUNKS_MAX {
            return self.punch_existing(at, ranges);
        }
        let mut holes = SmallVec::<[_; 1]>::new();
        for group in self.groups(ranges)? {
            holes.push((dkey_of(group.chunk)?, iod(NewValue::Hole { extents: group.extents })));
        }
        self.update_chunks(at, &holes)
    }

    /// Removes records from the chunks that exist, which are fewer than the ranges name.
    fn punch_existing(&self, at: At<'_>, ranges: &[Recx]) -> Result<()> {
        let mut holes = Vec::new();
        for dkey in now(self.chunks_beyond(Way::Now, at, 0))? {
            let start = (dkey - 1).saturating_mul(self.chunk_records);
            let chunk = Recx::new(start, self.chunk_records.min(u64::MAX - start));
            for part in ranges.iter().filter_map(|range| range.intersect(chunk)) {
                let inner = Recx::new(part.index - start, part.count);
                let extents = SmallVec::from_buf([inner]);
                holes.push((dkey.to_le_bytes(), iod(NewValue::Hole { extents })));
            }
        }
        self.update_chunks(at, &holes)
    }

    /// The index of the last record plus one; 0 for an empty array.
    ///
    /// # Errors
    /// Those of [`Object::query`].
    pub fn size(&self, at: At<'_>) -> Result<u64> {
        now(self.size_by(Way::Now, at))
    }

    /// As [`Array::size`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::size`].
    pub async fn size_by(&self, way: Way, at: At<'_>) -> Result<u64> {
        self.size_of(self.object.query_by(way, at, Self::SIZE_FLAGS, &[], AKEY).await?.as_ref())
    }

    /// What a query has to ask for of akey `0`, for [`Array::size_of`] to tell the size.
    pub const SIZE_FLAGS: QueryFlags =
        QueryFlags(QueryFlags::MAX.0 | QueryFlags::DKEY.0 | QueryFlags::RECX.0);

    /// The size that the answer to such a query means.
    ///
    /// # Errors
    /// Those of an answer that belongs to no array.
    pub fn size_of(&self, found: Option<&Found>) -> Result<u64> {
        let Some(found) = found else { return Ok(0) };
        let (Ok(dkey), Some(recx)) = (<[u8; 8]>::try_from(&found.dkey[..]), found.recx) else {
            return Err(unexpected());
        };
        let chunk = u64::from_le_bytes(dkey).checked_sub(1).ok_or_else(unexpected)?;
        let start = chunk.checked_mul(self.chunk_records).ok_or_else(unexpected)?;
        recx.end().and_then(|end| start.checked_add(end)).ok_or_else(unexpected)
    }

    /// Size and the epoch of the newest visible record. Costs by the number of extents.
    ///
    /// # Errors
    /// Those of [`Object::list_extents`].
    pub fn stat(&self, at: At<'_>) -> Result<ArrayStat> {
        now(self.stat_by(Way::Now, at))
    }

    /// As [`Array::stat`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::stat`].
    pub async fn stat_by(&self, way: Way, at: At<'_>) -> Result<ArrayStat> {
        let (object, mut max_epoch, mut dkeys) = (&self.object, Epoch::ZERO, Anchor::default());
        while !dkeys.is_eof() {
            for dkey in object.list_dkeys_by(way, at, &mut dkeys, Page::default()).await?.iter() {
                let mut extents = Anchor::default();
                while !extents.is_eof() {
                    let listed = object.list_extents_by(way, at, dkey, AKEY, &mut extents, 1024).await?;
                    max_epoch =
                        listed.iter().filter(|e| !e.single).map(|e| e.epoch).fold(max_epoch, Epoch::max);
                }
            }
        }
        Ok(ArrayStat { size: self.size_by(way, at).await?, max_epoch })
    }

    /// Cuts the array or makes it longer, so that [`Array::size`] is `size`: what lies beyond is removed, and the
    /// last record is written with zeros if it is not there.
    ///
    /// Atomic; but cutting more than 16,384 chunks at [`At::Latest`] removes them from the end in several steps.
    ///
    /// # Errors
    /// `Invalid::Count` if more chunks must go than a transaction holds; those of [`Object::update`].
    pub fn set_size(&self, at: At<'_>, size: u64) -> Result<()> {
        match self.object.container().write_tx(at)? {
            Some(tx) => now(self.set_size_in(Way::Now, tx, size)),
            None => now(self.set_size_by(Way::Now, size)),
        }
    }

    /// As [`Array::set_size`] at [`At::Latest`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Array::set_size`].
    pub async fn set_size_by(&self, way: Way, size: u64) -> Result<()> {
        let cont = self.object.container();
        cont.write_tx(At::Latest)?;
        let mut beyond = self.chunks_beyond(way, At::Latest, size).await?;
        while size > 0 && beyond.len() > CHUNKS_CUT_MAX {
            let cut = &beyond.split_off(beyond.len() - CHUNKS_CUT_MAX);
            cont.transact_by(way, |tx| ready(self.punch_chunks(&tx, cut))).await?;
        }
        cont.transact_by(way, |tx| async move { self.set_size_in(way, &tx, size).await }).await
    }

    /// Reads first and then changes: what fails on the way leaves nothing of it in the transaction.
    async fn set_size_in(&self, way: Way, tx: &Tx, size: u64) -> Result<()> {
        let at = At::Tx(tx);
        let Some(last) = size.checked_sub(1) else { return self.empty(tx) };
        let (mut gone, mut buf) = (Vec::new(), IoBuf::default());
        let mut writes = SmallVec::<[_; 2]>::new();
        let (chunk, inner) = (last / self.chunk_records, last % self.chunk_records);
        let found = self.object.query_by(way, at, Self::SIZE_FLAGS, &[], AKEY).await?;
        if self.size_of(found.as_ref())? > size {
            gone = self.chunks_beyond(way, at, size).await?;
            if inner + 1 < self.chunk_records {
                let tail = Recx::new(inner + 1, self.chunk_records - inner - 1);
                let extents = SmallVec::from_buf([tail]);
                writes.push((dkey_of(chunk)?, iod(NewValue::Hole { extents })));
            }
        }
        let len = usize::try_from(self.cell_bytes).map_err(|_wide| Invalid::RecordSize)?;
        let extents = SmallVec::from_buf([Recx::new(inner, 1)]);
        let want = Want::Array { record_bytes: self.cell_bytes, extents: extents.clone() };
        let last = [FetchIod { akey: Key::from_slice(AKEY), want }];
        grow(&mut buf, Some(len))?;
        let found = self.object.fetch_by(way, at, &dkey_of(chunk)?, Cond::NONE, &last, &mut buf).await?;
        if found.iter().all(|found| found.filled.is_empty()) {
            buf[..len].fill(0);
            let data = Payload::Ref(&buf[..len]);
            let value = NewValue::Array { record_bytes: self.cell_bytes, extents, data };
            writes.push((dkey_of(chunk)?, iod(value)));
        }
        tx.change(&self.object, &punched(&gone).chain(staged(&writes)).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Removes every record but keeps the metadata.
    fn empty(&self, tx: &Tx) -> Result<()> {
        let bytes = self.metadata();
        let metadata = [single_iod(&bytes)];
        let put = Staged::Update { dkey: &METADATA_DKEY, iods: &metadata };
        let keeps_own = self.object.object_type() == ObjectType::Array;
        let all = [Staged::Punch(PunchScope::Object), put];
        tx.change(&self.object, &all[..if keeps_own { 2 } else { 1 }])?;
        Ok(())
    }

    fn punch_chunks(&self, tx: &Tx, dkeys: &[u64]) -> Result<()> {
        tx.change(&self.object, &punched(dkeys).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Dkeys of the chunks that lie wholly beyond `size`, ascending.
    async fn chunks_beyond(&self, way: Way, at: At<'_>, size: u64) -> Result<Vec<u64>> {
        let first = size.div_ceil(self.chunk_records).checked_add(1).ok_or(Invalid::Extent)?;
        let mut found = Vec::new();
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            let keys = self.object.list_dkeys_by(way, at, &mut anchor, Page::default()).await?;
            let numbers = keys.iter().filter_map(|key| key.try_into().ok().map(u64::from_le_bytes));
            found.extend(numbers.filter(|&dkey| dkey >= first));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes the array with its metadata.
    ///
    /// # Errors
    /// Those of [`Object::punch`].
    pub fn destroy(&self, at: At<'_>) -> Result<()> {
        self.object.punch(at, Cond::NONE).map(|_| ())
    }

    fn groups(&self, ranges: &[Recx]) -> Result<SmallVec<[Group; 1]>> {
        if ranges.len() > limits::EXTENTS_MAX {
            return Err(Invalid::Count.into());
        }
        Ok(chunks::groups(ranges, self.chunk_records)?)
    }

    /// The bytes of a group in the caller's buffer.
    fn bytes_of(&self, group: &Group) -> Result<core::ops::Range<usize>> {
        let byte =
            |record: u64| record.checked_mul(self.cell_bytes).and_then(|byte| usize::try_from(byte).ok());
        match (byte(group.buffer_start), byte(group.buffer_start + group.records)) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => Err(Invalid::Extent.into()),
        }
    }
}

fn iod(value: NewValue<'_>) -> UpdateIod<'_> {
    UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value }
}

fn single_iod(bytes: &[u8]) -> UpdateIod<'_> {
    iod(NewValue::Single(Payload::Ref(bytes)))
}

fn staged<'a>(writes: &'a [([u8; 8], UpdateIod<'_>)]) -> impl Iterator<Item = Staged<'a>> {
    writes.iter().map(|(dkey, iod)| Staged::Update { dkey, iods: core::slice::from_ref(iod) })
}

fn punched<'a>(dkeys: &'a [u64]) -> impl Iterator<Item = Staged<'a>> {
    dkeys.iter().map(|dkey| Staged::Punch(PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()))))
}
