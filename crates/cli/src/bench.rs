//! `dolmen bench`: what the store costs on this machine.

mod load;
mod posix;
mod served;

use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::Answer;
use crate::path::shown_outside;
use clap::{Args as ClapArgs, Subcommand};
use dolmen_bench::{Error, HEADING, HeldMemory, Large, Options, Results, Row};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Measure one target: updates, fetches, lists, memory, amplification, beside what the machine gives
    Engine(EngineArgs),
    /// Measure files and directories, beside native file systems
    Dfs(Args),
    /// Measure values of objects over the C interface: updates and fetches, one or several at a time
    Object(load::ObjectArgs),
    /// Measure large files over the C interface, with the phases and options of IOR
    Ior(load::IorArgs),
    /// Measure many files and directories over the C interface, with the phases and options of mdtest
    Mdtest(load::MdtestArgs),
    /// Measure files of any directory by calls of the system: write, read, create, stat, unlink
    Posix(posix::PosixArgs),
    /// Show a directory in another through FUSE, with nothing in between: the least that a mount costs
    #[command(hide = true)]
    Passthrough(posix::PassthroughArgs),
    /// Measure a daemon at rest, with clients connected: processor time, wake-ups, memory
    Idle(served::IdleArgs),
    /// Measure how long a client waits beside crowds of connections, malformed frames and slow readers
    Disturbed(served::DisturbedArgs),
    /// Make a page of Markdown from files that --out has written
    Report(ReportArgs),
}

/// The part of a measurement that another process of this program has started and kills: scenario and what it is given.
/// Nobody else asks for it, so that it is no command.
pub(crate) fn part_of_another() -> Option<(String, String)> {
    let mut args = std::env::args_os().skip(1).map_while(|arg| arg.into_string().ok());
    let is_child = args.next()? == "bench" && args.next()? == "child";
    let (scenario, spec) = (args.next()?, args.next()?);
    (is_child && args.next().is_none()).then_some((scenario, spec))
}

/// Does that part.
pub(crate) fn child(scenario: &str, spec: &str) -> Exit {
    match dolmen_bench::child(scenario, spec).map_err(|error| failed(&error)) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            crate::output::complain(&failure);
            failure.exit
        }
    }
}

#[derive(ClapArgs, Debug)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    args: Args,
    /// Rates and bandwidths over sizes from 64 B to 4 MiB instead; `bench report --png` draws them
    #[arg(long)]
    curve: bool,
    /// A store much larger than its memory instead, on --disk-dir and in a memory cgroup (needs root)
    #[arg(long, conflicts_with = "curve")]
    large: bool,
    /// With --large: records of 64 B
    #[arg(long, requires = "large", value_name = "N", default_value_t = 50_000_000, value_parser = crate::size::count::<u64>(1000, (1 << 38) - 1))]
    records: u64,
    /// With --large: memory of the cgroup, page cache counted
    #[arg(long, requires = "large", value_name = "SIZE", default_value = "1.5G", value_parser = crate::size::between(16 << 20, 16 << 40))]
    memory: u64,
    /// With --large: leave the store in <DISK_DIR>/dolmen-bench-<PID>/large
    #[arg(long, requires = "large")]
    keep: bool,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct ReportArgs {
    /// Files of results
    #[arg(required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Draw the curves among the rows, bandwidth over access size
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    png: Option<PathBuf>,
    /// The commit that was measured
    #[arg(long)]
    commit: String,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    /// Small and short; the rows say so and must not be quoted
    #[arg(long)]
    quick: bool,
    /// Directory for the stores, in memory
    #[arg(long, default_value = "/dev/shm", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Directory on a disk, for what has to survive power loss and for block media
    #[arg(long, default_value = "/var/tmp", value_hint = clap::ValueHint::DirPath)]
    disk_dir: PathBuf,
    /// Take free memory as it is found: a run otherwise touches most of it first, so that no page costs what
    /// the host of a virtual machine takes to find it again
    #[arg(long)]
    as_found: bool,
    /// Seconds of each rate
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Add every row to this file as soon as it is there, for `bench report`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// A time that a measurement can take: up to a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text} is not a number of seconds from 0.01 to 86400")),
    }
}

impl Args {
    fn options(&self) -> Options {
        let below = format!("{SCRATCH}{}", std::process::id());
        let mut options = Options::new(self.dir.join(&below), self.disk_dir.join(&below), self.quick);
        options.seconds = self.seconds.unwrap_or(options.seconds);
        options.only.clone_from(&self.only);
        options
    }
}

pub(crate) fn run(command: &Command, as_json: bool) -> Outcome<Answer> {
    match command {
        Command::Engine(engine) if engine.curve => {
            let options = engine.args.options();
            measure(&engine.args, &options, (as_json, false), |each| dolmen_bench::curve(&options, each))
        }
        Command::Engine(engine) if engine.large => {
            let options = engine.args.options();
            let large = Large { records: engine.records, memory_bytes: engine.memory, keep: engine.keep };
            measure(&engine.args, &options, (as_json, engine.keep), |each| {
                dolmen_bench::large(&options, &large, each)
            })
        }
        Command::Report(args) => report(args),
        Command::Object(args) => load::object(args),
        Command::Ior(args) => load::ior(args),
        Command::Mdtest(args) => load::mdtest(args),
        Command::Posix(args) => posix::posix(args),
        Command::Passthrough(args) => posix::passthrough(args),
        Command::Idle(args) => served::idle(args),
        Command::Disturbed(args) => served::disturbed(args),
        Command::Engine(engine) => {
            let options = engine.args.options();
            // Before anything is made ready for it.
            dolmen_bench::check_engine(&options).map_err(|error| failed(&error))?;
            measure(&engine.args, &options, (as_json, false), |each| dolmen_bench::engine(&options, each))
        }
        Command::Dfs(args) => {
            let options = args.options();
            dolmen_bench::check_dfs(&options).map_err(|error| failed(&error))?;
            measure(args, &options, (as_json, false), |each| dolmen_bench::dfs(&options, each))
        }
    }
}

/// Rows appear as they come, in the file of results and as text on standard output or, with `--json`, together at
/// the end.
fn measure(
    args: &Args,
    options: &Options,
    (as_json, keep): (bool, bool),
    work: impl FnOnce(&mut dyn FnMut(Row)) -> dolmen_bench::Result<()>,
) -> Outcome<Answer> {
    let missing: Vec<&PathBuf> =
        [&args.dir, &args.disk_dir].into_iter().filter(|dir| !dir.exists()).collect();
    for dir in [&args.dir, &args.disk_dir].into_iter().filter(|dir| dir.is_dir()) {
        ready(dir)?;
    }
    let mut rows = Vec::new();
    let mut results = match &args.out {
        Some(path) => Some(Results::append(path).map_err(|error| failed(&error))?),
        None => None,
    };
    let mut kept = Ok(());
    if !as_json {
        crate::output::print(format!("{HEADING}\n").as_bytes())?;
    }
    if !keep {
        let dirs = vec![options.dir.clone(), options.disk_dir.clone()];
        interrupt::before_end(move || clean_up(&dirs));
    }
    let mut each = |row: Row| {
        if !as_json {
            // Ignored: a reader that went away does not end a measurement.
            let _printed = crate::output::print(format!("{}\n", row.line()).as_bytes());
        }
        if let Some(results) = &mut results
            && kept.is_ok()
        {
            kept = results.add(&row);
        }
        rows.push(json!(row));
    };
    let result = ground(args, &mut each).and_then(|_held| work(&mut each));
    for dir in [&options.dir, &options.disk_dir].into_iter().chain(missing) {
        // Ignored: a directory of a scenario that failed may be looked at; others are empty or gone.
        let _removed = std::fs::remove_dir(dir);
    }
    result.and(kept).map_err(|error| failed(&error))?;
    Ok(Answer::new("", Value::Array(rows)))
}

/// What the directory of a measurement is called, with the number of its process behind.
const SCRATCH: &str = "dolmen-bench-";

/// Whether a directory is, by its name, one of a measurement.
pub(crate) fn is_scratch(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(SCRATCH)).is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// Sees that there is a directory for the stores of a measurement, without what is left of measurements that were killed.
fn ready(dir: &Path) -> Outcome<()> {
    if !dir.is_dir() {
        let failure = Failure::new(Exit::Missing, format!("there is no directory {}", shown_outside(dir)));
        return Err(failure.hint("make it first, or name another with --dir"));
    }
    // What cannot be listed has nothing that could be removed.
    let Ok(names) = dolmen_env::subdirectories(dir) else { return Ok(()) };
    for name in names {
        let left = dir.join(&name);
        let pid = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)).and_then(|pid| pid.parse().ok());
        // A store that was to be kept lies in one as well; a daemon that still runs removes its own.
        let is_left = pid.is_some_and(|pid| is_dead(pid) && !left.join(KEPT).exists() && !is_served(&left));
        if is_left {
            // Ignored: another user's.
            let _removed = std::fs::remove_dir_all(&left);
        }
    }
    Ok(())
}

/// What `--keep` leaves.
const KEPT: &str = "large";

/// Whether no process has this number.
fn is_dead(pid: i32) -> bool {
    pid > 0 && nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH)
}

/// Whether a daemon has the directory.
fn is_served(dir: &Path) -> bool {
    dir.join(".owner").exists() && dolmen_env::DirLock::acquire(dir).is_err()
}

/// Removes what a measurement has written, which another thread may still do, or the process that it has started.
fn clean_up(dirs: &[PathBuf]) {
    /// So often: each time it makes what a step of the measurement has made meanwhile.
    const ATTEMPTS: u32 = 100;
    dolmen_bench::stop_child();
    for _ in 0..ATTEMPTS {
        for dir in dirs {
            // Ignored: tried again, and then there is nobody to tell.
            let _removed = std::fs::remove_dir_all(dir);
        }
        if !dirs.iter().any(|dir| dir.exists()) {
            return;
        }
    }
}

/// Memory in the state in which it is measured.
fn ground(args: &Args, each: &mut dyn FnMut(Row)) -> dolmen_bench::Result<Option<HeldMemory>> {
    if args.quick || args.as_found {
        return Ok(None);
    }
    dolmen_bench::hold_memory(each).map(Some)
}

fn report(args: &ReportArgs) -> Outcome<Answer> {
    let mut files = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Exit::Other, format!("{}: {error}", shown_outside(path))))?;
        files.push((shown_outside(path), text));
    }
    let page =
        dolmen_bench::report(&args.commit, &files, args.png.as_deref()).map_err(|error| failed(&error))?;
    Ok(Answer::new(page.clone(), json!({ "page": page })))
}

fn failed(error: &Error) -> Failure {
    let exit = match error {
        Error::Scenario { .. } | Error::Process { .. } => Exit::Usage,
        Error::Wrong { .. } | Error::Differs(_) => Exit::Damaged,
        Error::Call { number, .. } => load::exit_of(*number),
        Error::Administer { code, .. } => code.and_then(Exit::from_number).unwrap_or(Exit::Other),
        Error::Device(_) | Error::System { .. } => Exit::Device,
        _ => Exit::Other,
    };
    Failure::new(exit, error.to_string())
}
