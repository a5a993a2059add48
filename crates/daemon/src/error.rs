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
    /// Somebody answers at an address already.
    Answered {
        /// Which.
        address: String,
    },
    /// The directory is not there, or none.
    NoDirectory {
        /// Which.
        path: PathBuf,
    },
    /// A newer version has served the directory, and this one cannot read what it has answered.
    Newer {
        /// Which file says so.
        path: PathBuf,
    },
    /// The key of the system's authority is none, or does not sign.
    NoAuthority,
    /// A certificate cannot name somebody so.
    Unnamed {
        /// How.
        name: String,
    },
    /// The list of the system's engines cannot be used.
    Roster(RosterFault),
    /// The system refused.
    Env(dolmen_env::Error),
    /// Connections cannot be served.
    Net(dolmen_net::Error),
}

/// What is wrong with a list of engines. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RosterFault {
    /// It is no TOML.
    Syntax {
        /// Where.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// It has a key that means nothing.
    Unknown {
        /// Where.
        line: usize,
        /// Which.
        key: String,
        /// Which keys there are.
        known: &'static str,
    },
    /// A key has a value that it cannot have.
    Value {
        /// Where.
        line: usize,
        /// Which.
        key: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// An engine lacks a key.
    Missing {
        /// Where the engine begins.
        line: usize,
        /// Which.
        key: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// It lists no engine, or more than a pool can have.
    Count,
    /// Two engines have the same number.
    Twice {
        /// Where the second one begins.
        line: usize,
        /// Which number.
        rank: u32,
    },
    /// The engine that is asked for is not listed.
    Unlisted {
        /// Which.
        rank: u32,
    },
    /// An address of the engine that is asked for cannot be read, or its host is not found.
    Address {
        /// As it stands there.
        text: String,
    },
}

impl fmt::Display for RosterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, message } => write!(f, "line {line}: {message}"),
            Self::Unknown { line, key, known } => {
                write!(f, "line {line}: {key:?} is unknown; there are {known}")
            }
            Self::Value { line, key, wanted } => write!(f, "line {line}: {key} has to be {wanted}"),
            Self::Missing { line, key, wanted } => {
                write!(f, "line {line}: the engine needs {key}, {wanted}")
            }
            Self::Count => f.write_str("there are 1 to 1024 engines, each a table [[engine]]"),
            Self::Twice { line, rank } => write!(f, "line {line}: rank {rank} is listed twice"),
            Self::Unlisted { rank } => write!(f, "rank {rank} is not listed"),
            Self::Address { text } => write!(f, "{text:?} is no address of this network"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Not every lock says who has it.
            Self::Served { pid: 0 } => f.write_str("another process serves this directory; stop it first"),
            Self::Served { pid } => write!(f, "process {pid} serves this directory; stop it first"),
            Self::Answered { address } => {
                write!(f, "another daemon answers at {address}; stop it, or choose another address or rank")
            }
            Self::NoDirectory { path } if path.exists() => write!(f, "{} is no directory", path.display()),
            Self::NoDirectory { path } => {
                write!(f, "there is no directory {}; make it first", path.display())
            }
            Self::Newer { path } => write!(
                f,
                "a newer version has written {}; serve with that one, or remove the file",
                path.display()
            ),
            Self::NoAuthority => {
                f.write_str("the key of the authority cannot be used; see that ca.key is whole")
            }
            Self::Unnamed { name } => write!(
                f,
                "a certificate cannot name {name:?}; users and groups have 1 to 255 visible characters, none of @ : , / \\ \""
            ),
            Self::Roster(fault) => write!(f, "the list of engines: {fault}"),
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
            Self::Served { .. }
            | Self::Answered { .. }
            | Self::NoDirectory { .. }
            | Self::Newer { .. }
            | Self::NoAuthority
            | Self::Unnamed { .. }
            | Self::Roster(_) => None,
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
