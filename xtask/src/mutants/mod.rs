//! `cargo xtask mutants`: tests of the tests. Each mutant of `mutants/` is the program with one fault; the tests
//! that are named for it must fail.
//!
//! Works on a copy of the tree with a target directory of its own, both kept under the target directory, so
//! that a run compiles only what its mutants change.

mod list;
mod tree;

use crate::bounded::{self, End};
use crate::source;
use anyhow::{Context as _, Result, bail, ensure};
use list::{Mutant, Test};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tree::Copy;

/// A build that takes longer than this hangs.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// So do the tests of one mutant; the slowest take two minutes on a busy machine.
const TEST_LIMIT: Duration = Duration::from_secs(600);

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Caught,
    /// The tests did not end: noticed, too, but by whoever waits.
    Hangs,
    Survived,
    DoesNotCompile,
    NoSuchTest,
}

impl Verdict {
    fn is_caught(self) -> bool {
        matches!(self, Self::Caught | Self::Hangs)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Hangs => "caught (hangs)",
            Self::Survived => "SURVIVED",
            Self::DoesNotCompile => "DOES NOT COMPILE",
            Self::NoSuchTest => "NO SUCH TEST",
        }
    }
}

/// Runs the mutants, or those whose names contain what follows `--only`; `false` unless all are caught.
/// `--resume` leaves out what an interrupted run of the same tree has caught; `--check` only sees whether all
/// apply; `--list` prints them.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let root = source::root()?;
    let mut mutants = list::read(&root.join("mutants"))?;
    match arguments {
        ["--list"] => {
            mutants.iter().for_each(|mutant| println!("{:<36} {}", mutant.name, mutant.claim));
            return Ok(true);
        }
        ["--check"] => return check(&root, &mutants),
        ["--only", names @ ..] if !names.is_empty() => {
            mutants.retain(|mutant| names.iter().any(|name| mutant.name.contains(name)));
        }
        [] | ["--resume"] => {}
        _ => {
            bail!("mutants takes --list, --check, --resume or --only NAME..., not `{}`", arguments.join(" "))
        }
    }
    ensure!(!mutants.is_empty(), "no mutant has such a name");
    if !check(&root, &mutants)? {
        return Ok(false);
    }
    let ground = Ground::new(&root)?;
    let results = Results::open(&root, &ground.logs, arguments.contains(&"--resume"))?;
    let all = mutants.len();
    mutants.retain(|mutant| !results.caught.contains(&mutant.name));
    println!("mutants: {} of {all} to be tried", mutants.len());
    // Those of one file together: what the last one changed is then compiled anew only once.
    mutants.sort_by(|a, b| a.edits[0].path.cmp(&b.edits[0].path));
    ground.prove_baseline(&mutants)?;
    let mut uncaught = Vec::new();
    for mutant in &mutants {
        let start = Instant::now();
        let verdict = ground.try_mutant(mutant)?;
        println!("mutants: {:<36} {:<16} {:>4} s", mutant.name, verdict.words(), start.elapsed().as_secs());
        if verdict.is_caught() {
            results.add(&mutant.name)?;
        } else {
            uncaught.push(mutant.name.as_str());
        }
    }
    println!("mutants: {} of {all} caught", all - uncaught.len());
    if !uncaught.is_empty() {
        println!("mutants: not caught: {}", uncaught.join(" "));
    }
    Ok(uncaught.is_empty())
}

/// Names of mutants that were caught, a line each, below the tree that they were caught in.
struct Results {
    path: PathBuf,
    caught: BTreeSet<String>,
}

impl Results {
    /// Goes on with the results of a run of the same tree if asked to, or begins anew.
    fn open(root: &Path, folder: &Path, resume: bool) -> Result<Self> {
        let path = folder.join("results");
        let tree = tree_name(root)?;
        if resume && path.is_file() {
            let old = std::fs::read_to_string(&path);
            let old = old.with_context(|| format!("cannot read {}", path.display()))?;
            let mut lines = old.lines();
            if lines.next() == Some(&tree) {
                return Ok(Self { path, caught: lines.map(str::to_owned).collect() });
            }
        }
        std::fs::write(&path, format!("{tree}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, caught: BTreeSet::new() })
    }

    fn add(&self, name: &str) -> Result<()> {
        let file = std::fs::File::options().append(true).open(&self.path);
        let mut file = file.with_context(|| format!("cannot write {}", self.path.display()))?;
        writeln!(file, "{name}").with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What tells one state of the tree from others: the commit, and what was changed since.
fn tree_name(root: &Path) -> Result<String> {
    let commit = source::git(root, &["rev-parse", "HEAD"])?;
    let changes = source::git(root, &["diff", "HEAD"])?;
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    Ok(format!("{} {:016x}", commit.trim(), hasher.finish()))
}

/// Whether every mutant applies to the tree as it is.
fn check(root: &Path, mutants: &[Mutant]) -> Result<bool> {
    let mut broken = 0_usize;
    for mutant in mutants {
        if let Err(error) = tree::mutated(root, &mutant.edits) {
            println!("mutants: {} does not apply: {error:#}", mutant.name);
            broken += 1;
        }
    }
    println!("mutants: {} of {} apply", mutants.len() - broken, mutants.len());
    Ok(broken == 0)
}

/// Where mutants live.
struct Ground {
    copy: Copy,
    build: PathBuf,
    logs: PathBuf,
}

impl Ground {
    fn new(root: &Path) -> Result<Self> {
        let base = source::target_directory(root).join("mutants");
        let logs = base.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        Ok(Self { copy: Copy::of(root, &base.join("tree"))?, build: base.join("build"), logs })
    }

    /// All tests that are named must exist and pass without a fault, or their failing would prove nothing.
    fn prove_baseline(&self, mutants: &[Mutant]) -> Result<()> {
        let tests: BTreeSet<&Test> = mutants.iter().flat_map(|mutant| &mutant.tests).collect();
        let log = self.log("baseline")?;
        for test in tests {
            let verdict = self.try_test(test, &log)?;
            let Test { package, binary, filter } = test;
            ensure!(
                verdict == Verdict::Survived,
                "{package} {binary} {filter}: {} on the unchanged tree; see {}",
                verdict.words(),
                log.display()
            );
        }
        println!("mutants: all tests pass on the unchanged tree");
        Ok(())
    }

    fn try_mutant(&self, mutant: &Mutant) -> Result<Verdict> {
        let log = self.log(&mutant.name)?;
        self.copy.put(&mutant.edits)?;
        let mut verdict = Ok(Verdict::Survived);
        for test in &mutant.tests {
            verdict = self.try_test(test, &log);
            if !matches!(verdict, Ok(Verdict::Survived)) {
                break;
            }
        }
        self.copy.restore(&mutant.edits)?;
        verdict
    }

    fn try_test(&self, test: &Test, log: &Path) -> Result<Verdict> {
        if bounded::run(self.cargo(test).arg("--no-run"), BUILD_LIMIT, log)? != End::Well {
            return Ok(Verdict::DoesNotCompile);
        }
        let before = std::fs::read_to_string(log).context("cannot read the log")?.len();
        // One test that fails is enough: the others of the binary are not waited for.
        let mut command = self.cargo(test);
        let end =
            bounded::run_until(command.args(["--", &test.filter]), TEST_LIMIT, log, Some(" ... FAILED"))?;
        let text = std::fs::read_to_string(log).context("cannot read the log")?;
        Ok(match end {
            _ if text[before..].contains("\nrunning 0 tests\n") => Verdict::NoSuchTest,
            End::Well => Verdict::Survived,
            End::Badly | End::Told => Verdict::Caught,
            End::TooLate => Verdict::Hangs,
        })
    }

    fn cargo(&self, test: &Test) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.copy.path()).env("CARGO_TARGET_DIR", &self.build).env("RUST_BACKTRACE", "0");
        // Nobody debugs a mutant, and without line tables it is linked sooner.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.args(["test", "--package", &test.package]);
        match test.binary.as_str() {
            "lib" => command.arg("--lib"),
            binary => command.args(["--test", binary]),
        };
        command
    }

    /// An empty log.
    fn log(&self, name: &str) -> Result<PathBuf> {
        let path = self.logs.join(format!("{name}.log"));
        std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_mutants_are_well_formed_and_enough() {
        let root = source::root().expect("tests run in the tree");
        let mutants = list::read(&root.join("mutants")).expect("all can be read");
        assert!(mutants.len() >= 30, "{} mutants", mutants.len());
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(run(&["--fast"]).is_err());
        assert!(run(&["--only"]).is_err());
    }
}
