//! The node daemon: one process owns the pools of a system directory, others use them through it.
//!
//! - [`Daemon`] serves a directory at addresses, until it is stopped.
//! - [`Settings`] what it may do.
//!
//! Invariants: a pool is open once, however many use it; it is closed when the daemon ends, and everything acknowledged
//! is then on its devices.

mod daemon;
mod error;
mod pools;
mod settings;

pub use daemon::Daemon;
pub use error::{Error, Result};
pub use settings::Settings;
