//! Writing a run: ascending entries go in, blocks come out in the order of the file. No I/O here.

use super::filter::Filter;
use super::reader::Run;
use crate::tree::key::{common_prefix_len, split_tail};
use dolmen_codec::run_block::{
    RUN_FILTER_BLOCK_LINES, RUN_PAGE_BYTES, RunBlock, RunBlockBuilder, RunBlockKind, RunDamage,
    encode_filter_block,
};
use dolmen_codec::run_footer::RunFooter;
use dolmen_env::FileId;
use dolmen_types::{IoBuf, TargetNo};

/// So many hashes enter the filter at once, so that their misses overlap.
const LATE_MAX: usize = 32;

/// Makes a run.
///
/// Each buffer that it returns belongs right behind the one before, from offset 0 of the file on.
#[derive(Debug)]
pub(crate) struct RunWriter {
    run: u32,
    entries: RunBlockBuilder,
    fence: RunBlockBuilder,
    /// Fence blocks that are complete.
    fence_blocks: Vec<IoBuf>,
    filter: Filter,
    /// Hashes on their way into the filter: their lines are asked for.
    late: Vec<u64>,
    /// Separates the open entry block from the one before.
    separator: Vec<u8>,
    footer: RunFooter,
}

/// The end of a run: what is left to be written once the last entry is in.
#[derive(Debug)]
pub(crate) struct RunTail {
    last_block: Option<IoBuf>,
    fence_blocks: Vec<IoBuf>,
    fence_done: usize,
    filter: Filter,
    lines_done: usize,
    footer: RunFooter,
    is_done: bool,
}

impl RunWriter {
    /// Begins run `run`; the filter is sized for `hashes` hashes.
    pub(crate) fn new(run: u32, hashes: u64) -> Self {
        Self {
            run,
            entries: RunBlockBuilder::new(RunBlockKind::Entries),
            fence: RunBlockBuilder::new(RunBlockKind::Fence),
            fence_blocks: Vec::new(),
            filter: Filter::with_room(hashes),
            late: Vec::with_capacity(LATE_MAX),
            separator: Vec::new(),
            footer: RunFooter {
                run,
                entries: 0,
                blocks: 0,
                entry_pages: 0,
                fence_pages: 0,
                filter_pages: 0,
                filter_lines: 0,
                holds: 0,
                epoch_min: u64::MAX,
                epoch_max: 0,
                plain_bytes: 0,
                last_key: Vec::new(),
            },
        }
    }

    /// What the entries added from now on are of, as a footer says it.
    pub(crate) fn note_holds(&mut self, holds: u32) {
        self.footer.holds |= holds;
    }

    /// Adds an entry and the hashes by which lookups will ask for it; returns a block once one is full.
    ///
    /// REQUIRES: `key` is a flat key above all before; key and payload fit `RUN_ENTRY_BYTES_MAX`.
    pub(crate) fn push(&mut self, key: &[u8], payload: &[u8], hashes: &[u64]) -> Option<IoBuf> {
        assert!(key > self.entries.last_key());
        let (_, _, stamp) = split_tail(key).expect("the index holds whole keys");
        let epoch = stamp.epoch.0;
        let mut full = None;
        if !self.entries.push(key, payload, epoch) {
            let separator_len = common_prefix_len(self.entries.last_key(), key) + 1;
            full = Some(self.finish_block());
            self.separator.extend_from_slice(&key[..separator_len]);
            assert!(self.entries.push(key, payload, epoch), "the first entry of a block fits");
        } else if self.footer.entries == 0 {
            self.separator.extend_from_slice(key);
        }
        self.footer.entries += 1;
        self.footer.epoch_min = self.footer.epoch_min.min(epoch);
        self.footer.epoch_max = self.footer.epoch_max.max(epoch);
        for &hash in hashes {
            self.filter.prefetch(hash);
            self.late.push(hash);
        }
        if self.late.len() >= LATE_MAX {
            self.insert_late();
        }
        full
    }

    fn insert_late(&mut self) {
        self.late.drain(..).for_each(|hash| self.filter.insert(hash));
    }

    /// Memory of fence and filter, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.fence_blocks.len() * RUN_PAGE_BYTES + self.filter.lines().len() * 64
    }

    /// Ends the run; `None` if it has no entries.
    pub(crate) fn finish(mut self) -> Option<RunTail> {
        if self.footer.entries == 0 {
            return None;
        }
        self.insert_late();
        self.footer.last_key = self.entries.last_key().to_vec();
        let last_block = self.finish_block();
        let block = self.fence.finish(self.run, self.footer.fence_pages);
        self.add_fence_block(block);
        let lines = self.filter.lines().len();
        self.footer.filter_lines = u32::try_from(lines).expect("a run has fewer than 2^32 pages");
        Some(RunTail {
            last_block: Some(last_block),
            fence_blocks: self.fence_blocks,
            fence_done: 0,
            filter: self.filter,
            lines_done: 0,
            footer: self.footer,
            is_done: false,
        })
    }

    fn finish_block(&mut self) -> IoBuf {
        let page = self.footer.entry_pages;
        if !self.fence.push(&self.separator, &page.to_le_bytes(), 0) {
            let block = self.fence.finish(self.run, self.footer.fence_pages);
            self.add_fence_block(block);
            assert!(self.fence.push(&self.separator, &page.to_le_bytes(), 0), "the first one fits");
        }
        self.separator.clear();
        self.footer.plain_bytes += self.entries.plain_bytes() as u64;
        let block = self.entries.finish(self.run, page);
        self.footer.entry_pages += page_count(&block);
        self.footer.blocks += 1;
        block
    }

    fn add_fence_block(&mut self, block: IoBuf) {
        assert!(block.len() == RUN_PAGE_BYTES, "a separator is far shorter than a page");
        self.footer.fence_pages += 1;
        self.fence_blocks.push(block);
    }
}

impl Iterator for RunTail {
    type Item = IoBuf;

    fn next(&mut self) -> Option<IoBuf> {
        if let Some(block) = self.last_block.take() {
            return Some(block);
        }
        if let Some(block) = self.fence_blocks.get(self.fence_done) {
            self.fence_done += 1;
            return Some(block.clone());
        }
        let rest = &self.filter.lines()[self.lines_done..];
        if rest.is_empty() {
            let is_last = !core::mem::replace(&mut self.is_done, true);
            return is_last.then(|| self.footer.encode());
        }
        let lines = &rest[..rest.len().min(RUN_FILTER_BLOCK_LINES)];
        let block = encode_filter_block(self.footer.run, self.footer.filter_pages, lines);
        self.lines_done += lines.len();
        self.footer.filter_pages += page_count(&block);
        Some(block)
    }
}

impl RunTail {
    /// Memory of fence and filter, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.fence_blocks.len() * RUN_PAGE_BYTES + self.filter.lines().len() * 64
    }

    /// Whether all blocks have come out.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The run whose last block has come out, opened on the file that has them all, without reading it back.
    ///
    /// # Errors
    /// `RunDamage` if a block of the fence was damaged in memory.
    pub(crate) fn into_run(self, target: TargetNo, file: FileId) -> Result<Run, RunDamage> {
        assert!(self.is_done, "the file is complete");
        let mut fence = Vec::with_capacity(self.fence_blocks.len());
        for (page, block) in (0u32..).zip(self.fence_blocks) {
            let offset = self.footer.fence_offset() + u64::from(page) * RUN_PAGE_BYTES as u64;
            fence.push(RunBlock::parse(block, RunBlockKind::Fence, (self.footer.run, page, offset))?);
        }
        Ok(Run::of(target, file, self.footer, fence, self.filter))
    }
}

fn page_count(block: &IoBuf) -> u32 {
    u32::try_from(block.len() / RUN_PAGE_BYTES).expect("a block has at most 15 pages")
}
