//! The C interface, as C programs see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod array;
mod event;
mod kit;
mod kv;
mod life;
mod obj;
mod symbols;
mod tx;
