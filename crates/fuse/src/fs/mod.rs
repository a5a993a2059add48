//! The kernel's operations, done on a mounted container.

mod attrs;
mod dirs;
mod files;
mod locks;
mod names;
mod quota;
mod snapshots;

pub(crate) use attrs::{ABOUT, tell_sized};
pub(crate) use dirs::Listing;

use crate::abi::reply::Out;
use crate::abi::request::{Caller, Op, Request};
use crate::abi::{DATA_BYTES_MAX, errno, init, notify};
use crate::about::About;
use crate::handles::{Handles, Open};
use crate::notes::Notes;
use crate::options::{Options, Timeouts};
use crate::table::{Node, Table, View, What};
use crate::told::{Dropped, Told};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_dfs::lock::LockFamily;
use dolmen_dfs::{Cred, Dfs, Dir, Error, FileKind, Lease, Leased, Locks, Obj, errno as number};
use dolmen_env::{Clock, RealClock};
use dolmen_types::Oid;
use snapshots::Snapshots;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of one operation: what it found is in the reply, or the system's number, positive.
pub(crate) type Done<T = ()> = Result<T, i32>;

/// What an operation found, and what the kernel has to give back some time if it hears of it.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) out: Out,
    pub(crate) looked_up: Vec<u64>,
    pub(crate) opened: Option<u64>,
    /// It cannot be done yet: to be asked again.
    pub(crate) waits: bool,
    /// Attributes of this number that the kernel remembers may be of the past: it is told so before it gets the reply.
    pub(crate) outdated: Option<u64>,
    /// It has written to a file whose contents the kernel may have.
    wrote: Option<u64>,
}

impl Reply {
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.looked_up.clear();
        self.opened = None;
        self.waits = false;
        self.outdated = None;
        self.wrote = None;
    }

    pub(crate) fn outdated(&self) -> Option<u64> {
        self.outdated
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    pub(crate) fn take_wrote(&mut self) -> Option<u64> {
        self.wrote.take()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.out.as_slice()
    }
}

/// For how long names are remembered at most that the kernel cannot be told to look up anew.
const NAMES_MAX: Duration = Duration::from_secs(1);

/// A mounted container, as the kernel sees it. Any number of threads may use it at once.
pub struct Fs {
    dfs: Dfs,
    options: Options,
    table: Table,
    handles: Handles,
    snapshots: Snapshots,
    told: Told,
    /// The kernel can be told to look up all names anew.
    has_epoch: AtomicBool,
    /// Where several mounts share locks.
    locks: Option<Locks>,
    notes: Notes,
    /// What an attribute of the root says of who serves it.
    about: About,
    /// On whose behalf all is done whoever a request names, and whose rights are looked at; `None` if the kernel does that.
    user: Option<Arc<Cred>>,
}

impl core::fmt::Debug for Fs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fs").field("dfs", &self.dfs).finish_non_exhaustive()
    }
}

impl Fs {
    /// Serves `dfs`. `about` is what extended attribute `user.dolmen.mount` of the root says; `tell` gets damage and other
    /// things that the kernel has no words for, once each, and may be called by any thread.
    ///
    /// # Errors
    /// Those of the store, from a look at the root.
    pub fn new(
        dfs: Dfs,
        options: Options,
        about: &str,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> dolmen_dfs::Result<Self> {
        Self::with_user(dfs, options, about, None, tell)
    }

    /// The same, on behalf of a user whose rights are looked at, if there is one.
    pub(crate) fn with_user(
        dfs: Dfs,
        options: Options,
        about: &str,
        user: Option<Cred>,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> dolmen_dfs::Result<Self> {
        let dfs = match &user {
            Some(cred) => dfs.as_user(cred.clone()),
            None => dfs,
        };
        let root = dfs.obj();
        let ino = root.stat()?.ino;
        let table = Table::new(Node { view: 0, what: What::Obj(root) }, ino);
        Ok(Self {
            snapshots: Snapshots::new(&dfs),
            locks: options.locks.map(|holder| Locks::new(&dfs, holder)),
            dfs,
            options,
            table,
            handles: Handles::default(),
            told: Told::default(),
            has_epoch: AtomicBool::new(false),
            notes: Notes::new(tell),
            about: About::new(about),
            user: user.map(Arc::new),
        })
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// How it behaves.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many files and directories the kernel remembers.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.table.len()
    }

    /// Records what waits to be recorded, and has all that was answered before survive the loss of power.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sync(&self) -> dolmen_dfs::Result<()> {
        if self.dfs.is_read_only() { Ok(()) } else { self.dfs.sync().and_then(|()| self.dfs.flush()) }
    }

    /// Tells something once.
    pub(crate) fn note(&self, text: &str) {
        self.notes.once(text);
    }

    /// The system's number for an error; what it has no word for is told.
    fn number(&self, error: &Error) -> i32 {
        let errno = match error.is_of_rights() {
            true => self.dfs.obj().errno_of(error),
            false => error.errno(),
        };
        match errno {
            _ if error.is_damage() => {
                self.note(&error.to_string());
                number::EIO
            }
            number::EHOSTUNREACH | number::ETIMEDOUT | number::ERESTART => {
                self.note(&error.to_string());
                number::EIO
            }
            number::ESTALE if error.is_of_rights() => {
                self.note(
                    "the engine lets this mount in no more: its pool or container was destroyed, or taken from its user; every use of it is \
                     ESTALE until it is unmounted",
                );
                number::ESTALE
            }
            number::ESTALE if error.is_of_past() => {
                self.note(
                    "somebody reads what is not kept any more: a snapshot that this mount shows, or that is read in .snapshots, was \
                     destroyed; its files are ESTALE",
                );
                number::ESTALE
            }
            number::EACCES if error.is_of_rights() => {
                self.note("the engine lets this mount do less than it could: what its lists do not allow any more is EACCES");
                number::EACCES
            }
            other => other,
        }
    }

    fn done<T>(&self, done: dolmen_dfs::Result<T>) -> Done<T> {
        done.map_err(|error| self.number(&error))
    }

    fn timeouts(&self, view: View) -> Timeouts {
        let timeouts = self.options.timeouts();
        if view == 0 { timeouts } else { snapshots::TIMEOUTS }
    }

    /// Has the kernel ask for the attributes of `number` when it needs them, whatever it was told for how long.
    fn outdates(&self, number: u64, reply: &mut Reply) {
        reply.outdated = Some(number).filter(|_| self.options.timeouts().attrs > Duration::ZERO);
    }

    /// Whether what is found there is asked for with leases.
    fn takes_leases(&self, view: View) -> bool {
        view == 0 && self.options.leases && self.options.timeouts().attrs > Duration::ZERO
    }

    /// What `look` finds in a view, with leases if there are any there.
    fn look<T>(&self, view: View, look: impl FnOnce() -> T) -> (T, Leased) {
        if self.takes_leases(view) { dolmen_dfs::leased(look) } else { (look(), Leased::default()) }
    }

    /// For how long the kernel may believe in what was found of `number` with these leases. What a mount has made itself it has
    /// not looked at: the kernel asks for it anew.
    fn timeouts_under(&self, number: u64, view: View, leased: &Leased) -> Timeouts {
        let timeouts = self.timeouts(view);
        if !self.takes_leases(view) {
            return timeouts;
        }
        let attrs = self.told.tell(number, leased, timeouts.attrs, RealClock.monotonic_ns());
        let has_epoch = self.has_epoch.load(Ordering::Relaxed);
        Timeouts { names: if has_epoch { attrs } else { timeouts.names.min(NAMES_MAX) }, attrs }
    }

    /// These leases are void, each with the object that it was on, if that is known; or all are. What the kernel is to be told.
    pub(crate) fn void(&self, void: &[(Lease, Option<Oid>)], all: bool) -> Vec<Dropped> {
        let now_ns = RealClock.monotonic_ns();
        if all {
            return self.told.void_all(now_ns);
        }
        // A file's record is in its directory, or in its companion.
        let of_contents = |number, on: Option<Oid>| match self.table.find(number) {
            Some(Node { what: What::Obj(obj), .. }) => obj.kind() == FileKind::File && on == Some(obj.oid()),
            _ => false,
        };
        self.told.void(void, now_ns, of_contents)
    }

    /// What was read without a lease, and is not to be kept.
    pub(crate) fn take_uncovered(&self) -> BTreeSet<u64> {
        self.told.take_uncovered()
    }

    /// Has this called whenever there is something of the kind.
    pub(crate) fn when_uncovered(&self, call: impl Fn() + Send + Sync + 'static) {
        self.told.when_uncovered(call);
    }

    /// Gives leases back that nobody needs any more.
    pub(crate) fn drop_old(&self) {
        self.told.drop_old(RealClock.monotonic_ns());
    }

    /// A write was answered; whether what the kernel has of the file is to be dropped.
    pub(crate) fn end_write(&self, number: u64) -> bool {
        self.told.end_write(number)
    }

    pub(crate) fn has_epoch(&self) -> bool {
        self.has_epoch.load(Ordering::Relaxed)
    }

    fn node(&self, number: u64) -> Done<Node> {
        self.table.find(number).ok_or(number::ESTALE)
    }

    fn obj(&self, number: u64) -> Done<Obj> {
        match self.node(number)?.what {
            What::Obj(obj) => Ok(obj),
            What::Snapshots => Err(number::EPERM),
        }
    }

    /// The directory `number`, as `caller` adds to it.
    fn dir_of(&self, number: u64, caller: Caller, umask: u32) -> Done<Dir> {
        let dir = self.dir(number)?;
        if let Some(user) = &self.user {
            let Caller { uid, gid, .. } = caller;
            return Ok(dir.as_user(&Arc::new(Cred { uid, gid, groups: user.groups.clone(), umask })));
        }
        // Root needs no groups, and the kernel knows those of all others: they are asked for only where they decide.
        let groups = if caller.uid == 0 { Vec::new() } else { dolmen_env::groups_of(caller.pid) };
        let cred = Cred { uid: caller.uid, gid: caller.gid, groups, umask };
        Ok(dir.as_user(&Arc::new(cred)))
    }

    fn dir(&self, number: u64) -> Done<Dir> {
        let obj = self.obj(number)?;
        self.done(obj.as_dir())
    }

    /// Who asks: of a user whose rights are looked at, no request says who he is.
    fn caller_of(&self, request: &Request<'_>) -> Caller {
        let named = request.caller;
        self.user.as_ref().map_or(named, |user| Caller { uid: user.uid, gid: user.gid, ..named })
    }

    /// Whether all is done for a user whose rights are looked at, and who is not root.
    fn is_guest(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.uid != 0)
    }

    /// What was made on somebody's behalf, as it is used from then on.
    fn kept(&self, made: &Obj) -> Obj {
        match &self.user {
            Some(user) => made.as_user(user),
            None => made.unchecked(),
        }
    }

    /// How many files and directories are open.
    pub(crate) fn open_count(&self) -> usize {
        self.handles.len()
    }

    /// How many directories are.
    pub(crate) fn open_dir_count(&self) -> usize {
        self.handles.dir_count()
    }

    /// Gives back what the kernel has not heard of.
    pub(crate) fn take_back(&self, reply: &mut Reply) {
        for number in reply.looked_up.drain(..) {
            drop(self.table.forget(number, 1));
        }
        if let Some(handle) = reply.opened.take() {
            self.close(handle);
        }
    }

    fn close(&self, handle: u64) {
        if let Some(Open::File(open)) = self.handles.remove(handle) {
            open.number.into_iter().for_each(|number| self.told.closed(number));
        }
    }

    fn opened(&self, open: Open, reply: &mut Reply) -> u64 {
        let handle = self.handles.add(open);
        reply.opened = Some(handle);
        handle
    }

    /// Does what is asked.
    pub(crate) fn serve(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let (node, caller) = (request.node, self.caller_of(request));
        match &request.op {
            Op::Init { major, minor, readahead_bytes, flags } => {
                let answer = init::answer(
                    *major,
                    *minor,
                    *readahead_bytes,
                    *flags,
                    init::Keeps::of(self.keeps_locks()),
                );
                let answer = answer.ok_or(errno::EPROTO)?;
                self.has_epoch.store(notify::has_names(*major, *minor), Ordering::Relaxed);
                reply.out.bytes(&answer);
                Ok(())
            }
            Op::Destroy => {
                self.leave_locks();
                self.done(self.sync())
            }
            Op::Interrupt { .. } => Ok(()),
            Op::Forget(forgotten) => {
                for (number, lookups) in forgotten {
                    drop(self.table.forget(*number, *lookups));
                }
                Ok(())
            }
            Op::Lookup { name } => self.lookup(node, caller, name, reply),
            Op::SymLink { .. } | Op::MkNod { .. } | Op::MkDir { .. } | Op::Link { .. } => {
                self.make(node, caller, &request.op, reply)
            }
            Op::Unlink { name } => self.unlink(node, name),
            Op::RmDir { name } => self.rmdir(node, name),
            Op::Rename { name, new_dir, new_name, flags } => {
                self.rename((node, name), (*new_dir, new_name), *flags)
            }
            Op::Create { name, flags, mode, umask } => {
                self.create(self.dir_of(node, caller, *umask)?, name, *flags, *mode, reply)
            }
            Op::TmpFile { flags, mode, umask } => {
                self.tmpfile(&self.dir_of(node, caller, *umask)?, *flags, *mode, reply)
            }
            Op::ReadLink => self.readlink(node, reply),
            Op::Open { flags } => self.open(node, caller, *flags, reply),
            Op::GetXattr { name, room_bytes } if *name == quota::NAME => {
                self.tell_quota(caller.uid, *room_bytes, reply)
            }
            other => self.serve_object(node, other, reply),
        }
    }

    /// Does what concerns one thing, and no names.
    fn serve_object(&self, node: u64, op: &Op<'_>, reply: &mut Reply) -> Done {
        match op {
            Op::GetAttr { .. } => self.getattr(node, reply),
            Op::SetAttr(attrs) => self.setattr(node, attrs, reply),
            Op::SetXattr { name, value, flags } => self.setxattr(node, name, value, *flags),
            Op::GetXattr { name, room_bytes } => self.getxattr(node, name, *room_bytes, reply),
            Op::ListXattr { room_bytes } => self.listxattr(node, *room_bytes, reply),
            Op::RemoveXattr { name } => self.removexattr(node, name),
            Op::StatFs => self.statfs(reply),
            // The kernel has checked it by what `getattr` told.
            Op::Access => Ok(()),
            Op::Read(range) => self.read(*range, reply),
            Op::Write { handle, offset, data, how } => self.write(*handle, *offset, data, *how, reply),
            Op::Flush { handle, owner } => {
                let ended = self.end_locks(*handle, LockFamily::Range, *owner);
                self.record(*handle).and(ended)
            }
            Op::FSync { handle } => self.sync_file(*handle),
            Op::Release { handle, whole_owner } => {
                let ended = whole_owner.map(|owner| self.end_locks(*handle, LockFamily::Whole, owner));
                self.close(*handle);
                ended.unwrap_or(Ok(()))
            }
            Op::ReleaseDir { handle } => {
                drop(self.handles.remove(*handle));
                Ok(())
            }
            Op::Lock(op) => self.lock(node, op, reply),
            Op::FAllocate { range, mode } => self.fallocate(*range, *mode),
            Op::LSeek { handle, offset, whence } => self.lseek(*handle, *offset, *whence, reply),
            Op::OpenDir => self.opendir(node, reply),
            Op::ReadDir { handle, offset, room_bytes, with_attrs } => {
                let room_bytes = (*room_bytes).min(DATA_BYTES_MAX) as usize;
                self.readdir(*handle, *offset, room_bytes, *with_attrs, reply)
            }
            // Names are stored when the operation that makes them returns, and last as long as the container says.
            Op::FSyncDir => self.done(self.dfs.flush()),
            Op::SyncFs => self.done(self.sync()),
            _ => Err(errno::ENOSYS),
        }
    }
}
