//! One node of the delta's tree: sorted byte strings with a fixed-width value each, in one small block of words.
//!
//! A block holds, from its start, the prefix that all its keys share and the stem end that most share (padded to
//! words), then the heads in key order; from its end, growing down, the entries in order of arrival. A head is the six key bytes after the
//! prefix, and in its low 16 bits the distance of its entry from the end of the block: a search compares plain
//! integers in a few adjacent cache lines, and looks at an entry only on a tie. An entry is value, descriptor,
//! and the key bytes after those of the head; a leaf's key ends with the 19-byte tail of a flat key, of which
//! kind, zero offset and zero minor are folded into the descriptor. The stem end is what stands before the tail of the
//! first key: the akey, where every dkey has one of the same name.
//!
//! Invariants: heads ascend, and strictly so do keys; `heap` is the distance from the end of the block to the
//! lowest entry; front, heads and entries do not overlap; every key begins with the prefix; prefix and stem end
//! change only while there are no entries.
#![allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]

use super::key::{KEY_BYTES_MAX, TAIL_BYTES, common_prefix_len, strip_prefix};
use core::cmp::Ordering;
use core::ops::Range;
use zerocopy::IntoBytes;

/// A node that would grow above this is split: 80 entries of 51 bytes, so that the heads are ten cache lines.
pub(super) const NODE_BYTES_MAX: usize = 4096;
/// Nodes grow in steps of this size: a quarter of a kilobyte is unused on average, and a leaf grows four times.
const STEP_WORDS: usize = 64;
/// Key bytes in a head.
const HEAD_BYTES: usize = 6;
const DISTANCE_BITS: u32 = 16;
const DISTANCE_MASK: u64 = (1 << DISTANCE_BITS) - 1;

/// Descriptor: length of the key after the prefix, or with `FOLDED` the length between head and tail.
const LEN_MASK: u16 = 0x1ff;
const FOLDED: u16 = 0x200;
const KIND_SHIFT: u32 = 10;
const KIND_MASK: u16 = 7;
const HAS_OFFSET: u16 = 0x2000;
const HAS_MINOR: u16 = 0x4000;
/// The stem goes on with the node's stem end.
const ENDS_SHARED: u16 = 0x8000;
/// A hashed akey with its level byte, or a lexical one of the usual length; what is shorter than the least is chance.
const STEM_END_BYTES: Range<usize> = 4..33;

const _: () = assert!(KEY_BYTES_MAX <= LEN_MASK as usize);
const _: () = assert!(NODE_BYTES_MAX < 1 << DISTANCE_BITS);

/// A node; `VALUE` is the width of its values in bytes: 8 in a leaf, 4 in an inner node.
#[derive(Debug, Default)]
pub(super) struct Node<const VALUE: usize> {
    words: Box<[u64]>,
    count: u16,
    heap: u16,
    /// Bytes of removed entries.
    dead: u16,
    prefix_len: u16,
    /// In a leaf the next leaf, in an inner node the child left of all keys.
    pub(super) link: u32,
    /// Where an ascending stream would insert next, and how often it has.
    hot: u16,
    streak: u8,
    stem_end_len: u8,
}

/// The widths of a key's parts in an entry.
#[derive(Clone, Copy)]
struct Shape {
    descriptor: u16,
    /// Bytes between head and tail, or all after the head, that the entry has.
    stem: usize,
    /// Bytes of the stem end that follow them.
    shared: usize,
    /// Bytes that the tail takes when folded.
    tail: usize,
}

impl Shape {
    fn of(suffix: &[u8], stem_end: &[u8]) -> Self {
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let len = |n: usize| u16::try_from(n).expect("a key has at most 365 bytes");
        match rest.split_last_chunk::<TAIL_BYTES>() {
            Some((stem, tail)) if u16::from(tail[0]) <= KIND_MASK => {
                let has_offset = tail[1..9] != [0; 8];
                let has_minor = tail[17..] != [0xff; 2];
                let ends_shared = !stem_end.is_empty() && stem.ends_with(stem_end);
                let shared = if ends_shared { stem_end.len() } else { 0 };
                let descriptor = len(stem.len() - shared)
                    | FOLDED
                    | (u16::from(tail[0]) << KIND_SHIFT)
                    | if has_offset { HAS_OFFSET } else { 0 }
                    | if has_minor { HAS_MINOR } else { 0 }
                    | if ends_shared { ENDS_SHARED } else { 0 };
                Self { descriptor, stem: stem.len() - shared, shared, tail: Self::tail_len(descriptor) }
            }
            _ => Self { descriptor: len(suffix.len()), stem: rest.len(), shared: 0, tail: 0 },
        }
    }

    #[inline]
    fn read(descriptor: u16, stem_end_len: u8) -> Self {
        let len = usize::from(descriptor & LEN_MASK);
        if descriptor & FOLDED == 0 {
            return Self { descriptor, stem: len.saturating_sub(HEAD_BYTES), shared: 0, tail: 0 };
        }
        let shared = if descriptor & ENDS_SHARED == 0 { 0 } else { usize::from(stem_end_len) };
        Self { descriptor, stem: len, shared, tail: Self::tail_len(descriptor) }
    }

    fn tail_len(descriptor: u16) -> usize {
        8 + if descriptor & HAS_OFFSET == 0 { 0 } else { 8 } + if descriptor & HAS_MINOR == 0 { 0 } else { 2 }
    }

    fn is_folded(self) -> bool {
        self.descriptor & FOLDED != 0
    }

    /// Length of the key after the prefix.
    fn suffix_len(self) -> usize {
        if self.is_folded() {
            HEAD_BYTES + self.stem + self.shared + TAIL_BYTES
        } else {
            usize::from(self.descriptor & LEN_MASK)
        }
    }

    fn entry_bytes(self, value: usize) -> usize {
        value + 2 + self.stem + self.tail
    }

    /// The tail that was folded into descriptor and `folded`.
    #[inline]
    fn unfold(self, folded: &[u8]) -> [u8; TAIL_BYTES] {
        let mut tail = [0; TAIL_BYTES];
        tail[0] = self.descriptor.to_le_bytes()[1] >> (KIND_SHIFT - 8) & KIND_MASK.to_le_bytes()[0];
        let mut stamp = folded;
        if self.descriptor & HAS_OFFSET != 0 {
            let (offset, rest) = folded.split_at(8);
            tail[1..9].copy_from_slice(offset);
            stamp = rest;
        }
        // Lengths that the compiler knows: these few bytes are copied by a move each, not by a call.
        tail[9..17].copy_from_slice(&stamp[..8]);
        tail[17..].copy_from_slice(if self.descriptor & HAS_MINOR == 0 { &[0xff; 2] } else { &stamp[8..10] });
        tail
    }
}

/// The six bytes after the prefix as an integer, shifted over the distance; missing bytes count as zero.
fn head_of(suffix: &[u8]) -> u64 {
    match suffix.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes) & !DISTANCE_MASK,
        None => {
            let mut bytes = [0; 8];
            let len = suffix.len().min(HEAD_BYTES);
            bytes[..len].copy_from_slice(&suffix[..len]);
            u64::from_be_bytes(bytes)
        }
    }
}

/// What the stems of two keys behind a prefix have in common at their ends.
fn common_stem_end<'a>(a: &'a [u8], b: &[u8], prefix_len: usize) -> &'a [u8] {
    let stem = |key: &[u8]| prefix_len + HEAD_BYTES..key.len().saturating_sub(TAIL_BYTES);
    let (Some(a), Some(b)) = (a.get(stem(a)), b.get(stem(b))) else {
        return &[];
    };
    let shared = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let len = shared.min(STEM_END_BYTES.end - 1);
    if len < STEM_END_BYTES.start { &[] } else { &a[a.len() - len..] }
}

/// How many of the ascending `heads` are below `bound`.
///
/// Every eighth first: those loads do not wait for each other, so a node that is not in the cache costs about one
/// memory access instead of one a halving.
fn count_below(heads: &[u64], bound: u64) -> usize {
    let eights = heads.chunks_exact(8);
    let mut whole = 0;
    for eight in eights.clone() {
        whole += usize::from(eight[7] < bound);
    }
    let tail = &heads[whole * 8..heads.len().min(whole * 8 + 8)];
    whole * 8 + tail.iter().map(|head| usize::from(*head < bound)).sum::<usize>()
}

impl<const VALUE: usize> Node<VALUE> {
    /// An empty node that does not allocate before its first key.
    pub(super) fn new(link: u32) -> Self {
        Self { link, ..Self::default() }
    }

    /// How many keys it has.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Memory of the block.
    pub(super) fn block_bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Bytes of prefix, heads and entries that are not removed.
    pub(super) fn live_bytes(&self) -> usize {
        (self.front_words() + self.count()) * 8 + usize::from(self.heap - self.dead)
    }

    /// Asks for prefix, heads, and the place of the next entry.
    #[inline]
    pub(super) fn prefetch(&self) {
        let bytes = self.words.as_bytes();
        dolmen_env::prefetch(&bytes[..(self.front_words() + self.count()) * 8], usize::MAX);
        let next = bytes.len() - usize::from(self.heap).min(bytes.len());
        dolmen_env::prefetch(&bytes[next.saturating_sub(64)..next], 1);
    }

    /// Asks for all of the block: entries stand in it in no order that the processor could foresee.
    #[inline]
    pub(super) fn prefetch_all(&self) {
        dolmen_env::prefetch(self.words.as_bytes(), usize::MAX);
    }

    /// The index of `key`, or the index at which it would be.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let Some(suffix) = strip_prefix(key, prefix) else {
            return Err(if key < prefix { 0 } else { self.count() });
        };
        let head = head_of(suffix);
        let heads = self.heads();
        let mut low = count_below(heads, head);
        if heads.get(low).is_none_or(|found| found & !DISTANCE_MASK != head) {
            return Err(low);
        }
        // A new version stands before the older ones of its key, nearly always the only ones with this head.
        if self.compare_rest(heads[low], suffix) == Ordering::Greater {
            return Err(low);
        }
        let mut high = low + heads[low..].partition_point(|found| found & !DISTANCE_MASK == head);
        while low < high {
            let middle = low.midpoint(high);
            match self.compare_rest(heads[middle], suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The value at `index`.
    pub(super) fn value(&self, index: usize) -> [u8; VALUE] {
        *self.entry(self.heads()[index]).first_chunk().expect("an entry begins with a value")
    }

    /// Sets the value at `index`.
    pub(super) fn set_value(&mut self, index: usize, value: [u8; VALUE]) {
        let at = self.block_bytes() - distance(self.heads()[index]);
        self.words.as_mut_bytes()[at..at + VALUE].copy_from_slice(&value);
    }

    /// Replaces `out` by the key at `index`.
    pub(super) fn key_into(&self, index: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        self.suffix_onto(index, out);
    }

    /// Turns `out`, which is another key of this node, into the one at `index`.
    pub(super) fn sibling_into(&self, index: usize, out: &mut Vec<u8>) {
        out.truncate(usize::from(self.prefix_len));
        self.suffix_onto(index, out);
    }

    #[inline]
    fn suffix_onto(&self, index: usize, out: &mut Vec<u8>) {
        let head = self.heads()[index];
        let (shape, rest) = self.shape(head);
        match shape.suffix_len() {
            short @ ..HEAD_BYTES => out.extend_from_slice(&head.to_be_bytes()[..short]),
            _ => out.extend_from_slice(&head.to_be_bytes()[..HEAD_BYTES]),
        }
        out.extend_from_slice(&rest[..shape.stem]);
        out.extend_from_slice(&self.stem_end()[..shape.shared]);
        if shape.is_folded() {
            out.extend_from_slice(&shape.unfold(&rest[shape.stem..shape.stem + shape.tail]));
        }
    }

    /// Inserts `key` at `index`; `false`, and nothing changed, if the node must be split first.
    ///
    /// REQUIRES: `find(key)` gave `Err(index)`.
    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: [u8; VALUE]) -> bool {
        if self.count == 0 {
            // The next key shortens it to what both share.
            self.set_front(&key[..key.len() - 1], &[], 0);
        } else if !key.starts_with(self.prefix()) && !self.shorten_prefix(key) {
            return false;
        }
        if !self.put(index, key, value) {
            return false;
        }
        self.streak = if index == usize::from(self.hot) { self.streak.saturating_add(1) } else { 0 };
        self.hot = u16::try_from(index + 1).expect("a node has fewer than 512 entries");
        true
    }

    /// Inserts a key that begins with the prefix; `false` if the node is full.
    fn put(&mut self, index: usize, key: &[u8], value: [u8; VALUE]) -> bool {
        let suffix = &key[usize::from(self.prefix_len)..];
        let shape = Shape::of(suffix, self.stem_end());
        if !self.reserve(shape.entry_bytes(VALUE) + 8) {
            return false;
        }
        self.place(index, suffix, shape, value);
        true
    }

    /// Removes the key at `index`.
    pub(super) fn remove(&mut self, index: usize) {
        let (shape, _) = self.shape(self.heads()[index]);
        let (start, end) = (self.front_words() + index, self.front_words() + self.count());
        self.words.copy_within(start + 1..end, start);
        self.count -= 1;
        self.dead += u16::try_from(shape.entry_bytes(VALUE)).expect("an entry is smaller than a node");
        self.streak = 0;
    }

    /// Whether the last keys came in ascending order at `index`, as those of a stream do.
    pub(super) fn is_stream(&self, index: usize) -> bool {
        /// Random keys make such a run once in 10^12.
        const STREAK: u8 = 8;
        self.streak >= STREAK && index == usize::from(self.hot)
    }

    /// Where to split: of the places near the middle one where two keys differ as early as they do anywhere there, so
    /// that the parts have long prefixes. Records of two arrays are not in one leaf for long then, in which their heads
    /// would not tell those of one array apart.
    pub(super) fn middle(&self) -> usize {
        /// A part has a third of the keys at least.
        const REACH_PARTS: usize = 6;
        let (half, reach) = (self.count() / 2, self.count() / REACH_PARTS);
        let heads = self.heads();
        let shared_bytes = |at: usize| ((heads[at - 1] ^ heads[at]) & !DISTANCE_MASK).leading_zeros() / 8;
        let places = half - reach.min(half - 1)..=half + reach;
        places.min_by_key(|&at| (shared_bytes(at), at.abs_diff(half))).unwrap_or(half)
    }

    /// Moves the keys from `index` on to a new node with this link.
    pub(super) fn split_off(&mut self, index: usize, link: u32) -> Self {
        let mut right = Self::new(link);
        if index < self.count() {
            right.take_part(self, index..self.count());
            let mut left = Self::new(self.link);
            left.take_part(self, 0..index);
            if self.is_stream(index) {
                (left.hot, left.streak) = (self.hot, self.streak);
            }
            *self = left;
        }
        right
    }

    /// Removes the keys from `index` on.
    pub(super) fn truncate(&mut self, index: usize) {
        let mut left = Self::new(self.link);
        left.take_part(self, 0..index);
        *self = left;
    }

    /// A node with the keys of both, or `None` if that would be more than three quarters full.
    ///
    /// REQUIRES: all keys of `right` are above those of `left`.
    pub(super) fn joined(left: &Self, right: &Self, link: u32) -> Option<Self> {
        let shared = match (left.count, right.count) {
            (0, _) => usize::from(right.prefix_len),
            (_, 0) => usize::from(left.prefix_len),
            _ => common_prefix_len(left.prefix(), right.prefix()),
        };
        let widened = |node: &Self| {
            let longer = usize::from(node.prefix_len).saturating_sub(shared) + node.stem_end().len();
            node.live_bytes() + node.count() * longer
        };
        if widened(left) + widened(right) > NODE_BYTES_MAX / 4 * 3 {
            return None;
        }
        let mut node = Self::new(link);
        node.take_part(left, 0..left.count());
        let fits = match node.count {
            0 => {
                node.take_part(right, 0..right.count());
                true
            }
            _ => node.append(right, 0..right.count()),
        };
        fits.then_some(node)
    }

    /// Takes keys of `from` into this node, which has none.
    fn take_part(&mut self, from: &Self, range: Range<usize>) {
        assert!(self.count == 0);
        if range.is_empty() {
            return;
        }
        let (mut key, mut last) = (Vec::with_capacity(KEY_BYTES_MAX), Vec::with_capacity(KEY_BYTES_MAX));
        from.key_into(range.start, &mut key);
        from.key_into(range.end - 1, &mut last);
        let shared = common_prefix_len(&key, &last).min(key.len() - 1);
        // As the prefix grows, the stem end shrinks from its front, so that no entry takes more than before.
        let grown = shared.saturating_sub(usize::from(from.prefix_len));
        let stem_end = match from.stem_end() {
            [] => common_stem_end(&key, &last, shared),
            old => &old[grown.min(old.len())..],
        };
        let needed = from.bytes_of(range.clone()) + 8;
        let front = shared + stem_end.len();
        if (grown > 0 || stem_end != from.stem_end()) && needed + front <= NODE_BYTES_MAX {
            self.set_front(&key[..shared], stem_end, needed + front);
            if self.append(from, range.clone()) {
                return;
            }
            // Behind a longer prefix a key may be too short for its tail to be folded, and take more.
            *self = Self::new(self.link);
        }
        self.set_front(from.prefix(), from.stem_end(), needed + from.front_words() * 8);
        self.copy_entries(from, range);
    }

    /// Appends keys of `from`, all above those that are here; `false` if there is no room for all.
    fn append(&mut self, from: &Self, range: Range<usize>) -> bool {
        let mut key = Vec::with_capacity(KEY_BYTES_MAX);
        for index in range {
            from.key_into(index, &mut key);
            let fits = match self.count {
                0 => self.put(0, &key, from.value(index)),
                _ => self.insert(self.count(), &key, from.value(index)),
            };
            if !fits {
                return false;
            }
        }
        self.streak = 0;
        true
    }

    /// Bytes of heads and entries.
    fn bytes_of(&self, range: Range<usize>) -> usize {
        self.heads()[range].iter().map(|&head| 8 + self.shape(head).0.entry_bytes(VALUE)).sum()
    }

    /// Takes entries over as they are: same prefix and stem end, so same heads and bytes.
    fn copy_entries(&mut self, from: &Self, range: Range<usize>) {
        for &head in &from.heads()[range] {
            let entry = from.entry(head);
            let bytes = Shape::read(descriptor(&entry[VALUE..]), self.stem_end_len).entry_bytes(VALUE);
            let (at, heap) = self.push_heap(bytes);
            self.words.as_mut_bytes()[at..at + bytes].copy_from_slice(&entry[..bytes]);
            let slot = self.front_words() + self.count();
            self.words[slot] = (head & !DISTANCE_MASK) | heap;
            self.count += 1;
        }
    }

    /// Shortens the prefix to what `key` shares; `false` if the longer entries, and `key`, would not fit.
    fn shorten_prefix(&mut self, key: &[u8]) -> bool {
        let shared = common_prefix_len(self.prefix(), key);
        let longer = self.count() * (usize::from(self.prefix_len) - shared);
        let needed = self.live_bytes() + longer + key.len() + VALUE + 16 + STEM_END_BYTES.end;
        if needed > NODE_BYTES_MAX {
            return false;
        }
        let old = core::mem::replace(self, Self::new(self.link));
        let mut scratch = Vec::with_capacity(KEY_BYTES_MAX);
        old.key_into(0, &mut scratch);
        let stem_end = match old.stem_end() {
            [] => common_stem_end(&scratch, key, shared),
            stem_end => stem_end,
        };
        self.set_front(&key[..shared], stem_end, needed);
        for index in 0..old.count() {
            old.key_into(index, &mut scratch);
            assert!(self.put(index, &scratch, old.value(index)), "room was computed for all");
        }
        (self.hot, self.streak) = (old.hot, old.streak);
        true
    }

    /// Gives an empty node its prefix and stem end, and room for `expected` bytes.
    fn set_front(&mut self, prefix: &[u8], stem_end: &[u8], expected: usize) {
        assert!(self.count == 0);
        let front = prefix.len() + stem_end.len();
        let words = expected.max(front).div_ceil(8).next_multiple_of(STEP_WORDS);
        assert!(words * 8 <= NODE_BYTES_MAX);
        self.words = vec![0; words].into_boxed_slice();
        (self.heap, self.dead) = (0, 0);
        self.words.as_mut_bytes()[..prefix.len()].copy_from_slice(prefix);
        self.words.as_mut_bytes()[prefix.len()..front].copy_from_slice(stem_end);
        self.stem_end_len = u8::try_from(stem_end.len()).expect("at most 32 bytes");
        self.prefix_len = u16::try_from(prefix.len()).expect("a key has at most 365 bytes");
    }

    /// Makes `bytes` of room between heads and entries, by growing or packing; `false` if the node is full.
    fn reserve(&mut self, bytes: usize) -> bool {
        let used = (self.front_words() + self.count()) * 8 + usize::from(self.heap);
        if used + bytes <= self.block_bytes() {
            return true;
        }
        let live = used - usize::from(self.dead);
        if live + bytes > NODE_BYTES_MAX {
            return false;
        }
        if self.dead == 0 {
            self.grow(used + bytes);
        } else {
            let mut packed = Self::new(self.link);
            packed.set_front(self.prefix(), self.stem_end(), live + bytes);
            packed.copy_entries(self, 0..self.count());
            (packed.hot, packed.streak) = (self.hot, self.streak);
            *self = packed;
        }
        true
    }

    fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8).next_multiple_of(STEP_WORDS).min(NODE_BYTES_MAX / 8);
        let mut block = vec![0; words].into_boxed_slice();
        let front = self.front_words() + self.count();
        block[..front].copy_from_slice(&self.words[..front]);
        let heap_words = usize::from(self.heap).div_ceil(8);
        let old_words = self.words.len();
        block[words - heap_words..].copy_from_slice(&self.words[old_words - heap_words..]);
        self.words = block;
    }

    /// Writes an entry and its head into room that `reserve` made.
    fn place(&mut self, index: usize, suffix: &[u8], shape: Shape, value: [u8; VALUE]) {
        let (at, heap) = self.push_heap(shape.entry_bytes(VALUE));
        let (start, end) = (self.front_words() + index, self.front_words() + self.count());
        self.words.copy_within(start..end, start + 1);
        self.words[start] = head_of(suffix) | heap;
        self.count += 1;
        let entry = &mut self.words.as_mut_bytes()[at..at + shape.entry_bytes(VALUE)];
        entry[..VALUE].copy_from_slice(&value);
        entry[VALUE..VALUE + 2].copy_from_slice(&shape.descriptor.to_le_bytes());
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let (stem, folded) = entry[VALUE + 2..].split_at_mut(shape.stem);
        stem.copy_from_slice(&rest[..shape.stem]);
        if shape.is_folded() {
            let tail = &rest[shape.stem + shape.shared..];
            let (offset, stamp) = folded.split_at_mut(if shape.descriptor & HAS_OFFSET == 0 { 0 } else { 8 });
            offset.copy_from_slice(&tail[1..1 + offset.len()]);
            stamp.copy_from_slice(&tail[9..9 + stamp.len()]);
        }
    }

    /// Takes `bytes` off the room: their place in the block, and their distance for the head.
    fn push_heap(&mut self, bytes: usize) -> (usize, u64) {
        let heap = usize::from(self.heap) + bytes;
        self.heap = u16::try_from(heap).expect("a node has at most 4096 bytes");
        (self.block_bytes() - heap, u64::from(self.heap))
    }

    /// Orders the key with this head, which `suffix` has too, against `suffix`.
    fn compare_rest(&self, head: u64, suffix: &[u8]) -> Ordering {
        let (shape, rest) = self.shape(head);
        if shape.suffix_len().min(suffix.len()) < HEAD_BYTES {
            return shape.suffix_len().cmp(&suffix.len());
        }
        let probe = &suffix[HEAD_BYTES..];
        let (stem, folded) = rest[..shape.stem + shape.tail].split_at(shape.stem);
        let Some((probe_stem, probe)) = probe.split_at_checked(shape.stem) else {
            return stem.cmp(probe);
        };
        let stem_end = &self.stem_end()[..shape.shared];
        let Some((probe_end, probe_tail)) = probe.split_at_checked(shape.shared) else {
            return stem.cmp(probe_stem).then_with(|| stem_end.cmp(probe));
        };
        let stems = stem.cmp(probe_stem).then_with(|| stem_end.cmp(probe_end));
        if stems != Ordering::Equal {
            return stems;
        }
        if shape.is_folded() { shape.unfold(folded)[..].cmp(probe_tail) } else { 0.cmp(&probe_tail.len()) }
    }

    /// Words before the heads.
    fn front_words(&self) -> usize {
        (usize::from(self.prefix_len) + usize::from(self.stem_end_len)).div_ceil(8)
    }

    /// The end that most stems share.
    fn stem_end(&self) -> &[u8] {
        let start = usize::from(self.prefix_len);
        &self.words.as_bytes()[start..start + usize::from(self.stem_end_len)]
    }

    fn prefix(&self) -> &[u8] {
        &self.words.as_bytes()[..usize::from(self.prefix_len)]
    }

    fn heads(&self) -> &[u64] {
        let start = self.front_words();
        &self.words[start..start + self.count()]
    }

    /// The block from the entry of this head on.
    #[inline]
    fn entry(&self, head: u64) -> &[u8] {
        &self.words.as_bytes()[self.block_bytes() - distance(head)..]
    }

    /// The shape of the entry of this head, and the block from its key bytes on.
    #[inline]
    fn shape(&self, head: u64) -> (Shape, &[u8]) {
        let entry = &self.entry(head)[VALUE..];
        (Shape::read(descriptor(entry), self.stem_end_len), &entry[2..])
    }

    /// Asserts the invariants; for audits and tests.
    pub(super) fn check(&self) {
        let mut live = 0;
        let (mut key, mut before) = (Vec::new(), Vec::new());
        for (index, &head) in self.heads().iter().enumerate() {
            let (shape, _) = self.shape(head);
            live += shape.entry_bytes(VALUE);
            assert!(distance(head) <= usize::from(self.heap));
            self.key_into(index, &mut key);
            assert!(key.starts_with(self.prefix()));
            assert!(index == 0 || before < key);
            core::mem::swap(&mut key, &mut before);
        }
        assert!(live + usize::from(self.dead) == usize::from(self.heap));
        assert!(self.block_bytes() >= (self.front_words() + self.count()) * 8 + usize::from(self.heap));
    }
}

fn distance(head: u64) -> usize {
    usize::from(u16::try_from(head & DISTANCE_MASK).expect("masked to 16 bits"))
}

fn descriptor(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}
