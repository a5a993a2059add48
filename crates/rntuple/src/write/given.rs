//! What is written: arrays, or flat values where they are.

use crate::array::Array;
use crate::format::column::InMemory;

/// A field that is written.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// An array.
    Array(&'a Array),
    /// One value for each entry.
    Flat(Flat<'a>),
}

/// Numbers in memory of whoever has them.
#[derive(Clone, Copy, Debug)]
pub struct Flat<'a> {
    pub(super) kind: InMemory,
    pub(super) bytes: &'a [u8],
}

impl<'a> Flat<'a> {
    /// The numbers of that kind that these bytes are. None if they have a part of one at their end, or are no numbers: of switches and offsets, and
    /// of what is one of two, not all bytes are values.
    #[must_use]
    pub fn new(kind: InMemory, bytes: &'a [u8]) -> Option<Self> {
        let is_number = !matches!(kind, InMemory::Bool | InMemory::Offset | InMemory::Switch);
        (is_number && bytes.len().is_multiple_of(kind.bytes())).then_some(Self { kind, bytes })
    }
}

impl<'a> From<&'a Array> for Given<'a> {
    fn from(array: &'a Array) -> Self {
        Self::Array(array)
    }
}

impl<'a> From<Flat<'a>> for Given<'a> {
    fn from(flat: Flat<'a>) -> Self {
        Self::Flat(flat)
    }
}

impl Given<'_> {
    pub(super) fn len(self) -> u64 {
        match self {
            Self::Array(array) => array.len(),
            Self::Flat(Flat { kind, bytes }) => (bytes.len() / kind.bytes()) as u64,
        }
    }

    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Array(array) => array.bytes(),
            Self::Flat(Flat { bytes, .. }) => bytes.len() as u64,
        }
    }
}
