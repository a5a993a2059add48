//! The client against a pool of reference models.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise, also in what tests share")]

mod arrays;
mod conts;
mod events;
mod kvs;
mod objects;
mod overlay;
mod repeats;
mod service;
mod testpool;
mod txs;
