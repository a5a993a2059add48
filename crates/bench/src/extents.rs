//! Extents of 1 MiB in memory, against write() and read() on the same tmpfs.

use crate::child::clean;
use crate::data::Values;
use crate::error::Result;
use crate::meter::{Meter, now};
use crate::native;
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup, verify};
use crate::row::Row;
use dolmen_env::pin_to_cpu;

const SIZE: usize = 1 << 20;

/// Fresh, recycled, cold and hot, each after its native peer.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    let dir = options.dir.join("extents");
    clean(&dir)?;
    std::fs::create_dir_all(&dir).map_err(crate::Error::system("make a directory for the measurement"))?;
    let result = measure(options, &dir, each);
    clean(&dir)?;
    result
}

fn measure(options: &Options, dir: &std::path::Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    let count = options.pick(2048, 64);
    let path = dir.join("native");
    let [fresh_write, again_write] = native::write_file(&path, SIZE, count, "native tmpfs")?;
    let read = native::read_file(&path, SIZE, count, "native tmpfs")?;
    std::fs::remove_file(&path).map_err(crate::Error::system("remove a native file"))?;
    let limits = (fresh_write.ops_per_s, again_write.ops_per_s, read.ops_per_s);
    [fresh_write, again_write, read].into_iter().for_each(&mut *each);
    each(native::memcpy(options.pick(1.0, 0.05)));
    each(native::checksum(options.pick(1.0, 0.05)));

    let values = Values::new(SIZE);
    let setup = Setup::new(Kind::Extent, SIZE);
    let store = dir.join("store");
    let mut rig = Rig::create(&store, setup)?;
    each(
        write_all(&mut rig, &values, count, 0, "update fresh")?
            .against(limits.0, "write() fresh, same tmpfs"),
    );
    // Space comes back through aggregation; the second round then goes into the segments of the first.
    rig.aggregate()?;
    write_all(&mut rig, &values, count, 1, "")?;
    rig.aggregate()?;
    rig.checkpoint()?;
    let recycled = write_all(&mut rig, &values, count, 2, "update recycled")?;
    each(recycled.against(limits.1, "write() again, same tmpfs"));
    each(read_all(&mut rig, &values, count, options)?.against(limits.2, "read(), same tmpfs"));
    each(read_hot(&mut rig, options.pick(2.0, 0.1))?.against(8e9 / SIZE as f64, "goal 8 GB/s"));
    rig.close()?;
    let start = now();
    let (rig, _recovery) = Rig::open(&store, setup)?;
    each(Row::value("extent", "open after close", SIZE as u64, (now() - start) as f64 / 1e9, "s"));
    drop(rig);
    Ok(())
}

fn write_all<'v>(rig: &mut Rig<'v>, values: &'v Values, count: u64, round: u64, op: &str) -> Result<Row> {
    let mut meter = Meter::start();
    for key in 0..count {
        meter.run_timed(SIZE as u64, || rig.update(key, values.of(key, round)))?;
        if key.is_multiple_of(4) {
            rig.upkeep()?;
        }
    }
    Ok(meter.row("extent", op, SIZE as u64))
}

fn read_all(rig: &mut Rig<'_>, values: &Values, count: u64, options: &Options) -> Result<Row> {
    for key in (0..count).step_by(options.pick(1, 4)) {
        verify(rig, key, values, 2)?;
    }
    let mut meter = Meter::start();
    for key in 0..count {
        meter.run_timed(SIZE as u64, || rig.fetch(key).map(<[u8]>::len))?;
    }
    Ok(meter.row("extent", "fetch cold", SIZE as u64).noting("every byte verified before, outside the time"))
}

fn read_hot(rig: &mut Rig<'_>, seconds: f64) -> Result<Row> {
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        meter.run_timed(SIZE as u64, || rig.fetch(1).map(<[u8]>::len))?;
    }
    Ok(meter.row("extent", "fetch hot", SIZE as u64).noting("one extent, checksum verified each time"))
}
