//! Objects through a daemon: the tests of one process run there once more.

use crate::kit;
use dolmen_daemon::{Daemon, Settings};

/// Runs a test of a C program in a new system with a daemon.
fn run(program: &str, test: &str) {
    let dir = kit::system(&format!("o-{program}-{test}"));
    let daemon = Daemon::start(&Settings::new(dir.clone()), |_| {}).unwrap();
    let system = format!("unix:{}", dir.join(Settings::SOCKET_NAME).display());
    let done = kit::test_of(program, test).env("DOLMEN_SYSTEM", system).current_dir(&dir).output().unwrap();
    kit::assert_ended(&done, test);
    daemon.stop().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_one_process_does_with_objects_it_does_through_a_daemon() {
    for program in ["obj", "kv", "array", "tx", "event", "cont", "snap", "global"] {
        let tests = kit::names(program);
        assert!(!tests.is_empty());
        tests.iter().for_each(|test| run(program, test));
    }
}

#[test]
fn forked_processes_go_on_with_handles_and_blobs() {
    let tests = kit::names("reinit");
    assert_eq!(tests.len(), 6);
    tests.iter().for_each(|test| run("reinit", test));
}
