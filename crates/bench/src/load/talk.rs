//! What the processes of a load say to each other: lines of JSON over the pipes of their standard input and output.
//!
//! A process says that it is ready for a phase; once all are, each is told when to begin, by the clock that all
//! processes of a machine share; each then says what it has done. That is a barrier before and after each phase.

use super::daos::Handles;
use super::fault::Fault;
use crate::meter::Histogram;
use serde::{Deserialize, Serialize};

/// What a process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Its handles, for the others: the first process, once.
    Handles(Handles),
    /// It waits before a phase; whether the phase is measured.
    Ready(String, Timed),
    /// It has done its part of the phase.
    Done(Part),
    /// All phases are over, and everything was given up.
    Over,
    /// It could not go on.
    Failed(Fault),
}

/// Whether a phase is one of the figures or makes something ready for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Timed {
    Yes,
    No,
}

/// What a process is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// Handles of the first process.
    Handles(Handles),
    /// Begin at this reading of the clock.
    Go(u64),
}

/// What one process did of a phase.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) op_count: u64,
    pub(super) byte_count: u64,
    pub(super) latencies: Histogram,
}
