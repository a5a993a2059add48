//! Ntuples that are made here, in memory or as a file of ROOT, and read back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

mod corpus;
mod estimate;
mod fuzzed;
mod hostile;
#[path = "../../../sim/tests/it/inputs.rs"]
mod inputs;
mod late;
mod made;
mod read;
mod read_far;
mod root;
mod store;
mod store_append;
mod store_bucket;
mod store_columns;
mod store_crash;
mod store_damaged;
mod store_fill;
mod store_power;
mod store_prune;
mod store_reshape;
mod store_rolled;
mod store_scrub;
mod store_served;
mod store_skim;
mod store_stop;
mod store_trees;
mod store_versions;
mod store_world;
mod tree_classes;
mod tree_made;
mod trees;
mod web;
mod write;
