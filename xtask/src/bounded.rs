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
    /// It was killed because it had said enough.
    Told,
}

/// Runs a command for at most `limit`; stdout and stderr are appended to `log`.
pub(crate) fn run(command: &mut Command, limit: Duration, log: &Path) -> Result<End> {
    run_until(command, limit, log, None)
}

/// The same; once a line that ends with `told` appears in the log, the rest does not matter.
pub(crate) fn run_until(
    command: &mut Command,
    limit: Duration,
    log: &Path,
    told: Option<&str>,
) -> Result<End> {
    let output = File::options().create(true).append(true).open(log);
    let output = output.with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    // A group of its own, so that what the child has started ends with it.
    let before = std::fs::metadata(log).with_context(|| format!("cannot read {}", log.display()))?.len();
    let mut child = command.process_group(0).spawn().context("cannot start the command")?;
    let has_told = || told.is_some_and(|told| says(log, before, told));
    let ended = wait(&mut child, limit, has_told)?;
    if let Some(status) = ended {
        return Ok(if status.success() { End::Well } else { End::Badly });
    }
    kill_group(&child)?;
    let status = child.wait().context("cannot wait for the killed command")?;
    // It may have ended by itself between the last question and the kill.
    if status.signal().is_none() && status.success() {
        return Ok(End::Well);
    }
    Ok(if has_told() { End::Told } else { End::TooLate })
}

/// Whether a line of the log behind `before` ends with this; a log that cannot be read says nothing.
fn says(log: &Path, before: u64, told: &str) -> bool {
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    std::fs::read(log).is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(bytes.get(before..).unwrap_or(&[]));
        text.lines().any(|line| line.ends_with(told))
    })
}

/// Waits until the child ends, has said enough, or its time is over; its status in the first case.
pub(crate) fn wait(
    child: &mut Child,
    limit: Duration,
    has_told: impl Fn() -> bool,
) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit || has_told() {
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
    fn what_has_said_enough_is_not_waited_for() {
        let log = std::env::temp_dir().join(format!("bounded-told-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo test a ... FAILED; cat /dev/zero > /dev/null"]);
        let end = run_until(&mut command, Duration::from_secs(60), &log, Some("... FAILED"));
        std::fs::remove_file(&log).expect("just written");
        assert_eq!(end.expect("sh is there"), End::Told);
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_children() {
        let (end, text) = shell("echo begun; cat /dev/zero > /dev/null & wait", Duration::from_millis(200));
        assert_eq!((end, text.as_str()), (End::TooLate, "begun\n"));
    }
}
