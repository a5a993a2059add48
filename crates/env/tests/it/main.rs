//! Tests of `env` from outside: the same script on every disk, crashes, locks, emulation.

#![expect(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "test patterns are made of small numbers, and a failed unwrap is a failed test"
)]

mod crash;
mod disks;
mod emulate;
mod places;
mod root;
mod sim;
mod sockets;
