//! Rate and bandwidth over the size of an access, aligned and not, on mapped and on block media.

use crate::child::clean;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::plot::{self, Line};
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use dolmen_env::pin_to_cpu;
use std::path::Path;

const SIZE_LOG2_MIN: u32 = 6;
const SIZE_LOG2_MAX: u32 = 22;
/// An offset that no sector, page or word begins at.
const UNALIGNED: u64 = 13;

/// What the names of rows of curves begin with.
const NAME: &str = "curve";

/// Measures the curves; `each` gets every point as a row as soon as it is there.
///
/// # Errors
/// The store's and the system's.
pub fn curve(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    for (media, dir, block) in [("mapped", &options.dir, false), ("block", &options.disk_dir, true)] {
        for (shape, offset) in [("aligned", 0), ("unaligned", UNALIGNED)] {
            let dir = dir.join("curve");
            clean(&dir)?;
            let mut named = |row: Row| {
                each(Row { name: format!("{NAME} {media} {shape}"), quick: options.quick, ..row });
            };
            let done = points(options, &dir, block, offset, &mut named);
            clean(&dir)?;
            done?;
        }
    }
    Ok(())
}

/// Draws the curves among the rows into `png`; whether there are any.
pub(crate) fn draw(png: &Path, rows: &[&Row]) -> Result<bool> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let Some(where_to) = row.name.strip_prefix(NAME) else { continue };
        let name = format!("{}{where_to}", row.op);
        let point = (row.size_bytes, row.bytes_per_s);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    }
    if lines.is_empty() {
        return Ok(false);
    }
    plot::bandwidth(png, &lines)?;
    Ok(true)
}

fn points(options: &Options, dir: &Path, block: bool, offset: u64, each: &mut dyn FnMut(Row)) -> Result<()> {
    let values = Values::new(1 << SIZE_LOG2_MAX);
    for size_log2 in (SIZE_LOG2_MIN..=SIZE_LOG2_MAX).step_by(options.pick(1, 4)) {
        let size = 1_u64 << size_log2;
        let dir = dir.join(size.to_string());
        let size_in_memory = usize::try_from(size).unwrap_or(usize::MAX);
        let setup = Setup { block: Some(block), ..Setup::new(Kind::Extent, size_in_memory) };
        let mut rig = Rig::create(&dir, setup)?;
        point(&mut rig, &values, size, offset, options)?.into_iter().for_each(&mut *each);
        rig.close()?;
        clean(&dir)?;
    }
    Ok(())
}

fn point<'v>(
    rig: &mut Rig<'v>,
    values: &'v Values,
    size: u64,
    offset: u64,
    options: &Options,
) -> Result<[Row; 2]> {
    let bytes_max = options.pick(512 << 20, 16 << 20);
    let seconds = options.pick(2.0, 0.05);
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    let mut update = Meter::start();
    while update.bytes < bytes_max && update.seconds() < seconds {
        let key = update.ops;
        update.run_timed(size, || rig.update_bytes(key, offset, &values.of(key, 0)[..len]))?;
    }
    update.pause();
    let count = update.ops;
    for key in 0..count {
        if rig.fetch_bytes(key, offset, size)?[..len] != values.of(key, 0)[..len] {
            return Err(Error::Wrong { key });
        }
    }
    let mut fetch = Meter::start();
    while fetch.ops < count && fetch.seconds() < seconds {
        let key = crate::data::mix(fetch.ops) % count;
        fetch.run_timed(size, || rig.fetch_bytes(key, offset, size).map(<[u8]>::len))?;
    }
    let note = format!("{count} keys; every byte compared between update and fetch");
    Ok([update.row("", "update", size).noting(&*note), fetch.row("", "fetch", size).noting(note)])
}
