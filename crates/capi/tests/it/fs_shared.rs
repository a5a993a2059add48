//! Files through a daemon: of several processes, and the tests of one process once more.

use crate::kit;
use dolmen_daemon::{Daemon, Settings};
use std::process::Output;

/// Runs a test of a C program in a new system with a daemon.
fn run(program: &str, test: &str) -> Output {
    let dir = kit::system(&format!("d-{program}-{test}"));
    let daemon = Daemon::start(&Settings::new(dir.clone()), |_| {}).unwrap();
    let socket = dir.join(Settings::SOCKET_NAME);
    let system = format!("unix:{}", socket.display());
    let done = kit::test_of(program, test).env("DOLMEN_SYSTEM", system).current_dir(&dir).output().unwrap();
    kit::assert_ended(&done, test);
    daemon.stop().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    done
}

#[test]
fn two_processes_share_a_file_system() {
    assert!(run("fs_shared", "two_processes_share_a_file_system").status.success());
}

#[test]
fn many_processes_fill_a_directory() {
    let done = run("fs_shared", "many_processes_fill_a_directory");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(!told.contains("no entry names"), "{told}");
    assert!(told.contains("2 directories, 500 files"), "{told}");
}

#[test]
fn checks_take_nothing_from_who_writes_beside_them() {
    assert!(run("fs_shared", "checks_take_nothing_from_who_writes_beside_them").status.success());
}

#[test]
fn what_one_process_does_with_files_it_does_through_a_daemon() {
    for program in ["fs_attrs", "fs_event", "fs_files", "fs_global", "fs_names", "fs_sys", "fs_threads"] {
        let tests = kit::names(program);
        assert!(!tests.is_empty());
        tests.iter().for_each(|test| drop(run(program, test)));
    }
}
