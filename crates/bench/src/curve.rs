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

/// Measures the curves and draws them into `png`; `each` gets every point as a row.
///
/// # Errors
/// The store's, the system's, and [`crate::Error::Plot`] if the picture cannot be written.
pub fn curve(options: &Options, png: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    let mut lines = Vec::new();
    for (media, dir, block) in [("mapped", &options.dir, false), ("block", &options.disk_dir, true)] {
        for (shape, offset) in [("aligned", 0), ("unaligned", UNALIGNED)] {
            let dir = dir.join("curve");
            clean(&dir)?;
            let rows = points(options, &dir, block, offset);
            clean(&dir)?;
            let mut update = Line::new(&format!("update {media} {shape}"));
            let mut fetch = Line::new(&format!("fetch {media} {shape}"));
            for [up, down] in rows? {
                update.points.push((up.size_bytes, up.bytes_per_s));
                fetch.points.push((down.size_bytes, down.bytes_per_s));
                for row in [up, down] {
                    each(Row { name: format!("curve {media} {shape}"), quick: options.quick, ..row });
                }
            }
            lines.extend([update, fetch]);
        }
    }
    plot::bandwidth(png, &lines)
}

fn points(options: &Options, dir: &Path, block: bool, offset: u64) -> Result<Vec<[Row; 2]>> {
    let values = Values::new(1 << SIZE_LOG2_MAX);
    let mut rows = Vec::new();
    for size_log2 in (SIZE_LOG2_MIN..=SIZE_LOG2_MAX).step_by(options.pick(1, 4)) {
        let size = 1_u64 << size_log2;
        let dir = dir.join(size.to_string());
        let size_in_memory = usize::try_from(size).unwrap_or(usize::MAX);
        let setup = Setup { block: Some(block), ..Setup::new(Kind::Extent, size_in_memory) };
        let mut rig = Rig::create(&dir, setup)?;
        rows.push(point(&mut rig, &values, size, offset, options)?);
        rig.close()?;
        clean(&dir)?;
    }
    Ok(rows)
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
