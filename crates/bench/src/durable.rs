//! Durability against loss of power, on a disk, against what the disk gives to bare writes.

use crate::child::{self, say_row};
use crate::data::Values;
use crate::error::{Error, Result};
use crate::meter::{Meter, now};
use crate::native;
use crate::options::Options;
use crate::points::{Spec, reopen};
use crate::rig::{Kind, Rig, Setup, verify};
use crate::row::Row;
use dolmen_env::pin_to_cpu;
use std::collections::VecDeque;

const SMALL: usize = 64;
const LARGE: usize = 1 << 20;
/// Values of large extents that one measurement leaves on the disk at most.
const LARGE_BYTES_MAX: u64 = 12 << 30;
/// Extents that are written over and over, in the room that their last values leave: as many as have an aggregation
/// begin.
const AGAIN_COUNT: u64 = 1024;
/// Turns of store and bare writes, so that a disk that is busy with others is so for both.
const TURNS: u32 = 3;

/// One client, many in flight, and large extents; each in a child that is killed.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    for (kind, size) in [(Kind::Single, SMALL), (Kind::Extent, LARGE)] {
        let setup = Setup { power: true, ..Setup::new(kind, size) };
        let spec = Spec::new(options.disk_dir.join("power"), setup, options);
        child::measure("power", &spec, each, |count, each| verify_all(&spec, count, each))?;
    }
    Ok(())
}

/// The child's part.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    std::fs::create_dir_all(&spec.dir).map_err(Error::system("make a directory for the measurement"))?;
    let values = Values::new(spec.setup.size);
    let mut writer =
        Writer { rig: Rig::create(&spec.dir.join("store"), spec.setup)?, values: &values, next: 0, again: 0 };
    if spec.setup.size == SMALL {
        small(&mut writer, spec)?
    } else {
        large(&mut writer, spec)?
    }
    child::write_until_killed(writer.next, |_| writer.one())
}

/// Writes keys in ascending order, each once.
struct Writer<'v> {
    rig: Rig<'v>,
    values: &'v Values,
    next: u64,
    /// Keys written again so far.
    again: u64,
}

impl Writer<'_> {
    fn begin(&mut self) {
        self.rig.begin_update(self.next, self.values.of(self.next, 0));
        self.next += 1;
    }

    /// Writes one of the first keys again, with the same value.
    fn begin_again(&mut self) {
        let key = self.again % AGAIN_COUNT.min(self.next);
        self.rig.begin_update(key, self.values.of(key, 0));
        self.again += 1;
    }

    fn one(&mut self) -> Result<()> {
        self.begin();
        while self.rig.wait(|_| {})? == 0 {}
        Ok(())
    }
}

fn small(writer: &mut Writer<'_>, spec: &Spec) -> Result<()> {
    child::say_next("  one client and bare appends in turns, then rewrites", 2.4 * spec.seconds);
    let seconds = spec.seconds / f64::from(TURNS);
    let (mut bare, mut stored) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(native::append_flush(&spec.dir.join("append"), SMALL, seconds)?);
        let mut meter = Meter::start();
        while meter.seconds() < seconds {
            meter.run_timed(SMALL as u64, || writer.one())?;
            if meter.ops.is_multiple_of(256) {
                writer.rig.step();
            }
        }
        stored.push(meter.row("power", "update, one client", SMALL as u64));
    }
    let rewrite = native::rewrite_flush(&spec.dir.join("rewrite"), SMALL, seconds)?;
    let (bare, stored) = (median(bare), median(stored));
    let base = bare.ops_per_s;
    let what = "append + fdatasync of the same bytes";
    say_row(bare.noting("median of three turns"))?;
    say_row(rewrite)?;
    say_row(stored.against(base, what).at_least(0.9 * base).noting("median of three turns"))?;
    let load = Load { depth: 64, seconds: spec.seconds, bytes_max: u64::MAX, again: false };
    let row = in_flight(writer, &load)?;
    say_row(row.against(base, what).at_least(20.0 * base))
}

fn median(mut rows: Vec<Row>) -> Row {
    rows.sort_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s));
    rows.swap_remove(rows.len() / 2)
}

/// Updates, so many of them under way all the time.
struct Load {
    depth: usize,
    seconds: f64,
    bytes_max: u64,
    /// The first keys again and again, aggregations running, instead of new ones.
    again: bool,
}

fn in_flight(writer: &mut Writer<'_>, load: &Load) -> Result<Row> {
    let size = writer.values.of(0, 0).len() as u64;
    let Load { depth, seconds, bytes_max, again } = *load;
    let op = if again { "update again" } else { "update" };
    child::say_next(&format!("  {op} of {size} B, {depth} in flight"), seconds);
    let mut meter = Meter::start();
    let mut begun: VecDeque<u64> = VecDeque::new();
    while meter.seconds() < seconds && meter.bytes < bytes_max {
        while begun.len() < depth {
            begun.push_back(now());
            if again { writer.begin_again() } else { writer.begin() }
        }
        writer.rig.wait(|_token| {
            // Oldest first: completions of one flush come together and in order.
            let start = begun.pop_front().expect("what completes was begun");
            meter.done(size, now() - start);
        })?;
        if again {
            writer.rig.upkeep_if_due()?;
        } else if meter.ops.is_multiple_of(256) {
            writer.rig.step();
        }
    }
    meter.pause();
    let mut left = begun.len();
    while left > 0 {
        left -= writer.rig.wait(|_token| {})?;
    }
    Ok(meter.row("power", &format!("{op}, {depth} in flight"), size).at_depth(depth))
}

fn large(writer: &mut Writer<'_>, spec: &Spec) -> Result<()> {
    let path = spec.dir.join("direct");
    let count = if spec.quick { 32 } else { 4096 };
    let rows = native::direct(&path, count)?;
    std::fs::remove_file(&path).map_err(Error::system("remove a native file"))?;
    let [new, rewritten] = [rows[0].ops_per_s, rows[1].ops_per_s];
    rows.into_iter().try_for_each(say_row)?;
    let fresh = Load { depth: 8, seconds: spec.seconds, bytes_max: LARGE_BYTES_MAX, again: false };
    let row = in_flight(writer, &fresh)?.against(new, "O_DIRECT write, new file").at_least(0.85 * new);
    say_row(
        row.noting("fresh segments, preallocated and written once; each value flushed, with its record"),
    )?;
    // What the first rounds overwrite has to be freed before it can be taken again.
    let before = Load { bytes_max: 3 * AGAIN_COUNT * LARGE as u64, again: true, ..fresh };
    in_flight(writer, &before)?;
    let row = in_flight(writer, &Load { again: true, ..fresh })?;
    let row = row.against(rewritten, "O_DIRECT write again").at_least(0.85 * rewritten);
    let note =
        format!("{AGAIN_COUNT} values over and over, aggregations running; each flushed, with its record");
    say_row(row.noting(note))
}

/// The parent's part: everything acknowledged is there, then perhaps some more, in order.
fn verify_all(spec: &Spec, count: u64, each: &mut dyn FnMut(Row)) -> Result<()> {
    let values = Values::new(spec.setup.size);
    let mut rig = reopen(&spec.dir.join("store"), spec.setup, each)?;
    let mut meter = Meter::start();
    for key in 0.. {
        match meter.run(spec.setup.size as u64, || verify(&mut rig, key, &values, 0)) {
            Ok(()) => {}
            Err(Error::Store(dolmen_types::Error::NotFound)) if key >= count => {
                let note = format!("every byte right; {} more keys than were counted", key - count);
                each(meter.row("power", "verify after SIGKILL", spec.setup.size as u64).noting(note));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
