//! The frame of a log record: 24 bytes before each body.
//!
//! Invariants: frames of a segment are contiguous, 8-byte aligned, with consecutive sequence numbers; the
//! checksum covers everything after itself, body included; the place of the header behind the last frame is
//! blank as far as the segment reaches.

use crate::bytes::Reader;
use dolmen_types::crc32c;

/// Bytes of the encoded frame header.
pub const LOG_FRAME_HEADER_BYTES: usize = 24;
/// The first bytes of a header, checksum, length and kind: written last and at once, so that a frame that has them
/// was whole.
pub const LOG_FRAME_SEAL_BYTES: usize = 8;
/// Frames start at multiples of this.
pub const LOG_FRAME_ALIGN: usize = 8;

/// What a log record is. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogKind {
    /// A committed write to one object.
    Write = 1,
    /// This target's part of a transaction.
    Prepare = 2,
    /// A transaction is committed.
    Commit = 3,
    /// A transaction is aborted.
    Abort = 4,
    /// Something happened to a container.
    Cont = 5,
    /// Epochs up to this one may have been given out.
    Ceiling = 6,
    /// A client's number.
    Client = 7,
    /// A credential's number.
    Cred = 8,
    /// Values moved here from other segments, each as a `Write` of nobody has it, at a multiple of
    /// [`LOG_FRAME_ALIGN`]; the run that refers to one names the place of its bytes.
    Moved = 9,
    /// Every participant of a committed transaction that this target leads knows of the commit.
    Conclude = 10,
}

impl LogKind {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Write,
            2 => Self::Prepare,
            3 => Self::Commit,
            4 => Self::Abort,
            5 => Self::Cont,
            6 => Self::Ceiling,
            7 => Self::Client,
            8 => Self::Cred,
            9 => Self::Moved,
            10 => Self::Conclude,
            _ => return None,
        })
    }
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFrame {
    /// What the body is.
    pub kind: LogKind,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Counts up by one over all segments of a target.
    pub sequence: u64,
    /// The segment's.
    pub salt: u32,
    /// Frames before this one, counted back from it, that had not been flushed when it was written; saturates.
    /// What lies further back was durable: damage there is corruption, not an interrupted write.
    pub unflushed: u32,
}

const BODY_BYTES_MAX: u32 = (1 << 24) - 1;

impl LogFrame {
    /// The largest body a frame can have.
    pub const BODY_BYTES_MAX: usize = BODY_BYTES_MAX as usize;

    /// Bytes that the frame takes in a segment, padding included.
    #[must_use]
    pub const fn padded_bytes(body_bytes: usize) -> usize {
        (LOG_FRAME_HEADER_BYTES + body_bytes).next_multiple_of(LOG_FRAME_ALIGN)
    }

    /// Fills the header space at the start of `frame`, whose rest is the body.
    ///
    /// REQUIRES: `frame.len() == LOG_FRAME_HEADER_BYTES + body_bytes`.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn seal(&self, frame: &mut [u8]) {
        assert_eq!(frame.len(), LOG_FRAME_HEADER_BYTES + self.body_bytes as usize);
        assert!(self.body_bytes <= BODY_BYTES_MAX);
        let word = self.body_bytes | (u32::from(self.kind as u8) << 24);
        frame[4..8].copy_from_slice(&word.to_le_bytes());
        frame[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        frame[16..20].copy_from_slice(&self.salt.to_le_bytes());
        frame[20..24].copy_from_slice(&self.unflushed.to_le_bytes());
        let sum = crc32c(&frame[4..]);
        frame[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Bytes of a frame that was begun at the start of `bytes` and is not whole, padding included; 0 if none was.
    ///
    /// Behind every frame the place of the next header is blank, so whatever stands there was meant to be the
    /// frame with this salt and sequence number. A header that has neither is too damaged to tell a length.
    #[must_use]
    pub fn begun_bytes(bytes: &[u8], salt: u32, sequence: u64) -> usize {
        let Some(header) = bytes.get(..LOG_FRAME_HEADER_BYTES) else {
            return 0;
        };
        if header.iter().all(|&byte| byte == 0) {
            return 0;
        }
        let mut r = Reader::new(&header[4..]);
        let fields = (r.u32(), r.u64(), r.u32());
        let (Some(word), Some(found_sequence), Some(found_salt)) = fields else {
            return 0;
        };
        let is_named = found_sequence == sequence || found_salt == salt;
        let body_bytes = if is_named { (word & BODY_BYTES_MAX) as usize } else { 0 };
        Self::padded_bytes(body_bytes).min(bytes.len())
    }

    /// Whether a frame at the start of `bytes` was written to its end. Behind every frame the place of the next header
    /// is blank.
    #[must_use]
    pub fn is_sealed(bytes: &[u8]) -> bool {
        bytes.len() >= LOG_FRAME_HEADER_BYTES && bytes[..LOG_FRAME_SEAL_BYTES].iter().any(|&byte| byte != 0)
    }

    /// The salt that the frame at the start of `bytes` says it has, damaged or not.
    #[must_use]
    pub fn salt_of(bytes: &[u8]) -> Option<u32> {
        Reader::new(bytes.get(16..)?).u32()
    }

    /// Reads the frame at the start of `bytes` and its body; `None` unless it is whole, of this salt and its
    /// checksum is right.
    #[must_use]
    pub fn open(bytes: &[u8], salt: u32) -> Option<(Self, &[u8])> {
        let mut r = Reader::new(bytes);
        let sum = r.u32()?;
        let word = r.u32()?;
        let sequence = r.u64()?;
        if r.u32()? != salt {
            return None;
        }
        let unflushed = r.u32()?;
        let body_bytes = word & BODY_BYTES_MAX;
        let body = r.take(body_bytes as usize)?;
        if crc32c(&bytes[4..r.position()]) != sum {
            return None;
        }
        let kind = LogKind::from_number(word.to_le_bytes()[3])?;
        Some((Self { kind, body_bytes, sequence, salt, unflushed }, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_round_trips_and_any_flip_is_seen() {
        let frame = LogFrame { kind: LogKind::Cont, body_bytes: 5, sequence: 9, salt: 77, unflushed: 3 };
        let mut bytes = vec![0; LOG_FRAME_HEADER_BYTES];
        bytes.extend_from_slice(b"stone");
        frame.seal(&mut bytes);
        assert_eq!(crate::bytes::golden(&bytes), 0x5831_da4c_f373_9312);
        assert_eq!(LogFrame::open(&bytes, 77), Some((frame, &b"stone"[..])));
        assert_eq!(LogFrame::open(&bytes, 78), None);
        bytes.resize(100, 0);
        for bit in 0..(LOG_FRAME_HEADER_BYTES + 5) * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogFrame::open(&bad, 77), None, "bit {bit}");
            assert!(LogFrame::begun_bytes(&bad, 77, 9) >= LOG_FRAME_HEADER_BYTES, "bit {bit}");
        }
    }

    #[test]
    fn a_begun_frame_is_as_long_as_it_says_and_a_blank_place_holds_none() {
        let frame = LogFrame { kind: LogKind::Cont, body_bytes: 5, sequence: 9, salt: 77, unflushed: 3 };
        let mut bytes = vec![0; LOG_FRAME_HEADER_BYTES];
        bytes.extend_from_slice(b"stone");
        frame.seal(&mut bytes);
        bytes.resize(100, 0);
        assert_eq!(LogFrame::begun_bytes(&bytes, 77, 9), 32);
        assert_eq!(LogFrame::begun_bytes(&bytes, 1, 9), 32);
        assert_eq!(LogFrame::begun_bytes(&bytes, 1, 2), LOG_FRAME_HEADER_BYTES);
        assert_eq!(LogFrame::begun_bytes(&bytes[40..], 77, 9), 0);
        assert_eq!(LogFrame::begun_bytes(&bytes[..20], 77, 9), 0);
    }
}
