//! `cargo xtask mounts`: files of mounts and of what they are held against, by the same load, in one run.
//!
//! The load is the program's own (`dolmen bench posix`): plain calls of the system on a directory, a large file and many empty
//! ones for each process. The grounds are the native tmpfs; the thinnest file system of FUSE, which hands a directory of that tmpfs
//! on (the floor of any); mounts of one container, in each mode of remembering, served by one daemon, the first also with the library
//! that takes calls before the kernel; and what others have built, where its path is given. The C interface has the
//! same phases by `dolmen bench ior` and `mdtest` on the same daemon. Grounds take turns in each round; everybody rests for a moment
//! before; the tables have medians, and the ratios that are asked for.

mod goals;
mod ground;
mod server;
mod table;

use crate::clients::{memory, quiet, value_of, wait_for};
use anyhow::{Context, Result, bail, ensure};
use ground::Ground;
use server::{Server, Servers};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use table::Table;

/// Rounds; the median is told.
const ROUNDS_DEFAULT: usize = 3;
/// Empty files of each process, and what else the load is to do, unless something else is asked for.
const COUNT_DEFAULT: u64 = 5000;
const FILE_SIZE_DEFAULT: &str = "256M";
const READS_DEFAULT: u64 = 20_000;
/// Numbers of processes, in turn.
const PROCESSES_DEFAULT: &str = "1,2";

const POOL: &str = "tank";
const CONT: &str = "c";

struct Setup {
    /// The program, and the library that takes calls before the kernel.
    dolmen: PathBuf,
    preload: PathBuf,
    /// Of others, where they are given.
    passthrough: Option<PathBuf>,
    juicefs: Option<PathBuf>,
    rounds: usize,
    processes: Vec<usize>,
    count: u64,
    file_size: String,
    reads: u64,
    grounds: Vec<Ground>,
    dir: PathBuf,
}

impl Setup {
    /// Where the pools are.
    fn system_dir(&self) -> PathBuf {
        self.dir.join("sys")
    }

    /// The daemon's name for the C library.
    fn system(&self) -> String {
        format!("unix:{}", self.system_dir().join("dolmen.sock").display())
    }

    fn mount_point(&self, name: &str) -> PathBuf {
        self.dir.join("mnt").join(name)
    }

    fn has(&self, grounds: &[Ground]) -> bool {
        grounds.iter().any(|ground| self.grounds.contains(ground))
    }
}

pub(super) fn run(words: &[&str]) -> Result<bool> {
    let setup = setup(words)?;
    std::fs::create_dir_all(&setup.dir)?;
    // For who only looks whether it works.
    let _held = if words.contains(&"--as-found") { None } else { Some(memory::hold(&setup.dolmen)?) };
    let measured = start(&setup).and_then(|servers| measure(&setup, &servers));
    // Whatever was mounted in it is taken away by now.
    std::fs::remove_dir_all(&setup.dir)?;
    let table = measured?;
    print!("{}", table.text());
    for processes in &setup.processes {
        println!("\n{}", goals::text(&table, *processes));
    }
    Ok(true)
}

fn setup(words: &[&str]) -> Result<Setup> {
    let value = |name: &str| value_of(words, name);
    let path = |name: &str| -> Result<PathBuf> {
        let path = value(name).with_context(|| format!("{name} PATH is missing"))?;
        std::fs::canonicalize(path).with_context(|| format!("{name} {path}"))
    };
    let given = |name: &str| value(name).map(|_path| path(name)).transpose();
    let number = |name: &str, default: u64| value(name).map_or(Ok(default), str::parse);
    let (passthrough, juicefs) = (given("--passthrough")?, given("--juicefs")?);
    let processes = value("--processes").unwrap_or(PROCESSES_DEFAULT).split(',').map(str::parse::<usize>);
    let is_there = |ground: &Ground| match ground {
        Ground::Given => passthrough.is_some(),
        Ground::JuiceFs => juicefs.is_some(),
        _ => true,
    };
    let grounds = match value("--only") {
        Some(names) => names.split(',').map(Ground::named).collect::<Result<_>>()?,
        None => Ground::ALL.into_iter().filter(is_there).collect::<Vec<_>>(),
    };
    if let Some(missing) = grounds.iter().find(|ground| !is_there(ground)) {
        bail!("for {} the path of a program is needed", missing.name());
    }
    Ok(Setup {
        dolmen: path("--dolmen")?,
        preload: path("--preload")?,
        rounds: value("--rounds").map_or(Ok(ROUNDS_DEFAULT), str::parse)?,
        processes: processes.collect::<Result<_, _>>()?,
        count: number("--count", COUNT_DEFAULT)?,
        file_size: value("--file-size").unwrap_or(FILE_SIZE_DEFAULT).to_owned(),
        reads: number("--reads", READS_DEFAULT)?,
        dir: PathBuf::from(format!("/dev/shm/dolmen-mounts-{}", std::process::id())),
        passthrough,
        juicefs,
        grounds,
    })
}

/// Everything that is to be served, for as long as it is measured.
fn start(setup: &Setup) -> Result<Servers> {
    let mut servers = Servers::default();
    std::fs::create_dir_all(setup.dir.join("native"))?;
    if setup.has(&[Ground::Passthrough]) {
        let dir = made(&setup.dir.join("passthrough"))?;
        let mut command = Command::new(&setup.dolmen);
        command.args(["bench", "passthrough"]).arg(dir);
        servers.mounts.push(mount(setup, Ground::Passthrough, command)?);
    }
    if let Some(program) = setup.passthrough.as_ref().filter(|_| setup.has(&[Ground::Given])) {
        let dir = made(&setup.dir.join("given"))?;
        servers.mounts.push(mount(setup, Ground::Given, given(program, &dir))?);
    }
    if setup.has(&Ground::OF_DAEMON) {
        servers.daemon = Some(serve(setup)?);
    }
    for (ground, cache) in Ground::MOUNTS {
        let is_wanted =
            setup.has(&[ground]) || (ground == Ground::Preload.root() && setup.has(&[Ground::Preload]));
        if is_wanted {
            let mut command = Command::new(&setup.dolmen);
            command.arg("mount").arg(setup.system_dir().join(POOL)).arg(CONT);
            command.args(["--foreground", "--cache", cache]);
            servers.mounts.push(mount(setup, ground, command)?);
        }
    }
    if let Some(program) = setup.juicefs.as_ref().filter(|_| setup.has(&[Ground::JuiceFs])) {
        servers.mounts.push(mount(setup, Ground::JuiceFs, juicefs(setup, program)?)?);
    }
    Ok(servers)
}

fn made(dir: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    Ok(dir.to_owned())
}

/// Starts a program that serves a mount, given all its words but the last.
fn mount(setup: &Setup, ground: Ground, mut command: Command) -> Result<Server> {
    let mount_point = made(&setup.mount_point(ground.name()))?;
    Server::mount(command.arg(&mount_point), ground, &mount_point)
}

/// A passthrough of others, in the foreground: `passthrough_ll` and its kin have the directory as an option, bindfs as a word.
fn given(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    let is_of_libfuse =
        program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("passthrough"));
    match is_of_libfuse {
        true => command.args(["-f", "-o"]).arg(format!("source={}", dir.display())),
        false => command.arg("-f").arg(dir),
    };
    command
}

/// A pool of one target, and a daemon that serves it.
fn serve(setup: &Setup) -> Result<Server> {
    let pool = made(&setup.system_dir())?.join(POOL);
    let words = ["--label", POOL, "--targets", "1", "--capacity", "8g", "--volatile"];
    quiet(Command::new(&setup.dolmen).args(["pool", "create"]).arg(&pool).args(words))?;
    quiet(Command::new(&setup.dolmen).args(["cont", "create"]).arg(&pool).args([
        CONT,
        "--durability",
        "process",
    ]))?;
    let mut command = Command::new(&setup.dolmen);
    let child = command.arg("serve").arg(setup.system_dir()).stdout(Stdio::null()).spawn();
    let daemon = Server::daemon(child.context("dolmen serve cannot be started")?);
    wait_for(&setup.system_dir().join("dolmen.sock"))?;
    Ok(daemon)
}

/// JuiceFS on one machine: names in SQLite, contents in files, both in the same memory.
fn juicefs(setup: &Setup, program: &Path) -> Result<Command> {
    let dir = made(&setup.dir.join("juicefs"))?;
    let names = format!("sqlite3://{}", dir.join("names.db").display());
    let objects = format!("{}/", made(&dir.join("objects"))?.display());
    let mut format = Command::new(program);
    // What is removed is removed, as everywhere else here.
    format.args(["format", "--storage", "file", "--bucket", &objects, "--trash-days", "0", &names, "bench"]);
    quiet(format.env("HOME", &dir))?;
    let mut command = Command::new(program);
    command
        .env("HOME", &dir)
        .args(["mount", "--no-usage-report", "--cache-dir"])
        .arg(dir.join("cache"))
        .arg(names);
    Ok(command)
}

fn measure(setup: &Setup, servers: &Servers) -> Result<Table> {
    let mut table = Table::default();
    for round in 0..setup.rounds {
        for processes in &setup.processes {
            for ground in &setup.grounds {
                eprintln!(
                    "# round {} of {}, {processes} processes: {}",
                    round + 1,
                    setup.rounds,
                    ground.name()
                );
                for phase in ground.run(setup, servers, *processes)? {
                    table.add(*ground, *processes, phase);
                }
            }
        }
    }
    ensure!(!table.is_empty(), "nothing was measured");
    Ok(table)
}
