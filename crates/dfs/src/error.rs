//! Why a file system operation failed, and the system's number for it.

use crate::layout::inode::FileKind;
use crate::layout::superblock::Unreadable;
use core::fmt;
use dolmen_types::{Error as StoreError, Invalid, Oid, shown};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The result of a file system operation.
pub type Result<T> = core::result::Result<T, Error>;

/// Why an operation failed. Each variant is one that a caller acts on differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// No such file or directory.
    NotFound,
    /// The name exists.
    Exists,
    /// A part of the path, or the thing named, is no directory.
    NotDirectory,
    /// The thing named is a directory.
    IsDirectory,
    /// The directory has entries.
    NotEmpty,
    /// A name is longer than 255 bytes, or a path longer than 4095.
    NameTooLong,
    /// More than 40 symbolic links on the way.
    SymlinkLoop,
    /// The permission bits forbid it.
    NoPermission,
    /// Only the owner may do this, or nobody (a hard link to a directory).
    NotPermitted,
    /// The file system is mounted read-only, or shows a snapshot.
    ReadOnly,
    /// The file is not open for this.
    BadHandle,
    /// No file here can do this.
    NotSupported,
    /// The request is wrong and will be wrong when repeated.
    Invalid(What),
    /// The file would have more names than `LINKS_MAX`.
    TooManyLinks,
    /// No such extended attribute.
    NoAttribute,
    /// The extended attribute's value is too long.
    AttributeTooBig,
    /// All extended attributes of the entry together would exceed `layout::XATTRS_BYTES_MAX`.
    AttributesFull,
    /// The file would be larger than `FILE_BYTES_MAX`.
    FileTooBig,
    /// No data, or no hole, at or after the offset.
    NoSuchOffset,
    /// The two directories are of different mounts.
    CrossMount,
    /// What the handle stands for was moved or removed by another mount.
    Stale,
    /// Others changed the same names again and again; nothing was done.
    Contended,
    /// The container holds no file system.
    NotFormatted,
    /// The container holds a file system of another version, or a damaged superblock.
    Superblock(Unreadable),
    /// An entry is damaged: its record, or a name that none can have.
    BadRecord {
        /// The directory.
        dir: Oid,
        /// The entry's name.
        name: Box<[u8]>,
    },
    /// The store failed.
    Store(Box<StoreError>),
    /// A file outside the container could not be read or written (put, get, verify).
    Local {
        /// Which.
        path: PathBuf,
        /// The system's error number.
        errno: i32,
    },
    /// An operation on one file of a tree failed.
    InTree {
        /// Which, in the container.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// The directory outside is one that a copy must not touch, such as that of the open pool itself.
    Excluded {
        /// Which.
        path: PathBuf,
    },
    /// Something of another kind has the name, which a copy of a tree does not replace.
    OtherKind {
        /// What has the name.
        there: FileKind,
        /// What was to get it.
        wanted: FileKind,
    },
    /// A device, pipe or socket outside was named to be copied, or has the name that a copy would get.
    Special {
        /// Which.
        path: PathBuf,
    },
    /// A file outside changed each time it was read to be copied: no state of it was stored.
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The run was called off: `tree::Options::stop`.
    Canceled,
    /// A worker thread ended by a panic: a bug of this library.
    Worker,
}

/// What is wrong with a request that can never succeed as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A name is empty, `.` or `..` where an entry is meant, or holds a slash or zero byte.
    Name,
    /// A directory would be moved below itself.
    Cycle,
    /// Mode bits outside 07777.
    Mode,
    /// Flags that contradict each other.
    Flags,
    /// The thing named is no symbolic link, or no file, as the operation needs.
    Kind,
    /// The container was created for another layout than POSIX.
    Layout,
    /// A chunk size or object class that no file can have.
    Placement,
    /// A time whose nanoseconds are not below 1e9.
    Time,
    /// A cookie that no listing of this directory returned.
    Cookie,
    /// An offset or length that does not fit.
    Range,
    /// An access control list that is incomplete, out of order, or of another version.
    Acl,
}

impl Error {
    /// Whether only one entry of a tree is in the way, so that a copy can go on with the others.
    pub(crate) fn spares_others(&self) -> bool {
        let is_of_all =
            |number| matches!(number, errno::ENOSPC | errno::EDQUOT | errno::EROFS | errno::EMFILE);
        match self {
            Self::InTree { source, .. } => source.spares_others(),
            Self::Local { errno, .. } => !is_of_all(*errno),
            Self::Store(error) => matches!(**error, StoreError::Corrupt { .. }),
            Self::ReadOnly | Self::Worker | Self::Canceled | Self::NotFormatted | Self::Superblock(_) => {
                false
            }
            _ => true,
        }
    }

    /// Whether the device does not give stored bytes: for who only reads, those of one entry or file.
    pub(crate) fn is_unreadable(&self) -> bool {
        match self {
            Self::InTree { source, .. } => source.is_unreadable(),
            Self::Store(error) => matches!(**error, StoreError::Io { errno: errno::EIO, .. }),
            _ => false,
        }
    }

    /// Whether stored bytes are damaged: those of one entry or file, others are not touched by it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::InTree { source, .. } => source.is_damage(),
            Self::Store(error) => matches!(**error, StoreError::Corrupt { .. }),
            Self::BadRecord { .. } => true,
            _ => false,
        }
    }

    /// Whether the engine does not let whoever has the container open do this any more, or anything at all: [`Obj::errno_of`] tells
    /// these apart.
    ///
    /// [`Obj::errno_of`]: crate::Obj::errno_of
    #[must_use]
    pub fn is_of_rights(&self) -> bool {
        matches!(
            self.of_store(),
            Some(StoreError::NoPermission | StoreError::NoHandle | StoreError::NoContainer)
        )
    }

    /// What was asked for is of a past that is not kept any more.
    #[must_use]
    pub fn is_of_past(&self) -> bool {
        matches!(self.of_store(), Some(StoreError::EpochGone { .. }))
    }

    /// What the store said, if it was asked.
    pub(crate) fn of_store(&self) -> Option<&StoreError> {
        match self {
            Self::InTree { source, .. } => source.of_store(),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }

    /// The system's (Linux) number, positive.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => errno::ENOENT,
            Self::Exists => errno::EEXIST,
            Self::NotDirectory => errno::ENOTDIR,
            Self::IsDirectory => errno::EISDIR,
            Self::NotEmpty => errno::ENOTEMPTY,
            Self::NameTooLong => errno::ENAMETOOLONG,
            Self::SymlinkLoop => errno::ELOOP,
            Self::NoPermission => errno::EACCES,
            Self::NotPermitted => errno::EPERM,
            Self::ReadOnly => errno::EROFS,
            Self::BadHandle => errno::EBADF,
            Self::NotSupported => errno::EOPNOTSUPP,
            Self::Invalid(_) | Self::NotFormatted | Self::Superblock(_) | Self::Special { .. } => {
                errno::EINVAL
            }
            Self::TooManyLinks => errno::EMLINK,
            Self::NoAttribute => errno::ENODATA,
            Self::AttributeTooBig => errno::E2BIG,
            Self::AttributesFull => errno::ENOSPC,
            Self::FileTooBig => errno::EFBIG,
            Self::NoSuchOffset => errno::ENXIO,
            Self::CrossMount => errno::EXDEV,
            Self::Stale => errno::ESTALE,
            Self::Contended => errno::EAGAIN,
            Self::BadRecord { .. } => errno::EIO,
            Self::Store(error) => store_errno(error),
            Self::Local { errno, .. } => *errno,
            Self::InTree { source, .. } => source.errno(),
            Self::OtherKind { there: FileKind::Directory, .. } => errno::EISDIR,
            Self::OtherKind { .. } => errno::ENOTDIR,
            Self::Excluded { .. } | Self::Changed { .. } => errno::EBUSY,
            Self::Canceled => errno::ECANCELED,
            Self::Worker => errno::EIO,
        }
    }
}

//= daos:src/include/daos_errno.h DER numbers to errno, as dfs calls return them
fn store_errno(error: &StoreError) -> i32 {
    match error {
        StoreError::Invalid(_) | StoreError::NoHandle => errno::EINVAL,
        StoreError::NotFound | StoreError::NoContainer => errno::ENOENT,
        StoreError::Exists => errno::EEXIST,
        StoreError::TxRestart { .. } => errno::ERESTART,
        StoreError::NoSpace { .. } => errno::ENOSPC,
        StoreError::QuotaLimit => errno::EDQUOT,
        // What is in doubt may have been done: who is told to try again would append twice.
        StoreError::InDoubt { .. }
        | StoreError::Corrupt { .. }
        | StoreError::HashCollision
        | StoreError::RecordSize { .. } => errno::EIO,
        StoreError::Io { errno, .. } => *errno,
        StoreError::ReadOnly { .. } => errno::EROFS,
        StoreError::RecTooBig { .. } | StoreError::KeyTooBig { .. } => errno::E2BIG,
        StoreError::EpochGone { .. } | StoreError::StaleMap { .. } => errno::ESTALE,
        StoreError::Busy => errno::EBUSY,
        StoreError::TimedOut => errno::ETIMEDOUT,
        StoreError::Canceled => errno::ECANCELED,
        StoreError::NoPermission => errno::EPERM,
        StoreError::NotEmpty => errno::ENOTEMPTY,
        StoreError::NotDirectory => errno::ENOTDIR,
        StoreError::IsDirectory => errno::EISDIR,
        StoreError::Unreachable { .. } => errno::EHOSTUNREACH,
    }
}

/// Linux's numbers; the one table of them, so that doors need none of their own.
pub mod errno {
    #![allow(missing_docs, reason = "the names are those of errno(3)")]
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const ENXIO: i32 = 6;
    pub const E2BIG: i32 = 7;
    pub const EBADF: i32 = 9;
    pub const EAGAIN: i32 = 11;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const EEXIST: i32 = 17;
    pub const EXDEV: i32 = 18;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const EMFILE: i32 = 24;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const EMLINK: i32 = 31;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ELOOP: i32 = 40;
    pub const ENODATA: i32 = 61;
    pub const ERESTART: i32 = 85;
    pub const EOPNOTSUPP: i32 = 95;
    pub const ETIMEDOUT: i32 = 110;
    pub const EHOSTUNREACH: i32 = 113;
    pub const ESTALE: i32 = 116;
    pub const EDQUOT: i32 = 122;
    pub const ECANCELED: i32 = 125;
}

/// What the system calls a name that is too long is more often a path.
const TOO_LONG: &str = "the name is longer than 255 bytes, or the path longer than 4095";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file or directory"),
            Self::Exists => f.write_str("file exists"),
            Self::NotDirectory => f.write_str("not a directory"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::NotEmpty => f.write_str("directory not empty"),
            Self::NameTooLong => f.write_str(TOO_LONG),
            Self::SymlinkLoop => f.write_str("too many levels of symbolic links"),
            Self::NoPermission => f.write_str("permission denied"),
            Self::NotPermitted => f.write_str("operation not permitted"),
            Self::ReadOnly => f.write_str("read-only file system"),
            Self::BadHandle => f.write_str("the file is not open for this"),
            Self::NotSupported => f.write_str("operation not supported"),
            Self::Invalid(what) => what.fmt(f),
            Self::TooManyLinks => f.write_str("too many hard links"),
            Self::NoAttribute => f.write_str("no such extended attribute"),
            Self::AttributeTooBig => f.write_str("extended attribute too long"),
            Self::AttributesFull => f.write_str("no room for more extended attributes of this entry"),
            Self::FileTooBig => f.write_str("file too large"),
            Self::NoSuchOffset => f.write_str("no data or hole at or after the offset"),
            Self::CrossMount => f.write_str("not in the same mount"),
            Self::Stale => f.write_str("the handle is stale: another mount moved or removed its file"),
            Self::Contended => f.write_str("others keep changing the same names; try again"),
            Self::NotFormatted => f.write_str("the container holds no file system; format it first"),
            Self::Superblock(Unreadable::Damaged) => f.write_str("the container's superblock is damaged"),
            Self::Superblock(Unreadable::Version { superblock, layout }) => write!(
                f,
                "the container's files have version {superblock}.{layout}; open it with a newer program"
            ),
            Self::BadRecord { dir, name } => {
                write!(f, "entry {} of directory {dir} is damaged", shown(name))
            }
            Self::Store(error) => error.fmt(f),
            Self::InTree { path, source } => write!(f, "{}: {source}", shown_path(path)),
            Self::OtherKind { there, wanted } => {
                let (there, wanted) = (kind_word(*there), kind_word(*wanted));
                write!(f, "a {there} has this name, and a {wanted} does not replace it")
            }
            Self::Excluded { path } => write!(f, "{}: belongs to a pool", shown_path(path)),
            Self::Special { path } => {
                write!(
                    f,
                    "{}: a device, pipe or socket, which is neither copied nor replaced",
                    shown_path(path)
                )
            }
            Self::Changed { path } => write!(f, "{}: changed while it was read", shown_path(path)),
            Self::Canceled => f.write_str("called off"),
            Self::Worker => f.write_str("a worker thread panicked"),
            Self::Local { path, errno: errno::ENAMETOOLONG } => write!(f, "{}: {TOO_LONG}", shown_path(path)),
            Self::Local { path, errno } => {
                write!(f, "{}: {}", shown_path(path), std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

fn shown_path(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a name is empty, `.` or `..`, or has a slash or zero byte",
            Self::Cycle => "a directory cannot be moved into itself or below itself",
            Self::Mode => "the mode has bits outside 07777",
            Self::Flags => "the flags contradict each other",
            Self::Kind => "it is of another kind than this needs",
            Self::Layout => "the container was made for another layout than files",
            Self::Placement => "no file can have this chunk size or object class",
            Self::Time => "the nanoseconds of a time are 1e9 or more",
            Self::Cookie => "the cookie is of no listing of this directory",
            Self::Range => "an offset or length is too large",
            Self::Acl => "the access control list is incomplete, out of order, or of another version",
        })
    }
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Pipe => "named pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(&**error),
            Self::InTree { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::NotFound,
            StoreError::Exists => Self::Exists,
            StoreError::TxRestart { .. } => Self::Contended,
            StoreError::Invalid(Invalid::Name) => Self::Invalid(What::Name),
            other => Self::Store(Box::new(other)),
        }
    }
}

impl From<What> for Error {
    fn from(what: What) -> Self {
        Self::Invalid(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::{Epoch, TargetNo, TxId};

    #[test]
    fn errors_have_the_numbers_of_linux() {
        for (error, number) in [
            (Error::NotFound, 2),
            (Error::Exists, 17),
            (Error::NotEmpty, 39),
            (Error::SymlinkLoop, 40),
            (Error::NameTooLong, 36),
            (Error::NoAttribute, 61),
            (Error::AttributesFull, 28),
            (Error::from(StoreError::NotFound), 2),
            (StoreError::NoSpace { target: TargetNo(0), needed_bytes: 1 }.into(), 28),
            (StoreError::QuotaLimit.into(), 122),
            (StoreError::TxRestart { after: Epoch(1) }.into(), 11),
            (StoreError::InDoubt { tx: TxId { client: 1, begin: Epoch(1) } }.into(), 5),
            (StoreError::Io { target: TargetNo(1), errno: 121 }.into(), 121),
        ] {
            assert_eq!(error.errno(), number, "{error}");
        }
    }
}
