//! The entry blocks of runs that were used last, within a budget of bytes.
//!
//! Invariants: `bytes` counts the blocks in the slots; neither a block that a cursor holds nor the one that came
//! last is dropped to make room, so the budget can be exceeded by these.

use super::reader::{Block, BlockPlace, BlockSource, Run};
use crate::error::disk_error;
use dolmen_codec::run_block::RUN_PAGE_BYTES;
use dolmen_env::Disk;
use dolmen_types::{Error, IoBuf, Place};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A block cache; what was used since the hand passed last gets another turn.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Run and page to slot.
    places: HashMap<(u32, u32), usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    budget_bytes: usize,
}

#[derive(Debug)]
struct Slot {
    block: Arc<Block>,
    used: bool,
}

/// Reads what the cache does not have.
pub(crate) struct DiskBlocks<'a> {
    blocks: &'a mut Blocks,
    disk: &'a mut dyn Disk,
}

/// As [`DiskBlocks`], for whoever goes once over all of a run: what is read that way is not worth a place in the
/// cache, and nothing there counts as used.
pub(crate) struct PassingBlocks<'a> {
    blocks: &'a Blocks,
    disk: &'a mut dyn Disk,
}

impl Blocks {
    /// An empty cache.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self { budget_bytes, ..Self::default() }
    }

    /// A source that reads from `disk`, waiting for it.
    pub(crate) fn source<'a>(&'a mut self, disk: &'a mut dyn Disk) -> DiskBlocks<'a> {
        DiskBlocks { blocks: self, disk }
    }

    /// A source that reads from `disk`, waiting for it, and leaves the cache as it is.
    pub(crate) fn passing<'a>(&'a self, disk: &'a mut dyn Disk) -> PassingBlocks<'a> {
        PassingBlocks { blocks: self, disk }
    }

    /// Takes a block in; others go if there is no room.
    pub(crate) fn insert(&mut self, block: Arc<Block>) {
        let key = (block.run(), block.page());
        let slot = Slot { block, used: true };
        self.bytes += cost(&slot.block);
        let at = match self.places.get(&key) {
            Some(&at) => {
                if let Some(old) = self.slots[at].replace(slot) {
                    self.bytes -= cost(&old.block);
                }
                at
            }
            None => {
                let at = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    self.slots.len() - 1
                });
                self.slots[at] = Some(slot);
                self.places.insert(key, at);
                at
            }
        };
        // Whoever stalled on this block must find it, however small the budget.
        self.shrink(Some(at));
    }

    /// Drops all blocks of a run that is gone.
    pub(crate) fn forget(&mut self, run: u32) {
        for at in 0..self.slots.len() {
            if self.slots[at].as_ref().is_some_and(|slot| slot.block.run() == run) {
                self.drop_slot(at);
            }
        }
    }

    /// From now on the blocks may take so many bytes.
    pub(crate) fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.shrink(None);
    }

    /// Memory of the blocks, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.bytes
    }

    fn lookup(&mut self, run: u32, page: u32) -> Option<Arc<Block>> {
        let &at = self.places.get(&(run, page))?;
        let slot = self.slots[at].as_mut().expect("places name full slots");
        slot.used = true;
        Some(Arc::clone(&slot.block))
    }

    fn peek(&self, run: u32, page: u32) -> Option<Arc<Block>> {
        let slot = self.slots[*self.places.get(&(run, page))?].as_ref().expect("places name full slots");
        Some(Arc::clone(&slot.block))
    }

    /// Moves the hand until the budget is held or it has passed everything twice.
    fn shrink(&mut self, newest: Option<usize>) {
        let mut steps = 2 * self.slots.len();
        while self.bytes > self.budget_bytes && steps > 0 {
            steps -= 1;
            self.hand = (self.hand + 1) % self.slots.len();
            if newest == Some(self.hand) {
                continue;
            }
            match &mut self.slots[self.hand] {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) if Arc::strong_count(&slot.block) == 1 => self.drop_slot(self.hand),
                Some(_) | None => {}
            }
        }
    }

    fn drop_slot(&mut self, at: usize) {
        if let Some(slot) = self.slots[at].take() {
            self.bytes -= cost(&slot.block);
            self.places.remove(&(slot.block.run(), slot.block.page()));
            self.free.push(at);
        }
    }
}

/// What a block takes, with its slot and its entry in the map.
fn cost(block: &Block) -> usize {
    const OVERHEAD_BYTES: usize = 128;
    block.len().next_multiple_of(RUN_PAGE_BYTES) + OVERHEAD_BYTES
}

impl BlockSource for DiskBlocks<'_> {
    fn block(&mut self, run: &Run, place: BlockPlace) -> Result<Arc<Block>, Error> {
        if let Some(block) = self.blocks.lookup(run.number(), place.page) {
            return Ok(block);
        }
        let block = read(self.disk, run, place)?;
        self.blocks.insert(Arc::clone(&block));
        Ok(block)
    }
}

impl BlockSource for PassingBlocks<'_> {
    fn block(&mut self, run: &Run, place: BlockPlace) -> Result<Arc<Block>, Error> {
        match self.blocks.peek(run.number(), place.page) {
            Some(block) => Ok(block),
            None => read(self.disk, run, place),
        }
    }
}

fn read(disk: &mut dyn Disk, run: &Run, place: BlockPlace) -> Result<Arc<Block>, Error> {
    let mut bytes = IoBuf::zeroed(place.len_bytes());
    let read = disk.read_at(run.file, place.offset_bytes(), &mut bytes);
    read.map_err(|error| disk_error(run.target, &error))?;
    Ok(Arc::new(run.parse(bytes, place)?))
}

/// What a walk over everything takes of damaged runs: what is left. All of it is read from the device, whatever the cache
/// has: what rots there is still good here.
pub(crate) struct IntactBlocks<'a> {
    disk: &'a mut dyn Disk,
    /// The blocks that were passed over: number of the run, and offset.
    damaged: &'a mut BTreeSet<(u64, u64)>,
    pub(crate) read_bytes: u64,
}

impl<'a> IntactBlocks<'a> {
    pub(crate) fn new(disk: &'a mut dyn Disk, damaged: &'a mut BTreeSet<(u64, u64)>) -> Self {
        Self { disk, damaged, read_bytes: 0 }
    }
}

impl BlockSource for IntactBlocks<'_> {
    fn block(&mut self, run: &Run, place: BlockPlace) -> Result<Arc<Block>, Error> {
        self.read_bytes += place.len_bytes() as u64;
        read(self.disk, run, place).map_err(|error| run.damage_if_unreadable(error, place))
    }

    fn pass(&mut self, error: Error) -> Result<(), Error> {
        if let Error::Corrupt { place, .. } = &error
            && let Place::Record { file: "run", number, offset } = **place
        {
            self.damaged.insert((number, offset));
            return Ok(());
        }
        Err(error)
    }
}
