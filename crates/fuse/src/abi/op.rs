//! What can be asked.

use dolmen_dfs::lock::LockKind;

/// Operations by number, as `linux/fuse.h` has them.
pub(crate) mod code {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const NOTIFY_REPLY: u32 = 41;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const SYNCFS: u32 = 50;
    pub(crate) const TMPFILE: u32 = 51;
}

/// New attributes; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewAttrs {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<NewTime>,
    /// Time of the last change of content.
    pub mtime: Option<NewTime>,
    /// The open file that it is done through.
    pub handle: Option<u64>,
}

/// A time to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewTime {
    /// The clock of whoever sets it.
    Now,
    /// Seconds and nanoseconds since 1970.
    At(i64, u32),
}

/// A lock that is set, freed or looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOp {
    /// The open file.
    pub handle: u64,
    /// The process or open file whose lock it is.
    pub owner: u64,
    /// The process.
    pub pid: u32,
    /// Whether it is on the whole file, by open file.
    pub is_whole: bool,
    /// First byte.
    pub first: u64,
    /// Last byte.
    pub last: u64,
    /// The kind.
    pub kind: LockKind,
    /// What is to be done.
    pub how: LockHow,
}

/// What is to be done about a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockHow {
    /// Say what stands against it.
    Test,
    /// Set it, or fail.
    Set,
    /// Set it, and wait for it.
    Wait,
}

/// What a write does besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteHow {
    /// It goes to the end: not so what comes from pages that were changed in memory, also if the file is open for appending.
    pub appends: bool,
    /// It comes from pages in memory, of which the kernel keeps none that it has written: all or an error.
    pub is_whole: bool,
    /// Who writes may not keep the rights that the file gives to who runs it.
    pub strips_rights: bool,
    /// It is to survive the loss of power when it is answered (`O_DSYNC`, `O_SYNC`).
    pub lasts: bool,
}

/// A range of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The open file.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// One operation, on the node of its request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are those of the system calls that the operations are named after"
)]
pub enum Op<'a> {
    Init {
        major: u32,
        minor: u32,
        readahead_bytes: u32,
        flags: u64,
    },
    Destroy,
    Interrupt {
        unique: u64,
    },
    /// Node and how many lookups of it are forgotten.
    Forget(Vec<(u64, u64)>),
    Lookup {
        name: &'a [u8],
    },
    GetAttr {
        handle: Option<u64>,
    },
    SetAttr(NewAttrs),
    ReadLink,
    SymLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    MkDir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_dir: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        old: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
    },
    TmpFile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read(Range),
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        how: WriteHow,
    },
    StatFs,
    /// `whole_owner` is whose lock on the whole file ends with the open file.
    Release {
        handle: u64,
        whole_owner: Option<u64>,
    },
    /// `owner` is whose locks on ranges end, since he has closed one of his descriptors.
    Flush {
        handle: u64,
        owner: u64,
    },
    Lock(LockOp),
    FSync {
        handle: u64,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        room_bytes: u32,
    },
    ListXattr {
        room_bytes: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    OpenDir,
    ReadDir {
        handle: u64,
        offset: u64,
        room_bytes: u32,
        with_attrs: bool,
    },
    ReleaseDir {
        handle: u64,
    },
    FSyncDir,
    Access,
    FAllocate {
        range: Range,
        mode: u32,
    },
    LSeek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    SyncFs,
    /// What this program does not do.
    Other(u32),
}

impl Op<'_> {
    /// Whether the kernel waits for an answer.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::Forget(_) | Self::Interrupt { .. })
    }
}
