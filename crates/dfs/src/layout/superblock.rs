//! The superblock: single values under dkey `DFS_SB_METADATA` of the superblock object.
//!
//! Invariants: chunks are 4 KiB to 1 GiB. DAOS rounds them to whole erasure-code stripes, so they need not be a
//! power of two.

use dolmen_types::ObjectClass;

/// Dkey of the superblock's values.
//= daos:src/client/dfs/README.md superblock keys
pub const DKEY: &[u8] = b"DFS_SB_METADATA";

const MAGIC: u64 = 0xda05_df50_da05_df50;
const SUPERBLOCK_VERSION: u16 = 2;
const LAYOUT_VERSION: u16 = 3;

/// The smallest chunk: below it keys cost more than data.
pub const CHUNK_BYTES_MIN: u64 = 4096;
/// The largest chunk: a chunk lies on one target.
pub const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Akeys and value lengths, in the order of `to_values`.
pub const FIELDS: [(&[u8], usize); 8] = [
    (b"DFS_MAGIC", 8),
    (b"DFS_SB_VERSION", 2),
    (b"DFS_LAYOUT_VERSION", 2),
    (b"DFS_CHUNK_SIZE", 8),
    (b"DFS_OBJ_CLASS", 4),
    (b"DFS_DIR_OBJ_CLASS", 4),
    (b"DFS_FILE_OBJ_CLASS", 4),
    (b"DFS_MODE", 4),
];

/// Length of all values one after the other.
pub const BYTES: usize = 36;

const _: () = assert!(fields_bytes() == BYTES);

const fn fields_bytes() -> usize {
    let (mut sum, mut i) = (0, 0);
    while i < FIELDS.len() {
        sum += FIELDS[i].1;
        i += 1;
    }
    sum
}

/// What a container with names says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Chunk of new files.
    pub chunk_bytes: u64,
    /// Class of new directories; `UNKNOWN` is automatic.
    pub dir_class: ObjectClass,
    /// Class of new files; `UNKNOWN` is automatic.
    pub file_class: ObjectClass,
    /// Whether every mount keeps to what a shared one promises, also if it asks for less.
    pub balanced: bool,
}

//= daos:src/include/daos_fs.h DFS_BALANCED
/// The mode of a container that is balanced; 0 is relaxed, which may be mounted either way.
const BALANCED: u32 = 4;

/// Why bytes are no superblock that this version can work with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// The magic number or a value is wrong.
    Damaged,
    /// Written by a version that this one does not know.
    Version {
        /// Of the superblock.
        superblock: u16,
        /// Of the layout.
        layout: u16,
    },
}

impl Superblock {
    /// The values one after the other, in the order of `FIELDS`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..10].copy_from_slice(&SUPERBLOCK_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&LAYOUT_VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&ObjectClass::UNKNOWN.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.dir_class.0.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.file_class.0.to_le_bytes());
        let mode = if self.balanced { BALANCED } else { 0 };
        bytes[32..36].copy_from_slice(&mode.to_le_bytes());
        bytes
    }

    /// Reads the values.
    ///
    /// # Errors
    /// If they are damaged or of another version.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Result<Self, Unreadable> {
        if number(&bytes[..8]) != MAGIC {
            return Err(Unreadable::Damaged);
        }
        let version = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (superblock, layout) = (version(8), version(10));
        if (superblock, layout) != (SUPERBLOCK_VERSION, LAYOUT_VERSION) {
            return Err(Unreadable::Version { superblock, layout });
        }
        let class = |at: usize| {
            ObjectClass(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        let read = Self {
            chunk_bytes: number(&bytes[12..20]),
            dir_class: class(24),
            file_class: class(28),
            balanced: class(32).0 == BALANCED,
        };
        if is_chunk(read.chunk_bytes) { Ok(read) } else { Err(Unreadable::Damaged) }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}

/// Whether files may have chunks of this size.
#[must_use]
pub fn is_chunk(bytes: u64) -> bool {
    (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            chunk_bytes: 1 << 20,
            dir_class: ObjectClass::S1,
            file_class: ObjectClass::SX,
            balanced: false,
        }
    }

    #[test]
    fn superblock_has_its_golden_bytes() {
        let golden: [u8; BYTES] = [
            0x50, 0xdf, 0x05, 0xda, 0x50, 0xdf, 0x05, 0xda, // magic
            2, 0, // superblock version
            3, 0, // layout version
            0, 0, 0x10, 0, 0, 0, 0, 0, // chunk
            0, 0, 0, 0, // class
            1, 0, 0, 1, // directories S1
            0xff, 0xff, 0, 1, // files SX
            0, 0, 0, 0, // relaxed
        ];
        assert_eq!(sample().to_bytes(), golden);
        assert_eq!(Superblock::from_bytes(&golden), Ok(sample()));
        let balanced = Superblock { balanced: true, ..sample() };
        assert_eq!(balanced.to_bytes()[32..], [4, 0, 0, 0]);
        assert_eq!(Superblock::from_bytes(&balanced.to_bytes()), Ok(balanced));
    }

    #[test]
    fn superblock_of_another_version_or_damaged_is_refused() {
        let mut bytes = sample().to_bytes();
        bytes[10] = 4;
        assert_eq!(Superblock::from_bytes(&bytes), Err(Unreadable::Version { superblock: 2, layout: 4 }));
        bytes[0] ^= 1;
        assert_eq!(Superblock::from_bytes(&bytes), Err(Unreadable::Damaged));
        let mut tiny_chunk = sample().to_bytes();
        tiny_chunk[12..15].copy_from_slice(&[0xff, 0, 0]);
        assert_eq!(Superblock::from_bytes(&tiny_chunk), Err(Unreadable::Damaged));
    }
}
