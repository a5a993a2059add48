//! Why a daemon cannot run.

use core::fmt;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a daemon cannot run. Each variant is one that a caller acts on differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Another daemon serves the directory.
    Served {
        /// Its process; 0 if it has not said so yet.
        pid: u32,
    },
    /// The directory is not there, or none.
    NoDirectory {
        /// Which.
        path: PathBuf,
    },
    /// The system refused.
    Env(dolmen_env::Error),
    /// Connections cannot be served.
    Net(dolmen_net::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { pid } => write!(f, "process {pid} serves this directory; stop it first"),
            Self::NoDirectory { path } => {
                write!(f, "{} is no directory; make it first", path.display())
            }
            Self::Env(error) => error.fmt(f),
            Self::Net(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Env(error) => Some(error),
            Self::Net(error) => Some(error),
            Self::Served { .. } | Self::NoDirectory { .. } => None,
        }
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Env(error)
    }
}

impl From<dolmen_net::Error> for Error {
    fn from(error: dolmen_net::Error) -> Self {
        Self::Net(error)
    }
}
