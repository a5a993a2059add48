//! Requests between processes: one stream of frames, over a socket or through shared memory.
//!
//! - [`ring`] two rings of bytes in memory that two processes share.
//! - [`Stream`] bytes to and from a peer, whatever carries them, and how to wait for them.
//!
//! Frames are described in docs/format/wire.md; their records are in `codec`. Nothing here knows an engine: both sides
//! speak of pools by `codec::Transport`.

mod error;
pub mod ring;
mod stream;

pub use error::{Error, Result};
pub use stream::Stream;
