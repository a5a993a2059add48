//! Open files, directories and symbolic links: looking up, opening, releasing, taking to other processes.

use super::blob::{Reader, Writer};
use super::mount::Mounted;
use super::stat::{self, CStat};
use super::table::{self, Ptr};
use super::{EINVAL, ENOTDIR, EPERM};
use crate::error::{Der, Errno, PosixResult, errno};
use crate::handle;
use crate::raw::{Out, Text};
use crate::types::{Handle, Iov, ObjId};
use core::ffi::{c_char, c_int};
use dolmen_client::{Array, ObjectClass, Oid};
use dolmen_dfs::{Dir, Error, File, FileKind, Follow, KnownFile, Located, OpenOptions, Opened, SetAttrs};
use std::sync::{Arc, PoisonError, RwLock};

/// The bits of a mode that say the kind.
pub(super) const KIND: u32 = libc::S_IFMT;
/// The bits of a mode that an entry keeps.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Something open.
pub(crate) struct Obj {
    pub(super) mounted: Arc<Mounted>,
    pub(super) opened: Opened,
    pub(super) oid: Oid,
    pub(super) flags: c_int,
    // Guards: where its entry is; taken alone, for a copy.
    entry: RwLock<EntryOf>,
}

/// Where an entry is: nowhere for the root.
#[derive(Clone)]
pub(super) struct EntryOf {
    pub(super) parent: Option<Dir>,
    pub(super) name: Vec<u8>,
}

impl Obj {
    fn of(mounted: Arc<Mounted>, located: Located, flags: c_int) -> Self {
        let entry = EntryOf { parent: located.parent().cloned(), name: located.name().to_vec() };
        Self { mounted, oid: located.oid(), opened: located.opened, flags, entry: RwLock::new(entry) }
    }

    /// The same thing in a mount that was made anew in a process that was forked off. What another thread was about to move
    /// stays the parent's.
    pub(super) fn remade(&self, mounted: &Arc<Mounted>) -> Option<Self> {
        let entry = self.entry.try_read().ok()?.clone();
        let path = match &self.opened {
            Opened::File(file) => {
                let made = reopen(Arc::clone(mounted), &file.known_if_free().ok()?, self.flags).ok()?;
                let above = entry.parent.and_then(|dir| dir.path_if_free().ok());
                let parent = above.and_then(|path| mounted.fs.open_dir(path).ok());
                return Some(Self { entry: RwLock::new(EntryOf { parent, name: entry.name }), ..made });
            }
            Opened::Dir(dir) => dir.path_if_free().ok()?,
            Opened::Symlink(_) => [&entry.parent?.path_if_free().ok()?[..], b"/", &entry.name].concat(),
        };
        let (found, _) = look_up(mounted, &mounted.fs, &path, self.flags | libc::O_NOFOLLOW).ok()?;
        (found.oid == self.oid).then_some(found)
    }

    /// Where its entry is.
    pub(super) fn entry(&self) -> EntryOf {
        self.entry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file.
    ///
    /// # Errors
    /// `EINVAL` if it is something else.
    pub(super) fn file(&self) -> PosixResult<&File> {
        match &self.opened {
            Opened::File(file) => Ok(file),
            Opened::Dir(_) | Opened::Symlink(_) => Err(EINVAL),
        }
    }

    /// The directory.
    ///
    /// # Errors
    /// `ENOTDIR` if it is something else.
    pub(super) fn dir(&self) -> PosixResult<&Dir> {
        match &self.opened {
            Opened::Dir(dir) => Ok(dir),
            Opened::File(_) | Opened::Symlink(_) => Err(ENOTDIR),
        }
    }

    /// Kind and permissions in one number.
    pub(super) fn mode(&self) -> u32 {
        match &self.opened {
            Opened::File(file) => file.mode(),
            Opened::Dir(dir) => dir.mode(),
            Opened::Symlink(_) => FileKind::Symlink.bits() | 0o777,
        }
    }

    /// Refuses what the mount or the flags of the open do not allow.
    ///
    /// # Errors
    /// `EPERM`.
    pub(super) fn check_writable(&self) -> PosixResult<()> {
        self.mounted.check_writable()?;
        if self.flags & libc::O_ACCMODE == libc::O_RDONLY { Err(EPERM) } else { Ok(()) }
    }
}

/// A mount and something open in it.
pub(super) fn both(dfs: Ptr<Mounted>, obj: Ptr<Obj>) -> PosixResult<(Arc<Mounted>, Arc<Obj>)> {
    let (mounted, obj) = (table::find(dfs)?, table::find(obj)?);
    if Arc::ptr_eq(&mounted, &obj.mounted) { Ok((mounted, obj)) } else { Err(EINVAL) }
}

/// A mount and a directory of it; NULL is the root.
pub(super) fn parent(dfs: Ptr<Mounted>, dir: Ptr<Obj>) -> PosixResult<(Arc<Mounted>, Dir)> {
    if dir.is_null() {
        let mounted = table::find(dfs)?;
        let root = Dir::clone(&mounted.fs);
        return Ok((mounted, root));
    }
    let (mounted, dir) = both(dfs, dir)?;
    let dir = dir.dir()?.clone();
    Ok((mounted, dir))
}

/// The name of an entry.
///
/// # Errors
/// `EINVAL` for NULL, nothing, dots, or a slash; `ENAMETOOLONG`.
pub(super) fn name<'a>(text: Text) -> PosixResult<&'a [u8]> {
    let name = text.bytes()?;
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(EINVAL);
    }
    if name.len() > dolmen_dfs::layout::NAME_BYTES_MAX { Err(Errno(libc::ENAMETOOLONG)) } else { Ok(name) }
}

/// How a file is to be opened.
///
/// # Errors
/// `ENOTSUP` for appending, which has no place in a write with an offset; `EPERM` for writing to a mount that is not to be
/// written.
pub(super) fn options(mounted: &Mounted, flags: c_int) -> PosixResult<OpenOptions> {
    if flags & libc::O_APPEND != 0 {
        return Err(Errno(libc::ENOTSUP));
    }
    let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if write || flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
        mounted.check_writable()?;
    }
    Ok(OpenOptions { write, ..OpenOptions::READ })
}

pub(super) fn follow(flags: c_int) -> Follow {
    if flags & libc::O_NOFOLLOW == 0 { Follow::Yes } else { Follow::No }
}

/// Opens what a path leads to.
pub(super) fn look_up(
    mounted: &Arc<Mounted>,
    dir: &Dir,
    path: &[u8],
    flags: c_int,
) -> PosixResult<(Obj, Located)> {
    let options = match options(mounted, flags & !(libc::O_CREAT | libc::O_TRUNC)) {
        // A directory or link can be had for writing on any mount; of a file it is refused below.
        Err(EPERM) => OpenOptions::READ,
        other => other?,
    };
    let located = dir.locate(path, &options, follow(flags))?;
    if matches!(located.opened, Opened::File(_)) && flags & libc::O_ACCMODE != libc::O_RDONLY {
        mounted.check_writable()?;
    }
    Ok((Obj::of(Arc::clone(mounted), located.clone(), flags), located))
}

fn hand_out(
    (found, located): (Obj, Located),
    obj: Out<Ptr<Obj>>,
    mode: Out<u32>,
    stbuf: Out<CStat>,
) -> PosixResult<()> {
    if !stbuf.is_null() {
        stbuf.set(stat::filled(&located.stat()?))?;
    }
    mode.set_if_wanted(located.mode());
    if !obj.is_null() {
        obj.set(table::insert(Arc::new(found))?)?;
    }
    Ok(())
}

/// Opens what an absolute path leads to.
#[unsafe(no_mangle)]
extern "C" fn dfs_lookup(
    dfs: Ptr<Mounted>,
    path: Text,
    flags: c_int,
    obj: Out<Ptr<Obj>>,
    mode: Out<u32>,
    stbuf: Out<CStat>,
) -> c_int {
    errno(|| {
        let mounted = table::find(dfs)?;
        let obj = obj.check()?;
        let path = mounted.inside(path.bytes()?)?;
        hand_out(look_up(&mounted, &mounted.fs, path, flags)?, obj, mode, stbuf)
    })
}

/// Opens an entry of a directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_lookup_rel(
    dfs: Ptr<Mounted>,
    dir: Ptr<Obj>,
    entry: Text,
    flags: c_int,
    obj: Out<Ptr<Obj>>,
    mode: Out<u32>,
    stbuf: Out<CStat>,
) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        let obj = obj.check()?;
        hand_out(look_up(&mounted, &dir, name(entry)?, flags)?, obj, mode, stbuf)
    })
}

/// What an open asks for besides its flags.
pub(super) struct Wanted {
    pub(super) mode: u32,
    pub(super) class: ObjectClass,
    pub(super) chunk_bytes: u64,
    pub(super) target: Text,
}

/// Opens an entry of a directory: a file, directory or symbolic link as `mode` says, made if `flags` say so.
#[unsafe(no_mangle)]
extern "C" fn dfs_open(
    dfs: Ptr<Mounted>,
    dir: Ptr<Obj>,
    entry: Text,
    mode: u32,
    flags: c_int,
    class: u32,
    chunk_size: u64,
    value: Text,
    obj: Out<Ptr<Obj>>,
) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        let obj = obj.check()?;
        let wanted = Wanted { mode, class: ObjectClass(class), chunk_bytes: chunk_size, target: value };
        let opened = open_in(&mounted, &dir, name(entry)?, flags, &wanted)?;
        Ok(obj.set(table::insert(Arc::new(opened))?)?)
    })
}

pub(super) fn open_in(
    mounted: &Arc<Mounted>,
    dir: &Dir,
    name: &[u8],
    flags: c_int,
    wanted: &Wanted,
) -> PosixResult<Obj> {
    let options = options(mounted, flags)?;
    match wanted.mode & KIND {
        libc::S_IFREG => open_file(mounted, dir, name, flags, wanted, &options),
        libc::S_IFDIR => open_dir(mounted, dir, name, flags, wanted),
        libc::S_IFLNK => open_link(mounted, dir, name, flags, wanted),
        _ => Err(EINVAL),
    }
}

fn open_file(
    mounted: &Arc<Mounted>,
    dir: &Dir,
    name: &[u8],
    flags: c_int,
    wanted: &Wanted,
    options: &OpenOptions,
) -> PosixResult<Obj> {
    let options = OpenOptions {
        create: flags & libc::O_CREAT != 0,
        exclusive: flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        // An entry is opened, not what it may lead to.
        no_follow: true,
        // Of a file that exists the mode may be anything.
        mode: wanted.mode & PERMISSIONS,
        class: wanted.class,
        chunk_bytes: wanted.chunk_bytes,
        ..*options
    };
    if options.truncate && !options.write {
        return Err(EINVAL);
    }
    let file = match dir.open(name, &options) {
        Err(Error::SymlinkLoop) => return Err(EINVAL),
        file => file?,
    };
    let entry = EntryOf { parent: Some(dir.clone()), name: name.to_vec() };
    let (mounted, oid) = (Arc::clone(mounted), file.oid());
    Ok(Obj { mounted, oid, opened: Opened::File(file), flags, entry: RwLock::new(entry) })
}

fn open_dir(
    mounted: &Arc<Mounted>,
    dir: &Dir,
    name: &[u8],
    flags: c_int,
    wanted: &Wanted,
) -> PosixResult<Obj> {
    if flags & libc::O_CREAT != 0 {
        match dir.mkdir_as(name, wanted.mode & PERMISSIONS, wanted.class) {
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => {}
            made => made?,
        }
    }
    let located = dir.locate(name, &OpenOptions::READ, Follow::No)?;
    match located.opened {
        Opened::Dir(_) => Ok(Obj::of(Arc::clone(mounted), located, flags)),
        Opened::File(_) | Opened::Symlink(_) => Err(ENOTDIR),
    }
}

fn open_link(
    mounted: &Arc<Mounted>,
    dir: &Dir,
    name: &[u8],
    flags: c_int,
    wanted: &Wanted,
) -> PosixResult<Obj> {
    if flags & libc::O_CREAT != 0 {
        match dir.symlink(wanted.target.bytes()?, name) {
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => {}
            made => made?,
        }
    }
    let located = dir.locate(name, &OpenOptions::READ, Follow::No)?;
    match located.opened {
        Opened::Symlink(_) => Ok(Obj::of(Arc::clone(mounted), located, flags)),
        Opened::File(_) | Opened::Dir(_) => Err(EINVAL),
    }
}

/// Opens the same thing once more, with other flags.
#[unsafe(no_mangle)]
extern "C" fn dfs_dup(dfs: Ptr<Mounted>, obj: Ptr<Obj>, flags: c_int, copy: Out<Ptr<Obj>>) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        let out = copy.check()?;
        let options = options(&mounted, flags)?;
        let opened = match &obj.opened {
            Opened::File(file) => Opened::File(file.reopen(&options)?),
            other => other.clone(),
        };
        let entry = RwLock::new(obj.entry());
        Ok(out.set(table::insert(Arc::new(Obj { mounted, opened, oid: obj.oid, flags, entry }))?)?)
    })
}

/// Gives something open back.
#[unsafe(no_mangle)]
extern "C" fn dfs_release(obj: Ptr<Obj>) -> c_int {
    errno(|| release(obj))
}

pub(super) fn release(obj: Ptr<Obj>) -> PosixResult<()> {
    drop(table::remove(obj)?);
    Ok(())
}

/// The id of an object.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj2id(obj: Ptr<Obj>, oid: Out<ObjId>) -> c_int {
    errno(|| Ok(oid.set(table::find(obj)?.oid.into())?))
}

/// Kind and permissions in one number.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_mode(obj: Ptr<Obj>, mode: Out<u32>) -> c_int {
    errno(|| Ok(mode.set(table::find(obj)?.mode())?))
}

/// Bytes in a chunk of a file.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_chunk_size(obj: Ptr<Obj>, chunk_size: Out<u64>) -> c_int {
    errno(|| Ok(chunk_size.set(table::find(obj)?.file()?.chunk_bytes())?))
}

/// A handle on the array that the data of a file is, which the caller closes.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_file_oh(obj: Ptr<Obj>, oh: Out<Handle>) -> c_int {
    errno(|| {
        let obj = table::find(obj)?;
        let out = oh.check()?;
        let chunk_bytes = obj.file()?.chunk_bytes();
        let writes = obj.check_writable().is_ok();
        let mode = if writes { crate::object::OPEN_RW } else { crate::object::OPEN_RO };
        let cont = handle::cont(obj.mounted.cont)?;
        let array = Array::open_with(&cont.client, obj.oid, 1, chunk_bytes).map_err(Der::from)?;
        Ok(out.set(crate::array::insert(&cont, obj.oid.into(), mode, array)?)?)
    })
}

/// Where a symbolic link points, cut to the buffer; without one, how long that is with its zero.
#[unsafe(no_mangle)]
extern "C" fn dfs_get_symlink_value(obj: Ptr<Obj>, buf: Out<c_char>, size: Out<u64>) -> c_int {
    errno(|| match &table::find(obj)?.opened {
        Opened::Symlink(target) => give_text(target, buf, size),
        Opened::File(_) | Opened::Dir(_) => Err(EINVAL),
    })
}

/// Gives a text with its zero to a C program, cut to its buffer, and its whole length.
pub(super) fn give_text(text: &[u8], buf: Out<c_char>, size: Out<u64>) -> PosixResult<()> {
    let room = super::size(size.get()?)?;
    if !buf.is_null() && room > 0 {
        let kept = &text[..text.len().min(room - 1)];
        buf.bytes().copy_from(kept)?;
        buf.at(kept.len()).set(0)?;
    }
    Ok(size.set(text.len() as u64 + 1)?)
}

/// Takes note that something open has another parent, that of `source`, or another name.
#[unsafe(no_mangle)]
extern "C" fn dfs_update_parent(obj: Ptr<Obj>, source: Ptr<Obj>, new_name: Text) -> c_int {
    errno(|| {
        let (obj, source) = (table::find(obj)?, table::find(source)?);
        let mut entry = EntryOf { parent: source.entry().parent, name: obj.entry().name };
        if !new_name.is_null() {
            entry.name = name(new_name)?.to_vec();
        }
        move_entry(&obj, entry)
    })
}

/// Takes note of where an entry is now; it may be found there later only.
fn move_entry(obj: &Obj, entry: EntryOf) -> PosixResult<()> {
    if let Some(parent) = &entry.parent {
        let found = match &obj.opened {
            Opened::File(file) => file.found_at(parent, &entry.name),
            Opened::Dir(dir) => dir.found_at(parent, &entry.name),
            Opened::Symlink(_) => Ok(()),
        };
        match found {
            // The entry is on its way, or is named before it is moved.
            Err(Error::Stale) => {}
            other => other?,
        }
    }
    *obj.entry.write().unwrap_or_else(PoisonError::into_inner) = entry;
    Ok(())
}

/// Bytes for another process with a mount of the same container.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_local2global(dfs: Ptr<Mounted>, obj: Ptr<Obj>, glob: Out<Iov>) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        let entry = obj.entry();
        let mut out = Writer::begin(*b"DLOBJDFS");
        out.bytes(mounted.fs.container().uuid().as_bytes());
        out.bytes(&obj.oid.to_bytes());
        out.number(obj.flags.cast_unsigned().into());
        match (&obj.opened, &entry.parent) {
            (Opened::Dir(dir), _) => out.bytes(&dir.path()?),
            (Opened::File(file), _) => {
                let KnownFile { oid: _, dir, name, chunk_bytes, permissions } = file.known();
                out.bytes(b"");
                out.bytes(&dir.to_bytes());
                out.bytes(&name);
                out.number(chunk_bytes);
                out.number(permissions.into());
            }
            (Opened::Symlink(_), Some(parent)) => {
                let mut path = parent.path()?;
                path.push(b'/');
                path.extend_from_slice(&entry.name);
                out.bytes(&path);
            }
            (Opened::Symlink(_), None) => return Err(EINVAL),
        }
        Writer::new(out.end()).give(glob)
    })
}

/// Opens what the bytes of another process say; flags 0 are those of the original.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_global2local(dfs: Ptr<Mounted>, flags: c_int, glob: Iov, obj: Out<Ptr<Obj>>) -> c_int {
    errno(|| {
        let mounted = table::find(dfs)?;
        let out = obj.check()?;
        let mut read = Reader::new(*b"DLOBJDFS", glob.bytes()?)?;
        let uuid = read.bytes()?;
        let oid = <[u8; 16]>::try_from(read.bytes()?).map_err(|_short| EINVAL)?;
        let own_flags = c_int::try_from(read.number()?).map_err(|_wide| EINVAL)?;
        let path = read.bytes()?;
        if mounted.fs.container().uuid().as_bytes() != uuid {
            return Err(EINVAL);
        }
        let flags = (if flags == 0 { own_flags } else { flags }) | libc::O_NOFOLLOW;
        let found = if path.is_empty() {
            file_of_blob(mounted, Oid::from_bytes(oid), flags, &mut read)?
        } else {
            look_up(&mounted, &mounted.fs, path, flags)?.0
        };
        if found.oid.to_bytes() != oid {
            return Err(Errno(libc::ESTALE));
        }
        Ok(out.set(table::insert(Arc::new(found))?)?)
    })
}

/// A file is opened by its object: it may have another name by now, or none.
fn file_of_blob(mounted: Arc<Mounted>, oid: Oid, flags: c_int, read: &mut Reader<'_>) -> PosixResult<Obj> {
    let dir = <[u8; 16]>::try_from(read.bytes()?).map_err(|_short| EINVAL)?;
    let (dir, name) = (Oid::from_bytes(dir), read.bytes()?.to_vec());
    let chunk_bytes = read.number()?;
    let permissions = u32::try_from(read.number()?).map_err(|_wide| EINVAL)?;
    reopen(mounted, &KnownFile { oid, dir, name, chunk_bytes, permissions }, flags)
}

fn reopen(mounted: Arc<Mounted>, known: &KnownFile, flags: c_int) -> PosixResult<Obj> {
    let options = options(&mounted, flags & !(libc::O_CREAT | libc::O_TRUNC))?;
    let file = mounted.fs.reopen(known, &options)?;
    let entry = RwLock::new(EntryOf { parent: None, name: known.name.clone() });
    Ok(Obj { mounted, opened: Opened::File(file), oid: known.oid, flags, entry })
}

/// What `dfs_obj_get_info` tells.
//= daos:src/include/daos_fs.h dfs_obj_info_t
#[derive(Clone, Copy)]
#[repr(C)]
struct CObjInfo {
    oclass: u32,
    chunk_size: u64,
    dir_oclass: u32,
    file_oclass: u32,
    oid: ObjId,
}

const _: () = assert!(size_of::<CObjInfo>() == 40);

/// Class and chunk of an object; of a directory, what new entries get.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_get_info(dfs: Ptr<Mounted>, obj: Ptr<Obj>, info: Out<CObjInfo>) -> c_int {
    errno(|| {
        let (_, obj) = both(dfs, obj)?;
        let (mut chunk_size, mut dir_oclass, mut file_oclass) = (0, 0, 0);
        match &obj.opened {
            Opened::File(file) => chunk_size = file.chunk_bytes(),
            Opened::Dir(dir) => {
                let new = dir.for_new_entries();
                (chunk_size, dir_oclass, file_oclass) = (new.chunk_bytes, new.dir_class.0, new.file_class.0);
            }
            Opened::Symlink(_) => {}
        }
        let oclass = obj.oid.class().0;
        Ok(info.set(CObjInfo { oclass, chunk_size, dir_oclass, file_oclass, oid: obj.oid.into() })?)
    })
}

/// Sets the class that files made from now on in a directory get.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_set_oclass(dfs: Ptr<Mounted>, obj: Ptr<Obj>, _flags: c_int, class: u32) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        mounted.check_writable()?;
        Ok(obj.dir()?.set_placement(Some(ObjectClass(class)), None)?)
    })
}

/// Sets the chunk that files made from now on in a directory get.
#[unsafe(no_mangle)]
extern "C" fn dfs_obj_set_chunk_size(dfs: Ptr<Mounted>, obj: Ptr<Obj>, _flags: c_int, bytes: u64) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        mounted.check_writable()?;
        Ok(obj.dir()?.set_placement(None, Some(bytes))?)
    })
}

/// Makes a file of this mode, if there is none of the name.
pub(super) fn make_file(
    mounted: &Mounted,
    dir: &Dir,
    name: &[u8],
    mode: u32,
    class: ObjectClass,
    chunk_bytes: u64,
) -> PosixResult<()> {
    mounted.check_writable()?;
    let options = OpenOptions { mode: mode & PERMISSIONS, class, chunk_bytes, ..OpenOptions::CREATE_NEW };
    drop(dir.open(name, &options)?);
    Ok(())
}

/// Attributes as they are: for calls that change some of them.
pub(super) const KEEP: SetAttrs = SetAttrs::KEEP;
