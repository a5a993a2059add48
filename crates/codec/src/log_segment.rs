//! The header of a log segment: 64 bytes at offset 0.
//!
//! Invariants: a frame in the segment is valid only with this header's salt, so what an earlier life of a
//! recycled segment left behind is never mistaken for a record.

use crate::bytes::Reader;
use dolmen_types::crc32c;

/// Bytes of the encoded header.
pub const LOG_SEGMENT_HEADER_BYTES: usize = 64;
const MAGIC: u64 = 0x4745_534c_4f44_0a01;
const VERSION: u16 = 3;

/// What a log segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSegmentHeader {
    /// The target it belongs to.
    pub target_id: u128,
    /// The file's number.
    pub number: u32,
    /// Drawn anew for every life of the segment.
    pub salt: u32,
    /// Sequence number of its first frame.
    pub first_sequence: u64,
}

impl LogSegmentHeader {
    /// Encodes, checksum last.
    ///
    /// # Panics
    /// Never: the fields have fixed sizes.
    #[must_use]
    pub fn encode(&self) -> [u8; LOG_SEGMENT_HEADER_BYTES] {
        let mut out = Vec::with_capacity(LOG_SEGMENT_HEADER_BYTES);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&self.target_id.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        out.resize(LOG_SEGMENT_HEADER_BYTES - 4, 0);
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out.try_into().expect("padded to the size of a header")
    }

    /// Decodes; `None` unless magic, version and checksum are right.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..LOG_SEGMENT_HEADER_BYTES)?;
        let (body, sum) = bytes.split_at(LOG_SEGMENT_HEADER_BYTES - 4);
        if sum != crc32c(body).to_le_bytes() {
            return None;
        }
        let mut r = Reader::new(body);
        if r.u64()? != MAGIC || r.u16()? != VERSION {
            return None;
        }
        r.take(6)?;
        Some(Self { target_id: r.u128()?, number: r.u32()?, salt: r.u32()?, first_sequence: r.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_any_flip_is_seen() {
        let header = LogSegmentHeader { target_id: 5, number: 6, salt: 7, first_sequence: 8 };
        let bytes = header.encode();
        assert_eq!(crate::bytes::golden(&bytes), 0xd987_9f63_e958_8812);
        assert_eq!(LogSegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogSegmentHeader::decode(&bad), None, "bit {bit}");
        }
    }
}
