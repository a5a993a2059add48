//! Tests of `dolmen-cli`: the program, run as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arguments;
mod certs;
mod check;
mod common;
mod compat;
mod containers;
mod cramped;
mod crash;
mod damage;
mod embedding;
mod engines;
mod files;
mod full;
mod interrupted;
mod killed;
mod loads;
mod measured;
mod mounted;
mod ntuples;
mod ntuples_damaged;
mod ntuples_interrupted;
mod ntuples_killed;
mod ntuples_made;
mod ntuples_parquet;
mod ntuples_read;
mod objects;
mod pools;
mod processes;
mod quota;
mod served;
mod sharing;
mod shell;
mod snapshots;
mod told;
mod tour;
mod unit;
mod untested;
