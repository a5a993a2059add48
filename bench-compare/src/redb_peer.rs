//! redb: commits that survive power loss are flushed (`Immediate`), those that survive the process are written
//! without a flush (`Eventual`).

use crate::error::{Error, Result};
use crate::peer::{Durability, Peer, Setup};
use redb::{Database, TableDefinition};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");

/// A database and nothing else: transactions are short.
struct Redb {
    db: Database,
    durability: redb::Durability,
}

/// Makes a database in the directory.
pub fn create<'v>(setup: &Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>> {
    let memory = usize::try_from(setup.memory_bytes).unwrap_or(usize::MAX);
    let db = Database::builder()
        .set_cache_size(memory)
        .create(setup.dir.join("redb"))
        .map_err(|error| refused(&error))?;
    let durability = match setup.durability {
        Durability::Process => redb::Durability::Eventual,
        Durability::Power => redb::Durability::Immediate,
    };
    Ok(Box::new(Redb { db, durability }))
}

fn refused(error: &dyn std::error::Error) -> Error {
    Error::Peer { name: "redb", said: error.to_string() }
}

impl<'v> Peer<'v> for Redb {
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        self.put_batch(&[(key, value)])
    }

    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()> {
        let mut txn = self.db.begin_write().map_err(|error| refused(&error))?;
        txn.set_durability(self.durability);
        let mut table = txn.open_table(TABLE).map_err(|error| refused(&error))?;
        for (key, value) in items {
            table.insert(key, value).map_err(|error| refused(&error))?;
        }
        drop(table);
        txn.commit().map_err(|error| refused(&error))
    }

    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.get_batch(&[key], each)
    }

    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let txn = self.db.begin_read().map_err(|error| refused(&error))?;
        let table = txn.open_table(TABLE).map_err(|error| refused(&error))?;
        for &key in keys {
            let value = table.get(key).map_err(|error| refused(&error))?;
            let value = value.ok_or(Error::Wrong { name: "redb", key })?;
            each(key, value.value());
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
