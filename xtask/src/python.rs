//! The Python that the tests of the package run in: a virtual environment below the target directory, with the versions that
//! `python/requirements-tests.txt` lists.
//!
//! A run that finds it as that file wants it changes nothing and needs no network.

use crate::source;
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The list of packages, from the root of the repository.
const REQUIREMENTS: &str = "python/requirements-tests.txt";

/// Where the environment lies below the target directory, as `crates/python/tests/it` looks for it.
const ENVIRONMENT: &str = "python-tests";

/// The copy of the list in an environment that is complete.
const INSTALLED: &str = "requirements-tests.txt";

/// Makes the environment, or makes it anew if the list has changed; `false` if that could not be done.
pub(crate) fn prepare() -> Result<bool> {
    let root = source::root()?;
    let wanted = std::fs::read_to_string(root.join(REQUIREMENTS))
        .with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let place = source::target_directory(&root).join(ENVIRONMENT);
    if is_complete(&place, &wanted) {
        return Ok(true);
    }
    println!("tools: installing what {REQUIREMENTS} lists into {}", place.display());
    match install(&place, &root.join(REQUIREMENTS)) {
        Ok(()) => {
            std::fs::write(place.join(INSTALLED), wanted).context("cannot note what is installed")?;
            Ok(true)
        }
        Err(error) => {
            println!("tools: {error:#}: the tests of the Python package need it");
            Ok(false)
        }
    }
}

/// Whether the Python of the system can make one.
pub(crate) fn can_make_environments() -> bool {
    let mut look = Command::new("python3");
    look.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stdout(Stdio::null());
    look.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn is_complete(place: &Path, wanted: &str) -> bool {
    let has = std::fs::read_to_string(place.join(INSTALLED));
    has.is_ok_and(|has| has == wanted) && program(place).exists()
}

fn program(place: &Path) -> PathBuf {
    place.join("bin/python")
}

fn install(place: &Path, requirements: &Path) -> Result<()> {
    // What is left of another list, or of a run that was broken off, goes.
    if place.exists() {
        std::fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    let mut pip = Command::new(program(place));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "-r"]);
    run(pip.arg(requirements))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(status.success(), "{} ended with {status}", command.get_program().display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_of_another_list_is_made_anew() {
        let place = std::env::temp_dir().join(format!("python-tests-{}", std::process::id()));
        std::fs::create_dir_all(place.join("bin")).expect("a temporary directory can be made");
        std::fs::write(program(&place), "").expect("it was just made");
        assert!(!is_complete(&place, "pytest==1\n"));
        std::fs::write(place.join(INSTALLED), "pytest==1\n").expect("it was just made");
        assert!(is_complete(&place, "pytest==1\n"));
        assert!(!is_complete(&place, "pytest==2\n"));
        std::fs::remove_dir_all(&place).expect("it was just made");
    }
}
