//! Scenarios that run in a process of their own, which is killed while it writes.
//!
//! The child prints its rows as JSON lines and then, once all that it counts is acknowledged, how much that
//! was; it goes on writing other keys until it is killed.

use crate::error::{Error, Result};
use crate::meter::now;
use crate::points::Spec;
use crate::row::Row;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// A result.
    Row(Box<Row>),
    /// This many updates are acknowledged, in the order that both sides know.
    Done(u64),
}

/// Says a result to the parent.
pub(crate) fn say_row(row: Row) -> Result<()> {
    say(&Line::Row(Box::new(row)))
}

/// Says that everything is done, and how much that was.
pub(crate) fn say_done(count: u64) -> Result<()> {
    say(&Line::Done(count))
}

/// Writing until the kill comes ends by itself after so long, in case the parent is gone.
const ORPHAN_NS: u64 = 10_000_000_000;

/// Says that `count` updates are acknowledged, then goes on writing until the kill comes in the middle of it.
pub(crate) fn write_until_killed(count: u64, mut write: impl FnMut(u64) -> Result<()>) -> Result<()> {
    say_done(count)?;
    let start = now();
    for extra in 0.. {
        write(extra)?;
        if now() - start > ORPHAN_NS {
            break;
        }
    }
    Ok(())
}

/// Says a line to the parent.
fn say(line: &Line) -> Result<()> {
    let text = serde_json::to_string(line).expect("rows are plain data with text keys");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::system("write to the parent"))
}

/// Runs a scenario in a child that is killed, lets `verify` open what it left behind, given how many updates were
/// acknowledged, and removes the files, whatever came of it.
pub(crate) fn measure(
    scenario: &str,
    spec: &Spec,
    each: &mut dyn FnMut(Row),
    verify: impl FnOnce(u64, &mut dyn FnMut(Row)) -> Result<()>,
) -> Result<()> {
    clean(&spec.dir)?;
    let text = serde_json::to_string(spec).expect("plain data");
    let done = run_and_kill(scenario, &text, each);
    let verified = done.and_then(|updates| verify(updates, each));
    clean(&spec.dir)?;
    verified
}

/// Tells whoever watches what comes next and about how long it takes.
pub(crate) fn say_next(what: &str, seconds: f64) {
    eprintln!("# {what}: about {seconds:.0} s");
}

/// Runs a scenario in a child, hands on its rows, and kills it in the middle of its writes. Returns how many
/// updates were acknowledged.
pub(crate) fn run_and_kill(scenario: &str, spec: &str, each: &mut dyn FnMut(Row)) -> Result<u64> {
    let mut child = start(spec, scenario)?;
    let out = child.stdout.take();
    *running() = Some(child);
    let done = out.map_or(Ok(None), |out| listen(out, each));
    // Some more writes may come before the kill: that is what the scenario is for.
    let child = running().take();
    child.map_or(Ok(()), kill)?;
    done?.ok_or_else(|| Error::Child { scenario: scenario.to_owned() })
}

/// Guards the child that runs; taken alone.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Child>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill(mut child: Child) -> Result<()> {
    child.kill().map_err(Error::system("kill the child"))?;
    child.wait().map(|_status| ()).map_err(Error::system("wait for the child"))
}

/// Kills the process that a measurement has started, if one runs: for who ends the measurement where it stands.
pub fn stop_child() {
    let child = running().take();
    // Ignored: then it ends by itself, soon.
    let _killed = child.map_or(Ok(()), kill);
}

fn start(spec: &str, scenario: &str) -> Result<Child> {
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    Command::new(program)
        .args(["bench", "child", scenario, spec])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::system("start the child"))
}

fn listen(out: ChildStdout, each: &mut dyn FnMut(Row)) -> Result<Option<u64>> {
    for line in BufReader::new(out).lines() {
        let line = line.map_err(Error::system("read from the child"))?;
        match serde_json::from_str(&line) {
            Ok(Line::Row(row)) => each(*row),
            Ok(Line::Done(count)) => return Ok(Some(count)),
            Err(_not_ours) => eprintln!("{line}"),
        }
    }
    Ok(None)
}

/// An empty directory for a measurement.
pub(crate) fn fresh(dir: &Path) -> Result<()> {
    clean(dir)?;
    std::fs::create_dir_all(dir).map_err(Error::system("make a directory for the measurement"))
}

/// Removes what a measurement left in its directory.
pub(crate) fn clean(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::system("remove the files of the measurement")(error))
        }
        _ => Ok(()),
    }
}
