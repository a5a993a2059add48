//! The same work for every store.

use crate::error::{Error, Result};
use crate::options::Options;
use crate::peer::{Durability, Peer, Setup};
use crate::{dolmen, file, lmdb, redb_peer, rocks};
use dolmen_bench::{Keys, Meter, Row, Values};
use dolmen_env::pin_to_cpu;
use std::path::Path;

/// Operations of one batch.
const BATCH: usize = 32;
/// Memory that each store may use for caches.
const MEMORY_BYTES: u64 = 4 << 30;

type Create = for<'s, 'v> fn(&'s Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>>;

/// The stores; the first is the one that the others are compared with.
const STORES: [(&str, Create); 5] = [
    ("Dolmen", dolmen::create),
    ("RocksDB", rocks::create),
    ("LMDB", lmdb::create),
    ("redb", redb_peer::create),
    ("plain file", file::create),
];

/// What is asked of Dolmen, as a multiple of RocksDB's rate, for values of 64 B in memory.
const UPDATES_OVER_ROCKSDB: f64 = 5.0;
const FETCHES_OVER_ROCKSDB: f64 = 2.0;

/// One column of the comparison.
struct Case<'c> {
    options: &'c Options,
    dir: &'c Path,
    place: &'static str,
    size: usize,
    durability: Durability,
    /// Operations of a batch, one measurement each.
    depths: &'c [usize],
}

/// Runs every case on every store; rows come when all stores have done a case.
pub fn all(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    if !options.free {
        pin_to_cpu(0)?;
    }
    let memory = (options.dir.as_path(), "tmpfs");
    let disk = (options.disk_dir.as_path(), "ext4");
    // Batches where a goal is set; large values and flushes tell the same with and without.
    let cases = [
        (memory, 64, Durability::Process, &[1, BATCH][..]),
        (memory, 4096, Durability::Process, &[1][..]),
        (disk, 64, Durability::Power, &[1, BATCH][..]),
    ];
    let stores: Vec<_> = STORES.iter().filter(|(name, _)| name.contains(&options.only)).collect();
    if stores.is_empty() {
        return Err(Error::Argument { argument: options.only.clone(), why: "is in the name of no store" });
    }
    let rates = |durability, depths: &[usize]| if durability == Durability::Power { 1 } else { 2 } * depths.len();
    let all: usize = cases.iter().map(|case| rates(case.2, case.3)).sum();
    // Loading and comparing take about half a rate.
    eprintln!("# all of it: about {:.0} s", (all as f64 + 1.0) * stores.len() as f64 * options.seconds);
    for ((dir, place), size, durability, depths) in cases {
        let case = Case { options, dir, place, size, durability, depths };
        let mut rows = Vec::new();
        for (name, create) in &stores {
            let seconds = rates(durability, depths) as f64 * options.seconds;
            eprintln!("#   {name}, {place}, {size} B: about {seconds:.0} s and loading");
            let made = clean(dir).and_then(|()| on_store(&case, name, *create));
            clean(dir)?;
            rows.extend(made?);
        }
        beside(&mut rows, &case);
        rows.into_iter().map(|row| Row { quick: options.quick, ..row }).for_each(&mut *each);
    }
    Ok(())
}

fn clean(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn on_store(case: &Case<'_>, name: &'static str, create: Create) -> Result<Vec<Row>> {
    std::fs::create_dir_all(case.dir)?;
    let values = Values::new(case.size);
    let keys = Keys::new(case.options.key_bits(case.size));
    let setup =
        Setup { dir: case.dir, values: &values, durability: case.durability, memory_bytes: MEMORY_BYTES };
    let mut peer = create(&setup)?;
    if case.durability == Durability::Power {
        // Loading millions of records with a flush each would take an hour: fresh keys are written.
        return flushed(case, name, &mut *peer, &values, keys);
    }
    let mut rows = vec![load(case, name, &mut *peer, &values, keys)?];
    let mut updates = keys.count();
    for &depth in case.depths {
        let (row, done) = update(case, name, &mut *peer, &values, keys, updates, depth)?;
        updates += done;
        rows.push(row);
    }
    for &depth in case.depths {
        rows.push(fetch(case, name, &mut *peer, keys, depth)?);
    }
    verify(name, &mut *peer, &values, keys, updates)?;
    peer.close()?;
    Ok(rows)
}

/// Writes every key once, in batches: one commit for each would take some stores minutes.
fn load<'v>(
    case: &Case<'_>,
    name: &str,
    peer: &mut dyn Peer<'v>,
    values: &'v Values,
    keys: Keys,
) -> Result<Row> {
    let mut meter = Meter::start();
    let mut batch = Vec::with_capacity(BATCH);
    for first in (0..keys.count()).step_by(BATCH) {
        batch.clear();
        batch.extend((first..first + BATCH as u64).map(|index| {
            let key = keys.at(index, 0);
            (key, values.of(key, 0))
        }));
        meter.run_batch(BATCH, (BATCH * case.size) as u64, || peer.put_batch(&batch))?;
    }
    Ok(case.row(meter, name, "update fresh", keys, BATCH))
}

/// Overwrites keys in a new order each round; also how many updates there were.
fn update<'v>(
    case: &Case<'_>,
    name: &str,
    peer: &mut dyn Peer<'v>,
    values: &'v Values,
    keys: Keys,
    done: u64,
    depth: usize,
) -> Result<(Row, u64)> {
    let item = |number: u64| {
        let (round, index) = (number / keys.count(), number % keys.count());
        let key = keys.at(index, round);
        (key, values.of(key, round))
    };
    let mut meter = Meter::start();
    let mut batch = Vec::with_capacity(depth);
    while !is_over(&meter, case) {
        let next = done + meter.ops;
        if depth == 1 {
            let (key, value) = item(next);
            meter.run(case.size as u64, || peer.put(key, value))?;
        } else {
            batch.clear();
            batch.extend((next..next + depth as u64).map(item));
            meter.run_batch(depth, (depth * case.size) as u64, || peer.put_batch(&batch))?;
        }
    }
    let updates = meter.ops;
    Ok((case.row(meter, name, "update", keys, depth), updates))
}

/// The clock is read each time where an operation is slow anyway.
fn is_over(meter: &Meter, case: &Case<'_>) -> bool {
    match case.durability {
        Durability::Process => meter.is_over(case.options.seconds),
        Durability::Power => meter.seconds() >= case.options.seconds,
    }
}

fn fetch(case: &Case<'_>, name: &str, peer: &mut dyn Peer<'_>, keys: Keys, depth: usize) -> Result<Row> {
    let key_of = |number: u64| keys.at(number % keys.count(), 1_000_000 + number / keys.count());
    let mut meter = Meter::start();
    let mut batch = Vec::with_capacity(depth);
    let mut found = 0;
    let mut count = |_key: u64, value: &[u8]| found += value.len();
    while !meter.is_over(case.options.seconds) {
        let next = meter.ops;
        if depth == 1 {
            meter.run(case.size as u64, || peer.get(key_of(next), &mut count))?;
        } else {
            batch.clear();
            batch.extend((next..next + depth as u64).map(key_of));
            meter.run_batch(depth, (depth * case.size) as u64, || peer.get_batch(&batch, &mut count))?;
        }
        if meter.ops.is_multiple_of(256) {
            peer.upkeep()?;
        }
    }
    assert_eq!(found as u64, meter.bytes, "every value came whole");
    Ok(case.row(meter, name, "fetch", keys, depth))
}

/// Compares every byte with what was written.
fn verify(
    name: &'static str,
    peer: &mut dyn Peer<'_>,
    values: &Values,
    keys: Keys,
    updates: u64,
) -> Result<()> {
    let (full, part) = (updates / keys.count(), updates % keys.count());
    let mut batch = Vec::with_capacity(BATCH);
    for first in (0..keys.count()).step_by(BATCH) {
        batch.clear();
        batch.extend((first..first + BATCH as u64).map(|index| keys.at(index, full)));
        let (mut index, mut wrong) = (first, None);
        peer.get_batch(&batch, &mut |key, value| {
            let round = if index < part { full } else { full - 1 };
            index += 1;
            if value != values.of(key, round) {
                wrong = Some(key);
            }
        })?;
        if let Some(key) = wrong {
            return Err(Error::Wrong { name, key });
        }
    }
    Ok(())
}

/// Updates that are flushed, one by one and in batches.
fn flushed<'v>(
    case: &Case<'_>,
    name: &'static str,
    peer: &mut dyn Peer<'v>,
    values: &'v Values,
    keys: Keys,
) -> Result<Vec<Row>> {
    let (mut rows, mut updates) = (Vec::new(), 0);
    for &depth in case.depths {
        let (row, done) = update(case, name, peer, values, keys, updates, depth)?;
        updates += done;
        rows.push(row);
    }
    for number in 0..updates.min(keys.count()) {
        let key = keys.at(number, 0);
        let mut same = false;
        peer.get(key, &mut |_key, value| same = value == values.of(key, 0))?;
        if !same && updates <= keys.count() {
            return Err(Error::Wrong { name, key });
        }
    }
    Ok(rows)
}

impl Case<'_> {
    fn row(&self, meter: Meter, name: &str, op: &str, keys: Keys, depth: usize) -> Row {
        let survives = match self.durability {
            Durability::Process => "survives the process",
            Durability::Power => "survives power loss",
        };
        let note = format!("{survives}; {} random keys, {:.0} s", keys.count(), meter.seconds());
        let name = format!("{name}, {}", self.place);
        meter.row(&name, op, self.size as u64).at_depth(depth).noting(note)
    }
}

/// Holds Dolmen's rows against RocksDB's.
fn beside(rows: &mut [Row], case: &Case<'_>) {
    let rocks: Vec<Row> = rows.iter().filter(|row| row.name.starts_with("RocksDB")).cloned().collect();
    for row in rows.iter_mut().filter(|row| row.name.starts_with("Dolmen")) {
        let Some(peer) = rocks.iter().find(|peer| (&peer.op, peer.depth) == (&row.op, row.depth)) else {
            continue;
        };
        *row = row.clone().against(peer.ops_per_s, "RocksDB");
        if case.size == 64 && case.place == "tmpfs" {
            let times = if row.op == "fetch" { FETCHES_OVER_ROCKSDB } else { UPDATES_OVER_ROCKSDB };
            *row = row.clone().at_least(times * peer.ops_per_s);
        }
    }
}
