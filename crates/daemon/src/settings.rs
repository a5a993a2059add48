//! What a daemon may do.

use crate::error::{Error, Result};
use core::time::Duration;
use dolmen_codec::wire::RankInfo;
use dolmen_env::Address;
use dolmen_local::{OpenOptions, Upkeep};
use dolmen_net::tls::Certs;
use std::path::PathBuf;

/// What a system is called that nobody has given a name.
pub const UNNAMED: &str = "dolmen";

/// What a daemon may do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory that holds the pools.
    pub dir: PathBuf,
    /// The system's name, at most 127 bytes.
    pub name: String,
    /// The engine's number.
    pub rank: u32,
    /// All engines of the system, if it is not the only one; pools are made at the first.
    pub engines: Vec<RankInfo>,
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// The mode of its Unix sockets, and their group, instead of what the mask and the process say: who may connect.
    pub open_to: Option<(u32, Option<u32>)>,
    /// Certificates for the addresses of the network: without, whoever connects there is believed.
    pub certs: Option<Certs>,
    /// Threads that serve connections; 0 takes one for every two processors.
    pub threads: usize,
    /// Ends after so long without a connection.
    pub idle_end: Option<Duration>,
    /// Resident memory of each pool for metadata, in bytes; `None` takes the pool's.
    pub memory_budget_bytes: Option<u64>,
    /// At rest, pools free what was overwritten, punched or removed longer ago than this, unless a snapshot shows it;
    /// `None` frees nothing until somebody asks, or room is needed.
    pub keep_past: Option<Duration>,
}

impl Settings {
    /// A daemon for the pools in `dir`, reached by the socket [`Settings::SOCKET_NAME`] in it.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        let socket = Address::Unix(dir.join(Self::SOCKET_NAME));
        Self {
            dir,
            name: UNNAMED.to_owned(),
            rank: 0,
            engines: Vec::new(),
            addresses: vec![socket],
            open_to: None,
            certs: None,
            threads: 0,
            idle_end: None,
            memory_budget_bytes: None,
            keep_past: Some(Self::KEEP_PAST_DEFAULT),
        }
    }

    /// The socket of a daemon in the directory that it serves, unless it is told otherwise.
    pub const SOCKET_NAME: &str = dolmen_net::client::reach::SOCKET_NAME;

    /// The socket in the directory, or what leads to it.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join(Self::SOCKET_NAME)
    }

    /// Whether there is a directory to serve.
    ///
    /// # Errors
    /// `NoDirectory`.
    pub fn check_dir(&self) -> Result<()> {
        if self.dir.is_dir() { Ok(()) } else { Err(Error::NoDirectory { path: self.dir.clone() }) }
    }

    /// How much of the past stays readable without a snapshot: more than a transaction ought to take.
    pub const KEEP_PAST_DEFAULT: Duration = Duration::from_secs(10);

    /// How its pools are opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions {
            memory_budget_bytes: self.memory_budget_bytes,
            upkeep: Upkeep::Thread,
            keep_past: self.keep_past,
            rank: self.rank,
            ..OpenOptions::default()
        }
    }

    /// Threads that serve connections on this machine.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => (dolmen_env::cpu_count() / 2).clamp(1, THREADS_MAX),
            given => given,
        }
    }
}

/// More do not help: what they do between client and target takes less than a target's work.
const THREADS_MAX: usize = 8;
