//! Updates and fetches of one size: fresh, over and over, at random, one by one and in batches, after a kill.

use crate::child::{self, say_row};
use crate::data::{Keys, Values};
use crate::error::Result;
use crate::meter::{Meter, now};
use crate::native;
use crate::options::Options;
use crate::rig::{Background, Kind, Rig, Setup, verify, verify_many};
use crate::row::Row;
use dolmen_env::{anonymous_rss_bytes, pin_to_cpu};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the keys begin that are written while the kill comes: beyond all that are counted.
pub(crate) const EXTRA_KEY: u64 = 1 << 41;
/// Bytes of a value that count as large.
pub(crate) const EXTENT: usize = 1 << 20;
/// Checkpoints that must end while a rate is taken.
const CHECKPOINTS_MIN: u64 = 2;

/// What the child measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) dir: PathBuf,
    pub(crate) setup: Setup,
    pub(crate) key_bits: u32,
    pub(crate) seconds: f64,
    /// A quick run keeps no rules.
    pub(crate) quick: bool,
    /// What the machine gives to the same accesses.
    pub(crate) native: Native,
}

/// Accesses a second of the same size to a file on the same tmpfs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Native {
    write_fresh: f64,
    write_again: f64,
    read: f64,
}

/// The goals of one size, in operations a second.
#[derive(Clone, Copy, Default)]
struct Goal {
    update_fresh: Option<f64>,
    update: Option<f64>,
    fetch: Option<f64>,
    fetch_hot: Option<f64>,
}

fn goal(size: usize, native: &Native) -> Goal {
    match size {
        64 => Goal { update: Some(1.0e6), fetch: Some(1.5e6), ..Goal::default() },
        4096 => Goal { update: Some(350e3), fetch: Some(800e3), ..Goal::default() },
        EXTENT => Goal {
            update_fresh: Some(0.8 * native.write_fresh),
            update: Some(0.8 * native.write_again),
            fetch: Some(0.7 * native.read),
            fetch_hot: Some(8e9 / EXTENT as f64),
        },
        _ => Goal::default(),
    }
}

impl Spec {
    pub(crate) fn new(dir: PathBuf, setup: Setup, options: &Options) -> Self {
        Self {
            dir,
            setup,
            key_bits: options.key_bits(setup.size),
            seconds: options.seconds,
            quick: options.quick,
            native: Native::default(),
        }
    }

    /// Operations handed over together: one, and those of a batch where a goal is set.
    fn depths(&self) -> &'static [usize] {
        match self.setup.size {
            1024 => &[1],
            EXTENT.. => &[1, 8],
            _ => &[1, 32],
        }
    }

    /// Tells what comes next.
    fn say_next(&self, op: &str, depth: usize) {
        let Setup { kind, size, .. } = self.setup;
        child::say_next(&format!("  {} of {size} B, {op}, depth {depth}", kind.label()), self.seconds);
    }

    /// Keys that fit the caches together with all that leads to them.
    fn hot_keys(&self) -> u64 {
        if self.setup.size >= EXTENT { 4 } else { 256 }
    }
}

/// What memory gives to copies and checksums.
pub(crate) fn machine(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let seconds = options.pick(2.0, 0.05);
    let rows = native::pinned(|| Ok([native::memcpy(seconds), native::checksum(seconds)]))?;
    rows.into_iter().for_each(each);
    Ok(())
}

/// Values of one kind and size, in a child that is killed.
pub(crate) fn run(options: &Options, kind: Kind, size: usize, each: &mut dyn FnMut(Row)) -> Result<()> {
    let native = native_limits(options, size, each)?;
    let spec = Spec { native, ..Spec::new(options.dir.join("points"), Setup::new(kind, size), options) };
    child::measure("points", &spec, each, |updates, each| verify_all(&spec, updates, each))
}

fn native_limits(options: &Options, size: usize, each: &mut dyn FnMut(Row)) -> Result<Native> {
    let dir = options.dir.join("native");
    child::fresh(&dir)?;
    // Only of large values more than the ratio is asked.
    let full = if size >= EXTENT { (30, 3.0) } else { (28, 1.5) };
    let (bytes_log2, seconds) = options.pick(full, (26, 0.1));
    let rows = native::pinned(|| native::random_file(&dir.join("file"), size, bytes_log2, seconds));
    child::clean(&dir)?;
    let rows = rows?;
    let [write_fresh, write_again, read] = [0, 1, 2].map(|at: usize| rows[at].ops_per_s);
    rows.into_iter().for_each(each);
    Ok(Native { write_fresh, write_again, read })
}

/// The child's part.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    let values = Values::new(spec.setup.size);
    let keys = Keys::new(spec.key_bits);
    let mut rig = Rig::create(&spec.dir, spec.setup)?;
    let before = anonymous_rss_bytes()?;
    load(&mut rig, &values, keys, spec)?;
    if spec.setup.size == 64 {
        memory(&mut rig, keys, spec, before)?;
    }
    let mut updates = keys.count();
    if spec.setup.size == RECYCLED && !spec.quick {
        updates += settle(&mut rig, &values, keys, spec, updates)?;
    }
    for &depth in spec.depths() {
        spec.say_next("update", depth);
        updates += overwrite(&mut rig, &values, keys, spec, updates, depth)?;
    }
    stalls(&rig, spec)?;
    for &depth in spec.depths() {
        spec.say_next("fetch", depth);
        fetch(&mut rig, keys, spec, depth)?;
    }
    fetch_hot(&mut rig, keys, spec)?;
    child::write_until_killed(updates, |extra| rig.update(EXTRA_KEY + extra, values.of(EXTRA_KEY + extra, 0)))
}

/// Writes every key once.
fn load<'v>(rig: &mut Rig<'v>, values: &'v Values, keys: Keys, spec: &Spec) -> Result<()> {
    let size = spec.setup.size as u64;
    let mut meter = Meter::start();
    for index in 0..keys.count() {
        let key = keys.at(index, 0);
        meter.run(size, || rig.update(key, values.of(key, 0)))?;
    }
    let note = format!("{} distinct random keys, each once, in {:.1} s", keys.count(), meter.seconds());
    let row = meter.row(spec.setup.kind.label(), "update fresh", size).noting(note);
    let row = row.against(spec.native.write_fresh, "pwrite() fresh");
    let goal = goal(spec.setup.size, &spec.native).update_fresh;
    say_row(goal.map_or(row.clone(), |goal| row.at_least(goal)))
}

/// What a resident record costs above its bytes.
fn memory(rig: &mut Rig<'_>, keys: Keys, spec: &Spec, before: u64) -> Result<()> {
    /// Bytes of dkey and akey; those of an array's are shared by its records and count for nothing.
    const KEY_BYTES: u64 = 9;
    let count = keys.count() as f64;
    let payload =
        (spec.setup.size as u64 + if spec.setup.kind == Kind::Single { KEY_BYTES } else { 0 }) as f64;
    let index = anonymous_rss_bytes()?.saturating_sub(before) as f64 / count;
    let device = rig.space()?.allocated_bytes as f64 / count;
    let note = format!(
        "heap {index:.0} B and device (tmpfs, segments whole) {device:.0} B a record, less {payload} B of value and keys",
    );
    let op = "memory per record over key and value";
    let row = Row::value(spec.setup.kind.label(), op, 64, index + device - payload, "B");
    say_row(row.at_most(150.0).noting(note))
}

/// Values of this size are measured once segments are written again and not made anew: a fresh page of tmpfs costs
/// more than all else.
const RECYCLED: usize = 4096;

/// Overwrites without measuring until the device grows by no more than a part of what is written; returns how many
/// updates that took.
fn settle<'v>(rig: &mut Rig<'v>, values: &'v Values, keys: Keys, spec: &Spec, done: u64) -> Result<u64> {
    const BATCH: u64 = 32;
    const GROWTH_PARTS: u64 = 256;
    child::say_next("  overwriting until segments are written again", 2.0 * spec.seconds);
    let size = spec.setup.size as u64;
    let start = now();
    let mut updates = 0;
    loop {
        let allocated = rig.space()?.allocated_bytes;
        let end = updates + keys.count();
        while updates < end {
            let numbers = done + updates..done + updates + BATCH;
            rig.update_batch(numbers.map(|number| item(values, keys, number)))?;
            updates += BATCH;
        }
        let grown = rig.space()?.allocated_bytes.saturating_sub(allocated);
        let is_over = (now() - start) as f64 / 1e9 > 4.0 * spec.seconds;
        if is_over || grown < keys.count() * size / GROWTH_PARTS {
            return Ok(updates);
        }
    }
}

/// Key and value of an update: in each round all keys, in another order.
fn item(values: &Values, keys: Keys, number: u64) -> (u64, &[u8]) {
    let (round, index) = (number / keys.count(), number % keys.count());
    let key = keys.at(index, round);
    (key, values.of(key, round))
}

/// Overwrites all keys in a new order each round; returns how many updates there were.
fn overwrite<'v>(
    rig: &mut Rig<'v>,
    values: &'v Values,
    keys: Keys,
    spec: &Spec,
    done: u64,
    depth: usize,
) -> Result<u64> {
    let size = spec.setup.size as u64;
    let (allocated, background) = (rig.space()?.allocated_bytes, rig.background());
    let item = |number| item(values, keys, number);
    let mut meter = Meter::start();
    while !meter.is_over(spec.seconds) {
        let next = done + meter.ops;
        if depth == 1 {
            let (key, value) = item(next);
            meter.run(size, || rig.update(key, value))?;
        } else {
            let bytes = size * depth as u64;
            meter.run_batch(depth, bytes, || rig.update_batch((next..next + depth as u64).map(item)))?;
        }
    }
    meter.pause();
    let grown = rig.space()?.allocated_bytes.saturating_sub(allocated);
    let (updates, written, seconds) = (meter.ops, meter.bytes, meter.seconds());
    let note =
        format!("device grew by {} MiB while {} MiB of values were written", grown >> 20, written >> 20);
    let row = meter.row(spec.setup.kind.label(), "update", size).at_depth(depth);
    let row = judged(row, keys, spec, seconds, rig.background().since(background)).noting(note);
    let row = row.against(spec.native.write_again, "pwrite() again");
    let goal = goal(spec.setup.size, &spec.native).update;
    say_row(goal.map_or(row.clone(), |goal| row.at_least(goal)))?;
    Ok(updates)
}

/// Notes what ran beside the row, and refuses it if the rules of measuring were not kept.
fn judged(row: Row, keys: Keys, spec: &Spec, seconds: f64, background: Background) -> Row {
    let Background { checkpoints, merges, aggregations } = background;
    let set = keys.count() * spec.setup.size as u64;
    let row = row.noting(format!(
        "{} random keys, {} MiB of values; {checkpoints} checkpoints, {merges} merges and {aggregations} aggregations ended in {seconds:.0} s",
        keys.count(),
        set >> 20
    ));
    let few_keys = keys.count() < 4_000_000 && set < 8 * LAST_CACHE_BYTES;
    if !spec.quick && (checkpoints < CHECKPOINTS_MIN || aggregations == 0 || few_keys || seconds < 30.0) {
        return row.invalid("needs 30 s, two checkpoints, an aggregation, and 4 M keys or 8 x L3 of values");
    }
    row
}

/// Last-level cache of the machines that results are quoted from; `lscpu` tells others.
const LAST_CACHE_BYTES: u64 = 32 << 20;

/// How long pieces of background work held their caller up during the updates.
fn stalls(rig: &Rig<'_>, spec: &Spec) -> Result<()> {
    let size = spec.setup.size as u64;
    let (name, op) = (spec.setup.kind.label(), "stall by background work, p99");
    let note = format!(
        "{} pieces of checkpoint, merge and aggregation between updates: p50 {:.0} us, longest {:.0} us",
        rig.stalls.total(),
        rig.stalls.quantile_us(500),
        rig.stall_ns_max as f64 / 1e3
    );
    say_row(Row::value(name, op, size, rig.stalls.quantile_us(990), "us").noting(note))
}

/// Fetches keys at random, with background work as it comes.
fn fetch(rig: &mut Rig<'_>, keys: Keys, spec: &Spec, depth: usize) -> Result<()> {
    let size = spec.setup.size as u64;
    let background = rig.background();
    // Another order than that of any round of updates.
    let key_of = |number: u64| keys.at(number % keys.count(), 1_000_000 + number / keys.count());
    let mut meter = Meter::start();
    let mut until_upkeep = 0_usize;
    while !meter.is_over(spec.seconds) {
        let next = meter.ops;
        // Every byte is compared after the kill; here only that there is a value.
        if depth == 1 {
            meter.run(size, || rig.fetch(key_of(next)).map(<[u8]>::len))?;
        } else {
            let batch = (next..next + depth as u64).map(key_of);
            meter.run_batch(depth, size * depth as u64, || {
                rig.fetch_batch(batch, |_, value| {
                    core::hint::black_box(value.len());
                })
            })?;
        }
        until_upkeep += depth;
        if until_upkeep >= 256 {
            until_upkeep = 0;
            rig.upkeep()?;
        }
    }
    meter.pause();
    let seconds = meter.seconds();
    let op = if spec.setup.size >= EXTENT { "fetch cold" } else { "fetch" };
    let row = meter.row(spec.setup.kind.label(), op, size).at_depth(depth);
    let row = judged(row, keys, spec, seconds, rig.background().since(background));
    let row = row.against(spec.native.read, "pread()");
    let goal = goal(spec.setup.size, &spec.native).fetch;
    say_row(goal.map_or(row.clone(), |goal| row.at_least(goal)))
}

fn fetch_hot(rig: &mut Rig<'_>, keys: Keys, spec: &Spec) -> Result<()> {
    let size = spec.setup.size as u64;
    let mut meter = Meter::start();
    while !meter.is_over(spec.seconds / 10.0) {
        let key = keys.at(meter.ops % spec.hot_keys(), 0);
        meter.run(size, || rig.fetch(key).map(<[u8]>::len))?;
    }
    let note = format!("{} keys, all in the caches; checksums verified", spec.hot_keys());
    let row = meter.row(spec.setup.kind.label(), "fetch hot", size).noting(note);
    let goal = goal(spec.setup.size, &spec.native).fetch_hot;
    say_row(goal.map_or(row.clone(), |goal| row.at_least(goal)))
}

/// The parent's part: opens what the kill left and compares every byte.
fn verify_all(spec: &Spec, updates: u64, each: &mut dyn FnMut(Row)) -> Result<()> {
    let keys = Keys::new(spec.key_bits);
    let values = Values::new(spec.setup.size);
    let (name, size) = (spec.setup.kind.label(), spec.setup.size as u64);
    let mut rig = reopen(&spec.dir, spec.setup, each)?;
    let mut meter = Meter::start();
    let (full, part) = (updates / keys.count(), updates % keys.count());
    let wanted = (0..keys.count()).map(|index| {
        // The unfinished round wrote its first `part` keys anew; the others are of the round before.
        let round = if index < part { full } else { full - 1 };
        (keys.at(index, full), round)
    });
    verify_many(&mut rig, wanted, &values, &mut meter)?;
    let extra = verify_extra(&mut rig, &values)?;
    let note = format!("every byte right; {extra} more keys that were being written when the kill came");
    each(meter.row(name, "verify after SIGKILL", size).noting(note));
    drop(rig);
    Ok(())
}

/// Opens what a killed child left and says how long it took.
pub(crate) fn reopen<'v>(dir: &Path, setup: Setup, each: &mut dyn FnMut(Row)) -> Result<Rig<'v>> {
    let start = now();
    let (rig, recovery) = Rig::open(dir, setup)?;
    let seconds = (now() - start) as f64 / 1e9;
    let note = format!("{} frames replayed, {} bytes discarded", recovery.frames, recovery.discarded_bytes);
    let (name, size) = (setup.kind.label(), setup.size as u64);
    each(Row::value(name, "reopen after SIGKILL", size, seconds, "s").noting(note));
    Ok(rig)
}

/// Keys written after the count are there in order up to one, and none after it; how many there are.
pub(crate) fn verify_extra(rig: &mut Rig<'_>, values: &Values) -> Result<u64> {
    for key in EXTRA_KEY.. {
        match verify(rig, key, values, 0) {
            Ok(()) => {}
            Err(crate::error::Error::Store(dolmen_types::Error::NotFound)) => return Ok(key - EXTRA_KEY),
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}
