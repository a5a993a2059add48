//! `dolmen bench posix`: files of a directory by calls of the system, and the thinnest file system to hold a mount against.

use super::load::{PROCESSES_MAX, ROUNDS_DEFAULT, TRANSFER_BYTES_MAX, bar, refuse_if};
use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{self, Answer};
use crate::path::shown_outside;
use crate::size::between;
use clap::Args;
use dolmen_bench::{PosixLoad, PosixPlace};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Blocks with a mark of their place.
const BLOCK_BYTES: u64 = 4096;

#[derive(Args, Debug)]
pub(crate) struct PosixArgs {
    /// Directory to be measured: a mount, or any other; the load makes one in it and removes it
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Empty files of each process, in a directory of its own; 0 for none
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10_000, value_parser = crate::size::count::<u64>(0, 10_000_000))]
    count: u64,
    /// Bytes of a large file of each process; 0 for none
    #[arg(long, short = 'b', value_name = "SIZE", default_value = "256M", value_parser = between(0, 1 << 40))]
    file_size: u64,
    /// Bytes of each call that writes or reads it in order
    #[arg(long, short = 't', value_name = "SIZE", default_value = "1M", value_parser = between(BLOCK_BYTES, TRANSFER_BYTES_MAX))]
    transfer_size: u64,
    /// Blocks of 4 KiB of it that each process reads at random, one at a time and none twice [default: 20000, or all that it has]
    #[arg(long, short = 'r', value_name = "COUNT")]
    reads: Option<u64>,
    /// A process that serves the directory: its processor time is told (several may follow)
    #[arg(long = "serving-pid", value_name = "PID", value_parser = crate::size::count::<u32>(1, u64::from(u32::MAX)))]
    serving: Vec<u32>,
    /// Processes of the load
    #[arg(long, short = 'N', value_name = "COUNT", default_value_t = 1, value_parser = crate::size::count::<u32>(1, PROCESSES_MAX))]
    processes: u32,
    /// Repetitions; medians are told
    #[arg(long, short = 'i', value_name = "COUNT", default_value_t = ROUNDS_DEFAULT, value_parser = crate::size::count::<u32>(1, 10_000))]
    rounds: u32,
}

/// Reads at random, of a file that has so many blocks.
const READS_DEFAULT: u64 = 20_000;

#[derive(Args, Debug)]
pub(crate) struct PassthroughArgs {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Directory that shows it
    #[arg(value_name = "MOUNTPOINT", value_hint = clap::ValueHint::DirPath)]
    mount_point: PathBuf,
    /// Threads
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = crate::size::count::<u16>(1, 256))]
    threads: u16,
}

pub(crate) fn posix(args: &PosixArgs) -> Outcome<Answer> {
    let PosixArgs { file_size, transfer_size, .. } = *args;
    refuse_if(!transfer_size.is_multiple_of(BLOCK_BYTES), || {
        format!("a call of {transfer_size} bytes is no multiple of {BLOCK_BYTES}")
    })?;
    refuse_if(!file_size.is_multiple_of(transfer_size), || {
        format!("a file of {file_size} bytes is no multiple of a call of {transfer_size}")
    })?;
    refuse_if(file_size == 0 && args.count == 0, || {
        "without files there is nothing to be measured".to_owned()
    })?;
    let block_count = file_size / BLOCK_BYTES;
    refuse_if(args.reads.is_some_and(|reads| reads > block_count), || {
        format!(
            "a file of {file_size} bytes has {block_count} blocks of {BLOCK_BYTES}, and none is read twice"
        )
    })?;
    let dir = existing(&args.dir)?;
    let load = PosixLoad {
        dir: dir.clone(),
        file_bytes: file_size,
        transfer_bytes: transfer_size,
        count: args.count,
        read_count: args.reads.unwrap_or(READS_DEFAULT).min(block_count),
    };
    let place = PosixPlace {
        dir: dir.clone(),
        serving: args.serving.clone(),
        processes: args.processes,
        rounds: args.rounds,
    };
    let dirs = vec![dir.join(format!("{}{}", super::SCRATCH, std::process::id()))];
    interrupt::before_end(move || {
        dolmen_bench::stop_load();
        super::clean_up(&dirs);
    });
    let bar = bar();
    let mut watch = |phase: &str| bar.set_message(phase.to_owned());
    let figures = dolmen_bench::posix(&load, &place, &mut watch);
    bar.finish_and_clear();
    let figures = figures.map_err(|error| super::failed(&error))?;
    Ok(Answer::new(figures.text(), json!(figures)))
}

/// Serves until it is unmounted, or interrupted.
pub(crate) fn passthrough(args: &PassthroughArgs) -> Outcome<Answer> {
    let (dir, mount_point) = (existing(&args.dir)?, existing(&args.mount_point)?);
    let shown = mount_point.clone();
    interrupt::before_end(move || {
        // Ignored: it is not there yet, or was taken away.
        let _unmounted = dolmen_env::unmount(&shown, dolmen_env::InUse::Later);
    });
    let line = format!("{} shows {}\n", shown_outside(&mount_point), shown_outside(&dir));
    let mut ready = || {
        // Ignored: nobody has to hear it.
        let _printed = output::print(line.as_bytes());
    };
    let served = dolmen_bench::passthrough(&dir, &mount_point, usize::from(args.threads), &mut ready);
    served.map_err(|error| super::failed(&error))?;
    Ok(Answer::new("", json!({})))
}

/// A directory by its path without links.
fn existing(dir: &Path) -> Outcome<PathBuf> {
    let found = dir.canonicalize().map_err(|error| Failure::on_file(dir, &error))?;
    // Somebody else's mount has a name and tells nothing.
    if found.metadata().map_err(|error| Failure::on_file(dir, &error))?.is_dir() {
        return Ok(found);
    }
    Err(Failure::new(Exit::Usage, format!("{} is no directory", shown_outside(dir))).hint("name a directory"))
}
