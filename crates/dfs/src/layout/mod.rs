//! The DFS layout: reserved objects, key names, and the records, one file each.
//!
//! What the facts of DAOS say is followed to the byte; where they are silent the choice is written here:
//! - The superblock is object (lo 0, hi 0), the root directory (lo 0, hi 1). Type and class are stamped into
//!   the high half as `daos_obj_generate_oid` does: type `MULTI_HASHED` (0), automatic class of a container
//!   without redundancy (`RP_1`, one group), so hi is `0x0001_0001_0000_0000` and `…0001`. The ids that
//!   were stamped are also kept in the container property `ROOTS`; a mount takes them from there.
//! - Values of the superblock and of `x:` and `DFS_SLINK` akeys are single values; `DFS_INODE` is an array of
//!   88 one-byte records, so that a part of it can be written alone.
//! - Object numbers come from the container's allocator and fill the low half. The 32 user bits of the high
//!   half are 0 for what DAOS knows; 2 with lo 0 is the orphan list, and bit 31 marks the companion of a
//!   hard-linked file. DAOS's checker would report both as leaked objects and touch nothing else.
//! - Pipes, sockets and devices, of which the layout says nothing, are entries with their `S_IFMT` bits in the mode and
//!   no object; the number of a device is akey `DLM_RDEV` beside the record. Other readers refuse them by their mode.

pub mod access_time;
pub mod device_no;
pub mod holder;
pub mod inode;
pub mod link_count;
pub mod posix_acl;
pub mod superblock;

use dolmen_types::{Key, ObjectClass, ObjectType, Oid};

/// Akey of the inode record.
//= daos:src/client/dfs/README.md entry akeys
pub const AKEY_INODE: &[u8] = b"DFS_INODE";
/// Akey of a symbolic link's target.
pub const AKEY_SLINK: &[u8] = b"DFS_SLINK";
/// What the akey of an extended attribute begins with.
pub const AKEY_XATTR_PREFIX: &[u8] = b"x:";
/// Akey of a companion's link count.
pub const AKEY_LINKS: &[u8] = b"DLM_LINKS";
/// Akey of the access control list that decides about access: an extended attribute.
pub const AKEY_ACL_ACCESS: &[u8] = b"x:system.posix_acl_access";
/// Akey of the access control list that new entries of a directory get.
pub const AKEY_ACL_DEFAULT: &[u8] = b"x:system.posix_acl_default";
/// Akey of the time of the last access.
pub const AKEY_ATIME: &[u8] = b"DLM_ATIME";
/// Akey of the number of a device.
pub const AKEY_RDEV: &[u8] = b"DLM_RDEV";
/// Akey of the number of who has a file of the orphan list open.
pub const AKEY_HOLDER: &[u8] = b"DLM_HOLDER";
/// Dkey of the root's entry in the superblock object.
pub const DKEY_ROOT: &[u8] = b"/";
/// The one dkey of a companion.
pub const DKEY_COMPANION: &[u8] = b"DLM_COMPANION";

/// A name.
pub const NAME_BYTES_MAX: usize = 255;
/// A path, and a symbolic link's target: one less than `PATH_MAX`, which counts the terminating zero.
pub const PATH_BYTES_MAX: usize = 4095;
/// The name of an extended attribute.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// The value of an extended attribute.
pub const XATTR_VALUE_BYTES_MAX: usize = 65536;
/// All extended attributes of one entry, each with its name, its value and [`XATTR_COST_BYTES`]. A rename writes them, an
/// exchange those of two entries, into one log record: they fit a log segment of 1 MiB, which targets of 32 MiB have.
pub const XATTRS_BYTES_MAX: usize = 256 << 10;
/// What an extended attribute takes besides its name and value, at most.
pub const XATTR_COST_BYTES: usize = 128;
/// Chunk of a file unless asked otherwise.
pub const CHUNK_BYTES_DEFAULT: u64 = 1 << 20;
/// The largest file: array indices are 64 bits, but offsets of a POSIX caller are signed.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Hard links of one file: as ext4.
pub const LINKS_MAX: u64 = 65_000;

const USER_HI_ORPHANS: u32 = 2;
const USER_HI_COMPANION: u32 = 1 << 31;

/// The superblock object of a container whose directories have this class.
//= daos:src/client/dfs/README.md reserved object ids 0.0 and 1.0
#[must_use]
pub fn superblock_oid(class: ObjectClass) -> Oid {
    Oid::new(ObjectType::MultiHashed, class, 0, 0)
}

/// The root directory.
#[must_use]
pub fn root_oid(class: ObjectClass) -> Oid {
    Oid::new(ObjectType::MultiHashed, class, 1, 0)
}

/// The list of unlinked files that are still open.
#[must_use]
pub fn orphans_oid(class: ObjectClass) -> Oid {
    Oid::new(ObjectType::MultiHashed, class, USER_HI_ORPHANS, 0)
}

/// A directory.
#[must_use]
pub fn directory_oid(number: u64, class: ObjectClass) -> Oid {
    Oid::new(ObjectType::MultiHashed, class, 0, number)
}

/// A file.
#[must_use]
pub fn file_oid(number: u64, class: ObjectClass) -> Oid {
    Oid::new(ObjectType::ArrayByte, class, 0, number)
}

/// The object that holds what the names of a hard-linked file share. Its class is always S1: it is small,
/// and one shard makes it cheap to read.
#[must_use]
pub fn companion_oid(file: Oid) -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, USER_HI_COMPANION, file.lo)
}

/// Whether `oid` is a companion.
#[must_use]
pub fn is_companion(oid: Oid) -> bool {
    oid.hi & u64::from(USER_HI_COMPANION) != 0
}

/// Whether `oid` can be of a file, a directory or a companion: other bits of the caller's stand for objects of others that are
/// kept in the same container, such as ntuples.
#[must_use]
pub fn is_of_files(oid: Oid) -> bool {
    let bits = oid.hi & u64::from(u32::MAX);
    bits == 0 || bits == u64::from(USER_HI_COMPANION)
}

/// The akey of an extended attribute.
#[must_use]
pub fn xattr_akey(name: &[u8]) -> Key {
    let mut akey = Key::from_slice(AKEY_XATTR_PREFIX);
    akey.extend_from_slice(name);
    akey
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_objects_have_the_ids_of_daos() {
        assert_eq!(superblock_oid(ObjectClass::S1), Oid { hi: 0x0001_0001_0000_0000, lo: 0 });
        assert_eq!(root_oid(ObjectClass::S1), Oid { hi: 0x0001_0001_0000_0001, lo: 0 });
        let file = file_oid(77, ObjectClass::SX);
        assert_eq!(file, Oid { hi: 0x0d01_ffff_0000_0000, lo: 77 });
        assert!(is_companion(companion_oid(file)));
        assert!(!is_companion(file));
        assert_eq!(companion_oid(file).lo, 77);
    }
}
