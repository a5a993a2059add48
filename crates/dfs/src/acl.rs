//! POSIX access control lists: kept as the extended attributes by which the kernel knows them, so that copies of trees and
//! other programs take them along. The mode is the truth about owner, mask and others: a list is read with it.
//!
//! Lists are looked at and handed down in mounts that ask for it (`MountOptions::acls`).

use crate::access::{Cred, Rights, check, check_owner};
use crate::attr::XattrCond;
use crate::dir::Dir;
use crate::error::{Error, Result, What};
use crate::layout::inode::{self, FileKind, Inode};
use crate::layout::posix_acl::{PosixAcl, XATTR_ACCESS, XATTR_DEFAULT};
use crate::layout::{AKEY_ACL_ACCESS, AKEY_ACL_DEFAULT, AKEY_INODE};
use crate::mount::Mount;
use crate::node::{Node, Slot};
use crate::store::{Beside, bad_record, with_scratch};
use dolmen_client::{At, FetchIod, Want};
use dolmen_types::{Cond, Epoch, Error as StoreError, Key, Oid, Recx};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Room for a list that is fetched with its record: 63 entries. Longer ones are asked for by themselves.
const LIST_ROOM_BYTES: usize = 512;

/// Which of its lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Access,
    Default,
}

impl Which {
    pub(crate) fn of_xattr(name: &[u8]) -> Option<Self> {
        match name {
            XATTR_ACCESS => Some(Self::Access),
            XATTR_DEFAULT => Some(Self::Default),
            _ => None,
        }
    }

    fn xattr(self) -> &'static [u8] {
        match self {
            Self::Access => XATTR_ACCESS,
            Self::Default => XATTR_DEFAULT,
        }
    }
}

/// A new list, or none, in place of the one that there is.
#[derive(Clone, Copy)]
pub(crate) struct NewAcl<'a> {
    pub(crate) which: Which,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) cond: XattrCond,
}

/// The lists of a directory.
#[derive(Debug, Default)]
pub(crate) struct Acls {
    access: Option<PosixAcl>,
    default: Option<PosixAcl>,
}

/// The lists that a new entry gets of its directory.
#[derive(Default)]
pub(crate) struct Inherited {
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl Inherited {
    pub(crate) fn beside(&self) -> SmallVec<[Beside<'_>; 2]> {
        let lists = [(AKEY_ACL_ACCESS, &self.access), (AKEY_ACL_DEFAULT, &self.default)];
        lists.into_iter().filter_map(|(akey, list)| Some((akey, list.as_deref()?))).collect()
    }
}

/// What an extended attribute of this name says, where the record is `inode`.
pub(crate) fn xattr_of(name: &[u8], value: Vec<u8>, inode: &Inode) -> Vec<u8> {
    match (Which::of_xattr(name), PosixAcl::from_bytes(&value)) {
        (Some(Which::Access), Some(Some(list))) => list.with_mode(inode.permissions).to_bytes(),
        _ => value,
    }
}

/// Whether a list may have a say: not about the owner, user 0, nor who is not asked.
fn is_listed(cred: &Cred, uid: u32) -> bool {
    !cred.is_root() && cred.uid != uid
}

fn grants(cred: &Cred, list: PosixAcl, (gid, mode): (u32, u32), rights: Rights) -> bool {
    let in_group = |id: Option<u32>| cred.in_group(id.unwrap_or(gid));
    list.with_mode(mode).grants(cred.uid, in_group, rights.0)
}

impl Dir {
    /// The lists that a new entry of `dir` gets, whose record is `inode` and which was asked for with `mode`; with a list
    /// by default the umask has no say.
    pub(crate) fn inherit(&self, dir: &Node, inode: &mut Inode, mode: u32) -> Result<Inherited> {
        let mount = self.mount();
        if !mount.acls || inode.kind == FileKind::Symlink {
            return Ok(Inherited::default());
        }
        if mount.is_shared() && self.cred.is_none() {
            mount.look_at_rights(dir)?;
        }
        let lists = mount.lists_of(dir)?;
        let Some(default) = &lists.default else { return Ok(Inherited::default()) };
        let access = default.clone().limited_to(mode);
        inode.permissions = inode.permissions & !0o777 | access.permissions();
        Ok(Inherited {
            access: (!access.is_of_mode()).then(|| access.to_bytes()),
            default: inode.is_dir().then(|| default.to_bytes()),
        })
    }
}

impl Mount {
    /// Checks rights on what has this record, and its list in `home`.
    pub(crate) fn check(
        &self,
        cred: Option<&Cred>,
        home: &Slot,
        inode: &Inode,
        rights: Rights,
    ) -> Result<()> {
        let listed = cred.filter(|cred| self.acls && is_listed(cred, inode.uid));
        let list = match listed {
            Some(_) => self.list(At::Latest, home, Which::Access)?,
            None => None,
        };
        match (listed, list) {
            (Some(cred), Some(list)) if inode.kind != FileKind::Symlink => {
                let is_granted = grants(cred, list, (inode.gid, inode.permissions), rights);
                if is_granted { Ok(()) } else { Err(Error::NoPermission) }
            }
            _ => check(cred, inode, rights),
        }
    }

    /// The same of a directory in use.
    pub(crate) fn may_in_dir(&self, cred: &Cred, dir: &Node, rights: Rights) -> Result<bool> {
        let (uid, gid, mode) = dir.rights();
        if self.acls
            && is_listed(cred, uid)
            && let Some(list) = &self.lists_of(dir)?.access
        {
            return Ok(grants(cred, list.clone(), (gid, mode), rights));
        }
        Ok(cred.may(FileKind::Directory, (uid, gid, mode), rights))
    }

    /// A list that lies in `slot`.
    fn list(&self, at: At<'_>, slot: &Slot, which: Which) -> Result<Option<PosixAcl>> {
        let Some(stored) = self.xattr_value(at, slot, which.xattr())? else { return Ok(None) };
        PosixAcl::from_bytes(&stored).ok_or_else(|| bad_record(slot))
    }

    /// The record of a directory and, if lists have a say, its lists: one fetch. Longer lists are left to `lists_of`.
    pub(crate) fn inode_and_lists(&self, slot: &Slot) -> Result<Option<(Inode, Option<Acls>)>> {
        let alone = |inode: Option<Inode>| Ok(inode.map(|inode| (inode, None)));
        if !self.acls {
            return alone(self.inode(At::Latest, slot)?);
        }
        let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, inode::BYTES as u64)] };
        let list = || Want::Single { room_bytes: LIST_ROOM_BYTES };
        let asked = [(AKEY_INODE, want), (AKEY_ACL_ACCESS, list()), (AKEY_ACL_DEFAULT, list())]
            .map(|(akey, want)| FetchIod { akey: Key::from_slice(akey), want });
        let object = self.object(slot.oid)?;
        with_scratch(|buf| {
            buf.set_len(inode::BYTES + 2 * LIST_ROOM_BYTES);
            let found = match object.fetch(At::Latest, &slot.dkey, Cond::NONE, &asked, buf) {
                Err(StoreError::RecTooBig { .. } | StoreError::RecordSize { .. }) => {
                    return alone(self.inode(At::Latest, slot)?);
                }
                other => other?,
            };
            if found[0].filled.is_empty() {
                return Ok(None);
            }
            let whole = found[0].filled[..] == [Recx::new(0, inode::BYTES as u64)];
            let inode = buf.first_chunk().filter(|_| whole).and_then(Inode::from_bytes);
            let list = |at: usize| {
                let len = usize::try_from(found[at].size_bytes).unwrap_or(LIST_ROOM_BYTES);
                let start = inode::BYTES + (at - 1) * LIST_ROOM_BYTES;
                match len {
                    0 => Ok(None),
                    _ => PosixAcl::from_bytes(&buf[start..start + len]).ok_or_else(|| bad_record(slot)),
                }
            };
            let lists = Acls { access: list(1)?, default: list(2)? };
            Ok(Some((inode.ok_or_else(|| bad_record(slot))?, Some(lists))))
        })
    }

    /// The lists of a directory, as last seen or as they are now.
    fn lists_of(&self, dir: &Node) -> Result<Arc<Acls>> {
        let (seen, generation) = dir.lists();
        match seen {
            Some(lists) => Ok(lists),
            None => self.at_home(dir, |slot| {
                let lists = Arc::new(Acls {
                    access: self.list(At::Latest, slot, Which::Access)?,
                    default: self.list(At::Latest, slot, Which::Default)?,
                });
                dir.keep_lists(generation, &lists);
                Ok(lists)
            }),
        }
    }

    /// Sets or removes a list of the file `oid` that the entry in `slot` names, and the mode with it; `Stale` if the entry
    /// names another.
    pub(crate) fn set_list(&self, cred: Option<&Cred>, slot: &Slot, oid: Oid, new: NewAcl<'_>) -> Result<()> {
        let list = match new.value.map(PosixAcl::from_bytes) {
            Some(None) => return Err(What::Acl.into()),
            Some(Some(list)) => list,
            None => None,
        };
        // Dropped after the stripe: a node that dies records its times.
        let node;
        let stripe = self.stripes.hold(slot);
        let changed =
            self.transact(|tx| self.set_list_in(At::Tx(tx), cred, (slot, oid), (new, list.as_ref())));
        node = self.nodes.find(oid);
        if let (Ok(changed), Some(node)) = (&changed, &node) {
            // Who has read the record of a directory before and has no node of it yet must look again.
            let removal = changed.is_dir().then(|| self.removals.begin());
            node.note_rights(changed);
            node.forget_lists();
            drop(removal);
        }
        drop(stripe);
        changed.map(drop)
    }

    fn set_list_in(
        &self,
        at: At<'_>,
        cred: Option<&Cred>,
        (slot, oid): (&Slot, Oid),
        (new, list): (NewAcl<'_>, Option<&PosixAcl>),
    ) -> Result<Inode> {
        const SET_GROUP_ID: u32 = 0o2000;
        let entry = self.record_of(at, slot, oid)?;
        let (inode, _, home) = self.attributes(at, slot, &entry)?;
        check_owner(cred, &inode)?;
        let xattr = new.which.xattr();
        let is_there = self.xattr_value(at, &home, xattr)?.is_some();
        match (inode.kind, new.which, new.cond) {
            (FileKind::Symlink, ..) => return Err(What::Kind.into()),
            (kind, Which::Default, _) if kind != FileKind::Directory && list.is_some() => {
                return Err(Error::NoPermission);
            }
            (_, _, XattrCond::Create) if is_there => return Err(Error::Exists),
            (_, _, XattrCond::Replace) if !is_there => return Err(Error::NoAttribute),
            _ => {}
        }
        let now = self.now();
        let mut changed = Inode { ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..inode };
        if let (Which::Access, Some(list)) = (new.which, list) {
            let outside = cred.is_some_and(|cred| !cred.is_root() && !cred.in_group(inode.gid));
            let special = inode.permissions & !0o777 & !(if outside { SET_GROUP_ID } else { 0 });
            changed.permissions = special | list.permissions();
        }
        // What a mode says needs no list.
        match list.filter(|list| new.which == Which::Default || !list.is_of_mode()) {
            Some(list) => {
                let bytes = list.to_bytes();
                self.check_xattr_room(at, &home, xattr, &bytes)?;
                self.put_xattr(at, (&home, inode.uid), (xattr, &bytes), Cond::NONE)?;
            }
            None if is_there => self.punch_xattr(at, &home, xattr)?,
            None => {}
        }
        self.put_inode(at, &home, &changed)?;
        Ok(changed)
    }
}
