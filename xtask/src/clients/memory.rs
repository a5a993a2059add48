//! Memory in one state for all ways.
//!
//! In a virtual machine whose kernel reports free memory to its host a page that nobody touched for seconds costs the host's
//! work, ten times what it costs otherwise, and whoever comes upon it pays for that. `dolmen bench` touches most of the
//! memory first and keeps it from the host; the same child of it does so here, for all ways alike.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Memory that is kept from the host until this is dropped.
pub(crate) struct Held(Child);

/// Touches most of the memory that is available, by the program `dolmen`; takes a minute where the host has to find it.
pub(crate) fn hold(dolmen: &Path) -> Result<Held> {
    let mut command = Command::new(dolmen);
    command.args(["bench", "child", "memory", "{}"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut held = Held(command.spawn().with_context(|| format!("{command:?} cannot be started"))?);
    let out = held.0.stdout.take().context("it was asked for")?;
    let mut is_done = false;
    for line in BufReader::new(out).lines() {
        let line = line?;
        is_done = line.starts_with(DONE);
        if is_done {
            break;
        }
        eprintln!("{line}");
    }
    ensure!(is_done, "{command:?} does not hold memory");
    Ok(held)
}

/// How the line begins with which the child says that the memory is held.
const DONE: &str = "{\"Done\":";

impl Drop for Held {
    fn drop(&mut self) {
        // Ignored, both: one that has ended is what is wanted.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}
