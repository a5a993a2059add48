//! What is launched is under way until somebody polls, in one process and with a daemon that stands still meanwhile.

use crate::killed::process::Served;
use crate::kit::{self, c_tests};

c_tests!("later":
    arrays_are_written_read_and_cut_when_somebody_polls,
    keys_are_listed_and_queried_when_somebody_polls,
    stores_are_listed_when_somebody_polls,
    transactions_are_committed_when_somebody_polls,
    what_takes_several_requests_goes_on_when_somebody_polls,
    arrays_are_cut_and_changed_in_transactions_when_somebody_polls,
    large_updates_with_conditions_go_on_when_somebody_polls,
    a_queue_is_given_up_although_nobody_answers,
    the_library_ends_although_nobody_answers,
);

#[test]
fn no_launch_waits_for_a_daemon_that_stands_still() {
    assert_no_launch_waits("later");
}

/// Runs the tests of a C program each with a daemon that they make stand still.
pub(crate) fn assert_no_launch_waits(program: &str) {
    for test in kit::names(program) {
        let dir = kit::system(&format!("still-{test}"));
        let served = Served::start(&dir);
        let mut command = kit::test_of(program, &test);
        command
            .current_dir(&dir)
            .env("DOLMEN_SYSTEM", served.system(false))
            .env("DAEMON_PID", served.id().to_string());
        kit::assert_ended(&command.output().unwrap(), &test);
        drop(served);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
