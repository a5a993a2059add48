//! Why a pool's directory cannot be made, opened or removed.

use core::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with a pool's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// It is not there: the directory is no pool, or its removal was cut short.
    Missing,
    /// Its checksum or its contents are wrong.
    Damaged,
    /// A newer program wrote it.
    TooNew {
        /// Its format version.
        format: u32,
    },
    /// It belongs to another pool.
    Foreign,
}

/// Every error of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The directory or device refused; a pool in use names its owner's pid.
    Device(dolmen_env::Error),
    /// A target or the pool's service refused.
    Store(dolmen_types::Error),
    /// The pool's record.
    Record {
        /// Where.
        dir: PathBuf,
        /// What is wrong.
        fault: RecordFault,
    },
    /// The directory of a target, or what says that it is one, is not there.
    MissingTarget {
        /// Where it has to be.
        dir: PathBuf,
    },
    /// The directory of a target holds another one: of another pool, or of another number.
    ForeignTarget {
        /// Where.
        dir: PathBuf,
    },
    /// The directory of a target, or of its bulk data, is a copy from another time than the pool's record.
    OtherLife {
        /// Where.
        dir: PathBuf,
        /// How often the pool had been opened and closed when it was last part of it.
        life: u64,
        /// And how often according to the pool's record.
        pool: u64,
    },
    /// The directory for bulk data belongs to another directory with this pool: one of them is a copy.
    OtherPlace {
        /// The pool's directory.
        dir: PathBuf,
        /// That for bulk data.
        bulk: PathBuf,
        /// The one that it belongs to.
        place: PathBuf,
    },
    /// Another pool of the system has the label.
    LabelTaken {
        /// The other pool.
        dir: PathBuf,
    },
    /// Another pool of the system has the UUID.
    UuidTaken {
        /// The other pool.
        dir: PathBuf,
    },
    /// The directory is a pool already.
    IsPool {
        /// Which.
        dir: PathBuf,
    },
    /// The directory above the one to be made is not there.
    NoParent {
        /// Which.
        dir: PathBuf,
    },
    /// What has the name is no directory, or none can be made there.
    NoDirectory {
        /// Which.
        path: PathBuf,
    },
    /// The device has not the room that the targets take at once.
    NoRoom {
        /// How many.
        targets: u16,
        /// What they take at least.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// The pool is to have more than its devices have, full or not.
    TooLarge {
        /// What it is to have.
        capacity_bytes: u64,
        /// What they have.
        device_bytes: u64,
    },
    /// The directory lies inside a pool.
    Inside {
        /// The directory.
        dir: PathBuf,
        /// The pool around it.
        pool: PathBuf,
    },
    /// The directory for bulk data is the pool's own.
    OwnBulk {
        /// Which.
        dir: PathBuf,
    },
    /// The pool has targets at other engines: their daemons open it together.
    Spread {
        /// The directory of this one's part.
        dir: PathBuf,
    },
    /// Something that is not the pool's lies in its directory.
    Foreign {
        /// What, by path.
        entries: Vec<PathBuf>,
    },
    /// The file system is in memory, and the pool does not say that it may be lost with the power.
    Volatile {
        /// The directory on it.
        dir: PathBuf,
    },
    /// An option is outside the range that it has beside the others.
    Option {
        /// The field's name.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// The least that is allowed.
        low: u64,
        /// And the most.
        high: u64,
    },
    /// Opening a target panicked, which is a defect of this program; the pool is as it was on disk.
    Panicked {
        /// The target.
        target: u16,
    },
}

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// The pid of the process that owns the pool, if that is why it cannot be opened.
    #[must_use]
    pub fn owner_pid(&self) -> Option<u32> {
        match self {
            Self::Device(dolmen_env::Error::Owned { pid }) => Some(*pid),
            _ => None,
        }
    }
}

impl RecordFault {
    fn say(self, dir: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = dir.display();
        match self {
            Self::Missing => write!(f, "{dir} is not a pool"),
            Self::Damaged => write!(f, "the pool record in {dir} is damaged; restore it from a copy"),
            Self::TooNew { format } => {
                write!(f, "the pool in {dir} has format {format}; open it with a newer version")
            }
            Self::Foreign => write!(f, "{dir} belongs to another pool"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Record { dir, fault } => fault.say(dir, f),
            Self::MissingTarget { dir } => write!(
                f,
                "{} has no target; put it back, or restore the whole pool from one copy",
                dir.display()
            ),
            Self::ForeignTarget { dir } => write!(
                f,
                "{} holds another target than this pool's; restore the whole pool from one copy, or destroy it",
                dir.display()
            ),
            Self::OtherLife { dir, life, pool } => write!(
                f,
                "{} is as it was after {life} openings and closings of the pool, the pool's record as after {pool}: \
                 what was written in between would be lost; put back the directory that belongs to the record, or \
                 restore the whole pool from one copy",
                dir.display()
            ),
            Self::OtherPlace { dir, bulk, place } => write!(
                f,
                "the bulk data in {} belongs to the pool in {}, and {} is a copy of that",
                bulk.display(),
                place.display(),
                dir.display()
            ),
            Self::LabelTaken { dir } => write!(f, "the pool in {} has this label", dir.display()),
            Self::UuidTaken { dir } => write!(f, "the pool in {} has this UUID", dir.display()),
            Self::IsPool { dir } => write!(f, "{} is a pool already", dir.display()),
            Self::NoParent { dir } => write!(f, "there is no directory {}", dir.display()),
            Self::NoDirectory { path } if path.exists() => write!(f, "{} is no directory", path.display()),
            Self::NoDirectory { path } => {
                write!(f, "the file system lets nobody make the directory {}", path.display())
            }
            Self::NoRoom { targets, needed_bytes, free_bytes } => {
                write!(f, "{targets} targets take {needed_bytes} bytes at once, and {free_bytes} are free")
            }
            Self::TooLarge { capacity_bytes, device_bytes } => {
                write!(f, "it is to have {capacity_bytes} bytes, and its devices have {device_bytes}")
            }
            Self::Inside { dir, pool } => {
                write!(f, "{} lies inside the pool in {}", dir.display(), pool.display())
            }
            Self::OwnBulk { dir } => {
                write!(f, "{} is the pool's own directory, and has bulk data anyway", dir.display())
            }
            Self::Spread { dir } => write!(
                f,
                "{} is one part of a pool on several engines; their daemons open it together",
                dir.display()
            ),
            Self::Foreign { entries } => write!(f, "this does not belong to the pool: {}", listed(entries)),
            Self::Volatile { dir } => {
                write!(
                    f,
                    "{} is in memory and lost with the power; say that the pool is volatile",
                    dir.display()
                )
            }
            Self::Option { name, value, low, high } => {
                write!(f, "{name} is {value}, and has to be from {low} to {high}")
            }
            Self::Panicked { target } => write!(f, "target {target} could not be opened because of a defect"),
        }
    }
}

fn listed(entries: &[PathBuf]) -> String {
    let names: Vec<String> = entries.iter().map(|entry| entry.display().to_string()).collect();
    names.join(", ")
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Device(error)
    }
}

impl From<dolmen_types::Error> for Error {
    fn from(error: dolmen_types::Error) -> Self {
        Self::Store(error)
    }
}
