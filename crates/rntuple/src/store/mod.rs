//! Ntuples in a container: sealed pages as they were made, many columns in one value, versions that are never changed.
//!
//! - [`Store`] is what a container has: ntuples by their names. It imports others as they are, and frees what nobody needs.
//! - [`Stored`] is one of them: its versions and tags, and who writes to it. [`Stored::open`] gives an
//!   [`Ntuple`](crate::Ntuple) of a version, which is read like any other.
//! - [`Appender`] adds clusters, and [`ColumnAdder`] columns to clusters that are there; what they add is seen with one transaction.
//!
//! Several may write to an ntuple at once, from wherever: each puts pages into objects that only it knows, and then makes the next
//! version of whatever is the current one. Readers stay with the version that they opened.
//!
//! Invariants: what a version refers to is there as long as the version is; a version that is there stays as it is. See
//! docs/decisions/0046-event-data.md.

mod affinity;
mod append;
mod append_tree;
mod base;
mod catalogue;
mod cloned;
mod collect;
mod columns;
mod commit;
mod fill;
#[doc(hidden)]
pub mod fuzz;
mod home;
mod import;
mod import_tree;
mod measure;
mod numbers;
mod pack;
mod pipeline;
mod place;
mod prune;
mod record;
mod reshape;
mod scrub;
mod skim;
mod source;
mod versions;
mod zones;

pub use affinity::{Access, order_of};
pub use append::Appender;
pub use catalogue::{CreateOptions, Listed, Store, StoreOptions, Stored, When};
pub use collect::{Collected, Unreadable};
pub use columns::ColumnAdder;
pub use commit::Version;
pub use fill::{Fill, LeftOut};
pub use home::bucket::{KEYS as BUCKET_KEYS, ROOT as BUCKET_ROOT};
pub use import_tree::{TreeImported, TreeOptions, TreeSkimmed, skim_tree_to};
pub use prune::{Compare, Condition, Number};
pub use record::{Made, ROOT_START as BUCKET_ROOT_START};
pub use reshape::Reshaped;
pub use scrub::{BadPage, Damage, Scrubbed};
pub use skim::{Skimmed, Wanted, skim_to};
pub use source::{Asked, StoreSource};
pub use versions::TagOf;

use crate::format::block::Compression;

/// How envelopes and what is beside them are compressed.
const METADATA_COMPRESSION: Compression = Compression::Zstd(3);
