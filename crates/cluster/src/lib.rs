//! Many targets as one pool: dispatch, container service, commit coordination.
//!
//! - [`Targets`] dispatch: the thread that brings an operation owns the target and carries it out.
//! - [`Service`] containers, properties, snapshots, object numbers; crash-safe over all targets.
//! - [`commit`] the coordinator of transactions and [`resolve`] the settling of undecided ones, both as pure
//!   functions; carried out in process by this crate, over a simulated network by tests.
//! - [`Pool`] all of it behind the client's `Transport`; [`Elsewhere`] a target of another engine, and [`PartDoor`] what
//!   that engine shows to the one with the service.
//!
//! Generic over `TargetStore`: the engine and the reference model serve alike. Nothing here starts a thread,
//! reads a clock of its own or touches a device.

pub mod commit;
pub mod resolve;

mod accounts;
mod copy;
mod dispatch;
mod doubt;
mod drive;
mod elsewhere;
mod fence;
mod hlc;
mod inbox;
mod owned;
mod parts;
mod pool;
mod reach;
mod service;
mod shares;
mod tell;
mod turns;
mod whose;

pub use dispatch::Targets;
pub use elsewhere::{Absent, Elsewhere};
pub use hlc::Hlc;
pub use parts::{Part, PartDoor};
pub use pool::Pool;
pub use service::{PoolIdentity, Service};
