//! Open files: bytes at offsets, size, holes.

use crate::access::Cred;
use crate::attr::SetAttrs;
pub use crate::chunks::Piece;
use crate::chunks::{AKEY_DATA, LAST_RECORD, pieces, seek, size_to};
use crate::dir::OpenOptions;
use crate::error::{Error, Result, What};
pub use crate::event::FilePlace;
use crate::layout::FILE_BYTES_MAX;
use crate::layout::inode::Inode;
use crate::mount::Mount;
use crate::node::{InUse, Slot};
use crate::obj::Obj;
use crate::store::with_scratch;
use core::ops::Deref;
use dolmen_client::{Array, At, FetchIod, Found, Object, Page, Want, Way, now};
use dolmen_types::{Anchor, Cond, Epoch, IoBuf, Key, ObjectClass, Oid, Recx};
use smallvec::smallvec;
use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

/// Chunks of a hole that are removed without asking which exist.
const CHUNKS_BLIND_MAX: u64 = 64;
const EXTENTS_AT_ONCE: u32 = 1024;
/// Bytes by themselves in a chunk that are looked at: each is a request. A program that writes single bytes far apart has
/// written more of them, and means them.
const LONE_BYTES_MAX: usize = 4;

/// An open file; a cheap handle, `Send` and `Sync`. It is an [`Obj`], too, which has its attributes.
///
/// Reads and writes within one chunk are atomic. Within a mount that is not shared, appends and changes of
/// the size are atomic towards everything; in a shared one they are transactions. A file whose last name is
/// removed stays usable through its handles in that mount.
#[derive(Clone, Debug)]
pub struct File {
    obj: Obj,
    /// Tells a removal of its last name that it is open.
    _in_use: InUse,
    pub(crate) object: Object,
    pub(crate) reads: bool,
    writes: bool,
    pub(crate) appends: bool,
}

impl Deref for File {
    type Target = Obj;
    fn deref(&self) -> &Obj {
        &self.obj
    }
}

impl File {
    pub(crate) fn new(in_use: InUse, options: &OpenOptions, cred: Option<Arc<Cred>>) -> Result<Self> {
        let node = Arc::clone(in_use.node());
        let object = node.mount.object(node.oid)?;
        let object = match node.owner() {
            Some(owner) => object.charged_to(owner),
            None => object,
        };
        Ok(Self {
            obj: Obj { node, cred },
            _in_use: in_use,
            object,
            reads: options.read,
            writes: options.write || options.append,
            appends: options.append,
        })
    }

    /// The object for what is written: charged to the file's owner, as he was last seen, or to who writes if he never was.
    #[inline]
    pub(crate) fn charged(&self) -> Cow<'_, Object> {
        match self.node.owner() {
            Some(owner) if self.object.charged() != Some(owner) => {
                Cow::Owned(self.object.clone().charged_to(owner))
            }
            Some(_) | None => Cow::Borrowed(&self.object),
        }
    }

    fn mount(&self) -> &Arc<Mount> {
        &self.node.mount
    }

    /// Bytes in a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.node.chunk_bytes
    }

    /// Reads from `offset` into `buf`; less than its length only at the end of the file. Holes read as zeros; no other byte is a
    /// zero that nobody wrote, also beside others who make the file longer or cut it.
    ///
    /// One request for each chunk, and one for the size if the last of them is not there. Where a hole is told in a shared
    /// mount, its extent and the size are of one moment: that is three requests more, or one for each chunk.
    ///
    /// # Errors
    /// `BadHandle` unless it was opened for reading; `Invalid(Range)`; in a shared mount `Stale` if nothing is
    /// found and another mount has moved or removed the file; those of the store.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if !self.reads {
            return Err(Error::BadHandle);
        }
        let Some(_end) = offset.checked_add(buf.len() as u64) else { return Err(What::Range.into()) };
        let gate = self.node.gate.read().unwrap_or_else(PoisonError::into_inner);
        let filled = self.fill(At::Latest, offset, buf)?;
        let Some(open_from) = filled.open_from else { return Ok(buf.len()) };
        let alone = self.mount().alone();
        let (size, is_settled) = match filled.size {
            Some(size) => (size, open_from >= filled.told_from),
            None => (self.size_now(At::Latest)?, false),
        };
        let mut len = len_in(size, offset, buf.len());
        if open_from < len && !is_settled {
            // Holes, or the end was there at the first look. What is not there now is a hole, if the file is not cut meanwhile:
            // the gate keeps out who would do that here, and a transaction sees size and data of one moment.
            if alone.is_some() || self.mount().container.view_epoch().is_some() {
                self.fill(At::Latest, offset + open_from as u64, &mut buf[open_from..len])?;
            } else {
                len = self.fill_from(offset, buf, open_from)?;
            }
        }
        if alone.is_none() && len == 0 {
            // The end of the file, or of its life.
            self.mount()
                .at_home(&self.node, |slot| self.mount().check_names(At::Latest, slot, self.node.oid))?;
        }
        drop((alone, gate));
        Ok(len)
    }

    /// Reads what is there from `from` on, of one moment, and how much of `buf` is in the file then.
    fn fill_from(&self, offset: u64, buf: &mut [u8], from: usize) -> Result<usize> {
        self.mount().transact(|tx| {
            let len = len_in(self.size_now(At::Tx(tx))?, offset, buf.len());
            if from < len {
                self.fill(At::Tx(tx), offset + from as u64, &mut buf[from..len])?;
            }
            Ok(len)
        })
    }

    /// Reads what is there into `buf`, with zeros for the rest.
    fn fill(&self, at: At<'_>, offset: u64, buf: &mut [u8]) -> Result<Filled> {
        let mut filled = Filled::default();
        with_scratch(|scratch| {
            for piece in pieces(self.node.chunk_bytes, offset, buf.len()) {
                let part = &mut buf[piece.at..piece.at + piece.len()];
                let (reach, size) = self.fill_piece(at, &piece, part, scratch)?;
                if reach < piece.len() {
                    filled.open_from.get_or_insert(piece.at + reach);
                }
                (filled.size, filled.told_from) = (size, piece.at);
            }
            Ok::<_, Error>(())
        })?;
        Ok(filled)
    }

    /// How far the data reaches, and the size of the file if the target could tell it with them.
    fn fill_piece(
        &self,
        at: At<'_>,
        piece: &Piece,
        part: &mut [u8],
        scratch: &mut IoBuf,
    ) -> Result<(usize, Option<u64>)> {
        let dkey = piece.dkey.to_le_bytes();
        let found = self.object.read(at, &dkey, AKEY_DATA, 1, piece.recx, scratch)?;
        let start = piece.recx.index;
        let mut end = 0;
        for recx in &found.filled {
            let data = span(recx.index - start, recx.index - start + recx.count);
            part[end..data.start].fill(0);
            part[data.clone()].copy_from_slice(&scratch[data.clone()]);
            end = data.end;
        }
        part[end..].fill(0);
        // Of several targets each knows its own part only.
        let knows_all = self.node.oid.class() == ObjectClass::S1 && !self.mount().is_shared();
        let last = found.filled.last().filter(|_| found.is_end && knows_all).and_then(|recx| recx.end());
        Ok((end, last.and_then(|end| size_to(self.node.chunk_bytes, piece.dkey, end - 1))))
    }

    /// The object of the contents.
    #[must_use]
    pub fn oid(&self) -> Oid {
        self.node.oid
    }

    /// Writes all of `data` at `offset`, or, in a file opened for appending, at the end. Returns where.
    ///
    /// # Errors
    /// `BadHandle` unless it was opened for writing; `FileTooBig`; in a shared mount `Stale` if another mount has
    /// moved or removed the file; `NoSpace` of the store: the chunks before the one that failed are written.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<u64> {
        if self.appends {
            return self.append(data);
        }
        let (_, failed) = self.put_pieces(offset, data)?;
        failed.map_or(Ok(offset), Err)
    }

    /// As [`write_at`](Self::write_at) at `offset`, but where a chunk fails behind others that are written, how many bytes these are: what
    /// `write` of the system tells of a file that does not fit as a whole. Who writes the rest hears why.
    ///
    /// # Errors
    /// As `write_at`, if nothing was written.
    pub fn write_some_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        match self.put_pieces(offset, data)? {
            (0, Some(error)) => Err(error),
            (count, _) => Ok(count),
        }
    }

    /// Writes one chunk after the other; how many bytes were written, and why the next one failed, if one did.
    fn put_pieces(&self, offset: u64, data: &[u8]) -> Result<(usize, Option<Error>)> {
        self.check_write(offset, data.len())?;
        let gate = self.node.gate.read().unwrap_or_else(PoisonError::into_inner);
        let is_blind = self.mount().is_relaxed() && !self.node.is_removed();
        if is_blind && self.node.is_lost() {
            return Err(Error::Stale);
        }
        let (mut count, mut failed) = (0, None);
        for piece in pieces(self.node.chunk_bytes, offset, data.len()) {
            let put = if is_blind {
                self.put_piece(At::Latest, &piece, data)
            } else {
                self.change(|at| self.put_piece(at, &piece, data))
            };
            match put {
                Ok(()) => count = piece.at + piece.len(),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        drop(gate);
        if count > 0 || failed.is_none() {
            self.mount().touch(&self.node);
        }
        Ok((count, failed))
    }

    /// Writes all of `data` at the end of the file, atomically towards other appends, and returns where that was.
    ///
    /// # Errors
    /// As `write_at`; `Contended` if other mounts append all the time.
    pub fn append(&self, data: &[u8]) -> Result<u64> {
        self.check_write(0, data.len())?;
        let gate = self.node.gate.write().unwrap_or_else(PoisonError::into_inner);
        let offset = self.change(|at| {
            let offset = self.size_now(at)?;
            self.check_write(offset, data.len())?;
            let is_split = pieces(self.node.chunk_bytes, offset, data.len()).nth(1).is_some();
            match at {
                // Over a chunk's end it is two writes, of which a crash must not leave one. The gate keeps the end
                // where it is.
                At::Latest if is_split => self.mount().transact(|tx| self.put(At::Tx(tx), offset, data))?,
                at => self.put(at, offset, data)?,
            }
            Ok(offset)
        })?;
        drop(gate);
        self.mount().touch(&self.node);
        Ok(offset)
    }

    pub(crate) fn check_write(&self, offset: u64, len: usize) -> Result<()> {
        if !self.writes {
            return Err(Error::BadHandle);
        }
        match offset.checked_add(len as u64) {
            Some(end) if end <= FILE_BYTES_MAX => Ok(()),
            _ => Err(Error::FileTooBig),
        }
    }

    /// Whether a write needs neither a look at the entry nor a place to be found for it.
    pub(crate) fn is_blind(&self) -> bool {
        self.mount().is_relaxed() && !self.appends && !self.node.is_removed() && !self.node.is_lost()
    }

    /// Runs a change of the content: at once, or, if other mounts may remove the file meanwhile, in a transaction
    /// that sees that they have not. Without it a write would bring back an object that nothing names.
    ///
    /// What a caller changes loses the rights that it gives to who runs it, as the record says them then: another mount may have
    /// set them since the file was opened.
    fn change<T>(&self, mut body: impl FnMut(At<'_>) -> Result<T>) -> Result<T> {
        let mount = self.mount();
        let alone = mount.alone();
        if alone.is_some() {
            self.take_rights()?;
            return body(At::Latest);
        }
        let (done, left) = mount.at_home(&self.node, |slot| {
            mount.transact(|tx| {
                let at = At::Tx(tx);
                let entry = mount.inode(at, slot)?.filter(|inode| inode.oid == self.node.oid);
                let left = self.rights_left(at, slot, &entry.ok_or(Error::Stale)?)?;
                Ok((body(at)?, left))
            })
        })?;
        left.iter().for_each(|left| self.node.note_rights(left));
        Ok(done)
    }

    /// Takes rights from the file whose entry in `slot` says `entry`, if a change takes any; its record then.
    fn rights_left(&self, at: At<'_>, slot: &Slot, entry: &Inode) -> Result<Option<Inode>> {
        if !self.takes_rights() {
            return Ok(None);
        }
        let mount = self.mount();
        let (inode, _, home) = mount.attributes(at, slot, entry)?;
        let permissions = without_rights(inode.permissions);
        if permissions == inode.permissions {
            return Ok(None);
        }
        let now = mount.now();
        let left = Inode { permissions, ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..inode };
        mount.put_inode(at, &home, &left)?;
        Ok(Some(left))
    }

    /// Whether who has it open is a caller whose changes take rights from it.
    fn takes_rights(&self) -> bool {
        self.obj.cred.as_ref().is_some_and(|cred| !cred.is_root())
    }

    /// Takes them, in a mount that is alone and knows them.
    fn take_rights(&self) -> Result<()> {
        if self.takes_rights() { self.strip_rights() } else { Ok(()) }
    }

    /// Takes set-user-id from the file, and set-group-id if it is a program of its group, as its mode was last seen.
    ///
    /// # Errors
    /// As `set_attrs`.
    pub fn strip_rights(&self) -> Result<()> {
        let (_, _, mode) = self.node.rights();
        let left = without_rights(mode);
        if left == mode {
            return Ok(());
        }
        self.obj.unchecked().set_attrs(&SetAttrs { mode: Some(left), ..SetAttrs::KEEP })
    }

    fn put(&self, at: At<'_>, offset: u64, data: &[u8]) -> Result<()> {
        pieces(self.node.chunk_bytes, offset, data.len())
            .try_for_each(|piece| self.put_piece(at, &piece, data))
    }

    fn put_piece(&self, at: At<'_>, piece: &Piece, data: &[u8]) -> Result<()> {
        let part = &data[piece.at..piece.at + piece.len()];
        self.charged().write(at, &piece.dkey.to_le_bytes(), AKEY_DATA, 1, piece.recx, part)?;
        Ok(())
    }

    /// The size: one query, answered by the last record stored.
    ///
    /// # Errors
    /// Those of the store.
    pub fn size(&self) -> Result<u64> {
        self.size_now(At::Latest)
    }

    fn size_now(&self, at: At<'_>) -> Result<u64> {
        now(size_of(Way::Now, &self.object, at, self.node.chunk_bytes))
    }

    /// Cuts the file or lengthens it with a hole, atomically.
    ///
    /// The layout has no size but the last record, so a file that ends in a hole gets one zero byte there, which is told as a
    /// part of the hole.
    ///
    /// # Errors
    /// `BadHandle` unless it was opened for writing; `FileTooBig`; those of the store.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.check_write(size, 0)?;
        let gate = self.node.gate.write().unwrap_or_else(PoisonError::into_inner);
        let array = self.array()?;
        self.change(|at| match size {
            0 => self.mount().punch_object(at, self.node.oid),
            _ => Ok(array.set_size(at, size)?),
        })?;
        drop(gate);
        self.mount().touch(&self.node);
        Ok(())
    }

    fn array(&self) -> Result<Array> {
        let array = Array::open_with(&self.mount().container, self.node.oid, 1, self.node.chunk_bytes)?;
        Ok(match self.node.owner() {
            Some(owner) => array.charged_to(owner),
            None => array,
        })
    }

    /// Makes a hole; the size stays. A hole at the end keeps its last byte, as zero.
    ///
    /// # Errors
    /// As `set_len`; `Invalid(Range)` for a range that is empty or overflows.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.check_write(0, 0)?;
        let end = offset.checked_add(len).filter(|_| len > 0).ok_or(What::Range)?;
        let gate = self.node.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.change(|at| {
            let size = self.size_now(at)?;
            let mut end = end.min(size);
            if end == size && offset < end {
                self.put(at, size - 1, &[0])?;
                end -= 1;
            }
            if offset < end { self.punch_range(at, offset, end) } else { Ok(()) }
        })?;
        drop(gate);
        self.mount().touch(&self.node);
        Ok(())
    }

    fn punch_range(&self, at: At<'_>, offset: u64, end: u64) -> Result<()> {
        let chunk = self.node.chunk_bytes;
        let (first, last) = (offset / chunk, (end - 1) / chunk);
        let known;
        let chunks: &mut dyn Iterator<Item = u64> = if last - first < CHUNKS_BLIND_MAX {
            &mut (first..=last)
        } else {
            known = self.chunks(at)?;
            &mut known.into_iter().filter(|chunk| (first..=last).contains(chunk))
        };
        for number in chunks {
            let start = number * chunk;
            let from = offset.max(start) - start;
            let hole = Recx::new(from, (end.min(start.saturating_add(chunk))) - start - from);
            self.object.punch_records(at, &(number + 1).to_le_bytes(), AKEY_DATA, &[hole])?;
        }
        Ok(())
    }

    fn chunks(&self, at: At<'_>) -> Result<Vec<u64>> {
        now(chunks_of(Way::Now, &self.object, at))
    }

    fn extents(&self, chunk: u64) -> Result<Vec<(u64, u64)>> {
        now(extents_of(Way::Now, &self.object, self.node.chunk_bytes, chunk))
    }

    /// Makes the file as long as this, unless it is longer.
    pub(crate) fn lengthen(&self, size: u64) -> Result<()> {
        let gate = self.node.gate.write().unwrap_or_else(PoisonError::into_inner);
        let array = self.array()?;
        let is_longer = self.change(|at| {
            if self.size_now(at)? >= size {
                return Ok(false);
            }
            array.set_size(at, size)?;
            Ok(true)
        })?;
        drop(gate);
        if is_longer {
            self.mount().touch(&self.node);
        }
        Ok(())
    }

    /// Bytes of data in a range.
    pub(crate) fn data_bytes_in(&self, offset: u64, end: u64) -> Result<u64> {
        let (chunk_bytes, mut sum) = (self.node.chunk_bytes, 0);
        let is_in = |chunk: &u64| (offset / chunk_bytes..=end / chunk_bytes).contains(chunk);
        for chunk in self.chunks(At::Latest)?.into_iter().filter(is_in) {
            let inside = |(start, stop): (u64, u64)| stop.min(end).saturating_sub(start.max(offset));
            sum += self.extents(chunk)?.into_iter().map(inside).sum::<u64>();
        }
        Ok(sum)
    }

    /// The first offset at or after `offset` that holds data, as `SEEK_DATA`.
    ///
    /// # Errors
    /// `NoSuchOffset` if there is none; those of the store.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.seek(offset, true)
    }

    /// The first offset at or after `offset` that is in a hole, as `SEEK_HOLE`; the end of the file is one.
    ///
    /// # Errors
    /// `NoSuchOffset` if `offset` is not below the size; those of the store.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.seek(offset, false)
    }

    fn seek(&self, offset: u64, want_data: bool) -> Result<u64> {
        let gate = self.node.gate.read().unwrap_or_else(PoisonError::into_inner);
        let size = self.size_now(At::Latest)?;
        let first = offset / self.node.chunk_bytes;
        let (mut from, mut next_chunk) = (offset, first);
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        for chunk in self.chunks(At::Latest)?.into_iter().filter(|&chunk| chunk >= first) {
            if !want_data && chunk > next_chunk {
                break;
            }
            let end = (chunk + 1).saturating_mul(self.node.chunk_bytes).min(size);
            from = from.max(chunk.saturating_mul(self.node.chunk_bytes));
            match seek(self.extents(chunk)?.into_iter(), end, from, want_data) {
                Some(found) if want_data || found < end => return Ok(found),
                // The chunk is data to its end: the hole is further on.
                Some(end) => from = end,
                None => {}
            }
            next_chunk = chunk + 1;
        }
        drop(gate);
        if want_data { Err(Error::NoSuchOffset) } else { Ok(from.min(size)) }
    }

    /// Bytes that are data, not holes. Costs by the number of extents.
    ///
    /// # Errors
    /// Those of the store.
    pub fn data_bytes(&self) -> Result<u64> {
        let mut sum = 0;
        for chunk in self.chunks(At::Latest)? {
            sum += self.extents(chunk)?.iter().map(|(start, end)| end - start).sum::<u64>();
        }
        Ok(sum)
    }

    /// Records the time of the last change, and has all that was answered before survive the loss of power, names as well, as
    /// fsync(2). Where the container has that already when it answers, no more is asked.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sync(&self) -> Result<()> {
        // What cannot be recorded keeps nothing else from lasting.
        let recorded = self.record_times();
        self.flush()?;
        recorded
    }

    /// As [`Dfs::flush`](crate::Dfs::flush).
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<()> {
        self.mount().flush()
    }

    /// Records the time of the last change; the data is stored already.
    ///
    /// # Errors
    /// Those of the store.
    pub fn record_times(&self) -> Result<()> {
        self.mount().record_times(&self.node)
    }

    /// Gives the handle back. Dropping it does the same, but nobody hears of an error then.
    ///
    /// # Errors
    /// Those of the store, from recording the time of the last change.
    pub fn close(self) -> Result<()> {
        if self.node.is_removed() { Ok(()) } else { self.record_times() }
    }
}

/// What a read has filled of its buffer.
#[derive(Default)]
struct Filled {
    /// Where the first zeros are that no data follows in their piece: they may be behind the end of the file, also if
    /// there is data in the next piece, which is read later.
    open_from: Option<usize>,
    /// The size of the file, if the target told it with the last piece.
    size: Option<u64>,
    /// Where that piece begins: zeros from there on are as old as the size.
    told_from: usize,
}

/// How much of `len` bytes from `offset` on is in a file of this size.
fn len_in(size: u64, offset: u64, len: usize) -> usize {
    usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(len)
}

/// Permission bits without set-user-id, and without set-group-id if it is a program of its group.
pub(crate) fn without_rights(mode: u32) -> u32 {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID: u32 = 0o2000;
    const GROUP_EXECUTES: u32 = 0o010;
    let of_group = if mode & GROUP_EXECUTES != 0 { SET_GROUP_ID } else { 0 };
    mode & !(SET_USER_ID | of_group)
}

fn span(start: u64, end: u64) -> core::ops::Range<usize> {
    let at = |offset| usize::try_from(offset).expect("inside a piece of at most 1 MiB");
    at(start)..at(end)
}

/// Numbers of the chunks that hold data, ascending.
pub(crate) async fn chunks_of(way: Way, object: &Object, at: At<'_>) -> Result<Vec<u64>> {
    let (mut chunks, mut anchor) = (Vec::new(), Anchor::default());
    while !anchor.is_eof() {
        let keys = object.list_dkeys_by(way, at, &mut anchor, Page::default()).await?;
        let numbers = keys.iter().filter_map(|key| key.try_into().ok().map(u64::from_le_bytes));
        chunks.extend(numbers.filter_map(|dkey| dkey.checked_sub(1)));
    }
    chunks.sort_unstable();
    Ok(chunks)
}

/// Data of one chunk, as ascending ranges of offsets in the file. A zero byte by itself in a hole is none: it stands for where
/// the file ends, or has ended.
pub(crate) async fn extents_of(
    way: Way,
    object: &Object,
    chunk_bytes: u64,
    chunk: u64,
) -> Result<Vec<(u64, u64)>> {
    let start = chunk.checked_mul(chunk_bytes).ok_or(What::Range)?;
    let dkey = (chunk + 1).to_le_bytes();
    let (mut found, mut anchor) = (Vec::new(), Anchor::default());
    while !anchor.is_eof() {
        let listed = object.list_extents_by(way, At::Latest, &dkey, AKEY_DATA, &mut anchor, EXTENTS_AT_ONCE);
        found.extend(listed.await?.iter().map(|extent| extent.recx));
    }
    let zeros = lone_zeros(way, object, &dkey, &found).await?;
    let is_data = |recx: &&Recx| !zeros.contains(&recx.index);
    let range = |recx: &Recx| {
        let at = start.saturating_add(recx.index);
        (at, at.saturating_add(recx.count))
    };
    Ok(found.iter().filter(is_data).map(range).collect())
}

/// Where zero bytes are by themselves among the ascending extents of a chunk.
async fn lone_zeros(way: Way, object: &Object, dkey: &[u8], extents: &[Recx]) -> Result<Vec<u64>> {
    let ends_at = |n: usize| extents.get(n).map(|recx| recx.index.saturating_add(recx.count));
    let is_alone = |n: usize| {
        let touches_last = n > 0 && ends_at(n - 1) == Some(extents[n].index);
        let touches_next = extents.get(n + 1).is_some_and(|next| ends_at(n) == Some(next.index));
        extents[n].count == 1 && !touches_last && !touches_next
    };
    let lone: Vec<Recx> = (0..extents.len()).filter(|&n| is_alone(n)).map(|n| extents[n]).collect();
    if lone.len() > LONE_BYTES_MAX {
        return Ok(Vec::new());
    }
    let mut zeros = Vec::new();
    for recx in lone {
        let want = Want::Array { record_bytes: 1, extents: smallvec![recx] };
        let iods = [FetchIod { akey: Key::from_slice(AKEY_DATA), want }];
        let mut byte = IoBuf::zeroed(1);
        let found = object.fetch_by(way, At::Latest, dkey, Cond::NONE, &iods, &mut byte).await?;
        let is_there = found.iter().any(|found| !found.filled.is_empty());
        zeros.extend((is_there && byte.first() == Some(&0)).then_some(recx.index));
    }
    Ok(zeros)
}

async fn size_of(way: Way, object: &Object, at: At<'_>, chunk_bytes: u64) -> Result<u64> {
    let last = object.query_by(way, at, LAST_RECORD, &[], AKEY_DATA).await?;
    size_of_record(object.oid(), chunk_bytes, last.as_ref())
}

/// The size of a file by its last record.
pub(crate) fn size_of_record(oid: Oid, chunk_bytes: u64, last: Option<&Found>) -> Result<u64> {
    let Some(found) = last else { return Ok(0) };
    let dkey = found.dkey[..].try_into().map(u64::from_le_bytes).ok();
    let last = found.recx.and_then(|recx| recx.end()).and_then(|end| end.checked_sub(1));
    match (dkey, last) {
        (Some(dkey), Some(last)) => size_to(chunk_bytes, dkey, last).ok_or(Error::FileTooBig),
        _ => Err(Error::BadRecord { dir: oid, name: found.dkey.as_slice().into() }),
    }
}

impl Mount {
    /// The size of a file.
    pub(crate) fn size(&self, at: At<'_>, oid: Oid, chunk_bytes: u64) -> Result<u64> {
        now(self.size_by(Way::Now, at, oid, chunk_bytes))
    }

    /// As [`Mount::size`], on a way of the caller's.
    pub(crate) async fn size_by(&self, way: Way, at: At<'_>, oid: Oid, chunk_bytes: u64) -> Result<u64> {
        size_of(way, &self.object(oid)?, at, chunk_bytes).await
    }
}
