//! What an entry names, in use without being open: for a door that remembers files, directories, links and special files
//! alike by numbers of its own, and acts on each for whoever asks.

use crate::access::{Cred, Rights, check_add, check_dir};
use crate::attr::{SetAttrs, Stat};
use crate::dir::{Dir, OPEN_RETRIES, OpenOptions, check_mode, check_target};
use crate::error::{Error, Result, What, errno};
use crate::file::File;
use crate::layout::device_no::DeviceNo;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::{AKEY_RDEV, AKEY_SLINK};
use crate::leased::{leased, leased_by};
use crate::mount::{FILE_CLASS, Mount};
use crate::node::{InUse, Node, Slot};
use crate::path::check_name;
use crate::resolve::{Found, entry_name};
use crate::store::Beside;
use dolmen_client::{At, Leased, Way, now, side_by_side};
use dolmen_types::{Error as StoreError, ObjectClass, Oid};
use std::sync::Arc;

/// What is asked of a record.
type Check<'c> = &'c dyn Fn(&Slot, &Inode) -> Result<()>;

/// A file, directory, symbolic link, pipe, socket or device in use; a cheap handle, `Send` and `Sync`.
///
/// It stays the same thing when that is renamed. It is known by this, not open: with its last name a file goes, unless a
/// [`File`] has it open, and so does a symbolic link; of what is gone no more than its attributes are known. Pipes, sockets and
/// devices, which the system opens and tells nobody, stay until the last handle goes.
#[derive(Clone, Debug)]
pub struct Obj {
    pub(crate) node: Arc<Node>,
    pub(crate) cred: Option<Arc<Cred>>,
}

/// What [`Dir::make`] makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum New<'a> {
    /// An empty file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link to this, which need not exist.
    Symlink(&'a [u8]),
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device; takes user 0.
    CharDevice(DeviceNo),
    /// A block device; takes user 0.
    BlockDevice(DeviceNo),
}

impl New<'_> {
    /// Zero of what is no device.
    fn device(self) -> DeviceNo {
        match self {
            Self::CharDevice(device) | Self::BlockDevice(device) => device,
            _ => DeviceNo::default(),
        }
    }

    fn kind(self) -> FileKind {
        match self {
            Self::File => FileKind::File,
            Self::Directory => FileKind::Directory,
            Self::Symlink(_) => FileKind::Symlink,
            Self::Pipe => FileKind::Pipe,
            Self::Socket => FileKind::Socket,
            Self::CharDevice(_) => FileKind::CharDevice,
            Self::BlockDevice(_) => FileKind::BlockDevice,
        }
    }

    fn check(self, cred: Option<&Cred>, mode: u32) -> Result<()> {
        check_mode(mode)?;
        match self {
            Self::Symlink(target) => check_target(target),
            _ if self.kind().is_device() && cred.is_some_and(|cred| !cred.is_root()) => {
                Err(Error::NotPermitted)
            }
            _ => Ok(()),
        }
    }
}

impl Dir {
    /// The same directory as `cred` may use it.
    #[must_use]
    pub fn as_user(&self, cred: &Arc<Cred>) -> Self {
        Self { node: Arc::clone(&self.node), cred: Some(Arc::clone(cred)) }
    }

    /// This directory as what its entry names.
    #[must_use]
    pub fn obj(&self) -> Obj {
        Obj { node: Arc::clone(&self.node), cred: self.cred.clone() }
    }

    /// What the entry `name` of this directory names, with its attributes: one fetch, and for a file the query of its size.
    /// Symbolic links are not followed.
    ///
    /// # Errors
    /// `NotFound`; `NoPermission` without the right to pass through; `Invalid(Name)`, `NameTooLong`.
    pub fn lookup(&self, name: impl AsRef<[u8]>) -> Result<(Obj, Stat)> {
        let name = name.as_ref();
        check_name(name)?;
        for _ in 0..OPEN_RETRIES {
            self.passable()?;
            if let Some(found) = now(self.look_up(Way::Now, name))? {
                return Ok(found);
            }
        }
        Err(Error::Contended)
    }

    /// As [`Dir::lookup`], for a door whose system opens in a second step what it was told of here. Where an open has found a file of
    /// that name gone a moment ago, since another mount had replaced it, what is found is open for a moment: a second step within
    /// that finds it, whatever becomes of the name.
    ///
    /// # Errors
    /// As `lookup`.
    pub fn lookup_to_open(&self, name: impl AsRef<[u8]>) -> Result<(Obj, Stat)> {
        let (name, mount) = (name.as_ref(), self.mount());
        if !mount.is_replaced_often(&Slot::new(self.node.oid, name)) {
            return self.lookup(name);
        }
        for _ in 0..OPEN_RETRIES {
            let (obj, stat) = self.lookup(name)?;
            if obj.kind() != FileKind::File {
                return Ok((obj, stat));
            }
            match InUse::told(&obj.node, false) {
                // Replaced since.
                Err(Error::Stale) => {}
                told => {
                    mount.hold(told?.0);
                    return Ok((obj, stat));
                }
            }
        }
        Err(Error::Contended)
    }

    /// As [`Dir::lookup`] of each of these names, which are asked for side by side, and with the leases on all that was read for it if
    /// these are wanted.
    pub fn lookup_all(&self, names: &[&[u8]], with_leases: bool) -> Vec<(Result<(Obj, Stat)>, Leased)> {
        // Whether he may pass is asked once for all.
        let (passable, of_dir) = match with_leases {
            true => leased(|| self.passable()),
            false => (self.passable(), Leased::default()),
        };
        if let Err(denied) = passable {
            return names.iter().map(|_| (Err(denied.clone()), of_dir.clone())).collect();
        }
        let looks = names.iter().map(async |name| match with_leases {
            true => {
                let (found, mut leased) = leased_by(Box::pin(self.look_up_again(name))).await;
                leased.join(of_dir.clone());
                (found, leased)
            }
            false => (self.look_up_again(name).await, Leased::default()),
        });
        self.mount().container.together(side_by_side(looks))
    }

    /// What the entry `name` names, whatever that was a moment ago.
    async fn look_up_again(&self, name: &[u8]) -> Result<(Obj, Stat)> {
        check_name(name)?;
        for _ in 0..OPEN_RETRIES {
            if let Some(found) = self.look_up(Way::Later, name).await? {
                return Ok(found);
            }
        }
        Err(Error::Contended)
    }

    /// What the entry `name` names; `None` if it is something else by now.
    async fn look_up(&self, way: Way, name: &[u8]) -> Result<Option<(Obj, Stat)>> {
        let (dir, mount) = (&self.node, self.mount());
        let quiet = mount.removals.quiet();
        let slot = Slot::new(dir.oid, name);
        let (inode, atime) = mount.inode_and_atime_by(way, &slot).await?.ok_or(Error::NotFound)?;
        let found = Found { dir: Some(Arc::clone(dir)), slot, inode, quiet };
        match mount.use_found(way, &found, atime).await {
            Ok(found) => Ok(found.map(|(node, stat)| (Obj { node, cred: self.cred.clone() }, stat))),
            // Gone.
            Err(Error::Stale) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn passable(&self) -> Result<()> {
        check_dir(self.cred.as_deref(), &self.node, Rights::EXECUTE)
    }

    /// Makes the entry `name` of this directory, and tells what it is: one conditional update.
    ///
    /// # Errors
    /// `Exists`, `NoPermission`, `ReadOnly`, `Invalid(Mode)`; `NotFound` if this directory was removed, and for an empty
    /// target of a link; `NotPermitted` for a device.
    pub fn make(&self, name: impl AsRef<[u8]>, new: New<'_>, mode: u32) -> Result<(Obj, Stat)> {
        let (name, dir, mount) = (name.as_ref(), &self.node, self.mount());
        mount.check_writable()?;
        new.check(self.cred.as_deref(), mode)?;
        entry_name(name, Error::Exists)?;
        self.check_new_entry(dir, name)?;
        let mut inode = match new {
            New::File => {
                let options = OpenOptions { mode, ..OpenOptions::CREATE_NEW };
                self.file_record(dir, &options, FILE_CLASS)?
            }
            New::Directory => self.dir_record(dir, mode, ObjectClass::UNKNOWN)?,
            New::Symlink(target) => self.symlink_record(dir, target)?,
            _ => self.inode_in(dir, new.kind(), mode, self.number()?),
        };
        let device = new.device();
        let number = device.to_bytes();
        let own: Option<Beside<'_>> = match new {
            New::Symlink(target) => Some((AKEY_SLINK, target)),
            _ => new.kind().is_device().then_some((AKEY_RDEV, &number[..])),
        };
        let lists = self.inherit(dir, &mut inode, mode)?;
        let mut beside = lists.beside();
        beside.extend(own);
        let node = Arc::clone(self.insert_in_use(dir, name, &inode, &beside)?.node());
        let stat = mount.stat_made(&inode, device);
        Ok((Obj { node, cred: self.cred.clone() }, stat))
    }

    /// Opens the file that is the entry `name` of this directory, made if it is missing, and tells its attributes. A
    /// symbolic link is not followed.
    ///
    /// # Errors
    /// As `open`.
    pub fn create(&self, name: impl AsRef<[u8]>, options: &OpenOptions) -> Result<(File, Stat)> {
        let name = name.as_ref();
        let options = &OpenOptions { create: true, no_follow: true, ..*options };
        options.check(self.mount())?;
        check_name(name)?;
        for _ in 0..OPEN_RETRIES {
            match self.create_in(&self.node, name, false, options) {
                Ok((in_use, inode)) => {
                    let file = File::new(in_use, options, self.cred.clone())?;
                    return Ok((file, self.mount().stat_made(&inode, DeviceNo::default())));
                }
                Err(Error::Exists) if !options.exclusive => match self.open_existing(name, options) {
                    Err(Error::NotFound) => {}
                    opened => {
                        let file = opened?;
                        let stat = file.stat()?;
                        return Ok((file, stat));
                    }
                },
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended)
    }

    /// Makes `name` of this directory another name of `obj`, and tells its attributes.
    ///
    /// # Errors
    /// As `link`, also of whose file it is; `NotFound` for what has no name any more, other than what [`Dir::tmpfile`] has made.
    pub fn link_to(&self, obj: &Obj, name: impl AsRef<[u8]>) -> Result<Stat> {
        let (name, mount) = (name.as_ref(), self.mount());
        mount.check_writable()?;
        if !Arc::ptr_eq(mount, &obj.node.mount) {
            return Err(Error::CrossMount);
        }
        entry_name(name, Error::Exists)?;
        if !obj.kind().has_links() {
            return Err(Error::NotPermitted);
        }
        check_add(self.cred.as_deref(), &self.node)?;
        let to = Slot::new(self.node.oid, name);
        mount.in_dir(&self.node, || {
            mount.at_home(&obj.node, |from| {
                if let Some(cred) = self.cred.as_deref().filter(|cred| !cred.is_root()) {
                    obj.look_at(from, &|home, inode| mount.check_link_source(cred, home, inode))?;
                }
                match obj.node.is_removed() {
                    false => mount.link(from, obj.node.oid, &self.node, &to),
                    true if obj.node.is_nameable() => {
                        let in_use = InUse::new(&obj.node).or(Err(Error::NotFound))?;
                        mount.name_orphan(in_use.node(), from, &self.node, &to)
                    }
                    true => Err(Error::NotFound),
                }
            })
        })?;
        obj.node.note_name(&to);
        obj.stat()
    }
}

impl Obj {
    /// The same thing as `cred` may use it.
    #[must_use]
    pub fn as_user(&self, cred: &Arc<Cred>) -> Self {
        Self { node: Arc::clone(&self.node), cred: Some(Arc::clone(cred)) }
    }

    /// The same thing, without a caller whose rights are looked at: for a door that has looked at them itself.
    #[must_use]
    pub fn unchecked(&self) -> Self {
        Self { node: Arc::clone(&self.node), cred: None }
    }

    fn mount(&self) -> &Arc<Mount> {
        &self.node.mount
    }

    /// The object of the contents, or what stands for it where there are none.
    #[must_use]
    pub fn oid(&self) -> Oid {
        self.node.oid
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.node.kind
    }

    /// Kind and permissions in one number, as last seen.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.node.mode()
    }

    /// Whether its last name is gone.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.node.is_removed()
    }

    /// The directory that this is.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub fn as_dir(&self) -> Result<Dir> {
        match self.kind() {
            FileKind::Directory => Ok(Dir { node: Arc::clone(&self.node), cred: self.cred.clone() }),
            _ => Err(Error::NotDirectory),
        }
    }

    /// Opens the file that this is; nothing is made. In a shared mount that looks whether it is still there.
    ///
    /// # Errors
    /// `IsDirectory`, `SymlinkLoop`; `Invalid(Kind)` for pipes, sockets and devices, which only the system can open;
    /// `NoPermission`, `ReadOnly`; in a shared mount `Stale` if another mount has moved or removed it.
    pub fn open(&self, options: &OpenOptions) -> Result<File> {
        let options = &OpenOptions { create: false, exclusive: false, ..*options };
        options.check(self.mount())?;
        match self.kind() {
            FileKind::File => {}
            FileKind::Directory => return Err(Error::IsDirectory),
            FileKind::Symlink => return Err(Error::SymlinkLoop),
            _ => return Err(What::Kind.into()),
        }
        let in_use = self.begin_use(options.rights()).inspect_err(|error| self.note_stale(error))?;
        let file = File::new(in_use, options, self.cred.clone())?;
        if options.truncate {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Has it open for one who may do this with it, if it is still there, or is open for who has looked it up.
    fn begin_use(&self, rights: Rights) -> Result<InUse> {
        if let Some(held) = self.mount().held(self.node.oid) {
            // Its record may be where no name leads any more.
            let look = |check: Check<'_>| self.mount().at_home(&self.node, |slot| self.look_at(slot, &check));
            self.check_access_by(rights, look)?;
            return Ok(held);
        }
        self.check_access(rights)?;
        let (in_use, was_seen) = InUse::told(&self.node, false)?;
        if !was_seen && self.cred.is_none() && self.mount().asks_before_opening() {
            // Who finds out by a write that nobody will ever see it cannot look for the name again.
            self.with_record(|_slot, _inode| Ok(()))?;
        }
        Ok(in_use)
    }

    /// Checks that the caller may do this with it, as access(2); the way here is not looked at.
    ///
    /// # Errors
    /// `NoPermission`; `ReadOnly` for a write right on a read-only mount; `Stale` if another mount moved or removed it.
    pub fn check_access(&self, rights: Rights) -> Result<()> {
        self.check_access_by(rights, |check| self.with_record(check))
    }

    /// The same by the record at which `look` has it checked.
    fn check_access_by(&self, rights: Rights, look: impl FnOnce(Check<'_>) -> Result<()>) -> Result<()> {
        if rights.0 & Rights::WRITE.0 != 0 && !self.kind().is_special() {
            self.mount().check_writable()?;
        }
        if self.cred.is_none() {
            return Ok(());
        }
        look(&|slot, inode| self.mount().check(self.cred.as_deref(), slot, inode, rights))
    }

    /// Where the symbolic link that this is points.
    ///
    /// # Errors
    /// `Invalid(Kind)` if it is none.
    pub fn readlink(&self) -> Result<Vec<u8>> {
        if self.kind() != FileKind::Symlink {
            return Err(What::Kind.into());
        }
        self.with_record(|slot, inode| self.mount().target(At::Latest, slot, inode))
    }

    /// Runs `look` on its record, wherever that is now.
    fn with_record<T>(&self, look: impl Fn(&Slot, &Inode) -> Result<T>) -> Result<T> {
        self.mount().at_name(&self.node, |slot| self.look_at(slot, &look))
    }

    /// Runs `look` on its record in `slot`.
    fn look_at<T>(&self, slot: &Slot, look: &impl Fn(&Slot, &Inode) -> Result<T>) -> Result<T> {
        look(slot, &self.mount().record_of(At::Latest, slot, self.node.oid)?)
    }

    /// Attributes, also of what has no name any more (`links` is 0 then).
    ///
    /// # Errors
    /// `Stale` if another mount moved or removed it.
    pub fn stat(&self) -> Result<Stat> {
        if self.kind() == FileKind::Directory && self.is_removed() || self.node.is_gone() {
            return Ok(self.node.last_stat());
        }
        self.mount().stat_node(&self.node).inspect_err(|error| self.note_stale(error))
    }

    /// Whoever is told that a file is gone from where it was found looks its name up again. Which of several names he means nobody knows.
    pub(crate) fn note_stale(&self, error: &Error) {
        if *error == Error::Stale && self.kind() == FileKind::File {
            self.mount().note_replaced(&self.node.found_by());
        }
    }

    /// The system's number for an error that something in this file system has had, as [`Error::errno`], but that it tells who is not let
    /// in any more from who may do less than he could: ESTALE if the container or its pool was destroyed, or taken from its user, and
    /// else EACCES. To tell them apart costs a read.
    #[must_use]
    pub fn errno_of(&self, error: &Error) -> i32 {
        match error.of_store() {
            Some(StoreError::NoHandle | StoreError::NoContainer) => errno::ESTALE,
            Some(StoreError::NoPermission) if self.mount().is_let_in() => errno::EACCES,
            Some(StoreError::NoPermission) => errno::ESTALE,
            _ => error.errno(),
        }
    }

    /// Sets attributes.
    ///
    /// # Errors
    /// As `Dir::set_attrs`.
    pub fn set_attrs(&self, attrs: &SetAttrs) -> Result<()> {
        let mount = self.mount();
        mount.check_writable()?;
        mount.at_home(&self.node, |slot| mount.set_attrs(self.cred.as_deref(), slot, self.node.oid, attrs))
    }
}

impl Obj {
    /// Notes that it was read: a file's contents, a directory's entries, or where a link points. The access time changes
    /// if it is older than the last change or than a day, and is recorded with the other times. Nothing happens in a mount
    /// that keeps none.
    ///
    /// # Errors
    /// Those of the store, from the first look at the record.
    pub fn note_read(&self) -> Result<()> {
        let mount = self.mount();
        if !mount.atime || mount.is_read_only() {
            return Ok(());
        }
        if !self.node.knows_access() {
            self.stat()?;
        }
        self.node.note_access(mount.now_ns());
        Ok(())
    }
}

impl Dir {
    /// Records the times of this directory that wait for it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn record_times(&self) -> Result<()> {
        self.mount().record_times(&self.node)
    }
}

impl Mount {
    /// Whether the engine lets in whoever has the container open here, for reads at least.
    fn is_let_in(&self) -> bool {
        !self.inode(At::Latest, &self.root_slot()).is_err_and(|error| error.is_of_rights())
    }

    /// The node and attributes of what was found; `None` if the entry has changed since.
    async fn use_found(
        self: &Arc<Self>,
        way: Way,
        found: &Found,
        atime: Option<Time>,
    ) -> Result<Option<(Arc<Node>, Stat)>> {
        if found.inode.is_dir() {
            let node = self.dir_node(found.dir.as_ref(), &found.slot, &found.inode, found.quiet)?;
            let stat = self.stat_of_by(way, &found.slot, &found.inode, 1, atime).await?;
            return Ok(Some((node, stat)));
        }
        let (inode, links, home) = self.attributes_by(way, At::Latest, &found.slot, &found.inode).await?;
        let Some(node) = self.file_node(found, &inode, home.clone())? else { return Ok(None) };
        if found.inode.linked {
            node.note_name(&found.slot);
        }
        let atime = if found.inode.linked { self.atime_by(way, At::Latest, &home).await? } else { atime };
        let stat = self.stat_of_by(way, &home, &inode, links, atime).await?;
        Ok(Some((node, stat)))
    }
}
