//! The daemon from outside: pools over rings, sockets and TCP.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is a failed test, and test patterns are made of small numbers"
)]

mod access;
mod altered;
mod apart;
mod bystander;
mod child;
mod common;
mod crowds;
mod evictions;
mod files;
#[expect(unsafe_code, reason = "what a forked child may do is tested in one")]
mod forks;
mod gifts;
mod given_back;
mod guests;
mod hostile;
mod idle;
mod last;
mod leases;
mod left;
mod made;
mod opens;
mod parted;
mod parts;
mod quota;
mod ranks;
mod raw;
mod relay;
mod repetitions;
mod resent;
mod restarts;
mod served;
mod taken;
mod tls;
mod versions;
