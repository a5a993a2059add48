//! The bytes of a file in shared 4 KiB pages: copying an image costs a pointer a page.

use crate::disk::byte_count;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// A missing page is zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pages: Vec<Option<Arc<Page>>>,
    len: u64,
}

impl Image {
    pub(crate) fn zeroed(len: u64) -> Self {
        let pages = usize::try_from(len.div_ceil(byte_count(PAGE_BYTES))).unwrap_or(usize::MAX);
        Self { pages: vec![None; pages], len }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut image = Self::zeroed(byte_count(bytes.len()));
        image.write(0, bytes);
        image
    }

    /// Makes it longer by zeros; a shorter length changes nothing.
    pub(crate) fn lengthen(&mut self, len: u64) {
        if len > self.len {
            let pages = usize::try_from(len.div_ceil(byte_count(PAGE_BYTES))).unwrap_or(usize::MAX);
            self.pages.resize(pages, None);
            self.len = len;
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// REQUIRES: the range lies inside.
    pub(crate) fn read(&self, offset: u64, mut out: &mut [u8]) {
        let mut at = usize::try_from(offset).expect("inside an image in memory");
        while !out.is_empty() {
            let (page, from) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let count = out.len().min(PAGE_BYTES - from);
            let (piece, rest) = out.split_at_mut(count);
            match &self.pages[page] {
                Some(bytes) => piece.copy_from_slice(&bytes[from..from + count]),
                None => piece.fill(0),
            }
            out = rest;
            at += count;
        }
    }

    /// REQUIRES: the range lies inside.
    pub(crate) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = usize::try_from(offset).expect("inside an image in memory");
        while !bytes.is_empty() {
            let (page, from) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let count = bytes.len().min(PAGE_BYTES - from);
            let (piece, rest) = bytes.split_at(count);
            let slot = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(slot)[from..from + count].copy_from_slice(piece);
            bytes = rest;
            at += count;
        }
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).expect("an image in memory")];
        self.read(0, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_keeps_bytes_over_page_ends_and_copies_share_nothing_visible() {
        let mut image = Image::zeroed(10_000);
        let before = image.clone();
        image.write(4090, b"over the edge");
        let mut out = [0; 13];
        image.read(4090, &mut out);
        assert_eq!(&out, b"over the edge");
        assert_eq!(before.to_vec(), vec![0; 10_000]);
        assert_eq!(Image::of(&image.to_vec()).to_vec(), image.to_vec());
    }
}
