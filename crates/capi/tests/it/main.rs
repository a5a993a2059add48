//! The C interface, as C programs see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod kit;
mod life;
mod symbols;
