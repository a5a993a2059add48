//! How long it takes until there is something to write to: pools and containers made and opened.

use crate::child;
use crate::error::Result;
use crate::meter::now;
use crate::options::Options;
use crate::row::Row;
use dolmen_client::{Pool, Transport};
use dolmen_dfs::Dfs;
use dolmen_local::{OpenOptions, PoolOptions};
use dolmen_types::Credentials;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const TARGETS: u16 = 4;
const CREATE_POOL_MS: f64 = 100.0;
const OPEN_POOL_MS: f64 = 20.0;
const CREATE_CONT_MS: f64 = 5.0;

/// In memory and on the disk.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    for (medium, dir, volatile) in [("tmpfs", &options.dir, true), ("ext4", &options.disk_dir, false)] {
        let dir = dir.join("pools");
        child::fresh(&dir)?;
        let measured = Times::measure(&dir.join("pool"), volatile, options.pick(21, 3));
        child::clean(&dir)?;
        let times = measured?;
        each(row(
            &format!("create a pool of {TARGETS} targets, {medium}"),
            times.create_pool,
            CREATE_POOL_MS,
        ));
        each(row(
            &format!("open an empty pool of {TARGETS} targets, {medium}"),
            times.open_pool,
            OPEN_POOL_MS,
        ));
        each(row(&format!("create a container, {medium}"), times.create_cont, CREATE_CONT_MS));
    }
    Ok(())
}

/// Milliseconds of each repetition.
#[derive(Default)]
struct Times {
    create_pool: Vec<f64>,
    open_pool: Vec<f64>,
    create_cont: Vec<f64>,
}

impl Times {
    fn measure(dir: &Path, volatile: bool, repetitions: u32) -> Result<Self> {
        let mut times = Self::default();
        let made = PoolOptions { targets: TARGETS, volatile, ..PoolOptions::default() };
        for _ in 0..repetitions {
            child::clean(dir)?;
            let start = now();
            dolmen_local::create(dir, &made)?;
            times.create_pool.push(milliseconds(start));
            let start = now();
            let transport: Arc<dyn Transport> = Arc::new(dolmen_local::open(dir, &OpenOptions::default())?);
            let pool = Pool::connect(transport, Credentials::default())?;
            times.open_pool.push(milliseconds(start));
            let start = now();
            pool.create_container(None, Dfs::container_props())?;
            times.create_cont.push(milliseconds(start));
        }
        Ok(times)
    }
}

/// Since a reading of the clock.
fn milliseconds(start: u64) -> f64 {
    Duration::from_nanos(now() - start).as_secs_f64() * 1e3
}

fn row(op: &str, mut times: Vec<f64>, goal: f64) -> Row {
    times.sort_by(f64::total_cmp);
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let note = format!("median of {}, the longest {worst:.1} ms; every file flushed", times.len());
    Row::value("pools", op, 0, median, "ms").at_most(goal).noting(&note)
}
