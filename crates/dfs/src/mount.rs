//! A mounted file system: what its handles share.

use crate::Cred;
use crate::alone::{Alone, Sharing};
use crate::cache::Paths;
use crate::dir::Dir;
use crate::error::{Error, Result, What};
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::superblock::{self, Superblock, is_chunk};
use crate::layout::{self, CHUNK_BYTES_DEFAULT, DKEY_ROOT};
use crate::node::{Held, Node, Nodes, Slot, Stripes};
use crate::opens::{Opens, Replaced};
use crate::orphans::Holder;
use crate::resolve::STALE_RETRIES;
use crate::store::{Empties, with_scratch};
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_client::quota::Report;
use dolmen_client::{At, Container, Error as StoreError, NewValue, Payload, SpaceReport, UpdateIod};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{
    Cond, Durability, Epoch, Invalid, Key, ObjectClass, ObjectType, Oid, PropId, PropValue, Props,
};
use std::sync::Arc;

/// Container property `LAYOUT_TYPE` of a container with names.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_LAYOUT_POSIX
pub const LAYOUT_POSIX: u64 = 1;

/// How a file system is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Chunk of new files, in bytes.
    pub chunk_bytes: u64,
    /// Class of new directories; `UNKNOWN` is one shard.
    pub dir_class: ObjectClass,
    /// Class of new files; `UNKNOWN` is all targets, or one shard for a small file that is put whole.
    pub file_class: ObjectClass,
    /// Every mount keeps to what a shared one promises, also if it asks for less.
    pub balanced: bool,
    /// Permission bits of the root directory.
    pub root_mode: u32,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Source of the root directory's times.
    pub clock: Arc<dyn Clock>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            dir_class: ObjectClass::UNKNOWN,
            file_class: ObjectClass::UNKNOWN,
            balanced: false,
            root_mode: 0o755,
            uid: 0,
            gid: 0,
            clock: Arc::new(RealClock),
        }
    }
}

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Refuse every change.
    pub read_only: bool,
    /// Other mounts change the same container while this one is mounted, in this process or elsewhere. Then
    /// every operation on entries is a transaction and no path is cached.
    ///
    /// REQUIRES: if not set, no other mount changes the container.
    pub shared: bool,
    /// As `shared`, but writes do not look whether another mount has removed or moved the file: a write is one request.
    /// The handle learns of it within a second of writing and is `Stale` from then on; what it wrote meanwhile to a
    /// file that was removed takes up space until a check frees it. Entries are as safe as in any shared mount.
    pub relaxed: bool,
    /// Access times are kept, each beside the record that it belongs to, and looked at with it: see [`Obj::note_read`](crate::Obj::note_read). If
    /// not, the time of the last change stands for them.
    pub atime: bool,
    /// POSIX access control lists have a say in what callers may do, and new entries get those of their directory.
    pub acls: bool,
    /// `Stat::blocks` counts what is stored of a file, not its holes: a question for each chunk of up to 64, once for each size
    /// and time of change. Of a longer file a chunk that has any data counts as a whole.
    pub exact_blocks: bool,
    /// The time of a change is recorded with it, at the cost of another request: who looks through another mount sees the same
    /// time. If not, the record may be of a second before, and what is not closed of a minute before.
    pub exact_times: bool,
    /// A thread looks now and then for files without a name that mounts which have died had open, and frees them, and records
    /// accesses that wait: for a mount that lasts. Every mount that may write looks for such files when it begins.
    pub tends: bool,
    /// Entries of the list of files without a name that say who has them open stay where nobody keeps locks: he may be waiting
    /// for an engine that does. If not set, whoever has the container for himself takes him for dead there.
    pub spares_orphans: bool,
    /// Other shared mounts are told which files are open in this one, where somebody keeps locks: a file whose last name they remove
    /// works on. It is a request or two for each open and close.
    pub tells_opens: bool,
    /// Owner of what is made by handles without credentials.
    pub uid: u32,
    /// Group of the same.
    pub gid: u32,
    /// Source of times.
    pub clock: Arc<dyn Clock>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            shared: false,
            relaxed: false,
            atime: false,
            acls: false,
            exact_blocks: false,
            exact_times: false,
            tends: false,
            spares_orphans: false,
            tells_opens: false,
            uid: 0,
            gid: 0,
            clock: Arc::new(RealClock),
        }
    }
}

/// Removals of entries, and changes of directories' owners and modes, begun and ended: tells an open whether one may have
/// come between its two looks.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A removal under way.
pub(crate) struct Removal<'a>(&'a Removals);

impl Removals {
    /// REQUIRES: called before a removal or change looks for nodes in use.
    pub(crate) fn begin(&self) -> Removal<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Removal(self)
    }

    /// The removals that have begun, if all of them have ended.
    pub(crate) fn quiet(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }

    /// Whether none has begun since `quiet` returned this.
    pub(crate) fn none_since(&self, quiet: Option<u64>) -> bool {
        quiet == Some(self.begun.load(Ordering::SeqCst))
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The shared state of a mounted file system.
pub(crate) struct Mount {
    pub(crate) container: Container,
    pub(crate) superblock: Superblock,
    pub(crate) superblock_oid: Oid,
    pub(crate) root_oid: Oid,
    pub(crate) owner: (u32, u32),
    pub(crate) nodes: Nodes,
    pub(crate) stripes: Stripes,
    pub(crate) paths: Paths,
    pub(crate) removals: Removals,
    pub(crate) empties: Empties,
    /// Guards: the order of gates among renames that move or replace directories, or exchange; taken first.
    pub(crate) tree: std::sync::Mutex<()>,
    /// When this mount began: no other mount of the container has it.
    pub(crate) begun_ns: u64,
    /// Number of the next entry that gets its name when it is complete.
    pub(crate) unfinished: AtomicU64,
    /// Whether access times are kept.
    pub(crate) atime: bool,
    /// Whether access control lists have a say.
    pub(crate) acls: bool,
    /// Whether holes are no blocks.
    pub(crate) exact_blocks: bool,
    pub(crate) exact_times: bool,
    clock: Arc<dyn Clock>,
    read_only: bool,
    pub(crate) sharing: Sharing,
    relaxed: bool,
    pub(crate) holder: Holder,
    pub(crate) opens: Opens,
    pub(crate) replaced: Replaced,
    pub(crate) tells_opens: bool,
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.opens.end();
        self.holder.end();
    }
}

impl core::fmt::Debug for Mount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mount").field("container", &self.container).finish_non_exhaustive()
    }
}

/// The handle that keeps caches alive; the caches keep nodes alive, and those the mount.
#[derive(Debug)]
struct Session {
    mount: Arc<Mount>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.mount.paths.close();
        self.mount.let_go_of_all();
    }
}

/// A mounted file system, and its root directory: every operation of [`Dir`] works on it.
///
/// A cheap handle, `Send` and `Sync`. Handles of files and directories stay usable after it is dropped.
#[derive(Clone, Debug)]
pub struct Dfs {
    session: Arc<Session>,
    root: Dir,
}

impl Deref for Dfs {
    type Target = Dir;
    fn deref(&self) -> &Dir {
        &self.root
    }
}

impl Dfs {
    /// Properties that a container must be created with to be formatted: the layout type is fixed then.
    #[must_use]
    pub fn container_props() -> Props {
        Props::from([(PropId::CO_LAYOUT_TYPE, PropValue::Number(LAYOUT_POSIX))])
    }

    /// Makes a file system in an empty container that was created with `container_props`.
    ///
    /// # Errors
    /// `Exists` if there is one; `Invalid(Layout)` for a container of another layout; `Invalid(Placement)`,
    /// `Invalid(Mode)`; those of the store.
    pub fn format(container: &Container, options: &FormatOptions) -> Result<()> {
        let props = container.props(&[PropId::CO_LAYOUT_TYPE])?;
        if props.get(&PropId::CO_LAYOUT_TYPE) != Some(&PropValue::Number(LAYOUT_POSIX)) {
            return Err(What::Layout.into());
        }
        crate::dir::check_mode(options.root_mode)?;
        if !is_chunk(options.chunk_bytes) {
            return Err(What::Placement.into());
        }
        let dir_class = or_one_shard(options.dir_class);
        let file_class = chosen(options.file_class).unwrap_or(FILE_CLASS);
        for class in [dir_class, file_class] {
            container.oid(ObjectType::ArrayByte, class, 0, 0)?;
        }
        let superblock = Superblock {
            chunk_bytes: options.chunk_bytes,
            dir_class: options.dir_class,
            file_class: options.file_class,
            balanced: options.balanced,
        };
        // The two reserved objects are one shard each: what every mount reads first should not move.
        let superblock_oid = layout::superblock_oid(ObjectClass::S1);
        let root_class = container.oid(ObjectType::MultiHashed, dir_class, 0, 0)?.class();
        let root_oid = layout::root_oid(root_class);
        let now_ns = options.clock.now_ns();
        let root = Inode {
            kind: FileKind::Directory,
            permissions: options.root_mode,
            oid: root_oid,
            mtime: Time::from_unix_ns(now_ns),
            ctime: Time::from_unix_ns(now_ns),
            chunk_bytes: 0,
            class: ObjectClass::UNKNOWN,
            uid: options.uid,
            gid: options.gid,
            link_bytes: 0,
            linked: false,
            written_at: Epoch::from_unix_ns(now_ns),
        };
        let object = container.object(superblock_oid)?.charged_to(root.uid);
        let bytes = superblock.to_bytes();
        let mut rest = &bytes[..];
        let mut iods = Vec::with_capacity(superblock::FIELDS.len());
        for (akey, len) in superblock::FIELDS {
            let (value, after) = rest.split_at(len);
            let value = NewValue::Single(Payload::Ref(value));
            iods.push(UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value });
            rest = after;
        }
        let record = root.to_bytes();
        let root_iod = crate::store::inode_iod(&record);
        container.transact(|tx| {
            object.update(At::Tx(tx), superblock::DKEY, Cond::DKEY_INSERT, &iods)?;
            object.update(At::Tx(tx), DKEY_ROOT, Cond::DKEY_INSERT, core::slice::from_ref(&root_iod))?;
            Ok::<_, Error>(())
        })?;
        container.set_props(&roots_props(superblock_oid, root_oid))?;
        Ok(())
    }

    /// Mounts the file system in a container, or, read-only, in a view of it at a snapshot. A mount that may
    /// write first frees files that were unlinked while open by others who have died: one that is shared those of whom the engine
    /// knows that they have, one that is not those of whom nobody knows as well. What is damaged in the
    /// list of these is left to [`Dfs::check`], which names it.
    ///
    /// # Errors
    /// `NotFormatted`, `Superblock`; `ReadOnly` is not an error here: it comes with the first change.
    pub fn mount(container: &Container, options: &MountOptions) -> Result<Self> {
        let (superblock_oid, superblock) = read_superblock(container)?;
        let record = Slot::new(superblock_oid, DKEY_ROOT);
        let mut mount = Mount {
            container: container.clone(),
            superblock,
            superblock_oid,
            root_oid: Oid::default(),
            owner: (options.uid, options.gid),
            nodes: Nodes::default(),
            stripes: Stripes::default(),
            paths: Paths::default(),
            removals: Removals::default(),
            empties: Empties::default(),
            tree: std::sync::Mutex::new(()),
            begun_ns: options.clock.now_ns(),
            unfinished: AtomicU64::new(0),
            atime: options.atime,
            acls: options.acls,
            exact_blocks: options.exact_blocks,
            exact_times: options.exact_times,
            clock: Arc::clone(&options.clock),
            read_only: options.read_only || container.view_epoch().is_some(),
            sharing: Sharing::new(options.shared || options.relaxed),
            relaxed: options.relaxed && !superblock.balanced,
            holder: Holder::new(options.spares_orphans),
            opens: Opens::default(),
            replaced: Replaced::default(),
            tells_opens: options.tells_opens,
        };
        mount.root_oid = mount.inode(At::Latest, &record)?.ok_or(Error::NotFormatted)?.oid;
        let mount = Arc::new(mount);
        if !mount.read_only {
            let freed = mount.free_orphans();
            if !mount.is_shared() {
                freed?;
            }
            // Ignored among others: who has the container for himself, or comes next, frees them.
            mount.holder.begin(&mount, options.tends);
        }
        let root = Dir { node: mount.root_node()?, cred: None };
        Ok(Self { session: Arc::new(Session { mount }), root })
    }

    /// The same file system as `cred` may use it: every operation checks permissions, and what is made is his. Many
    /// callers share one mount so.
    #[must_use]
    pub fn as_user(&self, cred: Cred) -> Self {
        let root = self.root.as_user(&Arc::new(cred));
        Self { session: Arc::clone(&self.session), root }
    }

    /// The container.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.session.mount.container
    }

    /// Whether changes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.session.mount.read_only
    }

    /// Records times of files and directories that wait for it. Data and entries need nothing: each is as
    /// durable as the container says when the call that made it returns.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sync(&self) -> Result<()> {
        let mount = &self.session.mount;
        mount.nodes.live().iter().try_for_each(|node| mount.record_times(node))
    }

    /// Has all that was answered before survive the loss of power, as syncfs(2). Where the container has that already when it answers,
    /// and in a mount that changes nothing, nobody is asked.
    ///
    /// # Errors
    /// Those of the store.
    pub fn flush(&self) -> Result<()> {
        self.session.mount.flush()
    }

    /// Space and entries, as statvfs(3).
    ///
    /// # Errors
    /// Those of the store.
    pub fn statfs(&self) -> Result<Statfs> {
        let container = &self.session.mount.container;
        let (info, space) = (container.query()?, container.query_pool()?.space);
        let quota = self.quota()?;
        // What is charged beyond a limit is what nobody sees any more, or was there before the limit.
        let left = |limit: u64, used: u64| if limit == 0 { u64::MAX } else { limit.saturating_sub(used) };
        let (limits, used) = (quota.limits, quota.used);
        let total_bytes = space.iter().map(|target| target.total_bytes).sum::<u64>();
        let free_bytes = space.iter().map(|target| target.free_bytes).sum::<u64>();
        let taken = |target: &SpaceReport| target.bulk_bytes + target.log_bytes + target.run_bytes;
        let is_limited = limits.bytes > 0 && limits.bytes < total_bytes;
        let taken_bytes = if is_limited { used.bytes } else { space.iter().map(taken).sum() };
        let total_bytes = total_bytes.min(left(limits.bytes, 0));
        Ok(Statfs {
            block_bytes: self.session.mount.superblock.chunk_bytes,
            total_bytes,
            taken_bytes: taken_bytes.min(total_bytes),
            free_bytes: free_bytes.min(left(limits.bytes, used.bytes)),
            files: (limits.files > 0).then(|| (limits.files, left(limits.files, used.files))),
            used_bytes: info.usage.bulk_bytes + info.usage.small_bytes,
            value_bytes: info.usage.value_bytes,
            versions: info.usage.versions,
            name_bytes_max: layout::NAME_BYTES_MAX,
        })
    }
}

impl Dfs {
    /// What is used of the container, and what may be; nothing and no limits where the engine keeps none.
    fn quota(&self) -> Result<Report> {
        match self.session.mount.container.quota() {
            // What is free of the pool is known nevertheless.
            Err(
                StoreError::Invalid(Invalid::Engines | Invalid::Argument) | StoreError::Unreachable { .. },
            ) => Ok(Report::default()),
            other => Ok(other?),
        }
    }
}

/// What a file system takes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statfs {
    /// The preferred size of reads and writes.
    pub block_bytes: u64,
    /// What the pool may take up, over all its targets, of which other containers have their part; or the container's limit, if
    /// that is less.
    pub total_bytes: u64,
    /// What is taken of that: by all containers of the pool, and by nobody else on its devices; or what counts against the limit.
    pub taken_bytes: u64,
    /// What new data may still take in the pool, the reserve subtracted; or what the limit leaves, if that is less.
    pub free_bytes: u64,
    /// How many files the container may have, and how many more, if there is a limit.
    pub files: Option<(u64, u64)>,
    /// Space held by the container, with metadata, kept versions included.
    pub used_bytes: u64,
    /// Bytes of keys' values as written, kept versions included.
    pub value_bytes: u64,
    /// Values and extents stored, kept versions included.
    pub versions: u64,
    /// The longest name.
    pub name_bytes_max: usize,
}

//= daos:src/include/daos_fs.h DAOS_SUPER_MAGIC
/// `f_type` of statfs(2).
pub const STATFS_TYPE: u32 = 0xda05_ad10;

/// The class of files that nobody chose one for: nobody knows how long they get, and no target is full before the others.
pub(crate) const FILE_CLASS: ObjectClass = ObjectClass::SX;

/// Entries are found on one target; whoever makes huge directories asks for more.
fn or_one_shard(class: ObjectClass) -> ObjectClass {
    chosen(class).unwrap_or(ObjectClass::S1)
}

fn chosen(class: ObjectClass) -> Option<ObjectClass> {
    Some(class).filter(|class| *class != ObjectClass::UNKNOWN)
}

fn roots_props(superblock: Oid, root: Oid) -> Props {
    let mut roots = Vec::with_capacity(64);
    for oid in [superblock, root, Oid::default(), Oid::default()] {
        roots.extend_from_slice(&oid.to_bytes());
    }
    Props::from([(PropId::CO_ROOTS, PropValue::Bytes(roots))])
}

/// The superblock and its object: where property `ROOTS` says, else where a container without it has it.
fn read_superblock(container: &Container) -> Result<(Oid, Superblock)> {
    let props = container.props(&[PropId::CO_ROOTS])?;
    let named = match props.get(&PropId::CO_ROOTS) {
        Some(PropValue::Bytes(roots)) => roots.first_chunk().map(|bytes| Oid::from_bytes(*bytes)),
        _ => None,
    };
    let oid = named.filter(|oid| *oid != Oid::default()).unwrap_or(layout::superblock_oid(ObjectClass::S1));
    let object = container.object(oid)?;
    let mut bytes = [0; superblock::BYTES];
    let mut at = 0;
    for (akey, len) in superblock::FIELDS {
        let found = with_scratch(|buf| {
            let found = object.get(At::Latest, superblock::DKEY, akey, buf)?;
            if found == Some(len) {
                bytes[at..at + len].copy_from_slice(&buf[..len]);
            }
            Ok::<_, Error>(found)
        })?;
        match found {
            None if at == 0 => return Err(Error::NotFormatted),
            Some(found) if found == len => at += len,
            _ => return Err(Error::Superblock(superblock::Unreadable::Damaged)),
        }
    }
    Ok((oid, Superblock::from_bytes(&bytes).map_err(Error::Superblock)?))
}

impl Mount {
    /// Has all that was answered before survive the loss of power.
    pub(crate) fn flush(&self) -> Result<()> {
        match self.container.durability() {
            Durability::Process if !self.read_only => Ok(self.container.flush()?),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether other mounts may change the container under this one.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.is_shared()
    }

    /// Begins an operation that counts on being alone; `None` if other mounts may change the container meanwhile.
    #[inline]
    pub(crate) fn alone(&self) -> Option<Alone<'_>> {
        self.sharing.alone()
    }

    /// Whether writes do without a look at the entry.
    pub(crate) fn is_relaxed(&self) -> bool {
        self.relaxed
    }

    /// Whether what this mount knows may be gone when it is opened, and no handle learns of it later by itself.
    pub(crate) fn asks_before_opening(&self) -> bool {
        !self.is_relaxed() && !self.caches_paths()
    }

    /// Paths of a snapshot never change, also if others change the container.
    pub(crate) fn caches_paths(&self) -> bool {
        !self.is_shared() || self.container.view_epoch().is_some()
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_unix_ns(self.now_ns())
    }

    pub(crate) fn root_slot(&self) -> Slot {
        Slot::new(self.superblock_oid, DKEY_ROOT)
    }

    /// The class of a new file: asked for, else the directory's, else the container's, else `otherwise`.
    pub(crate) fn file_class(&self, dir: &Node, asked: ObjectClass, otherwise: ObjectClass) -> ObjectClass {
        let inherited = [asked, dir.placement().0, self.superblock.file_class];
        inherited.into_iter().find_map(chosen).unwrap_or(otherwise)
    }

    /// The class of a new directory.
    pub(crate) fn dir_class(&self) -> ObjectClass {
        or_one_shard(self.superblock.dir_class)
    }

    /// Takes over owner, group and mode of a directory from its record, and its lists.
    pub(crate) fn look_at_rights(&self, dir: &Node) -> Result<()> {
        self.at_home(dir, |slot| {
            let generation = dir.forget_lists();
            let found = self.inode_and_lists(slot)?.filter(|(inode, _)| inode.oid == dir.oid);
            let (inode, lists) = found.ok_or(Error::Stale)?;
            dir.note_rights(&inode);
            if let Some(lists) = lists {
                dir.keep_lists(generation, &Arc::new(lists));
            }
            Ok(())
        })
    }

    /// Notes a change of a directory's or file's content.
    pub(crate) fn touch(&self, node: &Node) {
        if node.touch(self.now_ns(), self.exact_times) {
            // Ignored: the time stays pending, and the next change, `sync` or the last handle tries again.
            let _still_pending = self.record_times(node);
        }
    }

    /// Records times that wait, of what is in use.
    pub(crate) fn record_waiting_times(&self) {
        let live = self.nodes.live();
        let waits = |node: &&Arc<Node>| {
            (node.pending_atime().is_some() || node.pending_mtime().is_some()) && !node.is_removed()
        };
        for node in live.iter().filter(waits) {
            // Ignored: it waits on.
            let _waits = self.record_times(node);
        }
    }

    /// Writes a node's pending time into its record, if the record is still this node's.
    ///
    /// REQUIRES: the caller holds no stripe.
    pub(crate) fn record_times(&self, node: &Node) -> Result<()> {
        self.record_times_under(node, |slot| Some(self.stripes.hold(slot)))
    }

    /// As `record_times`, for a node that dies where its entry's stripe may be held: then in a transaction.
    pub(crate) fn record_last_times(&self, node: &Node) -> Result<()> {
        self.record_times_under(node, |slot| self.stripes.try_hold(slot))
    }

    fn record_times_under<'a>(&'a self, node: &Node, hold: impl Fn(&Slot) -> Option<Held<'a>>) -> Result<()> {
        for _ in 0..STALE_RETRIES {
            let waits = node.pending_mtime().max(node.pending_atime());
            let Some(pending) = waits.filter(|_| !self.read_only) else { return Ok(()) };
            let place = node.place();
            match self.record_time_in(node, &place.slot, &hold) {
                Ok(true) => return Ok(()),
                // Renamed between the two looks; else another mount moved or removed it.
                Ok(false) if node.moves() != place.moves || self.finds_left(node)? => {}
                Ok(false) => {
                    node.set_lost();
                    node.take_pending_mtime();
                    node.take_pending_atime();
                    return Ok(());
                }
                Err(error) => {
                    node.note_tried(pending);
                    return Err(error);
                }
            }
        }
        Err(Error::Contended)
    }

    /// Writes the pending times into the record in `slot`; whether that is the node's.
    ///
    /// The time stays pending until it is written. It is looked at where nobody sets another one beside it: under the
    /// stripe, or in a transaction, which conflicts with one that has set a time and took the pending one out before.
    fn record_time_in<'a>(
        &self,
        node: &Node,
        slot: &Slot,
        hold: impl Fn(&Slot) -> Option<Held<'a>>,
    ) -> Result<bool> {
        // Companions change in transactions only, and so does everything of shared mounts.
        let is_companion = layout::is_companion(slot.oid);
        let stripe = if is_companion { None } else { hold(slot) };
        let alone = self.alone();
        let mut known_ns = 0;
        let mut record = |at: At<'_>| {
            known_ns = node.recorded_mtime_ns();
            let (pending, read) = (node.pending_mtime(), node.pending_atime());
            let Some(inode) = self.inode(at, slot)?.filter(|inode| inode.oid == node.oid) else {
                return Ok(None);
            };
            // A time that somebody who knows nothing of this node has set after its change stays: another mount, or this
            // one while the node dies. Whoever has changed the record since may have set the access time.
            let mtime = pending.filter(|mtime| inode.mtime.unix_ns() == known_ns || inode.ctime <= *mtime);
            let atime = read.filter(|atime| alone.is_some() || inode.ctime <= *atime);
            let inode = mtime.map_or(inode, |mtime| {
                let ctime = inode.ctime.max(mtime);
                Inode { mtime, ctime, written_at: Epoch::from_unix_ns(mtime.unix_ns()), ..inode }
            });
            self.put_times(at, slot, mtime.map(|_| &inode), atime)?;
            Ok(Some((inode, pending, read)))
        };
        let recorded = match stripe {
            Some(_) if alone.is_some() => record(At::Latest)?,
            _ => self.transact(|tx| record(At::Tx(tx)))?,
        };
        if let Some((inode, pending, read)) = &recorded {
            if let Some(pending) = pending {
                match stripe {
                    Some(_) => node.refresh(inode),
                    None => node.note_recorded(known_ns, inode.mtime),
                }
                node.forget_pending(*pending);
            }
            read.inspect(|read| node.forget_pending_atime(*read));
        }
        drop((stripe, alone));
        Ok(recorded.is_some())
    }
}
