//! Where things lie: object id and number of targets to shards, dkey to shard, shard to target.
//!
//! Client and engine compute the same answer from the same few numbers; nothing here does I/O, and nothing
//! here may change its answers: an object stored under one placement is looked for under the same one.
//!
//! - [`resolve_class`] fixes a class at the generation of an object id: automatic choice, and "X".
//! - [`Layout`] is the placement of one object.
//!
//! Invariants: the shard of a dkey depends on the object id only, so adding targets never moves a dkey to
//! another shard; shards lie on different targets as long as there are enough of them.

mod class;
mod hash;
mod place;

pub use class::resolve_class;
pub use place::Layout;
