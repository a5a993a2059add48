//! `cargo xtask <command>`: the automation of the repository, in Rust instead of shell.
//!
//! One module per command; `source` reads the repository and is shared by all of them.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs other programs against the real clock; nothing simulates it"
)]

mod bounded;
mod capi;
mod clients;
mod deny;
mod machine;
mod mounts;
mod mutants;
mod python;
mod soak;
mod source;
mod tested;
mod tidy;
mod tools;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>
  tidy              check dependency table, style rules, smell ceilings and documents
  tidy --ratchet    the same, then lower xtask/ceilings.txt to what was measured
  tidy --table      print the smell counters, one row per crate
  capi --prefix DIR [--destdir D]
                    the C libraries, headers and pkg-config file, built and put below DIR, or below D for now
  clients --prefix P --ior I --mdtest M [--fio F] [--io500 I --find F [--io500-only]] [--rounds N]
                    unmodified IOR and mdtest, built elsewhere, through the libraries below P and through POSIX on tmpfs
  mounts --dolmen D --preload L [--passthrough P] [--juicefs J] [--rounds N] [--processes N,M] [--count N] [--file-size S]
                    [--reads N] [--only GROUND,GROUND] [--as-found]
                    files of mounts, of the thinnest file system of FUSE and of others, by the same calls of the system
  test [ARGUMENTS]  all tests: what hangs is killed and shown, what fails is run once more by itself and named as unsteady,
                    what this machine does not let them test is named
  tools             the system's programs that tests run: installed by apt-get where they are missing; and the Python packages
                    that tests of the Python package run with, in an environment below the target directory
  deny              check licences, bans and sources of the dependencies with cargo-deny, installed if missing
  mutants           put each fault of mutants/ into a copy of the tree and see that the tests named for it fail
  mutants --only N  those whose names contain N (several may follow)
  mutants --resume  those that an interrupted run of the same tree has not caught yet
  mutants --check   only see whether each still applies
  mutants --list    print names and claims
  soak [PART...]    kill, side, crash, recovery, files, everything, ntuples, cramped, daemon, mount, preload, nothing, network, fuzz, large, address, threads:
                    the tests for longer, on fresh seeds or with a sanitizer; --rounds N (10,000) and --minutes N (60) bound
                    each part; results go to docs/benchmarks/soak.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; `false` means that it ran and found something wrong.
fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy", rest @ ..] => tidy::run(rest),
        ["capi", rest @ ..] => capi::run(rest),
        ["clients", rest @ ..] => clients::run(rest),
        ["mounts", rest @ ..] => mounts::run(rest),
        ["tools"] => tools::run(),
        ["deny"] => deny::run(),
        ["test", rest @ ..] => tested::run(rest),
        ["tested", rest @ ..] => tested::run_program(rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        [other, ..] => bail!("no command `{other}`\n{USAGE}"),
    }
}
