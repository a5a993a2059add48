//! An owned, 4 KiB-aligned byte buffer: what travels with an operation until its completion.

use core::fmt;
use core::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const PAGE_BYTES: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// An owned byte buffer whose start is 4 KiB-aligned, so a device can read and write it directly.
///
/// Its capacity is a whole number of 4 KiB pages. It moves into an operation and back with the
/// completion; nothing else may look at it in between.
#[derive(Clone, Default)]
pub struct IoBuf {
    pages: Vec<Page>,
    len: usize,
}

impl IoBuf {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    /// If the allocator has no memory left, as any allocation.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let pages = Page::new_vec_zeroed(len.div_ceil(PAGE_BYTES)).expect("there is memory left");
        Self { pages, len }
    }

    /// As [`IoBuf::zeroed`]; `None` if there is no memory for it: for lengths that somebody else has chosen.
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let pages = Page::new_vec_zeroed(len.div_ceil(PAGE_BYTES)).ok()?;
        Some(Self { pages, len })
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the buffer can hold without allocating; a multiple of 4096.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// Sets the length; grows with zeros, keeps the allocation when it shrinks.
    ///
    /// Bytes between the old and a larger new length within the capacity are whatever was there before.
    pub fn set_len(&mut self, len: usize) {
        let pages = len.div_ceil(PAGE_BYTES);
        if pages > self.pages.len() {
            self.pages.resize(pages, Page([0; PAGE_BYTES]));
        }
        self.len = len;
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_slice().as_bytes()[..self.len]
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_slice().as_mut_bytes()[..self.len]
    }
}

impl From<&[u8]> for IoBuf {
    /// A copy: pages begin at multiples of 4096.
    fn from(bytes: &[u8]) -> Self {
        Self::copy_of(bytes)
    }
}

impl From<Vec<u8>> for IoBuf {
    /// A copy: pages begin at multiples of 4096.
    fn from(bytes: Vec<u8>) -> Self {
        Self::copy_of(&bytes)
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

impl PartialEq for IoBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_a_buffer_of_their_own() {
        let bytes = vec![7; 5000];
        assert_eq!(IoBuf::from(&bytes[..]), IoBuf::copy_of(&bytes));
        let buf = IoBuf::from(bytes);
        assert_eq!((buf.len(), buf.capacity(), buf.as_ptr().addr() % 4096), (5000, 8192, 0));
    }

    #[test]
    fn buffer_starts_on_a_page_and_keeps_its_bytes() {
        let mut buf = IoBuf::copy_of(b"stone");
        assert_eq!(buf.as_ptr() as usize % PAGE_BYTES, 0);
        assert_eq!(&buf[..], b"stone");
        buf.set_len(5000);
        assert_eq!((buf.capacity(), &buf[..5]), (8192, &b"stone"[..]));
    }
}
