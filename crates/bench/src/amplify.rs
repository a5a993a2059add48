//! Write and space amplification: equal bytes of small, middle and large values, each overwritten three times.

use crate::child::{self, say_row};
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::points::{EXTRA_KEY, Spec, reopen};
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use dolmen_env::pin_to_cpu;

/// Writes of each value: the first and three more.
const ROUNDS: u64 = 4;
/// The classes of values, as powers of two.
const SIZES_LOG2: [u32; 3] = [6, 12, 20];

/// Counts what reaches the disk, in a child that is killed.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    // Aggregations that begin by the clock would be the more the slower the machine: there is one, at the end.
    let setup = Setup { aggregates: false, ..Setup::new(Kind::Extent, 1 << 20) };
    let dir = options.disk_dir.join("amplify");
    let spec = Spec { key_bits: options.pick(27, 22), ..Spec::new(dir, setup, options) };
    child::measure("amplification", &spec, each, |_count, each| verify_all(&spec, each))
}

/// A class of values: an extent of bytes of each size under dkeys of its own.
struct Class {
    number: u64,
    keys: Keys,
    values: Values,
}

impl Class {
    /// The classes, each of the same bytes.
    fn all(spec: &Spec) -> Vec<Self> {
        let class = |(number, size_log2): (usize, u32)| Self {
            number: number as u64,
            keys: Keys::new(spec.key_bits - size_log2),
            values: Values::new(1 << size_log2),
        };
        SIZES_LOG2.into_iter().enumerate().map(class).collect()
    }

    /// Apart from those of the other classes, and from [`EXTRA_KEY`] on.
    fn dkey(&self, key: u64) -> u64 {
        (self.number + 1) << 44 | key
    }
}

/// The child's part.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    let classes = Class::all(spec);
    let start = device_bytes()?;
    // The three share a target.
    let mut rig = Rig::create(&spec.dir, spec.setup)?;
    let created = device_bytes()?;
    let (mut payload, mut updates) = (0_u64, 0);
    for round in 0..ROUNDS {
        for class in &classes {
            let (count, bytes) = (class.keys.count(), class.values.size());
            let written = (device_bytes()? - created) >> 20;
            eprintln!(
                "#   round {} of {ROUNDS}: {count} values of {bytes} B; {} MiB of values and {written} MiB to the device so far",
                round + 1,
                payload >> 20
            );
            for index in 0..class.keys.count() {
                let key = class.keys.at(index, round);
                let value = class.values.of(key, round);
                rig.update_bytes(class.dkey(key), 0, value)?;
                payload += value.len() as u64;
                updates += 1;
            }
        }
    }
    eprintln!(
        "#   checkpoints and merges, then an aggregation of all; {} MiB to the device so far",
        (device_bytes()? - created) >> 20
    );
    while rig.step() != dolmen_codec::Progress::Idle {}
    let before = rig.space()?.allocated_bytes;
    rig.aggregate()?;
    rig.checkpoint()?;
    let written = device_bytes()? - created;
    say(&mut rig, payload, written, created - start, before)?;
    let extra = &classes[0];
    child::write_until_killed(updates, |key| rig.update_bytes(EXTRA_KEY + key, 0, extra.values.of(key, 0)))
}

fn say(rig: &mut Rig<'_>, payload: u64, written: u64, created: u64, before: u64) -> Result<()> {
    let live = (payload / ROUNDS) as f64;
    let name = "amplification";
    let note = format!(
        "{} MiB of values written, merges, aggregation and checkpoints counted; creating the empty target ({} MiB of reserve) not",
        payload >> 20,
        created >> 20
    );
    let write = Row::value(name, "write", 0, written as f64 / payload as f64, "x");
    say_row(write.at_most(2.5).noting(note))?;
    let background = rig.background();
    let note = format!(
        "allocated over live; {} checkpoints, {} merges, {} aggregations by then",
        background.checkpoints, background.merges, background.aggregations
    );
    say_row(
        Row::value(name, "space before the last aggregation", 0, before as f64 / live, "x").noting(note),
    )?;
    let space = rig.space()?;
    let after = space.allocated_bytes as f64 / live;
    let note = format!(
        "allocated over live ({} MiB); allocated counts whole segments and spare ones: {} MiB in bulk, {} MiB live in \
         the log and {} MiB of runs are in use",
        (payload / ROUNDS) >> 20,
        space.bulk_bytes >> 20,
        space.log_bytes >> 20,
        space.run_bytes >> 20
    );
    say_row(Row::value(name, "space after aggregation", 0, after, "x").at_most(1.3).noting(note))?;
    let used = (space.bulk_bytes + space.log_bytes + space.run_bytes) as f64 / live;
    let note = "bulk, live log and runs over live";
    say_row(Row::value(name, "space in use after aggregation", 0, used, "x").at_most(1.3).noting(note))
}

/// The parent's part: every value is that of the last round.
fn verify_all(spec: &Spec, each: &mut dyn FnMut(Row)) -> Result<()> {
    let mut rig = reopen(&spec.dir, spec.setup, each)?;
    let mut meter = Meter::start();
    for class in Class::all(spec) {
        for key in 0..class.keys.count() {
            let value = class.values.of(key, ROUNDS - 1);
            let len = value.len() as u64;
            let found = meter.run(len, || rig.fetch_bytes(class.dkey(key), 0, len))?;
            if &found[..value.len()] != value {
                return Err(Error::Wrong { key });
            }
        }
    }
    each(meter.row("amplification", "verify after SIGKILL", 0).noting("every byte right"));
    Ok(())
}

/// What this process has caused to be written to devices.
fn device_bytes() -> Result<u64> {
    crate::native::io_counter("write_bytes: ")
}
