//! `dolmen bench idle` and `disturbed`: a daemon of the measurement's own, seen from outside.

use super::load::bar;
use crate::failure::Outcome;
use crate::interrupt;
use crate::output::Answer;
use crate::size::between;
use clap::{Args, ValueEnum};
use dolmen_bench::{Beside, DisturbedPlace, DisturbedRow, IdlePlace};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct IdleArgs {
    /// Directory for a pool and a daemon of one's own, in memory
    #[arg(long, default_value = "/dev/shm", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Targets of the pool
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = crate::size::count::<u16>(1, 1024))]
    targets: u16,
    /// What the pool may use
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = between(1 << 20, 1 << 50))]
    capacity: u64,
    /// Clients by shared memory, and as many over TCP, that stay connected
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = crate::size::count::<u32>(0, 10_000))]
    clients: u32,
    /// Values of 4 KiB that each client writes and reads before
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 2000)]
    values: u64,
    /// Seconds without a request before it is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = super::seconds)]
    settle: f64,
    /// Seconds for which it is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = super::seconds)]
    seconds: f64,
}

#[derive(Args, Debug)]
pub(crate) struct DisturbedArgs {
    /// Directory for a pool and a daemon of one's own, in memory
    #[arg(long, default_value = "/dev/shm", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// What the pool may use
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = between(1 << 20, 1 << 50))]
    capacity: u64,
    /// Seconds of each turn; turns alone and beside others alternate
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::seconds)]
    seconds: f64,
    /// Turns beside each
    #[arg(long, short = 'i', value_name = "COUNT", default_value_t = 5, value_parser = crate::size::count::<u32>(1, 10_000))]
    rounds: u32,
    /// Only beside these [default: all]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    beside: Vec<What>,
}

/// What goes on beside a client.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// A process that only computes: what the processors make of it
    Computing,
    /// Connections by all ways, opened and dropped, some in the midst of their greeting
    Connections,
    /// Bytes that are no frames, as fast as they go
    Malformed,
    /// 30 connections that ask for much and read a few bytes at a time
    SlowReaders,
}

impl What {
    fn beside(self) -> Beside {
        match self {
            Self::Computing => Beside::Computing,
            Self::Connections => Beside::Connections,
            Self::Malformed => Beside::Malformed,
            Self::SlowReaders => Beside::SlowReaders,
        }
    }
}

pub(crate) fn idle(args: &IdleArgs) -> Outcome<Answer> {
    let place = IdlePlace {
        dir: args.dir.clone(),
        targets: args.targets,
        capacity_bytes: args.capacity,
        clients: args.clients,
        values: args.values,
        settle_s: args.settle,
        seconds: args.seconds,
    };
    let idle = measured(&args.dir, |watch| dolmen_bench::idle(&place, watch))?;
    Ok(Answer::new(idle.text(), json!(idle)))
}

pub(crate) fn disturbed(args: &DisturbedArgs) -> Outcome<Answer> {
    let besides = args.beside.iter().map(|what| what.beside()).collect::<Vec<Beside>>();
    let place = DisturbedPlace {
        dir: args.dir.clone(),
        capacity_bytes: args.capacity,
        seconds: args.seconds,
        rounds: args.rounds,
        besides: if besides.is_empty() { Beside::ALL.to_vec() } else { besides },
    };
    let rows = measured(&args.dir, |watch| dolmen_bench::disturbed(&place, watch))?;
    Ok(Answer::new(DisturbedRow::text(&rows), json!({ "rows": rows })))
}

/// Measures, shows what is going on to who looks at a terminal, and leaves nothing if it is interrupted.
fn measured<T>(
    dir: &Path,
    measure: impl FnOnce(&mut dyn FnMut(&str)) -> dolmen_bench::Result<T>,
) -> Outcome<T> {
    // Ignored: then it has as many connections as it may.
    let _raised = dolmen_env::raise_descriptor_limit();
    super::ready(dir)?;
    let dirs = vec![dir.join(format!("{}{}", super::SCRATCH, std::process::id()))];
    interrupt::before_end(move || {
        dolmen_bench::stop_load();
        super::clean_up(&dirs);
    });
    let bar = bar();
    let mut watch = |what: &str| bar.set_message(what.to_owned());
    let measured = measure(&mut watch);
    bar.finish_and_clear();
    measured.map_err(|error| super::failed(&error))
}
