//! Room in a file: what it takes up, and ranges that are reserved, freed or zeroed, as fallocate(2).

use crate::error::{Error, Result, What};
use crate::file::{File, chunks_of, extents_of};
use crate::layout::FILE_BYTES_MAX;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::leased::without_leases;
use crate::mount::Mount;
use crate::node::{Node, State};
use dolmen_client::{At, Object, Way, side_by_side};
use dolmen_types::{Error as StoreError, Oid, TargetNo};

/// What to do with a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// There is room for all of it: holes stay holes, since a pool gives room when it is written to, but it is refused if
    /// the pool has not as much left.
    Reserve,
    /// It becomes a hole; the size stays.
    PunchHole,
    /// It reads as zeros, and takes no room.
    ZeroRange,
}

//= linux:include/uapi/linux/falloc.h FALLOC_FL_*
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

impl Allocate {
    /// What the mode of fallocate(2) says, and whether the size stays.
    ///
    /// # Errors
    /// `NotSupported` for what moves data about or makes copies (collapse, insert, unshare), and for what Linux refuses.
    pub fn of_linux(mode: u32) -> Result<(Self, bool)> {
        match mode {
            0 => Ok((Self::Reserve, false)),
            KEEP_SIZE => Ok((Self::Reserve, true)),
            ZERO_RANGE => Ok((Self::ZeroRange, false)),
            _ if mode == PUNCH_HOLE | KEEP_SIZE => Ok((Self::PunchHole, true)),
            _ if mode == ZERO_RANGE | KEEP_SIZE => Ok((Self::ZeroRange, true)),
            _ => Err(Error::NotSupported),
        }
    }
}

/// `st_blocks` of stat(2).
const BLOCK_BYTES: u64 = 512;

impl File {
    /// Reserves, frees or zeroes `len` bytes from `offset`. Unless `keep_size`, a range that is reserved or zeroed beyond the
    /// end makes the file longer.
    ///
    /// # Errors
    /// `BadHandle` unless it was opened for writing; `Invalid(Range)` for an empty range; `FileTooBig`; `NoSpace` of the
    /// store if it has not as much room as holes of a reserved range would take; as `set_len`.
    pub fn allocate(&self, what: Allocate, keep_size: bool, offset: u64, len: u64) -> Result<()> {
        self.check_write(0, 0)?;
        if len == 0 {
            return Err(What::Range.into());
        }
        let end = offset.checked_add(len).filter(|&end| end <= FILE_BYTES_MAX).ok_or(Error::FileTooBig)?;
        match what {
            Allocate::Reserve => self.check_room(offset, end)?,
            Allocate::PunchHole | Allocate::ZeroRange => self.punch_hole(offset, len)?,
        }
        if keep_size || what == Allocate::PunchHole {
            return Ok(());
        }
        self.lengthen(end)
    }

    /// Refuses a range whose holes would take more room than there is.
    fn check_room(&self, offset: u64, end: u64) -> Result<()> {
        let free_bytes: u64 =
            self.node.mount.container.query_pool()?.space.iter().map(|target| target.free_bytes).sum();
        if end - offset <= free_bytes {
            return Ok(());
        }
        let needed_bytes = end - offset - self.data_bytes_in(offset, end)?;
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        // Which target is full nobody can tell before it is written to.
        Err(StoreError::NoSpace { target: TargetNo(0), needed_bytes }.into())
    }
}

impl Mount {
    /// Units of 512 bytes that a file takes up, looked at anew if anything shows that it has changed since the last look.
    pub(crate) async fn blocks_of_by(
        &self,
        way: Way,
        node: Option<&Node>,
        inode: &Inode,
        (size_bytes, mtime): (u64, Time),
    ) -> Result<u64> {
        if !self.exact_blocks || inode.kind != FileKind::File || size_bytes == 0 {
            return Ok(size_bytes.div_ceil(BLOCK_BYTES));
        }
        let state = State { size_bytes, mtime, changes: node.map_or(0, Node::changes) };
        if let Some(blocks) = node.and_then(|node| node.blocks_at(state)) {
            return Ok(blocks);
        }
        // The size was asked for before, of the object as a whole: nothing here changes without that. Few files are asked for this,
        // and none is to make room for it that is not.
        let stored = Box::pin(self.stored_bytes_by(way, inode.oid, inode.chunk_bytes, size_bytes));
        let stored = without_leases(stored).await?;
        let blocks = stored.div_ceil(BLOCK_BYTES);
        if let Some(node) = node {
            node.keep_blocks(state, blocks);
        }
        Ok(blocks)
    }

    /// Bytes of data in a file of this size. What lies in one chunk is one question; of more it is asked which there are, and for
    /// each what it has.
    async fn stored_bytes_by(&self, way: Way, oid: Oid, chunk_bytes: u64, size_bytes: u64) -> Result<u64> {
        let object = self.object(oid)?;
        if size_bytes <= chunk_bytes {
            return data_of(way, &object, chunk_bytes, 0).await;
        }
        match way {
            Way::Now => self.container.together(data_of_all(&object, chunk_bytes)),
            Way::Later => data_of_all(&object, chunk_bytes).await,
        }
    }
}

/// Chunks of a file that are asked about at once: some 10 MiB of answers, where each is full of holes.
const CHUNKS_AT_ONCE: usize = 256;

/// A file of more chunks is not asked for holes inside of them: that would take a fifth of a second each time after a change.
const CHUNKS_EXACT_MAX: usize = 4096;

/// Bytes of data in a file of several chunks.
async fn data_of_all(object: &Object, chunk_bytes: u64) -> Result<u64> {
    let (chunks, mut sum) = (chunks_of(Way::Later, object, At::Latest).await?, 0);
    if let Some((&last, whole)) = chunks.split_last().filter(|(_, whole)| whole.len() >= CHUNKS_EXACT_MAX) {
        return Ok(whole.len() as u64 * chunk_bytes + data_of(Way::Later, object, chunk_bytes, last).await?);
    }
    for some in chunks.chunks(CHUNKS_AT_ONCE) {
        let each = some.iter().map(|&chunk| data_of(Way::Later, object, chunk_bytes, chunk));
        for data in side_by_side(each).await {
            sum += data?;
        }
    }
    Ok(sum)
}

/// Bytes of data in one chunk.
async fn data_of(way: Way, object: &Object, chunk_bytes: u64, chunk: u64) -> Result<u64> {
    let extents = extents_of(way, object, chunk_bytes, chunk).await?;
    Ok(extents.iter().map(|(start, end)| end - start).sum())
}
