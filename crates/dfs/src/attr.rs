//! Attributes: stat, mode, owner, times, extended attributes, access.

use crate::access::{Cred, Rights, check_owner};
use crate::acl::{NewAcl, Which, xattr_of};
use crate::dir::{Dir, check_mode};
use crate::error::{Error, Result, What};
use crate::file::without_rights;
use crate::layout::device_no::DeviceNo;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, is_companion};
use crate::mount::Mount;
use crate::node::{Node, Place, Slot};
use crate::obj::Obj;
use crate::resolve::{Follow, Found, LOOKS_MAX, while_stale};
use dolmen_client::quota::RECORD_PREFIXES;
use dolmen_client::{At, Tx, Way, now};
use dolmen_types::{Cond, Epoch, ObjectClass, Oid};
use smallvec::SmallVec;
use std::sync::PoisonError;

/// What stat(2) tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The object.
    pub oid: Oid,
    /// A number that no other file of the container has: 1 is the root.
    pub ino: u64,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits with set-user-id, set-group-id and sticky.
    pub permissions: u32,
    /// Names of a file; 1 for everything else.
    pub links: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file or of a symbolic link's target; 0 for a directory.
    pub size_bytes: u64,
    /// Units of 512 bytes, of a file holes counted as data unless `MountOptions::exact_blocks` says otherwise.
    pub blocks: u64,
    /// Last access; in a mount that does not keep these, and where none is stored, the last change of content.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
    /// Chunk of a file: the preferred size of reads and writes.
    pub chunk_bytes: u64,
    /// Class of a file's object.
    pub class: ObjectClass,
    /// Of a device, which; else zero.
    pub device: DeviceNo,
}

impl Stat {
    /// Kind and permissions in one number.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.kind.bits() | self.permissions
    }
}

/// The number that `Stat::ino` tells of an object.
#[must_use]
pub fn number_of(oid: Oid) -> u64 {
    oid.lo.wrapping_add(1)
}

/// A new time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// As it is.
    Keep,
    /// The mount's clock.
    Now,
    /// This.
    To(Time),
}

impl SetTime {
    /// The new time, if there is one.
    fn or(self, now: Time) -> Option<Time> {
        match self {
            Self::Keep => None,
            Self::Now => Some(now),
            Self::To(time) => Some(time),
        }
    }
}

/// The times that a change of attributes sets.
#[derive(Clone, Copy, Default)]
pub(crate) struct NewTimes {
    atime: Option<Time>,
    sets_mtime: bool,
}

/// Attributes to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetAttrs {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of the last access.
    pub atime: SetTime,
    /// Time of the last change of content.
    pub mtime: SetTime,
}

impl SetAttrs {
    /// Everything as it is.
    pub const KEEP: Self =
        Self { mode: None, uid: None, gid: None, atime: SetTime::Keep, mtime: SetTime::Keep };

    /// Sets them in a record; `may_write` checks that the caller may write what has it.
    pub(crate) fn apply(
        &self,
        cred: Option<&Cred>,
        inode: &mut Inode,
        now: Time,
        may_write: impl Fn(&Inode) -> Result<()>,
    ) -> Result<()> {
        self.mode.map_or(Ok(()), check_mode)?;
        if self.uid.is_some() || self.gid.is_some() {
            set_owner(cred, inode, self.uid, self.gid)?;
        }
        if let Some(mode) = self.mode {
            set_mode(cred, inode, mode)?;
        }
        for time in [self.atime, self.mtime] {
            match time {
                SetTime::Keep => {}
                SetTime::Now => check_owner(cred, inode).or_else(|_| may_write(inode))?,
                SetTime::To(time) => {
                    check_owner(cred, inode)?;
                    check_nanoseconds(time)?;
                }
            }
        }
        inode.mtime = self.mtime.or(now).unwrap_or(inode.mtime);
        Ok(())
    }
}

/// Whether an extended attribute may or must exist when it is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrCond {
    /// Either.
    Any,
    /// It must not: `Exists`.
    Create,
    /// It must: `NoAttribute`.
    Replace,
}

impl Dir {
    /// Attributes of what `path` leads to. One fetch, and for a file one query of its size.
    ///
    /// # Errors
    /// `NotFound` and those of resolving a path.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_with(path, Follow::Yes)
    }

    /// Attributes of the entry at `path`, also if it is a symbolic link.
    ///
    /// # Errors
    /// As `stat`.
    pub fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_with(path, Follow::No)
    }

    /// Attributes of what `path` leads to.
    ///
    /// # Errors
    /// As `stat`.
    pub fn stat_with(&self, path: impl AsRef<[u8]>, follow: Follow) -> Result<Stat> {
        self.with_found(path.as_ref(), follow, |found| self.mount().stat_entry(&found.slot, &found.inode))
    }

    /// Attributes of this directory.
    ///
    /// # Errors
    /// `NotFound` if it was removed.
    pub fn stat_self(&self) -> Result<Stat> {
        self.mount().stat_node(&self.node)
    }

    /// Sets the permission bits of what `path` leads to.
    ///
    /// # Errors
    /// As `set_attrs`.
    pub fn chmod(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        self.set_attrs(path, &SetAttrs { mode: Some(mode), ..SetAttrs::KEEP }, Follow::Yes)
    }

    /// Sets owner and group, each if given.
    ///
    /// # Errors
    /// As `set_attrs`.
    pub fn chown(
        &self,
        path: impl AsRef<[u8]>,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: Follow,
    ) -> Result<()> {
        self.set_attrs(path, &SetAttrs { uid, gid, ..SetAttrs::KEEP }, follow)
    }

    /// Sets the time of the last change.
    ///
    /// # Errors
    /// As `set_attrs`.
    pub fn set_mtime(&self, path: impl AsRef<[u8]>, mtime: SetTime, follow: Follow) -> Result<()> {
        self.set_attrs(path, &SetAttrs { mtime, ..SetAttrs::KEEP }, follow)
    }

    /// Sets the times of the last access and the last change, each if given, as utimensat(2).
    ///
    /// # Errors
    /// As `set_attrs`.
    pub fn set_times(
        &self,
        path: impl AsRef<[u8]>,
        atime: SetTime,
        mtime: SetTime,
        follow: Follow,
    ) -> Result<()> {
        self.set_attrs(path, &SetAttrs { atime, mtime, ..SetAttrs::KEEP }, follow)
    }

    /// Sets several attributes at once.
    ///
    /// # Errors
    /// `NotPermitted` unless the caller owns the file; to change the owner takes user 0, to change the group
    /// membership in it, to set a time to `Now` the right to write. `Invalid(Mode)`, `Invalid(Time)`;
    /// `Invalid(Kind)` for the mode of a symbolic link; `ReadOnly`.
    pub fn set_attrs(&self, path: impl AsRef<[u8]>, attrs: &SetAttrs, follow: Follow) -> Result<()> {
        self.mount().check_writable()?;
        self.with_found(path.as_ref(), follow, |found| {
            self.mount().set_attrs(self.cred.as_deref(), &found.slot, found.inode.oid, attrs)
        })
    }

    /// Runs `operation` on what `path` leads to, again when the entry was replaced meanwhile.
    pub(crate) fn with_found<T>(
        &self,
        path: &[u8],
        follow: Follow,
        mut operation: impl FnMut(&Found) -> Result<T>,
    ) -> Result<T> {
        while_stale(|| operation(&self.start().find(path, follow)?))
    }

    /// Checks that `cred` may do what `rights` say with what `path` leads to, as access(2); the way there is
    /// checked too.
    ///
    /// # Errors
    /// `NoPermission`, `NotFound`; `ReadOnly` for a write right on a read-only mount.
    pub fn check_access(&self, path: impl AsRef<[u8]>, cred: &Cred, rights: Rights) -> Result<()> {
        let start = crate::resolve::Start { dir: &self.node, cred: Some(cred) };
        let (inode, _, home) = while_stale(|| {
            let found = start.find(path.as_ref(), Follow::Yes)?;
            self.mount().attributes(At::Latest, &found.slot, &found.inode)
        })?;
        if rights.0 & Rights::WRITE.0 != 0 {
            self.mount().check_writable()?;
        }
        self.mount().check(Some(cred), &home, &inode, rights)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`, `NoPermission`, `Invalid(Name)`.
    pub fn xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>, follow: Follow) -> Result<Vec<u8>> {
        check_xattr_name(name.as_ref())?;
        self.with_found(path.as_ref(), follow, |found| {
            self.mount().xattr_for(self.cred.as_deref(), &found.slot, found.inode.oid, name.as_ref())
        })
    }

    /// Names of extended attributes, sorted.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn xattr_names(&self, path: impl AsRef<[u8]>, follow: Follow) -> Result<Vec<Vec<u8>>> {
        self.with_found(path.as_ref(), follow, |found| {
            self.mount().sorted_xattr_names(&found.slot, found.inode.oid)
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute` where `cond` is not met; `Invalid(Name)`, `NameTooLong`, `AttributeTooBig`;
    /// `AttributesFull` if all of them together would take more than `layout::XATTRS_BYTES_MAX`, and more than before;
    /// `NoPermission`, `ReadOnly`.
    pub fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        cond: XattrCond,
        follow: Follow,
    ) -> Result<()> {
        let (name, value) = (name.as_ref(), value.as_ref());
        if let Some(which) = Which::of_xattr(name) {
            return self.set_list(path.as_ref(), follow, NewAcl { which, value: Some(value), cond });
        }
        let xattr = NewXattr::new(name, value, cond)?;
        self.change_xattr(path.as_ref(), follow, |at, inode, home| xattr.put(self.mount(), at, inode, home))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`; otherwise as `set_xattr`.
    pub fn remove_xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>, follow: Follow) -> Result<()> {
        check_xattr_name(name.as_ref())?;
        if let Some(which) = Which::of_xattr(name.as_ref()) {
            return self.set_list(path.as_ref(), follow, NewAcl { which, value: None, cond: XattrCond::Any });
        }
        self.change_xattr(path.as_ref(), follow, |at, _, home| {
            self.mount().punch_xattr(at, home, name.as_ref()).map_err(no_attribute)
        })
    }

    fn set_list(&self, path: &[u8], follow: Follow, new: NewAcl<'_>) -> Result<()> {
        self.mount().check_writable()?;
        self.with_found(path, follow, |found| {
            self.mount().set_list(self.cred.as_deref(), &found.slot, found.inode.oid, new)
        })
    }

    fn change_xattr(
        &self,
        path: &[u8],
        follow: Follow,
        mut change: impl FnMut(At<'_>, &Inode, &Slot) -> Result<()>,
    ) -> Result<()> {
        self.mount().check_writable()?;
        self.with_found(path, follow, |found| {
            self.mount().change_xattr(self.cred.as_deref(), &found.slot, found.inode.oid, &mut change)
        })
    }
}

/// An extended attribute to be set.
struct NewXattr<'a> {
    name: &'a [u8],
    value: &'a [u8],
    cond: Cond,
}

impl<'a> NewXattr<'a> {
    fn new(name: &'a [u8], value: &'a [u8], cond: XattrCond) -> Result<Self> {
        check_xattr_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Error::AttributeTooBig);
        }
        let cond = match cond {
            XattrCond::Any => Cond::NONE,
            XattrCond::Create => Cond::AKEY_INSERT,
            XattrCond::Replace => Cond::AKEY_UPDATE,
        };
        Ok(Self { name, value, cond })
    }

    fn put(&self, mount: &Mount, at: At<'_>, inode: &Inode, home: &Slot) -> Result<()> {
        mount.check_xattr_room(at, home, self.name, self.value)?;
        let put = mount.put_xattr(at, (home, inode.uid), (self.name, self.value), self.cond);
        if self.cond == Cond::AKEY_UPDATE { put.map_err(no_attribute) } else { put }
    }
}

fn no_attribute(error: Error) -> Error {
    match error {
        Error::NotFound => Error::NoAttribute,
        other => other,
    }
}

impl Obj {
    /// The value of an extended attribute, also if no name leads to it any more.
    ///
    /// # Errors
    /// As `Dir::xattr`.
    pub fn xattr(&self, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        check_xattr_name(name.as_ref())?;
        let mount = &self.node.mount;
        let read = |slot: &Slot| mount.xattr_for(self.cred.as_deref(), slot, self.node.oid, name.as_ref());
        mount.at_home(&self.node, read).inspect_err(|error| self.note_stale(error))
    }

    /// Names of its extended attributes, sorted.
    ///
    /// # Errors
    /// As `stat`.
    pub fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        let mount = &self.node.mount;
        let read = |slot: &Slot| mount.sorted_xattr_names(slot, self.node.oid);
        mount.at_home(&self.node, read).inspect_err(|error| self.note_stale(error))
    }

    /// Sets one of its extended attributes.
    ///
    /// # Errors
    /// As `Dir::set_xattr`.
    pub fn set_xattr(&self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>, cond: XattrCond) -> Result<()> {
        if let Some(which) = Which::of_xattr(name.as_ref()) {
            return self.set_list(NewAcl { which, value: Some(value.as_ref()), cond });
        }
        let xattr = NewXattr::new(name.as_ref(), value.as_ref(), cond)?;
        self.change_xattr(|at, inode, home| xattr.put(&self.node.mount, at, inode, home))
    }

    /// Removes one of its extended attributes.
    ///
    /// # Errors
    /// As `Dir::remove_xattr`.
    pub fn remove_xattr(&self, name: impl AsRef<[u8]>) -> Result<()> {
        check_xattr_name(name.as_ref())?;
        if let Some(which) = Which::of_xattr(name.as_ref()) {
            return self.set_list(NewAcl { which, value: None, cond: XattrCond::Any });
        }
        self.change_xattr(|at, _, home| {
            self.node.mount.punch_xattr(at, home, name.as_ref()).map_err(no_attribute)
        })
    }

    fn set_list(&self, new: NewAcl<'_>) -> Result<()> {
        let mount = &self.node.mount;
        mount.check_writable()?;
        mount.at_home(&self.node, |slot| mount.set_list(self.cred.as_deref(), slot, self.node.oid, new))
    }

    fn change_xattr(&self, mut change: impl FnMut(At<'_>, &Inode, &Slot) -> Result<()>) -> Result<()> {
        let mount = &self.node.mount;
        mount.check_writable()?;
        mount.at_home(&self.node, |slot| {
            mount.change_xattr(self.cred.as_deref(), slot, self.node.oid, &mut change)
        })
    }
}

fn set_mode(cred: Option<&Cred>, inode: &mut Inode, mode: u32) -> Result<()> {
    const SET_GROUP_ID: u32 = 0o2000;
    check_owner(cred, inode)?;
    if inode.kind == FileKind::Symlink {
        return Err(What::Kind.into());
    }
    let outside = cred.is_some_and(|cred| !cred.is_root() && !cred.in_group(inode.gid));
    inode.permissions = if outside { mode & !SET_GROUP_ID } else { mode };
    Ok(())
}

fn set_owner(cred: Option<&Cred>, inode: &mut Inode, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    const SET_GROUP_ID: u32 = 0o2000;
    let other = cred.filter(|cred| !cred.is_root());
    if let Some(cred) = other {
        check_owner(Some(cred), inode)?;
        if uid.is_some_and(|uid| uid != inode.uid) || gid.is_some_and(|gid| !cred.in_group(gid)) {
            return Err(Error::NotPermitted);
        }
    }
    // Root's hand takes them as well: a program has the rights of whom it belonged to, and not of whom it is given to.
    if cred.is_some() && inode.kind == FileKind::File {
        let outside = other.is_some_and(|cred| !cred.in_group(inode.gid));
        let of_group = if outside { SET_GROUP_ID } else { 0 };
        inode.permissions = without_rights(inode.permissions) & !of_group;
    }
    inode.uid = uid.unwrap_or(inode.uid);
    inode.gid = gid.unwrap_or(inode.gid);
    Ok(())
}

fn check_nanoseconds(time: Time) -> Result<()> {
    if time.ns < 1_000_000_000 { Ok(()) } else { Err(What::Time.into()) }
}

fn check_xattr_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(What::Name.into()),
        1..=XATTR_NAME_BYTES_MAX if !name.contains(&0) => Ok(()),
        1..=XATTR_NAME_BYTES_MAX => Err(What::Name.into()),
        _ => Err(Error::NameTooLong),
    }
}

impl Mount {
    /// Attributes of what the entry `slot` with record `entry` names.
    pub(crate) fn stat_entry(&self, slot: &Slot, entry: &Inode) -> Result<Stat> {
        now(self.stat_entry_by(Way::Now, slot, entry))
    }

    /// As [`Mount::stat_entry`], on a way of the caller's.
    pub(crate) async fn stat_entry_by(&self, way: Way, slot: &Slot, entry: &Inode) -> Result<Stat> {
        // An open file's home may be its companion.
        let entry = &Inode { linked: entry.linked || is_companion(slot.oid), ..*entry };
        let (inode, links, home) = self.attributes_by(way, At::Latest, slot, entry).await?;
        let atime = self.atime_by(way, At::Latest, &home).await?;
        self.stat_of_by(way, &home, &inode, links, atime).await
    }

    /// Attributes by the record in `home` and the access time beside it.
    pub(crate) fn stat_of(
        &self,
        home: &Slot,
        inode: &Inode,
        links: u64,
        atime: Option<Time>,
    ) -> Result<Stat> {
        now(self.stat_of_by(Way::Now, home, inode, links, atime))
    }

    /// As [`Mount::stat_of`], on a way of the caller's.
    pub(crate) async fn stat_of_by(
        &self,
        way: Way,
        home: &Slot,
        inode: &Inode,
        links: u64,
        atime: Option<Time>,
    ) -> Result<Stat> {
        let size_bytes = match inode.kind {
            FileKind::File => self.size_by(way, At::Latest, inode.oid, inode.chunk_bytes).await?,
            FileKind::Symlink => inode.link_bytes,
            _ => 0,
        };
        // Of what is not in use no time is pending.
        let node = self.nodes.find(inode.oid);
        // What another mount has recorded since counts, as it will when this one records the time.
        let counts = |node: &Node| {
            let is_known = node.recorded_mtime_ns() == inode.mtime.unix_ns();
            node.pending_mtime().filter(|mtime| is_known || inode.ctime <= *mtime)
        };
        let pending = node.as_deref().and_then(counts);
        let read = node.as_ref().and_then(|node| node.pending_atime());
        let atime = atime.unwrap_or(inode.mtime);
        let mtime = pending.unwrap_or(inode.mtime);
        let blocks = self.blocks_of_by(way, node.as_deref(), inode, (size_bytes, mtime)).await?;
        if let Some(node) = node.filter(|_| self.atime) {
            node.see_access(inode.ctime, atime);
        }
        let device = self.device_no_by(way, home, inode).await?;
        let known = Self::stat_with_size(inode, links, size_bytes, device);
        Ok(Stat {
            atime: read.filter(|_| self.atime).unwrap_or(atime),
            blocks,
            mtime,
            ctime: pending.map_or(inode.ctime, |time| time.max(inode.ctime)),
            ..known
        })
    }

    /// Attributes of what was just made with this record.
    pub(crate) fn stat_made(&self, inode: &Inode, device: DeviceNo) -> Stat {
        Self::stat_with_size(inode, 1, inode.link_bytes, device)
    }

    fn stat_with_size(inode: &Inode, links: u64, size_bytes: u64, device: DeviceNo) -> Stat {
        Stat {
            oid: inode.oid,
            ino: number_of(inode.oid),
            kind: inode.kind,
            permissions: inode.permissions,
            links,
            uid: inode.uid,
            gid: inode.gid,
            size_bytes,
            blocks: size_bytes.div_ceil(512),
            atime: inode.mtime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            chunk_bytes: inode.chunk_bytes,
            class: inode.class,
            device,
        }
    }

    /// Attributes of what is open, wherever its record is now.
    pub(crate) fn stat_node(&self, node: &Node) -> Result<Stat> {
        self.at_home(node, |slot| {
            let found = self.inode_and_atime(At::Latest, slot)?.filter(|(inode, _)| inode.oid == node.oid);
            let (inode, atime) = found.ok_or(Error::Stale)?;
            let mut stat = if inode.linked || is_companion(slot.oid) {
                self.stat_entry(slot, &inode)?
            } else {
                self.stat_of(slot, &inode, 1, atime)?
            };
            if node.is_removed() {
                stat.links = 0;
            }
            Ok(stat)
        })
    }

    /// Runs `operation` on a node's home, again when the record moved meanwhile.
    pub(crate) fn at_home<T>(&self, node: &Node, mut operation: impl FnMut(&Slot) -> Result<T>) -> Result<T> {
        match self.at_name(node, &mut operation) {
            // It is open here, and its name is gone; or it is a directory, and elsewhere.
            Err(Error::Stale) if self.finds_left(node)? || self.finds_moved(node)? => {
                self.at_name(node, operation)
            }
            other => other,
        }
    }

    /// As [`Mount::at_home`], for who looks for what has a name, unless this mount has removed that.
    pub(crate) fn at_name<T>(&self, node: &Node, mut operation: impl FnMut(&Slot) -> Result<T>) -> Result<T> {
        for _ in 0..LOOKS_MAX {
            let place = node.place();
            match operation(&place.slot) {
                Err(Error::Stale) if self.has_moved(node, &place) => dolmen_env::yield_now(),
                Err(Error::Stale) if node.kind == FileKind::Directory && node.is_removed() => {
                    return Err(Error::NotFound);
                }
                other => return other,
            }
        }
        Err(Error::Contended)
    }

    /// Whether this mount has moved the node's record away from there since, or may be doing so: whoever has not found it looks again.
    /// A stripe that somebody holds is not waited for, as the caller may hold it.
    pub(crate) fn has_moved(&self, node: &Node, place: &Place) -> bool {
        let still = self.stripes.try_hold(&place.slot);
        still.is_none() || node.moves() != place.moves
    }

    /// Sets attributes of the file `oid` that the entry in `slot` names; `Stale` if it names another.
    pub(crate) fn set_attrs(
        &self,
        cred: Option<&Cred>,
        slot: &Slot,
        oid: Oid,
        attrs: &SetAttrs,
    ) -> Result<()> {
        let now = self.now();
        let times = NewTimes { atime: attrs.atime.or(now), sets_mtime: attrs.mtime != SetTime::Keep };
        self.amend(slot, oid, (times, attrs.uid.is_some()), |inode, home| {
            attrs.apply(cred, inode, now, |inode| self.check(cred, home, inode, Rights::WRITE))
        })
    }

    /// Changes the attributes of the file `oid` that the entry in `slot` names; `Stale` if it names another. Whoever `gives` it has
    /// all of it charged to its owner by then.
    pub(crate) fn amend(
        &self,
        slot: &Slot,
        oid: Oid,
        (times, gives): (NewTimes, bool),
        mut change: impl FnMut(&mut Inode, &Slot) -> Result<()>,
    ) -> Result<()> {
        // Both are dropped after the stripe: a node that dies records its times.
        let after;
        let before = self.nodes.find(oid);
        // Who writes meanwhile would have it charged to the old owner.
        let gated = before.as_deref().filter(|node| gives && node.kind == FileKind::File);
        let gate = gated.map(|node| node.gate.write().unwrap_or_else(PoisonError::into_inner));
        let stripe = self.stripes.hold(slot);
        let (mut replaced, mut replaced_atime) = (None, None);
        let changed = self.in_entry_of(slot, oid, gives, |at, inode, home| {
            let now = self.now();
            let mut changed = *inode;
            change(&mut changed, home)?;
            changed.ctime = now;
            changed.written_at = Epoch::from_unix_ns(now.unix_ns());
            // Before the record is written: who records it beside this conflicts, and then does not see it any more.
            if let Some(node) = before.as_ref().filter(|_| times.sets_mtime) {
                replaced = replaced.max(node.take_pending_mtime());
            }
            if let Some(node) = before.as_ref().filter(|_| times.atime.is_some()) {
                replaced_atime = replaced_atime.max(node.take_pending_atime());
            }
            let atime = match times {
                // Where none is stored the time of change stands for it, which is replaced now.
                NewTimes { atime: None, sets_mtime: true } if self.atime => {
                    self.atime(at, home)?.is_none().then_some(inode.mtime)
                }
                _ => times.atime,
            };
            self.put_times(at, home, Some(&changed), atime)?;
            if let (true, At::Tx(tx)) = (gives && changed.uid != inode.uid, at) {
                self.give(tx, home, &changed)?;
            }
            Ok(changed)
        });
        match (&changed, &before) {
            (Ok(changed), _) => {
                // Who has read the record of a directory before and has no node of it yet must look again.
                let removal = changed.is_dir().then(|| self.removals.begin());
                after = self.nodes.find(oid);
                if let Some(node) = &after {
                    node.refresh(changed);
                    times.atime.inspect(|atime| node.see_access(changed.ctime, *atime));
                }
                drop(removal);
            }
            (Err(_), Some(node)) => {
                replaced.inspect(|mtime| node.note_pending(*mtime));
                replaced_atime.inspect(|atime| node.note_pending_atime(*atime));
            }
            (Err(_), None) => {}
        }
        drop((stripe, gate));
        changed.map(|_| ())
    }

    /// Has what there is of a file charged to its owner: its contents, and what lies beside its record.
    fn give(&self, tx: &Tx, home: &Slot, inode: &Inode) -> Result<()> {
        let mut beside = Vec::new();
        for akey in self.akeys(At::Tx(tx), home)? {
            // Of what is the file system's only a long target of a link counts anything.
            let may_count = !RECORD_PREFIXES.iter().any(|prefix| akey.starts_with(prefix));
            if (may_count || inode.kind == FileKind::Symlink)
                && let Some(value) = self.value(At::Tx(tx), home, &akey)?
            {
                beside.push((akey, value));
            }
        }
        self.put_with_extras(At::Tx(tx), (home, inode.uid), SmallVec::new(), &beside)?;
        if inode.kind == FileKind::File {
            self.object(inode.oid)?.charged_to(inode.uid).give(tx)?;
        }
        Ok(())
    }

    /// Changes extended attributes and notes when; `Stale` if the entry in `slot` does not name `oid`.
    fn change_xattr(
        &self,
        cred: Option<&Cred>,
        slot: &Slot,
        oid: Oid,
        mut change: impl FnMut(At<'_>, &Inode, &Slot) -> Result<()>,
    ) -> Result<()> {
        let stripe = self.stripes.hold(slot);
        let changed = self.in_entry(slot, oid, |at, inode, home| {
            self.check(cred, home, inode, Rights::WRITE)?;
            change(at, inode, home)?;
            let now = self.now();
            let written_at = Epoch::from_unix_ns(now.unix_ns());
            self.put_inode(at, home, &Inode { ctime: now, written_at, ..*inode })
        });
        drop(stripe);
        changed
    }

    /// An extended attribute of the file `oid` that the entry in `slot` names, or its companion, if the caller may read it; a list
    /// everybody may. `Stale` as [`Mount::beside_record`].
    fn xattr_for(&self, cred: Option<&Cred>, slot: &Slot, oid: Oid, name: &[u8]) -> Result<Vec<u8>> {
        let read = |home: &Slot| self.xattr_value(At::Latest, home, name);
        let (value, inode, home) = self.beside_record(slot, oid, read)?;
        if Which::of_xattr(name).is_none() {
            self.check(cred, &home, &inode, Rights::READ)?;
        }
        Ok(xattr_of(name, value.ok_or(Error::NoAttribute)?, &inode))
    }

    /// Names of all of them, sorted. `Stale` as [`Mount::beside_record`].
    fn sorted_xattr_names(&self, slot: &Slot, oid: Oid) -> Result<Vec<Vec<u8>>> {
        let (mut names, ..) = self.beside_record(slot, oid, |home| self.xattr_names(At::Latest, home))?;
        names.sort_unstable();
        Ok(names)
    }

    /// What `read` finds beside the record of the file `oid`, and then that record, and where it is: `slot`, or its companion. `Stale`
    /// if it is not that of `oid` any more: then what was read was somebody else's, or gone with it.
    fn beside_record<T>(
        &self,
        slot: &Slot,
        oid: Oid,
        read: impl Fn(&Slot) -> Result<T>,
    ) -> Result<(T, Inode, Slot)> {
        let (found, inode) = (read(slot)?, self.record_of(At::Latest, slot, oid)?);
        if !inode.linked {
            return Ok((found, inode, slot.clone()));
        }
        let (_, _, home) = self.attributes(At::Latest, slot, &inode)?;
        let found = read(&home)?;
        // One that is gone is not damaged: the file was removed, or has another home since.
        Ok((found, self.record_of(At::Latest, &home, oid)?, home))
    }

    /// Runs a read and change of the record of `oid`, which the entry in `slot` names, or of its companion,
    /// so that nothing comes between: under the entry's stripe, or in a transaction.
    ///
    /// REQUIRES: the caller holds the stripe of `slot`.
    pub(crate) fn in_entry<T>(
        &self,
        slot: &Slot,
        oid: Oid,
        body: impl FnMut(At<'_>, &Inode, &Slot) -> Result<T>,
    ) -> Result<T> {
        self.in_entry_of(slot, oid, false, body)
    }

    /// The same, in a transaction whatever it is if `is_more`: it changes something else, too.
    fn in_entry_of<T>(
        &self,
        slot: &Slot,
        oid: Oid,
        is_more: bool,
        mut body: impl FnMut(At<'_>, &Inode, &Slot) -> Result<T>,
    ) -> Result<T> {
        let alone = self.alone();
        let done = match self.record_of(At::Latest, slot, oid)? {
            inode if !inode.linked && alone.is_some() && !is_more => body(At::Latest, &inode, slot),
            _ => self.transact(|tx| {
                let entry = self.record_of(At::Tx(tx), slot, oid)?;
                let (inode, _, home) = self.attributes(At::Tx(tx), slot, &entry)?;
                body(At::Tx(tx), &inode, &home)
            }),
        };
        drop(alone);
        done
    }
}
