//! POSIX names in a container, on the DFS layout.
pub mod error;
pub mod layout;
pub mod path;
mod chunks;
pub use error::{Error, Result};
