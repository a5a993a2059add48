//! The Python that the tests of the package run in: a virtual environment below the target directory, with the versions that
//! `python/requirements-tests.txt` lists, and files of experiments that the tests read.
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

/// The package on PyPI whose sources have files of many experiments beside its tests, some 30 MB.
const SAMPLES_PACKAGE: &str = "coffea==2026.9.0";

/// The name of that package.
const SAMPLES_NAME: &str = "coffea";

/// Where these lie below the target directory, as `crates/python/tests/it` looks for them.
const SAMPLES: &str = "samples";

/// Where they are in the archive of the sources.
const SAMPLES_IN_ARCHIVE: &str = "*/tests/samples/*.root";

/// The note in a directory of samples that it is complete, and of which package they are.
const SAMPLES_OF: &str = "package.txt";

/// The copy of the list in an environment that is complete.
const INSTALLED: &str = "requirements-tests.txt";

/// Makes the environment and brings the samples, or makes anew what has changed; `false` if that could not be done.
pub(crate) fn prepare() -> Result<bool> {
    Ok(environment()? && samples()?)
}

/// Brings the samples, by the Python of the environment.
fn samples() -> Result<bool> {
    let target = source::target_directory(&source::root()?);
    let (place, python) = (target.join(SAMPLES), program(&target.join(ENVIRONMENT)));
    if std::fs::read_to_string(place.join(SAMPLES_OF)).is_ok_and(|of| of == SAMPLES_PACKAGE) {
        return Ok(true);
    }
    println!("tools: bringing the sample files of {SAMPLES_PACKAGE} into {}", place.display());
    match bring(&place, &python) {
        Ok(()) => Ok(true),
        Err(error) => {
            println!("tools: {error:#}: the tests of trees and ntuples from Python need them");
            Ok(false)
        }
    }
}

fn bring(place: &Path, python: &Path) -> Result<()> {
    if place.exists() {
        std::fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    std::fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    run(pip.args(["--no-binary", SAMPLES_NAME, SAMPLES_PACKAGE, "--dest"]).arg(place))?;
    let archives = std::fs::read_dir(place).with_context(|| format!("cannot list {}", place.display()))?;
    for archive in archives {
        let archive = archive.context("cannot list the samples")?.path();
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(place);
        run(tar.args(["--strip-components=3", "--wildcards", SAMPLES_IN_ARCHIVE]))?;
        std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))?;
    }
    std::fs::write(place.join(SAMPLES_OF), SAMPLES_PACKAGE).context("cannot note which samples there are")
}

fn environment() -> Result<bool> {
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
