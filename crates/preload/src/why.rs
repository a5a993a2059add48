//! Why nothing is taken, for who asks (`DOLMEN_PRELOAD_REPORT=1`) and finds nothing but zeros.

use core::fmt;
use std::path::PathBuf;

/// Why nothing was taken in a process.
#[derive(Debug)]
pub(crate) enum Why {
    /// `DOLMEN_PRELOAD=off`.
    Off,
    /// It has changed its user, its root directory or its namespaces, or has needed the library's descriptors.
    Another,
    /// The kernel cannot tell mounts from each other.
    OldKernel,
    /// No call was on a mount of Dolmen.
    NoMount,
    /// Only a directory of the container is mounted there (`mount --bind`).
    Part(PathBuf),
    /// A mount of another user, which may say what it likes.
    Others { root: PathBuf, user: Option<u32> },
    /// A mount that does not say how its files are reached.
    Silent(PathBuf),
    /// So many calls on a mount, which are too few to connect for.
    Few { root: PathBuf, calls: u32 },
    /// It could not be connected to.
    Unreached { root: PathBuf, why: Unreached },
    /// What was asked for is the mount's to do.
    Handed,
}

/// Why a process does not get at the files of a mount by itself.
#[derive(Clone, Debug)]
pub(crate) enum Unreached {
    /// It acts as somebody else than it belongs to (set-user-id).
    NotItself,
    /// The account that it works for is not known.
    Account(dolmen_env::Error),
    Unknown {
        system: String,
    },
    Daemon {
        system: String,
        error: dolmen_net::Error,
    },
    Pool {
        uid: u32,
        error: dolmen_types::Error,
    },
    Cont {
        uid: u32,
        error: dolmen_types::Error,
    },
    Files(dolmen_dfs::Error),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("DOLMEN_PRELOAD is off"),
            Self::Another => f.write_str("the process has changed its user, root directory or namespaces"),
            Self::OldKernel => {
                f.write_str("the kernel gives mounts no numbers of their own, as Linux 6.8 does")
            }
            Self::NoMount => f.write_str("no call was on a mount of dolmen"),
            Self::Part(dir) => {
                write!(f, "{} is a directory of a mount of dolmen, mounted by itself", dir.display())
            }
            Self::Others { root, user: Some(user) } => write!(
                f,
                "{} was mounted by user {user}, and none but his own and root's mounts are trusted",
                root.display()
            ),
            Self::Others { root, user: None } => write!(f, "nobody knows who has mounted {}", root.display()),
            Self::Silent(root) => write!(
                f,
                "{} is a mount of a snapshot, with --files, or of a pool that no daemon serves",
                root.display()
            ),
            Self::Few { root, calls } => write!(
                f,
                "{calls} calls were on {}, and DOLMEN_PRELOAD_AFTER={} are handed on before it is connected to",
                root.display(),
                crate::state::settings().after
            ),
            Self::Unreached { root, why } => write!(f, "{}: {why}", root.display()),
            Self::Handed => f.write_str("all calls were of kinds that the mount answers"),
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotItself => f.write_str("the process acts as another user or group than it belongs to"),
            Self::Account(error) => write!(f, "for which job and tenant it works is not known: {error}"),
            Self::Unknown { system } => {
                write!(f, "its system has an address that is not known here: {system}")
            }
            Self::Daemon { system, error } => write!(f, "the daemon at {system} is not reached: {error}"),
            Self::Pool { uid, error } => write!(f, "user {uid} cannot open its pool by himself: {error}"),
            Self::Cont { uid, error } => {
                write!(f, "user {uid} cannot open its container by himself: {error}")
            }
            Self::Files(error) => write!(f, "its files cannot be used: {error}"),
        }
    }
}
