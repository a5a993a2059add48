//! Bytes that handles travel in from process to process: magic, parts with their lengths, checksum.
//!
//! Invariants: what has another magic, another checksum, or parts that do not fill it is refused.

use super::EINVAL;
use crate::error::{Der, PosixResult};
use crate::raw::Out;
use crate::types::Iov;
use dolmen_types::crc32c;

/// No path, name or system is longer.
const PART_BYTES_MAX: usize = 64 << 10;

/// Bytes being made.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn begin(magic: [u8; 8]) -> Self {
        Self(magic.to_vec())
    }

    /// Bytes that are complete.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// The bytes, complete with their checksum.
    pub(super) fn end(mut self) -> Vec<u8> {
        let sum = crc32c(&self.0);
        self.0.extend_from_slice(&sum.to_le_bytes());
        self.0
    }

    /// Gives the bytes to a C program: without a buffer only their length, into one that is too short an error.
    pub(super) fn give(self, glob: Out<Iov>) -> PosixResult<()> {
        let mut iov = glob.get()?;
        let room = iov.buf_len;
        iov.buf_len = self.0.len();
        if iov.buf.is_null() {
            return Ok(glob.set(iov)?);
        }
        if room < self.0.len() {
            glob.set(iov)?;
            return Err(Der::TRUNC.into());
        }
        iov.buf.copy_from(&self.0)?;
        iov.buf_len = room;
        iov.len = self.0.len();
        Ok(glob.set(iov)?)
    }
}

/// Bytes being read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The parts of `bytes`, which may be followed by what a longer buffer holds.
    pub(super) fn new(magic: [u8; 8], bytes: &'a [u8]) -> PosixResult<Self> {
        let (rest, sum) = bytes.split_last_chunk::<4>().ok_or(EINVAL)?;
        if u32::from_le_bytes(*sum) != crc32c(rest) {
            return Err(EINVAL);
        }
        Ok(Self(rest.strip_prefix(&magic).ok_or(EINVAL)?))
    }

    pub(super) fn number(&mut self) -> PosixResult<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or(EINVAL)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(super) fn bytes(&mut self) -> PosixResult<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok().filter(|&len| len <= PART_BYTES_MAX).ok_or(EINVAL)?;
        let (part, rest) = self.0.split_at_checked(len).ok_or(EINVAL)?;
        self.0 = rest;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_damage_is_refused() {
        let mut out = Writer::begin(*b"a magic.");
        out.number(7);
        out.bytes(b"stone");
        let bytes = out.end();
        let mut read = Reader::new(*b"a magic.", &bytes).ok().unwrap();
        assert_eq!((read.number(), read.bytes()), (Ok(7), Ok(&b"stone"[..])));
        assert_eq!(read.number(), Err(EINVAL));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Reader::new(*b"a magic.", &bad).is_err(), "{at}");
            assert!(Reader::new(*b"a magic.", &bytes[..at]).is_err(), "{at}");
        }
        assert!(Reader::new(*b"a Magic.", &bytes).is_err());
    }
}
