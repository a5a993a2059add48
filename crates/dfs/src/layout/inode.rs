//! The inode record: 88 bytes, packed, little-endian, in akey `DFS_INODE` of an entry's dkey.
//!
//! Invariants: the encoding of a record is exactly `BYTES` long; bytes of fields this version gives no
//! meaning (the size of what is not a symbolic link, other than `LINKED`) are zero.

use dolmen_types::{Epoch, ObjectClass, Oid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the record.
pub const BYTES: usize = 88;

/// In the size field of what is no directory and no symbolic link: its attributes are in its companion. DAOS reads that field of
/// symbolic links only. Persistent: never renumber.
const LINKED: u64 = 0x444d_4c4b_4e49_4c01;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
//= daos:src/client/dfs/dfs_internal.h inode record offsets, layout version 3
struct Packed {
    mode: U32,
    oid_lo: U64,
    oid_hi: U64,
    mtime_s: U64,
    ctime_s: U64,
    chunk_bytes: U64,
    class: U32,
    mtime_ns: U64,
    ctime_ns: U64,
    uid: U32,
    gid: U32,
    size: U64,
    written_at: U64,
}

const _: () = assert!(size_of::<Packed>() == BYTES);
const _: () = assert!(core::mem::offset_of!(Packed, oid_lo) == 4);
const _: () = assert!(core::mem::offset_of!(Packed, mtime_s) == 20);
const _: () = assert!(core::mem::offset_of!(Packed, ctime_s) == 28);
const _: () = assert!(core::mem::offset_of!(Packed, chunk_bytes) == 36);
const _: () = assert!(core::mem::offset_of!(Packed, class) == 44);
const _: () = assert!(core::mem::offset_of!(Packed, mtime_ns) == 48);
const _: () = assert!(core::mem::offset_of!(Packed, ctime_ns) == 56);
const _: () = assert!(core::mem::offset_of!(Packed, uid) == 64);
const _: () = assert!(core::mem::offset_of!(Packed, gid) == 68);
const _: () = assert!(core::mem::offset_of!(Packed, size) == 72);
const _: () = assert!(core::mem::offset_of!(Packed, written_at) == 80);

/// What an entry names, as `S_IFMT` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// The mask of the kind in a mode.
pub const S_IFMT: u32 = 0o170_000;

impl FileKind {
    /// The `S_IFMT` bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::File => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::Pipe => 0o010_000,
            Self::Socket => 0o140_000,
            Self::CharDevice => 0o020_000,
            Self::BlockDevice => 0o060_000,
        }
    }

    /// The kind in a mode; `None` for bits that no kind has.
    #[must_use]
    pub fn of_mode(mode: u32) -> Option<Self> {
        let ordinary = [Self::File, Self::Directory, Self::Symlink];
        let special = [Self::Pipe, Self::Socket, Self::CharDevice, Self::BlockDevice];
        ordinary.into_iter().chain(special).find(|kind| kind.bits() == mode & S_IFMT)
    }

    /// Whether it is a device, pipe or socket: a name for something that the system has, without contents here.
    #[must_use]
    pub fn is_special(self) -> bool {
        self.is_device() || matches!(self, Self::Pipe | Self::Socket)
    }

    /// Whether it has a device number.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, Self::CharDevice | Self::BlockDevice)
    }

    /// Whether it can have several names: the mark of that is where a symbolic link has its length.
    pub(crate) fn has_links(self) -> bool {
        !matches!(self, Self::Directory | Self::Symlink)
    }
}

/// A point in time: nanoseconds since the Unix epoch, also before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub s: i64,
    /// Nanoseconds after that, below 1e9.
    pub ns: u32,
}

const NS_PER_S: u64 = 1_000_000_000;

impl Time {
    /// From nanoseconds since the Unix epoch.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "both parts always fit")]
    pub fn from_unix_ns(unix_ns: u64) -> Self {
        let (s, ns) = (unix_ns / NS_PER_S, unix_ns % NS_PER_S);
        Self {
            s: i64::try_from(s).expect("2^64 ns are fewer than 2^63 s"),
            ns: u32::try_from(ns).expect("a remainder of 1e9 fits 32 bits"),
        }
    }

    /// Nanoseconds since the Unix epoch, limited to what 64 bits hold: from 1970 to 2554.
    #[must_use]
    pub fn unix_ns(self) -> u64 {
        let s = u64::try_from(self.s).unwrap_or(0);
        s.saturating_mul(NS_PER_S).saturating_add(u64::from(self.ns))
    }
}

/// What an entry says about the file, directory or symbolic link that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits with set-user-id, set-group-id and sticky: 12 bits.
    pub permissions: u32,
    /// The object; of what has no contents, only a number.
    pub oid: Oid,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
    /// Chunk of the file's array; of a directory, what its new files get (0: the container's).
    pub chunk_bytes: u64,
    /// Class of the object; of a directory, what its new entries get (0: the container's).
    pub class: ObjectClass,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length of a symbolic link's target; zero for everything else.
    pub link_bytes: u64,
    /// Whether the attributes are in the file's companion (more than one name).
    pub linked: bool,
    /// When the record was written. A reader of DAOS prefers the array's newest epoch over `mtime` if that is later.
    pub written_at: Epoch,
}

impl Inode {
    /// The record.
    ///
    /// # Panics
    /// If `permissions` has more than 12 bits: whoever sets them checks.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BYTES] {
        assert!(self.permissions & !0o7777 == 0, "permission bits are 12 bits");
        let packed = Packed {
            mode: U32::new(self.kind.bits() | self.permissions),
            oid_lo: U64::new(self.oid.lo),
            oid_hi: U64::new(self.oid.hi),
            mtime_s: U64::new(self.mtime.s.cast_unsigned()),
            ctime_s: U64::new(self.ctime.s.cast_unsigned()),
            chunk_bytes: U64::new(self.chunk_bytes),
            class: U32::new(self.class.0),
            mtime_ns: U64::new(u64::from(self.mtime.ns)),
            ctime_ns: U64::new(u64::from(self.ctime.ns)),
            uid: U32::new(self.uid),
            gid: U32::new(self.gid),
            size: U64::new(if self.linked { LINKED } else { self.link_bytes }),
            written_at: U64::new(self.written_at.0),
        };
        zerocopy::transmute!(packed)
    }

    /// Reads a record; `None` if the bytes are none (unknown kind, impossible time, unknown mark).
    #[must_use]
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Self> {
        let packed: Packed = zerocopy::transmute!(*bytes);
        let mode = packed.mode.get();
        let kind = FileKind::of_mode(mode)?;
        let size = packed.size.get();
        let linked = kind.has_links() && size == LINKED;
        let known_size = kind == FileKind::Symlink || size == 0 || linked;
        let no_chunk = kind == FileKind::File && packed.chunk_bytes.get() == 0;
        if !known_size || no_chunk || mode & !(S_IFMT | 0o7777) != 0 {
            return None;
        }
        Some(Self {
            kind,
            permissions: mode & 0o7777,
            oid: Oid { hi: packed.oid_hi.get(), lo: packed.oid_lo.get() },
            mtime: time(packed.mtime_s, packed.mtime_ns)?,
            ctime: time(packed.ctime_s, packed.ctime_ns)?,
            chunk_bytes: packed.chunk_bytes.get(),
            class: ObjectClass(packed.class.get()),
            uid: packed.uid.get(),
            gid: packed.gid.get(),
            link_bytes: if kind == FileKind::Symlink { size } else { 0 },
            linked,
            written_at: Epoch(packed.written_at.get()),
        })
    }

    /// Kind and permissions in one number, as `st_mode`.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.kind.bits() | self.permissions
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

fn time(s: U64, ns: U64) -> Option<Time> {
    let ns = u32::try_from(ns.get()).ok().filter(|&ns| u64::from(ns) < NS_PER_S)?;
    Some(Time { s: s.get().cast_signed(), ns })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample() -> Inode {
        Inode {
            kind: FileKind::File,
            permissions: 0o644,
            oid: Oid { hi: 0x0d01_0001_0000_0000, lo: 0x0102_0304_0506_0708 },
            mtime: Time { s: 0x6000_0001, ns: 0x0b0c_0d0e },
            ctime: Time { s: 0x6000_0002, ns: 0x0a0b_0c0d },
            chunk_bytes: 1 << 20,
            class: ObjectClass::S1,
            uid: 1000,
            gid: 100,
            link_bytes: 0,
            linked: false,
            written_at: Epoch(0x1122_3344_5566_7788),
        }
    }

    #[test]
    fn inode_record_has_its_golden_bytes() {
        let golden: [u8; BYTES] = [
            0xa4, 0x81, 0, 0, // mode 0o100644
            8, 7, 6, 5, 4, 3, 2, 1, // oid lo
            0, 0, 0, 0, 1, 0, 1, 0x0d, // oid hi
            1, 0, 0, 0x60, 0, 0, 0, 0, // mtime s
            2, 0, 0, 0x60, 0, 0, 0, 0, // ctime s
            0, 0, 0x10, 0, 0, 0, 0, 0, // chunk
            1, 0, 0, 1, // class S1
            0x0e, 0x0d, 0x0c, 0x0b, 0, 0, 0, 0, // mtime ns
            0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0, // ctime ns
            0xe8, 3, 0, 0, // uid
            100, 0, 0, 0, // gid
            0, 0, 0, 0, 0, 0, 0, 0, // size
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // written at
        ];
        assert_eq!(sample().to_bytes(), golden);
        assert_eq!(Inode::from_bytes(&golden), Some(sample()));
    }

    #[test]
    fn linked_file_is_marked_in_the_size_field_only() {
        let linked = Inode { linked: true, ..sample() };
        let (plain, marked) = (sample().to_bytes(), linked.to_bytes());
        assert_eq!(marked[72..80], [1, b'L', b'I', b'N', b'K', b'L', b'M', b'D']);
        assert_eq!((&plain[..72], &plain[80..]), (&marked[..72], &marked[80..]));
        assert_eq!(Inode::from_bytes(&marked), Some(linked));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(bytes in prop::array::uniform32(any::<u8>()), mode in 0u32..0o200_000) {
            let mut record = [0; BYTES];
            record[..4].copy_from_slice(&mode.to_le_bytes());
            record[4..36].copy_from_slice(&bytes);
            if let Some(inode) = Inode::from_bytes(&record) {
                prop_assert_eq!(inode.to_bytes(), record);
            }
        }

        #[test]
        fn times_keep_their_nanoseconds(unix_ns: u64) {
            prop_assert_eq!(Time::from_unix_ns(unix_ns).unix_ns(), unix_ns);
        }
    }
}
