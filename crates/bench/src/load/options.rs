//! What a load does, where, and how often.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a load runs, in how many processes, and how often.
#[derive(Clone, Debug)]
pub struct Place {
    /// The system, as the C interface names it; `None` for a daemon of this measurement's own.
    pub system: Option<String>,
    /// A pool of the system; `None` for one that is made and removed.
    pub pool: Option<String>,
    /// A container of the pool; `None` for one that is made and removed.
    pub cont: Option<String>,
    /// The process whose processor time is told as the daemon's, unless it is one's own.
    pub daemon_pid: Option<u32>,
    /// The directory for a pool and a daemon of one's own.
    pub dir: PathBuf,
    /// What a pool of one's own may use.
    pub capacity_bytes: u64,
    /// Targets of a pool of one's own.
    pub targets: u16,
    /// Whether a daemon of one's own is reached over TCP.
    pub over_tcp: bool,
    /// Whether a container of one's own outlives a loss of power, or only the death of a process.
    pub outlives_power: bool,
    /// Processes of the load.
    pub processes: u32,
    /// How often everything is done; medians are told.
    pub rounds: u32,
}

/// What is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Values of objects.
    Object(ObjectLoad),
    /// Large files, as IOR writes and reads them.
    Ior(IorLoad),
    /// Many files and directories, as mdtest makes, looks at and removes them.
    Mdtest(MdtestLoad),
    /// Files of a directory of the system, by its own calls.
    Posix(PosixLoad),
}

impl Load {
    /// The command that runs it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Object(_) => "object",
            Self::Ior(_) => "ior",
            Self::Mdtest(_) => "mdtest",
            Self::Posix(_) => "posix",
        }
    }

    /// Whether it needs a file system in its container.
    pub(super) fn has_files(&self) -> bool {
        match self {
            Self::Object(_) | Self::Posix(_) => false,
            Self::Ior(load) => !load.arrays,
            Self::Mdtest(_) => true,
        }
    }

    /// The class of new objects or files.
    pub(super) fn class(&self) -> Option<&str> {
        match self {
            Self::Object(load) => load.class.as_deref(),
            Self::Ior(load) => load.class.as_deref(),
            Self::Mdtest(load) => load.class.as_deref(),
            Self::Posix(_) => None,
        }
    }

    /// Bytes of a chunk of a new file; 0 for what the container says.
    pub(super) fn chunk_bytes(&self) -> u64 {
        match self {
            Self::Object(_) | Self::Posix(_) => 0,
            Self::Ior(load) => load.chunk_bytes,
            Self::Mdtest(load) => load.chunk_bytes,
        }
    }
}

/// What a key of an object holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// One value that is replaced as a whole.
    Single,
    /// An array of bytes.
    Array,
}

/// Values of one object for each process, each under a dkey of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectLoad {
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Values of each process.
    pub count: u64,
    /// Operations under way on one event queue; with 1 there is no queue, and each call returns when it is done.
    pub in_flight: u16,
    /// What a key holds.
    pub kind: ValueKind,
    /// The object class; `None` for what the container says.
    pub class: Option<String>,
    /// Which phases there are.
    pub update: bool,
    /// As above.
    pub fetch: bool,
    /// Whether what is fetched is compared.
    pub check: bool,
    /// Leave the values.
    pub keep: bool,
    /// What tells the data of one load from those of others.
    pub signature: u64,
}

/// Blocks of one shared file or of a file for each process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IorLoad {
    /// Bytes of a call; a multiple of 8.
    pub transfer_bytes: u64,
    /// Bytes that follow each other for a process; a multiple of the transfer.
    pub block_bytes: u64,
    /// Rows of blocks: a block of each process, then the next block of each.
    pub segments: u64,
    /// A file for each process.
    pub file_per_process: bool,
    /// Phases.
    pub write: bool,
    /// As above.
    pub read: bool,
    /// Read back and compare what was written, in a phase of its own.
    pub check_write: bool,
    /// Compare what is read, within that phase.
    pub check_read: bool,
    /// Read what the next process has written.
    pub reorder: bool,
    /// Transfers in an order that looks random.
    pub random: bool,
    /// Leave the files.
    pub keep: bool,
    /// What tells the data of one load from those of others.
    pub signature: u64,
    /// Arrays of bytes instead of files.
    pub arrays: bool,
    /// Name of the file in the container's root.
    pub file: String,
    /// The object class of files; `None` for what the container says.
    pub class: Option<String>,
    /// Bytes of a chunk of a file; 0 for what the container says.
    pub chunk_bytes: u64,
}

/// Many small files and directories.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MdtestLoad {
    /// Files, and directories, of each process.
    pub count: u64,
    /// Files are made.
    pub files: bool,
    /// Directories are made.
    pub dirs: bool,
    /// A directory for each process, instead of one for all.
    pub unique: bool,
    /// Bytes written to each new file.
    pub write_bytes: u64,
    /// Bytes read of each file.
    pub read_bytes: u64,
    /// Phases.
    pub create: bool,
    /// As above.
    pub stat: bool,
    /// As above.
    pub read: bool,
    /// As above.
    pub remove: bool,
    /// Look at and read what the process so many further on has made.
    pub stride: u32,
    /// Read back and compare each file that was written, within that phase.
    pub check_write: bool,
    /// Compare what is read, within that phase.
    pub check_read: bool,
    /// What tells the data of one load from those of others.
    pub signature: u64,
    /// Name of the directory in the container's root.
    pub dir: String,
    /// The object class of files; `None` for what the container says.
    pub class: Option<String>,
    /// Bytes of a chunk of a file; 0 for what the container says.
    pub chunk_bytes: u64,
}

/// A large file, and many empty ones, of each process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PosixLoad {
    /// The directory that the load has for itself.
    pub dir: PathBuf,
    /// Bytes of the large file, a multiple of the transfer; with 0 there is none.
    pub file_bytes: u64,
    /// Bytes of a call; a multiple of 4096.
    pub transfer_bytes: u64,
    /// Empty files; with 0 there are none.
    pub count: u64,
    /// Blocks of 4096 bytes of the large file that are read at random, each once.
    pub read_count: u64,
}

/// Where a load of files runs, in how many processes, and how often.
#[derive(Clone, Debug)]
pub struct PosixPlace {
    /// The directory that is measured.
    pub dir: PathBuf,
    /// The processes that serve it: their processor time is told.
    pub serving: Vec<u32>,
    /// Processes of the load.
    pub processes: u32,
    /// How often everything is done; medians are told.
    pub rounds: u32,
}

/// What one process of a load is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) rank: u32,
    pub(super) processes: u32,
    pub(super) rounds: u32,
    pub(super) system: Option<String>,
    pub(super) pool: String,
    pub(super) cont: String,
    pub(super) load: Load,
}
