//! Requests between processes: one stream of frames, over a socket or through shared memory.
//!
//! - [`ring`] two rings of bytes in memory that two processes share.
//! - [`Stream`] bytes to and from a peer, whatever carries them, and how to wait for them.
//! - [`tls`] connections of the network with certificates on both sides.
//! - [`client`] connections to engines, and pools behind them as `codec::Transport`.
//! - [`server`] threads that serve connections; whoever runs it says which pools there are.
//!
//! Frames are described in docs/format/wire.md; their records are in `codec`. Nothing here knows an engine: both sides
//! speak of pools by `codec::Transport`.

mod aside;
pub mod client;
mod error;
mod input;
mod output;
pub mod ring;
pub mod server;
mod slots;
mod spin;
mod stream;
mod terms;
pub mod tls;

pub use error::{CertFault, Error, Lack, Result, Violation, Whose};
pub use stream::Stream;
