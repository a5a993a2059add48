//! Why the comparison could not be made.

use core::fmt;

/// Every error of this program.
#[derive(Debug)]
pub enum Error {
    /// Dolmen, or its measuring.
    Dolmen(dolmen_bench::Error),
    /// A library refused.
    Peer {
        /// Which.
        name: &'static str,
        /// What it said.
        said: String,
    },
    /// The system refused.
    System(std::io::Error),
    /// A store gave back something else than what was written.
    Wrong {
        /// Which.
        name: &'static str,
        /// The key.
        key: u64,
    },
    /// An argument that this program does not take.
    Argument {
        /// As it was given.
        argument: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path that no C library can take.
    Path(std::ffi::NulError),
}

/// A result of this program.
pub type Result<T> = core::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dolmen(error) => error.fmt(f),
            Self::Peer { name, said } => write!(f, "{name}: {said}"),
            Self::System(error) => error.fmt(f),
            Self::Wrong { name, key } => write!(f, "{name} does not hold what was written under key {key}"),
            Self::Argument { argument, why } => write!(f, "{argument} {why}; --help says what there is"),
            Self::Path(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dolmen(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Path(error) => Some(error),
            Self::Peer { .. } | Self::Wrong { .. } | Self::Argument { .. } => None,
        }
    }
}

impl From<dolmen_bench::Error> for Error {
    fn from(error: dolmen_bench::Error) -> Self {
        Self::Dolmen(error)
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Dolmen(error.into())
    }
}

impl From<std::ffi::NulError> for Error {
    fn from(error: std::ffi::NulError) -> Self {
        Self::Path(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}
