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

    /// What was read since the reader stood at `position`.
    ///
    /// # Panics
    /// If it has not been there yet.
    #[must_use]
    #[inline]
    pub fn read_since(&self, position: usize) -> &'a [u8] {
        &self.bytes[position..self.at]
    }

    /// Bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// What is not yet read.
    #[must_use]
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
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

    /// A number of one to ten bytes, seven bits each, the lowest first; `None` if it has more bytes than it needs.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < VARINT_MORE { Some(u64::from(first)) } else { self.long_varint(first) }
    }

    fn long_varint(&mut self, first: u8) -> Option<u64> {
        let mut number = u64::from(first - VARINT_MORE);
        for shift in (VARINT_BITS..u64::BITS).step_by(VARINT_BITS as usize) {
            let byte = self.u8()?;
            let bits = u64::from(byte & !VARINT_MORE);
            let placed = bits << shift;
            if placed >> shift != bits {
                return None;
            }
            number |= placed;
            if byte < VARINT_MORE {
                return (byte > 0).then_some(number);
            }
        }
        None
    }

    /// A count that claims `each_bytes` or more a piece; `None` if the rest cannot hold that many, so a
    /// forged count never sizes an allocation.
    pub fn count(&mut self, each_bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(each_bytes)? <= self.remaining()).then_some(count)
    }
}

/// Set in each byte of a number but the last.
const VARINT_MORE: u8 = 0x80;
/// Bits of a number in each byte.
const VARINT_BITS: u32 = 7;

/// Writes a number as [`Reader::varint`] reads it, and says where it ends.
///
/// # Panics
/// If `out` has no room from `at` on.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each byte takes the lowest bits")]
pub(crate) fn put_varint(out: &mut [u8], at: usize, number: u64) -> usize {
    let (mut at, mut rest) = (at, number);
    while rest >= u64::from(VARINT_MORE) {
        out[at] = rest as u8 | VARINT_MORE;
        rest >>= VARINT_BITS;
        at += 1;
    }
    out[at] = rest as u8;
    at + 1
}

/// Bytes of a number as [`Reader::varint`] reads it.
#[must_use]
#[inline]
pub(crate) fn varint_bytes(number: u64) -> usize {
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(VARINT_BITS) as usize
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
    use super::{Reader, common_prefix_len, put_varint, varint_bytes};

    #[test]
    fn numbers_take_the_bytes_that_they_need() {
        let mut all = vec![0, u64::MAX];
        all.extend((0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for number in all {
            let mut bytes = [0; 10];
            let len = put_varint(&mut bytes, 0, number);
            assert_eq!(len, varint_bytes(number), "{number}");
            let mut reader = Reader::new(&bytes[..len]);
            assert_eq!((reader.varint(), reader.remaining()), (Some(number), 0), "{number}");
            assert_eq!(Reader::new(&bytes[..len - 1]).varint(), None, "{number} cut short");
        }
    }

    #[test]
    fn a_number_with_more_bytes_than_it_needs_is_refused() {
        for bytes in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0xff; 11]] {
            assert_eq!(Reader::new(bytes).varint(), None, "{bytes:?}");
        }
        let mut beyond = [0xff; 10];
        beyond[9] = 2;
        assert_eq!(Reader::new(&beyond).varint(), None);
    }

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
