//! Updates and fetches of one size: fresh, over and over, at random, after a kill.

use crate::child::{self, Line, say};
use crate::data::{Keys, Values};
use crate::error::Result;
use crate::meter::{Meter, now};
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup, verify};
use crate::row::Row;
use dolmen_env::{anonymous_rss_bytes, pin_to_cpu};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Keys that fit the first-level caches together with all that leads to them.
const HOT_KEYS: u64 = 256;
/// Where the keys begin that are written while the kill comes: beyond all that are counted.
const EXTRA_KEY: u64 = 1 << 41;

/// What the child measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) dir: PathBuf,
    pub(crate) setup: Setup,
    pub(crate) key_bits: u32,
    pub(crate) seconds: f64,
}

/// The goals of one size, in operations a second.
struct Goal {
    update: f64,
    fetch: f64,
}

fn goal(size: usize) -> Option<Goal> {
    match size {
        64 => Some(Goal { update: 1.0e6, fetch: 1.5e6 }),
        4096 => Some(Goal { update: 350e3, fetch: 800e3 }),
        _ => None,
    }
}

/// All sizes and kinds of small values, each in a child that is killed.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    for size in [64, 1024, 4096] {
        for kind in [Kind::Single, Kind::Record] {
            run_one(options, kind, size, each)?;
        }
    }
    Ok(())
}

fn run_one(options: &Options, kind: Kind, size: usize, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.dir.join(format!("points-{size}"));
    child::clean(&dir)?;
    let spec = Spec {
        dir: dir.clone(),
        setup: Setup::new(kind, size),
        key_bits: options.key_bits(size),
        seconds: options.seconds,
    };
    let text = serde_json::to_string(&spec).expect("plain data");
    let done = child::run_and_kill("points", &text, each);
    let verified = done.and_then(|updates| verify_all(&spec, updates, each));
    child::clean(&dir)?;
    verified
}

/// The child's part.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    let values = Values::new(spec.setup.size);
    let (keys, size) = (Keys::new(spec.key_bits), spec.setup.size as u64);
    let name = spec.setup.kind.label();
    let mut rig = Rig::create(&spec.dir, spec.setup)?;
    let before = anonymous_rss_bytes()?;
    let mut meter = Meter::start();
    for index in 0..keys.count() {
        let key = keys.at(index, 0);
        meter.run(size, || rig.update(key, values.of(key, 0)))?;
    }
    let row =
        meter.row(name, "update fresh", size).noting(keys_note(keys, "distinct random keys, fresh segments"));
    say(&Line::Row(Box::new(row)))?;
    memory(&mut rig, keys, size, before)?;
    let updates = overwrite(&mut rig, &values, keys, spec)?;
    fetch(&mut rig, keys, spec)?;
    say(&Line::Done(updates))?;
    for key in EXTRA_KEY.. {
        rig.update(key, values.of(key, 0))?;
    }
    Ok(())
}

fn keys_note(keys: Keys, what: &str) -> String {
    format!("{} {what}", keys.count())
}

/// What a resident record costs above its bytes.
fn memory(rig: &mut Rig<'_>, keys: Keys, size: u64, before: u64) -> Result<()> {
    let count = keys.count() as f64;
    let index = anonymous_rss_bytes()?.saturating_sub(before) as f64 / count;
    let space = rig.space()?;
    let device = space.allocated_bytes as f64 / count;
    let over = index + device - (size + 9) as f64;
    let note =
        format!("heap {index:.0} B and device (tmpfs) {device:.0} B a record, less value and 9 B of keys");
    let row = Row::value("memory", "per record over key and value", size, over, "B").noting(note);
    let row = if size == 64 { row.against(150.0, "goal, at most") } else { row };
    say(&Line::Row(Box::new(row)))
}

/// Overwrites all keys in a new order each round; returns how many updates there were in all.
fn overwrite<'v>(rig: &mut Rig<'v>, values: &'v Values, keys: Keys, spec: &Spec) -> Result<u64> {
    let size = spec.setup.size as u64;
    let before = rig.space()?.allocated_bytes;
    let mut updates = keys.count();
    let mut meter = Meter::start();
    while !meter.is_over(spec.seconds) {
        let (round, index) = (updates / keys.count(), updates % keys.count());
        let key = keys.at(index, round);
        meter.run(size, || rig.update(key, values.of(key, round)))?;
        updates += 1;
    }
    let grown = rig.space()?.allocated_bytes.saturating_sub(before);
    let written = meter.bytes;
    let note = format!(
        "{} keys over and over; {} aggregations ended; device grew by {} MiB while {} MiB of values were written",
        keys.count(),
        rig.aggregations,
        grown >> 20,
        written >> 20
    );
    let row = meter.row(spec.setup.kind.label(), "update", size).noting(note);
    let row = goal(spec.setup.size).map_or(row.clone(), |goal| row.against(goal.update, "goal"));
    say(&Line::Row(Box::new(row)))?;
    Ok(updates)
}

/// Fetches keys at random, with background work as it comes, then a few hot ones.
fn fetch(rig: &mut Rig<'_>, keys: Keys, spec: &Spec) -> Result<()> {
    let size = spec.setup.size as u64;
    for (op, count) in [("fetch", keys.count()), ("fetch hot", HOT_KEYS)] {
        let seconds = if count == HOT_KEYS { spec.seconds / 10.0 } else { spec.seconds };
        let mut meter = Meter::start();
        let mut index = 0;
        while !meter.is_over(seconds) {
            let round = 1_000_000 + index / keys.count();
            let key = keys.at(index % count, round);
            // Every byte is compared after the kill; here only that there is a value.
            let len = meter.run(size, || rig.fetch(key).map(<[u8]>::len))?;
            assert_eq!(len, spec.setup.size, "the buffer keeps its size");
            index += 1;
            if index.is_multiple_of(256) {
                rig.upkeep()?;
            }
        }
        let row = meter.row(spec.setup.kind.label(), op, size);
        let row = match (op, goal(spec.setup.size)) {
            ("fetch", Some(goal)) => {
                row.against(goal.fetch, "goal").noting(keys_note(keys, "keys at random"))
            }
            ("fetch", None) => row.noting(keys_note(keys, "keys at random")),
            _ => row.noting(format!("{HOT_KEYS} keys, all in the caches")),
        };
        say(&Line::Row(Box::new(row)))?;
    }
    Ok(())
}

/// The parent's part: opens what the kill left and compares every byte.
fn verify_all(spec: &Spec, updates: u64, each: &mut dyn FnMut(Row)) -> Result<()> {
    let keys = Keys::new(spec.key_bits);
    let values = Values::new(spec.setup.size);
    let (name, size) = (spec.setup.kind.label(), spec.setup.size as u64);
    let start = now();
    let (mut rig, recovery) = Rig::open(&spec.dir, spec.setup)?;
    let seconds = (now() - start) as f64 / 1e9;
    let note = format!("{} frames replayed, {} bytes discarded", recovery.frames, recovery.discarded_bytes);
    each(Row::value(name, "reopen after SIGKILL", size, seconds, "s").noting(note));
    let mut meter = Meter::start();
    let (full, part) = (updates / keys.count(), updates % keys.count());
    for index in 0..keys.count() {
        // The unfinished round wrote its first `part` keys anew; the others are of the round before.
        let key = keys.at(index, full);
        let round = if index < part { full } else { full - 1 };
        meter.run_timed(size, || verify(&mut rig, key, &values, round))?;
    }
    let extra = verify_extra(&mut rig, &values)?;
    let note = format!("every byte right; {extra} more keys that were being written when the kill came");
    each(meter.row(name, "verify after SIGKILL", size).noting(note));
    drop(rig);
    Ok(())
}

/// Keys written after the count are there in order up to one, and none after it.
fn verify_extra(rig: &mut Rig<'_>, values: &Values) -> Result<u64> {
    for key in EXTRA_KEY.. {
        match verify(rig, key, values, 0) {
            Ok(()) => {}
            Err(crate::error::Error::Store(dolmen_types::Error::NotFound)) => return Ok(key - EXTRA_KEY),
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}
