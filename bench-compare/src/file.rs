//! A plain file with a slot for each key: what is left when there are no keys, versions or checksums.

use crate::error::Result;
use crate::peer::{Durability, Peer, Setup};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// The file.
struct Slots {
    file: File,
    size: usize,
    sync: bool,
    buf: Vec<u8>,
}

/// Makes the file in the directory.
pub fn create<'v>(setup: &Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>> {
    let path = setup.dir.join("slots");
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
    let sync = setup.durability == Durability::Power;
    let size = setup.values.size();
    Ok(Box::new(Slots { file, size, sync, buf: vec![0; size] }))
}

impl<'v> Peer<'v> for Slots {
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        self.put_batch(&[(key, value)])
    }

    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()> {
        for (key, value) in items {
            self.file.write_all_at(value, key * self.size as u64)?;
        }
        if self.sync {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.file.read_exact_at(&mut self.buf, key * self.size as u64)?;
        each(key, &self.buf);
        Ok(())
    }

    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        for &key in keys {
            Peer::get(self, key, each)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
