//! What the store costs: rates, latencies, memory and amplification, beside what the machine gives.
//!
//! [`engine`] and [`dfs()`] run scenarios by name and hand out a [`Row`] for each result as soon as it is there;
//! [`Results`] keeps it on a disk.
//! Scenarios that claim durability run in a child process which is killed while it writes; the parent then opens
//! the store and compares every byte. [`child`] is that process's entry.
//!
//! [`load()`] measures what a program written for DAOS gets, over the C interface and from any system. [`idle()`] and
//! [`disturbed()`] measure a daemon: what it costs at rest, and what its clients notice of each other. [`posix()`] measures files
//! of any directory by the calls of the system; [`passthrough()`] is the least that a mount costs.
//!
//! Rows of a quick run say so and are never quoted. Latencies are those of every seventeenth operation.

mod amplify;
mod bare;
mod cgroup;
mod child;
mod curve;
mod data;
mod dfs;
mod durable;
mod error;
mod ground;
mod large;
mod limits;
mod load;
mod meter;
mod native;
mod options;
mod passthrough;
mod plot;
mod points;
mod pools;
mod report;
mod rig;
mod row;
mod served;
mod suite;
mod targets;

pub use child::stop_child;
pub use curve::curve;
pub use data::{Keys, Values};
pub use dolmen_env::HeldMemory;
pub use error::{Error, Result};
pub use ground::hold_memory;
pub use large::{Large, large};
pub use load::{
    Conditions, Difference, Figures, IorLoad, Load, MdtestLoad, ObjectLoad, Phase, PhaseRound, Place,
    PosixLoad, PosixPlace, ValueKind, clear_load, load, posix, stop_load,
};
pub use meter::Meter;
pub use options::Options;
pub use passthrough::passthrough;
pub use plot::load_font;
pub use report::{Machine, Results, report};
pub use rig::{Kind, Rig, Setup};
pub use row::{HEADING, Row};
pub use served::{
    Beside, DisturbedPlace, DisturbedRow, Idle, IdlePlace, IdleThread, Verb, Way, disturbed, idle,
};
pub use suite::{check_dfs, check_engine, child, dfs, engine};
