//! The daemon from outside: pools over rings, sockets and TCP.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is a failed test, and test patterns are made of small numbers"
)]

mod bystander;
mod child;
mod common;
mod hostile;
mod raw;
mod restarts;
mod served;
