//! A pool in a directory: made, opened, refused, closed, reopened, removed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;
mod directory;
mod owners;
mod queues;
mod secrets;
mod two_processes;
