//! Durability against loss of power, on a disk, against what the disk gives to bare writes.

use crate::child::clean;
use crate::data::Values;
use crate::error::Result;
use crate::meter::{Meter, now};
use crate::native;
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use dolmen_env::pin_to_cpu;
use std::path::Path;

/// One client, many in flight, and large extents.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    let dir = options.disk_dir.join("power");
    clean(&dir)?;
    std::fs::create_dir_all(&dir).map_err(crate::Error::system("make a directory for the measurement"))?;
    let result = small(options, &dir, each).and_then(|()| large(options, &dir, each));
    clean(&dir)?;
    result
}

fn small(options: &Options, dir: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    let seconds = options.seconds / 6.0;
    let values = Values::new(64);
    let setup = Setup { power: true, ..Setup::new(Kind::Single, 64) };
    let mut rig = Rig::create(&dir.join("small"), setup)?;
    let (mut bare, mut stored) = (Vec::new(), Vec::new());
    // In turns, so that a disk that is busy with others is so for both.
    for turn in 0..3 {
        bare.push(native::append_flush(&dir.join("append"), 64, seconds / 3.0)?);
        stored.push(one_client(&mut rig, &values, turn, seconds / 3.0)?);
    }
    let rewrite = native::rewrite_flush(&dir.join("rewrite"), 64, seconds / 3.0)?;
    let (bare, stored) = (median(bare), median(stored));
    let base = bare.ops_per_s;
    each(bare);
    each(rewrite);
    each(stored.against(0.9 * base, "0.9x append + fdatasync").noting("one client, median of three turns"));
    let row = in_flight(&mut rig, &values, 64, seconds)?;
    each(row.against(20.0 * base, "20x append + fdatasync").noting("64 in flight"));
    rig.close()
}

fn median(mut rows: Vec<Row>) -> Row {
    rows.sort_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s));
    rows.swap_remove(rows.len() / 2)
}

fn one_client<'v>(rig: &mut Rig<'v>, values: &'v Values, turn: u64, seconds: f64) -> Result<Row> {
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        let key = turn << 32 | meter.ops;
        meter.run_timed(64, || rig.update(key, values.of(key, 0)))?;
    }
    Ok(meter.row("power", "update, one client", 64))
}

/// Keeps `depth` updates under way.
fn in_flight<'v>(rig: &mut Rig<'v>, values: &'v Values, depth: usize, seconds: f64) -> Result<Row> {
    let size = values.of(0, 0).len() as u64;
    let mut meter = Meter::start();
    // Tokens count up with the updates, so the begin of an update is found by its token.
    let mut begun: std::collections::VecDeque<u64> = std::collections::VecDeque::new();
    let (mut next_key, mut under_way) = (1_u64 << 40, 0);
    while meter.seconds() < seconds {
        while under_way < depth {
            rig.begin_update(next_key, values.of(next_key, 0));
            begun.push_back(now());
            next_key += 1;
            under_way += 1;
        }
        under_way -= rig.wait(|_token| {
            // Oldest first: completions of one flush come together and in order.
            let start = begun.pop_front().expect("what completes was begun");
            meter.done(size, now() - start);
        })?;
        if meter.ops.is_multiple_of(256) {
            rig.step();
        }
    }
    meter.stop();
    while under_way > 0 {
        under_way -= rig.wait(|_token| {})?;
    }
    let op = if depth == 64 { "update, 64 in flight" } else { "update, 8 in flight" };
    Ok(meter.row("power", op, size))
}

fn large(options: &Options, dir: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    const SIZE: usize = 1 << 20;
    let [new, again, read] = native::direct(&dir.join("direct"), options.pick(1024, 32))?;
    let base = new.ops_per_s.max(again.ops_per_s);
    [new, again, read].into_iter().for_each(&mut *each);
    let values = Values::new(SIZE);
    let setup = Setup { power: true, ..Setup::new(Kind::Extent, SIZE) };
    let mut rig = Rig::create(&dir.join("large"), setup)?;
    let row = in_flight(&mut rig, &values, 8, options.seconds / 6.0)?;
    let note = "8 in flight, fresh segments: preallocated and written once while the clock runs";
    each(row.against(0.85 * base, "0.85x O_DIRECT write").noting(note));
    rig.close()
}
