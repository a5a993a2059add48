//! One target of Dolmen, as `dolmen bench engine` drives it: its background work is part of the time.

use crate::error::Result;
use crate::peer::{Durability, Peer, Setup};
use dolmen_bench::{Kind, Rig};

/// Values up to this size are single values; larger ones extents of bytes.
const SINGLE_BYTES_MAX: usize = 64 << 10;

/// Makes the store.
pub fn create<'v>(setup: &Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>> {
    let size = setup.values.size();
    let kind = if size <= SINGLE_BYTES_MAX { Kind::Single } else { Kind::Extent };
    let mut options = dolmen_bench::Setup::new(kind, size);
    options.power = setup.durability == Durability::Power;
    options.memory_bytes = setup.memory_bytes;
    Ok(Box::new(Rig::create(setup.dir, options)?))
}

impl<'v> Peer<'v> for Rig<'v> {
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        Ok(self.update(key, value)?)
    }

    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()> {
        Ok(self.update_batch(items.iter().copied())?)
    }

    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        each(key, self.fetch(key)?);
        Ok(())
    }

    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        Ok(self.fetch_batch(keys.iter().copied(), |at, value| each(keys[at], value))?)
    }

    fn upkeep(&mut self) -> Result<()> {
        Ok(Rig::upkeep(self)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(Rig::close(*self)?)
    }
}
