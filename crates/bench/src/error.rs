//! Why a measurement could not be made.

use crate::load::{self, Difference};
use core::fmt;

/// Every error of this crate.
#[derive(Debug)]
pub enum Error {
    /// The store refused, or gave wrong data.
    Store(dolmen_types::Error),
    /// The pool could not be made or opened.
    Pool(dolmen_local::Error),
    /// The file system of the store refused.
    Dfs(dolmen_dfs::Error),
    /// The device or the system refused.
    Device(dolmen_env::Error),
    /// A daemon could not be reached.
    Net(dolmen_net::Error),
    /// A native file operation, a pipe or a child process failed.
    System {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// What was read back is not what was acknowledged.
    Wrong {
        /// The number of the key.
        key: u64,
    },
    /// No process has such a number.
    Process {
        /// The number.
        pid: u32,
    },
    /// A child ended, or said something else, before it had measured.
    Child {
        /// The scenario that it ran.
        scenario: String,
    },
    /// The process that had started this one is gone.
    Orphaned,
    /// No scenario has such a name.
    Scenario {
        /// What was asked for.
        wanted: String,
        /// Which there are.
        names: Vec<&'static str>,
    },
    /// A file holds no rows of results.
    Results {
        /// Which.
        file: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// The plot could not be drawn.
    Plot,
    /// A function of the C interface failed.
    Call {
        /// Which.
        function: String,
        /// What it was to work on; may be empty.
        on: String,
        /// A positive number of the system's or a negative one of DAOS.
        number: i32,
    },
    /// A load has read other data than were written.
    Differs(Box<Difference>),
    /// A system refused what its administrator asked; it has said why.
    Administer {
        /// What was asked.
        words: String,
        /// The exit code that says why.
        code: Option<i32>,
    },
}

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// Names what was being done when the system refused.
    pub(crate) fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the store answered: {error}"),
            Self::Pool(error) => error.fmt(f),
            Self::Dfs(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Net(error) => error.fmt(f),
            Self::System { doing, source } => write!(f, "{doing}: {source}"),
            Self::Wrong { key } => write!(f, "key {key} does not hold what was acknowledged"),
            Self::Process { pid } => write!(f, "no process has the number {pid}"),
            Self::Child { scenario } => {
                write!(f, "the process that ran {scenario} ended early; what it printed is above")
            }
            Self::Orphaned => f.write_str("who has started this process is gone"),
            Self::Scenario { wanted, names } => {
                write!(f, "no scenario is called {wanted}; there are {}", names.join(", "))
            }
            Self::Results { file, source } => write!(f, "{file} holds no results: {source}"),
            Self::Plot => f.write_str("the plot could not be drawn"),
            Self::Call { function, on, number } => load::call_text(f, function, on, *number),
            Self::Differs(difference) => difference.fmt(f),
            Self::Administer { words, .. } => {
                write!(f, "`dolmen dmg {words}` failed; what it printed is above")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Pool(error) => Some(error),
            Self::Dfs(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::Net(error) => Some(error),
            Self::System { source, .. } => Some(source),
            Self::Results { source, .. } => Some(source),
            Self::Wrong { .. }
            | Self::Process { .. }
            | Self::Child { .. }
            | Self::Orphaned
            | Self::Scenario { .. }
            | Self::Plot
            | Self::Call { .. }
            | Self::Differs(_)
            | Self::Administer { .. } => None,
        }
    }
}

impl From<dolmen_types::Error> for Error {
    fn from(error: dolmen_types::Error) -> Self {
        Self::Store(error)
    }
}

impl From<dolmen_local::Error> for Error {
    fn from(error: dolmen_local::Error) -> Self {
        Self::Pool(error)
    }
}

impl From<dolmen_dfs::Error> for Error {
    fn from(error: dolmen_dfs::Error) -> Self {
        Self::Dfs(error)
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Device(error)
    }
}

impl From<dolmen_net::Error> for Error {
    fn from(error: dolmen_net::Error) -> Self {
        Self::Net(error)
    }
}
