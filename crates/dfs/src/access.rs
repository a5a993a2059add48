//! Who may do what, by owner, group and mode: checked only for handles that carry credentials.
//!
//! A mount without credentials is what the owner of the container sees: everything is allowed. User 0 is
//! allowed everything but to execute a file that nobody may execute.

use crate::error::{Error, Result};
use crate::layout::inode::{FileKind, Inode};
use crate::node::Node;

/// A caller's identity.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cred {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Permission bits that what he makes does not get, as umask(2).
    pub umask: u32,
}

/// What is asked for, as the bits of one digit of a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights(pub u32);

impl Rights {
    /// Whether it exists.
    pub const NONE: Self = Self(0);
    /// Execute a file, or pass through a directory.
    pub const EXECUTE: Self = Self(1);
    /// Write a file, or add and remove entries of a directory.
    pub const WRITE: Self = Self(2);
    /// Read a file, or list a directory.
    pub const READ: Self = Self(4);

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Owner, group and permission bits of what is to be used.
pub(crate) type Owned = (u32, u32, u32);

const STICKY: u32 = 0o1000;

impl Cred {
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    pub(crate) fn may(&self, kind: FileKind, (uid, gid, mode): Owned, rights: Rights) -> bool {
        if self.is_root() {
            let executes_file = kind == FileKind::File && rights.0 & Rights::EXECUTE.0 != 0;
            return !executes_file || mode & 0o111 != 0;
        }
        let shift = if self.uid == uid {
            6
        } else if self.in_group(gid) {
            3
        } else {
            0
        };
        (mode >> shift) & rights.0 == rights.0
    }
}

pub(crate) fn owned(inode: &Inode) -> Owned {
    (inode.uid, inode.gid, inode.permissions)
}

/// Checks rights on a record.
pub(crate) fn check(cred: Option<&Cred>, inode: &Inode, rights: Rights) -> Result<()> {
    match cred {
        Some(cred) if !cred.may(inode.kind, owned(inode), rights) => Err(Error::NoPermission),
        _ => Ok(()),
    }
}

/// Checks rights on a directory in use.
pub(crate) fn check_dir(cred: Option<&Cred>, dir: &Node, rights: Rights) -> Result<()> {
    let Some(cred) = cred else { return Ok(()) };
    if dir.mount.is_shared() {
        // Others may have changed what this mount has seen.
        dir.mount.look_at_rights(dir)?;
    }
    if dir.mount.may_in_dir(cred, dir, rights)? { Ok(()) } else { Err(Error::NoPermission) }
}

/// Checks that an entry of `dir` may be added.
pub(crate) fn check_add(cred: Option<&Cred>, dir: &Node) -> Result<()> {
    check_dir(cred, dir, Rights::WRITE.and(Rights::EXECUTE))
}

/// Checks that the entry `inode` of `dir` may be removed or replaced: also the sticky bit.
pub(crate) fn check_remove(cred: Option<&Cred>, dir: &Node, inode: &Inode) -> Result<()> {
    check_remove_of(cred, dir, Some(inode.uid))
}

/// The same of an entry of unknown owner.
pub(crate) fn check_remove_damaged(cred: Option<&Cred>, dir: &Node) -> Result<()> {
    check_remove_of(cred, dir, None)
}

fn check_remove_of(cred: Option<&Cred>, dir: &Node, uid: Option<u32>) -> Result<()> {
    check_add(cred, dir)?;
    let (dir_uid, _, dir_mode) = dir.rights();
    match cred {
        Some(cred)
            if dir_mode & STICKY != 0 && !cred.is_root() && Some(cred.uid) != uid && cred.uid != dir_uid =>
        {
            Err(Error::NotPermitted)
        }
        _ => Ok(()),
    }
}

/// Checks that attributes that only the owner changes may be changed.
pub(crate) fn check_owner(cred: Option<&Cred>, inode: &Inode) -> Result<()> {
    match cred {
        Some(cred) if !cred.is_root() && cred.uid != inode.uid => Err(Error::NotPermitted),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_fits_decides() {
        let owner = Cred { uid: 1, gid: 9, groups: vec![], umask: 0 };
        let member = Cred { uid: 2, gid: 8, groups: vec![5, 7], umask: 0 };
        let other = Cred { uid: 3, gid: 9, groups: vec![], umask: 0 };
        let root = Cred::default();
        let file = |cred: &Cred, mode, rights| cred.may(FileKind::File, (1, 7, mode), rights);
        assert!(file(&owner, 0o400, Rights::READ));
        assert!(!file(&owner, 0o077, Rights::READ));
        assert!(file(&member, 0o060, Rights::READ.and(Rights::WRITE)));
        assert!(!file(&member, 0o606, Rights::READ));
        assert!(file(&other, 0o004, Rights::READ));
        assert!(!file(&other, 0o004, Rights::WRITE));
        assert!(file(&root, 0, Rights::READ.and(Rights::WRITE)));
        assert!(!file(&root, 0o666, Rights::EXECUTE));
        assert!(root.may(FileKind::Directory, (1, 7, 0), Rights::EXECUTE));
    }
}
