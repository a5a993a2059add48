//! Which files are open in which mount, where several processes have the container (docs/decisions/0039-open-elsewhere.md).
//!
//! A mount takes a lock of each file that it has open, of a family that programs do not see, at the engine that keeps locks.
//! Whoever removes the last name of a file takes the same lock for himself alone until the name is gone: he gets it if
//! nobody else has the file open. If he does not, the file goes to the list of files without a name instead. Whoever moves a file
//! that others have open puts its record beside its names, as that of a file with several: there they find it.
//!
//! Invariants: what is open has its lock before the last look at its name, and as long as it is open; nobody frees a file that others have
//! the lock of.

mod replaced;

pub(crate) use replaced::Replaced;

use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::layout::is_companion;
use crate::locks::{LockOwner, Locked, Locks, Setting};
use crate::mount::{Dfs, Mount};
use crate::node::{Home, Node, Slot};
use crate::obj::Obj;
use crate::orphans::{Kept, kept, random};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_client::At;
use dolmen_client::lock::{LockFamily, LockKind, LockRange, TERM_NS};
use dolmen_types::{ObjectType, Oid};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long who opens a file waits for one who is removing a name of it; after that he has it open as where nobody keeps locks.
const REMOVAL_NS_MAX: u64 = TERM_NS;

/// How long he rests between two questions, twice as long each time: a removal takes a few requests, but it may have to begin anew
/// for as long as others change the same entries.
const REMOVAL_REST_MIN: Duration = Duration::from_micros(200);
const REMOVAL_REST_MAX: Duration = Duration::from_millis(10);

/// What the engine knows to be open here.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    /// Nobody keeps locks.
    by_nobody: AtomicBool,
    /// Guards: who asks, in which process; taken alone.
    asker: Mutex<Option<(u32, Arc<Locks>)>>,
    /// Guards: files whose locks could not be given back; taken alone.
    owed: Mutex<Vec<Oid>>,
}

/// Whether others have a file open.
pub(crate) enum Elsewhere<'a> {
    /// Or nobody knows yet.
    Open,
    /// Nobody has, and nobody begins to while this lives.
    No(Option<Alone<'a>>),
}

/// The lock of a file for one alone.
pub(crate) struct Alone<'a> {
    opens: &'a Opens,
    locks: Arc<Locks>,
    file: Oid,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.opens.give_back(&self.locks, self.file);
    }
}

/// The lock of a file that is being made, which is asked for before that is.
pub(crate) struct Telling {
    locks: Arc<Locks>,
    setting: Setting,
    is_first: bool,
}

/// The last name of a file, on its way out.
#[derive(Default)]
pub(crate) struct Leaving<'a> {
    alone: Option<Alone<'a>>,
    /// Others have it open, and it is in the list.
    is_left: bool,
}

pub(crate) fn owner(file: Oid) -> LockOwner {
    LockOwner { oid: file, family: LockFamily::Open, owner: 0 }
}

/// Whether it is something whose opens are known: pipes and devices are opened by the system, which tells nobody.
pub(crate) fn is_file(oid: Oid) -> bool {
    oid.object_type() == Some(ObjectType::ArrayByte)
}

impl Opens {
    fn asker(&self) -> MutexGuard<'_, Option<(u32, Arc<Locks>)>> {
        self.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owed(&self) -> MutexGuard<'_, Vec<Oid>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The locks, made if there are none yet; those of a parent are not its child's.
    fn locks(&self, mount: &Mount) -> Option<Arc<Locks>> {
        let (mut asker, process) = (self.asker(), dolmen_env::process_id());
        if let Some((of, locks)) = &*asker
            && *of == process
        {
            return Some(Arc::clone(locks));
        }
        let locks = Arc::new(Locks::of(mount.container.clone(), random()?.0));
        // What a parent has asked is not its child's to drop: a thread may hold what guards it, for ever.
        core::mem::forget(asker.replace((process, Arc::clone(&locks))));
        Some(locks)
    }

    /// The locks, if there are any of this process.
    fn own(&self) -> Option<Arc<Locks>> {
        let asker = self.asker();
        let (of, locks) = asker.as_ref()?;
        (*of == dolmen_env::process_id()).then(|| Arc::clone(locks))
    }

    /// Takes the lock of a file that is open here; whether it was got: not where nobody keeps locks, or there are too many.
    fn take(&self, mount: &Mount, file: Oid) -> Result<bool> {
        let Some(locks) = self.locks(mount) else { return Ok(false) };
        self.free_owed(&locks);
        let (since_ns, is_first) = (mount.monotonic_ns(), locks.is_empty());
        let mut rest = REMOVAL_REST_MIN;
        loop {
            let mut told = locks.set(owner(file), 0, LockRange::whole(LockKind::Read));
            if matches!(told, Ok(Locked::Later)) {
                // The engine knows by now what was open before it was started again.
                told = locks.claim(owner(file), LockRange::whole(LockKind::Read));
            }
            match kept(told)? {
                Kept::Told(Locked::Done) => {
                    if is_first {
                        mount.holder.wake();
                    }
                    return Ok(true);
                }
                Kept::Told(Locked::Held { .. } | Locked::Later) => {}
                Kept::TooMany => return Ok(false),
                Kept::ByNobody => {
                    self.by_nobody.store(true, Ordering::Relaxed);
                    return Ok(false);
                }
            }
            if mount.monotonic_ns().saturating_sub(since_ns) > REMOVAL_NS_MAX {
                return Ok(false);
            }
            dolmen_env::wait(rest);
            rest = (rest * 2).min(REMOVAL_REST_MAX);
        }
    }

    /// Asks for the lock of a file that is about to be made, without waiting; `None` where the file may be there before the lock is.
    fn take_soon(&self, mount: &Mount, file: Oid) -> Option<Telling> {
        let locks = mount.container.is_in_order().then(|| self.locks(mount))??;
        self.free_owed(&locks);
        let is_first = locks.is_empty();
        let setting = locks.set_soon(owner(file), LockRange::whole(LockKind::Read));
        Some(Telling { locks, setting, is_first })
    }

    /// Nobody waits for the answer: who removes the file in that moment leaves it to the list of files without a name.
    fn give_back(&self, locks: &Locks, file: Oid) {
        let failed = locks.free_soon(owner(file));
        if !failed.is_empty() {
            self.owed().extend(failed.iter().map(|who| who.oid));
        }
    }

    /// Gives back what could not be.
    fn free_owed(&self, locks: &Locks) {
        let owed = core::mem::take(&mut *self.owed());
        for (at, file) in owed.iter().enumerate() {
            if locks.free_again(owner(*file)).is_err() {
                return self.owed().extend(&owed[at..]);
            }
        }
    }

    /// Takes the lock for this mount alone.
    fn take_alone<'a>(&'a self, mount: &Mount, file: Oid) -> Result<Elsewhere<'a>> {
        if !mount.knows_opens() || !is_file(file) {
            return Ok(Elsewhere::No(None));
        }
        let Some(locks) = self.locks(mount) else { return Ok(Elsewhere::No(None)) };
        Ok(match kept(locks.set(owner(file), 0, LockRange::whole(LockKind::Write)))? {
            Kept::Told(Locked::Done) => Elsewhere::No(Some(Alone { opens: self, locks, file })),
            Kept::Told(Locked::Held { .. } | Locked::Later) => Elsewhere::Open,
            // Then nobody is kept from opening it meanwhile; but who has it open keeps it.
            Kept::TooMany if mount.is_held_elsewhere(file)? => Elsewhere::Open,
            Kept::TooMany => Elsewhere::No(None),
            Kept::ByNobody => {
                self.by_nobody.store(true, Ordering::Relaxed);
                Elsewhere::No(None)
            }
        })
    }

    /// Tells the engine that this mount is there, and what it has open if that was forgotten; whether there is anything to tell.
    pub(crate) fn renew(&self) -> bool {
        let Some(locks) = self.own() else { return false };
        self.owed().extend(locks.unfreed().iter().map(|who| who.oid));
        self.free_owed(&locks);
        // Ignored: it is told with the next file.
        let _later = locks.renew();
        !locks.is_empty()
    }

    /// The mount ends.
    pub(crate) fn end(&self) {
        if let Some(locks) = self.own() {
            // Ignored: then they end with the connection.
            let _end_later = locks.leave();
        }
    }
}

impl Mount {
    /// Whether it can be known what is open in other mounts.
    pub(crate) fn knows_opens(&self) -> bool {
        !self.caches_paths() && !self.is_relaxed() && !self.opens.by_nobody.load(Ordering::Relaxed)
    }

    /// Whether others have the file open whose last name goes, that is not open here: then it goes to the list.
    pub(crate) fn is_open_elsewhere<'a>(&'a self, file: Oid, leaving: &mut Leaving<'a>) -> Result<bool> {
        if leaving.alone.as_ref().is_some_and(|alone| alone.file == file) {
            return Ok(false);
        }
        match self.opens.take_alone(self, file)? {
            Elsewhere::Open => leaving.is_left = true,
            Elsewhere::No(alone) => leaving.alone = alone,
        }
        Ok(leaving.is_left)
    }

    /// Whether others have a file open, as far as the engine knows; nothing is taken. Who opens it while this is asked may be missed.
    pub(crate) fn is_held_elsewhere(&self, file: Oid) -> Result<bool> {
        if !self.knows_opens() || !is_file(file) {
            return Ok(false);
        }
        let Some(locks) = self.opens.locks(self) else { return Ok(false) };
        Ok(match kept(locks.test(owner(file), LockRange::whole(LockKind::Write)))? {
            Kept::Told(told) => told != Locked::Done,
            Kept::TooMany => false,
            Kept::ByNobody => {
                self.opens.by_nobody.store(true, Ordering::Relaxed);
                false
            }
        })
    }

    /// Whether others have the file open, of which this mount has the lock only if it has it open itself.
    pub(crate) fn has_open_elsewhere(&self, file: Oid) -> Result<Elsewhere<'_>> {
        self.opens.take_alone(self, file)
    }

    /// A file that somebody has open, and whose name is not where he has found it any more: by the record that whoever moved or removed
    /// it has left for him. `None` if there is none.
    pub(crate) fn left_file(self: &Arc<Self>, file: Oid) -> Result<Option<Arc<Node>>> {
        for slot in [Self::companion_slot(file), self.orphan_slot(file)] {
            let found = self.inode(At::Latest, &slot)?;
            let Some(inode) = found.filter(|inode| inode.oid == file && inode.kind == FileKind::File) else {
                continue;
            };
            let home = Home { slot: slot.clone(), parent: None };
            let (node, _) = self.nodes.find_or_add(file, || Node::new(self, &inode, home));
            self.follow_left(&node, slot);
            return Ok(Some(node));
        }
        Ok(None)
    }

    /// Where the record of a file lies that is open here, and whose name another mount has removed: beside its other names, or in the
    /// list. Whether it does.
    pub(crate) fn finds_left(&self, node: &Node) -> Result<bool> {
        if node.kind != FileKind::File || node.is_removed() || !node.is_known_open() {
            return Ok(false);
        }
        let is_at = |slot: &Slot| match self.inode(At::Latest, slot) {
            Err(error) if error.is_damage() => Ok(false),
            other => Ok::<_, Error>(other?.is_some_and(|inode| inode.oid == node.oid)),
        };
        let (shared, left) = (Self::companion_slot(node.oid), self.orphan_slot(node.oid));
        if !node.is_at(&shared) && is_at(&shared)? {
            self.follow_left(node, shared);
            return Ok(true);
        }
        let is_left = is_at(&left)?;
        if is_left {
            self.follow_left(node, left);
        }
        Ok(is_left)
    }

    /// The record of a file lies there now: beside its other names, or in the list, where it has none.
    fn follow_left(&self, node: &Node, slot: Slot) {
        let home = Home { slot, parent: None };
        if is_companion(home.slot.oid) {
            node.set_home(home);
        } else {
            self.holder.note_entry();
            node.set_left(home);
        }
    }
}

impl Dfs {
    /// A file that somebody else has open and whose name is gone or elsewhere, by its number: for a door that is asked to open it for who
    /// has it open past that door. `None` if nothing was left of it for anybody.
    ///
    /// # Errors
    /// Those of the store.
    pub fn left_file(&self, file: Oid) -> Result<Option<Obj>> {
        let node = self.mount().left_file(file)?;
        Ok(node.map(|node| Obj { node, cred: self.cred.clone() }))
    }
}

impl Leaving<'_> {
    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        self.is_left = false;
    }

    /// The name is gone. If others have the file open it is freed when they have not any more.
    pub(crate) fn settle(self, mount: &Mount, file: Oid) {
        if self.is_left {
            mount.holder.note_entry();
            mount.holder.note_unfreed(file);
        }
    }
}

impl Node {
    /// Has the others know that it is open here. What was there before is looked at once more then: whoever removed its last name
    /// before that has not known it.
    pub(crate) fn tell_open(&self, is_new: bool) -> Result<bool> {
        let mount = &self.mount;
        if self.kind != FileKind::File || !mount.tells_opens || !mount.knows_opens() {
            return Ok(false);
        }
        let mut is_told = self.told_open();
        if *is_told {
            return Ok(false);
        }
        *is_told = self.mount.opens.take(&self.mount, self.oid)?;
        if !*is_told || is_new {
            return Ok(false);
        }
        let looked = self.mount.at_name(self, |slot| self.mount.check_names(At::Latest, slot, self.oid));
        if looked.is_err() {
            *is_told = false;
            self.untell();
        }
        looked.map(|()| true)
    }

    /// As [`Node::tell_open`], of a file that is about to be made, without waiting for the answer if that can be.
    pub(crate) fn begin_to_tell(&self) -> Result<Option<Telling>> {
        let mount = &self.mount;
        if self.kind != FileKind::File || !mount.tells_opens || !mount.knows_opens() {
            return Ok(None);
        }
        let telling = mount.opens.take_soon(mount, self.oid);
        if telling.is_none() {
            self.tell_open(true)?;
        }
        Ok(telling)
    }

    /// It is made. What was not told before that is told now, as of a file that was there.
    pub(crate) fn end_telling(&self, telling: Telling) -> Result<()> {
        if telling.is_first {
            self.mount.holder.wake();
        }
        if !telling.locks.told(telling.setting) {
            return self.tell_open(false).map(drop);
        }
        *self.told_open() = true;
        Ok(())
    }

    /// The same when it is open no more.
    pub(crate) fn tell_closed(&self) {
        let mut is_told = self.told_open();
        if *is_told && !self.is_open() {
            *is_told = false;
            self.untell();
        }
    }

    pub(crate) fn untell(&self) {
        let opens = &self.mount.opens;
        if let Some(locks) = opens.own() {
            opens.give_back(&locks, self.oid);
        }
    }

    /// Whether the others know that it is open here.
    pub(crate) fn is_known_open(&self) -> bool {
        *self.told_open()
    }
}
