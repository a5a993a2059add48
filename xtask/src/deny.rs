//! `cargo xtask deny`: licences, banned crates and sources of the dependency tree, by deny.toml.
//!
//! Installs cargo-deny under the target directory first, if it is missing there: unoptimised, which takes about a
//! minute on two cores instead of many, and is fast enough for a tree of this size. Nothing lands in the home folder.

use crate::source;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Pinned, so that a new release cannot fail an old commit.
const VERSION: &str = "0.20.2";

/// Runs the checks; `false` if the tree breaks a rule. Advisories are left out: they need the network at every run.
pub(crate) fn run() -> Result<bool> {
    let root = source::root()?;
    let tools = source::target_directory(&root).join("tools");
    let program = tools.join("bin/cargo-deny");
    if installed_version(&program).as_deref() != Some(VERSION) {
        install(&tools)?;
    }
    let arguments =
        ["--manifest-path", "Cargo.toml", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    let status = Command::new(&program).current_dir(&root).args(arguments).status();
    Ok(status.with_context(|| format!("cannot start {}", program.display()))?.success())
}

/// `None` if the program is missing or does not answer.
fn installed_version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().last().map(str::to_owned)
}

fn install(tools: &Path) -> Result<()> {
    println!("deny: installing cargo-deny {VERSION} into {}", tools.display());
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "install",
            "cargo-deny",
            "--version",
            VERSION,
            "--locked",
            "--debug",
            "--no-default-features",
            "--quiet",
            "--root",
        ])
        .arg(tools)
        .env("CARGO_TARGET_DIR", tools.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo-deny {VERSION} could not be installed; its registry must be reachable once");
    }
    // The build tree is ten times the program and never used again.
    std::fs::remove_dir_all(tools.join("build")).context("cannot remove the build folder of cargo-deny")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_has_no_version() {
        assert_eq!(installed_version(Path::new("no/such/program")), None);
    }
}
