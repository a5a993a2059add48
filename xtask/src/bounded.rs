//! A child process with a time limit, whose output goes to a file.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a child is asked whether it has ended: short beside any test, long beside the question.
const PERIOD: Duration = Duration::from_millis(50);

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// With status 0.
    Well,
    /// With another status or by a signal.
    Badly,
    /// It was killed at its limit.
    TooLate,
}

/// Runs a command for at most `limit`; stdout and stderr are appended to `log`.
pub(crate) fn run(command: &mut Command, limit: Duration, log: &Path) -> Result<End> {
    let output = File::options().create(true).append(true).open(log);
    let output = output.with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    // A group of its own, so that what the child has started ends with it.
    let mut child = command.process_group(0).spawn().context("cannot start the command")?;
    match wait(&mut child, limit)? {
        Some(status) => Ok(if status.success() { End::Well } else { End::Badly }),
        None => {
            kill_group(&child)?;
            let status = child.wait().context("cannot wait for the killed command")?;
            // It may have ended by itself between the last question and the kill.
            Ok(if status.signal().is_none() && status.success() { End::Well } else { End::TooLate })
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(PERIOD);
    }
}

fn kill_group(child: &Child) -> Result<()> {
    let group = format!("-{}", child.id());
    // The status does not matter: whoever is gone already cannot be killed.
    Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status()
        .context("cannot run kill")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (End, String) {
        let log = std::env::temp_dir().join(format!("bounded-{}-{}", std::process::id(), script.len()));
        let end = run(Command::new("sh").args(["-c", script]), limit, &log).expect("sh is there");
        let text = std::fs::read_to_string(&log).expect("written by the run");
        std::fs::remove_file(&log).expect("just read");
        (end, text)
    }

    #[test]
    fn an_end_is_told_by_its_status_and_the_output_kept() {
        assert_eq!(
            shell("echo out; echo err >&2", Duration::from_secs(60)),
            (End::Well, "out\nerr\n".into())
        );
        assert_eq!(shell("exit 3", Duration::from_secs(60)).0, End::Badly);
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_children() {
        let (end, text) = shell("echo begun; cat /dev/zero > /dev/null & wait", Duration::from_millis(200));
        assert_eq!((end, text.as_str()), (End::TooLate, "begun\n"));
    }
}
