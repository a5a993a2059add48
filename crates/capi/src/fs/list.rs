//! Listing directories.

use super::EINVAL;
use super::mount::Mounted;
use super::obj::{Obj, both, name};
use super::stat::{self, CStat};
use super::table::{self, Ptr};
use crate::error::{Errno, PosixResult, errno};
use crate::raw::{Out, Text};
use crate::types::CAnchor;
use core::ffi::{c_char, c_int, c_void};
use dolmen_dfs::{Cookie, Dir, Entry, FileKind, Names};

/// An entry as C has it.
pub(super) type CDirent = libc::dirent;

/// Entries in one answer: a page of names is 64 KiB or less.
const ENTRIES_MAX: u32 = 1024;

/// The next names of a directory, or of the part of it that the anchor is for; at least one unless that is at its end.
pub(super) fn next_names(dir: &Dir, anchor: &mut CAnchor, count_max: u32) -> PosixResult<Names> {
    let mut cookie = Cookie::from(anchor.anchor()?);
    let names = match u16::try_from(anchor.end_shard).map_err(|_wide| EINVAL)? {
        0 => dir.list(&mut cookie, count_max)?,
        end => dir.list_until(end, &mut cookie, count_max)?,
    };
    *anchor = anchor.moved_to(&cookie.into());
    Ok(names)
}

/// Whether a listing is at its end.
fn is_end(anchor: &CAnchor) -> PosixResult<bool> {
    Ok(anchor.anchor()?.is_eof())
}

/// A directory entry with a name and nothing else.
pub(super) fn dirent(name: &[u8], kind: Option<FileKind>) -> CDirent {
    // SAFETY: the struct has numbers only, for which zero is a value.
    let mut entry: CDirent = unsafe { core::mem::zeroed() };
    entry.d_type = match kind {
        None => libc::DT_UNKNOWN,
        Some(FileKind::File) => libc::DT_REG,
        Some(FileKind::Directory) => libc::DT_DIR,
        Some(FileKind::Symlink) => libc::DT_LNK,
        Some(FileKind::Pipe) => libc::DT_FIFO,
        Some(FileKind::Socket) => libc::DT_SOCK,
        Some(FileKind::CharDevice) => libc::DT_CHR,
        Some(FileKind::BlockDevice) => libc::DT_BLK,
    };
    entry.d_reclen = u16::try_from(size_of::<CDirent>()).unwrap_or(u16::MAX);
    let room = entry.d_name.len() - 1;
    for (to, byte) in entry.d_name.iter_mut().take(room).zip(name) {
        *to = byte.cast_signed();
    }
    entry
}

fn directory(dfs: Ptr<Mounted>, obj: Ptr<Obj>) -> PosixResult<Dir> {
    let (_, obj) = both(dfs, obj)?;
    Ok(obj.dir()?.clone())
}

/// The next names of a directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_readdir(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    anchor: Out<CAnchor>,
    nr: Out<u32>,
    dirs: Out<CDirent>,
) -> c_int {
    errno(|| {
        let dir = directory(dfs, obj)?;
        let (mut position, wanted) = (anchor.get()?, nr.get()?);
        let mut done = 0;
        while done < wanted && !is_end(&position)? {
            let names = next_names(&dir, &mut position, (wanted - done).min(ENTRIES_MAX))?;
            for name in names.iter() {
                dirs.check()?.at(done as usize).set(dirent(name, None))?;
                done += 1;
            }
        }
        nr.set(done)?;
        Ok(anchor.set(position)?)
    })
}

/// The next names of a directory with their attributes.
#[unsafe(no_mangle)]
extern "C" fn dfs_readdirplus(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    anchor: Out<CAnchor>,
    nr: Out<u32>,
    dirs: Out<CDirent>,
    stbufs: Out<CStat>,
) -> c_int {
    errno(|| {
        let dir = directory(dfs, obj)?;
        let (mut position, wanted) = (anchor.get()?, nr.get()?);
        stbufs.check()?;
        let mut done = 0;
        while done < wanted && !is_end(&position)? {
            let names = next_names(&dir, &mut position, (wanted - done).min(ENTRIES_MAX))?;
            for Entry { name, stat } in dir.describe_names(&names)? {
                let stat = stat?;
                dirs.check()?.at(done as usize).set(dirent(&name, Some(stat.kind)))?;
                stbufs.at(done as usize).set(stat::filled(&stat))?;
                done += 1;
            }
        }
        nr.set(done)?;
        Ok(anchor.set(position)?)
    })
}

/// Called for each name; what is not 0 ends the listing with that number.
type Filler = extern "C" fn(Ptr<Mounted>, Ptr<Obj>, *const c_char, *mut c_void) -> c_int;

/// Calls a function for each of the next names.
#[unsafe(no_mangle)]
extern "C" fn dfs_iterate(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    anchor: Out<CAnchor>,
    nr: Out<u32>,
    size: usize,
    op: Option<Filler>,
    arg: *mut c_void,
) -> c_int {
    errno(|| {
        let dir = directory(dfs, obj)?;
        let op = op.ok_or(EINVAL)?;
        let (mut position, wanted) = (anchor.get()?, nr.get()?);
        if size == 0 {
            return Err(EINVAL);
        }
        let mut done = 0;
        while done < wanted && !is_end(&position)? {
            let names = next_names(&dir, &mut position, (wanted - done).min(ENTRIES_MAX))?;
            for name in names.iter() {
                let mut text = name.to_vec();
                text.push(0);
                let code = op(dfs, obj, text.as_ptr().cast(), arg);
                done += 1;
                if code != 0 {
                    nr.set(done)?;
                    anchor.set(anchor.get()?.moved_to(&dir.cookie_after(name)?.into()))?;
                    return Err(Errno(code));
                }
            }
        }
        nr.set(done)?;
        Ok(anchor.set(position)?)
    })
}

/// Sets an anchor to an entry: the listing goes on with it.
#[unsafe(no_mangle)]
extern "C" fn dfs_dir_anchor_set(obj: Ptr<Obj>, entry: Text, anchor: Out<CAnchor>) -> c_int {
    errno(|| {
        let obj = table::find(obj)?;
        let cookie = obj.dir()?.cookie_at(name(entry)?)?;
        Ok(anchor.set(CAnchor::part(0, 0).moved_to(&cookie.into()))?)
    })
}

/// Splits a listing into at most so many parts (0: as many as there can be), and sets an anchor to the start of each.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_anchor_split(obj: Ptr<Obj>, nr: Out<u32>, anchors: Out<CAnchor>) -> c_int {
    errno(|| {
        let obj = table::find(obj)?;
        let shards = obj.dir()?.part_count()?;
        let wanted = u16::try_from(nr.get()?).unwrap_or(u16::MAX);
        let parts = if wanted == 0 { shards } else { wanted.min(shards) };
        if !anchors.is_null() {
            for part in 0..parts {
                anchors.at(part.into()).set(part_anchor(part, parts, shards))?;
            }
        }
        Ok(nr.set(parts.into())?)
    })
}

/// Sets an anchor to the start of one of the parts that there can be at most.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_anchor_set(obj: Ptr<Obj>, index: u32, anchor: Out<CAnchor>) -> c_int {
    errno(|| {
        let obj = table::find(obj)?;
        let shards = obj.dir()?.part_count()?;
        let part = u16::try_from(index).ok().filter(|&part| part < shards).ok_or(EINVAL)?;
        Ok(anchor.set(part_anchor(part, shards, shards))?)
    })
}

/// The start of one of `parts` parts of so many shards.
fn part_anchor(part: u16, parts: u16, shards: u16) -> CAnchor {
    let bound = |part: u16| u32::from(part) * u32::from(shards) / u32::from(parts);
    let at = |part: u16| u16::try_from(bound(part)).unwrap_or(u16::MAX);
    CAnchor::part(at(part), if part + 1 == parts { 0 } else { at(part + 1) })
}
