//! Records in the store: the one place where this crate touches keys.

use crate::chunks::{AKEY_DATA, LAST_RECORD, Piece, pieces};
use crate::error::{Error, Result};
use crate::layout::access_time;
use crate::layout::device_no::DeviceNo;
use crate::layout::inode::{self, FileKind, Inode, Time};
use crate::layout::link_count::{self, LinkCount};
use crate::layout::{
    self, AKEY_ATIME, AKEY_INODE, AKEY_LINKS, AKEY_RDEV, AKEY_SLINK, AKEY_XATTR_PREFIX, DKEY_COMPANION,
    PATH_BYTES_MAX, XATTR_COST_BYTES, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX, is_companion,
};
use crate::leased::gathering;
use crate::mount::Mount;
use crate::node::Slot;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use dolmen_client::{At, FetchIod, Fetched, NewValue, Object, Page, Payload, Tx, UpdateIod, Want, Way, now};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{Anchor, Cond, Epoch, Error as StoreError, IoBuf, Key, ObjectClass, Oid, Recx};
use smallvec::{SmallVec, smallvec};

thread_local! {
    /// A buffer kept for the next record read of this thread, so that a read allocates nothing.
    static SCRATCH: Cell<IoBuf> = Cell::new(IoBuf::default());
}

/// Runs `body` with this thread's buffer; a nested call gets a fresh one.
pub(crate) fn with_scratch<T>(body: impl FnOnce(&mut IoBuf) -> T) -> T {
    // A thread that ends has none any more.
    let mut buf = SCRATCH.try_with(Cell::take).unwrap_or_else(|_ended| IoBuf::default());
    let result = body(&mut buf);
    // Ignored: as above.
    _ = SCRATCH.try_with(|own| own.set(buf));
    result
}

/// A single value cannot be empty, but an extended attribute can: then it is stored as this, and this goes
/// before a value that begins with it. All other values are stored as they are.
const XATTR_ESCAPE: &[u8] = b"\0DLM_EMPTY\0";

/// That there is no entry is asked by the akey of its record, which every entry has: the filters of a store know akeys
/// and not dkeys.
const ENTRY_INSERT: Cond = Cond::AKEY_INSERT;

/// All of an inode record.
const WHOLE_INODE: Recx = Recx { index: 0, count: inode::BYTES as u64 };

/// One akey of an entry besides its inode record, with its single value.
pub(crate) type Extra = (Key, Vec<u8>);

/// The same where an entry is made.
pub(crate) type Beside<'a> = (&'static [u8], &'a [u8]);

fn single<'a>(akey: &[u8], value: &'a [u8]) -> UpdateIod<'a> {
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value: NewValue::Single(Payload::Ref(value)) }
}

pub(crate) fn inode_iod(record: &[u8; inode::BYTES]) -> UpdateIod<'_> {
    let extents = smallvec![Recx::new(0, inode::BYTES as u64)];
    let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(record) };
    UpdateIod { akey: Key::from_slice(AKEY_INODE), cond: Cond::NONE, value }
}

pub(crate) fn data_iod<'a>(piece: &Piece, data: Payload<'a>) -> UpdateIod<'a> {
    let value = NewValue::Array { record_bytes: 1, extents: smallvec![piece.recx], data };
    UpdateIod { akey: Key::from_slice(AKEY_DATA), cond: Cond::NONE, value }
}

/// Every file is asked until so many in a row were not empty: that is no chance any more.
const FULL_IN_A_ROW_MAX: u32 = 4;
/// From then on one of so many is asked: that costs little, and sees soon when empty ones come.
const FULL_ASKED_EVERY: u32 = 16;

/// Guesses from the last files unlinked whether the next has data, since to ask for nothing costs a fifth of an unlink.
#[derive(Debug, Default)]
pub(crate) struct Empties {
    /// Files unlinked since one was found to have no data.
    full_in_a_row: AtomicU32,
}

impl Empties {
    fn is_to_be_asked(&self) -> bool {
        let full = self.full_in_a_row.load(Ordering::Relaxed);
        full < FULL_IN_A_ROW_MAX || full.is_multiple_of(FULL_ASKED_EVERY)
    }

    fn note(&self, is_empty: bool) {
        // A count that is lost to another thread only makes one guess another one.
        let full = self.full_in_a_row.load(Ordering::Relaxed);
        self.full_in_a_row.store(if is_empty { 0 } else { full.wrapping_add(1) }, Ordering::Relaxed);
    }
}

/// The record that was found in `slot`, by what is filled of it.
fn inode_of(
    slot: &Slot,
    filled: core::result::Result<SmallVec<[Recx; 1]>, StoreError>,
    bytes: &[u8],
) -> Result<Option<Inode>> {
    let filled = match filled {
        // Data of another record size is no inode.
        Err(StoreError::RecordSize { .. }) => return Err(bad_record(slot)),
        other => other?,
    };
    if filled.is_empty() {
        return Ok(None);
    }
    let bytes = bytes.first_chunk().filter(|_| filled[..] == [WHOLE_INODE]);
    bytes.and_then(Inode::from_bytes).map(Some).ok_or_else(|| bad_record(slot))
}

/// What is asked for a record and the access time beside it.
fn inode_and_atime_iods() -> [FetchIod; 2] {
    let record = Want::Array { record_bytes: 1, extents: smallvec![WHOLE_INODE] };
    let time = Want::Single { room_bytes: access_time::BYTES };
    [(AKEY_INODE, record), (AKEY_ATIME, time)]
        .map(|(akey, want)| FetchIod { akey: Key::from_slice(akey), want })
}

/// What was found of them in `slot`.
fn inode_and_atime_of(
    slot: &Slot,
    found: core::result::Result<Fetched, StoreError>,
    bytes: &[u8],
) -> Result<Option<(Inode, Option<Time>)>> {
    let found = match found {
        Err(StoreError::RecordSize { .. } | StoreError::RecTooBig { .. }) => return Err(bad_record(slot)),
        other => other?,
    };
    if found[0].filled.is_empty() {
        return Ok(None);
    }
    let inode = bytes.first_chunk().filter(|_| found[0].filled[..] == [WHOLE_INODE]);
    let inode = inode.and_then(Inode::from_bytes);
    let time = &bytes[inode::BYTES..][..access_time::BYTES];
    let atime = (found[1].size_bytes > 0).then(|| access_time::from_bytes(time));
    match (inode, atime) {
        (Some(inode), None) => Ok(Some((inode, None))),
        (Some(inode), Some(Some(atime))) => Ok(Some((inode, Some(atime)))),
        _ => Err(bad_record(slot)),
    }
}

/// What is asked for the record of a companion and its link count.
fn inode_and_links_iods() -> [FetchIod; 2] {
    let record = Want::Array { record_bytes: 1, extents: smallvec![WHOLE_INODE] };
    let links = Want::Single { room_bytes: link_count::BYTES };
    [(AKEY_INODE, record), (AKEY_LINKS, links)]
        .map(|(akey, want)| FetchIod { akey: Key::from_slice(akey), want })
}

/// What was found of them in `slot`; `None` if there is no companion.
fn inode_and_links_of(
    slot: &Slot,
    found: core::result::Result<Fetched, StoreError>,
    bytes: &[u8],
) -> Result<Option<(Inode, LinkCount)>> {
    let found = match found {
        Err(StoreError::RecordSize { .. } | StoreError::RecTooBig { .. }) => return Err(bad_record(slot)),
        other => other?,
    };
    if found[0].filled.is_empty() {
        return Ok(None);
    }
    let inode = bytes.first_chunk().filter(|_| found[0].filled[..] == [WHOLE_INODE]);
    let links = bytes[inode::BYTES..].first_chunk();
    let links = links.filter(|_| found[1].size_bytes == link_count::BYTES as u64);
    match (inode.and_then(Inode::from_bytes), links.copied().and_then(LinkCount::from_bytes)) {
        (Some(inode), Some(links)) => Ok(Some((inode, links))),
        _ => Err(bad_record(slot)),
    }
}

impl Mount {
    pub(crate) fn object(&self, oid: Oid) -> Result<Object> {
        Ok(gathering(self.container.object(oid)?))
    }

    /// Runs `body` in a transaction, again while it conflicts with others.
    pub(crate) fn transact<T>(&self, body: impl FnMut(&Tx) -> Result<T>) -> Result<T> {
        self.container.transact(body)
    }

    /// The record in `slot`; `None` if there is none.
    pub(crate) fn inode(&self, at: At<'_>, slot: &Slot) -> Result<Option<Inode>> {
        let object = self.object(slot.oid)?;
        with_scratch(|buf| {
            let found = object.read(at, &slot.dkey, AKEY_INODE, 1, WHOLE_INODE, buf);
            inode_of(slot, found.map(|found| found.filled), buf)
        })
    }

    /// As [`Mount::inode`], on a way of the caller's.
    pub(crate) async fn inode_by(&self, way: Way, at: At<'_>, slot: &Slot) -> Result<Option<Inode>> {
        let object = self.object(slot.oid)?;
        let want = Want::Array { record_bytes: 1, extents: smallvec![WHOLE_INODE] };
        let (iods, mut buf) =
            ([FetchIod { akey: Key::from_slice(AKEY_INODE), want }], IoBuf::zeroed(inode::BYTES));
        let found = object.fetch_by(way, at, &slot.dkey, Cond::NONE, &iods, &mut buf).await;
        inode_of(slot, found.map(|found| found.into_iter().flat_map(|found| found.filled).collect()), &buf)
    }

    pub(crate) fn value(&self, at: At<'_>, slot: &Slot, akey: &[u8]) -> Result<Option<Vec<u8>>> {
        let object = self.object(slot.oid)?;
        with_scratch(|buf| Ok(object.get(at, &slot.dkey, akey, buf)?.map(|_| buf.to_vec())))
    }

    /// As [`Mount::value`], on a way of the caller's.
    async fn value_by(&self, way: Way, at: At<'_>, slot: &Slot, akey: &[u8]) -> Result<Option<Vec<u8>>> {
        let (object, mut buf) = (self.object(slot.oid)?, IoBuf::default());
        Ok(object.get_by(way, at, &slot.dkey, akey, &mut buf).await?.map(|_| buf.to_vec()))
    }

    /// The target of the symbolic link whose record is `inode`.
    ///
    /// # Errors
    /// `Stale` if the entry was replaced since it was read.
    pub(crate) fn target(&self, at: At<'_>, slot: &Slot, inode: &Inode) -> Result<Vec<u8>> {
        assert!(inode.kind == FileKind::Symlink, "asked for symbolic links only");
        match self.value(at, slot, AKEY_SLINK)? {
            Some(target) if target.len() as u64 == inode.link_bytes && target.len() <= PATH_BYTES_MAX => {
                Ok(target)
            }
            _ => Err(now(self.replaced_or(Way::Now, at, (slot, inode), bad_record(slot)))),
        }
    }

    /// Why what belongs to the record `inode`, which was in `slot` and is read apart from it, is not as it should be: `Stale` if
    /// the record was replaced since, as what belonged to it may have gone with it; else `wrong`.
    async fn replaced_or(&self, way: Way, at: At<'_>, (slot, inode): (&Slot, &Inode), wrong: Error) -> Error {
        match self.inode_by(way, at, slot).await {
            // A companion does not say of itself that the file is linked.
            Ok(Some(now))
                if now.oid == inode.oid && (now.linked == inode.linked || is_companion(slot.oid)) =>
            {
                wrong
            }
            Ok(_) => Error::Stale,
            Err(error) => error,
        }
    }

    /// The number of the device whose entry or companion is in `slot`; zero of what is no device. `Stale` if that was replaced
    /// since it was read.
    pub(crate) async fn device_no_by(&self, way: Way, slot: &Slot, inode: &Inode) -> Result<DeviceNo> {
        if !inode.kind.is_device() {
            return Ok(DeviceNo::default());
        }
        let stored = self.value_by(way, At::Latest, slot, AKEY_RDEV).await?;
        match stored.and_then(|bytes| DeviceNo::from_bytes(&bytes)) {
            Some(device) => Ok(device),
            None => Err(self.replaced_or(way, At::Latest, (slot, inode), bad_record(slot)).await),
        }
    }

    /// Adds an entry and returns its epoch; `Exists` if the name is taken.
    pub(crate) fn put_new_entry(
        &self,
        at: At<'_>,
        slot: &Slot,
        inode: &Inode,
        beside: &[Beside<'_>],
    ) -> Result<Epoch> {
        let (record, atime) = (inode.to_bytes(), access_time::to_bytes(inode.mtime));
        let mut iods: SmallVec<[UpdateIod<'_>; 2]> = smallvec![inode_iod(&record)];
        iods.extend(beside.iter().map(|(akey, value)| single(akey, value)));
        if self.atime && !inode.linked {
            iods.push(single(AKEY_ATIME, &atime));
        }
        let object = self.object(slot.oid)?.charged_to(inode.uid);
        Ok(object.update(at, &slot.dkey, ENTRY_INSERT, &iods)?)
    }

    /// Adds the entry of a new file together with its data, both or neither; `Exists` if the name is taken.
    pub(crate) fn put_new_file(&self, slot: &Slot, inode: &Inode, data: &[u8]) -> Result<()> {
        let object = |oid| Ok::<_, Error>(self.object(oid)?.charged_to(inode.uid));
        let (dir, file) = (object(slot.oid)?, object(inode.oid)?);
        let record = inode.to_bytes();
        let mut batch = self.container.batch();
        batch.update(&dir, &slot.dkey, ENTRY_INSERT, &[inode_iod(&record)]);
        for piece in pieces(inode.chunk_bytes, 0, data.len()) {
            let iod = data_iod(&piece, Payload::Ref(&data[piece.bytes()]));
            batch.update(&file, &piece.dkey.to_le_bytes(), Cond::NONE, &[iod]);
        }
        batch.commit()?;
        Ok(())
    }

    /// Writes the data of a new file from its start.
    pub(crate) fn put_data(&self, at: At<'_>, inode: &Inode, data: &[u8]) -> Result<()> {
        let file = self.object(inode.oid)?.charged_to(inode.uid);
        pieces(inode.chunk_bytes, 0, data.len()).try_for_each(|piece| {
            let iod = data_iod(&piece, Payload::Ref(&data[piece.bytes()]));
            file.update(at, &piece.dkey.to_le_bytes(), Cond::NONE, &[iod])?;
            Ok(())
        })
    }

    /// Writes a record over the one in `slot`; `NotFound` if there is none.
    pub(crate) fn put_inode(&self, at: At<'_>, slot: &Slot, inode: &Inode) -> Result<()> {
        let record = inode.to_bytes();
        let object = self.object(slot.oid)?.charged_to(inode.uid);
        object.update(at, &slot.dkey, Cond::DKEY_UPDATE, &[inode_iod(&record)])?;
        Ok(())
    }

    /// Writes the record with a new time, if there is one, and the access time, if there is one.
    pub(crate) fn put_times(
        &self,
        at: At<'_>,
        slot: &Slot,
        inode: Option<&Inode>,
        atime: Option<Time>,
    ) -> Result<()> {
        let (record, atime) = (inode.map(Inode::to_bytes), atime.map(access_time::to_bytes));
        let mut iods: SmallVec<[UpdateIod<'_>; 2]> = record.as_ref().map(inode_iod).into_iter().collect();
        iods.extend(atime.as_ref().map(|atime| single(AKEY_ATIME, atime)));
        if !iods.is_empty() {
            let object = self.object(slot.oid)?;
            // A time alone counts nothing.
            let object = inode.map_or(object.clone(), |inode| object.charged_to(inode.uid));
            object.update(at, &slot.dkey, Cond::DKEY_UPDATE, &iods)?;
        }
        Ok(())
    }

    /// The access time that lies in `slot`, if they are kept.
    pub(crate) fn atime(&self, at: At<'_>, slot: &Slot) -> Result<Option<Time>> {
        now(self.atime_by(Way::Now, at, slot))
    }

    /// As [`Mount::atime`], on a way of the caller's.
    pub(crate) async fn atime_by(&self, way: Way, at: At<'_>, slot: &Slot) -> Result<Option<Time>> {
        if !self.atime {
            return Ok(None);
        }
        let Some(stored) = self.value_by(way, at, slot, AKEY_ATIME).await? else { return Ok(None) };
        access_time::from_bytes(&stored).map(Some).ok_or_else(|| bad_record(slot))
    }

    /// The record in `slot` and, if these are kept, the access time beside it: one fetch.
    pub(crate) fn inode_and_atime(&self, at: At<'_>, slot: &Slot) -> Result<Option<(Inode, Option<Time>)>> {
        if !self.atime {
            return Ok(self.inode(at, slot)?.map(|inode| (inode, None)));
        }
        let object = self.object(slot.oid)?;
        with_scratch(|buf| {
            buf.set_len(inode::BYTES + access_time::BYTES);
            let found = object.fetch(at, &slot.dkey, Cond::NONE, &inode_and_atime_iods(), buf);
            inode_and_atime_of(slot, found, buf)
        })
    }

    /// As [`Mount::inode_and_atime`], of the present, on a way of the caller's.
    pub(crate) async fn inode_and_atime_by(
        &self,
        way: Way,
        slot: &Slot,
    ) -> Result<Option<(Inode, Option<Time>)>> {
        if way == Way::Now {
            return self.inode_and_atime(At::Latest, slot);
        }
        if !self.atime {
            return Ok(self.inode_by(way, At::Latest, slot).await?.map(|inode| (inode, None)));
        }
        let object = self.object(slot.oid)?;
        let mut buf = IoBuf::zeroed(inode::BYTES + access_time::BYTES);
        let (none, iods) = (Cond::NONE, inode_and_atime_iods());
        let found = object.fetch_by(way, At::Latest, &slot.dkey, none, &iods, &mut buf).await;
        inode_and_atime_of(slot, found, &buf)
    }

    /// Everything under an entry's dkey but its record.
    pub(crate) fn extras(&self, at: At<'_>, slot: &Slot) -> Result<Vec<Extra>> {
        let mut extras = Vec::new();
        for akey in self.akeys(at, slot)? {
            if akey[..] != *AKEY_INODE {
                // What vanished since it was listed is left out; in a transaction nothing does.
                if let Some(value) = self.value(at, slot, &akey)? {
                    extras.push((akey, value));
                }
            }
        }
        Ok(extras)
    }

    /// Whether anything is under an entry's dkey.
    pub(crate) fn has_akeys(&self, at: At<'_>, slot: &Slot) -> Result<bool> {
        now(self.has_akeys_by(Way::Now, at, slot))
    }

    /// As [`Mount::has_akeys`], on a way of the caller's.
    pub(crate) async fn has_akeys_by(&self, way: Way, at: At<'_>, slot: &Slot) -> Result<bool> {
        let page = Page { items_max: 1, bytes_max: 4096 };
        let (object, mut start) = (self.object(slot.oid)?, Anchor::default());
        Ok(!object.list_akeys_by(way, at, &slot.dkey, &mut start, page).await?.is_empty())
    }

    pub(crate) fn akeys(&self, at: At<'_>, slot: &Slot) -> Result<Vec<Key>> {
        let object = self.object(slot.oid)?;
        let (mut keys, mut anchor) = (Vec::new(), Anchor::default());
        while !anchor.is_eof() {
            let page = object.list_akeys(at, &slot.dkey, &mut anchor, Page::default())?;
            keys.extend(page.iter().map(Key::from_slice));
        }
        Ok(keys)
    }

    /// Writes an entry with everything that was under another dkey.
    pub(crate) fn put_whole_entry(
        &self,
        at: At<'_>,
        slot: &Slot,
        inode: &Inode,
        extras: &[Extra],
    ) -> Result<()> {
        let record = inode.to_bytes();
        self.put_with_extras(at, (slot, inode.uid), smallvec![inode_iod(&record)], extras)
    }

    /// Writes values under an entry's dkey and its extras, charged to its owner: in as many updates as they need, of one
    /// transaction.
    pub(crate) fn put_with_extras<'a>(
        &self,
        at: At<'_>,
        (slot, owner): (&Slot, u32),
        mut iods: SmallVec<[UpdateIod<'a>; 2]>,
        extras: &'a [Extra],
    ) -> Result<()> {
        assert!(extras.is_empty() || matches!(at, At::Tx(_)), "extras go with their entry");
        iods.extend(extras.iter().map(|(akey, value)| single(akey, value)));
        let object = self.object(slot.oid)?.charged_to(owner);
        for part in iods.chunks(IODS_MAX) {
            object.update(at, &slot.dkey, Cond::NONE, part)?;
        }
        Ok(())
    }

    /// Removes an entry that was read before: in a transaction, that it exists is known and remembered.
    pub(crate) fn punch_entry(&self, at: At<'_>, slot: &Slot) -> Result<()> {
        let cond = if matches!(at, At::Tx(_)) { Cond::NONE } else { Cond::PUNCH };
        self.object(slot.oid)?.punch_dkey(at, &slot.dkey, cond)?;
        Ok(())
    }

    /// Removes an entry and the file that only it names, both or neither.
    ///
    /// REQUIRES: the entry's stripe is held, the file is not open, and no other mount changes the container.
    pub(crate) fn remove_file(&self, slot: &Slot, file: Oid) -> Result<()> {
        let (dir, file) = (self.object(slot.oid)?, self.object(file)?);
        // A file without data is nothing but its entry. Over several shards the question would cost more than it saves.
        let is_asked = file.oid().class() == ObjectClass::S1 && self.empties.is_to_be_asked();
        let is_empty = is_asked && matches!(file.query(At::Latest, LAST_RECORD, &[], AKEY_DATA), Ok(None));
        self.empties.note(is_empty);
        if is_empty {
            dir.punch_dkey(At::Latest, &slot.dkey, Cond::NONE)?;
            return Ok(());
        }
        let mut batch = self.container.batch();
        batch.punch_dkey(&dir, &slot.dkey);
        batch.punch(&file);
        batch.commit()?;
        Ok(())
    }

    pub(crate) fn punch_object(&self, at: At<'_>, oid: Oid) -> Result<()> {
        self.object(oid)?.punch(at, Cond::NONE)?;
        Ok(())
    }

    /// Whether a directory has no entries.
    pub(crate) fn is_empty(&self, at: At<'_>, dir: Oid) -> Result<bool> {
        let object = self.object(dir)?;
        let mut anchor = Anchor::default();
        let page = Page { items_max: 1, bytes_max: 4096 };
        while !anchor.is_eof() {
            if !object.list_dkeys(at, &mut anchor, page)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of an extended attribute.
    pub(crate) fn xattr_value(&self, at: At<'_>, slot: &Slot, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = self.value(at, slot, &layout::xattr_akey(name))?;
        if let Some(stored) = &mut value
            && stored.starts_with(XATTR_ESCAPE)
        {
            stored.drain(..XATTR_ESCAPE.len());
        }
        Ok(value)
    }

    /// Checks that an extended attribute may become this one: `AttributesFull`.
    pub(crate) fn check_xattr_room(&self, at: At<'_>, slot: &Slot, name: &[u8], value: &[u8]) -> Result<()> {
        let cost = |akey: &Key, value_bytes: usize| akey.len() + value_bytes + XATTR_COST_BYTES;
        let new = layout::xattr_akey(name);
        let mut akeys = self.akeys(at, slot)?;
        akeys.retain(|akey| akey.starts_with(AKEY_XATTR_PREFIX));
        let wanted = cost(&new, value.len());
        if wanted + akeys.iter().map(|akey| cost(akey, XATTR_VALUE_BYTES_MAX)).sum::<usize>()
            <= XATTRS_BYTES_MAX
        {
            // However long they are.
            return Ok(());
        }
        let (mut others, mut old) = (0, 0);
        for (akey, value_bytes) in self.value_sizes(at, slot, akeys)? {
            *if akey == new { &mut old } else { &mut others } += cost(&akey, value_bytes);
        }
        if others + wanted > XATTRS_BYTES_MAX && wanted > old { Err(Error::AttributesFull) } else { Ok(()) }
    }

    /// Lengths of the values of these akeys.
    fn value_sizes(&self, at: At<'_>, slot: &Slot, akeys: Vec<Key>) -> Result<Vec<(Key, usize)>> {
        let object = self.object(slot.oid)?;
        let mut sizes = Vec::with_capacity(akeys.len());
        for part in akeys.chunks(IODS_MAX) {
            let asked: Vec<FetchIod> =
                part.iter().map(|akey| FetchIod { akey: akey.clone(), want: Want::Size }).collect();
            let found = object.fetch(at, &slot.dkey, Cond::NONE, &asked, &mut IoBuf::default())?;
            let bytes = found.iter().map(|found| usize::try_from(found.size_bytes).unwrap_or(usize::MAX));
            sizes.extend(part.iter().cloned().zip(bytes));
        }
        Ok(sizes)
    }

    /// Sets an extended attribute of what `owner` has; `cond` is on the akey.
    pub(crate) fn put_xattr(
        &self,
        at: At<'_>,
        (slot, owner): (&Slot, u32),
        (name, value): (&[u8], &[u8]),
        cond: Cond,
    ) -> Result<()> {
        let escaped;
        let stored = if value.is_empty() || value.starts_with(XATTR_ESCAPE) {
            escaped = [XATTR_ESCAPE, value].concat();
            &escaped
        } else {
            value
        };
        let iod = single(&layout::xattr_akey(name), stored);
        let object = self.object(slot.oid)?.charged_to(owner);
        object.update(at, &slot.dkey, Cond::DKEY_UPDATE.and(cond), &[iod])?;
        Ok(())
    }

    pub(crate) fn punch_xattr(&self, at: At<'_>, slot: &Slot, name: &[u8]) -> Result<()> {
        let akey = layout::xattr_akey(name);
        self.object(slot.oid)?.punch_akeys(at, &slot.dkey, &[&akey], Cond::PUNCH)?;
        Ok(())
    }

    /// Removes akeys of an entry that were read before in this transaction.
    pub(crate) fn punch_extras(&self, at: At<'_>, slot: &Slot, extras: &[Extra]) -> Result<()> {
        let object = self.object(slot.oid)?;
        for part in extras.chunks(IODS_MAX) {
            let akeys: Vec<&[u8]> = part.iter().map(|(akey, _)| &akey[..]).collect();
            object.punch_akeys(at, &slot.dkey, &akeys, Cond::NONE)?;
        }
        Ok(())
    }

    /// Names of extended attributes, in no particular order.
    pub(crate) fn xattr_names(&self, at: At<'_>, slot: &Slot) -> Result<Vec<Vec<u8>>> {
        let akeys = self.akeys(at, slot)?;
        Ok(akeys.iter().filter_map(|akey| akey.strip_prefix(AKEY_XATTR_PREFIX)).map(<[u8]>::to_vec).collect())
    }

    pub(crate) fn companion_slot(oid: Oid) -> Slot {
        Slot::new(layout::companion_oid(oid), DKEY_COMPANION)
    }

    /// The shared record of a hard-linked file, and how many names it has: one fetch, so that both are of one moment.
    /// `NotFound` if there is none.
    pub(crate) fn companion(&self, at: At<'_>, file: Oid) -> Result<(Inode, LinkCount)> {
        now(self.companion_by(Way::Now, at, file))
    }

    /// As [`Mount::companion`], on a way of the caller's.
    async fn companion_by(&self, way: Way, at: At<'_>, file: Oid) -> Result<(Inode, LinkCount)> {
        let slot = Self::companion_slot(file);
        let object = self.object(slot.oid)?;
        let mut buf = IoBuf::zeroed(inode::BYTES + link_count::BYTES);
        let iods = inode_and_links_iods();
        let found = object.fetch_by(way, at, &slot.dkey, Cond::NONE, &iods, &mut buf).await;
        inode_and_links_of(&slot, found, &buf)?.ok_or(Error::NotFound)
    }

    /// Makes the companion of a file that gets its second name.
    pub(crate) fn put_companion(
        &self,
        at: At<'_>,
        inode: &Inode,
        links: LinkCount,
        extras: &[Extra],
    ) -> Result<()> {
        let (record, links) = (inode.to_bytes(), links.to_bytes());
        let iods = smallvec![inode_iod(&record), single(AKEY_LINKS, &links)];
        self.put_with_extras(at, (&Self::companion_slot(inode.oid), inode.uid), iods, extras)
    }

    /// Sets how many names a hard-linked file has, which is a change of its attributes.
    pub(crate) fn set_links(&self, at: At<'_>, file: Oid, count: u64, now: Time) -> Result<()> {
        let links = LinkCount::new(count).ok_or(Error::TooManyLinks)?.to_bytes();
        let slot = Self::companion_slot(file);
        let inode = self.inode(at, &slot)?.ok_or(Error::NotFound)?;
        let record = Inode { ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..inode }.to_bytes();
        let iods = [inode_iod(&record), single(AKEY_LINKS, &links)];
        self.object(slot.oid)?.update(at, &slot.dkey, Cond::DKEY_UPDATE, &iods)?;
        Ok(())
    }

    /// Attributes of what an entry names, the number of its names, and where they lie. `Stale` if the entry was replaced since it
    /// was read, and what it named is gone; where it was not, a companion that is missing or none is damage.
    pub(crate) fn attributes(&self, at: At<'_>, slot: &Slot, inode: &Inode) -> Result<(Inode, u64, Slot)> {
        now(self.attributes_by(Way::Now, at, slot, inode))
    }

    /// As [`Mount::attributes`], on a way of the caller's.
    pub(crate) async fn attributes_by(
        &self,
        way: Way,
        at: At<'_>,
        slot: &Slot,
        inode: &Inode,
    ) -> Result<(Inode, u64, Slot)> {
        if !inode.linked {
            return Ok((*inode, 1, slot.clone()));
        }
        let home = Self::companion_slot(inode.oid);
        let wrong = match Box::pin(self.companion_by(way, at, inode.oid)).await {
            Ok((shared, links)) => return Ok((shared, links.count(), home)),
            Err(Error::NotFound) => bad_record(slot),
            Err(error) if error.is_damage() => error,
            Err(other) => return Err(other),
        };
        Err(Box::pin(self.replaced_or(way, at, (slot, inode), wrong)).await)
    }

    /// The attributes by which what an entry names may be removed: if its companion is damaged, those of the entry. `Stale` as
    /// [`Mount::attributes`].
    pub(crate) fn owned(&self, slot: &Slot, inode: &Inode) -> Result<Inode> {
        match self.attributes(At::Latest, slot, inode) {
            Err(error) if error.is_damage() => Ok(*inode),
            other => Ok(other?.0),
        }
    }
}

pub(crate) fn bad_record(slot: &Slot) -> Error {
    Error::BadRecord { dir: slot.oid, name: slot.dkey.as_slice().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_seldom_asked_for_data_once_many_had_some_until_one_has_none() {
        let empties = Empties::default();
        let asked = |count: u32| {
            let each = (0..count).map(|_| {
                let is_asked = empties.is_to_be_asked();
                empties.note(false);
                u32::from(is_asked)
            });
            each.sum::<u32>()
        };
        assert_eq!(asked(FULL_IN_A_ROW_MAX), FULL_IN_A_ROW_MAX);
        assert_eq!(asked(16 * FULL_ASKED_EVERY), 16);
        empties.note(true);
        assert_eq!(asked(2), 2);
    }
}
