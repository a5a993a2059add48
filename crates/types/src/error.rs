//! The one error that crosses layers: coarse, typed, with DAOS's number.

use crate::shown;
use crate::{ContNo, Epoch, Key, Oid, Recx, TargetNo, TxId};
use core::fmt;

/// The result of an operation.
pub type Result<T> = core::result::Result<T, Error>;

/// What is wrong with a request that can never succeed as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// A label has wrong characters or length.
    Label,
    /// The id names no object type or a class that cannot be placed.
    ObjectId,
    /// An empty key, or one that its object type does not allow.
    Key,
    /// An extent is empty, overflows or crosses a window of `limits::WINDOW_RECORDS`.
    Extent,
    /// Payload length does not fit the extents or record size.
    Payload,
    /// The record size is zero or above its limit.
    RecordSize,
    /// A list is empty or longer than its limit.
    Count,
    /// Flags that contradict each other or are unknown.
    Flags,
    /// An anchor that no enumeration of this kind returned.
    Anchor,
    /// A key query on keys that have no order by value.
    Query,
    /// An epoch in the future, zero, or below what is kept.
    Epoch,
    /// A property that is unknown or has a value of the wrong kind.
    Property,
    /// A name that is empty, too long or holds a forbidden byte.
    Name,
    /// A path that does not lead where the operation needs it to.
    Path,
    /// The container's layout is not the one asked for.
    Layout,
    /// A number outside its range.
    Argument,
    /// New credentials where a target already keeps as many different ones as it can.
    Credentials,
    /// A quota where what stores a target keeps no accounts.
    Engines,
}

/// Where on a device something is wrong, in the words of whoever stored it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A value: container, object, keys, and the extent for an array value. Keys that nobody knows any more are empty.
    Value {
        /// Container.
        cont: ContNo,
        /// Object.
        oid: Oid,
        /// Distribution key.
        dkey: Key,
        /// Attribute key.
        akey: Key,
        /// Extent; `None` for a single value.
        extent: Option<Recx>,
    },
    /// A record of the store itself, at an offset of a numbered file.
    Record {
        /// What kind of file.
        file: &'static str,
        /// Its number.
        number: u64,
        /// Byte offset.
        offset: u64,
    },
}

/// Why an operation failed. Each variant is one that a caller acts on differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The request is wrong and will be wrong when repeated.
    Invalid(Invalid),
    /// What a condition or a name asks for does not exist.
    NotFound,
    /// What a condition says must not exist does.
    Exists,
    /// The transaction conflicts; begin again at an epoch above `after`.
    TxRestart {
        /// The epoch that the conflicting access had.
        after: Epoch,
    },
    /// An undecided transaction stands in the way; repeat after it is decided. As the answer to a commit: it may be done, and
    /// only the same commit, sent again, tells.
    InDoubt {
        /// The transaction.
        tx: TxId,
    },
    /// The target is full; nothing was changed.
    NoSpace {
        /// The target.
        target: TargetNo,
        /// What the operation would have needed.
        needed_bytes: u64,
    },
    /// A checksum does not match; nothing of it was returned.
    Corrupt {
        /// The target.
        target: TargetNo,
        /// What is damaged; boxed, so that a result stays small on the paths where nothing is.
        place: Box<Place>,
    },
    /// The device failed; `errno` is the system's number.
    Io {
        /// The target.
        target: TargetNo,
        /// The system's error number.
        errno: i32,
    },
    /// An earlier failed flush made the target read-only until it is reopened.
    ReadOnly {
        /// The target.
        target: TargetNo,
    },
    /// The value is larger than the buffer.
    RecTooBig {
        /// What would fit it.
        needed_bytes: u64,
    },
    /// A key is longer than its limit or than the room for it.
    KeyTooBig {
        /// Its length.
        needed_bytes: u64,
    },
    /// The array's records have another size.
    RecordSize {
        /// The size stored.
        stored_bytes: u64,
    },
    /// The epoch is older than what aggregation has kept.
    EpochGone {
        /// The oldest epoch that can be read.
        oldest: Epoch,
    },
    /// The container is unknown on this target or being destroyed.
    NoContainer,
    /// A limit on what may wait or be open at once was reached; try again later.
    Busy,
    /// The deadline passed before the operation was begun.
    TimedOut,
    /// The caller called it off before it was complete.
    Canceled,
    /// The caller may not do this.
    NoPermission,
    /// The pool map is newer than the request's.
    StaleMap {
        /// The current version.
        version: u32,
    },
    /// A directory has entries.
    NotEmpty,
    /// The name is a directory where none is allowed, or the reverse.
    NotDirectory,
    /// The name is a directory.
    IsDirectory,
    /// Two different keys have the same 128-bit keyed hash: refused rather than mixed up.
    HashCollision,
    /// The engine does not answer, or cannot be reached; whether a change was made is not known.
    Unreachable {
        /// The engine.
        rank: u32,
    },
    /// The handle on the container has ended: it was taken away, or closed.
    NoHandle,
    /// A limit of the container or of the user is reached; nothing was changed.
    QuotaLimit,
}

impl Error {
    /// DAOS's number, negative.
    //= daos:src/include/daos_errno.h DER_*
    #[must_use]
    pub fn der(&self) -> i32 {
        -match self {
            Self::Invalid(_) => 1003,
            Self::NotFound => 1005,
            Self::Exists => 1004,
            Self::TxRestart { .. } => 2025,
            Self::InDoubt { .. } => 2018,
            Self::NoSpace { .. } => 1007,
            Self::Corrupt { .. } => 2021,
            Self::Io { .. } => 2001,
            Self::ReadOnly { .. } => 2010,
            Self::RecTooBig { .. } => 2013,
            Self::KeyTooBig { .. } => 2012,
            Self::RecordSize { .. } => 2024,
            Self::EpochGone { .. } => 2011,
            Self::NoContainer => 2050,
            Self::Busy => 1012,
            Self::TimedOut => 1011,
            Self::Canceled => 1018,
            Self::NoPermission => 1001,
            Self::StaleMap { .. } => 2007,
            Self::NotEmpty => 1012,
            Self::NotDirectory => 1027,
            Self::IsDirectory => 1003,
            Self::HashCollision => 1025,
            Self::Unreachable { .. } => 1006,
            Self::NoHandle => 1002,
            Self::QuotaLimit => 1046,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Label => "the label has wrong characters or a wrong length",
            Self::ObjectId => "the object's type or class cannot be placed",
            Self::Key => "the key is empty, or of a kind that the object does not have",
            Self::Extent => "the extent is empty or too long",
            Self::Payload => "the data does not have the length that its extents say",
            Self::RecordSize => "the record size is zero or too large",
            Self::Count => "the list is empty or too long",
            Self::Flags => "the flags contradict each other or are unknown",
            Self::Anchor => "the anchor is of no such listing",
            Self::Query => "the keys have no order that can be asked for",
            Self::Epoch => "the epoch is zero, in the future or no longer kept",
            Self::Property => "the property is unknown, or its value is not allowed",
            Self::Name => "the name is empty, too long or has a forbidden byte",
            Self::Path => "the path does not lead where it has to",
            Self::Layout => "the layout is of another version of Dolmen, which this one does not read",
            Self::Argument => "a number is outside its range",
            Self::Credentials => "the target keeps as many different credentials as it can",
            Self::Engines => "what stores the pool keeps no quotas",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { cont, oid, dkey, akey, extent } => {
                write!(f, "container {}, object {oid}", cont.0)?;
                if !dkey.is_empty() {
                    write!(f, ", key {}/{}", shown(dkey), shown(akey))?;
                }
                match extent {
                    Some(extent) => {
                        write!(f, ", {} records from {}", extent.count, extent.index)
                    }
                    None => Ok(()),
                }
            }
            Self::Record { file, number, offset } => write!(f, "{file} {number}, byte {offset}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => what.fmt(f),
            Self::NotFound => f.write_str("not found"),
            Self::Exists => f.write_str("exists already"),
            Self::TxRestart { after } => write!(f, "transaction conflict; restart after epoch {after}"),
            Self::InDoubt { tx } => write!(f, "undecided transaction begun at {}", tx.begin),
            Self::NoSpace { target, needed_bytes } => {
                write!(
                    f,
                    "target {} is full: {needed_bytes} bytes more needed; punch or destroy something",
                    target.0
                )
            }
            Self::Corrupt { target, place } => {
                write!(f, "damaged data on target {}: {place}", target.0)
            }
            Self::Io { target, errno } => {
                let what = std::io::Error::from_raw_os_error(*errno);
                write!(f, "device error on target {}: {what}", target.0)
            }
            Self::ReadOnly { target } => {
                write!(f, "target {} is read-only after a failed flush; reopen the pool", target.0)
            }
            Self::RecTooBig { needed_bytes } => write!(f, "buffer too small: {needed_bytes} bytes needed"),
            Self::KeyTooBig { needed_bytes } => write!(f, "key of {needed_bytes} bytes does not fit"),
            Self::RecordSize { stored_bytes } => write!(f, "the array has records of {stored_bytes} bytes"),
            Self::EpochGone { oldest } => write!(f, "aggregated away; the oldest readable epoch is {oldest}"),
            Self::NoContainer => f.write_str("no such container"),
            Self::Busy => f.write_str("busy; try again"),
            Self::TimedOut => f.write_str("deadline passed"),
            Self::Canceled => f.write_str("called off"),
            Self::NoPermission => f.write_str("permission denied"),
            Self::StaleMap { version } => write!(f, "pool map is stale; version {version} is current"),
            Self::NotEmpty => f.write_str("not empty or still in use"),
            Self::NotDirectory => f.write_str("not a directory"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::HashCollision => f.write_str("key hash collision; choose another key"),
            Self::Unreachable { rank } => {
                write!(f, "engine {rank} does not answer; see that its daemon runs, then try again")
            }
            Self::NoHandle => f.write_str("the handle on the container was taken away; open it again"),
            Self::QuotaLimit => f.write_str("the quota of the container, or of the user in it, is used up"),
        }
    }
}

impl std::error::Error for Error {}

impl std::error::Error for Invalid {}

impl From<Invalid> for Error {
    fn from(what: Invalid) -> Self {
        Self::Invalid(what)
    }
}
