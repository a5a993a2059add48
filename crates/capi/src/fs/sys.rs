//! dfs_sys: the same by paths, with the directories of paths kept open.

use super::attrs::{access, cond, give, if_given, joined};
use super::blob::Writer;
use super::io::{bounded, launched, pool_of, punch};
use super::list::{CDirent, dirent};
use super::mount::{self, CAttr, Mounted};
use super::obj::{self, KIND, Obj, PERMISSIONS, Wanted, follow, give_text};
use super::parts;
use super::stat::{self, CStat};
use super::table::{self, Ptr};
use super::{EINVAL, ENOENT};
use crate::error::{Errno, PosixResult, errno};
use crate::event::Ev;
use crate::raw::{In, Out, Text};
use crate::types::{Handle, Iov, ObjId};
use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering;
use dolmen_client::ObjectClass;
use dolmen_dfs::{Cookie, Dir, Error, File, Follow, OpenOptions, SetAttrs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

//= daos:src/include/daos_fs_sys.h DFS_SYS_NO_CACHE, DFS_SYS_NO_LOCK
const NO_CACHE: c_int = 1;
const NO_LOCK: c_int = 2;

/// Directories kept open: what a tool that walks a tree goes to and fro between.
const KEPT_MAX: usize = 1024;

/// A mount that is used by paths.
pub(crate) struct Sys {
    /// The mount, as the calls of `dfs` know it.
    base: Ptr<Mounted>,
    caches: bool,
    // Guards: the directories kept open, by path; taken alone.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    dirs: BTreeMap<Vec<u8>, Dir>,
    /// How often entries of the mount had been moved or removed when they were looked up.
    moves: u64,
}

/// A directory that is read name by name.
pub(crate) struct OpenDir {
    mounted: Arc<Mounted>,
    dir: Dir,
    // Guards: how far it was read; held while the next names are asked for, as only one thread reads.
    place: Mutex<Reading>,
}

impl Sys {
    pub(super) fn base(&self) -> Ptr<Mounted> {
        self.base
    }

    /// The same for a mount that was made anew and has its pointer still.
    pub(super) fn remade(&self) -> Self {
        Self { base: self.base, caches: self.caches, kept: Mutex::default() }
    }
}

impl OpenDir {
    pub(super) fn mounted(&self) -> &Arc<Mounted> {
        &self.mounted
    }

    /// The same in a mount that was made anew in a process that was forked off, read as far. What another thread was about to
    /// read stays the parent's.
    pub(super) fn remade(&self, mounted: Arc<Mounted>) -> Option<Self> {
        let reading = self.place.try_lock().ok()?;
        let (cookie, names) = (reading.cookie, reading.names.clone());
        let place = Mutex::new(Reading { cookie, names, entry: Box::new(dirent(b"", None)) });
        let dir = mounted.fs.open_dir(self.dir.path_if_free().ok()?).ok()?;
        (dir.oid() == self.dir.oid()).then_some(Self { mounted, dir, place })
    }
}

struct Reading {
    cookie: Cookie,
    names: VecDeque<Vec<u8>>,
    /// What the last call has returned; a pointer to it is the caller's until the next one.
    entry: Box<CDirent>,
}

/// A place in the file system: a mount, a directory that is open, and a name in it, or nothing for the root.
struct At {
    mounted: Arc<Mounted>,
    dir: Dir,
    name: Vec<u8>,
}

impl At {
    /// The name as a path from the directory.
    fn path(&self) -> &[u8] {
        if self.name.is_empty() { b"." } else { &self.name }
    }

    /// Refuses the root where an entry is needed.
    fn entry(&self) -> PosixResult<&[u8]> {
        if self.name.is_empty() { Err(EINVAL) } else { Ok(&self.name) }
    }
}

impl Sys {
    fn forget(&self) {
        let kept = core::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).dirs);
        // Outside of the lock: directories that are given up here record their times.
        drop(kept);
    }

    /// The directory at a path, from those kept open or from the mount.
    fn dir(&self, mounted: &Mounted, path: &[u8]) -> PosixResult<(Dir, bool)> {
        if path.is_empty() {
            return Ok((Dir::clone(&mounted.fs), false));
        }
        if !self.caches {
            return Ok((mounted.fs.open_dir(path)?, false));
        }
        // What this mount moves by other calls leads elsewhere from then on.
        let moves = mounted.moves.load(Ordering::Acquire);
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |kept: &Kept| (kept.moves == moves).then(|| kept.dirs.get(path).cloned()).flatten();
        if let Some(dir) = find(&kept()) {
            return Ok((dir, true));
        }
        let dir = mounted.fs.open_dir(path)?;
        let mut kept = kept();
        let is_old = kept.moves != moves || kept.dirs.len() >= KEPT_MAX;
        let old = if is_old { core::mem::take(&mut kept.dirs) } else { BTreeMap::new() };
        kept.moves = moves;
        kept.dirs.insert(path.to_vec(), dir.clone());
        drop(kept);
        // Directories that are given up here record their times: not under the lock.
        drop(old);
        Ok((dir, false))
    }
}

/// Carries an operation out at a path. If a directory that was kept open does not lead there any more, it is looked for
/// once again.
fn at<T>(sys: Ptr<Sys>, path: Text, operation: impl Fn(&At) -> PosixResult<T>) -> PosixResult<T> {
    let sys = table::find(sys)?;
    let mounted = table::find(sys.base)?;
    let path = mounted.inside(path.bytes()?)?;
    let mut end = path;
    while let [rest @ .., b'/'] = end {
        end = rest;
    }
    let split = end.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (mut parent, name) = end.split_at(split);
    while let [rest @ .., b'/'] = parent {
        parent = rest;
    }
    let attempt = || {
        let (dir, was_kept) = sys.dir(&mounted, parent)?;
        let place = At { mounted: Arc::clone(&mounted), dir, name: name.to_vec() };
        Ok::<_, Errno>((operation(&place), was_kept))
    };
    match attempt()? {
        (Err(ENOENT | Errno(libc::ESTALE)), true) => {
            sys.forget();
            attempt()?.0
        }
        (done, _) => done,
    }
}

fn insert(base: Ptr<Mounted>, flags: c_int) -> PosixResult<Ptr<Sys>> {
    table::insert(Arc::new(Sys { base, caches: flags & NO_CACHE == 0, kept: Mutex::default() }))
}

fn check_flags(flags: c_int) -> PosixResult<()> {
    if flags & !(NO_CACHE | NO_LOCK) == 0 { Ok(()) } else { Err(EINVAL) }
}

/// Gives up what a mount is used by paths with, and ends the mount.
fn end(sys: Ptr<Sys>, owns: bool) -> PosixResult<()> {
    let found = table::find(sys)?;
    mount::umount(found.base, owns)?;
    drop(found);
    table::remove(sys).map(drop)
}

/// As `dfs_connect`, for use by paths.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_connect(
    pool: Text,
    sys: Text,
    cont: Text,
    mflags: c_int,
    sflags: c_int,
    attr: Out<CAttr>,
    out: Out<Ptr<Sys>>,
) -> c_int {
    errno(|| {
        let out = out.check()?;
        check_flags(sflags)?;
        Ok(out.set(insert(mount::connect(pool, sys, cont, mflags, attr, None)?, sflags)?)?)
    })
}

/// Ends what `dfs_sys_connect` began.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_disconnect(sys: Ptr<Sys>) -> c_int {
    errno(|| end(sys, true))
}

/// As `dfs_mount`, for use by paths.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_mount(
    poh: Handle,
    coh: Handle,
    mflags: c_int,
    sflags: c_int,
    out: Out<Ptr<Sys>>,
) -> c_int {
    errno(|| {
        let out = out.check()?;
        check_flags(sflags)?;
        let mounted = mount::mount_on((poh, coh), mflags, None, false)?;
        Ok(out.set(insert(table::insert(Arc::new(mounted))?, sflags)?)?)
    })
}

/// Ends what `dfs_sys_mount` began.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_umount(sys: Ptr<Sys>) -> c_int {
    errno(|| end(sys, false))
}

/// The mount below, for calls of `dfs`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys2base(sys: Ptr<Sys>, dfs: Out<Ptr<Mounted>>) -> c_int {
    errno(|| Ok(dfs.set(table::find(sys)?.base)?))
}

/// As `dfs_set_prefix`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_set_prefix(sys: Ptr<Sys>, prefix: Text) -> c_int {
    errno(|| {
        let sys = table::find(sys)?;
        sys.forget();
        table::find(sys.base)?.set_prefix(prefix)
    })
}

/// As `dfs_local2global`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_local2global(sys: Ptr<Sys>, glob: Out<Iov>) -> c_int {
    errno(|| {
        let mounted = table::find(table::find(sys)?.base)?;
        Writer::new(mount::blob_of(&mounted)?).give(glob)
    })
}

/// As `dfs_global2local`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_global2local(
    poh: Handle,
    coh: Handle,
    mflags: c_int,
    sflags: c_int,
    glob: Iov,
    out: Out<Ptr<Sys>>,
) -> c_int {
    errno(|| {
        let out = out.check()?;
        check_flags(sflags)?;
        Ok(out.set(insert(mount::mount_of_blob((poh, coh), mflags, glob.bytes()?, false)?, sflags)?)?)
    })
}

/// As `dfs_local2global_all`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_local2global_all(sys: Ptr<Sys>, glob: Out<Iov>) -> c_int {
    errno(|| {
        let mounted = table::find(table::find(sys)?.base)?;
        Writer::new(mount::blob_of_all(&mounted)?).give(glob)
    })
}

/// As `dfs_global2local_all`.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_global2local_all(mflags: c_int, sflags: c_int, glob: Iov, out: Out<Ptr<Sys>>) -> c_int {
    errno(|| {
        let out = out.check()?;
        check_flags(sflags)?;
        Ok(out.set(insert(mount::connect_of_blob(mflags, glob.bytes()?)?, sflags)?)?)
    })
}

/// Whether the caller may use what a path leads to so.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_access(sys: Ptr<Sys>, path: Text, mask: c_int, flags: c_int) -> c_int {
    errno(|| {
        at(sys, path, |at| match follow(flags) {
            Follow::Yes => access(&at.mounted, &at.dir, at.path(), mask),
            // A symbolic link itself may be used by everybody.
            Follow::No => match at.dir.lstat(at.path())?.kind {
                dolmen_dfs::FileKind::Symlink => Ok(()),
                _ => access(&at.mounted, &at.dir, at.path(), mask),
            },
        })
    })
}

fn set(sys: Ptr<Sys>, path: Text, attrs: &SetAttrs, flags: c_int) -> PosixResult<()> {
    at(sys, path, |at| {
        at.mounted.check_writable()?;
        Ok(at.dir.set_attrs(at.path(), attrs, follow(flags))?)
    })
}

/// Sets the permissions of what a path leads to.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_chmod(sys: Ptr<Sys>, path: Text, mode: u32) -> c_int {
    errno(|| set(sys, path, &SetAttrs { mode: Some(mode & PERMISSIONS), ..SetAttrs::KEEP }, 0))
}

/// Sets owner and group; -1 keeps one.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_chown(sys: Ptr<Sys>, path: Text, uid: u32, gid: u32, flags: c_int) -> c_int {
    errno(|| {
        let attrs = SetAttrs { uid: if_given(uid), gid: if_given(gid), ..SetAttrs::KEEP };
        set(sys, path, &attrs, flags)
    })
}

/// Sets those attributes that `sflags` name, and tells all of them.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_setattr(
    sys: Ptr<Sys>,
    path: Text,
    stbuf: Out<CStat>,
    flags: c_int,
    sflags: c_int,
) -> c_int {
    errno(|| {
        let wanted = stbuf.get()?;
        let stat = at(sys, path, |at| {
            at.mounted.check_writable()?;
            let now = at.dir.stat_with(at.path(), follow(sflags))?;
            let attrs = super::attrs::attrs_of(&wanted, flags, now.mode())?;
            if flags & super::attrs::SET_SIZE != 0 {
                let size = u64::try_from(wanted.st_size).map_err(|_negative| EINVAL)?;
                at.dir.open(at.entry()?, &OpenOptions::WRITE)?.set_len(size)?;
            }
            if attrs != SetAttrs::KEEP {
                at.dir.set_attrs(at.path(), &attrs, follow(sflags))?;
            }
            Ok(at.dir.stat_with(at.path(), follow(sflags))?)
        })?;
        Ok(stbuf.set(stat::filled(&stat))?)
    })
}

/// Sets the times of the last access, which is not kept, and of the last change.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_utimens(sys: Ptr<Sys>, path: Text, times: In<libc::timespec>, flags: c_int) -> c_int {
    errno(|| {
        let mtime = match times.list(2)? {
            [atime, mtime] => {
                stat::time(atime.tv_sec, atime.tv_nsec)?;
                stat::time(mtime.tv_sec, mtime.tv_nsec)?
            }
            _ => return Err(EINVAL),
        };
        set(sys, path, &SetAttrs { mtime, ..SetAttrs::KEEP }, flags)
    })
}

/// Attributes of what a path leads to.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_stat(sys: Ptr<Sys>, path: Text, flags: c_int, stbuf: Out<CStat>) -> c_int {
    errno(|| {
        let stat = at(sys, path, |at| Ok(at.dir.stat_with(at.path(), follow(flags))?))?;
        Ok(stbuf.set(stat::filled(&stat))?)
    })
}

/// Makes a file or directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_mknod(sys: Ptr<Sys>, path: Text, mode: u32, class: u32, chunk_size: u64) -> c_int {
    errno(|| {
        at(sys, path, |at| match mode & KIND {
            libc::S_IFREG | 0 => {
                obj::make_file(&at.mounted, &at.dir, at.entry()?, mode, ObjectClass(class), chunk_size)
            }
            libc::S_IFDIR => make_dir(at, mode, class),
            _ => Err(EINVAL),
        })
    })
}

fn make_dir(at: &At, mode: u32, class: u32) -> PosixResult<()> {
    at.mounted.check_writable()?;
    let name = at.entry().map_err(|_root| Errno(libc::EEXIST))?;
    Ok(at.dir.mkdir_as(name, mode & PERMISSIONS, ObjectClass(class))?)
}

/// Names of extended attributes, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_listxattr(
    sys: Ptr<Sys>,
    path: Text,
    list: Out<c_char>,
    size: Out<u64>,
    flags: c_int,
) -> c_int {
    errno(|| {
        let names = at(sys, path, |at| Ok(at.dir.xattr_names(at.path(), follow(flags))?))?;
        give(&joined(&names), list.bytes(), size)
    })
}

/// The value of an extended attribute.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_getxattr(
    sys: Ptr<Sys>,
    path: Text,
    attr: Text,
    value: Out<u8>,
    size: Out<u64>,
    flags: c_int,
) -> c_int {
    errno(|| {
        let attr = attr.bytes()?;
        let found = at(sys, path, |at| Ok(at.dir.xattr(at.path(), attr, follow(flags))?))?;
        give(&found, value, size)
    })
}

/// Sets an extended attribute.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_setxattr(
    sys: Ptr<Sys>,
    path: Text,
    attr: Text,
    value: In<u8>,
    size: u64,
    flags: c_int,
    sflags: c_int,
) -> c_int {
    errno(|| {
        let (attr, value) = (attr.bytes()?, value.list(super::size(size)?)?);
        let cond = cond(flags)?;
        at(sys, path, |at| {
            at.mounted.check_writable()?;
            Ok(at.dir.set_xattr(at.path(), attr, value, cond, follow(sflags))?)
        })
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_removexattr(sys: Ptr<Sys>, path: Text, attr: Text, flags: c_int) -> c_int {
    errno(|| {
        let attr = attr.bytes()?;
        at(sys, path, |at| {
            at.mounted.check_writable()?;
            Ok(at.dir.remove_xattr(at.path(), attr, follow(flags))?)
        })
    })
}

/// Where a symbolic link points.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_readlink(sys: Ptr<Sys>, path: Text, buf: Out<c_char>, size: Out<u64>) -> c_int {
    errno(|| give_text(&at(sys, path, |at| Ok(at.dir.readlink(at.path())?))?, buf, size))
}

/// Makes a symbolic link.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_symlink(sys: Ptr<Sys>, target: Text, path: Text) -> c_int {
    errno(|| {
        let target = target.bytes()?;
        at(sys, path, |at| {
            at.mounted.check_writable()?;
            Ok(at.dir.symlink(target, at.entry()?)?)
        })
    })
}

/// Opens what a path leads to, made if `flags` say so; `mode` says what it has to be.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_open(
    sys: Ptr<Sys>,
    path: Text,
    mode: u32,
    flags: c_int,
    class: u32,
    chunk_size: u64,
    value: Text,
    out: Out<Ptr<Obj>>,
) -> c_int {
    errno(|| {
        let out = out.check()?;
        let wanted = Wanted { mode, class: ObjectClass(class), chunk_bytes: chunk_size, target: value };
        let opened = at(sys, path, |at| open(at, flags, &wanted))?;
        Ok(out.set(table::insert(Arc::new(opened))?)?)
    })
}

fn open(at: &At, flags: c_int, wanted: &Wanted) -> PosixResult<Obj> {
    if at.name.is_empty() || (flags & libc::O_CREAT == 0 && wanted.mode & KIND != libc::S_IFLNK) {
        let (found, located) = obj::look_up(&at.mounted, &at.dir, at.path(), flags)?;
        if flags & libc::O_TRUNC != 0 {
            found.file()?.set_len(0)?;
        }
        let kind = wanted.mode & KIND;
        return if kind == 0 || kind == located.mode() & KIND { Ok(found) } else { Err(EINVAL) };
    }
    match obj::open_in(&at.mounted, &at.dir, &at.name, flags, wanted) {
        // A symbolic link has the name: what it leads to is meant, unless that is to be made anew.
        Err(EINVAL)
            if flags & (libc::O_EXCL | libc::O_NOFOLLOW) == 0 && wanted.mode & KIND == libc::S_IFREG =>
        {
            let options = OpenOptions {
                create: true,
                mode: wanted.mode & PERMISSIONS,
                class: wanted.class,
                chunk_bytes: wanted.chunk_bytes,
                ..obj::options(&at.mounted, flags)?
            };
            drop(at.dir.open(&at.name, &options)?);
            open(at, flags & !libc::O_CREAT, wanted)
        }
        other => other,
    }
}

/// Gives something open back.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_close(obj: Ptr<Obj>) -> c_int {
    errno(|| obj::release(obj))
}

/// Reads into one buffer; `size` is its length, and then how much there was.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_read(
    sys: Ptr<Sys>,
    obj: Ptr<Obj>,
    buf: Out<u8>,
    offset: u64,
    bytes: Out<u64>,
    ev: Ev,
) -> c_int {
    let base = || -> PosixResult<Ptr<Mounted>> { Ok(table::find(sys)?.base) };
    let asked = || -> PosixResult<(File, usize)> {
        let (_, obj) = obj::both(base()?, obj)?;
        let len = super::size(bytes.get()?)?;
        if obj.flags & libc::O_ACCMODE == libc::O_WRONLY {
            return Err(super::EPERM);
        }
        Ok((obj.file()?.clone(), len))
    };
    let launch = || {
        let (file, len) = asked()?;
        let iov = Iov { buf, buf_len: len, len };
        parts::launch_read(&pool_of(base()?)?, ev, &file, &[(offset, len)], &[iov], bytes)
    };
    launched(ev, launch, || {
        let (file, len) = asked()?;
        Ok(move || {
            let found = file.read_at(offset, buf.list_mut(bounded(&file, offset, len)?)?)?;
            Ok(bytes.set(found as u64)?)
        })
    })
}

/// Writes one buffer, of so many bytes.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_write(
    sys: Ptr<Sys>,
    obj: Ptr<Obj>,
    buf: In<u8>,
    offset: u64,
    bytes: Out<u64>,
    ev: Ev,
) -> c_int {
    let base = || -> PosixResult<Ptr<Mounted>> { Ok(table::find(sys)?.base) };
    let asked = || -> PosixResult<(File, usize)> {
        let (_, obj) = obj::both(base()?, obj)?;
        let len = super::size(bytes.get()?)?;
        buf.list(len)?;
        obj.check_writable()?;
        Ok((obj.file()?.clone(), len))
    };
    let launch = || {
        let (file, len) = asked()?;
        let iov = Iov { buf: Out::of(buf.list(len)?.as_ptr().cast_mut()), buf_len: len, len };
        parts::launch_write(&pool_of(base()?)?, ev, &file, &[(offset, len)], &[iov])
    };
    launched(ev, launch, || {
        let (file, len) = asked()?;
        Ok(move || {
            file.write_at(offset, buf.list(len)?)?;
            Ok(())
        })
    })
}

/// As `dfs_punch`, of the file at a path.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_punch(sys: Ptr<Sys>, path: Text, offset: u64, len: u64) -> c_int {
    errno(|| {
        at(sys, path, |at| {
            at.mounted.check_writable()?;
            punch(&at.dir.open(at.path(), &OpenOptions::WRITE)?, offset, len)
        })
    })
}

/// Removes an entry; with `force`, a directory with all below it.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_remove(sys: Ptr<Sys>, path: Text, force: bool, oid: Out<ObjId>) -> c_int {
    errno(|| remove(sys, path, force, 0, oid))
}

/// As `dfs_sys_remove`, of an entry that is of the kind that `mode` says.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_remove_type(
    sys: Ptr<Sys>,
    path: Text,
    force: bool,
    mode: u32,
    oid: Out<ObjId>,
) -> c_int {
    errno(|| remove(sys, path, force, mode & KIND, oid))
}

fn remove(sys: Ptr<Sys>, path: Text, force: bool, kind: u32, oid: Out<ObjId>) -> PosixResult<()> {
    at(sys, path, |at| {
        at.mounted.check_writable()?;
        if kind != 0 && at.dir.lstat(at.entry()?)?.kind.bits() != kind {
            return Err(if kind == libc::S_IFDIR { super::ENOTDIR } else { EINVAL });
        }
        super::entry::remove(&at.mounted, &at.dir, at.entry()?, force, oid)
    })
}

/// Makes a directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_mkdir(sys: Ptr<Sys>, path: Text, mode: u32, class: u32) -> c_int {
    errno(|| at(sys, path, |at| make_dir(at, mode, class)))
}

/// Makes a directory and those above it that are missing.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_mkdir_p(sys: Ptr<Sys>, path: Text, mode: u32, class: u32) -> c_int {
    errno(|| {
        let mounted = table::find(table::find(sys)?.base)?;
        mounted.check_writable()?;
        let path = mounted.inside(path.bytes()?)?;
        let mut dir = Dir::clone(&mounted.fs);
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match dir.mkdir_as(name, mode & PERMISSIONS, ObjectClass(class)) {
                Err(Error::Exists) => {}
                made => made?,
            }
            dir = dir.open_dir(name)?;
        }
        Ok(())
    })
}

/// Opens a directory to be read name by name.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_opendir(sys: Ptr<Sys>, path: Text, flags: c_int, out: Out<Ptr<OpenDir>>) -> c_int {
    errno(|| {
        let out = out.check()?;
        let dir = at(sys, path, |at| {
            let located = at.dir.locate(at.path(), &OpenOptions::READ, follow(flags))?;
            match located.opened {
                dolmen_dfs::Opened::Dir(dir) => Ok(dir),
                _ => Err(super::ENOTDIR),
            }
        })?;
        let place =
            Reading { cookie: Cookie::default(), names: VecDeque::new(), entry: Box::new(dirent(b"", None)) };
        let mounted = table::find(table::find(sys)?.base)?;
        Ok(out.set(table::insert(Arc::new(OpenDir { mounted, dir, place: Mutex::new(place) }))?)?)
    })
}

/// Gives a directory that is read back.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_closedir(dir: Ptr<OpenDir>) -> c_int {
    errno(|| table::remove(dir).map(drop))
}

/// Names asked for at a time.
const NAMES_AT_ONCE: u32 = 256;

/// The next name of a directory, in memory that lasts until the next call or the end; NULL at the end.
#[unsafe(no_mangle)]
extern "C" fn dfs_sys_readdir(sys: Ptr<Sys>, dir: Ptr<OpenDir>, out: Out<*mut CDirent>) -> c_int {
    errno(|| {
        table::find(sys)?;
        let (dir, out) = (table::find(dir)?, out.check()?);
        let mut place = dir.place.lock().unwrap_or_else(PoisonError::into_inner);
        while place.names.is_empty() && !place.cookie.is_end() {
            let mut cookie = place.cookie;
            let names = dir.dir.list(&mut cookie, NAMES_AT_ONCE)?;
            place.cookie = cookie;
            place.names.extend(names.iter().map(<[u8]>::to_vec));
        }
        let Some(name) = place.names.pop_front() else { return Ok(out.set(core::ptr::null_mut())?) };
        *place.entry = dirent(&name, None);
        Ok(out.set(&raw mut *place.entry)?)
    })
}
