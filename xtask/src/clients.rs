//! `cargo xtask clients`: unmodified IOR and mdtest through the C library, beside their POSIX backend on the same memory, and
//! values of objects by the program's own load generator.
//!
//! Last come what a daemon costs at rest, and how long a client waits beside others that do to it as they like.
//! IOR verifies everything once before that. With `--fio` also fio, with `--io500` also IO500, once each with one and two ranks.
//!
//! The clients are built elsewhere, against what `make install` installs; their paths are given. Each phase runs
//! several times, ways taken in turn, so that whatever else the machine does meets all of them; the table has medians. Before
//! each run everybody rests for a moment, whichever way it goes.

mod fio;
mod io500;
pub(crate) mod memory;
mod verified;

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Rounds; the median is told.
const ROUNDS_DEFAULT: usize = 5;

/// Clock ticks of `/proc/PID/stat` in a second.
const TICKS: f64 = 100.0;

#[derive(Clone)]
struct Setup {
    prefix: PathBuf,
    ior: PathBuf,
    mdtest: PathBuf,
    fio: Option<PathBuf>,
    rounds: usize,
    dir: PathBuf,
    /// Of the pool.
    capacity: &'static str,
}

/// How files are reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Rings,
    Tcp,
    TwoRings,
    TwoTcp,
    Posix,
}

impl Way {
    const ALL: [Self; 5] = [Self::Rings, Self::Tcp, Self::TwoRings, Self::TwoTcp, Self::Posix];
    /// Those with objects.
    const SERVED: [Self; 2] = [Self::Rings, Self::Tcp];

    fn name(self) -> &'static str {
        match self {
            Self::Rings => "daemon, shared memory",
            Self::Tcp => "daemon, TCP",
            Self::TwoRings => "two engines, shared memory",
            Self::TwoTcp => "two engines, TCP",
            Self::Posix => "POSIX, tmpfs",
        }
    }

    /// The daemon's name for the C library; none where there is no daemon.
    fn system(self, setup: &Setup) -> Option<String> {
        match self {
            Self::Rings => Some(format!("unix:{}", setup.dir.join("dolmen.sock").display())),
            Self::Tcp => Some(format!("tcp://{ADDRESS}")),
            Self::TwoRings => Some(format!("unix:{}", setup.socket_of(0).display())),
            Self::TwoTcp => Some(format!("tcp://{}", ADDRESSES_OF_TWO[0])),
            Self::Posix => None,
        }
    }
}

impl Setup {
    fn dolmen(&self) -> PathBuf {
        self.prefix.join("bin/dolmen")
    }

    /// The directory of one of two engines.
    fn dir_of(&self, rank: usize) -> PathBuf {
        self.dir.join(format!("r{rank}"))
    }

    fn socket_of(&self, rank: usize) -> PathBuf {
        self.dir_of(rank).join("dolmen.sock")
    }
}

/// Daemons; killed when they are dropped.
#[derive(Default)]
struct Daemons(Vec<Child>);

impl Daemons {
    fn cpu_seconds(&self) -> Result<f64> {
        self.0.iter().map(|child| cpu_seconds(child.id())).sum()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Ignored, both: one that has ended is what is wanted.
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }
}

/// What a run gave: a rate by phase, and processor seconds of clients and daemon together.
struct Ran {
    rates: Vec<(String, f64)>,
    cpu_seconds: f64,
}

pub(super) fn run(words: &[&str]) -> Result<bool> {
    let setup = setup(words)?;
    let value = |name: &str| value_of(words, name).map(str::to_owned);
    let io500 = io500::asked(&value)?;
    std::fs::create_dir_all(setup.dir.join("posix"))?;
    // For who only looks whether it works.
    let _held = if words.contains(&"--as-found") { None } else { Some(memory::hold(&setup.dolmen())?) };
    if !words.contains(&"--io500-only") {
        all_rounds(&setup)?;
    }
    io500.map_or(Ok(()), |io500| io500::run(&setup, &io500))?;
    Ok(true)
}

/// All but IO500, which has daemons of its own.
fn all_rounds(setup: &Setup) -> Result<()> {
    let mut daemons = Daemons::default();
    daemons.0.push(serve(setup)?);
    serve_two(setup, &mut daemons)?;
    let measured = verified::run(setup, &daemons).and_then(|verified| {
        verified::print(&verified);
        println!();
        measure(setup, &daemons)
    });
    drop(daemons);
    let of_daemon = DAEMON_BENCHES.map(|words| of_daemon(setup, &words));
    std::fs::remove_dir_all(&setup.dir)?;
    print(&measured?);
    for text in of_daemon {
        println!("\n{}", text?);
    }
    Ok(())
}

fn setup(words: &[&str]) -> Result<Setup> {
    let value = |name: &str| value_of(words, name);
    let path = |name: &str| value(name).map(PathBuf::from).with_context(|| format!("{name} PATH is missing"));
    let rounds = value("--rounds").map_or(Ok(ROUNDS_DEFAULT), str::parse)?;
    let dir = PathBuf::from(format!("/dev/shm/dolmen-clients-{}", std::process::id()));
    let (prefix, ior, mdtest) = (path("--prefix")?, path("--ior")?, path("--mdtest")?);
    Ok(Setup { prefix, ior, mdtest, fio: value("--fio").map(PathBuf::from), rounds, dir, capacity: "8g" })
}

pub(crate) fn value_of<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied()
}

/// The container of files.
const CONT: &str = "c";

/// A pool of one target, and a daemon that serves it.
fn serve(setup: &Setup) -> Result<Child> {
    let dolmen = setup.dolmen();
    let pool = setup.dir.join("tank");
    let words = ["--label", "tank", "--targets", "1", "--capacity", setup.capacity, "--volatile"];
    quiet(Command::new(&dolmen).args(["pool", "create"]).arg(&pool).args(words))?;
    quiet(Command::new(&dolmen).args(["cont", "create"]).arg(&pool).args([CONT, "--durability", "process"]))?;
    let mut command = Command::new(&dolmen);
    command.arg("serve").arg(&setup.dir).args(["--tcp", ADDRESS, "--insecure-tcp"]).stdout(Stdio::null());
    let child = command.spawn().context("dolmen serve cannot be started")?;
    wait_for(&setup.dir.join("dolmen.sock"))?;
    Ok(child)
}

/// A system of two engines with a target each, and a pool on both.
fn serve_two(setup: &Setup, daemons: &mut Daemons) -> Result<()> {
    let engine = |rank: usize| {
        let socket = setup.socket_of(rank);
        let addresses = format!("[\"unix:{}\", \"tcp://{}\"]", socket.display(), ADDRESSES_OF_TWO[rank]);
        format!("[[engine]]\nrank = {rank}\naddresses = {addresses}\n")
    };
    let list = setup.dir.join("system.toml");
    std::fs::write(&list, [engine(0), engine(1)].concat())?;
    let dolmen = setup.dolmen();
    for rank in 0..ADDRESSES_OF_TWO.len() {
        std::fs::create_dir_all(setup.dir_of(rank))?;
        let mut command = Command::new(&dolmen);
        command.arg("serve").arg(setup.dir_of(rank)).arg("--system").arg(&list);
        command.args(["--insecure-tcp", "--rank", &rank.to_string()]).stdout(Stdio::null());
        daemons.0.push(command.spawn().context("dolmen serve cannot be started")?);
        wait_for(&setup.socket_of(rank))?;
    }
    let system = format!("unix:{}", setup.socket_of(0).display());
    let words = ["dmg", "pool", "create", "tank", "--targets", "1", "--size", setup.capacity, "--volatile"];
    quiet(Command::new(&dolmen).args(words).env("DOLMEN_SYSTEM", &system))?;
    let pool = format!("{system}/tank");
    quiet(Command::new(&dolmen).args(["cont", "create", &pool, CONT, "--durability", "process"]))
}

pub(crate) fn wait_for(socket: &Path) -> Result<()> {
    for _ in 0..1000 {
        if socket.exists() {
            return Ok(());
        }
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
    anyhow::bail!("no daemon listens at {}", socket.display())
}

const ADDRESS: &str = "127.0.0.1:17788";
const ADDRESSES_OF_TWO: [&str; 2] = ["127.0.0.1:17789", "127.0.0.1:17790"];

pub(crate) fn quiet(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

type Table = BTreeMap<(String, usize, Way), Vec<(f64, f64)>>;

fn measure(setup: &Setup, daemons: &Daemons) -> Result<Table> {
    let mut table = Table::new();
    for round in 0..setup.rounds {
        for ranks in [1, 2] {
            for (name, words) in workloads(ranks) {
                for way in Way::ALL {
                    let tag = format!("{}-{ranks}-{round}", name.replace(' ', "-"));
                    let ran = client(setup, daemons, name, &words, way, ranks, &tag)?;
                    add(&mut table, name, ranks, way, ran);
                }
            }
            for (name, words) in fio::WORKLOADS.iter().filter(|_| setup.fio.is_some()) {
                for way in Way::ALL {
                    let ran = fio::run(setup, daemons, words, way, (ranks, &format!("fio-{ranks}-{round}")))?;
                    add(&mut table, name, ranks, way, ran);
                }
            }
            for (name, in_flight) in OBJECTS {
                for way in Way::SERVED {
                    let ran = object(setup, daemons, in_flight, way, ranks)?;
                    add(&mut table, name, ranks, way, ran);
                }
            }
        }
    }
    Ok(table)
}

fn add(table: &mut Table, name: &str, ranks: usize, way: Way, ran: Ran) {
    for (phase, rate) in ran.rates {
        let key = (format!("{name}: {phase}"), ranks, way);
        table.entry(key).or_default().push((rate, ran.cpu_seconds));
    }
}

/// What a daemon costs at rest, and what its clients notice of each other: each with a daemon of its own.
const DAEMON_BENCHES: [[&str; 2]; 2] = [["bench", "idle"], ["bench", "disturbed"]];

/// The table that one of these prints.
fn of_daemon(setup: &Setup, words: &[&str; 2]) -> Result<String> {
    let mut command = Command::new(setup.dolmen());
    let output = command.args(words).arg("--dir").arg(&setup.dir).output();
    let output = output.with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Values of 4 KiB: name, and how many operations are under way on one event queue.
const OBJECTS: [(&str, &str); 2] = [("object 4 KiB, 1 at a time", "1"), ("object 4 KiB, 16 in flight", "16")];

/// Values of each process: some tenths of a second.
const OBJECT_COUNT: &str = "60000";

/// The program's own load generator, over the same C interface, in a container that it makes and removes.
fn object(setup: &Setup, daemons: &Daemons, in_flight: &str, way: Way, ranks: usize) -> Result<Ran> {
    let system = way.system(setup).context("objects need a daemon")?;
    let mut command = Command::new(setup.dolmen());
    command.args(["bench", "object", "--size", "4096", "--count", OBJECT_COUNT, "--in-flight", in_flight]);
    command.args(["--system", &system, "--pool", "tank", "--rounds", "1"]);
    command.args(["--processes", &ranks.to_string()]);
    let (text, cpu_seconds) = timed(&mut command, daemons)?;
    let rates = object_rates(&text);
    ensure!(rates.len() == 4, "{command:?} has not told what is asked:\n{text}");
    Ok(Ran { rates, cpu_seconds })
}

/// Operations a second and the 99th percentile of both phases.
fn object_rates(text: &str) -> Vec<(String, f64)> {
    let of = |phase: &str| {
        let line = text.lines().find(|line| line.starts_with(phase))?;
        let figures: Vec<&str> = line.split_whitespace().collect();
        let (rate, p99) = (figures.get(1)?.parse().ok()?, figures.get(4)?.parse().ok()?);
        Some([(format!("{phase} /s"), rate), (format!("{phase} p99 us"), p99)])
    };
    ["update", "fetch"].into_iter().filter_map(of).flatten().collect()
}

/// Name, and the words of IOR or mdtest. IOR moves as much in all whatever number of ranks does it: a target keeps so many segments
/// at hand, and what goes beyond takes fresh pages in the time of the phase.
fn workloads(ranks: usize) -> [(&'static str, Vec<&'static str>); 4] {
    let (block, segments) = if ranks == 1 { ("512m", "8000") } else { ("256m", "4000") };
    [
        ("IOR easy", vec!["-w", "-r", "-C", "-t", "1m", "-b", block, "-F"]),
        ("IOR hard", vec!["-w", "-r", "-C", "-t", "47008", "-b", "47008", "-s", segments]),
        ("mdtest easy", vec!["-n", "10000", "-u", "-L", "-F", "-C", "-T", "-E", "-r"]),
        ("mdtest hard", vec!["-n", "10000", "-t", "-F", "-w", "3901", "-e", "3901", "-C", "-T", "-E", "-r"]),
    ]
}

fn client(
    setup: &Setup,
    daemons: &Daemons,
    name: &str,
    words: &[&str],
    way: Way,
    ranks: usize,
    tag: &str,
) -> Result<Ran> {
    let is_ior = name.starts_with("IOR");
    let mut command = if is_ior {
        ior_command(setup, way, ranks, tag)
    } else {
        let mut command = client_command(setup, &setup.mdtest, way, ranks);
        command.arg("-d").arg(root(setup, way).join(tag));
        command
    };
    command.args(words);
    let (text, cpu_seconds) = timed(&mut command, daemons)?;
    let rates = if is_ior { ior_rates(&text) } else { mdtest_rates(&text) };
    ensure!(!rates.is_empty(), "{command:?} has told no rates:\n{text}");
    Ok(Ran { rates, cpu_seconds })
}

/// IOR by a way, with a file for it; what it is to do is left to the caller.
fn ior_command(setup: &Setup, way: Way, ranks: usize, tag: &str) -> Command {
    let mut command = client_command(setup, &setup.ior, way, ranks);
    command.arg("-o").arg(root(setup, way).join(tag));
    command
}

fn root(setup: &Setup, way: Way) -> PathBuf {
    if way == Way::Posix { setup.dir.join("posix") } else { PathBuf::from("/") }
}

/// Ranks under Open MPI wait for each other without giving their processor up, unless it is told that there are more busy
/// processes than processors, as there are: whoever has done his part of a phase would keep the others from theirs.
const PATIENT_RANKS: (&str, &str) = ("OMPI_MCA_mpi_yield_when_idle", "1");

/// Ranks run where there is room: bound to a processor each, as Open MPI has two by default, one of them shares its own with
/// the daemon while the other waits for both.
const FREE_RANKS: [&str; 2] = ["--bind-to", "none"];

/// What is to be run follows.
fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.env(PATIENT_RANKS.0, PATIENT_RANKS.1).args(FREE_RANKS).args(["-n", &ranks.to_string()]);
    command
}

fn client_command(setup: &Setup, program: &Path, way: Way, ranks: usize) -> Command {
    let mut command = mpirun(ranks);
    command.arg(program);
    match way.system(setup) {
        None => command.args(["-a", "POSIX"]),
        Some(system) => {
            command.env("DOLMEN_SYSTEM", system);
            command.args(["-a", "DFS", "--dfs.pool", "tank", "--dfs.cont", CONT])
        }
    };
    command
}

/// How long everybody rests before a run: daemons free and make ready at rest what was removed before, and what the kernel
/// does for a process that has ended is done.
pub(crate) const REST: std::time::Duration = std::time::Duration::from_millis(500);

/// Runs a client: what it prints, and the processor seconds of it and the daemon.
fn timed(command: &mut Command, daemons: &Daemons) -> Result<(String, f64)> {
    std::thread::park_timeout(REST);
    let before = daemons.cpu_seconds()? + children_seconds()?;
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let cpu_seconds = daemons.cpu_seconds()? + children_seconds()? - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{command:?}:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok((text, cpu_seconds))
}

/// MiB/s of the two phases: the first line of each in the table of results.
fn ior_rates(text: &str) -> Vec<(String, f64)> {
    let of = |phase: &str| {
        let line = text.lines().find(|line| line.starts_with(phase) && line.trim_end().ends_with(" 0"))?;
        let rate = line.split_whitespace().nth(1)?.parse().ok()?;
        Some((format!("{phase} MiB/s"), rate))
    };
    ["write", "read"].into_iter().filter_map(of).collect()
}

/// Operations a second of the phases on files.
fn mdtest_rates(text: &str) -> Vec<(String, f64)> {
    let of = |phase: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("File {phase}")))?;
        let rate = line.split_whitespace().nth(2)?.parse().ok()?;
        Some((format!("{phase} /s"), rate))
    };
    ["creation", "stat", "read", "removal"].into_iter().filter_map(of).collect()
}

/// Processor time that a process has used.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))?;
    ticks(&stat, 11)
}

/// Processor time of all children that have ended.
fn children_seconds() -> Result<f64> {
    ticks(&std::fs::read_to_string("/proc/self/stat")?, 13)
}

/// Two neighbouring counters behind the name in parentheses, in seconds.
fn ticks(stat: &str, first: usize) -> Result<f64> {
    let (_, fields) = stat.rsplit_once(") ").context("no process")?;
    let counters: Vec<f64> =
        fields.split(' ').skip(first).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(counters.iter().sum::<f64>() / TICKS)
}

fn print(table: &Table) {
    println!("| phase | ranks | way | median | least | most | CPU s of the run |");
    println!("|---|---|---|---|---|---|---|");
    for ((phase, ranks, way), all) in table {
        let mut rates: Vec<f64> = all.iter().map(|one| one.0).collect();
        rates.sort_by(f64::total_cmp);
        let mut cpu: Vec<f64> = all.iter().map(|one| one.1).collect();
        cpu.sort_by(f64::total_cmp);
        let (median, least, most) = (rates[rates.len() / 2], rates[0], rates[rates.len() - 1]);
        let seconds = cpu[cpu.len() / 2];
        println!(
            "| {phase} | {ranks} | {} | {median:.0} | {least:.0} | {most:.0} | {seconds:.2} |",
            way.name()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_the_clients_print() {
        let ior = "access    bw(MiB/s)\nwrite     1265.52    1287.60    0.000777 0   \nread  4347  4364  0.1 0   \nwrite 9 9 9 9 DFS      0\n";
        assert_eq!(ior_rates(ior), [("write MiB/s".to_owned(), 1265.52), ("read MiB/s".to_owned(), 4347.0)]);
        let mdtest =
            "   File creation               12500.099      12500.099      12500.099          0.000\n";
        assert_eq!(mdtest_rates(mdtest), [("creation /s".to_owned(), 12500.099)]);
        let object = "phase ops/s MiB/s p50 us p99 us wall s\nupdate 61000 238.3 9.0 51.5 0.1\nfetch 90000 351.6 8.0 20.5 0.1\n";
        let named = |(name, figure): (&str, f64)| (name.to_owned(), figure);
        let expected =
            [("update /s", 61e3), ("update p99 us", 51.5), ("fetch /s", 9e4), ("fetch p99 us", 20.5)];
        assert_eq!(object_rates(object), expected.map(named));
        assert!((ticks("1 (a b) S 1 2 3 4 5 6 7 8 9 10 100 50 0", 11).unwrap() - 1.5).abs() < 1e-9);
    }
}
