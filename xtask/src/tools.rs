//! `cargo xtask tools`: programs of the system that tests run, installed by its package manager where they are missing, and the
//! Python environment of the tests of the package ([`python`]).
//!
//! A run that finds all of them changes nothing and needs neither the network nor any right.

use crate::python;
use anyhow::{Context as _, Result};
use std::process::{Command, Stdio};

/// A program that tests run, and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

/// All of them. A new one is a line here.
const TOOLS: &[Tool] = &[
    Tool { program: "dbench", package: "dbench" },
    Tool { program: "fio", package: "fio" },
    Tool { program: "fusermount3", package: "fuse3" },
    Tool { program: "git", package: "git" },
    Tool { program: "mpicc", package: "libopenmpi-dev" },
    Tool { program: "mpirun", package: "openmpi-bin" },
    Tool { program: "python3", package: "python3" },
    Tool { program: "rsync", package: "rsync" },
    Tool { program: "setpriv", package: "util-linux" },
    Tool { program: "sqlite3", package: "sqlite3" },
    Tool { program: "stress-ng", package: "stress-ng" },
    Tool { program: "tar", package: "tar" },
    Tool { program: "unshare", package: "util-linux" },
    Tool { program: "valgrind", package: "valgrind" },
];

/// Installs what is missing; `false` if something still is.
pub(crate) fn run() -> Result<bool> {
    let packages = missing();
    if packages.is_empty() {
        return python::prepare();
    }
    println!("tools: missing for tests: {}", packages.join(" "));
    match installer() {
        Some(apt) => {
            // A list of packages that cannot be renewed may still do.
            apt.run(&["update", "-qq"])?;
            apt.run(&[&["install", "-y", "-qq", "--no-install-recommends"], &packages[..]].concat())?;
        }
        None => println!("tools: this needs apt-get and root, or sudo that does not ask"),
    }
    let left = missing();
    if !left.is_empty() {
        println!("tools: install the packages {} (as Debian calls them), and try again", left.join(" "));
    }
    Ok(left.is_empty() && python::prepare()?)
}

/// Whether all of them are there.
pub(crate) fn are_all_there() -> bool {
    missing().is_empty()
}

/// The packages of the programs that are not there.
fn missing() -> Vec<&'static str> {
    let programs = TOOLS.iter().filter(|tool| !is_there(tool.program)).map(|tool| tool.package);
    // Debian has apart what makes environments.
    let venv = (is_there("python3") && !python::can_make_environments()).then_some("python3-venv");
    programs.chain(venv).collect()
}

/// Whether a program is on the path.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH");
    path.is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// How apt-get can be run here.
enum Apt {
    AsRoot,
    BySudo,
}

fn installer() -> Option<Apt> {
    if !is_there("apt-get") {
        return None;
    }
    if says_yes(Command::new("test").args(["-w", "/var/lib/dpkg/status"])) {
        return Some(Apt::AsRoot);
    }
    says_yes(Command::new("sudo").args(["-n", "true"])).then_some(Apt::BySudo)
}

/// Whether a command could be started and ends well; what it says is not shown.
fn says_yes(command: &mut Command) -> bool {
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

impl Apt {
    /// Runs it; what it could not do is seen by what is missing then.
    fn run(&self, words: &[&str]) -> Result<()> {
        let mut command = match self {
            Self::AsRoot => Command::new("apt-get"),
            Self::BySudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["-n", "apt-get"]);
                sudo
            }
        };
        // It asks nothing, and gives up on a mirror that does not answer.
        command.args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30"]).args(words);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        let status = command.status().context("cannot start apt-get")?;
        if !status.success() {
            println!("tools: apt-get {} ended with {status}", words.join(" "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_on_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
    }

    #[test]
    fn a_package_is_named_once_for_each_of_its_programs() {
        assert!(TOOLS.windows(2).all(|pair| pair[0].program < pair[1].program));
    }
}
