//! Every error of this door, and the exception of `dolmen.errors` that it becomes.

use crate::tx::Became;
use core::fmt;
use dolmen_types::Error as Store;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::{Py, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::sync::PyOnceLock;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of what this door does for Python.
pub(crate) type Result<T> = core::result::Result<T, Error>;

/// Why an operation failed. Each variant is one that says in other words what to do.
#[derive(Debug)]
pub(crate) enum Error {
    /// A pool, container or object refused.
    Store(Store),
    /// The files of a container refused.
    Files(dolmen_dfs::Error),
    /// The directory of a pool refused.
    Local(dolmen_local::Error),
    /// A system cannot be reached.
    Net(dolmen_net::Error),
    /// An ntuple refused, or what it is in.
    Ntuple(Box<dolmen_rntuple::Error>),
    /// A text is none of a trace.
    Trace(dolmen_rntuple::NoTrace),
    /// An object store cannot be opened.
    Remote(dolmen_remote::Error),
    /// The machine refused.
    Env(dolmen_env::Error),
    /// The text names no pool.
    Address(Named),
    /// There is no such pool in a system.
    NoPool(Named),
    /// Several pools of a directory have the name.
    SeveralPools {
        /// Their directories.
        dirs: Vec<PathBuf>,
    },
    /// The handle was closed.
    Closed,
    /// What is named, which the handle is on or was opened from, was closed.
    WasClosed(Arc<str>),
    /// Nothing can be changed here.
    Still(Still),
    /// What is to be closed is worked on by the thread that closes it.
    UnderWay,
    /// The transaction was ended before.
    Over(Became),
    /// The same in words of who knows what it is about.
    About {
        /// What was refused.
        error: Box<Error>,
        /// The words.
        words: String,
    },
    /// The handle is one of the process that this one was forked from.
    Forked {
        /// That process.
        pid: u32,
    },
    /// An argument that can never do.
    Argument(Wrong),
    /// An argument that can never do, in words.
    Told(Named),
    /// Values for other entries than there are.
    Entries {
        /// How many were given.
        given: u64,
        /// For how many values are needed.
        needed: u64,
    },
    /// What Python has raised while something ran.
    Raised(Box<PyErr>),
}

/// What is told of [`Error::UnderWay`].
const UNDER_WAY: &str = "an operation that this thread has under way needs it: close it when that has ended (an exception ends it)";

/// What a caller has named a pool by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named(pub(crate) String);

/// Why nothing can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Still {
    /// It is a view of an epoch.
    View(u64),
    /// The pool was opened to read.
    Pool,
}

/// What is wrong with an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Records,
    Length,
    Memory,
    OpenToRead,
    RecordType,
    RecordShape,
    SameFile,
    OtherRecords,
    Index,
    Step,
    Copy,
    Seconds,
    EmptyKey,
    KeyNumber,
    Chunk,
    Targets,
    Durability,
    Keys,
    Mode,
    OidText,
    ObjectClass,
    Attempts,
    NoNtuple,
    SeveralNtuples,
    NoTree,
    SeveralTrees,
    Field,
    Medium,
    Host,
    Comparison,
    Version,
    Compression,
    PageBytes,
    Precision,
    StorageOptionsOfPath,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Records => "the data are no whole number of records",
            Self::Length => "so many records do not fit into memory",
            Self::Memory => "there is no memory for so much at once: read parts of it",
            Self::OpenToRead => {
                "this process has the pool open to read; close that before it is to be changed"
            }
            Self::RecordType => "records of this type cannot be stored: they have no fixed size in bytes",
            Self::RecordShape => {
                "records of a shape of their own are not stored: take a type with one field of that shape, or as many records"
            }
            Self::SameFile => "a file is not copied to itself",
            Self::OtherRecords => {
                "the place has records of another type than the array: numpy.empty(count, array.dtype) is one for it"
            }
            Self::Index => "the array is too long for an index",
            Self::Step => "records are written one behind the other: a slice without a step",
            Self::Copy => "records of a pool cannot be had without a copy",
            Self::Seconds => "a time is a number of seconds from 0 on",
            Self::EmptyKey => "a key has at least one byte",
            Self::KeyNumber => "a key that is a number is one from 0 to 2**64 - 1",
            Self::Chunk => "chunk is a number of records from 1 on, or None",
            Self::Targets => "targets is a whole number from 1 to 1024, or None for one a processor",
            Self::Durability => "durability is `power` or `process`",
            Self::Keys => "keys are `hashed`, `lexical` or `integer`",
            Self::Mode => "a file is opened with one of r, w, x and a, and b, t and +",
            Self::OidText => "an object id is written HI.LO, two decimal numbers",
            Self::ObjectClass => {
                "there is no object class of this name: S1, S2, S4, SX and their like are classes"
            }
            Self::Attempts => "a transaction is attempted once at least",
            Self::NoNtuple => "the file has no ntuple",
            Self::SeveralNtuples => "there are several ntuples: one of their names is needed",
            Self::NoTree => "the file has no tree",
            Self::SeveralTrees => "there are several trees: one of their names is needed",
            Self::Field => "there is no field of this number",
            Self::Medium => "a latency is a number of seconds from 0 on, a bandwidth one of bytes above 0",
            Self::Host => "the host is to be an address, as 127.0.0.1",
            Self::Comparison => "comparisons are < <= == != >= >",
            Self::Version => "a version is told by its number, a tag or a time: one of them",
            Self::Compression => "there is no such compression",
            Self::Precision => {
                "floats are kept as real32, real16, trunc:BITS (10 to 31) or quant:BITS:LOW:HIGH (1 to 32)"
            }
            Self::StorageOptionsOfPath => "storage options are for addresses that begin with s3://",
            Self::PageBytes => "pages and clusters have a byte at least",
        })
    }
}

impl fmt::Display for Still {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View(epoch) => write!(
                f,
                "a view of a past state (epoch {epoch}) is not changed: change what `Pool.container` opens"
            ),
            Self::Pool => {
                f.write_str("the pool was opened with read_only=True: open it without that to change it")
            }
        }
    }
}

impl From<Store> for Error {
    fn from(error: Store) -> Self {
        Self::Store(error)
    }
}

impl From<dolmen_types::Invalid> for Error {
    fn from(what: dolmen_types::Invalid) -> Self {
        Self::Store(what.into())
    }
}

impl From<dolmen_dfs::Error> for Error {
    fn from(error: dolmen_dfs::Error) -> Self {
        match error {
            dolmen_dfs::Error::Store(error) => Self::Store(*error),
            other => Self::Files(other),
        }
    }
}

impl From<dolmen_local::Error> for Error {
    fn from(error: dolmen_local::Error) -> Self {
        match error {
            dolmen_local::Error::Store(error) => Self::Store(error),
            other => Self::Local(other),
        }
    }
}

impl From<dolmen_net::Error> for Error {
    fn from(error: dolmen_net::Error) -> Self {
        match error {
            dolmen_net::Error::Refused(error) => Self::Store(error),
            other => Self::Net(other),
        }
    }
}

impl From<dolmen_rntuple::Error> for Error {
    fn from(error: dolmen_rntuple::Error) -> Self {
        match error {
            dolmen_rntuple::Error::Store { source } => Self::Store(source),
            other => Self::Ntuple(Box::new(other)),
        }
    }
}

impl From<dolmen_remote::Error> for Error {
    fn from(error: dolmen_remote::Error) -> Self {
        match error {
            dolmen_remote::Error::Bucket(source) => dolmen_rntuple::Error::from(source).into(),
            other => Self::Remote(other),
        }
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Env(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Files(error) => error.fmt(f),
            Self::Local(error) => match error.owner_pid() {
                Some(pid) if pid == std::process::id() => {
                    f.write_str("this process has the pool open: close what has it open first")
                }
                Some(pid) => write!(
                    f,
                    "process {pid} has the pool: end it, or reach the pool through its daemon (unix:SOCKET/LABEL)"
                ),
                None => error.fmt(f),
            },
            Self::Net(error) => error.fmt(f),
            Self::Env(error) => error.fmt(f),
            Self::Trace(error) => error.fmt(f),
            Self::Remote(error) => match core::error::Error::source(error) {
                Some(cause) => write!(f, "{error}: {cause}"),
                None => error.fmt(f),
            },
            Self::Ntuple(error) => {
                match core::error::Error::source(&**error) {
                    Some(cause) => write!(f, "{error}: {cause}")?,
                    None => error.fmt(f)?,
                }
                if matches!(**error, dolmen_rntuple::Error::BadPage { .. }) {
                    f.write_str("; `scrub` of the stored ntuple tells all that is damaged, and puts it right with `repair_from`")?;
                }
                if let dolmen_rntuple::Error::OtherFields(fields) = &**error {
                    write_remedies(f, fields)?;
                }
                Ok(())
            }
            Self::Address(Named(text)) => write!(
                f,
                "{text:?} names no pool: write file:DIRECTORY, file:SYSTEM/LABEL, unix:SOCKET/LABEL or tcp://HOST:PORT/LABEL"
            ),
            Self::NoPool(Named(text)) => {
                write!(
                    f,
                    "there is no pool {text}: `list_pools` tells which there are, `create_pool` makes one"
                )
            }
            Self::SeveralPools { dirs } => {
                write!(f, "several pools have this name; give the directory of one:")?;
                dirs.iter().try_for_each(|dir| write!(f, " {}", dir.display()))
            }
            Self::Closed => f.write_str("it was closed"),
            Self::WasClosed(what) => write!(f, "{what} was closed: open it again"),
            Self::Still(why) => why.fmt(f),
            Self::UnderWay => f.write_str(UNDER_WAY),
            Self::Over(became) => became.fmt(f),
            Self::About { words, .. } => f.write_str(words),
            Self::Forked { pid } => {
                write!(
                    f,
                    "it was opened by process {pid}, from which this one was forked: open it here again"
                )
            }
            Self::Argument(what) => what.fmt(f),
            Self::Told(Named(what)) => f.write_str(what),
            Self::Entries { given, needed } => {
                write!(
                    f,
                    "a value is needed for each of the {needed} entries that there are, {given} are given"
                )
            }
            Self::Raised(error) => error.fmt(f),
        }
    }
}

/// The arguments with which fields that differ are no error.
fn write_remedies(f: &mut fmt::Formatter<'_>, fields: &dolmen_rntuple::OtherFields) -> fmt::Result {
    if fields.are_all || !fields.others.is_empty() {
        return Ok(());
    }
    if !fields.missing.is_empty() {
        f.write_str("; `fill` gives what is missing a value")?;
    }
    if !fields.more.is_empty() {
        f.write_str("; `leave_out` leaves out what the ntuple has not")?;
    }
    Ok(())
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Files(error) => Some(error),
            Self::Local(error) => Some(error),
            Self::Net(error) => Some(error),
            Self::Env(error) => Some(error),
            Self::Trace(error) => Some(error),
            Self::Ntuple(error) => Some(&**error),
            Self::Remote(error) => Some(error),
            Self::About { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// DAOS's numbers of what has no number in the store.
//= daos:src/include/daos_errno.h DER_*
mod der {
    pub(super) const NO_PERM: i32 = -1001;
    pub(super) const NO_HDL: i32 = -1002;
    pub(super) const INVAL: i32 = -1003;
    pub(super) const EXIST: i32 = -1004;
    pub(super) const NONEXIST: i32 = -1005;
    pub(super) const UNREACH: i32 = -1006;
    pub(super) const NOSPACE: i32 = -1007;
    pub(super) const TIMEDOUT: i32 = -1011;
    pub(super) const BUSY: i32 = -1012;
    pub(super) const PROTO: i32 = -1014;
    pub(super) const NOTDIR: i32 = -1027;
    pub(super) const MISC: i32 = -1025;
    pub(super) const IO: i32 = -2001;
    pub(super) const STALE: i32 = -2007;
    pub(super) const DF_INVAL: i32 = -2022;
    pub(super) const DF_INCOMPT: i32 = -2023;
    pub(super) const TX_UNCERTAIN: i32 = -2033;
    pub(super) const NOTSUPPORTED: i32 = -2037;
    pub(super) const NO_CERT: i32 = -2043;
    pub(super) const BAD_CERT: i32 = -2044;
}

/// The name of an exception in `dolmen.errors`, and its number.
type Kind = (&'static str, i32);

impl Error {
    /// The same in these words.
    pub(crate) fn about(self, words: impl Into<String>) -> Self {
        Self::About { error: Box::new(self), words: words.into() }
    }

    /// In these words if there is none of what was asked for.
    pub(crate) fn missing(self, words: impl FnOnce() -> String) -> Self {
        match self {
            Self::Store(Store::NotFound | Store::NoContainer) => self.about(words()),
            other => other,
        }
    }

    /// In these words if there is one already.
    pub(crate) fn taken(self, words: impl FnOnce() -> String) -> Self {
        match self {
            Self::Store(Store::Exists) => self.about(words()),
            other => other,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => (of_store(error), error.der()),
            Self::Files(error) => of_files(error),
            Self::Local(error) => of_local(error),
            Self::Net(error) => of_net(error),
            Self::Env(error) => of_env(error),
            Self::Ntuple(error) => of_ntuple(error),
            Self::Remote(error) => of_remote(error),
            Self::Address(_)
            | Self::SeveralPools { .. }
            | Self::Argument(_)
            | Self::Trace(_)
            | Self::Told(_)
            | Self::Over(_)
            | Self::Entries { .. } => ("Invalid", der::INVAL),
            Self::Raised(_) => ("Error", der::MISC),
            Self::NoPool(_) => ("NotFound", der::NONEXIST),
            Self::Closed | Self::WasClosed(_) => ("Closed", der::NO_HDL),
            Self::Still(_) => ("ReadOnly", der::NO_PERM),
            Self::UnderWay => ("Busy", der::BUSY),
            Self::About { error, .. } => error.kind(),
            Self::Forked { .. } => ("Forked", der::NO_HDL),
        }
    }
}

fn of_store(error: &Store) -> &'static str {
    match error {
        Store::Invalid(_)
        | Store::RecTooBig { .. }
        | Store::KeyTooBig { .. }
        | Store::RecordSize { .. }
        | Store::HashCollision => "Invalid",
        Store::NotFound | Store::NoContainer => "NotFound",
        Store::Exists => "Exists",
        Store::TxRestart { .. } => "Conflict",
        Store::InDoubt { .. } => "InDoubt",
        Store::NoSpace { .. } => "NoSpace",
        Store::QuotaLimit => "QuotaLimit",
        Store::Corrupt { .. } => "Corrupt",
        Store::Io { .. } => "Io",
        Store::ReadOnly { .. } => "ReadOnly",
        Store::EpochGone { .. } | Store::StaleMap { .. } | Store::NoHandle => "Stale",
        Store::Busy => "Busy",
        Store::TimedOut => "Timeout",
        Store::Canceled => "Canceled",
        Store::NoPermission => "Permission",
        Store::NotEmpty => "NotEmpty",
        Store::NotDirectory => "NotDirectory",
        Store::IsDirectory => "IsDirectory",
        Store::Unreachable { .. } => "Unreachable",
    }
}

fn of_files(error: &dolmen_dfs::Error) -> Kind {
    use dolmen_dfs::Error as E;
    match error {
        E::NotFound | E::NoAttribute | E::NoSuchOffset | E::NotFormatted => ("NotFound", der::NONEXIST),
        E::Exists => ("Exists", der::EXIST),
        E::NotDirectory => ("NotDirectory", der::NOTDIR),
        E::IsDirectory => ("IsDirectory", der::INVAL),
        E::NotEmpty => ("NotEmpty", der::BUSY),
        E::NoPermission | E::NotPermitted => ("Permission", der::NO_PERM),
        E::ReadOnly => ("ReadOnly", der::NO_PERM),
        E::Stale => ("Stale", der::STALE),
        E::Contended => ("Busy", der::BUSY),
        E::Superblock(_) => ("Corrupt", der::DF_INCOMPT),
        E::BadRecord { .. } => ("Corrupt", der::DF_INVAL),
        E::Store(error) => (of_store(error), error.der()),
        E::Local { .. } | E::Changed { .. } => ("Io", der::IO),
        E::InTree { source, .. } => of_files(source),
        E::NotSupported => ("Invalid", der::NOTSUPPORTED),
        E::Canceled => ("Canceled", Store::Canceled.der()),
        E::Worker => ("Error", der::MISC),
        _ => ("Invalid", der::INVAL),
    }
}

fn of_local(error: &dolmen_local::Error) -> Kind {
    use dolmen_local::Error as E;
    use dolmen_local::RecordFault;
    match error {
        E::Device(error) => of_env(error),
        E::Store(error) => (of_store(error), error.der()),
        E::Record { fault: RecordFault::Missing, .. } | E::NoParent { .. } | E::NoDirectory { .. } => {
            ("NotFound", der::NONEXIST)
        }
        E::Record { fault: RecordFault::TooNew { .. }, .. } => ("Corrupt", der::DF_INCOMPT),
        E::Record { .. }
        | E::MissingTarget { .. }
        | E::ForeignTarget { .. }
        | E::OtherLife { .. }
        | E::OtherPlace { .. } => ("Corrupt", der::DF_INVAL),
        E::LabelTaken { .. } | E::UuidTaken { .. } | E::IsPool { .. } => ("Exists", der::EXIST),
        E::NoRoom { .. } | E::TooLarge { .. } => ("NoSpace", der::NOSPACE),
        E::Foreign { .. } => ("NotEmpty", der::BUSY),
        E::Panicked { .. } => ("Error", der::MISC),
        E::Inside { .. } | E::OwnBulk { .. } | E::Spread { .. } | E::Volatile { .. } | E::Option { .. } => {
            ("Invalid", der::INVAL)
        }
    }
}

fn of_net(error: &dolmen_net::Error) -> Kind {
    use dolmen_net::Error as E;
    match error {
        E::Env(error) => match of_env(error) {
            // An address that leads nowhere.
            ("Io" | "NotFound", _) => ("Unreachable", der::UNREACH),
            other => other,
        },
        E::Ended | E::Nobody { .. } | E::MachineNobody { .. } => ("Unreachable", der::UNREACH),
        E::Unknown { .. } => ("NotFound", der::NONEXIST),
        E::TimedOut => ("Timeout", der::TIMEDOUT),
        E::Refused(error) => (of_store(error), error.der()),
        E::Protocol(_) | E::Unwelcome(_) => ("Unreachable", der::PROTO),
        E::NoCertificate(_) => ("Permission", der::NO_CERT),
        E::BadCertificate { .. } => ("Permission", der::BAD_CERT),
    }
}

fn of_ntuple(error: &dolmen_rntuple::Error) -> Kind {
    use dolmen_rntuple::Error as E;
    use std::io::ErrorKind;
    match error {
        E::Corrupt { .. } => ("Corrupt", der::DF_INVAL),
        E::Unsupported { .. } | E::BranchRefused { .. } => ("Invalid", der::NOTSUPPORTED),
        E::NoNtuple { .. } | E::NoTree { .. } | E::NoField { .. } | E::NoVersion { .. } => {
            ("NotFound", der::NONEXIST)
        }
        E::Exists { .. } | E::NoFit { fit: dolmen_rntuple::Fit::Twice, .. } => ("Exists", der::EXIST),
        E::Tagged { .. } => ("Busy", der::BUSY),
        E::OtherSchema | E::Behind { .. } | E::Changed { .. } | E::Contended { .. } => {
            ("Conflict", der::BUSY)
        }
        E::Slow { .. } => ("Timeout", der::TIMEDOUT),
        E::Expired | E::Lost | E::WentBack | E::Freed { .. } => ("Stale", der::STALE),
        E::Stopped => ("Canceled", Store::Canceled.der()),
        E::Store { source } => (of_store(source), source.der()),
        E::BadPage { source, .. } => of_ntuple(source),
        E::Bucket { source } => of_bucket(source.failure),
        E::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => ("NotFound", der::NONEXIST),
            ErrorKind::PermissionDenied => ("Permission", der::NO_PERM),
            ErrorKind::AlreadyExists => ("Exists", der::EXIST),
            ErrorKind::IsADirectory => ("IsDirectory", der::INVAL),
            ErrorKind::StorageFull => ("NoSpace", der::NOSPACE),
            _ => ("Io", der::IO),
        },
        _ => ("Invalid", der::INVAL),
    }
}

fn of_bucket(failure: dolmen_rntuple::bucket::Failure) -> Kind {
    use dolmen_rntuple::bucket::Failure as F;
    match failure {
        F::Unreachable => ("Unreachable", der::UNREACH),
        F::Denied => ("Permission", der::NO_PERM),
        F::NoBucket => ("NotFound", der::NONEXIST),
        F::Invalid | F::Refused => ("Invalid", der::INVAL),
        F::Other => ("Io", der::IO),
        F::Stopped => ("Canceled", Store::Canceled.der()),
        F::Doubtful => ("InDoubt", der::TX_UNCERTAIN),
    }
}

fn of_remote(error: &dolmen_remote::Error) -> Kind {
    use dolmen_remote::Error as E;
    match error {
        E::Bucket(source) => of_bucket(source.failure),
        E::NoObject { .. } => ("NotFound", der::NONEXIST),
        E::Address { .. }
        | E::Scheme { .. }
        | E::WithinStore { .. }
        | E::AtObject { .. }
        | E::AroundStore { .. }
        | E::Endpoint { .. } => ("Invalid", der::INVAL),
        E::NoKeys => ("Permission", der::NO_PERM),
        E::Certificates { .. } => ("Permission", der::BAD_CERT),
        E::Start { .. } => ("Error", der::MISC),
    }
}

fn of_env(error: &dolmen_env::Error) -> Kind {
    use dolmen_env::{Errno, Error as E};
    match error {
        E::NoSpace { .. } => ("NoSpace", der::NOSPACE),
        E::NotFound { .. } => ("NotFound", der::NONEXIST),
        E::Exists { .. } => ("Exists", der::EXIST),
        E::Owned { .. } => ("Busy", der::BUSY),
        E::BadName { .. } | E::Setting { .. } => ("Invalid", der::INVAL),
        E::Io { errno: Errno::ACCESS | Errno::PERM, .. } => ("Permission", der::NO_PERM),
        _ => ("Io", der::IO),
    }
}

/// `dolmen.errors._make`, which makes an exception of name, number, text and the pid of an owner.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Raised(error) => *error,
            error => Python::attach(|py| made(py, &error).unwrap_or_else(|other| other)),
        }
    }
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let make =
        MAKE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("dolmen.errors")?.getattr("_make")?.unbind()))?;
    let (name, number) = error.kind();
    let owner = match error {
        Error::Local(error) => error.owner_pid(),
        _ => None,
    };
    let exception = make.bind(py).call1((name, number, error.to_string(), owner))?;
    Ok(PyErr::from_value(exception))
}

/// What is told of an argument of a wrong type.
pub(crate) fn of_type(what: &'static str) -> PyErr {
    pyo3::exceptions::PyTypeError::new_err(what)
}

/// Of a state that this module cannot have.
pub(crate) fn defect(what: &'static str) -> PyErr {
    PyRuntimeError::new_err(what)
}
