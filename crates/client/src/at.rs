//! When an operation reads or writes.

use crate::tx::Tx;
use dolmen_codec::verb::ReadAt;
use dolmen_types::{Epoch, Result};

/// When an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub enum At<'t> {
    /// Now: the newest committed state; a write commits at once. In a view made by `Container::at`, the
    /// view's epoch.
    Latest,
    /// In a transaction: reads see its epoch and its own writes, writes wait for its commit.
    Tx(&'t Tx),
    /// A past state, which cannot be written.
    Snapshot(Epoch),
}

impl At<'_> {
    /// Passes the result of a read on; a conflict is remembered by its transaction.
    #[inline]
    pub(crate) fn noted<T>(self, read_at: ReadAt, result: Result<T>) -> Result<T> {
        if let (At::Tx(tx), Err(error)) = (self, &result) {
            tx.note(read_at, error);
        }
        result
    }
}
