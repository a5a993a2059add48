//! The node daemon: one process owns the pools of a system directory, others use them through it.
//!
//! - [`Daemon`] serves a directory at addresses, until it is stopped.
//! - [`Authority`] the certificates of a system.
//! - [`Settings`] what it may do; [`Roster`] the engines of a system of several.
//!
//! Invariants: a pool is open once, however many use it; it is closed when the daemon ends, and everything acknowledged
//! is then on its devices.

mod access;
mod answered;
mod certs;
mod daemon;
mod error;
mod evicted;
mod files;
mod kept;
mod lease;
mod leased;
mod locked;
mod notes;
mod peers;
mod pools;
mod roster;
mod settings;

pub use certs::{Authority, Issued};
pub use daemon::Daemon;
pub use error::{Error, Result, RosterFault};
pub use locked::may_have_locks;
pub use roster::Roster;
pub use settings::{Settings, UNNAMED};
