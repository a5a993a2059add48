//! Pools.

use crate::killed::process::Served;
use crate::kit::{self, c_tests};

c_tests!("pool":
    connections_tell_the_state,
    wrong_connections_are_refused,
    what_cannot_be_told_changes_no_answer,
    properties_are_told,
    targets_are_told,
    containers_are_listed,
    attributes_are_kept,
    attributes_without_a_value_or_a_name_are_refused,
    several_connections_share_a_pool,
    both_names_connect,
    handles_do_not_survive_a_fork,
    who_connects_exclusively_has_the_pool_alone,
    a_pool_that_is_not_there_does_not_exist,
);

/// Runs a test of a C program with a daemon.
pub(crate) fn assert_so_through_a_daemon(program: &str, test: &str) {
    let dir = kit::system(&format!("served-{test}"));
    let served = Served::start(&dir);
    let mut command = kit::test_of(program, test);
    command.current_dir(&dir).env("DOLMEN_SYSTEM", served.system(false));
    kit::assert_ended(&command.output().unwrap(), test);
    drop(served);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn who_connects_exclusively_has_the_pool_of_a_daemon_alone() {
    assert_so_through_a_daemon("pool", "who_connects_exclusively_has_the_pool_alone");
}

#[test]
fn who_asks_for_a_pool_that_is_not_there_is_told_where_it_was_looked_for() {
    const TEST: &str = "a_pool_that_is_not_there_does_not_exist";
    let dir = kit::system("told-where");
    let served = Served::start(&dir);
    let nowhere = dir.join("nowhere");
    let nowhere = format!("file:{}", nowhere.display());
    for system in [served.system(false), served.system(true), nowhere.clone()] {
        let mut command = kit::test_of("pool", TEST);
        let done = command.current_dir(&dir).env("DOLMEN_SYSTEM", &system).output().unwrap();
        kit::assert_ended(&done, TEST);
        let said = String::from_utf8(done.stderr).unwrap();
        let beginning = format!("dolmen: system {system}: ");
        assert_eq!((said.lines().count(), said.starts_with(&beginning)), (1, true), "{said}");
        assert_eq!(said.ends_with(": there is no pool \"nope\"\n"), system != nowhere, "{said}");
    }
    drop(served);
    let done = kit::output(&dir, &mut kit::test_of("pool", TEST));
    assert!(String::from_utf8(done.stderr).unwrap().ends_with(": there is no pool \"nope\"\n"));
    std::fs::remove_dir_all(dir).unwrap();
}
