//! The format: bytes to types and back, without I/O.

pub mod block;
mod bytes;
pub mod column;
pub mod encoding;
mod envelope;
pub mod footer;
mod header;
pub mod locator;
pub mod page_list;
mod planes;
pub mod schema;

pub(crate) use bytes::{Builder, Cursor};
pub use envelope::{EnvelopeKind, checksum};
pub use header::Header;

/// Bytes of a checksum behind an envelope, a page or an anchor.
pub const CHECKSUM_BYTES: usize = 8;

/// Bytes that a decompressed page or envelope may have: 1 GiB, four times what the format has in mind for pages of values of 8 bytes.
pub const PAGE_BYTES_MAX: u64 = 1 << 30;
