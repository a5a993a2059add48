//! What crosses a layer of Dolmen: messages, disk records and the two traits that carry them.
//!
//! - [`verb`] what a target can be asked, and its answers; [`pool`] what a pool's service can be asked.
//! - [`TargetStore`] between `cluster` and whatever stores a target's data.
//! - [`Transport`] between `client` and whatever serves a pool.
//! - [`Way`] how whoever asks waits for the answers.
//! - [`wire`] the same messages as frames, for whoever is in another process.
//! - [`quota`] what counts against the limits of a container.
//! - [`acl`] who may do what with a container; [`evictions`] how often handles on it were taken.
//! - [`order`] the byte order of keys, shared by index, runs and anchors.
//!
//! In process a message is passed as a value and its payload by reference: neither encoded nor copied.

pub mod acl;
pub mod bytes;
pub mod digest;
pub mod evictions;
mod lanes;
mod lease;
pub mod lock;
pub mod log_body;
pub mod log_frame;
pub mod log_segment;
mod logged_version;
pub mod manifest;
pub mod order;
pub mod pool;
pub mod quota;
pub mod run_block;
pub mod run_footer;
pub mod superblock;
pub mod verb;
pub mod version;
pub mod wire;

mod store;
mod transport;
mod way;

pub use lease::{LEASE_RENEW_NS, LEASE_TERM_MS, LEASE_TERM_NS, Lease};
pub use store::{Completion, Lead, Op, Progress, TargetStore};
pub use transport::{Answer, Ask, Outcome, QueueId, Request, Transport};
pub use way::{Way, give_way, now, step};
