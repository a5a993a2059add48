//! One target of Dolmen on its devices: versioned objects, committed by one log record each.
//!
//! The path of a write: [`Target`] takes it (`target.rs`), validates it into drafts (`draft.rs`), writes large
//! values to bulk (`update.rs`, `bulk.rs`), appends one record to the log (`log.rs`), puts the versions into the
//! index (`index.rs`), and answers when the container's durability is reached. A read resolves what is visible
//! (`store.rs`), then reads and verifies exactly that (`fetch.rs`, `value.rs`). After a crash `open.rs` reads the
//! manifest and `replay.rs` the log behind it.
//!
//! The engine knows no network and no other target.

mod aggregate;
mod ahead;
mod batch;
mod bufs;
mod bulk;
mod changes;
mod check;
mod checkpoint;
mod choice;
mod config;
mod cont_verbs;
mod conts;
mod cursor;
mod draft;
mod drops;
mod epochs;
mod error;
mod fetch;
mod gifts;
mod hot;
mod index;
mod join;
mod lines;
mod list;
mod log;
mod marks;
mod metadata;
mod names;
mod numbered;
mod open;
mod path;
mod prefixes;
mod query;
mod quota;
mod reach;
mod readers;
mod ready;
mod reclaim;
mod records;
mod repeats;
mod replay;
mod rest;
mod run;
mod runs;
mod scrub;
mod space;
mod spares;
mod store;
mod target;
mod tree;
mod tx;
mod update;
mod value;
mod walk;

pub use checkpoint::BackgroundDone;
pub use config::{CHECKPOINT_LOG_BYTES_MIN, Devices, MEMORY_BUDGET_BYTES_MIN, TargetConfig};
pub use open::Recovery;
pub use target::Target;
