//! A container of files as a directory of the system: the door through the kernel (FUSE).
//!
//! [`Fs`] answers the kernel's requests out of a mounted [`Dfs`](dolmen_dfs::Dfs); [`Session`] reads them from the device and
//! serves them in threads. The protocol is our own reading of it ([`request`]): no library is between.
//!
//! # Who may do what
//! The kernel checks permissions (`default_permissions`), with all groups and capabilities of the caller, by attributes that
//! are at most as old as [`Options::timeout`]. What is made belongs to who made it.
//!
//! # What is remembered
//! See [`Caching`]. Nothing is kept back here: what was written is stored when the write returns, and `fsync` only has the
//! time of the change recorded.
//!
//! Where the store gives leases ([`Options::leases`]) it is remembered as long as they hold and no longer: the kernel hears of what
//! others change before they have changed it ([`Session::drop_void`]).
//!
//! # Waiting
//! Each request waits in a thread for the store. When all but one thread wait, that one keeps what comes, and hears interrupts:
//! a request of a process that is killed is answered within a second, whatever the store does. Over `io_uring`
//! ([`Options::ring`]) each request that waits has an entry of the kernel's queues, which get more while that lasts.

mod abi;
mod about;
mod fs;
mod handles;
mod hosted;
mod notes;
mod options;
mod relay;
mod service;
mod session;
mod table;
mod told;

pub use abi::{DATA_BYTES_MAX, REQUEST_BYTES_MAX, reply, request};
pub use fs::Fs;
pub use hosted::Hosted;
pub use options::{Caching, Options};
pub use relay::Relay;
pub use session::{Session, Void};
