//! `cargo xtask test`: all tests, none of which can hold up the run.
//!
//! Cargo is told to start each test program through this one (`cargo xtask tested PROGRAM ARGUMENTS...`), which kills what says
//! nothing for too long, shows where it hung, and runs each test that failed or did not end once more by itself. A test that
//! passes then is unsteady: the run goes on, but names it at its end, since it is a fault of the test or of what it tests.
//!
//! What the machine lets tests do, above all mounting file systems, is required of them ([`machine`]). What could not be tested
//! is named at the end.

use crate::machine;
use crate::source;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a test program may say nothing: the slowest single test takes two minutes on two busy processors.
const SILENCE_MAX: Duration = Duration::from_secs(420);

/// How long a test program may take in all, which is five times what the slowest takes: a test that ends late again and again
/// must not use up the time of all others.
const TIME_MAX: Duration = Duration::from_secs(1800);

/// How many tests of one program are run once more: where more fail, something is broken.
const REPEATED_COUNT_MAX: usize = 4;

/// How often a program is looked at: short beside any test, long beside the look.
const PERIOD: Duration = Duration::from_millis(50);

/// Where the names of unsteady tests are collected, from the programs of one run.
const UNSTEADY: &str = "unsteady-tests.txt";

/// Variable that says which file that is.
const UNSTEADY_VARIABLE: &str = "DOLMEN_UNSTEADY_TESTS";

/// Where tests say what they could not test, and the variable that says where that is.
const UNTESTED: &str = "untested.txt";
const UNTESTED_VARIABLE: &str = "DOLMEN_UNTESTED";

/// Runs `cargo test --workspace` with these arguments; `false` if a test failed twice.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let folder = own.parent().context("a program lies in a folder")?;
    let [unsteady, untested] = [UNSTEADY, UNTESTED].map(|name| folder.join(name));
    for list in [&unsteady, &untested] {
        File::create(list).with_context(|| format!("cannot write {}", list.display()))?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--workspace", "--no-fail-fast"]).args(arguments).current_dir(source::root()?);
    cargo.env(runner_variable()?, format!("{} tested", own.display()));
    cargo.env(UNSTEADY_VARIABLE, &unsteady).env(UNTESTED_VARIABLE, &untested);
    for ability in machine::abilities(folder)? {
        println!("{}: {}", ability.what, if ability.is_there { "yes, so it is required" } else { "no" });
        if ability.is_there {
            cargo.env(ability.variable, "required");
        }
    }
    let status = cargo.status().context("cannot run cargo")?;
    let names = std::fs::read_to_string(&unsteady).context("cannot read the unsteady tests")?;
    if names.is_empty() {
        println!("no test was unsteady");
    } else {
        println!("unsteady, to be mended (failed once, passed when run by itself):\n{names}");
    }
    let lines = std::fs::read_to_string(&untested).context("cannot read what was not tested")?;
    print!("{}", summary(&lines));
    Ok(status.success())
}

/// What is said at the end of what was not tested, each reason once.
fn summary(lines: &str) -> String {
    let lines: BTreeSet<&str> = lines.lines().collect();
    if lines.is_empty() {
        return "no test was left out for want of what it takes\n".to_owned();
    }
    let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("NOT TESTED on this machine, {} in all, although they are told as `ok`:\n{all}", lines.len())
}

/// The variable by which Cargo is told what to start this machine's programs with.
fn runner_variable() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let name: String =
        host.chars().map(|letter| if letter == '-' { '_' } else { letter.to_ascii_uppercase() }).collect();
    Ok(format!("CARGO_TARGET_{name}_RUNNER"))
}

/// Runs one test program, as Cargo asks for; `false` if a test failed twice.
pub(crate) fn run_program(arguments: &[&str]) -> Result<bool> {
    let [program, arguments @ ..] = arguments else {
        anyhow::bail!("usage: cargo xtask tested PROGRAM [ARGUMENTS...]");
    };
    let first = watch(program, arguments)?;
    if first.passed {
        return Ok(true);
    }
    let again = first.to_repeat(program, arguments)?;
    if again.is_empty() || again.len() > REPEATED_COUNT_MAX {
        return Ok(false);
    }
    println!("== once more, by themselves: {}", again.iter().cloned().collect::<Vec<_>>().join(" "));
    let mut alone = vec!["--exact", "--test-threads=1"];
    alone.extend(again.iter().map(String::as_str));
    let second = watch(program, &alone)?;
    if second.passed {
        note_unsteady(program, &again)?;
    }
    Ok(second.passed)
}

/// What a program has said until it ended.
struct Watched {
    passed: bool,
    /// Whether it was killed.
    hung: bool,
    text: String,
}

impl Watched {
    /// The tests that failed, and of a program that was killed also those that had not ended.
    fn to_repeat(&self, program: &str, arguments: &[&str]) -> Result<BTreeSet<String>> {
        let mut again: BTreeSet<String> = ended(&self.text, "FAILED").collect();
        if self.hung {
            let list = Command::new(program).args(arguments).args(["--list", "--format", "terse"]).output();
            let list = list.with_context(|| format!("cannot list the tests of {program}"))?;
            let list = String::from_utf8_lossy(&list.stdout).into_owned();
            let done: BTreeSet<String> =
                ended(&self.text, "ok").chain(ended(&self.text, "ignored")).collect();
            let all = list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
            again.extend(all.filter(|name| !done.contains(name)));
        }
        Ok(again)
    }
}

/// The tests of which a line tells that they ended like this.
fn ended<'a>(text: &'a str, how: &'a str) -> impl Iterator<Item = String> + 'a {
    text.lines().filter_map(move |line| {
        // What a test has started may have begun the line, such as a row of dots.
        let line = line.trim_start_matches(|char: char| !char.is_alphanumeric());
        let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        (end.trim_end() == how).then(|| name.to_owned())
    })
}

/// Runs a program until it ends or hangs, and passes on what it says.
fn watch(program: &str, arguments: &[&str]) -> Result<Watched> {
    let log = std::env::temp_dir().join(format!("dolmen-tested-{}", std::process::id()));
    // A file and no pipe: what the tests have started may hold it open for longer than they run.
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut said = File::open(&log).with_context(|| format!("cannot read {}", log.display()))?;
    std::fs::remove_file(&log).with_context(|| format!("cannot remove {}", log.display()))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_remove(runner_variable()?)
        .stdout(Stdio::from(output))
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let mut bytes = Vec::new();
    let status = follow(&mut child, &mut said, &mut bytes)?;
    if status.is_none() {
        println!("== {program} hangs; its threads:\n{}", threads_of_group(child.id()));
        abort_mounts()?;
        kill(&mut child)?;
    }
    pass_on(&mut said, &mut bytes)?;
    Ok(Watched {
        passed: status.is_some_and(|status| status.success()),
        hung: status.is_none(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Passes on what a program says until it ends; `None` if it says nothing, or goes on, for too long.
fn follow(child: &mut Child, said: &mut File, bytes: &mut Vec<u8>) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut last = start;
    loop {
        let status = child.try_wait().context("cannot wait for a test program")?;
        if pass_on(said, bytes)? {
            last = Instant::now();
        }
        if status.is_some() {
            return Ok(status);
        }
        if last.elapsed() > SILENCE_MAX || start.elapsed() > TIME_MAX {
            return Ok(None);
        }
        std::thread::sleep(PERIOD);
    }
}

/// Prints what is new in the file; whether anything was.
fn pass_on(said: &mut File, bytes: &mut Vec<u8>) -> Result<bool> {
    let before = bytes.len();
    said.read_to_end(bytes).context("cannot read what a test program says")?;
    let mut out = std::io::stdout().lock();
    out.write_all(&bytes[before..]).context("cannot print")?;
    out.flush().context("cannot print")?;
    Ok(bytes.len() > before)
}

/// Where each thread of the processes of a group is, as far as the system tells.
fn threads_of_group(group: u32) -> String {
    let mut lines = String::new();
    for process in numbered(Path::new("/proc")) {
        let Some(own) = stat_field(&process, 2) else { continue };
        if own != group.to_string() {
            continue;
        }
        let command = said(&process.join("cmdline")).replace('\0', " ");
        lines += &format!("{} {command}\n", process.display());
        for thread in numbered(&process.join("task")) {
            let Some(state) = stat_field(&thread, 0) else { continue };
            let name = said(&thread.join("comm"));
            lines += &format!("  {} {state} {}\n", name.trim(), said(&thread.join("wchan")));
            for line in said(&thread.join("stack")).lines() {
                lines += &format!("      {line}\n");
            }
        }
    }
    lines
}

/// What the system says in a file, or why it does not.
fn said(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
}

/// The entries of a folder of `/proc` that are numbers.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_number =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    entries.map(|entry| entry.path()).filter(is_number).collect()
}

/// A field of `stat` behind the name: 0 the state, 2 the process group.
fn stat_field(process: &Path, index: usize) -> Option<String> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    fields.split(' ').nth(index).map(str::to_owned)
}

/// Aborts the connections of Dolmen's mounts on directories that tests make: who waits in one for a server that hangs cannot be killed.
fn abort_mounts() -> Result<()> {
    let made_by_tests = [std::env::temp_dir(), source::target_directory(&source::root()?)];
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    for line in mounts.lines().filter(|line| line.contains(" - fuse.dolmen ")) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, _, device, _, directory, ..] = fields.as_slice() else { continue };
        if !made_by_tests.iter().any(|made| Path::new(directory).starts_with(made)) {
            continue;
        }
        let Some((_, number)) = device.split_once(':') else { continue };
        let abort = Path::new("/sys/fs/fuse/connections").join(number).join("abort");
        match std::fs::write(&abort, "1") {
            Ok(()) => println!("== aborted the mount on {directory}"),
            Err(error) => println!("== cannot abort the mount on {directory}: {}: {error}", abort.display()),
        }
    }
    Ok(())
}

/// Ends a program and what it has started in its group.
fn kill(child: &mut Child) -> Result<()> {
    let kill = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
    ensure!(kill.context("cannot run kill")?.success(), "the hung test program cannot be killed");
    let start = Instant::now();
    while child.try_wait().context("cannot wait for a killed program")?.is_none() {
        ensure!(start.elapsed() < SILENCE_MAX, "the hung test program does not end though it was killed");
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

fn note_unsteady(program: &str, names: &BTreeSet<String>) -> Result<()> {
    let Some(path) = std::env::var_os(UNSTEADY_VARIABLE) else { return Ok(()) };
    let name = Path::new(program).file_name().context("a program has a name")?.to_string_lossy();
    let mut file =
        File::options().create(true).append(true).open(&path).context("cannot write the unsteady tests")?;
    for test in names {
        writeln!(file, "  {name} {test}").context("cannot write the unsteady tests")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "test a::ok ... ok\ntest b - should panic ... FAILED\ntest c has been running for over 60 seconds\n\
                        test d ... ignored\n...test e ... FAILED\n";

    #[test]
    fn lines_tell_which_tests_failed() {
        assert_eq!(ended(TEXT, "FAILED").collect::<Vec<_>>(), ["b", "e"]);
        assert_eq!(ended(TEXT, "ok").collect::<Vec<_>>(), ["a::ok"]);
    }

    #[test]
    fn what_was_not_tested_is_named_at_the_end() {
        let said = summary(
            "  not tested here: b: no device\n  not tested here: a: no device\n  not tested here: b: no device\n",
        );
        assert!(said.starts_with("NOT TESTED on this machine, 2 in all"), "{said}");
        assert!(
            said.ends_with("  not tested here: a: no device\n  not tested here: b: no device\n"),
            "{said}"
        );
        assert!(summary("").starts_with("no test was left out"));
    }

    #[test]
    fn the_threads_of_a_process_are_found_by_its_group() {
        let own = stat_field(Path::new("/proc/self"), 2).expect("every process has one");
        let text = threads_of_group(own.parse().expect("a number"));
        assert!(text.contains("/proc/"), "{text}");
    }
}
