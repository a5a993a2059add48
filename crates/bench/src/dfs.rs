//! Files and directories: the store in process, then native tmpfs and ext4 by the same calls.

use crate::child::clean;
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::row::Row;
use dolmen_client::{ContName, Pool};
use dolmen_dfs::{Cookie, Dfs, FormatOptions, MountOptions, OpenOptions};
use dolmen_env::pin_to_cpu;
use dolmen_local::PoolOptions;
use dolmen_types::{Credentials, Label};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file of mdtest-hard.
const SMALL_FILE: usize = 3901;

/// What a row is held against.
struct Goals {
    create: f64,
    stat: f64,
    unlink: f64,
    small: f64,
    readdir_s: f64,
}

const GOALS: Goals = Goals { create: 300e3, stat: 700e3, unlink: 300e3, small: 150e3, readdir_s: 1.0 };

/// The store, then the peers.
pub(crate) fn run(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    let dir = options.dir.join("dfs");
    clean(&dir)?;
    let result = stored(options, &dir, each);
    clean(&dir)?;
    result?;
    for (name, dir) in [("native tmpfs", &options.dir), ("native ext4", &options.disk_dir)] {
        let dir = dir.join("native");
        clean(&dir)?;
        let result = native(options, &dir, name, each);
        clean(&dir)?;
        result?;
    }
    Ok(())
}

/// A file system by the calls that are measured.
trait Calls {
    fn create(&self, name: &str) -> Result<()>;
    fn stat(&self, name: &str) -> Result<u64>;
    fn unlink(&self, name: &str) -> Result<()>;
    fn write(&self, name: &str, data: &[u8]) -> Result<()>;
    fn read(&self, name: &str, data: &mut [u8]) -> Result<usize>;
    fn list(&self) -> Result<u64>;
}

fn stored(options: &Options, dir: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    let mut pool_options = PoolOptions { targets: 1, volatile: true, ..PoolOptions::default() };
    pool_options.memory_budget_bytes = 4 << 30;
    dolmen_local::create(dir, &pool_options)?;
    let local = Arc::new(dolmen_local::open(dir, &dolmen_local::OpenOptions::default())?);
    let transport: Arc<dyn dolmen_client::Transport> = local.clone();
    let pool = Pool::connect(transport, Credentials::default())?;
    let label = Label::new("bench").map_err(dolmen_types::Error::Invalid)?;
    pool.create_container(Some(label.clone()), Dfs::container_props())?;
    let container = pool.open_container(&ContName::Label(label))?;
    Dfs::format(&container, &FormatOptions::default())?;
    let mounted = Dfs::mount(&container, &MountOptions::default())?;
    measure("dfs", &mounted, options, Some(&GOALS), each)
}

fn native(options: &Options, dir: &Path, name: &str, each: &mut dyn FnMut(Row)) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(Error::system("make a directory for the measurement"))?;
    measure(name, &dir.to_path_buf(), options, None, each)
}

fn measure(
    name: &str,
    files: &impl Calls,
    options: &Options,
    goals: Option<&Goals>,
    each: &mut dyn FnMut(Row),
) -> Result<()> {
    let keys = Keys::new(options.pick(20, 12));
    let mut emit = |row: Row, goal: Option<f64>| {
        each(goal.map_or_else(|| row.clone(), |goal| row.clone().against(goal, "goal")));
    };
    let file = |key: u64| format!("f{key:08x}");
    let all = |op: &str, round: u64, size: usize, work: &mut dyn FnMut(u64) -> Result<()>| -> Result<Row> {
        let mut meter = Meter::start();
        for index in 0..keys.count() {
            let key = keys.at(index, round);
            meter.run(size as u64, || work(key))?;
        }
        Ok(meter.row(name, op, size as u64).noting(format!("{} files in one directory", keys.count())))
    };
    emit(all("create", 0, 0, &mut |key| files.create(&file(key)))?, goals.map(|g| g.create));
    emit(all("stat with size", 1, 0, &mut |key| files.stat(&file(key)).map(drop))?, goals.map(|g| g.stat));
    emit(readdir(name, files, keys.count())?, goals.map(|g| keys.count() as f64 / g.readdir_s));
    emit(all("unlink", 2, 0, &mut |key| files.unlink(&file(key)))?, goals.map(|g| g.unlink));
    small_files(name, files, options, goals, each)
}

fn readdir(name: &str, files: &impl Calls, count: u64) -> Result<Row> {
    let mut meter = Meter::start();
    let listed = meter.run_timed(0, || files.list())?;
    if listed != count {
        return Err(Error::Wrong { key: listed });
    }
    meter.ops = listed;
    Ok(meter
        .row(name, "readdir", 0)
        .noting(format!("{listed} entries; latency is that of the whole listing")))
}

fn small_files(
    name: &str,
    files: &impl Calls,
    options: &Options,
    goals: Option<&Goals>,
    each: &mut dyn FnMut(Row),
) -> Result<()> {
    let (keys, values) = (Keys::new(options.pick(18, 10)), Values::new(SMALL_FILE));
    let file = |key: u64| format!("s{key:08x}");
    let size = SMALL_FILE as u64;
    let note = format!("{} files: open, one call, close", keys.count());
    let against =
        |row: Row| goals.map_or_else(|| row.clone(), |goals| row.clone().against(goals.small, "goal"));
    let mut meter = Meter::start();
    for index in 0..keys.count() {
        let key = keys.at(index, 0);
        meter.run(size, || files.write(&file(key), values.of(key, 0)))?;
    }
    each(against(meter.row(name, "write", size).noting(&*note)));
    let mut meter = Meter::start();
    let mut data = vec![0; SMALL_FILE + 1];
    for index in 0..keys.count() {
        let key = keys.at(index, 1);
        let len = meter.run(size, || files.read(&file(key), &mut data))?;
        if &data[..len] != values.of(key, 0) {
            return Err(Error::Wrong { key });
        }
    }
    each(against(meter.row(name, "read", size).noting(format!("{note}; every byte compared"))));
    Ok(())
}

impl Calls for Dfs {
    fn create(&self, name: &str) -> Result<()> {
        self.open(name, &OpenOptions::CREATE_NEW)?.close()?;
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<u64> {
        Ok((**self).stat(name)?.size_bytes)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        Ok((**self).unlink(name)?)
    }

    fn write(&self, name: &str, data: &[u8]) -> Result<()> {
        let file = self.open(name, &OpenOptions::CREATE_NEW)?;
        file.write_at(0, data)?;
        file.close()?;
        Ok(())
    }

    fn read(&self, name: &str, data: &mut [u8]) -> Result<usize> {
        Ok(self.open(name, &OpenOptions::READ)?.read_at(0, data)?)
    }

    fn list(&self) -> Result<u64> {
        let (mut cookie, mut count) = (Cookie::default(), 0);
        while !cookie.is_end() {
            count += (**self).list(&mut cookie, 1024)?.len() as u64;
        }
        Ok(count)
    }
}

impl Calls for PathBuf {
    fn create(&self, name: &str) -> Result<()> {
        File::create_new(self.join(name)).map(drop).map_err(Error::system("create a native file"))
    }

    fn stat(&self, name: &str) -> Result<u64> {
        std::fs::metadata(self.join(name))
            .map(|found| found.len())
            .map_err(Error::system("stat a native file"))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.join(name)).map_err(Error::system("remove a native file"))
    }

    fn write(&self, name: &str, data: &[u8]) -> Result<()> {
        let written = File::create_new(self.join(name)).and_then(|mut file| file.write_all(data));
        written.map_err(Error::system("write a native file"))
    }

    fn read(&self, name: &str, data: &mut [u8]) -> Result<usize> {
        let read = File::open(self.join(name)).and_then(|mut file| file.read(data));
        read.map_err(Error::system("read a native file"))
    }

    fn list(&self) -> Result<u64> {
        let entries = std::fs::read_dir(self).map_err(Error::system("list a native directory"))?;
        Ok(entries.count() as u64)
    }
}
