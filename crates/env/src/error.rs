//! What can go wrong outside: one enum, typed fields, the operating system's number as the source.

use core::fmt;
pub use rustix::io::Errno;

/// What was being done when the outside world refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opening an existing file or directory.
    Open,
    /// Creating or preallocating a file or directory.
    Create,
    /// Making a file longer.
    Extend,
    /// Listing a directory.
    List,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing a file.
    Flush,
    /// Flushing a directory.
    SyncNames,
    /// Removing a name.
    Remove,
    /// Renaming.
    Rename,
    /// Mapping a file into memory.
    Map,
    /// Asking for the length, kind or free space.
    Stat,
    /// Taking the lock of a directory.
    Lock,
    /// Starting a thread, pinning it, or reading its counters.
    Thread,
    /// Reading entropy.
    Random,
    /// Listening for connections, or taking one.
    Listen,
    /// Connecting.
    Connect,
    /// Sending to a peer.
    Send,
    /// Receiving from a peer.
    Receive,
    /// Waiting for peers.
    Wait,
    /// Running another program.
    Run,
    /// Making or taking over memory that is shared between processes.
    Share,
    /// Mounting a file system.
    Mount,
    /// Taking a mount away.
    Unmount,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Extend => "extend",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::SyncNames => "flush directory",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Map => "map",
            Self::Stat => "stat",
            Self::Lock => "lock",
            Self::Thread => "thread control",
            Self::Random => "read entropy",
            Self::Listen => "listen",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Wait => "wait",
            Self::Run => "running",
            Self::Share => "sharing memory",
            Self::Mount => "mount",
            Self::Unmount => "unmount",
        })
    }
}

/// Every error of this crate. A variant is separate only where a caller acts differently on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device has no room; nothing was left behind.
    NoSpace {
        /// The file that did not fit.
        name: String,
        /// Bytes that were asked for.
        needed_bytes: u64,
    },
    /// No such name.
    NotFound {
        /// The name.
        name: String,
    },
    /// The name is taken.
    Exists {
        /// The name.
        name: String,
    },
    /// The directory belongs to another process.
    Owned {
        /// The owner's process id; 0 when it has not written it yet.
        pid: u32,
    },
    /// A name that is empty, starts with a dot, is longer than 255 bytes or holds `/` or NUL.
    BadName {
        /// The name.
        name: String,
    },
    /// A file id that is not open on this disk.
    NotOpen {
        /// The number of the id.
        file: u32,
    },
    /// The file is already open, or mapped, so that a second way in would not be safe.
    Busy {
        /// The file.
        name: String,
    },
    /// A range outside the file.
    OutOfRange {
        /// The file.
        name: String,
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len_bytes: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// The operating system (or the simulated device) refused.
    Io {
        /// What was being done.
        op: Op,
        /// On which file or directory.
        name: String,
        /// Where in it; 0 where that means nothing.
        offset: u64,
        /// The system's error number.
        errno: Errno,
    },
    /// A program that does for users what they may not do by themselves has refused it.
    Declined {
        /// Which program.
        program: &'static str,
        /// What it has said, in one line; empty for nothing.
        said: String,
    },
    /// A setting of the user means nothing.
    Setting {
        /// Which, and where it stands.
        name: String,
        /// What it says.
        value: String,
        /// What it has to be, and what to do else.
        wanted: &'static str,
    },
    /// A simulated power cut or kill has happened: this disk does nothing any more.
    Crashed,
}

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// An error of the operating system, with the cases that callers act on taken out.
    #[must_use]
    pub fn from_errno(op: Op, name: &str, offset: u64, errno: Errno) -> Self {
        let name = name.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { name },
            Errno::EXIST => Self::Exists { name },
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace { name, needed_bytes: 0 },
            _ => Self::Io { op, name, offset, errno },
        }
    }

    pub(crate) fn from_std(op: Op, name: &str, error: &std::io::Error) -> Self {
        Self::from_errno(op, name, 0, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// The same error, with `bytes` as the room that was missing.
    #[must_use]
    pub fn needing(self, bytes: u64) -> Self {
        match self {
            Self::NoSpace { name, .. } => Self::NoSpace { name, needed_bytes: bytes },
            other => other,
        }
    }

    /// Whether the device is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }

    /// Whether an address is taken.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Io { errno: Errno::ADDRINUSE, .. })
    }

    /// Whether the name does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace { name, needed_bytes } => {
                write!(f, "no space left for {name} ({needed_bytes} bytes needed)")
            }
            Self::NotFound { name } => write!(f, "{name} does not exist"),
            Self::Exists { name } => write!(f, "{name} exists already"),
            // Its owner is between taking the lock and saying who it is.
            Self::Owned { pid: 0 } => {
                f.write_str("the directory is in use by another process; stop it, or try again later")
            }
            Self::Owned { pid } => {
                write!(f, "the directory is in use by process {pid}; stop it, or try again when it has ended")
            }
            Self::BadName { name } => write!(f, "{name:?} cannot be the name of a file"),
            Self::NotOpen { file } => write!(f, "file id {file} is not open"),
            Self::Busy { name } => write!(f, "{name} is already open or mapped"),
            Self::OutOfRange { name, offset, len_bytes, file_bytes } => {
                write!(f, "{len_bytes} bytes at {offset} lie outside {name}, which has {file_bytes} bytes")
            }
            Self::Io { op: op @ (Op::Read | Op::Write | Op::Extend), name, offset, errno } => {
                write!(f, "{op} of {name} at {offset} failed: {errno}")
            }
            // What has no place in a file has no offset.
            Self::Io { op, name, errno, .. } => write!(f, "{op} of {name} failed: {errno}"),
            Self::Declined { program, said } if said.is_empty() => {
                write!(f, "{program} has failed without a word")
            }
            Self::Declined { program, said } => write!(f, "{program} says: {said}"),
            Self::Setting { name, value, wanted } => {
                write!(f, "{name} is {value:?}, and has to be {wanted}")
            }
            Self::Crashed => f.write_str("the simulated machine has crashed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { errno, .. } => Some(errno),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_names_file_offset_and_cause() {
        let error = Error::from_errno(Op::Read, "log.3", 4096, Errno::IO);
        assert_eq!(error.to_string(), "read of log.3 at 4096 failed: Input/output error (os error 5)");
        assert!(error.source().is_some());
        let error = Error::from_errno(Op::Connect, "dolmen.sock", 0, Errno::CONNREFUSED);
        assert_eq!(error.to_string(), "connect of dolmen.sock failed: Connection refused (os error 111)");
        assert!(Error::from_errno(Op::Create, "a", 0, Errno::NOSPC).needing(9).is_no_space());
    }
}
