//! Mounts: making file systems, mounting them, and taking mounts to other processes.

use super::blob::{Reader, Writer};
use super::table::{self, Ptr};
use super::{EINVAL, ENOENT, EPERM};
use crate::cont::{self, ContHandle};
use crate::error::{Der, Errno, PosixResult, errno};
use crate::event::{Ev, go_posix};
use crate::handle::{self, Entry};
use crate::place::{self, Place, PoolHandle};
use crate::pool::CONNECT_RW;
use crate::prop::List;
use crate::raw::{Out, Text};
use crate::types::{CUuid, Handle, Iov};
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use dolmen_client::{ContName, Container, Epoch, ObjectClass, OpenFor, Uuid};
use dolmen_dfs::{Dfs, FormatOptions, LAYOUT_POSIX, MountOptions, class_of_hint, classes_of_hints};
use std::sync::{Arc, PoisonError, RwLock};

/// Bits of how a mount keeps what other mounts do; 0 is relaxed.
//= daos:src/include/daos_fs.h DFS_BALANCED
pub(super) const BALANCED: c_int = 4;

/// A mounted file system.
pub(crate) struct Mounted {
    pub(super) fs: Dfs,
    pub(super) writable: bool,
    /// What it was mounted with.
    flags: c_int,
    snapshot: Option<Epoch>,
    // Guards: what paths begin with that is no part of the file system; taken alone.
    prefix: RwLock<Option<Vec<u8>>>,
    pub(super) pool: Handle,
    pub(super) cont: Handle,
    /// Which pool that is, also when its handle is closed.
    pool_uuid: Uuid,
    /// Whether pool and container were opened for this mount, and are closed with it.
    owns: bool,
    /// Handles of pool and container that a caller has and not given back.
    lent: AtomicUsize,
    /// How often calls have moved or removed entries: paths may lead elsewhere since.
    pub(super) moves: AtomicU64,
}

impl Mounted {
    /// Refuses changes.
    ///
    /// # Errors
    /// `EPERM` on a mount that was not made for them.
    pub(super) fn check_writable(&self) -> PosixResult<()> {
        if self.writable { Ok(()) } else { Err(EPERM) }
    }

    /// Takes note that an entry that paths lead through may have gone, or have come.
    pub(super) fn note_moved(&self) {
        self.moves.fetch_add(1, Ordering::AcqRel);
    }

    /// The same mount of a process that was forked off, on the handles that it has made anew. What another thread was about to
    /// change stays the parent's.
    pub(super) fn remade(&self) -> Option<Self> {
        let prefix = RwLock::new(self.prefix.try_read().ok()?.clone());
        let lent = AtomicUsize::new(self.lent.load(Ordering::Acquire));
        let made = mount_on((self.pool, self.cont), self.flags, self.snapshot, self.owns).ok()?;
        Some(Self { prefix, lent, ..made })
    }

    /// The part of a path that is in the file system.
    ///
    /// # Errors
    /// `EINVAL` if it is not absolute or does not begin with the prefix.
    pub(super) fn inside<'a>(&self, path: &'a [u8]) -> PosixResult<&'a [u8]> {
        if path.first() != Some(&b'/') {
            return Err(EINVAL);
        }
        let prefix = self.prefix.read().unwrap_or_else(PoisonError::into_inner);
        let Some(prefix) = &*prefix else { return Ok(path) };
        match path.strip_prefix(&prefix[..]) {
            Some([]) => Ok(b"/"),
            Some(rest) if rest[0] == b'/' => Ok(rest),
            _ => Err(EINVAL),
        }
    }

    pub(super) fn set_prefix(&self, prefix: Text) -> PosixResult<()> {
        let mut new = None;
        if !prefix.is_null() {
            let mut text = prefix.bytes()?;
            if text.first() != Some(&b'/') || text.len() >= libc::PATH_MAX as usize {
                return Err(EINVAL);
            }
            while let [rest @ .., b'/'] = text {
                text = rest;
            }
            new = (!text.is_empty()).then(|| text.to_vec());
        }
        *self.prefix.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// What a file system is made with, and what `dfs_query` tells of it.
//= daos:src/include/daos_fs.h dfs_attr_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CAttr {
    pub(super) id: u64,
    pub(super) chunk_size: u64,
    pub(super) oclass: u32,
    pub(super) props: Out<List>,
    pub(super) mode: u32,
    pub(super) dir_oclass: u32,
    pub(super) file_oclass: u32,
    pub(super) hints: [c_char; 128],
}

const _: () = assert!(size_of::<CAttr>() == 176);
const _: () = assert!(core::mem::offset_of!(CAttr, hints) == 44);

fn format_options(attr: Option<&CAttr>) -> PosixResult<FormatOptions> {
    let mut options = FormatOptions { uid: own_uid(), gid: own_gid(), ..FormatOptions::default() };
    let Some(attr) = attr else { return Ok(options) };
    let hints: Vec<u8> =
        attr.hints.iter().take_while(|&&byte| byte != 0).map(|&byte| byte.cast_unsigned()).collect();
    let hints = classes_of_hints(core::str::from_utf8(&hints).map_err(|_other| EINVAL)?).ok_or(EINVAL)?;
    let first = |wishes: [u32; 2], hint: ObjectClass| {
        let asked = wishes.into_iter().map(ObjectClass).find(|class| *class != ObjectClass::UNKNOWN);
        asked.unwrap_or(hint)
    };
    options.file_class = first([attr.file_oclass, attr.oclass], hints.0);
    options.dir_class = first([attr.dir_oclass, attr.oclass], hints.1);
    if attr.chunk_size != 0 {
        options.chunk_bytes = attr.chunk_size;
    }
    options.balanced = match attr.mode {
        0 => false,
        4 => true,
        _ => return Err(EINVAL),
    };
    Ok(options)
}

pub(super) fn own_uid() -> u32 {
    // SAFETY: it always succeeds and touches no memory.
    unsafe { libc::geteuid() }
}

pub(super) fn own_gid() -> u32 {
    // SAFETY: it always succeeds and touches no memory.
    unsafe { libc::getegid() }
}

/// Mounts the file system of an open container.
pub(super) fn mount_on(
    (poh, coh): (Handle, Handle),
    flags: c_int,
    snapshot: Option<Epoch>,
    owns: bool,
) -> PosixResult<Mounted> {
    let (pool, cont) = (handle::pool(poh)?, handle::cont(coh)?);
    if cont.pool.uuid != pool.uuid {
        return Err(EINVAL);
    }
    let writable = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => false,
        libc::O_RDWR => true,
        _ => return Err(EINVAL),
    };
    if writable && (snapshot.is_some() || !cont.writable) {
        return Err(EPERM);
    }
    let view = snapshot.map_or_else(|| cont.client.clone(), |epoch| cont.client.at(epoch));
    let options = MountOptions {
        read_only: !writable,
        shared: true,
        relaxed: flags & BALANCED == 0,
        uid: own_uid(),
        gid: own_gid(),
        ..MountOptions::default()
    };
    let fs = Dfs::mount(&view, &options)?;
    let (prefix, lent, pool_uuid) = (RwLock::new(None), AtomicUsize::new(0), pool.uuid);
    let moves = AtomicU64::new(0);
    Ok(Mounted { fs, writable, flags, snapshot, prefix, pool: poh, cont: coh, pool_uuid, owns, lent, moves })
}

/// The epoch of the snapshot that is meant, by epoch or by name.
fn snapshot_of(cont: &Container, epoch: u64, name: Text) -> PosixResult<Epoch> {
    let snapshots = cont.snapshots()?;
    let found = if name.is_null() {
        snapshots.iter().find(|snapshot| snapshot.epoch == Epoch(epoch))
    } else {
        let name = name.str()?;
        snapshots.iter().find(|snapshot| snapshot.name.as_deref() == Some(name))
    };
    found.map(|snapshot| snapshot.epoch).ok_or(ENOENT)
}

/// Begins the use of libdfs; also initialises the library.
#[unsafe(no_mangle)]
extern "C" fn dfs_init() -> c_int {
    errno(|| match crate::life::daos_init() {
        0 => Ok(()),
        code => Err(Der::from_code(code).into()),
    })
}

/// Ends what `dfs_init` began.
#[unsafe(no_mangle)]
extern "C" fn dfs_fini() -> c_int {
    errno(|| match crate::life::daos_fini() {
        0 => Ok(()),
        code => Err(Der::from_code(code).into()),
    })
}

/// Mounts the file system of an open container.
#[unsafe(no_mangle)]
extern "C" fn dfs_mount(poh: Handle, coh: Handle, flags: c_int, dfs: Out<Ptr<Mounted>>) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        Ok(dfs.set(table::insert(Arc::new(mount_on((poh, coh), flags, None, false)?))?)?)
    })
}

/// Mounts a snapshot, named by its epoch or its name: read-only.
#[unsafe(no_mangle)]
extern "C" fn dfs_mount_snap(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    epoch: u64,
    name: Text,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        let epoch = snapshot_of(&handle::cont(coh)?.client, epoch, name)?;
        Ok(dfs.set(table::insert(Arc::new(mount_on((poh, coh), flags, Some(epoch), false)?))?)?)
    })
}

/// Ends a mount; files that are open stay open.
#[unsafe(no_mangle)]
extern "C" fn dfs_umount(dfs: Ptr<Mounted>) -> c_int {
    errno(|| umount(dfs, false))
}

pub(super) fn umount(dfs: Ptr<Mounted>, owns: bool) -> PosixResult<()> {
    let mounted = table::find(dfs)?;
    if mounted.lent.load(Ordering::Acquire) > 0 {
        return Err(Errno(libc::EBUSY));
    }
    if mounted.owns != owns {
        return Err(EINVAL);
    }
    let mounted = table::remove(dfs)?;
    if mounted.writable {
        mounted.fs.sync()?;
    }
    if owns {
        close(mounted.pool, mounted.cont);
    }
    Ok(())
}

/// Ends the mounts of a container, with all that is open in them. Another pool may have one of the same UUID.
pub(crate) fn evict(pool: Uuid, cont: Uuid) {
    let is_meant = |mounted: &Mounted| mounted.pool_uuid == pool && mounted.fs.container().uuid() == cont;
    for mounted in table::evict(is_meant) {
        if mounted.writable {
            // Ignored: what could not be written is lost to whom the mount was taken from, not to whoever takes it.
            let _synced = mounted.fs.sync();
        }
        if mounted.owns {
            close(mounted.pool, mounted.cont);
        }
    }
}

/// Closes the handles of a mount that opened them.
fn close(poh: Handle, coh: Handle) {
    // The codes say only that somebody has closed them before.
    cont::daos_cont_close(coh, Ev::NULL);
    crate::pool::daos_pool_disconnect(poh, Ev::NULL);
}

/// Makes a container with a file system, with a random UUID.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_create(
    poh: Handle,
    uuid: Out<CUuid>,
    attr: Out<CAttr>,
    coh: Out<Handle>,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| cont_create(poh, None, attr, uuid, coh, dfs))
}

/// Makes a container of this label with a file system.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_create_with_label(
    poh: Handle,
    label: Text,
    attr: Out<CAttr>,
    uuid: Out<CUuid>,
    coh: Out<Handle>,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| cont_create(poh, Some(label.str()?), attr, uuid, coh, dfs))
}

fn cont_create(
    poh: Handle,
    label: Option<&str>,
    attr: Out<CAttr>,
    uuid: Out<CUuid>,
    coh: Out<Handle>,
    dfs: Out<Ptr<Mounted>>,
) -> PosixResult<()> {
    let pool = handle::pool(poh)?;
    let attr = if attr.is_null() { None } else { Some(attr.get()?) };
    if coh.is_null() && !dfs.is_null() {
        return Err(EINVAL);
    }
    let made = make_cont(&pool, label, attr.as_ref())?;
    uuid.set_if_wanted(made.into());
    if coh.is_null() {
        return Ok(());
    }
    let opened = open_cont(&pool, &ContName::Uuid(made), true)?;
    coh.set(opened)?;
    if !dfs.is_null() {
        let mounted = mount_on((poh, opened), libc::O_RDWR, None, false)?;
        dfs.set(table::insert(Arc::new(mounted))?)?;
    }
    Ok(())
}

/// Makes a container and the file system in it: both, or neither.
pub(super) fn make_cont(pool: &PoolHandle, label: Option<&str>, attr: Option<&CAttr>) -> PosixResult<Uuid> {
    let options = format_options(attr)?;
    let props = attr.map_or(Out::NULL, |attr| attr.props);
    let made = ContName::Uuid(cont::create_for(pool, label, props, Some(LAYOUT_POSIX))?);
    let formatted = pool.client.open_container(&made).map_err(Errno::from).and_then(|cont| {
        Dfs::format(&cont, &options)?;
        let uuid = cont.uuid();
        cont.close()?;
        Ok(uuid)
    });
    if formatted.is_err() {
        // Ignored: that it could not be made is what the caller hears.
        let _still_there = pool.client.destroy_container(&made, true);
    }
    formatted
}

/// Opens a container and gives it a handle.
fn open_cont(pool: &Arc<PoolHandle>, name: &ContName, writable: bool) -> PosixResult<Handle> {
    let flags = if writable { cont::OPEN_RW } else { cont::OPEN_RO };
    Ok(handle::insert(Entry::Cont(cont::open(pool, name, flags)?))?)
}

/// Opens a container beside another process that has it alone, and has told this one how.
fn join_cont(pool: &Arc<PoolHandle>, name: &ContName, shared: (u32, u64)) -> PosixResult<Handle> {
    let opened = pool.client.open_container_for(name, cont::wanted_again(shared))?;
    Ok(handle::insert(Entry::Cont(Arc::new(ContHandle::new(opened, Arc::clone(pool), shared))))?)
}

/// Connects to a pool, opens a container, made first if `flags` say so, and mounts its file system.
#[unsafe(no_mangle)]
extern "C" fn dfs_connect(
    pool: Text,
    sys: Text,
    cont: Text,
    flags: c_int,
    attr: Out<CAttr>,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        dfs.set(connect(pool, sys, cont, flags, attr, None)?)?;
        Ok(())
    })
}

/// Connects to a pool, opens a container and mounts a snapshot of its file system.
#[unsafe(no_mangle)]
extern "C" fn dfs_connect_snap(
    pool: Text,
    sys: Text,
    cont: Text,
    flags: c_int,
    epoch: u64,
    name: Text,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        dfs.set(connect(pool, sys, cont, flags, Out::NULL, Some((epoch, name)))?)?;
        Ok(())
    })
}

/// A connection to the pool that is meant, with its handle.
fn connect_pool(system: Place, pool: &str, writable: bool) -> PosixResult<(Handle, Arc<PoolHandle>)> {
    crate::life::check()?;
    let flags = if writable { 2 } else { 1 };
    let opened = Arc::new(place::connect(system, pool, flags, writable)?);
    Ok((handle::insert(Entry::Pool(Arc::clone(&opened)))?, opened))
}

pub(super) fn connect(
    pool: Text,
    sys: Text,
    cont: Text,
    flags: c_int,
    attr: Out<CAttr>,
    snapshot: Option<(u64, Text)>,
) -> PosixResult<Ptr<Mounted>> {
    let writable = flags & libc::O_ACCMODE == libc::O_RDWR;
    let name = cont.str()?;
    let (poh, pool) = connect_pool(place::system(sys.str_if_any()?)?, pool.str()?, writable)?;
    let mounted = (|| {
        let coh = open_or_make(&pool, name, flags, attr)?;
        let epoch = match snapshot {
            Some((epoch, name)) => Some(snapshot_of(&handle::cont(coh)?.client, epoch, name)?),
            None => None,
        };
        match mount_on((poh, coh), flags, epoch, true) {
            Ok(mounted) => table::insert(Arc::new(mounted)),
            Err(error) => {
                cont::daos_cont_close(coh, Ev::NULL);
                Err(error)
            }
        }
    })();
    if mounted.is_err() {
        crate::pool::daos_pool_disconnect(poh, Ev::NULL);
    }
    mounted
}

fn open_or_make(pool: &Arc<PoolHandle>, name: &str, flags: c_int, attr: Out<CAttr>) -> PosixResult<Handle> {
    let cont = cont::name(name)?;
    let writable = flags & libc::O_ACCMODE == libc::O_RDWR;
    if flags & libc::O_CREAT == 0 {
        return open_cont(pool, &cont, writable);
    }
    let attr = if attr.is_null() { None } else { Some(attr.get()?) };
    match (&cont, flags & libc::O_EXCL != 0) {
        (ContName::Label(label), is_exclusive) => {
            match make_cont(pool, Some(label.as_str()), attr.as_ref()) {
                Err(Errno(libc::EEXIST)) if !is_exclusive => {}
                made => drop(made?),
            }
        }
        // A container that is to be made has a label, not a UUID.
        (_, true) => return Err(EINVAL),
        (_, false) => {}
    }
    open_cont(pool, &cont, writable)
}

/// Ends a mount that `dfs_connect` made, and its connections.
#[unsafe(no_mangle)]
extern "C" fn dfs_disconnect(dfs: Ptr<Mounted>) -> c_int {
    errno(|| umount(dfs, true))
}

/// Destroys a container.
#[unsafe(no_mangle)]
extern "C" fn dfs_destroy(pool: Text, sys: Text, cont: Text, force: c_int, ev: Ev) -> c_int {
    go_posix(ev, || {
        let (system, pool) = (place::system(sys.str_if_any()?)?, pool.str()?.to_owned());
        let name = cont::name(cont.str()?)?;
        Ok(move |way| async move {
            crate::life::check()?;
            let pool = Arc::new(place::connect_by(way, system, &pool, CONNECT_RW, true).await?);
            let destroyed = pool.client.destroy_container_by(way, &name, force != 0).await;
            pool.leave(way).await;
            Ok(destroyed?)
        })
    })
}

/// Lends the handle of the pool.
#[unsafe(no_mangle)]
extern "C" fn dfs_pool_get(dfs: Ptr<Mounted>, poh: Out<Handle>) -> c_int {
    errno(|| lend(dfs, poh, |mounted| mounted.pool))
}

/// Takes the handle of the pool back.
#[unsafe(no_mangle)]
extern "C" fn dfs_pool_put(dfs: Ptr<Mounted>, poh: Handle) -> c_int {
    errno(|| take_back(dfs, poh, |mounted| mounted.pool))
}

/// Lends the handle of the container.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_get(dfs: Ptr<Mounted>, coh: Out<Handle>) -> c_int {
    errno(|| lend(dfs, coh, |mounted| mounted.cont))
}

/// Takes the handle of the container back.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_put(dfs: Ptr<Mounted>, coh: Handle) -> c_int {
    errno(|| take_back(dfs, coh, |mounted| mounted.cont))
}

fn lend(dfs: Ptr<Mounted>, out: Out<Handle>, which: impl Fn(&Mounted) -> Handle) -> PosixResult<()> {
    let mounted = table::find(dfs)?;
    out.set(which(&mounted))?;
    mounted.lent.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

fn take_back(dfs: Ptr<Mounted>, given: Handle, which: impl Fn(&Mounted) -> Handle) -> PosixResult<()> {
    let mounted = table::find(dfs)?;
    if which(&mounted) != given {
        return Err(EINVAL);
    }
    let less = mounted.lent.fetch_update(Ordering::AcqRel, Ordering::Acquire, |lent| lent.checked_sub(1));
    less.map(|_before| ()).map_err(|_none| EINVAL)
}

/// Tells what the file system was made with.
#[unsafe(no_mangle)]
extern "C" fn dfs_query(dfs: Ptr<Mounted>, attr: Out<CAttr>) -> c_int {
    errno(|| {
        let superblock = table::find(dfs)?.fs.superblock();
        Ok(attr.set(CAttr {
            id: 0,
            chunk_size: superblock.chunk_bytes,
            oclass: 0,
            props: Out::NULL,
            mode: if superblock.balanced { 4 } else { 0 },
            dir_oclass: superblock.dir_class.0,
            file_oclass: superblock.file_class.0,
            hints: [0; 128],
        })?)
    })
}

/// Sets what paths begin with that is no part of the file system; NULL for nothing.
#[unsafe(no_mangle)]
extern "C" fn dfs_set_prefix(dfs: Ptr<Mounted>, prefix: Text) -> c_int {
    errno(|| table::find(dfs)?.set_prefix(prefix))
}

/// Everything that was written is stored already.
#[unsafe(no_mangle)]
extern "C" fn dfs_sync(dfs: Ptr<Mounted>) -> c_int {
    errno(|| table::find(dfs)?.check_writable())
}

/// The class that a hint such as `file:max` asks for.
#[unsafe(no_mangle)]
extern "C" fn dfs_suggest_oclass(dfs: Ptr<Mounted>, hint: Text, class: Out<u32>) -> c_int {
    errno(|| {
        table::find(dfs)?;
        Ok(class.set(class_of_hint(hint.str()?).ok_or(EINVAL)?.1.0)?)
    })
}

/// Bytes for another process of the same system, which mounts by them on handles that it has.
#[unsafe(no_mangle)]
extern "C" fn dfs_local2global(dfs: Ptr<Mounted>, glob: Out<Iov>) -> c_int {
    errno(|| Writer::new(blob_of(&*table::find(dfs)?)?).give(glob))
}

/// A mount, as bytes.
pub(super) fn blob_of(mounted: &Mounted) -> PosixResult<Vec<u8>> {
    let cont = handle::cont(mounted.cont)?;
    let mut out = Writer::begin(*b"DLMNTDFS");
    out.bytes(cont.client.uuid().as_bytes());
    out.number(mounted.flags.cast_unsigned().into());
    out.number(mounted.snapshot.map_or(0, |epoch| epoch.0));
    let prefix = mounted.prefix.read().unwrap_or_else(PoisonError::into_inner);
    out.bytes(prefix.as_deref().unwrap_or(b""));
    Ok(out.end())
}

/// Mounts what the bytes of another process say, on handles of this one.
#[unsafe(no_mangle)]
extern "C" fn dfs_global2local(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    glob: Iov,
    dfs: Out<Ptr<Mounted>>,
) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        dfs.set(mount_of_blob((poh, coh), flags, glob.bytes()?, false)?)?;
        Ok(())
    })
}

/// Flags 0 mean those of the mount that the bytes are of.
pub(super) fn mount_of_blob(
    (poh, coh): (Handle, Handle),
    flags: c_int,
    bytes: &[u8],
    owns: bool,
) -> PosixResult<Ptr<Mounted>> {
    let mut read = Reader::new(*b"DLMNTDFS", bytes)?;
    let uuid = read.bytes()?;
    let own_flags = c_int::try_from(read.number()?).map_err(|_wide| EINVAL)?;
    let snapshot = Some(read.number()?).filter(|&epoch| epoch != 0).map(Epoch);
    let prefix = read.bytes()?;
    if handle::cont(coh)?.client.uuid().as_bytes() != uuid {
        return Err(EINVAL);
    }
    let flags = if flags == 0 { own_flags } else { flags };
    let mounted = mount_on((poh, coh), flags, snapshot, owns)?;
    if !prefix.is_empty() {
        *mounted.prefix.write().unwrap_or_else(PoisonError::into_inner) = Some(prefix.to_vec());
    }
    table::insert(Arc::new(mounted))
}

/// As `dfs_local2global`, with what it takes to connect to the pool and open the container as well.
#[unsafe(no_mangle)]
extern "C" fn dfs_local2global_all(dfs: Ptr<Mounted>, glob: Out<Iov>) -> c_int {
    errno(|| Writer::new(blob_of_all(&*table::find(dfs)?)?).give(glob))
}

pub(super) fn blob_of_all(mounted: &Mounted) -> PosixResult<Vec<u8>> {
    let (pool, cont) = (handle::pool(mounted.pool)?, handle::cont(mounted.cont)?);
    let mut out = Writer::begin(*b"DLMNTALL");
    out.bytes(place::text(&pool.place).as_bytes());
    out.bytes(pool.uuid.as_bytes());
    out.bytes(cont.client.uuid().as_bytes());
    out.bytes(&blob_of(mounted)?);
    out.number(cont.flags.into());
    out.number(cont.word);
    Ok(out.end())
}

/// Connects to the pool, opens the container and mounts, as the bytes of another process say.
#[unsafe(no_mangle)]
extern "C" fn dfs_global2local_all(flags: c_int, glob: Iov, dfs: Out<Ptr<Mounted>>) -> c_int {
    errno(|| {
        let dfs = dfs.check()?;
        dfs.set(connect_of_blob(flags, glob.bytes()?)?)?;
        Ok(())
    })
}

pub(super) fn connect_of_blob(flags: c_int, bytes: &[u8]) -> PosixResult<Ptr<Mounted>> {
    let mut read = Reader::new(*b"DLMNTALL", bytes)?;
    let system = core::str::from_utf8(read.bytes()?).map_err(|_other| EINVAL)?;
    let mut uuid = || Uuid::from_slice(read.bytes()?).map_err(|_short| EINVAL);
    let (pool_uuid, cont_uuid) = (uuid()?, uuid()?);
    let inner = read.bytes()?;
    let shared = (u32::try_from(read.number()?).map_err(|_wide| EINVAL)?, read.number()?);
    let writable = match flags {
        0 => {
            let mut inner = Reader::new(*b"DLMNTDFS", inner)?;
            inner.bytes()?;
            inner.number()? & 3 == 2
        }
        flags => flags & libc::O_ACCMODE == libc::O_RDWR,
    };
    let (poh, pool) = connect_pool(place::system(Some(system))?, &pool_uuid.to_string(), writable)?;
    let name = ContName::Uuid(cont_uuid);
    let opened = match cont::wanted_again(shared) {
        OpenFor::Joining(_) => join_cont(&pool, &name, shared),
        _ => open_cont(&pool, &name, writable),
    };
    let mounted = opened.and_then(|coh| {
        let mounted = mount_of_blob((poh, coh), flags, inner, true);
        if mounted.is_err() {
            cont::daos_cont_close(coh, Ev::NULL);
        }
        mounted
    });
    if mounted.is_err() {
        crate::pool::daos_pool_disconnect(poh, Ev::NULL);
    }
    mounted
}
