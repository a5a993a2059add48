//! What limits cost: small values with and without them, and what is given away.

use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use crate::{child, native};
use std::path::Path;

/// Bytes of a value that is written.
const SIZE: usize = 4096;
/// Bytes of each version that is given.
const GIVEN_SIZE: usize = 64;
/// Updates of one target before it is the other one's turn.
const TURN: u64 = 1024;
/// Of keys for each target; two and what they overwrite lie in memory.
const KEYS_OF_ALL: u32 = 2;
/// Who is given what there is, one after the other.
const USERS: [u32; 2] = [7, 8];
/// Versions of an object that is given, how many such there are, and how many in a quick run.
const GIVEN: [(u64, u64, u64); 3] = [(1, 4096, 64), (1000, 64, 4), (100_000, 4, 1)];

/// Targets without limits and with some that nothing reaches.
const OPS: [&str; 2] = ["without limits", "with limits"];

/// Updates of 4 KiB one after the other, by turns on a target without limits and on one with.
pub(crate) fn writes(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.dir.join("limits");
    let keys = Keys::new(options.key_bits(SIZE) - KEYS_OF_ALL);
    in_dir(&dir, each, || measure_writes(&dir, keys, options.seconds))
}

/// Gifts of objects with few and with many versions, by turns on a target without limits and on one with.
pub(crate) fn gifts(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.dir.join("gifts");
    for (versions, full, quick) in GIVEN {
        let objects = options.pick(full, quick);
        child::say_next(&format!("  gifts of {versions} versions"), options.pick(5.0, 1.0));
        in_dir(&dir, each, || measure_gifts(&dir, versions, objects))?;
    }
    Ok(())
}

/// Measures on one core in an empty directory, and removes that.
fn in_dir(
    dir: &Path,
    each: &mut dyn FnMut(Row),
    measure: impl FnOnce() -> Result<[Row; 2]> + Send,
) -> Result<()> {
    child::fresh(dir)?;
    let rows = native::pinned(measure);
    child::clean(dir)?;
    let [without, with] = rows?;
    let rate = without.ops_per_s;
    each(without);
    each(with.against(rate, OPS[0]));
    Ok(())
}

/// One target for each of [`OPS`].
fn rigs<'v>(dir: &Path, size: usize) -> Result<[Rig<'v>; 2]> {
    let setup = Setup { memory_bytes: 1 << 30, ..Setup::new(Kind::Single, size) };
    let without = Rig::create(&dir.join("without"), setup)?;
    let mut with = Rig::create(&dir.join("with"), setup)?;
    with.limit(&USERS)?;
    Ok([without, with])
}

/// What was measured of each of [`OPS`], with a note.
fn rows([without, with]: [Meter; 2], note: &str, row: impl Fn(Meter, &str) -> Row) -> [Row; 2] {
    [(without, OPS[0]), (with, OPS[1])].map(|(meter, op)| row(meter, op).noting(note.to_owned()))
}

fn measure_writes(dir: &Path, keys: Keys, seconds: f64) -> Result<[Row; 2]> {
    let values = Values::new(SIZE);
    let mut rigs = rigs(dir, SIZE)?;
    // What is measured is written over, so that the present value is looked for where the limit is near.
    for rig in &mut rigs {
        for key in 0..keys.count() {
            rig.update(key, values.of(key, 0))?;
        }
    }
    let mut meters = [Meter::paused(), Meter::paused()];
    let mut turns = 0;
    while meters.iter().any(|meter| meter.seconds() < seconds) {
        for (rig, meter) in rigs.iter_mut().zip(&mut meters) {
            meter.resume();
            for index in turns * TURN..(turns + 1) * TURN {
                let (index, round) = (index % keys.count(), 1 + index / keys.count());
                let key = keys.at(index, round);
                meter.run(SIZE as u64, || rig.update(key, values.of(key, round)))?;
            }
            meter.pause();
        }
        turns += 1;
    }
    let note = format!("{} keys, each written over; in turns of {TURN} updates", keys.count());
    Ok(rows(meters, &note, |meter, op| meter.row("limits", &format!("update {op}"), SIZE as u64)))
}

fn measure_gifts(dir: &Path, versions: u64, objects: u64) -> Result<[Row; 2]> {
    let values = Values::new(GIVEN_SIZE);
    let mut rigs = rigs(dir, GIVEN_SIZE)?;
    for rig in &mut rigs {
        for object in 0..objects {
            rig.go_to(object);
            for key in 0..versions {
                rig.update(key, values.of(key, 0))?;
            }
        }
        rig.checkpoint()?;
    }
    let mut meters = [Meter::paused(), Meter::paused()];
    for object in 0..objects {
        for uid in USERS {
            for (rig, meter) in rigs.iter_mut().zip(&mut meters) {
                rig.go_to(object);
                let at = rig.next_epoch()?;
                meter.resume();
                meter.run_timed(versions * GIVEN_SIZE as u64, || rig.give(at, uid))?;
                meter.pause();
            }
        }
    }
    // Who was given all has it.
    for rig in &mut rigs {
        let charges = rig.charges()?;
        let right = [(USERS[USERS.len() - 1], objects * versions * GIVEN_SIZE as u64)];
        if charges != right {
            return Err(Error::Wrong { key: versions });
        }
    }
    let note = format!("each of {objects} objects twice; its versions are of {GIVEN_SIZE} B and in a run");
    let row = |meter: Meter, op: &str| {
        meter.row("gifts", &format!("give {versions} versions {op}"), versions * GIVEN_SIZE as u64)
    };
    Ok(rows(meters, &note, row))
}
