//! Container and pool properties, by DAOS's numbers.

use std::collections::BTreeMap;

/// A property number.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_* and DAOS_PROP_PO_*
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct PropId(pub u32);

impl PropId {
    /// Access control list of a pool.
    pub const PO_ACL: Self = Self(2);
    /// Owner of a pool.
    pub const PO_OWNER: Self = Self(6);
    /// Owning group of a pool.
    pub const PO_OWNER_GROUP: Self = Self(7);
    /// Container label.
    pub const CO_LABEL: Self = Self(4097);
    /// Container layout type (POSIX is 1).
    pub const CO_LAYOUT_TYPE: Self = Self(4098);
    /// Container layout version.
    pub const CO_LAYOUT_VER: Self = Self(4099);
    /// Checksum type.
    pub const CO_CSUM: Self = Self(4100);
    /// Checksum chunk in bytes.
    pub const CO_CSUM_CHUNK_SIZE: Self = Self(4101);
    /// Redundancy factor.
    pub const CO_REDUN_FAC: Self = Self(4103);
    /// Access control list.
    pub const CO_ACL: Self = Self(4106);
    /// Owner.
    pub const CO_OWNER: Self = Self(4109);
    /// Owning group.
    pub const CO_OWNER_GROUP: Self = Self(4110);
    /// Root objects (4 ids of 16 bytes).
    pub const CO_ROOTS: Self = Self(4113);
    /// Durability of acknowledged writes: Dolmen's own, outside DAOS's range.
    pub const CO_DURABILITY: Self = Self(0x1_0001);
    /// How often handles were taken from their users: Dolmen's own, told with an open container only.
    pub const CO_EVICTIONS: Self = Self(0x1_0002);
    /// Epoch at which a container was opened last: Dolmen's own, told with its state and in lists.
    pub const CO_OPENED: Self = Self(0x1_0003);
    /// Epoch at which what is on record of a container was changed last, or a handle on it closed: as the last.
    pub const CO_CHANGED: Self = Self(0x1_0004);
    /// Limits of a container and of its users: of Dolmen's service alone, which is asked for them by verbs of their own.
    pub const CO_QUOTA: Self = Self(0x1_0005);
    /// Who may use the container's files by way of its engine, beside those whom its list allows something: Dolmen's own. 0 is
    /// nobody, 1 everybody who is connected to the pool.
    pub const CO_FILES: Self = Self(0x1_0008);
}

/// A property's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PropValue {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
    /// Raw bytes, such as an access control list.
    Bytes(Vec<u8>),
}

/// A set of properties.
pub type Props = BTreeMap<PropId, PropValue>;

/// What an acknowledged write survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Durability {
    /// The loss of power. Persistent: never renumber.
    #[default]
    Power = 0,
    /// The death of the process. Persistent: never renumber.
    Process = 1,
}

impl Durability {
    /// The value with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Power),
            1 => Some(Self::Process),
            _ => None,
        }
    }
}
