//! The pools of a system directory, each open once for all who use it.

use crate::evicted::Evicted;
use crate::kept::{Comer, Kept, PoolUser};
use crate::lease::Lease;
use crate::leased::Leased;
use crate::locked::Locked;
use crate::peers::Peers;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::wire::{Looked, PartKey, PartSpec, PoolAccess, PoolEntry, PoolName, PoolSpec, SystemVerb};
use dolmen_env::HeldDir;
use dolmen_local::{OpenOptions, PoolOptions, Spread};
use dolmen_types::{Error, Head, Invalid, Label, Place, Result, TargetNo, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often a connect begins anew because its pool was taken from all meanwhile.
const CONNECTS_MAX: usize = 8;

/// Parts that were taken back before they were made, which are remembered: more than there are on their way.
const GONE_MAX: usize = 1024;

/// `ESTALE`: the directory of the system is not where it was.
pub(crate) const ERRNO_STALE: i32 = 116;

/// The pools of one directory.
pub(crate) struct Pools {
    dir: Arc<HeldDir>,
    options: OpenOptions,
    peers: Arc<Peers>,
    /// Guards UUIDs of parts that are not to be made any more; taken before `opening` and `open`.
    gone: Mutex<VecDeque<Uuid>>,
    /// Guards which pools are being opened or destroyed, each by one thread; taken alone.
    opening: Mutex<BTreeSet<Uuid>>,
    /// Called when one is opened or destroyed.
    opened: Condvar,
    /// Guards the open pools.
    open: Mutex<BTreeMap<Uuid, Arc<Lease>>>,
    locked: Locked,
    leased: Leased,
    kept: Arc<Kept>,
    evicted: Evicted,
    /// Whether it could be read how often pools were taken from all.
    knows_evictions: bool,
    /// Whether pools may be on record as destroyed that are not gone from all their engines.
    has_destroyed: AtomicBool,
}

/// An open pool for who looks at it and does not use it yet: what he may do there is not known.
struct Looking<'p> {
    pools: &'p Pools,
    lease: Option<Arc<Lease>>,
}

impl<'p> Looking<'p> {
    /// `_open` is the list that it is on.
    fn new(pools: &'p Pools, lease: &Arc<Lease>, _open: &MutexGuard<'_, BTreeMap<Uuid, Arc<Lease>>>) -> Self {
        lease.count_looking(true);
        Self { pools, lease: Some(Arc::clone(lease)) }
    }

    fn lease(&self) -> &Arc<Lease> {
        self.lease.as_ref().expect("taken out by drop alone")
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let _open = self.pools.open();
        if let Some(lease) = self.lease.take() {
            lease.count_looking(false);
        }
    }
}

/// Asks another engine.
type Tell<'t> = dyn Fn(u32, &SystemVerb) -> Result<()> + 't;

/// One thread alone opens or destroys a pool.
struct Alone<'p> {
    pools: &'p Pools,
    uuid: Uuid,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.pools.opening.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uuid);
        self.pools.opened.notify_all();
    }
}

impl Pools {
    pub(crate) fn new(
        dir: &Arc<HeldDir>,
        options: OpenOptions,
        peers: Peers,
        (kept, leased): (Kept, Leased),
    ) -> Self {
        let (evicted, is_sound) = Evicted::of(dir);
        Self {
            locked: Locked::new(dir),
            leased,
            kept: Arc::new(kept),
            evicted,
            knows_evictions: is_sound,
            dir: Arc::clone(dir),
            options,
            peers: Arc::new(peers),
            gone: Mutex::default(),
            opening: Mutex::default(),
            opened: Condvar::new(),
            open: Mutex::default(),
            has_destroyed: AtomicBool::new(true),
        }
    }

    /// Whether the system's directory is where it was when the daemon was started.
    pub(crate) fn is_in_place(&self) -> bool {
        self.dir.has_its_name()
    }

    /// Whether a name is this daemon's to remove: not if it lies in a directory that has the name of the system's, which was moved.
    pub(crate) fn is_own_name(&self, path: &Path) -> bool {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_nowhere| path.to_owned());
        !absolute(path).starts_with(absolute(self.dir.path())) || self.is_in_place()
    }

    /// Where the directory is. What has its name now is another system's if it was moved: nothing is opened, made or removed
    /// there.
    fn place(&self) -> Result<&Path> {
        if self.is_in_place() {
            Ok(self.dir.path())
        } else {
            Err(Error::Io { target: TargetNo(0), errno: ERRNO_STALE })
        }
    }

    /// The locks on objects of all pools.
    pub(crate) fn locked(&self) -> &Locked {
        &self.locked
    }

    /// The leases on what was read of all pools.
    pub(crate) fn leased(&self) -> &Leased {
        &self.leased
    }

    /// Who has what open, for the next daemon.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The engines of the system.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<Lease>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pools of the directory, by UUID; parts of pools are listed where those have their service.
    pub(crate) fn list(&self) -> Result<Vec<PoolEntry>> {
        let mut all: Vec<PoolEntry> =
            self.entries()?.iter().filter(|entry| !is_part(entry)).map(entry_of).collect();
        let open = self.open();
        for entry in &mut all {
            let users = open.get(&entry.uuid).map_or(0, Lease::user_count);
            entry.connections = u32::try_from(users).unwrap_or(u32::MAX);
        }
        all.sort_unstable_by_key(|entry| entry.uuid);
        Ok(all)
    }

    /// A pool by name, opened if it is not open yet, for whom `allowed` lets in: whoever it refuses keeps nobody from anything.
    /// Who wants it alone has it so until he lets go of an [`Alone`](crate::lease::Alone); who knows the word of whoever has it
    /// (the sequence in `head`) has it with him.
    pub(crate) fn connect<R>(
        &self,
        (head, client): (&Head, u128),
        name: &PoolName,
        access: PoolAccess,
        allowed: impl Fn(&Lease) -> Result<R>,
    ) -> Result<(Arc<Lease>, PoolEntry, R)> {
        let found = self.find(name)?;
        for _ in 0..CONNECTS_MAX {
            let looking = self.look_at(&found)?;
            let rights = allowed(looking.lease());
            if looking.lease().has_ended() {
                // It could not be asked, or was; whoever opens it anew is asked again.
                continue;
            }
            let rights = rights?;
            if let Some(pool) = self.admitted(&looking, (head, client, found.uuid), access)? {
                return Ok((pool, entry_of(&found), rights));
            }
        }
        Err(Error::Busy)
    }

    /// Opens a pool if it is not open yet.
    fn look_at(&self, found: &dolmen_local::PoolEntry) -> Result<Looking<'_>> {
        if let Some(looking) = self.opened(found)? {
            return Ok(looking);
        }
        // Before the parts are opened: who takes the pool from all meanwhile would end them, and leave doors that lead nowhere.
        let _alone = self.alone_with(found.uuid);
        if let Some(looking) = self.opened(found)? {
            return Ok(looking);
        }
        // Who was alone with it may have destroyed it.
        let found = self.find(&PoolName::Uuid(found.uuid))?;
        let pool = Arc::new(self.open_anew(&found)?);
        let mut open = self.open();
        open.insert(found.uuid, Arc::clone(&pool));
        let looking = Looking::new(self, &pool, &open);
        // Under the lock: whoever counts users counts what is here.
        drop(pool);
        Ok(looking)
    }

    /// Opens a pool. REQUIRES: the caller is alone with it, and it is not open.
    fn open_anew(&self, found: &dolmen_local::PoolEntry) -> Result<Lease> {
        let parts = match &found.spread {
            Some(spread) if spread.has_service() => self.peers.open_parts(found.uuid, spread)?,
            // The engine with the service opens it; whoever comes before asks again.
            Some(_) => return Err(Error::Busy),
            None => Vec::new(),
        };
        let (dir, options) = (self.place()?.join(&found.name), &self.options);
        let opened = match &found.spread {
            None => dolmen_local::open(&dir, options),
            Some(_) => dolmen_local::open_with_parts(&dir, options, &parts),
        };
        let opened = opened.map_err(|error| plain(&error))?;
        // It may have been moved meanwhile: then nobody is told that he has it open.
        self.place().map(|_in_place| Lease::new(opened))
    }

    /// A pool that is open already.
    fn opened(&self, found: &dolmen_local::PoolEntry) -> Result<Option<Looking<'_>>> {
        let open = self.open();
        // One that is being taken from all is opened anew when that is done.
        let Some(pool) = open.get(&found.uuid).filter(|pool| !pool.has_ended()) else { return Ok(None) };
        if is_part(found) && !pool.is_admitted() {
            return Err(Error::Busy);
        }
        Ok(Some(Looking::new(self, pool, &open)))
    }

    /// The pool for one who may use it; `None` if it was taken from all since he began to look.
    fn admitted(
        &self,
        looking: &Looking<'_>,
        (head, client, uuid): (&Head, u128, Uuid),
        access: PoolAccess,
    ) -> Result<Option<Arc<Lease>>> {
        let open = self.open();
        let pool = looking.lease();
        let is_it = open.get(&uuid).is_some_and(|listed| Arc::ptr_eq(listed, pool)) && !pool.has_ended();
        if !is_it {
            return Ok(None);
        }
        let is_exclusive = access == PoolAccess::Exclusive;
        let is_others = pool.is_alone() || (is_exclusive && Lease::user_count(pool) > 0);
        if is_others && !(is_exclusive && pool.is_shared_with(head)) {
            return Err(Error::Busy);
        }
        // Who had it with the last daemon has it still.
        if self.kept.is_refused(uuid, client, Some((access, head.id.sequence))) {
            return Err(Error::Busy);
        }
        if is_exclusive {
            pool.be_alone(head);
        }
        Ok(Some(Arc::clone(pool)))
    }

    /// Has it on record that somebody has a pool open; a part follows what is on record where its service is.
    pub(crate) fn keep(
        &self,
        lease: &Lease,
        uuid: Uuid,
        comer: Comer,
        alone: Option<u64>,
    ) -> Option<Arc<PoolUser>> {
        if lease.is_part() { None } else { self.kept.connects(uuid, comer, alone) }
    }

    /// Waits until nobody else opens or destroys a pool, and keeps others from it.
    fn alone_with(&self, uuid: Uuid) -> Alone<'_> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        while !opening.insert(uuid) {
            opening = self.opened.wait(opening).unwrap_or_else(PoisonError::into_inner);
        }
        Alone { pools: self, uuid }
    }

    /// Opens a pool that nobody has asked for yet, unless other engines take part in it, which may not be there.
    pub(crate) fn open_ahead(&self, uuid: Uuid) {
        let _alone = self.alone_with(uuid);
        let Ok(found) = self.find(&PoolName::Uuid(uuid)) else { return };
        if found.spread.is_some() || self.open().contains_key(&uuid) {
            return;
        }
        // Whoever asks for it is told why it cannot be opened. This is no user: who comes next may have it alone.
        if let Ok(pool) = self.open_anew(&found) {
            self.open().insert(uuid, Arc::new(pool));
        }
    }

    /// The pools on several engines of which this one has targets; none if they cannot be listed, which whoever asks for one
    /// is told.
    pub(crate) fn shared(&self) -> Vec<Uuid> {
        let Ok(entries) = self.entries() else { return Vec::new() };
        entries.iter().filter(|entry| entry.spread.is_some()).map(|entry| entry.uuid).collect()
    }

    /// Opens what this engine has of a pool on several; false if it is to be tried again.
    pub(crate) fn open_shared(&self, uuid: Uuid) -> bool {
        // It was destroyed meanwhile.
        let Ok(found) = self.find(&PoolName::Uuid(uuid)) else { return true };
        let Some(spread) = &found.spread else { return true };
        let opened = if spread.has_service() {
            self.look_at(&found).map(drop)
        } else {
            self.connect_part(uuid, PartKey(spread.key)).map(drop)
        };
        // Another engine may be there later, and whoever has the directory be gone. What is damaged stays so.
        !matches!(opened, Err(Error::Unreachable { .. } | Error::Busy))
    }

    /// The part of a pool, opened for the engine with its service.
    pub(crate) fn connect_part(&self, uuid: Uuid, key: PartKey) -> Result<(Arc<Lease>, PoolEntry)> {
        let found = self.find_part(uuid, key)?;
        let _alone = self.alone_with(uuid);
        if let Some(pool) = self.open().get(&uuid) {
            return Ok((Arc::clone(pool), entry_of(&found)));
        }
        let opened = dolmen_local::open_part(&self.place()?.join(&found.name), &self.options);
        let opened = opened.map_err(|error| plain(&error))?;
        self.place()?;
        let (peers, service) = (Arc::clone(&self.peers), service_of(&found).ok_or(Error::NoPermission)?);
        let look = move |cont: Option<Uuid>| {
            match peers.look(service, &SystemVerb::PartLook { pool: uuid, key, cont }) {
                // It cannot be asked who may do what: it speaks the version of the wire before. Whoever needs that is refused.
                Err(Error::Invalid(_)) if cont.is_none() => Err(Error::Unreachable { rank: service }),
                looked => looked,
            }
        };
        let pool = Arc::new(Lease::part(opened, Box::new(look)));
        self.open().insert(uuid, Arc::clone(&pool));
        Ok((pool, entry_of(&found)))
    }

    /// What an engine with a part of a pool is told of who may do what.
    pub(crate) fn look(&self, uuid: Uuid, key: PartKey, cont: Option<Uuid>) -> Result<Looked> {
        let lease = self.open().get(&uuid).cloned();
        let Some(lease) = lease else {
            // It opens it without being asked, as soon as all engines are there.
            let found = self.find(&PoolName::Uuid(uuid))?;
            let knows = found.spread.is_some_and(|spread| spread.key == key.0);
            return Err(if knows { Error::Busy } else { Error::NoPermission });
        };
        match lease.key() {
            Some(known) if known == key.0 && !lease.is_part() => lease.look(cont),
            None if lease.has_ended() => Err(Error::Busy),
            _ => Err(Error::NoPermission),
        }
    }

    /// Makes a pool, with a part at each other engine of the system; `key` is what only these know.
    pub(crate) fn create(&self, spec: &PoolSpec, key: u128) -> Result<PoolEntry> {
        let Some(uuid) = spec.uuid else { return Err(Invalid::Argument.into()) };
        if let Ok(found) = self.find(&PoolName::Uuid(uuid))
            && found.label == spec.label
            && !is_part(&found)
        {
            // The answer to the first request was lost: nobody draws the same UUID twice.
            return Ok(entry_of(&found));
        }
        let ranks: Vec<u32> = self.peers.all().iter().map(|engine| engine.rank).collect();
        if !self.peers.is_first() {
            return Err(Invalid::Argument.into());
        }
        if ranks.len() < 2 {
            self.create_here(spec, uuid, None)?;
            return Ok(entry_of(&self.find(&PoolName::Uuid(uuid))?));
        }
        // What is left of pools of this name is in the way at the others.
        self.finish_destroyed();
        self.refuse_taken(spec)?;
        let part = PartSpec { pool: share(spec, ranks.len()), ranks, key: PartKey(key) };
        self.peers.create_parts(&part)?;
        let made = self.create_here(&part.pool, uuid, Some(spread(&part, self.peers.rank())));
        if let Err(error) = made {
            // Ignored: why it could not be made says more, and a part without a pool does no harm.
            let _left = self.peers.destroy_parts(uuid, part.key, part.ranks.iter().copied().skip(1));
            return Err(error);
        }
        Ok(entry_of(&self.find(&PoolName::Uuid(uuid))?))
    }

    /// Makes the part of a pool of this engine.
    pub(crate) fn create_part(&self, part: &PartSpec) -> Result<()> {
        let Some(uuid) = part.pool.uuid else { return Err(Invalid::Argument.into()) };
        let spread = spread(part, self.peers.rank());
        if spread.has_service() || !self.peers.is_list(&spread.ranks) {
            // It has another list of engines, or none.
            return Err(Error::NoPermission);
        }
        // Held until it is made, so that who takes it back meanwhile finds it.
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if gone.contains(&uuid) {
            return Err(Error::NotFound);
        }
        match self.find_part(uuid, part.key) {
            // The answer to the first request was lost.
            Ok(_made) => Ok(()),
            Err(_none) => self.create_here(&part.pool, uuid, Some(spread)),
        }
    }

    fn create_here(&self, spec: &PoolSpec, uuid: Uuid, spread: Option<Spread>) -> Result<()> {
        let defaults = PoolOptions::default();
        let options = PoolOptions {
            targets: spec.targets.unwrap_or(defaults.targets),
            label: spec.label.clone(),
            uuid: Some(uuid),
            capacity_bytes: spec.capacity_bytes.unwrap_or(defaults.capacity_bytes),
            small_value_bytes_max: spec.small_value_bytes_max.unwrap_or(defaults.small_value_bytes_max),
            log_segment_bytes: spec.log_segment_bytes.unwrap_or(defaults.log_segment_bytes),
            bulk_segment_bytes: spec.bulk_segment_bytes.unwrap_or(defaults.bulk_segment_bytes),
            checkpoint_log_bytes: spec.checkpoint_log_bytes.unwrap_or(defaults.checkpoint_log_bytes),
            memory_budget_bytes: spec.memory_budget_bytes.unwrap_or(defaults.memory_budget_bytes),
            volatile: spec.volatile,
            bulk_dir: spec.bulk_dir.clone().map(|path| PathBuf::from(OsString::from_vec(path))),
            spread,
        };
        let dir = self.place()?.join(directory_name(spec.label.as_ref(), uuid));
        // Ignored: what else is in the way, or who makes a pool of this name, is told by the making.
        let _remains_of_one_cut_short = dolmen_local::destroy_remains(&dir);
        dolmen_local::create(&dir, &options).map_err(|error| match error.owner_pid() {
            // Somebody makes a pool of this name, and will have made it.
            Some(_) => Error::Exists,
            None => plain(&error),
        })
    }

    /// Removes the parts of a pool whose making was cut short, unless it is there; whether nothing is left.
    ///
    /// REQUIRES: nobody makes it meanwhile.
    pub(crate) fn remove_unmade(&self, uuid: Uuid, key: PartKey) -> bool {
        match self.find(&PoolName::Uuid(uuid)) {
            Ok(_made) => true,
            Err(Error::NotFound) => {
                let others = self.peers.all().iter().map(|engine| engine.rank).skip(1);
                self.peers.destroy_parts(uuid, key, others).is_ok()
            }
            Err(_unknown) => false,
        }
    }

    /// Refuses a pool whose name is taken before anything is made elsewhere.
    fn refuse_taken(&self, spec: &PoolSpec) -> Result<()> {
        let is_taken = |entry: &dolmen_local::PoolEntry| {
            Some(entry.uuid) == spec.uuid || entry.label.is_some() && entry.label == spec.label
        };
        if self.entries()?.iter().any(is_taken) { Err(Error::Exists) } else { Ok(()) }
    }

    /// A pool whose service is here.
    pub(crate) fn entry(&self, name: &PoolName) -> Result<PoolEntry> {
        self.find_whole(name).map(|found| entry_of(&found))
    }

    /// Destroys a pool; whoever has it open keeps it from that, or loses it by force.
    pub(crate) fn destroy(&self, name: &PoolName, force: bool) -> Result<()> {
        self.destroy_by(name, force, &|rank, verb| self.peers.ask(rank, verb))
    }

    fn destroy_by(&self, name: &PoolName, force: bool, tell: &Tell<'_>) -> Result<()> {
        let found = self.find_whole(name)?;
        let alone = self.alone_with(found.uuid);
        if force {
            self.end_lease(found.uuid)?;
        } else {
            // Also of who has not come back since the last daemon.
            if self.kept.is_refused(found.uuid, 0, None) {
                return Err(Error::Busy);
            }
            let open = self.open();
            if let Some(pool) = open.get(&found.uuid) {
                if Lease::user_count(pool) > 0 {
                    return Err(Error::Busy);
                }
                pool.announce_end();
            }
            drop(open);
            // Who looks at it, and may have no right to it, does not keep it from being closed.
            self.end_lease(found.uuid)?;
        }
        let dir = self.place()?.join(&found.name);
        let Some(spread) = &found.spread else {
            let destroyed = dolmen_local::destroy(&dir).map_err(|error| plain(&error));
            return destroyed.inspect(|()| self.kept.forget(found.uuid));
        };
        let evict = SystemVerb::PartEvict { pool: found.uuid, key: PartKey(spread.key) };
        for &rank in &spread.ranks[1..] {
            // Nothing is removed before all engines have let go of it; at one that is not there nobody uses it.
            match tell(rank, &evict) {
                Ok(()) | Err(Error::Unreachable { .. }) => {}
                refused => return refused,
            }
        }
        self.place()?;
        // From here on it is destroyed, whatever happens.
        dolmen_local::announce(&dir).map_err(|error| plain(&error))?;
        self.kept.forget(found.uuid);
        let removed = dolmen_local::destroy(&dir).map_err(|error| plain(&error));
        drop(alone);
        if removed.is_err() || !self.finish_one(found.uuid, spread, tell) {
            // What is left is carried out later, also at engines that are not there.
            self.has_destroyed.store(true, Ordering::Release);
        }
        removed
    }

    /// Removes what is left here of pools that are destroyed, before anybody sees it.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn remove_destroyed(&self) -> Result<()> {
        self.destroyed()?.iter().try_for_each(|gone| {
            let _alone = self.alone_with(gone.uuid);
            let all = dolmen_local::list(self.place()?).map_err(|error| plain(&error))?;
            let removed = match all.iter().find(|entry| entry.uuid == gone.uuid) {
                Some(entry) => dolmen_local::destroy(&self.place()?.join(&entry.name)),
                None => {
                    let name = directory_name(gone.label.as_ref(), gone.uuid);
                    match dolmen_local::destroy_remains(&self.place()?.join(name)) {
                        // Somebody makes a pool of this name.
                        Err(error) if error.owner_pid().is_some() => Ok(()),
                        Err(dolmen_local::Error::Device(error)) if error.is_not_found() => Ok(()),
                        removed => removed,
                    }
                }
            };
            removed.map_err(|error| plain(&error))
        })
    }

    /// Has the other engines remove their parts of pools that are destroyed, if there may be some.
    pub(crate) fn look_after_destroyed(&self) {
        if self.has_destroyed.swap(false, Ordering::AcqRel) && !self.finish_destroyed() {
            self.has_destroyed.store(true, Ordering::Release);
        }
    }

    fn finish_destroyed(&self) -> bool {
        self.finish_destroyed_by(&|rank, verb| self.peers.ask(rank, verb))
    }

    /// Whether nothing is left of them.
    fn finish_destroyed_by(&self, tell: &Tell<'_>) -> bool {
        let silent = RefCell::new(BTreeSet::new());
        // An engine that does not answer is waited for once, however many pools were destroyed.
        let tell_once = |rank: u32, verb: &SystemVerb| {
            if silent.borrow().contains(&rank) {
                return Err(Error::Unreachable { rank });
            }
            let told = tell(rank, verb);
            if matches!(told, Err(Error::Unreachable { .. })) {
                silent.borrow_mut().insert(rank);
            }
            told
        };
        let is_left = |gone: &&dolmen_local::Destroyed| !self.finish_one(gone.uuid, &gone.spread, &tell_once);
        // All are looked at, whatever becomes of the first.
        self.remove_destroyed().is_ok()
            && self.destroyed().is_ok_and(|gone| gone.iter().filter(is_left).count() == 0)
    }

    /// Has the parts of one removed at engines that are there; whether at all.
    fn finish_one(&self, uuid: Uuid, spread: &Spread, tell: &Tell<'_>) -> bool {
        let verb = SystemVerb::PartDestroy { pool: uuid, key: PartKey(spread.key) };
        let unheard = spread.ranks[1..].iter().filter(|&&rank| tell(rank, &verb).is_err()).count();
        unheard == 0 && self.place().is_ok_and(|dir| dolmen_local::forget(dir, uuid).is_ok())
    }

    fn destroyed(&self) -> Result<Vec<dolmen_local::Destroyed>> {
        dolmen_local::destroyed(self.place()?).map_err(|error| plain(&error))
    }

    /// Takes a pool from all who have it open; it is there for whoever opens it next.
    pub(crate) fn evict(&self, name: &PoolName) -> Result<()> {
        let found = self.find_whole(name)?;
        let others = self.others_of(&found)?;
        let _alone = self.alone_with(found.uuid);
        self.end_lease(found.uuid)?;
        self.note_evicted(found.uuid)?;
        self.kept.forget(found.uuid);
        match &found.spread {
            Some(spread) => self.peers.evict_parts(found.uuid, PartKey(spread.key), others.iter().copied()),
            None => Ok(()),
        }
    }

    /// Takes the part of a pool from all who have it open; nobody has one that a destroy removed which was not finished.
    pub(crate) fn evict_part(&self, uuid: Uuid, key: PartKey) -> Result<()> {
        match self.find_part(uuid, key) {
            Err(Error::NotFound) => return Ok(()),
            found => found?,
        };
        let _alone = self.alone_with(uuid);
        self.end_lease(uuid)?;
        self.note_evicted(uuid)
    }

    /// Whoever has a pool, or comes back to it, has lost it: also with the next daemon.
    fn note_evicted(&self, uuid: Uuid) -> Result<()> {
        let there: Vec<Uuid> = self.entries()?.iter().map(|entry| entry.uuid).collect();
        let added = self.evicted.add(uuid, &there);
        added.map_err(|error| plain(&dolmen_local::Error::Device(error)))
    }

    /// How often a pool was taken from all who had it.
    pub(crate) fn evictions(&self, uuid: Uuid) -> u64 {
        self.evicted.count(uuid)
    }

    /// Whether that could be read when the daemon was started.
    pub(crate) fn knows_evictions(&self) -> bool {
        self.knows_evictions
    }

    /// REQUIRES: the caller is alone with the pool.
    fn end_lease(&self, uuid: Uuid) -> Result<()> {
        let lease = self.open().get(&uuid).cloned();
        if let Some(lease) = lease {
            lease.end()?;
            self.open().remove(&uuid);
        }
        Ok(())
    }

    /// A pool whose service is here: a part goes with its pool.
    fn find_whole(&self, name: &PoolName) -> Result<dolmen_local::PoolEntry> {
        let found = self.find(name)?;
        if is_part(&found) { Err(Error::NoPermission) } else { Ok(found) }
    }

    /// The other engines of a pool. All of them answer: what cannot be finished is not begun.
    fn others_of<'f>(&self, found: &'f dolmen_local::PoolEntry) -> Result<&'f [u32]> {
        let others = found.spread.as_ref().map_or(&[][..], |spread| &spread.ranks[1..]);
        others.iter().try_for_each(|&rank| self.peers.ping(rank))?;
        Ok(others)
    }

    /// Destroys the part of a pool; none is left if there was none.
    pub(crate) fn destroy_part(&self, uuid: Uuid, key: PartKey) -> Result<()> {
        if !self.has_part(uuid, key)? {
            return Ok(());
        }
        let _alone = self.alone_with(uuid);
        let found = match self.find_part(uuid, key) {
            // Who was alone with it has destroyed it.
            Err(Error::NotFound) => return Ok(()),
            found => found?,
        };
        self.end_lease(uuid)?;
        dolmen_local::destroy(&self.place()?.join(&found.name)).map_err(|error| plain(&error))
    }

    /// Whether there is a part to be destroyed; if not, it is not made any more, should it be on its way. Who waits for a
    /// pool's users after that keeps nobody from other pools.
    fn has_part(&self, uuid: Uuid, key: PartKey) -> Result<bool> {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        match self.find_part(uuid, key) {
            Err(Error::NotFound) => {
                gone.push_back(uuid);
                if gone.len() > GONE_MAX {
                    gone.pop_front();
                }
                Ok(false)
            }
            found => found.map(|_part| true),
        }
    }

    fn find_part(&self, uuid: Uuid, key: PartKey) -> Result<dolmen_local::PoolEntry> {
        let found = self.find(&PoolName::Uuid(uuid))?;
        match &found.spread {
            Some(spread) if spread.key == key.0 && !spread.has_service() => Ok(found),
            _ => Err(Error::NoPermission),
        }
    }

    /// Closes all pools; the first error, with all closed nevertheless.
    pub(crate) fn close(&self) -> core::result::Result<(), dolmen_local::Error> {
        self.locked.close();
        self.leased.close();
        let all = core::mem::take(&mut *self.open());
        let mut first = Ok(());
        for pool in all.into_values().filter_map(Arc::into_inner).filter_map(Lease::into_pool) {
            // Whoever has had no answer sends again to the next daemon, also who was not connected to this one.
            first = first.and(pool.close_under_clients());
        }
        first
    }

    /// What is there and not destroyed.
    fn entries(&self) -> Result<Vec<dolmen_local::PoolEntry>> {
        let mut all = dolmen_local::list(self.place()?).map_err(|error| plain(&error))?;
        let gone = self.destroyed()?;
        all.retain(|entry| gone.iter().all(|gone| gone.uuid != entry.uuid));
        Ok(all)
    }

    fn find(&self, name: &PoolName) -> Result<dolmen_local::PoolEntry> {
        let name = match name {
            PoolName::Label(label) => label.to_string(),
            PoolName::Uuid(uuid) => uuid.to_string(),
        };
        let entries = self.entries()?;
        match dolmen_local::named(&entries, &name)[..] {
            [] => Err(Error::NotFound),
            [found] => Ok(found.clone()),
            // A copy beside its original: nobody knows which is meant. One that was open before stays so.
            [found, ..] if self.open().contains_key(&found.uuid) => Ok(found.clone()),
            _ => Err(Error::Exists),
        }
    }
}

fn directory_name(label: Option<&Label>, uuid: Uuid) -> String {
    match label.map(Label::as_str) {
        // What every directory has already.
        None | Some("." | "..") => uuid.to_string(),
        Some(label) => label.to_owned(),
    }
}

/// The engine with the service of a pool on several.
fn service_of(entry: &dolmen_local::PoolEntry) -> Option<u32> {
    entry.spread.as_ref()?.ranks.first().copied()
}

/// Whether it is a part of a pool whose service is elsewhere.
fn is_part(entry: &dolmen_local::PoolEntry) -> bool {
    entry.spread.as_ref().is_some_and(|spread| !spread.has_service())
}

fn spread(part: &PartSpec, rank: u32) -> Spread {
    Spread { rank, ranks: part.ranks.clone(), key: part.key.0 }
}

/// What each of `engines` has of a new pool.
fn share(spec: &PoolSpec, engines: usize) -> PoolSpec {
    let share = |all: Option<u64>| all.map(|all| all / engines as u64);
    PoolSpec {
        targets: Some(spec.targets.unwrap_or(u16::try_from(dolmen_env::cpu_count()).unwrap_or(1))),
        capacity_bytes: share(spec.capacity_bytes),
        memory_budget_bytes: share(spec.memory_budget_bytes),
        ..spec.clone()
    }
}

fn entry_of(entry: &dolmen_local::PoolEntry) -> PoolEntry {
    let engines = entry.spread.as_ref().map_or(1, |spread| spread.ranks.len());
    PoolEntry {
        uuid: entry.uuid,
        label: entry.label.clone(),
        target_count: u32::from(entry.targets) * u32::try_from(engines).unwrap_or(u32::MAX),
        capacity_bytes: 0,
        connections: 0,
        volatile: entry.volatile,
    }
}

/// What a client can be told of an error of a pool's directory.
fn plain(error: &dolmen_local::Error) -> Error {
    use dolmen_local::Error as Local;
    match error {
        Local::Store(error) => error.clone(),
        Local::IsPool { .. } | Local::LabelTaken { .. } | Local::UuidTaken { .. } => Error::Exists,
        // What is to be said of the pool, and is not.
        Local::Volatile { .. } => Invalid::Flags.into(),
        Local::Inside { .. } | Local::OwnBulk { .. } => Invalid::Path.into(),
        Local::Option { .. } => Invalid::Argument.into(),
        Local::Device(error) if error.is_not_found() => Error::NotFound,
        Local::NoRoom { needed_bytes, .. } => {
            Error::NoSpace { target: TargetNo(0), needed_bytes: *needed_bytes }
        }
        Local::TooLarge { capacity_bytes, .. } => {
            Error::NoSpace { target: TargetNo(0), needed_bytes: *capacity_bytes }
        }
        other if other.owner_pid().is_some() => Error::Busy,
        Local::MissingTarget { dir } | Local::ForeignTarget { dir, .. } | Local::OtherLife { dir, .. } => {
            let number = dir.file_name().and_then(|name| name.to_str()?.strip_prefix('t')?.parse().ok());
            let place = Place::Record { file: "super", number: 0, offset: 0 };
            Error::Corrupt { target: TargetNo(number.unwrap_or(0)), place: Box::new(place) }
        }
        _ => Error::Io { target: TargetNo(0), errno: 5 },
    }
}

/// The directory of a system, for messages.
impl core::fmt::Debug for Pools {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pools").field("dir", &self.dir.path()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_codec::order::HashKey;

    /// A directory of its own, removed with the value.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn scratch(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("dolmen-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Scratch(dir)
    }

    /// The first of three engines, as it is after a start.
    fn first(dir: &Scratch) -> Pools {
        of(&dir.0, Peers::new(0, Vec::new(), None))
    }

    fn of(dir: &Path, peers: Peers) -> Pools {
        let dir = Arc::new(HeldDir::open(dir).unwrap());
        let kept = (Kept::of(&dir, |_| ()), Leased::new(&dir, HashKey([0; 16])));
        Pools::new(&dir, OpenOptions::default(), peers, kept)
    }

    fn make(pools: &Pools, uuid: Uuid) -> Result<()> {
        let spread = Spread { rank: 0, ranks: vec![0, 1, 2], key: 5 };
        let label = Some(Label::new("tank").unwrap());
        let spec = PoolSpec { label, targets: Some(1), volatile: true, ..PoolSpec::default() };
        pools.create_here(&spec, uuid, Some(spread))
    }

    /// The engines to which a part's removal was told, of all that was.
    fn removed(told: &[(u32, SystemVerb)]) -> Vec<u32> {
        let is_removal = |(rank, verb): &(u32, SystemVerb)| {
            matches!(verb, SystemVerb::PartDestroy { key: PartKey(5), .. }).then_some(*rank)
        };
        let mut ranks: Vec<u32> = told.iter().filter_map(is_removal).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    #[test]
    fn a_destroyed_pool_is_gone_at_once_and_from_all_engines_at_whatever_message_they_or_the_service_went() {
        let by_label = PoolName::Label(Label::new("tank").unwrap());
        // Two parts are taken from their users, and removed: cut before each of these, and not at all.
        for cut in 0..=4 {
            let dir = scratch("destroyed");
            let pools = first(&dir);
            make(&pools, Uuid::from_u128(1)).unwrap();
            let told = RefCell::new(Vec::new());
            let until_cut = |rank: u32, verb: &SystemVerb| {
                if told.borrow().len() >= cut {
                    return Err(Error::Unreachable { rank });
                }
                told.borrow_mut().push((rank, verb.clone()));
                Ok(())
            };
            assert_eq!(pools.destroy_by(&by_label, false, &until_cut), Ok(()), "cut {cut}");
            assert_eq!(pools.find(&by_label).map(drop), Err(Error::NotFound));
            assert_eq!(pools.destroy_by(&by_label, true, &until_cut), Err(Error::NotFound));
            assert_eq!(pools.finish_destroyed_by(&until_cut), cut == 4);
            // The name is free, and what is carried out later does not concern who has it now.
            make(&pools, Uuid::from_u128(2)).unwrap();
            drop(pools);
            let again = first(&dir);
            let all = |rank: u32, verb: &SystemVerb| {
                assert!(!matches!(verb, SystemVerb::PartDestroy { pool, .. } if *pool == Uuid::from_u128(2)));
                told.borrow_mut().push((rank, verb.clone()));
                Ok(())
            };
            assert!(again.finish_destroyed_by(&all));
            assert_eq!(removed(&told.borrow()), [1, 2], "cut {cut}");
            assert!(again.destroyed().unwrap().is_empty());
            assert_eq!(again.find(&by_label).map(|found| found.uuid), Ok(Uuid::from_u128(2)));
        }
    }

    #[test]
    fn a_pool_whose_destroy_was_cut_before_its_own_part_went_is_not_there_after_a_restart() {
        let by_label = PoolName::Label(Label::new("tank").unwrap());
        let dir = scratch("announced");
        make(&first(&dir), Uuid::from_u128(1)).unwrap();
        dolmen_local::announce(&dir.0.join("tank")).unwrap();
        // Before anything is carried out, and if it is announced twice.
        let again = first(&dir);
        assert_eq!(again.find(&by_label).map(drop), Err(Error::NotFound));
        dolmen_local::announce(&dir.0.join("tank")).unwrap();
        assert_eq!(again.remove_destroyed(), Ok(()));
        assert!(!dir.0.join("tank").exists());
        // Cut short, it leaves targets without a record.
        std::fs::create_dir_all(dir.0.join("tank/t0")).unwrap();
        assert_eq!(again.remove_destroyed(), Ok(()));
        assert!(!dir.0.join("tank").exists());
        // What is none of that stays.
        std::fs::create_dir_all(dir.0.join("tank/mine")).unwrap();
        assert_eq!(again.remove_destroyed(), Ok(()));
        std::fs::remove_dir_all(dir.0.join("tank")).unwrap();
        make(&again, Uuid::from_u128(2)).unwrap();
        assert_eq!(again.remove_destroyed(), Ok(()));
        assert!(again.find(&by_label).is_ok());
        // An engine that refuses is asked again.
        let refusing = |rank: u32, _: &SystemVerb| if rank == 2 { Err(Error::Busy) } else { Ok(()) };
        assert!(!again.finish_destroyed_by(&refusing));
        assert_eq!(again.destroyed().unwrap().len(), 1);
        assert!(again.finish_destroyed_by(&|_, _| Ok(())));
        assert!(again.destroyed().unwrap().is_empty());
    }

    #[test]
    fn an_engine_that_does_not_answer_is_waited_for_once_however_many_pools_it_has_parts_of() {
        let by_label = PoolName::Label(Label::new("tank").unwrap());
        let dir = scratch("silent");
        let pools = first(&dir);
        let told = RefCell::new(Vec::new());
        let half = |rank: u32, verb: &SystemVerb| {
            told.borrow_mut().push((rank, matches!(verb, SystemVerb::PartDestroy { .. })));
            if rank == 1 { Err(Error::Unreachable { rank }) } else { Ok(()) }
        };
        for number in 1..=3 {
            make(&pools, Uuid::from_u128(number)).unwrap();
            assert_eq!(pools.destroy_by(&by_label, true, &half), Ok(()));
        }
        told.borrow_mut().clear();
        assert!(!pools.finish_destroyed_by(&half));
        let count = |rank| told.borrow().iter().filter(|one| **one == (rank, true)).count();
        assert_eq!([count(1), count(2)], [1, 3]);
        assert!(pools.finish_destroyed_by(&|_, _| Ok(())));
        assert!(pools.destroyed().unwrap().is_empty());
    }

    #[test]
    fn a_pool_that_an_engine_does_not_let_go_of_is_not_destroyed() {
        let by_label = PoolName::Label(Label::new("tank").unwrap());
        let dir = scratch("kept");
        let pools = first(&dir);
        make(&pools, Uuid::from_u128(1)).unwrap();
        let busy = |rank: u32, _: &SystemVerb| if rank == 2 { Err(Error::Busy) } else { Ok(()) };
        assert_eq!(pools.destroy_by(&by_label, true, &busy), Err(Error::Busy));
        assert!(pools.find(&by_label).is_ok() && pools.destroyed().unwrap().is_empty());
    }

    #[test]
    fn who_is_refused_keeps_nobody_from_a_pool_while_his_rights_are_looked_at() {
        let dir = scratch("looked-at");
        let pools = first(&dir);
        let spec = PoolSpec {
            uuid: Some(Uuid::from_u128(1)),
            targets: Some(1),
            volatile: true,
            ..PoolSpec::default()
        };
        pools.create(&spec, 5).unwrap();
        let name = PoolName::Uuid(Uuid::from_u128(1));
        let head = Head::default();
        let of_owner = |access| pools.connect((&head, 0), &name, access, |_| Ok(()));
        let others = || {
            assert_eq!(pools.list().map(|all| all[0].connections), Ok(0), "who looks is no user");
            drop(of_owner(PoolAccess::ReadWrite).unwrap());
            let (alone, ..) = of_owner(PoolAccess::Exclusive).unwrap();
            assert_eq!(of_owner(PoolAccess::ReadWrite).map(drop), Err(Error::Busy));
            drop(crate::lease::Alone(alone));
        };
        for access in [PoolAccess::ReadWrite, PoolAccess::Exclusive] {
            let refused = pools.connect((&head, 0), &name, access, |_| {
                others();
                Err::<(), _>(Error::NoPermission)
            });
            assert_eq!(refused.map(drop), Err(Error::NoPermission));
            others();
        }
        // The owner destroys it, without force.
        let gone = pools.connect((&head, 0), &name, PoolAccess::ReadWrite, |_| {
            assert_eq!(pools.destroy(&name, false), Ok(()));
            Err::<(), _>(Error::NoPermission)
        });
        assert_eq!(gone.map(drop), Err(Error::NotFound));
    }

    #[test]
    fn nothing_of_a_system_that_has_the_name_of_a_moved_one_is_opened_changed_or_removed() {
        let (dir, key) = (scratch("moved"), PartKey(5));
        let [before, after] = ["before", "after"].map(|name| dir.0.join(name));
        std::fs::create_dir(&before).unwrap();
        let pools = of(&before, Peers::new(0, Vec::new(), None));
        std::fs::rename(&before, &after).unwrap();
        std::fs::create_dir(&before).unwrap();
        let other = of(&before, Peers::new(0, Vec::new(), None));
        let part = Uuid::from_u128(2);
        let spec = PoolSpec { targets: Some(1), volatile: true, ..PoolSpec::default() };
        make(&other, Uuid::from_u128(1)).unwrap();
        other.create_here(&spec, part, Some(Spread { rank: 1, ranks: vec![0, 1], key: key.0 })).unwrap();
        std::fs::create_dir_all(before.join("remains/t0")).unwrap();
        let stale = Err(Error::Io { target: TargetNo(0), errno: ERRNO_STALE });
        let name = PoolName::Uuid(Uuid::from_u128(1));
        for force in [false, true] {
            assert_eq!(pools.destroy_by(&name, force, &|_, _| Ok(())), stale);
        }
        let connect = |access| pools.connect((&Head::default(), 0), &name, access, |_| Ok(())).map(drop);
        assert_eq!(
            [PoolAccess::ReadWrite, PoolAccess::Exclusive].map(connect),
            [stale.clone(), stale.clone()]
        );
        assert_eq!(pools.list().map(drop), stale);
        assert_eq!(pools.connect_part(part, key).map(drop), stale);
        assert_eq!(pools.destroy_part(part, key), stale);
        assert_eq!(pools.evict_part(part, key), stale);
        assert_eq!(pools.evict(&name), stale);
        assert_eq!(pools.create_here(&spec, Uuid::from_u128(3), None), stale);
        assert_eq!(pools.remove_destroyed(), stale);
        assert!(!pools.finish_destroyed_by(&|_, _| Ok(())) && !pools.remove_unmade(part, key));
        pools.open_ahead(part);
        assert!(pools.open().is_empty());
        let names = |dir: &Path| dolmen_env::entries(dir).unwrap();
        let (found, uuid) = (names(&before), part.to_string());
        assert!(
            ["tank", uuid.as_str(), "remains"].iter().all(|name| found.iter().any(|found| found == name))
        );
        assert!(names(&after).is_empty(), "{:?}", names(&after));
        // Back where it was, it is served.
        std::fs::rename(&before, dir.0.join("other")).unwrap();
        std::fs::rename(&after, &before).unwrap();
        assert_eq!(pools.list().map(|all| all.len()), Ok(0));
        assert_eq!(make(&pools, Uuid::from_u128(4)), Ok(()));
    }

    #[test]
    fn who_waits_to_destroy_a_part_keeps_nobody_from_other_pools() {
        let dir = std::env::temp_dir().join(format!("dolmen-parts-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let pools = of(&dir, Peers::new(1, Vec::new(), None));
        let (held, free, key) = (Uuid::from_u128(1), Uuid::from_u128(2), PartKey(5));
        for uuid in [held, free] {
            let spread = Spread { rank: 1, ranks: vec![0, 1], key: key.0 };
            let spec = PoolSpec { targets: Some(1), volatile: true, ..PoolSpec::default() };
            pools.create_here(&spec, uuid, Some(spread)).unwrap();
        }
        dolmen_env::scope(|threads| {
            let alone = pools.alone_with(held);
            let waiting: Vec<_> = (0..2).map(|_| threads.spawn(|| pools.destroy_part(held, key))).collect();
            // However far those are by now.
            for _ in 0..100 {
                dolmen_env::yield_now();
                assert_eq!(pools.destroy_part(Uuid::from_u128(3), key), Ok(()), "there is none");
            }
            assert_eq!(pools.destroy_part(free, key), Ok(()));
            assert!(pools.find(&PoolName::Uuid(held)).is_ok());
            drop(alone);
            assert!(
                waiting.into_iter().all(|thread| thread.join().unwrap() == Ok(())),
                "the second finds none"
            );
        });
        assert_eq!(pools.find(&PoolName::Uuid(held)).map(drop), Err(Error::NotFound));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
