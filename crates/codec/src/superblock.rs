//! The superblock: which manifest is current. Two slots of 4 KiB, written in turn.
//!
//! Invariants: the slot with the higher sequence and a right checksum counts; a torn write leaves the other.

use crate::bytes::Reader;
use dolmen_types::crc32c;

/// Bytes of one slot.
pub const SUPERBLOCK_SLOT_BYTES: usize = 4096;
const MAGIC: u64 = 0x5245_5055_534c_4f44;
const VERSION: u16 = 3;
const BODY_BYTES: usize = 96;
/// Writes that a superblock has had at the most: what goes on from there overflows nothing.
const SEQUENCE_MAX: u64 = u64::MAX / 4;

/// What a slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Superblock {
    /// Feature bits that a reader must know; unknown ones refuse the open.
    pub features: u32,
    /// The target: in a pool, derived from its UUID and the target's number.
    pub target_id: u128,
    /// Grows by one with each write; its parity is the slot.
    pub sequence: u64,
    /// Number of the manifest file.
    pub manifest: u32,
    /// Bytes of the manifest.
    pub manifest_bytes: u32,
    /// crc32c of the manifest.
    pub manifest_sum: u32,
    /// Whether the target was closed: nothing follows the checkpoint in the log.
    pub clean: bool,
    /// The run of the machine in which this was written, 0 if unknown: while it lasts, nothing that was written to
    /// the log behind the checkpoint can be lost or torn, but for a frame that was being written.
    pub boot_id: u128,
    /// The life of the pool in which this target was last open: an older copy of it has an earlier one.
    pub life: u64,
}

impl Superblock {
    /// Encodes one slot.
    ///
    /// # Panics
    /// Never: the fields have fixed sizes.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_SLOT_BYTES] {
        let mut out = Vec::with_capacity(SUPERBLOCK_SLOT_BYTES);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u16::from(self.clean).to_le_bytes());
        out.extend_from_slice(&self.features.to_le_bytes());
        out.extend_from_slice(&self.target_id.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.manifest.to_le_bytes());
        out.extend_from_slice(&self.manifest_bytes.to_le_bytes());
        out.extend_from_slice(&self.manifest_sum.to_le_bytes());
        out.extend_from_slice(&self.boot_id.to_le_bytes());
        out.extend_from_slice(&self.life.to_le_bytes());
        out.resize(BODY_BYTES - 4, 0);
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out.resize(SUPERBLOCK_SLOT_BYTES, 0);
        out.try_into().expect("resized to a slot")
    }

    /// Decodes a slot; `None` unless magic, version and checksum are right and the padding is zero, or if it was written
    /// more often than any can be.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, mut r) = Self::begin(bytes)?;
        if version != VERSION {
            return None;
        }
        let clean = r.u16()? == 1;
        let superblock = Self {
            clean,
            features: r.u32()?,
            target_id: r.u128()?,
            sequence: r.u64()?,
            manifest: r.u32()?,
            manifest_bytes: r.u32()?,
            manifest_sum: r.u32()?,
            boot_id: r.u128()?,
            life: r.u64()?,
        };
        (superblock.sequence <= SEQUENCE_MAX).then_some(superblock)
    }

    /// Whether a slot is whole, and of a version that this code does not read: no damage.
    #[must_use]
    pub fn is_of_another_version(bytes: &[u8]) -> bool {
        Self::begin(bytes).is_some_and(|(version, _)| version != VERSION)
    }

    /// The version, and what follows it; `None` unless magic and checksum are right and the padding is zero. Every
    /// version has these three at the same place.
    fn begin(bytes: &[u8]) -> Option<(u16, Reader<'_>)> {
        let slot = bytes.get(..SUPERBLOCK_SLOT_BYTES)?;
        let (body, padding) = slot.split_at(BODY_BYTES);
        let (body, sum) = body.split_at(BODY_BYTES - 4);
        if sum != crc32c(body).to_le_bytes() || padding.iter().any(|&b| b != 0) {
            return None;
        }
        let mut r = Reader::new(body);
        if r.u64()? != MAGIC {
            return None;
        }
        Some((r.u16()?, r))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblock_round_trips_and_any_flip_is_seen() {
        let block = Superblock {
            features: 0,
            target_id: 1,
            sequence: 2,
            manifest: 3,
            manifest_bytes: 4,
            manifest_sum: 5,
            clean: true,
            boot_id: 6,
            life: 7,
        };
        let bytes = block.encode();
        assert_eq!(crate::bytes::golden(&bytes), 0x89b7_5d54_81f5_f0aa);
        assert_eq!(Superblock::decode(&bytes), Some(block));
        for byte in 0..bytes.len() {
            let mut bad = bytes;
            bad[byte] ^= 0x10;
            assert_eq!(Superblock::decode(&bad), None, "byte {byte}");
            assert!(!Superblock::is_of_another_version(&bad), "byte {byte}");
        }
        let mut newer = bytes;
        newer[8] += 1;
        let sum = crc32c(&newer[..BODY_BYTES - 4]).to_le_bytes();
        newer[BODY_BYTES - 4..BODY_BYTES].copy_from_slice(&sum);
        assert_eq!(Superblock::decode(&newer), None);
        assert!(Superblock::is_of_another_version(&newer) && !Superblock::is_of_another_version(&bytes));
        for (sequence, is_known) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false)] {
            let block = Superblock { sequence, ..block };
            assert_eq!(Superblock::decode(&block.encode()), Some(block).filter(|_| is_known));
        }
    }
}
