//! The footer of a run: its last page, and the key to the rest of the file.
//!
//! A run is entry blocks, fence blocks, filter blocks, footer, one after the other. The numbers of pages here
//! say where each section begins; the length of the file is known from the manifest.
//!
//! Invariants: the sections fill the file up to the footer; the last key is at most a page less the fixed part.

use crate::run_block::{RUN_BLOCK_PAGES_MAX, RUN_FILTER_BLOCK_LINES, RUN_PAGE_BYTES, RunDamage, SUM_BYTES};
use dolmen_types::{IoBuf, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u64 = 0x544f_4f46_4e55_5244;
const VERSION: u16 = 3;
const FIXED_BYTES: usize = 80;
/// Pages of a full filter block.
const FILTER_BLOCK_PAGES: u32 = 8;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    /// crc32c of everything behind it.
    sum: U32,
    version: U16,
    last_key_len: U16,
    magic: U64,
    features: U32,
    run: U32,
    entries: U64,
    blocks: U32,
    entry_pages: U32,
    fence_pages: U32,
    filter_pages: U32,
    filter_lines: U32,
    holds: U32,
    epoch_min: U64,
    epoch_max: U64,
    plain_bytes: U64,
}

const _: () = assert!(size_of::<Fixed>() == FIXED_BYTES);
const _: () = assert!(core::mem::offset_of!(Fixed, version) == SUM_BYTES);

/// What a run says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunFooter {
    /// Its number.
    pub run: u32,
    /// Entries.
    pub entries: u64,
    /// Entry blocks.
    pub blocks: u32,
    /// Pages of entry blocks.
    pub entry_pages: u32,
    /// Pages of fence blocks, one each.
    pub fence_pages: u32,
    /// Pages of filter blocks.
    pub filter_pages: u32,
    /// Lines of the filter.
    pub filter_lines: u32,
    /// A bit for each kind of version that it has entries of, and [`RunFooter::HOLDS_REMOVALS`].
    pub holds: u32,
    /// The smallest epoch of an entry.
    pub epoch_min: u64,
    /// The largest epoch of an entry.
    pub epoch_max: u64,
    /// Bytes of the entries among others, if those of a block shared no more than what their keys begin with.
    pub plain_bytes: u64,
    /// The last key.
    pub last_key: Vec<u8>,
}

impl RunFooter {
    /// It has holes or removed single values.
    pub const HOLDS_REMOVALS: u32 = 1 << 8;

    /// Pages of the whole file.
    #[must_use]
    pub fn file_pages(&self) -> u64 {
        u64::from(self.entry_pages) + u64::from(self.fence_pages) + u64::from(self.filter_pages) + 1
    }

    /// Byte offset of the fence.
    #[must_use]
    pub fn fence_offset(&self) -> u64 {
        u64::from(self.entry_pages) * RUN_PAGE_BYTES as u64
    }

    /// Byte offset of the filter.
    #[must_use]
    pub fn filter_offset(&self) -> u64 {
        self.fence_offset() + u64::from(self.fence_pages) * RUN_PAGE_BYTES as u64
    }

    /// Encodes the page.
    ///
    /// # Panics
    /// If the last key has more than 4016 bytes.
    #[must_use]
    pub fn encode(&self) -> IoBuf {
        let mut page = IoBuf::zeroed(RUN_PAGE_BYTES);
        let fixed = Fixed {
            sum: 0.into(),
            version: VERSION.into(),
            last_key_len: u16::try_from(self.last_key.len()).expect("keys are limited").into(),
            magic: MAGIC.into(),
            features: 0.into(),
            run: self.run.into(),
            entries: self.entries.into(),
            blocks: self.blocks.into(),
            entry_pages: self.entry_pages.into(),
            fence_pages: self.fence_pages.into(),
            filter_pages: self.filter_pages.into(),
            filter_lines: self.filter_lines.into(),
            holds: self.holds.into(),
            epoch_min: self.epoch_min.into(),
            epoch_max: self.epoch_max.into(),
            plain_bytes: self.plain_bytes.into(),
        };
        page[..FIXED_BYTES].copy_from_slice(fixed.as_bytes());
        page[FIXED_BYTES..FIXED_BYTES + self.last_key.len()].copy_from_slice(&self.last_key);
        let sum = crc32c(&page[SUM_BYTES..]);
        page[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Decodes the last page of the file of `run`, which has `file_bytes`.
    ///
    /// # Errors
    /// `RunDamage` unless it is the footer of that run and describes a file of that length.
    pub fn decode(page: &[u8], run: u32, file_bytes: u64) -> Result<Self, RunDamage> {
        let offset = file_bytes.saturating_sub(RUN_PAGE_BYTES as u64);
        let damage = RunDamage { run, offset };
        let footer = Self::decode_page(page).ok_or(damage)?;
        let is_whole = footer.file_pages() * RUN_PAGE_BYTES as u64 == file_bytes;
        if footer.run == run && is_whole && footer.is_consistent() { Ok(footer) } else { Err(damage) }
    }

    fn decode_page(page: &[u8]) -> Option<Self> {
        let (fixed, rest) = Fixed::read_from_prefix(page).ok()?;
        let named =
            fixed.magic.get() == MAGIC && fixed.version.get() == VERSION && page.len() == RUN_PAGE_BYTES;
        if !named || crc32c(&page[SUM_BYTES..]) != fixed.sum.get() {
            return None;
        }
        // A feature that this version does not know may change what the rest means.
        if fixed.features.get() != 0 {
            return None;
        }
        Some(Self {
            run: fixed.run.get(),
            entries: fixed.entries.get(),
            blocks: fixed.blocks.get(),
            entry_pages: fixed.entry_pages.get(),
            fence_pages: fixed.fence_pages.get(),
            filter_pages: fixed.filter_pages.get(),
            filter_lines: fixed.filter_lines.get(),
            holds: fixed.holds.get(),
            epoch_min: fixed.epoch_min.get(),
            epoch_max: fixed.epoch_max.get(),
            plain_bytes: fixed.plain_bytes.get(),
            last_key: rest.get(..usize::from(fixed.last_key_len.get()))?.to_vec(),
        })
    }

    /// Whether the numbers fit each other; their sum has been held against the length of the file.
    fn is_consistent(&self) -> bool {
        let blocks_fit = self.blocks <= self.entry_pages
            && u64::from(self.entry_pages) <= u64::from(self.blocks) * RUN_BLOCK_PAGES_MAX as u64;
        let full = u64::from(self.filter_pages / FILTER_BLOCK_PAGES) + 1;
        let lines_fit = u64::from(self.filter_lines) <= full * RUN_FILTER_BLOCK_LINES as u64;
        // An entry is at least a word, and at most two templates of 64 bytes are left out of it.
        let plain_fits = self.plain_bytes / 32 <= self.fence_offset();
        blocks_fit
            && lines_fit
            && plain_fits
            && self.fence_pages <= self.blocks
            && u64::from(self.blocks) <= self.entries
            // An entry takes a word at least: a merge makes room for as many keys as its runs say they have.
            && self.entries <= self.fence_offset() / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> RunFooter {
        RunFooter {
            run: 0x0102_0304,
            entries: 100,
            blocks: 5,
            entry_pages: 7,
            fence_pages: 1,
            filter_pages: 1,
            filter_lines: 2,
            holds: 0,
            epoch_min: 0x11,
            epoch_max: 0x2233,
            plain_bytes: 0x4455,
            last_key: b"stone".to_vec(),
        }
    }

    #[test]
    fn footer_round_trips_and_any_flip_is_seen() {
        let mut page = example().encode();
        let decode = |page: &[u8]| RunFooter::decode(page, 0x0102_0304, 40960);
        assert_eq!(decode(&page), Ok(example()));
        for byte in 0..RUN_PAGE_BYTES {
            page[byte] ^= 4;
            assert_eq!(decode(&page), Err(RunDamage { run: 0x0102_0304, offset: 36864 }), "byte {byte}");
            page[byte] ^= 4;
        }
        assert!(RunFooter::decode(&page, 5, 40960).is_err());
        assert!(RunFooter::decode(&page, 0x0102_0304, 40960 + 4096).is_err());
        assert_eq!((example().fence_offset(), example().filter_offset()), (7 * 4096, 8 * 4096));
    }

    #[test]
    fn a_feature_that_is_not_known_refuses_the_run() {
        let mut page = example().encode();
        page[16] = 1;
        let sum = crc32c(&page[SUM_BYTES..]);
        page[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert!(RunFooter::decode(&page, 0x0102_0304, 40960).is_err());
    }

    #[test]
    fn golden_bytes_of_a_footer() {
        let page = example().encode();
        let golden: [&[u8]; 9] = [
            &GOLDEN_SUM,
            b"\x03\0\x05\0DRUNFOOT",
            b"\0\0\0\0\x04\x03\x02\x01",
            b"\x64\0\0\0\0\0\0\0",
            b"\x05\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0",
            b"\x11\0\0\0\0\0\0\0",
            b"\x33\x22\0\0\0\0\0\0",
            b"\x55\x44\0\0\0\0\0\0",
            b"stone",
        ];
        let golden = golden.concat();
        assert_eq!(&page[..golden.len()], golden);
        assert!(page[golden.len()..].iter().all(|&byte| byte == 0));
    }

    /// Of the bytes above and the zeros behind them; computed once, then written down.
    const GOLDEN_SUM: [u8; 4] = [81, 56, 147, 82];

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), len: u64) {
            prop_assert!(RunFooter::decode(&bytes, 0, len).is_err());
        }
    }
}
