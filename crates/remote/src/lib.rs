//! Objects of S3 endpoints, for who waits for each answer: buckets of stores of ntuples, and ROOT files.
//!
//! - [`Remote`] is what is below a prefix of a bucket, `s3://bucket/prefix`: the
//!   [`Bucket`](dolmen_rntuple::bucket::Bucket) of a store. [`Options`] say how it is reached, and what they leave open the
//!   variables that all tools of this kind know (`AWS_…`).
//! - [`RemoteFile`] is one object as a [`Source`](dolmen_rntuple::Source), `s3://bucket/path/file.root`.
//! - [`RemoteOutput`] is an object that is written piece by piece, and is there when it is complete.
//! - [`stores`] finds stores of ntuples below an address.
//!
//! The protocol is that of the crate `object_store`; a runtime of its own, one a process and with few threads, keeps its
//! requests going. Any thread may call, and waits. A forked child opens anew: what its parent opened fails there.
//!
//! Invariants: as many requests are under way at once as the options say, at most; each is given up after the time that they
//! say. What an answer says is compared with what was asked and with what comes: bytes that are too few or too many, an object
//! that is not there by the word of somebody else than the store, and a list without an end are errors.

mod address;
mod answer;
mod connect;
mod date;
mod error;
mod file;
mod list;
mod options;
mod remote;
mod runtime;
mod stores;
mod upload;
mod uploads;

pub use address::{address, place_of};
pub use error::{Error, Result, Wrong};
pub use file::RemoteFile;
pub use options::Options;
pub use remote::Remote;
pub use stores::{Stores, stores};
pub use upload::RemoteOutput;
