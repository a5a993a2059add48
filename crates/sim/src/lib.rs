//! What a target must do, executable: a reference model, scripted cases, random runs, checkers.
//!
//! - [`Model`] is the second implementor of [`dolmen_codec::TargetStore`]: small enough to believe, slow, in
//!   memory, every answer computed by looking at all versions.
//! - [`compare`] runs random operations on a store and on the model side by side.
//! - [`conformance`] are scripted cases that run on every [`Subject`].
//!
//! Everything is deterministic: time comes from a [`dolmen_env::Clock`], randomness from a seed.

pub mod compare;
pub mod conformance;

mod model;
mod ops;
mod subject;

pub use model::Model;
pub use subject::{ModelSubject, Subject};
