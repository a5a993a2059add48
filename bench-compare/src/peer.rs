//! What every store in the comparison can do.

use crate::error::Result;
use dolmen_bench::Values;
use std::path::Path;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    Process,
    /// The loss of power: a flush for each write or batch.
    Power,
}

/// How a store is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'v> {
    /// An empty directory.
    pub dir: &'v Path,
    /// What all values that will be written are cut from.
    pub values: &'v Values,
    /// What a write survives.
    pub durability: Durability,
    /// Memory for caches.
    pub memory_bytes: u64,
}

/// A store under load by one caller.
pub trait Peer<'v> {
    /// Writes one value.
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()>;

    /// Writes several by one call, or by as few as the store has.
    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()>;

    /// Shows one value.
    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()>;

    /// Shows several values, read by one call, or by as few as the store has.
    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()>;

    /// Background work that the caller has to do itself; called after every 256 reads.
    fn upkeep(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends everything that is under way.
    fn close(self: Box<Self>) -> Result<()>;
}
