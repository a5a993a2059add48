//! What a target must do, executable: a reference model, scripted cases, random runs, checkers.
//!
//! - [`Model`] is the second implementor of [`dolmen_codec::TargetStore`]: small enough to believe, slow, in
//!   memory, every answer computed by looking at all versions.
//! - [`compare`] runs random operations on a store and on the model side by side.
//! - [`conformance`] are scripted cases that run on every [`Subject`].
//! - [`fuzz`] reads records and runs operations from any bytes.
//! - [`net`] delivers messages between coordinators and targets badly, from a seed.
//! - [`serial`] decides whether a history of transactions is serialisable.
//!
//! Everything is deterministic: time comes from a [`dolmen_env::Clock`], randomness from a seed.

pub mod compare;
pub mod conformance;
pub mod fuzz;
pub mod net;
pub mod serial;

mod chance;
mod model;
mod ops;
mod subject;

pub use model::Model;
pub use subject::{ModelSubject, Subject};
