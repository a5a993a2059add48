//! Object ids: 128 bits, the high half carries type, class ordinal and group count.

use crate::{KeyKind, ObjectClass};
use core::fmt;

/// What kind of object an id names.
//= daos:src/include/daos_obj.h enum daos_otype_t
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum ObjectType {
    /// Hashed dkeys and akeys.
    MultiHashed = 0,
    /// Object id table.
    Oit = 1,
    /// Integer dkeys, hashed akeys.
    DkeyUint64 = 2,
    /// Hashed dkeys, integer akeys.
    AkeyUint64 = 3,
    /// Integer dkeys and akeys.
    MultiUint64 = 4,
    /// Lexical dkeys, hashed akeys.
    DkeyLexical = 5,
    /// Hashed dkeys, lexical akeys.
    AkeyLexical = 6,
    /// Lexical dkeys and akeys.
    MultiLexical = 7,
    /// Flat key-value, hashed keys.
    KvHashed = 8,
    /// Flat key-value, integer keys.
    KvUint64 = 9,
    /// Flat key-value, lexical keys.
    KvLexical = 10,
    /// Array with its attributes stored in it.
    Array = 11,
    /// Array whose attributes the application keeps.
    ArrayAttr = 12,
    /// Array of bytes.
    ArrayByte = 13,
    /// Object id table, second form.
    OitV2 = 14,
}

impl ObjectType {
    const ALL: [Self; 15] = [
        Self::MultiHashed,
        Self::Oit,
        Self::DkeyUint64,
        Self::AkeyUint64,
        Self::MultiUint64,
        Self::DkeyLexical,
        Self::AkeyLexical,
        Self::MultiLexical,
        Self::KvHashed,
        Self::KvUint64,
        Self::KvLexical,
        Self::Array,
        Self::ArrayAttr,
        Self::ArrayByte,
        Self::OitV2,
    ];

    /// The type with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// How dkeys are compared.
    #[must_use]
    pub fn dkey_kind(self) -> KeyKind {
        match self {
            Self::DkeyUint64
            | Self::MultiUint64
            | Self::KvUint64
            | Self::Array
            | Self::ArrayAttr
            | Self::ArrayByte => KeyKind::Uint64,
            Self::DkeyLexical | Self::MultiLexical | Self::KvLexical => KeyKind::Lexical,
            Self::MultiHashed
            | Self::Oit
            | Self::AkeyUint64
            | Self::AkeyLexical
            | Self::KvHashed
            | Self::OitV2 => KeyKind::Hashed,
        }
    }

    /// How akeys are compared.
    #[must_use]
    pub fn akey_kind(self) -> KeyKind {
        match self {
            Self::AkeyUint64 | Self::MultiUint64 => KeyKind::Uint64,
            Self::AkeyLexical | Self::MultiLexical => KeyKind::Lexical,
            Self::MultiHashed
            | Self::Oit
            | Self::DkeyUint64
            | Self::DkeyLexical
            | Self::KvHashed
            | Self::KvUint64
            | Self::KvLexical
            | Self::Array
            | Self::ArrayAttr
            | Self::ArrayByte
            | Self::OitV2 => KeyKind::Hashed,
        }
    }

    /// Whether this is one of the array types.
    #[must_use]
    pub fn is_array(self) -> bool {
        matches!(self, Self::Array | Self::ArrayAttr | Self::ArrayByte)
    }

    /// Whether this is one of the flat key-value types.
    #[must_use]
    pub fn is_kv(self) -> bool {
        matches!(self, Self::KvHashed | Self::KvUint64 | Self::KvLexical)
    }
}

/// An object id.
//= daos:src/include/daos_obj.h OID_FMT_*
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Oid {
    /// Type in bits 63-56, class ordinal in 55-48, groups in 47-32, user bits in 31-0.
    pub hi: u64,
    /// User bits.
    pub lo: u64,
}

impl Oid {
    /// An id from the user's 96 bits with type and class stamped into it.
    #[must_use]
    pub fn new(object_type: ObjectType, class: ObjectClass, user_hi: u32, user_lo: u64) -> Self {
        let hi = (u64::from(object_type as u8) << 56)
            | (u64::from(class.ordinal()) << 48)
            | (u64::from(class.groups()) << 32)
            | u64::from(user_hi);
        Self { hi, lo: user_lo }
    }

    /// The object type; `None` if the id carries a number that no type has.
    #[must_use]
    pub fn object_type(self) -> Option<ObjectType> {
        ObjectType::from_number(self.hi.to_le_bytes()[7])
    }

    /// The object class: ordinal and group count.
    #[must_use]
    pub fn class(self) -> ObjectClass {
        let bytes = self.hi.to_le_bytes();
        ObjectClass::from_parts(bytes[6], u16::from_le_bytes([bytes[4], bytes[5]]))
    }

    /// Little-endian bytes, low half first.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.lo) | (u128::from(self.hi) << 64)).to_le_bytes()
    }

    /// The inverse of `to_bytes`.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            lo: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            hi: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        }
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.hi, self.lo)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.hi, self.lo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oid_carries_type_class_and_user_bits() {
        let oid = Oid::new(ObjectType::ArrayByte, ObjectClass::SX, 7, 9);
        assert_eq!(oid.object_type(), Some(ObjectType::ArrayByte));
        assert_eq!(oid.class(), ObjectClass::SX);
        assert_eq!((oid.hi & 0xffff_ffff, oid.lo), (7, 9));
        assert_eq!(Oid::from_bytes(oid.to_bytes()), oid);
        assert_eq!(Oid { hi: 200 << 56, lo: 0 }.object_type(), None);
    }
}
