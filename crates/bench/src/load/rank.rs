//! One process of a load.
//!
//! Invariants: all processes go through the same phases in the same order.

use super::daos::{self, Connection, Files};
use super::options::{Load, Plan};
use super::talk::{Part, Said, Timed, Told};
use super::{ior, mdtest, object, posix};
use crate::error::{Error, Result};
use crate::meter::{Histogram, now};
use dolmen_env::process_cpu_ns;
use std::io::{BufRead, ErrorKind, Write};

/// The process that has started this one, at the other ends of two pipes.
pub(super) struct Parent;

/// What this process has done of a phase so far.
pub(super) struct Tally {
    op_count: u64,
    byte_count: u64,
    latencies: Histogram,
}

/// This process among the others, and what it has open.
pub(super) struct Team {
    pub(super) rank: u32,
    pub(super) processes: u32,
    pub(super) connection: Connection,
    pub(super) class: u32,
}

/// Does what a plan says. Whose parent is gone ends without a word: who has begun the load was told why, or has ended it.
pub(crate) fn run(spec: &str) -> Result<()> {
    let plan: Plan =
        serde_json::from_str(spec).map_err(|source| Error::Results { file: "a plan".to_owned(), source })?;
    let last = match work(&plan) {
        Ok(()) => Said::Over,
        Err(Error::Orphaned) => return Ok(()),
        Err(error) => Said::Failed(error.into()),
    };
    match Parent.say(&last) {
        Err(Error::Orphaned) => Ok(()),
        said => said,
    }
}

fn work(plan: &Plan) -> Result<()> {
    if let Load::Posix(load) = &plan.load {
        return (0..plan.rounds).try_for_each(|_| posix::round(load, plan.rank));
    }
    let (team, files) = join(plan)?;
    for _ in 0..plan.rounds {
        match (&plan.load, &files) {
            (Load::Object(load), _) => object::round(load, &team)?,
            (Load::Ior(load), files) => ior::round(load, &team, files.as_ref())?,
            (Load::Mdtest(load), Some(files)) => mdtest::round(load, &team, files)?,
            (Load::Mdtest(_), None) => unreachable!("whoever needs files has mounted them"),
            (Load::Posix(_), _) => unreachable!("it needs no connection"),
        }
    }
    files.map_or(Ok(()), Files::unmount)?;
    team.connection.close()
}

/// The first process connects; the others have what it has.
fn join(plan: &Plan) -> Result<(Team, Option<Files>)> {
    let class = plan.load.class().map_or(Ok(0), daos::class)?;
    let chunk_bytes = plan.load.chunk_bytes();
    let has_files = plan.load.has_files();
    let (connection, files) = if plan.rank == 0 {
        let connection = Connection::open(plan.system.as_deref(), &plan.pool, &plan.cont)?;
        let files = has_files.then(|| Files::mount(&connection)).transpose()?;
        Parent.say(&Said::Handles(connection.handles(files.as_ref())?))?;
        (connection, files)
    } else {
        let Told::Handles(handles) = Parent.hear()? else { return Err(out_of_order()) };
        let connection = Connection::of(&handles)?;
        let files = has_files.then(|| Files::of(&connection, &handles)).transpose()?;
        (connection, files)
    };
    let files = files.map(|files| files.laid_out(class, chunk_bytes));
    Ok((Team { rank: plan.rank, processes: plan.processes, connection, class }, files))
}

fn out_of_order() -> Error {
    Error::Child { scenario: "the load".to_owned() }
}

impl Team {
    pub(super) fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// The process so many further on, behind the last one the first.
    pub(super) fn next(&self, steps: u32) -> u32 {
        let sum = u64::from(self.rank) + u64::from(steps);
        u32::try_from(sum % u64::from(self.processes)).expect("less than there are processes")
    }

    /// A phase that is measured: begins when all processes are ready for it, and ends when all have done it.
    ///
    /// # Errors
    /// Those of the work; if the parent is gone.
    pub(super) fn phase(&self, name: &str, work: impl FnOnce(&mut Tally) -> Result<()>) -> Result<()> {
        phase(name, work)
    }

    /// A phase that makes something ready, or takes it away.
    ///
    /// # Errors
    /// As [`Team::phase`].
    pub(super) fn step(&self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        step(name, work)
    }
}

/// As [`Team::phase`].
pub(super) fn phase(name: &str, work: impl FnOnce(&mut Tally) -> Result<()>) -> Result<()> {
    run_phase(name, Timed::Yes, work)
}

/// As [`Team::step`].
pub(super) fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    run_phase(name, Timed::No, |_tally| work())
}

fn run_phase(name: &str, timed: Timed, work: impl FnOnce(&mut Tally) -> Result<()>) -> Result<()> {
    Parent.say(&Said::Ready(name.to_owned(), timed))?;
    let Told::Go(at_ns) = Parent.hear()? else { return Err(out_of_order()) };
    let mut tally = Tally { op_count: 0, byte_count: 0, latencies: Histogram::new() };
    while now() < at_ns {
        core::hint::spin_loop();
    }
    let (start_ns, start_cpu_ns) = (now(), process_cpu_ns());
    work(&mut tally)?;
    let (end_ns, cpu_ns) = (now(), process_cpu_ns() - start_cpu_ns);
    let Tally { op_count, byte_count, latencies } = tally;
    Parent.say(&Said::Done(Part { start_ns, end_ns, cpu_ns, op_count, byte_count, latencies }))
}

impl Tally {
    /// Runs and counts an operation with so many bytes.
    #[inline]
    pub(super) fn run<T>(&mut self, byte_count: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start_ns = now();
        let done = work()?;
        self.done(byte_count, now() - start_ns);
        Ok(done)
    }

    /// Counts an operation that took so long.
    #[inline]
    pub(super) fn done(&mut self, byte_count: u64, ns: u64) {
        self.op_count += 1;
        self.byte_count += byte_count;
        self.latencies.add(ns);
    }
}

impl Parent {
    fn say(&self, said: &Said) -> Result<()> {
        let text = serde_json::to_string(said).expect("plain data with text keys");
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|source| match source.kind() {
            ErrorKind::BrokenPipe => Error::Orphaned,
            _ => Error::system("write to the parent")(source),
        })
    }

    fn hear(&self) -> Result<Told> {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.map_err(Error::system("read from the parent"))? == 0 {
            return Err(Error::Orphaned);
        }
        serde_json::from_str(&line).map_err(|_end| out_of_order())
    }
}
