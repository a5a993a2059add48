//! What this process knows of a file or directory in use: one node an object, shared by all its handles.
//!
//! A node is where in-process rules are kept that the layout has no place for: whether a file is still open
//! when its last name goes, whether a directory was removed under a handle, and times not yet written.
//!
//! To know something is not to have it open: a door remembers many things that nobody uses. Only what is open goes to the list
//! of orphans with its last name.
//!
//! Invariants: nobody begins to have a file open while its last name may be going; at most one live node an object and mount (the table holds weak references and a node takes
//! itself out when it dies); a node's home is where its inode record lies, except between a commit that moves
//! the record and the assignment that follows it under the same lock of the entry.

use crate::acl::Acls;
use crate::attr::Stat;
use crate::error::{Error, Result};
use crate::layout::device_no::DeviceNo;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::is_companion;
use crate::mount::Mount;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use dolmen_types::{Key, ObjectClass, Oid};
use hashbrown::{DefaultHashBuilder, HashMap};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};

/// Where an inode record lies: an entry of a directory, the root's entry in the superblock object, a
/// companion, or an entry of the orphan list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) oid: Oid,
    pub(crate) dkey: Key,
}

impl Slot {
    pub(crate) fn new(oid: Oid, dkey: &[u8]) -> Self {
        Self { oid, dkey: Key::from_slice(dkey) }
    }
}

/// A node's home and, for a directory, the way up.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) slot: Slot,
    /// `None` for the root, and for files, which are not gone up from.
    pub(crate) parent: Option<Arc<Node>>,
}

/// Where a node's record lay when somebody looked: whether it was moved meanwhile is told by [`Mount::has_moved`].
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    /// What [`Node::moves`] was then.
    pub(crate) moves: u64,
}

/// The owner of a file whose record was not seen: nobody can be made that.
pub(crate) const NO_OWNER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) mount: Arc<Mount>,
    pub(crate) oid: Oid,
    pub(crate) kind: FileKind,
    /// Chunk of the file.
    pub(crate) chunk_bytes: u64,
    /// Of a directory, what its new entries get (0: the container's).
    new_chunk_bytes: AtomicU64,
    new_class: AtomicU32,
    /// Guards: the home; taken after gates and stripes, no other lock under it.
    home: Mutex<Home>,
    /// How often the home was set; changed under its lock. What is moved away and back is where it was, and was not there meanwhile.
    moves: AtomicU64,
    /// Guards: that a directory stays while an entry is added (shared), or goes (exclusive); that a file's end
    /// stays while it is read or written (shared), or moves (exclusive). Taken after `Mount::tree`.
    pub(crate) gate: RwLock<()>,
    /// A directory that was removed, or a file whose last name was: its record is in the orphan list, or it is gone.
    removed: AtomicBool,
    /// Guards: who has it open; no other lock is taken under it.
    uses: Mutex<Uses>,
    /// A removal has ended.
    settled: Condvar,
    /// Guards: whether other mounts are told that it is open; held while the engine is asked, and no other lock but `uses` is taken
    /// under it.
    told_open: Mutex<bool>,
    /// A file that was made without a name, and may get one.
    nameable: AtomicBool,
    /// Another mount has moved or removed it, as the last look at its record has shown.
    lost: AtomicBool,
    /// It was looked for in vain since it was found by a path.
    sought: AtomicBool,
    /// Owner, group and mode as last seen: what access checks of a path's directories use.
    uid: AtomicU32,
    gid: AtomicU32,
    mode: AtomicU32,
    /// Guards: access control lists of a directory as last seen, and how often they were forgotten; taken alone.
    lists: Mutex<(u64, Option<Arc<Acls>>)>,
    /// Guards: names by which a file was found here whose record lies beside them, the latest last; taken alone.
    names: Mutex<VecDeque<Slot>>,
    /// Changes of content by this mount.
    changes: AtomicU64,
    /// Guards: what a file takes up, as last looked at; taken alone.
    blocks: Mutex<Blocks>,
    /// Last change of content, nanoseconds since the Unix epoch, if it is not in the record yet; else 0.
    pending_mtime_ns: AtomicU64,
    /// The change time in the record, nanoseconds since the Unix epoch.
    recorded_mtime_ns: AtomicU64,
    /// The last change that could not be recorded.
    tried_mtime_ns: AtomicU64,
    /// Last access, if it is not recorded yet; else 0.
    pending_atime_ns: AtomicU64,
    /// Last access and last change of attributes as last seen in the store; of the former 0 before anybody has looked.
    seen_atime_ns: AtomicU64,
    seen_ctime_ns: AtomicU64,
}

/// Who has a file open.
#[derive(Debug, Default)]
struct Uses {
    /// Open handles.
    opens: u64,
    /// Removals of a name under way: until they have ended, nobody opens it.
    removals: u64,
    /// Nothing is left of it but what is remembered here.
    gone: bool,
}

/// A file that is open, for as long as this lives.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Node>);

impl InUse {
    /// Opens it; if its name is being removed, when that has ended.
    ///
    /// # Errors
    /// `Stale` if nothing is left of it.
    pub(crate) fn new(node: &Arc<Node>) -> Result<Self> {
        let mut uses = node.uses();
        while uses.removals > 0 {
            uses = node.settled.wait(uses).unwrap_or_else(PoisonError::into_inner);
        }
        if uses.gone {
            return Err(Error::Stale);
        }
        uses.opens += 1;
        drop(uses);
        Ok(Self(Arc::clone(node)))
    }

    /// As [`InUse::new`], of a file, which other mounts are told of: whoever removes it keeps it for this one. Whether it was seen
    /// to be there since, which what is new need not be.
    ///
    /// # Errors
    /// `Stale` if another mount has moved or removed it; those of the store.
    pub(crate) fn told(node: &Arc<Node>, is_new: bool) -> Result<(Self, bool)> {
        let in_use = Self::new(node)?;
        let was_seen = node.tell_open(is_new)?;
        Ok((in_use, was_seen))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0
    }
}

impl Clone for InUse {
    fn clone(&self) -> Self {
        // Not by `new`: a removal under way has seen this one.
        self.0.uses().opens += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut uses = self.0.uses();
        assert!(uses.opens > 0, "whoever closes it has opened it");
        uses.opens -= 1;
        let (is_last, is_closed) = (self.0.takes_last(&mut uses), uses.opens == 0);
        drop(uses);
        if is_last {
            self.0.free();
        } else if is_closed {
            self.0.tell_closed();
        }
    }
}

/// A removal of a name of what somebody knows, from before its transaction until it is known what came of it.
pub(crate) struct Removing {
    node: Arc<Node>,
    /// Whether it goes on without a name.
    pub(crate) is_open: bool,
}

impl Removing {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let mut uses = node.uses();
        uses.removals += 1;
        // Pipes, sockets and devices are opened by the system, which tells nobody: whoever knows one may have it open.
        let is_open = uses.opens > 0 || node.kind.is_special();
        drop(uses);
        Self { node, is_open }
    }

    /// The last name is gone, and its record is in the list if it was open.
    pub(crate) fn settle(self) {
        let node = &self.node;
        if node.kind == FileKind::Directory {
            node.set_removed();
            return;
        }
        if self.is_open {
            node.mount.holder.note_entry();
            node.set_home(Home { slot: node.mount.orphan_slot(node.oid), parent: None });
        }
        let mut uses = node.uses();
        node.set_removed();
        uses.gone |= !self.is_open;
        // Whoever had it open may have closed it meanwhile.
        let is_last = !node.kind.is_special() && node.takes_last(&mut uses);
        drop(uses);
        if is_last {
            node.free();
        }
    }
}

impl Drop for Removing {
    fn drop(&mut self) {
        self.node.uses().removals -= 1;
        self.node.settled.notify_all();
    }
}

/// An access is noted if the last one noted is older than the last change, or than this: as Linux with `relatime`.
const ATIME_AGE_NS_MAX: u64 = 24 * 3600 * 1_000_000_000;

/// By what a change of a file's content is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) size_bytes: u64,
    pub(crate) mtime: Time,
    pub(crate) changes: u64,
}

#[derive(Debug, Default)]
struct Blocks {
    state: State,
    blocks: u64,
}

/// Names of one file that are known to be its. Of more the oldest are forgotten, which costs an open that finds them replaced another
/// attempt.
const NAMES_MAX: usize = 16;

/// A change within this time after the recorded one is not recorded: the grain of the kernel's file times.
const TIME_GRAIN_NS: u64 = 4_000_000;
/// A pending change is recorded at the next one after this time, so that other mounts and a crash see a time
/// that is at most so old.
const TIME_LAG_NS_MAX: u64 = 1_000_000_000;

impl Node {
    pub(crate) fn new(mount: &Arc<Mount>, inode: &Inode, home: Home) -> Self {
        Self {
            mount: Arc::clone(mount),
            oid: inode.oid,
            kind: inode.kind,
            chunk_bytes: inode.chunk_bytes,
            new_chunk_bytes: AtomicU64::new(inode.chunk_bytes),
            new_class: AtomicU32::new(inode.class.0),
            home: Mutex::new(home),
            moves: AtomicU64::new(0),
            gate: RwLock::new(()),
            removed: AtomicBool::new(false),
            uses: Mutex::default(),
            settled: Condvar::new(),
            told_open: Mutex::default(),
            nameable: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            sought: AtomicBool::new(false),
            uid: AtomicU32::new(inode.uid),
            gid: AtomicU32::new(inode.gid),
            mode: AtomicU32::new(inode.permissions),
            lists: Mutex::new((0, None)),
            names: Mutex::default(),
            changes: AtomicU64::new(0),
            blocks: Mutex::default(),
            pending_mtime_ns: AtomicU64::new(0),
            recorded_mtime_ns: AtomicU64::new(inode.mtime.unix_ns()),
            tried_mtime_ns: AtomicU64::new(0),
            pending_atime_ns: AtomicU64::new(0),
            seen_atime_ns: AtomicU64::new(0),
            seen_ctime_ns: AtomicU64::new(inode.ctime.unix_ns()),
        }
    }

    /// Its owner, as last seen; `None` if no record of it was.
    #[inline]
    pub(crate) fn owner(&self) -> Option<u32> {
        let uid = self.uid.load(Ordering::Relaxed);
        (uid != NO_OWNER).then_some(uid)
    }

    /// Takes over the owner whom a record tells, unless a later one was seen.
    pub(crate) fn note_owner(&self, inode: &Inode) {
        if inode.ctime.unix_ns() >= self.seen_ctime_ns.load(Ordering::Relaxed) {
            self.uid.store(inode.uid, Ordering::Relaxed);
        }
    }

    pub(crate) fn slot(&self) -> Slot {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).slot.clone()
    }

    pub(crate) fn place(&self) -> Place {
        let home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        Place { slot: home.slot.clone(), moves: self.moves() }
    }

    /// How often its home was set.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    pub(crate) fn home(&self) -> Home {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As [`Node::home`], without waiting for a lock.
    ///
    /// # Errors
    /// `Contended`.
    pub(crate) fn home_if_free(&self) -> Result<Home> {
        self.home.try_lock().map(|home| home.clone()).map_err(|_held| Error::Contended)
    }

    /// Whether the record lies there.
    pub(crate) fn is_at(&self, slot: &Slot) -> bool {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).slot == *slot
    }

    pub(crate) fn parent(&self) -> Option<Arc<Self>> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).parent.clone()
    }

    pub(crate) fn set_home(&self, home: Home) {
        self.set_found();
        let is_beside = is_companion(home.slot.oid);
        let mut now = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        self.moves.fetch_add(1, Ordering::AcqRel);
        let old = core::mem::replace(&mut *now, home);
        drop(now);
        if is_beside && !is_companion(old.slot.oid) {
            self.note_name(&old.slot);
        }
        // The old parent may die here, which records its times: not under the lock.
        drop(old);
    }

    fn known_names(&self) -> MutexGuard<'_, VecDeque<Slot>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was found by this name, and its record lies elsewhere.
    pub(crate) fn note_name(&self, name: &Slot) {
        if !self.mount.tells_opens || self.kind != FileKind::File {
            return;
        }
        let mut names = self.known_names();
        names.retain(|known| known != name);
        names.push_back(name.clone());
        if names.len() > NAMES_MAX {
            names.pop_front();
        }
    }

    /// The names behind which it was found: that of its entry, if its record is there.
    pub(crate) fn found_by(&self) -> Vec<Slot> {
        let home = self.slot();
        if is_companion(home.oid) { self.known_names().iter().cloned().collect() } else { vec![home] }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left of it but what is remembered here.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_removed() && self.uses().gone
    }

    /// Whether it is to be freed, as it has no name and is not open any more; told once.
    fn takes_last(&self, uses: &mut Uses) -> bool {
        let is_last = uses.opens == 0 && self.is_removed() && !uses.gone;
        uses.gone |= is_last;
        is_last
    }

    /// Frees what has no name and is not open, here or elsewhere.
    fn free(&self) {
        let mut is_told = self.told_open();
        if core::mem::take(&mut *is_told) && self.mount.is_read_only() {
            return self.untell();
        }
        match self.mount.free_unopened(self.oid, self.is_nameable()) {
            Ok(true) => self.mount.holder.note_freed(),
            Ok(false) | Err(_) => {
                self.untell();
                self.mount.holder.note_unfreed(self.oid);
            }
        }
    }

    /// Whether other mounts are told that it is open.
    pub(crate) fn told_open(&self) -> MutexGuard<'_, bool> {
        self.told_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody has it open here.
    pub(crate) fn is_open(&self) -> bool {
        self.uses().opens > 0
    }

    /// Another mount has removed its last name, and has left it to who has it open.
    pub(crate) fn set_left(&self, home: Home) {
        let uses = self.uses();
        self.set_removed();
        drop(uses);
        self.set_home(home);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Whether it has no name, but may get one.
    pub(crate) fn is_nameable(&self) -> bool {
        self.nameable.load(Ordering::Acquire)
    }

    pub(crate) fn set_nameable(&self, nameable: bool) {
        self.nameable.store(nameable, Ordering::Release);
    }

    /// It has got a name, where its home is now.
    pub(crate) fn set_named(&self) {
        self.set_nameable(false);
        self.removed.store(false, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Refuses to add to a directory that was removed, or that others have moved or removed before this mount was alone.
    pub(crate) fn check_there(&self) -> Result<()> {
        match (self.is_removed(), self.is_lost()) {
            (true, _) => Err(Error::NotFound),
            (false, true) => Err(Error::Stale),
            (false, false) => Ok(()),
        }
    }

    pub(crate) fn was_sought(&self) -> bool {
        self.sought.load(Ordering::Acquire)
    }

    pub(crate) fn note_sought(&self) {
        self.sought.store(true, Ordering::Release);
    }

    pub(crate) fn set_found(&self) {
        self.lost.store(false, Ordering::Release);
        self.sought.store(false, Ordering::Release);
    }

    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Owner, group and permission bits.
    pub(crate) fn rights(&self) -> (u32, u32, u32) {
        let load = |of: &AtomicU32| of.load(Ordering::Relaxed);
        (self.owner().unwrap_or(0), load(&self.gid), load(&self.mode))
    }

    /// Access control lists as last seen, and the generation that who looks anew keeps what he finds in.
    pub(crate) fn lists(&self) -> (Option<Arc<Acls>>, u64) {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        (lists.1.clone(), lists.0)
    }

    /// Keeps lists that were looked at in this generation.
    pub(crate) fn keep_lists(&self, generation: u64, found: &Arc<Acls>) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.0 == generation {
            lists.1 = Some(Arc::clone(found));
        }
    }

    /// Forgets the lists, also those that are being looked at; the generation to look anew in.
    pub(crate) fn forget_lists(&self) -> u64 {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        *lists = (lists.0.wrapping_add(1), None);
        lists.0
    }

    /// Kind and permissions as last seen.
    pub(crate) fn mode(&self) -> u32 {
        self.kind.bits() | self.rights().2
    }

    /// Attributes of a directory that was removed, or of something else that is gone, as last seen.
    pub(crate) fn last_stat(&self) -> Stat {
        let (uid, gid, permissions) = self.rights();
        let seen = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let (size_bytes, blocks) = (seen.state.size_bytes, seen.blocks);
        drop(seen);
        let recorded = Time::from_unix_ns(self.recorded_mtime_ns());
        let mtime = self.pending_mtime().map_or(recorded, |pending| pending.max(recorded));
        Stat {
            oid: self.oid,
            ino: self.oid.lo.wrapping_add(1),
            kind: self.kind,
            permissions,
            links: 0,
            uid,
            gid,
            size_bytes,
            blocks,
            mtime,
            ctime: mtime,
            atime: self.pending_atime().unwrap_or(mtime),
            chunk_bytes: self.placement().1,
            class: self.placement().0,
            device: DeviceNo::default(),
        }
    }

    /// Class and chunk that new entries of a directory get.
    pub(crate) fn placement(&self) -> (ObjectClass, u64) {
        let class = ObjectClass(self.new_class.load(Ordering::Relaxed));
        (class, self.new_chunk_bytes.load(Ordering::Relaxed))
    }

    /// Takes over what a record that was just read or written says.
    pub(crate) fn refresh(&self, inode: &Inode) {
        self.note_rights(inode);
        self.recorded_mtime_ns.store(inode.mtime.unix_ns(), Ordering::Relaxed);
    }

    /// Takes over all but the time of a record that was just read.
    pub(crate) fn note_rights(&self, inode: &Inode) {
        self.uid.store(inode.uid, Ordering::Relaxed);
        self.gid.store(inode.gid, Ordering::Relaxed);
        self.mode.store(inode.permissions, Ordering::Relaxed);
        self.new_chunk_bytes.store(inode.chunk_bytes, Ordering::Relaxed);
        self.new_class.store(inode.class.0, Ordering::Relaxed);
        self.seen_ctime_ns.store(inode.ctime.unix_ns(), Ordering::Relaxed);
    }

    /// Changes of content by this mount so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// What the file took up when it was looked at, if nothing shows that it has changed since.
    pub(crate) fn blocks_at(&self, state: State) -> Option<u64> {
        let seen = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.state == state).then_some(seen.blocks)
    }

    /// Keeps what the file took up in this state.
    pub(crate) fn keep_blocks(&self, state: State, blocks: u64) {
        *self.blocks.lock().unwrap_or_else(PoisonError::into_inner) = Blocks { state, blocks };
    }

    /// Notes a change of content; whether it is to be recorded now: at once, or since it has waited for long enough.
    pub(crate) fn touch(&self, now_ns: u64, at_once: bool) -> bool {
        self.changes.fetch_add(1, Ordering::AcqRel);
        let recorded_ns = self.recorded_mtime_ns.load(Ordering::Relaxed);
        if now_ns.abs_diff(recorded_ns) < TIME_GRAIN_NS {
            return false;
        }
        self.note_pending(Time::from_unix_ns(now_ns));
        let tried_ns = recorded_ns.max(self.tried_mtime_ns.load(Ordering::Relaxed));
        at_once || now_ns.abs_diff(tried_ns) > TIME_LAG_NS_MAX
    }

    /// Notes a change that is not in the record, unless a later one is noted: of two that end at once, or of one that
    /// waited for the record, the later counts.
    pub(crate) fn note_pending(&self, mtime: Time) {
        self.pending_mtime_ns.fetch_max(mtime.unix_ns(), Ordering::Relaxed);
    }

    /// Notes that a change could not be recorded; the next attempt waits as long as after one that was.
    pub(crate) fn note_tried(&self, mtime: Time) {
        self.tried_mtime_ns.store(mtime.unix_ns(), Ordering::Relaxed);
    }

    /// The change that is not in the record yet.
    pub(crate) fn pending_mtime(&self) -> Option<Time> {
        let ns = self.pending_mtime_ns.load(Ordering::Relaxed);
        (ns != 0).then(|| Time::from_unix_ns(ns))
    }

    /// Takes the pending change out because an explicit time replaces it.
    pub(crate) fn take_pending_mtime(&self) -> Option<Time> {
        let ns = self.pending_mtime_ns.swap(0, Ordering::Relaxed);
        (ns != 0).then(|| Time::from_unix_ns(ns))
    }

    /// Takes over an access time that was just read, and the change time beside it.
    pub(crate) fn see_access(&self, ctime: Time, atime: Time) {
        self.seen_ctime_ns.store(ctime.unix_ns(), Ordering::Relaxed);
        self.seen_atime_ns.store(atime.unix_ns().max(1), Ordering::Relaxed);
    }

    /// Whether anybody has looked when it was accessed last.
    pub(crate) fn knows_access(&self) -> bool {
        self.seen_atime_ns.load(Ordering::Relaxed) != 0
    }

    /// Notes an access, if it is one that is noted.
    pub(crate) fn note_access(&self, now_ns: u64) {
        let load = |time: &AtomicU64| time.load(Ordering::Relaxed);
        let changed_ns =
            load(&self.pending_mtime_ns).max(load(&self.recorded_mtime_ns)).max(load(&self.seen_ctime_ns));
        let noted_ns = load(&self.pending_atime_ns).max(load(&self.seen_atime_ns));
        // Of a time in the future nobody knows how old it is.
        if noted_ns <= changed_ns || now_ns.abs_diff(noted_ns) >= ATIME_AGE_NS_MAX {
            self.note_pending_atime(Time::from_unix_ns(now_ns));
        }
    }

    /// Notes an access that is not recorded.
    pub(crate) fn note_pending_atime(&self, atime: Time) {
        self.pending_atime_ns.fetch_max(atime.unix_ns(), Ordering::Relaxed);
    }

    /// The access that is not recorded yet.
    pub(crate) fn pending_atime(&self) -> Option<Time> {
        let ns = self.pending_atime_ns.load(Ordering::Relaxed);
        (ns != 0).then(|| Time::from_unix_ns(ns))
    }

    /// Takes the pending access out because it is recorded otherwise, or a time that is set replaces it.
    pub(crate) fn take_pending_atime(&self) -> Option<Time> {
        let ns = self.pending_atime_ns.swap(0, Ordering::Relaxed);
        (ns != 0).then(|| Time::from_unix_ns(ns))
    }

    /// Forgets a pending access that was recorded, but no later one.
    pub(crate) fn forget_pending_atime(&self, atime: Time) {
        let ns = atime.unix_ns();
        self.seen_atime_ns.store(ns, Ordering::Relaxed);
        // Ignored: another access waits in its turn.
        let _other = self.pending_atime_ns.compare_exchange(ns, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Forgets a pending change that was dealt with, but no later one.
    pub(crate) fn forget_pending(&self, mtime: Time) {
        // Ignored: another change has taken its place, and waits in its turn.
        let _other =
            self.pending_mtime_ns.compare_exchange(mtime.unix_ns(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The change time in the record as this node knows it.
    pub(crate) fn recorded_mtime_ns(&self) -> u64 {
        self.recorded_mtime_ns.load(Ordering::Relaxed)
    }

    /// Takes over the time of a record, unless the node has learnt another one since it knew `before_ns`.
    pub(crate) fn note_recorded(&self, before_ns: u64, mtime: Time) {
        // Ignored: who set another time meanwhile has told the node.
        let _other = self.recorded_mtime_ns.compare_exchange(
            before_ns,
            mtime.unix_ns(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.mount.nodes.forget(self.oid);
        if self.is_removed() {
            let mut uses = self.uses();
            let is_last = self.kind != FileKind::Directory && self.takes_last(&mut uses);
            drop(uses);
            if is_last {
                self.free();
            }
        } else if self.pending_mtime().is_some() || self.pending_atime().is_some() {
            // Ignored: a time is lost, as in a crash; whoever must know calls `sync` or `close`.
            let _time_lost = self.mount.record_last_times(self);
        }
    }
}

const SHARDS: usize = 64;

/// Nodes by object.
#[derive(Debug)]
pub(crate) struct Nodes {
    hasher: DefaultHashBuilder,
    /// Guards: one shard each; no other lock is taken under it.
    shards: [Mutex<HashMap<Oid, Weak<Node>>>; SHARDS],
}

impl Default for Nodes {
    fn default() -> Self {
        Self { hasher: DefaultHashBuilder::default(), shards: core::array::from_fn(|_| Mutex::default()) }
    }
}

impl Nodes {
    fn shard(&self, oid: Oid) -> std::sync::MutexGuard<'_, HashMap<Oid, Weak<Node>>> {
        let hash = self.hasher.hash_one(oid.lo).to_le_bytes();
        let shard = &self.shards[usize::from(hash[0]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, oid: Oid) -> Option<Arc<Node>> {
        self.shard(oid).get(&oid)?.upgrade()
    }

    /// The node of `oid`, made by `make` if there is none; `true` if it was made.
    pub(crate) fn find_or_add(&self, oid: Oid, make: impl FnOnce() -> Node) -> (Arc<Node>, bool) {
        let mut shard = self.shard(oid);
        if let Some(node) = shard.get(&oid).and_then(Weak::upgrade) {
            return (node, false);
        }
        let node = Arc::new(make());
        shard.insert(oid, Arc::downgrade(&node));
        (node, true)
    }

    /// Drops the entry of a dying node, unless a new one has taken its place.
    fn forget(&self, oid: Oid) {
        let mut shard = self.shard(oid);
        if shard.get(&oid).is_some_and(|node| node.strong_count() == 0) {
            shard.remove(&oid);
        }
    }

    /// All live nodes, in no particular order.
    pub(crate) fn live(&self) -> Vec<Arc<Node>> {
        let mut live = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            live.extend(shard.values().filter_map(Weak::upgrade));
        }
        live
    }
}

const STRIPES: usize = 256;

/// Locks of entries: an operation that reads an entry and then changes it holds the entry's stripe.
#[derive(Debug)]
pub(crate) struct Stripes {
    hasher: DefaultHashBuilder,
    /// Guards: the entries whose hash falls on it; taken after gates, two in the order of their index.
    locks: [Mutex<()>; STRIPES],
}

impl Default for Stripes {
    fn default() -> Self {
        Self { hasher: DefaultHashBuilder::default(), locks: core::array::from_fn(|_| Mutex::default()) }
    }
}

/// One or two stripes, held.
pub(crate) struct Held<'a> {
    _first: std::sync::MutexGuard<'a, ()>,
    _second: Option<std::sync::MutexGuard<'a, ()>>,
}

impl Stripes {
    fn index(&self, slot: &Slot) -> usize {
        let hash = self.hasher.hash_one((slot.oid.lo, &slot.dkey)).to_le_bytes();
        usize::from(hash[0]) % STRIPES
    }

    fn lock_at(&self, index: usize) -> std::sync::MutexGuard<'_, ()> {
        self.locks[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold(&self, slot: &Slot) -> Held<'_> {
        Held { _first: self.lock_at(self.index(slot)), _second: None }
    }

    /// As `hold`, but `None` if somebody holds it.
    pub(crate) fn try_hold(&self, slot: &Slot) -> Option<Held<'_>> {
        match self.locks[self.index(slot)].try_lock() {
            Ok(first) => Some(Held { _first: first, _second: None }),
            Err(TryLockError::Poisoned(poisoned)) => {
                Some(Held { _first: poisoned.into_inner(), _second: None })
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn hold_both(&self, one: &Slot, other: &Slot) -> Held<'_> {
        let (a, b) = (self.index(one), self.index(other));
        let first = self.lock_at(a.min(b));
        Held { _first: first, _second: (a != b).then(|| self.lock_at(a.max(b))) }
    }
}
