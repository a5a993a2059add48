//! Entries of directories: making, opening, removing.

use crate::access::{Cred, Rights, check, check_add, check_remove, check_remove_damaged};
use crate::attr::SetAttrs;
use crate::error::{Error, Result, What};
use crate::file::File;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::{self, AKEY_SLINK, PATH_BYTES_MAX};
use crate::mount::{FILE_CLASS, Mount};
use crate::node::{Home, InUse, Node, Removing, Slot};
use crate::opens::Leaving;
pub use crate::path::check_name;
use crate::resolve::{Follow, Found, Start, entry_name};
use crate::store::Beside;
use dolmen_client::{At, Way};
use dolmen_types::{ObjectClass, ObjectType, Oid};
use std::sync::{Arc, PoisonError};

/// A directory in use; all paths given to it begin there unless they begin with a slash.
///
/// A cheap handle, `Send` and `Sync`. It stays the same directory when that is renamed; when it is removed,
/// nothing is found in it any more and nothing can be added.
#[derive(Clone, Debug)]
pub struct Dir {
    pub(crate) node: Arc<Node>,
    pub(crate) cred: Option<Arc<Cred>>,
}

/// How a file is opened, as the flags of open(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of open(2), each on its own")]
pub struct OpenOptions {
    /// It will be read.
    pub read: bool,
    /// It will be written.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// Make it if it is missing.
    pub create: bool,
    /// With `create`: fail if it exists, also as a symbolic link.
    pub exclusive: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Fail if the last component is a symbolic link.
    pub no_follow: bool,
    /// Permission bits of a new file.
    pub mode: u32,
    /// Class of a new file; `UNKNOWN` takes the directory's.
    pub class: ObjectClass,
    /// Chunk of a new file; 0 takes the directory's.
    pub chunk_bytes: u64,
}

impl OpenOptions {
    /// For reading.
    pub const READ: Self = Self {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        no_follow: false,
        mode: 0o644,
        class: ObjectClass::UNKNOWN,
        chunk_bytes: 0,
    };
    /// For reading and writing.
    pub const WRITE: Self = Self { write: true, ..Self::READ };
    /// For reading and writing, made if it is missing.
    pub const CREATE: Self = Self { create: true, ..Self::WRITE };
    /// For reading and writing, and it must not exist.
    pub const CREATE_NEW: Self = Self { exclusive: true, ..Self::CREATE };
    /// For appending, made if it is missing.
    pub const APPEND: Self = Self { append: true, ..Self::CREATE };

    pub(crate) fn rights(&self) -> Rights {
        let read = if self.read { Rights::READ } else { Rights::NONE };
        let write = if self.write || self.append || self.truncate { Rights::WRITE } else { Rights::NONE };
        read.and(write)
    }

    pub(crate) fn check(&self, mount: &Mount) -> Result<()> {
        let writes = self.write || self.append;
        let does_nothing = !self.read && !writes;
        if does_nothing || (self.truncate && !writes) || (self.exclusive && !self.create) {
            return Err(What::Flags.into());
        }
        if self.chunk_bytes != 0 && !layout::superblock::is_chunk(self.chunk_bytes) {
            return Err(What::Placement.into());
        }
        check_mode(self.mode)?;
        if writes || self.create { mount.check_writable() } else { Ok(()) }
    }
}

/// The longest file that [`Dir::put_whole`] takes: it is one message and one log record a target.
pub const WHOLE_BYTES_MAX: usize = 1 << 20;

/// What an entry that is to be removed has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    NoDirectory,
    Directory,
    Anything,
}

impl Wanted {
    fn check(self, inode: &Inode) -> Result<()> {
        match (self, inode.is_dir()) {
            (Self::NoDirectory, true) => Err(Error::IsDirectory),
            (Self::Directory, false) => Err(Error::NotDirectory),
            _ => Ok(()),
        }
    }
}

/// Attempts of an open that others keep creating and removing under.
pub(crate) const OPEN_RETRIES: u32 = 64;

pub(crate) fn check_target(target: &[u8]) -> Result<()> {
    match target.len() {
        0 => Err(Error::NotFound),
        1..=PATH_BYTES_MAX => Ok(()),
        _ => Err(Error::NameTooLong),
    }
}

pub(crate) fn check_mode(mode: u32) -> Result<()> {
    if mode & !0o7777 == 0 { Ok(()) } else { Err(What::Mode.into()) }
}

impl Dir {
    pub(crate) fn start(&self) -> Start<'_> {
        Start { dir: &self.node, cred: self.cred.as_deref() }
    }

    pub(crate) fn mount(&self) -> &Arc<Mount> {
        &self.node.mount
    }

    /// The object of the directory.
    #[must_use]
    pub fn oid(&self) -> Oid {
        self.node.oid
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, and those of resolving a path.
    pub fn open_dir(&self, path: impl AsRef<[u8]>) -> Result<Self> {
        let found = self.start().find(path.as_ref(), Follow::Yes)?;
        Ok(Self { node: self.start().as_dir(&found)?, cred: self.cred.clone() })
    }

    /// Opens the file at `path`, or makes it if `options` say so. Making one is one conditional update.
    ///
    /// # Errors
    /// `NotFound`; `Exists` for `exclusive`; `IsDirectory`; `SymlinkLoop` for `no_follow`; `NoPermission`;
    /// `Invalid(Flags)`; `ReadOnly`.
    pub fn open(&self, path: impl AsRef<[u8]>, options: &OpenOptions) -> Result<File> {
        options.check(self.mount())?;
        let path = path.as_ref();
        if !options.create {
            return self.open_existing(path, options);
        }
        let mut made = None;
        for _ in 0..OPEN_RETRIES {
            match self.start().in_parent(path, |dir, name, slash| self.create_in(dir, name, slash, options)) {
                Ok((in_use, _)) => made = Some(in_use),
                Err(Error::Exists) if !options.exclusive => match self.open_existing(path, options) {
                    Err(Error::NotFound) => {
                        if let Some(file) = self.create_behind_link(path, options)? {
                            return Ok(file);
                        }
                        continue;
                    }
                    other => return other,
                },
                Err(error) => return Err(error),
            }
            break;
        }
        let in_use = made.ok_or(Error::Contended)?;
        File::new(in_use, options, self.cred.clone())
    }

    /// Makes the file that a dangling symbolic link at `path` points to; `None` if that was another case.
    fn create_behind_link(&self, path: &[u8], options: &OpenOptions) -> Result<Option<File>> {
        let found = match self.start().find(path, Follow::No) {
            Err(Error::NotFound) => return Ok(None),
            other => other?,
        };
        let (Some(dir), FileKind::Symlink) = (&found.dir, found.inode.kind) else { return Ok(None) };
        if options.no_follow {
            return Err(Error::SymlinkLoop);
        }
        let target = match self.mount().target(At::Latest, &found.slot, &found.inode) {
            // Replaced since it was found.
            Err(Error::Stale) => return Ok(None),
            told => told?,
        };
        let here = Self { node: Arc::clone(dir), cred: self.cred.clone() };
        here.open(&target, options).map(Some)
    }

    pub(crate) fn open_existing(&self, path: &[u8], options: &OpenOptions) -> Result<File> {
        let follow = if options.no_follow { Follow::No } else { Follow::Yes };
        for _ in 0..OPEN_RETRIES {
            let found = self.start().find(path, follow)?;
            match found.inode.kind {
                FileKind::Directory => return Err(Error::IsDirectory),
                FileKind::Symlink => return Err(Error::SymlinkLoop),
                FileKind::File => {}
                // Only the system can open what it stands for.
                _ => return Err(What::Kind.into()),
            }
            let (inode, _, home) = match self.mount().attributes(At::Latest, &found.slot, &found.inode) {
                // Replaced since it was found.
                Err(Error::Stale) => continue,
                told => told?,
            };
            self.mount().check(self.cred.as_deref(), &home, &inode, options.rights())?;
            let Some(node) = self.mount().file_node(&found, &inode, home)? else { continue };
            let in_use = match InUse::told(&node, false) {
                // Gone since it was found.
                Err(Error::Stale) => continue,
                told => told?.0,
            };
            let file = File::new(in_use, options, self.cred.clone())?;
            if options.truncate {
                file.set_len(0)?;
            }
            return Ok(file);
        }
        Err(Error::Contended)
    }

    /// Makes a file as the entry `name` of `dir`.
    pub(crate) fn create_in(
        &self,
        dir: &Arc<Node>,
        name: &[u8],
        slash: bool,
        options: &OpenOptions,
    ) -> Result<(InUse, Inode)> {
        entry_name(name, Error::IsDirectory)?;
        if slash {
            return Err(Error::IsDirectory);
        }
        self.check_new_entry(dir, name)?;
        let mut inode = self.file_record(dir, options, FILE_CLASS)?;
        let lists = self.inherit(dir, &mut inode, options.mode)?;
        Ok((self.insert_in_use(dir, name, &inode, &lists.beside())?, inode))
    }

    /// Adds an entry of what is open from the start.
    pub(crate) fn insert_in_use(
        &self,
        dir: &Arc<Node>,
        name: &[u8],
        inode: &Inode,
        beside: &[Beside<'_>],
    ) -> Result<InUse> {
        let mount = self.mount();
        let slot = Slot::new(dir.oid, name);
        let parent = inode.is_dir().then(|| Arc::clone(dir));
        // The node is in the table, and open, before the entry exists, so that whoever unlinks it sees it so.
        let home = Home { slot: slot.clone(), parent };
        let (node, _) = mount.nodes.find_or_add(inode.oid, || Node::new(mount, inode, home));
        let in_use = InUse::new(&node)?;
        let telling = node.begin_to_tell()?;
        let made = mount.insert(dir, &slot, inode, beside);
        let told = telling.map_or(Ok(()), |telling| node.end_telling(telling));
        match made.and(told) {
            Ok(()) => Ok(in_use),
            Err(error) => {
                node.take_pending_mtime();
                Err(error)
            }
        }
    }

    /// The record of a new file in `dir`, of class `otherwise` if nobody chose one.
    pub(crate) fn file_record(
        &self,
        dir: &Node,
        options: &OpenOptions,
        otherwise: ObjectClass,
    ) -> Result<Inode> {
        let mount = self.mount();
        let class = mount.file_class(dir, options.class, otherwise);
        let oid = mount.container.alloc_oid(ObjectType::ArrayByte, class)?;
        let chunk_bytes = match (options.chunk_bytes, dir.placement().1) {
            (0, 0) => mount.superblock.chunk_bytes,
            (0, of_dir) => of_dir,
            (asked, _) => asked,
        };
        Ok(Inode { chunk_bytes, ..self.inode_in(dir, FileKind::File, options.mode, oid) })
    }

    /// Makes a small file with its contents and attributes, all at once: whoever sees it sees the whole of it, and a
    /// crash leaves all or nothing. One batch, where `open`, `write_at` and `set_attrs` are three writes after each
    /// other.
    ///
    /// # Errors
    /// `Exists`, also for a symbolic link; `FileTooBig` above [`WHOLE_BYTES_MAX`]; those of `mkdir` and
    /// `Dir::set_attrs`.
    pub fn put_whole(&self, path: impl AsRef<[u8]>, data: &[u8], attrs: &SetAttrs) -> Result<()> {
        self.mount().check_writable()?;
        if data.len() > WHOLE_BYTES_MAX {
            return Err(Error::FileTooBig);
        }
        self.start().in_parent(path.as_ref(), |dir, name, slash| {
            entry_name(name, Error::IsDirectory)?;
            if slash {
                return Err(Error::IsDirectory);
            }
            self.check_new_entry(dir, name)?;
            // All of it is one chunk: on one shard its size is one question.
            let options = &OpenOptions::CREATE_NEW;
            let mut inode = self.file_record(dir, options, ObjectClass::S1)?;
            let lists = self.inherit(dir, &mut inode, options.mode)?;
            let cred = self.cred.as_deref();
            attrs.apply(cred, &mut inode, self.mount().now(), |inode| check(cred, inode, Rights::WRITE))?;
            self.mount().insert_file(dir, &Slot::new(dir.oid, name), &inode, (data, &lists.beside()))
        })
    }

    /// With credentials, an entry that exists is reported before a missing right is.
    pub(crate) fn check_new_entry(&self, dir: &Arc<Node>, name: &[u8]) -> Result<()> {
        let Err(denied) = check_add(self.cred.as_deref(), dir) else { return Ok(()) };
        match self.mount().inode(At::Latest, &Slot::new(dir.oid, name))? {
            Some(_) => Err(Error::Exists),
            None => Err(denied),
        }
    }

    /// Owner and group that new entries get, if the directory's set-group-id bit gives them no other.
    pub(crate) fn owner_of_entries(&self) -> (u32, u32) {
        self.cred.as_deref().map_or(self.mount().owner, |cred| (cred.uid, cred.gid))
    }

    /// A record with owner, group and times as a new entry of `dir` gets them.
    pub(crate) fn inode_in(&self, dir: &Node, kind: FileKind, mode: u32, oid: Oid) -> Inode {
        const SET_GROUP_ID: u32 = 0o2000;
        const GROUP_EXECUTES: u32 = 0o010;
        let mount = self.mount();
        let now_ns = mount.now_ns();
        let now = Time::from_unix_ns(now_ns);
        let (uid, mut gid) = self.owner_of_entries();
        let cred = self.cred.as_deref();
        let is_link = kind == FileKind::Symlink;
        let mut permissions = mode & !cred.map_or(0, |cred| if is_link { 0 } else { cred.umask & 0o777 });
        let (_, dir_gid, dir_mode) = dir.rights();
        if dir_mode & SET_GROUP_ID != 0 {
            gid = dir_gid;
            let is_program = permissions & (SET_GROUP_ID | GROUP_EXECUTES) == SET_GROUP_ID | GROUP_EXECUTES;
            if kind == FileKind::Directory {
                permissions |= SET_GROUP_ID;
            } else if is_program && cred.is_some_and(|cred| !cred.is_root() && !cred.in_group(gid)) {
                // A directory gives nobody the rights of a group that he is not in.
                permissions &= !SET_GROUP_ID;
            }
        }
        Inode {
            kind,
            permissions,
            oid,
            mtime: now,
            ctime: now,
            chunk_bytes: 0,
            class: oid.class(),
            uid,
            gid,
            link_bytes: 0,
            linked: false,
            written_at: dolmen_types::Epoch::from_unix_ns(now_ns),
        }
    }

    /// Makes a directory: one conditional update.
    ///
    /// # Errors
    /// `Exists`, `NotFound` (parent), `NoPermission`, `ReadOnly`, `Invalid(Mode)`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        self.mkdir_as(path, mode, ObjectClass::UNKNOWN)
    }

    /// Makes a directory of a given class; `UNKNOWN` takes the container's.
    ///
    /// # Errors
    /// As `mkdir`; those of the store for a class that it does not have.
    pub fn mkdir_as(&self, path: impl AsRef<[u8]>, mode: u32, class: ObjectClass) -> Result<()> {
        check_mode(mode)?;
        self.mount().check_writable()?;
        self.start().in_parent(path.as_ref(), |dir, name, _| {
            entry_name(name, Error::Exists)?;
            self.check_new_entry(dir, name)?;
            let mut inode = self.dir_record(dir, mode, class)?;
            let lists = self.inherit(dir, &mut inode, mode)?;
            self.mount().insert(dir, &Slot::new(dir.oid, name), &inode, &lists.beside())
        })
    }

    /// The record of a new directory in `dir`.
    pub(crate) fn dir_record(&self, dir: &Node, mode: u32, class: ObjectClass) -> Result<Inode> {
        let class = if class == ObjectClass::UNKNOWN { self.mount().dir_class() } else { class };
        let oid = self.mount().container.alloc_oid(ObjectType::MultiHashed, class)?;
        // What new entries get is handed down; zero says "the container's".
        let (class, chunk_bytes) = dir.placement();
        Ok(Inode { chunk_bytes, class, ..self.inode_in(dir, FileKind::Directory, mode, oid) })
    }

    /// Makes a symbolic link to `target`, which need not exist.
    ///
    /// # Errors
    /// As `mkdir`; `NotFound` or `NameTooLong` for an empty or too long target.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let target = target.as_ref();
        self.mount().check_writable()?;
        check_target(target)?;
        self.start().in_parent(path.as_ref(), |dir, name, slash| {
            entry_name(name, Error::Exists)?;
            if slash {
                return Err(Error::NotFound);
            }
            self.check_new_entry(dir, name)?;
            let inode = self.symlink_record(dir, target)?;
            self.mount().insert(dir, &Slot::new(dir.oid, name), &inode, &[(AKEY_SLINK, target)])
        })
    }

    /// The record of a new symbolic link in `dir`.
    pub(crate) fn symlink_record(&self, dir: &Node, target: &[u8]) -> Result<Inode> {
        let oid = self.number()?;
        let link_bytes = target.len() as u64;
        Ok(Inode { link_bytes, ..self.inode_in(dir, FileKind::Symlink, 0o777, oid) })
    }

    /// A new number for what has no contents.
    pub(crate) fn number(&self) -> Result<Oid> {
        Ok(self.mount().container.alloc_oid(ObjectType::MultiHashed, ObjectClass::S1)?)
    }

    /// Where the symbolic link at `path` points.
    ///
    /// # Errors
    /// `Invalid(Kind)` if it is none.
    pub fn readlink(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.with_found(path.as_ref(), Follow::No, |found| {
            if found.inode.kind != FileKind::Symlink {
                return Err(What::Kind.into());
            }
            self.mount().target(At::Latest, &found.slot, &found.inode)
        })
    }

    /// Removes the name of a file or symbolic link. A file goes with its last name, or, while it is open in
    /// this mount, with its last handle. Of an entry whose record is damaged the name goes, whatever it was; what it
    /// named is left to [`Dfs::check`](crate::Dfs::check).
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NoPermission`, `ReadOnly`.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.mount().check_writable()?;
        self.start().in_parent(path.as_ref(), |dir, name, slash| {
            entry_name(name, Error::IsDirectory)?;
            let slot = Slot::new(dir.oid, name);
            if slash {
                let inode = self.mount().inode(At::Latest, &slot)?.ok_or(Error::NotFound)?;
                return Err(if inode.is_dir() { Error::IsDirectory } else { Error::NotDirectory });
            }
            match self.mount().unlink(dir, &slot, |inode| check_remove(self.cred.as_deref(), dir, inode)) {
                Err(error) if error.is_damage() => self.discard_in(dir, &slot),
                done => done,
            }
        })
    }

    /// Removes a damaged entry of this directory, also one with a name that none can have: `name` is no path, and nothing
    /// outside of the directory is touched. What it named is left to [`Dfs::check`](crate::Dfs::check).
    ///
    /// # Errors
    /// `Exists` if the entry is not damaged; `NotFound`, `NoPermission`, `ReadOnly`.
    pub fn discard(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.mount().check_writable()?;
        self.discard_in(&self.node, &Slot::new(self.node.oid, name.as_ref()))
    }

    fn discard_in(&self, dir: &Node, slot: &Slot) -> Result<()> {
        check_remove_damaged(self.cred.as_deref(), dir)?;
        self.mount().discard(dir, slot)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `NoPermission`, `ReadOnly`; `Invalid(Name)` for `.`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.mount().check_writable()?;
        self.start().in_parent(path.as_ref(), |dir, name, _| {
            if name == b".." {
                return Err(Error::NotEmpty);
            }
            check_name(name)?;
            let slot = Slot::new(dir.oid, name);
            self.mount().rmdir(dir, &slot, |inode| check_remove(self.cred.as_deref(), dir, inode))
        })
    }
}

impl Dir {
    /// Removes the entry `name` of this directory, whatever it is: a file or symbolic link as `unlink`, an empty directory
    /// as `rmdir`. Tells what it was.
    ///
    /// # Errors
    /// As those two; `Invalid(Name)` for a path.
    pub fn remove(&self, name: impl AsRef<[u8]>) -> Result<(FileKind, Oid)> {
        self.remove_wanted(name.as_ref(), Wanted::Anything)
    }

    /// The same of a directory alone, or of anything but a directory.
    ///
    /// # Errors
    /// As `remove`.
    pub fn remove_as(&self, name: impl AsRef<[u8]>, is_dir: bool) -> Result<(FileKind, Oid)> {
        self.remove_wanted(name.as_ref(), if is_dir { Wanted::Directory } else { Wanted::NoDirectory })
    }

    fn remove_wanted(&self, name: &[u8], wanted: Wanted) -> Result<(FileKind, Oid)> {
        check_name(name)?;
        self.mount().check_writable()?;
        let slot = Slot::new(self.node.oid, name);
        if self.mount().is_shared() {
            let check = |inode: &Inode| check_remove(self.cred.as_deref(), &self.node, inode);
            return self.mount().remove_shared(&self.node, &slot, wanted, check);
        }
        let inode = self.mount().inode(At::Latest, &slot)?.ok_or(Error::NotFound)?;
        match wanted {
            Wanted::Directory => self.rmdir(name)?,
            Wanted::NoDirectory => self.unlink(name)?,
            Wanted::Anything => match self.unlink(name) {
                Err(Error::IsDirectory) => self.rmdir(name)?,
                done => done?,
            },
        }
        Ok((inode.kind, inode.oid))
    }
}

impl Mount {
    /// Adds an entry: one conditional update, and, if other mounts may remove the directory, a look whether it was still
    /// there then.
    ///
    /// The look is at the epoch of the entry. A removal with an earlier epoch that has not seen the entry is either
    /// seen by it, or meets its mark, is refused and begins anew; one with a later epoch sees the entry. Of a directory that is not
    /// there at that epoch and is there now, the entry is the later one, as the clock of the other target was ahead: so is any removal.
    /// Where an aggregation has passed the epoch no removal is accepted below it any more: what is there now is not removed unseen.
    ///
    /// Only what is known to be in a directory that has gone is taken back.
    pub(crate) fn insert(&self, dir: &Node, slot: &Slot, inode: &Inode, beside: &[Beside<'_>]) -> Result<()> {
        let gate = dir.gate.read().unwrap_or_else(PoisonError::into_inner);
        dir.check_there()?;
        let alone = self.alone();
        let epoch = self.put_new_entry(At::Latest, slot, inode, beside)?;
        // Nobody removes the root.
        if alone.is_none() && dir.oid != self.root_oid {
            let names_dir = |home: &Slot| match self.check_names(At::Snapshot(epoch), home, dir.oid) {
                Err(error) if error == Error::Stale || error.is_of_past() => {
                    self.check_names(At::Latest, home, dir.oid)
                }
                told => told,
            };
            match self.at_home(dir, names_dir) {
                Ok(()) => {}
                Err(gone @ (Error::Stale | Error::NotFound)) => {
                    self.take_back(slot, inode)?;
                    return Err(gone);
                }
                // The directory may be there, and somebody may use what was made.
                Err(error) => return Err(error),
            }
        }
        drop((gate, alone));
        self.touch(dir);
        Ok(())
    }

    /// Removes the entry `slot` if it still leads to what `inode` is, but for a directory that somebody has put something into
    /// meanwhile: a check finds that.
    fn take_back(&self, slot: &Slot, inode: &Inode) -> Result<()> {
        self.transact(|tx| match self.check_names(At::Tx(tx), slot, inode.oid) {
            Ok(()) if inode.is_dir() && !self.is_empty(At::Tx(tx), inode.oid)? => Ok(()),
            Ok(()) => self.punch_entry(At::Tx(tx), slot),
            Err(Error::Stale) => Ok(()),
            Err(other) => Err(other),
        })
    }

    /// Adds the entry of a new file together with its contents.
    fn insert_file(
        &self,
        dir: &Node,
        slot: &Slot,
        inode: &Inode,
        (data, beside): (&[u8], &[Beside<'_>]),
    ) -> Result<()> {
        self.add_to(dir, !beside.is_empty(), |at| match at {
            At::Latest if !data.is_empty() => self.put_new_file(slot, inode, data),
            at => {
                self.put_new_entry(at, slot, inode, beside)?;
                self.put_data(at, inode, data)
            }
        })
    }

    fn add_to(&self, dir: &Node, whole: bool, put: impl Fn(At<'_>) -> Result<()>) -> Result<()> {
        let gate = dir.gate.read().unwrap_or_else(PoisonError::into_inner);
        dir.check_there()?;
        let alone = self.alone();
        if alone.is_none() || whole {
            self.in_dir(dir, || {
                self.transact(|tx| {
                    self.check_alive(At::Tx(tx), dir)?;
                    put(At::Tx(tx))
                })
            })?;
        } else {
            put(At::Latest)?;
        }
        drop((gate, alone));
        self.touch(dir);
        Ok(())
    }

    /// Whether the directory's own entry still leads to it; remembered by the transaction.
    pub(crate) fn check_alive(&self, at: At<'_>, dir: &Node) -> Result<()> {
        self.check_names(at, &dir.slot(), dir.oid)
    }

    /// The record in `slot` of what has this number; `Stale` if that is not there.
    pub(crate) fn record_of(&self, at: At<'_>, slot: &Slot, oid: Oid) -> Result<Inode> {
        self.inode(at, slot)?.filter(|inode| inode.oid == oid).ok_or(Error::Stale)
    }

    /// Whether the entry `slot` leads to `oid`; else `Stale`.
    pub(crate) fn check_names(&self, at: At<'_>, slot: &Slot, oid: Oid) -> Result<()> {
        leads_to(self.inode(at, slot)?, oid)
    }

    /// As [`Mount::check_names`], on a way of the caller's.
    pub(crate) async fn check_names_by(&self, way: Way, at: At<'_>, slot: &Slot, oid: Oid) -> Result<()> {
        leads_to(self.inode_by(way, at, slot).await?, oid)
    }

    /// Removes the entry `slot` of `dir` that is no directory, and what it names with its last name.
    pub(crate) fn unlink(&self, dir: &Node, slot: &Slot, check: impl Fn(&Inode) -> Result<()>) -> Result<()> {
        let alone = self.alone();
        if alone.is_none() {
            return self.remove_shared(dir, slot, Wanted::NoDirectory, check).map(drop);
        }
        let removal = self.removals.begin();
        let stripe = self.stripes.hold(slot);
        let inode = self.inode(At::Latest, slot)?.ok_or(Error::NotFound)?;
        if inode.is_dir() {
            return Err(Error::IsDirectory);
        }
        check(&self.owned(slot, &inode)?)?;
        let removing = self.nodes.find(inode.oid).map(Removing::new);
        let is_open = removing.as_ref().is_some_and(|removing| removing.is_open);
        let (mut gone, mut leaving) = (true, Leaving::default());
        if inode.linked || is_open {
            let seen = inode.oid;
            gone = self.transact(|tx| {
                let inode = self.inode(At::Tx(tx), slot)?.ok_or(Error::NotFound)?;
                if inode.oid != seen {
                    return Err(Error::Stale);
                }
                let gone = self.drop_name(At::Tx(tx), slot, &inode, is_open, &mut leaving)?;
                self.punch_entry(At::Tx(tx), slot)?;
                Ok(gone)
            })?;
        } else if inode.kind == FileKind::File {
            self.remove_file(slot, inode.oid)?;
        } else {
            self.punch_entry(At::Latest, slot)?;
        }
        removing.filter(|_| gone).into_iter().for_each(Removing::settle);
        drop((stripe, removal, alone));
        if inode.kind == FileKind::Symlink {
            self.paths.forget_all();
        }
        self.touch(dir);
        Ok(())
    }

    /// Removes the entry `slot` of `dir` where other mounts may change it: one transaction, of a look at the entry, at a
    /// directory's entries, and the commit. Tells kind and object of what was removed.
    ///
    /// Who adds an entry to a directory that goes looks at it afterwards, so that nobody has to be kept out of it.
    fn remove_shared(
        &self,
        dir: &Node,
        slot: &Slot,
        wanted: Wanted,
        check: impl Fn(&Inode) -> Result<()>,
    ) -> Result<(FileKind, Oid)> {
        let removal = self.removals.begin();
        let stripe = self.stripes.hold(slot);
        // To the end, whatever becomes of the transaction: until then nobody opens it, here or elsewhere.
        let (mut removing, mut leaving) = (None, Leaving::default());
        let (inode, gone) = self.transact(|tx| {
            let at = At::Tx(tx);
            let inode = self.inode(at, slot)?.ok_or(Error::NotFound)?;
            wanted.check(&inode)?;
            check(&self.owned(slot, &inode)?)?;
            if inode.is_dir() && !self.is_empty(at, inode.oid)? {
                return Err(Error::NotEmpty);
            }
            // That of an attempt before ends first.
            drop(removing.take());
            removing = self.nodes.find(inode.oid).map(Removing::new);
            let is_open = removing.as_ref().is_some_and(|removing| removing.is_open);
            let gone = self.drop_name(at, slot, &inode, is_open, &mut leaving)?;
            self.punch_entry(at, slot)?;
            Ok((inode, gone))
        })?;
        leaving.settle(self, inode.oid);
        removing.filter(|_| gone).into_iter().for_each(Removing::settle);
        drop((stripe, removal));
        if inode.kind != FileKind::File {
            self.paths.forget_all();
        }
        self.touch(dir);
        Ok((inode.kind, inode.oid))
    }

    /// Takes back one name, the entry `slot`, of what `inode` is; whether that was the last. To remove the entry itself is
    /// the caller's, after this.
    pub(crate) fn drop_name<'a>(
        &'a self,
        at: At<'_>,
        slot: &Slot,
        inode: &Inode,
        open: bool,
        leaving: &mut Leaving<'a>,
    ) -> Result<bool> {
        leaving.begin();
        if inode.is_dir() {
            return Ok(true);
        }
        let (mut last, mut home) = (*inode, slot);
        let companion = Self::companion_slot(inode.oid);
        if inode.linked {
            let (shared, links) = match self.companion(at, inode.oid) {
                // How many names are left nobody knows: a check does.
                Err(error) if error.is_damage() || error == Error::NotFound => return Ok(false),
                other => other?,
            };
            if links.count() > 1 {
                self.set_links(at, inode.oid, links.count() - 1, self.now())?;
                return Ok(false);
            }
            (last, home) = (Inode { linked: false, ..shared }, &companion);
        }
        if open || self.is_open_elsewhere(inode.oid, leaving)? {
            self.put_orphan(at, &last, home)?;
        } else if inode.kind == FileKind::File {
            self.punch_object(at, inode.oid)?;
        }
        if inode.linked {
            self.punch_object(at, companion.oid)?;
        }
        Ok(true)
    }

    /// Removes the damaged entry `slot` of `dir`, and nothing else.
    fn discard(&self, dir: &Node, slot: &Slot) -> Result<()> {
        let removal = self.removals.begin();
        let stripe = self.stripes.hold(slot);
        self.transact(|tx| match self.inode(At::Tx(tx), slot) {
            Ok(Some(_)) if check_name(&slot.dkey).is_ok() => Err(Error::Exists),
            Ok(None) if !self.has_akeys(At::Tx(tx), slot)? => Err(Error::NotFound),
            Err(error) if !error.is_damage() => Err(error),
            _ => self.punch_entry(At::Tx(tx), slot),
        })?;
        drop((stripe, removal));
        self.paths.forget_all();
        self.touch(dir);
        Ok(())
    }

    /// Removes the empty directory at the entry `slot` of `dir`.
    pub(crate) fn rmdir(
        self: &Arc<Self>,
        dir: &Arc<Node>,
        slot: &Slot,
        check: impl Fn(&Inode) -> Result<()>,
    ) -> Result<()> {
        let alone = self.alone();
        if alone.is_none() {
            return self.remove_shared(dir, slot, Wanted::Directory, check).map(drop);
        }
        let quiet = self.removals.quiet();
        let inode = self.inode(At::Latest, slot)?.ok_or(Error::NotFound)?;
        if !inode.is_dir() {
            return Err(Error::NotDirectory);
        }
        check(&inode)?;
        let node = self.dir_node(Some(dir), slot, &inode, quiet)?;
        let removal = self.removals.begin();
        let gate = node.gate.write().unwrap_or_else(PoisonError::into_inner);
        let stripe = self.stripes.hold(slot);
        let remove = |at: At<'_>| {
            match self.inode(at, slot)? {
                Some(inode) if inode.oid == node.oid => {}
                _ => return Err(Error::Stale),
            }
            if !self.is_empty(at, node.oid)? {
                return Err(Error::NotEmpty);
            }
            self.punch_entry(at, slot)
        };
        remove(At::Latest)?;
        node.set_removed();
        drop((stripe, gate, removal, alone));
        self.paths.forget_all();
        self.touch(dir);
        Ok(())
    }

    /// The node of an open file whose entry was found; `None` if the entry has changed since.
    pub(crate) fn file_node(
        self: &Arc<Self>,
        found: &Found,
        inode: &Inode,
        slot: Slot,
    ) -> Result<Option<Arc<Node>>> {
        let home = || Home { slot: slot.clone(), parent: None };
        let (node, made) = self.nodes.find_or_add(inode.oid, || Node::new(self, inode, home()));
        if node.is_removed() {
            return Ok(None);
        }
        node.note_owner(inode);
        let known = made || node.is_at(&slot);
        if known && (self.is_read_only() || self.removals.none_since(found.quiet)) {
            return Ok(Some(node));
        }
        // Who removed the entry before the node was in the table has freed the file: the entry tells. Who holds
        // its stripe now has not looked for nodes yet, or has done everything.
        let stripe = self.stripes.hold(&found.slot);
        let now = self.inode(At::Latest, &found.slot)?;
        let same = now.is_some_and(|now| now.oid == inode.oid && now.linked == found.inode.linked);
        if same {
            node.set_home(home());
        }
        drop(stripe);
        Ok(same.then_some(node))
    }
}

/// Whether an entry with this record leads to `oid`; else `Stale`.
fn leads_to(found: Option<Inode>, oid: Oid) -> Result<()> {
    match found {
        Some(inode) if inode.oid == oid => Ok(()),
        _ => Err(Error::Stale),
    }
}
