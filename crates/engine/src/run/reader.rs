//! Reading a run: its resident part, and cursors over its entries.

use super::filter::Filter;
use crate::error::{corrupt, disk_error, is_unreadable};
use crate::lines;
use crate::tree::key::{KEY_BYTES_MAX, common_prefix_len};
use dolmen_codec::run_block::{
    RUN_BLOCK_PAGES_MAX, RUN_FILTER_BLOCK_LINES, RUN_PAGE_BYTES, RunBlock, RunBlockKind, RunDamage,
    decode_filter_block,
};
use dolmen_codec::run_footer::RunFooter;
use dolmen_codec::version::VersionKind;
use dolmen_env::{Disk, FileId};
use dolmen_types::{Epoch, Error, IoBuf, TargetNo};
use std::sync::Arc;

/// An entry block that was read and verified.
pub(crate) type Block = RunBlock<IoBuf>;

/// Where an entry block lies in the file of its run, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct BlockPlace {
    /// First page.
    pub(crate) page: u32,
    /// How many.
    pub(crate) pages: u32,
}

impl BlockPlace {
    /// Byte offset in the file.
    pub(crate) fn offset_bytes(self) -> u64 {
        u64::from(self.page) * RUN_PAGE_BYTES as u64
    }

    /// Bytes of the block.
    pub(crate) fn len_bytes(self) -> usize {
        self.pages as usize * RUN_PAGE_BYTES
    }
}

/// Where cursors get entry blocks from.
pub(crate) trait BlockSource {
    /// The block of `run` at `place`.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says.
    fn block(&mut self, run: &Run, place: BlockPlace) -> Result<Arc<Block>, Error>;

    /// Whether a cursor that goes upwards passes over a block that cannot be had.
    ///
    /// # Errors
    /// The same error if it does not.
    fn pass(&mut self, error: Error) -> Result<(), Error> {
        Err(error)
    }
}

/// An opened run. Fence and filter are resident: about 2 % of the file.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) target: TargetNo,
    pub(crate) file: FileId,
    footer: RunFooter,
    fence: Vec<RunBlock<IoBuf>>,
    top: Top,
    filter: Filter,
}

/// Which fence block to look into: what their first keys share, and the eight bytes behind it.
#[derive(Debug)]
struct Top {
    prefix: Vec<u8>,
    heads: Vec<u64>,
}

impl Top {
    fn of(fence: &[RunBlock<IoBuf>]) -> Self {
        let (mut key, mut last) = (Vec::new(), Vec::new());
        if let (Some(first), Some(block)) = (fence.first(), fence.last()) {
            first.key_into(0, &mut key);
            block.key_into(0, &mut last);
        }
        let prefix = key[..common_prefix_len(&key, &last)].to_vec();
        let head = |block: &RunBlock<IoBuf>| {
            block.key_into(0, &mut key);
            // Blocks that were forged may not ascend: then a lookup goes astray, but nowhere outside.
            head_of(key.get(prefix.len()..).unwrap_or_default())
        };
        let heads = fence.iter().map(head).collect();
        Self { prefix, heads }
    }

    /// The last block of the fence that begins at or before `key`, or the first.
    fn find(&self, fence: &[RunBlock<IoBuf>], key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(&self.prefix[..]) else {
            return if key < &self.prefix[..] { 0 } else { fence.len() - 1 };
        };
        let head = head_of(suffix);
        let low = self.heads.partition_point(|&other| other < head);
        let same = self.heads[low..].partition_point(|&other| other == head);
        let ties = fence[low..low + same].partition_point(|block| !block.begins_after(key));
        (low + ties).saturating_sub(1)
    }
}

/// The first eight bytes as an integer; missing bytes count as zero.
#[allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]
pub(super) fn head_of(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}

/// An entry block's place in the fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FencePlace {
    block: usize,
    index: usize,
}

impl Run {
    /// Reads and verifies the resident part of run `number`, whose file is open.
    ///
    /// # Errors
    /// `Corrupt` or what the device says.
    pub(crate) fn open(
        disk: &mut dyn Disk,
        target: TargetNo,
        number: u32,
        file: FileId,
        file_bytes: u64,
    ) -> Result<Self, Error> {
        let io = |error: dolmen_env::Error| disk_error(target, &error);
        let damage = |at: RunDamage| corrupt(target, "run", u64::from(at.run), at.offset);
        let Some(footer_offset) = file_bytes.checked_sub(RUN_PAGE_BYTES as u64) else {
            return Err(corrupt(target, "run", u64::from(number), 0));
        };
        if disk.len(file).map_err(io)? < file_bytes {
            return Err(corrupt(target, "run", u64::from(number), footer_offset));
        }
        let mut page = vec![0; RUN_PAGE_BYTES];
        disk.read_at(file, footer_offset, &mut page).map_err(io)?;
        let footer = RunFooter::decode(&page, number, file_bytes).map_err(damage)?;
        // Both lengths were held against that of the file, so they cannot be out of proportion.
        let mut fence = vec![0; footer.fence_pages as usize * RUN_PAGE_BYTES];
        disk.read_at(file, footer.fence_offset(), &mut fence).map_err(io)?;
        let mut filter = vec![0; footer.filter_pages as usize * RUN_PAGE_BYTES];
        disk.read_at(file, footer.filter_offset(), &mut filter).map_err(io)?;
        Self::from_parts(target, file, footer, &fence, &filter).map_err(damage)
    }

    /// A run from its footer and the bytes of its fence and filter.
    ///
    /// # Errors
    /// `RunDamage` if they do not verify.
    pub(crate) fn from_parts(
        target: TargetNo,
        file: FileId,
        footer: RunFooter,
        fence: &[u8],
        filter: &[u8],
    ) -> Result<Self, RunDamage> {
        let mut fence_blocks = Vec::with_capacity(fence.len() / RUN_PAGE_BYTES);
        for (page, bytes) in (0u32..).zip(fence.chunks(RUN_PAGE_BYTES)) {
            let offset = footer.fence_offset() + u64::from(page) * RUN_PAGE_BYTES as u64;
            let block =
                RunBlock::parse(IoBuf::copy_of(bytes), RunBlockKind::Fence, (footer.run, page, offset))?;
            fence_blocks.push(block);
        }
        let mut lines = lines::zeroed(footer.filter_lines as usize);
        let (mut block, mut filled, mut page) = (Vec::new(), 0, 0);
        for bytes in filter.chunks(FILTER_BLOCK_BYTES) {
            let offset = footer.filter_offset() + u64::from(page) * RUN_PAGE_BYTES as u64;
            decode_filter_block(bytes, (footer.run, page, offset), &mut block)?;
            for words in block.drain(..) {
                let damage = RunDamage { run: footer.run, offset };
                lines.get_mut(filled).ok_or(damage)?.0 = words;
                filled += 1;
            }
            page += FILTER_BLOCK_PAGES;
        }
        let entries: usize = fence_blocks.iter().map(RunBlock::count).sum();
        if entries != footer.blocks as usize || filled != lines.len() || entries == 0 {
            return Err(RunDamage { run: footer.run, offset: footer.fence_offset() });
        }
        Ok(Self::of(target, file, footer, fence_blocks, Filter::from_lines(lines)))
    }

    /// Pages of the block of fence or filter that begins at `page`, or of the footer; `None` behind that.
    pub(crate) fn part_pages(&self, page: u32) -> Option<u32> {
        let footer = &self.footer;
        let fence_end = footer.entry_pages + footer.fence_pages;
        let filter_end = fence_end + footer.filter_pages;
        match page {
            _ if page < fence_end => Some(1),
            _ if page < filter_end => Some(FILTER_BLOCK_PAGES.min(filter_end - page)),
            _ => (page == filter_end).then_some(1),
        }
    }

    /// Reads and verifies a part behind the entries once more. How many bytes it has.
    ///
    /// REQUIRES: `part_pages` said of `page` that it begins a part of so many pages.
    ///
    /// # Errors
    /// `Corrupt` or what the device says.
    pub(crate) fn verify_part(&self, disk: &mut dyn Disk, page: u32, pages: u32) -> Result<u64, Error> {
        let (number, footer) = (self.number(), &self.footer);
        let place = BlockPlace { page, pages };
        let mut bytes = IoBuf::zeroed(place.len_bytes());
        disk.read_at(self.file, place.offset_bytes(), &mut bytes)
            .map_err(|error| self.damage_if_unreadable(disk_error(self.target, &error), place))?;
        let (in_fence, offset) = (page - footer.entry_pages, place.offset_bytes());
        let verified = match in_fence.checked_sub(footer.fence_pages) {
            None => RunBlock::parse(bytes, RunBlockKind::Fence, (number, in_fence, offset)).map(drop),
            Some(in_filter) if in_filter < footer.filter_pages => {
                decode_filter_block(&bytes, (number, in_filter, offset), &mut Vec::new())
            }
            Some(_) => RunFooter::decode(&bytes, number, self.file_bytes()).map(drop),
        };
        verified.map_err(|at| self.damage(at))?;
        Ok(place.len_bytes() as u64)
    }

    /// A run from its resident parts.
    pub(crate) fn of(
        target: TargetNo,
        file: FileId,
        footer: RunFooter,
        fence: Vec<RunBlock<IoBuf>>,
        filter: Filter,
    ) -> Self {
        let top = Top::of(&fence);
        Self { target, file, footer, fence, top, filter }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.footer.run
    }

    /// Counts, epochs and last key.
    pub(crate) fn footer(&self) -> &RunFooter {
        &self.footer
    }

    /// About how many hashes its filter has: one an entry, and one for each object with integer dkeys that has extents.
    pub(crate) fn hashes(&self) -> u64 {
        let entries = self.footer.entries;
        self.filter.hashes().clamp(entries, 2 * entries)
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.footer.file_pages() * RUN_PAGE_BYTES as u64
    }

    /// Whether there may be entries of epochs behind `from` and up to `to`.
    pub(crate) fn has_epochs(&self, from: Epoch, to: Epoch) -> bool {
        self.footer.epoch_max > from.0 && self.footer.epoch_min <= to.0
    }

    /// Bytes that it adds to the file of a merge: more than its own if its entries share less with those between.
    pub(crate) fn merged_bytes_max(&self) -> u64 {
        let entries = self.footer.fence_offset();
        self.file_bytes() - entries + entries.max(self.footer.plain_bytes)
    }

    /// Whether an entry may have been pushed with this hash.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// Whether there may be entries of a kind that were pushed with this hash.
    #[inline]
    pub(crate) fn may_hold(&self, kind: VersionKind, hash: u64) -> bool {
        self.holds(kind) && self.filter.may_contain(hash)
    }

    /// Whether there are entries of a kind.
    #[inline]
    pub(crate) fn holds(&self, kind: VersionKind) -> bool {
        self.footer.holds >> kind as u32 & 1 == 1
    }

    /// Whether there may be removals that were pushed with this hash.
    #[inline]
    pub(crate) fn may_hold_removal(&self, hash: u64) -> bool {
        self.footer.holds & RunFooter::HOLDS_REMOVALS != 0 && self.filter.may_contain(hash)
    }

    /// Asks for what `may_contain` looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Memory of the resident part, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        let fence = self.fence.len() * (RUN_PAGE_BYTES + size_of::<RunBlock<IoBuf>>());
        size_of::<Self>()
            + fence
            + size_of_val(self.filter.lines())
            + size_of_val(&self.top.heads[..])
            + self.footer.last_key.len()
    }

    /// The error for an entry that is not what a run holds.
    pub(crate) fn corrupt(&self, target: TargetNo) -> Error {
        corrupt(target, "run", u64::from(self.number()), 0)
    }

    /// Verifies bytes that were read from `place`.
    ///
    /// # Errors
    /// `Corrupt` if they are not that block.
    pub(crate) fn parse(&self, bytes: IoBuf, place: BlockPlace) -> Result<Block, Error> {
        let name = (self.number(), place.page, place.offset_bytes());
        RunBlock::parse(bytes, RunBlockKind::Entries, name).map_err(|at| self.damage(at))
    }

    fn damage(&self, at: RunDamage) -> Error {
        corrupt(self.target, "run", u64::from(at.run), at.offset)
    }

    /// What a walk over everything takes a block for that the device does not give.
    pub(super) fn damage_if_unreadable(&self, error: Error, place: BlockPlace) -> Error {
        if is_unreadable(&error) {
            return corrupt(self.target, "run", u64::from(self.number()), place.offset_bytes());
        }
        error
    }

    fn fence_place(&self, key: &[u8]) -> FencePlace {
        let block = self.top.find(&self.fence, key);
        FencePlace { block, index: self.fence[block].upper_bound(key).saturating_sub(1) }
    }

    fn next_place(&self, at: FencePlace) -> Option<FencePlace> {
        if at.index + 1 < self.fence[at.block].count() {
            return Some(FencePlace { index: at.index + 1, ..at });
        }
        (at.block + 1 < self.fence.len()).then_some(FencePlace { block: at.block + 1, index: 0 })
    }

    fn place_before(&self, at: FencePlace) -> Option<FencePlace> {
        if let Some(index) = at.index.checked_sub(1) {
            return Some(FencePlace { index, ..at });
        }
        let block = at.block.checked_sub(1)?;
        Some(FencePlace { block, index: self.fence[block].count() - 1 })
    }

    fn place(&self, at: FencePlace) -> Result<BlockPlace, Error> {
        let page = self.page(at)?;
        let end = match self.next_place(at) {
            Some(next) => self.page(next)?,
            None => self.footer.entry_pages,
        };
        match end.checked_sub(page) {
            Some(pages)
                if (1..=RUN_BLOCK_PAGES_MAX).contains(&(pages as usize))
                    && end <= self.footer.entry_pages =>
            {
                Ok(BlockPlace { page, pages })
            }
            _ => Err(self.bad_fence(at)),
        }
    }

    fn page(&self, at: FencePlace) -> Result<u32, Error> {
        let page = self.fence[at.block].payload_array(at.index).map(u32::from_le_bytes);
        page.ok_or_else(|| self.bad_fence(at))
    }

    fn bad_fence(&self, at: FencePlace) -> Error {
        let offset = self.footer.fence_offset() + (at.block * RUN_PAGE_BYTES) as u64;
        self.damage(RunDamage { run: self.number(), offset })
    }
}

/// Pages and bytes of a full filter block.
const FILTER_BLOCK_PAGES: u32 = 8;
const FILTER_BLOCK_BYTES: usize = FILTER_BLOCK_PAGES as usize * RUN_PAGE_BYTES;
const _: () = assert!(RUN_FILTER_BLOCK_LINES * 64 < FILTER_BLOCK_BYTES);

/// A place in a run: on an entry, or after the last one.
///
/// It holds on to its block, so that a cache does not drop that meanwhile, and that a seek which stalled on the
/// block behind does not begin anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCursor {
    at: FencePlace,
    block: Option<Arc<Block>>,
    /// The entry of the block; `None` if it stands on none.
    index: Option<usize>,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl RunCursor {
    /// Key and payload of the entry it stands on; `None` after the last one and before the first seek.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.index.map(|_| (&self.key[..], &self.payload[..]))
    }

    /// Shows payloads of entries to which it comes soon: `ahead` of them at the start of a block, then one more each.
    pub(crate) fn upcoming(&self, ahead: usize, scratch: &mut Vec<u8>, mut show: impl FnMut(&[u8])) {
        let Some((block, index)) = self.block.as_ref().zip(self.index) else {
            return;
        };
        let first = if index == 0 { 0 } else { index + ahead };
        for index in first..(index + ahead + 1).min(block.count()) {
            block.payload_into(index, scratch);
            show(scratch);
        }
    }

    /// Memory of its block, key and payload, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.key.capacity() + self.payload.capacity() + self.block.as_ref().map_or(0, |block| block.len())
    }

    /// Leaves the entry it stands on, and keeps its block.
    pub(crate) fn leave(&mut self) {
        self.index = None;
    }

    /// Goes to the first entry at or after `key`, which may be any bytes.
    ///
    /// # Errors
    /// Those of the source; then the cursor stands nowhere.
    pub(crate) fn seek(&mut self, run: &Run, key: &[u8], blocks: &mut dyn BlockSource) -> Result<(), Error> {
        self.index = None;
        if key > &run.footer.last_key[..] {
            self.block = None;
            return Ok(());
        }
        let place = run.fence_place(key);
        match self.enter(run, place, blocks) {
            Ok(block) => {
                let index = block.lower_bound(key);
                if index < block.count() {
                    self.stand(index);
                    return Ok(());
                }
            }
            Err(error) => {
                blocks.pass(error)?;
                (self.block, self.at) = (None, place);
            }
        }
        self.enter_next(run, blocks)
    }

    /// Goes to the last entry before `key`, which may be any bytes.
    ///
    /// # Errors
    /// Those of the source; then the cursor stands nowhere.
    pub(crate) fn seek_below(
        &mut self,
        run: &Run,
        key: &[u8],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), Error> {
        self.index = None;
        match self.enter(run, run.fence_place(key), blocks)?.lower_bound(key) {
            0 => self.enter_before(run, blocks),
            above => {
                self.stand(above - 1);
                Ok(())
            }
        }
    }

    /// Takes the block at a place of the fence, unless it is the one it has; it stands on no entry yet.
    fn enter(
        &mut self,
        run: &Run,
        at: FencePlace,
        blocks: &mut dyn BlockSource,
    ) -> Result<&Arc<Block>, Error> {
        let has_it = self.at == at && self.block.as_ref().is_some_and(|block| block.run() == run.number());
        if !has_it {
            self.block = Some(blocks.block(run, run.place(at)?)?);
            self.at = at;
        }
        Ok(self.block.as_ref().expect("it has it, or it was taken"))
    }

    /// Goes to the next entry; at the end it stays there.
    ///
    /// # Errors
    /// Those of the source; then the cursor is where it was.
    pub(crate) fn advance(&mut self, run: &Run, blocks: &mut dyn BlockSource) -> Result<(), Error> {
        match (&self.block, self.index) {
            (Some(block), Some(index)) if index + 1 < block.count() => {
                self.step(index + 1);
                Ok(())
            }
            (Some(_), Some(_)) => self.enter_next(run, blocks),
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// Goes to the entry before; before the first it stands nowhere.
    ///
    /// # Errors
    /// Those of the source; then the cursor is where it was.
    pub(crate) fn retreat(&mut self, run: &Run, blocks: &mut dyn BlockSource) -> Result<(), Error> {
        match self.index {
            Some(0) => self.enter_before(run, blocks),
            Some(index) => {
                self.step(index - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Goes to the last entry of the block before, or nowhere.
    fn enter_before(&mut self, run: &Run, blocks: &mut dyn BlockSource) -> Result<(), Error> {
        match run.place_before(self.at) {
            Some(before) => {
                let block = blocks.block(run, run.place(before)?)?;
                let last = block.count() - 1;
                (self.block, self.at) = (Some(block), before);
                self.stand(last);
            }
            None => self.index = None,
        }
        Ok(())
    }

    /// Goes to the first entry of the block behind, or to the end.
    fn enter_next(&mut self, run: &Run, blocks: &mut dyn BlockSource) -> Result<(), Error> {
        let mut at = self.at;
        while let Some(next) = run.next_place(at) {
            match run.place(next).and_then(|place| blocks.block(run, place)) {
                Ok(block) => {
                    (self.block, self.at) = (Some(block), next);
                    self.stand(0);
                    return Ok(());
                }
                Err(error) => blocks.pass(error)?,
            }
            at = next;
        }
        (self.block, self.index) = (None, None);
        Ok(())
    }

    /// Goes to another entry of the block, from one of it.
    fn step(&mut self, index: usize) {
        let block = self.block.as_ref().expect("it stands in a block");
        block.step_into(index, &mut self.key, &mut self.payload);
        self.index = Some(index);
    }

    fn stand(&mut self, index: usize) {
        let block = self.block.as_ref().expect("the caller has put it on a block");
        self.key.reserve(KEY_BYTES_MAX);
        block.key_into(index, &mut self.key);
        block.payload_into(index, &mut self.payload);
        self.index = Some(index);
    }
}
