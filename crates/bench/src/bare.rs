//! The least that keeps a value and finds it again: an ordered map in memory and a log in a mapped file, with checksums.
//! It has no versions, no runs and no background work, cannot be opened again, and writes over its log from the begin;
//! what it does bounds what a store with an ordered index can do on the same machine.

use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::row::Row;
use crate::{child, native};
use dolmen_env::{Disk, RealDisk, Region};
use dolmen_types::crc32c;
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "ordered map and log";
const SIZE: usize = 64;
/// Key, checksum, and padding to eight bytes.
const HEAD_BYTES: usize = 16;
const RECORD_BYTES: u64 = (HEAD_BYTES + SIZE) as u64;
/// Every key is written once in a round, so that no record of the last two rounds is written over.
const ROUNDS_IN_LOG: u64 = 3;

/// Rounds of updates and fetches of all keys by such a map.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.dir.join("bare");
    child::fresh(&dir)?;
    let keys = Keys::new(options.key_bits(SIZE));
    let rows = native::pinned(|| measure(&dir, keys, options.seconds / 3.0));
    child::clean(&dir)?;
    rows?.into_iter().for_each(each);
    Ok(())
}

struct Bare {
    /// Where the record of each key is in the log.
    map: BTreeMap<u128, u64>,
    log: Region,
    end: u64,
    log_bytes: u64,
}

impl Bare {
    fn update(&mut self, key: u64, value: &[u8]) {
        if self.end + RECORD_BYTES > self.log_bytes {
            self.end = 0;
        }
        let mut record = [0; HEAD_BYTES + SIZE];
        record[..8].copy_from_slice(&key.to_le_bytes());
        record[8..12].copy_from_slice(&crc32c(value).to_le_bytes());
        record[HEAD_BYTES..].copy_from_slice(value);
        self.log.write(self.end, &record);
        self.map.insert(ordered(key), self.end);
        self.end += RECORD_BYTES;
    }

    fn fetch(&self, key: u64, value: &mut [u8; SIZE]) -> Result<()> {
        let at = *self.map.get(&ordered(key)).ok_or(Error::Wrong { key })?;
        let record = self.log.bytes(at..at + RECORD_BYTES);
        value.copy_from_slice(&record[HEAD_BYTES..]);
        let is_right = record[8..12] == crc32c(value).to_le_bytes();
        if is_right { Ok(()) } else { Err(Error::Wrong { key }) }
    }
}

/// A key as long as a path is that a store orders by: numbers in a row do not lie side by side in it.
fn ordered(key: u64) -> u128 {
    u128::from(crate::data::mix(key)) << 64 | u128::from(key)
}

fn measure(dir: &Path, keys: Keys, seconds: f64) -> Result<[Row; 2]> {
    let log_bytes = (ROUNDS_IN_LOG * keys.count() * RECORD_BYTES).next_multiple_of(2 << 20);
    let mut disk = RealDisk::open(dir)?;
    let file = disk.create("log", log_bytes)?;
    let log = disk.map(file)?;
    let mut bare = Bare { map: BTreeMap::new(), log, end: 0, log_bytes };
    let values = Values::new(SIZE);
    let write_all = |bare: &mut Bare, round, meter: &mut Meter| {
        for key in (0..keys.count()).map(|index| keys.at(index, round)) {
            meter.run(SIZE as u64, || bare.update(key, values.of(key, round)));
        }
    };
    // The log is made in rounds that do not count, and then written again.
    for round in 0..ROUNDS_IN_LOG {
        write_all(&mut bare, round, &mut Meter::paused());
    }
    bare.log.prefer_huge_pages();
    let (mut round, mut update) = (ROUNDS_IN_LOG, Meter::start());
    while !update.is_over(seconds) {
        write_all(&mut bare, round, &mut update);
        round += 1;
    }
    let update = update.row(NAME, "update", SIZE as u64);
    let mut value = [0; SIZE];
    let mut fetch = Meter::start();
    while !fetch.is_over(seconds) {
        let (done, index) = (fetch.ops / keys.count(), fetch.ops % keys.count());
        fetch.run(SIZE as u64, || bare.fetch(keys.at(index, round + done), &mut value))?;
    }
    let fetch = fetch.row(NAME, "fetch", SIZE as u64);
    for key in 0..keys.count() {
        bare.fetch(key, &mut value)?;
        if value != values.of(key, round - 1) {
            return Err(Error::Wrong { key });
        }
    }
    let note = format!(
        "{} random keys; no versions, no runs, no background work; every byte compared",
        keys.count()
    );
    Ok([update, fetch].map(|row| row.noting(note.clone())))
}
