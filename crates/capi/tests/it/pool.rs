//! Pools.

use crate::killed::process::Served;
use crate::kit::{self, c_tests};

c_tests!("pool":
    connections_tell_the_state,
    wrong_connections_are_refused,
    properties_are_told,
    targets_are_told,
    containers_are_listed,
    attributes_are_kept,
    attributes_without_a_value_or_a_name_are_refused,
    several_connections_share_a_pool,
    both_names_connect,
    handles_do_not_survive_a_fork,
    who_connects_exclusively_has_the_pool_alone,
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
