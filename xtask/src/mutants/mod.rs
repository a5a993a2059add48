//! `cargo xtask mutants`: tests of the tests. Each mutant of `mutants/` is the program with one fault; the tests
//! that are named for it must fail.
//!
//! Works on a copy of the tree with a target directory of its own, both kept under the target directory. All mutants
//! are put into the copy together (`joint`) and chosen by a variable, so that it is compiled once.

mod joint;
mod list;
mod tree;

use crate::bounded::{self, End};
use crate::source;
use anyhow::{Context as _, Result, bail, ensure};
use list::{Mutant, Test};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tree::Copy;

/// A build that takes longer than this hangs.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// So do all tests of one binary without a fault.
const BASELINE_LIMIT: Duration = Duration::from_secs(1800);
/// So do the tests of one mutant; the slowest take two minutes on a busy machine.
const TEST_LIMIT: Duration = Duration::from_secs(600);
/// How a test ends that says so itself.
const FAILED: &str = " ... FAILED";

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Caught,
    /// The tests did not end, as the list says and explains.
    Hangs,
    HangsUnsaid,
    Survived,
}

impl Verdict {
    fn is_caught(self) -> bool {
        matches!(self, Self::Caught | Self::Hangs)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Hangs => "caught (hangs)",
            Self::HangsUnsaid => "HANGS",
            Self::Survived => "SURVIVED",
        }
    }
}

/// Runs the mutants, or those whose names contain what follows `--only`; `false` unless all are caught.
/// `--resume` leaves out what an interrupted run of the same tree has caught; `--check` only sees whether all
/// apply; `--list` prints them.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let root = source::root()?;
    let mutants = list::read(&root.join("mutants"))?;
    let mut chosen = mutants.clone();
    match arguments {
        ["--list"] => {
            mutants.iter().for_each(|mutant| println!("{:<36} {}", mutant.name, mutant.claim));
            return Ok(true);
        }
        ["--only", names @ ..] if !names.is_empty() => {
            chosen.retain(|mutant| names.iter().any(|name| mutant.name.contains(name)));
            ensure!(!chosen.is_empty(), "no mutant has such a name");
        }
        [] | ["--resume" | "--check"] => {}
        _ => {
            bail!("mutants takes --list, --check, --resume or --only NAME..., not `{}`", arguments.join(" "))
        }
    }
    let (changed, broken) = joint::join(&root, &mutants)?;
    broken.iter().for_each(|why| println!("mutants: does not apply: {why}"));
    println!("mutants: {} of {} apply", mutants.len() - broken.len(), mutants.len());
    if !broken.is_empty() || arguments == ["--check"] {
        return Ok(broken.is_empty());
    }
    let ground = Ground::new(&root, &changed)?;
    let results = Results::open(&root, &ground.logs, arguments)?;
    let all = chosen.len();
    chosen.retain(|mutant| !results.caught.contains(&mutant.name));
    println!("mutants: {} of {all} to be tried", chosen.len());
    ground.prove_baseline(&chosen)?;
    let mut uncaught = Vec::new();
    for mutant in &chosen {
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
    /// Goes on with the results of a run of the same tree if asked to, or begins anew. What was chosen by name has
    /// results of its own.
    fn open(root: &Path, folder: &Path, arguments: &[&str]) -> Result<Self> {
        let path = folder.join(if arguments.contains(&"--only") { "results-only" } else { "results" });
        let tree = tree_name(root)?;
        if arguments == ["--resume"] && path.is_file() {
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

/// Where mutants live.
struct Ground {
    copy: Copy,
    build: PathBuf,
    logs: PathBuf,
}

impl Ground {
    fn new(root: &Path, changed: &BTreeMap<String, String>) -> Result<Self> {
        let base = source::target_directory(root).join("mutants");
        let logs = base.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        Ok(Self { copy: Copy::of(root, &base.join("tree"), changed)?, build: base.join("build"), logs })
    }

    /// All tests that are named must exist and pass without a fault, or their failing would prove nothing.
    fn prove_baseline(&self, mutants: &[Mutant]) -> Result<()> {
        let mut filters: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for Test { package, binary, filter } in mutants.iter().flat_map(|mutant| &mutant.tests) {
            filters.entry((package, binary)).or_default().insert(filter);
        }
        let log = self.log("baseline")?;
        for (&(package, binary), filters) in &filters {
            let mut build = self.cargo(package, binary);
            let built = bounded::run(build.arg("--no-run"), BUILD_LIMIT, &log)?;
            ensure!(built == End::Well, "{package} {binary}: does not compile; see {}", log.display());
            let before = read(&log)?.len();
            let start = Instant::now();
            let mut command = self.cargo(package, binary);
            let end = bounded::run(command.arg("--").args(filters), BASELINE_LIMIT, &log)?;
            ensure!(end == End::Well, "{package} {binary}: fails without a fault; see {}", log.display());
            for filter in filters {
                let named = read(&log)?[before..].lines().any(|line| {
                    // What a test has begun to say without an end of the line stands before it.
                    line.split_once("test ")
                        .is_some_and(|(_, name)| name.contains(filter) && !line.ends_with("FAILED"))
                });
                ensure!(named, "{package} {binary}: no test is called {filter}");
            }
            println!("mutants: {package} {binary}: passes without a fault, {} s", start.elapsed().as_secs());
        }
        Ok(())
    }

    /// Runs the tests of a mutant in their order, until one fails.
    fn try_mutant(&self, mutant: &Mutant) -> Result<Verdict> {
        let log = self.log(&mutant.name)?;
        for Test { package, binary, filter } in &mutant.tests {
            let mut command = self.cargo(package, binary);
            command.env(joint::CHOICE, &mutant.name).args(["--", filter]);
            // One test that fails is enough: the others of the binary are not waited for.
            match bounded::run_until(&mut command, TEST_LIMIT, &log, Some(FAILED))? {
                End::Well => {}
                End::Told => return Ok(Verdict::Caught),
                End::Badly => {
                    ensure!(
                        has_failed_test(&read(&log)?),
                        "{}: no test has failed; see {}",
                        mutant.name,
                        log.display()
                    );
                    return Ok(Verdict::Caught);
                }
                End::TooLate if mutant.hangs.is_empty() => return Ok(Verdict::HangsUnsaid),
                End::TooLate => return Ok(Verdict::Hangs),
            }
        }
        Ok(Verdict::Survived)
    }

    fn cargo(&self, package: &str, binary: &str) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.copy.path()).env("CARGO_TARGET_DIR", &self.build).env("RUST_BACKTRACE", "0");
        // Nobody debugs a mutant, and without line tables it is linked sooner.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.args(["test", "--package", package]);
        match binary {
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

/// Whether a test said that it failed, or the process of the tests died of a signal: other ends prove nothing.
fn has_failed_test(log: &str) -> bool {
    log.lines().any(|line| line.ends_with(FAILED) || line.contains("(signal: "))
}

fn read(log: &Path) -> Result<String> {
    std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failing_test_catches_a_mutant() {
        assert!(has_failed_test("running 1 test\ntest a::b ... FAILED\n"));
        assert!(has_failed_test(
            "error: test failed\n  process didn't exit successfully: `x` (signal: 6, SIGABRT)\n"
        ));
        assert!(!has_failed_test("error: linking failed: No space left on device\ntest a::b ... ok\n"));
    }

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
