//! What the file system promises, case by case; each row of the crate's documentation has its test here.

mod access;
mod attrs;
mod common;
mod files;
mod layout;
mod links;
mod listing;
mod model;
mod names;
mod orphans;
mod random;
mod renames;
mod shared;
mod snapshots;
mod threads;
mod trees;
