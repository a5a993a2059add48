//! The Python package on the extension module that was built beside this program: each file of `python/tests` is a test here.
//!
//! The package is laid together in a directory beside the module: links to the files of `python/dolmen`, and the module. Python is
//! that of `cargo xtask tools`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The directory of what was built: programs, and libraries as Cargo calls them.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// The Python with everything that the tests use.
fn python() -> PathBuf {
    // Above what was built, however far: below the target directory are those of mutants and of other machines.
    let built = built();
    let found =
        built.ancestors().map(|place| place.join("python-tests/bin/python")).find(|program| program.exists());
    found.expect("there is a Python for the tests; `cargo xtask tools` makes it")
}

/// A directory in which the package is, complete.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let place = built().join("python");
        // Another run may be using it: what is right stays, what is not is replaced in one step.
        let package = place.join("dolmen");
        fs::create_dir_all(&package).unwrap();
        let sources = root().join("python/dolmen");
        let mut wanted: BTreeSet<OsString> = BTreeSet::new();
        for entry in fs::read_dir(&sources).unwrap() {
            let name = entry.unwrap().file_name();
            if name != "__pycache__" {
                lead(&package.join(&name), &sources.join(&name));
                wanted.insert(name);
            }
        }
        // Tests have libraries built there, and only there.
        lead(&package.join("_dolmen.abi3.so"), &built().join("deps/lib_dolmen.so"));
        wanted.insert("_dolmen.abi3.so".into());
        for entry in fs::read_dir(&package).unwrap() {
            let entry = entry.unwrap();
            if !wanted.contains(&entry.file_name()) && entry.file_name() != "__pycache__" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        announce(&place.join("dolmen-0.dist-info"));
        place
    })
}

/// Has the package found as an installed one is, with what it offers to others.
fn announce(info: &Path) {
    let project = fs::read_to_string(root().join("pyproject.toml")).unwrap();
    let (_, offered) = project.split_once("[project.entry-points.\"fsspec.specs\"]\n").unwrap();
    let (name, class) = offered.lines().next().unwrap().split_once(" = ").unwrap();
    fs::create_dir_all(info).unwrap();
    let offered = format!("[fsspec.specs]\n{name} = {}\n", class.trim_matches('"'));
    for (file, text) in
        [("METADATA", "Metadata-Version: 2.4\nName: dolmen\nVersion: 0\n"), ("entry_points.txt", &offered)]
    {
        let new = info.join(format!("new-{}", std::process::id()));
        fs::write(&new, text).unwrap();
        fs::rename(&new, info.join(file)).unwrap();
    }
}

/// Has a link lead somewhere.
fn lead(link: &Path, to: &Path) {
    if fs::read_link(link).is_ok_and(|leads| leads == to) {
        return;
    }
    let new = link.with_extension(format!("new-{}", std::process::id()));
    symlink(to, &new).unwrap();
    fs::rename(&new, link).unwrap();
}

/// A command in which the package is found.
fn command() -> Command {
    let mut command = Command::new(python());
    command.env("PYTHONPATH", package()).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root());
    command.env("DOLMEN", built().join("dolmen")).env_remove("DOLMEN_SYSTEM").stdin(Stdio::null());
    command
}

/// Where `cargo xtask tools` brings the samples of experiments to.
fn samples() -> PathBuf {
    let target = built().parent().unwrap().to_owned();
    let places = [target.join("samples"), target.parent().unwrap().join("samples")];
    let found = places.iter().find(|place| place.join("package.txt").exists());
    found.expect("there are samples for the tests; `cargo xtask tools` brings them").clone()
}

/// Runs the tests of one file, which say at the end how many there were.
fn passes(file: &str) {
    let path = Path::new("python/tests").join(file);
    let mut command = command();
    if file == "test_trees.py" {
        let shows = built().join("examples/show_tree");
        assert!(shows.exists(), "build it with `cargo build -p dolmen-rntuple --example show_tree`");
        command.env("SHOW_TREE", shows);
    }
    if ["test_trees.py", "test_ntuple_samples.py"].contains(&file) {
        command.env("SAMPLES", samples());
    }
    let options =
        ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--color=no", "--strict-markers", "-o"];
    let limits = ["faulthandler_timeout=120", "-o", "faulthandler_exit_on_timeout=true"];
    let status =
        command.args(options).args(limits).arg("--tb=short").arg("--no-header").arg(path).status().unwrap();
    assert!(status.success(), "python/tests/{file} ended with {status}");
}

#[test]
fn key_value_stores() {
    passes("test_kv.py");
}

#[test]
fn transactions_and_snapshots() {
    passes("test_tx.py");
}

#[test]
fn arrays_and_objects() {
    passes("test_array.py");
}

#[test]
fn pools_containers_and_errors() {
    passes("test_pool.py");
}

#[test]
fn threads_forks_and_signals() {
    passes("test_process.py");
}

#[test]
fn types_and_documentation() {
    passes("test_types.py");
}

#[test]
fn files_and_libraries_on_them() {
    passes("test_files.py");
}

#[test]
fn coroutines() {
    passes("test_aio.py");
}

#[test]
fn coroutines_over_ntuples() {
    passes("test_ntuple_aio.py");
}

#[test]
fn documentation() {
    passes("test_docs.py");
}

#[test]
fn handles_of_this_process() {
    passes("test_handles.py");
}

#[test]
fn certificates_over_a_network() {
    passes("test_network.py");
}

#[test]
fn trees_of_experiments() {
    passes("test_trees.py");
}

#[test]
fn ntuples_in_files() {
    passes("test_ntuple_made.py");
}

#[test]
fn ntuples_of_experiments() {
    passes("test_ntuple_samples.py");
}

#[test]
fn ntuples_in_containers() {
    passes("test_ntuple_store.py");
}

#[test]
fn ntuples_whose_fields_begin_later() {
    passes("test_ntuple_late.py");
}

#[test]
fn ntuples_that_are_appended_to_and_trees() {
    passes("test_ntuple_appended.py");
}

#[test]
fn what_wrong_arguments_of_ntuples_are_told() {
    passes("test_ntuple_told.py");
}

#[test]
fn what_is_ended_before_it_is_done() {
    passes("test_ntuple_ended.py");
}

#[test]
fn ntuples_in_object_stores() {
    passes("test_ntuple_s3.py");
}

#[test]
fn ntuples_by_what_is_read_together() {
    passes("test_ntuple_trace.py");
}

#[test]
fn every_file_of_tests_is_run() {
    let found = fs::read_dir(root().join("python/tests")).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = found
        .map(|name| name.into_string().unwrap())
        .filter(|name| name.starts_with("test_") && name.ends_with(".py"))
        .collect();
    let own = include_str!("main.rs");
    for name in found {
        assert!(own.contains(&format!("passes(\"{name}\")")), "no test runs python/tests/{name}");
    }
}
