//! A block of a run: sorted entries, or a piece of the run's fence or filter. A multiple of 4 KiB.
//!
//! Entries of one block are much alike, so a block stores once what they share. Behind the 64-byte header of an entry
//! block stand the prefix of all keys; the end of all keys and the front of all payloads, up to 64 bytes each, with
//! zeros where entries differ; padding to eight bytes; a table of one `u64` an entry: the six key bytes behind the
//! prefix (the head, high), and the offset of the entry (low 16 bits); then the entries. An entry is what is left of
//! it: the length of its key behind the prefix and that of its payload, as `u16`, where lengths differ; the key bytes
//! between head and shared end; the bytes of end and front in which entries differ, which two masks in the header
//! tell; the payload behind the front. Zeros fill the block up. A search compares integers in a few adjacent cache
//! lines and looks at an entry only on a tie. A fence block has the same form. A filter block has 64-byte lines behind
//! its header.
//!
//! Invariants: keys ascend strictly; a parsed block has been checked to its last offset, so that reading it can
//! neither fail nor leave it.

use crate::bytes::{Reader, common_prefix_len};
use crate::lanes::{self, LANES_MAX};
use core::cmp::Ordering;
use core::fmt;
use core::ops::Deref;
use dolmen_types::{IoBuf, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Blocks start at and are multiples of this.
pub const RUN_PAGE_BYTES: usize = 4096;
/// The largest block: an entry of one block is found by a `u16` offset.
pub const RUN_BLOCK_PAGES_MAX: usize = 15;
/// Bytes of the header.
pub const RUN_BLOCK_HEADER_BYTES: usize = 64;
/// Key and payload of one entry.
pub const RUN_ENTRY_BYTES_MAX: usize =
    RUN_BLOCK_PAGES_MAX * RUN_PAGE_BYTES - RUN_BLOCK_HEADER_BYTES - ENTRY_OVERHEAD_BYTES;
/// Bytes of a line of the filter: one cache line.
pub const RUN_FILTER_LINE_BYTES: usize = 64;
/// Lines of a filter block of eight pages.
pub const RUN_FILTER_BLOCK_LINES: usize =
    (8 * RUN_PAGE_BYTES - RUN_BLOCK_HEADER_BYTES) / RUN_FILTER_LINE_BYTES;

/// The table's word, and the padding before it; an entry that is alone in its block has no lengths.
const ENTRY_OVERHEAD_BYTES: usize = 8 + 8;
/// The table's word and the two lengths.
const ENTRY_PLAIN_BYTES: usize = 8 + 4;
/// What a page has besides entries as a rule: header, a template, padding.
const PAGE_OVERHEAD_BYTES: usize = RUN_BLOCK_HEADER_BYTES + LANES_MAX + 8;
/// Bytes of a key's suffix in the table.
const HEAD_BYTES: usize = 6;
const OFFSET_MASK: u64 = 0xffff;
const MAGIC: u32 = 0x4b42_5244;
const VERSION: u16 = 2;
/// Stands for the length that all have, where they differ.
const LENGTHS_DIFFER: u16 = u16::MAX;
/// The checksum comes first and covers the rest.
pub(crate) const SUM_BYTES: usize = 4;

/// What a block holds. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RunBlockKind {
    /// Entries of the index.
    Entries = 1,
    /// For each entry block a key that separates it from the one before, and its first page.
    Fence = 2,
    /// Lines of the filter.
    Filter = 3,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    /// crc32c of everything behind it.
    sum: U32,
    magic: U32,
    version: U16,
    kind: u8,
    pages: u8,
    run: U32,
    page: U32,
    end_len: u8,
    front_len: u8,
    reserved: U16,
    epoch_min: U64,
    epoch_max: U64,
    count: U16,
    prefix_len: U16,
    /// Of all keys behind the prefix, or [`LENGTHS_DIFFER`].
    suffix_len: U16,
    /// Of all payloads, or [`LENGTHS_DIFFER`].
    payload_len: U16,
    end_mask: U64,
    front_mask: U64,
}

const _: () = assert!(size_of::<Header>() == RUN_BLOCK_HEADER_BYTES);
const _: () = assert!(core::mem::offset_of!(Header, magic) == SUM_BYTES);
const _: () = assert!(RUN_BLOCK_PAGES_MAX * RUN_PAGE_BYTES <= u16::MAX as usize);

/// Bytes of a run are not what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunDamage {
    /// The run.
    pub run: u32,
    /// Where in its file, in bytes: the start of the block that failed.
    pub offset: u64,
}

impl fmt::Display for RunDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} is damaged at byte {}", self.run, self.offset)
    }
}

impl std::error::Error for RunDamage {}

/// What the entries of a block share.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    prefix_len: usize,
    /// Bytes at the end of each key, and at the front of each payload, that lanes and template make up.
    end_len: usize,
    front_len: usize,
    /// In which of them entries differ.
    end_mask: u64,
    front_mask: u64,
    /// Bits in the masks.
    end_lanes: usize,
    front_lanes: usize,
    /// The length of all keys behind the prefix, and of all payloads; `None` if they differ.
    suffix_len: Option<u16>,
    payload_len: Option<u16>,
}

impl Shape {
    /// With ends and fronts of these lengths, different in the bytes that the masks tell.
    fn sharing((end_len, end_mask): (usize, u64), (front_len, front_mask): (usize, u64)) -> Self {
        let (end_lanes, front_lanes) = (lanes::count(end_mask), lanes::count(front_mask));
        Self { end_len, front_len, end_mask, front_mask, end_lanes, front_lanes, ..Self::default() }
    }

    /// Where the end's template begins: behind it comes that of the front.
    fn templates_at(&self) -> usize {
        RUN_BLOCK_HEADER_BYTES + self.prefix_len
    }

    /// Where the table begins.
    fn table_at(&self) -> usize {
        (self.templates_at() + self.end_len + self.front_len).next_multiple_of(8)
    }

    /// Bytes of an entry besides what its own lengths tell: lengths and lanes.
    fn fixed_bytes(&self) -> usize {
        let lens = 2 * (usize::from(self.suffix_len.is_none()) + usize::from(self.payload_len.is_none()));
        lens + self.end_lanes + self.front_lanes
    }
}

/// Gathers the entries of one block.
#[derive(Debug)]
pub struct RunBlockBuilder {
    kind: RunBlockKind,
    /// Keys and payloads, one after the other, and behind them room to look at.
    bytes: Vec<u8>,
    /// What of it is keys and payloads.
    bytes_len: usize,
    lens: Vec<(u16, u16)>,
    /// Of the first entry: the end of its key and the front of its payload.
    end: [u8; LANES_MAX],
    front: [u8; LANES_MAX],
    common: Common,
    epoch_min: u64,
    epoch_max: u64,
}

/// What is known of the entries gathered.
#[derive(Clone, Copy, Debug)]
struct Common {
    prefix_len: usize,
    key_bytes: usize,
    payload_bytes: usize,
    /// The shortest and the longest key and payload.
    key_lens: (u16, u16),
    payload_lens: (u16, u16),
    /// Where the end of another's key, and the front of its payload, differ from those of the first. Bits of bytes
    /// that one of them does not have tell nothing.
    end_mask: u64,
    front_mask: u64,
}

impl Common {
    fn of(key: &[u8], payload: &[u8]) -> Self {
        Self {
            prefix_len: key.len(),
            key_bytes: key.len(),
            payload_bytes: payload.len(),
            key_lens: (narrow(key.len()), narrow(key.len())),
            payload_lens: (narrow(payload.len()), narrow(payload.len())),
            end_mask: 0,
            front_mask: 0,
        }
    }

    /// With one entry more, of which so much of the key is as in the first, and lanes differ where the masks tell.
    fn with(
        &self,
        (key_len, payload_len): (u16, u16),
        prefix_len: usize,
        (end_mask, front_mask): (u64, u64),
    ) -> Self {
        let widened = |(min, max): (u16, u16), len: u16| (min.min(len), max.max(len));
        Self {
            prefix_len,
            key_bytes: self.key_bytes + usize::from(key_len),
            payload_bytes: self.payload_bytes + usize::from(payload_len),
            key_lens: widened(self.key_lens, key_len),
            payload_lens: widened(self.payload_lens, payload_len),
            end_mask: self.end_mask | end_mask,
            front_mask: self.front_mask | front_mask,
        }
    }

    /// What the block stores of it.
    fn shape(&self) -> Shape {
        let ((key_min, key_max), (payload_min, payload_max)) = (self.key_lens, self.payload_lens);
        let behind_head = usize::from(key_min).saturating_sub(self.prefix_len + HEAD_BYTES);
        let (end_len, front_len) = (behind_head.min(LANES_MAX), usize::from(payload_min).min(LANES_MAX));
        let (end_mask, front_mask) =
            (lanes::last(self.end_mask, end_len), lanes::first(self.front_mask, front_len));
        Shape {
            prefix_len: self.prefix_len,
            suffix_len: (key_min == key_max).then(|| narrow(usize::from(key_min) - self.prefix_len)),
            payload_len: (payload_min == payload_max).then_some(payload_min),
            ..Shape::sharing((end_len, end_mask), (front_len, front_mask))
        }
    }
}

impl RunBlockBuilder {
    /// An empty block of entries or of a fence.
    #[must_use]
    pub fn new(kind: RunBlockKind) -> Self {
        Self {
            kind,
            bytes: vec![0; 4 * RUN_PAGE_BYTES],
            bytes_len: 0,
            lens: Vec::new(),
            end: [0; LANES_MAX],
            front: [0; LANES_MAX],
            common: Common::of(&[], &[]),
            epoch_min: u64::MAX,
            epoch_max: 0,
        }
    }

    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lens.len()
    }

    /// Bytes that its entries take where they share no more than what the keys begin with, among others in pages that
    /// end where the next one does not fit.
    #[must_use]
    pub fn plain_bytes(&self) -> usize {
        let common = &self.common;
        let plain = common.key_bytes + common.payload_bytes + self.lens.len() * ENTRY_PLAIN_BYTES
            - self.lens.len() * common.prefix_len;
        let lens = self.lens.iter().map(|&(key, payload)| usize::from(key) + usize::from(payload));
        let unfilled = PAGE_OVERHEAD_BYTES + lens.max().unwrap_or(0) + ENTRY_PLAIN_BYTES;
        plain * RUN_PAGE_BYTES / RUN_PAGE_BYTES.saturating_sub(unfilled).max(RUN_PAGE_BYTES / 4)
    }

    /// Adds an entry; `false`, and nothing changed, if the block has entries and this one does not fit its page.
    /// The first entry always fits: a long one makes a block of several pages.
    ///
    /// REQUIRES: `key` is above the last one.
    ///
    /// # Panics
    /// If key and payload have more than [`RUN_ENTRY_BYTES_MAX`] bytes.
    pub fn push(&mut self, key: &[u8], payload: &[u8], epoch: u64) -> bool {
        assert!(key.len() + payload.len() <= RUN_ENTRY_BYTES_MAX);
        let lens = (narrow(key.len()), narrow(payload.len()));
        let key_end = self.bytes_len + key.len();
        let end = key_end + payload.len();
        if self.bytes.len() < end + LANES_MAX {
            self.bytes.resize(2 * (end + LANES_MAX), 0);
        }
        self.bytes[self.bytes_len..key_end].copy_from_slice(key);
        self.bytes[key_end..end].copy_from_slice(payload);
        if self.lens.is_empty() {
            (self.end, self.front) = (lanes::end_of(key), lanes::front_of(payload));
            self.common = Common::of(key, payload);
        } else {
            let prefix_len = common_prefix_len(&self.bytes[..self.common.prefix_len], key);
            let common = self.common.with(lens, prefix_len, self.masks_at(key_end));
            if self.encoded_len(&common, Some(lens.0)) > RUN_PAGE_BYTES {
                return false;
            }
            self.common = common;
        }
        self.bytes_len = end;
        self.lens.push(lens);
        self.epoch_min = self.epoch_min.min(epoch);
        self.epoch_max = self.epoch_max.max(epoch);
        true
    }

    /// In which bytes before this place, and from it on, what is there differs from end and front of the first entry.
    fn masks_at(&self, key_end: usize) -> (u64, u64) {
        let (before, behind) = self.bytes.split_at(key_end);
        let front = behind.first_chunk().expect("room to look at was made");
        let end = match before.last_chunk() {
            Some(end) => lanes::differing(&self.end, end),
            None => lanes::differing(&self.end, &lanes::end_of(before)),
        };
        (end, lanes::differing(&self.front, front))
    }

    /// The key of the last entry; nothing if there is none.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        let (key_len, payload_len) = self.lens.last().copied().unwrap_or_default();
        let key_end = self.bytes_len - usize::from(payload_len);
        &self.bytes[key_end - usize::from(key_len)..key_end]
    }

    /// Encodes the block as page `page` of its section of the run, and begins an empty one.
    ///
    /// # Panics
    /// If there are no entries.
    pub fn finish(&mut self, run: u32, page: u32) -> IoBuf {
        assert!(!self.lens.is_empty());
        let (common, shape) = (self.common, self.common.shape());
        let len = self.encoded_len(&common, None);
        let mut block = IoBuf::zeroed(len.next_multiple_of(RUN_PAGE_BYTES));
        block[RUN_BLOCK_HEADER_BYTES..][..shape.prefix_len].copy_from_slice(&self.bytes[..shape.prefix_len]);
        let (end, front) = block[shape.templates_at()..].split_at_mut(shape.end_len);
        end.copy_from_slice(&self.end[LANES_MAX - shape.end_len..]);
        lanes::blank(shape.end_mask, end);
        front[..shape.front_len].copy_from_slice(&self.front[..shape.front_len]);
        lanes::blank(shape.front_mask, front);
        let end = self.encode_entries(&shape, &mut block);
        assert!(end == len);
        let epochs = (self.epoch_min, self.epoch_max);
        seal(&mut block, (self.kind, run, page), epochs, self.lens.len(), &shape);
        self.bytes_len = 0;
        self.lens.clear();
        (self.epoch_min, self.epoch_max) = (u64::MAX, 0);
        block
    }

    /// Fills the table and what follows; returns where that ends.
    fn encode_entries(&self, shape: &Shape, block: &mut [u8]) -> usize {
        let (table, mut rest) = (shape.table_at(), &self.bytes[..]);
        let mut at = table + 8 * self.lens.len();
        for (index, &(key_len, payload_len)) in self.lens.iter().enumerate() {
            let (key, behind) = rest.split_at(usize::from(key_len));
            let (payload, behind) = behind.split_at(usize::from(payload_len));
            rest = behind;
            let suffix = &key[shape.prefix_len..];
            let word = head_of(suffix) | u64::from(narrow(at));
            block[table + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
            let mut put = |bytes: &[u8]| {
                block[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            };
            if shape.suffix_len.is_none() {
                put(&narrow(suffix.len()).to_le_bytes());
            }
            if shape.payload_len.is_none() {
                put(&payload_len.to_le_bytes());
            }
            let (middle, end) =
                suffix.get(HEAD_BYTES..).unwrap_or_default().split_at(middle_len(suffix.len(), shape));
            let (front, behind) = payload.split_at(shape.front_len);
            put(middle);
            at += lanes::gather(shape.end_mask, end, &mut block[at..]);
            at += lanes::gather(shape.front_mask, front, &mut block[at..]);
            block[at..at + behind.len()].copy_from_slice(behind);
            at += behind.len();
        }
        at
    }

    /// Bytes of the block with what is common to its entries and, maybe, one more of which the key has this length.
    fn encoded_len(&self, common: &Common, more: Option<u16>) -> usize {
        let shape = common.shape();
        let count = self.lens.len() + usize::from(more.is_some());
        let shared = shape.prefix_len + HEAD_BYTES + shape.end_len;
        // Keys are longer than what is shared but for rare ones: then each is looked at.
        let middles: usize = if usize::from(common.key_lens.0) >= shared {
            common.key_bytes - count * shared
        } else {
            let keys = self.lens.iter().map(|&(key_len, _)| key_len).chain(more);
            keys.map(|key_len| usize::from(key_len).saturating_sub(shared)).sum()
        };
        let behind_fronts = common.payload_bytes - count * shape.front_len;
        shape.table_at() + count * (8 + shape.fixed_bytes()) + middles + behind_fronts
    }
}

/// Bytes of a key between its head and its end, if it has so many behind the prefix.
fn middle_len(suffix_len: usize, shape: &Shape) -> usize {
    suffix_len.saturating_sub(HEAD_BYTES + shape.end_len)
}

/// How many words of a table are below `head`.
///
/// Every eighth first: those loads do not wait for each other, so a block that is not in the cache costs about one
/// memory access instead of one a halving.
fn count_below(table: &[[u8; 8]], head: u64) -> usize {
    let is_below = |word: &[u8; 8]| usize::from(u64::from_le_bytes(*word) < head);
    let whole: usize = table.chunks_exact(8).map(|eight| is_below(&eight[7])).sum();
    let rest = &table[whole * 8..table.len().min(whole * 8 + 8)];
    whole * 8 + rest.iter().map(is_below).sum::<usize>()
}

/// The first six bytes of a suffix as an integer above 16 zero bits; missing bytes count as zero.
#[allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]
fn head_of(suffix: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = suffix.len().min(HEAD_BYTES);
    bytes[..len].copy_from_slice(&suffix[..len]);
    u64::from_be_bytes(bytes)
}

/// A filter block of up to [`RUN_FILTER_BLOCK_LINES`] lines.
///
/// # Panics
/// If there are more lines, or none.
#[must_use]
pub fn encode_filter_block(run: u32, page: u32, lines: &[[u64; 8]]) -> IoBuf {
    assert!((1..=RUN_FILTER_BLOCK_LINES).contains(&lines.len()));
    let len = RUN_BLOCK_HEADER_BYTES + lines.len() * RUN_FILTER_LINE_BYTES;
    let mut block = IoBuf::zeroed(len.next_multiple_of(RUN_PAGE_BYTES));
    let words = lines.iter().flatten();
    for (chunk, word) in block[RUN_BLOCK_HEADER_BYTES..len].chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let name = (RunBlockKind::Filter, run, page);
    seal(&mut block, name, (u64::MAX, 0), lines.len(), &Shape::default());
    block
}

/// Appends the lines of a filter block that should be page `page` of the filter of `run`.
///
/// # Errors
/// `RunDamage` at `offset`, where the block is in the file, if it is not that.
pub fn decode_filter_block(
    bytes: &[u8],
    (run, page, offset): (u32, u32, u64),
    out: &mut Vec<[u64; 8]>,
) -> Result<(), RunDamage> {
    let header = verify(bytes, RunBlockKind::Filter, run, page).ok_or(RunDamage { run, offset })?;
    let lines = usize::from(header.count.get());
    let body = bytes.get(RUN_BLOCK_HEADER_BYTES..RUN_BLOCK_HEADER_BYTES + lines * RUN_FILTER_LINE_BYTES);
    for line in body.ok_or(RunDamage { run, offset })?.chunks_exact(RUN_FILTER_LINE_BYTES) {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        out.push(words);
    }
    Ok(())
}

/// A verified block of entries or of a fence.
#[derive(Clone, Debug)]
pub struct RunBlock<B> {
    bytes: B,
    run: u32,
    page: u32,
    count: usize,
    shape: Shape,
    epochs: (u64, u64),
}

impl<B: Deref<Target = [u8]>> RunBlock<B> {
    /// Verifies bytes that should be the block at page `page` of its section of `run`, and at `offset` of the file.
    ///
    /// # Errors
    /// `RunDamage` if they are not.
    ///
    /// # Panics
    /// If a filter is asked for: that has no entries.
    pub fn parse(
        bytes: B,
        kind: RunBlockKind,
        (run, page, offset): (u32, u32, u64),
    ) -> Result<Self, RunDamage> {
        assert!(kind != RunBlockKind::Filter);
        let damage = RunDamage { run, offset };
        let header = verify(&bytes, kind, run, page).ok_or(damage)?;
        let shape = Shape::of(&header).ok_or(damage)?;
        let epochs = (header.epoch_min.get(), header.epoch_max.get());
        let block = Self { bytes, run, page, count: usize::from(header.count.get()), shape, epochs };
        if block.is_sound() { Ok(block) } else { Err(damage) }
    }

    /// Whether every offset and length stays inside, and keys ascend.
    fn is_sound(&self) -> bool {
        let table_end = self.shape.table_at() + 8 * self.count;
        if self.count == 0 || table_end > self.bytes.len() {
            return false;
        }
        let mut before: Option<(u64, Entry<'_>)> = None;
        for &word in self.table() {
            let word = u64::from_le_bytes(word);
            let Some(entry) = self.checked_entry(word) else {
                return false;
            };
            let head = word & !OFFSET_MASK;
            let ascends = before.is_none_or(|(last, last_entry)| {
                last < head || (last == head && self.compare_entries(&last_entry, &entry) == Ordering::Less)
            });
            if !ascends {
                return false;
            }
            before = Some((head, entry));
        }
        true
    }

    fn checked_entry(&self, word: u64) -> Option<Entry<'_>> {
        let shape = &self.shape;
        let at = usize::try_from(word & OFFSET_MASK).ok()?;
        let mut r = Reader::new(self.bytes.get(at..)?);
        let suffix_len = match shape.suffix_len {
            Some(len) => usize::from(len),
            None => usize::from(r.u16()?),
        };
        let payload_len = match shape.payload_len {
            Some(len) => usize::from(len),
            None => usize::from(r.u16()?),
        };
        // Where keys have no common end, there may be some that end before the head does.
        if shape.end_len > 0 && suffix_len < HEAD_BYTES + shape.end_len {
            return None;
        }
        Some(Entry {
            suffix_len,
            middle: r.take(middle_len(suffix_len, shape))?,
            end: r.take(shape.end_lanes)?,
            front: r.take(shape.front_lanes)?,
            behind: r.take(payload_len.checked_sub(shape.front_len)?)?,
        })
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Its first page, counted from the start of its section.
    #[must_use]
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Bytes of the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes; a parsed block always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many entries it has; at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The smallest and largest epoch of its entries.
    #[must_use]
    pub fn epochs(&self) -> (u64, u64) {
        self.epochs
    }

    /// What all keys begin with.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.bytes[RUN_BLOCK_HEADER_BYTES..RUN_BLOCK_HEADER_BYTES + self.shape.prefix_len]
    }

    /// Replaces `out` by the payload of an entry.
    ///
    /// # Panics
    /// If there is no entry `index`.
    pub fn payload_into(&self, index: usize, out: &mut Vec<u8>) {
        let entry = self.entry(self.word(index));
        out.clear();
        out.extend_from_slice(self.front());
        lanes::scatter(self.shape.front_mask, entry.front, out);
        out.extend_from_slice(entry.behind);
    }

    /// The payload of an entry if it has so many bytes.
    ///
    /// # Panics
    /// If there is no entry `index`.
    #[must_use]
    pub fn payload_array<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        let entry = self.entry(self.word(index));
        let mut payload = [0; N];
        let (front, behind) = payload.split_at_mut_checked(self.shape.front_len)?;
        if behind.len() != entry.behind.len() {
            return None;
        }
        front.copy_from_slice(self.front());
        lanes::scatter(self.shape.front_mask, entry.front, front);
        behind.copy_from_slice(entry.behind);
        Some(payload)
    }

    /// Replaces `out` by the key of an entry.
    ///
    /// # Panics
    /// If there is no entry `index`.
    #[allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]
    pub fn key_into(&self, index: usize, out: &mut Vec<u8>) {
        let word = self.word(index);
        let entry = self.entry(word);
        out.clear();
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(&word.to_be_bytes()[..entry.suffix_len.min(HEAD_BYTES)]);
        out.extend_from_slice(entry.middle);
        let end = out.len();
        out.extend_from_slice(self.end());
        lanes::scatter(self.shape.end_mask, entry.end, &mut out[end..]);
    }

    /// As [`RunBlock::key_into`] and [`RunBlock::payload_into`] where both hold another entry of this block: only what
    /// differs is copied.
    ///
    /// # Panics
    /// If there is no entry `index`, or what they hold is shorter than an entry of this block.
    #[allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]
    pub fn step_into(&self, index: usize, key: &mut Vec<u8>, payload: &mut Vec<u8>) {
        let (shape, word) = (&self.shape, self.word(index));
        let entry = self.entry(word);
        if shape.suffix_len.is_none() || entry.suffix_len < HEAD_BYTES {
            self.key_into(index, key);
        } else {
            let suffix = &mut key[shape.prefix_len..];
            suffix[..HEAD_BYTES].copy_from_slice(&word.to_be_bytes()[..HEAD_BYTES]);
            let (middle, end) = suffix[HEAD_BYTES..].split_at_mut(entry.middle.len());
            middle.copy_from_slice(entry.middle);
            lanes::scatter(shape.end_mask, entry.end, end);
        }
        if shape.payload_len.is_none() {
            self.payload_into(index, payload);
        } else {
            let (front, behind) = payload.split_at_mut(shape.front_len);
            lanes::scatter(shape.front_mask, entry.front, front);
            behind.copy_from_slice(entry.behind);
        }
    }

    /// Whether the first entry is after `key`.
    #[must_use]
    pub fn begins_after(&self, key: &[u8]) -> bool {
        let prefix = self.prefix();
        let above = |suffix: &[u8]| self.compare(self.word(0), head_of(suffix), suffix) == Ordering::Greater;
        key.strip_prefix(prefix).map_or(prefix > key, above)
    }

    /// The index of the first entry at or after `key`; the count if there is none.
    #[must_use]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.partition(key, |order| order == Ordering::Less)
    }

    /// The index of the first entry after `key`; the count if there is none.
    #[must_use]
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        self.partition(key, |order| order != Ordering::Greater)
    }

    /// How many entries are ordered against `key` as `is_before` wants.
    fn partition(&self, key: &[u8], is_before: impl Fn(Ordering) -> bool) -> usize {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if prefix < key { self.count } else { 0 };
        };
        let head = head_of(suffix);
        let table = self.table();
        let low = count_below(table, head);
        let same = table[low..].partition_point(|&word| u64::from_le_bytes(word) & !OFFSET_MASK == head);
        let is_before = |&word: &[u8; 8]| is_before(self.compare(u64::from_le_bytes(word), head, suffix));
        low + table[low..low + same].partition_point(is_before)
    }

    /// Orders the key of a table's word against the prefix and `suffix`, which has this head.
    fn compare(&self, word: u64, head: u64, suffix: &[u8]) -> Ordering {
        let heads = (word & !OFFSET_MASK).cmp(&head);
        if heads != Ordering::Equal {
            return heads;
        }
        let entry = self.entry(word);
        // Heads are filled with zeros: of two that are equal the shorter suffix is a prefix of the longer one.
        if entry.suffix_len.min(suffix.len()) < HEAD_BYTES {
            return entry.suffix_len.cmp(&suffix.len());
        }
        let rest = &suffix[HEAD_BYTES..];
        let Some((middle, end)) = rest.split_at_checked(entry.middle.len()) else {
            return entry.middle.cmp(rest);
        };
        entry.middle.cmp(middle).then_with(|| self.end_of(&entry)[..self.shape.end_len].cmp(end))
    }

    /// Orders two entries with the same head.
    fn compare_entries(&self, a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
        if a.suffix_len.min(b.suffix_len) < HEAD_BYTES {
            return a.suffix_len.cmp(&b.suffix_len);
        }
        if a.middle.len() == b.middle.len() {
            // Their ends have the same template.
            return a.middle.cmp(b.middle).then_with(|| a.end.cmp(b.end));
        }
        let len = self.shape.end_len;
        let (a_end, b_end) = (self.end_of(a), self.end_of(b));
        a.middle.iter().chain(&a_end[..len]).cmp(b.middle.iter().chain(&b_end[..len]))
    }

    /// The end of an entry's key, zeros behind it.
    fn end_of(&self, entry: &Entry<'_>) -> [u8; LANES_MAX] {
        let mut end = lanes::front_of(self.end());
        lanes::scatter(self.shape.end_mask, entry.end, &mut end);
        end
    }

    /// The template of ends.
    fn end(&self) -> &[u8] {
        &self.bytes[self.shape.templates_at()..][..self.shape.end_len]
    }

    /// The template of fronts.
    fn front(&self) -> &[u8] {
        &self.bytes[self.shape.templates_at() + self.shape.end_len..][..self.shape.front_len]
    }

    fn table(&self) -> &[[u8; 8]] {
        let at = self.shape.table_at();
        self.bytes[at..at + 8 * self.count].as_chunks().0
    }

    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.table()[index])
    }

    fn entry(&self, word: u64) -> Entry<'_> {
        self.checked_entry(word).expect("checked when the block was parsed")
    }
}

/// An entry without what the table, the prefix and the templates have of it.
#[derive(Clone, Copy)]
struct Entry<'a> {
    suffix_len: usize,
    middle: &'a [u8],
    end: &'a [u8],
    front: &'a [u8],
    behind: &'a [u8],
}

impl Shape {
    /// That of a block with this header; `None` if lengths and masks do not fit.
    fn of(header: &Header) -> Option<Self> {
        let (end_len, front_len) = (usize::from(header.end_len), usize::from(header.front_len));
        let (end_mask, front_mask) = (header.end_mask.get(), header.front_mask.get());
        let is_inside = |mask: u64, len: usize| len <= LANES_MAX && lanes::first(mask, len) == mask;
        if !is_inside(end_mask, end_len) || !is_inside(front_mask, front_len) {
            return None;
        }
        let same = |len: U16| Some(len.get()).filter(|&len| len != LENGTHS_DIFFER);
        Some(Self {
            prefix_len: usize::from(header.prefix_len.get()),
            suffix_len: same(header.suffix_len),
            payload_len: same(header.payload_len),
            ..Self::sharing((end_len, end_mask), (front_len, front_mask))
        })
    }
}

fn seal(
    block: &mut IoBuf,
    (kind, run, page): (RunBlockKind, u32, u32),
    epochs: (u64, u64),
    count: usize,
    shape: &Shape,
) {
    let pages = u8::try_from(block.len() / RUN_PAGE_BYTES).expect("a block has at most 15 pages");
    let at_most_64 = |len: usize| u8::try_from(len).expect("a mask has 64 bits");
    let header = Header {
        sum: 0.into(),
        magic: MAGIC.into(),
        version: VERSION.into(),
        kind: kind as u8,
        pages,
        run: run.into(),
        page: page.into(),
        end_len: at_most_64(shape.end_len),
        front_len: at_most_64(shape.front_len),
        reserved: 0.into(),
        epoch_min: epochs.0.into(),
        epoch_max: epochs.1.into(),
        count: narrow(count).into(),
        prefix_len: narrow(shape.prefix_len).into(),
        suffix_len: shape.suffix_len.unwrap_or(LENGTHS_DIFFER).into(),
        payload_len: shape.payload_len.unwrap_or(LENGTHS_DIFFER).into(),
        end_mask: shape.end_mask.into(),
        front_mask: shape.front_mask.into(),
    };
    block[..RUN_BLOCK_HEADER_BYTES].copy_from_slice(header.as_bytes());
    let sum = crc32c(&block[SUM_BYTES..]);
    block[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The header of a block that says of itself what is expected of it.
fn verify(bytes: &[u8], kind: RunBlockKind, run: u32, page: u32) -> Option<Header> {
    let (header, _) = Header::read_from_prefix(bytes).ok()?;
    let names_itself = header.magic.get() == MAGIC
        && header.version.get() == VERSION
        && header.kind == kind as u8
        && header.run.get() == run
        && header.page.get() == page
        && header.reserved.get() == 0
        && usize::from(header.pages) * RUN_PAGE_BYTES == bytes.len();
    (names_itself && crc32c(&bytes[SUM_BYTES..]) == header.sum.get()).then_some(header)
}

fn narrow(len: usize) -> u16 {
    u16::try_from(len).expect("everything in a block is shorter than 64 KiB")
}

#[cfg(test)]
mod tests;
