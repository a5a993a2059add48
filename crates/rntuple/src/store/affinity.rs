//! The order in which columns are packed, from what was read together before.

use super::catalogue::{GROUP_BYTES_MAX, Stored};
use super::place;
use crate::error::Result;
use crate::ntuple::Ntuple;
use crate::source::Source;
use core::cmp::Reverse;

/// Fields that were read together, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Numbers of the fields; those below them are read with them, and collections above them.
    pub fields: Vec<u32>,
    /// How often.
    pub count: u64,
}

/// Columns in the order of how often they were read, those next to each other that were always read together; columns that never were are
/// not named, and come last wherever such an order is used.
///
/// # Panics
/// If an access names a field that is not there.
pub fn order_of<S: Source>(ntuple: &Ntuple<S>, accesses: &[Access]) -> Vec<u32> {
    let mut read_by = vec![Vec::new(); ntuple.header().schema.columns.len()];
    for (number, access) in accesses.iter().enumerate() {
        for column in ntuple.columns_of_all(&ntuple.read_with(&access.fields)) {
            read_by[column as usize].push(number);
        }
    }
    let count = |read_by: &[usize]| read_by.iter().map(|&at| accesses[at].count).fold(0, u64::saturating_add);
    let mut named: Vec<_> = (0_u32..)
        .zip(&read_by)
        .filter(|(_, read_by)| !read_by.is_empty())
        .map(|(column, read_by)| (Reverse(count(read_by)), read_by, column))
        .collect();
    named.sort_unstable();
    named.into_iter().map(|(_, _, column)| column).collect()
}

impl Stored {
    /// Has what is written from now on packed in this order of columns, into groups of about so many bytes, or as many as before; how many these are.
    /// What is there is when it is [reshaped](Self::reshape).
    ///
    /// # Errors
    /// [`Error::NoNtuple`](crate::Error::NoNtuple) if it was destroyed; [`Error::Store`](crate::Error::Store).
    pub fn pack(&self, order: &[u32], group_bytes: Option<u32>) -> Result<u32> {
        self.home().transact(|at| {
            let mut config = self.config(at)?;
            config.order = order.to_vec();
            config.group_bytes = group_bytes.unwrap_or(config.group_bytes).clamp(1, GROUP_BYTES_MAX);
            self.home().put(at, self.own(), place::CONFIG, &[(place::RECORD, &config.write())])?;
            Ok(config.group_bytes)
        })
    }
}
