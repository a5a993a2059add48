//! Why a connection cannot be made or kept.

use core::fmt;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a connection cannot be made or kept. Each variant is one that a caller acts on differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The system refused.
    Env(dolmen_env::Error),
    /// The other end is gone.
    Ended,
    /// The other end has sent what no honest one does.
    Protocol(Violation),
    /// The other end does not answer in time.
    TimedOut,
    /// The other end refused.
    Refused(dolmen_types::Error),
    /// The other end takes no connection.
    Unwelcome(dolmen_codec::wire::Refusal),
    /// A system of this name is served from this directory, where nobody is.
    Nobody {
        /// The name.
        name: String,
        /// The directory.
        dir: PathBuf,
    },
}

/// What a peer has done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Indices of the shared memory that cannot be.
    Ring,
    /// A frame that cannot be read.
    Frame,
    /// A version that this program does not speak.
    Version,
    /// An answer to nothing that was asked, or of another kind.
    Answer,
    /// More than a connection may have under way.
    Limit,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "it has written indices of the shared memory that cannot be",
            Self::Frame => "it has sent a frame that cannot be read",
            Self::Version => "it speaks another version of the protocol; use programs of the same release",
            Self::Answer => "it has answered what was not asked",
            Self::Limit => "it has more under way than a connection may have",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(error) => error.fmt(f),
            Self::Ended => f.write_str("the other end of the connection is gone"),
            Self::Protocol(violation) => write!(f, "the other end breaks the protocol: {violation}"),
            Self::TimedOut => f.write_str("the other end does not answer in time"),
            Self::Refused(error) => error.fmt(f),
            Self::Nobody { name, dir } => {
                let dir = dir.display();
                write!(
                    f,
                    "system {name} is served from {dir}, and nobody is there: start `dolmen serve {dir} --name {name}`"
                )
            }
            Self::Unwelcome(refusal) => write!(f, "the other end refuses the connection: {refusal}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Env(error) => Some(error),
            Self::Refused(error) => Some(error),
            Self::Ended | Self::Protocol(_) | Self::TimedOut | Self::Unwelcome(_) | Self::Nobody { .. } => {
                None
            }
        }
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Env(error)
    }
}

impl From<crate::ring::Broken> for Error {
    fn from(_: crate::ring::Broken) -> Self {
        Self::Protocol(Violation::Ring)
    }
}
