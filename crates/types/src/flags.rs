//! Flags of operations, with the numbers of DAOS.

/// Conditions of an update, fetch or punch; a miss is `NotFound`, a clash `Exists`.
//= daos:src/include/daos_obj.h DAOS_COND_*
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cond(pub u64);

impl Cond {
    /// No condition.
    pub const NONE: Self = Self(0);
    /// Punch only what exists.
    pub const PUNCH: Self = Self(1);
    /// The dkey must not exist.
    pub const DKEY_INSERT: Self = Self(2);
    /// The dkey must exist.
    pub const DKEY_UPDATE: Self = Self(4);
    /// The dkey must exist for a fetch.
    pub const DKEY_FETCH: Self = Self(8);
    /// No akey of the call may exist.
    pub const AKEY_INSERT: Self = Self(16);
    /// Every akey of the call must exist.
    pub const AKEY_UPDATE: Self = Self(32);
    /// Every akey of the call must exist for a fetch.
    pub const AKEY_FETCH: Self = Self(64);
    /// Conditions are given per akey instead of per call.
    pub const PER_AKEY: Self = Self(128);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0 && other.0 != 0
    }

    /// Both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// What a key query asks for.
//= daos:src/include/daos_obj.h DAOS_GET_*
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryFlags(pub u32);

impl QueryFlags {
    /// The largest.
    pub const MAX: Self = Self(1);
    /// The smallest.
    pub const MIN: Self = Self(2);
    /// Of the dkeys.
    pub const DKEY: Self = Self(4);
    /// Of the akeys of a dkey.
    pub const AKEY: Self = Self(8);
    /// Of the extents of an array value.
    pub const RECX: Self = Self(16);

    /// Both sets: what is asked and of what, as in `MAX.and(DKEY)`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
