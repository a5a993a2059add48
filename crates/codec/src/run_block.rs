//! A block of a run: sorted entries, or a piece of the run's fence or filter. A multiple of 4 KiB.
//!
//! Behind the 48-byte header of an entry block stand the prefix that all keys share, padded to eight bytes; a table
//! of one `u64` an entry: the six key bytes behind the prefix (the head, high), and the offset of the entry (low 16
//! bits); then the entries: suffix length and payload length as `u16`, the suffix without the head, payload. Zeros
//! fill it up. A search compares integers in a few adjacent cache lines and looks at an entry only on a tie. A fence
//! block has the same form. A filter block has 64-byte lines behind its header.
//!
//! Invariants: keys ascend strictly; a parsed block has been checked to its last offset, so that reading it can
//! neither fail nor leave it.

use crate::bytes::common_prefix_len;
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
pub const RUN_BLOCK_HEADER_BYTES: usize = 48;
/// Key and payload of one entry.
pub const RUN_ENTRY_BYTES_MAX: usize =
    RUN_BLOCK_PAGES_MAX * RUN_PAGE_BYTES - RUN_BLOCK_HEADER_BYTES - ENTRY_OVERHEAD_BYTES;
/// Bytes of a line of the filter: one cache line.
pub const RUN_FILTER_LINE_BYTES: usize = 64;
/// Lines of a filter block of eight pages.
pub const RUN_FILTER_BLOCK_LINES: usize =
    (8 * RUN_PAGE_BYTES - RUN_BLOCK_HEADER_BYTES) / RUN_FILTER_LINE_BYTES;

/// The table's word and the two lengths, and the padding of the prefix.
const ENTRY_OVERHEAD_BYTES: usize = 8 + 4 + 8;
/// Bytes of a key's suffix in the table.
const HEAD_BYTES: usize = 6;
const OFFSET_MASK: u64 = 0xffff;
const MAGIC: u32 = 0x4b42_5244;
const VERSION: u16 = 1;
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
    reserved: U32,
    epoch_min: U64,
    epoch_max: U64,
    count: U16,
    prefix_len: U16,
    reserved_2: U32,
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

/// Gathers the entries of one block.
#[derive(Debug)]
pub struct RunBlockBuilder {
    kind: RunBlockKind,
    /// Keys and payloads, one after the other.
    bytes: Vec<u8>,
    lens: Vec<(u16, u16)>,
    prefix_len: usize,
    key_bytes: usize,
    key_bytes_min: usize,
    epoch_min: u64,
    epoch_max: u64,
}

impl RunBlockBuilder {
    /// An empty block of entries or of a fence.
    #[must_use]
    pub fn new(kind: RunBlockKind) -> Self {
        Self {
            kind,
            bytes: Vec::with_capacity(2 * RUN_PAGE_BYTES),
            lens: Vec::new(),
            prefix_len: 0,
            key_bytes: 0,
            key_bytes_min: usize::MAX,
            epoch_min: u64::MAX,
            epoch_max: 0,
        }
    }

    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lens.len()
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
        let prefix_len = if self.lens.is_empty() {
            key.len()
        } else {
            let first = &self.bytes[..self.prefix_len];
            common_prefix_len(first, key)
        };
        let more = Some((narrow(key.len()), narrow(payload.len())));
        if self.encoded_len(prefix_len, more) > RUN_PAGE_BYTES && !self.lens.is_empty() {
            return false;
        }
        self.prefix_len = prefix_len;
        self.key_bytes += key.len();
        self.key_bytes_min = self.key_bytes_min.min(key.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        self.lens.push((narrow(key.len()), narrow(payload.len())));
        self.epoch_min = self.epoch_min.min(epoch);
        self.epoch_max = self.epoch_max.max(epoch);
        true
    }

    /// Encodes the block as page `page` of its section of the run, and begins an empty one.
    ///
    /// # Panics
    /// If there are no entries.
    pub fn finish(&mut self, run: u32, page: u32) -> IoBuf {
        assert!(!self.lens.is_empty());
        let len = self.encoded_len(self.prefix_len, None);
        let mut block = IoBuf::zeroed(len.next_multiple_of(RUN_PAGE_BYTES));
        block[RUN_BLOCK_HEADER_BYTES..][..self.prefix_len].copy_from_slice(&self.bytes[..self.prefix_len]);
        let table = table_at(self.prefix_len);
        let mut at = table + 8 * self.lens.len();
        let mut rest = &self.bytes[..];
        for (index, &(key_len, payload_len)) in self.lens.iter().enumerate() {
            let (key, behind) = rest.split_at(usize::from(key_len));
            let (payload, behind) = behind.split_at(usize::from(payload_len));
            rest = behind;
            let suffix = &key[self.prefix_len..];
            let word = head_of(suffix) | u64::from(narrow(at));
            block[table + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
            block[at..at + 2].copy_from_slice(&narrow(suffix.len()).to_le_bytes());
            block[at + 2..at + 4].copy_from_slice(&payload_len.to_le_bytes());
            at += 4;
            for part in [suffix.get(HEAD_BYTES..).unwrap_or_default(), payload] {
                block[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        assert!(at == len);
        let head = Head {
            kind: self.kind,
            run,
            page,
            epochs: (self.epoch_min, self.epoch_max),
            count: self.lens.len(),
            prefix_len: self.prefix_len,
        };
        seal(&mut block, head);
        *self = Self {
            bytes: core::mem::take(&mut self.bytes),
            lens: core::mem::take(&mut self.lens),
            ..Self::new(self.kind)
        };
        self.bytes.clear();
        self.lens.clear();
        block
    }

    /// Bytes of the block with this prefix and, maybe, one more entry.
    fn encoded_len(&self, prefix_len: usize, more: Option<(u16, u16)>) -> usize {
        let rest_len = |key_len: u16| usize::from(key_len).saturating_sub(prefix_len + HEAD_BYTES);
        let count = self.lens.len() + usize::from(more.is_some());
        // Keys are longer than prefix and head but for rare ones: then each is looked at.
        let rests: usize = if self.lens.is_empty() || self.key_bytes_min >= prefix_len + HEAD_BYTES {
            self.key_bytes - self.lens.len() * (prefix_len + HEAD_BYTES)
        } else {
            self.lens.iter().map(|&(key_len, _)| rest_len(key_len)).sum()
        };
        let (more_rest, more_payload) =
            more.map_or((0, 0), |(key, payload)| (rest_len(key), usize::from(payload)));
        let payloads = self.bytes.len() - self.key_bytes + more_payload;
        table_at(prefix_len) + count * (8 + 4) + rests + more_rest + payloads
    }
}

/// Where the table begins.
fn table_at(prefix_len: usize) -> usize {
    (RUN_BLOCK_HEADER_BYTES + prefix_len).next_multiple_of(8)
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
    let head = Head {
        kind: RunBlockKind::Filter,
        run,
        page,
        epochs: (u64::MAX, 0),
        count: lines.len(),
        prefix_len: 0,
    };
    seal(&mut block, head);
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
    prefix_len: usize,
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
        let prefix_len = usize::from(header.prefix_len.get());
        let epochs = (header.epoch_min.get(), header.epoch_max.get());
        let block = Self { bytes, run, page, count: usize::from(header.count.get()), prefix_len, epochs };
        if block.is_sound() { Ok(block) } else { Err(damage) }
    }

    /// Whether every offset and length stays inside, and keys ascend.
    fn is_sound(&self) -> bool {
        let table_end = table_at(self.prefix_len) + 8 * self.count;
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
                last < head
                    || (last == head && last_entry.compare(entry.suffix_len, entry.rest) == Ordering::Less)
            });
            if !ascends {
                return false;
            }
            before = Some((head, entry));
        }
        true
    }

    fn checked_entry(&self, word: u64) -> Option<Entry<'_>> {
        let at = usize::try_from(word & OFFSET_MASK).ok()?;
        let lens = self.bytes.get(at..at + 4)?;
        let (suffix_len, payload_len) = (u16_at(lens), u16_at(&lens[2..]));
        let payload_at = at + 4 + suffix_len.saturating_sub(HEAD_BYTES);
        let rest = self.bytes.get(at + 4..payload_at)?;
        let payload = self.bytes.get(payload_at..payload_at + payload_len)?;
        Some(Entry { suffix_len, rest, payload })
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
        &self.bytes[RUN_BLOCK_HEADER_BYTES..RUN_BLOCK_HEADER_BYTES + self.prefix_len]
    }

    /// The payload of an entry.
    ///
    /// # Panics
    /// If there is no entry `index`.
    #[must_use]
    pub fn payload(&self, index: usize) -> &[u8] {
        self.entry(self.word(index)).payload
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
        out.extend_from_slice(entry.rest);
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
        self.entry(word).compare(suffix.len(), suffix.get(HEAD_BYTES..).unwrap_or_default())
    }

    fn table(&self) -> &[[u8; 8]] {
        let at = table_at(self.prefix_len);
        self.bytes[at..at + 8 * self.count].as_chunks().0
    }

    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.table()[index])
    }

    fn entry(&self, word: u64) -> Entry<'_> {
        self.checked_entry(word).expect("checked when the block was parsed")
    }
}

/// An entry without what the table has of it.
#[derive(Clone, Copy)]
struct Entry<'a> {
    suffix_len: usize,
    rest: &'a [u8],
    payload: &'a [u8],
}

impl Entry<'_> {
    /// Orders it against a suffix with the same head, of this length and with this behind the head.
    fn compare(&self, suffix_len: usize, rest: &[u8]) -> Ordering {
        // Heads are filled with zeros: of two that are equal the shorter suffix is a prefix of the longer one.
        if self.suffix_len.min(suffix_len) < HEAD_BYTES {
            return self.suffix_len.cmp(&suffix_len);
        }
        self.rest.cmp(rest)
    }
}

struct Head {
    kind: RunBlockKind,
    run: u32,
    page: u32,
    epochs: (u64, u64),
    count: usize,
    prefix_len: usize,
}

fn seal(block: &mut IoBuf, head: Head) {
    let pages = u8::try_from(block.len() / RUN_PAGE_BYTES).expect("a block has at most 15 pages");
    let header = Header {
        sum: 0.into(),
        magic: MAGIC.into(),
        version: VERSION.into(),
        kind: head.kind as u8,
        pages,
        run: head.run.into(),
        page: head.page.into(),
        reserved: 0.into(),
        epoch_min: head.epochs.0.into(),
        epoch_max: head.epochs.1.into(),
        count: narrow(head.count).into(),
        prefix_len: narrow(head.prefix_len).into(),
        reserved_2: 0.into(),
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
        && header.reserved_2.get() == 0
        && usize::from(header.pages) * RUN_PAGE_BYTES == bytes.len();
    (names_itself && crc32c(&bytes[SUM_BYTES..]) == header.sum.get()).then_some(header)
}

fn narrow(len: usize) -> u16 {
    u16::try_from(len).expect("everything in a block is shorter than 64 KiB")
}

/// REQUIRES: `bytes` has two or more.
fn u16_at(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests;
