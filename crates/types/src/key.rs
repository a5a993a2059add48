//! Keys and extents.

use smallvec::SmallVec;

/// The bytes of a dkey or akey; up to 24 stay inline.
///
/// In an object whose keys are integers the bytes are the eight little-endian bytes of the value.
pub type Key = SmallVec<[u8; 24]>;

/// How the keys of one level of an object are compared.
//= daos:src/include/daos_obj.h enum daos_otype_t
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum KeyKind {
    /// Byte strings, ordered by a keyed hash.
    Hashed = 0,
    /// 64-bit unsigned integers, ordered by value.
    Uint64 = 1,
    /// Byte strings of at most 80 bytes, ordered as strings.
    Lexical = 2,
}

/// An extent of an array value, in records.
//= daos:src/include/daos_obj.h daos_recx_t
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Recx {
    /// The first record.
    pub index: u64,
    /// How many records; not zero in a valid request.
    pub count: u64,
}

impl Recx {
    /// An extent of `count` records from `index`.
    #[must_use]
    pub fn new(index: u64, count: u64) -> Self {
        Self { index, count }
    }

    /// One past the last record; `None` if that is more than 2^64 - 1.
    #[must_use]
    pub fn end(self) -> Option<u64> {
        self.index.checked_add(self.count)
    }

    /// The part that both cover.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let start = self.index.max(other.index);
        let end = self.end()?.min(other.end()?);
        (start < end).then(|| Self::new(start, end - start))
    }
}
