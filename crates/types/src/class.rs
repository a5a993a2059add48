//! Object classes: redundancy ordinal and group count.

use core::fmt;

/// An object class id: `ordinal << 24 | groups`.
//= daos:src/include/daos_obj_class.h OC_*
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectClass(pub u32);

/// What protects an object of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// `n` full copies; one copy is no protection.
    Replicas(u8),
    /// `data` cells and `parity` cells a stripe.
    Erasure {
        /// Data cells.
        data: u8,
        /// Parity cells.
        parity: u8,
    },
}

/// Group count that stands for "as many as fit".
const GROUPS_X: u16 = u16::MAX;

/// Ordinal, family and name stem, in the order of the ordinals.
const ORDINALS: [(u8, Redundancy, &str); 26] = [
    (1, Redundancy::Replicas(1), "S"),
    (8, Redundancy::Replicas(2), "RP_2"),
    (9, Redundancy::Replicas(3), "RP_3"),
    (10, Redundancy::Replicas(4), "RP_4"),
    (11, Redundancy::Replicas(5), "RP_5"),
    (12, Redundancy::Replicas(6), "RP_6"),
    (13, Redundancy::Replicas(8), "RP_8"),
    (14, Redundancy::Replicas(12), "RP_12"),
    (15, Redundancy::Replicas(16), "RP_16"),
    (16, Redundancy::Replicas(24), "RP_24"),
    (17, Redundancy::Replicas(32), "RP_32"),
    (18, Redundancy::Replicas(48), "RP_48"),
    (19, Redundancy::Replicas(64), "RP_64"),
    (20, Redundancy::Replicas(128), "RP_128"),
    (32, Redundancy::Erasure { data: 2, parity: 1 }, "EC_2P1"),
    (33, Redundancy::Erasure { data: 2, parity: 2 }, "EC_2P2"),
    (34, Redundancy::Erasure { data: 4, parity: 1 }, "EC_4P1"),
    (35, Redundancy::Erasure { data: 4, parity: 2 }, "EC_4P2"),
    (36, Redundancy::Erasure { data: 8, parity: 1 }, "EC_8P1"),
    (37, Redundancy::Erasure { data: 8, parity: 2 }, "EC_8P2"),
    (38, Redundancy::Erasure { data: 16, parity: 1 }, "EC_16P1"),
    (39, Redundancy::Erasure { data: 16, parity: 2 }, "EC_16P2"),
    (40, Redundancy::Erasure { data: 4, parity: 3 }, "EC_4P3"),
    (41, Redundancy::Erasure { data: 8, parity: 3 }, "EC_8P3"),
    (42, Redundancy::Erasure { data: 16, parity: 3 }, "EC_16P3"),
    (80, Redundancy::Replicas(1), "RP_XSF"),
];

impl ObjectClass {
    /// Automatic.
    pub const UNKNOWN: Self = Self(0);
    /// One shard, no protection.
    pub const S1: Self = Self(0x0100_0001);
    /// Two shards.
    pub const S2: Self = Self(0x0100_0002);
    /// Four shards.
    pub const S4: Self = Self(0x0100_0004);
    /// All targets.
    pub const SX: Self = Self(0x0100_FFFF);
    /// A copy on each engine, of which there is one.
    pub const RP_XSF: Self = Self(0x5000_0001);

    /// From an ordinal and a group count.
    #[must_use]
    pub fn from_parts(ordinal: u8, groups: u16) -> Self {
        Self((u32::from(ordinal) << 24) | u32::from(groups))
    }

    /// The redundancy ordinal.
    #[must_use]
    pub fn ordinal(self) -> u8 {
        self.0.to_le_bytes()[3]
    }

    /// The group count; 65535 for "as many as fit".
    #[must_use]
    pub fn groups(self) -> u16 {
        let bytes = self.0.to_le_bytes();
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// Whether the group count is "as many as fit".
    #[must_use]
    pub fn is_widest(self) -> bool {
        self.groups() == GROUPS_X
    }

    /// What protects an object of this class; `None` for a number that is no class.
    #[must_use]
    pub fn redundancy(self) -> Option<Redundancy> {
        ORDINALS.iter().find(|o| o.0 == self.ordinal()).map(|o| o.1)
    }

    /// The class with this name (`S1` … `SX`, `RP_2G1` …, `EC_4P2GX` …); `None` if there is none.
    //= daos:src/object/obj_class.c names that daos_oclass_name2id resolves
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (ordinal, groups) = if let Some(count) = name.strip_prefix('S') {
            (1, count)
        } else if name == "RP_XSF" {
            return Some(Self::RP_XSF);
        } else {
            let (stem, count) = name.split_once('G')?;
            (ORDINALS.iter().find(|o| o.2 == stem && o.0 != 1)?.0, count)
        };
        let erasure = ordinal >= 32;
        let groups = match groups {
            "X" => GROUPS_X,
            "6" if erasure => return None,
            "1" | "2" | "4" | "6" | "8" | "12" | "16" | "32" => groups.parse().ok()?,
            _ => return None,
        };
        (ordinal == 1 || ordinal <= 12 || erasure).then(|| Self::from_parts(ordinal, groups))
    }
}

impl fmt::Display for ObjectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((ordinal, _, stem)) = ORDINALS.iter().find(|o| o.0 == self.ordinal()) else {
            return f.write_str("UNKNOWN");
        };
        f.write_str(stem)?;
        if *ordinal == 80 {
            return Ok(());
        }
        if *ordinal != 1 {
            f.write_str("G")?;
        }
        if self.is_widest() { f.write_str("X") } else { write!(f, "{}", self.groups()) }
    }
}

impl fmt::Debug for ObjectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_have_the_numbers_of_daos() {
        for (name, id) in [
            ("S1", 0x0100_0001),
            ("SX", 0x0100_FFFF),
            ("RP_2G1", 0x0800_0001),
            ("RP_3GX", 0x0900_FFFF),
            ("EC_2P1G1", 0x2000_0001),
            ("EC_4P2GX", 0x2300_FFFF),
            ("EC_16P3GX", 0x2A00_FFFF),
        ] {
            assert_eq!(ObjectClass::from_name(name), Some(ObjectClass(id)));
            assert_eq!(ObjectClass(id).to_string(), name);
        }
        for none in ["", "S", "S3", "SXX", "EC_2P1G6", "RP_12G1", "RP_2", "s1"] {
            assert_eq!(ObjectClass::from_name(none), None, "{none}");
        }
        assert_eq!(ObjectClass(0x0800_0007).to_string(), "RP_2G7");
    }
}
