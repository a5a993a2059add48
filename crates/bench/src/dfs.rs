//! Files and directories: the store in process, then native tmpfs and ext4 by the same calls.

use crate::child::{self, say_row};
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::native;
use crate::options::Options;
use crate::points::Spec;
use crate::rig::{Kind, Setup};
use crate::row::Row;
use dolmen_client::{ContName, Pool};
use dolmen_dfs::{Cookie, Dfs, Dir, FormatOptions, MountOptions, OpenOptions};
use dolmen_env::pin_to_cpu;
use dolmen_local::PoolOptions;
use dolmen_types::{Credentials, Label};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file of mdtest-hard.
const SMALL_FILE: usize = 3901;
/// Empty files lie in so many directories (as a power of two): the listing is of one of them.
const DIRS_LOG2: u32 = 2;
/// Small files are fewer than empty ones by this power of two: their bytes share the memory with everything.
const SMALL_FEWER_LOG2: u32 = 2;
/// Names on native file systems, as a power of two: tmpfs has inodes for one in two pages of memory.
const NATIVE_NAMES_LOG2: u32 = 21;
/// Names written while the kill comes are in a directory of their own.
const EXTRA_DIR: &str = "extra";

/// What a row is held against.
struct Goals {
    create: f64,
    stat: f64,
    unlink: f64,
    small: f64,
    readdir_s: f64,
}

const GOALS: Goals = Goals { create: 300e3, stat: 700e3, unlink: 300e3, small: 150e3, readdir_s: 1.0 };

/// The store, in a child that is killed.
pub(crate) fn store(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let spec = spec_of(options.dir.join("dfs"), options);
    child::measure("dfs", &spec, each, |_count, each| verify_all(&spec, each))
}

/// The file system in memory, by the same calls.
pub(crate) fn native_tmpfs(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    native_peer(options, "native tmpfs", &options.dir, each)
}

/// The file system on a disk, by the same calls.
pub(crate) fn native_ext4(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    native_peer(options, "native ext4", &options.disk_dir, each)
}

fn native_peer(options: &Options, name: &str, dir: &Path, each: &mut dyn FnMut(Row)) -> Result<()> {
    let key_bits = options.pick(NATIVE_NAMES_LOG2, 12);
    let spec = Spec { key_bits, ..spec_of(dir.join("native"), options) };
    child::clean(&spec.dir)?;
    let rows = native::pinned(|| native_files(&spec, name));
    child::clean(&spec.dir)?;
    rows?.into_iter().for_each(each);
    Ok(())
}

fn spec_of(dir: PathBuf, options: &Options) -> Spec {
    let setup = Setup::new(Kind::Single, SMALL_FILE);
    Spec { key_bits: options.pick(22, 12), ..Spec::new(dir, setup, options) }
}

/// The child's part.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    let mut pool_options = PoolOptions { targets: 1, volatile: true, ..PoolOptions::default() };
    pool_options.memory_budget_bytes = spec.setup.memory_bytes;
    child::fresh(&spec.dir)?;
    dolmen_local::create(&spec.dir, &pool_options)?;
    let (pool, label) = connect(&spec.dir)?;
    pool.create_container(Some(label.clone()), Dfs::container_props())?;
    let container = pool.open_container(&ContName::Label(label))?;
    Dfs::format(&container, &FormatOptions::default())?;
    let mounted = Dfs::mount(&container, &MountOptions::default())?;
    let mut dirs = Vec::new();
    for number in 0..1 << DIRS_LOG2 {
        mounted.mkdir(format!("d{number}"), 0o755)?;
        dirs.push(mounted.open_dir(format!("d{number}"))?);
    }
    mounted.mkdir(EXTRA_DIR, 0o755)?;
    measure("dfs", &dirs, spec, Some(&GOALS), &mut say_row)?;
    let (extra, values) = (mounted.open_dir(EXTRA_DIR)?, Values::new(SMALL_FILE));
    child::write_until_killed(0, |number| Calls::write(&extra, &small_name(number), values.of(number, 0)))
}

fn connect(dir: &Path) -> Result<(Pool, Label)> {
    let local = Arc::new(dolmen_local::open(dir, &dolmen_local::OpenOptions::default())?);
    let transport: Arc<dyn dolmen_client::Transport> = local;
    let pool = Pool::connect(transport, Credentials::default())?;
    Ok((pool, Label::new("bench").map_err(dolmen_types::Error::Invalid)?))
}

fn native_files(spec: &Spec, name: &str) -> Result<Vec<Row>> {
    let mut dirs = Vec::new();
    for number in 0..1 << DIRS_LOG2 {
        let dir = spec.dir.join(format!("d{number}"));
        std::fs::create_dir_all(&dir).map_err(Error::system("make a directory for the measurement"))?;
        dirs.push(dir);
    }
    let mut rows = Vec::new();
    measure(name, &dirs, spec, None, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// A directory by the calls that are measured.
trait Calls {
    fn create(&self, name: &str) -> Result<()>;
    fn stat(&self, name: &str) -> Result<u64>;
    fn unlink(&self, name: &str) -> Result<()>;
    fn write(&self, name: &str, data: &[u8]) -> Result<()>;
    fn read(&self, name: &str, data: &mut [u8]) -> Result<usize>;
    fn list(&self) -> Result<u64>;
}

fn measure(
    name: &str,
    dirs: &[impl Calls],
    spec: &Spec,
    goals: Option<&Goals>,
    each: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    child::say_next(&format!("  {name}: create, stat, readdir, unlink"), 3.5 * spec.seconds);
    empty_files(name, dirs, spec, goals, each)?;
    child::say_next(&format!("  {name}: write and read of {SMALL_FILE} B"), 2.5 * spec.seconds);
    small_files(name, dirs, spec, goals, each)
}

/// Calls of one kind over all keys in an order of its own, added to what the meter has.
fn all(
    meter: &mut Meter,
    keys: Keys,
    round: u64,
    size: usize,
    mut work: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    meter.resume();
    for index in 0..keys.count() {
        let key = keys.at(index, round);
        meter.run(size as u64, || work(key))?;
    }
    meter.pause();
    Ok(())
}

fn place<C>(dirs: &[C], key: u64) -> &C {
    &dirs[usize::try_from(key).unwrap_or(0) % dirs.len()]
}

fn empty_files(
    name: &str,
    dirs: &[impl Calls],
    spec: &Spec,
    goals: Option<&Goals>,
    each: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let keys = Keys::new(spec.key_bits);
    let file = |key: u64| format!("f{key:08x}");
    let [mut create, mut stat, mut unlink] = [Meter::paused(), Meter::paused(), Meter::paused()];
    let (mut round, mut listed) = (0, None);
    while round == 0 || create.seconds() < spec.seconds {
        all(&mut create, keys, 4 * round, 0, |key| place(dirs, key).create(&file(key)))?;
        if listed.is_none() {
            listed = Some(readdir(name, &dirs[0], keys.count() >> DIRS_LOG2)?);
        }
        while stat.seconds() < spec.seconds {
            all(&mut stat, keys, 4 * round + 1, 0, |key| place(dirs, key).stat(&file(key)).map(drop))?;
        }
        all(&mut unlink, keys, 4 * round + 2, 0, |key| place(dirs, key).unlink(&file(key)))?;
        round += 1;
    }
    let dir_keys = keys.count() >> DIRS_LOG2;
    let rows = [
        (create, "create", goals.map(|g| g.create)),
        (stat, "stat with size", goals.map(|g| g.stat)),
        (unlink, "unlink", goals.map(|g| g.unlink)),
    ];
    for (meter, op, goal) in rows {
        let note = format!(
            "{} files in {} directories at random, {:.0} s in all",
            keys.count(),
            dirs.len(),
            meter.seconds()
        );
        let row = meter.row(name, op, 0).noting(note);
        each(goal.map_or(row.clone(), |goal| row.at_least(goal)))?;
    }
    if let Some(row) = listed {
        let goal = goals.map(|g| dir_keys as f64 / g.readdir_s);
        each(goal.map_or(row.clone(), |goal| row.at_least(goal)))?;
    }
    Ok(())
}

fn readdir(name: &str, dir: &impl Calls, count: u64) -> Result<Row> {
    let mut meter = Meter::start();
    let listed = meter.run_timed(0, || dir.list())?;
    meter.pause();
    if listed != count {
        return Err(Error::Wrong { key: listed });
    }
    meter.ops = listed;
    let note = format!("{listed} entries in {:.2} s; latency is that of the whole listing", meter.seconds());
    Ok(meter.row(name, "readdir", 0).noting(note))
}

fn small_keys(spec: &Spec) -> Keys {
    Keys::new(spec.key_bits - SMALL_FEWER_LOG2)
}

fn small_name(key: u64) -> String {
    format!("s{key:08x}")
}

fn small_files(
    name: &str,
    dirs: &[impl Calls],
    spec: &Spec,
    goals: Option<&Goals>,
    each: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let (keys, values) = (small_keys(spec), Values::new(SMALL_FILE));
    let [mut write, mut read] = [Meter::paused(), Meter::paused()];
    let mut data = vec![0; SMALL_FILE + 1];
    for round in 0.. {
        all(&mut write, keys, round, SMALL_FILE, |key| {
            place(dirs, key).write(&small_name(key), values.of(key, 0))
        })?;
        while read.seconds() < spec.seconds {
            all(&mut read, keys, round + 1, SMALL_FILE, |key| {
                let len = place(dirs, key).read(&small_name(key), &mut data)?;
                if &data[..len] == values.of(key, 0) { Ok(()) } else { Err(Error::Wrong { key }) }
            })?;
        }
        // The last round stays, to be verified after the kill.
        if write.seconds() >= spec.seconds {
            break;
        }
        for key in 0..keys.count() {
            place(dirs, key).unlink(&small_name(key))?;
        }
    }
    for (meter, op) in [(write, "write"), (read, "read")] {
        let note = format!(
            "{} files: open, one call, close; {:.0} s in all; every byte compared",
            keys.count(),
            meter.seconds()
        );
        let row = meter.row(name, op, SMALL_FILE as u64).noting(note);
        each(goals.map_or(row.clone(), |goals| row.at_least(goals.small)))?;
    }
    Ok(())
}

/// The parent's part: all small files are there, and of those written when the kill came a whole beginning.
fn verify_all(spec: &Spec, each: &mut dyn FnMut(Row)) -> Result<()> {
    let mut meter = Meter::start();
    let (pool, label) = connect(&spec.dir)?;
    let container = pool.open_container(&ContName::Label(label))?;
    let mounted = Dfs::mount(&container, &MountOptions::default())?;
    let (keys, values) = (small_keys(spec), Values::new(SMALL_FILE));
    let mut data = vec![0; SMALL_FILE + 1];
    for number in 0..1 << DIRS_LOG2 {
        let dir = mounted.open_dir(format!("d{number}"))?;
        for key in (0..keys.count()).filter(|key| key % (1 << DIRS_LOG2) == number) {
            let len = meter.run(SMALL_FILE as u64, || dir.read(&small_name(key), &mut data))?;
            if &data[..len] != values.of(key, 0) {
                return Err(Error::Wrong { key });
            }
        }
    }
    let extra = mounted.open_dir(EXTRA_DIR)?;
    let count = Calls::list(&extra)?;
    for number in 0..count.saturating_sub(1) {
        let len = Calls::read(&extra, &small_name(number), &mut data)?;
        if &data[..len] != values.of(number, 0) {
            return Err(Error::Wrong { key: number });
        }
    }
    let note = format!(
        "reopened, every byte of {} files right, and of {count} that were being written when the kill came",
        keys.count()
    );
    each(meter.row("dfs", "verify after SIGKILL", SMALL_FILE as u64).noting(note));
    Ok(())
}

impl Calls for Dir {
    fn create(&self, name: &str) -> Result<()> {
        self.open(name, &OpenOptions::CREATE_NEW)?.close()?;
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<u64> {
        Ok(Self::stat(self, name)?.size_bytes)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        Ok(Self::unlink(self, name)?)
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
            count += Self::list(self, &mut cookie, 1024)?.len() as u64;
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
