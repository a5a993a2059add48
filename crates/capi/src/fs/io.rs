//! Reading, writing, holes, sizes.

use super::mount::Mounted;
use super::obj::{Obj, both};
use super::parts::{self, FileRange};
use super::table::{self, Ptr};
use super::{EINVAL, EPERM};
use crate::error::{Errno, PosixResult, errno};
use crate::event::{Ev, at_once_posix};
use crate::handle;
use crate::place::PoolHandle;
use crate::raw::{In, Out};
use crate::types::{Iov, ObjId, SgList};
use core::ffi::c_int;
use dolmen_dfs::File;
use std::sync::Arc;

/// To the end of the file, whatever that is.
//= daos:src/include/daos_fs.h DFS_MAX_FSIZE
const TO_THE_END: u64 = u64::MAX;

/// Several buffers are gathered in pieces of so much: a chunk of most files.
const GATHER_BYTES: usize = 1 << 20;

/// Ranges of a file.
//= daos:src/include/daos_array.h daos_range_t
#[derive(Clone, Copy)]
#[repr(C)]
struct CRange {
    index: u64,
    len: u64,
}

/// Several ranges of a file.
//= daos:src/include/daos_fs.h dfs_iod_t
#[derive(Clone, Copy)]
#[repr(C)]
struct CIod {
    nr: u64,
    ranges: In<CRange>,
}

const _: () = assert!(size_of::<CIod>() == 16);

/// As many ranges as a list may have.
//= daos:src/include/daos_array.h DAOS_ARRAY_LIST_IO_LIMIT
const RANGES_MAX: u64 = 16384;

/// Buffers that one list may have.
const BUFFERS_MAX: u32 = 1 << 16;
/// A longer read asks for the size of the file first, so that it does not look for what is behind it piece by piece.
pub(super) const READ_BLIND_MAX: usize = 64 << 20;

/// The buffers of a list, with the part of each that counts.
fn buffers<'a>(sgl: Out<SgList>) -> PosixResult<(&'a [Iov], usize)> {
    let sgl = sgl.get()?;
    if sgl.nr > BUFFERS_MAX {
        return Err(EINVAL);
    }
    let iovs = sgl.iovs.list(sgl.nr as usize)?;
    let mut sum = 0usize;
    for iov in iovs {
        if iov.buf.is_null() && iov.len > 0 {
            return Err(EINVAL);
        }
        sum = sum.checked_add(iov.len).ok_or(EINVAL)?;
    }
    Ok((iovs, sum))
}

/// Where the next byte of a list of buffers is.
struct Cursor<'a> {
    iovs: &'a [Iov],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(iovs: &'a [Iov]) -> Self {
        Self { iovs, at: 0 }
    }

    /// The next place, of at most `max` bytes that lie together; `None` at the end.
    fn next(&mut self, max: usize) -> Option<(Out<u8>, usize)> {
        loop {
            let (iov, rest) = self.iovs.split_first().filter(|_| max > 0)?;
            let len = (iov.len - self.at).min(max);
            if len > 0 {
                let place = iov.buf.at(self.at);
                self.at += len;
                return Some((place, len));
            }
            (self.iovs, self.at) = (rest, 0);
        }
    }

    /// Copies bytes to the next places.
    fn fill(&mut self, mut bytes: &[u8]) -> PosixResult<()> {
        while let Some((place, room)) = self.next(bytes.len()) {
            let (part, rest) = bytes.split_at(room);
            place.copy_from(part)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Whether the next `len` bytes lie together.
    fn is_whole(&mut self, len: usize) -> bool {
        while let Some((iov, rest)) = self.iovs.split_first() {
            if iov.len > self.at {
                return iov.len - self.at >= len;
            }
            (self.iovs, self.at) = (rest, 0);
        }
        false
    }
}

/// How much of a read can be there: of a long one the size of the file tells.
pub(super) fn bounded(file: &File, offset: u64, wanted: usize) -> PosixResult<usize> {
    if wanted <= READ_BLIND_MAX {
        return Ok(wanted);
    }
    let there = file.size()?.saturating_sub(offset);
    Ok(usize::try_from(there).map_or(wanted, |there| there.min(wanted)))
}

/// Reads a range of a file into the next places, which are as many bytes: how much there was.
fn read_range(file: &File, cursor: &mut Cursor<'_>, offset: u64, wanted: usize) -> PosixResult<usize> {
    let len = bounded(file, offset, wanted)?;
    let (mut done, mut taken) = (0, 0);
    if cursor.is_whole(len) {
        if let Some((place, room)) = cursor.next(len) {
            done = file.read_at(offset, place.list_mut(room)?)?;
            taken = room;
        }
    } else {
        let mut gathered = Vec::new();
        while done < len {
            gathered.resize(GATHER_BYTES.min(len - done), 0);
            let found = file.read_at(offset + done as u64, &mut gathered)?;
            cursor.fill(&gathered[..found])?;
            done += found;
            if found < gathered.len() {
                break;
            }
        }
        taken = done;
    }
    // What is behind the end of the file leaves its places as they are.
    let mut left = wanted - taken;
    while let Some((_, room)) = cursor.next(left) {
        left -= room;
    }
    Ok(done)
}

/// Writes the next bytes to a range of a file.
fn write_range(file: &File, cursor: &mut Cursor<'_>, offset: u64, len: usize) -> PosixResult<()> {
    if cursor.is_whole(len) {
        let Some((place, len)) = cursor.next(len) else { return Ok(()) };
        file.write_at(offset, place.list(len)?)?;
        return Ok(());
    }
    let (mut done, mut gathered) = (0, Vec::new());
    while done < len {
        gathered.clear();
        while gathered.len() < GATHER_BYTES.min(len - done) {
            let Some((place, len)) = cursor.next(GATHER_BYTES.min(len - done) - gathered.len()) else {
                break;
            };
            gathered.extend_from_slice(place.list(len)?);
        }
        if gathered.is_empty() {
            return Ok(());
        }
        file.write_at(offset + done as u64, &gathered)?;
        done += gathered.len();
    }
    Ok(())
}

/// The file of a call that reads.
fn readable(dfs: Ptr<Mounted>, obj: Ptr<Obj>) -> PosixResult<File> {
    let (_, obj) = both(dfs, obj)?;
    if obj.flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(EPERM);
    }
    Ok(obj.file()?.clone())
}

/// The file of a call that changes it.
fn writable(dfs: Ptr<Mounted>, obj: Ptr<Obj>) -> PosixResult<File> {
    let (_, obj) = both(dfs, obj)?;
    let file = obj.file()?.clone();
    obj.check_writable()?;
    Ok(file)
}

/// The connection of a mount.
pub(super) fn pool_of(dfs: Ptr<Mounted>) -> PosixResult<Arc<PoolHandle>> {
    Ok(Arc::clone(&handle::cont(table::find(dfs)?.cont)?.pool))
}

/// Launches what can be launched, and carries out in the call what has no event, or reads and writes nothing.
pub(super) fn launched<F>(
    ev: Ev,
    launch: impl FnOnce() -> PosixResult<bool>,
    read: impl FnOnce() -> PosixResult<F>,
) -> c_int
where
    F: FnOnce() -> PosixResult<()>,
{
    let mut is_launched = Ok(false);
    if !ev.is_null() {
        let code = errno(|| {
            is_launched = launch();
            Ok(())
        });
        if code != 0 {
            return code;
        }
    }
    match is_launched {
        Ok(true) => 0,
        Ok(false) => at_once_posix(ev, read),
        Err(error) => error.0,
    }
}

/// Reads from an offset on; less than the buffers hold only at the end of the file.
#[unsafe(no_mangle)]
extern "C" fn dfs_read(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    sgl: Out<SgList>,
    offset: u64,
    read_size: Out<u64>,
    ev: Ev,
) -> c_int {
    let asked = || -> PosixResult<_> {
        let file = readable(dfs, obj)?;
        let (iovs, sum) = buffers(sgl)?;
        let read_size = read_size.check()?;
        offset.checked_add(sum as u64).ok_or(EINVAL)?;
        Ok((file, iovs, sum, read_size))
    };
    let launch = || {
        let (file, iovs, sum, read_size) = asked()?;
        parts::launch_read(&pool_of(dfs)?, ev, &file, &[(offset, sum)], iovs, read_size)
    };
    launched(ev, launch, || {
        let (file, iovs, sum, read_size) = asked()?;
        let iovs = iovs.to_vec();
        Ok(move || Ok(read_size.set(read_range(&file, &mut Cursor::new(&iovs), offset, sum)? as u64)?))
    })
}

/// Writes from an offset on.
#[unsafe(no_mangle)]
extern "C" fn dfs_write(dfs: Ptr<Mounted>, obj: Ptr<Obj>, sgl: Out<SgList>, offset: u64, ev: Ev) -> c_int {
    let asked = || -> PosixResult<_> {
        let file = writable(dfs, obj)?;
        let (iovs, sum) = buffers(sgl)?;
        offset.checked_add(sum as u64).ok_or(Errno(libc::EFBIG))?;
        Ok((file, iovs, sum))
    };
    let launch = || {
        let (file, iovs, sum) = asked()?;
        parts::launch_write(&pool_of(dfs)?, ev, &file, &[(offset, sum)], iovs)
    };
    launched(ev, launch, || {
        let (file, iovs, sum) = asked()?;
        let iovs = iovs.to_vec();
        Ok(move || write_range(&file, &mut Cursor::new(&iovs), offset, sum))
    })
}

/// The ranges of a list as offsets and lengths, and the buffers, which they have to fill. Where there are no ranges nobody looks
/// at the buffers.
fn ranges<'a>(iod: Out<CIod>, sgl: Out<SgList>) -> PosixResult<(Vec<FileRange>, &'a [Iov])> {
    let iod = iod.get()?;
    if iod.nr == 0 {
        return Ok((Vec::new(), &[]));
    }
    if iod.nr > RANGES_MAX {
        return Err(EINVAL);
    }
    let (iovs, sum) = buffers(sgl)?;
    let (mut ranges, mut total) = (Vec::new(), 0u64);
    for range in iod.ranges.list(super::size(iod.nr)?)? {
        range.index.checked_add(range.len).ok_or(EINVAL)?;
        total = total.checked_add(range.len).ok_or(EINVAL)?;
        ranges.push((range.index, super::size(range.len)?));
    }
    if total == sum as u64 { Ok((ranges, iovs)) } else { Err(EINVAL) }
}

/// Reads ranges, one after the other, into the buffers.
#[unsafe(no_mangle)]
extern "C" fn dfs_readx(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    iod: Out<CIod>,
    sgl: Out<SgList>,
    read_size: Out<u64>,
    ev: Ev,
) -> c_int {
    let asked = || -> PosixResult<_> {
        let file = readable(dfs, obj)?;
        let (ranges, iovs) = ranges(iod, sgl)?;
        Ok((file, iovs, ranges, read_size.check()?))
    };
    let launch = || {
        let (file, iovs, ranges, read_size) = asked()?;
        parts::launch_read(&pool_of(dfs)?, ev, &file, &ranges, iovs, read_size)
    };
    launched(ev, launch, || {
        let (file, iovs, ranges, read_size) = asked()?;
        let iovs = iovs.to_vec();
        Ok(move || {
            let (mut cursor, mut done) = (Cursor::new(&iovs), 0);
            for (offset, len) in ranges {
                done += read_range(&file, &mut cursor, offset, len)? as u64;
            }
            Ok(read_size.set(done)?)
        })
    })
}

/// Writes the buffers, one after the other, to ranges.
#[unsafe(no_mangle)]
extern "C" fn dfs_writex(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    iod: Out<CIod>,
    sgl: Out<SgList>,
    ev: Ev,
) -> c_int {
    let asked = || -> PosixResult<_> {
        let file = writable(dfs, obj)?;
        let (ranges, iovs) = ranges(iod, sgl)?;
        Ok((file, iovs, ranges))
    };
    let launch = || {
        let (file, iovs, ranges) = asked()?;
        parts::launch_write(&pool_of(dfs)?, ev, &file, &ranges, iovs)
    };
    launched(ev, launch, || {
        let (file, iovs, ranges) = asked()?;
        let iovs = iovs.to_vec();
        Ok(move || {
            let mut cursor = Cursor::new(&iovs);
            for (offset, len) in ranges {
                write_range(&file, &mut cursor, offset, len)?;
            }
            Ok(())
        })
    })
}

/// The size of a file.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_size(dfs: Ptr<Mounted>, obj: Ptr<Obj>, bytes: Out<u64>) -> c_int {
    errno(|| {
        let (_, obj) = both(dfs, obj)?;
        Ok(bytes.set(obj.file()?.size()?)?)
    })
}

/// The size of the file whose data an object is.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_size_by_oid(dfs: Ptr<Mounted>, oid: ObjId, chunk_size: u64, bytes: Out<u64>) -> c_int {
    errno(|| Ok(bytes.set(table::find(dfs)?.fs.size_of(oid.oid(), chunk_size)?)?))
}

/// Makes a hole; one that reaches to the end of the file cuts it, and one to the end of all files sets the size.
#[unsafe(no_mangle)]
extern "C" fn dfs_punch(dfs: Ptr<Mounted>, obj: Ptr<Obj>, offset: u64, len: u64) -> c_int {
    errno(|| punch(&writable(dfs, obj)?, offset, len))
}

pub(super) fn punch(file: &File, offset: u64, len: u64) -> PosixResult<()> {
    if len == TO_THE_END {
        return Ok(file.set_len(offset)?);
    }
    let size = file.size()?;
    let end = offset.saturating_add(len);
    if offset >= size || len == 0 {
        return Ok(());
    }
    if end >= size { Ok(file.set_len(offset)?) } else { Ok(file.punch_hole(offset, len)?) }
}
