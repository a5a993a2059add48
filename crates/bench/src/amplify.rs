//! Write and space amplification: equal bytes of small, middle and large values, each overwritten three times.

use crate::child::clean;
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use std::path::Path;

/// Writes of each value: the first and three more.
const ROUNDS: u64 = 4;

/// Counts what reaches the disk.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.disk_dir.join("amplify");
    clean(&dir)?;
    let result = measure(options, &dir, each);
    clean(&dir)?;
    result
}

fn measure(options: &Options, dir: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    let bytes_log2 = options.pick(27, 22);
    let pools = [6_u32, 12, 20].map(|size_log2| (size_log2, Values::new(1 << size_log2)));
    let start = device_bytes()?;
    // The three share a target: an extent of bytes of each size under dkeys of its own.
    let mut rig = Rig::create(dir, Setup::new(Kind::Extent, 1 << 20))?;
    let created = device_bytes()?;
    let mut payload = 0;
    for round in 0..ROUNDS {
        for (class, (size_log2, values)) in pools.iter().enumerate() {
            let keys = Keys::new(bytes_log2 - size_log2);
            for index in 0..keys.count() {
                let key = keys.at(index, round);
                rig.update_bytes((class as u64) << 40 | key, 0, values.of(key, round))?;
                payload += 1_u64 << size_log2;
            }
            rig.upkeep()?;
        }
    }
    while rig.step() == dolmen_codec::Progress::More {}
    let before = rig.space()?.allocated_bytes as f64;
    rig.aggregate()?;
    rig.checkpoint()?;
    let written = device_bytes()?;
    let live = (payload / ROUNDS) as f64;
    let space = rig.space()?;
    let after = space.allocated_bytes as f64;
    let used = (space.bulk_bytes + space.log_bytes + space.run_bytes) as f64;
    let note = format!(
        "{} MiB of values written, aggregation and checkpoint counted; creating the empty target ({} MiB of reserve) not",
        payload >> 20,
        (created - start) >> 20
    );
    let write = Row::value("amplification", "write", 0, (written - created) as f64 / payload as f64, "x");
    each(write.against(2.5, "goal, below").noting(note));
    each(
        Row::value("amplification", "space before aggregation", 0, before / live, "x")
            .noting("allocated over live"),
    );
    let note = "allocated over live; allocated counts whole segments and the reserve";
    each(
        Row::value("amplification", "space after aggregation", 0, after / live, "x")
            .against(1.3, "goal, below")
            .noting(note),
    );
    each(
        Row::value("amplification", "space in use after aggregation", 0, used / live, "x")
            .against(1.3, "goal, below")
            .noting("bulk, live log and runs over live"),
    );
    rig.close()
}

/// What this process has caused to be written to devices.
fn device_bytes() -> Result<u64> {
    let doing = "read the process's counters of device writes";
    let text = std::fs::read_to_string("/proc/self/io").map_err(Error::system(doing))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.and_then(|number| number.trim().parse().ok()).unwrap_or(0))
}
