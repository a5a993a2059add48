//! Little-endian reading and writing of records; every read is range-checked.

use dolmen_types::{Oid, Uuid};

/// How many leading bytes are the same in both.
#[must_use]
#[inline]
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..].first_chunk(), b[at..].first_chunk()) {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return at + differs.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// A cursor over untrusted bytes: each read is `None` past the end, never a panic.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(part)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// An object id.
    #[inline]
    pub fn oid(&mut self) -> Option<Oid> {
        self.array().map(Oid::from_bytes)
    }

    /// A UUID.
    pub fn uuid(&mut self) -> Option<Uuid> {
        self.array().map(Uuid::from_bytes)
    }

    /// A count that claims `each_bytes` or more a piece; `None` if the rest cannot hold that many, so a
    /// forged count never sizes an allocation.
    pub fn count(&mut self, each_bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(each_bytes)? <= self.remaining()).then_some(count)
    }
}

/// Appends a length as `u32`.
///
/// # Panics
/// If `len` is 4 GiB or more; limits in `types` keep every list far below.
pub fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&u32::try_from(len).expect("lists are limited far below 2^32").to_le_bytes());
}

/// A number that changes with any byte of a record: what is on disks must be read by later versions.
#[cfg(test)]
pub(crate) fn golden(bytes: &[u8]) -> u64 {
    let add = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use super::common_prefix_len;

    #[test]
    fn a_common_prefix_ends_at_the_first_byte_that_differs() {
        let bytes: Vec<u8> = (0..40).collect();
        for len in 0..bytes.len() {
            assert_eq!(common_prefix_len(&bytes, &bytes[..len]), len);
            let mut other = bytes.clone();
            other[len] ^= 0x80;
            assert_eq!(common_prefix_len(&bytes, &other), len);
            assert_eq!(common_prefix_len(&other[..=len], &bytes[..=len]), len);
        }
    }
}
