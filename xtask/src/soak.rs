//! `cargo xtask soak`: the tests of `cargo test` for much longer, on seeds that nobody has run before.
//!
//! Each part runs one test, or one fuzz target, over and over until its time or its amount is reached; a failure
//! ends the part and names the log. What was run is added to `docs/benchmarks/soak.md`.

use crate::bounded::{self, End};
use crate::source;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a round of a part is, and which variables of its test say how much of it to do.
struct Part {
    name: &'static str,
    what: &'static str,
    /// Package and start of the test's name.
    test: (&'static str, &'static str),
    /// Variable and value of one batch; `None` is a fresh seed.
    variables: &'static [(&'static str, Option<u64>)],
    /// Rounds in one batch.
    batch: u64,
}

const PARTS: [Part; 13] = [
    Part {
        name: "kill",
        what: "kill -9 of a writing process, reopened and verified",
        test: ("dolmen-engine", "kill::"),
        variables: &[("KILL_ROUNDS", Some(500)), ("KILL_SEED", None)],
        batch: 500,
    },
    Part {
        name: "side",
        what: "random operations on engine and model, 400 steps each",
        test: ("dolmen-engine", "side::"),
        variables: &[("SIDE_SEEDS", Some(100)), ("SIDE_FIRST_SEED", None)],
        batch: 200,
    },
    Part {
        name: "crash",
        what: "power cuts at every boundary of two scripts, 512 and 32 seeded subsets at each",
        test: ("dolmen-engine", "crash::no_power_cut"),
        variables: &[
            ("CRASH_SUBSETS", Some(512)),
            ("CRASH_STRIDE", Some(1)),
            ("CRASH_LONG_SUBSETS", Some(32)),
        ],
        batch: 1,
    },
    Part {
        name: "recovery",
        what: "power cuts at every boundary of a script and again at every boundary of the recovery",
        test: ("dolmen-engine", "twice::"),
        variables: &[("CRASH_TWICE_STRIDE", Some(1)), ("CRASH_TWICE_SUBSETS", Some(8))],
        batch: 1,
    },
    Part {
        name: "files",
        what: "power cuts anywhere in random scripts of files and names, in mounts that are alone and shared, 30 in each",
        test: ("dolmen-dfs", "on_engine::cuts::"),
        variables: &[("DFS_CUT_SEEDS", Some(500)), ("DFS_CUT_FIRST_SEED", None)],
        batch: 500,
    },
    Part {
        name: "everything",
        what: "kill -9 of a process that uses a whole pool, reopened and compared",
        test: ("dolmen-cli", "killed::"),
        variables: &[("KILL_ALL_ROUNDS", Some(200)), ("KILL_ALL_SEED", None)],
        batch: 200,
    },
    Part {
        name: "ntuples",
        what: "kill -9 of those who write to stored ntuples, and of their daemon, each version looked at",
        test: ("dolmen-cli", "ntuples_killed::"),
        variables: &[("NTUPLE_KILL_ROUNDS", Some(200)), ("NTUPLE_KILL_SEED", None)],
        batch: 200,
    },
    Part {
        name: "cramped",
        what: "commands on a full pool, some killed, each checked and what it leaves compared; then emptied",
        test: ("dolmen-cli", "cramped::"),
        variables: &[("CRAMPED_ROUNDS", Some(50)), ("CRAMPED_SEED", None)],
        batch: 50,
    },
    Part {
        name: "daemon",
        what: "kill -9 of a daemon under the load of IOR and mdtest, and of its clients, also of many threads, verified and checked",
        test: ("dolmen-capi", "killed::"),
        variables: &[
            ("LOAD_ROUNDS", Some(200)),
            ("LOAD_SEED", None),
            ("BUSY_ROUNDS", Some(200)),
            ("BUSY_SEED", None),
        ],
        batch: 200,
    },
    Part {
        name: "mount",
        what: "programs that try file systems, random operations with kills, and a million entries, on mounts",
        test: ("dolmen-cli", "mounted::"),
        variables: &[
            ("MOUNT_SECONDS", Some(8)),
            ("MOUNT_STEPS", Some(2000)),
            ("MOUNT_SEED", None),
            ("MOUNT_ENTRIES", Some(1_000_000)),
        ],
        batch: 1,
    },
    Part {
        name: "preload",
        what: "random operations on a file and on names past the kernel and through it, with kills of the daemon",
        test: ("dolmen-preload", "random_"),
        variables: &[("PRELOAD_STEPS", Some(2000)), ("PRELOAD_NAMES", Some(4000)), ("PRELOAD_SEED", None)],
        batch: 1,
    },
    Part {
        name: "nothing",
        what: "every exported function of the C interface replaced by one that returns 0, seen by its test",
        test: ("dolmen-capi", "nothing::"),
        variables: &[("NOTHING_SHARES", Some(1))],
        batch: 1,
    },
    Part {
        name: "network",
        what: "histories of four engines over a bad network",
        test: ("dolmen-sim", "transactions::histories_of_engines_over_a_bad"),
        variables: &[("NETWORK_SEEDS", Some(500)), ("NETWORK_FIRST_SEED", None)],
        batch: 500,
    },
];

/// The parts that are no test of `PARTS`.
const FUZZ: &str = "fuzz";
const LARGE: &str = "large";
const ADDRESS: &str = "address";
const THREADS: &str = "threads";
const OTHERS: [&str; 4] = [FUZZ, LARGE, ADDRESS, THREADS];

/// What ThreadSanitizer says of a race.
const RACE: &str = "WARNING: ThreadSanitizer: data race";

/// Rounds of a part unless its time ends before.
const ROUNDS: u64 = 10_000;
/// Time of a part, and of all fuzz targets together.
const MINUTES: u64 = 60;
/// One batch that takes longer than this hangs.
const BATCH_LIMIT: Duration = Duration::from_secs(3600);

struct Options {
    parts: Vec<String>,
    rounds: u64,
    time: Duration,
}

/// What a part has done.
struct Outcome {
    name: String,
    what: String,
    passed: bool,
    took: Duration,
}

/// Runs the parts that are named, or all; `false` if one fails.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let options = parse(arguments)?;
    let root = source::root()?;
    let logs = source::target_directory(&root).join("soak");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let mut outcomes = Vec::new();
    for name in &options.parts {
        let log = logs.join(format!("{name}.log"));
        std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
        let outcome = match PARTS.iter().find(|part| part.name == name) {
            Some(part) => run_part(&root, part, &options, &log)?,
            None if name == LARGE => run_large(&root, &logs, &log)?,
            None if name == ADDRESS => run_address(&root, &log)?,
            None if name == THREADS => run_threads(&root, &options, &log)?,
            None => run_fuzz(&root, options.time, &log)?,
        };
        println!(
            "soak: {:<8} {:<6} {:>6} s  {}",
            outcome.name,
            if outcome.passed { "ok" } else { "FAILED" },
            outcome.took.as_secs(),
            outcome.what
        );
        if !outcome.passed {
            println!("soak: see {}", log.display());
        }
        outcomes.push(outcome);
    }
    record(&root, &outcomes)?;
    Ok(outcomes.iter().all(|outcome| outcome.passed))
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let mut options = Options { parts: Vec::new(), rounds: ROUNDS, time: Duration::from_secs(MINUTES * 60) };
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        let mut number = || -> Result<u64> {
            let text = words.next().with_context(|| format!("{word} takes a number"))?;
            text.parse().with_context(|| format!("{word} takes a number, not `{text}`"))
        };
        match word {
            "--rounds" => options.rounds = number()?,
            "--minutes" => options.time = Duration::from_secs(number()? * 60),
            name if OTHERS.contains(&name) || PARTS.iter().any(|part| part.name == name) => {
                options.parts.push(name.to_owned());
            }
            _ => bail!(
                "soak takes {}, {}, --rounds N or --minutes N, not `{word}`",
                part_names(),
                OTHERS.join(", ")
            ),
        }
    }
    if options.parts.is_empty() {
        let names = PARTS.iter().map(|part| part.name).chain(OTHERS);
        options.parts = names.map(str::to_owned).collect();
    }
    Ok(options)
}

fn part_names() -> String {
    PARTS.map(|part| part.name).join(", ")
}

/// Batches of one test until the rounds are done or the time is up.
fn run_part(root: &Path, part: &Part, options: &Options, log: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let (mut rounds, mut passed) = (0, true);
    while passed && rounds < options.rounds && (rounds == 0 || start.elapsed() < options.time) {
        let mut command = cargo(root);
        command.args(["test", "--package", part.test.0, "--test", "it", "--", part.test.1]);
        for (variable, value) in part.variables {
            let value = match *value {
                Some(value) if part.batch > 1 => value.min(options.rounds),
                Some(value) => value,
                None => fresh_seed()?,
            };
            command.env(variable, value.to_string());
            note(log, &format!("{variable}={value}"))?;
        }
        passed = bounded::run(&mut command, BATCH_LIMIT, log)? == End::Well;
        rounds += part.batch.min(options.rounds);
    }
    let what = format!("{} rounds: {}", rounds, part.what);
    Ok(Outcome { name: part.name.to_owned(), what, passed, took: start.elapsed() })
}

/// A seed that will not come again soon: the nanoseconds of the wall clock.
fn fresh_seed() -> Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    Ok(u64::from(since.subsec_nanos()) << 20 | since.as_secs() & 0xF_FFFF)
}

/// Every fuzz target for an equal share of the time. Needs a nightly compiler and cargo-fuzz.
fn run_fuzz(root: &Path, time: Duration, log: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let folder = root.join("fuzz");
    let targets = fuzz_targets(&folder)?;
    let share = (time.as_secs() / targets.len() as u64).max(1);
    let build = source::target_directory(root).join("fuzz");
    let mut passed = true;
    for target in &targets {
        let mut command = Command::new("cargo");
        command.current_dir(&folder).env("CARGO_TARGET_DIR", &build);
        // No sanitizer: the code under test has no unsafe block; assertions and overflow checks are on.
        command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target]);
        // New finds go to the build folder; what is worth keeping is put into fuzz/corpus by hand.
        let found = build.join("corpus").join(target);
        std::fs::create_dir_all(&found).context("cannot make a folder for the corpus")?;
        command.arg(&found).arg(folder.join("corpus").join(target)).args([
            "--",
            &format!("-max_len={}", longest(&folder.join("corpus").join(target))?),
            "-rss_limit_mb=2048",
            "-malloc_limit_mb=256",
            "-timeout=60",
        ]);
        command.arg(format!("-max_total_time={share}"));
        if bounded::run(&mut command, Duration::from_secs(share) + BATCH_LIMIT, log)? != End::Well {
            println!("soak: fuzz target {target} failed");
            passed = false;
        }
    }
    let what = format!("{} fuzz targets, {share} s each", targets.len());
    Ok(Outcome { name: FUZZ.to_owned(), what, passed, took: start.elapsed() })
}

/// How long inputs of a target may be: what it begins with is not cut off.
fn longest(corpus: &Path) -> Result<u64> {
    let mut longest = 4096;
    for entry in std::fs::read_dir(corpus).with_context(|| format!("cannot list {}", corpus.display()))? {
        longest = longest.max(entry?.metadata()?.len());
    }
    Ok(longest)
}

/// A store of 50 M records in little memory: built, killed, opened and worked on by `dolmen bench`, which adds its rows
/// to `docs/benchmarks`; then every scripted case beside what is in it. Needs root, for the memory cgroup.
fn run_large(root: &Path, folder: &Path, log: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let disk = folder.join("large");
    std::fs::create_dir_all(&disk).with_context(|| format!("cannot make {}", disk.display()))?;
    let mut build = cargo(root);
    let mut passed =
        bounded::run(build.args(["build", "--release", "--package", "dolmen-cli"]), BATCH_LIMIT, log)?
            == End::Well;
    if passed {
        let mut bench = Command::new(source::target_directory(root).join("release/dolmen"));
        bench.args(["bench", "engine", "--large", "--keep", "--disk-dir"]).arg(&disk);
        bench.arg("--out").arg(root.join("docs/benchmarks/large.jsonl"));
        passed = bounded::run(&mut bench, 2 * BATCH_LIMIT, log)? == End::Well;
    }
    if passed {
        let mut cases = cargo(root);
        cases.args(["test", "--package", "dolmen-engine", "--test", "it", "--", "beside::"]);
        passed = bounded::run(cases.env("BESIDE_STORE", kept(&disk)?), BATCH_LIMIT, log)? == End::Well;
    }
    std::fs::remove_dir_all(&disk).with_context(|| format!("cannot remove {}", disk.display()))?;
    let what = "50 M records in 1.5 GiB, rows in large.jsonl; every case beside them".to_owned();
    Ok(Outcome { name: LARGE.to_owned(), what, passed, took: start.elapsed() })
}

/// Every test of the workspace under AddressSanitizer, for the unsafe blocks of `env` and of libraries. Needs a nightly
/// compiler; what it builds has a folder of its own, as its flags would have everything else built anew.
fn run_address(root: &Path, log: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let mut command = Command::new("cargo");
    // With a target named, build scripts and macros are built without the flag.
    command.current_dir(root).args(["+nightly", "test", "--workspace", "--exclude", "xtask", "--tests"]);
    command.args(["--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)]);
    command.env("CARGO_TARGET_DIR", source::target_directory(root).join("address"));
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    let passed = bounded::run(&mut command, BATCH_LIMIT, log)? == End::Well;
    let what = "every test under AddressSanitizer".to_owned();
    Ok(Outcome { name: ADDRESS.to_owned(), what, passed, took: start.elapsed() })
}

/// The threads that share event queues of the C interface, under ThreadSanitizer: first with a race that it has to find,
/// then without. The standard library is built with it, too, since a lock that it does not see orders nothing for it.
fn run_threads(root: &Path, options: &Options, log: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let (mut rounds, mut passed) = (0, false);
    let missing = missing_source(root)?;
    if let Some(place) = &missing {
        let what = format!(
            "no source of the standard library: `rustup component add rust-src`, or put the folder `library` of the \
             source of this very compiler at {}",
            place.display()
        );
        println!("soak: {what}");
        note(log, &what)?;
    } else if bounded::run(threaded(root).arg("--no-run"), BATCH_LIMIT, log)? == End::Well {
        let mut race = threaded(root);
        race.args(["--", "an_error_is_read_by_who_was_told"]).env("THREADS_RACE", "1");
        let end = bounded::run(&mut race, BATCH_LIMIT, log)?;
        let said = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
        passed = end == End::Badly && String::from_utf8_lossy(&said).contains(RACE);
        note(log, &format!("the race was {}", if passed { "found, as it has to be" } else { "NOT found" }))?;
    }
    while passed && rounds < options.rounds && (rounds == 0 || start.elapsed() < options.time) {
        let mut command = threaded(root);
        // One test after the other: the system calls that unmap memory pass the sanitizer by, so that what another test's
        // pool has mapped at the same address looks like a race (one in 34 rounds). Who joins a test is ordered after it.
        command.args(["--", "threads::", "--skip", "fs_threads", "--test-threads", "1"]);
        passed = bounded::run(&mut command, BATCH_LIMIT, log)? == End::Well;
        rounds += 1;
    }
    let what = format!(
        "{rounds} rounds: threads on event queues under ThreadSanitizer, which found a race made for it"
    );
    let what = if rounds == 0 {
        "no round: nothing to build it with, or the race that it has to find was not found".to_owned()
    } else {
        what
    };
    Ok(Outcome { name: THREADS.to_owned(), what, passed, took: start.elapsed() })
}

/// Where the compiler looks for the source of the standard library, if it is not there.
fn missing_source(root: &Path) -> Result<Option<PathBuf>> {
    let mut rustc = Command::new("rustc");
    let told = rustc.current_dir(root).args(["--print", "sysroot"]).output().context("cannot run rustc")?;
    ensure!(told.status.success(), "rustc does not tell its directory");
    let sysroot = String::from_utf8(told.stdout).context("the compiler's directory is not UTF-8")?;
    let place = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    Ok(if place.join("std/Cargo.toml").is_file() { None } else { Some(place) })
}

/// The tests of the C interface, instrumented. What is needed for that is not stable, but in the compiler that is used.
fn threaded(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["test", "-Zbuild-std", "--package", "dolmen-capi", "--test", "it"]);
    command.args(["--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)]);
    command.env("CARGO_TARGET_DIR", source::target_directory(root).join(THREADS));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=thread");
    command
}

/// The store that a run with `--keep` has left: in a folder named for its process.
fn kept(disk: &Path) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(disk).with_context(|| format!("cannot list {}", disk.display()))?;
    let run = entries.next().context("nothing was kept")?.context("cannot list what was kept")?;
    Ok(run.path().join("large"))
}

fn fuzz_targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("fuzz_targets")).context("cannot list the fuzz targets")? {
        let path: PathBuf = entry.context("cannot list the fuzz targets")?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    ensure!(!names.is_empty(), "there is no fuzz target");
    Ok(names)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn note(log: &Path, line: &str) -> Result<()> {
    let file = std::fs::File::options().append(true).open(log);
    let mut file = file.with_context(|| format!("cannot write {}", log.display()))?;
    writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))
}

/// Adds a row for each part to the record of all runs.
fn record(root: &Path, outcomes: &[Outcome]) -> Result<()> {
    let path = root.join("docs/benchmarks/soak.md");
    let mut text =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let commit = source::git(root, &["rev-parse", "--short", "HEAD"])?;
    for Outcome { name, what, passed, took } in outcomes {
        let verdict = if *passed { "ok" } else { "FAILED" };
        let row = format!("| {} | {name} | {what} | {} | {verdict} |\n", commit.trim(), took.as_secs());
        text.push_str(&row);
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_run_unless_some_are_named() {
        let all = parse(&[]).expect("nothing to refuse");
        assert_eq!(all.parts.len(), PARTS.len() + OTHERS.len());
        assert_eq!((all.rounds, all.time), (10_000, Duration::from_secs(3600)));
        let some = parse(&["kill", "--rounds", "1500", "--minutes", "3"]).expect("well formed");
        assert_eq!((some.parts, some.rounds), (vec!["kill".to_owned()], 1500));
        assert_eq!(some.time, Duration::from_secs(180));
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for words in [&["burn"][..], &["--rounds"], &["--rounds", "many"], &["kill", "side", "--fast"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn every_fuzz_target_has_a_corpus() {
        let folder = source::root().expect("tests run in the tree").join("fuzz");
        for target in fuzz_targets(&folder).expect("listed") {
            assert!(folder.join("corpus").join(&target).is_dir(), "{target}");
        }
    }
}
