//! The processes of a load, started, led through the phases and ended by the one that tells the figures.

use super::daos;
use super::figures::{PhaseRound, Rounds};
use super::options::{Load, Plan};
use super::talk::{Part, Said, Timed, Told};
use crate::error::{Error, Result};
use crate::meter::now;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// From when all processes are ready to when they begin: as long as it takes to tell each of them.
const AHEAD_NS: u64 = 200_000;

/// Guards: processes that this one has started, the daemon first; taken alone.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<Child>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a process among those that end with the measurement.
pub(super) fn keep(child: Child) {
    started().push(child);
}

/// Kills the processes that a load has started: at its end, and for who ends it where it stands.
pub fn stop_load() {
    let children = core::mem::take(&mut *started());
    for mut child in children.into_iter().rev() {
        // Ignored: it has ended by itself.
        let _killed = child.kill();
        // Ignored: as above.
        let _ended = child.wait();
    }
}

/// Waits for the processes of a load whose phases are over: they have something left to tell.
pub(super) fn end_load() {
    for mut child in core::mem::take(&mut *started()) {
        // Ignored: there is nobody to wait for.
        let _ended = child.wait();
    }
}

/// A process of the load, at the other ends of two pipes.
struct Member {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Runs a load that the processes `serving` serve; `watch` hears of each phase before it begins.
///
/// # Errors
/// Those of the processes; if one ends early.
pub(super) fn run(plan: &Plan, serving: &[u32], watch: &mut dyn FnMut(&str)) -> Result<Rounds> {
    let sum_ns = || serving.iter().map(|pid| daos::process_cpu_ns(*pid)).sum::<Result<u64>>();
    let cpu_ns = || (!serving.is_empty()).then(sum_ns).transpose();
    // Who is not there is told before anything is started.
    cpu_ns()?;
    let mut crew = start(plan)?;
    let mut rounds = Rounds::default();
    if !matches!(plan.load, Load::Posix(_)) {
        share_handles(&mut crew)?;
    }
    while let Some((phase, timed)) = all_ready(&mut crew)? {
        watch(&phase);
        let cpu_before_ns = cpu_ns()?;
        let begin_ns = now() + AHEAD_NS;
        for member in &mut crew {
            tell(member, &Told::Go(begin_ns))?;
        }
        let parts = crew.iter_mut().map(part).collect::<Result<Vec<Part>>>()?;
        let cpu_after_ns = cpu_ns()?;
        if timed == Timed::Yes {
            let daemon_cpu_ns = cpu_before_ns.zip(cpu_after_ns).map(|(from, to)| to.saturating_sub(from));
            rounds.add(&phase, PhaseRound::of(&parts, daemon_cpu_ns));
        }
    }
    Ok(rounds)
}

/// Gives the handles of the first process to the others.
fn share_handles(crew: &mut [Member]) -> Result<()> {
    let handles = match hear(&mut crew[0])? {
        Said::Handles(handles) => handles,
        other => return Err(unexpected(other)),
    };
    crew.iter_mut().skip(1).try_for_each(|member| tell(member, &Told::Handles(handles.clone())))
}

fn start(plan: &Plan) -> Result<Vec<Member>> {
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    (0..plan.processes)
        .map(|rank| {
            let spec = serde_json::to_string(&Plan { rank, ..plan.clone() }).expect("plain data");
            let mut child = Command::new(&program)
                .args(["bench", "child", super::SCENARIO, &spec])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(Error::system("start a process of the load"))?;
            let (to, from) = (child.stdin.take(), child.stdout.take());
            keep(child);
            let (to, from) = to.zip(from).expect("both are pipes");
            Ok(Member { to, from: BufReader::new(from) })
        })
        .collect()
}

/// The phase that all processes are ready for; `None` if all are over.
fn all_ready(crew: &mut [Member]) -> Result<Option<(String, Timed)>> {
    let mut next: Option<Option<(String, Timed)>> = None;
    for member in crew {
        let ready = match hear(member)? {
            Said::Ready(phase, timed) => Some((phase, timed)),
            Said::Over => None,
            other => return Err(unexpected(other)),
        };
        let same = next.get_or_insert_with(|| ready.clone());
        assert_eq!(*same, ready, "all processes go through the same phases");
    }
    Ok(next.flatten())
}

fn part(member: &mut Member) -> Result<Part> {
    match hear(member)? {
        Said::Done(part) => Ok(part),
        other => Err(unexpected(other)),
    }
}

fn unexpected(said: Said) -> Error {
    match said {
        Said::Failed(fault) => fault.into(),
        _ => Error::Child { scenario: super::SCENARIO.to_owned() },
    }
}

fn hear(member: &mut Member) -> Result<Said> {
    let mut line = String::new();
    member.from.read_line(&mut line).map_err(Error::system("read from a process of the load"))?;
    serde_json::from_str(&line).map_err(|_end| Error::Child { scenario: super::SCENARIO.to_owned() })
}

fn tell(member: &mut Member, told: &Told) -> Result<()> {
    let text = serde_json::to_string(told).expect("plain data");
    let said = writeln!(member.to, "{text}").and_then(|()| member.to.flush());
    said.map_err(Error::system("write to a process of the load"))
}
