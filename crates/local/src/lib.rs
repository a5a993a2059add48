//! A pool in this process: client, cluster and engine joined in one directory.
//!
//! A *system* directory holds pools; a pool directory holds its record, a lock with the owner's pid and a
//! directory for each target. One process owns a pool at a time; a second one is told by whom.
//!
//! - [`create`], [`open`], [`destroy`], [`list`] work on directories.
//! - [`LocalPool`] is the open pool: a `Transport`, driven by its callers, with an optional thread for
//!   background work. Dropping it closes it; [`LocalPool::close`] also reports errors.
//!
//! A program that is built without optimisation has a store without it, many times slower: give its manifest
//! `[profile.dev.package."*"]` with `opt-level = 2`, which leaves the program's own code as it is.
//!
//! From nothing to a value, as a program does it: `crates/local/examples/notes.rs`; with files:
//! `crates/cli/tests/it/embedding.rs`.

mod destroyed;
mod each;
mod error;
mod options;
mod pool;
mod record;
mod root;
mod store;

pub use destroyed::{Destroyed, announce, destroyed, forget};
pub use error::{Error, RecordFault, Result};
pub use options::{OpenOptions, PoolOptions, Upkeep};
pub use pool::LocalPool;
pub use record::Spread;
pub use root::{
    PoolEntry, create, destroy, destroy_remains, destroy_rest, is_pool, list, list_damaged, named, open,
    open_part, open_with_parts, pool_around, refuse_no_pool, target_id,
};

pub use dolmen_codec::Progress;
pub use dolmen_engine::Recovery;
pub use dolmen_env::RealOptions;
