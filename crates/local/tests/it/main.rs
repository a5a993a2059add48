//! A pool in a directory: made, opened, refused, closed, reopened, removed.

mod common;
mod directory;
mod queues;
mod two_processes;
