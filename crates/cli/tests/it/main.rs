//! Tests of `dolmen-cli`: the program, run as a user runs it.

mod arguments;
mod common;
mod containers;
mod crash;
mod damage;
mod files;
mod objects;
mod pools;
mod sharing;
mod shell;
mod snapshots;
mod tour;
