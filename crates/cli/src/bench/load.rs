//! `dolmen bench object`, `ior` and `mdtest`: loads over the C interface, in several processes.

use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::Answer;
use crate::size::between;
use clap::{Args, ValueEnum};
use core::time::Duration;
use dolmen_bench::{Figures, IorLoad, Load, MdtestLoad, ObjectLoad, Place, ValueKind};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::PathBuf;

/// Repetitions, unless something is left behind for the next command.
pub(super) const ROUNDS_DEFAULT: u32 = 3;
/// Processes of a load: each has two pipes to the one that starts it.
pub(super) const PROCESSES_MAX: u64 = 256;
/// Buffers of what is under way in a process.
const IN_FLIGHT_BYTES_MAX: u64 = 4 << 30;
/// A buffer of each process.
pub(super) const TRANSFER_BYTES_MAX: u64 = 1 << 30;
/// How often somebody who looks sees that it goes on.
const TICK: Duration = Duration::from_millis(200);

/// Where, and how often.
#[derive(Args, Debug)]
struct PlaceArgs {
    /// The system, as for the C library [default: DOLMEN_SYSTEM, else a daemon of this measurement's own]
    #[arg(long, value_name = "SYSTEM")]
    system: Option<String>,
    /// A pool of the system [default: one that is made and removed]
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// A container of the pool [default: one that is made and removed]
    #[arg(long, value_name = "CONT", requires = "pool")]
    cont: Option<String>,
    /// The daemon's process, if it is on this machine: its processor time is told
    #[arg(long, value_name = "PID", value_parser = crate::size::count::<u32>(1, u64::from(u32::MAX)))]
    daemon_pid: Option<u32>,
    /// Directory for a pool and a daemon of one's own, in memory
    #[arg(long, default_value = "/dev/shm", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// What a pool that is made may use
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = between(1 << 20, 1 << 50))]
    capacity: u64,
    /// Targets of a pool of one's own
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = crate::size::count::<u16>(1, 1024))]
    targets: u16,
    /// Reach a daemon of one's own over TCP instead of shared memory
    #[arg(long, conflicts_with = "system")]
    tcp: bool,
    /// What a container that is made outlives
    #[arg(long, value_enum, default_value_t = Outlives::Process)]
    durability: Outlives,
    /// Processes of the load
    #[arg(long, short = 'N', value_name = "COUNT", default_value_t = 1, value_parser = crate::size::count::<u32>(1, PROCESSES_MAX))]
    processes: u32,
    /// Repetitions; medians are told [default: 3, or 1 if a phase is left out or something kept]
    #[arg(long, short = 'i', value_name = "COUNT", value_parser = crate::size::count::<u32>(1, 10_000))]
    rounds: Option<u32>,
}

/// What data outlive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Outlives {
    /// The death of the daemon
    Process,
    /// Loss of power
    Power,
}

/// What is compared, with what, and what is left.
#[derive(Args, Debug)]
struct DataArgs {
    /// What tells the data of one load from those of others, for a load that reads what another has kept
    #[arg(long, short = 'G', value_name = "NUMBER", default_value_t = 0)]
    signature: u64,
    /// Object class, such as S1 or SX [default: what the container says]
    #[arg(long, value_name = "CLASS")]
    oclass: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Bytes of a value
    #[arg(long, short = 's', value_name = "SIZE", default_value = "4096", value_parser = between(1, TRANSFER_BYTES_MAX))]
    size: u64,
    /// Values of each process, each under a dkey of its own
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50_000, value_parser = crate::size::count::<u64>(1, u64::MAX))]
    count: u64,
    /// Operations under way on one event queue; with 1 each call returns when it is done
    #[arg(long, short = 'q', value_name = "COUNT", default_value_t = 1, value_parser = crate::size::count::<u16>(1, 4096))]
    in_flight: u16,
    /// What a key holds
    #[arg(long, value_enum, default_value_t = Kind::Single)]
    kind: Kind,
    /// Update
    #[arg(long, short = 'w')]
    update: bool,
    /// Fetch [default: both]
    #[arg(long, short = 'r')]
    fetch: bool,
    /// Compare what is fetched, within that phase
    #[arg(long, short = 'R')]
    check: bool,
    /// Leave the values
    #[arg(long, short = 'k', requires = "cont")]
    keep: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// One value that is replaced as a whole
    Single,
    /// An array of bytes
    Array,
}

#[derive(Args, Debug)]
pub(crate) struct IorArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Bytes that follow each other for a process [default: 256M, or a transfer with --hard]
    #[arg(long, short = 'b', value_name = "SIZE", value_parser = between(8, 1 << 50))]
    block_size: Option<u64>,
    /// Bytes of a call [default: 1M, or 47008 with --hard]
    #[arg(long, short = 't', value_name = "SIZE", value_parser = between(8, TRANSFER_BYTES_MAX))]
    transfer_size: Option<u64>,
    /// Rows of blocks: a block of each process, then the next of each [default: 1, or 4000 with --hard]
    #[arg(long, short = 's', value_name = "COUNT", value_parser = crate::size::count::<u64>(1, 1 << 32))]
    segments: Option<u64>,
    /// 1 MiB transfers, a file for each process, read by another: as IO500 has it
    #[arg(long, conflicts_with = "hard")]
    easy: bool,
    /// 47008 B transfers in one file of all, read by another: as IO500 has it
    #[arg(long)]
    hard: bool,
    /// A file for each process
    #[arg(long, short = 'F', conflicts_with = "hard")]
    file_per_process: bool,
    /// Write
    #[arg(long, short = 'w')]
    write: bool,
    /// Read [default: both]
    #[arg(long, short = 'r')]
    read: bool,
    /// Read back and compare what was written, in a phase of its own
    #[arg(long, short = 'W')]
    check_write: bool,
    /// Compare what is read, within that phase
    #[arg(long, short = 'R')]
    check_read: bool,
    /// Read what the next process has written
    #[arg(long, short = 'C')]
    reorder: bool,
    /// Transfers in an order that looks random
    #[arg(long, short = 'z')]
    random: bool,
    /// Leave the files
    #[arg(long, short = 'k', requires = "cont")]
    keep: bool,
    /// What holds the data
    #[arg(long, short = 'a', value_enum, ignore_case = true, default_value_t = Api::Dfs)]
    api: Api,
    /// Name of the file, in the container's root
    #[arg(long, short = 'o', value_name = "NAME", default_value = "ior", value_parser = file_name)]
    file: String,
    /// Bytes of a chunk of a file; 0 for what the container says
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = between(0, 1 << 32))]
    chunk_size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Api {
    /// Files, by dfs_write and dfs_read
    Dfs,
    /// Arrays of bytes, by daos_array_write and daos_array_read
    Array,
}

#[derive(Args, Debug)]
pub(crate) struct MdtestArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Files, and directories, of each process
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 3000, value_parser = crate::size::count::<u64>(1, u64::MAX))]
    count: u64,
    /// Empty files in a directory for each process: as IO500 has it
    #[arg(long, conflicts_with = "hard")]
    easy: bool,
    /// Files of 3901 B in one directory of all: as IO500 has it
    #[arg(long, conflicts_with_all = ["unique_dir", "write_bytes", "read_bytes"])]
    hard: bool,
    /// Only files
    #[arg(long, short = 'F')]
    files_only: bool,
    /// Only directories
    #[arg(long, short = 'D', conflicts_with_all = ["files_only", "easy", "hard"])]
    dirs_only: bool,
    /// A directory for each process
    #[arg(long, short = 'u')]
    unique_dir: bool,
    /// Bytes written to each new file
    #[arg(long, short = 'w', value_name = "SIZE", default_value = "0", value_parser = between(0, TRANSFER_BYTES_MAX))]
    write_bytes: u64,
    /// Bytes read of each file
    #[arg(long, short = 'e', value_name = "SIZE", default_value = "0", value_parser = between(0, TRANSFER_BYTES_MAX))]
    read_bytes: u64,
    /// Create
    #[arg(long, short = 'C')]
    create: bool,
    /// Stat
    #[arg(long, short = 'T')]
    stat: bool,
    /// Read
    #[arg(long, short = 'E')]
    read: bool,
    /// Remove [default: all four]
    #[arg(long, short = 'r')]
    remove: bool,
    /// Look at and read what the process so many further on has made
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    stride: u32,
    /// Read back and compare each file that was written, within that phase
    #[arg(long, short = 'x')]
    check_write: bool,
    /// Compare what is read, within that phase
    #[arg(long, short = 'X')]
    check_read: bool,
    /// Name of the directory, in the container's root
    #[arg(long, short = 'd', value_name = "NAME", default_value = "mdtest", value_parser = file_name)]
    dir_name: String,
    /// Bytes of a chunk of a file; 0 for what the container says
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = between(0, 1 << 32))]
    chunk_size: u64,
}

/// A name in a directory.
fn file_name(text: &str) -> Result<String, String> {
    /// With room for the number of a process.
    const BYTES_MAX: usize = 200;
    let is_name = (1..=BYTES_MAX).contains(&text.len()) && !matches!(text, "." | "..") && !text.contains('/');
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no name of a file"))
}

pub(crate) fn object(args: &ObjectArgs) -> Outcome<Answer> {
    let (size, in_flight) = (args.size, args.in_flight);
    refuse_if(size.saturating_mul(u64::from(in_flight)) > IN_FLIGHT_BYTES_MAX, || {
        format!("{in_flight} values of {size} bytes at a time are too much memory")
    })?;
    let both = !args.update && !args.fetch;
    let load = ObjectLoad {
        value_bytes: args.size,
        count: args.count,
        in_flight: args.in_flight,
        kind: match args.kind {
            Kind::Single => ValueKind::Single,
            Kind::Array => ValueKind::Array,
        },
        class: args.data.oclass.clone(),
        update: both || args.update,
        fetch: both || args.fetch,
        check: args.check,
        keep: args.keep,
        signature: args.data.signature,
    };
    let is_whole = load.update && load.fetch && !load.keep;
    let needs = load.fetch && !load.update;
    run(&args.place, &Load::Object(load), is_whole, needs)
}

pub(crate) fn ior(args: &IorArgs) -> Outcome<Answer> {
    let (transfer, segments) = if args.hard { (HARD_TRANSFER_BYTES, 4000) } else { (1 << 20, 1) };
    let transfer_bytes = args.transfer_size.unwrap_or(transfer);
    let block = if args.hard { transfer_bytes } else { 256 << 20 };
    let both = !args.write && !args.read;
    let load = IorLoad {
        transfer_bytes,
        block_bytes: args.block_size.unwrap_or(block),
        segments: args.segments.unwrap_or(segments),
        file_per_process: args.file_per_process || args.easy,
        write: both || args.write,
        read: both || args.read,
        check_write: args.check_write,
        check_read: args.check_read,
        reorder: args.reorder || args.easy || args.hard,
        random: args.random,
        keep: args.keep,
        signature: args.data.signature,
        arrays: args.api == Api::Array,
        file: args.file.clone(),
        class: args.data.oclass.clone(),
        chunk_bytes: args.chunk_size,
    };
    check_ior(&load, args.place.processes)?;
    let is_whole = load.write && load.read && !load.keep;
    let needs = load.read && !load.write;
    run(&args.place, &Load::Ior(load), is_whole, needs)
}

/// Transfers of the hard half of IO500.
const HARD_TRANSFER_BYTES: u64 = 47_008;

/// What IOR refuses as well.
fn check_ior(load: &IorLoad, processes: u32) -> Outcome<()> {
    let IorLoad { transfer_bytes, block_bytes, segments, .. } = *load;
    refuse_if(!transfer_bytes.is_multiple_of(8), || {
        format!("a transfer of {transfer_bytes} bytes is no multiple of 8")
    })?;
    refuse_if(!block_bytes.is_multiple_of(transfer_bytes), || {
        format!("a block of {block_bytes} bytes is no multiple of a transfer of {transfer_bytes}")
    })?;
    let all = block_bytes.checked_mul(segments).and_then(|bytes| bytes.checked_mul(u64::from(processes)));
    let is_possible = all.is_some_and(|bytes| bytes / transfer_bytes <= TRANSFERS_MAX && bytes < 1 << 60);
    refuse_if(!is_possible, || {
        format!("{segments} segments of {block_bytes} bytes in {processes} processes are too much")
    })
}

/// Transfers of a load: their order is kept in memory.
const TRANSFERS_MAX: u64 = 1 << 24;

/// Says what is wrong with the command line, if something is.
pub(super) fn refuse_if(is_wrong: bool, why: impl FnOnce() -> String) -> Outcome<()> {
    if is_wrong { Err(Failure::new(Exit::Usage, why()).hint("see --help")) } else { Ok(()) }
}

pub(crate) fn mdtest(args: &MdtestArgs) -> Outcome<Answer> {
    let all = !args.create && !args.stat && !args.read && !args.remove;
    let preset = args.easy || args.hard;
    let (write_bytes, read_bytes) =
        if args.hard { (HARD_FILE_BYTES, HARD_FILE_BYTES) } else { (args.write_bytes, args.read_bytes) };
    let load = MdtestLoad {
        count: args.count,
        files: !args.dirs_only,
        dirs: !args.files_only && !preset,
        unique: args.unique_dir || args.easy,
        write_bytes,
        read_bytes,
        create: all || args.create,
        stat: all || args.stat,
        read: all || args.read,
        remove: all || args.remove,
        stride: if preset && args.stride == 0 { 1 } else { args.stride },
        check_write: args.check_write,
        check_read: args.check_read,
        signature: args.data.signature,
        dir: args.dir_name.clone(),
        class: args.data.oclass.clone(),
        chunk_bytes: args.chunk_size,
    };
    let MdtestLoad { read_bytes, write_bytes, .. } = load;
    refuse_if(read_bytes > write_bytes && load.create, || {
        format!("{read_bytes} bytes cannot be read of files of {write_bytes}")
    })?;
    let is_whole = load.create && load.remove;
    refuse_if(!is_whole && args.place.cont.is_none(), || {
        "without -C and -r a --cont is needed that has or keeps the files".to_owned()
    })?;
    run(&args.place, &Load::Mdtest(load), is_whole, false)
}

/// Files of the hard half of IO500.
const HARD_FILE_BYTES: u64 = 3901;

/// Runs a load, with `is_whole` if it finds and leaves nothing.
fn run(args: &PlaceArgs, load: &Load, is_whole: bool, needs_data: bool) -> Outcome<Answer> {
    refuse_if(needs_data && args.cont.is_none(), || {
        "to read only, a --cont is needed that has the data".to_owned()
    })?;
    let place = place(args, is_whole)?;
    if place.system.is_none() {
        super::ready(&place.dir)?;
    }
    let dirs = vec![place.dir.join(format!("{}{}", super::SCRATCH, std::process::id()))];
    interrupt::before_end(move || {
        dolmen_bench::stop_load();
        dolmen_bench::clear_load();
        super::clean_up(&dirs);
    });
    let bar = bar();
    let mut watch = |phase: &str| bar.set_message(phase.to_owned());
    let figures = dolmen_bench::load(load, &place, &mut watch);
    bar.finish_and_clear();
    let figures: Figures = figures.map_err(|error| super::failed(&error))?;
    Ok(Answer::new(figures.text(), json!(figures)))
}

fn place(args: &PlaceArgs, is_whole: bool) -> Outcome<Place> {
    let set = || std::env::var("DOLMEN_SYSTEM").ok().filter(|name| !name.is_empty() && !args.tcp);
    let system = args.system.clone().or_else(set);
    refuse_if(system.is_none() && args.pool.is_some(), || {
        "a --pool needs the --system that has it".to_owned()
    })?;
    Ok(Place {
        system,
        pool: args.pool.clone(),
        cont: args.cont.clone(),
        daemon_pid: args.daemon_pid,
        dir: args.dir.clone(),
        capacity_bytes: args.capacity,
        targets: args.targets,
        over_tcp: args.tcp,
        outlives_power: args.durability == Outlives::Power,
        processes: args.processes,
        rounds: args.rounds.unwrap_or(if is_whole { ROUNDS_DEFAULT } else { 1 }),
    })
}

/// Shows the phase to who looks at a terminal.
pub(super) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("a fixed template");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

/// The exit code of a function of the C interface that failed, as other commands have it: with a number of the system's, or
/// a negative one of DAOS.
//= daos:src/include/daos_errno.h DER_*
pub(super) fn exit_of(number: i32) -> Exit {
    match number {
        2 | -1005 | -2011 | -2050 => Exit::Missing,
        17 | 39 | -1004 => Exit::Taken,
        16 | -1012 | -2018 | -2025 | 113 | -1006 => Exit::InUse,
        28 | -1007 => Exit::Full,
        -2021 => Exit::Damaged,
        1 | 13 | 30 | -1001 => Exit::Refused,
        22 | -1003 => Exit::Usage,
        5 | -2001 | -2010 => Exit::Device,
        _ => Exit::Other,
    }
}
