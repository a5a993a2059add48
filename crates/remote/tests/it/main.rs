//! Objects of S3 endpoints, on a real server of the protocol.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bucket;
mod failing;
mod file;
mod hostile;
mod lossy;
mod store;
mod tls;
mod weed;
