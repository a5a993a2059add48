//! Event data: RNTuple 1.0, in ROOT's files and natively in a container.
//!
//! [`format`] is bytes to types and back, without I/O: envelopes, schema, page lists, compression, page encodings. [`rootfile`] is
//! ROOT's file as a container, [`store`] is one of ours. [`Ntuple`] opens one ntuple from a [`Source`], whatever that is, and reads
//! fields of an entry range as [`Array`]s; [`write`] makes sealed clusters of arrays.
//!
//! A file is hostile: lengths are checked against what is there before memory is reserved, and what is wrong is named by
//! structure and offset ([`Error`]).
//!
//! //= root:tree/ntuple/doc/BinaryFormatSpecification.md 1.0

#[cfg(target_endian = "big")]
compile_error!("pages are decoded in place: the machine has to be little-endian");

mod array;
pub mod bucket;
mod damaged;
mod error;
pub mod estimate;
pub mod format;
mod lists;
mod near;
mod ntuple;
mod read;
pub mod rootfile;
pub mod sealed;
mod source;
pub mod stop;
pub mod store;
mod taken;
mod trace;
pub mod web;
pub mod write;
mod zone;

pub use array::{Array, Lists, Values};
pub use error::{
    AskedBy, BadName, Error, Fault, Feature, Fit, GoOn, Named, OtherFields, Refusal, Result, Structure,
};
pub use near::near;
pub use ntuple::{Cluster, Entries, Ntuple};
pub use source::{Memory, Source, Want};
pub use trace::{NoTrace, Trace};
pub use zone::{Bounds, Zone};
