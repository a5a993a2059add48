//! The resident part of the index: flat keys, and the ordered map from them to positions.
//!
//! - [`key`] how (container, object, dkey, akey, kind, offset, epoch) becomes one byte string.
//! - [`delta`] the map of everything written since the last checkpoint, a tree of [`node`]s.

pub(crate) mod delta;
pub(crate) mod key;
mod node;

pub(crate) use delta::{Cursor, Delta, Pos};
