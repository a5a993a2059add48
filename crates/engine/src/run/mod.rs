//! Runs: immutable sorted files that hold what checkpoints and merges wrote.
//!
//! - [`writer`] turns ascending entries into blocks, fence, filter and footer.
//! - [`reader`] an opened run: fence and filter are resident, entry blocks are read when a cursor needs them.
//! - [`merged`] all entries of some runs in one order.
//! - [`cache`] the blocks that were read last, within a budget.
//!
//! Nothing here reads or writes a device but [`Run::open`] and the sources that [`Blocks`] makes.

pub(crate) mod cache;
pub(crate) mod filter;
pub(crate) mod merged;
pub(crate) mod reader;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

pub(crate) use cache::{Blocks, IntactBlocks};
pub(crate) use merged::MergedRuns;
pub(crate) use reader::{BlockSource, Run, RunCursor};
pub(crate) use writer::{RunTail, RunWriter};
