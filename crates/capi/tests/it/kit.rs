//! Builds the C tests with the system's compiler against our headers and libraries, and runs them in pools of their own.

#[path = "../../../../xtask/src/capi/link.rs"]
pub(crate) mod link;

use dolmen_client::Label;
use dolmen_local::PoolOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock};

/// Makes a `#[test]` of each test of a C program, and one that none is left out.
macro_rules! c_tests {
    ($program:literal: $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            $crate::kit::run($program, stringify!($name));
        })*

        #[test]
        fn every_test_of_the_program_runs() {
            assert_eq!($crate::kit::names($program), [$(stringify!($name)),*]);
        }
    };
}
pub(crate) use c_tests;

/// The directory of this crate.
pub(crate) fn capi() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that was built with these tests.
pub(crate) fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libdolmen_capi.so")
}

/// Where things of this run lie; each run of the tests has a place of its own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{}", std::process::id())).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The directory with the libraries.
pub(crate) fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let dir = scratch("lib");
        link::libraries(&built(), capi(), &dir).unwrap();
        dir
    })
}

/// Compiles a program of `tests/c` once.
pub(crate) fn program(name: &str) -> PathBuf {
    type Built = BTreeMap<String, Arc<OnceLock<PathBuf>>>;
    // Guards: which programs are built; taken alone.
    static PROGRAMS: Mutex<Built> = Mutex::new(BTreeMap::new());
    let cell = Arc::clone(PROGRAMS.lock().unwrap().entry(name.to_owned()).or_default());
    let libraries = ["daos", "dfs", "duns", "daos_common", "gurt"];
    cell.get_or_init(|| compile(name, name, &libraries)).clone()
}

/// Compiles a program of `tests/c` and links it with these libraries alone.
pub(crate) fn compile(source: &str, name: &str, link_with: &[&str]) -> PathBuf {
    let out = scratch("bin").join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(capi().join("include"));
    cc.arg("-o").arg(&out).arg(capi().join("tests/c").join(format!("{source}.c"))).arg("-L").arg(libraries());
    cc.arg(format!("-Wl,-rpath,{}", libraries().display()));
    cc.args(link_with.iter().map(|library| format!("-l{library}")));
    let done = cc.output().unwrap();
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    out
}

/// A system with one pool of two targets, labelled `pool`: a copy of one that is made once.
pub(crate) fn system(name: &str) -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = scratch("system");
        let options = PoolOptions {
            targets: 2,
            label: Some(Label::new("pool").unwrap()),
            capacity_bytes: 256 << 20,
            volatile: true,
            ..PoolOptions::default()
        };
        dolmen_local::create(&dir.join("first"), &options).unwrap();
        dir
    });
    let dir = scratch("systems").join(name);
    // Two tests in one place would take each other's pools.
    assert!(!dir.exists(), "{name} is taken");
    copy_tree(made, &dir);
    dir
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy_tree(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

/// Runs what comes behind it, with all its children, for minutes at most: what waits for ever fails.
pub(crate) fn bounded() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "300"]);
    command
}

/// One test of a C program.
pub(crate) fn test_of(program_name: &str, test: &str) -> Command {
    let mut command = bounded();
    command.arg(program(program_name)).arg(test);
    command
}

/// Runs one test of a C program in a new system; it has to say that it came to its end.
pub(crate) fn run(program_name: &str, test: &str) {
    let dir = system(&format!("{program_name}-{test}"));
    let done = output(&dir, &mut test_of(program_name, test));
    assert_ended(&done, test);
    std::fs::remove_dir_all(dir).unwrap();
}

/// The same under valgrind: memory that is not the program's, or that it loses, fails the test.
pub(crate) fn run_watched(program_name: &str, test: &str) {
    let dir = system(&format!("valgrind-{program_name}-{test}"));
    let mut valgrind = bounded();
    valgrind.args(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.arg("--errors-for-leak-kinds=definite").arg(program(program_name)).arg(test);
    assert_ended(&output(&dir, &mut valgrind), test);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Runs a command whose system is `dir`.
pub(crate) fn output(dir: &Path, command: &mut Command) -> Output {
    command.env("DOLMEN_SYSTEM", format!("file:{}", dir.display())).current_dir(dir).output().unwrap()
}

/// Claims that a C program has run a test to its end.
pub(crate) fn assert_ended(done: &Output, test: &str) {
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{test}: {:?}\n{out}{err}", done.status);
    assert!(out.lines().any(|line| line == format!("ok {test}")), "{test}: {out}{err}");
}

/// The names of the tests of a C program.
pub(crate) fn names(program_name: &str) -> Vec<String> {
    let done = Command::new(program(program_name)).output().unwrap();
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}
