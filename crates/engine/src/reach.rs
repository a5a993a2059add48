//! Which runs the aggregation of one container has to merge: a small container beside a large one is not to pay for it.
//!
//! Invariants: the runs that are left out are the oldest ones and have nothing of the container, so that a merge of
//! the others has all of it that runs have.

use crate::runs::RunCursor;
use crate::store::Store;
use crate::target::Target;
use crate::tree::key::FlatKey;
use dolmen_types::{ContNo, Error};
use std::ops::Range;

impl Target {
    /// The runs that an aggregation of a container merges: all if much of the log is what nobody refers to, since values
    /// are moved only by a merge of all; none if runs have nothing of it.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn runs_to_aggregate(&mut self, cont: ContNo) -> Result<Range<usize>, Error> {
        let mut end = self.store.index.runs.len();
        if self.has_much_garbage() {
            return Ok(0..end);
        }
        let mut key = FlatKey::default();
        let prefix = key.container(cont).as_bytes();
        while end > 0 && !self.store.run_has(end - 1, prefix)? {
            end -= 1;
        }
        Ok(0..end)
    }
}

impl Store {
    /// Whether a run has a key that begins so; one that cannot be read may have.
    fn run_has(&mut self, at: usize, prefix: &[u8]) -> Result<bool, Error> {
        let run = &self.index.runs[at];
        if &run.footer().last_key[..] < prefix {
            return Ok(false);
        }
        let mut cursor = RunCursor::default();
        match cursor.seek(run, prefix, &mut self.blocks.source(&mut *self.disks.meta)) {
            Ok(()) => Ok(cursor.entry().is_some_and(|(key, _)| key.starts_with(prefix))),
            Err(Error::Corrupt { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
