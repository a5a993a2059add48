//! Mounts of Dolmen, and connections to what they show.
//!
//! Invariants: a mount is known by the number that the kernel never gives to another; what cannot be reached is left to the mount
//! for good.

use crate::heard::Heard;
use crate::place::STATX_MNT_ID_UNIQUE;
use crate::state::{settings, state};
use crate::system;
use crate::why::{Unreached, Why};
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use dolmen_client::{ContName, OpenFor, Options, Pool};
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_dfs::{Dfs, Dir, Leased, MountOptions};
use dolmen_env::{Clock as _, MOUNT_TYPE, RealClock};
use dolmen_net::client::{LinkOptions, reach};
use dolmen_types::{Credentials, Head, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Mounts that are remembered; more are looked at anew.
const KNOWN_MAX: usize = 256;
/// Directories that are remembered in one mount.
const DIRS_MAX: usize = 4096;
/// Files that the kernel has open in one mount; if there are more, nothing is taken any more.
const LEFT_MAX: usize = 65_536;

/// A mount whose container this process has open itself.
pub(crate) struct Mounted {
    pub(crate) id: u64,
    /// Where it is, without a slash at the end.
    root: Vec<u8>,
    /// The files. Lists of access have no say here, so that what is made takes one question less.
    dfs: Dfs,
    /// The same, where they have.
    listed: Dfs,
    /// Whether anything may be changed.
    pub(crate) writes: bool,
    pub(crate) heard: Arc<Heard>,
    /// Guards: directories by number; taken alone.
    dirs: RwLock<BTreeMap<u64, KnownDir>>,
    /// Guards: numbers of files that the kernel has, or has had, open; taken alone.
    left: RwLock<BTreeSet<u64>>,
    /// The mount has the kernel remember things for a time that nobody cuts short.
    remembers: bool,
    has_changed: AtomicBool,
    /// Guards: directories whose times may wait to be recorded; taken alone.
    touched: Mutex<BTreeSet<u64>>,
    /// Whether there are any.
    is_touched: AtomicBool,
}

/// A directory of a mount.
struct KnownDir {
    dir: Dir,
    /// When it was seen without a list by default.
    plain_ns: u64,
    /// When the kernel has let this process make entries of it, and how the directory was then.
    let_in: (u64, Rights),
    /// That its name still led to it.
    home: Leased,
}

/// What the kernel goes by when it lets somebody in to a directory: mode, owner, group, and when they or a list were changed.
type Rights = (u16, u32, u32, i64, u32);

/// What was seen is believed for so long.
const SECOND_NS: u64 = 1_000_000_000;

/// How a mount says that its files are reached.
struct Announced {
    system: String,
    pool: Uuid,
    cont: Uuid,
    writes: bool,
}

enum Known {
    /// To be left alone.
    Foreign,
    /// To be connected to, if more than so many calls come.
    Announced {
        said: Announced,
        root: PathBuf,
        calls: AtomicU32,
    },
    Connected(Arc<Mounted>),
}

/// All that are known to this process.
#[derive(Default)]
pub(crate) struct Mounts {
    /// Guards: why nothing is taken, as far as is known; taken alone.
    why: Mutex<Option<Why>>,
    /// The kernel does not tell mounts from each other.
    is_old_kernel: AtomicBool,
    /// Guards: the map; taken alone.
    known: RwLock<BTreeMap<u64, Arc<Known>>>,
    /// Guards: nothing; held while a connection is made, so that one thread does.
    connecting: Mutex<()>,
}

/// Gives all connections up, as they are: the program wants the number of one of their descriptors for something else.
pub(crate) fn abandon() {
    crate::guard::inside((), || {
        crate::settle::all();
        crate::state::turn_off();
        mounts().stop_listening();
        mounts().forget();
        dolmen_env::forget_apart();
    });
}

impl Mounts {
    /// Whether this process has changed anything by itself.
    pub(crate) fn has_changed(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|known| matches!(&**known, Known::Connected(mounted) if mounted.has_changed()))
    }

    /// Ends the library's threads, until something is looked for again.
    pub(crate) fn stop_listening(&self) {
        let known: Vec<_> =
            self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for known in known {
            if let Known::Connected(mounted) = &*known {
                mounted.heard.stop();
            }
        }
    }

    /// Before the kernel tells of a directory: its times, if this process has changed it.
    pub(crate) fn record_times_at(&self, dir: c_int, path: &CStr) {
        if !self.has_touched() {
            return;
        }
        let mask = libc::STATX_INO | STATX_MNT_ID_UNIQUE;
        let Ok(found) = system::statx(dir, path, libc::AT_STATX_DONT_SYNC, mask) else { return };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&found.stx_mnt_id).cloned();
        if let Some(Known::Connected(mounted)) = known.as_deref() {
            mounted.record_times_of(found.stx_ino);
        }
    }

    /// Whether times of directories may wait.
    pub(crate) fn has_touched(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_touched = |mounted: &Mounted| mounted.is_touched.load(Ordering::Relaxed);
        known.values().any(|known| matches!(&**known, Known::Connected(mounted) if is_touched(mounted)))
    }

    /// Records times of directories that wait for it: the process ends, or becomes another.
    pub(crate) fn record_times(&self) {
        let known: Vec<_> =
            self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for known in known {
            if let Known::Connected(mounted) = &*known {
                mounted.record_times();
            }
        }
    }

    /// Leaves all mounts alone, and their connections untouched for ever: nothing of them is closed.
    fn forget(&self) {
        let known = core::mem::take(&mut *self.known.write().unwrap_or_else(PoisonError::into_inner));
        core::mem::forget(known);
    }

    /// The connection to the mount that a directory is on, of which `found` tells; `None` if it is to be left alone.
    pub(crate) fn of(&self, found: &libc::statx, dir: c_int, path: &CStr) -> Option<Arc<Mounted>> {
        if found.stx_dev_major != 0 {
            return None;
        }
        let id = found.stx_mnt_id;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let known = known.unwrap_or_else(|| self.keep(id, self.look(dir, path)));
        match &*known {
            Known::Foreign => None,
            Known::Connected(mounted) => Some(Arc::clone(mounted)),
            Known::Announced { calls, .. } if calls.fetch_add(1, Ordering::Relaxed) < settings().after => {
                None
            }
            Known::Announced { said, root, .. } => self.connect(id, said, root),
        }
    }

    fn keep(&self, id: u64, known: Known) -> Arc<Known> {
        let known = Arc::new(known);
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KNOWN_MAX {
            // Those that are in use stay, in what is open.
            all.retain(|_, known| matches!(**known, Known::Connected(_)));
        }
        all.insert(id, Arc::clone(&known));
        known
    }

    /// What a mount says of itself.
    fn look(&self, dir: c_int, path: &CStr) -> Known {
        match announced(dir, path) {
            Some(Ok(known)) => known,
            Some(Err(why)) => {
                self.note(why);
                Known::Foreign
            }
            None => Known::Foreign,
        }
    }

    /// Notes why a mount is left alone. The last reason is told.
    fn note(&self, why: Why) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Notes that the kernel gives mounts no numbers of their own.
    pub(crate) fn note_old_kernel(&self) {
        self.is_old_kernel.store(true, Ordering::Relaxed);
    }

    /// Why nothing was taken.
    pub(crate) fn why(&self) -> Why {
        if settings().is_off {
            return Why::Off;
        }
        if let Some(why) = self.why.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return why;
        }
        if crate::state::is_off() {
            return Why::Another;
        }
        if self.is_old_kernel.load(Ordering::Relaxed) {
            return Why::OldKernel;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let waits = known.values().find_map(|known| match &**known {
            Known::Announced { root, calls, .. } => {
                Some(Why::Few { root: root.clone(), calls: calls.load(Ordering::Relaxed) })
            }
            Known::Connected(_) => Some(Why::Handed),
            Known::Foreign => None,
        });
        waits.unwrap_or(Why::NoMount)
    }

    fn connect(&self, id: u64, said: &Announced, root: &Path) -> Option<Arc<Mounted>> {
        let connecting = self.connecting.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        match known.as_deref() {
            Some(Known::Connected(mounted)) => return Some(Arc::clone(mounted)),
            Some(Known::Foreign) => return None,
            _ => {}
        }
        dolmen_env::keep_apart();
        dolmen_env::look_while_waiting(crate::guard::let_end);
        let reached = if system::is_itself() { reached(said) } else { Err(Unreached::NotItself) };
        let reached =
            reached.inspect_err(|why| self.note(Why::Unreached { root: root.into(), why: why.clone() }));
        let made = reached.ok().map(|(heard, dfs, listed)| {
            let root = root.as_os_str().as_bytes();
            Arc::new(Mounted {
                id,
                root: root.strip_suffix(b"/").unwrap_or(root).to_vec(),
                dfs,
                listed,
                writes: said.writes,
                remembers: !heard.has_leases(),
                heard: Arc::new(heard),
                dirs: RwLock::default(),
                left: RwLock::default(),
                has_changed: AtomicBool::new(false),
                touched: Mutex::default(),
                is_touched: AtomicBool::new(false),
            })
        });
        self.keep(id, made.as_ref().map_or(Known::Foreign, |mounted| Known::Connected(Arc::clone(mounted))));
        drop(connecting);
        made
    }
}

/// What a mount says of itself, or why it says nothing; `None` if it is none of ours.
fn announced(dir: c_int, path: &CStr) -> Option<Result<Known, Why>> {
    let number = system::statx(dir, path, libc::AT_STATX_DONT_SYNC, libc::STATX_MNT_ID).ok()?.stx_mnt_id;
    let mount = dolmen_env::mounted_as(number).ok()??;
    if mount.kind != MOUNT_TYPE {
        return None;
    }
    if mount.root.as_os_str() != "/" {
        return Some(Err(Why::Part(mount.dir)));
    }
    if !mount.is_trusted_by(dolmen_env::user_id()) {
        return Some(Err(Why::Others { root: mount.dir, user: mount.user }));
    }
    let said = said_by(&mount.dir, number);
    Some(match said {
        Some(said) => Ok(Known::Announced { said, root: mount.dir, calls: AtomicU32::new(0) }),
        None => Err(Why::Silent(mount.dir)),
    })
}

/// What the mount with this number says, if it still is what `root` leads to.
fn said_by(root: &Path, number: u64) -> Option<Announced> {
    let path = CString::new(root.as_os_str().as_bytes()).ok()?;
    let fd =
        system::open_at(libc::AT_FDCWD, &path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC).ok()?;
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let found = system::statx(fd, c"", flags, libc::STATX_MNT_ID);
    let link = found.is_ok_and(|found| found.stx_mnt_id == number).then(|| format!("/proc/self/fd/{fd}"));
    let link = link.and_then(|link| CString::new(link).ok());
    let about = link.and_then(|link| system::attribute(&link, c"user.dolmen.mount"));
    system::close(fd);
    let about = String::from_utf8(about?).ok()?;
    let value = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Some(Announced {
        system: value("system")?.to_owned(),
        pool: Uuid::try_parse(value("pool")?).ok()?,
        cont: Uuid::try_parse(value("cont")?).ok()?,
        writes: value("access")? == "rw",
    })
}

/// The connection, and the files, as this process is let in to them by itself: without and with a say of lists of access.
fn reached(said: &Announced) -> Result<(Heard, Dfs, Dfs), Unreached> {
    let (uid, gid, _) = system::identity();
    let cred = Credentials { uid, gid, project: 0 };
    let daemon = |error| Unreached::Daemon { system: said.system.clone(), error };
    let addresses = reach::addresses(&said.system).map_err(daemon)?;
    let addresses = addresses.ok_or_else(|| Unreached::Unknown { system: said.system.clone() })?;
    let link = reach::system(&addresses, &LinkOptions::default()).map_err(daemon)?;
    let account = dolmen_env::account(uid).map_err(Unreached::Account)?;
    let head = Head { cred, job: account.job, tenant: account.tenant, ..Head::default() };
    let (access, wanted) = match said.writes {
        true => (PoolAccess::ReadWrite, OpenFor::Change),
        false => (PoolAccess::ReadOnly, OpenFor::Any),
    };
    let of_pool = |error| Unreached::Pool { uid, error };
    let remote = Arc::new(reach::pool(&link, &head, PoolName::Uuid(said.pool), access).map_err(of_pool)?);
    let pool = Pool::connect_with(remote.clone(), Options::like(&head).map_err(of_pool)?).map_err(of_pool)?;
    let cont = pool.open_container_for(&ContName::Uuid(said.cont), wanted);
    let cont = cont.map_err(|error| Unreached::Cont { uid, error })?;
    let keeps = MountOptions { atime: true, exact_blocks: true, ..MountOptions::default() };
    let options =
        MountOptions { read_only: !said.writes, shared: true, tells_opens: true, uid, gid, ..keeps };
    let listed = MountOptions { acls: true, ..options.clone() };
    let mount = |options| Dfs::mount(&cont, options).map_err(Unreached::Files);
    Ok((Heard::new(remote), mount(&options)?, mount(&listed)?))
}

impl Mounted {
    /// The directory with the number that `found` tells, which is at `path`; `None` if it is none of the container as it is now.
    pub(crate) fn dir(&self, found: &libc::statx, dir: c_int, path: &CStr) -> Option<Dir> {
        let ino = found.stx_ino;
        if let Some(known) = self.dirs.read().unwrap_or_else(PoisonError::into_inner).get(&ino) {
            return Some(known.dir.clone());
        }
        let opened = self.dir_in(&self.dfs, found, dir, path)?;
        let mut dirs = self.dirs.write().unwrap_or_else(PoisonError::into_inner);
        if dirs.len() >= DIRS_MAX {
            dirs.clear();
        }
        dirs.insert(
            ino,
            KnownDir {
                dir: opened.clone(),
                plain_ns: 0,
                let_in: (0, Rights::default()),
                home: Leased::default(),
            },
        );
        Some(opened)
    }

    /// The same directory, where lists of access have a say.
    pub(crate) fn listed_dir(&self, found: &libc::statx, dir: c_int, path: &CStr) -> Option<Dir> {
        self.dir_in(&self.listed, found, dir, path)
    }

    /// Whether a directory gives what is made in it no list of access, as was seen within the last second.
    pub(crate) fn is_plain(&self, ino: u64, dir: &Dir) -> bool {
        let now_ns = RealClock.monotonic_ns();
        let seen_ns =
            self.dirs.read().unwrap_or_else(PoisonError::into_inner).get(&ino).map(|known| known.plain_ns);
        if seen_ns.is_some_and(|seen_ns| seen_ns > 0 && now_ns - seen_ns < SECOND_NS) {
            return true;
        }
        if !matches!(dir.obj().xattr(b"system.posix_acl_default"), Err(dolmen_dfs::Error::NoAttribute)) {
            return false;
        }
        if let Some(known) = self.dirs.write().unwrap_or_else(PoisonError::into_inner).get_mut(&ino) {
            known.plain_ns = now_ns;
        }
        true
    }

    /// Whether the kernel lets this process make entries of a directory of which `found` tells, as it has said within the last second
    /// while that was the same, or as `ask` says.
    pub(crate) fn may_add(&self, found: &libc::statx, ask: impl FnOnce() -> bool) -> bool {
        let changed = (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec);
        let rights = (found.stx_mode, found.stx_uid, found.stx_gid, changed.0, changed.1);
        let now_ns = RealClock.monotonic_ns();
        let known = self.dirs.read().unwrap_or_else(PoisonError::into_inner);
        let let_in = known.get(&found.stx_ino).map(|known| known.let_in);
        drop(known);
        if let_in.is_some_and(|(seen_ns, seen)| seen == rights && now_ns - seen_ns < SECOND_NS) {
            return true;
        }
        let may = ask();
        let mut dirs = self.dirs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = dirs.get_mut(&found.stx_ino).filter(|_| may) {
            known.let_in = (now_ns, rights);
        }
        may
    }

    fn dir_in(&self, dfs: &Dfs, found: &libc::statx, dir: c_int, path: &CStr) -> Option<Dir> {
        let fd = system::open_at(dir, path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC).ok()?;
        let link = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
        let full = system::read_link(&link);
        system::close(fd);
        let full = full?;
        let inner = full.strip_prefix(&self.root[..]).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
        let opened = dfs.open_dir(if inner.is_empty() { b"/" } else { inner }).ok()?;
        (opened.stat_self().ok()?.ino == found.stx_ino).then_some(opened)
    }

    /// Whether a directory is still where it was found.
    pub(crate) fn is_at_home(&self, ino: u64, dir: &Dir) -> bool {
        let now_ns = RealClock.monotonic_ns();
        let dirs = self.dirs.read().unwrap_or_else(PoisonError::into_inner);
        if dirs.get(&ino).is_some_and(|known| known.home.holds(now_ns)) {
            return true;
        }
        drop(dirs);
        let (is_there, home) = self.heard.leased(|| dir.stat_self().is_ok());
        if let Some(known) = self.dirs.write().unwrap_or_else(PoisonError::into_inner).get_mut(&ino) {
            known.home = home;
        }
        is_there
    }

    /// Notes that this process has moved directories: where they are is looked at anew.
    pub(crate) fn note_moved(&self) {
        for known in self.dirs.write().unwrap_or_else(PoisonError::into_inner).values_mut() {
            known.home = Leased::default();
        }
    }

    /// Forgets where a directory is.
    pub(crate) fn forget_dir(&self, ino: u64) {
        let forgotten = self.dirs.write().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        drop(forgotten);
    }

    /// Leaves a file to the kernel, for good.
    pub(crate) fn leave(&self, ino: u64) {
        let mut left = self.left.write().unwrap_or_else(PoisonError::into_inner);
        left.insert(ino);
        if left.len() > LEFT_MAX {
            crate::state::turn_off();
        }
    }

    /// Whether a file is the kernel's.
    pub(crate) fn is_left(&self, ino: u64) -> bool {
        self.left.read().unwrap_or_else(PoisonError::into_inner).contains(&ino)
    }

    /// Notes that a file was changed without the kernel, which may remember something else.
    pub(crate) fn note_change(&self, ino: u64) {
        self.heard.note_change(ino);
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// The same of a name that was made, removed or replaced.
    pub(crate) fn note_name(&self, dir: u64, name: &[u8]) {
        self.heard.note_name(dir, name);
        self.has_changed.store(true, Ordering::Relaxed);
        let mut touched = self.touched();
        if touched.len() < DIRS_MAX {
            touched.insert(dir);
        }
        drop(touched);
        self.is_touched.store(true, Ordering::Relaxed);
    }

    fn touched(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the times of a directory that wait, so that the kernel finds them.
    pub(crate) fn record_times_of(&self, ino: u64) {
        if !self.is_touched.load(Ordering::Relaxed) || !self.touched().remove(&ino) {
            return;
        }
        let dirs = self.dirs.read().unwrap_or_else(PoisonError::into_inner);
        let dir = dirs.get(&ino).map(|known| known.dir.clone());
        drop(dirs);
        // Ignored: then they wait on.
        _ = dir.map(|dir| dir.record_times());
    }

    /// All of them, at the end.
    fn record_times(&self) {
        if self.is_touched.swap(false, Ordering::Relaxed) {
            self.touched().clear();
            // Ignored: everything else is stored.
            _ = self.dfs.sync();
        }
    }

    /// Whether the kernel may remember what is no more.
    pub(crate) fn has_changed(&self) -> bool {
        self.remembers && self.has_changed.load(Ordering::Relaxed)
    }
}

/// The mounts of this process.
pub(crate) fn mounts() -> &'static Mounts {
    &state().mounts
}
